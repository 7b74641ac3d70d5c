"""Topics of the bridge, named and typed for DDS as the ROS 2 middlewares do. Pure."""

from collections.abc import Mapping

from msgspec import Struct

DEPTH = 100
"""Samples that a writer keeps for a reliable reader. Records arrive in bursts, which must fit."""

RENAMED: Mapping[str, str] = {
    "/gnss/fix": "/fix",
    "/imu/data": "/imu",
    "/course": "/path",
    "/drive": "/ackermann_cmd_wanted",
    "/drive_applied": "/ackermann_cmd_sent",
}
"""ROS topic of each topic of the log that has another name there. ``/drive`` would command an
F1TENTH vehicle nearby."""

LATCHED = frozenset({"/path", "/tf_static"})
"""Topics whose newest sample is also sent to nodes that join later."""

COMMANDS: Mapping[tuple[str, str], str] = {
    ("/cmd_vel", "geometry_msgs/Twist"): "setpoint",
    ("/cmd_vel", "geometry_msgs/TwistStamped"): "setpoint",
    ("/ackermann_cmd", "ackermann_msgs/AckermannDriveStamped"): "setpoint",
    ("/goal_pose", "geometry_msgs/PoseStamped"): "goto",
    ("/follow_path", "nav_msgs/Path"): "course",
}
"""Request to the daemon by (topic, type) of what ROS nodes may send."""


class DdsName(Struct, frozen=True):
    """Topic and type as DDS knows them."""

    topic: str
    type_name: str


def dds_name(topic: str, type_name: str) -> DdsName:
    """Return the names of a ROS topic and a type (``nav_msgs/Odometry`` or
    ``nav_msgs/msg/Odometry``) in DDS.

    See https://design.ros2.org/articles/topic_and_service_names.html.
    """
    return DdsName(f"rt{topic}", dds_type_name(type_name))


def dds_type_name(type_name: str) -> str:
    """Return the DDS name of a message type."""
    package, _, name = type_name.replace("/msg/", "/").partition("/")
    return f"{package}::msg::dds_::{name}_"
