"""Codec of the radio between vehicles: one broadcast in one datagram. Specification: NOTES.md.

Datagram: ``"VV" | version u8 | content``; the content is a msgpack array.
"""

from math import inf

from msgspec import MsgspecError, Struct, msgpack

from vehicled.core.messages import NeighbourState

MAGIC = b"VV"
VERSION = 1
HEAD = MAGIC + bytes([VERSION])
MAX_BYTES = 4096
"""Longest datagram that is decoded."""
MAX_RECEIPTS = 16
"""Most receipts of one broadcast; with more neighbours they take turns."""


class Receipt(Struct, frozen=True, array_like=True):
    """Newest broadcast of another vehicle that the sender has received."""

    name: str
    began_ns: int
    """Start of the radio of the other vehicle, on its clock."""
    sent_ns: int
    """Time at which it was sent, on the clock of the other vehicle."""
    received_ns: int
    """Time at which it arrived, on the clock of the sender of the receipt."""


class Broadcast(Struct, frozen=True, array_like=True):
    """Content of a datagram. All times but those of receipts are on the clock of the sender."""

    fleet: str
    sender: str
    began_ns: int
    """Time at which the radio of the sender began: distinguishes two vehicles of one name, and a
    vehicle before and after a restart."""
    sent_ns: int
    state: NeighbourState
    receipts: list[Receipt] = []


class V2vError(ValueError):
    """Datagram that is no broadcast; the text names what is wrong."""


_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(Broadcast).decode


def encode(broadcast: Broadcast) -> bytes:
    """Return the datagram."""
    return HEAD + _encode(broadcast)


def decode(data: bytes) -> Broadcast:
    """Return the content of a datagram. Raises :class:`V2vError`."""
    if not data.startswith(MAGIC):
        raise V2vError("magic")
    if data[2:3] != HEAD[2:]:
        raise V2vError("version")
    if len(data) > MAX_BYTES:
        raise V2vError("length")
    try:
        return _decode(data[len(HEAD) :])
    except (MsgspecError, ValueError, RecursionError):
        raise V2vError("content") from None


class ClockOffset:
    """Bounds of the difference between the own clock and that of another vehicle.

    No message arrives before it is sent. So each one from there gives an upper bound of the
    difference, and each receipt of one from here a lower bound. They are at most one round trip
    apart. Both are those of the last one to two windows, because clocks drift.
    """

    WINDOW_NS = 10_000_000_000

    def __init__(self) -> None:
        self._begun_ns: int | None = None
        self._lower: list[float] = [-inf, -inf]
        self._upper: list[float] = [inf, inf]

    def observe(self, now_ns: int, upper_ns: float = inf, lower_ns: float = -inf) -> None:
        """Take bounds of the own time minus the other's, ns."""
        if self._begun_ns is None or now_ns - self._begun_ns > self.WINDOW_NS:
            self._begun_ns = now_ns
            self._lower, self._upper = [-inf, self._lower[0]], [inf, self._upper[0]]
        self._lower[0] = max(self._lower[0], lower_ns)
        self._upper[0] = min(self._upper[0], upper_ns)

    @property
    def lower_ns(self) -> float:
        """Largest lower bound; minus infinity without one."""
        return max(self._lower)

    @property
    def round_trip_ns(self) -> float:
        """Upper minus lower bound: the shortest round trip; negative if the bounds contradict each
        other."""
        return min(self._upper) - self.lower_ns
