"""Frames of the VESC written out byte for byte, independent of our encoder."""

import pytest

from drivers.vesc.canbus import (
    Can,
    CanSetpoint,
    Short,
    Status,
    Status4,
    Status5,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import (
    Comm,
    FwVersion,
    Request,
    SelectiveRequest,
    SetCommand,
    decode_comm,
    encode_comm,
)
from drivers.vesc.uart import decode, frame_uart
from drivers.vesc.values import Values, ValuesLayout
from vehicled.core.wire.can import CanFrame

UART = [
    ("ALIVE", Request(Comm.ALIVE), "02 01 1e f3 ff 03"),
    ("FW_VERSION", Request(Comm.FW_VERSION), "02 01 00 00 00 03"),
    ("GET_VALUES", Request(Comm.GET_VALUES), "02 01 04 40 84 03"),
    ("SET_RPM", SetCommand(Comm.SET_RPM, 3000.0), "02 05 08 00 00 0b b8 f8 04 03"),
    ("SET_SERVO_POS", SetCommand(Comm.SET_SERVO_POS, 0.5), "02 03 0c 01 f4 e9 cb 03"),
    ("SET_CURRENT", SetCommand(Comm.SET_CURRENT, 5.0), "02 05 06 00 00 13 88 8b 25 03"),
]


@pytest.mark.parametrize(("name", "message", "wire"), UART)
def test_serial_frames(name, message, wire) -> None:
    assert frame_uart(encode_comm(message)) == bytes.fromhex(wire)
    assert list(decode(bytes.fromhex(wire))) == [(name, message)]


CAN = [
    ("SET_CURRENT", CanSetpoint(Can.SET_CURRENT, 1, 5.0), 0x101, "00 00 13 88"),
    ("SET_RPM", CanSetpoint(Can.SET_RPM, 1, 3000.0), 0x301, "00 00 0b b8"),
    ("PROCESS_SHORT_BUFFER", Short(1, 254, 2, b"\x0c\x01\xf4"), 0x801, "fe 02 0c 01 f4"),
    ("STATUS", Status(1, 3000.0, 12.3, 0.25), 0x901, "00 00 0b b8 00 7b 00 fa"),
    ("STATUS_5", Status5(1, 600, 16.2), 0x1B01, "00 00 02 58 00 a2 00 00"),
    ("SET_DUTY", CanSetpoint(Can.SET_DUTY, 255, -0.25), 0x0FF, "ff ff 9e 58"),
    ("SET_CURRENT_BRAKE", CanSetpoint(Can.SET_CURRENT_BRAKE, 7, 20.0), 0x207, "00 00 4e 20"),
]


@pytest.mark.parametrize(("name", "message", "can_id", "data"), CAN)
def test_can_frames(name, message, can_id, data) -> None:
    frame = CanFrame(can_id, bytes.fromhex(data))
    assert encode_can(message) == frame
    assert decode_can(frame) == (name, message)


def test_a_captured_controller_without_motor_thermistor() -> None:
    """Frame of a real idle controller: 28.2 C at the transistors, -87.1 C where no thermistor
    is."""
    name, message = decode_can(CanFrame(0x1001, bytes.fromhex("011afc99000018f5")))
    assert name == "STATUS_4"
    assert message == Status4(1, 28.2, -87.1, 0.0, 6389 / 50.0)


GET_VALUES = (
    "04 011a fc99 000004d2 0000007b fffffff6 000004d2 00fa 00000bb8 00a2 00002710 00000000 "
    "0001e240 00000000 00000258 000003e8 05 00b71b00 01 011a 011b 011c 000003e8 ffffd8f0 01"
)
EXPECTED = Values(
    fet_temperature_c=28.2,
    motor_temperature_c=-87.1,
    motor_current_a=12.34,
    input_current_a=1.23,
    d_current_a=-0.1,
    q_current_a=12.34,
    duty=0.25,
    erpm=3000.0,
    input_voltage_v=16.2,
    used_ah=1.0,
    charged_ah=0.0,
    used_wh=12.3456,
    charged_wh=0.0,
    tachometer=600,
    absolute_tachometer=1000,
    fault_code=5,
    pid_position_deg=12.0,
    controller_id=1,
    mos_temperatures_c=(28.2, 28.3, 28.4),
    d_voltage_v=1.0,
    q_voltage_v=-10.0,
    status=1,
)


def test_telemetry_of_the_newest_firmware() -> None:
    wire = bytes.fromhex(GET_VALUES)
    assert len(wire) == ValuesLayout.STATUS
    assert decode_comm(wire) == ("GET_VALUES", EXPECTED)
    assert encode_comm(EXPECTED) == wire


@pytest.mark.parametrize(
    ("length", "missing"),
    [
        (ValuesLayout.DQ_VOLTAGES, {"status"}),
        (ValuesLayout.MOS_TEMPERATURES, {"status", "d_voltage_v", "q_voltage_v"}),
        (
            ValuesLayout.CONTROLLER_ID,
            {"status", "d_voltage_v", "q_voltage_v", "mos_temperatures_c"},
        ),
        (
            ValuesLayout.PID_POSITION,
            {"status", "d_voltage_v", "q_voltage_v", "mos_temperatures_c", "controller_id"},
        ),
        (
            ValuesLayout.FAULT,
            {
                "status",
                "d_voltage_v",
                "q_voltage_v",
                "mos_temperatures_c",
                "controller_id",
                "pid_position_deg",
            },
        ),
    ],
)
def test_telemetry_of_older_firmware_ends_earlier(length, missing) -> None:
    name, values = decode_comm(bytes.fromhex(GET_VALUES)[:length])
    assert name == "GET_VALUES"
    assert isinstance(values, Values)
    unknown = Values()
    for field in Values.__struct_fields__:
        expected = unknown if field in missing else EXPECTED
        assert repr(getattr(values, field)) == repr(getattr(expected, field)), field


def test_a_long_packet_over_can() -> None:
    """The 74 bytes of GET_VALUES: eleven pieces and an end with length and checksum."""
    frames = split_comm(254, 1, bytes.fromhex(GET_VALUES), 1)
    assert [frame.can_id for frame in frames] == [0x5FE] * 11 + [0x7FE]
    assert frames[0].data == bytes.fromhex("00 04011afc990000")
    assert frames[10].data == bytes.fromhex("46 ffd8f001")
    assert frames[11].data[:4] == bytes.fromhex("01 01 004a")


def test_a_very_long_packet_over_can_changes_its_pieces() -> None:
    frames = split_comm(1, 254, bytes(300))
    assert [frame.data[0] for frame in frames if frame.can_id == 0x501] == list(range(0, 253, 7))
    assert [frame.data[:2].hex() for frame in frames if frame.can_id == 0x601] == [
        "0103",
        "0109",
        "010f",
        "0115",
        "011b",
        "0121",
        "0127",
    ]
    assert [len(frame.data) for frame in frames if frame.can_id == 0x601] == [8] * 6 + [7]


def test_questions_and_the_answer_of_a_controller() -> None:
    assert encode_comm(SelectiveRequest(1 << 15)) == bytes.fromhex("32 00008000")
    assert encode_comm(Request(Comm.GET_APPCONF)) == b"\x11"
    wire = b"\x00\x06\x00" + b"60_MK6\0" + bytes(range(12)) + b"\x01\x00\x00"
    version = FwVersion(6, 0, "60_MK6", bytes(range(12)), 1, 0, 0)
    assert decode_comm(wire) == ("FW_VERSION", version)
    assert encode_comm(version) == wire
    assert decode_comm(b"\x00\x02\x12") == ("FW_VERSION", FwVersion(2, 18))
