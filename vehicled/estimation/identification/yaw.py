"""How far the vehicle has turned between two times: by the gyro while there is one, else by the heading."""

from math import isfinite, remainder, sqrt, tau
from typing import NamedTuple

from vehicled.estimation.identification.params import IdentifierParams
from vehicled.messages import Heading, HeadingKind, ImuSample

MAX_RATE_RADPS = 35.0
MAX_YAW_RAD = 1e3
MAX_HOLE_NS = 250_000_000
"""The turn may not be guessed across a longer hole between two samples."""
GYRO_GONE_NS = 500_000_000
"""After this long without it, headings are used in place of the gyro."""
MAX_BIAS_RADPS = 0.05
BIAS_SAMPLES = 2000
"""Length of the mean of the bias in samples; older ones fade."""
STEP_NS = 100_000_000
"""A turn is given out this often: what is learnt changes slowly."""
GRAIN_NS = 20_000_000
"""Samples that come faster are joined into entries this long."""
NEVER_NS = -(2**62)


class Turn(NamedTuple):
    """Yaw gained over an interval."""

    start_ns: int
    end_ns: int
    yaw_rad: float
    sigma_rad: float


class YawSource:
    """Sums up gyro or heading, and gives out the turn over the last ``window_s``, a tenth of a second after the one before.

    A rate is taken as the mean since the sample before, which is how inertial sensors decimate. The gyro's bias is the mean of its
    rates while the vehicle stands.
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
        """A sample of the gyro."""
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
        """A heading; only its differences are used, and only while the gyro is silent."""
        t_ns, yaw = heading.t_ns, heading.yaw_rad
        if not abs(yaw) <= MAX_YAW_RAD or t_ns <= self._heading_ns or t_ns - self._gyro_ns <= GYRO_GONE_NS:
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
        """The turn up to the newest sample, if a new one is due. Stamps from the future begin anew, lest they lock out the rest."""
        latest_ns = now_ns + MAX_HOLE_NS
        if self._gyro_ns > latest_ns or self._heading_ns > latest_ns:
            self._gyro_ns = self._heading_ns = self._given_ns = NEVER_NS
            self._times_ns.clear()
            self._by_gyro = False
            self._kind = None
        times = self._times_ns
        if not times or times[-1] < self._given_ns + STEP_NS or times[-1] > now_ns:
            return None
        # Entries older than the window were dropped as they aged, so the oldest one is its start.
        length_ns = times[-1] - times[0]
        if length_ns < self._window_ns:
            return None
        self._given_ns = times[-1]
        sigma = self._gyro_sigma_radps * length_ns * 1e-9 if self._by_gyro else sqrt(2.0) * self._sigma_rad
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
