"""Requests and answers of the control socket: one JSON object per line in both directions.

The field ``do`` selects the request. An answer has ``ok`` and, if that is false, ``why``. A client
may send requests ahead; they are answered in order.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.core.messages import CourseKind, OperatorAction

VERSION = 1
"""Version of the protocol. It changes when a program that keeps to the former one would be
misunderstood; new requests and new fields of answers do not change it."""
MAX_LINE = 4096
MAX_COURSE_LINE = 4 << 20
"""Longest line of a request with a course, bytes."""
COURSE_BEGINS = b'{"do":"course"'
"""First bytes of such a line, without spaces."""
Share = Annotated[float, Meta(ge=-1.0, le=1.0)]
Origin = Annotated[str, Meta(max_length=64)]
OwnOrigin = Annotated[str, Meta(min_length=1, max_length=64)]
"""Origin of a stream, which holds a lease by it."""

Action = Literal[
    "arm", "drive", "teleop", "align", "offboard", "stop", "disarm", "emergency_stop", "reset"
]
ACTIONS: dict[Action, OperatorAction] = {
    "arm": OperatorAction.ARM,
    "drive": OperatorAction.DRIVE,
    "teleop": OperatorAction.TELEOP,
    "align": OperatorAction.ALIGN,
    "offboard": OperatorAction.OFFBOARD,
    "stop": OperatorAction.STOP,
    "disarm": OperatorAction.DISARM,
    "emergency_stop": OperatorAction.EMERGENCY_STOP,
    "reset": OperatorAction.RESET,
}


COURSE_KINDS: dict[str, CourseKind] = {"course": CourseKind.GIVEN, "mission": CourseKind.MISSION}


class DaemonRequest(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="do"
):
    """Base of all requests; ``do`` names which one it is."""


class HelloRequest(DaemonRequest, frozen=True, tag="hello"):
    """Request to check the version of the protocol; over TCP the first line, with the token."""

    version: Annotated[int, Meta(ge=0, le=2**31 - 1)]
    token: Annotated[str, Meta(max_length=128)] = ""


class StatusRequest(DaemonRequest, frozen=True, tag="status"):
    """Request for the state of the run."""


class MarginsRequest(DaemonRequest, frozen=True, tag="margins"):
    """Request for value, limit and state of every failsafe rule."""


class ActionRequest(DaemonRequest, frozen=True, tag="request"):
    """Request for a change of mode."""

    action: Action
    origin: Origin = ""


class WatchRequest(DaemonRequest, frozen=True, tag="watch"):
    """Request for the state of the run at a rate, until the client disconnects."""

    rate_hz: Annotated[float, Meta(ge=0.1, le=20.0)] = 2.0
    """Rate, Hz; the lower limit ensures that a lost client is noticed."""


class TeleopRequest(DaemonRequest, frozen=True, tag="teleop", kw_only=True):
    """One teleop reading; it is not answered."""

    steering: Share
    throttle: Share
    brake: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    deadman: bool
    sequence: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    origin: OwnOrigin = "teleop"
    unplugged: bool = False
    """True if the input device is gone; the other fields are then ignored."""


class SetpointRequest(DaemonRequest, frozen=True, tag="setpoint", kw_only=True):
    """One setpoint for mode OFFBOARD; it is answered only if it is refused."""

    speed_mps: Annotated[float, Meta(ge=-100.0, le=100.0)]
    curvature_per_m: Annotated[float, Meta(ge=-100.0, le=100.0)] | None = None
    """Curvature of the path, positive left; this or ``wheel_angle_rad``."""
    wheel_angle_rad: Annotated[float, Meta(ge=-1.6, le=1.6)] | None = None
    sequence: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    origin: OwnOrigin = "setpoints"


class CourseRequest(DaemonRequest, frozen=True, tag="course"):
    """Request to drive another course from now on."""

    data: bytes
    """Course as :func:`vehicled.paths.stored.to_bytes` gives it, in Base64."""
    kind: Literal["course", "mission"] = "course"
    """``mission`` if a ground station uploaded it."""
    origin: Origin = ""


class GotoRequest(DaemonRequest, frozen=True, tag="goto"):
    """Request to plan a path to a place and to take it as the course."""

    x_m: float | None = None
    """Place in the map frame; this and ``y_m``, or latitude and longitude."""
    y_m: float | None = None
    latitude_deg: Annotated[float, Meta(ge=-90.0, le=90.0)] | None = None
    longitude_deg: Annotated[float, Meta(ge=-180.0, le=180.0)] | None = None
    yaw_rad: Annotated[float, Meta(ge=-100.0, le=100.0)] | None = None
    """Heading on arrival, counter-clockwise from east; None for any."""
    speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] | None = None
    origin: Origin = ""


class ReturnRequest(DaemonRequest, frozen=True, tag="return"):
    """Request to plan a path to where the vehicle was armed and to take it as the course."""

    speed_mps: Annotated[float, Meta(gt=0.0, le=100.0)] | None = None
    origin: Origin = ""


class PathRequest(DaemonRequest, frozen=True, tag="path"):
    """Request for the course of the run as points, evenly chosen along it."""

    points: Annotated[int, Meta(ge=2, le=2000)] = 500
    """Largest number of points."""


class SpeedRequest(DaemonRequest, frozen=True, tag="speed"):
    """Request for a speed limit below the profile's; None lifts it."""

    limit_mps: float | None
    origin: Origin = ""


class ParametersRequest(DaemonRequest, frozen=True, tag="parameters"):
    """Request for the parameters that may be changed while the daemon runs."""

    origin: Origin = ""


class SetParameterRequest(DaemonRequest, frozen=True, tag="set_parameter"):
    """Request to change a parameter of the controller between two ticks."""

    key: Annotated[str, Meta(max_length=128)]
    value: float
    origin: Origin = ""


class TopicsRequest(DaemonRequest, frozen=True, tag="topics"):
    """Request for all topics with their rates, measured over ``seconds``."""

    seconds: Annotated[float, Meta(ge=0.1, le=4.0)] = 1.0


class SubscribeRequest(DaemonRequest, frozen=True, tag="subscribe"):
    """Request for the messages of a topic, until the client disconnects."""

    topic: Annotated[str, Meta(max_length=128)]
    rate_hz: Annotated[float, Meta(ge=0.1, le=100.0)] = 20.0
    """Highest rate of the answers; of the messages between two answers only the newest is sent."""
    times: bool = False
    """True for the times of all messages instead of their contents."""


class HeartbeatRequest(DaemonRequest, frozen=True, tag="heartbeat"):
    """Heartbeat of a ground station; it is not answered."""

    origin: Origin = "ground station"


Change = CourseRequest | GotoRequest | ReturnRequest | SpeedRequest | SetParameterRequest
"""Requests that change what the daemon does while it runs."""
Request = (
    HelloRequest | StatusRequest | MarginsRequest | ActionRequest | WatchRequest | TeleopRequest
    | SetpointRequest | CourseRequest | GotoRequest | ReturnRequest | PathRequest | SpeedRequest
    | ParametersRequest | SetParameterRequest | TopicsRequest | SubscribeRequest | HeartbeatRequest
)  # fmt: skip

_decoder = msgspec.json.Decoder(Request)
_NAMES = ("origin", "key", "topic")
"""Fields that hold a name, which people read."""


class RequestError(ValueError):
    """The line is not a request; the text names the mistake."""


def parse(line: bytes) -> Request:
    """Parse the request of one line. Raises :class:`RequestError`."""
    try:
        request: Request = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f'not a request: {error}; try {{"do": "status"}}') from None
    # Names are shown on terminals and in journals, where such characters could move the cursor or
    # hide other text.
    odd = {name: text for name in _NAMES if not (text := getattr(request, name, "")).isprintable()}
    if odd:
        request = replace(request, **{name: printable(text) for name, text in odd.items()})
    return request


def printable(text: str) -> str:
    """Return a text with ``?`` in the place of each character that is not printable."""
    return "".join(character if character.isprintable() else "?" for character in text)


def encode(request: Request) -> bytes:
    """Encode a request as one line."""
    return msgspec.json.encode(request) + b"\n"


def version_refusal(version: int) -> str:
    """Return why a program of another version of the protocol is refused; empty for this one."""
    return (
        ""
        if version == VERSION
        else f"this side speaks version {VERSION} of the protocol, the program version {version}: "
        "update the older of the two"
    )


def answer(**values: Any) -> bytes:
    """Encode a positive answer."""
    return msgspec.json.encode({"ok": True, **values}) + b"\n"


def farewell(why: str) -> bytes:
    """Encode the last line of a connection that the daemon closes, with its reason."""
    return msgspec.json.encode({"ok": False, "why": why[:500], "ended": True}) + b"\n"


def refusal(why: str) -> bytes:
    """Encode a refusal with its reason."""
    return msgspec.json.encode({"ok": False, "why": why[:500]}) + b"\n"
