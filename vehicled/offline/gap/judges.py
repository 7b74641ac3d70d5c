"""Judges: state estimators at 35 Hz whose error is compared. All runs get the same judge with the
same parameters."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from vehicled.core.messages import ActuatorCommand, Mode
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.interface import Estimator
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.quantities import JudgeTrack
from vehicled.offline.recordings.recording import Recording, Times, arrival_ns
from vehicled.offline.recordings.runner import parameters, run
from vehicled.profile.registry import resolve

RATE_HZ = 35.0
"""Rate of the judge, as published."""
MAX_SPAN_S = 10_000.0
"""Largest duration of a run: almost three hours. Beyond it the stamps are wrong."""


class DriveJudge(Protocol):
    """A state estimator with fixed parameters, started anew for each run."""

    name: str

    def track(self, recording: Recording) -> JudgeTrack:
        """Estimate a run. Raises :class:`GapError`."""
        ...


class EstimatorJudge:
    """One of the estimators by name, or a user's own by ``FILE.py:NAME``, with its default
    parameters unless overridden."""

    def __init__(
        self, name: str, overrides: Sequence[str] = (), vehicle: Vehicle | None = None
    ) -> None:
        """``overrides``: texts ``[estimator.]key=value``. ``vehicle`` is assumed of every run;
        without it each run's own."""
        self.name = name
        self._kind = resolve("estimator", name)
        self._params = parameters(self._kind, "estimator", name, overrides)
        self._vehicle = vehicle

    def track(self, recording: Recording) -> JudgeTrack:
        """Estimate a run."""
        steps = steps_of(recording)
        vehicle = self._vehicle or recording.vehicle
        estimator: Estimator = self._kind(
            self._params, vehicle, recording.datum, recording.lever_arm_m
        )
        found = run(replace(recording, steps_ns=steps.tolist(), vehicle=vehicle), estimator)
        return JudgeTrack(
            found.t_ns, found.x_m, found.y_m, found.yaw_rad, found.speed_mps, found.nis
        )


def steps_of(recording: Recording, rate_hz: float = RATE_HZ) -> Times:
    """Return the times at which the judge is stepped, from the first to the last input. Raises
    :class:`GapError`."""
    if not recording.inputs:
        raise GapError("holds no measurement")
    arrivals = [arrival_ns(message) for message in recording.inputs]
    first_ns, last_ns = min(arrivals), max(arrivals)
    if last_ns - first_ns > MAX_SPAN_S * 1e9:
        raise GapError(
            f"lasts {(last_ns - first_ns) * 1e-9:.0f} s by its stamps, more than "
            f"{MAX_SPAN_S:.0f} s: cut it"
        )
    count = int((last_ns - first_ns) * 1e-9 * rate_hz) + 1
    return first_ns + np.round(np.arange(count) * (1e9 / rate_hz)).astype(np.int64)


def driven_ns(recording: Recording) -> tuple[int, int] | None:
    """Return the time of the first and the last command in AUTO; None for a run without
    commands."""
    times = [
        m.t_ns for m in recording.inputs if isinstance(m, ActuatorCommand) and m.mode is Mode.AUTO
    ]
    return (min(times), max(times)) if times else None
