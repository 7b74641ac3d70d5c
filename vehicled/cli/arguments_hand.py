"""Arguments of the commands about driving by hand: ``teleop`` and ``record-path``."""

from argparse import ArgumentParser, _SubParsersAction


def hand_commands(commands: "_SubParsersAction[ArgumentParser]") -> None:
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
    record.add_argument("file", metavar="RUN.mcap")
    record.add_argument("-o", "--output", metavar="CSV", help="course file (default: the log's name in this folder, with .csv)")
    record.add_argument("--spacing", type=_spacing, default=0.1, metavar="M", help="metres between waypoints (default 0.1)")
    record.add_argument("--from", dest="from_s", type=_time, metavar="T", help="leave out what was before T seconds of the run")
    record.add_argument("--to", dest="to_s", type=_time, metavar="T", help="leave out what was after T seconds of the run")
    record.add_argument(
        "--speed", type=_speed, default=None, metavar="V", help="recorded (default), or one speed in m/s for all of it"
    )
    record.add_argument("--truth", action="store_true", help="the simulator's true path instead of the estimate")
    record.set_defaults(run="vehicled.cli.record_path:record_path")


def _between(text: str, least: float, most: float) -> float:
    value = float(text)
    if not least <= value <= most:
        raise ValueError(text)
    return value


def _share(text: str) -> float:
    return _between(text, 0.01, 1.0)


def _hand_rate(text: str) -> float:
    return _between(text, 10.0, 60.0)


def _spacing(text: str) -> float:
    return _between(text, 0.02, 10.0)


def _time(text: str) -> float:
    return _between(text, 0.0, 1e6)


def _speed(text: str) -> float | None:
    return None if text == "recorded" else _between(text, 0.05, 100.0)


_share.__name__ = "share above 0, at most 1"
_hand_rate.__name__ = "rate from 10 to 60 Hz"
_spacing.__name__ = "spacing from 0.02 to 10 m"
_time.__name__ = "number of seconds from 0 on"
_speed.__name__ = "speed above 0 in m/s, or the word recorded,"
