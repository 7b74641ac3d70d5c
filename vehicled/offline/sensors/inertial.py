"""Noise of an inertial unit, from the longest time in which the vehicle stands."""

from collections.abc import Sequence
from math import sqrt

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import seconds
from vehicled.offline.sensors.allan import Allan, Terms, allan, fit_with_doubt
from vehicled.offline.sensors.reading import SensorRecording, shortened

LEAST_S = 20.0
LEAST_HZ = 4.0
WINDOW_S = 1.0
QUIET = 3.0
"""A window is quiet if it varies at most so many times as the quietest fifth."""
STILL_MPS = 0.03
STILL_RADPS = 0.02
"""Largest change of the mean rate from window to window."""
AXES = ("x", "y", "z")


class AxisFit(Struct, frozen=True, kw_only=True):
    """Noise of one axis. Units: rad and s for the gyro, m and s for the accelerometer."""

    name: str
    allan: Allan
    terms: Terms
    low: Terms
    high: Terms
    mean: float
    step: float
    """Quantisation; 0 if none shows."""


class InertialFit(Struct, frozen=True, kw_only=True):
    """Noise of a unit."""

    rate_hz: float
    gyro: list[AxisFit]
    accelerometer: list[AxisFit]
    stretches: list[tuple[str, float, float]]
    """Run, begin and end in s of the time that was used."""
    missing: float
    """Part of the samples that were missing there and were interpolated."""
    assumed: bool
    """True if only the quietness of the unit says that the vehicle stood."""

    def root_mean_square(self, sensor: str, term: str) -> float:
        """Return the size of a term over the axes of ``gyro`` or ``accelerometer``."""
        axes: list[AxisFit] = getattr(self, sensor)
        return (
            sqrt(sum(getattr(axis.terms, term) ** 2 for axis in axes) / len(axes)) if axes else 0.0
        )


def fit(drives: Sequence[SensorRecording]) -> InertialFit:
    """Fit the noise of the unit to the longest stretch of standing. Raises RecordingError."""
    best: tuple[float, SensorRecording, float, float] | None = None
    refused = []
    for drive in drives:
        try:
            begin_s, end_s = _still(drive)
        except RecordingError as error:
            refused.append(str(error))
            continue
        if best is None or end_s - begin_s > best[0]:
            best = end_s - begin_s, drive, begin_s, end_s
    if best is None:
        raise RecordingError("no run shows the noise of an inertial unit: " + shortened(refused))
    _, drive, begin_s, end_s = best
    t_s, values = _columns(drive)
    inside = (t_s >= begin_s) & (t_s <= end_s)
    t_s, values = t_s[inside], values[inside]
    rate_hz = _rate_hz(t_s)
    even_s = t_s[0] + np.arange(int((t_s[-1] - t_s[0]) * rate_hz) + 1) / rate_hz
    missing = max(0.0, 1.0 - len(t_s) / len(even_s))
    axes = []
    for k in range(6):
        known = np.isfinite(values[:, k])
        if known.sum() < 0.5 * len(values):
            continue
        even = np.interp(even_s, t_s[known], values[known, k])
        if np.ptp(even) == 0.0:
            continue
        found = allan(even, rate_hz)
        terms, low, high = fit_with_doubt(found, len(even), rate_hz)
        name = ("gyro ", "accelerometer ")[k // 3] + AXES[k % 3]
        axes.append(
            AxisFit(
                name=name,
                allan=found,
                terms=terms,
                low=low,
                high=high,
                mean=float(even.mean()),
                step=_step(values[known, k]),
            )
        )
    if not axes:
        raise RecordingError(
            f"{drive.name}: the samples of the inertial unit never change while it stands, so "
            "its noise is unknown"
        )
    return InertialFit(
        rate_hz=rate_hz,
        gyro=[axis for axis in axes if axis.name.startswith("gyro")],
        accelerometer=[axis for axis in axes if axis.name.startswith("accelerometer")],
        stretches=[(drive.name, begin_s, end_s)],
        missing=missing,
        assumed=not drive.speeds and drive.truth is None,
    )


def gravity_error_mps2(found: InertialFit) -> float:
    """Return by how much the mean specific force differs from gravity: the bias along the vertical,
    all that a stand shows."""
    force = sqrt(sum(axis.mean**2 for axis in found.accelerometer))
    return abs(force - STANDARD_GRAVITY_MPS2) if len(found.accelerometer) == 3 else 0.0


def _columns(drive: SensorRecording) -> tuple[Array, Array]:
    t_s = seconds(drive.sample_ns - drive.sample_ns[0])
    keep = np.concatenate([[True], np.diff(np.maximum.accumulate(t_s)) > 0.0])
    return t_s[keep], drive.samples[keep]


def _rate_hz(t_s: Array) -> float:
    span = min(64, len(t_s) - 1)
    return span / float(np.median(t_s[span:] - t_s[:-span]))


def _still(drive: SensorRecording) -> tuple[float, float]:
    """Return begin and end of the longest stretch without motion or a gap."""
    if len(drive.samples) < 100:
        raise RecordingError(f"{drive.name}: has {len(drive.samples)} samples of an inertial unit")
    t_s, values = _columns(drive)
    if len(t_s) > 1 and not _rate_hz(t_s) > LEAST_HZ:
        raise RecordingError(
            f"{drive.name}: has {_rate_hz(t_s):.2g} samples of an inertial unit per second, "
            "too few to see it stand"
        )
    count = int(t_s[-1] / WINDOW_S)
    window = np.minimum((t_s / WINDOW_S).astype(int), max(count - 1, 0))
    least = 0.5 * len(t_s) / max(count, 1)
    spread, mean = np.full((count, 2), np.inf), np.full((count, 3), np.nan)
    for k in range(count):
        rows = values[window == k]
        if len(rows) < least:
            continue
        rate, force = (
            rows[:, part][:, np.isfinite(rows[:, part]).all(axis=0)]
            for part in (slice(0, 3), slice(3, 6))
        )
        spread[k] = [float(np.sqrt(part.var(axis=0).sum())) for part in (rate, force)]
        mean[k] = np.nan_to_num(rows[:, :3]).mean(axis=0)
    full = np.isfinite(spread).all(axis=1)
    if full.sum() < LEAST_S / WINDOW_S:
        raise RecordingError(
            f"{drive.name}: has samples for {full.sum() * WINDOW_S:.0f} s; at least "
            f"{LEAST_S:.0f} s are needed"
        )
    quiet = (spread <= QUIET * np.quantile(spread[full], 0.2, axis=0) + 1e-9).all(axis=1)
    centre = np.median(mean[full & quiet], axis=0) if (full & quiet).any() else np.zeros(3)
    still = quiet & (np.abs(mean - centre).max(axis=1) < STILL_RADPS) & _slow(drive, count)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], still.astype(int), [0]])))
    lengths = edges[1::2] - edges[0::2]
    longest = int(lengths.max()) if len(lengths) else 0
    if longest * WINDOW_S < LEAST_S:
        raise RecordingError(
            f"{drive.name}: stands for {longest * WINDOW_S:.0f} s at most; record the standing "
            "vehicle for a minute or more"
        )
    begin = float(edges[0::2][int(np.argmax(lengths))]) * WINDOW_S
    return begin, begin + longest * WINDOW_S


def _slow(drive: SensorRecording, count: int) -> Array:
    """Return in which windows nothing says that the vehicle moves."""
    start_ns = int(drive.sample_ns[0])
    slow = np.ones(count, bool)
    speeds = list(drive.speeds)
    if drive.truth is not None:
        speeds += list(
            zip(drive.truth.t_ns.tolist(), np.nan_to_num(drive.truth.speed_mps).tolist())
        )
    for t_ns, speed in speeds:
        k = int((t_ns - start_ns) * 1e-9 / WINDOW_S)
        if abs(speed) > STILL_MPS and 0 <= k < count:
            slow[k] = False
    return slow


def _step(values: Array) -> float:
    """Return the quantisation step; 0 if the values are not on a grid."""
    distinct = np.unique(values)
    apart = np.diff(distinct)
    apart = apart[apart > 1e-12]
    if len(apart) < 3 or len(distinct) > 0.2 * len(values):
        return 0.0
    step = float(np.median(apart[apart < 1.5 * apart.min()]))
    counts = apart / step
    return step if float(np.abs(counts - np.round(counts)).max()) < 0.1 else 0.0
