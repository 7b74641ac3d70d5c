"""Mixed reality in closed loop: virtual cars stop the vehicle at the real place, in lockstep and on
pseudo-terminals in wall time; a virtual world that dies or hangs is reported, and safe."""

import json
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

import vehicled as v
from bench.mixed_reality import CLASSES, driven
from tests.busy_computer import DEADLINE_S, wait_until
from tests.closed_loop.test_run_own_ports import VEHICLED, Vehicle, said
from vehicled.core.messages import (
    Event,
    Fault,
    GroundTruth,
    Message,
    StateEstimate,
    VirtualScan,
    VirtualWorld,
)
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.report.page import write_report
from vehicled.offline.replay.drive import IDENTICAL
from vehicled.run.mixed import MixedReality
from vehicled.run.plan import Plan
from vehicled.run.simulation import Simulated, SimulationSpec, simulate
from vehicled.run.spec import RunSpec

COURSE = "circle_r5_ccw"
POST = "[[circle]]\nat = { s_m = 4.0 }\nradius_m = 0.2\n"
FAR = "[[circle]]\nat = [50.0, 50.0]\nradius_m = 0.2\n"


@pytest.fixture
def scene(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str) -> Path:
        path = tmp_path / "scene.toml"
        path.write_text(text)
        return path

    return write


@pytest.mark.parametrize(("number", "kind"), list(enumerate(CLASSES)))
def test_a_virtual_car_in_the_way_stops_the_vehicle_in_time(number, kind):
    outcome = driven((kind, number))
    assert outcome.rule
    assert not outcome.failed, outcome
    assert not outcome.too_near, outcome


def test_a_log_of_mixed_reality_is_marked_and_replays_bit_by_bit(scene, tmp_path):
    run = v.simulate("art_vesc", COURSE, mixed=scene(POST), duration_s=6.0, log=tmp_path / "log")
    assert "a virtual body stands" in run.metrics.why
    assert run.metrics.mixed == "scene.toml"
    with LogReader(run.path) as reader:
        assert reader.header.mixed == "scene.toml"
        begun = [each.message for each in reader.messages(VirtualWorld)]
        scans = [each.message for each in reader.messages(VirtualScan)]
        assert reader.attachment("files/0/scene.toml").decode() == POST
    assert [world.name for world in begun] == ["scene.toml"]
    assert len(scans) > 50
    write_report(run.path, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert "Mixed reality: virtual bodies were added" in page
    assert "virtual bodies</span>" in page
    assert v.replay(run.path).verdict == IDENTICAL


def test_a_virtual_world_without_bodies_in_the_way_changes_no_frame(scene):
    alone, mixed = (
        v.simulate("art_vesc", COURSE, mixed=virtual, duration_s=3.0)
        for virtual in ("", scene(FAR))
    )
    assert mixed.metrics.digest == alone.metrics.digest
    assert mixed.metrics.frames == alone.metrics.frames


# ---------------------------------------------------------------- a virtual world that dies


@pytest.fixture
def worlds(monkeypatch) -> list[MixedReality]:
    """Virtual worlds that drives start."""
    started: list[MixedReality] = []
    start = MixedReality.start

    def kept(*arguments: Any) -> MixedReality:
        started.append(start(*arguments))
        return started[-1]

    monkeypatch.setattr(MixedReality, "start", kept)
    return started


def killed(
    scene: Path, worlds: list[MixedReality], loss: Literal["warn", "stop"]
) -> tuple[Simulated, list[Message]]:
    """Drive, and kill the virtual world after 3 s."""
    kept: list[Message] = []
    plan = Plan.of(
        RunSpec(
            profile="art_vesc", course=COURSE, duration_s=6.0, log_folder=None, mixed=str(scene),
            mixed_loss=loss,
        )
    )  # fmt: skip
    began: list[int] = []

    def kill(machine: Any, judge: Any, now_ns: int) -> None:
        began.append(now_ns)
        if now_ns - began[0] > 3_000_000_000 and worlds[0]._process.alive:
            os.kill(worlds[0]._process.pid, signal.SIGKILL)

    done = simulate(
        plan,
        SimulationSpec(in_process=True),
        listeners=[((Event, Fault), lambda message, log_time_ns: kept.append(message))],
        progress=kill,
    )
    return done, kept


def test_a_virtual_world_that_dies_is_reported_and_the_drive_goes_on(scene, worlds):
    done, kept = killed(scene(FAR), worlds, "warn")
    (lost,) = [each for each in kept if isinstance(each, Event) and "lost" in each.name]
    assert (lost.level, lost.name) == ("warning", "virtual_world_lost")
    assert "the drive goes on without it" in lost.fields
    assert not [each for each in kept if isinstance(each, Fault)]
    assert "the time limit" in done.result.why


def test_a_lost_virtual_world_stops_the_vehicle_if_asked(scene, worlds):
    done, kept = killed(scene(FAR), worlds, "stop")
    assert "the lost virtual world stands 0.00 m before the vehicle" in done.result.why
    (lost,) = [each for each in kept if isinstance(each, Event) and "lost" in each.name]
    fault = next(each for each in kept if isinstance(each, Fault))
    assert 0.0 < (fault.t_ns - lost.t_ns) * 1e-9 < 0.4


def test_before_the_first_pose_no_scan_is_asked_for(scene, worlds):
    kept: list[Message] = []
    plan = Plan.of(
        RunSpec(profile="art_vesc", course=COURSE, duration_s=2.0, log_folder=None,
                start_timeout_s=1.5, mixed=str(scene(POST)))
    )  # fmt: skip
    simulate(
        plan,
        SimulationSpec(in_process=True, failures=("gnss:off@0", "heading:off@0")),
        listeners=[((Event, VirtualScan), lambda message, log_time_ns: kept.append(message))],
    )
    events = [each for each in kept if isinstance(each, Event)]
    (waits,) = [each for each in events if each.name == "virtual_world_waits"]
    assert "no pose yet" in waits.fields
    assert not [each for each in kept if isinstance(each, VirtualScan)]


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no such file"),
        ("[[moving]]\nplaces = 3\n", "moving"),
        ("[[circle]]\nat = { s_m = 1.0, right_m = 2 }\nradius_m = 1\n", "s_m, left_m"),
        ("not toml", "scene.toml"),
    ],
)
def test_a_scene_that_cannot_be_read_is_refused_before_the_drive(tmp_path, text, why):
    path = tmp_path / "scene.toml"
    if text is not None:
        path.write_text(text)
    refused = said("sim", "--mixed", str(path), "--duration", "1", "--log", str(tmp_path / "log"))
    assert refused.returncode == 2
    assert "Traceback" not in refused.stderr
    assert why in refused.stderr
    assert not (tmp_path / "log").exists()


# ---------------------------------------------------------------- wall time


@pytest.fixture
def vehicle(tmp_path: Path) -> Iterator[Vehicle]:
    made = Vehicle(tmp_path, "art", str(tmp_path / "yard.csv"))
    (tmp_path / "yard.csv").write_text(
        "# name: yard\n# datum_deg: 43.0705, -89.4090, 230\n# closed: no\nx_m,y_m\n0,0\n5,0\n12,0\n"
    )
    yield made
    made.end()


def virtual_world_of(daemon: "subprocess.Popen[bytes]") -> int:
    """Return the process id of a daemon's virtual world."""
    children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
    for pid in children:
        if b"vehicled.offline.mixed.child" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return int(pid)
    raise AssertionError("no virtual world")


@pytest.mark.xdist_group("wall")
def test_a_vehicle_on_its_ports_stops_for_a_virtual_car(vehicle, scene):
    """Daemon, devices and virtual world are processes of their own, as on a real vehicle."""
    car = CLASSES["cuts in and stops"].replace("[14,", "[6,").replace("[16,", "[7,")
    car = car.replace("[17,", "[7.5,").replace("start_m = 9.0", "start_m = 2.0")
    path = scene(f"[[moving]]\n{car}radius_m = 0.25\n")
    daemon = vehicle.run("--mixed", str(path))
    vehicle.wait_for("port operator error")
    simulator = vehicle.plug_in()
    vehicle.wait_for("obstacle ahead: a virtual body stands")
    shown = json.loads(said("status", "--json").stdout)
    assert shown["mixed_reality"] == "scene.toml"
    os.kill(virtual_world_of(daemon), signal.SIGSTOP)
    vehicle.wait_for("virtual_world_behind")
    vehicle.wait_for("virtual_world_lost")
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.wait(DEADLINE_S) == 130
    os.kill(simulator.pid, signal.SIGINT)
    simulator.wait(DEADLINE_S)
    driven_m = float(vehicle.said("simulator").split("the vehicle drove ")[1].split()[0])
    assert 1.0 < driven_m < 7.0
    assert vehicle.log(VirtualScan)
    (world,) = vehicle.log(VirtualWorld)
    assert world.name == "scene.toml"


def has_pose(profile: str) -> bool:
    """Return True if the daemon of a profile knows where its vehicle is."""
    found = said("status", "--profile", profile, "--json")
    return found.returncode == 0 and json.loads(found.stdout)["estimate"]["x_m"] is not None


@pytest.mark.xdist_group("wall")
def test_a_simulated_vehicle_on_wires_stops_for_a_virtual_post_in_wall_time(scene):
    options = ("--set", "limits.loop_silence_s=5", "--set", "limits.arming_missed_share=1")
    done = said(
        "sim", "--profile", "art_vesc", "--course", COURSE, "--clock", "wall", "--link", "wires",
        "--mixed", str(scene(POST)), "--no-log", "--json", *options,
    )  # fmt: skip
    result = json.loads(done.stdout)
    assert "a virtual body stands" in result["why"], result
    assert result["mixed"] == "scene.toml"


@pytest.mark.xdist_group("wall")
def test_the_vehicle_of_another_daemon_blocks_the_lane(tmp_path):
    """Both drive the same straight in simulations of their own; the virtual one starts ahead."""
    ahead, behind = tmp_path / "ahead.csv", tmp_path / "behind.csv"
    for file, points in ((ahead, "4,0\n9,0\n14,0\n"), (behind, "0,0\n5,0\n14,0\n")):
        file.write_text(
            f"# name: {file.stem}\n# datum_deg: 43.0705, -89.4090, 230\n# closed: no\nx_m,y_m\n"
            + points
        )
    options = ["--clock", "wall", "--set", "limits.loop_silence_s=5", "--set",
               "limits.arming_missed_share=1"]  # fmt: skip
    person = subprocess.Popen(
        [*VEHICLED, "sim", "--profile", "art_vesc", "--course", str(ahead), "--by-hand", "--no-log",
         *options],
    )  # fmt: skip
    try:
        wait_until(lambda: has_pose("art_vesc"), person.poll, every_s=0.5)
        done = said(
            "sim", "--profile", "art", "--course", str(behind), "--log", str(tmp_path / "log"),
            "--mixed-vehicle", "art_vesc", "--json", *options,
        )  # fmt: skip
    finally:
        person.kill()
        person.wait()
    result = json.loads(done.stdout)
    assert "a virtual body stands" in result["why"], result
    assert result["mixed"] == "vehicle art_vesc"
    with LogReader(result["log"]) as reader:
        truth = [each.message for each in reader.messages(GroundTruth)]
        last = [each.message for each in reader.messages(StateEstimate)][-1]
    assert 1.0 < truth[-1].x_m < 4.0
    assert abs(truth[-1].x_m - last.x_m) < 0.5
