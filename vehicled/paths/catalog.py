"""Courses by name: those drawn by formula, those shipped as files, and the user's own files."""

from collections.abc import Callable
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from stat import S_ISREG

from vehicled import shipped
from vehicled.paths import formulas
from vehicled.paths.course import Course
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import ENDINGS, MAX_BYTES, course_from_bytes

_FORMULAS: dict[str, Callable[[], Course]] = {
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
    "double_lane_change": formulas.double_lane_change,
    "figure_eight": formulas.figure_eight,
    "parallel_parking": formulas.parallel_parking,
    "three_point_turn": formulas.three_point_turn,
}


def names() -> list[str]:
    """Every course that goes by a name, sorted."""
    return sorted({*_FORMULAS, *(path.stem for path in shipped.folder("profiles/courses").glob("*.csv"))})


def load_course(name_or_file: str) -> Course:
    """The course of that name, else the one in that file. Raises CourseError naming what is wrong and what would be right."""
    if name_or_file in _FORMULAS:
        return _FORMULAS[name_or_file]()
    known = names()
    if name_or_file in known:
        return _from_file(shipped.folder("profiles/courses") / f"{name_or_file}.csv", name_or_file).renamed(name_or_file)
    looks_like_file = "/" in name_or_file or "\\" in name_or_file or Path(name_or_file).suffix.lower() in ENDINGS
    if looks_like_file or _exists(name_or_file):
        return _from_file(Path(name_or_file), name_or_file)
    close = get_close_matches(name_or_file, known, n=1, cutoff=0.5)
    hint = f'did you mean "{close[0]}"? ' if close else ""
    raise CourseError(f'no course "{name_or_file[:60]}"; {hint}known: {", ".join(known)}; or give a file ({", ".join(ENDINGS)})')


def _exists(name: str) -> bool:
    try:
        return bool(name) and Path(name).exists()
    except (OSError, ValueError):
        return False


def _from_file(path: Path, shown: str) -> Course:
    try:
        if path.is_dir():
            raise CourseError(f"{shown}: is a folder; name the course file in it")
        status = path.stat()
        if not S_ISREG(status.st_mode):
            raise CourseError(f"{shown}: is not a regular file; copy the course into one")
        size = status.st_size
        if size > MAX_BYTES:
            raise CourseError(f"{shown}: {size / 1e6:.0f} MB; a course file has at most {MAX_BYTES / 1e6:.0f} MB: thin it out")
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
    return course_from_bytes(data, path.name)


def _siblings(path: Path) -> list[Path]:
    try:
        return list(path.parent.iterdir())
    except (OSError, ValueError):
        return []
