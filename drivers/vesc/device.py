"""VESC drivers for a CAN port and a serial port. Common part: :mod:`drivers.vesc.core`."""

from collections.abc import Sequence
from typing import ClassVar

from drivers.vesc.appconf import AppConf
from drivers.vesc.canbus import (
    EVERYONE,
    Can,
    CanMessage,
    CanSetpoint,
    Fill,
    ForeignFrame,
    NotifyBoot,
    Ping,
    Pong,
    ProcessBuffer,
    Reassembler,
    SendMode,
    Short,
    Status,
    Status2,
    Status3,
    Status4,
    Status5,
    Status6,
    decode_can,
    encode_can,
    split_comm,
)
from drivers.vesc.comm import Comm, SetCommand, decode_comm, encode_comm
from drivers.vesc.core import DIAGNOSE_NS, SLOW_FIELDS, VescCore
from drivers.vesc.params import CanParams, UartParams
from drivers.vesc.uart import UartDecoder, frame_uart
from vehicled.core.messages import Event, Message, PortState, Reaction
from vehicled.core.ports import Send, Transport
from vehicled.core.wire.can import (
    CanError,
    CanFrame,
    CanRecordReader,
    error_texts,
    is_error_active,
    pack,
)
from vehicled.core.wire.usage import Unused

CAN_COMMANDS = {
    Comm.SET_DUTY: Can.SET_DUTY,
    Comm.SET_CURRENT: Can.SET_CURRENT,
    Comm.SET_CURRENT_BRAKE: Can.SET_CURRENT_BRAKE,
    Comm.SET_RPM: Can.SET_RPM,
}
STALE_NS = 50_000_000
"""Silence after which an incomplete serial frame is dropped."""
UAVCAN_NODE_STATUS = 341
"""UAVCAN v0 data type that every UAVCAN node sends once a second, in bits 8 to 23 of its
identifiers."""
MAX_NEIGHBOURS = 16
BUS_QUIET_NS = 5_000_000_000
"""Time without an error frame after which the trouble of the bus is over."""
BUS_CURE = "check bit rate, termination, wiring, and that another node is on"


class VescCan(VescCore):
    """Driver of a VESC on CAN. Telemetry comes from STATUS frames, fault codes and configuration
    from COMM packets."""

    Params: ClassVar[type[CanParams]] = CanParams
    transport: ClassVar[Transport] = "frames"

    def __init__(
        self, params: CanParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns, params.controller_id)
        self._target, self._host = params.controller_id, params.host_id
        self._long = Reassembler()
        self._reader = CanRecordReader()
        self._neighbours: set[int] = set()
        self._uavcan: set[int] = set()
        self._ping_due_ns = 0
        self._bus_errors = ""
        self._bus_error_ns = 0
        self.dropped_bytes = 0
        """Bytes of incomplete records."""
        self.error_frames = 0
        """Error frames of the bus: no acknowledgement, wrong bit rate, a bad cable."""
        self.foreign_frames = 0
        """Frames of other protocols, and from or for other controllers."""

    @property
    def bad_frames(self) -> int:
        """Long packets that failed their check."""
        return self._long.bad_frames

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Reset as the core does, and forget the other nodes seen."""
        self._neighbours.clear()
        self._uavcan.clear()
        self._ping_due_ns = now_ns
        return super().on_port(state, detail, now_ns)

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        """Handle records; a partial one waits for the next call."""
        for frame in self._reader.frames(data):
            name, message = decode_can(frame)
            self._on_message(name, message, t_rx_ns)
        return self._take(t_rx_ns)

    def _on_message(self, name: str, message: CanMessage, t_rx_ns: int) -> None:
        foreign = self.foreign_frames
        match message:
            case Status() | Status2() | Status3() | Status4() | Status5() | Status6():
                if message.controller_id == self._target:
                    self._on_rx_frame(t_rx_ns)
                    self._on_status(name, message, t_rx_ns)
                    return
                self._on_neighbour(message.controller_id)
            case Fill(target) if target == self._host:
                self._long.fill(message)
            case ProcessBuffer(target, sender) if target == self._host:
                packet = self._long.process(message)
                if packet is not None and sender == self._target:
                    self._on_comm(decode_comm(packet), t_rx_ns)
            case Short(target, sender, _, payload) if (
                target == self._host and sender == self._target
            ):
                self._on_comm(decode_comm(payload), t_rx_ns)
            case Pong(host, controller) if host == self._host:
                if controller == self._target:
                    self._on_rx_frame(t_rx_ns)
                else:
                    self._on_neighbour(controller)
            case NotifyBoot(controller) if controller == self._target:
                self._on_rx_frame(t_rx_ns)
                self._restarted(t_rx_ns)
            case ForeignFrame(frame) if frame.error:
                self._on_bus_error(frame, t_rx_ns)
                return
            case ForeignFrame(frame):
                self.foreign_frames += 1
                if (
                    frame.extended
                    and frame.can_id >> 8 & 0xFFFF == UAVCAN_NODE_STATUS
                    and len(self._uavcan) < MAX_NEIGHBOURS
                ):
                    self._uavcan.add(frame.can_id & 0x7F)
            case _:
                self.foreign_frames += 1
        if self.foreign_frames > foreign:
            self.usage.refuse(name, Unused.FOREIGN)
        else:
            self.usage.use(name)

    def _on_bus_error(self, frame: CanFrame, t_rx_ns: int) -> None:
        """Report what the controller of this computer says about the bus; the end of the trouble,
        too."""
        self.error_frames += 1
        self._bus_error_ns = t_rx_ns
        if frame.can_id & CanError.RESTARTED or is_error_active(frame):
            self._episodes.end("can_bus_errors", t_rx_ns)
            if frame.can_id & CanError.RESTARTED:
                self._out.append(
                    Event.of(
                        t_rx_ns, "warning", "can_controller_restarted", count=self.error_frames
                    )
                )
            return
        classes = frame.can_id & ~CanError.COUNTERS
        if not classes or (classes == CanError.CONTROLLER and not frame.data[1:2].strip(b"\0")):
            return
        texts = error_texts(frame)
        if self._bus_errors != texts[0]:
            self._bus_errors = texts[0]
            self._episodes.end("can_bus_errors", t_rx_ns)
        self._episodes.start(
            "can_bus_errors",
            Reaction.WARN,
            f"the CAN bus reports {', '.join(texts)}: {BUS_CURE}",
            t_rx_ns,
        )

    def _on_status(self, name: str, message: CanMessage, t_rx_ns: int) -> None:
        match message:
            case Status(_, erpm, current, duty):
                self._status_ns = t_rx_ns
                self._episodes.end("vesc_status_off", t_rx_ns)
                self._on_motion(name, erpm, current, duty, t_rx_ns, wheel=True)
            case Status4():
                for field in SLOW_FIELDS[:3]:
                    self._remember(name, field, getattr(message, field), t_rx_ns)
            case Status5(_, tachometer, voltage):
                self._remember(name, "input_voltage_v", voltage, t_rx_ns)
                self._tachometer_status_ns = t_rx_ns
                self._on_tachometer(tachometer, t_rx_ns)
            case _:
                # Charge, energy and analogue inputs have no field in our messages.
                self.usage.refuse(name, Unused.NOT_READ)
                return
        self.usage.use(name)

    def _on_neighbour(self, controller_id: int) -> None:
        self.foreign_frames += 1
        if len(self._neighbours) < MAX_NEIGHBOURS:
            self._neighbours.add(controller_id)

    def _frame_motor(self, setpoint: SetCommand) -> bytes:
        return pack(
            encode_can(
                CanSetpoint(CAN_COMMANDS[Comm(setpoint.command)], self._target, setpoint.value)
            )
        )

    def _frame_comm(self, payload: bytes, *, reply: bool = False) -> bytes:
        mode = SendMode.PROCESS_AND_REPLY if reply else SendMode.PROCESS_SILENTLY
        return b"".join(map(pack, split_comm(self._target, self._host, payload, mode)))

    def _clear_wire(self) -> None:
        self._long.clear()
        self.dropped_bytes += self._reader.clear()

    def _on_time_wire(self, now_ns: int) -> None:
        if now_ns - self._bus_error_ns > BUS_QUIET_NS:
            self._episodes.end("can_bus_errors", now_ns)
        if self._setup.version is None:
            if now_ns >= self._ping_due_ns:
                # Every controller answers this with its own id, which shows a wrong controller_id.
                self._ping_due_ns = now_ns + DIAGNOSE_NS
                self._requests.append(
                    Send(
                        pack(encode_can(Ping(EVERYONE, self._host))),
                        now_ns + DIAGNOSE_NS,
                        droppable=True,
                    )
                )
        elif "vesc_silent" in self._episodes:
            # A silent controller does not answer queries either.
            self._episodes.end("vesc_status_off", now_ns)
        elif (
            self._status_ns is None
            and self._answers
            and now_ns - self._present_since_ns >= 2 * DIAGNOSE_NS
        ):
            self._episodes.start("vesc_status_off", Reaction.WARN, self._status_reason(), now_ns)

    @property
    def _answers(self) -> bool:
        """True if it has answered a query since it appeared."""
        return self._values_ns is not None and self._values_ns >= self._present_since_ns

    def _status_reason(self) -> str:
        text = (
            "the controller replies but sends no STATUS frames, so speed comes only at the "
            "poll rate"
        )
        conf = self._setup.conf
        if isinstance(conf, AppConf) and not conf.sends_status:
            return f"{text}: they are switched off (App Settings > General > CAN Messages Rate)"
        if isinstance(conf, AppConf):
            return (
                f"{text}, although they are switched on at {conf.status_rate_hz} Hz: check for "
                "filters on the bus"
            )
        return (
            f"{text}: check that they are switched on (App Settings > General > CAN Messages Rate)"
        )

    def _silence_reason(self) -> str:
        text = f"no data from controller {self._target} on CAN"
        if self._uavcan:
            nodes = ", ".join(map(str, sorted(self._uavcan)))
            return (
                f"{text}, but from UAVCAN nodes ({nodes}): set its CAN Mode to VESC (App "
                "Settings > General)"
            )
        if self._neighbours:
            return (
                f"{text}, but from others ({', '.join(map(str, sorted(self._neighbours)))}): "
                "check controller_id"
            )
        if self.error_frames:
            return (
                f"{text}, only bus errors: wrong bit rate (500 kbit/s is usual), no "
                "termination, or no other node"
            )
        if self.foreign_frames:
            return (
                f"{text}, only frames that are not of a VESC: wrong bus, or its CAN Mode is "
                "not VESC"
            )
        return (
            f"{text} or any other node: check power, cable and bit rate, and that its CAN Mode "
            "is not UAVCAN"
        )


class VescUart(VescCore):
    """Driver of a VESC on a serial line or USB. All telemetry is polled."""

    Params: ClassVar[type[UartParams]] = UartParams
    transport: ClassVar[Transport] = "stream"

    def __init__(
        self, params: UartParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns, None)
        self._decoder = UartDecoder()
        self._rx_ns = 0
        self._received = False

    @property
    def bad_frames(self) -> int:
        """Start bytes with an invalid length, checksum or end byte."""
        return self._decoder.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._decoder.dropped_bytes

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        stale = t_rx_ns - self._rx_ns > STALE_NS
        self._rx_ns = t_rx_ns
        self._received = True
        for payload in self._decoder.feed(data, stale):
            self._on_comm(decode_comm(payload), t_rx_ns)
        return self._take(t_rx_ns)

    def _frame_motor(self, setpoint: SetCommand) -> bytes:
        return frame_uart(encode_comm(setpoint))

    def _frame_comm(self, payload: bytes, *, reply: bool = False) -> bytes:
        return frame_uart(payload)

    def _clear_wire(self) -> None:
        self._decoder.clear()
        self._received = False

    def _on_time_wire(self, now_ns: int) -> None:
        if now_ns - self._rx_ns > STALE_NS:
            for payload in self._decoder.flush():
                self._on_comm(decode_comm(payload), now_ns)

    def _silence_reason(self) -> str:
        text = "the controller does not answer on its serial line"
        if self._received and self._last_rx_ns is None:
            return (
                f"{text}: bytes arrive but no valid packet, so the baud rate is wrong, or it "
                "is another device"
            )
        if self._received:
            return f"{text} any more"
        return (
            f"{text}: check power, cable, RX and TX, and that UART is enabled (App Settings > "
            "General > App to Use)"
        )
