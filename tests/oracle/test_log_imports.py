"""Foreign logs as ours: real captures, and files written by the formats' own libraries or by hand
and read back by them."""

import itertools
import json
import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from tests import log_bench as bench
from vehicled import cli
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    StateEstimate,
    WheelSpeed,
)
from vehicled.log.cat import lines
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader
from vehicled.offline.analysis.export.exporting import export
from vehicled.offline.recordings import mcap, rosbag
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.importing import import_log
from vehicled.paths.datum import Datum
from vehicled.paths.stored import datum_of

WALK = "gnss_imu__walk_gnss_1730.ubx"


def capture(shared_data: Path, name: str) -> Path:
    return shared_data / "captures" / "gnss" / name


def taken(path: Path) -> list[tuple[int, Message]]:
    with LogReader(path) as log:
        return [(record.t_ns, record.message) for record in log.messages()]


# ------------------------------------------------------------------ u-blox


@pytest.mark.parametrize(
    ("name", "fixes", "carriers", "span_s"),
    [
        (WALK, 536, {"FIXED": 349, "FLOAT": 187}, 133.75),
        ("gpsd__ublox-zed-f9p-hp.log", 29, {"NONE": 29}, 28.0),
        ("gpsd__ublox-zed-f9p-rtk.log", 10, {"FLOAT": 10}, 9.0),
        ("gpsd__ublox-zed-f9p-nmea.log", 29, {"NONE": 29}, 28.0),
    ],
)
def test_captures_give_the_fixes_that_others_count(
    shared_data: Path,
    name: str,
    fixes: int,
    carriers: dict[str, int],
    span_s: float,
    tmp_path: Path,
) -> None:
    done = import_log(capture(shared_data, name), tmp_path / "out.mcap")
    assert done.counts == {"gnss_fix": fixes}
    found = [message for _, message in taken(tmp_path / "out.mcap") if isinstance(message, GnssFix)]
    assert Counter(fix.carrier.name for fix in found) == carriers
    assert (found[-1].t_ns - found[0].t_ns) * 1e-9 == pytest.approx(span_s, abs=0.01)
    # Stamps on the clock of the log are those of the receiver, to the regression's millisecond.
    for fix in found[5:]:
        assert (fix.t_ns - found[5].t_ns) * 1e-9 == pytest.approx(
            (fix.utc_ns - found[5].utc_ns) * 1e-9, abs=2e-3
        )
        assert 0 <= fix.t_rx_ns - fix.t_ns < 200_000_000
    with LogReader(tmp_path / "out.mcap") as log:
        assert log.header.clock == "imported"
        assert log.header.imported["file"] == name
        assert log.header.start_wall_ns == pytest.approx(found[0].utc_ns, abs=1_000_000_000)


def test_a_capture_and_its_values_by_pyubx2(shared_data: Path, tmp_path: Path) -> None:
    pyubx2 = pytest.importorskip("pyubx2")
    file = tmp_path / "walk.ubx"
    file.write_bytes(capture(shared_data, WALK).read_bytes()[:150_000])
    import_log(file, tmp_path / "out.mcap")
    found = [message for _, message in taken(tmp_path / "out.mcap") if isinstance(message, GnssFix)]
    with file.open("rb") as stream:
        parsed = [
            message
            for _, message in pyubx2.UBXReader(stream, protfilter=2)
            if message.identity == "NAV-PVT"
        ]
    assert len(parsed) > 40
    for fix, pvt in zip(found, parsed, strict=True):
        assert math.degrees(fix.latitude_rad) == pytest.approx(pvt.lat, abs=1e-9)
        assert math.degrees(fix.longitude_rad) == pytest.approx(pvt.lon, abs=1e-9)
        assert fix.velocity_enu_mps[0] == pytest.approx(pvt.velE * 1e-3)
        assert fix.satellites == pvt.numSV


def test_recorded_arrivals_are_kept(shared_data: Path, tmp_path: Path) -> None:
    data = capture(shared_data, "gpsd__ublox-zed-f9p-rtk.log").read_bytes()
    (tmp_path / "x.ubx").write_bytes(data)
    rows = [
        f"{at} {min(500, len(data) - at)} {7_000_000_000 + at * 40_000}"
        for at in range(0, len(data), 500)
    ]
    head = "# offset bytes monotonic_ns; monotonic 0 is UTC 1790000000000000000 ns\n"
    (tmp_path / "x.ubx.times").write_text(head + "\n".join(rows) + "\n")
    done = import_log(tmp_path / "x.ubx", tmp_path / "out.mcap")
    assert done.counts == {"gnss_fix": 10}
    arrivals = [
        message.t_rx_ns
        for _, message in taken(tmp_path / "out.mcap")
        if isinstance(message, GnssFix)
    ]
    assert set(arrivals) <= {7_000_000_000 + at * 40_000 for at in range(0, len(data), 500)}
    with LogReader(tmp_path / "out.mcap") as log:
        assert log.offset_ns == 1_790_000_000_000_000_000
    (tmp_path / "x.ubx.times").write_text("0 99999999 1\n")
    with pytest.raises(RecordingError, match="does not belong"):
        import_log(tmp_path / "x.ubx", tmp_path / "again.mcap")


def test_an_imported_walk_is_a_recording_and_a_track(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import_log(capture(shared_data, WALK), tmp_path / "walk.mcap")
    recording = mcap.load(tmp_path / "walk.mcap")
    assert not recording.published.known
    assert np.isfinite(recording.truth.x_m).sum() > 3500
    assert export(tmp_path / "walk.mcap", "gpx", tmp_path / "walk.gpx").counts["gnss"] == 536
    assert cli.main(["log", "info", str(tmp_path / "walk.mcap")]) == 0
    assert "imported" in capsys.readouterr().out


# ------------------------------------------------------------------ ROS


def test_a_bag_of_our_own_comes_back(tmp_path: Path) -> None:
    pytest.importorskip("rosbags")
    source = bench.write(tmp_path / "run.mcap", bench.drive(1, seconds=3))
    export(source, "rosbag2", tmp_path / "bag")
    done = import_log(tmp_path / "bag", tmp_path / "out.mcap")
    assert done.counts["gnss_fix"] == 30
    fixes = [message for _, message in taken(tmp_path / "out.mcap") if isinstance(message, GnssFix)]
    with LogReader(source) as log:
        for record, fix in zip(log.messages(GnssFix), fixes, strict=True):
            assert fix.t_ns == record.message.t_ns + log.offset_ns
            assert fix.latitude_rad == pytest.approx(record.message.latitude_rad, abs=1e-15)
            assert fix.carrier is CarrierSolution.NONE, (
                "the status is that of floating fixes, too, and no covariance decides"
            )
            assert fix.differential
    # The same file gives the same log.
    import_log(tmp_path / "bag", tmp_path / "again.mcap")
    assert list(lines(str(tmp_path / "out.mcap"))) == list(lines(str(tmp_path / "again.mcap")))


def test_headings_and_wheel_speeds_survive_a_bag_of_our_own(tmp_path: Path) -> None:
    """Beside the inertial unit's topic of the same type; the speed of the estimate is no
    measurement."""
    pytest.importorskip("rosbags")

    def drive() -> Iterator[tuple[int, Message]]:
        for t_ns, message in bench.drive(1, seconds=3):
            yield t_ns, message
            if isinstance(message, GnssFix):
                kind = HeadingKind.MOVING_BASE
                yield t_ns, Heading(t_ns, t_ns, -2.5 + 1e-9 * (t_ns - bench.START_NS), 0.01, kind)
                yield t_ns, WheelSpeed(t_ns, t_ns, 1.5, 0.1)
            yield t_ns, ImuSample(t_ns, t_ns, (0.0, 0.0, 9.8), (0.0, 0.0, 0.2))

    export(bench.write(tmp_path / "run.mcap", drive()), "rosbag2", tmp_path / "bag")
    done = import_log(tmp_path / "bag", tmp_path / "out.mcap")
    assert done.counts["heading"] == done.counts["wheel_speed"] == 30
    headings = [
        message for _, message in taken(tmp_path / "out.mcap") if isinstance(message, Heading)
    ]
    assert [heading.yaw_rad for heading in headings] == pytest.approx(
        [-2.5 + 0.1 * k for k in range(30)]
    )
    assert {(heading.kind, round(heading.sigma_rad, 9)) for heading in headings} == {
        (HeadingKind.MOVING_BASE, 0.01)
    }
    assert done.counts["imu_sample"] > 300
    recording = rosbag.load(tmp_path / "bag")
    assert sum(isinstance(message, Heading) for message in recording.inputs) == 30
    # The applied command has a throttle, for which there is no field: the speed that the controller
    # wanted is better than nothing.
    throttles = {
        message.throttle for message in recording.inputs if isinstance(message, ActuatorCommand)
    }
    assert throttles == {recording.vehicle.drive.steady_throttle(1.5)}


@pytest.mark.parametrize(
    ("variance_m2", "kind", "carrier"),
    [(16.0, 1, CarrierSolution.FLOAT), (0.011, 1, CarrierSolution.FLOAT),
     (4e-4, 1, CarrierSolution.FIXED),
     (4e-4, 0, CarrierSolution.NONE), (0.0, 2, CarrierSolution.NONE)],
)  # fmt: skip
def test_the_status_of_a_bag_is_believed_if_its_covariance_agrees(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    variance_m2: float,
    kind: int,
    carrier: CarrierSolution,
) -> None:
    """Drivers give GBAS to RTK fixed and floating alike; a floating track of metres must not become
    the truth."""
    rosbag1 = pytest.importorskip("rosbags.rosbag1")
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS1_NOETIC)
    types = store.types
    with rosbag1.Writer(tmp_path / "x.bag") as bag:
        fix = bag.add_connection("/fix", "sensor_msgs/msg/NavSatFix", typestore=store)
        for n in range(20):
            t_ns = 1_790_000_000_000_000_000 + n * 200_000_000
            head = types["std_msgs/msg/Header"](
                n, types["builtin_interfaces/msg/Time"](t_ns // 10**9, t_ns % 10**9), "gps"
            )
            status = types["sensor_msgs/msg/NavSatStatus"](2, 1)
            covariance = np.diag([variance_m2, variance_m2, 4 * variance_m2]).ravel()
            message = types["sensor_msgs/msg/NavSatFix"](
                head, status, 43.0 + 1e-6 * n, -89.0, 230.0, covariance, kind
            )
            bag.write(fix, t_ns, store.serialize_ros1(message, "sensor_msgs/msg/NavSatFix"))
    found = import_log(tmp_path / "x.bag", tmp_path / "out.mcap")
    assert {m.carrier for _, m in taken(tmp_path / "out.mcap") if isinstance(m, GnssFix)} == {
        carrier
    }
    assert ("20 fixes of status GBAS" in found.to_text()) is (carrier is not CarrierSolution.FIXED)
    assert rosbag.load(tmp_path / "x.bag").truth.known is (carrier is CarrierSolution.FIXED)
    assert cli.main(["bench", "recorded", str(tmp_path / "x.bag"), "--identifier", "none"]) == 0
    assert ("nothing to judge by" in capsys.readouterr().err) is (
        carrier is not CarrierSolution.FIXED
    )


def test_a_ros1_bag_with_odometry_for_wheels(tmp_path: Path) -> None:
    rosbag1 = pytest.importorskip("rosbags.rosbag1")
    typesys = pytest.importorskip("rosbags.typesys")
    store = typesys.get_typestore(typesys.Stores.ROS1_NOETIC)
    types = store.types
    zeros = np.zeros(36)
    with rosbag1.Writer(tmp_path / "x.bag") as bag:
        fix = bag.add_connection("/gps", "sensor_msgs/msg/NavSatFix", typestore=store)
        odometry = bag.add_connection("/odom", "nav_msgs/msg/Odometry", typestore=store)
        for n in range(5):
            t_ns = 1_790_000_000_000_000_000 + n * 100_000_000
            stamp = types["builtin_interfaces/msg/Time"](t_ns // 10**9, t_ns % 10**9)
            head = types["std_msgs/msg/Header"](n, stamp, "odom")
            status = types["sensor_msgs/msg/NavSatStatus"](2, 1)
            message = types["sensor_msgs/msg/NavSatFix"](
                head, status, 43.0, -89.0, 230.0, np.full(9, 0.01), 2
            )
            bag.write(
                fix, t_ns + 50_000_000, store.serialize_ros1(message, "sensor_msgs/msg/NavSatFix")
            )
            vector, point = types["geometry_msgs/msg/Vector3"], types["geometry_msgs/msg/Point"]
            pose = types["geometry_msgs/msg/Pose"](
                point(1.0, 2.0, 0.0), types["geometry_msgs/msg/Quaternion"](0.0, 0.0, 0.0, 1.0)
            )
            twist = types["geometry_msgs/msg/Twist"](vector(1.25, 0.0, 0.0), vector(0.0, 0.0, 0.0))
            message = types["nav_msgs/msg/Odometry"](
                head, "base_link", types["geometry_msgs/msg/PoseWithCovariance"](pose, zeros),
                types["geometry_msgs/msg/TwistWithCovariance"](twist, zeros),
            )  # fmt: skip
            bag.write(
                odometry, t_ns + 60_000_000, store.serialize_ros1(message, "nav_msgs/msg/Odometry")
            )
    done = import_log(tmp_path / "x.bag", tmp_path / "out.mcap")
    assert done.counts == {"gnss_fix": 5, "wheel_speed": 5}
    found = taken(tmp_path / "out.mcap")
    fix = found[0][1]
    assert isinstance(fix, GnssFix)
    assert (fix.t_ns, fix.t_rx_ns) == (1_790_000_000_000_000_000, 1_790_000_000_050_000_000)
    assert {message.speed_mps for _, message in found if isinstance(message, WheelSpeed)} == {1.25}


# ------------------------------------------------------------------ ArduPilot


def dataflash(
    path: Path,
    receivers: Sequence[tuple[int, int, int, int]] = ((0, 6, 2, 1),),
    yaw_deg: float = 0.0,
) -> None:
    """A log by the documented layout: A3 95 type, then the packed fields of the type's FMT.

    ``receivers``: number, status, horizontal accuracy in cm and use of each; a fix is followed by
    its accuracy.
    """
    formats = {
        128: ("FMT", "BBnNZ", "Type,Length,Name,Format,Columns", "<BB4s16s64s"),
        129: ("PARM", "QNff", "TimeUS,Name,Value,Default", "<Q16sff"),
        130: (
            "GPS",
            "QBBIHBcLLeffffB",
            "TimeUS,I,Status,GMS,GWk,NSats,HDop,Lat,Lng,Alt,Spd,GCrs,VZ,Yaw,U",
            "<QBBIHBhiiiffffB",
        ),
        131: ("GPA", "QBCCCCf", "TimeUS,I,VDop,HAcc,VAcc,SAcc,YAcc", "<QBHHHHf"),
        132: ("IMU", "QBffffff", "TimeUS,I,GyrX,GyrY,GyrZ,AccX,AccY,AccZ", "<QBffffff"),
        133: ("RCOU", "QHHHH", "TimeUS,C1,C2,C3,C4", "<QHHHH"),
    }

    def record(kind: int, *values: object) -> bytes:
        return b"\xa3\x95" + bytes([kind]) + struct.pack(formats[kind][3], *values)

    out = b""
    for kind, (name, format_text, columns, layout) in formats.items():
        size = 3 + struct.calcsize(layout)
        out += record(128, kind, size, name.encode(), format_text.encode(), columns.encode())
    for name, value in (
        ("SERVO2_FUNCTION", 26.0),
        ("SERVO3_FUNCTION", 70.0),
        ("SERVO2_REVERSED", 0.0),
    ):
        out += record(129, 0, name.encode(), value, 0.0)
    for n in range(20):
        t_us = 1_000_000 + n * 200_000
        for number, status, accuracy_cm, used in receivers:
            place = (430_705_000 + n, -894_090_000, 23_000)
            at = t_us + 100 * number
            week = (300_000_000 + n * 200, 2380)
            out += record(
                130, at, number, status, *week, 17, 70, *place, 2.0, 90.0, -0.5, yaw_deg, used
            )
            out += record(131, at, number, 120, accuracy_cm, 4, 10, 0.5)
        out += record(132, t_us + 1000, 0, 0.1, 0.2, 0.3, 1.0, 2.0, -9.8)
        out += record(132, t_us + 1000, 1, 9.0, 9.0, 9.0, 9.0, 9.0, 9.0)
        out += record(133, t_us + 2000, 1500, 1900, 1700, 1500)
    path.write_bytes(out)


def test_an_ardupilot_log_by_pymavlink(tmp_path: Path) -> None:
    reader = pytest.importorskip("pymavlink.DFReader")
    dataflash(tmp_path / "1.bin")
    done = import_log(tmp_path / "1.bin", tmp_path / "out.mcap")
    assert done.counts == {"actuator_command": 20, "gnss_fix": 20, "imu_sample": 20}
    assert any("steering is output 2" in note for note in done.notes)
    found = taken(tmp_path / "out.mcap")
    fixes = [m for _, m in found if isinstance(m, GnssFix)]
    oracle = reader.DFReader_binary(str(tmp_path / "1.bin"))
    for fix in fixes:
        gps = oracle.recv_match(type="GPS")
        assert math.degrees(fix.latitude_rad) == pytest.approx(gps.Lat, abs=1e-12)
        assert math.degrees(fix.longitude_rad) == pytest.approx(gps.Lng, abs=1e-12)
        assert (fix.height_m, fix.hdop) == (pytest.approx(gps.Alt), pytest.approx(gps.HDop))
        # The library's own conversion of week and time of week to UTC; it knows the leap seconds by
        # itself.
        assert fix.utc_ns == pytest.approx(
            oracle.clock._gpsTimeToTime(gps.GWk, gps.GMS) * 1e9, abs=1e6
        )
        assert fix.t_ns == gps.TimeUS * 1000
    oracle.filehandle.close()
    oracle.data_map.close()
    fix = fixes[0]
    assert (fix.fix_type, fix.carrier, fix.satellites) == (
        FixType.FIX_3D,
        CarrierSolution.FIXED,
        17,
    )
    # 2 m/s to the east and 0.5 m/s up; HAcc 0.02 m over both axes.
    assert fix.velocity_enu_mps == pytest.approx((2.0, 0.0, 0.5), abs=1e-6)
    assert fix.position_covariance_m2[0] == pytest.approx(0.0002)
    sample = next(m for _, m in found if isinstance(m, ImuSample))
    assert sample.angular_rate_radps == pytest.approx((0.1, -0.2, -0.3), abs=1e-6)
    assert sample.specific_force_mps2 == pytest.approx((1.0, -2.0, 9.8), abs=1e-6)
    command = next(m for _, m in found if isinstance(m, ActuatorCommand))
    # Full right, which is negative here; throttle by half.
    assert (command.steering, command.throttle) == (pytest.approx(-1.0), pytest.approx(0.5))


@pytest.mark.parametrize(
    ("receivers", "read", "accuracy_m", "words"),
    [
        (
            ((0, 3, 250, 0), (1, 6, 2, 1)),
            1,
            0.02,
            "GPS 1 is read, which the autopilot used most; not read: 0: 20 fixes",
        ),
        (((0, 6, 2, 1), (1, 3, 250, 0)), 0, 0.02, "GPS 0 is read, which the autopilot used most"),
        (((0, 3, 250, 0), (1, 6, 2, 0)), 1, 0.02, "GPS 1 is read, whose fixes are the best"),
        (
            ((0, 3, 250, 0), (1, 6, 2, 0), (2, 6, 1, 1)),
            1,
            0.02,
            "not read: 0: 20 fixes, 2: 20 fixes",
        ),
    ],
    ids=["second", "first", "unused", "blended"],
)
def test_a_fix_has_the_accuracy_of_its_own_receiver(
    receivers: Sequence[tuple[int, int, int, int]],
    read: int,
    accuracy_m: float,
    words: str,
    tmp_path: Path,
) -> None:
    pytest.importorskip("pymavlink")
    dataflash(tmp_path / "1.bin", receivers)
    done = import_log(tmp_path / "1.bin", tmp_path / "out.mcap")
    assert any(words in note for note in done.notes)
    fixes = [m for _, m in taken(tmp_path / "out.mcap") if isinstance(m, GnssFix)]
    assert len(fixes) == 20
    assert {fix.t_ns // 1000 % 1000 for fix in fixes} == {100 * read}
    assert {fix.carrier for fix in fixes} == {CarrierSolution.FIXED}
    for fix in fixes:
        assert fix.position_covariance_m2[0] == pytest.approx(accuracy_m**2 / 2)


def test_an_accuracy_of_another_epoch_is_none(tmp_path: Path) -> None:
    pytest.importorskip("pymavlink")
    dataflash(tmp_path / "1.bin")
    data = bytearray((tmp_path / "1.bin").read_bytes())
    # Each second accuracy is lost: its message becomes one of an unknown receiver.
    at, count = -1, 0
    while (at := data.find(b"\xa3\x95\x83", at + 1)) >= 0:
        count += 1
        data[at + 11] = 7 if count % 2 else 0
    (tmp_path / "1.bin").write_bytes(data)
    import_log(tmp_path / "1.bin", tmp_path / "out.mcap")
    fixes = [m for _, m in taken(tmp_path / "out.mcap") if isinstance(m, GnssFix)]
    assert [math.isnan(fix.position_covariance_m2[0]) for fix in fixes] == [True, False] * 10


def test_the_heading_of_two_antennas_is_read(tmp_path: Path) -> None:
    pytest.importorskip("pymavlink")
    dataflash(tmp_path / "1.bin", yaw_deg=360.0)
    import_log(tmp_path / "1.bin", tmp_path / "out.mcap")
    headings = [m for _, m in taken(tmp_path / "out.mcap") if isinstance(m, Heading)]
    assert len(headings) == 20
    assert headings[0].yaw_rad == pytest.approx(math.pi / 2)
    assert headings[0].sigma_rad == pytest.approx(math.radians(0.5))


# ------------------------------------------------------------------ PX4


def ulog(path: Path, first_fix_type: int | None = None) -> None:
    """A log by the ULog specification (docs.px4.io, "ULog File Format"), version 1.

    ``first_fix_type``: fix type of another receiver, which is then the first.
    """

    def message(kind: str, body: bytes) -> bytes:
        return struct.pack("<HB", len(body), ord(kind)) + body

    topics: Sequence[tuple[str, str, str]] = (
        (
            "sensor_gps", "<QddddfffffffQBB",
            (
                "uint64_t timestamp;double latitude_deg;double longitude_deg;double "
                "altitude_msl_m;double altitude_ellipsoid_m;"
                "float vel_n_m_s;float vel_e_m_s;float vel_d_m_s;float eph;float epv;float "
                "s_variance_m_s;float hdop;"
                "uint64_t time_utc_usec;uint8_t fix_type;uint8_t satellites_used;"
            ),
        ),
        ("sensor_combined", "<Qffffff",
         "uint64_t timestamp;float[3] gyro_rad;float[3] accelerometer_m_s2;"),
        ("actuator_motors", "<Qff", "uint64_t timestamp;float[2] control;"),
        ("actuator_servos", "<Qff", "uint64_t timestamp;float[2] control;"),
    )  # fmt: skip
    out = b"ULog\x01\x12\x35" + bytes([1]) + struct.pack("<Q", 1_000_000)
    out += message("B", bytes(40))
    key = b"char[3] sys_name"
    out += message("I", bytes([len(key)]) + key + b"PX4")
    for name, _, fields in topics:
        out += message("F", f"{name}:{fields}".encode())
    for number, (name, _, _) in enumerate(topics):
        out += message(
            "A",
            struct.pack("<BH", first_fix_type is not None and name == "sensor_gps", number)
            + name.encode(),
        )
    if first_fix_type is not None:
        out += message("A", struct.pack("<BH", 0, len(topics)) + b"sensor_gps")

    def data(number: int, *values: object) -> bytes:
        return message(
            "D", struct.pack("<H", number) + struct.pack(topics[number % len(topics)][1], *values)
        )

    for n in range(20):
        t_us = 2_000_000 + n * 100_000
        utc_us = 1_790_000_000_000_000 + n * 100_000
        out += data(
            0,
            t_us,
            47.3 + 1e-6 * n,
            8.5,
            400.0,
            447.0,
            1.0,
            2.0,
            -0.5,
            0.02,
            0.03,
            0.1,
            0.7,
            utc_us,
            6,
            19,
        )
        if first_fix_type is not None:
            out += data(
                4,
                t_us,
                47.4,
                8.6,
                400.0,
                447.0,
                1.0,
                2.0,
                -0.5,
                2.5,
                3.0,
                0.1,
                0.7,
                utc_us,
                first_fix_type,
                9,
            )
        out += data(1, t_us + 5_000, 0.1, 0.2, 0.3, 1.0, 2.0, -9.8)
        out += data(3, t_us + 6_000, 0.25, 0.0)
        out += data(2, t_us + 7_000, 0.5, math.nan)
    path.write_bytes(out)


def test_a_px4_log_by_pyulog(tmp_path: Path) -> None:
    pyulog = pytest.importorskip("pyulog")
    ulog(tmp_path / "log.ulg")
    done = import_log(tmp_path / "log.ulg", tmp_path / "out.mcap")
    assert done.counts == {"actuator_command": 20, "gnss_fix": 20, "imu_sample": 20}
    found = taken(tmp_path / "out.mcap")
    assert [t_ns for t_ns, _ in found] == sorted(t_ns for t_ns, _ in found)
    oracle = {topic.name: topic.data for topic in pyulog.ULog(str(tmp_path / "log.ulg")).data_list}
    fixes = [m for _, m in found if isinstance(m, GnssFix)]
    assert [m.t_ns for m in fixes] == [int(t) * 1000 for t in oracle["sensor_gps"]["timestamp"]]
    assert [math.degrees(m.latitude_rad) for m in fixes] == pytest.approx(
        oracle["sensor_gps"]["latitude_deg"].tolist()
    )
    fix = fixes[0]
    assert (fix.height_m, fix.fix_type, fix.carrier, fix.satellites) == (
        447.0,
        FixType.FIX_3D,
        CarrierSolution.FIXED,
        19,
    )
    assert fix.velocity_enu_mps == pytest.approx((2.0, 1.0, 0.5))
    sample = next(m for _, m in found if isinstance(m, ImuSample))
    assert sample.specific_force_mps2 == pytest.approx((1.0, -2.0, 9.8), abs=1e-6)
    command = next(m for _, m in found if isinstance(m, ActuatorCommand))
    assert (command.steering, command.throttle) == (-0.25, 0.5)
    with LogReader(tmp_path / "out.mcap") as log:
        assert log.header.imported["sys_name"] == "PX4"
        assert log.header.start_wall_ns == 1_790_000_000_000_000_000


@pytest.mark.parametrize("fix_type", [3, 8])
def test_the_better_of_two_receivers_of_px4_is_read_and_said(fix_type: int, tmp_path: Path) -> None:
    pytest.importorskip("pyulog")
    ulog(tmp_path / "log.ulg", fix_type)
    done = import_log(tmp_path / "log.ulg", tmp_path / "out.mcap")
    assert {m.satellites for _, m in taken(tmp_path / "out.mcap") if isinstance(m, GnssFix)} == {19}
    assert any("is read, whose fixes are the best" in note for note in done.notes)


@pytest.mark.parametrize(
    ("name", "module", "extra"), [("1.bin", "pymavlink", "ardupilot"), ("2.ulg", "pyulog", "px4")]
)
def test_without_its_library_the_extra_is_named(
    name: str, module: str, extra: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (dataflash if name == "1.bin" else ulog)(tmp_path / name)
    for loaded in [
        loaded for loaded in __import__("sys").modules if loaded.split(".")[0] == module
    ] or [module]:
        monkeypatch.setitem(__import__("sys").modules, loaded, None)
    monkeypatch.setitem(__import__("sys").modules, f"{module}.DFReader", None)
    monkeypatch.setitem(__import__("sys").modules, module, None)
    with pytest.raises(RecordingError, match=rf"vehicled\[{extra}\]"):
        import_log(tmp_path / name, tmp_path / "out.mcap")


# ------------------------------------------------------------------ CSV

MAPPING = """
delimiter = ";"
comment = "#"

[time]
column = "ms"
unit = "ms"

[[message]]
type = "GnssFix"
when_changed = ["lat", "lon"]
[message.fields]
latitude_rad = { column = "lat", unit = "deg" }
longitude_rad = { column = "lon", unit = "deg" }
height_m = { column = "h", unit = "ft", default = 100 }
velocity_enu_mps = [{ column = "ve", unit = "kmh" }, 0.5, { column = "vu", unit = "knots" }]
position_covariance_m2 = { sigma = [
  { column = "s", unit = "cm" }, { column = "s", unit = "cm" }, 0.5,
] }
fix_type = "FIX_3D"
carrier = { column = "q", names = { 4 = "FIXED", 5 = "FLOAT" }, default = "NONE" }
satellites = { column = "n" }

[[message]]
type = "ImuSample"
[message.fields]
specific_force_mps2 = [
  { column = "ax", unit = "g" }, { column = "ax", unit = "mg", scale = 1000 }, 9.8,
]
angular_rate_radps = [0, 0, { column = "wz", unit = "degps" }]
temperature_k = { column = "t", unit = "degC" }

[[message]]
type = "Heading"
[message.fields]
yaw_rad = { column = "hdg", unit = "deg_compass" }
sigma_rad = { column = "hs", unit = "deg" }
kind = "MAGNETIC"
"""
TABLE = """# a logger
ms; lat; lon; h; ve; vu; s; q; n; ax; wz; t; hdg; hs
1000.000001; 43; -89; 328.084; 36; 1; 2; 4; 11; 1; 90; 20; 0; 1
1010; 43; -89; ; ; ; ; ; ; 0.5; 0; ; 90; 1
1020; 43.001; -89; ; ; ; ; 7; 12; x; 0; 21; ; 1
"""


def test_csv_by_a_mapping(tmp_path: Path) -> None:
    (tmp_path / "map.toml").write_text(MAPPING)
    (tmp_path / "drive.csv").write_text(TABLE)
    done = import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    assert done.counts == {"gnss_fix": 2, "heading": 2, "imu_sample": 3}
    found = [json.loads(line) for line in lines(str(tmp_path / "out.mcap"))]
    fixes = [entry for entry in found if entry["topic"] == "gnss_fix"]
    first, second = fixes
    assert (first["t_ns"], second["t_ns"]) == (1_000_000_001, 1_020_000_000)
    assert first["latitude_rad"] == pytest.approx(math.radians(43.0))
    assert first["height_m"] == pytest.approx(100.0, abs=1e-4)
    assert first["velocity_enu_mps"] == pytest.approx([10.0, 0.5, 0.514444], abs=1e-6)
    assert first["position_covariance_m2"] == pytest.approx(
        [0.0004, 0, 0, 0, 0.0004, 0, 0, 0, 0.25]
    )
    assert (first["carrier"], first["fix_type"], first["satellites"]) == ("FIXED", "FIX_3D", 11)
    assert (second["carrier"], second["height_m"], second["velocity_enu_mps"]) == (
        "NONE",
        100.0,
        [None, 0.5, None],
    )
    samples = [entry for entry in found if entry["topic"] == "imu_sample"]
    assert samples[0]["specific_force_mps2"] == pytest.approx([9.80665, 9.80665, 9.8])
    assert samples[0]["angular_rate_radps"][2] == pytest.approx(math.pi / 2)
    assert (samples[0]["temperature_k"], samples[1]["temperature_k"]) == (
        pytest.approx(293.15),
        None,
    )
    assert samples[2]["specific_force_mps2"][0] is None
    headings = [entry["yaw_rad"] for entry in found if entry["topic"] == "heading"]
    # North is a quarter turn from east, east is none.
    assert headings == pytest.approx([math.pi / 2, 0.0])
    assert any("1 rows without" in note for note in done.notes)


def test_a_folder_of_csv_is_merged_by_time(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "gps_a.csv").write_text(
        "t,lat,lon\n2026-05-01T10:00:00Z,43,-89\n2026-05-01T10:00:02.5+00:00,43,-89\n"
    )
    (tmp_path / "data" / "wheel.csv").write_text("t,v\n1777629601,1.5\n1777629602,1.5\n")
    (tmp_path / "map.toml").write_text(
        '[time]\ncolumn = "t"\nclock = "utc"\n[[message]]\ntype = "GnssFix"\nfile = "gps*.csv"\n'
        'time = { column = "t", unit = "iso8601" }\nfields = { latitude_rad = { column = "lat", '
        'unit = "deg" }, longitude_rad = { column = "lon", unit = "deg" }, height_m = 0 , '
        "fix_type = 4 }\n"
        '[[message]]\ntype = "WheelSpeed"\nfile = "wheel.csv"\nfields = { speed_mps = { column '
        '= "v" }, sigma_mps = 0.1 }\n'
    )
    import_log(tmp_path / "data", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    found = taken(tmp_path / "out.mcap")
    assert [type(message).__name__ for _, message in found] == [
        "GnssFix",
        "WheelSpeed",
        "WheelSpeed",
        "GnssFix",
    ]
    assert [t_ns - found[0][0] for t_ns, _ in found] == [0, 10**9, 2 * 10**9, 2_500_000_000]
    with LogReader(tmp_path / "out.mcap") as log:
        assert log.header.start_wall_ns == 1_777_629_600_000_000_000


LOCAL = """
datum_deg = [43.07, -89.41, 230.0]
[time]
column = "t"
unit = "hhmmss"
[[message]]
type = "GnssFix"
[message.fields]
position_m = [{ column = "x" }, { column = "y" }, 0.0]
fix_type = "FIX_3D"
[[message]]
type = "StateEstimate"
[message.fields]
x_m = { column = "x" }
y_m = { column = "y" }
yaw_rad = { column = "yaw", default = nan }
speed_mps = nan
yaw_rate_radps = "nan"
covariance = nan
"""


def test_local_coordinates_have_a_datum_and_strangers_are_asked_for_no_keys_of_ours(
    tmp_path: Path,
) -> None:
    (tmp_path / "drive.csv").write_text(
        "t,x,y,yaw\n235959.5,100.0,-20.0,0.5\n000000.5,101.0,-20.0,\n00:00:01.5,102,-20,0.5\n"
    )
    (tmp_path / "map.toml").write_text(LOCAL)
    import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    found = taken(tmp_path / "out.mcap")
    datum = Datum.from_degrees(43.07, -89.41, 230.0)
    fixes = [message for _, message in found if isinstance(message, GnssFix)]
    assert datum.to_enu(
        fixes[0].latitude_rad, fixes[0].longitude_rad, fixes[0].height_m
    ) == pytest.approx((100, -20, 0), abs=1e-6)
    states = [message for _, message in found if isinstance(message, StateEstimate)]
    assert [(b.t_ns - a.t_ns) // 10**6 for a, b in itertools.pairwise(states)] == [1000, 1000]
    assert (states[0].newest_input_ns, states[0].x_m, states[0].yaw_rad) == (
        states[0].t_ns,
        100.0,
        0.5,
    )
    assert math.isnan(states[1].yaw_rad)
    assert math.isnan(states[0].covariance[15])
    with LogReader(tmp_path / "out.mcap") as log:
        assert datum_of(log.attachment("course.json")) == datum


def test_the_origin_of_local_coordinates_is_said_where_it_is_a_guess(tmp_path: Path) -> None:
    (tmp_path / "drive.csv").write_text("t,lat,lon,x,y\n0,43,-89,3.0,4.0\n1,43,-89,3,4\n")
    mapping = (
        '[time]\ncolumn = "t"\n[[message]]\ntype = "GnssFix"\nfields = { latitude_rad = { column '
        '= "lat", unit = "deg" }, longitude_rad = { column = "lon", unit = "deg" }, height_m = '
        'nan, fix_type = "FIX_3D" }\n'
        '[[message]]\ntype = "GroundTruth"\nfields = { x_m = { column = "x" }, y_m = { column '
        '= "y" }, yaw_rad = nan, '
        "speed_mps = nan, yaw_rate_radps = nan, wheel_angle_rad = nan }\n"
    )
    (tmp_path / "map.toml").write_text(mapping)
    done = import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    assert any(
        "GroundTruth are taken to count from the first fix" in note and "lies 5.00 m" in note
        for note in done.notes
    )
    (tmp_path / "map.toml").write_text("datum_deg = [43.0, -89.0]\n" + mapping)
    done = import_log(
        tmp_path / "drive.csv", tmp_path / "there.mcap", mapping=tmp_path / "map.toml"
    )
    assert not any("first fix" in note for note in done.notes)
    (tmp_path / "ms.csv").write_text("t,lat,lon,x,y\n1790000000000,43,-89,3.0,4.0\n")
    (tmp_path / "map.toml").write_text(
        mapping.replace('column = "t"', 'column = "t"\nclock = "utc"', 1)
    )
    with pytest.raises(RecordingError, match="years after 1970: correct the unit"):
        import_log(tmp_path / "ms.csv", tmp_path / "late.mcap", mapping=tmp_path / "map.toml")


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (("datum_deg = [43.07, -89.41, 230.0]", ""), "position_m needs datum_deg"),
        (
            ("[43.07, -89.41, 230.0]", "[-89.41, 143.07, 230.0, 4]"),
            "datum_deg: write .latitude, longitude",
        ),
        (("[43.07, -89.41, 230.0]", "[143.07, -89.41]"), "datum_deg: .*not on the earth"),
        (
            ("speed_mps = nan", ""),
            "speed_mps has no default and is not mapped; nan stands for an unknown number",
        ),
        (("speed_mps = nan", 'speed_mps = "fast"'), "'fast' is no number"),
    ],
)
def test_a_wrong_mapping_of_local_coordinates_is_reported(
    change: tuple[str, str], answer: str, tmp_path: Path
) -> None:
    (tmp_path / "map.toml").write_text(LOCAL.replace(change[0], change[1], 1))
    (tmp_path / "drive.csv").write_text("t,x,y,yaw\n0,1,2,3\n")
    with pytest.raises(RecordingError, match=answer):
        import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        (('unit = "ft"', 'unit = "stone"'), "height_m.*not one of m, cm"),
        (('unit = "deg_compass"', 'unit = "mps"'), "yaw_rad.*deg_compass"),
        (('column = "lat", unit', 'colum = "lat", unit'), "latitude_rad.*colum"),
        (('type = "Heading"', 'type = "Heeding"'), "no message type.*did you mean Heading"),
        (('sigma_rad = { column = "hs", unit = "deg" }', ""), "sigma_rad has no default"),
        (
            ('satellites = { column = "n" }', 'satelites = { column = "n" }'),
            "no such field; did you mean satellites",
        ),
        (('"FIX_3D"', '"FIX_4D"'), "not one of NONE, TIME"),
        (("[0, 0, {", "[0, {"), "list of 3"),
        (('column = "q"', 'column = "quality"'), "no column 'quality'"),
        (("[time]", "[tme]"), 'did you mean "time"'),
        (("[time]", "[[message]]\ntipe = 1\n[time]"), "tipe: unknown key.*fields: missing"),
        (("[time]", "[time"), "is no mapping"),
    ],
)
def test_a_wrong_mapping_is_reported_where(
    change: tuple[str, str], answer: str, tmp_path: Path
) -> None:
    assert change[0] in MAPPING
    (tmp_path / "map.toml").write_text(MAPPING.replace(change[0], change[1], 1))
    (tmp_path / "drive.csv").write_text(TABLE)
    with pytest.raises(RecordingError, match=f"(?s){answer}"):
        import_log(tmp_path / "drive.csv", tmp_path / "out.mcap", mapping=tmp_path / "map.toml")
    assert not (tmp_path / "out.mcap").exists()


# ------------------------------------------------------------------ answers


def test_a_file_that_is_no_log_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = {
        "empty.bin": (b"", "empty"),
        "x.png": (b"\x89PNG\r\n\x1a\n", "no format that can be imported"),
        "x.csv": (b"a,b\n1,2\n", "needs --map"),
        "cut.ulg": (b"ULog\x01\x12\x35\x01", "cannot be read as a ULog|holds no message"),
        "cut.bin": (b"\xa3\x95\x80\x80", "cannot be read|holds no message"),
        "x.ubx": (b"\xb5\x62\x01\x07", "no UBX message with a time"),
        "x.db3": (b"SQLite format 3\0" + bytes(100), "ROS bag"),
        "x.bag": (b"#ROSBAG V2.0\n", "ROS bag"),
    }
    for name, (data, answer) in files.items():
        (tmp_path / name).write_bytes(data)
        with pytest.raises(RecordingError, match=answer):
            import_log(tmp_path / name, tmp_path / "out.mcap")
        assert not (tmp_path / "out.mcap").exists()
    ours = bench.write(tmp_path / "ours.mcap", bench.drive(1, seconds=1))
    assert cli.main(["log", "import", ours, "-o", str(tmp_path / "out.mcap")]) == 2
    assert "a log of ours already" in capsys.readouterr().err
    assert (
        cli.main(["log", "import", str(tmp_path / "nowhere"), "-o", str(tmp_path / "out.mcap")])
        == 2
    )
    with pytest.raises(LogError, match="not overwritten"):
        import_log(tmp_path / "x.png", ours)
