"""Exports a log as CSV or Parquet: one file per topic in a folder, or one table of all topics at a fixed rate."""

import csv
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from itertools import islice
from math import isfinite
from typing import Any

import msgspec

from vehicled.analysis.export.columns import Column, Joined, columns_of, header_of, present, records, topic_name
from vehicled.analysis.export.exporting import ExportRequest, ExportResult
from vehicled.log.errors import LogError
from vehicled.messages import Message

_BATCH_ROWS = 16_384


def write_csv(wish: ExportRequest) -> ExportResult:
    """Write CSV by RFC 4180 with a header line.

    NaN is an empty cell, infinities are ``inf`` and ``-inf``, bytes hexadecimal, enumerations names (numbers in the joined table),
    sequences JSON.
    """
    kinds = present(wish.path, wish.kinds)
    if wish.rate_hz is not None:
        joined = Joined(kinds, wish.rate_hz)
        header = header_of(wish.path)
        with open(wish.out, "x", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(joined.names)
            count = 0
            for row in joined.rows(wish.path, header.offset_ns, header.start_monotonic_ns):
                writer.writerow([_cell(value) for value in row])
                count += 1
        return ExportResult(files=[wish.out], counts={"rows": count}, notes=[])
    os.mkdir(wish.out)
    files, counts = [], dict.fromkeys(map(topic_name, kinds), 0)
    with ExitStack() as stack:
        writers: dict[type[Message], tuple[Any, list[Column], str]] = {}
        for kind in kinds:
            columns = columns_of(kind)
            files.append(os.path.join(wish.out, f"{topic_name(kind)}.csv"))
            writer = csv.writer(stack.enter_context(open(files[-1], "x", newline="")))
            writer.writerow(["t_s", *(column.name for column in columns)])
            writers[kind] = writer, columns, topic_name(kind)
        for t_ns, record in records(wish.path, kinds):
            writer, columns, name = writers[type(record.message)]
            writer.writerow([t_ns / 1e9, *(_cell(column.take(record.message)) for column in columns)])
            counts[name] += 1
    return ExportResult(files=files, counts=counts, notes=[])


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else "" if value != value else f"{value}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, tuple):
        return msgspec.json.encode([v if isfinite(v) else None for v in value]).decode()
    name = getattr(value, "name", None)
    return name if name is not None else "" if value is None else value


def write_parquet(wish: ExportRequest) -> ExportResult:
    """Write Parquet with pyarrow.

    NaN stays NaN, enumerations are text (numbers in the joined table), sequences lists, bytes binary. Stamps are int64
    nanoseconds, as in
    the messages; values that had not arrived yet are null in the joined table.
    """
    arrow, parquet = _pyarrow()
    types = {
        "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(), "text": arrow.string(), "enum": arrow.string(),
        "bytes": arrow.binary(), "floats": arrow.list_(arrow.float64()),
    }  # fmt: skip
    kinds = present(wish.path, wish.kinds)

    def open_table(stack: ExitStack, file: str, names: list[str], fields: list[str]) -> "_Table":
        schema = arrow.schema([(name, types[kind]) for name, kind in zip(names, fields)])
        writer = stack.enter_context(parquet.ParquetWriter(file, schema, compression="zstd"))
        return _Table(len(names), lambda data: writer.write_batch(arrow.record_batch(data, schema=schema)))

    with ExitStack() as stack:
        if wish.rate_hz is not None:
            joined = Joined(kinds, wish.rate_hz)
            header = header_of(wish.path)
            table = open_table(stack, wish.out, joined.names, joined.kinds)
            table.add_all(joined.rows(wish.path, header.offset_ns, header.start_monotonic_ns))
            return ExportResult(files=[wish.out], counts={"rows": table.count}, notes=[])
        os.mkdir(wish.out)
        files, tables = [], {}
        for kind in kinds:
            columns = columns_of(kind)
            files.append(os.path.join(wish.out, f"{topic_name(kind)}.parquet"))
            names = ["t_s", *(column.name for column in columns)]
            tables[kind] = open_table(stack, files[-1], names, ["float", *(c.kind for c in columns)]), columns
        for t_ns, record in records(wish.path, kinds):
            table, columns = tables[type(record.message)]
            message = record.message
            values = [c.take(message).name if c.kind == "enum" else c.take(message) for c in columns]
            table.add([t_ns / 1e9, *values])
        for table, _ in tables.values():
            table.flush()
        return ExportResult(files=files, counts={topic_name(kind): tables[kind][0].count for kind in kinds}, notes=[])


class _Table:
    """Buffer that collects rows into row groups."""

    def __init__(self, width: int, write: Callable[[list[list[Any]]], None]) -> None:
        self._data: list[list[Any]] = [[] for _ in range(width)]
        self._write = write
        self.count = 0

    def add(self, row: list[Any]) -> None:
        for column, value in zip(self._data, row):
            column.append(value)
        self.count += 1
        if len(self._data[0]) >= _BATCH_ROWS:
            self.flush()

    def add_all(self, rows: Iterable[list[Any]]) -> None:
        iterator = iter(rows)
        while batch := list(islice(iterator, _BATCH_ROWS)):
            for row in batch:
                self.add(row)
        self.flush()

    def flush(self) -> None:
        if self._data[0]:
            self._write(self._data)
            self._data = [[] for _ in self._data]


def _pyarrow() -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LogError('Parquet needs the package pyarrow, which is not installed: pip install "vehicled[parquet]"') from None
    return pyarrow, parquet
