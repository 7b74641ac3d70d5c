"""Clock of a run: the monotonic clock on a vehicle, and a clock that pauses during stalls of the computer in a simulation.

If the computer delays the simulator, its sensors would seem to fail, which cannot happen on a vehicle. Daemon and simulator
therefore share a clock: neither may run further than ``PACE_LEAD_NS`` ahead of the other. The simulator counts the excess as lost
time and reports it in every GRANT.
"""

import time
from collections.abc import Callable

from msgspec import Struct

from vehicled.link import PACE_LEAD_NS
from vehicled.ports import NEVER_NS

SAME_STALL_NS = 50_000_000
"""Longest gap between losses that count as one stall, in simulated time."""
_LOOK_NS = 5_000_000


class Stall(Struct, frozen=True):
    """Period during which a process of the simulation did not run."""

    t_ns: int
    duration_ns: int
    process: str
    """``simulator`` or ``daemon``."""


class StallCount(Struct):
    """Statistics of all stalls of a run."""

    count: int = 0
    longest_ns: int = 0
    longest_process: str = ""
    lost_ns: int = 0
    """Real time during which the simulated clock paused, ns."""

    def __str__(self) -> str:
        """Return the statistics as text."""
        if not self.count:
            return "none"
        times = "once" if self.count == 1 else f"{self.count} times"
        longest = f"longest {self.longest_ns * 1e-6:.0f} ms ({self.longest_process})"
        return f"this computer stalled {times}, {longest}; the simulated clock paused for {self.lost_ns * 1e-9:.2f} s"


def _nothing() -> None:
    """Do nothing."""


class RunClock:
    """Monotonic clock of the computer."""

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self.lost_ns = 0
        """Lag of the run's clock behind the monotonic clock, ns."""

    def now_ns(self) -> int:
        """Return the time of the run."""
        return self._monotonic_ns()

    def at_ns(self, monotonic_ns: int) -> int:
        """Return the time of the run for a time stamp of the monotonic clock."""
        return monotonic_ns

    def alarm_ns(self, t_ns: int) -> int:
        """Return the monotonic time at which to check for ``t_ns``; it may be too early, never too late."""
        return t_ns


class PacedClock(RunClock):
    """Clock shared by daemon and simulator. It never goes back."""

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(monotonic_ns)
        self._limit_ns = NEVER_NS
        self._latest_ns = 0
        self._stall: Stall | None = None
        self.on_released: Callable[[], None] = _nothing
        """Function called when a paused clock continues."""
        self.stalls = StallCount()

    def now_ns(self) -> int:
        """Return the time of the run, at most ``PACE_LEAD_NS`` ahead of the simulated world."""
        now_ns = min(self._monotonic_ns() - self.lost_ns, self._limit_ns)
        self._latest_ns = max(now_ns, self._latest_ns)
        return self._latest_ns

    def at_ns(self, monotonic_ns: int) -> int:
        """Like :class:`RunClock`, but never later than now."""
        return min(monotonic_ns - self.lost_ns, self.now_ns())

    def alarm_ns(self, t_ns: int) -> int:
        """Like :class:`RunClock`, but at most a few milliseconds ahead, so that the simulator hears from the daemon that often."""
        look_ns = self._monotonic_ns() + _LOOK_NS
        return look_ns if t_ns > self._limit_ns else min(t_ns + self.lost_ns, look_ns)

    def on_grant(self, t_ns: int, lost_ns: int, process: str) -> Stall | None:
        """Follow a GRANT of the simulator. Return the last stall once it is over."""
        held = self._latest_ns >= self._limit_ns
        if self._limit_ns == NEVER_NS or t_ns + PACE_LEAD_NS > self._limit_ns:
            self._limit_ns = t_ns + PACE_LEAD_NS
        grown_ns, self.lost_ns = max(0, lost_ns - self.lost_ns), max(self.lost_ns, lost_ns)
        if held and self._latest_ns < self._limit_ns:
            self.on_released()
        stall = self._stall
        if grown_ns:
            if stall is not None and t_ns - stall.t_ns < SAME_STALL_NS:
                self._stall = Stall(stall.t_ns, stall.duration_ns + grown_ns, stall.process)
                return None
            # The process was silent for the lead, too, before any time was lost.
            self._stall = Stall(t_ns, grown_ns + PACE_LEAD_NS, process)
        elif stall is None or t_ns - stall.t_ns < SAME_STALL_NS:
            return None
        else:
            self._stall = None
        return self._count(stall) if stall is not None else None

    def finish(self) -> Stall | None:
        """Return a stall that lasted until the end of the run."""
        stall, self._stall = self._stall, None
        return self._count(stall) if stall is not None else None

    def _count(self, stall: Stall) -> Stall:
        stalls = self.stalls
        stalls.count += 1
        stalls.lost_ns = self.lost_ns
        if stall.duration_ns > stalls.longest_ns:
            stalls.longest_ns, stalls.longest_process = stall.duration_ns, stall.process
        return stall
