"""CAN frames (29-bit id ``packet << 8 | controller``, payload big-endian) and COMM packets in
several frames. Both directions, pure."""

import struct
from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum

from msgspec import Struct

from drivers.vesc.comm import MAX_PAYLOAD_BYTES, CommMessage, decode_comm
from drivers.vesc.fields import Field, decode_fields, encode_fields, layout_of, setpoint
from vehicled.core.wire.can import CanFrame
from vehicled.core.wire.crc import crc16_xmodem

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
    """Command with one number: duty, current (A), speed (ERPM) or position (deg); relative ones as
    a fraction."""

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
    """STATUS_4: temperatures, supply current, position. A motor without thermistor gives -90 to -99
    C."""

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


class ProcessBuffer(Struct, frozen=True, gc=False):
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


class ForeignFrame(Struct, frozen=True, gc=False):
    """Unusable frame: another protocol, an unknown packet, or a payload too short for its
    packet."""

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
    | ProcessBuffer
    | Short
    | NotifyBoot
    | ForeignFrame
)

_I = struct.Struct(">i")
_PROCESS = struct.Struct(">BBHH")
_SCALES = {
    Can.SET_DUTY: 1e5, Can.SET_CURRENT: 1e3, Can.SET_CURRENT_BRAKE: 1e3, Can.SET_RPM: 1.0,
    Can.SET_POS: 1e6, Can.SET_CURRENT_REL: 1e5, Can.SET_CURRENT_BRAKE_REL: 1e5,
    Can.SET_HANDBRAKE: 1e3, Can.SET_HANDBRAKE_REL: 1e5,
}  # fmt: skip


_STATUSES: dict[Can, tuple[Callable[..., CanMessage], tuple[Field, ...]]] = {
    Can.STATUS: (Status,
        (("erpm", "i", 1.0), ("motor_current_a", "h", 10.0), ("duty", "h", 1000.0))),
    Can.STATUS_2: (Status2, (("used_ah", "i", 1e4), ("charged_ah", "i", 1e4))),
    Can.STATUS_3: (Status3, (("used_wh", "i", 1e4), ("charged_wh", "i", 1e4))),
    Can.STATUS_4: (
        Status4,
        (
            ("fet_temperature_c", "h", 10.0), ("motor_temperature_c", "h", 10.0),
            ("input_current_a", "h", 10.0), ("pid_position_deg", "h", 50.0),
        ),
    ),
    Can.STATUS_5: (Status5, (("tachometer", "i", 0.0), ("input_voltage_v", "h", 10.0))),
    Can.STATUS_6: (Status6,
        (("adc1_v", "h", 1e3), ("adc2_v", "h", 1e3), ("adc3_v", "h", 1e3), ("ppm", "h", 1e3))),
}  # fmt: skip
_STATUS_PACKETS = {kind: packet for packet, (kind, _) in _STATUSES.items()}


def _status(packet: Can) -> Callable[[int, bytes], CanMessage]:
    kind, fields = _STATUSES[packet]
    return lambda target, data: kind(target, **(decode_fields(data, fields) or {}))


def _setpoint(packet: Can, scale: float) -> Callable[[int, bytes], CanMessage]:
    return lambda target, data: CanSetpoint(packet, target, _I.unpack_from(data)[0] / scale)


_DECODERS: dict[int, tuple[str, int, Callable[[int, bytes], CanMessage]]] = {
    **{
        packet: (packet.name, layout_of(fields).size, _status(packet))
        for packet, (_, fields) in _STATUSES.items()
    },
    Can.PING: ("PING", 1, lambda target, data: Ping(target, data[0])),
    Can.PONG: (
        "PONG",
        1,
        lambda target, data: Pong(target, data[0], data[1] if len(data) > 1 else 0),
    ),
    Can.FILL_RX_BUFFER: ("FILL_RX_BUFFER", 2, lambda target, data: Fill(target, data[0], data[1:])),
    Can.FILL_RX_BUFFER_LONG: (
        "FILL_RX_BUFFER_LONG",
        3,
        lambda target, data: Fill(target, data[0] << 8 | data[1], data[2:]),
    ),
    Can.PROCESS_RX_BUFFER: (
        "PROCESS_RX_BUFFER",
        6,
        lambda target, data: ProcessBuffer(target, *_PROCESS.unpack_from(data)),
    ),
    Can.PROCESS_SHORT_BUFFER: (
        "PROCESS_SHORT_BUFFER",
        3,
        lambda target, data: Short(target, data[0], data[1], data[2:]),
    ),
    Can.NOTIFY_BOOT: ("NOTIFY_BOOT", 0, NotifyBoot),
    # Exactly four bytes, because the six-byte SET_CURRENT swaps its fields between firmware
    # versions.
    **{packet: (packet.name, 4, _setpoint(packet, scale)) for packet, scale in _SCALES.items()},
}


def decode_can(frame: CanFrame) -> tuple[str, CanMessage]:
    """Return name and content of a frame. Never raises; invalid frames are ``ForeignFrame``, named
    ERROR, STANDARD, FOREIGN or PACKET_n."""
    can_id = frame.can_id
    if frame.error:
        return "ERROR", ForeignFrame(frame)
    if not frame.extended:
        return "STANDARD", ForeignFrame(frame)
    packet, data = can_id >> 8, frame.data
    found = _DECODERS.get(packet)
    if found is None or frame.remote:
        return ("FOREIGN" if packet > 0xFF else f"PACKET_{packet}"), ForeignFrame(frame)
    name, shortest, decoder = found
    if len(data) < shortest or (packet in _SCALES and len(data) != 4):
        return f"PACKET_{packet}", ForeignFrame(frame)
    return name, decoder(can_id & 0xFF, data)


def encode_can(message: CanMessage) -> CanFrame:
    """Return a frame. Raises ValueError for a set-point that is not finite."""
    match message:
        case CanSetpoint(packet, target, value):
            return _frame(packet, target, _I.pack(setpoint(value, _SCALES[Can(packet)])))
        case Status() | Status2() | Status3() | Status4() | Status5() | Status6():
            packet = _STATUS_PACKETS[type(message)]
            return _frame(
                packet,
                message.controller_id,
                encode_fields(message, _STATUSES[packet][1]).ljust(8, b"\0"),
            )
        case Ping(target, sender):
            return _frame(Can.PING, target, bytes((sender,)))
        case Pong(host, controller, hardware_type):
            return _frame(Can.PONG, host, bytes((controller, hardware_type)))
        case Fill(target, offset, data):
            if offset <= 0xFF:
                return _frame(Can.FILL_RX_BUFFER, target, bytes((offset,)) + data)
            return _frame(Can.FILL_RX_BUFFER_LONG, target, offset.to_bytes(2, "big") + data)
        case ProcessBuffer(target, sender, mode, length, crc):
            return _frame(Can.PROCESS_RX_BUFFER, target, _PROCESS.pack(sender, mode, length, crc))
        case Short(target, sender, mode, payload):
            return _frame(Can.PROCESS_SHORT_BUFFER, target, bytes((sender, mode)) + payload)
        case NotifyBoot(target, data):
            return _frame(Can.NOTIFY_BOOT, target, data)
        case ForeignFrame(frame):
            return frame


def _frame(packet: int, target: int, data: bytes) -> CanFrame:
    return CanFrame(packet << 8 | target & 0xFF, data)


def split_comm(
    target_id: int, sender_id: int, payload: bytes, send_mode: int = SendMode.PROCESS_AND_REPLY
) -> list[CanFrame]:
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
    return [
        *frames,
        encode_can(ProcessBuffer(target_id, sender_id, send_mode, length, crc16_xmodem(payload))),
    ]


class Reassembler:
    """Reassembler of long packets for one receiver. Bounded, never raises.

    Pieces are kept by offset, so repeated and reordered ones do no harm; offset 0 begins a packet.
    The end must find a gapless packet of its length and checksum, else all is dropped and counted.
    Pieces have no sender, so only the checksum separates two senders.
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

    def process(self, end: ProcessBuffer) -> bytes | None:
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
    """Iterate over the messages of a recorded bus by name; a packet in several frames follows its
    last one."""
    long: dict[int, Reassembler] = {}
    for frame in frames:
        name, message = decode_can(frame)
        yield name, message
        match message:
            case Fill(target):
                long.setdefault(target, Reassembler()).fill(message)
            case ProcessBuffer(target):
                packet = long.setdefault(target, Reassembler()).process(message)
                if packet is not None:
                    yield decode_comm(packet)
            case Short(_, _, _, payload):
                yield decode_comm(payload)
            case _:
                pass
