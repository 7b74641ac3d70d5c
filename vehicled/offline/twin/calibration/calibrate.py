"""Calibration from drives to parameters: observability, fit, and prediction of drives left out of
the fit.

Steering and tyres are fitted first at the measured speed, free of errors of the drive model; then
the drive, from its commands; and if the drive bends the path, the steering again with it. Folds:
each run is predicted once by a fit of the others.
"""

from collections.abc import Callable, Collection, Sequence

import numpy as np

from vehicled.core.errors import UserError
from vehicled.offline.processes import WorkerPool
from vehicled.offline.twin.calibration import excitation
from vehicled.offline.twin.calibration.excitation import UnobservableQuantity
from vehicled.offline.twin.calibration.fit import FitStage, Fitted, Report
from vehicled.offline.twin.calibration.quantity import CalibrationModel, Group, Quantity
from vehicled.offline.twin.calibration.result import (
    Calibration,
    FittedQuantity,
    PredictionErrors,
    RunResult,
    errors_of,
)
from vehicled.offline.twin.calibration.run import (
    CalibrationRun,
    CalibrationRunError,
    RunSegment,
    as_measured,
    checked,
    pieces,
)

CORRELATED = 0.95
UNSETTLED = 0.25
"""Ratio of posterior to prior standard deviation above which a correlated quantity counts as not
separated from the other."""
BARELY_SEEN = 0.9
"""Ratio of posterior to prior standard deviation above which the drives carry no information."""


class CalibrationError(UserError, ValueError):
    """The drives do not determine any parameter; the text says why and what to drive."""


def calibrate(
    model: CalibrationModel,
    runs: Sequence[CalibrationRun],
    *,
    groups: Collection[Group],
    friction: float,
    held_out: Collection[str] = (),
    folds: int = 0,
    kind_of: Callable[[str], str] = lambda name: name.rpartition("/")[0],
    report: Report = lambda text: None,
    processes: WorkerPool | None = None,
) -> Calibration:
    """Fit ``groups`` on the runs except those named in ``held_out``. With ``folds`` each run is
    held out of one further fit.

    ``friction`` is the vehicle's grip over weight. ``processes`` simulate the drives, if given.
    KeyboardInterrupt ends the present stage (fit, folds or open-loop drives) and keeps the results
    so far. Raises :class:`CalibrationError`.
    """
    used, refused = _usable(runs)
    fitted_on = [run for run in used if run.name not in held_out]
    if not fitted_on:
        raise CalibrationError(
            "; ".join(refused) or "all runs are held out; leave at least one to fit on"
        )
    all_pieces = pieces(used)
    wanted, seen, unseen = _seen(model, fitted_on, groups, friction)

    def others_of(fitted: Sequence[Quantity]) -> list[Quantity]:
        return [quantity for quantity in wanted if quantity.alone and quantity not in fitted]

    fit_pieces = [piece for piece in all_pieces if piece.run.name not in held_out]
    stages = _fit(model, fit_pieces, seen, others_of(seen), report, None, processes)
    if left_out := _undetermined(stages):
        seen = [
            quantity for quantity in seen if quantity.name not in {one.name for one in left_out}
        ]
        unseen = unseen + left_out
        if not seen:
            raise CalibrationError(
                "; ".join(f"{one.name}: {one.why}; {one.cure}" for one in left_out)
            )
        stages = _fit(model, fit_pieces, seen, others_of(seen), report, _values(stages), processes)
    values = _values(stages)
    stopped = any(stage.stopped for stage in stages)
    others: list[dict[str, float]] = []
    misaligned = _misaligned(stages)
    predicted = dict.fromkeys(held_out, (values, misaligned))
    if folds > 1 and not stopped:
        names = [run.name for run in fitted_on]
        parts = _parts(names, kind_of, min(folds, len(names)))
        for number, part in enumerate(parts, start=1):
            rest = [piece for piece in fit_pieces if piece.run.name not in part]
            about = f"fold {number} of {len(parts)}, "
            each = _fit(
                model,
                rest,
                seen,
                [],
                lambda text, about=about: report(about + text),  # type: ignore[misc]
                values,
                processes,
            )
            if any(stage.stopped for stage in each):
                stopped = True
                break
            others.append(_values(each))
            predicted |= dict.fromkeys(part, (others[-1], _misaligned(each)))
    results: list[RunResult] = []
    try:
        report("driving every run open loop")
        for index, run in enumerate(used):
            own = [piece for piece in all_pieces if piece.index == index]
            before = _errors(model, own, {}, misaligned)
            after = _errors(model, own, *predicted.get(run.name, (values, misaligned)))
            held = run.name in predicted
            results.append(
                RunResult(
                    name=run.name, kind=kind_of(run.name), held_out=held, before=before, after=after
                )
            )
    except KeyboardInterrupt:
        stopped = True
    found = _found(stages, others)
    sigma = {one.name: one.sigma for one in found}
    levels = {used[index].name: level for stage in stages for index, level in stage.levels.items()}
    return Calibration(
        vehicle=model.name, runs=results, fitted_on=[run.name for run in fitted_on], found=found,
        unseen=unseen, figures=model.figures(values, sigma), correlated=_correlated(stages),
        levels=levels, misaligned_rad=misaligned, refused=refused, stopped=stopped,
    )  # fmt: skip


def _usable(runs: Sequence[CalibrationRun]) -> tuple[list[CalibrationRun], list[str]]:
    used, refused = [], []
    for run in runs:
        try:
            used.append(checked(run))
        except CalibrationRunError as error:
            refused.append(str(error))
    return used, refused


def _seen(
    model: CalibrationModel,
    runs: Sequence[CalibrationRun],
    groups: Collection[Group],
    friction: float,
) -> tuple[list[Quantity], list[Quantity], list[UnobservableQuantity]]:
    """Return the wanted quantities, those that the drives may show, and the others."""
    quantities = model.quantities(excitation.levels(runs), excitation.top_mps(runs))
    wanted = [quantity for quantity in quantities if quantity.group in groups]
    seen, unseen = excitation.choose(wanted, excitation.shown(runs, friction))
    if not seen:
        reasons = (
            "; ".join(f"{one.name}: {one.why}: {one.cure}" for one in unseen)
            or "the vehicle has no such quantities"
        )
        raise CalibrationError(f"nothing can be fitted of {', '.join(groups)}: {reasons}")
    return wanted, seen, unseen


def _fit(
    model: CalibrationModel,
    parts: Sequence[RunSegment],
    seen: Sequence[Quantity],
    considered: Sequence[Quantity],
    report: Report,
    begin: dict[str, float] | None,
    processes: WorkerPool | None,
) -> list[Fitted]:
    """Fit ``seen``, with what is known of ``considered`` in the standard deviations."""
    stages = []
    fixed: dict[str, float] = {}
    for by_speed, word in ((False, "steering"), (True, "drive")):
        own, other = (
            [quantity for quantity in some if quantity.by_speed is by_speed]
            for some in (seen, considered)
        )
        if not own:
            continue
        rows = [part for part in parts if by_speed or part.run.turns]
        stage = FitStage(
            model, rows, own, fixed, by_speed=by_speed, considered=other, processes=processes
        )
        stages.append(stage.solve(lambda text, word=word: report(f"{word}: {text}"), begin))  # type: ignore[misc]
        fixed |= stages[-1].values
        if stages[-1].stopped:
            return stages
    if len(stages) == 2 and any(quantity.bends_path for quantity in seen):
        path, drive = stages
        turning = [part for part in parts if part.run.turns]
        other = [quantity for quantity in considered if not quantity.by_speed]
        refit = FitStage(
            model,
            turning,
            path.quantities,
            drive.values,
            by_speed=False,
            considered=other,
            processes=processes,
        )
        stages[0] = refit.solve(lambda text: report(f"steering again: {text}"), path.values)
    return stages


def _undetermined(stages: Sequence[Fitted]) -> list[UnobservableQuantity]:
    """Return the quantities that the drives do not determine and that can be left out singly.

    Of two that the drives hardly separate the later one, the finer, is left out; then the others
    are looked at again without it.
    """
    if any(stage.stopped for stage in stages):
        return []
    found = []
    for stage in stages:
        kept = list(range(len(stage.quantities)))
        while True:
            covariance = np.linalg.inv(np.linalg.inv(stage.shown)[np.ix_(kept, kept)])
            deviation = np.sqrt(np.diag(covariance))
            quantities = [stage.quantities[k] for k in kept]
            barely = [
                n
                for n, q in enumerate(quantities)
                if q.alone and deviation[n] > BARELY_SEEN * q.sigma
            ]
            correlation = np.tril(np.abs(covariance / np.outer(deviation, deviation)), -1)
            correlation[
                [
                    n
                    for n, q in enumerate(quantities)
                    if not q.alone or deviation[n] < UNSETTLED * q.sigma
                ]
            ] = 0.0
            last, other = divmod(int(np.argmax(correlation)), len(kept))
            if barely:
                last = barely[-1]
                why, cure = "the drives hardly depend on it", excitation.cure(quantities[last])
            elif correlation[last, other] > CORRELATED:
                why = f"the drives do not separate it from {quantities[other].name}"
                cure = " and ".join(
                    dict.fromkeys(excitation.cure(quantities[n]) for n in (last, other))
                )
            else:
                break
            found.append(UnobservableQuantity(quantities[last].name, why, cure))
            del kept[last]
            if not kept:
                break
    return found


def _values(stages: Sequence[Fitted]) -> dict[str, float]:
    return {name: value for stage in stages for name, value in stage.values.items()}


def _misaligned(stages: Sequence[Fitted]) -> dict[str, float]:
    return {rig: angle_rad for stage in stages for rig, angle_rad in stage.misaligned_rad.items()}


def _errors(
    model: CalibrationModel,
    own: Sequence[RunSegment],
    values: dict[str, float],
    misaligned_rad: dict[str, float],
) -> PredictionErrors:
    step_s = model.steps_s()[1]
    drives = []
    for piece in own:
        angle_rad = misaligned_rad.get(piece.run.rig, 0.0)
        by_throttle, by_speed = (
            as_measured(model.drive(piece, values, step_s, at_speed=at_speed), piece, angle_rad)
            for at_speed in (False, True)
        )
        drives.append((piece, by_throttle, by_speed))
    return errors_of(drives)


def _parts(names: Sequence[str], kind_of: Callable[[str], str], folds: int) -> list[list[str]]:
    """Distribute names over folds, kind by kind, so that every fold holds out some of each kind
    with several."""
    dealt: list[list[str]] = [[] for _ in range(folds)]
    for number, name in enumerate(sorted(names, key=lambda name: (kind_of(name), name))):
        dealt[number % folds].append(name)
    return [part for part in dealt if part]


def _found(stages: Sequence[Fitted], others: Sequence[dict[str, float]]) -> list[FittedQuantity]:
    found = []
    for stage in stages:
        for k, quantity in enumerate(stage.quantities):
            value = stage.values[quantity.name]
            each = [other[quantity.name] for other in others if quantity.name in other]
            # Fits of folds share most of their runs, so use the jackknife spread.
            n = len(each)
            spread = (
                float(np.sqrt((n - 1) / n * ((np.array(each) - np.mean(each)) ** 2).sum()))
                if n > 1
                else None
            )
            sigma = max(float(np.sqrt(stage.covariance[k, k])), spread or 0.0)
            room = 1e-3 * quantity.sigma
            found.append(
                FittedQuantity(
                    name=quantity.name, group=quantity.group, unit=quantity.unit,
                    before=quantity.start, value=value, sigma=sigma, fold_spread=spread,
                    prior_sigma=quantity.sigma,
                    prior_share=min(float(stage.shown[k, k]) / quantity.sigma**2, 1.0),
                    prior_pull=stage.pulls.get(quantity.name, 0.0),
                    at_bound=not quantity.lower + room < value < quantity.upper - room,
                )
            )  # fmt: skip
    return found


def _correlated(stages: Sequence[Fitted]) -> list[tuple[str, str, float]]:
    """Return the pairs of quantities that the drives hardly separate."""
    found = []
    for stage in stages:
        scale = np.sqrt(np.diag(stage.covariance))
        names = [quantity.name for quantity in stage.quantities]
        correlation = stage.covariance / np.outer(scale, scale)
        for i in range(len(names)):
            found += [
                (names[i], names[j], float(correlation[i, j]))
                for j in range(i)
                if abs(correlation[i, j]) > CORRELATED
            ]
    return found
