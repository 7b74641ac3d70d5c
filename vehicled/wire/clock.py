"""When a sample was taken, told in our clock by the counter that the device put into it.

What arrives is late, never early: arrival = offset + (1 + rate) * device time + latency, where the latency varies and has a floor.
The samples that met the floor lie on a line below all others, so the line is fitted to the lower envelope of the arrivals and
not through their middle; a late sample, be it by minutes, cannot move it. The edge of the convex hull as estimator of the rate:
Zhang, Liu, Xia, "Clock Synchronization Algorithms for Network Measurements", INFOCOM 2002. The use: Klipper's ``clocksync``.
"""

from itertools import pairwise
from math import floor, inf

_BLOCKS = 32
"""The window is kept as the lowest sample of each of so many blocks: the fit costs little, and the memory is bounded."""
_BLOCK_SAMPLES = 8
"""A block has at least so many samples: of a slow device the window is longer, or its floor would never be met."""
_FIT_BLOCKS = 6
"""With fewer blocks the rate is taken to be that of before, at first nominal: a short line points anywhere."""
_SETTLED = 8
"""Samples after a start within which an arrival may be earlier than expected by any amount: the first ones may have been late."""
_STEP_NS = 100_000_000.0
"""A clock that differs from the line by more than this has been set or started anew; less is jitter."""
_CONFIRM = 4
"""Samples in a row that say so, before it is believed: one alone is a damaged counter."""
_LAG_NS = 1e9
_LAG_CONFIRM_NS = 200_000_000
"""A lag beyond this, constant for so long, is a device that started anew with a counter that happens to fit."""
_LATE_BLOCKS = 3
"""Blocks in a row, all late by the same amount, before the clock is taken to have lost time: others are a host that stalls."""
_RATE_VARIANCE = 100e-6**2
"""Of the rate of a crystal about nominal, before anything was measured."""
_RATE_WALK = 0.5e-6**2
"""Variance that the rate gains per block: a crystal that warms up."""
_OVERLAP = 2.0
"""Successive fits see nearly the same samples: each counts for less than a new measurement. Chosen by simulation, 1 to 400 Hz."""
_SURPRISE = 25.0
"""A fit that is off by so many variances means that what was believed of the rate is wrong: some devices have no crystal."""
_GAP_ERROR_NS = 5e6
"""Offsets from before a gap that may have become more uncertain than this are dropped: new arrivals tell better."""
_RATE_LIMIT = 0.02
"""Beyond this it is not a rate that was fitted."""
_INT_LIMIT = 1 << 66
_FAR = 1e300


class DeviceClock:
    """Maps the counter of one device to our clock. One ``update`` per sample, in the order of arrival."""

    def __init__(
        self, *, tick_ns: float, bits: int | None, latency_ns: int = 0, window_ns: int = 30_000_000_000, modulus: int | None = None
    ) -> None:
        """``tick_ns``: nominal duration of one count. ``bits``: width of the counter that wraps, None for one that does not.
        ``modulus``: for a counter that wraps at another value than a power of two (``bits`` is None then). The counter's period has
        to be well above the worst lateness. ``latency_ns``: from validity to arrival at the least; what is returned lies so much
        before the envelope. ``window_ns``: how long a sample supports the line. Raises ValueError for what cannot be a clock."""
        if bits is not None:
            if modulus is not None or not 1 <= bits <= 64:
                raise ValueError(f"a counter has 1 to 64 bits or another modulus, not bits={bits} and modulus={modulus}")
            modulus = 1 << bits
        if modulus is not None and modulus < 2:
            raise ValueError(f"a counter of modulus {modulus} counts nothing")
        if not 1e-3 <= tick_ns <= 1e12:
            raise ValueError(f"a tick of {tick_ns} ns is none")
        if latency_ns < 0 or window_ns <= 0:
            raise ValueError(f"latency ({latency_ns} ns) must not be negative and the window ({window_ns} ns) must be positive")
        self._tick = float(tick_ns)
        self._modulus = modulus
        self._period = _FAR if modulus is None else modulus * self._tick
        self._early = -0.25 * self._period
        self._late = 0.75 * self._period
        self._latency = latency_ns
        self._window = window_ns
        self._block = max(1, window_ns // _BLOCKS)
        self.resets = 0
        """How often the device's clock was found to have been set or started anew."""
        self._rate = 0.0
        self._rate_variance = _RATE_VARIANCE
        self._shift = 0.0
        self._samples = 0
        self._doubts = self._late_samples = self._late_from = self._late_blocks = self._agreeing = 0
        self._late_ns = self._late_low = 0.0
        # Device time counts from the newest start: _first is the counter there, _count what has been counted since.
        self._first = self._raw = self._count = 0
        self._t0 = self._t_rx = self._t = 0
        self._points: list[tuple[float, float]] = []
        self._block_end = self._block_samples = 0
        self._low = self._low_x = self._low_y = 0.0

    @property
    def offset_ns(self) -> int:
        """Our clock at validity minus device time (count since its last start times ``tick_ns``), at the newest sample."""
        line = self._shift + self._rate * (self._count * self._tick)
        return self._t0 - self._latency + int(line - self._first * self._tick)

    @property
    def rate_ppm(self) -> float:
        """How much faster our clock runs than the device's, in parts per million: positive when the device is slow."""
        return self._rate * 1e6

    def update(self, counter: int, t_rx_ns: int) -> int:
        """Time of validity, in ns of our clock, of the sample that carries ``counter`` and arrived at ``t_rx_ns``.

        Never later than ``t_rx_ns - latency_ns``, and as long as the counter does not go back neither does the result. Before
        anything is known, and while a counter makes no sense, it is ``t_rx_ns - latency_ns``. Never raises.
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
            # The counter wrapped more than once, or stands before the newest one.
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

    def _start(self, counter: int, t_rx_ns: int) -> None:
        """The first sample of a device's life: all is counted from here. The rate is the crystal's and outlives a restart."""
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
        """A counter that fits neither the line nor a late arrival: damaged, or the device's clock was set."""
        self._doubts += 1
        if self._doubts >= _CONFIRM:
            self.resets += 1
            self._start(counter, t_rx_ns)
        return t_rx_ns - self._latency

    def _lags(self, residual: float, t_rx_ns: int) -> bool:
        """Whether samples have been late by the same amount for long enough: what waited in a stalled host catches up at once."""
        if not self._late_samples or abs(residual - self._late_ns) > _STEP_NS:
            self._late_samples, self._late_ns, self._late_from = 1, residual, t_rx_ns
            return False
        self._late_samples += 1
        return residual > _LAG_NS and self._late_samples >= _CONFIRM and t_rx_ns - self._late_from >= _LAG_CONFIRM_NS

    def _resume(self, gap_ns: int) -> None:
        """After a silence: what was known of the offset goes on to hold as far as the rate is known."""
        self._rate_variance += _RATE_WALK * gap_ns / self._block
        if self._rate_variance * gap_ns**2 > _GAP_ERROR_NS**2:
            self._points.clear()

    def _open_block(self, t_rx_ns: int, x: float, y: float, residual: float) -> None:
        """Begin a block with the lowest sample that is known of it."""
        self._block_end = t_rx_ns + self._block
        self._block_samples = self._samples + _BLOCK_SAMPLES
        self._low, self._low_x, self._low_y = residual, x, y

    def _close_block(self, t_rx_ns: int) -> None:
        """Fit the line to the window that ends with this block."""
        points = self._points
        if self._low > _STEP_NS:
            self._late_blocks += 1
            self._agreeing = self._agreeing + 1 if abs(self._low - self._late_low) < 0.5 * _STEP_NS else 1
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
        """Kalman update of the rate: it belongs to the crystal, so it is remembered for longer than the window."""
        variance *= _OVERLAP
        surprise = (slope - self._rate) ** 2
        if surprise > _SURPRISE * (self._rate_variance + variance):
            self._rate_variance = surprise
        gain = self._rate_variance / (self._rate_variance + variance)
        rate = self._rate + gain * (slope - self._rate)
        self._rate = min(max(rate, -_RATE_LIMIT), _RATE_LIMIT)
        self._rate_variance = (1.0 - gain) * self._rate_variance + _RATE_WALK


def _hull_slope(points: list[tuple[float, float]]) -> tuple[float, float]:
    """Slope, and its variance, of that edge of the points' lower convex hull which spans their middle.

    Of all lines below the points it is the one with the smallest sum of distances, which is the likeliest one where the latency
    above its floor is distributed exponentially. The variance is infinite where the points, three at least,
    do not tell: a counter that stands still, or goes back.
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
            # Median of those that do not lie on the line because it was laid through them; some blocks may be late as a whole.
            heights = sorted(y - y1 - slope * (x - x1) for x, y in points)
            return slope, (2.0 * heights[(count + 2) // 2] / span) ** 2
    return 0.0, inf
