"""Model-predictive steering: the whole motion of the next two seconds, limits and delays included, chosen anew at every tick.

* The state is predicted to the time when the command will act, through the commands on their way (:mod:`vehicled.control.preview`).
* From there a linear time-varying program about the predicted motion finds the turns of the wheel
(:mod:`vehicled.control.mpc_plan`, :mod:`vehicled.control.qp`): angle and rate limits hard, the corridor soft. * How much further or
less the vehicle turns than believed is followed from its yaw rate (:mod:`vehicled.control.mpc_follower`), which bridges the seconds
until an identifier knows better, and slopes and tyres that it will never know. * The anytime ladder
(:mod:`vehicled.control.ladder`) answers for the ticks in which it finds none.

Speed is held by PID with feed-forward on the profile, and the plan takes the speeds that follow from it as given. Throttle and
wheel act after different delays (0.1 s and 0.4 s on the ART), so one program over both would plan the throttle for a time that has
passed already; to first order the speed of a single track does not move it sideways; and the PID has the integral that friction,
slope and battery call for, and knows how to start, creep and stop. Throttle and brake are limited in rate.

After Unjhawala et al. 2023 (:mod:`vehicled.control.mpc_published`) in the idea only.
"""

from math import pi
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from vehicled.control.ladder import Attempt, Ladder, LadderParams, pursuit_wheel_rad
from vehicled.control.mpc_follower import MpcPathFollower
from vehicled.control.mpc_path import drive_at, legs
from vehicled.control.mpc_plan import Envelope, Start, SteeringPlanner
from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.qp import HorizonQp, Weights
from vehicled.control.qp_solver import DaqpSolver, OsqpSolver, Solver
from vehicled.control.speed import SpeedParams
from vehicled.control.stop import is_drivable
from vehicled.messages import ControlCommand, ControlReason, StateEstimate
from vehicled.paths.course import Course
from vehicled.vehicle import Limits, NonNegative, Positive, Vehicle


class MpcParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. Weights are of squares, over that of a turn of the wheel by 1 rad per stage."""

    stages: Annotated[int, Meta(ge=5, le=100)] = 20
    """N."""
    stage_s: Annotated[float, Meta(ge=0.02, le=1.0)] = 0.125
    """The horizon, stages times this, should cover a turn from lock to lock and one turning radius of way."""
    weight_left: Positive = 1.0
    """Cross-track error, rad^2/m^2."""
    weight_yaw: NonNegative = 0.2
    """Heading error. Damps; too much of it forbids the angle under which an error is driven off."""
    weight_slack: Positive = 100.0
    """Leaving the corridor, rad^2/m^2."""
    weight_last: Positive = 5.0
    """Factor on the errors at the end of the horizon."""
    backend: Literal["osqp", "daqp"] = "osqp"
    iterations: Annotated[int, Meta(ge=10, le=100_000)] = 350
    """Bound of the solver; the ladder answers when it is reached."""
    step_size: Positive = 2.0
    """OSQP's rho at the start of every program. Half of it is faster in the median and twice as slow at its worst. Choose it as the
    root of weight_left."""
    turn_memory_s: NonNegative = 4.0
    """How far back the yaw rate counts against the belief; 0 to trust the belief."""
    throttle_rate_per_s: Positive = 5.0
    """Change of throttle, and of brake, in shares of full per second."""
    ladder: LadderParams = field(default_factory=LadderParams)
    speed: SpeedParams = field(default_factory=SpeedParams)


class Mpc(MpcPathFollower):
    """Model-predictive controller of the steering, with PID control of the speed."""

    Params: ClassVar[type[MpcParams]] = MpcParams

    def __init__(self, params: MpcParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        self._params, self._limits = params, limits
        super().__init__(params.speed, params.turn_memory_s, params.throttle_rate_per_s, vehicle, limits, course, period_s)
        horizon_s = params.stages * params.stage_s
        self._course, self._planned_profile = course, self.profile
        self._legs = legs(course, self.profile, limits.max_speed_mps * horizon_s)
        program = HorizonQp(params.stages, Weights(params.weight_left, params.weight_yaw, params.weight_slack, params.weight_last))
        solver: Solver
        if params.backend == "osqp":
            solver = OsqpSolver(program, params.iterations, params.step_size)
        else:
            solver = DaqpSolver(program, params.iterations)
        self._planner = SteeringPlanner(program, solver, params.stage_s)
        self._ladder = Ladder(params.ladder)
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
        # A small gain may not reach the stop, and an offset shifts what it does reach.
        lock = steering.max_wheel_rad
        lowest = max(-lock, steering.wheel_angle_rad(-1.0))
        highest = min(lock, steering.wheel_angle_rad(1.0))
        self._envelope = Envelope(
            wheelbase_m=vehicle.wheelbase_m,
            lowest_wheel_rad=min(lowest, highest),
            highest_wheel_rad=max(lowest, highest),
            rate_radps=steering.rate_radps,
            lateral_mps2=self._limits.max_lateral_acceleration_mps2,
            acceleration_mps2=self._params.speed.acceleration_mps2,
            deceleration_mps2=self._params.speed.deceleration_mps2,
            corridor_m=self._limits.corridor_m,
        )

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._planner.forget()
        self._ladder.reset()
        self._late = False

    def on_deadline_miss(self) -> None:
        """Steer by the last plan in the next step, instead of computing another."""
        self._late = True

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        if not is_drivable(estimate):
            self._rung = self._ladder.stop(ControlReason.STATE_UNUSABLE)
        command = super().step(estimate, now_ns)
        rung = self._rung
        return replace(command, level=rung.level, reason=rung.reason, iterations=rung.iterations)

    def _steer(self, state: FollowerState) -> SteeringDemand:
        if self.turning is not self._turning:
            self._set_envelope()
        attempt = self._attempt(state)
        self._rung = self._ladder.choose(attempt, lambda: self._pursue(state.ahead), state.dt_s, state.dt_s)
        # On STOP the angle is NaN, which the base class answers with the brake.
        return SteeringDemand(self._rung.wheel_rad)

    def _attempt(self, state: FollowerState) -> Attempt:
        stage_s = self._params.stage_s
        if self._late:
            self._late = False
            return Attempt(None, stage_s, ControlReason.LATE)
        tracker, ahead = self.tracker, state.ahead
        foot = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        if not abs(foot.heading_error_rad) <= pi:
            return Attempt(None, stage_s, ControlReason.NOT_FINITE)
        # Commands never run ahead of the slewing wheel, so when this one begins to act the wheel has reached the one before.
        start = Start(ahead.x_m, ahead.y_m, ahead.yaw_rad, ahead.speed_mps, self.command_rad, self.cap_mps)
        found = self._planner.step(self._legs[tracker.leg], foot.s_m, start, self._envelope, state.dt_s)
        return Attempt(found.wheel_rad, stage_s, found.reason, found.iterations)

    def _pursue(self, ahead: Preview) -> float:
        """The rung of the ladder that needs no solver."""
        angle = pursuit_wheel_rad(
            self._params.ladder, self.tracker, self._turning.wheelbase_m,
            ahead.x_m, ahead.y_m, ahead.yaw_rad, ahead.speed_mps,
        )  # fmt: skip
        return min(max(angle, self._envelope.lowest_wheel_rad), self._envelope.highest_wheel_rad)
