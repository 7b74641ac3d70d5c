"""Command ``vehicled twin validate``: validate the simulator's vehicle models against reference
runs and theory."""

import sys
from argparse import Namespace
from importlib.util import find_spec
from math import degrees, isfinite
from pathlib import Path
from typing import Any

import msgspec

from vehicled.core.errors import SetupError
from vehicled.offline.recordings.public_data import DATA_FOLDER
from vehicled.offline.twin.page import errors_cells, judged_s, render
from vehicled.offline.twin.validation.evidence import Finding
from vehicled.offline.twin.validation.result import RunComparison, TheoryCheck, Validation
from vehicled.offline.twin.validation.targets import FIGURES
from vehicled.run.argument_types import JOBS, TEXT, TWIN
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, new_figure, save_figure, write_output
from vehicled.run.terminal import Progress, print_table

_MARKS = {True: "yes", False: "NO", None: "-"}


def declare_twin_validate(parser: CommandParser) -> None:
    """Simulate every reference run in a folder with our model: same commands, open loop, same
    start. Show the deviations from the reference with their targets, the parameters that all runs
    together show to be off, and check every vehicle against theory.
    """
    parser.describe(
        epilog="Exit status: 0 all targets met and all checks passed; 1 at least one failed; 2 "
        "invalid arguments. With --mutants: "
        "0 no false alarm; 1 otherwise."
    )
    parser.add_argument(
        "folder",
        nargs="?",
        metavar="DIR",
        help="folder of reference runs (default ~/vehicled/data)",
    )
    parser.add_argument(
        "--vehicle",
        type=TWIN,
        metavar="NAME",
        help=(
            "only this vehicle: its twin file, such as hmmwv_lfdm, or the reference's name, "
            "such as hmmwv"
        ),
    )
    parser.add_argument(
        "--run",
        type=TEXT,
        dest="only",
        metavar="GLOB",
        help="only runs of this name, such as 'lfdm/*dlc*'",
    )
    parser.add_argument(
        "--mutants",
        action="store_true",
        help=(
            "instead: change each parameter by 5 and 10 percent and count the runs that show "
            "it (2 minutes of processor time)"
        ),
    )
    parser.add_argument("--no-theory", action="store_true", help="skip the checks against theory")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "-o", "--output", metavar="HTML", help="write a page with the errors of every run"
    )
    parser.add_argument(
        "--plot-dir",
        metavar="DIR",
        help="plot every run into a PNG file in this folder (needs matplotlib)",
    )
    parser.add_argument(
        "--jobs",
        type=JOBS,
        default=1,
        metavar="N",
        help="number of parallel processes (default 1)",
    )
    parser.set_defaults(run=validate)


def validate(arguments: Namespace) -> int:
    """Validate, print and write the requested outputs. Return 0 if all targets are met, else 1.
    Raises :class:`SetupError`."""
    from vehicled.offline.twin import detection
    from vehicled.offline.twin.validation.mutants import detect
    from vehicled.offline.twin.validation.runner import Selection, run_all

    _check_outputs(arguments)
    progress = Progress()

    folder = Path(arguments.folder or DATA_FOLDER).expanduser()
    if arguments.folder is None and not folder.is_dir():
        raise SetupError(
            f"{folder}: folder not found; give a folder of reference runs, see "
            "docs/twin_validation.md"
        )
    selection = Selection(
        str(folder), arguments.vehicle or "", arguments.only or "", not arguments.no_theory
    )
    try:
        if arguments.mutants:
            return detection.show(
                detect(selection, jobs=arguments.jobs, progress=progress.update), arguments
            )
        validation = run_all(selection, jobs=arguments.jobs, progress=progress.update)
    finally:
        progress.close()
    if arguments.output:
        write_output(Path(arguments.output), render(validation))
    if arguments.plot_dir:
        plot_runs(validation, Path(arguments.plot_dir))
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(as_data(validation)), indent=2).decode())
    else:
        _show(validation)
        if arguments.output:
            print(f"page with every run: {arguments.output}")
    return 0 if validation.passed else 1


def as_data(validation: Validation) -> dict[str, Any]:
    """Return the validation for JSON, which writes missing numbers as null."""
    return {
        "passed": validation.passed,
        "headline": validation.headline(),
        "folder": validation.folder,
        "problems": validation.problems,
        "runs": [_run_data(run) for run in validation.comparisons],
        "failures": [
            {"run": failure.source.name, "reason": failure.reason}
            for failure in validation.failures
        ],
        "parameters": msgspec.to_builtins(validation.findings),
        "checks": msgspec.to_builtins(validation.checks),
        "provenance": msgspec.to_builtins(validation.provenance),
    }


def _run_data(run: RunComparison) -> dict[str, Any]:
    return {
        "run": run.source.name,
        "vehicle": run.source.twin,
        "passed": run.judgement.passed,
        "share_of_limit": run.judgement.share,
        "reasons": run.judgement.reasons,
        "kind": run.target.name,
        "errors_pct": run.errors,
        "limits_pct": run.limits,
        "judged_s": judged_s(run),
        "judged_to": run.judged.limit or "the end",
    }


def _check_outputs(arguments: Namespace) -> None:
    """Check the output files before the work."""
    if arguments.output:
        check_output("--output", Path(arguments.output))
    if arguments.plot_dir and arguments.mutants:
        raise SetupError("--mutants draws no runs; leave out --plot-dir, or write its page with -o")
    if arguments.plot_dir:
        folder = Path(arguments.plot_dir)
        if find_spec("matplotlib") is None:
            raise SetupError("--plot-dir needs matplotlib: pip install matplotlib")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SetupError(
                f"--plot-dir {folder}: cannot create it: {error.strerror}; choose another folder"
            ) from error


def _show(validation: Validation) -> None:
    rows = []
    for run in validation.comparisons:
        cells = [f"{value}\n/ {limit}" if limit else value for value, limit in errors_cells(run)]
        share = run.judgement.share
        part = (
            f"{100 * share:.0f}%"
            if isfinite(share)
            else "-"
            if run.judgement.passed is None
            else "beyond"
        )
        # A terminal has no room for a name of 40 characters beside eight figures.
        vehicle, _, manoeuvre = run.source.name.replace("/", "/\n").rpartition("__")
        rows.append(
            [
                f"{vehicle}\n{manoeuvre}" if vehicle else manoeuvre,
                _MARKS[run.judgement.passed],
                part,
                *cells,
            ]
        )
    if rows:
        heads = ["run", "passed", "of limit", *(name.replace(" ", "\n") for name in FIGURES)]
        print_table(
            "our model against the reference, worst first (RMS error / limit, percent)", heads, rows
        )
    _show_findings(validation.findings)
    _show_checks(validation.checks)
    for failure in validation.failures:
        print(f"not compared: {failure.source.name}: {failure.reason}", file=sys.stderr)
    for problem in validation.problems:
        print(f"note: {problem}", file=sys.stderr)
    print(("PASS: " if validation.passed else "FAIL: ") + validation.headline())


def _show_findings(findings: list[Finding]) -> None:
    rows = [
        [
            finding.group,
            finding.parameter,
            _MARKS[finding.passed],
            f"{finding.deviation_pct:+.1f}%",
            f"{finding.strength:.2f}",
        ]
        for finding in findings
        if finding.passed is not None
    ]
    if rows:
        heads = ["vehicle and model", "parameter", "passed", "estimate", "effect of 10 %"]
        print_table(
            (
                "all runs together: deviation of a parameter that explains them (effect in units "
                "of the limits)"
            ),
            heads,
            rows,
        )


def _show_checks(checks: list[TheoryCheck]) -> None:
    names = list(dict.fromkeys(check.name for check in checks))
    rows = []
    for name in names:
        of_name = [check for check in checks if check.name == name]
        failed = [check for check in of_name if check.passed is False]
        holds = sum(check.passed is True for check in of_name)
        wanted = next((check.wanted for check in of_name if check.passed is not None), "")
        rows.append([name, _MARKS[not failed], f"{holds} of {holds + len(failed)}", wanted])
        rows += [[f"  {check.vehicle}", "NO", "", check.found] for check in failed]
    if rows:
        print_table(
            "every vehicle against theory",
            ["check", "passed", "vehicles", "expected, or found"],
            rows,
        )


_REFERENCE, _OURS, _RESIDUAL = "#0b6e4f", "#d1495b", "#5a6673"


def plot_runs(validation: Validation, folder: Path) -> None:
    """Plot every run into ``folder``. Raises :class:`SetupError` if that fails."""
    for run in validation.comparisons:
        _plot(run, folder / f"{run.source.name.replace('/', '__')}.png")


def _plot(run: RunComparison, file: Path) -> None:
    reference, drive = run.reference, run.drive
    n = min(len(reference.t_s), len(drive.x_m))
    figure = new_figure(13, 8)
    grid = figure.add_gridspec(4, 3, width_ratios=(1.1, 1.2, 0.9))
    area = figure.add_subplot(grid[:, 0])
    area.plot(reference.x_m, reference.y_m, color=_REFERENCE, lw=2, label="reference")
    area.plot(drive.x_m, drive.y_m, color=_OURS, lw=1.2, ls="--", label="ours")
    area.set_aspect("equal", adjustable="datalim")
    area.set(xlabel="x (m)", ylabel="y (m)")
    area.legend(frameon=False)
    area.grid(alpha=0.25)
    quantities = (
        ("yaw rate (rad/s)", reference.yaw_rate_radps, drive.yaw_rate_radps, 1.0),
        ("lateral speed (m/s)", reference.vy_mps, drive.vy_mps, 1.0),
        ("speed (m/s)", reference.vx_mps, drive.vx_mps, 1.0),
        ("roll (deg)", reference.roll_rad, drive.roll_rad, degrees(1.0)),
    )
    for row, (label, theirs, ours, factor) in enumerate(quantities):
        values = figure.add_subplot(grid[row, 1])
        left = figure.add_subplot(grid[row, 2])
        if theirs is not None:
            values.plot(reference.t_s, theirs * factor, color=_REFERENCE, lw=2)
            left.plot(reference.t_s[:n], (ours[:n] - theirs[:n]) * factor, color=_RESIDUAL, lw=1)
        values.plot(reference.t_s[:n], ours[:n] * factor, color=_OURS, lw=1.2, ls="--")
        values.set(ylabel=label)
        left.set(title="ours minus reference" if row == 0 else "")
        values.grid(alpha=0.25)
        left.grid(alpha=0.25)
    verdict = {
        True: "within its target",
        False: "; ".join(run.judgement.reasons),
        None: "not judged",
    }[run.judgement.passed]
    figure.suptitle(f"{run.source.name}: {verdict}")
    save_figure(figure, file)
