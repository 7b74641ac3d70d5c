"""Base class of the path-following controllers."""

from abc import abstractmethod
from collections.abc import Mapping
from math import inf, isfinite, isnan
from typing import ClassVar

from msgspec import Struct

from vehicled.control.drift import DriftAngle
from vehicled.control.drive_observer import DriveObserver
from vehicled.control.interface import Controller
from vehicled.control.planned_motion import motion_along
from vehicled.control.preview import (
    Preview,
    motion_yaw_rad,
    path_delay_s,
    predict_pose,
    predict_speed,
)
from vehicled.control.speed import (
    Demand,
    PidState,
    SpeedParams,
    SpeedProfile,
    SpeedTarget,
    runaway_mps,
    speed_noise_mps,
    speed_step,
)
from vehicled.control.stop import brake_command, is_drivable
from vehicled.core.clamp import clamp
from vehicled.core.messages import ControlCommand, PlannedMotion, StateEstimate
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import MAX_DELAY_NS, Limits, Vehicle
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint, PathTracker

MAX_ESTIMATE_AGE_NS = 200_000_000
"""Longest prediction of an old estimate; the failsafe matrix handles older ones."""

WHEEL_TOLERANCE_RAD = 0.02
"""Wheel angle error at which the vehicle starts after a cusp: 2 cm cross-track after the first
metre, for a 0.5 m wheelbase."""

EXTRA_TURN_NS = 300_000_000
"""Timeout after a cusp, beyond the time for a turn from lock to lock; the vehicle then starts
anyway."""


class FollowerState(Struct, frozen=True, gc=False):
    """Input of a steering law."""

    estimate: StateEstimate
    here: PathPoint
    """Projection of the estimated pose."""
    ahead: Preview
    """Pose at which the command will act; the speed is signed."""
    dt_s: float
    """Time since the last step."""


class SteeringDemand(Struct, frozen=True, gc=False):
    """Output of a steering law."""

    wheel_rad: float
    speed_cap_mps: float = inf
    """Largest speed magnitude, whatever the speed profile allows; NaN brakes, and a negative one
    is 0."""
    throttle: float | None = None
    """Fraction of full drive in the direction of the leg, from a law that controls the speed
    itself; negative brakes."""
    hold: bool = False
    """True if the vehicle is to stand, held by its brake."""
    back_mps: float = 0.0
    """Speed at which the vehicle is to go back, against the direction of its leg; 0 if it is
    not."""


SPEED_RANGES: Mapping[str, tuple[float, float]] = {
    "speed.p": (0.0, 20.0),
    "speed.i": (0.0, 5.0),
    "speed.acceleration_mps2": (0.1, 5.0),
    "speed.deceleration_mps2": (0.1, 5.0),
}
"""Parameters of the speed control that may be changed during a run."""

CAP_MARGIN_RATIO = 0.05
CAP_MARGIN_MPS = 0.03
"""Margin below the speed cap, the smaller of the two: at the cap itself the gate would react to the
noise of the estimate."""


GRIP_RATIO = 0.97
"""Part of the lateral limit that is commanded: the gate judges the command by a newer speed."""
SLOW_MPS = 0.1
"""Speed below which the lateral limit does not matter."""


class PathFollower(Controller):
    """Base class of the path-following controllers: tracks progress, predicts over the delays,
    controls speed, stops at cusps.

    A subclass implements the steering law :meth:`steer`. With ``predicts`` the law sees the pose at
    which its command will act, and the command is slewed like the actuator; otherwise it sees the
    estimated pose, and the command is only limited.
    """

    predicts: ClassVar[bool] = True
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = SPEED_RANGES

    def __init__(
        self, speed: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float
    ) -> None:
        self._speed_params = speed
        self._period_s = period_s
        self._lateral_mps2 = limits.max_lateral_acceleration_mps2
        self.tracker = PathTracker(course)
        self.profile = SpeedProfile(speed, vehicle, limits, course)
        """Speed profile for the current vehicle parameters."""
        # Identification may change the delay up to the largest possible one.
        keep_ns = MAX_DELAY_NS + 2 * MAX_ESTIMATE_AGE_NS
        self._wheels: CommandHistory[float] = CommandHistory(0.0, keep_ns)
        self._observer = DriveObserver()
        self._drift = DriftAngle()
        self._demands: CommandHistory[Demand] = CommandHistory(Demand(0.0, 0.0), keep_ns)
        self.cap_mps = inf
        """Largest speed magnitude, a margin below the cap of :meth:`limit_speed`."""
        # Not through self: a subclass is not complete yet.
        PathFollower.adapt(self, vehicle)
        PathFollower.reset(self)

    def adapt(self, vehicle: Vehicle) -> None:
        self.vehicle = vehicle
        self.profile = self.profile.adapted(vehicle)
        steering = vehicle.steering
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)
        turn_s = steering.delay_s + 2.0 * steering.max_wheel_rad / steering.rate_radps
        self._longest_turn_ns = int(turn_s * 1e9) + EXTRA_TURN_NS

    def limit_speed(self, cap_mps: float) -> None:
        self.cap_mps = max((1.0 - CAP_MARGIN_RATIO) * cap_mps, cap_mps - CAP_MARGIN_MPS)

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        self.tracker.reset(s_m)
        self._wheels.clear(wheel_rad)
        self._demands.clear(Demand(0.0, 0.0))
        self._observer.reset()
        self._drift.reset()
        self._pid = PidState()
        self._target_mps = inf
        """Last target, m/s."""
        self._allowed_mps = self._by_law_mps = inf
        """The caps of others and of the steering law, or the speed during the deceleration to
        them."""
        self._back_mps = 0.0
        """Speed backward that the steering law asked for last."""
        self._leg = self.tracker.leg
        self._turning_since_ns: int | None = None
        self.command_rad = wheel_rad
        """Last commanded wheel angle."""
        self._wheel_rad = wheel_rad
        self._wheel_ns: int | None = None
        self._last_ns: int | None = None
        self._stepped_ns: int | None = None
        self._planned_from: tuple[StateEstimate, float] | None = None
        """Estimate and arc length of the last step that drove."""
        self._held = False

    @property
    def finished(self) -> bool:
        return self.tracker.finished

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        self._stepped_ns = now_ns
        self._planned_from = None
        if not is_drivable(estimate):
            return self._brake(estimate, now_ns)
        dt_s = self._elapsed_s(now_ns)
        here = self.tracker.update(estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps)
        age_ns = min(max(now_ns - estimate.t_ns, 0), MAX_ESTIMATE_AGE_NS)
        speed = self._speed_mps(estimate)
        runs_away = abs(speed) > runaway_mps(abs(self._target_mps))
        self._observer.observe(
            self.vehicle.drive,
            self._demands,
            now_ns - age_ns,
            speed,
            answers=self._pid.answers(self.vehicle.drive),
            runs_away=runs_away,
        )
        self._allowed_mps = self._slowed(self._allowed_mps, self.cap_mps, estimate.speed_mps, dt_s)
        steering = self.steer(
            FollowerState(estimate, here, self._ahead(estimate, now_ns, age_ns), dt_s)
        )
        if isnan(steering.speed_cap_mps):
            return self._brake(estimate, now_ns)
        wheel = self._slewed(steering.wheel_rad, estimate.speed_mps, dt_s)
        self._by_law_mps = self._slowed(
            self._by_law_mps, max(steering.speed_cap_mps, 0.0), estimate.speed_mps, dt_s
        )
        self._back_mps = steering.back_mps
        target, demand = self._drive(estimate, here.s_m, self._by_law_mps, now_ns, age_ns, dt_s)
        if steering.throttle is not None:
            # A law of its own knows nothing of a vehicle that its throttle does not move.
            demand = self._in_leg_direction(steering.throttle + abs(self._pid.breakaway))
        if (
            self.tracker.at_leg_end
            or self._wheels_turning(steering.wheel_rad, now_ns)
            or steering.hold
        ):
            target, demand = SpeedTarget(0.0, 0.0), Demand(0.0, 1.0)
        if steering.hold:
            # It has not been driven, so what the speed control has learned meanwhile is wrong.
            self._pid = PidState()
        if not (isfinite(wheel) and isfinite(demand.throttle) and isfinite(demand.brake)):
            return self._brake(estimate, now_ns)
        self.command_rad = wheel
        self._wheels.append(now_ns, wheel)
        self._demands.append(now_ns, demand)
        self._planned_from = estimate, here.s_m
        self._held = steering.hold or steering.back_mps > 0.0
        return ControlCommand(
            now_ns, estimate.newest_input_ns, wheel, demand.throttle, demand.brake,
            target.speed_mps, here.s_m, here.cross_track_m, here.heading_error_rad,
            here.curvature_per_m,
        )  # fmt: skip

    def planned_motion(self, now_ns: int) -> PlannedMotion | None:
        if self._planned_from is None:
            return None
        estimate, s_m = self._planned_from
        return motion_along(
            self.tracker,
            estimate.t_ns,
            s_m,
            max(self.tracker.direction * estimate.speed_mps, 0.0),
            self.planned_speed_mps,
            self._speed_params.acceleration_mps2,
            self.profile.deceleration_mps2,
            self.lateral_offset,
        )

    def planned_speed_mps(self, s_m: float) -> float:
        """Return the speed magnitude that is planned at an arc length ahead. A law whose cap
        depends on the place overrides this."""
        if self._held or self.tracker.finished:
            return 0.0
        profile_mps = abs(self.profile.at(s_m, self.tracker.leg).speed_mps)
        return min(profile_mps, self._allowed_mps, self._by_law_mps)

    @property
    def last_demand(self) -> Demand:
        """Throttle and brake last commanded."""
        return self._demands.at(NEVER_NS)

    def on_command_sent(self, throttle: float, brake: float) -> None:
        if self._stepped_ns is not None:
            self._demands.append(self._stepped_ns, Demand(throttle, brake))

    def overrule(self, wheel_rad: float, throttle: float, brake: float) -> None:
        """Record that another command than that of the last step was sent, so that the next
        prediction starts from it."""
        if self._stepped_ns is not None:
            self.command_rad = wheel_rad
            self._wheels.append(self._stepped_ns, wheel_rad)
            self._demands.append(self._stepped_ns, Demand(throttle, brake))

    def _brake(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Return the brake command for an unusable state, and record it for the next prediction."""
        self._wheels.append(now_ns, self.command_rad)
        self._demands.append(now_ns, Demand(0.0, 1.0))
        return brake_command(now_ns, estimate.newest_input_ns, self.command_rad)

    def _elapsed_s(self, now_ns: int) -> float:
        """Return the time since the last step, limited to a factor of five around the period."""
        last_ns, self._last_ns = self._last_ns, now_ns
        if last_ns is None:
            return self._period_s
        return clamp((now_ns - last_ns) * 1e-9, 0.2 * self._period_s, 5.0 * self._period_s)

    def _speed_mps(self, estimate: StateEstimate) -> float:
        """Return the estimated speed; not negative if the vehicle cannot reverse."""
        return (
            estimate.speed_mps
            if self.vehicle.drive.reverse_share > 0.0
            else max(0.0, estimate.speed_mps)
        )

    def _wheel_at(self, t_ns: int, delay_ns: int) -> float:
        """Return the wheel angle that acts on the path at ``t_ns``."""
        steering = self.vehicle.steering
        if self._wheel_ns is not None and t_ns > self._wheel_ns:
            target = self._wheels.at(t_ns - delay_ns)
            step_rad = steering.rate_radps * (t_ns - self._wheel_ns) * 1e-9
            self._wheel_rad = slew(self._wheel_rad, target, step_rad, steering.max_wheel_rad)
        self._wheel_ns = t_ns if self._wheel_ns is None else max(t_ns, self._wheel_ns)
        return self._wheel_rad

    def _motion_yaw(self, estimate: StateEstimate, t_ns: int, speed_mps: float) -> float:
        """Return the direction of motion of the rear axle, from tyre slip and the measured drift
        angle."""
        yaw = motion_yaw_rad(self.vehicle, estimate.yaw_rad, speed_mps, estimate.yaw_rate_radps)
        self._drift.observe(t_ns, estimate.x_m, estimate.y_m, yaw, speed_mps)
        return yaw + self._drift.angle_rad

    def _ahead(self, estimate: StateEstimate, now_ns: int, age_ns: int) -> Preview:
        start_ns, speed = now_ns - age_ns, self._speed_mps(estimate)
        delay_ns = int(path_delay_s(self.vehicle, speed) * 1e9)
        wheel = self._wheel_at(start_ns, delay_ns)
        if not self.predicts:
            return Preview(estimate.x_m, estimate.y_m, estimate.yaw_rad, speed, wheel)
        yaw = self._motion_yaw(estimate, start_ns, speed)
        start = Preview(estimate.x_m, estimate.y_m, yaw, speed, wheel)
        return predict_pose(self.vehicle, self._wheels, start, start_ns, age_ns + delay_ns)

    @abstractmethod
    def steer(self, state: FollowerState) -> SteeringDemand:
        """Return the wheel angle of the steering law, and its speed demand if it has one."""

    def _slewed(self, wheel_rad: float, speed_mps: float, dt_s: float) -> float:
        steering = self.vehicle.steering
        if not isfinite(wheel_rad):
            # Comparisons with NaN are false, so limiting it would give full lock.
            return wheel_rad
        if not self.predicts:
            return clamp(wheel_rad, -steering.max_wheel_rad, steering.max_wheel_rad)
        # The actuator slews no faster, and the command gate cuts what the tyres do not hold; the
        # prediction relies on commands that run ahead of neither.
        most_rad = steering.max_wheel_rad
        if abs(speed_mps) > SLOW_MPS:
            most_rad = min(
                most_rad, GRIP_RATIO * self.vehicle.grip_wheel_rad(self._lateral_mps2, speed_mps)
            )
        return slew(self.command_rad, wheel_rad, steering.rate_radps * dt_s, most_rad)

    def _wheels_turning(self, wanted_rad: float, now_ns: int) -> bool:
        """Return True while the vehicle waits at a cusp for its wheels to reach the angle of the
        new leg."""
        if self.tracker.leg != self._leg:
            self._leg = self.tracker.leg
            self._turning_since_ns = now_ns
        if self._turning_since_ns is None:
            return False
        lock = self.vehicle.steering.max_wheel_rad
        error_rad = abs(self._wheel_rad - clamp(wanted_rad, -lock, lock))
        if (
            error_rad <= WHEEL_TOLERANCE_RAD
            or now_ns - self._turning_since_ns > self._longest_turn_ns
        ):
            self._turning_since_ns = None
            self._pid = PidState()
        return self._turning_since_ns is not None

    def target(self, s_m: float) -> SpeedTarget:
        """Return the target of the speed profile at an arc length of the current leg, below the
        cap."""
        return self._below_cap(self.profile.at(s_m, self.tracker.leg))

    def _in_leg_direction(self, throttle: float) -> Demand:
        forward = self.tracker.direction > 0
        limit = 1.0 if forward else self.vehicle.drive.reverse_share
        magnitude = clamp(throttle, 0.0, limit)
        return Demand(magnitude if forward else -magnitude, clamp(-throttle, 0.0, 1.0))

    def _drive(
        self,
        estimate: StateEstimate,
        s_m: float,
        cap_mps: float,
        now_ns: int,
        age_ns: int,
        dt_s: float,
    ) -> tuple[SpeedTarget, Demand]:
        drive, direction = self.vehicle.drive, self.tracker.direction
        speed = self._speed_mps(estimate)
        horizon_ns = age_ns + self._drive_delay_ns
        surplus = self._observer.surplus_mps2
        later = predict_speed(drive, self._demands, speed, now_ns - age_ns, horizon_ns, surplus)
        travelled_m = 0.5 * (speed + later) * horizon_ns * 1e-9
        ahead_m = s_m + direction * travelled_m
        target = self.profile.at(ahead_m, self.tracker.leg)
        if abs(target.speed_mps) > cap_mps:
            target = SpeedTarget(direction * cap_mps, 0.0)
        creep_mps = self.profile.creep_mps(ahead_m)
        if abs(target.speed_mps) < creep_mps:
            target = SpeedTarget(direction * creep_mps, 0.0)
        if self._back_mps > 0.0:
            target = SpeedTarget(-direction * min(self._back_mps, self._allowed_mps), 0.0)
        else:
            target = self._below_cap(target)
        self._target_mps = target.speed_mps
        self._pid, demand = speed_step(
            self._speed_params, drive, self._pid, later, target, dt_s, surplus,
            now_mps=estimate.speed_mps, noise_mps=speed_noise_mps(estimate),
        )  # fmt: skip
        return target, demand

    def _slowed(self, allowed_mps: float, cap_mps: float, speed_mps: float, dt_s: float) -> float:
        """Return the speed allowed now: it falls to a cap at the planned rate.

        A cap can come in mid-turn, and a target that falls faster than the vehicle slows down looks
        as if a slope pushed it.
        """
        return max(
            min(allowed_mps, abs(speed_mps)) - self.profile.deceleration_mps2 * dt_s, cap_mps
        )

    def _below_cap(self, target: SpeedTarget) -> SpeedTarget:
        if abs(target.speed_mps) <= self._allowed_mps:
            return target
        direction = self.tracker.direction
        slowing_mps2 = self.profile.deceleration_mps2 if self._allowed_mps > self.cap_mps else 0.0
        return SpeedTarget(direction * self._allowed_mps, -direction * slowing_mps2)
