"""The poses from which the rays of a scan left: against a motion that is known, within what is
remembered and beyond."""

from math import cos, inf, nan, sin

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.test_safety_supervisor import ESTIMATE
from vehicled.core.messages import StateEstimate
from vehicled.safety.monitors.scans import MotionHistory

S = 10**9
TICK_NS = 20_000_000
BEGIN_NS = 7 * S


def motion(t_s: float) -> tuple[float, float]:
    """Return speed and yaw rate at a time, linear between the ticks."""
    before = int(t_s / 0.02 + 1e-9)
    part, (v, w), (v_1, w_1) = t_s / 0.02 - before, tick(before), tick(before + 1)
    return v + part * (v_1 - v), w + part * (w_1 - w)


def tick(number: int) -> tuple[float, float]:
    return 2.0 + cos(0.13 * number), 1.5 * sin(0.11 * number + 0.4)


def drive(ticks: int) -> tuple[list[StateEstimate], list[tuple[float, float, float, float]]]:
    """Return the estimates at the ticks, and time and pose every 0.2 ms between them, from a place
    that is not the origin."""
    x, y, yaw, estimates, poses = 3.0, -2.0, 0.7, [], []
    for k in range(ticks * 100 + 1):
        t_s = k * 2e-4
        if k % 100 == 0:
            v, w = tick(k // 100)
            t_ns = BEGIN_NS + k // 100 * TICK_NS
            estimates.append(
                replace(
                    ESTIMATE, t_ns=t_ns, x_m=x, y_m=y, yaw_rad=yaw, speed_mps=v, yaw_rate_radps=w
                )
            )
        poses.append((t_s, x, y, yaw))
        v, w = motion(t_s + 1e-4)
        x, y = x + v * 2e-4 * cos(yaw + 1e-4 * w), y + v * 2e-4 * sin(yaw + 1e-4 * w)
        yaw += w * 2e-4
    return estimates, poses


def remember(estimates: list[StateEstimate]) -> MotionHistory:
    history = MotionHistory()
    for estimate in estimates:
        history.add(estimate)
    return history


def test_the_poses_of_the_last_second_are_those_of_the_motion() -> None:
    estimates, poses = drive(60)
    history, now = remember(estimates), estimates[-1]
    times, *truth = np.array(poses).T
    ages = np.arange(0.0, 1.0001, 0.004)
    found = history.poses(ages, now)
    for values, true in zip(found, truth, strict=True):
        assert values == pytest.approx(np.interp(1.2 - ages, times, true), abs=1e-3)
    assert [float(each[0]) for each in found] == [now.x_m, now.y_m, now.yaw_rad]


def test_an_older_estimate_knows_only_what_was_before_it() -> None:
    estimates, _ = drive(40)
    ages = np.array([0.0, 0.1, 0.3])
    for mine, other in zip(
        remember(estimates).poses(ages, estimates[30]),
        remember(estimates[:31]).poses(ages, estimates[30]),
        strict=True,
    ):
        assert mine == pytest.approx(other)


def test_beyond_what_is_remembered_speed_and_yaw_rate_are_constant() -> None:
    estimates, _ = drive(10)
    history, first, now = remember(estimates), estimates[0], estimates[-1]
    x, y, yaw = history.poses(np.array([0.2, 0.5, -0.1]), now)
    assert (x[0], y[0], yaw[0]) == pytest.approx((first.x_m, first.y_m, first.yaw_rad), abs=2e-4)
    for at, t_s, base in (
        (1, -0.3, (x[0], y[0], yaw[0], first)),
        (2, 0.1, (now.x_m, now.y_m, now.yaw_rad, now)),
    ):
        x_0, y_0, yaw_0, moves = base
        v, w = moves.speed_mps, moves.yaw_rate_radps
        course = yaw_0 + 0.5 * w * t_s
        assert (x[at], y[at], yaw[at]) == pytest.approx(
            (x_0 + v * t_s * cos(course), y_0 + v * t_s * sin(course), yaw_0 + w * t_s)
        )


@pytest.mark.parametrize(("seconds_ns", "remembered"), [(S, True), (S + 1, False)])
def test_a_second_is_remembered(seconds_ns: int, remembered: bool) -> None:
    before = replace(ESTIMATE, t_ns=BEGIN_NS, speed_mps=5.0)
    after = replace(ESTIMATE, t_ns=BEGIN_NS + seconds_ns, speed_mps=1.0)
    x, _, _ = remember([before, after]).poses(np.array([1.0]), after)
    assert x[0] == pytest.approx(-3.0 if remembered else -1.0, abs=1e-6)


def test_one_estimate_counts_once_and_an_older_one_or_one_without_a_speed_begins_anew() -> None:
    slow, fast = (replace(ESTIMATE, t_ns=BEGIN_NS, speed_mps=v) for v in (1.0, 3.0))
    now = replace(ESTIMATE, t_ns=BEGIN_NS + S // 2, speed_mps=1.0)
    age_s = np.array([0.5])
    assert remember([fast, slow]).poses(age_s, now)[0] == pytest.approx(-1.0), (
        "the first of equal times counts"
    )
    later = replace(fast, t_ns=BEGIN_NS + S // 4)
    assert remember([later, slow]).poses(age_s, now)[0] == pytest.approx(-0.5), "set back"
    assert remember([fast, replace(later, speed_mps=nan)]).poses(age_s, now)[0] == pytest.approx(
        -0.5
    )
    spoilt = remember([fast, replace(later, speed_mps=inf), replace(slow, t_ns=BEGIN_NS + S // 4)])
    assert spoilt.poses(age_s, now)[0] == pytest.approx(-0.5)


def test_without_a_past_and_without_a_yaw_rate_the_way_is_straight() -> None:
    now = replace(ESTIMATE, t_ns=BEGIN_NS, x_m=1.0, yaw_rad=0.5, speed_mps=2.0, yaw_rate_radps=nan)
    for history in (MotionHistory(), remember([now])):
        x, y, yaw = history.poses(np.array([0.5, 0.0]), now)
        assert x == pytest.approx([1.0 - cos(0.5), 1.0])
        assert y == pytest.approx([-sin(0.5), 0.0])
        assert yaw == pytest.approx([0.5, 0.5])
