"""Command ``vehicled twin predict``: identify the twin from one recorded drive and compare its
prediction with the others.

On the 4-DOF plant, because the identified response is that of a single-track model.
"""

import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import StartPose
from vehicled.core.errors import SetupError
from vehicled.offline.recordings.public_data import data_folder
from vehicled.offline.replications.experiments import prediction_spread as spread
from vehicled.offline.replications.experiments.drive_response import (
    DRIVE_DELAY_S,
    SLEW_S,
    DriveResponse,
)
from vehicled.offline.replications.experiments.twin_prediction import (
    ADDED,
    CAUSES,
    WITHIN,
    Explanation,
    Prediction,
    SimulatedVehicle,
    TwinMaker,
    explain,
    network_law,
    predict,
    recorded_drives,
)
from vehicled.profile import load_profile
from vehicled.profile.schema import Battery, Sim, TwinSteering
from vehicled.run.argument_types import JOBS, PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import Progress, print_table

STEP_NS = 5_000_000
"""Grid of the plant: at 1 ms the errors differ by less than a hundredth, and a drive takes up to
twice as long."""
NEAR_LIMIT_CYCLE = 0.25
"""Relative growth of the error per 0.1 s of steering delay from which a loop counts as near a limit
cycle."""


def declare_twin_predict(parser: CommandParser) -> None:
    """Identify steering gain, offset, delay and speed response in each recorded drive of a path,
    simulate the twin with the published controllers, and compare its mean cross-track error with
    that of the other drives of the campaign. Each prediction has an interval, its largest causes,
    and its growth with the steering delay.
    """
    parser.describe(
        epilog=(
            "Exit status: 0 every prediction is within 25 percent; 1 at least one is not; 2 "
            "invalid arguments."
        )
    )
    parser.add_argument(
        "folder", nargs="?", metavar="DIR",
        help=(
            "folder with path_following_2024 and reference_paths (default ~/vehicled/data, "
            "filled by vehicled data fetch)"
        ),
    )  # fmt: skip
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="profile of the vehicle, with a 4-DOF twin (default art_published)",
    )
    parser.add_argument(
        "--explain",
        action="store_true",
        help="instead: how each error changes without one cause, such as the steering delay",
    )
    parser.add_argument(
        "--jobs",
        type=JOBS,
        metavar="N",
        help="number of parallel processes (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=predict_drives)


class FourDofTwin:
    """Simulated actuators and 4-DOF plant with an identified response and a constant supply
    voltage."""

    def __init__(self, sim: Sim, x_m: float, y_m: float, yaw_rad: float) -> None:
        self._plant = FourDof(sim, StartPose(x_m, y_m, yaw_rad), STEP_NS * 1e-9)
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
    """Return a twin that responds like the drive. Raises :class:`SetupError` if ``sim`` is not a
    4-DOF twin."""
    drive = sim.drive
    if drive is None or sim.steering is None:
        raise SetupError(
            "--profile: its twin is not a 4-DOF plant, which this comparison needs; use "
            "art_published"
        )
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


def _twin(
    sim: Sim, slack_rad: float, response: DriveResponse, x_m: float, y_m: float, yaw_rad: float
) -> SimulatedVehicle:
    return FourDofTwin(twin_of(sim, response, slack_rad), x_m, y_m, yaw_rad)


def predict_drives(arguments: Namespace) -> int:
    """Predict and print. Return 0 if every prediction is within a quarter of the recorded error,
    else 1. Raises :class:`SetupError`.
    """
    profile = load_profile(arguments.profile)
    sim = profile.sim
    folder = Path(
        data_folder(arguments.folder, "path_following_2024", "reference_paths")
    ).expanduser()

    def maker(slack_rad: float) -> TwinMaker:
        return partial(_twin, sim, slack_rad)

    progress = Progress()

    try:
        courses, drives, left_out = recorded_drives(folder)
        networks = {
            name: network_law(folder, name)
            for name in sorted({d.law for d in drives})
            if name.startswith("nn")
        }
        if arguments.explain:
            causes = explain(folder, courses, drives, maker, progress.update, networks)
            progress.close()
            return _show_causes(causes, json=arguments.json)
        predictions, unused = predict(
            courses,
            drives,
            maker(0.0),
            progress.update,
            networks,
            arguments.jobs or len(os.sched_getaffinity(0)),
        )
        unused = [*left_out, *unused]
    finally:
        progress.close()
    if not predictions:
        raise SetupError(
            f"{folder}: no path has two drives with the same controller, so there is nothing "
            "to predict"
        )
    cells = sorted({(p.path, p.law) for p in predictions})
    of_cell = {cell: [p for p in predictions if (p.path, p.law) == cell] for cell in cells}
    good = all(abs(_mean_ratio(each) - 1.0) <= WITHIN for each in of_cell.values())
    covered, total = sum(p.covered for p in predictions), sum(len(p.real_m) for p in predictions)
    if arguments.json:
        data = {
            "predictions": [
                {**msgspec.to_builtins(p), "ratio": p.ratio, "covered": p.covered}
                for p in predictions
            ],
            "coverage": {"stated": spread.COVERAGE, "covered": covered, "of": total},
            "unused": unused,
            "passed": good,
        }
        print(msgspec.json.format(msgspec.json.encode(data), indent=2).decode())
        return 0 if good else 1
    _show(of_cell)
    for why in unused:
        print(f"not used: {why}")
    print(
        f"the {spread.COVERAGE:.0%} intervals hold {covered} of {total} recorded drives "
        f"({covered / total:.0%})"
    )
    print(
        f"{'every' if good else 'NOT every'} prediction within {WITHIN:.0%}, averaged over the "
        "drives used"
    )
    return 0 if good else 1


def _show(of_cell: Mapping[tuple[str, str], Sequence[Prediction]]) -> None:
    rows = []
    for (path, law), each in of_cell.items():
        expected, low, high, delay_ps = np.mean(
            [
                (p.predicted.expected, p.predicted.low, p.predicted.high, p.predicted.per_delay_ps)
                for p in each
            ],
            axis=0,
        )
        shares = {
            cause: float(np.mean([p.predicted.shares[cause] for p in each]))
            for cause in (*spread.CAUSES, "rest")
        }
        largest = sorted(shares, key=shares.__getitem__, reverse=True)[:2]
        ratios = [p.ratio for p in each]
        rows.append([
            path, law, f"{np.mean([p.mean_real_m for p in each]):.3f}", f"{expected:.3f}",
            f"{low:.3f} - {high:.3f}",
            f"{sum(p.covered for p in each)} of {sum(len(p.real_m) for p in each)}",
            f"{_mean_ratio(each):.2f}", f"{min(ratios):.2f} - {max(ratios):.2f}",
            ", ".join(f"{cause} {shares[cause]:.0%}" for cause in largest),
            f"{0.1 * delay_ps:+.0%}" + (" *" if 0.1 * delay_ps > NEAR_LIMIT_CYCLE else ""),
        ])  # fmt: skip
    heads = [
        "path", "law", "recorded", "predicted", f"{spread.COVERAGE:.0%} interval", "holds", "ratio",
        "of drives", "most of the spread", "per 0.1 s delay",
    ]  # fmt: skip
    print_table(
        (
            "mean cross-track error (m) of the published controllers: recorded, and predicted "
            "from one other drive each"
        ),
        heads,
        rows,
    )
    print(
        f"*: more than {NEAR_LIMIT_CYCLE:+.0%} per 0.1 s of steering delay: the loop is near a "
        "limit cycle"
    )


def _show_causes(found: list[Explanation], *, json: bool) -> int:
    """Print how the errors change with each cause alone."""
    if json:
        print(msgspec.json.format(msgspec.json.encode(found), indent=2).decode())
        return 0
    rows = [
        [
            each.path, each.law, f"{each.simulated_m:.3f}", f"{each.real_m:.3f}",
            f"{each.identified_m:.3f}",
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
    print_table(
        (
            "mean cross-track error (m): recorded, on the identified twin, and on that twin with "
            "one change"
        ),
        heads,
        rows,
    )
    print(
        "'without steering gain': with that of the published simulation. Slack: 0.02 rad. "
        "Drift: the drive's own."
    )
    return 0


def _mean_ratio(each: Sequence[Prediction]) -> float:
    return float(np.mean([p.ratio for p in each]))
