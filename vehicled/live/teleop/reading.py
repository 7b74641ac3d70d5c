"""Teleop reading, and the interface of the sources that provide it."""

from enum import Enum

from msgspec import Struct


class Reading(Struct, frozen=True, gc=False):
    """One teleop reading, as sent to the daemon."""

    steering: float = 0.0
    """Steering, -1 to 1, positive left."""
    throttle: float = 0.0
    """Throttle, -1 to 1; negative reverses."""
    brake: float = 0.0
    """Brake, 0 to 1."""
    deadman: bool = False
    """True while the deadman is held; without it the vehicle brakes."""


RELEASED = Reading()
"""Reading with the deadman released."""


class TeleopRequestKind(Enum):
    """Request by a key or button."""

    TAKE = "take"
    """Arm the vehicle, then start teleop."""
    STOP = "stop"
    EMERGENCY = "emergency_stop"
    LEAVE = "leave"
    """Disarm and end."""
