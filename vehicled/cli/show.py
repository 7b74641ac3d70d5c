"""Tables and progress on the terminal. The only place that imports rich."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO, cast

from vehicled.runtime.events import PatientStream


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A table for people: first column left, the others as they come."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    table = Table(box=SIMPLE, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console = Console()
    if not console.is_terminal:
        # A pipe has no width; tables must not be folded for one.
        console = Console(width=max(120, console.width))
    if title:
        # Not as the title of the table, which is folded to its width: paths are longer than two narrow columns.
        console.print(title, style="bold", soft_wrap=True, markup=False, highlight=False)
    console.print(table)


class _Above:
    """Standard error, where the line of progress makes way for what is written."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress

    def write(self, text: str) -> int:
        self._progress.close()
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()

    def isatty(self) -> bool:
        return sys.stderr.isatty()

    def fileno(self) -> int:
        return sys.stderr.fileno()


class Progress:
    """One line that is rewritten a few times a second while a run lasts; plain text, so that it costs the loop microseconds."""

    EVERY_NS = 250_000_000

    def __init__(self) -> None:
        self._stream = PatientStream(sys.stderr)
        self._interactive = sys.stderr.isatty()
        self._every_ns = self.EVERY_NS if self._interactive else 20 * self.EVERY_NS
        self._next_ns = 0
        self._started_ns = time.monotonic_ns()
        self._columns = shutil.get_terminal_size().columns
        self._width = 0

    def due(self) -> bool:
        """Whether it is time for a new line."""
        return time.monotonic_ns() >= self._next_ns

    def show(self, text: str) -> None:
        """Write the line."""
        self._next_ns = time.monotonic_ns() + self._every_ns
        if self._interactive:
            # A line that wraps could not be taken back.
            text = text[: max(self._columns - 1, 1)]
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")

    def close(self) -> None:
        """Clear the line; the next one begins anew."""
        if self._interactive and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._width = 0
            self._next_ns = 0

    def above(self) -> TextIO:
        """Return a stream for other lines on the same terminal: each takes the place of the progress, which then goes on below."""
        return cast(TextIO, _Above(self))

    @property
    def elapsed_s(self) -> float:
        """Wall time since the start."""
        return (time.monotonic_ns() - self._started_ns) * 1e-9
