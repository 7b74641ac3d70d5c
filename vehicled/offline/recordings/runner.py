"""Runs an estimator, and an identifier beside it, over a recording. No clock: time is that of the
recording."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    GnssFix,
    Identification,
    Message,
    StateEstimate,
)
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.interface import Estimator, Identifier
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import Recording, Track, arrival_ns
from vehicled.profile.registry import resolve


def make_estimator(
    name: str, overrides: Mapping[str, Any] | Sequence[str], recording: Recording
) -> Estimator:
    """A registered estimator for a recording. ``overrides`` are parameters by name, or texts
    ``[estimator.][<name>.]key=value``.

    Raises :class:`~vehicled.profile.registry.UnknownNameError` and :class:`RecordingError`, the
    latter naming the parameter.
    """
    kind = resolve("estimator", name)
    given = parameters(kind, "estimator", name, overrides)
    estimator: Estimator = kind(given, recording.vehicle, recording.datum, recording.lever_arm_m)
    return estimator


def make_identifier(
    name: str | None, overrides: Mapping[str, Any] | Sequence[str], recording: Recording
) -> Identifier | None:
    """A registered identifier for a recording, None for the name None or ``"none"``. Raises as
    :func:`make_estimator`."""
    if name is None or name == "none":
        return None
    kind = resolve("identifier", name)
    identifier: Identifier = kind(
        parameters(kind, "identifier", name, overrides), recording.vehicle
    )
    return identifier


def parameters(
    kind: Any, table: str, name: str, overrides: Mapping[str, Any] | Sequence[str]
) -> Any:
    """Return the parameters of an implementation: its defaults, then overrides. Texts of another
    table are passed over."""
    values = (
        dict(overrides) if isinstance(overrides, Mapping) else dict(_texts(table, name, overrides))
    )
    names = [spec.name for spec in msgspec.structs.fields(kind.Params)]
    for key in values:
        if key not in names:
            raise RecordingError(
                f"{table} {name} has no parameter {key}; it has: {', '.join(names)}"
            )
    try:
        return msgspec.convert(values, kind.Params)
    except msgspec.ValidationError as error:
        raise RecordingError(f"{table} {name}: {error}") from None


def _texts(table: str, name: str, overrides: Sequence[str]) -> Iterable[tuple[str, Any]]:
    for text in overrides:
        path, equals, value = text.partition("=")
        if not equals:
            raise RecordingError(f"--set {text}: give it as {table}.parameter=value")
        words = path.strip().split(".")
        if len(words) > 1 and words[0] != table:
            continue
        if len(words) == 3 and words[1] != name:
            continue
        try:
            yield words[-1], msgspec.json.decode(value.strip())
        except msgspec.DecodeError:
            yield words[-1], value.strip()


def run(
    recording: Recording,
    estimator: Estimator,
    identifier: Identifier | None = None,
    *,
    period_ns: int = 0,
    ahead_of: Collection[int] = (),
) -> Track:
    """Feed a recording to an estimator and return the estimate at each of its steps.

    Inputs are given in order of arrival; a command of the very time of a step is given after it, as
    on the vehicle. With ``period_ns`` the estimator is also stepped at that period in between.
    Results of the identifier go to the estimator. At steps ``ahead_of`` the estimator is stepped
    once more before it is given the positions of that step: its prediction of them.
    """
    return _Pass(recording, estimator, identifier, frozenset(ahead_of)).track(period_ns)


class _Pass:
    """One pass over the inputs."""

    def __init__(
        self,
        recording: Recording,
        estimator: Estimator,
        identifier: Identifier | None,
        ahead_of: frozenset[int],
    ) -> None:
        self._recording = recording
        self._estimator = estimator
        self._identifier = identifier
        self._ahead_of = ahead_of
        self._inputs = sorted(recording.inputs, key=arrival_ns)
        self._next = 0
        self._vehicle = recording.vehicle
        self._identified: list[Identification] = []

    def track(self, period_ns: int) -> Track:
        judged = set(self._recording.steps_ns)
        rows: list[StateEstimate] = []
        ahead: list[tuple[float, float]] = []
        vehicles: list[Vehicle] = []
        for now_ns in _times(self._recording.steps_ns, period_ns):
            predicted = (NAN, NAN)
            given, commands = self._arrived(now_ns)
            if now_ns in self._ahead_of:
                self._observe(message for message in given if not isinstance(message, GnssFix))
                before = self._estimator.step(now_ns)
                predicted = (before.x_m, before.y_m)
                self._observe(message for message in given if isinstance(message, GnssFix))
            else:
                self._observe(given)
            estimate = self._estimator.step(now_ns)
            self._identify(estimate, now_ns)
            self._command(commands)
            if now_ns in judged:
                rows.append(estimate)
                ahead.append(predicted)
                vehicles.append(self._vehicle)
        return _track(rows, ahead, self._identified, vehicles)

    def _arrived(self, now_ns: int) -> tuple[list[Message], list[ActuatorCommand]]:
        """Give what came before ``now_ns``; return the measurements of that time, and the commands,
        which follow the step."""
        measured: list[Message] = []
        commands: list[ActuatorCommand] = []
        while self._next < len(self._inputs):
            message = self._inputs[self._next]
            t_ns = arrival_ns(message)
            if t_ns > now_ns:
                break
            self._next += 1
            if isinstance(message, ActuatorCommand):
                if t_ns == now_ns:
                    commands.append(message)
                else:
                    self._command([message])
            elif t_ns == now_ns:
                measured.append(message)
            else:
                self._observe([message])
        return measured, commands

    def _observe(self, messages: Iterable[Message]) -> None:
        for message in messages:
            self._estimator.observe(message)
            if self._identifier is not None:
                self._identifier.observe(message)

    def _command(self, commands: Iterable[ActuatorCommand]) -> None:
        for command in commands:
            self._estimator.command(command)
            if self._identifier is not None:
                self._identifier.command(command)

    def _identify(self, estimate: StateEstimate, now_ns: int) -> None:
        if self._identifier is None:
            return
        found = self._identifier.step(estimate, now_ns)
        if found is not None:
            self._identified.append(found)
            self._vehicle = self._recording.vehicle.identified(found)
            self._estimator.adapt(self._vehicle)


def _times(steps_ns: Sequence[int], period_ns: int) -> Iterable[int]:
    last: int | None = None
    for step_ns in steps_ns:
        if last is not None and period_ns > 0:
            yield from range(last + period_ns, step_ns, period_ns)
        yield step_ns
        last = step_ns


def _track(
    rows: Sequence[StateEstimate],
    ahead: Sequence[tuple[float, float]],
    identified: Sequence[Identification],
    vehicles: Sequence[Vehicle],
) -> Track:
    def column(name: str) -> Any:
        return np.array([getattr(row, name) for row in rows], dtype=np.float64)

    return Track(
        t_ns=np.array([row.t_ns for row in rows], dtype=np.int64),
        x_m=column("x_m"),
        y_m=column("y_m"),
        yaw_rad=column("yaw_rad"),
        speed_mps=column("speed_mps"),
        yaw_rate_radps=column("yaw_rate_radps"),
        covariance=np.array([row.covariance for row in rows], dtype=np.float64).reshape(-1, 4, 4),
        nis=column("normalised_innovation_squared"),
        status=np.array([int(row.status) for row in rows], dtype=np.int64),
        ahead_x_m=np.array([x for x, _ in ahead], dtype=np.float64),
        ahead_y_m=np.array([y for _, y in ahead], dtype=np.float64),
        rejected=rows[-1].rejected if rows else 0,
        identified=tuple(identified),
        vehicles=tuple(vehicles),
    )
