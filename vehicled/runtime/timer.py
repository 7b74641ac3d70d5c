"""Precise waiting on either of anyio's backends.

On asyncio the loop's own timers are used, precise on the loop of :mod:`vehicled.runtime.loop`. Trio rounds its time-outs up to
milliseconds as asyncio does, so there a timerfd is waited for like any other descriptor.
"""

import asyncio
import time
from types import TracebackType

import anyio
import anyio.lowlevel

from vehicled.ports import NEVER_NS
from vehicled.runtime.loop import TimerFd


class Alarm:
    """Wait for an instant that may be moved while one waits.

    One waiter at a time. Cheap enough to be used for every tick: on asyncio a timer handle and a bare future, on trio one timerfd
    for the life of the alarm, which ``close`` or leaving the ``with`` block gives back.
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
        """Give the descriptor back. Not while someone waits; safe to repeat."""
        if self._timer is not None:
            self._timer.close()
            self._timer = None

    async def wait_until(self, t_ns: int) -> None:
        """Return once the monotonic clock has reached ``t_ns``, or the instant given to ``rearm`` meanwhile; never before.

        Always a checkpoint: yields and can be cancelled, even if the instant has passed. Raises ``RuntimeError`` if someone waits
        already.
        """
        if self._waiting:
            raise RuntimeError("this alarm is already being waited for; use one alarm per waiter")
        self._due_ns = t_ns
        if time.monotonic_ns() >= t_ns:
            await anyio.lowlevel.checkpoint()
            return
        self._waiting = True
        try:
            # Far cheaper than asking anyio which backend it is.
            try:
                self._loop = asyncio.get_running_loop()
            except RuntimeError:
                await self._wait_descriptor()
            else:
                await self._wait_asyncio(self._loop)
        finally:
            self._waiting = False

    def rearm(self, t_ns: int) -> None:
        """Move the instant, to earlier or later. Without effect when nobody waits. Only from the thread of the loop."""
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
        # A bare future under anyio: its cancel scopes cancel whatever future the task waits for, so nothing more is needed.
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
        # The loop's clock is a float: it may call a nanosecond early.
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
    """``t_ns`` on anyio's clock, which on trio has an origin of its own."""
    return anyio.current_time() + (t_ns - time.monotonic_ns()) / 1e9


async def sleep_until_ns(t_ns: int) -> None:
    """Sleep until the monotonic clock has reached ``t_ns``, never less. Periodic tasks keep an :class:`Alarm` instead."""
    with Alarm() as alarm:
        await alarm.wait_until(t_ns)
