"""Transport of a wall-clock run over real ports, with the simulator link for devices without a wire."""

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
    """Host that converts monotonic time stamps of real ports to the clock of the run."""

    def __init__(self, host: Host, clock: RunClock) -> None:
        self._host = host
        self._at_ns = clock.at_ns

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        self._host.on_port(port, state, detail, self._at_ns(now_ns))

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self._host.on_rx(port, data, self._at_ns(t_rx_ns))


class WireTransport:
    """Transport with one port per device. A lost port is reopened, and the machine decides if the vehicle stops."""

    def __init__(self, ports: Mapping[str, Port], link: LinkTransport | None = None, clock: RunClock | None = None) -> None:
        """Take the ``ports`` by device, which use the monotonic clock. ``link`` carries the others; its loss ends the run."""
        self._clock = clock or RunClock()
        self._ports = dict(ports)
        self._link = link

    async def serve(self, host: Host) -> None:
        """Open, read and reopen until cancelled. Raises like the link."""
        lost: LinkError | None = None
        on_clock = _OnClock(host, self._clock)
        async with anyio.create_task_group() as group:
            for port in self._ports.values():
                group.start_soon(port.serve, on_clock)
            if self._link is not None:
                try:
                    await self._link.serve(host)
                except LinkError as error:
                    # Raise outside the task group, which would wrap the exception.
                    lost = error
                    group.cancel_scope.cancel()
        if lost is not None:
            raise lost

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send frames, set baud rates and reopen ports."""
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
