"""Linear path follower of the path-following study of 2024 ("pid" in its logs): throttle and
steering are linear in the error.

    throttle = .37013526 e1 + .00507144 e2 + .15476554 e3 + 1.0235402 e4
    steering = .02176878 e1 + .72672704 e2 + .78409284 e3 - .0105355 e4

e = (ahead, left, heading, speed), reference minus vehicle in the frame of the vehicle; the
reference is the point of the course nearest to the point 1.0 m ahead. Zhang et al. 2024, "A study
on the transferability and effectiveness of path following control policies synthesized in
simulation"; the coefficients reproduce every logged command. On the course e1 is about 1 m, so its
coefficient is the throttle for 1 m/s on their vehicle; on others the speed is off by as much as
that throttle differs.

Differences: the reference is searched near the progress, not in the whole course; the line
continues straight beyond its end; the speed target is that of the profile, which stops at the end;
reverse uses the same law in the frame of the motion. Published and kept: no prediction, no
integral, no brake except at the end, and no steering offset unless ``trim`` is set.
"""

from collections.abc import Mapping
from math import pi
from typing import ClassVar, NamedTuple

from msgspec import Struct, field

from vehicled.control.error_state import ErrorState, error_state, reference_ahead
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.speed import SpeedParams
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.paths.course import Course

Row = tuple[float, float, float, float]


class LinearParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Coefficients of the published law, and options."""

    throttle: Row = (0.37013526, 0.00507144, 0.15476554, 1.0235402)
    """Throttle, as a fraction of full drive, per m ahead, m left, rad and m/s."""
    steering: Row = (0.02176878, 0.72672704, 0.78409284, -0.0105355)
    """Steering, as a fraction of full lock, left positive, per the same errors."""
    trim: bool = False
    """Subtract the estimated steering offset, which otherwise causes a constant cross-track
    error."""
    look_ahead_m: Positive = 1.0
    """Distance of the point on the path that the errors are taken at, m."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed profile parameters; the law has its own speed gain."""


class CommandFractions(NamedTuple):
    """Fractions of full drive and of full steering, before limiting."""

    throttle: float
    steering: float


def law(params: LinearParams, errors: ErrorState) -> CommandFractions:
    """Return K e."""
    return CommandFractions(
        sum(k * e for k, e in zip(params.throttle, errors, strict=True)),
        sum(k * e for k, e in zip(params.steering, errors, strict=True)),
    )


class Linear(PathFollower):
    """Path follower with the published linear law.

    It commands fractions of full steering, so other vehicle parameters change only the wheel angle
    attributed to a command.
    """

    Params: ClassVar[type[LinearParams]] = LinearParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "look_ahead_m": (0.1, 20.0),
    }
    predicts: ClassVar[bool] = False

    def __init__(
        self,
        params: LinearParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._params = params
        super().__init__(params.speed, vehicle, limits, course, period_s)

    def steer(self, state: FollowerState) -> SteeringDemand:
        p, here, pose = self._params, state.here, state.ahead
        turned = 0.0 if here.direction > 0 else pi
        yaw = pose.yaw_rad + turned
        reference = reference_ahead(self.tracker, pose.x_m, pose.y_m, yaw, p.look_ahead_m)
        wanted_mps = abs(self.target(here.s_m).speed_mps)
        speed_mps = here.direction * pose.speed_mps
        errors = error_state(
            pose.x_m,
            pose.y_m,
            yaw,
            speed_mps,
            reference.x_m,
            reference.y_m,
            reference.yaw_rad + turned,
            wanted_mps,
        )
        throttle, steering = law(p, errors)
        # The command gate inverts this angle, which reproduces the command.
        wheel = self.vehicle.steering.wheel_angle_rad(
            here.direction * min(max(steering, -1.0), 1.0)
        )
        return SteeringDemand(
            wheel - (self.vehicle.steering.offset_rad if p.trim else 0.0),
            throttle=max(throttle, 0.0),
        )
