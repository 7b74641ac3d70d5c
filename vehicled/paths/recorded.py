"""A driven path as a course: from poses and speeds of a log, or dense rows alone, to few, smooth
waypoints. Pure.

The estimate that a path is taken from jumps by centimetres when a fix arrives, and it wanders while
the vehicle stands. So the path is laid out along the way driven by the speed, not by the positions;
each part between two changes of direction is smoothed by local cubics over ``WINDOW_M``, which
leave the arcs that a vehicle can drive as they are; and standing adds nothing.
"""

from itertools import pairwise
from math import degrees

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, arctan2, hypotenuse
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError

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
ZIGZAG_RATIO, ZIGZAG_CORRELATION = 0.2, -0.2
"""Changes from leg to leg that are so large beside the legs (root mean square), and taken back so
often, are noise."""
LENGTHENED_RATIO = 1.02
"""Noise makes the way from row to row at least so much longer than that by chords; rows at uneven
distances do not."""
FAR_RATIO = 8.0
"""Legs so much longer than the median one are stretches without rows."""
CHORD_M = 0.5
FEWEST_ROWS = 20
JOIN_M = 0.4
"""Ends of a line that are so near are those of a lap."""


class Recorded:
    """Waypoints (n,) of a driven path."""

    def __init__(
        self,
        x_m: Array,
        y_m: Array,
        yaw_rad: Array,
        speed_mps: Array,
        legs: int,
        shift_m: float = 0.0,
    ) -> None:
        self.x_m, self.y_m, self.yaw_rad, self.speed_mps = x_m, y_m, yaw_rad, speed_mps
        self.legs = legs
        """Parts between changes of direction."""
        self.shift_m = shift_m
        """Largest distance by which smoothing moved a pose."""

    def to_csv(self, name: str, datum: Datum) -> str:
        """Return the path as the text of a course file."""
        place = (
            f"{degrees(datum.latitude_rad):.10f}, {degrees(datum.longitude_rad):.10f}, "
            f"{datum.height_m:.3f}"
        )
        rows = zip(
            self.x_m.tolist(),
            self.y_m.tolist(),
            self.yaw_rad.tolist(),
            self.speed_mps.tolist(),
            strict=True,
        )
        head = [
            f"# name: {name}",
            f"# datum_deg: {place}",
            "# closed: no",
            "x_m,y_m,heading_rad,speed_mps",
        ]
        return "\n".join(
            [*head, *(f"{x:.4f},{y:.4f},{yaw:.4f},{v:.3f}" for x, y, yaw, v in rows), ""]
        )


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
    """Return waypoints about ``spacing_m`` apart of a driven path, from poses (n,) in the order of
    their times and signed speeds.

    ``constant_mps``: its speed, forward and backward, instead of the one driven. ``window_m``:
    length of the smoothing. Raises :class:`CourseError` where nothing was driven, or the poses
    jump.
    """
    finite = np.isfinite(x_m) & np.isfinite(y_m) & np.isfinite(yaw_rad) & np.isfinite(speed_mps)
    t, x, y, v = (column[finite] for column in (t_s, x_m, y_m, speed_mps))
    moving = np.abs(v) > MOVING_MPS
    # An interval between two poses counts if either pose moves.
    step_s = np.diff(t)
    distance_m = (
        np.where(moving[1:] | moving[:-1], 0.5 * (v[1:] + v[:-1]) * step_s, 0.0)
        if len(t) > 1
        else np.zeros(0)
    )
    total = float(np.abs(distance_m).sum())
    if total < SHORTEST_PATH_M:
        raise CourseError(
            f"nothing was driven: the vehicle moved {total:.2f} m in this time, a course needs "
            f"{SHORTEST_PATH_M:g} m"
        )
    _check_jumps(t, x, y, v)
    parts = _legs(distance_m)
    _check_cusps(t, np.column_stack((x, y)), parts)
    legs = [_leg(x, y, v, distance_m, first, last) for first, last in parts]
    smoothed = [_smoothed(leg, spacing_m, constant_mps, window_m) for leg in legs]
    lines = [(line, speed) for line, speed, _ in smoothed]
    _meet([line for line, _ in lines])
    points = np.vstack([line[:-1] for line, _ in lines[:-1]] + [lines[-1][0]])
    speeds = np.concatenate([speed[:-1] for _, speed in lines[:-1]] + [lines[-1][1]])
    headings = np.concatenate(
        [_headings(line, speed)[: len(line) - 1] for line, speed in lines[:-1]]
        + [_headings(*lines[-1])]
    )
    shift_m = max(shift for _, _, shift in smoothed)
    return Recorded(points[:, 0], points[:, 1], headings, speeds, len(lines), shift_m)


def zigzags(points: Array) -> bool:
    """Return True if rows at points (n, 2) are closer together than their noise is large, which
    would lengthen the line."""
    points = points[np.concatenate(([True], np.any(np.diff(points, axis=0) != 0.0, axis=1)))]
    if len(points) < FEWEST_ROWS:
        return False
    legs = np.diff(points, axis=0)
    sizes = hypotenuse(*legs.T)
    chords = points[chord_rows(points, CHORD_M)]
    if float(sizes.sum()) < LENGTHENED_RATIO * float(
        hypotenuse(*np.diff(np.vstack((chords, points[-1:])), axis=0).T).sum()
    ):
        return False
    # A stretch without rows is no noise.
    near = sizes < FAR_RATIO * float(np.median(sizes))
    changes = np.where((near[1:] & near[:-1])[:, None], np.diff(legs, axis=0), 0.0)
    power = float((changes**2).sum(axis=1).mean())
    if power < ZIGZAG_RATIO**2 * float((legs[near] ** 2).sum(axis=1).mean()):
        return False
    # White noise takes two thirds of each change back in the next one; a bend goes on.
    return float((changes[1:] * changes[:-1]).sum(axis=1).mean()) < ZIGZAG_CORRELATION * power


def smoothed_rows(
    points: Array, *, spacing_m: float, window_m: float, closed: bool | None
) -> tuple[Array, Array, float]:
    """Return waypoints (m, 2) about ``spacing_m`` apart of dense rows at points (n, 2), the row
    (m,) of each as a fraction, and the largest shift of a row in m."""
    rows = chord_rows(points, CHORD_M)
    rows = rows if rows[-1] == len(points) - 1 else np.append(rows, len(points) - 1)
    along = np.concatenate(([0.0], np.cumsum(hypotenuse(*np.diff(points[rows], axis=0).T))))
    # Between two chords the rows count alike, so that noise does not lengthen the way.
    s = np.interp(np.arange(len(points)), rows, along + 1e-9 * np.arange(len(along)))
    x = points[:, 0]
    y = points[:, 1]
    length = float(s[-1])
    gap = float(hypotenuse(*(points[-1] - points[0])))
    if (closed is None and gap < JOIN_M < 0.1 * length) or closed:
        # A lap is smoothed over its join.
        tail, head = np.flatnonzero(s > length - window_m)[1:], np.flatnonzero(s < window_m)[:-1]
        order = np.concatenate((tail, np.arange(len(s)), head))
        lap = np.repeat([-1.0, 0.0, 1.0], [len(tail), len(s), len(head)])
        fine, line = _fine_line(s[order] + lap * (length + gap), x[order], y[order], window_m)
        inside = (fine >= 0.0) & (fine <= length)
        fine, line = fine[inside], line[inside]
    else:
        fine, line = _fine_line(s, x, y, window_m)
    shift = float(
        hypotenuse(x - np.interp(s, fine, line[:, 0]), y - np.interp(s, fine, line[:, 1])).max()
    )
    arc = np.concatenate(([0.0], np.cumsum(hypotenuse(*np.diff(line, axis=0).T))))
    wanted = np.linspace(0.0, float(arc[-1]), max(2, round(float(arc[-1]) / spacing_m)) + 1)
    waypoints = np.column_stack([np.interp(wanted, arc, line[:, k]) for k in (0, 1)])
    return waypoints, np.interp(np.interp(wanted, arc, fine), s, np.arange(len(points))), shift


def chord_rows(points: Array, chord_m: float) -> npt.NDArray[np.int64]:
    """Return the rows (k,), the first included, each ``chord_m`` or more from the one before, so
    that noise adds no distance."""
    rows = [0]
    at_x, at_y = points[0]
    for i, (x, y) in enumerate(points.tolist()):
        if (x - at_x) ** 2 + (y - at_y) ** 2 >= chord_m**2:
            rows.append(i)
            at_x, at_y = x, y
    return np.array(rows)


def trace_speeds(t_s: Array, points: Array) -> Array:
    """Return the speed (n,) at each row of a trace: the distance between two places
    ``SPEED_WINDOW_S`` apart, so that the noise of dense rows adds nothing. Times must not
    decrease."""
    times, rows = np.unique(t_s, return_index=True)
    if len(times) < 2:
        return np.zeros(len(t_s))
    early = np.maximum(t_s - 0.5 * SPEED_WINDOW_S, times[0])
    late = np.minimum(t_s + 0.5 * SPEED_WINDOW_S, times[-1])
    x, y = (
        np.interp(late, times, column[rows]) - np.interp(early, times, column[rows])
        for column in points.T
    )
    return np.asarray(hypotenuse(x, y) / (late - early))


def _check_jumps(t: Array, x: Array, y: Array, v: Array) -> None:
    jump = hypotenuse(np.diff(x), np.diff(y)) - np.maximum(np.abs(v[1:]), np.abs(v[:-1])) * np.diff(
        t
    )
    worst = int(jump.argmax())
    if jump[worst] > MAX_JUMP_M:
        raise CourseError(
            f"the position jumps by {jump[worst]:.1f} m at {t[worst + 1]:.1f} s: leave out what "
            "lies before or after (record-path: --from, --to)"
        )


def _legs(distance_m: Array) -> list[tuple[int, int]]:
    """Return first and last pose of every part in one direction, without standstill; short parts
    belong to their neighbours."""
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


def _check_cusps(t: Array, points: Array, parts: list[tuple[int, int]]) -> None:
    """Raise CourseError where the speed changes its sign but the vehicle drives on: its sign is no
    direction."""
    for (begin, end), (start, stop) in pairwise(parts):
        arriving = points[end] - points[_row_at(points, end, begin)]
        leaving = points[_row_at(points, start, stop)] - points[start]
        if float(np.sum(arriving * leaving)) > 0.0:
            raise CourseError(
                f"the speed changes its sign at {t[start]:.1f} s but the vehicle does not turn "
                "back there: delete the sign of the speeds if it drove forward"
            )


def _row_at(points: Array, from_row: int, to_row: int) -> int:
    """Return the first row from ``from_row`` towards ``to_row`` that is ``CHORD_M`` away."""
    step = 1 if to_row > from_row else -1
    for row in range(from_row, to_row, step):
        if float(hypotenuse(*(points[row] - points[from_row]))) >= CHORD_M:
            return row
    return to_row


Leg = tuple[Array, Array, Array, Array]


def _leg(x: Array, y: Array, v: Array, distance_m: Array, first: int, last: int) -> Leg:
    """Return arc length from 0, x, y and signed speed of one part, with increasing arc length."""
    sign = 1.0 if distance_m[first:last].sum() > 0.0 else -1.0
    s = np.concatenate(([0.0], np.cumsum(sign * distance_m[first:last])))
    # Rolling back a little within the part adds nothing.
    ahead = np.concatenate(([True], s[1:] > np.maximum.accumulate(s)[:-1] + 1e-9))
    rows = np.arange(first, last + 1)[ahead]
    return s[ahead], x[rows], y[rows], sign * np.maximum(sign * v[rows], 0.0)


def _fine_line(s: Array, x: Array, y: Array, window_m: float) -> tuple[Array, Array]:
    """Return even arc lengths (k,) of a part and its smoothed line (k, 2) there."""
    steps = max(8, round(float(s[-1] - s[0]) / FINE_M))
    fine = np.linspace(float(s[0]), float(s[-1]), steps + 1)
    half = _half(fine, window_m)
    return fine, np.column_stack(
        [_local_cubic(np.interp(fine, s, column), half) for column in (x, y)]
    )


def _half(fine: Array, window_m: float) -> int:
    return int(min(round(0.5 * window_m / (fine[1] - fine[0])), (len(fine) - 1) // 2))


def _smoothed(
    leg: Leg, spacing_m: float, constant_mps: float | None, window_m: float
) -> tuple[Array, Array, float]:
    """Return waypoints (m, 2) and speeds (m,) of one part, and the largest shift of a pose."""
    s, x, y, v = leg
    fine, line = _fine_line(s, x, y, window_m)
    shift = float(
        hypotenuse(x - np.interp(s, fine, line[:, 0]), y - np.interp(s, fine, line[:, 1])).max()
    )
    speed = _local_cubic(np.interp(fine, s, v), _half(fine, window_m))
    # Spaced along the line itself: the way by the speed is off by the wheel's scale.
    arc = np.concatenate(([0.0], np.cumsum(hypotenuse(*np.diff(line, axis=0).T))))
    wanted = np.linspace(0.0, float(arc[-1]), max(2, round(float(arc[-1]) / spacing_m)) + 1)
    points = np.column_stack([np.interp(wanted, arc, line[:, k]) for k in (0, 1)])
    sign = 1.0 if v.sum() > 0.0 else -1.0
    if constant_mps is not None:
        return points, np.full(len(points), sign * constant_mps), shift
    size = np.interp(wanted, arc, sign * speed)
    return points, sign * np.maximum(size, min(SLOWEST_MPS, float(np.median(size)))), shift


def _local_cubic(values: Array, half: int) -> Array:
    """Return the least-squares cubic through ``2 half + 1`` neighbours of each value (n,), the
    nearest ones counting most.

    At the ends through the outermost ones. Cleveland 1979, with tricube weights: unlike equal ones
    they leave no ripple, which the curvature would show.
    """
    if half < 2:
        return values
    at = np.arange(-half, half + 1) / half
    inner = np.convolve(values, _weights(at, 0.0)[::-1], mode="valid")
    start = [_weights(at, centre) @ values[: len(at)] for centre in at[:half]]
    end = [_weights(at, centre) @ values[-len(at) :] for centre in at[half + 1 :]]
    return np.concatenate((start, inner, end))


def _weights(at: Array, centre: float) -> Array:
    """Return the weight of each neighbour at ``at`` (m,), -1 to 1, in the cubic's value at
    ``centre``."""
    reach = 1.0 + abs(centre) + 1e-6
    root = (1.0 - np.abs((at - centre) / reach) ** 3) ** 1.5
    powers = np.vander(at - centre, 4, increasing=True)
    return np.asarray(np.linalg.pinv(powers * root[:, None])[0] * root)


def _meet(lines: list[Array]) -> None:
    """Move the start of each part to the end of the previous one, because the estimate drifts at
    standstill."""
    for before, after in pairwise(lines):
        meeting = 0.5 * (before[-1] + after[0])
        before += np.linspace(0.0, 1.0, len(before))[:, None] ** 2 * (meeting - before[-1])
        after += np.linspace(1.0, 0.0, len(after))[:, None] ** 2 * (meeting - after[0])


def _headings(points: Array, speeds: npt.NDArray[np.float64]) -> Array:
    """Return the vehicle's yaw: the direction of motion, reversed when driving backward."""
    along = np.gradient(points, axis=0)
    back = np.pi if speeds[0] < 0.0 else 0.0
    return np.asarray(arctan2(along[:, 1], along[:, 0]) + back)
