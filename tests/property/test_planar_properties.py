"""The planar filter under everything that may come in: derivative right, covariance positive
definite, nothing raises."""

import math
from typing import Any

import hypothesis.strategies as st
import numpy as np
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
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.planar.estimator import Planar
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import SIZE, Inputs, PlanarState, V, predict
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(
    steering=make_steering(offset_rad=0.018), drive=make_drive(brake_deceleration_mps2=2.0)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
MEAN = np.array(
    [3.0, -2.0, 0.7, 1.3, 0.002, -0.1, 1.02, 2.1, 0.6, 0.33, 0.01, 0.5, -0.4, 0.02, -0.03]
)

anything = st.floats(allow_nan=True, allow_infinity=True)
sane = st.floats(-3.0, 3.0)
number = st.one_of(sane, sane, sane, anything)
covariances = st.one_of(
    st.just((NAN,) * 9), st.tuples(*[st.one_of(st.floats(1e-6, 10.0), anything)] * 9)
)
offsets_ns = st.integers(-1_500_000_000, 100_000_000)


def _fix(
    t_ns: int,
    east: float,
    north: float,
    velocity: tuple[float, ...],
    R: tuple[float, ...],
    carrier: CarrierSolution,
) -> GnssFix:
    if math.isfinite(east + north) and abs(east) < 1e5 and abs(north) < 1e5:
        latitude, longitude, height = DATUM.to_geodetic(east, north, 0.0)
    else:
        latitude, longitude, height = east, north, NAN
    return GnssFix(
        t_ns, t_ns, latitude, longitude, height, velocity, R, R, fix_type=FixType.FIX_3D,
        carrier=carrier
    )  # fmt: skip


@st.composite
def messages(draw: st.DrawFn, now_ns: int) -> Message:
    """One message of any kind, mostly sane, stamped about now or far from it."""
    t_ns = now_ns + draw(offsets_ns)
    kind = draw(st.integers(0, 6))
    if kind == 0:
        return _fix(
            t_ns,
            draw(number),
            draw(number),
            (draw(number), draw(number), NAN),
            draw(covariances),
            draw(st.sampled_from(CarrierSolution)),
        )
    if kind == 1:
        return Heading(t_ns, t_ns, draw(number), draw(number), draw(st.sampled_from(HeadingKind)))
    if kind == 2:
        return ImuSample(
            t_ns, t_ns, (NAN, NAN, NAN), (NAN, NAN, draw(number)), saturated=draw(st.booleans())
        )
    if kind == 3:
        return WheelSpeed(t_ns, t_ns, draw(number), draw(number))
    if kind == 4:
        return MotorStatus(t_ns, t_ns, motor_speed_radps=100.0 * draw(number))
    if kind == 5:
        return SteeringFeedback(t_ns, t_ns, draw(number), draw(number))
    return ActuatorCommand(t_ns, 0, draw(number), draw(number), draw(number), draw(number))


def _assert_sound(estimator: Planar, estimate: Any) -> None:
    if estimate.status is EstimatorStatus.UNINITIALISED:
        assert math.isnan(estimate.x_m)
        return
    values = (
        estimate.x_m,
        estimate.y_m,
        estimate.yaw_rad,
        estimate.speed_mps,
        estimate.yaw_rate_radps,
        *estimate.covariance,
    )
    assert all(math.isfinite(value) for value in values)
    state = estimator.state
    assert state is not None
    assert np.array_equal(state.P, state.P.T)
    scale = np.sqrt(state.P.diagonal())
    # Judged by correlations, because units and sizes of the states differ by orders of magnitude.
    assert np.linalg.eigvalsh(state.P / np.outer(scale, scale)).min() > -1e-9
    observed = np.array(estimate.covariance).reshape(4, 4)
    assert np.linalg.eigvalsh(observed).min() > 0.0


@given(st.data())
@examples(25)
def test_any_sequence_leaves_a_finite_state_with_a_positive_definite_covariance(
    data: st.DataObject,
) -> None:
    estimator = Planar(PlanarParams(), VEHICLE, DATUM, (0.2, 0.05, 0.3))
    now_ns = 10_000_000_000
    estimator.observe(Heading(now_ns, now_ns, 0.3, 0.02))
    estimator.observe(
        _fix(now_ns, 1.0, 2.0, (NAN,) * 3, (NAN,) * 9, data.draw(st.sampled_from(CarrierSolution)))
    )
    _assert_sound(estimator, estimator.step(now_ns))
    for _ in range(data.draw(st.integers(1, 12))):
        now_ns += data.draw(
            st.sampled_from(
                (-20_000_000, 0, 5_000_000, 5_000_000, 100_000_000, 900_000_000, 3_000_000_000)
            )
        )
        for message in data.draw(st.lists(messages(now_ns), max_size=5)):
            if isinstance(message, ActuatorCommand):
                estimator.command(message)
            else:
                estimator.observe(message)
                if data.draw(st.booleans()):
                    estimator.observe(message)
        _assert_sound(estimator, estimator.step(now_ns))


def _state(mean: np.ndarray[Any, Any], heading_kind: int) -> PlanarState:
    return PlanarState(
        x=mean, P=np.eye(SIZE) * 1e-12, steering=0.4, throttle=0.5, yaw_rate_radps=0.0, rest_s=0.0,
        error_sigma_m=1.5, carrier=0, heading_kind=heading_kind,
        counters=GateCounters(good_fixes=9),
    )  # fmt: skip


@given(
    throttle=st.floats(0.4, 1.0), brake=st.floats(0.0, 0.1), steering=st.floats(0.35, 0.45),
    dt_s=st.floats(0.001, 0.05), gyro=st.one_of(st.none(), st.floats(-1.0, 1.0)),
    speed=st.floats(0.5, 3.0), kind=st.sampled_from((-1, 0, 2)),
)  # fmt: skip
def test_the_covariance_follows_the_derivative_of_the_mean(
    throttle: float,
    brake: float,
    steering: float,
    dt_s: float,
    gyro: float | None,
    speed: float,
    kind: int,
) -> None:
    p = PlanarParams()
    mean = MEAN.copy()
    mean[V] = speed
    inputs = Inputs(True, throttle, brake, steering, gyro)
    noise = predict(p, VEHICLE, _state(mean, kind), inputs, dt_s).P
    # A unit of variance in one direction comes out as the outer product of that column of the
    # derivative, above the noise.
    for i in range(SIZE):
        h = 1e-5
        up, down = mean.copy(), mean.copy()
        up[i] += h
        down[i] -= h
        a, b = (predict(p, VEHICLE, _state(x, kind), inputs, dt_s).x for x in (up, down))
        column = (a - b) / (2.0 * h)
        P = np.eye(SIZE) * 1e-12
        P[i, i] += 1.0
        grown = predict(p, VEHICLE, _state(mean, kind)._replace(P=P), inputs, dt_s).P - noise
        # The midpoint rule is differentiated to first order in the step: yaw at half way is not.
        assert np.allclose(
            grown, np.outer(column, column), atol=4.0 * dt_s * dt_s * (1.0 + speed) ** 2 + 1e-5
        )


@given(st.lists(st.floats(-0.02, 0.02), min_size=20, max_size=40), st.integers(0, 2**31))
@examples(15)
def test_the_order_of_arrival_does_not_matter(noise: list[float], seed: int) -> None:
    """Fixes and headings of half a second, given in order, or all at its end in any order, lead to
    the same state."""
    t0_ns = 10_000_000_000
    stamps = [t0_ns + 20_000_000 * (k + 1) for k in range(20)]
    R = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, NAN)
    measured: list[Message] = [
        _fix(t, 0.01 * k + noise[k], 0.0, (NAN,) * 3, R, CarrierSolution.FIXED)
        for k, t in enumerate(stamps[::2])
    ]
    measured += [Heading(t, t, noise[k], 0.02) for k, t in enumerate(stamps[1::2])]
    outcome = []
    for late in (False, True):
        estimator = Planar(PlanarParams(), VEHICLE, DATUM, (0.0, 0.0, 0.0))
        estimator.observe(Heading(t0_ns, t0_ns, 0.0, 0.02))
        estimator.observe(_fix(t0_ns, 0.0, 0.0, (NAN,) * 3, R, CarrierSolution.FIXED))
        estimator.command(ActuatorCommand(t0_ns - 1_000_000_000, 0, 0.7, 0.0, 0.2, 0.0))
        estimator.step(t0_ns)
        for t in stamps:
            if not late:
                for message in measured:
                    if message.t_ns == t:  # type: ignore[attr-defined]
                        estimator.observe(message)
            elif t == stamps[-1]:
                for index in np.random.default_rng(seed).permutation(len(measured)):
                    estimator.observe(measured[index])
            estimator.step(t)
        assert estimator.state is not None
        outcome.append(estimator.state)
    assert np.array_equal(outcome[0].x, outcome[1].x)
    assert np.array_equal(outcome[0].P, outcome[1].P)
