"""Monitor of teleop: the deadman is held, readings are fresh, and the input device is neutral at
the start."""

from math import isfinite

from vehicled.core.messages import TeleopCommand
from vehicled.core.ports import NEVER_NS

NEUTRAL = 0.05
"""Largest deflection that counts as neutral, 0..1."""
MOST_STICKS = 16
"""Number of input devices above which silent ones are forgotten."""


class TeleopMonitor:
    """Monitor of the newest teleop reading. A reading counts once and is never repeated.

    The input device whose deadman was held first keeps control until it is released, times out or
    is unplugged. The RC operator takes it from every other, and no other takes it from him.
    """

    def __init__(self, silence_s: float) -> None:
        self._silence_ns = int(silence_s * 1e9)
        self._seen_ns: dict[str, int] = {}
        """Time of the last reading of each input device, including those without control."""
        self._counted: dict[str, int] = {}
        """Sequence number of the last reading of each input device that counted."""
        self.command: TeleopCommand | None = None
        self.neutral = False
        """True if the newest reading is neutral."""
        self.unplugged = False
        """True if the port of the input device has reported that it was unplugged."""
        self.driver: str | None = None
        """Origin of the input device that drives; None before TELEOP. No other device gets control
        until the vehicle is armed again."""
        self.by_rc = False
        """True while the RC operator has control. Others may send under any name, so it does not
        rest on the origin."""
        self._received_ns = -NEVER_NS

    def reset(self) -> None:
        """Forget driver and reading, because the vehicle was armed; any input device may then take
        control."""
        self.driver = self.command = None
        self.by_rc = False

    def on_message(self, command: TeleopCommand, now_ns: int, *, rc: bool = False) -> None:
        """Update from a reading. One that is not finite is ignored. ``rc``: it is of the RC
        operator."""
        if rc:
            if not (command.deadman or self.by_rc):
                return
            if not self.by_rc:
                self.by_rc, self.command = True, None
                self.driver = None if self.driver is None else command.origin
        else:
            self._see(command.origin, now_ns)
            if (
                self.by_rc and (self.driver is not None or self._there(now_ns))
            ) or not self._listens_to(command.origin, now_ns):
                return
            self.by_rc = False
        if command.unplugged:
            # It does not matter that another input device, which has no control, was unplugged.
            self.unplugged = (
                self.unplugged or self.command is None or command.origin == self.command.origin
            )
            return
        if not (
            isfinite(command.steering) and isfinite(command.throttle) and isfinite(command.brake)
        ):
            return
        if not rc:
            if self._counted.get(command.origin) == command.sequence:
                return
            self._counted[command.origin] = command.sequence
        self.command = command
        # A timestamp in the future must not keep a silent input device alive.
        self._received_ns = min(command.t_rx_ns, now_ns)
        self.unplugged = False
        self.neutral = abs(command.throttle) <= NEUTRAL and abs(command.steering) <= NEUTRAL

    def _see(self, origin: str, now_ns: int) -> None:
        self._seen_ns[origin] = now_ns
        if len(self._seen_ns) > MOST_STICKS:
            self._seen_ns = {
                who: t_ns
                for who, t_ns in self._seen_ns.items()
                if now_ns - t_ns <= self._silence_ns
            }
            self._counted = {
                who: sequence for who, sequence in self._counted.items() if who in self._seen_ns
            }

    def _listens_to(self, origin: str, now_ns: int) -> bool:
        if self.driver is not None:
            # A release must hold until the rules have seen it: by then another device may send
            # under the same origin.
            return origin == self.driver and self.held and not self.unplugged
        return self.command is None or origin == self.command.origin or not self._there(now_ns)

    def missing(self, origin: str, now_ns: int) -> str:
        """Return what the TELEOP request of ``origin`` waits for; empty if it may begin."""
        if self.command is None or not self.ready(now_ns):
            return "hold the deadman and centre the stick"
        other, asks_by_stick = (
            self.command.origin,
            now_ns - self._seen_ns.get(origin, -NEVER_NS) <= self._silence_ns,
        )
        return (
            f"the deadman of {other} is held: let it go, or ask there"
            if asks_by_stick and other != origin
            else ""
        )

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last reading; ``NEVER_NS`` before the first."""
        return now_ns - self._received_ns if self.command is not None else NEVER_NS

    def ready(self, now_ns: int) -> bool:
        """Return True if TELEOP may begin: the input device is fresh, held and neutral."""
        return self.neutral and self._there(now_ns)

    def _there(self, now_ns: int) -> bool:
        return self.held and not self.unplugged and self.age_ns(now_ns) <= self._silence_ns

    @property
    def held(self) -> bool:
        """True if the deadman is held."""
        return self.command is not None and self.command.deadman
