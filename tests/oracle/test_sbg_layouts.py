"""sbgECom against two readings that are not ours: the byte offsets at which other parsers look, and
a CRC bit by bit.

No recording of a unit and no frame with its content is published as text. Offsets and lengths are
those of a ROS node that reads each byte by hand (lohxinzhi/sbg_ros, which names the lengths that
its unit sends) and of ArduPilot's packed structures (AP_ExternalAHRS_SBG_structs.h); both read real
units. Facts, not code.
"""

import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.sbg import codec
from drivers.sbg.codec import encode_log
from vehicled.core.wire.crc import crc16_kermit

LAYOUTS = {
    codec.STATUS: "27 general:4H com_2:6H com:8I aiding:12I uptime_s:22I cpu_percent:26B",
    codec.UTC_TIME: "33 status:4H year:6H month:8B day:9B hour:10B minute:11B second:12B "
    "nanosecond:13I tow_ms:17I"
    " clock_bias_sigma_s:21f clock_scale_sigma_percent:25f clock_residual_s:29f",
    codec.IMU_DATA: "58 status:4H force_x_mps2:6f force_y_mps2:10f force_z_mps2:14f "
    "rate_x_radps:18f rate_y_radps:22f"
    " rate_z_radps:26f temperature_c:30f force_2_x_mps2:34f rate_2_z_radps:54f",
    codec.IMU_SHORT: (
        "32 status:4H force_x:6i force_y:10i force_z:14i rate_x:18i rate_y:22i rate_z:26i "
        "temperature:30h"
    ),
    codec.EKF_EULER: (
        "32 roll_rad:4f pitch_rad:8f yaw_rad:12f roll_sigma_rad:16f yaw_sigma_rad:24f status:28I"
    ),
    codec.EKF_QUAT: "36 w:4f x:8f y:12f z:16f roll_sigma_rad:20f yaw_sigma_rad:28f status:32I",
    codec.EKF_NAV: "72 velocity_north_mps:4f velocity_east_mps:8f velocity_down_mps:12f "
    "velocity_north_sigma_mps:16f"
    " velocity_down_sigma_mps:24f latitude_deg:28d longitude_deg:36d altitude_m:44d "
    "undulation_m:52f latitude_sigma_m:56f longitude_sigma_m:60f altitude_sigma_m:64f status:68I",
    codec.EKF_VEL_BODY: (
        "32 status:4I forward_mps:8f right_mps:12f down_mps:16f forward_sigma_mps:20f "
        "down_sigma_mps:28f"
    ),
    codec.GPS1_VEL: "44 status:4I tow_ms:8I velocity_north_mps:12f velocity_east_mps:16f "
    "velocity_down_mps:20f"
    " velocity_north_sigma_mps:24f course_deg:36f course_sigma_deg:40f",
    codec.GPS1_POS: "62 status:4I tow_ms:8I latitude_deg:12d longitude_deg:20d altitude_m:28d "
    "undulation_m:36f"
    " latitude_sigma_m:40f longitude_sigma_m:44f altitude_sigma_m:48f satellites_used:52B "
    "station:53H correction_age_cs:55H",
    codec.GPS1_HDT: (
        "32 status:4H tow_ms:6I heading_deg:10f heading_sigma_deg:14f pitch_deg:18f "
        "pitch_sigma_deg:22f baseline_m:26f"
    ),
}
"""Layout by log: the length that a unit sends, then place and format of the fields."""
VALUES: dict[str, Any] = {
    "B": 201,
    "H": 51_234,
    "I": 3_000_000_123,
    "h": -1234,
    "i": -123_456_789,
    "f": -1.5,
    "d": 43.070512345,
}


def _crc(data: bytes) -> int:
    """CRC with polynomial 0x8408 and initial value 0, bit by bit."""
    crc = 0
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x8408 if crc & 1 else 0)
    return crc


@given(st.binary(max_size=60))
def test_the_crc_bit_by_bit(data: bytes) -> None:
    assert crc16_kermit(b"123456789") == 0x2189, "check value of CRC-16/KERMIT"
    assert crc16_kermit(data) == _crc(data)


def test_the_shortest_frame_by_hand() -> None:
    # CMD_INFO without payload: id 4, class 0x10, length 0.
    frame = (
        bytes.fromhex("ff5a04100000")
        + _crc(bytes.fromhex("04100000")).to_bytes(2, "little")
        + b"\x33"
    )
    assert codec.command(codec.INFO) == frame


@pytest.mark.parametrize("number", LAYOUTS)
def test_fields_are_where_other_parsers_look(number: int) -> None:
    size, *fields = LAYOUTS[number].split()
    payload = bytearray(int(size))
    for text in fields:
        place = text.partition(":")[2]
        struct.pack_into("<" + place[-1], payload, int(place[:-1]), VALUES[place[-1]])
    log = codec.read(codec.encode(number, bytes(payload)))
    assert not isinstance(log, codec.SbgMessage)
    for text in fields:
        name, _, place = text.partition(":")
        assert getattr(log, name) == VALUES[place[-1]], name
    # Fields of newer firmware are NaN, which equals nothing.
    assert repr(codec.read(encode_log(log))) == repr(log)


def test_every_log_is_checked() -> None:
    assert LAYOUTS.keys() == codec.NAMES.keys()
