"""The single track that slips: limits, steadiness, independence of the step, both directions."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import NAN
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.estimation.dynamic_single_track import (
    UNSTABLE_SHARE,
    SingleTrack,
    lateral_step,
    single_track,
)
from vehicled.estimation.four_dof import (
    Densities,
    FourDofState,
    Input,
    lowest_speed_mps,
    predict,
    transition,
)

L = 0.5
STIFFNESS, UNDERSTEER, CENTRE, INERTIA = 9.0, 0.04, 0.45, 1.15
TRACK = single_track(L, STIFFNESS, UNDERSTEER, CENTRE, INERTIA)
DRIVE = make_drive(brake_deceleration_mps2=2.0, reverse_share=0.6)
VEHICLE = make_vehicle(wheelbase_m=L, drive=DRIVE, steering=make_steering(delay_s=0.0))
DIAGONAL = (0.04, 0, 0, 0, 0, 0.04, 0, 0, 0, 0, 0.01, 0, 0, 0, 0, 0.09)


def _settle(
    track: SingleTrack,
    v: float,
    tan_wheel: float,
    seconds: float,
    dt_s: float,
    measured: float = NAN,
) -> tuple[float, float]:
    lateral = rate = 0.0
    for _ in range(round(seconds / dt_s)):
        lateral, rate, _, _ = lateral_step(track, v, lateral, rate, tan_wheel, measured, dt_s)
    return lateral, rate


@pytest.mark.parametrize("v", [0.5, 2.0, 4.0])
def test_transients_are_those_of_the_differential_equations(v: float) -> None:
    """A step of the wheel, against scipy's integration of the textbook equations with mass and
    inertia put back in."""
    from scipy.integrate import solve_ivp

    m, g = 6.0, STANDARD_GRAVITY_MPS2
    b = CENTRE * L
    a = L - b
    cf = m * g * (b / L) / (1.0 / STIFFNESS + UNDERSTEER)
    cr = m * g * (a / L) * STIFFNESS
    iz = INERTIA * m * a * b
    delta = math.tan(0.15)

    def f(_t: float, z: Any) -> Any:
        front, rear = -cf * ((z[0] + a * z[1]) / v - delta), -cr * (z[0] - b * z[1]) / v
        return ((front + rear) / m - v * z[1], (a * front - b * rear) / iz)

    times = np.arange(1, 301) * 1e-3
    exact = solve_ivp(f, (0.0, 0.3), (0.0, 0.0), t_eval=times, rtol=1e-9, atol=1e-12).y
    lateral = rate = 0.0
    ours = []
    for _ in times:
        lateral, rate, _, _ = lateral_step(TRACK, v, lateral, rate, delta, NAN, 1e-3)
        ours.append((lateral + b * rate, rate))
    scale = np.abs(exact).max(axis=1)
    assert np.abs((np.array(ours).T - exact)[:, 5:]).max(axis=1) == pytest.approx(
        0.0 * scale, abs=float(0.06 * scale.max())
    )
    assert ours[-1] == pytest.approx(exact[:, -1], rel=0.01)


@given(st.floats(0.05, 6.0), st.floats(-0.3, 0.3), st.floats(1e-3, 0.1))
def test_steady_turns_obey_the_understeer_gradient_at_any_step(
    v: float, tan_wheel: float, dt_s: float
) -> None:
    lateral, rate = _settle(TRACK, v, tan_wheel, 40.0 * max(dt_s, 0.05), dt_s)
    assert rate == pytest.approx(
        v * tan_wheel / (L + UNDERSTEER * v * v / STANDARD_GRAVITY_MPS2), rel=1e-3, abs=1e-6
    )
    measured, _ = _settle(TRACK, v, 0.0, dt_s, dt_s, measured=rate)
    assert measured == pytest.approx(lateral, rel=1e-3, abs=1e-6), (
        "with the gyro the same slip without a wheel angle"
    )


@given(st.floats(-1.0, 1.0), st.floats(-0.3, 0.3), st.floats(1e-3, 0.1))
def test_stiff_tyres_are_the_kinematic_model(v: float, tan_wheel: float, dt_s: float) -> None:
    stiff = single_track(L, 1e6, 0.0, CENTRE, INERTIA)
    lateral, rate, _, drate_dv = lateral_step(stiff, v, 0.0, 0.0, tan_wheel, NAN, dt_s)
    assert rate == pytest.approx(v * tan_wheel / L, abs=1e-4)
    assert lateral == pytest.approx(0.0, abs=1e-4)
    assert drate_dv == pytest.approx(tan_wheel / L, abs=1e-3)


def test_there_is_no_switch_between_standing_and_driving() -> None:
    """Over a sweep of the speed through zero the yaw rate has no step and no kink."""
    speeds = np.linspace(-0.5, 0.5, 2001)
    rates = [_settle(TRACK, v, 0.2, 0.05, 0.005)[1] for v in speeds.tolist()]
    slope = np.gradient(rates, speeds)
    assert np.abs(slope / (0.2 / L) - 1.0).max() < 0.06
    assert np.abs(np.diff(slope)).max() < 0.002


@given(
    st.floats(-30.0, 30.0),
    st.floats(-5, 5),
    st.floats(-10, 10),
    st.floats(-0.4, 0.4),
    st.floats(1e-4, 0.1),
)
def test_nothing_blows_up(
    v: float, lateral: float, rate: float, tan_wheel: float, dt_s: float
) -> None:
    for _ in range(50):
        lateral, rate, _, _ = lateral_step(TRACK, v, lateral, rate, tan_wheel, NAN, dt_s)
        assert abs(lateral) + abs(rate) < 1e4
    assert 0.0 < UNSTABLE_SHARE < 1.0


states = st.builds(
    FourDofState,
    x_m=st.floats(-100, 100),
    y_m=st.floats(-100, 100),
    yaw_rad=st.floats(-3.0, 3.0),
    speed_mps=st.one_of(st.floats(0.5, 5.0), st.floats(-2.0, -0.5)),
    wheel_rad=st.floats(-0.3, 0.3),
    covariance=st.just(DIAGONAL),
    yaw_rate_radps=st.floats(-1.0, 1.0),
    lateral_mps=st.floats(-0.3, 0.3),
)
inputs = st.builds(
    Input,
    throttle=st.floats(-0.6, 1.0),
    brake=st.just(0.0),
    wheel_command_rad=st.floats(-0.335, 0.335),
    yaw_rate_radps=st.one_of(st.just(NAN), st.floats(-2.0, 2.0)),
)


def _mean(q: Any, state: FourDofState, command: Input, dt_s: float) -> Any:
    x, y, yaw, v = q.tolist()
    moved = FourDofState(
        x, y, yaw, v, state.wheel_rad, DIAGONAL, state.yaw_rate_radps, state.lateral_mps
    )
    s = transition(VEHICLE, moved, command, dt_s, TRACK)
    return np.array((s.x_m, s.y_m, s.yaw_rad, s.speed_mps))


@given(states, inputs, st.floats(1e-3, 0.02))
def test_jacobian_is_that_of_the_step(state: FourDofState, command: Input, dt_s: float) -> None:
    """Forward and backward, with tyres."""
    q = np.array((state.x_m, state.y_m, state.yaw_rad, state.speed_mps))
    s = transition(VEHICLE, state, command, dt_s, TRACK)
    F = np.array(
        (
            (1, 0, s.dx_dyaw, s.dx_dv),
            (0, 1, s.dy_dyaw, s.dy_dv),
            (0, 0, 1, s.dyaw_dv),
            (0, 0, 0, s.dv_dv),
        )
    )
    h = 1e-5
    for k in range(4):
        step = h * np.eye(4)[k]
        difference = _mean(q + step, state, command, dt_s) - _mean(q - step, state, command, dt_s)
        difference[2] = math.remainder(difference[2], math.tau)
        np.testing.assert_allclose(F[:, k], difference / (2.0 * h), atol=1e-7)


def test_backward_is_forward_mirrored() -> None:
    """Same throttle and wheel the other way: the same arc, driven backward."""
    noise = Densities(0.02, 0.01, 0.05, 0.3)
    ends = []
    for sign in (1.0, -1.0):
        state = FourDofState(0.0, 0.0, 0.0, 0.0, 0.2, DIAGONAL)
        for _ in range(100):
            state = predict(noise, VEHICLE, state, Input(0.6 * sign, 0.0, 0.2), 0.02)
        ends.append(state)
    forward, backward = ends
    assert backward.speed_mps == pytest.approx(-forward.speed_mps)
    assert forward.speed_mps > 0.5
    assert backward.x_m == pytest.approx(-forward.x_m)
    assert backward.y_m == pytest.approx(forward.y_m)
    assert backward.yaw_rad == pytest.approx(-forward.yaw_rad)


def test_braking_ends_at_rest_both_ways() -> None:
    for speed in (1.0, -1.0):
        state = FourDofState(0.0, 0.0, 0.0, speed, 0.0, DIAGONAL)
        for _ in range(200):
            state = predict(
                Densities(0.02, 0.01, 0.05, 0.3), VEHICLE, state, Input(0.0, 1.0, 0.0), 0.02
            )
            assert state.speed_mps * speed >= 0.0
        assert state.speed_mps == 0.0


def test_only_a_drive_with_reverse_or_brake_may_be_believed_to_go_backward() -> None:
    from msgspec.structs import replace

    assert lowest_speed_mps(DRIVE) == -math.inf
    one_way = replace(VEHICLE, drive=replace(DRIVE, reverse_share=0.0, brake_deceleration_mps2=0.0))
    assert lowest_speed_mps(one_way.drive) == 0.0
    state = FourDofState(0.0, 0.0, 0.0, 0.01, 0.0, DIAGONAL)
    for _ in range(20):
        state = predict(
            Densities(0.02, 0.01, 0.05, 0.3), one_way, state, Input(-1.0, 0.0, 0.0), 0.02
        )
    assert state.speed_mps == 0.0
