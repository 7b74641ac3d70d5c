"""Running integrals of signals: a mean over any recent interval costs two look-ups."""

from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array

TICK_NS = 10_000_000
TICK_S = 0.01
BLOCK = 256


class RunningIntegral:
    """Time integral of a sampled signal, linear between two samples, or held with ``hold``.

    Keeps at least ``keep_ns`` of history. Samples out of order are dropped.
    """

    def __init__(self, keep_ns: int, *, hold: bool = False) -> None:
        self._keep_ns = keep_ns
        self._hold = hold
        self._times_ns: list[int] = []
        self._sums: list[float] = []
        self._values: list[float] = []

    @property
    def newest_ns(self) -> int | None:
        """Time of the newest sample."""
        return self._times_ns[-1] if self._times_ns else None

    @property
    def newest(self) -> float:
        """Value of the newest sample; 0 before the first."""
        return self._values[-1] if self._values else 0.0

    def append(self, t_ns: int, value: float) -> None:
        """Add a sample. ``value`` must be finite."""
        times, values = self._times_ns, self._values
        if not times:
            self._sums.append(0.0)
        elif t_ns <= times[-1]:
            return
        else:
            mean = values[-1] if self._hold else 0.5 * (values[-1] + value)
            self._sums.append(self._sums[-1] + mean * (t_ns - times[-1]) * 1e-9)
        times.append(t_ns)
        values.append(value)
        if len(times) > 2 * BLOCK and times[BLOCK] < t_ns - self._keep_ns:
            del times[:BLOCK], values[:BLOCK], self._sums[:BLOCK]

    def until(self, t_ns: int) -> float:
        """Return the integral up to a time. The signal is held outside the history; without samples
        the result is 0."""
        times = self._times_ns
        index = bisect_right(times, t_ns) - 1
        if index < 0:
            return self._values[0] * (t_ns - times[0]) * 1e-9 if times else 0.0
        value = self._values[index]
        dt_ns = t_ns - times[index]
        if dt_ns and not self._hold and index + 1 < len(times):
            value += (
                0.5 * (self._values[index + 1] - value) * dt_ns / (times[index + 1] - times[index])
            )
        return self._sums[index] + value * dt_ns * 1e-9

    def covers(self, start_ns: int) -> bool:
        """Return True if the history reaches back to a time."""
        return bool(self._times_ns) and self._times_ns[0] <= start_ns

    def clear(self) -> None:
        """Clear the history."""
        self._times_ns.clear()
        self._sums.clear()
        self._values.clear()


class SlewedCommands:
    """Commands after dead zone and slew, before delay, gain and offset, for several dead zones at
    once.

    The effective command is slewed at a rate in commands per second on a grid of 10 ms and
    integrated. Delay and slew commute, so one history serves every delay. Memory: ``span_s``
    seconds.
    """

    def __init__(self, dead_zones: Array, span_s: float) -> None:
        """``dead_zones`` is (z,)."""
        self._dead_zones = dead_zones
        self._size = int(span_s / TICK_S) + 2
        self._sums = np.zeros((len(dead_zones), 2 * self._size))
        self._end = 1
        """Number of columns in use; the last one is the integral up to ``_tick``."""
        self._tick = 0
        self._begun = False
        self._command = 0.0
        self._area = 0.0
        self._t_ns = 0
        self._slewed = np.zeros(len(dead_zones))
        self._first_tick = 0

    def command(self, t_ns: int, command: float, rate_per_s: float) -> None:
        """Add a command -1..1 in force from ``t_ns`` on; one older than the newest is dropped."""
        if not self._begun:
            self._restart(t_ns, command)
        elif t_ns >= self._t_ns:
            self.advance(t_ns, rate_per_s)
            self._command = command

    def advance(self, t_ns: int, rate_per_s: float) -> None:
        """Integrate up to ``t_ns`` under the newest command."""
        if not self._begun or t_ns <= self._t_ns:
            return
        last = t_ns // TICK_NS
        if last - self._tick > self._size:
            self._restart(t_ns, self._command)
            return
        step = rate_per_s * TICK_S
        while self._tick < last:
            end_ns = (self._tick + 1) * TICK_NS
            self._area += self._command * (end_ns - self._t_ns)
            self._t_ns = end_ns
            self._close(self._area / TICK_NS, step)
            self._area = 0.0
        self._area += self._command * (t_ns - self._t_ns)
        self._t_ns = t_ns

    def clear(self) -> None:
        """Clear the history."""
        self._begun = False

    @property
    def newest_ns(self) -> int | None:
        """Time up to which commands are integrated; None before the first."""
        return self._t_ns if self._begun else None

    def covers(self, start_ns: int) -> bool:
        """Return True if the history reaches back to a time."""
        return self._begun and start_ns // TICK_NS >= max(
            self._first_tick, self._tick - self._size + 1
        )

    def mean(self, start_ns: int, end_ns: int, delays_ns: NDArray[np.int64]) -> Array:
        """Return the mean over the interval shifted back by each delay, (z, k). The history must
        cover interval and delays."""
        difference: Array = self._until(end_ns - delays_ns) - self._until(start_ns - delays_ns)
        difference /= (end_ns - start_ns) * 1e-9
        return difference

    def _until(self, t_ns: NDArray[np.int64]) -> Array:
        tick = t_ns // TICK_NS
        fraction = (t_ns - tick * TICK_NS) / TICK_NS
        column = tick - self._tick + (self._end - 1)
        before = np.minimum(np.maximum(column, 0), self._end - 1)
        after = np.minimum(before + 1, self._end - 1)
        value: Array = self._sums[:, before]
        value += fraction * (self._sums[:, after] - value)
        return value

    def _close(self, command: float, step: float) -> None:
        effective = abs(command) - self._dead_zones
        np.maximum(effective, 0.0, out=effective)
        effective /= 1.0 - self._dead_zones
        if command < 0.0:
            np.negative(effective, out=effective)
        effective -= self._slewed
        np.minimum(effective, step, out=effective)
        np.maximum(effective, -step, out=effective)
        self._slewed += effective
        if self._end == self._sums.shape[1]:
            # Keep the newer half and restart its integral from zero, so that the sums stay small.
            keep = self._size
            self._sums[:, :keep] = self._sums[:, -keep:] - self._sums[:, -keep : 1 - keep]
            self._end = keep
        self._sums[:, self._end] = self._sums[:, self._end - 1] + self._slewed * TICK_S
        self._end += 1
        self._tick += 1

    def _restart(self, t_ns: int, command: float) -> None:
        """Restart as if ``command`` had always been in force."""
        self._begun = True
        self._command = command
        self._tick = t_ns // TICK_NS
        self._first_tick = self._tick
        self._t_ns = t_ns
        self._area = command * (t_ns - self._tick * TICK_NS)
        magnitude = np.maximum(abs(command) - self._dead_zones, 0.0) / (1.0 - self._dead_zones)
        self._slewed = magnitude if command >= 0.0 else -magnitude
        self._sums[:, 0] = 0.0
        self._end = 1
