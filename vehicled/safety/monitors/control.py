"""Fallbacks of the controller and cuts of the gate, counted in a row."""

from typing import TYPE_CHECKING

from vehicled.messages import ControlLevel
from vehicled.safety.gate import CLIPPED_JERK, CLIPPED_STEERING_RATE

if TYPE_CHECKING:
    from vehicled.safety.inputs import SafetyInputs

SHAPED = CLIPPED_STEERING_RATE | CLIPPED_JERK
"""Cuts that spread a step over some commands: how many depends on the rate of actuation alone."""
SHAPED_NS = 60_000_000


class ControlMonitor:
    """Ticks in a row with a command that had to be cut, or that came from the last rung of the ladder."""

    def __init__(self) -> None:
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0
        self._shaped_since_ns: int | None = None

    def reset(self) -> None:
        """Begin to count anew."""
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0

    def update(self, s: "SafetyInputs") -> None:
        """Count the last command of gate and controller."""
        self.clipped_in_a_row = self.clipped_in_a_row + 1 if s.sent is not None and self._over(s.sent.clipped, s.now_ns) else 0
        stops = s.control is not None and s.control.level is ControlLevel.STOP
        self.stop_level_in_a_row = self.stop_level_in_a_row + 1 if stops else 0

    def _over(self, clipped: int, now_ns: int) -> bool:
        """Whether a command was over the limits. One that only builds up too fast is so when it does not stop doing it."""
        if not clipped & SHAPED:
            self._shaped_since_ns = None
        elif self._shaped_since_ns is None:
            self._shaped_since_ns = now_ns
        if clipped & ~SHAPED:
            return True
        return self._shaped_since_ns is not None and now_ns - self._shaped_since_ns >= SHAPED_NS
