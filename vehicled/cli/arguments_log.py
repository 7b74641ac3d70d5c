"""Arguments of the ``vehicled log`` commands that compare, convert and draw."""

from argparse import _SubParsersAction

from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def log_commands(log: "_SubParsersAction[CommandParser]") -> None:
    """Add ``compare``, ``export``, ``extract``, ``import``, ``report`` and ``plot``."""
    compare = log.add_parser(
        "compare",
        help="compare the metrics of runs, with confidence intervals",
        description="Compare an old run with a new one, or several old runs with several new ones (after --against). "
        "With --messages, show the first difference of each topic of two runs and of their configuration instead.",
        epilog="Exit status: 1 with --fail-on regression if a metric became worse, or with --messages if a message differs; "
        "2 invalid arguments.",
    )
    compare.add_argument(
        "files", nargs="+", type=log_name, metavar="RUN", help="the old run and the new one, or with --against the old ones"
    )
    compare.add_argument("--against", nargs="+", type=log_name, metavar="RUN", default=[], help="new runs")
    compare.add_argument("--fail-on", choices=("regression",), help="exit with status 1 if a metric became worse")
    compare.add_argument("--threshold", type=_percent, default=0.05, metavar="PERCENT", help="ignore smaller changes (default 5)")
    compare.add_argument("--seed", type=int, default=1, metavar="N", help="random seed of the bootstrap (default 1)")
    compare.add_argument("--messages", action="store_true", help="compare the messages of two runs, not their metrics")
    compare.add_argument(
        "--topic",
        action="append",
        default=[],
        metavar="T",
        help="with --messages: only this topic, as state_estimate; repeatable",
    )
    compare.add_argument("--all", action="store_true", help="show every metric, not only the changed and the most important ones")
    compare.add_argument("--json", action="store_true", help="print JSON with every metric")
    compare.set_defaults(run="vehicled.cli.log:compare")

    export = log.add_parser("export", help="convert a log for other tools: CSV, Parquet, GPX, GeoJSON, KML, a rosbag2 folder")
    export.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    export.add_argument("--to", required=True, choices=("csv", "parquet", "gpx", "geojson", "kml", "rosbag2"), help="format")
    export.add_argument("-o", "--output", required=True, metavar="OUT", help="output file; a folder for csv, parquet and rosbag2")
    export.add_argument("--topic", action="append", default=[], metavar="T", help="only this topic; repeatable")
    export.add_argument(
        "--rate",
        type=float,
        metavar="HZ",
        help="csv, parquet: one table of all topics at this rate, last values held; tracks: points per second",
    )
    export.set_defaults(run="vehicled.cli.log:export")

    extract = log.add_parser(
        "extract",
        help="give the profile, course, plugins and scene of a run back as files",
        description="Write the files that a run was built from into a new folder: the profile, which then names the others, the "
        "course point by point, the fence, plugins, and what the simulated world was read from. Nothing is overwritten or run.",
    )
    extract.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    extract.add_argument("-o", "--output", metavar="DIR", help="new folder (default: beside the log, RUN_files)")
    extract.set_defaults(run="vehicled.cli.log:extract")

    foreign = log.add_parser(
        "import",
        help="convert a ROS bag, CSV, a u-blox capture, an ArduPilot or a PX4 log into a vehicled log",
        description="Convert another tool's recording into a vehicled log for estimators, reports and `bench recorded`.",
    )
    foreign.add_argument("source", metavar="FILE|DIR", help="recording of another tool")
    foreign.add_argument("-o", "--output", required=True, metavar="OUT.mcap", help="log to write")
    foreign.add_argument("--map", metavar="MAP.toml", help="meaning of the columns of CSV files (docs/logs.md)")
    foreign.add_argument("--profile", default="art_published", metavar="P", help="profile of the vehicle (default art_published)")
    foreign.add_argument(
        "--format", choices=("rosbag", "csv", "ublox", "ardupilot", "px4"), help="format (default: detected from the content)"
    )
    foreign.set_defaults(run="vehicled.cli.log:import_")

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


def _percent(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1000.0:
        raise ValueError(text)
    return value / 100.0


_percent.__name__ = "percentage from 0 up"
