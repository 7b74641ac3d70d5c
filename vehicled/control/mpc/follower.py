"""Base class of the model-predictive controllers: corrects its predictions when the vehicle
parameters are wrong."""

from math import isfinite, tan

from msgspec.structs import replace

from vehicled.control.path_follower import PathFollower
from vehicled.control.preview import Preview, path_delay_s, predict_pose, predict_speed
from vehicled.control.speed import Demand, SpeedParams, SpeedTarget
from vehicled.core.messages import NAN, StateEstimate
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import MAX_DELAY_NS, Limits, Steering, Vehicle
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory
from vehicled.paths.course import Course


class WheelHistory(CommandHistory[float]):
    """History of wheel angles, stored as the normalised commands sent; parameters identified later
    change the angles of past commands too."""

    def __init__(self, steering: Steering, keep_ns: int) -> None:
        super().__init__(steering.command(0.0), keep_ns)
        self.steering = steering

    def append(self, t_ns: int, value: float) -> None:
        """Record the wheel angle commanded from ``t_ns`` on."""
        super().append(t_ns, self.steering.command(value))

    def at(self, t_ns: int) -> float:
        """Return the wheel angle of the command in force at ``t_ns``."""
        lock = self.steering.max_wheel_rad
        return min(max(self.steering.wheel_angle_rad(super().at(t_ns)), -lock), lock)

    def latest(self) -> float:
        """Return the wheel angle of the newest command."""
        return self.at(NEVER_NS)

    def clear(self, initial: float) -> None:
        """Forget all commands; assume that the wheel angle ``initial`` was commanded."""
        super().clear(self.steering.command(initial))


class CurvatureScale:
    """Ratio of the measured curvature to that of the model.

    Least squares through the origin with exponential forgetting, and a prior of 1 worth one second
    of ``PRIOR_PER_M``: on straights the ratio returns to 1, and yaw rate noise does not move it.
    """

    PRIOR_PER_M = 0.1
    LOWEST, HIGHEST = 0.4, 2.5
    MIN_SPEED_MPS = 0.3
    """Speed below which the ratio of yaw rate to speed is noise, m/s."""

    def __init__(self, memory_s: float) -> None:
        """Set the time constant; with ``memory_s`` 0 the scale is always 1."""
        self._memory_s = memory_s
        self._product = self._square = 0.0

    def reset(self) -> None:
        """Forget all measurements."""
        self._product = self._square = 0.0

    def observe(
        self, model_per_m: float, yaw_rate_radps: float, speed_mps: float, dt_s: float
    ) -> None:
        """Add the curvature of the model and the measurement. A yaw rate that is not finite is
        ignored."""
        if not (
            isfinite(yaw_rate_radps)
            and abs(speed_mps) > self.MIN_SPEED_MPS
            and self._memory_s > 0.0
        ):
            return
        keep = max(0.0, 1.0 - dt_s / self._memory_s)
        # Limit implausible measurements, so that they do not outweigh all others.
        measured = min(max(yaw_rate_radps / speed_mps, -10.0), 10.0)
        self._product = keep * self._product + model_per_m * measured * dt_s
        self._square = keep * self._square + model_per_m * model_per_m * dt_s

    def rebase(self, ratio: float) -> None:
        """Rescale past measurements because the model's curvatures changed by the factor
        ``ratio``."""
        self._product *= ratio
        self._square *= ratio * ratio

    @property
    def value(self) -> float:
        """Scale within its bounds."""
        prior = self.PRIOR_PER_M * self.PRIOR_PER_M
        return min(max((self._product + prior) / (self._square + prior), self.LOWEST), self.HIGHEST)


class MpcPathFollower(PathFollower):
    """Path follower with a command history that survives parameter changes, corrected yaw response,
    predicted speed, and rate-limited throttle and brake.

    ``turning`` is the vehicle with the effective wheelbase that explains the measured turns; it is
    replaced when that changes by ``NOTABLE``.
    """

    NOTABLE = 0.01

    def __init__(
        self,
        speed: SpeedParams,
        memory_s: float,
        rate_per_s: float,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._rate_per_s = rate_per_s
        self._scale = CurvatureScale(memory_s)
        self._history = WheelHistory(vehicle.steering, 2 * MAX_DELAY_NS)
        self.turning = vehicle
        super().__init__(speed, vehicle, limits, course, period_s)
        self._wheels = self._history
        self.command_rad = self._history.latest()
        self._renew()

    def adapt(self, vehicle: Vehicle) -> None:
        super().adapt(vehicle)
        before = self._history.steering.gain_rad
        self._history.steering = vehicle.steering
        self.command_rad = self._history.latest()
        self._scale.rebase(vehicle.steering.gain_rad / before)
        self._renew()

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._history.clear(wheel_rad)
        self._scale.reset()
        self._renew()

    def _renew(self, speed_mps: float = 0.0) -> None:
        self.turning = replace(
            self.vehicle, wheelbase_m=self._base_m(speed_mps), understeer_rad_per_mps2=0.0
        )

    def _base_m(self, speed_mps: float) -> float:
        return self.vehicle.effective_wheelbase_m(speed_mps) / self._scale.value

    def _ahead(self, estimate: StateEstimate, now_ns: int, age_ns: int) -> Preview:
        speed = self._speed_mps(estimate)
        delay_ns = int(path_delay_s(self.vehicle, speed) * 1e9)
        start_ns, horizon_ns = now_ns - age_ns, age_ns + delay_ns
        wheel = self._wheel_at(start_ns, delay_ns)
        self._scale.observe(
            tan(wheel) / self.vehicle.effective_wheelbase_m(speed),
            estimate.yaw_rate_radps,
            speed,
            self._period_s,
        )
        if (
            abs(self._base_m(speed) - self.turning.wheelbase_m)
            > self.NOTABLE * self.turning.wheelbase_m
        ):
            self._renew(speed)
        later = predict_speed(
            self.vehicle.drive,
            self._demands,
            speed,
            start_ns,
            horizon_ns,
            self._observer.surplus_mps2,
        )
        yaw = self._motion_yaw(estimate, start_ns, speed)
        start = Preview(estimate.x_m, estimate.y_m, yaw, 0.5 * (speed + later), wheel)
        return replace(
            predict_pose(self.turning, self._wheels, start, start_ns, horizon_ns), speed_mps=later
        )

    def _slewed(self, wheel_rad: float, speed_mps: float, dt_s: float) -> float:
        # The slew would limit NaN to full lock; it must stay NaN, for the brake.
        return super()._slewed(wheel_rad, speed_mps, dt_s) if isfinite(wheel_rad) else NAN

    def _drive(
        self,
        estimate: StateEstimate,
        s_m: float,
        cap_mps: float,
        now_ns: int,
        age_ns: int,
        dt_s: float,
    ) -> tuple[SpeedTarget, Demand]:
        target, wanted = super()._drive(estimate, s_m, cap_mps, now_ns, age_ns, dt_s)
        step, last = self._rate_per_s * dt_s, self._demands.at(NEVER_NS)
        if wanted.brake > 0.0:
            # Remove the drive at once, so that it never works against the brake.
            return target, Demand(0.0, slew(last.brake, wanted.brake, step, 1.0))
        return target, Demand(slew(last.throttle, wanted.throttle, step, 1.0), 0.0)
