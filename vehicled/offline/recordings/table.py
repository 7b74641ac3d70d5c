"""Tables of numbers in CSV files with a header row."""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.offline.recordings.errors import RecordingError

MAX_BYTES = 64 * 1024 * 1024
"""A recorded drive is a few hundred kilobytes; something larger is another file."""


class CsvTable(Struct, frozen=True):
    """Columns of a CSV file; empty fields are NaN."""

    path: Path
    columns: dict[str, Array]

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))


def header(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names in the first line of a file; empty where it is no text. Raises :class:`RecordingError`
    when it cannot be opened."""
    try:
        with Path(path).open("rb") as file:
            first = file.readline(64 * 1024)
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error
    try:
        return tuple(word.strip() for word in first.decode("utf-8-sig").split(","))
    except UnicodeDecodeError:
        return ()


def read(path: str | os.PathLike[str]) -> CsvTable:
    """All columns of a file. Raises :class:`RecordingError` naming file, line and column of what is
    no number."""
    path = Path(path)
    try:
        if path.stat().st_size > MAX_BYTES:
            raise RecordingError(
                f"{path}: larger than {MAX_BYTES // 2**20} MiB; this is hardly a recorded "
                "drive of a vehicle"
            )
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise RecordingError(
            f"{path}: not UTF-8 text at byte {error.start}; save it as CSV with UTF-8"
        ) from error
    lines = text.splitlines()
    names = [name.strip() for name in lines[0].split(",")] if lines else []
    if len(set(names)) < len(names):
        raise RecordingError(f"{path}: line 1: a column has the name of another")
    rows = [
        _row(path, number, line, names)
        for number, line in enumerate(lines[1:], start=2)
        if line.strip()
    ]
    if not rows:
        raise RecordingError(f"{path}: has a header and no rows" if names else f"{path}: is empty")
    values = np.array(rows, dtype=np.float64)
    return CsvTable(path, {name: values[:, i] for i, name in enumerate(names)})


def _row(path: Path, number: int, line: str, names: Sequence[str]) -> list[float]:
    fields = line.split(",")
    if len(fields) != len(names):
        raise RecordingError(
            f"{path}: line {number}: {len(fields)} fields where the header names {len(names)}; "
            "is the file cut off? Remove the line"
        )
    try:
        return [float(field) if field.strip() else np.nan for field in fields]
    except ValueError:
        wrong = next(i for i, field in enumerate(fields) if field.strip() and not _is_number(field))
        raise RecordingError(
            f"{path}: line {number}: {names[wrong]} is {fields[wrong].strip()[:40]!r}, not a number"
        ) from None


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def times_s(table: CsvTable, name: str) -> Array:
    """A column of times (s). Raises :class:`RecordingError` naming the line where they are not
    finite or do not grow."""
    t = table[name]
    bad = np.flatnonzero(~np.isfinite(t) | (np.abs(t) > 1e9))
    if not len(bad):
        bad = 1 + np.flatnonzero(np.diff(t) <= 0.0)
    if len(bad):
        raise RecordingError(
            f"{table.path}: line {int(bad[0]) + 2}: {name} is {t[bad[0]]:g} s: times must be "
            "finite and grow from row to row"
        )
    return t
