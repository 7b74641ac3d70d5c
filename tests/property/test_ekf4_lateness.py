"""A measurement that comes late changes the estimate as if it had come in time."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    StateEstimate,
    SteeringFeedback,
    WheelSpeed,
)
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.paths.datum import Datum

MS = 1_000_000
VEHICLE = make_vehicle(
    steering=make_steering(offset_rad=0.018, delay_s=0.1), drive=make_drive(reverse_share=0.5)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
COVARIANCE = (0.01, 0.0, 0.0, 0.0, 0.01, 0.0, 0.0, 0.0, 1.0)
STEP_MS = 5
HISTORY_MS = 300


def _fix(t_ns: int, east: float, north: float, speed: float) -> GnssFix:
    lat, lon, h = DATUM.to_geodetic(east, north, 0.0)
    kinds = FixType.FIX_3D, CarrierSolution.FIXED
    return GnssFix(
        t_ns, t_ns, lat, lon, h, (speed, 0.1 * speed, 0.0), COVARIANCE, COVARIANCE, *kinds
    )


def _messages(seed: int, seconds: float) -> list[Message]:
    """Fixes, headings, wheel speeds and wheel angles at their own odd times; one fix in eight is an
    outlier."""
    rng = np.random.default_rng(seed)
    found: list[Message] = []
    for t in np.sort(rng.integers(20 * MS, int(seconds * 1000) * MS, 80)).tolist():
        s = 0.8e-9 * t
        noise = 0.1 * rng.standard_normal(3)
        kind = rng.integers(4)
        if kind == 0:
            found.append(
                _fix(t, s + noise[0] + 3.0 * (rng.random() < 0.125), noise[1], 0.8 + 0.3 * noise[2])
            )
        elif kind == 1:
            found.append(Heading(t, t, 0.3 * noise[0], 0.05))
        elif kind == 2:
            found.append(WheelSpeed(t, t, 0.8 + noise[0], 0.1))
        else:
            found.append(SteeringFeedback(t, t, 0.5 * noise[0], 0.01))
    return found


def _run(
    params: Ekf4Params, messages: list[Message], delays_ms: list[int], seconds: float, gyro: bool
) -> tuple[Ekf4, StateEstimate]:
    ekf = Ekf4(params, VEHICLE, DATUM, (0.2, 0.05, 0.3))
    ekf.observe(Heading(0, 0, 0.0, 0.05))
    ekf.observe(_fix(0, 0.0, 0.0, 0.8))
    waiting = sorted(
        zip(messages, delays_ms, strict=True),
        key=lambda pair: pair[0].t_ns + pair[1] * MS,  # type: ignore[attr-defined]
    )
    estimate = ekf.step(0)
    for now_ms in range(STEP_MS, int(seconds * 1000) + HISTORY_MS, STEP_MS):
        now_ns = now_ms * MS
        if gyro and now_ms < 1000:
            ekf.observe(
                ImuSample(now_ns, now_ns, (0.0, 0.0, 9.81), (0.0, 0.0, 0.2 * math.sin(now_ms)))
            )
        while waiting and waiting[0][0].t_ns + waiting[0][1] * MS <= now_ns:  # type: ignore[attr-defined]
            ekf.observe(waiting.pop(0)[0])
        estimate = ekf.step(now_ns)
        if now_ms % 20 == 0:
            throttle = 0.5 + 0.3 * math.sin(0.01 * now_ms)
            ekf.command(
                ActuatorCommand(now_ns, now_ns, throttle, 0.0, 0.0, 0.3 * math.sin(0.005 * now_ms))
            )
    return ekf, estimate


@examples(12)
@given(
    st.integers(0, 10**6),
    st.lists(st.integers(0, HISTORY_MS - STEP_MS), min_size=80, max_size=80),
    st.sampled_from(["kinematic", "dynamic"]),
    st.booleans(),
)
def test_late_measurements_end_as_timely_ones_do(
    seed: int, delays_ms: list[int], model: str, gyro: bool
) -> None:
    params = Ekf4Params(model=model, history_s=HISTORY_MS * 1e-3, max_rejections=2)  # type: ignore[arg-type]
    messages = _messages(seed, 1.5)
    ekf, late = _run(params, messages, delays_ms, 1.5, gyro)
    reference, timely = _run(params, messages, [0] * len(messages), 1.5, gyro)
    np.testing.assert_allclose(
        (late.x_m, late.y_m, late.yaw_rad, late.speed_mps, late.yaw_rate_radps, *late.covariance),
        (
            timely.x_m,
            timely.y_m,
            timely.yaw_rad,
            timely.speed_mps,
            timely.yaw_rate_radps,
            *timely.covariance,
        ),
        atol=1e-9,
    )
    assert late.normalised_innovation_squared == pytest.approx(
        timely.normalised_innovation_squared, abs=1e-6, nan_ok=True
    )
    assert (late.rejected, late.newest_input_ns, late.status) == (
        timely.rejected,
        timely.newest_input_ns,
        timely.status,
    )
    assert ekf.late == reference.late == 0


def test_a_command_that_arrives_late_acts_when_it_was_given() -> None:
    timely, late = (Ekf4(Ekf4Params(), VEHICLE, DATUM, (0.0, 0.0, 0.0)) for _ in range(2))
    command = ActuatorCommand(50 * MS, 50 * MS, 1.0, 0.0, 0.0, 0.3)
    for now_ms in range(0, 400, STEP_MS):
        for ekf in (timely, late):
            if now_ms == 0:
                ekf.observe(Heading(0, 0, 0.0, 0.05))
                ekf.observe(_fix(0, 0.0, 0.0, 0.8))
            ekf.step(now_ms * MS)
        if now_ms == 50:
            timely.command(command)
        if now_ms == 350:
            late.command(command)
    assert late.step(400 * MS) == timely.step(400 * MS)
