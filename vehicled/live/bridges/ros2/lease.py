"""Lease of the setpoints among ROS nodes: two that send at once must not drive by turns. Pure."""

from collections.abc import Hashable

LEASE_S = 1.0
"""Silence after which another node may send, s; that of the daemon's own lease."""


class WriterLease:
    """The first writer holds the lease until it is silent."""

    def __init__(self) -> None:
        self._holder: Hashable = None
        self._until_s = 0.0

    def take(self, writer: Hashable, now_s: float) -> bool:
        """Return True if a writer holds the lease now, or gets it."""
        if writer != self._holder and now_s < self._until_s:
            return False
        self._holder, self._until_s = writer, now_s + LEASE_S
        return True
