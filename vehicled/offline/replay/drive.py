"""Runs a replay: feeds the journal to the machine and its outputs to the comparison."""

import time
from binascii import crc32
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from msgspec import Struct

from vehicled.core.messages import MachineCall, Message, PortEvent, TaskTick, Verb, WireChunk
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.machine import Machine
from vehicled.log.errors import LogError
from vehicled.offline.replay.compare import Difference, JournalGapError, RecordComparison
from vehicled.offline.replay.journal import (
    Journal,
    JournalEndsError,
    JournalEntry,
    JournalStopwatch,
)
from vehicled.offline.replay.numbers import DifferenceMeter, FrameDifference, ReplayDifferences
from vehicled.offline.replay.open_loop import ModeDivergence, OpenLoop
from vehicled.offline.replay.setup import Code, Parts, what_differs

IDENTICAL = "identical"
DIFFERENT = "different"
WHAT_IF = "what-if"
DAMAGED = "damaged"
NOTHING = "nothing"
ALTERED_LIMIT = 1_000
PROGRESS_EVERY = 2_000
"""Records between two progress calls."""

OutputListener = Callable[[Machine, Message, int], None]
"""Function called with each output of the machine and its time."""


class ReplayResult(Struct, kw_only=True):
    """Result of a replay."""

    log: str
    verdict: str
    """``identical``, ``different``, ``damaged`` where all that could be compared is equal,
    ``nothing`` where nothing could be, or ``what-if``."""
    changed: list[str]
    """Changes of a what-if, which runs open loop: the recorded motion does not follow the new
    commands."""
    notes: list[str]
    """Differences between this computer and the one that wrote the log."""
    incomplete: str
    """Reason why the log was not replayed to its end; empty if it was."""
    damage: list[str]
    """Damage of the log, each with its place in the file and its time. That it was cut off is no
    damage."""
    missing: int
    """Number of records whose numbers are left out in the replayed part of the log."""
    replayed_s: float
    """Replayed time of the run, s."""
    spent_s: float
    """Duration of the replay, s."""
    records: int
    """Number of equal records."""
    ticks: int
    """Number of task releases that were run."""
    frames: int
    """Number of frames that the machine made."""
    digest: str
    """Digest of the frames made now."""
    digest_in_log: str
    """Digest that the daemon wrote at its end; empty if missing."""
    altered: list[str] = []
    """Received bytes whose checksum is wrong."""
    first: Difference | None = None
    first_frame: FrameDifference | None = None
    numbers: ReplayDifferences | None = None
    """Differences from the first difference, or of the what-if."""
    partings: list[ModeDivergence] = []
    """Periods of a what-if in which only one of the two machines drove."""

    @property
    def speed(self) -> float:
        """Replay speed as a multiple of real time."""
        return self.replayed_s / self.spent_s if self.spent_s > 0 else 0.0

    @property
    def ok(self) -> bool:
        """True if something was replayed and has no difference, and the log no damage; of a
        what-if, if the log has none."""
        return self.verdict in (IDENTICAL, WHAT_IF) and not self.damage

    def to_json(self) -> str:
        """Return the result as JSON."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return msgspec.json.format(
            msgspec.json.encode({**fields, "speed": self.speed}), indent=2
        ).decode()


class Replay:
    """One replay of one log."""

    def __init__(
        self,
        journal: Journal,
        overrides: Sequence[str] = (),
        *,
        until_difference: bool = False,
        from_s: float = 0.0,
        keep: bool = False,
        show: OutputListener | None = None,
        code: Code = "same",
    ) -> None:
        """Prepare a replay; ``overrides`` make it a what-if. Differences before ``from_s`` are not
        counted; ``keep`` stores pairs for a plot. ``code`` is the source of the run's plugins;
        changed files make it a what-if, too.

        Raises the errors of profile, course, log and set-up.
        """
        self.journal = journal
        self.parts = Parts(journal, overrides, code=code)
        self.notes = what_differs(journal.header, self.parts)
        """Differences between this computer and the one that wrote the log."""
        changes = [*overrides, *(["--code changed"] if code == "changed" else [])]
        self._changes = changes
        self._until_difference = until_difference
        self._stopwatch = JournalStopwatch(journal, PIPELINE)
        self._show = show
        self.machine = self.parts.machine(self._stopwatch, self)
        start_ns = journal.start_ns
        self.meter = DifferenceMeter(start_ns, from_ns=start_ns + round(from_s * 1e9), keep=keep)
        # Evidence of a recorded computer is not in the journal, like that of a real one.
        declared = journal.header.clock == "lockstep" and not journal.header.board
        self._comparison = RecordComparison(
            start_ns, PIPELINE, evidence=declared, exact=not changes,
            torn=lambda: not journal.whole, log=self.meter.log, now=self.meter.now,
        )  # fmt: skip
        self._open_loop: OpenLoop | None = None
        if changes:
            self._open_loop = OpenLoop(journal)
            self.machine.pipeline.command_override = self._open_loop.recorded_command
        self._ticks = 0
        self._altered: list[str] = []
        self._sequence = 0
        self._reached_ns = start_ns

    def record(self, message: Message, log_time_ns: int) -> None:
        """Record an output of the machine; this object is its sink."""
        self._comparison.made(message, log_time_ns)
        if self._open_loop is not None:
            self._open_loop.made(message, self.machine)
        if self._show is not None:
            self._show(self.machine, message, log_time_ns)

    def run(self, progress: Callable[[float], None] | None = None) -> ReplayResult:
        """Replay to the end of the log, or as far as possible. ``progress`` is called with the time
        of the run."""
        begin_s = time.perf_counter()
        incomplete, count = "", 0
        try:
            while (entry := self.journal.pop()) is not None:
                count += 1
                if self._until_difference and self._comparison.first is not None:
                    incomplete = "stopped at the first difference, as asked"
                    break
                if progress is not None and count % PROGRESS_EVERY == 0:
                    progress(self._s(entry.t_ns))
                self._step(entry)
            else:
                self._comparison.settle(at_end=True)
                incomplete = self.journal.problem
        except (JournalGapError, JournalEndsError) as error:
            why = "; ".join(self.journal.damage) or self.journal.loss or self.journal.problem
            incomplete = f"not replayable after t = {self._s(self._reached_ns):.3f} s: {error}" + (
                f" ({why})" if why else ""
            )
        self.meter.finish()
        return self._result(incomplete, time.perf_counter() - begin_s)

    # ------------------------------------------------------------------ inside

    def _step(self, entry: JournalEntry) -> None:
        comparison, machine = self._comparison, self.machine
        gap, self._sequence = entry.sequence != self._sequence + 1, entry.sequence
        if gap and not comparison.exact and not self.journal.whole:
            raise JournalGapError("records are missing")
        limit_ns = self.journal.limit_ns
        if limit_ns is not None and entry.t_ns > limit_ns:
            raise JournalGapError("records of the journal are missing")
        if entry.is_call:
            comparison.reach(entry.sequence)
            self._catch_up(entry)
            comparison.settle()
            comparison.fed = entry
            self._reached_ns = entry.t_ns
            comparison.logged(entry)
            self._call(entry.message, entry)
            machine.take_tx()
            return
        comparison.logged(entry)
        if entry.kind is TaskTick and not entry.taken:
            tick = entry.message
            assert isinstance(tick, TaskTick)
            # A call that only ran tasks came after this release, but before the release of any
            # earlier task in the table.
            self.journal.put_back(entry)
            self._on_time(tick.release_ns)
            self.journal.pop()
            machine.take_tx()
            if not entry.taken:
                raise JournalGapError("the machine is not due to run a task that the log has")
        if entry.taken:
            self._ticks += 1
            self._reached_ns = entry.t_ns

    def _s(self, t_ns: int) -> float:
        return (t_ns - self.journal.start_ns) * 1e-9

    def _call(self, message: Message, entry: JournalEntry) -> None:
        machine, t_ns = self.machine, entry.t_ns
        if isinstance(message, WireChunk):
            if (
                message.checksum
                and crc32(message.data) != message.checksum
                and len(self._altered) < ALTERED_LIMIT
            ):
                self._altered.append(
                    f"{len(message.data)} bytes received on {message.port} at t = "
                    f"{self._s(t_ns):.6f} s, record {entry.sequence}"
                )
            machine.on_rx(message.port, message.data, t_ns)
        elif isinstance(message, PortEvent):
            machine.on_port(message.port, message.state, message.detail, t_ns)
        elif isinstance(message, MachineCall):
            if message.verb is Verb.START:
                machine.start(t_ns)
            elif message.verb is Verb.TIME:
                self._on_time(t_ns)
            elif message.verb is Verb.BRAKE:
                machine.brake_now(t_ns)
            else:
                following = self.journal.pop()
                if following is None or following.sequence != entry.sequence + 1:
                    raise JournalGapError("a message that came by a request is missing")
                self._sequence = following.sequence
                self._comparison.logged(following)
                self._comparison.fed = following
                machine.on_message(following.message, t_ns)

    def _catch_up(self, entry: JournalEntry) -> None:
        """Run a task that raised at the end of the run: it left records, but no tick."""
        raised_ns = self._comparison.raised_ns()
        due_ns = self.machine.executive.next_due_ns()
        if raised_ns is None or due_ns > raised_ns:
            return
        self._stopwatch.crash_ns = raised_ns
        self.journal.put_back(entry)
        self._on_time(due_ns)
        self._stopwatch.crash_ns = None
        self.journal.pop()

    def _on_time(self, now_ns: int) -> None:
        try:
            self.machine.on_time(now_ns)
        except (JournalEndsError, JournalGapError, LogError):
            raise
        except Exception:  # noqa: BLE001, S110 - what a task raised then it raises again; what came of it is compared
            pass

    def _result(self, incomplete: str, spent_s: float) -> ReplayResult:
        journal, comparison, machine = self.journal, self._comparison, self.machine
        digest, then = machine.digest.hexdigest(), journal.end.get("digest", "")
        if (
            not incomplete
            and not journal.damage
            and (counted := journal.count(TaskTick)) not in (None, self._ticks)
        ):
            journal.damage.append(
                f"of the {counted} ticks that the log counts, {self._ticks} were replayed"
            )
        if self._changes:
            verdict = WHAT_IF
        elif comparison.first is not None or self._altered:
            verdict = DIFFERENT
        elif not (comparison.matched and self._ticks and machine.digest.frames):
            verdict = NOTHING
        elif not incomplete and then and digest != then:
            verdict = DIFFERENT
        else:
            verdict = DAMAGED if journal.damage else IDENTICAL
        return ReplayResult(
            log=journal.parts[0].path,
            verdict=verdict,
            changed=self._changes,
            notes=self.notes,
            incomplete=incomplete,
            damage=journal.damage,
            missing=journal.missing,
            replayed_s=self._s(self._reached_ns),
            spent_s=spent_s,
            records=comparison.matched,
            ticks=self._ticks,
            frames=machine.digest.frames,
            digest=digest,
            digest_in_log=then,
            altered=self._altered,
            first=comparison.first,
            first_frame=self.meter.first_frame,
            numbers=self.meter.numbers if verdict in (WHAT_IF, DIFFERENT) else None,
            partings=self._open_loop.partings() if self._open_loop is not None else [],
        )
