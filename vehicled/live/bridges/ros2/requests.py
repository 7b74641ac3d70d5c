"""Messages of ROS nodes as requests to the daemon. Pure.

Each function returns a request (docs/control_socket.md), and raises :class:`RefusedError` for a
message that says nothing that the vehicle could do. The daemon limits and judges the rest, as it
does for every other program.
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import atan2, copysign, cos, hypot, isfinite, sin, tan
from operator import attrgetter
from typing import Any, NamedTuple

from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.control_socket.protocol import (
    CourseRequest,
    GotoRequest,
    Request,
    SetpointRequest,
)
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.stored import to_bytes
from vehicled.ros.projections import MAP

ORIGIN = "ros2"
LEAST_SPEED_MPS = 0.02
"""Speed below which a turn rate says nothing about the wheel angle."""
SIDEWAYS_MPS = 0.01
"""Sideways speed that is taken for noise, m/s."""
QUATERNION_ERROR = 0.1
"""Error of the length of a quaternion that is taken for rounding."""
LEVEL = 0.1
"""Length of the forward axis on the ground, of 1, below which it says nothing about the heading."""
SETPOINT_AGE_S, REQUEST_AGE_S, AHEAD_S = 0.5, 10.0, 0.5
"""Largest ages of the stamps of setpoints and of other requests, and how far ahead a stamp may be,
s."""
BODY = ("base_link", "")
"""Frames of a setpoint."""
MAP_FRAMES = (MAP,)
"""Frame of a goal, a path and a trajectory."""
COURSE_SPEED_MPS = 1.0
"""Target speed along a path, which has none in ROS; limits of the vehicle and requests lower it."""


class RefusedError(Exception):
    """A message that cannot become a request; the text gives the reason."""


def twist(message: Any, config: Ros2Config) -> Request:
    """Return the setpoint of a Twist: forward speed and turn rate."""
    linear, angular = message.linear, message.angular
    speed_mps, sideways_mps, _, _, _, yaw_rate_radps = finite(
        linear.x, linear.y, linear.z, angular.x, angular.y, angular.z
    )
    if abs(sideways_mps) > SIDEWAYS_MPS:
        raise RefusedError(
            f"linear.y is {sideways_mps:g} m/s, and the vehicle cannot drive sideways: leave it 0"
        )
    curvature_per_m = yaw_rate_radps / speed_mps if abs(speed_mps) > LEAST_SPEED_MPS else 0.0
    most_per_m = tan(config.max_wheel_rad) / config.wheelbase_m
    curvature_per_m = copysign(min(abs(curvature_per_m), most_per_m), curvature_per_m)
    return SetpointRequest(
        speed_mps=speed_mps, curvature_per_m=curvature_per_m, sequence=0, origin=ORIGIN
    )


def twist_stamped(message: Any, config: Ros2Config) -> Request:
    """Return the setpoint of a TwistStamped."""
    check_frame(message, BODY)
    return twist(message.twist, config)


def ackermann(message: Any, config: Ros2Config) -> Request:
    """Return the setpoint of an AckermannDriveStamped: speed and wheel angle."""
    check_frame(message, BODY)
    drive = message.drive
    speed_mps, wheel_rad, *_ = finite(
        drive.speed,
        drive.steering_angle,
        drive.acceleration,
        drive.jerk,
        drive.steering_angle_velocity,
    )
    return SetpointRequest(
        speed_mps=speed_mps,
        wheel_angle_rad=limited_wheel_angle(wheel_rad, config),
        sequence=0,
        origin=ORIGIN,
    )


def limited_wheel_angle(wheel_rad: float, config: Ros2Config) -> float:
    """Return a wheel angle within what the wheels can turn."""
    return max(-config.max_wheel_rad, min(config.max_wheel_rad, wheel_rad))


def goal(message: Any, config: Ros2Config) -> Request:
    """Return the goal of a PoseStamped in ``map``."""
    check_frame(message, MAP_FRAMES)
    x_m, y_m, yaw_rad = planar_pose(message.pose)
    return GotoRequest(x_m, y_m, yaw_rad=yaw_rad, origin=ORIGIN)


def path(message: Any, config: Ros2Config) -> Request:
    """Return the course of a Path in ``map``; poses that look against their direction are driven
    backward."""
    check_frame(message, MAP_FRAMES)
    for stamped in message.poses:
        # A pose without a frame of its own has that of the path.
        check_frame(stamped, (MAP, ""))
    poses = [planar_pose(stamped.pose) for stamped in message.poses]
    speeds = []
    for (x_m, y_m, yaw_rad), (next_x_m, next_y_m, _) in pairwise(poses):
        ahead_m = (
            0.0
            if yaw_rad is None
            else cos(yaw_rad) * (next_x_m - x_m) + sin(yaw_rad) * (next_y_m - y_m)
        )
        speeds.append(-COURSE_SPEED_MPS if ahead_m < 0.0 else COURSE_SPEED_MPS)
    return course_request(poses, [*speeds, *speeds[-1:]], config)


def course_request(
    poses: Sequence[tuple[float, float, float | None]], speeds: list[float], config: Ros2Config
) -> CourseRequest:
    """Return the course through poses in ``map``, with a speed for each."""
    if len(poses) < 2:
        raise RefusedError("a path needs at least two poses")
    try:
        course = course_from_waypoints(
            "ros2", [pose[0] for pose in poses], [pose[1] for pose in poses],
            speed=speeds, closed=False, datum=Datum(*config.datum),
        )  # fmt: skip
    except CourseError as error:
        raise RefusedError(str(error)) from None
    return CourseRequest(to_bytes(course), origin=ORIGIN)


class RequestKind(NamedTuple):
    """One type of message that is taken."""

    convert: Callable[[Any, Ros2Config], Request | None]
    """Function that returns the request; None if nothing is to be sent."""
    frames: tuple[str, ...]
    """Frames that the header may name; empty for a type without a header."""
    oldest_s: float
    """Age of the stamps beyond which the message is refused, s."""
    reads: str
    """Fields that are read, in words."""
    stamps: tuple[str, ...] = ("header.stamp",)
    """Fields with the stamps that are checked."""


REQUESTS: Mapping[str, RequestKind] = {
    "geometry_msgs/Twist": RequestKind(
        twist, (), SETPOINT_AGE_S, "`linear`: x, and y, which must be 0; `angular`: z", ()
    ),
    "geometry_msgs/TwistStamped": RequestKind(twist_stamped, BODY, SETPOINT_AGE_S, "the same"),
    "ackermann_msgs/AckermannDriveStamped": RequestKind(
        ackermann, BODY, SETPOINT_AGE_S, "`speed`, `steering_angle`"
    ),
    "geometry_msgs/PoseStamped": RequestKind(
        goal,
        MAP_FRAMES,
        REQUEST_AGE_S,
        "`position`: x, y; yaw of `orientation`, any for a quaternion of zeros",
    ),
    "nav_msgs/Path": RequestKind(
        path,
        MAP_FRAMES,
        REQUEST_AGE_S,
        "the same of each pose, in the frame of the path; at least two poses",
    ),
}
"""Kind of request by the type of the message."""


def request_of(row: RequestKind, message: Any, config: Ros2Config, now_ns: int) -> Request | None:
    """Return the request of a message at a UTC time. Raises :class:`RefusedError`."""
    for stamp in row.stamps:
        _check_stamp(attrgetter(stamp)(message), now_ns, row.oldest_s)
    return row.convert(message, config)


def _check_stamp(stamp: Any, now_ns: int, oldest_s: float) -> None:
    """Refuse what was sent long ago or will be: a delayed network, a recording, another clock. A
    stamp of 0 is none."""
    if stamp.sec == 0 and stamp.nanosec == 0:
        return
    age_s = (now_ns - (stamp.sec * 1_000_000_000 + stamp.nanosec)) * 1e-9
    if age_s > oldest_s:
        raise RefusedError(
            f"the stamp is {age_s:.3g} s old (at most {oldest_s:g} s): synchronise the clocks, "
            "use wall time"
        )
    if age_s < -AHEAD_S:
        raise RefusedError(
            f"the stamp is {-age_s:.3g} s in the future: synchronise the clocks, use wall time"
        )


def finite(*values: float) -> tuple[float, ...]:
    """Return the values. Raises :class:`RefusedError` if one is not finite."""
    if not all(map(isfinite, values)):
        raise RefusedError("a value is not finite")
    return values


def check_frame(message: Any, frames: tuple[str, ...]) -> None:
    """Raise :class:`RefusedError` if the header of a message names another frame."""
    frame = message.header.frame_id.removeprefix("/")
    if frame not in frames:
        raise RefusedError(f"the frame is {frame[:40]!r}; only {frames[0]!r} is understood")


def planar_pose(pose: Any) -> tuple[float, float, float | None]:
    """Return (x, y, yaw); no yaw for the quaternion of zeros that an unset message has."""
    q = pose.orientation
    x_m, y_m, *_ = finite(pose.position.x, pose.position.y, pose.position.z, q.x, q.y, q.z, q.w)
    if q.x == q.y == q.z == q.w == 0.0:
        return x_m, y_m, None
    length = hypot(q.x, q.y, q.z, q.w)
    if not abs(length - 1.0) <= QUATERNION_ERROR:
        raise RefusedError(
            f"the quaternion of a pose has the length {length:.3g}: it must be 1, or all zeros "
            "for any heading"
        )
    ahead = q.w * q.w + q.x * q.x - q.y * q.y - q.z * q.z
    left = 2.0 * (q.w * q.z + q.x * q.y)
    if hypot(ahead, left) < LEVEL:
        raise RefusedError(
            "the orientation of a pose looks up or down: it has no heading on the ground"
        )
    return x_m, y_m, atan2(left, ahead)
