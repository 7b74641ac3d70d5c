"""The human at the stick: held, fresh, neutral before it counts."""

from math import isfinite

from vehicled.messages import TeleopCommand
from vehicled.ports import NEVER_NS

NEUTRAL = 0.05
"""Deflection that still counts as neutral."""


class HandMonitor:
    """The newest reading of whoever drives by hand. A reading counts once; it is never repeated."""

    def __init__(self) -> None:
        self.command: TeleopCommand | None = None
        self.neutral = False
        """The newest reading is neutral."""
        self.unplugged = False
        """Its port said that it is gone."""
        self.driver: str | None = None
        """Who has taken the vehicle by hand, by origin. Until it is armed anew nobody else is listened to."""
        self._heard_ns = -NEVER_NS

    def reset(self) -> None:
        """The vehicle is armed anew: whoever asks may take it."""
        self.driver = None

    def hear(self, command: TeleopCommand, now_ns: int) -> None:
        """A reading arrived. One that is not finite is as good as none."""
        if self.driver is not None and command.origin != self.driver:
            return
        if command.unplugged:
            # Another one's stick that nobody drives with is no news.
            self.unplugged = self.unplugged or self.command is None or command.origin == self.command.origin
            return
        if not (isfinite(command.steering) and isfinite(command.throttle) and isfinite(command.brake)):
            return
        if self.command is not None and command.origin == self.command.origin and command.sequence == self.command.sequence:
            return
        self.command = command
        # A stamp from the future must not keep a stick alive that has been let go.
        self._heard_ns = min(command.t_rx_ns, now_ns)
        self.unplugged = False
        self.neutral = abs(command.throttle) <= NEUTRAL and abs(command.steering) <= NEUTRAL

    def age_ns(self, now_ns: int) -> int:
        """Time since the last reading."""
        return now_ns - self._heard_ns if self.command is not None else NEVER_NS

    def ready(self, now_ns: int, silence_s: float) -> bool:
        """A drive by hand may begin: the stick is there, held and neutral."""
        return self.neutral and self.held and not self.unplugged and self.age_ns(now_ns) <= silence_s * 1e9

    @property
    def held(self) -> bool:
        """The deadman is held."""
        return self.command is not None and self.command.deadman
