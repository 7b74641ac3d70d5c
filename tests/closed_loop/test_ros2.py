"""A drive seen from ROS 2: what nodes receive is what the log holds, and nothing else changes."""

import json
import os
import signal
import subprocess
import sys
import time
from math import inf, isfinite, tan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.closed_loop.conftest import ROOT
from vehicled.core.messages import ControlCommand, MotorStatus, StateEstimate
from vehicled.live.bridges.ros2.topics import RENAMED
from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import ActionRequest
from vehicled.log.reader import LogReader
from vehicled.profile import load_profile
from vehicled.ros.projections import PROJECTIONS
from vehicled.ros.standard import encode

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from cyclonedds._clayer import ddspy_write
from rosbags.highlevel import AnyReader

from tests.ros2_bench import DOMAIN, PUBLISHED, Node, decoded, node, padded

pytestmark = pytest.mark.xdist_group("ros2")

WHEELBASE_M = load_profile("art").vehicle.wheelbase_m
PATIENT = tuple(
    word
    for limit in (
        "imu_silence_s=2",
        "estimate_silence_s=2",
        "control_silence_s=2",
        "loop_silence_s=2",
        "arming_missed_share=1",
    )
    for word in ("--set", f"limits.{limit}")
)
"""Limits with which a drive on the wall clock goes on beside other work."""
POSE = ((1.0, 2.0, 0.0), (0.0, 0.0, 0.0, 1.0))


def vehicled(*arguments: str, **environment: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "vehicled", *arguments],
        cwd=ROOT,
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN), **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def standard_messages(folder: Path) -> dict[str, list[bytes]]:
    """Return what the only log of a folder holds of standard types, by the topic of the bridge."""
    (log,) = folder.glob("*.mcap")
    logged: dict[str, list[bytes]] = {}
    with AnyReader([log]) as bag:
        for connection, _, data in bag.messages():
            logged.setdefault(RENAMED.get(connection.topic, connection.topic), []).append(
                padded(bytes(data))
            )
    return logged


def test_in_lockstep_a_node_receives_every_standard_message_of_the_log(tmp_path: Path) -> None:
    drive = (
        "sim",
        "--seed",
        "7",
        "--duration",
        "6",
        "--log",
        str(tmp_path),
        "--ros2",
        "--quiet",
        "--json",
    )
    with node(PUBLISHED) as other, vehicled(*drive) as run:
        other.take_until(lambda: run.poll() is not None)
        printed, said = run.communicate()
    logged = standard_messages(tmp_path)
    assert said == f"ROS 2: domain {DOMAIN}, this computer alone\n"
    for topic in set(PUBLISHED) - {"/clock", "/tf_static", "/cmd_vel_wanted"}:
        assert other.received[topic] == logged.get(topic, []), topic
    assert sum(map(len, other.received.values())) > 4_000

    odometry = stamps(other, "/odometry")
    assert np.diff(odometry) == pytest.approx(0.02, rel=0.01)
    clock = [each.clock.sec + each.clock.nanosec * 1e-9 for each in other.messages("/clock")]
    assert 0.0 < np.diff(clock).min() <= np.diff(clock).max() < 0.011
    assert clock[0] <= odometry[0] <= odometry[-1] <= clock[-1]
    (static,) = other.messages("/tf_static")
    assert {each.child_frame_id: each.transform.translation.z for each in static.transforms} == {
        "gnss_link": 0.3,
        "imu_link": 0.1,
    }
    assert {each.header.frame_id for each in static.transforms} == {"base_link"}
    with LogReader(str(next(tmp_path.glob("*.mcap")))) as log:
        wanted = [record.message for record in log.messages(ControlCommand)]
    wanted = [command for command in wanted if isfinite(command.target_speed_mps)]
    turns = [
        command.target_speed_mps * tan(command.wheel_angle_rad) / WHEELBASE_M for command in wanted
    ]
    twists = [each.twist for each in other.messages("/cmd_vel_wanted")]
    assert [each.linear.x for each in twists] == [command.target_speed_mps for command in wanted]
    assert [each.angular.z for each in twists] == pytest.approx(turns)
    with vehicled(*drive[:5], "--no-log", "--quiet", "--json") as alone:
        assert json.loads(printed)["digest"] == json.loads(alone.communicate()[0])["digest"]


THINNED = {each.topic for each in PROJECTIONS if each.max_rate_hz < inf}
"""Topics of a limited rate. A bridge that lost a frame of the loop chooses other messages than the
log does."""


def stamps(other: Node, topic: str) -> list[float]:
    return [
        each.header.stamp.sec + each.header.stamp.nanosec * 1e-9 for each in other.messages(topic)
    ]


def test_on_the_wall_clock_stamps_are_utc_and_never_ahead_of_it(tmp_path: Path) -> None:
    drive = (
        "sim",
        "--profile",
        "art_vesc",
        "--clock",
        "wall",
        "--strict-clock",
        "--duration",
        "120",
        "--log",
        str(tmp_path),
    )
    wanted = ("/imu", "/fix", "/odometry", "/tf", "/battery", "/ackermann_cmd_sent", "/path")
    ahead_s, enough = [], False
    with node(PUBLISHED) as other, vehicled(*drive, "--ros2", "--quiet") as run:
        while run.poll() is None:
            before = len(other.received["/odometry"])
            other.take()
            now_s = time.time()
            ahead_s += [stamp - now_s for stamp in stamps(other, "/odometry")[before:]]
            if not enough and (
                enough := len(ahead_s) > 50 and all(other.received[topic] for topic in wanted)
            ):
                run.send_signal(signal.SIGINT)
            time.sleep(0.01)
        printed, said = run.communicate()
        other.take()
    logged = standard_messages(tmp_path)
    assert ahead_s, printed + said
    assert max(ahead_s) < 0.0
    assert not other.received["/clock"]
    for topic in wanted:
        assert other.received[topic], topic + printed
        if topic not in THINNED:
            # The first messages come before the node has found the writers.
            assert set(other.received[topic]) <= set(logged[topic]), topic
    with LogReader(str(next(tmp_path.glob("*.mcap")))) as log:
        places = {record.message.x_m for record in log.messages(StateEstimate)}
        volts = {np.float32(record.message.input_voltage_v) for record in log.messages(MotorStatus)}
    assert {each.pose.pose.position.x for each in other.messages("/odometry")} <= places
    assert {np.float32(each.voltage) for each in other.messages("/battery")} <= volts


@pytest.mark.soak  # make test: test_ros2_server.py commands through the control socket
def test_a_ros_node_drives_the_vehicle_and_gets_the_reason_of_a_refusal(tmp_path: Path) -> None:
    drive = (
        "sim",
        "--clock",
        "wall",
        "--by-hand",
        "--course",
        "circle_r5_ccw",
        *PATIENT,
        "--log",
        str(tmp_path),
        "--quiet",
    )
    folder = tmp_path / "v"
    topics = {topic: PUBLISHED[topic] for topic in ("/odometry", "/diagnostics")}
    with (
        node(topics) as other,
        vehicled(*drive, "--ros2", "--ros2-commands", RUNTIME_DIRECTORY=str(folder)) as run,
    ):
        twists = other.writer("/cmd_vel", "geometry_msgs/Twist")
        goals = other.writer("/goal_pose", "geometry_msgs/PoseStamped")
        try:
            other.take_until(
                lambda: (
                    bool(other.received["/odometry"]) and bool(goals.get_matched_subscriptions())
                )
            )
            ddspy_write(
                goals._ref, padded(encode("geometry_msgs/PoseStamped", (((0, 0), "odom"), POSE)))
            )
            other.take_until(
                lambda: any("only 'map' is understood" in text for text in diagnostics(other))
            )

            with Client(next(folder.glob("*.sock"))) as client:

                def send_twist() -> dict[str, Any]:
                    ddspy_write(
                        twists._ref,
                        padded(encode("geometry_msgs/Twist", ((1.0, 0.0, 0.0), (0.0, 0.0, 0.2)))),
                    )
                    time.sleep(0.03)
                    found: dict[str, Any] = client.status()
                    return found

                other.take_until(lambda: send_twist()["offboard"] == "ros2")
                client.ask(ActionRequest("arm"))
                other.take_until(lambda: send_twist()["mode"] == "ARMED")
                client.ask(ActionRequest("offboard"))
                other.take_until(lambda: send_twist()["mode"] == "OFFBOARD")
                fast = [padded(b"")]

                def drives() -> bool:
                    send_twist()
                    fast[0] = other.received["/odometry"][-1]
                    return bool(decoded("nav_msgs/Odometry", fast[0]).twist.twist.linear.x > 0.8)

                other.take_until(drives)
                assert decoded("nav_msgs/Odometry", fast[0]).twist.twist.angular.z > 0.05
                # Silence brakes.
                other.take_until(lambda: client.status()["mode"] == "STOPPING")
        finally:
            run.send_signal(signal.SIGINT)
            printed, said = run.communicate()
    assert "ROS 2 and commands from it" in said, printed


def diagnostics(other: Node) -> list[str]:
    return [status.message for each in other.messages("/diagnostics") for status in each.status]


def test_without_permission_no_option_and_no_library_there_is_a_reason() -> None:
    for arguments, why in (
        (("sim", "--ros2-commands"), "--ros2-commands needs --ros2"),
        (("sim", "--ros2", "--ros2-commands"), "--ros2-commands needs --clock wall"),
        (("sim", "--ros2", "eth99"), "--ros2: no network interface eth99"),
    ):
        with vehicled(*arguments) as run:
            _, said = run.communicate()
        assert (run.returncode, why in said) == (2, True), said
    with vehicled("sim", "--ros2", ROS_DOMAIN_ID="300") as run:
        _, said = run.communicate()
    assert (run.returncode, "ROS_DOMAIN_ID is 300" in said) == (2, True), said
