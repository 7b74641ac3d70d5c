"""The bridge to ROS 2 and Fast DDS, the middleware of most ROS 2 installations: its C++ library
reads and writes the topics."""

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("cyclonedds", reason="needs cyclonedds: pip install 'vehicled[ros2]'")

from tests.ros2_bench import CONFIG, DOMAIN, PUBLISHED, Daemon, bridge, decoded, padded, sample
from tests.unit.view_facts import STARTED_NS, estimate, packed
from vehicled.core.messages import Message
from vehicled.core.messages import Path as Course
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.bridges.ros2.config import Ros2Config
from vehicled.live.bridges.ros2.topics import RENAMED, dds_name
from vehicled.log.projecting import Projector
from vehicled.ros.standard import encode

pytestmark = pytest.mark.xdist_group("ros2")

SOURCE = Path(__file__).parents[1] / "stand_ins" / "fastdds_node.cpp"
COURSE = Course(
    STARTED_NS, "line", False, (0.0, 10.0), (0.0, 0.0), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("fastdds") / "node"
    compiler = shutil.which("g++")
    if (
        compiler is None
        or not Path("/usr/include/fastdds/dds/domain/DomainParticipant.hpp").exists()
    ):
        pytest.skip("needs Fast DDS and a compiler: apt-get install g++ libfastrtps-dev")
    subprocess.run(
        [compiler, "-std=c++17", "-o", str(made), str(SOURCE), "-lfastrtps", "-lfastcdr"],
        check=True,
    )
    return made


@contextmanager
def fast_node(
    program: Path, does: str, topic: str, type_name: str, *qos: str
) -> Iterator["subprocess.Popen[str]"]:
    name = dds_name(topic, type_name)
    command = [str(program), does, str(DOMAIN), name.topic, name.type_name, *qos]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield process
        if process.stdin is not None:
            process.stdin.close()
        process.wait()


def lines(process: "subprocess.Popen[str]") -> Iterator[bytes]:
    assert process.stdout is not None
    for line in process.stdout:
        yield bytes.fromhex(line)


def projected(messages: list[tuple[Message, int]], topic: str, config: Ros2Config) -> list[bytes]:
    """Return what the log would hold of a topic."""
    projector = Projector(config.offset_ns)
    names = {
        number: RENAMED.get(each.topic, each.topic) for number, each in projector.channels.items()
    }
    return [
        padded(payload)
        for number, _, _, payload in projector.projected(packed(messages))
        if names[number] == topic
    ]


def test_a_reliable_node_receives_the_bytes_of_the_log_and_loses_none(program: Path) -> None:
    with (
        bridge(simulated_time=True) as process,
        fast_node(program, "read", "/imu", PUBLISHED["/imu"], "reliable", "volatile") as node,
    ):
        received = lines(node)
        found = reach(process, received)
        messages = [sample(number) for number in range(1000)]
        process.send(FrameKind.RECORDS, packed(messages))
        expected = projected(messages, "/imu", CONFIG)
        while found != expected[0]:
            found = next(received)
        assert [found, *(next(received) for _ in expected[1:])] == expected


def test_a_node_with_the_qos_of_sensor_data_receives_too(program: Path) -> None:
    with (
        bridge() as process,
        fast_node(program, "read", "/imu", PUBLISHED["/imu"], "best_effort", "volatile") as node,
    ):
        assert decoded(PUBLISHED["/imu"], reach(process, lines(node))).linear_acceleration.z == 9.81


def reach(process: BridgeProcess, received: Iterator[bytes]) -> bytes:
    """Send samples until the node receives them; return the first that it received."""
    over = threading.Event()

    def send() -> None:
        number = -100_000
        while not over.wait(0.01):
            number += 1
            process.send(FrameKind.RECORDS, packed([sample(number)]))

    thread = threading.Thread(target=send)
    thread.start()
    try:
        return next(received)
    finally:
        over.set()
        thread.join()


def test_fast_dds_joins_late_and_gets_the_course(program: Path) -> None:
    with bridge() as process:
        process.send(FrameKind.RECORDS, packed([(COURSE, STARTED_NS), (estimate(0.0), STARTED_NS)]))
        with fast_node(program, "read", "/path", "nav_msgs/Path", "reliable", "latched") as node:
            assert [next(lines(node))] == projected([(COURSE, STARTED_NS)], "/path", CONFIG)


def test_fast_dds_commands_the_vehicle(program: Path, tmp_path: Path) -> None:
    daemon = Daemon(tmp_path / "daemon.sock")
    twist = padded(encode("geometry_msgs/Twist", ((2.0, 0.0, 0.0), (0.0, 0.0, 0.5)))).hex()
    with (
        bridge(control_socket=str(tmp_path / "daemon.sock")),
        fast_node(
            program, "write", "/cmd_vel", "geometry_msgs/Twist", "reliable", "volatile"
        ) as node,
    ):
        assert node.stdin is not None
        while not daemon.arrived.wait(0.02):
            print(twist, file=node.stdin, flush=True)
    daemon.close()
    assert daemon.requests[0]["do"] == "setpoint"
    assert (daemon.requests[0]["speed_mps"], daemon.requests[0]["curvature_per_m"]) == (2.0, 0.25)
