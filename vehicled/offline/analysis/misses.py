"""List of the missed deadlines of a run: each with its time, task, lateness and cause, and in
episodes if there are many."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.attribution import holder_name
from vehicled.core.events import LoopBlocked
from vehicled.core.messages import Cause, Event
from vehicled.log.schema import RunHeader

GAP_S = 0.2
"""Longest time without a miss within an episode, s."""
LINES = 20
"""Most lines of a text that was not asked for all."""
LIMIT = 50_000
"""Most misses that are listed; of a longer list memory would not be constant."""
_WHERE = frozenset({Cause.COMPUTE, Cause.BLOCKED, Cause.QUEUED, Cause.LOOP_HELD, Cause.PAGE_FAULT})
"""Causes that a line of code has."""


class Miss(Struct, frozen=True, kw_only=True):
    """One missed deadline."""

    t_s: float
    """Planned release, since the start of the run, s."""
    task: str
    late_ms: float
    """Response beyond the deadline."""
    response_ms: float
    deadline_ms: float
    skipped: int
    """Releases after this one that were skipped because of it."""
    cause: str
    holder: str = ""
    """Task or callback that held the loop; empty for none."""
    where: str = ""
    """Line of code at which the loop was seen meanwhile; empty if it was not."""

    @property
    def why(self) -> str:
        """Cause and holder as text."""
        return f"{self.cause} ({self.holder})" if self.holder else self.cause

    def to_text(self) -> str:
        """Return one line."""
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        where = f" at {self.where}" if self.where else ""
        return (
            f"t = {self.t_s:.3f} s  {self.task}: {self.late_ms:.1f} ms late (response "
            f"{self.response_ms:.1f} of {self.deadline_ms:g} ms{skipped}), {self.why}{where}"
        )


class Episode(Struct, frozen=True, kw_only=True):
    """Misses that follow each other."""

    t_s: float
    """First release, since the start of the run, s."""
    duration_s: float
    misses: int
    skipped: int
    worst_ms: float
    """Largest response beyond a deadline."""
    tasks: dict[str, int]
    """Misses by task, the most first."""
    causes: dict[str, int]
    """Misses by cause with its holder, the most first."""
    where: str = ""

    @classmethod
    def of(cls, misses: Sequence[Miss]) -> "Episode":
        """Return the episode of misses in order."""
        last = misses[-1]
        return cls(
            t_s=misses[0].t_s,
            duration_s=last.t_s + last.response_ms / 1e3 - misses[0].t_s,
            misses=len(misses),
            skipped=sum(miss.skipped for miss in misses),
            worst_ms=max(miss.late_ms for miss in misses),
            tasks=dict(Counter(miss.task for miss in misses).most_common()),
            causes=dict(Counter(miss.why for miss in misses).most_common()),
            where=next((miss.where for miss in misses if miss.where), ""),
        )

    def to_text(self) -> str:
        """Return one line."""
        tasks = ", ".join(f"{name} {count}" for name, count in self.tasks.items())
        causes = ", ".join(f"{name} {count}" for name, count in self.causes.items())
        skipped = f", {self.skipped} skipped" if self.skipped else ""
        where = f" at {self.where}" if self.where else ""
        when = f"t = {self.t_s:.3f} s, for {self.duration_s:.3f} s"
        return (
            f"{when}: {self.misses} missed ({tasks}){skipped}, up to {self.worst_ms:.1f} ms "
            f"late: {causes}{where}"
        )


class MissList:
    """Collects the misses of a log."""

    def __init__(self) -> None:
        self._rows: list[Any] = []
        self._kept = 0
        self.left_out = 0
        """Misses beyond ``LIMIT``."""
        self._sightings: list[tuple[int, str]] = []

    def add(self, ticks: Any) -> None:
        """Add rows of ticks, in the order of the log."""
        missed = ticks[ticks["missed"].astype(bool)]
        kept = missed[: max(LIMIT - self._kept, 0)]
        self.left_out += len(missed) - len(kept)
        if len(kept):
            self._rows.append(kept.copy())
            self._kept += len(kept)

    def saw(self, event: Event) -> None:
        """Add an event; only those of a held loop are kept."""
        if (block := LoopBlocked.read(event)) is not None:
            self._sightings.append((event.t_ns, block.plugin or block.where))

    def result(self, header: RunHeader) -> list[Miss]:
        """Return all misses by release."""
        if not self._rows:
            return []
        rows = np.concatenate(self._rows)
        rows = rows[np.argsort(rows["release_ns"], kind="stable")]
        names = [row.name for row in header.tasks]
        self._sightings.sort()
        times = np.array([t_ns for t_ns, _ in self._sightings], np.int64)
        found = []
        for row in rows:
            release_ns, end_ns, task, cause = (
                int(row[name]) for name in ("release_ns", "end_ns", "task", "cause")
            )
            response_ns = end_ns - release_ns
            # A turn of the loop that was seen at work began at most as long before the release as
            # the task then waited.
            seen = int(np.searchsorted(times, end_ns, side="right")) - 1
            near = cause in _WHERE and seen >= 0 and times[seen] >= release_ns - response_ns
            found.append(
                Miss(
                    t_s=(release_ns - header.start_monotonic_ns) * 1e-9,
                    task=names[task] if task < len(names) else f"task {task}",
                    late_ms=(response_ns - int(row["deadline_ns"])) / 1e6,
                    response_ms=response_ns / 1e6,
                    deadline_ms=int(row["deadline_ns"]) / 1e6,
                    skipped=int(row["skipped"]),
                    cause=cause_name(cause),
                    holder=holder_name(cause, int(row["holder"]), names, header.holders),
                    where=self._sightings[seen][1] if near else "",
                )
            )
        return found


def cause_name(number: int) -> str:
    """Return the name of a cause as texts show it."""
    try:
        return Cause(number).name.lower()
    except ValueError:
        return f"cause {number}"


def episodes(misses: Sequence[Miss]) -> list[Episode]:
    """Return the episodes of misses in order: a miss that begins ``GAP_S`` after the last one ended
    begins a new one."""
    if not misses:
        return []
    ends = np.maximum.accumulate([miss.t_s + miss.response_ms / 1e3 for miss in misses])
    cuts = [k for k in range(1, len(misses)) if misses[k].t_s - ends[k - 1] > GAP_S]
    return [Episode.of(misses[a:b]) for a, b in pairwise([0, *cuts, len(misses)])]


def text_of(misses: Sequence[Miss], left_out: int, *, every: bool) -> list[str]:
    """Return the lines about the misses: each if they are few or ``every`` is asked for, else the
    episodes."""
    if not misses:
        return []
    found = episodes(misses)
    count = (
        f"{len(misses) + left_out} missed deadlines in {len(found)} "
        f"episode{'s' if len(found) > 1 else ''}"
    )
    if every or len(misses) <= LINES:
        lines = [each.to_text() for each in misses]
        hidden = f"... and {left_out} later ones, which are too many to list" if left_out else ""
    else:
        lines = [each.to_text() for each in found[:LINES]]
        hidden = f"... and {len(found) - LINES} more episodes" if len(found) > LINES else ""
        count += "; --all lists each"
    return [f"{count}:", *(f"  {line}" for line in lines), *([f"  {hidden}"] if hidden else [])]
