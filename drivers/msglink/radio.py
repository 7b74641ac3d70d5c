"""Radio on the message link: broadcasts the state of the own vehicle at a fixed rate."""

from math import isfinite, nan

from drivers.msglink.codec import encode
from vehicled.core.messages import ActuatorCommand, Message, NeighbourState, StateEstimate
from vehicled.core.ports import NEVER_NS, Action, Send

PERIOD_NS = 100_000_000
"""Interval between two broadcasts: 10 Hz, the rate of CAM and BSM at most."""
OLDEST_NS = 200_000_000
"""Age from which an estimate is not broadcast: the others shall know that nothing is known."""


class OwnState:
    """Newest estimate and command, and when they are sent next."""

    def __init__(self, lifetime_ns: int) -> None:
        """``lifetime_ns``: time after which a broadcast that was not written is dropped."""
        self._lifetime_ns = lifetime_ns
        self._estimate: StateEstimate | None = None
        self._command: ActuatorCommand | None = None
        self.due_ns = NEVER_NS
        """Time of the next broadcast."""

    def begin(self, now_ns: int) -> None:
        """Start when the port opens."""
        self.due_ns = now_ns + PERIOD_NS

    def on_command(self, message: Message) -> None:
        """Take an estimate or a command."""
        if isinstance(message, StateEstimate):
            self._estimate = message
        elif isinstance(message, ActuatorCommand):
            self._command = message

    def on_time(self, now_ns: int) -> list[Action]:
        """Return the broadcast that is due."""
        if now_ns < self.due_ns:
            return []
        # Not from now: a late call must not shift those that follow.
        self.due_ns += PERIOD_NS * (1 + (now_ns - self.due_ns) // PERIOD_NS)
        at, command = self._estimate, self._command
        if at is None or now_ns - at.t_ns > OLDEST_NS:
            return []
        if not isfinite(at.x_m + at.y_m + at.yaw_rad + at.speed_mps):
            return []
        state = NeighbourState(
            at.t_ns,
            0,
            "",
            at.x_m,
            at.y_m,
            at.yaw_rad,
            at.speed_mps,
            at.yaw_rate_radps,
            at.position_sigma_m,
            nan if command is None else command.throttle,
            nan if command is None else command.brake,
            nan if command is None else command.wheel_angle_rad,
        )
        return [Send(encode(state), now_ns + self._lifetime_ns)]
