"""Do the standard deviations of ``vehicled twin calibrate --fit steering`` hold? Synthetic
figure-eights of known vehicles.

    python bench/calibration_coverage.py [--number 200] [--seed 1] [--jobs 1]
        [--out rows.jsonl] [--json]

Each vehicle has its steering drawn from the priors of the fit: gain, ratios of the sides, offset,
delay and rate. It drives two figure-eights on the plant and the actuators of the simulator, led by
its own true pose, and is measured as by motion capture or by RTK. The share of the fitted
quantities whose true value lies within 1.96 of the stated standard deviations is printed, with the
95 % interval of that share (Wilson). ``--out`` keeps every quantity as a line, and goes on after
those that the file holds.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain
from math import atan, atan2, hypot, remainder, sin, sqrt, tau
from pathlib import Path
from typing import NamedTuple

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.interface import StartPose
from sim_backend.plant.registry import plant_class
from sim_backend.plant.twin_file import load_twin
from vehicled.offline.twin.calibration.calibrate import calibrate
from vehicled.offline.twin.calibration.four_dof_model import FourDofModel
from vehicled.offline.twin.calibration.quantity import CalibrationModel
from vehicled.offline.twin.calibration.run import CalibrationRun
from vehicled.offline.twin.calibration.twin_model import TwinModel, friction_of
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile, Sim, TwinVehicle
from vehicled.run.terminal import print_table

WITHIN = 1.96
COMMAND_S, ROW_S, STEP_NS = 0.02, 0.05, 1_000_000
NOISES = ((0.0, 0.0, 0.0), (0.005, 0.005, 0.02), (0.02, 0.01, 0.05))
"""Standard deviations of position (m), yaw (rad) and speed (m/s): a simulator's truth, motion
capture, RTK."""
VEHICLES = ("art_published", "art_twin", "f1tenth")
LOOK_AHEAD_M = 1.2
SPEED_MPS = 1.0


class Outcome(NamedTuple):
    """Fitted quantity of one vehicle beside its true value."""

    vehicle: str
    quantity: str
    true: float
    fitted: float
    sigma: float

    @property
    def within(self) -> bool:
        """True if the 95 % interval holds the true value."""
        return abs(self.fitted - self.true) <= WITHIN * self.sigma


class Drawn(NamedTuple):
    """Vehicle whose steering was drawn."""

    model: CalibrationModel
    friction: float
    sim: Sim
    command: Callable[[float], float]
    """Command for a wheel angle by the numbers of the file, which the driver believes."""
    true: Callable[[str], float]
    """True value of a fitted quantity."""


def drawn(chance: np.random.Generator, start: float, sigma: float, least: float) -> float:
    """Draw from a normal distribution, not below ``least``."""
    while True:
        value = float(chance.normal(start, sigma))
        if value >= least:
            return value


def four_dof(profile: Profile, chance: np.random.Generator) -> Drawn:
    """Draw a vehicle of the 4-DOF model."""
    s = profile.sim.steering
    assert s is not None
    truth = {
        "gain": drawn(chance, s.gain_rad, 0.2 * s.gain_rad, 0.7 * s.gain_rad),
        "offset": drawn(chance, s.offset_rad, 0.02, -1.0),
        "steering_delay": drawn(chance, s.delay_s, 0.15, 0.0),
        "steering_rate": drawn(chance, s.rate_radps, 0.2 * s.rate_radps, 0.2),
    }  # fmt: skip
    steering = replace(
        s, gain_rad=truth["gain"], offset_rad=truth["offset"], delay_s=truth["steering_delay"],
        rate_radps=truth["steering_rate"], max_wheel_rad=0.7,
    )  # fmt: skip
    sim = replace(profile.sim, steering=steering)
    return Drawn(
        FourDofModel(profile),
        0.8,
        sim,
        lambda wheel_rad: (wheel_rad - s.offset_rad) / s.gain_rad,
        truth.__getitem__,
    )


def double_track(profile: Profile, chance: np.random.Generator) -> Drawn:
    """Draw a double-track vehicle."""
    assert profile.sim.twin is not None
    parameters = load_twin(profile.sim.twin.vehicle).parameters
    s = parameters.steering
    gain, right = drawn(chance, 1.0, 0.2, 0.7), drawn(chance, 1.0, 0.1, 0.7)
    truth = {
        "offset": drawn(chance, s.offset_rad, 0.02, -1.0),
        "steering_delay": drawn(chance, s.delay_s, 0.15, 0.0),
        "steering_rate": drawn(chance, s.rate_radps, 0.2 * s.rate_radps, 0.2),
    }  # fmt: skip
    commands = sorted({0.0, *s.map_command})
    angles = [
        float(np.interp(c, s.map_command, s.map_angle_rad)) * gain * (right if c < 0.0 else 1.0)
        for c in commands
    ]
    changes = {
        "steering.map_command": commands, "steering.map_angle_rad": angles,
        "steering.max_wheel_rad": max(map(abs, angles)) + 0.1,
        "steering.offset_rad": truth["offset"], "steering.delay_s": truth["steering_delay"],
        "steering.rate_radps": truth["steering_rate"],
    }  # fmt: skip
    model = TwinModel(parameters)

    def true(name: str) -> float:
        first = right if model.levels[0] < 0.0 else 1.0
        if name.startswith("ratio_"):
            return (right if float(name[6:]) < 0.0 else 1.0) / first
        return gain * first if name == "gain" else truth[name]

    sim = replace(profile.sim, twin=TwinVehicle(vehicle=profile.sim.twin.vehicle, changes=changes))
    return Drawn(
        model,
        friction_of(parameters),
        sim,
        lambda rad: float(np.interp(rad, s.map_angle_rad, s.map_command)),
        true,
    )


def driven(
    drawn: Drawn, wheelbase_m: float, noise: tuple[float, float, float], chance: np.random.Generator
) -> CalibrationRun:
    """Drive two figure-eights by pure pursuit with the true pose, and measure them."""
    course, sim = load_course("figure_eight"), drawn.sim
    plant = plant_class(sim.plant)(
        sim,
        StartPose(float(course.x_m[0]), float(course.y_m[0]), float(course.yaw_rad[0])),
        STEP_NS * 1e-9,
    )
    actuators = Actuators(sim, 0, STEP_NS)
    commands, rows = list[tuple[float, float, float]](), list[tuple[float, ...]]()
    way_m, ahead, integral, spacing_m = 0.0, 0, 0.3, course.length_m / len(course.x_m)
    for step in range(round(3.0 * course.length_m / SPEED_MPS / STEP_NS * 1e9)):
        t_s = step * STEP_NS * 1e-9
        if step % 10 == 0:
            motion = plant.motion()

        if step % round(ROW_S / STEP_NS * 1e9) == 0:
            rows.append((t_s, motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps))
        if step % round(COMMAND_S / STEP_NS * 1e9) == 0:
            while (
                hypot(course.x_m[ahead] - motion.x_m, course.y_m[ahead] - motion.y_m) < LOOK_AHEAD_M
            ):
                ahead, way_m = (ahead + 1) % len(course.x_m), way_m + spacing_m
            east = float(course.x_m[ahead] - motion.x_m)
            north = float(course.y_m[ahead] - motion.y_m)
            bearing = remainder(atan2(north, east) - motion.yaw_rad, tau)
            steering = min(
                max(
                    drawn.command(atan(2.0 * wheelbase_m * sin(bearing) / hypot(east, north))), -1.0
                ),
                1.0,
            )
            error = SPEED_MPS - motion.speed_mps
            integral = min(max(integral + 0.3 * COMMAND_S * error, 0.0), 1.0)
            throttle = min(max(integral + 1.0 * error, 0.0), 1.0)
            actuators.command(step * STEP_NS, throttle, 0.0, steering)
            commands.append((t_s, throttle, steering))
        actuators.step(step * STEP_NS, plant.motor_speed_radps)
        plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
        if way_m > 2.0 * course.length_m:
            break
    t_s, x, y, yaw, speed = np.array(rows).T
    command_s, throttles, steerings = np.array(commands).T
    errors = (
        chance.normal(size=(4, len(t_s)))
        * np.array([noise[0], noise[0], noise[1], noise[2]])[:, None]
    )
    return CalibrationRun(
        name="eight/1", command_s=command_s, throttle=throttles, brake=np.zeros(len(command_s)),
        steering=steerings, t_s=t_s, x_m=x + errors[0], y_m=y + errors[1],
        yaw_rad=np.unwrap(yaw) + errors[2], speed_mps=speed + errors[3], rig="eight",
    )  # fmt: skip


def one(seed: int, number: int) -> list[Outcome]:
    """Draw, drive and calibrate one vehicle."""
    chance = np.random.default_rng([seed, number])
    vehicle, noise = VEHICLES[number % len(VEHICLES)], NOISES[number // len(VEHICLES) % len(NOISES)]
    profile = load_profile(vehicle)
    drawn = (four_dof if profile.sim.twin is None else double_track)(profile, chance)
    run = driven(drawn, profile.vehicle.wheelbase_m, noise, chance)
    found = calibrate(drawn.model, [run], groups=["steering"], friction=drawn.friction).found
    return [
        Outcome(
            vehicle,
            q.name.partition("_+")[0].partition("_-")[0],
            drawn.true(q.name),
            q.value,
            q.sigma,
        )
        for q in found
    ]


def interval(inside: int, count: int) -> tuple[float, float]:
    """Return the 95 % interval of a share (Wilson 1927)."""
    share, z2 = inside / count, WITHIN * WITHIN / count
    half = WITHIN * sqrt(share * (1.0 - share) / count + 0.25 * z2 / count)
    return (share + 0.5 * z2 - half) / (1.0 + z2), (share + 0.5 * z2 + half) / (1.0 + z2)


def collected(number: int, seed: int, jobs: int, out: Path | None) -> list[Outcome]:
    """Return the outcomes of the vehicles 0 to ``number`` - 1, those that the file holds as they
    are."""
    known: dict[int, list[Outcome]] = {}
    if out is not None and out.exists():
        for line in out.read_text().splitlines():
            at, outcomes = json.loads(line)
            known[at] = [Outcome(*each) for each in outcomes]
    missing = [at for at in range(number) if at not in known]
    with ProcessPoolExecutor(jobs) as pool:
        for at, found in zip(missing, pool.map(partial(one, seed), missing), strict=True):
            known[at] = found
            if out is not None:
                with out.open("a") as file:
                    file.write(json.dumps([at, found]) + "\n")
    return list(chain.from_iterable(known[at] for at in range(number)))


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--number", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    groups: dict[str, list[Outcome]] = defaultdict(list)
    for each in collected(arguments.number, arguments.seed, arguments.jobs, arguments.out):
        for key in ("all", each.quantity, each.vehicle):
            groups[key].append(each)
    found = {}
    for name, group in groups.items():
        inside = sum(each.within for each in group)
        low, high = interval(inside, len(group))
        share = 100.0 * inside / len(group)
        found[name] = {
            "inside": inside,
            "of": len(group),
            "share_pct": share,
            "low_pct": 100.0 * low,
            "high_pct": 100.0 * high,
        }
    if arguments.json:
        print(json.dumps({"vehicles": arguments.number, "coverage": found}))
        return 0
    cells = [
        [
            name,
            f"{row['inside']} of {row['of']}",
            f"{row['share_pct']:.1f} %",
            f"{row['low_pct']:.0f} to {row['high_pct']:.0f} %",
        ]
        for name, row in found.items()
    ]
    print_table(
        "true values within 1.96 sigma",
        ["", "inside", "share", "95 % interval of the share"],
        cells,
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
