"""The published predictive program, solved by another method."""

import daqp
import numpy as np

from vehicled.control.error_state import ErrorState
from vehicled.offline.replications.published.mpc import dynamics


def uncondensed(errors: ErrorState, previous_rad: float) -> tuple[float, float]:
    """The same program with the errors of all stages as unknowns beside the inputs."""
    a, b = dynamics(errors, previous_rad, 1.0)
    n = 10
    size = 6 * n
    hessian = np.diag(
        np.concatenate([np.tile([10.0, 1000.0], n), np.tile([1e-6, 5500.0, 3500.0, 300.0], n)])
    )
    equal, right = np.zeros((4 * n, size)), np.zeros(4 * n)
    for k in range(n):
        rows = slice(4 * k, 4 * k + 4)
        equal[rows, 2 * n + 4 * k : 2 * n + 4 * k + 4] = -np.eye(4)
        equal[rows, 2 * k : 2 * k + 2] = b
        if k:
            equal[rows, 2 * n + 4 * k - 4 : 2 * n + 4 * k] = a
        else:
            right[rows] = -a @ np.array(errors)
    low = np.concatenate([np.tile([0.0, -0.6], n), np.full(4 * n, -1e30), right])
    high = np.concatenate([np.tile([1.0, 0.6], n), np.full(4 * n, 1e30), right])
    sense = np.concatenate([np.zeros(size), np.full(4 * n, 5)]).astype(np.int32)
    x, _, flag, _ = daqp.solve(hessian, np.zeros(size), equal, high, low, sense)
    assert flag >= 1
    return float(x[0]), float(x[1])
