"""Real ports as the transport of a wall-clock run, with the simulator link beside them for what has no wire."""

from collections.abc import Mapping, Sequence

import anyio

from vehicled.link import LinkError
from vehicled.machine import Outgoing
from vehicled.messages import PortState
from vehicled.ports import Send, SetBaud
from vehicled.runtime.clock import RunClock
from vehicled.runtime.host import Host
from vehicled.runtime.link_port import LinkTransport
from vehicled.runtime.ports import Port


class _OnClock:
    """A host that takes the stamps of real ports, on the monotonic clock, for a run on another clock."""

    def __init__(self, host: Host, clock: RunClock) -> None:
        self._host = host
        self._at_ns = clock.at_ns

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        self._host.on_port(port, state, detail, self._at_ns(now_ns))

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self._host.on_rx(port, data, self._at_ns(t_rx_ns))


class WireTransport:
    """Each device on a port of its own. A lost port is the machine's business: it is reopened, and the run goes on or stops."""

    def __init__(self, ports: Mapping[str, Port], link: LinkTransport | None = None, clock: RunClock | None = None) -> None:
        """``ports`` by device, which live on the monotonic clock. ``link`` carries the others; its loss ends the run."""
        self._clock = clock or RunClock()
        self._ports = dict(ports)
        self._link = link

    async def serve(self, host: Host) -> None:
        """Open, read and reopen until cancelled. Raises as the link does."""
        lost: LinkError | None = None
        on_clock = _OnClock(host, self._clock)
        async with anyio.create_task_group() as group:
            for port in self._ports.values():
                group.start_soon(port.serve, on_clock)
            if self._link is not None:
                try:
                    await self._link.serve(host)
                except LinkError as error:
                    # Raised behind the group, which would wrap it.
                    lost = error
                    group.cancel_scope.cancel()
        if lost is not None:
            raise lost

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send, set line rates, reopen."""
        for_link = []
        lost_ns = self._clock.lost_ns
        for item in outgoing:
            port = self._ports.get(item.port)
            action = item.action
            if port is None:
                for_link.append(item)
            elif isinstance(action, Send):
                port.send(action.data, action.deadline_ns + lost_ns, now_ns + lost_ns)
            elif isinstance(action, SetBaud):
                port.set_baud(action.baud)
            else:
                port.reopen(action.reason)
        if self._link is not None:
            self._link.transmit(for_link, now_ns)

    async def aclose(self) -> None:
        """Close every port."""
        for port in self._ports.values():
            await port.aclose()
