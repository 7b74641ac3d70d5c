"""Places a drive on the map of earlier ones: by GNSS where both have it, else by scans that are
searched on the whole map and agree with each other."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import hypot

import numpy as np

from vehicled.maps.matching import Match, PlanarPose, align
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.offline.mapping.closures import SIGMA_M, SIGMA_RAD
from vehicled.offline.mapping.errors import MappingDriveError
from vehicled.offline.mapping.front_end import Keyframe, TreeSurface, apart, bounded, points_of
from vehicled.offline.mapping.pose_graph import Edge, PoseGraph

TRIED = 16
"""Most keyframes whose places are searched."""
TRIED_M = 1.0
"""Least distance driven between two of them: scans of one place are wrong together."""
LEAST_FIT = 0.7
RIVALS = 3
AGREE_M, AGREE_PER_M, AGREE_RAD = 0.4, 0.03, 0.15
"""Differences up to which two keyframes say the same: constant, per metre driven between them, and
of yaw."""
DIFFERENT_M, DIFFERENT_RAD = 1.5, 0.5
"""Differences from which two poses are of different places."""
LEAST_AGREEING, LEAST_RATIO = 3, 0.2
"""Keyframes that must agree: so many, and so many of those that were tried."""
RIVAL_RATIO = 0.67
"""Agreement for another placement, over that for the best one, from which two places look the
same."""

Vote = tuple[int, Match]
"""Keyframe, and where it fits."""


def placed(
    graph: PoseGraph,
    frames: Sequence[Keyframe],
    new: Sequence[Keyframe],
    names: tuple[str, str],
    progress: Callable[[float], None],
) -> tuple[PlanarPose, list[Edge]]:
    """Return the pose of another drive's frame on the map of the graph, and the edges that say so,
    from ``frames`` to ``new``, whose numbers go on from theirs.

    ``names``: those of the earlier drives and of the new one, for errors. Raises
    :class:`MappingDriveError` if the drive shows another place.
    """
    surface = TreeSurface(*points_of(frames, graph.poses))
    pyramid = Pyramid(surface.elements)
    tried = _spread(new)
    votes: list[Vote] = []
    for number, k in enumerate(tried):
        progress(number / len(tried))
        votes += [(k, match) for match in _found(new[k], surface, pyramid)]
    best: list[Vote] = []
    groups = [_agreeing(vote, votes, new) for vote in votes]
    if groups:
        best = max(groups, key=len)
    if len(best) < max(LEAST_AGREEING, LEAST_RATIO * len(tried)):
        raise MappingDriveError(
            f"{names[1]}: {len(best)} of {len(tried)} scans agree on a place on the map of "
            f"{names[0]}: it is of another place, or the two share too little; drive through "
            "what the other one saw, or build two maps"
        )
    origin = _origin(best[0], new)
    k = best[0][0]
    rival = max(
        (
            len(group)
            for group in groups
            if _differ(origin.then(new[k].pose), _origin(group[0], new).then(new[k].pose))
        ),
        default=0,
    )
    if rival > RIVAL_RATIO * len(best):
        raise MappingDriveError(
            f"{names[1]}: its scans fit at two places on the map of {names[0]}, which look the "
            "same: drive on to a place that looks different"
        )
    edges = []
    for k, match in best:
        near = int(
            np.argmin([hypot(p.x_m - match.pose.x_m, p.y_m - match.pose.y_m) for p in graph.poses])
        )
        edges.append(
            Edge(
                near, len(frames) + k, graph.poses[near].to(match.pose),
                bounded(match.information, SIGMA_M, SIGMA_RAD), closure=True,
            )
        )  # fmt: skip
    return origin, edges


def moved(new: Sequence[Keyframe], origin: PlanarPose, drive: int, path_m: float) -> list[Keyframe]:
    """Return keyframes in the frame in which theirs has the pose ``origin``, as those of a drive
    with a number that begins after ``path_m``."""
    return [
        replace(k, pose=origin.then(k.pose), drive=drive, path_m=k.path_m + path_m) for k in new
    ]


def _spread(new: Sequence[Keyframe]) -> list[int]:
    """Return keyframes that are evenly spread over a drive."""
    count = min(TRIED, int(new[-1].path_m / TRIED_M) + 1, len(new))
    return sorted(set(np.linspace(0, len(new) - 1, max(count, 1)).astype(int).tolist()))


def _found(frame: Keyframe, surface: TreeSurface, pyramid: Pyramid) -> list[Match]:
    search = PoseSearch(pyramid, frame.x_m, frame.y_m, None, LEAST_FIT)
    while not search.step(200_000):
        pass
    if search.best is None:
        return []
    found: list[Match] = []
    for place in (search.best, *search.rivals()[:RIVALS]):
        match = align(surface, frame.x_m, frame.y_m, place, coarse_m=0.15)
        if match.fit >= LEAST_FIT and all(_differ(match.pose, other.pose) for other in found):
            found.append(match)
    return found


def _differ(a: PlanarPose, b: PlanarPose) -> bool:
    """Return True if two poses on the map are of different places."""
    off_m, off_rad = apart(a, b)
    return off_m > DIFFERENT_M or off_rad > DIFFERENT_RAD


def _origin(vote: Vote, new: Sequence[Keyframe]) -> PlanarPose:
    """Return the pose of the drive's frame on the map, by one keyframe."""
    k, match = vote
    return match.pose.then(new[k].pose.to(PlanarPose(0.0, 0.0, 0.0)))


def _agreeing(vote: Vote, votes: Sequence[Vote], new: Sequence[Keyframe]) -> list[Vote]:
    """Return one vote of each keyframe that agrees with another vote, which is the first."""
    origin, (first, _) = _origin(vote, new), vote
    found = [vote]
    for k, match in votes:
        if any(k == other for other, _ in found):
            continue
        off_m, off_rad = apart(origin.then(new[k].pose), match.pose)
        driven_m = abs(new[k].path_m - new[first].path_m)
        if off_m <= AGREE_M + AGREE_PER_M * driven_m and off_rad <= AGREE_RAD:
            found.append((k, match))
    return found
