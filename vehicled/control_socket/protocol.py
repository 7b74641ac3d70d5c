"""Requests and answers of the control socket: one JSON object per line in both directions.

The field ``do`` selects the request. An answer has ``ok`` and, if that is false, ``why``. A client may send requests ahead; they
are answered in order.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from vehicled.messages import OperatorAction

MAX_LINE = 4096
Share = Annotated[float, Meta(ge=-1.0, le=1.0)]
Origin = Annotated[str, Meta(max_length=64)]

ACTIONS: dict[str, OperatorAction] = {
    "arm": OperatorAction.ARM,
    "drive": OperatorAction.DRIVE,
    "teleop": OperatorAction.TELEOP,
    "align": OperatorAction.ALIGN,
    "stop": OperatorAction.STOP,
    "disarm": OperatorAction.DISARM,
    "emergency_stop": OperatorAction.EMERGENCY_STOP,
    "reset": OperatorAction.RESET,
}


class StatusRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="status"):
    """Request for the state of the run."""


class MarginsRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="margins"):
    """Request for value, limit and state of every failsafe rule."""


class ActionRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="request", kw_only=True):
    """Request for a change of mode."""

    action: Literal["arm", "drive", "teleop", "align", "stop", "disarm", "emergency_stop", "reset"]
    origin: Origin = ""


class WatchRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="watch", kw_only=True):
    """Request for the state of the run at a rate, until the client disconnects."""

    rate_hz: Annotated[float, Meta(ge=0.1, le=20.0)] = 2.0
    """Rate, Hz; the lower limit ensures that a lost client is noticed."""


class TeleopRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="teleop", kw_only=True):
    """One teleop reading; it is not answered."""

    steering: Share
    throttle: Share
    brake: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    deadman: bool
    sequence: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    origin: Origin = "teleop"
    unplugged: bool = False
    """True if the input device is gone; the other fields are then ignored."""


class HeartbeatRequest(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="heartbeat", kw_only=True):
    """Heartbeat of a ground station; it is not answered."""

    origin: Origin = "ground station"


Request = StatusRequest | MarginsRequest | ActionRequest | WatchRequest | TeleopRequest | HeartbeatRequest

_decoder = msgspec.json.Decoder(Request)


class RequestError(ValueError):
    """The line is not a request; the text names the mistake."""


def parse(line: bytes) -> Request:
    """Parse the request of one line. Raises :class:`RequestError`."""
    try:
        request: Request = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f'not a request: {error}; try {{"do": "status"}}') from None
    return request


def answer(**values: Any) -> bytes:
    """Encode a positive answer."""
    return msgspec.json.encode({"ok": True, **values}) + b"\n"


def refusal(why: str) -> bytes:
    """Encode a refusal with its reason."""
    return msgspec.json.encode({"ok": False, "why": why[:500]}) + b"\n"
