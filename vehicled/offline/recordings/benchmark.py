"""Recorded-data benchmark: runs an estimator on every recording of a folder and scores it."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from msgspec import Struct, structs

from vehicled.core.vehicle import Vehicle
from vehicled.estimation.planar.estimator import Planar
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import RecordingSource, known_kinds, sources
from vehicled.offline.recordings.outages import withheld
from vehicled.offline.recordings.recording import Recording, Track
from vehicled.offline.recordings.runner import make_estimator, make_identifier, parameters, run
from vehicled.offline.recordings.scores import Score, ahead_of, score
from vehicled.offline.recordings.set_up import applied, find
from vehicled.profile.registry import names

OUTAGE_S = 3.7
"""Longest time without RTK that is asked to be bridged."""
OUTAGE_EVERY_S = 15.0
"""Room for the filter to recover between two of them."""
RTK_KINDS = ("rtk", "path")


class BenchmarkTask(Struct, frozen=True, kw_only=True):
    """One estimator run of the benchmark."""

    estimator: str
    identifier: str | None = None
    overrides: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    """Kinds to run; empty for all."""
    only: str = ""
    """Part of the name that recordings must have."""
    period_ns: int = 0
    """Period of the steps between the rows; 0 for none."""
    outage_s: float = OUTAGE_S
    """RTK is taken away this long, again and again, in a run of its own from which the outages of
    the score come; 0 for never."""
    folds: int = 0
    """Run ``planar`` on each recording with the constants found in others of its kind, in this many
    parts; 0 for its defaults."""


def default_identifier() -> str | None:
    """The registered identifier, when there is one."""
    return next(iter(names("identifier")), None)


def chosen(path: str, task: BenchmarkTask, vehicle: Vehicle | None = None) -> list[RecordingSource]:
    """Sources of a path that the task may want. Raises :class:`RecordingError` when none is left,
    saying why."""
    known_kinds(task.kinds)
    found = sources(path, vehicle)
    named = [source for source in found if task.only.lower() in source.name.lower()]
    if not named:
        some = ", ".join(source.name for source in found[:5])
        raise RecordingError(
            f"{path}: no recording has {task.only!r} in its name; there are {len(found)}, such "
            f"as {some}"
        )
    wanted = [source for source in named if not task.kinds or set(source.kinds) & set(task.kinds)]
    if not wanted:
        there = sorted({kind for source in named for kind in source.kinds})
        raise RecordingError(
            f"{path}: no recording of kind {', '.join(task.kinds)}; there are: {', '.join(there)}"
        )
    return wanted


def run_all(
    found: Sequence[RecordingSource],
    task: BenchmarkTask,
    report: Callable[[str], None] = lambda _: None,
) -> Iterator[tuple[Recording, Track, Score]]:
    """Run and judge one recording after the other; ``report`` gets each name. Raises what loading
    and running raise."""
    kinds: Collection[str] | None = task.kinds or None
    if task.folds:
        yield from _run_calibrated(
            [recording for source in found for recording in source.load(kinds)], task, report
        )
        return
    for number, source in enumerate(found, start=1):
        for recording in source.load(kinds):
            report(f"{number}/{len(found)} {recording.name} ({recording.kind})")
            yield recording, *judge(recording, task)


def _run_calibrated(
    recordings: Sequence[Recording], task: BenchmarkTask, report: Callable[[str], None]
) -> Iterator[tuple[Recording, Track, Score]]:
    if task.estimator != "planar":
        raise RecordingError(
            f"--calibrated: only planar has constants to find in other drives, not {task.estimator}"
        )
    for kind in dict.fromkeys(recording.kind for recording in recordings):
        same = [recording for recording in recordings if recording.kind == kind]
        if len(same) < 2 or any(recording.vehicle != same[0].vehicle for recording in same):
            raise RecordingError(
                f"--calibrated: kind {kind} needs two or more recordings of one vehicle"
            )
        for fold in range(min(task.folds, len(same))):
            others = [recording for k, recording in enumerate(same) if k % task.folds != fold]
            params = parameters(Planar, "estimator", task.estimator, task.overrides)
            constants = find(others, params, same[0].vehicle, report).after
            for recording in same[fold :: task.folds]:
                fitted, vehicle = applied(params, recording.vehicle, constants)
                known = replace(recording, vehicle=vehicle)
                yield known, *judge(known, task, structs.asdict(fitted))


def judge(
    recording: Recording, task: BenchmarkTask, constants: Mapping[str, Any] | None = None
) -> tuple[Track, Score]:
    """Run one recording and judge it. Outages are judged in a second run, in which RTK is withheld.

    ``constants`` are parameters of the estimator, in place of those of the task.
    """
    track = _run(recording, task, constants)
    bridged = None
    if task.outage_s > 0.0 and recording.kind in RTK_KINDS:
        poorer = withheld(recording, task.outage_s, OUTAGE_EVERY_S)
        bridged = (poorer, _run(poorer, task, constants))
    return track, score(recording, track, task.estimator, bridged)


def _run(recording: Recording, task: BenchmarkTask, constants: Mapping[str, Any] | None) -> Track:
    estimator = make_estimator(task.estimator, constants or task.overrides, recording)
    identifier = make_identifier(task.identifier, task.overrides, recording)
    return run(
        recording, estimator, identifier, period_ns=task.period_ns, ahead_of=ahead_of(recording)
    )
