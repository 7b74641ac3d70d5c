"""The command gate: whatever goes in, what comes out is finite and inside the limits."""

from math import atan, copysign, inf, isfinite, sqrt, tan

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import near, near_count
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import ControlCommand, Mode, Reaction
from vehicled.core.vehicle import Drive, Limits, Vehicle
from vehicled.safety.gate import (
    CLIPPED_BRAKE,
    CLIPPED_STEERING,
    CLIPPED_THROTTLE,
    CONTROLLED_STOP_BRAKE,
    CRAWL_MPS,
    NOT_FINITE,
    SLOW_MPS,
    Gate,
)

VEHICLE = make_vehicle(
    track_m=0.33,
    length_m=0.7,
    width_m=0.4,
    mass_kg=7.0,
    steering=make_steering(offset_rad=0.018),
    drive=make_drive(no_load_speed_radps=161.0, wheel_radius_m=0.0845),
)
LIMITS = Limits(
    max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0, capped_speed_mps=0.5
)
LOOSE = replace(
    LIMITS,
    max_lateral_acceleration_mps2=1e6,
    max_acceleration_mps2=1e6,
    max_jerk_mps3=1e9,
    max_lateral_jerk_mps3=1e9,
    max_steering_rate_radps=1e9,
)
"""Only the speed is limited."""
REVERSING = replace(VEHICLE, drive=replace(VEHICLE.drive, reverse_share=0.5))
MOVING = (Mode.AUTO, Mode.TELEOP, Mode.STOPPING, Mode.ALIGN, Mode.OFFBOARD)
PERIOD_NS = 10_000_000

speeds = near(
    LIMITS.max_speed_mps,
    LIMITS.capped_speed_mps,
    CRAWL_MPS,
    SLOW_MPS,
    0.0,
    signed=True,
    garbage=True,
)
caps = st.one_of(
    st.just(inf), near(LIMITS.capped_speed_mps, 0.0, LIMITS.max_speed_mps, garbage=True)
)
throttles = near(0.0, 1.0, 0.5, -0.5, garbage=True)
brakes = near(0.0, 1.0, 0.5, garbage=True)
wheels = near(0.0, VEHICLE.steering.max_wheel_rad, signed=True, garbage=True)


def command(wheel: float = 0.0, throttle: float = 0.0, brake: float = 0.0) -> ControlCommand:
    return ControlCommand(0, 0, wheel, throttle, brake)


def allowed_throttle(drive: Drive, speed_mps: float, limit_mps: float) -> float:
    """Largest throttle of the fade over the first quarter above a speed limit, of which 0.25 is
    promised to operators."""
    beyond = abs(speed_mps) - limit_mps
    if beyond <= 0.0:
        return inf
    if not 4.0 * beyond < limit_mps:
        return 0.0
    return drive.steady_throttle(limit_mps) * (1.0 - 4.0 * beyond / limit_mps)


@examples(150)
@given(
    st.lists(
        st.tuples(
            wheels,
            throttles,
            brakes,
            speeds,
            st.sampled_from(Mode),
            st.sampled_from(Reaction),
            caps,
            near_count(PERIOD_NS),
        ),
        min_size=1,
        max_size=4,
    ),
    st.sampled_from((VEHICLE, REVERSING)),
)
def test_anything_in_is_finite_and_inside_limits_out(
    steps: list[tuple[float, float, float, float, Mode, Reaction, float, int]], vehicle: Vehicle
) -> None:
    gate, now_ns = Gate(vehicle, LIMITS), 5
    for wheel, throttle, brake, speed, mode, reaction, cap, pause_ns in steps:
        now_ns += pause_ns
        out = gate.apply(
            command(wheel, throttle, brake), speed, mode, reaction, now_ns, 4, cap_mps=cap
        )
        assert -vehicle.drive.reverse_share <= out.throttle <= 1.0
        assert 0.0 <= out.brake <= 1.0
        assert -1.0 <= out.steering <= 1.0
        assert isfinite(out.wheel_angle_rad)
        if (
            reaction >= Reaction.BRAKE
            or mode not in MOVING
            or not all(map(isfinite, (wheel, throttle, brake)))
        ):
            assert (out.throttle, out.brake) == (0.0, 1.0)
        elif reaction is Reaction.CONTROLLED_STOP or mode is Mode.STOPPING:
            assert out.throttle == 0.0
            assert out.brake >= CONTROLLED_STOP_BRAKE
        limit = min(cap, LIMITS.max_speed_mps)
        assert (
            abs(out.throttle) <= allowed_throttle(vehicle.drive, speed, limit) * (1 + 1e-9) + 1e-12
        )


@examples(150)
@given(
    near(1.0, 0.0, 0.5, -0.5, low=-0.5, high=1.0),
    near(0.0, 1.0, low=0.0, high=1.0),
    caps.flatmap(
        lambda cap: st.tuples(
            # Around the limit that counts.
            near(
                min(cap, LIMITS.max_speed_mps) if isfinite(cap) else LIMITS.max_speed_mps,
                CRAWL_MPS,
                signed=True,
                garbage=True,
            ),
            st.just(cap),
        )
    ),
)
def test_speed_limit_leaves_slower_drives_alone_and_fades_faster_ones(
    throttle: float, brake: float, speed_and_cap: tuple[float, float]
) -> None:
    """Below the limit a command is untouched; above it drive fades to nothing; against the motion
    it is a brake."""
    speed, cap = speed_and_cap
    out = Gate(REVERSING, LOOSE).apply(
        command(0.0, throttle, brake), speed, Mode.AUTO, Reaction.NONE, 0, 0, cap_mps=cap
    )
    allowed = allowed_throttle(REVERSING.drive, speed, min(cap, LIMITS.max_speed_mps))
    if throttle * speed < 0.0 and abs(speed) > CRAWL_MPS and allowed > 0.0:
        assert (out.throttle, out.brake) == (0.0, max(brake, CONTROLLED_STOP_BRAKE))
        assert out.clipped & CLIPPED_THROTTLE
        return
    assert out.throttle == pytest.approx(
        copysign(min(abs(throttle), allowed), throttle), rel=1e-9, abs=1e-12
    )
    assert out.brake == brake
    if allowed == inf:
        assert out.throttle == throttle
        assert out.clipped == 0


@examples(100)
@given(
    near(SLOW_MPS, sqrt(2.5 * 0.5 / tan(0.335)), LIMITS.max_speed_mps, signed=True),
    near(1.0, 0.0, signed=True),
)
def test_lateral_acceleration_stays_within_its_limit(speed: float, ratio: float) -> None:
    """Also around the speed at which full lock reaches the limit; what is within it passes."""
    most = VEHICLE.steering.max_wheel_rad
    if abs(speed) > SLOW_MPS:
        most = min(
            most, atan(LIMITS.max_lateral_acceleration_mps2 * VEHICLE.wheelbase_m / speed**2)
        )
    wheel = ratio * most
    vehicle = replace(VEHICLE, steering=replace(VEHICLE.steering, offset_rad=0.0, gain_rad=0.5))
    out = Gate(vehicle, LIMITS).apply(command(wheel, 0.3), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.wheel_angle_rad == pytest.approx(min(max(wheel, -most), most), rel=1e-9, abs=1e-12)
    if abs(ratio) < 1.0 - 1e-9:
        assert not out.clipped & CLIPPED_STEERING


@examples(100)
@given(
    st.lists(
        st.tuples(near(0.0, 1.0, -0.5, low=-0.5, high=1.0), near_count(PERIOD_NS, 100_000_000)),
        min_size=2,
        max_size=8,
    ),
    near(0.0, 1.0, 2.0, signed=True),
    near(0.5, 3.0, low=0.05),
    near(5.0, 50.0, low=0.5),
)
def test_drive_accelerates_and_builds_up_within_its_limits(
    steps: list[tuple[float, int]], speed: float, acceleration: float, jerk: float
) -> None:
    """A pause counts for at most 0.1 s; less drive passes at once."""
    drive = REVERSING.drive
    gate = Gate(REVERSING, replace(LOOSE, max_acceleration_mps2=acceleration, max_jerk_mps3=jerk))
    now_ns, before = 0, 0.0
    per_throttle = drive.acceleration_mps2(1.0, 0.0) - drive.acceleration_mps2(0.0, 0.0)
    for number, (throttle, pause_ns) in enumerate(steps):
        now_ns += pause_ns
        out = gate.apply(
            command(0.0, throttle), speed, Mode.AUTO, Reaction.NONE, now_ns, 0
        ).throttle
        assert out * throttle >= 0.0
        assert abs(out) <= abs(throttle)
        if out:
            along = max(copysign(speed, out * speed), 0.0)
            sign = copysign(1.0, out)
            assert (
                sign * drive.acceleration_mps2(out, sign * along) <= acceleration * (1 + 1e-9)
                or abs(out) <= 1e-12
            )
            if number:
                risen = abs(out) - max(sign * before, 0.0)
                assert risen * per_throttle <= jerk * min(pause_ns * 1e-9, 0.1) * (1 + 1e-9) + 1e-12
        if abs(throttle) <= abs(before) and throttle * before > 0.0:
            assert out == throttle, "less drive passes at once"
        before = out


@examples(100)
@given(
    st.lists(
        st.tuples(near(0.0, 0.335, 0.02, signed=True), near_count(PERIOD_NS, 100_000_000)),
        min_size=2,
        max_size=8,
    ),
    near(SLOW_MPS, 1.0, low=0.0, high=3.0),
    near(2.0, low=0.1),
)
def test_wheel_turns_no_faster_than_its_rate(
    steps: list[tuple[float, int]], speed: float, rate_radps: float
) -> None:
    vehicle = replace(VEHICLE, steering=replace(VEHICLE.steering, offset_rad=0.0))
    gate = Gate(
        vehicle, replace(LOOSE, max_steering_rate_radps=rate_radps, max_lateral_jerk_mps3=1.0)
    )
    most_radps = min(rate_radps, VEHICLE.wheelbase_m / speed**2) if speed > SLOW_MPS else rate_radps
    now_ns, before = 0, 0.0
    for number, (wheel, pause_ns) in enumerate(steps):
        now_ns += pause_ns
        out = gate.apply(command(wheel), speed, Mode.AUTO, Reaction.NONE, now_ns, 0)
        step_rad = most_radps * min(pause_ns * 1e-9, 0.1)
        wanted = min(max(wheel, -0.335), 0.335)
        if number:
            assert abs(out.wheel_angle_rad - before) <= step_rad * (1 + 1e-9) + 1e-12
        if not number or abs(wheel - before) <= step_rad * (1 - 1e-9):
            assert out.wheel_angle_rad == pytest.approx(wanted, abs=1e-9)
        before = out.wheel_angle_rad


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
    out = Gate(VEHICLE, LIMITS).apply(
        command(0.0, 0.4), speed, Mode.AUTO, Reaction.CAP_SPEED, 0, 0, cap_mps=0.5
    )
    assert out.throttle == throttle


@pytest.mark.parametrize("surplus", [-0.5, 0.0, 0.3, 5.0])
def test_an_unmeasured_speed_gets_the_throttle_that_holds_the_cap_and_no_more(
    surplus: float,
) -> None:
    drive = VEHICLE.drive

    def driven(throttle: float, speed: float) -> float:
        gate = Gate(VEHICLE, LIMITS)
        out = gate.apply(
            command(0.0, throttle),
            speed,
            Mode.AUTO,
            Reaction.CAP_SPEED,
            0,
            0,
            cap_mps=0.4,
            holds=True,
            surplus_mps2=surplus,
        )
        return out.throttle

    # However slow the prediction: it follows the model, which may be wrong.
    held = driven(1.0, 0.1)
    assert drive.acceleration_mps2(held, 0.4) + surplus == pytest.approx(
        max(0.0, surplus + drive.acceleration_mps2(0.0, 0.4))
    )
    assert driven(0.5 * held, 0.1) == 0.5 * held


def test_a_speed_that_fixes_prove_counts_beside_a_slower_estimate() -> None:
    lock = VEHICLE.steering.max_wheel_rad
    fast = Gate(VEHICLE, LIMITS).apply(command(9.9), 2.5, Mode.AUTO, Reaction.NONE, 0, 0)
    out = Gate(VEHICLE, LIMITS).apply(
        command(9.9, 0.4), 0.0, Mode.AUTO, Reaction.NONE, 0, 0, cap_mps=1.0, proven_mps=2.5
    )
    assert out.wheel_angle_rad == fast.wheel_angle_rad < lock
    assert out.throttle == 0.0


def test_a_disabled_drive_brakes_unless_the_motor_would_only_heat() -> None:
    gate = Gate(VEHICLE, LIMITS)
    braked = gate.apply(command(0.0, 0.4), 0.0, Mode.FAULT, Reaction.DISABLE, 0, 0)
    released = gate.apply(
        command(0.0, 0.4), 0.0, Mode.FAULT, Reaction.DISABLE, 0, 0, releases_brake=True
    )
    assert (braked.throttle, braked.brake) == (0.0, 1.0)
    assert (released.throttle, released.brake) == (0.0, 0.0)


def test_a_controlled_stop_keeps_steering() -> None:
    out = Gate(VEHICLE, LIMITS).apply(
        command(0.15, 0.4), 1.0, Mode.AUTO, Reaction.CONTROLLED_STOP, 0, 0
    )
    assert (out.throttle, out.wheel_angle_rad) == (0.0, pytest.approx(0.15))
    assert out.brake > 0.0


def test_the_mechanical_stop_limits_at_standstill() -> None:
    out = Gate(VEHICLE, LIMITS).apply(command(2.0), 0.0, Mode.AUTO, Reaction.NONE, 0, 0)
    assert out.wheel_angle_rad <= VEHICLE.steering.max_wheel_rad
    assert atan(VEHICLE.wheelbase_m / VEHICLE.min_turn_radius_m) == pytest.approx(
        VEHICLE.steering.max_wheel_rad
    )


def turning(wheelbase_m: float, understeer: float) -> Vehicle:
    """A vehicle as the daemon believes it: with rear wheels that steer against the front, or with
    sides instead of wheels that steer, it is the bicycle that turns as it does, whose base is
    another than the distance of its axles."""
    return replace(
        VEHICLE,
        wheelbase_m=wheelbase_m,
        understeer_rad_per_mps2=understeer,
        length_m=2.0 * wheelbase_m,
        steering=replace(VEHICLE.steering, gain_rad=0.6, offset_rad=0.0, max_wheel_rad=0.6),
    )


def across_mps2(vehicle: Vehicle, wheel_rad: float, speed_mps: float) -> float:
    """Lateral acceleration of the steady turn: v^2 tan(wheel) / (l + K v^2)."""
    return (
        speed_mps**2
        * tan(wheel_rad)
        / (vehicle.wheelbase_m + vehicle.understeer_rad_per_mps2 * speed_mps**2)
    )


@given(
    # Front wheels; all four, which halves the base; sides, whose base is half the effective track.
    st.sampled_from((0.5, 0.25, 0.512, 2.6, 1.3)),
    st.sampled_from((0.0, 0.001, 0.02)),
    near(SLOW_MPS, 1.0, 3.0, 12.0, low=0.2, high=15.0),
    st.lists(near(0.0, 0.01, 0.1, 0.6, signed=True, low=-0.6, high=0.6), min_size=2, max_size=20),
)
def test_acceleration_and_jerk_across_are_held_for_whatever_turns(
    base_m: float, slip: float, speed: float, wheels: list[float]
) -> None:
    vehicle = turning(base_m, slip)
    limits = replace(
        LIMITS, max_speed_mps=15.0, max_lateral_jerk_mps3=2.0, max_steering_rate_radps=7.0
    )
    gate = Gate(vehicle, limits)
    gate.apply(command(0.0), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    before = 0.0
    for k, wheel in enumerate(wheels, start=1):
        out = gate.apply(command(wheel), speed, Mode.AUTO, Reaction.NONE, k * 10_000_000, 0)
        across = across_mps2(vehicle, out.wheel_angle_rad, speed)
        assert abs(across) <= limits.max_lateral_acceleration_mps2 * (1 + 1e-9)
        # The rate is that of the jerk with the wheel near straight; further out the same turn of it
        # does more.
        steepest = 1.0 + tan(max(abs(before), abs(out.wheel_angle_rad))) ** 2
        jerk = abs(across - across_mps2(vehicle, before, speed)) / 0.01
        assert jerk <= limits.max_lateral_jerk_mps3 * steepest * (1 + 1e-6)
        before = out.wheel_angle_rad


@given(
    st.sampled_from((0.25, 0.512, 2.6)),
    st.sampled_from((0.001, 0.02)),
    near(1.0, 3.0, 10.0, low=0.5, high=15.0),
)
def test_the_rate_is_that_of_the_base_that_turns(base_m: float, slip: float, speed: float) -> None:
    """No slower than the jerk asks for: a wheel that must turn further for the same turn may turn
    faster."""
    vehicle = turning(base_m, slip)
    limits = replace(
        LIMITS, max_speed_mps=15.0, max_lateral_jerk_mps3=0.5, max_steering_rate_radps=7.0
    )
    gate = Gate(vehicle, limits)
    gate.apply(command(0.0), speed, Mode.AUTO, Reaction.NONE, 0, 0)
    out = gate.apply(command(0.6), speed, Mode.AUTO, Reaction.NONE, 10_000_000, 0)
    if out.wheel_angle_rad < 7.0 * 0.01 * (1 - 1e-9):
        assert across_mps2(vehicle, out.wheel_angle_rad, speed) / 0.01 >= 0.5 * (1 - 1e-6)
