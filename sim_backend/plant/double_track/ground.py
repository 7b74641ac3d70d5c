"""Ground under a vehicle: height, slope and friction by position."""

from math import cos, sin, sqrt
from typing import Protocol

from sim_backend.plant.double_track.constants import GRAVITY_MPS2, Constants
from sim_backend.plant.double_track.state import PlantState, Surface


class Ground(Protocol):
    """Ground by position in ``map``. Called up to five times a step."""

    def at(self, x_m: float, y_m: float) -> tuple[float, float, float, float]:
        """Return height, slopes along x and y, and the friction scale; 1 is the surface that the
        tyre parameters describe."""
        ...


class Plane:
    """Plane ground; the default is level and is never evaluated."""

    def __init__(self, slope_x: float = 0.0, slope_y: float = 0.0, friction: float = 1.0) -> None:
        self._slope_x = slope_x
        self._slope_y = slope_y
        self._friction = friction

    def at(self, x_m: float, y_m: float) -> tuple[float, float, float, float]:
        """Return height, slopes and friction, see :class:`Ground`."""
        return (
            self._slope_x * x_m + self._slope_y * y_m,
            self._slope_x,
            self._slope_y,
            self._friction,
        )


FLAT = Plane()
LEAST_FRICTION = 0.01


def flat_surface(friction: float = 1.0) -> Surface:
    """Return level ground."""
    return Surface(0.0, 0.0, GRAVITY_MPS2, 1.0, 1.0, friction, friction, friction, friction)


def surface(ground: Ground, c: Constants, s: PlantState) -> Surface:
    """Return the ground under a vehicle: the plane through the heights under its wheels, and the
    friction there.

    Local slopes are only continuous, so the second derivative of an attitude from them has spikes
    that grow as the step shrinks; with heights it is bounded.
    """
    cosine, sine = cos(s.yaw_rad), sin(s.yaw_rad)
    heights, frictions = [], []
    for axle in (c.front, c.rear):
        for side in (axle.half_track_m, -axle.half_track_m):
            x_m = s.x_m + axle.arm_m * cosine - side * sine
            y_m = s.y_m + axle.arm_m * sine + side * cosine
            z_m, _, _, friction = ground.at(x_m, y_m)
            heights.append(z_m)
            frictions.append(max(friction, LEAST_FRICTION))
    fl_m, fr_m, rl_m, rr_m = heights
    along = 0.5 * ((fl_m + fr_m) - (rl_m + rr_m)) / c.wheelbase_m
    across = 0.5 * ((fl_m - fr_m) / c.front.track_m + (rl_m - rr_m) / c.rear.track_m)
    steep = 1.0 / sqrt(1.0 + along * along)
    normal = 1.0 / sqrt(1.0 + along * along + across * across)
    return Surface(
        -GRAVITY_MPS2 * along * steep,
        -GRAVITY_MPS2 * across * steep * normal,
        GRAVITY_MPS2 * normal,
        steep,
        normal / steep,
        *frictions,
    )
