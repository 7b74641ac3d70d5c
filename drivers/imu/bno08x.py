"""Bosch/CEVA BNO08x in UART-RVC mode: codec in both directions and driver. Sources and limitations:
NOTES.md.

Frame, 100 Hz: ``AA AA | index | yaw, pitch, roll i16 in 0.01 degrees | acceleration x, y, z i16 in
mg | 3 reserved | sum of index to reserved, modulo 256``, little-endian. The mode has no gyro, so
the angular rate is NaN and the sensor cannot be the only IMU. Axes of the chip are right-handed
with z up; yaw is relative to the direction at power-up.
"""

from collections.abc import Iterator, Sequence
from math import pi
from struct import Struct as Layout
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct

from drivers.imu.base import ImuDevice, ImuParams, Sample, Vector, frames, sound
from vehicled.core.messages import HeadingKind, Message
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.wire.crc import sum8
from vehicled.core.wire.framing import FixedFrame, FrameCheck, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused

SYNC = b"\xaa\xaa"
FRAME_BYTES = 19
PERIOD_NS = 10_000_000.0
FORCE_STEP_MPS2 = STANDARD_GRAVITY_MPS2 / 1000
ANGLE_STEP_RAD = pi / 18_000
HALF_TURN = 18_000
"""Largest angle, in steps."""

_BODY = Layout("<B6h3s")


class RvcPacket(Struct, frozen=True, gc=False):
    """One frame. Rotations apply in the order yaw, pitch, roll."""

    index: int
    yaw_rad: float
    pitch_rad: float
    roll_rad: float
    specific_force_mps2: Vector
    reserved: bytes = bytes(3)
    """Zero in the BNO080; standstill flags in later chips."""


PROTOCOL = Protocol(
    "RVC", SYNC, FixedFrame(FrameCheck(sum8, first=2, tail=1, stored=-1), FRAME_BYTES)
)


def encode(packet: RvcPacket) -> bytes:
    """Return the frame that the device sends; acceleration is limited to the range of its field."""
    angles = (_angle(packet.yaw_rad), _angle(packet.pitch_rad), _angle(packet.roll_rad))
    force = (
        max(-32768, min(32767, round(f / FORCE_STEP_MPS2))) for f in packet.specific_force_mps2
    )
    body = _BODY.pack(packet.index & 0xFF, *angles, *force, packet.reserved)
    return SYNC + body + bytes((sum8(body),))


def parse(frame: bytes) -> RvcPacket:
    """Return the content of a valid frame."""
    index, yaw, pitch, roll, x, y, z, reserved = _BODY.unpack_from(frame, 2)
    force = (x * FORCE_STEP_MPS2, y * FORCE_STEP_MPS2, z * FORCE_STEP_MPS2)
    return RvcPacket(
        index, yaw * ANGLE_STEP_RAD, pitch * ANGLE_STEP_RAD, roll * ANGLE_STEP_RAD, force, reserved
    )


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the valid frames of a recording, as ("RVC", packet)."""
    for name, frame in frames((PROTOCOL,), data):
        yield name, parse(frame)


class Bno08xCodec:
    """Codec of the BNO08x: one sample with acceleration and yaw per frame."""

    protocols: ClassVar[Sequence[Protocol]] = (PROTOCOL,)

    def __init__(self, *, clockwise: bool) -> None:
        self._yaw_step_rad = -ANGLE_STEP_RAD if clockwise else ANGLE_STEP_RAD
        self.usage = MessageUsage()
        self.wants_heading = True

    def reset(self) -> None:
        """Do nothing: every frame stands for itself."""

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return one sample without angular rate."""
        index, yaw, _, _, x, y, z, _ = _BODY.unpack_from(frame, 2)
        force = (x * FORCE_STEP_MPS2, y * FORCE_STEP_MPS2, z * FORCE_STEP_MPS2)
        if abs(yaw) > HALF_TURN:
            self.usage.lose(name, Unused.OUT_OF_RANGE, "yaw", f"{yaw / 100:.2f} degrees")
            return sound(self.usage, name, Sample(index, force))
        return sound(self.usage, name, Sample(index, force, None, yaw * self._yaw_step_rad))


class Bno08xParams(ImuParams, frozen=True, kw_only=True):
    """Parameters of a BNO08x. The rate is fixed by the device."""

    rate_hz: Annotated[float, Meta(gt=0, le=1000)] = 100.0
    latency_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.0083
    """Least latency, s: 6.6 ms at 100 Hz by the data sheet, plus 19 bytes at 115200 baud."""
    accelerometer_range_mps2: Annotated[float, Meta(gt=0)] = 8 * STANDARD_GRAVITY_MPS2
    """Range of the accelerometer, m/s2."""
    stuck_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Stuck timeout, s; steps of 1 mg are as large as the noise at standstill."""
    heading_sigma_rad: Annotated[float, Meta(gt=0, le=pi)] = 0.05
    """Standard deviation of the yaw in the first minutes, rad; it drifts by 0.5 degrees per
    minute."""
    yaw_positive: Literal["left", "right"] = "left"
    """Direction of positive yaw. The data sheet does not define it; turn the vehicle by hand to
    find out."""


class Bno08xDevice(ImuDevice):
    """BNO08x with its mode pins set to UART-RVC. It accepts no commands."""

    name: ClassVar[str] = "bno08x"
    tick_ns: ClassVar[float | None] = PERIOD_NS
    counter_bits: ClassVar[int | None] = 8
    heading_kind: ClassVar[HeadingKind] = HeadingKind.INERTIAL
    Params: ClassVar[type[ImuParams]] = Bno08xParams

    def __init__(
        self, params: Bno08xParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(
            params,
            messages,
            command_lifetime_ns,
            Bno08xCodec(clockwise=params.yaw_positive == "right"),
        )


def _angle(rad: float) -> int:
    """Return an angle in 0.01 degrees, -180 to 180."""
    return (round(rad / ANGLE_STEP_RAD) + 18_000) % 36_000 - 18_000
