"""WitMotion sensors with 11-byte frames (WT901, HWT905, JY901): codec in both directions and
driver. Sources: NOTES.md.

Frame: ``55 | type | 8 bytes, little-endian | sum of the ten bytes before, modulo 256``. One
measurement is several frames, in the order of their types. The axes printed on the case are
right-handed with z up and values are specific force, so no sign changes; the direction of x is set
by the mounting.
"""

from collections.abc import Iterator, Sequence
from math import atan2, pi
from struct import Struct as Layout
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.imu.axes import quaternion_problem
from drivers.imu.base import ImuDevice, ImuParams, Sample, Vector, frames, sound
from vehicled.core.messages import HeadingKind, Message, PortState
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.crc import sum8
from vehicled.core.wire.framing import FixedFrame, FrameCheck, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused

SYNC = b"\x55"
FRAME_BYTES = 11
TIME = 0x50
ACCELERATION = 0x51
GYRO = 0x52
ANGLE = 0x53
MAGNETIC = 0x54
QUATERNION = 0x59
REGISTER = 0x5F
KINDS = frozenset((*range(TIME, 0x5B), REGISTER))
"""Known frame types. 0x55 to 0x58 and 0x5A (ports, pressure, GNSS of larger models) are ignored."""

FORCE_STEP_MPS2 = 16 * STANDARD_GRAVITY_MPS2 / 32768
RATE_STEP_RADPS = 2000 * pi / 180 / 32768
ANGLE_STEP_RAD = pi / 32768

REGISTER_CONTENT, REGISTER_RATE = 0x02, 0x03
UNLOCK = bytes.fromhex("FF AA 69 88 B5")
SAVE = bytes.fromhex("FF AA 00 00 00")
CONTENT = 0x0F
"""Output content: time, acceleration, gyro, angle; one bit per type from 0x50 on."""
RATE_CODES = {10: 0x06, 20: 0x07, 50: 0x08, 100: 0x09, 125: 0x0A, 200: 0x0B}
COMMAND_PAUSE_NS = 100_000_000
COMMAND_BYTES = 5
SAVE_REGISTER, READ_REGISTER, UNLOCK_REGISTER = 0x00, 0x27, 0x69
UNLOCK_KEY = 0xB588

_WORDS = Layout("<4h")
_TIME = Layout("<6BH")


class Time(Struct, frozen=True, gc=False):
    """Type 0x50: calendar of the device, never set."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    millisecond: int


class Acceleration(Struct, frozen=True, gc=False):
    """Type 0x51: specific force."""

    specific_force_mps2: Vector
    temperature_k: float = ZERO_CELSIUS_K


class Gyro(Struct, frozen=True, gc=False):
    """Type 0x52: angular rate. ``spare`` is a temperature or a voltage, by model."""

    angular_rate_radps: Vector
    spare: int = 0


class Angle(Struct, frozen=True, gc=False):
    """Type 0x53: rotation about z, then y, then x, from east, north, up."""

    roll_rad: float
    pitch_rad: float
    yaw_rad: float
    version: int = 0


class Magnetic(Struct, frozen=True, gc=False):
    """Type 0x54: magnetometer counts, scaled by model."""

    counts: Vector
    temperature_k: float = ZERO_CELSIUS_K


class Quaternion(Struct, frozen=True, gc=False):
    """Type 0x59: orientation."""

    w: float
    x: float
    y: float
    z: float


class Register(Struct, frozen=True, gc=False):
    """Type 0x5F: four registers, beginning with the requested one."""

    values: tuple[int, ...]


Packet = Time | Acceleration | Gyro | Angle | Magnetic | Quaternion | Register
NAMES = {
    TIME: "TIME", ACCELERATION: "ACCELERATION", GYRO: "GYRO", ANGLE: "ANGLE", MAGNETIC: "MAGNETIC",
    QUATERNION: "QUATERNION", REGISTER: "REGISTER",
}  # fmt: skip


PROTOCOL = Protocol(
    "WitMotion", SYNC, FixedFrame(FrameCheck(sum8, tail=1, stored=-1), FRAME_BYTES, KINDS)
)


def frame_of(kind: int, payload: bytes) -> bytes:
    """Return a frame of type ``kind`` with eight bytes of payload."""
    body = bytes((SYNC[0], kind)) + payload
    return body + bytes((sum8(body),))


def encode(packet: Packet) -> bytes:
    """Return the frame that the device sends: values are limited to their range, angles wrap."""
    match packet:
        case Time():
            p = packet
            return frame_of(
                TIME,
                _TIME.pack(
                    p.year - 2000, p.month, p.day, p.hour, p.minute, p.second, p.millisecond
                ),
            )
        case Acceleration(force, kelvin):
            return frame_of(
                ACCELERATION,
                _WORDS.pack(*(_clip(f / FORCE_STEP_MPS2) for f in force), _centi(kelvin)),
            )
        case Gyro(rate, spare):
            return frame_of(GYRO, _WORDS.pack(*(_clip(w / RATE_STEP_RADPS) for w in rate), spare))
        case Angle(roll, pitch, yaw, version):
            return frame_of(
                ANGLE,
                _WORDS.pack(
                    *(_wrap(a / ANGLE_STEP_RAD) for a in (roll, pitch, yaw)), _wrap(version)
                ),
            )
        case Magnetic(counts, kelvin):
            return frame_of(MAGNETIC, _WORDS.pack(*map(_clip, counts), _centi(kelvin)))
        case Quaternion(w, x, y, z):
            return frame_of(QUATERNION, _WORDS.pack(*(_clip(32768 * q) for q in (w, x, y, z))))
        case Register(values):
            return frame_of(REGISTER, _WORDS.pack(*map(_wrap, values)))


def command(register: int, value: int) -> bytes:
    """Return the command that writes a register. It needs ``UNLOCK`` before it, and ``SAVE`` to
    survive a power cycle."""
    return bytes((0xFF, 0xAA, register, value & 0xFF, value >> 8))


def probe_command(buffer: bytes | bytearray, at: int, end: int) -> int:
    """Return 5 for a host command at ``at``, 0 if more bytes are needed. Commands have no
    checksum."""
    return COMMAND_BYTES if end - at >= COMMAND_BYTES else 0


COMMANDS = Protocol("command", b"\xff\xaa", probe_command)
"""Protocol of the commands from host to device."""


def parse_command(frame: bytes) -> tuple[int, int]:
    """Return (register, value) of a complete command."""
    return frame[2], frame[3] | frame[4] << 8


def parse(frame: bytes) -> Packet | bytes:
    """Return the packet in a valid frame, or the eight raw bytes of an unused type."""
    kind = frame[1]
    if kind == TIME:
        year, *rest = _TIME.unpack_from(frame, 2)
        return Time(2000 + year, *rest)
    a, b, c, d = _WORDS.unpack_from(frame, 2)
    if kind == ACCELERATION:
        return Acceleration(
            (a * FORCE_STEP_MPS2, b * FORCE_STEP_MPS2, c * FORCE_STEP_MPS2),
            d / 100 + ZERO_CELSIUS_K,
        )
    if kind == GYRO:
        return Gyro((a * RATE_STEP_RADPS, b * RATE_STEP_RADPS, c * RATE_STEP_RADPS), d)
    if kind == ANGLE:
        return Angle(a * ANGLE_STEP_RAD, b * ANGLE_STEP_RAD, c * ANGLE_STEP_RAD, d & 0xFFFF)
    if kind == MAGNETIC:
        return Magnetic((float(a), float(b), float(c)), d / 100 + ZERO_CELSIUS_K)
    if kind == QUATERNION:
        return Quaternion(a / 32768, b / 32768, c / 32768, d / 32768)
    if kind == REGISTER:
        return Register((a, b, c, d))
    return frame[2:10]


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the valid frames of a recording as (name, content); unknown types are named by
    number."""
    for _, frame in frames((PROTOCOL,), data):
        yield NAMES.get(frame[1], f"0x{frame[1]:02X}"), parse(frame)


class WitMotionCodec:
    """Codec of WitMotion: one sample as soon as acceleration and gyro of a measurement are
    complete, then its yaw separately.

    A gyro frame counts only directly after an acceleration frame: with a weak checksum and no
    serial number, halves of different measurements could be combined.
    """

    protocols: ClassVar[Sequence[Protocol]] = (PROTOCOL,)

    def __init__(self) -> None:
        self.incomplete = 0
        """Measurements with only one of the two inertial frames."""
        self.usage = MessageUsage()
        self.wants_heading = True
        self.reset()

    def reset(self) -> None:
        """Wait for the beginning of a measurement."""
        self._last = 0
        self._time_ms: int | None = None
        self._counter: int | None = None
        self._force: Vector = ()
        self._temperature_k = ZERO_CELSIUS_K
        self._has_angle = False
        self._waits_for_gyro = False

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return a sample of force and rate at 0x52, and of yaw at 0x53, or at 0x59 without
        0x53."""
        kind = frame[1]
        usage, title = self.usage, NAMES.get(kind) or f"0x{kind:02X}"
        if kind == REGISTER:  # a reply may come between any two frames
            usage.refuse(title, Unused.NOT_READ)
            return ()
        last, self._last = self._last, kind
        if kind == ACCELERATION:
            if last == ACCELERATION:
                self.incomplete += 1
            if self._waits_for_gyro:
                usage.refuse(title, Unused.INCOMPLETE)
            self._waits_for_gyro = True
            x, y, z, centi = _WORDS.unpack_from(frame, 2)
            self._force = (x * FORCE_STEP_MPS2, y * FORCE_STEP_MPS2, z * FORCE_STEP_MPS2)
            self._temperature_k = centi / 100 + ZERO_CELSIUS_K
            self._counter = self._time_ms if last == TIME else None
            self._has_angle = False
            return ()
        if kind == GYRO:
            if last != ACCELERATION:
                self.incomplete += 1
                usage.refuse(title, Unused.INCOMPLETE)
                return ()
            self._waits_for_gyro = False
            usage.use(NAMES[ACCELERATION])
            x, y, z, _ = _WORDS.unpack_from(frame, 2)
            rate = (x * RATE_STEP_RADPS, y * RATE_STEP_RADPS, z * RATE_STEP_RADPS)
            return sound(
                usage, title, Sample(self._counter, self._force, rate, None, self._temperature_k)
            )
        if kind in (ANGLE, QUATERNION):
            return self._yaw(kind, title, frame)
        if kind == TIME:
            self._time_ms = _milliseconds(frame)
            if self._time_ms is None:
                usage.refuse(title, Unused.OUT_OF_RANGE, "time of day")
            else:
                usage.use(title)
        else:
            usage.refuse(title, Unused.NOT_READ)
        return ()

    def _yaw(self, kind: int, title: str, frame: bytes) -> Sequence[Sample]:
        if not self.wants_heading:
            self.usage.refuse(title, Unused.NOT_WANTED)
            return ()
        if kind == ANGLE:
            self._has_angle = True
            yaw_rad = _WORDS.unpack_from(frame, 2)[2] * ANGLE_STEP_RAD
        elif self._has_angle:
            self.usage.refuse(title, Unused.DUPLICATE)
            return ()
        else:
            w, x, y, z = [count / 32768 for count in _WORDS.unpack_from(frame, 2)]
            problem = quaternion_problem((w, x, y, z))
            if problem is not None:
                self.usage.refuse(title, *problem)
                return ()
            yaw_rad = atan2(2.0 * (w * z + x * y), w * w + x * x - y * y - z * z)
        return sound(self.usage, title, Sample(self._counter, yaw_rad=yaw_rad))


class WitMotionParams(ImuParams, frozen=True, kw_only=True):
    """Parameters of a WitMotion sensor. As delivered it sends at 9600 baud and 10 Hz, too slow for
    driving."""

    rate_hz: Annotated[float, Meta(gt=0, le=200)] = 100.0
    latency_s: Annotated[float, Meta(ge=0, le=0.5)] = 0.003
    """Least latency, s: 33 bytes at 115200 baud; the device's filter adds about as much at 98 Hz
    bandwidth."""
    stuck_s: Annotated[float, Meta(ge=0.1, le=60)] = 1.0
    """Stuck timeout, s; at standstill a working sensor repeats its coarse values for longer than
    others."""
    heading_sigma_rad: Annotated[float, Meta(gt=0, le=pi)] = 0.35
    """Sigma of the heading, rad."""
    configure: bool = False
    """Set content and rate whenever the port opens. Nothing is saved in the device; the baud rate
    is unchanged."""


class WitMotionDevice(ImuDevice):
    """Driver of a free-running WitMotion sensor, configured only if the profile says so."""

    name: ClassVar[str] = "witmotion"
    tick_ns: ClassVar[float | None] = 1_000_000.0
    counter_modulus: ClassVar[int | None] = 86_400_000
    heading_kind: ClassVar[HeadingKind] = HeadingKind.MAGNETIC
    Params: ClassVar[type[ImuParams]] = WitMotionParams

    def __init__(
        self, params: WitMotionParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._wit = WitMotionCodec()
        super().__init__(params, messages, command_lifetime_ns, self._wit)
        self._set_up: tuple[bytes, ...] = ()
        if params.configure:
            self._set_up = (UNLOCK, command(REGISTER_CONTENT, CONTENT))
            code = RATE_CODES.get(round(params.rate_hz))
            if code is not None:
                self._set_up += (command(REGISTER_RATE, code),)
        self._to_say: list[bytes] = []
        self._due_ns = NEVER_NS

    @property
    def incomplete(self) -> int:
        """Measurements with only one of the two inertial frames."""
        return self._wit.incomplete

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Reset, and configure the device if requested."""
        messages = super().on_port(state, detail, now_ns)
        self._to_say = list(self._set_up) if state is PortState.OPENED else []
        self._due_ns = now_ns if self._to_say else NEVER_NS
        return messages

    def next_due_ns(self) -> int:
        return self._due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Send one command at a time, because the device drops commands while it writes a
        register."""
        if now_ns >= self._due_ns:
            self.send(self._to_say.pop(0), now_ns)
            self._due_ns = now_ns + COMMAND_PAUSE_NS if self._to_say else NEVER_NS
        return ()


def _milliseconds(frame: bytes) -> int | None:
    """Return the time of day of the device, ms; None if it is none. The date is ignored, because
    models count months and days from 0 or from 1."""
    hour, minute, second, millisecond = map(int, _TIME.unpack_from(frame, 2)[3:])
    if hour > 23 or minute > 59 or second > 59 or millisecond > 999:
        return None
    return ((hour * 60 + minute) * 60 + second) * 1000 + millisecond


def _clip(value: float) -> int:
    return max(-32768, min(32767, round(value)))


def _wrap(value: float) -> int:
    return (round(value) + 32768) % 65536 - 32768


def _centi(kelvin: float) -> int:
    return _clip(100 * (kelvin - ZERO_CELSIUS_K))
