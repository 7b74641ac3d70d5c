"""What a controller is to the rest of the daemon."""

from typing import Any, ClassVar, Protocol

from vehicled.messages import ControlCommand, StateEstimate
from vehicled.paths.course import Course
from vehicled.vehicle import Limits, Vehicle


class Controller(Protocol):
    """Drives one course. Time is an argument; nothing here reads a clock, waits or raises.

    Whatever comes in, ``throttle``, ``brake`` and ``wheel_angle_rad`` go out finite and within their limits; an estimate that is
    not finite is answered by the brake.

    It may also have ``late()``, called when its task missed a deadline, ``limit_speed(cap_mps)``, called before each step with
    the speed beyond which the gate lets nothing accelerate, infinite is no limit, and ``sent(throttle, brake)``, what the gate
    made of the last command: who learns from the motion must know what moved the vehicle.
    """

    Params: ClassVar[type[Any]]
    """Frozen msgspec Struct with a default for every field; the table ``[controller.<name>]`` of the profile."""

    def __init__(self, params: Any, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        """``period_s`` is the nominal time between two steps."""
        ...

    @property
    def finished(self) -> bool:
        """Whether the end of the course has been reached; the vehicle is being held from then on, until ``reset``."""
        ...

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Command for the state, to take effect after the delays of the vehicle."""
        ...

    def adapt(self, vehicle: Vehicle) -> None:
        """Drive with these parameters from now on: what was identified while driving. Keeps progress and plans."""
        ...

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """Begin to drive with nothing remembered: at the start of the course, or at the arc length where a drive had ended.

        ``wheel_rad`` is the wheel angle that is commanded now.
        """
        ...
