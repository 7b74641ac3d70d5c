"""NMEA 0183 sentences of a receiver, in both directions: GGA, GNS, RMC, ZDA, GST, GSA, VTG, the
headings THS, HDT, HPR, PASHR, PTNL,AVR, PQTMTAR and PSSN,HRP, and PTNL,GGK, PUBX,00, PQTMVEL and
PQTMEPE, which say the same in their makers' ways.

This module states what makes a field usable. A field that is blank is NaN or None. An optional
field that cannot be read is, too, and is named in ``Read.lost``; a position whose place cannot be
read is NaN as a whole. Sources: NOTES.md.
"""

import re
from collections.abc import Callable
from datetime import date
from math import isfinite, nan
from typing import NamedTuple

from vehicled.core.wire.crc import xor8
from vehicled.core.wire.usage import Unused, UsageProblem

DAY_MS = 86_400_000


class Gga(NamedTuple):
    """Position of one epoch: GGA, PTNL,GGK (talker ``PTNL``) or PUBX,00 (``PUBX``), whose heights
    are above the ellipsoid."""

    talker: str
    time_ms: int | None
    """UTC since midnight, ms."""
    latitude_deg: float
    longitude_deg: float
    quality: int
    """Quality: 0 none, 1 autonomous, 2 differential, 3 PPS, 4 RTK fixed, 5 RTK float, 6 dead
    reckoning, 7 typed in, 8 simulator; 9 is SBAS in receivers of NovAtel and its kin; -1 if it
    cannot be read."""
    satellites: int
    hdop: float
    altitude_msl_m: float
    geoid_separation_m: float
    correction_age_s: float = nan
    station: int = 0
    horizontal_sigma_m: float = nan
    """Standard deviation of both axes together, in PUBX,00 alone."""
    vertical_sigma_m: float = nan


class Gns(NamedTuple):
    """Position of one epoch, from receivers that use several constellations and send no GGA."""

    talker: str
    time_ms: int | None
    latitude_deg: float
    longitude_deg: float
    modes: str
    """Mode letter per constellation: N none, A autonomous, D differential, P precise, R RTK fixed,
    F RTK float, E dead reckoning, M typed in, S simulator."""
    satellites: int
    hdop: float
    altitude_msl_m: float
    geoid_separation_m: float
    correction_age_s: float = nan
    station: int = 0

    @property
    def quality(self) -> int:
        """Quality as in GGA, from the best constellation; -1 for letters that are not
        documented."""
        return next((quality for letter, quality in _GNS_QUALITIES if letter in self.modes), -1)


_GNS_QUALITIES = (
    ("S", 8),
    ("M", 7),
    ("R", 4),
    ("F", 5),
    ("P", 2),
    ("D", 2),
    ("A", 1),
    ("E", 6),
    ("N", 0),
)


class Zda(NamedTuple):
    """Time and date."""

    talker: str
    time_ms: int | None
    day: date | None


class Gsa(NamedTuple):
    """Dilution of precision and fix dimensions. Has no time; comes once per constellation, with
    equal values."""

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
    valid: bool | None
    """True for A; False for V, a warning that the navigation cannot be trusted; None if it cannot
    be read."""
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


class Vel(NamedTuple):
    """``PQTMVEL`` of Quectel: velocity of one epoch."""

    time_ms: int | None
    north_mps: float
    east_mps: float
    down_mps: float


class Ths(NamedTuple):
    """True heading. Has no time."""

    talker: str
    heading_deg: float
    mode: str
    """Mode: A autonomous, E dead reckoning, M manual, S simulator, V invalid."""


class Hdt(NamedTuple):
    """True heading, without time, mode and accuracy; blank where the device has none."""

    talker: str
    heading_deg: float


class Hpr(NamedTuple):
    """Heading, pitch and roll of two antennas: ``GNHPR`` of Unicore and others, ``KSXT`` of Unicore
    and ComNav, ``PSAT,HPR`` of Hemisphere, ``PASHR,HPR`` of Spectra and Ashtech."""

    talker: str
    time_ms: int | None
    heading_deg: float
    state: str
    """Quality as in GGA; of Hemisphere N for GNSS and G for the gyro that bridges an outage."""


class Pashr(NamedTuple):
    """Attitude of an inertial unit with GNSS (NovAtel, Trimble, Applanix)."""

    time_ms: int | None
    heading_deg: float
    heading_sigma_deg: float
    quality: str
    """Quality: 0 none; the others differ between makers."""
    aligned: str
    """Inertial status: 0 before the alignment; missing in older firmware."""


class Avr(NamedTuple):
    """``PTNL,AVR`` of Trimble: the vector of a moving base."""

    time_ms: int | None
    heading_deg: float
    length_m: float
    quality: str
    """Quality: 0 none, 1 autonomous, 2 RTK float, 3 RTK fixed, 4 differential code."""


class Tar(NamedTuple):
    """Attitude of two antennas with its errors: ``PQTMTAR`` of Quectel, ``PSSN,HRP`` of Septentrio
    (talker ``PSSN``)."""

    talker: str
    time_ms: int | None
    heading_deg: float
    heading_sigma_deg: float
    length_m: float
    """Distance of the antennas; NaN in PSSN,HRP."""
    state: str
    """Quality as in GGA: 4 fixed, 5 float, 6 held without GNSS, 0 none."""


Position = Gga | Gns
HeadingSentence = Ths | Hdt | Hpr | Pashr | Avr | Tar
Sentence = Gga | Gns | Rmc | Zda | Gst | Gsa | Vtg | Vel | HeadingSentence


class Read(NamedTuple):
    """One sentence, and its fields that could not be used."""

    sentence: Sentence
    lost: tuple[UsageProblem, ...] = ()


# ---------------------------------------------------------------- fields

_DIGITS = re.compile(r"\d{1,6}")
_NUMBER = re.compile(r"[+-]?(?:\d{1,12}(?:\.\d{0,12})?|\.\d{1,12})")
# The last two digits before the point are whole minutes, however many there are before them. A
# place in minutes, or in tenths, was cut off: every receiver sends hundredths at least.
_ANGLE = re.compile(r"(\d{1,3})(\d\d\.\d{2,})")
_TIME = re.compile(r"(\d\d)(\d\d)(\d\d(?:\.\d*)?)")


class _Fields:
    """Fields of one sentence by number, from 1 on; missing ones are blank."""

    def __init__(self, texts: list[str]) -> None:
        self._texts = texts
        self.lost: list[UsageProblem] = []

    def text(self, at: int) -> str:
        return self._texts[at] if at < len(self._texts) else ""

    def _lose(self, name: str, at: int, reason: Unused = Unused.UNREADABLE) -> None:
        self.lost.append(UsageProblem(reason, name, self.text(at)))

    def number(self, at: int, name: str, low: float = -1e9, high: float = 1e9) -> float:
        text = self.text(at)
        if not text:
            return nan
        if not _NUMBER.fullmatch(text):
            self._lose(name, at)
            return nan
        value = float(text)
        if not low <= value <= high:
            self._lose(name, at, Unused.OUT_OF_RANGE)
            return nan
        return value

    def count(self, at: int, name: str, otherwise: int = 0) -> int:
        """Return a whole number; some receivers write 12.0."""
        value = self.number(at, name, 0.0, 1e6)
        if not isfinite(value):
            return otherwise
        if value != int(value):
            self._lose(name, at)
            return otherwise
        return int(value)

    def code(self, at: int, name: str) -> int:
        """Return the number of a state, whose digits are not to be guessed; -1 if it cannot be
        read."""
        text = self.text(at)
        if _DIGITS.fullmatch(text):
            return int(text)
        self._lose(name, at)
        return -1

    def status(self, at: int) -> bool | None:
        found = {"A": True, "V": False}.get(self.text(at))
        if found is None:
            self._lose("status", at)
        return found

    def metres(self, at: int, name: str, low: float, high: float) -> float:
        """Return a number whose unit follows it; a unit that is not M makes it unknown."""
        value = self.number(at, name, low, high)
        if isfinite(value) and self.text(at + 1) not in ("M", ""):
            self._lose(f"unit of {name}", at + 1)
            return nan
        return value

    def time_ms(self, at: int) -> int | None:
        text = self.text(at)
        if not text:
            return None
        found = _TIME.fullmatch(text)
        hours, minutes, seconds = (
            (int(found[1]), int(found[2]), float(found[3])) if found else (99, 99, 99.0)
        )
        # A leap second is 60, which is the first of the next minute.
        if hours > 23 or minutes > 59 or seconds >= 61.0:
            self._lose("time", at, Unused.OUT_OF_RANGE if found else Unused.UNREADABLE)
            return None
        return ((hours * 60 + minutes) * 60_000 + round(seconds * 1000)) % DAY_MS

    def angle(self, at: int, name: str, letters: str, limit_deg: float) -> float:
        """Return degrees of a place; NaN if they, or the hemisphere behind them, cannot be read. A
        wrong guess of the hemisphere is a place on the other side of the earth, so nothing is
        guessed."""
        text, letter = self.text(at), self.text(at + 1)
        if not text and not letter:
            return nan
        found = _ANGLE.fullmatch(text)
        if not found:
            self._lose(name, at)
            return nan
        if letter not in letters or len(letter) != 1:
            self._lose(f"hemisphere of {name}", at + 1)
            return nan
        minutes = float(found[2])
        degrees = int(found[1]) + minutes / 60.0
        if minutes >= 60.0 or degrees > limit_deg:
            self._lose(name, at, Unused.OUT_OF_RANGE)
            return nan
        return -degrees if letter == letters[1] else degrees

    def place(self, at: int) -> tuple[float, float]:
        """Return latitude and longitude; NaN both if one is unknown."""
        latitude = self.angle(at, "latitude", "NS", 90.0)
        longitude = self.angle(at + 2, "longitude", "EW", 180.0)
        return (latitude, longitude) if isfinite(latitude + longitude) else (nan, nan)

    def day(self, at: int, name: str, year: str, month: str, day: str) -> date | None:
        if not (year or month or day):
            return None
        try:
            if all(_DIGITS.fullmatch(each) for each in (year, month, day)):
                return date(int(year), int(month), int(day))
        except ValueError:
            pass
        self._lose(name, at)
        return None


def _heading(fields: _Fields, at: int, low_deg: float = 0.0) -> float:
    return fields.number(at, "heading", low_deg, 360.0)


def _position(
    fields: _Fields,
) -> tuple[tuple[float, float], tuple[float, float, float, float], int]:
    """Return place; dilution, altitude, separation and age; station. The numbers of the fields are
    those of GGA."""
    dilution = fields.number(8, "dilution", 0.0, 1e4)
    altitude = fields.metres(9, "altitude", -12e3, 1e5)
    separation = fields.metres(11, "geoid separation", -500.0, 500.0)
    age = fields.number(13, "age of corrections", 0.0, 1e6)
    return fields.place(2), (dilution, altitude, separation, age), fields.count(14, "station")


def _gga(talker: str, fields: _Fields) -> Sentence:
    time_ms, (place, values, station) = fields.time_ms(1), _position(fields)
    return Gga(
        talker,
        time_ms,
        *place,
        fields.code(6, "quality"),
        fields.count(7, "satellites"),
        *values,
        station,
    )


def _gns(talker: str, fields: _Fields) -> Sentence:
    dilution = fields.number(8, "dilution", 0.0, 1e4)
    altitude = fields.number(9, "altitude", -12e3, 1e5)
    separation = fields.number(10, "geoid separation", -500.0, 500.0)
    age = fields.number(11, "age of corrections", 0.0, 1e6)
    satellites, station = fields.count(7, "satellites"), fields.count(12, "station")
    time_ms, place = fields.time_ms(1), fields.place(2)
    return Gns(
        talker,
        time_ms,
        *place,
        fields.text(6),
        satellites,
        dilution,
        altitude,
        separation,
        age,
        station,
    )


def _rmc(talker: str, fields: _Fields) -> Sentence:
    text = fields.text(9)
    # Two digits of the year; this century, as none of these receivers is older.
    day = fields.day(9, "date", f"20{text[4:6]}" if len(text) == 6 else text, text[2:4], text[:2])
    speed, course = fields.number(7, "speed", 0.0, 2e3), fields.number(8, "course", 0.0, 360.0)
    # The mode is missing before version 2.3.
    return Rmc(
        talker,
        fields.time_ms(1),
        fields.status(2),
        *fields.place(3),
        speed,
        course,
        day,
        fields.text(12),
    )


def _zda(talker: str, fields: _Fields) -> Sentence:
    return Zda(
        talker,
        fields.time_ms(1),
        fields.day(2, "date", fields.text(4), fields.text(3), fields.text(2)),
    )


def _gst(talker: str, fields: _Fields) -> Sentence:
    sigmas = (
        fields.number(at, f"sigma of {name}", 0.0)
        for at, name in ((6, "latitude"), (7, "longitude"), (8, "altitude"))
    )
    return Gst(talker, fields.time_ms(1), fields.number(2, "range error", 0.0), *sigmas)


def _gsa(talker: str, fields: _Fields) -> Sentence:
    # Before version 4.1 without the system's number, so the dilutions are counted from the front.
    dops = (
        fields.number(at, f"{name}DOP", 0.0, 1e4) for at, name in ((15, "P"), (16, "H"), (17, "V"))
    )
    return Gsa(talker, fields.text(1), fields.count(2, "dimensions"), *dops)


def _vtg(talker: str, fields: _Fields) -> Sentence:
    course = fields.number(1, "course", 0.0, 360.0)
    knots = fields.number(5, "speed", 0.0, 2e3)
    kmh = fields.number(7, "speed", 0.0, 4e3)
    return Vtg(talker, course, knots, kmh, fields.text(9))


def _ths(talker: str, fields: _Fields) -> Sentence:
    return Ths(talker, _heading(fields, 1), fields.text(2))


def _hdt(talker: str, fields: _Fields) -> Sentence:
    heading = _heading(fields, 1)
    if isfinite(heading) and fields.text(2) != "T":
        fields.lost.append(
            UsageProblem(Unused.UNKNOWN_STATE, "reference of heading", fields.text(2))
        )
        heading = nan
    return Hdt(talker, heading)


def _hpr(talker: str, fields: _Fields) -> Sentence:
    return Hpr(talker, fields.time_ms(1), _heading(fields, 2), fields.text(5))


_KSXT_STATES = {"0": "0", "1": "1", "2": "5", "3": "4"}
"""Quality as in GGA by the quality of a heading of KSXT: 0 none, 1 single, 2 float, 3 fixed."""


def _ksxt(talker: str, fields: _Fields) -> Sentence:
    # The time begins with the date; what the height is above differs between makers, so the place
    # is left to GGA.
    stamp = fields.text(1)
    clock = _Fields(["", stamp[8:] if stamp[:8].isdecimal() else stamp])
    time_ms = clock.time_ms(1)
    fields.lost += clock.lost
    state = _KSXT_STATES.get(fields.text(11), fields.text(11))
    return Hpr("KSXT", time_ms, _heading(fields, 5), state)


def _psat_hpr(talker: str, fields: _Fields) -> Sentence:
    return Hpr("PSAT", fields.time_ms(2), _heading(fields, 3), fields.text(6))


def _pashr_hpr(talker: str, fields: _Fields) -> Sentence:
    # Number of ambiguities that are not fixed, and 1 during the calibration. In the digits of GGA.
    floating, calibrating = fields.text(8), fields.text(9) == "1"
    state = floating and ("4" if floating == "0" and not calibrating else "5")
    return Hpr("PASHR", fields.time_ms(2), _heading(fields, 3), state)


def _pashr(talker: str, fields: _Fields) -> Sentence:
    heading, sigma = _heading(fields, 2), fields.number(9, "sigma of heading", 0.0, 360.0)
    if isfinite(heading) and fields.text(3) != "T":
        fields.lost.append(
            UsageProblem(Unused.UNKNOWN_STATE, "reference of heading", fields.text(3))
        )
        heading = nan
    return Pashr(fields.time_ms(1), heading, sigma, fields.text(10), fields.text(11))


def _avr(talker: str, fields: _Fields) -> Sentence:
    return Avr(
        fields.time_ms(2),
        _heading(fields, 3, -180.0),
        fields.number(9, "length", 0.0, 1e6),
        fields.text(10),
    )


_GGK_QUALITIES = {0: 0, 1: 1, 2: 5, 3: 4, 4: 2, 5: 9, 6: 5, 7: 4, 8: 5, 9: 4, 13: 2}
"""Quality as in GGA by that of GGK: 0 none, 1 autonomous, 2 float, 3 fixed, 4 differential code, 5
SBAS, 6 to 9 float and fixed in a network of bases, 13 beacon."""
_PUBX_QUALITIES = {"NF": 0, "TT": 0, "DR": 6, "RK": 6, "G2": 1, "G3": 1, "D2": 2, "D3": 2}
"""Quality as in GGA by the status of PUBX,00."""
_HRP_STATES = {"0": "0", "1": "5", "2": "4", "3": "5", "4": "4", "5": "6"}
"""Quality as in GGA by the mode of an attitude of Septentrio."""


def _ggk(talker: str, fields: _Fields) -> Sentence:
    time_ms, place = fields.time_ms(2), fields.place(4)
    known = fields.code(8, "quality")
    # The height is above the ellipsoid (EHT), or a project's (GHT), which is no height of the
    # earth.
    text = fields.text(11)
    height = float(text[3:]) if text.startswith("EHT") and _NUMBER.fullmatch(text[3:]) else nan
    return Gga(
        "PTNL",
        time_ms,
        *place,
        _GGK_QUALITIES.get(known, -1),
        fields.count(9, "satellites"),
        nan,
        height,
        0.0,
    )


def _pubx(talker: str, fields: _Fields) -> Sentence:
    time_ms = fields.time_ms(2)
    place = fields.place(3)
    height = fields.number(7, "altitude", -12e3, 1e5)
    quality = _PUBX_QUALITIES.get(fields.text(8), -1)
    sigmas = fields.number(9, "sigma", 0.0, 1e6), fields.number(10, "sigma of altitude", 0.0, 1e6)
    age = fields.number(14, "age of corrections", 0.0, 1e6)
    dilution = fields.number(15, "dilution", 0.0, 1e4)
    return Gga(
        "PUBX",
        time_ms,
        *place,
        quality,
        fields.count(18, "satellites"),
        dilution,
        height,
        0.0,
        age,
        0,
        *sigmas,
    )


def _vel(talker: str, fields: _Fields) -> Sentence:
    speeds = (fields.number(at, "velocity", -500.0, 500.0) for at in (3, 4, 5))
    return Vel(fields.time_ms(2), *speeds)


def _epe(talker: str, fields: _Fields) -> Sentence:
    sigmas = (
        fields.number(at, f"sigma of {name}", 0.0)
        for at, name in ((2, "latitude"), (3, "longitude"), (4, "altitude"))
    )
    return Gst("PQTM", None, nan, *sigmas)


def _tar(talker: str, fields: _Fields) -> Sentence:
    sigma = fields.number(11, "sigma of heading", 0.0, 360.0)
    length = fields.number(5, "length", 0.0, 1e6)
    return Tar("PQTM", fields.time_ms(2), _heading(fields, 8), sigma, length, fields.text(3))


def _hrp(talker: str, fields: _Fields) -> Sentence:
    sigma = fields.number(7, "sigma of heading", 0.0, 360.0)
    state = _HRP_STATES.get(fields.text(11), fields.text(11))
    return Tar("PSSN", fields.time_ms(2), _heading(fields, 4), sigma, nan, state)


_STANDARD: dict[str, Callable[[str, _Fields], Sentence]] = {
    "GGA": _gga, "GNS": _gns, "RMC": _rmc, "ZDA": _zda, "GST": _gst, "GSA": _gsa, "VTG": _vtg,
    "THS": _ths, "HDT": _hdt, "HPR": _hpr,
}  # fmt: skip
"""Readers by formatter, of any talker."""
_PROPRIETARY: dict[str, Callable[[str, _Fields], Sentence]] = {
    "KSXT": _ksxt,
    "PSAT,HPR": _psat_hpr,
    "PASHR,HPR": _pashr_hpr,
    "PASHR": _pashr,
    "PTNL,AVR": _avr,
    "PTNL,GGK": _ggk,
    "PUBX,00": _pubx,
    "PSSN,HRP": _hrp,
    "PQTMTAR": _tar,
    "PQTMVEL": _vel,
    "PQTMEPE": _epe,
}
_GROUPS = ("PSAT", "PASHR", "PTNL", "PUBX", "PSSN")
"""Proprietary sentences whose first field names the kind."""


def name_of(line: bytes) -> str:
    """Return the name of a sentence: ``GNGGA``, ``PUBX,00``."""
    name, *fields = re.split(rb"[,*\r]", line[1:], maxsplit=2)
    first = fields[0] if fields else b""
    # The first field of the attitude sentence PASHR is its time.
    kind = (
        first
        if name.decode("ascii") in _GROUPS
        and (first.isalpha() or (name == b"PUBX" and first.isalnum()))
        else b""
    )
    return (name + b"," + kind if kind else name).decode("ascii")


def parse(line: bytes) -> Read | None:
    """Read one line; None if nothing here reads sentences of its name. Never raises for a framed
    line."""
    name = name_of(line)
    reader = _PROPRIETARY.get(name) or (None if name.startswith("P") else _STANDARD.get(name[2:]))
    if reader is None:
        return None
    body = line[1:].partition(b"*")[0].rstrip(b"\r\n").decode("ascii")
    fields = _Fields([text.strip() for text in body.split(",")])
    sentence = reader(name[:2], fields)
    return Read(sentence, tuple(fields.lost))


def pack(message: Sentence) -> bytes:
    """Return the line of a sentence in high-precision mode (7 decimals of a minute), with checksum
    and line end."""
    kind = type(message).__name__.upper()
    fields: tuple[str, ...]
    match message:
        case Gga() if message.talker == "PTNL":
            quality = next(
                (theirs for theirs, ours in _GGK_QUALITIES.items() if ours == message.quality), 0
            )
            place = (
                f"{_angle(message.latitude_deg, 2, 'NS')},{_angle(message.longitude_deg, 3, 'EW')}"
            )
            height = f"EHT{_fixed(message.altitude_msl_m, 3)},M"
            begin = f"PTNL,GGK,{_clock(message.time_ms)}"
            return _line(f"{begin},,{place},{quality},{message.satellites:02d},,{height}")
        case Gga() if message.talker == "PUBX":
            status = next(
                (theirs for theirs, ours in _PUBX_QUALITIES.items() if ours == message.quality), ""
            )
            place = (
                f"{_angle(message.latitude_deg, 2, 'NS')},{_angle(message.longitude_deg, 3, 'EW')}"
            )
            doubts = (
                f"{_fixed(message.horizontal_sigma_m, 3)},{_fixed(message.vertical_sigma_m, 3)}"
            )
            height, age = _fixed(message.altitude_msl_m, 3), _fixed(message.correction_age_s, 1)
            tail = f",,,{age},{_fixed(message.hdop, 2)},,,{message.satellites},0,0"
            begin = f"PUBX,00,{_clock(message.time_ms)}"
            return _line(f"{begin},{place},{height},{status},{doubts},{tail}")
        case Gst() if message.talker == "PQTM":
            sigmas = (message.latitude_sigma_m, message.longitude_sigma_m, message.altitude_sigma_m)
            return _line(f"PQTMEPE,2,{','.join(_fixed(each, 3) for each in sigmas)},,")
        case Vel():
            north, east, down = (
                _fixed(each, 3) for each in (message.north_mps, message.east_mps, message.down_mps)
            )
            return _line(f"PQTMVEL,1,{_clock(message.time_ms)},{north},{east},{down},,,,,,")
        case Tar() if message.talker == "PSSN":
            mode = next(
                (theirs for theirs, ours in _HRP_STATES.items() if ours == message.state), ""
            )
            errors = f"{_fixed(message.heading_sigma_deg, 4)},,,20,{mode}"
            return _line(
                f"PSSN,HRP,{_clock(message.time_ms)},,{_fixed(message.heading_deg, 4)},,,{errors},,"
            )
        case Tar():
            line = (
                f"{message.state},,{_fixed(message.length_m, 3)},,,{_fixed(message.heading_deg, 6)}"
            )
            sigma = _fixed(message.heading_sigma_deg, 6)
            return _line(f"PQTMTAR,1,{_clock(message.time_ms)},{line},,,{sigma},20")
        case Gga():
            fields = (
                _clock(message.time_ms), _angle(message.latitude_deg, 2, "NS"),
                _angle(message.longitude_deg, 3, "EW"), f"{message.quality}",
                f"{message.satellites:02d}", _fixed(message.hdop, 2),
                _fixed(message.altitude_msl_m, 3), "M", _fixed(message.geoid_separation_m, 3), "M",
                _fixed(message.correction_age_s, 1),
                f"{message.station:04d}" if isfinite(message.correction_age_s) else "",
            )  # fmt: skip
        case Gns():
            fields = (
                _clock(message.time_ms), _angle(message.latitude_deg, 2, "NS"),
                _angle(message.longitude_deg, 3, "EW"), message.modes, f"{message.satellites:02d}",
                _fixed(message.hdop, 2), _fixed(message.altitude_msl_m, 3),
                _fixed(message.geoid_separation_m, 3), _fixed(message.correction_age_s, 1),
                f"{message.station:04d}" if isfinite(message.correction_age_s) else "", "V",
            )  # fmt: skip
        case Zda():
            fields = (
                _clock(message.time_ms),
                *(f"{message.day:%d,%m,%Y}" if message.day else ",,").split(","),
                "00",
                "00",
            )
        case Gsa():
            dops = tuple(_fixed(value, 2) for value in (message.pdop, message.hdop, message.vdop))
            fields = (message.mode, f"{message.dimensions}", *[""] * 12, *dops, "1")
        case Rmc():
            fields = (
                _clock(message.time_ms), "A" if message.valid else "V",
                _angle(message.latitude_deg, 2, "NS"), _angle(message.longitude_deg, 3, "EW"),
                _fixed(message.speed_kn, 3), _fixed(message.course_deg, 2),
                f"{message.day:%d%m%y}" if message.day else "", "", "", message.mode, "V",
            )  # fmt: skip
        case Gst():
            fields = (
                _clock(message.time_ms), _fixed(message.range_rms_m, 1), "", "", "",
                _fixed(message.latitude_sigma_m, 3), _fixed(message.longitude_sigma_m, 3),
                _fixed(message.altitude_sigma_m, 3),
            )  # fmt: skip
        case Vtg():
            speeds = (_fixed(message.speed_kn, 3), "N", _fixed(message.speed_kmh, 3), "K")
            fields = (_fixed(message.course_deg, 2), "T", "", "M", *speeds, message.mode)
        case Ths():
            fields = (_fixed(message.heading_deg, 2), message.mode)
        case Hdt():
            fields = (_fixed(message.heading_deg, 2), "T")
        case Hpr() if message.talker == "KSXT":
            state = next(
                (theirs for theirs, ours in _KSXT_STATES.items() if ours == message.state), ""
            )
            stamp = "" if message.time_ms is None else f"00000000{_clock(message.time_ms)[:-1]}"
            return _line(
                f"KSXT,{stamp},,,,{_fixed(message.heading_deg, 2)},0.00,,,,0,{state},20,20,,,,,,,,"
            )
        case Hpr() if message.talker == "PSAT":
            begin = f"PSAT,HPR,{_clock(message.time_ms)}"
            return _line(f"{begin},{_fixed(message.heading_deg, 2)},0.00,,{message.state}")
        case Hpr() if message.talker == "PASHR":
            floating = {"4": "0", "5": "1"}.get(message.state, "")
            heading = f"{_clock(message.time_ms)},{_fixed(message.heading_deg, 2)}"
            return _line(f"PASHR,HPR,{heading},+0.00,,0.002,0.004,{floating},0,1.9,1.2")
        case Hpr():
            rest = "0.00", "000.00", message.state, "12", "0.00", "0000"
            fields = (_clock(message.time_ms), _fixed(message.heading_deg, 2), *rest)
        case Pashr():
            heading, sigma = _fixed(message.heading_deg, 2), _fixed(message.heading_sigma_deg, 3)
            motion = f"{heading},T,+0.00,+0.00,+0.00,0.100,0.100,{sigma}"
            state = f"{message.quality},{message.aligned}"
            return _line(f"PASHR,{_clock(message.time_ms)},{motion},{state}".rstrip(","))
        case Avr():
            vector = (
                f"{_signed(message.heading_deg)},Yaw,+0.0000,Tilt,,,{_fixed(message.length_m, 3)}"
            )
            return _line(f"PTNL,AVR,{_clock(message.time_ms)},{vector},{message.quality},1.4,16")
    return _line(f"{message.talker}{kind},{','.join(fields)}")


def _line(body: str) -> bytes:
    data = body.encode("ascii")
    return b"$%s*%02X\r\n" % (data, xor8(data))


def _fixed(value: float, digits: int) -> str:
    return f"{value:.{digits}f}" if isfinite(value) else ""


def _signed(value: float) -> str:
    return f"{value:+.4f}" if isfinite(value) else ""


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
