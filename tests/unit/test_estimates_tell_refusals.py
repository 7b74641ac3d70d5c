"""Every estimator tells how many positions in a row its gate has refused: a rule of the failsafe matrix counts on it."""

from math import pi
from typing import Any

import pytest

from vehicled.messages import CarrierSolution, EstimatorStatus, FixType, GnssFix, Heading, HeadingKind, ImuSample, StateEstimate
from vehicled.paths.datum import Datum
from vehicled.profile import load_profile
from vehicled.registry import resolve

MS = 1_000_000
DATUM = Datum(0.7517, -1.5605, 260.0)
COVARIANCE = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 4e-4)


def fix(t_ns: int, east_m: float) -> GnssFix:
    latitude, longitude, height = DATUM.to_geodetic(east_m, 0.0, 0.0)
    still = (0.0, 0.0, 0.0)
    return GnssFix(t_ns, t_ns, latitude, longitude, height, still, COVARIANCE, COVARIANCE, FixType.FIX_3D, CarrierSolution.FIXED)


def run(estimator: Any, until_s: float, start_ns: int, east_m: float) -> list[StateEstimate]:
    """A vehicle that stands and looks north, with fixes at a place; the estimate after each of them."""
    after = []
    now_ns = start_ns
    while now_ns < start_ns + until_s * 1e9:
        now_ns += 5 * MS
        ripple = 1e-4 * (now_ns // MS % 7)
        estimator.observe(ImuSample(now_ns, now_ns, (ripple, 0.0, 9.80665), (0.0, ripple * 1e-2, 0.0)))
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
    estimator = resolve("estimator", name)(profile.estimator.selected, profile.vehicle, DATUM, (0.25, 0.0, 0.3))
    good = run(estimator, 4.0, 0, 0.0)
    assert good[-1].status is EstimatorStatus.RUNNING
    assert good[-1].rejected_in_a_row == 0
    jumped = run(estimator, 0.5, 4 * 10**9, 20.0)
    assert [estimate.rejected_in_a_row for estimate in jumped] == [1, 2, 3, 4, 5]
    assert run(estimator, 0.3, 4_500 * MS, 0.0)[-1].rejected_in_a_row == 0
