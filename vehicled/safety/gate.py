"""The command gate: the last pure function before the actuators, outside every controller.

It replaces what is not finite by the brake, cuts what is out of range, holds the lateral acceleration limit, drives against the
motion at a crawl only, carries out the reaction in force and turns the wheel angle into the actuator's command. It adds no delay.
"""

from math import atan, inf, isfinite

from vehicled.messages import ActuatorCommand, ControlCommand, Mode, Reaction
from vehicled.vehicle import Limits, Vehicle

CLIPPED_STEERING = 1
CLIPPED_THROTTLE = 2
CLIPPED_BRAKE = 4
NOT_FINITE = 8

CONTROLLED_STOP_BRAKE = 0.5
"""Share of the brake for a stop on the path."""

CRAWL_MPS = 0.15
"""Faster than this the drive is not turned round: brake first. Above the error of an estimate at rest."""

_MOVING = (Mode.AUTO, Mode.TELEOP, Mode.STOPPING)


class Gate:
    """Keeps the last wheel angle, so that a stop holds the wheel instead of jerking it straight."""

    def __init__(self, vehicle: Vehicle, limits: Limits) -> None:
        self._vehicle = vehicle
        self._limits = limits
        self._wheel_angle_rad = 0.0
        self.clipped_total = 0
        """Commands that had to be cut or replaced since start."""

    def adapt(self, vehicle: Vehicle) -> None:
        """Map wheel angles to commands with these parameters from now on."""
        self._vehicle = vehicle

    def apply(
        self,
        command: ControlCommand | None,
        speed_mps: float,
        mode: Mode,
        reaction: Reaction,
        now_ns: int,
        newest_input_ns: int,
        *,
        cap_mps: float = inf,
        releases_brake: bool = False,
    ) -> ActuatorCommand:
        """The command for the actuators. ``command`` None or a mode that does not drive gives a stop; never raises, never NaN.

        ``cap_mps`` is the speed beyond which nothing drives; ``releases_brake`` turns a disabled drive's brake into no current.
        """
        clipped = 0
        throttle, brake, wheel = 0.0, 1.0, self._wheel_angle_rad
        if command is not None:
            if isfinite(command.wheel_angle_rad) and isfinite(command.throttle) and isfinite(command.brake):
                throttle, brake, wheel = command.throttle, command.brake, command.wheel_angle_rad
            else:
                clipped |= NOT_FINITE
        if reaction >= Reaction.BRAKE or mode not in _MOVING:
            throttle, brake = 0.0, 0.0 if releases_brake and reaction is Reaction.DISABLE else 1.0
        elif reaction is Reaction.CONTROLLED_STOP or mode is Mode.STOPPING:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
        if not abs(speed_mps) <= min(cap_mps, self._limits.max_speed_mps):
            # Also true for NaN: an unknown speed is no licence to accelerate.
            throttle = 0.0
        reverse_share = self._vehicle.drive.reverse_share
        # A vehicle that cannot reverse moves backward by itself only, and its drive may be all that stops it.
        if reverse_share > 0.0 and throttle * speed_mps < 0.0 and abs(speed_mps) > CRAWL_MPS:
            throttle, brake = 0.0, max(brake, CONTROLLED_STOP_BRAKE)
            clipped |= CLIPPED_THROTTLE

        limit = self._wheel_limit_rad(abs(speed_mps))
        if abs(wheel) > limit:
            wheel = limit if wheel > 0.0 else -limit
            clipped |= CLIPPED_STEERING
        cut_throttle, cut_brake = min(1.0, max(throttle, -reverse_share)), min(1.0, max(0.0, brake))
        clipped |= (CLIPPED_THROTTLE if cut_throttle != throttle else 0) | (CLIPPED_BRAKE if cut_brake != brake else 0)
        steering = self._vehicle.steering
        sent = steering.command(wheel)
        self._wheel_angle_rad = wheel
        self.clipped_total += clipped != 0
        return ActuatorCommand(
            now_ns,
            newest_input_ns,
            cut_throttle,
            cut_brake,
            sent,
            steering.wheel_angle_rad(sent),
            mode,
            reaction,
            clipped,
        )

    def _wheel_limit_rad(self, speed_mps: float) -> float:
        """Largest wheel angle at a size of speed: the mechanical stop, and v^2 tan(angle) / wheelbase within the lateral limit."""
        mechanical = self._vehicle.steering.max_wheel_rad
        if not speed_mps > 0.1:
            return mechanical
        curvature = self._limits.max_lateral_acceleration_mps2 / (speed_mps * speed_mps)
        return min(mechanical, atan(self._vehicle.wheelbase_m * curvature))
