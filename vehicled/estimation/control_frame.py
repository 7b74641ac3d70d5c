"""Pose for the controller: continuous where the estimate jumps, equal to the estimate otherwise.

REP-105 defines two frames: in ``map`` the pose is accurate and may jump, in ``odom`` it is
continuous and drifts. A controller needs both properties. This pose is integrated from the
estimated speed and yaw rate, like that of ``odom``; its difference from the estimate, the
correction by a fix, decays at a bounded rate. The transform from ``map`` to ``odom`` is thus slewed
instead of set, and the vehicle returns to a path in ``map`` without a jerk of the wheel.

Every fix corrects by a few millimetres: these corrections pass at once, so ordinary driving has no
lag.
"""

from math import cos, hypot, isfinite, remainder, sin, tau

from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.messages import StateEstimate
from vehicled.core.vehicle import ControlFrameParams

MAX_GAP_NS = 1_000_000_000
"""A longer gap between estimates, or time that goes back, resets the frame: the motion in between
is unknown."""


class FramePoint(Struct, frozen=True, gc=False):
    """The controller's pose at the time of the last estimate, and the rates at which it approaches
    the estimate."""

    t_ns: int
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    position_rate_mps: float
    yaw_rate_radps: float


def follow(
    params: ControlFrameParams, frame: FramePoint | None, estimate: StateEstimate
) -> tuple[FramePoint | None, StateEstimate]:
    """Return the new frame, and the estimate for the controller: with the frame's pose, all else
    unchanged.

    An estimate that is not finite passes unchanged and clears the frame; without a frame a new one
    starts on the estimate. Between two estimates the pose moves by the motion plus at most ``rate
    dt`` of correction; the last ``immediate`` is applied at once. The rate is that of the
    parameters or, if larger, the largest difference since the pose last equalled the estimate,
    divided by ``max_time_s``.
    """
    x, y, yaw, v = estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps
    if not isfinite(x + y + yaw + v):
        return None, estimate
    rate = estimate.yaw_rate_radps if isfinite(estimate.yaw_rate_radps) else 0.0
    if frame is None or not 0 <= estimate.t_ns - frame.t_ns <= MAX_GAP_NS:
        return FramePoint(
            estimate.t_ns, x, y, yaw, v, params.position_rate_mps, params.yaw_rate_radps
        ), estimate
    dt_s = (estimate.t_ns - frame.t_ns) * 1e-9
    distance_m = 0.5 * (frame.speed_mps + v) * dt_s
    # The motion uses the estimated yaw: with the frame's own, a yaw error still being corrected
    # would add position error, and ``max_time_s`` would not bound the correction.
    middle = yaw - 0.5 * rate * dt_s
    moved_x, moved_y = frame.x_m + distance_m * cos(middle), frame.y_m + distance_m * sin(middle)
    moved_yaw = frame.yaw_rad + rate * dt_s

    dx, dy, dyaw = x - moved_x, y - moved_y, remainder(yaw - moved_yaw, tau)
    fraction, position_rate = _correction(
        hypot(dx, dy),
        params.immediate_m,
        params.position_rate_mps,
        frame.position_rate_mps,
        params.max_time_s,
        dt_s,
    )
    yaw_fraction, yaw_rate = _correction(
        abs(dyaw),
        params.immediate_rad,
        params.yaw_rate_radps,
        frame.yaw_rate_radps,
        params.max_time_s,
        dt_s,
    )
    # Without a pending correction the pose equals the estimate exactly, not up to rounding.
    at_x, at_y = (x, y) if fraction == 1.0 else (moved_x + fraction * dx, moved_y + fraction * dy)
    at_yaw = yaw if yaw_fraction == 1.0 else remainder(moved_yaw + yaw_fraction * dyaw, tau)
    after = FramePoint(estimate.t_ns, at_x, at_y, at_yaw, v, position_rate, yaw_rate)
    if fraction == 1.0 and yaw_fraction == 1.0:
        return after, estimate
    return after, replace(estimate, x_m=at_x, y_m=at_y, yaw_rad=at_yaw)


def _correction(
    error: float, immediate: float, slowest: float, rate: float, time_s: float, dt_s: float
) -> tuple[float, float]:
    """Return the fraction of the error to remove now, and the rate for the next step."""
    if error / time_s > rate:
        rate = error / time_s
    step = rate * dt_s
    if error <= step or error <= immediate:
        return 1.0, slowest
    return step / error, rate


class ControlFrame:
    """Keeps the frame between estimates."""

    def __init__(self, params: ControlFrameParams) -> None:
        self._params = params
        self._frame: FramePoint | None = None
        self._lag_m = 0.0

    @property
    def lag_m(self) -> float:
        """Distance of the controller's pose from the last estimate, m."""
        return self._lag_m

    def step(self, estimate: StateEstimate) -> StateEstimate:
        """Return the estimate for the controller; see :func:`follow`."""
        self._frame, smoothed = follow(self._params, self._frame, estimate)
        self._lag_m = (
            hypot(smoothed.x_m - estimate.x_m, smoothed.y_m - estimate.y_m)
            if self._frame is not None
            else 0.0
        )
        return smoothed

    def reset(self) -> None:
        """Start on the next estimate, as at the beginning of a drive."""
        self._frame = None
        self._lag_m = 0.0
