"""Values of one actuation tick for monitors and rules. ``RuleInputs`` of
:mod:`vehicled.safety.rule` adds the monitors."""

from msgspec import Struct
from msgspec.structs import force_setattr

from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    EstimatorStatus,
    Mode,
    StateEstimate,
)
from vehicled.core.vehicle import Limits
from vehicled.paths.lateral_offset import PlannedOffset


class SafetyInputs(Struct, frozen=True, kw_only=True):
    """Values of one actuation tick. Ages are in ns, ``ports.NEVER_NS`` if nothing has arrived
    yet."""

    now_ns: int
    mode: Mode
    limits: Limits
    estimate: StateEstimate | None = None
    estimate_age_ns: int = 0
    control: ControlCommand | None = None
    control_age_ns: int = 0
    sent: ActuatorCommand | None = None
    """Last command to the actuators; None before the first."""
    controller_finished: bool = False
    """The controller says that its course is driven, and no wait is left."""
    waiting: bool = False
    """True while the course asks the vehicle to stand where it is, from the braking before a wait
    to its end."""
    actuator_lost: str = ""
    """Reason why the actuator's port cannot be written; empty if it can."""
    task_raised: str = ""
    """Text of the exception that a task raised since the last tick; empty if none."""
    measured_speed_mps: float = float("nan")
    """Speed by wheels and GNSS without the estimate, m/s, negative backward; NaN without a
    measurement."""
    planned_offset: PlannedOffset | None = None
    """Path beside the course along which the controller says that it drives; None for the course
    itself."""
    asked_mps: float = float("nan")
    """Magnitude of the speed that the source of the last command asked for, m/s; NaN if it stated
    none."""
    cap_mps: float = float("inf")
    """Highest speed that rules, profile and request allow now, m/s."""
    setup_fault: str = ""
    """Reason why profile or calibration are not fit to drive with; empty if they are."""

    speed_mps: float = float("nan")
    """Estimated speed, m/s; the measured speed while the estimator is uninitialised; NaN without
    either. It follows from the others, whatever is given for it."""

    def __post_init__(self) -> None:
        # Monitors and rules read it some twenty times per tick.
        if self.estimate is None:
            speed_mps = float("nan")
        elif self.estimate.status is not EstimatorStatus.UNINITIALISED:
            speed_mps = self.estimate.speed_mps
        else:
            speed_mps = self.measured_speed_mps
        force_setattr(self, "speed_mps", speed_mps)

    @property
    def position_sigma_m(self) -> float:
        """Standard deviation of the estimated position in its worst direction, m; NaN without a
        valid one."""
        return self.estimate.position_sigma_m if self.estimate is not None else float("nan")
