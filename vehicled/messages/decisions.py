"""What the daemon makes of it: requests, estimates, what was identified, commands."""

from enum import IntEnum

from vehicled.messages.base import NAN, Int64, Matrix4, Message, UInt8, UInt16, UInt32


class OperatorAction(IntEnum):
    """What a human, or the scenario that stands in for one, asks of the vehicle."""

    NONE = 0
    ARM = 1
    DRIVE = 2
    """Follow the course; needs ARM first."""
    STOP = 3
    """Controlled stop, stays armed."""
    DISARM = 4
    EMERGENCY_STOP = 5
    TELEOP = 6
    """Drive by hand; needs ARM first."""
    RESET = 7
    """Leave FAULT when its cause is gone. Arms nothing."""
    ALIGN = 8
    """Arm, drive slowly straight ahead until the heading is known, and stop disarmed."""


class OperatorCommand(Message, frozen=True):
    """A request of the operator. Arming and driving pass the same checks whoever asks."""

    t_ns: Int64
    t_rx_ns: Int64
    action: OperatorAction
    origin: str = ""


class TeleopCommand(Message, frozen=True):
    """One reading of whoever drives by hand: keyboard, gamepad, wheel, web page. Never repeated by the daemon."""

    t_ns: Int64
    t_rx_ns: Int64
    steering: float
    """-1 to 1, positive left."""
    throttle: float
    """-1 to 1; negative drives backward."""
    brake: float
    """0 to 1."""
    deadman: bool
    """Held by the human; without it everything else is the brake."""
    origin: str = ""
    sequence: UInt32 = 0
    """Counts the readings of one origin."""
    unplugged: bool = False
    """The stick of this origin is gone: the last that is heard of it. The other values say nothing."""


class Heartbeat(Message, frozen=True):
    """The ground station, or whoever must not lose sight of the vehicle, is there."""

    t_ns: Int64
    t_rx_ns: Int64
    origin: str = ""


class EstimatorStatus(IntEnum):
    """Whether the state estimate may be driven on."""

    UNINITIALISED = 0
    ALIGNING = 1
    RUNNING = 2
    DIVERGED = 3


class StateEstimate(Message, frozen=True):
    """State of the rear axle in the ``map`` frame. Covariance over (x, y, yaw, speed), row-major."""

    t_ns: Int64
    newest_input_ns: Int64
    """Time of validity of the newest measurement that entered; the age of every command counts from here."""
    x_m: float
    y_m: float
    yaw_rad: float
    speed_mps: float
    yaw_rate_radps: float
    covariance: Matrix4
    status: EstimatorStatus = EstimatorStatus.UNINITIALISED
    normalised_innovation_squared: float = NAN
    """Of the newest position update; chi-square with two degrees of freedom when the filter is consistent."""
    rejected: UInt32 = 0
    """Measurements refused by the gate since start."""
    rejected_in_a_row: UInt16 = 0
    """Positions refused by the gate since the last one that was accepted."""


class Identification(Message, frozen=True):
    """Parameters of the vehicle as its own driving shows them, beginning with those of the profile.

    Each value has a standard deviation beside it; NaN there means that the value is the profile's and not being identified.
    Speed obeys ``dv/dt = drive_authority throttle - drive_damping v - drive_friction``.
    """

    t_ns: Int64
    steering_gain_rad: float
    """Wheel angle per unit command."""
    steering_offset_rad: float
    steering_delay_s: float
    steering_dead_zone: float
    """Share of the full command below which the wheels do not answer."""
    drive_authority_mps2: float
    drive_damping_per_s: float
    drive_friction_mps2: float
    wheel_scale: float
    """True speed over that of wheel or motor."""
    heading_misalignment_rad: float
    """Measured yaw minus that of the body."""
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
    """Which rung of the ladder a command comes from: the best that could be had in time."""

    PRIMARY = 0
    """The controller's own solution."""
    SHIFTED_PLAN = 1
    """The last plan, shifted by the ticks since."""
    PURE_PURSUIT = 2
    STOP = 3


class ControlReason(IntEnum):
    """Why a command does not come from the first rung."""

    NONE = 0
    STATE_UNUSABLE = 1
    """The estimate is not finite or not of this world."""
    NOT_CONVERGED = 2
    """The solver reached its bound of iterations."""
    INFEASIBLE = 3
    NOT_FINITE = 4
    """The solution was not finite."""
    LATE = 5
    """The control task missed its deadline."""
    PLAN_USED_UP = 6
    """No plan young enough is left to shift."""


class ControlCommand(Message, frozen=True):
    """What the controller wants, in physical terms, and where it saw the vehicle on its path."""

    t_ns: Int64
    newest_input_ns: Int64
    wheel_angle_rad: float
    throttle: float
    """Share of full drive, -1 to 1; negative drives backward."""
    brake: float
    """Share of full brake, 0 to 1."""
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
    """Of the solver; 0 where there is none."""


class Reaction(IntEnum):
    """Graded reactions of the failsafe matrix; the most severe one wins."""

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


class ActuatorCommand(Message, frozen=True):
    """What goes to the actuators, normalised: the last thing before a device turns it into bytes."""

    t_ns: Int64
    newest_input_ns: Int64
    throttle: float
    """-1 to 1; negative drives backward."""
    brake: float
    steering: float
    """-1 to 1, positive left."""
    wheel_angle_rad: float
    """The wheel angle believed to follow from ``steering``."""
    mode: Mode = Mode.INIT
    reaction: Reaction = Reaction.NONE
    clipped: UInt8 = 0
    """Bits: 1 steering, 2 throttle, 4 brake were outside their limits and cut, 8 not finite and replaced by the brake, 16 the wheel
    was turned too fast, 32 too much acceleration, 64 too much jerk."""
    level: ControlLevel = ControlLevel.PRIMARY
    """Rung of the ladder that the command came from."""
    estimate_age_ns: Int64 = -1
    """Age of the state estimate, then of what entered it: time since arrival, -1 when there was none."""
    gnss_age_ns: Int64 = -1
    imu_age_ns: Int64 = -1
    odometry_age_ns: Int64 = -1
    """Of wheels or motor."""
