"""Whole drives in a motion capture room: three protocols on wires, what goes wrong in such rooms,
the room as judge, and the room as a GNSS receiver with noise."""

import json
import subprocess
import sys
from bisect import bisect_left
from math import hypot
from pathlib import Path

import pytest

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from tests.busy_computer import WIDE_LIMITS
from vehicled.core.messages import (
    Event,
    Fault,
    GroundTruth,
    Message,
    Mode,
    Reaction,
    ReferenceState,
    StateEstimate,
)
from vehicled.daemon.reference import ReferenceFrame
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.offline.replications.experiments.mocap_tracking import drive as experiment
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

PORTS = {
    "natnet": "udp:192.0.2.1:1510",
    "vicon": "udp:192.0.2.1:51001?listen=51001",
    "vrpn": "tcp:192.0.2.1:3883",
}


def system(name: str, **params: object) -> list[str]:
    """Overrides that put a motion capture system into the room."""
    values = {"body": "car", **params}
    return [
        f"devices.mocap.driver.name={name}",
        f'devices.mocap.port="{PORTS[name]}"',
        *(f"devices.mocap.driver.{name}.{key}={value}" for key, value in values.items()),
    ]


class Room:
    """One lockstep drive on wires, and what it reported."""

    def __init__(
        self, overrides: list[str], seconds: float, *failures: str, profile: str = "f1tenth_mocap"
    ) -> None:
        self.messages: list[Message] = []
        self.profile = load_profile(profile, overrides)
        self.pair = WrappedPair(
            self.profile,
            load_course(self.profile.course),
            [parse_failure(each) for each in failures],
            self,
            3,
            link="wires",
        )
        while self.pair.now_ns < START_NS + seconds * 1e9:
            self.pair.grant()
            self.pair.reply()

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        self.messages.append(message)

    def of(self, kind):
        """Messages of a type."""
        return [each for each in self.messages if isinstance(each, kind)]

    @property
    def faults(self) -> set[str]:
        return {each.code for each in self.of(Fault) if each.active}

    @property
    def hardest(self) -> Reaction:
        return max((each.reaction for each in self.of(Fault)), default=Reaction.NONE)

    def worst_estimate_m(self) -> float:
        """Largest distance of the estimate from the truth once it runs."""
        truths = self.of(GroundTruth)
        stamps = [each.t_ns for each in truths]
        pairs = []
        for each in self.of(StateEstimate):
            at = bisect_left(stamps, each.t_ns)
            if each.t_ns > START_NS + 10**9 and at < len(truths):
                pairs.append((each, truths[at]))
        assert len(pairs) > 50
        return max(hypot(each.x_m - true.x_m, each.y_m - true.y_m) for each, true in pairs)


@pytest.mark.parametrize(
    "overrides",
    [
        system("natnet"),
        system("natnet", version="[3, 0]"),
        system("natnet", version="[2, 5]", up_axis="z"),
        system("natnet", body='"17"', x_m=2.0, y_m=-1.0, yaw_rad=0.7, mounting_yaw_rad=-1.2),
        [*system("natnet"), f'devices.mocap.port="{PORTS["natnet"]}?listen=1511&group=239.1.2.3"'],
        system("vicon"),
        system("vrpn", up_axis="y"),
    ],
    ids=["natnet", "natnet 3.0", "natnet 2.5", "another frame", "multicast", "vicon", "vrpn"],
)  # fmt: skip
def test_it_drives_where_the_room_says_it_is(overrides: list[str]) -> None:
    room = Room(overrides, 2.5)
    assert room.pair.machine.mode is Mode.AUTO
    assert room.faults == set()
    assert room.worst_estimate_m() < 0.02


@pytest.mark.parametrize(
    ("failure", "code", "hardest"),
    [
        ("mocap_flip@2", "mocap_flipped", Reaction.CONTROLLED_STOP),
        ("mocap_exchange@2", "mocap_jumped", Reaction.CONTROLLED_STOP),
        ("mocap_occluded@2", "mocap_lost", Reaction.CONTROLLED_STOP),
        ("mocap_frozen@2", "mocap_frozen", Reaction.CONTROLLED_STOP),
        ("off@2", "mocap_lost", Reaction.CONTROLLED_STOP),
        ("wrong@2", "mocap_jumped", Reaction.CONTROLLED_STOP),
        ("mocap_flip@2+0.1", "mocap_flipped", Reaction.WARN),
        ("mocap_loses_frames@1.5", "mocap_frames_lost", Reaction.WARN),
        ("garbage@2", "mocap_lost", Reaction.CONTROLLED_STOP),
    ],
)
def test_what_goes_wrong_in_a_room_is_named_and_never_believed(
    failure: str, code: str, hardest: Reaction
) -> None:
    room = Room(system("natnet"), 4.2, f"mocap:{failure}")
    assert code in room.faults
    assert room.hardest is hardest
    assert (room.pair.machine.mode is Mode.AUTO) is (hardest is Reaction.WARN)
    assert room.worst_estimate_m() < 0.1


@pytest.mark.parametrize("name", ["vicon", "vrpn"])
def test_other_systems_lose_the_body_without_a_word(name: str) -> None:
    room = Room(system(name), 4.0, "mocap:mocap_occluded@2")
    assert room.faults == {"mocap_lost"}
    assert room.hardest is Reaction.CONTROLLED_STOP


def test_a_short_occlusion_is_driven_through() -> None:
    room = Room(system("natnet"), 3.0, "mocap:mocap_occluded@2+0.15")
    assert room.faults == set()
    assert room.pair.machine.mode is Mode.AUTO


def test_the_room_as_a_judge_is_where_the_simulator_is_and_changes_nothing() -> None:
    reference = [
        "devices.judge.driver.name=natnet",
        "devices.judge.driver.natnet.body=car",
        'devices.judge.port="udp:192.0.2.1:1510"',
        'devices.judge.messages=["ReferenceState"]',
        "devices.judge.rate_hz=100",
        "devices.judge.lever_arm_m=[0.2,0.05,0.1]",
    ]
    base = ["sim.mocap.latency_jitter_ms=0"]
    alone = Room(base, 3.0, profile="art")
    judged = Room([*base, *reference], 3.0, profile="art")
    blind = Room([*base, *reference], 3.0, "judge:off@1.5", profile="art")
    paths = [
        [(each.x_m, each.y_m) for each in room.of(GroundTruth)] for room in (alone, judged, blind)
    ]
    assert paths[0] == paths[1] == paths[2]
    assert blind.hardest is Reaction.WARN
    frame = ReferenceFrame(load_course(judged.profile.course).datum, (0.2, 0.05, 0.1))
    truths = {each.t_ns: each for each in judged.of(GroundTruth)}
    states = judged.of(ReferenceState)
    assert len(states) > 150
    for state in states[50:]:
        mine = frame.truth(state)
        true = truths[min(truths, key=lambda t_ns: abs(t_ns - state.t_ns))]
        assert hypot(mine.x_m - true.x_m, mine.y_m - true.y_m) < 0.03
        assert abs(mine.speed_mps - true.speed_mps) < 0.2


def test_noise_is_the_same_again_and_moves_what_is_believed() -> None:
    rooms = [
        Room([f"inject_noise={on}"], 3.0, profile="art_mocap") for on in ("true", "true", "false")
    ]
    noisy, again, quiet = (room.pair.machine.digest.hexdigest() for room in rooms)
    assert noisy == again != quiet
    marks = [[e for e in room.of(Event) if e.name == "noise_injected"] for room in rooms]
    assert [len(each) for each in marks] == [1, 1, 0]
    assert rooms[0].worst_estimate_m() > 1.5 * rooms[2].worst_estimate_m()


def test_a_noisy_drive_replays_to_the_bit_and_says_so(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "vehicled", "sim", "--profile", "art_mocap", "--link", "wires"]
    command += ["--noise", "--duration", "2", "--log", str(tmp_path), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert json.loads(done.stdout)["noise"] == "mocap: position art_inner, yaw_sigma_rad 0.03"
    assert "noise is added to what sensors measure" in done.stderr
    (log,) = tmp_path.glob("*.mcap")
    replay = subprocess.run(
        [sys.executable, "-m", "vehicled", "replay", str(log)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "IDENTICAL" in replay.stdout
    info = subprocess.run(
        [sys.executable, "-m", "vehicled", "log", "info", str(log)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "noise injected: mocap: position art_inner" in info.stdout


def test_the_indoor_experiment_comes_to_its_end() -> None:
    found = experiment("art_mocap", 0, 0, seed=1, noise=True)
    assert found.finished
    assert found.noise_events == 1
    assert found.faults == []
    assert found.measured_m > 0.1
    assert found.mean_m < found.measured_m


@pytest.mark.xdist_group("wall")
@pytest.mark.parametrize("name", PORTS)
def test_it_drives_over_sockets_in_wall_time(name: str, tmp_path: Path) -> None:
    given = [*system(name), f"log.folder={tmp_path}"]
    command = [sys.executable, "-m", "vehicled", "sim", "--profile", "f1tenth_mocap"]
    command += ["--link", "wires", "--clock", "wall", "--duration", "3", "--json", *WIDE_LIMITS]
    command += [text for each in given for text in ("--set", each)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    found = json.loads(done.stdout)
    assert found["driven_m"] > 0.5, done.stderr
    assert found["estimate_position_m"]["max"] < 0.2
