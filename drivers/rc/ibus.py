"""iBUS of FlySky: codec in both directions, and the driver, which also answers as a voltage sensor.
Sources: NOTES.md.

Servo frame: ``20 40 | 14 channels, little-endian | checksum``, 115200 baud. Channels 15 to 18 of
newer receivers are in the upper four bits of the words. Sensor bus, one wire in both directions:
``04 | 80 discover, 90 type, A0 value, plus address | checksum``. The checksum is FFFF minus the sum
of all bytes before it. No frame has a failsafe flag: see ``[rc.failsafe]``.
"""

from collections.abc import Iterator, Sequence
from math import isfinite
from struct import Struct as Layout
from typing import ClassVar

from msgspec import Struct

from drivers.rc.base import RcDevice
from vehicled.core.messages import Message, MotorStatus, RcChannels
from vehicled.core.wire.channels import ChannelEnds
from vehicled.core.wire.crc import Buffer
from vehicled.core.wire.framing import CountedFrame, FixedFrame, FrameCheck, Framer, Protocol
from vehicled.core.wire.usage import Unused

SERVO = b"\x20"
COMMANDS = (0x40, 0x00)
"""Second byte: 40 of every receiver seen, 00 in published frames with 18 channels."""
WORDS, EXTRA = 14, 4
DISCOVER, TYPE, VALUE = 0x80, 0x90, 0xA0
EXTERNAL_VOLTAGE = 0x03
"""Type of sensor; its value counts 0.01 V in two bytes."""
ADDRESS = 1
ECHO_NS = 20_000_000
"""Time within which the same bytes on the one wire of the sensor bus are the driver's own."""
_SERVO = Layout("<2s14H")


def checksum(data: Buffer) -> int:
    """Return the checksum of a frame's bytes before it."""
    return 0xFFFF - sum(data) & 0xFFFF


_CHECK = FrameCheck(checksum, tail=2, stored=-2, size=2, order="little")
PROTOCOLS = (
    Protocol("SERVO", SERVO, FixedFrame(_CHECK, 32, COMMANDS)),
    Protocol("SENSOR", b"\x04", CountedFrame(_CHECK, at=0, least=4, most=4)),
)


def _checked(body: bytes) -> bytes:
    return body + checksum(body).to_bytes(2, "little")


class IbusFrame(Struct, frozen=True, gc=False):
    """One servo frame."""

    channels: tuple[float, ...]
    """14 or 18 channels, us."""


class SensorRequest(Struct, frozen=True, gc=False):
    """Request of the receiver on the sensor bus."""

    kind: int
    address: int


def encode(frame: IbusFrame) -> bytes:
    """Return the bytes of a frame with 14 or 18 channels."""
    values = [min(max(round(value), 0), 0xFFF) for value in frame.channels]
    words = (values + [1500] * WORDS)[:WORDS]
    for i, value in enumerate(values[WORDS:]):
        for k in range(3):
            words[3 * i + k] |= (value >> 4 * k & 0xF) << 12
    return _checked(_SERVO.pack(SERVO + bytes(COMMANDS[:1]), *words))


def encode_request(request: SensorRequest) -> bytes:
    """Return the bytes of a request of the receiver; the answer to a discovery is the same."""
    return _checked(bytes((4, request.kind | request.address)))


def encode_answer(request: SensorRequest, data: bytes) -> bytes:
    """Return the bytes of an answer with two bytes of data."""
    return _checked(bytes((4 + len(data), request.kind | request.address)) + data)


def parse(name: str, frame: bytes) -> IbusFrame | SensorRequest:
    """Return the content of a valid frame."""
    if name == "SENSOR":
        return SensorRequest(frame[1] & 0xF0, frame[1] & 0x0F)
    _, *words = _SERVO.unpack_from(frame)
    extra = [sum((words[3 * i + k] >> 12) << 4 * k for k in range(3)) for i in range(EXTRA)]
    channels = [float(word & 0xFFF) for word in words]
    return IbusFrame(
        tuple(channels + [float(value) for value in extra] if any(extra) else channels)
    )


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the valid frames of a recording as (name, content)."""
    for name, frame in Framer(PROTOCOLS, 64).feed(data):
        yield ("CHANNELS" if name == "SERVO" else name), parse(name, frame)


class IbusParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a FlySky receiver."""

    telemetry: bool = True
    """Answer on the sensor bus with the voltage of the drive's battery; a servo output never
    asks."""


class IbusDevice(RcDevice):
    """Driver of a FlySky receiver."""

    name: ClassVar[str] = "ibus"
    ends: ClassVar[ChannelEnds] = ChannelEnds(1000.0, 1500.0, 2000.0)
    channels: ClassVar[int] = 18
    line: ClassVar[str] = "baud=115200"
    Params: ClassVar[type[IbusParams]] = IbusParams
    consumes: tuple[type[Message], ...] = (MotorStatus,)

    def __init__(
        self, params: IbusParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._framer = Framer(PROTOCOLS, 64)
        self._echo, self._echo_ns = b"", 0

    @property
    def bad_frames(self) -> int:
        """Begins of frames without a valid frame, since start."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside frames, since start."""
        return self._framer.dropped_bytes

    def _clear(self) -> None:
        self._framer.clear()
        self._echo = b""

    def _read(self, data: bytes, t_ns: int) -> list[Message]:
        found: list[Message] = []
        for name, frame in self._framer.feed(data):
            content = parse(name, frame)
            if isinstance(content, IbusFrame):
                self._count(unusable=False)
                found.append(RcChannels(t_ns, t_ns, content.channels))
            elif frame == self._echo and t_ns - self._echo_ns < ECHO_NS:
                self._echo = b""
            else:
                self._answer(content, frame, t_ns)
        return found

    def _answer(self, request: SensorRequest, frame: bytes, now_ns: int) -> None:
        motor = self._newest.get(MotorStatus)
        volts = motor.input_voltage_v if isinstance(motor, MotorStatus) else float("nan")
        if request.address != ADDRESS or not self.params.telemetry or not isfinite(volts):
            self.usage.refuse("SENSOR", Unused.FOREIGN)
            return
        data = {
            DISCOVER: b"",
            TYPE: bytes((EXTERNAL_VOLTAGE, 2)),
            VALUE: round(min(max(volts, 0.0), 655.0) * 100).to_bytes(2, "little"),
        }
        if request.kind not in data:
            self.usage.refuse("SENSOR", Unused.NOT_READ)
            return
        self.usage.use("SENSOR")
        self._echo, self._echo_ns = encode_answer(request, data[request.kind]), now_ns
        self._send(self._echo, now_ns)
