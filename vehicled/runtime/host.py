"""Interface of all ports of a run to its pump. What they may call is
:class:`~vehicled.runtime.ports.contract.PortHost`."""

from collections.abc import Sequence
from typing import Protocol

from vehicled.daemon.machine import Outgoing
from vehicled.runtime.ports.contract import PortHost as Host

__all__ = ["Host", "Transport"]


class Transport(Protocol):
    """All ports of a run on the wall clock: the simulator link or real ports."""

    async def serve(self, host: Host) -> None:
        """Open and read until cancelled. Raises :class:`vehicled.core.link.LinkError` if a loss
        ends the run."""
        ...

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send the machine's outputs and other due data. Never blocks; raises like
        :meth:`serve`."""
        ...

    async def aclose(self) -> None:
        """Close all ports after the last stop was sent. Never raises."""
        ...
