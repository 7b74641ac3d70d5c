"""Poses on a map in the filters: they start them, weigh by what a scan shows, and come late."""

from math import inf, nan, pi

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.vehicles import VEHICLE
from vehicled.core.messages import EstimatorStatus, ImuSample, MapMatch, MapPose
from vehicled.estimation.ins.estimator import Ins
from vehicled.estimation.map_pose import covariance_of, is_usable, whitening
from vehicled.estimation.planar.estimator import Planar
from vehicled.paths.datum import Datum

SECOND, STEP_NS = 1_000_000_000, 10_000_000
SURE = (1e-4, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 1e-5)
CORRIDOR = (1e4, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 1e-5)
"""Covariance in a corridor along x: nothing is known along it."""


def pose(t_ns, x=1.0, y=2.0, yaw=0.3, covariance=SURE, outcome=MapMatch.MATCHED):
    return MapPose(t_ns, t_ns, x, y, yaw, covariance, 1.0, outcome)


def filter_of(kind):
    return kind(kind.Params(), VEHICLE, Datum(0.75, -1.5, 0.0), (0.0, 0.0, 0.0))


def run(filter_, poses, seconds=1.0):
    """Step at 100 Hz at rest; ``poses``: those that arrive at a step."""
    estimate = None
    for k in range(1, int(seconds * 100) + 1):
        now_ns = SECOND + k * STEP_NS
        filter_.observe(ImuSample(now_ns, now_ns, (0.0, 0.0, 9.80665), (0.0, 0.0, 0.0)))
        for each in poses.get(k, ()):
            filter_.observe(each)
        estimate = filter_.step(now_ns)
    return estimate


@pytest.mark.parametrize("kind", [Planar, Ins])
def test_a_filter_starts_from_a_pose_and_runs(kind):
    estimate = run(filter_of(kind), {k: [pose(SECOND + k * STEP_NS)] for k in range(10, 100, 3)})
    assert estimate.status is EstimatorStatus.RUNNING
    assert (estimate.x_m, estimate.y_m, estimate.yaw_rad) == pytest.approx(
        (1.0, 2.0, 0.3), abs=0.01
    )
    assert estimate.position_sigma_m < 0.02


@pytest.mark.parametrize("kind", [Planar, Ins])
def test_along_a_corridor_a_pose_moves_nothing_and_across_it_all(kind):
    # The vehicle stands across the corridor, so that it can have rolled to where the poses say.
    start = {k: [pose(SECOND + k * STEP_NS, yaw=pi / 2)] for k in range(10, 40, 3)}
    later = {
        k: [pose(SECOND + k * STEP_NS, 1.5, 2.02, pi / 2, CORRIDOR)] for k in range(41, 100, 3)
    }
    estimate = run(filter_of(kind), start | later)
    assert abs(estimate.x_m - 1.0) < 0.005
    assert abs(estimate.y_m - 2.02) < 0.01


@pytest.mark.parametrize("kind", [Planar, Ins])
def test_a_late_pose_counts_as_if_it_had_come_in_time(kind):
    times = range(10, 100, 5)
    prompt = run(
        filter_of(kind), {k: [pose(SECOND + k * STEP_NS, 1.0 + 0.0005 * k)] for k in times}
    )
    late = run(
        filter_of(kind),
        {k + 3: [pose(SECOND + k * STEP_NS, 1.0 + 0.0005 * k)] for k in times if k + 3 <= 100},
    )
    assert late.x_m == pytest.approx(prompt.x_m, abs=1e-3)


@pytest.mark.parametrize("kind", [Planar, Ins])
def test_poses_that_contradict_the_state_are_refused_and_then_followed(kind):
    poses = {k: [pose(SECOND + k * STEP_NS)] for k in range(10, 60, 3)} | {
        k: [pose(SECOND + k * STEP_NS, 4.0)] for k in range(61, 100)
    }
    estimate = run(filter_of(kind), poses, 0.63)
    assert abs(estimate.x_m - 1.0) < 0.05
    assert estimate.rejected_in_a_row > 0
    estimate = run(filter_of(kind), poses)
    assert estimate.x_m == pytest.approx(4.0, abs=0.3)


@pytest.mark.parametrize(
    "bad",
    [
        {"x": nan}, {"x": 1e9}, {"yaw": inf}, {"covariance": (nan,) * 9},
        {"covariance": (0.0,) * 9}, {"covariance": (-1.0, *SURE[1:])},
        {"outcome": MapMatch.UNFIT},
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", [Planar, Ins])
def test_what_is_no_pose_changes_nothing(kind, bad):
    assert not is_usable(pose(SECOND, **bad))
    estimate = run(
        filter_of(kind), {k: [pose(SECOND + k * STEP_NS, **bad)] for k in range(10, 100, 3)}
    )
    assert estimate.status is EstimatorStatus.UNINITIALISED


@given(st.lists(st.floats(-1e3, 1e3), min_size=9, max_size=9))
def test_any_covariance_is_whitened(values):
    R = np.array(values).reshape(3, 3)
    given_pose = pose(SECOND, covariance=tuple((R @ R.T + 1e-6 * np.eye(3)).ravel().tolist()))
    W = whitening(given_pose)
    assert np.isfinite(W).all()
    assert np.allclose(W @ covariance_of(given_pose) @ W.T, np.eye(3), atol=1e-3)
