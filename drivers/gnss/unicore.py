"""Unicore UM98x and receivers of its protocol (N4): logs in binary and in text, and the driver.
Sources: NOTES-unicore.md.

Binary: ``AA 44 B5 | CPU u8 | number u16 | length u16 | time system u8, status u8 | week u16 | ms
u32 | version u32 | u8 | leap u8 | delay u16 | content | CRC-32``, little-endian. Text:
``#NAMEA,head;content*CRC-32``. The CRC begins with 0 and is not inverted.
"""

import re
from collections.abc import Callable, Iterator
from math import cos, isfinite, nan, radians, sin
from struct import Struct as Layout
from typing import Any, ClassVar, NamedTuple

from drivers.gnss.epochs import WEEK_MS, Epoch
from drivers.gnss.receiver import MAX_SPEED_MPS, AntennaDirection, GnssReceiver
from drivers.gnss.solution import Lost, agreeing, diagonal
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import NAN3, NAN9, CarrierSolution, FixType, GnssFix, Message
from vehicled.core.wire.crc import crc32_plain, xor8
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    CheckedFrame,
    CountedFrame,
    FrameCheck,
    Framer,
    Protocol,
    TextLine,
)
from vehicled.core.wire.usage import Unused, UsageProblem

SYNC = b"\xaa\x44\xb5"
_HEAD = Layout("<3sBHHBBHIIBBH")
OVERHEAD_BYTES = _HEAD.size + 4
MAX_CONTENT_BYTES = 8192
"""Longest content accepted; measurements of all signals have 6 kB. Bounds what a damaged length
holds back."""
MAX_LINE_BYTES = 4096
_BEIDOU_WEEK, _BEIDOU_MS = 1356, 14_000
"""Begin of BeiDou time in GPS time."""
_GPS_WEEKS = 1800
"""Weeks below are of BeiDou time until 2040; receivers are newer than GPS week 1800, of 2014."""

SOLUTIONS = {"SOL_COMPUTED": 0, "INSUFFICIENT_OBS": 1, "NO_CONVERGENCE": 2, "COV_TRACE": 4}
TYPES = {
    "NONE": 0, "FIXEDPOS": 1, "FIXEDHEIGHT": 2, "DOPPLER_VELOCITY": 8, "SINGLE": 16, "PSRDIFF": 17,
    "SBAS": 18, "L1_FLOAT": 32, "IONOFREE_FLOAT": 33, "NARROW_FLOAT": 34, "L1_INT": 48,
    "WIDE_INT": 49, "NARROW_INT": 50, "INS": 52, "INS_PSRSP": 53, "INS_PSRDIFF": 54,
    "INS_RTKFLOAT": 55, "INS_RTKFIXED": 56, "PPP_CONVERGING": 68, "PPP": 69,
}  # fmt: skip
_TEXTS: dict[str, dict[str, int]] = {
    "solution": SOLUTIONS,
    "velocity_solution": SOLUTIONS,
    "kind": TYPES,
    "velocity_kind": TYPES,
}


class Stamp(NamedTuple):
    """Head of a log: GPS time; week 0 while it is unknown."""

    week: int
    tow_ms: int
    leap_s: int = 18


class BestNav(NamedTuple):
    """BESTNAV 2118: position and velocity. The altitude is above the sea."""

    solution: int
    kind: int
    latitude_deg: float
    longitude_deg: float
    altitude_m: float
    undulation_m: float
    datum: int
    latitude_sigma_m: float
    longitude_sigma_m: float
    altitude_sigma_m: float
    station: bytes
    correction_age_s: float
    solution_age_s: float
    tracked: int
    satellites: int
    reserved_1: int
    reserved_2: int
    reserved_3: int
    extended: int
    galileo_beidou: int
    gps_glonass: int
    velocity_solution: int
    velocity_kind: int
    latency_s: float
    velocity_age_s: float
    speed_mps: float
    course_deg: float
    up_mps: float
    up_sigma_mps: float
    speed_sigma_mps: float


class UniHeading(NamedTuple):
    """UNIHEADING 972 of two antennas, UNIHEADING2 1331 of a moving base: vector from the main
    antenna to the second one."""

    solution: int
    kind: int
    length_m: float
    heading_deg: float
    pitch_deg: float
    reserved: float
    heading_sigma_deg: float
    pitch_sigma_deg: float
    station: bytes
    tracked: int
    satellites: int
    above_mask: int
    dual_frequency: int
    reserved_2: int
    extended: int
    galileo_beidou: int
    gps_glonass: int


class StaDop(NamedTuple):
    """STADOP 954: dilution of precision of BESTNAV, without the list of satellites."""

    reserved: int
    gdop: float
    pdop: float
    tdop: float
    vdop: float
    hdop: float


Log = BestNav | UniHeading | StaDop


class _LogRow(NamedTuple):
    """One log: type, name, layout."""

    kind: Any
    name: str
    layout: Layout


_ROWS = {
    2118: _LogRow(BestNav, "BESTNAV", Layout("<IIdddfIfff4sffBBBBBBBBIIffdddff")),
    972: _LogRow(UniHeading, "UNIHEADING", Layout("<IIffffff4sBBBBBBBB")),
    1331: _LogRow(UniHeading, "UNIHEADING2", Layout("<IIffffff4sBBBBBBBB")),
    954: _LogRow(StaDop, "STADOP", Layout("<Ifffff")),
}
NAMES = {number: row.name for number, row in _ROWS.items()}
"""Names of the logs that are read, by number."""
OTHER_NAMES = {
    12: "OBSVM",
    37: "VERSION",
    102: "RECTIME",
    1021: "PVTSLN",
    2119: "BESTNAVH",
    2122: "STADOPH",
    11276: "AGRIC",
}
"""Names of common logs that are not read."""
_BY_NAME = {row.name: row for row in _ROWS.values()}


class _TextLog(CheckedFrame):
    """Line ``#NAME,...*hhhhhhhh``."""

    def __init__(self) -> None:
        super().__init__(FrameCheck(crc32_plain))
        # Logs of NovAtel have other heads, with the port behind the name.
        body = rb"#[A-Z0-9]{3,24},\d{1,3},(?:GPS|BDS),[\x20-\x22\x24-\x29\x2b-\x7e]*+"
        digits = rb"[0-9A-Fa-f]"
        begun = rb"#[A-Z0-9]{0,24}(?:,\d{0,3}(?:,[A-Z]{0,3})?)?\Z"
        self._line = re.compile(
            body + rb"(?:(\*" + digits + rb"{8}\r?\n)|\Z|\*" + digits + rb"{0,8}\r?\Z)|" + begun
        )

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        found = self._line.match(buffer, at, min(end, at + MAX_LINE_BYTES))
        if found is None:
            return NO_FRAME
        return (
            found.end() - at if found[1] else INCOMPLETE if end - at < MAX_LINE_BYTES else NO_FRAME
        )

    def valid(self, buffer: bytes | bytearray, at: int, stop: int) -> bool:
        body, _, digits = bytes(buffer[at + 1 : stop]).partition(b"*")
        return self.check.checksum(body) == int(digits, 16)


BINARY, TEXT, NMEA = "binary", "text", "NMEA"
PROTOCOLS = (
    Protocol(
        BINARY,
        SYNC,
        CountedFrame(
            FrameCheck(crc32_plain, tail=4, stored=-4, size=4, order="little"),
            at=6,
            width=2,
            extra=OVERHEAD_BYTES,
            most=MAX_CONTENT_BYTES,
        ),
    ),
    Protocol(TEXT, b"#", _TextLog()),
    Protocol(NMEA, b"$", TextLine(MAX_LINE_BYTES)),
)


def name_of(protocol: str, frame: bytes) -> str:
    """Return the name of a log, without the A of text; ``UNI 1234`` of a number without one
    here."""
    if protocol == BINARY:
        number = int.from_bytes(frame[4:6], "little")
        return NAMES.get(number) or OTHER_NAMES.get(number) or f"UNI {number}"
    name = re.split(rb"[,;*]", frame[1:], maxsplit=1)[0].decode("ascii")
    return name.removesuffix("A") if protocol == TEXT else name


def read(protocol: str, frame: bytes) -> tuple[Stamp, Log] | None:
    """Return stamp and content of a valid log; None for others, and for one whose fields do not
    fit."""
    row = _BY_NAME.get(name_of(protocol, frame))
    if row is None:
        return None
    if protocol == BINARY:
        _, _, _, size, _, _, week, ms, _, _, leap_s, _ = _HEAD.unpack_from(frame)
        if size < row.layout.size:
            return None
        return _gps_time(week, ms, leap_s), row.kind(*row.layout.unpack_from(frame, _HEAD.size))
    head, _, body = frame[1:].partition(b"*")[0].decode("ascii").partition(";")
    stamp, texts = head.split(","), [text.strip().strip('"') for text in body.split(",")]
    names = row.kind._fields
    if len(stamp) < 9 or len(texts) < len(names):
        return None
    try:
        values = [_value(row, name, text) for name, text in zip(names, texts)]
        return _gps_time(int(stamp[4]), int(stamp[5]), int(stamp[8])), row.kind(*values)
    except (KeyError, ValueError):
        # Another family writes other heads under the same names.
        return None


def _value(row: _LogRow, name: str, text: str) -> Any:
    if name in _TEXTS:
        return _TEXTS[name][text]
    if name == "station":
        return text.encode("ascii").ljust(4, b"\0")[:4]
    if name == "datum":
        return 61 if text == "WGS84" else 0
    if name in ("extended", "galileo_beidou", "gps_glonass"):
        return int(text, 16)
    return float(text) if row.kind.__annotations__[name] is float else int(text)


def _gps_time(week: int, ms: int, leap_s: int) -> Stamp:
    if 0 < week < _GPS_WEEKS:
        total_ms = (week + _BEIDOU_WEEK) * WEEK_MS + ms + _BEIDOU_MS
        week, ms = divmod(total_ms, WEEK_MS)
    return Stamp(week, ms, leap_s)


def encode(stamp: Stamp, log: Log, name: str = "") -> bytes:
    """Return the binary frame of a log; ``name`` distinguishes logs of one layout. Raises
    struct.error for values out of range."""
    number, row = next(
        (number, row)
        for number, row in _ROWS.items()
        if row.kind is type(log) and name in ("", row.name)
    )
    return frame_of(number, stamp, row.layout.pack(*log))


def frame_of(number: int, stamp: Stamp, body: bytes) -> bytes:
    """Return a binary frame of any number."""
    covered = (
        _HEAD.pack(
            SYNC, 90, number, len(body), 0, 160, stamp.week, stamp.tow_ms, 0, 0, stamp.leap_s, 10
        )
        + body
    )
    return covered + crc32_plain(covered).to_bytes(4, "little")


def encode_text(stamp: Stamp, log: Log, name: str = "") -> bytes:
    """Return the line of a log."""
    row = next(row for row in _ROWS.values() if row.kind is type(log) and name in ("", row.name))
    words = {key: {number: text for text, number in table.items()} for key, table in _TEXTS.items()}
    texts = [_text(row, words, key, value) for key, value in zip(log._fields, log)]
    return text_line(
        f"{row.name}A,90,GPS,FINE,{stamp.week},{stamp.tow_ms},0,0,{stamp.leap_s},10;{','.join(texts)}"
    )


def _text(row: _LogRow, words: dict[str, dict[int, str]], name: str, value: Any) -> str:
    if name in words:
        return words[name][value]
    if name == "station":
        return '"{}"'.format(value.rstrip(b"\0").decode("ascii"))
    if name == "datum":
        return "WGS84"
    if name in ("extended", "galileo_beidou", "gps_glonass"):
        return f"{value:02x}"
    return f"{value:.11f}" if row.kind.__annotations__[name] is float else str(value)


def text_line(body: str) -> bytes:
    """Return a line with its checksum."""
    return b"#%s*%08x\r\n" % (body.encode("ascii"), crc32_plain(body.encode("ascii")))


def answer(command: str, response: str = "OK") -> bytes:
    """Return the answer of the receiver to a command."""
    body = f"command,{command},response: {response}".encode("ascii")
    return b"$%s*%02X\r\n" % (body, xor8(body))


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the logs of a recording; others as (name, frame)."""
    framer = Framer(PROTOCOLS[:2], MAX_CONTENT_BYTES + OVERHEAD_BYTES + 1)
    for protocol, frame in (*framer.feed(data), *framer.flush()):
        found = read(protocol, frame)
        yield name_of(protocol, frame), frame if found is None else found[1]


# ---------------------------------------------------------------- meaning

_FLOAT, _FIXED = CarrierSolution.FLOAT, CarrierSolution.FIXED
_MEANINGS: dict[int, tuple[CarrierSolution, bool]] = {
    16: (CarrierSolution.NONE, False), 17: (CarrierSolution.NONE, True),
    18: (CarrierSolution.NONE, True), 32: (_FLOAT, True), 33: (_FLOAT, True), 34: (_FLOAT, True),
    48: (_FIXED, True), 49: (_FLOAT, True), 50: (_FIXED, True), 52: (CarrierSolution.NONE, False),
    53: (CarrierSolution.NONE, False), 54: (CarrierSolution.NONE, True), 55: (_FLOAT, True),
    56: (_FIXED, True), 68: (CarrierSolution.NONE, True), 69: (CarrierSolution.NONE, True),
}  # fmt: skip
"""Carrier solution, and whether corrections improve the position, by its type. A wide-lane solution
is good to decimetres."""
_MANUAL, _INERTIAL = 1, 52


def position_problem(nav: BestNav) -> UsageProblem | None:
    """Return why BESTNAV gives no position."""
    if nav.solution or nav.kind == 0:
        return UsageProblem(Unused.NO_SOLUTION)
    if nav.kind == _MANUAL:
        return UsageProblem(Unused.MANUAL)
    if nav.kind not in _MEANINGS:
        return UsageProblem(Unused.UNKNOWN_STATE, "type", nav.kind)
    if not (
        abs(nav.latitude_deg) <= 90.0
        and abs(nav.longitude_deg) <= 180.0
        and abs(nav.altitude_m + nav.undulation_m) <= 1e5
    ):
        return UsageProblem(Unused.OUT_OF_RANGE, "position")
    if nav.latitude_deg == 0.0 == nav.longitude_deg:
        return UsageProblem(Unused.ALL_ZERO, "position")
    return None


def _variance(sigma: float) -> float:
    return sigma * sigma if sigma > 0.0 else nan


class UnicoreDevice(GnssReceiver):
    """Driver of a UM980, UM982 or other receiver of the N4 protocol. The UM982 gives the heading of
    two antennas."""

    name = "unicore"
    protocols: ClassVar[tuple[Protocol, ...]] = PROTOCOLS
    longest_frame = MAX_CONTENT_BYTES + OVERHEAD_BYTES + 1
    anchors = ("BESTNAV", "UNIHEADING")
    of_attitude = frozenset(("UNIHEADING",))
    ends = frozenset()

    def fix_of(self, epoch: Epoch, lost: Lost) -> GnssFix:
        stamp, nav = epoch.parts["BESTNAV"]
        dop: StaDop | None = epoch.parts["STADOP"][1] if "STADOP" in epoch.parts else None
        when = self.utc_ns(stamp.week or None, stamp.tow_ms)
        if position_problem(nav) is not None:
            return GnssFix(
                epoch.t_ns, epoch.last_rx_ns, nan, nan, nan, satellites=nav.satellites, utc_ns=when
            )
        carrier, corrected = _MEANINGS[nav.kind]
        position = diagonal(
            *map(_variance, (nav.longitude_sigma_m, nav.latitude_sigma_m, nav.altitude_sigma_m))
        )
        velocity, velocity_covariance = NAN3, NAN9
        if (
            nav.velocity_solution == 0
            and nav.velocity_kind
            and max(abs(nav.speed_mps), abs(nav.up_mps)) <= MAX_SPEED_MPS
        ):
            course = radians(nav.course_deg)
            velocity = (nav.speed_mps * sin(course), nav.speed_mps * cos(course), nav.up_mps)
            flat = _variance(nav.speed_sigma_mps)
            velocity_covariance = diagonal(flat, flat, _variance(nav.up_sigma_mps))
        return GnssFix(
            epoch.t_ns,
            epoch.last_rx_ns,
            radians(nav.latitude_deg),
            radians(nav.longitude_deg),
            nav.altitude_m + nav.undulation_m,
            velocity,
            position if isfinite(sum(position)) else NAN9,
            velocity_covariance if isfinite(sum(velocity_covariance)) else NAN9,
            FixType.DEAD_RECKONING if nav.kind == _INERTIAL else FixType.FIX_3D,
            agreeing("BESTNAV", carrier, position, lost),
            corrected,
            nav.correction_age_s if corrected else nan,
            nav.satellites,
            dop.hdop if dop is not None and dop.hdop > 0.0 else nan,
            dop.vdop if dop is not None and dop.vdop > 0.0 else nan,
            when,
        )

    def direction_of(self, epoch: Epoch) -> AntennaDirection | UsageProblem:
        _, vector = epoch.parts["UNIHEADING"]
        if vector.solution or vector.kind == 0:
            return UsageProblem(Unused.NO_SOLUTION)
        carrier, _ = _MEANINGS.get(vector.kind, (CarrierSolution.NONE, False))
        if carrier is CarrierSolution.NONE:
            return UsageProblem(Unused.NOT_FIXED)
        return AntennaDirection(
            vector.heading_deg,
            radians(vector.heading_sigma_deg),
            vector.length_m,
            carrier is _FIXED,
        )

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        name = name_of(protocol, frame)
        if protocol == NMEA:
            text = frame[1:].partition(b"*")[0].decode("ascii")
            if name == "command":
                self.replies.append(text)
            else:
                self.usage.refuse(name, Unused.OTHER_PROTOCOL)
            return
        if name == "VERSION" and protocol == TEXT:
            self.replies.append(frame.partition(b"*")[0].decode("ascii"))
            self.usage.use(name)
            return
        found = read(protocol, frame)
        if found is None:
            known = name in _BY_NAME
            self.usage.refuse(
                name, *((Unused.UNREADABLE, "content", len(frame)) if known else (Unused.NOT_READ,))
            )
            return
        stamp, log = found
        if not stamp.week:
            self.account(name, UsageProblem(Unused.NO_TIME))
            return
        self.leap_s = stamp.leap_s or None
        problem = position_problem(log) if isinstance(log, BestNav) else None
        self.take(
            "UNIHEADING" if isinstance(log, UniHeading) else name,
            stamp.tow_ms,
            found,
            t_rx_ns,
            messages,
            problem,
        )

    def script(self) -> Script:
        """Read the model, then switch the logs on at this port. Nothing is saved in the
        receiver."""
        version = yield SetUpRequest("report its model", b"VERSIONA\r\n", version_of, optional=True)
        period = f"{1.0 / self.params.rate_hz:g}"
        logs = ["BESTNAVB", "STADOPB", *(["UNIHEADINGB"] if self.wants_heading else [])]
        for command in ("UNLOG", *(f"{log} {period}" for log in logs)):
            done = yield SetUpRequest(command, command.encode() + b"\r\n", judge_of(command))
            if isinstance(done, Refusal):
                raise ConfigurationError(f"the receiver refuses {command}: {done.reason}")
        return {"model": version or "unknown", "logs": logs, "rate_hz": self.params.rate_hz}


def version_of(reply: str) -> str | None:
    """Return model and firmware of a VERSION log."""
    if not reply.startswith("#VERSION"):
        return None
    return " ".join(re.findall(r'"([^"]*)"', reply.partition(";")[2])[:2]) or None


def judge_of(command: str) -> Callable[[str], bool | Refusal | None]:
    """Return a judge for the answer to ``command``."""

    def judge(reply: str) -> bool | Refusal | None:
        head = f"command,{command},response: "
        if not reply.startswith(head):
            return None
        return True if reply[len(head) :] == "OK" else Refusal(reply[len(head) :])

    return judge
