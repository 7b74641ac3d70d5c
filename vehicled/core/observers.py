"""Observers of a run: everything that only explains it, such as the log, the judge, the attribution
of misses and the bridges.

An observer never stops the vehicle. What drives calls it through a boundary that catches whatever
it raises, and reports it here: the first failure of each observer is an event, all are counted, and
the end of the run names them. An observer that failed ``OFF_AFTER`` times is switched off, unless
nothing else does what it does: the log goes on and counts the records that it lost.
"""

from collections.abc import Callable
from types import CodeType
from typing import Any, ParamSpec, TypeVar

from msgspec import Struct

from vehicled.core.error_text import error_text, error_trace
from vehicled.core.events import ObserverFailed
from vehicled.core.messages import Event

P = ParamSpec("P")
R = TypeVar("R")
F = TypeVar("F", bound=Callable[..., Any])

BOUNDARIES: set[CodeType] = set()
"""Functions marked by :func:`boundary`."""


def boundary(function: F) -> F:
    """Mark a function of an observer that what drives calls directly: it catches itself whatever it
    calls raises."""
    BOUNDARIES.add(function.__code__)
    return function


OFF_AFTER = 10
"""Failures after which an observer is switched off."""


class ObserverFailure(Struct):
    """Failures of one observer."""

    count: int = 0
    first: str = ""
    """First failure as text."""
    trace: str = ""
    off: bool = False
    """True once it is switched off."""
    reported: bool = False

    def __str__(self) -> str:
        """Return count and first failure as text."""
        times = "once" if self.count == 1 else f"{self.count} times"
        return f"failed {times}{' and was switched off' if self.off else ''} ({self.first})"


class Observers:
    """Failures of the observers of one run, by name."""

    def __init__(self) -> None:
        self.failures: dict[str, ObserverFailure] = {}
        self.guarded: list[tuple[str, Callable[..., Any]]] = []
        """Name and call of each boundary that :meth:`guard` made."""
        self.unreported = False
        """True if :meth:`take_events` has events to return."""

    def failed(self, name: str, error: BaseException, *, lasting: bool = False) -> bool:
        """Count a failure; return True if the observer must not be called again. ``lasting``: it is
        never switched off.

        Never raises.
        """
        try:
            failure = self.failures.get(name)
            if failure is None:
                failure = self.failures[name] = ObserverFailure()
                failure.first, failure.trace = error_text(error), error_trace(error)
                self.unreported = True
            failure.count += 1
            failure.off = failure.off or (failure.count >= OFF_AFTER and not lasting)
            return failure.off
        except Exception:  # noqa: BLE001 - out of memory, say: the vehicle drives on, and the next failure is counted again
            return False

    def guard(
        self, name: str, call: Callable[P, R], default: R, *, lasting: bool = False
    ) -> Callable[P, R]:
        """Return the call with its boundary: a failure is counted, and gives the default."""
        off = False
        self.guarded.append((name, call))

        def guarded(*arguments: P.args, **named: P.kwargs) -> R:
            nonlocal off
            if off:
                return default
            try:
                return call(*arguments, **named)
            except Exception as error:  # noqa: BLE001 - it is what this is for
                off = self.failed(name, error, lasting=lasting)
                return default

        return guarded

    def take_events(self, now_ns: int) -> list[Event]:
        """Return an event for each observer that has failed for the first time."""
        if not self.unreported:
            return []
        self.unreported = False
        found = []
        for name, failure in self.failures.items():
            if not failure.reported:
                failure.reported = True
                found.append(ObserverFailed(name, failure.first, failure.trace).event(now_ns))
        return found

    @property
    def summary(self) -> str:
        """Text about all failures; empty if there were none."""
        return "; ".join(f"{name} {failure}" for name, failure in self.failures.items())
