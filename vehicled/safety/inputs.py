"""Values of one actuation tick for monitors and rules. ``RuleInputs`` of :mod:`vehicled.safety.rule` adds the monitors."""

from msgspec import Struct

from vehicled.messages import ActuatorCommand, ControlCommand, EstimatorStatus, Mode, StateEstimate
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.safety.entry import CourseEntry
from vehicled.vehicle import Limits


class SafetyInputs(Struct, frozen=True, kw_only=True):
    """Values of one actuation tick. Ages are in ns, ``ports.NEVER_NS`` if nothing has arrived yet."""

    now_ns: int
    mode: Mode
    limits: Limits
    estimate: StateEstimate | None = None
    estimate_age_ns: int = 0
    control: ControlCommand | None = None
    control_age_ns: int = 0
    sent: ActuatorCommand | None = None
    """Last command to the actuators; None before the first."""
    course_finished: bool = False
    actuator_lost: str = ""
    """Reason why the actuator's port cannot be written; empty if it can."""
    task_raised: str = ""
    """Text of the exception that a task raised since the last tick; empty if none."""
    entry: CourseEntry | None = None
    """Entry point of the next drive; None without a course."""
    measured_speed_mps: float = float("nan")
    """Speed by wheels and GNSS without the estimate, m/s, negative backward; NaN without a measurement."""
    lateral_offset: LateralOffset | None = None
    """Path that the controller plans beside the course; None for the course itself."""
    asked_mps: float = float("nan")
    """Magnitude of the speed that the source of the last command asked for, m/s; NaN if it stated none."""
    cap_mps: float = float("inf")
    """Highest speed that rules, profile and request allow now, m/s."""
    setup_fault: str = ""
    """Reason why profile or calibration are not fit to drive with; empty if they are."""

    @property
    def speed_mps(self) -> float:
        """Estimated speed, m/s; the measured speed while the estimator is uninitialised; NaN without either."""
        if self.estimate is None:
            return float("nan")
        if self.estimate.status is not EstimatorStatus.UNINITIALISED:
            return self.estimate.speed_mps
        return self.measured_speed_mps

    @property
    def position_sigma_m(self) -> float:
        """Standard deviation of the estimated position in its worst direction, m; NaN without a valid one."""
        return self.estimate.position_sigma_m if self.estimate is not None else float("nan")

    @property
    def cross_track_m(self) -> float:
        """Cross-track error of the last control command, m, positive left; NaN without one."""
        return self.control.cross_track_m if self.control is not None else float("nan")

    @property
    def heading_error_rad(self) -> float:
        """Heading error of the last control command, rad; NaN without one."""
        return self.control.heading_error_rad if self.control is not None else float("nan")
