"""Times of recorded rows in the forms and units that loggers write, as seconds.

A unit is taken from the name of a column if that states one. Otherwise it follows from the values:
of texts by their form, of numbers by the speed that the vehicle would have driven. The user is
asked about the rest: a wrong unit makes wrong speeds.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths.errors import CourseError
from vehicled.paths.recorded import CHORD_M, MOVING_MPS, chord_rows

SCALES = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0, "days": 86_400.0}
"""Seconds in a unit."""
HHMMSS = "hhmmss"
UNITS = (*SCALES, HHMMSS)
"""Units that a user may state."""
SLOWEST_MPS, FASTEST_MPS = MOVING_MPS, 1000.0 * MOVING_MPS
"""Speeds of a drive. Their ratio is that of two neighbouring units, so that at most one of these
fits."""
RATES_HZ = (0.1, 5000.0)
"""Rates at which drives are recorded."""
DAY_S, WEEK_S = 86_400.0, 604_800.0
MOST_WITHOUT_TIME = 0.05
"""Part of the rows that may lack a readable time, in a recording."""
COUNTER = 2.0**32
"""Counts after which a counter of 32 bits starts again."""
ROLL_OVER_FRACTION = 0.05
"""Part of the period, before its end and after its start, in which a step back is a roll-over."""
_DAYS = ((20_000.0, 80_000.0), (700_000.0, 800_000.0))
"""Dates as numbers of days: of spreadsheets, and of MATLAB."""
_FIRST_DAY = date(1970, 1, 1).toordinal()

_ROLLED = "the clock started again in between, at midnight or at the end of its counter"
_CLOCK = r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,:](\d+))?\s*([ap]\.?m\.?)?"
_DATED = re.compile(
    (
        r"(\d{4})[-/.](\d{1,2})[-/.](\d{1,2})[T "
        rf",_]+{_CLOCK}\s*(Z|UTC|GMT|GPST|[+-]\d{{2}}:?(?:\d{{2}})?)?(?:\[.*\])?$"
    ),
    re.IGNORECASE,
)
_COMPACT = re.compile(r"(\d{4})(\d\d)(\d\d)T?(\d\d)(\d\d)(\d\d)(?:[.,](\d+))?()(Z)?$")
_OF_DAY = re.compile(rf"(?:^|[^\d:]){_CLOCK}(?=$|[^\d:])", re.IGNORECASE)
_MINUTES = re.compile(r"(\d+):(\d{2}(?:[.,]\d+)?)$")


class _Chords:
    """Pieces of a drive that are long enough for neither noise nor standing to count as driving."""

    def __init__(self, points: Array) -> None:
        self._rows = chord_rows(points, CHORD_M)
        self._lengths_m = hypotenuse(*np.diff(points[self._rows], axis=0).T)

    def speed_mps(self, seconds: Array) -> float:
        """Return the median speed for times (n,) of all rows; NaN where nothing was driven."""
        took = np.diff(seconds[self._rows])
        speeds = np.sort(self._lengths_m[took > 0.0] / took[took > 0.0])
        return float(speeds[len(speeds) // 2]) if len(speeds) else float("nan")


@dataclass(frozen=True, slots=True)
class Times:
    """Times of the rows of one file as written, before their unit is known."""

    name: str
    """Name of the column, for messages."""
    values: Array
    """One for each row; of text, seconds. NaN where there is none."""
    unit: str = ""
    """Unit that the name or the form of the values states; empty if none does."""
    form: str = ""
    """Form of text values; empty for numbers."""
    stated: bool = False
    """True if the user stated the unit, which is then not doubted."""
    daily: bool = False
    """True for times of day, which start again at midnight."""


def from_cells(
    name: str, cells: Sequence[str], unit: str = "", stated: str = "", dates: Sequence[str] = ()
) -> Times:
    """Return the times in the cells of a column. ``unit`` is that of its name, ``stated`` the
    user's.

    ``dates``: cells of a column with the date, where there is one. Cells that hold no time are NaN.
    """
    texts = [cell.strip().strip("\"'") for cell in cells]
    whole = (
        [f"{day.strip()} {text}" for day, text in zip(dates, texts, strict=True)]
        if dates
        else texts
    )
    if not stated:
        for form, parse, daily in (
            ("date and time", _dated, False),
            ("time of day", _of_day, True),
            ("minutes and seconds", _minutes, False),
        ):
            # None becomes NaN.
            values = np.array([parse(text) for text in whole], dtype=float)
            if len(values) and np.isnan(values).mean() <= MOST_WITHOUT_TIME:
                return Times(name, values, "s", form, daily=daily)
    values = np.array([_number(text) for text in texts], dtype=float)
    return from_numbers(name, values, unit, stated)


def from_numbers(name: str, values: Array, unit: str = "", stated: str = "") -> Times:
    """Return the times of numbers (n,)."""
    unit = "ms" if unit == "m/s" else unit
    return Times(name, values, stated or (unit if unit in UNITS else ""), stated=bool(stated))


def to_seconds(times: Times, points: Array, cure: str) -> tuple[Array, list[str]]:
    """Return the times (n,) in s, which increase over midnight and the ends of counters, and
    remarks on how they were read.

    points (n, 2): places of the rows in m, which decide where the unit is in doubt. ``cure`` says
    how the user states a unit; in it UNIT stands for one. Raises :class:`CourseError`, its message
    without the file's name.
    """
    if times.form:
        seconds = _rolled(times.values, 1.0, daily=times.daily)
        remarks = [f"{times.name}: {times.form}"]
        return seconds, remarks if (np.diff(times.values) >= 0.0).all() else [*remarks, _ROLLED]
    of_clock = _hhmmss(times.values) if times.unit in ("", "s", HHMMSS) else None
    if of_clock is not None and not (times.stated and times.unit == "s"):
        return _rolled(of_clock, 1.0, daily=True), [
            f"{times.name} holds hours, minutes and seconds as hhmmss"
        ]
    if times.unit == HHMMSS:
        parts = _digits(times.values)
        if parts is None:
            raise CourseError(
                f"{times.name} is no time as hhmmss: minutes or seconds reach 60; "
                f"{cure.replace('UNIT', 's')}"
            )
        return _rolled(parts, 1.0, daily=True), []
    chords = _Chords(points)
    unit, remarks = times.unit, list[str]()
    if not unit:
        unit, remarks = _unit_by_values(times, chords, cure)
    elif not times.stated:
        _check_unit(times, chords, cure)
    seconds = _rolled(times.values, SCALES[unit])
    return seconds, remarks if (np.diff(times.values) >= 0.0).all() or (
        np.diff(seconds) < 0.0
    ).any() else [*remarks, _ROLLED]


def _unit_by_values(times: Times, chords: _Chords, cure: str) -> tuple[str, list[str]]:
    values = times.values
    speeds = {unit: chords.speed_mps(_rolled(values, scale)) for unit, scale in SCALES.items()}
    rates = {unit: _rate_hz(values) / scale for unit, scale in SCALES.items()}
    if not np.isfinite(speeds["s"]):
        return "s", []
    fits = [
        unit
        for unit in ("s", "ms", "us", "ns")
        if SLOWEST_MPS <= speeds[unit] <= FASTEST_MPS and RATES_HZ[0] <= rates[unit] <= RATES_HZ[1]
    ]
    middle = float(np.sort(values)[len(values) // 2])
    if (
        not fits
        and any(low <= middle <= high for low, high in _DAYS)
        and SLOWEST_MPS <= speeds["days"] <= FASTEST_MPS
    ):
        return "days", [f"{times.name} counts days, as spreadsheets do"]
    if not fits:
        tried = ", ".join(f"{speeds[unit]:.3g} m/s in {unit}" for unit in ("s", "ms", "us", "ns"))
        raise CourseError(
            f"{times.name} fits no unit: the vehicle would drive {tried}; "
            f"{cure.replace('UNIT', 's')}"
        )
    unit = fits[0]
    if unit == "s":
        return unit, []
    return unit, [
        f"{times.name} is taken as {unit}, in which the vehicle drives {speeds[unit]:.2g} m/s"
    ]


def _check_unit(times: Times, chords: _Chords, cure: str) -> None:
    """Raise CourseError if the unit in the name of the column makes no drive, but another one
    does."""
    speed_mps = chords.speed_mps(_rolled(times.values, SCALES[times.unit]))
    if not np.isfinite(speed_mps) or SLOWEST_MPS <= speed_mps <= FASTEST_MPS:
        return
    others = {unit: speed_mps * SCALES[times.unit] / scale for unit, scale in SCALES.items()}
    meant = next(
        (unit for unit in ("s", "ms", "us", "ns") if SLOWEST_MPS <= others[unit] <= FASTEST_MPS), ""
    )
    if meant:
        raise CourseError(
            f"{times.name} is named as {times.unit}, in which the vehicle would drive "
            f"{speed_mps:.3g} m/s; in {meant} it is {others[meant]:.3g} m/s: "
            f"{cure.replace('UNIT', meant)}"
        )


def _rate_hz(values: Array) -> float:
    """Return the rate of the rows in 1 over the unit of ``values``."""
    steps = np.diff(values)
    steps = np.sort(steps[steps > 0.0])
    return 1.0 / float(steps[len(steps) // 2]) if len(steps) else 0.0


def _rolled(values: Array, scale: float, *, daily: bool = False) -> Array:
    """Return times in s, continued where a day, a GPS week or a counter of 32 bits ends and starts
    again."""
    seconds = values * scale
    back = np.flatnonzero(np.diff(seconds) < 0.0) + 1
    if not len(back):
        return np.asarray(seconds)
    added = np.zeros(len(seconds))
    for i in back.tolist():
        before, after = float(values[i - 1]), float(values[i])
        for period in (DAY_S / scale, WEEK_S / scale, COUNTER):
            edge = ROLL_OVER_FRACTION * period
            late = period - edge <= before <= period and 0.0 <= after <= edge
            if late or (daily and period * scale == DAY_S and before - after > 0.5 * period):
                added[i] = period * scale
                break
    return np.asarray(seconds + np.cumsum(added))


def _digits(values: Array) -> Array | None:
    """Return the seconds of the day of numbers as hhmmss; None if they are no such numbers."""
    if (
        not np.isfinite(values).all()
        or not len(values)
        or values.min() < 0.0
        or values.max() >= 240_000.0
    ):
        return None
    hours, rest = np.divmod(values, 10_000.0)
    minutes, seconds = np.divmod(rest, 100.0)
    if (minutes >= 60.0).any() or (seconds >= 61.0).any():
        return None
    return np.asarray(3600.0 * hours + 60.0 * minutes + seconds)


def _hhmmss(values: Array) -> Array | None:
    """Return the seconds of the day of numbers that can only be hhmmss: at each full minute they
    skip 40, and nowhere else."""
    seconds = _digits(values)
    if seconds is None:
        return None
    at_minutes = np.abs(np.diff(values) - np.diff(seconds)) > 1.0
    if not at_minutes.any():
        return None
    took = np.diff(seconds) % DAY_S
    steps, over = np.sort(took[took > 0.0]), np.sort(took[at_minutes])
    usual = float(steps[len(steps) // 2]) if len(steps) else 0.0
    return seconds if float(over[len(over) // 2]) <= 5.0 * usual else None


def _dated(text: str) -> float | None:
    found = _DATED.match(text) or _COMPACT.match(text)
    if found is None:
        return None
    year, month, day, *clock, zone = found.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _FIRST_DAY
    except ValueError:
        return None
    seconds = _clock_s(clock)
    if seconds is None or not 1970 <= int(year) <= 2200:
        return None
    return days * DAY_S + seconds - _zone_s(zone or "")


def _of_day(text: str) -> float | None:
    # The date beside it may be day or month first; midnight is seen without it.
    found = _OF_DAY.search(text)
    return None if found is None else _clock_s(list(found.groups()))


def _clock_s(parts: Sequence[str | None]) -> float | None:
    hour, minute, second = (int(part or 0) for part in parts[:3])
    fraction, half = float(f"0.{parts[3] or 0}"), (parts[4] or "").replace(".", "").lower()
    if half:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if half == "pm" else 0)
    if hour > 23 or minute > 59 or second > 60:
        return None
    return 3600.0 * hour + 60.0 * minute + second + fraction


def _zone_s(zone: str) -> float:
    if not zone or zone[0] not in "+-":
        return 0.0
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (1.0 if zone[0] == "+" else -1.0) * (3600.0 * int(digits[:2]) + 60.0 * int(digits[2:]))


def _minutes(text: str) -> float | None:
    found = _MINUTES.match(text)
    return None if found is None else 60.0 * int(found[1]) + float(found[2].replace(",", "."))


def _number(text: str) -> float:
    try:
        return float(text.replace(",", ".") if text.count(",") == 1 and "." not in text else text)
    except ValueError:
        return float("nan")


def gps_seconds(weeks: Array, of_week: Array) -> Array:
    """Return GPS seconds (n,) of week numbers and times of week, in s or ms by their size."""
    largest = float(np.nanmax(of_week)) if np.isfinite(of_week).any() else 0.0
    return np.asarray(weeks * WEEK_S + of_week * (1e-3 if largest > WEEK_S else 1.0))
