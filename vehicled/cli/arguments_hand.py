"""Arguments of the commands about driving by hand: ``teleop`` and ``record-path``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import between
from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser


def hand_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add them."""
    teleop = commands.add_parser(
        "teleop",
        help="drive by hand: keyboard, gamepad, steering wheel",
        description="Drive a running daemon by hand. Enter arms it and takes the vehicle; it drives while the deadman is held, and "
        "brakes when that is let go, when the stick is unplugged, and when nothing is heard of it for 0.2 s.",
        epilog="Exit status: 0 left by q; 130 ended by a signal, or the stick or the terminal was lost; 2 the arguments cannot be "
        "used, or no daemon answers. See docs/driving_by_hand.md.",
    )
    teleop.add_argument("--profile", metavar="P", help="profile of the daemon, or its socket (default: the only one)")
    teleop.add_argument(
        "--device", default="auto", metavar="D", help="keyboard, a joystick device such as /dev/input/js0, or auto (default)"
    )
    teleop.add_argument("--map", metavar="TOML", help="what axes and buttons mean, for a pad that is not known")
    teleop.add_argument(
        "--throttle", type=_share, default=0.5, metavar="SHARE", help="largest share of full drive, above 0 to 1 (default 0.5)"
    )
    teleop.add_argument("--hz", type=_hand_rate, default=30.0, metavar="HZ", help="readings a second, 10 to 60 (default 30)")
    teleop.set_defaults(run="vehicled.cli.teleop:teleop")

    record = commands.add_parser(
        "record-path",
        help="save the path that was driven in a log as a course",
        description="Save the path that was driven in a log, by hand or by itself, as a course for --course: smoothed, evenly "
        "spaced, with the speed driven, backward parts included, on the datum of the run.",
    )
    record.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    record.add_argument("-o", "--output", metavar="CSV", help="course file (default: the log's name in this folder, with .csv)")
    record.add_argument("--spacing", type=_spacing, default=0.1, metavar="M", help="metres between waypoints (default 0.1)")
    record.add_argument("--from", dest="from_s", type=_time, metavar="T", help="leave out what was before T seconds of the run")
    record.add_argument("--to", dest="to_s", type=_time, metavar="T", help="leave out what was after T seconds of the run")
    record.add_argument(
        "--speed", type=_speed, default=None, metavar="V", help="recorded (default), or one speed in m/s for all of it"
    )
    record.add_argument("--truth", action="store_true", help="the simulator's true path instead of the estimate")
    record.set_defaults(run="vehicled.cli.record_path:record_path")


def _share(text: str) -> float:
    return between(text, 0.01, 1.0, "a share is from 0.01 to 1")


def _hand_rate(text: str) -> float:
    return between(text, 10.0, 60.0, "a rate is from 10 to 60 Hz")


def _spacing(text: str) -> float:
    return between(text, 0.02, 10.0, "a spacing is from 0.02 to 10 m")


def _time(text: str) -> float:
    return between(text, 0.0, 1e6, "a time is a number of seconds from 0 on")


def _speed(text: str) -> float | None:
    return None if text == "recorded" else between(text, 0.05, 100.0, "a speed is from 0.05 to 100 m/s, or the word recorded")
