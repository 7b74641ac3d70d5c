"""The profile: one TOML file that says everything about one vehicle.

``[vehicle]`` is what the daemon believes, ``[sim]`` the truth of its twin; the two are written apart on purpose, because finding
out how they differ is half of the work on a real vehicle.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from vehicled.vehicle import ControlFrameParams, Delay, Drive, Limits, NonNegative, Positive, Share, SteeringAngle, Vehicle

Vector3 = Annotated[list[float], Meta(min_length=3, max_length=3)]
Rate = Annotated[float, Meta(gt=0.0, le=10_000.0)]
PortName = Annotated[
    str,
    Meta(pattern=r"^[a-z][a-z0-9_]*$", max_length=32, description="a lower-case word: letters, digits and underscores"),
]
Carried = Literal[
    "GnssFix", "ImuSample", "Heading", "MotorStatus", "WheelSpeed", "SteeringFeedback", "Corrections", "OperatorCommand",
    "ActuatorCommand", "TeleopCommand", "Heartbeat", "ObstacleRange",
]  # fmt: skip
"""Message types that may pass a device; all others live inside the daemon or in its log."""


class Table(Struct, frozen=True, forbid_unknown_fields=True):
    """A table of the profile: immutable, and an unknown key is an error.

    Keyword-only is not inherited, frozen not in the eyes of type checkers: hence both are repeated.
    """


class Task(Table, frozen=True, kw_only=True):
    """One row of the rate table. The deadline counts the response: end minus planned release."""

    rate_hz: Rate
    phase_ms: NonNegative = 0.0
    deadline_ms: Positive
    policy: Literal["skip", "catch_up"] = "skip"
    criticality: Literal["critical", "degradable", "cosmetic"] = "critical"
    declared_us: NonNegative = 0.0
    """Cost that lockstep charges the task."""
    max_miss_share: Share = 0.01
    """Budget that ``vehicled log timing`` judges by."""


class Tasks(Table, frozen=True, kw_only=True):
    """The pipeline, in the order in which tasks due at the same instant run."""

    ingestion: Task
    fusion: Task
    control: Task
    actuation: Task


class Capabilities(Table, frozen=True, kw_only=True):
    """What an actuator can do; what is missing maps failsafe rows to substitutes."""

    telemetry: bool = False
    brake: bool = False
    readable_timeout: bool = False


class Choice(Struct, frozen=True, kw_only=True):
    """One of several registered implementations, with the parameters of each that the profile mentions."""

    name: str
    params: dict[str, Any]
    """Validated parameter struct by registered name; always has ``name``."""

    @property
    def selected(self) -> Any:
        """Parameters of the chosen one."""
        return self.params[self.name]


class Device(Table, frozen=True, kw_only=True):
    """One device on one port."""

    driver: Annotated[Choice, Meta(extra={"registered": "driver"})]
    """Protocol of its wire: a name, or a table with the name and the driver's own table."""
    port: str = ""
    """Where it is on the road, such as ``serial:/dev/serial/by-id/...?baud=460800``. A simulation needs none."""
    messages: list[Carried] = field(default_factory=list)
    """Message types expected from it, or taken by it."""
    rate_hz: Rate | None = None
    """Rate of its main message; silence limits and health derive from it."""
    lever_arm_m: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Position of the sensor from the rear axle: forward, left, up."""
    capabilities: Capabilities | None = None


class Log(Table, frozen=True, kw_only=True):
    """Where runs are written and how much may be kept."""

    folder: str = "~/vehicled/logs"
    quota_mb: Annotated[int, Meta(ge=10)] = 20_000
    """Oldest logs of the folder are removed to stay below this."""
    rotate_mb: Annotated[int, Meta(ge=1)] = 4_000
    """A run's file is closed and the next part begun at this size."""
    compression: Literal["zstd", "lz4", "none"] = "zstd"


class HostTable(Table, frozen=True, kw_only=True):
    """The computer that drives the vehicle."""

    board: str = ""
    """The only board that this profile may be driven on, as ``vehicled doctor`` names it; empty: any."""
    allow_shortfall: bool = False
    """Arm although the board was measured to keep less than the rate table asks for."""


class TwinSteering(Table, frozen=True, kw_only=True):
    """The steering as it really is. Dead zone and slack are what no controller is told of."""

    gain_rad: Positive
    offset_rad: Annotated[float, Meta(ge=-0.5, le=0.5)] = 0.0
    max_wheel_rad: SteeringAngle
    rate_radps: Positive
    delay_s: Delay
    dead_zone: Share = 0.0
    """Commands smaller than this do nothing; beyond it the rest of the range is used in full."""
    slack_rad: NonNegative = 0.0
    """Backlash between servo and wheel, peak to peak."""


class Battery(Table, frozen=True, kw_only=True):
    """Sag of the supply: drive torque scales with voltage over nominal."""

    nominal_v: Positive = 7.4
    full_v: Positive = 8.4
    internal_resistance_ohm: NonNegative = 0.0
    capacity_ah: Positive = 5.0
    full_drive_current_a: NonNegative = 20.0


class GnssModel(Table, frozen=True, kw_only=True):
    """Receiver of the twin. The error is white noise plus a first-order Gauss-Markov walk that advances in time."""

    rate_hz: Rate = 10.0
    latency_ms: NonNegative = 60.0
    latency_jitter_ms: NonNegative = 5.0
    carrier: Literal["none", "float", "fixed"] = "fixed"
    sigma_m: NonNegative = 0.01
    """White, per horizontal axis."""
    walk_sigma_m: NonNegative = 0.01
    """Standard deviation of the coloured part, per horizontal axis."""
    walk_time_s: Positive = 60.0
    """Correlation time of the coloured part."""
    velocity_sigma_mps: NonNegative = 0.03
    satellites: Annotated[int, Meta(ge=0, le=60)] = 24
    hdop: Positive = 0.7
    vdop: Positive = 1.1


class ImuModel(Table, frozen=True, kw_only=True):
    """Inertial unit of the twin."""

    rate_hz: Rate = 400.0
    latency_ms: NonNegative = 0.5
    accelerometer_density: NonNegative = 1.2e-3
    """White noise, m/s2 per root Hz."""
    gyro_density: NonNegative = 1.2e-4
    """White noise, rad/s per root Hz."""
    accelerometer_bias_mps2: NonNegative = 0.02
    """Standard deviation of the bias at switch-on, per axis."""
    gyro_bias_radps: NonNegative = 0.001
    accelerometer_bias_walk: NonNegative = 1e-4
    """m/s2 per root second."""
    gyro_bias_walk: NonNegative = 1e-5
    """rad/s per root second."""
    vibration_mps2: NonNegative = 0.3
    """Amplitude at 1 m/s, growing with speed."""
    vibration_hz: Positive = 37.0
    range_mps2: Positive = 156.9
    range_radps: Positive = 34.9


class HeadingModel(Table, frozen=True, kw_only=True):
    """Heading output of the twin: truth + misalignment + white noise + slow walk."""

    rate_hz: Rate = 20.0
    latency_ms: NonNegative = 5.0
    sigma_rad: NonNegative = 0.01
    misalignment_rad: Annotated[float, Meta(ge=-3.15, le=3.15)] = 0.0
    walk_rad_per_root_s: NonNegative = 0.0
    kind: Literal["inertial", "magnetic", "moving_base"] = "moving_base"


class MotorStatusModel(Table, frozen=True, kw_only=True):
    """Telemetry of the motor controller of the twin."""

    rate_hz: Rate = 50.0
    latency_ms: NonNegative = 4.0
    speed_step_radps: NonNegative = 0.1
    """Quantisation of the motor speed."""
    voltage_step_v: NonNegative = 0.1
    current_step_a: NonNegative = 0.1


class Sim(Table, frozen=True, kw_only=True):
    """The twin: vehicle, actuators and sensors as they really are."""

    plant: str = "four_dof"
    step_ms: Annotated[float, Meta(ge=0.05, le=20.0)] = 1.0
    wheelbase_m: Positive
    steering: TwinSteering
    drive: Drive
    battery: Battery = field(default_factory=Battery)
    gnss: GnssModel = field(default_factory=GnssModel)
    imu: ImuModel = field(default_factory=ImuModel)
    heading: HeadingModel | None = None
    motor_status: MotorStatusModel | None = None
    command_timeout_s: Positive = 0.2
    """Age of the last command at which the actuator board goes to neutral: straight, no drive, no brake."""


class Profile(Table, frozen=True, kw_only=True):
    """One vehicle, complete."""

    schema: Literal[1]
    name: Annotated[str, Meta(pattern=r"^[a-z0-9_]+$", description="lower-case letters, digits and underscores")]
    description: str
    course: str = "lot17"
    """Course driven when none is named."""
    fence: str = ""
    """GeoJSON file of polygons that must not be left, or with ``keep_out`` not be entered; its path counts from the profile."""
    vehicle: Vehicle
    limits: Limits
    devices: dict[PortName, Device]
    tasks: Tasks
    estimator: Annotated[Choice, Meta(extra={"registered": "estimator"})]
    identifier: Annotated[Choice, Meta(extra={"registered": "identifier"})] | None = None
    """What learns the vehicle's parameters while it drives; without it the beliefs of ``[vehicle]`` stay."""
    control_frame: ControlFrameParams = field(default_factory=ControlFrameParams)
    """How the controller is led over a jump of the estimate."""
    controller: Annotated[Choice, Meta(extra={"registered": "controller"})]
    log: Log = field(default_factory=Log)
    host: HostTable = field(default_factory=HostTable)
    sim: Sim
