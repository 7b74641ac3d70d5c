"""Virtual bodies around a real vehicle, and the scan of them from its estimated pose. Without I/O
and clock."""

from math import cos, inf, pi, sin

import numpy as np

from sim_backend.fleet.bodies import VehicleBody
from sim_backend.plant.interface import Motion
from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Departing
from sim_backend.scene.rays import Rays
from sim_backend.scene.reading import load_scene
from sim_backend.scene.scene import Scene
from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.messages import VirtualScan
from vehicled.core.vehicle import Outline
from vehicled.paths.course import Course
from vehicled.run.mixed_frames import ViewPoint

RAYS = 720
"""Rays of a scan, all round: a post of 5 cm is hit by one of them within 5 m."""
RANGE_M = 30.0
FARTHEST_M = 200.0
"""Distance from the course beyond which a whole scene must be drawn on another map, m."""
SCAN_S = 0.05
"""Period of the scans, s."""


class VirtualScene:
    """Bodies of a scene and virtual vehicles, and the vehicle's progress among them."""

    def __init__(self, scene: str, course: Course, seed: int, outline: Outline) -> None:
        """Load the scene; an empty one has no bodies. ``seed`` draws what the scene lets it draw.
        Raises :class:`~sim_backend.scene.errors.SceneError`."""
        self.scene: Scene = load_scene(scene, course, np.random.default_rng(seed))
        distance_m = _distance_m(self.scene, course)
        if not self.scene.empty and distance_m > FARTHEST_M:
            raise SceneError(
                f"{scene}: its nearest body is {distance_m:.0f} m from the course "
                f"{course.name}: places count in metres from the datum of the course, east and "
                "north; draw the scene on that map"
            )
        self._departing = [thing for _, thing in self.scene.moving if isinstance(thing, Departing)]
        self._start_ns: int | None = None
        self._vehicles: dict[str, VehicleBody] = {}
        front, rear, _ = outline
        self._x_m = 0.5 * (front - rear)
        self._bearings: Array = -pi + 2.0 * pi / RAYS * np.arange(RAYS, dtype=np.float64)
        self._own_m = _own_ranges(outline, self._bearings)

    def follow(self, name: str, motion: Motion, outline: Outline, time_s: float) -> None:
        """Take the motion of a virtual vehicle at a time of the scene."""
        body = self._vehicles.get(name)
        if body is None:
            body = self._vehicles[name] = VehicleBody(outline, motion, SCAN_S)
            self.scene.add_vehicle(body)
        else:
            body.follow(time_s, motion)

    def time_s(self, t_ns: int) -> float:
        """Return the time of the scene, s since the first view point."""
        if self._start_ns is None:
            self._start_ns = t_ns
        return (t_ns - self._start_ns) * 1e-9

    def scan(self, view: ViewPoint) -> VirtualScan:
        """Return the scan from a view point. Bodies that wait for the vehicle's progress may depart
        now."""
        time_s = self.time_s(view.t_ns)
        for thing in self._departing:
            thing.on_progress(view.progress_m, time_s)
        c, s = cos(view.yaw_rad), sin(view.yaw_rad)
        x = np.full(RAYS, view.x_m + c * self._x_m)
        y = np.full(RAYS, view.y_m + s * self._x_m)
        rays = Rays(x, y, view.yaw_rad + self._bearings)
        range_m = self.scene.cast(rays, np.full(RAYS, time_s), RANGE_M).range_m
        return VirtualScan(
            view.t_ns,
            view.t_ns,
            -pi,
            2.0 * pi / RAYS,
            0.0,
            SCAN_S,
            0.0,
            RANGE_M,
            self._x_m,
            0.0,
            tuple(range_m.tolist()),
            overlaps=bool((range_m < self._own_m).any()),
            vehicle_x_m=view.x_m,
            vehicle_y_m=view.y_m,
            vehicle_yaw_rad=view.yaw_rad,
            progress_m=view.progress_m,
        )


def _distance_m(scene: Scene, course: Course) -> float:
    """Return the least distance from a corner or middle of the scene to a point of the course."""
    places = [scene.segments_m.reshape(-1, 2), *(thing.places_m for _, thing in scene.moving)]
    places += [np.array([[x, y]]) for _, (x, y, _) in scene.circles]
    points = np.concatenate(places)
    # Of many some are enough: the limit is far beyond the distance between two.
    points = points[:: max(1, len(points) // 1000)]
    line = np.column_stack((course.x_m, course.y_m))[:: max(1, len(course.x_m) // 1000)]
    return min((float(hypotenuse(*(line - point).T).min()) for point in points), default=inf)


def _own_ranges(outline: Outline, bearings: Array) -> Array:
    """Return the distance from the middle of a vehicle to its outline, at bearings (n,)."""
    front, rear, half = outline
    with np.errstate(divide="ignore"):
        along = 0.5 * (front + rear) / np.abs(np.cos(bearings))
        across = half / np.abs(np.sin(bearings))
    found: Array = np.minimum(along, across)
    return found
