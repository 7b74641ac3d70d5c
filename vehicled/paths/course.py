"""A course: the line to drive, evenly sampled, with heading, curvature and target speed along it.

Published waypoint files are uneven, doubled here and there, and their headings are up to 0.25 rad
off the line they describe, so everything but position and speed is computed from the geometry.
Between waypoints the line is a cubic through them; where it turns too sharply for that it keeps its
corner. Parts with a negative speed are driven backward, see :mod:`vehicled.paths.cusps`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from math import hypot, remainder, tau

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, arctan2, hypotenuse
from vehicled.paths import cusps, smoothing
from vehicled.paths.datum import LOT_17, Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.markings import NO_MARKINGS, Markings
from vehicled.paths.read_summary import ReadSummary
from vehicled.paths.waits import Wait, folded, waits_at

Rows = npt.NDArray[np.int64]
"""Index of the original waypoint for each remaining point."""

SPACING_M = 0.1
MAX_SAMPLES = 200_000
MAX_WAYPOINTS = 200_000
MAX_LENGTH_M = 100_000.0
MIN_LENGTH_M = 0.5
MAX_SPEED_MPS = 100.0
MAX_COORDINATE_M = 200_000.0
# A spike is a waypoint from which the line turns back at once; one shorter than this is a slip of
# the drawing and is dropped, a longer one cannot be driven and is refused.
SPIKE_LENGTH_M = 0.5
SPIKE_TURN_RAD = 2.4
REVERSAL_RAD = 3.0
# Ends further apart than this, however wide the spacing, are joined only where the line runs on
# smoothly into its own start.
MAX_JOIN_M = 1.0
MAX_JOIN_FRACTION, SMOOTH_JOIN_RAD = 0.02, 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Course:
    """A line in the ENU plane of ``datum``. Arrays (n,) float64, read-only, in driving order.

    A closed course does not repeat its first sample: the last leg, from sample n-1 to sample 0,
    ends at ``length_m``. A run starts at s = 0 on either kind; ``yaw_rad[0]`` is the direction of
    departure even where a lap ends in a corner.

    Heading, curvature and speed are the vehicle's, whichever way it drives: where the speed is
    negative the line is driven backward, its tangent in driving order is ``yaw_rad`` + pi, and yaw
    changes by minus the curvature per metre of the line. Where the sign changes, at a cusp, the
    vehicle stops; its heading is continuous there, the curvature need not be.
    """

    name: str
    x_m: Array
    y_m: Array
    yaw_rad: Array
    """Heading of the vehicle, counter-clockwise from east, unwrapped (continuous, may leave
    -pi..pi). Forward it is the tangent; at a corner the mean of both legs."""
    curvature_per_m: Array
    """tan(wheel angle) / wheelbase of a vehicle on the line: positive when its wheels point left,
    forward or backward. At a corner the turn is spread over the neighbouring samples, so its
    integral is the turn; at a cusp that of the part behind it."""
    s_m: Array
    """Arc length from the start, strictly increasing from 0, samples about ``SPACING_M`` apart."""
    speed_mps: Array
    """Target; negative from each sample that is left backward."""
    closed: bool
    datum: Datum
    length_m: float
    """Length of the whole line; of one lap when closed."""
    markings: Markings = NO_MARKINGS
    """Lanes and boxes that a drive is judged by, where the course has some."""
    waypoints: int = 0
    """Waypoints that the line was drawn through; 0 for a line that is known point by point."""
    account: ReadSummary | None = None
    """Record of what was read from the file; None for a course without a file."""
    surveyed: bool = False
    """True if its place on the earth is known; False for metres without a datum, which hold in any
    map."""
    waits: tuple[Wait, ...] = ()
    """Stops on the way, in driving order, each at a sample or at the end."""

    @property
    def cusps(self) -> list[int]:
        """Samples at which the direction changes, in order."""
        backward = self.speed_mps < 0.0
        if not backward.any():
            return []
        found: list[int] = (np.flatnonzero(backward[1:] != backward[:-1]) + 1).tolist()
        return found

    @property
    def reverses(self) -> bool:
        """True if any part is driven in reverse."""
        return bool((self.speed_mps < 0.0).any())

    def on_datum(self, datum: Datum) -> "Course":
        """Return the course in the map of another datum; one that is not surveyed keeps its
        metres."""
        if not self.surveyed or datum == self.datum:
            return replace(self, datum=datum)
        points = []
        for x_m, y_m in zip(self.x_m.tolist(), self.y_m.tolist(), strict=True):
            latitude_rad, longitude_rad, height_m = self.datum.to_geodetic(x_m, y_m, 0.0)
            points.append(datum.to_enu(latitude_rad, longitude_rad, height_m)[:2])
        x, y = np.array(points).T
        # North differs between two tangent planes, so the line is turned by what its tangent
        # turned.
        was = arctan2(np.gradient(self.y_m), np.gradient(self.x_m))
        turned = (
            np.remainder(arctan2(np.gradient(y), np.gradient(x)) - was + np.pi, 2.0 * np.pi) - np.pi
        )
        yaw = self.yaw_rad + _median(turned)
        for array in (x, y, yaw):
            array.flags.writeable = False
        return replace(self, datum=datum, x_m=x, y_m=y, yaw_rad=yaw)

    def renamed(self, name: str) -> "Course":
        """Return the same course under another name."""
        return replace(self, name=name)

    def beginning_at(self, s_m: float) -> "Course":
        """Return the lap with its start at the sample nearest to an arc length. Raises CourseError
        for an open course."""
        if not self.closed:
            raise CourseError(
                f"{self.name}: an open course begins at its start; only a lap can begin anywhere"
            )
        k = int(np.abs(self.s_m - s_m % self.length_m).argmin())
        waits = sorted(
            ((wait.s_m - float(self.s_m[k])) % self.length_m, wait.duration_s)
            for wait in self.waits
        )
        turn = (
            self.yaw_rad[-1] + remainder(self.yaw_rad[0] - self.yaw_rad[-1], tau) - self.yaw_rad[0]
        )
        course = replace(
            self,
            x_m=np.roll(self.x_m, -k),
            y_m=np.roll(self.y_m, -k),
            yaw_rad=np.append(self.yaw_rad[k:], self.yaw_rad[:k] + turn),
            curvature_per_m=np.roll(self.curvature_per_m, -k),
            s_m=np.append(self.s_m[k:] - self.s_m[k], self.s_m[:k] + (self.length_m - self.s_m[k])),
            speed_mps=np.roll(self.speed_mps, -k),
            waits=waits_at(*zip(*waits, strict=True)) if waits else (),
        )
        return course._read_only()

    def _read_only(self) -> "Course":
        for array in (
            self.x_m,
            self.y_m,
            self.yaw_rad,
            self.curvature_per_m,
            self.s_m,
            self.speed_mps,
        ):
            array.flags.writeable = False
        return self

    def repeated(self, laps: int) -> "Course":
        """Return several laps as one course. Raises CourseError for an open course, no lap, or more
        samples than allowed."""
        if laps == 1:
            return self
        if not self.closed:
            raise CourseError(
                f"{self.name}: an open course has no laps; leave the number of laps out"
            )
        n = len(self.x_m)
        if laps < 1 or laps * n > MAX_SAMPLES:
            raise CourseError(
                f"{self.name}: {laps} laps; between 1 and {MAX_SAMPLES // n} can be driven as "
                "one course"
            )
        turn = (
            self.yaw_rad[-1] + remainder(self.yaw_rad[0] - self.yaw_rad[-1], tau) - self.yaw_rad[0]
        )
        lap = np.repeat(np.arange(laps), n)
        course = replace(
            self,
            x_m=np.tile(self.x_m, laps),
            y_m=np.tile(self.y_m, laps),
            yaw_rad=np.tile(self.yaw_rad, laps) + lap * turn,
            curvature_per_m=np.tile(self.curvature_per_m, laps),
            s_m=np.tile(self.s_m, laps) + lap * self.length_m,
            speed_mps=np.tile(self.speed_mps, laps),
            length_m=laps * self.length_m,
            waits=waits_at(
                [
                    wait.s_m + number * self.length_m
                    for number in range(laps)
                    for wait in self.waits
                ],
                [wait.duration_s for _ in range(laps) for wait in self.waits],
            ),
        )
        return course._read_only()


def course_from_waypoints(
    name: str,
    x: npt.ArrayLike,
    y: npt.ArrayLike,
    *,
    yaw: npt.ArrayLike | None = None,
    speed: npt.ArrayLike | None = None,
    default_speed_mps: float = 1.0,
    closed: bool | None = None,
    datum: Datum = LOT_17,
    speed_holds: bool = False,
    places: Sequence[str] | None = None,
    waits_s: npt.ArrayLike | None = None,
) -> Course:
    """Return a course through waypoints ``x``, ``y`` (m, ENU), at least two.

    yaw: headings of the file, rad. Only used to refuse a file whose headings run against the order
    of its points.
    speed: target per waypoint, m/s, linear in between; with ``speed_holds`` each value holds until
    the next waypoint. Negative from a waypoint that is left backward; a 0 between opposite signs
    counts as the value behind it.
    closed: None joins ends that meet within the spacing of the waypoints. A lap cannot change its
    direction.
    places: what to call each waypoint in an error, such as "line 12".
    waits_s: time at standstill at each waypoint, s; 0 for none.

    Raises CourseError, its message starting with ``name`` and the place.
    """
    points, rows = _checked_points(name, x, y, places)
    at = _Places(name, places)
    speeds = _checked_speeds(at, speed, default_speed_mps, len(points))
    points, rows = _without_spikes(at, *_without_duplicates(points, rows), speeds)
    if len(points) < 2:
        raise CourseError(
            f"{name}: all waypoints lie on one spot; a course needs at least two places "
            f"{_unit_hint(points)}"
        )
    speeds, turning = cusps.find(points, speeds[rows], lambda i: at(int(rows[i])))
    if turning and closed:
        raise CourseError(
            f"{at(int(rows[turning[0]]))}: a lap cannot change its direction; leave the course open"
        )
    waits = None if waits_s is None else folded(waits_s, rows, name, np.size(x))
    points, rows, closed = _joined(at, points, rows, False if turning else closed)
    legs = hypotenuse(*np.diff(_with_join(points, closed), axis=0).T)
    _check_legs(at, legs, rows)
    speeds = speeds[: len(points)]
    if yaw is not None:
        check_headings(
            name, points, np.asarray(yaw, dtype=float)[rows] + np.where(speeds < 0.0, np.pi, 0.0)
        )
    return _sampled(name, points, legs, speeds, turning, closed, datum, speed_holds, waits)


@dataclass(frozen=True, slots=True)
class _Places:
    """Names of waypoints in messages to the user."""

    name: str
    places: Sequence[str] | None

    def __call__(self, row: int) -> str:
        place = self.places[row] if self.places is not None else f"waypoint {row + 1}"
        return f"{self.name}, {place}"


def _unit_hint(points: Array) -> str:
    if len(points) and float(np.abs(points).max()) <= 180.0:
        return "(if these are degrees, name the columns lat and lon)"
    return "(are the units metres?)"


def _checked_points(
    name: str, x: npt.ArrayLike, y: npt.ArrayLike, places: Sequence[str] | None
) -> tuple[Array, Rows]:
    xs, ys = np.asarray(x, dtype=float), np.asarray(y, dtype=float)
    if xs.ndim != 1 or xs.shape != ys.shape:
        raise CourseError(
            f"{name}: x and y must be two lists of one length, not {xs.shape} and {ys.shape}"
        )
    if len(xs) < 2:
        raise CourseError(f"{name}: {len(xs)} waypoint(s); a course needs at least 2")
    if len(xs) > MAX_WAYPOINTS:
        raise CourseError(
            f"{name}: {len(xs)} waypoints; at most {MAX_WAYPOINTS} are read, thin the file out"
        )
    at = _Places(name, places)
    for axis, values in (("x", xs), ("y", ys)):
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise CourseError(
                f"{at(int(bad[0]))}: {axis} is {values[bad[0]]}; correct or delete it: "
                "coordinates are finite metres"
            )
        far = np.flatnonzero(np.abs(values) > MAX_COORDINATE_M)
        if len(far):
            raise CourseError(
                f"{at(int(far[0]))}: {axis} = {values[far[0]]:g} m is further than "
                f"{MAX_COORDINATE_M / 1000:g} km from the datum; if these are map coordinates "
                "such as UTM, name their projection: # crs: EPSG:32616"
            )
    return np.column_stack((xs, ys)), np.arange(len(xs))


def _checked_speeds(at: _Places, speed: npt.ArrayLike | None, default_mps: float, n: int) -> Array:
    speeds = (
        np.full(n, default_mps, dtype=float) if speed is None else np.asarray(speed, dtype=float)
    )
    if speeds.shape != (n,):
        raise CourseError(f"{at.name}: {speeds.size} speeds for {n} waypoints; give one each")
    speeds = cusps.signed(speeds)
    size = speeds if speed is None else np.abs(speeds)
    bad = np.flatnonzero(~((size > 0.0) & (size <= MAX_SPEED_MPS)))
    if len(bad):
        value = speeds[bad[0]]
        raise CourseError(
            f"{at(int(bad[0]))}: speed is {value:g} m/s; a target speed lies above 0 and at most "
            f"at {MAX_SPEED_MPS:g} m/s, or is the negative of such a one to drive backward (a "
            "course ends by its last waypoint, not by speed 0)"
        )
    return speeds


def _median(values: Array) -> float:
    """Return the median of finite values. numpy's median would load masked arrays, which takes 0.1
    s at every start."""
    ordered, n = np.sort(values), len(values)
    return 0.5 * float(ordered[(n - 1) // 2] + ordered[n // 2])


def _without_duplicates(points: Array, rows: Rows) -> tuple[Array, Rows]:
    """Leave out waypoints within 2 % of the usual spacing of their predecessor: their direction is
    rounding noise."""
    legs = hypotenuse(*np.diff(points, axis=0).T)
    real = legs[legs > 1e-3]
    if not len(real):
        return points[:1], rows[:1]
    tolerance = max(1e-3, 0.02 * _median(real))
    if float(legs.min()) > tolerance:
        return points, rows
    keep = [0]
    last_x, last_y = points[0]
    for i, (px, py) in enumerate(points.tolist()):
        if hypot(px - last_x, py - last_y) > tolerance:
            keep.append(i)
            last_x, last_y = px, py
    return points[keep], rows[keep]


def _without_spikes(at: _Places, points: Array, rows: Rows, speeds: Array) -> tuple[Array, Rows]:
    """Leave out short spikes, refuse a line that runs back on itself, except where the sign of the
    speed changes."""
    if len(points) < 3:
        return points, rows
    suspects = np.flatnonzero(np.abs(smoothing.turns(points)) > SPIKE_TURN_RAD)
    if not len(suspects):
        return points, rows
    keep: list[int] = []
    for i in range(len(points)):
        keep.append(i)
        while len(keep) >= 3:
            trio = points[keep[-3:]]
            turn = abs(float(smoothing.turns(trio)[0]))
            backward = speeds[rows[keep[-3:]]] < 0.0
            if turn <= SPIKE_TURN_RAD or backward.any() != backward.all():
                break
            shortest = min(hypot(*(trio[1] - trio[0])), hypot(*(trio[2] - trio[1])))
            if shortest < SPIKE_LENGTH_M:
                del keep[-2]
                if hypot(*(trio[2] - trio[0])) < 1e-3:
                    del keep[-1]
                continue
            if turn > REVERSAL_RAD:
                x, y = trio[1]
                raise CourseError(
                    f"{at(int(rows[keep[-2]]))}: the line doubles back on itself at ({x:g}, "
                    f"{y:g}) m; a vehicle cannot turn on the spot: correct the point, or draw "
                    "the turn"
                )
            break
    return points[keep], rows[keep]


def _joined(
    at: _Places, points: Array, rows: Rows, closed: bool | None
) -> tuple[Array, Rows, bool]:
    """Decide whether the course is a lap; a lap loses a last waypoint that repeats the first."""
    legs = hypotenuse(*np.diff(points, axis=0).T)
    spacing, length = _median(legs), float(legs.sum())
    gap = hypot(*(points[-1] - points[0]))
    repeated = len(points) > 3 and gap <= max(1e-3, 0.02 * spacing)
    ring = points[:-1] if repeated else points
    join_turn, at_join = 0.0, np.zeros(1)
    if len(ring) >= 3:
        ends = np.vstack((ring[-2:], ring[:2]))
        # If the ends are only close to each other, the gap is a leg of its own and its two turns
        # count as one.
        at_join = smoothing.turns(ends)
        join_turn = float(
            np.abs(at_join).max() if repeated else max(np.abs(at_join).max(), abs(at_join.sum()))
        )
    if closed is None:
        runs_on = join_turn <= SMOOTH_JOIN_RAD and gap <= MAX_JOIN_FRACTION * length
        near = repeated or (gap <= 1.6 * spacing and (gap <= MAX_JOIN_M or runs_on))
        closed = len(ring) >= 3 and near and gap < 0.1 * length and join_turn <= SPIKE_TURN_RAD
    elif closed and (len(ring) < 3 or float(np.abs(at_join).max()) > REVERSAL_RAD):
        raise CourseError(
            f"{at(int(rows[-1]))}: the lap cannot close, it would turn back on itself at its "
            "start; draw the turn"
        )
    if closed and repeated:
        return points[:-1], rows[:-1], True
    return points, rows, closed


def _with_join(points: Array, closed: bool) -> Array:
    return np.vstack((points, points[:1])) if closed else points


def _check_legs(at: _Places, legs: Array, rows: Rows) -> None:
    length, widest, usual = float(legs.sum()), int(legs.argmax()), _median(legs)
    if length < MIN_LENGTH_M:
        raise CourseError(
            f"{at.name}: the whole course is only {length:.3g} m long (at least {MIN_LENGTH_M} "
            "m); if the file holds degrees, name its columns lat and lon"
        )
    if length > MAX_LENGTH_M:
        raise CourseError(
            f"{at.name}: the course is {length / 1000:.4g} km long (at most "
            f"{MAX_LENGTH_M / 1000:g} km); are the units metres?"
        )
    leg = float(legs[widest])
    if leg > 2000.0 or (leg > 100.0 and leg > 200.0 * usual):
        raise CourseError(
            f"{at(int(rows[(widest + 1) % len(rows)]))}: {leg:.4g} m from the waypoint before, "
            f"while {usual:.3g} m is usual here; correct the point, or add waypoints in between"
        )


def check_headings(name: str, points: Array, yaw: Array) -> None:
    """Raise CourseError if headings yaw (n,), in rad, point against the order of the points (n,
    2)."""
    along = np.diff(points, axis=0)
    agrees = np.cos(yaw[: len(along)]) * along[:, 0] + np.sin(yaw[: len(along)]) * along[:, 1] > 0.0
    if len(agrees) and np.isfinite(yaw).all() and float(agrees.mean()) < 0.25:
        raise CourseError(
            f"{name}: the headings point against the order of the waypoints; reverse the rows, "
            "or leave the heading column out (headings are radians, counter-clockwise from east)"
        )


def _sampled(
    name: str, points: Array, legs: Array, speeds: Array, turning: list[int], closed: bool,
    datum: Datum, speed_holds: bool, durations_s: Array | None,
) -> Course:  # fmt: skip
    length = float(legs.sum())
    spacing = max(min(SPACING_M, length / 16.0), length / MAX_SAMPLES)
    parts = [
        _sampled_part(points, speeds, first, last, closed, speed_holds, spacing)
        for first, last in pairwise([0, *turning, len(points) - 1])
    ]
    at_m = np.cumsum([0.0] + [part.s_m[-1] for part in parts])
    yaw = cusps.joined_yaw([(part.tangent_rad, part.backward) for part in parts])
    inner = [part.rows - 1 for part in parts[:-1]] + [parts[-1].rows]
    x_m, y_m, curvature, target = (
        np.concatenate([column[:n] for column, n in zip(columns, inner, strict=True)])
        for columns in (
            [part.points_m[:, 0] for part in parts],
            [part.points_m[:, 1] for part in parts],
            [-part.curvature_per_m if part.backward else part.curvature_per_m for part in parts],
            [part.speed_mps for part in parts],
        )
    )
    s_m = np.concatenate(
        [start + part.s_m[:n] for start, part, n in zip(at_m[:-1], parts, inner, strict=True)]
    )
    arrays = (x_m, y_m, yaw[: len(x_m)].copy(), curvature, s_m, target)
    for array in arrays:
        if not np.isfinite(array).all():
            raise CourseError(
                f"{name}: the line cannot be sampled; look for waypoints that lie extremely "
                "close together"
            )
        array.flags.writeable = False
    length_m, waits = float(at_m[-1]), tuple[Wait, ...]()
    if durations_s is not None and durations_s.any():
        starts = [0, *turning]
        knots = np.concatenate(
            [start + part.knots[:n] for start, part, n in zip(starts, parts, inner, strict=True)]
        )
        marks = np.arange(len(points))
        after = np.clip(np.searchsorted(knots, marks), 1, len(knots) - 1)
        rows = after - (marks - knots[after - 1] <= knots[after] - marks)
        # The last waypoint of a lap, where it repeats the first, is the end of the lap.
        waits = waits_at([*s_m[rows].tolist(), length_m][: len(durations_s)], durations_s.tolist())
    return Course(name, *arrays, closed, datum, length_m, waypoints=len(points), waits=waits)


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """Samples of one part between two cusps, both ends included. A lap's arc length and tangent
    also have the join at their end."""

    points_m: Array
    s_m: Array
    tangent_rad: Array
    curvature_per_m: Array
    """Curvature of the line in driving order."""
    speed_mps: Array
    backward: bool
    knots: Array
    """Fractional waypoint index of each sample, from 0 at the start of the part."""

    @property
    def rows(self) -> int:
        return len(self.points_m)


def _sampled_part(
    points: Array,
    speeds: Array,
    first: int,
    last: int,
    closed: bool,
    speed_holds: bool,
    spacing_m: float,
) -> _Part:
    at_cusp = last < len(points) - 1
    points, speeds = points[first : last + 1], speeds[first : last + 1].copy()
    if at_cusp:
        # The cusp's own speed is that of the part behind it.
        speeds[-1] = speeds[-2]
    samples, knots = smoothing.resample(points, closed, spacing_m)
    ring = _with_join(samples, closed)
    steps = hypotenuse(*np.diff(ring, axis=0).T)
    s = np.concatenate(([0.0], np.cumsum(steps)))
    yaw = smoothing.headings(ring, closed)
    curvature = smoothing.curvatures(yaw, s, closed)
    marks, values = np.arange(len(points)), speeds
    if closed:
        marks, values = np.append(marks, len(points)), np.append(speeds, speeds[0])
    if speed_holds:
        # A hair's breadth, so that a sample on the waypoint itself belongs to the leg after it.
        held = np.minimum((knots + 1e-9).astype(int), len(speeds) - 1)
        target = speeds[held]
    else:
        target = np.interp(knots, marks, values)
    return _Part(samples, s, yaw, curvature, target, bool(speeds[0] < 0.0), knots)
