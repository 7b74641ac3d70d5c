"""Scene of a run: everything that a scanner can see and the vehicle can touch."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from sim_backend.scene.moving import Moving
from sim_backend.scene.occupancy import Occupancy
from sim_backend.scene.rays import Hits, Rays
from sim_backend.scene.shapes import Bodies, Circles, Tiled
from vehicled.core.arrays import Array

_Part = TypeVar("_Part")


class ContactSurface(NamedTuple):
    """Friction and restitution of a part of a scene, and its name."""

    name: str
    friction: float
    restitution: float


class ScenePose(NamedTuple):
    """ScenePose of the reference point in ``map``."""

    x_m: float
    y_m: float
    yaw_rad: float


MAP_NAME = "the map"
DEFAULT = ContactSurface("", 0.4, 0.1)
"""ContactSurface of a map, and of everything in a scene that gives none."""


class ContactSurfaces(NamedTuple):
    """ContactSurfaces of the parts of a scene, in the order of their geometry."""

    walls: Sequence[ContactSurface] = ()
    """One for each segment."""
    bodies: Sequence[ContactSurface] = ()
    circles: Sequence[ContactSurface] = ()
    moving: Sequence[ContactSurface] = ()
    others: ContactSurface = DEFAULT
    """ContactSurface of the map, and of everything that has no other."""


class Scene:
    """Walls, bodies, an occupancy grid and moving objects, in ``map``. Planar: everything is as
    high as the beam."""

    def __init__(
        self,
        walls_m: Array | None = None,
        circles_m: Array | None = None,
        bodies: Bodies | None = None,
        grid: Occupancy | None = None,
        moving: Sequence[Moving] = (),
        surfaces: ContactSurfaces | None = None,
        starts: dict[str, ScenePose] | None = None,
        lanes: dict[str, float] | None = None,
    ) -> None:
        """``walls_m`` (m, 4) are segments, ``circles_m`` (m, 3) centres and radii. ``starts``:
        poses by name. ``lanes``: widths by name.
        """
        self._bodies = bodies or Bodies([])
        self._grid = grid
        self._surfaces = surfaces or ContactSurfaces()
        self.starts = starts or {}
        """Poses at which a vehicle may stand at the start."""
        self.lanes = lanes or {}
        """Widths of the lanes."""
        walls = [np.empty((0, 4)) if walls_m is None else walls_m, self._bodies.edges_m]
        if grid is not None:
            walls.append(grid.edges_m)
        self._walls = Tiled(np.concatenate(walls))
        self._circles = Circles(np.empty((0, 3)) if circles_m is None else circles_m)
        self._moving = list(moving)
        self._vehicles: list[Moving] = []
        self.covered = False
        """True if an object covers every scanner: all beams are blocked."""

    @property
    def empty(self) -> bool:
        """True if the scene has no objects."""
        return not (len(self._walls) or len(self._circles) or self._moving or self._vehicles)

    @property
    def segments_m(self) -> Array:
        """Walls, edges of bodies and faces of the grid (m, 4)."""
        return self._walls.ends_m

    @property
    def cells(self) -> Occupancy | None:
        """Occupancy grid; None without one."""
        return self._grid

    @property
    def outlines_m(self) -> list[Array]:
        """Outlines (n, 2) of the filled bodies."""
        return self._bodies.outlines_m

    @property
    def segment_surfaces(self) -> list[ContactSurface]:
        """ContactSurface of each of :attr:`segments_m`."""
        of, others = self._surfaces, self._surfaces.others
        edges = [
            surface
            for surface, outline in _filled(of.bodies, self._bodies.outlines_m, others)
            for _ in outline
        ]
        count = (
            len(self._walls) - len(edges) - (0 if self._grid is None else len(self._grid.edges_m))
        )
        walls = [surface for surface, _ in _filled(of.walls, range(count), others)]
        return [
            *walls,
            *edges,
            *[others._replace(name=MAP_NAME)] * (len(self._walls) - count - len(edges)),
        ]

    @property
    def circles(self) -> list[tuple[ContactSurface, tuple[float, float, float]]]:
        """Circles: centre and radius, with their surfaces."""
        return [
            (surface, (float(x), float(y), float(r)))
            for surface, (x, y, r) in _filled(
                self._surfaces.circles, self._circles.middles_m, self._surfaces.others
            )
        ]

    @property
    def circle_state(self) -> bytes:
        """Places and radii of the circles, to notice a change: circles are added while a drive goes
        on."""
        return self._circles.middles_m.tobytes()

    @property
    def moving(self) -> list[tuple[ContactSurface, Moving]]:
        """Moving objects, with their surfaces."""
        return list(_filled(self._surfaces.moving, self._moving, self._surfaces.others))

    def holding(self, x_m: float, y_m: float) -> ContactSurface | None:
        """Return the surface of the filled body or occupied cell that a point lies in; None if it
        is free."""
        x, y = np.array([x_m]), np.array([y_m])
        for surface, outline in _filled(
            self._surfaces.bodies, self._bodies.outlines_m, self._surfaces.others
        ):
            if Bodies([outline]).contain(x, y)[0]:
                return surface
        if self._grid is not None and self._grid.contains(x, y)[0]:
            return self._surfaces.others._replace(name=MAP_NAME)
        return None

    def add_circle(self, x_m: float, y_m: float, radius_m: float) -> None:
        """Add a circle, visible from now on."""
        self._circles = Circles(np.vstack((self._circles.middles_m, [[x_m, y_m, radius_m]])))

    def add_moving(self, body: Moving, name: str) -> None:
        """Add a moving object, which is seen and touched from now on."""
        surfaces = [surface for surface, _ in self.moving]
        surfaces.append(self._surfaces.others._replace(name=name))
        self._moving.append(body)
        self._surfaces = self._surfaces._replace(moving=surfaces)

    def add_vehicle(self, body: Moving) -> None:
        """Add another simulated vehicle, which sensors see from now on. The fleet resolves contact
        with it."""
        self._vehicles.append(body)

    def cast(self, rays: Rays, time_s: Array, reach_m: float) -> Hits:
        """Return the nearest hit of each ray (n,) within ``reach_m``, each at its own scene time in
        seconds from the start."""
        hits = Hits(len(rays))
        if self.covered:
            hits.blind(np.ones(len(rays), dtype=np.bool_))
            return hits
        self._walls.cast(rays, reach_m, hits)
        self._circles.cast(rays, reach_m, hits)
        for thing in self._moving:
            thing.cast(rays, time_s, reach_m, hits)
        for vehicle in self._vehicles:
            vehicle.cast(rays, time_s, reach_m, hits)
        if len(self._bodies):
            hits.blind(self._bodies.contain(rays.x_m, rays.y_m))
        if self._grid is not None:
            hits.blind(self._grid.contains(rays.x_m, rays.y_m))
        return hits


def _filled(
    surfaces: Sequence[ContactSurface], parts: Iterable[_Part], others: ContactSurface
) -> Iterator[tuple[ContactSurface, _Part]]:
    """Iterate over the parts with their surfaces."""
    for number, part in enumerate(parts):
        yield (surfaces[number] if number < len(surfaces) else others), part
