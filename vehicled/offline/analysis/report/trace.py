"""Track of the vehicle on the map, in constant memory."""

from typing import Any

import numpy as np

_LIMIT = 4_096


class Trace:
    """Every n-th position; n doubles when memory is full."""

    def __init__(self) -> None:
        self._places: Any = np.empty((0, 2))
        self._every = 1
        self._next = 0
        """Rows until the next one to keep."""

    def add(self, x_m: Any, y_m: Any) -> None:
        """Add positions of shape (n,), in order."""
        n = len(x_m)
        kept = slice(self._next, None, self._every)
        found = np.stack([x_m[kept], y_m[kept]], axis=1)
        self._next = (self._next - n) % self._every if self._next < n else self._next - n
        self._places = np.concatenate([self._places, found[np.isfinite(found).all(axis=1)]])
        while len(self._places) > _LIMIT:
            self._places = self._places[::2]
            self._every *= 2

    @property
    def places(self) -> Any:
        """Positions, shape (n, 2), m."""
        return self._places

    @property
    def every(self) -> int:
        """Decimation: one of this many rows is kept."""
        return self._every
