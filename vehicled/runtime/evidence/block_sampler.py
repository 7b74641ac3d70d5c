"""Finds the file and line of a call that blocks the loop.

A timer signal is armed while the machine runs and disarmed afterwards. If the machine takes too long, the signal's handler sees the
frame that is executing, which is the blocking call.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NamedTuple

from vehicled.core.observers import Observers, boundary
from vehicled.profile import plugins

_WATCHERS = (__name__, "vehicled.core.observers", "vehicled.runtime.evidence.watches")


class Sighting(NamedTuple):
    """Place at which the loop's thread was found when the timer fired."""

    t_ns: int
    where: str
    """Innermost frame as ``file:line in function``, followed by the first frame of vehicled's packages if that is another one."""
    plugin: str = ""
    """Innermost frame of a plugin, if one is executing."""


class BlockSampler:
    """Watches one code section at a time on the main thread; ``arm`` and ``disarm`` together take about 1 us.

    Python code and interruptible waits are caught while they run, other C code when it returns; the line is right in both cases. If
    sampling is impossible, ``reason`` says why and every call does nothing.
    """

    def __init__(
        self, delay_ns: int, packages: tuple[str, ...] = ("vehicled", "drivers"), observers: Observers | None = None
    ) -> None:
        """Take the time ``delay_ns`` from ``arm`` to the sample; lines in ``packages`` are reported besides the innermost one."""
        self._delay_s = delay_ns / 1e9
        self._packages = packages
        self._sighting: Sighting | None = None
        # The handler interrupts the code that drives, and must not raise into it.
        self._see = (observers or Observers()).guard("block sampler", self._sight, None)
        self.reason = ""
        if not hasattr(signal, "setitimer"):
            self.reason = "this system has no interval timers"
        elif threading.current_thread() is not threading.main_thread():
            self.reason = "signals reach only the main thread, and the loop runs on another one"
        elif signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN):
            self.reason = "SIGALRM is already in use"
        if self.reason:
            return
        self._previous = signal.signal(signal.SIGALRM, self._on_alarm)
        # Restart system calls after the signal, because a C library may treat EINTR as a failure.
        signal.siginterrupt(signal.SIGALRM, False)

    def arm(self) -> None:
        """Start the timer."""
        if not self.reason:
            signal.setitimer(signal.ITIMER_REAL, self._delay_s)

    def disarm(self) -> None:
        """Stop the timer."""
        if not self.reason:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def take(self) -> Sighting | None:
        """Return the last sample and forget it."""
        sighting, self._sighting = self._sighting, None
        return sighting

    def close(self) -> None:
        """Restore SIGALRM. Safe to repeat."""
        if not self.reason:
            self.disarm()
            signal.signal(signal.SIGALRM, self._previous)
            self.reason = "closed"

    @boundary
    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        self._see(frame)

    def _sight(self, frame: FrameType | None) -> None:
        t_ns = time.monotonic_ns()
        # The signal may arrive after the section or inside a garbage collector callback: report their caller.
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
        files = plugins.files()
        own: FrameType | None = frame
        while own is not None and own.f_code.co_filename not in files:
            own = own.f_back
        self._sighting = Sighting(t_ns, where, "" if own is None else _describe(own))


def _describe(frame: FrameType) -> str:
    return f"{_module_path(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_qualname}"


def _module_path(file: str) -> str:
    """Return a file's path as a module path, without the folders of this computer."""
    roots = [root for root in sys.path if root and file.startswith(root.rstrip(os.sep) + os.sep)]
    return file[len(max(roots, key=len).rstrip(os.sep)) + 1 :] if roots else file
