"""Builds a map of a recorded drive: keyframes, closures, pose graph, grid."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import atan2, cos, sin

import numpy as np

from vehicled.core.arrays import Array, wrapped
from vehicled.maps.grid import OccupancyGrid
from vehicled.maps.matching import PlanarPose
from vehicled.offline.mapping.closures import STRIDE, ClosureAttempt, closures
from vehicled.offline.mapping.drive import MappingDrive
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.front_end import Keyframe, keyframes_of
from vehicled.offline.mapping.pose_graph import Edge, MeasuredPlace, PoseGraph
from vehicled.offline.mapping.quality import MapQuality, quality_of
from vehicled.offline.mapping.render import rendered

PASSES = 3
"""Searches for closures; each starts from the poses that the one before made better."""
LEAST_BASE_M = 2.0
"""Distance between fixes from which they turn the map."""

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


def build(
    drive: MappingDrive, resolution_m: float, progress: Progress = lambda what, share: None
) -> Mapped:
    """Return the map of a drive. Raises :class:`MappingDriveError`."""
    frames = keyframes_of(drive, lambda share: progress("matching scans", share))
    if len(frames) < 2:
        raise MappingDriveError(f"{drive.name}: {_why_none(drive)}")
    origin = drive.origin(frames[0].t_ns)
    graph = PoseGraph([origin.then(k.pose) for k in frames])
    for i in range(1, len(frames)):
        graph.edges.append(
            Edge(i - 1, i, frames[i - 1].pose.to(frames[i].pose), frames[i].information)
        )
    places = _places(drive, frames)
    if places:
        _turn(graph, places)
        graph.places = places
        graph.optimise()
    attempts: dict[tuple[int, int], ClosureAttempt] = {}
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
    progress("drawing", 0.0)
    grid = rendered(frames, graph.poses, resolution_m)
    progress("drawing", 1.0)
    closed = [e for e in graph.edges if e.closure]
    return Mapped(
        grid, frames, graph.poses, graph.edges, sum(e.weight > 0.5 for e in closed),
        sum(e.weight <= 0.5 for e in closed), sum(p.weight > 0.5 for p in graph.places),
        sum(not k.matched for k in frames), quality_of(frames, graph, list(attempts.values())),
    )  # fmt: skip


def _why_none(drive: MappingDrive) -> str:
    if not drive.scans:
        return "holds no laser scan: drive with a scanner in the profile, and name this drive's log"
    returns = max((len(drive.points(scan)[0]) for scan in drive.scans[:200]), default=0)
    if returns < 25:
        return (
            f"no scan has more than {returns} returns: there is nothing to map; look at the "
            "scanner and at its range"
        )
    return "the vehicle hardly moved: drive it round the place that is to be mapped"


def _places(drive: MappingDrive, frames: Sequence[Keyframe]) -> list[MeasuredPlace]:
    """Return the fixes nearest to keyframes, within a tenth of a second, brought to the keyframe's
    time."""
    found = []
    if len(drive.gnss_ns) < 2:
        return []
    for number, frame in enumerate(frames):
        at = int(np.searchsorted(drive.gnss_ns, frame.t_ns))
        if not 0 < at < len(drive.gnss_ns) or drive.gnss_ns[at] - drive.gnss_ns[at - 1] > 5 * 10**8:
            continue
        share = (frame.t_ns - drive.gnss_ns[at - 1]) / (drive.gnss_ns[at] - drive.gnss_ns[at - 1])
        x, y = drive.gnss_m[at - 1] + share * (drive.gnss_m[at] - drive.gnss_m[at - 1])
        sigma = max(float(drive.gnss_sigma_m[at]), float(drive.gnss_sigma_m[at - 1]), 0.02)
        found.append(MeasuredPlace(number, float(x), float(y), sigma, drive.antenna_m))
    if not found:
        return []
    spread = np.ptp(np.array([(p.x_m, p.y_m) for p in found]), axis=0)
    return found if float(np.hypot(*spread)) > LEAST_BASE_M else []


def _turn(graph: PoseGraph, places: Sequence[MeasuredPlace]) -> None:
    """Move all poses so that they fit the places as a rigid body."""
    own = np.array([(graph.poses[p.node].x_m, graph.poses[p.node].y_m) for p in places])
    shift, yaw = rigid(own, np.array([(p.x_m, p.y_m) for p in places]))
    by = PlanarPose(float(shift[0]), float(shift[1]), yaw)
    graph.poses = [by.then(p) for p in graph.poses]


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


def trajectory_error(drive: MappingDrive, mapped: Mapped) -> TrajectoryError | None:
    """Return the error of the keyframes; None without a truth."""
    if drive.truth is None:
        return None
    truth = drive.truth.at(np.array([k.t_ns for k in mapped.frames], dtype=np.int64))
    own = np.array([(p.x_m, p.y_m) for p in mapped.poses])
    true = np.stack((truth.x_m, truth.y_m), axis=1)
    good = np.isfinite(true).all(axis=1)
    if good.sum() < 3:
        return None
    yaw = 0.0
    if aligned := mapped.places == 0:
        shift, yaw = rigid(own[good], true[good])
        own = own @ np.array(((cos(yaw), -sin(yaw)), (sin(yaw), cos(yaw)))).T + shift
    off = np.hypot(*(own - true)[good].T)
    turns = wrapped(np.array([p.yaw_rad for p in mapped.poses]) + yaw - truth.yaw_rad)[good]
    return TrajectoryError(
        float(np.sqrt(np.mean(off**2))),
        float(off.max()),
        float(np.sqrt(np.mean(turns**2))),
        aligned,
    )
