"""Monitor of the host computer: disk, memory, temperature, clock."""

from vehicled.core.messages import HostHealth
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.ports import NEVER_NS

MIN_DISK = 0.05
MIN_MEMORY = 0.05
MAX_BUSY = 0.95
MAX_TEMPERATURE_K = 368.0
MAX_BACKLOG = 0.5
STEP_S = 0.5
"""Step of the wall clock above which it is reported, s."""
CLOCK_SETTLES_NS = 5 * 10**9
"""Time after a clock step in which nothing is armed, ns. It is shorter than the timeout of an
arming request, so that a request that came with the step is not refused for it."""
FIRST_WALL_CLOCK_S = 1_767_225_600.0
"""Start of 2026 UTC, s since 1970: an earlier wall clock has not been set."""


class HostMonitor:
    """Monitor of the newest host reading. It holds events until the rules have seen them."""

    def __init__(self) -> None:
        self.health: HostHealth | None = None
        self._dropped_before = 0
        self.woke_s = 0.0
        """Duration of a suspend that the rules have not yet handled, s."""
        self.clock_step_s = 0.0
        """Step of the wall clock that the rules have not yet handled, s."""
        self.stepped_ns = -NEVER_NS
        """Time of the last wall clock step above ``STEP_S``; ``last_step_s`` is the step, s."""
        self.last_step_s = 0.0

    def on_message(self, health: HostHealth, now_ns: int) -> None:
        """Update from a reading of the host."""
        if self.health is not None:
            self._dropped_before = self.health.log_dropped
        self.health = health
        if health.suspended_s > 0.0:
            self.woke_s += health.suspended_s
        if abs(health.clock_step_s) > abs(self.clock_step_s):
            self.clock_step_s = health.clock_step_s
        if abs(health.clock_step_s) > STEP_S:
            self.stepped_ns, self.last_step_s = now_ns, health.clock_step_s

    def answered(self) -> None:
        """Clear the suspend and the clock step, which the rules have handled."""
        self.woke_s = 0.0
        self.clock_step_s = 0.0

    @property
    def log_trouble(self) -> str:
        """Text of a failure of the log; empty if none."""
        health = self.health
        if health is None:
            return ""
        if health.log_failure:
            return f"the log is not written any more: {health.log_failure}"
        if health.log_lost:
            return health.log_lost
        if health.log_dropped > self._dropped_before:
            return f"{health.log_dropped - self._dropped_before} records of the log were dropped"
        if health.log_backlog_share > MAX_BACKLOG:
            return (
                "the writer of the log is behind: its queue is "
                f"{100 * health.log_backlog_share:.0f} % full"
            )
        if health.unread_s > 0.0:
            return (
                f"the disk of the log was not read within {health.unread_s:.0f} s: it hangs, "
                "or this computer is overloaded"
            )
        if health.disk_free_share < MIN_DISK:
            return f"{100 * health.disk_free_share:.0f} % of the log's disk is free"
        return ""

    @property
    def strain(self) -> str:
        """Text of an overload of the host computer; empty if none."""
        health = self.health
        if health is None:
            return ""
        if health.throttled:
            return "the processor is throttled"
        if health.temperature_k > MAX_TEMPERATURE_K:
            return f"the processor is at {health.temperature_k - ZERO_CELSIUS_K:.0f} degrees"
        if health.memory_free_share < MIN_MEMORY:
            return f"{100 * health.memory_free_share:.0f} % of the memory is free"
        if health.cpu_busy_share > MAX_BUSY:
            return f"the processors are {100 * health.cpu_busy_share:.0f} % busy"
        return ""
