"""Command ``vehicled estimator calibrate``: constants of the estimator ``planar`` from a user's own
drives."""

from argparse import Namespace
from math import isfinite, isnan
from pathlib import Path

import msgspec
import numpy as np

from vehicled.core.vehicle import Vehicle
from vehicled.estimation.planar.params import PlanarParams
from vehicled.offline.processes import WorkerPool
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import KIND, known_kinds, sources
from vehicled.offline.recordings.recording import Recording
from vehicled.offline.recordings.set_up import (
    NAMES,
    REASONS,
    UNITS,
    HeldOut,
    SetUp,
    applied,
    cross_validated,
    find,
)
from vehicled.offline.twin.calibration.profile_write import moved, with_values
from vehicled.profile import load, parse, profile_files
from vehicled.run.argument_types import JOBS, LOG, PROFILE, whole
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, write_output
from vehicled.run.terminal import Progress, print_table

_FOLDS = whole(2, 100, "expected a number of folds from 2 to 100")


def declare_estimator_calibrate(parser: CommandParser) -> None:
    """Find the constants of a set-up in its drives, from measurements and commands, without a
    truth: heading misalignment, acceleration of the full drive, friction, steering gain and offset,
    each with its spread between drives. Judge them on drives that they were not found in. Write
    what the drives show into a profile.
    """
    parser.describe(
        examples=(
            "vehicled estimator calibrate drives/ -o mine.toml",
            "vehicled estimator calibrate a.mcap b.mcap --profile art_vesc",
            "vehicled estimator calibrate drives/ --kind mocap --json",
        ),
        epilog="Exit status: 0 found; 1 the constants do not predict the other drives better, "
        "and nothing is written; 2 invalid "
        "arguments or recordings. See docs/estimation_and_control.md.",
    )
    parser.add_argument(
        "run_files",
        nargs="+",
        type=LOG,
        metavar="DRIVE",
        help="recordings: .mcap, CSV, bags, or folders of these",
    )
    parser.add_argument(
        "--kind",
        type=KIND,
        action="append",
        default=[],
        metavar="KIND",
        help="kind of recording to read; repeatable",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="profile of the vehicle that drove (default art_published)",
    )
    parser.add_argument(
        "--folds",
        type=_FOLDS,
        default=4,
        metavar="N",
        help="parts of the drives for cross-validation (default 4)",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="TOML",
        help="write the profile with these constants (default: print them)",
    )
    parser.add_argument(
        "--jobs",
        type=JOBS,
        metavar="N",
        help="number of parallel processes (default: one per core)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=calibrate)


def calibrate(arguments: Namespace) -> int:
    """Find, judge, print, write. Raises SetupError, RecordingError, LogError and ProfileError."""
    if arguments.output:
        check_output("-o", Path(arguments.output))
    known_kinds(arguments.kind)
    source = profile_files.read(profile_files.find(arguments.profile))
    profile = load(arguments.profile).profile
    given = profile.estimator.params.get("planar")
    params = given if isinstance(given, PlanarParams) else PlanarParams()
    drives = _drives(arguments.run_files, arguments.kind, profile.vehicle)
    progress = Progress()
    try:
        with WorkerPool(arguments.jobs) as processes:
            found = find(drives, params, profile.vehicle, progress.update, processes)
            used = [drive for drive in drives if drive.name not in found.unused]
            judged = (
                cross_validated(
                    used, params, profile.vehicle, arguments.folds, progress.update, processes
                )
                if len(used) > 1
                else []
            )
    finally:
        progress.close()
    values = _values(params, profile.vehicle, found)
    better = any(found.shown) and (not judged or sum(one.gain for one in judged) > 0.0)
    if arguments.json:
        print(
            msgspec.json.encode(
                {"constants": found, "held_out": judged, "values": values}, enc_hook=_plain
            ).decode()
        )
    else:
        _show(found, judged)
    if not better:
        reason = (
            "they do not predict drives that they were not found in"
            if any(found.shown)
            else "the drives show none of them"
        )
        print(f"These constants are not written: {reason}. Drive more, or keep the defaults.")
        return 1
    if arguments.output:
        text = moved(
            with_values(source, values),
            profile_files.find(arguments.profile),
            Path(arguments.output),
        )
        parse(text, arguments.output, beside=Path(arguments.output).parent)
        write_output(
            Path(arguments.output), f"# Constants of planar found in {len(used)} drives\n{text}"
        )
    if not arguments.json:
        if arguments.output:
            print(f"profile: {arguments.output}   vehicled run --profile {arguments.output}")
        else:
            print("\n".join(f"{key} = {value}" for key, value in values.items()))
    return 0


def _plain(value: object) -> object:
    return value.tolist() if isinstance(value, np.ndarray) else str(value)


def _drives(files: list[str], kinds: list[str], vehicle: Vehicle) -> list[Recording]:
    """Return the first recording of each file that is wanted, sorted by name."""
    found: dict[Path, Recording] = {}
    for file in files:
        for source in sources(file, vehicle):
            loaded = source.load(kinds or None)
            if loaded:
                found[source.path.resolve()] = loaded[0]
    if not found:
        raise RecordingError(
            f"{', '.join(map(str, files))}: no recording of kind {', '.join(kinds)}"
        )
    return sorted(found.values(), key=lambda drive: drive.name)


def _values(params: PlanarParams, vehicle: Vehicle, found: SetUp) -> dict[str, str]:
    """Return the values that the drives show, as TOML by key of the profile."""
    fitted, driven = applied(params, vehicle, found.after)
    keys = (
        ("heading_misalignment_rad", "misalignment_sigma_rad"),
        ("authority_scale", "authority_spread"), ("friction_extra_mps2", "friction_spread_mps2"),
        ("gain_spread",), ("offset_spread_rad",),
    )  # fmt: skip
    values = {"estimator.name": '"planar"'}
    for shown, names in zip(found.shown, keys, strict=True):
        if shown:
            values |= {f"estimator.planar.{name}": f"{getattr(fitted, name):.4g}" for name in names}
    before, after = vehicle.steering, driven.steering
    for name in ("gain_rad", "offset_rad", "max_wheel_rad"):
        if getattr(after, name) != getattr(before, name):
            values[f"vehicle.steering.{name}"] = (
                f"{getattr(after, name):.4g}  # found by estimator calibrate"
            )
    return values


def _show(found: SetUp, judged: list[HeldOut]) -> None:
    rows = []
    for k, name in enumerate(NAMES):
        if found.shown[k]:
            before, after = (
                f"{one.mean[k]:.4g} +- {one.sigma[k]:.2g}" for one in (found.before, found.after)
            )
            rows.append([name, before, after, UNITS[k]])
    if rows:
        print_table(
            "Constants of the set-up, with their spread between drives",
            ["constant", "before", "found", "unit"],
            rows,
        )
    for k, name in enumerate(NAMES):
        if not found.shown[k]:
            print(f"not shown: {name}: {REASONS[k]}")
    for name in found.unused:
        print(f"not used: {name}: the filter never started, or lost its place")
    if not judged:
        print("note: one drive alone cannot be cross-validated; give two or more")
        return
    rows = []
    for one in judged:
        cells = [
            "" if isnan(value) else f"{value:.3f}"
            for value in (one.raw_m, one.before_m, one.after_m)
        ]
        rows.append([one.name, f"{one.gain:+.1f}", *cells])
    heads = [
        "drive, not used to find them",
        "gain of log likelihood",
        "raw (m)",
        "before (m)",
        "after (m)",
    ]
    print_table("The constants of the other drives on each drive", heads, rows)
    known = [one for one in judged if isfinite(one.raw_m) and isfinite(one.after_m)]
    good = sum(one.gain > 0.0 for one in judged)
    print(f"predicted better than before: {good} of {len(judged)} drives")
    if known:
        raw, before, after = (
            sum(getattr(one, name) for one in known) / len(known)
            for name in ("raw_m", "before_m", "after_m")
        )
        print(
            f"mean position error: measured {raw:.3f} m, before {before:.3f} m, after {after:.3f} m"
        )
