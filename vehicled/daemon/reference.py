"""Ground truth from a reference system: its state, taken to the rear axle and into the map."""

from collections.abc import Sequence
from math import cos, hypot, isfinite, pi, remainder, sin

from vehicled.core.messages import NAN, GroundTruth, ReferenceState
from vehicled.paths.datum import Datum

JUDGE_SHARE = 1.0 / 3.0
"""A truth is good enough to judge an error if its own standard deviation is a smaller part of it
than this."""
STEP_NS = 200_000_000
"""Longest time between two states of which the yaw rate is computed."""


def too_coarse(sigma: float, error: float) -> bool:
    """True if a truth of this standard deviation cannot judge an error of this size. False for an
    exact truth or no error."""
    return sigma > 0.0 and sigma > JUDGE_SHARE * error


class ReferenceFrame:
    """Converts the states of one reference system. Its output point is at ``lever_arm_m`` from the
    rear axle: forward, left, up."""

    def __init__(self, datum: Datum, lever_arm_m: Sequence[float]) -> None:
        self._datum = datum
        self._arm = (lever_arm_m[0], lever_arm_m[1], lever_arm_m[2])
        self._distance_m = hypot(*self._arm[:2])
        self._before: tuple[int, float] | None = None

    def truth(self, state: ReferenceState) -> GroundTruth:
        """Return the state of the rear axle. A state without yaw rate gets that since the state
        before, or 0."""
        forward, left, up = self._arm
        sr = sin(state.roll_rad)
        cr = cos(state.roll_rad)
        sp = sin(state.pitch_rad)
        cp = cos(state.pitch_rad)
        s, c = sin(state.yaw_rad), cos(state.yaw_rad)
        upright = sr * left + cr * up
        ahead, aside = cp * forward + sp * upright, cr * left - sr * up
        east_m, north_m, _ = self._datum.to_enu(
            state.latitude_rad, state.longitude_rad, state.height_m
        )
        rate = self._yaw_rate(state)
        ve, vn, _ = state.velocity_enu_mps
        # The point turns about the axle: its velocity is that of the axle and the rate times the
        # arm, across it.
        speed_mps = c * ve + s * vn + rate * aside
        return GroundTruth(
            state.t_ns,
            state.t_rx_ns,
            east_m - c * ahead + s * aside,
            north_m - s * ahead - c * aside,
            remainder(state.yaw_rad, 2.0 * pi),
            speed_mps,
            rate,
            NAN,
            NAN,
            hypot(max(state.position_sigma_m[:2]), self._distance_m * state.yaw_sigma_rad),
            state.yaw_sigma_rad,
            max(state.velocity_sigma_mps[:2]),
        )

    def _yaw_rate(self, state: ReferenceState) -> float:
        before, self._before = self._before, (state.t_ns, state.yaw_rad)
        if isfinite(state.yaw_rate_radps):
            return state.yaw_rate_radps
        if before is None or not 0 < state.t_ns - before[0] <= STEP_NS:
            return 0.0
        return remainder(state.yaw_rad - before[1], 2.0 * pi) / ((state.t_ns - before[0]) * 1e-9)
