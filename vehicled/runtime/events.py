"""Log of events for people: one line per episode through structlog, as text on a terminal or as JSON for the system journal."""

import select
import sys
from typing import Any, TextIO, cast

from vehicled.core.events import LoopBlocked, ObserverFailed, SimulationStall
from vehicled.core.messages import Event, Fault, Message, ModeChange, PortEvent, PortState, Reaction
from vehicled.core.plain_text import printable
from vehicled.core.safe_text import raw
from vehicled.core.simulation_events import StallReports
from vehicled.core.wire.usage import warning_of

TYPES: tuple[type[Message], ...] = (Fault, ModeChange, PortEvent, Event)
"""Message types that are reported."""


class NonBlockingStream:
    """Text stream that drops lines rather than block the loop, since a terminal may be paused or a pipe full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        """Number of dropped lines."""

    def write(self, text: str) -> None:
        """Write if that is possible at once."""
        try:
            if select.select([], [self._stream], [], 0)[1]:
                self._stream.write(text)
                self._stream.flush()
                return
        except (OSError, ValueError):
            pass
        self.lost += 1

    def flush(self) -> None:
        """Do nothing, because writes are flushed at once."""


class EventLog:
    """Turns faults and port events into log lines."""

    def __init__(self, stream: TextIO | None = None, *, json: bool | None = None, quiet: bool = False, ready: bool = True) -> None:
        """Take the stream. ``json`` None: JSON unless the stream is a terminal. ``quiet``: only warnings. Unless ``ready``,
        structlog is loaded with the first line, because loading takes a third of a second, mostly for nothing in lockstep.
        """
        self._out = raw(stream or sys.stderr)
        self._json = not self._out.isatty() if json is None else json
        self._quiet = quiet
        self._block_reported = False
        self._stalls = StallReports()
        self._made: Any = self._make() if ready else None

    def _make(self) -> Any:
        import structlog

        renderers: list[Any] = [structlog.processors.TimeStamper(fmt="iso"), structlog.processors.JSONRenderer()]
        if not self._json:
            renderers = [structlog.dev.ConsoleRenderer(colors=self._out.isatty(), pad_event_to=0)]
        return structlog.wrap_logger(
            structlog.WriteLogger(cast(TextIO, NonBlockingStream(self._out))),
            processors=[structlog.processors.add_log_level, *renderers],
            wrapper_class=structlog.make_filtering_bound_logger(20),
        )

    def _say(self, warning: bool, text: str, **facts: Any) -> None:
        if self._quiet and not warning:
            return
        self._made = self._made or self._make()
        shown = {name: printable(fact) if isinstance(fact, str) else fact for name, fact in facts.items()}
        (self._made.warning if warning else self._made.info)(printable(text), **shown)

    def _say_event(self, event: Event) -> None:
        if (stall := SimulationStall.read(event)) is not None:
            if text := self._stalls.add(stall, event.t_ns * 1e-9):
                self._say(True, text)
        elif (failed := ObserverFailed.read(event)) is not None:
            self._say(True, f"{failed.observer} failed: {failed.error}; the drive goes on without it")
        elif text := warning_of(event):
            self._say(True, text)
        elif (block := LoopBlocked.read(event)) is not None and block.plugin and not self._block_reported:
            # Once: the log has them all.
            self._block_reported = True
            self._say(True, f"{block.plugin} held the loop: it was still running after {block.after_ms:.0f} ms")

    def record(self, message: Message, log_time_ns: int) -> None:
        """Report a fault, mode change, stall or port event."""
        if isinstance(message, Fault):
            grave = message.active and message.reaction >= Reaction.CAP_SPEED
            self._say(grave, message.reason, code=message.code, reaction=message.reaction.name.lower(), active=message.active)
        elif isinstance(message, ModeChange):
            text = f"{message.before.name} -> {message.after.name}: {message.reason}"
            self._say(False, text, code=message.code, reaction=message.reaction.name.lower())
        elif isinstance(message, Event):
            self._say_event(message)
        elif isinstance(message, PortEvent):
            text = f"port {message.port} {message.state.name.lower()}"
            self._say(message.state is not PortState.OPENED, text, detail=message.detail)
