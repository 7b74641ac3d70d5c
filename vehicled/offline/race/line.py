"""Race lines within a track: minimum curvature, shortest path, a mix of both, and minimum time.

A line is a shift of each station of a reference line along its normal, within the walls less half
of the vehicle, its swing in bends and a margin.

- Minimum curvature: the integral of the squared curvature, by Gauss-Newton: each step is a
  quadratic programme of the curvature linearised about the present line (Heilmeier et al. 2019,
  "Minimum curvature trajectory planning and control for an autonomous race car"). As there, the
  reference is moved onto the result and the problem solved again.
- Shortest path: the sum of the squared legs, in the same programme.
- Minimum time: descent on the lap time of :mod:`~vehicled.offline.race.speed` itself, from the
  fastest of several lines on, that of minimum curvature among them. Each step minimises the
  linearised lap time with the curvature as metric, so that steps are smooth; only a step that
  lowers the lap time is taken. The result is a local minimum, not slower than the line it began
  with.

The curvature of the line stays within full lock, and the finished line is checked for it.
"""

from collections.abc import Callable, Sequence
from math import floor
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.limits import RaceLimits
from vehicled.offline.race.speed import LapTime, lap_gradient, lap_time
from vehicled.offline.race.track import RaceTrack, normals_of

Objective = Literal["time", "curvature", "shortest", "mix", "centre"]
OBJECTIVES: tuple[Objective, ...] = ("time", "curvature", "shortest", "mix", "centre")
SPACING_RATIO = 0.2
"""Distance of the stations, in widths of the track."""
LEAST_STATIONS, MOST_STATIONS = 120, 1500
REFERENCES = 2
"""Times that the reference is moved onto the line of minimum curvature."""
FOLD = 0.9
"""Largest shift towards the inside of a bend, in radii of the reference there."""
_FIRST_STEPS, _STEPS, _TIME_STEPS, _FITTINGS = 3, 12, 100, 8
_TRIES, _MIX_STEPS = 4, 6
_SPREADS = (0, 2, 6, 20)
"""Stations over which the gradient of the lap time is spread, in turn."""
_CHUNK = 2000
SHORTEST = 0.98
"""Weight of the length in the shortest path: the rest keeps the curvature from jumping."""
POWERS = (2.0, 4.0, 8.0)
MIXES = (0.0, 0.1, 0.25, 0.5)
"""Powers of the curvature, and mixes with the length, from whose lines the descent on the lap time
begins with the fastest."""
SLOW_GAIN = 3e-5
"""Relative gain of lap time below which, time after time, the descent ends."""
_SETTLED = 1e-3
"""Step below which the line is settled, in widths of the track."""
_LOCK_PENALTY = 1e3
NEAR_LOCK = 0.25
"""Curvature, in that at full lock, from which a quadratic programme limits it."""
TO_LOCK = 0.98
"""Part of full lock that it leaves, so that a step along the linearised curvature stays within."""
TOLERANCE, MOST_ITERATIONS = 1e-4, 10_000
"""Tolerance of osqp: some millimetres on a track of 2 m."""
STEP_SIZE = 100.0
"""First step size rho of osqp: with it a line takes a quarter of the iterations of the default."""
TOUCHING_M = 0.01
"""Distance beyond a wall that still counts as touching it: that of the tolerances above."""
OVER_LOCK = 1.02
"""Curvature of a finished line, in that at full lock, that still counts as drivable."""


class RaceLine(Struct, frozen=True, kw_only=True):
    """A closed line within a track, with its speeds. Arrays (n,)."""

    track: RaceTrack
    objective: Objective
    limits: RaceLimits
    x_m: Array
    y_m: Array
    s_m: Array
    curvature_per_m: Array
    lap: LapTime
    length_m: float
    clearance_m: float
    """Least distance of the body to a wall."""
    clearance_at_m: tuple[float, float]
    centre_time_s: float
    """Lap time of the centre line with the same limits, whether or not the vehicle can turn as
    tightly."""

    @property
    def points(self) -> Array:
        """Stations (n, 2)."""
        return np.column_stack((self.x_m, self.y_m))

    @property
    def speed_mps(self) -> Array:
        """Speeds (n,)."""
        return self.lap.speed_mps


class _Reference(Struct, frozen=True):
    """Stations, their normals and the distances to both walls along them."""

    points: Array
    normals: Array
    lower: Array
    """Shift at which the right wall stands, < 0."""
    upper: Array

    def at(self, shift: Array) -> Array:
        """Return the points (n, 2) of a line."""
        points: Array = self.points + shift[:, None] * self.normals
        return points


def race_line(
    track: RaceTrack,
    limits: RaceLimits,
    objective: Objective = "time",
    *,
    margin_m: float,
    mix: float = 0.5,
    stations: int | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> RaceLine:
    """Return the line of an objective. Raises :class:`RaceError` where the vehicle does not fit or
    cannot turn.

    ``mix``: weight of the shortest path from 0 to 1, for the objective of that name.
    """
    check_libraries()
    _check_width(track, limits, margin_m)
    n = stations or _stations(track)
    reference = _reference(track, resampled(track.points, n))
    centre = reference.points
    if objective == "centre":
        return _finished(track, limits, objective, centre, centre)
    search = _Search(track, limits, margin_m, reference)
    weight = {"shortest": SHORTEST, "mix": mix}.get(objective, 0.0)
    for turn in range(REFERENCES):
        progress(f"line {turn + 1} of {REFERENCES + 1}")
        search.settle(0.0, _FIRST_STEPS)
        search.move_reference()
    search.settle(0.0)
    if weight:
        search.settle(weight)
    search.fit(lambda: search.settle(weight))
    if objective == "time":
        progress("lap time")
        search.take_fastest(MIXES)
        search.hasten(progress)
        search.fit(search.hasten)
    return _finished(track, limits, objective, search.points, centre)


def check_libraries() -> None:
    """Raise SetupError if a library of the extra "race" is missing."""
    try:
        import scipy  # noqa: F401
    except ImportError:
        raise SetupError(
            'race lines need scipy from the extra "race": pip install "vehicled[race]"'
        ) from None


def resampled(points: Array, n: int) -> Array:
    """Return n points of equal distance on the periodic cubic through a closed line, beginning with
    its first point."""
    from scipy.interpolate import CubicSpline

    ring = np.vstack((points, points[:1]))
    s = np.append(0.0, np.cumsum(np.hypot(*np.diff(ring, axis=0).T)))
    spline = CubicSpline(s, ring, bc_type="periodic")
    fine = spline(np.linspace(0.0, s[-1], 8 * max(n, len(points)) + 1))
    along = np.append(0.0, np.cumsum(np.hypot(*np.diff(fine, axis=0).T)))
    found: Array = np.column_stack(
        [np.interp(np.arange(n) * along[-1] / n, along, fine[:, k]) for k in (0, 1)]
    )
    return found


def smoothed(points: Array, length_m: float, n: int) -> Array:
    """Return n points of a closed line without bends shorter than a length."""
    from scipy.ndimage import gaussian_filter1d

    count = max(n, int(4.0 * _length(points) / length_m))
    even = resampled(points, count)
    spacing = _length(even) / count
    even = gaussian_filter1d(even, 0.25 * length_m / spacing, axis=0, mode="wrap")
    return resampled(even, n)


def curvature_of(points: Array) -> tuple[Array, Array]:
    """Return curvature (n,) and length of the legs (n,) of a closed line: the curvature is that of
    the circle through three neighbours."""
    a = points - np.roll(points, 1, axis=0)
    b = np.roll(points, -1, axis=0) - points
    la, lb, lc = (np.hypot(v[:, 0], v[:, 1]) for v in (a, b, a + b))
    cross = a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]
    return 2.0 * cross / np.maximum(la * lb * lc, 1e-12), lb


def _length(points: Array) -> float:
    return float(np.hypot(*(np.roll(points, -1, axis=0) - points).T).sum())


def _stations(track: RaceTrack) -> int:
    width = float(np.mean(track.left_m + track.right_m))
    wanted = track.length_m / (SPACING_RATIO * width)
    return int(np.clip(round(wanted), LEAST_STATIONS, MOST_STATIONS))


def _check_width(track: RaceTrack, limits: RaceLimits, margin_m: float) -> None:
    width = track.left_m + track.right_m
    needed = 2.0 * (limits.outline.half_m + margin_m)
    k = int(width.argmin())
    if width[k] < needed:
        bare = 2.0 * limits.outline.half_m
        cure = (
            f"it fits with a margin of at most {floor(50.0 * (width[k] - bare)) / 100.0:.2f} m: "
            "give --margin"
            if width[k] > bare
            else "choose a narrower vehicle, or check the unit of the widths"
        )
        raise RaceError(
            f"{track.name}: the track is {width[k]:.2f} m wide at ({track.x_m[k]:.2f}, "
            f"{track.y_m[k]:.2f}) m; the vehicle is {bare:.2f} m wide and keeps {margin_m:.2f} m "
            f"from each wall; {cure}"
        )


def _reference(track: RaceTrack, points: Array) -> _Reference:
    normals = normals_of(points)
    upper = _distance_along(points, normals, track.left_wall_m)
    lower = _distance_along(points, -normals, track.right_wall_m)
    kappa, _ = curvature_of(points)
    inside = FOLD / np.maximum(np.abs(kappa), 1e-9)
    upper = np.where(kappa > 0.0, np.minimum(upper, inside), upper)
    lower = np.where(kappa < 0.0, np.minimum(lower, inside), lower)
    return _Reference(points, normals, -lower, upper)


def _distance_along(points: Array, directions: Array, wall: Array) -> Array:
    """Return the distance (n,) from each point along its direction to a closed wall."""
    from scipy.spatial import cKDTree

    ends = np.roll(wall, -1, axis=0)
    along = ends - wall
    middles, reach = 0.5 * (wall + ends), 0.5 * float(np.hypot(along[:, 0], along[:, 1]).max())
    tree = cKDTree(middles)
    nearest, _ = tree.query(points)
    found = np.full(len(points), np.inf)
    for i, (point, direction) in enumerate(zip(points, directions, strict=True)):
        # A ray may meet its wall far beyond the nearest point of it.
        for factor in (2.5, 8.0):
            rows = np.array(tree.query_ball_point(point, factor * nearest[i] + reach), dtype=int)
            apart, leg = wall[rows] - point, along[rows]
            det = direction[0] * leg[:, 1] - direction[1] * leg[:, 0]
            with np.errstate(divide="ignore", invalid="ignore"):
                t = (apart[:, 0] * leg[:, 1] - apart[:, 1] * leg[:, 0]) / det
                u = (apart[:, 0] * direction[1] - apart[:, 1] * direction[0]) / det
            hits = t[(t >= 0.0) & (u >= -1e-9) & (u <= 1.0 + 1e-9)]
            if len(hits):
                found[i] = float(hits.min())
                break
        else:
            found[i] = nearest[i]
    return found


class _Search:
    """Line that is being improved."""

    def __init__(
        self, track: RaceTrack, limits: RaceLimits, margin_m: float, reference: _Reference
    ) -> None:
        self._track, self._limits, self._margin_m = track, limits, margin_m
        self._width = float(np.mean(track.left_m + track.right_m))
        self._take(reference)

    def _take(self, reference: _Reference) -> None:
        self._reference = reference
        n = len(reference.points)
        self._shift = np.zeros(n)
        self._tight_left, self._tight_right = np.zeros(n), np.zeros(n)
        low, high = self._bounds()
        self._shift = np.clip(self._shift, low, high)

    @property
    def points(self) -> Array:
        """The present line."""
        return self._reference.at(self._shift)

    def move_reference(self) -> None:
        """Take the present line as reference, with equal distances."""
        self._take(_reference(self._track, resampled(self.points, len(self._shift))))

    def _bounds(self) -> tuple[Array, Array]:
        """Return the lowest and the highest shift of each station, for the bends of the present
        line."""
        kappa, _ = curvature_of(self.points)
        lock = self._limits.max_curvature_per_m
        swing = np.array([self._limits.swing_m(k) for k in np.clip(kappa, -lock, lock).tolist()])
        base = self._limits.outline.half_m + self._margin_m
        right = base + self._tight_right + np.where(kappa > 0.0, swing, 0.0)
        left = base + self._tight_left + np.where(kappa < 0.0, swing, 0.0)
        low, high = self._reference.lower + right, self._reference.upper - left
        crossed = low > high
        middle = 0.5 * (low + high)
        return np.where(crossed, middle, low), np.where(crossed, middle, high)

    def settle(self, weight: float, steps: int = _STEPS, power: float = 2.0) -> None:
        """Minimise curvature, or by ``weight`` the length, about the reference.

        ``power``: exponent of the curvature, >= 2; a larger one flattens the sharpest bends.
        """
        # The curvature in units in which powers of it stay comparable with its square.
        unit = self._unit() if power > 2.0 else 1.0
        for _ in range(steps):
            low, high = self._bounds()
            self._shift = np.clip(self._shift, low, high)
            points = self.points
            cost = self._cost(weight, points, power, unit)
            kappa, legs = curvature_of(points)
            jacobian = _curvature_jacobian(points, self._reference.normals)
            sharp = (np.abs(kappa) / unit) ** (power - 2.0)
            bent = (1.0 - weight) * self._scale() * (power - 1.0) * np.maximum(sharp, 1e-3) * legs
            length, pull = self._length_model(weight, points)
            pull = pull + _leg_gradient(
                points,
                self._reference.normals,
                (1.0 - weight) * self._scale() / power * sharp * kappa * kappa,
            )
            step = solve_qp(
                bent,
                kappa,
                jacobian,
                pull,
                length,
                low - self._shift,
                high - self._shift,
                self._limits.max_curvature_per_m,
                target=kappa * (power - 2.0) / (power - 1.0),
            )
            for size in (1.0, 0.5, 0.25, 0.1):
                shift = np.clip(self._shift + size * step, low, high)
                if self._cost(weight, self._reference.at(shift), power, unit) < cost:
                    break
            else:
                return
            moved = float(np.abs(shift - self._shift).max())
            self._shift = shift
            if moved < _SETTLED * self._width:
                return

    def take_fastest(self, weights: Sequence[float]) -> None:
        """Take the line with the least lap time of all powers of the curvature and mixes with
        the length, the present line included."""
        best, found = self._timed(self.points)[0], self._shift
        start = found
        for power in POWERS:
            self._shift = start
            for weight in weights:
                self.settle(weight, _MIX_STEPS, power)
                tried = self._timed(self.points)[0]
                if tried < best:
                    best, found = tried, self._shift
                elif weight:
                    break
        self._shift = found

    def _timed(self, points: Array) -> tuple[float, Array, Array]:
        """Return the lap time of a line, with a penalty beyond full lock, its curvatures and
        legs."""
        kappa, legs = curvature_of(points)
        over = np.maximum(np.abs(kappa) - self._limits.max_curvature_per_m, 0.0)
        return lap_time(kappa, legs, self._limits).time_s + float((over * legs).sum()), kappa, legs

    def _unit(self) -> float:
        kappa, legs = curvature_of(self.points)
        return float(np.sqrt((kappa**4 * legs).sum() / max((kappa**2 * legs).sum(), 1e-12)))

    def _cost(self, weight: float, points: Array, power: float, unit: float) -> float:
        kappa, legs = curvature_of(points)
        bent = kappa * kappa * (np.abs(kappa) / unit) ** (power - 2.0)
        cost = (1.0 - weight) * self._scale() / power * float((bent * legs).sum())
        cost += 0.5 * weight * float((legs * legs).sum() / self._spacing())
        over = float(np.abs(kappa).max()) / self._limits.max_curvature_per_m - 1.0
        return cost + _LOCK_PENALTY * max(over, 0.0)

    def _spacing(self) -> float:
        return self._track.length_m / len(self._shift)

    def _scale(self) -> float:
        """Return what makes the integral of the squared curvature comparable with a length: the
        square of the width of the track."""
        return self._width**2

    def _length_model(self, weight: float, points: Array) -> tuple[Any, Array]:
        """Return second and first derivative of the weighted sum of the squared legs."""
        from scipy import sparse

        n = len(points)
        normals = self._reference.normals
        leg = np.roll(points, -1, axis=0) - points
        rows = np.arange(n)
        after = (rows + 1) % n
        second, first = None, np.zeros(n)
        if not weight:
            return second, first
        second = sparse.csc_array((n, n))
        for k in (0, 1):
            difference = sparse.csr_array(
                (
                    np.concatenate((-normals[:, k], normals[after, k])),
                    (np.concatenate((rows, rows)), np.concatenate((rows, after))),
                ),
                shape=(n, n),
            )
            second = second + weight / self._spacing() * (difference.T @ difference)
            first = first + weight / self._spacing() * (difference.T @ leg[:, k])
        return second, first

    def fit(self, improve: Callable[[], None]) -> None:
        """Tighten the bounds where the body comes nearer to a wall than the margin, and improve the
        line again."""
        for _ in range(_FITTINGS):
            left, right = self._shortfalls()
            if max(float(left.max()), float(right.max())) <= 0.02 * self._margin_m + 1e-3:
                return
            self._tight_left += 1.1 * left
            self._tight_right += 1.1 * right
            self._project()
            improve()

    def _project(self) -> None:
        """Move the line within the bounds, with the least change of its curvature."""
        points = self.points
        kappa, legs = curvature_of(points)
        low, high = self._bounds()
        step = solve_qp(
            legs,
            kappa,
            _curvature_jacobian(points, self._reference.normals),
            np.zeros(len(kappa)),
            None,
            low - self._shift,
            high - self._shift,
            self._limits.max_curvature_per_m,
            target=kappa,
        )
        self._shift = np.clip(self._shift + step, low, high)

    def _shortfalls(self) -> tuple[Array, Array]:
        """Return by how much the body is nearer than the margin to the left and right wall, with
        each station's neighbours."""
        from scipy.ndimage import maximum_filter1d

        left, right = clearances(self._track, self.points, self._limits)
        found = []
        for clear in (left, right):
            lacking = np.maximum(self._margin_m - clear, 0.0)
            found.append(maximum_filter1d(lacking, 5, mode="wrap"))
        return found[0], found[1]

    def hasten(self, progress: Callable[[str], None] = lambda text: None) -> None:
        """Lower the lap time, step by step.

        The lap time depends on the sharpest station of a bend alone, so that its gradient leads
        from one corner of the line to the next; steps along the gradient spread over neighbours
        flatten the whole bend.
        """
        from scipy.ndimage import gaussian_filter1d

        best, kappa, legs = self._timed(self.points)
        first = 0.05 * best / max(float((kappa * kappa * legs).sum()), 1e-9)
        damping = dict.fromkeys(_SPREADS, first)
        slow = 0
        for k in range(_TIME_STEPS):
            spread = _SPREADS[k % len(_SPREADS)]
            gradient = lap_gradient(kappa, legs, self._limits)
            by_curvature = gradient.by_curvature
            if spread:
                by_curvature = gaussian_filter1d(by_curvature, spread, mode="wrap")
            jacobian = _curvature_jacobian(self.points, self._reference.normals)
            slope = jacobian.T @ by_curvature + _leg_gradient(
                self.points, self._reference.normals, gradient.by_leg
            )
            low, high = self._bounds()
            gained = 0.0
            for _ in range(_TRIES):
                step = solve_qp(
                    damping[spread] * legs,
                    kappa,
                    jacobian,
                    slope,
                    None,
                    low - self._shift,
                    high - self._shift,
                    self._limits.max_curvature_per_m,
                    target=kappa,
                )
                shift = np.clip(self._shift + step, low, high)
                tried = self._timed(self._reference.at(shift))
                gained = best - tried[0]
                if gained > 0.0:
                    self._shift = shift
                    best, kappa, legs = tried
                    break
                damping[spread] *= 4.0
            promised = -float(slope @ step)
            if gained > 0.5 * promised:
                damping[spread] /= 4.0
            elif 0.0 < gained < 0.1 * promised:
                damping[spread] *= 2.0
            progress(f"lap time {best:.3f} s")
            slow = slow + 1 if gained < SLOW_GAIN * best else 0
            if slow >= 2 * len(_SPREADS):
                return


def _curvature_jacobian(points: Array, normals: Array) -> Any:
    """Return the derivatives (n, n) of the curvatures with respect to the shifts, sparse."""
    from scipy import sparse

    n = len(points)
    a = points - np.roll(points, 1, axis=0)
    b = np.roll(points, -1, axis=0) - points
    c = a + b
    la, lb, lc = (np.maximum(np.hypot(v[:, 0], v[:, 1]), 1e-12) for v in (a, b, c))
    factor = 2.0 / (la * lb * lc)
    kappa = factor * (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    by_c = c / (lc * lc)[:, None]
    by_a = factor[:, None] * np.column_stack((b[:, 1], -b[:, 0])) - kappa[:, None] * (
        a / (la * la)[:, None] + by_c
    )
    by_b = factor[:, None] * np.column_stack((-a[:, 1], a[:, 0])) - kappa[:, None] * (
        b / (lb * lb)[:, None] + by_c
    )
    rows = np.arange(n)
    before, after = (rows - 1) % n, (rows + 1) % n
    values = (
        (-by_a * normals[before]).sum(axis=1),
        ((by_a - by_b) * normals).sum(axis=1),
        (by_b * normals[after]).sum(axis=1),
    )
    return sparse.csc_array(
        (np.concatenate(values), (np.tile(rows, 3), np.concatenate((before, rows, after)))),
        shape=(n, n),
    )


def _leg_gradient(points: Array, normals: Array, by_leg: Array) -> Array:
    """Return the derivative of a function of the legs with respect to the shifts."""
    leg = np.roll(points, -1, axis=0) - points
    unit = leg / np.maximum(np.hypot(leg[:, 0], leg[:, 1]), 1e-12)[:, None]
    pull = by_leg[:, None] * unit
    by_point = np.roll(pull, 1, axis=0) - pull
    found: Array = (by_point * normals).sum(axis=1)
    return found


def solve_qp(
    weights: Array,
    kappa: Array,
    jacobian: Any,
    gradient: Array,
    hessian: Any,
    low: Array,
    high: Array,
    lock_per_m: float,
    *,
    target: Array | None = None,
) -> Array:
    """Return the d within ``low <= d <= high`` that minimises half the weighted sum of the squares
    of ``kappa + J d``, less a ``target``, plus ``g'd`` and half ``d'H d`` (None: zero).

    ``|kappa + J d|`` stays within full lock, or where it is beyond it does not grow. The curvatures
    are variables of their own: without them the problem is that of a fourth-order operator, for
    which a first-order solver needs too many iterations.
    """
    import osqp
    from scipy import sparse

    n = len(kappa)
    unit = max(float(np.abs(kappa).mean()), 1e-9)
    scale = max(float(weights.mean()) * unit * unit, 1e-12)
    eye = sparse.eye_array(n)
    near = hessian is not None or bool(np.abs(kappa).max() > NEAR_LOCK * lock_per_m)
    if hessian is None:
        hessian = sparse.csc_array((n, n))
    bends = sparse.diags_array(weights * (unit * unit / scale))
    P = sparse.block_diag((hessian / scale, bends))
    wanted = np.zeros(n) if target is None else weights * target * (unit / scale)
    q = np.concatenate((gradient / scale, -wanted))
    zero = sparse.csc_array((n, n))
    blocks = [[eye, zero], [jacobian / unit, -eye]]
    lower, upper = [low, -kappa / unit], [high, -kappa / unit]
    if near:
        lock = np.maximum(TO_LOCK * lock_per_m, np.abs(kappa)) / unit
        blocks.append([zero, eye])
        lower.append(-lock)
        upper.append(lock)
    solver = osqp.OSQP()
    solver.setup(
        _matrix(sparse.triu(P)),
        q,
        _matrix(sparse.block_array(blocks)),
        np.concatenate(lower),
        np.concatenate(upper),
        verbose=False,
        rho=STEP_SIZE,
        polishing=True,
        eps_abs=TOLERANCE,
        eps_rel=TOLERANCE,
        max_iter=MOST_ITERATIONS,
        check_termination=25,
        adaptive_rho_interval=50,
    )
    found = solver.solve(raise_error=False).x
    if found is None or not np.isfinite(found).all():
        return np.zeros(n)
    step: Array = np.clip(found[:n], low, high)
    return step


def _matrix(values: Any) -> Any:
    """Return a sparse matrix as osqp takes it, with indices of 32 bits."""
    from scipy import sparse

    matrix = sparse.csc_matrix(values)
    matrix.indices, matrix.indptr = (a.astype(np.int32) for a in (matrix.indices, matrix.indptr))
    return matrix


def clearances(track: RaceTrack, points: Array, limits: RaceLimits) -> tuple[Array, Array]:
    """Return the distance (n,) of the body to the left and to the right wall at each station of a
    line that its reference point follows; negative beyond a wall.

    Between the stations the body of a vehicle covers the line: it is longer than they are apart.
    """
    normals = normals_of(points)
    tangent = np.column_stack((normals[:, 1], -normals[:, 0]))
    front, rear, half = limits.outline
    places = np.array(
        [(along, side * half) for side in (1.0, -1.0) for along in np.linspace(-rear, front, 5)]
    )
    body = (
        points[:, None]
        + places[None, :, :1] * tangent[:, None]
        + places[None, :, 1:] * normals[:, None]
    )
    found = []
    for wall, around in (
        (track.left_wall_m, not track.counter_clockwise),
        (track.right_wall_m, track.counter_clockwise),
    ):
        distance = _signed(body.reshape(-1, 2), wall, around)
        found.append(distance.reshape(len(points), -1).min(axis=1))
    return found[0], found[1]


def _signed(points: Array, wall: Array, around: bool) -> Array:
    """Return the distance of points to a closed wall, negative behind it; ``around`` is True if the
    wall lies round the track."""
    from scipy.spatial import cKDTree

    ends = np.roll(wall, -1, axis=0)
    along = ends - wall
    size = np.hypot(along[:, 0], along[:, 1])
    counts = np.maximum(np.ceil(size / max(float(np.median(size)), 1e-9)).astype(int), 1)
    index = np.repeat(np.arange(len(wall)), counts)
    part = np.concatenate([(np.arange(c) + 0.5) / c for c in counts.tolist()])
    tree = cKDTree(wall[index] + part[:, None] * along[index])
    _, near = tree.query(points, k=min(6, len(index)))
    segments = index[near]
    start, leg = wall[segments], along[segments]
    square = np.maximum((leg * leg).sum(axis=2), 1e-18)
    t = np.clip(((points[:, None] - start) * leg).sum(axis=2) / square, 0.0, 1.0)
    apart = points[:, None] - (start + t[..., None] * leg)
    distance = np.hypot(apart[..., 0], apart[..., 1]).min(axis=1)
    signed: Array = np.where(_inside(points, wall) == around, distance, -distance)
    return signed


def _inside(points: Array, polygon: Array) -> npt.NDArray[np.bool_]:
    """Return for each point whether it is inside a polygon: whether a ray from it to the east
    crosses an odd number of edges."""
    ends = np.roll(polygon, -1, axis=0)
    low = np.minimum(polygon[:, 1], ends[:, 1])
    high = np.maximum(polygon[:, 1], ends[:, 1])
    rise = ends[:, 1] - polygon[:, 1]
    slope = (ends[:, 0] - polygon[:, 0]) / np.where(rise == 0.0, 1.0, rise)
    found = np.zeros(len(points), bool)
    for first in range(0, len(points), _CHUNK):
        x, y = points[first : first + _CHUNK].T[:, :, None]
        crossed = (low <= y) & (y < high) & (polygon[:, 0] + slope * (y - polygon[:, 1]) > x)
        found[first : first + _CHUNK] = crossed.sum(axis=1) % 2 == 1
    return found


def _finished(
    track: RaceTrack, limits: RaceLimits, objective: Objective, points: Array, centre: Array
) -> RaceLine:
    kappa, legs = curvature_of(points)
    k = int(np.abs(kappa).argmax())
    if objective != "centre" and abs(kappa[k]) > OVER_LOCK * limits.max_curvature_per_m:
        raise RaceError(
            f"{track.name}: the bend at ({points[k, 0]:.2f}, {points[k, 1]:.2f}) m is too tight: "
            f"within the walls the line has a radius of {1.0 / abs(kappa[k]):.2f} m, and the "
            f"vehicle turns no tighter than {1.0 / limits.max_curvature_per_m:.2f} m; choose a "
            "vehicle that turns more tightly, a smaller --margin, or a wider track"
        )
    left, right = clearances(track, points, limits)
    clear = np.minimum(left, right)
    nearest = int(clear.argmin())
    if objective != "centre" and clear[nearest] < -TOUCHING_M:
        raise RaceError(
            f"{track.name}: the vehicle does not fit through at ({points[nearest, 0]:.2f}, "
            f"{points[nearest, 1]:.2f}) m: its body would be {-clear[nearest]:.2f} m beyond the "
            "wall; choose a smaller vehicle, or widen the track there"
        )
    middle, between = curvature_of(centre)
    return RaceLine(
        track=track,
        objective=objective,
        limits=limits,
        x_m=points[:, 0],
        y_m=points[:, 1],
        s_m=np.append(0.0, np.cumsum(legs)[:-1]),
        curvature_per_m=kappa,
        lap=lap_time(kappa, legs, limits),
        length_m=float(legs.sum()),
        clearance_m=float(clear[nearest]),
        clearance_at_m=(float(points[nearest, 0]), float(points[nearest, 1])),
        centre_time_s=lap_time(middle, between, limits).time_s,
    )
