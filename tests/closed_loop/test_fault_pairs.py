"""Misfortunes in pairs at bad moments: whatever happens, the rules hold. And the judge of that
notices when they do not."""

from collections.abc import Hashable, Sequence

import pytest

from sim_backend.connection import START_NS
from tests.closed_loop.fault_judge import Judge
from tests.closed_loop.misfortunes import Moment, pair
from tests.closed_loop.pair_bench import run
from tests.grid import covering
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    GroundTruth,
    Mode,
    OperatorAction,
    OperatorCommand,
    Reaction,
)
from vehicled.safety.reason import Reason
from vehicled.safety.supervisor import Supervisor
from vehicled.safety.trip import CauseLink

SEEDS = (0, 4, 8, 1, 5, 9, 2, 10, 14, 3, 15, 23, 7, 29, 30, 31, 34, 145)
MS = 1_000_000


def features(seed: int) -> set[Hashable]:
    """Return moment, link and vehicle of a pair."""
    case = pair(seed)
    return {(case.moment, case.link), (case.profile, case.link)}


@pytest.mark.parametrize("seed", covering(SEEDS, features))
def test_the_rules_hold_under_two_misfortunes(seed: int) -> None:
    case = pair(seed)
    found = run(case)
    assert not found.broken, str(case)


def test_every_bad_moment_is_among_the_pairs() -> None:
    cases = [pair(seed) for seed in SEEDS]
    assert {case.moment for case in cases} == set(Moment)
    assert {(case.profile, case.link) for case in cases} >= {
        ("art", "messages"),
        ("art_vesc", "wires"),
        ("art_vesc", "messages"),
    }


@pytest.mark.soak  # make test: trials of the failsafe matrix are, too
def test_a_pair_is_the_same_every_time() -> None:
    assert run(pair(0)) == run(pair(0))
    assert pair(7) == pair(7) != pair(11)


def judged(
    steps: Sequence[tuple[Mode, Reaction]],
    *asked: tuple[int, OperatorAction],
    throttle: float = 0.0,
) -> str:
    """Return the judge's verdict on commands 10 ms apart, with requests before the steps of these
    numbers."""
    judge = Judge()
    judge.supervisor = Supervisor()
    judge.supervisor.chain.append(CauseLink(0, Reaction.BRAKE, Reason("stalled")))
    for i, (mode, reaction) in enumerate(steps):
        now_ns = START_NS + 10 * i * MS
        for _, action in [request for request in asked if request[0] == i]:
            judge.record(OperatorCommand(now_ns, now_ns, action, "the test"), now_ns)
        if reaction >= Reaction.BRAKE and mode is Mode.STOPPING:
            judge.record(Fault(now_ns, "stalled", "", reaction, i % 2 == 1, "for a reason"), now_ns)
        judge.record(GroundTruth(now_ns, now_ns, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0), now_ns)
        brake = 0.0 if mode is Mode.AUTO else 1.0
        judge.record(
            ActuatorCommand(now_ns, now_ns, throttle, brake, 0.0, 0.0, mode, reaction), now_ns
        )
    return "; ".join(judge.broken)


NONE, STOP, BRAKE, S4 = Reaction.NONE, Reaction.CONTROLLED_STOP, Reaction.BRAKE, Reaction.DISABLE
ARM, DRIVE = OperatorAction.ARM, OperatorAction.DRIVE
BEGIN = [(Mode.STANDBY, NONE), (Mode.ARMED, NONE), (Mode.AUTO, NONE)]


def test_the_judge_is_silent_about_a_drive_by_the_rules() -> None:
    assert judged([*BEGIN, (Mode.STOPPING, BRAKE), (Mode.FAULT, S4)], (1, ARM), (2, DRIVE)) == ""


@pytest.mark.parametrize(
    ("steps", "asked", "says"),
    [
        (BEGIN, [(2, DRIVE)], "armed, and nobody asked"),
        (BEGIN, [(1, ARM)], "AUTO, and nobody asked"),
        (
            [*BEGIN, (Mode.STOPPING, BRAKE), (Mode.AUTO, NONE)],
            [(1, ARM), (2, DRIVE)],
            "AUTO without arming since the last stop",
        ),
        (
            [*BEGIN, (Mode.STOPPING, BRAKE), (Mode.STOPPING, STOP)],
            [(1, ARM), (2, DRIVE)],
            "BRAKE became CONTROLLED_STOP",
        ),
        (
            [*BEGIN, (Mode.FAULT, S4), (Mode.STANDBY, NONE)],
            [(1, ARM), (2, DRIVE)],
            "FAULT was left, and nobody asked",
        ),
        (
            [*BEGIN, (Mode.STOPPING, BRAKE), (Mode.STANDBY, NONE)],
            [(1, ARM), (2, DRIVE)],
            "while it truly moves at 1.0 m/s",
        ),
        (
            [*BEGIN, (Mode.STOPPING, STOP)],
            [(1, ARM), (2, DRIVE)],
            "a stop without a reported fault",
        ),
        (
            [*BEGIN, *[(Mode.STOPPING, BRAKE)] * 8],
            [(1, ARM), (2, DRIVE)],
            "stalled began 4 times within a second",
        ),
        ([(Mode.INIT, NONE), (Mode.STANDBY, NONE)] * 4, [], "changes of mode within a second"),
        (
            [*BEGIN, *[(Mode.STOPPING, BRAKE)] * 3, *[(Mode.STOPPING, STOP)] * 6],
            [(1, ARM), (2, DRIVE)],
            "STOPPING under CONTROLLED_STOP although stalled asks for BRAKE",
        ),
    ],
)
def test_the_judge_notices(
    steps: Sequence[tuple[Mode, Reaction]], asked: list[tuple[int, OperatorAction]], says: str
) -> None:
    assert says in judged(steps, *asked)


def test_the_judge_notices_frames_that_must_not_be() -> None:
    assert "throttle 0.50 in STANDBY" in judged([(Mode.STANDBY, NONE)], throttle=0.5)
    assert "not finite" in judged([(Mode.AUTO, NONE)], throttle=float("nan"))
    assert "out of range" in judged([(Mode.AUTO, NONE)], throttle=1.5)
