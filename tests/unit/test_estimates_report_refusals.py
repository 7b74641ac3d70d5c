"""Every estimator reports how many positions in a row its gate has refused: a rule of the failsafe
matrix counts on it."""

from math import pi
from typing import Any

import pytest

from vehicled.core.messages import (
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    StateEstimate,
)
from vehicled.paths.datum import Datum
from vehicled.profile import load_profile
from vehicled.profile.registry import resolve

MS = 1_000_000
DATUM = Datum(0.7517, -1.5605, 260.0)
COVARIANCE = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 4e-4)


def fix(t_ns: int, east_m: float, north_m: float = 0.0, north_mps: float = 0.0) -> GnssFix:
    latitude, longitude, height = DATUM.to_geodetic(east_m, north_m, 0.0)
    velocity = (0.0, north_mps, 0.0)
    return GnssFix(
        t_ns,
        t_ns,
        latitude,
        longitude,
        height,
        velocity,
        COVARIANCE,
        COVARIANCE,
        FixType.FIX_3D,
        CarrierSolution.FIXED,
    )


def run(estimator: Any, until_s: float, start_ns: int, east_m: float) -> list[StateEstimate]:
    """A vehicle that stands and looks north, with fixes at a place; the estimate after each of
    them."""
    after = []
    now_ns = start_ns
    while now_ns < start_ns + until_s * 1e9:
        now_ns += 5 * MS
        ripple = 1e-4 * (now_ns // MS % 7)
        estimator.observe(
            ImuSample(now_ns, now_ns, (ripple, 0.0, 9.80665), (0.0, ripple * 1e-2, 0.0))
        )
        if now_ns % (100 * MS) == 0:
            estimator.observe(Heading(now_ns, now_ns, pi / 2, 0.01, HeadingKind.MOVING_BASE))
            estimator.observe(fix(now_ns, east_m))
            after.append(estimator.step(now_ns))
        else:
            estimator.step(now_ns)
    return after


@pytest.mark.parametrize("name", ["ekf4", "planar", "ins"])
def test_refusals_in_a_row_are_reported_and_end(name: str) -> None:
    profile = load_profile("art", [f"estimator.name={name}"])
    estimator = resolve("estimator", name)(
        profile.estimator.selected, profile.vehicle, DATUM, (0.25, 0.0, 0.3)
    )
    good = run(estimator, 4.0, 0, 0.0)
    assert good[-1].status is EstimatorStatus.RUNNING
    assert good[-1].rejected_in_a_row == 0
    jumped = run(estimator, 0.5, 4 * 10**9, 20.0)
    assert [estimate.rejected_in_a_row for estimate in jumped] == [1, 2, 3, 4, 5]
    assert run(estimator, 0.3, 4_500 * MS, 0.0)[-1].rejected_in_a_row == 0


@pytest.mark.parametrize("name", ["ekf4", "planar"])
def test_a_position_that_went_astray_is_corrected_together_with_its_speed(name: str) -> None:
    """The drive was stronger than its model through an outage: only fixes can show it, and position
    and speed are both wrong."""
    profile = load_profile("opencav", [f"estimator.name={name}"])
    estimator = resolve("estimator", name)(
        profile.estimator.selected, profile.vehicle, DATUM, (1.2, 0.0, 1.5)
    )
    run(estimator, 4.0, 0, 0.0)
    estimate = None
    for k in range(1, 91):
        t_ns, t_s = 4 * 10**9 + 10 * MS * k, 0.01 * k
        estimator.observe(ImuSample(t_ns, t_ns, (0.0, 0.0, 9.80665), (0.0, 0.0, 0.0)))
        if k % 10 == 0:
            estimator.observe(Heading(t_ns, t_ns, pi / 2, 0.01, HeadingKind.MOVING_BASE))
            estimator.observe(fix(t_ns, 0.0, 20.0 + 9.0 * t_s, 9.0))
        estimate = estimator.step(t_ns)
    assert estimate is not None
    assert estimate.speed_mps == pytest.approx(9.0, abs=0.3)
    assert estimate.y_m == pytest.approx(20.0 + 9.0 * 0.9 - 1.2, abs=0.5)
    assert estimate.rejected_in_a_row == 0
