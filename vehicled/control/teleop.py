"""Teleoperation: converts a reading of the input device into a command."""

from vehicled.core.messages import ControlCommand, TeleopCommand
from vehicled.core.vehicle import Vehicle


def teleop_command(reading: TeleopCommand, vehicle: Vehicle, now_ns: int) -> ControlCommand:
    """Return the command for a teleop reading; full deflection is the mechanical stop. A released
    deadman brakes.

    The command gate limits and counts values out of range.
    """
    if not reading.deadman:
        return ControlCommand(now_ns, reading.t_ns, 0.0, 0.0, 1.0)
    wheel_rad = reading.steering * vehicle.steering.max_wheel_rad
    return ControlCommand(now_ns, reading.t_ns, wheel_rad, reading.throttle, reading.brake)
