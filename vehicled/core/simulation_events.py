"""Reports of the stalls of the computer that simulates."""

from math import inf

from vehicled.core.events import SimulationStall

REPORTED_STALL_MS = 100.0
"""Shortest stall that is reported, ms; shorter ones are only counted."""
REPORT_PERIOD_S = 10.0
"""Shortest time between two reports of the stalls of one process, s."""


class Stalls:
    """Stalls that are reported together."""

    def __init__(self) -> None:
        self._count = 0
        self._sum_ms = self._longest_ms = 0.0
        self._process = ""

    def add(self, stall: SimulationStall) -> str:
        """Add one; return the text for all."""
        self._count += 1
        self._sum_ms += stall.duration_ms
        if stall.duration_ms > self._longest_ms:
            self._longest_ms, self._process = stall.duration_ms, stall.process
        longest = f"the {self._process} did not run for {self._longest_ms:.0f} ms"
        if self._count == 1:
            return f"this computer stalled: {longest}; the simulated clock was paused meanwhile"
        return (
            f"this computer stalled {self._count} times, {self._sum_ms * 1e-3:.1f} s together, "
            f"the longest time {longest}; the simulated clock was paused meanwhile"
        )


class StallReports:
    """Decides which stalls are reported: one line for those of some seconds, or a busy computer
    would fill the screen with them."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[Stalls, float]] = {}
        """Stalls of each process since the last report of one, with its time in s."""

    def add(self, stall: SimulationStall, now_s: float) -> str:
        """Add a stall; return the text to report now, empty if it waits."""
        if stall.duration_ms < REPORTED_STALL_MS:
            return ""
        stalls, reported_s = self._waiting.get(stall.process, (Stalls(), -inf))
        text = stalls.add(stall)
        due = now_s - reported_s >= REPORT_PERIOD_S
        self._waiting[stall.process] = (Stalls(), now_s) if due else (stalls, reported_s)
        return text if due else ""
