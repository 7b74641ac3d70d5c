"""Reads all files of a run into statistics per block of time, in one pass and constant memory."""

import os
from math import degrees
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    ControlCommand,
    GnssFix,
    GroundTruth,
    Message,
    StateEstimate,
    TaskTick,
)
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import RunHeader
from vehicled.offline.analysis.compare.blocks import Counts, Quantile, Ratio, Statistic
from vehicled.offline.analysis.course import course_of
from vehicled.offline.analysis.truth import TruthJoin
from vehicled.paths.course import Course

MAX_BLOCKS = 100
MIN_BLOCK_NS = 1_000_000_000
_CHUNKS_AT_ONCE = 64
_KINDS: tuple[type[Message], ...] = (
    TaskTick,
    StateEstimate,
    ControlCommand,
    ActuatorCommand,
    GroundTruth,
    GnssFix,
)
_US, _MS = 1e3, 1e6
_DEG = degrees(1.0)


class Measure(Struct, frozen=True):
    """Metric: its group, name, unit and floor."""

    group: str
    """Task or subsystem."""
    quantity: str
    unit: str
    floor: float
    """Smallest relevant difference, in the metric's unit."""
    higher_is_better: bool = False


class RunStatistics(Struct):
    """Statistics gathered from a run."""

    files: list[str]
    header: RunHeader
    blocks: int
    block_ns: int
    statistics: dict[Measure, Statistic]
    singles: dict[Measure, float]
    """Metrics with one value per run."""
    notes: list[str]


class _TaskCounts:
    def __init__(self, blocks: int) -> None:
        self.lateness = Counts(blocks)
        self.execution = Counts(blocks)
        self.response = Counts(blocks)
        self.cpu = Ratio(blocks, scale=1.0 / _US)
        self.missed, self.skipped = Ratio(blocks, scale=100.0), Ratio(blocks, scale=100.0)

    def add(self, block: Any, ticks: Any) -> None:
        release, start, end = ticks["release_ns"], ticks["start_ns"], ticks["end_ns"]
        self.lateness.add(block, start - release)
        self.execution.add(block, end - start)
        self.response.add(block, end - release)
        measured = ticks["cpu_ns"] >= 0
        self.cpu.add(block[measured], ticks["cpu_ns"][measured])
        due = 1 + ticks["skipped"].astype(np.int64)
        self.missed.add(block, ticks["missed"].astype(np.int64), due)
        self.skipped.add(block, due - 1, due)


_ROOTS: dict[str, tuple[str, str, str, float]] = {
    "cross_track_m": ("tracking", "true cross-track RMS", "m", 0.001),
    "heading_rad": ("tracking", "true heading RMS", "deg", 0.03),
    "position_m": ("estimate", "position RMS", "m", 0.001),
    "yaw_rad": ("estimate", "heading RMS", "deg", 0.03),
    "speed_mps": ("estimate", "speed RMS", "m/s", 0.001),
}
"""Errors against ground truth: group, quantity, unit and floor."""


class _Gatherer:
    def __init__(self, files: list[str]) -> None:
        start_ns, stop_ns, self.notes = 2**63 - 1, 0, list[str]()
        header: RunHeader | None = None
        course: Course | None = None
        self.writer_cpu_s = 0.0
        for file in files:
            with LogReader(file) as log:
                if header is None:
                    header, course = log.header, course_of(log)
                if log.header.run_id != header.run_id:
                    raise LogError(
                        f"{file}: belongs to another run ({log.header.run_id}) than {files[0]} "
                        f"({header.run_id})"
                    )
                chunks = log.layout.chunks
                if len(chunks):
                    start_ns = min(start_ns, int(chunks["start_ns"].min()) - log.offset_ns)
                    stop_ns = max(stop_ns, int(chunks["end_ns"].max()) - log.offset_ns)
                if not log.layout.complete:
                    self.notes.append(
                        f"{file}: incomplete, only the intact part was read ({log.layout.problem})"
                    )
                try:
                    self.writer_cpu_s += float(log.end.get("writer_cpu_s", "nan"))
                except ValueError:
                    self.writer_cpu_s = float("nan")
        assert header is not None
        if stop_ns <= start_ns:
            raise LogError(f"{files[0]}: holds no messages to compare")
        self.header, self.files = header, files
        self.start_ns, self.span_ns = start_ns, stop_ns - start_ns + 1
        self.block_ns = max(-(-self.span_ns // MAX_BLOCKS), MIN_BLOCK_NS)
        self.blocks = n = max(self.span_ns // self.block_ns, 1)
        self.tasks: dict[int, _TaskCounts] = {}
        self.loop, self.busy = Counts(n), Ratio(n, scale=100.0)
        self.ages = {name: Counts(n) for name in ("estimate", "control", "actuation")}
        self.errors = {
            name: Ratio(n, root=True, scale=_DEG if unit == "deg" else 1.0)
            for name, (_, _, unit, _) in _ROOTS.items()
        }
        self.truth = TruthJoin(self._put, course)
        self.cross_track, self.heading = Ratio(n, root=True), Ratio(n, root=True, scale=_DEG)
        self.iterations, self.fallback = Ratio(n), Ratio(n, scale=100.0)
        self.clipped, self.fixed = Ratio(n, scale=100.0), Ratio(n, scale=100.0)
        self._last_release_ns = -1

    def block(self, t_ns: Any) -> Any:
        """Return the block numbers of stamps; the remainder after the last whole block belongs to
        that block."""
        return np.clip((t_ns - self.start_ns) // self.block_ns, 0, self.blocks - 1)

    def read(self) -> None:
        for file in self.files:
            with LogReader(file) as log:
                waiting: dict[type[Message], list[Any]] = {}
                for number, (kind, found) in enumerate(log.arrays(*_KINDS), start=1):
                    waiting.setdefault(kind, []).append(found)
                    # Read all types together, because joined messages must lie close in the file.
                    if number % (_CHUNKS_AT_ONCE * len(_KINDS)) == 0:
                        self._add_all(waiting)
                self._add_all(waiting)
                if log.damaged_chunks:
                    self.notes.append(f"{file}: {log.damaged_chunks} damaged chunks skipped")

        self.truth.advance(final=True)

    def _add_all(self, waiting: dict[type[Message], list[Any]]) -> None:
        for kind, pieces in waiting.items():
            found = np.concatenate(pieces)
            self._add(kind, found)
            if kind in TruthJoin.TYPES:
                self.truth.add(kind, found)
        waiting.clear()
        self.truth.advance()

    def _put(self, name: str, t_ns: Any, errors: Any) -> None:
        known = np.isfinite(errors)
        self.errors[name].add(self.block(t_ns[known]), np.square(errors[known]))

    def _add(self, kind: type[Message], found: Any) -> None:
        if kind is TaskTick:
            self._add_ticks(found)
            return
        block = self.block(found["t_ns"])
        if kind is GroundTruth:
            return
        if kind is GnssFix:
            self.fixed.add(block, found["carrier"] == CarrierSolution.FIXED)
        elif kind is StateEstimate:
            self._add_age("estimate", block, found)
        elif kind is ControlCommand:
            self._add_age("control", block, found)
            for ratio, name in (
                (self.cross_track, "cross_track_m"),
                (self.heading, "heading_error_rad"),
            ):
                known = np.isfinite(found[name])
                ratio.add(block[known], np.square(found[name][known]))
            solved = found["iterations"] > 0
            self.iterations.add(block[solved], found["iterations"][solved])
            self.fallback.add(block, found["level"] > 0)
        else:
            self._add_age("actuation", block, found)
            self.clipped.add(block, found["clipped"] > 0)

    def _add_age(self, name: str, block: Any, found: Any) -> None:
        dated = found["newest_input_ns"] > 0
        self.ages[name].add(block[dated], (found["t_ns"] - found["newest_input_ns"])[dated])

    def _add_ticks(self, ticks: Any) -> None:
        release = ticks["release_ns"]
        block = self.block(release)
        numbers = ticks["task"]
        for number in np.unique(numbers).tolist():
            chosen = numbers == number
            self.tasks.setdefault(number, _TaskCounts(self.blocks)).add(
                block[chosen], ticks[chosen]
            )
        first = np.diff(release, prepend=self._last_release_ns) != 0
        self._last_release_ns = int(release[-1])
        self.loop.add(block[first], (ticks["start_ns"] - release)[first])
        self.busy.add(block, ticks["end_ns"] - ticks["start_ns"], np.zeros(len(ticks)))

    def run(self) -> RunStatistics:
        found: dict[Measure, Statistic] = {}

        def quantiles(group: str, quantity: str, counts: Counts, unit: str, floor: float) -> None:
            if counts.n:
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
                    unit_ns = _US if unit == "us" else _MS
                    found[Measure(group, f"{quantity} {name}", unit, floor)] = Quantile(
                        counts, share, unit_ns
                    )

        def ratio(
            group: str,
            quantity: str,
            unit: str,
            value: Ratio,
            floor: float,
            *,
            higher: bool = False,
        ) -> None:
            if value.n:
                found[Measure(group, quantity, unit, floor, higher)] = value

        names = [row.name for row in self.header.tasks]
        for number, task in sorted(self.tasks.items()):
            name = names[number] if number < len(names) else f"task {number}"
            quantiles(name, "lateness", task.lateness, "us", 10.0)
            quantiles(name, "execution", task.execution, "us", 10.0)
            quantiles(name, "response", task.response, "us", 10.0)
            ratio(name, "CPU time", "us", task.cpu, 10.0)
            ratio(name, "missed", "%", task.missed, 0.01)
            ratio(name, "skipped", "%", task.skipped, 0.01)
        quantiles("loop", "lateness", self.loop, "us", 10.0)
        if self.busy.n:
            ends = self.start_ns + self.block_ns * np.arange(self.blocks, dtype=np.int64)
            spans = np.full(self.blocks, float(self.block_ns))
            spans[-1] = self.span_ns - (self.blocks - 1) * self.block_ns
            self.busy.add(self.block(ends), np.zeros(self.blocks), spans)
        ratio("loop", "busy", "%", self.busy, 0.1)
        for name, counts in self.ages.items():
            quantiles("age", name, counts, "ms", 0.1)
        ratio("tracking", "cross-track RMS", "m", self.cross_track, 0.001)
        ratio("tracking", "heading RMS", "deg", self.heading, 0.03)
        for name, (group, quantity, unit, floor) in _ROOTS.items():
            ratio(group, quantity, unit, self.errors[name], floor)
        ratio("solver", "iterations", "", self.iterations, 0.1)
        ratio("solver", "fallback", "%", self.fallback, 0.01)
        ratio("actuation", "clipped", "%", self.clipped, 0.1)
        ratio("gnss", "RTK fixed", "%", self.fixed, 0.5, higher=True)
        singles = {}
        if np.isfinite(self.writer_cpu_s):
            singles[Measure("log", "writer CPU", "%", 0.1)] = (
                self.writer_cpu_s / (self.span_ns * 1e-9) * 100.0
            )
        return RunStatistics(
            self.files, self.header, self.blocks, self.block_ns, found, singles, self.notes
        )


def gather(path: str | os.PathLike[str]) -> RunStatistics:
    """Gather a run, given by its first file. Raises :class:`LogError`."""
    gatherer = _Gatherer(run_parts(path))
    gatherer.read()
    return gatherer.run()
