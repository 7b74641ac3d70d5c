"""Emulator of a VESC motor controller on CAN and on a serial line: replies, STATUS frames,
commands, command timeout.

It is set up as the driver's table in the profile expects; ``conf`` and ``firmware`` change that.
The power stage is :mod:`sim_backend.emulators.vesc_motor`, the telemetry
:mod:`sim_backend.emulators.vesc_telemetry`. Facts, sources and pitfalls: ``drivers/vesc/NOTES.md``.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import pi
from types import MappingProxyType
from typing import TypedDict, Unpack

from msgspec.structs import replace

from drivers.vesc.appconf import (
    CAN_BAUDS,
    SIGNATURES,
    AppConf,
    RawAppConf,
    encode_appconf,
    readable_firmwares,
)
from drivers.vesc.canbus import (
    EVERYONE,
    Can,
    CanSetpoint,
    Fill,
    NotifyBoot,
    Ping,
    Pong,
    ProcessBuffer,
    Reassembler,
    SendMode,
    Short,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import (
    Comm,
    CommMessage,
    Forward,
    FwVersion,
    MotorSetup,
    PingCanReply,
    Request,
    Selective,
    SelectiveRequest,
    SetCommand,
    decode_comm,
    encode_comm,
)
from drivers.vesc.mcconf import MCCONF_SIGNATURES, McConf, RawMcConf, encode_mcconf
from drivers.vesc.uart import UartDecoder, frame_uart
from sim_backend.emulators.can_bus import BITRATE, CanBus, CanNode
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.line import LineDevice, SerialLine, baud_of
from sim_backend.emulators.vesc_motor import MotorCalibration, PowerStage
from sim_backend.emulators.vesc_telemetry import Telemetry, layout_of, status_groups
from sim_backend.emulators.wire import WireDevice
from sim_backend.sensors.noise import stream
from vehicled.core.messages import Message, MotorStatus
from vehicled.core.wire.can import CanFrame
from vehicled.profile.schema import DeviceTable

FIRMWARE = (6, 0)
"""Firmware (major, minor): the newest with a known configuration signature."""
HARDWARE = "60"
WHEEL_DIAMETER_M, MAX_ERPM = 0.1, 100_000.0
CURRENT_A, CELLS = 60.0, 3
STATUS_RATE_HZ, SLOW_STATUS_RATE_HZ = 50, 5
STATUS_MASK, SLOW_STATUS_MASK = 0b011001, 0b000110
"""STATUS, 4 and 5 at the first rate, 2 and 3 at the second."""
BAUD = 115_200
STALE_NS = 50_000_000
FAULT, OWN_TIMEOUT = "fault", "own_timeout"
ABS_OVER_CURRENT = 4
_UART_ID = 1
_APP_UART = 3
_SETUP_SINCE = (5, 2)
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


def configuration(device: DeviceTable, firmware: tuple[int, int] = FIRMWARE) -> AppConf:
    """Return the application configuration that the profile expects: timeout and its brake current,
    servo output, STATUS frames."""
    params: MotorCalibration = device.driver.selected
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
        can_baud=CAN_BAUDS.index(BITRATE // 1000),
        uart_baud=BAUD,
        **fields,
    )


class VescOptions(TypedDict, total=False):
    """Options that make a controller differ from the profile."""

    firmware: tuple[int, int]
    conf: AppConf
    setup: MotorSetup
    mcconf: McConf


def motor_setup(params: MotorCalibration) -> MotorSetup:
    """Return a motor configuration with the driver's poles and scale, the gear being that of a
    wheel of 0.1 m."""
    gear = abs(params.erpm_per_mps) * pi * WHEEL_DIAMETER_M / (60.0 * params.pole_pairs)
    return MotorSetup(
        min_erpm=-MAX_ERPM, max_erpm=MAX_ERPM, motor_poles=min(255, 2 * params.pole_pairs),
        gear_ratio=gear, wheel_diameter_m=WHEEL_DIAMETER_M,
    )  # fmt: skip


def motor_configuration(setup: MotorSetup, params: MotorCalibration, signature: int) -> McConf:
    """Return the whole motor configuration with the set-up, and with limits that allow what the
    profile asks for."""
    current_a = max(CURRENT_A, params.max_current_a, params.max_brake_current_a)
    return McConf(
        signature=signature, motor_type=2,
        motor_current_max_a=current_a, motor_current_min_a=-current_a,
        input_current_max_a=current_a, input_current_min_a=-current_a,
        absolute_current_max_a=2.0 * current_a, min_erpm=setup.min_erpm, max_erpm=setup.max_erpm,
        max_duty=setup.max_duty, inverted=False, motor_poles=setup.motor_poles,
        gear_ratio=setup.gear_ratio, wheel_diameter_m=setup.wheel_diameter_m,
        battery_cells=CELLS,
    )  # fmt: skip


class VescUnit(WireDevice, ABC):
    """Controller without its wire. Called in time order."""

    kinds: Mapping[str, float] = MappingProxyType(
        {FAULT: float(ABS_OVER_CURRENT), OWN_TIMEOUT: 1.0}
    )
    """Injectable failures with default values: a fault code; motor commands that get lost."""

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        **options: Unpack[VescOptions],
    ) -> None:
        super().__init__()
        self.firmware = options.get("firmware", FIRMWARE)
        """Firmware (major, minor)."""
        self.conf = options["conf"] if "conf" in options else configuration(device, self.firmware)
        """Application configuration as it would be read back."""
        self._layout = layout_of(self.firmware)
        self._uuid = stream(seed, f"{port}/uuid").bytes(12)
        params: MotorCalibration = device.driver.selected
        row = device.mix.get("motor")
        self._mirrored = row is not None and row.drive < 0.0
        self._telemetry = Telemetry(params, self.conf.controller_id)
        # Before 5.3 the servo output was a build option; this build has it.
        servo_on = self.conf.servo_output != 0
        self.setup = options["setup"] if "setup" in options else motor_setup(params)
        """Motor configuration as GET_MCCONF_TEMP gives it."""
        self.mcconf = (
            options["mcconf"]
            if "mcconf" in options
            else motor_configuration(self.setup, params, MCCONF_SIGNATURES.get(self.firmware, 0))
        )
        """Motor configuration as GET_MCCONF gives it."""
        self._stage = PowerStage(
            params, self.conf.timeout_ms, self.conf.timeout_brake_current_a, servo_on, start_ns
        )

    @property
    def fault_code(self) -> int:
        """Reported fault code; 0 is none."""
        return self._stage.fault_code

    @property
    def timed_out(self) -> bool:
        """True after its command timeout."""
        return self._stage.timed_out

    def on_message(self, message: Message, now_ns: int) -> None:
        """Take the motor state of the sensor model."""
        if isinstance(message, MotorStatus):
            if self._mirrored:
                message = replace(
                    message, motor_speed_radps=-message.motor_speed_radps, duty=-message.duty
                )
            self._telemetry.observe(message)
            self._stage.measure(self._telemetry.erpm, self._telemetry.voltage_v, now_ns)
            self._on_sample(now_ns)

    def next_due_ns(self) -> int:
        """Time of the power stage's next duty; nothing else is periodic."""
        return self._stage.next_due_ns()

    def on_time(self, now_ns: int) -> None:
        """Run a duty of the power stage."""
        self._stage.on_time(now_ns)

    def restart(self, now_ns: int) -> None:
        """Forget counters and commands; the configuration is in flash."""
        self._telemetry.restart()
        self._stage.restart(now_ns)
        self._begin()

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Set a fault code, or lose motor commands until the controller times out."""
        if kind == FAULT:
            self._stage.set_fault(min(255, max(0, round(value))) if active else 0, now_ns)
        elif kind == OWN_TIMEOUT:
            self._stage.lose_set_points(active)

    def take_commands(self) -> Sequence[DriveCommand]:
        return self._stage.take_commands()

    @abstractmethod
    def _begin(self) -> None:
        """Reset the wire after a restart."""

    @abstractmethod
    def _on_sample(self, now_ns: int) -> None:
        """Send the periodic frames of the wire."""

    def reply_to(self, payload: bytes, now_ns: int) -> bytes | None:
        """Execute a packet that another controller passed on, and return the reply."""
        return self._answer(payload, now_ns)

    def _answer(self, payload: bytes, now_ns: int) -> bytes | None:
        """Execute a packet. Return the payload of the reply, None if the firmware sends none."""
        message = decode_comm(payload)[1]
        while isinstance(message, Forward) and message.controller_id == self.conf.controller_id:
            payload = message.payload
            message = decode_comm(payload)[1]
        if self.firmware < _NUMBERED_SINCE and payload[:1] > bytes((Comm.SET_POS,)):
            # This firmware numbers packets differently, so the packet is something else here.
            return None
        reply = self._obey(message, now_ns)
        return None if reply is None else encode_comm(reply, self._layout)

    def _obey(self, message: CommMessage, now_ns: int) -> CommMessage | None:
        match message:
            case SetCommand(Comm.SET_SERVO_POS, position):
                self._stage.set_servo(position, now_ns)
            case SetCommand(command, value) if command in _MOTOR_PACKETS:
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
            case Request(Comm.GET_MCCONF) if self.firmware in MCCONF_SIGNATURES:
                return RawMcConf(encode_mcconf(self.mcconf))
            case Request(Comm.GET_MCCONF_TEMP) if self.firmware >= _SETUP_SINCE:
                return self.setup
            case Request(Comm.PING_CAN):
                # No other node is on its bus.
                return PingCanReply(b"")
        return None

    def _version(self) -> FwVersion:
        if self.firmware < _NAMED_SINCE:
            return FwVersion(*self.firmware)
        return FwVersion(*self.firmware, HARDWARE, self._uuid, 0, 0, 0)


class VescCanUnit(VescUnit, CanNode):
    """VESC on CAN as a :class:`sim_backend.emulators.can_bus.CanNode`."""

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        **options: Unpack[VescOptions],
    ) -> None:
        super().__init__(port, device, seed, start_ns, **options)
        self._groups = status_groups(self.conf)
        # In bridge or UAVCAN mode it ignores and sends no frames of its own protocol.
        self._mute = self.conf.can_mode != 0
        self._long = Reassembler()
        self._status_due_ns = [start_ns] * len(self._groups)

    def _begin(self) -> None:
        self._long.clear()
        self._tx.clear()
        if self.firmware >= _NOTIFIES_SINCE and not self._mute:
            own = self.conf.controller_id
            self._tx.append(encode_can(NotifyBoot(own, bytes((own,)))))

    @property
    def bad_frames(self) -> int:
        """Number of the daemon's long packets that did not fit together."""
        return self._long.bad_frames

    def on_frame(self, frame: CanFrame, now_ns: int) -> None:
        """Take commands, pings and packets, addressed to it or broadcast."""
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
            case ProcessBuffer(target, sender, mode) if target in addressed:
                packet_bytes = self._long.process(message)
                if packet_bytes is not None:
                    self._on_packet(packet_bytes, sender, mode, now_ns)
            case Short(target, sender, mode, payload) if target in addressed:
                self._on_packet(payload, sender, mode, now_ns)
            case _:
                pass

    def _on_packet(self, payload: bytes, sender: int, mode: int, now_ns: int) -> None:
        if mode == SendMode.PASS_ON:
            # An answer to a question that it never asks.
            return
        reply = self._answer(payload, now_ns)
        if reply is not None and mode == SendMode.PROCESS_AND_REPLY:
            self._tx += split_comm(sender, self.conf.controller_id, reply, SendMode.PASS_ON)

    def _on_sample(self, now_ns: int) -> None:
        """Send STATUS frames with the first sample after each period, because values do not change
        between samples."""
        if self._mute:
            return
        for i, (period_ns, numbers) in enumerate(self._groups):
            # Tolerate sample times rounded to the nanosecond.
            if now_ns + period_ns // 16 >= self._status_due_ns[i]:
                self._status_due_ns[i] = max(self._status_due_ns[i] + period_ns, now_ns)
                self._tx += [encode_can(self._telemetry.status(number)) for number in numbers]


class VescUartUnit(VescUnit, LineDevice):
    """VESC on a serial line as a :class:`sim_backend.emulators.line.LineDevice`."""

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        **options: Unpack[VescOptions],
    ) -> None:
        super().__init__(port, device, seed, start_ns, **options)
        # USB has no rate; a UART is set to the rate that the daemon opens.
        self._baud = baud_of(device.port) or BAUD
        self._decoder = UartDecoder()
        self._received_ns = 0

    def _begin(self) -> None:
        self._decoder.clear()
        self._tx.clear()

    @property
    def bad_frames(self) -> int:
        """Number of the daemon's frames with a wrong length, checksum or end."""
        return self._decoder.bad_frames

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Answer packets at once."""
        stale = now_ns - self._received_ns > STALE_NS
        self._received_ns = now_ns
        for payload in self._decoder.feed(data, stale):
            reply = self._answer(payload, now_ns)
            if reply is not None:
                self._tx.append(frame_uart(reply))

    def _on_sample(self, now_ns: int) -> None:
        """Send nothing: on this wire it only answers."""


class VescCanEmulator(CanBus):
    """VESC on a CAN port."""

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        **options: Unpack[VescOptions],
    ) -> None:
        self.unit = VescCanUnit(port, device, seed, start_ns, **options)
        """Controller without its wire."""
        super().__init__(self.unit, start_ns)


class VescUartEmulator(SerialLine):
    """VESC on a serial port. Before firmware 3.8 it uses the format of pyvesc 1.0.5."""

    def __init__(
        self,
        port: str,
        device: DeviceTable,
        seed: int,
        start_ns: int,
        **options: Unpack[VescOptions],
    ) -> None:
        self.unit = VescUartUnit(port, device, seed, start_ns, **options)
        """Controller without its wire."""
        super().__init__(self.unit, port, seed, start_ns, host_baud=baud_of(device.port))
