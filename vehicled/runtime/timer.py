"""Precise waiting on asyncio and trio."""

import time
from collections.abc import Callable
from types import TracebackType

import anyio

from vehicled.core.ports import NEVER_NS
from vehicled.runtime.loop import LoopRecord, TimerFd
from vehicled.runtime.readable import while_readable


class _OverError(Exception):
    """The alarm is to end."""


class Alarm:
    """Timer that calls a function at the times that this returns; each can be moved while it lies
    ahead.

    The timer is a descriptor that stays registered with the loop, as those of the ports do: a time
    costs one system call, no task is woken for it, and neither the loop's milliseconds nor the
    timer slack of ordinary threads round it. Without timerfd (macOS) the loop's own deadlines are
    used. ``close``, or leaving the ``with`` block, closes the descriptor.
    """

    def __init__(self) -> None:
        self.record: LoopRecord | None = None
        """Record of the loop's sleeps, for the time at which they are planned to end."""
        self.due_ns = NEVER_NS
        """Time of the next call; ``NEVER_NS`` if nobody waits."""
        self._on_due: Callable[[], int | None] | None = None
        self._timer: TimerFd | None = None
        self._scope: anyio.CancelScope | None = None

    def __enter__(self) -> "Alarm":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. Must not be called during ``serve``; safe to repeat."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    async def serve(self, t_ns: int, on_due: Callable[[], int | None]) -> None:
        """Call ``on_due`` once the monotonic clock has reached ``t_ns``, and again at each time
        that it returns; None ends it.

        Never early, and never without a checkpoint before, even if the time has passed: a function
        that is always late cannot starve others. Raises what ``on_due`` raises, and
        ``RuntimeError`` if another task already waits.
        """
        if self._on_due is not None:
            raise RuntimeError("this alarm is already being waited for; use one alarm per waiter")
        self._on_due = on_due
        try:
            if self._timer is None:
                self._timer = TimerFd()
        except OSError:
            pass
        try:
            self._set(t_ns)
            if self._timer is not None:
                await while_readable(self._timer.fileno(), self._expired)
            while True:
                with anyio.CancelScope(deadline=_deadline(self.due_ns)) as self._scope:
                    await anyio.sleep_forever()
                self._expired()
        except _OverError:
            pass
        finally:
            self._on_due = self._scope = None
            self._set(NEVER_NS)

    def rearm(self, t_ns: int) -> None:
        """Move the time, earlier or later. No effect if nobody waits. Only from the thread of the
        loop."""
        if self._on_due is not None and t_ns != self.due_ns:
            self._set(t_ns)

    def _set(self, t_ns: int) -> None:
        self.due_ns = t_ns
        if self.record is not None:
            self.record.planned_ns = t_ns
        if self._timer is not None:
            # This also clears an expiry, which is therefore never read.
            self._timer.arm(t_ns)
        elif self._scope is not None:
            self._scope.deadline = _deadline(t_ns)

    def _expired(self) -> None:
        # It may have been moved since the loop saw it expire.
        if time.monotonic_ns() >= self.due_ns:
            assert self._on_due is not None
            due_ns = self._on_due()
            if due_ns is None:
                raise _OverError
            self._set(due_ns)


def _deadline(t_ns: int) -> float:
    """Return ``t_ns`` on anyio's clock, which has another origin on trio."""
    return anyio.current_time() + (t_ns - time.monotonic_ns()) / 1e9
