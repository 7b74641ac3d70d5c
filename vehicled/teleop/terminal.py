"""A terminal that gives keys at once, and gets back what it was, whatever happens."""

import os
import select
import shutil
import termios
import tty
from types import TracebackType
from typing import Any

_ENTER = b"\x1b[?25l\x1b[?1004h"
"""No cursor; tell when the window loses its focus."""
_LEAVE = b"\x1b[?1004l\x1b[?25h"
_LINE = "\r\x1b[K"


class Terminal:
    """Keys of one terminal and a status line on it. A context; Ctrl-C and Ctrl-Z stay signals."""

    def __init__(self, keys_fd: int, screen_fd: int) -> None:
        """Raises :class:`OSError` or ``termios.error`` for what is no terminal."""
        self._keys, self._screen = keys_fd, screen_fd
        self._before: list[Any] = termios.tcgetattr(keys_fd)
        self._raw = False

    def __enter__(self) -> "Terminal":
        self.enter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.restore()

    def fileno(self) -> int:
        """Where its keys come from."""
        return self._keys

    def enter(self) -> None:
        """Give keys at once, unseen."""
        if not self._raw:
            self._raw = True
            tty.setcbreak(self._keys, termios.TCSAFLUSH)
            self._write(_ENTER)

    def restore(self) -> None:
        """As it was. Safe to repeat, and on a terminal that is gone."""
        if self._raw:
            self._raw = False
            self._write(_LINE.encode() + _LEAVE)
            try:
                termios.tcsetattr(self._keys, termios.TCSADRAIN, self._before)
            except (OSError, termios.error):
                pass  # It is gone, and there is nothing to give back.

    def keys(self) -> bytes:
        """What was typed and has not been read. Raises EOFError when the terminal is gone."""
        data = b""
        while select.select([self._keys], [], [], 0)[0]:
            try:
                read = os.read(self._keys, 4096)
            except OSError as error:
                raise EOFError(error.strerror) from None
            if not read:
                raise EOFError("it was closed")
            data += read
        return data

    def say(self, text: str) -> None:
        """A line that stays."""
        self._write((_LINE + text + "\n").encode())

    def show(self, text: str) -> None:
        """The status line, written over the last one and cut to the width."""
        width = shutil.get_terminal_size().columns
        self._write((_LINE + text[: max(10, width - 1)]).encode())

    def _write(self, data: bytes) -> None:
        """As far as it goes without waiting: a terminal that is held must not hold the hand."""
        try:
            if select.select([], [self._screen], [], 0)[1]:
                os.write(self._screen, data)
        except OSError:
            pass  # Its loss is told by its keys.
