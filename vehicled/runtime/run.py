"""What both pumps share: when a run ends, and why."""

from collections.abc import Callable
from enum import IntEnum
from typing import Protocol

from msgspec import Struct

from vehicled.machine import Machine
from vehicled.messages import Mode, OperatorAction, OperatorCommand, PortState

START_PATIENCE_NS = 30 * 10**9
"""A vehicle that nobody could start for this long is not waited for in a simulation."""


class Outcome(IntEnum):
    """How a run ended; the exit status of the command."""

    FINISHED = 0
    NOT_FINISHED = 1
    INTERRUPTED = 130


class Ending(Struct, frozen=True):
    """Why a run is over."""

    outcome: Outcome
    why: str
    now_ns: int


class Log(Protocol):
    """A log that hands over its chunks from time to time."""

    def pump(self, now_ns: int) -> None:
        """Hand over what has been waiting too long."""
        ...


class Run:
    """Watches a machine for its end; called by the pump after each of its turns."""

    def __init__(
        self,
        machine: Machine,
        log: Log,
        *,
        until_ns: int,
        patience_ns: int = START_PATIENCE_NS,
        stays: bool = False,
        ends_disarmed: bool = False,
        progress: Callable[[int], None] | None = None,
    ) -> None:
        """``until_ns``: when the drive is stopped. ``stays``: a drive that is over does not end the run, only a request does;
        with ``ends_disarmed`` disarming is one. ``progress`` is called with the time after each turn and must be cheap."""
        self._machine = machine
        self._log = log
        self._until_ns = until_ns
        self._patience_ns = patience_ns
        self._stays = stays
        self._ends_disarmed = ends_disarmed
        self._progress = progress
        self._interrupted_by: str | None = None
        self._stop_sent = False
        self._started_ns = -1

    def interrupt(self, by: str) -> None:
        """Ask for a stop from a signal handler: brake, wait until the vehicle stands, end."""
        self._interrupted_by = by

    def turn(self, now_ns: int) -> Ending | None:
        """After one turn of the pump; an :class:`Ending` when the run is over."""
        machine = self._machine
        if self._started_ns < 0:
            self._started_ns = now_ns
        self._log.pump(now_ns)
        if self._progress is not None:
            self._progress(now_ns)
        if self._interrupted_by is not None and not self._stop_sent:
            self._stop(self._interrupted_by, now_ns)
        elif now_ns >= self._until_ns and not self._stop_sent:
            self._stop("the time limit", now_ns)
        over = machine.at_rest(now_ns) and (self._stop_sent or not self._stays)
        disarmed_by = machine.supervisor.disarmed_by
        if self._ends_disarmed and disarmed_by and not machine.rolls_out:
            return Ending(Outcome.FINISHED, f"disarmed by {disarmed_by}; the vehicle stands", now_ns)
        if over or (self._stop_sent and not machine.rolls_out):
            return self._ending(now_ns)
        if now_ns - self._started_ns > self._patience_ns and machine.mode in (Mode.STANDBY, Mode.ARMED, Mode.FAULT):
            return Ending(Outcome.NOT_FINISHED, f"the drive did not start: {machine.why}", now_ns)
        return None

    def lost(self, why: str, now_ns: int) -> Ending:
        """The link is gone: tell the machine, command the brake, end. The brake frames are in the log though no one reads them."""
        machine = self._machine
        for port in machine.ports:
            machine.on_port(port, PortState.LOST, why, now_ns)
        machine.on_message(OperatorCommand(now_ns, now_ns, OperatorAction.STOP, why), now_ns)
        machine.brake_now(now_ns)
        self._log.pump(now_ns)
        return Ending(Outcome.NOT_FINISHED, f"{why}: the brake was commanded", now_ns)

    def _stop(self, by: str, now_ns: int) -> None:
        self._stop_sent = True
        self._machine.on_message(OperatorCommand(now_ns, now_ns, OperatorAction.STOP, by), now_ns)

    def _ending(self, now_ns: int) -> Ending:
        why, by = self._machine.why, self._interrupted_by
        if by is not None:
            # A vehicle that did not drive has another reason for its mode.
            why = why if by in why else f"ended by {by} ({why})"
            return Ending(Outcome.INTERRUPTED, f"{why}; the vehicle {'may roll' if self._machine.rolls_out else 'stands'}", now_ns)
        if self._machine.course_driven:
            return Ending(Outcome.FINISHED, why, now_ns)
        return Ending(Outcome.NOT_FINISHED, why, now_ns)
