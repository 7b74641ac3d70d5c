"""Common part of the drivers of motor controllers: what may be driven, when, and what the
controller says of it.

A family is a codec, the set-points of its outputs, and what its answers mean. Rules that hold for
all, each from a reported accident (NOTES.md):

- Zero and brake are sent as commands. A newer command replaces an unsent one, so that no old one is
  sent late.
- Nothing is driven before the controller has answered and its command time-out is proven, and after
  every interruption (port, silence, fault) not before the daemon was disarmed once. Until then a
  throttle becomes the full brake.
- Everything that may feed the controller's time-out leaves with a command, polls included: a poll
  of its own would feed it for a control loop that is dead.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite, pi
from types import MappingProxyType
from typing import Annotated, ClassVar

from msgspec import Meta, Struct

from drivers.motor.commands import bounded
from drivers.motor.episodes import Episodes
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
from vehicled.core.messages.units import ZERO_CELSIUS_K
from vehicled.core.mixing import Mixing, OutputKind, plain
from vehicled.core.ports import NEVER_NS, Action, Device, Send
from vehicled.core.wire.usage import MessageUsage, Unused

NAN = float("nan")
ASK_NS = 200_000_000
"""Interval of the questions before the controller is known."""
RECHECK_NS = 5_000_000_000
"""Interval of the questions about a time-out that was refused, because it may be corrected
meanwhile."""
APPEARS_NS = 1_000_000_000
"""Time for a controller to answer before its absence is reported."""
SLOW_FIELD_NS = 2_000_000_000
"""Time for which a value of another message is repeated in MotorStatus."""
DRIVING = (Mode.AUTO, Mode.TELEOP, Mode.ALIGN, Mode.OFFBOARD, Mode.STOPPING)
TURN_RAD = 2.0 * pi
LIMITS = {
    "input_voltage_v": (0.0, 300.0),
    "current_a": (-2_000.0, 2_000.0),
    "temperature_c": (-60.0, 250.0),
    "speed": (-1e6, 1e6),
}
"""Possible values by quantity; others are counted and lost."""


class MotorParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters that all families share."""

    timeout_ms: Annotated[int, Meta(ge=20, le=10_000)] = 200
    """Longest command timeout accepted in the controller, ms; it must have one."""
    accept_unreadable_timeout: bool = False
    """Drive although the timeout cannot be read back. Check it by hand first, wheels off the
    ground: end the daemon while they turn."""
    silence_s: Annotated[float, Meta(ge=0.02, le=5.0)] = 0.25
    """Age of telemetry that raises a fault, s."""
    latency_ms: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """Age of telemetry on arrival, ms."""
    poll_hz: Annotated[float, Meta(ge=1.0, le=200.0)] = 20.0
    """Rate at which commands carry a poll, Hz."""
    speed_sigma_mps: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.05
    """Sigma of the speed, m/s."""


def _kelvin(celsius: float) -> float:
    return celsius + ZERO_CELSIUS_K if isfinite(celsius) else NAN


class MotorDevice(Device):
    """Base class of the drivers. A subclass frames commands and questions, and passes on what
    arrives."""

    name: ClassVar[str]
    """Family: the origin of its faults, and the beginning of their codes."""
    timeout_readable: ClassVar[bool] = True
    """True if the controller reports its command timeout."""
    answers: ClassVar[bool] = True
    """False for a controller that never says anything."""
    produces: ClassVar[tuple[type[Message], ...]] = (MotorStatus, WheelSpeed, Fault, Event)
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType({"motor": "drive"})

    def __init__(
        self, params: MotorParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._common = params
        self._wanted = frozenset(messages)
        self._lifetime_ns = command_lifetime_ns
        self._mixing = plain(self.actuator_outputs)
        self._episodes = Episodes(self.name)
        self.usage = MessageUsage()
        self._out: list[Message] = []
        self._command: Send | None = None
        self._question: Send | None = None
        self._steering = 0.0
        self._lock = "the port has not been opened"
        self._poll_ns = round(1e9 / params.poll_hz)
        self._forget()

    def _forget(self) -> None:
        self._opened_ns = self._ask_due_ns = NEVER_NS
        self._last_rx_ns: int | None = None
        self._polled_ns = 0
        self._commanded_ns = 0
        self._timeout_ms: float | None = None
        self._problem = ""
        self._faults = 0
        self._slow: dict[str, tuple[float, int]] = {}

    # ---------------------------------------------------------------- provided by a family

    @abstractmethod
    def _drive(self, outputs: tuple[float, ...], brake: float) -> bytes:
        """Return a command as bytes: outputs of -1 to 1, brake of 0 to 1, which wins."""

    @abstractmethod
    def _ask(self) -> bytes:
        """Return the questions that make it known: who it is, and its timeout."""

    def _poll(self) -> bytes:
        """Return the polls that leave with a command."""
        return b""

    def _clear(self) -> None:
        """Drop incomplete frames."""

    def _why_silent(self) -> str:
        """Return the reason for the silence, as far as the wire knows it."""
        return "check power, cable and line rate"

    # ---------------------------------------------------------------- device interface

    @property
    def refusal(self) -> str:
        return self._obstacle() or self._lock

    def _obstacle(self) -> str:
        """Reason that disarming cannot clear."""
        if self._problem:
            return self._problem
        if self.answers and self._last_rx_ns is None:
            return "the controller has not answered yet"
        if f"{self.name}_silent" in self._episodes:
            return "the controller is silent"
        if self._faults:
            return "the controller reports a fault"
        if self._timeout_ms is None:
            if self._common.accept_unreadable_timeout:
                return ""
            if not self.timeout_readable:
                return (
                    "its command time-out cannot be read back: look at it by hand and set "
                    "accept_unreadable_timeout"
                )
            return "its command time-out has not been read yet"
        return ""

    def mix(self, mixing: Mixing) -> None:
        self._mixing = mixing

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Brake and query an opened port; forget the earlier state, including the permission to
        drive."""
        self._clear()
        self._forget()
        self._command = self._question = None
        if state is PortState.OPENED:
            self._opened_ns, self._ask_due_ns = now_ns, now_ns
            self._lock = "the port was opened anew; disarm, then arm again"
            self._send(0.0, 1.0, now_ns, poll=False)
        else:
            self._lock = "the port is closed"
        return self._take(now_ns)

    def on_command(self, command: Message, now_ns: int) -> None:
        """Convert a command to frames. Brake if it is not finite or driving is not permitted, and
        report the reason once."""
        if not isinstance(command, ActuatorCommand):
            return
        throttle, brake, self._steering = bounded(command, self._steering)
        if throttle == 0.0:
            if command.mode not in DRIVING:
                self._episodes.end(f"{self.name}_drive_refused", now_ns)
                if not self._obstacle() and self._opened_ns != NEVER_NS:
                    self._lock = ""
        elif self.refusal:
            self._episodes.start(
                f"{self.name}_drive_refused", Reaction.BRAKE, f"not driven: {self.refusal}", now_ns
            )
            throttle, brake = 0.0, 1.0
        self._commanded_ns = now_ns
        self._send(throttle, brake, now_ns, poll=now_ns - self._polled_ns >= self._poll_ns)

    def _send(self, throttle: float, brake: float, now_ns: int, *, poll: bool) -> None:
        outputs = self._mixing.outputs(0.0 if brake > 0.0 else throttle, self._steering)
        data = self._drive(outputs, brake)
        if poll:
            self._polled_ns = now_ns
            data += self._poll()
        self._command = Send(data, now_ns + self._lifetime_ns)

    def next_due_ns(self) -> int:
        """Return the time of the next question or silence timeout; now if there is something to
        report."""
        if self._out or self._episodes.waiting:
            return self._commanded_ns
        return min(self._ask_due_ns, self._silence_due_ns())

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Send due questions, and detect silence."""
        if now_ns >= self._silence_due_ns():
            missing = "sends no data" if self._last_rx_ns is not None else "does not answer"
            text = f"the controller {missing}: {self._why_silent()}"
            self._episodes.start(f"{self.name}_silent", Reaction.BRAKE, text, now_ns)
            self._lock = "the controller was silent; disarm, then arm again"
            self._timeout_ms = None
            self._ask_due_ns = now_ns
        if now_ns >= self._ask_due_ns:
            question = self._ask() if self._opened_ns != NEVER_NS else b""
            if question:
                self._question = Send(question, now_ns + ASK_NS, droppable=True)
            self._ask_due_ns = now_ns + (RECHECK_NS if self._problem else ASK_NS)
        return self._take(now_ns)

    def take_tx(self) -> Sequence[Action]:
        found = [each for each in (self._command, self._question) if each is not None]
        self._command = self._question = None
        return found

    # ---------------------------------------------------------------- for families

    def _arrived(self, t_rx_ns: int) -> None:
        """Note a valid message of the controller."""
        self._last_rx_ns = t_rx_ns
        self._episodes.end(f"{self.name}_silent", t_rx_ns)

    def _known(
        self, t_rx_ns: int, problem: str = "", timeout_ms: float | None = None, **fields: object
    ) -> None:
        """Judge what the controller says of itself. ``timeout_ms``: its command timeout, 0 for
        none; None if it is unknown."""
        limit_ms = self._common.timeout_ms
        if not problem and timeout_ms is not None:
            if timeout_ms <= 0.0:
                problem = "its command time-out is off: it would run on without us"
            elif timeout_ms > limit_ms:
                problem = (
                    f"its command time-out is {timeout_ms:g} ms, the profile allows {limit_ms} ms"
                )
        known_before = not self._problem and (
            self._timeout_ms is not None or not self.timeout_readable
        )
        self._problem, self._timeout_ms = problem, None if problem else timeout_ms
        code = f"{self.name}_config"
        if problem:
            self._episodes.switch(code, Reaction.BRAKE, problem, t_rx_ns)
            self._ask_due_ns = t_rx_ns + RECHECK_NS
            return
        self._episodes.end(code, t_rx_ns)
        if timeout_ms is not None or not self.timeout_readable:
            self._ask_due_ns = NEVER_NS
            if not known_before or timeout_ms is None:
                reported = {} if timeout_ms is None else {"timeout_ms": timeout_ms}
                self._out.append(
                    Event.of(t_rx_ns, "info", f"{self.name}_ready", **reported, **fields)
                )

    def _set_faults(self, bits: int, names: Mapping[int, str], now_ns: int) -> None:
        """Report the faults by their bits; an unnamed one by its number."""
        if bits == self._faults:
            return
        for bit in range(64):
            mask = 1 << bit
            if not (bits ^ self._faults) & mask:
                continue
            word = names.get(mask, f"error_{mask:#x}")
            code = f"{self.name}_{word}"
            if bits & mask:
                self._episodes.start(
                    code,
                    Reaction.DISABLE,
                    f"the controller reports {word.replace('_', ' ')}",
                    now_ns,
                )
                self._lock = f"the controller had {word.replace('_', ' ')}; disarm, then arm again"
            else:
                self._episodes.end(code, now_ns)
        self._faults = bits

    def _possible(self, message: str, quantity: str, value: float) -> float:
        """Return a value; NaN, counted, if it cannot be."""
        low, high = LIMITS[quantity]
        if low <= value <= high:
            return value
        if isfinite(value):
            self.usage.lose(message, Unused.OUT_OF_RANGE, quantity, f"{value:g}")
        return NAN

    def _remember(self, field: str, value: float, t_rx_ns: int) -> None:
        if isfinite(value):
            self._slow[field] = value, t_rx_ns

    def _recall(self, field: str, now_ns: int) -> float:
        value, t_rx_ns = self._slow.get(field, (NAN, now_ns))
        return value if now_ns - t_rx_ns < SLOW_FIELD_NS else NAN

    def _moving(
        self, turns_per_s: float, turns_per_m: float, t_rx_ns: int, duty: float = NAN
    ) -> None:
        """Report the speed of the motors, positive forwards, with the newest of the slower
        values."""
        t_ns = t_rx_ns - round(self._common.latency_ms * 1e6)
        if MotorStatus in self._wanted:
            found = MotorStatus(
                t_ns,
                t_rx_ns,
                TURN_RAD * turns_per_s,
                self._recall("motor_current_a", t_rx_ns),
                self._recall("input_current_a", t_rx_ns),
                self._recall("input_voltage_v", t_rx_ns),
                duty,
                _kelvin(self._recall("controller_c", t_rx_ns)),
                _kelvin(self._recall("motor_c", t_rx_ns)),
                min(255, self._faults.bit_length()),
            )
            self._out.append(found)
        if WheelSpeed in self._wanted and isfinite(turns_per_s):
            self._out.append(
                WheelSpeed(t_ns, t_rx_ns, turns_per_s / turns_per_m, self._common.speed_sigma_mps)
            )

    def _silence_due_ns(self) -> int:
        if (
            not self.answers
            or f"{self.name}_silent" in self._episodes
            or self._opened_ns == NEVER_NS
        ):
            return NEVER_NS
        if self._last_rx_ns is None:
            return self._opened_ns + APPEARS_NS
        return self._last_rx_ns + round(self._common.silence_s * 1e9)

    def _take(self, now_ns: int) -> list[Message]:
        out: list[Message] = [*self._out, *self._episodes.take(now_ns)]
        if self.usage.news:
            out += self.usage.take_events(now_ns, self.name)
        self._out = []
        return out
