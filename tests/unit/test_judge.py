"""The judge of a simulated run: which estimate the truth of an instant is held against, and what is
drawn of it."""

import pytest

from vehicled.core.messages import ActuatorCommand, GroundTruth, Mode, StateEstimate
from vehicled.paths.catalog import load_course
from vehicled.run.judge import Judge

MS = 1_000_000


def judge_of(mode: Mode) -> Judge:
    judge = Judge(load_course("straight_20m"), keep_trace=True)
    judge.record(ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0, mode), 0)
    return judge


def estimate(judge: Judge, t_ms: int, x_m: float) -> None:
    judge.record(
        StateEstimate(t_ms * MS, t_ms * MS, x_m, 0.0, 0.0, 3.0, 0.0, (0.0,) * 16), t_ms * MS
    )


def truth(judge: Judge, t_ms: int, x_m: float) -> None:
    judge.record(GroundTruth(t_ms * MS, t_ms * MS, x_m, 0.0, 0.0, 3.0, 0.0, 0.0), t_ms * MS)


def test_the_truth_of_an_instant_waits_for_the_estimate_of_it() -> None:
    judge = judge_of(Mode.AUTO)
    estimate(judge, 0, 0.0)
    truth(judge, 10, 0.03)
    assert judge.estimate_position_m.n == 0
    estimate(judge, 10, 0.03)
    assert (judge.estimate_position_m.n, judge.estimate_position_m.max) == (1, 0.0)
    # One that comes between two estimates, and one that comes late.
    truth(judge, 15, 0.045)
    estimate(judge, 20, 0.06)
    truth(judge, 18, 0.054)
    assert judge.estimate_position_m.n == 3
    assert judge.estimate_position_m.max == pytest.approx(0.0, abs=1e-12)
    assert judge.trace is not None
    assert [point.estimate_x_m for point in judge.trace] == pytest.approx([0.03, 0.045, 0.054])


def test_what_no_estimate_reaches_is_not_judged_and_not_kept_for_ever() -> None:
    judge = judge_of(Mode.AUTO)
    for t_ms in range(0, 10_000, 10):
        truth(judge, t_ms, 0.0)
    estimate(judge, 10_000, 0.0)
    assert judge.cross_track_m.n == 1000
    assert judge.estimate_position_m.n == 256


def test_a_drive_by_hand_is_drawn_and_not_judged() -> None:
    judge = judge_of(Mode.TELEOP)
    truth(judge, 10, 0.03)
    estimate(judge, 10, 0.05)
    assert judge.cross_track_m.n == judge.estimate_position_m.n == 0
    assert judge.trace is not None
    (point,) = judge.trace
    assert (point.x_m, point.estimate_x_m) == (0.03, 0.05)
    assert point.cross_track_m != point.cross_track_m
