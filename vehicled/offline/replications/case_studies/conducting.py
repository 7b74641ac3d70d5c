"""Conduct case studies: all their drives at once in worker processes, then the verdicts."""

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from vehicled.offline.processes import WorkerPool
from vehicled.offline.race.drive import course_text, drive_line
from vehicled.offline.race.limits import MARGIN_RATIO, limits_of
from vehicled.offline.race.line import race_line
from vehicled.offline.race.source import load_track
from vehicled.offline.replications.case_studies.declarations import (
    CaseDrive,
    CaseStudy,
    RacingStudy,
    drives_of,
)
from vehicled.offline.replications.case_studies.driving import drive_case
from vehicled.offline.replications.case_studies.judging import CaseOutcome, RaceOutcome
from vehicled.profile import load_profile

_Task = CaseDrive | RacingStudy


def conduct(
    studies: Sequence[CaseStudy], jobs: int | None, progress: Callable[[int, int], None]
) -> list[list[CaseOutcome]]:
    """Drive all that the studies need, and return the outcomes by study.

    ``progress`` is called with the numbers of finished and of all drives. Raises the errors of
    :meth:`vehicled.offline.processes.WorkerPool.map`.
    """
    tasks: list[list[_Task]] = [
        [study] if isinstance(study, RacingStudy) else list(drives_of(study)) for study in studies
    ]
    flat = [task for each in tasks for task in each]
    with WorkerPool(jobs) as processes:
        found = iter(processes.map(_perform, flat, lambda done: progress(done, len(flat))))
    return [[next(found) for _ in each] for each in tasks]


def _perform(shared: None, task: _Task) -> CaseOutcome:
    return drive_race(task) if isinstance(task, RacingStudy) else drive_case(None, task)


def drive_race(study: RacingStudy) -> RaceOutcome:
    """Find the race line of the track and drive it with the controller of the profile."""
    profile = load_profile(study.profile)
    source = load_track(study.track)
    line = race_line(
        source.track,
        limits_of(profile.vehicle, profile.limits),
        margin_m=MARGIN_RATIO * profile.vehicle.width_m,
    )
    with TemporaryDirectory(prefix="vehicled_race_") as folder:
        course = Path(folder) / "line.csv"
        course.write_text(course_text(line, study.track), encoding="utf-8")
        (lap,) = drive_line(
            line,
            study.profile,
            profile,
            (),
            course,
            source.scene,
            [profile.controller.name],
            jobs=1,
        )
    return RaceOutcome(line, lap)
