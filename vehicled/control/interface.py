"""Controller interface: the base class that every controller implements."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from vehicled.core.messages import (
    ControlCommand,
    LaserScan,
    NeighbourState,
    PlannedMotion,
    StateEstimate,
)
from vehicled.core.vehicle import Vehicle
from vehicled.paths.lateral_offset import PlannedOffset


class Controller(ABC):
    """Base class of the controllers, each built for one course. Controllers never read a clock,
    block or raise.

    The daemon calls ``controller(params, vehicle, limits, course, period_s)`` with the nominal step
    period. ``throttle``, ``brake`` and ``wheel_angle_rad`` are finite and within their limits for
    any input; the response to an estimate that is not finite is the brake.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[controller.<name>]`` of
    the profile."""
    follows_course: ClassVar[bool] = True
    """False for open-loop programmes, to which corridor, curvature ahead and resume position do not
    apply."""

    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {}
    """Numbers of ``Params`` that may be changed during a run, by dotted key, each with its lowest
    and highest value."""

    @property
    @abstractmethod
    def finished(self) -> bool:
        """True once the end of the course has been reached; the vehicle is then held until
        :meth:`reset`."""

    @abstractmethod
    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Return the command for a state, to take effect after the vehicle's delays."""

    @abstractmethod
    def adapt(self, vehicle: Vehicle) -> None:
        """Use newly identified vehicle parameters. Keeps progress and plans."""

    @abstractmethod
    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """Forget the last drive and start at the beginning of the course, or at arc length ``s_m``.

        ``wheel_rad`` is the wheel angle commanded now.
        """

    @property
    def lateral_offset(self) -> PlannedOffset | None:
        """Path beside the course that is being driven, along which obstacles are judged; None for
        the course itself."""
        return None

    def planned_motion(self, now_ns: int) -> PlannedMotion | None:
        """Return the motion planned after the last step, for other vehicles; None if the controller
        knows none. Asked only where a radio broadcasts it."""
        return None

    # Optional hooks: a controller overrides those it needs.

    def on_deadline_miss(self) -> None:  # noqa: B027
        """Handle a missed deadline of the last step; ignored by default."""

    def limit_speed(self, cap_mps: float) -> None:  # noqa: B027
        """Set the speed cap before each step; infinite means no cap. Above it the command gate
        removes the drive. Ignored by default."""

    def on_scan(self, scan: LaserScan) -> None:  # noqa: B027
        """Receive the newest laser scan before the next step, for controllers that look around.
        Ignored by default."""

    def on_neighbour(self, state: NeighbourState) -> None:  # noqa: B027
        """Receive the state that another vehicle broadcast, before the next step. Ignored by
        default."""

    def on_command_sent(self, throttle: float, brake: float) -> None:  # noqa: B027
        """Receive the actuator command that the gate derived from the last step, for controllers
        that learn. Ignored by default."""
