"""Messages as table rows: the columns of a type, and one table of all topics at a fixed rate."""

from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import ALL, Message
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, Record, run_parts
from vehicled.log.schema import CHANNELS, RunHeader
from vehicled.ros.fields import SCALAR, SEQUENCE, fields_of


class ExportColumn(Struct, frozen=True):
    """Table column: a field, or an element of a field of fixed length."""

    name: str
    kind: str
    """``int``, ``float``, ``bool``, ``text``, ``bytes``, ``floats`` or ``enum``."""
    take: Callable[[Any], Any]
    """Function that returns the value of a message."""


def topic_name(kind: type[Message]) -> str:
    """Return the topic of a type: ``state_estimate`` for ``StateEstimate``."""
    return CHANNELS[kind].topic.rsplit("/", 1)[-1]


def columns_of(kind: type[Message]) -> list[ExportColumn]:
    """Return the columns of a type. Vectors have one per element: ``velocity_enu_mps_0`` and so
    on."""
    found = []
    for field in fields_of(kind):
        if field.length == SCALAR:
            base = "enum" if field.enum is not None else _kind(field.base)
            found.append(ExportColumn(field.name, base, _scalar(field.name)))
        elif field.length == SEQUENCE:
            found.append(
                ExportColumn(
                    field.name, "bytes" if field.base == "uint8" else "floats", _scalar(field.name)
                )
            )
        else:
            found += [
                ExportColumn(f"{field.name}_{i}", _kind(field.base), _element(field.name, i))
                for i in range(field.length)
            ]
    return found


def row_of(kind: type[Message]) -> Callable[[Message], tuple[Any, ...]]:
    """Return a function that takes the values of a message, in the order of :func:`columns_of`."""
    parts = [
        f"{'' if field.length in (SCALAR, SEQUENCE) else '*'}message.{field.name}"
        for field in fields_of(kind)
    ]
    # One expression for all fields takes a third of the time of one call for each.
    text = f"lambda message: ({''.join(f'{part}, ' for part in parts)})"
    take: Callable[[Message], tuple[Any, ...]] = eval(text)  # noqa: S307
    return take


def _kind(base: str) -> str:
    return {"string": "text", "bool": "bool", "float64": "float", "float32": "float"}.get(
        base, "int"
    )


def _scalar(name: str) -> Callable[[Any], Any]:
    return lambda message: getattr(message, name)


def _element(name: str, index: int) -> Callable[[Any], Any]:
    return lambda message: getattr(message, name)[index]


def records(path: str, kinds: tuple[type[Message], ...]) -> Iterator[tuple[int, Record[Message]]]:
    """Yield (log time since the start of the run in ns, record) of all files of a run, in log
    order."""
    for part in run_parts(path):
        with LogReader(part) as log:
            origin_ns = log.header.start_monotonic_ns
            for record in log.messages(*kinds):
                yield record.t_ns - origin_ns, record


class NotByColumnError(Exception):
    """The messages of a type are not read by column: older records, out of order, or with a value
    that no enumeration has."""


def is_columnar(kind: type[Message]) -> bool:
    """Return True for a type of numbers and enumerations alone, which is read by column."""
    fields = fields_of(kind)
    return bool(fields) and all(field.is_fixed and field.base != "string" for field in fields)


def column_batches(path: str, kind: type[Message]) -> Iterator[list[Array | list[str]]]:
    """Yield batches of the columns of a type, with the time in front and enumerations as names, in
    log order.

    Raises :class:`NotByColumnError`.
    """
    last = -1
    for part in run_parts(path):
        with LogReader(part) as log:
            start_ns, batch = log.header.start_monotonic_ns + log.offset_ns, None
            for batch in log.records_of(kind):
                sequence = batch["sequence"].astype(np.int64)
                if int(sequence[0]) <= last or bool((np.diff(sequence) <= 0).any()):
                    raise NotByColumnError
                last = int(sequence[-1])
                yield [
                    (batch["log_time"].astype(np.int64) - start_ns) / 1e9,
                    *_columns(batch, kind),
                ]
            if batch is None and log.count(kind) != 0:
                raise NotByColumnError


def _columns(batch: Any, kind: type[Message]) -> Iterator[Array | list[str]]:
    for field in fields_of(kind):
        values = batch[field.name]
        if field.enum is not None:
            names = {int(member): member.name for member in field.enum}
            try:
                yield [names[value] for value in values.tolist()]
            except KeyError:
                raise NotByColumnError from None
        elif field.length == SCALAR:
            yield values
        else:
            yield from values.T


def header_of(path: str) -> RunHeader:
    """Return the header of a run."""
    with LogReader(path) as log:
        return log.header


def present(path: str, kinds: tuple[type[Message], ...]) -> tuple[type[Message], ...]:
    """Return the types of a choice (all by default) that a run contains. Raises :class:`LogError`
    if none."""
    topics = set()
    for part in run_parts(path):
        with LogReader(part) as log:
            counts = log.layout.statistics.channel_message_counts if log.layout.statistics else None
            topics |= {
                c.topic for c in log.layout.channels.values() if counts is None or counts.get(c.id)
            }
    found = tuple(kind for kind in (kinds or ALL) if CHANNELS[kind].topic in topics)
    if not found:
        wanted = ", ".join(map(topic_name, kinds)) or "of any kind"
        raise LogError(f"{path}: holds no messages {wanted}")
    return found


class Joined:
    """Table of all topics: at each instant the newest value of each topic that had arrived.

    Values are never interpolated, averaged or taken from the future. Each topic has a column
    ``age_s``, the time since its message was logged. Text, bytes and sequences have no column;
    enumerations are numbers.
    """

    def __init__(self, kinds: tuple[type[Message], ...], rate_hz: float) -> None:
        if not 0.0 < rate_hz <= 10_000.0:
            raise LogError(f"a rate of {rate_hz:g} Hz must be above 0 and at most 10000 Hz")
        self._rate_hz = rate_hz
        chosen = {
            kind: [c for c in columns_of(kind) if c.kind in ("int", "float", "bool", "enum")]
            for kind in kinds
        }
        self._columns = {kind: columns for kind, columns in chosen.items() if columns}
        self.names = ["t_s", "utc_ns"]
        self.kinds = ["float", "int"]
        self._at: dict[type[Message], int] = {}
        for kind, columns in self._columns.items():
            self._at[kind] = len(self.names)
            self.names += [
                f"{topic_name(kind)}.{name}"
                for name in ("age_s", *(column.name for column in columns))
            ]
            self.kinds += [
                "float",
                *("int" if column.kind == "enum" else column.kind for column in columns),
            ]

    def rows(self, path: str, offset_ns: int, origin_ns: int) -> Iterator[list[Any]]:
        """Yield rows from the start of the run to its last message. Values are None until the first
        message."""
        row: list[Any] = [None] * len(self.names)
        arrived: dict[type[Message], int] = {}
        number, last_ns = 0, 0
        for t_ns, record in records(path, tuple(self._columns)):
            while (due_ns := round(number / self._rate_hz * 1e9)) < t_ns:
                yield self._row(row, arrived, due_ns, origin_ns + offset_ns)
                number += 1
            kind = type(record.message)
            row[self._at[kind] + 1 : self._at[kind] + 1 + len(self._columns[kind])] = [
                column.take(record.message) for column in self._columns[kind]
            ]
            arrived[kind] = t_ns
            last_ns = max(last_ns, t_ns)
        while (due_ns := round(number / self._rate_hz * 1e9)) <= last_ns:
            yield self._row(row, arrived, due_ns, origin_ns + offset_ns)
            number += 1

    def _row(
        self, row: list[Any], arrived: dict[type[Message], int], due_ns: int, utc_origin_ns: int
    ) -> list[Any]:
        found = [int(value) if isinstance(value, IntEnum) else value for value in row]
        found[0], found[1] = due_ns / 1e9, utc_origin_ns + due_ns
        for kind, t_ns in arrived.items():
            found[self._at[kind]] = max(due_ns - t_ns, 0) / 1e9
        return found
