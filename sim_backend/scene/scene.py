"""Scene of a run: everything that a scanner can see."""

from collections.abc import Sequence

import numpy as np

from sim_backend.scene.moving import Moving
from sim_backend.scene.occupancy import Occupancy
from sim_backend.scene.rays import Hits, Rays
from sim_backend.scene.shapes import Bodies, Circles, Tiled
from vehicled.core.arrays import Array


class Scene:
    """Walls, bodies, an occupancy grid and moving objects, in ``map``. Planar: everything is as high as the beam."""

    def __init__(
        self,
        walls_m: Array | None = None,
        circles_m: Array | None = None,
        bodies: Bodies | None = None,
        grid: Occupancy | None = None,
        moving: Sequence[Moving] = (),
    ) -> None:
        """``walls_m`` (m, 4) are segments, ``circles_m`` (m, 3) centres and radii."""
        self._bodies = bodies or Bodies([])
        self._grid = grid
        walls = [np.empty((0, 4)) if walls_m is None else walls_m, self._bodies.edges_m]
        if grid is not None:
            walls.append(grid.edges_m)
        self._walls = Tiled(np.concatenate(walls))
        self._circles = Circles(np.empty((0, 3)) if circles_m is None else circles_m)
        self._moving = list(moving)
        self.covered = False
        """True if an object covers every scanner: all beams are blocked."""

    @property
    def empty(self) -> bool:
        """True if the scene has no objects."""
        return not (len(self._walls) or len(self._circles) or self._moving)

    @property
    def segments_m(self) -> Array:
        """Walls, edges of bodies and faces of the grid (m, 4)."""
        return self._walls.ends_m

    @property
    def only_segments(self) -> bool:
        """True if nothing stands or moves there but what :attr:`segments_m` holds."""
        return not (len(self._circles) or self._moving)

    def add_circle(self, x_m: float, y_m: float, radius_m: float) -> None:
        """Add a circle, visible from now on."""
        self._circles = Circles(np.vstack((self._circles.middles_m, [[x_m, y_m, radius_m]])))

    def cast(self, rays: Rays, time_s: Array, reach_m: float) -> Hits:
        """Return the nearest hit of each ray (n,) within ``reach_m``, each at its own scene time in seconds from the start."""
        hits = Hits(len(rays))
        if self.covered:
            hits.blind(np.ones(len(rays), dtype=np.bool_))
            return hits
        self._walls.cast(rays, reach_m, hits)
        self._circles.cast(rays, reach_m, hits)
        for thing in self._moving:
            thing.cast(rays, time_s, reach_m, hits)
        if len(self._bodies):
            hits.blind(self._bodies.contain(rays.x_m, rays.y_m))
        if self._grid is not None:
            hits.blind(self._grid.contains(rays.x_m, rays.y_m))
        return hits
