"""Track files: a table of the centre line with the distances to both walls.

The columns of TUM's race track database and of the F1TENTH tracks are known by their names:
``x_m, y_m, w_tr_right_m, w_tr_left_m``, in a header line or in a comment, separated by commas,
semicolons, tabs or blanks. Four columns without a header are taken in this order, which is that of
every collection known.
"""

import re
from io import StringIO
from pathlib import Path

from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.track import MAX_POINTS, RaceTrack, track_of
from vehicled.paths.course_file import text_of
from vehicled.paths.formats import MAX_BYTES

KIND = "a table of the centre line: x_m, y_m, w_tr_right_m, w_tr_left_m"
ORDER = ("x", "y", "right", "left")
_NAMES = {
    "x": {"x", "x_m", "xm", "center_x", "centre_x"},
    "y": {"y", "y_m", "ym", "center_y", "centre_y"},
    "right": {"w_tr_right_m", "w_tr_right", "right_m", "width_right", "width_right_m", "w_right"},
    "left": {"w_tr_left_m", "w_tr_left", "left_m", "width_left", "width_left_m", "w_left"},
}
_RACE_LINE = {"psi_rad", "kappa_radpm", "vx_mps", "ax_mps2"}
_COMMENTS = ("#", "%", "//")
_UNIT = re.compile(r"_(mm|cm|km|ft|in|deg)$")
_SEPARATORS = (";", ",", "\t", " ")
_SHOWN = {";": "semicolons", ",": "commas", "\t": "tabs", " ": "blanks"}


def read_track(path: Path) -> RaceTrack:
    """Read a track file. Raises :class:`RaceError`, its text beginning with the file's name."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RaceError(f"{path}: cannot be read ({error.strerror}); check the name") from None
    if len(data) > MAX_BYTES:
        raise RaceError(f"{path}: more than {MAX_BYTES // 1_000_000} MB; expected {KIND}")
    return track_from_text(text_of(data, str(path), KIND), str(path))


def track_from_text(text: str, name: str) -> RaceTrack:
    """Return the track of a table. Raises :class:`RaceError`."""
    comments: list[str] = []
    rows: list[tuple[int, str]] = []
    for number, line in enumerate(StringIO(text, newline=None), start=1):
        stripped = line.strip()
        if stripped.startswith(_COMMENTS):
            if not rows:
                comments.append(stripped.lstrip("#%/ \t"))
        elif stripped:
            rows.append((number, stripped))
            if len(rows) > MAX_POINTS + 1:
                raise RaceError(f"{name}: more than {MAX_POINTS} points; thin the file out")
    if not rows:
        raise RaceError(f"{name}: only comments, no points; expected {KIND}")
    header = ""
    if not _numbers(rows[0][1], _separator(rows[0][1])):
        header = rows[0][1]
        rows = rows[1:]
        if not rows:
            raise RaceError(f"{name}: a header without points; expected {KIND}")
    separator = _separator(rows[0][1])
    width = len(_cells(rows[0][1], separator))
    remarks: list[str] = []
    columns = _columns(name, header, comments, separator, width, rows[0], remarks)
    values: dict[str, list[float]] = {role: [] for role in ORDER}
    for number, line in rows:
        cells = _cells(line, separator)
        if len(cells) != width:
            raise RaceError(
                f"{name}, line {number}: {len(cells)} values, where the first line has {width} "
                f"(separated by {_SHOWN[separator]}); complete or delete the line"
            )
        for role in ORDER:
            cell = cells[columns[role]]
            try:
                values[role].append(float(cell))
            except ValueError:
                cure = (
                    "write decimal points, not commas"
                    if "," in cell
                    else "every value is a number of metres"
                )
                raise RaceError(
                    f"{name}, line {number}: {cell[:30]!r} is not a number; {cure}"
                ) from None
    return track_of(
        name,
        values["x"],
        values["y"],
        values["right"],
        values["left"],
        places=[f"line {number}" for number, _ in rows],
        remarks=tuple(remarks),
    )


def _columns(
    name: str,
    header: str,
    comments: list[str],
    separator: str,
    width: int,
    first: tuple[int, str],
    remarks: list[str],
) -> dict[str, int]:
    if width == 1:
        raise RaceError(
            f"{name}, line {first[0]}: one value, {first[1][:40]!r}; the columns are separated by "
            f"commas, semicolons, tabs or blanks; expected {KIND}"
        )
    for text in ([header] if header else []) + comments[::-1]:
        for mark in dict.fromkeys((separator, *_SEPARATORS)):
            names = [cell.lower() for cell in _cells(text, mark)]
            found = {
                role: names.index(known)
                for role, group in _NAMES.items()
                for known in names
                if known in group
            }
            if not {"x", "y"} <= found.keys():
                continue
            if len(names) != width:
                raise RaceError(
                    f"{name}, line {first[0]}: {width} values (separated by {_SHOWN[separator]}), "
                    f"but the header names {len(names)}; use one separator in the whole file"
                )
            _check_roles(name, names, found)
            return found
        if text is header and header:
            _check_units(name, [cell.lower() for cell in _cells(text, _separator(text))])
            raise RaceError(
                f"{name}: the header names no x_m and y_m ({header[:60]!r}); expected {KIND}"
            )
    if width == len(ORDER):
        remarks.append("no header: the columns are x, y, width to the right, width to the left")
        return {role: k for k, role in enumerate(ORDER)}
    raise RaceError(f"{name}, line {first[0]}: {width} columns without a header; expected {KIND}")


def _check_roles(name: str, names: list[str], found: dict[str, int]) -> None:
    _check_units(name, names)
    lacking = [role for role in ("right", "left") if role not in found]
    if not lacking:
        return
    if _RACE_LINE & set(names):
        raise RaceError(
            f"{name}: this is a race line without the widths of its track; give the file of the "
            "centre line, or drive it as it is: vehicled sim --course FILE"
        )
    raise RaceError(
        f"{name}: no column with the width to the {' and to the '.join(lacking)}; expected {KIND}"
    )


def _check_units(name: str, names: list[str]) -> None:
    for each in names:
        unit = _UNIT.search(each)
        if unit:
            raise RaceError(f"{name}: column {each!r} is in {unit[1]}; convert the file to metres")
    if {"lat", "lon"} & set(names) or {"latitude", "longitude"} & set(names):
        raise RaceError(
            f"{name}: positions in degrees; convert the centre line to metres east and north"
        )


def _separator(line: str) -> str:
    return next((mark for mark in _SEPARATORS if mark in line), ",")


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    cells = [cell.strip().strip('"') for cell in line.split(separator)]
    return cells[:-1] if len(cells) > 1 and not cells[-1] else cells


def _numbers(line: str, separator: str) -> bool:
    """Return True if a line is no header: any of its values is a number, or it has no letter."""
    if not re.search(r"[A-Za-z]", line):
        return True
    for cell in _cells(line, separator):
        try:
            float(cell)
        except ValueError:
            continue
        return True
    return False
