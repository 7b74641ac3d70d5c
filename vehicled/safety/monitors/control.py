"""Fallbacks of the controller and cuts of the gate, counted in a row."""

from typing import TYPE_CHECKING

from vehicled.messages import ControlLevel

if TYPE_CHECKING:
    from vehicled.safety.situation import Situation


class ControlMonitor:
    """Ticks in a row with a command that had to be cut, or that came from the last rung of the ladder."""

    def __init__(self) -> None:
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0

    def reset(self) -> None:
        """Begin to count anew."""
        self.clipped_in_a_row = 0
        self.stop_level_in_a_row = 0

    def look(self, s: "Situation") -> None:
        """Count the last command of gate and controller."""
        self.clipped_in_a_row = self.clipped_in_a_row + 1 if s.sent is not None and s.sent.clipped else 0
        stops = s.control is not None and s.control.level is ControlLevel.STOP
        self.stop_level_in_a_row = self.stop_level_in_a_row + 1 if stops else 0
