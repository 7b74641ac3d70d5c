"""What the machine makes now against what it made then: the same records in the same order, byte by byte.

Beside the machine only the runtime writes into a log; those few records are left out. Derived records may have been dropped when
the disk was slow: a gap in the sequence says how many.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct

from vehicled.log.replay.journal import Entry
from vehicled.log.schema import CHANNELS, Stream
from vehicled.messages import (
    ActuatorCommand,
    ControlCommand,
    Event,
    Fault,
    GarbageCollection,
    Identification,
    Message,
    Path,
    PortEvent,
    StateEstimate,
    TaskTick,
    WireChunk,
)
from vehicled.ros.cdr import CdrError, packer

RAISED_EVENT = "task_raised"
"""An event whose text names lines of source and is not compared."""
RUNTIME_EVENTS = frozenset(
    {
        "loop_blocked", "simulation_stall", "log_dropping", "log_dropped", "not_replayable_after", "journal_dropping",
        "journal_dropped", "log_unpackable", "view_cost", "view_gone", "failure_injected", "failure_over",
    }
)  # fmt: skip
"""Events that the runtime, the log and the view write; all others come from devices and tasks."""
RUNTIME_FAULTS = frozenset({"frame_expired"})
"""Faults that the runtime writes."""
_MAKERS: dict[type[Message], str] = {
    StateEstimate: "fusion",
    Identification: "fusion",
    ControlCommand: "control",
    ActuatorCommand: "actuation",
}
_EVIDENCE_BYTES = 2
"""Cause and holder at the end of a tick: evidence of the computer it ran on, which no decision rests on."""
SHOWN_FIELDS = 12
HEX_BYTES = 48


class FieldDifference(Struct, frozen=True):
    """One value of a message."""

    field: str
    log: str
    now: str


class Difference(Struct, frozen=True, kw_only=True):
    """The first record that is not the same."""

    t_s: float
    """Since the start of the run."""
    record: int
    """Its number in the journal."""
    topic: str
    what: str
    """In words."""
    task: str
    """The task that was running; empty outside the tasks."""
    fed: str
    """What the machine was given last."""
    fields: list[FieldDifference]

    def to_text(self) -> str:
        """In a few lines."""
        where = f"t = {self.t_s:.6f} s, record {self.record}" + (f", task {self.task}" if self.task else "")
        lines = [f"first difference at {where}: {self.what}"]
        lines += [f"  {each.field}: log {each.log}, now {each.now}" for each in self.fields]
        return "\n".join([*lines, f"  the machine was given last: {self.fed}"])


class JournalGapError(Exception):
    """Records are missing of which the machine cannot do without one."""


Loose = Callable[[Message], None]


class Comparison:
    """The two sides, matched record by record until the first difference. From there on they go to ``log`` and ``now``."""

    def __init__(
        self, start_ns: int, tasks: Sequence[str], *, evidence: bool, exact: bool, torn: Callable[[], bool],
        log: Loose, now: Loose,
    ) -> None:  # fmt: skip
        """``evidence``: causes of missed deadlines must agree too. ``exact`` False matches nothing from the start.

        ``torn`` tells whether the log may lack records that the machine needs: then a gap explains what does not match."""
        self._start_ns = start_ns
        self._tasks = tasks
        self._evidence = evidence
        self._torn = torn
        self._to_log, self._to_now = log, now
        self.exact = exact
        self.first: Difference | None = None
        self.matched = 0
        """Records that were the same."""
        self._then: deque[Entry | int] = deque()
        """Records of the log; a number stands for so many that are missing."""
        self._made: deque[tuple[Message, int]] = deque()
        self.fed: Entry | None = None
        """The call that the machine was given last."""
        self._tick: Entry | None = None
        self._number = 0

    # ------------------------------------------------------------------ both sides

    def logged(self, entry: Entry) -> None:
        """A record of the log, in order."""
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
        """The record of that number is the next of the log: what lies before it and was not given is missing."""
        missing = sequence - self._number - 1
        if missing > 0 and self.exact:
            self._number = sequence - 1
            self._then.append(missing)
            self._match()

    def made(self, message: Message, t_ns: int) -> None:
        """A record that the machine makes now."""
        if self.exact:
            self._made.append((message, t_ns))
            self._match()
        else:
            self._to_now(message)

    def settle(self, *, at_end: bool = False) -> None:
        """Before the machine is given the next call: nothing may be left on either side. Raises :class:`JournalGapError`.

        At the end of a log that was cut off, what is made now may be missing there.
        """
        then, made = self._then, self._made
        if not (self.exact and (then or made)):
            return
        self._check_gaps()
        head = next((each for each in then if isinstance(each, Entry)), None)
        if head is not None:
            name = _name(head.kind)
            self._differ(head, head.kind, f"the log has {name}, which is not made now", _shown(head.message))
        elif made and not (at_end and self._torn()):
            message, t_ns = made[0]
            what = f"now {_name(type(message))} is made at t = {self._s(t_ns):.6f} s, which is not in the log"
            self._differ(None, type(message), what, _shown(message, now=True))

    def raised_ns(self) -> int | None:
        """When a task of the log raised whose records were not made now; None when none did."""
        return next((each.t_ns for each in self._then if isinstance(each, Entry) and _is_raised(each)), None)

    # ------------------------------------------------------------------ inside

    def _match(self) -> None:
        then, made = self._then, self._made
        while then and made:
            head = then[0]
            message, t_ns = made[0]
            if isinstance(head, int):
                if CHANNELS[type(message)].stream is not Stream.DERIVED:
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
                self._tell(head, message, t_ns)
                return

    def _same(self, entry: Entry, message: Message, t_ns: int) -> bool:
        kind = type(message)
        if entry.kind is not kind or entry.t_ns != t_ns:
            return False
        if entry.is_call and kind is WireChunk:
            # The very bytes that the machine was given; whether they are those of then is a matter of their checksum.
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
        # An older version wrote fewer fields: what it did not write has its default.
        return len(data) != len(entry.data) and packer(kind)(entry.message) == data

    def _check_gaps(self) -> None:
        """Raises :class:`JournalGapError` where what is missing explains why both sides do not match."""
        missing = sum(each for each in self._then if isinstance(each, int))
        if missing and self._torn():
            raise JournalGapError(
                f"{missing} record{'s' if missing > 1 else ''} of the log {'are' if missing > 1 else 'is'} missing"
            )

    def _tell(self, entry: Entry, message: Message, t_ns: int) -> None:
        self._check_gaps()
        kind = type(message)
        if entry.kind is kind:
            fields = different_fields(entry.message, message, entry.t_ns, t_ns)
            self._differ(entry, kind, f"{_name(kind)} is not the same", fields)
            return
        what = f"the log has {_name(entry.kind)}, which is not made now; {_name(kind)} is next"
        self._differ(entry, entry.kind, what, _shown(entry.message))

    def _differ(self, entry: Entry | None, kind: type[Message], what: str, fields: list[FieldDifference]) -> None:
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
            if isinstance(each, Entry):
                self._to_log(each.message)
        for message, _ in self._made:
            self._to_now(message)
        self._then.clear()
        self._made.clear()

    def _task(self, kind: type[Message], entry: Entry | None) -> str:
        """The task that makes such a record, or at whose end it was recorded."""
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
            return f"{len(message.data)} bytes received on {message.port} {at}: {hex_of(message.data)}"
        if isinstance(message, PortEvent):
            return f"port {message.port} {message.state.name.lower()} {at}"
        return f"{_name(entry.kind)} {at}"

    def _s(self, t_ns: int) -> float:
        return (t_ns - self._start_ns) * 1e-9


def hex_of(data: bytes) -> str:
    """Bytes for a text: the first of them where they are many."""
    return data[:HEX_BYTES].hex(" ") + (" ..." if len(data) > HEX_BYTES else "")


def _is_foreign(entry: Entry) -> bool:
    """Whether the runtime or the log wrote it, not the machine."""
    if entry.kind in (Path, GarbageCollection):
        return True
    if entry.kind is Event:
        return entry.message.name in RUNTIME_EVENTS  # type: ignore[attr-defined]
    return entry.kind is Fault and entry.message.code in RUNTIME_FAULTS  # type: ignore[attr-defined]


def _is_raised(entry: Entry) -> bool:
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


def different_fields(then: Message, now: Message, then_ns: int = 0, now_ns: int = 0) -> list[FieldDifference]:
    """Values that are not the same; elements of tuples one by one, chunks of bytes at their first byte that differs."""
    found = []
    for name in now.__struct_fields__:
        a, b = getattr(then, name), getattr(now, name)
        if _alike(a, b):
            continue
        if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
            found += [
                FieldDifference(f"{name}[{i}]", _plain(x), _plain(y)) for i, (x, y) in enumerate(zip(a, b)) if not _alike(x, y)
            ]
        elif isinstance(a, bytes) and isinstance(b, bytes):
            at = next((i for i, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
            found.append(FieldDifference(f"{name} ({len(a)} and {len(b)} bytes, first at byte {at})", hex_of(a), hex_of(b)))
        else:
            found.append(FieldDifference(name, _plain(a), _plain(b)))
    if not found and then_ns != now_ns:
        found.append(FieldDifference("recorded at (ns)", str(then_ns), str(now_ns)))
    return found


def _alike(a: Any, b: Any) -> bool:
    # By their text: that tells -0.0 from 0.0, and not NaN from NaN.
    return repr(a) == repr(b) if isinstance(a, float) and isinstance(b, float) else bool(a == b)
