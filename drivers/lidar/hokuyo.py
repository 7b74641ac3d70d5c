"""Hokuyo URG, UTM and UST: SCIP 2.0 over a serial line, USB or TCP, and the driver. Sources:
NOTES-hokuyo.md."""

from collections.abc import Callable, Iterator, Sequence
from math import inf, nan, tau
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.base import Health, LidarDevice, LidarParams, ScannerModel
from drivers.lidar.scan import Array
from drivers.set_up import ConfigurationError, Script, SetUpRequest
from vehicled.core.messages import LaserScan, Message
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.usage import Unused

END = b"\n\n"
BLOCK = 64
"""Characters of a line of data before its checksum."""
MOST_BYTES = 32_768
"""Bytes of a message; 1600 ranges with intensities have 10,000."""
DRAIN_S = 0.3
STAMP_BITS = 24
FAR = frozenset({0, 1, 2, 3, 4, 5, 6, 16})
"""Ranges that are codes for too little light, or for what is beyond the range."""
LEAST_MM = 20
"""Ranges below are codes; all but those of ``FAR`` say that the measurement failed."""
OK, ON_ALREADY, DATA = "00", "02", "99"
STATUS_TEXTS = {
    "01": "the laser cannot be lit", "0L": "it is in an abnormal state", "0M": "it is unstable",
    "10": "it denies the command", "0E": "it does not know the command",
    "0F": "it does not support the command",
}  # fmt: skip


class Steps(NamedTuple):
    """Steps of the motor: those of a turn, the first and last that measure, and the one at the
    front."""

    turn: int
    first: int
    last: int
    front: int

    def angle_rad(self, step: int) -> float:
        """Return the angle of a step, counter-clockwise from the front."""
        return (step - self.front) * tau / self.turn


def _model(
    near_m: float, far_m: float, rate_hz: float, steps: Steps, baud: int = 0
) -> ScannerModel:
    first, last = steps.angle_rad(steps.first), steps.angle_rad(steps.last)
    return ScannerModel(near_m, far_m, rate_hz, steps.turn * rate_hz, baud, first, last)


STEPS = {
    "urg04lx": Steps(1024, 44, 725, 384),
    "ust10lx": Steps(1440, 0, 1080, 540),
    "ust20lx": Steps(1440, 0, 1080, 540),
    "utm30lx": Steps(1440, 0, 1080, 540),
}


class Reply(NamedTuple):
    """Message of the sensor: what it answers, its status, and its lines, of which the checksums
    fit."""

    echo: str
    status: str
    lines: tuple[bytes, ...] = ()


class Ranges(NamedTuple):
    """Message with measurements, from the step of the first to that of the last."""

    echo: str
    status: str
    stamp_ms: int
    first: int
    last: int
    cluster: int
    """Steps that one range stands for."""
    range_mm: tuple[int, ...]


def checksum(text: bytes) -> bytes:
    """Return the checksum of a line."""
    return bytes(((sum(text) & 0x3F) + 0x30,))


def encode_number(value: int, size: int) -> bytes:
    """Return a number in ``size`` characters of six bits."""
    return bytes((value >> 6 * at & 0x3F) + 0x30 for at in range(size - 1, -1, -1))


def decode_numbers(text: bytes, size: int) -> list[int]:
    """Return numbers of ``size`` characters each."""
    digits = (np.frombuffer(text, np.uint8).astype(np.int64) - 0x30 & 0x3F).reshape(-1, size)
    numbers: list[int] = (digits @ (64 ** np.arange(size - 1, -1, -1))).tolist()
    return numbers


def encode_message(
    echo: str, status: str, lines: Sequence[bytes] = (), *, between: bytes = b""
) -> bytes:
    """Return a message. Each line gets its checksum, behind ``between``."""
    text = [echo.encode(), status.encode() + checksum(status.encode())]
    return b"\n".join([*text, *[line + between + checksum(line) for line in lines]]) + END


def encode_ranges(
    echo: str, status: str, stamp_ms: int, range_mm: Sequence[int], *, size: int = 3
) -> bytes:
    """Return a message with ranges in blocks of 64 characters."""
    text = b"".join([encode_number(min(each, 64**size - 1), size) for each in range_mm])
    blocks = [text[at : at + BLOCK] for at in range(0, len(text), BLOCK)]
    return encode_message(echo, status, [encode_number(stamp_ms % (1 << STAMP_BITS), 4), *blocks])


def parse_message(text: bytes) -> Reply | Ranges | None:
    """Return the content of a message without its end; None if a checksum or anything else is
    wrong."""
    lines = text.split(b"\n")
    if len(lines) < 2 or not 1 <= len(lines[0]) <= 80 or not all(map(_sound, lines[1:])):
        return None
    try:
        echo, status = lines[0].decode("ascii"), lines[1][:-1].decode("ascii")
    except UnicodeDecodeError:
        return None
    if len(status) != 2:
        return None
    if echo[:2] in _RANGES and len(lines) > 2:
        return _parse_ranges(echo, status, lines[2:])
    # In the answers to VV, PP and II the checksum leaves the semicolon before it out.
    return Reply(
        echo, status, tuple(line[:-2] if line[-2:-1] == b";" else line[:-1] for line in lines[2:])
    )


_RANGES = {"GD": (3, 1), "MD": (3, 1), "GE": (3, 2), "ME": (3, 2), "GS": (2, 1), "MS": (2, 1)}
"""Characters of a number, and numbers of a step: its range, and its intensity."""


def _sound(line: bytes) -> bool:
    check = line[-1:]
    return bool(check) and check in (
        checksum(line[:-1]),
        checksum(line[:-2]) if line[-2:-1] == b";" else b"",
    )


def _parse_ranges(echo: str, status: str, lines: Sequence[bytes]) -> Ranges | None:
    size, each = _RANGES[echo[:2]]
    text = b"".join([line[:-1] for line in lines[1:]])
    if len(lines[0]) != 5 or not echo[2:12].isdigit() or len(text) % (size * each):
        return None
    first, last, cluster = int(echo[2:6]), int(echo[6:10]), max(int(echo[10:12]), 1)
    numbers = decode_numbers(text, size)[::each]
    if len(numbers) != (last - first) // cluster + 1:
        return None
    return Ranges(
        echo, status, decode_numbers(lines[0][:4], 4)[0], first, last, cluster, tuple(numbers)
    )


class MessageReader:
    """Reader of messages, which end with an empty line, from a stream cut anywhere."""

    def __init__(self) -> None:
        self._held = bytearray()
        self.bad_frames = 0
        """Messages that could not be read."""
        self.dropped_bytes = 0

    def clear(self) -> None:
        """Drop a begun message, because the stream was interrupted."""
        self.dropped_bytes += len(self._held)
        self._held.clear()

    def feed(self, data: bytes) -> Iterator[Reply | Ranges]:
        """Iterate over the messages that the data complete."""
        held = self._held
        at = max(len(held) - 1, 0)
        held += data
        while (end := held.find(END, at)) >= 0:
            text = bytes(held[:end])
            del held[: end + len(END)]
            at = 0
            found = parse_message(text.lstrip(b"\n")) if len(text) <= MOST_BYTES else None
            if found is None:
                self.bad_frames += bool(text)
                self.dropped_bytes += len(text) + len(END)
            else:
                yield found
        if len(held) > MOST_BYTES:
            # The last byte may be the first of an end.
            self.dropped_bytes += len(held) - 1
            del held[:-1]


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the messages of a recording, by command."""
    for found in MessageReader().feed(data):
        yield found.echo[:2], found


def measured_m(range_mm: Sequence[int]) -> Array:
    """Return ranges in metres: infinite for none, NaN where the measurement failed."""
    ranges = np.array(range_mm, dtype=np.float64) / 1000.0
    codes = np.array([inf if code in FAR else nan for code in range(LEAST_MM)])
    whole = np.array(range_mm, dtype=np.int64)
    coded = whole < LEAST_MM
    ranges[coded] = codes[whole[coded]]
    return ranges


class HokuyoParams(LidarParams, frozen=True, kw_only=True):
    """Parameters of a Hokuyo scanner. The address of a network model is
    ``tcp:192.168.0.10:10940``."""

    model: Literal["urg04lx", "ust10lx", "ust20lx", "utm30lx"] = "ust10lx"
    """Model, which sets rays, ranges, rate and line rate."""


class HokuyoDevice(LidarDevice):
    """Driver of a Hokuyo scanner. It turns counter-clockwise, and sends whole scans."""

    name: ClassVar[str] = "hokuyo"
    models: ClassVar[dict[str, ScannerModel]] = {
        "urg04lx": _model(0.02, 5.6, 10.0, STEPS["urg04lx"]),
        "ust10lx": _model(0.06, 10.0, 40.0, STEPS["ust10lx"]),
        "ust20lx": _model(0.06, 20.0, 40.0, STEPS["ust20lx"]),
        "utm30lx": _model(0.1, 30.0, 40.0, STEPS["utm30lx"]),
    }
    Params: ClassVar[type[LidarParams]] = HokuyoParams

    def __init__(
        self, params: HokuyoParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader: MessageReader = MessageReader()
        self.steps = STEPS[params.model]
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self) -> None:
        self._reader.clear()
        sweep_s = (self.model.last_rad - self.model.first_rad) / tau / self.rate_hz
        # A scan leaves when its last ray has been measured; its stamp is that of its first.
        self._clock = DeviceClock(
            tick_ns=1e6, bits=STAMP_BITS, latency_ns=self._latency_ns + round(1e9 * sweep_s)
        )

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        for message in self._reader.feed(data):
            name = message.echo[:2]
            if isinstance(message, Ranges):
                scan = self._scan(message, t_rx_ns)
                if scan is None:
                    self.usage.refuse(name, Unused.UNREADABLE)
                    continue
                self.usage.use(name)
                found += [Health(""), scan]
                continue
            self.usage.use(name)
            if name in _RANGES and message.status not in (OK, DATA):
                found.append(Health(f"it stops to measure: {_words(message.status)}"))
            elif name == "II":
                found.append(Health(_complaint(message)))
            found.append(message)
        return found

    def _scan(self, message: Ranges, t_rx_ns: int) -> LaserScan | None:
        if message.status not in (OK, DATA):
            return None
        steps = self.steps
        step_rad = tau / steps.turn * message.cluster
        period_s = 1.0 / self.rate_hz
        ray_s = step_rad / tau * period_s
        t_ns = self._clock.update(message.stamp_ms, t_rx_ns)
        ranges = measured_m(message.range_mm)
        return self.geometry.scan(
            steps.angle_rad(message.first), step_rad, ranges, t_ns, ray_s, period_s, t_rx_ns
        )

    # ---------------------------------------------------------------- set-up

    def script(self) -> Script:
        """Stop, identify, read the steps, check the state, light the laser, and measure without
        end."""
        yield SetUpRequest("stop", b"QT\n", _of("QT"), DRAIN_S, optional=True)
        # The first URG speak an older protocol until they are switched.
        yield SetUpRequest("speak SCIP 2.0", b"SCIP2.0\n", _of("SCIP2.0"), DRAIN_S, optional=True)
        version = yield SetUpRequest("report its version", b"VV\n", _of("VV"))
        values = yield SetUpRequest("report its steps", b"PP\n", _of("PP"))
        self._take_steps(_fields(values))
        state = yield SetUpRequest("report its state", b"II\n", _of("II"), optional=True)
        lit = yield SetUpRequest("light its laser", b"BM\n", _of("BM"), 2.0)
        if lit.status not in (OK, ON_ALREADY):
            raise ConfigurationError(
                f"{_words(lit.status)}; {_complaint(state) if state else 'it does not say why'}"
            )
        steps = self.steps
        command = f"MD{steps.first:04d}{steps.last:04d}01000"
        begun = yield SetUpRequest("measure", command.encode() + b"\n", _of(command))
        if begun.status != OK:
            raise ConfigurationError(f"it does not measure: {_words(begun.status)}")
        fields = _fields(version)
        return {
            "model": fields.get("PROD", ""),
            "firmware": fields.get("FIRM", ""),
            "serial": fields.get("SERI", ""),
        }

    def _take_steps(self, fields: dict[str, str]) -> None:
        try:
            steps = Steps(*(int(fields[name]) for name in ("ARES", "AMIN", "AMAX", "AFRT")))
        except (KeyError, ValueError):
            raise ConfigurationError("it does not state its steps in the answer to PP") from None
        if not (
            0 < steps.turn <= 1 << 16
            and 0 <= steps.first < steps.last <= min(9999, steps.first + steps.turn)
        ):
            raise ConfigurationError(f"it states impossible steps: {steps}")
        self.steps = steps
        rpm = fields.get("SCAN", "")
        if self.params.rate_hz is None and rpm.isdigit() and 60 <= int(rpm) <= 6000:
            self.rate_hz = int(rpm) / 60.0


def _words(status: str) -> str:
    return STATUS_TEXTS.get(status, f"status {status}")


def _fields(message: Reply) -> dict[str, str]:
    """Return the fields of an answer to VV, PP or II."""
    lines = [line.decode("ascii", "replace").partition(":") for line in message.lines]
    return {name: value[:60] for name, _, value in lines}


def _complaint(state: Reply) -> str:
    text = _fields(state).get("STAT", "")
    sound = not text or text.startswith(
        ("Sensor works well", "000", "sensor is working normally", "Stable 000")
    )
    return "" if sound else f"it reports: {text}"


def _of(echo: str) -> Callable[[Any], Reply | None]:
    """Return a judge for answers to a command."""
    return lambda reply: reply if isinstance(reply, Reply) and reply.echo == echo else None
