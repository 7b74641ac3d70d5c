"""Table of a study's runs: one SQLite file, to which every finished run is added at once."""

import csv
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from vehicled.offline.studies.conduct import RunRow, renumbered
from vehicled.offline.studies.errors import StudyError

FILE = "study.sqlite"
VERSION = "1"
_COLUMNS = (
    "key",
    "number",
    "outcome",
    "why",
    "digest",
    "run_s",
    "cpu_s",
    "log",
    "problem",
    "command",
)


class RunTable:
    """The runs of a study by key. A context manager."""

    def __init__(self, folder: Path, *, create: bool = False) -> None:
        """Open the table of a study folder. Raises :class:`StudyError` if there is none, or if it
        is damaged.

        ``create``: to drive. Without it the table is only read, also on a read-only disk.
        """
        self.path = folder / FILE
        self._lock = -1
        if not create:
            self._db = _open_read_only(self.path)
            return
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._lock = _lock_folder(folder)
            self._db = sqlite3.connect(self.path, timeout=30.0)
            # A killed process loses at most the run that it was writing.
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=NORMAL")
            self._db.execute("CREATE TABLE IF NOT EXISTS study (name TEXT PRIMARY KEY, value TEXT)")
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS record (key TEXT PRIMARY KEY, row TEXT NOT NULL)",
            )
            self._db.execute(
                "CREATE TABLE IF NOT EXISTS design (number INTEGER PRIMARY KEY, key TEXT, "
                "levels TEXT)"
            )
            self._db.commit()
        except FileExistsError:
            raise StudyError(str(folder), ["is a file: name a folder with --output"]) from None
        except OSError as error:
            raise StudyError(
                str(folder), [f"cannot be written: {error.strerror or error}"]
            ) from None
        except sqlite3.Error as error:
            self._unlock()
            raise StudyError(
                str(self.path), [f"cannot be used: {error}; delete it to begin anew"]
            ) from None

    def __enter__(self) -> "RunTable":
        return self

    def __exit__(self, *_: object) -> None:
        self._db.close()
        self._unlock()

    def _unlock(self) -> None:
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def facts(self) -> dict[str, str]:
        """Return what is known of the study: its text, the software and the files it was run
        with."""
        return dict(self._execute("SELECT name, value FROM study"))

    def keep_facts(self, facts: dict[str, str]) -> None:
        """Store facts of the study."""
        self._execute_many("INSERT OR REPLACE INTO study VALUES (?, ?)", list(facts.items()))

    def plan(self, runs: Sequence[tuple[int, str, dict[str, Any]]], *, first: bool) -> None:
        """Store number, key and levels of runs that belong to the study. ``first`` forgets what
        belonged to it before."""
        if first:
            self._execute_many("DELETE FROM design WHERE number >= ?", [(0,)])
        rows = [(number, key, json.dumps(levels)) for number, key, levels in runs]
        self._execute_many("INSERT OR REPLACE INTO design VALUES (?, ?, ?)", rows)

    def add(self, row: RunRow) -> None:
        """Add or replace a run. Raises :class:`StudyError` if the disk is full."""
        self._execute_many(
            "INSERT OR REPLACE INTO record VALUES (?, ?)",
            [(row.key, msgspec.json.encode(row).decode())],
        )

    def belonging(self) -> Iterator[RunRow]:
        """Iterate over the runs that belong to the study as it was last called, by number."""
        known = {row.key: row for row in self.rows()}
        for number, key, levels in self._execute(
            "SELECT number, key, levels FROM design ORDER BY number"
        ):
            if key in known:
                yield renumbered(known[key], number, json.loads(levels))

    def rows(self) -> Iterator[RunRow]:
        """Iterate over all runs, also those that the study had before it was changed."""
        for (text,) in self._execute("SELECT row FROM record"):
            try:
                yield msgspec.json.decode(text, type=RunRow)
            except msgspec.MsgspecError as error:
                raise StudyError(
                    str(self.path), [f"a row is damaged: {error}; delete the file to begin anew"]
                ) from None

    def lay_out(self, rows: Sequence[RunRow]) -> None:
        """Write the table ``runs``, with a column for each factor and metric, for other
        programs."""
        columns, records = flat_table(rows)
        names = ", ".join(f'"{name.replace(chr(34), "")}"' for name in columns)
        self._execute("DROP TABLE IF EXISTS runs")
        self._execute(f"CREATE TABLE runs ({names})")
        marks = ", ".join("?" * len(columns))
        self._execute_many(f"INSERT INTO runs VALUES ({marks})", records)  # noqa: S608 - question marks alone

    def _execute(self, statement: str) -> list[Any]:
        try:
            return self._db.execute(statement).fetchall()
        except sqlite3.Error as error:
            raise StudyError(str(self.path), [f"cannot be used: {error}"]) from None

    def _execute_many(self, statement: str, rows: Sequence[Any]) -> None:
        try:
            with self._db:
                self._db.executemany(statement, rows)
        except sqlite3.Error as error:
            cure = (
                "make room and call the command again: finished runs are kept"
                if "full" in str(error)
                else "finished runs are kept"
            )
            raise StudyError(str(self.path), [f"cannot be written: {error}; {cure}"]) from None


def _open_read_only(path: Path) -> sqlite3.Connection:
    """Return a connection that only reads. Raises :class:`StudyError`."""
    if not path.is_file():
        raise StudyError(
            str(path.parent),
            [f"holds no study (no {FILE}): name the folder that 'vehicled study' printed"],
        )
    # Beside a table that is being written lies a log. Without one nothing changes, and SQLite needs
    # no files of its own to read.
    options = "mode=ro" if path.with_name(f"{FILE}-wal").is_file() else "mode=ro&immutable=1"
    try:
        db = sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True, timeout=30.0)
        db.execute("SELECT * FROM study, record, design LIMIT 1")
    except sqlite3.Error as error:
        cure = (
            "if the disk is read-only, copy the folder to another one"
            if "unable to open" in str(error)
            else "it may be damaged"
        )
        raise StudyError(str(path), [f"cannot be read: {error}; {cure}"]) from None
    return db


def _lock_folder(folder: Path) -> int:
    """Return a lock of the folder, which ends with the process. Raises :class:`StudyError` if
    another call has it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise StudyError(
            str(folder),
            [
                (
                    "another call drives a study into this folder: wait for it, or give another "
                    "--output"
                )
            ],
        ) from None
    except OSError:
        pass  # Some network disks have no locks.
    return lock


def write_table(rows: Sequence[RunRow], output: Path) -> None:
    """Write the rows as CSV or Parquet, by the ending of the file. Raises :class:`StudyError`."""
    columns, records = flat_table(rows)
    try:
        if output.suffix == ".csv":
            with output.open("w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(columns)
                writer.writerows(records)
        elif output.suffix == ".parquet":
            _write_parquet(columns, records, output)
        else:
            raise StudyError(str(output), ["give a file that ends in .csv or .parquet"])
    except OSError as error:
        raise StudyError(str(output), [f"cannot be written: {error.strerror or error}"]) from None


def _write_parquet(
    columns: Sequence[str], records: Sequence[tuple[Any, ...]], output: Path
) -> None:
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        raise StudyError(
            str(output), ["Parquet needs pyarrow: pip install 'vehicled[parquet]', or write .csv"]
        ) from None
    arrays = []
    for column in zip(*records, strict=True):
        kinds = {type(value) for value in column} - {type(None)}
        # A factor may mix numbers and names.
        mixed = len(kinds) > 1 and not kinds <= {int, float, bool}
        arrays.append(
            [None if value is None else str(value) for value in column] if mixed else list(column)
        )
    parquet.write_table(pa.table(arrays, names=list(columns)), output)


def flat_table(rows: Sequence[RunRow]) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Return columns and records of a table with a column for each factor and metric. A name that
    is both gets ``factor.``."""
    levels = list(dict.fromkeys(name for row in rows for name in row.levels))
    metrics = list(dict.fromkeys(name for row in rows for name in row.metrics))
    shown = [f"factor.{name}" if name in (*_COLUMNS, *metrics) else name for name in levels]
    columns = [*_COLUMNS[:2], *shown, *_COLUMNS[2:4], *metrics, *_COLUMNS[4:]]
    records = [
        (
            *(getattr(row, name) for name in _COLUMNS[:2]),
            *(_cell(row.levels.get(name)) for name in levels),
            *(getattr(row, name) for name in _COLUMNS[2:4]),
            *(row.metrics.get(name) for name in metrics),
            *(getattr(row, name) for name in _COLUMNS[4:]),
        )
        for row in sorted(rows, key=lambda row: row.number)
    ]
    return columns, records


def _cell(value: Any) -> Any:
    return value if value is None or isinstance(value, str | int | float) else json.dumps(value)
