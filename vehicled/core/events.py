"""Facts of the events that a program reads. All others are for people alone:
:meth:`vehicled.core.messages.Event.of`."""

from typing import ClassVar, Self

import msgspec
from msgspec import Struct

from vehicled.core.messages import NAN, Event, as_text

WAIT_BEGINS, WAIT_ENDED = "wait_begins", "wait_ended"
"""Event names of the time for which the course asks the vehicle to stand."""
INJECTED, OVER = "failure_injected", "failure_over"
"""Event names of the start and the end of an injected failure."""


class EventFacts(Struct, frozen=True, omit_defaults=True):
    """Base of the facts of one event, or of several with the same facts."""

    names: ClassVar[tuple[str, ...]]
    level: ClassVar[str] = "info"

    def event(self, t_ns: int, name: str = "") -> Event:
        """Return the event with these facts; ``name`` is the first one by default."""
        return Event(t_ns, self.level, name or self.names[0], as_text(self))

    @classmethod
    def read(cls, event: Event) -> Self | None:
        """Return the facts of an event; None for another event, and for text that no version of
        this program wrote."""
        if event.name not in cls.names:
            return None
        try:
            return msgspec.json.decode(event.fields, type=cls)
        except (msgspec.DecodeError, UnicodeError):
            return None


class SimulationStall(EventFacts, frozen=True):
    """Process of a simulation that did not run, ``simulator`` or ``daemon``, and for how long."""

    names = ("simulation_stall",)
    level = "warning"
    process: str
    duration_ms: float


class InjectedFailure(EventFacts, frozen=True):
    """Failure as it is given to ``--fail``, and the time of the run."""

    names = (INJECTED, OVER)
    failure: str
    at_s: float = NAN


class LoopBlocked(EventFacts, frozen=True):
    """Code that held the loop, seen ``after_ms``."""

    names = ("loop_blocked",)
    level = "warning"
    where: str = ""
    after_ms: float = NAN
    plugin: str = ""
    """Name of the plugin that it belongs to; empty for our own."""


class ObserverFailed(EventFacts, frozen=True):
    """First failure of an observer."""

    names = ("observer_failed",)
    level = "error"
    observer: str
    error: str
    trace: str = ""


class CourseWait(EventFacts, frozen=True):
    """Place on the course at which the vehicle stands, and for how long."""

    names = (WAIT_BEGINS, WAIT_ENDED)
    at_m: float
    duration_s: float


class CourseSet(EventFacts, frozen=True):
    """Another course is driven from now on."""

    names = ("course_set",)
    course: str = ""
    length_m: float = NAN
    lap_from_m: float | None = None
    """Arc length at which the lap of a closed course begins; None if it begins at its start."""
    joined_m: float | None = None
    """Arc length at which a moving vehicle joined it."""
    by: str = ""


class LapJoined(EventFacts, frozen=True):
    """The present lap of the course begins where the vehicle stands."""

    names = ("lap_joined",)
    lap_from_m: float


class JournalGap(EventFacts, frozen=True):
    """The journal lost records, and cannot be replayed from there on."""

    names = ("not_replayable_after",)
    level = "error"
    complete_to_ns: int | None = None


class MessageUnused(EventFacts, frozen=True):
    """A device's message was not used, or only in part."""

    names = ("message_unused",)
    level = "warning"
    device: str
    message: str
    reason: str
    field: str = ""
    value: str = ""
