"""Telemetry: the messages that the vehicle sends, each made from what the bridge knows of the run.
Pure."""

from collections.abc import Callable
from math import atan2, cos, degrees, hypot, isfinite, nan, sin
from typing import Any, NamedTuple

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.core.messages import (
    ControlCommand,
    GnssFix,
    HostHealth,
    ImuSample,
    Mode,
    MotorStatus,
    StateEstimate,
)
from vehicled.live.bridges.mavlink.modes import base_mode, shown_mode, system_status
from vehicled.live.bridges.mavlink.units import degrees_e7, heading_cdeg, heading_rad, integer
from vehicled.live.bridges.mavlink.view import RunView

LEAST_INTERVAL_S = 0.02


class TelemetryMessage(NamedTuple):
    """One message of the vehicle."""

    make: Callable[[RunView], Any]
    """Function that returns the message; None while there is nothing to say."""
    interval_s: float = 0.0
    """Interval unless a ground station asks for another, s; 0: only on request."""


def _heartbeat(view: RunView) -> Any:
    return mav.MAVLink_heartbeat_message(
        mav.MAV_TYPE_GROUND_ROVER, mav.MAV_AUTOPILOT_ARDUPILOTMEGA, base_mode(view.state),
        shown_mode(view.state, view.chosen), system_status(view.state), 3,
    )  # fmt: skip


def _sys_status(view: RunView) -> Any:
    motor, host = view.newest(MotorStatus), view.newest(HostHealth)
    volts = motor.input_voltage_v if motor is not None else nan
    amps = motor.input_current_a if motor is not None else nan
    present = mav.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS
    for kind, bits in (
        (ImuSample, mav.MAV_SYS_STATUS_SENSOR_3D_GYRO | mav.MAV_SYS_STATUS_SENSOR_3D_ACCEL),
        (GnssFix, mav.MAV_SYS_STATUS_SENSOR_GPS),
    ):
        present |= bits if view.newest(kind) is not None else 0
    waiting = view.state.mode in (Mode.STANDBY, Mode.FAULT) and bool(view.state.waiting_for)
    arms = 0 if waiting else mav.MAV_SYS_STATUS_PREARM_CHECK
    present |= mav.MAV_SYS_STATUS_PREARM_CHECK
    load = integer(host.cpu_busy_share if host is not None else nan, 1000.0, 0, 1000)
    return mav.MAVLink_sys_status_message(
        present, present, present & ~mav.MAV_SYS_STATUS_PREARM_CHECK | arms, load,
        integer(volts, 1000.0, 0, 65535, 65535), integer(amps, 100.0, -32768, 32767, -1), -1, 0, 0,
        0, 0, 0, 0,
    )  # fmt: skip


def _battery(view: RunView) -> Any:
    motor = view.newest(MotorStatus)
    if motor is None:
        return None
    cells = [integer(motor.input_voltage_v, 1000.0, 0, 65534, 65535)] + [65535] * 9
    return mav.MAVLink_battery_status_message(
        0, mav.MAV_BATTERY_FUNCTION_ALL, mav.MAV_BATTERY_TYPE_UNKNOWN, 32767, cells,
        integer(motor.input_current_a, 100.0, -32768, 32767, -1), -1, -1, -1,
    )  # fmt: skip


def _geodetic(view: RunView) -> tuple[float, float, float] | None:
    """Return latitude, longitude in rad and height in m of the estimate."""
    estimate = view.newest(StateEstimate)
    if estimate is None or not isfinite(estimate.x_m + estimate.y_m):
        return None
    return view.datum.to_geodetic(estimate.x_m, estimate.y_m, 0.0)


def _global_position(view: RunView) -> Any:
    place, estimate = _geodetic(view), view.newest(StateEstimate)
    if place is None or estimate is None:
        return None
    east = estimate.speed_mps * cos(estimate.yaw_rad)
    north = estimate.speed_mps * sin(estimate.yaw_rad)
    speeds = (integer(value, 100.0, -32767, 32767) for value in (north, east, 0.0))
    return mav.MAVLink_global_position_int_message(
        view.boot_ms, degrees_e7(place[0]), degrees_e7(place[1]), integer(place[2], 1000.0), 0,
        *speeds, heading_cdeg(estimate.yaw_rad),
    )  # fmt: skip


def _local_position(view: RunView) -> Any:
    estimate = view.newest(StateEstimate)
    if estimate is None or not isfinite(
        estimate.x_m + estimate.y_m + estimate.speed_mps + estimate.yaw_rad
    ):
        return None
    east = estimate.speed_mps * cos(estimate.yaw_rad)
    north = estimate.speed_mps * sin(estimate.yaw_rad)
    return mav.MAVLink_local_position_ned_message(
        view.boot_ms, estimate.y_m, estimate.x_m, 0.0, north, east, 0.0
    )


def _attitude(view: RunView) -> Any:
    estimate = view.newest(StateEstimate)
    if estimate is None or not isfinite(estimate.yaw_rad):
        return None
    rate = -estimate.yaw_rate_radps if isfinite(estimate.yaw_rate_radps) else 0.0
    return mav.MAVLink_attitude_message(
        view.boot_ms, 0.0, 0.0, heading_rad(estimate.yaw_rad), 0.0, 0.0, rate
    )


def _gps_raw(view: RunView) -> Any:
    fix = view.newest(GnssFix)
    if fix is None:
        return None
    east, north, _ = fix.velocity_enu_mps
    speed, course = hypot(east, north), nan
    if isfinite(speed) and speed > 0.1:
        course = degrees(heading_rad(atan2(north, east))) % 360.0
    kind = {"NONE": mav.GPS_FIX_TYPE_NO_FIX}.get(fix.fix_type.name, mav.GPS_FIX_TYPE_3D_FIX)
    if kind == mav.GPS_FIX_TYPE_3D_FIX:
        floats = {"FIXED": mav.GPS_FIX_TYPE_RTK_FIXED, "FLOAT": mav.GPS_FIX_TYPE_RTK_FLOAT}
        kind = floats.get(fix.carrier.name, mav.GPS_FIX_TYPE_DGPS if fix.differential else kind)
    return mav.MAVLink_gps_raw_int_message(
        max(fix.t_ns + view.config.offset_ns, 0) // 1000, kind, degrees_e7(fix.latitude_rad),
        degrees_e7(fix.longitude_rad), integer(fix.height_m, 1000.0),
        integer(fix.hdop, 100.0, 0, 65534, 65535), integer(fix.vdop, 100.0, 0, 65534, 65535),
        integer(speed, 100.0, 0, 65534, 65535), integer(course, 100.0, 0, 35999, 65535),
        fix.satellites or 255,
    )  # fmt: skip


def _vfr_hud(view: RunView) -> Any:
    estimate, place = view.newest(StateEstimate), _geodetic(view)
    if estimate is None or place is None or not isfinite(estimate.speed_mps):
        return None
    heading = heading_cdeg(estimate.yaw_rad)
    degrees_ = 0 if heading == 65535 else heading // 100
    control = view.newest(ControlCommand)
    throttle = integer(abs(control.throttle) if control is not None else 0.0, 100.0, 0, 100)
    return mav.MAVLink_vfr_hud_message(
        0.0, abs(estimate.speed_mps), degrees_, throttle, place[2], 0.0
    )


def _system_time(view: RunView) -> Any:
    now_ns = view.config.started_ns + view.boot_ms * 1_000_000 + view.config.offset_ns
    return mav.MAVLink_system_time_message(max(now_ns, 0) // 1000, view.boot_ms)


def _home_position(view: RunView) -> Any:
    if view.home is None:
        return None
    latitude, longitude, height = view.datum.to_geodetic(*view.home, 0.0)
    return mav.MAVLink_home_position_message(
        degrees_e7(latitude), degrees_e7(longitude), integer(height, 1000.0), view.home[1],
        view.home[0], 0.0, [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0,
    )  # fmt: skip


def _mission_current(view: RunView) -> Any:
    return (
        None
        if view.mission_current is None
        else mav.MAVLink_mission_current_message(view.mission_current)
    )


def _autopilot_version(view: RunView) -> Any:
    capabilities = (
        mav.MAV_PROTOCOL_CAPABILITY_MISSION_INT | mav.MAV_PROTOCOL_CAPABILITY_COMMAND_INT
        | mav.MAV_PROTOCOL_CAPABILITY_MAVLINK2 | mav.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT
        | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
        | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED
        | mav.MAV_PROTOCOL_CAPABILITY_FLIGHT_TERMINATION
    )  # fmt: skip
    numbers = [
        int(part) if part.isdecimal() else 0 for part in f"{view.config.version}.0.0".split(".")[:3]
    ]
    version = numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8 | 255
    return mav.MAVLink_autopilot_version_message(
        capabilities, version, 0, 0, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, 0
    )


TELEMETRY: dict[str, TelemetryMessage] = {
    "HEARTBEAT": TelemetryMessage(_heartbeat, 1.0),
    "SYS_STATUS": TelemetryMessage(_sys_status, 1.0),
    "GLOBAL_POSITION_INT": TelemetryMessage(_global_position, 0.25),
    "LOCAL_POSITION_NED": TelemetryMessage(_local_position, 0.1),
    "ATTITUDE": TelemetryMessage(_attitude, 0.1),
    "GPS_RAW_INT": TelemetryMessage(_gps_raw, 0.5),
    "VFR_HUD": TelemetryMessage(_vfr_hud, 0.25),
    "BATTERY_STATUS": TelemetryMessage(_battery, 2.0),
    "SYSTEM_TIME": TelemetryMessage(_system_time, 1.0),
    "HOME_POSITION": TelemetryMessage(_home_position, 5.0),
    "MISSION_CURRENT": TelemetryMessage(_mission_current, 1.0),
    "AUTOPILOT_VERSION": TelemetryMessage(_autopilot_version),
}
"""Messages of the vehicle by name."""


class Schedule:
    """Times at which the messages are due."""

    def __init__(self) -> None:
        self._intervals_s = {name: row.interval_s for name, row in TELEMETRY.items()}
        self._due_s = dict.fromkeys(TELEMETRY, 0.0)

    def due(self, now_s: float) -> list[str]:
        """Return the names of the messages that are due, and plan the next ones."""
        found = [
            name
            for name, due_s in self._due_s.items()
            if now_s >= due_s and self._intervals_s[name] > 0.0
        ]
        for name in found:
            self._due_s[name] = now_s + self._intervals_s[name]
        return found

    def set_interval(self, name: str, interval_us: float) -> None:
        """Follow a SET_MESSAGE_INTERVAL: 0 is the usual interval, a negative one stops the
        message."""
        usual_s = TELEMETRY[name].interval_s
        asked_s = 0.0 if interval_us < 0.0 else max(interval_us * 1e-6, LEAST_INTERVAL_S)
        self._intervals_s[name] = usual_s if interval_us == 0.0 else asked_s
        self._due_s[name] = 0.0
