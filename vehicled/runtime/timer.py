"""Precise waiting on asyncio and trio.

On asyncio the loop's own timers are used, which are precise on the loop of :mod:`vehicled.runtime.loop`. Trio rounds timeouts up to
milliseconds, so there a timerfd is used.
"""

import asyncio
import time
from types import TracebackType

import anyio
import anyio.lowlevel

from vehicled.core.ports import NEVER_NS
from vehicled.runtime.loop import TimerFd


class Alarm:
    """Timer whose time can be moved while a task waits for it.

    One waiter at a time. Fast enough for every tick: a timer handle and a bare future on asyncio, one timerfd on trio, closed by
    ``close`` or by leaving the ``with`` block.
    """

    def __init__(self) -> None:
        self._due_ns = NEVER_NS
        self._waiting = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._future: asyncio.Future[None] | None = None
        self._timer: TimerFd | None = None
        self._scope: anyio.CancelScope | None = None

    def __enter__(self) -> "Alarm":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the descriptor. Must not be called during a wait; safe to repeat."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    async def wait_until(self, t_ns: int) -> None:
        """Return once the monotonic clock has reached ``t_ns``, or the time given to ``rearm`` meanwhile; never before.

        Always a checkpoint, even if the time has passed. Raises ``RuntimeError`` if another task already waits.
        """
        if self._waiting:
            raise RuntimeError("this alarm is already being waited for; use one alarm per waiter")
        self._due_ns = t_ns
        if time.monotonic_ns() >= t_ns:
            await anyio.lowlevel.checkpoint()
            return
        self._waiting = True
        try:
            # Faster than asking anyio for the backend.
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                await self._wait_descriptor()
            else:
                await self._wait_asyncio(self._loop)
        finally:
            self._waiting = False

    def rearm(self, t_ns: int) -> None:
        """Move the time, earlier or later. No effect without a waiter. Only from the thread of the loop."""
        if not self._waiting or t_ns == self._due_ns:
            return
        self._due_ns = t_ns
        if self._handle is not None and self._loop is not None:
            self._handle.cancel()
            self._handle = self._loop.call_at(t_ns / 1e9, self._expire)
        elif self._scope is not None:
            self._scope.deadline = _deadline(t_ns)
        elif self._timer is not None:
            self._timer.arm(t_ns)

    async def _wait_asyncio(self, loop: asyncio.AbstractEventLoop) -> None:
        # anyio's cancel scopes cancel the future that a task waits for, so a bare future is enough.
        try:
            while time.monotonic_ns() < self._due_ns:
                self._future = loop.create_future()
                self._handle = loop.call_at(self._due_ns / 1e9, self._expire)
                await self._future
        finally:
            if self._handle is not None:
                self._handle.cancel()
            self._handle = self._future = None

    def _expire(self) -> None:
        # The loop's clock is a float, so it may call a nanosecond early.
        if self._loop is not None and time.monotonic_ns() < self._due_ns:
            self._handle = self._loop.call_at(self._due_ns / 1e9, self._expire)
        elif self._future is not None and not self._future.done():
            self._future.set_result(None)

    async def _wait_descriptor(self) -> None:
        if self._timer is None:
            try:
                self._timer = TimerFd()
            except OSError:
                await self._wait_scope()
                return
        while time.monotonic_ns() < self._due_ns:
            self._timer.arm(self._due_ns)
            await anyio.wait_readable(self._timer.fileno())

    async def _wait_scope(self) -> None:
        try:
            while time.monotonic_ns() < self._due_ns:
                with anyio.CancelScope(deadline=_deadline(self._due_ns)) as self._scope:
                    await anyio.sleep_forever()
        finally:
            self._scope = None


def _deadline(t_ns: int) -> float:
    """Return ``t_ns`` on anyio's clock, which has another origin on trio."""
    return anyio.current_time() + (t_ns - time.monotonic_ns()) / 1e9
