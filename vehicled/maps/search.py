"""Search of a pose on a whole map: branch and bound over a pyramid of likelihoods (Hess et al.
2016), in bounded steps.

The likelihood of a cell falls from 1 on a surface to 0 at ``REACH_M``. Level k of the pyramid holds
the largest likelihood of the 2^k x 2^k cells from each cell on, so the mean over a scan's points
there is a bound for all poses shifted by up to 2^k - 1 cells. A step evaluates the most promising
boxes and drops those that cannot come near the best pose any more.
"""

from math import ceil, hypot, remainder, tau

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, hypotenuse
from vehicled.maps.matching import PlanarPose
from vehicled.maps.surface import Elements, Index

REACH_M = 0.3
"""Distance from a surface at which a point has no likelihood left."""
POINTS = 90
"""Points of a scan that are used."""
RIVAL = 0.9
"""Likelihood, over that of the best pose, from which another pose far from it is a rival."""
APART_M, APART_RAD = 1.0, 0.6
LEAST = 0.5
"""Likelihood below which no pose is found."""
MAX_LEVEL = 7
MAX_OPEN = 200_000
"""Most boxes that wait; the least promising beyond it are dropped."""


class Pyramid:
    """Likelihoods of a map, and their maxima over squares of growing size."""

    def __init__(self, elements: Elements, resolution_m: float = 0.1) -> None:
        self.resolution_m = resolution_m
        self.levels: list[npt.NDArray[np.uint8]] = []
        if not len(elements):
            return
        margin = ceil(REACH_M / resolution_m) + 1
        self.x_m = float(elements.x_m.min()) - margin * resolution_m
        self.y_m = float(elements.y_m.min()) - margin * resolution_m
        columns = int((float(elements.x_m.max()) - self.x_m) / resolution_m) + margin + 1
        rows = int((float(elements.y_m.max()) - self.y_m) / resolution_m) + margin + 1
        marked = np.zeros((rows, columns), np.uint8)
        row = ((elements.y_m - self.y_m) / resolution_m).astype(np.intp)
        column = ((elements.x_m - self.x_m) / resolution_m).astype(np.intp)
        reach = margin - 1
        for dy in range(-reach, reach + 1):
            for dx in range(-reach, reach + 1):
                value = round(255 * (1.0 - max(hypot(dx, dy) - 0.5, 0.0) * resolution_m / REACH_M))
                if value > 0:
                    np.maximum.at(marked, (row + dy, column + dx), np.uint8(value))
        self.levels.append(marked)
        while len(self.levels) <= MAX_LEVEL and 2 ** (len(self.levels) - 1) < max(rows, columns):
            self.levels.append(_pooled(self.levels[-1], 2 ** (len(self.levels) - 1)))

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns of the finest level."""
        return self.levels[0].shape[0], self.levels[0].shape[1]


def _pooled(values: npt.NDArray[np.uint8], reach: int) -> npt.NDArray[np.uint8]:
    """Return the largest of each value and those ``reach`` further up and right."""
    wide = values.copy()
    wide[:, :-reach] = np.maximum(wide[:, :-reach], values[:, reach:])
    high = wide.copy()
    high[:-reach] = np.maximum(high[:-reach], wide[reach:])
    return high


class PoseSearch:
    """Search of one scan on a map, or within a window of it. Call :meth:`step` until it returns
    True."""

    def __init__(
        self,
        pyramid: Pyramid,
        x_m: Array,
        y_m: Array,
        window: tuple[PlanarPose, float, float] | None = None,
        least: float = LEAST,
    ) -> None:
        """Take the points (n,), given from the vehicle. ``window``: a pose and how far place and
        yaw may be from it."""
        self._pyramid = pyramid
        self.best: PlanarPose | None = None
        """Most likely pose so far."""
        self.likelihood = 0.0
        self._leaves: list[tuple[float, float, float, float]] = []
        self._open: npt.NDArray[np.float32] = np.zeros((0, 5), np.float32)
        """Bound, level, angle number, row and column of the boxes that wait."""
        self._least = least
        if not pyramid.levels or not len(x_m):
            return
        pick = np.linspace(0, len(x_m) - 1, min(POINTS, len(x_m))).astype(np.intp)
        self._px, self._py = x_m[pick], y_m[pick]
        far = float(np.quantile(hypotenuse(self._px, self._py), 0.8))
        step = min(max(REACH_M / 2.0 / max(far, 0.1), 0.008), 0.1)
        if window is None:
            turns = ceil(tau / step)
            self._angles = np.arange(turns) * (tau / turns)
            rows, columns = pyramid.shape
            # A vehicle stands within the extent of its map.
            low_row, low_column, high_row, high_column = 0, 0, rows - 1, columns - 1
        else:
            (x, y, yaw), reach_m, reach_rad = window
            turns = ceil(reach_rad / step)
            self._angles = yaw + np.arange(-turns, turns + 1) * (reach_rad / turns)
            low_column, high_column = (
                int((x + d - pyramid.x_m) / pyramid.resolution_m) for d in (-reach_m, reach_m)
            )
            low_row, high_row = (
                int((y + d - pyramid.y_m) / pyramid.resolution_m) for d in (-reach_m, reach_m)
            )
        self._limits = low_row, high_row, low_column, high_column
        level = min(
            len(pyramid.levels) - 1, max(high_row - low_row, high_column - low_column).bit_length()
        )
        size = 2**level
        grid = np.meshgrid(
            np.arange(len(self._angles)), np.arange(low_row, high_row + 1, size),
            np.arange(low_column, high_column + 1, size), indexing="ij",
        )  # fmt: skip
        boxes = np.stack(
            [np.full(grid[0].size, 2.0), np.full(grid[0].size, level), *(g.ravel() for g in grid)],
            axis=1,
        )
        self._open = boxes.astype(np.float32)
        # The bound of the first boxes is not known yet; 2 is above every other one.

    def step(self, budget: int = 60_000) -> bool:
        """Evaluate boxes for up to about ``budget`` points. Return True once the search is over."""
        if not len(self._open):
            return True
        boxes = max(budget // len(self._px) // 4, 1)
        if self._open[0, 0] > 1.0:
            unknown = np.flatnonzero(self._open[:, 0] > 1.0)[: 4 * boxes]
            taken, rest = self._open[unknown], np.delete(self._open, unknown, axis=0)
            # Keep the ones without a bound in front.
            self._add(rest, self._bounded(taken))
            return not len(self._open)
        pick = (
            np.argpartition(-self._open[:, 0], boxes - 1)[:boxes]
            if len(self._open) > boxes
            else np.arange(len(self._open))
        )
        taken, rest = self._open[pick], np.delete(self._open, pick, axis=0)
        inner, leaf = taken[taken[:, 1] > 0.0], taken[taken[:, 1] <= 0.0]
        for bound, _, angle, row, column in leaf.tolist():
            self._found(bound, int(angle), int(row), int(column))
        if len(inner):
            half = 2.0 ** (inner[:, 1] - 1.0)
            parts = [
                inner + np.stack((z, z - 1.0, z, a * half, b * half), axis=1)
                for a in (0, 1)
                for b in (0, 1)
                for z in [0 * half]
            ]
            children = np.concatenate(parts)
            _, high_row, _, high_column = self._limits
            children = children[(children[:, 3] <= high_row) & (children[:, 4] <= high_column)]
            self._add(rest, self._bounded(children))
        else:
            self._add(rest, rest[:0])
        return not len(self._open)

    def rivals(self, apart_m: float = APART_M, apart_rad: float = APART_RAD) -> list[PlanarPose]:
        """Return the likely poses far from the best one, the likeliest first, one of each place."""
        if self.best is None:
            return []
        kept = [self.best]
        for likelihood, x, y, yaw in sorted(self._leaves, reverse=True):
            if likelihood < RIVAL * self.likelihood:
                break
            if all(
                hypot(x - k.x_m, y - k.y_m) > apart_m
                or abs(remainder(yaw - k.yaw_rad, tau)) > apart_rad
                for k in kept
            ):
                kept.append(PlanarPose(x, y, yaw))
                if len(kept) > 8:
                    break
        return kept[1:]

    def _found(self, likelihood: float, angle: int, row: int, column: int) -> None:
        p = self._pyramid
        pose = PlanarPose(
            p.x_m + (column + 0.5) * p.resolution_m,
            p.y_m + (row + 0.5) * p.resolution_m,
            remainder(float(self._angles[angle]), tau),
        )
        self._leaves.append((likelihood, *pose))
        if likelihood > self.likelihood:
            self.likelihood, self.best = likelihood, pose

    def _add(self, rest: npt.NDArray[np.float32], new: npt.NDArray[np.float32]) -> None:
        both = np.concatenate((rest, new))
        threshold = max(self._least, RIVAL * self.likelihood)
        both = both[both[:, 0] >= threshold]
        if len(both) > MAX_OPEN and both[0, 0] <= 1.0:
            both = both[np.argpartition(-both[:, 0], MAX_OPEN)[:MAX_OPEN]]
        self._open = both

    def _bounded(self, boxes: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
        """Return boxes with the mean likelihood of the points at their level."""
        p, out = self._pyramid, boxes.copy()
        rows, columns = p.shape
        yaw = self._angles[boxes[:, 2].astype(np.intp)]
        c, s = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
        # Points relative to the cell's centre, in cells; a box's first cell is added before
        # rounding down.
        u = (c * self._px - s * self._py) / p.resolution_m + 0.5
        v = (s * self._px + c * self._py) / p.resolution_m + 0.5
        column: Index = np.floor(u + boxes[:, 4:5]).astype(np.intp)
        row: Index = np.floor(v + boxes[:, 3:4]).astype(np.intp)
        for level in np.unique(boxes[:, 1]).astype(int).tolist():
            at = boxes[:, 1] == level
            size = 2**level - 1
            r, k = row[at], column[at]
            # A square that begins outside of the table may still reach into it.
            inside = (r >= -size) & (r < rows) & (k >= -size) & (k < columns)
            values = p.levels[level][np.clip(r, 0, rows - 1), np.clip(k, 0, columns - 1)]
            out[at, 0] = np.where(inside, values, 0).mean(axis=1, dtype=np.float32) * (1.0 / 255.0)
        return out
