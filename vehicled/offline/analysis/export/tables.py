"""Exports a log as CSV or Parquet: one file per topic in a folder, or one table of all topics at a
fixed rate."""

import csv
import os
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from math import inf, isfinite
from pathlib import Path
from typing import Any, Protocol

import msgspec
import numpy as np

from vehicled.core.arrays import Array
from vehicled.log.errors import LogError
from vehicled.offline.analysis.export.columns import (
    Joined,
    NotByColumnError,
    column_batches,
    columns_of,
    header_of,
    is_columnar,
    present,
    records,
    row_of,
    topic_name,
)
from vehicled.offline.analysis.export.exporting import ExportRequest, ExportResult

_BATCH_ROWS = 16_384

_Row = Sequence[Any]


class _Writer(Protocol):
    """Open file of a table."""

    def rows(self, rows: Sequence[_Row]) -> None:
        """Write rows of values."""
        ...

    def columns(self, columns: Sequence[Array | list[str]]) -> None:
        """Write rows of numbers and of names, given by column."""
        ...


_OpenTable = Callable[[ExitStack, str, list[str], list[str]], _Writer]
"""Function that opens a table, given its file and the names and kinds of its columns."""


class _ExportTable:
    """Table that writes its rows in batches, because each column then costs a call for many of
    them."""

    def __init__(
        self,
        stack: ExitStack,
        open_table: _OpenTable,
        file: str,
        names: list[str],
        kinds: list[str],
    ) -> None:
        self._writer = open_table(stack, file, names, kinds)
        self._enums: dict[int, dict[Any, Any]] = {
            index: {} for index, kind in enumerate(kinds) if kind == "enum"
        }
        """Names of the members of an enumeration, by column: asking a member for its name takes
        several times as long."""
        self._rows: list[_Row] = []
        self.count = 0
        """Number of rows so far."""

    def add(self, row: _Row) -> None:
        self._rows.append(row)
        if len(self._rows) >= _BATCH_ROWS:
            self.flush()

    def add_columns(self, columns: Sequence[Array | list[str]]) -> None:
        self.count += len(columns[0])
        self._writer.columns(columns)

    def flush(self) -> None:
        rows, self._rows = self._rows, []
        self.count += len(rows)
        if self._enums:
            named = [list(row) for row in rows]
            for index, names in self._enums.items():
                for row in named:
                    value = row[index]
                    if value not in names:
                        names[value] = getattr(value, "name", value)
                    row[index] = names[value]
            rows = [*named]
        if rows:
            self._writer.rows(rows)


def _write(request: ExportRequest, ending: str, open_table: _OpenTable) -> ExportResult:
    kinds = present(request.path, request.kinds)
    with ExitStack() as stack:
        if request.rate_hz is not None:
            joined = Joined(kinds, request.rate_hz)
            header = header_of(request.path)
            table = _ExportTable(stack, open_table, request.out, joined.names, joined.kinds)
            for row in joined.rows(request.path, header.offset_ns, header.start_monotonic_ns):
                table.add(row)
            table.flush()
            return ExportResult(files=[request.out], counts={"rows": table.count}, notes=[])
        os.mkdir(request.out)
        files, tables = [], {}
        # Numbers alone are read and written by column, everything else message by message.
        others = []
        for kind in kinds:
            columns = columns_of(kind)
            file = os.path.join(request.out, f"{topic_name(kind)}{ending}")
            names = ["t_s", *(column.name for column in columns)]
            types = ["float", *(column.kind for column in columns)]
            table = _ExportTable(stack, open_table, file, names, types)
            try:
                for batch in column_batches(request.path, kind) if is_columnar(kind) else ():
                    table.add_columns(batch)
            except NotByColumnError:
                os.remove(file)
                table = _ExportTable(stack, open_table, file, names, types)
            if not table.count:
                others.append(kind)
            files.append(file)
            tables[kind] = table, row_of(kind)
        if others:
            for t_ns, record in records(request.path, tuple(others)):
                table, take = tables[type(record.message)]
                table.add((t_ns / 1e9, *take(record.message)))
        for table, _ in tables.values():
            table.flush()
    return ExportResult(
        files=files, counts={topic_name(kind): tables[kind][0].count for kind in kinds}, notes=[]
    )


def write_csv(request: ExportRequest) -> ExportResult:
    """Write CSV by RFC 4180 with a header line.

    NaN is an empty cell, infinities are ``inf`` and ``-inf``, bytes hexadecimal, enumerations names
    (numbers in the joined table), sequences JSON.
    """
    return _write(request, ".csv", _CsvWriter)


class _CsvWriter:
    """Writer of CSV."""

    def __init__(self, stack: ExitStack, file: str, names: list[str], kinds: list[str]) -> None:
        self._stream = stack.enter_context(Path(file).open("x", newline="", encoding="utf-8"))  # noqa: SIM115 # the stack closes it
        self._writer = csv.writer(self._stream)
        self._writer.writerow(names)
        self._cells = [(index, _CELLS[kind]) for index, kind in enumerate(kinds) if kind in _CELLS]

    def rows(self, rows: Sequence[_Row]) -> None:
        self._writer.writerows(map(self._row, rows))

    def _row(self, values: _Row) -> _Row:
        row = list(values)
        for index, cell in self._cells:
            row[index] = cell(row[index])
        return row

    def columns(self, columns: Sequence[Array | list[str]]) -> None:
        # JSON of rows is CSV but for brackets, NaN and the quotes of names, and is encoded in a
        # quarter of the time.
        text = msgspec.json.encode(list(zip(*map(_plain, columns), strict=True)))[2:-2].decode()
        self._stream.write(
            text.replace("],[", "\r\n").replace("null", "").replace('"', "") + "\r\n"
        )


def _plain(column: Array | list[str]) -> list[Any]:
    """Return the values of a column for JSON, which has no infinities."""
    if isinstance(column, list):
        return column
    if column.dtype.kind == "b":
        column = column.astype(np.int8)
    values: list[Any] = column.tolist()
    if column.dtype.kind == "f" and bool(np.isinf(column).any()):
        return [str(value) if value in (inf, -inf) else value for value in values]
    return values


def _number(value: float | None) -> float | str:
    return "" if value is None or value != value else value


def _sequence(values: tuple[float, ...]) -> str:
    return msgspec.json.encode([v if isfinite(v) else None for v in values]).decode()


_CELLS: dict[str, Callable[[Any], Any]] = {
    "float": _number,
    "bool": lambda value: "" if value is None else int(value),
    "bytes": bytes.hex,
    "floats": _sequence,
}
"""Functions from a column's values to those of its cells, where they differ."""


def write_parquet(request: ExportRequest) -> ExportResult:
    """Write Parquet with pyarrow.

    NaN stays NaN, enumerations are text (numbers in the joined table), sequences lists, bytes
    binary. Stamps are int64 nanoseconds, as in the messages; values that had not arrived yet are
    null in the joined table.
    """
    arrow, parquet = _pyarrow()
    types = {
        "int": arrow.int64(), "float": arrow.float64(), "bool": arrow.bool_(),
        "text": arrow.string(), "enum": arrow.string(), "bytes": arrow.binary(),
        "floats": arrow.list_(arrow.float64()),
    }  # fmt: skip

    def open_table(stack: ExitStack, file: str, names: list[str], kinds: list[str]) -> _Writer:
        schema = arrow.schema([(name, types[kind]) for name, kind in zip(names, kinds)])
        writer = stack.enter_context(parquet.ParquetWriter(file, schema, compression="zstd"))
        return _ParquetWriter(
            lambda columns: writer.write_batch(arrow.record_batch(columns, schema=schema))
        )

    return _write(request, ".parquet", open_table)


class _ParquetWriter:
    """Writer of Parquet, which collects columns to row groups."""

    def __init__(self, write: Callable[[list[Array | list[Any]]], None]) -> None:
        self._write = write

    def rows(self, rows: Sequence[_Row]) -> None:
        self._write([list(column) for column in zip(*rows, strict=True)])

    def columns(self, columns: Sequence[Array | list[str]]) -> None:
        self._write([*columns])


def _pyarrow() -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise LogError(
            "Parquet needs the package pyarrow, which is not installed: pip install "
            '"vehicled[parquet]"'
        ) from None
    return pyarrow, parquet
