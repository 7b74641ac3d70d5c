"""Recorded task times of a computer: how late its loop woke up and how long each task took, in
order; and their replay in lockstep.

Late wake-ups come in bursts, so the file keeps the sequence itself. Lockstep looks up the same
release in the recording: with the same rate table the executive then starts, misses and skips as it
did on that computer. The seed chooses where the recording begins; at its end it starts again. The
format is described in ``docs/computers.md``.
"""

import hashlib
import json
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from math import gcd, inf
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.attribution import Evidence, Reading
from vehicled.core.errors import SetupError
from vehicled.core.executive import DeclaredStopwatch
from vehicled.core.tasks import PIPELINE
from vehicled.daemon.app import Wiring, declared_stopwatch
from vehicled.profile.schema import Tasks

FORMAT = "vehicled board"
VERSION = 1
MAX_BYTES = 64_000_000
MAX_WAKES = 200_000
"""Longest sequence: eight minutes at 400 Hz."""
LONGEST_US = 3_600_000_000
WARM_UP_S = 1.0
"""Time after the start that is left out: caches are cold, and devices are being configured."""
SHARES = (0.5, 0.9, 0.99, 0.999, 1.0)
"""Fractions of the quantile tables."""
NOT_RUN = -1
AGAIN = "measure it again: vehicled doctor --measure-board"


class TaskTimes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One task of the recorded rate table, and its recorded times as tables."""

    rate_hz: float
    phase_ms: float
    deadline_ms: float
    runs: int
    misses: int
    skips: int
    """Releases that were not run."""
    execution_us: list[int]
    """Quantiles of end minus start, at the fractions ``quantiles`` of the file."""
    lateness_us: list[int]
    """Quantiles of start minus release."""

    @property
    def late_share(self) -> float:
        """Fraction of the due releases that were missed or skipped."""
        due = self.runs + self.skips
        return (self.misses + self.skips) / due if due else 0.0


class Wakes(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sequence of the wake-ups of the loop that ran tasks; one entry of each column per wake-up, in
    microseconds."""

    after: list[int]
    """Release that the loop waited for, after that of the entry before; the first: after the
    beginning."""
    late: list[int]
    """Start of the first task after that release, or after the end of the previous entry's tasks if
    that is later."""
    execution: dict[str, list[int]]
    """Execution times by task; -1 where the task did not run."""


class BoardRecording(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Content of the file."""

    format: str
    version: int
    computer: str
    kernel: str
    processors: int
    scheduling: str
    """Scheduling class that the loop had."""
    measured: str
    """Date and time, UTC."""
    vehicled: str
    python: str
    profile: str
    controller: str
    estimator: str
    link: str
    duration_s: float
    quantiles: list[float]
    tasks: dict[str, TaskTimes]
    wakes: Wakes

    @property
    def label(self) -> str:
        """Computer and date, for the header of a log."""
        return f"{self.computer}, {self.kernel}, {self.scheduling}, measured {self.measured}"

    def to_text(self) -> str:
        """Return the file: JSON with one task or column per line."""
        plain = msgspec.to_builtins(self)
        wakes = plain.pop("wakes")
        tables = {
            "tasks": plain.pop("tasks"),
            "wakes": {"after": wakes["after"], "late": wakes["late"]},
        }
        lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in plain.items()]
        for key, table in tables.items():
            rows = [f"  {json.dumps(name)}: {_compact(row)}" for name, row in table.items()]
            if key == "wakes":
                columns = [
                    f"   {json.dumps(name)}: {_compact(column)}"
                    for name, column in wakes["execution"].items()
                ]
                rows.append('  "execution": {\n' + ",\n".join(columns) + "\n  }")
            lines.append(f"{json.dumps(key)}: {{\n" + ",\n".join(rows) + "\n }")
        return "{\n" + ",\n".join(f" {line}" for line in lines) + "\n}\n"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))


def period_us(rates_hz: Sequence[float]) -> int:
    """Return the time after which the releases of all tasks repeat, in whole microseconds."""
    common_mhz = gcd(*(round(rate_hz * 1000) for rate_hz in rates_hz))
    return 10**9 // gcd(10**9, common_mhz)


# ------------------------------------------------------------------ recording


def record(
    ticks: Any, tasks: Mapping[str, TaskTimes], facts: Mapping[str, Any], longest_s: float = inf
) -> BoardRecording:
    """Return the recording of the ticks of a run on the wall clock, an array in the order of the
    journal.

    ``tasks`` is the rate table by name in the order of the numbers; its times are filled in.
    ``facts`` are the other fields. What comes after ``longest_s`` is left out. Raises
    :class:`SetupError` if the run is too short.
    """
    names = list(tasks)
    release, start, end, number = (
        ticks[name].astype(np.int64) for name in ("release_ns", "start_ns", "end_ns", "task")
    )
    # A batch is a chain of tasks in table order, each beginning at the reading at which the one
    # before ended.
    first = np.ones(len(ticks), bool)
    first[1:] = (start[1:] != end[:-1]) | (number[1:] <= number[:-1])
    begins = np.flatnonzero(first)
    cycle_us = period_us([row.rate_hz for row in tasks.values()])
    wait_us = -(-round(WARM_UP_S * 1e6) // cycle_us) * cycle_us
    if not len(begins) or (end[-1] - release[0]) / 1e3 < wait_us + 2 * cycle_us:
        raise SetupError(
            "the run is too short for a recording: it needs more than "
            f"{(wait_us + 2 * cycle_us) / 1e6:g} s"
        )
    origin_ns = (
        int(release[0])
        - round(list(tasks.values())[int(number[0])].phase_ms * 1e6)
        + wait_us * 1000
    )
    due_ns = np.minimum.reduceat(release, begins)
    free_ns = np.concatenate([[0], end[begins[1:] - 1]])
    late_ns = start[begins] - np.maximum(due_ns, free_ns)
    due_us = (due_ns - origin_ns) // 1000
    beyond = np.flatnonzero(due_us >= 0)[MAX_WAKES:]
    length_us = (
        int(min(int(due_us[beyond[0] if len(beyond) else -1]), longest_s * 1e6))
        // cycle_us
        * cycle_us
    )
    kept = np.flatnonzero((due_us >= 0) & (due_us < length_us))
    columns = {name: np.full(len(begins), NOT_RUN, np.int64) for name in names}
    batch = np.cumsum(first) - 1
    execution_us = np.rint((end - start) / 1e3).astype(np.int64)
    for i, name in enumerate(names):
        columns[name][batch[number == i]] = execution_us[number == i]
    inside = np.isin(batch, kept)
    filled = {}
    for i, (name, row) in enumerate(tasks.items()):
        own = ticks[inside & (number == i)]
        late_us, taken_us = (
            (own[a].astype(np.int64) - own[b].astype(np.int64)) / 1e3 for a, b in _TIMES
        )
        filled[name] = msgspec.structs.replace(
            row,
            runs=len(own),
            misses=int(own["missed"].sum()),
            skips=int(own["skipped"].astype(np.int64).sum()),
            lateness_us=_quantiles(late_us),
            execution_us=_quantiles(taken_us),
        )
    for name, row in filled.items():
        if not row.runs:
            raise SetupError(
                f"the run is too short for a recording: {name} never ran after the first "
                f"{wait_us / 1e6:g} s"
            )
    wakes = Wakes(
        after=np.diff(due_us[kept], prepend=0).tolist(),
        late=np.rint(late_ns[kept] / 1e3).astype(np.int64).tolist(),
        execution={name: column[kept].tolist() for name, column in columns.items()},
    )
    return BoardRecording(
        format=FORMAT,
        version=VERSION,
        duration_s=length_us / 1e6,
        quantiles=list(SHARES),
        tasks=filled,
        wakes=wakes,
        **facts,
    )


_TIMES = (("start_ns", "release_ns"), ("end_ns", "start_ns"))


def _quantiles(values_us: Any) -> list[int]:
    if not len(values_us):
        return [0] * len(SHARES)
    return [round(float(value)) for value in np.quantile(values_us, SHARES, method="inverted_cdf")]


# ------------------------------------------------------------------ reading


class _Head(Struct):
    format: str = ""
    version: int = 0


def read(file: Path, tasks: Tasks) -> tuple[BoardRecording, bytes]:
    """Return a recording that fits a profile's rate table, and the bytes of its file.

    Raises :class:`SetupError` with the place and the cure.
    """
    try:
        if file.is_dir():
            raise SetupError(
                f"--board {file}: is a folder; name a file of vehicled doctor --measure-board"
            )
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        raise SetupError(
            f"--board {file}: cannot be read ({error.strerror}); check the path"
        ) from None
    if len(data) > MAX_BYTES:
        raise SetupError(
            f"--board {file}: more than {MAX_BYTES // 10**6} MB; name a file of vehicled "
            "doctor --measure-board"
        )
    recording = _decoded(data, file)
    for problem in _problems(recording):
        raise SetupError(f"--board {file}: {problem}; the file is damaged, {AGAIN}")
    for name, row in recording.tasks.items():
        task = getattr(tasks, name)
        if (row.rate_hz, row.phase_ms) != (task.rate_hz, task.phase_ms):
            raise SetupError(
                f"--board {file}: tasks.{name} was measured at {row.rate_hz:g} Hz with a phase "
                f"of {row.phase_ms:g} ms, the profile has {task.rate_hz:g} Hz and "
                f"{task.phase_ms:g} ms: {AGAIN} FILE with this profile"
            )
    return recording, data


def _decoded(data: bytes, file: Path) -> BoardRecording:
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.MsgspecError as error:
        raise SetupError(
            f"--board {file}: not a recording of a computer ({error}); {AGAIN} FILE makes one"
        ) from None
    except UnicodeDecodeError:
        raise SetupError(
            f"--board {file}: not a recording of a computer (no text); {AGAIN} FILE makes one"
        ) from None
    if head.format != FORMAT:
        raise SetupError(
            f'--board {file}: not a recording of a computer (its "format" is not "{FORMAT}"); '
            f"{AGAIN} FILE makes one"
        )
    if head.version != VERSION:
        raise SetupError(
            f"--board {file}: version {head.version}, this vehicled reads version {VERSION}: "
            f"update it, or {AGAIN}"
        )
    try:
        return msgspec.json.decode(data, type=BoardRecording)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise SetupError(f"--board {file}: {error}; the file is damaged, {AGAIN}") from None


def _problems(recording: BoardRecording) -> list[str]:
    """Return what cannot be replayed, with its place in the file."""
    wakes, names = recording.wakes, set(Tasks.__struct_fields__)
    found = [
        f"{place}: has {', '.join(sorted(keys)) or 'nothing'} instead of {', '.join(sorted(names))}"
        for place, keys in (
            ("tasks", set(recording.tasks)),
            ("wakes.execution", set(wakes.execution)),
        )
        if keys != names
    ]
    columns = {
        "late": wakes.late,
        **{f"execution.{name}": column for name, column in wakes.execution.items()},
    }
    n = len(wakes.after)
    if not 0 < n <= MAX_WAKES:
        found.append(f"wakes.after: {n} entries, 1 to {MAX_WAKES} are possible")
    for name, column in columns.items():
        if len(column) != n:
            found.append(f"wakes.{name}: {len(column)} entries, but wakes.after has {n}")
    for name, column, least in (
        ("after", wakes.after, 0),
        *((name, column, NOT_RUN) for name, column in columns.items()),
    ):
        low = 0 if name == "late" else least
        wrong = next((i for i, value in enumerate(column) if not low <= value <= LONGEST_US), None)
        if wrong is not None:
            found.append(f"wakes.{name}[{wrong}]: {column[wrong]} us is out of range")
    if 0 in wakes.after[1:]:
        found.append(f"wakes.after[{wakes.after.index(0, 1)}]: two wake-ups for one release")
    for name, row in recording.tasks.items():
        if not (0.0 < row.rate_hz <= 10_000.0 and 0.0 <= row.phase_ms <= 1e6):
            found.append(
                f"tasks.{name}: a rate of {row.rate_hz:g} Hz with a phase of {row.phase_ms:g} "
                "ms is impossible"
            )
        elif name in wakes.execution and all(value == NOT_RUN for value in wakes.execution[name]):
            found.append(f"wakes.execution.{name}: the task never ran")
    if not found and not sum(wakes.after) < recording.duration_s * 1e6 <= LONGEST_US:
        found.append(
            f"duration_s: {recording.duration_s:g} s, but the wake-ups last "
            f"{sum(wakes.after) / 1e6:g} s"
        )
    return found


# ------------------------------------------------------------------ replay


class BoardStopwatch(DeclaredStopwatch):
    """Virtual time of a recorded computer: wake-ups and tasks take as long as they did there. Also
    the evidence of late ones."""

    def __init__(
        self, recording: BoardRecording, tasks: Sequence[str], start_ns: int, seed: int
    ) -> None:
        wakes = recording.wakes
        columns = [wakes.execution[name] for name in tasks]
        super().__init__(
            [
                round(float(np.median([us for us in column if us != NOT_RUN]))) * 1000
                for column in columns
            ]
        )
        self._due_us: list[int] = np.cumsum(wakes.after).tolist()
        self._late_us = wakes.late
        self._columns = [_filled(column) for column in columns]
        taken_us = np.sum([np.maximum(column, 0) for column in columns], axis=0)
        self._busy_until_us: list[int] = self._ends(np.array(wakes.late), taken_us)
        cycle_us = period_us([row.rate_hz for row in recording.tasks.values()])
        # At least one whole cycle, so that releases of the recording and of the run keep falling
        # together.
        self._length_us = -(-round(recording.duration_s * 1e6) // cycle_us) * cycle_us
        turn = int.from_bytes(hashlib.sha256(f"board {seed}".encode()).digest()[:8], "little")
        self._origin_ns = start_ns - turn % (self._length_us // cycle_us) * cycle_us * 1000
        self._now = 0
        self._asleep_ns = (start_ns, start_ns)

    def _ends(self, late_us: Any, taken_us: Any) -> list[int]:
        ends, free_us = [], 0
        for due_us, late, taken in zip(
            self._due_us, late_us.tolist(), taken_us.tolist(), strict=True
        ):
            free_us = max(due_us, free_us) + late + taken
            ends.append(free_us)
        return ends

    def wake_ns(self, due_ns: int, free_ns: int) -> int:
        """Return when the recorded computer would have woken for a release that is due at
        ``due_ns``."""
        at_us = (due_ns - self._origin_ns) // 1000 % self._length_us
        i = bisect_right(self._due_us, at_us) - 1
        ready_ns = max(due_ns, free_ns)
        if i >= 0 and self._due_us[i] == at_us:
            self._now = i
            wake_ns = ready_ns + self._late_us[i] * 1000
        else:
            # The recorded computer did not wake for this release: it was late or busy until after
            # it. A device may be due, too.
            self._now = (i + 1) % len(self._due_us)
            away_us = self._busy_until_us[i] - at_us if i >= 0 else 0
            wake_ns = max(ready_ns, due_ns + away_us * 1000)
        self._asleep_ns = (ready_ns, wake_ns)
        return wake_ns

    def end(self, task: int, begin: Reading) -> Reading:
        """Return the start plus the recorded execution time."""
        cost_ns = self._columns[task][self._now] * 1000
        return begin[0] + cost_ns, begin[1] + cost_ns, 0, 0, 0, 0

    def evidence(self, release_ns: int, start_ns: int, end_ns: int) -> Evidence:
        """Return the late wake-up as the sleep of the loop; see
        :class:`vehicled.core.attribution.EvidenceSource`."""
        return Evidence(asleep_ns=self._asleep_ns)


def virtual_stopwatch(
    wiring: Wiring, board: BoardRecording | None, start_ns: int, seed: int
) -> DeclaredStopwatch:
    """Return the stopwatch of a lockstep run that begins at ``start_ns``: of a recorded computer,
    or of declared costs."""
    return (
        declared_stopwatch(wiring)
        if board is None
        else BoardStopwatch(board, PIPELINE, start_ns, seed)
    )


def _filled(column: Sequence[int]) -> list[int]:
    """Return the execution times with those of the next run where the task did not run."""
    filled, following = list(column), next(us for us in column if us != NOT_RUN)
    for i in range(len(filled) - 1, -1, -1):
        if filled[i] == NOT_RUN:
            filled[i] = following
        following = filled[i]
    return filled
