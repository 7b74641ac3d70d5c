"""Missed deadlines: in a row, and their share of the last ten seconds."""

from collections.abc import Sequence

SLOTS = 10
SLOT_NS = 1_000_000_000


class DeadlineMonitor:
    """Follows the executive's counters. Ten slots of a second each: the share is exact to within a tenth of its window."""

    def __init__(self) -> None:
        self.in_a_row = 0
        """Largest number of deadlines that one task has missed in a row, now."""
        self.task = ""
        """The task that did."""
        self.share = 0.0
        """Largest share of releases missed by one task over the window."""
        self._slot = -1
        self._marks: list[tuple[int, Sequence[tuple[int, int]]]] = []

    def look(self, now_ns: int, counts: Sequence[tuple[str, int, int, int]]) -> None:
        """``counts``: name, releases run, misses, misses in a row, by task."""
        worst = max(counts, key=lambda row: row[3])
        self.in_a_row, self.task = worst[3], worst[0]
        slot = now_ns // SLOT_NS
        if slot == self._slot:
            return
        self._slot = slot
        totals = [(run, missed) for _, run, missed, _ in counts]
        self._marks.append((slot, totals))
        while self._marks and slot - self._marks[0][0] > SLOTS:
            self._marks.pop(0)
        first = self._marks[0][1]
        # A share of very few releases says nothing: a second's worth of the slowest task is the least.
        self.share = max(
            (missed - missed0) / max(run - run0, 50) for (run, missed), (run0, missed0) in zip(totals, first, strict=True)
        )
