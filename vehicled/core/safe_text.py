"""Keeps control characters away from terminals: those of devices, logs, simulators, plugins and
file names.

Every command writes through :class:`SafeStream`. What draws on a terminal itself writes to the
stream behind it, :func:`raw`, and escapes the texts of others.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from vehicled.core.plain_text import printable_lines


class SafeStream:
    """Text stream that escapes control characters. Everything else is the stream's behind it."""

    def __init__(self, stream: TextIO) -> None:
        self.behind = stream

    def write(self, text: str) -> int:
        """Write a text, escaped. Return its length."""
        self.behind.write(printable_lines(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write texts, escaped."""
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.behind, name)


def raw(stream: TextIO) -> TextIO:
    """Return the stream behind a safe one, for control characters of our own."""
    return stream.behind if isinstance(stream, SafeStream) else stream


@contextmanager
def safe_streams() -> Iterator[None]:
    """Make standard output and error safe; afterwards they are as before."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (cast(TextIO, SafeStream(raw(stream))) for stream in before)
    try:
        yield
    finally:
        # Whoever has replaced them meanwhile knows why.
        if isinstance(sys.stdout, SafeStream):
            sys.stdout = before[0]
        if isinstance(sys.stderr, SafeStream):
            sys.stderr = before[1]
