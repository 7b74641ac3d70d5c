"""Search for the best values of a study's factors with optuna."""

from collections.abc import Sequence
from importlib import import_module
from math import inf
from statistics import fmean
from typing import Any

from vehicled.offline.studies.campaign import Campaign, Progress, StudyState
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.design import Factor, Level
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.pool import Pool
from vehicled.offline.studies.specification import Optimisation, Point


def optimise(campaign: Campaign, pool: Pool, progress: Progress) -> list[RunRow]:
    """Drive the trials batch by batch; return the rows of all.

    A trial is the mean of its metric over the seeds of the study. Batches are chosen from the
    results of earlier ones in order, so a second call asks for the same trials, finds those that
    were driven in the table, and goes on.
    """
    try:
        optuna: Any = import_module("optuna")
    except ImportError:
        raise StudyError("optimise", ["needs optuna: pip install 'vehicled[optimise]'"]) from None
    wanted = campaign.specification.optimise
    assert wanted is not None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    search = optuna.create_study(direction=wanted.direction, sampler=_sampler(optuna, wanted))
    specification = campaign.specification
    searched = [factor for factor in specification.factors if factor.name != "seed"]
    seeds: Sequence[Level | None] = next(
        (factor.levels for factor in specification.factors if factor.name == "seed"), (None,)
    )
    space = _space(optuna, campaign, searched)
    rows: list[RunRow] = []
    size = wanted.trials * len(seeds)
    progress(StudyState(0, size, 0, 0))
    failed = driven = 0
    for first in range(0, wanted.trials, wanted.batch):
        trials = [search.ask(space) for _ in range(min(wanted.batch, wanted.trials - first))]
        batch: list[Point] = []
        for i, trial in enumerate(trials):
            levels = {
                each.name: each.level(trial.params[each.name]) for each in specification.intervals
            }
            levels |= {factor.name: factor.levels[trial.params[factor.name]] for factor in searched}
            for j, seed in enumerate(seeds):
                number = (first + i) * len(seeds) + j + 1
                batch.append(
                    specification.point(number, levels if seed is None else levels | {"seed": seed})
                )
        found: dict[int, RunRow] = {}
        before = driven
        for row in campaign.drive(batch, pool):
            found[row.number] = row
            driven = before + campaign.driven
            failed += row.outcome != "finished"
            progress(StudyState(len(rows) + len(found), size, failed, driven, _best(search)))
        measured = [
            row.metrics.get(wanted.metric) for row in found.values() if row.outcome == "finished"
        ]
        if measured and all(value is None for value in measured):
            raise StudyError(
                "optimise.metric",
                [f"no finished drive has {wanted.metric}: choose a metric that this course gives"],
            )
        for i, trial in enumerate(trials):
            search.tell(
                trial,
                _value(
                    wanted, [found[(first + i) * len(seeds) + j + 1] for j in range(len(seeds))]
                ),
            )
        rows += found.values()
    return rows


def best_trial(rows: Sequence[RunRow], wanted: Optimisation) -> tuple[dict[str, Any], float] | None:
    """Return levels and value of the best trial; None if no run of any trial finished."""
    trials: dict[str, list[RunRow]] = {}
    for row in rows:
        trials.setdefault(
            str({name: level for name, level in row.levels.items() if name != "seed"}), []
        ).append(row)
    good = [each for each in trials.values() if all(row.outcome == "finished" for row in each)]
    if not good:
        return None
    sign = 1.0 if wanted.direction == "minimize" else -1.0
    best = min(good, key=lambda each: sign * _value(wanted, each))
    return {name: level for name, level in best[0].levels.items() if name != "seed"}, _value(
        wanted, best
    )


def _value(wanted: Optimisation, rows: Sequence[RunRow]) -> float:
    worst = wanted.failed if wanted.direction == "minimize" else -wanted.failed
    values = [row.metrics.get(wanted.metric) for row in rows if row.outcome == "finished"]
    measured = [value for value in values if value is not None]
    return fmean(measured) if len(measured) == len(rows) else worst


def _best(search: Any) -> float | None:
    try:
        value: float = search.best_value
    except ValueError:
        return None
    return value if abs(value) < inf else None


def _sampler(optuna: Any, wanted: Optimisation) -> Any:
    kinds = {
        "tpe": optuna.samplers.TPESampler,
        "cmaes": optuna.samplers.CmaEsSampler,
        "random": optuna.samplers.RandomSampler,
        "gp": optuna.samplers.GPSampler,
    }
    try:
        return kinds[wanted.sampler](seed=wanted.seed)
    except ImportError as error:
        raise StudyError(
            "optimise.sampler", [f"{wanted.sampler} needs another library: {error}"]
        ) from None


def _space(optuna: Any, campaign: Campaign, searched: Sequence[Factor]) -> dict[str, Any]:
    of = optuna.distributions
    space: dict[str, Any] = {}
    for each in campaign.specification.intervals:
        if each.whole:
            space[each.name] = of.IntDistribution(int(each.low), int(each.high))
        else:
            space[each.name] = of.FloatDistribution(each.low, each.high, log=each.log)
    for factor in searched:
        # By index: a level may be any value.
        space[factor.name] = of.CategoricalDistribution(list(range(len(factor.levels))))
    return space
