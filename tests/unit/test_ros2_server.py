"""The process that speaks ROS 2, seen by another implementation of nothing but the wire: names,
QoS, bytes, commands, strangers."""

import os
import random
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from tests.unit.view_facts import STARTED_NS, estimate, packed
from vehicled.core.messages import Path as Course
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeError
from vehicled.ros.fields import PRIMITIVES, SCALAR
from vehicled.ros.standard import Value, encode, standard_definition, standard_fields

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from cyclonedds._clayer import ddspy_write
from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
from cyclonedds.core import Policy
from cyclonedds.pub import DataWriter
from rosbags.typesys import get_types_from_msg

from tests.ros2_bench import (
    DOMAIN,
    PUBLISHED,
    STORE,
    Daemon,
    Node,
    bridge,
    decoded,
    node,
    padded,
    rtps_packets,
    sample,
    warm_up,
)
from vehicled.live.bridges.ros2.dds import idl_type
from vehicled.live.bridges.ros2.topics import COMMANDS, LATCHED, dds_name

pytestmark = pytest.mark.xdist_group("ros2")

COURSE = Course(
    STARTED_NS, "line", False, (0.0, 10.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)
)


# ------------------------------------------------------------------ types


def values(type_name: str, count: "Iterator[int]") -> Value:
    """Return a message of a type in which no two numbers are equal."""

    def one(base: str) -> Value:
        if base == "string":
            return f"text {next(count)}"
        if base == "bool":
            return True
        return (
            float(next(count))
            if base.startswith("float")
            else next(count)
            if base in PRIMITIVES
            else values(base, count)
        )

    return [
        one(field.base)
        if field.length == SCALAR
        else [one(field.base) for _ in range(field.length or 3)]
        for field in standard_fields(type_name)
    ]


@pytest.mark.parametrize(
    "type_name", sorted({*PUBLISHED.values(), *(name for _, name in COMMANDS)})
)
def test_our_types_are_those_of_ros(type_name: str) -> None:
    defined = standard_definition(type_name)
    # Registering refuses a text that differs from what the store knows of the type.
    STORE.register(get_types_from_msg(defined.text, defined.name))
    record = encode(type_name, values(type_name, count(1)))
    ours: Any = idl_type(type_name)
    read = ours.deserialize(padded(record))
    assert padded(read.serialize(use_version_2=False)) == padded(record)
    assert padded(bytes(STORE.serialize_cdr(decoded(type_name, record), defined.name))) == padded(
        record
    )
    assert ours.__idl_typename__.replace(".", "::") == dds_name("/x", type_name).type_name


# ------------------------------------------------------------------ publishing


def test_topics_types_and_qos_are_as_ros_nodes_expect_them() -> None:
    with node() as other, bridge(simulated_time=True):
        seen: dict[str, Any] = {}
        publications = BuiltinDataReader(other.participant, BuiltinTopicDcpsPublication)

        def all_found() -> bool:
            seen.update(
                {
                    each.topic_name: each
                    for each in publications.take(100)
                    if hasattr(each, "topic_name")
                }
            )
            return {dds_name(topic, "a/B").topic for topic in PUBLISHED} <= set(seen)

        other.take_until(all_found)
    for topic, type_name in PUBLISHED.items():
        found = seen[dds_name(topic, type_name).topic]
        assert found.type_name == dds_name(topic, type_name).type_name
        # A reliable writer serves reliable readers (RViz) and best-effort ones (Nav2).
        assert isinstance(found.qos[Policy.Reliability], type(Policy.Reliability.Reliable(0))), (
            topic
        )
        latched = found.qos[Policy.Durability] == Policy.Durability.TransientLocal
        assert latched is (topic in LATCHED), topic


def test_ten_thousand_messages_arrive_in_order_and_none_is_lost() -> None:
    with (
        node({"/imu": "sensor_msgs/Imu", "/odometry": "nav_msgs/Odometry"}) as other,
        bridge(simulated_time=True) as process,
    ):
        warm_up(other, process)
        for first in range(0, 10_000, 50):
            process.send(
                FrameKind.RECORDS, packed(sample(number) for number in range(first, first + 50))
            )
            other.take()
        other.take_until(
            lambda: (
                decoded("sensor_msgs/Imu", other.received["/imu"][-1]).linear_acceleration.x
                == 9_999.0
            )
        )
        received = [each.linear_acceleration.x for each in other.messages("/imu")]
        assert [number for number in received if number >= 0.0] == list(range(10_000))


def test_a_node_that_comes_late_gets_the_course_and_the_sensors() -> None:
    with bridge() as process:
        process.send(FrameKind.RECORDS, packed([(COURSE, STARTED_NS)]))
        with node({topic: PUBLISHED[topic] for topic in LATCHED}) as other:
            other.take_until(lambda: all(other.received.values()))
        (path,), (static,) = other.messages("/path"), other.messages("/tf_static")
    assert [each.pose.position.x for each in path.poses] == [0.0, 10.0]
    assert static.transforms[0].child_frame_id == "imu_link"


def test_on_loopback_other_computers_are_kept_out() -> None:
    with bridge() as process:
        inodes = {
            os.readlink(f"/proc/{process.pid}/fd/{fd}")
            for fd in os.listdir(f"/proc/{process.pid}/fd")
        }
        bound = (
            subprocess.run(["ss", "-uanpHe"], capture_output=True, text=True, check=False).stdout
            if shutil.which("ss")
            else ""
        )
    if not bound:
        pytest.skip("needs ss: apt-get install iproute2")
    mine = [
        line.split()[3]
        for line in bound.splitlines()
        if any(f"ino:{name[8:-1]} " in line for name in inodes)
    ]
    assert len(mine) >= 5
    assert all(address.partition(":")[0].endswith("%lo") for address in mine), mine


def test_an_interface_that_is_not_there_is_refused() -> None:
    with pytest.raises(BridgeError, match=r"cannot use the interface 203\.0\.113\.7"):
        bridge(interface="203.0.113.7").__enter__()


# ------------------------------------------------------------------ commands


def asked(
    other: Node,
    daemon: Daemon,
    writer: "DataWriter[Any]",
    record: bytes,
    what: tuple[str, float | None],
) -> dict[str, Any]:
    """Write until the daemon gets the request: a writer may know the bridge's reader before that
    reader knows the writer."""

    def requests() -> list[dict[str, Any]]:
        return [
            request
            for request in daemon.requests
            if (request["do"], request.get("speed_mps")) == what
        ]

    for _ in range(60):
        ddspy_write(writer._ref, record)
        with suppress(AssertionError):
            other.take_until(lambda: bool(requests()), timeout_s=1.0)
            return requests()[0]
    pytest.fail(f"{what} never came; the daemon got {daemon.requests}")


def diagnostics(other: Node) -> dict[str, str]:
    """Return the newest diagnostics by name."""
    return {
        status.name: status.message
        for each in other.messages("/diagnostics")
        for status in each.status
    }


def test_ros_nodes_command_the_vehicle_through_the_control_socket(tmp_path: Path) -> None:
    pose = ((5.0, 6.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    header, body = ((0, 0), "map"), ((0, 0), "base_link")
    twist, ackermann = ((2.0, 0.0, 0.0), (0.0, 0.0, 0.5)), (0.25, 0.0, 1.5, 0.0, 0.0)
    course = [(header, ((x, 0.0, 0.0), pose[1])) for x in (0.0, 5.0)]
    sent: list[tuple[tuple[str, str], Any, tuple[str, float | None]]] = [
        (("/cmd_vel", "geometry_msgs/Twist"), twist, ("setpoint", 2.0)),
        (
            ("/cmd_vel", "geometry_msgs/TwistStamped"),
            (body, ((1.0, 0.0, 0.0), (0.0, 0.0, 0.0))),
            ("setpoint", 1.0),
        ),
        (
            ("/ackermann_cmd", "ackermann_msgs/AckermannDriveStamped"),
            (body, ackermann),
            ("setpoint", 1.5),
        ),
        (("/goal_pose", "geometry_msgs/PoseStamped"), (header, pose), ("goto", None)),
        (("/follow_path", "nav_msgs/Path"), (header, course), ("course", None)),
    ]
    path = tmp_path / "daemon.sock"
    daemon = Daemon(path)
    try:
        with (
            node({"/diagnostics": PUBLISHED["/diagnostics"]}) as other,
            bridge(control_socket=str(path)),
        ):
            writers = {key: other.writer(*key) for key in COMMANDS}
            other.take_until(
                lambda: all(writer.get_matched_subscriptions() for writer in writers.values())
            )
            requests = [
                asked(other, daemon, writers[key], padded(encode(key[1], value)), what)
                for key, value, what in sent
            ]
            refused = {"vehicled: /goal_pose": "refused: the goal lies outside the fence"}
            refused |= {
                "vehicled: /cmd_vel": (
                    "refused: another node sends setpoints already: end it, or use a multiplexer"
                )
            }
            other.take_until(lambda: refused.items() <= diagnostics(other).items())
    finally:
        daemon.close()
    assert {request.pop("origin") for request in requests} == {"ros2"}
    *setpoints, goal, route = requests
    sequences = [request["sequence"] for request in setpoints]
    assert sequences == sorted(set(sequences))
    assert (setpoints[0]["curvature_per_m"], setpoints[2]["wheel_angle_rad"]) == (0.25, 0.25)
    assert goal == {"do": "goto", "x_m": 5.0, "y_m": 6.0, "yaw_rad": 0.0}
    assert route["do"] == "course"


def test_without_permission_nothing_is_subscribed() -> None:
    with node({"/odometry": PUBLISHED["/odometry"]}) as other, bridge() as process:
        writers = [other.writer(*key) for key in COMMANDS]
        warm_up(other, process)
        assert not any(writer.get_matched_subscriptions() for writer in writers)


# ------------------------------------------------------------------ strangers


def test_a_million_hostile_bytes_end_neither_the_process_nor_its_topics(tmp_path: Path) -> None:
    noise = random.Random(7)
    with (
        node({"/odometry": PUBLISHED["/odometry"]}) as other,
        bridge(control_socket=str(tmp_path / "nobody")) as process,
    ):
        warm_up(other, process)
        ports = [7400 + 250 * DOMAIN + offset for offset in (0, 1, 10, 11, 12, 13, 14, 15)]
        seeds = rtps_packets()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
            sent = 0
            while sent < 1_000_000:
                packet = bytearray(noise.choice(seeds))
                for _ in range(noise.choice((0, 1, 3, 30))):
                    packet[noise.randrange(len(packet))] = noise.randrange(256)
                packet = (
                    packet[: noise.randrange(len(packet) + 1)] if noise.random() < 0.2 else packet
                )
                with suppress(OSError):
                    stranger.sendto(packet, ("127.0.0.1", noise.choice(ports)))
                sent += len(packet)
        before = len(other.received["/odometry"])
        process.send(
            FrameKind.RECORDS,
            packed([(estimate(1.0, t_ns=STARTED_NS + 10**11), STARTED_NS + 10**11)]),
        )
        other.take_until(lambda: len(other.received["/odometry"]) > before)
        assert process.alive
