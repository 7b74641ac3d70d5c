"""Teleop reading, and the interface of the sources that provide it."""

from enum import Enum
from typing import Protocol

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


class ReadingSource(Protocol):
    """Source of teleop readings: keyboard, pad, steering wheel, or a web page."""

    name: str
    """Name for people, and origin of the readings."""

    @property
    def trouble(self) -> str:
        """Return why the source is permanently lost; empty while it works."""
        ...

    def read(self, now_ns: int) -> Reading:
        """Return the present reading. If the last input is too old, the deadman counts as released."""
        ...

    def drain_requests(self) -> list[TeleopRequestKind]:
        """Return the requests since the last call."""
        ...

    def let_go(self) -> None:
        """Require a release and a new press of the deadman, because the source was not read for a while."""
        ...

    def hint(self, now_ns: int) -> str:
        """Return how to hold the deadman, for the status line."""
        ...
