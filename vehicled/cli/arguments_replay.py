"""Arguments of ``vehicled replay``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import between
from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def replay_command(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``replay``."""
    replay = commands.add_parser(
        "replay",
        help="replay a run from its log",
        description="Run the daemon's logic again on the recorded bytes and times, and compare all outputs bit for bit. "
        "With --set, --estimator or --controller: what a changed configuration would have computed, open loop.",
        epilog="Exit status: 0 all outputs are equal, or a what-if; 1 difference, damaged log, or nothing to compare; "
        "2 the log cannot be replayed.",
    )
    replay.add_argument("file", type=log_name, metavar="RUN", help=f"{LOG_HELP}; of a rotated log its first part")
    replay.add_argument("--until-diff", action="store_true", help="stop at the first difference")
    replay.add_argument(
        "--from",
        dest="from_s",
        type=between(0.0, 1e6, "expected a time since the start of the run in seconds"),
        metavar="T0",
        help="replay from the start, but show and count only from T0 seconds on",
    )
    replay.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="what-if: change a key of the profile; repeatable"
    )
    replay.add_argument("--estimator", metavar="NAME", help="what-if: use this estimator; FILE.py:NAME is your own")
    replay.add_argument("--controller", metavar="NAME", help="what-if: use this controller; FILE.py:NAME is your own")
    replay.add_argument(
        "--code",
        choices=("same", "log", "changed"),
        default="same",
        help="source of the run's plugins: their unchanged files (default), the texts in the log, if you trust it, or what-if: "
        "their changed files",
    )
    replay.add_argument("--plot", metavar="PNG", help="plot the differences into this file")
    replay.add_argument("--json", action="store_true", help="print JSON")
    replay.add_argument("--quiet", action="store_true", help="no progress")
    replay.set_defaults(run="vehicled.cli.replay:replay")
