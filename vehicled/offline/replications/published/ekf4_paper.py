"""The 4-DOF filter by the equations of Unjhawala et al. 2023, where
:mod:`~vehicled.offline.replications.published.ekf4` is the code that ran.

State (x, y, theta, v), measurement (x, y, theta), one explicit Euler step of 0.1 s. What differs
from the code: the Jacobian is I + dt df/dq at the state before the step, the speed stays at 0 or
above, the pose at the start, which is given, is certain, and a fix is fused in the step that ends
with it, where the code steps half a period earlier when it is called faster than at 10 Hz. What is
kept: white noise, no gate, no delay of the actuators, no lever arm, and constants that contradict
the vehicle (0.78 m/s at full throttle). Errors of a receiver are not white:
``measured_position_sigma_m`` has to be larger than they are, see
:data:`vehicled.offline.replications.experiments.ekf_circle.WHITE_SIGMA_M`.
"""

from math import cos, remainder, sin, tan, tau
from typing import ClassVar

import numpy as np

from vehicled.offline.replications.published.ekf4 import (
    STEP_NS,
    STEP_S,
    Ekf4Published,
    Ekf4PublishedParams,
    PublishedFilterState,
    correct,
)


def predict(
    p: Ekf4PublishedParams, state: PublishedFilterState, throttle: float, steering: float
) -> PublishedFilterState:
    """Return the state one step later, for commands 0..1 and -1..1."""
    x, y, theta, v = state.q.tolist()
    reduced = p.wheel_radius_m * p.gear_ratio
    turn = tan(p.wheel_angle_per_command_rad * steering) / p.wheelbase_m
    drag = p.stall_torque_nm / p.no_load_speed_radps + p.viscous_nms
    dv_dt = (reduced * (p.stall_torque_nm * throttle - p.friction_nm) - drag * v) / p.inertia_kgm2
    q = (
        x + STEP_S * v * cos(theta),
        y + STEP_S * v * sin(theta),
        remainder(theta + STEP_S * v * turn, tau),
        max(0.0, v + STEP_S * dv_dt),
    )
    F = np.array(
        (
            (1.0, 0.0, -STEP_S * v * sin(theta), STEP_S * cos(theta)),
            (0.0, 1.0, STEP_S * v * cos(theta), STEP_S * sin(theta)),
            (0.0, 0.0, 1.0, STEP_S * turn),
            (0.0, 0.0, 0.0, 1.0 - STEP_S * drag / p.inertia_kgm2),
        )
    )
    Q = np.diag((p.position_sigma_m, p.position_sigma_m, p.yaw_sigma_rad, p.speed_sigma_mps)) ** 2
    return PublishedFilterState(np.array(q), F @ state.P @ F.T + Q)


class Ekf4Paper(Ekf4Published):
    """The filter of the paper, called like the one of the code."""

    begin_variance: ClassVar[float] = 0.0

    def _steps_until(self, now_ns: int) -> int:
        # A step waits for its fix, which comes at the end of it; the twentieth is for a clock that
        # is early.
        return (now_ns - self._started_ns + STEP_NS // 20) // STEP_NS

    def _predicted(self, state: PublishedFilterState) -> PublishedFilterState:
        return predict(self._params, state, self._throttle, self._steering)

    def _corrected(
        self, state: PublishedFilterState, x_m: float, y_m: float, yaw_rad: float
    ) -> tuple[PublishedFilterState, float]:
        found, nis = correct(self._params, state, x_m, y_m, yaw_rad)
        x, y, theta, v = found.q.tolist()
        return PublishedFilterState(
            np.array((x, y, remainder(theta, tau), max(0.0, v))), 0.5 * (found.P + found.P.T)
        ), nis
