"""LDROBOT LD06, LD19 and STL-27L: packets of twelve measurements, and the driver. Sources:
NOTES-ldrobot.md."""

from collections.abc import Iterator, Sequence
from struct import Struct as Layout
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.base import ScannerModel, TurningLidar, TurningParams
from drivers.lidar.scan import Measurements
from vehicled.core.messages import Message
from vehicled.core.wire.crc import Buffer, table8
from vehicled.core.wire.framing import FixedFrame, FrameCheck, Framer, Protocol
from vehicled.core.wire.usage import Unused

SAMPLES = 12
FRAME_BYTES = 47
HEAD = b"\x54\x2c"
TURN = 36_000
STAMP_MS = 30_000
"""Counts of an angle in a turn, and milliseconds after which the stamp begins again."""
_FRAME = Layout("<2sHH" + SAMPLES * "HB" + "HHB")


class LdrobotPacket(NamedTuple):
    """Packet of measurements, clockwise from the device's front."""

    speed_degps: int
    first_cdeg: int
    """Angle of the first measurement, 0.01 degrees; ``last_cdeg`` that of the last."""
    ranges_mm: tuple[int, ...]
    """Ranges, 0 for none."""
    intensities: tuple[int, ...]
    last_cdeg: int
    stamp_ms: int


_CRC = table8(0x4D)


def crc8(data: Buffer) -> int:
    """Return CRC-8 with the polynomial 0x4D, which is 0 over a packet with its CRC."""
    crc = 0
    for byte in data:
        crc = _CRC[crc ^ byte]
    return crc


PROTOCOL = Protocol("packet", HEAD, FixedFrame(FrameCheck(crc8, 40), FRAME_BYTES))


def parse_packet(frame: bytes) -> LdrobotPacket:
    """Return the content of a valid packet."""
    _, speed, first, *samples, last, stamp, _ = _FRAME.unpack(frame)
    return LdrobotPacket(speed, first, tuple(samples[::2]), tuple(samples[1::2]), last, stamp)


def encode_packet(packet: LdrobotPacket) -> bytes:
    """Return a packet as the device sends it."""
    samples = [value for pair in zip(packet.ranges_mm, packet.intensities) for value in pair]
    frame = _FRAME.pack(
        HEAD, packet.speed_degps, packet.first_cdeg, *samples, packet.last_cdeg, packet.stamp_ms, 0
    )[:-1]
    return frame + bytes((crc8(frame),))


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the packets of a recording."""
    framer = Framer((PROTOCOL,))
    for name, frame in [*framer.feed(data), *framer.flush()]:
        yield name, parse_packet(frame)


class LdrobotParams(TurningParams, frozen=True, kw_only=True):
    """Parameters of an LDROBOT scanner, which takes no commands."""

    model: Literal["ld06", "ld19", "stl27l"] = "ld19"
    """Model, which sets rays, ranges, rate and line rate."""


class LdrobotDevice(TurningLidar):
    """Driver of an LDROBOT scanner. It turns clockwise."""

    name: ClassVar[str] = "ldrobot"
    models: ClassVar[dict[str, ScannerModel]] = {
        "ld06": ScannerModel(0.02, 12.0, 10.0, 4_500.0, 230_400),
        "ld19": ScannerModel(0.02, 12.0, 10.0, 4_500.0, 230_400),
        "stl27l": ScannerModel(0.03, 25.0, 10.0, 21_600.0, 921_600),
    }
    Params: ClassVar[type[TurningParams]] = LdrobotParams

    def __init__(
        self, params: LdrobotParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader: Framer = Framer((PROTOCOL,))
        super().__init__(params, messages, command_lifetime_ns)

    def restart(self) -> None:
        self._reader.clear()
        super().restart()

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        for name, frame in self._reader.feed(data):
            self._measured += 1
            packet = parse_packet(frame)
            span = (packet.last_cdeg - packet.first_cdeg) % TURN
            sample_ns = 1e9 / self.model.samples_hz
            if not self.plausible(span / 100.0, SAMPLES, sample_ns):
                self.usage.refuse(name, Unused.CONTRADICTION, "angles")
                continue
            self.usage.use(name)
            angle = np.radians(
                (packet.first_cdeg + span * np.arange(SAMPLES) / (SAMPLES - 1)) / 100.0
            )
            t_ns = t_rx_ns - self._latency_ns - np.arange(SAMPLES - 1, -1, -1) * sample_ns
            measured = Measurements(
                angle, np.zeros(SAMPLES), np.array(packet.ranges_mm) / 1000.0, t_ns
            )
            found += self._turns.add(measured, t_rx_ns)
        return found
