"""Imports CSV files by a mapping file from columns to fields; docs/logs.md describes the format
with examples."""

import csv
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from heapq import merge
from pathlib import Path
from typing import IO, Any

from vehicled.core.messages import ALL
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.mapping import (
    GEODETIC,
    POSITION,
    EmptyCellError,
    MappedMessage,
    Mapping,
    MapTime,
    datum_of,
    load_mapping,
)
from vehicled.offline.recordings.foreign.source import ForeignFile, Stamped
from vehicled.paths.datum import Datum
from vehicled.ros.fields import fields_of

_DAY_NS = 86_400 * 10**9
_NS = {"s": 10**9, "ms": 10**6, "us": 10**3, "ns": 1}
_TYPES = {kind.__name__: kind for kind in ALL}

CsvRow = dict[str, str]


def read(path: Path, mapping_file: Path) -> ForeignFile:
    """A file, or a folder of files. Raises :class:`RecordingError`."""
    mapping = load_mapping(mapping_file)
    files = (
        sorted(file for file in path.rglob("*") if file.suffix.lower() in (".csv", ".tsv", ".txt"))
        if path.is_dir()
        else [path]
    )
    notes: list[str] = []
    streams = []
    used: set[int] = set()
    for file in files:
        chosen = [
            n
            for n, message in enumerate(mapping.message)
            if not message.file or file.match(message.file)
        ]
        if chosen:
            used.update(chosen)
            streams.append(
                _File(file, mapping, [mapping.message[n] for n in chosen], notes).messages()
            )
    for number, message in enumerate(mapping.message):
        if number not in used:
            raise RecordingError(
                f"{mapping_file}: message {number + 1} ({message.type}): no file matches "
                f'"{message.file}" in {path}'
            )
    offset_ns = 0 if mapping.time.clock == "utc" else None
    # Files in their order where stamps are equal; messages themselves cannot be compared.
    numbered = [
        ((t_ns, n, message) for t_ns, message in stream) for n, stream in enumerate(streams)
    ]
    merged = ((t_ns, message) for t_ns, _, message in merge(*numbered, key=lambda entry: entry[:2]))
    return ForeignFile(
        format="CSV",
        messages=merged,
        utc_offset_ns=offset_ns,
        datum=datum_of(mapping),
        about={"mapping": mapping_file.name},
        notes=notes,
    )


class _Maker:
    """Makes messages of one type from rows."""

    def __init__(
        self,
        message: MappedMessage,
        time: MapTime,
        columns: set[str],
        place: str,
        datum: Datum | None,
    ) -> None:
        self.kind = _TYPES[message.type]
        self._datum = datum
        self._time = message.time or time
        self._when_changed = message.when_changed
        self._last: list[str] | None = None
        self._readers = {name: field.reader() for name, field in message.mapped.items()}
        self._optional = {spec.name for spec in fields_of(self.kind) if spec.optional}
        self._has_arrival = "t_rx_ns" in self.kind.__struct_fields__
        self._has_input = "newest_input_ns" in self.kind.__struct_fields__
        self._days, self._of_day_ns = 0, 0
        self.made = 0
        self.skipped = 0
        wanted = {column for field in message.mapped.values() for column in field.columns()} | set(
            message.when_changed
        )
        wanted |= {name for name in (self._time.column, self._time.arrival_column) if name}
        if missing := sorted(wanted - columns):
            known = ", ".join(sorted(columns)[:30])
            raise RecordingError(
                f"{place}: has no column {', '.join(map(repr, missing))}; there are: {known}"
            )

    def make(self, row: CsvRow) -> Stamped | None:
        if self._when_changed:
            now = [row[column] for column in self._when_changed]
            if now == self._last:
                return None
            self._last = now
        values: dict[str, Any] = {}
        try:
            t_ns = self._stamp_ns(row[self._time.column])
            values["t_ns"] = t_ns
            if self._time.arrival_column:
                t_ns = self._stamp_ns(row[self._time.arrival_column])
            for name, reader in self._readers.items():
                try:
                    values[name] = reader(row)
                except EmptyCellError:
                    if name not in self._optional:
                        raise
            if self._has_arrival:
                values.setdefault("t_rx_ns", t_ns)
            if self._has_input:
                values.setdefault("newest_input_ns", values["t_ns"])
            if self._datum is not None and (local_m := values.pop(POSITION.name, None)) is not None:
                values |= dict(zip(GEODETIC, self._datum.to_geodetic(*local_m), strict=True))
            message = self.kind(**values)
        except (ValueError, InvalidOperation, OverflowError):
            self.skipped += 1
            return None
        self.made += 1
        return t_ns, message

    def _stamp_ns(self, text: str) -> int:
        t_ns = stamp_ns(text, self._time.unit)
        if self._time.unit == "hhmmss":
            # Half a day back is midnight.
            self._days += t_ns < self._of_day_ns - _DAY_NS // 2
            self._of_day_ns = t_ns
        return t_ns + self._days * _DAY_NS


class _File:
    def __init__(
        self, file: Path, mapping: Mapping, messages: list[MappedMessage], notes: list[str]
    ) -> None:
        self._file = file
        self._mapping = mapping
        self._messages = messages
        self._notes = notes

    def messages(self) -> Iterator[Stamped]:
        """Yield the messages in row order."""
        try:
            with self._file.open(newline="", encoding="utf-8-sig", errors="replace") as stream:
                yield from self._read(stream)
        except OSError as error:
            raise RecordingError(f"{self._file}: cannot be read: {error.strerror}") from error
        except csv.Error as error:
            raise RecordingError(f"{self._file}: is no CSV: {error}") from error

    def _read(self, stream: IO[str]) -> Iterator[Stamped]:
        mapping = self._mapping
        lines = (
            line for line in stream if not (mapping.comment and line.startswith(mapping.comment))
        )
        names = mapping.columns or None
        reader = csv.DictReader(
            lines, fieldnames=names, delimiter=mapping.delimiter, skipinitialspace=True, restval=""
        )
        columns = {name.strip() for name in reader.fieldnames or ()}
        if reader.fieldnames is not None:
            reader.fieldnames = [name.strip() for name in reader.fieldnames]
        datum = datum_of(mapping)
        makers = [
            _Maker(message, mapping.time, columns, str(self._file), datum)
            for message in self._messages
        ]
        last_ns, back = None, 0
        for row in reader:
            row.pop(None, None)
            for maker in makers:
                made = maker.make(row)
                if made is not None:
                    if last_ns is not None and made[0] < last_ns:
                        back += 1
                    last_ns = made[0]
                    yield made
        for maker in makers:
            self._notes.append(
                f"{self._file.name}: {maker.made} {maker.kind.__name__}"
                + (f", {maker.skipped} rows without" if maker.skipped else "")
            )
        if back:
            self._notes.append(
                f"{self._file.name}: time runs back {back} times; readers sort within two seconds"
            )


def stamp_ns(text: str, unit: str) -> int:
    """A stamp as integer ns, exact for decimal text. Raises ``ValueError`` or InvalidOperation."""
    text = text.strip()
    if unit == "iso8601":
        whole = datetime.fromisoformat(text)
        if whole.tzinfo is None:
            whole = whole.replace(tzinfo=UTC)
        since = whole - datetime(1970, 1, 1, tzinfo=UTC)
        return (since.days * 86_400 + since.seconds) * 10**9 + since.microseconds * 1000
    if unit == "hhmmss":
        digits = text.replace(":", "")
        whole_s = Decimal(digits)
        hours, minutes, seconds = whole_s // 10_000, whole_s // 100 % 100, whole_s % 100
        if not (0 <= hours < 24 and minutes < 60 and seconds < 61):
            raise ValueError(f"{text} is no time of day")
        return round((3600 * hours + 60 * minutes + seconds) * 10**9)
    return round(Decimal(text) * _NS[unit])
