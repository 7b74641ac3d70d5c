"""Loop closures: keyframes that see the surfaces of much earlier ones."""

from collections.abc import Callable, Sequence
from enum import Enum
from math import remainder, sqrt, tau
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.maps.matching import Match, PlanarPose, align
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.offline.mapping.front_end import Keyframe, TreeSurface, apart, bounded, points_of
from vehicled.offline.mapping.pose_graph import GATE, Edge, PoseGraph, RelativeCovariance

AROUND = 6
"""Keyframes on each side of an earlier one whose surfaces are matched together."""
STRIDE = 3
"""One keyframe of so many is tried."""
LEAST_PATH_M = 6.0
"""Distance driven between two keyframes, beyond twice the distance between them, from which the
vehicle has come back."""
NEAR_M = 6.0
"""Distance beyond the drift within which two keyframes may see the same."""
SIGMAS = 3.0
"""Standard deviations of the drift within which a pose is searched."""
LEAST_REACH_M, MOST_REACH_M = 0.1, 4.0
LEAST_REACH_RAD, MOST_REACH_RAD = 0.05, 0.6
"""Bounds of the search."""
BASIN_M, BASIN_RAD = 0.25, 0.1
"""Error of the guess up to which a match alone finds the pose."""
LEAST_FIT = 0.6
RIVAL_FIT = 0.93
"""Fit at another place, over that at the best one, from which the two cannot be distinguished."""
SAME_M, SAME_RAD = 0.2, 0.1
"""Distance up to which two matches are one."""
MOST_SIGMA_M = 0.2
"""Standard deviation of the worst direction beyond which a closure says nothing: two corridors look
alike."""
SIGMA_M, SIGMA_RAD = 0.03, 0.01
"""Least standard deviations of a closure."""


class ClosureOutcome(Enum):
    """Result of the attempt to close a loop."""

    CLOSED = "closed"
    UNFIT = "unfit"
    """The scan fits nowhere within the drift."""
    AMBIGUOUS = "ambiguous"
    """It fits at several places within the drift."""
    CORRIDOR = "corridor"
    """It shows no place along the walls."""


class ClosureAttempt(NamedTuple):
    """ClosureAttempt to close a loop between two keyframes."""

    start: int
    to: int
    outcome: ClosureOutcome
    away_m: float
    """Distance to the nearest keyframe that was there before."""
    reach_m: float
    """Distance from the expected pose within which one was searched."""
    edge: Edge | None = None


def closures(
    frames: Sequence[Keyframe],
    graph: PoseGraph,
    have: set[tuple[int, int]],
    progress: Callable[[float], None] = lambda share: None,
    first: int = 0,
) -> list[ClosureAttempt]:
    """Return attempts between keyframes to which the vehicle came back, but for the pairs ``have``.
    Only keyframes from ``first`` on are matched to earlier ones.

    A pose is searched as far around the present one as the uncertainty of the graph says.
    """
    poses, known = graph.poses, RelativeCovariance(graph)
    place = np.array([(p.x_m, p.y_m) for p in poses])
    path = np.array([k.path_m for k in frames])
    drive = np.array([k.drive for k in frames])
    maps: dict[int, tuple[TreeSurface, Pyramid]] = {}
    found = []
    for i in range(-(-first // STRIDE) * STRIDE, len(frames), STRIDE):
        progress(i / len(frames))
        away = np.hypot(*(place[: i + 1] - place[i]).T)
        came_back = path[i] - path[: i + 1] > LEAST_PATH_M + 2.0 * away
        came_back |= drive[: i + 1] != drive[i]
        candidates = np.flatnonzero(came_back & (away < MOST_REACH_M + NEAR_M))
        tried: list[int] = []
        for j in candidates[np.argsort(away[candidates])].tolist():
            if len(tried) == 2:
                break
            # One of each part of the path: its neighbours see the same.
            if any(abs(j - other) <= 4 * AROUND for other in tried):
                continue
            centre = max(j // AROUND * AROUND, int(np.searchsorted(drive, drive[j])))
            covariance = known.between(centre, i)
            reach_m = _reach_m(covariance)
            if away[j] > reach_m + NEAR_M:
                continue
            tried.append(j)
            if (centre // STRIDE, i // STRIDE) in have:
                continue
            if centre not in maps:
                about = [
                    k
                    for k in range(max(centre - AROUND, 0), min(centre + AROUND + 1, len(frames)))
                    if drive[k] == drive[centre]
                ]
                # Surfaces around an earlier keyframe, seen from it: they keep their shape when the
                # poses change.
                seen = points_of(
                    [frames[k] for k in about], [poses[centre].to(poses[k]) for k in about]
                )
                surface = TreeSurface(*seen)
                maps[centre] = surface, Pyramid(surface.elements)
            guess = poses[centre].to(poses[i])
            outcome, match = _closed(frames[i], *maps[centre], guess, covariance)
            if match is None:
                found.append(ClosureAttempt(centre, i, outcome, float(away[j]), reach_m))
                continue
            edge = Edge(
                centre, i, match.pose, bounded(match.information, SIGMA_M, SIGMA_RAD), closure=True
            )
            found.append(ClosureAttempt(centre, i, outcome, float(away[j]), reach_m, edge))
    return found


def _closed(
    frame: Keyframe, surface: TreeSurface, pyramid: Pyramid, guess: PlanarPose, covariance: Array
) -> tuple[ClosureOutcome, Match | None]:
    """Match a keyframe to surfaces, around a pose that is known with a covariance."""
    reach_m = _reach_m(covariance)
    reach_rad = float(
        np.clip(SIGMAS * sqrt(float(covariance[2, 2])), LEAST_REACH_RAD, MOST_REACH_RAD)
    )
    information = np.asarray(
        np.linalg.inv(covariance + np.diag((1e-4, 1e-4, 1e-5))), dtype=np.float64
    )
    matches = [align(surface, frame.x_m, frame.y_m, guess, prior=information)]
    if reach_m > BASIN_M or reach_rad > BASIN_RAD:
        search = PoseSearch(pyramid, frame.x_m, frame.y_m, (guess, reach_m, reach_rad), LEAST_FIT)
        while not search.step(200_000):
            pass
        if search.best is not None:
            places = [search.best, *search.rivals(2.0 * SAME_M, 2.0 * SAME_RAD)]
            matches += [
                align(surface, frame.x_m, frame.y_m, place, coarse_m=0.15) for place in places
            ]
    fitting = [
        match
        for match in matches
        if match.fit >= LEAST_FIT and _expected(guess, match.pose, information)
    ]
    if not fitting:
        return ClosureOutcome.UNFIT, None
    best = max(fitting, key=lambda match: match.fit)
    for other in fitting:
        off_m, off_rad = apart(best.pose, other.pose)
        if other.fit > RIVAL_FIT * best.fit and (off_m > SAME_M or off_rad > SAME_RAD):
            return ClosureOutcome.AMBIGUOUS, None
    worst = float(
        np.linalg.eigvalsh(np.linalg.inv(best.information + 1e-6 * np.eye(3))[:2, :2])[-1]
    )
    return (
        (ClosureOutcome.CORRIDOR, None)
        if worst > MOST_SIGMA_M**2
        else (ClosureOutcome.CLOSED, best)
    )


def _reach_m(covariance: Array) -> float:
    """Return the distance within which a pose is searched that is known with a covariance."""
    return float(
        np.clip(
            SIGMAS * sqrt(float(np.linalg.eigvalsh(covariance[:2, :2])[-1])),
            LEAST_REACH_M,
            MOST_REACH_M,
        )
    )


def _expected(guess: PlanarPose, pose: PlanarPose, information: Array) -> bool:
    """Return True if the drift explains the distance of two poses."""
    off = np.array(
        (pose.x_m - guess.x_m, pose.y_m - guess.y_m, remainder(pose.yaw_rad - guess.yaw_rad, tau))
    )
    return float(off @ information @ off) <= GATE
