"""Measured turn of the vehicle between two times, from the gyro, else from the heading."""

from math import isfinite, remainder, sqrt, tau
from typing import NamedTuple

from vehicled.core.messages import Heading, HeadingKind, ImuSample
from vehicled.estimation.identification.params import IdentifierParams

MAX_RATE_RADPS = 35.0
MAX_YAW_RAD = 1e3
MAX_HOLE_NS = 250_000_000
"""Longest gap between two samples that is bridged."""
GYRO_GONE_NS = 500_000_000
"""Headings replace the gyro after this time without samples."""
MAX_BIAS_RADPS = 0.05
BIAS_SAMPLES = 2000
"""Length of the bias mean in samples; older ones fade."""
STEP_NS = 100_000_000
"""Interval between two turns; the learnt parameters change slowly."""
GRAIN_NS = 20_000_000
"""Shortest interval between history entries; faster samples are merged."""
NEVER_NS = -(2**62)


class Turn(NamedTuple):
    """Change of yaw over an interval."""

    start_ns: int
    end_ns: int
    yaw_rad: float
    sigma_rad: float


class YawSource:
    """Integrates gyro or heading, and returns the turn over the last ``window_s`` every 0.1 s.

    A rate counts as the mean since the previous sample, as inertial sensors decimate. The gyro bias
    is the mean of its rates at standstill.
    """

    def __init__(self, params: IdentifierParams) -> None:
        self._window_ns = int(params.window_s * 1e9)
        self._gyro_sigma_radps = params.gyro_sigma_radps
        self._heading_sigma_rad = params.heading_sigma_rad
        self._gyro_ns = NEVER_NS
        self._heading_ns = NEVER_NS
        self._heading_rad = 0.0
        self._kind: HeadingKind | None = None
        self._by_gyro = False
        self._sigma_rad = 0.0
        self._times_ns: list[int] = []
        self._yaws_rad: list[float] = []
        self._sum_rad = 0.0
        self._given_ns = NEVER_NS
        self._biases = 0
        self.bias_radps = 0.0
        self.standing = False

    def gyro(self, sample: ImuSample) -> None:
        t_ns, rate = sample.t_ns, sample.angular_rate_radps[2]
        if sample.saturated or not abs(rate) <= MAX_RATE_RADPS or t_ns <= self._gyro_ns:
            return
        hole_ns = t_ns - self._gyro_ns
        self._gyro_ns = t_ns
        if self.standing and abs(rate) <= MAX_BIAS_RADPS:
            self._biases = min(self._biases + 1, BIAS_SAMPLES)
            self.bias_radps += (rate - self.bias_radps) / self._biases
        if not self._by_gyro or hole_ns > MAX_HOLE_NS:
            self._restart(t_ns, by_gyro=True)
            return
        self._sum_rad += (rate - self.bias_radps) * hole_ns * 1e-9
        if t_ns - self._times_ns[-1] >= GRAIN_NS:
            self._add(t_ns)

    def heading(self, heading: Heading) -> None:
        """Add a heading; only differences are used, and only without gyro samples."""
        t_ns, yaw = heading.t_ns, heading.yaw_rad
        if (
            not abs(yaw) <= MAX_YAW_RAD
            or t_ns <= self._heading_ns
            or t_ns - self._gyro_ns <= GYRO_GONE_NS
        ):
            return
        sigma = heading.sigma_rad
        self._sigma_rad = sigma if isfinite(sigma) and sigma > 0.0 else self._heading_sigma_rad
        if self._by_gyro or heading.kind is not self._kind or t_ns - self._heading_ns > MAX_HOLE_NS:
            self._restart(t_ns, by_gyro=False)
        else:
            self._sum_rad += remainder(yaw - self._heading_rad, tau)
            self._add(t_ns)
        self._heading_ns, self._heading_rad, self._kind = t_ns, yaw, heading.kind

    def take(self, now_ns: int) -> Turn | None:
        """Return the turn up to the newest sample if one is due. A stamp from the future clears the
        history."""
        latest_ns = now_ns + MAX_HOLE_NS
        if self._gyro_ns > latest_ns or self._heading_ns > latest_ns:
            self._gyro_ns = self._heading_ns = self._given_ns = NEVER_NS
            self._times_ns.clear()
            self._by_gyro = False
            self._kind = None
        times = self._times_ns
        if not times or times[-1] < self._given_ns + STEP_NS or times[-1] > now_ns:
            return None
        # Older entries were dropped, so the oldest one is the start of the window.
        length_ns = times[-1] - times[0]
        if length_ns < self._window_ns:
            return None
        self._given_ns = times[-1]
        sigma = (
            self._gyro_sigma_radps * length_ns * 1e-9
            if self._by_gyro
            else sqrt(2.0) * self._sigma_rad
        )
        return Turn(times[0], times[-1], self._yaws_rad[-1] - self._yaws_rad[0], sigma)

    def _add(self, t_ns: int) -> None:
        times, yaws = self._times_ns, self._yaws_rad
        times.append(t_ns)
        yaws.append(self._sum_rad)
        keep = 0
        while times[keep + 1] <= t_ns - self._window_ns:
            keep += 1
        if keep:
            del times[:keep], yaws[:keep]

    def _restart(self, t_ns: int, *, by_gyro: bool) -> None:
        self._by_gyro = by_gyro
        self._sum_rad = 0.0
        self._times_ns[:] = [t_ns]
        self._yaws_rad[:] = [0.0]
