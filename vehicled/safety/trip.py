"""A rule on its way through a trip, and what a trip leaves behind."""

from msgspec import Struct

from vehicled.messages import Reaction


class Link(Struct, frozen=True):
    """One link of the chain of causes since the vehicle was armed."""

    t_ns: int
    code: str
    reaction: Reaction
    reason: str


class Trip:
    """A rule on its way to tripping, tripped, or on its way to clearing."""

    __slots__ = ("gone_ns", "reason", "since_ns", "tripped")

    def __init__(self, since_ns: int) -> None:
        self.since_ns = since_ns
        self.tripped = False
        self.reason = ""
        self.gone_ns: int | None = None
