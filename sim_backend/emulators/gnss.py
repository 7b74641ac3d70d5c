"""Common part of the emulated receivers that take commands in text: input, epochs, injected
interference."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from math import atan2, cos, degrees, isfinite, pi, sin, sqrt, tau
from types import MappingProxyType
from typing import Any, ClassVar

from drivers.rtcm.codec import RTCM3
from sim_backend.emulators.corrections import EmulatedBase
from sim_backend.emulators.line import AnsweringDevice, baud_of
from sim_backend.emulators.ublox_epoch import DEFAULT_BASELINE_M, FixPairing, Instant
from sim_backend.sensors.noise import stream
from vehicled.core.messages import FixType, GnssFix, Message
from vehicled.core.wire.framing import Framer, Protocol
from vehicled.profile.schema import DeviceTable

BAUD = 115_200
STALE_NS = 200_000_000
NO_INTERFERENCE = 1


class CommandedReceiver(AnsweringDevice, ABC):
    """Receiver as a :class:`sim_backend.emulators.line.LineDevice`, in factory state until it is
    set up: it sends nothing."""

    kinds: ClassVar[Mapping[str, float]] = MappingProxyType({})
    """Injectable failures with default levels: 2 is warning, 3 critical."""
    commands: ClassVar[tuple[Protocol, ...]]
    """Frames of its commands."""

    def __init__(self, port: str, device: DeviceTable, seed: int, start_ns: int) -> None:
        super().__init__(baud_of(device.port) or BAUD)
        self.params: Any = device.driver.selected
        """Table of the driver."""
        self.messages = device.messages
        self._pairing = FixPairing(device, start_ns)
        self.jamming = self.spoofing = NO_INTERFERENCE
        """Levels of the injected failures."""
        self.base = EmulatedBase(stream(seed, f"{port}/base").bytes)
        """Its base mode."""
        self.corrections = 0
        """Number of complete RTCM messages received."""
        self._restart()

    def _restart(self) -> None:
        self._framer = Framer((RTCM3, *self.commands))
        self._received_ns = 0
        self._answers.clear()
        self._tx.clear()
        self._pairing.clear()
        self._sent: dict[str, int] = {}
        self.base.off()
        self.begin()

    @abstractmethod
    def begin(self) -> None:
        """Take the factory settings; of a receiver that the driver does not set up, those that it
        needs."""

    @abstractmethod
    def obey(self, command: str) -> bytes:
        """Return the answer to a command."""

    @abstractmethod
    def send_epoch(self, instant: Instant) -> None:
        """Send the messages of an epoch that are on."""

    def restart(self, now_ns: int) -> None:
        """Forget all settings, because none was saved."""
        self._restart()

    def inject(self, kind: str, value: float, active: bool, now_ns: int) -> None:
        """Report interference or false signals."""
        setattr(self, kind, int(value) if active else NO_INTERFERENCE)

    def on_bytes(self, data: bytes, now_ns: int) -> None:
        """Answer commands, and count corrections."""
        stale = now_ns - self._received_ns > STALE_NS
        self._received_ns = now_ns
        for protocol, frame in self._framer.feed(data, stale):
            if protocol == RTCM3.name:
                self.corrections += 1
            else:
                self.answer(self.obey(frame.decode("ascii").strip()), now_ns)

    def on_message(self, message: Message, now_ns: int) -> None:
        """Start an epoch with a position and the heading of its instant; without positions every
        heading starts one."""
        instant = self._pairing.on_message(message)
        if instant is not None:
            line_rad = self.params.baseline_yaw_rad
            length_m = self.params.baseline_m or DEFAULT_BASELINE_M
            fix = instant.fix
            known = fix is not None and solved(fix)
            self.base.on_instant(
                instant.gps_ms,
                (fix.latitude_rad, fix.longitude_rad, fix.height_m) if fix and known else None,
            )
            self.send_epoch(instant._replace(baseline_yaw_rad=line_rad, baseline_m=length_m))

    def due(self, name: str, interval_ms: int, instant: Instant) -> bool:
        """True once in each interval of an output."""
        index = instant.gps_ms // interval_ms
        before, self._sent[name] = self._sent.get(name), index
        return index != before


def solved(fix: GnssFix | None) -> bool:
    """True for a fix with a position."""
    return (
        fix is not None
        and fix.fix_type not in (FixType.NONE, FixType.TIME)
        and isfinite(fix.latitude_rad)
    )


def sigma(variance: float, unknown: float) -> float:
    """Return a standard deviation; ``unknown`` without one."""
    return sqrt(variance) if variance >= 0.0 else unknown


def line_deg(instant: Instant) -> float | None:
    """Return the direction from the main antenna to the second one, degrees clockwise from north;
    None if unknown."""
    heading = instant.heading
    if heading is None or not isfinite(heading.yaw_rad) or not instant.solved:
        return None
    return degrees((pi / 2 - heading.yaw_rad - instant.baseline_yaw_rad) % tau) % 360.0


def vector_m(instant: Instant, bearing_deg: float) -> tuple[float, float]:
    """Return the vector between the antennas: east, north."""
    bearing = bearing_deg * pi / 180.0
    return instant.baseline_m * sin(bearing), instant.baseline_m * cos(bearing)


def course_deg(east: float, north: float) -> float:
    """Return the course over ground, degrees clockwise from north."""
    return degrees(atan2(east, north)) % 360.0
