"""Driver of an ArduPilot Rover or PX4 rover: drives it by sticks over MAVLink, and reads its
sensors.

Others may move the vehicle as well: the autopilot itself, a transmitter, a ground station. While
the daemon is armed, the driver asks for the mode in which sticks move the vehicle and arms the
autopilot. From the moment that both are so the vehicle is ours. If the autopilot then changes its
mode, disarms, reports a failsafe or acts on other sticks, the vehicle is no longer ours: that is a
fault, the sticks are given back at once, and nothing is asked for again before the daemon was
disarmed.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from math import isfinite, pi
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal

from msgspec import Meta

from drivers.autopilot import content as convert
from drivers.autopilot import firmware
from drivers.autopilot.codec import (
    ARM,
    LONGEST_BYTES,
    PROTOCOLS,
    REQUEST_MESSAGE,
    SET_INTERVAL,
    SET_MODE,
    VERSION_NUMBER,
    BatteryStatus,
    CommandAck,
    CommandLong,
    Content,
    GpsRawInt,
    HighresImu,
    MavAttitude,
    MavHeartbeat,
    MavlinkMessage,
    MavlinkWriter,
    MavRcChannels,
    ParamRequestRead,
    ParamValue,
    RawImu,
    ScaledImu,
    Statustext,
    SysStatus,
    Timesync,
    WheelDistance,
    name_of,
    read,
)
from drivers.autopilot.codec import AutopilotVersion as Version
from drivers.autopilot.corrections import MOST_BYTES, fragments
from drivers.autopilot.timesync import TimeSync
from drivers.imu.base import RANGE_SHARE, sound
from drivers.motor.base import APPEARS_NS, MotorDevice, MotorParams
from drivers.rtcm.codec import FrameReader, message_type
from drivers.rtcm.outgoing import TxQueue
from vehicled.core.messages import (
    NAN,
    ActuatorCommand,
    Corrections,
    Event,
    Fault,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
    Message,
    Mode,
    MotorStatus,
    Reaction,
    WheelSpeed,
)
from vehicled.core.messages.units import STANDARD_GRAVITY_MPS2
from vehicled.core.mixing import OutputKind
from vehicled.core.ports import NEVER_NS, Action, Transport
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.framing import Framer
from vehicled.core.wire.usage import Unused

AUTOPILOT_COMPONENT = 1
ONBOARD_CONTROLLER, NO_AUTOPILOT = 18, 8
"""MAV_TYPE and MAV_AUTOPILOT of this computer."""
ENGAGED = frozenset((Mode.ARMED, Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD, Mode.STOPPING))
"""Modes of the daemon in which the autopilot is ours."""
TAKE_NS = 3_000_000_000
"""Longest time from the arming of the daemon to that of the autopilot."""
REPEAT_NS = 300_000_000
"""Interval of the requests for mode and arming."""
LEAVE_NS = 1_000_000_000
"""Time for which the sticks stay in the middle after the daemon has disarmed."""
KEPT = ("silent", "config", "drive_refused", "battery")
"""Faults that the disarming of the daemon does not end."""
DISARM_TRIES = 10
RELEASES = 3
"""Frames that give the sticks back: one may be lost."""
HEARTBEAT_NS = 500_000_000
PARAMETER_NS = 500_000_000
"""Interval of the questions about parameters that are known, because anyone may change them."""
AT_ONCE = 4
"""Parameters that are asked for in one question."""
RATES_NS = 2_000_000_000
"""Interval at which the rates of messages are compared with those asked for."""
SETTLE_NS = 1_000_000_000
"""Time after which the autopilot's failsafe and its RC input must agree with ours."""
FOREIGN_STICKS_NS = 400_000_000
"""Time for which other pulses than ours must act before they count."""
PULSE_US = 4
GNSS_STALE_NS = 2_000_000_000
TEXT_NS = 10_000_000_000
MOST_TEXTS = 20
"""Texts reported within ``TEXT_NS``."""
TEXT_LEVELS = ("error",) * 4 + ("warning",) + ("info",) * 3
MOST_WHEELS = 16
CORRECTIONS_NS = 1_000_000_000
"""Age at which corrections that wait for the line are dropped."""
BATTERY_HZ = 2.0
SIGNED_TEXT = (
    "its messages are signed, and unsigned ones are ignored: switch MAVLink signing off at this "
    "port of the autopilot"
)

Rate = Annotated[float, Meta(ge=0.5, le=400.0)]


class AutopilotParams(MotorParams, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of an autopilot. ``latency_ms`` is the least age of its inertial samples and
    states on arrival."""

    timeout_ms: Annotated[int, Meta(ge=20, le=10_000)] = 2_000
    """Longest time accepted from the last stick to the standstill of the outputs, ms. With
    ArduPilot at least 500 + FS_TIMEOUT."""
    silence_s: Annotated[float, Meta(ge=0.02, le=5.0)] = 0.5
    """Age of its newest message that raises a fault, s."""
    system_id: Annotated[int, Meta(ge=1, le=255)] = 255
    """Our MAVLink system. ArduPilot obeys the one in SYSID_MYGCS (MAV_GCS_SYSID) alone. Choose
    another where the autopilot only measures."""
    target_system: Annotated[int, Meta(ge=0, le=255)] = 0
    """System of the autopilot; 0: the first that sends a heartbeat."""
    configure: bool = True
    """Ask for the messages that are needed at their rates. False: only listen."""
    takes_over: bool = True
    """Ask for manual mode and arm the autopilot when the daemon is armed, and disarm it afterwards.
    False: a person does it before."""
    rate_hz: Rate = 50.0
    """Rate of inertial samples, Hz."""
    gnss_rate_hz: Rate = 5.0
    """Rate of fixes, Hz: that of the receiver at the autopilot."""
    gnss_latency_ms: Annotated[float, Meta(ge=0.0, le=1000.0)] = 100.0
    """Age of a fix when the autopilot stamps it, ms."""
    heading: Literal["antennas", "attitude"] = "antennas"
    """Source of ``Heading``: two antennas of the receiver, or the autopilot's own filter, which
    needs to be trusted."""
    attitude_kind: Literal["inertial", "magnetic"] = "magnetic"
    """Error model of a heading from the autopilot's filter."""
    heading_sigma_rad: Annotated[float, Meta(gt=0.0, le=pi)] = 0.2
    """Sigma of a heading, rad, if none is stated."""
    accelerometer_range_mps2: Annotated[float, Meta(gt=0.0)] = 16 * STANDARD_GRAVITY_MPS2
    """Range of the accelerometer, m/s2; samples at its limit count as saturated."""
    gyro_range_radps: Annotated[float, Meta(gt=0.0)] = 2000 * pi / 180
    """Range of the gyro, rad/s."""


class AutopilotDevice(MotorDevice):
    """Driver of one autopilot. Its outputs are those of ArduPilot's throttle and steering; a skid
    steer is mixed by the autopilot."""

    name: ClassVar[str] = "autopilot"
    Params: ClassVar[type[AutopilotParams]] = AutopilotParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (
        GnssFix,
        ImuSample,
        Heading,
        MotorStatus,
        WheelSpeed,
        Fault,
        Event,
    )
    consumes: tuple[type[Message], ...] = (ActuatorCommand, Corrections)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"motor": "drive", "servo": "steer"}
    )

    def __init__(
        self, params: AutopilotParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._params = params
        self._framer = Framer(PROTOCOLS, LONGEST_BYTES + 1)
        self._writer = MavlinkWriter(params.system_id)
        self._force_limit = RANGE_SHARE * params.accelerometer_range_mps2
        self._rate_limit = RANGE_SHARE * params.gyro_range_radps
        self._now_ns = 0
        self._acts = ActuatorCommand in messages
        self._texts: deque[tuple[int, str]] = deque(maxlen=MOST_TEXTS)
        self._rtcm = FrameReader()
        self._corrections = TxQueue(CORRECTIONS_NS)
        self._sequence = 0
        if GnssFix not in messages and Heading not in messages:
            self.consumes = (ActuatorCommand,)
        super().__init__(params, messages, command_lifetime_ns)

    def _forget(self) -> None:
        super()._forget()
        self._system: int | None = None
        self._beat: MavHeartbeat | None = None
        self._parameters: dict[str, float] = {}
        self._asked: dict[str, None] = {}
        self._turn = 0
        self._scales = firmware.StickScale(), firmware.StickScale()
        self._clock = DeviceClock(
            tick_ns=1000.0, bits=None, latency_ns=round(self._common.latency_ms * 1e6)
        )
        self._sync = TimeSync()
        self._timed = False
        self._corrections.clear()
        self._rtcm.clear()
        self._imu_kind: type[Content] | None = None
        self._wheels: WheelDistance | None = None
        self._counts: dict[int, int] = {}
        self._rates_ns: int | None = None
        self._beaten_ns = self._parameter_ns = self._requested_ns = 0
        self._engaged = self._ours = False
        self._engaged_ns = self._ours_ns = self._left_ns = 0
        self._taken = self._denied = ""
        self._releases = self._disarms = 0
        self._pulses: deque[tuple[int, int, int]] = deque(maxlen=256)
        self._foreign_ns: int | None = None

    # ---------------------------------------------------------------- properties

    @property
    def bad_frames(self) -> int:
        """Frames with a start but a wrong shape, number or checksum."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._framer.dropped_bytes

    def _obstacle(self) -> str:
        return self._taken or super()._obstacle()

    def _why_silent(self) -> str:
        if self._framer.bad_frames and self._system is None:
            return "bytes arrive but no heartbeat of an autopilot: check the line rate"
        return (
            "check power, cable, line rate, and that its port speaks MAVLink (SERIALn_PROTOCOL 2, "
            "MAV_n_CONFIG)"
        )

    def _clear(self) -> None:
        self._framer.clear()

    def _silence_due_ns(self) -> int:
        due_ns = super()._silence_due_ns()
        # Heartbeats come once a second, and the first question follows one.
        waits = self._last_rx_ns is None and due_ns != NEVER_NS
        return due_ns + 2 * APPEARS_NS if waits else due_ns

    # ---------------------------------------------------------------- commands

    def on_command(self, command: Message, now_ns: int) -> None:
        if isinstance(command, Corrections):
            self._correct(command.data, now_ns)
        if not isinstance(command, ActuatorCommand):
            return
        self._now_ns, self._acts = now_ns, True
        engaged = command.mode in ENGAGED
        if engaged is not self._engaged:
            self._engaged = engaged
            if engaged:
                self._engaged_ns, self._requested_ns, self._ours = now_ns, 0, False
                self._denied = ""
            else:
                self._leave(now_ns)
        if engaged and not self._ours and not self._taken:
            self._wait(now_ns)
        super().on_command(command, now_ns)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        self._now_ns = now_ns
        return super().on_time(now_ns)

    def take_tx(self) -> Sequence[Action]:
        own = [each for each in super().take_tx() if getattr(each, "data", b"")]
        return [*own, *self._corrections.take()]

    def _correct(self, data: bytes, now_ns: int) -> None:
        """Pass messages of RTCM on to the autopilot's receiver. What is none of them stays here."""
        if self._system is None:
            return
        for message in self._rtcm.feed(data):
            if len(message) > MOST_BYTES:
                self.usage.refuse(
                    f"RTCM {message_type(message)}", Unused.OUT_OF_RANGE, "bytes", len(message)
                )
                continue
            self.usage.use("RTCM")
            parts = fragments(message, self._sequence)
            self._sequence = (self._sequence + 1) & 0x1F
            self._corrections.correct(b"".join(map(self._writer.frame, parts)), now_ns)

    def _leave(self, now_ns: int) -> None:
        """Handle the disarming of the daemon: stand still, then disarm and give the sticks back.
        What somebody else has taken over is left alone."""
        self._left_ns = now_ns
        mine = not self._taken and (self._ours or not self._obstacle())
        self._disarms = DISARM_TRIES if mine and self._params.takes_over else 0
        self._releases = RELEASES
        self._taken, self._ours = "", False
        for code in self._episodes.active():
            if code.removeprefix("autopilot_") not in KEPT:
                self._episodes.end(code, now_ns)

    def _wait(self, now_ns: int) -> None:
        """Report an autopilot that does not become ours in time."""
        if now_ns - self._engaged_ns < TAKE_NS or self._beat is None:
            return
        wanted = "is not armed" if self._manual else f"stays in mode {self._mode_name}"
        reasons = [text for t_ns, text in self._texts if now_ns - t_ns < 2 * TAKE_NS]
        arming = [text for text in reasons if "arm" in text.lower()] or reasons[-1:]
        why = "; ".join([each for each in (self._denied, *arming[-3:]) if each])
        self._lose("not_taken", f"the autopilot {wanted}" + (f": {why}" if why else ""), now_ns)

    def _lose(self, code: str, reason: str, now_ns: int) -> None:
        """Give the vehicle up until the daemon was disarmed."""
        self._episodes.start(f"autopilot_{code}", Reaction.BRAKE, reason, now_ns)
        self._taken, self._ours, self._releases = reason, False, RELEASES

    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        if self._system is None or self._beat is None:
            return b""
        autopilot, leaves = self._beat.autopilot, self._now_ns - self._left_ns < LEAVE_NS
        # Where the middle of its sticks is unknown, even the middle may drive.
        engaged = self._engaged and (self._ours or not self._obstacle())
        if not self._taken and (engaged or (self._disarms and leaves)):
            motor, servo = outputs
            motor = motor if self._ours and brake <= 0.0 else 0.0
            sticks = firmware.sticks(autopilot, self._system, motor, -servo, self._scales)
            of_throttle, of_steering = self._scales
            self._pulses.append(
                (self._now_ns, of_throttle.pulse_us(sticks.z), of_steering.pulse_us(sticks.y))
            )
            return self._writer.frame(sticks)
        if self._releases and autopilot == firmware.ARDUPILOT:
            self._releases -= 1
            return self._writer.frame(firmware.released(self._system))
        return b""

    # ---------------------------------------------------------------- questions

    def _ask(self) -> bytes:
        if not self._params.configure:
            return b""
        if self._system is None:
            # PX4 sends nothing on USB before it is spoken to.
            return self._own_beat()
        return self._rates() + self._ask_time() + (self._questions(AT_ONCE) if self._acts else b"")

    def _poll(self) -> bytes:
        now_ns = self._now_ns
        if self._system is None or not self._params.configure:
            return b""
        data = self._rates() + self._ask_time() + self._requests()
        if now_ns - self._beaten_ns >= HEARTBEAT_NS:
            self._beaten_ns = now_ns
            data += self._own_beat()
        if now_ns - self._parameter_ns >= PARAMETER_NS and self._timeout_ms is not None:
            self._parameter_ns = now_ns
            data += self._questions(1)
        return data

    def _ask_time(self) -> bytes:
        """Return a question for the autopilot's time, if one is due."""
        asked_ns = self._sync.ask(self._now_ns)
        if asked_ns is None:
            return b""
        return self._writer.frame(Timesync(0, asked_ns))

    def _own_beat(self) -> bytes:
        return self._writer.frame(MavHeartbeat(0, ONBOARD_CONTROLLER, NO_AUTOPILOT, 0, 4))

    def _command_long(self, command: int, *params: float) -> bytes:
        assert self._system is not None
        values = (*params, *(0.0,) * (7 - len(params)))
        return self._writer.frame(CommandLong(values, command, self._system, AUTOPILOT_COMPONENT))

    def _rates(self) -> bytes:
        """Return requests for the messages that come too rarely; at first for all."""
        now_ns, begun_ns = self._now_ns, self._rates_ns
        if begun_ns is not None and now_ns - begun_ns < RATES_NS:
            return b""
        elapsed_s = 0.0 if begun_ns is None else (now_ns - begun_ns) * 1e-9
        late = [
            (number, hz)
            for number, hz in self._wanted_rates().items()
            if begun_ns is None or self._counts.get(number, 0) < 0.5 * hz * elapsed_s
        ]
        self._rates_ns, self._counts = now_ns, {}
        return b"".join(
            self._command_long(SET_INTERVAL, float(number), 1e6 / hz) for number, hz in late
        )

    def _wanted_rates(self) -> dict[int, float]:
        """Return the rates by message number."""
        params, wanted = self._params, self._wanted
        px4 = self._beat is not None and self._beat.autopilot == firmware.PX4
        found = {0: 5.0, 1: 10.0}
        if MotorStatus in wanted:
            found[147] = BATTERY_HZ
        if ImuSample in wanted:
            found[105 if px4 else 27] = params.rate_hz
        if GnssFix in wanted or (Heading in wanted and params.heading == "antennas"):
            found[24] = params.gnss_rate_hz
        if Heading in wanted and params.heading == "attitude":
            found[30] = 20.0
        if WheelSpeed in wanted and not px4:
            found[9000] = 10.0
        if self._acts and not px4:
            found[65] = 10.0
        return found

    def _verdict(self) -> firmware.TimeoutVerdict:
        if self._beat is not None and self._beat.autopilot == firmware.PX4:
            return firmware.judge_px4(self._parameters)
        return firmware.judge_ardupilot(self._parameters, self._params.system_id)

    def _questions(self, most: int) -> bytes:
        """Return questions for the parameters that are missing; for known ones in turn if none
        is."""
        assert self._system is not None
        names = list(self._verdict().missing) or list(self._asked)
        data = b""
        for _ in range(min(most, len(names))):
            name = names[self._turn % len(names)]
            self._turn += 1
            self._asked[name] = None
            if name == "VERSION":
                data += self._command_long(REQUEST_MESSAGE, float(VERSION_NUMBER))
            else:
                data += self._writer.frame(
                    ParamRequestRead(-1, self._system, AUTOPILOT_COMPONENT, name.encode())
                )
        return data

    def _requests(self) -> bytes:
        """Return requests for mode and arming while the autopilot is not ours, and for disarming
        afterwards."""
        now_ns = self._now_ns
        if self._beat is None or now_ns - self._requested_ns < REPEAT_NS:
            return b""
        wanted = self._engaged and self._params.takes_over and not self._ours
        if wanted and not self._obstacle():
            self._requested_ns = now_ns
            if not self._manual:
                mode = float(firmware.manual_mode(self._beat.autopilot))
                return self._command_long(SET_MODE, float(firmware.CUSTOM_MODE_FLAG), mode)
            return b"" if self._armed else self._command_long(ARM, 1.0)
        if not self._engaged and self._disarms and now_ns - self._left_ns >= LEAVE_NS:
            self._requested_ns = now_ns
            self._disarms = self._disarms - 1 if self._armed else 0
            return self._command_long(ARM, 0.0) if self._disarms else b""
        return b""

    # ---------------------------------------------------------------- reception

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        for _, frame in self._framer.feed(data):
            self._on_message(read(frame), t_rx_ns)
            # After each frame, so that the order does not depend on how the bytes arrive.
            if self.usage.news:
                self._out += self.usage.take_events(t_rx_ns, self.name)
        return self._take(t_rx_ns)

    def _on_message(self, message: MavlinkMessage, t_rx_ns: int) -> None:
        name, found = message.name, message.content
        if self._system is None and isinstance(found, MavHeartbeat):
            self._adopt(message, found)
        if message.system != self._system or message.component != AUTOPILOT_COMPONENT:
            self.usage.refuse(name, Unused.FOREIGN)
            return
        self._arrived(t_rx_ns)
        self._counts[message.number] = self._counts.get(message.number, 0) + 1
        if message.signed:
            self.usage.refuse(name, Unused.OTHER_PROTOCOL, "signature")
            self._known(t_rx_ns, SIGNED_TEXT)
            return
        match found:
            case MavHeartbeat():
                self.usage.use(name)
                self._on_heartbeat(found, t_rx_ns)
            case RawImu() | ScaledImu() | HighresImu():
                self._on_sample(name, found, t_rx_ns)
            case GpsRawInt():
                self._on_fix(name, found, t_rx_ns)
            case MavAttitude():
                self._on_attitude(name, found, t_rx_ns)
            case SysStatus():
                self.usage.use(name)
                self._on_status(name, found, t_rx_ns)
            case BatteryStatus():
                self._on_battery(name, found, t_rx_ns)
            case Timesync():
                self._on_timesync(name, found, t_rx_ns)
            case WheelDistance():
                self._on_wheels(name, found, t_rx_ns)
            case MavRcChannels():
                self.usage.use(name)
                self._time_ns(found.time_boot_ms * 1000, t_rx_ns)
                self._on_channels(found, t_rx_ns)
            case ParamValue() | Version():
                self._on_parameter(name, found, t_rx_ns)
            case CommandAck():
                self.usage.use(name)
                self._on_answer(found)
            case Statustext():
                self.usage.use(name)
                self._on_text(found, t_rx_ns)
            case _:
                self.usage.refuse(name, Unused.NOT_READ)

    def _adopt(self, message: MavlinkMessage, beat: MavHeartbeat) -> None:
        """Take the first autopilot that sends a heartbeat; cameras and ground stations are none."""
        chosen = self._params.target_system in (0, message.system)
        if (
            chosen
            and beat.autopilot != NO_AUTOPILOT
            and message.component == AUTOPILOT_COMPONENT
            and not message.signed
        ):
            self._system = message.system

    # ---------------------------------------------------------------- state of the autopilot

    @property
    def _manual(self) -> bool:
        return self._mode_name == "manual"

    @property
    def _mode_name(self) -> str:
        beat = self._beat
        return "" if beat is None else firmware.mode_name(beat.autopilot, beat.custom_mode)

    @property
    def _armed(self) -> bool:
        return self._beat is not None and bool(self._beat.base_mode & firmware.ARMED_FLAG)

    def _on_heartbeat(self, beat: MavHeartbeat, t_rx_ns: int) -> None:
        first, self._beat = self._beat is None, beat
        if first:
            self._ask_due_ns = min(self._ask_due_ns, t_rx_ns)
            self._judge(t_rx_ns)
        if not self._engaged or self._taken:
            return
        if not self._ours:
            if self._manual and self._armed:
                self._ours, self._ours_ns, self._foreign_ns = True, t_rx_ns, None
            return
        if not self._manual:
            mode = self._mode_name
            text = (
                f"the autopilot changed to {mode}: its transmitter, its failsafe or a ground "
                "station has taken over"
            )
            self._lose(f"mode_{mode}", text, t_rx_ns)
        elif not self._armed:
            self._lose("disarmed", "the autopilot has disarmed", t_rx_ns)
        elif beat.system_status >= firmware.CRITICAL and t_rx_ns - self._ours_ns >= SETTLE_NS:
            self._lose("failsafe", "the autopilot reports a failsafe", t_rx_ns)

    def _on_channels(self, found: MavRcChannels, t_rx_ns: int) -> None:
        """Compare the pulses on which ArduPilot acts with those that our sticks make."""
        while self._pulses and t_rx_ns - self._pulses[0][0] > SETTLE_NS:
            self._pulses.popleft()
        known = self._parameters
        if not self._ours or t_rx_ns - self._ours_ns < SETTLE_NS or not self._pulses:
            self._foreign_ns = None
            return
        foreign = []
        for at, function in enumerate(("RCMAP_THROTTLE", "RCMAP_ROLL"), 1):
            number = round(known.get(function, 0.0))
            if not 1 <= number <= len(found.channels):
                return
            sent = [each[at] for each in self._pulses]
            pulse = found.channels[number - 1]
            foreign.append(not min(sent) - PULSE_US <= pulse <= max(sent) + PULSE_US)
        if not any(foreign):
            self._foreign_ns = None
        elif self._foreign_ns is None:
            self._foreign_ns = t_rx_ns
        elif t_rx_ns - self._foreign_ns >= FOREIGN_STICKS_NS:
            text = (
                "the autopilot acts on other sticks than ours: of its transmitter (a switch with "
                "option 46 is off), or of another program"
            )
            self._lose("other_sticks", text, t_rx_ns)

    def _on_parameter(self, name: str, found: ParamValue | Version, t_rx_ns: int) -> None:
        if isinstance(found, Version):
            key, value = "VERSION", float(found.flight_sw_version)
        else:
            assert self._system is not None
            autopilot = 0 if self._beat is None else self._beat.autopilot
            key = name_of(found.param_id)
            value = firmware.parameter(found.param_value, found.param_type, autopilot)
        if key not in self._asked:
            self.usage.refuse(name, Unused.NOT_READ)
            return
        if not isfinite(value):
            self.usage.refuse(name, Unused.NOT_FINITE, key)
            return
        self.usage.use(name)
        self._parameters[key] = value
        self._judge(t_rx_ns)

    def _judge(self, t_rx_ns: int) -> None:
        """Judge kind, version and parameters of the autopilot, as far as it is to be driven."""
        beat = self._beat
        if beat is None or not self._acts:
            return
        if beat.autopilot not in (firmware.ARDUPILOT, firmware.PX4):
            self._known(t_rx_ns, f"autopilot {beat.autopilot} is neither ArduPilot nor PX4")
            return
        if beat.type not in (firmware.ROVER, firmware.BOAT):
            text = f"it controls a vehicle of type {beat.type}, and only rovers (10) are driven"
            self._known(t_rx_ns, text)
            return
        verdict = self._verdict()
        if verdict.missing:
            return
        throttle, steering = (
            firmware.channel(self._parameters, each) for each in ("RCMAP_THROTTLE", "RCMAP_ROLL")
        )
        if throttle.usable and steering.usable:
            self._scales = throttle, steering
        of = "PX4" if beat.autopilot == firmware.PX4 else "ArduPilot"
        self._known(t_rx_ns, verdict.problem, verdict.timeout_ms, firmware=of)

    def _on_answer(self, found: CommandAck) -> None:
        if found.command in (ARM, SET_MODE):
            what = "arming" if found.command == ARM else "manual mode"
            why = firmware.RESULTS.get(found.result, f"answered with {found.result}")
            self._denied = f"{what} {why}" if found.result else ""

    def _on_text(self, found: Statustext, t_rx_ns: int) -> None:
        """Report a text for people, each once in a while: pre-arm failures repeat."""
        text = found.text.partition(b"\0")[0].decode("utf-8", "replace").strip()
        recent = [each for t_ns, each in self._texts if t_rx_ns - t_ns < TEXT_NS]
        if not text or text in recent or len(recent) >= MOST_TEXTS:
            return
        self._texts.append((t_rx_ns, text))
        level = TEXT_LEVELS[min(found.severity, len(TEXT_LEVELS) - 1)]
        self._out.append(Event.of(t_rx_ns, level, "autopilot_text", text=text))

    # ---------------------------------------------------------------- time

    def _time_ns(self, time_usec: int, t_rx_ns: int) -> int:
        """Return the time of a message by the autopilot's clock, and by its answers to TIMESYNC."""
        resets, self._timed = self._clock.resets, True
        t_ns = self._clock.update(time_usec, t_rx_ns)
        if self._clock.resets != resets:
            self._sync.restart()
        return min(t_ns + self._sync.shift_ns, t_rx_ns)

    def _on_timesync(self, name: str, found: Timesync, t_rx_ns: int) -> None:
        """Take an answer; a question of the autopilot has no time in it and is left alone."""
        if not found.tc1:
            self.usage.refuse(name, Unused.NOT_READ)
            return
        known = self._sync.known
        if not self._timed:
            # Nothing with a time of the autopilot has arrived yet to compare with.
            self.usage.refuse(name, Unused.NO_TIME)
            return
        problem = self._sync.answer(found.tc1, found.ts1, t_rx_ns, self._clock.offset_ns)
        if problem is not None:
            self.usage.refuse(name, *problem)
            return
        self.usage.use(name)
        if not known:
            late_ms, trip_ms = -self._sync.shift_ns * 1e-6, self._sync.trip_ns * 1e-6
            self._out.append(
                Event.of(
                    t_rx_ns,
                    "info",
                    "autopilot_time",
                    least_latency_ms=round(late_ms, 2),
                    round_trip_ms=round(trip_ms, 2),
                )
            )

    # ---------------------------------------------------------------- sensors

    def _on_sample(self, name: str, found: RawImu | ScaledImu | HighresImu, t_rx_ns: int) -> None:
        if isinstance(found, RawImu) and (
            self._beat is None or self._beat.autopilot != firmware.ARDUPILOT
        ):
            # Elsewhere its unit is that of the sensor.
            self.usage.refuse(name, Unused.NOT_READ)
            return
        if isinstance(found, RawImu | HighresImu) and found.id:
            self.usage.refuse(name, Unused.FOREIGN)
            return
        if self._imu_kind is None or isinstance(found, HighresImu):
            self._imu_kind = type(found)
        if type(found) is not self._imu_kind:
            self.usage.refuse(name, Unused.DUPLICATE)
            return
        if ImuSample not in self._wanted:
            self.usage.refuse(name, Unused.NOT_WANTED)
            return
        for sample in sound(self.usage, name, convert.sample(found)):
            force, rate = sample.specific_force_mps2, sample.angular_rate_radps
            assert force is not None
            assert rate is not None
            assert sample.counter is not None
            t_ns = self._time_ns(sample.counter, t_rx_ns)
            saturated = (
                max(map(abs, force)) >= self._force_limit or max(map(abs, rate)) >= self._rate_limit
            )
            kelvin = NAN if sample.temperature_k is None else sample.temperature_k
            self._out.append(ImuSample(t_ns, t_rx_ns, force, rate, kelvin, saturated))

    def _on_fix(self, name: str, found: GpsRawInt, t_rx_ns: int) -> None:
        t_ns = self._gnss_time_ns(found.time_usec, t_rx_ns)
        wants_heading = Heading in self._wanted and self._params.heading == "antennas"
        if GnssFix not in self._wanted and not wants_heading:
            self.usage.refuse(name, Unused.NOT_WANTED)
            return
        problem = convert.fix_problem(found)
        if problem is not None:
            self.usage.refuse(name, *problem)
        else:
            self.usage.use(name)
            if not found.alt_ellipsoid:
                self.usage.remark(name, "its heights are above mean sea level, as none other came")
        if GnssFix in self._wanted:
            self._out.append(convert.fix(found, t_ns, t_rx_ns))
        yaw_rad, sigma_rad = convert.antenna_yaw(found)
        if wants_heading and isfinite(yaw_rad):
            doubt = sigma_rad if isfinite(sigma_rad) else self._params.heading_sigma_rad
            self._out.append(Heading(t_ns, t_rx_ns, yaw_rad, doubt, HeadingKind.MOVING_BASE))

    def _gnss_time_ns(self, time_usec: int, t_rx_ns: int) -> int:
        """Return the time of a fix. Its stamp counts from the start of the autopilot, or is UTC,
        which says nothing here."""
        latency_ns = round(self._params.gnss_latency_ms * 1e6)
        stamped_ns = self._clock.time_of(time_usec) if time_usec < 1 << 62 else None
        if stamped_ns is None or not 0 <= t_rx_ns - stamped_ns <= GNSS_STALE_NS:
            stamped_ns = t_rx_ns
        else:
            stamped_ns += self._sync.shift_ns
        return stamped_ns - latency_ns

    def _on_attitude(self, name: str, found: MavAttitude, t_rx_ns: int) -> None:
        t_ns = self._time_ns(found.time_boot_ms * 1000, t_rx_ns)
        yaw_rad = convert.yaw_of_attitude(found.yaw)
        if Heading not in self._wanted or self._params.heading != "attitude":
            self.usage.refuse(name, Unused.NOT_WANTED)
        elif not isfinite(yaw_rad):
            self.usage.refuse(name, Unused.NOT_FINITE, "yaw")
        else:
            self.usage.use(name)
            kind = HeadingKind[self._params.attitude_kind.upper()]
            sigma_rad = self._params.heading_sigma_rad
            self._out.append(Heading(t_ns, t_rx_ns, yaw_rad, sigma_rad, kind))

    def _on_status(self, name: str, found: SysStatus, t_rx_ns: int) -> None:
        """Take the battery; 0 V is what an autopilot without a monitor sends. It knows no motor."""
        if MotorStatus not in self._wanted:
            return
        volts = amperes = NAN
        if 0 < found.voltage_mv < convert.UNKNOWN_16:
            volts = self._possible(name, "input_voltage_v", found.voltage_mv * 1e-3)
        else:
            # Its field ends at 65 V; the sum of the cells does not.
            volts = self._recall("input_voltage_v", t_rx_ns)
        if found.current_ca >= 0:
            amperes = found.current_ca * 1e-2
        else:
            amperes = self._recall("input_current_a", t_rx_ns)
        t_ns = t_rx_ns - round(self._common.latency_ms * 1e6)
        self._out.append(MotorStatus(t_ns, t_rx_ns, input_current_a=amperes, input_voltage_v=volts))

    def _on_battery(self, name: str, found: BatteryStatus, t_rx_ns: int) -> None:
        """Take voltage and current of the first battery for SYS_STATUS, and report its trouble."""
        if MotorStatus not in self._wanted:
            self.usage.refuse(name, Unused.NOT_WANTED)
            return
        if found.id:
            self.usage.refuse(name, Unused.FOREIGN)
            return
        self.usage.use(name)
        volts = self._possible(name, "input_voltage_v", convert.battery_volts(found))
        self._remember("input_voltage_v", volts, t_rx_ns)
        if found.current_battery >= 0:
            self._remember("input_current_a", found.current_battery * 1e-2, t_rx_ns)
        trouble = convert.BATTERY_TROUBLE.get(found.charge_state)
        if trouble:
            text = f"the autopilot calls its battery {trouble}"
            self._episodes.switch("autopilot_battery", Reaction.WARN, text, t_rx_ns)
        else:
            self._episodes.end("autopilot_battery", t_rx_ns)

    def _on_wheels(self, name: str, found: WheelDistance, t_rx_ns: int) -> None:
        """Differentiate the distances of the wheel encoders."""
        t_ns = self._time_ns(found.time_usec, t_rx_ns)
        before, self._wheels = self._wheels, found
        count = min(found.wheels, MOST_WHEELS)
        if WheelSpeed not in self._wanted:
            self.usage.refuse(name, Unused.NOT_WANTED)
            return
        if before is None or not count or before.wheels != found.wheels:
            self.usage.refuse(name, Unused.INCOMPLETE)
            return
        dt_s = (found.time_usec - before.time_usec) * 1e-6
        travelled = sum(found.distances[:count]) - sum(before.distances[:count])
        if not 0.0 < dt_s < 2.0 or not isfinite(travelled):
            self.usage.refuse(name, Unused.REPEATED)
            return
        speed = self._possible(name, "speed", travelled / count / dt_s)
        if isfinite(speed):
            self.usage.use(name)
            # The mean speed between the two is that of the middle.
            middle_ns = t_ns - round(0.5e9 * dt_s)
            self._out.append(WheelSpeed(middle_ns, t_rx_ns, speed, self._common.speed_sigma_mps))
