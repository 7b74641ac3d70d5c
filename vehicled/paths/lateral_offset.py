"""A path beside the course, as its lateral offset over the arc length of the course (Frenet frame).

The offset changes from one constant to another along a quintic polynomial without a jump of heading or curvature.
"""

from math import inf, isfinite
from typing import Any, NamedTuple

import numpy as np


class LateralOffset(NamedTuple):
    """Lateral offset of a path from its course, m, positive left. The fields may be arrays of one shape, for many paths."""

    start_m: Any
    """Arc length of the course at which the change begins."""
    length_m: Any
    """Length of the change, more than 0."""
    before_m: Any
    slope_before: Any
    """Change of the offset per metre at the start."""
    after_m: Any
    lap_m: float = inf
    """Length of a closed course; the arc length is that of the nearer lap, so a change must be over within half a lap."""

    @property
    def usable(self) -> bool:
        """True if all fields are numbers that give an offset everywhere."""
        *fields, lap_m = self
        numbers = all(isinstance(value, float | int) for value in self) and all(map(isfinite, fields))
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
        slope = np.where(inside, (a1 + square * (3.0 * a3 + u * (4.0 * a4 + u * 5.0 * a5))) / length, 0.0)
        return offset, slope, u * (6.0 * a3 + u * (12.0 * a4 + u * 20.0 * a5)) / (length * length)

    def settled(self, s_m: float) -> bool:
        """Return True if the change is over at an arc length."""
        return bool(self._from_start(s_m) >= self.length_m)

    def _from_start(self, s_m: Any) -> Any:
        ahead = s_m - self.start_m
        return ahead if self.lap_m == inf else (ahead + 0.5 * self.lap_m) % self.lap_m - 0.5 * self.lap_m

    def _polynomial(self, s_m: Any) -> tuple[Any, Any, Any, Any, Any]:
        u = np.clip(self._from_start(s_m) / self.length_m, 0.0, 1.0)
        a1, change = self.slope_before * self.length_m, self.after_m - self.before_m
        return u, a1, 10.0 * change - 6.0 * a1, -15.0 * change + 8.0 * a1, 6.0 * change - 3.0 * a1
