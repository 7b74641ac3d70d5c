"""Missed deadlines: in a row, and their share of the last ten seconds."""

from collections.abc import Sequence
from typing import Protocol

SLOTS = 10
SLOT_NS = 1_000_000_000
WINDOW_NS = SLOTS * SLOT_NS


class Account(Protocol):
    """What the executive counts of one task; see :class:`vehicled.executive.TaskStats`."""

    misses: int
    consecutive_misses: int

    @property
    def n(self) -> int:
        """Releases that were run."""
        ...


class DeadlineMonitor:
    """Follows the executive's counters. Ten slots of a second each: the share is exact to within a tenth of its window.

    Until the window is full, its missing part counts as kept: a few misses in the first second are few of ten seconds as well.
    """

    def __init__(self) -> None:
        self.in_a_row = 0
        """Largest number of deadlines that one task has missed in a row, now."""
        self.task = ""
        """The task that did."""
        self.share = 0.0
        """Largest share of releases missed by one task over the window."""
        self.share_task = ""
        """The task that missed it."""
        self._slot = -1
        self._marks: list[tuple[int, int, Sequence[tuple[int, int]]]] = []

    def update(self, now_ns: int, tasks: Sequence[tuple[str, Account]]) -> None:
        """Name and account of every task."""
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
        # A share of very few releases says nothing: a second's worth of the slowest task is the least.
        shares = [
            (missed - missed0) * filled / max(run - run0, 50) for (run, missed), (run0, missed0) in zip(totals, first, strict=True)
        ]
        self.share = max(shares)
        self.share_task = tasks[shares.index(self.share)][0]
