"""Builds a map of a recorded drive: keyframes, closures, pose graph, grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import atan2, cos, hypot, sin

import numpy as np

from vehicled.core.arrays import Array, wrapped
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.matching import PlanarPose
from vehicled.offline.mapping.closures import STRIDE, ClosureAttempt, closures
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.front_end import Keyframe, keyframes_of
from vehicled.offline.mapping.joining import moved, placed
from vehicled.offline.mapping.pose_graph import Edge, MeasuredPlace, PoseGraph
from vehicled.offline.mapping.quality import MapQuality, quality_of
from vehicled.offline.mapping.render import rendered

PASSES = 3
"""Searches for closures; each starts from the poses that the one before made better."""
MIRRORED_RATIO = -0.5
"""Turns by the scans over those by dead reckoning below which one of them is mirrored."""
LEAST_BASE_M = 2.0
"""Distance between fixes from which they turn the map."""

UNSEEN_M = 3.0
"""Distance by dead reckoning without motion by the scans from which the scanner is doubted."""

Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class Mapped:
    """A map and the drive that made it."""

    grid: OccupancyGrid
    frames: list[Keyframe]
    poses: list[PlanarPose]
    """Poses of the keyframes on the map."""
    edges: list[Edge]
    closures: int
    refused: int
    """Closures that contradict the rest and do not count."""
    places: int
    """Positions by GNSS that count."""
    unmatched: int
    """Keyframes that stand where dead reckoning put them."""
    quality: MapQuality
    unseen_m: float = 0.0
    """Longest distance by dead reckoning for which no scan shows motion."""

    def drive(self, number: int) -> "Mapped":
        """Return the same map with the keyframes of one drive."""
        kept = [k for k, frame in enumerate(self.frames) if frame.drive == number]
        return replace(
            self, frames=[self.frames[k] for k in kept], poses=[self.poses[k] for k in kept]
        )


def build(
    drive: MappingDrive,
    resolution_m: float,
    progress: Progress = lambda what, share: None,
    keyframes: list[Keyframe] | None = None,
) -> Mapped:
    """Return the map of a drive. ``keyframes``: those of its scans, if they are at hand. Raises
    :class:`MappingDriveError`."""
    return build_together([drive], resolution_m, progress, keyframes)


def build_together(
    drives: Sequence[MappingDrive],
    resolution_m: float,
    progress: Progress = lambda what, share: None,
    keyframes: list[Keyframe] | None = None,
) -> Mapped:
    """Return one map of several drives of the same place, in the frame of the first one.
    ``keyframes``: those of the first one, if they are at hand. Raises :class:`MappingDriveError`.
    """
    graph, frames = PoseGraph(), list[Keyframe]()
    attempts: dict[tuple[int, int], ClosureAttempt] = {}
    for number, drive in enumerate(drives):
        with_number = progress if len(drives) == 1 else _numbered(progress, number, len(drives))
        if keyframes is None or number:
            new = keyframes_of(drive, partial(with_number, "matching scans"))
        else:
            new = keyframes
        _add(graph, frames, drive, new, drives[:number], with_number)
        _close(graph, frames, attempts, with_number)
        if number and not graph.places and not _joined(graph, frames, number):
            raise MappingDriveError(
                f"{drive.name}: none of its scans holds it on the map of {drives[0].name}: it is "
                "of another place, or the two share too little; build two maps"
            )
    progress("drawing", 0.0)
    mapped = mapped_of(graph, frames, list(attempts.values()), resolution_m)
    progress("drawing", 1.0)
    return replace(
        mapped, unseen_m=max(_unseen_m(drive, k, mapped) for k, drive in enumerate(drives))
    )


def _unseen_m(drive: MappingDrive, number: int, mapped: Mapped) -> float:
    frames = mapped.drive(number).frames
    steps = [hypot(k.reckoned.x_m, k.reckoned.y_m) for k in frames if k.reckoned is not None]
    rest_m = 0.0 if drive.odometry is None else drive.odometry.farthest_m(frames[-1].t_ns)
    return max([rest_m, *steps])


def mapped_of(
    graph: PoseGraph,
    frames: list[Keyframe],
    attempts: Sequence[ClosureAttempt],
    resolution_m: float,
) -> Mapped:
    """Return the map of keyframes at the poses of a graph. Raises :class:`MappingDriveError`."""
    quality = quality_of(frames, graph, attempts)
    if quality.odometry is not None and quality.odometry.turn_ratio < MIRRORED_RATIO:
        raise MappingDriveError(
            "by the scans the vehicle turned left where its odometry turned right, and the map "
            "would be mirrored: the scanner is mounted upside down (upside_down of its driver), or "
            "left and right of the odometry are exchanged; correct it and drive again"
        )
    grid = rendered(frames, graph.poses, resolution_m)
    closed = [e for e in graph.edges if e.closure]
    return Mapped(
        grid, frames, graph.poses, graph.edges, sum(e.weight > 0.5 for e in closed),
        sum(e.weight <= 0.5 for e in closed), sum(p.weight > 0.5 for p in graph.places),
        sum(not k.matched for k in frames), quality,
    )  # fmt: skip


def _numbered(progress: Progress, number: int, count: int) -> Progress:
    return lambda what, share: progress(f"drive {number + 1} of {count}: {what}", share)


def _joined(graph: PoseGraph, frames: Sequence[Keyframe], number: int) -> bool:
    """Return True if closures hold a drive to the ones before."""
    return any(
        edge.closure
        and edge.weight > 0.5
        and frames[edge.to].drive == number
        and frames[edge.start].drive < number
        for edge in graph.edges
    )


def _add(
    graph: PoseGraph,
    frames: list[Keyframe],
    drive: MappingDrive,
    new: list[Keyframe],
    before: Sequence[MappingDrive],
    progress: Progress,
) -> None:
    """Add the keyframes of a drive to those of the drives before, where they belong on their
    map."""
    if len(new) < 2:
        raise MappingDriveError(f"{drive.name}: {_why_none(drive)}")
    places = [replace(p, node=p.node + len(frames)) for p in places_of(drive, new, before)]
    edges: list[Edge] = []
    if not before:
        poses = [drive.origin(new[0].t_ns).then(k.pose) for k in new]
    else:
        if places and graph.places:
            origin = _rigid_pose([new[p.node - len(frames)].pose for p in places], places)
        else:
            origin, edges = placed(
                graph, frames, new, (before[0].name, drive.name),
                lambda share: progress("searching its place", share),
            )  # fmt: skip
        new = moved(new, origin, len(before), frames[-1].path_m)
        poses = [k.pose for k in new]
        # Two drives have no motion between them; so little information only keeps the equations
        # solvable where closures are left out.
        edges.append(
            Edge(len(frames) - 1, len(frames), graph.poses[-1].to(poses[0]), 1e-6 * np.eye(3))
        )
    first = len(frames)
    frames += new
    edges += chain(frames, first + 1)
    graph.poses += poses
    graph.edges += edges
    if places:
        _lay_on(graph, places)
        graph.places += places
    if places or before:
        graph.optimise()


def chain(frames: Sequence[Keyframe], first: int) -> list[Edge]:
    """Return the edges from each keyframe to the next one, of the keyframes from ``first`` on."""
    return [
        Edge(i - 1, i, frames[i - 1].pose.to(frames[i].pose), frames[i].information)
        for i in range(first, len(frames))
    ]


def _lay_on(graph: PoseGraph, places: Sequence[MeasuredPlace]) -> None:
    """Move a graph without positions, as a rigid body, onto the first ones."""
    if not graph.places:
        by = _rigid_pose([graph.poses[p.node] for p in places], places)
        graph.poses = [by.then(p) for p in graph.poses]


class GrowingMap:
    """Map of a drive that goes on. Loops are searched once, from the newest keyframes;
    :func:`build` then searches all of them with better poses."""

    def __init__(self) -> None:
        self._graph = PoseGraph()
        self._attempts: list[ClosureAttempt] = []

    def grown(self, drive: MappingDrive, frames: list[Keyframe], resolution_m: float) -> Mapped:
        """Return the map of the keyframes so far, of which there are at least two. Raises
        :class:`MappingDriveError`."""
        graph, first = self._graph, len(self._graph.poses)
        for k in frames[first:]:
            graph.poses.append(
                graph.poses[-1].then(frames[len(graph.poses) - 1].pose.to(k.pose))
                if graph.poses
                else drive.origin(k.t_ns).then(k.pose)
            )
        graph.edges += chain(frames, max(first, 1))
        if places := places_of(drive, frames, []):
            _lay_on(graph, places)
            graph.places = places
            graph.optimise()
        attempts = closures(frames, graph, set(), first=first)
        self._attempts += attempts
        edges = [a.edge for a in attempts if a.edge is not None]
        if edges:
            graph.edges += edges
            graph.optimise()
        return mapped_of(graph, list(frames), self._attempts, resolution_m)


def _close(
    graph: PoseGraph,
    frames: Sequence[Keyframe],
    attempts: dict[tuple[int, int], ClosureAttempt],
    progress: Progress,
) -> None:
    """Search and add loop closures."""
    for number in range(PASSES):
        known = {pair for pair, attempt in attempts.items() if attempt.edge is not None}
        new = closures(
            frames,
            graph,
            known,
            lambda share, n=number: progress(f"closing loops, pass {n + 1} of {PASSES}", share),  # type: ignore[misc]
        )
        attempts |= {(a.start // STRIDE, a.to // STRIDE): a for a in new}
        edges = [a.edge for a in new if a.edge is not None]
        if not edges:
            break
        graph.edges += edges
        graph.optimise()


def _why_none(drive: MappingDrive) -> str:
    if not drive.scans:
        return "holds no laser scan: drive with a scanner in the profile, and name this drive's log"
    returns = max((len(drive.points(scan)[0]) for scan in drive.scans[:200]), default=0)
    if returns < 25:
        return (
            f"no scan has more than {returns} returns: there is nothing to map; look at the "
            "scanner and at its range"
        )
    moved_m = 0.0 if drive.odometry is None else drive.odometry.farthest_m(drive.scans[0].t_ns)
    if moved_m > UNSEEN_M:
        return (
            f"by its odometry the vehicle moved {moved_m:.0f} m, but its scans show no motion: the "
            "scanner stands still, or something covers it"
        )
    return "the vehicle hardly moved: drive it round the place that is to be mapped"


def places_of(
    drive: MappingDrive, frames: Sequence[Keyframe], before: Sequence[MappingDrive]
) -> list[MeasuredPlace]:
    """Return the fixes nearest to keyframes, within a tenth of a second, brought to the keyframe's
    time, in the map frame of the first drive."""
    found = []
    if len(drive.gnss_ns) < 2:
        return []
    for number, frame in enumerate(frames):
        at = int(np.searchsorted(drive.gnss_ns, frame.t_ns))
        if not 0 < at < len(drive.gnss_ns) or drive.gnss_ns[at] - drive.gnss_ns[at - 1] > 5 * 10**8:
            continue
        share = (frame.t_ns - drive.gnss_ns[at - 1]) / (drive.gnss_ns[at] - drive.gnss_ns[at - 1])
        x, y = drive.gnss_m[at - 1] + share * (drive.gnss_m[at] - drive.gnss_m[at - 1])
        if before and drive.datum is not None and before[0].datum not in (None, drive.datum):
            latitude_rad, longitude_rad, height_m = drive.datum.to_geodetic(x, y, 0.0)
            x, y, _ = before[0].datum.to_enu(latitude_rad, longitude_rad, height_m)
        sigma = max(float(drive.gnss_sigma_m[at]), float(drive.gnss_sigma_m[at - 1]), 0.02)
        found.append(MeasuredPlace(number, float(x), float(y), sigma, drive.antenna_m))
    if not found:
        return []
    spread = np.ptp(np.array([(p.x_m, p.y_m) for p in found]), axis=0)
    return found if float(np.hypot(*spread)) > LEAST_BASE_M else []


def _rigid_pose(poses: Sequence[PlanarPose], places: Sequence[MeasuredPlace]) -> PlanarPose:
    """Return the pose by which poses, as a rigid body, fit the places measured there."""
    own = np.array([(p.x_m, p.y_m) for p in poses])
    shift, yaw = rigid(own, np.array([(p.x_m, p.y_m) for p in places]))
    return PlanarPose(float(shift[0]), float(shift[1]), yaw)


def rigid(own: Array, target: Array) -> tuple[Array, float]:
    """Return the shift and turn that bring points (n, 2) nearest to others: ``target = R(turn) own
    + shift``."""
    a, b = own - own.mean(axis=0), target - target.mean(axis=0)
    yaw = atan2(float((a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]).sum()), float((a * b).sum()))
    R = np.array(((cos(yaw), -sin(yaw)), (sin(yaw), cos(yaw))))
    return target.mean(axis=0) - R @ own.mean(axis=0), yaw


@dataclass(frozen=True, slots=True)
class TrajectoryError:
    """Error of the keyframes against the truth."""

    rms_m: float
    """Absolute trajectory error."""
    largest_m: float
    rms_rad: float
    aligned: bool
    """True if the map was first laid over the truth, because nothing else says where it is."""


def trajectory_error(
    drive: MappingDrive | Sequence[MappingDrive], mapped: Mapped
) -> TrajectoryError | None:
    """Return the error of the keyframes of one or all drives; None without a truth."""
    parts = []
    for number, each in enumerate([drive] if isinstance(drive, MappingDrive) else drive):
        if each.truth is None:
            return None
        times = [k.t_ns for k in mapped.drive(number).frames]
        found = each.truth.at(np.array(times, dtype=np.int64))
        parts.append((found.x_m, found.y_m, found.yaw_rad))
    true_x, true_y, true_yaw = (np.concatenate(column) for column in zip(*parts, strict=True))
    own = np.array([(p.x_m, p.y_m) for p in mapped.poses])
    true = np.stack((true_x, true_y), axis=1)
    good = np.isfinite(true).all(axis=1)
    if good.sum() < 3:
        return None
    yaw = 0.0
    if aligned := mapped.places == 0:
        shift, yaw = rigid(own[good], true[good])
        own = own @ np.array(((cos(yaw), -sin(yaw)), (sin(yaw), cos(yaw)))).T + shift
    off = np.hypot(*(own - true)[good].T)
    turns = wrapped(np.array([p.yaw_rad for p in mapped.poses]) + yaw - true_yaw)[good]
    return TrajectoryError(
        float(np.sqrt(np.mean(off**2))),
        float(off.max()),
        float(np.sqrt(np.mean(turns**2))),
        aligned,
    )
