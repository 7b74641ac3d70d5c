"""CAN frames (29-bit id ``packet << 8 | controller``, payload big-endian) and COMM packets in several frames. Both directions,
pure."""

import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from msgspec import Struct

from drivers.vesc.comm import MAX_PAYLOAD_BYTES, CommMessage, decode_comm
from drivers.vesc.fields import i16, i32, setpoint
from vehicled.wire.can import CanFrame
from vehicled.wire.crc import crc16_xmodem

EVERYONE = 255


class Can(IntEnum):
    """Packet numbers, the second byte of the identifier."""

    SET_DUTY = 0
    SET_CURRENT = 1
    SET_CURRENT_BRAKE = 2
    SET_RPM = 3
    SET_POS = 4
    FILL_RX_BUFFER = 5
    FILL_RX_BUFFER_LONG = 6
    PROCESS_RX_BUFFER = 7
    PROCESS_SHORT_BUFFER = 8
    STATUS = 9
    SET_CURRENT_REL = 10
    SET_CURRENT_BRAKE_REL = 11
    SET_HANDBRAKE = 12
    SET_HANDBRAKE_REL = 13
    STATUS_2 = 14
    STATUS_3 = 15
    STATUS_4 = 16
    PING = 17
    PONG = 18
    STATUS_5 = 27
    NOTIFY_BOOT = 57
    STATUS_6 = 58


class SendMode(IntEnum):
    """Handling of a COMM packet by the receiver."""

    PROCESS_AND_REPLY = 0
    PASS_ON = 1
    """Pass on to the interface that sent last; used in replies."""
    PROCESS_SILENTLY = 2


class CanSetpoint(Struct, frozen=True, gc=False):
    """Command with one number: duty, current (A), speed (ERPM) or position (deg); relative ones as a fraction."""

    packet: int
    controller_id: int
    value: float


class Status(Struct, frozen=True, gc=False):
    """STATUS: speed, current, duty."""

    controller_id: int
    erpm: float
    motor_current_a: float
    duty: float


class Status2(Struct, frozen=True, gc=False):
    """STATUS_2: charge."""

    controller_id: int
    used_ah: float
    charged_ah: float


class Status3(Struct, frozen=True, gc=False):
    """STATUS_3: energy."""

    controller_id: int
    used_wh: float
    charged_wh: float


class Status4(Struct, frozen=True, gc=False):
    """STATUS_4: temperatures, supply current, position. A motor without thermistor gives -90 to -99 C."""

    controller_id: int
    fet_temperature_c: float
    motor_temperature_c: float
    input_current_a: float
    pid_position_deg: float


class Status5(Struct, frozen=True, gc=False):
    """STATUS_5: tachometer (six counts per electrical revolution), supply voltage."""

    controller_id: int
    tachometer: int
    input_voltage_v: float


class Status6(Struct, frozen=True, gc=False):
    """STATUS_6: analogue inputs (V) and the pulse input (-1 to 1)."""

    controller_id: int
    adc1_v: float
    adc2_v: float
    adc3_v: float
    ppm: float


class Ping(Struct, frozen=True, gc=False):
    """Ping from ``sender_id`` to ``controller_id``."""

    controller_id: int
    sender_id: int


class Pong(Struct, frozen=True, gc=False):
    """Reply of ``controller_id`` to a ping from ``host_id``."""

    host_id: int
    controller_id: int
    hardware_type: int = 0


class Fill(Struct, frozen=True, gc=False):
    """Piece of a long packet for ``target_id``."""

    target_id: int
    offset: int
    data: bytes


class Process(Struct, frozen=True, gc=False):
    """End of a long packet: sender, send mode, length and CRC-16/XMODEM."""

    target_id: int
    sender_id: int
    send_mode: int
    length: int
    crc: int


class Short(Struct, frozen=True, gc=False):
    """COMM packet of up to six bytes in one frame."""

    target_id: int
    sender_id: int
    send_mode: int
    payload: bytes


class NotifyBoot(Struct, frozen=True, gc=False):
    """Start-up message of the controller."""

    controller_id: int
    data: bytes


class Foreign(Struct, frozen=True, gc=False):
    """Unusable frame: another protocol, an unknown packet, or a payload too short for its packet."""

    frame: CanFrame


CanMessage = (
    CanSetpoint
    | Status
    | Status2
    | Status3
    | Status4
    | Status5
    | Status6
    | Ping
    | Pong
    | Fill
    | Process
    | Short
    | NotifyBoot
    | Foreign
)

_I = struct.Struct(">i")
_STATUS = struct.Struct(">ihh")
_II = struct.Struct(">ii")
_HHHH = struct.Struct(">hhhh")
_TACHO = struct.Struct(">ih")
_PROCESS = struct.Struct(">BBHH")
_SCALES = {
    Can.SET_DUTY: 1e5, Can.SET_CURRENT: 1e3, Can.SET_CURRENT_BRAKE: 1e3, Can.SET_RPM: 1.0, Can.SET_POS: 1e6,
    Can.SET_CURRENT_REL: 1e5, Can.SET_CURRENT_BRAKE_REL: 1e5, Can.SET_HANDBRAKE: 1e3, Can.SET_HANDBRAKE_REL: 1e5,
}  # fmt: skip


def _status(target: int, data: bytes) -> CanMessage:
    erpm, current, duty = _STATUS.unpack_from(data)
    return Status(target, float(erpm), current / 10.0, duty / 1000.0)


def _status_2(target: int, data: bytes) -> CanMessage:
    used, charged = _II.unpack_from(data)
    return Status2(target, used / 1e4, charged / 1e4)


def _status_3(target: int, data: bytes) -> CanMessage:
    used, charged = _II.unpack_from(data)
    return Status3(target, used / 1e4, charged / 1e4)


def _status_4(target: int, data: bytes) -> CanMessage:
    fet, motor, current, position = _HHHH.unpack_from(data)
    return Status4(target, fet / 10.0, motor / 10.0, current / 10.0, position / 50.0)


def _status_5(target: int, data: bytes) -> CanMessage:
    tachometer, voltage = _TACHO.unpack_from(data)
    return Status5(target, tachometer, voltage / 10.0)


def _status_6(target: int, data: bytes) -> CanMessage:
    adc1, adc2, adc3, ppm = _HHHH.unpack_from(data)
    return Status6(target, adc1 / 1e3, adc2 / 1e3, adc3 / 1e3, ppm / 1e3)


def _setpoint(packet: Can, scale: float) -> Callable[[int, bytes], CanMessage]:
    return lambda target, data: CanSetpoint(packet, target, _I.unpack_from(data)[0] / scale)


_DECODERS: dict[int, tuple[str, int, Callable[[int, bytes], CanMessage]]] = {
    Can.STATUS: ("STATUS", 8, _status),
    Can.STATUS_2: ("STATUS_2", 8, _status_2),
    Can.STATUS_3: ("STATUS_3", 8, _status_3),
    Can.STATUS_4: ("STATUS_4", 8, _status_4),
    Can.STATUS_5: ("STATUS_5", 6, _status_5),
    Can.STATUS_6: ("STATUS_6", 8, _status_6),
    Can.PING: ("PING", 1, lambda target, data: Ping(target, data[0])),
    Can.PONG: ("PONG", 1, lambda target, data: Pong(target, data[0], data[1] if len(data) > 1 else 0)),
    Can.FILL_RX_BUFFER: ("FILL_RX_BUFFER", 2, lambda target, data: Fill(target, data[0], data[1:])),
    Can.FILL_RX_BUFFER_LONG: ("FILL_RX_BUFFER_LONG", 3, lambda target, data: Fill(target, data[0] << 8 | data[1], data[2:])),
    Can.PROCESS_RX_BUFFER: ("PROCESS_RX_BUFFER", 6, lambda target, data: Process(target, *_PROCESS.unpack_from(data))),
    Can.PROCESS_SHORT_BUFFER: ("PROCESS_SHORT_BUFFER", 3, lambda target, data: Short(target, data[0], data[1], data[2:])),
    Can.NOTIFY_BOOT: ("NOTIFY_BOOT", 0, NotifyBoot),
    # Exactly four bytes, because the six-byte SET_CURRENT swaps its fields between firmware versions.
    **{packet: (packet.name, 4, _setpoint(packet, scale)) for packet, scale in _SCALES.items()},
}


def decode_can(frame: CanFrame) -> tuple[str, CanMessage]:
    """Return name and content of a frame. Never raises; invalid frames are ``Foreign``, named ERROR, STANDARD, FOREIGN or
    PACKET_n."""
    can_id = frame.can_id
    if frame.error:
        return "ERROR", Foreign(frame)
    if not frame.extended:
        return "STANDARD", Foreign(frame)
    packet, data = can_id >> 8, frame.data
    found = _DECODERS.get(packet)
    if found is None or frame.remote:
        return ("FOREIGN" if packet > 0xFF else f"PACKET_{packet}"), Foreign(frame)
    name, shortest, decoder = found
    if len(data) < shortest or (packet in _SCALES and len(data) != 4):
        return f"PACKET_{packet}", Foreign(frame)
    return name, decoder(can_id & 0xFF, data)


def encode_can(message: CanMessage) -> CanFrame:
    """Return a frame. Raises ValueError for a set-point that is not finite."""
    match message:
        case CanSetpoint(packet, target, value):
            return _frame(packet, target, _I.pack(setpoint(value, _SCALES[Can(packet)])))
        case Status(target, erpm, current, duty):
            return _frame(Can.STATUS, target, _STATUS.pack(i32(erpm, 1.0), i16(current, 10.0), i16(duty, 1000.0)))
        case Status2(target, used, charged):
            return _frame(Can.STATUS_2, target, _II.pack(i32(used, 1e4), i32(charged, 1e4)))
        case Status3(target, used, charged):
            return _frame(Can.STATUS_3, target, _II.pack(i32(used, 1e4), i32(charged, 1e4)))
        case Status4(target, fet, motor, current, position):
            data = _HHHH.pack(i16(fet, 10.0), i16(motor, 10.0), i16(current, 10.0), i16(position, 50.0))
            return _frame(Can.STATUS_4, target, data)
        case Status5(target, tachometer, voltage):
            return _frame(Can.STATUS_5, target, _TACHO.pack(i32(tachometer, 1.0), i16(voltage, 10.0)) + b"\0\0")
        case Status6(target, adc1, adc2, adc3, ppm):
            return _frame(Can.STATUS_6, target, _HHHH.pack(*(i16(each, 1e3) for each in (adc1, adc2, adc3, ppm))))
        case Ping(target, sender):
            return _frame(Can.PING, target, bytes((sender,)))
        case Pong(host, controller, hardware_type):
            return _frame(Can.PONG, host, bytes((controller, hardware_type)))
        case Fill(target, offset, data):
            if offset <= 0xFF:
                return _frame(Can.FILL_RX_BUFFER, target, bytes((offset,)) + data)
            return _frame(Can.FILL_RX_BUFFER_LONG, target, offset.to_bytes(2, "big") + data)
        case Process(target, sender, mode, length, crc):
            return _frame(Can.PROCESS_RX_BUFFER, target, _PROCESS.pack(sender, mode, length, crc))
        case Short(target, sender, mode, payload):
            return _frame(Can.PROCESS_SHORT_BUFFER, target, bytes((sender, mode)) + payload)
        case NotifyBoot(target, data):
            return _frame(Can.NOTIFY_BOOT, target, data)
        case Foreign(frame):
            return frame


def _frame(packet: int, target: int, data: bytes) -> CanFrame:
    return CanFrame(packet << 8 | target & 0xFF, data)


def split_comm(target_id: int, sender_id: int, payload: bytes, send_mode: int = SendMode.PROCESS_AND_REPLY) -> list[CanFrame]:
    """Return the frames of a COMM packet. Raises ValueError beyond the firmware's buffer."""
    length = len(payload)
    if not 0 < length <= MAX_PAYLOAD_BYTES:
        raise ValueError(f"a packet of {length} bytes cannot be sent (1 to {MAX_PAYLOAD_BYTES})")
    if length <= 6:
        return [encode_can(Short(target_id, sender_id, send_mode, payload))]
    frames, at = [], 0
    while at < length:
        step = 7 if at <= 0xFF else 6
        frames.append(encode_can(Fill(target_id, at, payload[at : at + step])))
        at += step
    return [*frames, encode_can(Process(target_id, sender_id, send_mode, length, crc16_xmodem(payload)))]


class Reassembler:
    """Reassembler of long packets for one receiver. Bounded, never raises.

    Pieces are kept by offset, so repeated and reordered ones do no harm; offset 0 begins a packet. The end must find a gapless
    packet of its length and checksum, else all is dropped and counted. Pieces have no sender, so only the checksum separates two
    senders.
    """

    def __init__(self) -> None:
        self._pieces: dict[int, bytes] = {}
        self.bad_frames = 0
        """Pieces beyond the buffer, and packets that failed their check."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of incomplete packets; bounded by the number of offsets times seven."""
        return sum(map(len, self._pieces.values()))

    def fill(self, piece: Fill) -> None:
        """Add a piece."""
        if piece.offset + len(piece.data) > MAX_PAYLOAD_BYTES:
            self.bad_frames += 1
            return
        if piece.offset == 0:
            self._pieces.clear()
        self._pieces[piece.offset] = piece.data

    def process(self, end: Process) -> bytes | None:
        """Return the packet that ``end`` completes, or None."""
        pieces, self._pieces = self._pieces, {}
        packet = bytearray()
        for offset in sorted(pieces):
            if offset != len(packet):
                break
            packet += pieces[offset]
        payload = bytes(packet[: end.length])
        if not payload or len(payload) != end.length or crc16_xmodem(payload) != end.crc:
            self.bad_frames += 1
            return None
        return payload

    def clear(self) -> None:
        """Drop the incomplete packet."""
        self._pieces.clear()


def decode_frames(frames: Iterable[CanFrame]) -> Iterator[tuple[str, CanMessage | CommMessage]]:
    """Iterate over the messages of a recorded bus by name; a packet in several frames follows its last one."""
    long: dict[int, Reassembler] = {}
    for frame in frames:
        name, message = decode_can(frame)
        yield name, message
        match message:
            case Fill(target):
                long.setdefault(target, Reassembler()).fill(message)
            case Process(target):
                packet = long.setdefault(target, Reassembler()).process(message)
                if packet is not None:
                    yield decode_comm(packet)
            case Short(_, _, _, payload):
                yield decode_comm(payload)
            case _:
                pass
