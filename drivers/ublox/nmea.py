"""NMEA 0183 sentences of a receiver: GGA, GNS, RMC, ZDA, GST, GSA, VTG, THS, in both directions.

pynmeagps parses the fields of framed lines. It returns empty strings for blank fields and raises undocumented errors, so use
:func:`parse`, which gives NaN or None for blank fields and ValueError for unreadable ones.
"""

from datetime import date, time
from math import isfinite, nan
from typing import Any, NamedTuple

from pynmeagps import NMEAReader

from vehicled.wire.crc import xor8

DAY_MS = 86_400_000


class Gga(NamedTuple):
    """Position of one epoch."""

    talker: str
    time_ms: int | None
    """UTC since midnight, ms."""
    latitude_deg: float
    longitude_deg: float
    quality: int
    """Quality: 0 none, 1 autonomous, 2 differential, 4 RTK fixed, 5 RTK float, 6 dead reckoning."""
    satellites: int
    hdop: float
    altitude_msl_m: float
    geoid_separation_m: float
    correction_age_s: float = nan
    station: int = 0


class Gns(NamedTuple):
    """Position of one epoch, from receivers that use several constellations and send no GGA."""

    talker: str
    time_ms: int | None
    latitude_deg: float
    longitude_deg: float
    modes: str
    """Mode letter per constellation: N none, A autonomous, D differential, P precise, R RTK fixed, F RTK float, E dead
    reckoning."""
    satellites: int
    hdop: float
    altitude_msl_m: float
    geoid_separation_m: float
    correction_age_s: float = nan
    station: int = 0

    @property
    def quality(self) -> int:
        """Quality as in GGA, from the best constellation."""
        return next((quality for letter, quality in _GNS_QUALITIES if letter in self.modes), 0)


_GNS_QUALITIES = (("R", 4), ("F", 5), ("P", 2), ("D", 2), ("A", 1), ("E", 6))


class Zda(NamedTuple):
    """Time and date."""

    talker: str
    time_ms: int | None
    day: date | None


class Gsa(NamedTuple):
    """Dilution of precision and fix dimensions. Has no time; comes once per constellation, with equal values."""

    talker: str
    mode: str
    """Mode: A automatic, M manual choice between 2D and 3D."""
    dimensions: int
    """Dimensions: 1 no fix, 2 2D, 3 3D."""
    pdop: float
    hdop: float
    vdop: float


class Rmc(NamedTuple):
    """Time, date, speed and course of one epoch."""

    talker: str
    time_ms: int | None
    valid: bool
    latitude_deg: float
    longitude_deg: float
    speed_kn: float
    course_deg: float
    day: date | None
    mode: str
    """Mode: A autonomous, D differential, F RTK float, R RTK fixed, E dead reckoning, N none."""


class Gst(NamedTuple):
    """Standard deviations of the position of one epoch."""

    talker: str
    time_ms: int | None
    range_rms_m: float
    latitude_sigma_m: float
    longitude_sigma_m: float
    altitude_sigma_m: float


class Vtg(NamedTuple):
    """Course and speed. Gives D for both kinds of RTK, and has no time."""

    talker: str
    course_deg: float
    speed_kn: float
    speed_kmh: float
    mode: str


class Ths(NamedTuple):
    """True heading. Has no time."""

    talker: str
    heading_deg: float
    mode: str
    """Mode: A autonomous, E dead reckoning, M manual, S simulator, V invalid."""


Sentence = Gga | Gns | Rmc | Zda | Gst | Gsa | Vtg | Ths
PARSED = frozenset((b"GGA", b"GNS", b"RMC", b"ZDA", b"GST", b"GSA", b"VTG", b"THS"))
"""Sentence formatters that :func:`parse` reads, from any talker."""


def _number(value: Any) -> float:
    if isinstance(value, float | int) and isfinite(value):
        return float(value)
    if value == "":
        return nan
    raise ValueError(f"not a number: {value!r}")


def _count(value: Any) -> int:
    return value if isinstance(value, int) else 0


def _time_ms(value: Any) -> int | None:
    if not isinstance(value, time):
        return None
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1000 + value.microsecond // 1000


def _day(year: Any, month: Any, day: Any) -> date | None:
    return date(year, month, day) if all(isinstance(each, int) for each in (year, month, day)) else None


def parse(line: bytes) -> Sentence:
    """Parse one line with a valid checksum and a formatter in ``PARSED``. Raises ValueError for unreadable fields."""
    talker = line[1:3].decode("ascii")
    try:
        message = NMEAReader.parse(line, validate=0)
        match line[3:6]:
            case b"GGA" | b"GNS" as formatter:
                angles = _number(message.lat), _number(message.lon)
                values = _number(message.HDOP), _number(message.alt), _number(message.sep), _number(message.diffAge)
                used, station, time_ms = _count(message.numSV), _count(message.diffStation), _time_ms(message.time)
                if formatter == b"GGA":
                    return Gga(talker, time_ms, *angles, _count(message.quality), used, *values, station)
                return Gns(talker, time_ms, *angles, str(message.posMode), used, *values, station)
            case b"ZDA":
                return Zda(talker, _time_ms(message.time), _day(message.year, message.month, message.day))
            case b"GSA":
                dops = _number(message.PDOP), _number(message.HDOP), _number(message.VDOP)
                return Gsa(talker, str(message.opMode), _count(message.navMode), *dops)
            case b"RMC":
                return Rmc(
                    talker,
                    _time_ms(message.time),
                    message.status == "A",
                    _number(message.lat),
                    _number(message.lon),
                    _number(message.spd),
                    _number(message.cog),
                    message.date if isinstance(message.date, date) else None,
                    # Missing before version 2.3.
                    str(getattr(message, "posMode", "")),
                )
            case b"GST":
                return Gst(
                    talker,
                    _time_ms(message.time),
                    _number(message.rangeRms),
                    _number(message.stdLat),
                    _number(message.stdLong),
                    _number(message.stdAlt),
                )
            case b"VTG":
                mode = str(getattr(message, "posMode", ""))
                return Vtg(talker, _number(message.cogt), _number(message.sogn), _number(message.sogk), mode)
            case b"THS":
                return Ths(talker, _number(message.headt), str(message.mi))
    except Exception as error:
        # pynmeagps raises AttributeError, IndexError, KeyError, TypeError, UnicodeDecodeError and ValueError on damaged fields.
        raise ValueError(f"{line!r}: {error}") from error
    raise ValueError(f"{line!r}: not a sentence that is parsed here")


def pack(message: Sentence) -> bytes:
    """Return the line of a sentence in high-precision mode (7 decimals of a minute), with checksum and line end."""
    kind = type(message).__name__.upper()
    fields: tuple[str, ...]
    match message:
        case Gga():
            fields = (
                _clock(message.time_ms), _angle(message.latitude_deg, 2, "NS"), _angle(message.longitude_deg, 3, "EW"),
                f"{message.quality}", f"{message.satellites:02d}", _fixed(message.hdop, 2),
                _fixed(message.altitude_msl_m, 3), "M", _fixed(message.geoid_separation_m, 3), "M",
                _fixed(message.correction_age_s, 1), f"{message.station:04d}" if isfinite(message.correction_age_s) else "",
            )  # fmt: skip
        case Gns():
            fields = (
                _clock(message.time_ms), _angle(message.latitude_deg, 2, "NS"), _angle(message.longitude_deg, 3, "EW"),
                message.modes, f"{message.satellites:02d}", _fixed(message.hdop, 2), _fixed(message.altitude_msl_m, 3),
                _fixed(message.geoid_separation_m, 3), _fixed(message.correction_age_s, 1),
                f"{message.station:04d}" if isfinite(message.correction_age_s) else "", "V",
            )  # fmt: skip
        case Zda():
            fields = (_clock(message.time_ms), *(f"{message.day:%d,%m,%Y}" if message.day else ",,").split(","), "00", "00")
        case Gsa():
            dops = tuple(_fixed(value, 2) for value in (message.pdop, message.hdop, message.vdop))
            fields = (message.mode, f"{message.dimensions}", *[""] * 12, *dops, "1")
        case Rmc():
            fields = (
                _clock(message.time_ms), "A" if message.valid else "V", _angle(message.latitude_deg, 2, "NS"),
                _angle(message.longitude_deg, 3, "EW"), _fixed(message.speed_kn, 3), _fixed(message.course_deg, 2),
                f"{message.day:%d%m%y}" if message.day else "", "", "", message.mode, "V",
            )  # fmt: skip
        case Gst():
            fields = (
                _clock(message.time_ms), _fixed(message.range_rms_m, 1), "", "", "", _fixed(message.latitude_sigma_m, 3),
                _fixed(message.longitude_sigma_m, 3), _fixed(message.altitude_sigma_m, 3),
            )  # fmt: skip
        case Vtg():
            speeds = (_fixed(message.speed_kn, 3), "N", _fixed(message.speed_kmh, 3), "K")
            fields = (_fixed(message.course_deg, 2), "T", "", "M", *speeds, message.mode)
        case Ths():
            fields = (_fixed(message.heading_deg, 2), message.mode)
    body = f"{message.talker}{kind},{','.join(fields)}".encode("ascii")
    return b"$%s*%02X\r\n" % (body, xor8(body))


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if isfinite(value) else ""


def _clock(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    seconds, ms = divmod(time_ms, 1000)
    return f"{seconds // 3600:02d}{seconds // 60 % 60:02d}{seconds % 60:02d}.{ms:03d}"


def _angle(degrees: float, digits: int, letters: str) -> str:
    if not isfinite(degrees):
        return ","
    # Round in units of the last decimal, so that minutes stay below 60.
    whole, rest = divmod(round(abs(degrees) * 600_000_000), 600_000_000)
    minutes, fraction = divmod(rest, 10_000_000)
    return f"{whole:0{digits}d}{minutes:02d}.{fraction:07d},{letters[degrees < 0.0]}"
