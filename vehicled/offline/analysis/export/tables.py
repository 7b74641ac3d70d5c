"""Exports a log as CSV or Parquet: one file per topic in a folder, or one table of all topics at a fixed rate."""

import csv
import os
from collections.abc import Callable
from contextlib import ExitStack
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from vehicled.core.messages import Message
from vehicled.log.errors import LogError
from vehicled.offline.analysis.export.columns import ExportColumn, Joined, columns_of, header_of, present, records, topic_name
from vehicled.offline.analysis.export.exporting import ExportRequest, ExportResult

_BATCH_ROWS = 16_384


_WriteRow = Callable[[list[Any]], None]
_OpenTable = Callable[[ExitStack, str, list[str], list[str]], _WriteRow]
"""Function that opens a table, given its file and the names and kinds of its columns."""


def _write(request: ExportRequest, ending: str, open_table: _OpenTable) -> ExportResult:
    kinds = present(request.path, request.kinds)
    with ExitStack() as stack:
        if request.rate_hz is not None:
            joined = Joined(kinds, request.rate_hz)
            header = header_of(request.path)
            write_row = open_table(stack, request.out, joined.names, joined.kinds)
            count = 0
            for row in joined.rows(request.path, header.offset_ns, header.start_monotonic_ns):
                write_row(row)
                count += 1
            return ExportResult(files=[request.out], counts={"rows": count}, notes=[])
        os.mkdir(request.out)
        files, counts = [], dict.fromkeys(map(topic_name, kinds), 0)
        tables: dict[type[Message], tuple[_WriteRow, list[ExportColumn], str]] = {}
        for kind in kinds:
            columns = columns_of(kind)
            files.append(os.path.join(request.out, f"{topic_name(kind)}{ending}"))
            names, types = ["t_s", *(column.name for column in columns)], ["float", *(column.kind for column in columns)]
            tables[kind] = open_table(stack, files[-1], names, types), columns, topic_name(kind)
        for t_ns, record in records(request.path, kinds):
            write_row, columns, name = tables[type(record.message)]
            values = [(column.kind, column.take(record.message)) for column in columns]
            write_row([t_ns / 1e9, *(getattr(value, "name", value) if kind == "enum" else value for kind, value in values)])
            counts[name] += 1
    return ExportResult(files=files, counts=counts, notes=[])


def write_csv(request: ExportRequest) -> ExportResult:
    """Write CSV by RFC 4180 with a header line.

    NaN is an empty cell, infinities are ``inf`` and ``-inf``, bytes hexadecimal, enumerations names (numbers in the joined table),
    sequences JSON.
    """

    def open_table(stack: ExitStack, file: str, names: list[str], kinds: list[str]) -> _WriteRow:
        writer = csv.writer(stack.enter_context(Path(file).open("x", newline="")))  # noqa: SIM115 # the stack closes it
        writer.writerow(names)
        return lambda row: writer.writerow(map(_cell, row))

    return _write(request, ".csv", open_table)


def _cell(value: Any) -> Any:
    if isinstance(value, float):
        return value if isfinite(value) else "" if value != value else f"{value}"
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, tuple):
        return msgspec.json.encode([v if isfinite(v) else None for v in value]).decode()
    return "" if value is None else value


def write_parquet(request: ExportRequest) -> ExportResult:
    """Write Parquet with pyarrow.

    NaN stays NaN, enumerations are text (numbers in the joined table), sequences lists, bytes binary. Stamps are int64
    nanoseconds, as in the messages; values that had not arrived yet are null in the joined table.
    """
    arrow, parquet = _pyarrow()
    types = {
        "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(), "text": arrow.string(), "enum": arrow.string(),
        "bytes": arrow.binary(), "floats": arrow.list_(arrow.float64()),
    }  # fmt: skip

    def open_table(stack: ExitStack, file: str, names: list[str], kinds: list[str]) -> _WriteRow:
        schema = arrow.schema([(name, types[kind]) for name, kind in zip(names, kinds)])
        writer = stack.enter_context(parquet.ParquetWriter(file, schema, compression="zstd"))
        table = _RowGroups(len(names), lambda data: writer.write_batch(arrow.record_batch(data, schema=schema)))
        stack.callback(table.flush)
        return table.add

    return _write(request, ".parquet", open_table)


class _RowGroups:
    """Buffer that collects rows into row groups."""

    def __init__(self, width: int, write: Callable[[list[list[Any]]], None]) -> None:
        self._data: list[list[Any]] = [[] for _ in range(width)]
        self._write = write

    def add(self, row: list[Any]) -> None:
        for column, value in zip(self._data, row):
            column.append(value)
        if len(self._data[0]) >= _BATCH_ROWS:
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
