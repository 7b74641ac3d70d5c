"""The profile: a TOML file that says everything about one vehicle, alone or with the profile that
it names as its base.

``[vehicle]`` is what the daemon believes, ``[sim]`` the truth of its twin. The two can be written
apart, because finding out how they differ is half of the work on a real vehicle.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct, field

from vehicled.core.mixing import Mix
from vehicled.core.rc import RcParams
from vehicled.core.vehicle import (
    AlignmentParams,
    ControlFrameParams,
    Delay,
    Drive,
    Limits,
    NonNegative,
    Positive,
    Share,
    SteeringAngle,
    Vehicle,
)
from vehicled.maps.localiser import LocaliserParams
from vehicled.profile.gnss import GnssModel as GnssModel
from vehicled.profile.independent_stop import IndependentStop
from vehicled.profile.latency import LatencyModel
from vehicled.profile.noise import SensorNoise
from vehicled.profile.plugins import label, table_name
from vehicled.profile.sensors import HeadingModel as HeadingModel
from vehicled.profile.sensors import ImuModel as ImuModel
from vehicled.profile.sensors import (
    MocapModel,
    ReferenceModel,
    SteeringFeedbackModel,
    WheelEncodersModel,
)
from vehicled.profile.sensors import MotorStatusModel as MotorStatusModel
from vehicled.profile.table import Rate, Vector3
from vehicled.profile.table import Table as Table

PortName = Annotated[
    str,
    Meta(
        pattern=r"^[a-z][a-z0-9_]*$",
        max_length=32,
        description="a lower-case word: letters, digits and underscores",
    ),
]
Carried = Literal[
    "GnssFix", "ImuSample", "Heading", "MotorStatus", "WheelSpeed", "SteeringFeedback",
    "Corrections", "OperatorCommand", "ActuatorCommand", "TeleopCommand", "Heartbeat",
    "ObstacleRange", "LaserScan", "ReferenceState", "RcChannels", "MapPose", "NeighbourState",
    "HeightMap", "TimePulse",
]  # fmt: skip
"""Message types that may pass a device; all others live inside the daemon or in its log."""


class TaskRate(Table, frozen=True, kw_only=True):
    """One row of the rate table. The deadline counts the response: end minus planned release."""

    rate_hz: Rate
    """Releases per second, Hz."""
    phase_ms: NonNegative = 0.0
    """Offset of the first release from the start of the run, ms."""
    deadline_ms: Positive
    """Longest response, ms."""
    policy: Literal["skip", "catch_up"] = "skip"
    """Missed releases are left out ("skip"), or a few of them run late ("catch_up")."""
    criticality: Literal["critical", "degradable", "cosmetic"] = "critical"
    """Declared importance, for the log; an exception in any task of the pipeline brakes."""
    declared_us: NonNegative = 0.0
    """Cost that lockstep charges the task."""
    max_miss_share: Share = 0.01
    """Budget that ``vehicled log timing`` judges by."""


class Tasks(Table, frozen=True, kw_only=True):
    """The pipeline, in the order in which tasks due at the same instant run."""

    ingestion: TaskRate
    """Reads the ports and decodes messages."""
    fusion: TaskRate
    """Runs the estimator."""
    control: TaskRate
    """Runs the controller."""
    actuation: TaskRate
    """Runs the safety checks and sends the command."""


class Capabilities(Table, frozen=True, kw_only=True):
    """Capabilities of an actuator; a missing one maps failsafe rows to substitutes."""

    telemetry: bool = False
    """True: it reports faults, temperature and voltage."""
    brake: bool = False
    """True: it has a brake of its own."""
    readable_timeout: bool = False
    """True: its command time-out can be read back."""


class Choice(Struct, frozen=True, kw_only=True):
    """One of several implementations, with the parameters of each that the profile mentions."""

    name: str
    """Registered name, or reference of a plugin with the whole path of its file."""
    params: dict[str, Any]
    """Validated parameters by registered name, of a plugin by the name of its class; always has
    those of ``name``."""

    @property
    def selected(self) -> Any:
        """Parameters of the chosen one."""
        return self.params[table_name(self.name)]

    @property
    def label(self) -> str:
        """Name as it is shown."""
        return label(self.name)


class DeviceTable(Table, frozen=True, kw_only=True):
    """One device on one port."""

    driver: Annotated[Choice, Meta(extra={"registered": "driver"})]
    """Protocol of its wire: a name, or a table with the name and the driver's own table."""
    port: str = ""
    """Port on the real vehicle, such as ``serial:/dev/serial/by-id/...?baud=460800``. A simulation
    needs none."""
    messages: list[Carried] = field(default_factory=list)
    """Message types expected from it, or taken by it."""
    rate_hz: Rate | None = None
    """Rate of its main message; silence limits and health derive from it."""
    lever_arm_m: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """Position of the sensor from the rear axle: forward, left, up."""
    emulator: str = ""
    """Plugin with the device side of the driver's protocol, for a simulation with ``--link wires``.
    Empty: the driver's own."""
    corrections_from: list[str] | None = None
    """Devices whose RTCM corrections this receiver takes. Without it a moving-base rover takes
    those of the receivers on the vehicle that send any; every other receiver takes those of all
    casters and base stations. Empty: none, or by its own wire."""
    capabilities: Capabilities | None = None
    """Abilities of an actuator; left out for other devices."""
    noise: SensorNoise | None = None
    """Noise that is added to its measurements while ``inject_noise`` is true."""
    mix: dict[str, Mix] = field(default_factory=dict)
    """Rows of the mixing matrix by output of an actuator. Empty, with one actuator: its motor gets
    the throttle, its servo the steering. With several, an output without a row gets nothing."""


class LogTable(Table, frozen=True, kw_only=True):
    """Folder of the logs, and limits of their size."""

    folder: str = "~/vehicled/logs"
    """Folder of the logs; `~` is the home of the user."""
    quota_mb: Annotated[int, Meta(ge=10)] = 20_000
    """Oldest logs of the folder are removed to stay below this."""
    rotate_mb: Annotated[int, Meta(ge=1)] = 4_000
    """A run's file is closed and the next part begun at this size."""
    compression: Literal["zstd", "lz4", "none"] = "zstd"
    """Compression of the log's chunks."""


class HostTable(Table, frozen=True, kw_only=True):
    """The computer that drives the vehicle."""

    board: str = ""
    """The only board that this profile may be driven on, as ``vehicled doctor`` names it; empty:
    any."""
    allow_shortfall: bool = False
    """Arm although the board was measured to keep less than the rate table asks for."""


class TwinVehicle(Table, frozen=True, kw_only=True):
    """The vehicle of a plant that takes its numbers from a twin file."""

    vehicle: Annotated[str, Meta(min_length=1, max_length=500)]
    """Name of a twin file that comes with the package, such as ``hmmwv_lfdm``, or a file: its path
    counts from the profile."""
    changes: dict[str, Any] = field(default_factory=dict)
    """Numbers in place of those of the file, by their keys there: ``{ "body.mass_kg" = 2600.0
    }``."""


class Safety(Table, frozen=True, kw_only=True):
    """Protection of the vehicle that is independent of the daemon."""

    independent_stop: IndependentStop = field(default_factory=IndependentStop)
    """Relay or radio kill switch that stops the vehicle without this computer."""


class ViewTable(Table, frozen=True, kw_only=True):
    """The live view, which ``--view`` switches on."""

    address: Annotated[str, Meta(max_length=300)] = "127.0.0.1:8765"
    """Address to listen on. Clients on other machines need a token."""
    teleop: bool = False
    """Let the page drive, stop and disarm. It then needs a token even on this machine."""
    most_throttle: Share = 0.5
    """Largest fraction of full drive that the page may request."""
    foxglove: bool = True
    """Speak Foxglove's protocol on the same port."""
    token_file: Annotated[str, Meta(max_length=1_000)] = ""
    """File with the token; without one it is a new one at every start, and printed."""
    token_credential: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_.-]*$", max_length=200)] = ""
    """Name of a systemd credential with the token."""
    names: list[
        Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$", max_length=253)]
    ] = field(default_factory=list)
    """Names, besides its own, under which the page may be asked for."""

    def __post_init__(self) -> None:
        if self.token_file and self.token_credential:
            raise ValueError("token_file and token_credential name two tokens; one is meant")


class TwinSteering(Table, frozen=True, kw_only=True):
    """True steering of the twin. Controllers do not know its dead zone and slack."""

    gain_rad: Positive
    """Wheel angle per unit command, rad."""
    offset_rad: Annotated[float, Meta(ge=-0.5, le=0.5)] = 0.0
    """Wheel angle at command 0, rad, left positive."""
    max_wheel_rad: SteeringAngle
    """Wheel angle at the stop, rad."""
    rate_radps: Positive
    """Slew rate of the wheel angle, rad/s."""
    delay_s: Delay
    """Time from the command to the first motion, s."""
    dead_zone: Share = 0.0
    """Commands smaller than this do nothing; beyond it the rest of the range is used in full."""
    slack_rad: NonNegative = 0.0
    """Backlash between servo and wheel, peak to peak."""


class Battery(Table, frozen=True, kw_only=True):
    """Sag of the supply: drive torque scales with voltage over nominal."""

    nominal_v: Positive = 7.4
    """Voltage at which the drive has the torque of its parameters, V."""
    full_v: Positive = 8.4
    """Voltage of the charged battery without load, V."""
    internal_resistance_ohm: NonNegative = 0.0
    """Internal resistance, ohm."""
    capacity_ah: Positive = 5.0
    """Charge of the full battery, Ah."""
    full_drive_current_a: NonNegative = 20.0
    """Current at full throttle, A."""


class LidarModel(Table, frozen=True, kw_only=True):
    """Planar scanner of the twin: its rays meet what stands in ``scene``, each from where the
    vehicle is at its instant.

    Where it sits is the device's ``lever_arm_m``; bearings are of the body. A return fades with
    range and with slant: its reach at an angle a to the surface's normal is ``reach_m sqrt(cos
    a)``, and it is lost as that is exceeded.
    """

    rate_hz: Annotated[float, Meta(gt=0.0, le=100.0)] = 20.0
    """Scans per second, Hz."""
    rays: Annotated[int, Meta(ge=1, le=1600)] = 541
    """More would not fit into one message."""
    angle_min_rad: Annotated[float, Meta(ge=-6.2832, le=6.2832)] = -2.356
    """Bearing of the first ray, the turn of its mounting included."""
    angle_max_rad: Annotated[float, Meta(ge=-6.2832, le=6.2832)] = 2.356
    """Bearing of the last; smaller than the first for a scanner that turns clockwise."""
    sweep_ms: NonNegative = 25.0
    """Time from the first ray to the last."""
    latency_ms: NonNegative = 5.0
    """Time from the last ray to the message."""
    range_min_m: NonNegative = 0.05
    """Shortest range that is measured, m."""
    range_max_m: Annotated[float, Meta(gt=0.0, le=500.0)] = 25.0
    """Longest range that is measured, m."""
    reach_m: Positive = 30.0
    """Range at which half of the returns of a surface that is met squarely are lost."""
    fade_share: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.05
    """Width of that loss, as a fraction of the reach."""
    sigma_m: NonNegative = 0.01
    """White noise of a range, m."""
    sigma_share: Share = 0.001
    """Noise that grows with the range, as a fraction of it."""
    step_m: NonNegative = 0.001
    """Quantisation of the range."""
    drop_share: Share = 0.001
    """Fraction of rays that return nothing."""


class TerrainTable(Table, frozen=True, kw_only=True):
    """The ground of the twin, for a plant that drives on one. Paths count from the profile; empty:
    level, the same everywhere."""

    height: str = ""
    """Point cloud (.las, .laz, .ply, .xyz, .txt), or raster (.tif, .png, .csv), of heights."""
    friction: str = ""
    """The same of the friction: 1 is the surface that the tyres are given for."""
    friction_scale: Annotated[float, Meta(gt=0.0, le=2.0)] = 1.0
    """Multiplies the friction of the file; without one, the friction everywhere."""
    resolution_m: Annotated[float, Meta(gt=0.0, le=100.0)] = 0.25
    """Cell of the grid that a point cloud is brought onto; a raster has its own."""
    origin_m: Vector3 = field(default_factory=lambda: [0.0, 0.0, 0.0])
    """The map's origin and zero height, in the coordinates of the files."""
    crs: str = ""
    """Projection of the files' coordinates, such as ``EPSG:32616``; empty: metres along the axes of
    the map."""


class TrafficModel(Table, frozen=True, kw_only=True):
    """Cars that drive on the lanes of the scene, by the Intelligent Driver Model. Lengths and
    speeds are those of the scene in full size."""

    vehicles: Annotated[int, Meta(ge=0, le=200)] = 0
    """Number of cars."""
    speed_mps: Annotated[float, Meta(gt=0.0, le=60.0)] = 6.0
    """Speed on a free road; each car wants up to 15 % more or less."""
    headway_s: Annotated[float, Meta(ge=0.0, le=10.0)] = 1.5
    """Time gap to the car ahead."""
    gap_m: Annotated[float, Meta(gt=0.0, le=50.0)] = 2.0
    """Gap at standstill."""
    acceleration_mps2: Annotated[float, Meta(gt=0.0, le=10.0)] = 1.4
    """Largest acceleration."""
    deceleration_mps2: Annotated[float, Meta(gt=0.0, le=10.0)] = 2.0
    """Comfortable braking."""
    lanes: list[str] = field(default_factory=list)
    """Names of the lanes that they use; empty: all lanes of the scene."""


class Sim(Table, frozen=True, kw_only=True):
    """The twin: vehicle, actuators and sensors as they really are.

    The vehicle stands in ``twin``, or for the 4-DOF plant here in ``wheelbase_m``, ``steering`` and
    ``drive``.
    """

    plant: str = "four_dof"
    """Registered plant, or a plugin: ``FILE.py:NAME`` or ``package.module:NAME``."""
    step_ms: Annotated[float, Meta(ge=0.05, le=20.0)] = 1.0
    """Integration step of the plant, ms."""
    twin: TwinVehicle | None = None
    """Vehicle of the double-track plants; left out with the 4-DOF plant."""
    wheelbase_m: Positive | None = None
    """True wheelbase of the 4-DOF plant, m."""
    steering: TwinSteering | None = None
    """True steering of the 4-DOF plant."""
    drive: Drive | None = None
    """True drive of the 4-DOF plant."""
    battery: Battery = field(default_factory=Battery)
    """Supply of the drive."""
    gnss: GnssModel = field(default_factory=GnssModel)
    """GNSS receiver."""
    imu: ImuModel = field(default_factory=ImuModel)
    """Inertial unit."""
    heading: HeadingModel | None = None
    """Heading device; left out: none."""
    motor_status: MotorStatusModel | None = None
    """Telemetry of the motor controller; left out: none."""
    wheel_encoders: WheelEncodersModel | None = None
    """Wheel encoders; left out: none."""
    steering_feedback: SteeringFeedbackModel | None = None
    """Sensor of the wheel angle; left out: none."""
    reference: ReferenceModel = field(default_factory=ReferenceModel)
    """Reference system that judges the vehicle."""
    mocap: MocapModel = field(default_factory=MocapModel)
    """Motion capture system."""
    scene: str = ""
    """Scene of what stands and moves round the course: a name of ``vehicled scenes``, or a file
    (.toml, .geojson, or the .yaml of a map), whose path counts from the profile."""
    start_pose: str = ""
    """Name of a start of the scene at which the vehicle stands at first; empty: the beginning of
    the course."""
    contact: Literal["forces", "end", "none"] = "forces"
    """Contact with the scene pushes the vehicle back; with ``end`` it also ends the run. ``none``:
    it drives through."""
    traffic: TrafficModel = field(default_factory=TrafficModel)
    """Other traffic on the lanes of the scene."""
    lidar: LidarModel = field(default_factory=LidarModel)
    """Planar scanner."""
    terrain: TerrainTable = field(default_factory=TerrainTable)
    """Ground under the course."""
    command_timeout_s: Positive = 0.2
    """Age of the last command at which the actuator board goes to neutral: straight, no drive, no
    brake."""
    latency: LatencyModel = field(default_factory=LatencyModel)
    """Latency of devices and of the link."""


class Profile(Table, frozen=True, kw_only=True):
    """One vehicle, complete, or what it differs in from its base."""

    schema: Literal[1]
    """Version of this file format."""
    base: Annotated[str, Meta(max_length=1_000)] = ""
    """Profile whose values hold wherever this one states none: a name, or a file, whose path counts
    from this one. Tables merge, everything else replaces. Empty once a profile is read."""
    without: list[Annotated[str, Meta(max_length=200)]] = field(default_factory=list)
    """Keys and tables of the base that do not hold, such as ``devices.heading``. Empty once a
    profile is read."""
    name: Annotated[
        str, Meta(pattern=r"^[a-z0-9_]+$", description="lower-case letters, digits and underscores")
    ]
    description: str
    """One line about the vehicle, for listings."""
    course: str = "lot17"
    """Course driven when none is named: a name, or a file, whose path counts from the profile, else
    from the present folder."""
    fence: str = ""
    """GeoJSON file of polygons that must not be left, or with ``keep_out`` not be entered; its path
    counts from the profile."""
    vehicle: Vehicle
    """Geometry and actuators as the daemon believes them."""
    limits: Limits
    """Limits that hold in every mode."""
    devices: dict[PortName, DeviceTable]
    """Devices by name. The names of the ports in logs and commands are these."""
    tasks: Tasks
    """Rate table of the pipeline."""
    estimator: Annotated[Choice, Meta(extra={"registered": "estimator"})]
    identifier: Annotated[Choice, Meta(extra={"registered": "identifier"})] | None = None
    """Online identification of the vehicle's parameters; without it the values of ``[vehicle]``
    stay."""
    control_frame: ControlFrameParams = field(default_factory=ControlFrameParams)
    """Smoothing of estimate jumps for the controller."""
    alignment: AlignmentParams = field(default_factory=AlignmentParams)
    """Alignment of the heading by driving, for a vehicle without a heading device."""
    localisation: LocaliserParams | None = None
    """Map on which a scanner locates the vehicle, and how; left out: none. The estimator then needs
    no GNSS."""
    controller: Annotated[Choice, Meta(extra={"registered": "controller"})]
    log: LogTable = field(default_factory=LogTable)
    """Logs of the runs."""
    host: HostTable = field(default_factory=HostTable)
    """The computer of the vehicle."""
    rc: RcParams | None = None
    """The operator with an RC handset, for a device that gives ``RcChannels``."""
    safety: Safety = field(default_factory=Safety)
    """Safety equipment outside the daemon."""
    view: ViewTable = field(default_factory=ViewTable)
    """The live view."""
    inject_noise: bool = False
    """Add the noise of ``[devices.NAME.noise]`` to what these sensors measure, for an experiment:
    ``--noise`` sets it."""
    sim: Sim = field(default_factory=Sim)
    """The twin: vehicle, actuators and sensors of the simulator. What it leaves out is that of the
    vehicle: wheelbase, steering and drive of the 4-DOF plant, and the rates of the sensors."""

    def lever_arm_m(self, message: str) -> tuple[float, float, float] | None:
        """Return the lever arm of the first device that sends messages of this name; None if none
        does."""
        arm = next(
            (device.lever_arm_m for device in self.devices.values() if message in device.messages),
            None,
        )
        return None if arm is None else (arm[0], arm[1], arm[2])
