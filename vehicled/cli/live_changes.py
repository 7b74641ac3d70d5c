"""Commands ``vehicled course set``, ``goto``, ``return``, ``speed`` and ``param``, which change
what a running daemon does."""

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Callable
from math import inf, radians
from typing import Any

import msgspec

from vehicled.cli.control import to_daemon
from vehicled.live.control_socket.client import PLAN_TIMEOUT_S, Client, ControlError
from vehicled.live.control_socket.protocol import (
    CourseRequest,
    GotoRequest,
    ParametersRequest,
    Request,
    ReturnRequest,
    SetParameterRequest,
    SpeedRequest,
)
from vehicled.live.control_socket.socket_path import find
from vehicled.run.argument_types import COURSE, TEXT, between
from vehicled.run.command_line import CommandParser
from vehicled.run.terminal import print_table

ORIGIN = "the command line"
SEE = "See docs/live_changes.md."
_SPEED = between(0.01, 100.0, "expected a speed from 0.01 to 100 m/s")
_DEGREES = between(-360.0, 360.0, "expected an angle from -360 to 360 degrees")
_COORDINATE = between(-1e7, 1e7, "expected a coordinate")
_VALUE = between(-1e12, 1e12, "expected a number")


def declare_course_set(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(
        "Send a course to a running daemon. While it drives, it joins the course from where the "
        "vehicle is, or refuses; else the next drive begins on the nearest place of the course. "
        f"{SEE}",
    )
    parser.add_argument("course", type=COURSE, metavar="COURSE", help="name or file of a course")
    parser.add_argument(
        "--laps", type=int, default=1, metavar="N", help="laps of a closed course (default 1)"
    )
    to_daemon(parser, course_set)


def declare_goto(parser: CommandParser) -> None:
    """Declare the command."""
    parser.describe(
        "Let a running daemon plan a path to a place, and take it as its course: on its map clear "
        "of walls and in reverse where it must, without a map the shortest one forward; inside the "
        f"fence. {SEE}",
    )
    parser.add_argument(
        "place",
        nargs=2,
        type=_COORDINATE,
        metavar="N",
        help="X and Y in the map frame, m; with --wgs84 LAT and LON",
    )
    parser.add_argument(
        "--wgs84",
        action="store_true",
        help="the place is given as latitude and longitude in degrees",
    )
    parser.add_argument(
        "--yaw",
        type=_DEGREES,
        metavar="DEG",
        help="heading on arrival, counter-clockwise from east (default any)",
    )
    _declare_planned(parser, goto)


def declare_return(parser: CommandParser) -> None:
    """Plan a path to where the vehicle was armed, and take it as the course."""
    _declare_planned(parser, return_home)


def declare_speed(parser: CommandParser) -> None:
    """Limit the speed below the profile's limit."""
    parser.add_argument("limit", type=_limit, metavar="MPS", help="highest speed in m/s, or off")
    to_daemon(parser, speed)


def declare_param_list(parser: CommandParser) -> None:
    """Print the parameters that may be changed, with their ranges."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    to_daemon(parser, param_list)


def declare_param_get(parser: CommandParser) -> None:
    """Print one parameter."""
    parser.add_argument(
        "key", type=TEXT, metavar="KEY", help="parameter, as in: vehicled param list"
    )
    to_daemon(parser, param_get)


def declare_param_set(parser: CommandParser) -> None:
    """Change one parameter between two ticks."""
    parser.add_argument(
        "key", type=TEXT, metavar="KEY", help="parameter, as in: vehicled param list"
    )
    parser.add_argument("value", type=_VALUE, metavar="VALUE", help="number within its range")
    to_daemon(parser, param_set)


def _declare_planned(parser: CommandParser, run: Callable[[Namespace], int]) -> None:
    parser.add_argument(
        "--speed",
        type=_SPEED,
        metavar="MPS",
        help="speed of the path (default: the median of the run's course)",
    )
    to_daemon(parser, run)


def _limit(text: str) -> float:
    if text == "off":
        return inf
    try:
        return _SPEED(text)
    except ArgumentTypeError as error:
        raise ArgumentTypeError(f"{error}, or off") from None


def course_set(arguments: Namespace) -> int:
    """Send a course to the daemon. It joins it from where the vehicle is, or refuses."""
    # Imported here, because courses bring numpy, which the other commands do not need.
    from vehicled.paths.catalog import load_course
    from vehicled.paths.datum import Datum
    from vehicled.paths.stored import to_bytes

    with Client(find(arguments.profile), PLAN_TIMEOUT_S) as client:
        place = client.status()["datum"]
        if place is None:
            raise ControlError(
                "this daemon does not report the origin of its map, because it is older than "
                "this command: update it"
            )
        datum = Datum(place["latitude_rad"], place["longitude_rad"], place["height_m"])
        course = load_course(arguments.course).repeated(arguments.laps).on_datum(datum)
        reply = client.ask(CourseRequest(to_bytes(course), origin=ORIGIN))
    print(f"{reply['mode']}: course {reply['course']}, {reply['length_m']:.1f} m")
    return 0


def goto(arguments: Namespace) -> int:
    """Let the daemon plan a path to a place and take it as its course."""
    names = ("latitude_deg", "longitude_deg") if arguments.wgs84 else ("x_m", "y_m")
    place = dict(zip(names, arguments.place, strict=True))
    yaw = None if arguments.yaw is None else radians(arguments.yaw)
    return _planned(
        arguments, GotoRequest(yaw_rad=yaw, speed_mps=arguments.speed, origin=ORIGIN, **place)
    )


def return_home(arguments: Namespace) -> int:
    """Let the daemon plan a path to where the vehicle was armed and take it as its course."""
    return _planned(arguments, ReturnRequest(arguments.speed, ORIGIN))


def speed(arguments: Namespace) -> int:
    """Limit the speed below the profile's limit, or lift the limit."""
    limit = None if arguments.limit == inf else arguments.limit
    with Client(find(arguments.profile)) as client:
        client.ask(SpeedRequest(limit, ORIGIN))
    print("no speed limit but the profile's" if limit is None else f"at most {limit:g} m/s")
    return 0


def param_list(arguments: Namespace) -> int:
    """Print the parameters of the controller that may be changed now."""
    parameters = _parameters(arguments)
    if arguments.json:
        print(msgspec.json.format(msgspec.json.encode(parameters), indent=2).decode())
        return 0
    rows = [
        [p["key"], f"{p['value']:g}", f"{p['profile']:g}", f"{p['low']:g} to {p['high']:g}"]
        for p in parameters
    ]
    print_table(
        "parameters that may be changed while the daemon runs",
        ["parameter", "value", "profile", "range"],
        rows,
    )
    return 0


def param_get(arguments: Namespace) -> int:
    """Print one parameter."""
    parameters = {parameter["key"]: parameter["value"] for parameter in _parameters(arguments)}
    if arguments.key not in parameters:
        raise ControlError(
            f"{arguments.key} is not among the parameters that may be changed: "
            f"{', '.join(parameters) or 'none'}"
        )
    print(f"{parameters[arguments.key]:g}")
    return 0


def param_set(arguments: Namespace) -> int:
    """Change one parameter; it takes effect between two ticks."""
    with Client(find(arguments.profile)) as client:
        reply = client.ask(SetParameterRequest(arguments.key, arguments.value, ORIGIN))
    print(f"{reply['key']} = {reply['value']:g}")
    return 0


def _parameters(arguments: Namespace) -> list[dict[str, Any]]:
    with Client(find(arguments.profile)) as client:
        parameters: list[dict[str, Any]] = client.ask(ParametersRequest())["parameters"]
    return parameters


def _planned(arguments: Namespace, request: Request) -> int:
    with Client(find(arguments.profile), PLAN_TIMEOUT_S) as client:
        reply = client.ask(request)
        print(f"{reply['mode']}: course {reply['course']}, {reply['length_m']:.1f} m")
        if reply["mode"] in ("STANDBY", "ARMED"):
            print("it begins on request: vehicled arm, then vehicled mode auto", file=sys.stderr)
    return 0
