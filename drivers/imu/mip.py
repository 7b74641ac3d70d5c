"""MicroStrain MIP (3DM-GX5, CV5, CV7, GQ7): codec in both directions and driver. Sources:
NOTES-xsens-vectornav-mip.md.

Packet: ``75 65 | descriptor set | length | fields | check``, big-endian; field: ``length |
descriptor | data``, the length including these two bytes. The check is Fletcher's with 8-bit sums
over all before it. Data sets: 80 sensor, 82 filter, A0 system; replies to commands (sets 01 base,
0C 3DM) come in the same set with a field F1: command and error code. Device axes: forward, right,
down; world: north, east, down; accelerometers in g, z is -1 when level and still.
"""

from collections.abc import Generator, Iterator, Sequence
from math import atan2, pi
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from drivers.imu.axes import (
    euler_problem,
    flu,
    forward_of_quaternion,
    matrix_problem,
    quaternion_problem,
)
from drivers.imu.base import Sample, frames, sound
from drivers.imu.set_up import ConfigurableImuDevice, ConfigurableParams
from drivers.set_up import MAX_REPLIES, ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import HeadingKind, Message
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2, ZERO_CELSIUS_K
from vehicled.core.wire.crc import fletcher8, fletcher8_number
from vehicled.core.wire.framing import CountedFrame, FrameCheck, Protocol
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

SYNC = b"\x75\x65"
OVERHEAD_BYTES = 6
BASE, COMMANDS_3DM, SENSOR, FILTER, SYSTEM = 0x01, 0x0C, 0x80, 0x82, 0xA0
REPLY = 0xF1
PING, IDLE, RESUME = 0x01, 0x02, 0x06
BASE_RATE, MESSAGE_FORMAT, STREAM = 0x0E, 0x0F, 0x11
IMU_BASE_RATE, IMU_MESSAGE_FORMAT = 0x06, 0x08
"""Equivalents for devices before the shared descriptors (GX5, CV5), with the data set implied."""
WRITE, READ = 1, 2
ERRORS = {
    1: "unknown command",
    2: "check sum",
    3: "invalid parameter",
    4: "command failed",
    5: "time-out",
}

ACCEL = 0x04
GYRO = 0x05
DELTA_THETA = 0x07
DELTA_VELOCITY = 0x08
QUATERNION = 0x0A
MATRIX = 0x09
EULER = 0x0C
INTERNAL_TIME, GPS_TIME, TEMPERATURE, OVERRANGE = 0x0E, 0x12, 0x14, 0x18
FILTER_QUATERNION, FILTER_MATRIX, FILTER_EULER, FILTER_GPS_TIME = 0x03, 0x04, 0x05, 0x11
SHARED_GPS_TIME, REFERENCE_TIME, REFERENCE_TIME_DELTA = 0xD3, 0xD5, 0xD6
FILTER_VALID = 1
"""Bit of the flags at the end of a filter field."""

_SHARED = {
    0xD0: "B",
    0xD1: "I",
    0xD2: "I",
    0xD3: "dHH",
    0xD4: "d",
    0xD5: "Q",
    0xD6: "Q",
    0xD7: "QH",
    0xD8: "QH",
}
_LAYOUTS = {
    SENSOR: {
        **dict.fromkeys((0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x0C, 0x10, 0x11, 0x14),
            "3f"),
        0x09: "9f", 0x0A: "4f", 0x0B: "9f", 0x0D: "4H", 0x0E: "I", 0x0F: "2I", 0x12: "dHH",
        0x16: "f", 0x17: "f", 0x18: "H", 0x40: "2fH", **_SHARED,
    },
    FILTER: {
        **dict.fromkeys((0x02, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x13,
            0x1C), "3fH"),
        0x01: "3dH", 0x03: "4fH", 0x04: "9fH", 0x10: "3H", 0x11: "dHH", 0x12: "4fH", **_SHARED,
    },
    SYSTEM: _SHARED,
    BASE: {REPLY: "2B"},
    COMMANDS_3DM: {REPLY: "2B"},
}  # fmt: skip
LAYOUTS = {
    (kind, field): Layout(">" + code)
    for kind, fields in _LAYOUTS.items()
    for field, code in fields.items()
}
"""Layouts by descriptor set and field. Filter fields end with flags; bit 0 means valid."""

Value = int | float | tuple[Any, ...] | bytes
"""A number, or a tuple of several; raw bytes if field or length are unknown."""


class Packet(Struct, frozen=True, gc=False):
    """One packet with its fields as (descriptor, data)."""

    kind: int
    """Descriptor set."""
    fields: tuple[tuple[int, bytes], ...]


PROTOCOL = Protocol(
    "MIP",
    SYNC,
    CountedFrame(
        FrameCheck(fletcher8_number, tail=2, stored=-2, size=2, order="little"),
        at=3,
        extra=OVERHEAD_BYTES,
        most=0xFF,
    ),
)


def encode(kind: int, *fields: tuple[int, bytes]) -> bytes:
    """Return a packet of (descriptor, data) fields. Raises ValueError if a field or the packet is
    too long."""
    payload = b""
    for descriptor, data in fields:
        if len(data) > 253:
            raise ValueError(f"{len(data)} bytes do not fit a field (253 at most)")
        payload += bytes((len(data) + 2, descriptor)) + data
    if len(payload) > 255:
        raise ValueError(f"{len(payload)} bytes of fields do not fit a packet (255 at most)")
    head = SYNC + bytes((kind, len(payload))) + payload
    return head + fletcher8(head)


def packet(frame: bytes) -> Packet:
    """Return the packet in a valid frame. A field with an impossible length ends the list."""
    fields = []
    at, end = 4, len(frame) - 2
    while at < end:
        stop = at + frame[at]
        if stop > end or stop < at + 2:
            break
        fields.append((frame[at + 1], frame[at + 2 : stop]))
        at = stop
    return Packet(frame[2], tuple(fields))


def read(kind: int, descriptor: int, data: bytes) -> Value:
    """Return the value of a field in its own units: g, rad, rad/s, Gauss, Celsius, nanoseconds."""
    layout = LAYOUTS.get((kind, descriptor))
    if layout is None or layout.size != len(data):
        return data
    values: tuple[Any, ...] = layout.unpack(data)
    return values[0] if len(values) == 1 else values


def write(kind: int, descriptor: int, value: Value) -> tuple[int, bytes]:
    """Return the field for which ``read`` gives ``value``, for ``encode``. Raises ValueError if
    they do not match."""
    if isinstance(value, bytes):
        return descriptor, value
    layout = LAYOUTS.get((kind, descriptor))
    if layout is None:
        raise ValueError(f"the layout of field {kind:02X}/{descriptor:02X} is not known")
    try:
        return descriptor, layout.pack(*(value if isinstance(value, tuple) else (value,)))
    except LayoutError as error:
        raise ValueError(
            f"{value} is no value of field {kind:02X}/{descriptor:02X}: {error}"
        ) from error


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over a recording: ("set 0x80", Packet), each followed by its ("field 80/04",
    Value)."""
    for _, frame in frames((PROTOCOL,), data):
        found = packet(frame)
        yield f"set 0x{found.kind:02X}", found
        for descriptor, raw in found.fields:
            yield f"field {found.kind:02X}/{descriptor:02X}", read(found.kind, descriptor, raw)


_TICK_NS = 16_000
_WEEK_NS = 604_800_000_000_000
_SATURATED = 0b111_0111
"""Saturation bits: accelerometer (0 to 2) and gyro (4 to 6)."""
_YAW_FIELDS = {
    SENSOR: {EULER: "euler", QUATERNION: "quaternion", MATRIX: "matrix"},
    FILTER: {FILTER_EULER: "euler", FILTER_QUATERNION: "quaternion", FILTER_MATRIX: "matrix"},
}
_TIMES = {SHARED_GPS_TIME, REFERENCE_TIME, REFERENCE_TIME_DELTA}
_READ = {
    SENSOR: {
        ACCEL,
        GYRO,
        DELTA_THETA,
        DELTA_VELOCITY,
        INTERNAL_TIME,
        GPS_TIME,
        TEMPERATURE,
        OVERRANGE,
        *_TIMES,
    },
    FILTER: {FILTER_GPS_TIME, *_TIMES},
}
"""Fields that the codec uses besides the attitude."""


class MipCodec:
    """Codec of MIP: data packets to samples, answers to ``replies``. Keeps half a sample until the
    other half or a later one arrives."""

    def __init__(self) -> None:
        self.protocols = (PROTOCOL,)
        self.replies: list[Packet] = []
        self.usage = MessageUsage()
        self.wants_heading = True
        self.reset()

    def reset(self) -> None:
        """Reset, because the device may have restarted."""
        self.replies.clear()
        self._half: Sample | None = None
        self._counter: int | None = None
        self._temperature_k: float | None = None
        self._filter_yaw = False
        self._source = REFERENCE_TIME
        self._ticks = self._tick_base = 0

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return the completed samples, usually one; two if a half sample is given up for a later
        one."""
        found = packet(frame)
        kind = found.kind
        name = f"set 0x{kind:02X}"
        if kind < 0x80:
            self.usage.use(name)
            if len(self.replies) < MAX_REPLIES:
                self.replies.append(found)
            return ()
        if kind not in _READ:
            self.usage.refuse(name, Unused.NOT_READ)
            return ()
        values: dict[int, Any] = {}
        for descriptor, data in found.fields:
            value = read(kind, descriptor, data)
            field = _title(kind, descriptor)
            if descriptor not in _READ[kind] and descriptor not in _YAW_FIELDS[kind]:
                self.usage.refuse(field, Unused.NOT_READ)
            elif type(value) is bytes:
                self.usage.refuse(field, Unused.UNREADABLE, "length", len(value))
            else:
                values[descriptor] = value
                if descriptor in _READ[kind]:
                    self.usage.use(field)
        if kind == SENSOR:
            return self._sensor(name, values)
        yaw = self._yaw(FILTER, values)
        if yaw is None:
            self.usage.use(name)
            return ()
        return sound(self.usage, name, Sample(self._time(FILTER, values), None, None, yaw))

    def _sensor(self, name: str, values: dict[int, Any]) -> Sequence[Sample]:
        counter = self._time(SENSOR, values)
        temperature = values.get(TEMPERATURE)
        if temperature is not None:
            self._temperature_k = temperature[2] + ZERO_CELSIUS_K
        force, rate = values.get(ACCEL), values.get(GYRO)
        if force is None or rate is None:
            dt_s = self._interval_s(counter, values)
            theta, velocity = values.get(DELTA_THETA), values.get(DELTA_VELOCITY)
            if force is None and velocity is not None and dt_s is not None:
                force = tuple([component / dt_s for component in velocity])
            if rate is None and theta is not None and dt_s is not None:
                rate = tuple([component / dt_s for component in theta])
        if counter is not None and not (force is rate is None):
            self._counter = counter
        yaw = self._yaw(SENSOR, values)
        saturated = bool(values.get(OVERRANGE, 0) & _SATURATED)
        if force is rate is yaw is None:
            self.usage.use(name)
            return ()
        sample = Sample(
            counter,
            flu(force, STANDARD_GRAVITY_MPS2),
            flu(rate),
            yaw,
            self._temperature_k,
            saturated,
        )
        found = sound(self.usage, name, sample)
        return self._merge(found[0]) if found else ()

    def _merge(self, sample: Sample) -> Sequence[Sample]:
        """Accelerometer and gyro of one instant may come in two packets with equal reference times;
        merge them."""
        half, self._half = self._half, None
        whole = sample.specific_force_mps2 is not None and sample.angular_rate_radps is not None
        yaw_only = sample.specific_force_mps2 is sample.angular_rate_radps is None
        other = half is not None and (half.specific_force_mps2 is None) != (
            sample.specific_force_mps2 is None
        )
        if (
            half is not None
            and other
            and half.counter == sample.counter
            and not whole
            and not yaw_only
        ):
            return (_both(half, sample),)
        if whole or yaw_only or sample.counter is None:
            return (sample,) if half is None else (half, sample)
        self._half = sample
        return () if half is None else (half,)

    def _interval_s(self, counter: int | None, values: dict[int, Any]) -> float | None:
        """Return the time over which the increments were summed."""
        elapsed_ns = values.get(REFERENCE_TIME_DELTA)
        if elapsed_ns is None and counter is not None and self._counter is not None:
            elapsed_ns = counter - self._counter
        return (
            elapsed_ns / 1e9 if elapsed_ns is not None and 0 < elapsed_ns < 1_000_000_000 else None
        )

    def _time(self, kind: int, values: dict[int, Any]) -> int | None:
        """Return the reference time, else GPS time, else the internal counter, ns.

        None for filter data on another time base than the sensor, which would look like a restart
        of the clock.
        """
        gps = values.get(SHARED_GPS_TIME) or values.get(
            GPS_TIME if kind == SENSOR else FILTER_GPS_TIME
        )
        if REFERENCE_TIME in values:
            source, time_ns = REFERENCE_TIME, int(values[REFERENCE_TIME])
        elif gps is not None:
            if not 0.0 <= gps[0] < 1e7:
                return None
            source, time_ns = GPS_TIME, round(gps[0] * 1e9) + int(gps[1]) * _WEEK_NS
        elif kind == SENSOR and INTERNAL_TIME in values:
            ticks = int(values[INTERNAL_TIME])
            if self._ticks - ticks > 1 << 31:
                self._tick_base += 1 << 32
            self._ticks = ticks
            source, time_ns = INTERNAL_TIME, (self._tick_base + ticks) * _TICK_NS
        else:
            return None
        if kind == SENSOR:
            self._source = source
        return time_ns if source == self._source else None

    def _yaw(self, kind: int, values: dict[int, Any]) -> float | None:
        """Return the yaw of the x axis, rad, counter-clockwise from east."""
        for descriptor, form in _YAW_FIELDS[kind].items():
            value = values.get(descriptor)
            if value is None:
                continue
            problem = self._doubt(kind, form, value)
            if problem is not None:
                self.usage.refuse(_title(kind, descriptor), *problem)
                return None
            self.usage.use(_title(kind, descriptor))
            if form == "euler":
                return pi / 2 - float(value[2])
            if form == "quaternion":
                return atan2(*forward_of_quaternion(*value[:4]))
            # Rotation from world to vehicle, by rows: the first is the vehicle's x axis.
            return atan2(value[0], value[1])
        return None

    def _doubt(self, kind: int, form: str, value: tuple[Any, ...]) -> UsageProblem | None:
        """Return why an orientation is not used. The filter's takes precedence over the sensor's
        while it is valid."""
        if kind == FILTER:
            self._filter_yaw = bool(value[-1] & FILTER_VALID)
            if not self._filter_yaw:
                return UsageProblem(Unused.INVALID, "valid flags")
            value = value[:-1]
        if not self.wants_heading:
            return UsageProblem(Unused.NOT_WANTED)
        if kind == SENSOR and self._filter_yaw:
            return UsageProblem(Unused.DUPLICATE)
        return euler_problem(*value) if form == "euler" else _ROTATION_PROBLEMS[form](value)


_ROTATION_PROBLEMS = {"quaternion": quaternion_problem, "matrix": matrix_problem}


def _title(kind: int, descriptor: int) -> str:
    return f"field {kind:02X}/{descriptor:02X}"


def _both(half: Sample, sample: Sample) -> Sample:
    return replace(
        sample,
        specific_force_mps2=half.specific_force_mps2
        if sample.specific_force_mps2 is None
        else sample.specific_force_mps2,
        angular_rate_radps=half.angular_rate_radps
        if sample.angular_rate_radps is None
        else sample.angular_rate_radps,
        yaw_rad=half.yaw_rad if sample.yaw_rad is None else sample.yaw_rad,
        saturated=half.saturated or sample.saturated,
    )


class MipDevice(ConfigurableImuDevice):
    """Driver of MicroStrain inertial sensors."""

    name: ClassVar[str] = "mip"
    tick_ns: ClassVar[float | None] = 1.0
    heading_kind: ClassVar[HeadingKind] = HeadingKind.MAGNETIC
    Params: ClassVar[type[ConfigurableParams]] = ConfigurableParams

    def __init__(
        self,
        params: ConfigurableParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
    ) -> None:
        """Take the arguments of :class:`ImuDevice`."""
        self.mip = MipCodec()
        super().__init__(params, messages, command_lifetime_ns, self.mip)

    def script(self) -> Script:
        """Set idle, base rate and format (read back), start the stream, resume. Nothing is saved in
        the device, so flash does not wear."""
        idle = yield _ask("be idle", BASE, IDLE)
        if isinstance(idle, Refusal):
            raise ConfigurationError(f"the device does not go idle: {idle.reason}")
        modern = True
        rate = yield _ask("report its base rate", COMMANDS_3DM, BASE_RATE, bytes((SENSOR,)), 0x8E)
        if isinstance(rate, Refusal):
            modern = False
            rate = yield _ask("report its base rate", COMMANDS_3DM, IMU_BASE_RATE, b"", 0x83)
        base_hz = 0 if isinstance(rate, Refusal) else int.from_bytes(rate[-2:], "big")
        decimation = max(1, round(base_hz / self.params.rate_hz))
        problem = "its base rate is not known"
        fields: list[int] = []
        for fields in self._choices(modern) if base_hz else ():
            got = yield from _set_format(modern, SENSOR, fields, decimation)
            problem = "" if got is None else f"message format: {got}"
            if not problem:
                break
        streams = [SENSOR if modern else 1]
        if self._wants_heading and EULER not in fields and not problem:
            # Newer units have no attitude of their own beside the filter's.
            problem = yield from self._filter_format(modern)
            streams.append(FILTER)
        # Any answer will do: devices with a fixed stream refuse, and stream anyway.
        for stream in streams:
            yield _ask("switch its stream on", COMMANDS_3DM, STREAM, bytes((WRITE, stream, 1)))
        # Leave the idle state in any case, because an idle device is silent.
        yield _ask("resume", BASE, RESUME)
        if problem:
            raise ConfigurationError(f"the device cannot be set up: {problem}")
        return {"fields": [f"{field:02X}" for field in fields], "rate_hz": base_hz / decimation}

    def _filter_format(self, modern: bool) -> Generator[SetUpRequest, Any, str]:
        """Ask for the attitude of the filter, which says by itself if it is valid; return the
        problem, or an empty text."""
        rate: Any = Refusal("unknown")
        if modern:
            rate = yield _ask(
                "report the base rate of its filter",
                COMMANDS_3DM,
                BASE_RATE,
                bytes((FILTER,)),
                0x8E,
            )
        if isinstance(rate, Refusal):
            return "it gives no attitude, so there is no heading"
        decimation = max(1, round(int.from_bytes(rate[-2:], "big") / self.params.rate_hz))
        got = yield from _set_format(modern, FILTER, [REFERENCE_TIME, FILTER_EULER], decimation)
        return "" if got is None else f"it gives no attitude, so there is no heading: {got}"

    def _choices(self, modern: bool) -> tuple[list[int], ...]:
        """Return the formats in order of preference; a device refuses a whole format for one
        unknown field."""
        fields = [REFERENCE_TIME if modern else GPS_TIME, ACCEL, GYRO]
        plain = [*fields, EULER] if self._wants_heading else fields
        return [*plain, OVERRANGE], plain, fields


def _set_format(
    modern: bool, kind: int, fields: list[int], decimation: int
) -> Generator[SetUpRequest, Any, str | None]:
    """Write a message format and read it back; return the problem, or None."""
    command, descriptor, scope = (
        (MESSAGE_FORMAT, 0x8F, bytes((kind,))) if modern else (IMU_MESSAGE_FORMAT, 0x80, b"")
    )
    body = (
        scope
        + bytes((len(fields),))
        + b"".join([bytes((field,)) + decimation.to_bytes(2, "big") for field in fields])
    )
    done = yield _ask("take its message format", COMMANDS_3DM, command, bytes((WRITE,)) + body)
    if isinstance(done, Refusal):
        return done.reason
    got = yield _ask(
        "report its message format",
        COMMANDS_3DM,
        command,
        bytes((READ,)) + scope + b"\0",
        descriptor,
    )
    if isinstance(got, Refusal):
        return got.reason
    return None if got == body else f"it is set to {got.hex()}"


def _ask(
    what: str, kind: int, command: int, data: bytes = b"", descriptor: int | None = None
) -> SetUpRequest:
    """Return a command whose answer is the data of field ``descriptor``, or b"" if only the
    acknowledgement matters."""

    def judge(reply: Packet) -> bytes | Refusal | None:
        fields = dict(reply.fields)
        code = fields.get(REPLY, b"")
        if reply.kind != kind or len(code) != 2 or code[0] != command:
            return None
        if code[1]:
            return Refusal(ERRORS.get(code[1], f"error {code[1]}"))
        return b"" if descriptor is None else fields.get(descriptor)

    return SetUpRequest(what, encode(kind, (command, data)), judge)
