"""A path beside the course, as its lateral offset over the arc length of the course (Frenet frame):
one change along a quintic polynomial, or any number of them as a spline, without a jump of heading
or curvature.
"""

from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np

MOST_CONTROLS = 256
"""Control points of a spline at most."""


class LateralOffset(NamedTuple):
    """Lateral offset of a path from its course, m, positive left. The fields may be arrays of one
    shape, for many paths."""

    start_m: Any
    """Arc length of the course at which the change begins."""
    length_m: Any
    """Length of the change, more than 0."""
    before_m: Any
    slope_before: Any
    """Change of the offset per metre at the start."""
    after_m: Any
    lap_m: float = inf
    """Length of a closed course; the arc length is that of the nearer lap, so a change must be over
    within half a lap."""

    @property
    def usable(self) -> bool:
        """True if all fields are numbers that give an offset everywhere."""
        *fields, lap_m = self
        numbers = all(isinstance(value, float | int) for value in self) and all(
            map(isfinite, fields)
        )
        return numbers and self.length_m > 0.0 and lap_m > 0.0

    def at(self, s_m: Any) -> Any:
        """Return the offset at arc lengths."""
        u, a1, a3, a4, a5 = self._polynomial(s_m)
        return self.before_m + u * (a1 + u * u * (a3 + u * (a4 + u * a5)))

    def slope(self, s_m: Any) -> Any:
        """Return the change of the offset per metre at arc lengths."""
        return self.shape(s_m)[1]

    def shape(self, s_m: Any) -> tuple[Any, Any, Any]:
        """Return offset, slope and second derivative at arc lengths together."""
        u, a1, a3, a4, a5 = self._polynomial(s_m)
        square, length = u * u, self.length_m
        offset = self.before_m + u * (a1 + square * (a3 + u * (a4 + u * a5)))
        inside = (u > 0.0) & (u < 1.0)
        slope = np.where(
            inside, (a1 + square * (3.0 * a3 + u * (4.0 * a4 + u * 5.0 * a5))) / length, 0.0
        )
        return offset, slope, u * (6.0 * a3 + u * (12.0 * a4 + u * 20.0 * a5)) / (length * length)

    def settled(self, s_m: float) -> bool:
        """Return True if the change is over at an arc length."""
        return bool(_from_start(s_m, self.start_m, self.lap_m) >= self.length_m)

    def _polynomial(self, s_m: Any) -> tuple[Any, Any, Any, Any, Any]:
        u = np.clip(_from_start(s_m, self.start_m, self.lap_m) / self.length_m, 0.0, 1.0)
        a1, change = self.slope_before * self.length_m, self.after_m - self.before_m
        return u, a1, 10.0 * change - 6.0 * a1, -15.0 * change + 8.0 * a1, 6.0 * change - 3.0 * a1


class LateralSpline(NamedTuple):
    """Lateral offset of a path from its course as a uniform cubic B-spline over the arc length: any
    number of changes.

    Heading and curvature are continuous, and the second derivative is linear between the knots.
    Before the first and beyond the last knot the offset is constant.
    """

    start_m: float
    """Arc length of the course at the first knot."""
    step_m: float
    """Distance between two knots, m, more than 0."""
    controls_m: tuple[float, ...]
    """Control points, m, positive left: one before the first knot, one at each knot, one beyond the
    last; 4 at least."""
    lap_m: float = inf
    """Length of a closed course, see :class:`LateralOffset`."""

    @property
    def usable(self) -> bool:
        """True if all fields are numbers that give an offset everywhere."""
        controls = self.controls_m
        if type(controls) is not tuple or not 4 <= len(controls) <= MOST_CONTROLS:
            return False
        numbers = self.start_m, self.step_m, *controls
        if not all(isinstance(value, float | int) for value in (*numbers, self.lap_m)) or not all(
            map(isfinite, numbers)
        ):
            return False
        return self.step_m > 0.0 and self.lap_m > 0.0

    @property
    def length_m(self) -> float:
        """Distance from the first knot to the last."""
        return self.step_m * (len(self.controls_m) - 3)

    def at(self, s_m: Any) -> Any:
        """Return the offset at arc lengths."""
        return self.shape(s_m)[0]

    def slope(self, s_m: Any) -> Any:
        """Return the change of the offset per metre at arc lengths."""
        return self.shape(s_m)[1]

    def shape(self, s_m: Any) -> tuple[Any, Any, Any]:
        """Return offset, slope and second derivative at arc lengths together."""
        last = len(self.controls_m) - 3
        place = np.clip(_from_start(s_m, self.start_m, self.lap_m) / self.step_m, 0.0, last)
        index = np.minimum(place.astype(np.int64), last - 1)
        u, controls = place - index, np.array(self.controls_m)
        c0 = controls[index]
        c1 = controls[index + 1]
        c2 = controls[index + 2]
        c3 = controls[index + 3]
        # Coefficients of the powers of u, times 6.
        b1, b2, b3 = 3.0 * (c2 - c0), 3.0 * (c0 - 2.0 * c1 + c2), c3 - c0 + 3.0 * (c1 - c2)
        offset = (c0 + 4.0 * c1 + c2 + u * (b1 + u * (b2 + u * b3))) / 6.0
        inside = (place > 0.0) & (place < last)
        slope = np.where(inside, (b1 + u * (2.0 * b2 + u * 3.0 * b3)) / (6.0 * self.step_m), 0.0)
        bend = np.where(inside, (2.0 * b2 + u * 6.0 * b3) / (6.0 * self.step_m * self.step_m), 0.0)
        return offset, slope, bend

    def settled(self, s_m: float) -> bool:
        """Return True if the last change is over at an arc length."""
        return bool(_from_start(s_m, self.start_m, self.lap_m) >= self.length_m)


PlannedOffset = LateralOffset | LateralSpline
"""Path that a controller may plan beside its course."""


def _from_start(s_m: Any, start_m: Any, lap_m: float) -> Any:
    """Return the distance ahead of the start; on a lap that of the nearer round."""
    ahead = np.asarray(s_m) - start_m
    return ahead if lap_m == inf else (ahead + 0.5 * lap_m) % lap_m - 0.5 * lap_m
