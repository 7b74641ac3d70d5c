"""Driver of a plain corrections source: a radio modem on a serial port, or a base that serves RTCM
over TCP."""

from collections.abc import Sequence
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.rtcm.feed import CorrectionFeed, FeedProtocol
from drivers.rtcm.watch import StallWatch
from vehicled.core.messages import Corrections, Event, Fault, Message, PortState, Reaction
from vehicled.core.ports import Action, Device, Reopen, Transport


class RtcmParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a plain corrections source."""

    origin: Annotated[str, Meta(min_length=1, max_length=40)] = "rtcm"
    """Name of the source in the log."""
    protocol: FeedProtocol = "rtcm"
    """Protocol of the corrections. SPARTN is for u-blox receivers with ``spartn = true``, and so is
    ``pmp``, the RXM-PMP messages of a satellite receiver such as NEO-D9S."""
    stall_s: Annotated[float, Meta(ge=0.0, le=3600.0)] = 20.0
    """Silence after which the port is reopened, s; doubled after each failure, up to 300 s. 0:
    never."""


class RtcmDevice(Device):
    """Driver that outputs each frame as one :class:`Corrections`; it sends nothing."""

    Params: ClassVar = RtcmParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (Corrections, Fault, Event)
    consumes: tuple[type[Message], ...] = ()

    def __init__(
        self, params: RtcmParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """Produce the types in ``messages`` that the profile expects; commands do not exist."""
        self._params = params
        self._origin = params.origin
        self._feed = CorrectionFeed(params.origin, Corrections in messages, params.protocol)
        self.usage = self._feed.usage
        self._watch = StallWatch(round(params.stall_s * 1e9))
        self._stalled = ""
        self._tx: list[Action] = []

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Start the stall timeout when the port opens; stop it when the port is lost."""
        self._tx.clear()
        self._feed.reset()
        if state is PortState.OPENED:
            self._watch.expect(now_ns)
        else:
            self._watch.stop()
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        before = self._feed.frames
        messages = self._feed.feed(data, t_rx_ns)
        return self._on_frame(messages, t_rx_ns) if self._feed.frames > before else messages

    def on_command(self, command: Message, now_ns: int) -> None:
        """Ignore commands."""

    def next_due_ns(self) -> int:
        return min(self._watch.due_ns, self._feed.due_ns)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Reopen the port after a stall."""
        messages: list[Message] = []
        if self._feed.due_ns <= now_ns:
            before = self._feed.frames
            messages += self._feed.on_silence()
            if self._feed.frames > before:
                messages = self._on_frame(messages, now_ns)
        if self._watch.due_ns <= now_ns:
            name = {"rtcm": "RTCM 3", "spartn": "SPARTN", "pmp": "RXM-PMP"}[self._params.protocol]
            reason = f"no {name} message for {self._watch.timeout_ns / 1e9:.0f} s"
            self._watch.expire()
            self._tx.append(Reopen(reason))
            if not self._stalled:
                self._stalled = reason
                messages.append(
                    Fault(now_ns, "corrections_stalled", self._origin, Reaction.WARN, True, reason)
                )
        return messages

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    def _on_frame(self, messages: list[Message], t_ns: int) -> list[Message]:
        self._watch.on_frame(t_ns)
        if self._stalled:
            cleared = f"corrections flow again after: {self._stalled}"
            messages.insert(
                0, Fault(t_ns, "corrections_stalled", self._origin, Reaction.WARN, False, cleared)
            )
            self._stalled = ""
        return messages
