"""Wheels that do not roll against a GNSS velocity."""

from math import inf, nan

import pytest

from tests.vehicles import make_vehicle
from vehicled.core.messages import GnssFix, MotorStatus, WheelSpeed
from vehicled.estimation.sliding import SlidingDetector

MS = 1_000_000


def fix(t_ms: int, speed_mps: float, sigma_mps: float = 0.03) -> GnssFix:
    variance = sigma_mps * sigma_mps
    return GnssFix(
        t_ms * MS, (t_ms + 150) * MS, 0.7, -1.5, 0.0, (0.0, -speed_mps, 0.0),
        velocity_covariance_m2ps2=(variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, variance),
    )  # fmt: skip


def slid(
    *fixes: GnssFix, wheels: dict[int, float] | None = None, until_ms: int = 1000
) -> SlidingDetector:
    """Return the detector after these fixes and a wheel speed every 20 ms, 0 unless given."""
    detector = SlidingDetector(make_vehicle())
    for t_ms in range(0, until_ms, 20):
        detector.observe(WheelSpeed(t_ms * MS, t_ms * MS, (wheels or {}).get(t_ms, 0.0), 0.01))
    for each in fixes:
        detector.observe(each)
    return detector


@pytest.mark.parametrize(
    ("speeds_mps", "slides"),
    [
        ((0.4, 0.41, 0.42), True),
        ((-0.4, -0.41, -0.42), True),
        ((0.4, 0.41), False),
        ((0.4, 0.2, 0.41, 0.42), False),
        ((0.2, 0.21, 0.22), False),
        ((0.4, 0.4, 0.4, 0.4, 0.4), False),
        ((0.4, nan, 0.41, 0.42), False),
    ],
)
def test_three_live_fixes_in_a_row_show_it(speeds_mps: tuple[float, ...], slides: bool) -> None:
    detector = slid(*(fix(100 * k, speed) for k, speed in enumerate(speeds_mps)))
    last_ms = 100 * (len(speeds_mps) - 1)
    assert detector.slides((last_ms + 999) * MS) is slides
    assert not detector.slides((last_ms + 1000) * MS)


def test_a_velocity_without_a_covariance_is_worth_little() -> None:
    assert not slid(*(fix(100 * k, 0.7 + 0.01 * k, inf) for k in range(4))).slides(0)
    assert slid(*(fix(100 * k, 0.8 + 0.01 * k, inf) for k in range(4))).slides(0)


def test_late_fixes_are_compared_with_the_wheels_of_their_time() -> None:
    """The wheels have come to rest since."""
    speeds = {t_ms: 1.0 - 1e-3 * t_ms for t_ms in range(0, 1000, 20)}
    late = [fix(t_ms, speeds[t_ms] + 0.1) for t_ms in range(300, 900, 100)]
    assert not slid(*late, wheels=speeds, until_ms=2000).slides(0)


def test_without_wheels_nothing_slides() -> None:
    fixes = [fix(1200 + 100 * k, 0.5 + 0.01 * k) for k in range(4)]
    assert not slid(*fixes).slides(0)
    assert slid(*fixes, until_ms=1600).slides(0)


def test_only_wheels_that_do_not_roll_are_refused() -> None:
    detector = slid(*(fix(100 * k, 0.59 + 0.01 * k) for k in range(4)))
    assert detector.refuses(WheelSpeed(400 * MS, 400 * MS, -0.26, 0.01))
    assert not detector.refuses(WheelSpeed(400 * MS, 400 * MS, 0.27, 0.01))
    assert not detector.refuses(WheelSpeed(1400 * MS, 1400 * MS, 0.0, 0.01))
    assert detector.refuses(MotorStatus(400 * MS, 400 * MS, 0.0, nan, nan, nan, nan))
    assert not detector.refuses(MotorStatus(400 * MS, 400 * MS, 100.0, nan, nan, nan, nan))
    assert not detector.refuses(fix(400, 0.6))


@pytest.mark.parametrize(
    ("t_ms", "wheel_mps", "refused"),
    [(310, 1.2, True), (310, 1.5, False), (390, 1.2, True), (440, 1.2, True), (490, 1.2, False)],
)
def test_no_wheels_slow_down_faster_than_friction_allows(
    t_ms: int, wheel_mps: float, refused: bool
) -> None:
    """The wheels rolled with 3 m/s at the last fix."""
    rolling = dict.fromkeys(range(0, 301, 20), 3.0)
    detector = slid(fix(200, 3.01), fix(300, 3.0), wheels=rolling, until_ms=301)
    assert detector.refuses(WheelSpeed(t_ms * MS, t_ms * MS, wheel_mps, 0.01)) is refused
    stuck = slid(fix(200, 3.0), fix(300, 3.0), wheels=rolling, until_ms=301)
    assert not stuck.refuses(WheelSpeed(t_ms * MS, t_ms * MS, wheel_mps, 0.01))
