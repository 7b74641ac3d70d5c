"""Reads the journal of a run over all its files, in the order in which the machine saw or made the
records."""

import heapq
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Self

from vehicled.core.attribution import Reading
from vehicled.core.events import JournalGap
from vehicled.core.executive import Stopwatch
from vehicled.core.messages import (
    Direction,
    Event,
    MachineCall,
    Message,
    PortEvent,
    TaskTick,
    WireChunk,
)
from vehicled.log.damage import find_damage
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, StoredMessage, run_parts
from vehicled.log.schema import RunHeader
from vehicled.ros.cdr import CdrError


class JournalEntry:
    """Journal record, decoded on first access to its message."""

    __slots__ = ("_message", "data", "is_call", "kind", "sequence", "stored", "t_ns", "taken")

    def __init__(self, stored: StoredMessage) -> None:
        self.stored = stored
        self.t_ns = stored.t_ns
        self.sequence = stored.sequence
        self.kind = stored.kind
        self.data = stored.data
        self._message: Message | None = None
        self.taken = False
        """True if the machine has already run this tick, which was read ahead."""
        self.is_call = self.kind is MachineCall or self.kind is PortEvent
        """True for an input of the machine; all other records are its outputs."""
        if self.kind is WireChunk:
            self.is_call = self.message.direction is Direction.RX  # type: ignore[attr-defined]

    @property
    def message(self) -> Message:
        """Decoded message. Raises :class:`LogError`."""
        if self._message is None:
            try:
                self._message = self.stored.message
            except CdrError as error:
                raise LogError(f"record {self.sequence} is damaged: {error}") from error
        return self._message


class Journal:
    """All records of one run. Use as a context manager."""

    def __init__(self, path: str) -> None:
        """Open the file and the parts that follow it.

        Raises :class:`LogError` for an invalid log, for a later part alone, and for a version that
        recorded no calls.
        """
        self._stack = ExitStack()
        try:
            self.parts = [self._stack.enter_context(LogReader(part)) for part in run_parts(path)]
            self.header: RunHeader = self.parts[0].header
            if self.header.part != 1:
                raise LogError(
                    f"{path}: part {self.header.part} of a run: a replay needs its first part"
                )
            self._check_calls(path)
            self.damage: list[str] = [
                f"{part.path}: {each.to_text()}"
                for part in self.parts
                for each in find_damage(part)
            ]
            """Damage of the files, each with its place and its time."""
            self.limit_ns, self.loss = self._find_loss()
        except BaseException:
            self._stack.close()
            raise
        self.start_ns = self.header.start_monotonic_ns
        streams = [part.stored() for part in self.parts]
        # A run of one part is already in order.
        self._records: Iterator[StoredMessage] = (
            streams[0]
            if len(streams) == 1
            else heapq.merge(*streams, key=lambda record: record.sequence)
        )
        self._ahead: deque[JournalEntry] = deque()
        self._last = 0
        self._doubled = 0
        self.missing = 0
        """Records so far whose numbers are left out."""
        self.on_read: Callable[[JournalEntry], None] | None = None
        """Function called with every record as it is read, which may be ahead of :meth:`pop`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()

    @property
    def end(self) -> dict[str, str]:
        """Metadata of an orderly end."""
        return self.parts[-1].end

    @property
    def whole(self) -> bool:
        """True if every part ended orderly and nothing is damaged."""
        return (
            all(part.layout.complete for part in self.parts)
            and not self.damage
            and bool(self.end)
            and self.limit_ns is None
        )

    def count(self, kind: type[Message]) -> int | None:
        """Return how many messages of a type the indexes of the files count; None if one has no
        index."""
        counts = [part.count(kind) for part in self.parts]
        return None if None in counts else sum(count for count in counts if count is not None)

    @property
    def problem(self) -> str:
        """Text that describes an abnormal end of the files."""
        for part in self.parts:
            if part.layout.problem:
                return f"{part.path}: {part.layout.problem}"
        return (
            ""
            if self.end
            else "the log has no end record: the daemon was killed, or a later part is missing"
        )

    @property
    def duration_s(self) -> float:
        """Time to the last chunk of the files, s."""
        last = max(
            (
                int(part.layout.chunks["end_ns"].max())
                for part in self.parts
                if len(part.layout.chunks)
            ),
            default=0,
        )
        return max((last - self.parts[0].offset_ns - self.start_ns) * 1e-9, 0.0)

    def attachment(self, name: str) -> bytes:
        """Return the content of an attachment. Raises :class:`LogError`."""
        return self.parts[0].attachment(name)

    def has_attachment(self, name: str) -> bool:
        """True if there is an attachment of this name."""
        return any(entry.name == name for entry in self.parts[0].layout.attachments)

    # ------------------------------------------------------------------ reading

    def pop(self) -> JournalEntry | None:
        """Return the next record; None at the end."""
        if self._ahead:
            return self._ahead.popleft()
        return self._read()

    def put_back(self, entry: JournalEntry) -> None:
        """Put back the record popped last."""
        self._ahead.appendleft(entry)

    def next_tick(self) -> JournalEntry | None:
        """Return the next tick that was not run, without passing a machine call; None if there is
        none."""
        for entry in self._ahead:
            if entry.kind is TaskTick and not entry.taken:
                return entry
            if entry.is_call:
                return None
        while (new := self._read()) is not None:
            self._ahead.append(new)
            if new.kind is TaskTick:
                return new
            if new.is_call:
                return None
        return None

    # ------------------------------------------------------------------ inside

    def _read(self) -> JournalEntry | None:
        for stored in self._records:
            if stored.sequence != self._last:
                break
            self._note_doubled(stored)
        else:
            return None
        self.missing += max(0, stored.sequence - self._last - 1)
        self._last = stored.sequence
        entry = JournalEntry(stored)
        if self.on_read is not None:
            self.on_read(entry)
        return entry

    def _note_doubled(self, stored: StoredMessage) -> None:
        """Note a record with the number of the one before, which is replayed once."""
        self._doubled += 1
        if self._doubled == 1 and not self.damage:
            t_s = (stored.t_ns - self.start_ns) * 1e-9
            self.damage.append(
                f"{self.parts[0].path}: record {stored.sequence} is there more than once, at t "
                f"= {t_s:.3f} s"
            )

    def _check_calls(self, path: str) -> None:
        layout = self.parts[0].layout
        topics = {channel.topic for channel in layout.channels.values()}
        if topics and not any(topic.endswith("/machine_call") for topic in topics):
            raise LogError(
                f"{path}: the calls of the machine are not in this log: it was written before "
                "they were recorded"
            )

    def _find_loss(self) -> tuple[int | None, str]:
        for part in self.parts:
            for record in part.messages(Event):
                if (gap := JournalGap.read(record.message)) is not None:
                    after_ns = record.t_ns if gap.complete_to_ns is None else gap.complete_to_ns
                    return after_ns, "the disk was too slow, and records of the journal were lost"
        return None, ""


class JournalEndsError(Exception):
    """Error raised when the log ends before the task that the machine is due to run."""


class JournalStopwatch(Stopwatch):
    """Stopwatch that reads task times from the journal."""

    def __init__(self, journal: Journal, names: Sequence[str]) -> None:
        """Take the task ``names`` by number."""
        self._journal = journal
        self._names = names
        self.now: JournalEntry | None = None
        """Current tick."""
        self.crash_ns: int | None = None
        """Start of a task that ended the run by raising and therefore has no tick."""

    def begin(self, now_ns: int) -> Reading:
        """Return the start of the next tick."""
        self.now = self._journal.next_tick()
        if self.now is None:
            if self.crash_ns is not None:
                return self.crash_ns, 0, 0, 0, 0, 0
            raise JournalEndsError("it ends within a turn of the machine")
        return self.now.message.start_ns, 0, 0, 0, 0, 0  # type: ignore[attr-defined]

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the end of that tick."""
        entry = self._journal.next_tick()
        if entry is None:
            raise JournalEndsError("it ends within a turn of the machine")
        tick = entry.message
        assert isinstance(tick, TaskTick)
        if tick.task != task or tick.start_ns != begin[0]:
            theirs = self._names[tick.task] if tick.task < len(self._names) else str(tick.task)
            raise JournalEndsError(
                f"the machine runs {self._names[task]} where the log has {theirs}: records are "
                "missing before it"
            )
        entry.taken = True
        self.now = entry
        return tick.end_ns, begin[1] + tick.cpu_ns, 0, 0, 0, 0
