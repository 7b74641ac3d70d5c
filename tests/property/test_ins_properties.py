"""The inertial filter under everything that may come in: derivatives right, covariance positive
definite, nothing raises."""

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given

from tests.examples import examples
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
from vehicled.estimation.ins.estimator import Ins
from vehicled.estimation.ins.measurements import Sensors
from vehicled.estimation.ins.mechanisation import InertialInputs, Predictor
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import (
    BG,
    HB,
    A,
    C,
    InsState,
    N,
    P,
    S,
    Triple,
    V,
    apply_inverse,
    from_angles,
    product,
    rotation,
    yaw_of,
)  # fmt: skip
from vehicled.estimation.ins.update import Corrector
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(
    steering=make_steering(offset_rad=0.018), drive=make_drive(brake_deceleration_mps2=2.0)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
Floats = npt.NDArray[np.float64]

small = st.floats(-0.3, 0.3)
states = st.builds(
    lambda tilt, yaw, v, seed: _state(tilt, yaw, v, seed),
    st.tuples(small, small),
    st.floats(-3.0, 3.0),
    st.tuples(st.floats(-5, 5), st.floats(-5, 5), st.floats(-1, 1)),
    st.integers(0, 10**6),
)
inputs = st.builds(
    InertialInputs,
    force_mps2=st.one_of(st.none(), st.tuples(small, small, st.floats(8, 11))),
    rate_radps=st.one_of(st.none(), st.tuples(small, small, st.floats(-1.5, 1.5))),
    wheel_rad=st.floats(-0.3, 0.3),
)


def _state(tilt: tuple[float, float], yaw: float, v: Triple, seed: int) -> InsState:
    rng = np.random.default_rng(seed)
    x = (0.05 * rng.standard_normal(N)).tolist()
    x[V : V + 3] = list(v)
    x[A : A + 3] = [0.0, 0.0, 0.0]
    root = 0.1 * rng.standard_normal((N, N))
    return InsState(x, from_angles(tilt[0], tilt[1], yaw), root @ root.T + 1e-4 * np.eye(N))


def _with_error(s: InsState, dx: Floats) -> InsState:
    """The true state that differs from ``s`` by an error state: what ``inject`` inverts."""
    t = s.copy()
    t.inject(dx)
    t.rate_radps = s.rate_radps
    return t


def _difference(a: InsState, b: InsState) -> Floats:
    """Error state that leads from b to a."""
    d: Floats = np.array(a.x, dtype=np.float64) - np.array(b.x, dtype=np.float64)
    w, x, y, z = product(a.q, (b.q[0], -b.q[1], -b.q[2], -b.q[3]))
    d[A : A + 3] = 2.0 * math.copysign(1.0, w) * np.array((x, y, z))
    return d


@examples(25)
@given(states, inputs, st.floats(1e-3, 0.02))
def test_transition_is_the_derivative_of_the_mechanisation(
    s: InsState, u: InertialInputs, dt_s: float
) -> None:
    """Jacobian of the state after the step by the state before, over all 22 directions."""
    predictor = Predictor(InsParams(), 0.5)
    predictor.predict(s, u, dt_s)
    F = predictor.transition.copy()
    numeric = np.zeros((N, N))
    for k in range(N):
        h = np.zeros(N)
        h[k] = 1e-4
        ends = [predictor.predict(_with_error(s, sign * h), u, dt_s) for sign in (1.0, -1.0)]
        numeric[:, k] = _difference(ends[0], ends[1]) / 2e-4
    if u.rate_radps is None or u.force_mps2 is None:
        # Replacements for lost sensors: that the velocity turns with the rate is left to the
        # process noise there.
        columns = [P, P + 1, P + 2, C, C + 1, C + 2, HB, HB + 1, HB + 2, S]
        np.testing.assert_allclose(F[P : P + 3, columns], numeric[P : P + 3, columns], atol=1e-6)
        return
    # The position takes half a step's acceleration, and small angles turn by rate dt: both are left
    # out, being of second order.
    np.testing.assert_allclose(F, numeric, atol=12.0 * dt_s * dt_s + 2.0 * dt_s * dt_s + 1e-6)


@examples(25)
@given(states, inputs, st.floats(1e-3, 0.02))
def test_the_covariance_follows_the_transition(s: InsState, u: InertialInputs, dt_s: float) -> None:
    """No entry of the transition is left out of the prediction, with and without accelerometer and
    gyro."""
    half = np.eye(N) + 0.3 * np.random.default_rng(1).normal(size=(N, N))
    s.P = half @ half.T
    predictor = Predictor(InsParams(), 0.5)
    after = predictor.predict(s, u, dt_s)
    F = predictor.transition
    np.testing.assert_allclose(
        after.P, F @ s.P @ F.T + np.diag(predictor.noise), rtol=1e-9, atol=1e-9
    )


@examples(25)
@given(states, inputs)
def test_measurement_derivatives_are_those_of_the_measured_values(
    s: InsState, u: InertialInputs
) -> None:
    """Heading, forward speed and the constraints, by central differences over the whole state."""
    rate = (0.1, -0.05, 0.6)
    sensors = Sensors(InsParams(imu_lever_arm_m=(0.25, 0.1, 0.2)), (0.1, 0.0, 0.4))
    seen: list[tuple[Floats, float]] = []

    class Spy(Corrector):
        def scalar(self, s: InsState, h: Floats, residual: float, *rest: Any) -> tuple[float, bool]:
            seen.append((h.copy(), residual))
            return 0.0, True

        def pair(
            self, s: InsState, H: Floats, r1: float, r2: float, *rest: Any
        ) -> tuple[float, bool]:
            seen.extend(((H[0].copy(), r1), (H[1].copy(), r2)))
            return 0.0, True

    sensors._corrector = Spy(5)

    def all_of(state: InsState) -> list[tuple[Floats, float]]:
        seen.clear()
        biased = state.x
        state.rate_radps = tuple(r - b for r, b in zip(rate, biased[BG : BG + 3]))  # type: ignore[assignment]
        sensors.heading(state, 1, 0.3, 0.1)
        sensors.speed(state, False, 1.0, 0.1)
        sensors.constrain(state)
        return list(seen)

    here = [h for h, _ in all_of(s.copy())]
    numeric = np.zeros((4, N))
    for k in range(N):
        d = np.zeros(N)
        d[k] = 1e-5
        plus, minus = all_of(_with_error(s, d)), all_of(_with_error(s, -d))
        numeric[:, k] = [-math.remainder(a[1] - b[1], math.tau) / 2e-5 for a, b in zip(plus, minus)]
    np.testing.assert_allclose(np.array(here), numeric, atol=1e-4)


@given(
    states,
    st.floats(-50, 50),
    st.floats(-50, 50),
    st.floats(1e-6, 1e4),
    st.floats(-0.9, 0.9),
    st.booleans(),
)
def test_updates_keep_the_covariance_positive_definite(
    s: InsState, r1: float, r2: float, variance: float, correlation: float, forced: bool
) -> None:
    corrector = Corrector(0 if forced else 10)
    before = s.copy()
    H = np.eye(N)[[P, V]]
    H[0, A] = 0.3
    R = (variance, correlation * variance, variance)
    nis, accepted = corrector.pair(s, H, r1, r2, R, 13.8, 0, ((0,), (3,)))
    _, also = corrector.scalar(s, np.eye(N)[HB], r1, variance, 10.8, 1, (HB,))
    np.testing.assert_array_equal(s.P, s.P.T)
    assert _least(s.P) > 0.0
    assert math.isfinite(nis)
    if not accepted and not also:
        assert s.x == before.x
        np.testing.assert_array_equal(s.P, before.P)
        assert s.counters.rejected == 2
    elif not forced:
        assert np.trace(s.P) <= np.trace(before.P) * (1 + 1e-9), (
            "a measurement never adds uncertainty"
        )


def _least(P: Floats) -> float:
    """Least eigenvalue of the correlation matrix, which is what is left of positive definiteness
    whatever the units."""
    scale = np.sqrt(np.diag(P))
    return float(np.linalg.eigvalsh(P / np.outer(scale, scale)).min())


def test_a_million_to_one_between_prior_and_measurement_is_borne() -> None:
    """Exact measurements of the same thing, again and again: the plain downdate would lose its
    definiteness."""
    s = InsState([0.0] * N, (1.0, 0.0, 0.0, 0.0), np.eye(N) * 1e6)
    corrector = Corrector(5)
    for _ in range(200):
        corrector.pair(
            s,
            np.eye(N)[[0, 1]] + np.eye(N)[[3, 4]],
            0.0,
            0.0,
            (1e-6, 0.0, 1e-6),
            math.inf,
            0,
            ((), ()),
        )
        corrector.scalar(s, np.eye(N)[2] + np.eye(N)[15], 0.0, 1e-6, math.inf, 1, ())
    assert _least(s.P) > 0.0


# -------------------------------------------------------------------- any input

wild = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True),
    st.sampled_from([0.0, NAN, math.inf, -math.inf, 1e300, -1e300]),
)
near = st.one_of(st.floats(-2, 2), wild)
stamps = st.one_of(
    st.integers(-50, 80).map(lambda ms: ms * 1_000_000),
    st.sampled_from([-(2**62), 2**62, -(10**9), 10**9]),
)
nines = st.tuples(*[st.one_of(st.floats(0, 1), wild)] * 9)
threes = st.tuples(near, near, near)
forces = st.one_of(st.tuples(small, small, st.floats(9, 10.5)), threes)
kinds = st.sampled_from(HeadingKind)


def _fix(
    age: int,
    east: float,
    north: float,
    height: float,
    moved: Any,
    spread: Any,
    spread_v: Any,
    kind: FixType,
    carrier: CarrierSolution,
) -> tuple[int, Any]:
    lat, lon, _ = (
        DATUM.to_geodetic(east, north, 0.0)
        if abs(east) < 1e6 and abs(north) < 1e6
        else (east, north, 0.0)
    )
    return age, lambda t: GnssFix(t, t, lat, lon, height, moved, spread, spread_v, kind, carrier)


messages = st.one_of(
    st.builds(
        _fix,
        stamps,
        near,
        near,
        near,
        threes,
        nines,
        nines,
        st.sampled_from(FixType),
        st.sampled_from(CarrierSolution),
    ),
    st.tuples(stamps, st.tuples(near, near, kinds).map(lambda v: lambda t: Heading(t, t, *v))),
    st.tuples(
        stamps,
        st.tuples(forces, threes, st.booleans()).map(
            lambda v: lambda t: ImuSample(t, t, v[0], v[1], NAN, v[2])
        ),
    ),
    st.tuples(stamps, st.tuples(near, near).map(lambda v: lambda t: WheelSpeed(t, t, v[0], v[1]))),
    st.tuples(stamps, near.map(lambda v: lambda t: MotorStatus(t, t, v))),
    st.tuples(
        stamps, st.tuples(near, near).map(lambda v: lambda t: SteeringFeedback(t, t, v[0], v[1]))
    ),
    st.tuples(
        stamps,
        st.tuples(near, near, near).map(
            lambda v: lambda t: ActuatorCommand(t, t, v[0], v[1], 0.0, v[2])
        ),
    ),
)
pauses = st.one_of(
    st.just(5_000_000), st.integers(-(10**7), 10**8), st.sampled_from([0, 2 * 10**9, 10**13])
)
episodes = st.lists(st.tuples(pauses, st.lists(messages, max_size=5)), min_size=1, max_size=25)


def _good_start(ins: Ins, now_ns: int) -> None:
    lat, lon, height = DATUM.to_geodetic(0.0, 0.0, 0.0)
    for k in range(10):
        ins.observe(
            ImuSample(now_ns - (10 - k) * 2_000_000, now_ns, (0.1, 0.0, 9.8), (0.0, 0.0, 0.001))
        )
    ins.observe(Heading(now_ns - 10**7, now_ns, 0.3, 0.02, HeadingKind.MOVING_BASE))
    ins.observe(
        GnssFix(
            now_ns - 10**7,
            now_ns,
            lat,
            lon,
            height,
            fix_type=FixType.FIX_3D,
            carrier=CarrierSolution.FIXED,
        )
    )


@examples(60)
@given(
    episodes,
    st.sampled_from(
        [
            InsParams(),
            InsParams(gate=False, imu_lever_arm_m=(0.3, 0.1, 0.2)),
            InsParams(max_rejections=1),
        ]
    ),
)
def test_any_sequence_of_messages_leaves_a_sound_state(
    episode: list[tuple[int, list[tuple[int, Any]]]], params: InsParams
) -> None:
    ins = Ins(params, VEHICLE, DATUM, (0.1, 0.0, 0.2))
    now_ns = 10**12
    _good_start(ins, now_ns)
    for pause_ns, arrivals in episode:
        now_ns += pause_ns
        for age_ns, make in arrivals:
            message: Message = make(now_ns - age_ns)
            if isinstance(message, ActuatorCommand):
                ins.command(message)
            else:
                ins.observe(message)
                ins.observe(message)  # duplicates are part of life
        estimate = ins.step(now_ns)
        values = (
            estimate.x_m,
            estimate.y_m,
            estimate.yaw_rad,
            estimate.speed_mps,
            estimate.yaw_rate_radps,
            *estimate.covariance,
        )
        state = ins.state
        if state is not None:
            assert all(map(math.isfinite, (*state.x, *state.q)))
            assert np.isfinite(state.P).all()
            assert np.abs(state.P - state.P.T).max() <= 1e-9 * np.abs(state.P).max()
            assert _least(0.5 * (state.P + state.P.T)) > -1e-12
        if estimate.status is EstimatorStatus.UNINITIALISED:
            assert all(map(math.isnan, values))
            continue
        assert all(map(math.isfinite, values))
        assert -math.pi <= estimate.yaw_rad <= math.pi
        assert estimate.newest_input_ns <= max(now_ns, 10**12) + 10**8
        covariance = np.array(estimate.covariance).reshape(4, 4)
        np.testing.assert_array_equal(covariance, covariance.T)
        assert _least(covariance) > 0.0


@pytest.mark.parametrize("bad", [NAN, math.inf, -math.inf])
def test_values_that_are_not_finite_change_nothing_but_the_count(bad: float) -> None:
    now_ns = 10**12
    clean, soiled = (Ins(InsParams(), VEHICLE, DATUM, (0.0, 0.0, 0.0)) for _ in range(2))
    for ins in (clean, soiled):
        _good_start(ins, now_ns)
        ins.step(now_ns)
    assert clean.state is not None
    later = now_ns + 5_000_000
    soiled.observe(GnssFix(later, later, bad, 0.0, 0.0, fix_type=FixType.FIX_3D))
    soiled.observe(Heading(later, later, bad, 0.1))
    soiled.observe(WheelSpeed(later, later, bad, 0.1))
    soiled.observe(MotorStatus(later, later, bad))
    soiled.observe(ImuSample(later, later, (0.0, 0.0, 9.8), (0.0, 0.0, bad)))
    soiled.command(ActuatorCommand(later, later, bad, 0.0, 0.0, 0.0))
    assert soiled.step(later) == clean.step(later)
    assert soiled.ignored == 6


@given(states)
def test_attitude_stays_a_rotation(s: InsState) -> None:
    R = np.array(rotation(s.q)).reshape(3, 3)
    np.testing.assert_allclose(R @ R.T, np.eye(3), atol=1e-12)
    assert np.linalg.det(R) == pytest.approx(1.0)
    v = (0.3, -1.0, 2.0)
    np.testing.assert_allclose(apply_inverse(s.R, *(R @ v).tolist()), v, atol=1e-12)
    assert yaw_of(s.R) == pytest.approx(math.atan2(R[1, 0], R[0, 0]))
