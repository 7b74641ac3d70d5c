"""Counters of all filters: results of the gates, unusable inputs, restarts."""

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.messages import NAN
from vehicled.estimation.timeline import Timeline

GATES = 10
"""Largest number of gates of a filter."""
MAX_STRIKES = 2**16 - 1
"""Largest count that the estimate can report."""
MAX_REJECTED = 2**32 - 1


class GateCounters(Struct, frozen=True, gc=False):
    """Results of the gates. They are part of a filter's state, so that a measurement fused again
    after a late one counts once."""

    newest_ns: int = 0
    """Time of validity of the newest accepted measurement."""
    good_fixes: int = 0
    """Fixes accepted since the start, or since one was accepted against the gate."""
    rejected: int = 0
    nis: float = NAN
    """Normalised innovation squared of the newest position."""
    strikes: tuple[int, ...] = (0,) * GATES
    """Rejections in a row, by gate."""

    def accept(self, gate: int, t_ns: int = 0) -> "GateCounters":
        """Return the counters after an accepted measurement."""
        strikes, newest_ns = self.strikes, max(self.newest_ns, t_ns)
        if strikes[gate]:
            strikes = (*strikes[:gate], 0, *strikes[gate + 1 :])
        elif newest_ns == self.newest_ns:
            return self
        return replace(self, newest_ns=newest_ns, strikes=strikes)

    def reject(self, gate: int) -> "GateCounters":
        """Return the counters after a rejected measurement."""
        strikes = self.strikes
        strikes = (*strikes[:gate], min(strikes[gate] + 1, MAX_STRIKES), *strikes[gate + 1 :])
        return replace(self, rejected=min(self.rejected + 1, MAX_REJECTED), strikes=strikes)


class InputCounters(Struct):
    """Inputs that a filter did not use. The filter shares one instance with the queues of its
    inertial samples."""

    ignored: int = 0
    """Values that were saturated, stuck, not finite or out of range."""
    late: int = 0
    """Inputs out of order, repeated, from the future, or too many in one step."""


class Counted:
    """Base of the filters that counts unusable inputs and restarts."""

    _timeline: Timeline[Any, Any]

    def __init__(self) -> None:
        self._inputs = InputCounters()
        self._rejected = 0
        """Rejections before the last restart."""
        self.restarts = 0

    @property
    def ignored(self) -> int:
        """Values that were saturated, stuck, not finite or out of range."""
        return self._inputs.ignored

    @property
    def late(self) -> int:
        """Inputs out of order, repeated, older than the history, from the future, or too many in
        one step."""
        return self._inputs.late + self._timeline.refused
