"""Tables and progress on the terminal. Only this module imports rich."""

import shutil
import sys
import time
from collections.abc import Sequence
from io import StringIO
from typing import TextIO, cast

from vehicled.core.plain_text import printable_lines
from vehicled.core.safe_text import raw
from vehicled.runtime.nonblocking import NonBlockingStream

_WIDEST_TABLE = 100_000
"""Width of a pipe, in which lines are never folded."""
_ANY_HEIGHT = 25
_SHORT = 20
"""Width up to which texts are not folded."""
_GAP = 3
"""Blanks and lines beside a column of a table."""


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table. Cells are texts as they are; on a terminal they are folded at blanks, never
    within a word, such as a path."""
    from rich.box import ASCII2, SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[printable_lines(cell) for cell in row] for row in (columns, *rows)]
    stream = raw(sys.stdout)
    on_terminal = stream.isatty()
    widths = _widths(cells, shutil.get_terminal_size().columns if on_terminal else _WIDEST_TABLE)
    drawn = StringIO()
    console = Console(
        file=drawn,
        force_terminal=on_terminal or None,
        width=sum(widths) + _GAP * (len(widths) + 1),
        # Because rich takes no width alone on terminals that it does not know.
        height=_ANY_HEIGHT,
        markup=False,
        emoji=False,
        highlight=False,
    )
    utf = getattr(stream, "encoding", None) in (None, "utf-8", "UTF-8")
    table = Table(box=SIMPLE if utf else ASCII2, header_style="bold")
    for name, width in zip(cells[0], widths, strict=True):
        table.add_column(Text(name), width=width, overflow="fold")
    for row in cells[1:]:
        # As texts of their own, in which a bracket is a bracket.
        table.add_row(*map(Text, row))
    if title:
        # Not as the table's title, because rich folds titles to the table's width and paths may be
        # long.
        console.print(Text(printable_lines(title), style="bold"), soft_wrap=True)
    console.print(table, soft_wrap=True)
    stream.writelines(f"{line.rstrip()}\n" for line in drawn.getvalue().splitlines())


def _widths(cells: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the width of each column: wide enough for its words and for short texts, and wider as
    far as ``width`` allows."""
    from rich.cells import cell_len as length

    columns = list(zip(*cells, strict=True))
    words = [
        max((length(word) for cell in column for word in cell.split()), default=0)
        for column in columns
    ]
    whole = [
        max(length(line) for cell in column for line in (cell.splitlines() or [""]))
        for column in columns
    ]
    least = [max(word, min(text, _SHORT)) for word, text in zip(words, whole, strict=True)]
    spare = width - _GAP * (len(columns) + 1) - sum(least)
    found = list(least)
    by_need = sorted(range(len(columns)), key=lambda k: whole[k] - least[k])
    for done, k in enumerate(by_need):
        more = max(min(whole[k] - least[k], spare // (len(columns) - done)), 0)
        found[k] += more
        spare -= more
    return found


def clear() -> None:
    """Clear the terminal, so that the next table is drawn over the last one."""
    stream = raw(sys.stdout)
    stream.write("\x1b[H\x1b[2J")


class _Above:
    """Standard error stream that moves the progress line out of the way."""

    def __init__(self, progress: "Progress") -> None:
        self._progress = progress

    def write(self, text: str) -> int:
        self._progress.close()
        self._progress.stream.write(text)
        return len(text)

    def flush(self) -> None:
        """Do nothing, because writes are flushed at once."""

    def isatty(self) -> bool:
        return sys.stderr.isatty()


class Progress:
    """One line rewritten several times a second during a run; plain text, which costs only
    microseconds."""

    EVERY_NS = 250_000_000

    def __init__(self) -> None:
        self.stream = NonBlockingStream(raw(sys.stderr))
        """Standard error, which drops what a paused terminal does not take."""
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
        text = printable_lines(text)
        if self._interactive:
            # A wrapped line could not be erased.
            text = text[: max(self._columns - 1, 1)]
            self.stream.write("\r" + text.ljust(self._width))
            self._width = len(text)
        else:
            self.stream.write(text + "\n")

    def close(self) -> None:
        """Clear the line."""
        if self._interactive and self._width:
            self.stream.write("\r" + " " * self._width + "\r")
            self._width = 0
            self._next_ns = 0

    def above(self) -> TextIO:
        """Return a stream for other lines on the same terminal, which appear above the progress
        line."""
        return cast(TextIO, _Above(self))

    @property
    def elapsed_s(self) -> float:
        """Return the wall time since the start, s."""
        return (time.monotonic_ns() - self._started_ns) * 1e-9
