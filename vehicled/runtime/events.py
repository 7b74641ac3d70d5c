"""Log of events for people: one line per episode through structlog, as text on a terminal or as
JSON for the system journal."""

import json
import sys
from typing import Any, TextIO, cast

from vehicled.core.events import LoopBlocked, ObserverFailed, SimulationStall
from vehicled.core.messages import Event, Fault, Message, ModeChange, PortEvent, PortState, Reaction
from vehicled.core.plain_text import printable
from vehicled.core.safe_text import raw
from vehicled.core.simulation_events import StallReports
from vehicled.core.wire.usage import warning_of
from vehicled.runtime.nonblocking import NonBlockingStream

TYPES: tuple[type[Message], ...] = (Fault, ModeChange, PortEvent, Event)
"""Message types that are reported."""
LEVELS = ("debug", "info", "warning", "error")
REPEAT_NS = 1_000_000_000
MOST_NAMES = 1000
_OF_STRUCTLOG = frozenset(("event", "level", "timestamp", "self"))
"""Names of facts that structlog uses itself."""


def _settings(out: TextIO, *, as_json: bool) -> dict[str, Any]:
    """Return processors and class of a logger for a stream."""
    import structlog

    renderers: list[Any] = [
        structlog.processors.TimeStamper(fmt="iso"),
        structlog.processors.JSONRenderer(),
    ]
    if not as_json:
        renderers = [structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0)]
    return {
        "processors": [
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            *renderers,
        ],
        "wrapper_class": structlog.make_filtering_bound_logger(20),
    }


def configure() -> None:
    """Have ``structlog.get_logger()`` of the user's own code write as the daemon does. A program
    that has configured structlog keeps its configuration, and the daemon's events follow it.
    """
    import structlog

    if not structlog.is_configured():
        out = raw(sys.stderr)
        stream = cast(TextIO, NonBlockingStream(out))
        structlog.configure(
            **_settings(out, as_json=not out.isatty()),
            logger_factory=lambda *_: structlog.WriteLogger(stream),
        )


class EventLog:
    """Turns faults, port events and other events into log lines."""

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        json: bool | None = None,
        quiet: bool = False,
        ready: bool = True,
        every: bool = False,
    ) -> None:
        """Take the stream; None: as structlog is configured, or standard error. ``json`` None: JSON
        unless it is a terminal. ``quiet``: only warnings. ``every``: events without a text of their
        own, too. Unless ``ready``, structlog is loaded with the first line, because loading takes a
        third of a second, mostly for nothing in lockstep.
        """
        self._configured = stream is None
        self._out = raw(stream or sys.stderr)
        self._json = not self._out.isatty() if json is None else json
        self._quiet = quiet
        self._every = every
        self._said_ns: dict[str, int] = {}
        """Time of the last line about an event, by name."""
        self._block_reported = False
        self._stalls = StallReports()
        self._made: Any = self._make() if ready else None

    def _make(self) -> Any:
        import structlog

        if self._configured and structlog.is_configured():
            return structlog.get_logger("vehicled")
        stream = cast(TextIO, NonBlockingStream(self._out))
        return structlog.wrap_logger(
            structlog.WriteLogger(stream), **_settings(self._out, as_json=self._json)
        )

    def _say(self, warning: bool, text: str, **facts: Any) -> None:
        self._log("warning" if warning else "info", text, facts)

    def _log(self, level: str, text: str, facts: dict[str, Any]) -> None:
        if self._quiet and level not in ("warning", "error"):
            return
        self._made = self._made or self._make()
        shown = {
            f"{name}_" if name in _OF_STRUCTLOG else name: printable(fact)
            if isinstance(fact, str)
            else fact
            for name, fact in facts.items()
        }
        getattr(self._made, level)(printable(text), **shown)

    def _say_plainly(self, event: Event) -> None:
        """Report an event that has no text of its own by its name, at most once a second: the log
        has them all."""
        if (
            not self._every
            or 0 <= event.t_ns - self._said_ns.get(event.name, -REPEAT_NS) < REPEAT_NS
        ):
            return
        if len(self._said_ns) < MOST_NAMES:
            self._said_ns[event.name] = event.t_ns
        try:
            facts = json.loads(event.fields or "{}")
        except ValueError:
            facts = {"fields": event.fields}
        level = event.level if event.level in LEVELS else "info"
        self._log(level, event.name, facts if isinstance(facts, dict) else {"fields": facts})

    def _say_event(self, event: Event) -> None:
        if (stall := SimulationStall.read(event)) is not None:
            if text := self._stalls.add(stall, event.t_ns * 1e-9):
                self._say(True, text)
        elif (failed := ObserverFailed.read(event)) is not None:
            self._say(
                True, f"{failed.observer} failed: {failed.error}; the drive goes on without it"
            )
        elif text := warning_of(event):
            self._say(True, text)
        elif (
            (block := LoopBlocked.read(event)) is not None
            and block.plugin
            and not self._block_reported
        ):
            # Once: the log has them all.
            self._block_reported = True
            self._say(
                True,
                (
                    f"{block.plugin} held the loop: it was still running after "
                    f"{block.after_ms:.0f} ms"
                ),
            )
        elif event.name not in LoopBlocked.names:
            self._say_plainly(event)

    def record(self, message: Message, log_time_ns: int) -> None:
        """Report a fault, mode change, stall or port event."""
        if isinstance(message, Fault):
            grave = message.active and message.reaction >= Reaction.CAP_SPEED
            self._say(
                grave,
                message.reason,
                code=message.code,
                reaction=message.reaction.name.lower(),
                active=message.active,
            )
        elif isinstance(message, ModeChange):
            text = f"{message.before.name} -> {message.after.name}: {message.reason}"
            self._say(False, text, code=message.code, reaction=message.reaction.name.lower())
        elif isinstance(message, Event):
            self._say_event(message)
        elif isinstance(message, PortEvent):
            text = f"port {message.port} {message.state.name.lower()}"
            self._say(message.state is not PortState.OPENED, text, detail=message.detail)
