"""A capped vehicle slows down gently and drives on below its cap, evenly: no full drive below it
and none above."""

from itertools import pairwise

import pytest

from sim_backend.connection import START_NS
from sim_backend.emulators.failures import parse_failure
from tests.grid import sampled
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    GroundTruth,
    Message,
    Mode,
    Reaction,
)
from vehicled.offline.failsafe.bench import WrappedPair
from vehicled.paths.catalog import load_course
from vehicled.profile import load

SECOND_NS = 10**9
DECELERATION_MPS2 = 1.0
"""Planned by the profile."""


class SpeedRecorder:
    """Speeds aimed at; true speeds and commands once it has slowed down."""

    def __init__(self) -> None:
        self.targets: list[tuple[int, float]] = []
        self.speeds_mps: list[float] = []
        self.commands: list[ActuatorCommand] = []

    def record(self, message: Message, log_time_ns: int) -> None:
        """See :class:`vehicled.core.journal.Sink`."""
        if isinstance(message, ControlCommand) and message.t_ns > START_NS + 6 * SECOND_NS:
            self.targets.append((message.t_ns, message.target_speed_mps))
        if log_time_ns < START_NS + 9 * SECOND_NS:
            return
        if isinstance(message, GroundTruth):
            self.speeds_mps.append(message.speed_mps)
        elif isinstance(message, ActuatorCommand):
            self.commands.append(message)


@pytest.mark.parametrize(
    "controller", sampled(["pure_pursuit", "mpc"], lambda controller: controller == "mpc")
)
def test_below_its_cap_it_drives_evenly(controller: str) -> None:
    profile = load("art_vesc", [f'controller.name="{controller}"']).profile
    recorder = SpeedRecorder()
    pair = WrappedPair(
        profile,
        load_course("circle_r5_ccw"),
        [parse_failure("gnss:off@6+30")],
        recorder,
        0,
        link="wires",
    )
    while pair.now_ns < START_NS + 12 * SECOND_NS:
        pair.grant()
        pair.reply()
    cap_mps = profile.limits.capped_speed_mps
    assert {(command.mode, command.reaction) for command in recorder.commands} == {
        (Mode.AUTO, Reaction.CAP_SPEED)
    }
    steepest_mps2 = max(
        (v - after) * 1e9 / (after_ns - t_ns)
        for (t_ns, v), (after_ns, after) in pairwise(recorder.targets)
    )
    assert 0.1 < steepest_mps2 < 1.1 * DECELERATION_MPS2
    assert 0.8 * cap_mps < min(recorder.speeds_mps)
    assert max(recorder.speeds_mps) < cap_mps
    assert min(command.throttle for command in recorder.commands) > 0.0
    assert max(command.throttle for command in recorder.commands) < 0.7


@pytest.mark.soak
def test_a_course_as_fast_as_the_vehicle_may_drive_is_driven_evenly() -> None:
    profile = load("art_vesc", ["limits.max_speed_mps=2.0"]).profile
    recorder = SpeedRecorder()
    pair = WrappedPair(
        profile, load_course("circle_r25_ccw:speed_mps=2.0"), [], recorder, 0, link="wires"
    )
    while pair.now_ns < START_NS + 15 * SECOND_NS:
        pair.grant()
        pair.reply()
    assert max(speed for _, speed in recorder.targets) < 2.0, "a little below what the gate holds"
    assert min(command.throttle for command in recorder.commands) > 0.0
    assert max(recorder.speeds_mps) - min(recorder.speeds_mps) < 0.05
