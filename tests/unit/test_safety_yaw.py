"""The yaw monitor by itself: each comparison of gyro, heading, course and steering just below and
just above its limit."""

from collections.abc import Callable
from itertools import pairwise
from math import atan2, cos, degrees, hypot, inf, nan, pi, radians, sin, tan
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Mode,
)
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.yaw import YawMonitor

MS = 10**6
START = 50 * 10**9
BASE = HeadingKind.MOVING_BASE
DOUBT_PER_S = 0.05 / VEHICLE.effective_wheelbase_m(1.0)
"""Doubt about straight wheels at 1 m/s, rad/s."""


class Yaw:
    """A yaw monitor in which time passes by samples of the gyro."""

    def __init__(self, antenna_x_m: float = 0.0) -> None:
        self.monitor = YawMonitor(VEHICLE, antenna_x_m)
        self.now_ns = START
        self.yaw_rad = 0.0

    def sample(self, rate: float, after_ms: float = 10.0, *, saturated: bool = False) -> YawMonitor:
        self.now_ns += round(after_ms * MS)
        self.monitor.on_message(
            ImuSample(
                self.now_ns, self.now_ns, (0.0, 0.0, 9.8), (5.0, 6.0, rate), saturated=saturated
            ),
            self.now_ns,
        )
        return self.monitor

    def turn(self, rate: float, seconds: float) -> YawMonitor:
        for _ in range(round(seconds * 100)):
            self.sample(rate)
        return self.monitor

    def heading(self, yaw_rad: float, kind: HeadingKind = BASE, age_ms: float = 0.0) -> YawMonitor:
        t_ns = self.now_ns - round(age_ms * MS)
        self.monitor.on_message(Heading(t_ns, self.now_ns, yaw_rad, 0.01, kind), self.now_ns)
        return self.monitor

    def fix(
        self,
        course_rad: float,
        speed_mps: float = 2.0,
        sigma: float | None = 0.0,
        age_ms: float = 0.0,
    ) -> YawMonitor:
        t_ns = self.now_ns - round(age_ms * MS)
        spread = NAN9 if sigma is None else (sigma**2 / 2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)
        velocity = speed_mps * cos(course_rad), speed_mps * sin(course_rad), 0.0
        self.monitor.on_message(
            GnssFix(t_ns, self.now_ns, 0.7, 0.1, 0.0, velocity, NAN9, spread), self.now_ns
        )
        return self.monitor

    def update(
        self, speed_mps: float = 1.0, wheel_rad: float | None = None, after_ms: float = 0.0
    ) -> YawMonitor:
        self.now_ns += round(after_ms * MS)
        sent = (
            None
            if wheel_rad is None
            else ActuatorCommand(0, 0, 0.3, 0.0, 0.0, wheel_rad, Mode.AUTO)
        )
        self.monitor.update(
            SafetyInputs(
                now_ns=self.now_ns,
                mode=Mode.AUTO,
                limits=LIMITS,
                estimate=replace(ESTIMATE, speed_mps=speed_mps),
                sent=sent,
            )
        )
        return self.monitor


# --------------------------------------------------------------------------------------------- gyro


def test_it_begins_with_nothing() -> None:
    monitor = YawMonitor(VEHICLE, 0.0)
    assert monitor.turned_rad == 0.0
    assert (monitor.steering_aside_rad, monitor.steering_aside_ns, monitor.heading_stuck) == (
        0.0,
        0,
        False,
    )
    assert (monitor.parted_rad, monitor.aside_rad, monitor.gyro_aside_rad) == (0.0, 0.0, 0.0)
    assert (monitor.parted_in_a_row, monitor.aside_in_a_row, monitor.gyro_aside_in_a_row) == (
        0,
        0,
        0,
    )
    heading = Yaw()
    heading.heading(1.0)
    assert not heading.monitor._headings, "there is no turn to compare it with"


@pytest.mark.parametrize(
    ("rate", "after_ms", "saturated", "turned"),
    [
        (0.5, 10.0, False, 0.005), (-0.5, 10.0, False, -0.005), (0.5, 100.0, False, 0.05),
        (0.5, 100.1, False, 0.0), (999.0, 10.0, False, 9.99), (1000.0, 10.0, False, 0.0),
        (-1000.0, 10.0, False, 0.0), (nan, 10.0, False, 0.0), (inf, 10.0, False, 0.0),
        (0.5, 10.0, True, 0.0), (0.5, 0.0, False, 0.0), (0.5, -10.0, False, 0.0),
    ],
)  # fmt: skip
def test_which_samples_turn(rate: float, after_ms: float, saturated: bool, turned: float) -> None:
    yaw = Yaw()
    yaw.sample(9.0)
    assert yaw.sample(rate, after_ms, saturated=saturated).turned_rad == pytest.approx(turned)


def test_a_gap_or_a_clock_that_is_set_back_begins_anew_and_a_doubled_sample_does_not() -> None:
    for after_ms, anew in (
        (100.0, False),
        (100.001, True),
        (0.0, False),
        (-99.9, False),
        (-100.0, True),
    ):
        yaw = Yaw()
        yaw.turn(0.2, 0.2)
        for _ in range(2):
            yaw.heading(0.0)
            yaw.fix(0.0)
        before = yaw.monitor._sample_ns
        yaw.sample(0.2, after_ms)
        assert (not yaw.monitor._headings) is anew
        assert (not yaw.monitor._courses) is anew
        assert yaw.monitor._sample_ns == (before if after_ms <= 0.0 and not anew else yaw.now_ns)
        assert len(yaw.monitor._turned) == (1 if anew else 20 + (after_ms > 0.0))


def test_the_bias_is_learnt_at_standstill_within_a_second() -> None:
    for speed, learns in (
        (0.05, True),
        (-0.05, True),
        (0.051, False),
        (-0.051, False),
        (nan, True),
    ):
        yaw = Yaw()
        yaw.update(speed)
        yaw.sample(0.5)
        yaw.sample(0.5)
        assert yaw.monitor._bias_radps == pytest.approx(0.005 if learns else 0.0)
    yaw = Yaw()
    yaw.turn(0.5, 0.02)
    assert yaw.monitor._bias_radps == pytest.approx(0.005), "before an estimate it stands"
    yaw.turn(0.1, 0.01)
    assert yaw.monitor._bias_radps == pytest.approx(0.005 + 0.01 * (0.1 - 0.005))


def test_the_turn_is_kept_for_three_seconds_every_hundredth_and_between_two_it_is_a_line() -> None:
    yaw = Yaw()
    for _ in range(4):
        yaw.sample(1.0, 5.0)
    assert [t - START for t, _ in yaw.monitor._turned] == [5 * MS, 15 * MS]
    yaw = Yaw()
    yaw.sample(0.0)
    yaw.sample(1.0)
    yaw.sample(3.0)
    at = yaw.monitor._turned_at
    for ms, turned in ((10, 0.0), (15, 0.005), (20, 0.01), (25, 0.025), (30, 0.04), (130, 0.04)):
        assert at(START + ms * MS) == pytest.approx(turned)
    assert at(START + 10 * MS - 1) is None
    assert at(START + 130 * MS + 1) is None
    yaw.turn(0.0, 3.0)
    assert yaw.monitor._turned[0][0] == yaw.now_ns - 3000 * MS


# ------------------------------------------------------------------------------------------ heading


@pytest.mark.parametrize(
    ("jump_rad", "counts"),
    [
        (0.199, False),
        (0.201, True),
        (-0.199, False),
        (-0.201, True),
        (2 * pi, False),
        (2 * pi - 0.21, True),
    ],
)
def test_a_heading_that_parts_from_the_gyro_counts(jump_rad: float, counts: bool) -> None:
    yaw = Yaw()
    yaw.turn(0.5, 0.5)
    yaw.heading(0.5)
    for k in range(4):
        yaw.turn(0.5, 0.1)
        yaw.heading(0.5 + 0.05 * (k + 1) + jump_rad)
        assert yaw.monitor.parted_in_a_row == (k + 1 if counts else 0)
    assert yaw.monitor.parted_rad == pytest.approx((jump_rad + pi) % (2 * pi) - pi)
    for bad in (nan, inf, 1001.0, -1001.0):
        yaw.heading(bad)
    assert yaw.monitor.parted_in_a_row == (4 if counts else 0), "no reading is no agreement"
    yaw.turn(0.5, 0.1)
    yaw.heading(0.75)
    assert yaw.monitor.parted_in_a_row == 0
    assert not Yaw().heading(1000.0).parted_in_a_row


def test_a_difference_counts_within_a_window_of_one_and_a_half_seconds() -> None:
    for age_ms, counts in ((1500, True), (1501, False)):
        yaw = Yaw()
        yaw.turn(0.0, 0.1)
        yaw.heading(0.0)
        yaw.now_ns += age_ms * MS
        yaw.monitor._turned.append((yaw.now_ns, 0.0))
        yaw.heading(0.3)
        assert yaw.monitor.parted_in_a_row == int(counts)
    # Readings that come again, or out of order, begin anew.
    yaw = Yaw()
    yaw.turn(0.0, 0.3)
    yaw.heading(0.0)
    yaw.heading(0.3)
    assert yaw.monitor.parted_in_a_row == 0
    yaw.heading(0.9, age_ms=100)
    assert yaw.monitor.parted_in_a_row == 0


def test_a_late_heading_is_compared_with_the_turn_at_its_time() -> None:
    yaw = Yaw()
    yaw.turn(2.0, 0.5)
    yaw.heading(0.0, age_ms=300)
    yaw.turn(2.0, 0.5)
    yaw.heading(0.5 * 2.0, age_ms=300)
    assert yaw.monitor.parted_rad == pytest.approx(0.0, abs=1e-9)
    yaw.heading(0.5, age_ms=3100)
    assert len(yaw.monitor._headings) == 2, "older than the gyro is known"


@pytest.mark.parametrize(
    ("repeats", "spacing_ms", "rate", "stuck"),
    [
        # Three readings over 0.35 s, while the gyro turns by more than 0.1 rad.
        (3, 180, 0.3, True), (2, 360, 0.3, False), (3, 170, 0.4, False), (5, 100, 0.26, True),
        (5, 100, 0.24, False), (5, 100, -0.26, True), (5, 100, -0.24, False),
    ],
)  # fmt: skip
def test_a_heading_that_repeats_itself_while_the_gyro_turns_is_stuck(
    repeats: int, spacing_ms: int, rate: float, stuck: bool
) -> None:
    for speed, moves in ((1.0, True), (0.0, False)):
        yaw = Yaw()
        yaw.update(speed)
        yaw.sample(rate)
        yaw.heading(0.4)
        for k in range(repeats):
            if k:
                yaw.turn(rate, spacing_ms * 1e-3)
            yaw.heading(0.5)
        assert yaw.monitor.heading_stuck is (stuck and moves)
        yaw.heading(0.51)
        assert not yaw.monitor.heading_stuck


def test_a_turn_before_a_heading_repeats_itself_does_not_count() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    yaw.sample(0.5)
    for k in range(6):
        yaw.heading(0.05 * k)
        yaw.turn(0.5, 0.1)
    for _ in range(8):
        yaw.heading(0.3)
        yaw.turn(0.05, 0.1)
        assert not yaw.monitor.heading_stuck


def test_a_bias_is_no_turn_and_only_three_seconds_of_turn_count() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    yaw.monitor._bias_radps = 0.2
    yaw.sample(0.2)
    for _ in range(11):
        yaw.heading(0.5)
        yaw.turn(0.2, 0.1)
    assert not yaw.monitor.heading_stuck
    # A turn of 0.03 rad/s makes 0.09 rad in three seconds, however long it lasts.
    yaw.monitor._bias_radps = 0.0
    yaw = Yaw()
    yaw.update(1.0)
    yaw.sample(0.03)
    for _ in range(60):
        yaw.heading(0.5)
        yaw.turn(0.03, 0.1)
        assert not yaw.monitor.heading_stuck
    # To the left and back: its range counts, not what is left of it.
    for rate in (0.3, 0.3, -0.3, -0.3):
        yaw.turn(rate, 0.2)
        yaw.heading(0.5)
    assert yaw.monitor.heading_stuck


# ------------------------------------------------------------------------------------------- course


@pytest.mark.parametrize(
    ("kind", "sigma", "speed", "allowed"),
    [
        (BASE, 0.0, 2.0, 0.25), (BASE, 0.1, 2.0, 0.35), (BASE, 0.1, 1.0, 0.45),
        (BASE, None, 1.0, 0.45), (HeadingKind.INERTIAL, 0.0, 2.0, 0.5),
        (HeadingKind.MAGNETIC, 0.1, 1.0, 0.9),
    ],
)  # fmt: skip
@pytest.mark.parametrize("side", [1.0, -1.0])
def test_heading_and_course_may_differ_by_their_noise(
    kind: HeadingKind, sigma: float | None, speed: float, allowed: float, side: float
) -> None:
    for ratio, counts in ((0.99, False), (1.01, True)):
        yaw = Yaw()
        yaw.turn(0.0, 0.3)
        yaw.heading(0.7, kind)
        for k in range(3):
            yaw.fix(0.7 + side * ratio * allowed, speed, sigma)
            assert yaw.monitor.aside_in_a_row == (k + 1 if counts else 0)
        assert yaw.monitor.aside_rad == pytest.approx(-side * ratio * allowed)
        assert yaw.monitor.gyro_aside_in_a_row == 0
        yaw.fix(0.7 + 2 * pi, speed, sigma)
        assert yaw.monitor.aside_in_a_row == 0
    yaw = Yaw()
    yaw.turn(0.0, 0.3)
    yaw.fix(2.0)
    assert yaw.monitor.aside_in_a_row == 0, "without a heading"


@pytest.mark.parametrize(
    ("east", "north", "allowed"),
    [
        (0.01, 0.0, 0.45),
        (0.0, 0.01, 0.45),
        (inf, 0.0, 0.45),
        (-1.0, -1.0, 0.45),
        (nan, nan, 0.45),
        (0.0, 0.0, 0.25),
    ],
)
def test_the_larger_variance_of_a_velocity_counts(
    east: float, north: float, allowed: float
) -> None:
    for ratio, counts in ((0.99, 0), (1.01, 1)):
        yaw = Yaw()
        yaw.turn(0.0, 0.3)
        yaw.heading(0.0)
        velocity = cos(ratio * allowed), sin(ratio * allowed), 0.0
        spread = (east, *(0.0,) * 3, north, *(0.0,) * 4)
        yaw.monitor.on_message(
            GnssFix(yaw.now_ns, yaw.now_ns, 0.7, 0.1, 0.0, velocity, NAN9, spread), yaw.now_ns
        )
        assert yaw.monitor.aside_in_a_row == counts


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize(("sigma", "speed", "allowed"), [(0.0, 2.0, 0.25), (0.1, 1.0, 0.45)])
def test_course_and_gyro_may_part_by_their_noise(
    side: float, sigma: float, speed: float, allowed: float
) -> None:
    for ratio, counts in ((0.99, False), (1.01, True)):
        yaw = Yaw()
        yaw.turn(0.5, 0.3)
        yaw.fix(0.0, speed, sigma)
        for k in range(3):
            yaw.turn(0.5, 0.1)
            yaw.fix(0.05 * (k + 1) + side * ratio * allowed, speed, sigma)
            assert yaw.monitor.gyro_aside_in_a_row == (k + 1 if counts else 0)
        assert yaw.monitor.gyro_aside_rad == pytest.approx(side * ratio * allowed)


@pytest.mark.parametrize(
    ("speed", "counts"), [(0.499, False), (0.501, True), (99.9, True), (100.1, False), (nan, False)]
)
def test_a_course_needs_a_speed(speed: float, counts: bool) -> None:
    yaw = Yaw()
    yaw.turn(0.0, 0.3)
    yaw.heading(1.0)
    yaw.fix(0.0)
    yaw.fix(0.6)
    assert (yaw.monitor.aside_in_a_row, yaw.monitor.gyro_aside_in_a_row) == (2, 0)
    yaw.turn(0.0, 0.1)
    yaw.fix(0.6)
    yaw.fix(0.0, speed)
    assert bool(yaw.monitor._courses) is counts
    assert yaw.monitor.aside_in_a_row == (4 if counts else 0)


def test_a_course_is_compared_where_the_gyro_is_known_a_tenth_of_a_second_before() -> None:
    yaw = Yaw()
    yaw.sample(0.0)
    yaw.turn(0.0, 0.09)
    assert not yaw.fix(0.0)._courses
    yaw.sample(0.0)
    assert yaw.fix(0.0)._courses
    assert not yaw.fix(0.0, age_ms=-101)._courses
    assert yaw.fix(0.0, age_ms=-1)._courses


@pytest.mark.parametrize(
    ("antenna_m", "rate", "speed"),
    [(0.5, 0.6, 1.0), (-0.5, 0.6, 1.0), (2.0, 0.8, 1.0), (0.0, 0.6, 0.8)],
)
@pytest.mark.parametrize("backward", [False, True])
def test_an_antenna_before_the_axle_swings(
    antenna_m: float, rate: float, speed: float, backward: bool
) -> None:
    """The heading is that of the vehicle, and the course that of its antenna."""
    yaw = Yaw(antenna_m)
    yaw.turn(rate, 0.3)
    yaw.update(-speed if backward else speed)
    yaw.heading(0.3)
    along, aside = (-speed if backward else speed), antenna_m * rate
    course, over_ground = 0.3 + atan2(aside, along), hypot(along, aside)
    yaw.fix(course, over_ground)
    assert yaw.monitor.aside_rad == pytest.approx(0.0, abs=1e-9)


def test_a_swing_larger_than_the_speed_is_a_right_angle() -> None:
    for rate in (2.0, -2.0):
        for backward in (False, True):
            yaw = Yaw(1.0)
            yaw.turn(rate, 0.3)
            yaw.update(-1.0 if backward else 1.0)
            yaw.heading(0.3)
            yaw.fix(0.3 + (pi if backward else 0.0), 1.0)
            side = 1.0 if (rate > 0.0) is not backward else -1.0
            assert yaw.monitor.aside_rad == pytest.approx(side * pi / 2)


@pytest.mark.parametrize("kept", ["heading", "course"])
def test_what_is_older_than_a_second_is_forgotten(kept: str) -> None:
    for age_ms, forgotten in ((1000.0, False), (1000.001, True)):
        yaw = Yaw()
        yaw.turn(0.2, 0.6)
        yaw.update(1.0)
        for k in range(2):
            yaw.heading(k * 0.3)
            yaw.fix(k * 1.0 - 1.5)
            yaw.turn(0.2, 0.1)
        yaw.heading(1.0)
        yaw.fix(-0.5)
        yaw.monitor.heading_stuck = True
        row = (
            yaw.monitor.parted_in_a_row,
            yaw.monitor.gyro_aside_in_a_row,
            yaw.monitor.aside_in_a_row,
        )
        assert all(row)
        headings, courses = yaw.monitor._headings, yaw.monitor._courses
        late = headings if kept == "heading" else courses
        late[-1] = (yaw.now_ns - 1, late[-1][1])
        other = courses if kept == "heading" else headings
        other[-1] = (yaw.now_ns + 10**9, other[-1][1])
        yaw.update(1.0, after_ms=age_ms - 1e-6)
        monitor = yaw.monitor
        assert bool(other)
        assert bool(late) is not forgotten
        if not forgotten:
            assert (
                monitor.parted_in_a_row,
                monitor.gyro_aside_in_a_row,
                monitor.aside_in_a_row,
            ) == row
        elif kept == "heading":
            assert (
                monitor.parted_in_a_row,
                monitor.gyro_aside_in_a_row,
                monitor.aside_in_a_row,
            ) == (0, row[1], 0)
            assert (monitor.heading_stuck, monitor._same, len(monitor._same_turned)) == (
                False,
                0,
                0,
            )
        else:
            assert (
                monitor.parted_in_a_row,
                monitor.gyro_aside_in_a_row,
                monitor.aside_in_a_row,
            ) == (row[0], 0, 0)
            assert monitor.heading_stuck


# ----------------------------------------------------------------------------------------- steering


def steer(
    yaw: Yaw, rate: float, seconds: float, speed: float = 1.0, wheel: float = 0.0
) -> YawMonitor:
    for _ in range(round(seconds * 100)):
        yaw.sample(rate)
        yaw.update(speed, wheel)
    return yaw.monitor


@pytest.mark.parametrize("side", [1.0, -1.0])
@pytest.mark.parametrize("speed", [1.0, -1.0])
def test_a_gyro_that_turns_with_straight_wheels_is_noticed_beyond_the_doubt_about_them(
    side: float, speed: float
) -> None:
    for rate, seconds in ((0.5, 1.2), (0.8, 0.6)):
        yaw = Yaw()
        yaw.update(speed)
        steer(yaw, 0.0, 0.1, speed)
        # 0.2 rad, and for every second since the window began what an offset of 0.05 rad of the
        # wheels turns.
        ticks = int((0.2 + 0.09 * DOUBT_PER_S) / (rate - DOUBT_PER_S) * 100)
        assert ticks < seconds * 100
        steer(yaw, side * rate, ticks * 0.01, speed)
        assert yaw.monitor.steering_aside_ns == 0
        steer(yaw, side * rate, 0.02, speed)
        assert yaw.monitor.steering_aside_ns == pytest.approx(20 * MS, abs=10 * MS)
        assert yaw.monitor.steering_aside_rad == pytest.approx(
            side * rate * (ticks + 2) * 0.01, abs=0.02
        )
        steer(yaw, 0.0, 2.0, speed)
        assert (yaw.monitor.steering_aside_ns, yaw.monitor.steering_aside_rad) == (
            0,
            pytest.approx(0.0, abs=1e-9),
        )


@pytest.mark.parametrize("wheel", [0.2, -0.2])
@pytest.mark.parametrize("speed", [1.0, -1.0, 2.0])
def test_the_yaw_by_the_wheels(wheel: float, speed: float) -> None:
    """After the delay of 0.1 s they turn by 1 rad/s, and then the vehicle turns by speed and
    wheelbase."""
    yaw = Yaw()
    yaw.update(speed)
    yaw.sample(0.0)
    steer(yaw, 0.0, 0.1, speed, wheel)
    assert yaw.monitor._wheel_rad == 0.0
    steer(yaw, 0.0, 0.05, speed, wheel)
    assert yaw.monitor._wheel_rad == pytest.approx(0.05 if wheel > 0.0 else -0.05)
    steer(yaw, 0.0, 0.5, speed, wheel)
    assert yaw.monitor._wheel_rad == wheel
    base_m = VEHICLE.effective_wheelbase_m(speed)
    apart, doubt = yaw.monitor._apart_rad, yaw.monitor._doubt_rad
    steer(yaw, 0.3, 0.01, speed, wheel)
    assert yaw.monitor._apart_rad - apart == pytest.approx(
        0.01 * (0.3 - speed * tan(wheel) / base_m)
    )
    assert yaw.monitor._doubt_rad - doubt == pytest.approx(
        0.01 * abs(speed) / base_m * (0.05 + 0.4 * 0.2)
    )
    rate = speed * tan(wheel) / base_m
    steer(yaw, rate, 1.6, speed, wheel)
    assert yaw.monitor.steering_aside_rad == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize(
    ("bias", "counted"), [(0.02, 0.02), (-0.02, -0.02), (0.5, 0.03), (-0.5, -0.03)]
)
def test_the_bias_counts_up_to_what_is_still(bias: float, counted: float) -> None:
    yaw = Yaw()
    yaw.update(1.0)
    yaw.sample(0.0)
    yaw.update(1.0, 0.0)
    yaw.monitor._bias_radps = bias
    before = yaw.monitor._apart_rad
    steer(yaw, 0.0, 0.01)
    assert yaw.monitor._apart_rad - before == pytest.approx(-0.01 * counted)


def test_a_window_of_sixty_entries_and_one_and_a_half_seconds() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    steer(yaw, 0.0, 2.0)
    times = [t for t, _, _ in yaw.monitor._steered]
    # Every third tick of 10 ms is the first that is 25 ms later.
    assert {b - a for a, b in pairwise(times)} == {30 * MS}
    assert times[-1] - times[0] == 1500 * MS
    yaw = Yaw()
    yaw.update(1.0, 0.0)
    for _ in range(70):
        yaw.sample(0.0, 25.0)
        yaw.update(1.0, 0.0)
    assert len(yaw.monitor._steered) == 61


@pytest.mark.parametrize(
    ("silences", "ignored"),
    [
        (lambda yaw: yaw.heading(0.0, BASE), True),
        (lambda yaw: yaw.heading(0.0, HeadingKind.MAGNETIC), True),
        (lambda yaw: yaw.heading(0.0, HeadingKind.INERTIAL), False),
        (lambda yaw: yaw.fix(0.0), True), (lambda yaw: None, False),
        (lambda yaw: yaw.update(nan, 0.0), True), (lambda yaw: yaw.update(1.0, None), True),
    ],
)  # fmt: skip
def test_the_steering_counts_only_while_nothing_better_does(
    silences: Callable[[Yaw], Any], ignored: bool
) -> None:
    yaw = Yaw()
    yaw.update(1.0)
    steer(yaw, 1.0, 0.8)
    assert yaw.monitor.steering_aside_ns > 0
    silences(yaw)
    steer(yaw, 1.0, 0.01)
    assert (yaw.monitor.steering_aside_ns == 0) is ignored
    assert (yaw.monitor.steering_aside_rad == 0.0) is ignored


def steer_with(
    yaw: Yaw, rate: float, seconds: float, wheel: float, kind: str, error: float = 0.0
) -> YawMonitor:
    """Turn while a heading or a course over ground every 100 ms says the gyro's yaw, and a rate of
    error more. The speed is 1 m/s, or 2 m/s by the fixes."""
    for k in range(round(seconds * 100)):
        yaw.sample(rate)
        yaw.yaw_rad += 0.01 * (rate + error)
        if k % 10 == 0 and kind == "heading":
            yaw.heading(yaw.yaw_rad)
        elif k % 10 == 0:
            yaw.fix(yaw.yaw_rad)
        yaw.update(1.0, wheel)
    return yaw.monitor


@pytest.mark.parametrize("kind", ["heading", "course"])
@pytest.mark.parametrize("turns", [-1.0, 0.0])
def test_wheels_that_act_the_other_way_or_not_at_all(kind: str, turns: float) -> None:
    rate = tan(0.35) / VEHICLE.effective_wheelbase_m(1.0)
    yaw = Yaw()
    steer_with(yaw, 0.0, 1.0, 0.0, kind)
    monitor = steer_with(yaw, turns * rate, 0.1, 0.35, kind)
    assert monitor.unfollowed_ns == 0, "the wheels have not turned yet"
    monitor = steer_with(yaw, turns * rate, 1.4, 0.35, kind)
    assert monitor.unfollowed_ns > 200 * MS
    assert monitor.unfollowed_rad < -0.2
    assert (monitor.steering_aside_ns, monitor.steering_aside_rad) == (0, 0.0)
    # The other way ends it, and so does a heading that contradicts the gyro.
    assert steer_with(yaw, 0.0, 2.0, 0.0, kind).unfollowed_ns == 0


@pytest.mark.parametrize("kind", ["heading", "course"])
@pytest.mark.parametrize(("turns", "wheel"), [(1.0, 0.2), (0.75, 0.2), (1.25, -0.2), (0.0, 0.04)])
def test_wheels_that_are_followed_within_the_doubt_about_them(
    kind: str, turns: float, wheel: float
) -> None:
    rate = tan(wheel) / VEHICLE.effective_wheelbase_m(1.0)
    yaw = Yaw()
    steer_with(yaw, 0.0, 1.0, 0.0, kind)
    for _ in range(30):
        assert steer_with(yaw, turns * rate, 0.1, wheel, kind).unfollowed_ns == 0


@pytest.mark.parametrize("kind", ["heading", "course"])
@pytest.mark.parametrize(("error", "confirmed"), [(-0.25, True), (0.25, True), (-0.8, False)])
def test_a_gyro_that_is_not_confirmed_accuses_no_wheels(
    kind: str, error: float, confirmed: bool
) -> None:
    yaw = Yaw()
    steer_with(yaw, 0.0, 1.0, 0.0, kind)
    monitor = steer_with(yaw, 0.8, 1.2, 0.0, kind, error)
    assert (monitor.unfollowed_ns > 0) is confirmed
    assert (monitor.unfollowed_rad > 0.2) is confirmed
    steer(yaw, 0.8, 1.5)
    assert (monitor.unfollowed_ns, monitor.unfollowed_rad) == (0, 0.0), "only gyro and wheels now"
    assert monitor.steering_aside_ns > 0
    steer_with(yaw, 0.8, 0.1, 0.0, kind, error)
    assert (monitor.steering_aside_ns, monitor.steering_aside_rad) == (0, 0.0)


@pytest.mark.parametrize(
    ("after_ms", "anew"), [(100.0, False), (100.1, True), (0.0, True), (-10.0, True)]
)
def test_a_pause_begins_the_steering_anew(after_ms: float, anew: bool) -> None:
    yaw = Yaw()
    yaw.update(1.0)
    steer(yaw, 1.0, 0.8)
    yaw.update(1.0, 0.0, after_ms=after_ms)
    assert (yaw.monitor.steering_aside_ns == 0) is anew
    assert (yaw.monitor.steering_aside_rad == 0.0) is anew
    assert (not yaw.monitor._steered) is anew


def test_without_a_gyro_the_steering_accuses_none() -> None:
    yaw = Yaw()
    for _ in range(200):
        yaw.update(2.0, 0.3, after_ms=10.0)
    assert (yaw.monitor.steering_aside_ns, yaw.monitor.steering_aside_rad) == (0, 0.0)


def test_an_identified_vehicle_steers_as_it_was_identified() -> None:
    yaw = Yaw()
    late = replace(VEHICLE, steering=replace(VEHICLE.steering, delay_s=0.3, rate_radps=0.5))
    yaw.monitor.adapt(late)
    yaw.update(1.0)
    yaw.sample(0.0)
    steer(yaw, 0.0, 0.3, 1.0, 0.2)
    assert yaw.monitor._wheel_rad == 0.0
    steer(yaw, 0.0, 0.1, 1.0, 0.2)
    assert yaw.monitor._wheel_rad == pytest.approx(0.05)


def test_whole_degrees_repeat_themselves_without_being_stuck() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    angle = 0.0
    for _ in range(30):
        yaw.turn(0.05, 0.1)
        angle += 0.005
        yaw.heading(radians(round(degrees(angle))))
        assert not yaw.monitor.heading_stuck


def test_the_estimate_is_compared_with_the_heading_and_the_turn_since() -> None:
    yaw = Yaw()
    yaw.turn(0.5, 1.0)
    yaw.heading(0.3)
    yaw.turn(0.5, 0.4)
    now = SafetyInputs(
        now_ns=yaw.now_ns, mode=Mode.AUTO, limits=LIMITS, estimate=replace(ESTIMATE, yaw_rad=0.1)
    )
    yaw.monitor.update(now)
    assert yaw.monitor.estimate_aside_rad == pytest.approx(0.4)
    yaw.monitor.update(replace(now, estimate=None))
    assert yaw.monitor.estimate_aside_rad == 0.0


def test_a_heading_is_stuck_from_the_reading_at_a_third_of_a_second_on() -> None:
    yaw = Yaw()
    yaw.update(1.0)
    yaw.sample(0.6)
    for k in range(8):
        if k:
            yaw.turn(0.6, 0.05)
        yaw.heading(0.5)
        assert yaw.monitor.heading_stuck is (k == 7), "350 ms after the first"
