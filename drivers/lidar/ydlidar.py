"""YDLIDAR of the series X, G, TG and T-mini: packets of a triangle or of a time of flight, and the
driver.

Sources: NOTES-ydlidar.md.
"""

from collections.abc import Iterator, Sequence
from math import pi
from struct import Struct as Layout
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.answers import (
    HEAD_BYTES,
    HealthStatus,
    Info,
    ScanBegins,
    answers,
    none,
    of,
    parse_answer,
)
from drivers.lidar.base import Health, ScannerModel, TurningLidar, TurningParams
from drivers.lidar.scan import Array, Measurements
from drivers.set_up import ConfigurationError, Script, SetUpRequest
from vehicled.core.messages import Message
from vehicled.core.wire.crc import xor8
from vehicled.core.wire.framing import (
    INCOMPLETE,
    NO_FRAME,
    FixedFrame,
    FrameCheck,
    Framer,
    Protocol,
    Shape,
    Stream,
)
from vehicled.core.wire.usage import Unused

SCAN, STOP, GET_INFO, GET_HEALTH, RESET = 0x60, 0x65, 0x90, 0x92, 0x80
GET_SPEED, SPEED_UP, SPEED_DOWN, SPEED_UP_FINE, SPEED_DOWN_FINE = 0x0D, 0x0B, 0x0C, 0x09, 0x0A
"""Read the speed; change it by 1 Hz, or by 0.1 Hz."""
SPEED_BYTES = 4
"""Bytes of the answer with a speed, in 0.01 Hz; it has the type of the identity."""
INFO = 0x04
POINTS = 0x81
HEADER_BYTES = 10
MOST_SAMPLES = 80
DRAIN_S = 0.1
STEPS_MOST = 30
_HEADER = Layout("<2sBBHHH")


class Model(NamedTuple):
    """One model on the wire."""

    lidar: ScannerModel
    sample_bytes: int
    """2, or 3 with an intensity before the range."""
    per_m: float
    """Counts of the range per metre."""
    triangle: bool
    """True if the angle of the beam depends on the range."""
    commands: bool = True
    """False for a unit that only sends."""
    controls_speed: bool = True


MODELS = {
    "x2": Model(
        ScannerModel(0.1, 8.0, 7.0, 3_000.0, 115_200),
        2,
        4_000.0,
        True,
        commands=False,
        controls_speed=False,
    ),
    "x4": Model(
        ScannerModel(0.12, 10.0, 7.0, 5_000.0, 128_000), 2, 4_000.0, True, controls_speed=False
    ),
    "g2": Model(ScannerModel(0.12, 12.0, 7.0, 5_000.0, 230_400), 3, 4_000.0, True),
    "g4": Model(ScannerModel(0.12, 16.0, 7.0, 9_000.0, 230_400), 2, 4_000.0, True),
    "g6": Model(ScannerModel(0.12, 25.0, 10.0, 18_000.0, 512_000), 2, 2_000.0, True),
    "tg15": Model(ScannerModel(0.05, 15.0, 10.0, 20_000.0, 512_000), 2, 1_000.0, False),
    "tg30": Model(ScannerModel(0.05, 30.0, 10.0, 20_000.0, 512_000), 2, 1_000.0, False),
    "tmini": Model(ScannerModel(0.03, 12.0, 10.0, 4_000.0, 230_400), 3, 4_000.0, False),
}


class YdlidarPacket(NamedTuple):
    """Packet of measurements. Angles in degrees, clockwise from the device's zero, of the rotor."""

    begins: bool
    """True for the packet at the beginning of a turn."""
    speed_hz: float
    """Speed; 0 where the device does not report it."""
    first_deg: float
    last_deg: float
    ranges: tuple[int, ...]
    """Ranges in counts of the model, 0 for none."""
    intensities: tuple[int, ...] = ()


class PacketShape(Shape):
    """Shape of packets: two bytes of checksum over words, in which an intensity counts as a word of
    its own."""

    weight = 2

    def __init__(self, sample_bytes: int) -> None:
        self._size = sample_bytes

    def head(self, sync: bytes) -> list[bytes]:
        return [
            *super().head(sync),
            bytes(range(256)),
            bytes(range(1, MOST_SAMPLES + 1)),
            bytes(range(1, 256, 2)),
        ]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < 5:
            return INCOMPLETE
        count = buffer[at + 3]
        fits = 1 <= count <= MOST_SAMPLES and buffer[at + 4] & 1
        return HEADER_BYTES + self._size * count if fits else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return checksum(bytes(buffer[at:stop]), self._size) == 0


def checksum(packet: bytes, sample_bytes: int) -> int:
    """Return the exclusive or of all 16-bit words in a packet: 0 with its checksum, the checksum
    with two zeros in its place."""
    if sample_bytes == 2:
        return xor8(packet[::2]) | xor8(packet[1::2]) << 8
    low = (
        xor8(packet[:HEADER_BYTES:2])
        ^ xor8(packet[HEADER_BYTES::3])
        ^ xor8(packet[HEADER_BYTES + 1 :: 3])
    )
    return low | (xor8(packet[1:HEADER_BYTES:2]) ^ xor8(packet[HEADER_BYTES + 2 :: 3])) << 8


ANSWERS = answers({INFO: range(SPEED_BYTES, 21, 16)}, {POINTS: 5})
STAMP = Protocol("stamp", b"\xaa\x66", FixedFrame(FrameCheck(xor8), 8))
COMMANDS = Protocol("command", b"\xa5", FixedFrame(FrameCheck(lambda _: 0), 2))


def packets(sample_bytes: int) -> Protocol:
    """Return the protocol of packets whose samples have so many bytes."""
    return Protocol("packet", b"\xaa\x55", PacketShape(sample_bytes))


def command(code: int) -> bytes:
    """Return a request."""
    return bytes((0xA5, code))


def parse_packet(frame: bytes) -> YdlidarPacket:
    """Return the content of a valid packet."""
    _, kind, count, first, last, _ = _HEADER.unpack_from(frame)
    size = (len(frame) - HEADER_BYTES) // count
    body = np.frombuffer(frame, np.uint8, offset=HEADER_BYTES).reshape(count, size).astype(np.int64)
    ranges = tuple((body[:, -2] | body[:, -1] << 8).tolist())
    # The two lowest bits beside an intensity are part of it, or marks of glass and sunlight.
    intensities = tuple((body[:, 0] | (body[:, 1] & 3) << 8).tolist()) if size == 3 else ()
    ranges = tuple(each & ~3 for each in ranges) if size == 3 else ranges
    return YdlidarPacket(
        bool(kind & 1),
        (kind >> 1) / 10.0,
        (first >> 1) / 64.0,
        (last >> 1) / 64.0,
        ranges,
        intensities,
    )


def encode_packet(packet: YdlidarPacket) -> bytes:
    """Return a packet as the device sends it; with ``intensities`` its samples have three bytes."""
    first, last = (
        round(each * 64.0) % (360 * 64) << 1 | 1 for each in (packet.first_deg, packet.last_deg)
    )
    if packet.intensities:
        pairs = zip(packet.intensities, packet.ranges)
        words = [
            (strength & 0xFF | (each & ~3 | strength >> 8 & 3) << 8).to_bytes(3, "little")
            for strength, each in pairs
        ]
        body = b"".join(words)
    else:
        body = b"".join(each.to_bytes(2, "little") for each in packet.ranges)
    kind = (round(packet.speed_hz * 10.0) << 1 | packet.begins) & 0xFF
    frame = _HEADER.pack(b"\xaa\x55", kind, len(packet.ranges), first, last, 0) + body
    check = checksum(frame, 3 if packet.intensities else 2)
    return frame[:8] + check.to_bytes(2, "little") + frame[10:]


def shift_deg(millimetres: Array) -> Array:
    """Return how far the beam of a triangle is beyond the rotor. Where nothing returned it is that
    of a far range: free is far."""
    far = np.where(millimetres > 0.0, millimetres, np.inf)
    found: Array = np.arctan(21.8 * (1.0 / far - 1.0 / 155.3)) * 180.0 / pi
    return found


class Speed(NamedTuple):
    """Speed that is set in the device, Hz."""

    hz: float


def parse_reply(frame: bytes) -> Info | HealthStatus | ScanBegins | Speed | None:
    """Return the content of an answer whose head is valid."""
    if frame[6] == POINTS:
        return ScanBegins(POINTS)
    if len(frame) == HEAD_BYTES + SPEED_BYTES:
        return Speed(int.from_bytes(frame[HEAD_BYTES:], "little") / 100.0)
    return parse_answer(frame)


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the content of a recording as (name, content). Samples have two bytes, or three
    if more packets fit then."""
    found = []
    for size in (2, 3):
        framer = Framer([ANSWERS, STAMP, packets(size)], 512)
        found.append([*framer.feed(data), *framer.flush()])
    for name, frame in max(found, key=lambda frames: sum(len(frame) for _, frame in frames)):
        yield (
            name,
            parse_packet(frame)
            if name == "packet"
            else frame
            if name == "stamp"
            else parse_reply(frame),
        )


class YdlidarParams(TurningParams, frozen=True, kw_only=True):
    """Parameters of a YDLIDAR. Its own ROS driver turns its zero to the back: ``mounting_yaw_rad =
    3.1416`` does the same."""

    model: Literal["x2", "x4", "g2", "g4", "g6", "tg15", "tg30", "tmini"] = "x4"
    """Model, which sets rays, ranges, rate and line rate."""
    intensity: bool | None = None
    """True if each sample has an intensity, false if none has. Default: as the model is
    delivered."""


class YdlidarDevice(TurningLidar):
    """Driver of a YDLIDAR. It turns clockwise."""

    name: ClassVar[str] = "ydlidar"
    models: ClassVar[dict[str, ScannerModel]] = {
        name: model.lidar for name, model in MODELS.items()
    }
    Params: ClassVar[type[TurningParams]] = YdlidarParams

    def __init__(
        self, params: YdlidarParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self.kind = MODELS[params.model]
        self.sample_bytes = (
            self.kind.sample_bytes if params.intensity is None else 3 if params.intensity else 2
        )
        self._reader: Framer = Framer([ANSWERS, STAMP, packets(self.sample_bytes)], 512)
        self._sample_ns = 1e9 / self.kind.lidar.samples_hz
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self) -> None:
        self._reader.clear()
        super().restart()

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        for name, frame in self._reader.feed(data):
            if name == "packet":
                self._measured += 1
                packet = parse_packet(frame)
                if self.plausible(
                    (packet.last_deg - packet.first_deg) % 360.0,
                    len(packet.ranges),
                    self._sample_ns,
                ):
                    self.usage.use(name)
                    found += self._turns.add(self._measurements(packet, t_rx_ns), t_rx_ns)
                else:
                    self.usage.refuse(name, Unused.CONTRADICTION, "angles")
            elif name == "stamp":
                self.usage.refuse(name, Unused.NOT_READ)
            else:
                self.usage.use(name)
                reply = parse_reply(frame)
                found.append(reply)
                if isinstance(reply, HealthStatus):
                    found.append(Health(reply.complaint))
        return found

    def _measurements(self, packet: YdlidarPacket, t_rx_ns: int) -> Measurements:
        count = len(packet.ranges)
        range_m = np.array(packet.ranges) / self.kind.per_m
        span = (packet.last_deg - packet.first_deg) % 360.0
        angle = np.radians(packet.first_deg + span * np.arange(count) / max(count - 1, 1))
        shift = np.radians(shift_deg(1000.0 * range_m)) if self.kind.triangle else np.zeros(count)
        t_ns = t_rx_ns - self._latency_ns - np.arange(count - 1, -1, -1) * self._sample_ns
        return Measurements(angle, shift, range_m, t_ns)

    # ---------------------------------------------------------------- set-up

    def script(self) -> Script:
        """Stop, identify, check the health, set the speed, and measure."""
        if not self.kind.commands:
            return {}
        yield SetUpRequest("stop", command(STOP), none, DRAIN_S, optional=True)
        self.restart()
        info = yield SetUpRequest("report its model", command(GET_INFO), of(Info))
        health = yield SetUpRequest("report its health", command(GET_HEALTH), of(HealthStatus))
        if health.status == 2:
            raise ConfigurationError(health.complaint)
        fields: dict[str, object] = {
            "model": info.model,
            "firmware": info.firmware,
            "serial": info.serial,
            "health": health.status,
        }
        if self.params.rate_hz is not None and self.kind.controls_speed:
            speed = yield SetUpRequest("report its speed", command(GET_SPEED), of(Speed))
            for _ in range(STEPS_MOST):
                off = self.params.rate_hz - speed.hz
                if abs(off) < 0.05:
                    break
                coarse = abs(off) > 0.95
                code = (
                    (SPEED_UP if coarse else SPEED_UP_FINE)
                    if off > 0.0
                    else SPEED_DOWN
                    if coarse
                    else SPEED_DOWN_FINE
                )
                speed = yield SetUpRequest("change its speed", command(code), of(Speed))
            fields["rate_hz"] = speed.hz
        yield SetUpRequest("measure", command(SCAN), of(ScanBegins))
        return fields
