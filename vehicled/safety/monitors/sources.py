"""Which streams of measurements keep coming."""

from collections.abc import Sequence

from msgspec import Struct

from vehicled.messages import Message
from vehicled.ports import NEVER_NS


class Source(Struct, frozen=True, kw_only=True):
    """A stream of messages that must keep coming, and how long it may be silent."""

    name: str
    message: type[Message]
    silence_ns: int


class SourceMonitor:
    """When each kind of message last arrived."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._sources = tuple(sources)
        self._heard_ns: dict[type[Message], int] = {}

    def heard(self, kind: type[Message], t_rx_ns: int) -> None:
        """A usable message of that kind arrived."""
        # Two devices may give the same kind: the later arrival counts, in whatever order they are read.
        self._heard_ns[kind] = max(t_rx_ns, self._heard_ns.get(kind, t_rx_ns))

    def age_ns(self, kind: type[Message], now_ns: int) -> int:
        """Time since the last arrival; ``NEVER_NS`` when there was none."""
        heard_ns = self._heard_ns.get(kind)
        return NEVER_NS if heard_ns is None else now_ns - heard_ns

    def silent(self, now_ns: int) -> list[str]:
        """Names of the sources past their limit."""
        return [source.name for source in self._sources if self.age_ns(source.message, now_ns) > source.silence_ns]

    def promised(self, kind: type[Message]) -> bool:
        """Whether the profile promises such messages."""
        return any(source.message is kind for source in self._sources)
