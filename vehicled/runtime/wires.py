"""Real ports as the transport of a wall-clock run, with the simulator link beside them for what has no wire."""

from collections.abc import Mapping, Sequence

import anyio

from vehicled.link import LinkError
from vehicled.machine import Outgoing
from vehicled.ports import Send, SetBaud
from vehicled.runtime.host import Host
from vehicled.runtime.link_port import LinkTransport
from vehicled.runtime.ports import Port


class WireTransport:
    """Each device on a port of its own. A lost port is the machine's business: it is reopened, and the run goes on or stops."""

    def __init__(self, ports: Mapping[str, Port], link: LinkTransport | None = None) -> None:
        """``ports`` by device. ``link`` carries the others; its loss ends the run."""
        self._ports = dict(ports)
        self._link = link

    async def serve(self, host: Host) -> None:
        """Open, read and reopen until cancelled. Raises as the link does."""
        lost: LinkError | None = None
        async with anyio.create_task_group() as group:
            for port in self._ports.values():
                group.start_soon(port.serve, host)
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
        for item in outgoing:
            port = self._ports.get(item.port)
            action = item.action
            if port is None:
                for_link.append(item)
            elif isinstance(action, Send):
                port.send(action.data, action.deadline_ns, now_ns)
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
