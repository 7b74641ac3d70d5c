"""Commands (COMMAND_LONG, COMMAND_INT) that the vehicle follows: a table with the check of every
parameter. Pure.

What is not in the table is answered UNSUPPORTED; a parameter that is not allowed is answered
DENIED, with its name.
"""

from collections.abc import Callable, Mapping
from math import inf, isfinite, pi
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.core.messages import Mode
from vehicled.live.bridges.mavlink.pilot import ACCEPTED, DENIED, REJECTED, Pilot, Reply
from vehicled.live.bridges.mavlink.places import Place, PlaceError, frame_name, global_place
from vehicled.live.bridges.mavlink.targets import MAX_SPEED_MPS
from vehicled.live.bridges.mavlink.telemetry import TELEMETRY, Schedule
from vehicled.live.bridges.mavlink.units import heading_rad
from vehicled.paths.mission import GLOBAL_FRAMES, ItemError, changed_speed, unset

FORCE = 21196
"""Second parameter of COMPONENT_ARM_DISARM that asks for no checks."""
CHANGE_MODE = int(mav.MAV_DO_REPOSITION_FLAGS_CHANGE_MODE)


class Param(NamedTuple):
    """Check of one parameter."""

    name: str
    allowed: str
    """Values that are allowed, in words."""
    holds: Callable[[float], bool]
    unset: bool = False
    """True if the parameter may be left unset (NaN)."""

    def accepts(self, value: float) -> bool:
        """Return True for a value that is allowed."""
        return self.unset if value != value else self.holds(value)


def one_of(name: str, *values: float, unset: bool = False) -> Param:
    """Return the check for one of some values."""
    return Param(
        name, " or ".join(f"{value:g}" for value in values), lambda value: value in values, unset
    )


def between(
    name: str, low: float, high: float, unit: str, *, unset: bool = False, whole: bool = False
) -> Param:
    """Return the check for a finite range; ``whole``: of integers."""
    words = f"{low:g} to {high:g}{f' {unit}' if unit else ''}"
    return Param(
        name,
        words,
        lambda value: (
            isfinite(value) and low <= value <= high and (not whole or value == int(value))
        ),
        unset,
    )


class Order(NamedTuple):
    """Command whose parameters are checked."""

    params: tuple[float, ...]
    """Parameters 1 to 7, or 1 to 4 of a COMMAND_INT followed by its place; NaN if unset."""
    place: Place | None
    """Place of a command that has one, in the map frame."""


class Command(NamedTuple):
    """One row of the table."""

    does: str
    """Effect, in words."""
    run: Callable[[Pilot, Order, Reply], None]
    params: Mapping[int, Param] = {}
    """Checks by the number of the parameter; the others are not read."""
    has_place: bool = False
    """True if the parameters 5 and 6 are a latitude and longitude."""
    lasts: bool = False
    """True if it takes time: sent again meanwhile, it is the same command and answered
    IN_PROGRESS."""
    anybody: bool = False
    """True if it commands nothing, so that it is followed without ``--mavlink-commands``."""


def order_of(message: Any, row: Command, pilot: Pilot) -> Order:
    """Return the checked content of a command. Raises :class:`PlaceError` or ValueError, with the
    reason."""
    is_int = message.get_type() == "COMMAND_INT"
    fifth, sixth = (message.x, message.y) if is_int else (message.param5, message.param6)
    last = message.z if is_int else message.param7
    params = (
        message.param1,
        message.param2,
        message.param3,
        message.param4,
        float(fifth),
        float(sixth),
        last,
    )
    for number, param in row.params.items():
        if not param.accepts(params[number - 1]):
            raise ValueError(
                f"parameter {number} ({param.name}) is {params[number - 1]:g}: use {param.allowed}"
            )
    if not row.has_place:
        return Order(params, None)
    if is_int and message.frame not in GLOBAL_FRAMES:
        raise PlaceError(
            f"{frame_name(message.frame)} is not followed: give latitude and longitude in a "
            "global frame"
        )
    scale = 1e-7 if is_int else 1.0
    return Order(params, global_place(pilot.view.datum, fifth * scale, sixth * scale))


# ---------------------------------------------------------------- handlers


def _arm_disarm(pilot: Pilot, order: Order, reply: Reply) -> None:
    if order.params[0] == 0.0:
        pilot.stop("disarm", reply)
    elif order.params[1] == FORCE:
        reply(DENIED, "the checks before arming cannot be skipped: arm without force")
    else:
        pilot.arm(reply)


def _set_mode(pilot: Pilot, order: Order, reply: Reply) -> None:
    set_mode(pilot, int(order.params[0]), int(order.params[1]), reply)


def set_mode(pilot: Pilot, flags: int, custom_mode: int, reply: Reply) -> None:
    """Follow a DO_SET_MODE or SET_MODE; only custom modes are known."""
    if flags & mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED:
        pilot.choose(custom_mode, reply)
    else:
        reply(
            DENIED,
            (
                "only custom modes are known: set MAV_MODE_FLAG_CUSTOM_MODE_ENABLED and a mode of "
                "ArduPilot's rover"
            ),
        )


def _auto(pilot: Pilot, _: Order, reply: Reply) -> None:
    pilot.choose(10, reply)


def _return(pilot: Pilot, _: Order, reply: Reply) -> None:
    pilot.choose(11, reply)


def _terminate(pilot: Pilot, order: Order, reply: Reply) -> None:
    if order.params[0] > 0.5:
        pilot.stop("emergency_stop", reply)
    else:
        pilot.reset(reply)


def _pause(pilot: Pilot, order: Order, reply: Reply) -> None:
    if order.params[0] == 0.0:
        pilot.stop("stop", reply, pause=True)
    else:
        pilot.resume(reply)


def _change_speed(pilot: Pilot, order: Order, reply: Reply) -> None:
    try:
        speed_mps, ignored = changed_speed([unset(value) for value in order.params[:4]], inf)
    except ItemError as error:
        reply(DENIED, str(error))
        return
    if ignored:
        pilot.say(f"ignored: {ignored}", 5)
    if speed_mps is None:
        reply(ACCEPTED, "")
    else:
        pilot.limit_speed(speed_mps if isfinite(speed_mps) else None, reply)


def _reposition(pilot: Pilot, order: Order, reply: Reply) -> None:
    assert order.place is not None
    speed_mps, flags, _, yaw_rad, *_ = order.params
    # Ground stations of ArduPilot send 0 where they mean any heading.
    heading = heading_rad(yaw_rad) if isfinite(yaw_rad) and yaw_rad != 0.0 else None
    pilot.go_to(
        order.place,
        heading,
        speed_mps if speed_mps > 0.0 else None,
        reply,
        change_mode=flags == CHANGE_MODE,
    )


def _set_current(pilot: Pilot, order: Order, reply: Reply) -> None:
    set_current(pilot, int(order.params[0]), reply)


def set_current(pilot: Pilot, number: int, reply: Reply) -> None:
    """Follow a DO_SET_MISSION_CURRENT or MISSION_SET_CURRENT: a mission always begins with its
    first item."""
    if number > 1:
        reply(
            DENIED,
            (
                f"a mission cannot begin with item {number}: choose AUTO, which drives it from its "
                "first item"
            ),
        )
    elif pilot.view.state.mode is Mode.AUTO:
        reply(DENIED, "the vehicle drives: stop it before the mission begins again")
    else:
        reply(ACCEPTED, "")


def _interval(schedule: Schedule, pilot: Pilot, order: Order, reply: Reply) -> None:
    name = _message_name(order.params[0])
    if name not in TELEMETRY:
        reply(int(mav.MAV_RESULT_UNSUPPORTED), "")
    elif name == "HEARTBEAT" and order.params[1] < 0.0:
        reply(DENIED, "heartbeats cannot be switched off")
    else:
        schedule.set_interval(name, order.params[1])
        reply(ACCEPTED, "")


def _message(pilot: Pilot, order: Order, reply: Reply) -> None:
    _send(_message_name(order.params[0]), pilot, reply)


def _send(name: str, pilot: Pilot, reply: Reply) -> None:
    row = TELEMETRY.get(name)
    if row is None:
        reply(int(mav.MAV_RESULT_UNSUPPORTED), "")
        return
    message = row.make(pilot.view)
    reply(REJECTED if message is None else ACCEPTED, "")
    if message is not None:
        pilot.send(message)


def _message_name(number: float) -> str:
    kind = mav.mavlink_map.get(int(number))
    return kind.msgname if kind is not None else ""


_ID = between("message", 0, 2**24 - 1, "", whole=True)


def commands(schedule: Schedule) -> dict[int, Command]:
    """Return the table by MAV_CMD; ``schedule``: that of the telemetry, which some commands
    change."""
    return {
        mav.MAV_CMD_COMPONENT_ARM_DISARM: Command(
            (
                "1: arms; it is answered once that has succeeded, or after 3 s; nothing moves. 0: "
                "disarms, with the brake"
            ),
            _arm_disarm,
            {1: one_of("arm", 0, 1), 2: one_of("force", 0, FORCE, unset=True)},
        ),
        mav.MAV_CMD_DO_SET_MODE: Command(
            "changes the mode",
            _set_mode,
            {1: between("flags", 0, 255, "", whole=True),
             2: between("custom mode", 0, 255, "", whole=True),
             3: one_of("sub mode", 0, unset=True)},
        ),
        mav.MAV_CMD_MISSION_START: Command(
            "AUTO", _auto,
            {1: one_of("first item", 0, unset=True), 2: one_of("last item", 0, unset=True)},
            lasts=True
        ),
        mav.MAV_CMD_NAV_RETURN_TO_LAUNCH: Command("RTL", _return, lasts=True),
        mav.MAV_CMD_DO_FLIGHTTERMINATION: Command(
            "above 0.5: emergency stop; 0: leaves the mode FAULT",
            _terminate,
            {1: Param("terminate", "0, or above 0.5",
             lambda value: value == 0.0 or 0.5 < value < inf)},
        ),
        mav.MAV_CMD_DO_PAUSE_CONTINUE: Command(
            "0: stops; 1: drives on after such a stop, once the vehicle is armed again", _pause,
            {1: one_of("continue", 0, 1)}
        ),
        mav.MAV_CMD_DO_CHANGE_SPEED: Command(
            (
                "limits the speed; -2 lifts the limit, -1 changes nothing, climb and descent "
                "speeds are ignored"
            ),
            _change_speed,
            {1: one_of("type", 0, 1, 2, 3),
             2: Param("speed", f"-1, -2, or above 0 and at most {MAX_SPEED_MPS:g} m/s",
                                                     lambda value: value in (-1.0, -2.0)
                                                     or 0.0 < value <= MAX_SPEED_MPS),
             3: between("throttle", -2, 100, "%", unset=True),
             4: one_of("relative", 0, unset=True)},
        ),
        mav.MAV_CMD_DO_REPOSITION: Command(
            "plans to a place and drives there, in GUIDED or with flag 1 (change mode)",
            _reposition,
            {1: between("speed, below 0 for any", -MAX_SPEED_MPS, MAX_SPEED_MPS, "m/s", unset=True),
             2: one_of("flags", 0, CHANGE_MODE),
             4: between("heading", -2 * pi, 2 * pi, "rad", unset=True)},
            has_place=True,
            lasts=True,
        ),
        mav.MAV_CMD_DO_SET_MISSION_CURRENT: Command(
            "accepts the first item only, while the vehicle does not drive",
            _set_current,
            {1: between("item", 0, 65535, "", whole=True), 2: one_of("reset", 0, 1, unset=True)},
        ),
        mav.MAV_CMD_SET_MESSAGE_INTERVAL: Command(
            "changes the rate of a message",
            lambda pilot, order, reply: _interval(schedule, pilot, order, reply),
            {1: _ID, 2: between("interval", -1, 1e9, "us")},
        ),
        mav.MAV_CMD_REQUEST_MESSAGE: Command("sends a message once", _message, {1: _ID},
            anybody=True),
        mav.MAV_CMD_GET_HOME_POSITION: Command(
            "sends HOME_POSITION", lambda pilot, _, reply: _send("HOME_POSITION", pilot, reply),
            anybody=True
        ),
        mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES: Command(
            "sends AUTOPILOT_VERSION",
            lambda pilot, _, reply: _send("AUTOPILOT_VERSION", pilot, reply),
            {1: one_of("request", 1)},
            anybody=True,
        ),
        mav.MAV_CMD_DO_SET_HOME: Command("is refused: home is where the vehicle was armed",
            _no_home),
    }  # fmt: skip


def _no_home(pilot: Pilot, _: Order, reply: Reply) -> None:
    reply(DENIED, "home is where the vehicle was armed: it cannot be set")
