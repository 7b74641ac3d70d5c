"""The published filter by its equations: the Jacobian of its step, and the bounds of its speed."""

import numpy as np
import pytest

from vehicled.lab.published import ekf4, ekf4_paper

P = ekf4.Ekf4PublishedParams(position_sigma_m=0.0, yaw_sigma_rad=0.0, speed_sigma_mps=0.0)


def _numerical(q: np.ndarray, steering: float) -> np.ndarray:
    def step(at: np.ndarray) -> np.ndarray:
        return ekf4_paper.predict(P, ekf4.PublishedFilterState(at, np.eye(4)), 0.6, steering).q

    h = 1e-6
    return np.column_stack([(step(q + h * axis) - step(q - h * axis)) / (2.0 * h) for axis in np.eye(4)])


@pytest.mark.parametrize("q", [(1.0, -2.0, 0.7, 0.5), (0.0, 0.0, -2.5, 0.2)])
def test_the_covariance_goes_with_the_jacobian_of_the_step(q: tuple[float, ...]) -> None:
    state = ekf4.PublishedFilterState(np.array(q), np.diag((0.4, 0.3, 0.2, 0.1)))
    J = _numerical(state.q, 0.3)
    np.testing.assert_allclose(ekf4_paper.predict(P, state, 0.6, 0.3).P, J @ state.P @ J.T, atol=1e-8)
    assert np.abs(ekf4.predict(P, state, 0.6, 0.3).P - J @ state.P @ J.T).max() > 0.1


def test_friction_does_not_drive_it_backward() -> None:
    state = ekf4.begin(0.0, 0.0, 0.0)
    assert ekf4_paper.predict(P, state, 0.0, 0.0).q[3] == 0.0
    assert ekf4.predict(P, state, 0.0, 0.0).q[3] < 0.0
