"""A driven path as a course: from poses and speeds of a log to few, smooth waypoints with signed speeds. Pure.

The estimate that a path is taken from jumps by centimetres when a fix arrives, and it wanders while the vehicle stands. So the path
is laid out along the way driven by the speed, not by the positions; each part between two changes of direction is smoothed by
local cubics over ``WINDOW_M``, which leave the arcs that a vehicle can drive as they are; and standing adds nothing.
"""

from itertools import pairwise
from math import degrees

import numpy as np
import numpy.typing as npt

from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.smoothing import Array

MOVING_MPS = 0.08
"""Slower than this the vehicle stands: an estimate at rest shows some centimetres a second."""
SPEED_WINDOW_S = 0.5
SHORTEST_LEG_M = 0.3
"""A part driven the other way that is shorter is rolling back, not driving."""
SHORTEST_PATH_M = 1.0
FINE_M = 0.02
WINDOW_M = 2.0
MAX_JUMP_M = 1.0
"""Between two poses, beyond what the speed explains."""
SLOWEST_MPS = 0.3
"""Lowest speed kept: it was lower only at start and stop, which the speed profile handles."""


class Recorded:
    """Waypoints (n,) of a driven path."""

    def __init__(self, x_m: Array, y_m: Array, yaw_rad: Array, speed_mps: Array, legs: int) -> None:
        self.x_m, self.y_m, self.yaw_rad, self.speed_mps = x_m, y_m, yaw_rad, speed_mps
        self.legs = legs
        """Parts between changes of direction."""

    def to_csv(self, name: str, datum: Datum) -> str:
        """Return the path as the text of a course file."""
        place = f"{degrees(datum.latitude_rad):.10f}, {degrees(datum.longitude_rad):.10f}, {datum.height_m:.3f}"
        rows = zip(self.x_m.tolist(), self.y_m.tolist(), self.yaw_rad.tolist(), self.speed_mps.tolist(), strict=True)
        head = [f"# name: {name}", f"# datum_deg: {place}", "# closed: no", "x_m,y_m,heading_rad,speed_mps"]
        return "\n".join([*head, *(f"{x:.4f},{y:.4f},{yaw:.4f},{v:.3f}" for x, y, yaw, v in rows), ""])


def recorded(
    t_s: Array,
    x_m: Array,
    y_m: Array,
    yaw_rad: Array,
    speed_mps: Array,
    *,
    spacing_m: float,
    constant_mps: float | None = None,
    window_m: float = WINDOW_M,
) -> Recorded:
    """Return waypoints about ``spacing_m`` apart of a driven path, from poses (n,) in the order of their times and signed speeds.

    ``constant_mps``: its speed, forward and backward, instead of the one driven. ``window_m``: length of the smoothing. Raises
    :class:`CourseError` where nothing was driven, or the poses jump.
    """
    finite = np.isfinite(x_m) & np.isfinite(y_m) & np.isfinite(yaw_rad) & np.isfinite(speed_mps)
    t, x, y, v = (column[finite] for column in (t_s, x_m, y_m, speed_mps))
    moving = np.abs(v) > MOVING_MPS
    # An interval between two poses counts if either pose moves.
    step_s = np.diff(t)
    distance_m = np.where(moving[1:] | moving[:-1], 0.5 * (v[1:] + v[:-1]) * step_s, 0.0) if len(t) > 1 else np.zeros(0)
    total = float(np.abs(distance_m).sum())
    if total < SHORTEST_PATH_M:
        raise CourseError(f"nothing was driven: the vehicle moved {total:.2f} m in this time, a course needs {SHORTEST_PATH_M:g} m")
    _check_jumps(t, x, y, v)
    legs = [_leg(x, y, v, distance_m, first, last) for first, last in _legs(distance_m)]
    lines = [_smoothed(leg, spacing_m, constant_mps, window_m) for leg in legs]
    _meet([line for line, _ in lines])
    points = np.vstack([line[:-1] for line, _ in lines[:-1]] + [lines[-1][0]])
    speeds = np.concatenate([speed[:-1] for _, speed in lines[:-1]] + [lines[-1][1]])
    headings = np.concatenate([_headings(line, speed)[: len(line) - 1] for line, speed in lines[:-1]] + [_headings(*lines[-1])])
    return Recorded(points[:, 0], points[:, 1], headings, speeds, len(lines))


def trace_speeds(t_s: Array, points: Array) -> Array:
    """Return the speed (n,) at each row of a trace: the distance between two places ``SPEED_WINDOW_S`` apart, so that the noise of
    dense rows adds nothing. Times must not decrease."""
    times, rows = np.unique(t_s, return_index=True)
    if len(times) < 2:
        return np.zeros(len(t_s))
    early = np.maximum(t_s - 0.5 * SPEED_WINDOW_S, times[0])
    late = np.minimum(t_s + 0.5 * SPEED_WINDOW_S, times[-1])
    x, y = (np.interp(late, times, column[rows]) - np.interp(early, times, column[rows]) for column in points.T)
    return np.asarray(np.hypot(x, y) / (late - early))


def _check_jumps(t: Array, x: Array, y: Array, v: Array) -> None:
    jump = np.hypot(np.diff(x), np.diff(y)) - np.maximum(np.abs(v[1:]), np.abs(v[:-1])) * np.diff(t)
    worst = int(jump.argmax())
    if jump[worst] > MAX_JUMP_M:
        raise CourseError(
            f"the position jumps by {jump[worst]:.1f} m at {t[worst + 1]:.1f} s: leave out what lies before or after "
            "(record-path: --from, --to)"
        )


def _legs(distance_m: Array) -> list[tuple[int, int]]:
    """Return first and last pose of every part in one direction, without standstill; short parts belong to their neighbours."""
    found: list[list[int]] = []
    for i in np.flatnonzero(distance_m).tolist():
        sign = 1 if distance_m[i] > 0.0 else -1
        if found and found[-1][2] == sign:
            found[-1][1] = i + 1
        else:
            found.append([i, i + 1, sign])
    long = [leg for leg in found if abs(float(distance_m[leg[0] : leg[1]].sum())) >= SHORTEST_LEG_M]
    merged: list[list[int]] = []
    for leg in long:
        if merged and merged[-1][2] == leg[2]:
            merged[-1][1] = leg[1]
        else:
            merged.append(list(leg))
    if not merged:
        raise CourseError(f"nothing was driven: no part of it is {SHORTEST_LEG_M:g} m long")
    return [(first, last) for first, last, _ in merged]


Leg = tuple[Array, Array, Array, Array]


def _leg(x: Array, y: Array, v: Array, distance_m: Array, first: int, last: int) -> Leg:
    """Return arc length from 0, x, y and signed speed of one part, with increasing arc length."""
    sign = 1.0 if distance_m[first:last].sum() > 0.0 else -1.0
    s = np.concatenate(([0.0], np.cumsum(sign * distance_m[first:last])))
    # Rolling back a little within the part adds nothing.
    ahead = np.concatenate(([True], s[1:] > np.maximum.accumulate(s)[:-1] + 1e-9))
    rows = np.arange(first, last + 1)[ahead]
    return s[ahead], x[rows], y[rows], sign * np.maximum(sign * v[rows], 0.0)


def _smoothed(leg: Leg, spacing_m: float, constant_mps: float | None, window_m: float) -> tuple[Array, Array]:
    """Return waypoints (m, 2) and speeds (m,) of one part."""
    s, x, y, v = leg
    steps = max(8, round(float(s[-1]) / FINE_M))
    fine = np.linspace(0.0, float(s[-1]), steps + 1)
    half = min(round(0.5 * window_m / (fine[1] - fine[0])), steps // 2)
    line = np.column_stack([_local_cubic(np.interp(fine, s, column), half) for column in (x, y)])
    speed = _local_cubic(np.interp(fine, s, v), half)
    # Spaced along the line itself: the way by the speed is off by the wheel's scale.
    arc = np.concatenate(([0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))))
    wanted = np.linspace(0.0, float(arc[-1]), max(2, round(float(arc[-1]) / spacing_m)) + 1)
    points = np.column_stack([np.interp(wanted, arc, line[:, k]) for k in (0, 1)])
    sign = 1.0 if v.sum() > 0.0 else -1.0
    if constant_mps is not None:
        return points, np.full(len(points), sign * constant_mps)
    size = np.interp(wanted, arc, sign * speed)
    return points, sign * np.maximum(size, min(SLOWEST_MPS, float(np.median(size))))


def _local_cubic(values: Array, half: int) -> Array:
    """Return the least-squares cubic through ``2 half + 1`` neighbours of each value (n,), the nearest ones counting most.

    At the ends through the outermost ones. Cleveland 1979, with tricube weights: unlike equal ones they leave no ripple, which the
    curvature would show.
    """
    if half < 2:
        return values
    at = np.arange(-half, half + 1) / half
    inner = np.convolve(values, _weights(at, 0.0)[::-1], mode="valid")
    start = [_weights(at, centre) @ values[: len(at)] for centre in at[:half]]
    end = [_weights(at, centre) @ values[-len(at) :] for centre in at[half + 1 :]]
    return np.concatenate((start, inner, end))


def _weights(at: Array, centre: float) -> Array:
    """Return the weight of each neighbour at ``at`` (m,), -1 to 1, in the cubic's value at ``centre``."""
    reach = 1.0 + abs(centre) + 1e-6
    root = (1.0 - np.abs((at - centre) / reach) ** 3) ** 1.5
    powers = np.vander(at - centre, 4, increasing=True)
    return np.asarray(np.linalg.pinv(powers * root[:, None])[0] * root)


def _meet(lines: list[Array]) -> None:
    """Move the start of each part to the end of the previous one, because the estimate drifts at standstill."""
    for before, after in pairwise(lines):
        meeting = 0.5 * (before[-1] + after[0])
        before += np.linspace(0.0, 1.0, len(before))[:, None] ** 2 * (meeting - before[-1])
        after += np.linspace(1.0, 0.0, len(after))[:, None] ** 2 * (meeting - after[0])


def _headings(points: Array, speeds: npt.NDArray[np.float64]) -> Array:
    """Return the vehicle's yaw: the direction of motion, reversed when driving backward."""
    along = np.gradient(points, axis=0)
    back = np.pi if speeds[0] < 0.0 else 0.0
    return np.asarray(np.arctan2(along[:, 1], along[:, 0]) + back)
