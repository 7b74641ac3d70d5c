"""Requests and answers of the control socket: one JSON object a line, either way.

A request names what to ``do``; an answer has ``ok`` and, when that is false, ``why``. A client may send requests ahead; they are
answered in order.
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


class Ask(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="status"):
    """The state of the run."""


class Act(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="request", kw_only=True):
    """Ask for a change of mode."""

    action: Literal["arm", "drive", "teleop", "align", "stop", "disarm", "emergency_stop", "reset"]
    origin: Origin = ""


class Follow(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="watch", kw_only=True):
    """The state again and again, until the client hangs up."""

    rate_hz: Annotated[float, Meta(ge=0.1, le=20.0)] = 2.0
    """So slow at the least that a client who has gone is noticed."""


class Hand(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="hand", kw_only=True):
    """One reading of a stick. It is answered by nothing: the next one is on its way."""

    steering: Share
    throttle: Share
    brake: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0
    deadman: bool
    sequence: Annotated[int, Meta(ge=0, le=2**32 - 1)]
    origin: Origin = "hand"
    unplugged: bool = False
    """The stick is gone; whatever else the reading says does not count."""


class Beat(Struct, frozen=True, forbid_unknown_fields=True, tag_field="do", tag="heartbeat", kw_only=True):
    """A ground station is there. Answered by nothing."""

    origin: Origin = "ground station"


Request = Ask | Act | Follow | Hand | Beat

_decoder = msgspec.json.Decoder(Request)


class RequestError(ValueError):
    """A line that is no request; the text names what is wrong with it."""


def parse(line: bytes) -> Request:
    """The request of one line. Raises :class:`RequestError`."""
    try:
        request: Request = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f'not a request: {error}; try {{"do": "status"}}') from None
    return request


def answer(**values: Any) -> bytes:
    """A good answer."""
    return msgspec.json.encode({"ok": True, **values}) + b"\n"


def refusal(why: str) -> bytes:
    """A bad one, with the reason."""
    return msgspec.json.encode({"ok": False, "why": why[:500]}) + b"\n"
