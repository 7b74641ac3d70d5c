"""Driver of the native message link: the simulated counterpart of any sensor or actuator."""

from collections.abc import Sequence
from typing import ClassVar

from msgspec import Struct
from msgspec.structs import force_setattr

from drivers.msglink.codec import MsglinkDecoder, encode
from drivers.msglink.content import CHECKS
from drivers.neighbours import CONSUMED, OwnState
from vehicled.core.messages import (
    ALL,
    ActuatorCommand,
    Message,
    NeighbourState,
    PortState,
)
from vehicled.core.ports import NEVER_NS, Action, Device, Send
from vehicled.core.wire.usage import MessageUsage, Unused


class MsgLinkParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the message link; it has none."""


class MsgLinkDevice(Device):
    """Driver that carries messages in both directions, unchanged except for the arrival time."""

    produces: ClassVar[tuple[type[Message], ...]] = ALL
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    """A radio, which is a device with the message ``NeighbourState`` alone, also takes the
    estimate and the planned motion."""
    command_only: ClassVar[bool] = True

    Params: ClassVar[type[MsgLinkParams]] = MsgLinkParams

    def __init__(
        self, params: MsgLinkParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Drop messages of other types than ``messages``; commands expire after
        ``command_lifetime_ns``."""
        self._decoder = MsglinkDecoder()
        self._accepts = frozenset(messages)
        self._lifetime_ns = command_lifetime_ns
        self._tx: list[Action] = []
        self._radio = OwnState() if self._accepts == {NeighbourState} else None
        if self._radio is not None:
            self.consumes = CONSUMED
            self.command_only = False  # type: ignore[misc]  # its own state has a time of its own
        self.usage = MessageUsage()

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside complete frames."""
        return self._decoder.dropped_bytes

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Reset the decoder on a new connection, because the old partial frame would spoil the
        first one."""
        if state is PortState.OPENED:
            self._decoder = MsglinkDecoder()
        self._tx.clear()
        if self._radio is not None:
            self._radio.begin(now_ns)
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        unknown = self._decoder.unknown_frames
        messages = self._decoder.feed(data)
        accepted: list[Message] = []
        usage = self.usage
        for message in messages:
            kind = type(message)
            if kind not in self._accepts:
                usage.refuse(kind.__name__, Unused.NOT_WANTED)
                continue
            check = CHECKS.get(kind)
            if check is not None and (field := check(message)):
                usage.refuse(kind.__name__, Unused.OUT_OF_RANGE, field)
                continue
            usage.use(kind.__name__)
            if hasattr(message, "t_rx_ns"):
                # The message is not shared yet, so writing in place is safe and saves a copy at 400
                # Hz.
                force_setattr(message, "t_rx_ns", t_rx_ns)
            accepted.append(message)
        for _ in range(self._decoder.unknown_frames - unknown):
            usage.refuse("frame", Unused.UNREADABLE, "name, version or fields")
        if usage.news:
            accepted += usage.take_events(t_rx_ns, "msglink")
        return accepted

    def on_command(self, command: Message, now_ns: int) -> None:
        if self._radio is None:
            self._tx.append(Send(encode(command), now_ns + self._lifetime_ns))
        else:
            self._radio.on_command(command)

    def next_due_ns(self) -> int:
        return NEVER_NS if self._radio is None else self._radio.due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        if self._radio is not None and (state := self._radio.take(now_ns)) is not None:
            self._tx.append(Send(encode(state), now_ns + self._lifetime_ns))
        return ()

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx
