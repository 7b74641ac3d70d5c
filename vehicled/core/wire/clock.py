"""Device clock: maps the counter in each sample to the host clock, to get its time of validity.

Samples arrive late, never early: arrival = offset + (1 + rate) * device time + latency, with a
variable latency above a floor. Samples at the floor form the lower envelope of the arrivals; the
line is fitted to that envelope, so late samples cannot move it. Rate from an edge of the convex
hull: Zhang, Liu, Xia, "Clock Synchronization Algorithms for Network Measurements", INFOCOM 2002.
Application: Klipper's ``clocksync``.
"""

from itertools import pairwise
from math import floor, inf

_BLOCKS = 32
"""Blocks of the window, each kept as its lowest sample; bounds cost and memory."""
_BLOCK_SAMPLES = 8
"""Least number of samples per block; the window of a slow device is longer, so that it contains the
floor."""
_FIT_BLOCKS = 6
"""Fewest blocks for a new rate; before that the last or nominal rate is used, because a short line
is inaccurate."""
_SETTLED = 8
"""Samples after a start that may be early by any amount, because the first ones may have been
late."""
_STEP_NS = 100_000_000.0
"""Distance from the line beyond which the clock was set or restarted; less is jitter."""
_CONFIRM = 4
"""Consecutive samples that confirm a step; a single one is a damaged counter."""
_LAG_NS = 1e9
_LAG_CONFIRM_NS = 200_000_000
"""Duration of a constant lag beyond the step that confirms a restart of the device."""
_LATE_BLOCKS = 3
"""Consecutive blocks, late by the same amount, after which the clock is taken to have lost time;
otherwise the host stalled."""
_RATE_VARIANCE = 100e-6**2
"""Variance of a crystal's rate about nominal, before any measurement."""
_RATE_WALK = 0.5e-6**2
"""Variance gained by the rate per block, for a crystal that warms up."""
_OVERLAP = 2.0
"""Variance factor of successive fits, because they share samples. Chosen by simulation, 1 to 400
Hz."""
_SURPRISE = 25.0
"""Normalised square error of a fit beyond which the rate estimate is wrong; some devices have no
crystal."""
_GAP_ERROR_NS = 5e6
"""Uncertainty after a gap beyond which older offsets are dropped, ns."""
_RATE_LIMIT = 0.02
"""Largest plausible rate."""
_INT_LIMIT = 1 << 66
_FAR = 1e300


class DeviceClock:
    """Clock of one device. Call ``update`` once per sample, in the order of arrival."""

    def __init__(
        self,
        *,
        tick_ns: float,
        bits: int | None,
        latency_ns: int = 0,
        window_ns: int = 30_000_000_000,
        modulus: int | None = None,
    ) -> None:
        """Set up the clock. Raises ValueError for invalid arguments.

        ``tick_ns`` is the nominal duration of one count; ``bits`` the width of a wrapping counter,
        None if it does not wrap; ``modulus`` that of a counter with another modulus than a power of
        two. The counter's period must be well above the worst lateness. ``latency_ns`` is the least
        time from validity to arrival, subtracted from the envelope; ``window_ns`` is how long a
        sample supports the line.
        """
        if bits is not None:
            if modulus is not None or not 1 <= bits <= 64:
                raise ValueError(
                    f"a counter has 1 to 64 bits or another modulus, not bits={bits} and "
                    f"modulus={modulus}"
                )
            modulus = 1 << bits
        if modulus is not None and modulus < 2:
            raise ValueError(f"a counter of modulus {modulus} cannot count")
        if not 1e-3 <= tick_ns <= 1e12:
            raise ValueError(f"a tick of {tick_ns} ns is invalid")
        if latency_ns < 0 or window_ns <= 0:
            raise ValueError(
                f"latency ({latency_ns} ns) must not be negative and the window ({window_ns} "
                "ns) must be positive"
            )
        self._tick = float(tick_ns)
        self._modulus = modulus
        self._period = _FAR if modulus is None else modulus * self._tick
        self._early = -0.25 * self._period
        self._late = 0.75 * self._period
        self._latency = latency_ns
        self._window = window_ns
        self._block = max(1, window_ns // _BLOCKS)
        self.resets = 0
        """Number of detected clock steps or restarts of the device."""
        self._rate = 0.0
        self._rate_variance = _RATE_VARIANCE
        self._shift = 0.0
        self._samples = 0
        self._doubts = self._late_samples = self._late_from = self._late_blocks = self._agreeing = 0
        self._late_ns = self._late_low = 0.0
        # Device time counts from the newest start: _first is the counter there, _count the counts
        # since.
        self._first = self._raw = self._count = 0
        self._t0 = self._t_rx = self._t = 0
        self._points: list[tuple[float, float]] = []
        self._block_end = self._block_samples = 0
        self._low = self._low_x = self._low_y = 0.0

    @property
    def offset_ns(self) -> int:
        """Host time minus device time (counts since its last start times ``tick_ns``) at the newest
        sample."""
        line = self._shift + self._rate * (self._count * self._tick)
        return self._t0 - self._latency + int(line - self._first * self._tick)

    @property
    def rate_ppm(self) -> float:
        """Rate of the host clock relative to the device's, ppm; positive if the device is slow."""
        return self._rate * 1e6

    def update(self, counter: int, t_rx_ns: int) -> int:
        """Return the time of validity, ns, of the sample with ``counter`` that arrived at
        ``t_rx_ns``. Never raises.

        It is never later than ``t_rx_ns - latency_ns``, and increases as long as the counter does.
        At the start, and while the counter is implausible, it is ``t_rx_ns - latency_ns``.
        """
        latest = t_rx_ns - self._latency
        if not (-_INT_LIMIT < counter < _INT_LIMIT and -_INT_LIMIT < t_rx_ns < _INT_LIMIT):
            return latest
        if not self._samples:
            self._start(counter, t_rx_ns)
            return latest
        modulus = self._modulus
        step = counter - self._raw
        if modulus is not None:
            step %= modulus
        x = (self._count + step) * self._tick
        y = t_rx_ns - self._t0 - x
        line = self._shift + self._rate * x
        residual = y - line
        if not self._early <= residual < self._late:
            # The counter wrapped more than once, or is before the newest one.
            assert modulus is not None
            step += floor((residual - self._early) / self._period) * modulus
            x = (self._count + step) * self._tick
            y = t_rx_ns - self._t0 - x
            line = self._shift + self._rate * x
            residual = y - line
        if residual <= _STEP_NS:
            if residual < 0.0:
                if residual < -_STEP_NS and self._samples >= _SETTLED:
                    return self._doubt(counter, t_rx_ns)
                self._shift += residual
                line += residual
                residual = 0.0
            self._late_samples = 0
        elif step * self._tick < -_STEP_NS:
            return self._doubt(counter, t_rx_ns)
        elif self._lags(residual, t_rx_ns):
            self.resets += 1
            self._start(counter, t_rx_ns)
            return latest
        if residual <= self._low:
            self._low, self._low_x, self._low_y = residual, x, y
        if t_rx_ns - self._t_rx > self._window:
            self._resume(t_rx_ns - self._t_rx)
            self._open_block(t_rx_ns, x, y, residual)
        self._t_rx = t_rx_ns
        self._doubts = 0
        self._samples += 1
        t_ns = self._t0 + int(x + line) - self._latency
        if t_ns > latest:
            t_ns = latest
        if step >= 0:
            if t_ns < self._t:
                t_ns = self._t if self._t < latest else latest
            self._t = t_ns
            self._raw = counter
            self._count += step
        if t_rx_ns >= self._block_end and self._samples >= self._block_samples:
            self._close_block(t_rx_ns)
        return t_ns

    def time_of(self, counter: int) -> int | None:
        """Return the time of a counter near that of the newest sample, without learning from it;
        None before the first sample."""
        if not self._samples:
            return None
        step = counter - self._raw
        if self._modulus is not None:
            step = (step + self._modulus // 2) % self._modulus - self._modulus // 2
        return self._t + round(step * self._tick * (1.0 + self._rate))

    def _start(self, counter: int, t_rx_ns: int) -> None:
        """Start counting at a device's first sample. The rate belongs to the crystal and survives a
        restart."""
        if self._modulus is not None:
            counter %= self._modulus
        self._first = self._raw = counter
        self._count = 0
        self._t0 = self._t_rx = t_rx_ns
        self._t = t_rx_ns - self._latency
        self._shift = 0.0
        self._samples = 1
        self._doubts = self._late_samples = self._late_blocks = self._agreeing = 0
        self._points.clear()
        self._open_block(t_rx_ns, 0.0, 0.0, 0.0)

    def _doubt(self, counter: int, t_rx_ns: int) -> int:
        """Handle a counter that fits neither the line nor a late arrival: damaged, or the clock was
        set."""
        self._doubts += 1
        if self._doubts >= _CONFIRM:
            self.resets += 1
            self._start(counter, t_rx_ns)
        return t_rx_ns - self._latency

    def _lags(self, residual: float, t_rx_ns: int) -> bool:
        """True if samples have been late by the same amount for long enough; after a host stall
        they catch up at once."""
        if not self._late_samples or abs(residual - self._late_ns) > _STEP_NS:
            self._late_samples, self._late_ns, self._late_from = 1, residual, t_rx_ns
            return False
        self._late_samples += 1
        return (
            residual > _LAG_NS
            and self._late_samples >= _CONFIRM
            and t_rx_ns - self._late_from >= _LAG_CONFIRM_NS
        )

    def _resume(self, gap_ns: int) -> None:
        """Keep the offset after a silence for as long as the rate is accurate enough."""
        self._rate_variance += _RATE_WALK * gap_ns / self._block
        if self._rate_variance * gap_ns**2 > _GAP_ERROR_NS**2:
            self._points.clear()

    def _open_block(self, t_rx_ns: int, x: float, y: float, residual: float) -> None:
        """Begin a block with its lowest sample so far."""
        self._block_end = t_rx_ns + self._block
        self._block_samples = self._samples + _BLOCK_SAMPLES
        self._low, self._low_x, self._low_y = residual, x, y

    def _close_block(self, t_rx_ns: int) -> None:
        """Fit the line to the window that ends with this block."""
        points = self._points
        if self._low > _STEP_NS:
            self._late_blocks += 1
            self._agreeing = (
                self._agreeing + 1 if abs(self._low - self._late_low) < 0.5 * _STEP_NS else 1
            )
            self._late_low = self._low
            if self._agreeing < _LATE_BLOCKS and self._late_blocks < _BLOCKS:
                self._open_block(t_rx_ns, 0.0, 0.0, _FAR)
                return
            self.resets += 1
            points.clear()
        self._late_blocks = self._agreeing = 0
        points.append((self._low_x, self._low_y))
        if len(points) > _BLOCKS:
            del points[0]
        if len(points) >= _FIT_BLOCKS:
            self._take_rate(*_hull_slope(points))
        rate = self._rate
        self._shift = min(y - rate * x for x, y in points)
        self._open_block(t_rx_ns, 0.0, 0.0, _FAR)

    def _take_rate(self, slope: float, variance: float) -> None:
        """Update the rate by a Kalman filter, because it belongs to the crystal and outlives the
        window."""
        variance *= _OVERLAP
        surprise = (slope - self._rate) ** 2
        if surprise > _SURPRISE * (self._rate_variance + variance):
            self._rate_variance = surprise
        gain = self._rate_variance / (self._rate_variance + variance)
        rate = self._rate + gain * (slope - self._rate)
        self._rate = min(max(rate, -_RATE_LIMIT), _RATE_LIMIT)
        self._rate_variance = (1.0 - gain) * self._rate_variance + _RATE_WALK


def _hull_slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Return slope and variance of the edge of the lower convex hull that spans the middle of the
    points.

    Of all lines below the points it minimises the sum of distances, which is the maximum likelihood
    for an exponential latency. The variance is infinite if the points (at least three) are
    degenerate: a counter that stands still or goes back.
    """
    hull: list[tuple[float, float]] = []
    for x, y in points:
        while len(hull) >= 2:
            (x1, y1), (x2, y2) = hull[-2], hull[-1]
            if (x2 - x1) * (y - y1) > (y2 - y1) * (x - x1):
                break
            hull.pop()
        hull.append((x, y))
    count = len(points)
    middle = sum(x for x, _ in points) / count
    span = points[-1][0] - points[0][0]
    for (x1, y1), (x2, y2) in pairwise(hull):
        if x1 < x2 and x2 >= middle and span > 0.0:
            slope = (y2 - y1) / (x2 - x1)
            # Median without the points on the line, because some blocks may be late as a whole.
            heights = sorted(y - y1 - slope * (x - x1) for x, y in points)
            return slope, (2.0 * heights[(count + 2) // 2] / span) ** 2
    return 0.0, inf
