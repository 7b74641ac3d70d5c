"""Moving objects with a schedule: a crossing pedestrian, an oncoming vehicle."""

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np

from sim_backend.scene.rays import Hits, Rays
from sim_backend.scene.shapes import Bodies, Circles, Segments
from vehicled.core.arrays import Array, hypotenuse


class Moving:
    """Object that moves along a line through timed positions; it stands at the first before and at
    the last after.

    A circle, or an outline around its reference point whose x axis points along the line.
    """

    def __init__(
        self,
        places_m: Sequence[tuple[float, float]],
        times_s: Sequence[float],
        radius_m: float | None = None,
        outline_m: Sequence[tuple[float, float]] = (),
    ) -> None:
        """``times_s`` grow strictly; at least one position. Pass a radius or an outline."""
        self.departed_s = 0.0
        """Scene time from which ``times_s`` count."""
        self._times_s = np.array(times_s, dtype=np.float64)
        places = np.array(places_m, dtype=np.float64).reshape(-1, 2)
        self._x_m, self._y_m = places[:, 0].copy(), places[:, 1].copy()
        steps = np.diff(places, axis=0)
        yaws = np.arctan2(steps[:, 1], steps[:, 0]) if len(steps) else np.zeros(1)
        self._yaw_rad = np.unwrap(yaws)
        self.radius_m = radius_m
        self.places_m = places
        self.outline_m = list(outline_m) if radius_m is None else []
        self._circle = Circles(np.array([[0.0, 0.0, radius_m]])) if radius_m is not None else None
        self._body = Bodies([outline_m]) if radius_m is None else Bodies([])
        self._edges = Segments(self._body.edges_m)

    def place(self, time_s: Array) -> tuple[Array, Array, Array]:
        """Return x, y and heading (n,) at scene times (n,)."""
        time_s = time_s - self.departed_s
        leg = np.clip(
            np.searchsorted(self._times_s, time_s, "right") - 1, 0, len(self._yaw_rad) - 1
        )
        x = np.interp(time_s, self._times_s, self._x_m)
        y = np.interp(time_s, self._times_s, self._y_m)
        return x, y, self._yaw_rad[leg]

    @property
    def end_s(self) -> float:
        """Scene time from which on it stands at its last position, s."""
        return float(self._times_s[-1])

    @property
    def top_speed_mps(self) -> float:
        """Largest speed of its reference point."""
        steps = hypotenuse(np.diff(self._x_m), np.diff(self._y_m)) / np.maximum(
            np.diff(self._times_s), 1e-9
        )
        return float(steps.max()) if len(steps) else 0.0

    def state(self, time_s: float) -> tuple[float, float, float, float, float]:
        """Return x, y, heading and velocity along x and y at one scene time."""
        x, y, yaw = self.place(np.array([time_s]))
        time_s -= self.departed_s
        leg = int(np.searchsorted(self._times_s, time_s, "right")) - 1
        vx = vy = 0.0
        if 0 <= leg < len(self._times_s) - 1:
            span_s = float(self._times_s[leg + 1] - self._times_s[leg])
            vx = float(self._x_m[leg + 1] - self._x_m[leg]) / span_s
            vy = float(self._y_m[leg + 1] - self._y_m[leg]) / span_s
        return float(x[0]), float(y[0]), float(yaw[0]), vx, vy

    def cast(self, rays: Rays, time_s: Array, reach_m: float, hits: Hits) -> None:
        """Shorten the hits of rays, each of which has its own time."""
        x, y, yaw = self.place(time_s)
        ox, oy = rays.x_m - x, rays.y_m - y
        if self._circle is not None:
            self._circle.cast(Rays(ox, oy, rays.bearing_rad), reach_m, hits)
            return
        c, s = np.cos(yaw), np.sin(yaw)
        own = Rays(c * ox + s * oy, c * oy - s * ox, rays.bearing_rad - yaw)
        self._edges.cast(own, reach_m, hits)
        inside = self._body.contain(own.x_m, own.y_m)
        if inside.any():
            hits.blind(inside)


class Departing(Moving):
    """Moving object that waits at its first position until the vehicle has come to an arc length of
    its course."""

    def __init__(self, start_m: float, *arguments: Any, **more: Any) -> None:
        """``start_m``: that arc length; the rest as for :class:`Moving`, with times from the
        departure on."""
        super().__init__(*arguments, **more)
        self.start_m = start_m
        self.departed_s = inf

    def on_progress(self, s_m: float, time_s: float) -> None:
        """Depart if the vehicle has come so far."""
        if s_m >= self.start_m and self.departed_s == inf:
            self.departed_s = time_s
