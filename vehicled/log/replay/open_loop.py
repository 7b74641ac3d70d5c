"""A what-if runs open loop: the commands of the log moved the vehicle, not those that are made now.

So estimator, identifier and rules are told what the log sent: judged by commands that moved nothing, the recorded motion would be
one that nobody asked for, and the machine would stop. Where it stops or waits all the same, and the log did not, that is told.
"""

from msgspec import Struct
from msgspec.structs import replace

from vehicled.log.replay.journal import Entry, Journal
from vehicled.machine import Machine
from vehicled.messages import ActuatorCommand, Fault, Message
from vehicled.safety.modes import DRIVING

SHORT_S = 0.1
"""Both sides change their mode a few ticks apart: so short a time is not told."""
MODE = "mode"
"""Code of the records that tell a change of mode."""


class Parting(Struct, kw_only=True):
    """A time in which one of the two machines drove and the other did not."""

    t_s: float
    """Since the start of the run."""
    until_s: float | None = None
    """When it drove again; None: not before the end of what was replayed."""
    log_drives: bool
    """The log drove, and the machine does not now; else the other way round."""
    code: str
    """Of the rule that stopped the one that does not drive; empty where it was none."""
    reason: str
    """Why it does not drive, in words."""

    def to_text(self) -> str:
        """In one line."""
        when = f"from {self.t_s:.3f} s on" if self.until_s is None else f"from {self.t_s:.3f} to {self.until_s:.3f} s"
        why = f"{self.code}: {self.reason}" if self.code else self.reason
        where = "behind that" if self.until_s is None else "there"
        if self.log_drives:
            return f"{when} the machine here does not drive ({why}): its commands {where} say nothing"
        return f"{when} the log does not drive ({why}), and the machine here would: the vehicle was held, its commands say nothing"


class OpenLoop:
    """What the log sent, tick by tick, and when only one side drove."""

    def __init__(self, journal: Journal) -> None:
        """Listens to what is read of the journal from now on."""
        self._journal = journal
        journal.on_read = self._read
        self._sent: ActuatorCommand | None = None
        """The newest that was read of the log."""
        self._why = ""
        """Of the log's present mode."""
        self._codes: tuple[dict[str, str], dict[str, str]] = {}, {}
        """Codes of the faults of the log and of now, by their reason."""
        self._partings: list[Parting] = []
        self._newest_s = 0.0
        self._log_drove_s = self._drove_s = 0.0
        """When each of them drove last."""

    def drove(self, made: ActuatorCommand) -> ActuatorCommand:
        """What moved the vehicle when a command is made now; what the gate had to cut of it is judged as it is.

        Raises LogError for a damaged record."""
        # The tick that is run stands in the log behind its command.
        self._journal.next_tick()
        sent = self._sent
        # Where the disk was too slow for the record of this tick, the one before stands for it.
        return made if sent is None else replace(sent, t_ns=made.t_ns, clipped=made.clipped)

    def made(self, message: Message, machine: Machine) -> None:
        """A record that the machine makes now."""
        if isinstance(message, Fault):
            self._codes[1][message.reason] = message.code
        elif isinstance(message, ActuatorCommand) and self._sent is not None and self._sent.t_ns == message.t_ns:
            log_drives, drives = self._sent.mode in DRIVING, message.mode in DRIVING
            self._newest_s = (message.t_ns - self._journal.start_ns) * 1e-9
            self._compare(machine.why if log_drives else self._why, log_drives=log_drives, drives=drives)

    def partings(self) -> list[Parting]:
        """All that lasted, in order."""
        found = []
        for each in self._partings:
            until_s = self._newest_s if each.until_s is None else each.until_s
            if until_s - each.t_s >= SHORT_S:
                again = (self._drove_s if each.log_drives else self._log_drove_s) >= until_s
                found.append(replace(each, until_s=until_s if again else None))
        return found

    def _read(self, entry: Entry) -> None:
        if entry.kind is ActuatorCommand:
            self._sent = entry.message  # type: ignore[assignment]
        elif entry.kind is Fault:
            fault: Fault = entry.message  # type: ignore[assignment]
            if fault.code == MODE:
                self._why = fault.reason.partition(": ")[2]
            else:
                self._codes[0][fault.reason] = fault.code

    def _compare(self, why: str, *, log_drives: bool, drives: bool) -> None:
        if log_drives:
            self._log_drove_s = self._newest_s
        if drives:
            self._drove_s = self._newest_s
        lasting = self._partings[-1] if self._partings and self._partings[-1].until_s is None else None
        if lasting is not None:
            if log_drives is not drives and lasting.log_drives is log_drives:
                return
            lasting.until_s = self._newest_s
        if log_drives is not drives:
            code = self._codes[1 if log_drives else 0].get(why, "")
            self._partings.append(Parting(t_s=self._newest_s, log_drives=log_drives, code=code, reason=why))
