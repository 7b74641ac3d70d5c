"""Monitor of the streams of measurements: their age and their rate."""

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from vehicled.core.messages import Message
from vehicled.core.ports import NEVER_NS

WINDOW = 50
"""Largest number of arrivals that a rate is computed from."""
FEWEST = 6
"""Smallest number of arrivals that a rate is computed from; with fewer, one late arrival would
weigh too much."""
GAP_NS = 1_000_000_000
"""Silence that counts as an outage and not as a low rate, ns; the arrivals before it are
dropped."""
LEAST_SHARE = 0.8
"""Fraction of the declared rate below which a stream counts as slow."""

AHEAD_NS = 10_000_000
"""Time by which the time of validity of a measurement may be in the future, ns: an error of the
mapping of the device's clock, which the filters allow."""
OLDEST_NS = 2_000_000_000
"""Largest age of a measurement that a filter can use, ns: the longest history."""


class MonitoredSource(Struct, frozen=True, kw_only=True):
    """A stream of messages that the profile declares, with its timeout."""

    name: str
    message: type[Message]
    silence_ns: int
    rate_hz: float = 0.0
    """Declared rate, Hz; 0 if none is declared."""


class Unread(Protocol):
    """Bytes of a port that its driver cannot read."""

    def described(self) -> str:
        """Return their number and what they look like; empty if there are few."""
        ...


class SourceMonitor:
    """Monitor of the last arrivals of each message type."""

    def __init__(self, sources: Sequence[MonitoredSource]) -> None:
        self._sources = tuple(sources)
        self.unread: Mapping[str, Unread] = {}
        """Bytes of silent sources that their drivers cannot read, by name."""
        self._promised = frozenset(source.message for source in sources)
        self._received_ns: dict[type[Message], int] = {}
        self._misdated_ns: dict[type[Message], int] = {}
        self._arrivals_ns: dict[type[Message], deque[int]] = {
            source.message: deque(maxlen=WINDOW) for source in sources if source.rate_hz > 0.0
        }

    def received(self, kind: type[Message], t_rx_ns: int) -> None:
        """Note the arrival of a usable message of a type."""
        # Two devices may send the same type: the later arrival counts, in any order of reading.
        before_ns = self._received_ns.get(kind, t_rx_ns)
        self._received_ns[kind] = t_rx_ns if t_rx_ns > before_ns else before_ns
        self._misdated_ns.pop(kind, None)
        arrivals_ns = self._arrivals_ns.get(kind)
        if arrivals_ns is not None:
            if t_rx_ns - before_ns > GAP_NS:
                arrivals_ns.clear()
            arrivals_ns.append(t_rx_ns)

    def misdated(self, kind: type[Message], age_ns: int) -> None:
        """Note a message with a time of validity that no filter uses: its source stays silent."""
        self._misdated_ns[kind] = age_ns

    def trouble(self, kind: type[Message]) -> str:
        """Return what is wrong with the messages of a silent type that arrive; empty if none do."""
        age_ns = self._misdated_ns.get(kind)
        if age_ns is None:
            return ""
        where = f"{-age_ns * 1e-9:.3g} s ahead" if age_ns < 0 else f"{age_ns * 1e-9:.3g} s ago"
        return f": those that arrive are dated {where}"

    def age_ns(self, kind: type[Message], now_ns: int) -> int:
        """Return the time since the last arrival; ``NEVER_NS`` before the first."""
        received_ns = self._received_ns.get(kind)
        return NEVER_NS if received_ns is None else now_ns - received_ns

    def silent(self, now_ns: int) -> list[str]:
        """Return the names of the sources whose timeout has expired."""
        return [
            source.name
            for source in self._sources
            if self.age_ns(source.message, now_ns) > source.silence_ns
        ]

    def slow(self) -> list[str]:
        """Return one text per message type that arrives at less than the declared rate of its
        sources together."""
        found = []
        for kind, arrivals_ns in self._arrivals_ns.items():
            sources = [source for source in self._sources if source.message is kind]
            promised_hz, took_ns = (
                sum(source.rate_hz for source in sources),
                arrivals_ns[-1] - arrivals_ns[0] if arrivals_ns else 0,
            )
            if (
                len(arrivals_ns) < FEWEST
                or (len(arrivals_ns) - 1) * 1e9 >= LEAST_SHARE * promised_hz * took_ns
            ):
                continue
            rate_hz = (len(arrivals_ns) - 1) * 1e9 / took_ns
            names = ", ".join(source.name for source in sources)
            found.append(
                f"{names}: {kind.__name__} comes at {rate_hz:.1f} Hz (promised {promised_hz:g} Hz)"
            )
        return found

    def promised(self, kind: type[Message]) -> bool:
        """Return True if the profile declares a source of this message type."""
        return kind in self._promised
