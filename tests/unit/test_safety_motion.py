"""The motion monitor tick by tick: each of its durations just below and just above what starts it,
with numbers worked out here."""

from math import asin, inf, isfinite, nan, pi, sqrt
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_machine import VEHICLE
from tests.unit.test_safety_supervisor import ESTIMATE, LIMITS
from vehicled.core.messages import NAN9, ActuatorCommand, GnssFix, Mode, WheelSpeed
from vehicled.core.vehicle import Vehicle
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.motion import MotionMonitor
from vehicled.safety.monitors.speed import SpeedMonitor

MS = 10**6
SENT = ActuatorCommand(0, 0, 0.0, 0.0, 0.0, 0.0, Mode.AUTO)
BRAKED = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=3.0))
FREE = replace(VEHICLE, drive=replace(VEHICLE.drive, friction_nm=0.0))
"""A vehicle that nothing slows down."""
ROLLS_MPS2 = -BRAKED.drive.acceleration_mps2(0.0, 0.0)
PUSHING = BRAKED.drive.steady_throttle(0.0) + 0.1
LAG_TICKS = 30
"""Twice the delay of the drive of 0.1 s, and 0.1 s, in ticks of 10 ms."""


class Ticks:
    """A motion monitor with a command, an estimate and measured speeds every 10 ms."""

    def __init__(self, vehicle: Vehicle = BRAKED, *, learns: bool = False) -> None:
        self.speed = SpeedMonitor(vehicle, LIMITS)
        self.motion = MotionMonitor(vehicle, LIMITS, self.speed)
        # While the speed is not measured, no slope is learnt: the numbers below are those of level
        # ground.
        self.speed.unmeasured = not learns
        self.now_ns = 50 * 10**9
        self.tick()

    def tick(
        self,
        throttle: float = 0.0,
        speed: float = 0.0,
        *,
        times: int = 1,
        brake: float = 0.0,
        wheel: float | None = None,
        ground: float | None = None,
        sigma: float = 0.01,
        asked: float = nan,
        mode: Mode = Mode.AUTO,
        after_ms: int = 10,
    ) -> MotionMonitor:
        for _ in range(times):
            self.now_ns += after_ms * MS
            if wheel is not None:
                self.speed.on_message(
                    WheelSpeed(self.now_ns, self.now_ns, wheel, sigma), self.now_ns
                )
            for k in range(3 if ground is not None else 0):
                # A receiver whose fixes are equal repeats itself.
                east = (ground or 0.0) + (k - 1) * 1e-6
                spread = (sigma**2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)
                self.speed.on_message(
                    GnssFix(
                        self.now_ns, self.now_ns, 0.7, -1.5, 0.0, (east, 0.0, 0.0), NAN9, spread
                    ),
                    self.now_ns,
                )
            sent = replace(SENT, throttle=throttle, brake=brake, mode=mode)
            self.motion.update(
                SafetyInputs(
                    now_ns=self.now_ns, mode=mode, limits=LIMITS,
                    estimate=replace(ESTIMATE, speed_mps=speed), sent=sent, asked_mps=asked,
                )
            )  # fmt: skip
        return self.motion

    @property
    def ms(self) -> dict[str, float]:
        """Durations that are not 0, ms."""
        m = self.motion
        durations = {
            "not_moving": m.not_moving_ns, "stalled": m.stalled_ns, "uncommanded": m.uncommanded_ns,
            "faster": m.faster_ns, "mismatch": m.mismatch_ns, "unbraked": m.unbraked_ns,
        }  # fmt: skip
        return {name: duration / MS for name, duration in durations.items() if duration}


def test_a_drive_begins_without_a_history() -> None:
    fresh = Ticks()
    assert fresh.ms == {}
    assert fresh.motion.ceiling_mps == LIMITS.max_speed_mps
    assert fresh.motion.surplus_mps2 == 0.0
    fresh.tick(0.0, 0.5, brake=1.0, asked=0.1)
    assert fresh.ms == {"uncommanded": 10, "faster": 10}, (
        "no speed is explained before the first command"
    )
    drive = Ticks()
    drive.tick(1.0, 2.0, times=LAG_TICKS, wheel=1.0, asked=2.0)
    drive.tick(1.0, 0.0, times=60, wheel=1.0, asked=2.0)
    assert set(drive.ms) == {"not_moving", "stalled", "mismatch"}
    drive.motion.reset()
    assert drive.ms == {}
    drive.tick(1.0, 0.0, times=60, wheel=0.0, asked=2.0)
    assert set(drive.ms) == {"not_moving"}, "a vehicle that has not moved has not stalled"
    drive.motion.reset()
    drive.tick(0.0, 0.0, times=LAG_TICKS + 1, brake=1.0)
    drive.tick(0.0, 2.0, times=60, brake=1.0, asked=0.1)
    assert set(drive.ms) == {"uncommanded", "faster", "unbraked"}
    drive.motion.reset()
    assert drive.ms == {}
    drive.tick(0.0, 2.0, times=2, brake=1.0, asked=0.1)
    assert drive.ms == {"uncommanded": 20, "faster": 20}
    drive.motion.reset()
    drive.tick(0.0, 1.0, brake=1.0, asked=1.0)
    assert drive.ms == {"uncommanded": 10, "faster": 10}, (
        "no throttle of the drive before explains a motion down a slope"
    )


def test_a_tick_without_a_command_or_time_counts_nothing() -> None:
    for after_ms in (0, -10):
        motion = Ticks()
        motion.tick(1.0, 1.0, wheel=3.0, asked=0.1)
        before = motion.ms
        assert before
        motion.tick(1.0, 1.0, wheel=3.0, asked=0.1, after_ms=after_ms)
        assert motion.ms == before


# ------------------------------------------------------------------------------ wheels, asked speed


@pytest.mark.parametrize(
    ("speed", "wheel", "ground", "apart"),
    [
        (1.0, 1.399, None, False), (1.0, 1.401, None, True), (1.0, 0.601, None, False),
        (1.0, 0.599, None, True), (2.0, 2.599, None, False), (2.0, 2.601, None, True),
        (2.0, 1.401, None, False), (2.0, 1.399, None, True), (-2.0, 2.0, None, False),
        (2.0, -2.0, None, False), (-2.0, -2.601, None, True), (2.0, nan, None, False),
        (2.0, 2.0, 1.61, False), (2.0, 2.0, 1.49, True), (nan, 9.0, None, False),
    ],
)  # fmt: skip
def test_wheels_contradict_the_estimate_or_gnss(
    speed: float, wheel: float, ground: float | None, apart: bool
) -> None:
    motion = Ticks()
    motion.tick(0.5, speed, times=3, wheel=wheel, ground=ground)
    assert motion.ms.get("mismatch", 0.0) == (30.0 if apart else 0.0)


@pytest.mark.parametrize(
    ("throttle", "brake", "wheel", "apart"),
    [
        # What slows down by more than LOCKS_MPS2 may lock wheels, and speeds none up.
        (0.0, 1.0, 0.0, False), (0.0, 1.0, 3.0, True), (0.0, 0.0, 0.0, True), (0.5, 0.0, 0.0, True),
    ],
)  # fmt: skip
def test_wheels_that_the_brake_locks_contradict_nothing(
    throttle: float, brake: float, wheel: float, apart: bool
) -> None:
    motion = Ticks(BRAKED)
    motion.tick(throttle, 2.0, times=3, brake=brake, wheel=wheel)
    assert ("mismatch" in motion.ms) is apart


def test_a_small_vehicle_has_a_small_tolerance_and_agreement_counts_half() -> None:
    motion = Ticks()
    motion.motion = MotionMonitor(BRAKED, replace(LIMITS, max_speed_mps=0.6), motion.speed)
    motion.tick(0.5, 0.5)
    motion.tick(0.5, 0.5, wheel=0.799)
    assert motion.ms.get("mismatch") is None
    motion.tick(0.5, 0.5, times=4, wheel=0.801)
    assert motion.ms["mismatch"] == 40
    motion.tick(0.5, 0.5, times=3, wheel=0.5)
    assert motion.ms["mismatch"] == 25
    motion.tick(0.5, nan, times=3, wheel=0.5)
    assert motion.ms["mismatch"] == 25
    motion.tick(0.5, 0.5, times=10, wheel=0.5)
    assert motion.ms.get("mismatch") is None


@pytest.mark.parametrize(
    ("speed", "asked", "mode", "faster"),
    [
        (1.65, 1.0, Mode.AUTO, False), (1.651, 1.0, Mode.AUTO, True),
        (-1.651, 1.0, Mode.OFFBOARD, True), (1.651, 1.0, Mode.STOPPING, False),
        (1.651, nan, Mode.TELEOP, False), (0.149, 0.0, Mode.AUTO, False),
        (0.151, 0.0, Mode.ALIGN, True), (nan, 0.0, Mode.AUTO, False),
    ],
)  # fmt: skip
def test_faster_than_half_as_much_again_as_asked(
    speed: float, asked: float, mode: Mode, faster: bool
) -> None:
    motion = Ticks()
    motion.tick(0.5, 0.0, times=100, asked=asked, mode=mode)
    motion.tick(0.5, speed, times=2, asked=asked, mode=mode)
    assert motion.ms.get("faster", 0.0) == (20.0 if faster else 0.0)
    motion.tick(0.5, 0.0, asked=asked, mode=mode)
    assert motion.ms.get("faster") is None


@pytest.mark.parametrize("vehicle", [BRAKED, FREE])
def test_a_speed_counts_as_asked_for_once_the_drive_could_have_reached_it(vehicle: Vehicle) -> None:
    """Twice the acceleration of the full drive is believed, and .5 m/s2 of a drive without any."""
    motion = Ticks(vehicle)
    gains_mps2 = 2.0 * vehicle.drive.acceleration_mps2(1.0, 0.0)
    ticks = int((2.0 - 0.15) / 1.5 / (0.01 * gains_mps2))
    motion.tick(0.5, 2.0, times=ticks, asked=2.0)
    assert motion.ms["faster"] == 10.0 * ticks
    motion.tick(0.5, 2.0, times=2, asked=2.0)
    assert motion.ms.get("faster") is None
    weak = Ticks(replace(vehicle, drive=replace(vehicle.drive, stall_torque_nm=1e-6)))
    ticks = int((2.0 - 0.15) / 1.5 / (0.01 * 2.0 * 0.5))
    weak.tick(0.5, 2.0, times=ticks, asked=2.0)
    assert weak.ms["faster"] == 10.0 * ticks
    weak.tick(0.5, 2.0, times=2, asked=2.0)
    assert weak.ms.get("faster") is None


def test_a_high_speed_that_is_named_now_and_then_is_not_asked_for() -> None:
    motion = Ticks(BRAKED)
    motion.tick(0.5, 0.2, times=100, asked=0.2)
    for _ in range(3):
        motion.tick(0.5, 2.0, asked=2.0)
        motion.tick(0.5, 2.0, times=99, asked=0.2)
    assert motion.ms["faster"] == 3000.0


@pytest.mark.parametrize(
    ("vehicle", "slows_mps2"),
    [(BRAKED, 0.5 * (1.5 + ROLLS_MPS2)), (FREE, 0.1), (VEHICLE, 0.5 * ROLLS_MPS2)],
)
@pytest.mark.parametrize("mode", [Mode.AUTO, Mode.STANDBY])
def test_a_lower_speed_leaves_time_to_slow_down(
    vehicle: Vehicle, slows_mps2: float, mode: Mode
) -> None:
    """Asked for 2 m/s, or not driving at 2 m/s, then for 1.5 m/s less."""
    motion = Ticks(vehicle)
    motion.tick(0.5, 2.0, times=300, asked=2.0, mode=mode)
    ticks = int((2.0 - (2.0 - 0.15) / 1.5) / (0.01 * slows_mps2))
    motion.tick(0.5, 2.0, times=ticks, asked=0.5)
    assert motion.ms.get("faster") is None
    motion.tick(0.5, 2.0, asked=0.5)
    assert motion.ms["faster"] == 10
    # A vehicle that has slowed down has no right to the higher speed any more.
    motion.tick(0.5, 0.5, asked=0.5)
    motion.tick(0.5, 1.1, asked=0.5)
    assert motion.ms["faster"] == 10


# ------------------------------------------------------------------------------- uncommanded motion


@pytest.mark.parametrize(
    ("throttle", "speed", "wheel", "counts"),
    [
        (0.0, 0.3, None, False), (0.0, 0.301, None, True), (0.0, -0.3, None, False),
        (0.0, -0.301, None, True), (0.0, 0.0, 0.3, False), (0.0, 0.0, 0.301, True),
        (0.0, 0.0, -0.301, True), (0.0, 0.0, nan, False), (0.5, -0.3, None, False),
        (0.5, -0.301, None, True), (0.5, 0.301, None, False), (-0.5, 0.301, None, True),
        (0.5, 0.0, -0.3, False), (0.5, 0.0, -0.301, True), (0.5, 2.0, 2.0, False),
    ],
)  # fmt: skip
def test_motion_that_no_command_explains(
    throttle: float, speed: float, wheel: float | None, counts: bool
) -> None:
    motion = Ticks()
    motion.tick(throttle, speed, times=2, brake=1.0 if throttle == 0.0 else 0.0, wheel=wheel)
    assert motion.ms.get("uncommanded", 0.0) == (20.0 if counts else 0.0)
    motion.tick(throttle, 0.0, wheel=None if wheel is None else 0.0)
    assert motion.ms.get("uncommanded") is None


def test_a_command_explains_motion_for_its_delays() -> None:
    for ticks, counts in ((LAG_TICKS, False), (LAG_TICKS + 1, True)):
        motion = Ticks()
        motion.tick(0.5, 1.0)
        motion.tick(0.0, 1.0, times=ticks - 1)
        motion.tick(0.0, 2.0)
        assert ("uncommanded" in motion.ms) is counts


def slows_from(motion: Ticks, explained_mps: float, slows_mps2: float, **command: Any) -> None:
    """Check the tick at which a speed that stays is not explained any more."""
    ticks = int(0.3 / (0.01 * slows_mps2))
    motion.tick(0.0, explained_mps, times=ticks, **command)
    assert "uncommanded" not in motion.ms
    motion.tick(0.0, explained_mps, **command)
    assert motion.ms["uncommanded"] == 10


@pytest.mark.parametrize(
    ("brake", "slows_mps2"),
    [
        (1.0, 0.5 * (3.0 + ROLLS_MPS2)),
        (0.4, 0.5 * (1.2 + ROLLS_MPS2)),
        (0.1, 0.5 * (0.3 + ROLLS_MPS2)),
    ],
)
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_half_of_brake_and_friction_is_certain(
    brake: float, slows_mps2: float, sense: float
) -> None:
    motion = Ticks()
    motion.tick(0.5 * sense, 1.0)
    motion.tick(0.0, 1.0, times=LAG_TICKS, brake=brake)
    slows_from(motion, 1.0, slows_mps2, brake=brake)


def test_the_weakest_brake_within_the_delays_counts() -> None:
    motion = Ticks()
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=LAG_TICKS, brake=1.0)
    motion.tick(0.0, 1.0, brake=0.2)
    # The weak command of one tick acts as long as any.
    weak, strong = 0.005 * (0.6 + ROLLS_MPS2), 0.005 * (3.0 + ROLLS_MPS2)
    motion.tick(0.0, 1.0, times=LAG_TICKS, brake=1.0)
    assert motion.motion._explained_mps == pytest.approx(1.0 - (LAG_TICKS + 1) * weak)
    motion.tick(0.0, 1.0, brake=1.0)
    assert motion.motion._explained_mps == pytest.approx(1.0 - (LAG_TICKS + 1) * weak - strong)


def test_what_slows_down_without_a_brake() -> None:
    motion = Ticks(VEHICLE)
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=LAG_TICKS)
    slows_from(motion, 1.0, 0.5 * ROLLS_MPS2)
    motion = Ticks(FREE)
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=200)
    assert motion.ms == {}, "nothing slows it down"
    motion = Ticks()
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=200)
    assert motion.ms == {}, "with a brake that is not used it may coast"
    strong = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=30.0))
    motion = Ticks(strong)
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=LAG_TICKS, brake=1.0)
    motion.tick(0.0, 1.0, brake=1.0)
    assert motion.motion._explained_mps == pytest.approx(1.0 - 0.005 * (9.80665 + ROLLS_MPS2)), (
        "tyres slow it down by 1 g"
    )
    motion.tick(0.0, 0.151, brake=1.0)
    assert motion.motion._explained_mps > 0.0
    motion.tick(0.0, 0.149, brake=1.0)
    assert motion.motion._explained_mps == 0.0, "from rest nothing is explained"


@pytest.mark.parametrize(
    ("mode", "asked", "sense", "explained"),
    [
        (Mode.AUTO, 1.0, 1.0, True), (Mode.AUTO, 0.75, 1.0, True), (Mode.AUTO, 0.74, 1.0, False),
        (Mode.AUTO, 1.0, -1.0, False), (Mode.STOPPING, 1.0, 1.0, False),
        (Mode.TELEOP, nan, 1.0, False),
    ],
)  # fmt: skip
def test_down_a_slope_the_brake_holds_the_speed_that_is_asked_for(
    mode: Mode, asked: float, sense: float, explained: bool
) -> None:
    """1.2 times the speed asked for is explained, and 0.3 m/s more."""
    motion = Ticks()
    motion.tick(0.5 * sense, 0.0)
    motion.tick(0.0, 0.0, times=LAG_TICKS + 1, brake=1.0)
    motion.tick(0.0, 1.199, brake=1.0, asked=asked, mode=mode)
    assert ("uncommanded" not in motion.ms) is explained


def test_motion_that_the_brake_does_not_end() -> None:
    motion = Ticks()
    motion.tick(brake=1.0, times=LAG_TICKS + 1)
    motion.tick(0.0, 1.0, times=30, brake=1.0)
    assert motion.ms == {"uncommanded": 300}
    assert motion.motion._braked_mps is None
    motion.tick(0.0, 1.0, brake=1.0)
    assert motion.motion._braked_mps == 1.0
    ticks = int(0.3 / (0.005 * (3.0 + ROLLS_MPS2)))
    motion.tick(0.0, 1.0, times=ticks, brake=1.0)
    assert motion.ms == {"uncommanded": 310 + 10 * ticks}
    motion.tick(0.0, 1.0, times=2, brake=1.0)
    assert motion.ms == {"uncommanded": 330 + 10 * ticks, "unbraked": 20}
    motion.tick(0.0, 0.3, brake=1.0)
    assert motion.ms.get("unbraked") is None
    motion.tick(0.0, 1.0, times=100, brake=1.0)
    motion.tick(0.0, 0.3, brake=1.0)
    assert motion.ms == {}, "a speed that noise makes is none"
    motion.tick(0.0, 0.31, brake=1.0)
    assert motion.ms["unbraked"] == 10


# ------------------------------------------------------------------------------ not moving, stalled


@pytest.mark.parametrize("mode", [Mode.INIT, Mode.STANDBY, Mode.ARMED, Mode.FAULT])
@pytest.mark.parametrize("source", ["wheel", "ground"])
def test_motion_where_it_should_stand(mode: Mode, source: str) -> None:
    drive = Ticks()
    # Three fixes are averaged.
    least_mps = drive.speed.moving_mps + 0.03 / (sqrt(3.0) if source == "ground" else 1.0)
    for speed, estimated, rolls in (
        (least_mps - 1e-6, 0.0, False),
        (least_mps + 1e-6, 0.0, True),
        (least_mps + 1e-6, nan, True),
        (0.0, 2.0, False),
    ):
        drive.tick(times=3, mode=mode, wheel=0.0, ground=0.0)
        before_ns = drive.tick(0.0, 0.0, mode=mode, brake=1.0).rolling_ns
        assert before_ns == 0
        drive.tick(0.0, estimated, mode=mode, brake=1.0, times=5, **{source: speed})  # type: ignore[arg-type]
        assert drive.motion.rolling_ns == (5 * 10 * MS if rolls else 0), speed
    drive.tick(0.0, 1.0, times=1, **{source: 1.0})  # type: ignore[arg-type]
    assert drive.motion.rolling_ns == 0, "a drive is judged by other rules"


def test_rolling_out_is_no_rollaway() -> None:
    """A quarter of the brake, and half of what rolls, explain the time until it rests."""
    drive = Ticks()
    drive.tick(1.0, 2.0, times=3, wheel=2.0)
    slows_mps2 = 0.5 * (0.5 * 3.0 + ROLLS_MPS2)
    ticks = int((0.03 + drive.speed.moving_mps) / slows_mps2 * 100.0)
    # Nothing slows it down: what explains its speed falls below it by and by.
    drive.tick(0.0, 2.0, mode=Mode.FAULT, brake=1.0, times=ticks - 3, wheel=2.0)
    assert drive.motion.rolling_ns == 0
    drive.tick(0.0, 2.0, mode=Mode.FAULT, brake=1.0, times=6, wheel=2.0)
    assert 0 < drive.motion.rolling_ns <= 6 * 10 * MS
    # The same, slowed down by a little more than that.
    drive = Ticks()
    drive.tick(1.0, 2.0, times=3, wheel=2.0)
    for k in range(300):
        speed = max(2.0 - 1.02 * slows_mps2 * 0.01 * (k + 1), 0.0)
        drive.tick(0.0, speed, mode=Mode.FAULT, brake=1.0, wheel=speed)
        assert drive.motion.rolling_ns == 0, k


@pytest.mark.parametrize(
    ("command", "counts"),
    [
        ({"throttle": PUSHING + 1e-9}, True), ({"throttle": PUSHING - 1e-9}, False),
        ({"throttle": -PUSHING - 1e-9}, True), ({"throttle": 1.0, "brake": 1e-9}, False),
        ({"throttle": 1.0, "asked": 0.0}, False),
        ({"throttle": BRAKED.drive.steady_throttle(0.1) + 1e-9, "asked": 0.2}, True),
        ({"throttle": BRAKED.drive.steady_throttle(0.1) - 1e-9, "asked": 0.2}, False),
        ({"throttle": PUSHING - 1e-9, "asked": 3.0}, False),
        ({"throttle": PUSHING + 1e-9, "asked": 3.0}, True),
    ],
)  # fmt: skip
def test_a_throttle_that_moves_any_vehicle(command: dict[str, float], counts: bool) -> None:
    motion = Ticks()
    motion.tick(times=3, **command)  # type: ignore[arg-type]
    assert motion.ms.get("not_moving", 0.0) == (30.0 if counts else 0.0)


@pytest.mark.parametrize(
    ("asked", "measured", "least_mps"),
    [
        # A quarter of what is asked for, or noise up to a half of it, or what shows motion for
        # certain.
        (0.4, {"wheel": 0.1, "sigma": 0.01}, 0.1), (0.2, {"wheel": 0.09, "sigma": 0.03}, 0.09),
        (0.1, {"wheel": 0.05, "sigma": 0.04}, 0.05), (2.0, {"wheel": 0.15, "sigma": 0.01}, 0.15),
        (nan, {"wheel": 0.15}, 0.15), (0.4, {"ground": 0.1, "sigma": 0.01}, 0.1), (0.5, {}, 0.15),
        (0.4, {}, 0.15), (0.2, {}, 0.1),
        # GNSS counts before the wheels unless six of its standard deviations hide the speed asked
        # for.
        (0.4, {"ground": 0.1, "wheel": 9.0, "sigma": 0.01}, 0.1),
    ],
)  # fmt: skip
def test_the_speed_below_which_it_stands(
    asked: float, measured: dict[str, float], least_mps: float
) -> None:
    motion = Ticks()
    for ratio, counts in ((0.999, True), (1.001, False)):
        now = {
            name: value * ratio if value == least_mps else value for name, value in measured.items()
        }
        motion.tick(1.0, 9.0 if now else ratio * least_mps, asked=asked, **now)  # type: ignore[arg-type]
        # Within twice that speed it may be noise, and counts back.
        assert ("not_moving" in motion.ms) is counts


@pytest.mark.parametrize(("sigma", "by_wheels"), [(0.066, False), (0.068, False), (0.116, True)])
def test_a_receiver_too_noisy_for_the_speed_asked_for_gives_way_to_the_wheels(
    sigma: float, by_wheels: bool
) -> None:
    motion = Ticks()
    for k in range(3):
        now = motion.now_ns + 10 * MS
        spread = (sigma**2, *(0.0,) * 3, sigma**2, *(0.0,) * 4)
        motion.speed.on_message(
            GnssFix(now, now, 0.7, -1.5, 0.0, (1e-6 * k, 0.0, 0.0), NAN9, spread), now
        )
    motion.tick(1.0, 1.0, wheel=0.5, asked=0.4)
    assert ("not_moving" not in motion.ms) is by_wheels


def test_noise_counts_back_and_motion_ends_the_count() -> None:
    motion = Ticks()
    motion.tick(1.0, 0.149, times=5)
    assert motion.ms["not_moving"] == 50
    motion.tick(1.0, 0.299, times=2)
    assert motion.ms["not_moving"] == 30
    motion.tick(1.0, 0.299, times=9)
    assert "not_moving" not in motion.ms
    motion.tick(1.0, 0.149, times=5)
    motion.tick(1.0, 0.301)
    assert "not_moving" not in motion.ms
    motion.tick(1.0, 0.149, times=5)
    motion.tick(0.0, 0.149)
    assert motion.ms["not_moving"] == 40, "a throttle that noise takes away for a moment"
    motion.tick(0.0, 0.149, times=4)
    assert "not_moving" not in motion.ms


def test_a_stall_is_a_vehicle_that_moved_and_stands_under_throttle() -> None:
    motion = Ticks()
    motion.tick(1.0, 0.301, times=LAG_TICKS)
    motion.tick(1.0, 0.1)
    assert motion.ms["stalled"] == 10, "it was driven for longer than a brake acts on"
    motion.tick(1.0, 0.2)
    assert "stalled" not in motion.ms
    motion.tick(1.0, 0.1)
    assert motion.ms["stalled"] == 10
    motion.tick(0.0, 0.1)
    motion.tick(1.0, 0.1, times=2 * LAG_TICKS)
    assert "stalled" not in motion.ms, "a throttle of 0 ends the drive that was under way"


@pytest.mark.parametrize(
    ("before", "then", "stalls"),
    [
        ({"throttle": 1.0, "speed": 0.301}, {"throttle": 1.0}, True),
        ({"throttle": 1.0, "speed": 0.299}, {"throttle": 1.0}, False),
        ({"throttle": -1.0, "speed": -0.301}, {"throttle": -1.0}, True),
        ({"throttle": 1.0, "speed": -0.301}, {"throttle": 1.0}, False),
        ({"throttle": 1.0, "speed": 0.301}, {"throttle": -1.0}, False),
        # Noise that hides half of what is asked for shows no stall.
        ({"throttle": 1.0, "speed": 0.5, "wheel": 0.5, "sigma": 0.033, "asked": 0.2},
         {"throttle": 1.0, "asked": 0.2}, True),
        ({"throttle": 1.0, "speed": 0.5, "wheel": 0.5, "sigma": 0.034, "asked": 0.2},
         {"throttle": 1.0, "asked": 0.2}, False),
        # A throttle that is too little for this ground lets it come to rest.
        ({"throttle": 1.0, "speed": 0.301}, {"throttle": PUSHING - 1e-6, "asked": 0.2}, False),
        ({"throttle": 1.0, "speed": 0.301}, {"throttle": PUSHING + 1e-6, "asked": 0.2}, True),
    ],
)  # fmt: skip
def test_what_stalls(before: dict[str, float], then: dict[str, float], stalls: bool) -> None:
    motion = Ticks()
    motion.tick(times=LAG_TICKS + 1, **before)  # type: ignore[arg-type]
    then = {"wheel": 0.0, "sigma": before.get("sigma", 0.01)} | then
    motion.tick(times=2, **then)  # type: ignore[arg-type]
    assert motion.ms.get("stalled", 0.0) == (20.0 if stalls else 0.0)
    motion.tick(before["throttle"], 0.0, wheel=0.0)
    assert ("stalled" in motion.ms) is stalls, "what is not under way stays so"


def test_a_brake_that_was_just_released_delays_a_stall() -> None:
    motion = Ticks()
    motion.tick(1.0, 0.5)
    motion.tick(1.0, 0.1, brake=0.5)
    motion.tick(1.0, 0.1, times=LAG_TICKS)
    assert motion.ms == {"not_moving": 10 * LAG_TICKS}
    motion.tick(1.0, 0.1)
    assert motion.ms["stalled"] == 10


# --------------------------------------------------------------------------------- slope, top speed


@pytest.mark.parametrize(
    ("speeds", "throttle", "brake", "learns_mps2"),
    [
        # The measured acceleration without that of drive and brake at the speed before, in the
        # direction of motion.
        ((1.0, 1.0), 0.5, 0.0, -BRAKED.drive.acceleration_mps2(0.5, 1.0)),
        ((1.0, 1.01), 0.5, 0.0, 1.0 - BRAKED.drive.acceleration_mps2(0.5, 1.0)),
        ((-1.0, -1.01), -0.5, 0.0, 1.0 + BRAKED.drive.acceleration_mps2(-0.5, -1.0)),
        ((1.0, 0.99), 0.0, 0.3, -1.0 - BRAKED.drive.acceleration_mps2(0.0, 1.0, 0.3)),
        ((0.15, 0.15), 0.5, 0.0, -BRAKED.drive.acceleration_mps2(0.5, 0.15)),
        ((0.149, 0.149), 0.5, 0.0, 0.0), ((1.0, 1.0), 0.0, 0.0, 0.0), ((nan, 1.0), 0.5, 0.0, 0.0),
        ((1.0, nan), 0.5, 0.0, 0.0),
    ],
)  # fmt: skip
def test_what_drive_and_brake_do_not_explain_is_a_slope(
    speeds: tuple[float, float], throttle: float, brake: float, learns_mps2: float
) -> None:
    motion = Ticks(learns=True)
    motion.tick(0.0, speeds[0])
    motion.tick(throttle, speeds[1], brake=brake)
    assert motion.motion._surplus_mps2 == pytest.approx(0.01 * learns_mps2)
    assert motion.motion._slope_mps2 == pytest.approx(max(0.01 * learns_mps2, 0.0))
    motion.speed.unmeasured = True
    motion.tick(throttle, speeds[1], brake=brake)
    assert motion.motion._surplus_mps2 == pytest.approx(0.01 * learns_mps2), (
        "a speed that the drive's model predicts"
    )


def test_a_strong_brake_is_limited_by_its_tyres_and_a_long_tick_learns_at_most_all() -> None:
    strong = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=30.0))
    motion = Ticks(strong, learns=True)
    motion.tick(0.0, 1.0)
    motion.tick(0.0, 1.0, brake=0.5)
    braked = strong.drive.acceleration_mps2(0.0, 1.0) - 0.5 * 9.80665
    assert motion.motion._surplus_mps2 == pytest.approx(-0.01 * braked)
    motion.tick(0.0, 1.0, brake=0.5, after_ms=1500)
    assert motion.motion._surplus_mps2 == pytest.approx(-braked)
    assert motion.motion.surplus_mps2 == pytest.approx(0.08 * 9.80665)
    assert motion.motion._slope_mps2 == 0.0, "no slope is that steep"
    motion.tick(0.9, 0.2, after_ms=1500)
    assert motion.motion.surplus_mps2 == pytest.approx(-0.08 * 9.80665)


def test_a_slope_makes_less_certain() -> None:
    motion = Ticks()
    motion.motion._slope_mps2 = 0.5
    motion.tick(0.5, 1.0)
    motion.tick(0.0, 1.0, times=LAG_TICKS, brake=1.0)
    slows_from(motion, 1.0, 0.5 * (3.0 + ROLLS_MPS2) - 0.5, brake=1.0)
    motion.motion._slope_mps2 = 3.0
    motion.motion._explained_mps = 2.0
    motion.tick(0.0, 1.0, times=100, brake=1.0)
    assert motion.motion._explained_mps == 2.0


def test_the_highest_speed_that_is_possible() -> None:
    certain = 0.005 * (3.0 + ROLLS_MPS2)
    motion = Ticks()
    motion.tick(0.0, 0.0, brake=1.0, ground=0.5, sigma=0.03)
    assert motion.motion.ceiling_mps == pytest.approx(0.5 + 3.0 * 0.03 / 3**0.5)
    motion = Ticks()
    motion.tick(0.5, -3.5)
    assert motion.motion.ceiling_mps == 3.5
    motion.tick(0.0, 0.0, times=LAG_TICKS, brake=1.0)
    assert motion.motion.ceiling_mps == 3.5, "while the throttle may still act"
    motion.tick(0.0, 0.0, times=10, brake=1.0)
    assert motion.motion.ceiling_mps == pytest.approx(3.5 - 10 * certain)
    motion.tick(0.0, 0.0, brake=1.0, wheel=-3.7)
    assert motion.motion.ceiling_mps == 3.7
    motion.speed._wheel_ns = 0
    motion.tick(0.0, 0.0, times=300, brake=1.0)
    assert motion.motion.ceiling_mps == 0.0
    motion.tick(0.5, nan)
    assert motion.motion.ceiling_mps == LIMITS.max_speed_mps
    motion.tick(0.0, nan, times=LAG_TICKS + 300, brake=1.0)
    assert motion.motion.ceiling_mps == 0.0
    # Without a command or time only what is measured counts.
    motion.tick(0.5, 2.0, after_ms=0)
    assert motion.motion.ceiling_mps == 0.0
    motion.tick(0.5, 2.0, after_ms=0, wheel=-1.0)
    assert motion.motion.ceiling_mps == 1.0
    # A receiver that repeats itself is not alive.
    for _ in range(3):
        motion.speed.on_message(
            GnssFix(motion.now_ns, motion.now_ns, 0.7, -1.5, 0.0, (0.1, 0.0, 0.0)), motion.now_ns
        )
    motion.tick(0.5, 2.0, after_ms=0)
    assert motion.motion.ceiling_mps == 1.0


@pytest.mark.parametrize(
    ("ground", "speed", "faster"),
    [
        (2.0, 1.39, True),
        (2.0, -1.39, True),
        (2.0, 1.41, False),
        (2.0, -1.41, False),
        (1.0, 0.59, True),
        (1.0, 0.61, False),
        (inf, 0.0, False),
    ],
)
def test_a_speed_that_only_the_fixes_prove(ground: float, speed: float, faster: bool) -> None:
    motion = Ticks()
    assert motion.motion.faster_mps(motion.now_ns, speed) == 0.0
    motion.tick(0.5, ground=ground, sigma=1e-4)
    assert motion.motion.faster_mps(motion.now_ns, speed) == (
        pytest.approx(ground, abs=1e-3) if faster else 0.0
    )
    # Against the limit it counts whether the estimate agrees or not.
    assert motion.motion.proven_mps(motion.now_ns) == pytest.approx(
        ground if isfinite(ground) else 0.0, abs=1e-3
    )


def test_an_unbraked_vehicle_is_not_certain_to_slow_down_and_a_braked_one_is() -> None:
    ticks = Ticks()
    assert ticks.tick(0.0, 1.0).braking_mps2 == 0.0
    weak = replace(VEHICLE, drive=replace(VEHICLE.drive, brake_deceleration_mps2=0.5))
    assert Ticks(weak).tick(0.0, 1.0).braking_mps2 == 0.0
    ticks.tick(0.0, 1.0, times=LAG_TICKS + 5, brake=0.5)
    assert ticks.motion.braking_mps2 > 0.4
    assert ticks.tick(0.0, 1.0).braking_mps2 == 0.0


@pytest.mark.parametrize(
    ("mps2", "climb_rad"),
    [(1.0, 0.2), (4.0, asin(4.0 / 9.80665)), (9.0, asin(9.0 / 9.80665)), (12.0, pi / 2)],
)
def test_the_steepest_slope_that_a_drive_climbs(mps2: float, climb_rad: float) -> None:
    """Its torque at full throttle, less the friction, holds it on the slope."""
    drive = VEHICLE.drive
    torque_nm = drive.friction_nm + mps2 * drive.inertia_kgm2 / (
        drive.wheel_radius_m * drive.gear_ratio
    )
    assert Ticks(
        replace(VEHICLE, drive=replace(drive, stall_torque_nm=torque_nm))
    ).motion.climb_rad == pytest.approx(climb_rad)
