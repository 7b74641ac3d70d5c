"""Transport of a wall-clock run over real ports, with the simulator link for devices without a
wire."""

from collections.abc import Mapping, Sequence

import anyio

from vehicled.core.journal import Sink
from vehicled.core.link import LinkError
from vehicled.core.messages import Event, PortState
from vehicled.core.ports import Reopen, Send, SetBaud
from vehicled.daemon.machine import Outgoing
from vehicled.runtime.clock import RunClock
from vehicled.runtime.host import Host
from vehicled.runtime.link_port import LinkTransport
from vehicled.runtime.ports import Port

FLOOD_EVENT_NS = 10_000_000_000
"""Shortest time between two events about ports that send more than their line carries."""


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
    """Transport with one port per device. A lost port is reopened, and the machine decides if the
    vehicle stops."""

    def __init__(
        self,
        ports: Mapping[str, Port],
        link: LinkTransport | None = None,
        clock: RunClock | None = None,
        sink: Sink | None = None,
    ) -> None:
        """Take the ``ports`` by device, which use the monotonic clock. ``link`` carries the others;
        its loss ends the run.

        ``sink`` gets an event for each port that sends more than its line carries.
        """
        self._clock = clock or RunClock()
        self._ports = dict(ports)
        self._link = link
        self._sink = sink
        self._throttled = dict.fromkeys(ports, 0)
        self._reported_ns = 0

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
            elif isinstance(action, Reopen):
                port.reopen(action.reason)
            else:
                port.pause(action.least_s, action.most_s)
        if self._link is not None:
            self._link.transmit(for_link, now_ns)
        if now_ns >= self._reported_ns + FLOOD_EVENT_NS:
            self._report_floods(now_ns)

    def _report_floods(self, now_ns: int) -> None:
        """Record which ports had to wait since the last time."""
        self._reported_ns = now_ns
        for name, port in self._ports.items():
            pauses = port.counts.throttled - self._throttled[name]
            self._throttled[name] = port.counts.throttled
            if pauses and self._sink is not None:
                fields = {"port": name, "pauses": pauses, "received_bytes": port.counts.rx_bytes}
                self._sink.record(Event.of(now_ns, "warning", "port_floods", **fields), now_ns)

    async def aclose(self) -> None:
        """Close every port."""
        for port in self._ports.values():
            await port.aclose()
