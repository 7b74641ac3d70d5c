"""Monitor that compares heading, gyro and course over ground, three independent measurements of
yaw, and the commanded steering.

The gyro is integrated to a yaw. Headings and courses over ground are compared with it at their time
of validity, so latency does not matter. The change of the difference within a window counts, which
neither gyro bias nor misalignment affects much. The yaw by speed and wheel angle is known roughly:
where heading or course over ground confirm the gyro, it shows wheels that do not follow the
commands, and without both a grossly wrong gyro.
"""

from collections import deque
from math import asin, atan2, hypot, isfinite, nan, remainder, sqrt, tan, tau

from vehicled.core.clamp import clamp
from vehicled.core.messages import GnssFix, Heading, HeadingKind, ImuSample, Message
from vehicled.core.vehicle import STANDSTILL_MPS, Vehicle
from vehicled.safety.inputs import SafetyInputs

KEEP_NS = 3_000_000_000
"""Age of the oldest heading or fix that is still compared, ns."""
SPACING_NS = 10_000_000
GAP_NS = 100_000_000
"""Gap between usable samples after which the integral starts again, ns."""
WINDOW_NS = 1_500_000_000
PARTED_RAD = 0.2
"""Largest change of heading minus gyro within the window, rad."""
ASIDE_RAD = 0.25
"""Largest angle between heading and course over ground, sideslip included, rad; doubled for
inertial and magnetic headings."""
READINGS = 3
"""Number of consecutive headings that must differ from the gyro."""
FIXES = 5
STUCK_READINGS = 3
STUCK_NS = 350_000_000
"""Shortest time over which a stuck heading repeats, ns; at 10 Hz that is five readings."""
TURN_WINDOW_NS = 3_000_000_000
"""Window of the turn over equal headings, ns: over a longer one a gyro bias of 0.03 rad/s looks
like a turn."""
STUCK_RAD = 0.1
"""Range of the yaw by the gyro, over equal headings, above which the heading is stuck, rad."""
BIAS_TIME_S = 1.0
"""Time constant of the gyro's bias at standstill, s."""
COURSE_MPS = 0.5
"""Speed below which the course over ground is too noisy, m/s."""
UNKNOWN_SIGMA_MPS = 0.1
FRESH_NS = 1_000_000_000
STEERED_RAD = 0.2
"""Difference of gyro and steering within the window that is always tolerated, rad."""
WHEEL_DOUBT_RAD, WHEEL_DOUBT_RATIO = 0.05, 0.4
"""Doubt about the wheel angle: offset, slack and dead zone, and gain or slip as a fraction of
it."""
CONFIRMED_RATIO = 0.5
"""Largest disagreement of heading or course over ground with a gyro that they confirm, relative to
that of the steering."""
FOLLOWED_TURN_RAD = 0.8
"""Turn over which gyro and steering are compared to find rear wheels that do not follow, rad."""
LEAST_UNFOLLOWED = 0.2
"""Deviation of the turn that no gain of the steering explains any more, as a fraction."""
STEERING_STEPS = 60
"""Number of entries in the window of the steering."""


class YawMonitor:
    """Counter of consecutive contradictions between heading, gyro and course over ground."""

    def __init__(self, vehicle: Vehicle, antenna_x_m: float) -> None:
        """``antenna_x_m``: lever arm of the GNSS antenna, forward of the rear axle."""
        self._antenna_x_m = antenna_x_m
        self.adapt(vehicle)
        self.steering_aside_rad = 0.0
        """Change of gyro minus steering within the window, rad; 0 while a heading or course over
        ground is compared instead."""
        self.steering_aside_ns = 0
        """Time for which that has been more than all doubts about the steering explain, ns."""
        self.unfollowed_rad = 0.0
        """Change of gyro minus steering within the window, rad; 0 unless heading or course over
        ground confirm the gyro."""
        self.unfollowed_ns = 0
        """Time for which that has been more than all doubts about the steering explain, ns."""
        self._commands: deque[tuple[int, float]] = deque()
        """Times and wheel angles of the commands that have not acted yet."""
        self._wheel_rad = self._wheel_target_rad = 0.0
        self._updated_ns: int | None = None
        self._steered: deque[tuple[int, float, float]] = deque()
        """Time, gyro minus steering, and the doubt about the steering, since the start, rad."""
        self._apart_rad = self._doubt_rad = self._turned_before_rad = 0.0
        self.turn_ratio = nan
        """Turn by the gyro over that by the steering of a vehicle whose rear wheels steer; NaN
        before it has turned enough."""
        self._turn_weight_rad = self._turn_both = self._turn_square = 0.0
        self.heading_stuck = False
        """True if the heading repeats itself while the gyro turns."""
        self.parted_rad = 0.0
        """Change of heading minus gyro within the window, rad, at the newest heading."""
        self.parted_in_a_row = 0
        self.aside_rad = 0.0
        """Heading minus course over ground at the newest fix, rad."""
        self.aside_in_a_row = 0
        self.estimate_aside_rad = 0.0
        """Heading minus the yaw of the estimate, rad; 0 without a fresh heading."""
        self.gyro_aside_rad = 0.0
        """Change of course over ground minus gyro within the window, rad, at the newest fix."""
        self.gyro_aside_in_a_row = 0
        self._turned: deque[tuple[int, float]] = deque()
        self._yaw_rad = 0.0
        self._sample_ns: int | None = None
        self._headings: deque[tuple[int, float]] = deque()
        self._courses: deque[tuple[int, float]] = deque()
        self._kind = HeadingKind.INERTIAL
        self._same_rad = float("nan")
        self._same = 0
        self._same_since_ns = 0
        self._same_turned: deque[tuple[int, float]] = deque()
        """Times and turns by the gyro since the first of the equal headings, rad."""
        self._newest: tuple[int, float] = (0, 0.0)
        self._bias_radps = 0.0
        self._stands = True
        self._backward = False

    def on_message(self, message: Message, now_ns: int) -> None:
        """Update from an IMU sample, a heading or a fix; samples and positions are finite."""
        if isinstance(message, ImuSample):
            self._integrate(message)
        elif isinstance(message, Heading):
            self._on_heading(message)
        elif isinstance(message, GnssFix):
            self._on_fix(message)

    @property
    def turned_rad(self) -> float:
        """Integral of the gyro since the daemon started, rad, bias included."""
        return self._yaw_rad

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        self._vehicle = vehicle
        self._steering_delay_ns = round(vehicle.steering.delay_s * 1e9)

    def update(self, s: SafetyInputs) -> None:
        """Compare the steering, and forget headings and courses over ground that are older than
        ``FRESH_NS``."""
        self._steer(s)
        self._backward = s.speed_mps < 0.0
        self._stands = not abs(s.speed_mps) > STANDSTILL_MPS
        if self._headings and s.now_ns - self._headings[-1][0] > FRESH_NS:
            self._forget_headings()
        if self._courses and s.now_ns - self._courses[-1][0] > FRESH_NS:
            self._forget_courses()
        yaw_rad = nan if s.estimate is None else s.estimate.yaw_rad
        comparable = self._headings and isfinite(yaw_rad)
        self.estimate_aside_rad = (
            remainder(self._headings[-1][1] + self._yaw_rad - yaw_rad, tau) if comparable else 0.0
        )

    @property
    def aside_limit_rad(self) -> float:
        """Largest angle between heading and course over ground, rad, for headings of the present
        kind."""
        return ASIDE_RAD if self._kind is HeadingKind.MOVING_BASE else 2.0 * ASIDE_RAD

    @property
    def unfollowed_limit(self) -> float:
        """Deviation of ``turn_ratio`` from 1 halfway to rear wheels that stay straight."""
        ratio = self._vehicle.rear_steering_ratio
        return max(0.5 * abs(ratio / (1.0 - ratio)), LEAST_UNFOLLOWED)

    def _compare_turns(self, turned_rad: float, expected_rad: float) -> None:
        """Fit the turn by the gyro to that by the steering over the newest turns."""
        kept = max(1.0 - abs(expected_rad) / FOLLOWED_TURN_RAD, 0.0)
        self._turn_weight_rad = kept * self._turn_weight_rad + abs(expected_rad)
        self._turn_both = kept * self._turn_both + turned_rad * expected_rad
        self._turn_square = kept * self._turn_square + expected_rad * expected_rad
        if self._turn_weight_rad > 0.6 * FOLLOWED_TURN_RAD:
            self.turn_ratio = self._turn_both / self._turn_square

    def _steer(self, s: SafetyInputs) -> None:
        """Integrate the yaw by wheel angle and speed, and compare it with the gyro."""
        dt_ns = 0 if self._updated_ns is None else s.now_ns - self._updated_ns
        turned_rad = self._yaw_rad - self._turned_before_rad
        self._updated_ns, self._turned_before_rad = s.now_ns, self._yaw_rad
        if s.sent is None or not isfinite(s.speed_mps) or not 0 < dt_ns <= GAP_NS:
            self._steered.clear()
            self._trust_steering()
            return
        commands, steering, dt_s, v = (
            self._commands,
            self._vehicle.steering,
            dt_ns * 1e-9,
            s.speed_mps,
        )
        commands.append((s.now_ns + self._steering_delay_ns, s.sent.wheel_angle_rad))
        while commands and commands[0][0] <= s.now_ns:
            self._wheel_target_rad = commands.popleft()[1]
        step_rad = steering.rate_radps * dt_s
        self._wheel_rad += clamp(self._wheel_target_rad - self._wheel_rad, -step_rad, step_rad)
        base_m = self._vehicle.effective_wheelbase_m(v)
        bias_radps = clamp(self._bias_radps, -s.limits.still_rate_radps, s.limits.still_rate_radps)
        self._apart_rad += turned_rad - (bias_radps + v * tan(self._wheel_rad) / base_m) * dt_s
        if self._vehicle.rear_steering_ratio:
            self._compare_turns(
                turned_rad - bias_radps * dt_s, v * tan(self._wheel_rad) / base_m * dt_s
            )
        self._doubt_rad += (
            abs(v) / base_m * (WHEEL_DOUBT_RAD + WHEEL_DOUBT_RATIO * abs(self._wheel_rad)) * dt_s
        )
        steered = self._steered
        if not steered or s.now_ns - steered[-1][0] >= WINDOW_NS // STEERING_STEPS:
            steered.append((s.now_ns, self._apart_rad, self._doubt_rad))
            while s.now_ns - steered[0][0] > WINDOW_NS:
                steered.popleft()
        apart_rad = self._apart_rad - steered[0][1]
        aside = abs(apart_rad) > STEERED_RAD + self._doubt_rad - steered[0][2]
        independent = self._courses or (self._headings and self._kind is not HeadingKind.INERTIAL)
        if self._sample_ns is None:
            self._trust_steering()
        elif not independent:
            self.steering_aside_rad, self.unfollowed_rad = apart_rad, 0.0
            self.steering_aside_ns = self.steering_aside_ns + dt_ns if aside else 0
            self.unfollowed_ns = 0
        else:
            self.steering_aside_rad, self.steering_aside_ns = 0.0, 0
            confirmed = self._gyro_error_rad <= CONFIRMED_RATIO * abs(apart_rad)
            self.unfollowed_rad = apart_rad if confirmed else 0.0
            self.unfollowed_ns = self.unfollowed_ns + dt_ns if aside and confirmed else 0

    def _trust_steering(self) -> None:
        self.steering_aside_rad = self.unfollowed_rad = 0.0
        self.steering_aside_ns = self.unfollowed_ns = 0

    @property
    def _gyro_error_rad(self) -> float:
        """Largest change of heading or course over ground minus gyro within the window, rad."""
        heading_rad = self.parted_rad if self._headings else 0.0
        return max(abs(heading_rad), abs(self.gyro_aside_rad) if self._courses else 0.0)

    def _forget_headings(self) -> None:
        self._headings.clear()
        self._same_turned.clear()
        self.parted_in_a_row = self.aside_in_a_row = self._same = 0
        self.heading_stuck = False

    def _forget_courses(self) -> None:
        self._courses.clear()
        self.gyro_aside_in_a_row = self.aside_in_a_row = 0

    # ---------------------------------------------------------------- the three measurements

    def _integrate(self, sample: ImuSample) -> None:
        before_ns, t_ns = self._sample_ns, sample.t_ns
        rate = sample.angular_rate_radps[2]
        if sample.saturated or not abs(rate) < 1e3:
            return
        if before_ns is not None and not 0 < t_ns - before_ns <= GAP_NS:
            if 0 >= t_ns - before_ns > -GAP_NS:
                return
            self._turned.clear()
            self._forget_headings()
            self._forget_courses()
        elif before_ns is not None:
            period_s = (t_ns - before_ns) * 1e-9
            self._yaw_rad += rate * period_s
            if self._stands:
                self._bias_radps += period_s / BIAS_TIME_S * (rate - self._bias_radps)
        self._sample_ns = t_ns
        turned = self._turned
        if not turned or t_ns - turned[-1][0] >= SPACING_NS:
            turned.append((t_ns, self._yaw_rad))
            while t_ns - turned[0][0] > KEEP_NS:
                turned.popleft()

    def _on_heading(self, heading: Heading) -> None:
        turned = self._turned_at(heading.t_ns)
        if turned is None or not abs(heading.yaw_rad) <= 1e3:
            return
        self._kind = heading.kind
        self._compare_with_last(heading, turned)
        self.parted_rad = _parted(self._headings, heading.t_ns, heading.yaw_rad - turned)
        self.parted_in_a_row = self.parted_in_a_row + 1 if abs(self.parted_rad) > PARTED_RAD else 0

    def _compare_with_last(self, heading: Heading, turned: float) -> None:
        """Count equal readings and the yaw since the first of them.

        A heading may repeat itself at standstill and on a straight. The range of the yaw counts,
        because the bends of an S cancel out, and the gyro's bias does not, because a vehicle on a
        straight would seem to turn.
        """
        if heading.yaw_rad == self._same_rad:
            self._same += 1
        else:
            self._same_rad, self._same, self._same_since_ns = heading.yaw_rad, 1, heading.t_ns
            self._same_turned.clear()
        yaw = self._same_turned[-1][1] if self._same_turned else 0.0
        if not self._stands:
            yaw += (
                turned
                - self._newest[1]
                - self._bias_radps * (heading.t_ns - self._newest[0]) * 1e-9
            )
        self._newest = heading.t_ns, turned
        self._same_turned.append((heading.t_ns, yaw))
        while heading.t_ns - self._same_turned[0][0] > TURN_WINDOW_NS:
            self._same_turned.popleft()
        angles = [angle for _, angle in self._same_turned]
        repeats = self._same >= STUCK_READINGS and heading.t_ns - self._same_since_ns >= STUCK_NS
        # The range, not the net turn: in an S the two bends would cancel.
        self.heading_stuck = repeats and max(angles) - min(angles) > STUCK_RAD

    def _on_fix(self, fix: GnssFix) -> None:
        east, north = fix.velocity_enu_mps[0], fix.velocity_enu_mps[1]
        speed = hypot(east, north)
        turned, before = self._turned_at(fix.t_ns), self._turned_at(fix.t_ns - GAP_NS)
        if turned is None or before is None or not COURSE_MPS <= speed < 100.0:
            self._forget_courses()
            return
        # In a turn the yaw rate moves an antenna ahead of the rear axle sideways.
        swing_mps = self._antenna_x_m * (turned - before) / (GAP_NS * 1e-9)
        course = atan2(north, east) - asin(min(1.0, max(-1.0, swing_mps / speed)))
        if self._backward:
            course = atan2(-north, -east) + asin(min(1.0, max(-1.0, swing_mps / speed)))
        variance = max(fix.velocity_covariance_m2ps2[0], fix.velocity_covariance_m2ps2[4])
        sigma_mps = sqrt(variance) if isfinite(variance) and variance >= 0.0 else UNKNOWN_SIGMA_MPS
        allowed = ASIDE_RAD + 2.0 * sigma_mps / speed
        self.gyro_aside_rad = _parted(self._courses, fix.t_ns, course - turned)
        self.gyro_aside_in_a_row = (
            self.gyro_aside_in_a_row + 1 if abs(self.gyro_aside_rad) > allowed else 0
        )
        if self._headings:
            self.aside_rad = remainder(self._headings[-1][1] + turned - course, tau)
            share = 1.0 if self._kind is HeadingKind.MOVING_BASE else 2.0
            self.aside_in_a_row = (
                self.aside_in_a_row + 1 if abs(self.aside_rad) > share * allowed else 0
            )

    def _turned_at(self, t_ns: int) -> float | None:
        """Return the integral of the gyro at ``t_ns``; None outside the stored window."""
        turned = self._turned
        if not turned or t_ns - turned[-1][0] > GAP_NS:
            return None
        later = turned[-1]
        for entry in reversed(turned):
            if entry[0] <= t_ns:
                span = later[0] - entry[0]
                return (
                    entry[1] + (later[1] - entry[1]) * (t_ns - entry[0]) / span
                    if span > 0
                    else entry[1]
                )
            later = entry
        return None


def _parted(window: deque[tuple[int, float]], t_ns: int, difference_rad: float) -> float:
    """Add a difference of angles to the window and return its change since the oldest entry."""
    while window and not 0 < t_ns - window[0][0] <= WINDOW_NS:
        window.popleft()
    window.append((t_ns, difference_rad))
    return remainder(difference_rad - window[0][1], tau)
