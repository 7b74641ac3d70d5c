"""Benefit of the tyres in the prediction: a fast winding turn through a GNSS outage, with nothing
but the commands."""

import math

import numpy as np
from msgspec.structs import replace

from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.paths.datum import Datum

MS = 1_000_000
STIFFNESS, UNDERSTEER = 6.0, 0.15
"""Soft tyres on a loose surface: at 2.5 m/s the vehicle turns a sixth less than its wheels say."""
VEHICLE = make_vehicle(
    steering=make_steering(rate_radps=5.0, delay_s=0.0), drive=make_drive(delay_s=0.0)
)
DATUM = Datum(0.7517, -1.5605, 260.0)
SPEED_MPS = 2.5
OUTAGE_S = 6.0


def _outage_error(params: Ekf4Params) -> float:
    """Largest position error in the two seconds after the last fix. The truth is the textbook model
    in explicit steps of 1 ms."""
    rng = np.random.default_rng(3)
    ekf = Ekf4(params, VEHICLE, DATUM, (0.0, 0.0, 0.0))
    m, g, l, b = 6.0, STANDARD_GRAVITY_MPS2, 0.5, 0.25  # noqa: E741
    a, iz = l - b, 6.0 * b * (l - b)
    cf, cr = m * g * b / l / (1.0 / STIFFNESS + UNDERSTEER), m * g * a / l * STIFFNESS
    x = y = yaw = sideways = rate = 0.0
    throttle = VEHICLE.drive.steady_throttle(SPEED_MPS)
    covariance = (1e-4, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 1.0)
    worst = 0.0
    ekf.command(ActuatorCommand(0, 0, throttle, 0.0, 0.0, 0.0))
    for ms in range(8000):
        t_ns = ms * MS
        if ms % 100 == 0 and t_ns < OUTAGE_S * 1e9:
            speed = (SPEED_MPS * math.cos(yaw), SPEED_MPS * math.sin(yaw), 0.0)
            noise = 0.002 * rng.standard_normal(2)
            lat, lon, h = DATUM.to_geodetic(x + noise[0], y + noise[1], 0.0)
            ekf.observe(Heading(t_ns, t_ns, yaw + 0.002 * rng.standard_normal(), 0.005))
            kinds = FixType.FIX_3D, CarrierSolution.FIXED
            # The velocity starts the filter at speed; later ones would be those of the axle that
            # slips.
            ekf.observe(
                GnssFix(
                    t_ns,
                    t_ns,
                    lat,
                    lon,
                    h,
                    speed if ms == 0 else (math.nan,) * 3,
                    covariance,
                    covariance,
                    *kinds,
                )
            )
        if ms % 10 == 0:
            estimate = ekf.step(t_ns)
            if t_ns > OUTAGE_S * 1e9:
                worst = max(worst, math.hypot(estimate.x_m - x, estimate.y_m - y))
            wheel = 0.1 * math.sin(2.5e-3 * ms) + 0.15
            ekf.command(ActuatorCommand(t_ns, t_ns, throttle, 0.0, 0.0, wheel))
        front = -cf * ((sideways + a * rate) / SPEED_MPS - math.tan(wheel))
        rear = -cr * (sideways - b * rate) / SPEED_MPS
        lateral = sideways - b * rate
        x += 1e-3 * (SPEED_MPS * math.cos(yaw) - lateral * math.sin(yaw))
        y += 1e-3 * (SPEED_MPS * math.sin(yaw) + lateral * math.cos(yaw))
        yaw += 1e-3 * rate
        sideways = sideways + 1e-3 * ((front + rear) / m - SPEED_MPS * rate)
        rate = rate + 1e-3 * (a * front - b * rear) / iz
    assert estimate.status is EstimatorStatus.RUNNING
    return worst


def test_a_prediction_that_slips_bridges_an_outage_that_one_that_rolls_does_not() -> None:
    common = Ekf4Params(gate=False, heading_sigma_floor_rad=0.005)
    tyres = replace(
        common,
        model="dynamic",
        cornering_stiffness_per_rad=STIFFNESS,
        understeer_rad_per_g=UNDERSTEER,
    )
    slipping, rolling = _outage_error(tyres), _outage_error(common)
    assert slipping < 0.1
    assert rolling > 5.0 * slipping
