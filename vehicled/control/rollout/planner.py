"""Choice of the path beside the course: candidates, their prediction, their cost."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from vehicled.control.preview import Preview
from vehicled.control.rollout.params import RolloutParams
from vehicled.control.rollout.simulation import CourseTable, Predicted, TrackModel, simulate
from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.safety.monitors.lane import LaneBody

PEAK_BEND = 5.78
"""Largest second derivative of the change of offset, times length squared over the change."""
BEND_SHARE = 0.5
"""Part of the tightest turn, and of the lateral limit, that a change of offset may take."""
MOST_POINTS = 80
"""Obstacle points that count; more are thinned evenly."""
GRID_M = 0.05
"""Cells in which one return stands for all."""
NO_NEARER_M = 0.02
SETTLED_M = 0.01
"""Offsets nearer to each other count as one."""


class ChosenPath(NamedTuple):
    """Chosen path and speed."""

    path: LateralOffset | None
    """None: the course itself."""
    ratio: float
    """Speed over that of the course."""
    clearance_m: float
    """Predicted clearance beyond the required one; infinite if nothing is near."""
    free: bool
    """False if no path is free: the obstacle stop will act."""
    rollouts: int


class PlannerLimits(NamedTuple):
    """Limits of the vehicle for the candidates."""

    spread_m: float
    max_curvature_per_m: float
    max_lateral_mps2: float


class Planner:
    """Chooses among paths. Holds no state but the course; the same input gives the same choice."""

    def __init__(self, params: RolloutParams, course: CourseTable, body: LaneBody, limits: PlannerLimits) -> None:
        self._params, self._course, self._body, self._limits = params, course, body, limits
        self._required_m = body.side_m + params.clearance_m
        self._reach_m = course.top_mps * params.horizon_s + body.reach_m + limits.spread_m + 1.0

    def choose(
        self, model: TrackModel, start: Preview, s_m: float, present: LateralOffset | None, points: tuple[Array, Array], rounds: int
    ) -> ChosenPath:
        """Return the best path from a pose at ``s_m``. ``points``: x and y (n,) of the obstacles in the map frame."""
        p, spread = self._params, self._limits.spread_m
        target = float(present.after_m) if present is not None else 0.0
        x, y, required = self._near(points, start)
        best: tuple[float, float, float] = (inf, target, 1.0)
        found = ChosenPath(present, 1.0, inf, True, 0)
        blocked: tuple[float, ChosenPath] | None = None
        offsets, total = np.linspace(-spread, spread, p.paths), 0
        step = 2.0 * spread / max(p.paths - 1, 1)
        ratios = (1.0,) if p.slow_ratio >= 1.0 else (1.0, p.slow_ratio)
        steps = round(p.horizon_s / p.step_s)
        for number in range(rounds):
            if number == 0:
                # The path in force, unchanged, and the way back to the course come first.
                offsets = np.concatenate([[target, 0.0], offsets])
            paths, every, ratio = self._candidates(offsets, ratios, start, s_m, present, keeps_first=number == 0)
            predicted = simulate(model, self._course, paths, ratio, start, s_m, steps, p.step_s)
            total += len(ratio)
            clearance, free_s = self._clearance(predicted, x, y, required)
            cost = self._cost(every, ratio, clearance, target)
            choice = int(np.argmin(cost))
            if cost[choice] < best[0]:
                best = (float(cost[choice]), float(every[choice]), float(ratio[choice]))
                found = ChosenPath(self._line(paths, choice, present), best[2], float(clearance[choice]), True, total)
            if not np.isfinite(cost[choice]) and best[0] == inf:
                longest = int(np.argmax(free_s))
                if blocked is None or free_s[longest] > blocked[0]:
                    blocked = float(free_s[longest]), ChosenPath(present, 1.0, float(clearance[longest]), False, total)
            if best[0] <= 0.0:
                break  # the course itself at full speed, with all the clearance that counts
            step *= 0.5
            offsets = np.clip(best[1] + step * np.linspace(-1.0, 1.0, p.paths), -spread, spread)
        if best[0] == inf and blocked is not None:
            return blocked[1]._replace(rollouts=total)
        return found._replace(rollouts=total)

    def _near(self, points: tuple[Array, Array], start: Preview) -> tuple[Array, Array, Array]:
        """Return the points within reach, thinned to a grid and to at most ``MOST_POINTS``, and the distance required from each.

        From a point that is nearer already, the vehicle must not come nearer still.
        """
        x, y = points
        near = hypotenuse(x - start.x_m, y - start.y_m) <= self._reach_m
        cells = np.round((x[near] + 1j * y[near]) / GRID_M)
        _, index = np.unique(cells, return_index=True)
        index = index[:: max(1, -(-len(index) // MOST_POINTS))]
        x, y = x[near][index], y[near][index]
        now = self._distance(np.cos(start.yaw_rad), np.sin(start.yaw_rad), x - start.x_m, y - start.y_m)
        return x, y, np.minimum(self._required_m, now - NO_NEARER_M)

    def _distance(self, c: Any, s: Any, dx: Array, dy: Array) -> Array:
        """Return the distances of points from the body, from their offsets to the rear axle; 0 inside."""
        body = self._body
        ahead, left = c * dx + s * dy, np.abs(c * dy - s * dx)
        out_x = np.maximum(np.maximum(ahead - body.front_m, -body.rear_m - ahead), 0.0)
        out_y = np.maximum(left - body.half_m, 0.0)
        distance: Array = hypotenuse(out_x, out_y)
        return distance

    def _candidates(
        self,
        offsets: Array,
        ratios: tuple[float, ...],
        start: Preview,
        s_m: float,
        present: LateralOffset | None,
        *,
        keeps_first: bool,
    ) -> tuple[LateralOffset, Array, Array]:
        """Return the paths at every speed as arrays (m,), their offsets and speeds."""
        p, limits = self._params, self._limits
        before = float(present.at(s_m)) if present is not None else 0.0
        slope = float(present.slope(s_m)) if present is not None else 0.0
        every = np.tile(offsets, len(ratios))
        ratio = np.repeat(np.array(ratios), len(offsets))
        change = np.abs(every - before)
        v = np.maximum(abs(start.speed_mps), 0.3)
        by_turn = np.sqrt(PEAK_BEND * change / (BEND_SHARE * limits.max_curvature_per_m))
        by_grip = v * np.sqrt(PEAK_BEND * change / (BEND_SHARE * limits.max_lateral_mps2))
        length = np.maximum(np.maximum(p.change_time_s * v, by_turn), np.maximum(by_grip, 0.1))
        lap_m = self._course.length_m if self._course.closed else inf
        starts, befores, slopes = np.full(len(every), s_m), np.full(len(every), before), np.full(len(every), slope)
        if keeps_first:
            for k in range(0, len(every), len(offsets)):
                if present is None:
                    length[k], befores[k], slopes[k] = 1.0, 0.0, 0.0
                else:
                    starts[k], length[k], befores[k], slopes[k] = present[:4]
        return LateralOffset(starts, length, befores, slopes, every, lap_m), every, ratio

    def _line(self, paths: LateralOffset, k: int, present: LateralOffset | None) -> LateralOffset | None:
        start, length, before, slope, after = (float(column[k]) for column in paths[:5])
        if abs(after) < SETTLED_M and abs(before) < SETTLED_M and slope == 0.0:
            return None
        if present is not None and (start, length, before, slope, after) == present[:5]:
            return present
        return LateralOffset(start, length, before, slope, after, paths.lap_m)

    def _clearance(self, predicted: Predicted, x: Array, y: Array, required: Array) -> tuple[Array, Array]:
        """Return of each drive the least distance beyond the required one, and the time until it is negative."""
        m, n = predicted.x_m.shape
        if not len(x):
            return np.full(m, inf), np.full(m, inf)
        c, s = np.cos(predicted.yaw_rad)[:, :, None], np.sin(predicted.yaw_rad)[:, :, None]
        dx, dy = x - predicted.x_m[:, :, None], y - predicted.y_m[:, :, None]
        spare = (self._distance(c, s, dx, dy) - required).min(axis=2)
        hit = spare < 0.0
        free_s = np.where(hit.any(axis=1), hit.argmax(axis=1), n) * self._params.step_s
        return spare.min(axis=1), free_s

    def _cost(self, offsets: Array, ratio: Array, spare: Array, target: float) -> Array:
        p = self._params
        near = np.clip(1.0 - spare / p.comfort_m, 0.0, 1.0)
        change = np.where(np.abs(offsets) < SETTLED_M, 0.0, np.abs(offsets - target))
        cost = np.abs(offsets) + p.clearance_weight * near + p.speed_weight * (1.0 - ratio) + p.change_weight * change
        return np.where(spare >= 0.0, cost, inf)
