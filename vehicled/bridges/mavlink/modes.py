"""Modes and commands of ArduPilot's rover in terms of the daemon's. Pure."""

from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.safety.reason import ReasonCode

MANUAL, HOLD, AUTO, RTL, GUIDED, INITIALISING = 0, 4, 10, 11, 15, 16
"""Custom modes of ArduPilot's rover."""
NAMES = {MANUAL: "MANUAL", HOLD: "HOLD", AUTO: "AUTO", RTL: "RTL", GUIDED: "GUIDED", INITIALISING: "INITIALISING"}
ARMED = ("ARMED", "AUTO", "TELEOP", "OFFBOARD", "ALIGN", "STOPPING")
RETURNS = "return"
"""Name of the daemon's course back to where the vehicle was armed."""
_GOTO = "goto "


def custom_mode(status: dict[str, Any], chosen: int) -> int:
    """Return the custom mode that a ground station shows. ``chosen``: mode that it asked for, shown until the vehicle drives."""
    mode, course = status.get("mode", "INIT"), str(status.get("course", ""))
    if mode == "AUTO":
        return RTL if course == RETURNS else GUIDED if course.startswith(_GOTO) else AUTO
    if mode in ("STANDBY", "ARMED"):
        return chosen
    return {"INIT": INITIALISING, "TELEOP": MANUAL, "OFFBOARD": GUIDED, "ALIGN": INITIALISING}.get(mode, HOLD)


def base_mode(status: dict[str, Any]) -> int:
    """Return the bits of ``HEARTBEAT.base_mode``."""
    mode = status.get("mode", "INIT")
    flags = mav.MAV_MODE_FLAG_CUSTOM_MODE_ENABLED
    flags |= mav.MAV_MODE_FLAG_SAFETY_ARMED if mode in ARMED else 0
    flags |= mav.MAV_MODE_FLAG_MANUAL_INPUT_ENABLED if mode == "TELEOP" else 0
    if mode in ("AUTO", "OFFBOARD", "ALIGN"):
        flags |= mav.MAV_MODE_FLAG_AUTO_ENABLED | mav.MAV_MODE_FLAG_GUIDED_ENABLED | mav.MAV_MODE_FLAG_STABILIZE_ENABLED
    return int(flags)


def system_status(status: dict[str, Any]) -> int:
    """Return ``HEARTBEAT.system_status``."""
    mode, reaction = status.get("mode", "INIT"), status.get("reaction", "NONE")
    if mode == "FAULT":
        return int(mav.MAV_STATE_EMERGENCY)
    # The stop at the end of a course is none that anybody must look at.
    if mode == "STOPPING" and reaction != "NONE" and status.get("why_code") != ReasonCode.COURSE_FINISHED:
        return int(mav.MAV_STATE_CRITICAL)
    return int({"INIT": mav.MAV_STATE_BOOT, "STANDBY": mav.MAV_STATE_STANDBY}.get(mode, mav.MAV_STATE_ACTIVE))


SEVERITIES = {"NONE": 6, "WARN": 5, "CAP_SPEED": 4, "CONTROLLED_STOP": 3, "BRAKE": 2, "DISABLE": 1}
"""Severity of a STATUSTEXT by reaction: info, notice, warning, error, critical, alert."""
