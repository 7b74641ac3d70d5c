"""Modes of the daemon and the table of transitions between them."""

from enum import Enum

from msgspec import Struct

from vehicled.core.messages import Mode, OperatorAction


class Trigger(Enum):
    """Event that changes the mode; the value is its description."""

    STANDS = "the vehicle stands still"
    ARM = "arming was asked for and every check passed"
    DRIVE = "driving the course was asked for"
    ALIGN = "alignment by driving was asked for, and it may begin"
    TELEOP = "driving by hand was asked for, the stick is neutral and held"
    RC = (
        "the RC operator takes over, with the stick where it is; from a stop only if its cause "
        "is gone"
    )
    OFFBOARD = "driving by setpoints was asked for, and a program sends them"
    DISARM = "disarming was asked for"
    STOP = "a stop was asked for, the course is finished, or the heading is known"
    REACTION = "a fault asks for a stop (S2, S3), or the machine slept"
    DISABLE = "a fault asks for S4, or an emergency stop"
    RESET = "a reset was asked for and the cause is gone"


class Transition(Struct, frozen=True):
    """One transition from any of several modes to another mode."""

    before: frozenset[Mode]
    trigger: Trigger
    after: Mode


def _way(trigger: Trigger, after: Mode, *before: Mode) -> Transition:
    return Transition(frozenset(before), trigger, after)


DRIVING = frozenset({Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD})
MOVING = DRIVING | {Mode.STOPPING}
"""Modes in which the vehicle may move."""
MOVING_OR_ARMED = MOVING | {Mode.ARMED}

TRANSITIONS: tuple[Transition, ...] = (
    # The vehicle may roll when the daemon restarts, so it is braked to a standstill before it
    # accepts requests.
    _way(Trigger.STANDS, Mode.STANDBY, Mode.INIT, Mode.STOPPING),
    _way(Trigger.ARM, Mode.ARMED, Mode.STANDBY),
    _way(Trigger.DRIVE, Mode.AUTO, Mode.ARMED),
    # Teleop may take over at any time; back to AUTO leads through a stop.
    _way(Trigger.TELEOP, Mode.TELEOP, Mode.ARMED, Mode.AUTO, Mode.ALIGN, Mode.OFFBOARD),
    # The RC operator stands beside the vehicle and outranks every other source.
    _way(Trigger.RC, Mode.TELEOP, *DRIVING, Mode.STOPPING),
    _way(Trigger.OFFBOARD, Mode.OFFBOARD, Mode.ARMED, Mode.AUTO),
    _way(Trigger.ALIGN, Mode.ALIGN, Mode.ARMED),
    _way(Trigger.DISARM, Mode.STANDBY, Mode.ARMED),
    _way(Trigger.DISARM, Mode.STOPPING, *DRIVING),
    _way(Trigger.STOP, Mode.STOPPING, *DRIVING),
    _way(Trigger.REACTION, Mode.STOPPING, *DRIVING),
    _way(Trigger.REACTION, Mode.STANDBY, Mode.ARMED),
    _way(Trigger.DISABLE, Mode.FAULT, *(mode for mode in Mode if mode is not Mode.FAULT)),
    _way(Trigger.RESET, Mode.STANDBY, Mode.FAULT),
)
"""All transitions. A trigger without an entry for the present mode has no effect."""


DRIVES = (
    OperatorAction.DRIVE,
    OperatorAction.TELEOP,
    OperatorAction.ALIGN,
    OperatorAction.OFFBOARD,
)
"""Requests to drive."""
DRIVES_OR_ARM = frozenset({*DRIVES, OperatorAction.ARM})
_AFTER = {(before, way.trigger): way.after for way in TRANSITIONS for before in way.before}


def after(mode: Mode, trigger: Trigger) -> Mode | None:
    """Return the mode after a trigger; None if the trigger has no effect in this mode."""
    return _AFTER.get((mode, trigger))


def refusal(action: OperatorAction, mode: Mode, why: str, *, arms: bool, lasts: str = "") -> str:
    """Return why a request is refused; empty if it is accepted or waits for its checks.

    ``arms``: an arming request is pending. ``lasts``: text of an active device fault, which a reset
    cannot clear.
    """
    if mode is Mode.FAULT and lasts and action in (OperatorAction.ARM, OperatorAction.RESET):
        return f"the cause lasts: {lasts}"
    if action not in DRIVES_OR_ARM:
        return ""
    if mode is Mode.STOPPING:
        return f"the vehicle is being stopped ({why}): ask again when it stands"
    if action in (OperatorAction.ARM, OperatorAction.ALIGN):
        return f"the vehicle drives already ({why})" if mode in DRIVING else ""
    if mode is Mode.ALIGN and action in (OperatorAction.DRIVE, OperatorAction.OFFBOARD):
        return "the vehicle learns its heading: arm it when it stands"
    if mode is Mode.OFFBOARD and action is OperatorAction.DRIVE:
        return "the setpoints of a program drive: stop first, then arm"
    if mode is Mode.TELEOP:
        return (
            "the vehicle is driven by hand: stop it first, then arm"
            if action in (OperatorAction.DRIVE, OperatorAction.OFFBOARD)
            else ""
        )
    armed = mode in (Mode.ARMED, Mode.AUTO, Mode.ALIGN, Mode.OFFBOARD) or arms
    return "" if armed else f"the vehicle is not armed ({mode.name}: {why}): arm it first"
