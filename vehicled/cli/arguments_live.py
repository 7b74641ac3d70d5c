"""Arguments of the commands that change what a running daemon does: ``course``, ``goto``, ``return``, ``speed``, ``param``."""

from argparse import ArgumentTypeError, _SubParsersAction
from math import inf

from vehicled.cli.argument_types import between
from vehicled.cli.parser import CommandParser

_speed = between(0.01, 100.0, "expected a speed from 0.01 to 100 m/s")
_degrees = between(-360.0, 360.0, "expected an angle from -360 to 360 degrees")
_coordinate = between(-1e7, 1e7, "expected a coordinate")
_value = between(-1e12, 1e12, "expected a number")
_rate = between(0.1, 100.0, "expected a rate from 0.1 to 100 Hz")
_seconds = between(0.1, 1e6, "expected a number of seconds from 0.1 up")
SEE = "See docs/live_changes.md."


def live_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    """Add the commands."""
    course = commands.add_parser("course", help="change the course of a running daemon")
    kinds = course.add_subparsers(dest="course_command", metavar="COMMAND", required=True)
    chosen = kinds.add_parser(
        "set",
        help="drive another course from now on",
        description="Send a course to a running daemon. While it drives, it joins the course from where the vehicle is, or "
        f"refuses; else the next drive begins on the nearest place of the course. {SEE}",
    )
    chosen.add_argument("course", metavar="COURSE", help="name or file of a course")
    chosen.add_argument("--laps", type=int, default=1, metavar="N", help="laps of a closed course (default 1)")
    _daemon(chosen, "vehicled.cli.live_changes:course_set")
    goto = commands.add_parser(
        "goto",
        help="plan a path to a place, and take it as the course",
        description="Let a running daemon plan the shortest path that its vehicle can drive forward and that stays inside the "
        f"fence, and take it as its course. {SEE}",
    )
    goto.add_argument("place", nargs=2, type=_coordinate, metavar="N", help="X and Y in the map frame, m; with --wgs84 LAT and LON")
    goto.add_argument("--wgs84", action="store_true", help="the place is given as latitude and longitude in degrees")
    goto.add_argument("--yaw", type=_degrees, metavar="DEG", help="heading on arrival, counter-clockwise from east (default any)")
    _planned(goto, "vehicled.cli.live_changes:goto")
    home = commands.add_parser("return", help="plan a path to where the vehicle was armed, and take it as the course")
    _planned(home, "vehicled.cli.live_changes:return_home")
    speed = commands.add_parser("speed", help="limit the speed below the profile's limit")
    speed.add_argument("limit", type=_limit, metavar="MPS", help="highest speed in m/s, or off")
    _daemon(speed, "vehicled.cli.live_changes:speed")
    _topic_commands(commands)
    param = commands.add_parser("param", help="list and change the controller's parameters of a running daemon")
    kinds = param.add_subparsers(dest="param_command", metavar="COMMAND", required=True)
    listing = kinds.add_parser("list", help="print the parameters that may be changed, with their ranges")
    listing.add_argument("--json", action="store_true", help="print JSON")
    _daemon(listing, "vehicled.cli.live_changes:param_list")
    get = kinds.add_parser("get", help="print one parameter")
    get.add_argument("key", metavar="KEY", help="parameter, as in: vehicled param list")
    _daemon(get, "vehicled.cli.live_changes:param_get")
    change = kinds.add_parser("set", help="change one parameter between two ticks")
    change.add_argument("key", metavar="KEY", help="parameter, as in: vehicled param list")
    change.add_argument("value", type=_value, metavar="VALUE", help="number within its range")
    _daemon(change, "vehicled.cli.live_changes:param_set")


def _topic_commands(commands: "_SubParsersAction[CommandParser]") -> None:
    topic = commands.add_parser("topic", help="list topics of a running daemon, show their messages or rates")
    kinds = topic.add_subparsers(dest="topic_command", metavar="COMMAND", required=True)
    listing = kinds.add_parser("list", help="print every topic with its type and its rate")
    listing.add_argument("--json", action="store_true", help="print JSON")
    _daemon(listing, "vehicled.cli.topic:topics")
    echo = kinds.add_parser("echo", help="print the messages of a topic, the newest at most at a rate")
    echo.add_argument("topic", metavar="TOPIC", help="topic, as in: vehicled topic list, or its last part")
    echo.add_argument("--rate", type=_rate, default=20.0, metavar="HZ", help="highest rate, 0.1 to 100 (default 20)")
    echo.add_argument("--count", type=int, default=0, metavar="N", help="end after N messages")
    echo.add_argument("--once", action="store_true", help="end after one message")
    echo.add_argument("--json", action="store_true", help="print one JSON object per line")
    _daemon(echo, "vehicled.cli.topic:echo")
    hz = kinds.add_parser("hz", help="print the rate of a topic every second")
    hz.add_argument("topic", metavar="TOPIC", help="topic, as in: vehicled topic list, or its last part")
    hz.add_argument("--duration", type=_seconds, metavar="S", help="end after S seconds")
    _daemon(hz, "vehicled.cli.topic:hz")


def _limit(text: str) -> float:
    if text == "off":
        return inf
    try:
        return _speed(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or off") from None


def _planned(command: CommandParser, run: str) -> None:
    command.add_argument("--speed", type=_speed, metavar="MPS", help="speed of the path (default: the median of the run's course)")
    _daemon(command, run)


def _daemon(command: CommandParser, run: str) -> None:
    command.add_argument("--profile", metavar="P", help="profile of the daemon, or its socket (default: the only running daemon)")
    command.set_defaults(run=run)
