"""Latency from measurement to actuator, which joins messages of two types.

Batches of the types overlap in time but do not end together, so each keeps a tail of a few seconds.
This bounds memory even if a type stops.
"""

from operator import itemgetter
from typing import Any

import numpy as np

from vehicled.offline.analysis.bins import Distribution

_TAIL_NS = 4_000_000_000
"""Length of the tail, longer than the offset of streams within a file."""
_AGO_NS = 2_000_000_000
"""Longest latency counted; slower measurements are ignored."""


class _Tail:
    """Last few seconds of a type, and which rows are new."""

    def __init__(self) -> None:
        self.rows: Any = None
        self.done_ns = -(2**63)

    def add(self, rows: Any) -> None:
        self.rows = rows if self.rows is None else np.concatenate([self.rows, rows])

    def trim(self, key: str) -> None:
        """Drop rows older than the tail."""
        if not self.empty:
            self.rows = self.rows[self.rows[key] > int(self.rows[key].max()) - _TAIL_NS]

    def take(self, key: str, until_ns: int) -> Any:
        """Return the new rows up to a time."""
        if self.rows is None:
            return None
        t_ns = self.rows[key]
        fresh = self.rows[(t_ns > self.done_ns) & (t_ns <= until_ns)]
        self.done_ns = max(self.done_ns, until_ns)
        return fresh

    @property
    def empty(self) -> bool:
        return self.rows is None or not len(self.rows)


class LatencyJoin:
    """Latency from the time of validity of a measurement to the first frame that can answer it, by
    stage.

    A stage ends with the first run of its task that begins after the previous stage; the frame
    leaves when actuation ends.
    """

    def __init__(self, tasks: dict[str, int]) -> None:
        """Take task numbers by name, in execution order."""
        self._numbers = {number: name for name, number in sorted(tasks.items(), key=itemgetter(1))}
        self._stages = ("arrival", *self._numbers.values())
        self._ends: dict[str, _Tail] = {name: _Tail() for name in self._numbers.values()}
        self._waiting: dict[str, _Tail] = {}
        self.stages: dict[str, dict[str, Distribution]] = {}
        """Duration of each stage, by measurement."""
        self.totals: dict[str, dict[str, Distribution]] = {}
        """Time from validity to the end of each stage, by measurement."""

    def measured(self, name: str, rows: Any) -> None:
        """Add measurements with ``t_ns`` and ``t_rx_ns``."""
        self._waiting.setdefault(name, _Tail()).add(_pick(rows, ("t_ns", "t_rx_ns")))

    def ticks(self, rows: Any) -> None:
        """Add task ticks."""
        for number, name in self._numbers.items():
            mine = rows[rows["task"] == number]
            if len(mine):
                self._ends[name].add(_pick(mine, ("start_ns", "end_ns")))

    def advance(self, *, final: bool = False) -> None:
        """Process measurements whose later stages have arrived."""
        self._follow_all(final)
        for tail in self._ends.values():
            tail.trim("start_ns")
        for tail in self._waiting.values():
            tail.trim("t_rx_ns")

    def _follow_all(self, final: bool) -> None:
        if not self._ends or any(tail.empty for tail in self._ends.values()):
            return
        newest = min(int(tail.rows["start_ns"].max()) for tail in self._ends.values())
        for name, tail in self._waiting.items():
            fresh = tail.take("t_rx_ns", newest if final else newest - _AGO_NS)
            if fresh is not None and len(fresh):
                self._follow(name, fresh)

    def _follow(self, name: str, rows: Any) -> None:
        at = rows["t_rx_ns"]
        steps = [rows["t_ns"], at]
        whole = np.ones(len(rows), bool)
        for tail in self._ends.values():
            order = np.argsort(tail.rows["start_ns"], kind="stable")
            start, end = tail.rows["start_ns"][order], tail.rows["end_ns"][order]
            following = np.searchsorted(start, at)
            whole &= following < len(start)
            at = end[np.minimum(following, len(end) - 1)]
            steps.append(at)
        # Ignore measurements delayed by a stall: the deadlines show it, and it would distort the
        # usual latency.
        whole &= (steps[-1] - rows["t_rx_ns"] < _AGO_NS) & (rows["t_ns"] > 0)
        stages = self.stages.setdefault(name, {stage: Distribution() for stage in self._stages})
        totals = self.totals.setdefault(name, {stage: Distribution() for stage in self._stages})
        for stage, before, after in zip(self._stages, steps, steps[1:]):
            stages[stage].add((after - before)[whole])
            totals[stage].add((after - steps[0])[whole])


def _pick(rows: Any, fields: tuple[str, ...]) -> Any:
    """Return some fields of an array, packed to save memory: an estimate is mostly covariance."""
    found = np.empty(len(rows), [(name, rows.dtype[name]) for name in fields])
    for name in fields:
        found[name] = rows[name]
    return found
