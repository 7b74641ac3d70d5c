"""Clock of a run: the monotonic clock on a vehicle, and in a simulation one that leaves out what
the computer took.

If the computer does not let the simulator or the daemon run, sensors would seem to fail and
deadlines to be missed, which is no fault of what is simulated. Daemon and simulator therefore share
a clock: either waits for the other when it has been silent for ``PACE_LEAD_NS``, and each takes out
of the clock the time that was taken from itself. Time that the daemon uses, by computing or by
waiting in its own code, is never taken out.
"""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from vehicled.core.link import PACE_LEAD_NS
from vehicled.core.ports import NEVER_NS

SAME_STALL_NS = 50_000_000
"""Longest gap between losses that count as one stall, in simulated time."""
_LOOK_NS = 5_000_000
_SAME_TIME_NS = 100_000
_KEPT = 16
"""Changes of the lost time that are kept, to date what happened before them."""


class StolenTime(Protocol):
    """Measures the time that the computer took from the daemon's thread."""

    def mark(self) -> None:
        """Begin to measure."""
        ...

    def taken_ns(self) -> int:
        """Return the time that was taken since the mark."""
        ...


class Stall(Struct, frozen=True):
    """Period during which the computer did not let a process of the simulation run."""

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
        return (
            f"this computer stalled {times}, {longest}; the simulated clock paused for "
            f"{self.lost_ns * 1e-9:.2f} s"
        )


def _nothing() -> None:
    """Do nothing."""


def _nothing_unread() -> bool:
    """Return False."""
    return False


class RunClock:
    """Monotonic clock of the computer."""

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        self._monotonic_ns = monotonic_ns
        self.lost_ns = 0
        """Lag of the run's clock behind the monotonic clock, ns."""

    def jumps(self) -> Sequence[tuple[int, int]]:
        """Return the last times over which the clock jumped, because it had waited for the
        simulator: before and after, ns."""
        return ()

    def now_ns(self) -> int:
        """Return the time of the run."""
        return self._monotonic_ns()

    def at_ns(self, monotonic_ns: int) -> int:
        """Return the time of the run at a time of the monotonic clock, now or a short while ago."""
        return monotonic_ns

    def not_after_ns(self, t_ns: int) -> int:
        """Return a monotonic time at which ``t_ns`` of the run had not passed, though not long
        before it."""
        return t_ns

    def alarm_ns(self, t_ns: int) -> int:
        """Return the monotonic time at which to check for ``t_ns``; it may be too early, never too
        late."""
        return t_ns


class PacedClock(RunClock):
    """Clock shared by daemon and simulator. It never goes back."""

    def __init__(self, monotonic_ns: Callable[[], int] = time.monotonic_ns) -> None:
        super().__init__(monotonic_ns)
        self.taken: StolenTime | None = None
        """Measure of the time that the computer takes from the daemon; None measures none."""
        self.unread: Callable[[], bool] = _nothing_unread
        """Function that returns True if something of the simulator waits to be read."""
        self.own_lost_ns = 0
        """Part of the lost time that was taken from the daemon; the rest was taken from the
        simulator."""
        self._received_ns = NEVER_NS
        """Time of the simulator's last message, on the monotonic clock; ``NEVER_NS`` before the
        first."""
        self._heartbeat_ns = NEVER_NS
        """Last heartbeat, on the monotonic clock."""
        self._counted_ns = 0
        """Time taken since then that is in :attr:`own_lost_ns`."""
        self._latest_ns = 0
        self._changes: list[tuple[int, int, int]] = []
        """Changes of the lost time: monotonic time, lost time before and after."""
        self._jumps: list[tuple[int, int]] = []
        self._stands = False
        """True while the clock waits for the simulator."""
        self._stall: Stall | None = None
        self._over: list[Stall] = []
        """Stalls that have ended and were not reported."""
        self.on_released: Callable[[], None] = _nothing
        """Function called when a paused clock continues."""
        self.stalls = StallCount()

    def jumps(self) -> Sequence[tuple[int, int]]:
        """Like :class:`RunClock`."""
        return self._jumps

    def now_ns(self) -> int:
        """Return the time of the run. It stands where the simulator has been silent for
        ``PACE_LEAD_NS``."""
        monotonic_ns = self._monotonic_ns()
        if monotonic_ns - self._heartbeat_ns > PACE_LEAD_NS:
            self._leave_out(monotonic_ns)
        now_ns, latest_ns = monotonic_ns - self.lost_ns, self._latest_ns
        if monotonic_ns - self._received_ns > PACE_LEAD_NS and self._is_silent(monotonic_ns):
            now_ns, self._stands = self._received_ns + PACE_LEAD_NS - self.lost_ns, True
        elif self._stands:
            self._stands = False
            if now_ns > latest_ns:
                self._jumps = [*self._jumps[1 - _KEPT :], (latest_ns, now_ns)]
        if now_ns <= latest_ns:
            return latest_ns
        self._latest_ns = now_ns
        return now_ns

    def at_ns(self, monotonic_ns: int) -> int:
        """Like :class:`RunClock`, but never later than now."""
        t_ns = monotonic_ns - self.lost_ns
        for changed_ns, before_ns, after_ns in reversed(self._changes):
            if monotonic_ns >= changed_ns:
                break
            # While it was taken, the clock stood where it was to continue.
            t_ns = min(monotonic_ns - before_ns, changed_ns - after_ns)
        return min(t_ns, self.now_ns())

    def not_after_ns(self, t_ns: int) -> int:
        """Like :class:`RunClock`."""
        return t_ns + (self._changes[0][1] if self._changes else self.lost_ns)

    def alarm_ns(self, t_ns: int) -> int:
        """Like :class:`RunClock`, but at most a few milliseconds ahead, so that the daemon sends to
        the simulator that often."""
        monotonic_ns = self._monotonic_ns()
        look_ns = monotonic_ns + _LOOK_NS
        return look_ns if self._is_silent(monotonic_ns) else min(t_ns + self.lost_ns, look_ns)

    def on_heartbeat(self) -> None:
        """Note that the daemon names its time; what it did until then is accounted for."""
        self._heartbeat_ns, self._counted_ns = self._monotonic_ns(), 0
        if self.taken is not None:
            self.taken.mark()

    def on_grant(self, t_ns: int, lost_ns: int) -> list[Stall]:
        """Follow a GRANT of the simulator. Return the stalls that are over."""
        monotonic_ns, before_ns = self._monotonic_ns(), self.lost_ns
        stood = self._stands or self._is_silent(monotonic_ns)
        self._received_ns = monotonic_ns
        grown_ns = lost_ns - (self.lost_ns - self.own_lost_ns)
        if grown_ns > 0:
            self.lost_ns += grown_ns
            self._changed(monotonic_ns, before_ns)
            self._extend("simulator", t_ns, grown_ns)
        if stood:
            self.on_released()
        if self._stall is not None and t_ns - self._stall.t_ns >= SAME_STALL_NS:
            self._end_stall()
        return self._take_over()

    def finish(self) -> list[Stall]:
        """Return the stalls that lasted until the end of the run."""
        self._end_stall()
        return self._take_over()

    # ------------------------------------------------------------------ inside

    def _is_silent(self, monotonic_ns: int) -> bool:
        """Return True if the simulator has said nothing for the lead. What waits to be read, the
        daemon itself has not read yet.

        A clock that stands goes on only when that is read, because it says how much time was lost.
        """
        if monotonic_ns - self._received_ns <= PACE_LEAD_NS:
            return False
        if not self._stands and self.unread():
            self._received_ns = monotonic_ns
            return False
        return True

    def _leave_out(self, monotonic_ns: int) -> None:
        """Take out what was taken from the daemon since its last heartbeat, beyond the lead that it
        has anyway."""
        taken_ns = self.taken.taken_ns() if self.taken is not None else 0
        taken_ns = min(taken_ns, monotonic_ns - self._heartbeat_ns - PACE_LEAD_NS)
        grown_ns = taken_ns - self._counted_ns
        if grown_ns <= 0:
            return
        before_ns, self._counted_ns = self.lost_ns, taken_ns
        self.own_lost_ns += grown_ns
        self.lost_ns += grown_ns
        self._changed(monotonic_ns, before_ns)
        self._extend("daemon", monotonic_ns - self.lost_ns, grown_ns)

    def _changed(self, monotonic_ns: int, before_ns: int) -> None:
        changes, lost_ns = self._changes, self.lost_ns
        if (
            changes
            and abs((monotonic_ns - lost_ns) - (changes[-1][0] - changes[-1][2])) < _SAME_TIME_NS
        ):
            # The clock has not gone on since the last one.
            before_ns = changes.pop()[1]
        self._changes = [*changes[1 - _KEPT :], (monotonic_ns, before_ns, lost_ns)]
        self.stalls.lost_ns = lost_ns

    def _extend(self, process: str, t_ns: int, grown_ns: int) -> None:
        """Add lost time to the present stall, or begin one."""
        stall = self._stall
        if stall is not None and stall.process == process and t_ns - stall.t_ns < SAME_STALL_NS:
            self._stall = Stall(stall.t_ns, stall.duration_ns + grown_ns, process)
            return
        self._end_stall()
        # The process was silent for the lead, too, before any time was lost.
        self._stall = Stall(t_ns, grown_ns + PACE_LEAD_NS, process)

    def _end_stall(self) -> None:
        stall, self._stall = self._stall, None
        if stall is None:
            return
        stalls = self.stalls
        stalls.count += 1
        if stall.duration_ns > stalls.longest_ns:
            stalls.longest_ns, stalls.longest_process = stall.duration_ns, stall.process
        self._over.append(stall)

    def _take_over(self) -> list[Stall]:
        over, self._over = self._over, []
        return over
