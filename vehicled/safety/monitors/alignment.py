"""Monitor of an alignment drive: its progress, its success, and the reason of its failure."""

from math import atan2, degrees, hypot, isfinite, pi, remainder, tau

from vehicled.core.messages import EstimatorStatus, FixType, GnssFix, StateEstimate
from vehicled.core.vehicle import AlignmentParams
from vehicled.paths.datum import Datum
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.sources import SourceMonitor
from vehicled.safety.monitors.speed import SpeedMonitor
from vehicled.safety.monitors.yaw import YawMonitor

MIN_SHARE = 0.4
"""Fraction of the longest drive that is always driven: sigma assumes white noise, and GNSS noise is
correlated."""
MAX_TURN_RAD = 0.5
MAX_DISAGREEMENT_RAD = 0.5
"""Largest angle between the estimated heading and the line from the first fix to the newest,
rad."""
REVERSED_MPS = 0.1
"""Speed against the drive above which the vehicle counts as reversed, m/s; the gate brakes at
little more than this."""
REVERSED_NS = 200_000_000
LONGEST_STEP_NS = 100_000_000


def usable(estimate: StateEstimate | None) -> bool:
    """Return True if the estimate has a heading."""
    return estimate is not None and estimate.status is EstimatorStatus.RUNNING


def heading_sigma_rad(estimate: StateEstimate) -> float:
    """Return the standard deviation of the heading, rad; NaN before the estimator has started."""
    variance = estimate.covariance[10]
    return variance**0.5 if variance >= 0.0 else float("nan")


class AlignmentMonitor:
    """Monitor of the antenna position at all times, and of one alignment drive at a time."""

    def __init__(
        self,
        params: AlignmentParams,
        datum: Datum | None,
        antenna_m: tuple[float, float],
        sources: SourceMonitor,
        yaw: YawMonitor,
        speed: SpeedMonitor,
    ) -> None:
        """``datum``: origin of the map frame, None without a course; ``antenna_m``: lever arm of
        the GNSS antenna from the rear axle."""
        self.params = params
        self._datum = datum
        self._sources, self._yaw, self._speed = sources, yaw, speed
        self._lever_m = hypot(*antenna_m)
        self.antenna_m: tuple[float, float] | None = None
        """Newest position of the GNSS antenna in the map frame, m; None before the first fix."""
        self.active = False
        """True if the newest drive is an alignment drive."""
        self.without_heading = False
        """True if the newest drive began without a heading and the estimator has found none
        since."""
        self.known = ""
        """Text of the result if the alignment succeeded; empty before."""
        self.failed = ""
        """Reason why the alignment has failed; empty if it has not."""
        self.turned_rad = 0.0
        """Yaw change since the drive began, by the gyro, rad, positive to the left."""
        self._turned_before_rad = 0.0
        self._began_ns = self._seen_ns = 0
        self._from_m: tuple[float, float] | None = None
        self._driven_m = 0.0
        self._reversed_ns = 0

    def reset(self) -> None:
        """Forget the last alignment: the vehicle was armed, or a drive begins that uses the
        estimate."""
        self.active = self.without_heading = False
        self.known = self.failed = ""

    def begin(self, s: SafetyInputs) -> None:
        """Begin an alignment drive."""
        self.reset()
        self.active = True
        self.without_heading = not usable(s.estimate)
        self._began_ns = self._seen_ns = s.now_ns
        self._from_m = self.antenna_m
        self._driven_m, self._reversed_ns = 0.0, 0
        self._turned_before_rad, self.turned_rad = self._yaw.turned_rad, 0.0

    def begin_by_hand(self, s: SafetyInputs) -> None:
        """Begin a teleop drive, with or without a heading."""
        self.reset()
        self.without_heading = not usable(s.estimate)

    def reach_m(self, body_m: float) -> float:
        """Return the distance from the antenna within which the vehicle lies at any heading.

        ``body_m``: distance of the farthest corner from the rear axle.
        """
        return body_m + self._lever_m

    def on_message(self, fix: GnssFix, now_ns: int) -> None:
        """Note the antenna position of a fix."""
        if (
            self._datum is None
            or fix.fix_type < FixType.FIX_2D
            or not abs(fix.latitude_rad) <= 0.5 * pi
        ):
            return
        height_m = fix.height_m if isfinite(fix.height_m) else self._datum.height_m
        east_m, north_m, _ = self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, height_m)
        self.antenna_m = east_m, north_m
        if self.active and self._from_m is None:
            self._from_m = self.antenna_m

    def update(self, s: SafetyInputs) -> None:
        """Update progress, success and failure of the alignment drive."""
        if usable(s.estimate):
            self.without_heading = False
        if not self.active or self.known or self.failed:
            return
        dt_ns = min(s.now_ns - self._seen_ns, LONGEST_STEP_NS)
        self._seen_ns = s.now_ns
        if isfinite(s.speed_mps):
            self._driven_m += abs(s.speed_mps) * dt_ns * 1e-9
        self.turned_rad = self._yaw.turned_rad - self._turned_before_rad
        wheel_mps = self._speed.fresh_wheel_mps(s.now_ns)
        backward = wheel_mps < -REVERSED_MPS or (usable(s.estimate) and s.speed_mps < -REVERSED_MPS)
        # The count decays and is not reset: the gate brakes, and the drive tries again.
        self._reversed_ns = (
            self._reversed_ns + dt_ns if backward else max(self._reversed_ns - dt_ns // 8, 0)
        )
        self.failed = self._failure(s, wheel_mps)
        if not self.failed:
            self.known = self._success(s)

    @property
    def moved_m(self) -> float:
        """Distance between the first fix of the drive and the newest, m."""
        if self._from_m is None or self.antenna_m is None:
            return 0.0
        return hypot(self.antenna_m[0] - self._from_m[0], self.antenna_m[1] - self._from_m[1])

    @property
    def _line_rad(self) -> float:
        """Direction of the line from the first fix of the drive to the newest, rad; 0 without
        fixes."""
        if self._from_m is None or self.antenna_m is None:
            return 0.0
        return atan2(self.antenna_m[1] - self._from_m[1], self.antenna_m[0] - self._from_m[0])

    def _success(self, s: SafetyInputs) -> str:
        estimate = s.estimate
        if (
            estimate is None
            or not usable(estimate)
            or self.moved_m < MIN_SHARE * self.params.distance_m
        ):
            return ""
        sigma_rad = heading_sigma_rad(estimate)
        if not sigma_rad <= self.params.heading_sigma_rad:
            return ""
        return f"the heading is known to {degrees(sigma_rad):.1f} degrees: arm and drive"

    def _failure(self, s: SafetyInputs, wheel_mps: float) -> str:
        params, estimate = self.params, s.estimate
        if self._sources.age_ns(GnssFix, s.now_ns) > s.limits.gnss_silence_s * 1e9:
            return (
                f"no GNSS fix for {s.limits.gnss_silence_s:.1f} s: check antenna, cable and "
                "sky, then align again"
            )
        if self._reversed_ns >= REVERSED_NS:
            if wheel_mps < -REVERSED_MPS:
                return (
                    f"the wheels report {wheel_mps:.2f} m/s while the command is forward: the "
                    "motor turns the wrong way, or its telemetry has the wrong sign"
                )
            return (
                f"the estimate says {s.speed_mps:.2f} m/s while the command is forward: the "
                "heading it had is reversed; restart the daemon and align again"
            )
        if abs(self.turned_rad) > MAX_TURN_RAD:
            side = "left" if self.turned_rad > 0.0 else "right"
            return (
                f"it turns to the {side} by {abs(degrees(self.turned_rad)):.0f} degrees although "
                "it is steered straight: check the sign and the trim of the steering, and the "
                "gyro"
            )
        if (
            estimate is not None
            and usable(estimate)
            and self.moved_m >= MIN_SHARE * params.distance_m
        ):
            apart_rad = remainder(estimate.yaw_rad - self._line_rad, tau)
            if abs(apart_rad) > MAX_DISAGREEMENT_RAD:
                return (
                    f"the estimated heading is {degrees(apart_rad):+.0f} degrees off the line "
                    "that was driven: restart the daemon and align again"
                )
        over_s = (s.now_ns - self._began_ns) * 1e-9 > params.time_s
        if not over_s and max(self._driven_m, self.moved_m) < params.distance_m:
            return ""
        limit = f"{params.time_s:.0f} s" if over_s else f"{params.distance_m:.1f} m"
        return f"{limit} are used up and {self._missing(s)}"

    def _missing(self, s: SafetyInputs) -> str:
        """Return why an alignment ran out of time or distance."""
        if self._driven_m > 1.0 and self.moved_m < 0.5 * self._driven_m:
            return (
                f"the vehicle moved {self.moved_m:.1f} m by GNSS where its measured speed makes "
                f"{self._driven_m:.1f} m: the wheels slip, or GNSS is wrong"
            )
        if self.moved_m < 0.5:
            return f"the vehicle moved {self.moved_m:.1f} m: check the drive and what holds it"
        estimate = s.estimate
        if estimate is None or not usable(estimate):
            return (
                "the estimator has found no heading: it needs GNSS velocity, or a faster drive "
                "([alignment] speed_mps)"
            )
        sigma, limit = degrees(heading_sigma_rad(estimate)), degrees(self.params.heading_sigma_rad)
        return (
            f"the heading is known to {sigma:.1f} degrees only (limit {limit:.1f}): wait for a "
            "better fix, or drive farther"
        )
