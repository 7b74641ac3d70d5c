"""The computer that drives: disk, memory, heat, clock."""

from vehicled.messages import HostHealth
from vehicled.messages.units import ZERO_CELSIUS_K
from vehicled.ports import NEVER_NS

MIN_DISK = 0.05
MIN_MEMORY = 0.05
MAX_BUSY = 0.95
MAX_TEMPERATURE_K = 368.0
MAX_BACKLOG = 0.5
STEP_S = 0.5
"""A step of the wall clock that is told."""
CLOCK_SETTLES_NS = 5 * 10**9
"""Shorter than an arming request waits, so that one that came with a step is not refused for it."""
FIRST_WALL_CLOCK_S = 1_767_225_600.0
"""Begin of 2026, UTC: a clock that stands before it has not been set."""


class HostMonitor:
    """The newest reading, and events that must not pass between two ticks."""

    def __init__(self) -> None:
        self.health: HostHealth | None = None
        self._dropped_before = 0
        self.woke_s = 0.0
        """Sleep that has not been answered yet."""
        self.clock_step_s = 0.0
        """Step of the wall clock that has not been told yet."""
        self.stepped_ns = -NEVER_NS
        """When the wall clock was last moved by more than ``STEP_S``, and by how much."""
        self.last_step_s = 0.0

    def on_message(self, health: HostHealth, now_ns: int) -> None:
        """A reading arrived."""
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
        """Sleep and step have been acted upon."""
        self.woke_s = 0.0
        self.clock_step_s = 0.0

    @property
    def log_trouble(self) -> str:
        """What is wrong with the log, in words; empty when nothing is."""
        health = self.health
        if health is None:
            return ""
        if health.log_failure:
            return f"the log is not written any more: {health.log_failure}"
        if health.log_dropped > self._dropped_before:
            return f"{health.log_dropped - self._dropped_before} records of the log were dropped"
        if health.log_backlog_share > MAX_BACKLOG:
            return f"the writer of the log is behind: its queue is {100 * health.log_backlog_share:.0f} % full"
        if health.disk_free_share < MIN_DISK:
            return f"{100 * health.disk_free_share:.0f} % of the log's disk is free"
        return ""

    @property
    def strain(self) -> str:
        """What the computer suffers from, in words; empty when it does not."""
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
