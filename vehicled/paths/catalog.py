"""Courses by name: those drawn by formula, those shipped as files, and the user's own files."""

import inspect
import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import partial
from math import pi
from pathlib import Path
from stat import S_ISREG

from vehicled.core import shipped
from vehicled.paths import formulas, manoeuvres, scenes
from vehicled.paths.course import Course
from vehicled.paths.course_file import DEFAULTS, ReadOptions
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import ENDINGS, MAX_BYTES, course_from_bytes
from vehicled.paths.random_course import random_course
from vehicled.paths.times import UNITS

_FORMULAS: dict[str, Callable[..., Course]] = {
    "straight_20m": partial(formulas.straight, 20.0, name="straight_20m"),
    "straight_30m": partial(formulas.straight, 30.0, name="straight_30m"),
    "circle_r2_ccw": partial(formulas.circle, 2.0, "ccw", name="circle_r2_ccw"),
    "circle_r2_cw": partial(formulas.circle, 2.0, "cw", name="circle_r2_cw"),
    "circle_r5_ccw": partial(formulas.circle, 5.0, "ccw", name="circle_r5_ccw"),
    "circle_r5_cw": partial(formulas.circle, 5.0, "cw", name="circle_r5_cw"),
    "circle_r25_ccw": partial(formulas.circle, 25.0, "ccw", name="circle_r25_ccw"),
    "circle_r25_cw": partial(formulas.circle, 25.0, "cw", name="circle_r25_cw"),
    "sine": partial(formulas.sine, 2.0, 0.3, 30.0, name="sine"),
    "sine_tight": partial(formulas.sine, 2.0, 0.5, 30.0, name="sine_tight"),
    "square": formulas.square,
    "circle_r1_slow": partial(formulas.circle, 1.0, "ccw", speed_mps=0.2, name="circle_r1_slow"),
    "double_lane_change": formulas.double_lane_change,
    "double_lane_change_fast": partial(
        formulas.double_lane_change, speed_mps=8.0, name="double_lane_change_fast"
    ),
    "figure_eight": formulas.figure_eight,
    "figure_eight_fast": partial(formulas.figure_eight, speed_mps=3.0, name="figure_eight_fast"),
    "parallel_parking": formulas.parallel_parking,
    "three_point_turn": formulas.three_point_turn,
    "iso_3888_1": partial(manoeuvres.iso_3888, manoeuvres.ISO_3888_1, name="iso_3888_1"),
    "iso_3888_2": partial(manoeuvres.iso_3888, manoeuvres.ISO_3888_2, name="iso_3888_2"),
    "iso_3888_1_tenth": partial(
        manoeuvres.iso_3888, manoeuvres.ISO_3888_1, scale=0.1, name="iso_3888_1_tenth"
    ),
    "iso_3888_2_tenth": partial(
        manoeuvres.iso_3888, manoeuvres.ISO_3888_2, scale=0.1, name="iso_3888_2_tenth"
    ),
    "chrono_iso": partial(manoeuvres.lane_change, name="chrono_iso"),
    "chrono_nato": partial(
        manoeuvres.lane_change, ramp_m=28.93, offset_m=3.6105, length_m=25.0, name="chrono_nato"
    ),
    "slalom": manoeuvres.slalom,
    "slalom_tenth": partial(manoeuvres.slalom, 1.8, speed_mps=2.0, name="slalom_tenth"),
    "turn": manoeuvres.turn,
    "rectangle_20x45": partial(manoeuvres.rectangle, name="rectangle_20x45"),
    "u_shape": manoeuvres.u_turn,
    "half_sine": partial(manoeuvres.wave, 3.0, pi / 20.0, 0.0, 20.0, name="half_sine"),
    "room_sine_1": partial(manoeuvres.wave, 1.0, 0.5, phase_rad=pi / 2.0, name="room_sine_1"),
    "room_sine_2": partial(manoeuvres.wave, 1.5, 0.5, name="room_sine_2"),
    "room_sine_3": partial(manoeuvres.wave, 0.5, 1.0, name="room_sine_3"),
    "lot17_sine_square": manoeuvres.sine_square,
    "straight_run": manoeuvres.straight_run,
    "random": random_course,
}
_FORMULAS |= {
    (name := f"{line}_two_speed"): partial(_FORMULAS[line], second_mps=2.0, name=name)
    for line in (
        "circle_r2_ccw", "circle_r2_cw", "circle_r5_ccw", "circle_r5_cw", "circle_r25_ccw",
        "circle_r25_cw", "straight_30m",
    )
}  # fmt: skip
"""The seven lines of the published imitation study (2023) at 1 m/s on their first half and 2 m/s on
their second."""
_MPH = 0.44704
_THESIS: tuple[tuple[str, tuple[int, ...], Callable[..., Course]], ...] = (
    ("st", (5,), manoeuvres.straight_run),
    ("left", (10, 15), partial(manoeuvres.turn, radius_m=12.5, angle_deg=90.0)),
    ("ss", (20, 25, 30), partial(manoeuvres.turn, radius_m=64.0, angle_deg=180.0)),
    ("dlc", (30, 35, 40), partial(manoeuvres.iso_3888, manoeuvres.ISO_3888_1, ease_m=5.0)),
)
"""The nine of the study of a HMMWV at low simulation rates (Michigan Tech 2022) by kind, speed in
mph and line. It gives no coordinates: the radii are inferred, from the 15 s of a half turn at 30
mph and from a sharp corner. It tracked traces that the vehicle had driven, so the lane changes are
eased. A missed box is a failure."""
_FORMULAS |= {
    (name := f"thesis_{kind}{mph}"): partial(line, speed_mps=mph * _MPH, boxes=True, name=name)
    for kind, speeds, line in _THESIS
    for mph in speeds
}

_FILE_PARAMETERS = {
    "columns": "x,y,... for a table without a header",
    "gaps": "bridge to drive straight across what was not recorded",
    "time": "s, ms, us, ns, hhmmss, ...",
    "line": "name or number of one of several lines",
    "crs": "EPSG:32616 or another projection of x and y",
}
"""Parameters of a course file."""
_FITTED = ("width_m", "centre_m", "turn_radius_m")
"""Parameters that come from the vehicle where the user gives none."""


def names() -> list[str]:
    """Return the names of all shipped courses, sorted."""
    return sorted(
        {*_FORMULAS, *(path.stem for path in shipped.folder("profiles/courses").glob("*.csv"))}
    )


def load_course(
    name_or_file: str,
    *,
    width_m: float | None = None,
    centre_m: float | None = None,
    turn_radius_m: float | None = None,
) -> Course:
    """Return the course of that name, else the one in that file. Raises CourseError with the
    mistake and its cure.

    A course drawn by formula takes parameters: ``circle_r5_ccw:laps=3,speed_mps=2``, and so does a
    file: ``columns=x,y,-,speed``, ``gaps=bridge``, ``time=ms`` and ``line=2`` are those of
    :class:`~vehicled.paths.course_file.ReadOptions`. ``SCENE/COURSE`` is a course of a scene, see
    :mod:`.scenes`.

    ``width_m``, ``centre_m``, the distance from the rear axle to the middle, and ``turn_radius_m``,
    the tightest turn, are the vehicle's; a course that fits its lanes or bends to a vehicle uses
    them.
    """
    head, colon, given = name_or_file.partition(":")
    if head in _FORMULAS:
        fit = {
            key: value
            for key, value in zip(_FITTED, (width_m, centre_m, turn_radius_m), strict=True)
            if value is not None
        }
        course = _drawn(head, given, fit)
        return course.renamed(name_or_file) if colon else course
    if scenes.is_course(name_or_file):
        return scenes.load_course_of(name_or_file)
    known = names()
    if name_or_file in known:
        return _from_file(
            shipped.folder("profiles/courses") / f"{name_or_file}.csv", name_or_file
        ).renamed(name_or_file)
    file, options = _with_options(name_or_file)
    looks_like_file = "/" in file or "\\" in file or Path(file).suffix.lower() in ENDINGS
    if looks_like_file or _exists(file):
        return _from_file(Path(file), file, options)
    close = get_close_matches(name_or_file, known, n=1, cutoff=0.5)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise CourseError(
        f'no course "{name_or_file[:60]}"; {hint}known: {", ".join(known)}; or give a file '
        f"({', '.join(ENDINGS)})"
    )


def _with_options(name_or_file: str) -> tuple[str, ReadOptions]:
    """Return a file and what is said of it behind its name. Raises CourseError for another
    parameter."""
    # The name of a projection holds a colon.
    file, colon, given = re.sub(r"(crs=\w+):(?=\d+(,|$))", r"\1 ", name_or_file).rpartition(":")
    if not colon or Path(file).suffix.lower() not in ENDINGS or _exists(name_or_file):
        return name_or_file, DEFAULTS
    values: dict[str, list[str]] = {}
    key = ""
    for item in given.split(","):
        name, equals, value = item.partition("=")
        if equals and name in _FILE_PARAMETERS:
            key, value = name, value.strip()
            values[key] = [value] if value else []
        elif key == "columns":
            values[key].append(item.strip())
        else:
            values = {}
            break
    if not all(values.values()) or not values:
        known = "; ".join(f"{name}={what}" for name, what in _FILE_PARAMETERS.items())
        raise CourseError(
            f'{file}: "{given[:40]}" is no parameter of a course file; known: {known}'
        )
    bridging, unit = values.get("gaps", [""])[0], values.get("time", [""])[0]
    if bridging not in ("", "bridge"):
        raise CourseError(
            f"{file}: gaps={bridging[:40]}: write gaps=bridge, or leave it out and a gap is refused"
        )
    if unit not in ("", *UNITS):
        raise CourseError(f"{file}: time={unit[:40]}: the units are {', '.join(UNITS)}")
    columns, line = tuple(values.get("columns", ())), values.get("line", [""])[0]
    crs = values.get("crs", [""])[0].replace(" ", ":")
    return file, ReadOptions(columns, bridge_gaps=bool(bridging), time=unit, line=line, crs=crs)


def parameters(name: str) -> dict[str, object]:
    """Return the parameters of a course drawn by formula with their defaults, None for a dependent
    one. Empty for other names."""
    if name not in _FORMULAS:
        return {}
    found = {
        key: p.default
        for key, p in inspect.signature(_FORMULAS[name]).parameters.items()
        if key != "name"
    }
    return {
        key: default for key, default in found.items() if default is not inspect.Parameter.empty
    }


def _drawn(name: str, given: str, fit: Mapping[str, float]) -> Course:
    """Return a course by formula with the parameters of a text such as ``speed_mps=2,laps=3``."""
    known = parameters(name)
    values: dict[str, object] = {key: value for key, value in fit.items() if key in known}
    for item in filter(None, given.split(",")):
        key, equals, text = item.partition("=")
        if key not in known or not equals:
            close = get_close_matches(key, known, n=1, cutoff=0.5)
            hint = f' did you mean "{close[0]}"?' if close else ""
            raise CourseError(
                f'{name}: "{item[:40]}" is no parameter of this course;{hint} known: '
                f"{', '.join(known)}; write key=value"
            )
        values[key] = _value(name, key, text, known[key])
    return _FORMULAS[name](**values)


def _value(name: str, key: str, text: str, default: object) -> object:
    if isinstance(default, str):
        return text
    if isinstance(default, bool):
        if text not in ("yes", "no"):
            raise CourseError(f'{name}: {key} is "{text[:40]}"; it is yes or no')
        return text == "yes"
    try:
        return int(text) if isinstance(default, int) else float(text)
    except ValueError:
        kind = "a whole number" if isinstance(default, int) else "a number"
        raise CourseError(f'{name}: {key} is "{text[:40]}"; it must be {kind}') from None


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):
        return False


def _from_file(path: Path, shown: str, options: ReadOptions = DEFAULTS) -> Course:
    try:
        if path.is_dir():
            raise CourseError(f"{shown}: is a folder; name the course file in it")
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise CourseError(f"{shown}: is not a regular file; copy the course into one")
        size = status.st_size
        if size > MAX_BYTES:
            raise CourseError(
                f"{shown}: {size / 1e6:.0f} MB; a course file has at most "
                f"{MAX_BYTES / 1e6:.0f} MB: thin it out"
            )
        with path.open("rb") as file:
            # A file that grows meanwhile must not fill the memory.
            data = file.read(MAX_BYTES + 1)
    except FileNotFoundError:
        close = get_close_matches(path.name, [p.name for p in _siblings(path)], n=1, cutoff=0.6)
        hint = f'; did you mean "{close[0]}"?' if close else ""
        raise CourseError(f"{shown}: no such file{hint}") from None
    except CourseError:
        raise
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise CourseError(f"{shown!r}: cannot be read: {reason}") from None
    return course_from_bytes(data, path.name, options)


def _siblings(path: Path) -> list[Path]:
    try:
        return list(path.parent.iterdir())
    except (OSError, ValueError):
        return []
