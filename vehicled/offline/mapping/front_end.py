"""Makes keyframes of scans: each scan is matched to the surfaces that the last keyframes saw."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import hypot, remainder, tau

import numpy as np

from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan
from vehicled.maps.localiser import middle_ns
from vehicled.maps.matching import Match, PlanarPose, align
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.maps.surface import Elements, Index
from vehicled.offline.mapping.drive import UNKNOWN_NOISE, MappingDrive

CELL_M = 0.05
KEYFRAME_M, KEYFRAME_RAD = 0.4, 0.25
"""Motion after which a scan becomes a keyframe."""
LOOK_M, LOOK_RAD = 0.12, 0.08
"""Motion after which a scan is matched at all."""
SUBMAP = 15
"""Keyframes that a scan is matched to."""
LEAST_FIT = 0.45
"""Fraction of fitting points from which a match counts."""
LEAST_POINTS = 25
MATCH_M, MATCH_RAD = 0.008, 0.003
"""Least standard deviations of a pose relative to the keyframe before."""


class TreeSurface:
    """Elements found by a tree, which is made faster than a table where there are few questions."""

    def __init__(
        self, x_m: Array, y_m: Array, cell_m: float = CELL_M, reach_m: float = 0.6
    ) -> None:
        from scipy.spatial import cKDTree

        self.elements = Elements(x_m, y_m, cell_m)
        self._reach_m = reach_m
        self._tree = cKDTree(np.stack((self.elements.x_m, self.elements.y_m), axis=1))

    def nearest(self, x_m: Array, y_m: Array) -> Index:
        """See :class:`vehicled.maps.matching.NearestElement`."""
        _, index = self._tree.query(
            np.stack((x_m, y_m), axis=1), distance_upper_bound=self._reach_m
        )
        index[index == len(self.elements)] = -1
        return np.asarray(index, dtype=np.intp)


@dataclass(slots=True)
class Keyframe:
    """Scan with the pose of the vehicle in the middle of its sweep."""

    t_ns: int
    pose: PlanarPose
    x_m: Array
    """Returns, seen from the vehicle."""
    y_m: Array
    origin_m: tuple[float, float]
    """Scanner, seen from the vehicle."""
    information: Array
    """(3, 3) of the pose relative to the keyframe before, in the axes of that one."""
    matched: bool
    path_m: float
    """Distance driven until here."""
    drive: int = 0
    """Number of its drive."""
    reckoned: PlanarPose | None = None
    """Motion since the keyframe before by dead reckoning; None without odometry."""


def turned(information: Array, yaw_rad: float) -> Array:
    """Return an information (3, 3) over x, y and yaw in axes that are turned by ``yaw_rad``."""
    c, s = np.cos(yaw_rad), np.sin(yaw_rad)
    R = np.array(((c, -s, 0.0), (s, c, 0.0), (0.0, 0.0, 1.0)))
    return np.asarray(R.T @ information @ R)


def bounded(information: Array, sigma_m: float, sigma_rad: float) -> Array:
    """Return an information (3, 3) to whose covariance least standard deviations are added."""
    floor = np.diag((sigma_m**2, sigma_m**2, sigma_rad**2))
    return np.asarray(np.linalg.inv(np.linalg.inv(information + 1e-6 * np.eye(3)) + floor))


def points_of(keyframes: Sequence[Keyframe], poses: Sequence[PlanarPose]) -> tuple[Array, Array]:
    """Return the returns of keyframes at their poses."""
    placed = [pose.place(k.x_m, k.y_m) for k, pose in zip(keyframes, poses)]
    return np.concatenate([x for x, _ in placed]), np.concatenate([y for _, y in placed])


class KeyframeMaker:
    """Makes keyframes of the scans of one drive, which are given in the order of time."""

    def __init__(self) -> None:
        self.frames: list[Keyframe] = []
        """Keyframes so far, in the frame of the first one's pose."""
        self._surface: TreeSurface | None = None
        self._pose, self._velocity = PlanarPose(0.0, 0.0, 0.0), PlanarPose(0.0, 0.0, 0.0)
        self._before_ns, self._path_m = 0, 0.0

    def add(self, drive: MappingDrive, scan: LaserScan) -> None:
        """Match a scan of a drive, whose odometry reaches to its end."""
        t_ns, odometry = middle_ns(scan), drive.odometry
        noise = UNKNOWN_NOISE if odometry is None else odometry.noise
        frames, pose = self.frames, self._pose
        if not frames:
            x, y = drive.points(scan)
            if len(x) < LEAST_POINTS:
                return
            frames.append(Keyframe(t_ns, pose, x, y, (scan.x_m, scan.y_m), np.eye(3), True, 0.0))
            self._before_ns, self._surface = t_ns, TreeSurface(x, y)
            return
        if odometry is not None:
            moved = odometry.pose(self._before_ns).to(odometry.pose(t_ns))
            if hypot(moved.x_m, moved.y_m) < LOOK_M and abs(moved.yaw_rad) < LOOK_RAD:
                return
        else:
            dt_s = (t_ns - self._before_ns) * 1e-9
            moved = PlanarPose(*(v * dt_s for v in self._velocity))
        x, y = drive.points(scan)
        guess = pose.then(moved)
        match = None
        if self._surface is not None and len(x) >= LEAST_POINTS:
            prior = turned(noise.information(moved), -guess.yaw_rad)
            match = _matched(self._surface, x, y, guess, prior)
        after = guess if match is None else match.pose
        step = pose.to(after)
        if odometry is None and t_ns > self._before_ns:
            self._velocity = PlanarPose(*(v / ((t_ns - self._before_ns) * 1e-9) for v in step))
        self._path_m += hypot(step.x_m, step.y_m)
        self._pose, self._before_ns = after, t_ns
        last = frames[-1]
        off = last.pose.to(after)
        if len(x) < LEAST_POINTS or (
            hypot(off.x_m, off.y_m) < KEYFRAME_M and abs(off.yaw_rad) < KEYFRAME_RAD
        ):
            return
        information = noise.information(off)
        if match is not None:
            information = information + turned(match.information, last.pose.yaw_rad)
        information = bounded(information, MATCH_M, MATCH_RAD)
        frames.append(
            Keyframe(
                t_ns, after, x, y, (scan.x_m, scan.y_m), information, match is not None,
                self._path_m,
            )
        )  # fmt: skip
        if odometry is not None:
            frames[-1].reckoned = odometry.pose(last.t_ns).to(odometry.pose(t_ns))
        recent = frames[-SUBMAP:]
        self._surface = TreeSurface(*points_of(recent, [k.pose for k in recent]))


def keyframes_of(
    drive: MappingDrive, progress: Callable[[float], None] = lambda share: None
) -> list[Keyframe]:
    """Return the keyframes of a drive, in the frame of the first one's pose."""
    front = KeyframeMaker()
    for number, scan in enumerate(drive.scans):
        if number % 20 == 0:
            progress(number / len(drive.scans))
        front.add(drive, scan)
    progress(1.0)
    return front.frames


def _matched(
    surface: TreeSurface, x_m: Array, y_m: Array, guess: PlanarPose, prior: Array
) -> Match | None:
    match = align(surface, x_m, y_m, guess, prior=prior)
    if match.fit >= LEAST_FIT:
        return match
    # The guess may be too far off: search around it.
    search = PoseSearch(Pyramid(surface.elements), x_m, y_m, (guess, 0.8, 0.5))
    while not search.step():
        pass
    if search.best is None:
        return None
    match = align(surface, x_m, y_m, search.best)
    return match if match.fit >= LEAST_FIT else None


def apart(a: PlanarPose, b: PlanarPose) -> tuple[float, float]:
    """Return distance and difference of yaw of two poses."""
    return hypot(a.x_m - b.x_m, a.y_m - b.y_m), abs(remainder(a.yaw_rad - b.yaw_rad, tau))
