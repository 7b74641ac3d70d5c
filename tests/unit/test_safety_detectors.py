"""The detectors that compare witnesses with each other: what they must notice, how soon, and what
must not alarm them."""

from collections.abc import Callable
from math import atan2, cos, degrees, inf, pi, radians, sin
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from vehicled.core.messages import (
    NAN9,
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Mode,
    MotorStatus,
    StateEstimate,
    WheelSpeed,
)
from vehicled.core.vehicle import Limits
from vehicled.paths.catalog import load_course
from vehicled.safety.arming import missing
from vehicled.safety.matrix import RULES
from vehicled.safety.monitors import Monitors
from vehicled.safety.monitors.motion import FASTER_S
from vehicled.safety.monitors.yaw import FIXES, READINGS
from vehicled.safety.rule import RuleInputs

MS = 1_000_000
START = 10**9
LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0)
ESTIMATE = StateEstimate(0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, (1e-4,) * 16, EstimatorStatus.RUNNING)
SENT = ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0, Mode.AUTO)
CONTROL = ControlCommand(0, 0, 0.0, 0.3, 0.0, 1.0, 0.0, 0.1, 0.0, 0.0)
SPREAD = (9e-4, 0.0, 0.0, 0.0, 9e-4, 0.0, 0.0, 0.0, 9e-4)
Change = Callable[[float, float], float]


def same(t_s: float, value: float) -> float:
    return value


def in_degrees(t_s: float, yaw: float) -> float:
    """A receiver that reports whole degrees."""
    return radians(round(degrees(yaw)))


class Road:
    """A scripted vehicle, with sensors that may be wrong, and the detectors that read them."""

    def __init__(
        self,
        *,
        v: float = 1.0,
        yaw_rate: Change = lambda t, _: 0.2,
        heading: Change = same,
        gyro: Change = same,
        course: Change = same,
        kind: HeadingKind = HeadingKind.MOVING_BASE,
        heading_late_ms: int = 50,
        noise: bool = True,
        antenna_x_m: float = 0.25,
        sign: float = 1.0,
        heading_hz: int = 10,
        stands_s: float = 0.0,
    ) -> None:
        self.monitors = Monitors(LIMITS, VEHICLE, antenna_m=(antenna_x_m, 0.0))
        self._sign, self._heading_ns, self._stands_s = sign, 1000 * MS // heading_hz, stands_s
        self._v = v
        self._rate = yaw_rate
        self._heading = heading
        self._gyro = gyro
        self._course = course
        self._kind, self._late_ns, self._antenna = kind, heading_late_ms * MS, antenna_x_m
        self._rng = np.random.default_rng(4)
        self._noise = 1.0 if noise else 0.0
        self._late: list[Heading] = []
        self.now_ns, self.t_s, self.yaw = START, 0.0, 1.0
        self.noticed: dict[str, float] = {}

    def drive(self, until_s: float) -> dict[str, float]:
        """Drive on; return the time at which each rule first held."""
        while self.t_s < until_s:
            self._tick()
        return self.noticed

    def _tick(self) -> None:
        monitors, t_s = self.monitors, self.t_s
        self.now_ns += 10 * MS
        self.t_s = t_s = (self.now_ns - START) * 1e-9
        v = self._v if t_s > self._stands_s else 0.0
        rate = self._rate(t_s, 0.0)
        self.yaw += rate * 0.01
        now = self.now_ns
        measured = self._gyro(t_s, rate) + self._noise * self._rng.normal(0.0, 0.005)
        monitors.on_message(ImuSample(now, now, (0.0, 0.0, 9.81), (0.0, 0.0, measured)), now)
        if now % self._heading_ns == 0:
            yaw = self._heading(t_s, self.yaw) + self._noise * self._rng.normal(0.0, 0.01)
            self._late.append(Heading(now, now + self._late_ns, yaw, 0.01, self._kind))
        if now % (100 * MS) == 0:
            course = self._course(t_s, self.yaw)
            ve = (
                v * cos(course)
                - rate * self._antenna * sin(self.yaw)
                + self._noise * self._rng.normal(0.0, 0.03)
            )
            vn = (
                v * sin(course)
                + rate * self._antenna * cos(self.yaw)
                + self._noise * self._rng.normal(0.0, 0.03)
            )
            monitors.on_message(
                GnssFix(now, now, 0.7 + 1e-8 * t_s, -1.5, 260.0, (ve, vn, 0.0), NAN9, SPREAD), now
            )
        while self._late and self._late[0].t_rx_ns <= now:
            monitors.on_message(self._late.pop(0), now)
        s = RuleInputs(
            now_ns=now,
            mode=Mode.AUTO,
            limits=LIMITS,
            monitors=monitors,
            estimate=replace(ESTIMATE, speed_mps=self._sign * v),
            control=CONTROL,
            sent=replace(SENT, throttle=0.4),
        )
        monitors.update(s)
        for rule in RULES:
            if ("heading" in rule.code or "gyro" in rule.code) and rule.holds(s):
                self.noticed.setdefault(rule.code, t_s)
        self.situation = s


# ---------------------------------------------------------------------------- heading, gyro, course


def whole_degrees(t_s: float, yaw: float) -> float:
    return radians(round(degrees(yaw)))


@pytest.mark.parametrize(
    "sound",
    [
        {},
        {"v": 3.0, "yaw_rate": lambda t, _: 0.7 * sin(2.0 * t)},
        {"v": 0.6, "yaw_rate": lambda t, _: 0.5},
        {"course": lambda t, yaw: yaw + pi, "sign": -1.0},
        {"heading": lambda t, yaw: yaw + 0.12},
        {"gyro": lambda t, rate: rate + 0.03},
        {"gyro": lambda t, rate: rate * 1.02, "v": 1.0, "yaw_rate": lambda t, _: 1.0},
        {"heading_late_ms": 500},
        {"heading": lambda t, yaw: yaw + 0.02 * t, "kind": HeadingKind.INERTIAL},
        {"heading": lambda t, yaw: yaw + 0.1 * sin(yaw), "kind": HeadingKind.MAGNETIC,
         "yaw_rate": lambda t, _: 0.8},
        {"heading": lambda t, yaw: yaw + (0.5 if 4.05 < t < 4.15 else 0.0)},
        {"v": 0.3, "course": lambda t, yaw: yaw + 2.0},
        {"noise": False, "yaw_rate": lambda t, _: 0.0},
        {"noise": False, "yaw_rate": lambda t, _: 0.0, "gyro": lambda t, rate: rate + 0.03},
        {"noise": False, "v": 0.0, "yaw_rate": lambda t, _: 0.0,
         "gyro": lambda t, rate: rate + 0.02},
        {"noise": False, "heading": in_degrees, "gyro": lambda t, rate: rate + 0.02,
         "yaw_rate": lambda t, _: 0.004},
        {"noise": False, "heading": in_degrees, "yaw_rate": lambda t, _: 0.3 * sin(t)},
        {"noise": False, "heading": whole_degrees, "yaw_rate": lambda t, _: 0.2 * sin(t)},
        {"heading": whole_degrees, "noise": False, "yaw_rate": lambda t, _: 0.0,
         "gyro": lambda t, w: w + 0.03, "stands_s": 6.0},
        {"noise": False, "heading_hz": 5, "yaw_rate": lambda t, _: 0.2 if t > 10.0 else 0.0},
        {"noise": False, "v": 0.0, "yaw_rate": lambda t, _: 0.0,
         "gyro": lambda t, rate: rate + 0.03},
    ],
    ids=[
        "circle", "fast bends", "slow circle", "backward", "misaligned", "bias", "scale", "late",
        "drifting", "iron", "one outlier", "too slow for a course", "exact on a straight",
        "exact on a straight, gyro biased", "held at standstill, gyro biased",
        "whole degrees on a straight, gyro biased", "whole degrees in an S-bend", "whole degrees",
        "whole degrees, biased", "5 Hz", "standing, biased",
    ],
)  # fmt: skip
def test_usual_values_raise_no_alarm(sound: dict[str, Any]) -> None:
    assert Road(**sound).drive(20.0) == {}


def stuck_from(t0_s: float) -> Change:
    held: list[float] = []

    def heading(t_s: float, yaw: float) -> float:
        if t_s < t0_s:
            return yaw
        held.append(yaw)
        return held[0]

    return heading


@pytest.mark.parametrize(
    ("broken", "code", "within_s"),
    [
        ({"heading": stuck_from(5.0), "noise": False}, "heading_stuck", 0.8),
        # Turned by 0.12 rad in all, never by more than 0.06 from where it stuck.
        (
            {
                "heading": stuck_from(5.0),
                "noise": False,
                "yaw_rate": lambda t, _: 0.12 * cos(2.0 * (t - 5.0)),
            },
            "heading_stuck",
            2.5,
        ),
        ({"heading": stuck_from(5.0), "noise": False, "heading_hz": 5}, "heading_stuck", 0.8),
        # The bends of an S: 0.09 rad to the left, and as much to the right of the first heading.
        (
            {
                "heading": stuck_from(5.0),
                "noise": False,
                "yaw_rate": lambda t, _: 0.09 * pi * sin(pi * (t - 4.5)),
            },
            "heading_stuck",
            1.6,
        ),
        (
            {
                "heading": stuck_from(5.0),
                "noise": False,
                "yaw_rate": lambda t, _: 0.2 if t > 9.0 else 0.0,
            },
            "heading_stuck",
            4.8,
        ),
        ({"heading": stuck_from(5.0)}, "heading_against_gyro", 1.6),
        ({"heading": lambda t, yaw: yaw + (0.5 if t >= 5.0 else 0.0)}, "heading_against_gyro", 0.4),
        (
            {"heading": lambda t, yaw: yaw + (0.5 if t >= 5.0 else 0.0)},
            "heading_against_course",
            0.6,
        ),
        (
            {"heading": lambda t, yaw: yaw + min(max(t - 5.0, 0.0) * 0.1, 1.0)},
            "heading_against_course",
            5.0,
        ),
        ({"gyro": lambda t, rate: rate + (0.5 if t >= 5.0 else 0.0)}, "heading_against_gyro", 0.9),
        ({"gyro": lambda t, rate: rate + (0.5 if t >= 5.0 else 0.0)}, "gyro_against_course", 1.3),
        (
            {"gyro": lambda t, rate: 0.0 if t >= 5.0 else rate, "yaw_rate": lambda t, _: 0.5},
            "gyro_against_course",
            1.6,
        ),
    ],
)
def test_a_wrong_speed_source_is_noticed(
    broken: dict[str, Any], code: str, within_s: float
) -> None:
    noticed = Road(**broken).drive(11.0)
    assert min(noticed.values()) >= 5.0
    assert noticed[code] - 5.0 <= within_s


class Steered(Road):
    """The same without heading and fixes, steered as its yaw rate needs by wheels that may be
    off."""

    def __init__(self, *, wheel: Change = same, **road: Any) -> None:
        super().__init__(**road)
        self._wheel = wheel
        self.trips: list[float] = []

    def _tick(self) -> None:
        self.now_ns += 10 * MS
        self.t_s = t_s = (self.now_ns - START) * 1e-9
        rate, v, now = self._rate(t_s, 0.0), self._v, self.now_ns
        wheel = atan2(rate * VEHICLE.wheelbase_m, v)
        late_s = VEHICLE.steering.delay_s
        commanded = atan2(self._rate(t_s + late_s, 0.0) * VEHICLE.wheelbase_m, v)
        assert abs(wheel) < VEHICLE.steering.max_wheel_rad
        measured = self._gyro(t_s, rate) + self._rng.normal(0.0, 0.005)
        self.monitors.on_message(ImuSample(now, now, (0.0, 0.0, 9.81), (0.0, 0.0, measured)), now)
        s = RuleInputs(
            now_ns=now, mode=Mode.AUTO, limits=LIMITS, monitors=self.monitors,
            estimate=replace(ESTIMATE, speed_mps=self._sign * v),
            sent=replace(SENT, throttle=0.4,
                wheel_angle_rad=self._wheel(t_s, self._sign * commanded)),
        )  # fmt: skip
        self.monitors.update(s)
        if next(rule for rule in RULES if rule.code == "gyro_against_steering").holds(s):
            self.trips.append(t_s)


@pytest.mark.parametrize(
    "sound",
    [
        {},
        {"v": 3.0, "yaw_rate": lambda t, _: 0.5 * sin(t)},
        {"v": 0.5, "yaw_rate": lambda t, _: 0.3},
        {"wheel": lambda t, angle: 0.7 * angle},
        {"wheel": lambda t, angle: 1.35 * angle, "yaw_rate": lambda t, _: 0.4 * sin(0.5 * t)},
        {"wheel": lambda t, angle: angle + 0.04},
        {"gyro": lambda t, rate: rate + 0.03},
        {"sign": -1.0},
        {"v": 1.0, "yaw_rate": lambda t, _: 0.3 if t % 6.0 < 3.0 else -0.3},
    ],
    ids=[
        "circle",
        "fast bends",
        "slow",
        "weak steering",
        "strong steering",
        "trim",
        "bias",
        "backward",
        "sharp bends",
    ],
)
def test_a_steering_that_is_known_roughly_accuses_no_gyro(sound: dict[str, Any]) -> None:
    road = Steered(**sound)
    road.drive(20.0)
    assert road.trips == []


@pytest.mark.parametrize(
    "gyro",
    [
        lambda t, rate: rate + 0.5,
        lambda t, rate: rate - 0.5,
        lambda t, rate: -2.0 * rate,
        lambda t, rate: rate + 1.0,
    ],
    ids=["offset", "offset to the right", "reversed", "large offset"],
)
def test_a_grossly_wrong_gyro_is_noticed_by_the_steering_alone(gyro: Change) -> None:
    road = Steered(
        gyro=lambda t, rate: gyro(t, rate) if t > 5.0 else rate, yaw_rate=lambda t, _: 0.25
    )
    road.drive(8.0)
    assert 5.3 < road.trips[0] < 6.6


def test_the_steering_is_not_asked_while_a_heading_or_course_is_there() -> None:
    road = Road(gyro=lambda t, rate: rate + 0.5)
    road.drive(8.0)
    assert road.monitors.yaw.steering_aside_ns == 0


def test_a_wrong_heading_is_not_armed_with() -> None:
    road = Road(heading=lambda t, yaw: yaw + (0.5 if t >= 5.0 else 0.0))
    road.drive(5.6)
    assert any("parted" in text for text in missing(road.situation))
    road.drive(8.0)
    assert not any("parted" in text for text in missing(road.situation))


def test_old_heading_evidence_is_forgotten() -> None:
    road = Road(heading=lambda t, yaw: yaw + (0.5 if t >= 5.0 else 0.0))
    road.drive(5.6)
    assert road.monitors.yaw.parted_in_a_row >= READINGS
    assert road.monitors.yaw.aside_in_a_row >= FIXES
    late = RuleInputs(
        now_ns=road.now_ns + 2 * 10**9,
        mode=Mode.AUTO,
        limits=LIMITS,
        monitors=road.monitors,
        estimate=ESTIMATE,
    )
    road.monitors.update(late)
    assert road.monitors.yaw.parted_in_a_row == road.monitors.yaw.aside_in_a_row == 0
    assert not road.monitors.yaw.heading_stuck


# ------------------------------------------------------------------------------- position and range


def test_a_position_that_repeats_itself_counts_while_the_vehicle_moves() -> None:
    for speed, counts in ((1.0, 9), (0.0, 0)):
        monitors = Monitors(LIMITS, VEHICLE)
        monitors.update(
            RuleInputs(
                now_ns=START,
                mode=Mode.AUTO,
                limits=LIMITS,
                monitors=monitors,
                estimate=replace(ESTIMATE, speed_mps=speed),
            )
        )
        for k in range(10):
            monitors.on_message(GnssFix(START + k, START + k, 0.7, -1.5, 260.0), START + k)
        assert monitors.gnss.same_in_a_row == counts
    monitors.on_message(GnssFix(START, START, 0.7 + 1e-9, -1.5, 260.0), START)
    assert monitors.gnss.same_in_a_row == 0


def test_a_bump_is_no_saturation_that_lasts() -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    for k in range(10):
        now = START + k * 10 * MS
        monitors.on_message(
            ImuSample(
                now, now, (0.0, 0.0, 9.8), (0.0, 0.0, 1e-3 * k), saturated=k in (2, 3) or k >= 5
            ),
            now,
        )
        assert (monitors.inertial.saturated_ns(now) == 0) is (k not in (3, 6, 7, 8, 9))
    assert monitors.inertial.saturated_ns(START + 90 * MS) == 40 * MS


# --------------------------------------------------------------------------- command against motion


BRAKED = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=3.0))


class Motion:
    """Ticks of 10 ms with a command, an estimate, and what else says how fast it is."""

    def __init__(self, *, course: bool = False) -> None:
        self.monitors = Monitors(
            LIMITS, BRAKED, course=load_course("straight_30m") if course else None
        )
        self.now_ns = START

    def go(
        self,
        seconds: float,
        throttle: float,
        estimated: float,
        *,
        brake: float = 0.0,
        ground: float | None = None,
        wheel: float | None = None,
        target: float = 1.0,
        mode: Mode = Mode.AUTO,
        cap: float = inf,
        waiting: bool = False,
        tick_ms: int = 10,
    ) -> None:
        for _ in range(round(seconds * 1000 / tick_ms)):
            self.now_ns += tick_ms * MS
            if ground is not None and self.now_ns % (100 * MS) == 0:
                self.monitors.on_message(
                    GnssFix(
                        self.now_ns, self.now_ns, 0.7, -1.5, 0.0, (0.6 * ground, 0.8 * ground, 0.0)
                    ),
                    self.now_ns,
                )
            if wheel is not None:
                self.monitors.on_message(
                    WheelSpeed(self.now_ns, self.now_ns, wheel, 0.1), self.now_ns
                )
            s = RuleInputs(
                now_ns=self.now_ns,
                mode=mode,
                limits=LIMITS,
                monitors=self.monitors,
                estimate=replace(ESTIMATE, speed_mps=estimated, yaw_rad=atan2(0.8, 0.6)),
                control=replace(CONTROL, target_speed_mps=target),
                asked_mps=abs(target),
                cap_mps=cap,
                waiting=waiting,
                sent=replace(SENT, throttle=throttle, brake=brake),
            )
            self.monitors.update(s)

    @property
    def seconds(self) -> tuple[float, float, float]:
        """Not moving, stalled, uncommanded."""
        m = self.monitors.motion
        return m.not_moving_ns * 1e-9, m.stalled_ns * 1e-9, m.uncommanded_ns * 1e-9


def test_standing_is_believed_from_gnss_though_the_estimate_leans_on_the_drive() -> None:
    motion = Motion()
    motion.go(1.0, 0.5, 1.0, ground=1.0)
    motion.go(2.0, 1.0, 0.4, ground=0.02)
    assert motion.seconds == (pytest.approx(1.7, abs=0.15), pytest.approx(1.7, abs=0.15), 0.0)
    # Without GNSS only the estimate is left.
    motion.go(1.0, 1.0, 0.4)
    assert motion.seconds[0] == 0.0


def test_a_vehicle_that_never_moved_has_not_stalled() -> None:
    motion = Motion()
    motion.go(1.0, 0.8, 0.0, ground=0.0)
    assert motion.seconds == (pytest.approx(1.0, abs=0.02), 0.0, 0.0)


@pytest.mark.parametrize(
    "usual",
    [
        {"throttle": 0.25, "estimated": 0.0},
        {"throttle": 0.8, "estimated": 0.1, "target": 0.15},
        {"throttle": 0.8, "estimated": 0.0, "brake": 0.2},
        {"throttle": 0.0, "estimated": 0.0},
        {"throttle": 0.5, "estimated": 0.5},
    ],
    ids=["no more than friction", "creeping", "braked", "not driven", "moving"],
)
def test_what_is_no_stall(usual: dict[str, Any]) -> None:
    motion = Motion()
    motion.go(0.5, 0.5, 1.0)
    motion.go(1.0, **usual)
    assert motion.seconds == (0.0, 0.0, 0.0)


def test_a_brake_just_released_is_no_stall() -> None:
    """The speed control brakes and drives in turn on a slope; the brake acts on after its
    command."""
    motion = Motion()
    motion.go(1.0, 0.5, 1.0)
    for speed in (0.9, 0.7, 0.5, 0.4):
        motion.go(0.05, 0.0, speed, brake=0.4)
        motion.go(0.05, 0.8, speed)
    motion.go(0.1, 0.8, 0.0)
    assert motion.seconds[1] == 0.0
    motion.go(2.0, 0.8, 0.0)
    assert motion.seconds[1] > 1.0


def test_a_cusp_is_no_stall() -> None:
    motion = Motion()
    motion.go(1.0, 0.5, 1.0)
    motion.go(0.5, 0.0, 0.3)
    motion.go(0.3, -0.6, 0.0)
    assert motion.seconds[1] == 0.0
    motion.go(0.5, -0.6, -0.5)
    motion.go(0.3, -0.6, 0.0)
    assert motion.seconds[1] == pytest.approx(0.3, abs=0.02)


def test_braking_is_explained_and_going_on_against_the_brake_is_not() -> None:
    motion = Motion()
    motion.go(1.0, 0.5, 1.0)
    for k in range(10):
        motion.go(0.1, 0.0, 1.0 - 0.05 * k)
        assert motion.seconds[2] == 0.0
    motion.go(1.5, 0.0, 1.0, brake=0.5)
    assert motion.seconds[2] == 0.0, "down a slope the brake holds the speed that is asked for"
    motion.go(1.5, 0.0, 1.0, brake=0.5, target=0.3)
    assert motion.seconds[2] > 0.3
    motion.go(0.1, 0.5, 1.0)
    assert motion.seconds[2] == 0.0


def test_a_vehicle_without_a_brake_that_does_not_slow_down_is_noticed() -> None:
    motion = Motion()
    motion.monitors = Monitors(LIMITS, VEHICLE)
    motion.go(1.0, VEHICLE.drive.steady_throttle(1.0), 1.0)
    motion.go(3.5, 0.0, 1.0, target=0.3)
    assert motion.seconds[2] > 0.3


def test_a_gear_change_that_pushes_after_the_throttle_is_released_is_explained() -> None:
    """An engine gave back 0.9 m/s within half a second of the release; then the vehicle coasts for
    seconds."""
    motion = Motion()
    motion.go(1.0, 0.3, 4.8)
    for speed in (5.0, 5.3):
        motion.go(0.1, 0.0, speed)
    for k in range(40):
        motion.go(0.1, 0.0, 5.3 - 0.03 * k)
        assert motion.seconds[2] == 0.0


def test_a_slope_that_is_driven_down_on_the_brake_is_explained() -> None:
    """A slope of 5 %: the brake holds the speed, so half of it would have the vehicle slow down."""
    drive = replace(BRAKED.drive, friction_nm=0.002, viscous_nms=0.0, no_load_speed_radps=1e4)
    motion = Motion()
    motion.monitors = Monitors(LIMITS, replace(BRAKED, drive=drive))
    motion.go(2.0, drive.steady_throttle(2.0), 2.0)
    slope_mps2 = 0.05 * 9.81
    motion.go(
        10.0,
        0.0,
        2.0,
        brake=(slope_mps2 + drive.acceleration_mps2(0.0, 2.0)) / drive.brake_deceleration_mps2,
    )
    assert motion.seconds[2] == 0.0


def test_an_uncommanded_motion_that_the_brake_ends_does_not_disable_the_drive() -> None:
    """It is faster than explained when the brake is applied, and slows down as half a brake would
    have it."""
    motion = Motion()
    motion.go(1.0, 0.0, 0.0, brake=1.0)
    motion.go(0.4, 0.0, 2.0)
    assert motion.seconds[2] > LIMITS.uncommanded_s
    speed = 2.0
    while speed > 0.0:
        motion.go(0.1, 0.0, speed, brake=1.0)
        speed -= 0.06 * BRAKED.drive.brake_deceleration_mps2
    assert motion.monitors.motion.unbraked_ns == 0
    motion = Motion()
    motion.go(1.0, 0.0, 0.0, brake=1.0)
    motion.go(1.5, 0.0, 2.0, brake=1.0)
    assert motion.monitors.motion.unbraked_ns * 1e-9 > LIMITS.uncommanded_s


def test_wheels_that_turn_are_motion_before_the_estimate_follows() -> None:
    motion = Motion()
    motion.go(1.0, 0.0, 0.0, brake=1.0)
    motion.go(0.4, 0.0, 0.0, brake=1.0, wheel=2.0)
    assert motion.seconds[2] > LIMITS.uncommanded_s


def test_it_rolls_back_after_it_has_come_to_rest() -> None:
    motion = Motion()
    motion.go(1.0, 0.5, 1.0)
    motion.go(1.0, 0.0, 0.0)
    motion.go(0.4, 0.0, -0.4)
    assert motion.seconds[2] > 0.3


def test_rolling_against_the_drive_is_noticed_by_estimate_or_wheel() -> None:
    for estimated, wheel in ((-0.4, None), (0.0, -0.4)):
        motion = Motion()
        motion.go(0.5, 0.5, estimated, wheel=wheel)
        assert motion.seconds[2] == pytest.approx(0.5, abs=0.02)
    motion = Motion()
    motion.go(0.5, -0.5, 0.1, wheel=0.1)
    assert motion.seconds[2] == 0.0


@pytest.mark.parametrize("asked", [0.05, 0.1, 0.2, 0.3, 0.6, 1.0])
@pytest.mark.parametrize("sensor", ["ground", "wheel"])
def test_standing_is_judged_by_what_is_asked_for(asked: float, sensor: str) -> None:
    """A vehicle that follows is left alone, at a creep as at a run, and one that is held is noticed
    within its time."""
    throttle = max(BRAKED.drive.steady_throttle(asked), BRAKED.drive.steady_throttle(0.0) + 0.02)
    motion = Motion()

    def measures(speed_mps: float) -> tuple[float | None, float | None]:
        return (None, speed_mps) if sensor == "wheel" else (speed_mps, None)

    ground, wheel = measures(0.7 * asked)
    motion.go(6.0, throttle, 0.8 * asked, target=asked, ground=ground, wheel=wheel)
    assert motion.seconds[:2] == (0.0, 0.0)
    ground, wheel = measures(0.02 * asked)
    motion.go(2.1, throttle, 0.2 * asked, target=asked, ground=ground, wheel=wheel)
    assert motion.seconds[0] > 1.75


def test_noise_that_looks_like_motion_for_a_moment_only_delays_it() -> None:
    motion = Motion()
    motion.go(1.5, 0.5, 0.0, target=0.2, wheel=0.0)
    motion.go(0.2, 0.5, 0.0, target=0.2, wheel=0.06)
    motion.go(0.5, 0.5, 0.0, target=0.2, wheel=0.0)
    assert motion.seconds[0] == pytest.approx(2.2, abs=0.05), (
        "the estimate stands, whatever the wheels say"
    )
    motion.go(0.05, 0.5, 0.2, target=0.2, wheel=0.2)
    assert motion.seconds[0] == 0.0


def test_who_is_asked_to_wait_makes_no_progress_and_is_not_asked_for_any() -> None:
    for kind in (
        {"mode": Mode.OFFBOARD, "target": 0.0},
        {"mode": Mode.AUTO, "target": 1.0, "cap": 0.0},
        {"mode": Mode.AUTO, "target": 0.0, "waiting": True},
        {"mode": Mode.STOPPING},
    ):
        motion = Motion(course=True)
        motion.go(6.0, 0.0, 0.0, brake=1.0, ground=0.0, **kind)
        assert motion.monitors.progress.standing_ns == 0
        assert motion.monitors.progress.rolled_back_m == 0.0


@pytest.mark.parametrize("target", [0.03, 0.2, 1.0, float("nan"), 0.0])
def test_along_a_course_it_must_move_on_whatever_the_controller_says(target: float) -> None:
    motion = Motion(course=True)
    motion.go(9.0, 0.1, 0.0, ground=0.0, target=target)
    assert motion.monitors.progress.standing_ns == pytest.approx(9.0e9, rel=0.01)
    motion.go(3.0, 0.1, 0.2, ground=0.2, target=min(target, 0.2))
    assert motion.monitors.progress.standing_ns < 1.5e9
    for _ in range(20):
        motion.go(1.0, 0.3, 0.05, ground=0.05, target=0.05)
        assert motion.monitors.progress.standing_ns < 3e9, "slow as it is"


@pytest.mark.parametrize("mode", [Mode.TELEOP, Mode.OFFBOARD, Mode.ALIGN, Mode.AUTO])
def test_every_mode_must_move_on(mode: Mode) -> None:
    """Teleop asks by its throttle, everything else by its speed."""
    motion = Motion()
    asked = float("nan") if mode is Mode.TELEOP else 0.5
    motion.go(5.0, 0.3, 0.0, ground=0.0, target=asked, mode=mode)
    assert motion.monitors.progress.standing_ns == pytest.approx(5e9, rel=0.01)
    motion.go(
        5.0, 0.0, 0.0, ground=0.0, target=float("nan") if mode is Mode.TELEOP else 0.0, mode=mode
    )
    assert motion.monitors.progress.standing_ns == 0


def test_it_rolls_back_slowly_while_it_is_asked_to_go_on() -> None:
    motion = Motion(course=True)
    motion.go(2.0, 0.4, 0.3, ground=0.3, target=0.3)
    assert motion.monitors.progress.rolled_back_m == 0.0
    # Braked and driven in turn, as a speed control does that cannot hold it.
    for _ in range(10):
        motion.go(0.1, 0.4, -0.1, wheel=-0.2, target=0.3)
        motion.go(0.1, 0.0, -0.1, wheel=-0.2, target=0.3, brake=1.0)
    assert motion.monitors.progress.rolled_back_m == pytest.approx(0.4, abs=0.03)
    assert motion.seconds[2] == 0.0, "it is too slow for motion against the drive"
    motion.go(0.1, -0.4, -0.2, wheel=-0.2, target=0.3)
    assert motion.monitors.progress.rolled_back_m == 0.0, "now that is its direction"


def test_a_released_vehicle_that_rolls_slowly_is_noticed_and_noise_is_forgotten() -> None:
    motion = Motion()
    motion.go(6.0, 0.0, 0.0, wheel=-0.08, mode=Mode.FAULT)
    assert motion.monitors.progress.rolled_m == pytest.approx(-0.45, abs=0.06)
    motion.go(120.0, 0.0, 0.0, wheel=0.0, mode=Mode.FAULT, tick_ms=100)
    assert abs(motion.monitors.progress.rolled_m) < 0.02


@pytest.mark.parametrize("throttle", [0.0, 0.4])
def test_faster_than_asked_for(throttle: float) -> None:
    """However it is driven. A lower speed gives it the time to slow down first, and no speed stated
    is none exceeded."""
    motion = Motion()
    motion.go(3.0, 0.4, 1.0, target=1.0)
    motion.go(0.4, throttle, 1.0, target=0.3)
    assert motion.monitors.motion.faster_ns == 0
    motion.go(2.5, throttle, 1.0, target=0.3)
    assert motion.monitors.motion.faster_ns * 1e-9 > FASTER_S
    motion.go(0.1, throttle, 0.5, target=0.3)
    assert motion.monitors.motion.faster_ns == 0
    motion.go(2.0, 0.4, 1.0, target=float("nan"), mode=Mode.TELEOP)
    assert motion.monitors.motion.faster_ns == 0


def test_wheels_and_the_estimate_disagree() -> None:
    motion = Motion()
    motion.go(0.5, 0.5, 1.0, wheel=1.2)
    assert motion.monitors.motion.mismatch_ns == 0
    motion.go(0.5, 0.5, 1.0, wheel=2.0)
    assert motion.monitors.motion.mismatch_ns == pytest.approx(500 * MS, abs=10 * MS)
    motion.go(3.0, 0.5, 1.0)
    assert motion.monitors.motion.mismatch_ns == 0, (
        "a wheel that says nothing disagrees with nobody"
    )


def test_a_stamp_from_the_future_keeps_nothing_alive() -> None:
    motion = Motion()
    late = 2**62
    for message in (
        WheelSpeed(late, late, 9.0, 0.1),
        MotorStatus(late, late, motor_speed_radps=300.0),
    ):
        motion.monitors.on_message(message, motion.now_ns)
        motion.go(2.0, 0.5, 1.0)
        assert motion.monitors.motion.mismatch_ns == 0
    for _ in range(3):
        motion.monitors.on_message(
            GnssFix(late, late, 0.7, -1.5, 0.0, (0.0, 0.0, 0.0)), motion.now_ns
        )
    motion.go(1.0, 0.5, 1.0)
    assert motion.seconds[0] == 0.0


def test_a_voltage_that_is_not_of_this_world_does_not_stay() -> None:
    monitors = Monitors(LIMITS, VEHICLE)
    monitors.on_message(MotorStatus(START, START, input_voltage_v=7.4), START)
    for k, volts in enumerate((1e308, -1e308, float("inf"), 7.4)):
        monitors.on_message(
            MotorStatus(
                START, START, input_voltage_v=volts, input_current_a=1e308 if volts > 8 else 0.0
            ),
            START + k * MS,
        )
    assert monitors.motor.rest_v == pytest.approx(7.4)


@pytest.mark.parametrize("period_ms", [2, 5, 10, 20])
def test_a_step_spread_over_some_commands_is_not_over_the_limits_unless_it_goes_on(
    period_ms: int,
) -> None:
    for bit, counts in ((16, False), (64, False), (1, True), (2 | 64, True), (32, True)):
        monitors = Monitors(LIMITS, VEHICLE)
        seen = 0
        for now_ns in range(START, START + 55 * MS, period_ms * MS):
            look_at_clipped(monitors, now_ns, bit)
            seen += 1
        assert monitors.control.clipped_in_a_row == (seen if counts else 0)
    monitors = Monitors(LIMITS, VEHICLE)
    for now_ns in range(START, START + 400 * MS, period_ms * MS):
        look_at_clipped(monitors, now_ns, 64)
    assert monitors.control.clipped_in_a_row > 5
    look_at_clipped(monitors, now_ns, 0)
    assert monitors.control.clipped_in_a_row == 0


def look_at_clipped(monitors: Monitors, now_ns: int, clipped: int) -> None:
    sent = replace(SENT, throttle=0.4, clipped=clipped)
    monitors.update(
        RuleInputs(
            now_ns=now_ns,
            mode=Mode.AUTO,
            limits=LIMITS,
            monitors=monitors,
            estimate=ESTIMATE,
            control=CONTROL,
            sent=sent,
        )
    )
