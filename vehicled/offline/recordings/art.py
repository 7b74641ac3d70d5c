"""Recorded drives of the ART vehicle as CSV files. The header row says what a file is; where it
lies does not matter.

The vehicle believed is by default that of the profile ``art_published`` for every campaign: that
its steering gain was another one each time is for the estimators to find out.
"""

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, HeadingKind, Message
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings import messages, smoothing, table
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.recording import RecordedMotion, Recording, Times, arrival_ns
from vehicled.offline.recordings.table import CsvTable
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile

RTK_SIGMA_M = 0.02
"""Per axis: fixed solutions are good to 0.01-0.02 m, and the receiver's text has a grid of 0.0136 m
x 0.0186 m."""
PLAIN_SIGMA_M = 1.8
"""Per axis, for an accuracy of 2.5 m (CEP 50 %) as makers state it for a receiver without
corrections."""
NOISY_SIGMA_M = 0.3
"""Per axis: the noise of the indoor tests was published with a mean error of 0.46 m, which is 0.37
m per axis, and starts at 0."""
EXACT_SIGMA_M = 0.005
"""Motion capture and simulated truth given as fixes."""
MOCAP_HEADING_SIGMA_RAD = 0.02
SIMULATED_ROW_S = 0.0955
"""The simulated drives were logged at 10 Hz of wall time by a simulation that ran at 0.955 of
it."""
NMEA_GRID_M = 0.018553
"""Real positions come from a receiver's text, in steps of 1e-5 arc-minute of latitude; a
simulation's move by any amount."""
OFF_GRID = 0.05
"""Mean distance from the grid, in steps of it, beyond which positions are simulated: text gives
0.01 and less, chance 0.25."""
STANDS_M = 0.15
"""RTK has moved by less than this while the vehicle stood."""
MARKER_LEVER_ARM_M = (0.31, 0.0, 0.0)
"""The marker of the steering ramps stood 0.30-0.32 m ahead of the rear axle: lateral speed over yaw
rate."""
BODY_LEVER_ARM_M = (0.22, 0.0, 0.0)
"""The body of the drives on noisy positions stood 0.216-0.227 m ahead of the rear axle: course
minus heading over curvature."""
MARKER_RATE_S = 0.1
"""Motion capture at 100 Hz is given as fixes at 10 Hz, as a receiver would."""

OUTDOOR = frozenset(
    {"gps_x_m", "gps_y_m", "rtk_x_m", "rtk_y_m", "throttle_cmd", "steering_cmd", "time_nominal_s"}
)
PATH = frozenset(
    {"time_nominal_s", "x_m", "y_m", "heading_rad", "e_speed_mps", "throttle_cmd", "steering_cmd"}
)
MOCAP = frozenset(
    {
        "time_s",
        "noisy_x_m",
        "noisy_y_m",
        "mocap_x_m",
        "mocap_y_m",
        "mocap_heading_rad",
        "throttle_cmd",
        "steering_cmd",
    }
)
MOTION = frozenset({"time_s", "x_m", "y_m", "yaw_rad"})
SPEED = frozenset({"time_s", "speed_mps"})
COMMANDS = frozenset({"time_s", "throttle_cmd", "steering_cmd"})


def read(
    file: Path, name: str, kinds: Collection[str] | None = None, vehicle: Vehicle | None = None
) -> list[Recording]:
    """The recordings of one file, under a name, with the vehicle to believe. Raises
    :class:`RecordingError`."""
    reader = reader_of(file)
    if reader is None:
        raise RecordingError(
            f"{file}: line 1 has the columns of no recording that is known here; needed are, for "
            f"a drive outdoors, {', '.join(sorted(OUTDOOR))} or {', '.join(sorted(PATH))}, and "
            f"indoors {', '.join(sorted(MOCAP))}"
        )

    def wanted(kind: str) -> bool:
        return kinds is None or kind in kinds

    return reader(table.read(file), name, vehicle or load_profile("art_published").vehicle, wanted)


Reader = Callable[[CsvTable, str, Vehicle, Callable[[str], bool]], list[Recording]]


def reader_of(file: Path) -> Reader | None:
    """Return the reader of files with this header; None for other files, and for the commands
    beside a motion file."""
    columns = frozenset(table.header(file))
    if columns >= OUTDOOR:
        return _outdoor
    if columns >= PATH:
        return _path
    if columns >= MOCAP:
        return _mocap
    if columns >= MOTION and _commands_file(file) is not None:
        return _ramp
    if columns == SPEED and _commands_file(file) is not None:
        return _acceleration
    return None


def _mocap(
    rows: CsvTable, name: str, vehicle: Vehicle, wanted: Callable[[str], bool]
) -> list[Recording]:
    if not wanted("mocap"):
        return []
    t_s = table.times_s(rows, "time_s")
    t_ns = messages.stamps_ns(t_s)
    x, y = rows["mocap_x_m"], rows["mocap_y_m"]
    noisy_x, noisy_y = rows["noisy_x_m"], rows["noisy_y_m"]
    vx, vy = smoothing.velocity(t_s, x, y, smoothing.is_current(x, y))
    heading = rows["mocap_heading_rad"]
    course = smoothing.course_rad(vx, vy)
    # The rigid body was not aligned with the vehicle: its constant angle is taken from all courses
    # of the drive.
    yaw = smoothing.true_yaw(t_s, np.unwrap(heading), course, half_s=float(t_s[-1] - t_s[0]) + 1.0)
    new = smoothing.is_new(noisy_x, noisy_y)
    inputs: list[Message] = [
        *messages.headings(t_ns, heading, MOCAP_HEADING_SIGMA_RAD, HeadingKind.MOVING_BASE),
        *messages.fixes(t_ns, noisy_x, noisy_y, new, LOT_17, CarrierSolution.NONE, NOISY_SIGMA_M),
        *messages.commands(t_ns, rows["throttle_cmd"], rows["steering_cmd"], vehicle),
    ]
    arm = BODY_LEVER_ARM_M
    truth = RecordedMotion(t_ns, *_axle(x, y, yaw, arm), yaw, np.hypot(vx, vy))
    raw = _axle(noisy_x, noisy_y, yaw, arm)
    published = RecordedMotion.partly(t_ns)
    if "ekf_x_m" in rows and "ekf_y_m" in rows:
        ekf_x, ekf_y = _axle(rows["ekf_x_m"], rows["ekf_y_m"], yaw, arm)
        published = RecordedMotion.partly(t_ns, x_m=ekf_x, y_m=ekf_y)
    return [
        _recording(rows, name, "mocap", vehicle, inputs, truth, raw, published, BODY_LEVER_ARM_M)
    ]


def _outdoor(
    rows: CsvTable, name: str, vehicle: Vehicle, wanted: Callable[[str], bool]
) -> list[Recording]:
    t_s = table.times_s(rows, "time_nominal_s")
    t_ns = messages.stamps_ns(t_s)
    rtk_x, rtk_y, gps_x, gps_y = (rows[c] for c in ("rtk_x_m", "rtk_y_m", "gps_x_m", "gps_y_m"))
    throttle, gyro = rows["throttle_cmd"], rows.columns.get("gyro_yaw_rad")
    truth = truth_of_rtk(t_s, t_ns, rtk_x, rtk_y, gyro)
    # Before the first plain fix the logger wrote zeros.
    begun = np.cumsum((gps_x != 0.0) | (gps_y != 0.0)) > 0
    plain = list(
        messages.fixes(
            t_ns,
            gps_x,
            gps_y,
            smoothing.is_new(gps_x, gps_y) & begun,
            LOT_17,
            CarrierSolution.NONE,
            PLAIN_SIGMA_M,
        )
    )

    def rtk(given: NDArray[np.bool_]) -> list[Message]:
        return list(
            messages.fixes(t_ns, rtk_x, rtk_y, given, LOT_17, CarrierSolution.FIXED, RTK_SIGMA_M)
        )

    common: list[Message] = list(messages.commands(t_ns, throttle, rows["steering_cmd"], vehicle))
    if gyro is not None:
        common += [
            *messages.headings(t_ns, gyro, np.nan, HeadingKind.INERTIAL),
            *messages.rates(t_ns, gyro),
        ]
    fixed, free = ("bare_rtk", "bare_plain") if gyro is None else ("rtk", "plain")
    speed = rows.columns.get("ekf_speed_mps")
    made: list[Recording] = []
    if wanted(fixed):
        x, y, heading = (rows.columns.get(c) for c in ("ekf_x_m", "ekf_y_m", "ekf_heading_rad"))
        pose = RecordedMotion.partly(t_ns, x_m=x, y_m=y, yaw_rad=heading, speed_mps=speed)
        inputs = [*rtk(smoothing.is_new(rtk_x, rtk_y)), *common]
        made.append(_recording(rows, name, fixed, vehicle, inputs, truth, (rtk_x, rtk_y), pose))
    # The pose that was published holds RTK and gyro, so it stands beside none of the plain kinds;
    # its speed saw neither.
    raw = np.where(begun, gps_x, np.nan), np.where(begun, gps_y, np.nan)
    starts = (
        {free: [], "plain_start": rtk(_standing(rtk_x, rtk_y, throttle))}
        if gyro is not None
        else {free: []}
    )
    for kind, start in starts.items():
        if wanted(kind):
            pose = RecordedMotion.partly(t_ns, speed_mps=speed)
            made.append(
                _recording(rows, name, kind, vehicle, [*start, *plain, *common], truth, raw, pose)
            )
    return made


def _path(
    rows: CsvTable, name: str, vehicle: Vehicle, wanted: Callable[[str], bool]
) -> list[Recording]:
    x, y, heading = rows["x_m"], rows["y_m"], rows["heading_rad"]
    simulated = _is_simulated(y)
    kind = "path_sim" if simulated else "path"
    if not wanted(kind):
        return []
    t_s = table.times_s(rows, "time_nominal_s") * (SIMULATED_ROW_S / 0.1 if simulated else 1.0)
    t_ns = messages.stamps_ns(t_s)
    sigma_m = EXACT_SIGMA_M if simulated else RTK_SIGMA_M
    truth = truth_of_rtk(t_s, t_ns, x, y, np.unwrap(heading))
    if simulated:
        truth = RecordedMotion(t_ns, x, y, np.unwrap(heading), truth.speed_mps)
    inputs: list[Message] = [
        *messages.headings(t_ns, heading, np.nan, HeadingKind.INERTIAL),
        *messages.rates(t_ns, np.unwrap(heading)),
        *messages.fixes(t_ns, x, y, smoothing.is_new(x, y), LOT_17, CarrierSolution.FIXED, sigma_m),
        *messages.commands(t_ns, rows["throttle_cmd"], rows["steering_cmd"], vehicle),
    ]
    # The error state holds the speed that the filter on board believed: reference (1 m/s) minus
    # vehicle.
    published = RecordedMotion.partly(t_ns, speed_mps=1.0 - rows["e_speed_mps"])
    return [_recording(rows, name, kind, vehicle, inputs, truth, (x, y), published)]


def _ramp(
    rows: CsvTable, name: str, vehicle: Vehicle, wanted: Callable[[str], bool]
) -> list[Recording]:
    if not wanted("ramp"):
        return []
    t_s = table.times_s(rows, "time_s")
    yaw = rows["yaw_rad"]
    axle_x, axle_y = _axle(rows["x_m"], rows["y_m"], yaw, MARKER_LEVER_ARM_M)
    return [
        _captured(
            rows,
            name,
            "ramp",
            vehicle,
            t_s,
            (axle_x, axle_y, yaw),
            (rows["x_m"], rows["y_m"]),
            MARKER_LEVER_ARM_M,
        )
    ]


def _acceleration(
    rows: CsvTable, name: str, vehicle: Vehicle, wanted: Callable[[str], bool]
) -> list[Recording]:
    if not wanted("acceleration"):
        return []
    t_s = table.times_s(rows, "time_s")
    speed = np.nan_to_num(rows["speed_mps"])
    way = np.concatenate([[0.0], np.cumsum(0.5 * (speed[1:] + speed[:-1]) * np.diff(t_s))])
    nothing = np.zeros(len(t_s))
    return [
        _captured(
            rows,
            name,
            "acceleration",
            vehicle,
            t_s,
            (way, nothing, nothing),
            (way, nothing),
            (0.0, 0.0, 0.0),
        )
    ]


ALTERNATIVES = frozenset({"path", "path_sim"})
"""Kinds of which a file is exactly one: its positions show which, and only when they are read."""
KINDS: dict[Reader, tuple[str, ...]] = {
    _mocap: ("mocap",),
    _outdoor: ("rtk", "plain", "plain_start", "bare_rtk", "bare_plain"),
    _path: ("path", "path_sim"),
    _ramp: ("ramp",),
    _acceleration: ("acceleration",),
}
"""Kinds of recordings that a reader may find in a file."""


def _captured(
    rows: CsvTable,
    name: str,
    kind: str,
    vehicle: Vehicle,
    t_s: Array,
    axle: tuple[Array, Array, Array],
    marker: tuple[Array, Array],
    lever_arm_m: tuple[float, float, float],
) -> Recording:
    """A drive under motion capture at 100 Hz, thinned to the rate of a receiver, with the commands
    of the file beside it."""
    file = _commands_file(rows.path)
    assert file is not None
    orders = table.read(file)
    speed = smoothing.speed_along(t_s, *axle)
    every = np.unique(np.searchsorted(t_s, np.arange(t_s[0], t_s[-1], MARKER_RATE_S)))
    t_ns = messages.stamps_ns(t_s)[every]
    order_ns = messages.START_NS + np.round(
        (table.times_s(orders, "time_s") - t_s[0]) * 1e9
    ).astype(np.int64)
    x, y, yaw = (column[every] for column in axle)
    raw_x, raw_y = marker[0][every], marker[1][every]
    given = np.isfinite(raw_x)
    inputs: list[Message] = [
        *messages.headings(t_ns, yaw, np.nan, HeadingKind.INERTIAL),
        *messages.rates(t_ns, yaw),
        *messages.fixes(t_ns, raw_x, raw_y, given, LOT_17, CarrierSolution.FIXED, EXACT_SIGMA_M),
        *messages.commands(order_ns, orders["throttle_cmd"], orders["steering_cmd"], vehicle),
    ]
    truth = RecordedMotion(t_ns, x, y, yaw, speed[every])
    return _recording(
        rows,
        name,
        kind,
        vehicle,
        inputs,
        truth,
        (raw_x, raw_y),
        RecordedMotion.partly(t_ns),
        lever_arm_m,
    )


def _axle(
    x_m: Array, y_m: Array, yaw_rad: Array, lever_arm_m: tuple[float, float, float]
) -> tuple[Array, Array]:
    """Positions of a marker or an antenna ahead of the rear axle, taken back to it."""
    return x_m - lever_arm_m[0] * np.cos(yaw_rad), y_m - lever_arm_m[0] * np.sin(yaw_rad)


def _recording(
    rows: CsvTable,
    name: str,
    kind: str,
    vehicle: Vehicle,
    inputs: Sequence[Message],
    truth: RecordedMotion,
    raw_m: tuple[Array, Array],
    published: RecordedMotion,
    lever_arm_m: tuple[float, float, float] = (0.0, 0.0, 0.0),
) -> Recording:
    return Recording(
        name=name,
        kind=kind,
        vehicle=vehicle,
        datum=LOT_17,
        inputs=sorted(inputs, key=arrival_ns),
        steps_ns=truth.t_ns.tolist(),
        truth=truth,
        raw_x_m=raw_m[0],
        raw_y_m=raw_m[1],
        published=published,
        lever_arm_m=lever_arm_m,
        source=str(rows.path),
    )


def truth_of_rtk(t_s: Array, t_ns: Times, x: Array, y: Array, gyro: Array | None) -> RecordedMotion:
    """RTK where it was current, and what its track says of speed and heading."""
    current = smoothing.is_current(x, y)
    vx, vy = smoothing.velocity(t_s, x, y, current)
    course = smoothing.course_rad(vx, vy)
    yaw = course if gyro is None else smoothing.true_yaw(t_s, gyro, course)
    return RecordedMotion(
        t_ns, np.where(current, x, np.nan), np.where(current, y, np.nan), yaw, np.hypot(vx, vy)
    )


def _standing(x: Array, y: Array, throttle: Array) -> NDArray[np.bool_]:
    """Rows before the first command to drive, or before RTK first shows that it drives."""
    moved = (throttle > 0.0) | (np.hypot(x - x[0], y - y[0]) > STANDS_M)
    moved[0] = False
    return np.asarray(np.cumsum(moved) == 0)


def _is_simulated(y: Array) -> bool:
    steps = np.diff(y[np.isfinite(y)]) / NMEA_GRID_M
    return len(steps) > 0 and float(np.abs(steps - np.round(steps)).mean()) > OFF_GRID


def _commands_file(file: Path) -> Path | None:
    for ending in ("_motion", "_speed"):
        if file.stem.endswith(ending):
            beside = file.with_name(file.stem.removesuffix(ending) + "_commands.csv")
            return (
                beside if beside.is_file() and frozenset(table.header(beside)) >= COMMANDS else None
            )
    return None
