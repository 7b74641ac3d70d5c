"""The tracking test of Unjhawala et al. 2023: predictive control along two sine curves, on the true
state and on a filter's.

Two trajectories, five tests each. The vehicle stands for a second and then follows the curve at 1
m/s; position comes at 10 Hz with a wandering error, heading with noise, and nothing else. What is
judged is the distance of the true rear axle from the curve. Each test has its own wandering error,
and a vehicle whose drive and steering gain are off what is believed; all systems meet the same.

The published tests were driven in another simulator and in a motion-capture hall, with the wheel
angle sent unscaled and with weights that were never published: their table stands beside ours, not
under it. The speed that the published system feeds back ends at 0.78 m/s whatever the throttle; on
a vehicle as fast as its controller believes it holds full throttle and runs away. The filter of the
paper is given the drive and steering gain that the others believe, see
:mod:`~vehicled.offline.replications.experiments.ekf_circle`. With the recordings of the real drives
(``--real``) their errors are computed again and drawn beside.
"""

from argparse import Namespace
from collections.abc import Sequence
from math import cos, sin, tan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.control.interface import Controller
from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Heading,
    HeadingKind,
    Mode,
    Reaction,
    StateEstimate,
)
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.replications.experiments.common import ExperimentConsole, on_terminal, summary
from vehicled.offline.replications.experiments.ekf_circle import (
    HEADING_SIGMA_RAD,
    SPREAD,
    STANDS_S,
    make_estimator,
)
from vehicled.offline.replications.experiments.gps_noise import FORMS, GpsNoise, fix_at
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.tracking import PathTracker
from vehicled.profile import Profile, load_profile
from vehicled.profile.registry import resolve
from vehicled.run.argument_types import PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file, new_figure, save_figure
from vehicled.safety.gate import Gate

PUBLISHED = {
    "mean_error_sim_m": ((0.235, 0.165, 0.428, 0.687, 0.258), (0.203, 0.171, 0.248, 0.135, 0.334)),
    "mean_error_real_m": ((0.058, 0.236, 0.072, 0.234, 0.224), (0.213, 0.287, 0.076, 0.095, 0.253)),
    "max_error_sim_m": ((0.444, 0.385, 0.857, 1.441, 0.476), (0.545, 0.302, 0.557, 0.326, 0.818)),
    "max_error_real_m": ((0.133, 0.452, 0.140, 0.431, 0.430), (0.356, 0.606, 0.160, 0.175, 0.618)),
}
"""Unjhawala et al. 2023, "Using simulation to design an MPC policy for field navigation using GPS
sensing", by trajectory."""

CURVES = ((1.5, 0.5), (0.5, 1.0))
"""Trajectories 1 and 2: y = a sin(b x) over 6.4 m of x, a in m, b in rad/m."""
HALF_LENGTH_M = 3.2
TESTS = 5
STEP_NS = 10_000_000
FIX_EVERY = 10
INNER = 5
LONGEST_S = 40.0
"""A test that has not come to its end by then has failed to."""
POSITION_SIGMA_M = 0.3
"""Sigma reported by the receiver, per axis; the random walk used indoors wanders that far."""


class System(Struct, frozen=True):
    """Combination to test: estimator ("" for the true state) and controller, with parameters of it
    other than the defaults."""

    name: str
    estimator: str
    controller: str
    controller_params: dict[str, Any]


OURS = {"speed": {"p": 1.5}}
SYSTEMS = (
    System("published, true state", "", "mpc_published", {"speed": "estimate"}),
    System("ours, true state", "", "mpc", OURS),
    System("published, its EKF", "ekf4_published", "mpc_published", {"speed": "published"}),
    System(
        "published, EKF of the paper", "ekf4_paper+drive", "mpc_published", {"speed": "estimate"}
    ),
    System(
        "published, EKF of the paper, noise",
        "ekf4_paper+drive+noise",
        "mpc_published",
        {"speed": "estimate"},
    ),
    System("ours, planar filter", "planar", "mpc", OURS),
)


class TrackingTrace(Struct, frozen=True):
    """One drive of one system: true places (n, 2) and what the controller saw (n, 2), m;
    cross-track errors (n,), m."""

    system: str
    trajectory: int
    test: int
    finished: bool
    truth_m: Array
    seen_m: Array
    error_m: Array


class RealRow(Struct, frozen=True):
    """Errors of one recorded drive of the published system in m, at the body that motion capture
    saw."""

    recording: str
    trajectory: int
    mean_m: float
    max_m: float


class TrackingRow(Struct, frozen=True):
    """Errors of one test in m, by system."""

    trajectory: int
    test: int
    mean_m: dict[str, float]
    max_m: dict[str, float]
    finished: dict[str, bool]


def declare_experiment_mpc_tracking(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "--tests",
        type=int,
        default=TESTS,
        metavar="N",
        help=f"tests of each trajectory (default {TESTS})",
    )
    parser.add_argument(
        "--noise", choices=tuple(FORMS), default="inner", help="form of the walk (default inner)"
    )
    parser.add_argument(
        "--real",
        metavar="DIR",
        help="recordings of the published real drives, to judge and draw beside",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="vehicle believed (default art_published)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="seed of noise and vehicles (default 1)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--plot", metavar="PNG", help="draw the drives into this file")
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Run the tests and show them beside the published ones. Raises :class:`SetupError` for
    arguments that cannot be used."""
    if not 1 <= arguments.tests <= 1000 or arguments.seed < 0:
        raise SetupError("--tests takes 1 to 1000, --seed a whole number from 0 on")
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    profile = load_profile(arguments.profile)
    real = real_drives(arguments.real) if arguments.real else []
    traces: list[TrackingTrace] = []
    for trajectory in range(len(CURVES)):
        for test in range(arguments.tests):
            console.progress(f"trajectory {trajectory + 1}, test {test + 1} of {arguments.tests}")
            traces += [
                drive(profile, system, trajectory, test, arguments.noise, arguments.seed)
                for system in SYSTEMS
            ]
    rows = judge(traces)
    if arguments.json:
        totals = summary([row.mean_m for row in rows], [row.max_m for row in rows])
        found = {
            "noise": arguments.noise,
            "published": PUBLISHED,
            "ours": rows,
            "real": [row for row, _ in real],
            "summary": totals,
        }
        console.text(msgspec.json.encode(found).decode())
    else:
        _show(console, rows, arguments.noise)
        if real:
            lines = [
                [row.recording, str(row.trajectory), f"{row.mean_m:.3f}", f"{row.max_m:.3f}"]
                for row, _ in real
            ]
            console.table(
                "recorded real drives: cross-track error (m)",
                ["recording", "trajectory", "mean", "max"],
                lines,
            )
    if arguments.plot:
        plot(traces, rows, real, arguments.plot)
        if not arguments.json:
            console.text(f"drawn: {arguments.plot}")
    return 0


def curve(trajectory: int) -> Course:
    """Trajectory 0 or 1 as a course at 1 m/s."""
    a, b = CURVES[trajectory]
    x = np.linspace(-HALF_LENGTH_M, HALF_LENGTH_M, 65)
    return course_from_waypoints(f"sine {trajectory + 1}", x, a * np.sin(b * x), closed=False)


def real_drives(folder: str) -> list[tuple[RealRow, Array]]:
    """Return the recorded drives along the curves, each with its places (n, 2). Raises
    RecordingError where a folder has none."""
    found = []
    for source in sources(folder):
        for recording in source.load(("mocap",)) if "mocap" in source.kinds else ():
            places = _body_m(recording)
            errors = [_distances_m(places, number) for number in range(len(CURVES))]
            number = int(np.argmin([error.mean() for error in errors]))
            error = errors[number]
            found.append(
                (
                    RealRow(recording.name, number + 1, float(error.mean()), float(error.max())),
                    places,
                )
            )
    if not found:
        raise RecordingError(
            f"{folder}: holds no drive on motion capture; fetch them: vehicled data fetch "
            "mocap_ekf_mpc_2023"
        )
    return sorted(found, key=lambda each: (each[0].trajectory, each[0].recording))


def _body_m(recording: Recording) -> Array:
    truth, arm = recording.truth, recording.lever_arm_m[0]
    return np.column_stack(
        [truth.x_m + arm * np.cos(truth.yaw_rad), truth.y_m + arm * np.sin(truth.yaw_rad)]
    )


def _distances_m(places: Array, number: int) -> Array:
    """Return the distances (n,) of places from a curve."""
    a, b = CURVES[number]
    x = np.linspace(-HALF_LENGTH_M, HALF_LENGTH_M, 6401)
    line = np.column_stack([x, a * np.sin(b * x)])
    return np.array([np.hypot(*(line - place).T).min() for place in places])


def drive(
    profile: Profile, system: System, trajectory: int, test: int, noise: str, seed: int
) -> TrackingTrace:
    """One drive. The same numbers give the same noise and the same vehicle, whatever the system."""
    rng = np.random.default_rng((seed, trajectory, test))
    walk = GpsNoise(FORMS[noise], rng)
    believed, course = profile.vehicle, curve(trajectory)
    plant = _Plant(believed, course, *rng.uniform(1.0 - SPREAD, 1.0 + SPREAD, 2).tolist())
    estimator = make_estimator(system.estimator, believed, noise) if system.estimator else None
    controller = _controller(system, profile, course)
    gate, judge_ = Gate(believed, profile.limits), PathTracker(course)
    rows: list[tuple[float, ...]] = []
    for k in range(round(LONGEST_S * 1e9 / STEP_NS)):
        now_ns = k * STEP_NS
        if k % FIX_EVERY == 0:
            # Drawn for every system alike, so that all of them meet the same noise.
            east, north = (np.array((plant.x_m, plant.y_m)) + walk.at(now_ns * 1e-9)).tolist()
            heading = plant.yaw_rad + HEADING_SIGMA_RAD * float(rng.standard_normal()) * (k > 0)
            if estimator is not None:
                estimator.observe(
                    Heading(now_ns, now_ns, heading, HEADING_SIGMA_RAD, HeadingKind.MAGNETIC)
                )
                estimator.observe(fix_at(now_ns, east, north, POSITION_SIGMA_M))
        estimate = plant.estimate(now_ns) if estimator is None else estimator.step(now_ns)
        moving = now_ns >= STANDS_S * 1e9
        wanted = controller.step(estimate, now_ns) if moving else None
        mode = Mode.AUTO if moving else Mode.ARMED
        command = gate.apply(wanted, estimate.speed_mps, mode, Reaction.NONE, now_ns, now_ns)
        if estimator is not None:
            estimator.command(command)
        plant.step(command)
        if moving:
            error = judge_.update(plant.x_m, plant.y_m, plant.yaw_rad).cross_track_m
            rows.append((plant.x_m, plant.y_m, estimate.x_m, estimate.y_m, error))
        if judge_.finished or (controller.finished and plant.speed_mps < 0.01):
            break
    table = np.array(rows)
    finished = judge_.finished or controller.finished
    return TrackingTrace(
        system.name, trajectory + 1, test + 1, finished, table[:, :2], table[:, 2:4], table[:, 4]
    )


def judge(traces: Sequence[TrackingTrace]) -> list[TrackingRow]:
    """Errors by test; NaN where an estimator had no estimate never counts as good."""
    found = []
    for trajectory, test in sorted({(t.trajectory, t.test) for t in traces}):
        of_test = [t for t in traces if (t.trajectory, t.test) == (trajectory, test)]
        mean = {t.system: float(np.abs(t.error_m).mean()) for t in of_test}
        most = {t.system: float(np.abs(t.error_m).max()) for t in of_test}
        found.append(
            TrackingRow(trajectory, test, mean, most, {t.system: t.finished for t in of_test})
        )
    return found


class _Plant:
    """The 4-DOF model as published, by steps of 2 ms, apart from any estimator; at rest at the
    start of the curve."""

    def __init__(self, believed: Vehicle, course: Course, authority: float, gain: float) -> None:
        self._vehicle, self._authority, self._gain = believed, authority, gain
        self.x_m = float(course.x_m[0])
        self.y_m = float(course.y_m[0])
        self.yaw_rad = float(course.yaw_rad[0])
        self.speed_mps = self._wheel_rad = 0.0
        self._waiting_throttle = [0.0] * round(believed.drive.delay_s * 1e9 / STEP_NS)
        self._waiting_steering = [believed.steering.command(0.0)] * round(
            believed.steering.delay_s * 1e9 / STEP_NS
        )

    def step(self, command: ActuatorCommand) -> None:
        vehicle, steering, dt_s = self._vehicle, self._vehicle.steering, STEP_NS * 1e-9 / INNER
        self._waiting_throttle.append(command.throttle)
        self._waiting_steering.append(command.steering)
        throttle = self._authority * self._waiting_throttle.pop(0)
        goal = steering.offset_rad + self._gain * (
            steering.wheel_angle_rad(self._waiting_steering.pop(0)) - steering.offset_rad
        )
        goal = min(max(goal, -steering.max_wheel_rad), steering.max_wheel_rad)
        for _ in range(INNER):
            self._wheel_rad += min(
                max(goal - self._wheel_rad, -steering.rate_radps * dt_s), steering.rate_radps * dt_s
            )
            turn = dt_s * self.speed_mps * tan(self._wheel_rad) / vehicle.wheelbase_m
            self.x_m += dt_s * self.speed_mps * cos(self.yaw_rad + 0.5 * turn)
            self.y_m += dt_s * self.speed_mps * sin(self.yaw_rad + 0.5 * turn)
            self.yaw_rad += turn
            self.speed_mps = max(
                0.0,
                self.speed_mps + dt_s * vehicle.drive.acceleration_mps2(throttle, self.speed_mps),
            )

    def estimate(self, now_ns: int) -> StateEstimate:
        rate = self.speed_mps * tan(self._wheel_rad) / self._vehicle.wheelbase_m
        nothing = (0.0,) * 16
        return StateEstimate(
            now_ns,
            now_ns,
            self.x_m,
            self.y_m,
            self.yaw_rad,
            self.speed_mps,
            rate,
            nothing,
            EstimatorStatus.RUNNING,
        )


def _controller(system: System, profile: Profile, course: Course) -> Controller:
    kind = resolve("controller", system.controller)
    params = msgspec.convert(system.controller_params, kind.Params)
    controller: Controller = kind(params, profile.vehicle, profile.limits, course, STEP_NS * 1e-9)
    return controller


def _show(console: ExperimentConsole, rows: Sequence[TrackingRow], noise: str) -> None:
    names = [system.name for system in SYSTEMS]
    for word in ("mean", "max"):
        theirs = PUBLISHED[f"{word}_error_sim_m"], PUBLISHED[f"{word}_error_real_m"]
        lines = []
        for row in rows:
            known = [
                f"{each[row.trajectory - 1][row.test - 1]:.3f}" if row.test <= TESTS else ""
                for each in theirs
            ]
            ours = row.mean_m if word == "mean" else row.max_m
            marks = [f"{ours[name]:.3f}" + ("" if row.finished[name] else " *") for name in names]
            lines.append([f"{row.trajectory} / {row.test}", *known, "", *marks])
        values = [
            [(row.mean_m if word == "mean" else row.max_m)[name] for row in rows] for name in names
        ]
        lines.append(
            [
                "mean",
                *(f"{np.mean(each):.3f}" for each in theirs),
                "",
                *(f"{np.mean(each):.3f}" for each in values),
            ]
        )
        title = f"{word} cross-track error (m): published in simulation, real | ours, noise {noise}"
        console.table(title, ["trajectory / test", "simulation", "real", "", *names], lines)
    if not all(finished for row in rows for finished in row.finished.values()):
        console.text(f"* did not come to the end of the curve within {LONGEST_S:g} s")


_COLOURS = ("#e8a13a", "#0b6e4f", "#d1495b", "#c77dff", "#7a4fbf", "#2e5eaa")
_REAL = "#3c3c3c"


def plot(
    traces: Sequence[TrackingTrace],
    rows: Sequence[TrackingRow],
    real: Sequence[tuple[RealRow, Array]],
    file: str,
) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by its ending). Raises :class:`SetupError` when it cannot
    be written."""
    figure = new_figure(14, 9)
    grid = figure.add_gridspec(3, len(CURVES), height_ratios=(1.3, 1, 1))
    colours = {system.name: colour for system, colour in zip(SYSTEMS, _COLOURS, strict=True)}
    for number in range(len(CURVES)):
        of_curve = [trace for trace in traces if trace.trajectory == number + 1]
        area = figure.add_subplot(grid[0, number])
        line = curve(number)
        area.plot(line.x_m, line.y_m, color="black", lw=2.5, alpha=0.5, label="trajectory")
        error = figure.add_subplot(grid[1, number])
        labelled: set[str] = set()
        for trace in of_curve:
            label = "" if trace.system in labelled else trace.system
            labelled.add(trace.system)
            area.plot(*trace.truth_m.T, color=colours[trace.system], lw=0.9, label=label or None)
            way_m = np.cumsum(
                np.hypot(*np.diff(trace.truth_m, axis=0, prepend=trace.truth_m[:1]).T)
            )
            error.plot(way_m, trace.error_m, color=colours[trace.system], lw=0.9)
        of_real = [places for row, places in real if row.trajectory == number + 1]
        for k, places in enumerate(of_real):
            area.plot(
                *places.T, color=_REAL, lw=0.9, ls="--", label=None if k else "recorded, real"
            )
        area.set_aspect("equal", adjustable="datalim")
        area.set(
            xlabel="x (m)", ylabel="y (m)", title=f"trajectory {number + 1}: where the vehicle was"
        )
        area.legend(loc="upper left", fontsize="small")
        error.set(xlabel="way (m)", ylabel="cross-track error (m)")

    bars = figure.add_subplot(grid[2, :])
    shown = [row for row in rows if row.test <= len(PUBLISHED["mean_error_sim_m"][0])]
    published = {
        "published: simulation": "mean_error_sim_m",
        "published: real": "mean_error_real_m",
    }
    heights = {
        name: [PUBLISHED[key][row.trajectory - 1][row.test - 1] for row in shown]
        for name, key in published.items()
    }
    heights |= {system.name: [row.mean_m[system.name] for row in shown] for system in SYSTEMS}
    fills = {"published: simulation": "#dfe3e8", "published: real": "#9aa5b1", **colours}
    width = 0.8 / len(heights)
    for k, (name, values) in enumerate(heights.items()):
        at = np.arange(len(values)) + (k - 0.5 * (len(heights) - 1)) * width
        bars.bar(at, values, width, color=fills[name], label=name)
    bars.set_xticks(range(len(shown)), [f"{row.trajectory} / {row.test}" for row in shown])
    bars.set(xlabel="trajectory / test", ylabel="mean cross-track error (m)")
    # Room for the legend above the bars.
    bars.set_ylim(0.0, 1.35 * max(max(values) for values in heights.values()))
    bars.legend(ncols=3, fontsize="small", frameon=False)
    for axes in figure.axes:
        axes.grid(alpha=0.25)
    save_figure(figure, file)
