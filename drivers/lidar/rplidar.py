"""RPLIDAR of the series A, S and C: answers, five kinds of measurements, and the driver. Sources:
NOTES-rplidar.md."""

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from math import pi
from struct import Struct as Layout
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.answers import (
    HEAD_BYTES,
    HEALTH,
    INFO,
    HealthStatus,
    Info,
    ScanBegins,
    answers,
    head,
    none,
    of,
    parse_answer,
)
from drivers.lidar.base import Health, ScannerModel, TurningLidar, TurningParams
from drivers.lidar.scan import Array, Measurements
from drivers.set_up import ConfigurationError, Script, SetUpRequest
from vehicled.core.messages import LaserScan, Message
from vehicled.core.wire.crc import xor8
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    CheckedFrame,
    FrameCheck,
    Framer,
    Protocol,
    Shape,
    Stream,
)
from vehicled.core.wire.usage import Unused

STOP, RESET, SCAN, EXPRESS_SCAN = 0x25, 0x40, 0x20, 0x82
GET_INFO, GET_HEALTH, GET_SAMPLE_RATE, GET_CONF = 0x50, 0x52, 0x59, 0x84
SET_PWM, SET_RPM = 0xF0, 0xA8
TYPICAL, SAMPLE_US, ANSWER_TYPE = 0x7C, 0x71, 0x75
"""Entries of GET_CONF: the scan mode that the maker recommends, and of a mode the time of a
measurement and its answer type."""
SAMPLE_RATE, CONF = 0x15, 0x20
"""Types of single answers."""
NODES, EXPRESS, ULTRA, DENSE, ULTRA_DENSE = 0x81, 0x82, 0x84, 0x85, 0x86
"""Types of measurements."""
CAPSULE_BYTES = {EXPRESS: 84, ULTRA: 132, DENSE: 84, ULTRA_DENSE: 170}
CAPSULE_SAMPLES = {NODES: 1, EXPRESS: 32, ULTRA: 96, DENSE: 40, ULTRA_DENSE: 64}
NODE_BYTES = 5
NAMES = {
    INFO: "info", HEALTH: "health", SAMPLE_RATE: "sample rate", CONF: "configuration",
    NODES: "node", EXPRESS: "express capsule", ULTRA: "ultra capsule", DENSE: "dense capsule",
    ULTRA_DENSE: "ultra dense capsule",
}  # fmt: skip
MODES = {NODES: 0, EXPRESS: 1, ULTRA: 3, DENSE: 2, ULTRA_DENSE: 4}
"""Number of a scan mode where the device has no list of its own; only that of express is used."""
CONF_FIRMWARE = 0x0118
"""First firmware with GET_CONF, 1.24."""
PWM_MAJORS, RPM_MAJOR = (2, 3), 6
"""Major model numbers of the units whose motor is controlled by duty (A2, A3), and the first of
those controlled by speed (S)."""
PWM_DEFAULT, PWM_MOST, PWM_RATE_HZ = 660, 1023, 10.0
RESET_S = 2.0
DRAIN_S = 0.1
"""Time after a stop in which measurements may still come, s: the device's buffers, and those of the
adapter."""
FIRST_CAPSULE = 0x8000
"""Mark of the first capsule after the start of a scan, in its angle."""
FULL_TURN_Q6 = 360 << 6
_RATES = Layout("<HH")
_STREAMS = {NODES: NODE_BYTES} | CAPSULE_BYTES


class SampleRate(NamedTuple):
    """Times of a measurement, us."""

    node_us: int
    express_us: int


class LidarSetting(NamedTuple):
    """Entry of the list of settings."""

    entry: int
    content: bytes


Reply = Info | HealthStatus | SampleRate | LidarSetting | ScanBegins


def command(code: int, payload: bytes = b"") -> bytes:
    """Return a request; those with a payload have a length and a checksum."""
    if not code & 0x80:
        return bytes((0xA5, code))
    body = bytes((0xA5, code, len(payload))) + payload
    return body + bytes((xor8(body),))


def express_scan(mode: int) -> bytes:
    """Return the request to measure in a scan mode."""
    return command(EXPRESS_SCAN, bytes((mode, 0, 0, 0, 0)))


def get_conf(entry: int, mode: int | None = None) -> bytes:
    """Return the request for an entry of the settings, or for that of a scan mode."""
    return command(
        GET_CONF,
        entry.to_bytes(4, "little") + (b"" if mode is None else mode.to_bytes(2, "little")),
    )


class Commands(Shape):
    """Shape of requests, as the device reads them."""

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < 2:
            return INCOMPLETE
        if not buffer[at + 1] & 0x80:
            return 2
        return INCOMPLETE if end - at < 3 else 4 + buffer[at + 2]

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return stop - at == 2 or xor8(buffer[at:stop]) == 0


COMMANDS = Protocol("command", b"\xa5", Commands())


def scan_descriptor(kind: int) -> bytes:
    """Return the head before measurements."""
    return head(kind, _STREAMS[kind], multiple=True)


def encode_reply(reply: SampleRate | LidarSetting) -> bytes:
    """Return an answer with its head."""
    if isinstance(reply, SampleRate):
        return head(SAMPLE_RATE, _RATES.size) + _RATES.pack(*reply)
    return head(CONF, 4 + len(reply.content)) + reply.entry.to_bytes(4, "little") + reply.content


def parse_reply(frame: bytes) -> Reply:
    """Return the content of an answer whose head is valid."""
    kind, body = frame[6], frame[HEAD_BYTES:]
    if kind == SAMPLE_RATE:
        return SampleRate(*_RATES.unpack(body))
    return parse_answer(frame) or LidarSetting(int.from_bytes(body[:4], "little"), body[4:])


class CapsuleShape(CheckedFrame):
    """Capsule: two marks of four bits, each beside half of the checksum, then the content."""

    def __init__(self, size: int) -> None:
        super().__init__(FrameCheck(xor8, first=2))
        self._size = size

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), bytes(range(0x50, 0x60))]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        return self._size if end - at < 2 or buffer[at + 1] >> 4 == 5 else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return xor8(buffer[at + 2 : stop]) == (buffer[at] & 0xF | (buffer[at + 1] & 0xF) << 4)


class NodeShape(Shape):
    """Single measurement: a bit and its inverse, and a bit that is always set."""

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), bytes(range(1, 256, 2))]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        return NODE_BYTES if end - at < 2 or buffer[at + 1] & 1 else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return (buffer[at + 2] << 7 | buffer[at + 1] >> 1) < FULL_TURN_Q6 + 64


ANSWERS = answers({SAMPLE_RATE: range(4, 5), CONF: range(4, 128)}, {})
_NODE_SYNCS = [bytes((first,)) for first in range(256) if first & 3 in (1, 2)]


def protocols(kind: int | None) -> list[Protocol]:
    """Return what is in the stream while measurements of one type come, or none."""
    if kind is None:
        return [ANSWERS]
    if kind == NODES:
        node = NodeShape()
        return [ANSWERS, *[Protocol(NAMES[kind], sync, node) for sync in _NODE_SYNCS]]
    capsule = CapsuleShape(CAPSULE_BYTES[kind])
    return [
        ANSWERS,
        *[Protocol(NAMES[kind], bytes((first,)), capsule) for first in range(0xA0, 0xB0)],
    ]


# A head of measurements changes the shape of all that follows, so it is found first. By chance it
# is in 1 of 2**56 places.
_BEGINS = re.compile(b"|".join(re.escape(scan_descriptor(kind)) for kind in _STREAMS))
_HEADS = [scan_descriptor(kind) for kind in _STREAMS]


class StreamReader:
    """Reader of a stream of answers and measurements, cut anywhere."""

    def __init__(self) -> None:
        self._framers: dict[int | None, Framer] = {}
        self.clear()

    @property
    def bad_frames(self) -> int:
        """Heads without a valid frame."""
        return sum(framer.bad_frames for framer in self._framers.values())

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside of valid frames."""
        return sum(framer.dropped_bytes for framer in self._framers.values())

    def clear(self) -> None:
        """Expect answers, because the port was opened or the scan was stopped."""
        self._tail = b""
        self._select(None)

    def _select(self, kind: int | None) -> None:
        self.kind = kind
        # Kept, because the pattern of the nodes takes long to compile.
        if kind not in self._framers:
            self._framers[kind] = Framer(protocols(kind), 256)
        self._framer = self._framers[kind]
        self._framer.clear()

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Iterate over types and frames; that of a head of measurements is empty. Consume all
        before the next call."""
        data = self._tail + data
        self._tail = b""
        at = 0
        for found in _BEGINS.finditer(data):
            yield from self._frames(data[at : found.start()])
            self._select(found[0][6])
            yield found[0][6], b""
            at = found.end()
        rest = data[at:]
        for size in range(min(len(rest), HEAD_BYTES - 1), 0, -1):
            if any(head.startswith(rest[-size:]) for head in _HEADS) and rest[-size:]:
                rest, self._tail = rest[:-size], rest[-size:]
                break
        yield from self._frames(rest)

    def _frames(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        kind = self.kind or 0
        for name, frame in self._framer.feed(data):
            yield (frame[6] if name == "answer" else kind), frame


# ------------------------------------------------------------------ measurements


class Samples(NamedTuple):
    """Measurements of one frame. Angles in degrees, clockwise from the device's zero; arrays
    (n,)."""

    angle_deg: Array
    """Angle of the rotor; it only grows."""
    shift_deg: Array
    """Angle of the beam beyond it."""
    range_m: Array
    """0 for no return."""


def start_angle_deg(kind: int, frame: bytes) -> float:
    """Return the angle at which the first measurement of a capsule was made."""
    at = 8 if kind == ULTRA_DENSE else 2
    return (int.from_bytes(frame[at : at + 2], "little") & 0x7FFF) / 64.0


def is_first(kind: int, frame: bytes) -> bool:
    """Return True for the first capsule of a scan."""
    return bool(frame[9 if kind == ULTRA_DENSE else 3] & 0x80)


def parse_node(frame: bytes) -> tuple[bool, float, float]:
    """Return whether a turn begins, the angle in degrees, and the range in metres."""
    turn = (frame[2] << 7 | frame[1] >> 1) / 64.0
    return bool(frame[0] & 1), turn, (frame[4] << 8 | frame[3]) / 4000.0


def parse_capsule(kind: int, frame: bytes, following: bytes) -> Samples:
    """Return the measurements of a capsule. The angles end where the ``following`` one begins."""
    count = CAPSULE_SAMPLES[kind]
    begin = start_angle_deg(kind, frame)
    step = (start_angle_deg(kind, following) - begin) % 360.0 / count
    angle = begin + step * np.arange(count)
    if kind == EXPRESS:
        cabins = np.frombuffer(frame, np.uint8, offset=4).reshape(16, 5).astype(np.int64)
        first, second = cabins[:, 0] | cabins[:, 1] << 8, cabins[:, 2] | cabins[:, 3] << 8
        pair = np.stack((first, second), axis=1)
        fine = np.stack((cabins[:, 4] & 0xF, cabins[:, 4] >> 4), axis=1)
        shift = -((pair & 3) << 4 | fine).ravel() / 8.0
        return Samples(angle, shift, (pair & 0xFFFC).ravel() / 4000.0)
    if kind == ULTRA:
        millimetres = _ultra_mm(frame, following)
        return Samples(angle, -ultra_shift_deg(millimetres), millimetres / 1000.0)
    if kind == DENSE:
        millimetres = np.frombuffer(frame, "<u2", offset=4).astype(np.float64)
        return Samples(angle, np.zeros(count), millimetres / 1000.0)
    return Samples(angle, np.zeros(count), _ultra_dense_mm(frame) / 1000.0)


_SCALE_FROM, _SCALE_TO = np.array([0, 512, 1280, 1792, 3328]), np.array([0, 512, 2048, 4096, 16384])
_NO_PREDICTION = (-512, 511)


def _ultra_mm(frame: bytes, following: bytes) -> Array:
    """Return the ranges of an ultra capsule: each third one on a scale that grows coarser, the two
    after it as differences."""
    words = np.frombuffer(frame + following[4:8], "<u4", offset=4).astype(np.int64)
    major = words & 0xFFF
    level = np.searchsorted(_SCALE_FROM, major, side="right") - 1
    base = _SCALE_TO[level] + ((major - _SCALE_FROM[level]) << level)
    # A lost first range leaves the next one as the base of the difference after it.
    from_next = (base[:-1] == 0) & (base[1:] != 0)
    base1 = np.where(from_next, base[1:], base[:-1])
    level1 = np.where(from_next, level[1:], level[:-1])
    one = (words[:-1] >> 12 & 0x3FF ^ 0x200) - 0x200
    two = (words[:-1] >> 22 & 0x3FF ^ 0x200) - 0x200
    first = np.where(np.isin(one, _NO_PREDICTION), 0, base1 + (one << level1))
    second = np.where(np.isin(two, _NO_PREDICTION), 0, base[1:] + (two << level[1:]))
    return np.stack((base[:-1], first, second), axis=1).ravel().clip(0).astype(np.float64)


def ultra_shift_deg(millimetres: Array) -> Array:
    """Return how far the beam is behind the rotor in ultra mode: its triangle depends on the
    range."""
    with np.errstate(divide="ignore"):
        k = np.where(millimetres >= 50.0, 98_361.0 // np.maximum(4.0 * millimetres, 1.0), 0.0)
    shift = 8.0 * pi / 180.0 - (k * 64.0 + k**3 // 98_304.0) / 65_536.0
    degrees: Array = np.where(millimetres >= 50.0, shift * 180.0 / pi, 7.5)
    return degrees


_DENSE_SCALE, _DENSE_FROM = np.array([2, 3, 4, 5]), np.array([0, 2046, 8187, 24567])
_DENSE_BITS = np.array([0xFFC, 0x1FFC, 0x3FFC, 0x7FFC])


def _ultra_dense_mm(frame: bytes) -> Array:
    cabins = np.frombuffer(frame, np.uint8, offset=10, count=160).reshape(32, 5).astype(np.int64)
    low, high = cabins[:, 0] | cabins[:, 1] << 8, cabins[:, 2] | cabins[:, 3] << 8
    words = np.stack(
        (low | (cabins[:, 4] & 0xF) << 16, high | cabins[:, 4] >> 4 << 16), axis=1
    ).ravel()
    scale = words & 3
    millimetres: Array = (words & _DENSE_BITS[scale]) * _DENSE_SCALE[scale] / 4.0 + _DENSE_FROM[
        scale
    ]
    return millimetres


# ------------------------------------------------------------------ as the device sends them


def encode_node(angle_deg: float, range_m: float, *, begins: bool, quality: int = 15) -> bytes:
    """Return one measurement; a range of 0 is no return."""
    angle = round(angle_deg * 64.0) % FULL_TURN_Q6 << 1 | 1
    distance = round(range_m * 4000.0)
    distance = distance if distance <= 0xFFFF else 0
    return bytes(
        (
            quality << 2 | (1 if begins else 2),
            angle & 0xFF,
            angle >> 8,
            distance & 0xFF,
            distance >> 8,
        )
    )


def encode_capsule(
    kind: int, angle_deg: float, range_m: Sequence[float], *, first: bool, shift_deg: float = 0.0
) -> bytes:
    """Return a capsule of ranges, 0 for none. Ultra capsules take one more, the first of the next
    capsule.

    ``shift_deg``: angle of the beams behind the rotor, which express capsules state.
    """
    millimetres = [round(1000.0 * each) for each in range_m]
    angle = round(angle_deg * 64.0) % FULL_TURN_Q6 | (FIRST_CAPSULE if first else 0)
    body = bytearray(angle.to_bytes(2, "little"))
    if kind == EXPRESS:
        fine = round(shift_deg * 8.0) & 0x3F
        for i in range(0, 32, 2):
            pair = [
                (each if each <= 0x3FFF else 0) << 2 | fine >> 4 for each in millimetres[i : i + 2]
            ]
            body += b"".join(each.to_bytes(2, "little") for each in pair) + bytes(
                (fine & 0xF | (fine & 0xF) << 4,)
            )
    elif kind == ULTRA:
        body += b"".join(
            _ultra_word(millimetres[i : i + 4]).to_bytes(4, "little") for i in range(0, 96, 3)
        )
    elif kind == DENSE:
        body += b"".join(min(each, 0xFFFF).to_bytes(2, "little") for each in millimetres)
    else:
        body = bytearray(6) + body
        for i in range(0, 64, 2):
            low, high = (_ultra_dense_word(each) for each in millimetres[i : i + 2])
            body += (low & 0xFFFF).to_bytes(2, "little") + (high & 0xFFFF).to_bytes(2, "little")
            body += bytes((low >> 16 | high >> 16 << 4,))
    check = xor8(bytes(body))
    return bytes((0xA0 | check & 0xF, 0x50 | check >> 4)) + bytes(body)


def _ultra_word(millimetres: Sequence[int]) -> int:
    scaled = []
    for each in (millimetres[0], millimetres[3]):
        level = int(np.searchsorted(_SCALE_TO, each, side="right")) - 1
        value = min(int(_SCALE_FROM[level]) + (each - int(_SCALE_TO[level]) >> level), 0xFFF)
        scaled.append(
            (value, level, int(_SCALE_TO[level]) + (value - int(_SCALE_FROM[level]) << level))
        )
    (major, level1, base1), (_, level2, base2) = scaled
    if not base1 and base2:
        level1, base1 = level2, base2
    word = major
    for at, each, base, level in (
        (12, millimetres[1], base1, level1),
        (22, millimetres[2], base2, level2),
    ):
        difference = each - base >> level
        word |= ((difference if each and -512 < difference < 511 else 511) & 0x3FF) << at
    return word


def _ultra_dense_word(millimetres: int) -> int:
    scale = int(np.searchsorted(_DENSE_FROM, millimetres, side="right")) - 1
    return (
        min(
            (millimetres - int(_DENSE_FROM[scale])) // int(_DENSE_SCALE[scale]),
            int(_DENSE_BITS[scale]) >> 2,
        )
        << 2
        | scale
    )


# ------------------------------------------------------------------ recordings


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the content of a recording that holds the heads of its measurements, as (name,
    content)."""
    reader = StreamReader()
    before: tuple[int, bytes] | None = None
    for kind, frame in reader.feed(data):
        if not frame:
            before = None
            yield "scan begins", ScanBegins(kind)
        elif kind == NODES:
            yield NAMES[kind], parse_node(frame)
        elif kind in CAPSULE_BYTES:
            if before is not None and not is_first(kind, frame):
                yield NAMES[kind], parse_capsule(*before, frame)
            before = kind, frame
        else:
            yield NAMES[kind], parse_reply(frame)


# ------------------------------------------------------------------ driver


class RplidarParams(TurningParams, frozen=True, kw_only=True):
    """Parameters of an RPLIDAR. The motor of an A1 turns while DTR is off: end its address with
    ``dtr=off``."""

    model: Literal["a1", "a2m8", "a2m12", "a3", "s1", "s2", "s3", "c1"] = "a1"
    """Model, which sets rays, ranges, rate and line rate."""
    scan: Literal["typical", "legacy", "express"] = "typical"
    """Measurements: those that the device recommends, single ones, or the capsules that all but the
    first firmware have."""


class RplidarDevice(TurningLidar):
    """Driver of an RPLIDAR. It turns clockwise."""

    name: ClassVar[str] = "rplidar"
    models: ClassVar[dict[str, ScannerModel]] = {
        "a1": ScannerModel(0.15, 12.0, 5.5, 4_000.0, 115_200),
        "a2m8": ScannerModel(0.15, 12.0, 10.0, 4_000.0, 115_200),
        "a2m12": ScannerModel(0.2, 12.0, 10.0, 16_000.0, 256_000),
        "a3": ScannerModel(0.2, 25.0, 10.0, 16_000.0, 256_000),
        "s1": ScannerModel(0.1, 40.0, 10.0, 9_200.0, 256_000),
        "s2": ScannerModel(0.05, 30.0, 10.0, 32_000.0, 1_000_000),
        "s3": ScannerModel(0.05, 40.0, 10.0, 32_000.0, 1_000_000),
        "c1": ScannerModel(0.05, 12.0, 10.0, 5_000.0, 460_800),
    }
    Params: ClassVar[type[TurningParams]] = RplidarParams

    def __init__(
        self, params: RplidarParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._own = params
        self._reader: StreamReader = StreamReader()
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self) -> None:
        self._reader.clear()
        self._sample_ns = 1e9 / self.model.samples_hz
        super().restart()
        self._forget()

    def _forget(self) -> None:
        self._capsule: tuple[int, bytes, int] | None = None
        self._advance = 0.0

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        nodes: list[tuple[bool, float, float]] = []
        for kind, frame in self._reader.feed(data):
            if not frame:
                self._forget()
                found.append(ScanBegins(kind))
            elif kind == NODES:
                self._measured += 1
                self.usage.use(NAMES[kind])
                nodes.append(parse_node(frame))
            elif kind in CAPSULE_BYTES:
                self._measured += 1
                found += self._take_capsule(kind, frame, t_rx_ns)
            else:
                self.usage.use(NAMES[kind])
                reply = parse_reply(frame)
                found.append(reply)
                if isinstance(reply, HealthStatus):
                    found.append(Health(reply.complaint))
        if nodes:
            _, angle, range_m = (np.array(column, dtype=np.float64) for column in zip(*nodes))
            t_ns = np.full(len(angle), float(t_rx_ns - self._latency_ns))
            found += self._turns.add(
                Measurements(np.radians(angle), np.zeros(len(angle)), range_m, t_ns), t_rx_ns
            )
        return found

    def _take_capsule(self, kind: int, frame: bytes, t_rx_ns: int) -> list[LaserScan]:
        before, self._capsule = self._capsule, (kind, frame, t_rx_ns)
        if before is None or is_first(kind, frame):
            self.usage.use(NAMES[kind])
            self._advance = 0.0
            return []
        advance = (start_angle_deg(kind, frame) - start_angle_deg(kind, before[1])) % 360.0
        expected, self._advance = self._advance, advance
        # Where a capsule was lost, the angle to the next one is twice as large, and would spread
        # the measurements too far.
        lost = expected and abs(advance - expected) > 0.5 * expected
        if lost or not self.plausible(advance, CAPSULE_SAMPLES[kind], self._sample_ns):
            self.usage.refuse(NAMES[kind], Unused.INCOMPLETE)
            return []
        self.usage.use(NAMES[kind])
        samples = parse_capsule(kind, before[1], frame)
        count = len(samples.range_m)
        t_ns = before[2] - self._latency_ns - self._sample_ns * np.arange(count, 0, -1)
        angle, shift = np.radians(samples.angle_deg), np.radians(samples.shift_deg)
        return self._turns.add(Measurements(angle, shift, samples.range_m, t_ns), t_rx_ns)

    # ---------------------------------------------------------------- set-up

    def script(self) -> Script:
        """Stop, identify, check the health, start the motor, and measure."""
        yield SetUpRequest("stop", command(STOP), none, DRAIN_S, optional=True)
        self._reader.clear()
        info = yield SetUpRequest("report its model", command(GET_INFO), of(Info))
        health = yield SetUpRequest("report its health", command(GET_HEALTH), of(HealthStatus))
        if health.status == 2:
            yield SetUpRequest("reset", command(RESET), none, RESET_S, optional=True)
            self._reader.clear()
            health = yield SetUpRequest(
                "report its health after a reset", command(GET_HEALTH), of(HealthStatus)
            )
            if health.status == 2:
                raise ConfigurationError(f"{health.complaint}, also after a reset")
        kind, mode = yield from self._mode(info)
        major = info.model >> 4
        if major in PWM_MAJORS:
            pwm = min(PWM_MOST, round(PWM_DEFAULT * self.rate_hz / PWM_RATE_HZ))
            yield SetUpRequest(
                "turn", command(SET_PWM, pwm.to_bytes(2, "little")), none, DRAIN_S, optional=True
            )
        elif major >= RPM_MAJOR or (major > max(PWM_MAJORS) and self._own.rate_hz):
            rpm = round(60.0 * self.rate_hz)
            yield SetUpRequest(
                "turn", command(SET_RPM, rpm.to_bytes(2, "little")), none, DRAIN_S, optional=True
            )
        request = command(SCAN) if kind == NODES else express_scan(mode)
        begun = yield SetUpRequest("measure", request, of(ScanBegins))
        firmware = f"{info.firmware >> 8}.{info.firmware & 0xFF:02d}"
        return {
            "model": f"0x{info.model:02X}", "firmware": firmware, "serial": info.serial,
            "health": health.status, "measurements": NAMES[begun.kind],
            "sample_us": round(self._sample_ns / 1e3, 1),
        }  # fmt: skip

    def _mode(self, info: Info) -> Generator[SetUpRequest, Any, tuple[int, int]]:
        """Return the type of measurements and the number of their scan mode, and read the time of a
        measurement."""
        wanted = self._own.scan
        if wanted == "typical" and info.firmware >= CONF_FIRMWARE:
            typical = yield SetUpRequest(
                "report its scan mode", get_conf(TYPICAL), _entry(TYPICAL, 2), optional=True
            )
            if typical is not None:
                mode = int.from_bytes(typical[:2], "little")
                answer = yield SetUpRequest(
                    "report its answer", get_conf(ANSWER_TYPE, mode), _entry(ANSWER_TYPE, 1)
                )
                us = yield SetUpRequest(
                    "report its sample time", get_conf(SAMPLE_US, mode), _entry(SAMPLE_US, 4)
                )
                self._set_sample_us(int.from_bytes(us[:4], "little") / 256.0)
                if answer[0] in _STREAMS:
                    return answer[0], mode
                raise ConfigurationError(
                    f"it recommends measurements of type 0x{answer[0]:02X}: use another scan"
                )
        rates = yield SetUpRequest(
            "report its sample time", command(GET_SAMPLE_RATE), of(SampleRate), optional=True
        )
        if rates is not None:
            self._set_sample_us(rates.node_us if wanted == "legacy" else rates.express_us)
        elif wanted == "typical":
            return NODES, 0  # a firmware from before the capsules
        return (NODES, 0) if wanted == "legacy" else (EXPRESS, 0)

    def _set_sample_us(self, microseconds: float) -> None:
        if 10.0 <= microseconds <= 2_000.0:
            self._sample_ns = 1e3 * microseconds
            self._begin_turns(1e9 / self._sample_ns)


def _entry(entry: int, size: int) -> Callable[[Any], bytes | None]:
    """Return a judge for an entry of the settings with at least ``size`` bytes."""

    def judge(reply: Any) -> bytes | None:
        fits = (
            isinstance(reply, LidarSetting) and reply.entry == entry and len(reply.content) >= size
        )
        return reply.content if fits else None

    return judge
