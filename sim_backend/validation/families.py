"""What reference runs there are and how to read them, as one table.

A run belongs to the first family whose pattern its file name matches; nothing else of the program knows a family by name. The
conventions were checked on the files: velocities against the derivatives of the positions, signs against the steering.
"""

from math import inf

from msgspec import Struct


class Columns(Struct, frozen=True, kw_only=True):
    """Names of a format's columns; empty where it has none. Angles in rad, ISO 8855 signs."""

    time: str
    x: str
    y: str
    yaw: str
    vx: str = ""
    vy: str = ""
    yaw_rate: str
    roll: str = ""
    speed: str = ""
    """Magnitude of the velocity, where ``vx`` and ``vy`` are missing."""
    sideslip: str = ""
    """Angle of the velocity in the body, beside ``speed``."""


class Commands(Struct, frozen=True, kw_only=True):
    """Where the commands stand and what they mean."""

    time: str
    wheel_angle: str = ""
    """Angle of the virtual front wheel in rad, linear between rows: the reference's own steering actuator is prescribed."""
    steer: str = ""
    """Share -1..1 of the steering, positive left; goes through the vehicle's steering map."""
    steer_rad: str = ""
    """Commanded wheel angle in rad, as it stands."""
    throttle: str = ""
    brake: str = ""
    acceleration: str = ""
    """Commanded acceleration in m/s2, instead of throttle and brake."""
    linear: bool = False
    """Interpolated between rows; otherwise held until the next one."""
    file: str = ""
    """Replacement of the name's ending, where the commands have a file of their own."""


class Family(Struct, frozen=True, kw_only=True):
    """Reference runs of one kind."""

    name: str
    title: str
    pattern: str
    """Of the file name; groups ``vehicle`` (optional), ``model`` (optional) and ``manoeuvre``."""
    folder: str
    """Where files of this family are kept."""
    anywhere: bool = True
    """Its files are known by name and columns wherever they stand; otherwise only in its folder."""
    marks: tuple[str, ...] = ()
    """Further columns that tell its files from others outside of its folder."""
    columns: Columns
    commands: Commands
    twins: dict[str, str]
    """Twin of a vehicle's name in the files; a name that is not listed is the twin's own."""
    vehicle: str = ""
    """Name of the vehicle where the file name has none."""
    at_rest: bool = False
    """Begins at rest; otherwise with the state of the first row."""
    cut_below_mps: float = 0.0
    """The end of the run below this speed is left out: the reference creeps there."""
    position_point_m: float | None = None
    """Where positions are measured, forward of the middle between the axles; none: at the centre of mass."""
    velocity_point_m: float | None = None
    """Where velocities are measured, the same way."""
    rear_axle_below_mps: float = 0.0
    """Runs that never get faster are those of a kinematic single track: positions and velocities are its rear axle's."""
    prescribed_speed: bool = False
    """The reference's speed is its command, integrated, whatever the tyres do: ours is held to it."""
    loads_by_command: bool = False
    """The reference moves loads between its axles by the commanded acceleration only, not by that of a turn: without a command ours
    has nothing to move."""
    linear_tyres: dict[str, float] = {}
    """Models whose tyres do not saturate, and up to which lateral acceleration in m/s2: ours are made linear, with the same slopes,
    for runs that keep below it."""
    single_track: dict[str, float] = {}
    """Models with one wheel per axle, and how much of the spin inertia of our two that wheel has. Ours then steers both front
    wheels about one point and does not roll: nothing scrubs or leans in the model."""
    sprung_point: tuple[str, ...] = ()
    """Models whose positions and velocities are those of the sprung mass, which swings sideways as the body rolls."""


_COMMONROAD = Columns(time="t", x="x", y="y", yaw="yaw", vx="vx", vy="vy", yaw_rate="yaw_rate", roll="roll")
_BODY = Columns(time="t", x="x", y="y", yaw="yaw", vx="vx", vy="vy", yaw_rate="yaw_rate")

FAMILIES = (
    Family(
        name="lfdm",
        title="LFDM, 18 degrees of freedom",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>lf\d+)__(?P<manoeuvre>\w+)\.csv",
        folder="lfdm",
        columns=_COMMONROAD,
        commands=Commands(time="t", steer="steer", throttle="throttle", brake="brake"),
        twins={"hmmwv": "hmmwv_lfdm", "art": "art_lfdm"},
        at_rest=True,
        cut_below_mps=0.5,
    ),
    Family(
        name="commonroad",
        title="CommonRoad, multi-body and single-track drift",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>mb|std)__(?P<manoeuvre>\w+)\.csv",
        folder="commonroad",
        columns=_COMMONROAD,
        commands=Commands(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={},
        # One wheel per axle has the inertia of one: 3 m/s2 commanded are 2.92 there, and 2.85 on four wheels.
        single_track={"std": 0.5},
        sprung_point=("mb",),
    ),
    Family(
        name="f1tenth_gym",
        title="F1TENTH gym, linear single track",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>st)__(?P<manoeuvre>\w+)\.csv",
        folder="f1tenth_gym",
        columns=Columns(time="t", x="x", y="y", yaw="yaw", yaw_rate="yaw_rate", speed="v", sideslip="sideslip"),
        commands=Commands(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={},
        # Its kinematic model: yaw rate exactly v tan(delta) / L and no sideslip, which only the rear axle has.
        rear_axle_below_mps=0.5,
        prescribed_speed=True,
        loads_by_command=True,
        linear_tyres={"st": inf},
        single_track={"st": 1.0},
    ),
    Family(
        name="slipx",
        title="slipx, bicycle (l1) and double track (l2)",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>l[12])__(?P<manoeuvre>\w+)\.csv",
        folder="slipx",
        columns=_BODY,
        commands=Commands(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={"refcar": "slipx_refcar"},
        # Clipped at 1.1 of the load, which the first wheels reach here.
        linear_tyres={"l1": 9.5},
        single_track={"l1": 1.0},
    ),
    Family(
        name="chrono",
        title="Chrono HMMWV, multi-body",
        pattern=r"(?P<manoeuvre>\w+)_motion\.csv",
        folder="hmmwv_chrono",
        marks=("front_toe_avg_rad",),
        columns=Columns(
            time="time_s",
            x="x_m",
            y="y_m",
            yaw="yaw_rad",
            vx="vx_body_mps",
            vy="vy_body_mps",
            yaw_rate="yaw_rate_radps",
            roll="roll_rad",
        ),
        commands=Commands(
            time="time_s", steer="steering_in", throttle="throttle_in", brake="brake_in", linear=True, file="_commands.csv"
        ),
        twins={},
        vehicle="hmmwv_chrono",
        at_rest=True,
        # dx/dt and dy/dt differ from vx and vy by a lever of -0.056 m on the yaw rate (-0.046 to -0.078 in eight runs): positions
        # are those of the chassis frame, velocities those of the chassis' centre of mass, 0.056 m before it.
        position_point_m=0.0,
        velocity_point_m=0.056,
    ),
    Family(
        name="autodrive_hunter_se",
        title="AutoDRIVE Hunter SE, logs",
        pattern=r"(?P<manoeuvre>\w+)\.csv",
        folder="autodrive_hunter_se",
        anywhere=False,
        columns=Columns(time="t", x="x", y="y", yaw="yaw", yaw_rate="wz", speed="v", roll="roll"),
        commands=Commands(time="t", steer_rad="steer", throttle="throttle"),
        twins={},
        vehicle="hunter_se",
    ),
    Family(
        name="autodrive_nigel",
        title="AutoDRIVE Nigel, log",
        pattern=r"(?P<manoeuvre>\w+)\.csv",
        folder="autodrive_nigel",
        anywhere=False,
        columns=Columns(time="t", x="x", y="y", yaw="yaw", yaw_rate="wz", speed="v", roll="roll"),
        commands=Commands(time="t", steer_rad="steer", throttle="throttle"),
        twins={},
        vehicle="nigel",
    ),
)
