"""Small recordings written by the tests themselves: drives of a known vehicle in the formats that
are read."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from math import atan, cos, sin
from pathlib import Path

import numpy as np

from vehicled.offline.recordings import art
from vehicled.offline.recordings.recording import Recording

ROW_S = 0.1
SPEED_MPS = 1.0
GAIN_RAD, OFFSET_RAD, DELAY_S = 0.25, 0.02, 0.3
WHEELBASE_M = 0.5


def write(path: Path, columns: Mapping[str, Sequence[float] | np.ndarray]) -> Path:
    """Write a CSV file with six decimals, as the recordings have."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = zip(*columns.values())
    path.write_text(
        "\n".join([",".join(columns), *(",".join(f"{v:.6f}" for v in row) for row in rows)]) + "\n"
    )
    return path


@cache
def drive(seconds: float = 30.0, standing_s: float = 3.0) -> dict[str, np.ndarray]:
    """A vehicle that stands, then weaves at constant speed: its steering has the gain, offset and
    delay above, and no slew.

    Columns t, x, y, yaw, throttle, steering, speed, one row each 0.1 s; integrated in steps of 1
    ms.
    """
    t = np.arange(0.0, seconds, ROW_S)

    def command(at_s: float) -> float:
        moving_s = at_s - standing_s
        return 0.5 * sin(0.9 * moving_s) + 0.3 * sin(2.1 * moving_s) if moving_s > 0.0 else 0.0

    x = y = yaw = 0.0
    rows = []
    for k, at_s in enumerate(t):
        speed = SPEED_MPS if at_s >= standing_s else 0.0
        rows.append((at_s, x, y, yaw, 0.6 if speed else 0.0, command(at_s), speed))
        for i in range(100):
            now_s = t[k] + 1e-3 * i
            # The command of a row acts until the next one.
            held_s = np.floor((now_s - DELAY_S) / ROW_S + 1e-9) * ROW_S
            wheel = OFFSET_RAD + GAIN_RAD * command(held_s)
            v = SPEED_MPS if now_s >= standing_s else 0.0
            yaw += 1e-3 * v * np.tan(wheel) / WHEELBASE_M
            x += 1e-3 * v * cos(yaw)
            y += 1e-3 * v * sin(yaw)
    return dict(zip(("t", "x", "y", "yaw", "throttle", "steering", "speed"), np.array(rows).T))


def wheel_angle(curvature: float) -> float:
    """Return the wheel angle of the single track for a curvature."""
    return atan(WHEELBASE_M * curvature)


def outdoor(path: Path, *, gyro: bool = True, outage: tuple[float, float] | None = None) -> Path:
    """Write a drive with plain GNSS (2 m off, 4 Hz), RTK and gyro. RTK freezes during the outage
    (begin and end in s)."""
    d = drive()
    t = d["t"]
    rtk_x, rtk_y = d["x"].copy(), d["y"].copy()
    if outage is not None:
        gone = (t >= outage[0]) & (t < outage[1])
        rtk_x[gone], rtk_y[gone] = rtk_x[gone.argmax() - 1], rtk_y[gone.argmax() - 1]
    fresh = np.floor(t * 4.0 + 1e-9)
    first = np.searchsorted(fresh, fresh)
    gps_x, gps_y = d["x"][first] + 2.0, d["y"][first] + 0.05 * np.sin(t[first])
    gps_x[0], gps_y[0] = 0.0, 0.0
    columns = {
        "time_nominal_s": t, "gps_x_m": gps_x, "gps_y_m": gps_y, "rtk_x_m": rtk_x, "rtk_y_m": rtk_y,
        "ekf_x_m": rtk_x + 0.3, "ekf_y_m": rtk_y, "ekf_heading_rad": d["yaw"],
        "ekf_speed_mps": d["speed"] + 0.5, "throttle_cmd": d["throttle"],
        "steering_cmd": d["steering"],
    }  # fmt: skip
    if gyro:
        columns |= {"gyro_yaw_rad": d["yaw"] + 0.002 * t}
    return write(path, columns)


def path_following(path: Path, *, grid_m: float = 0.018553) -> Path:
    """Write a drive with RTK on the grid of a receiver's text; ``grid_m`` 0 writes exact positions,
    as a simulation does."""
    d = drive()
    x, y = (np.round(d[c] / grid_m) * grid_m if grid_m else d[c] for c in ("x", "y"))
    nothing = np.zeros(len(x))
    return write(
        path,
        {
            "time_nominal_s": d["t"], "x_m": x, "y_m": y, "heading_rad": d["yaw"],
            "e_ahead_m": nothing, "e_left_m": nothing, "e_heading_rad": nothing,
            "e_speed_mps": 1.0 - 0.4 * d["speed"], "throttle_cmd": 2.0 * d["throttle"],
            "steering_cmd": 2.0 * d["steering"],
        },
    )  # fmt: skip


def mocap(path: Path, *, misalignment_rad: float = 0.12, seed: int | None = None) -> Path:
    """Write a drive indoors: noisy positions, a heading with a constant error. The noise grows;
    with a ``seed`` it wanders, and the positions are of the body, 0.22 m ahead of the axle, as on
    the vehicle.
    """
    d = drive(seconds=15.0, standing_s=1.0)
    t = d["t"]
    x, y = d["x"], d["y"]
    east, north = 0.05 * t, -0.02 * t
    if seed is not None:
        ahead_m = art.BODY_LEVER_ARM_M[0]
        x, y = x + ahead_m * np.cos(d["yaw"]), y + ahead_m * np.sin(d["yaw"])
        east, north = np.zeros((2, len(t)))
        for k, normal in enumerate(np.random.default_rng(seed).standard_normal((len(t) - 1, 2))):
            east[k + 1], north[k + 1] = 0.97 * np.array((east[k], north[k])) + 0.05 * normal
    return write(
        path,
        {
            "time_s": t, "noisy_x_m": x + east, "noisy_y_m": y + north, "mocap_x_m": x,
            "mocap_y_m": y, "ekf_x_m": d["x"] + 1.0, "ekf_y_m": d["y"],
            "mocap_heading_rad": d["yaw"] - misalignment_rad, "throttle_cmd": d["throttle"],
            "steering_cmd": d["steering"],
        },
    )  # fmt: skip


def ramp(folder: Path) -> Path:
    """Write a circle under motion capture at 100 Hz, the marker 0.31 m ahead of the axle, and the
    commands at 10 Hz."""
    t = np.arange(0.0, 8.0, 0.01)
    yaw = 0.4 * t
    x, y = 2.0 * np.sin(yaw) + 0.31 * np.cos(yaw), 2.0 * (1.0 - np.cos(yaw)) + 0.31 * np.sin(yaw)
    nothing = np.zeros(len(t))
    motion = write(
        folder / "test1_motion.csv",
        {
            "time_s": t, "x_m": x, "y_m": y, "vx_body_mps": nothing, "vy_body_mps": nothing,
            "yaw_rad": yaw, "yaw_rate_radps": nothing,
        },
    )  # fmt: skip
    order_s = np.arange(0.0, 8.0, 0.1)
    write(
        folder / "test1_commands.csv",
        {
            "time_s": order_s,
            "throttle_cmd": np.full(len(order_s), 0.5),
            "steering_cmd": np.full(len(order_s), 0.6),
        },
    )
    return motion


def acceleration(folder: Path) -> Path:
    """Write the speed under motion capture along a straight, and the commands."""
    t = np.arange(0.0, 5.0, 0.01)
    file = write(folder / "test1_speed.csv", {"time_s": t, "speed_mps": np.minimum(t, 2.0)})
    order_s = np.arange(0.0, 5.0, 0.1)
    write(
        folder / "test1_commands.csv",
        {
            "time_s": order_s,
            "throttle_cmd": np.ones(len(order_s)),
            "steering_cmd": np.zeros(len(order_s)),
        },
    )
    return file


def load(root: Path, kinds: Collection[str] | None = None) -> list[Recording]:
    """Every recording of a CSV file, or of those below a folder."""
    files = sorted(root.rglob("*.csv")) if root.is_dir() else [root]
    names = {
        file: file.relative_to(root).with_suffix("").as_posix() if root.is_dir() else file.stem
        for file in files
    }
    known = [file for file in files if not root.is_dir() or art.reader_of(file) is not None]
    return [recording for file in known for recording in art.read(file, names[file], kinds)]
