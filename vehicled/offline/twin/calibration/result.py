"""Calibration results."""

from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array, rms
from vehicled.offline.twin.calibration.excitation import UnobservableQuantity
from vehicled.offline.twin.calibration.quantity import CalibratedNumber
from vehicled.offline.twin.calibration.run import RunSegment, SimulatedMotion


class PredictionErrors(Struct, frozen=True, kw_only=True):
    """Open-loop errors of a run; RMS over the rows with known truth."""

    speed_mps: float
    """Speed error from throttle and brake alone."""
    place_m: float
    """Position error from throttle and brake alone."""
    place_at_speed_m: float
    """Position error at the measured speed."""


class RunResult(Struct, frozen=True, kw_only=True):
    """Run with its prediction errors before and after, the latter by a fit without the run if held
    out."""

    name: str
    kind: str
    held_out: bool
    """True if ``after`` comes from a fit without this run."""
    before: PredictionErrors
    after: PredictionErrors


class FittedQuantity(Struct, frozen=True, kw_only=True):
    """Fitted quantity."""

    name: str
    group: str
    unit: str
    before: float
    value: float
    sigma: float
    """One standard deviation: of the fit, or the spread over the folds if larger."""
    fold_spread: float | None
    prior_sigma: float
    prior_share: float
    """Fraction of the knowledge that is the prior's, 0..1: near 1 the drives say nothing, and the
    value is the vehicle's own."""
    prior_pull: float
    """Distance by which the priors move the value, also those of quantities that the drives do not
    separate from it."""
    at_bound: bool

    @property
    def by_prior(self) -> bool:
        """True if the prior decides the value rather than the drives."""
        return self.prior_share > 0.5


class Calibration(Struct, frozen=True, kw_only=True):
    """Complete calibration result."""

    vehicle: str
    runs: list[RunResult]
    """Runs evaluated before an interrupt; see :attr:`stopped`."""
    fitted_on: list[str]
    """Names of the runs that the values were fitted on."""
    found: list[FittedQuantity]
    unseen: list[UnobservableQuantity]
    figures: list[CalibratedNumber]
    correlated: list[tuple[str, str, float]]
    levels: dict[str, float]
    """Fitted charge of the battery by run; predictions do not use it."""
    misaligned_rad: dict[str, float]
    """Heading of the vehicle minus the rig's, by rig. Evaluations use it; the ``after`` of a run
    held out of a fold uses the angle of that fold's fit.
    """
    refused: list[str]
    stopped: bool
    """True if interrupted: values are the best so far, and the remaining folds and runs are
    missing."""

    def summary(self) -> dict[str, Any]:
        """Return mean and worst by error, over the runs predicted by a fit without them, else over
        all; empty without runs."""
        judged = [run for run in self.runs if run.held_out] or self.runs
        mean = {}
        for name in PredictionErrors.__struct_fields__ if judged else ():
            mean[name] = {
                "before": float(np.mean([getattr(run.before, name) for run in judged])),
                "after": float(np.mean([getattr(run.after, name) for run in judged])),
                "worst": float(np.max([getattr(run.after, name) for run in judged])),
            }
        return mean


def errors_of(
    pieces: list[tuple[RunSegment, SimulatedMotion, SimulatedMotion]],
) -> PredictionErrors:
    """Return the errors of one run from its pieces, each with the drives by throttle and at the
    measured speed."""
    speed: list[Array] = []
    place: list[Array] = []
    at_speed: list[Array] = []
    for piece, by_throttle, by_speed in pieces:
        run, rows = piece.run, piece.rows
        speed.append(by_throttle.speed_mps - run.speed_mps[rows])
        for parts, motion in ((place, by_throttle), (at_speed, by_speed)):
            parts.append(np.hypot(motion.x_m - run.x_m[rows], motion.y_m - run.y_m[rows]))
    return PredictionErrors(
        speed_mps=rms(np.concatenate(speed)),
        place_m=rms(np.concatenate(place)),
        place_at_speed_m=rms(np.concatenate(at_speed)),
    )
