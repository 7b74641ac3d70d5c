"""Finds the runs of a set, judges each, and says which could not be judged and why."""

import os
import re
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatchcase
from math import isfinite, sqrt
from multiprocessing import get_context
from pathlib import Path

import numpy as np
from msgspec import Struct, field

from vehicled.core.messages import ActuatorCommand, GnssFix, Message
from vehicled.log.errors import LogError
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.judges import DriveJudge, driven_ns
from vehicled.offline.gap.making import make_judge
from vehicled.offline.gap.quantities import MeasuredRun, measure
from vehicled.offline.recordings import mcap
from vehicled.offline.recordings.art import ALTERNATIVES
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.importing import imported
from vehicled.offline.recordings.loading import RecordingSource, known_kinds, sources
from vehicled.offline.recordings.recording import Recording, seconds
from vehicled.profile import load_profile
from vehicled.profile.problems import ProfileError

CSV = (".csv", ".tsv")
_NEEDS = {
    "a position (GnssFix)": ("GnssFix",),
    "a heading (Heading) or a GNSS velocity, one of which shows where the vehicle points": (
        "Heading",
        "GNSS velocity",
    ),
}
"""Inputs that every estimator needs to start, with the kinds of input that give it."""
_CONTINUOUS_S = 10.0
"""Messages of a type further apart are events, which have no rate."""


class JudgingTask(Struct, frozen=True, kw_only=True):
    """Instructions for judging runs; the same for every set."""

    judge: str = "ekf4"
    overrides: tuple[str, ...] = ()
    profile: str = ""
    """Profile whose vehicle is assumed of every run; empty: of each run its own."""
    kinds: tuple[str, ...] = ()
    mapping: str = ""
    """Mapping file for CSV files."""
    manoeuvres: tuple[str, ...] = ()
    """Patterns ``NAME`` or ``NAME=PATTERN``."""


class RunFile(Struct, frozen=True):
    """One run of a set, not yet read."""

    name: str
    path: str
    folder: str
    """First folder of its path below the folder that was given; empty for a run directly in it."""
    kinds: tuple[str, ...]
    """Kinds of which the recording is one; empty for a CSV file that is read by a mapping."""


class JudgedRun(Struct, frozen=True, kw_only=True):
    """One run with its quantities."""

    name: str
    path: str
    manoeuvre: str
    measured: MeasuredRun
    truth_hz: float
    rates_hz: dict[str, float]
    """Rate of each type of input."""
    truth_sigmas: dict[str, float] = field(default_factory=dict)
    """Part of the truth's own error in a quantity, by name; only of a truth that claims an
    accuracy."""


class RunSet(Struct, frozen=True):
    """The judged runs of one side, and those that could not be judged, with the reason."""

    label: str
    runs: list[JudgedRun]
    refused: dict[str, str] = field(default_factory=dict)
    """Reason by file."""


def find(paths: Sequence[str | os.PathLike[str]], task: JudgingTask) -> list[RunFile]:
    """Return the runs in files and folders. Raises :class:`GapError` and RecordingError."""
    known_kinds(task.kinds)
    found: dict[str, RunFile] = {}
    for path in paths:
        for run in (
            _mapped(Path(path), task) if task.mapping else _read_as_they_are(Path(path), task)
        ):
            found.setdefault(os.path.realpath(run.path), run)
    return list(found.values())


def _mapped(path: Path, task: JudgingTask) -> Iterable[RunFile]:
    files = (
        [path]
        if path.is_file()
        else sorted(each for each in path.rglob("*") if each.suffix.lower() in CSV)
    )
    if not path.exists():
        raise RecordingError(f"{path}: there is no such file or folder; name one that holds runs")
    if not files:
        raise RecordingError(f"{path}: holds no CSV file, which --map is for")
    for file in files:
        yield RunFile(file.stem, str(file), _folder(file, path), ())


def _read_as_they_are(path: Path, task: JudgingTask) -> Iterable[RunFile]:
    found = sources(path)
    if task.kinds and not any(set(source.kinds) & set(task.kinds) for source in found):
        there = sorted({kind for source in found for kind in source.kinds})
        raise GapError(
            f"{path}: no recording of kind {', '.join(task.kinds)}; there are: {', '.join(there)}"
        )
    for source in found:
        kinds = tuple(kind for kind in source.kinds if not task.kinds or kind in task.kinds)
        if len(kinds) > 1 and not set(kinds) <= ALTERNATIVES:
            raise GapError(
                f"{source.path}: can be read as {', '.join(kinds)}; choose with --kind {kinds[0]}"
            )
        if kinds:
            yield RunFile(source.name, str(source.path), _folder(source.path, path), kinds)


def _folder(file: Path, root: Path) -> str:
    parts = file.relative_to(root).parts if root.is_dir() and file != root else ()
    # A study keeps the log of each run in a folder of its own, named by a hash.
    return parts[0] if len(parts) > 1 and not re.fullmatch("[0-9a-f]{16}", parts[0]) else ""


def judge_set(
    label: str,
    files: Sequence[RunFile],
    task: JudgingTask,
    *,
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> RunSet:
    """Judge all runs of a set in ``jobs`` processes. Raises what makes the judge itself impossible,
    not what a run lacks."""
    make_judge(task.judge, task.overrides)  # a wrong name or parameter is no fault of the runs
    result = RunSet(label, [])
    if jobs > 1 and len(files) > 1:
        with ProcessPoolExecutor(min(jobs, len(files)), mp_context=get_context("spawn")) as pool:
            judged = zip(files, pool.map(_judge_file, files, [task] * len(files)))
            _collect(judged, result, len(files), progress)
    else:
        _collect(((file, _judge_file(file, task)) for file in files), result, len(files), progress)
    return result


def _collect(
    judged: Iterable[tuple[RunFile, JudgedRun | str]],
    result: RunSet,
    total: int,
    progress: Callable[[str], None],
) -> None:
    progress(f"{result.label}: 0 of {total} runs judged")
    for number, (file, outcome) in enumerate(judged, start=1):
        if isinstance(outcome, str):
            result.refused[file.path] = outcome
        else:
            result.runs.append(outcome)
        progress(f"{result.label}: {number} of {total} runs judged")


def _judge_file(file: RunFile, task: JudgingTask) -> JudgedRun | str:
    """Return the judged run, or why it cannot be judged."""
    try:
        vehicle = load_profile(task.profile).vehicle if task.profile else None
        judge = make_judge(task.judge, task.overrides, vehicle)
        return judge_run(_load(file, task), judge, _manoeuvre(file, task))
    except (GapError, RecordingError, LogError, ProfileError) as error:
        return str(error).removeprefix(f"{file.path}: ")


def judge_run(recording: Recording, judge: DriveJudge, manoeuvre: str | None = None) -> JudgedRun:
    """Judge one run. Its manoeuvre is by default the course in its log. Raises
    :class:`GapError`."""
    track = judge.track(recording)
    if not np.isfinite(track.speed_mps).any():
        raise GapError(_never_started(recording, judge.name))
    measured = measure(recording.truth, track, driven_ns(recording))
    known = recording.truth.t_ns[np.isfinite(recording.truth.speed_mps)]
    return JudgedRun(
        name=recording.name,
        path=recording.source,
        manoeuvre=recording.course if manoeuvre is None else manoeuvre,
        measured=measured,
        truth_hz=_rate_hz(seconds(known)),
        rates_hz=rates_hz_of(recording.inputs),
        truth_sigmas=_truth_sigmas(recording),
    )


def _never_started(recording: Recording, judge: str) -> str:
    """Return why a judge may have given no speed: what the run has, and what estimators need but it
    lacks."""
    rates = rates_hz_of(recording.inputs)
    lacking = [need for need, kinds in _NEEDS.items() if not set(kinds) & set(rates)]
    has = ", ".join(f"{name} at {rate:.3g} Hz" for name, rate in rates.items()) or "no measurement"
    missing = (
        f"it lacks {' and '.join(lacking)}"
        if lacking
        else "its inputs are there, but they never agreed"
    )
    return (
        f"the judge {judge} never started: {missing} (the run has {has}); see docs/gap.md for "
        "what each judge uses"
    )


def _truth_sigmas(recording: Recording) -> dict[str, float]:
    position, yaw, speed = recording.truth_sigma
    # A distance in the plane has the errors of two axes.
    sigmas = {"E": speed, "position": position * sqrt(2.0), "heading": yaw}
    return {name: value for name, value in sigmas.items() if value > 0.0}


def _load(file: RunFile, task: JudgingTask) -> Recording:
    if file.kinds:
        source: RecordingSource = next(
            each for each in sources(file.path) if set(file.kinds) & set(each.kinds)
        )
        found = source.load(file.kinds)
        if not found:
            kind = next(each.kind for each in source.load(None))
            raise GapError(f"is of kind {kind}, which --kind leaves out; add --kind {kind}")
        return found[0]
    with imported(Path(file.path), task.mapping, task.profile or "art_published") as log:
        return mcap.load(log, file.name)


def _manoeuvre(file: RunFile, task: JudgingTask) -> str | None:
    """Return the manoeuvre by the patterns, else by the folder; None: by the log."""
    if not task.manoeuvres:
        return file.folder or None
    path = Path(file.path).as_posix()
    course = _course(file)
    for text in task.manoeuvres:
        name, _, pattern = text.partition("=")
        wanted = pattern or name
        if (
            wanted in path
            or fnmatchcase(path, f"*{wanted}*")
            or (course and fnmatchcase(course, wanted))
        ):
            return name
    raise GapError(
        "belongs to none of the manoeuvres "
        f"{', '.join(text.partition('=')[0] for text in task.manoeuvres)}"
    )


def _course(file: RunFile) -> str:
    if "log" not in file.kinds:
        return ""
    from vehicled.log.reader import LogReader

    with LogReader(file.path) as log:
        return log.header.course


def rates_hz_of(inputs: Sequence[Message]) -> dict[str, float]:
    """Return the rate of each kind of input, Hz. A velocity in fixes is a kind of its own, since it
    helps a judge much."""
    times: dict[str, list[int]] = {}
    for message in inputs:
        if not isinstance(message, ActuatorCommand):
            times.setdefault(type(message).__name__, []).append(message.t_ns)  # type: ignore[attr-defined]
        if isinstance(message, GnssFix) and isfinite(message.velocity_enu_mps[0]):
            times.setdefault("GNSS velocity", []).append(message.t_ns)
    return {
        name: rate
        for name, t_ns in sorted(times.items())
        if (rate := _rate_hz(np.array(t_ns) * 1e-9)) > 0.0
    }


def _rate_hz(t_s: np.ndarray) -> float:
    steps = np.diff(np.unique(t_s))
    median = float(np.median(steps)) if len(steps) else 0.0
    return 1.0 / median if 0.0 < median < _CONTINUOUS_S else 0.0
