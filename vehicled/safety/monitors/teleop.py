"""The human at the stick: held, fresh, neutral before it counts."""

from math import isfinite

from vehicled.messages import TeleopCommand
from vehicled.ports import NEVER_NS

NEUTRAL = 0.05
"""Deflection that still counts as neutral."""
MOST_STICKS = 16
"""Names of sticks that are kept in mind."""


class TeleopMonitor:
    """The newest reading of whoever drives by hand. A reading counts once; it is never repeated.

    Of several sticks, the one whose deadman was held first is listened to, until it is let go, falls silent or is unplugged.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_ns = int(silence_s * 1e9)
        self._seen_ns: dict[str, int] = {}
        """When each stick was last heard, whether it was listened to or not."""
        self._counted: dict[str, int] = {}
        """Sequence of the reading of each stick that counted last."""
        self.command: TeleopCommand | None = None
        self.neutral = False
        """The newest reading is neutral."""
        self.unplugged = False
        """Its port said that it is gone."""
        self.driver: str | None = None
        """Who has taken the vehicle by hand, by origin. Until it is armed anew nobody else is listened to."""
        self._heard_ns = -NEVER_NS

    def reset(self) -> None:
        """The vehicle is armed anew: whoever asks may take it, and what was read before counts no more."""
        self.driver = self.command = None

    def on_message(self, command: TeleopCommand, now_ns: int) -> None:
        """A reading arrived. One that is not finite is as good as none."""
        self._see(command.origin, now_ns)
        if not self._listens_to(command.origin, now_ns):
            return
        if command.unplugged:
            # Another one's stick that nobody drives with is no news.
            self.unplugged = self.unplugged or self.command is None or command.origin == self.command.origin
            return
        if not (isfinite(command.steering) and isfinite(command.throttle) and isfinite(command.brake)):
            return
        if self._counted.get(command.origin) == command.sequence:
            return
        self._counted[command.origin] = command.sequence
        self.command = command
        # A stamp from the future must not keep a stick alive that has been let go.
        self._heard_ns = min(command.t_rx_ns, now_ns)
        self.unplugged = False
        self.neutral = abs(command.throttle) <= NEUTRAL and abs(command.steering) <= NEUTRAL

    def _see(self, origin: str, now_ns: int) -> None:
        self._seen_ns[origin] = now_ns
        if len(self._seen_ns) > MOST_STICKS:
            self._seen_ns = {who: t_ns for who, t_ns in self._seen_ns.items() if now_ns - t_ns <= self._silence_ns}
            self._counted = {who: sequence for who, sequence in self._counted.items() if who in self._seen_ns}

    def _listens_to(self, origin: str, now_ns: int) -> bool:
        if self.driver is not None:
            # Its letting go must not be taken back before anybody has looked: another may read under its name by then.
            return origin == self.driver and self.held and not self.unplugged
        return self.command is None or origin == self.command.origin or not self._there(now_ns)

    def missing(self, origin: str, now_ns: int) -> str:
        """What a drive by hand that ``origin`` asked for waits for, in words; empty when it may begin."""
        if self.command is None or not self.ready(now_ns):
            return "hold the deadman and centre the stick"
        other, asks_by_stick = self.command.origin, now_ns - self._seen_ns.get(origin, -NEVER_NS) <= self._silence_ns
        return f"the deadman of {other} is held: let it go, or ask there" if asks_by_stick and other != origin else ""

    def age_ns(self, now_ns: int) -> int:
        """Time since the last reading."""
        return now_ns - self._heard_ns if self.command is not None else NEVER_NS

    def ready(self, now_ns: int) -> bool:
        """A drive by hand may begin: the stick is there, held and neutral."""
        return self.neutral and self._there(now_ns)

    def _there(self, now_ns: int) -> bool:
        return self.held and not self.unplugged and self.age_ns(now_ns) <= self._silence_ns

    @property
    def held(self) -> bool:
        """The deadman is held."""
        return self.command is not None and self.command.deadman
