"""A law of steering as a controller: what all laws that steer through a :class:`~vehicled.control.helm.Helm` have in common."""

from abc import ABC, abstractmethod

from vehicled.control.helm import Helm, Scene, Wish
from vehicled.messages import ControlCommand, StateEstimate
from vehicled.vehicle import Vehicle


class PathLaw(ABC):
    """Keeps the :class:`~vehicled.control.interface.Controller` protocol; a law adds its parameters and :meth:`_steer`."""

    def __init__(self, helm: Helm) -> None:
        self._helm = helm

    @property
    def finished(self) -> bool:
        """Whether the end of the course has been reached."""
        return self._helm.finished

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Wheel angle, throttle and brake for the state; see :class:`~vehicled.control.interface.Controller`."""
        return self._helm.step(estimate, now_ns, self._steer)

    def adapt(self, vehicle: Vehicle) -> None:
        """Drive with other parameters from now on; see :class:`~vehicled.control.interface.Controller`."""
        self._helm.adapt(vehicle)

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """Begin to drive; see :class:`~vehicled.control.interface.Controller`."""
        self._helm.reset(s_m, wheel_rad)

    def limit_speed(self, cap_mps: float) -> None:
        """See :class:`~vehicled.control.interface.Controller`."""
        self._helm.limit_speed(cap_mps)

    def sent(self, throttle: float, brake: float) -> None:
        """See :class:`~vehicled.control.interface.Controller`."""
        self._helm.sent(throttle, brake)

    @abstractmethod
    def _steer(self, scene: Scene) -> Wish:
        """The law: where the wheels should point, and what it has to say about speed."""
