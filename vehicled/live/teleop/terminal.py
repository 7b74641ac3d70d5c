"""Raw terminal input with a status line; the terminal is always restored."""

import os
import select
import shutil
import termios
import tty
from types import TracebackType
from typing import Any

from vehicled.core.plain_text import printable_lines
from vehicled.runtime.nonblocking import own_descriptor

_ENTER = b"\x1b[?25l\x1b[?1004h"
"""Escape codes that hide the cursor and report focus changes."""
_LEAVE = b"\x1b[?1004l\x1b[?25h"
_LINE = "\r\x1b[K"
MOST_BYTES = 4096
"""Most bytes of keys that are read at once."""


class Terminal:
    """Context for the keys of a terminal and a status line on it. Ctrl-C and Ctrl-Z remain
    signals."""

    def __init__(self, keys_fd: int, screen_fd: int) -> None:
        """Take the descriptors. Raises :class:`OSError` or ``termios.error`` if they are not a
        terminal."""
        self._keys = keys_fd
        self._before: list[Any] = termios.tcgetattr(keys_fd)
        self._given = screen_fd
        own = own_descriptor(screen_fd)
        self._screen = screen_fd if own is None else own
        self._raw = False

    def __enter__(self) -> "Terminal":
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.restore()
        if self._screen != self._given:
            os.close(self._screen)
            self._screen = self._given

    def fileno(self) -> int:
        """Return the descriptor of the keys."""
        return self._keys

    def enter(self) -> None:
        """Switch to unbuffered keys without echo."""
        if not self._raw:
            self._raw = True
            tty.setcbreak(self._keys, termios.TCSAFLUSH)
            self._write(_ENTER)

    def restore(self) -> None:
        """Restore the terminal. Safe to repeat, also if the terminal is gone."""
        if self._raw:
            self._raw = False
            self._write(_LINE.encode() + _LEAVE)
            try:
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
            except (OSError, termios.error):
                pass  # The terminal is gone, so there is nothing to restore.

    def keys(self) -> bytes:
        """Return unread keys, so many at once that a paste or a stuck key does not hold up the
        readings. Raises EOFError if the terminal is gone.
        """
        if not select.select([self._keys], [], [], 0)[0]:
            return b""
        try:
            data = os.read(self._keys, MOST_BYTES)
        except OSError as error:
            raise EOFError(error.strerror) from None
        if not data:
            raise EOFError("the terminal was closed")
        return data

    def say(self, text: str) -> None:
        """Print a line that stays."""
        self._write((_LINE + printable_lines(text) + "\n").encode())

    def show(self, text: str) -> None:
        """Replace the status line, cut to the terminal's width."""
        width = shutil.get_terminal_size().columns
        self._write((_LINE + printable_lines(text)[: max(10, width - 1)]).encode())

    def _write(self, data: bytes) -> None:
        """Write what there is room for, because a paused terminal must not delay teleop."""
        try:
            if select.select([], [self._screen], [], 0)[1]:
                os.write(self._screen, data)
        except OSError:
            pass  # The loss is reported when keys are read.
