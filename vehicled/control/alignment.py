"""Alignment drive: drive slowly straight ahead on the gyro alone until the estimator knows the
heading."""

from typing import NamedTuple

from vehicled.control.speed import PidState, SpeedParams, SpeedTarget, speed_step
from vehicled.core.messages import ControlCommand
from vehicled.core.vehicle import AlignmentParams, Vehicle

STEERING_GAIN = 0.3
"""Wheel angle per angle turned, stable for a steering delay of 0.5 s at 1 m/s and a wheelbase of
0.3 m."""
STEERING_FRACTION = 0.4
"""Largest fraction of the steering range used to keep the vehicle straight."""


class AlignmentInputs(NamedTuple):
    """Inputs of one tick; speed and turn are measured, not estimated."""

    speed_mps: float
    """Speed, m/s; not finite while neither wheels nor GNSS measure it, in which case the vehicle
    brakes."""
    turned_rad: float
    """Gyro angle since the drive began, rad, counter-clockwise positive."""
    speed_cap_mps: float
    newest_input_ns: int


class AlignmentDrive:
    """Controller of the alignment drive: holds speed and direction while the estimator learns the
    heading."""

    def __init__(self, params: AlignmentParams, speed: SpeedParams, vehicle: Vehicle) -> None:
        self._params = params
        self._speed = speed
        self._vehicle = vehicle
        self._pid = PidState()
        self._before_ns: int | None = None

    def begin(self) -> None:
        """Forget the last drive."""
        self._pid, self._before_ns = PidState(), None

    def step(self, inputs: AlignmentInputs, now_ns: int) -> ControlCommand:
        """Return the command of this tick."""
        before_ns, self._before_ns = self._before_ns, now_ns
        if not abs(inputs.speed_mps) < float("inf") or before_ns is None or now_ns <= before_ns:
            return ControlCommand(now_ns, inputs.newest_input_ns, 0.0, 0.0, 1.0)
        wanted_mps = min(self._params.speed_mps, inputs.speed_cap_mps)
        dt_s = (now_ns - before_ns) * 1e-9
        # The command gate checks the sign of the wheel speed: it stops a vehicle that moves against
        # its drive.
        self._pid, demand = speed_step(
            self._speed,
            self._vehicle.drive,
            self._pid,
            abs(inputs.speed_mps),
            SpeedTarget(wanted_mps, 0.0),
            dt_s,
        )
        most_rad = STEERING_FRACTION * self._vehicle.steering.max_wheel_rad
        wheel_rad = min(max(-STEERING_GAIN * inputs.turned_rad, -most_rad), most_rad)
        return ControlCommand(
            now_ns,
            inputs.newest_input_ns,
            wheel_rad,
            demand.throttle,
            demand.brake,
            target_speed_mps=wanted_mps,
        )

    def stop(self, newest_input_ns: int, now_ns: int) -> ControlCommand:
        """Return a command that stops with straight wheels; the gate adds the brake of a controlled
        stop."""
        return ControlCommand(now_ns, newest_input_ns, 0.0, 0.0, 0.0, target_speed_mps=0.0)
