"""Ouster OS-0, OS-1 and OS-2: lidar packets of four UDP profiles, the sensor's metadata, and the
driver. Sources: NOTES-ouster.md."""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from math import pi, tau
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import numpy as np
from msgspec import Meta, field

from drivers.lidar.base import Health, ScannerModel
from drivers.lidar.points import BeamColumns, Beams, PointLidar, PointLidarParams, PointPacket
from vehicled.core.messages import Message
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.datagram import datagram_reader
from vehicled.core.wire.usage import Unused

Profile = Literal[
    "LEGACY", "RNG19_RFL8_SIG16_NIR16", "RNG19_RFL8_SIG16_NIR16_DUAL", "RNG15_RFL8_NIR8"
]
LIDAR_PACKET = 1
"""Type of a packet with measurements, outside of LEGACY."""
IMU_BYTES = 48
SECOND_NS = 1_000_000_000
"""Longest time that a packet takes."""
MOST_COLUMNS = 4096


class MetadataError(ValueError):
    """Metadata of a sensor that cannot be used."""


class Layout(NamedTuple):
    """Layout of a profile: bytes before the columns, and what a pixel holds."""

    head: int
    column_head: int
    column_tail: int
    tail: int
    pixel: Mapping[str, tuple[str, int]]
    """Type and place of each field of a pixel."""
    pixel_bytes: int
    range_bits: int
    range_mm: int
    """Millimetres of a count of range."""
    returns: int = 1


LAYOUTS: dict[str, Layout] = {
    "LEGACY": Layout(
        0, 16, 4, 0,
        {"range": ("<u4", 0), "reflectivity": ("u1", 4), "signal": ("<u2", 6), "nir": ("<u2", 8)},
        12, 20, 1,
    ),
    "RNG19_RFL8_SIG16_NIR16": Layout(
        32, 12, 0, 32,
        {"range": ("<u4", 0), "reflectivity": ("u1", 4), "signal": ("<u2", 6), "nir": ("<u2", 8)},
        12, 19, 1,
    ),
    "RNG19_RFL8_SIG16_NIR16_DUAL": Layout(
        32, 12, 0, 32,
        {"range": ("<u4", 0), "reflectivity": ("u1", 3), "range2": ("<u4", 4),
         "reflectivity2": ("u1", 7), "signal": ("<u2", 8), "signal2": ("<u2", 10),
         "nir": ("<u2", 12)},
        16, 19, 1, 2,
    ),
    "RNG15_RFL8_NIR8": Layout(
        32, 12, 0, 32, {"range": ("<u2", 0), "reflectivity": ("u1", 2), "nir": ("u1", 3)}, 4, 15, 8
    ),
}  # fmt: skip


@cache
def packet_type(profile: str, columns: int, channels: int) -> np.dtype[Any]:
    """Return the type of a whole packet."""
    layout = LAYOUTS[profile]
    pixel = np.dtype(
        {
            "names": list(layout.pixel),
            "formats": [kind for kind, _ in layout.pixel.values()],
            "offsets": [at for _, at in layout.pixel.values()],
            "itemsize": layout.pixel_bytes,
        }
    )
    pixels_bytes = channels * layout.pixel_bytes
    column_bytes = layout.column_head + pixels_bytes + layout.column_tail
    legacy = profile == "LEGACY"
    fields: dict[str, tuple[Any, int]] = {
        "stamp": ("<u8", 0), "id": ("<u2", 8),
        "status": ("<u4", layout.column_head + pixels_bytes) if legacy else ("<u2", 10),
        "pixels": ((pixel, channels), layout.column_head),
    }  # fmt: skip
    if legacy:
        fields |= {"frame": ("<u2", 10), "encoder": ("<u4", 12)}
    column = np.dtype(
        {
            "names": list(fields),
            "formats": [kind for kind, _ in fields.values()],
            "offsets": [at for _, at in fields.values()],
            "itemsize": column_bytes,
        }
    )
    whole: dict[str, tuple[Any, int]] = {"columns": ((column, columns), layout.head)}
    if not legacy:
        whole |= {
            "type": ("<u2", 0), "frame": ("<u2", 2), "init": ("<u4", 4), "thermal": ("u1", 18),
            "shot": ("u1", 19),
        }  # fmt: skip
    return np.dtype(
        {
            "names": list(whole),
            "formats": [kind for kind, _ in whole.values()],
            "offsets": [at for _, at in whole.values()],
            "itemsize": layout.head + columns * column_bytes + layout.tail,
        }
    )


def ranges_of(pixels: Any, profile: str) -> Any:
    """Return the ranges of pixels in metres, with an axis of returns before the last."""
    layout = LAYOUTS[profile]
    mask = (1 << layout.range_bits) - 1
    names = ("range", "range2")[: layout.returns]
    return np.stack([pixels[name] & mask for name in names], axis=-2) * (layout.range_mm / 1000.0)


class OusterParams(PointLidarParams, frozen=True, kw_only=True):
    """Parameters of an Ouster sensor. Its address is ``udp:169.254.1.2:7502?listen=7502``;
    ``vehicled devices ouster`` makes this table of the sensor's metadata."""

    model: Literal["os0", "os1", "os2"] = "os1"
    """Model, which sets ranges."""
    profile: Profile = "RNG19_RFL8_SIG16_NIR16"
    """``udp_profile_lidar`` of the sensor."""
    channels: Literal[16, 32, 64, 128] = 64
    """``pixels_per_column``."""
    columns: Literal[512, 1024, 2048, 4096] = 1024
    """``columns_per_frame``."""
    columns_per_packet: Annotated[int, Meta(ge=1, le=64)] = 16
    """``columns_per_packet`` of the metadata."""
    column_window: Annotated[list[int], Meta(min_length=2, max_length=2)] | None = None
    """First and last column that is sent; without it all are."""
    beam_altitude_deg: list[float] = field(default_factory=list)
    """``beam_altitude_angles``; empty: evenly spread over the model's view, for a simulation."""
    beam_azimuth_deg: list[float] = field(default_factory=list)
    """``beam_azimuth_angles``; empty: 0."""
    origin_mm: Annotated[float, Meta(ge=0.0, le=100.0)] = 0.0
    """``lidar_origin_to_beam_origin_mm``."""
    foot_mm: Annotated[float, Meta(ge=0.0, le=100.0)] = 36.18
    """Height of the origin over the foot: the last of the third row of
    ``lidar_to_sensor_transform``."""
    mounting_yaw_rad: Annotated[float, Meta(ge=-pi, le=pi)] = 0.0
    """Bearing of the sensor's x axis, which points away from its plug."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("beam_altitude_deg", "beam_azimuth_deg"):
            count = len(getattr(self, name))
            if count not in (0, self.channels):
                raise ValueError(f"{name} has {count} angles, and channels says {self.channels}")
        window = self.column_window
        if window is not None and not all(0 <= each < self.columns for each in window):
            raise ValueError(f"column_window must lie within 0 to {self.columns - 1}")


def params_of(metadata: str) -> dict[str, object]:
    """Return the parameters that the metadata of a sensor state: the answer to
    ``/api/v1/sensor/metadata``, or a file of another program. Raises MetadataError."""
    try:
        found = json.loads(metadata)
    except ValueError as error:
        raise MetadataError(f"is not JSON ({error})") from None
    if not isinstance(found, dict):
        raise MetadataError("is not the metadata of a sensor")
    # Before firmware 3 everything is in one table.
    part = {
        name: found.get(name, found)
        for name in ("beam_intrinsics", "lidar_data_format", "sensor_info", "config_params")
    }
    layout = found.get("data_format", part["lidar_data_format"])
    try:
        mode = str(part["config_params"]["lidar_mode"]).split("x")
        params: dict[str, object] = {
            "model": str(part["sensor_info"]["prod_line"]).lower().replace("-", "", 1)[:3],
            "profile": str(layout.get("udp_profile_lidar", "LEGACY")),
            "channels": int(layout["pixels_per_column"]),
            "columns": int(layout["columns_per_frame"]),
            "columns_per_packet": int(layout["columns_per_packet"]),
            "rate_hz": float(mode[1]),
            "beam_altitude_deg": [
                float(a) for a in part["beam_intrinsics"]["beam_altitude_angles"]
            ],
            "beam_azimuth_deg": [float(a) for a in part["beam_intrinsics"]["beam_azimuth_angles"]],
            "origin_mm": float(part["beam_intrinsics"].get("lidar_origin_to_beam_origin_mm", 0.0)),
        }
        transform = found.get("lidar_intrinsics", found).get("lidar_to_sensor_transform", ())
        if len(transform) == 16:
            params["foot_mm"] = float(transform[11])
        window = [int(each) for each in layout.get("column_window", (0, 0))]
    except (KeyError, ValueError, TypeError, IndexError, AttributeError) as error:
        raise MetadataError(f"lacks what the packets need ({error!r})") from None
    if params["profile"] not in LAYOUTS:
        raise MetadataError(
            f"has the UDP profile {params['profile']}; set one of {', '.join(LAYOUTS)} in the "
            "sensor"
        )
    if (window[1] - window[0] + 1) % int(layout["columns_per_frame"]):
        params["column_window"] = window
    return params


def decode(data: bytes) -> Iterator[tuple[str, object]]:
    """Iterate over the packets of a recording of datagrams by name, with their columns; the layout
    follows from the size."""
    reader = datagram_reader()
    for datagram in [*reader.feed(data), *reader.flush()]:
        kind = _by_size().get(len(datagram))
        if len(datagram) == IMU_BYTES:
            yield "imu", datagram
        elif kind is None:
            yield "unknown", datagram
        else:
            packet = np.frombuffer(datagram, packet_type(*kind))[0]
            columns = packet["columns"]
            first, last = int(columns["id"][0]), int(columns["id"][-1])
            yield kind[0], {
                "channels": kind[2], "first_column": first, "last_column": last,
                "stamp_ns": int(columns["stamp"][0]),
                "ranges_m": ranges_of(columns["pixels"], kind[0]),
            }  # fmt: skip


@cache
def _by_size() -> dict[int, tuple[str, int, int]]:
    return {
        packet_type(profile, 16, channels).itemsize: (profile, 16, channels)
        for profile in reversed(LAYOUTS)
        for channels in (16, 32, 64, 128)
    }


class OusterDevice(PointLidar):
    """Driver of an Ouster sensor."""

    name: ClassVar[str] = "ouster"
    models: ClassVar[dict[str, ScannerModel]] = {
        # BeamColumns count clockwise from the plug, and the front is opposite.
        "os0": ScannerModel(0.5, 50.0, 10.0, 10_240.0, front_rad=pi),
        "os1": ScannerModel(0.5, 120.0, 10.0, 10_240.0, front_rad=pi),
        "os2": ScannerModel(1.0, 240.0, 10.0, 10_240.0, front_rad=pi),
    }
    view_deg: ClassVar[dict[str, float]] = {"os0": 90.0, "os1": 45.0, "os2": 22.5}
    """Vertical field of view."""
    Params: ClassVar[type[PointLidarParams]] = OusterParams
    params: OusterParams
    params_of = staticmethod(params_of)

    def __init__(
        self, params: OusterParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._type = packet_type(params.profile, params.columns_per_packet, params.channels)
        self._init: int | None = None
        super().__init__(params, messages, command_lifetime_ns)

    def beams(self) -> Beams:
        p = self.params
        half = 0.5 * self.view_deg[p.model]
        elevation = p.beam_altitude_deg or np.linspace(half, -half, p.channels)
        azimuth = p.beam_azimuth_deg or np.zeros(p.channels)
        return Beams(
            np.radians(elevation), np.radians(azimuth), p.origin_mm / 1000.0, p.foot_mm / 1000.0
        )

    def clock(self) -> DeviceClock:
        # A packet leaves with its last column; its stamp is that of its first.
        p = self.params
        packet_ns = round(1e9 * p.columns_per_packet / (p.columns * self.rate_hz))
        return DeviceClock(tick_ns=1.0, bits=64, latency_ns=self._latency_ns + packet_ns)

    def _place(self) -> None:
        p = self.params
        self.model = self.model._replace(samples_hz=p.columns * self.rate_hz)
        super()._place()
        whole = p.angle_max_rad - p.angle_min_rad > tau - 1e-6
        if p.column_window is not None and whole:
            first, last = (tau * each / p.columns for each in p.column_window)
            ends = (
                self.geometry.yaw_rad + self.geometry.sense * first,
                self.geometry.yaw_rad + self.geometry.sense * (first + (last - first) % tau),
            )
            self.geometry = self.geometry._replace(angle_min_rad=min(ends), angle_max_rad=max(ends))

    def packet(self, datagram: bytes, t_rx_ns: int, found: list[Any]) -> PointPacket | None:
        p, size = self.params, self._type.itemsize
        if len(datagram) != size:
            self._refuse_size(len(datagram), found)
            return None
        packet = np.frombuffer(datagram, self._type)[0]
        columns = packet["columns"]
        last = int(columns["id"][-1])
        if last >= p.columns:
            self.usage.refuse("lidar", Unused.OUT_OF_RANGE, "id")
            return None
        if p.profile != "LEGACY":
            if int(packet["type"]) != LIDAR_PACKET:
                self.usage.refuse("lidar", Unused.UNREADABLE)
                return None
            self._note_start(int(packet["init"]) & 0xFFFFFF, t_rx_ns, found)
            found.append(Health(_complaint(int(packet["thermal"]), int(packet["shot"]))))
        else:
            found.append(Health(""))
        self.usage.use("lidar")
        t_ns = self._clock.update(int(columns["stamp"][0]), t_rx_ns)
        points = p.columns_per_packet * p.channels * LAYOUTS[p.profile].returns
        return PointPacket(datagram, t_ns, tau * last / p.columns, points)

    def columns(self, packets: Sequence[PointPacket]) -> BeamColumns:
        p = self.params
        joined = np.frombuffer(b"".join([each.data for each in packets]), self._type)["columns"]
        stamps = joined["stamp"].astype(np.int64)
        begun_ns = np.array([each.t_ns for each in packets], dtype=np.float64)
        t_ns = begun_ns[:, None] + (stamps - stamps[:, :1])
        used = (joined["status"] & 1 == 1) & (joined["id"] < p.columns)
        used &= np.abs(stamps - stamps[:, :1]) < SECOND_NS
        ranges = ranges_of(joined["pixels"], p.profile)
        return BeamColumns(joined["id"][used] * (tau / p.columns), t_ns[used], ranges[used])

    def _refuse_size(self, size: int, found: list[Any]) -> None:
        p = self.params
        if size == IMU_BYTES:
            self.usage.refuse("imu", Unused.NOT_WANTED)
            return
        self.usage.refuse("lidar", Unused.WRONG_LENGTH)
        kind = _by_size().get(size)
        other = f" ({kind[0]} of {kind[2]} channels)" if kind else ""
        found.append(
            Health(
                f"its packets have {size} bytes{other}, and those of {p.profile} with {p.channels} "
                f"channels have {self._type.itemsize}: run vehicled devices ouster again"
            )
        )

    def _note_start(self, init: int, t_rx_ns: int, found: list[Any]) -> None:
        before, self._init = self._init, init
        if before is not None and before != init:
            found.append(self.event(t_rx_ns, "warning", "lidar_restarted", initialization_id=init))


def _complaint(thermal: int, shot: int) -> str:
    found = []
    if thermal & 0xF:
        found.append("it is about to shut down because of its temperature")
    if shot & 0xF:
        # From 2 on it already measures with less power.
        limits = "limits" if shot & 0xF > 1 else "is about to limit"
        found.append(f"it {limits} its laser because of its temperature, and its range with it")
    return " and ".join(found)
