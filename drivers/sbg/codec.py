"""SBG Systems Ellipse, Ekinox, Quanta: sbgECom frames and logs, codec in both directions. Sources:
NOTES.md.

``FF 5A | id u8 | class u8 | length u16 | payload | CRC u16 | 33``, all little-endian; the CRC
covers id to payload. Device axes: forward, right, down; world: north, east, down; angles of the
navigation in rad, of the receiver and all places in degrees. Payloads only ever grow at their end,
so a longer one is read as far as it is known, and a shorter one as far as it goes.
"""

from collections.abc import Iterator
from struct import Struct as Layout
from struct import error as LayoutError
from typing import NamedTuple

from msgspec import Struct

from drivers.imu.base import frames
from vehicled.core.messages import NAN
from vehicled.core.wire.crc import crc16_kermit
from vehicled.core.wire.framing import NO_FRAME, CountedFrame, FrameCheck, Protocol

SYNC, END = b"\xff\x5a", 0x33
LOGS, FAST_LOGS, COMMANDS = 0x00, 0x01, 0x10
"""Message classes."""
EXTENDED = 0x80
"""Class bit of a page of an answer that is too long for one frame."""
MAX_PAYLOAD_BYTES = 4086
COMMON_PAYLOAD_BYTES = 256
"""Longest payload of a log with fixed fields; a longer candidate would hold back what follows
it."""
LONG_LOGS = frozenset({5, 31, 38, 48, 49, 50, 51, 55, 59, 60})
"""Logs of any length: raw data of receivers and corrections, satellites, diagnostics, session,
vibration spectra."""
OVERHEAD_BYTES = 9

STATUS, UTC_TIME, IMU_DATA, EKF_EULER, EKF_QUAT, EKF_NAV = 1, 2, 3, 6, 7, 8
GPS1_VEL, GPS1_POS, GPS1_HDT, IMU_SHORT, EKF_VEL_BODY = 13, 14, 15, 44, 54
"""Identifiers of logs."""
ACK, INFO, OUTPUT_CONF = 0, 4, 30
"""Identifiers of commands."""

GENERAL_OK = {0: "main power", 1: "IMU power", 2: "GNSS power", 3: "settings", 4: "temperature"}
"""Bits of the general status that are set while all is well."""
IMU_COM_OK, ACCELS_IN_RANGE, GYROS_IN_RANGE, GYROS_HIGH_SCALE = 1 << 0, 1 << 8, 1 << 9, 1 << 10
IMU_PASSED = 0xFF
"""Communication and self-tests of the unit and of all six axes."""
ATTITUDE_VALID, HEADING_VALID, VELOCITY_VALID, POSITION_VALID = 1 << 4, 1 << 5, 1 << 6, 1 << 7
GPS1_POS_USED = 1 << 11
MODE_AHRS, MODE_NAV_POSITION = 2, 4
UTC_INITIALISED = 2
SINGLE, DGPS, RTK_FLOAT, RTK_FIXED, PPP_FIXED, TYPED_IN = 2, 3, 6, 7, 9, 10
"""Types of a position; from ``DGPS`` to ``PPP_FIXED`` with corrections; ``TYPED_IN`` is the place
of a base, as it was entered."""
UNKNOWN_8, UNKNOWN_16 = 0xFF, 0xFFFF

MAIN_LOOP_HZ = 200.0
DIVISORS = (1, 2, 4, 5, 8, 10, 20, 40, 200)
"""Output modes of a log: every n-th main loop. 0: off."""
NEW_DATA = 10_001
"""Output mode of a log that is sent when it has news."""

ACCELERATION_LSB = 1_048_576.0
RATE_LSB = 67_108_864.0
RATE_HIGH_LSB = 12_304_174.0
TEMPERATURE_LSB = 256.0
"""Counts of IMU_SHORT per m/s2, rad/s, rad/s at high scale, and degree Celsius."""


def divisor_of(rate_hz: float) -> int:
    """Return the output mode with the nearest rate."""
    return min(DIVISORS, key=lambda divisor: abs(MAIN_LOOP_HZ / divisor - rate_hz))


class StatusLog(NamedTuple):
    """Log 1."""

    time_us: int
    general: int
    com_2: int
    com: int
    aiding: int
    reserved_2: int = 0
    reserved_3: int = 0
    uptime_s: int = 0
    cpu_percent: int = UNKNOWN_8


class UtcTime(NamedTuple):
    """Log 2. Bits 1-4 of ``status``: clock, 3 valid; 6-9: UTC, 2 initialised."""

    time_us: int
    status: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    nanosecond: int
    tow_ms: int
    clock_bias_sigma_s: float = NAN
    clock_scale_sigma_percent: float = NAN
    clock_residual_s: float = NAN


class ImuData(NamedTuple):
    """Log 3, deprecated. The second force and rate repeat the first."""

    time_us: int
    status: int
    force_x_mps2: float
    force_y_mps2: float
    force_z_mps2: float
    rate_x_radps: float
    rate_y_radps: float
    rate_z_radps: float
    temperature_c: float
    force_2_x_mps2: float
    force_2_y_mps2: float
    force_2_z_mps2: float
    rate_2_x_radps: float
    rate_2_y_radps: float
    rate_2_z_radps: float


class EkfEuler(NamedTuple):
    """Log 6: attitude, angles in rad; yaw clockwise from true north, pitch nose up."""

    time_us: int
    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    roll_sigma_rad: float
    pitch_sigma_rad: float
    yaw_sigma_rad: float
    status: int
    declination_rad: float = NAN
    inclination_rad: float = NAN


class EkfQuat(NamedTuple):
    """Log 7: attitude as the rotation from body to north, east, down."""

    time_us: int
    w: float
    x: float
    y: float
    z: float
    roll_sigma_rad: float
    pitch_sigma_rad: float
    yaw_sigma_rad: float
    status: int
    declination_rad: float = NAN
    inclination_rad: float = NAN


class EkfNav(NamedTuple):
    """Log 8: velocity and place of the output point. Height above the ellipsoid: altitude +
    undulation."""

    time_us: int
    velocity_north_mps: float
    velocity_east_mps: float
    velocity_down_mps: float
    velocity_north_sigma_mps: float
    velocity_east_sigma_mps: float
    velocity_down_sigma_mps: float
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    undulation_m: float
    latitude_sigma_m: float
    longitude_sigma_m: float
    altitude_sigma_m: float
    status: int


class GpsVelocity(NamedTuple):
    """Log 13. Bits 0-5 of ``status``: 0 computed; 6-11: type, 0 no solution."""

    time_us: int
    status: int
    tow_ms: int
    velocity_north_mps: float
    velocity_east_mps: float
    velocity_down_mps: float
    velocity_north_sigma_mps: float
    velocity_east_sigma_mps: float
    velocity_down_sigma_mps: float
    course_deg: float
    course_sigma_deg: float


class GpsPosition(NamedTuple):
    """Log 14. Bits 0-5 of ``status``: 0 computed; 6-11: type."""

    time_us: int
    status: int
    tow_ms: int
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    undulation_m: float
    latitude_sigma_m: float
    longitude_sigma_m: float
    altitude_sigma_m: float
    satellites_used: int = UNKNOWN_8
    station: int = UNKNOWN_16
    correction_age_cs: int = UNKNOWN_16
    satellites_tracked: int = UNKNOWN_8
    status_ext: int = 0


class GpsHeading(NamedTuple):
    """Log 15: direction from the first antenna to the second, clockwise from true north. Bits 0-5
    of ``status``: 0 computed."""

    time_us: int
    status: int
    tow_ms: int
    heading_deg: float
    heading_sigma_deg: float
    pitch_deg: float
    pitch_sigma_deg: float
    baseline_m: float = NAN
    satellites_tracked: int = UNKNOWN_8
    satellites_used: int = UNKNOWN_8


class ImuShort(NamedTuple):
    """Log 44, in counts: :data:`ACCELERATION_LSB` and the following."""

    time_us: int
    status: int
    force_x: int
    force_y: int
    force_z: int
    rate_x: int
    rate_y: int
    rate_z: int
    temperature: int


class EkfVelBody(NamedTuple):
    """Log 54: velocity of the output point along forward, right, down."""

    time_us: int
    status: int
    forward_mps: float
    right_mps: float
    down_mps: float
    forward_sigma_mps: float
    right_sigma_mps: float
    down_sigma_mps: float


Log = (
    StatusLog | UtcTime | ImuData | EkfEuler | EkfQuat | EkfNav | GpsVelocity | GpsPosition
    | GpsHeading | ImuShort | EkfVelBody
)  # fmt: skip


class _Shape(NamedTuple):
    """Layout of one log."""

    kind: type[Log]
    required: str
    added: str = ""
    """Fields of later versions."""

    @property
    def layouts(self) -> list[Layout]:
        """All lengths that firmware sends, longest first."""
        return [
            Layout("<" + self.required + self.added[:count])
            for count in range(len(self.added), -1, -1)
        ]


_SHAPES = {
    STATUS: _Shape(StatusLog, "IHHII", "IHIB"),
    UTC_TIME: _Shape(UtcTime, "IHHBBBBBII", "fff"),
    IMU_DATA: _Shape(ImuData, "IH13f"),
    EKF_EULER: _Shape(EkfEuler, "I6fI", "ff"),
    EKF_QUAT: _Shape(EkfQuat, "I7fI", "ff"),
    EKF_NAV: _Shape(EkfNav, "I6f3d4fI"),
    GPS1_VEL: _Shape(GpsVelocity, "III8f"),
    GPS1_POS: _Shape(GpsPosition, "III3d4f", "BHHBI"),
    GPS1_HDT: _Shape(GpsHeading, "IHI4f", "fBB"),
    IMU_SHORT: _Shape(ImuShort, "IH6ih"),
    EKF_VEL_BODY: _Shape(EkfVelBody, "II6f"),
}
_LAYOUTS = {number: (shape.kind, shape.layouts) for number, shape in _SHAPES.items()}
_NUMBERS: dict[type[Log], int] = {shape.kind: number for number, shape in _SHAPES.items()}
NAMES = {
    STATUS: "STATUS", UTC_TIME: "UTC_TIME", IMU_DATA: "IMU_DATA", EKF_EULER: "EKF_EULER",
    EKF_QUAT: "EKF_QUAT", EKF_NAV: "EKF_NAV", GPS1_VEL: "GPS1_VEL", GPS1_POS: "GPS1_POS",
    GPS1_HDT: "GPS1_HDT", IMU_SHORT: "IMU_SHORT", EKF_VEL_BODY: "EKF_VEL_BODY",
}  # fmt: skip
"""Names of the logs that are decoded."""


class SbgMessage(Struct, frozen=True, gc=False):
    """Content of a frame that is no known log: an answer, a command, a page of a long payload, or
    another log."""

    number: int
    message_class: int
    payload: bytes


class _SbgFrame(CountedFrame):
    """Frame whose longest payload depends on class and number."""

    def __init__(self) -> None:
        check = FrameCheck(
            crc16_kermit, first=2, tail=3, stored=-3, size=2, order="little", end=bytes((END,))
        )
        super().__init__(check, at=4, width=2, extra=OVERHEAD_BYTES, most=MAX_PAYLOAD_BYTES)
        longest, fixed = MAX_PAYLOAD_BYTES + OVERHEAD_BYTES, COMMON_PAYLOAD_BYTES + OVERHEAD_BYTES
        self._longest = {
            each: [longest] * 256 for each in (LOGS, COMMANDS, COMMANDS | EXTENDED)
        } | {FAST_LOGS: [fixed] * 256}
        """Longest frame by class and number."""
        self._longest[LOGS] = [longest if number in LONG_LOGS else fixed for number in range(256)]

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        size = super().length(buffer, at, end)
        longest = self._longest.get(buffer[at + 3]) if size > 0 else None
        return (
            NO_FRAME if size > 0 and (longest is None or size > longest[buffer[at + 2]]) else size
        )


PROTOCOL = Protocol("sbgECom", SYNC, _SbgFrame())


def read(frame: bytes) -> Log | SbgMessage:
    """Return the content of a valid frame. A known log that is too short is a
    :class:`SbgMessage`."""
    number, message_class, payload = frame[2], frame[3], frame[6:-3]
    if message_class == LOGS and number in _LAYOUTS:
        kind, layouts = _LAYOUTS[number]
        for layout in layouts:
            if len(payload) >= layout.size:
                return kind(*layout.unpack_from(payload))
    return SbgMessage(number, message_class, payload)


def encode(number: int, payload: bytes, message_class: int = LOGS) -> bytes:
    """Return a frame. Raises ValueError for a number, class or length that does not exist."""
    if not (0 <= number <= 255 and 0 <= message_class <= 255 and len(payload) <= MAX_PAYLOAD_BYTES):
        raise ValueError(
            f"{len(payload)} bytes of message {number} in class {message_class} are no frame"
        )
    body = bytes((number, message_class)) + len(payload).to_bytes(2, "little") + payload
    return SYNC + body + crc16_kermit(body).to_bytes(2, "little") + bytes((END,))


def name_of(frame: bytes) -> str:
    """Return the name of the log or command in a valid frame, by class and number without one:
    ``SBG 00-1f``."""
    number, message_class = frame[2], frame[3]
    known = NAMES.get(number) if message_class == LOGS and isinstance(read(frame), tuple) else None
    return known or f"SBG {message_class:02x}-{number:02x}"


def number_of(log: Log) -> int:
    """Return the identifier of a log."""
    return _NUMBERS[type(log)]


def encode_log(log: Log, fields: int | None = None) -> bytes:
    """Return the frame of a log, with its first ``fields`` fields only as older firmware sends it.
    Raises ValueError."""
    number = number_of(log)
    shape = _SHAPES[number]
    added = len(shape.added) - (0 if fields is None else len(log) - fields)
    if not 0 <= added <= len(shape.added):
        raise ValueError(f"{NAMES[number]} with {fields} fields does not exist")
    try:
        payload = Layout("<" + shape.required + shape.added[:added]).pack(*log[:fields])
    except (LayoutError, OverflowError) as error:
        raise ValueError(f"{log} is no {NAMES[number]}: {error}") from error
    return encode(number, payload)


def command(number: int, payload: bytes = b"") -> bytes:
    """Return the frame of a command or of its answer."""
    return encode(number, payload, COMMANDS)


def acknowledgement(number: int, error: int = 0) -> bytes:
    """Return the device's acknowledgement of a command; ``error`` 0: done."""
    return command(ACK, bytes((number, COMMANDS)) + error.to_bytes(2, "little"))


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over a recording: ("EKF_NAV", EkfNav), others by class and number as ("SBG 00-1f",
    Message)."""
    for _, frame in frames((PROTOCOL,), data):
        yield name_of(frame), read(frame)
