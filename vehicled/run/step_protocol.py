"""Requests and answers of a simulation that another program steps: one JSON object per line, as on
the control socket."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from vehicled.live.control_socket.protocol import HelloRequest, PathRequest, RequestError
from vehicled.log.cat import plain_fields
from vehicled.run.stepwise import Observation


class StepServerRequest(
    Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True, tag_field="do"
):
    """Base of all requests; ``do`` names which one it is."""


class ResetRequest(StepServerRequest, frozen=True, tag="reset"):
    """Request to begin the drive again; it is answered when the vehicle drives."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None = None
    """Seed of the sensor noise from now on; None for that of the last drive."""


class StepRequest(StepServerRequest, frozen=True, tag="step"):
    """Request to go on for one period of the control task, or until a time. Without a speed the
    profile's controller drives."""

    speed_mps: Annotated[float, Meta(ge=-100.0, le=100.0)] | None = None
    curvature_per_m: Annotated[float, Meta(ge=-100.0, le=100.0)] | None = None
    """Curvature of the path, positive left; this or ``wheel_angle_rad``."""
    wheel_angle_rad: Annotated[float, Meta(ge=-1.6, le=1.6)] | None = None
    until_s: Annotated[float, Meta(ge=0.0, le=1e9)] | None = None
    """Simulated time since the reset, s."""
    scan: bool = False
    """True for an observation with the newest laser scan."""


class ObserveRequest(StepServerRequest, frozen=True, tag="observe"):
    """Request for the observation, without a step."""

    scan: bool = False


StepServerRequests = HelloRequest | PathRequest | ResetRequest | StepRequest | ObserveRequest
_decoder = msgspec.json.Decoder(StepServerRequests)


def parse_step(line: bytes) -> StepServerRequests:
    """Parse the request of one line. Raises :class:`RequestError`."""
    try:
        request: StepServerRequests = _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f'not a request: {error}; try {{"do": "observe"}}') from None
    return request


def observed(seen: Observation, *, scan: bool) -> dict[str, Any]:
    """Return an observation as plain values; a message has the fields of its topic."""
    found: dict[str, Any] = {
        "time_s": seen.time_s,
        "mode": seen.mode.name,
        "reaction": seen.reaction.name,
        "why": seen.why,
        "finished": seen.finished,
        "over": seen.over,
    }
    messages = {
        "estimate": seen.estimate,
        "truth": seen.truth,
        "control": seen.control,
        "command": seen.command,
        **({"scan": seen.scan} if scan else {}),
    }
    for name, message in messages.items():
        found[name] = None if message is None else plain_fields(message)
    return found
