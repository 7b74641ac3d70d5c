"""A recorded drive as mapping needs it: scans, the vehicle's own motion between them, positions by
GNSS, and the truth."""

from dataclasses import dataclass, field
from math import hypot, isfinite

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.maps.localiser import middle_ns
from vehicled.maps.matching import PlanarPose
from vehicled.maps.scans import body_points
from vehicled.offline.recordings.recording import RecordedMotion, Times
from vehicled.paths.datum import Datum


@dataclass(frozen=True, slots=True)
class OdometryNoise:
    """Standard deviations of a motion by dead reckoning: constant, and per metre or radian of
    it."""

    constant_m: float = 0.05
    per_m: float = 0.2
    constant_rad: float = 0.05
    per_rad: float = 0.2

    def information(self, moved: PlanarPose) -> Array:
        """Return the information (3, 3) of a motion."""
        sigma_m = self.constant_m + self.per_m * hypot(moved.x_m, moved.y_m)
        sigma_rad = self.constant_rad + self.per_rad * abs(moved.yaw_rad)
        return np.diag((sigma_m**-2, sigma_m**-2, sigma_rad**-2))


UNKNOWN_NOISE = OdometryNoise()
"""Wheels alone, of a vehicle that nobody knows: they slip, and their base and radius are wrong."""
GYRO_NOISE = OdometryNoise(0.01, 0.03, 0.001, 0.01)
"""Gyro whose bias a standstill has shown, and a wheel or motor speed."""


@dataclass(frozen=True, slots=True)
class Odometry:
    """Poses by dead reckoning, in a frame of their own."""

    t_ns: Times
    x_m: Array
    y_m: Array
    yaw_rad: Array
    """Not wrapped."""
    noise: OdometryNoise = UNKNOWN_NOISE

    def at(self, t_ns: Times) -> tuple[Array, Array, Array]:
        """Return x, y and yaw at times (n,), on straight lines; constant beyond the ends."""
        t0 = self.t_ns[0] if len(self.t_ns) else 0
        own, wanted = (
            np.asarray((t - t0) * 1e-9, np.float64) for t in (self.t_ns, np.asarray(t_ns))
        )
        x, y, yaw = (
            np.interp(wanted, own, column) for column in (self.x_m, self.y_m, self.yaw_rad)
        )
        return x, y, yaw

    def farthest_m(self, t_ns: int) -> float:
        """Return the largest distance from the place at a time that is reached after it."""
        x, y, _ = self.at(np.array([t_ns]))
        later = self.t_ns >= t_ns
        off = np.hypot(self.x_m[later] - x[0], self.y_m[later] - y[0])
        return float(off.max()) if len(off) else 0.0

    def pose(self, t_ns: int) -> PlanarPose:
        """Return the pose at one time."""
        x, y, yaw = self.at(np.array([t_ns]))
        return PlanarPose(float(x[0]), float(y[0]), float(yaw[0]))


def dead_reckoning(
    t_ns: Times, speed_mps: Array, yaw_rate_radps: Array, noise: OdometryNoise = UNKNOWN_NOISE
) -> Odometry:
    """Integrate speeds and yaw rates (n,)."""
    dt = np.diff(t_ns) * 1e-9
    turned = np.concatenate(
        ([0.0], np.cumsum(0.5 * (yaw_rate_radps[1:] + yaw_rate_radps[:-1]) * dt))
    )
    distance, course = 0.5 * (speed_mps[1:] + speed_mps[:-1]) * dt, 0.5 * (turned[1:] + turned[:-1])
    x, y = (np.concatenate(([0.0], np.cumsum(distance * f(course)))) for f in (np.cos, np.sin))
    return Odometry(t_ns, x, y, turned, noise)


@dataclass(frozen=True, slots=True, kw_only=True)
class MappingDrive:
    """One recorded drive."""

    name: str
    scans: list[LaserScan]
    odometry: Odometry | None
    """None if only scans were recorded."""
    gnss_ns: Times = field(default_factory=lambda: np.zeros(0, np.int64))
    gnss_m: Array = field(default_factory=lambda: np.zeros((0, 2)))
    """East and north (n, 2) of the antenna."""
    gnss_sigma_m: Array = field(default_factory=lambda: np.zeros(0))
    antenna_m: tuple[float, float] = (0.0, 0.0)
    truth: RecordedMotion | None = None
    gaps: int = 0
    """Times that the log lacks messages, because its disk was too slow."""
    datum: Datum | None = None
    """Origin of the positions by GNSS, and of the run's map frame; None if the file has none."""

    def without_gnss(self) -> "MappingDrive":
        """Return the same drive without its positions."""
        return MappingDrive(
            name=self.name,
            scans=self.scans,
            odometry=self.odometry,
            truth=self.truth,
            gaps=self.gaps,
            datum=self.datum,
        )

    def origin(self, t_ns: int) -> PlanarPose:
        """Return the pose on the map at the beginning, where no GNSS says it: the origin; in a
        simulation the true one, so that map and simulated world lie on each other."""
        if self.truth is not None:
            there = self.truth.at(np.array([t_ns], dtype=np.int64))
            x, y, yaw = (float(column[0]) for column in (there.x_m, there.y_m, there.yaw_rad))
            if isfinite(x + y + yaw):
                return PlanarPose(x, y, yaw)
        return PlanarPose(0.0, 0.0, 0.0)

    def points(self, scan: LaserScan) -> tuple[Array, Array]:
        """Return the returns of a scan, seen from where the vehicle was in the middle of the
        sweep."""
        x, y, row = body_points(scan)
        if self.odometry is None or not len(row) or scan.time_increment_s == 0.0:
            return x, y
        t_ns = scan.t_ns + np.round(row * (scan.time_increment_s * 1e9)).astype(np.int64)
        ox, oy, oyaw = self.odometry.at(t_ns)
        here = self.odometry.pose(middle_ns(scan))
        c, s = np.cos(oyaw), np.sin(oyaw)
        wx, wy = ox + c * x - s * y - here.x_m, oy + s * x + c * y - here.y_m
        c0, s0 = np.cos(here.yaw_rad), np.sin(here.yaw_rad)
        return c0 * wx + s0 * wy, c0 * wy - s0 * wx
