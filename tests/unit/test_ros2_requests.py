"""Messages of ROS nodes as requests: what the vehicle is asked to do, and what is refused."""

from math import cos, inf, nan, pi, sin, tan
from types import SimpleNamespace as Of
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.lease import WriterLease
from vehicled.live.bridges.ros2.requests import (
    REQUESTS,
    RefusedError,
    ackermann,
    goal,
    path,
    request_of,
    twist,
    twist_stamped,
)
from vehicled.live.bridges.ros2.topics import COMMANDS, dds_name
from vehicled.live.control_socket.protocol import CourseRequest, Request, encode, parse
from vehicled.paths.course import Course
from vehicled.paths.stored import from_bytes

CONFIG = Ros2Config(
    domain=0, interface="127.0.0.1", offset_ns=0, simulated_time=False, sensors={},
    datum=(0.75, -1.5, 259.0), wheelbase_m=0.5, max_wheel_rad=0.4,
    control_socket="/run/daemon.sock",
)  # fmt: skip
MOST_PER_M = tan(0.4) / 0.5


NOW_NS = 1_800_000_000 * 10**9


def twisted(
    speed_mps: float, yaw_rate_radps: float, *, y: float = 0.0, z: float = 0.0, roll: float = 0.0
) -> Any:
    return Of(linear=Of(x=speed_mps, y=y, z=z), angular=Of(x=roll, y=0.0, z=yaw_rate_radps))


def steered(speed: float, angle: float, **more: float) -> Any:
    return Of(
        speed=speed,
        steering_angle=angle,
        **{"acceleration": 0.0, "jerk": 0.0, "steering_angle_velocity": 0.0, **more},
    )


def pose(x_m: float, y_m: float, yaw_rad: float | None = 0.0) -> Any:
    z, w = (0.0, 0.0) if yaw_rad is None else (sin(0.5 * yaw_rad), cos(0.5 * yaw_rad))
    return Of(position=Of(x=x_m, y=y_m, z=0.0), orientation=Of(x=0.0, y=0.0, z=z, w=w))


def stamped(frame: str = "map", age_s: float | None = None, **fields: Any) -> Any:
    ns = 0 if age_s is None else NOW_NS - round(age_s * 1e9)
    return Of(header=Of(frame_id=frame, stamp=Of(sec=ns // 10**9, nanosec=ns % 10**9)), **fields)


def turned(x: float, y: float, z: float, w: float) -> Any:
    return Of(position=Of(x=1.0, y=2.0, z=0.0), orientation=Of(x=x, y=y, z=z, w=w))


def driven(*poses: Any, frame: str = "map") -> Any:
    return stamped(frame, poses=[stamped(pose=each) for each in poses])


def test_every_command_has_its_request() -> None:
    assert {type_name for _, type_name in COMMANDS} == set(REQUESTS)


def test_names_in_dds_are_those_of_the_ros_middlewares() -> None:
    assert msgspec.structs.astuple(dds_name("/odometry", "nav_msgs/Odometry")) == (
        "rt/odometry",
        "nav_msgs::msg::dds_::Odometry_",
    )
    assert dds_name("/a/b", "nav_msgs/msg/Odometry").topic == "rt/a/b"


def test_a_twist_is_speed_and_curvature() -> None:
    assert fields(twist(twisted(2.0, 0.5), CONFIG)) == {"speed_mps": 2.0, "curvature_per_m": 0.25}
    # Backward, the same wheel angle turns the other way round.
    assert fields(twist(twisted(-2.0, 0.5), CONFIG)) == {
        "speed_mps": -2.0,
        "curvature_per_m": -0.25,
    }
    assert fields(twist_stamped(stamped("base_link", twist=twisted(1.0, 0.0)), CONFIG)) == {
        "speed_mps": 1.0,
        "curvature_per_m": 0.0,
    }


@given(st.floats(-50.0, 50.0), st.floats(-50.0, 50.0))
def test_no_twist_asks_for_more_than_the_wheels_can_turn(
    speed_mps: float, yaw_rate_radps: float
) -> None:
    assert (
        abs(fields(twist(twisted(speed_mps, yaw_rate_radps), CONFIG))["curvature_per_m"])
        <= MOST_PER_M
    )


def test_a_twist_on_the_spot_does_not_turn_the_wheels() -> None:
    assert fields(twist(twisted(0.0, 1.0), CONFIG)) == {"speed_mps": 0.0, "curvature_per_m": 0.0}


def test_an_ackermann_command_is_speed_and_wheel_angle() -> None:
    command = stamped("base_link", drive=steered(1.5, 0.9))
    assert fields(ackermann(command, CONFIG)) == {"speed_mps": 1.5, "wheel_angle_rad": 0.4}


def test_a_goal_is_a_pose_in_the_map() -> None:
    found = fields(goal(stamped(pose=pose(3.0, -4.0, 1.0)), CONFIG))
    assert found == {"x_m": 3.0, "y_m": -4.0, "yaw_rad": pytest.approx(1.0)}
    assert "yaw_rad" not in fields(goal(stamped("/map", pose=pose(3.0, -4.0, None)), CONFIG))


def test_a_path_is_a_course_and_poses_that_look_back_are_driven_backward() -> None:
    forward = path(driven(pose(0, 0), pose(2, 0), pose(4, 0)), CONFIG)
    assert course_of(forward).speed_mps[0] == 1.0
    assert course_of(forward).datum.latitude_rad == 0.75
    backward = path(driven(pose(0, 0, pi), pose(2, 0, pi), pose(4, 0, pi)), CONFIG)
    assert course_of(backward).speed_mps[0] == -1.0
    both = course_of(
        path(driven(pose(0, 0), pose(4, 0), pose(0, 1, 0.0), pose(-4, 1, 0.0)), CONFIG)
    ).speed_mps
    assert (both[0], both[-1]) == (1.0, -1.0)


def course_of(request: Request) -> Course:
    assert isinstance(request, CourseRequest)
    return from_bytes(request.data)


def fields(request: Request) -> dict[str, Any]:
    """Return what is asked for, without the names of request and sender."""
    return {
        name: value
        for name, value in msgspec.to_builtins(request).items()
        if name not in ("do", "origin", "sequence")
    }


@pytest.mark.parametrize(
    ("type_name", "message", "why"),
    [
        ("geometry_msgs/Twist", twisted(nan, 0.0), "not finite"),
        ("geometry_msgs/Twist", twisted(1.0, inf), "not finite"),
        ("geometry_msgs/Twist", twisted(1.0, 0.0, y=nan), "not finite"),
        ("geometry_msgs/Twist", twisted(1.0, 0.0, roll=inf), "not finite"),
        ("geometry_msgs/Twist", twisted(1.0, 0.0, y=0.3), "sideways"),
        ("geometry_msgs/TwistStamped", stamped("map", twist=twisted(1.0, 0.0)), "frame is 'map'"),
        (
            "geometry_msgs/TwistStamped",
            stamped("base_link", 0.6, twist=twisted(1.0, 0.0)),
            "0.6 s old",
        ),
        (
            "geometry_msgs/TwistStamped",
            stamped("base_link", -0.6, twist=twisted(1.0, 0.0)),
            "in the future",
        ),
        (
            "geometry_msgs/TwistStamped",
            stamped("base_link", 1.8e9 - 12.0, twist=twisted(1.0, 0.0)),
            "wall time",
        ),
        (
            "ackermann_msgs/AckermannDriveStamped",
            stamped("base_link", drive=steered(nan, 0.0)),
            "not finite",
        ),
        (
            "ackermann_msgs/AckermannDriveStamped",
            stamped("base_link", drive=steered(1.0, 0.0, acceleration=nan)),
            "not finite",
        ),
        (
            "ackermann_msgs/AckermannDriveStamped",
            stamped("odom", drive=steered(1.0, 0.0)),
            "frame is 'odom'",
        ),
        (
            "ackermann_msgs/AckermannDriveStamped",
            stamped("base_link", 5.0, drive=steered(1.0, 0.0)),
            "5 s old",
        ),
        ("geometry_msgs/PoseStamped", stamped("", pose=pose(1, 2)), "frame is ''"),
        ("geometry_msgs/PoseStamped", stamped(age_s=11.0, pose=pose(1, 2)), "11 s old"),
        ("geometry_msgs/PoseStamped", stamped(age_s=-3600.0, pose=pose(1, 2)), "in the future"),
        ("geometry_msgs/PoseStamped", stamped(pose=turned(0, 0, 0, 2.0)), "length 2"),
        ("geometry_msgs/PoseStamped", stamped(pose=turned(0, 0, 0.5, 0.5)), "length 0.707"),
        ("geometry_msgs/PoseStamped", stamped(pose=turned(0, 0, 0, nan)), "not finite"),
        ("geometry_msgs/PoseStamped", stamped(pose=turned(0, 0.5**0.5, 0, 0.5**0.5)), "up or down"),
        (
            "nav_msgs/Path",
            stamped(poses=[stamped("odom", pose=pose(k, 0)) for k in range(3)]),
            "frame is 'odom'",
        ),
        (
            "nav_msgs/Path",
            stamped(age_s=60.0, poses=[stamped(pose=pose(k, 0)) for k in range(3)]),
            "60 s old",
        ),
        ("nav_msgs/Path", driven(pose(0, 0), pose(1, nan)), "not finite"),
        ("nav_msgs/Path", driven(pose(0, 0), pose(3000, 0)), "from the waypoint before"),
        ("geometry_msgs/PoseStamped", stamped("odom", pose=pose(1, 2)), "frame is 'odom'"),
        ("geometry_msgs/PoseStamped", stamped(pose=pose(inf, 2)), "not finite"),
        ("nav_msgs/Path", driven(frame="base_link"), "frame is 'base_link'"),
        ("nav_msgs/Path", driven(), "at least two poses"),
        ("nav_msgs/Path", driven(pose(0, 0)), "at least two poses"),
        ("nav_msgs/Path", driven(pose(0, 0), pose(0, 0), pose(0, 0)), "one spot"),
        ("nav_msgs/Path", driven(pose(0, 0), pose(1e9, 0)), "from the datum"),
    ],
)
def test_what_cannot_be_done_is_refused_with_its_reason(
    type_name: str, message: Any, why: str
) -> None:
    with pytest.raises(RefusedError, match=why):
        request_of(REQUESTS[type_name], message, CONFIG, NOW_NS)


@pytest.mark.parametrize(
    ("type_name", "message"),
    [
        ("geometry_msgs/TwistStamped", stamped("base_link", 0.1, twist=twisted(1.0, 0.0))),
        ("geometry_msgs/TwistStamped", stamped("", -0.1, twist=twisted(1.0, 0.0))),
        ("geometry_msgs/Twist", twisted(1.0, 0.0, y=-0.0, z=3.0)),
        ("ackermann_msgs/AckermannDriveStamped", stamped("", 0.2, drive=steered(1.0, 0.1))),
        ("geometry_msgs/PoseStamped", stamped(age_s=4.0, pose=pose(1, 2))),
        ("geometry_msgs/PoseStamped", stamped(pose=turned(0, 0, 0.7, 0.7))),
        (
            "nav_msgs/Path",
            stamped(age_s=1.0, poses=[stamped("", pose=pose(k, 0)) for k in range(3)]),
        ),
    ],
)
def test_what_nodes_usually_send_is_taken(type_name: str, message: Any) -> None:
    request = request_of(REQUESTS[type_name], message, CONFIG, NOW_NS)
    assert request is not None
    assert parse(encode(request)) == request


def test_a_heading_does_not_depend_on_the_length_of_the_quaternion() -> None:
    found = fields(goal(stamped(pose=turned(0.0, 0.0, 1.05 * sin(0.4), 1.05 * cos(0.4))), CONFIG))
    assert found["yaw_rad"] == pytest.approx(0.8)


def test_setpoints_have_one_writer_until_it_is_silent() -> None:
    lease = WriterLease()
    assert lease.take("a", 10.0)
    assert not lease.take("b", 10.5)
    assert lease.take("a", 10.9)
    assert not lease.take("b", 11.8)
    assert lease.take("b", 12.0)
    assert not lease.take("a", 12.1)
