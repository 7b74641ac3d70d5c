"""Validation runner: all reference runs of a folder, and every vehicle against theory."""

from collections.abc import Callable, Iterator
from fnmatch import fnmatch

import numpy as np
from msgspec import Struct

from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.twin_file import load_twin, names
from vehicled.core.arrays import rms
from vehicled.offline.twin.validation.drive import drive
from vehicled.offline.twin.validation.evidence import (
    Deviations,
    Finding,
    effects_of,
    judge,
    weigh,
    widened,
)
from vehicled.offline.twin.validation.manoeuvre import traits_of
from vehicled.offline.twin.validation.metrics import check_target, deviations, judged_rows
from vehicled.offline.twin.validation.processes import mapped
from vehicled.offline.twin.validation.reference import (
    ReferenceRun,
    ReferenceRunError,
    ReferenceSource,
    find,
    read,
)
from vehicled.offline.twin.validation.result import (
    FailedRun,
    RunComparison,
    StatusCounts,
    TheoryCheck,
    Validation,
    count_provenance,
    worst_first,
)
from vehicled.offline.twin.validation.targets import target_of
from vehicled.offline.twin.validation.theory import check_vehicle
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
    """Validate. Raises :class:`ReferenceRunError` for an empty selection. The result does not
    depend on the number of processes."""
    sources, problems = chosen_sources(selection)
    shipped = [name for name in names() if selection.vehicle in ("", name)]
    vehicles = shipped if selection.theory and not selection.run else []
    if not sources and not vehicles:
        raise nothing_chosen(selection)
    comparisons: list[RunComparison] = []
    failures: list[FailedRun] = []
    checks: list[TheoryCheck] = []
    tasks: list[ReferenceSource | str] = [*sources, *vehicles]
    for number, (task, outcome) in enumerate(zip(tasks, mapped(_do, tasks, jobs)), start=1):
        progress(f"{number} of {len(tasks)}: {task if isinstance(task, str) else task.name}")
        if isinstance(outcome, RunComparison):
            comparisons.append(outcome)
        elif isinstance(outcome, FailedRun):
            failures.append(outcome)
        else:
            checks += outcome
    used = sorted({comparison.source.twin for comparison in comparisons} | set(vehicles))
    provenance, findings = list(_provenances(used)), findings_of(comparisons)
    return Validation(
        selection.folder, worst_first(comparisons), failures, problems, checks, provenance, findings
    )


def chosen_sources(selection: Selection) -> tuple[list[ReferenceSource], list[str]]:
    """Return the selected runs, and the messages about the folder if all of it is selected."""
    found = find(selection.folder)
    problems = found.problems if not (selection.vehicle or selection.run) else []
    return [source for source in found.sources if _chosen(source, selection)], problems


def nothing_chosen(selection: Selection) -> ReferenceRunError:
    """Return the error of an empty selection, with the vehicles that can be chosen."""
    known = (
        ", ".join(sorted({source.twin for source in find(selection.folder).sources} | set(names())))
        or "none"
    )
    return ReferenceRunError(
        f"{selection.folder}: no run matches --vehicle and --run; known vehicles: {known}"
    )


def _do(task: ReferenceSource | str) -> RunComparison | FailedRun | list[TheoryCheck]:
    return _check(task) if isinstance(task, str) else compare(task)


def compare(source: ReferenceSource) -> RunComparison | FailedRun:
    """Compare one run with our model. File errors become a :class:`FailedRun`."""
    try:
        twin = load_twin(source.twin)
        reference = read(source)
    except (ProfileError, ReferenceRunError) as error:
        return FailedRun(source, str(error))
    return judge_reference(reference, twin.parameters).comparison


class ValidatedRun(Struct, frozen=True, eq=False):
    """A comparison with the effects of the parameters as arrays by parameter and figure."""

    comparison: RunComparison
    effects: dict[str, Deviations]


def judge_reference(reference: ReferenceRun, parameters: TwinParameters) -> ValidatedRun:
    """Drive a run with a vehicle and compare it with its target."""
    source = reference.source
    peak = float(np.abs(reference.lateral_acceleration_mps2).max())
    target = target_of(source.family, source.vehicle, source.model, traits_of(reference), peak)
    ours = drive(reference, parameters, double_track)
    rows = judged_rows(reference, ours)

    def deviate(changed: TwinParameters) -> Deviations:
        return deviations(reference, drive(reference, changed, double_track), rows.rows)

    base = deviations(reference, ours, rows.rows)
    errors = {name: rms(values) for name, values in base.items()}
    effects = effects_of(parameters, deviate, base) if target.limits and base else {}
    limits = widened(
        {name: limit for name, limit in target.limits.items() if name in base}, effects
    )
    judgement = check_target(reference, ours, errors, limits, target)
    weighed = weigh(base, effects, limits)
    return ValidatedRun(
        RunComparison(reference, ours, rows, errors, limits, target, judgement, weighed), effects
    )


def findings_of(comparisons: list[RunComparison]) -> list[Finding]:
    """Estimate the parameters of every vehicle and model from all its judged runs."""
    return judge(
        (comparison.source.group, comparison.effects, len(comparison.limits))
        for comparison in comparisons
    )


def _check(vehicle: str) -> list[TheoryCheck]:
    try:
        twin = load_twin(vehicle)
    except ProfileError as error:
        return [TheoryCheck(vehicle, "vehicle file", str(error), "loads without errors", False)]
    return check_vehicle(twin.parameters)


def _chosen(source: ReferenceSource, selection: Selection) -> bool:
    if selection.vehicle not in ("", source.twin, source.vehicle):
        return False
    return (
        not selection.run
        or fnmatch(source.name, selection.run)
        or fnmatch(source.name.partition("/")[2], selection.run)
    )


def _provenances(vehicles: list[str]) -> Iterator[StatusCounts]:
    for vehicle in vehicles:
        try:
            twin = load_twin(vehicle)
        except ProfileError:
            continue  # Reported as a failed check of that vehicle.
        yield count_provenance(vehicle, [entry.status for entry in twin.provenance.values()])
