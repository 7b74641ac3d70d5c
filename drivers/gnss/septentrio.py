"""Septentrio mosaic, AsteRx and PolaRx: SBF blocks in both directions, commands in text, and the
driver. Sources: NOTES.md.

``$@ | CRC u16 | number u16 | length u16 | TOW u32 ms | WNc u16 | ...``, all little-endian. The
CRC-16/XMODEM covers everything behind it; the number holds the revision in its three highest bits,
and the length, of the whole block, is a multiple of four.
"""

from collections.abc import Callable, Iterator
from math import hypot, isfinite, nan, pi, radians, sqrt
from struct import Struct as Layout
from struct import error as LayoutError
from typing import Any, ClassVar, NamedTuple

from drivers.gnss.epochs import Epoch
from drivers.gnss.receiver import MAX_SPEED_MPS, AntennaDirection, GnssReceiver, TextShape
from drivers.gnss.solution import Lost, agreeing, diagonal, enu
from drivers.set_up import ConfigurationError, Refusal, Script, SetUpRequest
from vehicled.core.messages import NAN3, NAN9, CarrierSolution, FixType, GnssFix, Message, Reaction
from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.framing import (
    NO_FRAME,
    CountedFrame,
    FrameCheck,
    Framer,
    Protocol,
    TextLine,
)
from vehicled.core.wire.usage import Unused, UsageProblem

HEAD_BYTES = 8
MAX_BLOCK_BYTES = 8192
"""Longest block accepted; measurements of all signals have 5 kB. Bounds what a damaged length holds
back."""
MAX_LINE_BYTES = 1024
UNKNOWN_U8, UNKNOWN_U16, UNKNOWN_U32, UNKNOWN = 0xFF, 0xFFFF, 0xFFFF_FFFF, -2e10
"""Do-not-use values of counters, lengths, times and floats."""


class PvtGeodetic(NamedTuple):
    """Block 4007: position and velocity. Bits 0-3 of ``mode``: type; 6: a base determines its
    place; 7: 2D."""

    tow_ms: int
    week: int
    mode: int
    error: int
    latitude_rad: float
    longitude_rad: float
    height_m: float
    undulation_m: float
    north_mps: float
    east_mps: float
    up_mps: float
    course_deg: float
    clock_bias_ms: float
    clock_drift_ppm: float
    time_system: int
    datum: int
    satellites: int
    correction_flags: int
    station: int
    correction_age_cs: int
    signals: int
    alerts: int
    bases: int = 0
    ppp: int = 0
    latency_e4: int = UNKNOWN_U16
    horizontal_2drms_cm: int = UNKNOWN_U16
    vertical_2sigma_cm: int = UNKNOWN_U16


class CovGeodetic(NamedTuple):
    """Block 5906 of the position, m2, and 5908 of the velocity, m2/s2: north, east, up, clock."""

    tow_ms: int
    week: int
    mode: int
    error: int
    nn: float
    ee: float
    uu: float
    bb: float
    ne: float
    nu: float
    nb: float
    eu: float
    eb: float
    ub: float


class VelCovGeodetic(CovGeodetic):
    """Block 5908."""


class Dop(NamedTuple):
    """Block 4001: dilution of precision, 0.01; 0 for unknown."""

    tow_ms: int
    week: int
    satellites: int
    reserved: int
    pdop: int
    tdop: int
    hdop: int
    vdop: int
    hpl_m: float = UNKNOWN
    vpl_m: float = UNKNOWN


class AttEuler(NamedTuple):
    """Block 5938: attitude, degrees, of the line from the main antenna to the first auxiliary
    one."""

    tow_ms: int
    week: int
    satellites: int
    error: int
    mode: int
    reserved: int
    heading_deg: float
    pitch_deg: float
    roll_deg: float
    pitch_rate: float = UNKNOWN
    roll_rate: float = UNKNOWN
    heading_rate: float = UNKNOWN


class AttCovEuler(NamedTuple):
    """Block 5939: covariance of the attitude, degrees squared."""

    tow_ms: int
    week: int
    reserved: int
    error: int
    heading: float
    pitch: float
    roll: float
    heading_pitch: float = UNKNOWN
    heading_roll: float = UNKNOWN
    pitch_roll: float = UNKNOWN


class ReceiverTime(NamedTuple):
    """Block 5914: UTC, -128 for unknown, and GPS time minus UTC. Bits 0-2 of ``sync``: week, time
    of week, fine time."""

    tow_ms: int
    week: int
    year: int
    month: int
    day: int
    hour: int
    minute: int
    second: int
    leap_s: int
    sync: int


class EndOfPvt(NamedTuple):
    """Block 5921: end of the blocks of one position."""

    tow_ms: int
    week: int


class EndOfAtt(NamedTuple):
    """Block 5943: end of the blocks of one attitude."""

    tow_ms: int
    week: int


class AuxAntPositions(NamedTuple):
    """Block 5942: vectors from the main antenna to the auxiliary ones."""

    tow_ms: int
    week: int
    antennas: tuple["AuxAntenna", ...] = ()


class AuxAntenna(NamedTuple):
    """Vector to one auxiliary antenna. ``ambiguity``: 0 fixed, 1 float."""

    satellites: int
    error: int
    ambiguity: int
    number: int
    east_m: float
    north_m: float
    up_m: float
    east_mps: float = UNKNOWN
    north_mps: float = UNKNOWN
    up_mps: float = UNKNOWN


class RfStatus(NamedTuple):
    """Block 4092: interference. Bits of ``flags``: 0 false signals, 1 false navigation messages."""

    tow_ms: int
    week: int
    flags: int = 0
    bands: tuple["RfBand", ...] = ()


class RfBand(NamedTuple):
    """Band with interference. Bits 0-3 of ``info``: 1 suppressed by hand, 2 mitigated, 8 not
    mitigated; 6-7: antenna."""

    frequency_hz: int
    bandwidth_khz: int
    info: int


Block = (
    PvtGeodetic | CovGeodetic | Dop | AttEuler | AttCovEuler | ReceiverTime | EndOfPvt | EndOfAtt
    | AuxAntPositions | RfStatus
)  # fmt: skip


class _SbfRow(NamedTuple):
    """One block: name, fields of its first revision, and those that the later revisions added."""

    kind: Any
    name: str
    first: str
    later: tuple[str, ...] = ()
    part: Any = None
    part_layout: str = ""


_ROWS = {
    4001: _SbfRow(Dop, "DOP", "IHBBHHHHff"),
    4007: _SbfRow(PvtGeodetic, "PVTGeodetic", "IHBBdddfffffdfBBBBHHIB", ("BH", "HHH")),
    4092: _SbfRow(RfStatus, "RFStatus", "IHBBB3x", part=RfBand, part_layout="IHB"),
    5906: _SbfRow(CovGeodetic, "PosCovGeodetic", "IHBB10f"),
    5908: _SbfRow(VelCovGeodetic, "VelCovGeodetic", "IHBB10f"),
    5914: _SbfRow(ReceiverTime, "ReceiverTime", "IH7bB"),
    5921: _SbfRow(EndOfPvt, "EndOfPVT", "IH"),
    5938: _SbfRow(AttEuler, "AttEuler", "IHBBHH6f"),
    5939: _SbfRow(AttCovEuler, "AttCovEuler", "IHBB6f"),
    5942: _SbfRow(
        AuxAntPositions, "AuxAntPositions", "IHBB", part=AuxAntenna, part_layout="BBBB6d"
    ),
    5943: _SbfRow(EndOfAtt, "EndOfAtt", "IH"),
}
NAMES = {number: row.name for number, row in _ROWS.items()}
"""Names of the blocks that are read, by number."""
OTHER_NAMES = {
    4006: "PVTCartesian", 4014: "ReceiverStatus", 4027: "MeasEpoch", 4082: "QualityInd",
    4226: "INSNavGeod", 5902: "ReceiverSetup", 5905: "PosCovCartesian", 5907: "VelCovCartesian",
    4043: "BaseVectorCart", 4028: "BaseVectorGeod", 4013: "ChannelStatus",
}  # fmt: skip
"""Names of common blocks that are not read."""
_NUMBERS = {row.kind: number for number, row in _ROWS.items()}
_LAYOUTS = {
    number: [
        Layout("<" + row.first + "".join(row.later[:count])) for count in range(len(row.later) + 1)
    ]
    for number, row in _ROWS.items()
}
_PARTS = {number: Layout("<" + row.part_layout) for number, row in _ROWS.items() if row.part}


class _SbfFrame(CountedFrame):
    """Frame whose length is a multiple of four."""

    def __init__(self) -> None:
        check = FrameCheck(crc16_xmodem, first=4, stored=2, size=2, order="little")
        super().__init__(check, at=6, width=2, least=HEAD_BYTES, most=MAX_BLOCK_BYTES)

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        size = super().length(buffer, at, end)
        return NO_FRAME if size > 0 and size & 3 else size


SBF, ANSWER, PROMPT, NMEA = "SBF", "answer", "prompt", "NMEA"
_TEXT = rb"\$R[:?;!][\x20-\x7e]*+"
PROTOCOLS = (
    # The first line of the answer to a command, $R: ... or $R? ..., and the prompt behind it, such
    # as COM1>.
    Protocol(SBF, b"$@", _SbfFrame()),
    Protocol(ANSWER, b"$R", TextShape(_TEXT + rb"\r?\n", rb"(?:\$R|" + _TEXT + rb"\r?)\Z")),
    *(
        Protocol(PROMPT, name, TextShape(name + digits + rb">", name + rb"[0-9]{0,2}\Z"))
        for name, digits in ((b"COM", rb"\d"), (b"USB", rb"\d"), (b"IP", rb"\d\d"))
    ),
    Protocol(NMEA, b"$", TextLine(MAX_LINE_BYTES)),
)


def read(frame: bytes) -> Block | None:
    """Return the content of a valid block; None for others, and for one that is too short."""
    number, revision = int.from_bytes(frame[4:6], "little") & 0x1FFF, frame[5] >> 5
    row = _ROWS.get(number)
    if row is None:
        return None
    layouts, body = _LAYOUTS[number], frame[HEAD_BYTES:]
    try:
        if row.part is None:
            values = layouts[min(revision, len(layouts) - 1)].unpack_from(body)
        else:
            tow_ms, week, count, size, *rest = layouts[0].unpack_from(body)
            part, at = _PARTS[number], layouts[0].size
            if count and size < part.size:
                return None
            parts = tuple(row.part(*part.unpack_from(body, at + size * i)) for i in range(count))
            values = (tow_ms, week, *rest, parts)
    except LayoutError:
        return None
    found: Block = row.kind(*values)
    return found


def encode(block: Block, revision: int | None = None) -> bytes:
    """Return the frame of a block, of the newest revision if none is named. Raises ValueError for
    values that do not fit."""
    number = _NUMBERS[type(block)]
    row, layouts = _ROWS[number], _LAYOUTS[number]
    revision = len(layouts) - 1 if revision is None else revision
    try:
        if row.part is None:
            layout = layouts[revision]
            body = layout.pack(*block[: len(layout.unpack(bytes(layout.size)))])
        else:
            values: tuple[Any, ...] = block
            tow_ms, week, *rest, parts = values
            part = _PARTS[number]
            size = -(-part.size // 4) * 4
            body = layouts[0].pack(tow_ms, week, len(parts), size, *rest)
            body += b"".join(part.pack(*each).ljust(size, b"\0") for each in parts)
    except (LayoutError, IndexError) as error:
        raise ValueError(f"{block} is no block {row.name}: {error}") from error
    return frame_of(number | revision << 13, body)


def frame_of(number: int, body: bytes) -> bytes:
    """Return a frame of any number, padded."""
    body += bytes(-len(body) % 4)
    covered = number.to_bytes(2, "little") + (len(body) + HEAD_BYTES).to_bytes(2, "little") + body
    return b"$@" + crc16_xmodem(covered).to_bytes(2, "little") + covered


def name_of(frame: bytes) -> str:
    """Return the name of a block; ``SBF 4027`` without one here."""
    number = int.from_bytes(frame[4:6], "little") & 0x1FFF
    return NAMES.get(number) or OTHER_NAMES.get(number) or f"SBF {number}"


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the blocks of a recording; others as ("SBF 4027", frame)."""
    framer = Framer(PROTOCOLS[:1], MAX_BLOCK_BYTES + 1)
    for _, frame in (*framer.feed(data), *framer.flush()):
        content = read(frame)
        yield name_of(frame), frame if content is None else content


# ---------------------------------------------------------------- meaning

_TYPES = {1: False, 2: True, 4: True, 5: True, 6: True, 7: False, 8: False, 10: True}
"""Types of a position, and whether corrections improve it. One from a moving base is as good as
that base."""
_CARRIERS = {4: CarrierSolution.FIXED, 5: CarrierSolution.FLOAT}
_NO_PVT, _FIXED_PLACE, _BASE, _TWO_D = 0, 3, 1 << 6, 1 << 7
_ERRORS = (
    "none", "too few measurements", "too few ephemerides", "dilution above 15",
    "residuals too large", "no convergence", "too few measurements without outliers",
    "forbidden by export laws", "too few corrections", "place of the base unknown",
    "not fixed, as only fixed positions are wanted",
)  # fmt: skip
_ATTITUDES = {1: False, 2: True, 3: False, 4: True}
"""Modes of an attitude, and whether its ambiguities are fixed."""
_NOT_REQUESTED = 1 << 7


def position_problem(pvt: PvtGeodetic) -> UsageProblem | None:
    """Return why PVTGeodetic gives no position."""
    kind = pvt.mode & 0xF
    if pvt.error or kind == _NO_PVT:
        known = pvt.error < len(_ERRORS)
        return UsageProblem(
            Unused.NO_SOLUTION, "", _ERRORS[pvt.error] if known else f"error {pvt.error}"
        )
    if kind == _FIXED_PLACE or pvt.mode & _BASE:
        return UsageProblem(Unused.MANUAL)
    if kind not in _TYPES:
        return UsageProblem(Unused.UNKNOWN_STATE, "type", kind)
    if not (abs(pvt.latitude_rad) <= pi / 2 and abs(pvt.longitude_rad) <= pi):
        return UsageProblem(Unused.OUT_OF_RANGE, "position")
    if pvt.latitude_rad == 0.0 == pvt.longitude_rad:
        return UsageProblem(Unused.ALL_ZERO, "position")
    return None


def _known(value: float, limit: float) -> float:
    return value if abs(value) <= limit else nan


def _covariance(
    kind: str, name: str, block: CovGeodetic | None, otherwise: tuple[float, ...], lost: Lost
) -> tuple[float, ...]:
    if block is None or block.error:
        return otherwise
    return enu(
        kind, name, (block.nn, block.ne, -block.nu, block.ee, -block.eu, block.uu), otherwise, lost
    )


def _fix(epoch: Epoch, lost: Lost, utc_ns: Callable[[int | None, int], int]) -> GnssFix:
    pvt: PvtGeodetic = epoch.parts["PVTGeodetic"]
    dop: Dop | None = epoch.parts.get("DOP")
    satellites = 0 if pvt.satellites == UNKNOWN_U8 else pvt.satellites
    when = utc_ns(None if pvt.week == UNKNOWN_U16 else pvt.week, pvt.tow_ms)
    if position_problem(pvt) is not None:
        return GnssFix(
            epoch.t_ns, epoch.last_rx_ns, nan, nan, nan, satellites=satellites, utc_ns=when
        )
    kind = pvt.mode & 0xF
    height_m = _known(pvt.height_m, 1e5)
    if not isfinite(height_m):
        lost.append(
            ("PVTGeodetic", UsageProblem(Unused.OUT_OF_RANGE, "height", f"{pvt.height_m:.0f} m"))
        )
    position = NAN9
    if (
        UNKNOWN_U16 not in (pvt.horizontal_2drms_cm, pvt.vertical_2sigma_cm)
        and pvt.horizontal_2drms_cm
    ):
        # Twice the error of both axes together, and twice that of the height.
        axis_m2 = (pvt.horizontal_2drms_cm * 0.005) ** 2 / 2
        position = diagonal(axis_m2, axis_m2, (pvt.vertical_2sigma_cm * 0.005) ** 2)
    position = _covariance(
        "PosCovGeodetic", "position", epoch.parts.get("PosCovGeodetic"), position, lost
    )
    velocity, velocity_covariance = NAN3, NAN9
    if max(map(abs, (pvt.east_mps, pvt.north_mps, pvt.up_mps))) <= MAX_SPEED_MPS:
        velocity = pvt.east_mps, pvt.north_mps, pvt.up_mps
        velocity_covariance = _covariance(
            "VelCovGeodetic", "velocity", epoch.parts.get("VelCovGeodetic"), NAN9, lost
        )
    elif pvt.north_mps > UNKNOWN:
        lost.append(("PVTGeodetic", UsageProblem(Unused.OUT_OF_RANGE, "velocity")))
    corrected = _TYPES[kind]
    age_s = (
        pvt.correction_age_cs * 1e-2 if corrected and pvt.correction_age_cs != UNKNOWN_U16 else nan
    )
    return GnssFix(
        epoch.t_ns,
        epoch.last_rx_ns,
        pvt.latitude_rad,
        pvt.longitude_rad,
        height_m,
        velocity,
        position,
        velocity_covariance,
        FixType.FIX_2D if pvt.mode & _TWO_D else FixType.FIX_3D,
        agreeing("PVTGeodetic", _CARRIERS.get(kind, CarrierSolution.NONE), position, lost),
        corrected,
        age_s,
        satellites,
        dop.hdop * 1e-2 if dop is not None and dop.hdop else nan,
        dop.vdop * 1e-2 if dop is not None and dop.vdop else nan,
        when,
    )


def _direction(epoch: Epoch) -> AntennaDirection | UsageProblem:
    attitude: AttEuler = epoch.parts["AttEuler"]
    if attitude.error & _NOT_REQUESTED:
        return UsageProblem(Unused.INVALID, "attitude not requested")
    if attitude.error & 3 or attitude.mode == 0:
        return UsageProblem(Unused.NO_SOLUTION)
    if attitude.mode not in _ATTITUDES:
        return UsageProblem(Unused.UNKNOWN_STATE, "mode", attitude.mode)
    covariance: AttCovEuler | None = epoch.parts.get("AttCovEuler")
    known = covariance is not None and not covariance.error & 3 and covariance.heading > 0.0
    sigma_rad = radians(sqrt(covariance.heading)) if covariance is not None and known else nan
    vectors: AuxAntPositions | None = epoch.parts.get("AuxAntPositions")
    first = (
        [each for each in vectors.antennas if each.number == 1 and not each.error]
        if vectors is not None
        else []
    )
    length_m = hypot(first[0].east_m, first[0].north_m, first[0].up_m) if first else nan
    return AntennaDirection(attitude.heading_deg, sigma_rad, length_m, _ATTITUDES[attitude.mode])


class SeptentrioDevice(GnssReceiver):
    """Driver of a Septentrio receiver on a serial port, USB or TCP. Two antennas give the
    heading."""

    name = "septentrio"
    protocols: ClassVar[tuple[Protocol, ...]] = PROTOCOLS
    longest_frame = MAX_BLOCK_BYTES + 1
    anchors = ("PVTGeodetic", "AttEuler")
    of_attitude = frozenset(("AttEuler", "AttCovEuler", "AuxAntPositions", "EndOfAtt"))
    ends = frozenset(("EndOfPVT", "EndOfAtt"))

    def fix_of(self, epoch: Epoch, lost: Lost) -> GnssFix:
        return _fix(epoch, lost, self.utc_ns)

    def direction_of(self, epoch: Epoch) -> AntennaDirection | UsageProblem:
        return _direction(epoch)

    def _on_frame(self, protocol: str, frame: bytes, t_rx_ns: int, messages: list[Message]) -> None:
        if protocol in (ANSWER, PROMPT):
            self.replies.append(frame.decode("ascii").rstrip())
            return
        if protocol == NMEA:
            self.usage.refuse("NMEA", Unused.OTHER_PROTOCOL)
            return
        name, block = name_of(frame), read(frame)
        if block is None:
            short = name in NAMES.values()
            self.usage.refuse(
                name, *((Unused.UNREADABLE, "length", len(frame)) if short else (Unused.NOT_READ,))
            )
        elif block.tow_ms >= UNKNOWN_U32:
            self.account(name, UsageProblem(Unused.NO_TIME))
        elif isinstance(block, ReceiverTime):
            self.leap_s = block.leap_s if block.leap_s != -128 and block.sync & 3 == 3 else None
            self.account(name, None if self.leap_s is not None else UsageProblem(Unused.NO_TIME))
        elif isinstance(block, RfStatus):
            self._on_interference(block, t_rx_ns, messages)
            self.account(name, None)
        else:
            problem = position_problem(block) if isinstance(block, PvtGeodetic) else None
            self.take(name, block.tow_ms, block, t_rx_ns, messages, problem)

    def _on_interference(self, block: RfStatus, t_rx_ns: int, messages: list[Message]) -> None:
        modes = {band.info & 0xF for band in block.bands}
        reason = (
            "interference that is not mitigated"
            if 8 in modes
            else "interference, mitigated"
            if 2 in modes
            else ""
        )
        messages += self.jamming.set(reason, t_rx_ns)
        kinds = [
            kind
            for bit, kind in ((1, "false signals"), (2, "false navigation messages"))
            if block.flags & bit
        ]
        messages += self.spoofing.set(" and ".join(kinds), t_rx_ns, Reaction.CAP_SPEED)

    def script(self) -> Script:
        """Learn the name of the port, then switch the blocks on. Nothing is saved in the
        receiver."""
        # The letters end the input of corrections; in command mode they are a wrong command, which
        # the prompt follows, too.
        port = yield SetUpRequest("name its port", b"\rSSSSSSSSSS\r\r", prompt)
        blocks = "PVTGeodetic+PosCovGeodetic+VelCovGeodetic+DOP+EndOfPVT"
        commands = [f"setDataInOut, {port}, auto, SBF"]
        if self.wants_heading:
            commands.append("setGNSSAttitude, MultiAntenna")
            blocks += "+AttEuler+AttCovEuler+AuxAntPositions+EndOfAtt"
        commands += [
            f"setSBFOutput, Stream1, {port}, {blocks}, {interval(self.params.rate_hz)}",
            f"setSBFOutput, Stream2, {port}, ReceiverTime+RFStatus, sec1",
        ]
        for command in commands:
            done = yield SetUpRequest(command, command.encode() + b"\r", answer_to(command))
            if isinstance(done, Refusal):
                raise ConfigurationError(f"the receiver refuses {command}: {done.reason}")
        return {"port": port, "blocks": blocks, "rate_hz": self.params.rate_hz}


INTERVALS = {
    50.0: "msec20", 25.0: "msec40", 20.0: "msec50", 10.0: "msec100", 5.0: "msec200", 2.0: "msec500",
    1.0: "sec1", 0.5: "sec2", 0.2: "sec5",
}  # fmt: skip
"""Names of the intervals of an output by rate."""


def interval(rate_hz: float) -> str:
    """Return the interval with the nearest rate."""
    return INTERVALS[min(INTERVALS, key=lambda each: abs(each - rate_hz))]


def prompt(reply: str) -> str | None:
    """Return the name of the port that a prompt shows."""
    return reply[:-1] if reply.endswith(">") and not reply.startswith("$") else None


def answer_to(command: str) -> Callable[[str], bool | Refusal | None]:
    """Return a judge for the answer to ``command``: its copy, or why it is refused."""

    def judge(reply: str) -> bool | Refusal | None:
        if reply == f"$R: {command}":
            return True
        return (
            Refusal(reply[3:].strip()) if reply.startswith(f"$R? {command.split(',')[0]}") else None
        )

    return judge
