"""Codec of the autopilots' driver against pymavlink, in both directions, and against telemetry of a
real autopilot."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pymavlink.dialects.v20 import ardupilotmega as version_2

from drivers.autopilot import codec
from drivers.autopilot.device import AutopilotDevice
from vehicled.core.messages import FixType, GnssFix, ImuSample, Message, MotorStatus
from vehicled.core.wire.framing import Framer

RENAMED = {
    "present": "onboard_control_sensors_present", "enabled": "onboard_control_sensors_enabled",
    "health": "onboard_control_sensors_health", "voltage_mv": "voltage_battery",
    "current_ca": "current_battery", "drop_rate": "drop_rate_comm",
    "remaining": "battery_remaining", "distances": "distance", "wheels": "count",
    **{f"errors_{k}": f"errors_count{k}" for k in range(1, 5)},
}  # fmt: skip
"""Fields that have another name in pymavlink."""
RECORDING = "captures2/mavlink/dronekit-python__flight.tlog"


def theirs(message: Any, field: str) -> Any:
    """Return a field of pymavlink's message in our form."""
    if field == "channels":
        return tuple(getattr(message, f"chan{k}_raw") for k in range(1, 19))
    if field == "params":
        return tuple(getattr(message, f"param{k}") for k in range(1, 8))
    value = getattr(message, RENAMED.get(field, field))
    return tuple(value) if isinstance(value, list) else value


def assert_equal(content: codec.Content, message: Any) -> None:
    for field, value in zip(content._fields, content, strict=True):
        if field == "custom":
            continue
        found = codec.name_of(value) if isinstance(value, bytes) else value
        if field == "data" and isinstance(value, bytes):
            found = tuple(value)
        other = theirs(message, field)
        assert found == other or (found != found and other != other), (message.get_type(), field)


def test_every_checksum_byte_is_that_of_the_dialect() -> None:
    known = {number: kind.crc_extra for number, kind in version_2.mavlink_map.items()}
    assert {number: codec.CRC_EXTRA.get(number) for number in known} == known


@pytest.mark.parametrize("layout", codec.LAYOUTS, ids=lambda layout: layout.name)
def test_a_layout_is_the_beginning_of_the_dialects(layout: codec.MessageLayout) -> None:
    kind = version_2.mavlink_map[layout.number]
    assert kind.msgname == layout.name
    names = list(kind.ordered_fieldnames)
    if layout.name != "AUTOPILOT_VERSION":
        assert layout.layout.size <= kind.unpacker.size
    for field in layout.kind._fields:
        ours = RENAMED.get(field, field)
        assert ours in names or field in ("channels", "params", "custom"), field


numbers = st.integers(-1000, 1000)


@given(y=numbers, z=numbers, command=st.sampled_from((176, 400, 511, 512)), first=numbers)
def test_what_the_driver_sends_is_what_pymavlink_reads(
    y: int, z: int, command: int, first: int
) -> None:
    writer, reader = codec.MavlinkWriter(255), version_2.MAVLink(None)
    contents: list[codec.Content] = [
        codec.ManualControl(0x7FFF, y, z, 0x7FFF, 0, 1),
        codec.CommandLong((float(first), 2e5, *(0.0,) * 5), command, 1, 1),
        codec.ParamRequestRead(-1, 1, 1, b"RC_OVERRIDE_TIME"),
        codec.MavHeartbeat(0, 18, 8, 0, 4),
        codec.Timesync(0, 10**12 + y),
        codec.GpsRtcmData(0b1101_011, 180, bytes(range(180))),
    ]
    for content in contents:
        (message,) = reader.parse_buffer(writer.frame(content))
        assert message.get_srcSystem() == 255
        assert message.get_srcComponent() == codec.OWN_COMPONENT
        assert_equal(content, message)


MESSAGES: list[tuple[str, tuple[Any, ...]]] = [
    ("heartbeat", (10, 3, 0x81, 4, 3, 4)),
    ("gps_raw_int", (10**9, 6, 430_700_000, -894_000_000, 260_000, 80, 120, 150, 9_000, 20,
                     230_000, 14, 20, 50, 50_000, 9_000)),
    ("raw_imu", (10**9, 1, -2, -1000, 4, 5, -6, 7, 8, 9, 0, 3500)),
    ("scaled_imu", (10**6, 1, -2, -1000, 4, 5, -6, 7, 8, 9, 3500)),
    ("highres_imu", (10**9, 0.1, 0.2, -9.8, 0.0, 0.0, 0.1, 0.0, 0.0, 0.0, 1013.0, 0.0, 0.0, 30.0,
                     63, 0)),
    ("attitude", (10**6, 0.1, 0.2, 3.0, 0.0, 0.0, 0.1)),
    ("param_value", (b"FS_TIMEOUT", 1.5, 9, 900, 7)),
    ("command_ack", (400, 4, 0, 0, 255, 191)),
    ("rc_channels", (10**6, 8, *range(1500, 1518), 200)),
    ("statustext", (4, b"PreArm: RC not found")),
    ("wheel_distance", (10**9, 2, [1.5, -2.5, *[0.0] * 14])),
    ("battery_status", (0, 1, 2, 3000, [3700, 3710, *[65535] * 8], 1250, 900, -1, 80, 600, 3)),
    ("timesync", (123_456_789_000, -5)),
    ("gps_rtcm_data", (0b1101_011, 3, [0xD3, 0, 0x13, *[0] * 177])),
    ("sys_status", (1, 2, 3, 500, 16_200, -1, 80, 0, 0, 0, 0, 0, 0)),
]  # fmt: skip


@pytest.mark.parametrize("mavlink_1", [True, False], ids=["MAVLink 1", "MAVLink 2"])
@pytest.mark.parametrize(("name", "fields"), MESSAGES, ids=[name for name, _ in MESSAGES])
def test_what_pymavlink_sends_is_what_the_driver_reads(
    mavlink_1: bool, name: str, fields: tuple[Any, ...]
) -> None:
    sender = version_2.MAVLink(None, srcSystem=1, srcComponent=1)
    # MAVLink 1 has no number above 255.
    mavlink_1 = mavlink_1 and name != "wheel_distance"
    frame = bytes(getattr(sender, f"{name}_encode")(*fields).pack(sender, mavlink_1))
    ((_, found),) = Framer(codec.PROTOCOLS, 512).feed(b"\xfd" + frame)
    content = codec.read(found).content
    assert content is not None
    (message,) = version_2.MAVLink(None).parse_buffer(frame)
    assert_equal(content, message)


def test_a_signed_frame_is_recognised_as_signed() -> None:
    writer = version_2.MAVLink(None, srcSystem=1, srcComponent=1)
    writer.signing.sign_outgoing = True
    writer.signing.secret_key = bytes(32)
    frame = bytes(writer.heartbeat_encode(10, 3, 0x81, 0, 4).pack(writer))
    ((_, found),) = Framer(codec.PROTOCOLS, 512).feed(frame)
    assert codec.read(found).signed
    assert len(found) == len(frame)


def test_a_recorded_flight_is_read_as_pymavlink_reads_it(real_data: Path) -> None:
    file = real_data / RECORDING
    if not file.is_file():
        pytest.skip(f"{RECORDING} is not among the shared captures")
    data = file.read_bytes()
    framer, reader = Framer(codec.PROTOCOLS, 512), version_2.MAVLink(None)
    read: Counter[str] = Counter()
    for _, frame in framer.feed(data):
        ours = codec.read(frame)
        (message,) = reader.parse_buffer(frame)
        assert message.get_msgId() == ours.number
        content = ours.content
        if content is not None:
            read[ours.name] += 1
            assert_equal(content, message)
    assert read["GPS_RAW_INT"] > 2_000
    assert read["RAW_IMU"] > 2_000


def test_the_driver_measures_on_a_recorded_flight(real_data: Path) -> None:
    """A copter in MAVLink 1: an actuator would refuse it, its sensors are as good as others."""
    file = real_data / RECORDING
    if not file.is_file():
        pytest.skip(f"{RECORDING} is not among the shared captures")
    wanted = (GnssFix, ImuSample, MotorStatus)
    device = AutopilotDevice(AutopilotDevice.Params(configure=False), wanted, 10**8)
    data = file.read_bytes()[:600_000]
    found: list[Message] = []
    for at in range(0, len(data), 500):
        found += device.on_rx(data[at : at + 500], 10**9 + at * 100_000)
    fixes = [each for each in found if isinstance(each, GnssFix)]
    samples = [each for each in found if isinstance(each, ImuSample)]
    assert len(fixes) > 300
    assert len(samples) > 300
    assert {each.fix_type for each in fixes if each.latitude_rad} >= {FixType.FIX_3D}
    # Standing or flying level, it feels its weight upwards.
    heights = sorted(each.specific_force_mps2[2] for each in samples)
    assert heights[len(heights) // 2] == pytest.approx(9.8, abs=0.6)
    assert any(9.0 < each.input_voltage_v < 17.0 for each in found if isinstance(each, MotorStatus))
