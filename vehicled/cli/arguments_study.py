"""Arguments of ``vehicled study``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import whole
from vehicled.cli.parser import CommandParser

_jobs = whole(1, 1024, "expected a whole number from 1 to 1024")


def study_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``study``."""
    study = commands.add_parser(
        "study",
        help="drive many simulations from one file, and report effects with intervals",
        description="Drive every combination of the factors in a study file, in parallel. A second call drives what is missing.",
        examples=(
            "vehicled study my_study.toml      drive all runs, write the report",
            "vehicled study my_study.toml --on dask://host:8786",
            "vehicled study report study_my_study --figure effect.pdf --x rate",
            "vehicled study list               studies that ship with vehicled",
        ),
        epilog="'vehicled study FILE' is short for 'vehicled study run FILE'. Exit status: 0 every run was driven; 1 a run was "
        "refused or its process died, or a metric failed; 130 interrupted. See docs/studies.md.",
    )
    study.implied = "run"
    verbs = study.add_subparsers(dest="study_command", metavar="COMMAND", required=True)
    run = verbs.add_parser("run", help="drive what is missing of a study, and write its report")
    run.add_argument("study", metavar="FILE", help="study file, or the name of a shipped study")
    run.add_argument("--output", metavar="DIR", help="folder of the results (default: ./study_NAME)")
    run.add_argument("--jobs", type=_jobs, metavar="N", help="processes on this computer (default: one per core)")
    run.add_argument("--on", metavar="WHERE", help="drive on a Dask cluster: dask://HOST:PORT, or its scheduler file")
    run.add_argument(
        "--extend", action="store_true", help="the study or the software changed: keep the runs that still belong, drive the others"
    )
    run.add_argument("--quiet", action="store_true", help="no progress line")
    run.set_defaults(run="vehicled.cli.study:run")

    report = verbs.add_parser("report", help="write the report of a study, or a figure for a paper")
    report.add_argument("folder", metavar="DIR", help="folder of the results")
    report.add_argument("-o", "--output", metavar="FILE", help="page to write (default: report.html in the folder)")
    report.add_argument("--published", metavar="FILE", help="published runs to draw beside the study's (study low_rate)")
    report.add_argument("--figure", metavar="FILE", help="write a figure instead (.pdf, .svg, .png; needs matplotlib)")
    report.add_argument("--metric", action="append", default=[], metavar="NAME", help="metric of the figure; repeatable")
    report.add_argument("--x", metavar="FACTOR", help="factor along the axis of the figure (default: the first numeric one)")
    report.add_argument("--lines", metavar="FACTOR", help="factor with a line for each level in the figure")
    report.set_defaults(run="vehicled.cli.study:report")

    export = verbs.add_parser("export", help="write the table of a study as CSV or Parquet")
    export.add_argument("folder", metavar="DIR", help="folder of the results")
    export.add_argument("-o", "--output", metavar="FILE", required=True, help="file to write: .csv, or .parquet (needs pyarrow)")
    export.set_defaults(run="vehicled.cli.study:export")

    listing = verbs.add_parser("list", help="list the studies that ship with vehicled")
    listing.set_defaults(run="vehicled.cli.study:list_studies")
