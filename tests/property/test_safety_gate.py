"""The command gate: whatever goes in, what comes out is finite and inside the limits."""

from math import atan, isfinite, tan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from vehicled.messages import ControlCommand, Mode, Reaction
from vehicled.safety.gate import CLIPPED_BRAKE, CLIPPED_STEERING, CLIPPED_THROTTLE, NOT_FINITE, Gate
from vehicled.vehicle import Drive, Limits, Steering, Vehicle

VEHICLE = Vehicle(
    wheelbase_m=0.5,
    track_m=0.33,
    length_m=0.7,
    width_m=0.4,
    mass_kg=7.0,
    steering=Steering(gain_rad=0.335, offset_rad=0.018, max_wheel_rad=0.335, rate_radps=0.67, delay_s=0.4),
    drive=Drive(
        stall_torque_nm=0.09,
        no_load_speed_radps=161.0,
        friction_nm=0.02,
        viscous_nms=1e-4,
        gear_ratio=1 / 3,
        wheel_radius_m=0.0845,
        inertia_kgm2=1e-3,
        delay_s=0.1,
    ),
)
LIMITS = Limits(max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0, capped_speed_mps=0.5)
any_float = st.floats(allow_nan=True, allow_infinity=True)


def command(wheel: float = 0.0, throttle: float = 0.0, brake: float = 0.0) -> ControlCommand:
    return ControlCommand(0, 0, wheel, throttle, brake)


@given(any_float, any_float, any_float, any_float, st.sampled_from(Mode), st.sampled_from(Reaction))
def test_anything_in_is_finite_and_inside_limits_out(
    wheel: float, throttle: float, brake: float, speed: float, mode: Mode, reaction: Reaction
) -> None:
    gate = Gate(VEHICLE, LIMITS)
    for _ in range(2):
        out = gate.apply(command(wheel, throttle, brake), speed, mode, reaction, 5, 4)
        assert 0.0 <= out.throttle <= 1.0
        assert 0.0 <= out.brake <= 1.0
        assert -1.0 <= out.steering <= 1.0
        assert isfinite(out.wheel_angle_rad)
        if reaction >= Reaction.BRAKE or mode not in (Mode.AUTO, Mode.TELEOP, Mode.STOPPING):
            assert (out.throttle, out.brake) == (0.0, 1.0)
        if not speed <= LIMITS.max_speed_mps:
            assert out.throttle == 0.0


@given(st.floats(0.2, 3.0), st.floats(-1.0, 1.0))
def test_lateral_acceleration_stays_within_its_limit(speed: float, wheel: float) -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(wheel, 0.3), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    gain, offset = VEHICLE.steering.gain_rad, VEHICLE.steering.offset_rad
    believed = offset + gain * out.steering
    assert abs(speed * speed * tan(believed) / VEHICLE.wheelbase_m) <= LIMITS.max_lateral_acceleration_mps2 * (1 + 1e-9)


def test_what_was_cut_is_named() -> None:
    gate = Gate(VEHICLE, LIMITS)
    out = gate.apply(command(1.0, 2.0, -1.0), 1.0, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.clipped == CLIPPED_STEERING | CLIPPED_THROTTLE | CLIPPED_BRAKE
    assert gate.clipped_total == 1


def test_not_a_number_brakes_and_holds_the_wheel() -> None:
    gate = Gate(VEHICLE, LIMITS)
    gate.apply(command(0.2, 0.5), 1.0, Mode.AUTO, Reaction.NONE, 0, 0)
    out = gate.apply(command(float("nan"), 0.5), 1.0, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.clipped & NOT_FINITE
    assert (out.throttle, out.brake) == (0.0, 1.0)
    assert out.wheel_angle_rad == pytest.approx(0.2)


def test_offset_and_gain_are_undone() -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(0.1, 0.2), 1.0, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.steering == pytest.approx((0.1 - 0.018) / 0.335)
    assert out.wheel_angle_rad == pytest.approx(0.1)


@pytest.mark.parametrize(("speed", "throttle"), [(0.2, 0.4), (0.8, 0.0), (float("nan"), 0.0)])
def test_well_above_its_cap_nothing_drives(speed: float, throttle: float) -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(0.0, 0.4), speed, Mode.AUTO, Reaction.CAP_SPEED, 0, 0, cap_mps=0.5)
    assert out.throttle == throttle


def test_a_disabled_drive_brakes_unless_the_motor_would_only_heat() -> None:
    gate = Gate(VEHICLE, LIMITS)
    braked = gate.apply(command(0.0, 0.4), 0.0, Mode.FAULT, Reaction.DISABLE, 0, 0)
    released = gate.apply(command(0.0, 0.4), 0.0, Mode.FAULT, Reaction.DISABLE, 0, 0, releases_brake=True)
    assert (braked.throttle, braked.brake) == (0.0, 1.0)
    assert (released.throttle, released.brake) == (0.0, 0.0)


def test_a_controlled_stop_keeps_steering() -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(0.15, 0.4), 1.0, Mode.AUTO, Reaction.CONTROLLED_STOP, 0, 0)
    assert (out.throttle, out.wheel_angle_rad) == (0.0, pytest.approx(0.15))
    assert out.brake > 0.0


def test_the_mechanical_stop_limits_at_standstill() -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(2.0), 0.0, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.wheel_angle_rad <= VEHICLE.steering.max_wheel_rad
    assert atan(VEHICLE.wheelbase_m / VEHICLE.min_turn_radius_m) == pytest.approx(VEHICLE.steering.max_wheel_rad)


def turning(wheelbase_m: float, understeer: float) -> Vehicle:
    """A vehicle as the daemon believes it: with rear wheels that steer against the front, or with sides instead of wheels that
    steer, it is the bicycle that turns as it does, whose base is another than the distance of its axles."""
    return replace(
        VEHICLE,
        wheelbase_m=wheelbase_m,
        understeer_rad_per_mps2=understeer,
        length_m=2.0 * wheelbase_m,
        steering=replace(VEHICLE.steering, gain_rad=0.6, offset_rad=0.0, max_wheel_rad=0.6),
    )


def across_mps2(vehicle: Vehicle, wheel_rad: float, speed_mps: float) -> float:
    """Lateral acceleration of the steady turn: v^2 tan(wheel) / (l + K v^2)."""
    return speed_mps**2 * tan(wheel_rad) / (vehicle.wheelbase_m + vehicle.understeer_rad_per_mps2 * speed_mps**2)


@given(
    # Front wheels; all four, which halves the base; sides, whose base is half the effective track.
    st.sampled_from((0.5, 0.25, 0.512, 2.6, 1.3)),
    st.sampled_from((0.0, 0.001, 0.02)),
    st.floats(0.2, 12.0),
    st.lists(st.floats(-0.6, 0.6), min_size=2, max_size=20),
)
def test_acceleration_and_jerk_across_are_held_for_whatever_turns(
    base_m: float, slip: float, speed: float, wheels: list[float]
) -> None:
    vehicle = turning(base_m, slip)
    limits = replace(LIMITS, max_speed_mps=15.0, max_lateral_jerk_mps3=2.0, max_steering_rate_radps=7.0)
    gate = Gate(vehicle, limits)
    gate.apply(command(0.0), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    before = 0.0
    for k, wheel in enumerate(wheels, start=1):
        out = gate.apply(command(wheel), speed, Mode.AUTO, Reaction.NONE, k * 10_000_000, 0)
        across = across_mps2(vehicle, out.wheel_angle_rad, speed)
        assert abs(across) <= limits.max_lateral_acceleration_mps2 * (1 + 1e-9)
        # The rate is that of the jerk with the wheel near straight; further out the same turn of it does more.
        steepest = 1.0 + tan(max(abs(before), abs(out.wheel_angle_rad))) ** 2
        jerk = abs(across - across_mps2(vehicle, before, speed)) / 0.01
        assert jerk <= limits.max_lateral_jerk_mps3 * steepest * (1 + 1e-6)
        before = out.wheel_angle_rad


@given(st.sampled_from((0.25, 0.512, 2.6)), st.sampled_from((0.001, 0.02)), st.floats(1.0, 10.0))
def test_the_rate_is_that_of_the_base_that_turns(base_m: float, slip: float, speed: float) -> None:
    """No slower than the jerk asks for: a wheel that must turn further for the same turn may turn faster."""
    vehicle = turning(base_m, slip)
    limits = replace(LIMITS, max_speed_mps=15.0, max_lateral_jerk_mps3=0.5, max_steering_rate_radps=7.0)
    gate = Gate(vehicle, limits)
    gate.apply(command(0.0), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    out = gate.apply(command(0.6), speed, Mode.AUTO, Reaction.NONE, 10_000_000, 0)
    if out.wheel_angle_rad < 7.0 * 0.01 * (1 - 1e-9):
        assert across_mps2(vehicle, out.wheel_angle_rad, speed) / 0.01 >= 0.5 * (1 - 1e-6)
