"""``vehicled log timing``: deadlines, causes of misses, and ages, from the log alone.

Words. *Lateness*: start minus release. *Execution*: end minus start. *Response*: end minus release;
a *miss* is a response beyond the deadline. *Skip*: a release not run. *Jitter*: how far the
start-to-start interval is from the planned one, so that a skip does not count twice. *Age*: stamp
of what a task put out minus the time of validity of the newest measurement in it; for the actuation
that is wire to actuator. The *budget* is a share of missed and skipped releases among all that were
due.
"""

import os
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.attribution import WITHOUT_CAUSE, holder_name
from vehicled.core.messages import Event, Message, TaskTick
from vehicled.core.tasks import TASKS
from vehicled.log.errors import LogError
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import RunHeader, TaskRow
from vehicled.offline.analysis.bins import Distribution
from vehicled.offline.analysis.misses import Episode, Miss, MissList, cause_name, episodes, text_of

_OUTPUTS = {task.outputs[0]: task.name for task in TASKS if task.outputs}
"""Message that each task outputs, with the name of the task."""


_CHUNKS_AT_ONCE = 64
"""Chunks to process at once: half a second of data is too little for numpy to pay off."""


class DurationSummary(Struct, frozen=True, kw_only=True):
    """Distribution of durations, in microseconds."""

    n: int
    mean_us: float
    sigma_us: float
    min_us: float
    p1_us: float
    p50_us: float
    p90_us: float
    p99_us: float
    p99_9_us: float
    max_us: float


class TaskTiming(Struct, frozen=True, kw_only=True):
    """Timing of one task."""

    name: str
    n: int
    """Number of releases that were run."""
    rate_hz: float
    """Measured rate from the intervals between runs, skips included, Hz."""
    deadline_us: float
    lateness: DurationSummary
    execution: DurationSummary
    response: DurationSummary
    jitter: DurationSummary
    jitter_p99_p1_us: float
    age: DurationSummary | None
    misses: int
    miss_share: float
    longest_miss_run: int
    """Largest number of consecutive misses and skips."""
    skips: int
    causes: dict[str, float]
    """Fraction of the misses by cause."""
    unknown_share: float
    """Fraction of the misses without a known cause."""
    holders: dict[str, int]
    """Misses by holder of the loop."""
    budget: float
    late_share: float
    """Missed and skipped fraction of due releases, which the budget limits."""


class Timing(Struct, frozen=True, kw_only=True):
    """Timing of a run."""

    run_id: str
    files: list[str]
    clock: str
    loop: str
    complete: bool
    duration_s: float
    """Time from first release to last end, s."""
    ticks: int
    tasks: list[TaskTiming]
    wire_to_actuator: DurationSummary | None
    unknown_share: float
    """Fraction of all misses without a known cause."""
    exceeded: list[str]
    """Texts about exceeded budgets; empty if all were met."""
    uncharged: list[str] = []
    """Tasks that lockstep charged nothing, so that they could not be late."""
    late_tasks: str = ""
    """Text about the tasks that really took longer than lockstep allows; empty for none."""
    misses: list[Miss] = []
    """All missed deadlines, up to a limit; only if they were asked for."""
    episodes: list[Episode] = []
    """Missed deadlines that follow each other, together; only if misses were asked for."""
    misses_left_out: int = 0
    notes: list[str]

    def to_json(self, *, every: bool = False) -> str:
        """Return JSON; each single miss only if ``every`` is asked for."""
        shown = self if every else msgspec.structs.replace(self, misses=[])
        return msgspec.json.format(msgspec.json.encode(shown), indent=2).decode()

    def to_text(self, *, every: bool = False) -> str:
        """Return the timing as plain-text tables; ``every`` lists each single miss."""
        return _text(self, every=every)


class _TaskTiming:
    """Running statistics of one task."""

    def __init__(self) -> None:
        self.lateness, self.execution, self.response, self.jitter, self.age = (
            Distribution() for _ in range(5)
        )
        self.misses = 0
        self.skips = 0
        self.longest = 0
        self.deadline_ns = 0
        self.first_release_ns = self.last_release_ns = 0
        self.causes = np.zeros(256, np.int64)
        self.holders: dict[tuple[int, int], int] = {}
        self._run = 0
        self._last_lateness_ns: int | None = None

    def add(self, ticks: Any) -> None:
        """Add ticks of this task, in order."""
        release, start, end = ticks["release_ns"], ticks["start_ns"], ticks["end_ns"]
        missed = ticks["missed"].astype(bool)
        skipped = ticks["skipped"].astype(np.int64)
        lateness = start - release
        if not self.lateness.n:
            self.first_release_ns = int(release[0])
        self.last_release_ns = int(release[-1])
        self.deadline_ns = int(ticks["deadline_ns"][-1])
        self.lateness.add(lateness)
        self.execution.add(end - start)
        self.response.add(end - release)
        before = (
            lateness[:1] if self._last_lateness_ns is None else np.array([self._last_lateness_ns])
        )
        # Start-to-start minus release-to-release.
        change = np.diff(np.concatenate([before, lateness]))
        self.jitter.add(change[1:] if self._last_lateness_ns is None else change)
        self._last_lateness_ns = int(lateness[-1])
        self.skips += int(skipped.sum())
        self._runs(missed, skipped)
        if missed.any():
            self.misses += int(missed.sum())
            self.causes += np.bincount(ticks["cause"][missed], minlength=256)
            held = missed & (ticks["holder"] != 255)
            for cause, holder in zip(ticks["cause"][held].tolist(), ticks["holder"][held].tolist()):
                self.holders[cause, holder] = self.holders.get((cause, holder), 0) + 1

    def _runs(self, missed: Any, skipped: Any) -> None:
        """Extend the longest run across chunks: a miss adds itself and the skips before it, a
        timely release ends the run."""
        total = self._run + np.cumsum(missed + skipped)
        reset = np.where(missed, 0, total - skipped)
        run = total - np.maximum.accumulate(reset)
        self._run = int(run[-1])
        if missed.any():
            self.longest = max(self.longest, int(run[missed].max()))


class TimingScan:
    """Collects deadlines and ages from the rows of a log; also used by readers that need more of
    the log."""

    TYPES: tuple[type[Message], ...] = (TaskTick, *_OUTPUTS)

    def __init__(self) -> None:
        self._accounts: dict[int, _TaskTiming] = {}
        self._ages: dict[str, Distribution] = {name: Distribution() for name in _OUTPUTS.values()}
        self._first_ns, self._last_ns = 2**63 - 1, 0

    def add(self, kind: type[Message], rows: Any) -> None:
        """Add rows of one of :attr:`TYPES` of one run, in order."""
        if kind is not TaskTick:
            dated = rows[rows["newest_input_ns"] > 0]
            self._ages[_OUTPUTS[kind]].add(dated["t_ns"] - dated["newest_input_ns"])
            return
        self._first_ns = min(self._first_ns, int(rows["release_ns"].min()))
        self._last_ns = max(self._last_ns, int(rows["end_ns"].max()))
        numbers = rows["task"]
        for number in np.unique(numbers).tolist():
            account = self._accounts.get(number)
            if account is None:
                account = self._accounts[number] = _TaskTiming()
            account.add(rows[numbers == number])

    def result(
        self, header: RunHeader, files: list[str], *, complete: bool, notes: list[str]
    ) -> Timing:
        """Return the timing of the run. Raises :class:`LogError` if there was no tick."""
        if not self._accounts:
            raise LogError(f"{files[0]}: no task ticks in this log")
        tasks = [
            _judge(number, account, header, self._ages)
            for number, account in sorted(self._accounts.items())
        ]
        misses = sum(task.misses for task in tasks)
        unknown = sum(
            int(account.causes[cause])
            for account in self._accounts.values()
            for cause in WITHOUT_CAUSE
        )
        # A task that is charged nothing cannot be late by itself.
        charged = header.clock != "lockstep" or bool(header.board)
        exceeded = [
            f"{t.name}: {t.late_share:.3%} of the releases were missed or skipped ({t.misses} "
            f"and {t.skips} of {t.n + t.skips}), the budget is {t.budget:.3%}"
            for t in tasks
            if t.late_share > t.budget
        ]
        return Timing(
            run_id=header.run_id,
            files=files,
            clock=header.clock,
            loop=header.loop,
            complete=complete,
            duration_s=(self._last_ns - self._first_ns) / 1e9,
            ticks=sum(task.n for task in tasks),
            tasks=tasks,
            wire_to_actuator=_summary(self._ages["actuation"])
            if self._ages["actuation"].n
            else None,
            unknown_share=unknown / misses if misses else 0.0,
            exceeded=exceeded,
            uncharged=[] if charged else [row.name for row in header.tasks if not row.declared_ns],
            notes=notes,
        )


def gap_note(log: LogReader, name: str) -> list[str]:
    """Return a note if the journal of the file called ``name`` has a gap, else an empty list."""
    gap = log.end.get("not_replayable_after_ns", "")
    return (
        [f"{name}: the journal has a gap after {gap} ns; its ticks are not all here"] if gap else []
    )


def timing(path: str | os.PathLike[str], *, follow_parts: bool = True) -> Timing:
    """Return the timing of a run, given by its first file; the files added by rotation are read
    too. Raises :class:`LogError`."""
    files = run_parts(path) if follow_parts else [os.fspath(path)]
    scan = TimingScan()
    notes: list[str] = []
    header: RunHeader | None = None
    complete = True
    missed, late_tasks = MissList(), ""
    for file in files:
        with LogReader(file) as log:
            if header is None:
                header = log.header
            elif log.header.run_id != header.run_id:
                raise LogError(
                    f"{file}: belongs to another run ({log.header.run_id}) than {files[0]} "
                    f"({header.run_id})"
                )
            if not log.layout.complete:
                complete = False
                notes.append(
                    f"{file}: incomplete, only the intact part was read ({log.layout.problem})"
                )
            waiting: dict[type[Message], list[Any]] = {kind: [] for kind in TimingScan.TYPES}
            for kind, found in log.arrays(*TimingScan.TYPES):
                waiting[kind].append(found)
                if kind is TaskTick:
                    missed.add(found)
                if len(waiting[kind]) >= _CHUNKS_AT_ONCE:
                    scan.add(kind, np.concatenate(waiting[kind]))
                    waiting[kind].clear()
            for kind, pieces in waiting.items():
                if pieces:
                    scan.add(kind, np.concatenate(pieces))
            for record in log.messages(Event):
                missed.saw(record.message)
            late_tasks = log.end.get("late_tasks", "")
            if log.damaged_chunks:
                notes.append(f"{file}: {log.damaged_chunks} damaged chunks skipped")
            notes += gap_note(log, file)
    assert header is not None
    misses = missed.result(header)
    return msgspec.structs.replace(
        scan.result(header, files, complete=complete, notes=notes),
        misses=misses,
        episodes=episodes(misses),
        misses_left_out=missed.left_out,
        late_tasks=late_tasks,
    )


def _judge(
    number: int, account: _TaskTiming, header: RunHeader, ages: dict[str, Distribution]
) -> TaskTiming:
    known = number < len(header.tasks)
    unknown = TaskRow(
        name=f"task {number}", rate_hz=0.0, deadline_ns=account.deadline_ns, max_miss_share=1.0
    )
    row = header.tasks[number] if known else unknown
    n, misses = account.lateness.n, account.misses
    span_ns = account.last_release_ns - account.first_release_ns
    age = ages.get(row.name)
    causes = [
        number
        for number in np.argsort(-account.causes, kind="stable").tolist()
        if account.causes[number]
    ]
    holders: dict[str, int] = {}
    for (cause, holder), count in account.holders.items():
        name = holder_name(cause, holder, [row.name for row in header.tasks], header.holders)
        holders[name] = holders.get(name, 0) + count
    return TaskTiming(
        name=row.name,
        n=n,
        rate_hz=(n - 1) / span_ns * 1e9 if span_ns else 0.0,
        deadline_us=account.deadline_ns / 1e3,
        lateness=_summary(account.lateness),
        execution=_summary(account.execution),
        response=_summary(account.response),
        jitter=_summary(account.jitter),
        jitter_p99_p1_us=(account.jitter.quantile_ns(0.99) - account.jitter.quantile_ns(0.01))
        / 1e3,
        age=_summary(age) if age is not None and age.n else None,
        misses=misses,
        miss_share=misses / n,
        longest_miss_run=account.longest,
        skips=account.skips,
        causes={cause_name(cause): int(account.causes[cause]) / misses for cause in causes},
        unknown_share=sum(int(account.causes[cause]) for cause in WITHOUT_CAUSE) / misses
        if misses
        else 0.0,
        holders=dict(sorted(holders.items(), key=lambda item: -item[1])),
        budget=row.max_miss_share,
        late_share=(misses + account.skips) / (n + account.skips),
    )


def _summary(values: Distribution) -> DurationSummary:
    def at(share: float) -> float:
        return values.quantile_ns(share) / 1e3

    return DurationSummary(
        n=values.n,
        mean_us=values.mean_ns / 1e3,
        sigma_us=values.sigma_ns / 1e3,
        min_us=values.min_ns / 1e3,
        p1_us=at(0.01),
        p50_us=at(0.5),
        p90_us=at(0.9),
        p99_us=at(0.99),
        p99_9_us=at(0.999),
        max_us=values.max_ns / 1e3,
    )


# ------------------------------------------------------------------ text


def _text(timing: Timing, *, every: bool) -> str:
    lines = [
        (
            f"run {timing.run_id}, {timing.clock or 'unknown'} clock, {timing.duration_s:.1f} s, "
            f"{timing.ticks} ticks"
        )
    ]
    if timing.loop:
        lines.append(f"event loop: {timing.loop}")
    lines += [f"note: {note}" for note in timing.notes]
    shape: Sequence[tuple[str, Callable[[DurationSummary], float]]] = (
        ("mean", lambda s: s.mean_us), ("sigma", lambda s: s.sigma_us), ("p50", lambda s: s.p50_us),
        ("p90", lambda s: s.p90_us), ("p99", lambda s: s.p99_us), ("p99.9", lambda s: s.p99_9_us),
        ("max", lambda s: s.max_us),
    )  # fmt: skip
    rows = [["task", "us", *(name for name, _ in shape)]]
    for task in timing.tasks:
        named: list[tuple[str, DurationSummary | None]] = [
            ("lateness", task.lateness), ("execution", task.execution), ("response", task.response),
            ("jitter", task.jitter), ("age", task.age),
        ]  # fmt: skip
        rows += [
            [
                task.name if quantity == "lateness" else "",
                quantity,
                *(f"{value(summary):.1f}" for _, value in shape),
            ]
            for quantity, summary in named
            if summary is not None
        ]
    lines += ["", *_align(rows, left=2)]
    rows = [
        [
            "task",
            "n",
            "rate Hz",
            "deadline us",
            "jitter p99-p1",
            "misses",
            "share",
            "longest run",
            "skips",
            "budget",
            "causes",
        ]
    ]
    for task in timing.tasks:
        causes = ", ".join(f"{name} {share:.0%}" for name, share in task.causes.items())
        held = ", ".join(f"{name} {count}" for name, count in task.holders.items())
        rows.append(
            [
                task.name, str(task.n), f"{task.rate_hz:.3f}", f"{task.deadline_us:.0f}",
                f"{task.jitter_p99_p1_us:.1f}", str(task.misses), f"{task.miss_share:.3%}",
                str(task.longest_miss_run), str(task.skips), f"{task.budget:.3%}",
                (causes or "-") + (f" (held by {held})" if held else ""),
            ]
        )  # fmt: skip
    lines += ["", *_align(rows, left=1, ragged=True), ""]
    if (age := timing.wire_to_actuator) is not None:
        shown = ", ".join(f"{name} {value(age) / 1e3:.2f}" for name, value in shape)
        lines.append(f"wire to actuator in ms: {shown}")
    if any(task.misses for task in timing.tasks):
        lines.append(f"misses of unknown cause: {timing.unknown_share:.1%}")
    lines += text_of(timing.misses, timing.misses_left_out, every=every)
    if timing.uncharged:
        lines.append(
            f"not judged: lockstep charged nothing for {', '.join(timing.uncharged)} "
            "(declared_us of the profile)"
        )
    if timing.late_tasks:
        lines.append(f"really late: {timing.late_tasks}")
    judged = len(timing.uncharged) < len(timing.tasks)
    lines += [f"exceeded: {line}" for line in timing.exceeded] or (
        ["all budgets kept"] if judged else []
    )
    return "\n".join(lines) + "\n"


def _align(rows: list[list[str]], *, left: int, ragged: bool = False) -> list[str]:
    """Align columns: the first ``left`` flush left, the others right; the last of a ragged table is
    free text."""
    width = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = []
        for i, (cell, w) in enumerate(zip(row, width)):
            free = ragged and i == len(row) - 1
            cells.append(cell if free else cell.ljust(w) if i < left else cell.rjust(w))
        lines.append("  ".join(cells).rstrip())
    return lines
