"""State of a rule that trips, and the link that a trip adds to the chain of causes."""

from msgspec import Struct

from vehicled.core.messages import Reaction
from vehicled.safety.reason import Reason


class CauseLink(Struct, frozen=True):
    """One link of the chain of causes, which begins when the vehicle is armed."""

    t_ns: int
    reaction: Reaction
    reason: Reason

    @property
    def code(self) -> str:
        """Code of the reason."""
        return self.reason.code


class Trip:
    """State of one rule: about to trip, tripped, or about to clear."""

    __slots__ = ("gone_ns", "reason", "since_ns", "tripped")

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.tripped = False
        self.reason = Reason("")
        self.gone_ns: int | None = None
