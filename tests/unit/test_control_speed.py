"""Speed profile and PID."""

import math
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.strategies import near
from tests.vehicles import make_drive, make_vehicle
from vehicled.control.speed import (
    Demand,
    PidState,
    SpeedParams,
    SpeedProfile,
    SpeedTarget,
    drive_authority_mps2,
    planned_deceleration_mps2,
    runaway_mps,
    speed_step,
    speed_warnings,
    usable_gain,
)
from vehicled.core.vehicle import Drive, Limits
from vehicled.paths.catalog import load_course
from vehicled.paths.course import course_from_waypoints
from vehicled.profile import load_profile

DRIVE = make_drive(delay_s=0.0)
BRAKED = msgspec.structs.replace(DRIVE, brake_deceleration_mps2=4.0)
VEHICLE = make_vehicle(drive=DRIVE)
PARAMS = SpeedParams()


def _profile(
    name: str, a_lat: float = 3.0, top: float = 10.0, params: SpeedParams = PARAMS
) -> SpeedProfile:
    limits = Limits(max_speed_mps=top, max_lateral_acceleration_mps2=a_lat, corridor_m=1.0)
    return SpeedProfile(params, VEHICLE, limits, load_course(name))


def test_defaults_are_those_of_the_study() -> None:
    assert (PARAMS.p, PARAMS.i, PARAMS.d) == (6.0, 0.25, 0.0)


def test_profile_is_the_least_of_course_vehicle_and_lateral_acceleration() -> None:
    assert _profile("circle_r25_ccw").at(50.0).speed_mps == pytest.approx(1.0)
    assert _profile("circle_r25_ccw", top=0.7).at(50.0).speed_mps == pytest.approx(0.7)
    assert _profile("circle_r2_ccw", a_lat=0.18).at(5.0).speed_mps == pytest.approx(
        math.sqrt(0.18 * 2.0), rel=0.01
    )
    fast = course_from_waypoints("fast", [0.0, 40.0], [0.0, 0.0], speed=[50.0, 50.0])
    limits = Limits(max_speed_mps=50.0, max_lateral_acceleration_mps2=3.0, corridor_m=1.0)
    assert (
        SpeedProfile(SpeedParams(deceleration_mps2=9.0), VEHICLE, limits, fast).at(0.0).speed_mps
        <= DRIVE.top_speed_mps
    )


def test_what_is_learnt_of_the_brake_counts_at_the_next_stop() -> None:
    """A vehicle that rolls better than believed has to begin earlier."""
    rolls = replace(VEHICLE, drive=replace(DRIVE, friction_nm=0.3 * DRIVE.friction_nm))
    believed = _profile("straight_30m")
    limits = Limits(max_speed_mps=10.0, max_lateral_acceleration_mps2=3.0, corridor_m=1.0)
    known = SpeedProfile(PARAMS, rolls, limits, load_course("straight_30m"))
    assert known.at(29.0).speed_mps < 0.9 * believed.at(29.0).speed_mps
    adapted = believed.adapted(rolls)
    assert [adapted.at(s) for s in (0.0, 28.0, 29.0, 29.9)] == [
        known.at(s) for s in (0.0, 28.0, 29.0, 29.9)
    ]
    assert (
        adapted.adapted(
            replace(rolls, drive=replace(rolls.drive, friction_nm=0.303 * DRIVE.friction_nm))
        )
        is adapted
    )


@pytest.mark.parametrize("name", ["lot17", "three_point_turn"])
def test_the_speeds_of_a_leg_are_those_of_its_samples(name: str) -> None:
    course, profile = load_course(name), _profile(name, a_lat=0.5)
    ends = [0, *course.cusps, len(course.s_m) - 1]
    for leg, (first, last) in enumerate(pairwise(ends)):
        there = [abs(profile.at(float(s), leg).speed_mps) for s in course.s_m[first : last + 1]]
        assert list(profile.speeds_mps(leg))[: len(there)] == there


def test_a_corner_in_the_line_counts_as_the_tightest_arc_the_vehicle_can_turn() -> None:
    wanted = math.sqrt(0.5 * VEHICLE.min_turn_radius_m)
    lot = load_course("lot17")
    corner_m = float(lot.s_m[np.argmax(np.abs(lot.curvature_per_m[: len(lot.s_m) // 2]))])
    assert _profile("lot17", a_lat=0.5).at(corner_m).speed_mps == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("name", ["straight_20m", "lot17", "lot17_two_speed", "circle_r5_cw"])
def test_profile_ends_in_a_stop_and_never_asks_for_more_than_the_planned_deceleration(
    name: str,
) -> None:
    profile, length = _profile(name), load_course(name).length_m
    planned = planned_deceleration_mps2(PARAMS, DRIVE)
    assert planned <= PARAMS.deceleration_mps2
    s = np.linspace(0.0, length, 4001)
    v2 = np.array([profile.at(float(each)).speed_mps ** 2 for each in s])
    assert v2[-1] == pytest.approx(0.0, abs=1e-9)
    assert np.diff(v2).min() >= -2.0 * planned * (s[1] - s[0]) - 1e-9
    for beyond in (-5.0, length + 5.0, 1e9):
        assert math.isfinite(profile.at(beyond).speed_mps)
    assert profile.at(length + 5.0).speed_mps == pytest.approx(0.0, abs=1e-9)


def test_profile_states_the_deceleration_it_implies() -> None:
    profile = _profile("straight_20m")
    braking = profile.at(19.5)
    assert braking.speed_mps == pytest.approx(
        math.sqrt(2.0 * planned_deceleration_mps2(PARAMS, DRIVE) * 0.5)
    )
    assert braking.acceleration_mps2 == pytest.approx(-planned_deceleration_mps2(PARAMS, DRIVE))
    assert profile.at(5.0).acceleration_mps2 == 0.0


def test_plan_counts_on_no_more_than_coasting_gives() -> None:
    slippery = msgspec.structs.replace(DRIVE, friction_nm=0.001)
    coast = -slippery.acceleration_mps2(0.0, 0.0)
    assert planned_deceleration_mps2(PARAMS, slippery) == pytest.approx(0.8 * coast)
    assert (
        planned_deceleration_mps2(PARAMS, msgspec.structs.replace(BRAKED, friction_nm=0.001)) == 0.5
    )


def _settle(
    params: SpeedParams, believed: Drive, truth: Drive, target: float, seconds: float = 20.0
) -> list[float]:
    state, v, speeds = PidState(), 0.0, []
    for _ in range(int(seconds * 100)):
        state, demand = speed_step(params, believed, state, v, SpeedTarget(target, 0.0), 0.01)
        v = max(
            0.0,
            v
            + 0.01
            * (
                truth.acceleration_mps2(demand.throttle, v)
                - demand.brake * truth.brake_deceleration_mps2
            ),
        )
        speeds.append(v)
    return speeds


def test_reaches_the_target_at_the_acceleration_limit_without_overshoot() -> None:
    speeds = _settle(PARAMS, DRIVE, DRIVE, 1.5)
    assert speeds[-1] == pytest.approx(1.5, abs=0.005)
    assert max(speeds) < 1.52
    assert np.diff(speeds).max() < 1.3 * PARAMS.acceleration_mps2 * 0.01
    assert speeds[250] > 1.4


def test_the_integral_removes_what_the_drive_model_does_not_know() -> None:
    weak = msgspec.structs.replace(DRIVE, stall_torque_nm=0.07)
    without = _settle(SpeedParams(p=1.0, i=0.0), DRIVE, weak, 1.0)[-1]
    with_integral = _settle(SpeedParams(p=1.0, i=0.5), DRIVE, weak, 1.0, 60.0)[-1]
    assert abs(without - 1.0) > 0.03
    assert with_integral == pytest.approx(1.0, abs=0.005)


def test_the_integral_does_not_wind_up_against_a_limit() -> None:
    """Ten seconds against a wall at full throttle must not be paid back afterwards."""
    params = SpeedParams(i=2.0, integral_limit=1.0, acceleration_mps2=100.0)
    state = PidState()
    for _ in range(1000):
        state, demand = speed_step(params, DRIVE, state, 0.0, SpeedTarget(3.0, 0.0), 0.01)
        assert demand.throttle == 1.0
    assert abs(state.integral) < 0.01


def _driven(
    drive: Drive, target: float, seconds: float, *, held_s: float = 0.0, slope_mps2: float = 0.0
) -> list[float]:
    """Return the speeds of a vehicle on a slope, > 0 downhill, that something holds at first;
    commands act 0.1 s late."""
    state, v, speeds, commands = PidState(), 0.0, [], [Demand(0.0, 1.0)] * 10
    for k in range(int(seconds * 100)):
        state, demand = speed_step(PARAMS, drive, state, v, SpeedTarget(target, 0.0), 0.01)
        commands.append(demand)
        acts = commands.pop(0)
        rolling = (drive.friction_nm / drive.inertia_kgm2) * drive.wheel_radius_m * drive.gear_ratio
        push = (
            drive.acceleration_mps2(acts.throttle, 0.0)
            + rolling
            - drive_authority_mps2(drive) * v / 3.0
            + slope_mps2
        )
        grip = rolling + acts.brake * drive.brake_deceleration_mps2
        if k < 100 * held_s:
            v = 0.0
        elif v == 0.0:
            v = 0.01 * math.copysign(max(abs(push) - grip, 0.0), push)
        else:
            after = v + 0.01 * (push - math.copysign(grip, v))
            v = after if after * v > 0.0 else 0.0
        speeds.append(v)
    return speeds


LATE = msgspec.structs.replace(BRAKED, delay_s=0.1)


@pytest.mark.parametrize("held_s", [0.3, 1.0, 2.0])
@pytest.mark.parametrize("target", [0.1, 0.28, 1.0])
def test_a_vehicle_that_was_held_does_not_surge(target: float, held_s: float) -> None:
    """It is held for as long as a drive goes on without moving."""
    speeds = _driven(LATE, target, held_s + 6.0, held_s=held_s)
    assert max(speeds) < 1.25 * target + 0.15
    assert np.mean(speeds[-100:]) == pytest.approx(target, rel=0.15)


@pytest.mark.parametrize("slope_mps2", [-0.5, -1.0, -1.4])
def test_a_start_uphill_rolls_back_by_centimetres(slope_mps2: float) -> None:
    speeds = np.array(_driven(LATE, 0.4, 12.0, slope_mps2=slope_mps2))
    way_m = np.cumsum(speeds) * 0.01
    assert way_m.min() > -0.15
    assert speeds[-200:].mean() == pytest.approx(0.4, rel=0.3)


@pytest.mark.parametrize("slope_mps2", [1.0, 2.0, 3.0])
def test_downhill_the_brake_holds_the_speed(slope_mps2: float) -> None:
    speeds = _driven(LATE, 1.0, 10.0, slope_mps2=slope_mps2)
    assert max(speeds) < 1.12 + 0.1 * slope_mps2
    assert np.mean(speeds[-100:]) == pytest.approx(1.0, abs=0.3)


def test_derivative_opposes_acceleration() -> None:
    state = PidState(reference_mps=1.0, last_speed_mps=0.99)
    _, without = speed_step(SpeedParams(), DRIVE, state, 1.0, SpeedTarget(1.0, 0.0), 0.01)
    _, damped = speed_step(SpeedParams(d=0.05), DRIVE, state, 1.0, SpeedTarget(1.0, 0.0), 0.01)
    assert without.throttle - damped.throttle == pytest.approx(0.05 * 1.0)


def test_brake_only_where_there_is_one_and_beyond_the_dead_band() -> None:
    fast = PidState(reference_mps=1.0)
    assert speed_step(PARAMS, DRIVE, fast, 2.0, SpeedTarget(1.0, 0.0), 0.01)[1] == Demand(0.0, 0.0)
    demand = speed_step(PARAMS, BRAKED, fast, 2.0, SpeedTarget(1.0, 0.0), 0.01)[1]
    assert demand.throttle == 0.0
    gain = usable_gain(PARAMS, DRIVE)
    asked = DRIVE.steady_throttle(1.0) - gain
    assert demand.brake == pytest.approx(min(1.0, -asked * drive_authority_mps2(BRAKED) / 4.0))
    inside = 0.2 + (DRIVE.steady_throttle(0.2) + 0.05) / gain
    assert inside < runaway_mps(0.2)
    assert speed_step(
        PARAMS, BRAKED, PidState(reference_mps=0.2), inside, SpeedTarget(0.2, 0.0), 0.01
    )[1] == Demand(0.0, 0.0)
    insensitive = replace(PARAMS, brake_dead_band=1.0)
    assert speed_step(insensitive, BRAKED, fast, 1.5, SpeedTarget(1.0, 0.0), 0.01)[1].brake > 0.0, (
        "one that runs away is braked"
    )


@given(
    near(0.0, 1.0, 2.5, BRAKED.top_speed_mps, low=-10.0, high=200.0),
    near(0.0, 1.0, 2.5, BRAKED.top_speed_mps, low=0.0, high=100.0),
    near(0.0, PARAMS.acceleration_mps2, signed=True),
    near(0.01, low=1e-4, high=1.0),
    st.booleans(),
    near(0.0, PARAMS.integral_limit, signed=True),
)
def test_demand_is_always_inside_its_limits(
    speed: float, target: float, a: float, dt: float, brake: bool, integral: float
) -> None:
    drive = BRAKED if brake else DRIVE
    state = PidState(1.0, integral, 0.5)
    for _ in range(3):
        state, demand = speed_step(PARAMS, drive, state, speed, SpeedTarget(target, a), dt)
        assert 0.0 <= demand.throttle <= 1.0
        assert 0.0 <= demand.brake <= 1.0
        assert demand.throttle == 0.0 or demand.brake == 0.0
        assert brake or demand.brake == 0.0
        assert abs(state.integral) <= max(PARAMS.integral_limit, abs(integral))


REVERSING = msgspec.structs.replace(BRAKED, reverse_share=0.5)


@given(
    st.floats(0, 2), st.floats(0, 2), st.floats(-1, 1), st.floats(-0.3, 0.3), st.floats(0.005, 0.1)
)
def test_backward_is_forward_mirrored(
    speed: float, target: float, reference: float, integral: float, dt_s: float
) -> None:
    whole = msgspec.structs.replace(REVERSING, reverse_share=1.0)
    ahead = PidState(abs(reference), integral, speed)
    astern = PidState(-abs(reference), -integral, -speed)
    state, demand = speed_step(PARAMS, whole, ahead, speed, SpeedTarget(target, -0.1), dt_s)
    mirrored, answer = speed_step(PARAMS, whole, astern, -speed, SpeedTarget(-target, 0.1), dt_s)
    if target == 0.0 or speed == 0.0:
        return
    assert (answer.throttle, answer.brake) == pytest.approx(
        (-demand.throttle, demand.brake), abs=1e-12
    )
    assert mirrored.integral == pytest.approx(-state.integral, abs=1e-12)
    assert mirrored.reference_mps == pytest.approx(-state.reference_mps, abs=1e-12)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_change_of_direction_goes_through_the_brake_and_rest(sign: float) -> None:
    state, v, braked, driven = PidState(), 0.8 * sign, False, False
    for _ in range(400):
        state, demand = speed_step(
            SpeedParams(p=2.0), REVERSING, state, v, SpeedTarget(-0.5 * sign, 0.0), 0.02
        )
        if v * sign > 0.05:
            assert demand.throttle == 0.0, "never against the motion"
            braked = braked or demand.brake == 1.0
        driven = driven or demand.throttle * sign < 0.0
        v = REVERSING.settled_mps(
            v,
            v + 0.02 * REVERSING.acceleration_mps2(demand.throttle, v, demand.brake),
            demand.throttle,
        )
    assert braked
    assert driven
    assert v == pytest.approx(-0.5 * sign, abs=0.03)


def test_backward_the_throttle_keeps_to_its_share() -> None:
    _, demand = speed_step(
        SpeedParams(p=50.0), REVERSING, PidState(), -0.1, SpeedTarget(-2.0, 0.0), 0.02
    )
    assert demand.throttle == -0.5
    _, forward_only = speed_step(
        SpeedParams(p=50.0), BRAKED, PidState(), 0.0, SpeedTarget(-2.0, 0.0), 0.02
    )
    assert forward_only.throttle == 0.0


def test_taking_over_at_speed_gives_no_jerk() -> None:
    """The first reference is the speed itself: the demand is that which holds it, plus the planned
    acceleration."""
    _, demand = speed_step(PARAMS, DRIVE, PidState(), 0.6, SpeedTarget(1.0, 0.0), 0.01)
    expected = DRIVE.steady_throttle(0.61) + PARAMS.acceleration_mps2 / drive_authority_mps2(DRIVE)
    expected += usable_gain(PARAMS, DRIVE) * 0.01
    assert demand.throttle == pytest.approx(expected)


def test_the_gain_is_cut_to_what_the_delay_allows() -> None:
    late = msgspec.structs.replace(DRIVE, delay_s=0.2)
    assert usable_gain(PARAMS, DRIVE) * drive_authority_mps2(DRIVE) * 0.05 <= 0.6
    assert usable_gain(PARAMS, late) * drive_authority_mps2(late) * 0.2 == pytest.approx(0.6)
    assert usable_gain(SpeedParams(p=0.5), late) == 0.5


def test_a_course_that_is_driven_slower_than_it_asks_is_reported() -> None:
    profile = load_profile("art")
    said = {
        name: " ".join(speed_warnings(profile.vehicle, profile.limits, load_course(name)))
        for name in ("lot17", "sine", "sine:speed_mps=30", "figure_eight_fast")
    }
    assert not said["lot17"]
    assert not said["sine"]
    assert "asks for up to 30 m/s" in said["sine:speed_mps=30"]
    assert "100%" in said["sine:speed_mps=30"]
    assert "lateral acceleration" in said["figure_eight_fast"]


def test_a_vehicle_that_stands_disproves_that_something_pushes_it() -> None:
    """The surplus that a faster vehicle has learned takes the throttle that would set off again,
    and only until it stands."""
    throttles = {}
    for surplus_mps2 in (0.0, 0.4):
        state, throttles[surplus_mps2] = PidState(), list[float]()
        for _ in range(120):
            state, demand = speed_step(
                replace(PARAMS, i=0.0),
                DRIVE,
                state,
                0.0,
                SpeedTarget(0.15, 0.0),
                0.01,
                surplus_mps2,
                now_mps=0.0,
                noise_mps=0.01,
            )
            throttles[surplus_mps2].append(demand.throttle)
    less = [plain - pushed for plain, pushed in zip(throttles[0.0], throttles[0.4], strict=True)]
    assert less[38] == pytest.approx(0.4 / drive_authority_mps2(DRIVE))
    assert less[-1] == pytest.approx(0.0)


def test_the_creep_speed_is_a_twentieth_of_the_highest_one_unless_the_profile_states_it() -> None:
    for top, stated, creep in ((5.0, None, 0.25), (0.25, None, 0.0125), (5.0, 0.1, 0.1)):
        profile = _profile("straight_30m", top=top, params=SpeedParams(creep_mps=stated))
        assert profile.creep_mps(29.9) == pytest.approx(creep)
