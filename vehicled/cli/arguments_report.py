"""Arguments of the ``vehicled log`` commands that draw."""

from argparse import _SubParsersAction

from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def report_commands(log: "_SubParsersAction[CommandParser]") -> None:
    """Add ``report`` and ``plot``."""
    report = log.add_parser(
        "report",
        help="write a one-page report: verdict, deadlines, errors, commands, map",
        description="Write one HTML page that needs neither network nor script: result, reason of the stop, deadlines "
        "and all signals over one time axis. Suits screens, phones and paper.",
    )
    report.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    report.add_argument("-o", "--output", metavar="FILE", help="output file (default: beside the log, RUN.html)")
    report.set_defaults(run="vehicled.cli.log:report")

    plot = log.add_parser("plot", help="plot fields over time (needs matplotlib)")
    plot.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    plot.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T.FIELD",
        help="field to plot, such as state_estimate.speed_mps; repeatable",
    )
    plot.add_argument("-o", "--output", metavar="FILE", help="output file: .png, .svg or .pdf (default: beside the log, RUN.png)")
    plot.set_defaults(run="vehicled.cli.log:plot")
