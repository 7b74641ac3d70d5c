"""Thins series while reading: a fixed number of time columns for any length of run.

A column keeps its smallest and largest value, so thinning loses no spike.
"""

from typing import Any, NamedTuple

import numpy as np

COLUMNS = 1600
"""Columns of the time axis: more than a screen has pixels, few enough for a page of a few
megabytes."""


class Instants(NamedTuple):
    """Times of samples, and their columns of the axis."""

    t_ns: Any
    columns: Any

    def where(self, mask: Any) -> "Instants":
        """Return the instants of a mask of shape (n,)."""
        return Instants(self.t_ns[mask], self.columns[mask])


class TimeAxis:
    """Time axis of a report, divided into columns."""

    def __init__(self, start_ns: int, stop_ns: int) -> None:
        """Take start and end on the daemon's clock; an empty run gets one microsecond."""
        self.start_ns = start_ns
        self.stop_ns = max(stop_ns, start_ns + 1_000)

    @property
    def duration_s(self) -> float:
        """Duration of the run, s."""
        return (self.stop_ns - self.start_ns) * 1e-9

    @property
    def column_s(self) -> float:
        """Width of a column, s."""
        return self.duration_s / COLUMNS

    def columns(self, t_ns: Any) -> Any:
        """Return the column of each time of an array of shape (n,); -1 outside the run."""
        found = (t_ns - self.start_ns) / ((self.stop_ns - self.start_ns) / COLUMNS)
        index = np.floor(found).astype(np.int64)
        index[t_ns == self.stop_ns] = COLUMNS - 1
        index[(found < 0) | (index >= COLUMNS)] = -1
        return index

    def instants(self, t_ns: Any) -> Instants:
        """Return times of shape (n,) with their columns."""
        return Instants(t_ns, self.columns(t_ns))

    def place(self, t_ns: int) -> float:
        """Return a time in columns, clipped to the axis."""
        share = (t_ns - self.start_ns) / (self.stop_ns - self.start_ns)
        return min(max(share, 0.0), 1.0) * COLUMNS


class Thinned:
    """Smallest and largest value per column; count, mean magnitude and extremes of all values."""

    def __init__(self) -> None:
        self.low = np.full(COLUMNS, np.nan)
        self.high = np.full(COLUMNS, np.nan)
        self.n = 0
        self.not_finite = 0
        self.min = float("inf")
        self.max = float("-inf")
        self._sum = 0.0
        self._sum_of_magnitudes = 0.0

    def add(self, columns: Any, values: Any) -> None:
        """Add values at columns, both of shape (n,). Non-finite values are counted, values outside
        the run ignored."""
        usable = np.isfinite(values)
        self.not_finite += int(len(values) - usable.sum())
        usable &= columns >= 0
        columns, values = columns[usable], values[usable].astype(np.float64)
        if not len(values):
            return
        self.n += len(values)
        self._sum += float(values.sum())
        self._sum_of_magnitudes += float(np.abs(values).sum())
        self.min, self.max = min(self.min, float(values.min())), max(self.max, float(values.max()))
        starts = np.flatnonzero(np.diff(columns, prepend=-2))
        np.fmin.at(self.low, columns[starts], np.minimum.reduceat(values, starts))
        np.fmax.at(self.high, columns[starts], np.maximum.reduceat(values, starts))

    @property
    def mean(self) -> float:
        """Mean of all values; NaN if empty."""
        return self._sum / self.n if self.n else float("nan")

    @property
    def mean_magnitude(self) -> float:
        """Mean magnitude of all values; NaN if empty."""
        return self._sum_of_magnitudes / self.n if self.n else float("nan")

    @property
    def largest_magnitude(self) -> float:
        """Largest magnitude of all values; NaN if empty."""
        return max(abs(self.min), abs(self.max)) if self.n else float("nan")


class States:
    """Worst state in every column, and count of each state. ``order`` lists the states from best to
    worst."""

    def __init__(self, order: tuple[int, ...]) -> None:
        self._order = np.array(order)
        self._rank = np.full(256, -1, np.int64)
        self._rank[list(order)] = range(len(order))
        self._worst = np.full(COLUMNS, -1, np.int64)
        self.counts = np.zeros(256, np.int64)

    def add(self, columns: Any, values: Any) -> None:
        """Add states at columns, both of shape (n,). Unlisted states are counted, but not drawn."""
        self.counts += np.bincount(values, minlength=256)
        rank = self._rank[values]
        usable = (columns >= 0) & (rank >= 0)
        np.maximum.at(self._worst, columns[usable], rank[usable])

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self.counts.sum())

    def bands(self) -> list[tuple[int, int, int]]:
        """Return (first column, column after the last, state). A state fills short gaps without
        samples."""
        known = np.flatnonzero(self._worst >= 0)
        if not len(known):
            return []
        longest_gap = gap_columns(known)
        bands: list[tuple[int, int, int]] = []
        last = -1
        for column in known.tolist():
            state = int(self._order[self._worst[column]])
            near = bool(bands) and column - last <= longest_gap
            if near and bands[-1][2] == state:
                bands[-1] = (bands[-1][0], column + 1, state)
            else:
                if near:
                    bands[-1] = (bands[-1][0], column, bands[-1][2])
                bands.append((column, column + 1, state))
            last = column
        return bands


def gap_columns(known: Any) -> int:
    """Return the gap between samples at which a line breaks, in columns: a few typical
    intervals."""
    return int(max(2, 4 * np.median(np.diff(known)))) if len(known) > 1 else 2
