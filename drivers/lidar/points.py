"""Common part of the drivers of 3-D laser scanners: columns of beams become a planar scan of what
stands on the ground, and a height map of the ground.

A family decodes its datagrams to columns; a subclass of :class:`PointLidar` adds them. All work is
done on the arrays of what one reception brought, so that no turn is decoded at once.
"""

from abc import abstractmethod
from collections.abc import Sequence
from math import cos, inf, nan, pi, sin, tau
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt
from msgspec import Meta
from msgspec.structs import replace

from drivers.lidar.base import TurningLidar, TurningParams
from drivers.lidar.scan import MARGIN_RAD, Array, Measurements
from vehicled.core.messages import Event, Fault, HeightMap, LaserScan, Message
from vehicled.core.ports import Transport
from vehicled.core.wire.clock import DeviceClock
from vehicled.core.wire.datagram import datagram_reader
from vehicled.core.wire.framing import PayloadReader

Height = Annotated[float, Meta(ge=-50.0, le=50.0)]
Tilt = Annotated[float, Meta(ge=-0.8, le=0.8)]
MOST_CELLS = 4096
"""Cells of a height map, so that a message stays below 32 kB."""
GAP_RAD = 0.1
"""Step between two columns beyond which those between are missing."""
READY_RAD = MARGIN_RAD + 0.02
"""Angle past the end of a turn at which what is held is decoded."""
BATCH_POINTS = 8192
"""Points that are decoded at once."""
MOST_GROUPS = 24
"""Groups of beams with the same bearing."""


class PointLidarParams(TurningParams, frozen=True, kw_only=True):
    """Parameters of every 3-D scanner. Heights are over the plane that the wheels stand on."""

    mounting_roll_rad: Tilt = 0.0
    """Roll of the device on the vehicle, right side down positive."""
    mounting_pitch_rad: Tilt = 0.0
    """Pitch of the device on the vehicle, nose down positive."""
    height_min_m: Height = 0.15
    """Lowest height at which a return is an obstacle."""
    height_max_m: Height = 1.5
    """Greatest height at which a return is an obstacle: that of the vehicle, with some reserve."""
    ground_slope: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.06
    """Rise of the ground per metre of distance from the scanner, the vehicle's own pitch included,
    up to which it is no obstacle."""
    obstacle_slope: Annotated[float, Meta(gt=0.0, le=100.0)] = 0.4
    """Rise from the return below in the same column, as a slope, from which on a return above
    ``height_min_m`` is an obstacle whatever ``ground_slope`` says."""
    own_m: Annotated[list[float], Meta(min_length=4, max_length=4)] | None = None
    """Box of the vehicle itself, whose returns are dropped: rear, right, front, left of the rear
    axle."""
    map_size_m: Annotated[float, Meta(gt=0.0, le=200.0)] = 12.0
    """Edge of the height map, around the scanner."""
    map_cell_m: Annotated[float, Meta(gt=0.0, le=10.0)] = 0.25
    """Edge of a cell of the height map."""
    map_every: Annotated[int, Meta(ge=1, le=1000)] = 5
    """A height map is made of every n-th turn."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.height_min_m >= self.height_max_m:
            raise ValueError("height_max_m must be above height_min_m")
        if round(self.map_size_m / self.map_cell_m) ** 2 > MOST_CELLS:
            raise ValueError(
                f"map_size_m and map_cell_m give more than {MOST_CELLS} cells: take larger cells"
            )


class Beams(NamedTuple):
    """Beams of a column. Arrays (b,)."""

    elevation_rad: Array
    azimuth_rad: Array
    """Angle of each beam beyond that of its column, in the direction of rotation."""
    origin_m: float = 0.0
    """Distance of the beams' origin from the axis; ranges count from the axis."""
    above_m: Array | float = 0.0
    """Height of each beam's origin over the point of the device that is mounted."""


class PointPacket(NamedTuple):
    """Datagram with measurements."""

    data: bytes
    t_ns: int
    """Time of its first column."""
    angle_rad: float
    """Angle of its last column, in the direction of rotation."""
    points: int
    layout: int = 0
    """Packets of one layout are decoded together."""


class BeamColumns(NamedTuple):
    """Consecutive columns. Arrays (n,), ranges (n, returns, b)."""

    angle_rad: Array
    """Angle of each column, in the direction of rotation, 0 to 2 pi."""
    t_ns: Array
    range_m: Array
    """Slant ranges, 0 for no return."""


def rotation(yaw: float, pitch: float, roll: float) -> npt.NDArray[np.float64]:
    """Return the rotation from the device to the body: roll, then pitch, then yaw."""
    c, s = cos(yaw), sin(yaw)
    about_z = np.array(((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)))
    c, s = cos(pitch), sin(pitch)
    about_y = np.array(((c, 0.0, s), (0.0, 1.0, 0.0), (-s, 0.0, c)))
    c, s = cos(roll), sin(roll)
    about_x = np.array(((1.0, 0.0, 0.0), (0.0, c, -s), (0.0, s, c)))
    turned: npt.NDArray[np.float64] = about_z @ about_y @ about_x
    return turned


class PointLidar(TurningLidar):
    """Driver of a 3-D scanner that sends datagrams as it turns clockwise. A subclass decodes them,
    with :meth:`beams` and :meth:`columns`."""

    params: PointLidarParams
    Params: ClassVar[type[PointLidarParams]] = PointLidarParams
    transport: ClassVar[Transport] = "datagrams"
    ray_share: ClassVar[float] = 0.6  # the beams of a column have different bearings
    produces: ClassVar[tuple[type[Message], ...]] = (LaserScan, HeightMap, Fault, Event)

    def __init__(
        self, params: PointLidarParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        self._reader: PayloadReader = datagram_reader()
        self._height_m = 0.0
        self._wants_map = HeightMap in messages
        super().__init__(params, messages, command_lifetime_ns)

    # ---------------------------------------------------------------- for subclasses

    @abstractmethod
    def beams(self) -> Beams:
        """Return the beams of a column."""

    @abstractmethod
    def clock(self) -> DeviceClock:
        """Return a clock of the device."""

    @abstractmethod
    def packet(self, datagram: bytes, t_rx_ns: int, found: list[Any]) -> PointPacket | None:
        """Check a datagram; None if it has no measurements that can be used. Adds what else it
        says to ``found``."""

    @abstractmethod
    def columns(self, packets: Sequence[PointPacket]) -> BeamColumns:
        """Return the columns of packets with the same layout."""

    # ---------------------------------------------------------------- LidarDevice

    def mount(self, lever_arm_m: Sequence[float]) -> None:
        self._height_m = lever_arm_m[2]
        super().mount(lever_arm_m)

    def restart(self) -> None:
        self._reader.clear()
        self._clock = self.clock()
        self._held: list[PointPacket] = []
        self._pause_ns = 0.25e9 / self.rate_hz
        self._past = 0.0
        self._last: tuple[float, float] | None = None
        self._seen_columns = self._turn_columns = 0
        size = round(self.params.map_size_m / self.params.map_cell_m) if self._wants_map else 0
        self._turn, self._maps_turn = 0, self._wants_map
        self._cells = np.zeros((2, size * size))
        super().restart()

    def _place(self) -> None:
        super()._place()
        p, beams = self.params, self.beams()
        self.geometry = self.geometry._replace(least_returns=0.0)
        # From below to above: then the return before is the one below.
        self._order = np.argsort(beams.elevation_rad, kind="stable")
        elevation, azimuth = (each[self._order] for each in beams[:2])
        level, self._origin_m = np.cos(elevation), beams.origin_m
        self._above_m = np.broadcast_to(beams.above_m, elevation.shape)[self._order]
        self._along, self._across = level * np.cos(azimuth), level * np.sin(azimuth)
        self._up, self._flat, self._azimuth = np.sin(elevation), level, azimuth
        self._turned = rotation(
            p.mounting_yaw_rad + self.model.front_rad,
            p.mounting_pitch_rad,
            p.mounting_roll_rad + (pi if p.upside_down else 0.0),
        )
        tilt = abs(p.mounting_pitch_rad) + abs(p.mounting_roll_rad)
        self._tilted = tilt > 0.0
        # Of beams within four columns the nearest return stands for all.
        step = 4.0 * tau * self.rate_hz / self.model.samples_hz
        for _ in range(8):
            key = np.rint(azimuth / step) + 1e4 * np.rint(np.tan(elevation) * tilt / step)
            _, members = np.unique(key, return_inverse=True)
            if members.max() < MOST_GROUPS:
                break
            step *= 2.0
        self._group_of = members
        self._azimuths = np.bincount(members, azimuth) / np.bincount(members)

    def decode(self, data: bytes, t_rx_ns: int) -> Sequence[Any]:
        found: list[Any] = []
        for datagram in self._reader.feed(data):
            packet = self.packet(datagram, t_rx_ns, found)
            if packet is None:
                continue
            self._measured += 1
            before = self._held[-1] if self._held else packet
            if before.layout != packet.layout or packet.t_ns - before.t_ns > self._pause_ns:
                self._flush(t_rx_ns, found)
            self._held.append(packet)
            geometry = self.geometry
            bearing = geometry.yaw_rad + geometry.sense * packet.angle_rad
            past = (
                geometry.angle_max_rad - bearing
                if geometry.clockwise
                else bearing - geometry.angle_min_rad
            ) % tau
            # Numpy costs as much for one packet as for several, and no scan is complete before.
            ends = past >= READY_RAD and (self._past < READY_RAD or past < self._past)
            self._past = past
            if ends or len(self._held) * packet.points >= BATCH_POINTS:
                self._flush(t_rx_ns, found)
        return found

    def _flush(self, t_rx_ns: int, found: list[Any]) -> None:
        columns = self.columns(self._held)
        self._held = []
        if not len(columns.angle_rad):
            return
        for scan in self._turns.add(self._reduce(self._filled(columns)), t_rx_ns):
            found.append(self._judged(scan))
            if self._maps_turn:
                found.append(self._height_map(scan))
            # A turn begins in the middle of a batch; what it misses is behind the vehicle.
            self._turn += 1
            self._maps_turn = self._wants_map and self._turn % self.params.map_every == 0

    # ---------------------------------------------------------------- columns to rays

    def _filled(self, columns: BeamColumns) -> BeamColumns:
        """Return the columns with empty ones where columns are missing, so that turns are counted:
        outside of a column window, and of lost datagrams."""
        angle, t_ns = columns.angle_rad, columns.t_ns
        before, before_ns = self._last or (float(angle[0]), float(t_ns[0]))
        self._last = float(angle[-1]), float(t_ns[-1])
        step = np.diff(angle, prepend=before) % tau
        turned = np.diff(t_ns, prepend=before_ns) * (tau * self.rate_hz * 1e-9)
        gaps = np.flatnonzero((step > GAP_RAD) & (np.abs(step - turned) < 0.3 * step))
        for at in gaps[::-1]:
            count = int(step[at] / GAP_RAD)
            part = np.arange(1, count + 1) / (count + 1.0)
            t0_ns = t_ns[at - 1] if at else before_ns
            columns = BeamColumns(
                np.insert(columns.angle_rad, at, (angle[at] - step[at] * (1.0 - part)) % tau),
                np.insert(columns.t_ns, at, t0_ns + (t_ns[at] - t0_ns) * part),
                np.insert(columns.range_m, [at] * count, nan, axis=0),
            )
        return columns

    def _reduce(self, columns: BeamColumns) -> Measurements:
        """Return the nearest obstacle of each column and group of beams, and collect the ground."""
        missing = np.isnan(columns.range_m[:, 0, 0])
        self._turn_columns += len(missing) - int(missing.sum())
        self._seen_columns += int((columns.range_m > 0.0).any(axis=(1, 2)).sum())
        shape = len(missing), len(self._azimuths)
        angle = np.broadcast_to(columns.angle_rad[:, None], shape).ravel()
        shift = np.broadcast_to(self._azimuths, shape).flatten()
        range_m = np.where(np.repeat(missing, shape[1]), nan, inf)
        c, s = np.cos(columns.angle_rad), np.sin(columns.angle_rad)
        parts = [
            self._obstacles(c, s, columns.angle_rad, columns.range_m[:, k])
            for k in range(columns.range_m.shape[1])
        ]
        key, past, distance = (np.concatenate(each) for each in zip(*parts))
        # Of equal keys the last one stays: the nearest.
        order = np.argsort(-distance, kind="stable")
        key = key[order]
        range_m[key], shift[key] = distance[order], past[order]
        return Measurements(angle, shift, range_m, np.repeat(columns.t_ns, shape[1]))

    def _obstacles(
        self, c: Array, s: Array, angle_rad: Array, slant_m: Array
    ) -> tuple[Array, Array, Array]:
        """Return of each obstacle its place among the measurements, its angle beyond that of its
        column, and its horizontal distance. Collects the ground."""
        p, m, count = self.params, self._turned, slant_m.shape[1]
        r = slant_m[:, self._order]
        valid = r > 0.0
        if self._tilted:
            x, y, z = self._position(c[:, None], s[:, None], r, slice(None))
            height = m[2, 0] * x + m[2, 1] * y + m[2, 2] * z + self._height_m
        else:
            foot_m = self._height_m + m[2, 2] * self._above_m
            height = (r - self._origin_m) * (self._up * m[2, 2]) + foot_m
        above = height >= p.height_min_m
        at = np.flatnonzero(valid & above & (height <= p.height_max_m))
        distance, h = self._distance(c, s, r, at), height.ravel()[at]
        keep = h >= p.height_min_m + p.ground_slope * distance
        # What rises gently is ground, unless it is steep over the return below it in its column.
        doubtful = np.flatnonzero(~keep)
        below = np.maximum.accumulate(np.where(valid, np.arange(count), -1), axis=1)
        flat, beam = at[doubtful], at[doubtful] % count
        lower = np.where(beam > 0, below.ravel()[flat - 1], -1)
        known = lower >= 0
        doubtful, flat = doubtful[known], (flat - beam + lower)[known]
        run = np.abs(distance[doubtful] - self._distance(c, s, r, flat))
        rise = h[doubtful] - height.ravel()[flat]
        keep[doubtful[rise >= p.obstacle_slope * run]] = True
        if p.own_m is not None:
            keep &= ~self._own(*self._level(c, s, r, at))
        if self._maps_turn:
            ground = valid & ~above
            ground.ravel()[at[~keep]] = True
            flat = np.flatnonzero(ground)
            gx, gy = self._level(c, s, r, flat)
            other = ~self._own(gx, gy)
            self._add_ground(gx[other], gy[other], height.ravel()[flat][other])
        at = at[keep]
        key = at // count * len(self._azimuths) + self._group_of[at % count]
        past = self._azimuth[at % count]
        if self._tilted:
            x, y = self._level(c, s, r, at)
            bearing = np.arctan2(y, x) - self.geometry.yaw_rad
            past = (self.geometry.sense * bearing - angle_rad[at // count] + pi) % tau - pi
        return key, past, distance[keep]

    def _position(self, c: Array, s: Array, r: Array, beam: Any) -> tuple[Array, Array, Array]:
        """Return the positions of returns in the axes of the device."""
        r = r - self._origin_m
        along, across = self._along[beam], self._across[beam]
        x = r * (c * along - s * across) + self._origin_m * c
        y = -r * (s * along + c * across) - self._origin_m * s
        return x, y, r * self._up[beam] + self._above_m[beam]

    def _distance(self, c: Array, s: Array, r: Array, flat: Any) -> Array:
        """Return the horizontal distances of single returns."""
        if self._tilted:
            return np.hypot(*self._level(c, s, r, flat))
        run_m: Array = (r.ravel()[flat] - self._origin_m) * self._flat[flat % r.shape[1]]
        return run_m + self._origin_m

    def _level(self, c: Array, s: Array, r: Array, flat: Any) -> tuple[Array, Array]:
        """Return the horizontal positions of single returns, from the scanner in the axes of the
        body."""
        row, beam = np.divmod(flat, r.shape[1])
        x, y, z = self._position(c[row], s[row], r.ravel()[flat], beam)
        m = self._turned
        return (
            m[0, 0] * x + m[0, 1] * y + m[0, 2] * z,
            m[1, 0] * x + m[1, 1] * y + m[1, 2] * z,
        )

    def _own(self, x_m: Array, y_m: Array) -> Any:
        """Return which places lie in the box of the vehicle itself."""
        if self.params.own_m is None:
            return np.zeros(len(x_m), dtype=np.bool_)
        rear, right, front, left = self.params.own_m
        ahead, aside = x_m + self.geometry.x_m, y_m + self.geometry.y_m
        return (ahead > rear) & (ahead < front) & (aside > right) & (aside < left)

    # ---------------------------------------------------------------- once per turn

    def _judged(self, scan: LaserScan) -> LaserScan:
        """Return the scan; without the rays that saw nothing, if too few columns saw anything."""
        blind = self._seen_columns < self.params.least_returns * self._turn_columns
        self._seen_columns = self._turn_columns = 0
        if not blind:
            return scan
        return replace(
            scan, ranges_m=tuple([nan if each == inf else each for each in scan.ranges_m])
        )

    def _add_ground(self, x_m: Array, y_m: Array, height_m: Array) -> None:
        p = self.params
        size = round(p.map_size_m / p.map_cell_m)
        row, column = (
            np.floor(each / p.map_cell_m + 0.5 * size).astype(np.int64) for each in (x_m, y_m)
        )
        inside = (row >= 0) & (row < size) & (column >= 0) & (column < size)
        cell = row[inside] * size + column[inside]
        self._cells[0] += np.bincount(cell, height_m[inside], size * size)
        self._cells[1] += np.bincount(cell, minlength=size * size)

    def _height_map(self, scan: LaserScan) -> HeightMap:
        p, (total, count) = self.params, self._cells
        size = round(p.map_size_m / p.map_cell_m)
        with np.errstate(invalid="ignore"):
            heights = np.where(count > 0.0, total / np.maximum(count, 1.0), nan)
        self._cells = np.zeros_like(self._cells)
        corner = -0.5 * size * p.map_cell_m
        return HeightMap(
            scan.t_ns, scan.t_rx_ns, scan.x_m + corner, scan.y_m + corner, p.map_cell_m, size,
            scan.angle_min_rad, scan.angle_increment_rad / scan.time_increment_s, scan.x_m,
            scan.y_m, tuple(heights.tolist()),
        )  # fmt: skip
