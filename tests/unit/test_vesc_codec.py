"""Firmware facts of the VESC codec: configuration layouts, fault names; and values that it refuses
to encode."""

import math
import struct

import pytest

from drivers.vesc.appconf import (
    SIGNATURES,
    UNREAD,
    AppConf,
    RawAppConf,
    Unreadable,
    encode_appconf,
    read_appconf,
    readable_firmwares,
)
from drivers.vesc.canbus import (
    Can,
    CanSetpoint,
    Fill,
    ForeignFrame,
    ProcessBuffer,
    Reassembler,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import Comm, MotorSetup, SetCommand, Unknown, decode_comm, encode_comm
from drivers.vesc.faults import describe, fault_name
from drivers.vesc.uart import decode, frame_uart
from drivers.vesc.values import Values, ValuesLayout
from vehicled.core.wire.can import CanFrame

# Signature, id 7, 500 ms, 12.5 A, then per family: status, rates, ..., CAN mode, ..., servo output,
# ..., application.
HEAD = "07 000001f4 41480000"
WIRE_5_2 = bytes.fromhex("c29ad144" + HEAD + "05 0032 02 01 01 07 00 04 00 03") + bytes(300)
WIRE_5_3 = bytes.fromhex(
    "de88e057" + HEAD + "05 0032 02 01 01 07 01 04 00 47435000 01 00 03"
) + bytes(300)
WIRE_6_0 = bytes.fromhex(
    "1d003a2c" + HEAD + "0032 0005 0f 10 02 01 01 07 00 04 00 47435000 00 01 00 03"
) + bytes(300)


def test_the_head_of_the_configuration_by_firmware() -> None:
    before = AppConf(
        signature=SIGNATURES[5, 2],
        controller_id=7,
        timeout_ms=500,
        timeout_brake_current_a=12.5,
        status_rate_hz=50,
        status_mode=5,
        can_mode=0,
        app=3,
        can_baud=2,
        uart_baud=0,
    )
    assert read_appconf(RawAppConf(WIRE_5_2), (5, 2)) == before
    assert before.sends_status
    assert before.servo_output == UNREAD
    middle = read_appconf(RawAppConf(WIRE_5_3), (5, 3))
    assert isinstance(middle, AppConf)
    assert (middle.can_mode, middle.servo_output, middle.app, middle.status_mode) == (1, 1, 3, 5)
    new = read_appconf(RawAppConf(WIRE_6_0), (6, 0))
    assert isinstance(new, AppConf)
    assert (new.timeout_ms, new.timeout_brake_current_a, new.status_mask, new.status_mask_2) == (
        500,
        12.5,
        15,
        16,
    )
    assert (new.status_rate_hz, new.status_rate_2_hz, new.can_mode, new.servo_output, new.app) == (
        50,
        5,
        0,
        1,
        3,
    )
    assert new.sends_status


@pytest.mark.parametrize("firmware", readable_firmwares())
def test_configurations_come_back_as_they_went(firmware) -> None:
    modern = firmware >= (6, 0)
    conf = AppConf(
        signature=SIGNATURES[firmware],
        controller_id=3,
        timeout_ms=150,
        timeout_brake_current_a=7.5,
        status_rate_hz=20,
        can_mode=1,
        app=4,
        status_mode=UNREAD if modern else 0,
        status_mask=0 if modern else UNREAD,
        status_mask_2=1 if modern else UNREAD,
        status_rate_2_hz=0 if modern else UNREAD,
        servo_output=0 if firmware >= (5, 3) else UNREAD,
        can_baud=3,
        uart_baud=921_600,
    )
    wire = encode_appconf(conf, firmware)
    assert len(wire) == 400
    assert read_appconf(RawAppConf(wire), firmware) == conf
    assert not conf.sends_status


@pytest.mark.parametrize(
    ("wire", "firmware", "test_build", "why"),
    [
        (WIRE_6_0, (3, 66), False, "unknown for firmware 3.66"),
        (WIRE_6_0, (6, 1), False, "unknown for firmware 6.01"),
        (WIRE_6_0, (6, 0), True, "test build"),
        (WIRE_6_0, (5, 1), False, "signature 486554156 is not that of firmware 5.01"),
        (b"\0\0\0\1" + WIRE_6_0[4:], (6, 0), False, "modified build"),
        (WIRE_6_0[:20], (6, 0), False, "too short"),
        (WIRE_5_3[:5] + b"\xff" * 4 + WIRE_5_3[9:], (5, 3), False, "implausible"),
        (WIRE_5_3[:9] + b"\x7f\xc0\0\0" + WIRE_5_3[13:], (5, 3), False, "implausible"),
        (b"", (6, 0), False, "too short"),
    ],
)
def test_what_is_not_known_is_not_read(wire, firmware, test_build, why) -> None:
    found = read_appconf(RawAppConf(wire), firmware, test_build=test_build)
    assert isinstance(found, Unreadable)
    assert why in found.reason


def test_faults_have_names() -> None:
    assert [fault_name(code) for code in (0, 2, 4, 10, 24, 33)] == [
        "none", "under_voltage", "abs_over_current", "booting_from_watchdog_reset",
        "flash_corruption_mc_cfg", "abs_overspeed",
    ]  # fmt: skip
    assert fault_name(200) == "unknown_200"
    assert fault_name(-1) == "unknown_-1"
    assert describe(5, (5, 2)) == "fault 5, over_temp_fet"
    assert "not in the list known for firmware 5.02" in describe(28, (5, 2))
    assert describe(28, (6, 0)) == "fault 28, encoder_fault"
    assert describe(28, None) == "fault 28, encoder_fault"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_set_point_that_is_not_finite_is_never_encoded(value) -> None:
    with pytest.raises(ValueError, match="cannot be sent"):
        encode_can(CanSetpoint(Can.SET_DUTY, 1, value))
    with pytest.raises(ValueError, match="cannot be sent"):
        encode_comm(SetCommand(Comm.SET_SERVO_POS, value))


def test_set_points_out_of_range_are_cut_not_wrapped() -> None:
    assert encode_can(CanSetpoint(Can.SET_CURRENT, 1, 1e9)).data == bytes.fromhex("7fffffff")
    assert encode_can(CanSetpoint(Can.SET_CURRENT, 1, -1e9)).data == bytes.fromhex("80000000")
    assert encode_comm(SetCommand(Comm.SET_SERVO_POS, 99.0)) == bytes.fromhex("0c7fff")


def test_packets_that_no_firmware_takes_are_refused() -> None:
    for length in (0, 513):
        with pytest.raises(ValueError, match="cannot be sent"):
            frame_uart(bytes(length))
        with pytest.raises(ValueError, match="cannot be sent"):
            split_comm(1, 254, bytes(length))
    with pytest.raises(ValueError, match="takes no set-point"):
        encode_comm(SetCommand(Comm.ALIVE, 1.0))


def test_frames_that_do_not_fit_are_foreign() -> None:
    # The six-byte form of SET_CURRENT means different things to different firmware.
    assert decode_can(CanFrame(0x101, bytes(6))) == (
        "PACKET_1",
        ForeignFrame(CanFrame(0x101, bytes(6))),
    )
    assert decode_can(CanFrame(0x901, bytes(7)))[0] == "PACKET_9"
    assert decode_can(CanFrame(0x2F01, b""))[0] == "PACKET_47"
    assert decode_can(CanFrame(0x10015501, bytes(8)))[0] == "FOREIGN"
    assert decode_can(CanFrame(0x101, b"", extended=False))[0] == "STANDARD"
    assert decode_can(CanFrame(0x4, bytes(8), error=True, extended=False))[0] == "ERROR"
    assert decode_comm(b"\x04" + bytes(20)) == ("GET_VALUES", Unknown(b"\x04" + bytes(20)))
    assert decode_comm(b"")[0] == "EMPTY"
    assert decode_comm(b"\xc8abc") == ("COMM_200", Unknown(b"\xc8abc"))


def test_a_selective_answer_with_a_field_we_do_not_know_is_refused_as_a_whole() -> None:
    name, content = decode_comm(bytes.fromhex("32 00400001 0064 ffff"))
    assert name == "GET_VALUES_SELECTIVE"
    assert isinstance(content, Unknown)


def test_a_gap_between_pieces_is_no_packet_even_if_the_checksum_fits() -> None:
    payload = bytes(range(20))
    *pieces, end = [decode_can(frame)[1] for frame in split_comm(254, 1, payload)]
    box = Reassembler()
    for piece, offset in zip(pieces, (0, 7, 21), strict=True):
        assert isinstance(piece, Fill)
        box.fill(Fill(254, offset, piece.data))
    assert isinstance(end, ProcessBuffer)
    assert box.process(end) is None
    assert box.bad_frames == 1


def test_a_long_frame_that_a_short_one_could_carry_is_none() -> None:
    """The firmware refuses it; and 03 also ends every frame, so that a false start here would be
    common."""
    short = frame_uart(b"\x1e")
    assert list(decode(b"\x03\x00" + short[1:])) == []
    assert [name for name, _ in decode(b"\x03\x00" + short[1:] + short)] == ["ALIVE"]


def test_unknown_values_are_sent_as_zero() -> None:
    assert encode_comm(Values(), ValuesLayout.FAULT)[1:45] == bytes(44)


def test_the_motor_setup_has_its_fields_where_the_firmware_writes_them() -> None:
    limits = [0.5, 1.0, -1000.0, 2000.0, 0.25, 0.5, -4.0, 8.0, -16.0, 32.0]
    payload = (
        bytes((91,))
        + b"".join(struct.pack(">f", each) for each in limits)
        + bytes((14,))
        + struct.pack(">ff", 11.5, 0.125)
    )
    name, setup = decode_comm(payload)
    assert name == "GET_MCCONF_TEMP"
    assert isinstance(setup, MotorSetup)
    assert (setup.motor_poles, setup.gear_ratio, setup.wheel_diameter_m) == (14, 11.5, 0.125)
    assert (setup.min_erpm, setup.max_erpm, setup.in_current_max_a) == (-1000.0, 2000.0, 32.0)
    assert encode_comm(setup) == payload
    assert isinstance(decode_comm(payload[:-1])[1], Unknown)
