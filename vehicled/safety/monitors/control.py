"""Monitor of consecutive controller fallbacks and consecutive commands that the gate clipped."""

from vehicled.core.messages import ControlLevel
from vehicled.safety.gate import CLIPPED_JERK, CLIPPED_STEERING_RATE
from vehicled.safety.inputs import SafetyInputs

SHAPED = CLIPPED_STEERING_RATE | CLIPPED_JERK
"""Bits of rate limits, which spread a step over several commands; their number depends only on the
actuation rate."""
SHAPED_NS = 60_000_000


class ControlMonitor:
    """Counter of consecutive ticks with a clipped command, and with a command from the last level
    of the fallback chain."""

    def __init__(self) -> None:
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0
        self._shaped_since_ns: int | None = None

    def reset(self) -> None:
        """Set both counts to zero."""
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0

    def update(self, s: SafetyInputs) -> None:
        """Count the last commands of the gate and the controller."""
        self.clipped_in_a_row = (
            self.clipped_in_a_row + 1
            if s.sent is not None and self._over(s.sent.clipped, s.now_ns)
            else 0
        )
        stops = s.control is not None and s.control.level is ControlLevel.STOP
        self.stop_level_in_a_row = self.stop_level_in_a_row + 1 if stops else 0

    def _over(self, clipped: int, now_ns: int) -> bool:
        """Return True if a command exceeded the limits. A rate limit counts only once it has lasted
        for ``SHAPED_NS``."""
        if not clipped & SHAPED:
            self._shaped_since_ns = None
        elif self._shaped_since_ns is None:
            self._shaped_since_ns = now_ns
        if clipped & ~SHAPED:
            return True
        return self._shaped_since_ns is not None and now_ns - self._shaped_since_ns >= SHAPED_NS
