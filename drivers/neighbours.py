"""Common part of the radios: the state of the own vehicle, broadcast at a fixed rate, and the check
of the states of others."""

from math import isfinite, isinf, nan

from vehicled.core.messages import (
    ActuatorCommand,
    Message,
    NeighbourState,
    PlannedMotion,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS

CONSUMED: tuple[type[Message], ...] = (ActuatorCommand, StateEstimate, PlannedMotion)
"""Messages of which a state is made."""
PERIOD_NS = 100_000_000
"""Interval between two broadcasts: 10 Hz, the rate of CAM and BSM at most."""
OLDEST_NS = 200_000_000
"""Age from which an estimate is not broadcast: the others shall know that nothing is known."""
MAX_MAP_M = 1e6
MAX_YAW_RAD = 1e3
"""A yaw may count turns."""
MAX_SPEED_MPS = 500.0


def problem_of(state: NeighbourState) -> str:
    """Return the field that cannot be true; empty if all can."""
    # Of NaN a controller can make nothing: a vehicle that does not know its place is silent.
    if not (abs(state.x_m) <= MAX_MAP_M and abs(state.y_m) <= MAX_MAP_M):
        return "place"
    if not abs(state.yaw_rad) <= MAX_YAW_RAD:
        return "yaw"
    if not abs(state.speed_mps) <= MAX_SPEED_MPS:
        return "speed"
    others = (
        state.yaw_rate_radps, state.position_sigma_m, state.throttle, state.brake,
        state.wheel_angle_rad,
    )  # fmt: skip
    return "other values" if any(map(isinf, others)) else state.plan.problem


class OwnState:
    """Newest estimate, command and plan, and when they are sent next."""

    def __init__(self) -> None:
        self._estimate: StateEstimate | None = None
        self._command: ActuatorCommand | None = None
        self._plan: PlannedMotion | None = None
        self._sequence = 0
        self.due_ns = NEVER_NS
        """Time of the next broadcast."""

    def begin(self, now_ns: int) -> None:
        """Start when the port opens."""
        self.due_ns = now_ns + PERIOD_NS

    def on_command(self, message: Message) -> None:
        """Take an estimate, a command or a plan."""
        if isinstance(message, StateEstimate):
            self._estimate = message
        elif isinstance(message, ActuatorCommand):
            self._command = message
        elif isinstance(message, PlannedMotion):
            self._plan = message

    def take(self, now_ns: int) -> NeighbourState | None:
        """Return the state if a broadcast is due and the place is known."""
        if now_ns < self.due_ns:
            return None
        # Not from now: a late call must not shift those that follow.
        self.due_ns += PERIOD_NS * (1 + (now_ns - self.due_ns) // PERIOD_NS)
        at, command = self._estimate, self._command
        if at is None or now_ns - at.t_ns > OLDEST_NS:
            return None
        if not isfinite(at.x_m + at.y_m + at.yaw_rad + at.speed_mps):
            return None
        self._sequence = self._sequence % (2**32 - 1) + 1
        return NeighbourState(
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
            self._sequence,
            nan,
            *self._plan_after(at.t_ns),
        )

    def _plan_after(self, t_ns: int) -> tuple[tuple[float, ...], ...]:
        """Return the columns of the plan, timed from ``t_ns``; empty ones for one that is old."""
        plan = self._plan
        if plan is None or not 0 <= t_ns - plan.t_ns <= OLDEST_NS:
            return ((),) * 5
        shift_s = (t_ns - plan.t_ns) * 1e-9
        times_s = tuple(time_s - shift_s for time_s in plan.time_s)
        return times_s, plan.x_m, plan.y_m, plan.yaw_rad, plan.speed_mps
