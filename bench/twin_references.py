"""Reference runs of the models that are packages, with random speeds and steering, for `vehicled
twin validate`.

    pip install commonroad-vehicle-models==3.0.2 slipx==0.2.0      # in an environment of its own
    python bench/twin_references.py FOLDER --seed 7                # ten minutes
    python bench/twin_references.py FOLDER --seed 7 --step-share 0.5
    python bench/twin_references.py FOLDER --seed 7 --only 'sine_[56]p*' --only '*_gentle_*'

The second call halves the step; the difference of the two folders is the references' own numerical
error. The third makes only the runs that show the relaxation length and the longitudinal slope of
the tyres, in 2 minutes.
"""

import argparse
import csv
import random
import tempfile
from collections.abc import Callable
from fnmatch import fnmatch
from functools import partial
from importlib.util import find_spec
from math import pi, sin
from pathlib import Path
from typing import Any

import numpy as np

from vehicled.core.arrays import Array

PACKAGES = "commonroad-vehicle-models==3.0.2 slipx==0.2.0"
ROW_S = 0.01
FINE_ROW_S = 0.002
"""Rows of quick steering: one percent of its amplitude would be lost between rows of 10 ms."""
VEHICLES = {"ford_escort": 1, "bmw_320i": 2, "vw_vanagon": 3}
LIFTED_N = -150.0
AXLES = {"f": (16, 13, "T_f"), "r": (21, 18, "T_r")}
Programme = Callable[[float], float]


def step(angle: float) -> Programme:
    return lambda t: angle if t >= 0.4999 else 0.0


def sine(angle: float, hz: float) -> Programme:
    return lambda t: angle * sin(2.0 * pi * hz * max(t - 0.5, 0.0))


def double_lane(angle: float, period_s: float, pause_s: float) -> Programme:
    def at(t: float) -> float:
        for begin, sign in ((0.5, 1.0), (0.5 + period_s + pause_s, -1.0)):
            if begin < t < begin + period_s:
                return sign * angle * sin(2.0 * pi * (t - begin) / period_s)
        return 0.0

    return at


def ramp(rate: float) -> Programme:
    return lambda t: rate * max(t - 0.5, 0.0)


def pulse(value: float, begin: float, end: float = 99.0) -> Programme:
    return lambda t: value if begin <= t + 1e-9 < end else 0.0


def eased(value: float, rise_s: float) -> Programme:
    return lambda t: value * min(max(t - 0.5, 0.0) / rise_s, 1.0)


Run = tuple[float, Programme, Programme, float]
"""Speed, wheel angle, acceleration, duration."""


def runs(chance: random.Random, wheelbase_m: float, scale: float) -> dict[str, Run]:
    """Return the runs by name. ``scale`` 1 for cars of 1:1, 0.3 for the speeds of 1:10."""
    free = chance.uniform

    def angle(lateral_mps2: float, speed_mps: float) -> float:
        return chance.choice((-1, 1)) * min(lateral_mps2 * wheelbase_m / speed_mps**2, 0.35)

    found: dict[str, Run] = {}
    for k in range(2):
        speed = scale * free(6.0, 24.0)
        found[f"step_steer_{k}"] = (speed, step(angle(free(1, 6), speed)), pulse(0, 0), 6.0)
        speed, hz = scale * free(10.0, 24.0), free(0.3, 1.8)
        found[f"sine_{hz:.1f}hz_{k}".replace(".", "p")] = (
            speed,
            sine(angle(free(1, 6), speed), hz),
            pulse(0, 0),
            6.0,
        )
    speed = scale * free(10.0, 22.0)
    found["dlc_0"] = (
        speed,
        double_lane(angle(free(2, 6), speed), free(1.6, 2.6), free(0.5, 1.4)),
        pulse(0, 0),
        8.0,
    )
    if scale == 1.0:
        speed = free(10.0, 24.0)
        found["ramp_steer_0"] = (
            speed,
            ramp(10.0 * wheelbase_m / speed**2 / free(5, 8)),
            pulse(0, 0),
            9.0,
        )
        speed, braking = free(14.0, 22.0), free(2.0, 5.0)
        end = 2.5 + min(3.0, (speed - 4.0) / braking)
        found["brake_in_turn_0"] = (
            speed,
            step(angle(free(2, 5), speed)),
            pulse(-braking, 2.5, end),
            6.5,
        )
        speed = free(6.0, 10.0)
        found["accel_in_turn_0"] = (
            speed,
            step(angle(free(2, 4), speed)),
            pulse(free(1, 3), 2.5),
            6.0,
        )
        speed, braking = free(15.0, 28.0), free(3.0, 7.0)
        found["brake_straight_0"] = (
            speed,
            step(0.0),
            pulse(-braking, 0.5, 0.5 + (speed - 4.0) / braking),
            6.0,
        )
        found["accel_straight_0"] = (free(2.0, 8.0), step(0.0), pulse(free(1, 4), 0.5), 5.0)
        # Without a jump of the force, the wheel speeds show the slope of the tyres.
        found["accel_gentle_0"] = (free(4.0, 8.0), step(0.0), eased(free(1.8, 2.2), 2.0), 5.0)
        found["brake_gentle_0"] = (free(22.0, 26.0), step(0.0), eased(-free(4.5, 5.5), 2.0), 4.5)
    return found


def small(chance: random.Random, wheelbase_m: float) -> dict[str, Run]:
    """Return runs in which a car of 1:10 speeds up and brakes, straight and in a turn."""
    free = chance.uniform
    found: dict[str, Run] = {}
    for k in range(2):
        speed, braking = free(4.0, 7.0), free(1.0, 6.0)
        found[f"brake_straight_{k}"] = (
            speed,
            step(0.0),
            pulse(-braking, 0.5, 0.5 + (speed - 1.5) / braking),
            4.0,
        )
        found[f"accel_straight_{k}"] = (free(1.0, 3.0), step(0.0), pulse(free(1.0, 4.0), 0.5), 3.0)
    speed, braking = free(4.0, 6.0), free(1.0, 3.0)
    turn = chance.choice((-1, 1)) * free(1.0, 3.0) * wheelbase_m
    found["brake_in_turn_0"] = (
        speed,
        step(turn / speed**2),
        pulse(-braking, 1.5, 1.5 + (speed - 2.0) / braking),
        4.0,
    )
    speed = free(2.0, 3.0)
    found["accel_in_turn_0"] = (speed, step(-turn / speed**2), pulse(free(0.5, 1.5), 1.5, 2.5), 4.0)
    return found


def quick(chance: random.Random, wheelbase_m: float) -> dict[str, Run]:
    """Return runs of quick steering, which show the relaxation length."""
    found: dict[str, Run] = {}
    for k in range(3):
        speed, hz = chance.uniform(3.2, 4.5), chance.uniform(5.0, 6.0)
        angle = chance.uniform(1.5, 2.5) * wheelbase_m / speed**2
        found[f"sine_{hz:.1f}hz_{k}".replace(".", "p")] = (speed, sine(angle, hz), pulse(0, 0), 3.0)
    return found


def commonroad(folder: Path, seed: int, step_s: float, wanted: Callable[[str], bool]) -> None:
    """Drive the multi-body model and the single-track drift model by classic Runge-Kutta steps."""
    from vehiclemodels.init_mb import init_mb
    from vehiclemodels.init_std import init_std
    from vehiclemodels.vehicle_dynamics_mb import vehicle_dynamics_mb
    from vehiclemodels.vehicle_dynamics_std import vehicle_dynamics_std
    from vehiclemodels.vehicle_parameters import setup_vehicle_parameters

    models = {"mb": (init_mb, vehicle_dynamics_mb), "std": (init_std, vehicle_dynamics_std)}
    for vehicle, number in VEHICLES.items():
        p = setup_vehicle_parameters(number)
        for model, (init, slope) in models.items():
            for name, (speed, steering, acceleration, duration) in runs(
                random.Random(f"{seed}{vehicle}"), p.a + p.b, 1.0
            ).items():
                if not wanted(name):
                    continue
                state = np.array(init([0.0, 0.0, 0.0, speed, 0.0, 0.0, 0.0], p), dtype=float)
                table = []
                for k in range(round(duration / ROW_S) + 1):
                    t = k * ROW_S
                    rate = min(max((steering(t + ROW_S) - state[2]) / ROW_S, -0.4), 0.4)
                    inputs = [rate, acceleration(t)]
                    if model == "mb" and min(_loads(state, p).values()) < LIFTED_N:
                        break  # Its wheels do not lift; later it divides by 0.
                    table.append([t, *inputs, *state])
                    for _ in range(round(ROW_S / step_s)):
                        state = _runge_kutta(partial(_slope, slope, inputs, p), state, step_s)
                write(
                    folder / "commonroad" / f"{vehicle}__{model}__{name}.csv",
                    _columns(np.array(table), model, p),
                )
            print(f"commonroad {vehicle} {model}", flush=True)


def _slope(model: Callable[..., list[float]], inputs: list[float], p: Any, x: Array) -> Array:
    return np.array(model(list(x), inputs, p))


def _runge_kutta(slope: Callable[[Array], Array], x: Array, h: float) -> Array:
    first = slope(x)
    second = slope(x + 0.5 * h * first)
    third = slope(x + 0.5 * h * second)
    fourth = slope(x + h * third)
    moved: Array = x + h / 6.0 * (first + 2.0 * second + 2.0 * third + fourth)
    return moved


def _columns(table: Array, model: str, p: Any) -> dict[str, Array]:
    """Return the columns of a file: ISO 8855 signs. The library's left wheels are those of the
    right side."""
    t, rate, command, x = table[:, 0], table[:, 1], table[:, 2], table[:, 3:]
    shared = {
        "t": t,
        "steer_rate_cmd": rate,
        "accel_cmd": command,
        "delta": x[:, 2],
        "x": x[:, 0],
        "y": x[:, 1],
        "yaw": x[:, 4],
    }
    if model == "std":
        speed, sideslip = x[:, 3], x[:, 6]
        own = {
            "vx": speed * np.cos(sideslip),
            "vy": speed * np.sin(sideslip),
            "yaw_rate": x[:, 5],
            "w_f": x[:, 7],
            "w_r": x[:, 8],
        }
        return shared | own
    own = {"vx": x[:, 3], "vy": x[:, 10], "yaw_rate": x[:, 5], "roll": -x[:, 6]}
    own |= {f"w_{wheel}": x[:, k] for wheel, k in (("fl", 24), ("fr", 23), ("rl", 26), ("rr", 25))}
    own |= _loads(x.T, p)
    return shared | own


def _loads(x: Array, p: Any) -> dict[str, Any]:
    """Return the wheel loads of a state, or of states by column."""
    found = {}
    for axle, (height, roll, track) in AXLES.items():
        for side, sign in (("l", 1.0), ("r", -1.0)):
            tilt = sign * 0.5 * getattr(p, track) * np.sin(x[roll])
            found[f"fz_{axle}{side}"] = (
                x[height] + p.R_w * (np.cos(x[roll]) - 1.0) + tilt
            ) * p.K_zt
    return found


def slipx(folder: Path, seed: int, step_s: float, wanted: Callable[[str], bool]) -> None:
    """Drive the reference car of slipx with the parameters of the vehicle file ``slipx_refcar``."""
    import slipx as library

    p = library.VehicleParams()
    numbers = {
        "mass": 3.5, "lf": 0.16, "lr": 0.16, "track_front": 0.24, "track_rear": 0.24, "izz": 0.05,
        "ixx": 0.025, "iyy": 0.07, "h_cog": 0.06, "wheel_radius": 0.05, "c_alpha_f": 420.0,
        "c_alpha_r": 420.0, "c_kappa": 120.0, "mu_clip": 1.1, "steer_max": 0.4,
        "steer_rate_max": 10.0, "steer_bandwidth": 45.0, "steer_damping": 0.7, "accel_max": 8.0,
        "decel_max": 12.0, "v_max": 20.0, "drag_coeff": 0.015, "roll_resist": 0.015,
        "torque_stall": 2.0, "omega_free": 480.0, "torque_per_amp": 0.01, "drive_efficiency": 0.85,
        "pack_nominal_v": 11.1, "pack_v_full": 12.6, "pack_v_empty": 9.9, "pack_capacity_ah": 5.2,
        "pack_internal_resistance": 0.02, "current_max": 120.0, "regen_current_max": 40.0,
    }  # fmt: skip
    for name, value in numbers.items():
        setattr(p, name, value)
    for tyre in (p.tyre_front, p.tyre_rear):
        tyre.mu_y0 = 1.1
        tyre.mu_x0 = 1.2
        tyre.shape_c = 1.68
        tyre.curvature_e = 0.42
        tyre.k_mu = 0.15
        tyre.relax_length = 0.08
    tiers = {"l1": library.Tier.L1_Bicycle, "l2": library.Tier.L2_DoubleTrack}
    for tier, kind in tiers.items():
        plain = runs(random.Random(f"{seed}refcar"), 0.32, 0.3)
        # The bicycle has no relaxation length.
        swift = quick(random.Random(f"{seed}quick"), 0.32) if tier == "l2" else {}
        moved = small(random.Random(f"{seed}small"), 0.32)
        for name, (speed, steering, acceleration, duration) in (plain | swift | moved).items():
            if not wanted(name):
                continue
            row_s = FINE_ROW_S if name in swift else ROW_S
            model = library.VehicleModel.create(kind, p)
            state = library.VehicleState()
            seen = library.StepDiagnostics()
            state.vel_body.x = speed
            state.omega_w = [speed / 0.05] * 4
            state.soc = 1.0
            state.pack_v = 12.6
            table = []
            for k in range(round((duration if name in moved else 4.0) / row_s) + 1):
                inputs = library.DriveInput()
                # Rolling resistance and drag take about 0.3 m/s2.
                inputs.steer_cmd = steering(k * row_s)
                inputs.accel_cmd = acceleration(k * row_s) + 0.3
                row = [
                    k * row_s,
                    inputs.steer_cmd,
                    inputs.accel_cmd,
                    state.steer,
                    state.pos.x,
                    state.pos.y,
                    state.yaw,
                ]
                table.append(
                    [
                        *row,
                        state.vel_body.x,
                        state.vel_body.y,
                        state.yaw_rate,
                        *state.omega_w,
                        *seen.fz,
                    ]
                )
                for _ in range(round(row_s / step_s)):
                    model.step(state, inputs, step_s, seen)
            names = [
                "t",
                "steer_cmd",
                "accel_cmd",
                "delta",
                "x",
                "y",
                "yaw",
                "vx",
                "vy",
                "yaw_rate",
            ]
            if tier == "l2":
                names += [
                    f"{value}_{wheel}"
                    for value in ("w", "fz")
                    for wheel in ("fl", "fr", "rl", "rr")
                ]
            write(
                folder / "slipx" / f"refcar__{tier}__{name}.csv",
                dict(zip(names, np.array(table).T)),
            )
    print("slipx", flush=True)


def write(path: Path, columns: dict[str, Array]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(columns)
        writer.writerows([f"{value:.6g}" for value in row] for row in zip(*columns.values()))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "folder", nargs="?", type=Path, default=Path(tempfile.gettempdir()) / "twin_references"
    )
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--step-share", type=float, default=1.0, help="step of the integration relative to 0.5 ms"
    )
    parser.add_argument(
        "--only",
        action="append",
        metavar="PATTERN",
        help="only manoeuvres with such a name; may be repeated",
    )
    arguments = parser.parse_args()
    missing = [name for name in ("vehiclemodels", "slipx") if find_spec(name) is None]
    if missing:
        print(
            f"without {' and '.join(missing)}: pip install {PACKAGES} in an environment of its "
            "own, and call me there"
        )
        return

    def wanted(name: str) -> bool:
        return any(fnmatch(name, pattern) for pattern in arguments.only or ["*"])

    slipx(arguments.folder, arguments.seed, 5e-4 * arguments.step_share, wanted)
    commonroad(arguments.folder, arguments.seed, 5e-4 * arguments.step_share, wanted)


if __name__ == "__main__":
    main()
