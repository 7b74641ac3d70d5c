"""Command ``vehicled sensors fit``: a model of your own receiver and inertial unit."""

from argparse import Namespace
from importlib.util import find_spec
from math import ceil
from pathlib import Path

import msgspec
import numpy as np

from vehicled.core.errors import SetupError
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import known_kinds
from vehicled.offline.sensors import inertial, model, positions
from vehicled.offline.sensors.allan import TERMS
from vehicled.offline.sensors.inertial import InertialFit
from vehicled.offline.sensors.positions import PositionFit
from vehicled.offline.sensors.reading import add_recordings, read, shortened
from vehicled.offline.twin.calibration.profile_write import moved, with_values
from vehicled.profile import load, parse, profile_files
from vehicled.profile.schema import Profile
from vehicled.run.argument_types import PROFILE
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file, write_output
from vehicled.run.terminal import print_table

SENSORS = ("gnss", "imu")
_POOR = 1.5
"""Factor of held-out increments from which the fit is called poor."""


def declare_sensors_fit(parser: CommandParser) -> None:
    """Fit the receiver to the errors of its positions, against the truth of a drive or at
    standstill, and the inertial unit to the Allan deviation at standstill. Write the numbers into a
    profile.
    """
    parser.describe(
        examples=(
            "vehicled sensors fit still.mcap -o mine.toml --plot fit.png",
            "vehicled sensors fit drives/ --sensor gnss --kind plain",
            "vehicled sensors fit still.csv --map columns.toml",
        ),
        epilog=(
            "Exit status: 0 fitted; 2 invalid arguments, or the recordings show nothing of "
            "either sensor. See docs/sensors.md."
        ),
    )
    add_recordings(parser)
    parser.add_argument(
        "--sensor",
        action="append",
        choices=("gnss", "imu"),
        default=[],
        help="fit only this one; repeatable (default: what shows)",
    )
    parser.add_argument(
        "--map",
        default="",
        metavar="FILE",
        help="mapping that says what the columns of CSV files are: docs/logs.md",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art",
        metavar="P",
        help="profile into which the numbers are written (default art)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="TOML",
        help="write the profile with the fitted sensors (default: print tables)",
    )
    parser.add_argument(
        "--errors",
        metavar="CSV",
        help="write the errors of the positions, for sim.gnss.model = replayed",
    )
    parser.add_argument(
        "--plot", metavar="FILE", help="draw measured and fitted deviations (.png, .svg, .pdf)"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Fit, print, write. Raises SetupError, RecordingError, LogError and ProfileError."""
    if find_spec("scipy") is None or find_spec("tomlkit") is None:
        raise SetupError("sensors fit needs scipy and tomlkit: pip install 'vehicled[calibrate]'")
    if arguments.plot:
        check_plot_file(Path(arguments.plot))
    if arguments.output:
        check_output("-o", Path(arguments.output))
    if arguments.errors:
        check_output("--errors", Path(arguments.errors))
    known_kinds(arguments.kind)
    source = profile_files.read(profile_files.find(arguments.profile))
    drives = read(arguments.run_files, tuple(arguments.kind), arguments.map)
    receiver: PositionFit | None = None
    unit: InertialFit | None = None
    reasons = []
    for sensor in dict.fromkeys(arguments.sensor or SENSORS):
        try:
            if sensor == "gnss":
                receiver = positions.fit(drives)
            else:
                unit = inertial.fit(drives)
        except RecordingError as error:
            reasons.append(f"{sensor}: {error}")
    if receiver is None and unit is None:
        raise RecordingError("\n".join(reasons))
    values = (model.of_positions(receiver) if receiver else {}) | (
        model.of_inertial(unit) if unit else {}
    )
    if arguments.plot:
        from vehicled.offline.sensors.picture import draw

        draw(Path(arguments.plot), receiver, unit)
    if arguments.errors and receiver is not None:
        write_output(Path(arguments.errors), _errors(receiver))
    if arguments.output:
        text = moved(
            with_values(source, values),
            profile_files.find(arguments.profile),
            Path(arguments.output),
        )
        parse(text, arguments.output, beside=Path(arguments.output).parent)
        write_output(
            Path(arguments.output),
            f"# Sensors fitted to {', '.join(map(str, arguments.run_files))}\n{text}",
        )
    if arguments.json:
        print(
            msgspec.json.encode(
                _summary(receiver, unit, values), enc_hook=lambda array: array.tolist()
            ).decode()
        )
        return 0
    if receiver is not None:
        _print_positions(receiver)
    if unit is not None:
        _print_inertial(unit)
    for reason in reasons:
        print(f"note: {reason}")
    if arguments.plot:
        print(f"picture: {arguments.plot}")
    corridor = (
        ""
        if receiver is None
        else corridor_option(receiver.form.sigma_m, load(arguments.profile).profile)
    )
    if arguments.errors and receiver is not None:
        file = Path(arguments.errors).resolve()
        print(
            f"errors: {file}   vehicled sim --set sim.gnss.model=replayed --set "
            f"sim.gnss.replayed.file={file}{corridor}"
        )
    if arguments.output:
        print(f"profile: {arguments.output}   vehicled sim --profile {arguments.output}{corridor}")
    else:
        print(model.tables(values), end="")
    return 0


def corridor_option(sigma_m: float, profile: Profile) -> str:
    """Return the option without which arming refuses errors of this size; empty if it does not."""
    needed_m = ceil(5.0 * sigma_m)
    return f" --set limits.corridor_m={needed_m}" if needed_m > profile.limits.corridor_m else ""


def _print_positions(found: PositionFit) -> None:
    rows = []
    for name, unit, text in (
        ("white_m", "m", "white noise"),
        ("wander_m", "m", "first-order Gauss-Markov"),
        ("wander_s", "s", "its time"),
        ("smooth_m", "m", "second-order Gauss-Markov"),
        ("smooth_s", "s", "its time"),
    ):
        value, low, high = (getattr(form, name) for form in (found.form, found.low, found.high))
        if getattr(found.form, f"{name.split('_')[0]}_m") == 0.0:
            continue
        fixed = name == "wander_s" and found.wander_fixed
        rows.append(
            (
                text,
                f"{value:.3g} {unit}",
                "fixed: the runs are too short" if fixed else f"{low:.3g} to {high:.3g}",
            )
        )
    rows.append(("standard deviation", f"{found.form.sigma_m:.3g} m", ""))
    if found.reported_m is not None:
        rows.append(("as the receiver reports it", f"{found.reported_m:.3g} m", ""))
    rows.append(("random walk: sigma", f"{found.walk.sigma:.3g}", ""))
    rows.append(
        (
            "random walk: p_max",
            f"{found.walk.pull_range_m / (found.walk.pull * found.walk.sigma):.3g}",
            "",
        )
    )
    title = (
        f"Positions: {found.runs} runs, {found.hours * 60.0:.0f} min, {found.rate_hz:.3g} "
        "fixes per second"
    )
    print_table(title, ("part", "value", "5 to 95 %"), rows)
    print(
        f"increments were measured over {found.lags_s[0]:.2g} to {found.lags_s[-1]:.3g} s; those "
        f"of the random walk differ by a factor of {found.walk_factor:.2f}"
    )
    print(
        "increments of one half of the runs differ from the fit to the other by a factor of "
        f"{found.held_out:.2f}"
    )
    if found.autocorrelation:
        pairs = ", ".join(
            f"{lag:g} s: {a:.2f} and {b:.2f}" for lag, (a, b) in found.autocorrelation.items()
        )
        print(f"autocorrelation within a run, recorded and simulated: {pairs}")
    if found.smooth_beyond:
        cure = (
            "record longer" if found.smooth_beyond == "longer" else "record more fixes per second"
        )
        print(
            f"note: the time of the second-order part may be {found.smooth_beyond} than "
            f"{found.form.smooth_s:.3g} s: {cure}"
        )
    print(
        f"standard deviation within a run, recorded and simulated: {found.deviation_m[0]:.3g} "
        f"and {found.deviation_m[1]:.3g} m"
    )
    cut = found.interrupted
    print(
        f"outages: {cut.outages_per_hour:.1f} per hour of {cut.outage_s:.1f} s; held "
        f"positions: {100.0 * cut.hold_share:.1f} % for "
        f"{cut.hold_s:.1f} s" + (f"; rounded to {cut.step_m:.3g} m" if cut.step_m else "")
    )
    if found.delay_s:
        print(
            f"the fixes are {abs(found.delay_s):.2f} s "
            f"{'later' if found.delay_s > 0.0 else 'earlier'} than the truth"
        )
    if found.settling is not None:
        print(
            "dilution settles from {:.3g} to {:.3g}, time constant {:.3g} s".format(*found.settling)
        )
    if found.left_out:
        print(f"note: left out: {shortened(found.left_out)}")
    if not found.held_out < _POOR:
        print("note: the halves disagree: record longer, or more runs")


def _print_inertial(found: InertialFit) -> None:
    name, begin_s, end_s = found.stretches[0]
    rows = []
    for axis in (*found.gyro, *found.accelerometer):
        parts = []
        for term in TERMS:
            value, low, high = (getattr(each, term) for each in (axis.terms, axis.low, axis.high))
            parts.append(f"{value:.2e} ({low:.0e}-{high:.0e})" if value > 0.0 else "-")
        rows.append(
            (axis.name, *parts, f"{axis.mean:.3g}", f"{axis.step:.2g}" if axis.step else "-")
        )
    head = ("axis", "quantisation", "white /rtHz", "instability", "walk /rts", "mean", "step")
    print_table(
        f"Inertial unit: {name}, {begin_s:.0f} to {end_s:.0f} s, {found.rate_hz:.4g} Hz; SI units",
        head,
        rows,
    )
    if found.assumed:
        print(
            "note: no speed was recorded; that the vehicle stands is taken from the quietness "
            "of the unit"
        )
    if found.missing > 0.001:
        print(
            f"note: {100.0 * found.missing:.1f} % of the samples are missing and were interpolated"
        )


def _errors(found: PositionFit) -> str:
    """Return the errors of all runs as the CSV file of the model ``replayed``."""
    lines = ["run,t_s,east_m,north_m"]
    for run in found.errors:
        for k in np.flatnonzero(np.isfinite(run.error_m).all(axis=1)).tolist():
            east, north = run.error_m[k]
            lines.append(f"{run.name},{k * run.period_s:.3f},{east:.4f},{north:.4f}")
    return "\n".join(lines) + "\n"


def _summary(
    receiver: PositionFit | None, unit: InertialFit | None, values: model.Values
) -> dict[str, object]:
    if receiver is not None:
        receiver = msgspec.structs.replace(receiver, errors=[])  # they have a file of their own
    return {"gnss": receiver, "imu": unit, "profile": values}
