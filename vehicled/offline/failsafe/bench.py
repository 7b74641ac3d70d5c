"""Daemon and simulator in one process, with an estimator and a controller whose outputs can be
corrupted."""

from collections.abc import Callable
from typing import Any

from vehicled.control.interface import Controller
from vehicled.estimation.interface import Estimator
from vehicled.run.pair import Pair as InProcessPair


class Faulty:
    """Wraps an estimator or a controller and corrupts what its steps return while ``spoil`` is set.

    An attribute that is set, such as ``finished``, is what it says from then on.
    """

    def __init__(self, sound: Estimator | Controller) -> None:
        self._sound: Any = sound
        self.spoil: Callable[[Any], Any] | None = None
        """Function applied to each estimate or command; it may raise, like a defect in a task."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sound, name)

    def step(self, *arguments: Any) -> Any:
        output = self._sound.step(*arguments)
        return output if self.spoil is None else self.spoil(output)


class WrappedPair(InProcessPair):
    """Daemon and simulator in one process, with the wrapper above round estimator and
    controller."""

    def around(self, estimator: Estimator, controller: Controller) -> tuple[Estimator, Controller]:
        """Wrap estimator and controller."""
        self.estimator, self.controller = Faulty(estimator), Faulty(controller)
        return self.estimator, self.controller  # type: ignore[return-value]
