"""Arguments of those ``vehicled log`` commands that compare, export and import."""

from argparse import _SubParsersAction

from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def log_commands(log: "_SubParsersAction[CommandParser]") -> None:
    """Add ``compare``, ``diff``, ``export`` and ``import``."""
    compare = log.add_parser(
        "compare",
        help="what became better or worse between runs, with confidence intervals",
        description="Compare an old run with a new one, or several old ones with several new ones (those after --against).",
        epilog="Exit status: 1 with --fail-on regression when a metric became worse; 2 the arguments cannot be used.",
    )
    compare.add_argument(
        "files", nargs="+", type=log_name, metavar="RUN", help="the old run and the new one, or with --against the old ones"
    )
    compare.add_argument("--against", nargs="+", type=log_name, metavar="RUN", default=[], help="the new runs, which are judged")
    compare.add_argument("--fail-on", choices=("regression",), help="exit with status 1 when there is one")
    compare.add_argument(
        "--threshold", type=_percent, default=0.05, metavar="PERCENT", help="a smaller change is noise (default 5)"
    )
    compare.add_argument("--seed", type=int, default=1, metavar="N", help="seed of the resampling (default 1)")
    compare.add_argument("--all", action="store_true", help="show every metric, not only what changed and what matters most")
    compare.add_argument("--json", action="store_true", help="print JSON with every metric")
    compare.set_defaults(run="vehicled.cli.log:compare")

    diff = log.add_parser(
        "diff",
        help="the first difference of each topic, and what the runs were told differently",
        epilog="Exit status: 0 every message is equal, 1 one differs.",
    )
    diff.add_argument("a", type=log_name, metavar="RUN_A")
    diff.add_argument("b", type=log_name, metavar="RUN_B")
    diff.add_argument("--topic", action="append", default=[], metavar="T", help="only this one, as state_estimate; repeatable")
    diff.add_argument("--json", action="store_true", help="print JSON")
    diff.set_defaults(run="vehicled.cli.log:diff")

    export = log.add_parser("export", help="a log for other tools: CSV, Parquet, GPX, GeoJSON, KML, a rosbag2 folder")
    export.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    export.add_argument("--to", required=True, choices=("csv", "parquet", "gpx", "geojson", "kml", "rosbag2"), help="format")
    export.add_argument("-o", "--output", required=True, metavar="OUT", help="file, or folder of csv, parquet and rosbag2")
    export.add_argument("--topic", action="append", default=[], metavar="T", help="only this one; repeatable")
    export.add_argument(
        "--rate",
        type=float,
        metavar="HZ",
        help="csv, parquet: one table of all topics, last values held; tracks: points per second",
    )
    export.set_defaults(run="vehicled.cli.log:export")

    foreign = log.add_parser(
        "import",
        help="a log of ours from a ROS bag, CSV, a u-blox capture, an ArduPilot or a PX4 log",
        description="Make a log of ours from someone else's, so that estimators, reports and `bench recorded` take it.",
    )
    foreign.add_argument("source", metavar="FILE|DIR")
    foreign.add_argument("-o", "--output", required=True, metavar="OUT.mcap")
    foreign.add_argument("--map", metavar="MAP.toml", help="what the columns of CSV files are (docs/logs.md)")
    foreign.add_argument("--profile", default="art", metavar="P", help="profile that is believed of the vehicle (default art)")
    foreign.add_argument(
        "--format", choices=("rosbag", "csv", "ublox", "ardupilot", "px4"), help="what it is (default: by its content)"
    )
    foreign.set_defaults(run="vehicled.cli.log:import_")


def _percent(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1000.0:
        raise ValueError(text)
    return value / 100.0


_percent.__name__ = "share in percent, from 0 on"
