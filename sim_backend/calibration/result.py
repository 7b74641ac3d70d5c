"""What a calibration found."""

from typing import Any

import numpy as np
from msgspec import Struct

from sim_backend.calibration.excitation import Unseen
from sim_backend.calibration.quantity import Figure
from sim_backend.calibration.run import Array, Motion, Piece


class Errors(Struct, frozen=True, kw_only=True):
    """Of a run, open loop; RMS over the rows whose truth is known."""

    speed_mps: float
    """From throttle and brake alone."""
    place_m: float
    """From throttle and brake alone."""
    place_at_speed_m: float
    """At the measured speed."""


class RunResult(Struct, frozen=True, kw_only=True):
    """A run and how well it is foretold: as the vehicle was, and as it is after a fit that had not seen the run."""

    name: str
    kind: str
    held_out: bool
    """Whether ``after`` is of a fit without this run."""
    before: Errors
    after: Errors


class Found(Struct, frozen=True, kw_only=True):
    """One quantity of the fit."""

    name: str
    group: str
    unit: str
    before: float
    value: float
    sigma: float
    """One standard deviation: of the fit, or the spread over the folds where that is larger."""
    fold_spread: float | None
    prior_sigma: float
    at_bound: bool


class Calibration(Struct, frozen=True, kw_only=True):
    """All of it."""

    vehicle: str
    runs: list[RunResult]
    """Those that were driven open loop before it was ended; see :attr:`stopped`."""
    fitted_on: list[str]
    """Names of the runs that the numbers found come from."""
    found: list[Found]
    unseen: list[Unseen]
    figures: list[Figure]
    correlated: list[tuple[str, str, float]]
    levels: dict[str, float]
    """Charge of the battery by run, as the fit had it; no run is foretold with its own."""
    misaligned_rad: dict[str, float]
    """Heading of the vehicle less the one that a rig gives, by rig. Every drive is judged by it, but for what a fold held out: its
    ``after`` takes the angle that the fold's own fit found."""
    refused: list[str]
    stopped: bool
    """Ended by hand: the numbers are the best until then, folds and runs that were to come are missing."""

    def summary(self) -> dict[str, Any]:
        """Mean and worst by error, over the runs that were foretold by a fit without them, else over all; empty without any run."""
        judged = [run for run in self.runs if run.held_out] or self.runs
        mean = {}
        for name in Errors.__struct_fields__ if judged else ():
            mean[name] = {
                "before": float(np.mean([getattr(run.before, name) for run in judged])),
                "after": float(np.mean([getattr(run.after, name) for run in judged])),
                "worst": float(np.max([getattr(run.after, name) for run in judged])),
            }
        return mean


def errors_of(pieces: list[tuple[Piece, Motion, Motion]]) -> Errors:
    """Of the pieces of one run, each with what was driven by throttle and at the measured speed."""
    speed: list[Array] = []
    place: list[Array] = []
    at_speed: list[Array] = []
    for piece, by_throttle, by_speed in pieces:
        run, rows = piece.run, piece.rows
        speed.append(by_throttle.speed_mps - run.speed_mps[rows])
        for parts, motion in ((place, by_throttle), (at_speed, by_speed)):
            parts.append(np.hypot(motion.x_m - run.x_m[rows], motion.y_m - run.y_m[rows]))
    return Errors(speed_mps=_rms(speed), place_m=_rms(place), place_at_speed_m=_rms(at_speed))


def _rms(parts: list[Array]) -> float:
    values = np.concatenate(parts)
    values = values[np.isfinite(values)]
    return float(np.sqrt((values**2).mean())) if len(values) else float("nan")
