"""Delay compensation: predict pose and speed at the time when a new command takes effect."""

from math import cos, isfinite, sin, tan

from msgspec import Struct

from vehicled.control.speed import Demand
from vehicled.core.vehicle import Drive, Vehicle
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory

MAX_STEPS = 8
"""Largest number of prediction steps; 50 ms each at a delay of 0.4 s."""

MIN_STEP_NS = 5_000_000
SPEED_STEP_NS = 50_000_000


class Preview(Struct, frozen=True, gc=False):
    """Predicted pose of the rear axle, with its wheel angle."""

    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    wheel_rad: float

    def turned(self, by_rad: float) -> "Preview":
        """Return the same place with another yaw, for a law that works in the direction of
        motion."""
        return Preview(self.x_m, self.y_m, self.yaw_rad + by_rad, self.speed_mps, self.wheel_rad)


def path_delay_s(vehicle: Vehicle, speed_mps: float) -> float:
    """Return the time from a command to the path of the rear axle: steering delay plus tyre
    response at this speed."""
    return vehicle.steering.delay_s + vehicle.path_lag_s_per_mps * abs(speed_mps)


def motion_yaw_rad(
    vehicle: Vehicle, yaw_rad: float, speed_mps: float, yaw_rate_radps: float
) -> float:
    """Return the direction of motion of the rear axle (its opposite in reverse), from the slip of a
    steady turn.

    A yaw rate that is not finite counts as 0.
    """
    slip = vehicle.rear_slip_rad_per_mps2
    return (
        yaw_rad - slip * abs(speed_mps) * yaw_rate_radps
        if slip > 0.0 and isfinite(yaw_rate_radps)
        else yaw_rad
    )


def predict_pose(
    vehicle: Vehicle, commands: CommandHistory[float], start: Preview, t_ns: int, horizon_ns: int
) -> Preview:
    """Return the pose ``horizon_ns`` after ``t_ns``, from the single-track model and the wheel
    angles already commanded.

    ``start`` is the pose at ``t_ns`` with the wheel angle that bends the path then. Each command
    acts after :func:`path_delay_s`, slewed. With tyre slip, yaw is the direction of motion.
    Constant speed, negative in reverse; midpoint rule. All inputs must be finite.
    """
    if horizon_ns <= 0:
        return start
    steering, wheelbase_m = vehicle.steering, vehicle.effective_wheelbase_m(start.speed_mps)
    rate, lock, at = steering.rate_radps, steering.max_wheel_rad, commands.at
    step_ns = max(horizon_ns // MAX_STEPS + 1, MIN_STEP_NS)
    x, y, yaw, v, wheel = start.x_m, start.y_m, start.yaw_rad, start.speed_mps, start.wheel_rad
    acting_ns = t_ns - int(path_delay_s(vehicle, start.speed_mps) * 1e9)
    left_ns = horizon_ns
    while left_ns > 0:
        dt_ns = step_ns if step_ns < left_ns else left_ns
        dt = dt_ns * 1e-9
        after = slew(wheel, at(acting_ns + dt_ns // 2), rate * dt, lock)
        distance = v * dt
        half_turn = 0.5 * distance * tan(0.5 * (wheel + after)) / wheelbase_m
        x += distance * cos(yaw + half_turn)
        y += distance * sin(yaw + half_turn)
        yaw += 2.0 * half_turn
        wheel = after
        acting_ns += dt_ns
        left_ns -= dt_ns
    return Preview(x, y, yaw, v, wheel)


def predict_speed(
    drive: Drive,
    demands: CommandHistory[Demand],
    speed_mps: float,
    t_ns: int,
    horizon_ns: int,
    surplus_mps2: float = 0.0,
) -> float:
    """Return the speed ``horizon_ns`` after ``t_ns`` under the demands already made, each acting
    after the drive delay.

    Euler integration; motion in either direction ends at standstill. ``surplus_mps2`` is added to
    the model's acceleration while the vehicle moves.
    """
    delay_ns = int(drive.delay_s * 1e9)
    v, done_ns = speed_mps, 0
    while done_ns < horizon_ns:
        left_ns = horizon_ns - done_ns
        dt_ns = left_ns if left_ns < SPEED_STEP_NS else SPEED_STEP_NS
        demand = demands.at(t_ns + done_ns + dt_ns // 2 - delay_ns)
        acceleration = drive.acceleration_mps2(demand.throttle, v, demand.brake)
        if v != 0.0:
            acceleration += surplus_mps2
        v = drive.settled_mps(v, v + acceleration * dt_ns * 1e-9, demand.throttle)
        done_ns += dt_ns
    return v
