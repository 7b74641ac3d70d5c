"""Arguments of the manual-driving commands ``teleop`` and ``record-path``."""

from argparse import _SubParsersAction

from vehicled.cli.argument_types import between
from vehicled.cli.log_names import LOG_HELP, log_name
from vehicled.cli.parser import CommandParser

_time = between(0.0, 1e6, "expected a number of seconds from 0 up")
_hand_rate = between(10.0, 60.0, "expected a rate from 10 to 60 Hz")
_spacing = between(0.02, 10.0, "expected a spacing from 0.02 to 10 m")
_ratio = between(0.01, 1.0, "expected a fraction from 0.01 to 1")


def teleop_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add ``teleop`` and ``record-path``."""
    teleop = commands.add_parser(
        "teleop",
        help="drive manually with keyboard, gamepad or steering wheel",
        description="Drive a running daemon manually. Enter arms it and starts teleop. It drives while the deadman is held and "
        "brakes when the deadman is released, the input device is unplugged, or its readings stop for 0.2 s.",
        epilog="Exit status: 0 ended with q; 130 ended by a signal, or the input device or terminal was lost; 2 invalid "
        "arguments, or no daemon answers. See docs/driving_by_hand.md.",
    )
    teleop.add_argument("--profile", metavar="P", help="profile of the daemon, or its socket (default: the only running daemon)")
    teleop.add_argument(
        "--device", default="auto", metavar="D", help="keyboard, a joystick device such as /dev/input/js0, or auto (default)"
    )
    teleop.add_argument("--map", metavar="TOML", help="mapping of axes and buttons, for an unknown pad")
    teleop.add_argument(
        "--throttle",
        type=_ratio,
        default=0.5,
        metavar="RATIO",
        help="largest throttle as a fraction of full throttle, 0.01 to 1 (default 0.5)",
    )
    teleop.add_argument(
        "--hz",
        type=_hand_rate,
        default=30.0,
        metavar="HZ",
        help="readings per second, 10 to 60 (default 30)",
    )
    teleop.set_defaults(run="vehicled.cli.teleop:teleop")

    record = commands.add_parser(
        "record-path",
        help="save the driven path of a log as a course",
        description="Save the driven path of a log, manual or autonomous, as a course for --course: smoothed, evenly "
        "spaced, with the driven speed and any reverse legs, on the datum of the run.",
    )
    record.add_argument("file", type=log_name, metavar="RUN", help=LOG_HELP)
    record.add_argument("-o", "--output", metavar="CSV", help="course file (default: the log's name in this folder, with .csv)")
    record.add_argument(
        "--spacing",
        type=_spacing,
        default=0.1,
        metavar="M",
        help="distance between waypoints (default 0.1)",
    )
    record.add_argument("--from", dest="from_s", type=_time, metavar="T", help="start at T seconds of the run")
    record.add_argument("--to", dest="to_s", type=_time, metavar="T", help="stop at T seconds of the run")
    record.add_argument("--speed", type=_speed, default=None, metavar="V", help="recorded (default), or a constant speed in m/s")
    record.add_argument("--bridge-gaps", action="store_true", help="drive straight across stretches that the log lacks")
    record.add_argument("--truth", action="store_true", help="use the simulator's ground truth instead of the estimate")
    record.set_defaults(run="vehicled.cli.record_path:record_path")


def _speed(text: str) -> float | None:
    return None if text == "recorded" else between(0.05, 100.0, "expected a speed from 0.05 to 100 m/s, or recorded")(text)
