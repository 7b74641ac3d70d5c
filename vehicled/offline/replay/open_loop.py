"""Open-loop replay for a what-if: substitutes the recorded commands, because they moved the
vehicle.

Estimator, identifier and rules receive the recorded commands; with the new ones they would see a
motion that was never commanded, and the machine would stop. Periods in which only one of the two
machines drives are reported.
"""

from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.messages import ActuatorCommand, Message, ModeChange
from vehicled.daemon.machine import Machine
from vehicled.log.older import renewed
from vehicled.offline.replay.journal import Journal, JournalEntry
from vehicled.safety.modes import DRIVING

SHORT_S = 0.1
"""Shorter differences of the mode are ignored, because both sides change mode a few ticks apart."""


class ModeDivergence(Struct, kw_only=True):
    """Period in which only one of the two machines drives."""

    t_s: float
    """Start since the start of the run, s."""
    until_s: float | None = None
    """End since the start of the run, s; None if it lasted to the end of the replay."""
    log_drives: bool
    """True if the log drives and the replay does not; False for the reverse."""
    code: str
    """Code of the reason for not driving; empty if the log is too old to have it."""
    reason: str
    """Reason for not driving."""

    def to_text(self) -> str:
        """Return the period as one line of text."""
        when = (
            f"from {self.t_s:.3f} s on"
            if self.until_s is None
            else f"from {self.t_s:.3f} to {self.until_s:.3f} s"
        )
        why = f"{self.code}: {self.reason}" if self.code else self.reason
        where = "behind that" if self.until_s is None else "there"
        if self.log_drives:
            return (
                f"{when} the machine here does not drive ({why}): its commands {where} are "
                "meaningless"
            )
        return (
            f"{when} the log does not drive ({why}), and the machine here would: the vehicle "
            "was held, its commands are meaningless"
        )


class OpenLoop:
    """Recorded commands tick by tick, and the periods in which only one side drives."""

    def __init__(self, journal: Journal) -> None:
        """Subscribe to the records read from the journal."""
        self._journal = journal
        journal.on_read = self._read
        self._sent: ActuatorCommand | None = None
        """Newest command read from the log."""
        self._reason = "", ""
        """Code and text of the reason of the current mode in the log."""
        self._partings: list[ModeDivergence] = []
        self._newest_s = 0.0
        self._log_drove_s = self._drove_s = 0.0
        """Times at which each of them last drove."""

    def recorded_command(self, made: ActuatorCommand) -> ActuatorCommand:
        """Return the recorded command for a command made now; its clipping is kept. Raises LogError
        for a damaged record."""
        # The log holds a tick behind its command, so read as far as the tick.
        self._journal.next_tick()
        sent = self._sent
        # If a slow disk lost the record of this tick, the previous one stands in.
        return made if sent is None else replace(sent, t_ns=made.t_ns, clipped=made.clipped)

    def made(self, message: Message, machine: Machine) -> None:
        """Add a record of the replay."""
        if (
            isinstance(message, ActuatorCommand)
            and self._sent is not None
            and self._sent.t_ns == message.t_ns
        ):
            log_drives, drives = self._sent.mode in DRIVING, message.mode in DRIVING
            self._newest_s = (message.t_ns - self._journal.start_ns) * 1e-9
            reason = (machine.supervisor.reason.code, machine.why) if log_drives else self._reason
            self._compare(*reason, log_drives=log_drives, drives=drives)

    def partings(self) -> list[ModeDivergence]:
        """Return all periods longer than :data:`SHORT_S`, in order."""
        found = []
        for each in self._partings:
            until_s = self._newest_s if each.until_s is None else each.until_s
            if until_s - each.t_s >= SHORT_S:
                again = (self._drove_s if each.log_drives else self._log_drove_s) >= until_s
                found.append(replace(each, until_s=until_s if again else None))
        return found

    def _read(self, entry: JournalEntry) -> None:
        if entry.kind is ActuatorCommand:
            self._sent = entry.message  # type: ignore[assignment]
        elif isinstance(change := renewed(entry.message), ModeChange):
            self._reason = change.code, change.reason

    def _compare(self, code: str, why: str, *, log_drives: bool, drives: bool) -> None:
        if log_drives:
            self._log_drove_s = self._newest_s
        if drives:
            self._drove_s = self._newest_s
        lasting = (
            self._partings[-1] if self._partings and self._partings[-1].until_s is None else None
        )
        if lasting is not None:
            if log_drives is not drives and lasting.log_drives is log_drives:
                return
            lasting.until_s = self._newest_s
        if log_drives is not drives:
            self._partings.append(
                ModeDivergence(t_s=self._newest_s, log_drives=log_drives, code=code, reason=why)
            )
