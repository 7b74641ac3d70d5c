"""``vehicled log compare --messages``: first difference between two logs, and the differences of
their configuration.

Runs that began at the same clock time, as in lockstep, are compared byte by byte. Otherwise stamps
count from the start of each run; in wall time the first difference is then usually an early stamp.
"""

import os
import tomllib
from collections.abc import Iterator
from itertools import chain
from typing import Any

import msgspec
from msgspec import Struct

from vehicled.core.messages import Message
from vehicled.log.cat import kinds_of, plain
from vehicled.log.errors import LogError
from vehicled.log.mcapfile import MESSAGE_HEAD, message_heads
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import CHANNELS, RunHeader
from vehicled.profile.toml_text import leaves
from vehicled.ros.cdr import CdrError, unpacker

_STAMPS = frozenset({"t_ns", "t_rx_ns", "newest_input_ns", "release_ns", "start_ns", "end_ns"})
_EXPECTED = frozenset(
    {"run_id", "start_wall_ns", "start_monotonic_ns", "argv", "part", "profile_digest", "tasks"}
)
"""Header fields that always differ between runs, or are compared by content."""
_AHEAD = 200_000
"""Messages of a topic by which one log may be ahead in its file before the comparison of that topic
ends."""

Stored = tuple[int, bytes]
"""Log time on the clock of the run; CDR record."""


class TopicComparison(Struct, frozen=True, kw_only=True):
    """Comparison of one topic."""

    topic: str
    a: int
    """Number of messages in the first log."""
    b: int
    number: int | None = None
    """Index of the first message that differs, from 0; None if all are equal."""
    t_s: float | None = None
    """Time of that message since the start of the run, s."""
    fields: dict[str, tuple[Any, Any]] = msgspec.field(default_factory=dict)
    """Fields that differ in it; empty if one log has no further message."""
    note: str = ""


class MessageComparison(Struct, frozen=True, kw_only=True):
    """Comparison of two logs."""

    a: str
    b: str
    header: dict[str, tuple[str, str]]
    profile: dict[str, tuple[Any, Any]]
    """Profile keys that differ; None if missing on one side."""
    attachments: list[str]
    """Attachments that differ."""
    topics: list[TopicComparison]
    """Topics: those that differ first, by time; then the equal ones."""
    notes: list[str]

    @property
    def same(self) -> bool:
        """True if all messages are equal."""
        return all(topic.number is None and not topic.note for topic in self.topics)

    def to_json(self) -> str:
        return msgspec.json.format(msgspec.json.encode(self), indent=2).decode()

    def to_text(self) -> str:
        lines = [f"a {self.a}", f"b {self.b}", *(f"note: {note}" for note in self.notes), ""]
        lines += [f"{key}: {a or 'none'} | {b or 'none'}" for key, (a, b) in self.header.items()]
        lines += [
            f"profile {key}: {_short(a)} | {_short(b)}" for key, (a, b) in self.profile.items()
        ]
        lines += [f"attachment {name} differs" for name in self.attachments]
        if self.header or self.profile or self.attachments:
            lines.append("")
        width = max((len(topic.topic) for topic in self.topics), default=0)
        for topic in self.topics:
            count = f"{topic.a}" if topic.a == topic.b else f"{topic.a} | {topic.b}"
            what = (
                "equal"
                if topic.number is None
                else f"from message {topic.number} at {topic.t_s:.6f} s"
            )
            what = topic.note or what
            lines.append(f"{topic.topic:<{width}}  {count:>17}  {what}")
            lines += [
                f"{'':<{width}}    {name}: {_short(a)} | {_short(b)}"
                for name, (a, b) in topic.fields.items()
            ]
        first = next((topic for topic in self.topics if topic.number is not None), None)
        end = "all messages are equal" if self.same else "no common message differs"
        if first is not None:
            end = f"first difference: {first.topic} at {first.t_s:.6f} s"
        return "\n".join([*lines, "", end]) + "\n"


def compare_messages(
    a: str | os.PathLike[str], b: str | os.PathLike[str], topics: tuple[str, ...] = ()
) -> MessageComparison:
    """Compare two runs, given by their first files. Raises :class:`LogError`."""
    kinds = kinds_of(topics) or tuple(CHANNELS)
    with LogReader(a) as first, LogReader(b) as second:
        headers = first.header, second.header
        header = _headers(*headers)
        profile, notes = _profiles(first, second)
        attachments = _attachments(first, second)
    aligned = headers[0].start_monotonic_ns == headers[1].start_monotonic_ns
    if not aligned:
        notes.append(
            "the runs began at different times of their clocks: stamps are counted from the "
            "start of each run"
        )
    found = _Walk(kinds, headers, aligned)
    found.run(_stored(a, kinds), _stored(b, kinds))
    rows = [row for kind in kinds if (row := found.row(kind)) is not None]
    rows.sort(
        key=lambda row: (row.t_s is None and not row.note, row.t_s if row.t_s is not None else 0.0)
    )
    return MessageComparison(
        a=os.fspath(a),
        b=os.fspath(b),
        header=header,
        profile=profile,
        attachments=attachments,
        topics=rows,
        notes=notes,
    )


# ------------------------------------------------------------------ messages


class _Topic:
    def __init__(self) -> None:
        self.counts = [0, 0]
        self.ahead: list[list[Stored]] = [[], []]
        self.number = 0
        self.first: tuple[Stored | None, Stored | None] | None = None
        self.note = ""

    @property
    def decided(self) -> bool:
        return self.first is not None or bool(self.note)


class _Walk:
    """Side-by-side reader of two logs. A topic is compared up to its first difference and counted
    to the end."""

    def __init__(
        self, kinds: tuple[type[Message], ...], headers: tuple[RunHeader, RunHeader], aligned: bool
    ) -> None:
        self._topics = {kind: _Topic() for kind in kinds}
        self._starts = tuple(header.start_monotonic_ns for header in headers)
        self._aligned = aligned

    def run(
        self,
        a: "Iterator[tuple[type[Message], list[Stored]]]",
        b: "Iterator[tuple[type[Message], list[Stored]]]",
    ) -> None:
        sides = [a, b]
        # Read the log that is behind, so that neither must be kept in memory.
        t_ns = [0, 0]
        open_sides = {0, 1}
        while open_sides:
            side = min(open_sides, key=lambda one: t_ns[one] - self._starts[one])
            found = next(sides[side], None)
            if found is None:
                open_sides.discard(side)
                continue
            kind, records = found
            t_ns[side] = records[-1][0]
            self._add(side, kind, records)
        for topic in self._topics.values():
            if not topic.decided and (topic.ahead[0] or topic.ahead[1]):
                topic.first = (
                    topic.ahead[0][0] if topic.ahead[0] else None,
                    topic.ahead[1][0] if topic.ahead[1] else None,
                )

    def _add(self, side: int, kind: type[Message], records: list[Stored]) -> None:
        topic = self._topics[kind]
        topic.counts[side] += len(records)
        if topic.decided:
            return
        topic.ahead[side] += records
        mine, theirs = topic.ahead
        both = min(len(mine), len(theirs))
        for at in range(both):
            if not self._equal(kind, mine[at], theirs[at]):
                topic.first = mine[at], theirs[at]
                topic.number += at
                topic.ahead = [[], []]
                return
        topic.number += both
        topic.ahead = [mine[both:], theirs[both:]]
        if max(len(mine), len(theirs)) - both > _AHEAD:
            topic.note = (
                f"not compared beyond message {topic.number}: one log has {_AHEAD} more of "
                "them in the same time"
            )
            topic.ahead = [[], []]

    def _equal(self, kind: type[Message], a: Stored, b: Stored) -> bool:
        if self._aligned:
            return a == b
        return a[0] - self._starts[0] == b[0] - self._starts[1] and not self._fields(kind, a, b)

    def _fields(self, kind: type[Message], a: Stored, b: Stored) -> dict[str, tuple[Any, Any]]:
        unpack = unpacker(kind)
        try:
            left, right = unpack(a[1]), unpack(b[1])
        except CdrError:
            return {} if a[1] == b[1] else {"record": (a[1].hex(), b[1].hex())}
        found = {}
        for name in kind.__struct_fields__:
            one, other = getattr(left, name), getattr(right, name)
            if not self._aligned and name in _STAMPS and one > 0 and other > 0:
                one, other = one - self._starts[0], other - self._starts[1]
            # NaN equals NaN here: the value is missing on both sides.
            if one != other and repr(one) != repr(other):
                found[name] = plain(one), plain(other)
        return found

    def row(self, kind: type[Message]) -> TopicComparison | None:
        """Return the comparison of a topic; None if neither log has it."""
        topic = self._topics[kind]
        a, b = topic.counts
        if not a and not b:
            return None
        name = CHANNELS[kind].topic.rsplit("/", 1)[-1]
        if topic.first is None:
            return TopicComparison(topic=name, a=a, b=b, note=topic.note)
        left, right = topic.first
        t_s = min(
            (one[0] - start) * 1e-9
            for one, start in zip((left, right), self._starts)
            if one is not None
        )
        fields: dict[str, tuple[Any, Any]] = {}
        if left is not None and right is not None:
            fields = self._fields(kind, left, right)
            times = [(left[0] - self._starts[0]) * 1e-9, (right[0] - self._starts[1]) * 1e-9]
            if not fields:
                fields = {"log time": (times[0], times[1])}
        return TopicComparison(topic=name, a=a, b=b, number=topic.number, t_s=t_s, fields=fields)


def _stored(
    path: str | os.PathLike[str], kinds: tuple[type[Message], ...]
) -> Iterator[tuple[type[Message], list[Stored]]]:
    """Yield the messages of a run in the order of its chunks."""
    topics = {CHANNELS[kind].topic: kind for kind in kinds}
    for part in run_parts(path):
        with LogReader(part) as log:
            offset_ns = log.offset_ns
            wanted = {
                channel.id: topics[channel.topic]
                for channel in log.layout.channels.values()
                if channel.topic in topics
            }
            for number in range(len(log.layout.chunks)):
                records = log.records(number)
                found: dict[type[Message], list[Stored]] = {}
                try:
                    for at, length, channel, _, log_time in message_heads(records):
                        kind = wanted.get(channel)
                        if kind is not None:
                            data = at + MESSAGE_HEAD.size
                            found.setdefault(kind, []).append(
                                (log_time - offset_ns, records[data : data + length])
                            )
                except ValueError:
                    log.faults[number] = "truncated record"
                yield from found.items()


# ------------------------------------------------------------------ what the runs were given


def _headers(a: RunHeader, b: RunHeader) -> dict[str, tuple[str, str]]:
    found = {}
    for name in RunHeader.__struct_fields__:
        left, right = getattr(a, name), getattr(b, name)
        if left == right or name in _EXPECTED:
            continue
        if isinstance(left, dict) and isinstance(right, dict):
            for key in sorted(left.keys() | right.keys()):
                if left.get(key) != right.get(key):
                    found[f"{name.replace('_', ' ')}, {key}"] = (
                        str(left.get(key, "")),
                        str(right.get(key, "")),
                    )
        else:
            found[name.replace("_", " ")] = str(left), str(right)
    rows = {row.name: row for row in a.tasks}, {row.name: row for row in b.tasks}
    for name in dict.fromkeys(chain(*rows)):
        left, right = (side.get(name) for side in rows)
        if left != right:
            found[f"task {name}"] = _task(left, right), _task(right, left)
    return found


def _task(row: Any, other: Any) -> str:
    if row is None:
        return ""
    names = [
        name
        for name in row.__struct_fields__
        if other is None or getattr(row, name) != getattr(other, name)
    ]
    return ", ".join(f"{name} {getattr(row, name)}" for name in names)


def _profiles(a: LogReader, b: LogReader) -> tuple[dict[str, tuple[Any, Any]], list[str]]:
    tables = []
    for log in (a, b):
        try:
            tables.append(dict(leaves(tomllib.loads(log.attachment("profile.toml").decode()))))
        except LogError:
            return {}, [f"{log.path} carries no profile"]
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            return {}, [f"{log.path}: its profile cannot be read: {error}"]
    left, right = tables
    keys = sorted(left.keys() | right.keys())
    return {
        key: (left.get(key), right.get(key)) for key in keys if left.get(key) != right.get(key)
    }, []


def _attachments(a: LogReader, b: LogReader) -> list[str]:
    entries = [{entry.name: entry for entry in log.layout.attachments} for log in (a, b)]
    names = dict.fromkeys(name for side in entries for name in side if name != "profile.toml")
    differing = []
    for name in names:
        if any(name not in side for side in entries):
            differing.append(name)
            continue
        try:
            same = a.attachment(name) == b.attachment(name)
        except LogError:
            same = False
        if not same:
            differing.append(name)
    return differing


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:40]}... ({len(text)} characters)"
