"""Stall detection for sources of corrections."""

from vehicled.core.ports import NEVER_NS

MAX_TIMEOUT_NS = 300_000_000_000
"""Longest timeout, ns: casters ban clients that retry often, and a base that is off need not be
polled."""


class StallWatch:
    """Stall timeout: ``limit_ns`` of silence, doubled after each failed attempt until data arrives.

    ``limit_ns`` 0 means no timeout.
    """

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._since_ns = NEVER_NS
        self._vain = 0

    @property
    def due_ns(self) -> int:
        """Time of the timeout; ``NEVER_NS`` while nothing is expected."""
        return (
            NEVER_NS
            if self._since_ns == NEVER_NS or not self._limit_ns
            else self._since_ns + self.timeout_ns
        )

    @property
    def timeout_ns(self) -> int:
        doubled = self._limit_ns << min(self._vain, 16)
        return max(self._limit_ns, min(doubled, MAX_TIMEOUT_NS))

    def expect(self, now_ns: int) -> None:
        """Start the timeout on a connection."""
        self._since_ns = now_ns

    def on_frame(self, t_ns: int) -> None:
        """Restart the timeout, because data arrived."""
        self._since_ns = t_ns
        self._vain = 0

    def stop(self) -> None:
        """Stop the timeout, because the connection is gone."""
        self._since_ns = NEVER_NS

    def expire(self) -> None:
        """Double the next timeout. Nothing is expected until :meth:`expect`."""
        self._since_ns = NEVER_NS
        self._vain += 1
