"""Quantities of one run: error and smoothness of the judge's speed as published, and further errors
of the judge.

The two published quantities follow the validation by the error of a state estimator (VEPD, 2024):
speeds at 15 Hz, a moving average of two samples over the estimate, E the root mean square error, S
the difference of the spectral flatness.
"""

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.core.arrays import Array, rms, wrapped
from vehicled.offline.gap.errors import GapError
from vehicled.offline.recordings.recording import RecordedMotion, Times, covered, seconds

RATE_HZ = 15.0
"""Rate at which both speeds are sampled, as published."""
WINDOW = 2
"""Samples of the moving average over the estimate, as published."""
MAX_GAP_S = 1.0
"""Truth and estimate are interpolated over a shorter gap; a longer one ends the stretch that is
judged."""
SHORTEST_S = 2.0
"""A shorter stretch has fewer than 30 samples, too few for a spectrum."""
SMALLEST = 1e-12
"""Magnitude of a spectral line below which it is rounding error."""

PUBLISHED = ("E", "S")
UNITS = {"E": "m/s", "S": "", "position": "m", "heading": "rad", "nis": ""}
MEANINGS = {
    "E": "RMS error of the judge's speed",
    "S": "difference of the spectral flatness of the judge's and the true speed",
    "position": "RMS error of the judge's position",
    "heading": "RMS error of the judge's heading",
    "nis": (
        "mean normalised innovation squared of positions over its degrees of freedom (1: the "
        "judge's noise fits)"
    ),
}
"""All quantities by name."""


class JudgeTrack(Struct, frozen=True):
    """Output of a judge for one run: arrays of shape (n,), NaN where it knows nothing."""

    t_ns: Times
    x_m: Array
    y_m: Array
    yaw_rad: Array
    speed_mps: Array
    nis: Array
    """Normalised innovation squared of the newest position, two degrees of freedom; NaN where the
    judge has none."""


class Speeds(Struct, frozen=True):
    """The two speeds that were compared: arrays of shape (n,), at 15 Hz."""

    t_s: Array
    """Time since the first judged sample."""
    true_mps: Array
    judged_mps: Array


class MeasuredRun(Struct, frozen=True):
    """The quantities of one run, and what part of it they were computed from."""

    values: dict[str, float]
    """Values by name, see :data:`MEANINGS`; NaN where the run says nothing of it."""
    duration_s: float
    """Length of the stretch that was judged."""
    share: float
    """Part of the run's time that the stretch covers."""
    speeds: Speeds | None = None


def measure(
    truth: RecordedMotion, track: JudgeTrack, span_ns: tuple[int, int] | None = None
) -> MeasuredRun:
    """Return the quantities of a run over the longest stretch without gaps in truth or estimate.

    ``span_ns`` limits it to the time in which the vehicle drove. Raises :class:`GapError` if there
    is no such stretch.
    """
    t_ns, x, y, yaw, speed = truth.t_ns, truth.x_m, truth.y_m, truth.yaw_rad, truth.speed_mps
    known = np.isfinite(speed)
    estimated = np.isfinite(track.speed_mps)
    if span_ns is not None:
        known &= (t_ns >= span_ns[0]) & (t_ns <= span_ns[1])
    if not known.any():
        raise GapError(
            "has no true speed: the run needs ground truth (a simulator, motion capture or RTK "
            "fixes)"
        )
    if not estimated.any():
        raise GapError("the judge gave no speed: its inputs are missing, or it never started")
    origin_ns = int(t_ns[0])
    at, estimated_at = seconds(t_ns[known] - origin_ns), seconds(track.t_ns[estimated] - origin_ns)
    start, end = _longest(at, estimated_at)
    if end - start < SHORTEST_S:
        raise GapError(
            f"truth and estimate overlap for {max(end - start, 0.0):.1f} s without a gap of "
            f"{MAX_GAP_S:g} s: at least {SHORTEST_S:g} s are needed"
        )
    grid = np.arange(start, end, 1.0 / RATE_HZ)
    true_speed = np.interp(grid, at, speed[known])
    smooth_at, smooth = _moving_average(estimated_at), _moving_average(track.speed_mps[estimated])
    estimated_speed = np.interp(grid, smooth_at, smooth)
    values = {
        "E": rms(estimated_speed - true_speed),
        "S": abs(flatness(estimated_speed) - flatness(true_speed)),
        "position": _position_error(grid, at, estimated_at, x[known], y[known], track, estimated),
        "heading": _heading_error(grid, at, estimated_at, yaw[known], track.yaw_rad[estimated]),
        "nis": _mean_nis(track, origin_ns, start, end),
    }
    whole = max(float(at[-1] - at[0]), end - start)
    return MeasuredRun(
        values,
        end - start,
        (end - start) / whole,
        Speeds(grid - start, true_speed, estimated_speed),
    )


def flatness(signal: Array) -> float:
    """Return the spectral flatness: geometric over arithmetic mean of the magnitudes of the whole
    FFT; 0 for a constant signal."""
    magnitudes = np.abs(np.fft.fft(signal))
    mean = float(magnitudes.mean())
    # The logarithm of rounding error would decide the figure of a signal with empty lines.
    if mean <= SMALLEST or float(magnitudes.min()) <= SMALLEST * mean:
        return 0.0
    return float(np.exp(np.log(magnitudes).mean()) / mean)


def _longest(truth_s: Array, estimate_s: Array) -> tuple[float, float]:
    """Return start and end of the longest time within which neither series has a gap."""
    best = (0.0, -1.0)
    for a, b in _stretches(truth_s):
        for c, d in _stretches(estimate_s):
            start, end = max(a, c), min(b, d)
            if end - start > best[1] - best[0]:
                best = (start, end)
    return best


def _stretches(t_s: Array) -> list[tuple[float, float]]:
    breaks = np.flatnonzero(np.diff(t_s) > MAX_GAP_S)
    starts, ends = np.concatenate([[0], breaks + 1]), np.concatenate([breaks, [len(t_s) - 1]])
    return [(float(t_s[a]), float(t_s[b])) for a, b in zip(starts, ends)]


def _moving_average(values: Array) -> Array:
    kernel = np.full(WINDOW, 1.0 / WINDOW)
    return np.convolve(values, kernel, "valid") if len(values) >= WINDOW else values


def _position_error(
    grid: Array,
    at: Array,
    estimated_at: Array,
    x: Array,
    y: Array,
    track: JudgeTrack,
    estimated: NDArray[np.bool_],
) -> float:
    off = [
        np.interp(grid, estimated_at, column[estimated]) - np.interp(grid, at, true)
        for column, true in ((track.x_m, x), (track.y_m, y))
    ]
    return rms(np.hypot(*off))


def _heading_error(
    grid: Array, at: Array, estimated_at: Array, yaw: Array, estimated_yaw: Array
) -> float:
    known, judged = np.isfinite(yaw), np.isfinite(estimated_yaw)
    if known.sum() < 2 or judged.sum() < 2:
        return float("nan")
    # A course over ground is unknown at standstill, so both are compared where both are near in
    # time.
    near = covered(grid, at[known], MAX_GAP_S) & covered(grid, estimated_at[judged], MAX_GAP_S)
    true = np.interp(grid, at[known], np.unwrap(yaw[known]))
    found = np.interp(grid, estimated_at[judged], np.unwrap(estimated_yaw[judged]))
    return rms(wrapped(found - true)[near])


def _mean_nis(track: JudgeTrack, origin_ns: int, start_s: float, end_s: float) -> float:
    at = seconds(track.t_ns - origin_ns)
    # The value is held between positions: count each once.
    fresh = (
        np.concatenate([[True], np.diff(track.nis) != 0.0])
        & np.isfinite(track.nis)
        & (at >= start_s)
        & (at <= end_s)
    )
    return float(track.nis[fresh].mean() / 2.0) if fresh.any() else float("nan")
