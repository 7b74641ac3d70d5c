"""Wheeltec N100 (FDISystems DETA10 family), protocol FDILink: codec in both directions and driver.
Sources: NOTES.md.

Frame: ``FC | type | length | sn | CRC-8 | CRC-16, big-endian | payload, little-endian | FD``. The
CRC-8 covers the four bytes before it, so a damaged length cannot hold back later frames; the CRC-16
covers the payload. Device axes: forward, right, down; specific force, so z is -9.81 when level;
heading clockwise from magnetic north.
"""

from collections.abc import Iterator, Sequence
from math import pi
from struct import Struct as Layout
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.imu.axes import euler_problem, quaternion_problem
from drivers.imu.base import ImuDevice, ImuParams, Sample, Vector, frames, sound
from vehicled.core.messages import HeadingKind, Message
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.crc import crc8, crc16_xmodem
from vehicled.core.wire.framing import NO_FRAME, CountedFrame, FrameCheck, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused

SYNC = b"\xfc"
END = 0xFD
IMU, AHRS, INSGPS, GROUND = 0x40, 0x41, 0x42, 0xF0
HEAD_BYTES = 7
OVERHEAD_BYTES = HEAD_BYTES + 1
NAMES = {IMU: "IMU", AHRS: "AHRS", INSGPS: "INSGPS", GROUND: "GROUND"}

_IMU = Layout("<12fq")
_AHRS = Layout("<10fq")


class ImuPacket(Struct, frozen=True, gc=False):
    """Type 0x40 in units and axes of the device: forward, right, down."""

    gyro_radps: Vector
    accelerometer_mps2: Vector
    magnetometer_mg: Vector
    """Magnetic field, mG."""
    temperature_c: float
    pressure_pa: float
    """Pressure, Pa; always 101325 without a barometer."""
    pressure_temperature_c: float
    timestamp_us: int
    """Time since power-up, us."""


class AhrsPacket(Struct, frozen=True, gc=False):
    """Type 0x41 in units and axes of the device: forward, right, down; north, east, down."""

    rates_radps: Vector
    """Rates of roll, pitch and heading, rad/s."""
    roll_rad: float
    pitch_rad: float
    heading_rad: float
    """Heading, rad, 0 to 2 pi, clockwise from magnetic north."""
    quaternion: Vector
    """Quaternion w, x, y, z."""
    timestamp_us: int


class _FdiLink(CountedFrame):
    """Frame whose head has a checksum of its own, so a damaged length holds nothing back."""

    def __init__(self) -> None:
        check = FrameCheck(
            crc16_xmodem, first=HEAD_BYTES, tail=1, stored=5, size=2, end=bytes((END,))
        )
        super().__init__(check, at=2, extra=OVERHEAD_BYTES, most=0xFF, head=5)

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        size = super().length(buffer, at, end)
        return NO_FRAME if size > 0 and crc8(buffer[at : at + 4]) != buffer[at + 4] else size


PROTOCOL = Protocol("FDILink", SYNC, _FdiLink())


def encode(kind: int, payload: bytes, sn: int) -> bytes:
    """Return a frame of type ``kind``; ``sn`` counts frames of all types, modulo 256. Raises
    ValueError beyond 255 bytes of payload."""
    if len(payload) > 255:
        raise ValueError(f"{len(payload)} bytes of payload do not fit a frame (255 at most)")
    head = bytes((SYNC[0], kind, len(payload), sn & 0xFF))
    return (
        head
        + bytes((crc8(head),))
        + crc16_xmodem(payload).to_bytes(2, "big")
        + payload
        + bytes((END,))
    )


def encode_imu(packet: ImuPacket, sn: int) -> bytes:
    """Return a frame of type 0x40."""
    p = packet
    values = (
        *p.gyro_radps,
        *p.accelerometer_mps2,
        *p.magnetometer_mg,
        p.temperature_c,
        p.pressure_pa,
        p.pressure_temperature_c,
    )
    return encode(IMU, _IMU.pack(*values, p.timestamp_us), sn)


def encode_ahrs(packet: AhrsPacket, sn: int) -> bytes:
    """Return a frame of type 0x41."""
    p = packet
    attitude = (*p.rates_radps, p.roll_rad, p.pitch_rad, p.heading_rad, *p.quaternion)
    return encode(AHRS, _AHRS.pack(*attitude, p.timestamp_us), sn)


def parse(frame: bytes) -> ImuPacket | AhrsPacket | bytes:
    """Return the packet in a valid frame, or the raw payload if type or length are unknown."""
    kind, length = frame[1], frame[2]
    if kind == IMU and length == _IMU.size:
        v = _IMU.unpack_from(frame, HEAD_BYTES)
        return ImuPacket(v[0:3], v[3:6], v[6:9], v[9], v[10], v[11], v[12])
    if kind == AHRS and length == _AHRS.size:
        v = _AHRS.unpack_from(frame, HEAD_BYTES)
        return AhrsPacket(v[0:3], v[3], v[4], v[5], v[6:10], v[10])
    return frame[HEAD_BYTES:-1]


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the valid frames of a recording as (name, content); unknown types are named by
    number."""
    for _, frame in frames((PROTOCOL,), data):
        yield NAMES.get(frame[1], f"0x{frame[1]:02X}"), parse(frame)


class N100Codec:
    """Codec of the N100: 0x40 gives force and rate, 0x41 the yaw; other types are ignored."""

    protocols: ClassVar[Sequence[Protocol]] = (PROTOCOL,)

    def __init__(self) -> None:
        self.usage = MessageUsage()
        self.wants_heading = True

    def reset(self) -> None:
        """Do nothing: every frame stands for itself."""

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return one sample for frames 0x40 and 0x41, none for others."""
        kind, length = frame[1], frame[2]
        name = NAMES.get(kind) or f"0x{kind:02X}"
        if kind == IMU and length == _IMU.size:
            wx, wy, wz, ax, ay, az, _, _, _, celsius, _, _, timestamp_us = _IMU.unpack_from(
                frame, HEAD_BYTES
            )
            sample = Sample(
                timestamp_us, (ax, -ay, -az), (wx, -wy, -wz), None, celsius + ZERO_CELSIUS_K
            )
            return sound(self.usage, name, sample)
        if kind == AHRS and length == _AHRS.size:
            _, _, _, roll, pitch, heading, *quaternion, timestamp_us = _AHRS.unpack_from(
                frame, HEAD_BYTES
            )
            if not self.wants_heading:
                self.usage.refuse(name, Unused.NOT_WANTED)
                return ()
            problem = euler_problem(roll, pitch, heading) or quaternion_problem(quaternion)
            if problem is None:
                return sound(self.usage, name, Sample(timestamp_us, None, None, pi / 2 - heading))
            self.usage.refuse(name, *problem)
            return ()
        self.usage.refuse(
            name,
            *((Unused.UNREADABLE, "length", length) if kind in (IMU, AHRS) else (Unused.NOT_READ,)),
        )
        return ()


class N100Params(ImuParams, frozen=True, kw_only=True):
    """Parameters of a Wheeltec N100. Its rate and content are set with the vendor's tool."""

    rate_hz: Annotated[float, Meta(gt=0, le=1000)] = 100.0
    latency_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.001
    """Least latency, s: 64 bytes at 921600 baud take 0.7 ms; the filter delay is unpublished."""
    heading_sigma_rad: Annotated[float, Meta(gt=0, le=pi)] = 0.35
    """Standard deviation of the heading, rad, for a compass near motors."""


class N100Device(ImuDevice):
    """Driver of a free-running Wheeltec N100."""

    name: ClassVar[str] = "n100"
    tick_ns: ClassVar[float | None] = 1_000.0
    heading_kind: ClassVar[HeadingKind] = HeadingKind.MAGNETIC
    Params: ClassVar[type[ImuParams]] = N100Params

    def __init__(
        self, params: N100Params, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns, N100Codec())
