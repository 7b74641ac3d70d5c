"""The speed that the accelerometer makes of the wheels' while GNSS is silent, and the way since the
last fix."""

from math import inf, isnan, nan, sin

import pytest

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import LIMITS
from vehicled.core.messages import NAN9, FixType, GnssFix, ImuSample, WheelSpeed
from vehicled.safety.monitors.felt import FeltSpeed
from vehicled.safety.monitors.inertial import InertialMonitor
from vehicled.safety.monitors.speed import SpeedMonitor

MS = 10**6
PERIOD_MS = 20


class Drive:
    """Wheels and an accelerometer every 20 ms, and a last fix before."""

    def __init__(self, *, fixes: bool = True) -> None:
        self.inertial = InertialMonitor()
        self.speed = SpeedMonitor(VEHICLE, LIMITS)
        self.felt = FeltSpeed(self.speed, self.inertial, 0.2)
        self.now_ns, self.ticks = 50 * 10**9, 0
        if fixes:
            self.fix()

    def fix(self) -> None:
        fix = GnssFix(
            self.now_ns, self.now_ns, 0.7, 0.1, 0.0, (1.0, 0.0, 0.0), NAN9, NAN9,
            fix_type=FixType.FIX_3D,
        )  # fmt: skip
        self.speed.on_message(fix, self.now_ns)

    def go(
        self, seconds: float, wheel_mps: float | None, forward_mps2: float | None = 0.0
    ) -> FeltSpeed:
        for _ in range(round(seconds * 1e3 / PERIOD_MS)):
            self.now_ns += PERIOD_MS * MS
            self.ticks += 1
            if forward_mps2 is not None:
                # A sample that repeats the one before would come from a device that is stuck.
                force = (forward_mps2, 1e-3 * sin(self.ticks), 9.81)
                self.inertial.on_message(
                    ImuSample(self.now_ns, self.now_ns, force, (0.0, 0.0, 0.0)), self.now_ns
                )
            self.inertial.update()
            if wheel_mps is not None:
                self.speed.on_message(
                    WheelSpeed(self.now_ns, self.now_ns, wheel_mps, 0.01), self.now_ns
                )
            self.felt.update(self.now_ns, PERIOD_MS * MS)
        return self.felt


def test_it_speaks_only_while_a_receiver_that_had_fixes_is_silent() -> None:
    drive = Drive()
    assert isnan(drive.go(0.4, 1.0).mps)
    assert drive.felt.unplaced_m == 0.0
    assert drive.go(1.0, 1.0).mps == pytest.approx(1.0)
    assert drive.felt.unplaced_m == pytest.approx(0.9, abs=0.05)
    drive.fix()
    assert isnan(drive.go(0.02, 1.0).mps)
    assert drive.felt.unplaced_m == 0.0
    never = Drive(fixes=False)
    assert isnan(never.go(2.0, 1.0).mps)
    assert never.felt.unplaced_m == 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_wheels_that_jump_leave_the_felt_speed_behind(sign: float) -> None:
    drive = Drive()
    drive.go(1.0, sign * 2.0, 0.4)
    for k in range(12):
        assert drive.go(0.1, sign * 1.0, 0.4).mps == pytest.approx(sign * 2.0, abs=0.05), k
    assert drive.go(0.2, sign * 1.0, 0.4).mps == pytest.approx(sign * 1.0), "after 1.2 s"
    assert drive.felt.unplaced_m == pytest.approx(0.5 * 2.0 + 1.4, abs=0.1)


def test_wheels_that_come_back_at_once_are_forgiven() -> None:
    drive = Drive()
    drive.go(1.0, 2.0)
    drive.go(0.4, 1.0)
    assert drive.go(0.1, 2.0).mps == pytest.approx(2.0, abs=0.05)
    drive.go(1.1, 1.0)
    assert drive.felt.mps == pytest.approx(2.0, abs=0.05), "the time begins anew"


@pytest.mark.parametrize("mps2", [1.0, -1.0])
def test_what_is_felt_is_no_contradiction(mps2: float) -> None:
    drive = Drive()
    drive.go(1.0, 3.0)
    for k in range(1, 21):
        drive.go(0.05, 3.0 + mps2 * 0.05 * k, mps2)
        assert drive.felt.mps == pytest.approx(drive.speed.wheel_mps, abs=0.15)


def test_a_slope_that_begins_is_followed() -> None:
    drive = Drive()
    drive.go(1.0, 1.0)
    for k in range(30):
        # 8 % within a second and a half.
        felt = drive.go(0.1, 1.0, 0.785 * min(k / 15.0, 1.0))
        assert felt.mps == pytest.approx(1.0, abs=0.2)
    assert felt.mps == pytest.approx(1.0, abs=0.1)


def test_without_a_force_or_wheels_it_begins_anew() -> None:
    drive = Drive()
    drive.go(1.0, 2.0)
    way_m = drive.felt.unplaced_m
    assert isnan(drive.go(0.5, None).mps)
    assert drive.felt.unplaced_m == pytest.approx(way_m + 0.3 * 2.0), "while the last one is fresh"
    assert drive.go(0.02, 1.0).mps == pytest.approx(1.0)
    assert drive.go(0.1, 1.0, None).mps == pytest.approx(1.0), "slower than the ticks"
    drive.inertial.stuck = True
    assert isnan(drive.go(0.02, 1.0, None).mps)
    blind = Drive()
    assert isnan(blind.go(1.0, 1.0, None).mps)
    assert isnan(blind.go(0.1, 1.0, nan).mps)
    assert blind.felt.unplaced_m < inf
