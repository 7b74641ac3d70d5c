"""Asyncio event loop with nanosecond timers instead of whole milliseconds.

``epoll_wait`` takes its timeout in milliseconds and asyncio rounds up, so a stock 5 ms task starts
0.5 to 1 ms late. This selector arms a timerfd for the timeout and lets ``epoll_wait`` sleep without
one, so that every ``sleep``, ``call_at`` and anyio deadline is precise. A timerfd is also exempt
from the timer slack (50 us) of ordinary threads, unlike ``epoll_pwait2``.
"""

import asyncio
import ctypes
import errno
import os
import select
import selectors
import sys
import time
from typing import Protocol

from vehicled.core.ports import NEVER_NS

_TFD_TIMER_ABSTIME = 1
SLEEP_NS = 10_000
"""Longest wait that may have found its input there already, ns."""
_SAME_TIME_NS = 20_000
"""Largest difference of two ends that count as the same, ns: each turn of the loop counts the
timeout of the same wait anew."""


class TimerFd:
    """One-shot timer on CLOCK_MONOTONIC as a file descriptor that becomes readable when the time
    has come.

    Arming again clears an unseen expiry. The constructor raises ``OSError`` on systems without
    timerfd.
    """

    if sys.version_info >= (3, 13):

        def __init__(self) -> None:
            self._fd = -1
            if not hasattr(os, "timerfd_create"):
                raise OSError(errno.ENOSYS, f"no timerfd in this Python on {sys.platform}")
            self._fd = os.timerfd_create(
                time.CLOCK_MONOTONIC, flags=os.TFD_NONBLOCK | os.TFD_CLOEXEC
            )

        def _set(self, t_ns: int) -> None:
            os.timerfd_settime_ns(self._fd, flags=os.TFD_TIMER_ABSTIME, initial=t_ns)

    else:

        def __init__(self) -> None:
            self._fd = -1
            try:
                # PyDLL keeps the GIL: these calls never block, and a released GIL may take a switch
                # interval to come back.
                libc = ctypes.PyDLL(None, use_errno=True)
                create, self._settime = libc.timerfd_create, libc.timerfd_settime
            except (OSError, AttributeError):
                raise OSError(
                    errno.ENOSYS, f"no timerfd in the C library on {sys.platform}"
                ) from None
            # struct itimerspec: interval (s, ns), value (s, ns).
            self._spec = (ctypes.c_long * 4)()
            self._spec_address = ctypes.byref(self._spec)
            self._fd = create(time.CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
            if self._fd < 0:
                raise _last_error("timerfd_create")

        def _set(self, t_ns: int) -> None:
            spec = self._spec
            spec[2], spec[3] = divmod(t_ns, 1_000_000_000)
            if self._settime(self._fd, _TFD_TIMER_ABSTIME, self._spec_address, None):
                raise _last_error("timerfd_settime")

    def arm(self, t_ns: int) -> None:
        """Expire at ``t_ns`` of the monotonic clock, at once if that has passed."""
        # Zero would disarm the timer.
        self._set(t_ns if t_ns > 0 else 1)

    def disarm(self) -> None:
        """Cancel the timer and clear an unseen expiry."""
        self._set(0)

    def fileno(self) -> int:
        """Return the descriptor; -1 once closed."""
        return self._fd

    def close(self) -> None:
        """Close the descriptor. Safe to repeat."""
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


def _last_error(call: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{call}: {os.strerror(code)}")


class LoopRecord(Protocol):
    """Record of a loop's sleeps, in monotonic ns."""

    planned_ns: int
    """Time at which a timer of its own ends the present sleep, besides the loop's deadlines;
    ``NEVER_NS`` for none."""
    idle_from_ns: int
    woke_ns: int
    """End of the last sleep, which began at ``idle_from_ns``."""
    sleeps: int
    slept_ns: int
    overslept_ns: int
    """Number and duration of all sleeps, and how much later than planned they ended."""


class NoLoopRecord:
    """Stand-in for a loop that records nothing."""

    planned_ns = idle_from_ns = woke_ns = sleeps = slept_ns = overslept_ns = 0


class PreciseSelector(selectors.DefaultSelector):
    """Default selector with exact timeouts.

    Without epoll or timerfd ``precise`` is False, this is the plain default selector, and
    ``reason`` says why.
    """

    def __init__(self) -> None:
        super().__init__()
        self.precise = False
        self.reason = ""
        self.planned_ns = NEVER_NS
        """Time at which an :class:`~vehicled.runtime.timer.Alarm` ends the sleeps."""
        self.idle_from_ns = 0
        """Start of the last sleep that was planned. Polls leave this and the next two unchanged, as
        do waits for an alarm that is due."""
        self.idle_until_ns = 0
        """Planned end of that sleep; ``NEVER_NS`` if it waited only for input."""
        self.woke_ns = 0
        """Actual end of that sleep; less than ``idle_from_ns`` while it lasts."""
        self.sleeps = 0
        """Number of sleeps that gave up the processor."""
        self.slept_ns = 0
        """Duration of all sleeps."""
        self.overslept_ns = 0
        """Sum of the times by which they ended later than planned."""
        self._timer: TimerFd | None = None
        self._armed_ns = NEVER_NS
        """Time for which the timer is armed; ``NEVER_NS`` if it is not."""
        if not hasattr(select, "epoll"):
            self.reason = (
                f"{sys.platform} has neither epoll nor timerfd; the default selector is used"
            )
            return
        try:
            self._timer = TimerFd()
        except OSError as error:
            self.reason = f"{error.strerror}; timeouts are rounded up to whole milliseconds"
            return
        # Register through a second epoll handle, so that the timer never shows in the key map.
        # Edge-triggered, so that an expiry wakes one sleep and needs no read.
        with select.epoll.fromfd(os.dup(self.fileno())) as epoll:
            epoll.register(self._timer.fileno(), select.EPOLLIN | select.EPOLLET)
        self.precise = True

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        """Return ready keys and their events once one is ready, ``timeout`` (s) has passed or the
        alarm is due."""
        if timeout is not None and timeout <= 0:
            return super().select(0)
        now_ns = time.monotonic_ns()
        until_ns = NEVER_NS if timeout is None else min(now_ns + int(timeout * 1e9) + 1, NEVER_NS)
        planned_ns = max(min(until_ns, self.planned_ns), now_ns)
        overdue = planned_ns == now_ns
        if not overdue:
            self.idle_from_ns, self.idle_until_ns = now_ns, planned_ns
        elif ready := super().select(0):
            return ready
        # With PREEMPT_RT a thread of priority 1 makes the descriptor of an overdue alarm readable,
        # and a loop that polls at real-time priority starves it: so this waits for it, too.
        timer = self._timer
        if timer is None:
            ready = super().select(timeout)
        else:
            armed = now_ns < self._armed_ns and abs(until_ns - self._armed_ns) <= _SAME_TIME_NS
            if not armed:
                timer.arm(until_ns)
                self._armed_ns = until_ns
            ready = super().select(None)
            if armed and not ready and time.monotonic_ns() < until_ns:
                timer.arm(until_ns)
                self._armed_ns = until_ns
                ready = super().select(None)
        woke_ns = time.monotonic_ns()
        if not overdue:
            self.woke_ns = woke_ns
        self.sleeps += woke_ns - now_ns > SLEEP_NS
        self.slept_ns += woke_ns - now_ns
        if woke_ns > planned_ns:
            self.overslept_ns += woke_ns - planned_ns
        return ready

    def close(self) -> None:
        """Close the selector and its timer. Safe to repeat."""
        if self._timer is not None:
            self._timer.close()
        super().close()


class PreciseEventLoop(asyncio.SelectorEventLoop):
    """Asyncio loop on a :class:`PreciseSelector`, available as ``selector``."""

    def __init__(self) -> None:
        self.selector = PreciseSelector()
        super().__init__(self.selector)


def new_event_loop() -> PreciseEventLoop:
    """Return a new loop, for ``anyio.run(main, backend="asyncio", backend_options={"loop_factory":
    new_event_loop})``."""
    return PreciseEventLoop()
