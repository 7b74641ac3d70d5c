"""Arguments of ``vehicled sensors``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import whole
from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser

_runs = whole(1, 1000, "expected a number of runs from 1 to 1000")
_seed = whole(0, 2**32, "expected a whole number from 0 to 2^32")


def sensors_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the group ``sensors``."""
    sensors = commands.add_parser(
        "sensors", help="fit sensor models to recordings, simulate a sensor in them, check a reference system"
    ).add_subparsers(dest="sensors_command", metavar="COMMAND", required=True)
    fit = sensors.add_parser(
        "fit",
        help="fit the models of a GNSS receiver and an inertial unit to recordings",
        description="Fit the receiver to the errors of its positions, against the truth of a drive or at standstill, and the "
        "inertial unit to the Allan deviation at standstill. Write the numbers into a profile.",
        examples=(
            "vehicled sensors fit still.mcap -o mine.toml --plot fit.png",
            "vehicled sensors fit drives/ --sensor gnss --kind plain",
            "vehicled sensors fit still.csv --map columns.toml",
        ),
        epilog="Exit status: 0 fitted; 2 invalid arguments, or the recordings show nothing of either sensor. See docs/sensors.md.",
    )
    _files(fit)
    fit.add_argument(
        "--sensor", action="append", choices=("gnss", "imu"), default=[], help="fit only this one; repeatable (default: what shows)"
    )
    fit.add_argument("--map", default="", metavar="FILE", help="mapping that says what the columns of CSV files are: docs/logs.md")
    fit.add_argument("--profile", default="art", metavar="P", help="profile into which the numbers are written (default art)")
    fit.add_argument("-o", "--output", metavar="TOML", help="write the profile with the fitted sensors (default: print tables)")
    fit.add_argument("--errors", metavar="CSV", help="write the errors of the positions, for sim.gnss.model = replayed")
    fit.add_argument("--plot", metavar="FILE", help="draw measured and fitted deviations (.png, .svg, .pdf)")
    fit.add_argument("--json", action="store_true", help="print JSON")
    fit.set_defaults(run="vehicled.offline.sensors.fit:run")
    simulate = sensors.add_parser(
        "simulate",
        help="write recorded runs again with a simulated sensor in the place of the real one",
        description="For each run with a known truth, write a log in which the chosen sensors are simulated on that truth, at the "
        "times of the recorded ones, and all else is as recorded. vehicled gap then shows the gap of these sensors alone.",
        examples=(
            "vehicled sensors simulate drives/ --sensor gnss --profile mine.toml -o fitted/",
            "vehicled sensors simulate drives/ --sensor imu --sensor heading -o inertial/",
            "vehicled gap --real drives/ --sim fitted/ --sim inertial/",
        ),
        epilog="Exit status: 0 written; 2 invalid arguments or recordings.",
    )
    _files(simulate)
    simulate.add_argument(
        "--sensor", action="append", choices=("gnss", "imu", "heading"), required=True, help="sensor to simulate; repeatable"
    )
    simulate.add_argument("--profile", default="art", metavar="P", help="profile with the models of the sensors (default art)")
    simulate.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="override a profile value; repeatable")
    simulate.add_argument("--seed", type=_seed, default=1, metavar="N", help="seed of the first run (default 1)")
    simulate.add_argument(
        "--runs", type=_runs, default=1, metavar="N", help="runs per recording, each with its own seed (default 1)"
    )
    simulate.add_argument(
        "--from-first-fix", action="store_true", help="the first fix is without error, as in recordings that count from there"
    )
    simulate.add_argument(
        "--no-velocity", action="store_true", help="simulated fixes hold no velocity, as in recordings that have none"
    )
    simulate.add_argument("-o", "--output", required=True, metavar="DIR", help="folder for the logs")
    simulate.set_defaults(run="vehicled.offline.sensors.simulate:run")
    truth = sensors.add_parser(
        "check-truth",
        help="say how accurate a reference system is, before it judges an estimator",
        description="Check the reference states of logs against rest, marked places, their own velocity, the course over ground "
        "and the fixes of another receiver. Print the accuracy of position, speed and heading that may be claimed, and what stays "
        "unknown.",
        examples=(
            "vehicled sensors check-truth protocol.mcap --plot truth.png",
            "vehicled sensors check-truth morning.mcap noon.mcap",
        ),
        epilog="Exit status: 0 all three accuracies can be claimed; 1 some stay unknown; 2 invalid arguments or logs. "
        "The drive that shows them all: docs/sensors.md.",
    )
    truth.add_argument("run_files", nargs="+", type=log_name, metavar="LOG", help="logs with reference states; one place and unit")
    truth.add_argument("--plot", metavar="FILE", help="draw the drives and the accuracies (.png, .svg, .pdf)")
    truth.add_argument("--json", action="store_true", help="print JSON")
    truth.set_defaults(run="vehicled.offline.sensors.check_truth:run")


def _files(command: CommandParser) -> None:
    command.add_argument(
        "run_files",
        nargs="+",
        type=log_name,
        metavar="RUN",
        help="recordings: .mcap, CSV, bags, receiver files, or folders of these",
    )
    command.add_argument("--kind", action="append", default=[], metavar="KIND", help="kind of recording to read; repeatable")
