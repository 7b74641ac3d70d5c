"""Gates and time windows of the filters: at each limit, an ulp or a nanosecond to either side, and
with numbers that are none."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.strategies import near, near_count
from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    NAN,
    CarrierSolution,
    EstimatorStatus,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    WheelSpeed,
)
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.ekf4.estimator import Ekf4
from vehicled.estimation.ekf4.params import Ekf4Params
from vehicled.estimation.filter_status import status_of
from vehicled.estimation.ins.estimator import Ins
from vehicled.estimation.ins.params import InsParams
from vehicled.estimation.ins.state import InsState, N
from vehicled.estimation.ins.update import Corrector
from vehicled.estimation.planar.estimator import Planar
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import SIZE, PlanarState, X
from vehicled.estimation.planar.update import Context, fuse
from vehicled.paths.datum import Datum

VEHICLE = make_vehicle(steering=make_steering(), drive=make_drive())
DATUM = Datum(0.7517, -1.5605, 260.0)
MS, S = 1_000_000, 1_000_000_000
START_NS = 10**12
FILTERS: dict[str, Any] = {
    "ekf4": lambda: Ekf4(Ekf4Params(), VEHICLE, DATUM, (0.0, 0.0, 0.0)),
    "planar": lambda: Planar(PlanarParams(), VEHICLE, DATUM, (0.0, 0.0, 0.0)),
    "ins": lambda: Ins(InsParams(), VEHICLE, DATUM, (0.0, 0.0, 0.0)),
}
each = pytest.mark.parametrize("name", FILTERS)


def started(name: str) -> tuple[Any, int]:
    """A filter that has run for 0.6 s, and when."""
    estimator, now_ns = FILTERS[name](), START_NS
    covariance = (4e-4, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 1e-3)
    latitude_rad, longitude_rad, height_m = DATUM.to_geodetic(0.0, 0.0, 0.0)
    for k in range(31):
        now_ns = START_NS + 20 * k * MS
        if k % 5 == 0:
            estimator.observe(Heading(now_ns, now_ns, 0.3, 0.02, HeadingKind.MOVING_BASE))
            estimator.observe(
                GnssFix(
                    now_ns, now_ns, latitude_rad, longitude_rad, height_m, (NAN,) * 3, covariance,
                    fix_type=FixType.FIX_3D, carrier=CarrierSolution.FIXED,
                )
            )  # fmt: skip
        estimate = estimator.step(now_ns)
    assert estimate.status is EstimatorStatus.RUNNING
    assert estimator.late == estimator.ignored == 0
    return estimator, now_ns


@each
@given(gap_ns=near_count(S, low=0))
def test_a_filter_begins_anew_exactly_after_more_than_a_second_without_a_step(
    name: str, gap_ns: int
) -> None:
    estimator, now_ns = started(name)
    estimate = estimator.step(now_ns + gap_ns)
    assert (estimate.status is EstimatorStatus.UNINITIALISED) is (gap_ns > S)
    assert estimator.restarts == int(gap_ns > S)


@each
@given(age_ns=near_count(500 * MS, 0, -10 * MS, low=-S, high=2 * S))
def test_a_measurement_is_fused_exactly_within_the_history_and_ten_milliseconds_ahead(
    name: str, age_ns: int
) -> None:
    estimator, now_ns = started(name)
    t_ns = now_ns + 5 * MS - age_ns
    estimator.observe(Heading(t_ns, t_ns, 0.3, 0.02, HeadingKind.MOVING_BASE))
    estimator.step(now_ns + 5 * MS)
    # What waited for its time has been fused by then.
    for k in range(2, 4):
        estimator.step(now_ns + 10 * k * MS)
    duplicate = (t_ns - START_NS) % (100 * MS) == 0 and START_NS <= t_ns <= now_ns
    assert estimator.late == int(not -10 * MS <= age_ns <= 500 * MS or duplicate)


@each
@given(
    speed_mps=near(LIMIT_MPS := 100.0, signed=True, garbage=True),
    yaw_rad=near(1e3, signed=True, garbage=True),
)
def test_values_that_are_not_possible_are_counted_and_change_nothing(
    name: str, speed_mps: float, yaw_rad: float
) -> None:
    (estimator, now_ns), (other, _) = started(name), started(name)
    later_ns = now_ns + 5 * MS
    estimator.observe(WheelSpeed(later_ns, later_ns, speed_mps, 0.1))
    possible = abs(speed_mps) <= LIMIT_MPS
    assert estimator.ignored == int(not possible)
    estimator.observe(Heading(later_ns, later_ns, yaw_rad, 0.1, HeadingKind.MOVING_BASE))
    assert estimator.ignored == int(not possible) + int(not abs(yaw_rad) <= 1e3)
    if estimator.ignored == 2:
        assert estimator.step(later_ns) == other.step(later_ns)


def planar_state() -> PlanarState:
    P = np.eye(SIZE) * 0.75
    return PlanarState(
        x=np.ones(SIZE), P=P, steering=0.0, throttle=0.0, yaw_rate_radps=0.0, rest_s=0.0,
        error_sigma_m=0.0, carrier=-1, heading_kind=-1, counters=GateCounters(good_fixes=9),
    )  # fmt: skip


gates = near(0.5, 2.0, 3.0, low=0.01, high=50.0)


@given(root=gates, data=st.data())
def test_the_planar_gate_lets_pass_exactly_up_to_its_limit(
    root: float, data: st.DataObject
) -> None:
    """Innovation variance 1, so the NIS is the residual squared, to the bit."""
    residual = data.draw(near(root, signed=True, garbage=True))
    H = np.zeros((1, SIZE))
    H[0, X] = 1.0
    state = planar_state()
    context = Context(PlanarParams(), (0.0, 0.0, 0.0), (root * root, 1.0), 1.0, True)
    with np.errstate(all="ignore"):
        after, nis, accepted = fuse(
            context, state, np.array((residual,)), H, np.array(((0.25,),)), None
        )
    assert accepted is (residual * residual <= root * root)
    assert nis == residual * residual or math.isnan(nis)
    if accepted:
        assert after.x[X] == pytest.approx(1.0 + 0.75 * residual)
        assert after.P[X, X] == pytest.approx(0.1875)
    else:
        assert after.x is state.x
        assert after.P is state.P


@given(root=gates, patience=st.integers(0, 3), data=st.data())
def test_the_gate_of_the_inertial_filter_accepts_up_to_its_limit_and_is_doubted_after_its_timeout(
    root: float, patience: int, data: st.DataObject
) -> None:
    residual = data.draw(near(root, signed=True, garbage=True))
    s = InsState([0.0] * N, (1.0, 0.0, 0.0, 0.0), np.eye(N) * 0.75)
    corrector, h = Corrector(patience), np.eye(N)[0]
    good = residual * residual <= root * root
    for tried in range(patience + 1):
        before = s.copy()
        nis, accepted = corrector.scalar(s, h, residual, 0.25, root * root, 0, (0,))
        if good:
            assert accepted
            assert s.counters.strikes[0] == s.counters.rejected == 0
            assert s.x[0] == pytest.approx(0.75 * residual)
            return
        if accepted:
            break
        assert s.x == before.x
        np.testing.assert_array_equal(s.P, before.P)
        assert s.counters.strikes[0] == s.counters.rejected == tried + 1
    doubted = math.isfinite(nis)
    assert accepted is doubted
    if doubted:
        assert s.counters.rejected == patience
        assert s.counters.strikes[0] == 0


@given(root=gates, data=st.data())
def test_a_pair_passes_the_gate_by_the_sum_of_both(root: float, data: st.DataObject) -> None:
    first = data.draw(near(root, signed=True))
    second = data.draw(st.sampled_from((0.0, 0.0, 0.5, 1.0)))
    s = InsState([0.0] * N, (1.0, 0.0, 0.0, 0.0), np.eye(N) * 0.75)
    nis, accepted = Corrector(9).pair(
        s, np.eye(N)[[0, 1]], first, second, (0.25, 0.0, 0.25), root * root, 0, ((0,), (1,))
    )
    assert nis == first * first + second * second
    assert accepted is (first * first + second * second <= root * root)


@given(near(1.0, low=0.0, garbage=True), near_count(5, low=0))
def test_a_filter_says_diverged_exactly_beyond_its_limit(spread: float, good_fixes: int) -> None:
    status = status_of(spread, good_fixes, 5)
    assert (status is EstimatorStatus.DIVERGED) is (spread > 1.0)
    if not spread > 1.0:
        assert (status is EstimatorStatus.RUNNING) is (good_fixes >= 5)
