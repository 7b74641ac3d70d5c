"""Monitor that compares the estimate with the raw fixes: its place and its speed.

A filter judges fixes by itself, and a rule counts those that it refuses. That shows no fault of the
filter or behind it. Here every fix is compared with the estimate that was published for its time of
validity, before the fix could enter it, so neither latency nor acceleration matters. Allowed for is
what both declare of their errors, and what no other rule would mind.
"""

from collections import deque
from math import cos, hypot, inf, isfinite, sin, sqrt

from vehicled.core.messages import CarrierSolution, EstimatorStatus, FixType, GnssFix, StateEstimate
from vehicled.core.vehicle import Limits
from vehicled.paths.datum import Datum
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import MOVING
from vehicled.safety.monitors.motion import MISMATCH_MPS, MISMATCH_RATIO, MISMATCH_TOP_RATIO
from vehicled.safety.monitors.speed import GROUND_SIGMA_MPS

KEEP_NS = 1_000_000_000
"""Age of the oldest estimate that is still compared, ns."""
GAP_NS = 100_000_000
"""Longest time over which an estimate is carried on to the time of a fix, ns."""
SIGMAS = 6.0
"""Number of declared standard deviations that no sound pair exceeds time after time; the errors of
a receiver are correlated."""
LOST_SIGMAS = 4.0
"""The same for the single comparison after a diverged filter has reinitialised: its sigma grows
without a measurement."""
TIMING_S = 0.05
"""Error of the stamps that is allowed for, s."""
BEYOND_REFUSALS = 2
"""Number of contradicting fixes beyond those after which a filter that refuses fixes stops the
vehicle and goes back to them."""
UNKNOWN_RATIO = 0.25
"""Error of a way by measured speed that is allowed for, as a fraction: slip, and turns that no
estimate shows."""
UNKNOWN_SIGMA_M = {CarrierSolution.FIXED: 0.1, CarrierSolution.FLOAT: 0.5}
"""Standard deviation of a position that declares none, m; 2 m without a carrier solution."""


class ConsistencyMonitor:
    """Counter of consecutive fixes that contradict the published place or speed."""

    def __init__(self, limits: Limits, datum: Datum | None, antenna_m: tuple[float, float]) -> None:
        """``datum``: origin of the map frame, None without a course; ``antenna_m``: lever arm of
        the GNSS antenna from the rear axle."""
        self._datum, self._antenna_m = datum, antenna_m
        # The limits of rules 11 and 13: smaller differences are no danger.
        self._tolerated_m = limits.corridor_m / 3.0
        self._tolerated_mps = min(MISMATCH_MPS, MISMATCH_TOP_RATIO * limits.max_speed_mps)
        self._estimates: deque[StateEstimate] = deque()
        self._before: StateEstimate | None = None
        """Last estimate with a place."""
        self._before_moves = False
        self._way_m = self._unknown_m = self._unmeasured_s = 0.0
        """Way since that estimate by measured speed, its error, and the time without such a
        measurement."""
        self._updated_ns = 0
        self.apart_m = 0.0
        """Distance of the newest fix from the estimate, m."""
        self.places_in_a_row = 0
        self._jump_m = (0.0, 0.0)
        self.apart_mps = 0.0
        """Speed of the newest fix minus that of the estimate, both magnitudes, m/s."""
        self.speeds_in_a_row = 0
        self.faster = False
        """True if the newest fix is faster than the estimate by more than half of what the rule
        allows."""

    def update(self, s: SafetyInputs) -> None:
        """Keep the newest estimate."""
        estimates, estimate = self._estimates, s.estimate
        self._measure_way(s)
        if estimate is None or (estimates and estimate.t_ns <= estimates[-1].t_ns):
            return
        if _has_numbers(estimate):
            self._look_for_jump(estimate, moves=s.mode in MOVING)
        estimates.append(estimate)
        while estimate.t_ns - estimates[0].t_ns > KEEP_NS:
            estimates.popleft()

    @property
    def jumped_m(self) -> float:
        """Distance by which the estimate has jumped in all against its own motion, m; a jump back
        takes one away again."""
        return hypot(*self._jump_m)

    @property
    def jumped(self) -> bool:
        """True if that is more than a drive tolerates: the place is wrong now, or was wrong
        before."""
        return self.jumped_m > self._tolerated_m

    def accept_place(self) -> None:
        """Forget the jumps: a person has seen that the place is right."""
        self._jump_m = 0.0, 0.0

    def _measure_way(self, s: SafetyInputs) -> None:
        dt_s, self._updated_ns = (s.now_ns - self._updated_ns) * 1e-9, s.now_ns
        if not isfinite(s.measured_speed_mps):
            self._unmeasured_s += dt_s
            return
        self._way_m += s.measured_speed_mps * dt_s
        # A vehicle that is pushed may be turned at will.
        self._unknown_m += (
            (UNKNOWN_RATIO if s.mode in MOVING else 1.0) * abs(s.measured_speed_mps) * dt_s
        )

    def _look_for_jump(self, estimate: StateEstimate, *, moves: bool) -> None:
        """Add what the estimate has moved since the last one beyond its speed, where no declared
        error explains it.

        A vehicle that does not drive may be pushed or carried: then only a jump back counts. A
        filter that loses its place in a drive is judged when it has one again, also if the vehicle
        stands by then: it may have begun anew from wrong fixes. One that has diverged goes on
        predicting, and is judged at its first place after that.
        """
        before, status = self._before, estimate.status
        diverged = before is not None and before.status is EstimatorStatus.DIVERGED
        if status not in (EstimatorStatus.RUNNING, EstimatorStatus.DIVERGED) and not diverged:
            return
        self._before = estimate
        before_moves = self._before_moves
        self._before_moves = moves or (before_moves and status is EstimatorStatus.DIVERGED)
        way_m, unknown_m, unmeasured_s = self._way_m, self._unknown_m, self._unmeasured_s
        self._way_m = self._unknown_m = self._unmeasured_s = 0.0
        if before is None:
            return
        dt_s, sigma_m = (estimate.t_ns - before.t_ns) * 1e-9, before.position_sigma_m
        x_m, y_m = estimate.x_m - before.x_m, estimate.y_m - before.y_m
        lost = dt_s > GAP_NS * 1e-9
        for end in (before, estimate):
            half_m = 0.5 * (way_m + unmeasured_s * end.speed_mps if lost else dt_s * end.speed_mps)
            x_m, y_m = x_m - half_m * cos(end.yaw_rad), y_m - half_m * sin(end.yaw_rad)
        if lost:
            unknown_m += unmeasured_s * max(abs(before.speed_mps), abs(estimate.speed_mps))
        else:
            unknown_m = 0.0
        moves |= before_moves and (lost or diverged)
        sigmas = LOST_SIGMAS if diverged else SIGMAS
        if (
            hypot(x_m, y_m)
            > max(sigmas * sigma_m if isfinite(sigma_m) else 0.0, self._tolerated_m) + unknown_m
        ):
            after_m = self._jump_m[0] + x_m, self._jump_m[1] + y_m
            if moves or hypot(*after_m) < self.jumped_m:
                self._jump_m = after_m

    def on_message(self, fix: GnssFix, now_ns: int) -> None:
        """Compare a fix with the estimate for its time; one without such an estimate changes
        nothing."""
        estimate = self._at(fix.t_ns)
        if estimate is None or fix.fix_type < FixType.FIX_2D:
            return
        if not _has_numbers(estimate):
            self.places_in_a_row = self.speeds_in_a_row = 0
            self.faster = False
            return
        self._compare_places(fix, estimate)
        self._compare_speeds(fix, estimate)

    def _at(self, t_ns: int) -> StateEstimate | None:
        """Return the newest estimate up to a time; None if that is long before."""
        for estimate in reversed(self._estimates):
            if estimate.t_ns <= t_ns:
                return estimate if t_ns - estimate.t_ns <= GAP_NS else None
        return None

    def _compare_places(self, fix: GnssFix, estimate: StateEstimate) -> None:
        if self._datum is None:
            return
        east_m, north_m, _ = self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)
        ahead_m = self._antenna_m[0] + estimate.speed_mps * (fix.t_ns - estimate.t_ns) * 1e-9
        left_m, c, s = self._antenna_m[1], cos(estimate.yaw_rad), sin(estimate.yaw_rad)
        x_m, y_m = estimate.x_m + c * ahead_m - s * left_m, estimate.y_m + s * ahead_m + c * left_m
        self.apart_m = hypot(east_m - x_m, north_m - y_m)
        fix_m = _sigma(fix.position_covariance_m2, UNKNOWN_SIGMA_M.get(fix.carrier, 2.0))
        sigma_m = estimate.position_sigma_m
        yaw_rad = sqrt(max(estimate.covariance[10], 0.0))
        swing_m = hypot(*self._antenna_m) * min(SIGMAS * yaw_rad, 2.0)
        allowed_m = (
            SIGMAS * hypot(fix_m, sigma_m if isfinite(sigma_m) else 0.0)
            + TIMING_S * abs(estimate.speed_mps)
            + swing_m
        )
        self.places_in_a_row = (
            self.places_in_a_row + 1 if self.apart_m > max(allowed_m, self._tolerated_m) else 0
        )

    def _compare_speeds(self, fix: GnssFix, estimate: StateEstimate) -> None:
        ground_mps = hypot(fix.velocity_enu_mps[0], fix.velocity_enu_mps[1])
        self.faster = False
        if not isfinite(ground_mps):
            self.speeds_in_a_row = 0
            return
        rate, speed_mps = estimate.yaw_rate_radps, abs(estimate.speed_mps)
        swing_mps = abs(rate) * hypot(*self._antenna_m) if isfinite(rate) else 0.0
        sigma_mps = _sigma(fix.velocity_covariance_m2ps2, GROUND_SIGMA_MPS)
        allowed_mps = (
            max(self._tolerated_mps, MISMATCH_RATIO * ground_mps) + SIGMAS * sigma_mps + swing_mps
        )
        self.apart_mps = ground_mps - speed_mps
        self.faster = self.apart_mps > 0.5 * allowed_mps
        self.speeds_in_a_row = self.speeds_in_a_row + 1 if abs(self.apart_mps) > allowed_mps else 0


def _has_numbers(estimate: StateEstimate) -> bool:
    return isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps)


def _sigma(covariance: tuple[float, ...], unknown: float) -> float:
    """Return the larger standard deviation of a row-major (9,) covariance, or the usual one where
    none is declared."""
    variance = max(covariance[0], covariance[4])
    return sqrt(variance) if 0.0 < variance < inf else unknown
