"""Model-predictive steering controller: plans the motion of the next two seconds in every tick,
within limits and with delays.

* The state is predicted to the time when the command takes effect
  (:mod:`vehicled.control.preview`).
* A linear time-varying program about the predicted motion gives the wheel angles
  (:mod:`vehicled.control.mpc.plan`, :mod:`vehicled.control.mpc.qp`), with hard angle and rate
  limits and a soft corridor.
* The measured yaw rate corrects the modelled curvature (:mod:`vehicled.control.mpc.follower`): for
  the seconds until identification converges, and for slopes and tyres that it cannot model.
* The fallback chain (:mod:`vehicled.control.fallback_chain`) covers ticks without a solution.

A PID with feed-forward holds the speed profile, and the plan takes the resulting speeds as given.
One program over both would plan throttle for a time already past, because throttle and wheel act
after different delays (0.1 s and 0.4 s on the ART); to first order speed does not move a single
track sideways; and the PID has the integral that friction, slope and battery need. Throttle and
brake are limited in rate. Only the idea follows Unjhawala et al. 2023
(:mod:`vehicled.offline.replications.published.mpc`).
"""

from collections.abc import Mapping
from math import pi
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from vehicled.control.fallback_chain import (
    FallbackChain,
    FallbackParams,
    PlannerResult,
    pursuit_wheel_rad,
)
from vehicled.control.mpc.follower import MpcPathFollower
from vehicled.control.mpc.path import drive_at, legs
from vehicled.control.mpc.plan import PlanLimits, PlanStart, SteeringPlanner
from vehicled.control.mpc.qp import CostWeights, HorizonQp
from vehicled.control.mpc.qp_solver import DaqpSolver, OsqpSolver, Solver
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.control.stop import is_drivable
from vehicled.core.messages import ControlCommand, ControlReason, StateEstimate
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course


class MpcParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the controller. Weights are of squares, relative to that of a wheel turn of 1 rad
    per stage."""

    stages: Annotated[int, Meta(ge=5, le=100)] = 20
    """Number of stages, N."""
    stage_s: Annotated[float, Meta(ge=0.02, le=1.0)] = 0.125
    """Duration of a stage, s. The horizon should cover a turn from lock to lock and then one
    turning radius."""
    weight_left: Positive = 1.0
    """Weight of the cross-track error, rad^2/m^2."""
    weight_yaw: NonNegative = 0.2
    """Weight of the heading error. It damps; too much suppresses the angle needed to correct a
    cross-track error."""
    weight_slack: Positive = 100.0
    """Weight of the corridor violation, rad^2/m^2."""
    weight_last: Positive = 5.0
    """Factor on the errors at the end of the horizon."""
    backend: Literal["osqp", "daqp"] = "osqp"
    """Solver of the quadratic programme."""
    iterations: Annotated[int, Meta(ge=10, le=100_000)] = 350
    """Iteration limit of the solver; the fallback chain takes over when it is reached."""
    step_size: Positive = 2.0
    """OSQP's rho at the start of every program; choose the root of weight_left. Half of it is
    faster in the median and twice as slow at worst."""
    turn_memory_s: NonNegative = 4.0
    """Time constant of the yaw rate correction, s; 0 disables it and trusts the model."""
    throttle_rate_per_s: Positive = 5.0
    """Largest rate of throttle and brake, in fractions of full per second."""
    ladder: FallbackParams = field(default_factory=FallbackParams)
    """Durations of the fallback levels."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed profile, and speed control of the fallback levels."""


class Mpc(MpcPathFollower):
    """Model-predictive steering controller, with PID speed control."""

    Params: ClassVar[type[MpcParams]] = MpcParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "weight_left": (0.01, 100.0),
        "weight_yaw": (0.0, 100.0),
        "weight_slack": (1.0, 10_000.0),
        "weight_last": (0.1, 100.0),
    }

    def __init__(
        self, params: MpcParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float
    ) -> None:
        self._params, self._limits = params, limits
        super().__init__(
            params.speed,
            params.turn_memory_s,
            params.throttle_rate_per_s,
            vehicle,
            limits,
            course,
            period_s,
        )
        horizon_s = params.stages * params.stage_s
        self._course, self._planned_profile = course, self.profile
        self._legs = legs(course, self.profile, limits.max_speed_mps * horizon_s)
        program = HorizonQp(
            params.stages,
            CostWeights(
                params.weight_left, params.weight_yaw, params.weight_slack, params.weight_last
            ),
        )
        solver: Solver
        if params.backend == "osqp":
            solver = OsqpSolver(program, params.iterations, params.step_size)
        else:
            solver = DaqpSolver(program, params.iterations)
        self._planner = SteeringPlanner(program, solver, params.stage_s)
        self._chain = FallbackChain(params.ladder)
        self.adapt(vehicle)
        self.reset()

    def adapt(self, vehicle: Vehicle) -> None:
        super().adapt(vehicle)
        if self.profile is not self._planned_profile:
            self._planned_profile = self.profile
            drive_at(self._legs, self._course, self.profile)
        self._set_envelope()

    def _set_envelope(self) -> None:
        vehicle = self._turning = self.turning
        steering = vehicle.steering
        # A small gain may not reach the stop, and an offset shifts the reachable range.
        lock = steering.max_wheel_rad
        lowest = max(-lock, steering.wheel_angle_rad(-1.0))
        highest = min(lock, steering.wheel_angle_rad(1.0))
        self._envelope = PlanLimits(
            wheelbase_m=vehicle.wheelbase_m,
            lowest_wheel_rad=min(lowest, highest),
            highest_wheel_rad=max(lowest, highest),
            rate_radps=steering.rate_radps,
            lateral_mps2=self._limits.max_lateral_acceleration_mps2,
            lateral_wheelbase_m=min(vehicle.wheelbase_m, self.vehicle.wheelbase_m),
            acceleration_mps2=self._params.speed.acceleration_mps2,
            deceleration_mps2=self._params.speed.deceleration_mps2,
            corridor_m=self._limits.corridor_m,
        )

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._planner.forget()
        self._chain.reset()
        self._late = False

    def on_deadline_miss(self) -> None:
        """Steer by the last plan in the next step instead of computing a new one."""
        self._late = True

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        if not is_drivable(estimate):
            self._level = self._chain.stop(ControlReason.STATE_UNUSABLE)
        command = super().step(estimate, now_ns)
        level = self._level
        return replace(command, level=level.level, reason=level.reason, iterations=level.iterations)

    def steer(self, state: FollowerState) -> SteeringDemand:
        if self.turning is not self._turning:
            self._set_envelope()
        attempt = self._attempt(state)
        self._level = self._chain.choose(
            attempt, lambda: self._pursue(state.ahead), state.dt_s, state.dt_s
        )
        # On STOP the angle is NaN, and the base class then brakes.
        return SteeringDemand(self._level.wheel_rad)

    def _attempt(self, state: FollowerState) -> PlannerResult:
        stage_s = self._params.stage_s
        if self._late:
            self._late = False
            return PlannerResult(None, stage_s, ControlReason.LATE)
        tracker, ahead = self.tracker, state.ahead
        projection = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        if not abs(projection.heading_error_rad) <= pi:
            return PlannerResult(None, stage_s, ControlReason.NOT_FINITE)
        # Commands never run ahead of the slewing wheel, so it has reached the last command when
        # this one takes effect.
        start = PlanStart(
            ahead.x_m, ahead.y_m, ahead.yaw_rad, ahead.speed_mps, self.command_rad, self.cap_mps
        )
        found = self._planner.step(
            self._legs[tracker.leg], projection.s_m, start, self._envelope, state.dt_s
        )
        return PlannerResult(found.wheel_rad, stage_s, found.reason, found.iterations)

    def _pursue(self, ahead: Preview) -> float:
        """Return the wheel angle of the pure pursuit level, which needs no solver."""
        angle = pursuit_wheel_rad(
            self._params.ladder, self.tracker, self._turning.wheelbase_m,
            ahead.x_m, ahead.y_m, ahead.yaw_rad, ahead.speed_mps,
        )  # fmt: skip
        return min(max(angle, self._envelope.lowest_wheel_rad), self._envelope.highest_wheel_rad)
