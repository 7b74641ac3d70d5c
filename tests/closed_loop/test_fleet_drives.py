"""Several vehicles in one world: they repeat, see each other, collide, and go on when one dies."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import time
from math import hypot
from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace

from sim_backend.connection import START_NS
from sim_backend.fleet.__main__ import _fleet
from sim_backend.fleet.fleet import Fleet, FleetMember
from sim_backend.fleet.order import FleetOrder, VehicleOrder
from sim_backend.options import world_setup
from sim_backend.world import SIMULATED_UTC_NS
from tests.busy_computer import DEADLINE_S
from tests.closed_loop.conftest import ROOT, command, sim
from vehicled.core.errors import SetupError
from vehicled.core.messages import GroundTruth, NeighbourState, ObstacleContact
from vehicled.log.reader import LogReader
from vehicled.profile import load_profile
from vehicled.run import fleet_processes
from vehicled.run.fleet import course_from, parse_vehicle, plan_fleet, read_fleet, seed_of
from vehicled.run.fleet_bridges import FleetBridges
from vehicled.run.fleet_processes import drive_fleet
from vehicled.run.fleet_result import FleetOutcome, VehicleResult, digest_of
from vehicled.run.plan import course_of
from vehicled.run.spec import RunSpec
from vehicled.runtime.simulator import add_options

ART = load_profile("art")
SCANNER = """set = [
    "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45, 0.0, 0.15]",
]
"""
STANDING = """[[vehicle]]
name = "standing"
profile = "art"
course = "straight_20m"
from_m = 5.0
delay_s = 25.0
"""
MOVING = """[[vehicle]]
name = "moving"
profile = "art"
course = "straight_20m"
"""


def fleet_file(folder: Path, text: str) -> list[str]:
    (folder / "fleet.toml").write_text(text)
    return ["--fleet", str(folder / "fleet.toml")]


def fleet(*arguments: str):
    """Drive a fleet; return status, the vehicles by name, the whole result and the text output."""
    status, result, said = sim("--json", "--quiet", *arguments)
    assert result, said
    return status, {each["name"]: each for each in result["vehicles"]}, result, said


def messages(log: str, kind):
    with LogReader(log) as reader:
        return [each.message for each in reader.messages(kind)]


THREE = """[[vehicle]]
name = "a"
profile = "art"
course = "straight_20m"

[[vehicle]]
name = "b"
profile = "art"
course = "straight_20m"
from_m = 1.2
delay_s = 2.0

[[vehicle]]
name = "c"
profile = "hunter_se"
course = "straight_20m"
from_m = 6.0
""" + SCANNER.replace("0.45", "0.8")


def test_three_vehicles_that_see_and_touch_each_other_repeat(tmp_path):
    options = [*fleet_file(tmp_path, THREE), "--duration", "3", "--no-log"]
    _, vehicles, first, _ = fleet(*options)
    assert [each["what"] for each in vehicles["a"]["contacts"]][:1] == ["b"]
    assert [each["what"] for each in vehicles["b"]["contacts"]][:1] == ["a"]
    assert vehicles["c"]["driven_m"] > 0.5
    _, _, again, _ = fleet(*options)
    assert len(first["digest"]) == 64
    assert again["digest"] == first["digest"]
    _, _, other, _ = fleet(*options, "--seed", "2")
    assert other["digest"] != first["digest"]


@pytest.mark.soak
def test_ten_vehicles_repeat():
    options = [f"--vehicle=v{k}=art,course=circle_r25_ccw,from_m={k * 4}" for k in range(8)]
    options += ["--vehicle=x=hunter_se,course=circle_r25_ccw,from_m=-8"]
    options += ["--vehicle=y=f1tenth_gnss,course=circle_r25_ccw,from_m=-12"]
    _, vehicles, first, _ = fleet(*options, "--duration", "5", "--no-log")
    assert len(vehicles) == 10
    _, _, again, _ = fleet(*options, "--duration", "5", "--no-log")
    assert again["digest"] == first["digest"] != ""


def test_a_vehicle_that_meets_nobody_drives_as_if_it_were_alone():
    """The grants and bytes of each daemon are those of a simulator of its own."""
    alone = ["--profile", "art", "--course", "circle_r2_ccw", "--seed", "7"]
    _, single, _ = sim("--json", "--quiet", "--no-log", *alone, "--duration", "3")
    _, vehicles, _, _ = fleet(
        "--vehicle", "a=art,course=circle_r2_ccw,seed=7",
        "--vehicle", "b=hunter_se,course=circle_r25_ccw,from_m=20", "--duration", "3", "--no-log",
    )  # fmt: skip
    assert vehicles["a"]["digest"] == single["digest"]
    assert vehicles["b"]["driven_m"] > 0.5


def test_a_scanner_sees_a_vehicle_that_stands_and_stops_before_it(tmp_path):
    options = fleet_file(tmp_path, STANDING + MOVING + SCANNER)
    _, vehicles, _, _ = fleet(*options, "--duration", "9", "--log", str(tmp_path))
    moving = vehicles["moving"]
    assert "obstacle ahead" in moving["why"]
    assert moving["contacts"] == vehicles["standing"]["contacts"] == []
    front_m, rear_m, _ = ART.vehicle.outline
    end = messages(moving["log"], GroundTruth)[-1]
    gap_m = 5.0 - rear_m - (end.x_m + front_m)
    assert 0.05 < gap_m < 1.5
    assert Path(moving["log"]).parent == tmp_path / "moving"
    assert Path(vehicles["standing"]["log"]).parent == tmp_path / "standing"


def test_a_blind_vehicle_runs_into_one_that_stands_and_pushes_it(tmp_path):
    options = fleet_file(tmp_path, STANDING.replace("5.0", "2.0", 1) + MOVING)
    status, vehicles, _, _ = fleet(*options, "--duration", "5", "--log", str(tmp_path))
    assert status == 1
    moving, standing = vehicles["moving"], vehicles["standing"]
    impact, felt = moving["contacts"][0], standing["contacts"][0]
    assert (impact["what"], felt["what"]) == ("standing", "moving")
    assert impact["speed_mps"] == felt["speed_mps"] > 0.3
    logged = messages(moving["log"], ObstacleContact)
    assert logged[0].what == "standing"
    stood = messages(standing["log"], GroundTruth)[-1]
    came = next(each for each in messages(moving["log"], GroundTruth) if each.t_ns == stood.t_ns)
    front_m, rear_m, _ = ART.vehicle.outline
    assert hypot(stood.x_m - 2.0, stood.y_m) > 0.01, "it was pushed"
    assert stood.x_m - came.x_m > front_m + rear_m - 0.02, "neither entered the other"


def test_a_contact_ends_the_run_of_those_who_ask_for_it(tmp_path):
    options = fleet_file(tmp_path, STANDING.replace("5.0", "1.5", 1) + MOVING)
    _, vehicles, _, _ = fleet(*options, "--end-on-contact", "--no-log", "--duration", "20")
    assert "contact with standing" in vehicles["moving"]["why"]
    assert "contact with moving" in vehicles["standing"]["why"]


WRONG = {
    "a=art|a=art": "two vehicles are called a: give each a name of its own",
    "a=arx|b=art": r'vehicle a: profile "arx"[\s\S]*did you mean "art"',
    "a=art|b=art": r"vehicle b would start inside vehicle a, at \(.*with from_m",
    "A/b=art": "a name has 1 to 32 small letters",
    "a": "write NAME=PROFILE",
    "a=art,colour=red": "colour",
    "a=art,laps": "is no KEY=VALUE",
    "a=art,course=straight_20m,from_m=30": r"20.0 m long; give 0 to 19.0",
    "a=art,course=straight_20m,laps=2": "vehicle a: .*an open course has no laps",
    "a=art,fail=gnss:melt@3": "vehicle a: .*melt",
    "a=art,start=push": "start",
    "a=art,sim.step_ms=2|b=art,from_m=9": "sim.step_ms 2 and vehicle b 1: give both the same",
}


@pytest.mark.parametrize("vehicles", WRONG)
def test_bad_input_is_refused_with_the_cure(vehicles):
    options = [word for each in vehicles.split("|") for word in ("--vehicle", each)]
    status, out, said = command("sim", "--no-log", *options)
    assert status == 2
    assert not out
    assert re.search(WRONG[vehicles], said), said


def test_courses_of_different_maps_are_refused(tmp_path):
    rows = "".join(f"{x},30.0\n" for x in range(20))
    (tmp_path / "far.csv").write_text(f"# datum_deg: 50.0, 8.0, 100\nx,y\n{rows}")
    status, _, said = command(
        "sim", "--no-log", "--vehicle", "a=art,course=straight_20m",
        "--vehicle", f"b=art,course={tmp_path}/far.csv",
    )  # fmt: skip
    assert status == 2
    assert "whose maps have different origins on the earth" in said


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("vehicle = 3", "vehicle"),
        ('[[vehicle]]\nname = "a"\nprofil = "art"', "profile"),
        ("", "a fleet has 1 to 64 vehicles"),
        ("seed = -1", "seed"),
        ("[[vehicle]\n", "line 1"),
    ],
)
def test_mistakes_of_a_file_are_named(tmp_path, text, cure):
    status, _, said = command("sim", "--no-log", *fleet_file(tmp_path, text))
    assert status == 2
    assert cure in said


def test_options_that_belong_to_one_vehicle_are_refused():
    for option in (["--fail", "gnss:off@1"], ["--connect", "unix:/x"]):
        status, _, said = command("sim", "--vehicle", "a=art", *option)
        assert status == 2
        assert option[0] in said
    status, _, said = command("sim", "--fleet", "missing.toml")
    assert status == 2
    assert "missing.toml" in said


@pytest.mark.parametrize(
    ("options", "cure"),
    [
        (["--ros2-commands"], "needs --ros2"),
        (["--ros2-autoware"], "needs --ros2"),
        (["--mavlink-commands"], "needs --mavlink"),
        (["--mavlink"], "needs --clock wall"),
        (["--mavlink", "udpin:0.0.0.0:14550", "--clock", "wall"], "use udp:HOST:PORT"),
        (["--mavlink", "--mavlink-id", "250", "--clock", "wall"], "use one up to 249"),
    ],
)
def test_options_of_bridges_that_cannot_be_are_refused_with_the_cure(options, cure):
    """They were ignored without ``--ros2`` and ``--mavlink``."""
    status, _, said = command("sim", "--vehicle", "a=art", "--vehicle", "b=art,from_m=5", *options)
    assert status == 2
    assert cure in said


def test_each_vehicle_has_a_domain_and_a_system_id_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("ROS_DOMAIN_ID", "3")
    spec = RunSpec(
        profile="art", clock="wall", ros2="", ros2_commands=True,
        mavlink="udp:127.0.0.1:14550", mavlink_id=7,
    )  # fmt: skip
    entries = [parse_vehicle("b=art"), parse_vehicle("a=art,from_m=5")]
    bridges = FleetBridges.of(plan_fleet(entries, spec, tmp_path), spec)
    assert bridges.environment == {"a": {"ROS_DOMAIN_ID": "3"}, "b": {"ROS_DOMAIN_ID": "4"}}
    assert [each[-1] for each in bridges.arguments.values()] == ["7", "8"]
    assert bridges.arguments["b"][:2] == ["--ros2=", "--ros2-commands"]
    assert "a 3, b 4" in bridges.text


def test_the_traffic_of_a_fleet_is_drawn_from_its_seed():
    arguments = ["--profile", "hunter_se", "--course", "intersection/north", "--listen", "fd:0"]
    arguments += ["--scene", "intersection", "--set", "sim.traffic.vehicles=3"]
    places = []
    for seed in (1, 2):
        order = FleetOrder(
            vehicles=[VehicleOrder(name="a", arguments=arguments)], timeout_s=1.0, greeting_s=1.0,
            seed=seed,
        )  # fmt: skip
        options = argparse.ArgumentParser(allow_abbrev=False)
        add_options(options)
        member = FleetMember("a", world_setup(options.parse_args(arguments)))
        places.append(_fleet([member], order, START_NS, SIMULATED_UTC_NS).cars)
    assert len(places[0]) == 3
    assert places[0] != places[1]


def test_a_scene_along_the_course_of_each_vehicle_is_refused(tmp_path):
    (tmp_path / "corridor.toml").write_text("[corridor]\nleft_m = 2.5\nright_m = 2.5\n")
    status, _, said = command(
        "sim", "--no-log", "--scene", str(tmp_path / "corridor.toml"),
        "--vehicle", "a=art,course=straight_20m", "--vehicle", "b=art,course=circle_r5_ccw",
    )  # fmt: skip
    assert status == 2
    assert "would drive in different scenes" in said


def driven(
    folder: Path, hurt, timeout_s: float = 60.0, clock: Literal["lockstep", "wall"] = "lockstep"
) -> FleetOutcome:
    """Drive two vehicles for three seconds; ``hurt`` gets the process of b once it drives."""
    entries = [
        parse_vehicle("a=art,course=straight_20m"),
        parse_vehicle("b=art,course=straight_20m,from_m=6"),
    ]
    spec = RunSpec(
        profile="art", duration_s=3.0 if clock == "lockstep" else 6.0, log_folder=None, seed=3,
        clock=clock, shared_clock=clock == "wall",
    )  # fmt: skip
    plan = plan_fleet(entries, spec, folder)
    processes: dict[str, int] = {}
    hurt_at: list[float] = []

    def progress(news):
        if not hurt_at and news.driven_m["b"] > 0.3:
            hurt_at.append(news.time_s)
            hurt(processes["b"])

    end = drive_fleet(plan, timeout_s, progress=progress, on_daemons=processes.update, trace=True)
    assert hurt_at
    return FleetOutcome.of(plan, end)


@pytest.fixture
def _quick_news(monkeypatch):
    """Let the simulator report at each turn, so that b is hurt while it drives."""
    monkeypatch.setattr("sim_backend.fleet.__main__.REPORT_S", 0.0)


@pytest.mark.usefixtures("_quick_news")
def test_a_daemon_that_is_killed_leaves_its_vehicle_and_the_others_go_on(tmp_path, capsys):
    outcome = driven(tmp_path, lambda pid: os.kill(pid, signal.SIGKILL))
    a, b = outcome.vehicles
    assert a.why == "stopped by the time limit"
    assert a.ended_s > b.ended_s
    assert b.status == -signal.SIGKILL
    assert "its daemon was killed by signal 9 at" in b.why
    assert abs(b.trace[-1][4]) < 0.05 < max(row[4] for row in b.trace), "it came to rest"
    assert len(b.trace) == len(a.trace), "the others see it until the end"
    assert outcome.digest == ""
    assert outcome.status == 1
    outcome.show()
    shown = capsys.readouterr().out
    assert "none: b gave no result" in shown


@pytest.mark.usefixtures("_quick_news")
def test_a_daemon_that_hangs_is_left_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_processes, "LAST_WAIT_S", 1.0)
    outcome = driven(tmp_path, lambda pid: os.kill(pid, signal.SIGSTOP), timeout_s=10.0)
    a, b = outcome.vehicles
    assert a.why == "stopped by the time limit"
    assert "has not answered for 10 s" in b.why
    assert "left behind" in b.why
    assert b.awaited_s > 5.0


@pytest.mark.xdist_group("wall")
@pytest.mark.usefixtures("_quick_news")
def test_in_real_time_a_daemon_that_is_killed_holds_nobody_up(tmp_path):
    outcome = driven(tmp_path, lambda pid: os.kill(pid, signal.SIGKILL), clock="wall")
    a, b = outcome.vehicles
    assert a.why == "stopped by the time limit"
    assert a.ended_s > b.ended_s
    assert "its daemon was killed by signal 9 at" in b.why
    assert abs(b.trace[-1][4]) < 0.05 < max(row[4] for row in b.trace), "it came to rest"


@pytest.mark.xdist_group("wall")
@pytest.mark.usefixtures("_quick_news")
def test_in_real_time_a_daemon_that_hangs_stops_its_own_vehicle_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_processes, "LAST_WAIT_S", 1.0)
    outcome = driven(
        tmp_path, lambda pid: os.kill(pid, signal.SIGSTOP), timeout_s=2.0, clock="wall"
    )
    a, b = outcome.vehicles
    assert a.why == "stopped by the time limit"
    assert "has not answered for 2 s" in b.why
    stood = [row for row in zip(a.trace, b.trace, strict=True) if row[0][0] < b.ended_s]
    assert stood[-1][1][1] == stood[-5][1][1], "its own time stood"
    assert stood[-1][0][1] > stood[-5][0][1], "the other one drove on"
    assert abs(b.trace[-1][4]) < 0.05, "left behind, it came to rest"


SLOW = """import time
from vehicled.control.pure_pursuit import PurePursuit

class Slow(PurePursuit):
    def step(self, estimate, now_ns):
        time.sleep(0.03)
        return super().step(estimate, now_ns)
"""


@pytest.mark.xdist_group("wall")
def test_in_real_time_a_slow_controller_misses_its_own_deadlines_alone(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    _, vehicles, _, _ = fleet(
        "--clock", "wall", "--no-log", "--duration", "6",
        "--vehicle", "a=art,course=straight_20m",
        "--vehicle", f"b=art,course=straight_20m,from_m=9,controller={tmp_path}/slow.py:Slow",
    )  # fmt: skip
    a, b = vehicles["a"], vehicles["b"]
    assert a["why"] == "stopped by the time limit"
    assert a["driven_m"] > 1.0 > b["driven_m"]
    # On a busy computer everybody misses some.
    assert b["missed"] > max(50, 2 * a["missed"])


@pytest.mark.xdist_group("wall")
def test_in_real_time_vehicles_see_each_other_and_reach_their_devices_by_wires(tmp_path):
    options = fleet_file(tmp_path, STANDING.replace("5.0", "3.0", 1) + MOVING + SCANNER)
    _, vehicles, result, _ = fleet(
        *options,
        "--clock",
        "wall",
        "--duration",
        "6",
        "--no-log",
    )
    assert result["clock"] == "wall"
    assert "obstacle ahead" in vehicles["moving"]["why"]
    assert vehicles["moving"]["contacts"] == []
    _, vehicles, _, _ = fleet(
        "--clock", "wall", "--link", "wires", "--duration", "3", "--no-log",
        "--vehicle", "a=art,course=straight_20m", "--vehicle", "b=art,course=straight_20m,from_m=9",
    )  # fmt: skip
    assert all(each["driven_m"] > 0.3 for each in vehicles.values())


def test_a_simulator_that_fails_ends_all_runs_with_the_brake(tmp_path, monkeypatch):
    advance = Fleet.advance

    def failing(self, to_ns):
        if to_ns > 2_000_000_000:
            raise RuntimeError("no more memory")
        advance(self, to_ns)

    monkeypatch.setattr(Fleet, "advance", failing)
    options = ["--vehicle", "a=art", "--vehicle", "b=art,from_m=5", "--no-log"]
    status, vehicles, result, said = fleet(*options)
    assert status == 1
    assert "no more memory" in result["failure"]
    assert "no more memory" in said
    for each in vehicles.values():
        assert "the simulator ends: no more memory" in each["why"]
        assert "the brake was commanded" in each["why"]


def test_a_vehicle_whose_plant_fails_ends_alone(tmp_path):
    (tmp_path / "plant.py").write_text(
        "from sim_backend.plant.four_dof import FourDof\n"
        "class Failing(FourDof):\n"
        "    steps = 0\n"
        "    def step(self, throttle, brake, wheel_angle_rad):\n"
        "        self.steps += 1\n"
        "        if self.steps > 800: raise ValueError('the gearbox is empty')\n"
        "        super().step(throttle, brake, wheel_angle_rad)\n"
    )
    plant = f"sim.plant={tmp_path / 'plant.py'}:Failing"
    _, vehicles, _, _ = fleet(
        "--vehicle", f"a=art_published,{plant}", "--vehicle", "b=art,from_m=5",
        "--no-log", "--duration", "1.5",
    )  # fmt: skip
    assert "the gearbox is empty" in vehicles["a"]["why"]
    assert vehicles["b"]["ended_s"] > vehicles["a"]["ended_s"] + 0.3
    assert vehicles["b"]["driven_m"] > 0.0


def test_ctrl_c_stops_every_vehicle(tmp_path):
    """The command runs in processes of its own."""
    process = subprocess.Popen(
        [
            sys.executable, "-m", "vehicled", "sim", "--json", "--no-log",
            "--vehicle", "a=art", "--vehicle", "b=art,from_m=5",
        ],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        assert process.stderr is not None
        assert any("2 of 2 drive" in line for line in process.stderr)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=DEADLINE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    for each in json.loads(out)["vehicles"]:
        assert "Ctrl-C" in each["why"]
        assert each["status"] == 130


def test_no_process_outlives_a_command_that_was_killed():
    process = subprocess.Popen(
        [
            sys.executable, "-m", "vehicled", "sim", "--no-log",
            "--vehicle", "a=art", "--vehicle", "b=art,from_m=5",
        ],
        cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    with process:
        assert process.stderr is not None
        assert any("2 of 2 drive" in line for line in process.stderr)
        listed = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        children = [Path("/proc", pid) for pid in listed.split()]
        assert len(children) == 3
        process.kill()
        end_s = time.monotonic() + DEADLINE_S
        while any(child.exists() for child in children):
            assert time.monotonic() < end_s
            time.sleep(0.05)


def test_the_slowest_daemon_is_named(capsys):
    vehicle = VehicleResult(
        name="a", profile="art", course="lot17", seed=1, finished=True, why="done", status=0,
        driven_m=1.0, laps=1.0, laps_asked=1, contacts=[], ended_s=10.0, awaited_s=9.0,
        missed=0, paused_s=0.0, digest="1", log="", warnings="",
    )  # fmt: skip
    other = replace(vehicle, name="b", awaited_s=1.0, digest="2")
    outcome = FleetOutcome(
        vehicles=[vehicle, other], digest=digest_of([other, vehicle]), run_s=10.0, wall_s=20.0,
        failure="", interrupted=False,
    )  # fmt: skip
    outcome.show()
    shown = capsys.readouterr().out
    assert "a: the others waited 9.0 s for it" in shown
    assert digest_of([vehicle, other]) in shown
    assert outcome.status == 0


def test_a_course_begins_where_it_is_asked_to():
    straight = course_of(ART, "straight_20m")
    later = course_from(straight, 5.0)
    assert later.x_m[0] == pytest.approx(5.0, abs=0.1)
    assert later.s_m[0] == 0.0
    assert later.length_m == pytest.approx(15.0, abs=0.1)
    assert later.x_m[-1] == straight.x_m[-1]
    with pytest.raises(SetupError, match=r"give 0 to 19\.0"):
        course_from(straight, -1.0)
    lap = course_of(ART, "circle_r5_ccw")
    assert course_from(lap, -3.0).length_m == lap.length_m


def test_vehicles_of_one_profile_have_seeds_of_their_own(tmp_path):
    assert seed_of(1, "a") != seed_of(1, "b") != seed_of(2, "b")
    file = read_fleet(Path(fleet_file(tmp_path, "seed = 3\n" + STANDING)[1]))
    assert file.seed == 3
    assert file.vehicle[0].from_m == 5.0


def test_a_convoy_follows_what_its_predecessor_broadcasts(tmp_path):
    folder = ROOT / "docs" / "examples" / "convoy"
    options = ["--fleet", str(folder / "convoy.toml"), "--duration", "7", "--log", str(tmp_path)]
    _, vehicles, result, _ = fleet(*options)
    assert list(vehicles) == ["v0", "v1", "v2", "v3"]
    truths = {
        name: {each.t_ns: each for each in messages(row["log"], GroundTruth)}
        for name, row in vehicles.items()
    }
    shared = set.intersection(*(set(each) for each in truths.values()))
    moving = [t_ns for t_ns in shared if truths["v3"][t_ns].speed_mps > 0.5]
    assert moving, "all drive"
    body_m = ART.vehicle.length_m
    for before, behind in (("v0", "v1"), ("v1", "v2"), ("v2", "v3")):
        gaps = [truths[before][t].x_m - truths[behind][t].x_m - body_m for t in moving]
        assert min(gaps) > 2.5
        assert max(gaps) < 5.5
    received = messages(vehicles["v1"]["log"], NeighbourState)
    senders = {each.sender for each in received}
    assert senders == {"v0", "v2", "v3"}
    assert any(each.plan_speed_mps for each in received), "it drives by itself"
    late_ms = [(each.t_rx_ns - each.t_ns) * 1e-6 for each in received]
    assert min(late_ms) >= 50.0
    stamps = [each.t_ns for each in received if each.sender == "v0"]
    sent = round((stamps[-1] - stamps[0]) * 1e-8) + 1
    assert 0.7 * sent < len(stamps) < sent, "a tenth is lost"
    _, _, again, _ = fleet(*options)
    assert again["digest"] == result["digest"]


def test_the_obstacle_stop_comes_in_time_at_a_crossing():
    """The page about fleets says so."""
    file = ROOT / "docs" / "examples" / "crossing" / "crossing.toml"
    _, vehicles, _, _ = fleet("--fleet", str(file), "--no-log", "--duration", "9")
    assert "is about to be in the lane" in vehicles["north"]["why"]
    assert not vehicles["east"]["contacts"]
    assert not vehicles["north"]["contacts"]


def test_a_vehicle_gives_way_by_messages_and_nobody_drives_without_them(tmp_path):
    """A tenth of the messages is lost, then all are."""
    folder = ROOT / "docs" / "examples" / "right_of_way"
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    text = (folder / "right_of_way.toml").read_text()
    _, vehicles, _, _ = fleet(
        *fleet_file(tmp_path, text), "--duration", "9", "--log", str(tmp_path)
    )
    assert not any(each["contacts"] for each in vehicles.values())
    east, north = (
        [each for each in messages(vehicles[name]["log"], GroundTruth) if 3e9 < each.t_ns < 10e9]
        for name in ("east", "north")
    )
    assert min(each.speed_mps for each in east) > 0.7, "it has the right of way"
    waits = [each.y_m for each in north if each.speed_mps < 0.05]
    assert waits
    assert -2.5 < min(waits) <= max(waits) < -0.9, "it waits before the crossing"
    plans = [each.plan_speed_mps for each in messages(vehicles["east"]["log"], NeighbourState)]
    assert any(plan and plan[0] > 0.7 and plan[-1] < 0.1 for plan in plans), "it says so before"
    lost = fleet_file(tmp_path, text.replace("loss = 0.1", "loss = 1.0"))
    _, vehicles, _, _ = fleet(*lost, "--duration", "3", "--no-log")
    assert max(each["driven_m"] for each in vehicles.values()) < 0.1


def test_a_follower_that_receives_nothing_stays_where_it_is(tmp_path):
    """All messages are lost, so the followers do not leave at all."""
    folder = ROOT / "docs" / "examples" / "convoy"
    text = (folder / "convoy.toml").read_text().replace("loss = 0.1", "loss = 1.0")
    for file in folder.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    options = fleet_file(tmp_path, text)
    _, vehicles, _, _ = fleet(*options, "--duration", "4", "--no-log")
    assert vehicles["v0"]["driven_m"] > 1.0
    assert vehicles["v1"]["driven_m"] < 0.1
