"""Our logs in other people's readers: rosbags and mcap see the same types, counts, stamps and
values."""

import math
from pathlib import Path as FilePath

import numpy as np
import pytest
from mcap.reader import make_reader
from mcap.records import Footer
from mcap.records import Message as McapMessage
from mcap.stream_reader import StreamReader

from vehicled.core import messages
from vehicled.core.messages import NAN, Message
from vehicled.log.pipe import WriterProcess
from vehicled.log.reader import LogReader
from vehicled.log.schema import CHANNELS, RunHeader, TaskRow

rosbags = pytest.importorskip("rosbags.highlevel")

OFFSET = 1_790_000_000_000_000_000 - 7_000
SAMPLES: tuple[Message, ...] = (
    messages.GnssFix(
        1,
        2,
        0.7,
        -1.5,
        280.0,
        (1.0, 2.0, 3.0),
        (1e-4,) * 9,
        satellites=21,
        fix_type=messages.FixType.FIX_3D,
    ),
    messages.ImuSample(2, 3, (0.1, -0.2, 9.8), (1e-3, 2e-3, -3e-3), NAN, True),
    messages.Heading(3, 4, 0.5, 0.01, messages.HeadingKind.MOVING_BASE),
    messages.MotorStatus(4, 5, motor_speed_radps=100.0, fault_code=3),
    messages.WheelSpeed(5, 6, 2.0, 0.1),
    messages.SteeringFeedback(6, 7, -0.1, 0.01),
    messages.OperatorCommand(7, 8, messages.OperatorAction.DRIVE, "Bédiené"),
    messages.StateEstimate(
        8,
        7,
        1.0,
        2.0,
        0.3,
        1.5,
        0.1,
        tuple(float(n) for n in range(16)),
        messages.EstimatorStatus.RUNNING,
    ),
    messages.ControlCommand(9, 8, 0.1, 0.4, 0.0, 2.0),
    messages.ActuatorStatus(10, 11, "left", 300.0, 12.0, 3.0, 24.1, 0.4, 320.0, 330.0, 2),
    messages.ActuatorCommand(
        10, 8, 0.4, 0.0, 0.3, 0.1, messages.Mode.AUTO, messages.Reaction.WARN, 5
    ),
    messages.WireChunk(11, "gnss", messages.Direction.TX, bytes(range(256))),
    messages.Corrections(12, 13, "caster", b"\xd3\x00"),
    messages.TaskTick(13, 14, 15, -1, 100, 2, 3, True, messages.Cause.UNKNOWN, 255),
    messages.Fault(
        14, "gnss_silent", "supervisor", messages.Reaction.BRAKE, True, "no fix for 0.5 s"
    ),
    messages.Event(15, "info", "start", "{}"),
    messages.PortEvent(16, "gnss", messages.PortState.LOST, "unplugged"),
    messages.Path(17, "sine", False, (0.0, 1.0), (0.0, 0.1), (0.0, 0.0), (0.0, 0.0), (1.0, 1.0)),
    messages.GroundTruth(18, 19, 1.0, 2.0, 0.3, 1.5, 0.1, 0.05, 8.1),
    messages.Identification(
        19, 0.3, 0.01, 0.4, 0.0, 2.5, 0.5, 0.4, 1.0, 0.1, steering_gain_sigma_rad=0.01
    ),
    messages.TeleopCommand(20, 21, -0.5, 0.3, 0.0, True, "keyboard", 7),
    messages.Heartbeat(21, 22, "ground station"),
    messages.ObstacleRange(22, 23, math.inf),
    messages.HostHealth(23, disk_free_share=0.5, log_failure="disk full"),
    messages.MachineCall(24, messages.Verb.BRAKE),
    messages.GarbageCollection(26, 3_000_000, 2, 1000),
    messages.ModeChange(
        27,
        messages.Mode.AUTO,
        messages.Mode.FAULT,
        messages.Reaction.BRAKE,
        "a",
        "b",
        "c",
        "why",
        0.06,
        0.05,
        "s",
    ),
    messages.Setpoint(28, 29, 1.0, 0.2, math.nan, "planner", 9),
    messages.CourseCommand(29, 30, "planner", "yard", b"\x00\xff"),
    messages.SpeedCommand(30, 31, "planner", math.inf),
    messages.ParameterCommand(31, 32, "planner", "speed.p", 0.5),
    messages.ReferenceState(
        33, 34, 0.7, -1.5, 280.0, (1.0, 2.0, 0.0), 0.0, 0.01, 0.5, 0.1, (0.01, 0.01, 0.02)
    ),
    messages.LaserScan(
        25, 26, -0.5, 0.25, 1e-4, 0.1, 0.05, 30.0, 0.4, 0.0, (1.0, math.inf, -math.inf, 2.5)
    ),
    messages.RcChannels(34, 35, (992.0, 172.0, math.nan), False, True, 0.97, -48.0, 11.0),
    messages.ObstacleContact(35, 36, 1.0, 2.0, -0.3, 0.8, 1.5, "wall north"),
    messages.GearReport(38, 39, messages.Gear.REVERSE),
    messages.NeighbourState(
        37,
        38,
        "leader",
        1.0,
        -2.0,
        0.5,
        0.9,
        0.1,
        0.02,
        0.3,
        0.0,
        -0.05,
        7,
        0.004,
        (0.0, 0.5),
        (1.0, 1.4),
        (-2.0, -1.8),
        (0.5, 0.5),
        (0.9, 0.8),
    ),
    messages.PlannedMotion(37, (0.0, 0.5), (1.0, 1.4), (-2.0, -1.8), (0.5, 0.5), (0.9, -0.8)),
    messages.TimePulse(39, 40, 1_767_225_600 * 10**9, 0.0123, 2e-6),
    messages.MapPose(
        36,
        37,
        1.0,
        -2.0,
        0.5,
        (0.01, 0.0, 0.0, 0.0, 0.02, 0.0, 0.0, 0.0, 0.001),
        0.9,
        messages.MapMatch.MATCHED,
    ),
    messages.HeightMap(
        40, 41, -2.0, -2.0, 2.0, 2, 0.5, -62.8, 0.3, 0.0, (0.1, math.nan, -0.2, 0.0)
    ),
    messages.VirtualWorld(39, 40, "cut_in.toml", stops_if_lost=True),
    messages.VirtualScan(
        41,
        42,
        -0.5,
        0.25,
        0.0,
        0.05,
        0.0,
        30.0,
        0.2,
        0.0,
        (1.0, math.inf, 2.5),
        True,
        3.0,
        4.0,
        0.1,
    ),
)


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    header = RunHeader(
        run_id="0123456789abcdef", start_wall_ns=1_790_000_000_000_000_000,
        start_monotonic_ns=7_000, profile="art", course="sine",
        tasks=[TaskRow(name="control", rate_hz=100.0, deadline_ns=10_000_000)],
    )  # fmt: skip
    writer = WriterProcess.start(header, folder=str(tmp_path_factory.mktemp("log")), blocking=True)
    assert {type(sample) for sample in SAMPLES} == set(messages.ALL)
    for turn in range(30):
        for sample in SAMPLES:
            t_ns = sample.__getattribute__(sample.__struct_fields__[0]) + turn * 100_000_000
            writer.sink.record(sample, t_ns)
            writer.pump(t_ns)
    result = writer.close({"reason": "done"}, 10**10)
    assert result.finished
    return FilePath(result.path)


def plain(value):
    return value.tolist() if isinstance(value, np.ndarray) else value


def same(ours, theirs):
    ours = list(ours) if isinstance(ours, tuple | bytes) else ours
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(same(a, b) for a, b in zip(ours, theirs))
    return ours == theirs or (isinstance(ours, float) and math.isnan(ours) and math.isnan(theirs))


def test_rosbags_reads_every_message_with_type_stamp_and_value(path):
    by_topic = {CHANNELS[type(sample)].topic: sample for sample in SAMPLES}
    seen = dict.fromkeys(by_topic, 0)
    with rosbags.AnyReader([path]) as bag:
        ours = [connection for connection in bag.connections if connection.topic in by_topic]
        expected = {
            topic: f"vehicled_msgs/msg/{type(sample).__name__}"
            for topic, sample in by_topic.items()
        }
        assert {connection.topic: connection.msgtype for connection in ours} == expected
        assert all(connection.msgcount == 30 for connection in ours)
        for connection, stamp_ns, data in bag.messages(ours):
            sample = by_topic[connection.topic]
            turn = seen[connection.topic]
            seen[connection.topic] += 1
            assert (
                stamp_ns
                == OFFSET + getattr(sample, sample.__struct_fields__[0]) + turn * 100_000_000
            )
            theirs = bag.deserialize(data, connection.msgtype)
            for name in sample.__struct_fields__:
                assert same(getattr(sample, name), plain(getattr(theirs, name))), (
                    connection.topic,
                    name,
                )
    assert set(seen.values()) == {30}


def test_rosbags_reads_the_standard_types(path):
    with rosbags.AnyReader([path]) as bag:
        types = {connection.topic: connection.msgtype for connection in bag.connections}
        assert types["/gnss/fix"] == "sensor_msgs/msg/NavSatFix"
        assert types["/odometry"] == "nav_msgs/msg/Odometry"
        assert types["/diagnostics"] == "diagnostic_msgs/msg/DiagnosticArray"
        for connection, stamp_ns, data in bag.messages(
            [c for c in bag.connections if c.topic == "/gnss/fix"]
        ):
            fix = bag.deserialize(data, connection.msgtype)
            assert fix.latitude == pytest.approx(math.degrees(0.7), abs=1e-12)
            assert fix.header.stamp.sec * 10**9 + fix.header.stamp.nanosec == OFFSET + 1
            assert stamp_ns >= OFFSET + 1


def test_mcap_reads_the_same_bytes_with_all_checksums(path):
    with open(path, "rb") as stream:
        reader = make_reader(stream, validate_crcs=True)
        summary = reader.get_summary()
        assert summary is not None
        assert summary.statistics is not None
        assert reader.get_header().profile == "ros2"
        counts = {
            channel.topic: summary.statistics.channel_message_counts[channel.id]
            for channel in summary.channels.values()
        }
        theirs = [
            (message.log_time - OFFSET, message.sequence)
            for _, channel, message in reader.iter_messages()
            if channel.topic.startswith("/vehicled/")
        ]
        assert (
            sum(1 for _ in reader.iter_messages())
            == summary.statistics.message_count
            == sum(counts.values())
        )
        assert [record.name for record in reader.iter_metadata()] == ["vehicled", "vehicled_end"]
    with open(path, "rb") as stream:
        # From the first byte to the last, without the summary's help: what stands outside of any
        # chunk is read too.
        records = list(StreamReader(stream, validate_crcs=True).records)
    assert (
        sum(isinstance(record, McapMessage) for record in records)
        == summary.statistics.message_count
    )
    assert isinstance(records[-1], Footer)
    with LogReader(path) as log:
        ours = [(record.t_ns, record.sequence) for record in log.messages()]
    assert sorted(ours) == sorted(theirs)
    assert len(ours) == 30 * len(SAMPLES)
