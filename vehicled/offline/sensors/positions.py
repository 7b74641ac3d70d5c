"""Errors of a receiver's positions over several runs, and the model that explains their increments.

    D(t) = mean (e(s + t) - e(s))^2
         = 2 [white^2 + wander^2 (1 - exp(-t / w)) + smooth^2 (1 - (1 + t / T) exp(-t / T))]

Increments are fitted, not the errors themselves, because a constant is often unknown: receivers
count from their own first position, and nobody knows where exactly a vehicle stands.
"""

from collections.abc import Sequence
from functools import cache
from math import hypot
from typing import NamedTuple

import msgspec
import numpy as np
from msgspec import Struct
from scipy.optimize import least_squares
from scipy.stats import norm as normal
from scipy.stats import t as student

from sim_backend.sensors.gnss_errors import RecordedGnssError
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, GnssFix
from vehicled.offline.recordings import track_truth
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import MAX_GAP_S
from vehicled.offline.sensors.reading import SensorRecording, antenna_m, shortened
from vehicled.profile.gnss import GnssModel, RandomWalk, RecordedError

LAGS = 16
LONGEST_LAG_S = 300.0
LEAST_S = 10.0
WANDER_S = 100.0
"""Time of the first-order part where runs are too short to show one."""
LONG_S = 1000.0
"""Runs at least so long show the time of the first-order part."""
DELAYS_S = np.arange(-0.3, 0.61, 0.05)
DELAY_PAYS = 0.95
"""A lateness counts if it makes the squared change from fix to fix smaller by this factor; else
chance picks it."""
RATES_ALIKE = 0.1
"""Runs whose rates differ by more are of receivers that are set differently."""
GAP = 2.5
"""Fixes further apart than so many periods have an outage between them."""
STILL_MPS = 0.1
STILL_M = 2.0
BLOCKS = 8
DRAWS = 60
CHECKED_S = (1.0, 5.0, 10.0, 20.0)
SIMULATED = 30
"""Simulated runs per recorded one."""


class PositionErrors(NamedTuple):
    """Errors of one run on a grid of whole periods."""

    name: str
    period_s: float
    error_m: Array
    """(n, 2) east and north; NaN where there is no fix or no truth."""


class Form(Struct, frozen=True):
    """Parameters of the model, in m and s."""

    white_m: float
    wander_m: float
    wander_s: float
    smooth_m: float
    smooth_s: float

    @property
    def sigma_m(self) -> float:
        """Standard deviation of the whole error, per axis."""
        return float(np.sqrt(self.white_m**2 + self.wander_m**2 + self.smooth_m**2))

    def increments(self, t_s: Array) -> Array:
        """Return D (m^2) at lags."""
        u = t_s / self.smooth_s
        found: Array = 2.0 * (
            self.white_m**2
            - self.wander_m**2 * np.expm1(-t_s / self.wander_s)
            + self.smooth_m**2 * (1.0 - (1.0 + u) * np.exp(-u))
        )
        return found


class FixInterruptions(Struct, frozen=True):
    """Interruptions of the fixes."""

    step_m: float
    hold_share: float
    hold_s: float
    outages_per_hour: float
    outage_s: float


class Growth(Struct, frozen=True, kw_only=True):
    """The model of the growth of errors with time, fitted to their increments."""

    form: Form
    low: Form
    high: Form
    """5 and 95 % over resampled runs or parts of them."""
    wander_fixed: bool
    lags_s: Array
    increments_m2: Array
    held_out: float
    """Geometric mean of the factor between D of one half of the runs and the fit to the other."""
    walk: RandomWalk
    """The published random walk with the sizes and times that come nearest to D."""
    walk_factor: float
    """Geometric mean of the factor between D and that of the walk."""

    @property
    def smooth_beyond(self) -> str:
        """``longer`` or ``shorter`` if the time of the second-order part is at the end of what the
        lags show; else empty."""
        if self.form.smooth_m == 0.0:
            return ""
        if self.form.smooth_s > 0.9 * self.lags_s[-1]:
            return "longer"
        return "shorter" if self.form.smooth_s < 2.2 * self.lags_s[0] else ""


class PositionFit(Growth, frozen=True, kw_only=True):
    """The model of a receiver's positions, and how good it is."""

    runs: int
    left_out: list[str]
    """Runs that cannot be used, with the reason."""
    errors: list[PositionErrors]
    hours: float
    rate_hz: float
    delay_s: float | None
    """Lateness of the fixes against the truth; None for a standing vehicle."""
    interrupted: FixInterruptions
    autocorrelation: dict[float, tuple[float, float]]
    """Recorded autocorrelation by lag in s, and that of simulated runs of the same lengths, about
    the mean of each run."""
    deviation_m: tuple[float, float]
    """Standard deviation within a run: recorded, simulated."""
    carrier: str
    reported_m: float | None
    """Standard deviation that the receiver reports, per horizontal axis, in the median; None if it
    reports none."""
    dilution: tuple[float, float] | None
    settling: tuple[float, float, float] | None
    """First and last dilution and its time constant in s; None if it does not settle in any run."""


def fit(drives: Sequence[SensorRecording], seed: int = 1) -> PositionFit:
    """Fit the model. Raises RecordingError that says which runs cannot be used, and why."""
    delay_s = _delay(drives) if any(drive.truth is not None for drive in drives) else None
    runs, refused = [], []
    for drive in drives:
        try:
            runs.append(errors(drive, delay_s or 0.0))
        except RecordingError as error:
            refused.append(str(error))
    if not runs:
        raise RecordingError("no run shows errors of positions: " + shortened(refused))
    period_s = sorted(run.period_s for run in runs)[len(runs) // 2]
    refused += [
        (
            f"{run.name}: has {1.0 / run.period_s:.3g} fixes per second, not {1.0 / period_s:.3g}; "
            "fit it apart"
        )
        for run in runs
        if abs(run.period_s / period_s - 1.0) > RATES_ALIKE
    ]
    runs = [run for run in runs if abs(run.period_s / period_s - 1.0) <= RATES_ALIKE]
    growth = growth_of([run.error_m for run in runs], period_s, seed)
    recorded = [run.error_m for run in runs]
    simulated = _simulated(growth.form, period_s, [len(error) for error in recorded], seed)
    longest = max(map(len, recorded))
    correlation = {
        lag_s: (_correlation(recorded, lag), _correlation(simulated, lag))
        for lag_s in CHECKED_S
        if 0 < (lag := round(lag_s / period_s)) < longest / 3.0
    }
    fixes = [fix for drive in drives for fix in drive.fixes]
    hdop = [
        (fix.hdop, fix.vdop) for fix in fixes if np.isfinite(fix.hdop) and np.isfinite(fix.vdop)
    ]
    return PositionFit(
        **{name: getattr(growth, name) for name in Growth.__struct_fields__},
        runs=len(runs),
        left_out=refused,
        errors=runs,
        hours=sum(int(np.isfinite(error[:, 0]).sum()) for error in recorded) * period_s / 3600.0,
        rate_hz=1.0 / period_s,
        delay_s=delay_s,
        interrupted=_interrupted(drives, period_s),
        autocorrelation=correlation,
        deviation_m=(_deviation(recorded), _deviation(simulated)),
        carrier=_carrier(drives),
        reported_m=_reported(fixes),
        dilution=None
        if not hdop
        else (float(np.median([h for h, _ in hdop])), float(np.median([v for _, v in hdop]))),
        settling=next((found for drive in drives if (found := _settling(drive)) is not None), None),
    )


def growth_of(runs: Sequence[Array], period_s: float, seed: int = 1) -> Growth:
    """Fit the growth of errors (n, 2) of runs. Raises RecordingError if they never change."""
    longest_s = max(map(len, runs)) * period_s
    most = max(2, int(min(longest_s / 3.0, LONGEST_LAG_S) / period_s))
    lags = np.unique(np.round(np.logspace(0.0, np.log10(most), LAGS)).astype(int))
    sums = _sums(runs, lags)
    shown = sums[:, 1].sum(axis=0) > 0
    lags, sums = lags[shown], sums[:, :, shown]
    t_s = lags * period_s
    if not sums[:, 0].any():
        raise RecordingError(
            "the positions never change: the receiver holds them at standstill, which hides "
            "its errors"
        )
    wander_s = None if longest_s >= LONG_S else WANDER_S
    form = _fit(t_s, _pooled(sums), wander_s)
    chance = np.random.default_rng(seed)
    draws = (sums[chance.integers(len(sums), size=len(sums))] for _ in range(DRAWS))
    drawn = [msgspec.structs.astuple(_fit(t_s, _pooled(draw), wander_s, form)) for draw in draws]
    low, high = _ends(msgspec.structs.astuple(form), drawn, len(sums))
    halves = sums[0::2], sums[1::2]
    held_out = [
        _factor(_fit(t_s, _pooled(a), wander_s), t_s, _pooled(b))
        for a, b in (halves, halves[::-1])
        if len(a) and len(b)
    ]
    walk, walk_factor = nearest_walk(t_s, _pooled(sums))
    return Growth(
        form=form,
        low=Form(*low),
        high=Form(*high),
        wander_fixed=wander_s is not None,
        lags_s=t_s,
        increments_m2=_pooled(sums),
        held_out=float(np.exp(np.mean(np.log(held_out)))) if held_out else float("nan"),
        walk=walk,
        walk_factor=walk_factor,
    )


def errors(drive: SensorRecording, delay_s: float) -> PositionErrors:
    """Return the errors of one run. Raises RecordingError that says why there are none."""
    fixes = [fix for fix in drive.fixes if np.isfinite(fix.latitude_rad)]
    if len(fixes) < 8:
        raise RecordingError(f"{drive.name}: has {len(fixes)} fixes")
    start_ns = fixes[0].t_ns
    _, east, north = track_truth.places(fixes, drive.datum)
    t_s = np.array([fix.t_ns - start_ns for fix in fixes]) * 1e-9
    if (np.diff(t_s) <= 0.0).any():
        keep = np.concatenate([[True], np.diff(np.maximum.accumulate(t_s)) > 0.0])
        t_s, east, north = t_s[keep], east[keep], north[keep]
    if t_s[-1] < LEAST_S:
        raise RecordingError(
            f"{drive.name}: lasts {t_s[-1]:.1f} s; at least {LEAST_S:.0f} s are needed"
        )
    place = np.column_stack([east, north])
    if drive.truth is not None:
        error = place - antenna_m(drive.truth, t_s - delay_s, drive.lever_arm_m, start_ns)
    elif _stands(drive, t_s, place):
        error = place - np.median(place, axis=0)
    else:
        raise RecordingError(
            f"{drive.name}: the vehicle moves, and nothing shows where it was; give runs with "
            "RTK beside a plain receiver, motion capture or a simulator, or one of a standing "
            "vehicle"
        )
    if np.isfinite(error).all(axis=1).sum() < 8:
        raise RecordingError(
            f"{drive.name}: where it was is known at fewer than 8 fixes; the truth must last as "
            f"long as the fixes, without gaps of {MAX_GAP_S:g} s"
        )
    period_s = _period(t_s)
    cell = np.round(t_s / period_s).astype(int)
    grid = np.full((cell[-1] + 1, 2), np.nan)
    grid[cell] = error
    return PositionErrors(drive.name, period_s, grid)


def _period(t_s: Array) -> float:
    """Return the period of fixes, however their stamps are rounded."""
    span = min(8, len(t_s) - 1)
    return float(np.median(t_s[span:] - t_s[:-span])) / span


def _stands(drive: SensorRecording, t_s: Array, place: Array) -> bool:
    if drive.driven or any(abs(speed) > STILL_MPS for _, speed in drive.speeds):
        return False
    velocities = [
        hypot(*fix.velocity_enu_mps[:2])
        for fix in drive.fixes
        if np.isfinite(fix.velocity_enu_mps[:2]).all()
    ]
    if velocities and np.median(velocities) > STILL_MPS:
        return False
    # Positions of a standing receiver wander by metres, so they must be seen to go somewhere.
    longest_s = min(60.0, 0.5 * float(t_s[-1]))
    # After one lag alone a vehicle that drives rounds may be back.
    return all(_stays(t_s, place, longest_s * part) for part in (1.0, 0.6, 0.35))


def _stays(t_s: Array, place: Array, lag_s: float) -> bool:
    later = np.searchsorted(t_s, t_s + lag_s)
    pairs = later < len(t_s)
    moved = np.linalg.norm(place[later[pairs]] - place[pairs], axis=1)
    return not len(moved) or bool(np.median(moved) <= max(STILL_M, STILL_MPS * lag_s))


def _delay(drives: Sequence[SensorRecording]) -> float:
    """Return the lateness with which the errors change least from fix to fix; 0 if none makes them
    much smoother."""

    def roughness(delay_s: float) -> float:
        total, count = 0.0, 0
        for drive in drives:
            if drive.truth is None:
                continue
            try:
                steps = np.diff(errors(drive, delay_s).error_m, axis=0)
            except RecordingError:
                continue
            total, count = total + float(np.nansum(steps**2)), count + int(np.isfinite(steps).sum())
        return total / count if count else np.inf

    best_s = float(min(DELAYS_S, key=roughness))
    return best_s if roughness(best_s) < DELAY_PAYS * roughness(0.0) else 0.0


def _ends(
    values: Sequence[float], drawn: Sequence[Sequence[float]], blocks: int
) -> tuple[list[float], list[float]]:
    """Return 5 and 95 % of the draws, made wider as Student's distribution is wider for so few
    blocks."""
    wider = float(student.ppf(0.95, blocks - 1) / normal.ppf(0.95)) * (blocks / (blocks - 1)) ** 0.5
    low, high = np.quantile(drawn, [0.05, 0.95], axis=0).tolist()
    for ends in (low, high):
        for k, value in enumerate(values):
            if value > 0.0 and ends[k] > 0.0:
                ends[k] = value * (ends[k] / value) ** wider
    return low, high


def _sums(runs: Sequence[Array], lags: Array) -> Array:
    """Return sum and count of squared increments (blocks, 2, lags). Few runs are cut, so that there
    are blocks to draw from."""
    parts = 1 if len(runs) >= BLOCKS // 2 else -(-BLOCKS // len(runs))
    found = []
    for error in runs:
        squares = [(error[lag:] - error[:-lag]) ** 2 for lag in lags.tolist()]
        # A block holds the increments that begin in it.
        for begins in np.array_split(np.arange(len(error)), parts):
            rows = [
                each[begins[0] : begins[-1] + 1] if len(begins) else each[:0] for each in squares
            ]
            found.append(
                [[np.nansum(each) for each in rows], [np.isfinite(each).sum() for each in rows]]
            )
    return np.array(found)


def _pooled(sums: Array) -> Array:
    found: Array = np.maximum(sums[:, 0].sum(axis=0) / np.maximum(sums[:, 1].sum(axis=0), 1), 1e-12)
    return found


def _fit(t_s: Array, found: Array, wander_s: float | None, near: Form | None = None) -> Form:
    """Fit by least squares of log D; the second-order part only if it pays by Akaike's criterion.

    ``near`` is a fit to alike increments, whose parts are fitted again from its values.
    """
    size = float(np.sqrt(found.max() / 2.0))
    least, most = 1e-3 * np.sqrt(found.min()), 20.0 * size

    def residuals(logarithms: Array) -> Array:
        return np.log(form(logarithms).increments(t_s) / found)

    def form(logarithms: Array) -> Form:
        white, wander, *rest = np.exp(logarithms).tolist()
        time_s = rest.pop() if wander_s is None else wander_s
        smooth, smooth_s = rest or (0.0, 1.0)
        return Form(white, wander, time_s, smooth, smooth_s)

    def shown(found: Form) -> Form:
        # A part at its lower bound is not in the increments.
        small = {
            name: 0.0
            for name in ("white_m", "wander_m", "smooth_m")
            if getattr(found, name) < 1.01 * least
        }
        return msgspec.structs.replace(found, **small)

    best: tuple[float, Form] | None = None
    for with_smooth in (False, True) if near is None else (near.smooth_m > 0.0,):
        low, high = [least, least], [most, most]
        starts = [[np.sqrt(found[0] / 2.0), size]]
        if with_smooth:
            low, high = [*low, least, 2.0 * t_s[0]], [*high, most, t_s[-1]]
            starts = [
                [*start, size, time]
                for start in starts
                for time in np.geomspace(4.0 * t_s[0], 0.5 * t_s[-1], 4)
            ]
        if wander_s is None:
            low, high = [*low, 2.0 * t_s[0]], [*high, 10.0 * t_s[-1]]
            starts = [[*start, time] for start in starts for time in (t_s[-1] / 30.0, t_s[-1])]
        if near is not None:
            given = [near.white_m, near.wander_m, near.smooth_m, near.smooth_s, near.wander_s]
            starts = [[*given[: 4 if with_smooth else 2], *([] if wander_s else given[4:])]]
        bounds = np.log([low, high])
        for start in starts:
            begin = np.clip(np.log(np.maximum(start, least)), bounds[0] + 1e-6, bounds[1] - 1e-6)
            done = least_squares(residuals, begin, bounds=bounds, max_nfev=400)
            score = len(t_s) * float(np.log(2.0 * done.cost / len(t_s) + 1e-12)) + 2.0 * len(begin)
            if best is None or score < best[0]:
                best = score, form(done.x)
    assert best is not None
    return shown(best[1])


def _factor(form: Form, t_s: Array, found: Array) -> float:
    return float(np.exp(np.abs(np.log(form.increments(t_s) / found)).mean()))


def nearest_walk(t_s: Array, found: Array) -> tuple[RandomWalk, float]:
    """Return the published random walk stretched in size and time until its D is nearest to the
    measured one, and their factor.

    With sizes times L and times times T, speeds grow by L / T. The drawn acceleration, one per step
    of constant length, by L / T^1.5, and the pull of the place by L / T^2. In the published
    notation, a from N(-p / p_max, sigma), that is a fit of sigma and p_max; the cuts keep their
    relation to them.
    """
    walk = RandomWalk()
    base_s, base = _walk_increments()
    times = np.geomspace(0.05, 1000.0, 400)
    short = np.minimum(t_s / times[:, None] / base_s[0], 1.0)
    # Below its shortest lag the place of the walk moves at constant speed.
    logs = np.log(found) - np.log(
        np.array([np.interp(t_s / time, base_s, base) for time in times]) * short**2
    )
    spread = logs.std(axis=1)
    k = int(np.argmin(spread))
    size, time = float(np.exp(0.5 * logs[k].mean())), float(times[k])
    scale, speed = size * time**-1.5, size / time
    found_walk = msgspec.structs.replace(
        walk,
        sigma=walk.sigma * scale,
        pull=walk.pull * time**-0.5,
        pull_range_m=walk.pull_range_m * size,
        acceleration_cut=walk.acceleration_cut * scale,
        speed_cut=walk.speed_cut * speed,
        settled_sigma_m=walk.settled_sigma_m * size,
    )
    return found_walk, float(np.exp(np.abs(logs[k] - logs[k].mean()).mean()))


def walk_places(walk: RandomWalk, length_s: float, axes: int, chance: np.random.Generator) -> Array:
    """Return the places (steps, axes) of a walk from switch-on, a row for each of its steps."""
    steps = int(length_s * walk.rate_hz)
    place, speed, places = np.zeros(axes), np.zeros(axes), np.empty((steps, axes))
    pull, most, fastest = walk.pull * walk.sigma, walk.acceleration_cut, walk.speed_cut
    for k in range(steps):
        mean = -pull * np.clip(place / walk.pull_range_m, -1.0, 1.0)
        drawn = np.clip(mean + walk.sigma * chance.standard_normal(axes), -most, most)
        speed = np.clip(speed + drawn * walk.step_s, -fastest, fastest)
        place = place + speed * walk.step_s
        places[k] = place
    return places


@cache
def _walk_increments() -> tuple[Array, Array]:
    """Return lags and D of the published walk when it has settled, by simulation."""
    walk = RandomWalk()
    places = walk_places(walk, 160.0, 200, np.random.default_rng(1))
    settled = places[len(places) // 4 :]
    lags = np.unique(np.geomspace(1, len(settled) // 2, 60).astype(int))
    found = [float(np.mean((settled[lag:] - settled[:-lag]) ** 2)) for lag in lags]
    # Beyond these lags the places have nothing in common.
    return np.append(lags, 2 * lags[-1]) / walk.rate_hz, np.array([*found, 2.0 * settled.var()])


def _simulated(form: Form, period_s: float, lengths: Sequence[int], seed: int) -> list[Array]:
    table = RecordedError(
        white_sigma_m=form.white_m, wander_sigma_m=form.wander_m, wander_time_s=form.wander_s,
        smooth_sigma_m=form.smooth_m, smooth_time_s=form.smooth_s,
    )  # fmt: skip
    model = GnssModel(model="recorded", rate_hz=1.0 / period_s, recorded=table)
    most = max(1, min(SIMULATED, 200_000 // max(1, sum(lengths))))
    found = []
    for index, length in enumerate([*lengths] * most):
        error = RecordedGnssError(model, period_s, 1.0, Normals(stream(seed, f"run/{index}"), 12))
        steps = np.array([error.step(0.0, []) for _ in range(length)])
        found.append(steps[:, :2] + steps[:, 3:5])
    return found


def _correlation(runs: Sequence[Array], lag: int) -> float:
    rows = []
    for error in runs:
        centred = error - np.nanmean(error, axis=0)
        if len(error) > lag and np.isfinite(centred[lag:] * centred[:-lag]).any():
            rows.append(
                np.nanmean(centred[lag:] * centred[:-lag], axis=0) / np.nanmean(centred**2, axis=0)
            )
    return float(np.mean(rows))


def _deviation(runs: Sequence[Array]) -> float:
    return float(np.sqrt(np.mean([np.nanvar(error, axis=0) for error in runs])))


def _interrupted(drives: Sequence[SensorRecording], period_s: float) -> FixInterruptions:
    outages: list[float] = []
    holds: list[int] = []
    steps: list[float] = []
    total_s, pairs = 0.0, 0
    for drive in drives:
        fixes = [fix for fix in drive.fixes if np.isfinite(fix.latitude_rad)]
        if len(fixes) < 8:
            continue
        t_s, east, north = track_truth.places(fixes, drive.datum)
        gaps = np.diff(t_s)
        total_s += float(t_s[-1] - t_s[0])
        outages += (gaps[gaps > GAP * period_s] - period_s).tolist()
        latitude = np.array([fix.latitude_rad for fix in fixes])
        longitude = np.array([fix.longitude_rad for fix in fixes])
        same = (np.diff(latitude) == 0.0) & (np.diff(longitude) == 0.0)
        pairs += len(same)
        steps += [_step(east), _step(north)]
        if not _stands(drive, t_s - t_s[0], np.column_stack([east, north])):
            # A standing receiver that says the same twice holds nothing.
            edges = np.flatnonzero(np.diff(np.concatenate([[0], same.astype(int), [0]])))
            holds += (edges[1::2] - edges[0::2]).tolist()
    return FixInterruptions(
        step_m=min(steps) if steps and min(steps) > 0.0 else 0.0,
        hold_share=sum(holds) / pairs if pairs else 0.0,
        hold_s=float(np.mean(holds)) * period_s if holds else 1.0,
        outages_per_hour=len(outages) / total_s * 3600.0 if total_s else 0.0,
        outage_s=float(np.mean(outages)) if outages else 1.0,
    )


def _step(values: Array) -> float:
    """Return the step of rounded values in m; 0 if they are not rounded or nothing shows it."""
    distinct = np.unique(np.round(values, 5))
    apart = np.diff(distinct)
    apart = apart[apart > 1.5e-5]
    if len(apart) < 8:
        return 0.0
    step = float(apart.min())
    counts = apart / step
    # Degrees in text are rounded on the ellipsoid: the step in m changes by a few parts in a
    # thousand.
    return step if float(np.abs(counts - np.round(counts)).mean()) < 0.05 else 0.0


def _carrier(drives: Sequence[SensorRecording]) -> str:
    found = [fix.carrier for drive in drives for fix in drive.fixes]
    return max(CarrierSolution, key=found.count).name.lower()


def _reported(fixes: Sequence[GnssFix]) -> float | None:
    variances = [
        0.5 * (fix.position_covariance_m2[0] + fix.position_covariance_m2[4]) for fix in fixes
    ]
    known = [variance for variance in variances if np.isfinite(variance) and variance > 0.0]
    return float(np.sqrt(np.median(known))) if known else None


def _settling(drive: SensorRecording) -> tuple[float, float, float] | None:
    """Return first and last dilution and its time constant, if it falls to less than two thirds of
    the first."""
    stated = [(fix.t_ns, fix.hdop) for fix in drive.fixes if np.isfinite(fix.hdop)]
    if len(stated) < 20:
        return None
    t_s = np.array([t_ns - stated[0][0] for t_ns, _ in stated]) * 1e-9
    hdop = np.array([value for _, value in stated])
    last = float(np.median(hdop[len(hdop) // 2 :]))
    if not hdop[0] > 1.5 * last:
        return None
    done = least_squares(
        lambda p: np.log(p[1] + (p[0] - p[1]) * np.exp(-t_s / p[2])) - np.log(hdop),
        [hdop[0], last, 10.0],
        bounds=([1.01 * last, 0.5 * last, 0.1], [1e3, 2.0 * last, 1e4]),
    )
    first, final, time_s = done.x.tolist()
    return first, final, time_s
