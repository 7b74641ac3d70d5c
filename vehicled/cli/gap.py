"""Command ``vehicled gap``."""

import csv
import io
import os
from argparse import Namespace
from pathlib import Path

import msgspec

from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.gap import Gap, describe, gap
from vehicled.offline.gap.quantities import PUBLISHED
from vehicled.offline.gap.runs import JudgingTask
from vehicled.offline.recordings.loading import KIND
from vehicled.offline.studies.logs import expanded, grouped
from vehicled.run.argument_types import ESTIMATOR, JOBS, KEY, PROFILE, TEXT
from vehicled.run.command_line import CommandParser
from vehicled.run.output import check_output, check_plot_file, write_output
from vehicled.run.terminal import Progress, print_table


def declare_gap(parser: CommandParser) -> None:
    """Run a state estimator, the judge, over real and simulated runs, and compare the distributions
    of its errors: VEPD with bootstrap intervals, the noise floor of the real runs among themselves,
    and a test.
    """
    parser.describe(
        examples=(
            "vehicled gap --real drives/ --sim study_model/logs",
            "vehicled gap --real drives/ --sim gauss=a/ --sim walk=b/ --plot gap.png",
            "vehicled gap --real bags/ --sim logs/ --judge planar --manoeuvre circle",
            "vehicled gap --real drives/ --sim study_model --by sim.gnss.model",
        ),
        epilog="Runs are logs of ours, ROS 1 and 2 bags, CSV files. Exit status: 0 no set of "
        "simulated runs differs from the real "
        "ones at 5 %; 1 at least one does; 2 invalid arguments, or nothing could be compared. "
        "See docs/gap.md.",
    )
    parser.add_argument(
        "--real",
        action="append",
        nargs="+",
        required=True,
        metavar="DIR",
        help="real runs: files and folders, as for --sim",
    )
    parser.add_argument(
        "--sim",
        action="append",
        nargs="+",
        required=True,
        metavar="[LABEL=]DIR",
        help="simulated runs: files and folders, a folder of a study with STUDY:FACTOR=LEVEL for "
        "a part of its runs; "
        "repeat it for several models (label: the name of the folder)",
    )
    parser.add_argument(
        "--by",
        type=TEXT,
        default="",
        metavar="FACTOR",
        help=(
            "factor of the studies that --sim names: one set of simulated runs for each of its "
            "levels"
        ),
    )
    parser.add_argument(
        "--judge",
        type=ESTIMATOR,
        default="ekf4",
        metavar="NAME",
        help=(
            "state estimator that judges: ekf4 (default), planar, ins, "
            "robot_localization=FILE.yaml, or a plugin FILE.py:NAME"
        ),
    )
    parser.add_argument(
        "--set",
        type=KEY,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="override a parameter of the judge; repeatable",
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="",
        metavar="P",
        help="profile of the vehicle in all runs (default: of each run its own)",
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
        "--map",
        default="",
        metavar="FILE",
        help="mapping that says what the columns of CSV files are: docs/logs.md",
    )
    parser.add_argument(
        "--manoeuvre",
        type=TEXT,
        action="append",
        default=[],
        metavar="NAME[=PATTERN]",
        help=(
            "manoeuvre of the runs with this in their path or course; repeatable (default: the "
            "folder, else the log's course)"
        ),
    )
    parser.add_argument(
        "--quantity",
        type=TEXT,
        action="append",
        default=[],
        metavar="NAME",
        help="quantity to compare: E, S (default: both), position, heading, nis; repeatable",
    )
    parser.add_argument(
        "--distance",
        choices=("wasserstein", "energy", "mmd"),
        default="wasserstein",
        help="distance of two distributions",
    )
    parser.add_argument("--jobs", type=JOBS, metavar="N", help="processes (default: one per core)")
    parser.add_argument(
        "--plot",
        metavar="FILE",
        help="draw quantiles of simulated against real runs (.png, .svg, .pdf)",
    )
    parser.add_argument(
        "--histograms",
        metavar="FILE",
        help="draw histograms of the quantities by manoeuvre (.png, .svg, .pdf)",
    )
    parser.add_argument(
        "--speeds",
        metavar="FILE",
        help="draw speed of the judge and true speed of each set (.png, .svg, .pdf)",
    )
    parser.add_argument("--runs", metavar="FILE", help="write the quantities of every run as CSV")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress line")
    parser.set_defaults(run=run)


def run(arguments: Namespace) -> int:
    """Judge and compare; print table, verdicts and notes."""
    pictures = {
        "--plot": arguments.plot,
        "--histograms": arguments.histograms,
        "--speeds": arguments.speeds,
    }
    for option, file in pictures.items():
        if file:
            check_plot_file(Path(file), option)
    if arguments.runs:
        check_output("--runs", Path(arguments.runs))
    task = JudgingTask(
        judge=arguments.judge,
        overrides=tuple(arguments.set),
        profile=arguments.profile,
        kinds=tuple(arguments.kind),
        mapping=arguments.map,
        manoeuvres=tuple(arguments.manoeuvre),
    )
    line = Progress()
    found = gap(
        expanded([path for paths in arguments.real for path in paths]),
        _by_level(arguments.sim, arguments.by) if arguments.by else _labelled(arguments.sim),
        task,
        quantities=tuple(dict.fromkeys(arguments.quantity)) or PUBLISHED,
        distance=arguments.distance,
        jobs=arguments.jobs or os.cpu_count() or 1,
        progress=(lambda text: None) if arguments.quiet else line.update,
    )
    line.close()
    for file, draw in zip(
        pictures.values(), (found.plot, found.plot_histograms, found.plot_speeds), strict=True
    ):
        if file:
            draw(file)
    if arguments.runs:
        write_output(Path(arguments.runs), _csv(found))
    if arguments.json:
        print(msgspec.json.encode(_summary(found)).decode())
    else:
        _print(found, list(filter(None, pictures.values())))
    if all(model.different is None for model in found.models):
        return 2
    return int(any(model.different for model in found.models))


def _labelled(options: list[list[str]]) -> dict[str, list[str]]:
    """Return the files and folders of each model by its label. Raises :class:`GapError` for a label
    that is used twice."""
    found: dict[str, list[str]] = {}
    for paths in options:
        label, equals, first = paths[0].partition("=")
        if not equals or ":" in label or os.path.exists(paths[0]):
            label, first = Path(paths[0]).resolve().stem, paths[0]
        if label in found or label == "real":
            raise GapError(
                f"--sim {paths[0]}: the label {label!r} is taken; write --sim ANOTHER={first}"
            )
        found[label] = expanded([first, *paths[1:]])
    return found


def _by_level(options: list[list[str]], factor: str) -> dict[str, list[str]]:
    """Return the logs of each level of a factor."""
    return grouped([path for paths in options for path in paths], factor)


def _print(found: Gap, pictures: list[str]) -> None:
    if any(model.manoeuvres for model in found.models):
        print_table(
            f"Judge {found.judge}: simulated against {len(found.real.runs)} real runs",
            *found.table(),
        )
        print("\n".join(describe(found.quantities)))
        print(
            f"{found.name}: mean of the distances. floor: median distance between random "
            "halves of the real runs."
        )
    print(found.text(), end="")
    for file in pictures:
        print(f"picture: {file}")


def _csv(found: Gap) -> str:
    rows = found.rows()
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else ["set", "run"], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


def _summary(found: Gap) -> dict[str, object]:
    return {
        "judge": found.judge,
        "distance": found.distance,
        "quantities": found.quantities,
        "real_runs": len(found.real.runs),
        "ranks": found.ranks(),
        "notes": found.notes,
        "models": {
            model.simulated.label: {
                "verdict": model.verdict,
                "different": model.different,
                "comparisons": model.manoeuvres,
                "notes": model.notes,
            }
            for model in found.models
        },
    }
