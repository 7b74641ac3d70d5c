"""The human at the stick: held, fresh, neutral before it counts."""

from math import isfinite

from vehicled.messages import TeleopCommand
from vehicled.ports import NEVER_NS

NEUTRAL = 0.05
"""Deflection that still counts as neutral."""


class HandMonitor:
    """The newest reading of whoever drives by hand. A reading counts once; it is never repeated.

    Of several sticks, the one whose deadman was held first is listened to, until it is let go, falls silent or is unplugged.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_ns = int(silence_s * 1e9)
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
        if command.origin != self.driver and (self.driver is not None or self._attends_another(command.origin, now_ns)):
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

    def _attends_another(self, origin: str, now_ns: int) -> bool:
        """Another stick than this one is held, now."""
        other = self.command is not None and self.command.origin != origin
        return other and self.held and not self.unplugged and self.age_ns(now_ns) <= self._silence_ns

    def age_ns(self, now_ns: int) -> int:
        """Time since the last reading."""
        return now_ns - self._heard_ns if self.command is not None else NEVER_NS

    def ready(self, now_ns: int) -> bool:
        """A drive by hand may begin: the stick is there, held and neutral."""
        return self.neutral and self.held and not self.unplugged and self.age_ns(now_ns) <= self._silence_ns

    @property
    def held(self) -> bool:
        """The deadman is held."""
        return self.command is not None and self.command.deadman
