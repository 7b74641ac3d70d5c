"""Reader of scene files: TOML in metres of the map, GeoJSON in longitude and latitude, or the YAML of an occupancy grid."""

from collections.abc import Sequence
from math import cos, hypot, sin
from pathlib import Path
from typing import Any

import numpy as np

from sim_backend.scene.anchor import bytes_of, expanded
from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Moving
from sim_backend.scene.occupancy import Occupancy, read_map
from sim_backend.scene.scene import Scene
from sim_backend.scene.schema import RULES, Data, MovingThing, OnCourse, SceneFile
from sim_backend.scene.shapes import Bodies
from vehicled.core.arrays import Array
from vehicled.paths.course import Course
from vehicled.paths.course_file import shown
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import GeoFeature, features_of, map_position, map_positions, map_ring
from vehicled.profile import toml_text
from vehicled.profile.collect import Collector
from vehicled.profile.problems import ProfileError

KIND = "GeoJSON of obstacles"
CORRIDOR_STEP = 3
"""Samples of the course per corner of a corridor wall."""
MOVING_KEYS = ("start_s", "speed_mps", "times_s", "radius_m", "outline")


def load_scene(name: str, course: Course) -> Scene:
    """Load the scene of a file, on the map of ``course``; an empty name gives an empty scene. Raises :class:`SceneError`."""
    if not name:
        return Scene()
    path = expanded(name)
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml"):
        return Scene(grid=read_map(path))
    if kind not in (".toml", ".geojson", ".json"):
        raise SceneError(f"{path}: unknown scene format; use .toml, .geojson, or the .yaml of a map_server grid")
    data = bytes_of(path, "sim.scene")
    return build_scene(_toml(path, data) if kind == ".toml" else _geojson(path, data, course), course, path.parent)


def build_scene(file: SceneFile, course: Course, folder: Path) -> Scene:
    """Build the scene that a file describes. Raises :class:`SceneError` for the map it names."""
    walls = [_chain([_place(p, course) for p in wall.points], wall.closed) for wall in file.wall]
    if file.corridor is not None:
        walls += [_offset_line(course, file.corridor.left_m), _offset_line(course, -file.corridor.right_m)]
    circles = [(*_place(circle.at, course), circle.radius_m) for circle in file.circle]
    grid: Occupancy | None = read_map(folder / file.map) if file.map else None
    return Scene(
        np.concatenate(walls) if walls else None,
        np.array(circles) if circles else None,
        Bodies([[_place(p, course) for p in body.points] for body in file.body]),
        grid,
        [_moving(thing, course) for thing in file.moving],
    )


def _place(place: Sequence[float] | OnCourse, course: Course) -> tuple[float, float]:
    if not isinstance(place, OnCourse):
        return float(place[0]), float(place[1])
    s, x, y, s_m = course.s_m, course.x_m, course.y_m, place.s_m
    if course.closed:
        s, x, y = (np.append(a, end) for a, end in ((s, course.length_m), (x, x[0]), (y, y[0])))
        s_m %= course.length_m
    s_m = min(s_m, float(s[-1]))
    at = min(int(np.searchsorted(s, s_m, "right")) - 1, len(s) - 2)
    dx, dy = float(x[at + 1] - x[at]), float(y[at + 1] - y[at])
    fraction, length = (s_m - float(s[at])) / float(s[at + 1] - s[at]), hypot(dx, dy)
    return (
        float(x[at]) + fraction * dx - place.left_m * dy / length,
        float(y[at]) + fraction * dy + place.left_m * dx / length,
    )


def _chain(points: Sequence[tuple[float, float]], closed: bool) -> Array:
    corners = np.array([*points, points[0]] if closed else points, dtype=np.float64)
    return np.hstack((corners[:-1], corners[1:]))


def _offset_line(course: Course, left_m: float) -> Array:
    rows = sorted({*range(0, len(course.x_m), CORRIDOR_STEP), len(course.x_m) - 1})
    # Left and right are the vehicle's sides, also where it drives backward.
    points = [
        (float(course.x_m[k]) - left_m * sin(course.yaw_rad[k]), float(course.y_m[k]) + left_m * cos(course.yaw_rad[k]))
        for k in rows
    ]
    return _chain(points, course.closed)


def _moving(thing: MovingThing, course: Course) -> Moving:
    places = [_place(place, course) for place in thing.places]
    times = list(thing.times_s)
    if not times:
        times = [thing.start_s]
        kept = places[:1]
        for place in places[1:]:
            distance_m = hypot(place[0] - kept[-1][0], place[1] - kept[-1][1])
            if distance_m > 0.0:
                assert thing.speed_mps is not None
                times.append(times[-1] + distance_m / thing.speed_mps)
                kept.append(place)
        places = kept
    return Moving(places, times, thing.radius_m, [(float(x), float(y)) for x, y in thing.outline])


def _toml(path: Path, data: bytes) -> SceneFile:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SceneError(f"{path}: is not UTF-8 text (line {line}); save it as UTF-8") from None
    try:
        table = toml_text.parse(text, str(path))
    except ProfileError as error:
        raise SceneError(str(error)) from None
    return _collect(path, table, lambda key: toml_text.Places(text, []).of(key))


def _collect(path: Path, table: Data, place: Any) -> SceneFile:
    collector = Collector(place, RULES)
    file = collector.build(SceneFile, table)
    if collector.problems:
        raise SceneError(str(ProfileError(collector.problems, str(path))))
    found: SceneFile = file
    return found


def _geojson(path: Path, data: bytes, course: Course) -> SceneFile:
    table: dict[str, list[Data]] = {"wall": [], "body": [], "circle": [], "moving": []}
    where: dict[tuple[str, int], str] = {}
    try:
        for feature in features_of(data, str(path), KIND):
            kind, entry = _entry(f"{path}, {feature.place}", feature, course.datum)
            where[kind, len(table[kind])] = feature.place
            table[kind].append(entry)
    except CourseError as error:
        raise SceneError(str(error)) from None
    return _collect(path, dict(table), lambda key: where.get(tuple(key[:2]), ""))


def _entry(place: str, feature: GeoFeature, datum: Datum) -> tuple[str, Data]:
    """Return the scene table and its entry, in metres of the map. Raises CourseError."""
    geometry, properties = feature.geometry, feature.properties
    coordinates = geometry.get("coordinates")
    if not geometry:
        raise CourseError(f"{place}: the feature has no geometry; draw it again or delete it")
    match geometry.get("type"):
        case "LineString" if any(key in properties for key in ("speed_mps", "times_s")):
            own = {key: properties[key] for key in MOVING_KEYS if key in properties}
            return "moving", {"places": map_positions(place, coordinates, datum), **own}
        case "LineString":
            return "wall", {"points": map_positions(place, coordinates, datum)}
        case "Point":
            if "radius_m" not in properties:
                raise CourseError(f"{place}: a Point is a circle; give it the property radius_m")
            return "circle", {"at": map_position(place, coordinates, datum), "radius_m": properties["radius_m"]}
        case "Polygon" if isinstance(coordinates, list) and len(coordinates) == 1:
            return "body", {"points": map_ring(place, coordinates[0], datum)}
        case "Polygon":
            raise CourseError(
                f"{place}: a Polygon must have one ring; draw objects in its holes as Polygons, its edge as a LineString"
            )
    raise CourseError(
        f"{place}: {shown(geometry.get('type'))} is not supported; draw walls as LineString, bodies as Polygon, posts as Point"
    )
