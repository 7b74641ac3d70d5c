"""The other side of the ROS 2 bridge: readers and writers of Cyclone DDS that see bytes, as a ROS
middleware does."""

import gc
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
from cyclonedds._clayer import ddspy_take
from cyclonedds.core import Policy, Qos
from cyclonedds.domain import Domain, DomainParticipant
from cyclonedds.pub import DataWriter
from cyclonedds.sub import DataReader
from cyclonedds.topic import Topic
from cyclonedds.util import duration
from rosbags.typesys import Stores, get_typestore

from tests.unit.view_facts import STARTED_NS, estimate, packed
from vehicled.core.messages import ImuSample, Message
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.dds import configuration, idl_type
from vehicled.live.bridges.ros2.topics import dds_name

DOMAIN = 10 + os.getpid() % 200
"""Keep tests that run side by side in domains of their own."""
TAKEN = (1000,) if version("cyclonedds").startswith("0.") else (0xFFFF, 1000)
"""Samples of any state, a thousand at a time."""
LATCHED = {"/path", "/tf_static"}
PUBLISHED = {
    "/odometry": "nav_msgs/Odometry",
    "/imu": "sensor_msgs/Imu",
    "/fix": "sensor_msgs/NavSatFix",
    "/scan": "sensor_msgs/LaserScan",
    "/tf": "tf2_msgs/TFMessage",
    "/tf_static": "tf2_msgs/TFMessage",
    "/cmd_vel_wanted": "geometry_msgs/TwistStamped",
    "/path": "nav_msgs/Path",
    "/diagnostics": "diagnostic_msgs/DiagnosticArray",
    "/battery": "sensor_msgs/BatteryState",
    "/ackermann_cmd_wanted": "ackermann_msgs/AckermannDriveStamped",
    "/ackermann_cmd_sent": "ackermann_msgs/AckermannDriveStamped",
    "/clock": "rosgraph_msgs/Clock",
}
CONFIG = Ros2Config(
    domain=DOMAIN,
    interface="127.0.0.1",
    offset_ns=1_700_000_000 * 10**9,
    simulated_time=False,
    sensors={"imu_link": (0.25, 0.0, 0.1)},
    datum=(0.75, -1.5, 259.0),
    wheelbase_m=0.5,
    max_wheel_rad=0.4,
    control_socket="",
)
STORE = get_typestore(Stores.ROS2_HUMBLE)


def decoded(type_name: str, record: bytes) -> Any:
    """Return a record as ROS' own definition of its type reads it."""
    return STORE.deserialize_cdr(record, type_name.replace("/", "/msg/"))


class Node:
    """A participant on loopback with reliable readers that keep everything."""

    def __init__(self, topics: Mapping[str, str] | None = None, domain: int = DOMAIN) -> None:
        self._domain = Domain(domain, configuration("127.0.0.1"))
        self.participant = DomainParticipant(domain)
        self.readers = {
            topic: self._reader(topic, type_name) for topic, type_name in (topics or {}).items()
        }
        self.received: dict[str, list[bytes]] = {topic: [] for topic in self.readers}

    def _qos(self, *, latched: bool) -> Qos:
        return Qos(
            Policy.Reliability.Reliable(duration(seconds=1)),
            Policy.Durability.TransientLocal if latched else Policy.Durability.Volatile,
            Policy.History.KeepAll,
            Policy.DataRepresentation(use_cdrv0_representation=True),
        )

    def _topic(self, topic: str, type_name: str) -> "Topic[Any]":
        return Topic(self.participant, dds_name(topic, type_name).topic, idl_type(type_name))

    def _reader(self, topic: str, type_name: str) -> "DataReader[Any]":
        qos = self._qos(latched=topic in LATCHED)
        return DataReader(self.participant, self._topic(topic, type_name), qos)

    def writer(self, topic: str, type_name: str, *, latched: bool = False) -> "DataWriter[Any]":
        """Create a reliable writer. ``latched``: it keeps what it wrote for those that join
        later."""
        qos = self._qos(latched=latched)
        return DataWriter(self.participant, self._topic(topic, type_name), qos)

    def close(self) -> None:
        """Leave the domain."""
        self.readers.clear()
        del self.participant, self._domain
        gc.collect()

    def take(self) -> None:
        """Append what has arrived to :attr:`received`."""
        for topic, reader in self.readers.items():
            while len(samples := ddspy_take(reader._ref, *TAKEN)):
                self.received[topic] += [bytes(data) for data, info in samples if info.valid_data]

    def take_until(self, done: Callable[[], bool], timeout_s: float = 60.0) -> None:
        """Take until a condition holds, or fail."""
        end_s = time.monotonic() + timeout_s
        while not done():
            assert time.monotonic() < end_s, {
                topic: len(records) for topic, records in self.received.items()
            }
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
def bridge(**changes: Any) -> Iterator[BridgeProcess]:
    """Run the bridge's process."""
    process = BridgeProcess.start(
        "ROS 2", "vehicled.live.bridges.ros2.server", msgspec.structs.replace(CONFIG, **changes)
    )
    try:
        yield process
    finally:
        process.close()


def sample(number: int) -> tuple[Message, int]:
    """Return an IMU sample whose acceleration is its number, and its time."""
    t_ns = STARTED_NS + number * 2_500_000
    return ImuSample(t_ns, t_ns, (float(number), 0.0, 9.81), (0.0, 0.0, 0.0)), t_ns


def warm_up(other: Node, process: BridgeProcess) -> None:
    """Send samples and estimates until the node receives both: it may have found a writer that has
    not yet found it."""
    number = -10_000

    def seen() -> bool:
        nonlocal number
        number += 10
        message, t_ns = sample(number)
        process.send(FrameKind.RECORDS, packed([(message, t_ns), (estimate(0.0, t_ns=t_ns), t_ns)]))
        return all(other.received.values())

    other.take_until(seen)


class Daemon:
    """The daemon's end of the control socket: it notes requests and answers what the bridge
    needs."""

    def __init__(self, path: Path) -> None:
        self.requests: list[dict[str, Any]] = []
        self.arrived = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._clients: list[socket.socket] = []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        served = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            self._clients.append(client)
            served.append(threading.Thread(target=self._answer, args=(client,)))
            served[-1].start()
        for thread in served:
            thread.join()

    def _answer(self, client: socket.socket) -> None:
        # The far side, or the end of the test, may close it in the middle of an answer.
        with suppress(OSError), client, client.makefile("rb") as lines:
            for line in lines:
                request = msgspec.json.decode(line)
                self.requests.append(request)
                self.arrived.set()
                if request["do"] == "goto":
                    client.sendall(b'{"ok":false,"why":"the goal lies outside the fence"}\n')
                elif request["do"] != "setpoint":
                    client.sendall(b'{"ok":true}\n')

    def close(self) -> None:
        """End all connections."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        self._thread.join()


def rtps_packets() -> list[bytes]:
    """Return valid packets of another participant: discovery, data, heartbeats and fragments, as
    they go to the ports."""
    submessages = {
        0x06: 24, 0x07: 28, 0x08: 28, 0x09: 8, 0x0C: 12, 0x0D: 16, 0x0E: 12, 0x12: 32, 0x13: 24,
        0x15: 60, 0x16: 80,
    }  # fmt: skip
    head = b"RTPS\x02\x04\x01\x10" + bytes(range(12))
    packets = [b"\xff" * 64, b"RTPS", head]
    for kind, size in submessages.items():
        body = bytes((kind * number) % 256 for number in range(size))
        packets.append(head + bytes((kind, 1)) + size.to_bytes(2, "little") + body)
    # Data of the built-in writer of participants, with the parameters of a participant.
    parameters = b"".join(
        number.to_bytes(2, "little") + len(value).to_bytes(2, "little") + value
        for number, value in (
            (0x15, b"\x02\x04\0\0"), (0x16, b"\x01\x10\0\0"),
            (0x50, bytes(range(12)) + b"\0\0\x01\xc1"), (0x58, b"\x3f\x0c\0\0"),
            (0x31, b"\x01\0\0\0\xf4\x1c\0\0" + bytes(12) + b"\x7f\0\0\x01"),
            (0x02, b"\x0a\0\0\0\0\0\0\0"), (0x01, b""),
        )
    )  # fmt: skip
    data = b"\0\0\x10\0\0\0\x01\0\xc7\0\x01\0\xc2\0\0\0\0\x01\0\0\0\0\x03\0\0" + parameters
    packets.append(head + b"\x15\x05" + len(data).to_bytes(2, "little") + data)
    return packets


@contextmanager
def node(topics: Mapping[str, str] | None = None) -> Iterator[Node]:
    """Yield a node, and leave no socket of it open."""
    opened = Node(topics)
    try:
        yield opened
    finally:
        opened.close()
