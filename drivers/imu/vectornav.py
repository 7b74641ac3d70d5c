"""VectorNav VN-100, 200, 300: binary output and ASCII registers, codec in both directions and
driver.

Sources: NOTES-xsens-vectornav-mip.md.

Binary: ``FA | groups u8... | fields u16... of each group | values | CRC``, little-endian but for
the CRC. The length follows from the masks, so a frame with an unknown field is unreadable and
rejected. Text lines (``$...*XX``), including register replies, may come between frames. Device
axes: forward, right, down; world north, east, down; z is -9.81 when level and still.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import atan2, pi, radians
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta, Struct

from drivers.imu.axes import (
    euler_problem,
    flu,
    forward_of_quaternion,
    matrix_problem,
    quaternion_problem,
)
from drivers.imu.base import Sample, frames, sound
from drivers.imu.set_up import ConfigurableImuDevice, ConfigurableParams
from drivers.imu.vectornav_fields import EXTENDED, FIELDS, GROUPS, NAMES, masks
from drivers.set_up import MAX_REPLIES, ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import HeadingKind, Message
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.crc import crc16_xmodem, xor8
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    CheckedFrame,
    FrameCheck,
    Protocol,
    TextLine,
)
from vehicled.core.wire.usage import MessageUsage, Unused, UsageProblem

SYNC = b"\xfa"
MAX_FRAME_BYTES = 600
"""Longest frame with fields of fixed length; a longer candidate would hold back what follows it."""
MAX_SATELLITES = 64
MAX_LINE_BYTES = 256


class DecodingPlan(NamedTuple):
    """Decoding plan for all frames with the same masks."""

    layout: Layout | None
    """Layout of the values; None if a field has a variable length, so that frames are read field by
    field."""
    fields: tuple[tuple[str, Layout | None, int, int], ...]
    """Name, layout (None if variable), first and last index of its values in those of
    ``layout``."""
    fixed_bytes: int
    """Bytes with sync, masks and CRC."""
    head_bytes: int
    """Bytes with sync."""


class BinaryFrame(Struct, frozen=True, gc=False):
    """One binary frame, in units and axes of the device: degrees, rad/s, m/s2, Gauss, Celsius,
    kPa."""

    header: bytes
    """Groups and masks, without the sync."""
    values: dict[str, Any]
    """Values by ``"group.field"``: a number, a tuple, or bytes if the layout is unknown."""


def _head(buffer: bytes | bytearray, at: int, end: int) -> bytes | int:
    """Return groups and masks of the frame at ``at``, 0 if more bytes are needed, -1 if they are
    invalid."""
    if end - at < 4:
        return 0
    groups = buffer[at + 1]
    # A second group byte announces groups missing from the table.
    if groups == 0 or groups & 0x80:
        return -1
    place = at + 2
    while groups:
        if groups & 1:
            extended = True
            while extended:
                if place + 2 > end:
                    return 0
                extended = buffer[place + 1] >= 0x80
                place += 2
                if place - at > 24:
                    return -1
        groups >>= 1
    return bytes(buffer[at + 1 : place])


@lru_cache(
    maxsize=256
)  # bounded, because damaged headers vary; real devices send at most three kinds of frames
def _plan(head: bytes) -> DecodingPlan | None:
    """Return the plan; None if a mask is empty or has an unknown field."""
    chosen: list[tuple[str, Layout | None, int, int]] = []
    formats, count, place = "<", 0, 1
    for index, group in enumerate(GROUPS):
        if not head[0] >> index & 1:
            continue
        bits, shift, extended = 0, 0, True
        while extended:
            mask = head[place] | head[place + 1] << 8
            extended = bool(mask & EXTENDED)
            # In the table, the fields of the second mask follow the extension bit.
            bits |= (mask & ~EXTENDED) << shift
            place, shift = place + 2, shift + 16
        if bits == 0 or bits >> len(FIELDS[group]):
            return None
        for bit, (name, code) in enumerate(FIELDS[group]):
            if not bits >> bit & 1:
                continue
            layout = None if code == "*" else Layout("<" + code)
            size = 0 if layout is None else len(layout.unpack(bytes(layout.size)))
            chosen.append((f"{group}.{name}", layout, count, count + size))
            formats += "" if layout is None else code
            count += size
    whole = Layout(formats)
    fixed_bytes = whole.size + len(head) + 3
    if fixed_bytes > MAX_FRAME_BYTES:
        return None
    return DecodingPlan(
        whole if all(cell[1] for cell in chosen) else None,
        tuple(chosen),
        fixed_bytes,
        len(head) + 1,
    )


def _variable_bytes(name: str, buffer: bytes | bytearray, at: int, end: int) -> int:
    """Return the length of satellite information or raw measurements, 0 if more bytes are needed,
    -1 if the count is implausible."""
    raw = name.endswith("raw")
    place = at + 10 if raw else at
    if place >= end:
        return 0
    satellites = buffer[place]
    if satellites > MAX_SATELLITES:
        return -1
    return 12 + 28 * satellites if raw else 2 + 8 * satellites


_UNKNOWN = 1 << 20
"""Stands for the length of a field that does not exist."""
_VARIABLE = 1 << 30
"""Stands for the length of a field that has a count."""
_MASKS = 2
"""Most masks of a group."""
_SIZES = [
    [_VARIABLE if code == "*" else Layout("<" + code).size for _, code in FIELDS[group]]
    for group in GROUPS
]
"""Lengths of the fields by group and bit."""


def _mask_sizes() -> list[list[list[list[int]]]]:
    """Return the length of all fields in a byte of a mask, by group, mask, byte (low, high) and
    value."""
    found = []
    for sizes in _SIZES:
        of_bit = [*sizes, *[_UNKNOWN] * (16 * _MASKS - len(sizes))]
        of_bit[15] = 0  # announces the second mask
        places = [of_bit[first : first + 8] for first in range(0, 16 * _MASKS, 8)]
        table = [
            [
                sum(size for bit, size in enumerate(place) if value >> bit & 1)
                for value in range(256)
            ]
            for place in places
        ]
        found.append([table[2 * word : 2 * word + 2] for word in range(_MASKS)])
    return found


class _Binary(CheckedFrame):
    """Binary frame: its length follows from the masks."""

    def __init__(self) -> None:
        super().__init__(FrameCheck(crc16_xmodem, first=1))
        self._sizes = _mask_sizes()

    def head(self, sync: bytes) -> list[bytes]:
        # A second group byte announces groups missing from the table.
        return [*super().head(sync), bytes(range(0x01, 0x80))]

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        if end - at < 4:
            return INCOMPLETE
        groups = buffer[at + 1]
        if groups == 0 or groups & 0x80:
            return NO_FRAME
        place, total, masks = at + 2, 0, []
        for group in range(len(GROUPS)):
            bits = 0
            for word in range(_MASKS if groups >> group & 1 else 0):
                if place + 2 > end:
                    return INCOMPLETE
                low, high = buffer[place], buffer[place + 1]
                place += 2
                bits |= (low | (high & (0xFF if word else 0x7F)) << 8) << 16 * word
                total += self._sizes[group][word][0][low] + self._sizes[group][word][1][high]
                if high < 0x80:
                    break
            if total % _VARIABLE > MAX_FRAME_BYTES:
                return NO_FRAME
            if bits:
                masks.append((group, bits))
            elif groups >> group & 1:
                return NO_FRAME
        counts = 0
        if total >= _VARIABLE:
            counts = self._counted(buffer, place, end, masks)
            if counts <= 0:
                return counts
            total %= _VARIABLE
        total += place - at + 2
        return total + counts if total <= MAX_FRAME_BYTES else NO_FRAME

    def _counted(
        self, buffer: bytes | bytearray, place: int, end: int, masks: list[tuple[int, int]]
    ) -> int:
        """Return the length of all fields that have a count."""
        counts = 0
        for group, bits in masks:
            if bits >> len(_SIZES[group]):
                return NO_FRAME
            for bit, size in enumerate(_SIZES[group]):
                if bits >> bit & 1:
                    if size == _VARIABLE:
                        size = _variable_bytes(FIELDS[GROUPS[group]][bit][0], buffer, place, end)
                        if size <= 0:
                            return size
                        counts += size
                    place += size
        return counts


BINARY = Protocol("VectorNav", SYNC, _Binary())
LINE = Protocol("line", b"$", TextLine(MAX_LINE_BYTES, with_crc=True))


def read_frame(frame: bytes) -> BinaryFrame:
    """Return the content of a valid binary frame."""
    head = _head(frame, 0, len(frame))
    assert isinstance(head, bytes)
    plan = _plan(head)
    assert plan is not None
    values: dict[str, Any] = {}
    place = plan.head_bytes
    if plan.layout is not None:
        unpacked = plan.layout.unpack_from(frame, place)
        for name, _, first, last in plan.fields:
            values[name] = unpacked[first] if last - first == 1 else unpacked[first:last]
        return BinaryFrame(head, values)
    for name, layout, _, _ in plan.fields:
        size = _variable_bytes(name, frame, place, len(frame)) if layout is None else layout.size
        several = (
            (frame[place : place + size],) if layout is None else layout.unpack_from(frame, place)
        )
        values[name] = several[0] if len(several) == 1 else several
        place += size
    return BinaryFrame(head, values)


def read_line(line: bytes) -> str:
    """Return the text between ``$`` and ``*`` in a valid line."""
    return line[1:].partition(b"*")[0].decode("ascii")


def encode(values: Mapping[str, Any]) -> bytes:
    """Return a binary frame of the ``"group.field"`` values, in any order. Raises ValueError for an
    invalid name or value."""
    masks: dict[int, int] = {}
    for name in values:
        if name not in NAMES:
            raise ValueError(f"{name} is no field of a binary frame")
        index, bit = NAMES[name]
        masks[index] = masks.get(index, 0) | 1 << bit
    head = bytes((sum([1 << index for index in masks]),))
    payload = b""
    for index, mask in sorted(masks.items()):
        low, high = mask & 0x7FFF, mask >> 16
        head += (low | (EXTENDED if high else 0)).to_bytes(2, "little") + (
            high.to_bytes(2, "little") if high else b""
        )
        for bit, (name, code) in enumerate(FIELDS[GROUPS[index]]):
            if mask >> bit & 1:
                value = values[f"{GROUPS[index]}.{name}"]
                try:
                    payload += (
                        value
                        if code == "*"
                        else Layout("<" + code).pack(
                            *(value if isinstance(value, tuple) else (value,))
                        )
                    )
                except LayoutError as error:
                    raise ValueError(f"{value!r} is no value for {name}: {error}") from error
    body = head + payload
    return SYNC + body + crc16_xmodem(body).to_bytes(2, "big")


def encode_line(body: str) -> bytes:
    """Return a text line with its checksum."""
    return f"${body}*{xor8(body.encode()):02X}\r\n".encode()


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over a recording: ("VN fa143e003a00", Frame) by sync and masks, and lines by the text
    before their first comma."""
    for name, found in frames((BINARY, LINE), data):
        if name == BINARY.name:
            frame = read_frame(found)
            yield f"VN fa{frame.header.hex()}", frame
        else:
            line = read_line(found)
            yield line.partition(",")[0], line


_SATURATED = 0b111111 << 3
"""Saturation bits of ``imu.saturation``: accelerometer (3 to 5) and gyro (6 to 8)."""
_VPE_SATURATED = 1 << 2 | 1 << 9
"""Saturation bits of ``attitude.status``: gyro and accelerometer."""
NOT_TRACKING = 3
"""Worst of four grades of the attitude, in bits 0 and 1 of ``attitude.status``."""
INS_TRACKING, INS_WITHOUT_GNSS = 2, 3
"""Modes with a valid attitude, in bits 0 and 1 of ``ins.status``. In 0 the heading is magnetic, in
1 it is being aligned."""
IMU_ERROR = 1 << 4
"""Bit of ``ins.status``: the unit does not reach its sensors."""
_READ = frozenset(
    (
        "common.acceleration", "imu.acceleration", "common.angular_rate", "imu.angular_rate",
        "common.imu", "imu.raw_acceleration", "imu.raw_gyro", "common.deltas", "imu.delta_theta",
        "imu.delta_velocity", "imu.temperature", "common.mag_pres", "imu.saturation",
        "common.time_startup", "time.startup", "attitude.status", "ins.status",
    )
)  # fmt: skip
"""Fields that the codec uses besides the attitude."""
_ATTITUDES = (
    "attitude.ypr",
    "common.ypr",
    "attitude.quaternion",
    "common.quaternion",
    "attitude.dcm",
)
"""Forms of the attitude, in order of preference."""


class VectorNavCodec:
    """Codec of VectorNav: binary frames to samples, text lines to ``replies``."""

    def __init__(self) -> None:
        self.protocols = (BINARY, LINE)
        self.replies: list[str] = []
        self.usage = MessageUsage()
        self.wants_heading = True

    def reset(self) -> None:
        """Drop the replies."""
        self.replies.clear()

    def decode(self, name: str, frame: bytes) -> Sequence[Sample]:
        """Return at most one sample. Compensated values take precedence, then uncompensated ones,
        then increments over their interval."""
        if name != BINARY.name:
            line = read_line(frame)
            kind = line.partition(",")[0]
            kind = kind if kind.isalnum() else LINE.name
            if kind.startswith(_ANSWERS):
                self.usage.use(kind)
            else:
                self.usage.refuse(kind, Unused.NOT_READ)
            if len(self.replies) < MAX_REPLIES:
                self.replies.append(line)
            return ()
        found = read_frame(frame)
        name = f"VN fa{found.header.hex()}"
        get = found.values.get
        for field in found.values:
            if field not in _READ and field not in _ATTITUDES:
                self.usage.lose(name, Unused.NOT_READ, field)
        if get("ins.status", 0) & IMU_ERROR:
            self.usage.refuse(name, Unused.SELF_TEST, "ins.status")
            return ()
        force = get("common.acceleration", get("imu.acceleration"))
        rate = get("common.angular_rate", get("imu.angular_rate"))
        both = get("common.imu")
        if force is None:
            force = both[:3] if both is not None else get("imu.raw_acceleration")
        if rate is None:
            rate = both[3:] if both is not None else get("imu.raw_gyro")
        if force is None or rate is None:
            deltas = get("common.deltas") or get("imu.delta_theta", ()) + get(
                "imu.delta_velocity", ()
            )
            if len(deltas) >= 4 and deltas[0] > 0:
                if rate is None:
                    rate = tuple([radians(angle) / deltas[0] for angle in deltas[1:4]])
                if force is None and len(deltas) == 7:
                    force = tuple([speed / deltas[0] for speed in deltas[4:]])
        yaw = self._yaw(name, get)
        if force is rate is yaw is None:
            self.usage.use(name)
            return ()
        celsius = get("imu.temperature", get("common.mag_pres", (None,) * 4)[3])
        kelvin = None if celsius is None else celsius + ZERO_CELSIUS_K
        saturated = bool(
            get("imu.saturation", 0) & _SATURATED or get("attitude.status", 0) & _VPE_SATURATED
        )
        counter = get("common.time_startup", get("time.startup"))
        return sound(
            self.usage, name, Sample(counter, flu(force), flu(rate), yaw, kelvin, saturated)
        )

    def _yaw(self, name: str, get: Callable[..., Any]) -> float | None:
        """Return the yaw of the x axis, rad, counter-clockwise from east, if the unit vouches for
        its attitude."""
        field = next((each for each in _ATTITUDES if get(each) is not None), "")
        if not field:
            return None
        problem = (
            UsageProblem(Unused.NOT_WANTED)
            if not self.wants_heading
            else attitude_problem(field, get(field)) or _doubt(get)
        )
        if problem is not None:
            self.usage.lose(name, problem.reason, problem.field or field, problem.value)
            return None
        return _yaw_of(field, get(field))


_ANSWERS = ("VNRRG", "VNWRG", "VNERR")


def attitude_problem(field: str, value: tuple[float, ...]) -> UsageProblem | None:
    """Return why the values of an attitude field are none."""
    if field.endswith("ypr"):
        yaw, pitch, roll = map(radians, value)
        return euler_problem(roll, pitch, yaw)
    return quaternion_problem(value) if field.endswith("quaternion") else matrix_problem(value)


def _doubt(get: Callable[..., Any]) -> UsageProblem | None:
    """Return why the unit's own status forbids its attitude."""
    vpe, ins = get("attitude.status"), get("ins.status")
    if vpe is None and ins is None:
        return UsageProblem(Unused.STATUS_MISSING)
    if vpe is not None and vpe & 3 == NOT_TRACKING:
        return UsageProblem(Unused.INVALID, "attitude.status", "not tracking")
    if ins is not None and ins & 3 not in (INS_TRACKING, INS_WITHOUT_GNSS):
        return UsageProblem(Unused.INVALID, "ins.status", f"mode {ins & 3}")
    return None


def _yaw_of(field: str, value: tuple[float, ...]) -> float:
    if field.endswith("ypr"):
        return pi / 2 - radians(value[0])
    if field.endswith("quaternion"):
        x, y, z, w = value
        return atan2(*forward_of_quaternion(w, x, y, z))
    return atan2(value[0], value[3])


class VectorNavParams(ConfigurableParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a VectorNav sensor."""

    base_rate_hz: Annotated[int, Meta(ge=1, le=4000)] = 800
    """Base rate of the sensor, Hz, divided by a whole number: 800 in a VN-100, 400 in a VN-200 or
    VN-300."""
    serial_port: Annotated[int, Meta(ge=1, le=3)] = 3
    """Output port of the device: 1, 2, or 3 for both."""
    output: Annotated[int, Meta(ge=1, le=3)] = 1
    """Binary output used, of the device's three; the others are left unchanged."""


class VectorNavDevice(ConfigurableImuDevice):
    """Driver of VectorNav sensors with binary output."""

    name: ClassVar[str] = "vectornav"
    tick_ns: ClassVar[float | None] = 1.0
    heading_kind: ClassVar[HeadingKind] = HeadingKind.MAGNETIC
    Params: ClassVar[type[VectorNavParams]] = VectorNavParams

    def __init__(
        self, params: VectorNavParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Take the arguments of :class:`ImuDevice`."""
        self.vectornav = VectorNavCodec()
        super().__init__(params, messages, command_lifetime_ns, self.vectornav)
        self._base_rate_hz, self._serial_port = params.base_rate_hz, params.serial_port
        self._register = 74 + params.output
        self._status = "attitude.status"
        """Field that says if the attitude is valid: that of the VN-100; a VN-200 or VN-300 has
        ``ins.status``."""

    def fields(self, all_of_them: bool, *, heading: bool = True) -> list[str]:
        """Return the fields to send. Some firmware lacks temperature and saturation in the IMU
        group."""
        wanted = ["common.time_startup", "common.angular_rate", "common.acceleration"]
        if self._wants_heading and heading:
            wanted += ["common.ypr", self._status]
        return [*wanted, "imu.temperature", "imu.saturation"] if all_of_them else wanted

    def script(self) -> Script:
        """Read the model, turn ASCII output off, set the binary output. Registers are written in
        memory only, so flash does not wear."""
        register, divisor = self._register, max(1, round(self._base_rate_hz / self.params.rate_hz))
        model = yield SetUpRequest("report its model", encode_line("VNRRG,01"), _register(1))
        quiet = yield SetUpRequest(
            "stop its lines of text", encode_line("VNWRG,06,0"), _register(6)
        )
        if isinstance(quiet, Refusal):
            raise ConfigurationError(f"the device keeps sending lines of text: {quiet.reason}")
        name = "unknown" if isinstance(model, Refusal) else ",".join(model)
        self._status = "ins.status" if re.match(r"VN-?[23]\d\d", name) else "attitude.status"
        got: Any = None
        choices = [self.fields(True), self.fields(False)]
        if self._wants_heading:
            # Force and rate still work without an attitude.
            choices.append(self.fields(False, heading=False))
        for fields in choices:
            body = f"{register},{self._serial_port},{divisor},{masks(fields)}"
            got = yield SetUpRequest(
                "set its binary output", encode_line(f"VNWRG,{body}"), _register(register)
            )
            if not isinstance(got, Refusal):
                got = yield SetUpRequest(
                    "report its binary output",
                    encode_line(f"VNRRG,{register}"),
                    _register(register),
                )
                # Zero padding of numbers varies between devices.
                if isinstance(got, list) and [part.lstrip("0") for part in got] == [
                    part.lstrip("0") for part in body.split(",")[1:]
                ]:
                    if self._wants_heading and self._status not in fields:
                        raise ConfigurationError(
                            f"the device ({name}) does not send its attitude with "
                            f"{self._status}: no heading"
                        )
                    return {
                        "model": name,
                        "fields": fields,
                        "rate_hz": self._base_rate_hz / divisor,
                    }
        reason = got.reason if isinstance(got, Refusal) else f"it is set to {','.join(got)}"
        raise ConfigurationError(f"the device does not take the binary output: {reason}")


def _register(number: int) -> Callable[[str], list[str] | Refusal | None]:
    """Return a judge for replies about register ``number``: its values as text."""

    def judge(line: str) -> list[str] | Refusal | None:
        head, *parts = line.split(",")
        if head == "VNERR":
            return Refusal(f"error {','.join(parts)}")
        if (
            head not in ("VNRRG", "VNWRG")
            or not parts
            or not parts[0].isdecimal()
            or int(parts[0]) != number
        ):
            return None
        return parts[1:]

    return judge
