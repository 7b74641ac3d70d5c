"""The published filter by its equations: the Jacobian of its step, and the bounds of its speed."""

import numpy as np
import pytest

from vehicled.core.messages import Heading, HeadingKind
from vehicled.offline.replications.experiments.gps_noise import fix_at
from vehicled.offline.replications.published import ekf4, ekf4_paper
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile

P = ekf4.Ekf4PublishedParams(position_sigma_m=0.0, yaw_sigma_rad=0.0, speed_sigma_mps=0.0)


def _numerical(q: np.ndarray, steering: float) -> np.ndarray:
    def step(at: np.ndarray) -> np.ndarray:
        return ekf4_paper.predict(P, ekf4.PublishedFilterState(at, np.eye(4)), 0.6, steering).q

    h = 1e-6
    return np.column_stack(
        [(step(q + h * axis) - step(q - h * axis)) / (2.0 * h) for axis in np.eye(4)]
    )


@pytest.mark.parametrize("q", [(1.0, -2.0, 0.7, 0.5), (0.0, 0.0, -2.5, 0.2)])
def test_the_covariance_goes_with_the_jacobian_of_the_step(q: tuple[float, ...]) -> None:
    state = ekf4.PublishedFilterState(np.array(q), np.diag((0.4, 0.3, 0.2, 0.1)))
    J = _numerical(state.q, 0.3)
    np.testing.assert_allclose(
        ekf4_paper.predict(P, state, 0.6, 0.3).P, J @ state.P @ J.T, atol=1e-8
    )
    assert np.abs(ekf4.predict(P, state, 0.6, 0.3).P - J @ state.P @ J.T).max() > 0.1


def test_friction_does_not_drive_it_backward() -> None:
    state = ekf4.begin(0.0, 0.0, 0.0)
    assert ekf4_paper.predict(P, state, 0.0, 0.0).q[3] == 0.0
    assert ekf4.predict(P, state, 0.0, 0.0).q[3] < 0.0


def test_a_fix_is_fused_in_the_step_that_ends_with_it() -> None:
    vehicle = load_profile("art_published").vehicle
    estimator = ekf4_paper.Ekf4Paper(ekf4.Ekf4PublishedParams(), vehicle, LOT_17, (0.0, 0.0, 0.0))
    for t_ns in range(0, 210_000_000, 10_000_000):
        if t_ns % ekf4.STEP_NS == 0:
            estimator.observe(Heading(t_ns, t_ns, 0.0, 0.03, HeadingKind.MAGNETIC))
            estimator.observe(fix_at(t_ns, 1e-8 * t_ns, 0.0, 0.5))
        found = estimator.step(t_ns)
        assert found.newest_input_ns == t_ns // ekf4.STEP_NS * ekf4.STEP_NS
        assert found.x_m > 0.0 or t_ns < ekf4.STEP_NS
