"""The filter test of Unjhawala et al. 2023: circles at constant commands on a wandering GPS, what
the filter makes of it.

Ten tests. The vehicle stands for a second, then drives circles; every estimator is given the same
fixes (10 Hz), headings and commands, and nothing else, and begins at the true pose, where the walk
begins too. What is judged is the distance from the true position at each fix. The truth is the
4-DOF model with the delays of the profile's vehicle, integrated apart from any estimator; its drive
and steering gain are off what is believed, by another amount in each test.

The published tests were driven in another simulator: their table stands beside ours, not under it.
Radius, duration and the vehicle of theirs are not known; at 300 s the measurement is as far off as
theirs was.
"""

import re
from argparse import Namespace
from collections.abc import Iterator, Sequence
from math import cos, sin, tan
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.errors import SetupError
from vehicled.core.messages import ActuatorCommand, Heading, HeadingKind
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.interface import Estimator
from vehicled.offline.replications.experiments.common import ExperimentConsole, on_terminal, summary
from vehicled.offline.replications.experiments.gps_noise import FORMS, GpsNoise, fix_at
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.profile.registry import names, resolve
from vehicled.run.argument_types import ESTIMATOR, PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_plot_file, new_figure, save_figure

PUBLISHED = {
    "mean_error_ekf_m": (0.819, 1.544, 1.024, 0.609, 0.849, 0.823, 0.969, 0.767, 1.058, 0.890),
    "mean_error_measurement_m": (
        0.791,
        1.579,
        0.856,
        0.772,
        1.174,
        0.978,
        1.288,
        0.886,
        1.274,
        1.109,
    ),
    "max_error_ekf_m": (1.509, 3.553, 1.803, 1.101, 1.560, 1.431, 1.992, 1.642, 2.168, 2.015),
    "max_error_measurement_m": (
        1.504,
        3.935,
        1.878,
        1.379,
        2.033,
        2.066,
        2.235,
        2.047,
        2.993,
        2.338,
    ),
}
"""Unjhawala et al. 2023, "Using simulation to design an MPC policy for field navigation using GPS
sensing": the circle tests."""

ESTIMATORS = (
    "ekf4_published",
    "ekf4_published+drive",
    "ekf4_paper",
    "ekf4_paper+drive",
    "ekf4_paper+drive+noise",
    "ekf4",
    "planar",
)
"""``+drive``: with the drive and the steering gain that the others believe, because the published
ones contradict the vehicle. ``+noise``: with :data:`WHITE_SIGMA_M` as the sigma of the measured
positions, which was 0 to 2 m in the published code; ``+10m``: with 10 m."""
_SIGMA = re.compile(r"(\d*[1-9]\d*)m")
PUBLISHED_FILTERS = ("ekf4_published", "ekf4_paper")
_DRIVE = (
    "stall_torque_nm", "no_load_speed_radps", "friction_nm", "viscous_nms", "gear_ratio",
    "wheel_radius_m", "inertia_kgm2",
)  # fmt: skip
STEP_NS = 10_000_000
FIX_EVERY = 10
STANDS_S = 1.0
SPEED_MPS = 1.0
STEERING = 0.45
"""Command: a circle of 3.4 m radius at the gain believed for the ART vehicle."""
SPREAD = 0.1
"""Relative spread of the true drive and steering gain round the assumed ones, uniform; runs of one
campaign differ by that."""
HEADING_SIGMA_RAD = 0.03
POSITION_SIGMA_M = 0.7
"""Sigma reported by the receiver, per axis: the mean error of the published tests, 1.1 m, is 0.7 m
per axis and more."""

TUNING: dict[str, dict[str, Any]] = {
    # No gate: the error of the measurement is what is being tested, and the pose at the start is
    # given.
    "ekf4": {"gate": False, "max_position_sigma_m": 10.0},
    # The heading has no mounting angle, which the published filter takes for granted, too.
    "planar": {"error_at_start": 0.0, "max_position_sigma_m": 10.0, "misalignment_sigma_rad": 0.02},
}
"""Parameters other than the defaults, by estimator: what is known of this test and not of every
drive."""
WALK_M = {"inner": 0.16, "simulator": 0.1, "judge": 0.025}
"""``error_walk_m`` of ``planar`` by form: the root mean square change over some time by the root of
that time, where it is largest up to 50 s, in m per root second."""


WHITE_SIGMA_M = {"inner": 2.0, "simulator": 40.0, "judge": 1.8}
"""Sigma per fix and axis of the white noise that over minutes is worth as much as the walk, by
form: the root mean square of means over 300 s and more, by the root of the number of fixes. A
filter for white noise needs this in place of the size of the error, because it takes every fix as
independent."""


class CircleTrace(Struct, frozen=True):
    """One test at its fixes: times (n,), truth and measurement (n, 2), and each estimate (n, 2), in
    s and m."""

    t_s: Array
    truth_m: Array
    measured_m: Array
    estimates_m: dict[str, Array]


class CircleRow(Struct, frozen=True):
    """Errors of one test in m; estimators by name, ``measurement`` among them."""

    test: int
    mean_m: dict[str, float]
    max_m: dict[str, float]


def declare_experiment_ekf_circle(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(__doc__ or "")
    parser.add_argument(
        "--tests", type=int, default=10, metavar="N", help="number of tests (default 10)"
    )
    parser.add_argument(
        "--duration", type=float, default=300.0, metavar="S", help="length of a test (default 300)"
    )
    parser.add_argument(
        "--noise",
        choices=tuple(FORMS),
        default="simulator",
        help="form of the walk (default simulator)",
    )
    parser.add_argument(
        "--estimator",
        type=ESTIMATOR,
        action="append",
        default=[],
        metavar="NAME",
        help="repeatable (default: those registered)",
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
    parser.add_argument("--plot", metavar="PNG", help="draw the tests into this file")
    parser.set_defaults(run=on_terminal(run))


def run(arguments: Namespace, console: ExperimentConsole) -> int:
    """Run the tests and show them beside the published ones. Raises :class:`SetupError` for
    arguments that cannot be used."""
    if (
        not 1 <= arguments.tests <= 1000
        or not 5.0 <= arguments.duration <= 3600.0
        or arguments.seed < 0
    ):
        raise SetupError(
            "--tests takes 1 to 1000, --duration 5 to 3600 s, --seed a whole number from 0 on"
        )
    chosen = tuple(arguments.estimator) or tuple(
        name for name in ESTIMATORS if _registered(name) in names("estimator")
    )
    vehicle = load_profile(arguments.profile).vehicle
    for name in chosen:
        make_estimator(name, vehicle, arguments.noise)
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    traces = []
    for number in range(arguments.tests):
        console.progress(f"test {number + 1} of {arguments.tests}")
        traces.append(
            drive(vehicle, chosen, arguments.noise, arguments.duration, (arguments.seed, number))
        )
    rows = [judge(number + 1, trace) for number, trace in enumerate(traces)]
    if arguments.json:
        totals = summary([row.mean_m for row in rows], [row.max_m for row in rows])
        totals["better"] = {
            name: sum(row.mean_m[name] < row.mean_m["measurement"] for row in rows)
            for name in chosen
        }
        found = {"noise": arguments.noise, "published": PUBLISHED, "ours": rows, "summary": totals}
        console.text(msgspec.json.encode(found).decode())
    else:
        _show(console, rows, chosen, arguments)
    if arguments.plot:
        plot(traces, rows, arguments.plot)
        if not arguments.json:
            console.text(f"drawn: {arguments.plot}")
    return 0


def drive(
    vehicle: Vehicle,
    estimators: Sequence[str],
    noise: str,
    duration_s: float,
    seed: tuple[int, int],
) -> CircleTrace:
    """One test. The same ``seed`` gives the same test, whatever the estimators."""
    rng = np.random.default_rng(seed)
    walk = GpsNoise(FORMS[noise], rng)
    scale = rng.uniform(1.0 - SPREAD, 1.0 + SPREAD, 2)
    running = {name: make_estimator(name, vehicle, noise) for name in estimators}
    rows: list[tuple[float, ...]] = []
    held: dict[str, tuple[float, float]] = {}
    for k, (x, y, yaw, throttle) in enumerate(
        _truth(vehicle, duration_s, float(scale[0]), float(scale[1]))
    ):
        now_ns = k * STEP_NS
        if k % FIX_EVERY == 0:
            east, north = (np.array((x, y)) + walk.at(now_ns * 1e-9)).tolist()
            fix = fix_at(now_ns, east, north, POSITION_SIGMA_M)
            heading = yaw + HEADING_SIGMA_RAD * float(rng.standard_normal()) * (k > 0)
            for estimator in running.values():
                estimator.observe(
                    Heading(now_ns, now_ns, heading, HEADING_SIGMA_RAD, HeadingKind.MAGNETIC)
                )
                estimator.observe(fix)
        steering = STEERING if throttle > 0.0 else 0.0
        command = ActuatorCommand(
            now_ns, now_ns, throttle, 0.0, steering, vehicle.steering.wheel_angle_rad(steering)
        )
        for name, estimator in running.items():
            estimate = estimator.step(now_ns)
            held[name] = (estimate.x_m, estimate.y_m)
            estimator.command(command)
        if k % FIX_EVERY == 0:
            rows.append(
                (
                    now_ns * 1e-9,
                    x,
                    y,
                    east,
                    north,
                    *(value for name in running for value in held[name]),
                )
            )
    table = np.array(rows)
    found = {name: table[:, 5 + 2 * i : 7 + 2 * i] for i, name in enumerate(running)}
    return CircleTrace(table[:, 0], table[:, 1:3], table[:, 3:5], found)


def judge(number: int, trace: CircleTrace) -> CircleRow:
    """Distances from the truth; NaN where an estimator had no estimate."""
    errors = {"measurement": trace.measured_m, **trace.estimates_m}
    distances = {name: np.hypot(*(points - trace.truth_m).T) for name, points in errors.items()}
    return CircleRow(
        number,
        {n: float(d.mean()) for n, d in distances.items()},
        {n: float(d.max()) for n, d in distances.items()},
    )


def _truth(
    vehicle: Vehicle, duration_s: float, authority: float, gain: float
) -> Iterator[tuple[float, float, float, float]]:
    """(x, y, yaw, throttle commanded) at each step: the equations of the 4-DOF model as published,
    by steps of 2 ms."""
    drive_, steering = vehicle.drive, vehicle.steering
    inner, dt_s = 5, STEP_NS * 1e-9 / 5
    throttle = min(1.0, drive_.steady_throttle(SPEED_MPS))
    target = min(steering.offset_rad + gain * steering.gain_rad * STEERING, steering.max_wheel_rad)
    x = y = yaw = v = wheel = 0.0
    for k in range(round(duration_s * 1e9 / STEP_NS) + 1):
        t_s = k * STEP_NS * 1e-9
        yield x, y, yaw, throttle if t_s >= STANDS_S else 0.0
        alpha = throttle * authority if t_s >= STANDS_S + drive_.delay_s else 0.0
        goal = target if t_s >= STANDS_S + steering.delay_s else steering.offset_rad
        for _ in range(inner):
            wheel += min(max(goal - wheel, -steering.rate_radps * dt_s), steering.rate_radps * dt_s)
            middle = yaw + 0.5 * dt_s * v * tan(wheel) / vehicle.wheelbase_m
            x, y = x + dt_s * v * cos(middle), y + dt_s * v * sin(middle)
            yaw += dt_s * v * tan(wheel) / vehicle.wheelbase_m
            v = max(0.0, v + dt_s * drive_.acceleration_mps2(alpha, v))


def _registered(name: str) -> str:
    return name.partition("+")[0]


def make_estimator(name: str, vehicle: Vehicle, noise: str) -> Estimator:
    """Return an estimator by its name in :data:`ESTIMATORS` or the registry, configured with what
    is known of a test.

    Raises :class:`SetupError` for an ending that is not known.
    """
    base, *endings = name.split("+")
    kind = resolve("estimator", base)
    parameters = dict(TUNING.get(base, {}))
    if base == "planar":
        parameters["error_walk_m"] = WALK_M[noise]
    for ending in endings:
        sigma = _SIGMA.fullmatch(ending)
        if base not in PUBLISHED_FILTERS or not (sigma or ending in ("drive", "noise")):
            raise SetupError(
                f"--estimator {name}: only {' and '.join(PUBLISHED_FILTERS)} take +drive, "
                "+noise and +NUMBERm"
            )
        if ending == "drive":
            parameters |= {field: getattr(vehicle.drive, field) for field in _DRIVE}
            parameters |= {
                "wheel_angle_per_command_rad": vehicle.steering.gain_rad,
                "wheelbase_m": vehicle.wheelbase_m,
            }
        else:
            parameters["measured_position_sigma_m"] = (
                float(sigma[1]) if sigma else WHITE_SIGMA_M[noise]
            )
    estimator: Estimator = kind(
        msgspec.convert(parameters, kind.Params), vehicle, LOT_17, (0.0, 0.0, 0.0)
    )
    return estimator


def _show(
    console: ExperimentConsole,
    rows: Sequence[CircleRow],
    chosen: Sequence[str],
    arguments: Namespace,
) -> None:
    published = {key: np.array(values) for key, values in PUBLISHED.items()}
    columns = ["test", "EKF", "measured", "", "measured", *chosen]
    for word in ("mean", "max"):
        lines = []
        theirs = published[f"{word}_error_ekf_m"], published[f"{word}_error_measurement_m"]
        for row in rows:
            ours = row.mean_m if word == "mean" else row.max_m
            known = [
                f"{each[row.test - 1]:.3f}" if row.test <= len(each) else "" for each in theirs
            ]
            lines.append(
                [
                    str(row.test),
                    *known,
                    "",
                    *(f"{ours[name]:.3f}" for name in ("measurement", *chosen)),
                ]
            )
        all_ours = {
            n: np.array([(r.mean_m if word == "mean" else r.max_m)[n] for r in rows])
            for n in ("measurement", *chosen)
        }
        lines.append(
            [
                "mean",
                *(f"{each.mean():.3f}" for each in theirs),
                "",
                *(f"{v.mean():.3f}" for v in all_ours.values()),
            ]
        )
        better = [
            f"{int((all_ours[n] < all_ours['measurement']).sum())} of {len(rows)}" for n in chosen
        ]
        lines.append(
            [
                "better than measured",
                f"{int((theirs[0] < theirs[1]).sum())} of {len(theirs[0])}",
                "",
                "",
                "",
                *better,
            ]
        )
        title = (
            f"{word} position error (m): published | ours, noise {arguments.noise}, "
            f"{arguments.duration:g} s"
        )
        console.table(title, columns, lines)


_COLOURS = {
    "measurement": "#9aa5b1", "ekf4_published": "#d1495b", "ekf4_published+drive": "#e8a13a",
    "ekf4_paper": "#f2a7c3",
    "ekf4_paper+drive": "#c77dff", "ekf4_paper+drive+noise": "#7a4fbf", "ekf4": "#0b6e4f",
    "planar": "#2e5eaa",
}  # fmt: skip
_OTHERS = ("#8a5a44", "#3aa6a6", "#4f4f4f")
SHOWN_S = 60.0
"""Time of the test shown on the map: more circles would hide each other."""


def plot(traces: Sequence[CircleTrace], rows: Sequence[CircleRow], file: str) -> None:
    """Draw into ``file`` (PNG, SVG or PDF by its ending). Raises :class:`SetupError` when it cannot
    be written."""
    names = list(rows[0].mean_m)
    spare = iter(_OTHERS * (1 + len(names) // len(_OTHERS)))
    colours = {name: _COLOURS.get(name) or next(spare) for name in names}
    # The median test speaks for all.
    shown = int(np.argsort([row.mean_m["measurement"] for row in rows])[len(rows) // 2])
    trace = traces[shown]
    points = {"measurement": trace.measured_m, **trace.estimates_m}
    last = trace.t_s >= trace.t_s[-1] - SHOWN_S

    figure = new_figure(13, 7.5)
    grid = figure.add_gridspec(2, 2, width_ratios=(1, 1.5))
    area = figure.add_subplot(grid[:, 0])
    area.plot(*trace.truth_m[last].T, color="black", lw=1.6, label="truth")
    for name, xy in points.items():
        area.plot(*xy[last].T, color=colours[name], lw=1.0, label=name)
    area.set_aspect("equal", adjustable="datalim")
    area.set(
        xlabel="east (m)",
        ylabel="north (m)",
        title=f"test {rows[shown].test}, last {min(SHOWN_S, trace.t_s[-1]):.0f} s",
    )
    area.legend(loc="upper left", frameon=True)

    error = figure.add_subplot(grid[0, 1])
    for name, xy in points.items():
        error.plot(
            trace.t_s, np.hypot(*(xy - trace.truth_m).T), color=colours[name], lw=1.2, label=name
        )
    error.set(
        xlabel="time (s)",
        ylabel="position error (m)",
        title=f"test {rows[shown].test}",
        ylim=(0.0, None),
    )

    bars = figure.add_subplot(grid[1, 1])
    published = {
        "published: measured": PUBLISHED["mean_error_measurement_m"],
        "published: EKF": PUBLISHED["mean_error_ekf_m"],
    }
    heights = {
        **{k: v[: len(rows)] for k, v in published.items()},
        **{n: tuple(r.mean_m[n] for r in rows) for n in names},
    }
    width = 0.8 / len(heights)
    fills = {"published: measured": "#dfe3e8", "published: EKF": "#f0c0c6", **colours}
    for k, (name, values) in enumerate(heights.items()):
        at = np.arange(1, len(values) + 1) + (k - 0.5 * (len(heights) - 1)) * width
        bars.bar(at, values, width, color=fills[name], label=name)
    bars.set(
        xlabel="test",
        ylabel="mean position error (m)",
        title="all tests, the published ones beside them",
    )
    if len(rows) <= 20:
        bars.set_xticks(range(1, len(rows) + 1))
    bars.legend(ncols=3, fontsize="small", frameon=False)
    for axes in (area, error, bars):
        axes.grid(alpha=0.25)
    save_figure(figure, file)
