"""Commands ``vehicled course set``, ``goto``, ``return``, ``speed`` and ``param``, which change what a running daemon does."""

import sys
from argparse import Namespace
from math import inf, radians
from typing import Any

import msgspec

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
from vehicled.run.terminal import print_table

ORIGIN = "the command line"


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
                "this daemon does not report the origin of its map, because it is older than this command: update it"
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
    return _planned(arguments, GotoRequest(yaw_rad=yaw, speed_mps=arguments.speed, origin=ORIGIN, **place))


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
    rows = [[p["key"], f"{p['value']:g}", f"{p['profile']:g}", f"{p['low']:g} to {p['high']:g}"] for p in parameters]
    print_table("parameters that may be changed while the daemon runs", ["parameter", "value", "profile", "range"], rows)
    return 0


def param_get(arguments: Namespace) -> int:
    """Print one parameter."""
    parameters = {parameter["key"]: parameter["value"] for parameter in _parameters(arguments)}
    if arguments.key not in parameters:
        raise ControlError(f"{arguments.key} is not among the parameters that may be changed: {', '.join(parameters) or 'none'}")
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
