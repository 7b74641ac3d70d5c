"""Driver of a VESC on a serial line or USB, and of others behind it on its CAN bus (FORWARD_CAN).

Each controller has a driver of its own with its own checks: firmware, time-out, lock. Replies do
not name their sender, except for telemetry and the application configuration, which hold the
controller's id. So one question waits for its reply before the next is asked.
"""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from types import MappingProxyType
from typing import ClassVar

from msgspec import structs

from drivers.vesc.appconf import RawAppConf
from drivers.vesc.comm import (
    CommMessage,
    Forward,
    FwVersion,
    Selective,
    SetCommand,
    decode_comm,
    encode_comm,
)
from drivers.vesc.core import VescCore
from drivers.vesc.device import STALE_NS
from drivers.vesc.mcconf import RawMcConf
from drivers.vesc.params import ForwardingParams, UartParams
from drivers.vesc.uart import UartDecoder, frame_uart
from drivers.vesc.values import Values
from vehicled.core.messages import (
    ActuatorCommand,
    Event,
    Fault,
    Message,
    MotorStatus,
    PortState,
    WheelSpeed,
)
from vehicled.core.mixing import Mix, Mixing, OutputKind
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport
from vehicled.core.wire.usage import MessageUsage, Unused

REPLY_NS = 40_000_000
"""Longest wait for a reply before the next question is asked: CAN and both queues take 10 ms."""
MOST_WAITING = 16
_ID_AT = 4
"""Place of the controller's id in the application configuration, of every firmware."""
_ANSWERS = (Values, Selective, FwVersion, RawAppConf, RawMcConf)


class _Forwarded(VescCore):
    """One controller of the line, or behind it."""

    def __init__(
        self,
        params: UartParams,
        messages: Sequence[type[Message]],
        lifetime_ns: int,
        controller_id: int,
        *,
        behind: bool,
    ) -> None:
        super().__init__(params, messages, lifetime_ns, controller_id)
        self.controller_id = controller_id
        self._behind = behind

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Take a packet without its frame."""
        self._on_comm(decode_comm(data), t_rx_ns)
        return self._take(t_rx_ns)

    def _frame_motor(self, setpoint: SetCommand) -> bytes:
        return self._frame_comm(encode_comm(setpoint))

    def _frame_comm(self, payload: bytes, *, reply: bool = False) -> bytes:
        if self._behind:
            payload = encode_comm(Forward(self.controller_id, payload))
        return frame_uart(payload)

    def _clear_wire(self) -> None:
        """The line belongs to all controllers."""

    def _on_time_wire(self, now_ns: int) -> None:
        """The line belongs to all controllers."""

    def _silence_reason(self) -> str:
        if not self._behind:
            return (
                f"controller {self.controller_id} on the line does not answer: check power, cable, "
                "baud rate and controller_id"
            )
        return (
            f"controller {self.controller_id} behind it on CAN does not answer: check its power, "
            "the CAN cable, its id and that both have the same CAN bit rate"
        )


class _Share(Mixing):
    """Outputs of one controller: its motor, and the servo, which only the first one has."""

    def __init__(self, whole: Mixing, motor: int) -> None:
        super().__init__((whole.rows[motor], whole.rows[1] if motor == 0 else Mix()))
        self._whole = whole
        self._motor = motor

    def outputs(self, throttle: float, steering: float) -> tuple[float, ...]:
        values = self._whole.outputs(throttle, steering)
        return values[self._motor], values[1]


class VescForward(Device):
    """Driver of a VESC on a serial line or USB that forwards for others on its CAN bus."""

    Params: ClassVar[type[ForwardingParams]] = ForwardingParams
    transport: ClassVar[Transport] = "stream"
    produces: ClassVar[tuple[type[Message], ...]] = (MotorStatus, WheelSpeed, Fault, Event)
    consumes: tuple[type[Message], ...] = (ActuatorCommand,)
    actuator_outputs: ClassVar[Mapping[str, OutputKind]] = MappingProxyType(
        {
            "motor": "drive",
            "servo": "steer",
            "motor_2": "drive",
            "motor_3": "drive",
            "motor_4": "drive",
        }
    )

    def __init__(
        self,
        params: ForwardingParams,
        messages: Sequence[type[Message]],
        command_lifetime_ns: int,
    ) -> None:
        self._controllers = [
            _Forwarded(each, messages, command_lifetime_ns, number, behind=bool(k))
            for k, (number, each) in enumerate(params.one_by_one)
        ]
        self._by_id = {each.controller_id: each for each in self._controllers}
        self.usage = MessageUsage()
        for each in self._controllers:
            each.usage = self.usage
        self._decoder = UartDecoder()
        self._rx_ns = 0
        self._waiting: deque[tuple[_Forwarded, Send]] = deque(maxlen=MOST_WAITING)
        self._asked: _Forwarded | None = None
        self._asked_until_ns = NEVER_NS
        self._newest: dict[type[Message], dict[int, Message]] = {MotorStatus: {}, WheelSpeed: {}}
        self._active: dict[str, set[int]] = {}
        self._now_ns = 0

    @property
    def bad_frames(self) -> int:
        """Start bytes with an invalid length, checksum or end byte."""
        return self._decoder.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._decoder.dropped_bytes

    @property
    def refusal(self) -> str:
        return "; ".join(
            f"controller {each.controller_id}: {each.refusal}"
            for each in self._controllers
            if each.refusal
        )

    def mix(self, mixing: Mixing) -> None:
        for k, each in enumerate(self._controllers):
            # The servo stands between the first motor and the others.
            each.mix(_Share(mixing, 0 if k == 0 else k + 1))

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        self._now_ns = now_ns
        self._decoder.clear()
        self._waiting.clear()
        self._asked, self._asked_until_ns = None, NEVER_NS
        for newest in self._newest.values():
            newest.clear()
        states = [(each, each.on_port(state, detail, now_ns)) for each in self._controllers]
        return self._all(states)

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        stale = t_rx_ns - self._rx_ns > STALE_NS
        self._rx_ns = self._now_ns = t_rx_ns
        out: list[Message] = []
        for payload in self._decoder.feed(data, stale):
            out += self._on_payload(payload, t_rx_ns)
        return out

    def on_command(self, command: Message, now_ns: int) -> None:
        """Give every controller the command. Where one would not drive, all brake, because motors
        must not pull against each other."""
        self._now_ns = now_ns
        if isinstance(command, ActuatorCommand) and command.throttle != 0.0 and self.refusal:
            braked = structs.replace(command, throttle=0.0, brake=1.0)
            for each in self._controllers:
                # The one that refuses reports it, and brakes by itself.
                each.on_command(command if each.refusal else braked, now_ns)
            return
        for each in self._controllers:
            each.on_command(command, now_ns)

    def ask_configuration(self, now_ns: int) -> None:
        """Read the motor configurations, for the set-up of the vehicle."""
        for each in self._controllers:
            each.ask_configuration(now_ns)

    def configuration(self) -> tuple[list[str], list[str]]:
        """Return what the configurations say that were read, and where they contradict the
        profile."""
        said, wrong = list[str](), list[str]()
        for each in self._controllers:
            head = f"controller {each.controller_id}: "
            own_said, own_wrong = each.configuration()
            said += [head + line for line in own_said]
            wrong += [head + line for line in own_wrong]
        return said, wrong

    def next_due_ns(self) -> int:
        due_ns = min(each.next_due_ns() for each in self._controllers)
        return min(due_ns, self._asked_until_ns) if self._waiting else due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        self._now_ns = now_ns
        out: list[Message] = []
        if now_ns - self._rx_ns > STALE_NS:
            for payload in self._decoder.flush():
                out += self._on_payload(payload, now_ns)
        if now_ns >= self._asked_until_ns:
            self._asked, self._asked_until_ns = None, NEVER_NS
        due = [each for each in self._controllers if each.next_due_ns() <= now_ns]
        out += self._all([(each, each.on_time(now_ns)) for each in due])
        return out

    def take_tx(self) -> Sequence[Action]:
        commands: list[Send] = []
        for each in self._controllers:
            for action in each.take_tx():
                if not isinstance(action, Send):
                    continue
                if action.droppable:
                    self._queue(each, action)
                else:
                    commands.append(action)
        tx: list[Action] = []
        if commands:
            data = b"".join(command.data for command in commands)
            tx.append(structs.replace(commands[0], data=data))
        while self._waiting and self._waiting[0][1].deadline_ns < self._now_ns:
            self._waiting.popleft()
        if self._asked is None and self._waiting:
            self._asked, question = self._waiting.popleft()
            self._asked_until_ns = self._now_ns + REPLY_NS
            tx.append(question)
        return tx

    def _queue(self, each: _Forwarded, question: Send) -> None:
        """Let a question wait for its turn, in the place of an older one of the same content."""
        for k, (_, before) in enumerate(self._waiting):
            if before.data == question.data:
                self._waiting[k] = each, question
                return
        self._waiting.append((each, question))

    def _on_payload(self, payload: bytes, t_rx_ns: int) -> list[Message]:
        name, message = decode_comm(payload)
        target = self._sender(message)
        if target is None:
            self.usage.refuse(name, Unused.FOREIGN)
            return []
        if target is self._asked:
            self._asked, self._asked_until_ns = None, NEVER_NS
        return self._all([(target, target.on_rx(payload, t_rx_ns))])

    def _sender(self, message: CommMessage) -> _Forwarded | None:
        """Return the controller that sent a packet: by the id in it, else the one that was
        asked."""
        match message:
            case Values(controller_id=number) if number >= 0:
                return self._by_id.get(number)
            case RawAppConf(data) if len(data) > _ID_AT and data[_ID_AT] in self._by_id:
                return self._by_id[data[_ID_AT]]
            case _ if isinstance(message, _ANSWERS):
                return self._asked
            case _:
                return self._asked or self._controllers[0]

    def _all(self, batches: Sequence[tuple[_Forwarded, Sequence[Message]]]) -> list[Message]:
        """Return the messages of the controllers as those of one device."""
        out: list[Message] = []
        for each, messages in batches:
            for message in messages:
                if isinstance(message, MotorStatus | WheelSpeed):
                    out += self._joined(each, message)
                elif isinstance(message, Fault):
                    out += self._fault(each, message)
                else:
                    out.append(message)
        return out

    def _fault(self, each: _Forwarded, fault: Fault) -> list[Message]:
        """Return a fault of one controller. A code is over when no controller has it."""
        active = self._active.setdefault(fault.code, set())
        was = bool(active)
        if fault.active:
            active.add(each.controller_id)
        else:
            active.discard(each.controller_id)
        if bool(active) == was:
            return []
        reason = f"controller {each.controller_id}: {fault.reason}"
        return [structs.replace(fault, reason=reason)]

    def _joined(self, each: _Forwarded, message: MotorStatus | WheelSpeed) -> list[Message]:
        """Return the telemetry of all once every controller has reported anew."""
        newest = self._newest[type(message)]
        newest[each.controller_id] = message
        if len(newest) < len(self._controllers):
            return []
        every = list(newest.values())
        newest.clear()
        statuses = [one for one in every if isinstance(one, MotorStatus)]
        return [_joined_status(statuses) if statuses else _joined_speed(every)]


def _joined_status(every: Sequence[MotorStatus]) -> MotorStatus:
    """Return the telemetry of several motors as one: mean speed, sum of the currents, lowest
    voltage, highest temperatures, first fault."""
    return MotorStatus(
        min(one.t_ns for one in every),
        max(one.t_rx_ns for one in every),
        sum(one.motor_speed_radps for one in every) / len(every),
        sum(one.motor_current_a for one in every),
        _known(sum, [one.input_current_a for one in every]),
        _known(min, [one.input_voltage_v for one in every]),
        sum(one.duty for one in every) / len(every),
        _known(max, [one.controller_temperature_k for one in every]),
        _known(max, [one.motor_temperature_k for one in every]),
        next((one.fault_code for one in every if one.fault_code), 0),
    )


def _joined_speed(every: Sequence[Message]) -> WheelSpeed:
    speeds = [one for one in every if isinstance(one, WheelSpeed)]
    return WheelSpeed(
        min(one.t_ns for one in speeds),
        max(one.t_rx_ns for one in speeds),
        sum(one.speed_mps for one in speeds) / len(speeds),
        sum(one.sigma_mps for one in speeds) / len(speeds),
    )


def _known(choose: Callable[[list[float]], float], values: Sequence[float]) -> float:
    known = [value for value in values if isfinite(value)]
    return choose(known) if known else float("nan")
