"""Command ``vehicled twin predict``: identify the twin from one recorded drive and compare its prediction with the others.

On the 4-DOF plant, because the identified response is that of a single-track model.
"""

from argparse import Namespace
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import Pose
from vehicled.app import SetupError
from vehicled.lab.experiments.drive_response import DRIVE_DELAY_S, SLEW_S, DriveResponse
from vehicled.lab.experiments.twin_prediction import (
    ADDED,
    CAUSES,
    WITHIN,
    Explanation,
    Prediction,
    Twin,
    TwinMaker,
    explain,
    network_law,
    predict,
    recorded_drives,
)
from vehicled.paths import CourseError
from vehicled.profile import load_profile
from vehicled.profile.schema import Battery, Sim, TwinSteering
from vehicled.recordings.errors import RecordingError
from vehicled.recordings.public_data import data_folder
from vehicled.terminal import Progress, print_table

STEP_NS = 1_000_000


class FourDofTwin:
    """Simulated actuators and 4-DOF plant with an identified response and a constant supply voltage."""

    def __init__(self, sim: Sim, x_m: float, y_m: float, yaw_rad: float) -> None:
        self._plant = FourDof(sim, Pose(x_m, y_m, yaw_rad), STEP_NS * 1e-9)
        self._actuators = Actuators(sim, 0, STEP_NS)
        self._now_ns = 0

    def command(self, t_ns: int, throttle: float, steering: float) -> None:
        self._actuators.command(t_ns, throttle, 0.0, steering)

    def advance(self, to_ns: int) -> tuple[float, float, float, float]:
        plant, actuators = self._plant, self._actuators
        while self._now_ns < to_ns:
            actuators.step(self._now_ns, plant.motor_speed_radps)
            plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            self._now_ns += STEP_NS
        motion = plant.motion()
        return motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps


def twin_of(sim: Sim, response: DriveResponse, slack_rad: float = 0.0) -> Sim:
    """Return a twin that responds like the drive. Raises :class:`SetupError` if ``sim`` is not a 4-DOF twin."""
    drive = sim.drive
    if drive is None or sim.steering is None:
        raise SetupError("--profile: its twin is not a 4-DOF plant, which this comparison needs; use art")
    reduced_m = drive.wheel_radius_m * drive.gear_ratio
    torque_per_mps2 = drive.inertia_kgm2 / reduced_m
    stall_nm = response.reach_mps / response.time_constant_s * torque_per_mps2
    return replace(
        sim,
        steering=TwinSteering(
            gain_rad=response.gain_rad,
            offset_rad=response.offset_rad,
            max_wheel_rad=min(response.gain_rad + abs(response.offset_rad), 1.4),
            rate_radps=response.gain_rad / SLEW_S,
            delay_s=response.delay_s,
            slack_rad=slack_rad,
        ),
        drive=replace(
            drive,
            stall_torque_nm=stall_nm,
            no_load_speed_radps=stall_nm * response.time_constant_s / drive.inertia_kgm2,
            viscous_nms=0.0,
            friction_nm=response.friction_mps / response.time_constant_s * torque_per_mps2,
            delay_s=DRIVE_DELAY_S,
        ),
        battery=Battery(nominal_v=7.4, full_v=7.4, internal_resistance_ohm=0.0, capacity_ah=1e6),
        command_timeout_s=10.0,
    )


def predict_drives(arguments: Namespace) -> int:
    """Predict and print. Return 0 if every prediction is within a quarter of the recorded error, else 1. Raises
    :class:`SetupError`.
    """
    profile = load_profile(arguments.profile)
    sim = profile.sim
    folder = Path(data_folder(arguments.folder, "path_following_2024", "reference_paths")).expanduser()

    def maker(slack_rad: float) -> TwinMaker:
        def make(response: DriveResponse, x_m: float, y_m: float, yaw_rad: float) -> Twin:
            return FourDofTwin(twin_of(sim, response, slack_rad), x_m, y_m, yaw_rad)

        return make

    progress = Progress()

    try:
        courses, drives, left_out = recorded_drives(folder)
        networks = {name: network_law(folder, name) for name in sorted({d.law for d in drives}) if name.startswith("nn")}
        if arguments.explain:
            causes = explain(folder, courses, drives, maker, progress.update, networks)
            progress.close()
            return _show_causes(causes, json=arguments.json)
        predictions, unused = predict(courses, drives, maker(0.0), progress.update, networks)
        unused = [*left_out, *unused]
    except (FileNotFoundError, RecordingError, CourseError) as error:
        raise SetupError(str(error)) from error
    finally:
        progress.close()
    if not predictions:
        raise SetupError(f"{folder}: no path has two drives with the same controller, so there is nothing to predict")
    cells = sorted({(p.path, p.law) for p in predictions})
    of_cell = {cell: [p for p in predictions if (p.path, p.law) == cell] for cell in cells}
    good = all(abs(_mean_ratio(each) - 1.0) <= WITHIN for each in of_cell.values())
    if arguments.json:
        data = [{**msgspec.to_builtins(p), "ratio": p.ratio} for p in predictions]
        print(msgspec.json.format(msgspec.json.encode({"predictions": data, "unused": unused, "passed": good}), indent=2).decode())
        return 0 if good else 1
    rows = []
    for (path, law), each in of_cell.items():
        ratios = [p.ratio for p in each]
        within = sum(abs(ratio - 1.0) <= WITHIN for ratio in ratios)
        rows.append([
            path, law, f"{np.mean([p.real_m for p in each]):.3f}", f"{np.mean([p.predicted_m for p in each]):.3f}",
            f"{_mean_ratio(each):.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}", f"{within} of {len(each)}",
        ])  # fmt: skip
    heads = ["path", "law", "recorded (m)", "predicted (m)", "ratio", "range of ratios", f"within {WITHIN:.0%}"]
    print_table(
        "mean cross-track error of the published controllers: recorded, and predicted from one other drive each", heads, rows
    )
    for why in unused:
        print(f"not used: {why}")
    print(f"{'every' if good else 'NOT every'} prediction within {WITHIN:.0%}, averaged over the drives used")
    return 0 if good else 1


def _show_causes(found: list[Explanation], *, json: bool) -> int:
    """Print how the errors change with each cause alone."""
    if json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    rows = [
        [
            each.path, each.law, f"{each.simulated_m:.3f}", f"{each.real_m:.3f}", f"{each.identified_m:.3f}",
            *(f"{each.changed_m[cause]:.3f}" for cause in CAUSES),
        ]
        for each in found
    ]  # fmt: skip
    heads = [
        "path",
        "law",
        "their simulation",
        "recorded",
        "twin",
        *(f"without {c}" for c in CAUSES[:-ADDED]),
        *(f"with {c}" for c in CAUSES[-ADDED:]),
    ]
    print_table("mean cross-track error (m): recorded, on the identified twin, and on that twin with one change", heads, rows)
    print("'without steering gain': with that of the published simulation. Slack: 0.02 rad. Drift: the drive's own.")
    return 0


def _mean_ratio(each: list[Prediction]) -> float:
    return float(np.mean([p.ratio for p in each]))
