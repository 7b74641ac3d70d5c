"""Differences between ArduPilot Rover and PX4: modes, the parameters that prove the time-out, and
the scale of the sticks. Pure. Sources: NOTES.md.

A parameter that is not known yet is missing in the dictionary of parameters.
"""

import struct
from collections.abc import Mapping
from typing import NamedTuple

from drivers.autopilot.codec import ManualControl

ARDUPILOT, PX4 = 3, 12
"""MAV_AUTOPILOT."""
ROVER, BOAT = 10, 11
"""MAV_TYPE of the vehicles that this driver drives."""
ARMED_FLAG, CUSTOM_MODE_FLAG = 0x80, 0x01
"""Bits of the base mode."""
CRITICAL = 5
"""MAV_STATE from which on a failsafe of the autopilot acts."""
RELEASE = 0x7FFF
"""Stick value that leaves an axis alone; in ArduPilot it ends the override of its channel."""
STICK = 1000
PX4_OLDEST = (1, 14)
"""First version of PX4 in which the middle of the throttle stick stands still."""
RADIO_LOST_S = 0.5
"""Time without any input after which ArduPilot Rover counts its radio as lost; not a parameter."""

ROVER_MODES = {
    0: "manual", 1: "acro", 3: "steering", 4: "hold", 5: "loiter", 6: "follow", 7: "simple",
    8: "dock", 9: "circle", 10: "auto", 11: "rtl", 12: "smart_rtl", 15: "guided",
    16: "initialising",
}  # fmt: skip
PX4_MODES = {
    1: "manual", 2: "altitude", 3: "position", 4: "auto", 5: "acro", 6: "offboard",
    7: "stabilized", 8: "rattitude", 9: "simple", 10: "termination",
}  # fmt: skip
INTEGERS = {1: "<B3x", 2: "<b3x", 3: "<H2x", 4: "<h2x", 5: "<I", 6: "<i"}
"""Layouts of the integers that PX4 puts into the float of a parameter, by MAV_PARAM_TYPE."""
RESULTS = {
    1: "temporarily rejected", 2: "denied", 3: "unsupported", 4: "failed", 5: "in progress",
    6: "cancelled",
}  # fmt: skip

ACTIONS = {0: "nothing", 1: "RTL, which drives home", 3: "SmartRTL", 4: "SmartRTL", 5: "terminate"}
HOLD = 2
"""FS_ACTION that stops a rover where it is."""
STOPPING_PX4 = {1: "Hold", 5: "Terminate", 6: "Disarm"}
"""NAV_RCL_ACT that leaves a rover where it is."""


class TimeoutVerdict(NamedTuple):
    """Judgement of the parameters."""

    missing: tuple[str, ...]
    """Parameters that are asked for and not known yet."""
    problem: str = ""
    timeout_ms: float | None = None


class StickScale(NamedTuple):
    """Calibration of one RC channel of ArduPilot: pulses in us."""

    low: float = 1000.0
    middle: float = 1500.0
    high: float = 2000.0
    dead_zone: float = 0.0
    reversed: bool = False

    @property
    def usable(self) -> bool:
        """True if the pulses are in order."""
        return self.low + self.dead_zone < self.middle < self.high - self.dead_zone

    def stick(self, value: float) -> int:
        """Return the stick from -1000 to 1000 for which the autopilot reads ``value``, -1 to 1."""
        value = -value if self.reversed else value
        pulse = self.middle
        if value > 0.0:
            pulse += self.dead_zone + value * (self.high - self.middle - self.dead_zone)
        elif value < 0.0:
            pulse += value * (self.middle - self.low - self.dead_zone) - self.dead_zone
        return round(2 * STICK * (pulse - self.low) / (self.high - self.low)) - STICK

    def pulse_us(self, stick: int) -> int:
        """Return the pulse that the autopilot makes of a stick, whole microseconds."""
        return int(self.low + (self.high - self.low) * (stick + STICK) / (2 * STICK))

    def value(self, pulse_us: float) -> float:
        """Return what the autopilot reads in a pulse, -1 to 1."""
        found = min(max(pulse_us, self.low), self.high) - self.middle
        if abs(found) <= self.dead_zone:
            return 0.0
        span = self.high - self.middle if found > 0.0 else self.middle - self.low
        scaled = (abs(found) - self.dead_zone) / (span - self.dead_zone)
        return scaled if (found > 0.0) != self.reversed else -scaled


def parameter(value: float, kind: int, autopilot: int) -> float:
    """Return the value of a parameter from its float on the wire."""
    layout = INTEGERS.get(kind)
    if autopilot != PX4 or layout is None:
        return value
    return float(struct.unpack(layout, struct.pack("<f", value))[0])


def mode_name(autopilot: int, custom_mode: int) -> str:
    """Return the name of a mode, in lower case."""
    if autopilot == PX4:
        return PX4_MODES.get(custom_mode >> 16 & 0xFF, f"mode_{custom_mode >> 16 & 0xFF}")
    return ROVER_MODES.get(custom_mode, f"mode_{custom_mode}")


def manual_mode(autopilot: int) -> int:
    """Return the number that DO_SET_MODE takes for the mode in which sticks move the vehicle."""
    return 1 if autopilot == PX4 else 0


def sticks(
    autopilot: int, system: int, throttle: float, right: float, scales: tuple[StickScale, ...]
) -> ManualControl:
    """Return the sticks for throttle and steering to the right, -1 to 1. ``scales``: those of
    throttle and steering in ArduPilot."""
    if autopilot == PX4:
        # PX4 reads 0 to 1000 as full reverse to full forward.
        y, z = round(STICK * right), round(STICK / 2 * (1.0 + throttle))
        return ManualControl(0, y, z, 0, 0, system)
    of_throttle, of_steering = scales
    return ManualControl(
        RELEASE, of_steering.stick(right), of_throttle.stick(throttle), RELEASE, 0, system
    )


def released(system: int) -> ManualControl:
    """Return the sticks that give all channels back to the transmitter."""
    return ManualControl(RELEASE, RELEASE, RELEASE, RELEASE, 0, system)


def judge_ardupilot(known: Mapping[str, float], own_system: int) -> TimeoutVerdict:
    """Judge the time-outs of ArduPilot Rover.

    With a receiver at the autopilot an override ends after RC_OVERRIDE_TIME. Without one the last
    pulses stay, until the failsafe of the radio acts: both must be set."""
    gcs = "MAV_GCS_SYSID" if "MAV_GCS_SYSID" in known else "SYSID_MYGCS"
    needed = [
        gcs, "RC_OPTIONS", "RC_OVERRIDE_TIME", "FS_THR_ENABLE", "FS_TIMEOUT", "FS_ACTION",
        "RCMAP_THROTTLE", "RCMAP_ROLL",
    ]  # fmt: skip
    for function in ("RCMAP_THROTTLE", "RCMAP_ROLL"):
        if function in known:
            needed += channel_parameters(known[function])
    missing = [name for name in needed if name not in known]
    if gcs in missing:
        # Newer versions have renamed it; one of the two is never answered.
        missing.append("MAV_GCS_SYSID")
    if missing:
        return TimeoutVerdict(tuple(missing))
    override_s, failsafe_s = known["RC_OVERRIDE_TIME"], known["FS_TIMEOUT"]
    action = round(known["FS_ACTION"])
    problem = ""
    if round(known[gcs]) != own_system:
        problem = (
            f"it obeys system {known[gcs]:g} alone, and this is {own_system}: set {gcs} to "
            f"{own_system}, or system_id of the driver"
        )
    elif round(known["RC_OPTIONS"]) & 2:
        problem = "it ignores sticks over MAVLink: clear bit 1 of RC_OPTIONS"
    elif override_s == 0.0:
        problem = "it ignores sticks over MAVLink: set RC_OVERRIDE_TIME to 0.5"
    elif override_s < 0.0:
        problem = "its overrides never end: set RC_OVERRIDE_TIME to 0.5"
    elif not known["FS_THR_ENABLE"]:
        problem = "without a receiver it would drive on without us: set FS_THR_ENABLE to 1"
    elif action != HOLD:
        problem = (
            f"its failsafe does not stop it (FS_ACTION {action}: "
            f"{ACTIONS.get(action, 'unknown')}): set FS_ACTION to 2, Hold"
        )
    for function in ("RCMAP_THROTTLE", "RCMAP_ROLL"):
        if not problem and not channel(known, function).usable:
            number = f"RC{known[function]:g}"
            problem = f"{number}_MIN, _TRIM and _MAX are not in order: calibrate the radio"
    return TimeoutVerdict((), problem, round(1e3 * max(override_s, RADIO_LOST_S + failsafe_s)))


def channel_parameters(number: float) -> list[str]:
    """Return the parameters of an RC channel."""
    return [f"RC{number:g}_{name}" for name in ("MIN", "TRIM", "MAX", "DZ", "REVERSED")]


def channel(known: Mapping[str, float], function: str) -> StickScale:
    """Return the calibration of the channel of a function; the common one where it is unknown."""
    found = [known.get(name) for name in channel_parameters(known.get(function, 0.0))]
    values = [value for value in found if value is not None]
    if len(values) < len(found):
        return StickScale()
    low, middle, high, dead_zone, reverse = values
    return StickScale(low, middle, high, dead_zone, bool(reverse))


def judge_px4(known: Mapping[str, float]) -> TimeoutVerdict:
    """Judge the time-out of PX4. ``VERSION`` among the parameters is that of its firmware."""
    needed = ("VERSION", "COM_RC_LOSS_T", "COM_RC_IN_MODE", "NAV_RCL_ACT")
    missing = tuple(name for name in needed if name not in known)
    if missing:
        return TimeoutVerdict(missing)
    version = round(known["VERSION"])
    found = version >> 24 & 0xFF, version >> 16 & 0xFF
    source, action = round(known["COM_RC_IN_MODE"]), round(known["NAV_RCL_ACT"])
    problem = ""
    if found < PX4_OLDEST:
        problem = (
            f"PX4 {found[0]}.{found[1]} takes half throttle for the middle of the stick: "
            "use 1.14 or newer"
        )
    elif source in (0, 4):
        problem = f"it ignores sticks over MAVLink: set COM_RC_IN_MODE to 1 (it is {source})"
    elif action not in STOPPING_PX4:
        problem = (
            f"the loss of its sticks does not stop it (NAV_RCL_ACT {action}): set it to 1, Hold, "
            "or 6, Disarm"
        )
    return TimeoutVerdict((), problem, round(1e3 * known["COM_RC_LOSS_T"]))
