"""Speaks MAVLink for the vehicle: telemetry out, commands in. Pure: time and messages are given, requests go to a callback.

A ground station sees an ArduPilot rover. Every command is answered; a refusal carries the daemon's reason as a STATUSTEXT.
"""

from collections.abc import Callable
from math import atan2, cos, degrees, hypot, inf, isfinite, nan, radians, sin
from typing import Any

from pymavlink.dialects.v20 import ardupilotmega as mav

from vehicled.bridges.mavlink.config import MavlinkConfig
from vehicled.bridges.mavlink.mission import (
    MOST_ITEMS,
    RETRIES,
    TIMEOUT_S,
    Item,
    MissionError,
    Upload,
    course_through,
    waypoints,
)
from vehicled.bridges.mavlink.modes import AUTO, GUIDED, HOLD, MANUAL, NAMES, RTL, SEVERITIES, base_mode, custom_mode, system_status
from vehicled.bridges.mavlink.parameters import names_of
from vehicled.bridges.mavlink.units import chunks, degrees_e7, heading_cdeg, heading_rad, integer
from vehicled.messages import (
    ControlCommand,
    Fault,
    GnssFix,
    HostHealth,
    ImuSample,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    StateEstimate,
)
from vehicled.paths.datum import Datum
from vehicled.paths.shortest import Pose
from vehicled.paths.stored import to_bytes
from vehicled.safety.reason import ReasonCode

KINDS: tuple[type[Message], ...] = (
    StateEstimate, GnssFix, ImuSample, MotorStatus, ControlCommand, HostHealth, ModeChange, Fault,
)  # fmt: skip
"""Message types that the bridge uses."""
ARMING_S = 3.0
"""Longest wait for arming before the command is answered, s."""
GUIDED_SPEED_MPS = 0.02
"""Speed below which a turn rate says nothing about the curvature."""

Answer = Callable[[dict[str, Any], str], None]
"""Function (answer of the daemon, reason of a refusal; one of both is empty)."""
Ask = Callable[[dict[str, Any], Answer], None]
"""Function that sends a request to the daemon, in order, and later calls the other function."""


class Autopilot:
    """State of the link to all ground stations."""

    def __init__(
        self, config: MavlinkConfig, send: Callable[[Any], None], ask: Ask, offer: Callable[[dict[str, Any]], None]
    ) -> None:
        """``send`` packs and sends a message; ``ask`` and ``offer`` send a request and a setpoint to the daemon."""
        self._config, self._send, self._ask, self._offer = config, send, ask, offer
        self._datum = Datum(*config.datum)
        self._newest: dict[type[Message], Any] = {}
        self._status: dict[str, Any] = {}
        self._now_s = 0.0
        self._intervals_s = dict(INTERVALS_S)
        self._due_s = dict.fromkeys(self._intervals_s, 0.0)
        self._chosen = HOLD
        """Custom mode that a ground station chose while the vehicle does not drive."""
        self._planned_waits = False
        """True if a planned course waits for the vehicle to be armed."""
        self._home: tuple[float, float] | None = None
        self._text = 0
        self._sequence = 0
        self._arming: tuple[float, Callable[[int], None]] | None = None
        """Time at which a pending arming command is refused, and what answers it."""
        self.mission: list[Item] = []
        self._arcs_m: list[tuple[float, int]] = []
        """Arc length and number of the waypoints that were not reached yet."""
        self._current = 0
        self._follows = False
        """True while the vehicle follows its course."""
        self._upload: Upload | None = None
        self._names: dict[str, str] = {}
        self._values: dict[str, float] = {}

    # ---------------------------------------------------------------- from the daemon

    def on_record(self, message: Message) -> None:
        """Take a message of the run."""
        self._newest[type(message)] = message
        if isinstance(message, ModeChange):
            self._say(f"{message.after.name}: {message.reason}", SEVERITIES[message.reaction.name])
            self._follows = message.after is Mode.AUTO
            if message.code == ReasonCode.COURSE_FINISHED and message.before is Mode.AUTO:
                self._reach(inf)
            estimate = self._newest.get(StateEstimate)
            if message.after is Mode.ARMED and estimate is not None:
                self._home = estimate.x_m, estimate.y_m
                self._send_message("HOME_POSITION")
        elif isinstance(message, Fault):
            if message.active:
                origin = f"{message.origin}: " if message.origin else ""
                self._say(f"{origin}{message.reason}", SEVERITIES[message.reaction.name])
        elif isinstance(message, ControlCommand) and self._follows:
            self._reach(message.progress_m)

    def on_status(self, status: dict[str, Any]) -> None:
        """Take the state of the run."""
        self._status = status
        if self._arming is not None and status.get("mode") not in ("INIT", "STANDBY", "FAULT"):
            self._answer_arming(mav.MAV_RESULT_ACCEPTED)

    def tick(self, now_s: float) -> None:
        """Send what is due. Call it at least 50 times a second."""
        self._now_s = now_s
        for name, due_s in self._due_s.items():
            if now_s >= due_s and self._intervals_s[name] > 0.0:
                self._due_s[name] = now_s + self._intervals_s[name]
                self._send_message(name)
        if self._arming is not None and now_s > self._arming[0]:
            for text in self._status.get("waiting_for", ()):
                self._say(f"arming waits: {text}", 3)
            self._answer_arming(mav.MAV_RESULT_TEMPORARILY_REJECTED)
        upload = self._upload
        if upload is not None and now_s > upload.due_s:
            self._ask_item(upload)

    # ---------------------------------------------------------------- telemetry

    def _send_message(self, name: str) -> bool:
        """Send a message by name, if it is known and there is something to say."""
        make = MESSAGES.get(name)
        message = make(self) if make is not None else None
        if message is not None:
            self._send(message)
        return message is not None

    @property
    def _boot_ms(self) -> int:
        estimate = self._newest.get(StateEstimate)
        t_ns = estimate.t_ns if estimate is not None else self._config.started_ns
        return max(t_ns - self._config.started_ns, 0) // 1_000_000 % 2**32

    def _heartbeat(self) -> Any:
        return mav.MAVLink_heartbeat_message(
            mav.MAV_TYPE_GROUND_ROVER, mav.MAV_AUTOPILOT_ARDUPILOTMEGA, base_mode(self._status),
            custom_mode(self._status, self._chosen), system_status(self._status), 3,
        )  # fmt: skip

    def _sys_status(self) -> Any:
        motor, host = self._newest.get(MotorStatus), self._newest.get(HostHealth)
        volts = motor.input_voltage_v if motor is not None else nan
        amps = motor.input_current_a if motor is not None else nan
        present = mav.MAV_SYS_STATUS_SENSOR_MOTOR_OUTPUTS
        for kind, bits in (
            (ImuSample, mav.MAV_SYS_STATUS_SENSOR_3D_GYRO | mav.MAV_SYS_STATUS_SENSOR_3D_ACCEL),
            (GnssFix, mav.MAV_SYS_STATUS_SENSOR_GPS),
        ):
            present |= bits if kind in self._newest else 0
        waiting = self._status.get("mode") in ("STANDBY", "FAULT") and bool(self._status.get("waiting_for"))
        arms = 0 if waiting else mav.MAV_SYS_STATUS_PREARM_CHECK
        present |= mav.MAV_SYS_STATUS_PREARM_CHECK
        load = integer(host.cpu_busy_share if host is not None else nan, 1000.0, 0, 1000)
        return mav.MAVLink_sys_status_message(
            present, present, present & ~mav.MAV_SYS_STATUS_PREARM_CHECK | arms, load, integer(volts, 1000.0, 0, 65535, 65535),
            integer(amps, 100.0, -32768, 32767, -1), -1, 0, 0, 0, 0, 0, 0,
        )  # fmt: skip

    def _battery(self) -> Any:
        motor = self._newest.get(MotorStatus)
        if motor is None:
            return None
        cells = [integer(motor.input_voltage_v, 1000.0, 0, 65534, 65535)] + [65535] * 9
        return mav.MAVLink_battery_status_message(
            0, mav.MAV_BATTERY_FUNCTION_ALL, mav.MAV_BATTERY_TYPE_UNKNOWN, 32767, cells,
            integer(motor.input_current_a, 100.0, -32768, 32767, -1), -1, -1, -1,
        )  # fmt: skip

    def _place(self) -> tuple[float, float, float] | None:
        """Return latitude, longitude in rad and height in m of the estimate."""
        estimate = self._newest.get(StateEstimate)
        if estimate is None or not isfinite(estimate.x_m + estimate.y_m):
            return None
        return self._datum.to_geodetic(estimate.x_m, estimate.y_m, 0.0)

    def _global_position(self) -> Any:
        place, estimate = self._place(), self._newest.get(StateEstimate)
        if place is None or estimate is None:
            return None
        east, north = estimate.speed_mps * cos(estimate.yaw_rad), estimate.speed_mps * sin(estimate.yaw_rad)
        speeds = (integer(value, 100.0, -32767, 32767) for value in (north, east, 0.0))
        return mav.MAVLink_global_position_int_message(
            self._boot_ms, degrees_e7(place[0]), degrees_e7(place[1]), integer(place[2], 1000.0), 0, *speeds,
            heading_cdeg(estimate.yaw_rad),
        )  # fmt: skip

    def _local_position(self) -> Any:
        estimate = self._newest.get(StateEstimate)
        if estimate is None or not isfinite(estimate.x_m + estimate.y_m + estimate.speed_mps + estimate.yaw_rad):
            return None
        east, north = estimate.speed_mps * cos(estimate.yaw_rad), estimate.speed_mps * sin(estimate.yaw_rad)
        return mav.MAVLink_local_position_ned_message(self._boot_ms, estimate.y_m, estimate.x_m, 0.0, north, east, 0.0)

    def _attitude(self) -> Any:
        estimate = self._newest.get(StateEstimate)
        if estimate is None or not isfinite(estimate.yaw_rad):
            return None
        rate = -estimate.yaw_rate_radps if isfinite(estimate.yaw_rate_radps) else 0.0
        return mav.MAVLink_attitude_message(self._boot_ms, 0.0, 0.0, heading_rad(estimate.yaw_rad), 0.0, 0.0, rate)

    def _gps_raw(self) -> Any:
        fix = self._newest.get(GnssFix)
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
            max(fix.t_ns + self._config.offset_ns, 0) // 1000, kind, degrees_e7(fix.latitude_rad), degrees_e7(fix.longitude_rad),
            integer(fix.height_m, 1000.0), integer(fix.hdop, 100.0, 0, 65534, 65535), integer(fix.vdop, 100.0, 0, 65534, 65535),
            integer(speed, 100.0, 0, 65534, 65535), integer(course, 100.0, 0, 35999, 65535), fix.satellites or 255,
        )  # fmt: skip

    def _vfr_hud(self) -> Any:
        estimate, place = self._newest.get(StateEstimate), self._place()
        if estimate is None or place is None or not isfinite(estimate.speed_mps):
            return None
        heading = heading_cdeg(estimate.yaw_rad)
        degrees_ = 0 if heading == 65535 else heading // 100
        control = self._newest.get(ControlCommand)
        throttle = integer(abs(control.throttle) if control is not None else 0.0, 100.0, 0, 100)
        return mav.MAVLink_vfr_hud_message(0.0, abs(estimate.speed_mps), degrees_, throttle, place[2], 0.0)

    def _system_time(self) -> Any:
        now_ns = self._config.started_ns + self._boot_ms * 1_000_000 + self._config.offset_ns
        return mav.MAVLink_system_time_message(max(now_ns, 0) // 1000, self._boot_ms)

    def _home_position(self) -> Any:
        if self._home is None:
            return None
        latitude, longitude, height = self._datum.to_geodetic(*self._home, 0.0)
        return mav.MAVLink_home_position_message(
            degrees_e7(latitude), degrees_e7(longitude), integer(height, 1000.0), self._home[1], self._home[0], 0.0,
            [1.0, 0.0, 0.0, 0.0], 0.0, 0.0, 0.0,
        )  # fmt: skip

    def _mission_current(self) -> Any:
        return mav.MAVLink_mission_current_message(self._current) if self.mission else None

    def _autopilot_version(self) -> Any:
        capabilities = (
            mav.MAV_PROTOCOL_CAPABILITY_MISSION_INT | mav.MAV_PROTOCOL_CAPABILITY_COMMAND_INT | mav.MAV_PROTOCOL_CAPABILITY_MAVLINK2
            | mav.MAV_PROTOCOL_CAPABILITY_PARAM_FLOAT | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_GLOBAL_INT
            | mav.MAV_PROTOCOL_CAPABILITY_SET_POSITION_TARGET_LOCAL_NED | mav.MAV_PROTOCOL_CAPABILITY_FLIGHT_TERMINATION
        )  # fmt: skip
        numbers = [int(part) if part.isdecimal() else 0 for part in f"{self._config.version}.0.0".split(".")[:3]]
        version = numbers[0] << 24 | numbers[1] << 16 | numbers[2] << 8 | 255
        return mav.MAVLink_autopilot_version_message(capabilities, version, 0, 0, 0, [0] * 8, [0] * 8, [0] * 8, 0, 0, 0)

    def _say(self, text: str, severity: int) -> None:
        """Send a text, in parts if it is long."""
        parts = chunks(text)
        self._text = self._text % 65535 + 1 if len(parts) > 1 else self._text
        for number, part in enumerate(parts):
            identity = self._text if len(parts) > 1 else 0
            self._send(mav.MAVLink_statustext_message(severity, part, identity, number))

    # ---------------------------------------------------------------- commands

    def on_message(self, message: Any) -> None:
        """Take a message of a ground station. What is not for this vehicle, or not understood, is ignored."""
        if getattr(message, "target_system", 0) not in (0, 1):
            return
        take = TAKES.get(message.get_type())
        if take is None:
            return
        if message.get_type() in ANYBODY or self._config.control_socket:
            take(self, message)
        else:
            self._refuse_all(message)

    def _refuse_all(self, message: Any) -> None:
        """Answer a command while commands are not taken."""
        self._say("commands are not taken: start vehicled with --mavlink-commands", 4)
        if message.get_type() in ("COMMAND_LONG", "COMMAND_INT"):
            self._ack(message, mav.MAV_RESULT_DENIED)
        elif message.get_type().startswith("MISSION_"):
            self._mission_ack(message, mav.MAV_MISSION_DENIED)

    def _beat(self, message: Any) -> None:
        if message.type == mav.MAV_TYPE_GCS and self._config.control_socket:
            self._offer({"do": "heartbeat", "origin": f"MAVLink {message.get_srcSystem()}"})

    def _ack(self, message: Any, result: int) -> None:
        self._send(
            mav.MAVLink_command_ack_message(message.command, result, 0, 0, message.get_srcSystem(), message.get_srcComponent())
        )

    def _answering(self, message: Any, then: Callable[[], None] | None = None) -> Answer:
        """Return a function that acknowledges a command by the daemon's answer."""

        def answer(reply: dict[str, Any], why: str) -> None:
            if why:
                self._say(why, 4)
            elif then is not None:
                then()
            self._ack(message, mav.MAV_RESULT_DENIED if why else mav.MAV_RESULT_ACCEPTED)

        return answer

    def _command(self, message: Any) -> None:
        """Follow a COMMAND_LONG or COMMAND_INT."""
        command, p1, p2 = message.command, message.param1, message.param2
        answer = self._answering(message)
        if command == mav.MAV_CMD_COMPONENT_ARM_DISARM:
            if p1 > 0.5:
                self._arm(lambda result: self._ack(message, result))
            else:
                self._request("disarm", answer)
        elif command == mav.MAV_CMD_DO_SET_MODE:
            self._set_mode(int(p2) if isfinite(p2) else -1, answer)
        elif command == mav.MAV_CMD_MISSION_START:
            self._set_mode(AUTO, answer)
        elif command == mav.MAV_CMD_NAV_RETURN_TO_LAUNCH:
            self._set_mode(RTL, answer)
        elif command == mav.MAV_CMD_DO_FLIGHTTERMINATION:
            self._request("emergency_stop" if p1 > 0.5 else "reset", answer)
        elif command == mav.MAV_CMD_DO_PAUSE_CONTINUE:
            self._request("stop" if p1 < 0.5 else "drive", answer)
        elif command == mav.MAV_CMD_DO_CHANGE_SPEED:
            self._ask({"do": "speed", "limit_mps": p2 if isfinite(p2) and p2 > 0.0 else None, "origin": ORIGIN}, answer)
        elif command == mav.MAV_CMD_DO_REPOSITION:
            self._goto_command(message, answer)
        elif command in (mav.MAV_CMD_SET_MESSAGE_INTERVAL, mav.MAV_CMD_REQUEST_MESSAGE):
            self._ack(message, self._message_command(command, p1, p2))
        elif command == mav.MAV_CMD_REQUEST_AUTOPILOT_CAPABILITIES:
            self._ack(message, mav.MAV_RESULT_ACCEPTED)
            self._send(self._autopilot_version())
        elif command == mav.MAV_CMD_DO_SET_HOME:
            self._say("home is where the vehicle was armed", 4)
            self._ack(message, mav.MAV_RESULT_DENIED)
        else:
            self._ack(message, mav.MAV_RESULT_UNSUPPORTED)

    def _message_command(self, command: int, number: float, interval_us: float) -> int:
        """Set the rate of a message, or send it once; return the result."""
        kind = mav.mavlink_map.get(int(number)) if isfinite(number) else None
        name = kind.msgname if kind is not None else ""
        if name not in MESSAGES:
            return int(mav.MAV_RESULT_UNSUPPORTED)
        if command == mav.MAV_CMD_REQUEST_MESSAGE:
            return int(mav.MAV_RESULT_ACCEPTED if self._send_message(name) else mav.MAV_RESULT_TEMPORARILY_REJECTED)
        if not isfinite(interval_us):
            return int(mav.MAV_RESULT_DENIED)
        if interval_us == 0.0:
            self._intervals_s[name] = INTERVALS_S.get(name, 0.0)
        else:
            self._intervals_s[name] = 0.0 if interval_us < 0.0 else max(interval_us * 1e-6, LEAST_INTERVAL_S)
        self._due_s[name] = 0.0
        return int(mav.MAV_RESULT_ACCEPTED)

    def _request(self, action: str, answer: Answer) -> None:
        self._ask({"do": "request", "action": action, "origin": ORIGIN}, answer)

    def _arm(self, acknowledge: Callable[[int], None]) -> None:
        """Arm, and answer once it has succeeded or waited too long. In AUTO the drive begins, as on ArduPilot."""

        def answer(reply: dict[str, Any], why: str) -> None:
            if why:
                self._say(why, 4)
                acknowledge(mav.MAV_RESULT_DENIED)
                return
            self._arming = self._now_s + ARMING_S, acknowledge
            if self._chosen == AUTO:
                self._drive_mission(lambda reply, why: None)
            elif self._planned_waits:
                self._planned_waits = False
                self._request("drive", lambda reply, why: None)

        self._request("arm", answer)

    def _answer_arming(self, result: int) -> None:
        if self._arming is not None:
            _, acknowledge = self._arming
            self._arming = None
            acknowledge(result)

    def _mode_message(self, message: Any) -> None:
        """Follow a SET_MODE, which has no acknowledgement."""
        self._set_mode(message.custom_mode, lambda reply, why: self._say(why, 4) if why else None)

    def _set_mode(self, wanted: int, answer: Answer) -> None:
        """Change to a mode of ArduPilot's rover. A disarmed vehicle remembers it and drives once it is armed."""
        if wanted not in NAMES or wanted == MANUAL:
            what = NAMES.get(wanted, str(wanted))
            answer({}, f"mode {what} cannot be chosen here: HOLD, AUTO, GUIDED and RTL can; drive by hand with vehicled teleop")
            return
        self._chosen = wanted
        mode = self._status.get("mode")
        if wanted == HOLD:
            self._request("stop", answer)
        elif wanted == RTL:
            self._planned({"do": "return", "origin": ORIGIN}, answer)
        elif wanted == AUTO and mode == "ARMED":
            self._drive_mission(answer)
        else:
            answer({}, "")

    def _planned(self, request: dict[str, Any], answer: Answer) -> None:
        """Ask for a planned course, and drive it if the vehicle is armed."""

        def then(reply: dict[str, Any], why: str) -> None:
            if why or reply.get("mode") != "ARMED":
                self._planned_waits = not why and reply.get("mode") == "STANDBY"
                answer(reply, why)
            else:
                self._request("drive", answer)

        self._ask(request, then)

    def _goto_command(self, message: Any, answer: Answer) -> None:
        if message.get_type() == "COMMAND_INT":
            latitude, longitude = message.x * 1e-7, message.y * 1e-7
        else:
            latitude, longitude = message.param5, message.param6
        self._goto(latitude, longitude, message.param4, message.param1, answer)

    def _goto(self, latitude_deg: float, longitude_deg: float, heading_deg: float, speed_mps: float, answer: Answer) -> None:
        if not (abs(latitude_deg) <= 90.0 and abs(longitude_deg) <= 180.0):
            answer({}, "the place has no latitude and longitude")
            return
        self._chosen = GUIDED
        request = {"do": "goto", "latitude_deg": latitude_deg, "longitude_deg": longitude_deg, "origin": ORIGIN}
        # ArduPilot's ground stations send 0 or NaN where they mean any heading.
        request["yaw_rad"] = heading_rad(radians(heading_deg)) if isfinite(heading_deg) and heading_deg != 0.0 else None
        request["speed_mps"] = speed_mps if isfinite(speed_mps) and 0.0 < speed_mps <= 100.0 else None
        self._planned(request, answer)

    def _global_target(self, message: Any) -> None:
        """Follow a SET_POSITION_TARGET_GLOBAL_INT that gives a place."""
        if message.type_mask & 0b11:
            self._say("a global target needs latitude and longitude", 4)
            return
        self._goto(message.lat_int * 1e-7, message.lon_int * 1e-7, nan, nan, lambda reply, why: self._say(why, 4) if why else None)

    def _local_target(self, message: Any) -> None:
        """Follow a SET_POSITION_TARGET_LOCAL_NED: a place, or a forward speed with a turn rate as a setpoint."""
        mask = message.type_mask
        if not mask & 0b11:
            if not isfinite(message.x + message.y):
                return
            request = {"do": "goto", "x_m": message.y, "y_m": message.x, "origin": ORIGIN}
            self._planned(request, lambda reply, why: self._say(why, 4) if why else None)
        elif not mask & 0b1000:
            turn = 0.0 if mask & 0x800 else message.yaw_rate
            if not isfinite(message.vx + turn):
                return
            slow = abs(message.vx) < GUIDED_SPEED_MPS
            curvature = 0.0 if slow else min(max(-turn / message.vx, -100.0), 100.0)
            self._sequence += 1
            speed_mps = min(max(message.vx, -100.0), 100.0)
            self._offer(
                {
                    "do": "setpoint",
                    "speed_mps": speed_mps,
                    "curvature_per_m": curvature,
                    "sequence": self._sequence,
                    "origin": ORIGIN,
                }
            )
            if self._status.get("mode") in ("ARMED", "AUTO") and self._sequence % 10 == 5:
                self._request("offboard", lambda reply, why: None)

    # ---------------------------------------------------------------- missions

    def _mission_ack(self, message: Any, result: int) -> None:
        self._send(mav.MAVLink_mission_ack_message(message.get_srcSystem(), message.get_srcComponent(), result))

    def _mission_count(self, message: Any) -> None:
        if getattr(message, "mission_type", 0):
            self._mission_ack(message, mav.MAV_MISSION_UNSUPPORTED)
        elif message.count > MOST_ITEMS:
            self._say(f"a mission has at most {MOST_ITEMS} items", 4)
            self._mission_ack(message, mav.MAV_MISSION_NO_SPACE)
        elif message.count == 0:
            self._mission_clear(message)
        else:
            self._upload = Upload(message.count, (message.get_srcSystem(), message.get_srcComponent()))
            self._ask_item(self._upload)

    def _ask_item(self, upload: Upload) -> None:
        """Ask for the next item, again if it did not come."""
        upload.tries += 1
        if upload.tries > RETRIES:
            self._upload = None
            self._say("the mission was not sent to its end", 4)
            self._send(mav.MAVLink_mission_ack_message(*upload.peer, mav.MAV_MISSION_OPERATION_CANCELLED))
            return
        upload.due_s = self._now_s + TIMEOUT_S
        self._send(mav.MAVLink_mission_request_int_message(*upload.peer, len(upload.items)))

    def _mission_item(self, message: Any) -> None:
        upload = self._upload
        if upload is None or (message.get_srcSystem(), message.get_srcComponent()) != upload.peer:
            return
        try:
            taken = upload.take(message)
        except MissionError as error:
            self._upload = None
            self._say(str(error), 4)
            self._mission_ack(message, error.result)
            return
        if not taken:
            return
        if len(upload.items) < upload.count:
            self._ask_item(upload)
            return
        self._upload = None
        self._take_mission(upload.items, message)

    def _take_mission(self, items: list[Item], message: Any) -> None:
        """Give a complete mission to the daemon as its course."""

        def answer(reply: dict[str, Any], why: str) -> None:
            if why:
                self._say(why, 4)
                self._mission_ack(message, mav.MAV_MISSION_ERROR)
                return
            self.mission = items
            self._mission_ack(message, mav.MAV_MISSION_ACCEPTED)

        try:
            self._send_course(items, answer)
        except MissionError as error:
            self._say(str(error), 4)
            self._mission_ack(message, error.result)

    def _send_course(self, items: list[Item], answer: Answer) -> None:
        """Ask for the course from where the vehicle is through a mission. Raises :class:`MissionError`."""
        estimate = self._newest.get(StateEstimate)
        if estimate is None or not isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad):
            raise MissionError(mav.MAV_MISSION_ERROR, "the vehicle has no position yet")
        places = waypoints(items, self._datum, self._home, self._config.usual_speed_mps)
        start = Pose(estimate.x_m, estimate.y_m, estimate.yaw_rad)
        radius_m = self._config.turn_radius_m
        course, arcs_m = course_through(start, places, turn_radius_m=radius_m, datum=self._datum, name="mission")

        def then(reply: dict[str, Any], why: str) -> None:
            if not why:
                self._arcs_m = list(zip(arcs_m, (place.item for place in places), strict=True))
                self._current = self._arcs_m[0][1]
            answer(reply, why)

        self._ask({"do": "course", "data": to_bytes(course), "origin": ORIGIN}, then)

    def _drive_mission(self, answer: Answer) -> None:
        """Drive the mission from where the vehicle is now, or the daemon's own course without one."""

        def then(reply: dict[str, Any], why: str) -> None:
            if why:
                answer(reply, why)
            else:
                self._request("drive", answer)

        if not self.mission:
            self._request("drive", answer)
            return
        try:
            self._send_course(self.mission, then)
        except MissionError as error:
            answer({}, str(error))

    def _reach(self, progress_m: float) -> None:
        """Report the waypoints up to a place on the course."""
        while self._arcs_m and progress_m >= self._arcs_m[0][0] - REACHED_M:
            _, number = self._arcs_m.pop(0)
            self._send(mav.MAVLink_mission_item_reached_message(number))
            self._current = self._arcs_m[0][1] if self._arcs_m else number

    def _mission_list(self, message: Any) -> None:
        self._send(mav.MAVLink_mission_count_message(message.get_srcSystem(), message.get_srcComponent(), len(self.mission)))

    def _mission_wanted(self, message: Any) -> None:
        if not 0 <= message.seq < len(self.mission):
            self._mission_ack(message, mav.MAV_MISSION_INVALID_SEQUENCE)
            return
        item = self.mission[message.seq]
        head = (message.get_srcSystem(), message.get_srcComponent(), message.seq, item.frame, item.command)
        current = int(message.seq == self._current)
        if message.get_type() == "MISSION_REQUEST":
            scale = 1e-4 if item.frame == mav.MAV_FRAME_LOCAL_NED else 1e-7
            place: tuple[float, float] = (item.x * scale, item.y * scale)
            self._send(mav.MAVLink_mission_item_message(*head, current, item.autocontinue, *item.params, *place, item.z))
        else:
            self._send(
                mav.MAVLink_mission_item_int_message(*head, current, item.autocontinue, *item.params, item.x, item.y, item.z)
            )

    def _mission_clear(self, message: Any) -> None:
        self.mission, self._arcs_m, self._upload, self._current = [], [], None, 0
        self._mission_ack(message, mav.MAV_MISSION_ACCEPTED)

    # ---------------------------------------------------------------- parameters

    def _parameters_wanted(self, message: Any) -> None:
        """Send all parameters, or one by name or number."""

        def answer(reply: dict[str, Any], why: str) -> None:
            if why:
                self._say(why, 4)
                return
            self._values = {row["key"]: row["value"] for row in reply["parameters"]}
            self._names = names_of(self._values)
            names = list(self._names)
            if message.get_type() == "PARAM_REQUEST_READ":
                number = message.param_index
                name = names[number] if 0 <= number < len(names) else _text(message.param_id)
                names = [name] if name in self._names else []
            for name in names:
                self._send_parameter(name)

        self._ask({"do": "parameters"}, answer)

    def _send_parameter(self, name: str) -> None:
        value, number = self._values[self._names[name]], list(self._names).index(name)
        kind = mav.MAV_PARAM_TYPE_REAL32
        self._send(mav.MAVLink_param_value_message(name.encode(), value, kind, len(self._names), number))

    def _parameter_set(self, message: Any) -> None:
        name, value = _text(message.param_id), message.param_value
        if name not in self._names or not isfinite(value):
            self._say(f"parameter {name} cannot be set to {value:g}: see vehicled param list", 4)
            return

        def answer(reply: dict[str, Any], why: str) -> None:
            if why:
                self._say(why, 4)
            else:
                self._values[self._names[name]] = value
            # The value that holds is the acknowledgement.
            self._send_parameter(name)

        self._ask({"do": "set_parameter", "key": self._names[name], "value": value, "origin": ORIGIN}, answer)

    # ---------------------------------------------------------------- small talk

    def _ping(self, message: Any) -> None:
        if message.target_system == 0:
            where = message.get_srcSystem(), message.get_srcComponent()
            self._send(mav.MAVLink_ping_message(message.time_usec, message.seq, *where))

    def _timesync(self, message: Any) -> None:
        if message.tc1 == 0:
            self._send(mav.MAVLink_timesync_message(int(self._now_s * 1e9), message.ts1))


ORIGIN = "MAVLink"
REACHED_M = 0.3
LEAST_INTERVAL_S = 0.02
INTERVALS_S = {
    "HEARTBEAT": 1.0, "SYS_STATUS": 1.0, "GLOBAL_POSITION_INT": 0.25, "LOCAL_POSITION_NED": 0.1, "ATTITUDE": 0.1,
    "GPS_RAW_INT": 0.5, "VFR_HUD": 0.25, "BATTERY_STATUS": 2.0, "SYSTEM_TIME": 1.0, "HOME_POSITION": 5.0, "MISSION_CURRENT": 1.0,
}  # fmt: skip
"""Interval of each message, s, unless a ground station asks for another."""
MESSAGES: dict[str, Callable[[Autopilot], Any]] = {
    "HEARTBEAT": Autopilot._heartbeat,
    "SYS_STATUS": Autopilot._sys_status,
    "BATTERY_STATUS": Autopilot._battery,
    "GLOBAL_POSITION_INT": Autopilot._global_position,
    "LOCAL_POSITION_NED": Autopilot._local_position,
    "ATTITUDE": Autopilot._attitude,
    "GPS_RAW_INT": Autopilot._gps_raw,
    "VFR_HUD": Autopilot._vfr_hud,
    "SYSTEM_TIME": Autopilot._system_time,
    "HOME_POSITION": Autopilot._home_position,
    "MISSION_CURRENT": Autopilot._mission_current,
    "AUTOPILOT_VERSION": Autopilot._autopilot_version,
}
"""Makers of the messages that the vehicle sends."""
TAKES: dict[str, Callable[[Autopilot, Any], None]] = {
    "HEARTBEAT": Autopilot._beat,
    "COMMAND_LONG": Autopilot._command,
    "COMMAND_INT": Autopilot._command,
    "SET_MODE": Autopilot._mode_message,
    "SET_POSITION_TARGET_GLOBAL_INT": Autopilot._global_target,
    "SET_POSITION_TARGET_LOCAL_NED": Autopilot._local_target,
    "MISSION_COUNT": Autopilot._mission_count,
    "MISSION_ITEM": Autopilot._mission_item,
    "MISSION_ITEM_INT": Autopilot._mission_item,
    "MISSION_REQUEST_LIST": Autopilot._mission_list,
    "MISSION_REQUEST": Autopilot._mission_wanted,
    "MISSION_REQUEST_INT": Autopilot._mission_wanted,
    "MISSION_CLEAR_ALL": Autopilot._mission_clear,
    "PARAM_REQUEST_LIST": Autopilot._parameters_wanted,
    "PARAM_REQUEST_READ": Autopilot._parameters_wanted,
    "PARAM_SET": Autopilot._parameter_set,
    "PING": Autopilot._ping,
    "TIMESYNC": Autopilot._timesync,
}
"""Reactions to the messages of a ground station."""
ANYBODY = frozenset({"HEARTBEAT", "MISSION_REQUEST_LIST", "MISSION_REQUEST", "MISSION_REQUEST_INT", "PING", "TIMESYNC"})
"""Messages that command nothing."""


def _text(value: Any) -> str:
    data = value if isinstance(value, bytes) else str(value).encode("ascii", "replace")
    return data.split(b"\0")[0].decode("ascii", "replace")
