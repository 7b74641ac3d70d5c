"""A drive seen from ROS 2: what nodes receive is what the log holds, and nothing else changes."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.closed_loop.conftest import ROOT
from vehicled.bridges.ros2.topics import RENAMED

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from rosbags.highlevel import AnyReader

from tests.ros2_bench import DOMAIN, PUBLISHED, Node, node, padded

pytestmark = pytest.mark.xdist_group("ros2")


def vehicled(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "vehicled", *arguments],
        cwd=ROOT,
        env={**os.environ, "ROS_DOMAIN_ID": str(DOMAIN)},
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
            logged.setdefault(RENAMED.get(connection.topic, connection.topic), []).append(padded(bytes(data)))
    return logged


def test_in_lockstep_a_node_receives_every_standard_message_of_the_log(tmp_path: Path) -> None:
    drive = ("sim", "--seed", "7", "--duration", "12", "--log", str(tmp_path), "--ros2", "--quiet", "--json")
    with node(PUBLISHED) as other, vehicled(*drive) as run:
        other.take_until(lambda: run.poll() is not None)
        printed, said = run.communicate()
    logged = standard_messages(tmp_path)
    assert said == f"ROS 2: domain {DOMAIN}, this computer alone\n"
    for topic in set(PUBLISHED) - {"/clock", "/tf_static"}:
        assert other.received[topic] == logged.get(topic, []), topic
    assert sum(map(len, other.received.values())) > 10_000

    odometry = stamps(other, "/odometry")
    assert np.diff(odometry) == pytest.approx(0.02, rel=0.01)
    clock = [each.clock.sec + each.clock.nanosec * 1e-9 for each in other.messages("/clock")]
    assert 0.0 < np.diff(clock).min() <= np.diff(clock).max() < 0.011
    assert clock[0] <= odometry[0] <= odometry[-1] <= clock[-1]
    (static,) = other.messages("/tf_static")
    assert {each.child_frame_id: each.transform.translation.z for each in static.transforms} == {"gnss_link": 0.3, "imu_link": 0.1}
    assert {each.header.frame_id for each in static.transforms} == {"base_link"}
    assert json.loads(printed)["digest"].startswith("fca418c4")


def stamps(other: Node, topic: str) -> list[float]:
    return [each.header.stamp.sec + each.header.stamp.nanosec * 1e-9 for each in other.messages(topic)]


def test_on_the_wall_clock_stamps_are_utc_and_never_ahead_of_it(tmp_path: Path) -> None:
    drive = (
        "sim",
        "--profile",
        "art_vesc",
        "--clock",
        "wall",
        "--strict-clock",
        "--duration",
        "4",
        "--log",
        str(tmp_path),
        "--ros2",
        "--quiet",
    )
    ahead_s = []
    with node(PUBLISHED) as other, vehicled(*drive) as run:
        while run.poll() is None:
            before = len(other.received["/odometry"])
            other.take()
            now_s = time.time()
            ahead_s += [stamp - now_s for stamp in stamps(other, "/odometry")[before:]]
            time.sleep(0.01)
        printed, said = run.communicate()
        other.take()
    logged = standard_messages(tmp_path)
    assert ahead_s, printed + said
    assert max(ahead_s) < 0.0
    assert not other.received["/clock"]
    for topic in ("/imu", "/fix", "/odometry", "/tf", "/battery", "/ackermann_cmd_sent", "/path"):
        assert other.received[topic], topic
        # The first messages come before the node has found the writers.
        assert set(other.received[topic]) <= set(logged[topic]), topic
