"""Names the file and the line of a call that blocks the loop.

A timer signal is armed while the machine runs and disarmed after. If the machine takes longer than it should, the signal's handler
sees the frame that is being executed: the very call that blocks.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NamedTuple

_WATCHERS = (__name__, "vehicled.runtime.evidence")


class Sighting(NamedTuple):
    """Where the loop's thread was found when its time was up."""

    t_ns: int
    where: str
    """Innermost frame as ``file:line in function``, followed by the first frame of our own packages if that is another."""


class BlockSampler:
    """Watches one section of code at a time on the main thread; about 1 us for ``arm`` and ``disarm`` together.

    Python code and waits that a signal interrupts are caught in the act, other C code as it returns; either way the line is right.
    ``reason`` is not empty where sampling is impossible; then every call does nothing.
    """

    def __init__(self, delay_ns: int, packages: tuple[str, ...] = ("vehicled", "drivers")) -> None:
        """``delay_ns`` from ``arm`` to the sighting; ``packages`` are those whose lines are worth naming besides the innermost."""
        self._delay_s = delay_ns / 1e9
        self._packages = packages
        self._sighting: Sighting | None = None
        self.reason = ""
        if not hasattr(signal, "setitimer"):
            self.reason = "this system has no interval timers"
        elif threading.current_thread() is not threading.main_thread():
            self.reason = "signals reach the main thread only and the loop runs on another"
        elif signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN):
            self.reason = "SIGALRM is in use by someone else"
        if self.reason:
            return
        self._previous = signal.signal(signal.SIGALRM, self._on_alarm)
        # System calls go on after the signal. A C library that takes EINTR for a failure must not meet it because of us.
        signal.siginterrupt(signal.SIGALRM, False)

    def arm(self) -> None:
        """Start watching."""
        if not self.reason:
            signal.setitimer(signal.ITIMER_REAL, self._delay_s)

    def disarm(self) -> None:
        """Stop watching."""
        if not self.reason:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def take(self) -> Sighting | None:
        """The last sighting, once."""
        sighting, self._sighting = self._sighting, None
        return sighting

    def close(self) -> None:
        """Give SIGALRM back. Safe to repeat."""
        if not self.reason:
            self.disarm()
            signal.signal(signal.SIGALRM, self._previous)
            self.reason = "closed"

    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        t_ns = time.monotonic_ns()
        # Caught between the end of the section and disarm, or by who only watches the collector: whoever called it is meant.
        while frame is not None and frame.f_globals.get("__name__") in _WATCHERS:
            frame = frame.f_back
        if frame is None:
            return
        where = _describe(frame)
        ours: FrameType | None = frame
        while ours is not None and str(ours.f_globals.get("__name__")).partition(".")[0] not in self._packages:
            ours = ours.f_back
        if ours is not None and ours is not frame:
            where += f", called from {_describe(ours)}"
        self._sighting = Sighting(t_ns, where)


def _describe(frame: FrameType) -> str:
    return f"{_module_path(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _module_path(file: str) -> str:
    """A file as it is imported, without the folders where this computer keeps it."""
    roots = [root for root in sys.path if root and file.startswith(root.rstrip(os.sep) + os.sep)]
    return file[len(max(roots, key=len).rstrip(os.sep)) + 1 :] if roots else file
