"""Scene files as listings and pictures show them."""

from collections import Counter
from math import cos, radians, sin

import numpy as np
from msgspec import Struct

from sim_backend.scene.anchor import scene_of
from sim_backend.scene.errors import SceneError
from sim_backend.scene.reading import build_scene, read_scene
from sim_backend.scene.scene import Scene, ScenePose
from sim_backend.scene.schema import SceneFile
from vehicled.core.arrays import Array
from vehicled.paths import scenes
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.datum import LOT_17
from vehicled.paths.errors import CourseError


class SceneView(Struct, frozen=True, kw_only=True):
    """A scene that has been read, with its courses, lanes and lines in metres of the map."""

    name: str
    title: str
    scale: float
    file: SceneFile
    scene: Scene
    courses: list[tuple[Course, str]]
    """Courses, with their titles."""
    lanes: list[tuple[str, float, Array, Array]]
    """Name, width, left and right edge of each lane."""
    lines: list[Array]
    """Painted lines."""

    @property
    def parking_spaces(self) -> list[tuple[ScenePose, Array]]:
        """Middle and heading of each parking space, and its corners (4, 2) from the front left one
        counter-clockwise."""
        found = []
        for space in self.file.parking_space:
            yaw = radians(space.heading_deg)
            turn = np.array([[cos(yaw), -sin(yaw)], [sin(yaw), cos(yaw)]])
            half = 0.5 * self.scale * np.array(space.size_m)
            middle = self.scale * np.array(space.at)
            corners = np.array([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]]) * half
            pose = ScenePose(float(middle[0]), float(middle[1]), yaw)
            found.append((pose, corners @ turn.T + middle))
        return found

    @property
    def extent_m(self) -> tuple[float, float, float, float]:
        """Smallest x and y, largest x and y of everything; zeros for a scene without geometry."""
        points = [self.scene.segments_m.reshape(-1, 2), *self.lines]
        points += [
            np.array([[x - r, y - r], [x + r, y + r]]) for _, (x, y, r) in self.scene.circles
        ]
        points += [thing.places_m for _, thing in self.scene.moving]
        points += [edge for _, _, *edges in self.lanes for edge in edges]
        points += [np.column_stack((course.x_m, course.y_m)) for course, _ in self.courses]
        points += [np.array([pose[:2]]) for pose in self.scene.starts.values()]
        every = np.concatenate(points)
        if not len(every):
            return 0.0, 0.0, 0.0, 0.0
        low, high = every.min(axis=0), every.max(axis=0)
        return float(low[0]), float(low[1]), float(high[0]), float(high[1])

    def contents(self) -> list[tuple[str, str]]:
        """Return kind and description of everything that the scene holds, for a table."""
        x1, y1, x2, y2 = self.extent_m
        rows = [
            (
                "extent",
                f"{x2 - x1:.1f} x {y2 - y1:.1f} m, x {x1:.1f} to {x2:.1f}, y {y1:.1f} to {y2:.1f}",
            )
        ]
        rows += [
            ("contact", f"friction {self.file.friction:g}, restitution {self.file.restitution:g}")
        ]
        if self.file.ground is not None:
            ground = self.file.ground
            rows.append(
                (
                    "ground",
                    (
                        f"height {ground.height or 'level'}, friction {ground.friction or ''} x "
                        f"{ground.friction_scale:g}"
                    ),
                )
            )
        for course, title in self.courses:
            speeds = np.abs(course.speed_mps)
            kind = "closed" if course.closed else "open"
            text = (
                f"{course.name.rpartition('/')[2]}: {title}; {course.length_m:.1f} m, {kind}, "
                f"{float(speeds.max()):.2g} m/s"
            )
            rows.append(("course", text + (", with parts in reverse" if course.reverses else "")))
        rows += [("lane", f"{name}: {width_m:g} m wide") for name, width_m, _, _ in self.lanes]
        rows += [
            (
                "parking space",
                (
                    f"{each.name}: {' x '.join(f'{self.scale * m:g}' for m in each.size_m)} m at "
                    f"({', '.join(f'{self.scale * m:g}' for m in each.at)}) m, "
                    f"{each.heading_deg:g} degrees"
                ),
            )
            for each in self.file.parking_space
        ]
        rows += [
            ("start", f"{name}: ({p.x_m:g}, {p.y_m:g}) m, {np.degrees(p.yaw_rad):g} degrees")
            for name, p in self.scene.starts.items()
        ]
        solid = [*((wall, 1) for wall in self.file.wall), *((body, 1) for body in self.file.body)]
        solid += [(box, box.count) for box in self.file.box]
        solid += [(circle, max(1, len(circle.places))) for circle in self.file.circle]
        counts: Counter[str] = Counter()
        for part, count in solid:
            counts[part.name or type(part).__name__.lower()] += count
        if counts:
            rows.append(
                (
                    "bodies",
                    ", ".join(
                        f"{name} x {count}" if count > 1 else name for name, count in counts.items()
                    ),
                )
            )
        if self.file.map:
            rows.append(("map", f"{self.file.map}, {len(self.scene.segments_m)} edges"))
        for thing in self.file.moving:
            when = (
                f"{thing.times_s[0]:g} to {thing.times_s[-1]:g} s"
                if thing.times_s
                else f"from {thing.start_s:g} s"
            )
            if thing.start_m is not None:
                when += f" after the vehicle comes to {thing.start_m:g} m"
            rows.append(
                (
                    "moving",
                    f"{thing.name or 'object'}: {when}"
                    + (f", {thing.speed_mps:g} m/s" if thing.speed_mps else ""),
                )
            )
        return rows


def view_of(name: str) -> SceneView:
    """Return everything that a scene holds. Raises :class:`SceneError`."""
    reference = scene_of(name)
    path, scale = reference.file, reference.scale
    try:
        if path.suffix.lower() in (".yaml", ".yml"):
            file = SceneFile(map=path.name)
        else:
            file = read_scene(name, LOT_17)
        drawn = [
            (scenes.build_course(each, file.lane, scale, path.name), each) for each in file.course
        ]
        courses = [
            (course.renamed(f"{scenes.title_of(name)}/{each.name}"), each.title)
            for course, each in drawn
        ]
        # A scene with places along a course needs one; without any of its own those places have no
        # meaning here.
        base = (
            courses[0][0]
            if courses
            else course_from_waypoints("none", [0.0, 1.0], [0.0, 0.0], closed=False)
        )
        scene = build_scene(file, base, path.parent, scale)
        lanes = [
            (
                lane.name,
                scale * lane.width_m,
                *scenes.lane_edges(lane, scale, f"{path.name}, lane {lane.name}"),
            )
            for lane in file.lane
        ]
    except CourseError as error:
        raise SceneError(str(error)) from None
    lines = []
    for line in file.line:
        points = np.array(
            [
                place if isinstance(place, list) else [place.s_m, place.left_m]
                for place in line.points
            ]
        )
        points = np.vstack((points, points[:1])) if line.closed else points
        lines += [scale * (points + k * np.array(line.step_m)) for k in range(line.count)]
    return SceneView(
        name=name, title=file.title, scale=scale, file=file, scene=scene, courses=courses,
        lanes=lanes, lines=lines
    )  # fmt: skip
