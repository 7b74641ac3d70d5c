"""Arguments of those ``vehicled log`` commands that draw."""

from argparse import _SubParsersAction

from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def report_commands(log: "_SubParsersAction[CommandParser]") -> None:
    """Add ``report`` and ``plot``."""
    report = log.add_parser(
        "report",
        help="one page of everything: verdict, deadlines, errors, commands, map",
        description="Write one HTML page that needs neither network nor script: did it finish, why did it stop, were the budgets "
        "kept, and everything over one axis of time. For screen, phone and paper.",
    )
    report.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    report.add_argument("-o", "--output", metavar="FILE", help="the page (default: beside the log, RUN.html)")
    report.set_defaults(run="vehicled.cli.log:report")

    plot = log.add_parser("plot", help="draw fields over time (needs matplotlib)")
    plot.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    plot.add_argument(
        "--topic", action="append", default=[], metavar="T.FIELD", help="what to draw, as state_estimate.speed_mps; repeatable"
    )
    plot.add_argument("-o", "--output", metavar="FILE", help="picture: .png, .svg or .pdf (default: beside the log, RUN.png)")
    plot.set_defaults(run="vehicled.cli.log:plot")
