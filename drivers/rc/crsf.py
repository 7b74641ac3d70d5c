"""CRSF of TBS Crossfire and ExpressLRS: codec in both directions, and the driver with telemetry to
the handset. Sources: NOTES.md.

Frame: ``address | length | type | payload, big-endian | CRC-8/DVB-S2 over type and payload``, 64
bytes at most. The length counts type, payload and CRC. A receiver sends channels (0x16, or since
version 3 also a subset, 0x17) and link statistics (0x14).
"""

from collections.abc import Iterator, Sequence
from math import atan2, degrees, hypot, isfinite, nan, pi, remainder, tau
from struct import Struct as Layout
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta, Struct

from drivers.rc.base import CHANNELS, UNKNOWN, RcDevice, pack11, unpack11
from vehicled.core.messages import (
    ActuatorCommand,
    GnssFix,
    Message,
    MotorStatus,
    RcChannels,
    StateEstimate,
)
from vehicled.core.wire.channels import TICKS
from vehicled.core.wire.crc import crc8_d5
from vehicled.core.wire.framing import NO_FRAME, CountedFrame, FrameCheck, Framer, Protocol
from vehicled.core.wire.usage import Unused

SYNC = 0xC8
ADDRESSES = (SYNC, 0xEC, 0xEE, 0xEA, 0x00)
"""First bytes of a frame: the flight controller's address as the sync; a receiver's, module's,
handset's or broadcast for others that were seen with channels."""
GPS, BATTERY, LINK, RC, SUBSET, ATTITUDE, MODE = 0x02, 0x08, 0x14, 0x16, 0x17, 0x1E, 0x21
NAMES = {
    GPS: "GPS", BATTERY: "BATTERY", LINK: "LINK_STATISTICS", RC: "CHANNELS",
    SUBSET: "CHANNELS_SUBSET", ATTITUDE: "ATTITUDE", MODE: "FLIGHT_MODE",
}  # fmt: skip
MOST_BYTES = 64
CRC_WEIGHT = 10
"""Bytes of a checksum in C that cost as much as one of this, which has no function in C."""
SUBSET_NS = 500_000_000
"""Age beyond which a channel of an older subset is unknown."""
LINK_NS = 2_000_000_000
"""Age beyond which link statistics are unknown; a receiver sends them several times a second."""
SHOWN_NS = 2_000_000_000
"""Age beyond which a value is no longer shown on the handset."""
COURSE_MPS = 0.3
"""Speed from which the course over ground is a heading."""
ALTITUDE_OFFSET_M = 1000

_LINK = Layout(">BBBbBBBBBb")
_GPS = Layout(">iiHHHB")
_ATTITUDE = Layout(">hhh")


class Channels(NamedTuple):
    """Type 0x16: all channels, 172 to 1811 with the centre at 992."""

    channels: tuple[float, ...]


class Subset(NamedTuple):
    """Type 0x17: some channels, in the same counts."""

    first: int
    """Number of the first channel, from 0."""
    channels: tuple[float, ...]


class LinkStatistics(NamedTuple):
    """Type 0x14. Up is from the handset to the vehicle."""

    rssi_dbm: float
    """Signal strength at the better antenna, dBm."""
    quality: float
    """Packets that arrive, %."""
    snr_db: float
    antenna: int = 0
    rf_mode: int = 0
    power: int = 0
    """Index of the transmitter's power."""
    down_rssi_dbm: int = 0
    down_quality: int = 0
    down_snr_db: int = 0


class BatterySensor(NamedTuple):
    """Type 0x08."""

    voltage_v: float
    current_a: float
    capacity_mah: int = 0
    remaining: int = 0
    """Charge left, %."""


class Gps(NamedTuple):
    """Type 0x02."""

    latitude_deg: float
    longitude_deg: float
    speed_kmh: float
    heading_deg: float
    """Heading, degrees clockwise from north."""
    altitude_m: int
    satellites: int


class CrsfAttitude(NamedTuple):
    """Type 0x1E, rad; yaw clockwise from north."""

    pitch_rad: float
    roll_rad: float
    yaw_rad: float


class FlightMode(NamedTuple):
    """Type 0x21: text of up to 15 characters."""

    text: str


Content = (
    Channels | Subset | LinkStatistics | BatterySensor | Gps | CrsfAttitude | FlightMode | bytes
)

_LEAST = {GPS: 17, BATTERY: 10, LINK: 12, RC: 24, SUBSET: 4, ATTITUDE: 8, MODE: 3}
"""Least count of a frame by type, with type and CRC."""
_OTHERS = bytes((
    0x03, 0x06, 0x07, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x0E, 0x10, 0x18, 0x1C, 0x1D, 0x1F, 0x22, 0x28,
    0x29, 0x2B, 0x2C, 0x2D, 0x2E, 0x32, 0x34, 0x3A, 0x3C, 0x7A, 0x7B, 0x7C, 0x80, 0xAA, 0xAC,
))  # fmt: skip
"""Types that are defined and not read."""


class _CrsfFrame(CountedFrame):
    """Frame of a defined type, long enough for it: a checksum of 8 bits alone would find frames in
    anything."""

    def __init__(self, kinds: bytes) -> None:
        super().__init__(
            FrameCheck(crc8_d5, CRC_WEIGHT, first=2), at=1, extra=2, least=3, most=62, head=3
        )
        self._types = kinds
        self._shortest = bytes(
            _LEAST.get(kind, 3) if kind in kinds else 0xFF for kind in range(256)
        )

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), self._types]

    def length(self, buffer: bytes | bytearray, at: int, end: int) -> int:
        size = super().length(buffer, at, end)
        return NO_FRAME if 0 < size < self._shortest[buffer[at + 2]] + 2 else size


PROTOCOLS = (
    Protocol("CRSF", bytes((SYNC,)), _CrsfFrame(bytes(_LEAST) + _OTHERS)),
    *[
        Protocol("CRSF", bytes((address,)), _CrsfFrame(bytes((LINK, RC, SUBSET))))
        for address in ADDRESSES[1:]
    ],
)


def frame(kind: int, payload: bytes, address: int = SYNC) -> bytes:
    """Return a frame of any type. Raises ValueError beyond 60 bytes of payload."""
    if len(payload) > MOST_BYTES - 4:
        raise ValueError(
            f"{len(payload)} bytes of payload do not fit a frame ({MOST_BYTES - 4} at most)"
        )
    body = bytes((kind,)) + payload
    return bytes((address, len(body) + 1)) + body + bytes((crc8_d5(body),))


def encode(content: Content, address: int = SYNC) -> bytes:
    """Return the frame of a content; numbers beyond their field are cut."""
    match content:
        case Channels(channels):
            return frame(RC, pack11([_cut(value, 0, 0x7FF) for value in channels]), address)
        case Subset(first, channels):
            packed = first & 0x1F | 1 << 5
            for i, value in enumerate(channels):
                packed |= _cut(((value - TICKS.centre) * 0.625 + 512) * 2, 0, 0x7FF) << 8 + 11 * i
            return frame(
                SUBSET, packed.to_bytes(1 + (11 * len(channels) + 7) // 8, "little"), address
            )
        case LinkStatistics():
            c = content
            up = (-c.rssi_dbm, -c.rssi_dbm, c.quality, c.snr_db, c.antenna, c.rf_mode, c.power)
            values = [*up, -c.down_rssi_dbm, c.down_quality, c.down_snr_db]
            signed = (3, 9)
            cut = [
                _cut(v, -128, 127) if i in signed else _cut(v, 0, 255) for i, v in enumerate(values)
            ]
            return frame(LINK, _LINK.pack(*cut), address)
        case BatterySensor(voltage_v, current_a, capacity_mah, remaining):
            tenths = b"".join(
                [
                    _cut(10.0 * value, 0, 0x7FFF).to_bytes(2, "big")
                    for value in (voltage_v, current_a)
                ]
            )
            return frame(
                BATTERY,
                tenths
                + _cut(capacity_mah, 0, 0xFFFFFF).to_bytes(3, "big")
                + bytes((_cut(remaining, 0, 100),)),
                address,
            )
        case Gps():
            degrees_e7 = [
                _cut(value * 1e7, -(2**31), 2**31 - 1)
                for value in (content.latitude_deg, content.longitude_deg)
            ]
            speed = _cut(10.0 * content.speed_kmh, 0, 0xFFFF)
            heading = _cut(100.0 * content.heading_deg, 0, 0xFFFF)
            height = _cut(content.altitude_m + ALTITUDE_OFFSET_M, 0, 0xFFFF)
            return frame(
                GPS,
                _GPS.pack(*degrees_e7, speed, heading, height, _cut(content.satellites, 0, 255)),
                address,
            )
        case CrsfAttitude():
            return frame(
                ATTITUDE,
                _ATTITUDE.pack(
                    *[_cut(remainder(value, tau) * 1e4, -31416, 31416) for value in content]
                ),
                address,
            )
        case FlightMode(text):
            return frame(MODE, text.encode("ascii", "replace")[:15] + b"\0", address)
    raise TypeError(f"no frame holds {content!r}")


def _cut(value: float, low: int, high: int) -> int:
    return min(max(round(value), low), high) if isfinite(value) else low


def parse(data: bytes) -> Content:
    """Return the content of a valid frame; the payload of one that is of another type, or too
    short."""
    kind, payload = data[2], data[3:-1]
    if kind == RC and len(payload) >= 22:
        # Longer ones are of newer versions, such as with an arming flag: what follows is ignored.
        return Channels(unpack11(payload[:22]))
    if kind == SUBSET and payload:
        return _subset(payload)
    if kind == LINK and len(payload) >= _LINK.size:
        first, second, quality, snr, antenna, mode, power, down, down_quality, down_snr = (
            _LINK.unpack_from(payload)
        )
        antennas = [-value for value in (first, second) if value]
        return LinkStatistics(
            max(antennas, default=0),
            quality,
            snr,
            antenna,
            mode,
            power,
            -down,
            down_quality,
            down_snr,
        )
    if kind == BATTERY and len(payload) >= 8:
        volts, amperes, capacity = (
            int.from_bytes(payload[i:j], "big") for i, j in ((0, 2), (2, 4), (4, 7))
        )
        return BatterySensor(volts / 10, amperes / 10, capacity, payload[7])
    if kind == GPS and len(payload) >= _GPS.size:
        latitude, longitude, speed, heading, altitude, satellites = _GPS.unpack_from(payload)
        return Gps(
            latitude / 1e7,
            longitude / 1e7,
            speed / 10,
            heading / 100,
            altitude - ALTITUDE_OFFSET_M,
            satellites,
        )
    if kind == ATTITUDE and len(payload) >= _ATTITUDE.size:
        pitch, roll, yaw = _ATTITUDE.unpack_from(payload)
        return CrsfAttitude(pitch / 1e4, roll / 1e4, yaw / 1e4)
    if kind == MODE:
        return FlightMode(payload.partition(b"\0")[0].decode("ascii", "replace"))
    return payload


def _subset(payload: bytes) -> Subset:
    head, bits = payload[0], 10 + (payload[0] >> 5 & 3)
    packed, count = int.from_bytes(payload[1:], "little"), 8 * (len(payload) - 1) // bits
    step_us = 0.5 ** (bits - 10)
    values = [(packed >> bits * i & (1 << bits) - 1) * step_us + 988.0 for i in range(count)]
    return Subset(head & 0x1F, tuple([(us - 1500.0) * 1.6 + TICKS.centre for us in values]))


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the valid frames of a recording as (name, content); unknown types are named by
    number."""
    for _, found in Framer(PROTOCOLS, MOST_BYTES).feed(data):
        yield NAMES.get(found[2], f"0x{found[2]:02X}"), parse(found)


class CrsfParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of a CRSF receiver."""

    telemetry_hz: Annotated[float, Meta(ge=0.0, le=50.0)] = 10.0
    """Telemetry frames per second to the handset, Hz: battery, position, attitude and mode in turn.
    0: none."""


class CrsfDevice(RcDevice):
    """Driver of a CRSF or ExpressLRS receiver."""

    name: ClassVar[str] = "crsf"
    line: ClassVar[str] = "baud=420000"
    Params: ClassVar[type[CrsfParams]] = CrsfParams
    consumes: tuple[type[Message], ...] = (MotorStatus, GnssFix, StateEstimate, ActuatorCommand)

    def __init__(
        self, params: CrsfParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        super().__init__(params, messages, command_lifetime_ns)
        self._framer = Framer(PROTOCOLS, MOST_BYTES)
        self._period_ns = round(1e9 / params.telemetry_hz) if params.telemetry_hz else 0
        self._begin()

    @property
    def bad_frames(self) -> int:
        """Begins of frames without a valid frame, since start."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside frames, since start."""
        return self._framer.dropped_bytes

    def _begin(self) -> None:
        self._link: LinkStatistics | None = None
        self._link_ns = self._telemetry_ns = self._turn = 0
        self._subset = list(UNKNOWN)
        self._subset_ns = [0] * CHANNELS

    def _clear(self) -> None:
        self._framer.clear()
        self._begin()

    def _read(self, data: bytes, t_ns: int) -> list[Message]:
        found: list[Message] = []
        for _, each in self._framer.feed(data):
            content = parse(each)
            if isinstance(content, Channels):
                found.append(self._with_link(content.channels, t_ns))
            elif isinstance(content, Subset):
                found.append(self._with_link(self._merged(content, t_ns), t_ns))
            elif isinstance(content, LinkStatistics):
                self._link, self._link_ns = content, t_ns
                self.usage.use(NAMES[LINK])
                if content.quality == 0:
                    # ExpressLRS sends no channels without a link: this frame alone says so.
                    found.append(self._with_link(UNKNOWN, t_ns))
            else:
                self.usage.refuse(NAMES.get(each[2], f"0x{each[2]:02X}"), Unused.NOT_READ)
                continue
            if self._period_ns and t_ns - self._telemetry_ns >= self._period_ns:
                self._show(t_ns)
        return found

    def _with_link(self, channels: tuple[float, ...], t_ns: int) -> RcChannels:
        link = self._link
        if link is None or t_ns - self._link_ns > LINK_NS:
            self._count(unusable=False)
            return RcChannels(t_ns, t_ns, channels)
        failsafe = link.quality == 0
        if channels is not UNKNOWN:
            self._count(unusable=failsafe)
        # A receiver without a signal strength sends 0.
        rssi_dbm, snr_db = (
            (float(link.rssi_dbm), float(link.snr_db)) if link.rssi_dbm else (nan, nan)
        )
        return RcChannels(
            t_ns, t_ns, channels, failsafe, False, min(link.quality, 100) / 100.0, rssi_dbm, snr_db
        )

    def _merged(self, subset: Subset, t_ns: int) -> tuple[float, ...]:
        """Return the newest value of every channel that came lately."""
        for i, value in enumerate(subset.channels, subset.first):
            if i < CHANNELS:
                self._subset[i], self._subset_ns[i] = value, t_ns
        return tuple(
            [
                value if t_ns - seen_ns <= SUBSET_NS else nan
                for value, seen_ns in zip(self._subset, self._subset_ns)
            ]
        )

    # ---------------------------------------------------------------- telemetry

    def _show(self, now_ns: int) -> None:
        """Send the next of the values that are known."""
        made = [
            each
            for each in (
                self._battery(now_ns),
                self._gps(now_ns),
                self._attitude(now_ns),
                self._mode(),
            )
            if each is not None
        ]
        if made:
            self._telemetry_ns, self._turn = now_ns, self._turn + 1
            self._send(encode(made[self._turn % len(made)]), now_ns)

    def _fresh(self, kind: type[Message], now_ns: int) -> Message | None:
        message = self._newest.get(kind)
        return message if message is not None and now_ns - message.t_ns <= SHOWN_NS else None  # type: ignore[attr-defined]

    def _battery(self, now_ns: int) -> BatterySensor | None:
        motor = self._fresh(MotorStatus, now_ns)
        if not isinstance(motor, MotorStatus) or not isfinite(motor.input_voltage_v):
            return None
        return BatterySensor(
            motor.input_voltage_v, motor.input_current_a if isfinite(motor.input_current_a) else 0.0
        )

    def _gps(self, now_ns: int) -> Gps | None:
        fix = self._fresh(GnssFix, now_ns)
        if not isinstance(fix, GnssFix) or not isfinite(fix.latitude_rad + fix.longitude_rad):
            return None
        east, north, _ = fix.velocity_enu_mps
        speed_mps = hypot(east, north) if isfinite(east + north) else 0.0
        attitude = self._attitude(now_ns)
        yaw_rad = (
            atan2(east, north)
            if speed_mps >= COURSE_MPS
            else attitude.yaw_rad
            if attitude is not None
            else 0.0
        )
        place = degrees(fix.latitude_rad), degrees(fix.longitude_rad)
        height_m = round(fix.height_m) if isfinite(fix.height_m) else 0
        return Gps(*place, 3.6 * speed_mps, degrees(yaw_rad) % 360.0, height_m, fix.satellites)

    def _attitude(self, now_ns: int) -> CrsfAttitude | None:
        estimate = self._fresh(StateEstimate, now_ns)
        if not isinstance(estimate, StateEstimate) or not isfinite(estimate.yaw_rad):
            return None
        # The estimate is planar: pitch and roll are not known, and the frame has no value for that.
        return CrsfAttitude(0.0, 0.0, remainder(pi / 2 - estimate.yaw_rad, tau))

    def _mode(self) -> FlightMode | None:
        command = self._newest.get(ActuatorCommand)
        return FlightMode(command.mode.name) if isinstance(command, ActuatorCommand) else None
