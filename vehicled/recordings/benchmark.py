"""Recorded-data benchmark: runs an estimator on every recording of a folder and scores it."""

from collections.abc import Callable, Collection, Iterator, Sequence

from msgspec import Struct

from vehicled.recordings.errors import RecordingError
from vehicled.recordings.loading import Source, known_kinds, sources
from vehicled.recordings.outages import withheld
from vehicled.recordings.recording import Recording, Track
from vehicled.recordings.runner import make_estimator, make_identifier, run
from vehicled.recordings.scores import Score, ahead_of, score
from vehicled.registry import names
from vehicled.vehicle import Vehicle

OUTAGE_S = 3.7
"""Longest time without RTK that is asked to be bridged."""
OUTAGE_EVERY_S = 15.0
"""Room for the filter to recover between two of them."""
RTK_KINDS = ("rtk", "path")


class Task(Struct, frozen=True, kw_only=True):
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
    """RTK is taken away this long, again and again, in a run of its own from which the outages of the score come; 0 for never."""


def default_identifier() -> str | None:
    """The registered identifier, when there is one."""
    return next(iter(names("identifier")), None)


def chosen(path: str, task: Task, vehicle: Vehicle | None = None) -> list[Source]:
    """Sources of a path that the task may want. Raises :class:`RecordingError` when none is left, saying why."""
    known_kinds(task.kinds)
    found = sources(path, vehicle)
    named = [source for source in found if task.only.lower() in source.name.lower()]
    if not named:
        some = ", ".join(source.name for source in found[:5])
        raise RecordingError(f"{path}: no recording has {task.only!r} in its name; there are {len(found)}, such as {some}")
    wanted = [source for source in named if not task.kinds or set(source.kinds) & set(task.kinds)]
    if not wanted:
        there = sorted({kind for source in named for kind in source.kinds})
        raise RecordingError(f"{path}: no recording of kind {', '.join(task.kinds)}; there are: {', '.join(there)}")
    return wanted


def run_all(
    found: Sequence[Source], task: Task, tell: Callable[[str], None] = lambda _: None
) -> Iterator[tuple[Recording, Track, Score]]:
    """Run and judge one recording after the other; ``tell`` hears which one is next. Raises what loading and running raise."""
    kinds: Collection[str] | None = task.kinds or None
    for number, source in enumerate(found, start=1):
        for recording in source.load(kinds):
            tell(f"{number}/{len(found)} {recording.name} ({recording.kind})")
            yield recording, *judge(recording, task)


def judge(recording: Recording, task: Task) -> tuple[Track, Score]:
    """Run one recording and judge it. Outages are judged in a second run, in which RTK is withheld."""
    track = _run(recording, task)
    bridged = None
    if task.outage_s > 0.0 and recording.kind in RTK_KINDS:
        poorer = withheld(recording, task.outage_s, OUTAGE_EVERY_S)
        bridged = (poorer, _run(poorer, task))
    return track, score(recording, track, task.estimator, bridged)


def _run(recording: Recording, task: Task) -> Track:
    estimator = make_estimator(task.estimator, task.overrides, recording)
    identifier = make_identifier(task.identifier, task.overrides, recording)
    return run(recording, estimator, identifier, period_ns=task.period_ns, ahead_of=ahead_of(recording))
