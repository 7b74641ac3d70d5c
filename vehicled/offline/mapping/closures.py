"""Loop closures: keyframes that see the surfaces of much earlier ones."""

from collections.abc import Callable, Sequence

import numpy as np

from vehicled.maps.matching import PlanarPose, align
from vehicled.maps.search import PoseSearch, Pyramid
from vehicled.offline.mapping.front_end import Keyframe, TreeSurface, apart, bounded, points_of
from vehicled.offline.mapping.pose_graph import Edge

AROUND = 6
"""Keyframes on each side of an earlier one whose surfaces are matched together."""
STRIDE = 3
"""One keyframe of so many is tried."""
LEAST_PATH_M = 6.0
"""Distance driven between two keyframes from which they can close a loop."""
DRIFT, LEAST_REACH_M, MOST_REACH_M = 0.02, 1.0, 4.0
"""Error per distance driven that is searched, and bounds of the search."""
REACH_RAD = 0.45
NEAR_M = 6.0
"""Distance beyond that error within which two keyframes may see the same."""
LEAST_FIT = 0.6
MOST_SIGMA_M = 0.2
"""Standard deviation of the worst direction beyond which a closure says nothing: two corridors look alike."""
SIGMA_M, SIGMA_RAD = 0.03, 0.01
"""Least standard deviations of a closure."""


def closures(
    frames: Sequence[Keyframe],
    poses: Sequence[PlanarPose],
    known: Sequence[Edge],
    progress: Callable[[float], None] = lambda share: None,
) -> list[Edge]:
    """Return closures between keyframes at their present poses that ``known`` does not have yet.

    The search is as wide as the drift since the earlier keyframe; with ``known`` ones, by which the poses were corrected, narrow.
    """
    most_m = LEAST_REACH_M if known else MOST_REACH_M
    have = {(e.start // STRIDE, e.to // STRIDE) for e in known}
    place = np.array([(p.x_m, p.y_m) for p in poses])
    path = np.array([k.path_m for k in frames])
    maps: dict[int, tuple[TreeSurface, Pyramid]] = {}
    found = []
    for i in range(0, len(frames), STRIDE):
        progress(i / len(frames))
        driven = path[i] - path[: i + 1]
        reach = np.clip(DRIFT * driven, LEAST_REACH_M, most_m)
        away = np.hypot(*(place[: i + 1] - place[i]).T)
        candidates = np.flatnonzero((driven > LEAST_PATH_M) & (away < reach + NEAR_M))
        tried: list[int] = []
        for j in candidates[np.argsort(away[candidates])].tolist():
            if len(tried) == 2:
                break
            # One of each part of the path: its neighbours see the same.
            if any(abs(j - other) <= 4 * AROUND for other in tried):
                continue
            tried.append(j)
            centre = j // AROUND * AROUND
            if (centre // STRIDE, i // STRIDE) in have:
                continue
            if centre not in maps:
                about = range(max(centre - AROUND, 0), min(centre + AROUND + 1, len(frames)))
                # Surfaces around an earlier keyframe, seen from it: they keep their shape when the poses change.
                seen = points_of([frames[k] for k in about], [poses[centre].to(poses[k]) for k in about])
                surface = TreeSurface(*seen)
                maps[centre] = surface, Pyramid(surface.elements)
            edge = _closed(frames[i], *maps[centre], poses[centre].to(poses[i]), float(reach[j]), centre, i)
            if edge is not None:
                found.append(edge)
    return found


def _closed(
    frame: Keyframe, surface: TreeSurface, pyramid: Pyramid, guess: PlanarPose, reach_m: float, start: int, to: int
) -> Edge | None:
    search = PoseSearch(pyramid, frame.x_m, frame.y_m, (guess, reach_m, REACH_RAD), LEAST_FIT)
    while not search.step(200_000):
        pass
    if search.best is None or search.rivals():
        return None
    match = align(surface, frame.x_m, frame.y_m, search.best, coarse_m=0.15)
    if match.fit < LEAST_FIT or apart(match.pose, search.best)[0] > 0.5:
        return None
    worst = float(np.linalg.eigvalsh(np.linalg.inv(match.information + 1e-6 * np.eye(3))[:2, :2])[-1])
    if worst > MOST_SIGMA_M**2:
        return None
    return Edge(start, to, match.pose, bounded(match.information, SIGMA_M, SIGMA_RAD), closure=True)
