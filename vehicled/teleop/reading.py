"""What a hand does at one instant, and what can be asked for its opinion."""

from enum import Enum
from typing import Protocol

from msgspec import Struct


class Reading(Struct, frozen=True, gc=False):
    """One reading of a hand, as the daemon takes it."""

    steering: float = 0.0
    """-1 to 1, positive left."""
    throttle: float = 0.0
    """-1 to 1; negative drives backward."""
    brake: float = 0.0
    """0 to 1."""
    deadman: bool = False
    """Held. Without it everything else is the brake."""


LET_GO = Reading()
"""Nobody holds anything."""


class Wish(Enum):
    """What a key or a button asks for besides driving."""

    TAKE = "take"
    """Arm, then drive by hand."""
    STOP = "stop"
    EMERGENCY = "emergency_stop"
    LEAVE = "leave"
    """Disarm and end."""


class Source(Protocol):
    """A stick: keyboard, pad, wheel, a page in a browser."""

    name: str
    """For people, and the origin of its readings."""

    @property
    def trouble(self) -> str:
        """Why it is gone for good, empty while it is there."""
        ...

    def read(self, now_ns: int) -> Reading:
        """What the hand does now. Never what it did before: evidence that is too old is a deadman let go."""
        ...

    def take_wishes(self) -> list[Wish]:
        """What was asked for since the last call."""
        ...

    def let_go(self) -> None:
        """Forget what is held, because nobody watched for a while. It counts again when it is let go and held anew."""
        ...

    def hint(self, now_ns: int) -> str:
        """What holds the deadman, in words, for the status line."""
        ...
