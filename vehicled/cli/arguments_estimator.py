"""Arguments of ``vehicled estimator``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import whole
from vehicled.cli.log_names import log_name
from vehicled.cli.parser import CommandParser

_folds = whole(2, 100, "expected a number of folds from 2 to 100")


def estimator_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the group ``estimator``."""
    estimator = commands.add_parser("estimator", help="fit the constants of the estimator planar to drives").add_subparsers(
        dest="estimator_command", metavar="COMMAND", required=True
    )
    calibrate = estimator.add_parser(
        "calibrate",
        help="find misalignment, drive, friction and steering in your own first drives",
        description="Find the constants of a set-up in its drives, from measurements and commands, without a truth: heading "
        "misalignment, acceleration of the full drive, friction, steering gain and offset, each with its spread between drives. "
        "Judge them on drives that they were not found in. Write what the drives show into a profile.",
        examples=(
            "vehicled estimator calibrate drives/ -o mine.toml",
            "vehicled estimator calibrate a.mcap b.mcap --profile art_vesc",
            "vehicled estimator calibrate drives/ --kind mocap --json",
        ),
        epilog="Exit status: 0 found; 1 the constants do not predict the other drives better, and nothing is written; 2 invalid "
        "arguments or recordings. See docs/estimation_and_control.md.",
    )
    calibrate.add_argument(
        "run_files", nargs="+", type=log_name, metavar="DRIVE", help="recordings: .mcap, CSV, bags, or folders of these"
    )
    calibrate.add_argument("--kind", action="append", default=[], metavar="KIND", help="kind of recording to read; repeatable")
    calibrate.add_argument(
        "--profile", default="art_published", metavar="P", help="profile of the vehicle that drove (default art_published)"
    )
    calibrate.add_argument(
        "--folds", type=_folds, default=4, metavar="N", help="parts of the drives for cross-validation (default 4)"
    )
    calibrate.add_argument("-o", "--output", metavar="TOML", help="write the profile with these constants (default: print them)")
    calibrate.add_argument("--json", action="store_true", help="print JSON")
    calibrate.set_defaults(run="vehicled.cli.estimator:calibrate")
