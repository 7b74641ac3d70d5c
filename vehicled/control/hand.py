"""Driving by hand: a reading of the stick as a command."""

from vehicled.messages import ControlCommand, TeleopCommand
from vehicled.vehicle import Vehicle


def hand_command(reading: TeleopCommand, vehicle: Vehicle, now_ns: int) -> ControlCommand:
    """What the hand wants, in physical terms: full deflection is the mechanical stop. A deadman let go is the brake.

    Values out of range are left to the gate to cut and count.
    """
    if not reading.deadman:
        return ControlCommand(now_ns, reading.t_ns, 0.0, 0.0, 1.0)
    wheel_rad = reading.steering * vehicle.steering.max_wheel_rad
    return ControlCommand(now_ns, reading.t_ns, wheel_rad, reading.throttle, reading.brake)
