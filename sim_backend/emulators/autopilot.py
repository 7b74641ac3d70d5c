"""Emulator of an autopilot over MAVLink: ArduPilot Rover, or PX4 with a rover. Facts:
drivers/autopilot/NOTES.md.

It has no RC receiver. ArduPilot then holds the last pulses when the sticks end, until the failsafe
of its radio changes the mode to HOLD; PX4 disarms after COM_RC_LOSS_T. Neither arms before it has
had sticks.
"""

import struct
from collections.abc import Mapping
from math import atan2, degrees, hypot, isfinite, pi
from types import MappingProxyType

from drivers.autopilot import firmware
from drivers.autopilot.codec import (
    ARM,
    LONGEST_BYTES,
    MILLI_G,
    PROTOCOLS,
    REQUEST_MESSAGE,
    SET_INTERVAL,
    SET_MODE,
    VERSION_NUMBER,
    AutopilotVersion,
    BatteryStatus,
    CommandAck,
    CommandLong,
    Content,
    GpsRawInt,
    GpsRtcmData,
    HighresImu,
    ManualControl,
    MavAttitude,
    MavHeartbeat,
    MavlinkMessage,
    MavlinkWriter,
    MavRcChannels,
    ParamRequestRead,
    ParamValue,
    RawImu,
    Statustext,
    SysStatus,
    Timesync,
    WheelDistance,
    name_of,
    read,
)
from drivers.autopilot.corrections import Reassembly
from drivers.autopilot.firmware import ARDUPILOT, ARMED_FLAG, PX4, RELEASE, ROVER, StickScale
from sim_backend.emulators.inertial import (
    CRYSTAL_PPM,
    LONGEST_UPTIME_S,
    OutputSchedule,
    clockwise_from_north,
    frd,
)
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import AnsweringDevice, baud_of, on_its_line
from sim_backend.emulators.vesc_motor import HOLD_NS
from sim_backend.sensors.noise import stream
from vehicled.core.messages import (
    CarrierSolution,
    FixType,
    GnssFix,
    Heading,
    ImuSample,
    Message,
    MotorStatus,
    WheelSpeed,
)
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

MODE, OTHER_STICKS = "autopilot_mode", "autopilot_sticks"
HEARTBEAT, SYS_STATUS, CHANNELS, BATTERY = 0, 1, 65, 147
TIMED = (HEARTBEAT, SYS_STATUS, CHANNELS, BATTERY)
"""Messages that it sends by its own clock."""
MANUAL, HOLD = 0, 4
PX4_HOLD = 4 << 16 | 3 << 24
PX4_VERSION = 1 << 24 | 15 << 16 | 255
REAL32, INT32 = 9, 6
ACCEPTED, DENIED, UNSUPPORTED, FAILED = 0, 2, 3, 4
UNKNOWN_16 = 0xFFFF
CELSIUS = 40.0
_CARRIERS = {CarrierSolution.FLOAT: 5, CarrierSolution.FIXED: 6}


class AutopilotUnit(AnsweringDevice):
    """Autopilot as a :class:`sim_backend.emulators.line.LineDevice`, set up as the driver's table
    expects."""

    kinds: Mapping[str, float] = MappingProxyType({MODE: float(HOLD), OTHER_STICKS: 1.0})

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        *,
        autopilot: int = ARDUPILOT,
    ) -> None:
        super().__init__(baud_of(device.port))
        params = device.driver.selected
        self._params = params
        self._autopilot = autopilot
        self.system = params.target_system or 1
        chance = stream(seed, f"{port}/clock")
        self._rate = 1.0 + CRYSTAL_PPM * 1e-6 * float(chance.standard_normal())
        self._boot_ns = start_ns - round(float(chance.uniform(1.0, LONGEST_UPTIME_S)) * 1e9)
        self.parameters = self._factory()
        """Parameters by name; they are kept over a restart."""
        self.version = PX4_VERSION
        self._begin(start_ns)

    def _factory(self) -> dict[str, float]:
        timeout_s = self._params.timeout_ms * 1e-3
        if self._autopilot == PX4:
            return {
                "COM_RC_LOSS_T": min(0.5, timeout_s), "COM_RC_IN_MODE": 3.0, "NAV_RCL_ACT": 6.0,
            }  # fmt: skip
        found = {
            "SYSID_MYGCS": float(self._params.system_id), "RC_OPTIONS": 32.0,
            "RC_OVERRIDE_TIME": min(0.5, timeout_s), "FS_THR_ENABLE": 1.0,
            "FS_TIMEOUT": max(timeout_s - firmware.RADIO_LOST_S, 0.0), "FS_ACTION": 2.0,
            "RCMAP_THROTTLE": 3.0, "RCMAP_ROLL": 1.0,
        }  # fmt: skip
        for number in (1.0, 3.0):
            names = firmware.channel_parameters(number)
            found |= dict(zip(names, (1100.0, 1500.0, 1900.0, 30.0, 0.0), strict=True))
        return found

    def _begin(self, now_ns: int) -> None:
        self._framer = Framer(PROTOCOLS, LONGEST_BYTES + 1)
        self._rtcm = Reassembly()
        self.corrections: list[bytes] = []
        """Messages of RTCM for its receiver, which computes nothing with them."""
        self._writer = MavlinkWriter(self.system, 1)
        self.mode = PX4_HOLD if self._autopilot == PX4 else HOLD
        self.armed = False
        self.failsafe = False
        self._pulses: dict[str, int] = {}
        self._sticks_ns: int | None = None
        self._own_sticks = False
        self._hold_ns = now_ns
        self._volts, self._amperes = 0.0, -1.0
        self._yaw_cdeg, self._yaw_sigma = 0, 0.0
        self._metres, self._rolled_ns = 0.0, now_ns
        self._periods: dict[int, int] = {HEARTBEAT: 1_000_000_000}
        self._due: dict[int, int] = {HEARTBEAT: now_ns}
        self._paces: dict[int, OutputSchedule] = {}
        if not self._params.configure:
            for number in (*TIMED, 24, 27, 30, 105, 9000):
                self._set_interval(number, 1e5, now_ns)
            self._paces |= {k: OutputSchedule(self._params.rate_hz) for k in (27, 105)}

    # ---------------------------------------------------------------- its end of the wire

    def clock_us(self, t_ns: int) -> int:
        """Return the time since its start by its own clock."""
        return max(0, round((t_ns - self._boot_ns) * self._rate)) // 1000

    def restart(self, now_ns: int) -> None:
        self._boot_ns = now_ns
        self._tx.clear()
        self._answers.clear()
        self._begin(now_ns)

    def next_due_ns(self) -> int:
        return min(super().next_due_ns(), self._hold_ns, min(self._due.values()))

    def on_time(self, now_ns: int) -> None:
        super().on_time(now_ns)
        self._watch_sticks(now_ns)
        for number in TIMED:
            if self._due.get(number, now_ns + 1) <= now_ns:
                self._due[number] = now_ns + self._periods[number]
                self._send_state(number, now_ns)
        if now_ns >= self._hold_ns:
            self._emit(now_ns)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        for _, frame in self._framer.feed(data):
            message = read(frame)
            found = message.content
            match found:
                case ManualControl():
                    self._on_sticks(message, found, now_ns)
                case CommandLong() if found.target_system in (0, self.system):
                    result = self._obey(found, now_ns)
                    self._reply(CommandAck(found.command, result), now_ns)
                case GpsRtcmData():
                    if whole := self._rtcm.add(found):
                        self.corrections = [*self.corrections[-99:], whole]
                case Timesync() if not found.tc1:
                    self._send(Timesync(1000 * self.clock_us(now_ns), found.ts1))
                case ParamRequestRead() if found.target_system in (0, self.system):
                    self._report(name_of(found.param_id), now_ns)

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Let somebody else act: a mode by a switch of a transmitter, or its sticks in the
        middle."""
        if kind == OTHER_STICKS:
            self._own_sticks = active
        elif active:
            self.mode = round(value)
        self._emit(now_ns)

    def _reply(self, content: Content, now_ns: int) -> None:
        self.answer(self._writer.frame(content), now_ns)

    def _send(self, content: Content) -> None:
        self._tx.append(self._writer.frame(content))

    # ---------------------------------------------------------------- commands

    def _obey(self, found: CommandLong, now_ns: int) -> int:
        first, second = found.params[:2]
        if found.command == SET_INTERVAL:
            self._set_interval(round(first), second, now_ns)
            return ACCEPTED
        if found.command == REQUEST_MESSAGE and round(first) == VERSION_NUMBER:
            self._reply(AutopilotVersion(0, 0, self.version, 0, 0, 0, 0, 0, b""), now_ns)
            return ACCEPTED
        if found.command == SET_MODE:
            self.mode = round(second) << 16 if self._autopilot == PX4 else round(second)
            return ACCEPTED
        if found.command != ARM:
            return UNSUPPORTED
        if first and self._sticks_ns is None:
            self._reply(Statustext(2, b"PreArm: RC not found"), now_ns)
            return FAILED
        self.armed = bool(first)
        self._emit(now_ns)
        return ACCEPTED

    def _set_interval(self, number: int, period_us: float, now_ns: int) -> None:
        if number in TIMED and period_us > 0.0:
            self._periods[number] = round(period_us * 1000)
            self._due[number] = now_ns
        elif number not in TIMED:
            self._paces[number] = OutputSchedule(1e6 / period_us if period_us > 0.0 else 0.0)

    def _report(self, name: str, now_ns: int) -> None:
        """Answer with a parameter; an unknown name has no answer."""
        value = self.parameters.get(name)
        if value is None:
            return
        kind = REAL32
        if self._autopilot == PX4 and value == round(value) and not name.endswith("_T"):
            kind, value = INT32, struct.unpack("<f", struct.pack("<i", round(value)))[0]
        self._reply(ParamValue(value, len(self.parameters), 0, name.encode(), kind), now_ns)

    def _on_sticks(self, message: MavlinkMessage, found: ManualControl, now_ns: int) -> None:
        if found.target != self.system:
            return
        if self._autopilot == PX4:
            self._pulses = {"throttle": found.z, "steering": found.y}
        else:
            if message.system != round(self.parameters["SYSID_MYGCS"]):
                return
            if self.parameters.get("RC_OVERRIDE_TIME") == 0.0 or found.z == RELEASE:
                return
            self._pulses = {
                "throttle": self._scale("RCMAP_THROTTLE").pulse_us(found.z),
                "steering": self._scale("RCMAP_ROLL").pulse_us(found.y),
            }
        self._sticks_ns, self.failsafe = now_ns, False
        self._emit(now_ns)

    def _scale(self, function: str) -> StickScale:
        return firmware.channel(self.parameters, function)

    def _watch_sticks(self, now_ns: int) -> None:
        """Act when the sticks end. Before, the last ones stay."""
        if self._sticks_ns is None or self.failsafe:
            return
        silent_s = (now_ns - self._sticks_ns) * 1e-9
        known = self.parameters
        if self._autopilot == PX4:
            if silent_s >= known["COM_RC_LOSS_T"]:
                self.failsafe, self.armed = True, False
        elif known["FS_THR_ENABLE"] and silent_s >= firmware.RADIO_LOST_S + known["FS_TIMEOUT"]:
            self.failsafe = True
            if known["FS_ACTION"] == firmware.HOLD:
                self.mode = HOLD

    # ---------------------------------------------------------------- outputs

    @property
    def _manual(self) -> bool:
        return firmware.mode_name(self._autopilot, self.mode) == "manual"

    def _emit(self, now_ns: int) -> None:
        throttle, right = 0.0, 0.0
        if self._pulses and self._manual and not self._own_sticks:
            if self._autopilot == PX4:
                throttle = self._pulses["throttle"] / 500.0 - 1.0
                right = self._pulses["steering"] / 1000.0
            else:
                throttle = self._scale("RCMAP_THROTTLE").value(self._pulses["throttle"])
                right = self._scale("RCMAP_ROLL").value(self._pulses["steering"])
        self._commands.append(DriveCommand(now_ns, throttle if self.armed else 0.0, 0.0, -right))
        self._hold_ns = now_ns + HOLD_NS

    def _send_state(self, number: int, now_ns: int) -> None:
        if number == HEARTBEAT:
            state = 5 if self.failsafe and self.armed else 4 if self.armed else 3
            base = firmware.CUSTOM_MODE_FLAG | (ARMED_FLAG if self.armed else 0)
            self._send(MavHeartbeat(self.mode, ROVER, self._autopilot, base, state))
        elif number == SYS_STATUS:
            millivolts = round(1000 * self._volts) if self._volts > 0.0 else UNKNOWN_16
            current = round(100 * self._amperes) if self._amperes >= 0.0 else -1
            self._send(SysStatus(0, 0, 0, 0, millivolts, current, 0, 0, 0, 0, 0, 0, -1))
        elif number == BATTERY:
            cells = [UNKNOWN_16] * 10
            left = round(1000 * self._volts) if self._volts > 0.0 else 0
            for k in range(10):
                if left > 0:
                    cells[k] = min(left, UNKNOWN_16 - 1)
                    left -= cells[k]
            current = round(100 * self._amperes) if self._amperes >= 0.0 else -1
            self._send(BatteryStatus(-1, -1, 0x7FFF, tuple(cells), current, 0, 0, 0, -1))
        else:
            found = [0] * 18
            for function, name in (("RCMAP_ROLL", "steering"), ("RCMAP_THROTTLE", "throttle")):
                at = round(self.parameters.get(function, 1.0)) - 1
                found[at] = 1500 if self._own_sticks else self._pulses.get(name, 0)
            milliseconds = self.clock_us(now_ns) // 1000
            self._send(MavRcChannels(milliseconds, tuple(found), 8, 255))

    # ---------------------------------------------------------------- sensors

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, ImuSample):
            self._on_sample(message)
        elif isinstance(message, GnssFix):
            self._on_fix(message)
        elif isinstance(message, Heading) and isfinite(message.yaw_rad):
            self._on_heading(message)
        elif isinstance(message, MotorStatus):
            self._volts, self._amperes = message.input_voltage_v, message.input_current_a
        elif isinstance(message, WheelSpeed):
            self._on_wheels(message)

    def _due_now(self, number: int, t_ns: int) -> bool:
        pace = self._paces.get(number)
        return pace is not None and pace.due(t_ns)

    def _on_sample(self, message: ImuSample) -> None:
        force, rate = frd(message.specific_force_mps2), frd(message.angular_rate_radps)
        us, magnetic = self.clock_us(message.t_ns), (0, 0, 0)
        celsius = message.temperature_k - ZERO_CELSIUS_K
        celsius = celsius if isfinite(celsius) else CELSIUS
        if self._autopilot == PX4:
            if self._due_now(105, message.t_ns):
                zeros = (0.0,) * 6
                values = (*force, *rate, *zeros, celsius)
                self._send(HighresImu._make((us, *values, 0x103F, 0)))
        elif self._due_now(27, message.t_ns):
            counts = [_int16(value / MILLI_G) for value in force]
            counts += [_int16(1000 * value) for value in rate]
            self._send(RawImu._make((us, *counts, *magnetic, 0, _int16(100 * celsius))))

    def _on_fix(self, fix: GnssFix) -> None:
        if not self._due_now(24, fix.t_ns):
            return
        us = self.clock_us(fix.t_ns + round(self._params.gnss_latency_ms * 1e6))
        found = fix.fix_type not in (FixType.NONE, FixType.TIME) and isfinite(fix.latitude_rad)
        if not found:
            unknown = (UNKNOWN_16,) * 4
            self._send(GpsRawInt(us, 0, 0, 0, *unknown, 1, fix.satellites))
            return
        east, north = fix.velocity_enu_mps[:2]
        speed = hypot(east, north)
        moving = isfinite(speed)
        course = (90.0 - degrees(atan2(north, east))) % 360.0 if moving else 0.0
        height = round(1000 * fix.height_m)
        p, v = fix.position_covariance_m2, fix.velocity_covariance_m2ps2
        kind = _CARRIERS.get(fix.carrier, 4 if fix.differential else int(fix.fix_type) - 1)
        self._send(
            GpsRawInt(
                us,
                round(degrees(fix.latitude_rad) * 1e7),
                round(degrees(fix.longitude_rad) * 1e7),
                height,
                _dilution(fix.hdop),
                _dilution(fix.vdop),
                round(100 * speed) if moving else UNKNOWN_16,
                round(100 * course) if moving else UNKNOWN_16,
                kind,
                fix.satellites,
                height,
                _millimetres(p[0] + p[4]),
                _millimetres(p[8]),
                _millimetres(v[0] + v[4]),
                round(degrees(self._yaw_sigma) * 1e5),
                self._yaw_cdeg,
            )
        )

    def _on_heading(self, message: Heading) -> None:
        bearing = clockwise_from_north(message.yaw_rad)
        if self._params.heading == "antennas":
            self._yaw_cdeg = round(100 * degrees(bearing)) or 36_000
            self._yaw_sigma = message.sigma_rad
        elif self._due_now(30, message.t_ns):
            milliseconds = self.clock_us(message.t_ns) // 1000
            yaw = bearing if bearing <= pi else bearing - 2 * pi
            self._send(MavAttitude(milliseconds, 0.0, 0.0, yaw, 0.0, 0.0, 0.0))

    def _on_wheels(self, message: WheelSpeed) -> None:
        self._metres += message.speed_mps * (message.t_ns - self._rolled_ns) * 1e-9
        self._rolled_ns = message.t_ns
        if self._due_now(9000, message.t_ns):
            distances = (self._metres, self._metres, *(0.0,) * 14)
            self._send(WheelDistance(self.clock_us(message.t_ns), distances, 2))


def _int16(value: float) -> int:
    return max(-32768, min(32767, round(value))) if isfinite(value) else 0


def _millimetres(variance: float) -> int:
    return round(1000 * variance**0.5) if variance >= 0.0 else 0


def _dilution(value: float) -> int:
    return min(round(100 * value), UNKNOWN_16) if isfinite(value) else UNKNOWN_16


def _px4_unit(port: str, device: DeviceTable, seed: int, start_ns: int) -> AutopilotUnit:
    return AutopilotUnit(port, device, seed, start_ns, autopilot=PX4)


ardupilot = on_its_line(AutopilotUnit)
px4 = on_its_line(_px4_unit)
