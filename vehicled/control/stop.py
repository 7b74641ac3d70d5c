"""Stop command: no drive, full brake, wheels held."""

from math import isfinite

from vehicled.core.messages import NAN, ControlCommand, StateEstimate

MAX_COORDINATE_M = 1e6
MAX_YAW_RAD = 1e3
MAX_SPEED_MPS = 200.0


def is_drivable(estimate: StateEstimate) -> bool:
    """True if pose and speed are finite and plausible, so that arithmetic on them cannot
    overflow."""
    return (
        abs(estimate.x_m) <= MAX_COORDINATE_M
        and abs(estimate.y_m) <= MAX_COORDINATE_M
        and abs(estimate.yaw_rad) <= MAX_YAW_RAD
        and abs(estimate.speed_mps) <= MAX_SPEED_MPS
    )


def brake_command(
    now_ns: int,
    newest_input_ns: int,
    wheel_angle_rad: float,
    *,
    progress_m: float = NAN,
    cross_track_m: float = NAN,
    heading_error_rad: float = NAN,
    curvature_per_m: float = NAN,
    target_speed_mps: float = 0.0,
) -> ControlCommand:
    """Return the command that stops the vehicle: throttle 0, brake 1. A vehicle without brake
    coasts in neutral.

    The wheel angle is held, because straightening in a bend would leave the course; 0 if it is not
    finite. The remaining fields give the estimated pose as far as it is known.
    """
    wheel = wheel_angle_rad if isfinite(wheel_angle_rad) else 0.0
    return ControlCommand(
        now_ns,
        newest_input_ns,
        wheel,
        0.0,
        1.0,
        target_speed_mps,
        progress_m,
        cross_track_m,
        heading_error_rad,
        curvature_per_m,
    )
