"""Accuracy of a reference system by a protocol: what it may claim as truth, from drives that would
show its errors.

Each check compares the reference with something else: rest, a marked place, its own velocity, the
direction of travel, the fixes of another receiver. A standard deviation goes with the number of
independent observations, because errors that change slowly repeat themselves. The claim is the
upper 95 % limit of the check that knows most, and no less than any check shows or the unit
declares.
"""

import os
from collections.abc import Sequence
from math import hypot, inf, isfinite, nan, sqrt

import numpy as np
from msgspec import Struct, field

from vehicled.core.arrays import Array, rms
from vehicled.core.messages import CarrierSolution, GnssFix, ReferenceState
from vehicled.daemon.reference import ReferenceFrame
from vehicled.log.reader import LogReader, run_messages
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import RecordedMotion, between
from vehicled.offline.sensors.reading import antenna_m
from vehicled.paths.datum import Datum
from vehicled.paths.stored import datum_of
from vehicled.profile import profile_in

QUANTITIES = {"position": "m", "speed": "m/s", "heading": "rad"}
STILL_S, STILL_M, STILL_RAD = 10.0, 0.1, 0.02
"""Least time at rest, and the largest change of position and yaw within a second that counts as
rest."""
TRIM_S = 1.0
"""Time left out at both ends of a rest: the vehicle rocks."""
PLACE_M = 0.5
"""Rests that are nearer to each other are at the same marked place."""
OTHER_WAY = 1.0
"""Spread of the cosine of the yaw over visits: more than a quarter turn between two of them."""
AWAY_M = 2.0
"""Distance that the vehicle must have been away from a place to have come back to it."""
WINDOW_S = 5.0
"""Time over which velocity is integrated to be compared with the change of position."""
COURSE_S = 1.0
"""Time over which course and heading are averaged."""
COURSE_MPS = 0.5
"""Least speed at which a course over ground means something."""
TURNING_PER_M = 0.05
"""Curvature from which the vehicle turns."""
BOTH_WAYS = 0.1
"""Part of the time that the vehicle must turn to each side, to separate its mounting angle from its
turning."""
SPEED_SPREAD = 1.2
"""Ratio of fast to slow driving in turns from which on slip is separated from the lever arm."""
ALL_FIXED = 0.995
"""Part of the states on fixed RTK from which the conditions are not mentioned."""
FEW = 4
"""Independent observations below which nothing may be claimed."""


class Series(Struct, frozen=True, kw_only=True):
    """The reference of one run at the rear axle: arrays of shape (n,)."""

    name: str
    t_s: Array
    x_m: Array
    y_m: Array
    yaw_rad: Array
    """Yaw, not wrapped."""
    east_mps: Array
    north_mps: Array
    rate_radps: Array
    position_sigma_m: Array
    speed_sigma_mps: Array
    yaw_sigma_rad: Array
    fixed: Array
    """1 where the positions rest on a fixed RTK solution."""
    fixes: Array
    """Fixes of another receiver with a fixed RTK solution (m, 3): time, east, north of its
    antenna."""
    antenna_m: tuple[float, float, float]

    @property
    def speed_mps(self) -> Array:
        """Speed along the vehicle."""
        return self.east_mps * np.cos(self.yaw_rad) + self.north_mps * np.sin(self.yaw_rad)

    @property
    def across_mps(self) -> Array:
        """Speed to the left of the vehicle."""
        return self.north_mps * np.cos(self.yaw_rad) - self.east_mps * np.sin(self.yaw_rad)


class TruthEvidence(Struct, frozen=True, kw_only=True):
    """Result of one check for one quantity."""

    quantity: str
    check: str
    sigma: float
    """Root mean square error per axis."""
    independent: float
    """Number of independent observations."""
    proves: bool = True
    """False if the check sees only a part of the errors, so that it may refute a claim but cannot
    carry one."""

    @property
    def upper(self) -> float:
        """Upper 95 % limit of the standard deviation."""
        return (
            self.sigma * sqrt(self.independent / chi_square_05(self.independent))
            if self.independent >= 1.0
            else inf
        )


class CheckResult(Struct, frozen=True):
    """One check with its findings in words, and what it lacks."""

    name: str
    findings: list[str]
    lacking: str = ""


class TruthCheck(Struct, frozen=True, kw_only=True):
    """Result of the protocol."""

    checks: list[CheckResult]
    evidence: list[TruthEvidence]
    declared: dict[str, float]
    """Median of the declared standard deviations by quantity."""
    claims: dict[str, float]
    """Standard deviation per axis that may be claimed, by quantity; NaN where nothing may be
    claimed."""
    independent: dict[str, float]
    """Independent observations behind each claim."""
    unknown: list[str]
    """Errors that the runs do not show."""
    yaw_offset_rad: float = nan
    """Correction of the mounting angle, to be added to ``yaw_offset_rad`` of the driver."""
    runs: list[str] = field(default_factory=list)


def chi_square_05(degrees: float) -> float:
    """Return the 5 % quantile of chi-square (Wilson and Hilferty 1931: within 4 % from four degrees
    on, too small below)."""
    spread = 2.0 / (9.0 * degrees)
    return float(degrees * max(1.0 - spread - 1.6449 * sqrt(spread), 0.02) ** 3)


def independent(errors: Array) -> float:
    """Return the number of independent values in an evenly sampled series: n over its integrated
    autocorrelation time.

    Correlations are about zero, not about the mean: a constant error is one observation, however
    often it is seen. They are summed as long as neighbours together are positive (Geyer 1992), so
    that a slow part under white noise is not overlooked.
    """
    n = len(errors)
    power = float(np.mean(errors * errors)) if n else 0.0
    if power <= 0.0:
        return float(n)
    lags = np.arange(n - n % 2)
    product = np.fft.irfft(np.abs(np.fft.rfft(errors, 2 * n)) ** 2)[: len(lags)]
    # Over n and not over n - lag: far lags are sums of few products, which would be noise.
    pairs = (product / (n * power)).reshape(-1, 2).sum(axis=1)
    low = np.flatnonzero(pairs <= 0.0)
    total = 2.0 * float(pairs[: low[0] if len(low) else None].sum()) - 1.0
    return min(float(n), max(1.0, n / max(total, 1.0)))


def read(paths: Sequence[str | os.PathLike[str]]) -> list[Series]:
    """Read the reference of each log. Raises RecordingError, LogError and ProfileError."""
    return [_read(path) for path in paths]


def _read(path: str | os.PathLike[str]) -> Series:
    states: list[ReferenceState] = []
    fixes: list[GnssFix] = []
    with LogReader(path) as log:
        profile = profile_in(log)
        datum = datum_of(log.attachment("course.json"))
    for message in run_messages(path, ReferenceState, GnssFix):
        if isinstance(message, ReferenceState):
            states.append(message)
        elif isinstance(message, GnssFix) and message.carrier is CarrierSolution.FIXED:
            fixes.append(message)
    arm = profile.lever_arm_m(ReferenceState.__name__)
    if len(states) < 2 or arm is None:
        raise RecordingError(
            f"{path}: holds no reference state: give one device of the profile messages = "
            '["ReferenceState"] (docs/devices.md)'
        )
    antenna_m = profile.lever_arm_m(GnssFix.__name__) or (0.0, 0.0, 0.0)
    return series(os.fspath(path), states, fixes, datum, arm, antenna_m)


def series(
    name: str,
    states: Sequence[ReferenceState],
    fixes: Sequence[GnssFix],
    datum: Datum,
    lever_arm_m: Sequence[float],
    antenna: tuple[float, float, float],
) -> Series:
    """Return the reference at the rear axle."""
    frame = ReferenceFrame(datum, lever_arm_m)
    start_ns = states[0].t_ns
    rows = []
    for state in states:
        truth = frame.truth(state)
        east_m, north_m, _ = datum.to_enu(state.latitude_rad, state.longitude_rad, state.height_m)
        ve, vn, _ = state.velocity_enu_mps
        rate = truth.yaw_rate_radps
        rows.append(
            (
                (state.t_ns - start_ns) * 1e-9, truth.x_m, truth.y_m, truth.yaw_rad,
                ve + rate * (north_m - truth.y_m), vn - rate * (east_m - truth.x_m), rate,
                truth.position_sigma_m, truth.speed_sigma_mps, truth.yaw_sigma_rad,
                state.carrier is CarrierSolution.FIXED,
            )
        )  # fmt: skip
    columns = np.array(rows, dtype=np.float64).T
    columns = columns[:, np.concatenate([[True], np.diff(columns[0]) > 0.0])]
    columns[3] = np.unwrap(columns[3])
    places = [
        ((f.t_ns - start_ns) * 1e-9, *datum.to_enu(f.latitude_rad, f.longitude_rad, f.height_m)[:2])
        for f in fixes
    ]
    return Series(
        name=name, t_s=columns[0], x_m=columns[1], y_m=columns[2], yaw_rad=columns[3],
        east_mps=columns[4], north_mps=columns[5], rate_radps=columns[6],
        position_sigma_m=columns[7], speed_sigma_mps=columns[8], yaw_sigma_rad=columns[9],
        fixed=columns[10], fixes=np.array(places, dtype=np.float64).reshape(-1, 3),
        antenna_m=antenna,
    )  # fmt: skip


def check(runs: Sequence[Series]) -> TruthCheck:
    """Judge a reference by its runs."""
    evidence: list[TruthEvidence] = []
    unknown: list[str] = []
    rests = [(run, a, b) for run in runs for a, b in rests_of(run)]
    offset = nan
    checks = [_rest(rests, evidence), _marks(rests, evidence), _integral(runs, evidence)]
    course, offset = _course(runs, rests, evidence)
    checks += [course, _receiver(runs, evidence)]
    declared = {
        "position": _median([run.position_sigma_m for run in runs]),
        "speed": _median([run.speed_sigma_mps for run in runs]),
        "heading": _median([run.yaw_sigma_rad for run in runs]),
    }
    claims: dict[str, float] = {}
    counts: dict[str, float] = {}
    for quantity in QUANTITIES:
        mine = [each for each in evidence if each.quantity == quantity]
        carrying = [each for each in mine if each.proves and each.independent >= FEW]
        if not carrying:
            claims[quantity] = nan
            counts[quantity] = max([each.independent for each in mine if each.proves], default=0.0)
            continue
        best = min(carrying, key=lambda each: each.upper)
        known = [each.sigma for each in mine] + (
            [declared[quantity]] if isfinite(declared[quantity]) else []
        )
        claims[quantity], counts[quantity] = max([best.upper, *known]), best.independent
    # A lever arm that is wrong to the side adds the yaw rate times the error to the speed. No check
    # but the position's sees it.
    turning = rms(np.concatenate([run.rate_radps for run in runs]))
    if isfinite(claims["position"]):
        claims["speed"] = hypot(claims["speed"], turning * claims["position"])
    else:
        unknown.append(
            "the part of a wrong lever arm in the speed of turns, because the position is unknown"
        )
    unknown += [f"{each.name}: {each.lacking}" for each in checks if each.lacking]
    fixed = float(np.mean(np.concatenate([run.fixed for run in runs])))
    if fixed < ALL_FIXED:
        unknown.append(
            f"the claim holds for the conditions of these runs: {fixed:.0%} of the states rest "
            "on fixed RTK"
        )
    minutes = sum(float(run.t_s[-1] - run.t_s[0]) for run in runs) / 60.0
    unknown.append(
        f"errors that change more slowly than these {minutes:.1f} min: add a log of another "
        "hour or day"
    )
    unknown.append(
        "an offset of the whole map, such as wrong coordinates of the base station, shows in "
        "none of these checks"
    )
    return TruthCheck(
        checks=checks, evidence=evidence, declared=declared, claims=claims, independent=counts,
        unknown=unknown, yaw_offset_rad=offset, runs=[run.name for run in runs],
    )  # fmt: skip


def _median(columns: list[Array]) -> float:
    known = np.concatenate(columns)
    known = known[np.isfinite(known)]
    return float(np.median(known)) if len(known) else nan


# ---------------------------------------------------------------- rest


def rests_of(run: Series) -> list[tuple[int, int]]:
    """Return first and last index of each rest. By positions, because a wrong velocity would hide
    itself."""
    after = np.searchsorted(run.t_s, run.t_s + 1.0)
    inside = after < len(run.t_s)
    then = np.minimum(after, len(run.t_s) - 1)
    moved = np.hypot(run.x_m[then] - run.x_m, run.y_m[then] - run.y_m)
    still = inside & (moved < STILL_M) & (np.abs(run.yaw_rad[then] - run.yaw_rad) < STILL_RAD)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(np.int8), [0]])))
    found = []
    for begin, end in zip(edges[::2], edges[1::2] - 1):
        a = int(np.searchsorted(run.t_s, run.t_s[begin] + TRIM_S))
        b = int(np.searchsorted(run.t_s, run.t_s[end] - TRIM_S))
        if b > a and run.t_s[b] - run.t_s[a] >= STILL_S:
            found.append((a, b))
    return found


def _rest(rests: list[tuple[Series, int, int]], evidence: list[TruthEvidence]) -> CheckResult:
    name = "at rest"
    if not rests:
        return CheckResult(name, [], f"the vehicle never stood for {STILL_S + 2 * TRIM_S:g} s")
    scatter, speeds, yaws, drifts, turns = ([] for _ in range(5))
    count = 0.0
    for run, a, b in rests:
        at = run.t_s[a:b] - run.t_s[a]
        for axis in (run.x_m[a:b], run.y_m[a:b]):
            scatter.append(axis - axis.mean())
            drifts.append(np.polyfit(at, axis, 1)[0] * 60.0)
        for axis in (run.east_mps[a:b], run.north_mps[a:b]):
            speeds.append(axis)
            count += independent(axis)
        yaws.append(run.yaw_rad[a:b] - run.yaw_rad[a:b].mean())
        turns.append(np.polyfit(at, run.yaw_rad[a:b], 1)[0] * 60.0)
    position, speed, yaw = (rms(np.concatenate(each)) for each in (scatter, speeds, yaws))
    evidence += [
        TruthEvidence(
            quantity="position",
            check=name,
            sigma=position,
            independent=2.0 * len(rests),
            proves=False,
        ),
        TruthEvidence(quantity="speed", check=name, sigma=speed, independent=count),
        TruthEvidence(
            quantity="heading", check=name, sigma=yaw, independent=float(len(rests)), proves=False
        ),
    ]
    total = sum(float(run.t_s[b] - run.t_s[a]) for run, a, b in rests)
    findings = [
        f"{len(rests)} rests, {total:.0f} s together",
        (
            f"position scatters by {position:.4f} m and drifts by {rms(np.array(drifts)):.4f} "
            "m/min per axis"
        ),
        f"velocity is {speed:.4f} m/s per axis, where it should be 0",
        (
            f"yaw scatters by {np.degrees(yaw):.3f} deg and drifts by "
            f"{np.degrees(rms(np.array(turns))):.3f} deg/min"
        ),
    ]
    return CheckResult(name, findings)


def _marks(rests: list[tuple[Series, int, int]], evidence: list[TruthEvidence]) -> CheckResult:
    """Compare rests at the same marked place."""
    name = "return to a mark"
    places: list[list[tuple[float, float, float]]] = []
    newest: list[tuple[Series, int]] = []
    for run, a, b in rests:
        at = float(run.x_m[a:b].mean()), float(run.y_m[a:b].mean()), float(run.yaw_rad[a:b].mean())
        home = next(
            (
                k
                for k, visits in enumerate(places)
                if hypot(at[0] - visits[0][0], at[1] - visits[0][1]) < PLACE_M
            ),
            None,
        )
        if home is None:
            places.append([at])
            newest.append((run, b))
            continue
        before, left = newest[home]
        newest[home] = run, b
        if before is run:
            away = np.hypot(run.x_m[left:a] - at[0], run.y_m[left:a] - at[1])
            if not len(away) or away.max() < AWAY_M:
                continue  # it has not been away
        places[home].append(at)
    visited = [np.array(visits) for visits in places if len(visits) > 1]
    if not visited:
        return CheckResult(
            name, [], "no place was visited twice: stop on a mark, drive, and stop on it again"
        )
    errors = [visits[:, :2] - visits[:, :2].mean(axis=0) for visits in visited]
    free = 2.0 * sum(len(each) - 1 for each in errors)
    sigma = sqrt(sum(float(np.sum(each * each)) for each in errors) / free)
    # A wrong lever arm moves every visit alike, as long as the vehicle stands the same way.
    spread = max(float(np.ptp(np.cos(visits[:, 2] - visits[0, 2]))) for visits in visited)
    evidence.append(
        TruthEvidence(
            quantity="position",
            check=name,
            sigma=sigma,
            independent=free,
            proves=spread > OTHER_WAY,
        )
    )
    count = sum(len(each) for each in errors)
    far = max(float(np.hypot(*(a - b))) for each in errors for a in each for b in each)
    where = "one place" if len(errors) == 1 else f"{len(errors)} places"
    text = (
        f"{count} visits to {where} differ by {sigma:.4f} m per axis, {far:.4f} m at most, "
        "your placing included"
    )
    lacking = ""
    if free < FEW:
        lacking = f"{count} visits are few: at least {int(FEW / 2) + 1} to one place are needed"
    elif spread <= OTHER_WAY:
        lacking = (
            "every visit faced the same way, which hides a wrong lever arm: come to the mark "
            "from the other side too"
        )
    return CheckResult(name, [text], lacking)


# ---------------------------------------------------------------- velocity, course


def _integral(runs: Sequence[Series], evidence: list[TruthEvidence]) -> CheckResult:
    """Compare the change of position with the integral of velocity, along and across the
    vehicle."""
    name = "velocity against position"
    errors, lengths = [], []
    for run in runs:
        steps = np.diff(run.t_s)
        way = [
            np.concatenate([[0.0], np.cumsum(0.5 * (v[1:] + v[:-1]) * steps)])
            for v in (run.east_mps, run.north_mps)
        ]  # fmt: skip
        at = np.arange(run.t_s[0], run.t_s[-1] - WINDOW_S, WINDOW_S)
        lost = np.concatenate([[0], np.cumsum(steps > 0.5)])
        holes = np.interp(at + WINDOW_S, run.t_s, lost) > np.interp(at, run.t_s, lost)
        moves = [
            np.interp(at + WINDOW_S, run.t_s, v) - np.interp(at, run.t_s, v)
            for v in (run.x_m, run.y_m, *way)
        ]
        speed = np.hypot(moves[2], moves[3]) / WINDOW_S
        used = ~holes & (speed > COURSE_MPS)
        c = np.cos(np.interp(at + WINDOW_S / 2, run.t_s, run.yaw_rad))
        s = np.sin(np.interp(at + WINDOW_S / 2, run.t_s, run.yaw_rad))
        off = (moves[0] - moves[2]) / WINDOW_S, (moves[1] - moves[3]) / WINDOW_S
        errors.append(np.column_stack([c * off[0] + s * off[1], c * off[1] - s * off[0]])[used])
        lengths.append(speed[used])
    found = np.concatenate(errors)
    if len(found) < FEW:
        return CheckResult(
            name, [], f"fewer than {FEW} stretches of {WINDOW_S:g} s above {COURSE_MPS:g} m/s"
        )
    count = sum(independent(each[:, k]) for each in errors for k in (0, 1) if len(each))
    sigma = rms(found)
    # White noise of the velocity is averaged away, so this alone carries no claim.
    evidence.append(
        TruthEvidence(quantity="speed", check=name, sigma=sigma, independent=count, proves=False)
    )
    scale = float(np.mean(found[:, 0]) / np.mean(np.concatenate(lengths)))
    findings = [
        f"{len(found)} stretches of {WINDOW_S:g} s: {sigma:.4f} m/s per axis",
        (
            f"mean {found[:, 0].mean():+.4f} m/s along ({scale:+.2%} of the speed), "
            f"{found[:, 1].mean():+.4f} m/s across the vehicle"
        ),
    ]
    return CheckResult(name, findings)


def _course(
    runs: Sequence[Series], rests: list[tuple[Series, int, int]], evidence: list[TruthEvidence]
) -> tuple[CheckResult, float]:
    """Compare the course of the rear axle with the heading.

    ``course - heading = mounting + arm curvature + slip lateral acceleration``: the axle rolls
    where it points, so a constant difference is the mounting angle, one that grows with curvature a
    wrong lever arm, and one that grows with lateral acceleration slip. Driven to one side only, or
    at one speed, these cannot be separated.
    """
    name = "course against heading"
    rows = []
    for run in runs:
        at = np.arange(run.t_s[0], run.t_s[-1] - COURSE_S, COURSE_S)
        first, last = np.searchsorted(run.t_s, at), np.searchsorted(run.t_s, at + COURSE_S)
        ahead, aside, rate = run.speed_mps, run.across_mps, run.rate_radps
        for a, b in zip(first, last):
            if b - a < 3 or ahead[a:b].min() < COURSE_MPS:
                continue
            speed = float(ahead[a:b].mean())
            turning = float(rate[a:b].mean())
            rows.append(
                (
                    float(np.arctan2(aside[a:b].mean(), speed)),
                    turning / speed,
                    turning * speed,
                    speed,
                )
            )
    if len(rows) < 10:
        return CheckResult(
            name,
            [],
            (
                f"the vehicle drove forward faster than {COURSE_MPS:g} m/s for {len(rows)} s: too "
                "short"
            ),
        ), nan
    difference, curvature, lateral, speed = np.array(rows).T
    turns = np.abs(curvature) > TURNING_PER_M
    left = float(np.mean(turns & (curvature > 0.0)))
    right = float(np.mean(turns & (curvature < 0.0)))
    lacking = ""
    columns = [np.ones(len(difference))]
    spread = (
        float(np.quantile(speed[turns], 0.9) / np.quantile(speed[turns], 0.1))
        if turns.any()
        else 1.0
    )
    if min(left, right) >= BOTH_WAYS:
        columns.append(curvature)
        if spread >= SPEED_SPREAD:
            columns.append(lateral)
        else:
            lacking = (
                "turns were driven at one speed: slip and a wrong lever arm look alike; drive "
                "them slow and fast"
            )
    else:
        lacking = (
            "turns to one side only: the mounting angle holds what turning adds; drive the "
            "figure both ways"
        )
        straight = ~turns
        if straight.sum() >= 10:
            difference = difference[straight]
            curvature = curvature[straight]
            speed = speed[straight]
            columns = [np.ones(len(difference))]
    weights = speed / speed.max()
    design = np.column_stack(columns)
    solution = np.linalg.lstsq(design * weights[:, None], difference * weights, rcond=None)[0]
    residual = difference - design @ solution
    count = independent(residual)
    spreads = sqrt(float(np.sum((weights * residual) ** 2)) / float(np.sum(weights**2)))
    error = spreads / sqrt(max(count, 1.0))
    scatter = [run.yaw_rad[a:b] - run.yaw_rad[a:b].mean() for run, a, b in rests]
    noise = rms(np.concatenate(scatter)) if scatter else 0.0
    mounting = float(solution[0])
    evidence.append(
        TruthEvidence(
            quantity="heading",
            check=name,
            sigma=sqrt(mounting**2 + spreads**2 + noise**2),
            independent=count,
        )
    )
    findings = [
        (
            f"{len(difference)} s of driving, {left:.0%} of it to the left and {right:.0%} to the "
            "right"
        ),
        (
            f"the course is {np.degrees(mounting):+.3f} deg (1 sigma {np.degrees(error):.3f}) from "
            "the heading: the mounting angle"
        ),
        f"beside that they differ by {np.degrees(spreads):.3f} deg",
    ]
    if len(solution) > 1:
        what = "lever arm and slip together" if len(solution) == 2 else "the lever arm"
        findings.append(
            f"{what}: the output point is {solution[1]:+.3f} m further ahead of the axle than "
            "lever_arm_m says"
        )
    if len(solution) > 2:
        findings.append(
            f"slip: {np.degrees(solution[2]):+.3f} deg per m/s2 of lateral acceleration"
        )
    return CheckResult(name, findings, lacking), mounting


# ---------------------------------------------------------------- another receiver


def _receiver(runs: Sequence[Series], evidence: list[TruthEvidence]) -> CheckResult:
    name = "against RTK fixes"
    errors: list[Array] = []
    bodies: list[Array] = []
    count = 0.0
    lags = []
    for run in runs:
        if len(run.fixes) < FEW:
            continue
        at = run.fixes[:, 0]
        truth = RecordedMotion(
            np.round(run.t_s * 1e9).astype(np.int64), run.x_m, run.y_m, run.yaw_rad, run.speed_mps
        )
        off = run.fixes[:, 1:] - antenna_m(truth, at, run.antenna_m, 0)
        known = np.isfinite(off).all(axis=1)
        off, at = off[known], at[known]
        if len(off) < FEW:
            continue
        yaw = between(at, run.t_s, run.yaw_rad)
        body = np.column_stack(
            [
                np.cos(yaw) * off[:, 0] + np.sin(yaw) * off[:, 1],
                np.cos(yaw) * off[:, 1] - np.sin(yaw) * off[:, 0],
            ]
        )
        speed = between(at, run.t_s, run.speed_mps)
        varied = speed - speed.mean()
        if float(np.sum(varied**2)) > 0.01 * len(speed):
            lags.append(float(np.sum(varied * body[:, 0]) / np.sum(varied**2)))
        errors.append(off)
        bodies.append(body)
        count += sum(independent(off[:, k]) for k in (0, 1))
    if not errors:
        return CheckResult(
            name, [], "no fixes of another receiver with a fixed RTK solution beside the reference"
        )
    off, body = np.concatenate(errors), np.concatenate(bodies)
    sigma = rms(off)
    evidence.append(TruthEvidence(quantity="position", check=name, sigma=sigma, independent=count))
    (east, north), (ahead, left) = off.mean(axis=0), body.mean(axis=0)
    findings = [
        f"{len(off)} fixes differ by {sigma:.4f} m per axis, the error of the receiver included",
        (
            f"mean {east:+.4f} m east, {north:+.4f} m north; {ahead:+.4f} m ahead, {left:+.4f} m "
            "to the left of the vehicle"
        ),
    ]
    if lags:
        findings.append(
            f"the fixes are as if {1e3 * float(np.mean(lags)):+.1f} ms later than stamped"
        )
    return CheckResult(name, findings)
