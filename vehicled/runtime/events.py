"""Human events: one line per episode through structlog, for a terminal or as JSON for the system's journal."""

import select
import sys
from typing import Any, TextIO, cast

import structlog

from vehicled.messages import Fault, Message, PortEvent, PortState, Reaction

TAPS: tuple[type[Message], ...] = (Fault, PortEvent)
"""Messages that are told to humans."""


class PatientStream:
    """A text stream that loses lines rather than block the loop: a terminal may be held, a pipe may be full."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lost = 0
        """Lines that could not be written."""

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
        """Everything written has been flushed already."""


class EventLog:
    """Turns faults and port events into log lines."""

    def __init__(self, stream: TextIO | None = None, *, json: bool | None = None, quiet: bool = False) -> None:
        """``json`` None: JSON unless the stream is a terminal. ``quiet`` leaves out everything below a warning."""
        out = stream or sys.stderr
        as_json = not out.isatty() if json is None else json
        processors: list[Any] = [structlog.processors.add_log_level]
        if as_json:
            processors += [structlog.processors.TimeStamper(fmt="iso"), structlog.processors.JSONRenderer()]
        else:
            processors.append(structlog.dev.ConsoleRenderer(colors=out.isatty(), pad_event_to=0))
        level = 30 if quiet else 20
        self._log: Any = structlog.wrap_logger(
            structlog.WriteLogger(cast(TextIO, PatientStream(out))),
            processors=processors,
            wrapper_class=structlog.make_filtering_bound_logger(level),
        )

    def record(self, message: Message, log_time_ns: int) -> None:
        """Tell one fault or port event."""
        if isinstance(message, Fault):
            say = (
                self._log.warning
                if message.active and message.reaction >= Reaction.CAP_SPEED and message.code != "mode"
                else self._log.info
            )
            say(message.reason, code=message.code, reaction=message.reaction.name.lower(), active=message.active)
        elif isinstance(message, PortEvent):
            say = self._log.info if message.state is PortState.OPENED else self._log.warning
            say(f"port {message.port} {message.state.name.lower()}", detail=message.detail)
