"""Decisions of the daemon: operator requests, state estimates, identified parameters, commands."""

from enum import IntEnum
from itertools import pairwise
from math import sqrt
from typing import Any

from vehicled.core.messages.base import (
    NAN,
    Float64s,
    Int64,
    Matrix4,
    Message,
    UInt8,
    UInt16,
    UInt32,
)


def largest_variance(xx: Any, xy: Any, yy: Any) -> Any:
    """Return the larger eigenvalue of [[xx, xy], [xy, yy]], numbers or arrays: the variance in the
    direction in which least is known. It does not depend on where the axes point."""
    return 0.5 * (xx + yy + ((xx - yy) * (xx - yy) + 4.0 * xy * xy) ** 0.5)


class OperatorAction(IntEnum):
    """Request of a person, or of the scenario that replaces one in simulation."""

    NONE = 0
    ARM = 1
    DRIVE = 2
    """Follow the course; needs ARM first."""
    STOP = 3
    """Controlled stop, stays armed."""
    DISARM = 4
    EMERGENCY_STOP = 5
    TELEOP = 6
    """Manual driving; needs ARM first."""
    RESET = 7
    """Leave FAULT once its cause has gone. Does not arm."""
    ALIGN = 8
    """Arm, drive slowly straight ahead until the heading is known, and stop disarmed."""
    OFFBOARD = 9
    """Follow the setpoints of another program; needs ARM first."""


class OperatorCommand(Message, frozen=True):
    """Operator request. Arming and driving pass the same checks for every origin."""

    t_ns: Int64
    t_rx_ns: Int64
    action: OperatorAction
    origin: str = ""


class TeleopCommand(Message, frozen=True):
    """One reading of a manual input device: keyboard, gamepad, wheel or web page. The daemon never
    repeats a reading."""

    t_ns: Int64
    t_rx_ns: Int64
    steering: float
    """-1 to 1, positive left."""
    throttle: float
    """-1 to 1; negative drives backward."""
    brake: float
    """0 to 1."""
    deadman: bool
    """True while the person holds it; otherwise the command is the brake."""
    origin: str = ""
    sequence: UInt32 = 0
    """Counter of the readings of one origin."""
    unplugged: bool = False
    """True in the last reading of a device that was disconnected; the other values are then
    meaningless."""


class Setpoint(Message, frozen=True):
    """Setpoint of another program for mode OFFBOARD: a speed, and a curvature or a wheel angle. The
    daemon never repeats one."""

    t_ns: Int64
    t_rx_ns: Int64
    speed_mps: float
    """Negative drives backward."""
    curvature_per_m: float = NAN
    """Curvature of the path of the rear axle, positive left; NaN if ``wheel_angle_rad`` is
    given."""
    wheel_angle_rad: float = NAN
    origin: str = ""
    """Name of the program. The first that sends holds the lease."""
    sequence: UInt32 = 0
    """Counter of the setpoints of one origin."""
    released: bool = False
    """True in the last setpoint of a program that ends; the other values are then meaningless."""


class CourseKind(IntEnum):
    """Purpose of a course."""

    GIVEN = 0
    """The course of the run, or one that a person or program gave."""
    MISSION = 1
    """A mission of a ground station."""
    GOTO = 2
    """A planned path to a place."""
    RETURN = 3
    """A planned path to where the vehicle was armed."""


class CourseCommand(Message, frozen=True):
    """Request to drive another course from now on."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str
    name: str
    course: bytes
    """Course as :func:`vehicled.paths.stored.to_bytes` gives it."""
    kind: CourseKind = CourseKind.GIVEN


class SpeedCommand(Message, frozen=True):
    """Request for a speed limit below the profile's."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str
    limit_mps: float
    """Infinite lifts the limit."""


class ParameterCommand(Message, frozen=True):
    """Request to change a parameter of the controller while it runs."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str
    key: str
    """Key in the controller's table of the profile, such as ``speed.acceleration_mps2``."""
    value: float


class Heartbeat(Message, frozen=True):
    """Sign of life of a ground station."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str = ""


class EstimatorStatus(IntEnum):
    """State of the estimator; only RUNNING may be driven on."""

    UNINITIALISED = 0
    ALIGNING = 1
    RUNNING = 2
    DIVERGED = 3


class StateEstimate(Message, frozen=True):
    """State of the rear axle in the ``map`` frame. Covariance over (x, y, yaw, speed),
    row-major."""

    t_ns: Int64
    newest_input_ns: Int64
    """Time of validity of the newest fused measurement; command ages count from here."""
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    covariance: Matrix4
    status: EstimatorStatus = EstimatorStatus.UNINITIALISED
    normalised_innovation_squared: float = NAN
    """NIS of the newest position update; chi-square with two degrees of freedom if the filter is
    consistent."""
    rejected: UInt32 = 0
    """Measurements rejected by the gate since the start."""
    rejected_in_a_row: UInt16 = 0
    """Positions rejected by the gate since the last accepted one."""

    @property
    def position_sigma_m(self) -> float:
        """Standard deviation of the position in the direction in which least is known; NaN if that
        is no number."""
        covariance = self.covariance
        xx, yy = covariance[0], covariance[5]
        variance: float = largest_variance(xx, covariance[1], yy)
        return sqrt(variance) if xx >= 0.0 and yy >= 0.0 and variance >= 0.0 else NAN


MAX_PLAN_POINTS = 40
"""Most points of a planned motion: a state with a plan must fit into one datagram."""
PLAN_LIMITS = {"time": 60.0, "x": 1e6, "y": 1e6, "yaw": 1e3, "speed": 500.0}
"""Largest magnitudes in a planned motion: s, m, m, rad (a yaw may count turns) and m/s."""


class PlannedMotion(Message, frozen=True):
    """Places and speeds by which a vehicle means to follow its path, in the ``map`` frame. Empty
    columns: it plans no motion, because it is not driving by itself."""

    t_ns: Int64
    time_s: Float64s
    """Time of each point after ``t_ns``, increasing."""
    x_m: Float64s
    y_m: Float64s
    yaw_rad: Float64s
    speed_mps: Float64s
    """Negative in reverse."""

    @property
    def problem(self) -> str:
        """Field that makes the plan unusable; empty for a plan that can be used."""
        columns = self.time_s, self.x_m, self.y_m, self.yaw_rad, self.speed_mps
        lengths = {len(column) for column in columns}
        if len(lengths) > 1 or max(lengths) > MAX_PLAN_POINTS:
            return "plan: number of points"
        for name, column, limit in zip(PLAN_LIMITS, columns, PLAN_LIMITS.values(), strict=True):
            # NaN is within no limit.
            if not all(abs(value) <= limit for value in column):
                return f"plan: {name}"
        if any(later <= earlier for earlier, later in pairwise(self.time_s)):
            return "plan: order of times"
        return ""


class NeighbourState(Message, frozen=True):
    """State that a vehicle broadcasts to others: its own estimate, its newest command and its
    plan. Poses are in the ``map`` frame that all of them share."""

    t_ns: Int64
    t_rx_ns: Int64
    sender: str
    """Name of the vehicle, added by the radio; empty on its own port."""
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    position_sigma_m: float
    throttle: float = NAN
    """Command, -1 to 1; NaN before the first."""
    brake: float = NAN
    wheel_angle_rad: float = NAN
    sequence: UInt32 = 0
    """Number of the broadcast since the radio of the sender began: gaps are lost messages. 0: not
    stated."""
    round_trip_s: float = NAN
    """Shortest recent time to the sender and back, stated by the receiver's radio: ``t_ns`` is
    wrong by no more. NaN where both have one clock, and where the sender does not receive us."""
    plan_time_s: Float64s = ()
    """Planned motion: time of each point after ``t_ns``; empty if the sender plans none."""
    plan_x_m: Float64s = ()
    plan_y_m: Float64s = ()
    plan_yaw_rad: Float64s = ()
    plan_speed_mps: Float64s = ()

    @property
    def plan(self) -> PlannedMotion:
        """Planned motion, from the time of the state on."""
        return PlannedMotion(
            self.t_ns, self.plan_time_s, self.plan_x_m, self.plan_y_m, self.plan_yaw_rad,
            self.plan_speed_mps,
        )  # fmt: skip


class Identification(Message, frozen=True):
    """Vehicle parameters identified while driving, starting from the profile's.

    Each value has a standard deviation; NaN means that the value is the profile's and is not being
    identified. Speed obeys ``dv/dt = drive_authority throttle - drive_damping v - drive_friction``.
    """

    t_ns: Int64
    steering_gain_rad: float
    """Wheel angle per unit command."""
    steering_offset_rad: float
    steering_delay_s: float
    steering_dead_zone: float
    """Fraction of the full command below which the wheels do not move."""
    drive_authority_mps2: float
    drive_damping_per_s: float
    drive_friction_mps2: float
    wheel_scale: float
    """True speed divided by wheel or motor speed."""
    heading_misalignment_rad: float
    """Measured yaw minus body yaw."""
    steering_gain_sigma_rad: float = NAN
    steering_offset_sigma_rad: float = NAN
    steering_delay_sigma_s: float = NAN
    steering_dead_zone_sigma: float = NAN
    drive_authority_sigma_mps2: float = NAN
    drive_damping_sigma_per_s: float = NAN
    drive_friction_sigma_mps2: float = NAN
    wheel_scale_sigma: float = NAN
    heading_misalignment_sigma_rad: float = NAN


class ControlLevel(IntEnum):
    """Level of the fallback chain that a command comes from."""

    PRIMARY = 0
    """The controller's own solution."""
    SHIFTED_PLAN = 1
    """The last plan, shifted by the elapsed ticks."""
    PURE_PURSUIT = 2
    STOP = 3


class ControlReason(IntEnum):
    """Reason why a command does not come from the primary level."""

    NONE = 0
    STATE_UNUSABLE = 1
    """The estimate is not finite or not plausible."""
    NOT_CONVERGED = 2
    """The solver reached its iteration limit."""
    INFEASIBLE = 3
    NOT_FINITE = 4
    """The solution was not finite."""
    LATE = 5
    """The control task missed its deadline."""
    PLAN_USED_UP = 6
    """The last plan is too old to shift."""


class ControlCommand(Message, frozen=True):
    """Command of the controller in physical units, with the vehicle's place on the course."""

    t_ns: Int64
    newest_input_ns: Int64
    wheel_angle_rad: float
    throttle: float
    """Fraction of full drive, -1 to 1; negative drives backward."""
    brake: float
    """Fraction of full brake, 0 to 1."""
    target_speed_mps: float = NAN
    progress_m: float = NAN
    """Arc length of the reference point along the course."""
    cross_track_m: float = NAN
    """Positive when the vehicle is left of the path."""
    heading_error_rad: float = NAN
    curvature_per_m: float = NAN
    level: ControlLevel = ControlLevel.PRIMARY
    reason: ControlReason = ControlReason.NONE
    iterations: UInt16 = 0
    """Solver iterations; 0 without a solver."""


class Reaction(IntEnum):
    """Graded reactions of the failsafe matrix; the most severe wins."""

    NONE = 0
    WARN = 1
    """S0"""
    CAP_SPEED = 2
    """S1"""
    CONTROLLED_STOP = 3
    """S2"""
    BRAKE = 4
    """S3"""
    DISABLE = 5
    """S4: drive disabled and latched, brake applied."""


class Mode(IntEnum):
    """Modes of the daemon."""

    INIT = 0
    STANDBY = 1
    ARMED = 2
    AUTO = 3
    TELEOP = 4
    STOPPING = 5
    FAULT = 6
    ALIGN = 7
    """Drives slowly straight ahead until the course over ground has shown the heading."""
    OFFBOARD = 8
    """Follows the setpoints of another program."""


class ActuatorCommand(Message, frozen=True):
    """Normalised command to the actuators, as given to the actuator's device."""

    t_ns: Int64
    newest_input_ns: Int64
    throttle: float
    """-1 to 1; negative drives backward."""
    brake: float
    steering: float
    """-1 to 1, positive left."""
    wheel_angle_rad: float
    """Wheel angle expected from ``steering``."""
    mode: Mode = Mode.INIT
    reaction: Reaction = Reaction.NONE
    clipped: UInt8 = 0
    """Bits: 1 steering, 2 throttle, 4 brake clipped to its range; 8 not finite, replaced by the
    brake; 16 steering rate, 32 acceleration, 64 jerk limited."""
    level: ControlLevel = ControlLevel.PRIMARY
    """Level of the fallback chain that the command came from."""
    estimate_age_ns: Int64 = -1
    """Age of the state estimate. This and the ages below count from arrival; -1 if there was
    none."""
    gnss_age_ns: Int64 = -1
    imu_age_ns: Int64 = -1
    odometry_age_ns: Int64 = -1
    """Age of the wheel or motor speed."""
