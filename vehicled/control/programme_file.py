"""Read open-loop programmes from CSV files: one row per instant, named columns. Any bytes give a
programme or a ProgrammeError."""

from math import isfinite, radians
from pathlib import PurePath

from vehicled.control.programme import COLUMNS, MAX_ROWS, ProgrammeParams

RANGES = {
    "t_s": (0.0, 1e5),
    "wheel_angle_rad": (-1.5, 1.5),
    "steering": (-1.0, 1.0),
    "speed_mps": (-100.0, 100.0),
    "throttle": (-1.0, 1.0),
    "brake": (0.0, 1.0),
}
SETTINGS = ("name", "interpolation", "entry_speed_mps", "entry_s", "settle_s", "end_turn_deg")
KNOWN_COLUMNS = ("t_s", *COLUMNS)
MAX_BYTES = 2_000_000


class ProgrammeError(ValueError):
    """Error of a programme file; the text names file, line, column and remedy."""


def read_programme(data: bytes, file_name: str) -> ProgrammeParams:
    """Return the programme of a CSV file, for example

    ::

        # entry_speed_mps: 10
        t_s,speed_mps,wheel_angle_rad
        0.0,10,0
        0.2,10,0.05
        6.0,10,0.05

    Settings are comments before the header: ``interpolation`` (linear, or hold until the next row),
    ``entry_speed_mps``, ``entry_s``, ``settle_s``, ``end_turn_deg``, ``name``. A row with an empty
    speed uses throttle and brake; these are 0 if empty. Raises only :class:`ProgrammeError`.
    """
    label = PurePath(file_name).name or file_name
    if len(data) > MAX_BYTES:
        raise ProgrammeError(
            f"{label}: {len(data) / 1e6:.1f} MB; a programme has at most {MAX_BYTES / 1e6:.0f} MB"
        )
    try:
        lines = data.decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        number = data.count(b"\n", 0, error.start) + 1
        raise ProgrammeError(f"{label}, line {number}: not UTF-8 text; save it as such") from None
    settings: dict[str, str | float] = {"name": PurePath(file_name).stem[:60]}
    header: list[str] = []
    columns: dict[str, list[float]] = {}
    holds: list[bool] = []
    for number, line in enumerate(lines, 1):
        place = f"{label}, line {number}"
        text = line.strip()
        if text.startswith("#"):
            _setting(place, text, settings)
        elif text and not header:
            header = _header(place, text)
            columns = {name: [] for name in header}
        elif text:
            _row(place, text, header, columns, holds)
            if len(holds) > MAX_ROWS:
                raise ProgrammeError(f"{place}: more than {MAX_ROWS} rows; remove some")
    if len(holds) < 2:
        raise ProgrammeError(
            f"{label}: {len(holds)} row(s) below the header; add rows: a programme needs at "
            "least two"
        )
    turn_rad = radians(float(settings.pop("end_turn_deg", 0.0)))
    try:
        return ProgrammeParams(**columns, holds_speed=holds, end_turn_rad=turn_rad, **settings)  # type: ignore[arg-type]
    except ValueError as error:
        raise ProgrammeError(f"{label}: {error}") from None


def _setting(place: str, text: str, settings: dict[str, str | float]) -> None:
    key, colon, value = (part.strip() for part in text.lstrip("# ").partition(":"))
    if not colon or key not in SETTINGS:
        # Other comments are free text; one that looks like a setting is probably a misspelt
        # setting.
        if colon and " " not in key and "_" in key:
            raise ProgrammeError(f'{place}: no setting "{key[:40]}"; known: {", ".join(SETTINGS)}')
        return
    if key == "name":
        settings[key] = value[:60]
        return
    if key == "interpolation":
        if value not in ("linear", "hold"):
            raise ProgrammeError(f'{place}: interpolation is "{value[:40]}"; use linear or hold')
        settings[key] = value
        return
    least = 0.01 if key == "entry_s" else 0.0
    number = _number(place, key, value)
    if not least <= number <= 1e4:
        raise ProgrammeError(
            f"{place}: {key} is {number:g}; it must be between {least:g} and 10000"
        )
    settings[key] = number


def _header(place: str, text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    for k, name in enumerate(names):
        if name not in KNOWN_COLUMNS:
            raise ProgrammeError(
                f'{place}, column {k + 1}: "{name[:40]}" is not a column of a programme; '
                f"known: {', '.join(KNOWN_COLUMNS)}"
            )
        if name in names[:k]:
            raise ProgrammeError(f"{place}, column {k + 1}: {name} is given twice; remove one")
    if "t_s" not in names:
        raise ProgrammeError(f"{place}: no column t_s; every row needs its time in seconds")
    if "speed_mps" not in names and "throttle" not in names:
        raise ProgrammeError(
            f"{place}: neither speed_mps nor throttle; give the speed to hold, or the throttle"
        )
    if "wheel_angle_rad" in names and "steering" in names:
        raise ProgrammeError(f"{place}: wheel_angle_rad and steering are both given; remove one")
    return names


def _row(
    place: str, text: str, header: list[str], columns: dict[str, list[float]], holds: list[bool]
) -> None:
    cells = [cell.strip() for cell in text.split(",")]
    if len(cells) != len(header):
        raise ProgrammeError(
            f"{place}: {len(cells)} values for {len(header)} columns; an empty cell needs its comma"
        )
    holds.append(False)
    for name, cell in zip(header, cells, strict=True):
        if name == "speed_mps":
            holds[-1] = cell != ""
        if cell == "" and name in ("speed_mps", "throttle", "brake"):
            columns[name].append(0.0)
            continue
        value = _number(f"{place}, column {name}", name, cell)
        low, high = RANGES[name]
        if not low <= value <= high:
            raise ProgrammeError(
                f"{place}, column {name}: {value:g} is outside {low:g} to {high:g}"
            )
        columns[name].append(value)
    times = columns["t_s"]
    if len(times) > 1 and not times[-1] > times[-2]:
        raise ProgrammeError(
            f"{place}, column t_s: {times[-1]:g} is not later than {times[-2]:g}; times must "
            "increase"
        )


def _number(place: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise ProgrammeError(
            f'{place}: "{text[:40]}" is not a number ({name}); use a decimal point'
        ) from None
    if not isfinite(value):
        raise ProgrammeError(f"{place}: {name} is {value}; it must be a finite number")
    return value
