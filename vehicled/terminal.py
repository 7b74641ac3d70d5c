"""Tables and progress on the terminal. Only this module imports rich."""

import shutil
import sys
import time
from collections.abc import Sequence
from typing import TextIO, cast

from vehicled.plain_text import printable, printable_lines
from vehicled.runtime.events import NonBlockingStream


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table with the first column aligned left."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, header_style="bold")
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Not as markup: a name in brackets is a name.
        table.add_row(*(Text(printable_lines(cell)) for cell in row))
    console = Console()
    if not console.is_terminal:
        # A pipe has no width; its tables must not be folded.
        console = Console(width=max(120, console.width))
    if title:
        # Not as the table's title, because rich folds titles to the table's width and paths may be long.
        console.print(printable(title), style="bold", soft_wrap=True, markup=False, highlight=False)
    console.print(table)


class _Above:
    """Standard error stream that moves the progress line out of the way."""

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
    """One line rewritten several times a second during a run; plain text, which costs only microseconds."""

    EVERY_NS = 250_000_000

    def __init__(self) -> None:
        self._stream = NonBlockingStream(sys.stderr)
        self._interactive = sys.stderr.isatty()
        self._every_ns = self.EVERY_NS if self._interactive else 20 * self.EVERY_NS
        self._next_ns = 0
        self._started_ns = time.monotonic_ns()
        self._columns = shutil.get_terminal_size().columns
        self._width = 0

    def due(self) -> bool:
        """Return True if the line should be updated."""
        return time.monotonic_ns() >= self._next_ns

    def update(self, text: str) -> None:
        """Write the line if it is due."""
        if self.due():
            self.show(text)

    def show(self, text: str) -> None:
        """Write the line."""
        self._next_ns = time.monotonic_ns() + self._every_ns
        if self._interactive:
            # A wrapped line could not be erased.
            text = text[: max(self._columns - 1, 1)]
            self._stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self._stream.write(text + "\n")

    def close(self) -> None:
        """Clear the line."""
        if self._interactive and self._width:
            self._stream.write("\r" + " " * self._width + "\r")
            self._width = 0
            self._next_ns = 0

    def above(self) -> TextIO:
        """Return a stream for other lines on the same terminal, which appear above the progress line."""
        return cast(TextIO, _Above(self))

    @property
    def elapsed_s(self) -> float:
        """Return the wall time since the start, s."""
        return (time.monotonic_ns() - self._started_ns) * 1e-9
