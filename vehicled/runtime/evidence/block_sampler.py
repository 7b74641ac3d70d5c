"""Finds the file and line of a call that blocks the loop.

A timer signal stands some milliseconds ahead while the machine runs and is pushed on from time to
time. If the machine takes too long, the signal's handler sees the frame that is executing, which is
the blocking call.
"""

import os
import signal
import sys
import threading
import time
from types import FrameType
from typing import NamedTuple

from vehicled.core.observers import Observers, boundary
from vehicled.core.ports import NEVER_NS
from vehicled.profile import plugins

_WATCHERS = (__name__, "vehicled.core.observers", "vehicled.runtime.evidence.watches")


class Sighting(NamedTuple):
    """Place at which the loop's thread was found when the timer fired."""

    t_ns: int
    where: str
    """Innermost frame as ``file:line in function``, followed by the first frame of vehicled's
    packages if that is another one."""
    plugin: str = ""
    """Innermost frame of a plugin, if one is executing."""


class BlockSampler:
    """Watches one code section at a time on the main thread, from ``enter`` until ``leave``.

    The timer is not set for every section: the handler of one that comes too early for the present
    section sets it again, and one that would wake a sleeping loop is cancelled. Python code and
    interruptible waits are caught while they run, other C code when it returns; the line is right
    in both cases. If sampling is impossible, ``reason`` says why and every call does nothing.
    """

    def __init__(
        self,
        delay_ns: int,
        packages: tuple[str, ...] = ("vehicled", "drivers"),
        observers: Observers | None = None,
    ) -> None:
        """Take the time ``delay_ns`` from ``enter`` to the sample; lines in ``packages`` are
        reported besides the innermost one."""
        self._delay_ns = delay_ns
        self._entered_ns = 0
        """Start of the present section; 0 outside."""
        self._fires_ns = 0
        """Time of the signal; 0 if none is to come."""
        self._packages = packages
        self._sighting: Sighting | None = None
        # The handler interrupts the code that drives, and must not raise into it.
        guard = (observers or Observers()).guard
        self._see = guard("block sampler", self._sight, None)
        self._set = guard("block sampler", self._set_timer, None)
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

    @boundary
    def enter(self) -> None:
        """Begin a section."""
        self._entered_ns = now_ns = time.monotonic_ns()
        if self._fires_ns < now_ns + self._delay_ns // 2:
            self._set(now_ns, self._delay_ns)

    @boundary
    def leave(self, idle_until_ns: int = NEVER_NS) -> bool:
        """End the section; the loop may sleep until ``idle_until_ns`` of the monotonic clock.
        Return True if there is a sample."""
        self._entered_ns = 0
        if 0 < self._fires_ns < idle_until_ns:
            self._set(0, 0)
        return self._sighting is not None

    def take(self) -> Sighting | None:
        """Return the last sample and forget it."""
        sighting, self._sighting = self._sighting, None
        return sighting

    def close(self) -> None:
        """Restore SIGALRM. Safe to repeat."""
        if not self.reason:
            self._entered_ns = 0
            self._set(0, 0)
            signal.signal(signal.SIGALRM, self._previous)
            self.reason = "closed"

    def _set_timer(self, now_ns: int, delay_ns: int) -> None:
        """Set the timer; zeros cancel it."""
        if not self.reason:
            self._fires_ns = now_ns + delay_ns
            signal.setitimer(signal.ITIMER_REAL, delay_ns / 1e9)

    @boundary
    def _on_alarm(self, _number: int, frame: FrameType | None) -> None:
        self._see(frame)

    def _sight(self, frame: FrameType | None) -> None:
        t_ns = time.monotonic_ns()
        self._fires_ns = 0
        if not self._entered_ns:
            return
        lacking_ns = self._entered_ns + self._delay_ns - t_ns
        if lacking_ns > 0:
            self._set(t_ns, lacking_ns)
            return
        # The signal may arrive after the section or inside a garbage collector callback: report
        # their caller.
        while frame is not None and frame.f_globals.get("__name__") in _WATCHERS:
            frame = frame.f_back
        if frame is None:
            return
        where = _describe(frame)
        ours: FrameType | None = frame
        while (
            ours is not None
            and str(ours.f_globals.get("__name__")).partition(".")[0] not in self._packages
        ):
            ours = ours.f_back
        if ours is not None and ours is not frame:
            where += f", called from {_describe(ours)}"
        files = plugins.files()
        own: FrameType | None = frame
        while own is not None and own.f_code.co_filename not in files:
            own = own.f_back
        self._sighting = Sighting(t_ns, where, "" if own is None else _describe(own))


def _describe(frame: FrameType) -> str:
    return (
        f"{_module_path(frame.f_code.co_filename)}:{frame.f_lineno} in {frame.f_code.co_qualname}"
    )


def _module_path(file: str) -> str:
    """Return a file's path as a module path, without the folders of this computer."""
    roots = [root for root in sys.path if root and file.startswith(root.rstrip(os.sep) + os.sep)]
    return file[len(max(roots, key=len).rstrip(os.sep)) + 1 :] if roots else file
