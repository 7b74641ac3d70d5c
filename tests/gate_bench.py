"""Checks of a command gate module: run on the gate, and on every mutant of it.

Numbers that the gate names stand here as numbers: a constant that changes must be noticed.
"""

from collections.abc import Callable
from itertools import product
from math import atan, inf, isfinite, nan, nextafter, tan
from types import ModuleType
from typing import Any

from msgspec.structs import replace

from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import ActuatorCommand, ControlCommand, Mode, Reaction
from vehicled.core.vehicle import Limits, Vehicle

STEERING, THROTTLE, BRAKE, NOT_FINITE, RATE, ACCELERATION, JERK = 1, 2, 4, 8, 16, 32, 64
VEHICLE = make_vehicle(
    track_m=0.33,
    length_m=0.7,
    width_m=0.4,
    mass_kg=7.0,
    steering=make_steering(offset_rad=0.018),
    drive=make_drive(no_load_speed_radps=161.0, wheel_radius_m=0.0845, reverse_share=0.5),
)
"""It can reverse."""
FORWARD = replace(VEHICLE, drive=replace(VEHICLE.drive, reverse_share=0.0))
LOOSE = Limits(
    max_speed_mps=3.0,
    max_lateral_acceleration_mps2=1e3,
    corridor_m=2.0,
    max_acceleration_mps2=1e3,
    max_jerk_mps3=1e6,
    max_lateral_jerk_mps3=1e6,
    max_steering_rate_radps=1e6,
)
"""Limits that leave only the range of the actuators."""
AUTHORITY = 0.09 * 0.0845 / 3.0 / 1e-3
MS = 1_000_000
START = 7_000 * MS


class Case:
    """A gate of a module, and a clock."""

    def __init__(self, module: ModuleType, vehicle: Vehicle = VEHICLE, **limits: float) -> None:
        self.gate: Any = module.Gate(vehicle, replace(LOOSE, **limits))
        self.now_ns = START

    def __call__(
        self,
        throttle: float = 0.0,
        brake: float = 0.0,
        wheel: float = 0.0,
        *,
        v: float = 0.0,
        mode: Mode = Mode.AUTO,
        reaction: Reaction = Reaction.NONE,
        after_ms: float = 0.0,
        nothing: bool = False,
        **more: Any,
    ) -> ActuatorCommand:
        self.now_ns += round(after_ms * MS)
        command = None if nothing else ControlCommand(0, 3, wheel, throttle, brake)
        out: ActuatorCommand = self.gate.apply(command, v, mode, reaction, self.now_ns, 3, **more)
        assert -0.5 <= out.throttle <= 1.0
        assert 0.0 <= out.brake <= 1.0
        assert -1.0 <= out.steering <= 1.0
        assert isfinite(out.wheel_angle_rad)
        return out


def near(a: float, b: float) -> bool:
    """Equal within rounding."""
    return abs(a - b) <= 1e-9 * max(1.0, abs(a), abs(b))


def what_is_inside_the_limits_passes_in_its_tick(m: ModuleType) -> None:
    case = Case(m)
    for throttle, brake, wheel in (
        (0.4, 0.0, 0.2),
        (0.9, 0.3, -0.3),
        (0.0, 1.0, 0.0),
        (-0.5, 0.0, 0.3),
        (1.0, 0.0, -0.3),
    ):
        out = case(throttle, brake, wheel, after_ms=10.0)
        assert (out.t_ns, out.newest_input_ns, out.mode, out.reaction) == (
            case.now_ns,
            3,
            Mode.AUTO,
            Reaction.NONE,
        )
        assert (out.throttle, out.brake, out.clipped) == (throttle, brake, 0)
        assert near(out.wheel_angle_rad, wheel)
        assert near(out.steering, (wheel - 0.018) / 0.335)
    assert case.gate.clipped_total == 0
    assert set(case.gate.clipped_by_kind.values()) == {0}


def what_is_not_finite_brakes_and_holds_the_wheel(m: ModuleType) -> None:
    for bad, place in product((nan, inf, -inf), range(3)):
        case = Case(m)
        case(0.3, 0.0, 0.2)
        values = [0.3, 0.1, -0.1]
        values[place] = bad
        out = case(*values, after_ms=10.0)
        assert (out.throttle, out.brake, out.clipped) == (0.0, 1.0, NOT_FINITE)
        assert near(out.wheel_angle_rad, 0.2)
        assert case.gate.clipped_total == case.gate.clipped_by_kind["not finite"] == 1


def nothing_commanded_is_the_brake(m: ModuleType) -> None:
    case = Case(m)
    assert near(Case(m)(nothing=True).wheel_angle_rad, 0.0)
    case(0.3, 0.0, 0.2)
    out = case(nothing=True, after_ms=10.0)
    assert (out.throttle, out.brake, out.clipped) == (0.0, 1.0, 0)
    assert near(out.wheel_angle_rad, 0.2)


def mode_and_reaction_have_their_way(m: ModuleType) -> None:
    moving = (Mode.AUTO, Mode.TELEOP, Mode.STOPPING, Mode.ALIGN, Mode.OFFBOARD)
    for mode, reaction, released, brake in product(Mode, Reaction, (False, True), (0.2, 0.8)):
        out = Case(m)(0.3, brake, 0.1, mode=mode, reaction=reaction, releases_brake=released)
        assert out.clipped == 0
        assert near(out.wheel_angle_rad, 0.1)
        if reaction >= Reaction.BRAKE or mode not in moving:
            wanted = (0.0, 0.0 if released and reaction is Reaction.DISABLE else 1.0)
        elif reaction is Reaction.CONTROLLED_STOP or mode is Mode.STOPPING:
            wanted = (0.0, max(brake, 0.5))
        else:
            wanted = (0.3, brake)
        assert (out.throttle, out.brake) == wanted


def beyond_cap_and_limit_less_drives_and_soon_nothing(m: ModuleType) -> None:
    steady = VEHICLE.drive.steady_throttle
    for v, cap, most in (
        (0.5, 0.5, 0.9),
        (nextafter(0.5, 1.0), 0.5, steady(0.5)),
        (-0.5, 0.5, 0.9),
        (nextafter(-0.5, -1.0), 0.5, steady(0.5)),
        (0.55, 0.5, 0.6 * steady(0.5)),
        (0.625, 0.5, 0.0),
        (0.7, 0.5, 0.0),
        (3.0, inf, 0.9),
        (nextafter(3.0, 4.0), inf, steady(3.0)),
        (3.3, 9.0, 0.6 * steady(3.0)),
        (3.75, 9.0, 0.0),
        (0.0, 0.0, 0.9),
        (0.1, 0.0, 0.0),
        (nan, inf, 0.0),
        (0.0, nan, 0.0),
    ):
        for demand in (0.02, 0.9):
            out = Case(m, FORWARD)(demand, 0.1, v=v, cap_mps=cap)
            assert near(out.throttle, min(demand, most))
            assert out.brake == 0.1
    backward = Case(m)(-0.9, 0.1, v=-0.55, cap_mps=0.5)
    assert near(backward.throttle, -0.6 * steady(0.5))


def without_a_measured_speed_no_more_throttle_than_holds_the_cap(m: ModuleType) -> None:
    for cap, surplus, demand in product(
        (0.5, 2.0, inf), (None, 0.0, 0.02, -0.5, 5.0), (0.001, 0.9)
    ):
        more: dict[str, Any] = {} if surplus is None else {"surplus_mps2": surplus}
        resistance_mps2 = -VEHICLE.drive.acceleration_mps2(0.0, min(cap, 3.0))
        holds = max((resistance_mps2 - (surplus or 0.0)) / AUTHORITY, 0.0)
        out = Case(m, FORWARD)(demand, 0.1, v=0.2, cap_mps=cap, holds=True, **more)
        assert near(out.throttle, min(demand, holds))
        assert out.brake == 0.1
        assert Case(m, FORWARD)(demand, 0.1, v=0.2, cap_mps=cap, **more).throttle == demand
        backward = Case(m)(-0.5 * demand, 0.1, v=-0.1, cap_mps=cap, holds=True, **more)
        assert near(backward.throttle, -min(0.5 * demand, holds))
    # Above the cap the smaller of both limits counts.
    assert Case(m, FORWARD)(0.9, v=0.7, cap_mps=0.5, holds=True).throttle == 0.0


def a_proven_speed_counts_where_it_is_the_larger_one(m: ModuleType) -> None:
    for v, proven in ((0.0, 0.55), (0.55, 0.0), (-0.3, 0.55)):
        out = Case(m, FORWARD)(0.9, v=v, cap_mps=0.5, proven_mps=proven)
        assert near(out.throttle, 0.6 * VEHICLE.drive.steady_throttle(0.5))
    turned = Case(m, max_lateral_acceleration_mps2=0.1)(wheel=0.33, v=0.2, proven_mps=1.0)
    assert near(tan(turned.wheel_angle_rad) / 0.5, 0.1)


def the_drive_is_turned_round_at_a_crawl_only(m: ModuleType) -> None:
    beyond = nextafter(0.15, 1.0)
    for throttle, v, brake, cut in (
        (-0.3, 0.15, 0.0, False),
        (-0.3, beyond, 0.0, True),
        (-0.3, 2.0, 0.7, True),
        (0.3, -0.15, 0.0, False),
        (0.3, -beyond, 0.2, True),
        (0.3, 2.0, 0.2, False),
        (-0.3, -0.9, 0.2, False),
        (-0.3, 0.0, 0.0, False),
    ):
        out = Case(m)(throttle, brake, v=v)
        assert (out.throttle, out.brake) == ((0.0, max(brake, 0.5)) if cut else (throttle, brake))
        assert out.clipped == (THROTTLE if cut else 0)
    # One that cannot reverse rolls back by itself only.
    out = Case(m, FORWARD)(0.3, 0.1, v=-1.0)
    assert (out.throttle, out.brake, out.clipped) == (0.3, 0.1, 0)


def throttle_and_brake_stay_in_range(m: ModuleType) -> None:
    for vehicle, throttle, sent in (
        (VEHICLE, 2.0, 1.0),
        (VEHICLE, 1.0, 1.0),
        (VEHICLE, -0.5, -0.5),
        (VEHICLE, -2.0, -0.5),
        (FORWARD, -0.2, 0.0),
    ):
        out = Case(m, vehicle)(throttle)
        assert (out.throttle, out.clipped) == (sent, THROTTLE if sent != throttle else 0)
    both_ways = replace(VEHICLE, drive=replace(VEHICLE.drive, reverse_share=1.0))
    case = Case(m, both_ways)
    assert (
        case.gate.apply(
            ControlCommand(0, 3, 0.0, -1.0, 0.0), 0.0, Mode.AUTO, Reaction.NONE, START, 3
        ).throttle
        == -1.0
    )
    for brake, sent in ((2.0, 1.0), (1.0, 1.0), (0.0, 0.0), (-1.0, 0.0)):
        out = Case(m)(0.0, brake)
        assert (out.brake, out.clipped) == (sent, BRAKE if sent != brake else 0)


def the_wheel_stays_within_stop_and_lateral_acceleration(m: ModuleType) -> None:
    for wheel, v in product((2.0, 0.335, 0.3, -0.335, -2.0), (0.0, 3.0, nan)):
        out = Case(m)(wheel=wheel, v=v)
        # The full command to the right reaches less far than the stop, by the offset.
        assert near(out.wheel_angle_rad, max(-0.317, min(0.335, wheel)))
        assert out.clipped == (STEERING if abs(wheel) > 0.335 else 0)
    for v, side in product((0.5, 1.0, 3.0, -2.0), (-1.0, 1.0)):
        out = Case(m, max_lateral_acceleration_mps2=0.1)(wheel=side * 0.33, v=v)
        assert near(v * v * tan(out.wheel_angle_rad) / 0.5, side * 0.1)
        assert out.clipped == STEERING
    standing = Case(m, max_lateral_acceleration_mps2=0.001)(wheel=0.33, v=0.1)
    crawling = Case(m, max_lateral_acceleration_mps2=0.001)(wheel=0.33, v=nextafter(0.1, 1.0))
    assert near(standing.wheel_angle_rad, 0.33)
    assert near(crawling.wheel_angle_rad, atan(0.5 * 0.001 / 0.01))


def the_wheel_turns_no_faster_than_its_rate(m: ModuleType) -> None:
    for v, after_ms, step in (
        (0.0, 20.0, 0.04),
        (0.1, 20.0, 0.04),
        (nan, 20.0, 0.04),
        (2.0, 20.0, 0.0025),
        (-2.0, 20.0, 0.0025),
        (0.0, 0.0, 0.0),
        (0.0, -50.0, 0.0),
        (0.0, 100.0, 0.2),
        (0.0, 5000.0, 0.2),
    ):
        for side in (1.0, -1.0):
            case = Case(m, max_steering_rate_radps=2.0, max_lateral_jerk_mps3=1.0)
            # The first command has nothing to be slower than.
            assert near(case(wheel=side * 0.05, v=v).wheel_angle_rad, side * 0.05)
            out = case(wheel=side * 0.3, v=v, after_ms=after_ms)
            assert near(out.wheel_angle_rad, side * (0.05 + step))
            assert out.clipped == RATE
            back = case(wheel=-side * 0.3, v=v, after_ms=after_ms)
            assert near(back.wheel_angle_rad, side * 0.05)
    slow = Case(m, max_steering_rate_radps=1e3, max_lateral_jerk_mps3=1e-3)
    slow(wheel=0.0, v=0.1)
    assert slow(wheel=0.1, v=0.1, after_ms=10.0).clipped == 0
    assert slow(wheel=0.2, v=nextafter(0.1, 1.0), after_ms=10.0).clipped == RATE
    exact = Case(m, max_steering_rate_radps=2.0)
    exact()
    assert exact(wheel=2.0 * (20 * MS * 1e-9), after_ms=20.0).clipped == 0
    both = Case(m, max_steering_rate_radps=2.0, max_lateral_acceleration_mps2=0.1)
    both(wheel=0.04)
    assert both(wheel=0.3, v=3.0, after_ms=10.0).clipped == RATE | STEERING


def the_wheel_of_a_vehicle_whose_tyres_slip_turns_further_and_faster(m: ModuleType) -> None:
    # Base of 0.5 + 0.05 v^2: 0.7 m at 2 m/s.
    slips = replace(VEHICLE, understeer_rad_per_mps2=0.05)
    case = Case(m, slips, max_steering_rate_radps=2.0, max_lateral_jerk_mps3=1.0)
    case(v=2.0)
    assert near(case(wheel=0.3, v=2.0, after_ms=20.0).wheel_angle_rad, 0.7 / 4.0 * 0.02)
    held = Case(m, slips, max_lateral_acceleration_mps2=0.1)(wheel=0.33, v=2.0)
    assert near(held.wheel_angle_rad, atan(0.7 * 0.1 / 4.0))


def a_rate_counts_from_what_was_sent(m: ModuleType) -> None:
    case = Case(m, max_steering_rate_radps=1.0, max_jerk_mps3=1.0)
    case(0.2, 0.0, 2.0)
    assert near(case(0.2, 0.0, 0.0, after_ms=10.0).wheel_angle_rad, 0.325), (
        "from the stop, not from beyond it"
    )
    case(nothing=True, after_ms=10.0)
    assert near(case(0.2, after_ms=10.0).throttle, 0.01 / AUTHORITY), (
        "after a stop drive builds up anew"
    )


def drive_accelerates_no_more_than_its_limit(m: ModuleType) -> None:
    drive = VEHICLE.drive
    for v in (0.0, 0.5, 1.0):
        out = Case(m, max_acceleration_mps2=0.3)(1.0, v=v)
        assert near(drive.acceleration_mps2(out.throttle, v), 0.3)
        assert out.clipped == ACCELERATION
        again = Case(m, max_acceleration_mps2=0.3)(out.throttle, v=v)
        assert (again.throttle, again.clipped) == (out.throttle, 0)
    out = Case(m, max_acceleration_mps2=0.3)(-0.5, v=-0.5)
    assert near(drive.acceleration_mps2(out.throttle, -0.5), -0.3)
    assert out.clipped == ACCELERATION
    # Against the motion, at a crawl, it counts as standing.
    for v, throttle in ((0.1, -0.5), (-0.1, 1.0)):
        out = Case(m, max_acceleration_mps2=0.3)(throttle, v=v)
        assert near(abs(out.throttle), (0.3 - drive.acceleration_mps2(0.0, 0.0)) / AUTHORITY)


def drive_builds_up_no_faster_than_its_jerk(m: ModuleType) -> None:
    rise = 20.0 * 0.01 / AUTHORITY
    for first, then, sent in (
        (0.0, 0.5, rise),
        (0.3, 0.9, 0.3 + rise),
        (0.9, 0.1, 0.1),
        (0.9, 0.0, 0.0),
        (0.3, -0.4, -rise),
        (-0.1, -0.5, -0.1 - rise),
        (-0.3, -0.1, -0.1),
        (-0.3, 0.5, rise),
        (0.0, -0.5, -rise),
    ):
        case = Case(m, max_jerk_mps3=20.0)
        case(first)
        out = case(then, 0.3, after_ms=10.0)
        assert near(out.throttle, sent)
        assert out.brake == 0.3
        assert out.clipped == (JERK if sent != then else 0)
    exact = Case(m, max_jerk_mps3=20.0)
    exact()
    at_limit = 20.0 * (10 * MS * 1e-9) / (0.09 * 0.0845 * (1 / 3) / 1e-3)
    assert exact(at_limit, after_ms=10.0).clipped == 0
    both = Case(m, max_jerk_mps3=20.0, max_acceleration_mps2=0.3)
    both()
    assert both(1.0, after_ms=10.0).clipped == ACCELERATION | JERK


def a_stop_is_never_slowed_down(m: ModuleType) -> None:
    for mode, reaction in (
        (Mode.AUTO, Reaction.BRAKE),
        (Mode.STOPPING, Reaction.NONE),
        (Mode.FAULT, Reaction.DISABLE),
    ):
        case = Case(m, max_jerk_mps3=1e-6, max_acceleration_mps2=1e-6, max_steering_rate_radps=1e-6)
        case(0.1)
        out = case(1.0, 1.0, mode=mode, reaction=reaction)
        assert (out.throttle, out.brake) == (0.0, 1.0)


def what_was_cut_is_counted_by_kind(m: ModuleType) -> None:
    assert dict(m.KINDS) == {
        1: "steering", 2: "throttle", 4: "brake", 8: "not finite", 16: "steering rate",
        32: "acceleration", 64: "jerk",
    }  # fmt: skip
    case = Case(
        m,
        max_steering_rate_radps=2.0,
        max_jerk_mps3=20.0,
        max_acceleration_mps2=1.0,
        max_lateral_acceleration_mps2=0.1,
    )
    case()
    expected = dict.fromkeys(case.gate.clipped_by_kind, 0)
    assert list(expected) == list(m.KINDS.values())
    cut = 0
    for throttle, brake, wheel, v in (
        (2.0, 2.0, 1.0, 3.0),
        (0.0, 0.0, 0.0, 0.0),
        (nan, 0.0, 0.0, 0.0),
        (0.9, 0.0, -1.0, 0.0),
    ):
        out = case(throttle, brake, wheel, v=v, after_ms=10.0)
        for bit, kind in m.KINDS.items():
            expected[kind] += bool(out.clipped & bit)
        cut += out.clipped != 0
    assert case.gate.clipped_by_kind == expected
    assert case.gate.clipped_total == cut == 3
    assert min(expected.values()) >= 1


def other_parameters_count_from_now_on(m: ModuleType) -> None:
    case = Case(m)
    other = replace(
        VEHICLE, steering=replace(VEHICLE.steering, gain_rad=0.2, offset_rad=0.0, max_wheel_rad=0.1)
    )
    case.gate.adapt(other)
    out = case(wheel=0.3)
    assert near(out.wheel_angle_rad, 0.1)
    assert near(out.steering, 0.5)


CHECKS: tuple[Callable[[ModuleType], None], ...] = (
    what_is_inside_the_limits_passes_in_its_tick,
    what_is_not_finite_brakes_and_holds_the_wheel,
    nothing_commanded_is_the_brake,
    mode_and_reaction_have_their_way,
    beyond_cap_and_limit_less_drives_and_soon_nothing,
    without_a_measured_speed_no_more_throttle_than_holds_the_cap,
    a_proven_speed_counts_where_it_is_the_larger_one,
    the_drive_is_turned_round_at_a_crawl_only,
    throttle_and_brake_stay_in_range,
    the_wheel_stays_within_stop_and_lateral_acceleration,
    the_wheel_turns_no_faster_than_its_rate,
    the_wheel_of_a_vehicle_whose_tyres_slip_turns_further_and_faster,
    a_rate_counts_from_what_was_sent,
    drive_accelerates_no_more_than_its_limit,
    drive_builds_up_no_faster_than_its_jerk,
    a_stop_is_never_slowed_down,
    what_was_cut_is_counted_by_kind,
    other_parameters_count_from_now_on,
)
"""Every check."""
