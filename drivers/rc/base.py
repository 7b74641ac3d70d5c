"""Common part of the drivers of RC receivers: what leaves them is :class:`RcChannels`, frame by
frame, in the receiver's own units.

A frame that the receiver marks as repeated or as its own failsafe is passed on with its mark: the
daemon never drives by it. What the channels mean is the profile's business, ``[rc]``.
"""

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from math import nan
from typing import Any, ClassVar

from vehicled.core.messages import Event, Message, PortState, RcChannels
from vehicled.core.ports import Action, Device, Send, Transport
from vehicled.core.wire.channels import TICKS, ChannelEnds
from vehicled.core.wire.usage import MessageUsage, Unused

CHANNELS = 16
BITS = 11
QUALITY_FRAMES = 100
"""Frames over which the link quality of a receiver that only marks lost frames is counted."""


def pack11(values: Sequence[int]) -> bytes:
    """Return 16 channels of 11 bits in 22 bytes, the lowest bits of the first channel first."""
    packed = 0
    for i, value in enumerate(values):
        packed |= (value & 0x7FF) << BITS * i
    return packed.to_bytes(CHANNELS * BITS // 8, "little")


def unpack11(data: bytes) -> tuple[float, ...]:
    """Return the channels of :func:`pack11`."""
    packed = int.from_bytes(data, "little")
    return tuple([float(packed >> BITS * i & 0x7FF) for i in range(CHANNELS)])


class RcDevice(Device):
    """Driver of a receiver that sends frames unasked. A subclass cuts the stream, and reads and
    encodes what is in a frame."""

    name: ClassVar[str] = "rc"
    """Name of its channel frames in the account of messages."""
    ends: ClassVar[ChannelEnds] = TICKS
    """Ends of a channel in its own units."""
    channels: ClassVar[int] = CHANNELS
    """Channels that it can carry."""
    checked: ClassVar[bool] = True
    """True if its frames have a checksum."""
    line: ClassVar[str] = ""
    """Options of a serial address that it needs."""

    Params: ClassVar[Any]
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (RcChannels, Event)
    consumes: tuple[type[Message], ...] = ()

    def __init__(
        self, params: Any, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self.params = params
        self.usage = MessageUsage()
        self._lifetime_ns = command_lifetime_ns
        self._tx: list[Action] = []
        self._lost: deque[bool] = deque(maxlen=QUALITY_FRAMES)
        self._newest: dict[type[Message], Message] = {}

    @abstractmethod
    def _clear(self) -> None:
        """Forget the bytes of an interrupted stream, and what came before it."""

    @abstractmethod
    def _read(self, data: bytes, t_ns: int) -> list[Message]:
        """Return the messages that ``data`` completes."""

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Begin anew on a new connection."""
        self._tx.clear()
        self._lost.clear()
        self._clear()
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found = self._read(data, t_rx_ns)
        return [*found, *self.usage.take_events(t_rx_ns, self.name)] if self.usage.news else found

    def on_command(self, command: Message, now_ns: int) -> None:
        """Keep the newest of what the handset is shown."""
        self._newest[type(command)] = command

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        sent, self._tx = self._tx, []
        return sent

    def _send(self, frame: bytes, now_ns: int) -> None:
        self._tx.append(Send(frame, now_ns + self._lifetime_ns, droppable=True))

    def _frame(
        self, channels: tuple[float, ...], t_ns: int, *, failsafe: bool = False, lost: bool = False
    ) -> RcChannels:
        """Return a frame of a receiver that only marks lost frames; its link quality is the
        fraction without the mark."""
        self._lost.append(lost)
        self._count(unusable=failsafe or lost)
        return RcChannels(
            t_ns, t_ns, channels, failsafe, lost, 1.0 - sum(self._lost) / len(self._lost)
        )

    def _count(self, *, unusable: bool) -> None:
        if unusable:
            self.usage.refuse("CHANNELS", Unused.INVALID, reported=True)
        else:
            self.usage.use("CHANNELS")


UNKNOWN = (nan,) * CHANNELS
"""Channels of a receiver that only says that it has none."""
