"""The gap between simulated and real runs: comparison per manoeuvre and over all, what cannot be
said, and a verdict in words."""

import os
from collections.abc import Callable, Mapping, Sequence
from math import isfinite, isnan
from statistics import median

import numpy as np
from msgspec import Struct, structs

from vehicled.core.arrays import Array
from vehicled.daemon.reference import too_coarse
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.quantities import MEANINGS, PUBLISHED, RATE_HZ, UNITS
from vehicled.offline.gap.runs import JudgedRun, JudgingTask, RunSet, find, judge_set
from vehicled.offline.gap.statistics import (
    CONFIDENCE,
    DISTANCES,
    ENOUGH_REAL,
    SetComparison,
    compare,
)

ALL = "all"
"""Name of the comparison over all manoeuvres."""
RATE_RATIO = 1.2
"""Rates of one input that differ by more are named."""
LENGTH_RATIO = 2.0
"""Durations that differ by more are named."""
SHORT_SHARE = 0.9
"""Runs of which a smaller part was judged are named."""


class ModelGap(Struct, frozen=True):
    """One set of simulated runs against the real ones."""

    simulated: RunSet
    manoeuvres: dict[str, SetComparison]
    """Comparisons by manoeuvre, and :data:`ALL` last; empty where nothing can be compared."""
    notes: list[str]
    """Limits of the comparison, or reasons that make it impossible."""

    @property
    def verdict(self) -> str:
        """The result over all manoeuvres in words."""
        whole = self.manoeuvres.get(ALL)
        if whole is None:
            return "cannot be said: " + (self.notes[0] if self.notes else "no runs")
        if isnan(whole.p):
            return (
                f"cannot be said: {whole.real} real and {whole.simulated} simulated runs are "
                "too few for a test at 5 %"
            )
        if whole.p > 1.0 - CONFIDENCE:
            return (
                f"indistinguishable from real within the floor (p = {whole.p:.2g}); found "
                f"would be {whole.smallest_found:.3g}"
            )
        size = "" if isnan(whole.floors) else f" by {whole.floors:.2g} floors"
        return f"different from real{size} (p = {whole.p:.2g})"

    @property
    def different(self) -> bool | None:
        """True if the runs differ from the real ones at 5 %; None where that cannot be said."""
        whole = self.manoeuvres.get(ALL)
        return None if whole is None or isnan(whole.p) else whole.p <= 1.0 - CONFIDENCE


class Gap(Struct, frozen=True):
    """All sets of simulated runs against the real ones."""

    real: RunSet
    models: list[ModelGap]
    quantities: tuple[str, ...]
    distance: str
    judge: str
    notes: list[str]

    @property
    def name(self) -> str:
        """Name of the total: VEPD for the published quantities and distance."""
        return (
            "VEPD"
            if self.quantities == PUBLISHED and self.distance == "wasserstein"
            else self.distance
        )

    def rows(self) -> list[dict[str, str | float]]:
        """Return a row for each run: set, run, manoeuvre, all quantities, duration, part that was
        judged."""
        return [
            {"set": each.label, "run": run.name, "manoeuvre": run.manoeuvre}
            | run.measured.values
            | {"duration_s": run.measured.duration_s, "share": run.measured.share}
            for each in (self.real, *(model.simulated for model in self.models))
            for run in each.runs
        ]

    def ranks(self) -> dict[str, dict[str, int]]:
        """Return the rank of each model by manoeuvre and label: 1 is the nearest to the real
        runs."""
        names = dict.fromkeys(name for model in self.models for name in model.manoeuvres)
        found = {}
        for name in names:
            totals = {
                model.simulated.label: model.manoeuvres[name].total
                for model in self.models
                if name in model.manoeuvres
            }
            found[name] = {
                label: k for k, label in enumerate(sorted(totals, key=totals.__getitem__), start=1)
            }
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return the columns and rows of the table of results."""
        ranks = self.ranks()
        columns = [
            "runs",
            "manoeuvre",
            "real",
            "sim.",
            *(f"W({name})" if self.name == "VEPD" else name for name in self.quantities),
        ]
        columns += [
            self.name,
            "95 %",
            "floor",
            "x floor",
            "p",
            *(["rank"] if len(self.models) > 1 else []),
        ]
        rows = []
        for model in self.models:
            for name, found in model.manoeuvres.items():
                rows.append([model.simulated.label, name, str(found.real), str(found.simulated)])
                rows[-1] += [f"{found.distances[quantity]:.4f}" for quantity in self.quantities]
                rows[-1] += [
                    f"{found.total:.4f}",
                    _range(found.interval.low, found.interval.high),
                    _number(found.floor.median),
                ]
                rows[-1] += [_number(found.floors, ".1f"), _number(found.p, ".3f")]
                rows[-1] += (
                    [str(ranks[name][model.simulated.label])] if len(self.models) > 1 else []
                )
        return columns, rows

    def text(self) -> str:
        """Return verdicts and notes as lines."""
        lines = [f"{model.simulated.label}: {model.verdict}" for model in self.models]
        for label, notes in (
            ("real", self.notes),
            *((model.simulated.label, model.notes) for model in self.models),
        ):
            lines += [f"note: {label}: {note}" for note in notes]
        return "\n".join(lines) + "\n"

    def plot(self, file: str | os.PathLike[str]) -> None:
        """Draw quantiles of each set against those of the real runs. Needs matplotlib. Raises
        SetupError."""
        from vehicled.offline.gap.picture import draw

        draw(self, file)

    def plot_histograms(self, file: str | os.PathLike[str]) -> None:
        """Draw how often each value of each quantity occurs, by manoeuvre. Needs matplotlib. Raises
        SetupError."""
        from vehicled.offline.gap.picture import draw_histograms

        draw_histograms(self, file)

    def plot_speeds(self, file: str | os.PathLike[str]) -> None:
        """Draw true and judged speed of one run of each set and manoeuvre. Needs matplotlib. Raises
        SetupError."""
        from vehicled.offline.gap.picture import draw_speeds

        draw_speeds(self, file)


def gap(
    real: Sequence[str | os.PathLike[str]],
    simulated: Mapping[str, Sequence[str | os.PathLike[str]]],
    task: JudgingTask,
    *,
    quantities: Sequence[str] = PUBLISHED,
    distance: str = "wasserstein",
    jobs: int = 1,
    progress: Callable[[str], None] = lambda _: None,
) -> Gap:
    """Judge all runs and compare each simulated set with the real one.

    ``simulated``: files and folders by label. Raises :class:`GapError`, RecordingError,
    UnknownNameError and ProfileError.
    """
    for name in quantities:
        if name not in MEANINGS:
            raise GapError(f"unknown quantity {name!r}: there are {', '.join(MEANINGS)}")
    if distance not in DISTANCES:
        raise GapError(f"unknown distance {distance!r}: there are {', '.join(DISTANCES)}")
    if not real or not simulated:
        raise GapError("name real runs and simulated runs")
    # Simulated runs are logs or simulated paths, whatever kind of recording the real ones are.
    task_of_simulated = structs.replace(
        task, kinds=(*task.kinds, "log", "path_sim") if task.kinds else ()
    )
    files = {label: find(paths, task_of_simulated) for label, paths in simulated.items()}
    files_of_real = find(real, task)
    both = {run.path for run in files_of_real} & {
        run.path for runs in files.values() for run in runs
    }
    if both:
        raise GapError(f"{min(both)}: is named as real and as simulated")
    judged = judge_set("real", files_of_real, task, jobs=jobs, progress=progress)
    models = [
        judge_set(label, runs, task, jobs=jobs, progress=progress) for label, runs in files.items()
    ]
    return compare_sets(judged, models, quantities=quantities, distance=distance, judge=task.judge)


def compare_sets(
    real: RunSet,
    models: Sequence[RunSet],
    *,
    quantities: Sequence[str] = PUBLISHED,
    distance: str = "wasserstein",
    judge: str = "",
) -> Gap:
    """Compare judged sets. What cannot be compared is in the notes."""
    names = tuple(quantities)
    return Gap(
        real,
        [_model(real, model, names, distance) for model in models],
        names,
        distance,
        judge,
        _notes_of_set(real),
    )


def _model(real: RunSet, simulated: RunSet, names: Sequence[str], distance: str) -> ModelGap:
    notes: list[str] = []
    real_runs, runs = _complete(real, names, notes), _complete(simulated, names, notes)
    groups = {run.manoeuvre for run in real_runs} & {run.manoeuvre for run in runs}
    if real_runs and runs and not groups:
        listed = [
            ", ".join(sorted({run.manoeuvre or "-" for run in each})) for each in (real_runs, runs)
        ]
        notes.append(
            f"no manoeuvre is named alike in both sets (real: {listed[0]}; here: {listed[1]}): "
            "all runs are compared together; name manoeuvres with --manoeuvre"
        )
        groups = {""}
        real_runs, runs = (
            [structs.replace(run, manoeuvre="") for run in each] for each in (real_runs, runs)
        )
    for label, judged in (("real runs", real_runs), ("runs", runs)):
        left_out = sorted({run.manoeuvre for run in judged} - groups)
        if left_out:
            notes.append(
                f"{label} of {', '.join(left_out)} have no counterpart: nothing can be said of them"
            )
    real_runs = [run for run in real_runs if run.manoeuvre in groups]
    runs = [run for run in runs if run.manoeuvre in groups]
    manoeuvres: dict[str, SetComparison] = {}
    if not real_runs or not runs:
        notes.insert(0, f"{len(real_runs)} real and {len(runs)} simulated runs can be judged")
        return ModelGap(simulated, manoeuvres, notes + _notes_of_set(simulated))
    for group in sorted(groups) if len(groups) > 1 else ():
        here, there = (
            _matrix([run for run in judged if run.manoeuvre == group], names)
            for judged in (real_runs, runs)
        )
        manoeuvres[group or "-"] = compare(here, there, names, distance=distance)
    manoeuvres[ALL] = compare(
        _matrix(real_runs, names),
        _matrix(runs, names),
        names,
        real_groups=[run.manoeuvre for run in real_runs],
        simulated_groups=[run.manoeuvre for run in runs],
        distance=distance,
    )
    notes += (
        _notes_of_sizes(real_runs, runs)
        + _notes_of_inputs(real_runs, runs)
        + _notes_of_set(simulated)
    )
    return ModelGap(simulated, manoeuvres, notes)


def _complete(runs: RunSet, names: Sequence[str], notes: list[str]) -> list[JudgedRun]:
    """Return the runs that have all quantities."""
    complete = [
        run for run in runs.runs if not any(isnan(run.measured.values[name]) for name in names)
    ]
    if len(complete) < len(runs.runs):
        lacking = next(run for run in runs.runs if run not in complete)
        name = next(name for name in names if isnan(lacking.measured.values[name]))
        notes.append(
            f"{len(runs.runs) - len(complete)} {runs.label} runs say nothing of {name}, such "
            f"as {lacking.path}"
        )
    return complete


def _matrix(runs: Sequence[JudgedRun], names: Sequence[str]) -> Array:
    return np.array(
        [[run.measured.values[name] for name in names] for run in runs], dtype=np.float64
    )


def _notes_of_set(runs: RunSet) -> list[str]:
    notes = [f"{path} is left out: {why}" for path, why in list(runs.refused.items())[:3]]
    if len(runs.refused) > 3:
        notes.append(f"{len(runs.refused) - 3} more runs are left out")
    partly = [run for run in runs.runs if run.measured.share < SHORT_SHARE]
    if partly:
        notes.append(
            f"{len(partly)} runs have gaps in truth or estimate; their longest stretch without "
            f"one is judged, {min(run.measured.share for run in partly):.0%} at least"
        )
    slow = [run.truth_hz for run in runs.runs if 0.0 < run.truth_hz < RATE_HZ * 0.99]
    if slow:
        notes.append(
            f"the true speed of {len(slow)} runs is known at {median(slow):.3g} Hz, below the "
            f"{RATE_HZ:g} Hz at which it is compared: S sees less of its spectrum"
        )
    return notes + _notes_of_truth(runs)


def _notes_of_truth(runs: RunSet) -> list[str]:
    """Name the quantities that a reference system is not accurate enough to judge."""
    notes = []
    for name in UNITS:
        coarse = [
            (run.truth_sigmas[name], run.measured.values[name])
            for run in runs.runs
            if name in run.truth_sigmas
            and too_coarse(run.truth_sigmas[name], run.measured.values[name])
        ]
        if coarse:
            sigma, error = (median(pair[k] for pair in coarse) for k in (0, 1))
            claim = f"claims {sigma:.2g} {UNITS[name]}" if isfinite(sigma) else "claims no accuracy"
            notes.append(
                f"the truth of {len(coarse)} runs {claim}, more than a third of their {name} of "
                f"{error:.2g} {UNITS[name]}: it cannot judge that"
            )
    return notes


def _notes_of_sizes(real: Sequence[JudgedRun], simulated: Sequence[JudgedRun]) -> list[str]:
    notes = []
    if len(real) == 1 or len(simulated) == 1:
        side = "real" if len(real) == 1 else "simulated"
        notes.append(f"one {side} run has no spread: no interval can be given")
    if len(real) < ENOUGH_REAL:
        notes.append(
            f"{len(real)} real runs give no noise floor: at least {ENOUGH_REAL} are needed"
        )
    here, there = (median(run.measured.duration_s for run in runs) for runs in (real, simulated))
    if max(here, there) > LENGTH_RATIO * min(here, there):
        notes.append(
            f"real runs last {here:.0f} s and simulated ones {there:.0f} s: "
            "E and S depend on the length, so part of the gap may be that"
        )
    return notes


def _notes_of_inputs(real: Sequence[JudgedRun], simulated: Sequence[JudgedRun]) -> list[str]:
    notes = []
    rates = [
        {
            name: median(run.rates_hz[name] for run in runs if name in run.rates_hz)
            for name in {n for run in runs for n in run.rates_hz}
        }
        for runs in (real, simulated)
    ]
    for name in sorted({*rates[0], *rates[1]}):
        here, there = (each.get(name, 0.0) for each in rates)
        if not here or not there:
            side = "simulated" if there else "real"
            notes.append(f"only the {side} runs have {name}: the judge sees different inputs")
        elif max(here, there) > RATE_RATIO * min(here, there):
            notes.append(
                f"{name} comes at {here:.3g} Hz in real and at {there:.3g} Hz in simulated "
                "runs: the judge sees different inputs"
            )
    return notes


def _number(value: float, form: str = ".4f") -> str:
    return "" if isnan(value) else format(value, form)


def _range(low: float, high: float) -> str:
    return "" if isnan(low) else f"{low:.4f} to {high:.4f}"


def describe(names: Sequence[str]) -> list[str]:
    """Return a line for each quantity: its meaning and unit."""
    return [
        f"{name}: {MEANINGS[name]}{f', {UNITS[name]}' if UNITS[name] else ''}" for name in names
    ]
