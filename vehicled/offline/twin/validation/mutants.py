"""Detection table: vehicles with one wrong parameter, and the runs that show it."""

from collections.abc import Callable, Iterator
from math import inf

from msgspec import Struct

from sim_backend.plant.double_track.checks import ParameterError
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.twin_file import load_twin
from vehicled.core.arrays import rms
from vehicled.offline.twin.validation.drive import drive
from vehicled.offline.twin.validation.evidence import ParameterEffect, judge, weigh
from vehicled.offline.twin.validation.metrics import check_target, deviations
from vehicled.offline.twin.validation.parameters import PARAMETERS
from vehicled.offline.twin.validation.processes import mapped
from vehicled.offline.twin.validation.reference import ReferenceRunError, ReferenceSource, read
from vehicled.offline.twin.validation.runner import (
    Selection,
    chosen_sources,
    judge_reference,
    nothing_chosen,
)
from vehicled.profile import ProfileError

CHANGES_PCT = (-10, -5, 5, 10)
HEALTHY = "none"
"""Name of the unchanged vehicle."""

Mutant = tuple[str, int]
"""Parameter and its change in percent."""
Progress = Callable[[str], None]


class MutantRun(Struct, frozen=True):
    """One run with one mutant."""

    share: float
    """Largest ratio of a figure to its limit; above 1 the run fails."""
    figure: str
    """Name of the figure with that ratio."""
    effects: list[ParameterEffect]


class MutatedRun(Struct, frozen=True):
    """One run with all mutants, and without."""

    source: ReferenceSource
    figures: int
    mutants: dict[Mutant, MutantRun]


class Detection(Struct, frozen=True):
    """Judgement of one mutant by all runs of its vehicle."""

    vehicle: str
    parameter: str
    change_pct: int
    runs: int
    failed: int
    """Number of runs that fail."""
    manoeuvre: str
    """Run that is farthest beyond its limits, or nearest to them."""
    figure: str
    share: float
    together: list[str]
    """Parameters that all runs together show to be off."""

    @property
    def found(self) -> bool:
        return bool(self.failed or self.together)


class DetectionTable(Struct, frozen=True):
    """Detections by vehicle, parameter and change; the unchanged vehicles are those of
    :data:`HEALTHY`."""

    folder: str
    detections: list[Detection]
    problems: list[str]

    @property
    def false_alarms(self) -> list[Detection]:
        return [row for row in self.detections if row.parameter == HEALTHY and row.found]

    @property
    def mutants(self) -> list[Detection]:
        return [row for row in self.detections if row.parameter != HEALTHY]

    def headline(self) -> str:
        """Result in one sentence."""
        parts = []
        for size in sorted({abs(change) for change in CHANGES_PCT}, reverse=True):
            rows = [row for row in self.mutants if abs(row.change_pct) == size]
            parts.append(f"{sum(row.found for row in rows)} of {len(rows)} mutants of {size} %")
        return (
            f"found {', '.join(parts)}; {len(self.false_alarms)} false alarms of unchanged vehicles"
        )


def detect(selection: Selection, *, jobs: int, progress: Progress) -> DetectionTable:
    """Judge every mutant by every run. Raises :class:`ReferenceRunError` for an empty selection."""
    sources, problems = chosen_sources(selection)
    if not sources:
        raise nothing_chosen(selection)
    runs: list[MutatedRun] = []
    for number, (source, outcome) in enumerate(
        zip(sources, mapped(mutate, sources, jobs)), start=1
    ):
        progress(f"{number} of {len(sources)}: {source.name}")
        if isinstance(outcome, str):
            problems.append(f"{source.name}: {outcome}")
        elif outcome.mutants:
            runs.append(outcome)
    return DetectionTable(selection.folder, list(_detections(runs)), problems)


def mutate(source: ReferenceSource) -> MutatedRun | str:
    """Drive one run with every mutant; return the reason if it cannot be compared."""
    try:
        parameters, reference = load_twin(source.twin).parameters, read(source)
    except (ProfileError, ReferenceRunError) as error:
        return str(error)
    healthy = judge_reference(reference, parameters)
    comparison, effects = healthy.comparison, healthy.effects
    if not comparison.limits:
        return MutatedRun(source, 0, {})
    found = {
        (HEALTHY, 0): MutantRun(
            *_nearest(comparison.errors, comparison.limits, comparison.judgement.share),
            comparison.effects,
        )
    }
    for parameter in PARAMETERS:
        for change in CHANGES_PCT:
            try:
                ours = drive(
                    reference, parameter.change(parameters, 1.0 + 0.01 * change), double_track
                )
            except ParameterError:
                continue
            base = deviations(reference, ours, comparison.judged.rows)
            errors = {name: rms(values) for name, values in base.items()}
            share = check_target(
                reference, ours, errors, comparison.limits, comparison.target
            ).share
            along = [] if ours.ended else weigh(base, effects, comparison.limits)
            found[parameter.name, change] = MutantRun(
                *_nearest(errors, comparison.limits, share), along
            )
    return MutatedRun(source, len(comparison.limits), found)


def _nearest(errors: dict[str, float], limits: dict[str, float], share: float) -> tuple[float, str]:
    """Return the share and the figure that has it; a run that ends early or behaves otherwise has
    none."""
    figure = max(
        (name for name in limits if name in errors),
        key=lambda name: errors[name] / limits[name],
        default="",
    )
    return share, "behaviour" if share == inf else figure


def _detections(runs: list[MutatedRun]) -> Iterator[Detection]:
    mutants: list[Mutant] = [
        (HEALTHY, 0),
        *((p.name, change) for p in PARAMETERS for change in CHANGES_PCT),
    ]
    for vehicle in sorted({run.source.twin for run in runs}):
        own = [run for run in runs if run.source.twin == vehicle]
        for mutant in mutants:
            judged = [(run, run.mutants[mutant]) for run in own if mutant in run.mutants]
            if judged:
                yield _detection(vehicle, mutant, judged)


def _detection(
    vehicle: str, mutant: Mutant, judged: list[tuple[MutatedRun, MutantRun]]
) -> Detection:
    nearest, worst = max(judged, key=lambda pair: pair[1].share)
    together = judge((run.source.group, mutated.effects, run.figures) for run, mutated in judged)
    off = {finding.parameter for finding in together if finding.passed is False}
    failed = sum(not run.share <= 1.0 for _, run in judged)
    name = nearest.source.name.partition("/")[2]
    return Detection(
        vehicle, *mutant, len(judged), failed, name, worst.figure, worst.share, sorted(off)
    )
