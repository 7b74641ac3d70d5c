"""Runs a base station: the port of the receiver, its driver, and the servers for rovers."""

import time
from collections.abc import Callable, Sequence
from math import inf
from typing import Any, Protocol

import anyio

from vehicled.core.messages import Corrections, PortState
from vehicled.core.ports import Action, Pause, Reopen, Send, SetBaud
from vehicled.live.base_station.servers import RoverServers
from vehicled.runtime.ports import Port

LONGEST_WAIT_S = 0.2
"""Longest time between two looks at the timeouts of the receiver, s."""


class BaseReceiver(Protocol):
    """Driver of a receiver as base station."""

    ready: bool
    """True while its corrections flow."""

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Any]: ...

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Any]: ...

    def on_time(self, now_ns: int) -> Sequence[Any]: ...

    def next_due_ns(self) -> int: ...

    def take_tx(self) -> Sequence[Action]: ...


class BaseSession:
    """Host of the receiver's port. ``report`` gets everything that is no correction."""

    def __init__(
        self,
        port: Port,
        receiver: BaseReceiver,
        servers: RoverServers,
        report: Callable[[Any], None],
        on_trouble: Callable[[str], None],
    ) -> None:
        """``on_trouble`` gets why the port cannot be used, and an empty text once it can."""
        self._port, self._receiver, self._servers = port, receiver, servers
        self._report, self._on_trouble = report, on_trouble
        self.stopped = anyio.Event()
        """Set it to end :meth:`run`."""

    async def run(self, seconds: float | None = None) -> None:
        """Run until it is stopped, or for a time."""
        try:
            with anyio.move_on_after(inf if seconds is None else seconds):
                async with anyio.create_task_group() as group:
                    group.start_soon(self._port.serve, self)
                    group.start_soon(self._keep_time)
                    await self.stopped.wait()
                    group.cancel_scope.cancel()
        finally:
            self._servers.close()
            with anyio.CancelScope(shield=True):
                await self._port.aclose()

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that opened, was lost or failed."""
        self._on_trouble("" if state is PortState.OPENED else detail)
        self._take(self._receiver.on_port(state, detail, now_ns))

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Handle bytes of the receiver."""
        self._take(self._receiver.on_rx(data, t_rx_ns))

    async def _keep_time(self) -> None:
        while True:
            now_ns = time.monotonic_ns()
            wait_s = (self._receiver.next_due_ns() - now_ns) * 1e-9
            if wait_s <= 0.0:
                self._take(self._receiver.on_time(now_ns))
            await anyio.sleep(min(max(wait_s, 0.001), LONGEST_WAIT_S))

    def _take(self, news: Sequence[Any]) -> None:
        for each in news:
            if isinstance(each, Corrections):
                self._servers.publish(each.data)
            else:
                self._report(each)
        if not self._receiver.ready:
            self._servers.forget()
        now_ns = time.monotonic_ns()
        for action in self._receiver.take_tx():
            match action:
                case Send():
                    self._port.send(action.data, action.deadline_ns, now_ns)
                case SetBaud():
                    self._port.set_baud(action.baud)
                case Reopen():
                    self._port.reopen(action.reason)
                case Pause():
                    self._port.pause(action.least_s, action.most_s)
