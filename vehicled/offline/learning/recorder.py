"""Records features and commands of a drive, live or from its log, exactly as a policy would have
computed them there."""

from collections.abc import Sequence
from math import copysign, inf, isfinite

import numpy as np
from msgspec import Struct

from vehicled.control.interface import Controller
from vehicled.control.path_follower import FollowerState, PathFollower, SteeringDemand
from vehicled.control.policy.features import FeatureInputs, FeatureVector
from vehicled.control.speed import SpeedParams
from vehicled.core.arrays import Array
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    ControlLevel,
    Identification,
    LaserScan,
    Message,
    Mode,
    ModeChange,
    Reaction,
    StateEstimate,
)
from vehicled.core.vehicle import STANDSTILL_MPS, Limits, Vehicle
from vehicled.estimation.control_frame import ControlFrame
from vehicled.paths.course import Course
from vehicled.profile.registry import resolve
from vehicled.profile.schema import Profile

TYPES: tuple[type[Message], ...] = (
    StateEstimate,
    ControlCommand,
    ActuatorCommand,
    Identification,
    ModeChange,
    LaserScan,
)
"""Messages that a recorder needs, in their order in the drive."""
MAX_OFFSET_M = 5.0
"""Rows further from the course are left out: a person drove elsewhere."""
EXPERT_LEVELS = (ControlLevel.PRIMARY,)
DRIVEN = (Mode.AUTO, Mode.TELEOP)


class StepRow(Struct, frozen=True):
    """One control step."""

    t_s: float
    features: list[float]
    throttle: float
    """Fraction of full drive in the direction of the leg; negative for the brake."""
    steering: float
    """Fraction of full steering, positive left."""
    wheel_angle_rad: float


class FeatureFollower(PathFollower):
    """Path follower that records the features of each step and repeats a given command."""

    def __init__(
        self, vector: FeatureVector, look_ahead_m: float, predicts: bool,
        speed: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float,
    ) -> None:  # fmt: skip
        self._vector, self._look_ahead_m = vector, look_ahead_m
        self.predicts = predicts  # type: ignore[misc]  # as the policy that is to be trained
        self.features: Array = np.full(vector.width, np.nan)
        """Features of the last step, (width,); NaN if the state could not be used."""
        self.scan: LaserScan | None = None
        super().__init__(speed, vehicle, limits, course, period_s)

    def steer(self, state: FollowerState) -> SteeringDemand:
        self._vector.fill(FeatureInputs(self, state, self._look_ahead_m, self.scan), self.features)
        return SteeringDemand(self.command_rad, throttle=0.0)


class StepRecorder:
    """Makes the rows of one drive from its messages, in their order."""

    def __init__(
        self,
        profile: Profile,
        course: Course,
        vector: FeatureVector,
        *,
        look_ahead_m: float = 1.0,
        predicts: bool = True,
        period_s: float = 0.1,
        expert: str = "",
    ) -> None:
        """``period_s``: least time between two rows. ``expert``: controller that says what it would
        have done instead of what was done; empty for what was done."""
        self.rows: list[StepRow] = []
        self.far = 0
        """Rows left out because the vehicle was elsewhere."""
        self._profile, self._course = profile, course
        self._period_ns = round(period_s * 1e9)
        step_s = 1.0 / profile.tasks.control.rate_hz
        speed = getattr(profile.controller.selected, "speed", None) or SpeedParams()
        self._follower = FeatureFollower(
            vector, look_ahead_m, predicts, speed, profile.vehicle, profile.limits, course, step_s
        )
        self._expert = _expert(expert, profile, course, step_s) if expert else None
        self._frame = ControlFrame(profile.control_frame)
        self._mode = Mode.INIT
        self._estimate: StateEstimate | None = None
        self._begins = False
        self._pending: tuple[ControlCommand, ControlCommand | None] | None = None
        self._start_ns: int | None = None
        self._kept_ns = -(2**62)
        self._wheel_rad = self._commanded_rad = 0.0
        self.by_hand = False
        """True if a person drove any of it."""

    def record(self, message: Message, now_ns: int) -> None:
        """Take the next message."""
        if isinstance(message, StateEstimate):
            self._estimate = message
        elif isinstance(message, ControlCommand):
            self._step(message)
        elif isinstance(message, ActuatorCommand):
            self._sent(message)
        elif isinstance(message, ModeChange):
            self._mode = message.after
            self._begins = self._mode in DRIVEN
        elif isinstance(message, Identification):
            vehicle = self._profile.vehicle.identified(message)
            self._follower.adapt(vehicle)
            if self._expert is not None:
                self._expert.adapt(vehicle)
        elif isinstance(message, LaserScan):
            self._follower.scan = message
            if self._expert is not None:
                self._expert.on_scan(message)

    def _step(self, command: ControlCommand) -> None:
        estimate = self._estimate
        if estimate is None:
            return
        if self._begins:
            self._begin(command, estimate)
        seen = self._frame.step(estimate)
        self._follower.features.fill(np.nan)
        self._follower.step(seen, command.t_ns)
        advice = self._expert.step(seen, command.t_ns) if self._expert is not None else None
        self._pending, self._commanded_rad = (command, advice), command.wheel_angle_rad

    def _begin(self, command: ControlCommand, estimate: StateEstimate) -> None:
        """Start as the controller did: on the course where it began, or for a person at the nearest
        place."""
        self._begins = False
        s_m = command.progress_m if self._mode is Mode.AUTO else self._nearest_m(estimate)
        s_m_or_start = s_m if isfinite(s_m) else None
        self._follower.reset(s_m_or_start, self._wheel_rad)
        if self._expert is not None:
            self._expert.reset(s_m_or_start, self._wheel_rad)
        self._frame.reset()

    def _nearest_m(self, estimate: StateEstimate) -> float:
        course = self._course
        return float(
            course.s_m[np.argmin(np.hypot(course.x_m - estimate.x_m, course.y_m - estimate.y_m))]
        )

    def _sent(self, sent: ActuatorCommand) -> None:
        self._wheel_rad = sent.wheel_angle_rad
        by_hand = sent.mode is Mode.TELEOP
        self.by_hand = self.by_hand or by_hand
        if self._pending is not None:
            self._label(*self._pending, sent, by_hand=by_hand)
            self._pending = None
        # Actuation may run more often than control; the last command before the next step counts.
        wheel = sent.wheel_angle_rad if by_hand else self._commanded_rad
        for follower in (self._follower, self._expert):
            if isinstance(follower, PathFollower):
                follower.overrule(wheel, sent.throttle, sent.brake)
            elif follower is not None:
                follower.on_command_sent(sent.throttle, sent.brake)

    def _label(
        self,
        command: ControlCommand,
        advice: ControlCommand | None,
        sent: ActuatorCommand,
        *,
        by_hand: bool,
    ) -> None:
        """Keep the row of a step with what was, or should have been, commanded."""
        direction = self._follower.tracker.direction
        if advice is not None:
            label, throttle, brake = advice.wheel_angle_rad, advice.throttle, advice.brake
            usable = advice.level in EXPERT_LEVELS
        elif by_hand:
            label, throttle, brake, usable = sent.wheel_angle_rad, sent.throttle, sent.brake, True
        else:
            label, throttle, brake = command.wheel_angle_rad, command.throttle, command.brake
            usable = command.level in EXPERT_LEVELS
        if usable and sent.mode in DRIVEN and sent.reaction <= Reaction.WARN:
            self._keep(command.t_ns, label, direction * throttle - brake)

    def _keep(self, t_ns: int, wheel_rad: float, throttle: float) -> None:
        follower, estimate = self._follower, self._estimate
        self._start_ns = t_ns if self._start_ns is None else self._start_ns
        # A slightly early step counts, because steps are not an exact multiple of every period.
        if (
            t_ns - self._kept_ns < self._period_ns - 1_000_000
            or follower.tracker.at_leg_end
            or estimate is None
        ):
            return
        if not np.isfinite(follower.features).all():
            return
        if abs(estimate.speed_mps) < STANDSTILL_MPS and throttle <= 0.0:
            return  # a person who has not started yet
        here = follower.tracker.locate(estimate.x_m, estimate.y_m, estimate.yaw_rad)
        if not abs(here.cross_track_m) <= MAX_OFFSET_M:
            self.far += 1
            return
        self._kept_ns = t_ns
        turned = copysign(1.0, follower.tracker.direction)
        steering = turned * follower.vehicle.steering.command(wheel_rad)
        self.rows.append(
            StepRow(
                (t_ns - self._start_ns) * 1e-9,
                follower.features.tolist(),
                throttle,
                steering,
                turned * wheel_rad,
            )
        )


def _expert(name: str, profile: Profile, course: Course, period_s: float) -> Controller:
    kind = resolve("controller", name)
    params = profile.controller.params.get(name) or kind.Params()
    made: Controller = kind(params, profile.vehicle, profile.limits, course, period_s)
    made.limit_speed(inf)
    return made


def columns(rows: Sequence[StepRow], width: int) -> dict[str, Array]:
    """Return the rows as arrays: ``t_s`` (n,), ``features`` (n, width), ``throttle``, ``steering``,
    ``wheel_angle_rad`` (n,)."""
    return {
        "t_s": np.array([row.t_s for row in rows]),
        "features": np.array([row.features for row in rows]).reshape(len(rows), width),
        "throttle": np.array([row.throttle for row in rows]),
        "steering": np.array([row.steering for row in rows]),
        "wheel_angle_rad": np.array([row.wheel_angle_rad for row in rows]),
    }
