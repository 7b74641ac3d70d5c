"""Ctrl-C and SIGTERM: during a drive they are for the vehicle, before and after it for the program
that drives.

Only the main thread gets signals; in any other thread nothing here has an effect. A signal that the
program ignores stays ignored.
"""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from vehicled.core.error_text import Interrupted

STOPS = (signal.SIGINT, signal.SIGTERM)
"""Signals that ask a drive to end."""


class StopSignals:
    """Scope in which the first stop signal is only noted, and a second one raises
    :class:`Interrupted`.

    The handlers of the program are restored at the end.
    """

    def __init__(self, on_first: Callable[[str], object] | None = None) -> None:
        """``on_first`` is called in the signal handler with the name of the first signal."""
        self._on_first = on_first
        self._previous: dict[int, Any] = {}
        self.number = 0
        """First signal that came; 0 for none."""

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is threading.main_thread():
            for number in STOPS:
                # None is a handler that Python did not install and cannot restore.
                if signal.getsignal(number) not in (signal.SIG_IGN, None):
                    self._previous[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)
        self._previous.clear()

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.number:
            raise Interrupted
        self.number = number
        if self._on_first is not None:
            self._on_first("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)


def give_back(number: int) -> None:
    """Give a noted signal to the program as if it came now: KeyboardInterrupt for Ctrl-C, the end
    for SIGTERM, or its own handler.

    Does nothing for 0.
    """
    if number:
        signal.raise_signal(number)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold stop signals back until the block has ended, so that they cannot end a task of the
    daemon half-way."""
    signals = StopSignals()
    try:
        with signals:
            yield
    finally:
        give_back(signals.number)


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Have Ctrl-C raise :class:`Interrupted`, which no plugin can raise by itself, where it would
    raise KeyboardInterrupt."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise Interrupted

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGINT) is interrupt:
            signal.signal(signal.SIGINT, signal.default_int_handler)
