"""Alignment drive: slowly straight ahead without a pose, steered by the gyro alone."""

from typing import NamedTuple

from vehicled.control.speed import PidState, SpeedParams, Target, speed_step
from vehicled.messages import ControlCommand
from vehicled.vehicle import AlignmentParams, Vehicle

STEERING_GAIN = 0.3
"""Wheel angle per angle turned away. Small enough for a steering delay of 0.5 s at 1 m/s on a wheelbase of 0.3 m."""
STEERING_SHARE = 0.4
"""Largest share of the steering range that keeps the vehicle straight."""


class AlignmentInputs(NamedTuple):
    """What the drive rests on in one tick; speed and turn are measured, not estimated."""

    speed_mps: float
    """Not finite while neither wheels nor GNSS measure it: then the vehicle is braked."""
    turned_rad: float
    """Turned away from the direction in which the drive began, by the gyro; positive to the left."""
    speed_cap_mps: float
    newest_input_ns: int


class AlignmentDrive:
    """Holds speed and direction while the estimator learns the heading."""

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
        """Command of this tick."""
        before_ns, self._before_ns = self._before_ns, now_ns
        if not abs(inputs.speed_mps) < float("inf") or before_ns is None or now_ns <= before_ns:
            return ControlCommand(now_ns, inputs.newest_input_ns, 0.0, 0.0, 1.0)
        wanted_mps = min(self._params.speed_mps, inputs.speed_cap_mps)
        dt_s = (now_ns - before_ns) * 1e-9
        # Whether the sign of the wheels is right is judged elsewhere: the gate stops what moves against its drive.
        self._pid, demand = speed_step(
            self._speed, self._vehicle.drive, self._pid, abs(inputs.speed_mps), Target(wanted_mps, 0.0), dt_s
        )
        most_rad = STEERING_SHARE * self._vehicle.steering.max_wheel_rad
        wheel_rad = min(max(-STEERING_GAIN * inputs.turned_rad, -most_rad), most_rad)
        return ControlCommand(now_ns, inputs.newest_input_ns, wheel_rad, demand.throttle, demand.brake, target_speed_mps=wanted_mps)

    def stop(self, newest_input_ns: int, now_ns: int) -> ControlCommand:
        """Come to rest with straight wheels; the gate adds the brake of a controlled stop."""
        return ControlCommand(now_ns, newest_input_ns, 0.0, 0.0, 0.0, target_speed_mps=0.0)
