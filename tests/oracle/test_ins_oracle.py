"""The inertial filter against independent implementations: filterpy's dense filter, scipy's
integrator and rotations."""

import math
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import solve_ivp
from scipy.linalg import expm
from scipy.spatial.transform import Rotation as Turn

from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.estimation.ins.alignment import tilt
from vehicled.estimation.ins.measurements import Fix, Sensors
from vehicled.estimation.ins.mechanisation import InertialInputs, Predictor, mechanise, noise_rates
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import (
    BA,
    BG,
    A,
    C,
    InsState,
    N,
    P,
    V,
    exponential,
    from_angles,
    product,
    rotation,
)
from vehicled.estimation.ins.update import Corrector

Floats = npt.NDArray[np.float64]
FORCE = (0.4, -0.8, 9.6)
RATE = (0.05, -0.04, 0.6)


def skew(v: Any) -> Floats:
    x, y, z = v
    return np.array(((0.0, -z, y), (z, 0.0, -x), (-y, x, 0.0)))


def some_state(seed: int) -> InsState:
    rng = np.random.default_rng(seed)
    x = (0.02 * rng.standard_normal(N)).tolist()
    x[P : P + 3] = [3.0, -2.0, 0.5]
    x[V : V + 3] = [1.2, 0.4, 0.05]
    x[A : A + 3] = [0.0, 0.0, 0.0]
    root = rng.standard_normal((N, N))
    scale = np.concatenate(
        ([0.3] * 3, [0.2] * 3, [0.02] * 3, [0.003] * 3, [0.05] * 3, [0.5] * 3, [0.02] * 3, [0.02])
    )
    P0 = (root @ root.T / N + 0.1 * np.eye(N)) * np.outer(scale, scale)
    s = InsState(x, from_angles(0.05, -0.08, 0.7), P0)
    s.colour_variance = (0.25, 0.25, 0.5)
    return s


def copy_of(s: InsState) -> InsState:
    t = s.copy()
    t.P = s.P.copy()
    return t


# ---------------------------------------------------------------- rotations


@pytest.mark.parametrize("seed", range(5))
def test_rotations_are_those_of_scipy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    roll, pitch, yaw = (rng.uniform(-1.5, 1.5, 3)).tolist()
    q = from_angles(roll, pitch, yaw)
    theirs = Turn.from_euler("ZYX", (yaw, pitch, roll))
    np.testing.assert_allclose(np.array(rotation(q)).reshape(3, 3), theirs.as_matrix(), atol=1e-12)
    for size in (1e-9, 1e-3, 0.019, 0.021, 1.5):
        v = rng.standard_normal(3) * size
        both = product(q, exponential(*v.tolist()))
        np.testing.assert_allclose(
            np.array(rotation(both)).reshape(3, 3),
            (theirs * Turn.from_rotvec(v)).as_matrix(),
            atol=1e-12,
        )
    up = theirs.as_matrix().T @ (0.0, 0.0, STANDARD_GRAVITY_MPS2)
    if abs(roll) < 1.5:
        assert tilt(tuple(up.tolist())) == pytest.approx((roll, pitch))


# ---------------------------------------------------------------- mechanisation


def motion(t: float) -> tuple[Floats, Floats]:
    """Specific force and rate of a body that rocks, turns and accelerates."""
    force = np.array(
        (0.8 * math.sin(1.3 * t), 0.5 * math.cos(0.9 * t), 9.8 + 0.3 * math.sin(4.0 * t))
    )
    rate = np.array((0.2 * math.cos(2.0 * t), -0.15 * math.sin(1.5 * t), 0.7 * math.sin(0.8 * t)))
    return force, rate


def test_mechanisation_converges_to_the_integral_of_its_equations_with_second_order() -> None:
    """dp/dt = v, dv/dt = R f + g, dR/dt = R [w]x by scipy's DOP853, and by ours at two step
    lengths."""
    R0 = Turn.from_euler("ZYX", (0.7, -0.1, 0.05)).as_matrix()

    def derivative(t: float, z: Floats) -> Floats:
        force, rate = motion(t)
        R = z[6:].reshape(3, 3)
        return np.concatenate(
            (z[3:6], R @ force - (0.0, 0.0, STANDARD_GRAVITY_MPS2), (R @ skew(rate)).ravel())
        )

    start = np.concatenate(((1.0, 2.0, 0.0), (1.0, 0.2, 0.0), R0.ravel()))
    theirs = solve_ivp(derivative, (0.0, 5.0), start, method="DOP853", rtol=1e-12, atol=1e-12).y[
        :, -1
    ]

    def error(dt: float) -> tuple[float, float, float]:
        x = [0.0] * N
        x[0:3], x[3:6] = [1.0, 2.0, 0.0], [1.0, 0.2, 0.0]
        q = from_angles(0.05, -0.1, 0.7)
        R = rotation(q)
        for k in range(round(5.0 / dt)):
            force, rate = motion((k + 0.5) * dt)
            p, v, q, R, _ = mechanise(x, q, R, tuple(force.tolist()), tuple(rate.tolist()), dt)
            x[0:3], x[3:6] = list(p), list(v)
        turn = (
            Turn.from_matrix(np.array(R).reshape(3, 3))
            * Turn.from_matrix(theirs[6:].reshape(3, 3)).inv()
        )
        return (
            float(np.linalg.norm(np.array(x[0:3]) - theirs[0:3])),
            float(np.linalg.norm(np.array(x[3:6]) - theirs[3:6])),
            float(turn.magnitude()),
        )

    coarse, fine = error(0.01), error(0.005)
    assert fine[0] < 2e-4
    assert fine[1] < 2e-4
    assert fine[2] < 2e-6
    for a, b in zip(coarse, fine):
        assert 3.5 < a / b < 4.5


# ---------------------------------------------------------------- covariance


@pytest.mark.parametrize("seed", range(3))
def test_prediction_of_the_covariance_is_that_of_textbook_matrices(seed: int) -> None:
    """F = I + A dt written from the differential equations, and the exponential of A dt within
    second order."""
    params = InsParams()
    s, dt = some_state(seed), 0.005
    f = np.array(FORCE) - s.x[BA : BA + 3]
    w = np.array(RATE) - s.x[BG : BG + 3]
    R0 = np.array(s.R).reshape(3, 3)
    R = 0.5 * (R0 + R0 @ Turn.from_rotvec(w * dt).as_matrix())
    A_ = np.zeros((N, N))
    A_[P : P + 3, V : V + 3] = np.eye(3)
    A_[V : V + 3, A : A + 3] = -skew(R @ f)
    A_[V : V + 3, BA : BA + 3] = -R
    A_[A : A + 3, BG : BG + 3] = -R
    A_[C : C + 3, C : C + 3] = -np.eye(3) / params.gnss.coloured_time_s
    F = np.eye(N) + A_ * dt
    F[C : C + 3, C : C + 3] = np.eye(3) * math.exp(-dt / params.gnss.coloured_time_s)

    q = noise_rates(params, True, True) * dt
    q[C : C + 3] = np.array(s.colour_variance) * (
        1.0 - math.exp(-2.0 * dt / params.gnss.coloured_time_s)
    )
    predictor = Predictor(params, 0.5)
    ours = predictor.predict(s, InertialInputs(FORCE, RATE), dt)
    np.testing.assert_allclose(ours.P, F @ s.P @ F.T + np.diag(q), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(expm(A_ * dt), predictor.transition, atol=9.8 * dt * dt)


def test_predictions_and_fixes_are_filterpys() -> None:
    """A second of predictions with a fix every tenth of it, the other filter given our matrices and
    our linearisation points."""
    filterpy = pytest.importorskip("filterpy.kalman")
    params = InsParams()
    predictor, corrector = Predictor(params, 0.5), Corrector(5)
    s = some_state(3)
    kf = filterpy.KalmanFilter(dim_x=N, dim_z=2)
    kf.P, kf.H, kf.R = s.P.copy(), np.eye(N)[:2], np.diag((4e-4, 9e-4))
    for k in range(1, 201):
        s = predictor.predict(s, InertialInputs(FORCE, RATE), 0.005)
        kf.F, kf.Q = predictor.transition.copy(), np.diag(predictor.noise)
        kf.x = np.zeros((N, 1))
        kf.predict()
        if k % 20 == 0:
            before = np.array(s.x)
            corrector.pair(s, np.eye(N)[:2], 0.03, -0.02, (4e-4, 0.0, 9e-4), math.inf, 0, ((), ()))
            kf.update(np.array(((0.03,), (-0.02,))))
            moved = np.array(s.x) - before
            moved[A : A + 3] = kf.x[A : A + 3, 0]
            np.testing.assert_allclose(moved, kf.x[:, 0], rtol=1e-5, atol=1e-9)
    np.testing.assert_allclose(s.P, kf.P, rtol=1e-5, atol=1e-9)


def test_coloured_error_keeps_its_stationary_variance() -> None:
    params, predictor = InsParams(), Predictor(InsParams(), 0.5)
    s = InsState([0.0] * N, (1.0, 0.0, 0.0, 0.0), 1e-4 * np.eye(N))
    s.colour_variance = (0.25, 4.0, 1.0)
    s.P[C : C + 3, C : C + 3] = np.diag(s.colour_variance)
    for _ in range(500):
        s = predictor.predict(s, InertialInputs((0.0, 0.0, 9.8), (0.0, 0.0, 0.0)), 0.02)
    np.testing.assert_allclose(np.diag(s.P)[C : C + 3], s.colour_variance, rtol=1e-9)
    s.x[C : C + 3] = [1.0, 1.0, 1.0]
    for _ in range(500):
        s = predictor.predict(s, InertialInputs((0.0, 0.0, 9.8), (0.0, 0.0, 0.0)), 0.02)
    assert s.x[C] == pytest.approx(math.exp(-10.0 / params.gnss.coloured_time_s))


def textbook(x: Floats, P_: Floats, H: Floats, r: Floats, R: Floats) -> tuple[Floats, Floats]:
    """Sarkka 2013, Alg. 5.4, with the covariance in Joseph form."""
    S = H @ P_ @ H.T + R
    K = P_ @ H.T @ np.linalg.inv(S)
    M = np.eye(N) - K @ H
    return x + K @ r, M @ P_ @ M.T + K @ R @ K.T


@pytest.mark.parametrize("seed", range(4))
def test_pair_and_scalar_are_the_textbook_update(seed: int) -> None:
    rng = np.random.default_rng(seed)
    s = some_state(seed)
    H = rng.standard_normal((2, N))
    R = np.array(((0.04, 0.01), (0.01, 0.09)))
    r = np.array((0.05, -0.02))
    dx, P1 = textbook(np.zeros(N), s.P, H, r, R)
    ours = copy_of(s)
    nis, accepted = Corrector(5).pair(
        ours, H, 0.05, -0.02, (0.04, 0.01, 0.09), math.inf, 0, ((), ())
    )
    assert accepted
    assert nis == pytest.approx(float(r @ np.linalg.solve(H @ s.P @ H.T + R, r)))
    np.testing.assert_allclose(ours.P, P1, rtol=1e-6, atol=1e-10)
    keep = [k for k in range(N) if not A <= k < A + 3]
    np.testing.assert_allclose(np.array(ours.x)[keep], (np.array(s.x) + dx)[keep], atol=1e-12)
    turned = Turn.from_rotvec(dx[A : A + 3]).as_matrix() @ np.array(s.R).reshape(3, 3)
    np.testing.assert_allclose(np.array(ours.R).reshape(3, 3), turned, atol=1e-12)

    dx, P1 = textbook(np.zeros(N), s.P, H[:1], r[:1], R[:1, :1])
    ours = copy_of(s)
    Corrector(5).scalar(ours, H[0], 0.05, 0.04, math.inf, 0, ())
    np.testing.assert_allclose(ours.P, P1, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(np.array(ours.x)[keep], (np.array(s.x) + dx)[keep], atol=1e-12)


@pytest.mark.parametrize("coloured", [False, True])
def test_a_whole_fix_is_the_dense_update_of_all_six_values(coloured: bool) -> None:
    """Sequential pairs and scalars against one update with a 6 x 22 matrix, written from the
    geometry."""
    s = some_state(7)
    s.rate_radps = RATE
    s.P[A : A + 3] *= 0.05
    s.P[:, A : A + 3] *= 0.05
    imu, antenna = np.array((0.25, 0.05, 0.1)), np.array((0.1, -0.05, 0.4))
    sensors = Sensors(InsParams(imu_lever_arm_m=tuple(imu.tolist())), tuple(antenna.tolist()))
    arm = antenna - imu
    R = np.array(s.R).reshape(3, 3)
    Ra, Rv = R @ arm, R @ np.cross(RATE, arm)
    H = np.zeros((6, N))
    H[0:3, P : P + 3] = np.eye(3)
    H[0:3, A : A + 3] = -skew(Ra)
    H[3:6, V : V + 3] = np.eye(3)
    H[3:6, A : A + 3] = -skew(Rv)
    if coloured:
        H[0:3, C : C + 3] = np.eye(3)
    noise = np.diag((0.01, 0.02, 0.03, 0.004, 0.005, 0.006))
    noise[0, 1] = noise[1, 0] = 0.004
    noise[3, 4] = noise[4, 3] = -0.001
    expected = np.concatenate((np.array(s.x[0:3]) + Ra, np.array(s.x[3:6]) + Rv))
    if coloured:
        expected[0:3] += s.x[C : C + 3]
        s.colour = 0
    z = expected + np.array((0.02, -0.03, 0.04, 0.01, -0.02, 0.01))
    dx, P1 = textbook(np.zeros(N), s.P, H, z - expected, noise)
    # A slow error declared as tiny leaves the floor under the position's variance out of this.
    fix = Fix(
        z[0], z[1], z[2], (0.01, 0.004, 0.02), 0.03, 0 if coloured else -1, (1e-9,) * 3,
        (z[3], z[4], z[5]), (0.004, -0.001, 0.005), 0.006,
    )  # fmt: skip
    ours = copy_of(s)
    assert sensors.fix(ours, fix)
    # Each part is linearised anew after the one before: equal to second order in a turn of less
    # than a milliradian.
    np.testing.assert_allclose(np.array(ours.x)[:A], np.array(s.x)[:A] + dx[:A], atol=1e-5)
    np.testing.assert_allclose(np.array(ours.x)[BG:], np.array(s.x)[BG:] + dx[BG:], atol=1e-5)
    np.testing.assert_allclose(ours.P, P1, rtol=1e-3, atol=1e-6)
