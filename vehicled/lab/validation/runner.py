"""Validation runner: all reference runs of a folder, and every vehicle against theory."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from fnmatch import fnmatch
from multiprocessing import get_context

import numpy as np
from msgspec import Struct

from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.twin_file import load_twin, names
from vehicled.lab.validation.drive import drive
from vehicled.lab.validation.metrics import check_target, errors_of
from vehicled.lab.validation.reference import ReferenceRunError, ReferenceSource, find, read
from vehicled.lab.validation.result import (
    FailedRun,
    RunComparison,
    StatusCounts,
    TheoryCheck,
    Validation,
    count_provenance,
    worst_first,
)
from vehicled.lab.validation.targets import target_of
from vehicled.lab.validation.theory import check_vehicle
from vehicled.profile import ProfileError

Progress = Callable[[str], None]


class Selection(Struct, frozen=True):
    """Selection of runs to validate."""

    folder: str
    vehicle: str = ""
    """Name of our file or of the reference's vehicle; empty: all."""
    run: str = ""
    """Pattern of a run's name; empty: all."""
    theory: bool = True


def run_all(selection: Selection, *, jobs: int, progress: Progress) -> Validation:
    """Validate. Raises :class:`ReferenceRunError` for an empty selection. The result does not depend on the number of processes."""
    found = find(selection.folder)
    sources = [source for source in found.sources if _chosen(source, selection)]
    shipped = [name for name in names() if selection.vehicle in ("", name)]
    vehicles = shipped if selection.theory and not selection.run else []
    if not sources and not vehicles:
        known = ", ".join(sorted({source.twin for source in found.sources} | set(names()))) or "none"
        raise ReferenceRunError(f"{selection.folder}: no run matches --vehicle and --run; known vehicles: {known}")
    comparisons: list[RunComparison] = []
    failures: list[FailedRun] = []
    checks: list[TheoryCheck] = []
    tasks: list[ReferenceSource | str] = [*sources, *vehicles]
    for number, (task, outcome) in enumerate(zip(tasks, _mapped(tasks, jobs)), start=1):
        progress(f"{number} of {len(tasks)}: {task if isinstance(task, str) else task.name}")
        if isinstance(outcome, RunComparison):
            comparisons.append(outcome)
        elif isinstance(outcome, FailedRun):
            failures.append(outcome)
        else:
            checks += outcome
    used = sorted({comparison.source.twin for comparison in comparisons} | set(vehicles))
    problems = found.problems if not (selection.vehicle or selection.run) else []
    return Validation(selection.folder, worst_first(comparisons), failures, problems, checks, list(_provenances(used)))


def _mapped(tasks: list[ReferenceSource | str], jobs: int) -> Iterable[RunComparison | FailedRun | list[TheoryCheck]]:
    if jobs == 1 or len(tasks) < 2:
        return map(_do, tasks)
    return _in_processes(tasks, min(jobs, len(tasks)))


def _in_processes(tasks: list[ReferenceSource | str], jobs: int) -> Iterator[RunComparison | FailedRun | list[TheoryCheck]]:
    # Spawn, because a fork of a process with numpy threads may hang.
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        yield from pool.map(_do, tasks, chunksize=4)


def _do(task: ReferenceSource | str) -> RunComparison | FailedRun | list[TheoryCheck]:
    return _check(task) if isinstance(task, str) else compare(task)


def compare(source: ReferenceSource) -> RunComparison | FailedRun:
    """Compare one run with our model. File errors become a :class:`FailedRun`."""
    try:
        twin = load_twin(source.twin)
        reference = read(source)
    except (ProfileError, ReferenceRunError) as error:
        return FailedRun(source, str(error))
    ours = drive(reference, twin.parameters, double_track)
    peak = float(np.abs(reference.lateral_acceleration_mps2).max())
    target = target_of(source.family, source.vehicle, source.model, source.manoeuvre, peak)
    errors = errors_of(reference, ours)
    return RunComparison(reference, ours, errors, target, check_target(reference, ours, errors, target))


def _check(vehicle: str) -> list[TheoryCheck]:
    try:
        twin = load_twin(vehicle)
    except ProfileError as error:
        return [TheoryCheck(vehicle, "vehicle file", str(error), "loads without errors", False)]
    return check_vehicle(twin.parameters)


def _chosen(source: ReferenceSource, selection: Selection) -> bool:
    if selection.vehicle not in ("", source.twin, source.vehicle):
        return False
    return not selection.run or fnmatch(source.name, selection.run) or fnmatch(source.name.partition("/")[2], selection.run)


def _provenances(vehicles: list[str]) -> Iterator[StatusCounts]:
    for vehicle in vehicles:
        try:
            twin = load_twin(vehicle)
        except ProfileError:
            continue  # Reported as a failed check of that vehicle.
        yield count_provenance(vehicle, [entry.status for entry in twin.provenance.values()])
