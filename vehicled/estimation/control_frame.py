"""The pose that a controller steers by: continuous where the estimate jumps, and on the estimate otherwise.

REP-105 tells two frames apart: in ``map`` the pose is right and may jump, in ``odom`` it is continuous and drifts. A controller
needs both. Here its pose moves as the vehicle is believed to move, by speed and yaw rate, like that of ``odom``; what then
separates it from the estimate, the correction of a fix, is worked off at a bounded rate. So the transform from ``map`` to ``odom``
is slewed instead of set, and where the path lies in ``map`` the vehicle is led to it without a jerk of the wheel.

Corrections of a few millimetres are those of every fix: they pass at once, so that there is no lag in ordinary driving.
"""

from math import cos, hypot, isfinite, remainder, sin, tau

from msgspec import Struct
from msgspec.structs import replace

from vehicled.messages import StateEstimate
from vehicled.vehicle import ControlFrameParams

MAX_GAP_NS = 1_000_000_000
"""A longer silence, like time that goes back, begins anew: there is no motion between to be continuous with."""


class Frame(Struct, frozen=True, gc=False):
    """The controller's pose at the time of the last estimate, and how fast it is being led back to it."""

    t_ns: int
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    position_rate_mps: float
    yaw_rate_radps: float


def follow(params: ControlFrameParams, frame: Frame | None, estimate: StateEstimate) -> tuple[Frame | None, StateEstimate]:
    """The frame after an estimate, and the estimate as the controller is to see it: with the frame's pose, all else unchanged.

    An estimate that is not finite passes as it is and leaves no frame; without a frame the estimate is where it begins. From one
    estimate to the next the pose moves by the motion and by at most ``rate dt``, but the last ``immediate`` at once. The rate is
    that of the parameters or, if more, the largest difference since the pose last stood on the estimate over ``max_time_s``.
    """
    x, y, yaw, v = estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps
    if not isfinite(x + y + yaw + v):
        return None, estimate
    rate = estimate.yaw_rate_radps if isfinite(estimate.yaw_rate_radps) else 0.0
    if frame is None or not 0 <= estimate.t_ns - frame.t_ns <= MAX_GAP_NS:
        return Frame(estimate.t_ns, x, y, yaw, v, params.position_rate_mps, params.yaw_rate_radps), estimate
    dt_s = (estimate.t_ns - frame.t_ns) * 1e-9
    way_m = 0.5 * (frame.speed_mps + v) * dt_s
    # The way is laid off in the direction that is believed now: in that of the frame, a yaw yet to be corrected would lead it
    # astray for as long as that takes, and no time could be promised.
    middle = yaw - 0.5 * rate * dt_s
    moved_x, moved_y = frame.x_m + way_m * cos(middle), frame.y_m + way_m * sin(middle)
    moved_yaw = frame.yaw_rad + rate * dt_s

    dx, dy, dyaw = x - moved_x, y - moved_y, remainder(yaw - moved_yaw, tau)
    distance = hypot(dx, dy)
    share, position_rate = _share(
        distance, params.immediate_m, params.position_rate_mps, frame.position_rate_mps, params.max_time_s, dt_s
    )
    yaw_share, yaw_rate = _share(
        abs(dyaw), params.immediate_rad, params.yaw_rate_radps, frame.yaw_rate_radps, params.max_time_s, dt_s
    )
    # On the estimate exactly, not by rounding near it: whoever sees no jumps sees the estimate.
    at_x, at_y = (x, y) if share == 1.0 else (moved_x + share * dx, moved_y + share * dy)
    at_yaw = yaw if yaw_share == 1.0 else remainder(moved_yaw + yaw_share * dyaw, tau)
    after = Frame(estimate.t_ns, at_x, at_y, at_yaw, v, position_rate, yaw_rate)
    if share == 1.0 and yaw_share == 1.0:
        return after, estimate
    return after, replace(estimate, x_m=at_x, y_m=at_y, yaw_rad=at_yaw)


def _share(error: float, immediate: float, slowest: float, rate: float, time_s: float, dt_s: float) -> tuple[float, float]:
    """Share of the error to take away now, and the rate to go on with."""
    rate = max(rate, error / time_s)
    step = rate * dt_s
    if error <= max(step, immediate):
        return 1.0, slowest
    return step / error, rate


class ControlFrame:
    """Keeps the frame between estimates."""

    def __init__(self, params: ControlFrameParams) -> None:
        self._params = params
        self._frame: Frame | None = None
        self._lag_m = 0.0

    @property
    def lag_m(self) -> float:
        """Distance of the controller's pose from that of the last estimate."""
        return self._lag_m

    def step(self, estimate: StateEstimate) -> StateEstimate:
        """The estimate as the controller is to see it; see :func:`follow`."""
        self._frame, seen = follow(self._params, self._frame, estimate)
        self._lag_m = hypot(seen.x_m - estimate.x_m, seen.y_m - estimate.y_m) if self._frame is not None else 0.0
        return seen

    def reset(self) -> None:
        """Begin on the next estimate: when a drive begins, nothing is there to be continuous with."""
        self._frame = None
        self._lag_m = 0.0
