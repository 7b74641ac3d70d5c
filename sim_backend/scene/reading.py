"""Reader of scene files: TOML in metres of the map, GeoJSON in longitude and latitude, or the YAML
of an occupancy grid."""

from collections.abc import Iterator, Sequence
from math import cos, hypot, radians, sin, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from sim_backend.scene.anchor import bytes_of, scene_of
from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Departing, Moving
from sim_backend.scene.occupancy import read_map
from sim_backend.scene.scene import ContactSurface, ContactSurfaces, Scene, ScenePose
from sim_backend.scene.schema import (
    RULES,
    Box,
    Circle,
    Data,
    MovingThing,
    OnCourse,
    SceneFile,
    Solid,
)
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
from vehicled.profile.schema import Profile, TerrainTable

KIND = "GeoJSON of obstacles"
CORRIDOR_STEP = 3
"""Samples of the course per corner of a corridor wall."""
MOVING_KEYS = ("start_s", "speed_mps", "times_s", "radius_m", "outline")


def load_scene(name: str, course: Course, draws: np.random.Generator | None = None) -> Scene:
    """Load the scene of a reference, on the map of ``course``; an empty name gives an empty scene.
    Raises :class:`SceneError`.

    ``draws``: for a virtual world, whose bodies may depend on the vehicle's progress and on the
    seed; a simulator refuses them.
    """
    if not name:
        return Scene()
    reference = scene_of(name)
    path = reference.file
    if draws is not None and not path.is_file():
        raise SceneError(
            f"{path}: there is no such file; give --mixed a name of 'vehicled scenes' or a file"
        )
    kind = path.suffix.lower()
    if kind in (".yaml", ".yml"):
        return Scene(grid=read_map(path))
    if kind not in (".toml", ".geojson", ".json"):
        raise SceneError(
            f"{path}: unknown scene format; use .toml, .geojson, or the .yaml of a map_server grid"
        )
    file = read_scene(name, course.datum)
    if draws is None:
        _refuse_virtual(file, path)
    return build_scene(file, course, path.parent, reference.scale, draws)


def _refuse_virtual(file: SceneFile, path: Path) -> None:
    for number, thing in enumerate(file.moving):
        for key in ("start_m", "speed_spread_mps"):
            if getattr(thing, key):
                raise SceneError(
                    f"{path}: moving[{number}].{key} holds in mixed reality only: give the scene "
                    "to --mixed, or use start_s and speed_mps alone"
                )


def read_scene(name: str, datum: Datum) -> SceneFile:
    """Read the TOML or GeoJSON file of a reference. Raises :class:`SceneError`."""
    path = scene_of(name).file
    data = bytes_of(path, "sim.scene")
    return _toml(path, data) if path.suffix.lower() == ".toml" else _geojson(path, data, datum)


def build_scene(
    file: SceneFile,
    course: Course,
    folder: Path,
    scale: float = 1.0,
    draws: np.random.Generator | None = None,
) -> Scene:
    """Build the scene that a file describes, with all lengths times ``scale``. ``draws`` as for
    :func:`load_scene`; without it spreads are left out. Raises :class:`SceneError` for the map it
    names."""
    builder = _Builder(file, course, scale, draws)
    for number, wall in enumerate(file.wall, start=1):
        builder.add_walls(
            [builder.place(p) for p in wall.points],
            wall.closed,
            builder.surface(wall, f"wall {number}"),
        )
    if file.corridor is not None:
        side = builder.others._replace(name="the corridor")
        for left_m in (file.corridor.left_m, -file.corridor.right_m):
            builder.add_walls(_offset_line(course, scale * left_m), course.closed, side)
    for number, body in enumerate(file.body, start=1):
        builder.add_body(
            [builder.place(p) for p in body.points], builder.surface(body, f"body {number}")
        )
    for number, box in enumerate(file.box, start=1):
        for outline in builder.boxes(box):
            builder.add_body(outline, builder.surface(box, f"box {number}"))
    for number, circle in enumerate(file.circle, start=1):
        builder.add_circles(circle, builder.surface(circle, f"circle {number}"))
    surfaces = [
        builder.surface(thing, f"moving object {number}")
        for number, thing in enumerate(file.moving, start=1)
    ]
    return Scene(
        np.concatenate(builder.walls) if builder.walls else None,
        np.array(builder.circles) if builder.circles else None,
        Bodies(builder.outlines),
        read_map(folder / file.map, scale) if file.map else None,
        [builder.moving(thing) for thing in file.moving],
        ContactSurfaces(
            builder.wall_surfaces,
            builder.body_surfaces,
            builder.circle_surfaces,
            surfaces,
            builder.others,
        ),
        {
            start.name: ScenePose(
                scale * start.at[0], scale * start.at[1], radians(start.heading_deg)
            )
            for start in file.start
        },
        {lane.name: scale * lane.width_m for lane in file.lane},
    )


def with_ground(profile: Profile, course: Course) -> Profile:
    """Return the profile with the ground of its scene, if that has one. Raises
    :class:`SceneError`."""
    name = profile.sim.scene
    reference = scene_of(name)
    if (
        reference.file.suffix.lower() != ".toml"
        or (ground := ground_of(name, read_scene(name, course.datum))) is None
    ):
        return profile
    if profile.sim.twin is None:
        raise SceneError(
            f'{name}: has ground, but plant "{profile.sim.plant}" drives on a level plane; use '
            "a profile with a twin, such as "
            "--profile hunter_se"
        )
    if reference.scale != 1.0:
        raise SceneError(f"{name}: has ground, which is built in its own size only; leave out @")
    return replace(profile, sim=replace(profile.sim, terrain=ground))


def ground_of(name: str, file: SceneFile) -> TerrainTable | None:
    """Return the ground of a scene, with whole paths; None if it has none of its own."""
    if file.ground is None:
        return None
    folder = scene_of(name).file.parent
    return replace(
        file.ground,
        **{
            key: str(folder / value)
            for key in ("height", "friction")
            if (value := getattr(file.ground, key))
        },
    )


class _Builder:
    """Geometry and surfaces of a scene file, part by part."""

    def __init__(
        self, file: SceneFile, course: Course, scale: float, draws: np.random.Generator | None
    ) -> None:
        self.others = ContactSurface("", file.friction, file.restitution)
        self._course, self._scale, self._draws = course, scale, draws
        self.walls, self.wall_surfaces = list[Array](), list[ContactSurface]()
        self.outlines = list[list[tuple[float, float]]]()
        self.body_surfaces = list[ContactSurface]()
        self.circles = list[tuple[float, float, float]]()
        self.circle_surfaces = list[ContactSurface]()

    def surface(self, solid: Solid, name: str) -> ContactSurface:
        friction, restitution = solid.friction, solid.restitution
        return ContactSurface(
            solid.name or name,
            self.others.friction if friction is None else friction,
            self.others.restitution if restitution is None else restitution,
        )

    def place(self, place: Sequence[float] | OnCourse) -> tuple[float, float]:
        scale, course = self._scale, self._course
        if not isinstance(place, OnCourse):
            return scale * place[0], scale * place[1]
        s, x, y, s_m = course.s_m, course.x_m, course.y_m, scale * place.s_m
        if course.closed:
            s, x, y = (np.append(a, end) for a, end in ((s, course.length_m), (x, x[0]), (y, y[0])))
            s_m %= course.length_m
        s_m = min(s_m, float(s[-1]))
        at = min(int(np.searchsorted(s, s_m, "right")) - 1, len(s) - 2)
        dx, dy = float(x[at + 1] - x[at]), float(y[at + 1] - y[at])
        fraction = (s_m - float(s[at])) / float(s[at + 1] - s[at])
        length = hypot(dx, dy)
        left_m = scale * place.left_m
        return float(x[at]) + fraction * dx - left_m * dy / length, float(
            y[at]
        ) + fraction * dy + left_m * dx / length

    def add_walls(
        self, points: Sequence[tuple[float, float]], closed: bool, surface: ContactSurface
    ) -> None:
        corners = np.array([*points, points[0]] if closed else points, dtype=np.float64)
        self.walls.append(np.hstack((corners[:-1], corners[1:])))
        self.wall_surfaces += [surface] * (len(corners) - 1)

    def add_body(self, outline: list[tuple[float, float]], surface: ContactSurface) -> None:
        self.outlines.append(outline)
        self.body_surfaces.append(surface)

    def boxes(self, box: Box) -> Iterator[list[tuple[float, float]]]:
        x, y = self.place(box.at)
        c, s = cos(radians(box.heading_deg)), sin(radians(box.heading_deg))
        ahead, left = (0.5 * self._scale * size for size in box.size_m)
        for k in range(box.count):
            mx, my = x + k * self._scale * box.step_m[0], y + k * self._scale * box.step_m[1]
            corners = ((ahead, left), (-ahead, left), (-ahead, -left), (ahead, -left))
            yield [(mx + c * a - s * b, my + s * a + c * b) for a, b in corners]

    def add_circles(self, circle: Circle, surface: ContactSurface) -> None:
        for place in circle.places if circle.at is None else [circle.at]:
            self.circles.append((*self.place(place), self._scale * circle.radius_m))
            self.circle_surfaces.append(surface)

    def moving(self, thing: MovingThing) -> Moving:
        places = [self.place(place) for place in thing.places]
        # Speeds go with the root of the scale, so that accelerations stay; so do times.
        slower = sqrt(self._scale)
        # Drawn for each body, so that a spread in one changes no other.
        start, speed = (0.0, 0.0) if self._draws is None else self._draws.uniform(-1.0, 1.0, 2)
        times = [slower * time_s for time_s in thing.times_s]
        if not times:
            times = [slower * thing.start_s]
            kept = places[:1]
            for place in places[1:]:
                distance_m = hypot(place[0] - kept[-1][0], place[1] - kept[-1][1])
                if distance_m > 0.0:
                    assert thing.speed_mps is not None
                    drawn_mps = thing.speed_mps + float(speed) * thing.speed_spread_mps
                    times.append(times[-1] + distance_m / (slower * drawn_mps))
                    kept.append(place)
            places = kept
        radius_m = None if thing.radius_m is None else self._scale * thing.radius_m
        outline = [(self._scale * x, self._scale * y) for x, y in thing.outline]
        if thing.start_m is None:
            return Moving(places, times, radius_m, outline)
        start_m = self._scale * (thing.start_m + float(start) * thing.start_spread_m)
        return Departing(start_m, places, times, radius_m, outline)


def _offset_line(course: Course, left_m: float) -> list[tuple[float, float]]:
    rows = sorted({*range(0, len(course.x_m), CORRIDOR_STEP), len(course.x_m) - 1})
    # Left and right are the vehicle's sides, also where it drives backward.
    return [
        (
            float(course.x_m[k]) - left_m * sin(course.yaw_rad[k]),
            float(course.y_m[k]) + left_m * cos(course.yaw_rad[k]),
        )
        for k in rows
    ]


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


def _geojson(path: Path, data: bytes, datum: Datum) -> SceneFile:
    table: dict[str, list[Data]] = {"wall": [], "body": [], "circle": [], "moving": []}
    where: dict[tuple[str, int], str] = {}
    try:
        for feature in features_of(data, str(path), KIND):
            kind, entry = _entry(f"{path}, {feature.place}", feature, datum)
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
            return "circle", {
                "at": map_position(place, coordinates, datum),
                "radius_m": properties["radius_m"],
            }
        case "Polygon" if isinstance(coordinates, list) and len(coordinates) == 1:
            return "body", {"points": map_ring(place, coordinates[0], datum)}
        case "Polygon":
            raise CourseError(
                f"{place}: a Polygon must have one ring; draw objects in its holes as "
                "Polygons, its edge as a LineString"
            )
    raise CourseError(
        f"{place}: {shown(geometry.get('type'))} is not supported; draw walls as LineString, "
        "bodies as Polygon, posts as Point"
    )
