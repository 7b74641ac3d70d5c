"""End conditions of a run, shared by both pumps."""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from vehicled.core.messages import Mode, OperatorAction, OperatorCommand, PortState
from vehicled.core.ports import NEVER_NS
from vehicled.daemon.machine import Machine


class Outcome(IntEnum):
    """Outcome of a run; also the exit status of the command."""

    FINISHED = 0
    NOT_FINISHED = 1
    INTERRUPTED = 130


class Ending(Struct, frozen=True):
    """Outcome and reason of a run's end."""

    outcome: Outcome
    why: str
    now_ns: int


class ChunkedLog(Protocol):
    """Log that writes its chunks from time to time."""

    def pump(self, now_ns: int) -> None:
        """Write data that has waited too long."""
        ...


class EndConditions:
    """Detects the end of a run; the pump calls it after each of its turns."""

    def __init__(
        self,
        machine: Machine,
        log: ChunkedLog | None,
        *,
        until_ns: int,
        start_timeout_ns: int = NEVER_NS,
        stays: bool = False,
        ends_disarmed: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """Take the machine, and the log if one is written. ``until_ns``: time at which the drive is
        stopped. ``stays``: only a request ends the run, with ``ends_disarmed`` also disarming.
        ``progress`` is called with the time after each turn and must be fast. Failures of it and of
        the log reach the machine's observers and go no further.
        """
        self._machine = machine
        guard = machine.observers.guard
        self._pump_log = None if log is None else guard("log writer", log.pump, None, lasting=True)
        self._until_ns = until_ns
        self._start_timeout_ns = start_timeout_ns
        self._stays = stays
        self._ends_disarmed = ends_disarmed
        self._progress = (
            None if progress is None else guard("progress", progress, None, lasting=True)
        )
        self._interrupted_by: str | None = None
        self._stop_sent = False
        self._started_ns = -1

    def interrupt(self, by: str) -> None:
        """Request a stop from a signal handler: brake, wait for standstill, end."""
        self._interrupted_by = by

    def turn(self, now_ns: int) -> Ending | None:
        """Check after a turn of the pump; return an :class:`Ending` if the run is over."""
        machine = self._machine
        if self._started_ns < 0:
            self._started_ns = now_ns
        if self._pump_log is not None:
            self._pump_log(now_ns)
        if self._progress is not None:
            self._progress(now_ns)
        if self._interrupted_by is not None and not self._stop_sent:
            self._stop(self._interrupted_by, now_ns)
        elif now_ns >= self._until_ns and not self._stop_sent:
            self._stop("the time limit", now_ns)
        if self._ends_disarmed and machine.supervisor.disarmed_by and not machine.coasting:
            return Ending(
                Outcome.FINISHED,
                f"disarmed by {machine.supervisor.disarmed_by}; the vehicle stands",
                now_ns,
            )
        over = (self._stop_sent or not self._stays) and machine.over(now_ns)
        if over or (self._stop_sent and not machine.coasting):
            return self._ending(now_ns)
        if now_ns - self._started_ns > self._start_timeout_ns and machine.mode in (
            Mode.STANDBY,
            Mode.ARMED,
            Mode.FAULT,
        ):
            return Ending(Outcome.NOT_FINISHED, f"the drive did not start: {machine.why}", now_ns)
        return None

    def lost(self, why: str, now_ns: int) -> Ending:
        """End the run after the link was lost: command the brake, although its frames only reach
        the log."""
        machine = self._machine
        for port in machine.ports:
            machine.on_port(port, PortState.LOST, why, now_ns)
        machine.on_message(OperatorCommand(now_ns, now_ns, OperatorAction.STOP, why), now_ns)
        machine.brake_now(now_ns)
        if self._pump_log is not None:
            self._pump_log(now_ns)
        return Ending(Outcome.NOT_FINISHED, f"{why}: the brake was commanded", now_ns)

    def _stop(self, by: str, now_ns: int) -> None:
        self._stop_sent = True
        self._machine.on_message(OperatorCommand(now_ns, now_ns, OperatorAction.STOP, by), now_ns)

    def _ending(self, now_ns: int) -> Ending:
        why, by, reason = self._machine.why, self._interrupted_by, self._machine.supervisor.reason
        if by is not None:
            # Keep the machine's reason if the vehicle was not driving.
            why = why if any(part.by == by for part in reason.parts()) else f"ended by {by} ({why})"
            return Ending(
                Outcome.INTERRUPTED,
                f"{why}; the vehicle {'may roll' if self._machine.coasting else 'stands'}",
                now_ns,
            )
        if self._machine.coasting:
            # The wait for standstill has timed out; the brake stays applied.
            unrest = "; ".join(self._machine.supervisor.waiting) or "it is not known to stand"
            return Ending(Outcome.NOT_FINISHED, f"{why}; {unrest}", now_ns)
        if self._machine.course_driven:
            return Ending(Outcome.FINISHED, why, now_ns)
        return Ending(Outcome.NOT_FINISHED, why, now_ns)
