"""The 4-DOF filter under everything that may come in: derivative right, covariance positive
definite, nothing raises."""

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from msgspec.structs import replace

from tests.examples import examples
from tests.strategies import near
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    MotorStatus,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.estimation import measurements
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.four_dof import (
    Densities,
    FourDofState,
    Input,
    predict,
    propagate,
    transition,
)
from vehicled.estimation.gaussian import update
from vehicled.estimation.history import EstimatedPose
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(
    steering=make_steering(offset_rad=0.018), drive=make_drive(brake_deceleration_mps2=2.0)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
DIAGONAL = (0.04, 0, 0, 0, 0, 0.04, 0, 0, 0, 0, 0.01, 0, 0, 0, 0, 0.09)

states = st.builds(
    FourDofState,
    x_m=st.floats(-100, 100),
    y_m=st.floats(-100, 100),
    yaw_rad=st.floats(-3.0, 3.0),
    speed_mps=st.floats(0.5, 5.0),
    wheel_rad=st.floats(-0.3, 0.3),
    covariance=st.just(DIAGONAL),
)
inputs = st.builds(
    Input,
    throttle=st.floats(0.0, 1.0),
    brake=st.floats(0.0, 1.0),
    wheel_command_rad=st.floats(-0.335, 0.335),
    yaw_rate_radps=st.one_of(st.just(NAN), st.floats(-2.0, 2.0)),
)


def _mean(state: FourDofState, command: Input, dt_s: float) -> np.ndarray[Any, Any]:
    s = transition(VEHICLE, state, command, dt_s)
    return np.array((s.x_m, s.y_m, s.yaw_rad, s.speed_mps))


def _matrix(state: FourDofState, command: Input, dt_s: float) -> np.ndarray[Any, Any]:
    s = transition(VEHICLE, state, command, dt_s)
    return np.array(
        (
            (1, 0, s.dx_dyaw, s.dx_dv),
            (0, 1, s.dy_dyaw, s.dy_dv),
            (0, 0, 1, s.dyaw_dv),
            (0, 0, 0, s.dv_dv),
        )
    )


@given(states, inputs, st.floats(1e-3, 0.1))
def test_jacobian_is_that_of_the_step(state: FourDofState, command: Input, dt_s: float) -> None:
    q = np.array((state.x_m, state.y_m, state.yaw_rad, state.speed_mps))
    numeric = np.zeros((4, 4))
    h = 1e-5
    for k in range(4):
        ends = []
        for sign in (1.0, -1.0):
            shifted = q.copy()
            shifted[k] += sign * h
            x, y, yaw, v = shifted.tolist()
            ends.append(_mean(FourDofState(x, y, yaw, v, state.wheel_rad, DIAGONAL), command, dt_s))
        difference = ends[0] - ends[1]
        difference[2] = math.remainder(difference[2], math.tau)
        numeric[:, k] = difference / (2.0 * h)
    np.testing.assert_allclose(_matrix(state, command, dt_s), numeric, atol=1e-7)


@given(states, inputs)
def test_jacobian_is_identity_plus_dt_times_the_derivative_of_the_model(
    state: FourDofState, command: Input
) -> None:
    """df/dq of the published model, written from its equations."""
    d, l, dt_s = VEHICLE.drive, VEHICLE.wheelbase_m, 1e-6  # noqa: E741
    v, theta = state.speed_mps, state.yaw_rad
    bicycle = math.isnan(command.yaw_rate_radps)
    df = np.zeros((4, 4))
    df[0, 2], df[0, 3] = -v * math.sin(theta), math.cos(theta)
    df[1, 2], df[1, 3] = v * math.cos(theta), math.sin(theta)
    df[2, 3] = math.tan(state.wheel_rad) / l if bicycle else 0.0
    df[3, 3] = -(d.viscous_nms + d.stall_torque_nm / d.no_load_speed_radps) / d.inertia_kgm2
    np.testing.assert_allclose((_matrix(state, command, dt_s) - np.eye(4)) / dt_s, df, atol=1e-4)


@given(states, inputs, st.floats(1e-3, 0.1), st.lists(st.floats(-1, 1), min_size=16, max_size=16))
def test_written_out_propagation_is_the_matrix_product(
    state: FourDofState, command: Input, dt_s: float, root: list[float]
) -> None:
    A = np.array(root).reshape(4, 4)
    P = A @ A.T
    F = _matrix(state, command, dt_s)
    result = propagate(tuple(P.ravel().tolist()), transition(VEHICLE, state, command, dt_s))
    np.testing.assert_allclose(np.array(result).reshape(4, 4), F @ P @ F.T, atol=1e-9)


@given(states, inputs, st.floats(1e-3, 0.02))
def test_speed_never_falls_below_zero(state: FourDofState, command: Input, dt_s: float) -> None:
    slow = FourDofState(state.x_m, state.y_m, state.yaw_rad, 1e-4, state.wheel_rad, DIAGONAL)
    for _ in range(20):
        slow = predict(Densities(0.02, 0.01, 0.05, 0.3), VEHICLE, slow, command, dt_s)
        assert slow.speed_mps >= 0.0


@given(
    st.lists(st.floats(-3, 3), min_size=16, max_size=16),
    st.floats(-50, 50),
    st.floats(-50, 50),
    st.floats(1e-4, 1e2),
    st.floats(-0.9, 0.9),
    st.booleans(),
)
def test_update_keeps_the_covariance_positive_definite(
    root: list[float], dx: float, dy: float, variance: float, correlation: float, forced: bool
) -> None:
    A = np.array(root).reshape(4, 4)
    P = A @ A.T + 1e-6 * np.eye(4)
    R = variance * np.array(((1.0, correlation), (correlation, 1.0)))
    z = measurements.position(EstimatedPose(0.0, 0.0, 0.4, 1.0, 0.1), dx, dy, R, (0.2, 0.05, 0.3))
    result = update(tuple(P.ravel().tolist()), z, 13.8, forced)
    after = np.array(result.covariance).reshape(4, 4)
    np.testing.assert_array_equal(after, after.T)
    assert np.linalg.eigvalsh(after).min() > 0.0
    if not result.accepted:
        assert result.shift == (0.0, 0.0, 0.0, 0.0)
    elif not forced:
        assert np.trace(after) <= np.trace(P) * (1 + 1e-9), "a measurement never adds uncertainty"


@examples(60)
@given(
    st.lists(st.floats(-3, 3), min_size=16, max_size=16),
    st.floats(1e-4, 1e2),
    st.floats(-0.9, 0.9),
    st.floats(0.0, 6.28),
    near(13.8, 0.0, low=0.0),
    st.booleans(),
)
def test_gate_takes_what_is_within_chi_square_and_nothing_beyond(
    root: list[float],
    variance: float,
    correlation: float,
    direction_rad: float,
    wanted_nis: float,
    forced: bool,
) -> None:
    A = np.array(root).reshape(4, 4)
    P = A @ A.T + 1e-6 * np.eye(4)
    R = variance * np.array(((1.0, correlation), (correlation, 1.0)))
    z = measurements.position(EstimatedPose(0.0, 0.0, 0.4, 1.0, 0.1), 0.0, 0.0, R, (0.2, 0.05, 0.3))
    S = z.H @ P @ z.H.T + z.R
    residual = (
        np.sqrt(wanted_nis)
        * np.linalg.cholesky(S)
        @ (math.cos(direction_rad), math.sin(direction_rad))
    )
    result = update(tuple(P.ravel().tolist()), replace(z, residual=residual), 13.8, forced)
    assert result.nis == pytest.approx(wanted_nis, rel=1e-6, abs=1e-12)
    assert result.accepted is (forced or result.nis <= 13.8)
    if not result.accepted:
        assert result.covariance == tuple(P.ravel().tolist())
        assert result.shift == (0.0, 0.0, 0.0, 0.0)
    elif result.nis <= 13.8:
        K = P @ z.H.T @ np.linalg.inv(S)
        np.testing.assert_allclose(result.shift, K @ residual, rtol=1e-6, atol=1e-9)


# -------------------------------------------------------------------- any input

wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, NAN, math.inf, -math.inf, 1e300, -1e300]),
)
around = st.one_of(st.floats(-2, 2), wild)
stamps = st.one_of(
    st.integers(-50, 50).map(lambda ms: ms * 1_000_000),
    st.sampled_from([-(2**62), 2**62, -(10**9), 10**9]),
)
nines = st.tuples(*[st.one_of(st.floats(0, 1), wild)] * 9)
threes = st.tuples(around, around, around)


def _fix(
    age: int,
    east: float,
    north: float,
    height: float,
    velocity: Any,
    position: Any,
    spread: Any,
    kind: FixType,
) -> tuple[int, Any]:
    lat, lon, _ = (
        DATUM.to_geodetic(east, north, 0.0)
        if abs(east) < 1e6 and abs(north) < 1e6
        else (east, north, 0.0)
    )
    return age, lambda t: GnssFix(
        t, t, lat, lon, height, velocity, position, spread, kind, CarrierSolution.FIXED
    )


messages = st.one_of(
    st.builds(_fix, stamps, around, around, around, threes, nines, nines, st.sampled_from(FixType)),
    st.tuples(
        stamps,
        st.tuples(around, around).map(
            lambda v: lambda t: Heading(t, t, v[0], v[1], HeadingKind.MOVING_BASE)
        ),
    ),
    st.tuples(
        stamps,
        st.tuples(threes, threes, st.booleans()).map(
            lambda v: lambda t: ImuSample(t, t, v[0], v[1], NAN, v[2])
        ),
    ),
    st.tuples(
        stamps, st.tuples(around, around).map(lambda v: lambda t: WheelSpeed(t, t, v[0], v[1]))
    ),
    st.tuples(stamps, around.map(lambda v: lambda t: MotorStatus(t, t, v))),
    st.tuples(
        stamps,
        st.tuples(around, around).map(lambda v: lambda t: SteeringFeedback(t, t, v[0], v[1])),
    ),
    st.tuples(
        stamps,
        st.tuples(around, around, around).map(
            lambda v: lambda t: ActuatorCommand(t, t, v[0], v[1], 0.0, v[2])
        ),
    ),
)
pauses = st.one_of(
    st.just(5_000_000), st.integers(-(10**7), 10**8), st.sampled_from([0, 2 * 10**9, 10**13])
)
episodes = st.lists(st.tuples(pauses, st.lists(messages, max_size=4)), min_size=1, max_size=25)


def _good_start(ekf: Ekf4, now_ns: int) -> None:
    lat, lon, height = DATUM.to_geodetic(0.0, 0.0, 0.0)
    ekf.observe(Heading(now_ns, now_ns, 0.3, 0.02))
    ekf.observe(
        GnssFix(
            now_ns, now_ns, lat, lon, height, fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED
        )
    )


@examples(60)
@given(
    episodes,
    st.sampled_from(["kinematic", "dynamic"]),
    st.sampled_from([(0.0, 0.0), (0.0, 4.0), (0.5, 0.0)]),
)
def test_any_sequence_of_messages_leaves_a_sound_state(
    episode: list[tuple[int, list[tuple[int, Any]]]], model: Any, drive: tuple[float, float]
) -> None:
    reverse_share, brake_mps2 = drive
    vehicle = replace(
        VEHICLE,
        drive=replace(
            VEHICLE.drive, reverse_share=reverse_share, brake_deceleration_mps2=brake_mps2
        ),
    )
    ekf = Ekf4(Ekf4Params(model=model), vehicle, DATUM, (0.1, 0.0, 0.2))
    now_ns = 10**12
    _good_start(ekf, now_ns)
    for pause_ns, arrivals in episode:
        now_ns += pause_ns
        for age_ns, make in arrivals:
            message: Message = make(now_ns - age_ns)
            if isinstance(message, ActuatorCommand):
                ekf.command(message)
            else:
                ekf.observe(message)
                ekf.observe(message)  # duplicates are part of life
        estimate = ekf.step(now_ns)
        values = (
            estimate.x_m,
            estimate.y_m,
            estimate.yaw_rad,
            estimate.speed_mps,
            *estimate.covariance,
        )
        if estimate.status is EstimatorStatus.UNINITIALISED:
            assert all(map(math.isnan, values))
            continue
        assert all(map(math.isfinite, values))
        # A vehicle that can neither reverse nor brake is not known to roll back.
        assert estimate.speed_mps >= 0.0 or reverse_share > 0.0 or brake_mps2 > 0.0
        assert -math.pi <= estimate.yaw_rad <= math.pi
        assert estimate.newest_input_ns <= max(now_ns, 10**12) + 10**8
        P = np.array(estimate.covariance).reshape(4, 4)
        np.testing.assert_array_equal(P, P.T)
        scale = np.sqrt(np.diag(P))
        assert np.linalg.eigvalsh(P / np.outer(scale, scale)).min() > -1e-9


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_values_that_are_not_finite_change_nothing_but_the_count(bad: float) -> None:
    now_ns = 10**12
    clean, soiled = (Ekf4(Ekf4Params(), VEHICLE, DATUM, (0.0, 0.0, 0.0)) for _ in range(2))
    for ekf in (clean, soiled):
        _good_start(ekf, now_ns)
        ekf.step(now_ns)
    later = now_ns + 5_000_000
    soiled.observe(GnssFix(later, later, bad, 0.0, 0.0, fix_type=FixType.FIX_3D))
    soiled.observe(Heading(later, later, bad, 0.1))
    soiled.observe(WheelSpeed(later, later, bad, 0.1))
    soiled.observe(MotorStatus(later, later, bad))
    soiled.observe(SteeringFeedback(later, later, bad, 0.1))
    soiled.observe(ImuSample(later, later, (0.0, 0.0, 9.8), (0.0, 0.0, bad)))
    soiled.command(ActuatorCommand(later, later, bad, 0.0, 0.0, 0.0))
    assert soiled.step(later) == clean.step(later)
    assert soiled.ignored == 7


def test_a_wheel_speed_is_corrected_by_the_identified_radius() -> None:
    speeds = []
    for scale in (1.0, 0.85):
        estimator = Ekf4(Ekf4Params(), VEHICLE, DATUM, (0.0, 0.0, 0.0))
        estimator.adapt(
            replace(
                VEHICLE,
                drive=replace(VEHICLE.drive, wheel_radius_m=scale * VEHICLE.drive.wheel_radius_m),
            )
        )
        for k in range(1, 101):
            now = k * 20_000_000
            if k < 3:
                estimator.observe(Heading(now, now, 0.0, 0.01, HeadingKind.MOVING_BASE))
                estimator.observe(
                    GnssFix(
                        now,
                        now,
                        DATUM.latitude_rad,
                        DATUM.longitude_rad,
                        0.0,
                        fix_type=FixType.FIX_3D,
                    )
                )
            estimator.observe(WheelSpeed(now, now, 1.0, 0.01))
            estimate = estimator.step(now)
        speeds.append(estimate.speed_mps)
    assert speeds == pytest.approx([1.0, 0.85], abs=0.02)
