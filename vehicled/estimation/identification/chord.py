"""Wheel scale and heading misalignment against chords of the estimated track.

Over a metre or two position fixes determine the ends of a chord, so its length and direction do not
depend on the speed or heading that the estimator took from the sensors under test. On an arc turned
by ``theta`` the arc length is the chord times ``(theta / 2) / sin(theta / 2)``, and the direction
of the chord is the mean heading of the rear axle (at a constant turn rate).

Plain GNSS positions say little over such a distance, but the receiver's Doppler velocity does: its
integral is a second measure of the distance, of the wheels alone.
"""

from math import atan2, cos, hypot, isfinite, pi, remainder, sin, sqrt, tau

from vehicled.core.messages import GnssFix, Heading, HeadingKind, StateEstimate
from vehicled.core.vehicle import Drive
from vehicled.estimation.identification.integral import RunningIntegral
from vehicled.estimation.identification.params import IdentifierParams
from vehicled.estimation.identification.scalar import Scalar
from vehicled.estimation.measurements import UNKNOWN_SIGMA_MPS, horizontal_covariance

MAX_SPEED_MPS = 100.0
MAX_YAW_RAD = 1e3
MAX_CHORD_NS = 4_000_000_000
MAX_TURN_RAD = 0.6
"""Chords of tighter arcs are not used: their direction depends on the turn rate staying
constant."""
MIN_HEADINGS = 3
SOURCE_GONE_NS = 300_000_000
KEEP_NS = 8_000_000_000
MIN_DOPPLER_MPS = 0.5
"""A measured velocity below this is mostly noise."""
MAX_DOPPLER_GAP_NS = 600_000_000
MIN_DOPPLER_SIGMA_MPS = 0.05


class ChordFilter:
    """Compares wheel distance and headings with the chord between two estimated positions."""

    def __init__(self, params: IdentifierParams, drive: Drive) -> None:
        p = self._params = params
        self._wheel_radius_m = drive.wheel_radius_m * drive.gear_ratio
        self.scale = Scalar(1.0, p.scale_prior, p.scale_density, 1.0 / p.scale_bound, p.scale_bound)
        self.misalignment = Scalar(
            0.0, p.misalignment_prior_rad, p.misalignment_density_rad, -pi, pi
        )
        self._wheel = RunningIntegral(KEEP_NS)
        self._wheel_is_motor = False
        self._kind: HeadingKind | None = None
        self._headings: list[tuple[int, float]] = []
        self._start: StateEstimate | None = None
        self._doppler_start_ns = self._doppler_ns = 0
        self._doppler_mps = self._doppler_m = 0.0
        self._samples = 0
        self._scale_ns: int | None = None
        self._misalignment_ns: int | None = None

    @property
    def samples(self) -> int:
        """Number of comparisons."""
        return self._samples

    # ---------------------------------------------------------------- inputs

    def wheel(self, t_ns: int, speed_mps: float) -> None:
        """Add a wheel speed, which has precedence over the motor's."""
        if abs(speed_mps) <= MAX_SPEED_MPS:
            if self._wheel_is_motor:
                self._wheel.clear()
                self._wheel_is_motor = False
            self._wheel.append(t_ns, speed_mps)

    def motor(self, t_ns: int, speed_radps: float) -> None:
        """Add a motor speed, used while no wheel speed arrives."""
        newest_ns = self._wheel.newest_ns
        silent = newest_ns is None or t_ns - newest_ns > SOURCE_GONE_NS
        if abs(speed_radps) * self._wheel_radius_m <= MAX_SPEED_MPS and (
            self._wheel_is_motor or silent
        ):
            if not self._wheel_is_motor:
                self._wheel.clear()
                self._wheel_is_motor = True
            self._wheel.append(t_ns, speed_radps * self._wheel_radius_m)

    def heading(self, heading: Heading) -> None:
        """Add a measured heading. A change of kind resets the misalignment, which belongs to the
        sensor."""
        if not abs(heading.yaw_rad) <= MAX_YAW_RAD:
            return
        if heading.kind is not self._kind:
            if self._kind is not None:
                p = self._params
                self.misalignment = Scalar(
                    0.0, p.misalignment_prior_rad, p.misalignment_density_rad, -pi, pi
                )
                self._misalignment_ns = None
            self._kind = heading.kind
            self._headings.clear()
        if not self._headings or heading.t_ns > self._headings[-1][0]:
            self._headings.append((heading.t_ns, heading.yaw_rad))
            if len(self._headings) > 512:
                del self._headings[:256]

    def velocity(self, fix: GnssFix) -> None:
        """Add a GNSS velocity, and compare the wheels with its integral once that is a chord long.

        Its error may be the same all along the chord. The speed of the antenna differs from that of
        the axle by less than 1 % but in tight turns, where the speed is low.
        """
        speed = hypot(fix.velocity_enu_mps[0], fix.velocity_enu_mps[1])
        dt_ns = fix.t_ns - self._doppler_ns
        if dt_ns <= 0 and self._doppler_ns - fix.t_ns < MAX_DOPPLER_GAP_NS:
            return
        usable = MIN_DOPPLER_MPS <= speed <= MAX_SPEED_MPS
        if usable and 0 < dt_ns <= MAX_DOPPLER_GAP_NS and self._doppler_mps > 0.0:
            self._doppler_m += 0.5 * (speed + self._doppler_mps) * dt_ns * 1e-9
        else:
            self._doppler_start_ns, self._doppler_m = fix.t_ns, 0.0
        self._doppler_ns, self._doppler_mps = fix.t_ns, speed if usable else 0.0
        if self._doppler_m >= self._params.chord_m:
            C = horizontal_covariance(
                fix.velocity_covariance_m2ps2, MIN_DOPPLER_SIGMA_MPS, UNKNOWN_SIGMA_MPS
            )
            backward = self._start is not None and self._start.speed_mps < 0.0
            distance_m = -self._doppler_m if backward else self._doppler_m
            self._judge_wheel(
                self._doppler_start_ns,
                fix.t_ns,
                distance_m,
                sqrt(0.5 * (C[0, 0] + C[1, 1])) / speed,
            )
            self._doppler_start_ns, self._doppler_m = fix.t_ns, 0.0

    # ---------------------------------------------------------------- step

    def break_off(self) -> None:
        """Discard the current chord, because the track is interrupted."""
        self._start = None

    def step(self, estimate: StateEstimate) -> None:
        """Compare once the position is a chord away from its start."""
        start, p = self._start, self._params
        if (
            start is None
            or abs(estimate.speed_mps) < p.min_speed_mps
            or start.speed_mps * estimate.speed_mps <= 0.0
            or estimate.t_ns - start.t_ns > MAX_CHORD_NS
            or estimate.t_ns <= start.t_ns
            or abs(remainder(estimate.yaw_rad - start.yaw_rad, tau)) > MAX_TURN_RAD
        ):
            self._begin(estimate)
            return
        dx, dy = estimate.x_m - start.x_m, estimate.y_m - start.y_m
        chord_m = hypot(dx, dy)
        if chord_m < p.chord_m:
            return
        half = 0.5 * remainder(estimate.yaw_rad - start.yaw_rad, tau)
        arc_m = chord_m * (half / sin(half) if abs(half) > 1e-6 else 1.0)
        variance = sum(max(0.0, e.covariance[0] + e.covariance[5]) for e in (start, estimate))
        relative = sqrt(variance) / chord_m
        backward = pi if estimate.speed_mps < 0.0 else 0.0
        self._judge_wheel(start.t_ns, estimate.t_ns, arc_m if not backward else -arc_m, relative)
        self._judge_heading(start.t_ns, estimate.t_ns, atan2(dy, dx) + backward, relative)
        self._begin(estimate)

    def _begin(self, estimate: StateEstimate) -> None:
        self._start = estimate
        if self._headings and (
            self._headings[-1][0] < estimate.t_ns - MAX_CHORD_NS
            or self._headings[-1][0] > estimate.t_ns + MAX_CHORD_NS
        ):
            self._headings.clear()

    def _judge_wheel(self, start_ns: int, end_ns: int, arc_m: float, relative: float) -> None:
        newest_ns = self._wheel.newest_ns
        if newest_ns is None or not self._wheel.covers(start_ns):
            return
        if newest_ns > end_ns + MAX_CHORD_NS:
            self._wheel.clear()
            return
        if end_ns - newest_ns > SOURCE_GONE_NS:
            return
        rolled_m = self._wheel.until(end_ns) - self._wheel.until(start_ns)
        if rolled_m * arc_m <= 0.0 or abs(rolled_m) < abs(arc_m) / (2.0 * self._params.scale_bound):
            return
        last_ns = max(end_ns, self._scale_ns or start_ns)
        interval_s = (last_ns - (self._scale_ns or start_ns)) * 1e-9
        self._scale_ns = last_ns
        self._samples += 1
        self.scale.update(arc_m / rolled_m - self.scale.mean, hypot(relative, 0.01), interval_s)

    def _judge_heading(
        self, start_ns: int, end_ns: int, direction_rad: float, relative: float
    ) -> None:
        headings = [yaw for t_ns, yaw in self._headings if start_ns <= t_ns <= end_ns]
        if len(headings) < MIN_HEADINGS:
            return
        mean = atan2(sum(sin(yaw) for yaw in headings), sum(cos(yaw) for yaw in headings))
        error = remainder(mean - direction_rad - self.misalignment.mean, tau)
        interval_s = (end_ns - (self._misalignment_ns or start_ns)) * 1e-9
        self._misalignment_ns = end_ns
        sigma = hypot(relative, self._params.chord_sigma_rad)
        if isfinite(sigma):
            self._samples += 1
            self.misalignment.update(error, sigma, interval_s)
