"""Table of reference run formats (families) and how to read them.

A run belongs to the first family whose pattern its file name matches; no other code refers to a
family by name. The conventions were checked on the files: velocities against the derivatives of the
positions, signs against the steering.
"""

from math import inf

from msgspec import Struct


class Columns(Struct, frozen=True, kw_only=True):
    """Column names of a format; empty if absent. Angles in rad, ISO 8855 signs."""

    time: str
    x: str
    y: str
    yaw: str
    vx: str = ""
    vy: str = ""
    yaw_rate: str
    roll: str = ""
    speed: str = ""
    """Magnitude of the velocity, if ``vx`` and ``vy`` are missing."""
    sideslip: str = ""
    """Angle of the velocity in the body, used with ``speed``."""
    wheels: tuple[tuple[str, str, str, str], ...] = ()
    """Wheel speeds in rad/s: front left, front right, rear left, rear right. Alternatives; a
    single-track model names each of its two wheels twice.
    """
    loads: tuple[str, ...] = ()
    """Wheel loads in N in the same order."""


class CommandColumns(Struct, frozen=True, kw_only=True):
    """Columns and meaning of the commands."""

    time: str
    wheel_angle: str = ""
    """Angle of the virtual front wheel in rad, linear between rows: the reference's own steering
    actuator is prescribed."""
    steer: str = ""
    """Steering command -1..1, positive left; passes the vehicle's steering map."""
    steer_rad: str = ""
    """Commanded wheel angle in rad, used unchanged."""
    throttle: str = ""
    brake: str = ""
    acceleration: str = ""
    """Commanded acceleration in m/s2, instead of throttle and brake."""
    linear: bool = False
    """True if interpolated between rows; otherwise held until the next one."""
    file: str = ""
    """Replacement of the file name's ending if the commands have their own file."""


class Family(Struct, frozen=True, kw_only=True):
    """Reference runs of one kind."""

    name: str
    title: str
    pattern: str
    """Pattern of the file name; groups ``vehicle`` (optional), ``model`` (optional) and
    ``manoeuvre``."""
    folder: str
    anywhere: bool = True
    """True if its files are recognised by name and columns anywhere; otherwise only in its
    folder."""
    marks: tuple[str, ...] = ()
    """Further columns that identify its files outside its folder."""
    columns: Columns
    commands: CommandColumns
    twins: dict[str, str]
    """Twin by the vehicle's name in the files; unlisted names are twin names."""
    vehicle: str = ""
    """Vehicle name if the file name has none."""
    at_rest: bool = False
    """True if it starts at standstill; otherwise with the state of the first row."""
    cut_below_mps: float = 0.0
    """Speed below which the end of the run is cut off, because the reference creeps there."""
    position_point_m: float | None = None
    """Position reference point, m ahead of the middle between the axles; None: the centre of
    mass."""
    velocity_point_m: float | None = None
    """Velocity reference point, likewise."""
    rear_axle_below_mps: float = 0.0
    """Top speed of a run below which the reference is a kinematic single track, with positions and
    velocities of the rear axle."""
    prescribed_speed: bool = False
    """True if the reference's speed is its integrated command, whatever the tyres do: our speed is
    held to it."""
    forced: dict[str, tuple[float, float]] = {}
    """Models whose commanded acceleration is a force on the body, up to these limits forward and
    backward in m/s2: no limit of a motor's torque or current holds it back, and no axle slips for
    it.
    """
    loads_by_command: bool = False
    """True if the reference's longitudinal load transfer follows the command only: without a
    command our model has none."""
    linear_tyres: dict[str, float] = {}
    """Models with unsaturated tyres, and the lateral acceleration in m/s2 up to which ours are
    linearised with the same slopes."""
    single_track: dict[str, float] = {}
    """Models with one wheel per axle, and its spin inertia relative to our two wheels. Our model
    then steers both front wheels about one point and does not roll, because the reference has
    neither scrub nor lean.
    """
    sprung_point: tuple[str, ...] = ()
    """Models whose positions and velocities are those of the sprung mass, which moves sideways as
    the body rolls."""
    light_loads: bool = False
    """True if the reference's wheel loads count the unsprung masses once and its inertia counts
    them twice."""
    limit_slip_rad: float = inf
    """Slip angle of an axle at which its tyres slide; figures are judged up to there."""


_WHEELS = ("w_fl", "w_fr", "w_rl", "w_rr")
_LOADS = ("fz_fl", "fz_fr", "fz_rl", "fz_rr")
_COMMONROAD = Columns(
    time="t",
    x="x",
    y="y",
    yaw="yaw",
    vx="vx",
    vy="vy",
    yaw_rate="yaw_rate",
    roll="roll",
    wheels=(_WHEELS, ("w_f", "w_f", "w_r", "w_r")),
    loads=_LOADS,
)
_BODY = Columns(
    time="t",
    x="x",
    y="y",
    yaw="yaw",
    vx="vx",
    vy="vy",
    yaw_rate="yaw_rate",
    wheels=(_WHEELS,),
    loads=_LOADS,
)


FAMILIES = (
    Family(
        name="lfdm",
        title="LFDM, 18 degrees of freedom",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>lf\d+)__(?P<manoeuvre>\w+)\.csv",
        folder="lfdm",
        columns=_COMMONROAD,
        commands=CommandColumns(time="t", steer="steer", throttle="throttle", brake="brake"),
        twins={"hmmwv": "hmmwv_lfdm", "art": "art_lfdm"},
        at_rest=True,
        cut_below_mps=0.5,
        light_loads=True,
        limit_slip_rad=0.2,
    ),
    Family(
        name="commonroad",
        title="CommonRoad, multi-body and single-track drift",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>mb|std)__(?P<manoeuvre>\w+)\.csv",
        folder="commonroad",
        columns=_COMMONROAD,
        commands=CommandColumns(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={},
        # One wheel per axle has the inertia of one: 3 m/s2 commanded are 2.92 there, and 2.85 on
        # four wheels.
        single_track={"std": 0.5},
        sprung_point=("mb",),
        limit_slip_rad=0.1,
    ),
    Family(
        name="f1tenth_gym",
        title="F1TENTH gym, linear single track",
        pattern=r"(?P<vehicle>\w+?)__(?P<model>st)__(?P<manoeuvre>\w+)\.csv",
        folder="f1tenth_gym",
        columns=Columns(
            time="t", x="x", y="y", yaw="yaw", yaw_rate="yaw_rate", speed="v", sideslip="sideslip"
        ),
        commands=CommandColumns(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={},
        # Its kinematic model has yaw rate v tan(delta) / L and no sideslip, which holds at the rear
        # axle only.
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
        commands=CommandColumns(time="t", wheel_angle="delta", acceleration="accel_cmd"),
        twins={"refcar": "slipx_refcar"},
        forced={"l1": (8.0, 12.0)},
        # Clipped at 1.1 of the load, which the first wheels reach here.
        linear_tyres={"l1": 9.5},
        single_track={"l1": 1.0},
        limit_slip_rad=0.12,
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
        commands=CommandColumns(
            time="time_s",
            steer="steering_in",
            throttle="throttle_in",
            brake="brake_in",
            linear=True,
            file="_commands.csv",
        ),
        twins={},
        vehicle="hmmwv_chrono",
        at_rest=True,
        # In eight runs dx/dt, dy/dt differ from vx, vy by -0.056 m (-0.046 to -0.078) times yaw
        # rate: positions are those of the chassis frame, velocities of the chassis' centre of mass.
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
        commands=CommandColumns(time="t", steer_rad="steer", throttle="throttle"),
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
        commands=CommandColumns(time="t", steer_rad="steer", throttle="throttle"),
        twins={},
        vehicle="nigel",
    ),
)
