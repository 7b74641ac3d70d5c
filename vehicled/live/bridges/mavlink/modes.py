"""Modes of ArduPilot's rover in terms of the daemon's. Pure."""

from enum import IntEnum
from typing import TYPE_CHECKING

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.core.messages import CourseKind, Mode, Reaction
from vehicled.safety.reason import ReasonCode

if TYPE_CHECKING:
    from vehicled.live.bridges.mavlink.view import RunState


class RoverMode(IntEnum):
    """Custom modes of ArduPilot's rover."""

    MANUAL = 0
    ACRO = 1
    STEERING = 3
    HOLD = 4
    LOITER = 5
    FOLLOW = 6
    SIMPLE = 7
    DOCK = 8
    CIRCLE = 9
    AUTO = 10
    RTL = 11
    SMART_RTL = 12
    GUIDED = 15
    INITIALISING = 16


CHOOSABLE = (RoverMode.HOLD, RoverMode.AUTO, RoverMode.RTL, RoverMode.GUIDED)
ARMED = frozenset({Mode.ARMED, Mode.AUTO, Mode.TELEOP, Mode.OFFBOARD, Mode.ALIGN, Mode.STOPPING})
_BY_COURSE = {CourseKind.GOTO: RoverMode.GUIDED, CourseKind.RETURN: RoverMode.RTL}
_BY_MODE = {
    Mode.INIT: RoverMode.INITIALISING,
    Mode.TELEOP: RoverMode.MANUAL,
    Mode.OFFBOARD: RoverMode.GUIDED,
    Mode.ALIGN: RoverMode.INITIALISING,
}


def shown_mode(state: "RunState", chosen: RoverMode) -> RoverMode:
    """Return the mode that a ground station shows. ``chosen``: mode that it asked for, shown until
    the vehicle drives."""
    if state.mode is Mode.AUTO:
        return _BY_COURSE.get(state.course_kind, RoverMode.AUTO)
    if state.mode in (Mode.STANDBY, Mode.ARMED):
        return chosen
    return _BY_MODE.get(state.mode, RoverMode.HOLD)


def base_mode(state: "RunState") -> int:
    """Return the bits of ``HEARTBEAT.base_mode``."""
    flags = mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
    flags |= mav.MAV_MODE_FLAG_SAFETY_ARMED if state.mode in ARMED else 0
    flags |= mav.MAV_MODE_FLAG_MANUAL_INPUT_ENABLED if state.mode is Mode.TELEOP else 0
    if state.mode in (Mode.AUTO, Mode.OFFBOARD, Mode.ALIGN):
        flags |= (
            mav.MAV_MODE_FLAG_AUTO_ENABLED
            | mav.MAV_MODE_FLAG_GUIDED_ENABLED
            | mav.MAV_MODE_FLAG_STABILIZE_ENABLED
        )
    return int(flags)


def system_status(state: "RunState") -> int:
    """Return ``HEARTBEAT.system_status``."""
    if state.mode is Mode.FAULT:
        return int(mav.MAV_STATE_EMERGENCY)
    # The stop at the end of a course is none that anybody must look at.
    if (
        state.mode is Mode.STOPPING
        and state.reaction is not Reaction.NONE
        and state.why_code != ReasonCode.COURSE_FINISHED
    ):
        return int(mav.MAV_STATE_CRITICAL)
    return int(
        {Mode.INIT: mav.MAV_STATE_BOOT, Mode.STANDBY: mav.MAV_STATE_STANDBY}.get(
            state.mode, mav.MAV_STATE_ACTIVE
        )
    )


SEVERITIES = {
    Reaction.NONE: 6, Reaction.WARN: 5, Reaction.CAP_SPEED: 4, Reaction.CONTROLLED_STOP: 3,
    Reaction.BRAKE: 2, Reaction.DISABLE: 1,
}  # fmt: skip
"""Severity of a STATUSTEXT by reaction: info, notice, warning, error, critical, alert."""
