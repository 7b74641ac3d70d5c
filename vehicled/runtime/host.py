"""Between a pump and the wires: what a transport is, and what it may call."""

from collections.abc import Sequence
from typing import Protocol

from vehicled.machine import Outgoing
from vehicled.messages import PortState


class Host(Protocol):
    """Takes what arrives. Called on the loop; returns soon."""

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """A port opened, was lost, or could not be opened."""
        ...

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Bytes were read from a port at ``t_rx_ns``."""
        ...


class Transport(Protocol):
    """All the ports of a run on the wall clock: the simulator link, or real ones."""

    async def serve(self, host: Host) -> None:
        """Open and read until cancelled. Raises :class:`vehicled.link.LinkError` when the run cannot go on without what it lost."""
        ...

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Hand over what the machine wants on its ports, and whatever else is due. Never blocks; raises as :meth:`serve`."""
        ...

    async def aclose(self) -> None:
        """The run is over and the last stop has been handed over: close what is open. Never raises."""
        ...
