"""The 4-DOF filter against independent references: textbook matrix equations, chi-square
consistency, continuous-time noise."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import chdtri, gammaincinv

from tests.grid import sampled
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    StateEstimate,
)
from vehicled.estimation import measurements
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.gaussian import chi_square_limit, update
from vehicled.estimation.history import EstimatedPose
from vehicled.paths.datum import Datum

Array = np.ndarray[Any, Any]

VEHICLE = make_vehicle(
    steering=make_steering(rate_radps=5.0, delay_s=0.0), drive=make_drive(delay_s=0.0)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
LEVER_M = (0.15, 0.05, 0.3)


@pytest.mark.parametrize("degrees", [1, 2])
@pytest.mark.parametrize("probability", [0.5, 0.9, 0.95, 0.999])
def test_gate_is_the_chi_square_quantile(probability: float, degrees: int) -> None:
    assert chi_square_limit(probability, degrees) == pytest.approx(
        2.0 * gammaincinv(0.5 * degrees, probability), rel=1e-9
    )


def textbook(m: Array, P: Array, v: Array, H: Array, R: Array) -> tuple[Array, Array, float]:
    """Sarkka 2013, Alg. 5.4: S = H P H' + R, K = P H' / S, m + K v, P - K S K'."""
    S = H @ P @ H.T + R
    K = P @ H.T @ np.linalg.inv(S)
    return m + K @ v, P - K @ S @ K.T, float(v @ np.linalg.inv(S) @ v)


@given(
    st.lists(st.floats(-2, 2), min_size=16, max_size=16),
    st.floats(-3, 3),
    st.floats(0.6, 3.0),
    st.floats(-1, 1),
    st.floats(-1, 1),
    st.floats(-1, 1),
)
def test_updates_are_those_of_the_textbook(
    root: list[float], yaw: float, v: float, rate: float, a: float, b: float
) -> None:
    A = np.array(root).reshape(4, 4)
    P = A @ A.T + 0.01 * np.eye(4)
    pose = EstimatedPose(3.0, -2.0, yaw, v, rate)
    R = np.array(((0.09, 0.02), (0.02, 0.04)))
    c, s = math.cos(yaw), math.sin(yaw)
    turn, lever = np.array(((c, -s), (s, c))), np.array(LEVER_M[:2])
    slope = np.array(((-s, -c), (c, -s)))
    across = np.array((-LEVER_M[1], LEVER_M[0]))

    antenna = np.array((3.0, -2.0)) + turn @ lever
    H_position = np.column_stack((np.eye(2), slope @ lever, np.zeros(2)))
    velocity = v * np.array((c, s)) + rate * turn @ across
    H_velocity = np.column_stack((np.zeros((2, 2)), v * np.array((-s, c)), np.array((c, s))))
    one = np.array(((0.05**2,),))
    cases = [
        (
            measurements.position(pose, antenna[0] + a, antenna[1] + b, R, LEVER_M),
            np.array((a, b)),
            H_position,
            R,
        ),
        (
            measurements.heading(pose, yaw + a + math.tau, 0.05),
            np.array((a,)),
            np.array(((0, 0, 1, 0),)),
            one,
        ),
        (measurements.speed(pose, v + a, 0.05), np.array((a,)), np.array(((0, 0, 0, 1),)), one),
    ]
    if math.hypot(velocity[0] + 0.01 * a, velocity[1] + 0.01 * b) > 1.0 and v > 0.6:
        moved = velocity + 0.01 * np.array((a, b))
        z = measurements.velocity(pose, moved[0], moved[1], R, LEVER_M, 0.1)
        cases.append((z, 0.01 * np.array((a, b)), H_velocity, R))
    for z, residual, H, noise in cases:
        shift, after, nis = textbook(np.zeros(4), P, residual, H, noise)
        result = update(tuple(P.ravel().tolist()), z, math.inf, False)
        np.testing.assert_allclose(result.shift, shift, atol=1e-9)
        np.testing.assert_allclose(np.array(result.covariance).reshape(4, 4), after, atol=1e-8)
        assert result.nis == pytest.approx(nis, rel=1e-6, abs=1e-12)


def test_slow_vehicle_takes_only_the_speed_along_its_yaw() -> None:
    R = np.diag((0.04, 0.01))
    z = measurements.velocity(
        EstimatedPose(0.0, 0.0, 0.0, 0.1, 0.0), 0.25, 0.3, R, (0.0, 0.0, 0.0), 0.5
    )
    assert z.residual.tolist() == pytest.approx([0.15])
    assert z.H.tolist() == [[0.0, 0.0, 0.0, 1.0]]
    assert z.R.tolist() == [[pytest.approx(0.04)]]


# -------------------------------------------------------------------- consistency

SIGMA_M, SIGMA_RAD, SIGMA_MPS = 0.08, 0.04, 0.1
PARAMS = Ekf4Params(
    position_density_m=0.02,
    yaw_density_rad=0.02,
    wheel_density_rad=0.02,
    speed_density_mps=0.1,
    gate_probability=0.999999,
    gnss_coloured=False,
)


def _drifted(
    rng: np.random.Generator, q: Array, throttle: float, wheel: float, dt_s: float
) -> Array:
    """Truth by Euler-Maruyama of the published equations with the densities that the filter is
    configured with."""
    d = VEHICLE.drive
    reduced = d.wheel_radius_m * d.gear_ratio
    v = q[3]
    f1 = d.stall_torque_nm * throttle - d.stall_torque_nm * v / (d.no_load_speed_radps * reduced)
    f0 = d.viscous_nms * v / reduced + d.friction_nm
    rate = np.array(
        (
            v * math.cos(q[2]),
            v * math.sin(q[2]),
            v * math.tan(wheel) / VEHICLE.wheelbase_m,
            reduced / d.inertia_kgm2 * (f1 - f0),
        )
    )
    p = PARAMS
    yaw_density = math.hypot(p.yaw_density_rad, p.wheel_density_rad * v / VEHICLE.wheelbase_m)
    density = np.array(
        (p.position_density_m, p.position_density_m, yaw_density, p.speed_density_mps)
    )
    return q + rate * dt_s + density * math.sqrt(dt_s) * rng.standard_normal(4)


def _run(seed: int, with_velocity: bool) -> tuple[StateEstimate, Array, list[float]]:
    rng = np.random.default_rng(seed)
    ekf = Ekf4(PARAMS, VEHICLE, DATUM, LEVER_M)
    throttle = VEHICLE.drive.steady_throttle(1.2)
    q = np.array((1.0, 2.0, rng.uniform(-3, 3), 1.2))
    covariance = (SIGMA_M**2, 0, 0, 0, SIGMA_M**2, 0, 0, 0, 1.0)
    spread = (SIGMA_MPS**2, 0, 0, 0, SIGMA_MPS**2, 0, 0, 0, 1.0)
    nis: list[float] = []
    estimate = None
    for k in range(601):
        now_ns = k * 10_000_000
        wheel = 0.2 * math.sin(0.01 * k)
        if k % 10 == 0:
            c, s = math.cos(q[2]), math.sin(q[2])
            noise = SIGMA_M * rng.standard_normal(2)
            e = q[0] + c * LEVER_M[0] - s * LEVER_M[1] + noise[0]
            n = q[1] + s * LEVER_M[0] + c * LEVER_M[1] + noise[1]
            lat, lon, h = DATUM.to_geodetic(e, n, LEVER_M[2])
            # The rate the filter knows is that of the model, so the antenna's own motion is too.
            rate = q[3] * math.tan(wheel) / VEHICLE.wheelbase_m
            ve = (
                q[3] * c
                + rate * (-s * LEVER_M[0] - c * LEVER_M[1])
                + SIGMA_MPS * rng.standard_normal()
            )
            vn = (
                q[3] * s
                + rate * (c * LEVER_M[0] - s * LEVER_M[1])
                + SIGMA_MPS * rng.standard_normal()
            )
            velocity = (ve, vn, 0.0) if with_velocity else (math.nan,) * 3
            ekf.observe(
                Heading(now_ns, now_ns, q[2] + SIGMA_RAD * rng.standard_normal(), SIGMA_RAD)
            )
            fix = GnssFix(
                now_ns,
                now_ns,
                lat,
                lon,
                h,
                velocity,
                covariance,
                spread,
                FixType.FIX_3D,
                CarrierSolution.FIXED,
            )
            ekf.observe(fix)
        estimate = ekf.step(now_ns)
        if k % 10 == 0 and k > 200:
            nis.append(estimate.normalised_innovation_squared)
        ekf.command(ActuatorCommand(now_ns, now_ns, throttle, 0.0, 0.0, wheel))
        if k < 600:
            for _ in range(2):
                q = _drifted(rng, q, throttle, wheel, 0.005)
    assert estimate is not None
    assert estimate.status is EstimatorStatus.RUNNING
    return estimate, q, nis


@pytest.mark.parametrize(
    "with_velocity",
    sampled([False, True], lambda with_velocity: with_velocity),
    ids=["position and heading", "velocity too"],
)
def test_errors_are_as_large_as_the_filter_says(with_velocity: bool) -> None:
    """NEES at the end of independent runs, and NIS along them, within the 99.8 % bounds of the
    chi-square distribution."""
    runs, nees, innovations = 40, 0.0, []
    for seed in range(runs):
        estimate, q, nis = _run(seed, with_velocity)
        error = q - np.array((estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps))
        error[2] = math.remainder(error[2], math.tau)
        nees += float(error @ np.linalg.solve(np.array(estimate.covariance).reshape(4, 4), error))
        innovations += nis
    assert chdtri(4 * runs, 0.999) < nees < chdtri(4 * runs, 0.001)
    n = 2 * len(innovations)
    assert chdtri(n, 0.999) < sum(innovations) < chdtri(n, 0.001)


@pytest.mark.parametrize("rate_hz", [20, 50, 100, 500])
def test_uncertainty_grows_with_time_and_not_with_the_rate(rate_hz: int) -> None:
    """One second after the last fix, against the integral of the linearised model by scipy."""
    from scipy.linalg import expm

    ekf = Ekf4(PARAMS, VEHICLE, DATUM, (0.0, 0.0, 0.0))
    lat, lon, h = DATUM.to_geodetic(0.0, 0.0, 0.0)
    ekf.observe(Heading(0, 0, 0.0, 0.05))
    covariance = (0.01, 0, 0, 0, 0.01, 0, 0, 0, 1.0)
    ekf.observe(GnssFix(0, 0, lat, lon, h, (1.0, 0.0, 0.0), covariance, covariance, FixType.FIX_3D))
    # Before any fix the throttle is known, so that the speed stays where it is.
    ekf.command(ActuatorCommand(-1, -1, VEHICLE.drive.steady_throttle(1.0), 0.0, 0.0, 0.0))
    start = np.array(ekf.step(0).covariance).reshape(4, 4)
    period_ns = 1_000_000_000 // rate_hz
    estimate = None
    for k in range(1, rate_hz + 1):
        estimate = ekf.step(k * period_ns)
    assert estimate is not None
    assert estimate.x_m == pytest.approx(1.0, abs=1e-6)

    d, p = VEHICLE.drive, PARAMS
    A = np.zeros((4, 4))
    A[0, 3], A[1, 2] = 1.0, 1.0
    A[3, 3] = -(d.viscous_nms + d.stall_torque_nm / d.no_load_speed_radps) / d.inertia_kgm2
    yaw2 = p.yaw_density_rad**2 + (p.wheel_density_rad / VEHICLE.wheelbase_m) ** 2
    Q = np.diag((p.position_density_m**2, p.position_density_m**2, yaw2, p.speed_density_mps**2))
    # Van Loan 1978: both integrals from one exponential.
    block = expm(np.block([[-A, Q], [np.zeros((4, 4)), A.T]]))
    F = block[4:, 4:].T
    expected = F @ start @ F.T + F @ block[:4, 4:]
    np.testing.assert_allclose(
        np.array(estimate.covariance).reshape(4, 4), expected, rtol=0.01, atol=1e-4
    )
