"""Records of Autoware's vehicle interface from our messages. Pure, like
:mod:`~vehicled.ros.projections`: stamps are wall time, ``offset_ns`` more than ours."""

from enum import IntEnum
from math import exp, isfinite

from msgspec import Struct

from vehicled.core.messages import EstimatorStatus, Mode, StateEstimate
from vehicled.ros.projections import BASE_LINK
from vehicled.ros.standard import encode

ACCELERATION_FILTER_S = 0.2
"""Time constant of the low pass over the acceleration, about that of Autoware's ``twist2accel``."""
LONGEST_STEP_S = 0.5
"""Interval of two estimates beyond which their difference is no acceleration, s."""
NOT_KNOWN = (0.0,) * 36
"""Covariance of zeros: not known."""


class AutowareTypes(Struct, frozen=True):
    """Names of the types in one generation of Autoware."""

    control: str
    vehicle: str
    """Package of reports and commands of the vehicle."""
    trajectory: str

    def report(self, name: str) -> str:
        """Return the type of a report or command of the vehicle."""
        return f"{self.vehicle}/{name}"


CURRENT = AutowareTypes(
    "autoware_control_msgs/Control", "autoware_vehicle_msgs", "autoware_planning_msgs/Trajectory"
)
AUTO = AutowareTypes(
    "autoware_auto_control_msgs/AckermannControlCommand",
    "autoware_auto_vehicle_msgs",
    "autoware_auto_planning_msgs/Trajectory",
)
"""Types until 2024."""


class AutowareGear(IntEnum):
    """Values of GearCommand and GearReport, without the numbered ones;
    :data:`~vehicled.ros.autoware_types.GEARS` has all."""

    NEUTRAL = 1
    DRIVE = 2
    DRIVE_18 = 19
    REVERSE = 20
    REVERSE_2 = 21
    PARK = 22
    LOW = 23
    LOW_2 = 24


class ControlMode(IntEnum):
    """Values of ControlModeReport."""

    AUTONOMOUS = 1
    MANUAL = 4
    NOT_READY = 6


LIGHTS_OFF = 1
"""DISABLE of the reports of turn indicators and hazard lights."""
UNINITIALIZED, INITIALIZED = 1, 3
"""Values of LocalizationInitializationState."""


def direction_of(gear: int) -> int:
    """Return 1 for a forward gear, -1 for a backward one and 0 for one that does not drive."""
    if AutowareGear.DRIVE <= gear <= AutowareGear.DRIVE_18 or gear in (
        AutowareGear.LOW,
        AutowareGear.LOW_2,
    ):
        return 1
    return -1 if gear in (AutowareGear.REVERSE, AutowareGear.REVERSE_2) else 0


def control_mode_of(mode: Mode, autonomous: Mode) -> ControlMode:
    """Return the control mode to report; ``autonomous`` is the mode in which Autoware drives."""
    if mode is autonomous:
        return ControlMode.AUTONOMOUS
    return ControlMode.NOT_READY if mode in (Mode.INIT, Mode.FAULT) else ControlMode.MANUAL


def velocity_report(types: AutowareTypes, estimate: StateEstimate, offset_ns: int) -> bytes:
    """Encode speed and turn rate of the rear axle, which does not move sideways."""
    return encode(
        types.report("VelocityReport"),
        (
            (_stamp(estimate.t_ns, offset_ns), BASE_LINK),
            estimate.speed_mps,
            0.0,
            estimate.yaw_rate_radps,
        ),
    )


def steering_report(types: AutowareTypes, t_ns: int, wheel_rad: float, offset_ns: int) -> bytes:
    """Encode the angle of the virtual front wheel, positive left."""
    return encode(types.report("SteeringReport"), (_stamp(t_ns, offset_ns), wheel_rad))


def report(types: AutowareTypes, name: str, t_ns: int, value: int, offset_ns: int) -> bytes:
    """Encode a report that is a stamp and one value, such as GearReport."""
    return encode(types.report(name), (_stamp(t_ns, offset_ns), value))


def initialization_state(estimate: StateEstimate, offset_ns: int) -> bytes:
    """Encode whether there is a pose."""
    known = estimate.status != EstimatorStatus.UNINITIALISED
    return encode(
        "autoware_adapi_v1_msgs/LocalizationInitializationState",
        (_stamp(estimate.t_ns, offset_ns), INITIALIZED if known else UNINITIALIZED),
    )


class AccelerationFilter:
    """Acceleration of the rear axle from the speeds of successive estimates, as Autoware's own
    localization makes it."""

    def __init__(self) -> None:
        self._before: StateEstimate | None = None
        self._forward_mps2 = 0.0
        self._turn_radps2 = 0.0

    def record(self, estimate: StateEstimate, offset_ns: int) -> bytes | None:
        """Take an estimate and encode an AccelWithCovarianceStamped in ``base_link``; None if it
        has no speed."""
        speed_mps, rate_radps = estimate.speed_mps, estimate.yaw_rate_radps
        if not isfinite(speed_mps + rate_radps):
            self._before = None
            return None
        before, self._before = self._before, estimate
        step_s = 0.0 if before is None else (estimate.t_ns - before.t_ns) * 1e-9
        if before is None or not 0.0 < step_s <= LONGEST_STEP_S:
            self._forward_mps2 = self._turn_radps2 = 0.0
        else:
            weight = 1.0 - exp(-step_s / ACCELERATION_FILTER_S)
            forward = (speed_mps - before.speed_mps) / step_s
            turn = (rate_radps - before.yaw_rate_radps) / step_s
            self._forward_mps2 += weight * (forward - self._forward_mps2)
            self._turn_radps2 += weight * (turn - self._turn_radps2)
        linear = (self._forward_mps2, speed_mps * rate_radps, 0.0)
        return encode(
            "geometry_msgs/AccelWithCovarianceStamped",
            (
                (_stamp(estimate.t_ns, offset_ns), BASE_LINK),
                ((linear, (0.0, 0.0, self._turn_radps2)), NOT_KNOWN),
            ),
        )


def _stamp(t_ns: int, offset_ns: int) -> tuple[int, int]:
    return divmod(t_ns + offset_ns, 1_000_000_000)
