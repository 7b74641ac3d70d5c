"""Host side of a device that speaks our own messages: the simulated stand-in for any sensor or actuator."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr

from drivers.msglink.codec import Decoder, encode
from vehicled.messages import ALL, ActuatorCommand, Message, PortState
from vehicled.ports import NEVER_NS, Action, Send


class MsgLinkParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """There is nothing to set."""


class MsgLinkDevice:
    """Carries messages in both directions, unchanged but for the arrival stamp."""

    produces: ClassVar[tuple[type[Message], ...]] = ALL
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    quiet: ClassVar[bool] = True

    Params: ClassVar[type[MsgLinkParams]] = MsgLinkParams

    def __init__(self, params: MsgLinkParams, messages: Sequence[type[Message]], command_lifetime_ns: int) -> None:
        """Messages of other types than ``messages`` are counted and dropped; commands expire after ``command_lifetime_ns``."""
        self._decoder = Decoder()
        self._accepts = frozenset(messages)
        self._lifetime_ns = command_lifetime_ns
        self._tx: list[Action] = []
        self.unexpected = 0
        """Well-formed messages that have no business on this port."""

    @property
    def dropped_bytes(self) -> int:
        """Bytes that belonged to no whole frame."""
        return self._decoder.dropped_bytes

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """A new connection starts with a clean decoder: the old tail would only spoil the first frame."""
        if state is PortState.OPENED:
            self._decoder = Decoder()
        self._tx.clear()
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Messages completed by ``data``, stamped with their arrival."""
        messages = self._decoder.feed(data)
        accepted = []
        for message in messages:
            if type(message) not in self._accepts:
                self.unexpected += 1
                continue
            if hasattr(message, "t_rx_ns"):
                # Fresh from the decoder and not shared yet, so writing in place is safe and saves a copy at 400 Hz.
                force_setattr(message, "t_rx_ns", t_rx_ns)
            accepted.append(message)
        return accepted

    def on_command(self, command: Message, now_ns: int) -> None:
        """Queue a message."""
        self._tx.append(Send(encode(command), now_ns + self._lifetime_ns))

    def next_due_ns(self) -> int:
        """Has no duties of its own."""
        return NEVER_NS

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Nothing to do."""
        return ()

    def take_tx(self) -> Sequence[Action]:
        """Queued messages."""
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx
