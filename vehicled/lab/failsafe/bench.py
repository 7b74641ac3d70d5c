"""Daemon and simulator in one process, with an estimator and a controller whose outputs can be corrupted."""

from collections.abc import Callable
from typing import Any

from vehicled.control.interface import Controller
from vehicled.estimation.interface import Estimator
from vehicled.messages import ControlCommand, StateEstimate
from vehicled.run.pair import Pair as InProcessPair
from vehicled.vehicle import Vehicle


class FaultyEstimator:
    """Wraps an estimator and corrupts its estimates while ``spoil`` is set."""

    def __init__(self, sound: Estimator) -> None:
        self._sound = sound
        self.spoil: Callable[[StateEstimate], StateEstimate] | None = None
        """Function applied to each estimate; it may raise, like a defect in a task."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sound, name)

    def step(self, now_ns: int) -> StateEstimate:
        estimate = self._sound.step(now_ns)
        return estimate if self.spoil is None else self.spoil(estimate)


class FaultyController(Controller):
    """Wraps a controller and corrupts its commands while ``spoil`` is set."""

    def __init__(self, sound: Controller) -> None:
        self._sound = sound
        self.spoil: Callable[[ControlCommand], ControlCommand] | None = None
        """Function applied to each command; it may raise."""

    @property
    def finished(self) -> bool:
        return self._sound.finished

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        command = self._sound.step(estimate, now_ns)
        return command if self.spoil is None else self.spoil(command)

    def adapt(self, vehicle: Vehicle) -> None:
        self._sound.adapt(vehicle)

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        self._sound.reset(s_m, wheel_rad)

    def on_deadline_miss(self) -> None:
        self._sound.on_deadline_miss()

    def limit_speed(self, cap_mps: float) -> None:
        self._sound.limit_speed(cap_mps)

    def on_command_sent(self, throttle: float, brake: float) -> None:
        self._sound.on_command_sent(throttle, brake)


class Pair(InProcessPair):
    """Daemon and simulator in one process, with the wrappers above."""

    def around(self, estimator: Estimator, controller: Controller) -> tuple[Estimator, Controller]:
        """Wrap estimator and controller."""
        self.estimator, self.controller = FaultyEstimator(estimator), FaultyController(controller)
        return self.estimator, self.controller  # type: ignore[return-value]
