"""Monitor of missed deadlines: consecutive misses, and the miss ratio of the last ten seconds."""

from collections.abc import Sequence
from typing import Protocol

SLOTS = 10
SLOT_NS = 1_000_000_000
WINDOW_NS = SLOTS * SLOT_NS


class Account(Protocol):
    """Counters of one task; :class:`vehicled.core.executive.TaskStats` implements this."""

    misses: int
    consecutive_misses: int

    @property
    def n(self) -> int:
        """Number of releases that were run."""
        ...


class DeadlineMonitor:
    """Monitor of the executive's counters. The window has ten slots of one second, so the ratio is
    exact to a tenth of the window.

    Until the window is full, the missing part counts as met: a few misses in the first second
    remain few in ten seconds.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        """Largest present number of consecutive misses of one task."""
        self.task = ""
        """Name of the task with most consecutive misses."""
        self.share = 0.0
        """Largest miss ratio of one task over the window."""
        self.share_task = ""
        """Name of the task with the largest miss ratio."""
        self._slot = -1
        self._marks: list[tuple[int, int, Sequence[tuple[int, int]]]] = []

    def update(self, now_ns: int, tasks: Sequence[tuple[str, Account]]) -> None:
        """Update the counts; ``tasks`` holds the name and the counters of every task."""
        self.in_a_row, self.task = 0, ""
        for name, account in tasks:
            if account.consecutive_misses > self.in_a_row:
                self.in_a_row, self.task = account.consecutive_misses, name
        slot = now_ns // SLOT_NS
        if slot == self._slot:
            return
        self._slot = slot
        totals = [(account.n, account.misses) for _, account in tasks]
        self._marks.append((slot, now_ns, totals))
        while self._marks and slot - self._marks[0][0] > SLOTS:
            self._marks.pop(0)
        _, first_ns, first = self._marks[0]
        filled = min((now_ns - first_ns) / WINDOW_NS, 1.0)
        # A ratio of very few releases is meaningless, so at least 50 count: one second of the
        # slowest task.
        shares = [
            (missed - missed0) * filled / max(run - run0, 50)
            for (run, missed), (run0, missed0) in zip(totals, first, strict=True)
        ]
        self.share = max(shares)
        self.share_task = tasks[shares.index(self.share)][0]
