"""Common part of both VESC drivers: commands, telemetry, and the conditions for driving.

Rules, each from a reported accident (NOTES.md):

- Zero and brake are sent as frames. Each command is one motor frame and one servo frame under one
  deadline; a newer command replaces an unsent one, so that no old command is sent late.
- The driver sends no drive before the controller is identified and its timeout is read back, and
  after every interruption (port, silence, restart, fault) not before the daemon was disarmed once.
  Until then a throttle becomes full brake.
- ALIVE is never sent, because it would feed the controller's watchdog without a command.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import hypot, isfinite
from types import MappingProxyType
from typing import ClassVar

from drivers.motor.commands import bounded
from drivers.motor.episodes import Episodes
from drivers.vesc.appconf import AppConf, RawAppConf, Unreadable
from drivers.vesc.comm import (
    Comm,
    CommMessage,
    FwVersion,
    Request,
    Selective,
    SetCommand,
    Unknown,
    encode_comm,
)
from drivers.vesc.content import possible
from drivers.vesc.faults import describe, fault_name
from drivers.vesc.mcconf import McConf, RawMcConf, read_mcconf
from drivers.vesc.params import (
    VescParams,
    forward,
    kelvin,
    motor_radps,
    motor_setpoint,
    servo_setpoint,
    speed_mps,
)
from drivers.vesc.report import app_text, motor_contradictions, motor_text
from drivers.vesc.setup import NEVER_NS, Setup
from drivers.vesc.values import KILL_SWITCH, TIMED_OUT, Values
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Message,
    Mode,
    MotorStatus,
    PortState,
    Reaction,
    WheelSpeed,
)
from vehicled.core.mixing import Mixing, OutputKind, plain
from vehicled.core.ports import Action, Device, Send
from vehicled.core.wire.usage import MessageUsage, Unused

NAN = float("nan")
ORIGIN = "vesc"
DIAGNOSE_NS = 1_000_000_000
"""Time for a controller to answer before its absence is diagnosed."""
SLOW_FIELD_NS = 2_000_000_000
"""Time for which temperatures and supply are repeated in MotorStatus after their measurement."""
STATUS_FRESH_NS = 200_000_000
MCCONF_TRIES, MCCONF_RETRY_NS = 5, 300_000_000
"""Requests for the motor configuration, and the time between two."""
COUNTS_PER_TURN = 6
"""Counts of the tachometer per electrical turn."""
LONGEST_COUNT_NS = 500_000_000
"""Longest interval between two counts: after a longer one it may have started anew."""
ARRIVAL_NS = 1_000_000
"""Uncertainty of the interval between two arrivals."""
SLOW_FIELDS = ("fet_temperature_c", "motor_temperature_c", "input_current_a", "input_voltage_v")
"""Telemetry that is repeated in MotorStatus, because it comes in other frames than the speed."""
_READ = frozenset(
    bytes((each,))
    for each in (Comm.GET_VALUES, Comm.GET_VALUES_SELECTIVE, Comm.FW_VERSION, Comm.GET_APPCONF)
)
DRIVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD, Mode.STOPPING)
_OBSTACLES = {
    "vesc_silent": "the controller is silent",
    "vesc_timed_out": "the controller has timed out",
    "vesc_kill_switch": "the kill switch at the controller is on",
}


class VescCore(Device):
    """Base class of the VESC drivers. A subclass frames commands and packets for its wire, and
    passes on what arrives."""

    produces: ClassVar[tuple[type[Message], ...]] = (MotorStatus, WheelSpeed, Fault, Event)
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {"motor": "drive", "servo": "steer"}
    )

    def __init__(
        self,
        params: VescParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
        controller_id: int | None,
    ) -> None:
        self._params = params
        self._wanted = frozenset(messages)
        self._lifetime_ns = command_lifetime_ns
        self._poll_ns = round(1e9 / params.poll_hz)
        self._silence_ns = round(params.silence_s * 1e9)
        self._latency_ns = round(params.latency_ms * 1e6)
        self._setup = Setup(params, controller_id)
        self._episodes = Episodes(ORIGIN)
        self.usage = MessageUsage()
        self._out: list[Message] = []
        self._command: Send | None = None
        self._requests: list[Send] = []
        self._mixing = plain(self.actuator_outputs)
        self._steering = 0.0
        self._opened_ns = NEVER_NS
        self._present_since_ns = NEVER_NS
        self._last_rx_ns: int | None = None
        self._values_ns: int | None = None
        self._status_ns: int | None = None
        self._poll_due_ns = NEVER_NS
        self._commanding_since_ns: int | None = None
        self._commanded_ns = 0
        self._lock = "the port has not been opened"
        self._fault_code = 0
        self._slow: dict[str, tuple[float, int]] = {}
        self._counted: tuple[int, int] | None = None
        self._tachometer_status_ns: int | None = None
        self._mcconf: McConf | Unreadable | None = None
        self._mcconf_tries, self._mcconf_due_ns = MCCONF_TRIES, NEVER_NS

    @property
    def ready(self) -> bool:
        """True if the controller is known and configured as the profile requires."""
        return self._setup.ready

    @property
    def refusal(self) -> str:
        return self._obstacle() or self._lock

    def _obstacle(self) -> str:
        """Reason that disarming cannot clear."""
        if self._setup.problems:
            return "; ".join(self._setup.problems)
        if not self._setup.ready:
            return "the controller has not answered yet"
        if self._fault_code:
            return f"the controller reports {describe(self._fault_code, self._setup.firmware)}"
        return next((text for code, text in _OBSTACLES.items() if code in self._episodes), "")

    # Provided by a wire.

    @abstractmethod
    def _frame_motor(self, setpoint: SetCommand) -> bytes:
        """Return a motor command as bytes for the port."""

    @abstractmethod
    def _frame_comm(self, payload: bytes, *, reply: bool = False) -> bytes:
        """Return a packet as bytes for the port; ``reply`` if an answer is expected."""

    @abstractmethod
    def _clear_wire(self) -> None:
        """Drop incomplete frames."""

    @abstractmethod
    def _silence_reason(self) -> str:
        """Return the reason for the silence, as far as the wire knows it."""

    @abstractmethod
    def _on_time_wire(self, now_ns: int) -> None:
        """Do the periodic work of a wire."""

    # Device interface.

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Brake and query an opened port; forget the earlier state, including the permission to
        drive."""
        self._clear_wire()
        self._command = None
        self._requests.clear()
        self._last_rx_ns = self._values_ns = self._status_ns = self._commanding_since_ns = None
        self._slow.clear()
        self._counted = self._tachometer_status_ns = None
        if state is PortState.OPENED:
            self._opened_ns = self._present_since_ns = now_ns
            self._setup.begin(now_ns)
            self._poll_due_ns = NEVER_NS
            self._lock = "the port was opened anew; disarm, then arm again"
            self._send(0.0, 1.0, now_ns)
            self._ask(now_ns)
        else:
            self._opened_ns = self._poll_due_ns = NEVER_NS
            self._setup.stop()
            self._lock = "the port is closed"
        return self._take(now_ns)

    def mix(self, mixing: Mixing) -> None:
        self._mixing = mixing

    def on_command(self, command: Message, now_ns: int) -> None:
        """Convert a command to frames. Brake if it is not finite or driving is not permitted, and
        report the reason once."""
        if not isinstance(command, ActuatorCommand):
            return
        throttle, brake, self._steering = bounded(command, self._steering)
        if throttle == 0.0:
            if command.mode not in DRIVING:
                self._episodes.end("vesc_drive_refused", now_ns)
                if not self._obstacle():
                    self._lock = ""
        elif self.refusal:
            self._episodes.start(
                "vesc_drive_refused", Reaction.BRAKE, f"not driven: {self.refusal}", now_ns
            )
            throttle, brake = 0.0, 1.0
        if self._commanding_since_ns is None or now_ns - self._commanded_ns > self._pause_ns():
            self._commanding_since_ns = now_ns
        self._commanded_ns = now_ns
        self._send(throttle, brake, now_ns)

    def next_due_ns(self) -> int:
        """Return the time of the next query, poll or silence timeout; now if a command left
        something to report."""
        if self._episodes.waiting:
            return self._commanded_ns
        if self._opened_ns == NEVER_NS:
            return NEVER_NS
        return min(
            self._setup.due_ns,
            self._poll_due_ns,
            self._silence_due_ns(),
            self._diagnosis_due_ns(),
            self._mcconf_due_ns if self._setup.known else NEVER_NS,
        )

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Send due queries, and detect missing replies."""
        if self._opened_ns == NEVER_NS:
            return self._take(now_ns)
        self._on_time_wire(now_ns)
        if now_ns >= self._silence_due_ns() and self._episodes.start(
            "vesc_silent", Reaction.BRAKE, self._silence_reason(), now_ns
        ):
            self._status_ns = None
            self._lock = "the controller was silent; disarm, then arm again"
        if now_ns >= self._diagnosis_due_ns():
            self._diagnose(now_ns)
        self._ask(now_ns)
        return self._take(now_ns)

    def take_tx(self) -> Sequence[Action]:
        if self._command is None and not self._requests:
            return ()
        tx: list[Action] = [] if self._command is None else [self._command]
        tx += self._requests
        self._command = None
        self._requests.clear()
        return tx

    # Transmit.

    def _send(self, throttle: float, brake: float, now_ns: int) -> None:
        motor, servo = self._mixing.outputs(throttle, self._steering)
        data = self._frame_motor(motor_setpoint(self._params, motor, brake))
        if self._params.steering and self._setup.known:
            data += self._frame_comm(encode_comm(servo_setpoint(self._params, servo)))
        self._command = Send(data, now_ns + self._lifetime_ns)

    def ask_configuration(self, now_ns: int) -> None:
        """Read the motor configuration, for the set-up of the vehicle."""
        self._mcconf = None
        self._mcconf_tries, self._mcconf_due_ns = MCCONF_TRIES, now_ns

    def configuration(self) -> tuple[list[str], list[str]]:
        """Return what the configurations say that were read, and where they contradict the
        profile."""
        said, wrong = list[str](), list(self._setup.problems)
        if isinstance(self._setup.conf, AppConf):
            said.append(app_text(self._setup.conf))
        match self._mcconf:
            case McConf():
                said.append(motor_text(self._mcconf))
                wrong += motor_contradictions(self._mcconf, self._params)
            case Unreadable(reason):
                said.append(reason)
            case None if self._mcconf_tries != MCCONF_TRIES:
                said.append("its motor configuration was asked for and never came")
        return said, wrong

    def _ask(self, now_ns: int) -> None:
        if now_ns >= self._mcconf_due_ns and self._setup.known:
            self._mcconf_tries -= 1
            self._mcconf_due_ns = now_ns + MCCONF_RETRY_NS if self._mcconf_tries else NEVER_NS
            ask = self._frame_comm(encode_comm(Request(Comm.GET_MCCONF)), reply=True)
            self._requests.append(Send(ask, now_ns + MCCONF_RETRY_NS, droppable=True))
        request = self._setup.take_request(now_ns)
        if request is not None:
            self._requests.append(
                Send(self._frame_comm(request, reply=True), now_ns + self._poll_ns, droppable=True)
            )
            if self._setup.problems:
                self._after_setup(now_ns)
        if now_ns >= self._poll_due_ns:
            late = now_ns - self._poll_due_ns
            self._poll_due_ns = now_ns + self._poll_ns - (late if late < self._poll_ns else 0)
            poll = self._frame_comm(encode_comm(Request(Comm.GET_VALUES)), reply=True)
            self._requests.append(Send(poll, now_ns + self._poll_ns, droppable=True))
        # Queries must not pile up if the port accepts nothing; the deadlines are the port's, this
        # limit is ours.
        del self._requests[:-4]

    # Receive.

    def _on_comm(self, packet: tuple[str, CommMessage], t_rx_ns: int) -> None:
        name, message = packet
        match message:
            case Values():
                self._on_rx_frame(t_rx_ns)
                self._on_values(name, message, t_rx_ns)
            case Selective(_, values):
                self._on_rx_frame(t_rx_ns)
                self._on_values(name, values, t_rx_ns)
            case FwVersion():
                self._on_rx_frame(t_rx_ns)
                if self._setup.on_version(message, t_rx_ns):
                    self._after_setup(t_rx_ns)
                if self._poll_due_ns == NEVER_NS:
                    self._poll_due_ns = t_rx_ns
            case RawAppConf():
                self._on_rx_frame(t_rx_ns)
                if self._setup.on_appconf(message, t_rx_ns):
                    self._after_setup(t_rx_ns)
            case RawMcConf() if self._mcconf_tries < MCCONF_TRIES:
                self._on_rx_frame(t_rx_ns)
                self._mcconf, self._mcconf_due_ns = read_mcconf(message), NEVER_NS
            case Unknown(payload):
                readable = payload[:1] in _READ
                self.usage.refuse(
                    name,
                    *(
                        (Unused.UNREADABLE, "length", len(payload))
                        if readable
                        else (Unused.NOT_READ,)
                    ),
                )
                return
            case _:
                # Queries and commands: an echo, or another master on the wire.
                self.usage.refuse(name, Unused.FOREIGN)
                return
        self.usage.use(name)

    def _on_rx_frame(self, t_rx_ns: int) -> None:
        self._last_rx_ns = t_rx_ns
        if self._episodes.end("vesc_silent", t_rx_ns):
            self._present_since_ns = t_rx_ns
            # After a power cycle it may be another controller.
            self._setup.begin(t_rx_ns)

    def _restarted(self, t_rx_ns: int) -> None:
        self._lock = "the controller has restarted; disarm, then arm again"
        self._counted = None
        self._episodes.start(
            "vesc_restarted",
            Reaction.BRAKE,
            "the controller has restarted: brown-out or watchdog",
            t_rx_ns,
        )
        self._setup.begin(t_rx_ns)

    def _after_setup(self, now_ns: int) -> None:
        setup = self._setup
        if setup.problems:
            self._episodes.switch("vesc_config", Reaction.BRAKE, "; ".join(setup.problems), now_ns)
        elif setup.ready:
            self._episodes.end("vesc_config", now_ns)
            self._episodes.end("vesc_restarted", now_ns)
            assert setup.version is not None
            fields: dict[str, object] = {
                "firmware": f"{setup.version.major}.{setup.version.minor:02d}",
                "hardware": setup.version.hardware,
            }
            if isinstance(setup.conf, AppConf):
                fields |= {
                    "timeout_ms": setup.conf.timeout_ms,
                    "timeout_brake_current_a": setup.conf.timeout_brake_current_a,
                }
            elif isinstance(setup.conf, Unreadable):
                fields["timeout"] = f"not read back: {setup.conf.reason}"
            self._out.append(Event.of(now_ns, "info", "vesc_ready", **fields))

    def _on_values(self, name: str, values: Values, t_rx_ns: int) -> None:
        self._values_ns = t_rx_ns
        self._episodes.end("vesc_unanswered", t_rx_ns)
        for field in SLOW_FIELDS:
            self._remember(name, field, getattr(values, field), t_rx_ns)
        if values.fault_code >= 0:
            self._on_fault_code(values.fault_code, t_rx_ns)
        if values.status >= 0:
            self._on_status_bits(values.status, t_rx_ns)
        # Two sources of counts at different times would give short intervals, and a rough speed.
        by_status = (
            self._tachometer_status_ns is not None
            and t_rx_ns - self._tachometer_status_ns < STATUS_FRESH_NS
        )
        if values.absolute_tachometer >= 0 and not by_status:
            self._on_tachometer(values.tachometer, t_rx_ns)
        if isfinite(values.erpm):
            fresh = self._status_ns is not None and t_rx_ns - self._status_ns < STATUS_FRESH_NS
            self._on_motion(
                name, values.erpm, values.motor_current_a, values.duty, t_rx_ns, wheel=not fresh
            )

    def _on_fault_code(self, code: int, now_ns: int) -> None:
        if code == self._fault_code:
            return
        if self._fault_code:
            self._episodes.end(f"vesc_{fault_name(self._fault_code)}", now_ns)
        self._fault_code = code
        if code:
            self._lock = (
                f"the controller had {describe(code, self._setup.firmware)}; disarm, then arm again"
            )
            reason = f"the controller reports {describe(code, self._setup.firmware)}"
            self._episodes.start(f"vesc_{fault_name(code)}", Reaction.DISABLE, reason, now_ns)

    def _on_status_bits(self, status: int, now_ns: int) -> None:
        since, last = self._commanding_since_ns, self._commanded_ns
        commanded = (
            since is not None and now_ns - since > DIAGNOSE_NS and now_ns - last <= self._pause_ns()
        )
        if status & TIMED_OUT and commanded:
            reason = "the controller has timed out although commands are sent: they do not reach it"
            if self._episodes.start("vesc_timed_out", Reaction.BRAKE, reason, now_ns):
                self._lock = "the controller had timed out; disarm, then arm again"
        elif not status & TIMED_OUT:
            self._episodes.end("vesc_timed_out", now_ns)
        if not status & KILL_SWITCH:
            self._episodes.end("vesc_kill_switch", now_ns)
        elif self._episodes.start(
            "vesc_kill_switch", Reaction.DISABLE, "the kill switch at the controller is on", now_ns
        ):
            self._lock = "the kill switch was on; disarm, then arm again"

    def _pause_ns(self) -> int:
        """Command gap after which a controller timeout is legitimate; shorter than that timeout,
        because transmission varies."""
        conf = self._setup.conf
        timeout_ms = conf.timeout_ms if isinstance(conf, AppConf) else self._params.timeout_ms
        return timeout_ms * 750_000

    def _on_motion(
        self, name: str, erpm: float, current_a: float, duty: float, t_rx_ns: int, *, wheel: bool
    ) -> None:
        t_ns = t_rx_ns - self._latency_ns
        params, usage = self._params, self.usage
        if self._mixing.directions[0] < 0.0:
            erpm, duty = -erpm, -duty
        erpm, duty = possible(usage, name, "erpm", erpm), possible(usage, name, "duty", duty)
        current_a = possible(usage, name, "motor_current_a", current_a)
        if MotorStatus in self._wanted:
            self._out.append(
                MotorStatus(
                    t_ns,
                    t_rx_ns,
                    motor_radps(params, erpm),
                    current_a,
                    self._recall("input_current_a", t_rx_ns),
                    self._recall("input_voltage_v", t_rx_ns),
                    forward(params) * duty,
                    kelvin(self._recall("fet_temperature_c", t_rx_ns)),
                    kelvin(self._recall("motor_temperature_c", t_rx_ns), motor=True),
                    self._fault_code,
                )
            )
        if wheel and WheelSpeed in self._wanted and isfinite(erpm) and params.odometry == "speed":
            self._out.append(
                WheelSpeed(t_ns, t_rx_ns, speed_mps(params, erpm), params.speed_sigma_mps)
            )

    def _on_tachometer(self, count: int, t_rx_ns: int) -> None:
        """Report the mean speed since the last count. The stamp is the middle of the two, and the
        sigma that of one count and of the arrival."""
        if self._params.odometry != "tachometer" or WheelSpeed not in self._wanted:
            return
        before, self._counted = self._counted, (count, t_rx_ns)
        if before is None or not 0 < (dt_ns := t_rx_ns - before[1]) <= LONGEST_COUNT_NS:
            return
        counts = (count - before[0] + 2**31) % 2**32 - 2**31
        direction = self._mixing.directions[0] or 1.0
        per_count_mps = 60.0 / (COUNTS_PER_TURN * abs(self._params.erpm_per_mps) * dt_ns * 1e-9)
        speed = direction * forward(self._params) * counts * per_count_mps
        sigma = hypot(per_count_mps, ARRIVAL_NS / dt_ns * speed)
        self._out.append(WheelSpeed(t_rx_ns - self._latency_ns - dt_ns // 2, t_rx_ns, speed, sigma))

    def _remember(self, name: str, field: str, value: float, t_rx_ns: int) -> None:
        value = possible(self.usage, name, field, value)
        if isfinite(value):
            self._slow[field] = (value, t_rx_ns)

    def _recall(self, name: str, now_ns: int) -> float:
        value, t_rx_ns = self._slow.get(name, (NAN, now_ns))
        return value if now_ns - t_rx_ns < SLOW_FIELD_NS else NAN

    # Timeouts.

    def _silence_limit_ns(self) -> int:
        """Return the silence timeout, which follows the poll rate if STATUS frames are missing."""
        return (
            self._silence_ns
            if self._status_ns is not None
            else max(self._silence_ns, 5 * self._poll_ns // 2)
        )

    def _silence_due_ns(self) -> int:
        if "vesc_silent" in self._episodes:
            return NEVER_NS
        if self._last_rx_ns is None:
            return self._opened_ns + DIAGNOSE_NS
        return self._last_rx_ns + self._silence_limit_ns()

    def _diagnosis_due_ns(self) -> int:
        """Return the time at which unanswered polls are reported although the controller sends."""
        if (
            self._last_rx_ns is None
            or "vesc_silent" in self._episodes
            or "vesc_unanswered" in self._episodes
        ):
            return NEVER_NS
        return max(self._present_since_ns, self._values_ns or 0) + max(
            DIAGNOSE_NS, 5 * self._poll_ns
        )

    def _diagnose(self, now_ns: int) -> None:
        reason = (
            "the controller sends but does not reply, so its fault code is unknown: check the "
            "line to it and that host_id is unique"
        )
        self._episodes.start("vesc_unanswered", Reaction.CONTROLLED_STOP, reason, now_ns)

    def _take(self, now_ns: int) -> list[Message]:
        out: list[Message] = [*self._out, *self._episodes.take(now_ns)]
        if self.usage.news:
            out += self.usage.take_events(now_ns, ORIGIN)
        self._out = []
        return out
