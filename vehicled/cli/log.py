"""Commands ``vehicled log info | timing | cat | recover | compare | export | extract | import |
report | plot``."""

import shlex
import sys
from argparse import Namespace

from vehicled.log.errors import LogError
from vehicled.run.argument_types import LOG, PROFILE, TOPIC
from vehicled.run.command_line import CommandParser
from vehicled.run.log_names import LOG_HELP

DAMAGE_LINES = 10


def declare_log(parser: CommandParser) -> None:
    """Examine logs. Name a log by its file, by latest (latest:2 is the one before), or by the
    beginning of its name."""
    parser.describe(
        examples=(
            "vehicled log report latest",
            "vehicled log compare latest:2 latest",
            "vehicled log export latest --to csv -o out",
        )
    )


def declare_log_info(parser: CommandParser) -> None:
    """Summary of a log: run, topics, message counts."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=info)


def declare_log_timing(parser: CommandParser) -> None:
    """Lateness, response time, deadline misses and their causes, per task."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.describe(
        epilog=(
            "Exit status: 0 all budgets of the profile were kept; 1 one was exceeded; 2 the "
            "log cannot be read."
        ),
    )
    parser.add_argument(
        "--all", action="store_true", help="list each missed deadline, also if they are many"
    )
    parser.set_defaults(run=timing)


def declare_log_cat(parser: CommandParser) -> None:
    """Print the messages as JSON lines."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "--topic",
        type=TOPIC,
        action="append",
        default=[],
        metavar="T",
        help="only this topic, such as state_estimate; repeatable",
    )
    parser.add_argument(
        "--from",
        dest="start",
        type=float,
        metavar="S",
        help="start at this time since the start of the run",
    )
    parser.add_argument(
        "--to",
        dest="stop",
        type=float,
        metavar="S",
        help="stop at this time since the start of the run",
    )
    parser.add_argument("--limit", type=int, metavar="N", help="print at most N lines")
    parser.set_defaults(run=cat)


def declare_log_recover(parser: CommandParser) -> None:
    """Repair the log of a run that ended in a crash or power failure."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.describe(
        epilog=(
            "Exit status: 0 nothing was lost; 1 the repaired log lacks something; 2 the log "
            "cannot be read."
        ),
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="repaired file (default RUN_recovered.mcap)"
    )
    parser.set_defaults(run=recover)


def declare_log_compare(parser: CommandParser) -> None:
    """Compare an old run with a new one, or several old runs with several new ones (after
    --against). With --messages, show the first difference of each topic of two runs and of their
    configuration instead.
    """
    parser.describe(
        epilog="Exit status: 1 with --fail-on regression if a metric became worse, or with "
        "--messages if a message differs; "
        "2 invalid arguments."
    )
    parser.add_argument(
        "files",
        nargs="+",
        type=LOG,
        metavar="RUN",
        help="the old run and the new one, or with --against the old ones",
    )
    parser.add_argument(
        "--against", nargs="+", type=LOG, metavar="RUN", default=[], help="new runs"
    )
    parser.add_argument(
        "--fail-on", choices=("regression",), help="exit with status 1 if a metric became worse"
    )
    parser.add_argument(
        "--threshold",
        type=_percent,
        default=0.05,
        metavar="PERCENT",
        help="ignore smaller changes (default 5)",
    )
    parser.add_argument(
        "--seed", type=int, default=1, metavar="N", help="random seed of the bootstrap (default 1)"
    )
    parser.add_argument(
        "--messages",
        action="store_true",
        help="compare the messages of two runs, not their metrics",
    )
    parser.add_argument(
        "--topic",
        type=TOPIC,
        action="append",
        default=[],
        metavar="T",
        help="with --messages: only this topic, as state_estimate; repeatable",
    )
    parser.add_argument(
        "--all",
        action="store_true",
        help="show every metric, not only the changed and the most important ones",
    )
    parser.add_argument("--json", action="store_true", help="print JSON with every metric")
    parser.set_defaults(run=compare)


def declare_log_export(parser: CommandParser) -> None:
    """Convert a log for other tools: CSV, Parquet, GPX, GeoJSON, KML, a rosbag2 folder."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "--to",
        required=True,
        choices=("csv", "parquet", "gpx", "geojson", "kml", "rosbag2"),
        help="format",
    )
    parser.add_argument(
        "-o",
        "--output",
        required=True,
        metavar="OUT",
        help="output file; a folder for csv, parquet and rosbag2",
    )
    parser.add_argument(
        "--topic",
        type=TOPIC,
        action="append",
        default=[],
        metavar="T",
        help="only this topic; repeatable",
    )
    parser.add_argument(
        "--rate",
        type=float,
        metavar="HZ",
        help=(
            "csv, parquet: one table of all topics at this rate, last values held; tracks: "
            "points per second"
        ),
    )
    parser.set_defaults(run=export)


def declare_log_extract(parser: CommandParser) -> None:
    """Write the files that a run was built from into a new folder: the profile, which then names
    the others, the course point by point, the fence, plugins, and what the simulated world was read
    from. Nothing is overwritten or run.
    """
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "-o", "--output", metavar="DIR", help="new folder (default: beside the log, RUN_files)"
    )
    parser.set_defaults(run=extract)


def declare_log_import(parser: CommandParser) -> None:
    """Convert another tool's recording into a vehicled log for estimators, reports and `bench
    recorded`."""
    parser.add_argument("source", metavar="FILE|DIR", help="recording of another tool")
    parser.add_argument("-o", "--output", required=True, metavar="OUT.mcap", help="log to write")
    parser.add_argument(
        "--map", metavar="MAP.toml", help="meaning of the columns of CSV files (docs/logs.md)"
    )
    parser.add_argument(
        "--profile",
        type=PROFILE,
        default="art_published",
        metavar="P",
        help="profile of the vehicle (default art_published)",
    )
    parser.add_argument(
        "--format",
        choices=("rosbag", "csv", "ublox", "ardupilot", "px4"),
        help="format (default: detected from the content)",
    )
    parser.set_defaults(run=import_)


def declare_log_report(parser: CommandParser) -> None:
    """Write one HTML page that needs neither network nor script: result, reason of the stop,
    deadlines and all signals over one time axis. Suits screens, phones and paper.
    """
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="output file (default: beside the log, RUN.html)"
    )
    parser.set_defaults(run=report)


def declare_log_plot(parser: CommandParser) -> None:
    """Plot fields over time (needs matplotlib)."""
    parser.add_argument("file", type=LOG, metavar="RUN", help=LOG_HELP)
    parser.add_argument(
        "--topic",
        type=TOPIC,
        action="append",
        default=[],
        metavar="T.FIELD",
        help="field to plot, such as state_estimate.speed_mps; repeatable",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="output file: .png, .svg or .pdf (default: beside the log, RUN.png)",
    )
    parser.set_defaults(run=plot)


def _percent(text: str) -> float:
    value = float(text)
    if not 0.0 <= value <= 1000.0:
        raise ValueError(text)
    return value / 100.0


_percent.__name__ = "percentage from 0 up"


def info(arguments: Namespace) -> int:
    """Print a summary of a log."""
    from vehicled.log.info import info

    found = info(arguments.file)
    print(found.to_json() if arguments.json else found.to_text())
    return 0


def timing(arguments: Namespace) -> int:
    """Print the timing of the tasks; status 1 if a budget is exceeded."""
    from vehicled.offline.analysis.timing import timing

    found = timing(arguments.file)
    print(
        found.to_json(every=arguments.all) if arguments.json else found.to_text(every=arguments.all)
    )
    for line in found.exceeded:
        print(f"budget exceeded: {line}", file=sys.stderr)
    return _status([arguments.file], bad=bool(found.exceeded))


def cat(arguments: Namespace) -> int:
    """Print the messages as JSON lines."""
    from vehicled.log.cat import lines

    for line in lines(
        arguments.file,
        arguments.topic,
        start_s=arguments.start,
        stop_s=arguments.stop,
        limit=arguments.limit,
    ):
        print(line)
    return 0


def recover(arguments: Namespace) -> int:
    """Repair a log into a new file. Status 1 if data was lost."""
    from vehicled.log.recover import recover

    report = recover(arguments.file, arguments.output)
    print(report.to_text())
    return 1 if report.loses else 0


def compare(arguments: Namespace) -> int:
    """Compare the metrics of runs, or the messages of two; status 1 if one became worse, or
    differs."""
    from vehicled.offline.analysis.compare.comparison import compare

    old, new = arguments.files, arguments.against
    if not new:
        if len(old) != 2:
            raise LogError("give an old and a new run, or several of each: A1 A2 --against B1 B2")
        old, new = old[:1], old[1:]
    if arguments.topic and not arguments.messages:
        raise LogError("--topic needs --messages")
    if arguments.messages:
        return _compare_messages(old, new, arguments)
    found = compare(old, new, seed=arguments.seed, threshold=arguments.threshold)
    print(found.to_json() if arguments.json else found.to_text(every=arguments.all))
    return _status([*old, *new], bad=bool(arguments.fail_on and found.count("regression")))


def _compare_messages(old: list[str], new: list[str], arguments: Namespace) -> int:
    """Print the first difference of each topic; status 1 if any."""
    from vehicled.offline.analysis.compare.messages import compare_messages

    if len(old) + len(new) != 2:
        raise LogError("--messages compares exactly two runs")
    found = compare_messages(old[0], new[0], tuple(arguments.topic))
    print(found.to_json() if arguments.json else found.to_text())
    return _status([*old, *new], bad=not found.same)


def export(arguments: Namespace) -> int:
    """Export a log into another format."""
    from vehicled.offline.analysis.export.exporting import export

    done = export(
        arguments.file,
        arguments.to,
        arguments.output,
        topics=arguments.topic,
        rate_hz=arguments.rate,
    )
    print(done.to_text())
    return _status([arguments.file])


def extract(arguments: Namespace) -> int:
    """Write the files that a run was built from into a folder."""
    from vehicled.offline.replay.extraction import extract

    done = extract(arguments.file, arguments.output or _beside(arguments.file, "_files"))
    print(done.to_text())
    again = f"vehicled sim --like {shlex.quote(arguments.file)}"
    if done.course:
        print(
            f"to drive the same again: {again}; with changed files: vehicled sim --profile "
            f"{shlex.quote(done.profile)}"
        )
    return 0


def import_(arguments: Namespace) -> int:
    """Convert a foreign log into a vehicled log."""
    from vehicled.offline.recordings.foreign.importing import import_log

    done = import_log(
        arguments.source,
        arguments.output,
        mapping=arguments.map,
        profile=arguments.profile,
        format_name=arguments.format,
    )
    print(done.to_text())
    return 0


def report(arguments: Namespace) -> int:
    """Write a one-page report of a run."""
    from vehicled.offline.analysis.report.page import write_report

    output = arguments.output or _beside(arguments.file, ".html")
    judged = write_report(arguments.file, output)
    print(judged.headline)
    print(output)
    return _status([arguments.file])


def plot(arguments: Namespace) -> int:
    """Plot fields over time."""
    from vehicled.offline.analysis.plot import plot

    output = arguments.output or _beside(arguments.file, ".png")
    plot(arguments.file, arguments.topic, output)
    print(output)
    return _status([arguments.file])


def _status(runs: list[str], *, bad: bool = False) -> int:
    """Return 1 if something is bad or a log is damaged, else 0. Print the damage: what was said is
    of the intact rest."""
    from vehicled.log.damage import damage_of
    from vehicled.log.reader import run_parts

    damage = [each for run in dict.fromkeys(runs) for each in damage_of(run_parts(run))]
    for each in damage[:DAMAGE_LINES]:
        print(f"vehicled: damaged: {each}", file=sys.stderr)
    if len(damage) > DAMAGE_LINES:
        print(
            f"vehicled: ... and {len(damage) - DAMAGE_LINES} more damaged places", file=sys.stderr
        )
    if damage:
        print(
            (
                "vehicled: what was printed is of the intact rest; `vehicled log recover` saves it "
                "into a new file"
            ),
            file=sys.stderr,
        )
    return 1 if bad or damage else 0


def _beside(file: str, ending: str) -> str:
    return file.removesuffix(".mcap") + ending
