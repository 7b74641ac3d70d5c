"""Interfaces between a pump and its ports: what a transport must offer, and what it may call."""

from collections.abc import Sequence
from typing import Protocol

from vehicled.core.messages import PortState
from vehicled.daemon.machine import Outgoing


class Host(Protocol):
    """Receiver of port data. Called on the loop; must return soon."""

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        """Handle a port that was opened, lost, or could not be opened."""
        ...

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        """Handle bytes that were read from a port at ``t_rx_ns``."""
        ...


class Transport(Protocol):
    """All ports of a run on the wall clock: the simulator link or real ports."""

    async def serve(self, host: Host) -> None:
        """Open and read until cancelled. Raises :class:`vehicled.core.link.LinkError` if a loss ends the run."""
        ...

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send the machine's outputs and other due data. Never blocks; raises like :meth:`serve`."""
        ...

    async def aclose(self) -> None:
        """Close all ports after the last stop was sent. Never raises."""
        ...
