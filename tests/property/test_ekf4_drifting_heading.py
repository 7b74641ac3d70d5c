"""A heading that a gyro integrates is wrong by an angle that it does not state; the 4-DOF filter
must not become sure by it."""

from math import cos, sin, sqrt

import hypothesis.strategies as st
import pytest
from hypothesis import given, settings

from tests.property.test_ekf4_properties import DATUM, VEHICLE
from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    StateEstimate,
)
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params

STEP_NS = 20_000_000


def drive(seconds: float, speed_mps: float, offset_rad: float, kind: HeadingKind) -> StateEstimate:
    """The estimate after a straight drive to the north-east, with fixed RTK at 10 Hz and headings
    wrong by ``offset_rad``."""
    filter_ = Ekf4(Ekf4Params(), VEHICLE, DATUM, (0.0, 0.0, 0.0))
    yaw = 0.5
    for k in range(round(seconds * 1e9 / STEP_NS)):
        t_ns, along_m = k * STEP_NS, speed_mps * k * STEP_NS * 1e-9
        filter_.observe(ImuSample(t_ns, t_ns, (0.0, 0.0, 9.8), (0.0, 0.0, 0.0)))
        filter_.observe(Heading(t_ns, t_ns, yaw + offset_rad, 0.01, kind))
        if k % 5 == 0:
            latitude, longitude, height = DATUM.to_geodetic(
                along_m * cos(yaw), along_m * sin(yaw), 0.0
            )
            position = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 1e-3)
            filter_.observe(
                GnssFix(
                    t_ns, t_ns, latitude, longitude, height, position_covariance_m2=position,
                    fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED,
                )
            )  # fmt: skip
        estimate = filter_.step(t_ns)
    return estimate


@settings(max_examples=8)
@given(st.floats(-0.25, 0.25))
def test_positions_of_a_moving_vehicle_outweigh_a_drifting_heading(offset_rad: float) -> None:
    estimate = drive(12.0, 1.0, offset_rad, HeadingKind.INERTIAL)
    error, sigma = abs(estimate.yaw_rad - 0.5), sqrt(estimate.covariance[10])
    assert error < 3.0 * sigma
    assert error < 0.05


def test_a_vehicle_that_stands_long_stays_as_sure_as_the_heading_allows() -> None:
    estimate = drive(400.0, 0.0, 0.0, HeadingKind.INERTIAL)
    assert 0.14 < sqrt(estimate.covariance[10]) < 0.16


@pytest.mark.parametrize("kind", [HeadingKind.MOVING_BASE, HeadingKind.MAGNETIC])
def test_other_headings_count_by_their_own_sigma(kind: HeadingKind) -> None:
    assert sqrt(drive(2.0, 0.0, 0.0, kind).covariance[10]) < 0.02
