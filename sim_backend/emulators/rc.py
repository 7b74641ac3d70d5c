"""Emulators of RC receivers: frames of the simulated handset in the receiver's protocol, and what
it does without its handset.

CRSF is that of an ExpressLRS receiver: without a link it sends link statistics alone. SBUS marks
lost and failsafe frames. iBUS has no mark: it goes on with its preset.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from drivers.rc import crsf, ibus, sbus
from sim_backend.emulators.line import LineDevice, on_its_line
from sim_backend.sensors.noise import stream
from vehicled.core.messages import Message, RcChannels
from vehicled.core.wire.framing import Framer
from vehicled.profile.schema import DeviceTable

HALF = "half_frames"
KINDS = MappingProxyType({HALF: 0.5})
LINK_NS = 100_000_000
"""Period of the link statistics."""
SENSOR_NS = 7_000_000
"""Least time between two requests of the sensor bus."""


class ReceiverUnit(LineDevice, ABC):
    """Receiver as a :class:`sim_backend.emulators.line.LineDevice`. Subclasses encode."""

    BAUD = 0

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(self.BAUD)
        self._chance = stream(seed, f"{port}/frames")
        self._half = 0.0
        self.shown: dict[str, Any] = {}
        """Newest telemetry for the handset, by message."""

    @property
    def kinds(self) -> Mapping[str, float]:
        """See :class:`sim_backend.emulators.failures.FailureInjectable`."""
        return KINDS

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Begin or end to lose the second half of a fraction of the frames."""
        self._half = value if active else 0.0

    def restart(self, now_ns: int) -> None:
        self._tx.clear()

    def on_message(self, message: Message, now_ns: int) -> None:
        if isinstance(message, RcChannels):
            for frame in self._frames(message, now_ns):
                halved = self._half > 0.0 and float(self._chance.random()) < self._half
                self._tx.append(frame[: len(frame) // 2] if halved else frame)

    @abstractmethod
    def _frames(self, message: RcChannels, now_ns: int) -> list[bytes]:
        """Return the frames of what the handset sends now."""


class CrsfUnit(ReceiverUnit):
    """ExpressLRS receiver."""

    BAUD = 420_000

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns)
        self._framer = Framer(crsf.PROTOCOLS, crsf.MOST_BYTES)
        self._link_ns = start_ns

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Keep the telemetry."""
        for _, frame in self._framer.feed(data):
            self.shown[crsf.NAMES.get(frame[2], "")] = crsf.parse(frame)

    def _frames(self, message: RcChannels, now_ns: int) -> list[bytes]:
        frames = [] if message.failsafe else [crsf.encode(crsf.Channels(message.channels))]
        if now_ns >= self._link_ns:
            self._link_ns = now_ns + LINK_NS
            link = crsf.LinkStatistics(
                message.rssi_dbm, 100.0 * message.link_quality, message.snr_db
            )
            frames.append(crsf.encode(link))
        return frames


class SbusUnit(ReceiverUnit):
    """SBUS receiver."""

    BAUD = 100_000

    def _frames(self, message: RcChannels, now_ns: int) -> list[bytes]:
        channels = [min(max(value, 0.0), 2047.0) for value in message.channels[:16]]
        digital = [value > 992.0 for value in (*message.channels[16:18], 0.0, 0.0)[:2]]
        # Lost packets show as repeated frames.
        lost = message.frame_lost or float(self._chance.random()) > message.link_quality
        return [
            sbus.encode(
                sbus.SbusFrame(tuple(channels), (digital[0], digital[1]), lost, message.failsafe)
            )
        ]


class IbusUnit(ReceiverUnit):
    """FlySky receiver whose sensor bus is on the same line."""

    BAUD = 115_200

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(port, device, seed, start_ns)
        self._framer = Framer(ibus.PROTOCOLS, 64)
        self._asks_ns = start_ns
        self._asked = 0
        self._received = b""

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Keep the answers of the sensor; on one wire the daemon receives its own."""
        self._tx.append(data)
        self._received = (self._received + data)[-64:]
        at = self._received.rfind(bytes((6, ibus.VALUE | ibus.ADDRESS)))
        if at >= 0 and len(self._received) >= at + 6:
            self.shown["VOLTAGE"] = int.from_bytes(self._received[at + 2 : at + 4], "little") / 100

    def _frames(self, message: RcChannels, now_ns: int) -> list[bytes]:
        frames = [ibus.encode(ibus.IbusFrame(message.channels[: ibus.WORDS]))]
        if now_ns >= self._asks_ns:
            self._asks_ns, self._asked = now_ns + 10 * SENSOR_NS, self._asked + 1
            kind = (ibus.DISCOVER, ibus.TYPE, ibus.VALUE)[min(self._asked - 1, 2)]
            frames.append(ibus.encode_request(ibus.SensorRequest(kind, ibus.ADDRESS)))
        return frames


crsf_unit = on_its_line(CrsfUnit)
sbus_unit = on_its_line(SbusUnit)
ibus_unit = on_its_line(IbusUnit)
