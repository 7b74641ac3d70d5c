"""Implementation of a port: opens a channel, reads, sends with deadlines, and reopens it when it is
lost."""

import random
import time
from collections.abc import Callable

import anyio

from vehicled.core.messages import PortState
from vehicled.runtime.ports.arrival import SETTLE_S, Arrival
from vehicled.runtime.ports.backoff import STEADY_S, Backoff, Retry
from vehicled.runtime.ports.contract import (
    Channel,
    ClosedError,
    LostError,
    Opener,
    OpenError,
    PortCounts,
    PortHost,
)
from vehicled.runtime.ports.outbox import PortSendQueue

TX_LIMIT_BYTES = 16_384
"""Largest send queue, bytes: 1.4 s of a line at 115200 baud, more than any burst of commands or
corrections."""


class SupervisedPort:
    """A :class:`~vehicled.runtime.ports.contract.Port` on any channel opener."""

    def __init__(
        self,
        name: str,
        opener: Opener,
        *,
        retry: Retry | None = None,
        closed_retry: Retry | None = None,
        tx_limit_bytes: int = TX_LIMIT_BYTES,
        rng: random.Random | None = None,
        arrival: Callable[[], Arrival | None] = lambda: None,
    ) -> None:
        """Take the opener; ``rng`` provides the jitter of the back-off. ``arrival`` begins to watch
        for the device.

        ``closed_retry`` holds after a connection that the other end closed before it was steady;
        None: the same.
        """
        self.name = name
        self.counts = PortCounts()
        self.trouble = "not opened yet"
        self._opener = opener
        self._retry = retry or Retry()
        self._rng = rng or random.Random()
        self._outbox = PortSendQueue(tx_limit_bytes, self.counts)
        self._channel: Channel | None = None
        self._usable = False
        self._scope: anyio.CancelScope | None = None
        self._backlog: anyio.Event | None = None
        self._backoff = Backoff(self._retry, self._rng)
        self._closed_backoff = None if closed_retry is None else Backoff(closed_retry, self._rng)
        self._closed = False
        self._paused = False
        self._asked = anyio.Event()
        self._watch_for_device = arrival
        self._arrival: Arrival | None = None

    async def serve(self, host: PortHost) -> None:
        """Open, read and reopen until cancelled."""
        await self._close(drain=False)
        try:
            await self._serve(host)
        finally:
            self._stop_watching()

    async def _serve(self, host: PortHost) -> None:
        self._backoff = Backoff(self._retry, self._rng)
        down_ns = time.monotonic_ns()
        reported = False
        attempts = 0
        while True:
            attempts += 1
            self._watch()
            try:
                channel = await self._opener(self.counts)
            except OpenError as error:
                self.trouble = str(error)
                if not reported:
                    reported = True
                    host.on_port(self.name, PortState.ERROR, self.trouble, time.monotonic_ns())
                await self._wait()
                continue
            opened_ns = time.monotonic_ns()
            self._stop_watching()
            if self._paused:
                self._paused = False
                self._backoff = Backoff(self._retry, self._rng)
            detail = channel.detail
            if reported:
                detail += f"; after {(opened_ns - down_ns) / 1e9:.1f} s and {attempts} attempts"
            await self._hold(channel, host, detail, opened_ns)
            down_ns = time.monotonic_ns()
            reported, attempts = True, 0
            open_s = (down_ns - opened_ns) * 1e-9
            if open_s > self._retry.stable_s:
                self._backoff.reset()
            if self._closed_backoff is not None and open_s > STEADY_S:
                self._closed_backoff.reset()
            await self._wait(self._closed_backoff if self._closed and open_s <= STEADY_S else None)

    def send(self, data: bytes, deadline_ns: int, now_ns: int) -> bool:
        """Write what the descriptor accepts at once; queue the rest."""
        channel = self._channel
        if channel is None or not self._usable:
            self.counts.refused += 1
            return False
        if now_ns > deadline_ns:
            self.counts.expired += 1
            return False
        if not data:
            return True
        if not self._outbox.put(data, deadline_ns):
            return False
        self._push(channel, now_ns)
        return self._usable

    def set_baud(self, baud: int) -> None:
        """Change the baud rate after what was sent before; the next opening uses the rate of the
        address again."""
        if self._usable:
            self._outbox.put_baud(baud)
            if self._backlog is not None:
                self._backlog.set()

    def reopen(self, reason: str) -> None:
        """Close and open again, as if the port had been lost."""
        if self._usable and self._scope is not None:
            self._lose(f"reopened on request: {reason}")

    def pause(self, least_s: float, most_s: float) -> None:
        """Wait at least so long before the next attempt to open."""
        if not self._usable:
            self._backoff = Backoff(
                Retry(min_s=least_s, max_s=max(least_s, most_s)), self._rng, least_s
            )
            self._paused = True
            self._asked.set()

    async def _wait(self, backoff: Backoff | None = None) -> None:
        """Pause before the next attempt, until the device is plugged in at most; begin anew if the
        device asks for another pause meanwhile.
        """
        pause_s = (backoff or self._backoff).pause_s()
        while True:
            asked = self._asked = anyio.Event()
            with anyio.move_on_after(pause_s):
                await self._news(asked)
            if not asked.is_set():
                return
            pause_s = self._backoff.pause_s()

    async def _news(self, asked: anyio.Event) -> None:
        """Wait until the device asks for another pause, or is plugged in; a pause that it has asked
        for lasts."""
        arrival = self._arrival
        if arrival is None or self._paused:
            await asked.wait()
            return
        async with anyio.create_task_group() as group:

            async def plugged_in() -> None:
                while not arrival.came():
                    await anyio.wait_readable(arrival.fileno())
                await anyio.sleep(SETTLE_S)
                arrival.came()
                group.cancel_scope.cancel()

            group.start_soon(plugged_in)
            await asked.wait()
            group.cancel_scope.cancel()

    def _watch(self) -> None:
        """Begin to watch for the device: before an attempt, so that one that comes meanwhile is
        noticed."""
        if self._arrival is None:
            self._arrival = self._watch_for_device()

    def _stop_watching(self) -> None:
        arrival, self._arrival = self._arrival, None
        if arrival is not None:
            arrival.close()

    async def aclose(self) -> None:
        """Close the descriptor; data accepted by the kernel is still sent."""
        await self._close(drain=True)

    async def _hold(self, channel: Channel, host: PortHost, detail: str, opened_ns: int) -> None:
        """Serve an open channel until it is lost. On cancellation leave it open for the last
        frames."""
        self._channel = channel
        self._usable = True
        self._backlog = anyio.Event()
        self._scope = scope = anyio.CancelScope()
        self.trouble = ""
        self._closed = False
        self.counts.opened += 1
        try:
            # Create the scope first, because a send during this call may already lose the port.
            host.on_port(self.name, PortState.OPENED, detail, opened_ns)
            with scope:
                async with anyio.create_task_group() as group:
                    group.start_soon(self._write_backlog, channel)
                    try:
                        await self._receive(channel, host)
                    except LostError as error:
                        self._closed = isinstance(error, ClosedError)
                        self._lose(str(error))
        finally:
            self._scope = None
        self._watch()
        host.on_port(self.name, PortState.LOST, self.trouble, time.monotonic_ns())
        await self._close(drain=False)

    async def _receive(self, channel: Channel, host: PortHost) -> None:
        name, counts, on_rx = self.name, self.counts, host.on_rx

        def deliver(data: bytes, t_rx_ns: int) -> None:
            counts.rx_bytes += len(data)
            on_rx(name, data, t_rx_ns)

        await channel.receive(deliver)

    async def _write_backlog(self, channel: Channel) -> None:
        while True:
            assert self._backlog is not None
            await self._backlog.wait()
            baud = self._outbox.baud
            try:
                if baud is not None and not channel.owes:
                    await channel.change_baud(baud)
                    self._outbox.baud_done(baud)
                elif channel.retry_s is None:
                    await anyio.wait_writable(channel.fileno())
                else:
                    await anyio.sleep(channel.retry_s)
            except LostError as error:
                self._lose(str(error))
                return
            self._push(channel, time.monotonic_ns())

    def _push(self, channel: Channel, now_ns: int) -> None:
        try:
            if channel.owes:
                channel.write(b"")
            if not channel.owes:
                self._outbox.drain(channel.write, now_ns)
        except LostError as error:
            self._lose(str(error))
            return
        if self._outbox or channel.owes:
            if self._backlog is not None:
                self._backlog.set()
        elif self._backlog is not None and self._backlog.is_set():
            self._backlog = anyio.Event()

    def _lose(self, why: str) -> None:
        """Mark the channel as lost; the first reason counts. ``serve`` or ``aclose`` closes it."""
        if self._usable:
            self._usable = False
            self.trouble = why
            self.counts.abandoned += self._outbox.clear()
            if self._scope is not None:
                self._scope.cancel()

    async def _close(self, *, drain: bool) -> None:
        self._lose("closed")
        channel, self._channel = self._channel, None
        if channel is not None:
            with anyio.CancelScope(shield=True):
                await channel.aclose(drain=drain)
