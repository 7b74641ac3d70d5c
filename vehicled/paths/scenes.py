"""Scenes by name, and the courses and lanes that a scene file draws.

A reference is ``SCENE[@SCALE][/COURSE]``: a shipped scene or a ``.toml`` file, the size in which it
is built, and one of its courses. What stands in a scene is read by the simulator
(``sim_backend.scene``).
"""

import re
import tomllib
from collections.abc import Sequence
from difflib import get_close_matches
from itertools import pairwise
from math import atan2, ceil, cos, hypot, pi, remainder, sin, sqrt, tan, tau
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import msgspec
import numpy as np
from msgspec import Meta, Struct, field

from vehicled.core import shipped
from vehicled.core.arrays import Array, arctan2, hypotenuse
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError

MAX_BYTES = 16 * 1024 * 1024
ROUNDING_STEP_RAD = 0.1
"""Largest turn between two waypoints of a rounded corner."""
WAYPOINT_M = 0.25
"""Distance of the waypoints, nearly the same on arcs and straights: the cubic through them then
follows both."""
_REFERENCE = re.compile(
    r"(?P<file>.*?\.toml|[a-z][a-z0-9_]*)(?:@(?P<scale>[^/@]*))?(?:/(?P<course>[a-z0-9_]+))?",
    re.DOTALL,
)

Coordinate = Annotated[float, Meta(ge=-200_000.0, le=200_000.0)]
Point = Annotated[list[Coordinate], Meta(min_length=2, max_length=2)]
Points = Annotated[list[Point], Meta(min_length=2, max_length=10_000)]
Width = Annotated[float, Meta(gt=0.0, le=1000.0)]
Name = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=32,
        description="lower-case letters, digits and underscores",
    ),
]


class SceneLane(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Lane along a line: drawn, and compared with the width of the vehicle."""

    name: Name
    points: Points
    """Corners of the centre line."""
    corner_radius_m: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0
    """Radius of the rounded corners; 0: a smooth line through the points."""
    closed: bool = False
    width_m: Width


class SceneCourse(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Course of a scene: along ``points``, along a lane, or along ``legs`` that are driven forward
    and backward in turn."""

    name: Name
    title: str = ""
    """One line for listings."""
    points: Annotated[list[Point], Meta(max_length=10_000)] = field(default_factory=list)
    legs: Annotated[list[Points], Meta(max_length=100)] = field(default_factory=list)
    """Each begins where the one before it ends."""
    lane: str = ""
    """Name of a lane of the scene."""
    corner_radius_m: Annotated[float, Meta(ge=0.0, le=1000.0)] = 0.0
    """Radius of the rounded corners; 0: a smooth line through the points. A lane has its own."""
    closed: bool = False
    speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] = 1.0


class SceneReference(NamedTuple):
    """Parsed reference of a scene."""

    file: Path
    """Scene file."""
    scale: float
    """Factor of all lengths."""
    course: str
    """Name of a course; empty if none is named."""


class _Drawn(NamedTuple):
    """Courses and lanes of a scene file."""

    courses: list[SceneCourse]
    lanes: list[SceneLane]


def names() -> list[str]:
    """Return the names of the shipped scenes, sorted."""
    return sorted(
        path.stem
        for path in shipped.folder("profiles/scenes").glob("*.toml")
        if "." not in path.stem
    )


def is_shipped(name: str) -> bool:
    """True for a reference to a shipped scene: a file would have an ending or a folder."""
    found = _REFERENCE.fullmatch(name)
    return found is not None and not found["file"].endswith(".toml")


def parse(name: str) -> SceneReference:
    """Return what a reference names. Raises CourseError for a shipped scene that does not exist,
    and for wrong options."""
    found = _REFERENCE.fullmatch(name)
    if found is None:
        return SceneReference(Path(name), 1.0, "")
    scale = 1.0
    if (text := found["scale"]) is not None:
        try:
            scale = float(text)
        except ValueError:
            scale = 0.0
        if not 0.01 <= scale <= 100.0:
            raise CourseError(
                f'{name[:80]}: "@{text[:40]}" is no size; write {found["file"][:60]}@0.1, from '
                "0.01 to 100"
            )
    file = found["file"]
    if file.endswith(".toml"):
        return SceneReference(Path(file), scale, found["course"] or "")
    if file not in names():
        close = get_close_matches(file, names(), n=1, cutoff=0.5)
        hint = f'did you mean "{close[0]}"? ' if close else ""
        raise CourseError(
            f'no scene "{file[:60]}"; {hint}known: {", ".join(names())}; or give a file '
            "(.toml, .geojson, .yaml)"
        )
    return SceneReference(
        shipped.folder("profiles/scenes") / f"{file}.toml", scale, found["course"] or ""
    )


def size_of(name: str) -> str:
    """Return the size behind the name of a scene, ``@0.1``; empty without one."""
    found = _REFERENCE.fullmatch(name)
    return f"@{found['scale']}" if found is not None and found["scale"] else ""


def title_of(name: str) -> str:
    """Return how the scene of a reference is called in texts: without its folder."""
    return f"{parse(name).file.stem}{size_of(name)}"


def absolute(name: str) -> str:
    """Return the reference of a user in the present folder as one that holds in every folder.
    Raises CourseError."""
    reference = parse(name)
    if reference.course:
        raise CourseError(f"{name[:80]}: names a course; write --scene and --course apart")
    return name if is_shipped(name) else f"{reference.file.expanduser().absolute()}{size_of(name)}"


def course_in(scene: str, course: str) -> str:
    """Return the name of the course to load for a drive in a scene: the course of the scene with
    that name, else ``course`` itself; for an empty one the scene's first course, or empty if the
    scene has none. Raises CourseError for an unreadable scene.
    """
    reference = parse(scene)
    if reference.file.suffix.lower() != ".toml":
        return course
    known = [each.name for each in _read(reference.file).courses]
    if not course:
        return f"{scene}/{known[0]}" if known else ""
    return f"{scene}/{course}" if course in known else course


def is_course(name: str) -> bool:
    """True for a reference that names a course of a scene."""
    found = _REFERENCE.fullmatch(name)
    return (
        found is not None
        and found["course"] is not None
        and (found["file"].endswith(".toml") or found["file"] in names())
    )


def load_course_of(name: str) -> Course:
    """Return the course that a reference names. Raises CourseError."""
    reference = parse(name)
    drawn = _read(reference.file)
    found = next((each for each in drawn.courses if each.name == reference.course), None)
    if found is None:
        known = ", ".join(each.name for each in drawn.courses) or "none"
        raise CourseError(f'{reference.file.name}: no course "{reference.course}"; known: {known}')
    return build_course(found, drawn.lanes, reference.scale, reference.file.name).renamed(
        f"{title_of(name)}/{reference.course}"
    )


def _read(path: Path) -> _Drawn:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise CourseError(f"{path}: larger than {MAX_BYTES >> 20} MiB; draw fewer corners")
        table = tomllib.loads(data.decode("utf-8-sig"))
    except OSError as error:
        raise CourseError(f"{path}: cannot be read ({error.strerror})") from None
    except (ValueError, RecursionError) as error:
        raise CourseError(f"{path}: not valid TOML: {str(error) or 'nested too deeply'}") from None
    return _Drawn(
        [
            _converted(path, "course", k, item, SceneCourse)
            for k, item in enumerate(_tables(path, table, "course"))
        ],
        [
            _converted(path, "lane", k, item, SceneLane)
            for k, item in enumerate(_tables(path, table, "lane"))
        ],
    )


def _tables(path: Path, table: dict[str, Any], key: str) -> list[Any]:
    found = table.get(key, [])
    if not isinstance(found, list):
        raise CourseError(f"{path}: {key} must be a list of tables: write [[{key}]]")
    return found


def _converted(path: Path, key: str, number: int, item: Any, kind: type[Any]) -> Any:
    try:
        return msgspec.convert(item, kind)
    except msgspec.ValidationError as error:
        said, _, at = str(error).partition(" - at ")
        raise CourseError(
            f"{path}: {key}[{number}]{at.strip('`$')}: {said[0].lower()}{said[1:]}"
        ) from None


def build_course(
    course: SceneCourse, lanes: Sequence[SceneLane], scale: float = 1.0, where: str = "scene"
) -> Course:
    """Return a course of a scene that is built in another size. Speeds go with the root of the
    scale, so that lateral accelerations stay. Raises CourseError.
    """
    place = f"{where}, course {course.name}"
    given = [key for key in ("points", "legs", "lane") if getattr(course, key)]
    if len(given) != 1:
        raise CourseError(
            f"{place}: has {' and '.join(given) or 'no line'}; give one of points, legs and lane"
        )
    radius_m, closed, legs = course.corner_radius_m, course.closed, course.legs or [course.points]
    if course.lane:
        lane = next((each for each in lanes if each.name == course.lane), None)
        if lane is None:
            raise CourseError(
                f'{place}: no lane "{course.lane}"; known: '
                f"{', '.join(each.name for each in lanes) or 'none'}"
            )
        radius_m, closed, legs = lane.corner_radius_m, lane.closed, [lane.points]
    if closed and course.legs:
        raise CourseError(f"{place}: legs change the direction, so the course cannot be closed")
    x, y, speeds = list[float](), list[float](), list[float]()
    direction = 1.0
    for points in legs:
        line = scale * rounded(
            points if not x else [[x[-1] / scale, y[-1] / scale], *points],
            radius_m,
            closed=closed,
            where=place,
        )
        for px, py in line[1 if x else 0 :].tolist():
            x.append(px)
            y.append(py)
            speeds.append(direction)
        if len(legs) > 1:
            # The cusp belongs to the leg behind it.
            speeds[-1] = direction = -direction
    speeds[-1] = speeds[-2]
    factor = course.speed_mps * sqrt(scale)
    return course_from_waypoints(
        place,
        x,
        y,
        speed=[factor * each for each in speeds],
        closed=closed,
        speed_holds=len(legs) > 1,
    )


def rounded(
    points: Sequence[Sequence[float]], radius_m: float, *, closed: bool, where: str
) -> Array:
    """Return waypoints (n, 2) along a line of points whose corners are arcs of a radius; the points
    for radius 0.

    Raises CourseError where an arc does not fit between its neighbours.
    """
    corners = np.array(points, dtype=np.float64)
    if not radius_m:
        return corners
    n = len(corners)
    legs = np.roll(corners, -1, axis=0) - corners
    lengths = hypotenuse(legs[:, 0], legs[:, 1])
    if not lengths[: n if closed else n - 1].all():
        raise CourseError(f"{where}: two points in a row are the same")
    bearing = arctan2(legs[:, 1], legs[:, 0])
    turns = [
        0.0
        if not closed and k in (0, n - 1)
        else remainder(float(bearing[k] - bearing[k - 1]), tau)
        for k in range(n)
    ]
    if any(abs(turn) > 0.95 * pi for turn in turns):
        raise CourseError(
            f"{where}: turns back at a corner, which cannot be rounded; use legs to change the "
            "direction"
        )
    cut = [radius_m * tan(0.5 * abs(turn)) for turn in turns]
    found: list[tuple[float, float]] = []
    for k in range(n):
        if closed or k < n - 1:
            after = (k + 1) % n
            if cut[k] + cut[after] > lengths[k] * (1.0 + 1e-9):
                raise CourseError(
                    f"{where}: between points {k + 1} and {after + 1} are {lengths[k]:.2f} m, "
                    f"but corners of radius {radius_m:g} m need {cut[k] + cut[after]:.2f} m; "
                    "choose a smaller corner_radius_m"
                )
        found += _arc(corners[k], float(bearing[k]), turns[k], radius_m, cut[k])
    line = np.array(found)
    if not closed:
        return _filled_in(line)
    ring = _filled_in(np.vstack((line, line[:1])))[:-1]
    # A lap begins in the middle of its first straight.
    middle = 0.5 * (
        (1.0 + (cut[0] - cut[1]) / lengths[0]) * corners[0]
        + (1.0 - (cut[0] - cut[1]) / lengths[0]) * corners[1]
    )
    return np.roll(ring, -int(hypotenuse(*(ring - middle).T).argmin()), axis=0)


def _arc(
    corner: Array, bearing_rad: float, turn_rad: float, radius_m: float, cut_m: float
) -> list[tuple[float, float]]:
    x, y = float(corner[0]), float(corner[1])
    if abs(turn_rad) < 1e-9:
        return [(x, y)]
    entry = bearing_rad - turn_rad
    side = 1.0 if turn_rad > 0.0 else -1.0
    middle_x = x - cut_m * cos(entry) - side * radius_m * sin(entry)
    middle_y = y - cut_m * sin(entry) + side * radius_m * cos(entry)
    steps = max(
        2, ceil(abs(turn_rad) / ROUNDING_STEP_RAD), round(radius_m * abs(turn_rad) / WAYPOINT_M)
    )
    angles = [entry + turn_rad * k / steps for k in range(steps + 1)]
    return [
        (middle_x + side * radius_m * sin(a), middle_y - side * radius_m * cos(a)) for a in angles
    ]


def _filled_in(line: Array) -> Array:
    """Return the line with waypoints on its long straight parts."""
    found = [line[:1]]
    for start, end in pairwise(line):
        parts = max(1, round(hypot(*(end - start).tolist()) / WAYPOINT_M))
        found.append(start + (end - start) * (np.arange(1, parts + 1) / parts)[:, None])
    return np.concatenate(found)


def lane_edges(lane: SceneLane, scale: float, where: str) -> tuple[Array, Array]:
    """Return the left and the right edge (n, 2) of a lane. Raises CourseError as its centre
    line."""
    line = scale * rounded(lane.points, lane.corner_radius_m, closed=lane.closed, where=where)
    if lane.closed:
        # One point more at each end, for the headings where they meet.
        line = np.vstack((line[-1:], line, line[:2]))
    heading = np.array([atan2(y, x) for x, y in np.asarray(np.gradient(line, axis=0)).tolist()])
    left = 0.5 * scale * lane.width_m * np.column_stack((-np.sin(heading), np.cos(heading)))
    inner = slice(1, -1) if lane.closed else slice(None)
    return (line + left)[inner], (line - left)[inner]
