"""Arguments of ``vehicled gap``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import whole
from vehicled.cli.parser import CommandParser

_jobs = whole(1, 1024, "expected a whole number from 1 to 1024")


def gap_command(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``gap``."""
    gap = commands.add_parser(
        "gap",
        help="measure how far simulated runs are from real ones, with a noise floor and a verdict",
        description="Run a state estimator, the judge, over real and simulated runs, and compare the distributions of its errors: "
        "VEPD with bootstrap intervals, the noise floor of the real runs among themselves, and a test.",
        examples=(
            "vehicled gap --real drives/ --sim study_model/logs",
            "vehicled gap --real drives/ --sim gauss=a/ --sim walk=b/ --plot gap.png",
            "vehicled gap --real bags/ --sim logs/ --judge planar --manoeuvre circle",
            "vehicled gap --real drives/ --sim study_model --by sim.gnss.model",
        ),
        epilog="Runs are logs of ours, ROS 1 and 2 bags, CSV files. Exit status: 0 no set of simulated runs differs from the real "
        "ones at 5 %; 1 at least one does; 2 invalid arguments, or nothing could be compared. See docs/gap.md.",
    )
    gap.add_argument(
        "--real", action="append", nargs="+", required=True, metavar="DIR", help="real runs: files and folders, as for --sim"
    )
    gap.add_argument(
        "--sim",
        action="append",
        nargs="+",
        required=True,
        metavar="[LABEL=]DIR",
        help="simulated runs: files and folders, a folder of a study with STUDY:FACTOR=LEVEL for a part of its runs; "
        "repeat it for several models (label: the name of the folder)",
    )
    gap.add_argument(
        "--by",
        default="",
        metavar="FACTOR",
        help="factor of the studies that --sim names: one set of simulated runs for each of its levels",
    )
    gap.add_argument(
        "--judge",
        default="ekf4",
        metavar="NAME",
        help="state estimator that judges: ekf4 (default), planar, ins, robot_localization=FILE.yaml, or a plugin FILE.py:NAME",
    )
    gap.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="override a parameter of the judge; repeatable"
    )
    gap.add_argument("--profile", default="", metavar="P", help="profile of the vehicle in all runs (default: of each run its own)")
    gap.add_argument("--kind", action="append", default=[], metavar="KIND", help="kind of recording to read; repeatable")
    gap.add_argument("--map", default="", metavar="FILE", help="mapping that says what the columns of CSV files are: docs/logs.md")
    gap.add_argument(
        "--manoeuvre",
        action="append",
        default=[],
        metavar="NAME[=PATTERN]",
        help="manoeuvre of the runs with this in their path or course; repeatable (default: the folder, else the log's course)",
    )
    gap.add_argument(
        "--quantity",
        action="append",
        default=[],
        metavar="NAME",
        help="quantity to compare: E, S (default: both), position, heading, nis; repeatable",
    )
    gap.add_argument(
        "--distance", choices=("wasserstein", "energy", "mmd"), default="wasserstein", help="distance of two distributions"
    )
    gap.add_argument("--jobs", type=_jobs, metavar="N", help="processes (default: one per core)")
    gap.add_argument("--plot", metavar="FILE", help="draw quantiles of simulated against real runs (.png, .svg, .pdf)")
    gap.add_argument("--histograms", metavar="FILE", help="draw histograms of the quantities by manoeuvre (.png, .svg, .pdf)")
    gap.add_argument("--speeds", metavar="FILE", help="draw speed of the judge and true speed of each set (.png, .svg, .pdf)")
    gap.add_argument("--runs", metavar="FILE", help="write the quantities of every run as CSV")
    gap.add_argument("--json", action="store_true", help="print the result as JSON")
    gap.add_argument("--quiet", action="store_true", help="no progress line")
    gap.set_defaults(run="vehicled.cli.gap:run")
