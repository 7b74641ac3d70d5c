"""Last lines of the event log as text, from faults, mode changes, events, port events and requests.
Pure."""

from collections import deque
from collections.abc import Callable
from typing import Any, ClassVar

import msgspec

from vehicled.core.events import SimulationStall
from vehicled.core.messages import (
    Event,
    Fault,
    Message,
    ModeChange,
    OperatorCommand,
    PortEvent,
    PortState,
    Reaction,
)
from vehicled.core.plain_text import printable, shorten
from vehicled.core.simulation_events import Stalls

MOST_LINES = 200
MOST_TEXT = 240

LogLine = tuple[int, float, str, str, str]


class LogTail:
    """Lines of (number, seconds of the run, level, text, key) with increasing numbers.

    A line with the key of the line before it takes its place: the stalls of a busy computer are one
    line that counts.
    """

    def __init__(self) -> None:
        self.lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._number = 0
        self._stalls = Stalls()

    def add(self, message: Message, t_s: float) -> None:
        """Add a message of one of the :data:`KINDS`."""
        key = ""
        if isinstance(message, Event) and (stall := SimulationStall.read(message)) is not None:
            level, text, key = "warning", self._stalls.add(stall), message.name
            if self.lines and self.lines[-1][4] == key:
                self.lines.pop()
        else:
            self._stalls = Stalls()
            level, text = self._SAY[type(message)](message)
        self._number += 1
        self.lines.append(
            (self._number, round(t_s, 2), level, printable(shorten(text, MOST_TEXT)), key)
        )

    def since(self, number: int) -> list[LogLine]:
        """Return the lines after a number, as far as they are kept."""
        return [line for line in self.lines if line[0] > number]

    _SAY: ClassVar[dict[type[Message], Callable[[Any], tuple[str, str]]]] = {
        Fault: lambda m: _fault(m),
        ModeChange: lambda m: ("mode", f"{m.before.name} -> {m.after.name}: {m.reason}"),
        Event: lambda m: _event(m),
        PortEvent: lambda m: _port(m),
        OperatorCommand: lambda m: (
            "info",
            f"{m.action.name.lower().replace('_', ' ')} requested by {m.origin or 'the operator'}",
        ),
    }


KINDS: tuple[type[Message], ...] = (Fault, ModeChange, Event, PortEvent, OperatorCommand)


def _fault(fault: Fault) -> tuple[str, str]:
    origin = f"{fault.origin}: " if fault.origin else ""
    if not fault.active:
        return "info", f"{fault.code} ended: {origin}{fault.reason}"
    level = (
        "error"
        if fault.reaction >= Reaction.CONTROLLED_STOP
        else "warning"
        if fault.reaction >= Reaction.WARN
        else "info"
    )
    return level, f"{fault.code}: {origin}{fault.reason}"


def _port(event: PortEvent) -> tuple[str, str]:
    detail = f": {event.detail}" if event.detail else ""
    return (
        "info" if event.state is PortState.OPENED else "warning"
    ), f"port {event.port} {event.state.name.lower()}{detail}"


def _event(event: Event) -> tuple[str, str]:
    level = event.level if event.level in ("warning", "error") else "info"
    try:
        fields = msgspec.json.decode(event.fields.encode(), type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return level, _line(event, event.fields)
    stands_in = fields.get("stands_in")
    if event.name == "substitutes" and isinstance(stands_in, list):
        # Substitutes are long sentences and are always shown in the status.
        return level, f"{len(stands_in)} substitutes, see the status"
    return level, _line(
        event, ", ".join(f"{name} {_short(value)}" for name, value in fields.items())
    )


def _line(event: Event, words: str) -> str:
    name = event.name.replace("_", " ")
    return f"{name}: {words}" if words else name


def _short(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_short, value))
    return f"{value:.4g}" if isinstance(value, float) else str(value)
