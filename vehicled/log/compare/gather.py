"""Reads a run, with all its parts, into statistics per block of time. One pass, in constant memory."""

import os
from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.log.compare.blocks import Counts, Quantile, Ratio, Statistic
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import RunHeader
from vehicled.messages import (
    ActuatorCommand,
    CarrierSolution,
    ControlCommand,
    EstimatorStatus,
    GnssFix,
    GroundTruth,
    Message,
    StateEstimate,
    TaskTick,
)

MAX_BLOCKS = 100
MIN_BLOCK_NS = 1_000_000_000
_CHUNKS_AT_ONCE = 64
_KINDS: tuple[type[Message], ...] = (TaskTick, StateEstimate, ControlCommand, ActuatorCommand, GroundTruth, GnssFix)
_TAIL = 2000
"""Rows kept of the batch before, so that what lies between two batches finds its neighbours."""
_US, _MS = 1e3, 1e6


class Measure(Struct, frozen=True):
    """What one number of a run is."""

    group: str
    """Task or part of the vehicle."""
    quantity: str
    unit: str
    floor: float
    """A difference below this is of no interest, whatever its share."""
    higher_is_better: bool = False


class Run(Struct):
    """What was gathered of a run."""

    files: list[str]
    header: RunHeader
    blocks: int
    block_ns: int
    statistics: dict[Measure, Statistic]
    singles: dict[Measure, float]
    """Numbers that a run has one of."""
    notes: list[str]


class _Task:
    def __init__(self, blocks: int) -> None:
        self.lateness, self.execution, self.response = Counts(blocks), Counts(blocks), Counts(blocks)
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


class _Truth:
    """Errors of the estimate against the truth, brought to the times of the estimates on straight lines."""

    def __init__(self, blocks: int) -> None:
        self.position, self.heading, self.speed = (Ratio(blocks, root=True) for _ in range(3))
        self.cross_track = Ratio(blocks, root=True)
        self._truth: Any = None
        self._waiting: list[Any] = []
        self._errors: Any = None
        self._commands: list[Any] = []

    def add_truth(self, found: Any, run: "_Gatherer") -> None:
        names = ["t_ns", "x_m", "y_m", "yaw_rad", "speed_mps"]
        rows = {name: found[name].copy() for name in names}
        before = self._truth
        self._truth = rows if before is None else {name: np.concatenate([before[name][-_TAIL:], rows[name]]) for name in names}
        waiting, self._waiting = self._waiting, []
        for estimates in waiting:
            self.add(estimates, run)

    def add(self, estimates: Any, run: "_Gatherer") -> None:
        truth = self._truth
        if truth is None or not len(estimates):
            self._wait(estimates)
            return
        t_ns = estimates["t_ns"]
        ripe = t_ns <= truth["t_ns"][-1]
        self._wait(estimates[~ripe])
        status = estimates["status"]
        usable = ripe & (t_ns >= truth["t_ns"][0]) & (status == EstimatorStatus.RUNNING) & np.isfinite(estimates["x_m"])
        now = estimates[usable]
        if not len(now):
            return
        at, known = now["t_ns"], truth["t_ns"]
        # Relative to the first, so that float seconds keep their nanoseconds.
        at_s, known_s = (at - known[0]) * 1e-9, (known - known[0]) * 1e-9
        block = run.block(at)
        ex = now["x_m"] - np.interp(at_s, known_s, truth["x_m"])
        ey = now["y_m"] - np.interp(at_s, known_s, truth["y_m"])
        yaw = np.interp(at_s, known_s, np.unwrap(truth["yaw_rad"]))
        turn = np.remainder(now["yaw_rad"] - yaw + np.pi, 2.0 * np.pi) - np.pi
        self.position.add(block, ex * ex + ey * ey)
        self.heading.add(block, turn * turn)
        self.speed.add(block, np.square(now["speed_mps"] - np.interp(at_s, known_s, truth["speed_mps"])))
        rows = np.stack([at.astype(np.float64), ex, ey, np.unwrap(now["yaw_rad"])])
        before = self._errors
        if before is not None:
            # Without a jump of whole turns between two batches.
            rows[3] += 2.0 * np.pi * np.round((before[3, -1] - rows[3, 0]) / (2.0 * np.pi))
        self._errors = rows if before is None else np.concatenate([before[:, -_TAIL:], rows], axis=1)
        commands, self._commands = self._commands, []
        for held in commands:
            self.add_commands(held, run)

    def add_commands(self, commands: Any, run: "_Gatherer") -> None:
        """True distance from the path: the one that the controller saw, less the estimate's error across the path."""
        known = commands[np.isfinite(commands["cross_track_m"]) & np.isfinite(commands["heading_error_rad"])]
        errors = self._errors
        if errors is None:
            ripe = np.zeros(len(known), bool)
        else:
            t_ns = known["t_ns"].astype(np.float64)
            ripe = t_ns <= errors[0, -1]
            usable = ripe & (t_ns >= errors[0, 0])
            now, at = known[usable], t_ns[usable]
            ex, ey, yaw = (np.interp(at, errors[0], row) for row in errors[1:])
            course = yaw + now["heading_error_rad"]
            across = now["cross_track_m"] + np.sin(course) * ex - np.cos(course) * ey
            self.cross_track.add(run.block(now["t_ns"]), across * across)
        if not ripe.all():
            self._commands = [*self._commands[-7:], known[~ripe]]

    def _wait(self, estimates: Any) -> None:
        # A log whose truth stops has nothing to wait for: the oldest go.
        if len(estimates):
            self._waiting = [*self._waiting[-7:], estimates]


class _Gatherer:
    def __init__(self, files: list[str]) -> None:
        start_ns, stop_ns, self.notes = 2**63 - 1, 0, list[str]()
        header: RunHeader | None = None
        self.writer_cpu_s = 0.0
        for file in files:
            with LogReader(file) as log:
                header = header or log.header
                if log.header.run_id != header.run_id:
                    raise LogError(f"{file}: belongs to another run ({log.header.run_id}) than {files[0]} ({header.run_id})")
                chunks = log.layout.chunks
                if len(chunks):
                    start_ns = min(start_ns, int(chunks["start_ns"].min()) - log.offset_ns)
                    stop_ns = max(stop_ns, int(chunks["end_ns"].max()) - log.offset_ns)
                if not log.layout.complete:
                    self.notes.append(f"{file}: incomplete, read as far as it is whole ({log.layout.problem})")
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
        self.tasks: dict[int, _Task] = {}
        self.loop, self.busy = Counts(n), Ratio(n, scale=100.0)
        self.ages = {name: Counts(n) for name in ("estimate", "control", "actuation")}
        self.truth = _Truth(n)
        self.cross_track, self.heading = Ratio(n, root=True), Ratio(n, root=True)
        self.iterations, self.fallback = Ratio(n), Ratio(n, scale=100.0)
        self.clipped, self.fixed = Ratio(n, scale=100.0), Ratio(n, scale=100.0)
        self._last_release_ns = -1

    def block(self, t_ns: Any) -> Any:
        """Numbers of the blocks of stamps; the rest behind the last whole block belongs to it."""
        return np.clip((t_ns - self.start_ns) // self.block_ns, 0, self.blocks - 1)

    def read(self) -> None:
        for file in self.files:
            with LogReader(file) as log:
                waiting: dict[type[Message], list[Any]] = {}
                for kind, found in log.arrays(*_KINDS):
                    held = waiting.setdefault(kind, [])
                    held.append(found)
                    if len(held) >= _CHUNKS_AT_ONCE:
                        self._add(kind, np.concatenate(waiting.pop(kind)))
                for kind, held in waiting.items():
                    self._add(kind, np.concatenate(held))
                if log.damaged_chunks:
                    self.notes.append(f"{file}: {log.damaged_chunks} damaged chunks skipped")

    def _add(self, kind: type[Message], found: Any) -> None:
        if kind is TaskTick:
            self._add_ticks(found)
            return
        block = self.block(found["t_ns"])
        if kind is GroundTruth:
            self.truth.add_truth(found, self)
        elif kind is GnssFix:
            self.fixed.add(block, found["carrier"] == CarrierSolution.FIXED)
        elif kind is StateEstimate:
            self._add_age("estimate", block, found)
            self.truth.add(found, self)
        elif kind is ControlCommand:
            self._add_age("control", block, found)
            for ratio, name in ((self.cross_track, "cross_track_m"), (self.heading, "heading_error_rad")):
                known = np.isfinite(found[name])
                ratio.add(block[known], np.square(found[name][known]))
            self.truth.add_commands(found, self)
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
            self.tasks.setdefault(number, _Task(self.blocks)).add(block[chosen], ticks[chosen])
        first = np.diff(release, prepend=self._last_release_ns) != 0
        self._last_release_ns = int(release[-1])
        self.loop.add(block[first], (ticks["start_ns"] - release)[first])
        self.busy.add(block, ticks["end_ns"] - ticks["start_ns"], np.zeros(len(ticks)))

    def run(self) -> Run:
        found: dict[Measure, Statistic] = {}

        def quantiles(group: str, quantity: str, counts: Counts, unit: str, floor: float) -> None:
            if counts.n:
                for name, share in (("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)):
                    unit_ns = _US if unit == "us" else _MS
                    found[Measure(group, f"{quantity} {name}", unit, floor)] = Quantile(counts, share, unit_ns)

        def ratio(group: str, quantity: str, unit: str, value: Ratio, floor: float, *, higher: bool = False) -> None:
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
        ratio("tracking", "heading RMS", "rad", self.heading, 0.0005)
        ratio("tracking", "true cross-track RMS", "m", self.truth.cross_track, 0.001)
        ratio("estimate", "position RMS", "m", self.truth.position, 0.001)
        ratio("estimate", "heading RMS", "rad", self.truth.heading, 0.0005)
        ratio("estimate", "speed RMS", "m/s", self.truth.speed, 0.001)
        ratio("solver", "iterations", "", self.iterations, 0.1)
        ratio("solver", "fallback", "%", self.fallback, 0.01)
        ratio("actuation", "clipped", "%", self.clipped, 0.1)
        ratio("gnss", "RTK fixed", "%", self.fixed, 0.5, higher=True)
        singles = {}
        if np.isfinite(self.writer_cpu_s):
            singles[Measure("log", "writer CPU", "%", 0.1)] = self.writer_cpu_s / (self.span_ns * 1e-9) * 100.0
        return Run(self.files, self.header, self.blocks, self.block_ns, found, singles, self.notes)


def gather(path: str | os.PathLike[str]) -> Run:
    """A run by its first part. Raises :class:`LogError`."""
    gatherer = _Gatherer(run_parts(path))
    gatherer.read()
    return gatherer.run()
