"""Messages of ROS nodes as requests: what the vehicle is asked to do, and what is refused."""

from base64 import b64decode
from math import cos, inf, nan, pi, sin, tan
from types import SimpleNamespace as Of
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.bridges.ros2.config import Ros2Config
from vehicled.bridges.ros2.requests import REQUESTS, RefusedError, ackermann, goal, path, twist, twist_stamped
from vehicled.bridges.ros2.topics import COMMANDS, dds_name
from vehicled.paths.course import Course
from vehicled.paths.stored import from_bytes

CONFIG = Ros2Config(
    domain=0, interface="127.0.0.1", offset_ns=0, simulated_time=False, sensors={}, datum=(0.75, -1.5, 259.0), wheelbase_m=0.5,
    max_wheel_rad=0.4, control_socket="/run/daemon.sock",
)  # fmt: skip
MOST_PER_M = tan(0.4) / 0.5


def twisted(speed_mps: float, yaw_rate_radps: float) -> Any:
    return Of(linear=Of(x=speed_mps, y=0.0, z=0.0), angular=Of(x=0.0, y=0.0, z=yaw_rate_radps))


def pose(x_m: float, y_m: float, yaw_rad: float | None = 0.0) -> Any:
    z, w = (0.0, 0.0) if yaw_rad is None else (sin(0.5 * yaw_rad), cos(0.5 * yaw_rad))
    return Of(position=Of(x=x_m, y=y_m, z=0.0), orientation=Of(x=0.0, y=0.0, z=z, w=w))


def stamped(frame: str = "map", **fields: Any) -> Any:
    return Of(header=Of(frame_id=frame, stamp=Of(sec=0, nanosec=0)), **fields)


def driven(*poses: Any, frame: str = "map") -> Any:
    return stamped(frame, poses=[stamped(pose=each) for each in poses])


def test_every_command_has_its_request() -> None:
    assert {type_name for _, type_name in COMMANDS} == set(REQUESTS)


def test_names_in_dds_are_those_of_the_ros_middlewares() -> None:
    assert msgspec.structs.astuple(dds_name("/odometry", "nav_msgs/Odometry")) == ("rt/odometry", "nav_msgs::msg::dds_::Odometry_")
    assert dds_name("/a/b", "nav_msgs/msg/Odometry").topic == "rt/a/b"


def test_a_twist_is_speed_and_curvature() -> None:
    assert twist(twisted(2.0, 0.5), CONFIG) == {"speed_mps": 2.0, "curvature_per_m": 0.25}
    # Backward, the same wheel angle turns the other way round.
    assert twist(twisted(-2.0, 0.5), CONFIG) == {"speed_mps": -2.0, "curvature_per_m": -0.25}
    assert twist_stamped(stamped(twist=twisted(1.0, 0.0)), CONFIG) == {"speed_mps": 1.0, "curvature_per_m": 0.0}


@given(st.floats(-50.0, 50.0), st.floats(-50.0, 50.0))
def test_no_twist_asks_for_more_than_the_wheels_can_turn(speed_mps: float, yaw_rate_radps: float) -> None:
    assert abs(twist(twisted(speed_mps, yaw_rate_radps), CONFIG)["curvature_per_m"]) <= MOST_PER_M


def test_a_twist_on_the_spot_does_not_turn_the_wheels() -> None:
    assert twist(twisted(0.0, 1.0), CONFIG) == {"speed_mps": 0.0, "curvature_per_m": 0.0}


def test_an_ackermann_command_is_speed_and_wheel_angle() -> None:
    command = stamped("base_link", drive=Of(speed=1.5, steering_angle=0.9))
    assert ackermann(command, CONFIG) == {"speed_mps": 1.5, "wheel_angle_rad": 0.4}


def test_a_goal_is_a_pose_in_the_map() -> None:
    assert goal(stamped(pose=pose(3.0, -4.0, 1.0)), CONFIG) == {
        "x_m": 3.0,
        "y_m": -4.0,
        "yaw_rad": pytest.approx(1.0),
        "speed_mps": None,
    }
    assert goal(stamped("/map", pose=pose(3.0, -4.0, None)), CONFIG)["yaw_rad"] is None


def test_a_path_is_a_course_and_poses_that_look_back_are_driven_backward() -> None:
    forward = path(driven(pose(0, 0), pose(2, 0), pose(4, 0)), CONFIG)
    assert course_of(forward).speed_mps[0] == 1.0
    assert course_of(forward).datum.latitude_rad == 0.75
    backward = path(driven(pose(0, 0, pi), pose(2, 0, pi), pose(4, 0, pi)), CONFIG)
    assert course_of(backward).speed_mps[0] == -1.0
    both = course_of(path(driven(pose(0, 0), pose(4, 0), pose(0, 1, 0.0), pose(-4, 1, 0.0)), CONFIG)).speed_mps
    assert (both[0], both[-1]) == (1.0, -1.0)


def course_of(fields: dict[str, Any]) -> Course:
    return from_bytes(b64decode(fields["data"]))


@pytest.mark.parametrize(
    ("type_name", "message", "why"),
    [
        ("geometry_msgs/Twist", twisted(nan, 0.0), "not finite"),
        ("geometry_msgs/Twist", twisted(1.0, inf), "not finite"),
        ("ackermann_msgs/AckermannDriveStamped", stamped(drive=Of(speed=nan, steering_angle=0.0)), "not finite"),
        ("geometry_msgs/PoseStamped", stamped("odom", pose=pose(1, 2)), "frame is 'odom'"),
        ("geometry_msgs/PoseStamped", stamped(pose=pose(inf, 2)), "not finite"),
        ("nav_msgs/Path", driven(frame="base_link"), "frame is 'base_link'"),
        ("nav_msgs/Path", driven(), "at least two poses"),
        ("nav_msgs/Path", driven(pose(0, 0)), "at least two poses"),
        ("nav_msgs/Path", driven(pose(0, 0), pose(0, 0), pose(0, 0)), "one spot"),
        ("nav_msgs/Path", driven(pose(0, 0), pose(1e9, 0)), "from the datum"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(type_name: str, message: Any, why: str) -> None:
    with pytest.raises(RefusedError, match=why):
        REQUESTS[type_name](message, CONFIG)
