"""Messages of ROS nodes as requests to the daemon. Pure.

Each function returns the fields of a request (docs/live_changes.md), and raises :class:`RefusedError` for a message that says
nothing that the vehicle could do. The daemon limits and judges the rest, as it does for every other program.
"""

from base64 import b64encode
from collections.abc import Callable, Mapping
from itertools import pairwise
from math import atan2, copysign, cos, isfinite, sin, tan
from typing import Any

from vehicled.bridges.ros2.config import Ros2Config
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import to_bytes
from vehicled.ros.projections import MAP

Fields = dict[str, Any]

LEAST_SPEED_MPS = 0.02
"""Speed below which a turn rate says nothing about the wheel angle."""
COURSE_SPEED_MPS = 1.0
"""Target speed along a path, which has none in ROS; limits of the vehicle and requests lower it."""


class RefusedError(Exception):
    """A message that cannot become a request; the text gives the reason."""


def twist(message: Any, config: Ros2Config) -> Fields:
    """Return the setpoint of a Twist: forward speed and turn rate."""
    speed_mps, yaw_rate_radps = _finite(message.linear.x, message.angular.z)
    curvature_per_m = yaw_rate_radps / speed_mps if abs(speed_mps) > LEAST_SPEED_MPS else 0.0
    most_per_m = tan(config.max_wheel_rad) / config.wheelbase_m
    return {"speed_mps": speed_mps, "curvature_per_m": copysign(min(abs(curvature_per_m), most_per_m), curvature_per_m)}


def twist_stamped(message: Any, config: Ros2Config) -> Fields:
    """Return the setpoint of a TwistStamped."""
    return twist(message.twist, config)


def ackermann(message: Any, config: Ros2Config) -> Fields:
    """Return the setpoint of an AckermannDriveStamped: speed and wheel angle."""
    speed_mps, wheel_rad = _finite(message.drive.speed, message.drive.steering_angle)
    return {"speed_mps": speed_mps, "wheel_angle_rad": max(-config.max_wheel_rad, min(config.max_wheel_rad, wheel_rad))}


def goal(message: Any, config: Ros2Config) -> Fields:
    """Return the goal of a PoseStamped in ``map``."""
    _check_frame(message)
    x_m, y_m, yaw_rad = _pose(message.pose)
    return {"x_m": x_m, "y_m": y_m, "yaw_rad": yaw_rad, "speed_mps": None}


def path(message: Any, config: Ros2Config) -> Fields:
    """Return the course of a Path in ``map``; poses that look against their direction are driven backward."""
    _check_frame(message)
    poses = [_pose(stamped.pose) for stamped in message.poses]
    speeds = []
    for (x_m, y_m, yaw_rad), (next_x_m, next_y_m, _) in pairwise(poses):
        ahead_m = 0.0 if yaw_rad is None else cos(yaw_rad) * (next_x_m - x_m) + sin(yaw_rad) * (next_y_m - y_m)
        speeds.append(-COURSE_SPEED_MPS if ahead_m < 0.0 else COURSE_SPEED_MPS)
    if not speeds:
        raise RefusedError("a path needs at least two poses")
    try:
        course = course_from_waypoints(
            "ros2", [pose[0] for pose in poses], [pose[1] for pose in poses],
            speed=[*speeds, speeds[-1]], closed=False, datum=Datum(*config.datum),
        )  # fmt: skip
    except CourseError as error:
        raise RefusedError(str(error)) from None
    return {"data": b64encode(to_bytes(course)).decode()}


REQUESTS: Mapping[str, Callable[[Any, Ros2Config], Fields]] = {
    "geometry_msgs/Twist": twist,
    "geometry_msgs/TwistStamped": twist_stamped,
    "ackermann_msgs/AckermannDriveStamped": ackermann,
    "geometry_msgs/PoseStamped": goal,
    "nav_msgs/Path": path,
}
"""Fields of a request by the type of the message."""


def _finite(*values: float) -> tuple[float, ...]:
    if not all(map(isfinite, values)):
        raise RefusedError("a value is not finite")
    return values


def _check_frame(message: Any) -> None:
    frame = message.header.frame_id.removeprefix("/")
    if frame != MAP:
        raise RefusedError(f"the frame is {frame!r}; only {MAP!r} is understood")


def _pose(pose: Any) -> tuple[float, float, float | None]:
    """Return (x, y, yaw); no yaw for the quaternion of zeros that an unset message has."""
    q = pose.orientation
    x_m, y_m, *_ = _finite(pose.position.x, pose.position.y, q.x, q.y, q.z, q.w)
    if q.x == q.y == q.z == q.w == 0.0:
        return x_m, y_m, None
    return x_m, y_m, atan2(2.0 * (q.w * q.z + q.x * q.y), 1.0 - 2.0 * (q.y * q.y + q.z * q.z))
