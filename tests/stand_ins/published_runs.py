"""Drives along a path under the published laws, as the study of 2024 logged them on its vehicle and
in its simulator.

Reference, error state, linear law and speed are written here a second time, and the predictive
program has another solver, so that ours are compared with something else.
"""

from pathlib import Path

import numpy as np

from tests.recordings_bench import write
from tests.stand_ins.published_program import uncondensed
from vehicled.control.error_state import ErrorState

THROTTLE = np.array([0.37013526, 0.00507144, 0.15476554, 1.0235402])
STEERING = np.array([0.02176878, 0.72672704, 0.78409284, -0.0105355])
"""The law's coefficients as they are published."""
ROW_S = 0.1
RATE_PER_STEP = 0.25
"""Steering rate limit of their simulator."""
WHEELBASE_M, GAIN_RAD, FULL_LOCK_RAD = 0.5, 0.32, 0.6
GRID_M = np.array((0.013553, 0.018553))
"""Resolution of the positions that the vehicle logged."""
COLUMNS = (
    "time_nominal_s", "x_m", "y_m", "heading_rad", "e_ahead_m", "e_left_m", "e_heading_rad",
    "e_speed_mps", "throttle_cmd", "steering_cmd",
)  # fmt: skip


def errors(
    path: np.ndarray, x_m: float, y_m: float, yaw_rad: float, speed_mps: float
) -> np.ndarray:
    """Error state at the waypoint (x, y, yaw, speed) that is nearest to the point a metre ahead."""
    place, facing = complex(x_m, y_m), np.exp(1j * yaw_rad)
    points = path[:, 0] + 1j * path[:, 1]
    k = int(np.abs(points - place - facing).argmin())
    off = (points[k] - place) * np.conj(facing)
    return np.array(
        (off.real, off.imag, np.angle(np.exp(1j * path[k, 2]) / facing), path[k, 3] - speed_mps)
    )


def next_speed(speed_mps: float, throttle: float) -> float:
    """Speed a row later, by the drive model of the study's filter: torques of 0.3 N m and 0.02 N m,
    1e-3 kg m2."""
    reach_m = 0.08451952624 / 3.0
    torque_nm = (
        0.3 * throttle - 0.3 * speed_mps / (30.0 * reach_m) - 1e-4 * speed_mps / reach_m - 0.02
    )
    return max(0.0, speed_mps + ROW_S * reach_m / 1e-3 * torque_nm)


def run(path: np.ndarray, rows: int, *, simulated: bool, predictive: bool) -> dict[str, np.ndarray]:
    """Drive a kinematic vehicle along a path. Only the simulator limits the commands that it
    logs."""
    x = path[0, 0]
    y = path[0, 1] - 0.1
    yaw = path[0, 2] - 0.05
    speed = 0.0
    steered = 0.0
    driven = 0.0
    table = []
    for k in range(rows):
        # The law sees what is logged, with six decimals.
        place = (x, y) if simulated else np.round(np.array((x, y)) / GRID_M) * GRID_M
        pose = np.round((*place, yaw), 6)
        e = np.round(errors(path, pose[0], pose[1], pose[2], speed), 6)
        if predictive:
            throttle, wheel = uncondensed(ErrorState(*e.tolist()), FULL_LOCK_RAD * steered)
            steering = wheel / FULL_LOCK_RAD
        else:
            throttle, steering = float(THROTTLE @ e), float(STEERING @ e)
        if simulated:
            throttle = min(max(throttle, 0.0), 1.0)
            steering = min(
                max(steering, steered - RATE_PER_STEP, -1.0), steered + RATE_PER_STEP, 1.0
            )
        table.append((k * ROW_S, *pose, *e, throttle, steering))
        steered = steering
        yaw += ROW_S * speed * np.tan(GAIN_RAD * min(max(steering, -1.0), 1.0)) / WHEELBASE_M
        x, y = x + ROW_S * speed * np.cos(yaw), y + ROW_S * speed * np.sin(yaw)
        # A command is in force a row after the one that logs it.
        speed, driven = next_speed(speed, driven), min(max(throttle, 0.0), 1.0)
    return dict(zip(COLUMNS, np.array(table).T))


def make(folder: Path, waved: np.ndarray) -> None:
    """Write the runs below ``path_following_2024``; ``waved`` (n, 4) is the path of those that are
    not on the lap."""
    lap = np.loadtxt(
        folder / "reference_paths" / "lot17_sinsquare_sv.csv", delimiter=",", skiprows=1
    )
    drives = folder / "path_following_2024"
    on_lap = ("sim/lot17/pid", "sim/lot17/mpc", "real/lot17/pid_1", "real/lot17/mpc_1")
    for name in (*on_lap, "sim/rd_path/pid", "sim/syn_path/pid", "real/rd_path/pid_2"):
        path = lap if name in on_lap else waved
        write(
            drives / f"{name}.csv",
            run(path, 400, simulated=name.startswith("sim"), predictive="mpc" in name),
        )
