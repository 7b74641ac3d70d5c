"""Xsens MTi, MTData2 over the Xbus: codec in both directions and driver. Sources:
NOTES-xsens-vectornav-mip.md.

Frame: ``FA | FF | message id | length | data | sum``, big-endian; length FF announces a two-byte
length. The sum makes all bytes after FA add up to 0. MTData2 (0x36) holds items ``id u16 | size u8
| value``; the low four bits of an id give number format and world frame. Axes of the case as
printed on it: forward, left, up; z is +9.81 when level and still.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import atan2, radians
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct

from drivers.imu.axes import (
    euler_problem,
    forward_of_euler,
    forward_of_quaternion,
    matrix_problem,
    quaternion_problem,
    rate_of_increment,
)
from drivers.imu.base import Sample, frames, sound
from drivers.imu.set_up import ConfigurableImuDevice, ConfigurableParams
from drivers.imu.xsens_time import TICKS_PER_SECOND, SampleTime
from drivers.set_up import MAX_REPLIES, ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import HeadingKind, Message
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.crc import sum8
from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, CheckedFrame, FrameCheck, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

SYNC = b"\xfa\xff"
MAX_DATA_BYTES = 2048
MAX_ITEMS = 64
"""Most items of an MTData2 message; devices have some thirty outputs."""
WAKE_UP, WAKE_UP_ACK = 0x3E, 0x3F
GO_TO_CONFIG, GO_TO_MEASUREMENT, OUTPUT_CONFIGURATION, MTDATA2, ERROR = 0x30, 0x10, 0xC0, 0x36, 0x42
"""Message ids; a reply has the id of its request plus one."""

PACKET_COUNTER, SAMPLE_TIME_FINE, UTC_TIME, TEMPERATURE = 0x1020, 0x1060, 0x1010, 0x0810
QUATERNION, ROTATION_MATRIX, EULER_ANGLES = 0x2010, 0x2020, 0x2030
DELTA_V = 0x4010
ACCELERATION = 0x4020
FREE_ACCELERATION = 0x4030
RATE_OF_TURN = 0x8020
DELTA_Q = 0x8030
GNSS_PVT, STATUS_BYTE, STATUS_WORD = 0x7010, 0xE010, 0xE020
FLOAT32, FP12_20, FP16_32, FLOAT64 = 0, 1, 2, 3
ENU, NED, NWU = 0x0, 0x4, 0x8
AT_EVERY_SAMPLE = 0xFFFF
"""Output rate of counters, times and status, which come with every packet."""

FILTER_VALID = 1 << 1
CLIPPED = 0b111111 << 8
"""Clipping bits: accelerometer (8 to 10) and gyro (11 to 13)."""

_COMPONENTS = {
    TEMPERATURE: 1, QUATERNION: 4, ROTATION_MATRIX: 9, EULER_ANGLES: 3, DELTA_V: 3, ACCELERATION: 3,
    FREE_ACCELERATION: 3, 0x4040: 3, 0x5010: 1, 0x5020: 1, 0x5030: 3, 0x5040: 2, RATE_OF_TURN: 3,
    DELTA_Q: 4, 0x8040: 3, 0xC020: 3, 0xD010: 3,
}  # fmt: skip
_PLAIN = {
    UTC_TIME: Layout(">IH6B"), PACKET_COUNTER: Layout(">H"), 0x1030: Layout(">I"),
    SAMPLE_TIME_FINE: Layout(">I"), 0x1070: Layout(">I"), 0x1090: Layout(">B"),
    0x10A0: Layout(">Q"), 0x3010: Layout(">I"), STATUS_BYTE: Layout(">B"),
    STATUS_WORD: Layout(">I"), GNSS_PVT: Layout(">IH6BIi4B4i2I5i3I7H"),
}  # fmt: skip
_FLOAT32 = {n: Layout(f">{n}f") for n in set(_COMPONENTS.values())}
_FP12_20 = {n: Layout(f">{n}i") for n in set(_COMPONENTS.values())}
_FP16_32 = {n: Layout(">" + n * "Ih") for n in set(_COMPONENTS.values())}
_FLOAT64 = {n: Layout(f">{n}d") for n in set(_COMPONENTS.values())}
_FORMATS = {FLOAT32: _FLOAT32, FP12_20: _FP12_20, FP16_32: _FP16_32, FLOAT64: _FLOAT64}

Value = int | float | tuple[float, ...] | bytes
"""A number, or a tuple of several; raw bytes if id or size are unknown."""


class XbusMessage(Struct, frozen=True, gc=False):
    """One frame."""

    mid: int
    data: bytes


class _Xbus(CheckedFrame):
    """Frame with a short or a long count. One damaged length in 256 passes the 8-bit sum, so its
    content is looked at, too."""

    def __init__(self) -> None:
        # The sum over all bytes but the first, with the checksum, is zero.
        super().__init__(FrameCheck(sum8, first=1))

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        if end - at < 5:
            return INCOMPLETE
        size = buffer[at + 3]
        if size < 0xFF:
            return size + 5
        if end - at < 7:
            return INCOMPLETE
        size = buffer[at + 4] << 8 | buffer[at + 5]
        # No device writes a short length in the long form.
        return size + 7 if 0xFF <= size <= MAX_DATA_BYTES else NO_FRAME

    def valid(self, buffer: bytes | bytearray, at: int, stop: int) -> bool:
        if not super().valid(buffer, at, stop):
            return False
        if buffer[at + 2] != MTDATA2:
            return buffer.find(SYNC + bytes((MTDATA2,)), at + 4, stop) < 0
        item, last = at + (6 if buffer[at + 3] == 0xFF else 4), stop - 1
        for _ in range(MAX_ITEMS):
            if item + 3 > last:
                break
            item += 3 + buffer[item + 2]
        return item == last


PROTOCOL = Protocol("Xbus", SYNC, _Xbus())


def encode(mid: int, data: bytes = b"") -> bytes:
    """Return a frame. Raises ValueError beyond 2048 bytes of data."""
    size = len(data)
    if size > MAX_DATA_BYTES:
        raise ValueError(f"{size} bytes of data do not fit a message ({MAX_DATA_BYTES} at most)")
    length = bytes((size,)) if size < 0xFF else b"\xff" + size.to_bytes(2, "big")
    covered = b"\xff" + bytes((mid,)) + length + data
    return b"\xfa" + covered + bytes((-sum(covered) & 0xFF,))


def message(frame: bytes) -> XbusMessage:
    """Return the message in a valid frame."""
    return XbusMessage(frame[2], frame[6:-1] if frame[3] == 0xFF else frame[4:-1])


def items(data: bytes) -> list[tuple[int, bytes]]:
    """Return (id, value) of each item of MTData2. A size beyond the end ends the list."""
    found = []
    at, end = 0, len(data)
    while at + 3 <= end:
        stop = at + 3 + data[at + 2]
        if stop > end:
            break
        found.append((data[at] << 8 | data[at + 1], data[at + 3 : stop]))
        at = stop
    return found


def read(xdi: int, raw: bytes) -> Value:
    """Return the value of an item in its own units (degrees, m/s2, rad/s, Celsius); several fields
    as a tuple."""
    kind = xdi & 0xFFF0
    count = _COMPONENTS.get(kind)
    if count is None:
        layout = _PLAIN.get(xdi)
        if layout is None or layout.size != len(raw):
            return raw
        plain: tuple[int, ...] = layout.unpack(raw)
        return plain[0] if len(plain) == 1 else plain
    precision = xdi & 3
    layout = _FORMATS[precision][count]
    if layout.size != len(raw):
        return raw
    values: tuple[float, ...] = layout.unpack(raw)
    if precision == FP12_20:
        values = tuple([value / 2**20 for value in values])
    elif precision == FP16_32:
        # The fraction comes first, then the whole part; together they are a two's complement
        # number.
        values = tuple(
            [whole + fraction / 2**32 for fraction, whole in zip(values[::2], values[1::2])]
        )
    return values[0] if count == 1 else values


def write(xdi: int, value: Value) -> bytes:
    """Return the item for which ``read`` gives ``value``. Raises ValueError if value and id do not
    match."""
    raw = (
        value
        if isinstance(value, bytes)
        else _pack(xdi, value if isinstance(value, tuple) else (value,))
    )
    return xdi.to_bytes(2, "big") + bytes((len(raw),)) + raw


def _pack(xdi: int, values: tuple[Any, ...]) -> bytes:
    count = _COMPONENTS.get(xdi & 0xFFF0)
    layout = _PLAIN.get(xdi) if count is None else _FORMATS[xdi & 3][count]
    if layout is None:
        raise ValueError(f"the layout of the data id {xdi:04X} is not known")
    if count is not None and xdi & 3 == FP12_20:
        values = tuple([round(number * 2**20) for number in values])
    elif count is not None and xdi & 3 == FP16_32:
        scaled = [round(number * 2**32) for number in values]
        values = tuple([part for number in scaled for part in (number & 0xFFFFFFFF, number >> 32)])
    try:
        return layout.pack(*values)
    except LayoutError as error:
        raise ValueError(f"{values} is no value of the data id {xdi:04X}: {error}") from error


def encode_mtdata2(values: Iterable[tuple[int, Value]]) -> bytes:
    """Return one MTData2 frame of (id, value) pairs, in this order."""
    return encode(MTDATA2, b"".join([write(xdi, value) for xdi, value in values]))


def pack_outputs(outputs: Iterable[tuple[int, int]]) -> bytes:
    """Return the data of SetOutputConfiguration for (id, rate in Hz) pairs."""
    return b"".join([xdi.to_bytes(2, "big") + rate.to_bytes(2, "big") for xdi, rate in outputs])


def unpack_outputs(data: bytes) -> list[tuple[int, int]]:
    """Return the (id, rate in Hz) pairs of a ReqOutputConfiguration reply; a tail of less than four
    bytes is ignored."""
    return [
        (data[i] << 8 | data[i + 1], data[i + 2] << 8 | data[i + 3])
        for i in range(0, len(data) - 3, 4)
    ]


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over a recording: ("MID 0x36", XbusMessage), each MTData2 followed by its ("XDI
    4020", Value)."""
    for _, frame in frames((PROTOCOL,), data):
        found = message(frame)
        yield f"MID 0x{found.mid:02X}", found
        if found.mid == MTDATA2:
            for xdi, raw in items(found.data):
                yield f"XDI {xdi:04X}", read(xdi, raw)


_READ = frozenset(
    (
        DELTA_V,
        ACCELERATION,
        RATE_OF_TURN,
        DELTA_Q,
        SAMPLE_TIME_FINE,
        PACKET_COUNTER,
        STATUS_WORD,
        STATUS_BYTE,
        TEMPERATURE,
    )
)
"""Data that the codec uses besides orientations."""
_FORWARD: dict[int, Callable[..., tuple[float, float]]] = {
    QUATERNION: forward_of_quaternion,
    # The matrix comes by columns; the first is the x axis of the case.
    ROTATION_MATRIX: lambda *columns: columns[:2],
    EULER_ANGLES: lambda _roll, pitch, yaw: forward_of_euler(radians(pitch), radians(yaw)),
}


_PROBLEMS: dict[int, Callable[..., UsageProblem | None]] = {
    QUATERNION: lambda *components: quaternion_problem(components),
    ROTATION_MATRIX: lambda *columns: matrix_problem(columns),
    EULER_ANGLES: lambda *degrees: euler_problem(*map(radians, degrees)),
}
"""Why an orientation is none, by data id."""


def yaw_from_east(xdi: int, value: tuple[float, ...]) -> float:
    """Return the direction of the case's x axis, rad, counter-clockwise from east, from an
    orientation in any world frame.

    Only the x axis is used, because it is the same for a case with z up and one with z down (NED).
    """
    first, second = _FORWARD[xdi & 0xFFF0](*value)
    frame = xdi & 0xC
    if frame == NED:
        return atan2(first, second)
    if frame == NWU:
        return atan2(first, -second)
    return atan2(second, first)


class XsensCodec:
    """Codec of the MTi: MTData2 to samples, all other messages to ``replies``."""

    def __init__(self) -> None:
        self.protocols = (PROTOCOL,)
        self.replies: list[XbusMessage] = []
        self.usage = MessageUsage()
        self.wants_heading = True
        self.time = SampleTime()
        self.reset()

    def reset(self) -> None:
        """Reset, because the device may have restarted."""
        self.replies.clear()
        self._temperature_k: float | None = None
        self.time.reset()

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return at most one sample."""
        found = message(frame)
        usage, name = self.usage, f"MID 0x{found.mid:02X}"
        if found.mid != MTDATA2:
            usage.use(name)
            if len(self.replies) < MAX_REPLIES:
                self.replies.append(found)
            return ()
        force = rate = delta_v = delta_q = orientation = fine = count = None
        valid, clipped, orientation_id = None, False, 0
        for xdi, raw in items(found.data):
            kind = xdi & 0xFFF0
            item = f"XDI {xdi:04X}"
            value: Any = read(xdi, raw)
            if type(value) is bytes:
                known = kind in _COMPONENTS or xdi in _PLAIN
                usage.refuse(
                    item,
                    *((Unused.UNREADABLE, "length", len(raw)) if known else (Unused.NOT_READ,)),
                )
                continue
            if kind in _FORWARD:
                if orientation is not None:
                    usage.refuse(item, Unused.DUPLICATE)
                else:
                    orientation, orientation_id = value, xdi
                continue
            problem = quaternion_problem(value) if kind == DELTA_Q else None
            if kind not in _READ or problem is not None:
                usage.refuse(item, *(problem or (Unused.NOT_READ,)))
                continue
            usage.use(item)
            if kind == ACCELERATION:
                force = value
            elif kind == RATE_OF_TURN:
                rate = value
            elif kind == DELTA_V:
                delta_v = value
            elif kind == DELTA_Q:
                delta_q = value
            elif kind == SAMPLE_TIME_FINE:
                fine = value
            elif kind == PACKET_COUNTER:
                count = value
            elif kind in (STATUS_WORD, STATUS_BYTE):
                valid, clipped = bool(value & FILTER_VALID), bool(value & CLIPPED)
            elif kind == TEMPERATURE:
                self._temperature_k = value + ZERO_CELSIUS_K
        self.time.packet(count)
        inertial = not (force is rate is delta_v is delta_q is None)
        if not inertial and orientation is None:
            usage.use(name)
            return ()
        # SampleTimeFine of GNSS-triggered packets is arbitrary; they have neither inertial values
        # nor an orientation.
        counter = None if fine is None else self.time.ticks(fine)
        if self.time.period:
            dt_s = self.time.period / TICKS_PER_SECOND
            if force is None and delta_v is not None:
                force = tuple([component / dt_s for component in delta_v])
            if rate is None and delta_q is not None:
                rate = rate_of_increment(delta_q, dt_s)
        yaw = self._yaw(orientation_id, orientation, valid) if orientation is not None else None
        if force is rate is yaw is None:
            usage.use(name)
            return ()
        return sound(usage, name, Sample(counter, force, rate, yaw, self._temperature_k, clipped))

    def _yaw(self, xdi: int, orientation: tuple[float, ...], valid: bool | None) -> float | None:
        """Return the yaw of an orientation that the device's filter vouches for."""
        item = f"XDI {xdi:04X}"
        if not self.wants_heading:
            self.usage.refuse(item, Unused.NOT_WANTED)
        elif (problem := _PROBLEMS[xdi & 0xFFF0](*orientation)) is not None:
            self.usage.refuse(item, *problem)
        elif valid is None:
            self.usage.refuse(item, Unused.STATUS_MISSING)
        elif not valid:
            self.usage.refuse(item, Unused.INVALID, "filter valid")
        else:
            self.usage.use(item)
            return yaw_from_east(xdi, orientation)
        return None


class XsensParams(ConfigurableParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an Xsens MTi."""

    config_timeout_s: Annotated[float, Meta(ge=0.1, le=30)] = 2.5
    """Timeout of the change to the configuration state, s, which a streaming device acknowledges
    late."""


class XsensDevice(ConfigurableImuDevice):
    """Driver of the Xsens MTi with MTData2 output. Yaw is dropped while the device's filter is
    invalid."""

    name: ClassVar[str] = "xsens"
    tick_ns: ClassVar[float | None] = 1e9 / TICKS_PER_SECOND
    heading_kind: ClassVar[HeadingKind] = HeadingKind.MAGNETIC
    Params: ClassVar[type[XsensParams]] = XsensParams

    def __init__(
        self, params: XsensParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Take the arguments of :class:`ImuDevice`."""
        self.xsens = XsensCodec()
        super().__init__(params, messages, command_lifetime_ns, self.xsens)
        self._config_timeout_s = params.config_timeout_s
        self._woken = False

    def outputs(self) -> list[tuple[int, int]]:
        """Return (id, rate in Hz) of the outputs to set."""
        rate = round(self.params.rate_hz)
        wanted = [
            (PACKET_COUNTER, AT_EVERY_SAMPLE),
            (SAMPLE_TIME_FINE, AT_EVERY_SAMPLE),
            (STATUS_WORD, AT_EVERY_SAMPLE),
        ]
        if self._wants_heading:
            wanted.append((QUATERNION, rate))
        return [*wanted, (ACCELERATION, rate), (RATE_OF_TURN, rate)]

    def script(self) -> Script:
        """Enter the configuration state, read the outputs, write them if some are missing (writing
        wears the flash), then measure."""
        wanted = self.outputs()
        request = encode(GO_TO_CONFIG)
        if self._woken:
            self._woken = False
            request = encode(WAKE_UP_ACK) + request
        yield SetUpRequest(
            "enter the configuration state", request, _answer(GO_TO_CONFIG), self._config_timeout_s
        )
        present = yield SetUpRequest("report its outputs", encode(OUTPUT_CONFIGURATION), _outputs)
        written = not isinstance(present, list) or not set(wanted) <= set(present)
        if written:
            present = yield SetUpRequest(
                "set its outputs", encode(OUTPUT_CONFIGURATION, pack_outputs(wanted)), _outputs
            )
        # Leave the configuration state in any case, because an unmeasuring device is silent.
        yield SetUpRequest("start measuring", encode(GO_TO_MEASUREMENT), _answer(GO_TO_MEASUREMENT))
        if isinstance(present, Refusal):
            raise ConfigurationError(f"the device refuses the outputs: {present.reason}")
        got = dict(present)
        missing = [
            f"{xdi:04X} at {got.get(xdi, 0)} instead of {rate} Hz"
            for xdi, rate in wanted
            if got.get(xdi) != rate
        ]
        if missing:
            raise ConfigurationError(f"the device gives {', '.join(missing)}")
        return {
            "outputs": [f"{xdi:04X}" for xdi in got],
            "rate_hz": round(self.params.rate_hz),
            "written": written,
        }

    def interrupts(self, reply: Any) -> bool:
        """True for WakeUp, sent once after power-up; without an immediate reply the device measures
        with its stored settings."""
        self._woken = reply.mid == WAKE_UP
        return self._woken


def _answer(mid: int) -> Callable[[XbusMessage], XbusMessage | Refusal | None]:
    def judge(reply: XbusMessage) -> XbusMessage | Refusal | None:
        if reply.mid == ERROR:
            return Refusal(f"error {reply.data[:1].hex() or 'without code'}")
        return reply if reply.mid == mid + 1 else None

    return judge


def _outputs(reply: XbusMessage) -> list[tuple[int, int]] | Refusal | None:
    answer = _answer(OUTPUT_CONFIGURATION)(reply)
    return unpack_outputs(answer.data) if isinstance(answer, XbusMessage) else answer
