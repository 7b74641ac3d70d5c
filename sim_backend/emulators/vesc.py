"""A VESC motor controller on CAN and on a serial line: answers questions, sends STATUS frames, obeys, and times out by itself.

It is set up as the driver's table in the profile says it should be; ``conf`` and ``firmware`` make it another one. The power stage
is :mod:`sim_backend.emulators.vesc_motor`, what it reports :mod:`sim_backend.emulators.vesc_telemetry`. Facts, sources and traps:
``drivers/vesc/NOTES.md``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TypedDict, Unpack

from drivers.vesc.codec import (
    EVERYONE,
    SIGNATURES,
    AppConf,
    Can,
    CanSetpoint,
    Comm,
    CommMessage,
    Fill,
    Forward,
    FwVersion,
    NotifyBoot,
    Ping,
    PingCanReply,
    Pong,
    Process,
    RawAppConf,
    Reassembler,
    Request,
    Selective,
    SelectiveRequest,
    SendMode,
    Setpoint,
    Short,
    UartDecoder,
    decode_can,
    decode_comm,
    encode_appconf,
    encode_can,
    encode_comm,
    frame_uart,
    readable_firmwares,
    split_comm,
)
from sim_backend.emulators.can_bus import CanBus
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import SerialLine, baud_of
from sim_backend.emulators.outbox import drained
from sim_backend.emulators.vesc_motor import Calibration, PowerStage
from sim_backend.emulators.vesc_telemetry import Telemetry, layout_of, status_groups
from sim_backend.sensors.noise import stream
from vehicled.messages import Message, MotorStatus
from vehicled.profile.schema import Device
from vehicled.wire.can import CanFrame

FIRMWARE = (6, 0)
"""(major, minor): the newest whose configuration's signature is known."""
HARDWARE = "60"
STATUS_RATE_HZ, SLOW_STATUS_RATE_HZ = 50, 5
STATUS_MASK, SLOW_STATUS_MASK = 0b011001, 0b000110
"""STATUS, 4 and 5 at the first rate, 2 and 3 at the second."""
BAUD = 115_200
STALE_NS = 50_000_000
FAULT, OWN_TIMEOUT = "fault", "own_timeout"
ABS_OVER_CURRENT = 4
_UART_ID = 1
_APP_UART = 3
_SELECTIVE_SINCE, _NAMED_SINCE, _NUMBERED_SINCE, _NOTIFIES_SINCE = (3, 42), (3, 8), (3, 2), (6, 0)
_MOTOR_PACKETS = {
    Comm.SET_DUTY: Can.SET_DUTY,
    Comm.SET_CURRENT: Can.SET_CURRENT,
    Comm.SET_CURRENT_BRAKE: Can.SET_CURRENT_BRAKE,
    Comm.SET_RPM: Can.SET_RPM,
    Comm.SET_POS: Can.SET_POS,
    Comm.SET_HANDBRAKE: Can.SET_HANDBRAKE,
    Comm.SET_CURRENT_REL: Can.SET_CURRENT_REL,
}


def configuration(device: Device, firmware: tuple[int, int] = FIRMWARE) -> AppConf:
    """The application configuration that the profile expects: time-out and its brake current, servo output and STATUS frames on."""
    params: Calibration = device.driver.selected
    rate_hz = round(device.rate_hz or STATUS_RATE_HZ)
    fields: dict[str, int] = {"status_rate_hz": rate_hz, "status_mode": 5}
    if firmware >= (6, 0):
        fields = {
            "status_rate_hz": rate_hz,
            "status_rate_2_hz": SLOW_STATUS_RATE_HZ,
            "status_mask": STATUS_MASK,
            "status_mask_2": SLOW_STATUS_MASK,
        }
    return AppConf(
        signature=SIGNATURES.get(firmware, 0),
        controller_id=getattr(params, "controller_id", _UART_ID),
        timeout_ms=params.timeout_ms,
        timeout_brake_current_a=params.timeout_brake_current_a,
        can_mode=0,
        servo_output=int(params.steering),
        app=_APP_UART,
        **fields,
    )


class Made(TypedDict, total=False):
    """What makes a controller another one than the profile expects."""

    firmware: tuple[int, int]
    conf: AppConf


class VescUnit(ABC):
    """The controller, whatever the wire. Called in the order of time."""

    kinds: Mapping[str, float] = MappingProxyType({FAULT: float(ABS_OVER_CURRENT), OWN_TIMEOUT: 1.0})
    """What it can be told to suffer, with the value unless another is named: the code of a fault; motor commands that get lost."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int, **made: Unpack[Made]) -> None:
        self.firmware = made.get("firmware", FIRMWARE)
        """(major, minor)."""
        self.conf = made["conf"] if "conf" in made else configuration(device, self.firmware)
        """As it would be read back."""
        self._layout = layout_of(self.firmware)
        self._uuid = stream(seed, f"{port}/uuid").bytes(12)
        params: Calibration = device.driver.selected
        self._telemetry = Telemetry(params, self.conf.controller_id)
        # Before 5.3 the servo output was a matter of the build: here it is built in.
        servo_on = self.conf.servo_output != 0
        self._stage = PowerStage(params, self.conf.timeout_ms, self.conf.timeout_brake_current_a, servo_on, start_ns)
        self.unknown_packets = 0
        """Sound packets that mean nothing to it."""

    @property
    def fault_code(self) -> int:
        """As reported; 0 is none."""
        return self._stage.fault_code

    @property
    def timed_out(self) -> bool:
        """Its own command time-out has passed."""
        return self._stage.timed_out

    def on_message(self, message: Message, now_ns: int) -> None:
        """The motor as the twin's sensor sees it."""
        if isinstance(message, MotorStatus):
            self._telemetry.observe(message)
            self._stage.measure(self._telemetry.erpm, self._telemetry.voltage_v, now_ns)
            self._on_sample(now_ns)

    def next_due_ns(self) -> int:
        """Of the power stage: nothing else happens by itself."""
        return self._stage.next_due_ns()

    def on_time(self, now_ns: int) -> None:
        """A duty of the power stage."""
        self._stage.on_time(now_ns)

    def restart(self, now_ns: int) -> None:
        """What was counted and commanded is forgotten; the configuration is in flash."""
        self._telemetry.restart()
        self._stage.restart(now_ns)
        self._begin()

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """A fault code is there, or motor commands are lost until the controller times out."""
        if kind == FAULT:
            self._stage.set_fault(min(255, max(0, round(value))) if active else 0, now_ns)
        elif kind == OWN_TIMEOUT:
            self._stage.set_deaf(active)

    def take_commands(self) -> Sequence[DriveCommand]:
        """For the actuators of the vehicle."""
        return self._stage.take_commands()

    @abstractmethod
    def _begin(self) -> None:
        """What a wire does after a restart."""

    @abstractmethod
    def _on_sample(self, now_ns: int) -> None:
        """What a wire sends by itself."""

    def _answer(self, payload: bytes, now_ns: int) -> bytes | None:
        """Do what a packet says. Returns the payload of the reply, None where the firmware sends none."""
        message = decode_comm(payload)[1]
        while isinstance(message, Forward) and message.controller_id == self.conf.controller_id:
            payload = message.payload
            message = decode_comm(payload)[1]
        if self.firmware < _NUMBERED_SINCE and payload[:1] > bytes((Comm.SET_POS,)):
            # Numbered otherwise: whatever this was meant to be, it is something else here.
            self.unknown_packets += 1
            return None
        reply = self._obey(message, now_ns)
        return None if reply is None else encode_comm(reply, self._layout)

    def _obey(self, message: CommMessage, now_ns: int) -> CommMessage | None:
        match message:
            case Setpoint(Comm.SET_SERVO_POS, position):
                self._stage.set_servo(position, now_ns)
            case Setpoint(command, value) if command in _MOTOR_PACKETS:
                self._stage.set_motor(_MOTOR_PACKETS[Comm(command)], value, now_ns)
            case Request(Comm.ALIVE):
                self._stage.feed(now_ns)
            case Request(Comm.REBOOT):
                self.restart(now_ns)
            case Request(Comm.FW_VERSION):
                return self._version()
            case Request(Comm.GET_VALUES):
                return self._telemetry.values(self.fault_code, self.timed_out)
            case SelectiveRequest(mask) if self.firmware >= _SELECTIVE_SINCE:
                return Selective(mask, self._telemetry.values(self.fault_code, self.timed_out))
            case Request(Comm.GET_APPCONF) if self.firmware in readable_firmwares():
                return RawAppConf(encode_appconf(self.conf, self.firmware))
            case Request(Comm.PING_CAN):
                # Nobody else is on its bus.
                return PingCanReply(b"")
            case _:
                self.unknown_packets += 1
        return None

    def _version(self) -> FwVersion:
        if self.firmware < _NAMED_SINCE:
            return FwVersion(*self.firmware)
        return FwVersion(*self.firmware, HARDWARE, self._uuid, 0, 0, 0)


class VescCanUnit(VescUnit):
    """See :class:`sim_backend.emulators.can_bus.CanNode`."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int, **made: Unpack[Made]) -> None:
        super().__init__(port, device, seed, start_ns, **made)
        self._groups = status_groups(self.conf)
        # A bridge, or UAVCAN: it neither hears nor sends frames of its own protocol.
        self._mute = self.conf.can_mode != 0
        self._long = Reassembler()
        self._tx: list[CanFrame] = []
        self._status_due_ns = [start_ns] * len(self._groups)

    def _begin(self) -> None:
        self._long.clear()
        self._tx.clear()
        if self.firmware >= _NOTIFIES_SINCE and not self._mute:
            own = self.conf.controller_id
            self._tx.append(encode_can(NotifyBoot(own, bytes((own,)))))

    @property
    def bad_frames(self) -> int:
        """Long packets of the daemon that did not fit together."""
        return self._long.bad_frames

    def on_frame(self, frame: CanFrame, now_ns: int) -> None:
        """Commands, pings and packets, for it or for everyone."""
        message = decode_can(frame)[1]
        if self._mute:
            return
        addressed = (self.conf.controller_id, EVERYONE)
        match message:
            case CanSetpoint(packet, target, value) if target in addressed:
                self._stage.set_motor(packet, value, now_ns)
            case Ping(target, sender) if target in addressed:
                self._tx.append(encode_can(Pong(sender, self.conf.controller_id)))
            case Fill(target) if target in addressed:
                self._long.fill(message)
            case Process(target, sender, mode) if target in addressed:
                packet_bytes = self._long.process(message)
                if packet_bytes is not None:
                    self._on_packet(packet_bytes, sender, mode, now_ns)
            case Short(target, sender, mode, payload) if target in addressed:
                self._on_packet(payload, sender, mode, now_ns)
            case _:
                self.unknown_packets += 1

    def take_tx(self) -> Sequence[CanFrame]:
        """Answers and STATUS frames."""
        return drained(self._tx)

    def _on_packet(self, payload: bytes, sender: int, mode: int, now_ns: int) -> None:
        if mode == SendMode.PASS_ON:
            # An answer to a question that it never asks.
            self.unknown_packets += 1
            return
        reply = self._answer(payload, now_ns)
        if reply is not None and mode == SendMode.PROCESS_AND_REPLY:
            self._tx += split_comm(sender, self.conf.controller_id, reply, SendMode.PASS_ON)

    def _on_sample(self, now_ns: int) -> None:
        """STATUS frames go with the first sample after each period: between samples there is nothing new to tell."""
        if self._mute:
            return
        for i, (period_ns, numbers) in enumerate(self._groups):
            # Samples that come at the same rate are rounded to the nanosecond: a hair too early is not a period too early.
            if now_ns + period_ns // 16 >= self._status_due_ns[i]:
                self._status_due_ns[i] = max(self._status_due_ns[i] + period_ns, now_ns)
                self._tx += [encode_can(self._telemetry.status(number)) for number in numbers]


class VescUartUnit(VescUnit):
    """See :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int, **made: Unpack[Made]) -> None:
        super().__init__(port, device, seed, start_ns, **made)
        # USB has no rate; a UART has been set to the one that the port is opened with.
        self._baud = baud_of(device.port) or BAUD
        self._decoder = UartDecoder()
        self._heard_ns = 0
        self._tx: list[bytes] = []

    def _begin(self) -> None:
        self._decoder.clear()
        self._tx.clear()

    @property
    def baud(self) -> int:
        """Line rate."""
        return self._baud

    @property
    def bad_frames(self) -> int:
        """Frames of the daemon whose length, checksum or end did not hold."""
        return self._decoder.bad_frames

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Packets, answered at once."""
        stale = now_ns - self._heard_ns > STALE_NS
        self._heard_ns = now_ns
        for payload in self._decoder.feed(data, stale):
            reply = self._answer(payload, now_ns)
            if reply is not None:
                self._tx.append(frame_uart(reply))

    def _on_sample(self, now_ns: int) -> None:
        """On this wire it speaks when spoken to."""

    def take_tx(self) -> Sequence[bytes]:
        """Answers."""
        return drained(self._tx)


class VescCanEmulator(CanBus):
    """A VESC on a CAN port."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int, **made: Unpack[Made]) -> None:
        self.unit = VescCanUnit(port, device, seed, start_ns, **made)
        """The controller itself."""
        super().__init__(self.unit, start_ns)


class VescUartEmulator(SerialLine):
    """A VESC on a serial port. Before firmware 3.8 it speaks as pyvesc 1.0.5 expects it."""

    def __init__(self, port: str, device: Device, seed: int, start_ns: int, **made: Unpack[Made]) -> None:
        self.unit = VescUartUnit(port, device, seed, start_ns, **made)
        """The controller itself."""
        super().__init__(self.unit, port, seed, start_ns, host_baud=baud_of(device.port))
