"""The other side of the ROS 2 bridge: readers and writers of Cyclone DDS that see bytes, as a ROS middleware does."""

import gc
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from cyclonedds._clayer import ddspy_take
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from rosbags.typesys import Stores, get_typestore

from vehicled.bridges.ros2.dds import configuration, idl_type
from vehicled.bridges.ros2.topics import dds_name

DOMAIN = 10 + os.getpid() % 200
"""Tests that run side by side do not hear each other."""
ANY_STATE = 0xFFFF
LATCHED = {"/path", "/tf_static"}
PUBLISHED = {
    "/odometry": "nav_msgs/Odometry",
    "/imu": "sensor_msgs/Imu",
    "/fix": "sensor_msgs/NavSatFix",
    "/scan": "sensor_msgs/LaserScan",
    "/tf": "tf2_msgs/TFMessage",
    "/tf_static": "tf2_msgs/TFMessage",
    "/path": "nav_msgs/Path",
    "/diagnostics": "diagnostic_msgs/DiagnosticArray",
    "/battery": "sensor_msgs/BatteryState",
    "/ackermann_cmd_wanted": "ackermann_msgs/AckermannDriveStamped",
    "/ackermann_cmd_sent": "ackermann_msgs/AckermannDriveStamped",
    "/clock": "rosgraph_msgs/Clock",
}
STORE = get_typestore(Stores.ROS2_HUMBLE)


def decoded(type_name: str, record: bytes) -> Any:
    """Return a record as ROS' own definition of its type reads it."""
    return STORE.deserialize_cdr(record, type_name.replace("/", "/msg/"))


class Node:
    """A participant on loopback with reliable readers that keep everything."""

    def __init__(self, topics: Mapping[str, str] | None = None, domain: int = DOMAIN) -> None:
        self._domain = Domain(domain, configuration("127.0.0.1"))
        self._participant = DomainParticipant(domain)
        self.readers = {topic: self._reader(topic, type_name) for topic, type_name in (topics or {}).items()}
        self.received: dict[str, list[bytes]] = {topic: [] for topic in self.readers}

    def _qos(self, topic: str) -> Qos:
        return Qos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.Durability.TransientLocal if topic in LATCHED else Policy.Durability.Volatile,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )

    def _topic(self, topic: str, type_name: str) -> "Topic[Any]":
        return Topic(self._participant, dds_name(topic, type_name).topic, idl_type(type_name))

    def _reader(self, topic: str, type_name: str) -> "DataReader[Any]":
        return DataReader(self._participant, self._topic(topic, type_name), self._qos(topic))

    def writer(self, topic: str, type_name: str) -> "DataWriter[Any]":
        """Create a reliable writer."""
        return DataWriter(self._participant, self._topic(topic, type_name), self._qos(topic))

    def close(self) -> None:
        """Leave the domain."""
        self.readers.clear()
        del self._participant, self._domain
        gc.collect()

    def take(self) -> None:
        """Append what has arrived to :attr:`received`."""
        for topic, reader in self.readers.items():
            while len(samples := ddspy_take(reader._ref, ANY_STATE, 1000)):
                self.received[topic] += [bytes(data) for data, info in samples if info.valid_data]

    def take_until(self, done: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Take until a condition holds, or fail."""
        end_s = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end_s, {topic: len(records) for topic, records in self.received.items()}
            self.take()
            time.sleep(0.002)
        self.take()

    def messages(self, topic: str) -> Iterator[Any]:
        """Iterate over what has arrived on a topic, as ROS reads it."""
        for record in self.received[topic]:
            yield decoded(PUBLISHED[topic], record)


def padded(record: bytes) -> bytes:
    """Return a record as it goes over the wire: a multiple of 4 bytes."""
    return record.ljust(-(-len(record) // 4) * 4, b"\0")


@contextmanager
def node(topics: Mapping[str, str] | None = None) -> Iterator[Node]:
    """Yield a node, and leave no socket of it open."""
    opened = Node(topics)
    try:
        yield opened
    finally:
        opened.close()
