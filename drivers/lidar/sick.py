"""SICK TiM and LMS: CoLa A and CoLa B over TCP, and the driver. Sources: NOTES-sick.md.

The two dialects carry the same telegrams: A as text between STX and ETX, with numbers in
hexadecimal, B in binary with a length and a checksum.
"""

from collections.abc import Callable, Iterator, Sequence
from math import inf, nan, pi, tau
from struct import Struct as Layout
from struct import error as LayoutError
from struct import pack, unpack
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.base import Health, LidarDevice, LidarParams, ScannerModel
from drivers.lidar.scan import Array
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import LaserScan, Message
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.crc import xor8
from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, Framer, Protocol, Shape, Stream
from vehicled.core.wire.usage import Unused

STX, ETX = b"\x02", b"\x03"
B_HEAD = STX * 4
B_HEAD_BYTES = 8
MOST_BYTES = 40_000
"""Bytes of a telegram; 1600 ranges with intensities have 16,000 as text."""
SCANS = "LMDscandata"
LOGIN = "03 F4724744"
"""User level and password of the maintenance that every device is delivered with: needed to start
to measure."""
LEAST_COUNT = 16
"""Ranges below, in counts, are codes: 0 for no return, the others for a failed measurement."""
STATE_READY, STATE_ERROR = 1, 2
STATUS_BITS = {1: "an error", 2: "a dirty window", 4: "a window too dirty to measure"}
BLIND_BITS = 1 | 4
"""Bits with which a scan is not used: rays without a return would count as free."""
MOST_CHANNELS = 12
_B_SCAN = Layout(">HHIBBHHIIBBBBHIIH")


class Telegram(NamedTuple):
    """Telegram other than a scan: its kind, such as ``sRA``, its name, and its values as they are
    on the wire."""

    kind: str
    name: str
    values: bytes
    binary: bool


class ScanData(NamedTuple):
    """Scan in a telegram."""

    status: int
    """State of the device: 0, or bits of ``STATUS_BITS``."""
    telegrams: int
    scans: int
    """Counters of telegrams and scans."""
    start_us: int
    """Device time of the scan, and below that of the telegram."""
    sent_us: int
    rate_hz: float
    first_deg: float
    """Angle of the first ray, counter-clockwise; 90 is the front."""
    step_deg: float
    scale_mm: float
    """Millimetres of a count."""
    counts: tuple[int, ...]


class TelegramA(Shape):
    """Text between STX and ETX, which have no other place in it."""

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), b"RWMEFAS"]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        stop = buffer.find(ETX, at, min(end, at + MOST_BYTES))
        again = buffer.find(STX, at + 1, min(end, at + MOST_BYTES) if stop < 0 else stop)
        if again >= 0:
            return NO_FRAME
        if stop >= 0:
            return stop + 1 - at
        return INCOMPLETE if end - at < MOST_BYTES else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return bytes(buffer[at + 1 : stop - 1]).isascii()


class TelegramB(Shape):
    """Four STX, a length of four bytes, the content, and a checksum."""

    weight = 1

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), b"\0", b"\0", bytes(range((MOST_BYTES >> 8) + 1))]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < B_HEAD_BYTES:
            return INCOMPLETE
        size = int.from_bytes(buffer[at + 4 : at + B_HEAD_BYTES], "big")
        return B_HEAD_BYTES + size + 1 if 3 <= size <= MOST_BYTES - B_HEAD_BYTES - 1 else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return buffer[at + B_HEAD_BYTES] == ord("s") and xor8(buffer[at + B_HEAD_BYTES : stop]) == 0


PROTOCOLS = (Protocol("cola_b", B_HEAD, TelegramB()), Protocol("cola_a", STX + b"s", TelegramA()))


def encode(text: bytes, *, binary: bool) -> bytes:
    """Return a telegram with this content."""
    if not binary:
        return STX + text + ETX
    return B_HEAD + len(text).to_bytes(4, "big") + text + bytes((xor8(text),))


def command(text: str, *, binary: bool) -> bytes:
    """Return a command whose values are hexadecimal numbers, in binary with as many digits as they
    have bytes."""
    kind, name, *values = text.split(" ")
    if not binary:
        return encode(
            " ".join((kind, name, *[value.lstrip("0") or "0" for value in values])).encode(),
            binary=False,
        )
    body = b"".join(map(bytes.fromhex, values))
    return encode(f"{kind} {name}".encode() + (b" " + body if values else b""), binary=True)


def parse(frame: bytes) -> Telegram | ScanData | None:
    """Return the content of a telegram; None if it has none that could be read."""
    binary = frame.startswith(B_HEAD)
    body = frame[B_HEAD_BYTES:-1] if binary else frame[1:-1]
    kind, _, rest = body.partition(b" ")
    name, _, values = rest.partition(b" ")
    if name == SCANS.encode() and kind in (b"sSN", b"sRA"):
        try:
            return _scan_b(values) if binary else _scan_a(values)
        except (LayoutError, ValueError, IndexError, OverflowError):
            return None
    return Telegram(kind.decode("latin-1"), name.decode("latin-1")[:40], values, binary)


def _number(text: bytes) -> int:
    return int(text) if text[:1] in b"+-" else int(text, 16)


def _signed(text: bytes) -> int:
    value = _number(text)
    return value - (1 << 32) if value >= 1 << 31 else value


def _float(text: bytes) -> float:
    value: float = unpack(">f", int(text, 16).to_bytes(4, "big"))[0]
    return value


def _scan_a(values: bytes) -> ScanData | None:
    tokens = values.split(b" ")
    # Version, device, serial number, state of two bytes, counters, times, inputs, outputs, angle of
    # the layer, rates, encoders.
    status = _number(tokens[3]) << 8 | _number(tokens[4])
    head = status, _number(tokens[5]), _number(tokens[6]), _number(tokens[7]), _number(tokens[8])
    rate_hz = _number(tokens[14]) / 100.0
    at = 17 + 2 * _number(tokens[16])
    for _ in range(min(_number(tokens[at]), MOST_CHANNELS)):
        name, count = tokens[at + 1], _number(tokens[at + 6])
        if name == b"DIST1":
            factor = _float(tokens[at + 2])
            first = _signed(tokens[at + 4])
            step = _number(tokens[at + 5])
            counts = tuple([_number(each) for each in tokens[at + 7 : at + 7 + count]])
            return _checked(
                ScanData(*head, rate_hz, first / 1e4, step / 1e4, factor, counts), count
            )
        at += 6 + count
    return None


def _scan_b(values: bytes) -> ScanData | None:
    fields = _B_SCAN.unpack_from(values)
    head = fields[3] << 8 | fields[4], fields[5], fields[6], fields[7], fields[8]
    rate_hz = fields[14] / 100.0
    at = _B_SCAN.size + 6 * fields[16]
    (channels,) = unpack(">H", values[at : at + 2])
    at += 2
    for _ in range(min(channels, MOST_CHANNELS)):
        name, factor, _, first, step, count = unpack(">5sffiHH", values[at : at + 21])
        at += 21
        if name == b"DIST1":
            counts = tuple(np.frombuffer(values[at : at + 2 * count], ">u2").tolist())
            return _checked(
                ScanData(*head, rate_hz, first / 1e4, step / 1e4, factor, counts), count
            )
        at += 2 * count
    return None


def _checked(scan: ScanData, count: int) -> ScanData | None:
    """Return a scan if its numbers are possible, because text has no checksum."""
    possible = (
        2 <= count == len(scan.counts)
        and 0.0 < scan.step_deg <= 10.0
        and -360.0 <= scan.first_deg <= 360.0
        and scan.step_deg * (count - 1) <= 360.0
        and 0.5 <= scan.rate_hz <= 200.0
        and 0.0 < scan.scale_mm <= 100.0
        and max(scan.counts) <= 0xFFFF
        and min(scan.counts) >= 0
    )
    return scan if possible else None


def encode_scan(scan: ScanData, *, binary: bool, kind: str = "sSN") -> bytes:
    """Return the telegram of a scan with one channel."""
    first, step = round(scan.first_deg * 1e4), round(scan.step_deg * 1e4)
    rate, measurements = round(scan.rate_hz * 100.0), round(scan.rate_hz * 3.6 / scan.step_deg)
    state = scan.status >> 8, scan.status & 0xFF
    if binary:
        head = (
            1,
            1,
            1,
            *state,
            scan.telegrams,
            scan.scans,
            scan.start_us,
            scan.sent_us,
            0,
            0,
            0,
            0,
            0,
            rate,
            measurements,
            0,
        )
        channel = pack(">H5sffiHH", 1, b"DIST1", scan.scale_mm, 0.0, first, step, len(scan.counts))
        # No 8-bit channel, and neither position, name, comment, time nor event.
        body = _B_SCAN.pack(*head) + channel + np.array(scan.counts, ">u2").tobytes() + bytes(12)
        return encode(f"{kind} {SCANS} ".encode() + body, binary=True)
    numbers = [
        1,
        1,
        1,
        *state,
        scan.telegrams,
        scan.scans,
        scan.start_us,
        scan.sent_us,
        0,
        0,
        0,
        0,
        0,
        rate,
        measurements,
        0,
        1,
    ]
    texts = [
        "DIST1",
        pack(">f", scan.scale_mm).hex().upper(),
        "00000000",
        f"{first & 0xFFFF_FFFF:X}",
        f"{step:X}",
    ]
    values = [f"{each:X}" for each in (len(scan.counts), *scan.counts, *(0,) * 6)]
    return encode(
        " ".join((kind, SCANS, *[f"{each:X}" for each in numbers], *texts, *values)).encode(),
        binary=False,
    )


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the telegrams of a recording by their names; one that cannot be read is given as
    it is."""
    framer = Framer(PROTOCOLS, MOST_BYTES)
    for _, frame in [*framer.feed(data), *framer.flush()]:
        found = parse(frame)
        yield (found.name if isinstance(found, Telegram) else SCANS), found or frame


def measured_m(scan: ScanData) -> Array:
    """Return ranges in metres: infinite for none, NaN where the measurement failed."""
    counts = np.array(scan.counts, dtype=np.int64)
    return np.where(
        counts == 0, inf, np.where(counts < LEAST_COUNT, nan, counts * (scan.scale_mm / 1000.0))
    )


def _model(
    near_m: float, far_m: float, rate_hz: float, step_deg: float, first_deg: float, last_deg: float
) -> ScannerModel:
    first, last = first_deg * pi / 180.0, last_deg * pi / 180.0
    return ScannerModel(
        near_m, far_m, rate_hz, 360.0 / step_deg * rate_hz, 0, first, last, 0.5 * pi
    )


class SickParams(LidarParams, frozen=True, kw_only=True):
    """Parameters of a SICK scanner. Its address is ``tcp:192.168.0.1:2112``; scan rate and
    resolution are set by SOPAS ET."""

    model: Literal["tim551", "tim561", "tim571", "tim781", "lms111", "lms511"] = "tim571"
    """Model, which sets rays, ranges, rate and line rate."""
    cola: Literal["auto", "a", "b"] = "auto"
    """Dialect that is set in the device; ``auto`` tries both."""
    start: bool = True
    """Log in as maintenance and start to measure, if it does not do so by itself."""


class SickDevice(LidarDevice):
    """Driver of a SICK scanner. It turns counter-clockwise, and sends whole scans."""

    name: ClassVar[str] = "sick"
    models: ClassVar[dict[str, ScannerModel]] = {
        "tim551": _model(0.05, 10.0, 15.0, 1.0, -45.0, 225.0),
        "tim561": _model(0.05, 10.0, 15.0, 1.0 / 3.0, -45.0, 225.0),
        "tim571": _model(0.05, 25.0, 15.0, 1.0 / 3.0, -45.0, 225.0),
        "tim781": _model(0.05, 25.0, 15.0, 1.0 / 3.0, -45.0, 225.0),
        "lms111": _model(0.5, 20.0, 50.0, 0.5, -45.0, 225.0),
        "lms511": _model(0.2, 80.0, 50.0, 0.5, -5.0, 185.0),
    }
    Params: ClassVar[type[LidarParams]] = SickParams

    def __init__(
        self, params: SickParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._own = params
        self._reader: Framer = Framer(PROTOCOLS, MOST_BYTES)
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self) -> None:
        self._reader.clear()
        self._clock = DeviceClock(tick_ns=1e3, bits=32, latency_ns=self._latency_ns)

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        for _, frame in self._reader.feed(data):
            telegram = parse(frame)
            if telegram is None:
                self.usage.refuse(SCANS, Unused.UNREADABLE)
            elif isinstance(telegram, Telegram):
                self.usage.use(telegram.name)
                found.append(telegram)
            else:
                found.append(Health(_complaint(telegram.status)))
                scan = self._scan(telegram, t_rx_ns)
                if (telegram.status | telegram.status >> 8) & BLIND_BITS:
                    self.usage.refuse(SCANS, Unused.INVALID)
                elif scan is not None:
                    self.usage.use(SCANS)
                    found.append(scan)
        return found

    def _scan(self, scan: ScanData, t_rx_ns: int) -> LaserScan | None:
        step_rad = scan.step_deg * pi / 180.0
        period_s = 1.0 / scan.rate_hz
        ray_s = step_rad / tau * period_s
        sent_ns = self._clock.update(scan.sent_us, t_rx_ns)
        sweep_ns = round(1e9 * ray_s * (len(scan.counts) - 1))
        since_ns = 1_000 * ((scan.sent_us - scan.start_us) % (1 << 32))
        # Stamps of two clocks, as after a restart, say nothing.
        since_ns = since_ns if since_ns <= 2e9 * period_s else 0
        # The scan of a TiM leaves sooner after its stamp than it takes, so that stamp is one of the
        # end of the sweep.
        t_ns = sent_ns - (since_ns if since_ns >= sweep_ns else since_ns + sweep_ns)
        return self.geometry.scan(
            scan.first_deg * pi / 180.0, step_rad, measured_m(scan), t_ns, ray_s, period_s, t_rx_ns
        )

    # ---------------------------------------------------------------- set-up

    def script(self) -> Script:
        """Find the dialect, stop what an earlier connection asked for, check the state, and ask for
        every scan."""
        identity: Telegram | None = None
        binary = False
        for binary in {"auto": (True, False), "a": (False,), "b": (True,)}[self._own.cola]:
            ask = command("sRN DeviceIdent", binary=binary)
            identity = yield SetUpRequest(
                "identify itself", ask, _of("sRA", "DeviceIdent", binary), optional=True
            )
            if identity is not None:
                break
        if identity is None:
            dialect = (
                "CoLa A nor CoLa B"
                if self._own.cola == "auto"
                else f"CoLa {self._own.cola.upper()}"
            )
            refused = "neither " + dialect if self._own.cola == "auto" else "not " + dialect
            raise ConfigurationError(
                f"it answers {refused}: check the address, the port, and the dialect set in "
                "the device"
            )

        def ask_for(what: str, text: str, kind: str, *, optional: bool = False) -> SetUpRequest:
            name = text.split(" ")[1]
            return SetUpRequest(
                what, command(text, binary=binary), _of(kind, name, binary), optional=optional
            )

        yield ask_for("stop", f"sEN {SCANS} 00", "sEA", optional=True)
        state = yield ask_for("report its state", "sRN SCdevicestate", "sRA", optional=True)
        code = _last_value(state)
        if code == STATE_ERROR:
            raise ConfigurationError("it reports an error, by SCdevicestate")
        if code is not None and code != STATE_READY and self._own.start:
            yield ask_for(
                "let the maintenance in", f"sMN SetAccessMode {LOGIN}", "sAN", optional=True
            )
            yield ask_for("start to measure", "sMN LMCstartmeas", "sAN", optional=True)
            yield ask_for("run", "sMN Run", "sAN", optional=True)
        begun = yield ask_for("send its scans", f"sEN {SCANS} 01", "sEA")
        if isinstance(begun, Refusal):
            raise ConfigurationError(begun.reason)
        text = bytes(byte for byte in identity.values if 32 <= byte < 127).decode().strip()
        return {"model": text[:60], "dialect": "CoLa B" if binary else "CoLa A"}


def _last_value(telegram: Telegram | Refusal | None) -> int | None:
    """Return the only number of an answer."""
    if not isinstance(telegram, Telegram) or not telegram.values:
        return None
    try:
        return telegram.values[-1] if telegram.binary else _number(telegram.values.split(b" ")[-1])
    except ValueError:
        return None


def _complaint(status: int) -> str:
    found = [what for bit, what in STATUS_BITS.items() if (status | status >> 8) & bit]
    return f"it reports {', '.join(found)}" if found else ""


def _of(kind: str, name: str, binary: bool) -> Callable[[Any], Telegram | Refusal | None]:
    """Return a judge for answers to a command: those of its name, or an error."""

    def judge(reply: Any) -> Telegram | Refusal | None:
        if not isinstance(reply, Telegram) or reply.binary is not binary:
            return None
        if reply.kind == "sFA":
            return Refusal(
                f"it refuses: error {name} {reply.values.hex() if binary else reply.name}"
            )
        return reply if (reply.kind, reply.name) == (kind, name) else None

    return judge
