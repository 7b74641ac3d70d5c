"""Compares the records of a replay with those in the log: same records, same order, same bytes.

Records of the runtime are left out, because only the machine is replayed. A slow disk may have
dropped derived records; a gap in the sequence shows how many.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from vehicled.core.messages import (
    Event,
    Fault,
    GarbageCollection,
    Message,
    ModeChange,
    Path,
    PortEvent,
    TaskTick,
    WireChunk,
)
from vehicled.core.tasks import TASKS
from vehicled.log.older import as_before
from vehicled.log.schema import CHANNELS, ChunkStream
from vehicled.offline.replay.journal import JournalEntry
from vehicled.ros.cdr import CdrError, packer

RAISED_EVENT = "task_raised"
"""Event whose text names source lines and is not compared."""
RUNTIME_EVENTS = frozenset(
    {
        "loop_blocked", "simulation_stall", "log_dropping", "log_dropped", "not_replayable_after",
        "journal_dropping", "journal_dropped", "log_unpackable", "bridge_cost", "bridge_gone",
        "view_cost", "view_gone", "failure_injected", "failure_over", "observer_failed",
        "planner_gone", "port_floods", "log_waited", "mixed_reality", "virtual_world",
        "virtual_world_waits", "virtual_world_behind", "virtual_world_lost",
    }
)  # fmt: skip
"""Events written by the runtime, the log and the view; all others come from devices and tasks."""
RUNTIME_FAULTS = frozenset({"frame_expired"})
"""Faults written by the runtime."""
_MAKERS = {output: task.name for task in TASKS for output in task.outputs}
_EVIDENCE_BYTES = 2
"""Bytes of cause and holder at the end of a tick: evidence about the computer, which no decision
uses."""
SHOWN_FIELDS = 12
HEX_BYTES = 48


class FieldDifference(Struct, frozen=True):
    """Difference in one field of a message."""

    field: str
    log: str
    now: str


class Difference(Struct, frozen=True, kw_only=True):
    """First record that differs."""

    t_s: float
    """Time since the start of the run, s."""
    record: int
    """Number of the record in the journal."""
    topic: str
    what: str
    """Description of the difference."""
    task: str
    """Running task; empty outside the tasks."""
    fed: str
    """Last input of the machine."""
    fields: list[FieldDifference]

    def to_text(self) -> str:
        """Return the difference as a few lines of text."""
        where = f"t = {self.t_s:.6f} s, record {self.record}" + (
            f", task {self.task}" if self.task else ""
        )
        lines = [f"first difference at {where}: {self.what}"]
        lines += [f"  {each.field}: log {each.log}, now {each.now}" for each in self.fields]
        return "\n".join([*lines, f"  last input of the machine: {self.fed}"])


class JournalGapError(Exception):
    """Error raised when the replay needs records that are missing."""


Loose = Callable[[Message], None]


class RecordComparison:
    """Matches both sides record by record until the first difference; later records go to ``log``
    and ``now``."""

    def __init__(
        self, start_ns: int, tasks: Sequence[str], *, evidence: bool, exact: bool,
        torn: Callable[[], bool], log: Loose, now: Loose,
    ) -> None:  # fmt: skip
        """Compare causes of missed deadlines too if ``evidence``; match nothing if not ``exact``.

        ``torn`` returns True if the log may lack records that the machine needs; a gap then
        explains a mismatch.
        """
        self._start_ns = start_ns
        self._tasks = tasks
        self._evidence = evidence
        self._torn = torn
        self._to_log, self._to_now = log, now
        self.exact = exact
        self.first: Difference | None = None
        self.matched = 0
        """Number of equal records."""
        self._then: deque[JournalEntry | int] = deque()
        """Pending records of the log; a number counts missing records."""
        self._made: deque[tuple[Message, int]] = deque()
        self.fed: JournalEntry | None = None
        """Last input of the machine."""
        self._tick: JournalEntry | None = None
        self._number = 0

    # ------------------------------------------------------------------ both sides

    def logged(self, entry: JournalEntry) -> None:
        """Add a record of the log, in order."""
        self.reach(entry.sequence)
        self._number = entry.sequence
        if _is_foreign(entry):
            return
        if entry.kind is TaskTick:
            self._tick = entry
        if self.exact:
            self._then.append(entry)
            self._match()
        else:
            self._to_log(entry.message)

    def reach(self, sequence: int) -> None:
        """Mark records before ``sequence`` that were not read as missing."""
        missing = sequence - self._number - 1
        if missing > 0 and self.exact:
            self._number = sequence - 1
            self._then.append(missing)
            self._match()

    def made(self, message: Message, t_ns: int) -> None:
        """Add a record of the replay."""
        if self.exact:
            self._made.append((message, t_ns))
            self._match()
        else:
            self._to_now(message)

    def settle(self, *, at_end: bool = False) -> None:
        """Check before the next input that no record is unmatched. Raises :class:`JournalGapError`.

        ``at_end``: the log was truncated, so records of the replay may be missing in it.
        """
        then, made = self._then, self._made
        if not (self.exact and (then or made)):
            return
        self._check_gaps()
        head = next((each for each in then if isinstance(each, JournalEntry)), None)
        if head is not None:
            name = _name(head.kind)
            self._differ(
                head, head.kind, f"the log has {name}, which is not made now", _shown(head.message)
            )
        elif made and not (at_end and self._torn()):
            message, t_ns = made[0]
            what = (
                f"now {_name(type(message))} is made at t = {self._s(t_ns):.6f} s, which is "
                "not in the log"
            )
            self._differ(None, type(message), what, _shown(message, now=True))

    def raised_ns(self) -> int | None:
        """Return the time at which a task of the log raised while its records are not made now;
        None if none did."""
        return next(
            (
                each.t_ns
                for each in self._then
                if isinstance(each, JournalEntry) and _is_raised(each)
            ),
            None,
        )

    # ------------------------------------------------------------------ inside

    def _match(self) -> None:
        then, made = self._then, self._made
        while then and made:
            head = then[0]
            message, t_ns = made[0]
            if isinstance(head, int):
                if CHANNELS[type(message)].stream is not ChunkStream.DERIVED:
                    self._check_gaps()
                    then.popleft()
                    continue
                made.popleft()
                then[0] = head - 1
                if head == 1:
                    then.popleft()
            elif self._same(head, message, t_ns):
                then.popleft()
                made.popleft()
                self.matched += 1
            else:
                self._report(head, message, t_ns)
                return

    def _same(self, entry: JournalEntry, message: Message, t_ns: int) -> bool:
        if entry.kind is Fault and isinstance(message, ModeChange):
            message = as_before(message)
        kind = type(message)
        if entry.kind is not kind or entry.t_ns != t_ns:
            return False
        if entry.is_call and kind is WireChunk:
            # The replay received these same bytes; their checksum shows if they are the original
            # ones.
            return True
        try:
            data = packer(kind)(message)
        except CdrError:
            return False
        if data == entry.data:
            return True
        if kind is TaskTick and not self._evidence:
            return data[:-_EVIDENCE_BYTES] == entry.data[:-_EVIDENCE_BYTES]
        if kind is Event and entry.message.name == RAISED_EVENT:  # type: ignore[attr-defined]
            return message.name == RAISED_EVENT  # type: ignore[attr-defined, no-any-return]
        # An older version wrote fewer fields. Fields are only ever appended, so its record is the
        # beginning of ours.
        return data.startswith(entry.data)

    def _check_gaps(self) -> None:
        """Raise :class:`JournalGapError` if missing records explain the mismatch."""
        missing = sum(each for each in self._then if isinstance(each, int))
        if missing and self._torn():
            raise JournalGapError(
                f"{missing} record{'s' if missing > 1 else ''} of the log "
                f"{'are' if missing > 1 else 'is'} missing"
            )

    def _report(self, entry: JournalEntry, message: Message, t_ns: int) -> None:
        self._check_gaps()
        kind = type(message)
        if entry.kind is kind:
            fields = different_fields(entry.message, message, entry.t_ns, t_ns)
            self._differ(entry, kind, f"{_name(kind)} is not the same", fields)
            return
        what = f"the log has {_name(entry.kind)}, which is not made now; {_name(kind)} is next"
        self._differ(entry, entry.kind, what, _shown(entry.message))

    def _differ(
        self,
        entry: JournalEntry | None,
        kind: type[Message],
        what: str,
        fields: list[FieldDifference],
    ) -> None:
        t_ns = entry.t_ns if entry is not None else self._made[0][1]
        self.first = Difference(
            t_s=self._s(t_ns),
            record=entry.sequence if entry is not None else self._number,
            topic=CHANNELS[kind].topic,
            what=what,
            task=self._task(kind, entry),
            fed=self._fed(),
            fields=fields[:SHOWN_FIELDS],
        )
        self.exact = False
        for each in self._then:
            if isinstance(each, JournalEntry):
                self._to_log(each.message)
        for message, _ in self._made:
            self._to_now(message)
        self._then.clear()
        self._made.clear()

    def _task(self, kind: type[Message], entry: JournalEntry | None) -> str:
        """Return the task that makes this record, or at whose end it was recorded."""
        tick = self._tick
        if kind in _MAKERS:
            return _MAKERS[kind]
        if entry is not None and entry.kind is TaskTick:
            tick = entry
        elif tick is None or entry is None or tick.t_ns != entry.t_ns:
            return ""
        number = tick.message.task  # type: ignore[attr-defined]
        return self._tasks[number] if number < len(self._tasks) else str(number)

    def _fed(self) -> str:
        entry = self.fed
        if entry is None:
            return "nothing"
        message, at = entry.message, f"at t = {self._s(entry.t_ns):.6f} s (record {entry.sequence})"
        if isinstance(message, WireChunk):
            return (
                f"{len(message.data)} bytes received on {message.port} {at}: {hex_of(message.data)}"
            )
        if isinstance(message, PortEvent):
            return f"port {message.port} {message.state.name.lower()} {at}"
        return f"{_name(entry.kind)} {at}"

    def _s(self, t_ns: int) -> float:
        return (t_ns - self._start_ns) * 1e-9


def hex_of(data: bytes) -> str:
    """Return bytes as hexadecimal text, truncated if long."""
    return data[:HEX_BYTES].hex(" ") + (" ..." if len(data) > HEX_BYTES else "")


def _is_foreign(entry: JournalEntry) -> bool:
    """True if the runtime or the log wrote the record, not the machine."""
    if entry.kind in (Path, GarbageCollection):
        return True
    if entry.kind is Event:
        return entry.message.name in RUNTIME_EVENTS  # type: ignore[attr-defined]
    return entry.kind is Fault and entry.message.code in RUNTIME_FAULTS  # type: ignore[attr-defined]


def _is_raised(entry: JournalEntry) -> bool:
    return entry.kind is Event and entry.message.name == RAISED_EVENT  # type: ignore[attr-defined]


def _name(kind: type[Message]) -> str:
    return CHANNELS[kind].topic.rsplit("/", 1)[-1]


def _plain(value: Any) -> str:
    if isinstance(value, bytes):
        return hex_of(value)
    return value.name if hasattr(value, "name") else repr(value)


def _shown(message: Message, *, now: bool = False) -> list[FieldDifference]:
    fields = []
    for name in message.__struct_fields__[:4]:
        text = _plain(getattr(message, name))
        fields.append(FieldDifference(name, "-", text) if now else FieldDifference(name, text, "-"))
    return fields


def different_fields(
    then: Message, now: Message, then_ns: int = 0, now_ns: int = 0
) -> list[FieldDifference]:
    """Return the values that differ: tuples element by element, bytes at their first difference."""
    found = []
    for name in now.__struct_fields__:
        a, b = getattr(then, name), getattr(now, name)
        if _alike(a, b):
            continue
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            found += [
                FieldDifference(f"{name}[{i}]", _plain(x), _plain(y))
                for i, (x, y) in enumerate(zip(a, b))
                if not _alike(x, y)
            ]
        elif isinstance(a, bytes) and isinstance(b, bytes):
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            found.append(
                FieldDifference(
                    f"{name} ({len(a)} and {len(b)} bytes, first at byte {at})",
                    hex_of(a),
                    hex_of(b),
                )
            )
        else:
            found.append(FieldDifference(name, _plain(a), _plain(b)))
    if not found and then_ns != now_ns:
        found.append(FieldDifference("recorded at (ns)", str(then_ns), str(now_ns)))
    return found


def _alike(a: Any, b: Any) -> bool:
    # Compare by text: distinguishes -0.0 from 0.0, and treats NaN as equal to NaN.
    return repr(a) == repr(b) if isinstance(a, float) and isinstance(b, float) else bool(a == b)
