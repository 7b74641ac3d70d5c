"""A race track: centre line, widths and walls; checks of what users give."""

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.offline.race.errors import RaceError
from vehicled.paths.course import MAX_COORDINATE_M, MAX_LENGTH_M

MIN_POINTS, MAX_POINTS = 8, 50_000
MAX_WIDTH_M = 100.0
OPEN_RATIO = 4.0
"""A gap between the last point and the first that is this many times the largest other one makes an
open track."""
LEAST_LENGTH_M = 2.0
WALL_STEP, MOST_CORNERS = 0.05, 8000
"""Distance of the corners of a wall, in widths of the track, and their largest number."""
KEPT = 0.99
"""Points of a wall that lie nearer to the centre line than this fraction of their width are beyond
the fold of an inside edge and are left out."""


class RaceTrack(Struct, frozen=True):
    """A closed track. Arrays (n,), in driving order, without a repeated first point."""

    name: str
    x_m: Array
    y_m: Array
    right_m: Array
    """Width to the right of the centre line."""
    left_m: Array
    left_wall_m: Array
    """Closed polygon (k, 2) of the left wall, in driving order."""
    right_wall_m: Array
    counter_clockwise: bool
    length_m: float
    remarks: tuple[str, ...] = ()
    """Remarks of the reader about the file."""

    @property
    def points(self) -> Array:
        """Centre line (n, 2)."""
        return np.column_stack((self.x_m, self.y_m))

    def reversed(self) -> "RaceTrack":
        """Return the track driven the other way round, from the same first point."""

        def turned(values: Array) -> Array:
            return np.roll(values[::-1], 1, axis=0)

        return RaceTrack(
            self.name,
            turned(self.x_m),
            turned(self.y_m),
            turned(self.left_m),
            turned(self.right_m),
            self.right_wall_m[::-1],
            self.left_wall_m[::-1],
            not self.counter_clockwise,
            self.length_m,
            self.remarks,
        )

    def width_at(self, x_m: float, y_m: float) -> float:
        """Return the width of the track at the nearest point of its centre line."""
        k = int(np.argmin(np.hypot(self.x_m - x_m, self.y_m - y_m)))
        return float(self.right_m[k] + self.left_m[k])


def track_of(
    name: str,
    x_m: npt.ArrayLike,
    y_m: npt.ArrayLike,
    right_m: npt.ArrayLike,
    left_m: npt.ArrayLike,
    *,
    places: list[str] | None = None,
    remarks: tuple[str, ...] = (),
) -> RaceTrack:
    """Return the checked track of a centre line and its widths. Raises :class:`RaceError` that
    names the point, as ``places`` calls it."""
    columns = [np.asarray(values, dtype=float) for values in (x_m, y_m, right_m, left_m)]
    names = ("x", "y", "width to the right", "width to the left")
    n = len(columns[0])
    where = places or [f"point {k + 1}" for k in range(n)]
    if n > MAX_POINTS:
        raise RaceError(f"{name}: {n} points; at most {MAX_POINTS} are read: thin the file out")
    for what, values in zip(names, columns, strict=True):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise RaceError(
                f"{name}, {where[bad[0]]}: {what} is {values[bad[0]]}; correct or delete the "
                "point: every value is a finite number of metres"
            )
    x, y, right, left = columns
    _check_sizes(name, where, x, y, right, left)
    notes = list(remarks)
    keep = np.hypot(x - np.roll(x, 1), y - np.roll(y, 1)) > 1e-6
    if n and not keep[0]:
        notes.append("the last point repeats the first one and is left out")
        keep[0], keep[-1] = True, False
    if not keep[1:].all() and (count := int((~keep[1:]).sum()) - (len(notes) > len(remarks))) > 0:
        notes.append(f"{count} points that repeat the one before them are left out")
    x, y, right, left = (values[keep] for values in (x, y, right, left))
    where = [place for place, kept in zip(where, keep, strict=True) if kept]
    if len(x) < MIN_POINTS:
        raise RaceError(
            f"{name}: {len(x)} different points; a track needs at least {MIN_POINTS} of its centre "
            "line"
        )
    legs = np.hypot(np.roll(x, -1) - x, np.roll(y, -1) - y)
    _check_closed(name, where, x, y, legs)
    length = float(legs.sum())
    if not LEAST_LENGTH_M <= length <= MAX_LENGTH_M:
        raise RaceError(
            f"{name}: the lap is {length:.3g} m long; {LEAST_LENGTH_M:g} to {MAX_LENGTH_M:g} m are "
            "possible: are the units metres?"
        )
    points = np.column_stack((x, y))
    _check_turns(name, where, points)
    _check_crossing(name, where, points)
    area = 0.5 * float((x * np.roll(y, -1) - np.roll(x, -1) * y).sum())
    left_wall, right_wall = _walls(points, left, -right)
    if min(len(left_wall), len(right_wall)) < 3:
        raise RaceError(
            f"{name}: the track is wider than the loop of its centre line, so that no wall is left "
            "inside; check the units of the widths"
        )
    return RaceTrack(
        name, x, y, right, left, left_wall, right_wall, area > 0.0, length, tuple(notes)
    )


def _check_sizes(
    name: str, where: list[str], x: Array, y: Array, right: Array, left: Array
) -> None:
    far = np.flatnonzero(np.maximum(np.abs(x), np.abs(y)) > MAX_COORDINATE_M)
    if len(far):
        k = far[0]
        raise RaceError(
            f"{name}, {where[k]}: ({x[k]:g}, {y[k]:g}) is further than "
            f"{MAX_COORDINATE_M / 1000:g} km from the origin; subtract an origin, and give metres, "
            "not millimetres"
        )
    for side, values in (("right", right), ("left", left)):
        negative = np.flatnonzero(values < 0.0)
        if len(negative):
            k = negative[0]
            raise RaceError(
                f"{name}, {where[k]}: the width to the {side} is {values[k]:g} m; widths are "
                "distances from the centre line to the wall, not coordinates, and never negative"
            )
        wide = np.flatnonzero(values > MAX_WIDTH_M)
        if len(wide):
            k = wide[0]
            raise RaceError(
                f"{name}, {where[k]}: the width to the {side} is {values[k]:g} m; at most "
                f"{MAX_WIDTH_M:g} m are read: are the units metres?"
            )
    none = np.flatnonzero(right + left <= 0.0)
    if len(none):
        raise RaceError(
            f"{name}, {where[none[0]]}: the track is 0 m wide ({len(none)} of {len(x)} points); "
            "give the distances to both walls, or delete the point"
        )


def _check_closed(name: str, where: list[str], x: Array, y: Array, legs: Array) -> None:
    others = legs[:-1]
    k = int(others.argmax())
    if legs[-1] > max(OPEN_RATIO * float(others[k]), 0.02 * float(legs.sum())):
        raise RaceError(
            f"{name}: the track is open: its last point ({where[-1]}, at ({x[-1]:.2f}, "
            f"{y[-1]:.2f}) m) is {legs[-1]:.1f} m from the first one; a race track is a lap: "
            "complete the file"
        )
    if len(legs) > 20 and others[k] > 40.0 * float(np.median(legs)):
        raise RaceError(
            f"{name}, {where[k]}: {others[k]:.1f} m to the next point, where others are "
            f"{np.median(legs):.2f} m apart: points are missing, or out of order"
        )


def _check_turns(name: str, where: list[str], points: Array) -> None:
    """Refuse a point from which the line turns back: points out of order, or in several laps."""
    legs = np.roll(points, -1, axis=0) - points
    before = np.roll(legs, 1, axis=0)
    turn = np.abs(
        np.arctan2(
            before[:, 0] * legs[:, 1] - before[:, 1] * legs[:, 0], (before * legs).sum(axis=1)
        )
    )
    k = int(turn.argmax())
    if turn[k] > 2.2:
        raise RaceError(
            f"{name}, {where[k]}: the centre line turns back by {np.degrees(turn[k]):.0f} degrees "
            f"at ({points[k, 0]:.2f}, {points[k, 1]:.2f}) m; the points are out of order, or one "
            "is wrong: correct or delete it"
        )


def _check_crossing(name: str, where: list[str], points: Array) -> None:
    crossing = first_crossing(points)
    if crossing is not None:
        i, j, (x, y) = crossing
        raise RaceError(
            f"{name}: the centre line crosses itself at ({x:.2f}, {y:.2f}) m, {where[i]} and "
            f"{where[j]}; a race track is one lap without a crossing: cut the file to one lap, or "
            "correct the points"
        )


def first_crossing(points: Array) -> tuple[int, int, tuple[float, float]] | None:
    """Return two legs of a closed line that cross, and where; None if none do."""
    n = len(points)
    ends = np.roll(points, -1, axis=0)
    low, high = np.minimum(points, ends), np.maximum(points, ends)
    order = np.argsort(low[:, 0], kind="stable")
    reach = np.searchsorted(low[order, 0], high[order, 0], side="right")
    for place, i in enumerate(order.tolist()):
        others = order[place + 1 : reach[place]]
        others = others[(low[others, 1] <= high[i, 1]) & (high[others, 1] >= low[i, 1])]
        gap = np.abs(others - i)
        others = others[(gap > 1) & (gap < n - 1)]
        if not len(others):
            continue
        along, across = ends[i] - points[i], ends[others] - points[others]
        apart = points[others] - points[i]
        det = along[0] * across[:, 1] - along[1] * across[:, 0]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = (apart[:, 0] * across[:, 1] - apart[:, 1] * across[:, 0]) / det
            u = (apart[:, 0] * along[1] - apart[:, 1] * along[0]) / det
        hit = np.flatnonzero((t >= 0.0) & (t <= 1.0) & (u >= 0.0) & (u <= 1.0))
        if len(hit):
            k = int(hit[0])
            x, y = points[i] + t[k] * along
            j = int(others[k])
            return min(i, j), max(i, j), (float(x), float(y))
    return None


def normals_of(points: Array) -> Array:
    """Return the unit normals (n, 2) of a closed line, to the left."""
    tangent = np.roll(points, -1, axis=0) - np.roll(points, 1, axis=0)
    tangent /= np.maximum(np.hypot(tangent[:, 0], tangent[:, 1]), 1e-12)[:, None]
    return np.column_stack((-tangent[:, 1], tangent[:, 0]))


def _walls(points: Array, left: Array, right: Array) -> tuple[Array, Array]:
    """Return the walls at offsets to the left of the cubic through a closed line, without the folds
    of tight bends.

    They have more corners than the line: a wall of a few chords would bend the race line at each.
    """
    from scipy.interpolate import CubicSpline
    from scipy.spatial import cKDTree

    ring = np.vstack((points, points[:1]))
    s = np.append(0.0, np.cumsum(np.hypot(*np.diff(ring, axis=0).T)))
    width = float(np.mean(left - right))
    n = len(points)
    parts = int(np.clip(s[-1] / (WALL_STEP * width) / n, 1.0, max(MOST_CORNERS / n, 1.0)) + 0.5)
    fine = np.interp(np.arange(n * parts) / parts, np.arange(n + 1), s)
    spline = CubicSpline(s, ring, bc_type="periodic")
    line, tangent = spline(fine), spline(fine, 1)
    tangent /= np.maximum(np.hypot(tangent[:, 0], tangent[:, 1]), 1e-12)[:, None]
    normals = np.column_stack((-tangent[:, 1], tangent[:, 0]))
    tree = cKDTree(line)
    found = []
    for offset in (left, right):
        shift = np.interp(fine, s, np.append(offset, offset[0]))
        wall = line + shift[:, None] * normals
        size = np.abs(shift)
        nearest, index = tree.query(wall)
        found.append(wall[nearest >= KEPT * np.minimum(size, size[index]) - 1e-9])
    return found[0], found[1]
