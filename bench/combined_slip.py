"""Braking and accelerating in a turn: more runs of CommonRoad's multi-body model, its tyre beside
ours, and ours on its tyres.

    pip install commonroad-vehicle-models==3.0.2
    python bench/combined_slip.py FOLDER

Prints how far the tyre force leaves the ellipse of its own peaks. Writes
``FOLDER/commonroad/VEHICLE__mb__MANOEUVRE.csv``, which ``vehicled twin validate FOLDER
--no-theory`` compares, and prints the errors of our vehicle, on its own tyres and on the library's
formula, with the slowest and the fastest wheel of the library, over rolling. Runs turn in at 0.5 s,
brake or accelerate from 2.5 s to 5.5 s (classic RK4 at 0.5 ms), and end where a wheel load falls
below -150 N. Takes 15 minutes; without a folder it makes none.
"""

import csv
import sys
from collections.abc import Callable
from importlib.util import find_spec
from math import atan2, cos, sin, tan
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from sim_backend.plant.double_track import equations
from sim_backend.plant.double_track.constants import constants
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.tyre import Contact, contact, deflected
from sim_backend.plant.twin_file import load_twin
from vehicled.offline.twin.validation.drive import drive
from vehicled.offline.twin.validation.metrics import errors_of
from vehicled.offline.twin.validation.reference import find, read

STEP_S, ROW_S, END_S = 5e-4, 0.01, 6.5
VEHICLES = {1: "ford_escort", 2: "bmw_320i", 3: "vw_vanagon"}
RUNS = (
    ("brake", 12, 0.06, 3), ("brake", 12, 0.06, 6), ("brake", 15, 0.05, 2), ("brake", 16, 0.05, 4),
    ("brake", 20, 0.03, 4), ("brake", 22, 0.03, 6), ("accel", 6, 0.10, 2), ("accel", 7, 0.09, 3),
    ("accel", 10, 0.06, 4), ("accel", 12, 0.05, 2),
)  # fmt: skip
"""Kind, speed (m/s), wheel angle (rad), acceleration (m/s2)."""
HEAD = "t,steer_rate_cmd,accel_cmd,delta,x,y,yaw,vx,vy,yaw_rate,roll,w_fr,w_fl,w_rr,w_rl"


def run(
    number: int, kind: str, speed_mps: float, angle_rad: float, mps2: float
) -> list[list[float]]:
    """Simulate with the library, and return the rows."""
    from vehiclemodels.init_mb import init_mb
    from vehiclemodels.vehicle_dynamics_mb import vehicle_dynamics_mb
    from vehiclemodels.vehicle_parameters import setup_vehicle_parameters

    p = setup_vehicle_parameters(number)
    x = np.array(init_mb([0.0, 0.0, 0.0, speed_mps, 0.0, 0.0, 0.0], p), dtype=float)
    command, every, rows = (-mps2 if kind == "brake" else mps2), round(ROW_S / STEP_S), []
    for k in range(round(END_S / STEP_S) + 1):
        t = k * STEP_S
        rate = float(np.clip((angle_rad - x[2]) / STEP_S, -0.4, 0.4)) if t > 0.4999 else 0.0
        inputs = [rate, command if 2.4999 < t < 5.4999 else 0.0]
        if k % every == 0:
            if x[3] < 2.2 or lightest_n(p, x) < -150.0:
                break  # The model is not usable at walking pace, and its wheels do not lift.
            rows.append([t, *inputs, x[2], x[0], x[1], x[4], x[3], x[10], x[5], -x[6], *x[23:27]])

        def rates(state: np.ndarray, inputs: list[float] = inputs) -> np.ndarray:
            return np.array(vehicle_dynamics_mb(state.tolist(), inputs, p))

        a = rates(x)
        b = rates(x + 0.5 * STEP_S * a)
        c = rates(x + 0.5 * STEP_S * b)
        d = rates(x + STEP_S * c)
        x = x + STEP_S * (a + 2.0 * b + 2.0 * c + d) / 6.0
    return rows


def lightest_n(p: Any, x: np.ndarray) -> float:
    """Return the least wheel load of a state."""
    loads = []
    for bounce, roll, track_m in ((x[16], x[13], p.T_f), (x[21], x[18], p.T_r)):
        middle_n = (bounce + p.R_w * (cos(roll) - 1.0)) * p.K_zt
        side_n = 0.5 * track_m * sin(roll) * p.K_zt
        loads += [middle_n - side_n, middle_n + side_n]
    return float(min(loads))


def their_force(p: Any, slip: float, angle_rad: float) -> tuple[float, float]:
    """Return the library's forces over the load; positive slip drives."""
    from vehiclemodels.utils import tire_model as tyre

    side, grip = tyre.formula_lateral(angle_rad, 0.0, 1.0, p)
    along = tyre.formula_longitudinal_comb(
        -slip, angle_rad, tyre.formula_longitudinal(-slip, 0.0, 1.0, p), p
    )
    return along, tyre.formula_lateral_comb(-slip, angle_rad, 0.0, grip, 1.0, side, p)


def our_force(name: str, slip: float, angle_rad: float) -> tuple[float, float]:
    """Return the steady forces of our front tyre over the load, at 15 m/s."""
    c = constants(load_twin(name).parameters, 1e-3).front
    load_n, speed_mps, along_m, side_m = c.nominal_load_n, 15.0, 0.0, 0.0
    spin, sliding = speed_mps * (1.0 + slip) / c.rolling_radius_m, -speed_mps * slip
    for _ in range(400):
        t = contact(c, load_n, 1.0, speed_mps, speed_mps * tan(angle_rad), spin, along_m, side_m)
        along_m = deflected(c, along_m, t.grip_nspm, t.series_nspm, sliding)
        side_m = t.side_deflection_m
    return (t.drag_n - t.drag_nspm * sliding) / load_n, t.side_n / load_n


def tyres() -> None:
    """Print both tyres of the first vehicle at combined slips; 1 is the ellipse of each one's own
    peaks."""
    from vehiclemodels.vehicle_parameters import setup_vehicle_parameters

    p = setup_vehicle_parameters(1).tire
    twin = load_twin(VEHICLES[1]).parameters.front.tyre
    peaks = [
        direction.peak_force_n[0] / twin.nominal_load_n
        for direction in (twin.longitudinal, twin.lateral)
    ]
    print(
        "| slip | slip angle | theirs: along, across | of the ellipse | ours: along, across | "
        "of the ellipse |"
    )
    print("|---|---|---|---|---|---|")
    for slip, angle_rad in (
        (-0.05, 0.06),
        (-0.1, 0.06),
        (-0.1, 0.09),
        (-0.2, 0.03),
        (0.1, 0.06),
        (0.12, 0.086),
        (0.2, 0.06),
    ):
        theirs, ours = their_force(p, slip, angle_rad), our_force(VEHICLES[1], slip, angle_rad)
        cells = [
            f"{along:.3f}, {abs(across):.3f} | {np.hypot(along / most_x, across / most_y):.3f}"
            for (along, across), (most_x, most_y) in ((theirs, (p.p_dx1, p.p_dy1)), (ours, peaks))
        ]
        print(f"| {slip} | {angle_rad} | {' | '.join(cells)} |")


def their_contact(p: Any, side_sign: float) -> Callable[..., Contact]:
    """Return the contact of a wheel by the library's formula, through the carcass of our tyre."""

    def found(
        c: Any,
        load_n: float,
        friction: float,
        forward: float,
        lateral: float,
        spin: float,
        along_m: float,
        side_m: float,
    ) -> Contact:
        if load_n <= 0.0:
            return contact(c, load_n, friction, forward, lateral, spin, along_m, side_m)
        speed = max(abs(forward), 0.5)
        slip, angle = (c.rolling_radius_m * spin - forward) / speed, atan2(lateral, speed)
        slip, angle = (value if abs(value) > 1e-5 else 1e-5 for value in (slip, angle))
        along, across = their_force(p, slip, angle)
        grip_x = max(load_n * along / (slip * speed), 1.0)
        grip_y = max(load_n * side_sign * across / (tan(angle) * speed), 1.0)
        viscous_x, viscous_y = c.damping_x_nspm + c.yield_x_nspm, c.damping_y_nspm + c.yield_y_nspm
        shared = grip_x / (viscous_x + grip_x)
        rate = -(c.stiffness_y_npm * side_m + grip_y * lateral) / (viscous_y + grip_y)
        side_n = c.stiffness_y_npm * side_m + viscous_y * rate
        return Contact(
            c.stiffness_x_npm * along_m * shared,
            viscous_x * shared,
            side_n,
            side_m + c.step_s * rate,
            grip_x,
            grip_x + viscous_x,
            c.rolling_radius_m,
            c.unloaded_lever_m,
        )

    return found


def compare(folder: str) -> None:
    """Print the errors of our vehicle on its own tyres and on the library's."""
    from vehiclemodels.vehicle_parameters import setup_vehicle_parameters

    p = setup_vehicle_parameters(1).tire  # All vehicles of the library have these tyres.
    theirs = their_contact(p, float(np.sign(their_force(p, 0.0, 0.05)[1])))
    print(
        "| run | to (s) | slowest, fastest wheel | position (%), yaw rate (%) | on the "
        "library's tyres |\n|---|---|---|---|---|"
    )
    for source in find(folder).sources:
        reference, twin = read(source), load_twin(source.twin).parameters
        rolling = reference.vx_mps / twin.front.rolling_radius_m
        cells = []
        for law in (contact, theirs):
            with patch.object(equations, "contact", law):
                e = errors_of(reference, drive(reference, twin, DoubleTrack), len(reference.t_s))
            cells.append(f"{e['position']:.2f}, {e['yaw rate']:.1f}")
        wheels = reference.wheel_radps / rolling
        spins = f"{wheels.min():.2f}, {wheels.max():.2f}"
        print(
            f"| {source.name[11:]} | {reference.t_s[-1]:.1f} | {spins} | {' | '.join(cells)} |",
            flush=True,
        )


def main(arguments: list[str]) -> None:
    """Print the tyres, and write the runs into the folder named."""
    if find_spec("vehiclemodels") is None:
        print("not compared: the library is missing; pip install commonroad-vehicle-models==3.0.2")
        return
    tyres()
    for name in arguments:
        folder = Path(name) / "commonroad"
        folder.mkdir(parents=True, exist_ok=True)
        for number, vehicle in VEHICLES.items():
            for kind, speed_mps, angle_rad, mps2 in RUNS:
                file = folder / f"{vehicle}__mb__{kind}_in_turn_v{speed_mps:02d}_a{mps2}.csv"
                with file.open("w", newline="") as text:
                    writer = csv.writer(text)
                    writer.writerow(HEAD.split(","))
                    writer.writerows(
                        [f"{value:.7g}" for value in row]
                        for row in run(number, kind, speed_mps, angle_rad, mps2)
                    )
                print(file, flush=True)
        compare(name)


if __name__ == "__main__":
    main(sys.argv[1:])
