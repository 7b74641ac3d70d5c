"""Velodyne VLP-16, Puck Hi-Res, VLP-32C and HDL-32E: data packets and position packets, and the
driver. Sources: NOTES-velodyne.md."""

from collections.abc import Iterator, Sequence
from math import pi
from struct import Struct as Layout
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from drivers.lidar.base import Health, ScannerModel
from drivers.lidar.points import BeamColumns, Beams, PointLidar, PointLidarParams, PointPacket
from drivers.lidar.scan import Array
from vehicled.core.messages import Message
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.datagram import datagram_reader
from vehicled.core.wire.usage import Unused

DATA_BYTES, POSITION_BYTES = 1206, 512
BLOCKS, LASERS = 12, 32
TURN_CDEG = 36_000
HOUR_US = 3_600_000_000
"""The stamp counts the microseconds of an hour."""
BLOCK_FLAG = 0xEEFF
STRONGEST, LAST, DUAL = 0x37, 0x38, 0x39
PPS_STATES = ("absent", "synchronizing", "locked", "error")
_SAMPLE = np.dtype([("range", "<u2"), ("reflectivity", "u1")])
_BLOCK = np.dtype([("flag", "<u2"), ("azimuth", "<u2"), ("samples", _SAMPLE, LASERS)])
_PACKET = np.dtype(
    [("blocks", _BLOCK, BLOCKS), ("stamp", "<u4"), ("mode", "u1"), ("product", "u1")]
)
_LAST_AZIMUTH = 1102
_TAIL = Layout("<IBB")
_FLAGS = b"\xff" * BLOCKS + b"\xee" * BLOCKS
_CDEG_RAD = pi / 18_000.0
_POSITION = Layout("<198xIB3x306s")


class VelodyneSeries(NamedTuple):
    """Properties of the packets of a model."""

    product: int
    firings: int
    """Firings in a block."""
    cycle_us: float
    """Time from a firing to the next."""
    laser_us: float
    """Time from a laser to the next that fires."""
    together: int
    """Lasers that fire together."""
    unit_m: float
    """Metres of a count of range."""
    elevation_deg: tuple[float, ...]
    """Elevations in the order of the packet."""
    azimuth_deg: tuple[float, ...] = ()
    """Azimuths of the lasers; empty: 0."""
    focus_m: float = 0.0419
    """Distance from the axis at which the lasers cross: each leaves the axis lower or higher."""


SERIES = {
    "vlp16": VelodyneSeries(
        0x22, 2, 55.296, 2.304, 1, 0.002,
        (-15, 1, -13, 3, -11, 5, -9, 7, -7, 9, -5, 11, -3, 13, -1, 15),
    ),
    "puck_hi_res": VelodyneSeries(
        0x24, 2, 55.296, 2.304, 1, 0.002,
        (-10, 2 / 3, -26 / 3, 2, -22 / 3, 10 / 3, -6, 14 / 3, -14 / 3, 6, -10 / 3, 22 / 3, -2,
         26 / 3, -2 / 3, 10),
    ),
    "vlp32c": VelodyneSeries(
        0x28, 1, 55.296, 2.304, 2, 0.004,
        (-25, -1, -1.667, -15.639, -11.31, 0, -0.667, -8.843, -7.254, 0.333, -0.333, -6.148,
         -5.333, 1.333, 0.667, -4, -4.667, 1.667, 1, -3.667, -3.333, 3.333, 2.333, -2.667, -3, 7,
         4.667, -2.333, -2, 15, 10.333, -1.333),
(1.4, -4.2, 1.4, -1.4, 1.4, -1.4, 4.2, -1.4, 1.4, -4.2, 1.4, -1.4, 4.2, -1.4, 4.2, -1.4,
         1.4, -4.2, 1.4, -4.2, 4.2, -1.4, 1.4, -1.4, 1.4, -1.4, 1.4, -4.2, 4.2, -1.4, 1.4, -1.4),
    ),
    "hdl32e": VelodyneSeries(
        0x21, 1, 46.08, 1.152, 1, 0.002,
        tuple(round((-92 + 4 * (at // 2) + 64 * (at % 2)) / 3, 2) for at in range(LASERS)),
        focus_m=0.0289,
    ),
}  # fmt: skip


class VelodyneData(NamedTuple):
    """Data packet. Arrays (12,) and (12, 32)."""

    azimuth_cdeg: Any
    """Azimuth of each block, clockwise, 0.01 degrees."""
    range_counts: Any
    """Ranges in the units of the model, 0 for none; in blocks of two firings of 16 lasers each."""
    reflectivity: Any
    stamp_us: int
    """Time of the first firing, since the full hour."""
    mode: int
    """Return mode."""
    product: int
    """Number of the model."""


class VelodynePosition(NamedTuple):
    """Position packet: time since the full hour, state of the pulse per second, and the sentence of
    a GNSS receiver."""

    stamp_us: int
    pps: str
    nmea: str


def parse_data(datagram: bytes) -> VelodyneData | None:
    """Return the content of a data packet; None for anything else."""
    if len(datagram) != DATA_BYTES:
        return None
    packet = np.frombuffer(datagram, _PACKET)[0]
    blocks = packet["blocks"]
    if not (blocks["flag"] == BLOCK_FLAG).all():
        return None
    samples = blocks["samples"]
    return VelodyneData(
        blocks["azimuth"], samples["range"], samples["reflectivity"], int(packet["stamp"]),
        int(packet["mode"]), int(packet["product"]),
    )  # fmt: skip


def encode_data(packet: VelodyneData) -> bytes:
    """Return a data packet as the device sends it."""
    found = np.zeros(1, _PACKET)
    blocks = found["blocks"][0]
    blocks["flag"], blocks["azimuth"] = BLOCK_FLAG, packet.azimuth_cdeg
    blocks["samples"]["range"] = packet.range_counts
    blocks["samples"]["reflectivity"] = packet.reflectivity
    found["stamp"], found["mode"], found["product"] = packet[3:]
    return found.tobytes()


def parse_position(datagram: bytes) -> VelodynePosition | None:
    """Return the content of a position packet; None for anything else."""
    if len(datagram) != POSITION_BYTES:
        return None
    stamp, pps, text = _POSITION.unpack(datagram)
    state = PPS_STATES[pps] if pps < len(PPS_STATES) else f"state {pps}"
    sentence = text.partition(b"\0")[0].decode("ascii", "replace").strip()
    return VelodynePosition(stamp, state, sentence[:120])


def encode_position(packet: VelodynePosition) -> bytes:
    """Return a position packet as the device sends it."""
    return _POSITION.pack(
        packet.stamp_us, PPS_STATES.index(packet.pps), packet.nmea.encode() + b"\r\n"
    )


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the packets of a recording of datagrams by name; one that cannot be read is
    given as it is."""
    reader = datagram_reader()
    for datagram in [*reader.feed(data), *reader.flush()]:
        position = parse_position(datagram)
        yield ("position", position) if position else ("data", parse_data(datagram) or datagram)


def columns_of(packets: Any, series: VelodyneSeries) -> tuple[Array, Array, Array]:
    """Return angles (p, n) in radians, times (p, n) since the stamps in ns, and ranges (p, n,
    returns, lasers) of packets of one return mode."""
    blocks = packets["blocks"]
    returns = 2 if packets["mode"][0] == DUAL else 1
    count, firings = BLOCKS // returns, series.firings
    azimuth = blocks["azimuth"][:, ::returns].astype(np.float64)
    step = np.diff(azimuth, axis=1) % TURN_CDEG
    # The last block has none after it; a turn lasts much longer than a packet.
    step = np.concatenate((step, step[:, -1:]), axis=1)
    part = np.arange(firings) / firings
    angle = (azimuth[:, :, None] + step[:, :, None] * part).reshape(-1, count * firings) % TURN_CDEG
    t_ns = 1e3 * series.cycle_us * np.arange(count * firings) + np.zeros((len(packets), 1))
    ranges = blocks["samples"]["range"].astype(np.float64) * series.unit_m
    ranges = ranges.reshape(-1, count, returns, firings, LASERS // firings).swapaxes(2, 3)
    return (
        angle * _CDEG_RAD,
        t_ns,
        ranges.reshape(-1, count * firings, returns, LASERS // firings),
    )


class VelodyneParams(PointLidarParams, frozen=True, kw_only=True):
    """Parameters of a Velodyne scanner. Its address is ``udp:192.168.1.201:2368?listen=2368``. Port
    of the host, speed and return mode are set on its web page."""

    model: Literal["vlp16", "puck_hi_res", "vlp32c", "hdl32e"] = "vlp16"
    """Model, which sets beams and ranges. A VLP-16 Lite is a ``vlp16``."""


def _model(series: VelodyneSeries, near_m: float, far_m: float) -> ScannerModel:
    return ScannerModel(near_m, far_m, 10.0, 1e6 / series.cycle_us)


class VelodyneDevice(PointLidar):
    """Driver of a Velodyne scanner."""

    name: ClassVar[str] = "velodyne"
    models: ClassVar[dict[str, ScannerModel]] = {
        "vlp16": _model(SERIES["vlp16"], 0.5, 100.0),
        "puck_hi_res": _model(SERIES["puck_hi_res"], 0.5, 100.0),
        "vlp32c": _model(SERIES["vlp32c"], 0.5, 200.0),
        "hdl32e": _model(SERIES["hdl32e"], 0.5, 100.0),
    }
    Params: ClassVar[type[PointLidarParams]] = VelodyneParams
    params: VelodyneParams

    def __init__(
        self, params: VelodyneParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self.series = SERIES[params.model]
        self.position: VelodynePosition | None = None
        """Newest position packet."""
        super().__init__(params, messages, command_lifetime_ns)

    def beams(self) -> Beams:
        series = self.series
        count = len(series.elevation_deg)
        fired_us = series.laser_us * (np.arange(count) // series.together)
        azimuth = np.array(series.azimuth_deg or (0.0,) * count)
        turned = 360.0 * self.rate_hz * 1e-6 * fired_us
        elevation = np.radians(series.elevation_deg)
        above_m = -series.focus_m * np.tan(elevation)
        return Beams(elevation, np.radians(azimuth + turned), above_m=above_m)

    def clock(self) -> DeviceClock:
        # A packet leaves with its last firing; its stamp is that of its first.
        packet_ns = round(1e3 * BLOCKS * self.series.firings * self.series.cycle_us)
        return DeviceClock(
            tick_ns=1e3, bits=None, modulus=HOUR_US, latency_ns=self._latency_ns + packet_ns
        )

    def packet(self, datagram: bytes, t_rx_ns: int, found: list[Any]) -> PointPacket | None:
        if len(datagram) != DATA_BYTES:
            position = parse_position(datagram)
            if position is None:
                self.usage.refuse("data", Unused.WRONG_LENGTH)
            else:
                self.usage.use("position")
                self._take_position(position, t_rx_ns, found)
            return None
        azimuth = int.from_bytes(datagram[_LAST_AZIMUTH : _LAST_AZIMUTH + 2], "little")
        stamp, mode, product = _TAIL.unpack_from(datagram, DATA_BYTES - _TAIL.size)
        # No checksum: the flags of all blocks must be right.
        if datagram[:1200:100] + datagram[1:1200:100] != _FLAGS or not (
            azimuth < TURN_CDEG and stamp < HOUR_US and mode in (STRONGEST, LAST, DUAL)
        ):
            self.usage.refuse("data", Unused.UNREADABLE)
            return None
        if product != self.series.product:
            self.usage.refuse("data", Unused.FOREIGN)
            name = next((n for n, each in SERIES.items() if each.product == product), "")
            reason = f'it is a "{name}"' if name else f"its factory byte is 0x{product:02x}"
            found.append(Health(f'{reason}, and the profile says "{self.params.model}"'))
            return None
        self.usage.use("data")
        found.append(Health(""))
        t_ns = self._clock.update(stamp, t_rx_ns)
        points = BLOCKS * LASERS
        return PointPacket(datagram, t_ns, azimuth * _CDEG_RAD, points, mode)

    def columns(self, packets: Sequence[PointPacket]) -> BeamColumns:
        joined = np.frombuffer(b"".join([each.data for each in packets]), _PACKET)
        angle, t_ns, ranges = columns_of(joined, self.series)
        t_ns = t_ns + np.array([each.t_ns for each in packets], dtype=np.float64)[:, None]
        return BeamColumns(angle.ravel(), t_ns.ravel(), ranges.reshape(-1, *ranges.shape[2:]))

    def _take_position(self, position: VelodynePosition, t_rx_ns: int, found: list[Any]) -> None:
        before, self.position = self.position, position
        if before is None or before.pps != position.pps:
            found.append(self.event(t_rx_ns, "info", "lidar_pps", state=position.pps))
