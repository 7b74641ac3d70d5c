"""What path-following laws have in common: progress, prediction over the delays, the speed, the stop at a cusp.

A law answers one question, how far the wheel should be turned for a pose; see :class:`Helm`.
"""

from collections.abc import Callable
from math import inf, isfinite
from typing import NamedTuple

from vehicled.control.drift import Drift
from vehicled.control.drive_observer import DriveObserver
from vehicled.control.preview import Preview, motion_yaw_rad, path_delay_s, predict_pose, predict_speed
from vehicled.control.speed import Demand, PidState, SpeedParams, SpeedProfile, Target, speed_step
from vehicled.control.stop import brake_command, is_drivable
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory
from vehicled.messages import ControlCommand, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint, PathTracker
from vehicled.vehicle import MAX_DELAY_NS, Limits, Vehicle

MAX_ESTIMATE_AGE_NS = 200_000_000
"""Older estimates are predicted over this much only; their age is for the failsafe to judge."""

WHEELS_THERE_RAD = 0.02
"""After a cusp the vehicle moves off when the wheels are this near to where the law wants them: 2 cm beside the line after the
first metre, of a 0.5 m wheelbase."""

EXTRA_TURN_NS = 300_000_000
"""It moves off in any case this long after the wheels could have gone from one stop to the other."""


class Scene(NamedTuple):
    """What a law sees."""

    estimate: StateEstimate
    here: PathPoint
    """Of the estimated pose."""
    ahead: Preview
    """Pose at which the command will act; the speed is signed."""
    dt_s: float
    """Since the last step."""


class Wish(NamedTuple):
    """What a law answers."""

    wheel_rad: float
    speed_cap_mps: float = inf
    """Size of the speed that should not be exceeded, whatever the profile allows."""
    throttle: float | None = None
    """Share of full drive in the direction of the leg, of a law that holds the speed itself."""


Law = Callable[[Scene], Wish]

BELOW_CAP_SHARE = 0.05
BELOW_CAP_MPS = 0.03
"""What is kept from the cap, the smaller of the two: at the cap itself the gate would take drive away with half of the noise of the
estimate."""


class Helm:
    """Runs a law as the body of a :class:`~vehicled.control.interface.Controller`; its methods are named as there.

    With ``predict`` a law sees the pose at which its command will act and the command is slewed as the actuator is, else the pose
    estimated and the command as it is.
    """

    def __init__(
        self, speed: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float, *, predict: bool = True
    ) -> None:
        self._speed_params = speed
        self._period_s = period_s
        self._predict = predict
        self.tracker = PathTracker(course)
        self.profile = SpeedProfile(speed, vehicle, limits, course)
        """Of the vehicle as it is believed now."""
        # What is identified later may be any delay that a vehicle can have.
        keep_ns = MAX_DELAY_NS + 2 * MAX_ESTIMATE_AGE_NS
        self._wheels: CommandHistory[float] = CommandHistory(0.0, keep_ns)
        self._observer = DriveObserver()
        self._drift = Drift()
        self._demands: CommandHistory[Demand] = CommandHistory(Demand(0.0, 0.0), keep_ns)
        self.cap_mps = inf
        """Speed at which it drives at the most, by what :meth:`limit_speed` was told."""
        self.adapt(vehicle)
        self.reset()

    def adapt(self, vehicle: Vehicle) -> None:
        """Drive with other parameters from now on."""
        self.vehicle = vehicle
        self.profile = self.profile.adapted(vehicle)
        steering = vehicle.steering
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)
        turn_s = steering.delay_s + 2.0 * steering.max_wheel_rad / steering.rate_radps
        self._longest_turn_ns = int(turn_s * 1e9) + EXTRA_TURN_NS

    def limit_speed(self, cap_mps: float) -> None:
        """Drive below this speed, beyond which the gate lets nothing accelerate, until told otherwise; infinite is no limit."""
        self.cap_mps = max((1.0 - BELOW_CAP_SHARE) * cap_mps, cap_mps - BELOW_CAP_MPS)

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """Begin at the start of the course, or at an arc length, with the wheel angle that is commanded now."""
        self.tracker.reset(s_m)
        self._wheels.clear(wheel_rad)
        self._demands.clear(Demand(0.0, 0.0))
        self._observer.reset()
        self._drift.reset()
        self._pid = PidState()
        self._allowed_mps = inf
        """The cap, or the speed on the way down to it."""
        self._leg = self.tracker.leg
        self._turning_since_ns: int | None = None
        self.command_rad = wheel_rad
        """Wheel angle last commanded."""
        self._wheel_rad = wheel_rad
        self._wheel_ns: int | None = None
        self._last_ns: int | None = None
        self._stepped_ns: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the end of the course has been reached."""
        return self.tracker.finished

    def step(self, estimate: StateEstimate, now_ns: int, law: Law) -> ControlCommand:
        """Wheel angle, throttle and brake for the state."""
        self._stepped_ns = now_ns
        if not is_drivable(estimate):
            return self._brake(estimate, now_ns)
        dt_s = self._elapsed_s(now_ns)
        here = self.tracker.update(estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps)
        age_ns = min(max(now_ns - estimate.t_ns, 0), MAX_ESTIMATE_AGE_NS)
        self._observer.observe(self.vehicle.drive, self._demands, now_ns - age_ns, self._speed_mps(estimate))
        self._slow_down(estimate.speed_mps, dt_s)
        wish = law(Scene(estimate, here, self._ahead(estimate, now_ns, age_ns), dt_s))
        wheel = self._steer(wish.wheel_rad, dt_s)
        target, demand = self._drive(estimate, here.s_m, wish.speed_cap_mps, now_ns, age_ns, dt_s)
        if wish.throttle is not None:
            demand = self._in_its_direction(wish.throttle)
        if self.tracker.at_leg_end or self._wheels_turn(wish.wheel_rad, now_ns):
            target, demand = Target(0.0, 0.0), Demand(0.0, 1.0)
        if not (isfinite(wheel) and isfinite(demand.throttle) and isfinite(demand.brake)):
            return self._brake(estimate, now_ns)
        self.command_rad = wheel
        self._wheels.append(now_ns, wheel)
        self._demands.append(now_ns, demand)
        return ControlCommand(
            now_ns, estimate.newest_input_ns, wheel, demand.throttle, demand.brake, target.speed_mps,
            here.s_m, here.cross_track_m, here.heading_error_rad, here.curvature_per_m,
        )  # fmt: skip

    def sent(self, throttle: float, brake: float) -> None:
        """What became of the last demand on its way to the actuators: that the gate cut it is no fault of the drive."""
        if self._stepped_ns is not None:
            self._demands.append(self._stepped_ns, Demand(throttle, brake))

    def _brake(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Answer to a state that cannot be driven on. What is commanded meanwhile counts in the next prediction."""
        self._wheels.append(now_ns, self.command_rad)
        self._demands.append(now_ns, Demand(0.0, 1.0))
        return brake_command(now_ns, estimate.newest_input_ns, self.command_rad)

    def _elapsed_s(self, now_ns: int) -> float:
        """Time since the last step, within a factor of five of the period."""
        last_ns, self._last_ns = self._last_ns, now_ns
        if last_ns is None:
            return self._period_s
        return min(max((now_ns - last_ns) * 1e-9, 0.2 * self._period_s), 5.0 * self._period_s)

    def _speed_mps(self, estimate: StateEstimate) -> float:
        """Believed speed; that of a vehicle which cannot reverse is not negative."""
        return estimate.speed_mps if self.vehicle.drive.reverse_share > 0.0 else max(0.0, estimate.speed_mps)

    def _wheel_at(self, t_ns: int, delay_ns: int) -> float:
        """Follow the slewing wheel to the time of the estimate, as the path feels it."""
        steering = self.vehicle.steering
        if self._wheel_ns is not None and t_ns > self._wheel_ns:
            target = self._wheels.at(t_ns - delay_ns)
            step_rad = steering.rate_radps * (t_ns - self._wheel_ns) * 1e-9
            self._wheel_rad = slew(self._wheel_rad, target, step_rad, steering.max_wheel_rad)
        self._wheel_ns = t_ns if self._wheel_ns is None else max(t_ns, self._wheel_ns)
        return self._wheel_rad

    def _motion_yaw(self, estimate: StateEstimate, t_ns: int, speed_mps: float) -> float:
        """Where the rear axle moves: by the slip of its tyres, and as the positions show."""
        yaw = motion_yaw_rad(self.vehicle, estimate.yaw_rad, speed_mps, estimate.yaw_rate_radps)
        self._drift.observe(t_ns, estimate.x_m, estimate.y_m, yaw, speed_mps)
        return yaw + self._drift.angle_rad

    def _ahead(self, estimate: StateEstimate, now_ns: int, age_ns: int) -> Preview:
        start_ns, speed = now_ns - age_ns, self._speed_mps(estimate)
        delay_ns = int(path_delay_s(self.vehicle, speed) * 1e9)
        wheel = self._wheel_at(start_ns, delay_ns)
        if not self._predict:
            return Preview(estimate.x_m, estimate.y_m, estimate.yaw_rad, speed, wheel)
        yaw = self._motion_yaw(estimate, start_ns, speed)
        start = Preview(estimate.x_m, estimate.y_m, yaw, speed, wheel)
        return predict_pose(self.vehicle, self._wheels, start, start_ns, age_ns + delay_ns)

    def _steer(self, wheel_rad: float, dt_s: float) -> float:
        steering = self.vehicle.steering
        if not isfinite(wheel_rad):
            # Comparisons with NaN are false, so that limits would make full lock of it.
            return wheel_rad
        if not self._predict:
            return min(max(wheel_rad, -steering.max_wheel_rad), steering.max_wheel_rad)
        # The actuator slews no faster; a command that does not run ahead of it is one the prediction can rely on.
        return slew(self.command_rad, wheel_rad, steering.rate_radps * dt_s, steering.max_wheel_rad)

    def _wheels_turn(self, wanted_rad: float, now_ns: int) -> bool:
        """Whether to stand still behind a cusp, because the wheels are on their way to where the new leg wants them."""
        if self.tracker.leg != self._leg:
            self._leg = self.tracker.leg
            self._turning_since_ns = now_ns
        if self._turning_since_ns is None:
            return False
        lock = self.vehicle.steering.max_wheel_rad
        away_rad = abs(self._wheel_rad - min(max(wanted_rad, -lock), lock))
        if away_rad <= WHEELS_THERE_RAD or now_ns - self._turning_since_ns > self._longest_turn_ns:
            self._turning_since_ns = None
            self._pid = PidState()
        return self._turning_since_ns is not None

    def target(self, s_m: float) -> Target:
        """Target of the speed profile at a place of the present leg, below the cap."""
        return self._below_cap(self.profile.at(s_m, self.tracker.leg))

    def _in_its_direction(self, throttle: float) -> Demand:
        forward = self.tracker.direction > 0
        most = 1.0 if forward else self.vehicle.drive.reverse_share
        size = min(max(throttle, 0.0), most)
        return Demand(size if forward else -size, 0.0)

    def _drive(
        self, estimate: StateEstimate, s_m: float, cap_mps: float, now_ns: int, age_ns: int, dt_s: float
    ) -> tuple[Target, Demand]:
        drive, direction = self.vehicle.drive, self.tracker.direction
        speed = self._speed_mps(estimate)
        horizon_ns = age_ns + self._drive_delay_ns
        surplus = self._observer.surplus_mps2
        later = predict_speed(drive, self._demands, speed, now_ns - age_ns, horizon_ns, surplus)
        travelled_m = 0.5 * (speed + later) * horizon_ns * 1e-9
        target = self.profile.at(s_m + direction * travelled_m, self.tracker.leg)
        if abs(target.speed_mps) > cap_mps:
            target = Target(direction * cap_mps, 0.0)
        if abs(target.speed_mps) < self._speed_params.creep_mps:
            target = Target(direction * self._speed_params.creep_mps, 0.0)
        target = self._below_cap(target)
        self._pid, demand = speed_step(self._speed_params, drive, self._pid, later, target, dt_s, surplus)
        return target, demand

    def _slow_down(self, speed_mps: float, dt_s: float) -> None:
        """Approach the cap as a slower part of the course is approached: it can come in mid-turn."""
        slower_mps = min(self._allowed_mps, abs(speed_mps)) - self.profile.deceleration_mps2 * dt_s
        self._allowed_mps = max(slower_mps, self.cap_mps)

    def _below_cap(self, target: Target) -> Target:
        if abs(target.speed_mps) <= self._allowed_mps:
            return target
        direction = self.tracker.direction
        slowing_mps2 = self.profile.deceleration_mps2 if self._allowed_mps > self.cap_mps else 0.0
        return Target(direction * self._allowed_mps, -direction * slowing_mps2)
