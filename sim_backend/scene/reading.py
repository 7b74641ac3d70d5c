"""A scene out of its file: TOML in metres of the map, GeoJSON in longitude and latitude, or the YAML of an occupancy grid."""

from collections.abc import Mapping, Sequence
from math import cos, hypot, radians, sin
from pathlib import Path
from typing import Any

import numpy as np

from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Moving
from sim_backend.scene.occupancy import Occupancy, read_map
from sim_backend.scene.rays import Array
from sim_backend.scene.scene import Scene
from sim_backend.scene.schema import RULES, Data, MovingThing, OnCourse, SceneFile
from sim_backend.scene.shapes import Bodies
from vehicled.paths.course import Course
from vehicled.paths.drawing import json_of, number, shown
from vehicled.paths.errors import CourseError
from vehicled.profile import toml_text
from vehicled.profile.collect import Collector
from vehicled.profile.problems import ProfileError

KIND = "GeoJSON of obstacles"
MAX_BYTES = 16 * 1024 * 1024
CORRIDOR_STEP = 3
"""Samples of the course between two corners of a corridor's wall."""
MOVING_KEYS = ("start_s", "speed_mps", "times_s", "radius_m", "outline")


def load_scene(name: str, course: Course) -> Scene:
    """The scene of a file, on the map of ``course``; an empty one without a name. Raises :class:`SceneError`."""
    if not name:
        return Scene()
    path = Path(name).expanduser()
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml"):
        return Scene(grid=read_map(path))
    if kind not in (".toml", ".geojson", ".json"):
        raise SceneError(f"{path}: a scene is a .toml, a .geojson, or the .yaml of a map_server grid")
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SceneError(f"{path}: cannot be read ({error.strerror}); a scene's path counts from the profile") from None
    if len(data) > MAX_BYTES:
        raise SceneError(f"{path}: larger than {MAX_BYTES >> 20} MiB; draw fewer corners, or use an occupancy grid")
    return build_scene(_toml(path, data) if kind == ".toml" else _geojson(path, data, course), course, path.parent)


def build_scene(file: SceneFile, course: Course, folder: Path) -> Scene:
    """The scene that a file describes. Raises :class:`SceneError` for the map it names."""
    walls = [_chain([_place(p, course) for p in wall.points], wall.closed) for wall in file.wall]
    if file.corridor is not None:
        walls += [_beside(course, file.corridor.left_m), _beside(course, -file.corridor.right_m)]
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
    share, length = (s_m - float(s[at])) / float(s[at + 1] - s[at]), hypot(dx, dy)
    return (
        float(x[at]) + share * dx - place.left_m * dy / length,
        float(y[at]) + share * dy + place.left_m * dx / length,
    )


def _chain(points: Sequence[tuple[float, float]], closed: bool) -> Array:
    corners = np.array([*points, points[0]] if closed else points, dtype=np.float64)
    return np.hstack((corners[:-1], corners[1:]))


def _beside(course: Course, left_m: float) -> Array:
    rows = sorted({*range(0, len(course.x_m), CORRIDOR_STEP), len(course.x_m) - 1})
    # Beside the line as the vehicle faces; on a part that is driven backward the sides are those of the vehicle, too.
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
            way_m = hypot(place[0] - kept[-1][0], place[1] - kept[-1][1])
            if way_m > 0.0:
                assert thing.speed_mps is not None
                times.append(times[-1] + way_m / thing.speed_mps)
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
    try:
        root = json_of(data, path.name, KIND)
    except CourseError as error:
        raise SceneError(str(error)) from None
    features = root.get("features") if root.get("type") == "FeatureCollection" else [root]
    if not isinstance(features, list):
        raise SceneError(f"{path}: the FeatureCollection has no list of features; expected {KIND}")
    table: dict[str, list[Data]] = {"wall": [], "body": [], "circle": [], "moving": []}
    where: dict[tuple[str, int], str] = {}
    for index, feature in enumerate(features):
        at = f"feature {index + 1}"
        if not isinstance(feature, dict):
            raise SceneError(f"{path}, {at}: {shown(feature)} is no feature")
        geometry = feature.get("geometry") if feature.get("type") == "Feature" else feature
        properties = feature.get("properties") or {}
        if not isinstance(geometry, dict) or not isinstance(properties, dict):
            raise SceneError(f"{path}, {at}: it has no geometry; draw it again or delete it")
        kind, entry = _feature(f"{path}, {at}", geometry, properties, course)
        where[kind, len(table[kind])] = at
        table[kind].append(entry)
    return _collect(path, dict(table), lambda key: where.get(tuple(key[:2]), ""))


def _feature(place: str, geometry: Mapping[str, Any], properties: Mapping[str, Any], course: Course) -> tuple[str, Data]:
    """Table of the scene and entry in it, in metres of the map."""
    coordinates = geometry.get("coordinates")
    match geometry.get("type"):
        case "LineString" if any(key in properties for key in ("speed_mps", "times_s")):
            own = {key: properties[key] for key in MOVING_KEYS if key in properties}
            return "moving", {"places": _points(place, coordinates, course), **own}
        case "LineString":
            return "wall", {"points": _points(place, coordinates, course)}
        case "Point":
            if "radius_m" not in properties:
                raise SceneError(f"{place}: a Point is a round body; give it the property radius_m")
            return "circle", {"at": _point(place, coordinates, course), "radius_m": properties["radius_m"]}
        case "Polygon" if isinstance(coordinates, list) and len(coordinates) == 1:
            points = _points(place, coordinates[0], course)
            return "body", {"points": points[:-1] if len(points) > 1 and points[0] == points[-1] else points}
        case "Polygon":
            raise SceneError(
                f"{place}: a Polygon here has one ring; draw what stands in its holes as bodies, its edge as a LineString"
            )
    raise SceneError(
        f"{place}: {shown(geometry.get('type'))} is not possible; draw walls as LineString, bodies as Polygon, posts as Point"
    )


def _points(place: str, positions: object, course: Course) -> list[list[float]]:
    if not isinstance(positions, list):
        raise SceneError(f"{place}: coordinates is {shown(positions)}; expected a list of [longitude, latitude]")
    return [_point(f"{place} position {i + 1}", position, course) for i, position in enumerate(positions)]


def _point(place: str, position: object, course: Course) -> list[float]:
    pair = [number(v) for v in position[:2]] if isinstance(position, list) else []
    if len(pair) != 2 or pair[0] is None or pair[1] is None or not (abs(pair[0]) <= 180.0 and abs(pair[1]) <= 90.0):
        raise SceneError(f"{place}: {shown(position)} is not [longitude, latitude] in degrees; correct it")
    east, north, _ = course.datum.to_enu(radians(pair[1]), radians(pair[0]), course.datum.height_m)
    return [east, north]
