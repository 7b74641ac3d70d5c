"""When to give a silent source of corrections up."""

from vehicled.ports import NEVER_NS

MAX_PATIENCE_NS = 300_000_000_000
"""Longest wait between two attempts. Casters ban who keeps coming back; a base that is off for the day need not be asked often."""


class StallWatch:
    """Patience with a source: ``limit_ns`` of silence, doubled with each attempt that brought nothing, until something comes.

    ``limit_ns`` 0 is endless patience.
    """

    def __init__(self, limit_ns: int) -> None:
        self._limit_ns = limit_ns
        self._since_ns = NEVER_NS
        self._vain = 0

    @property
    def due_ns(self) -> int:
        """When the patience ends; ``NEVER_NS`` while nothing is expected."""
        return NEVER_NS if self._since_ns == NEVER_NS or not self._limit_ns else self._since_ns + self.patience_ns

    @property
    def patience_ns(self) -> int:
        """Silence that is borne at present."""
        doubled = self._limit_ns << min(self._vain, 16)
        return max(self._limit_ns, min(doubled, MAX_PATIENCE_NS))

    def expect(self, now_ns: int) -> None:
        """A connection stands: from now on something should come."""
        self._since_ns = now_ns

    def heard(self, t_ns: int) -> None:
        """Something came."""
        self._since_ns = t_ns
        self._vain = 0

    def stop(self) -> None:
        """The connection is gone, and with it the expectation."""
        self._since_ns = NEVER_NS

    def expire(self) -> None:
        """The patience has ended: the next attempt gets more of it. Nothing is expected until :meth:`expect`."""
        self._since_ns = NEVER_NS
        self._vain += 1
