"""The progress monitor: which way counts as progress, who is asked for any, and how far it rolls
back."""

from math import copysign, cos, inf, nan, pi, sin, tau
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import NAN9, ActuatorCommand, EstimatorStatus, GnssFix, Mode, WheelSpeed
from vehicled.paths.formulas import straight
from vehicled.safety.entry import Entry
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.progress import ProgressMonitor

MS = 10**6
FRICTION = VEHICLE.drive.steady_throttle(0.0)


class Ticks:
    """A progress monitor with a command and a speed every 10 ms."""

    def __init__(self, *, course: bool = False) -> None:
        self.monitors = Monitors(LIMITS, VEHICLE, course=straight(20.0) if course else None)
        self.now_ns = 50 * 10**9
        self.tick(mode=Mode.STANDBY)

    def tick(
        self,
        speed: float = 0.0,
        throttle: float | None = 0.5,
        *,
        times: int = 1,
        asked: float = 1.0,
        mode: Mode = Mode.OFFBOARD,
        brake: float = 0.0,
        after_ms: int = 10,
        estimate: Any = ESTIMATE,
        **values: Any,
    ) -> ProgressMonitor:
        sent = None if throttle is None else ActuatorCommand(0, 0, throttle, brake, 0.0, 0.0, mode)
        for _ in range(times):
            self.now_ns += after_ms * MS
            self.monitors.progress.update(
                SafetyInputs(
                    now_ns=self.now_ns, mode=mode, limits=LIMITS, sent=sent, asked_mps=asked,
                    estimate=None if estimate is None else replace(estimate, speed_mps=speed),
                    **values,
                )
            )  # fmt: skip
        return self.monitors.progress

    def fixes(self, course_rad: float, speed: float, sigma: float = 0.01) -> None:
        spread = (sigma**2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)
        for k in range(3):
            velocity = (
                (speed + k * 1e-9) * cos(course_rad),
                (speed + k * 1e-9) * sin(course_rad),
                0.0,
            )
            fix = GnssFix(self.now_ns, self.now_ns, 0.7, 0.1, 0.0, velocity, NAN9, spread)
            self.monitors.speed.on_message(fix, self.now_ns)

    def wheel(self, mps: float) -> None:
        self.monitors.speed.on_message(WheelSpeed(self.now_ns, self.now_ns, mps, 0.01), self.now_ns)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({}, True), ({"asked": 0.0}, False), ({"asked": 1e-9}, True),
        ({"mode": Mode.STOPPING}, False), ({"mode": Mode.ARMED}, False),
        ({"mode": Mode.ALIGN}, True), ({"mode": Mode.AUTO}, True),
        ({"asked": nan, "throttle": FRICTION + 1e-9}, True),
        ({"asked": nan, "throttle": FRICTION - 1e-9}, False),
        ({"asked": nan, "throttle": -FRICTION - 1e-9}, True), ({"asked": nan, "brake": 0.1}, False),
        ({"throttle": None}, False), ({"asked": nan, "mode": Mode.TELEOP}, True),
        ({"after_ms": 0}, False), ({"after_ms": -10}, False),
        ({"waiting": True, "cap_mps": 0.0}, True),
    ],
)  # fmt: skip
def test_who_is_asked_to_go_on(values: dict[str, Any], counts: bool) -> None:
    assert Ticks().tick(**values).standing_ns == (10 * MS if counts else 0)


@pytest.mark.parametrize(
    ("values", "counts"),
    [
        ({}, True), ({"asked": 0.0}, True), ({"asked": nan, "throttle": 0.0}, True),
        ({"waiting": True}, False), ({"cap_mps": 0.05}, False), ({"cap_mps": 0.051}, True),
        ({"mode": Mode.OFFBOARD, "asked": 0.0}, False),
    ],
)  # fmt: skip
def test_along_a_course_it_is_always_asked_but_for_waits_and_caps(
    values: dict[str, Any], counts: bool
) -> None:
    assert Ticks(course=True).tick(**{"mode": Mode.AUTO, **values}).standing_ns == (
        10 * MS if counts else 0
    )


@pytest.mark.parametrize(
    ("asked", "seconds", "least_m"),
    [(0.1, 1.0, 0.05), (1.0, 1.0, 0.2), (1.0, 2.0, 0.4), (1.0, 3.0, 0.5), (nan, 3.0, 0.05)],
)
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_a_fifth_of_what_is_asked_is_progress(
    asked: float, seconds: float, least_m: float, sense: float
) -> None:
    """The bounds are 5 cm and half a metre."""
    for ratio, progress in ((0.99, False), (1.01, True)):
        drive = Ticks()
        drive.tick(0.0, 0.5 * sense, times=round(seconds * 100) - 1, asked=asked)
        assert drive.monitors.progress.standing_ns == round((seconds - 0.01) * 1e9)
        drive.tick(sense * ratio * least_m / 0.01, 0.5 * sense, asked=asked)
        assert (drive.monitors.progress.standing_ns == 0) is progress
        drive.tick(0.0, 0.5 * sense, asked=asked)
        assert drive.monitors.progress.standing_ns == (
            10 * MS if progress else round((seconds + 0.01) * 1e9)
        )


def test_progress_against_the_drive_is_none_and_a_halt_forgets() -> None:
    drive = Ticks()
    drive.tick(-1.0, times=50)
    assert drive.monitors.progress.standing_ns == 500 * MS
    drive.tick(1.0, times=50)
    assert drive.monitors.progress.standing_ns > 0, "it is where it was"
    drive.tick(asked=0.0)
    assert drive.monitors.progress.standing_ns == 0
    drive.tick(1.0, times=6, asked=0.1)
    assert drive.monitors.progress.standing_ns < 60 * MS
    drive.tick(0.0, times=10)
    drive.monitors.progress.rolled_back_m = 1.0
    drive.monitors.progress.reset()
    progress = drive.monitors.progress
    assert (progress.standing_ns, progress.rolled_back_m) == (0, 0.0)
    assert (progress._travelled_m, progress._asked_m, progress._direction) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_what_it_rolls_back(sense: float) -> None:
    drive = Ticks()
    drive.tick(-0.5, 0.0, times=10)
    assert drive.monitors.progress.rolled_back_m == 0.0, "it has no direction yet"
    drive.tick(-0.5 * sense, 0.5 * sense, times=20)
    assert drive.monitors.progress.rolled_back_m == pytest.approx(0.1)
    drive.tick(-0.5 * sense, 0.0, times=10, brake=1.0)
    assert drive.monitors.progress.rolled_back_m == pytest.approx(0.15)
    drive.tick(-0.5 * sense, 0.0, times=10)
    assert drive.monitors.progress.rolled_back_m == pytest.approx(0.2)
    drive.tick(0.5 * sense, 0.5 * sense, times=10)
    assert drive.monitors.progress.rolled_back_m == pytest.approx(0.15)
    drive.tick(nan, 0.5 * sense, times=10)
    assert drive.monitors.progress.rolled_back_m == pytest.approx(0.15)
    drive.tick(1.0 * sense, 0.5 * sense, times=20)
    assert drive.monitors.progress.rolled_back_m == 0.0
    drive.tick(-0.5 * sense, 0.5 * sense, times=10)
    drive.tick(0.0, -0.5 * sense)
    assert drive.monitors.progress.rolled_back_m == 0.0, "now that is its direction"


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ({"asked": 0.0}, True), ({"mode": Mode.STOPPING}, True),
        ({"mode": Mode.TELEOP, "throttle": 0.0}, True),
        ({"mode": Mode.TELEOP, "throttle": 0.0, "brake": 0.1}, False),
        ({"mode": Mode.TELEOP}, False), ({"throttle": 0.0}, False),
    ],
)  # fmt: skip
def test_what_ends_a_roll_back(values: dict[str, Any], ends: bool) -> None:
    drive = Ticks()
    drive.tick(-0.5, times=20)
    assert (drive.tick(0.0, **values).rolled_back_m == 0.0) is ends


@pytest.mark.parametrize("mode", Mode)
def test_what_it_rolls_while_nothing_drives_is_forgotten_within_half_a_minute(mode: Mode) -> None:
    drives = mode in (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD, Mode.STOPPING)
    drive = Ticks()
    values: dict[str, Any] = {"measured_speed_mps": -0.5} if mode is Mode.ALIGN else {}
    drive.tick(-0.5, 0.0, times=2, mode=mode, **values)
    assert drive.monitors.progress.rolled_m == (0.0 if drives else pytest.approx(-0.01, rel=1e-3))
    drive.monitors.progress.rolled_m = 1.0
    drive.tick(0.0, 0.0, mode=mode, after_ms=3000, measured_speed_mps=0.0)
    assert drive.monitors.progress.rolled_m == pytest.approx(0.0 if drives else 0.9)


def test_gnss_counts_before_the_wheels_and_these_before_the_estimate() -> None:
    def forward(
        wheel: float | None = None, ground: tuple[float, float, float] | None = None, **values: Any
    ) -> float:
        drive = Ticks()
        if wheel is not None:
            drive.wheel(wheel)
        if ground is not None:
            drive.fixes(*ground)
        estimate = values.pop("estimate", replace(ESTIMATE, yaw_rad=0.5, speed_mps=0.7))
        s = SafetyInputs(
            now_ns=drive.now_ns,
            limits=LIMITS,
            estimate=estimate,
            **{"mode": Mode.OFFBOARD, "asked_mps": 0.3, **values},
        )
        return drive.monitors.progress._forward_mps(s)

    assert forward() == 0.7
    assert forward(-0.4) == -0.4
    assert forward(-0.4, (0.5, 1.0, 0.01)) == pytest.approx(1.0)
    assert forward(-0.4, (0.5 + pi, 1.0, 0.01)) == pytest.approx(-1.0)
    assert forward(-0.4, (0.5 + pi / 3, 1.0, 0.01)) == pytest.approx(0.5)
    # Six standard deviations of the mean of three hide the speed asked for.
    assert forward(-0.4, (0.5, 1.0, 0.0865)) == pytest.approx(1.0)
    assert forward(-0.4, (0.5, 1.0, 0.0867)) == -0.4
    assert forward(None, (0.5, 1.0, 0.0867)) == pytest.approx(1.0)
    assert forward(-0.4, (0.5, 1.0, 0.01), estimate=replace(ESTIMATE, yaw_rad=nan)) == -0.4
    assert forward(-0.4, (0.5, 1.0, 0.01), estimate=None) == -0.4
    assert forward(-0.4, (0.5, 1.0, 0.01), mode=Mode.ALIGN, measured_speed_mps=0.2) == 0.2
    assert (
        forward(
            None,
            None,
            estimate=replace(ESTIMATE, status=EstimatorStatus.UNINITIALISED),
            measured_speed_mps=0.3,
        )
        == 0.3
    )
    assert forward(inf) == 0.7


def test_the_time_without_progress_begins_with_nothing_travelled_and_nothing_asked() -> None:
    ticks = Ticks()
    assert ticks.tick(0.0, times=7).standing_ns == 70 * MS
    assert ticks.tick(0.0, asked=0.0).standing_ns == 0
    assert ticks.tick(0.0, times=7).standing_ns == 70 * MS, "also after a halt that was asked for"
    for _ in range(300):
        assert ticks.tick(0.1, asked=0.1).standing_ns <= 600 * MS, "every 5 cm are progress"


class Along(Ticks):
    """A vehicle on a straight course, whose place follows what is measured."""

    def __init__(self, x_m: float = 5.0) -> None:
        super().__init__(course=True)
        self.x_m = x_m
        self.monitors.place.begin(
            Entry(x_m if x_m > 0.0 else None), replace(ESTIMATE, x_m=x_m, y_m=0.0, yaw_rad=0.0)
        )

    def drive(self, mps: float, seconds: float) -> int:
        """Drive at a speed, negative backward; return the time without progress, ns."""
        for _ in range(round(100 * seconds)):
            self.x_m += 0.01 * mps
            there = replace(ESTIMATE, x_m=self.x_m, y_m=0.0, yaw_rad=0.0, speed_mps=mps)
            # Nothing is measured but the estimate.
            self.tick(mps, copysign(0.5, mps), mode=Mode.AUTO, asked=0.6, estimate=there)
            self.monitors.place.update(
                SafetyInputs(now_ns=self.now_ns, mode=Mode.AUTO, limits=LIMITS, estimate=there)
            )
        return self.monitors.progress.standing_ns


@pytest.mark.parametrize("x_m", [5.0, 0.0, -4.0])
def test_to_and_fro_along_a_course_is_no_progress(x_m: float) -> None:
    """The vehicle is on the course, or before its start; each way alone would be progress."""
    vehicle = Along(x_m)
    assert vehicle.drive(0.6, 2.0) < 10**9
    ways_m = 0.0
    while ways_m < tau * VEHICLE.min_turn_radius_m:
        vehicle.drive(-0.6, 2.0)
        vehicle.drive(0.6, 2.0)
        ways_m += 2.4
    vehicle.drive(-0.6, 2.0)
    assert vehicle.drive(0.6, 1.8) > 3 * 10**9
    assert vehicle.drive(0.6, 2.0) < 10**9


def test_turning_round_is_no_fault() -> None:
    """A hairpin holds the projection in its corner, however slow the vehicle is."""
    vehicle = Along()
    for _ in range(2):
        vehicle.drive(0.6, 2.0)
        for _ in range(10):
            assert vehicle.drive(-0.01 * tau * VEHICLE.min_turn_radius_m, 8.0) < 9 * 10**9
        vehicle.x_m = 12.0


def test_another_course_counts_from_where_it_is_joined() -> None:
    vehicle = Along(15.0)
    vehicle.drive(0.6, 1.0)
    vehicle.monitors.follow(straight(30.0))
    vehicle.x_m = 2.0
    vehicle.monitors.place.begin(Entry(2.0), replace(ESTIMATE, x_m=2.0, y_m=0.0, yaw_rad=0.0))
    assert vehicle.drive(0.6, 3.0) < 10**9
