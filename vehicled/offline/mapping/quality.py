"""Quality of a map by what the drive itself shows: loops closed and not, drift, agreement, expected
error."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import wrapped
from vehicled.offline.mapping.closures import ClosureAttempt, ClosureOutcome
from vehicled.offline.mapping.front_end import Keyframe, apart
from vehicled.offline.mapping.pose_graph import PoseGraph, RelativeCovariance

RETURN_M = 1.5
"""Distance to an earlier keyframe, beyond the drift, at which the vehicle has come back to it."""
GAP_M = 3.0
"""Distance driven between attempts up to which they belong together."""
SHORTEST_M = 2.0
"""Length from which a part without a closure is named; something shorter was only passed."""
LONG_M = 10.0
"""The same beside a part with closures, which hold it."""
LEAST_TURN_RAD = 1.5
"""Turns of a drive from which scans and odometry are compared."""
WINDOW_M = 5.0
"""Distance over which the path of the map is compared with the one by scan matching."""


@dataclass(frozen=True, slots=True)
class Revisit:
    """Part of the drive on which the vehicle came back to where it had been."""

    x_m: float
    y_m: float
    """Place in its middle."""
    begin_m: float
    end_m: float
    """Distance driven at its ends."""
    earlier_m: float
    """Distance driven when the vehicle was there before."""
    closed: int
    outcomes: Counter[ClosureOutcome]
    contradict: int

    @property
    def reason(self) -> str:
        """Why no loop was closed, in words."""
        if self.contradict:
            return "its closures contradict the rest of the drive"
        return _REASONS[max(self.outcomes, key=lambda outcome: self.outcomes[outcome])]


_REASONS = {
    ClosureOutcome.CLOSED: "",
    ClosureOutcome.UNFIT: (
        "its scans do not fit to what was seen there; something moved, or the drift is larger "
        "than expected"
    ),
    ClosureOutcome.AMBIGUOUS: (
        "its scans fit at several places; drive on to a place that looks different"
    ),
    ClosureOutcome.CORRIDOR: (
        "its scans show no place along the walls; drive on to a corner, a door or another bend"
    ),
}


class OdometryComparison(NamedTuple):
    """Motion by scan matching, as dead reckoning sees it."""

    turn_ratio: float
    """Turns by the scans over those by dead reckoning; -1 for a scanner that is upside down."""
    distance_ratio: float
    """The same of distances."""
    course_rad: float
    """Direction of motion by the scans, left of the one by dead reckoning."""


def compared_with_odometry(frames: Sequence[Keyframe]) -> OdometryComparison | None:
    """Return the comparison of a drive; None without odometry, or if it hardly turned."""
    pairs = [
        (before.pose.to(frame.pose), frame.reckoned)
        for before, frame in pairwise(frames)
        if frame.matched and frame.reckoned is not None and frame.drive == before.drive
    ]
    if not pairs:
        return None
    scanned, reckoned = (np.array(column) for column in zip(*pairs, strict=True))
    turned = wrapped(reckoned[:, 2])
    if float(np.abs(turned).sum()) < LEAST_TURN_RAD:
        return None
    ratio = float((wrapped(scanned[:, 2]) * turned).sum() / (turned**2).sum())
    steps, own = (m[:, 0] + 1j * m[:, 1] for m in (scanned, reckoned))
    product = (steps * own.conj()).sum()
    distances = float(abs(product) / max(float((np.abs(own) ** 2).sum()), 1e-9))
    return OdometryComparison(ratio, distances, float(np.angle(product)))


@dataclass(frozen=True, slots=True)
class MapQuality:
    """Quality of a map, without a truth."""

    revisits: list[Revisit]
    outcomes: Counter[ClosureOutcome]
    drift_m: float
    """Largest drift that a closure took out."""
    drift_path_m: float
    """Distance driven over which it had grown."""
    residual_m: float
    """Root mean square distance by which the map misses its closures."""
    bend_m: float
    """Largest change of the path by scan matching within ``WINDOW_M``."""
    bend_sigmas: float
    """The same in expected standard deviations."""
    bend_place_m: tuple[float, float]
    sigma_m: float
    """Expected error of the keyframe that is known worst, relative to the first one: one standard
    deviation."""
    sigma_place_m: tuple[float, float]
    odometry: OdometryComparison | None
    """Comparison with dead reckoning; None without it, or if the drive hardly turned."""

    @property
    def open_revisits(self) -> list[Revisit]:
        """Revisits without a closed loop."""
        return [r for r in self.revisits if not r.closed]

    @property
    def bent(self) -> bool:
        """True if closures bend the path more than scan matching can be wrong."""
        return self.bend_sigmas > 4.0


def quality_of(
    frames: Sequence[Keyframe], graph: PoseGraph, attempts: Sequence[ClosureAttempt]
) -> MapQuality:
    """Return the quality of an optimised graph."""
    good = [e for e in graph.edges if e.closure and e.weight > 0.5]
    drifts = [
        (
            apart(frames[e.start].pose.to(frames[e.to].pose), e.measured)[0],
            frames[e.to].path_m - frames[e.start].path_m,
        )
        for e in good
    ]
    drift_m, drift_path_m = max(drifts, default=(0.0, 0.0))
    missed = [apart(graph.poses[e.start].to(graph.poses[e.to]), e.measured)[0] for e in good]
    known = RelativeCovariance(graph)
    numbers = range(1, len(frames), max(len(frames) // 100, 1))
    sigma_m, worst = max(
        (sqrt(float(np.linalg.eigvalsh(known.between(0, k)[:2, :2])[-1])), k) for k in numbers
    )
    bend_m, sigmas, at = _bend(frames, graph)
    return MapQuality(
        revisits=_revisits(frames, graph, attempts),
        outcomes=Counter(a.outcome for a in attempts),
        drift_m=drift_m,
        drift_path_m=drift_path_m,
        residual_m=sqrt(float(np.mean(np.square(missed)))) if missed else 0.0,
        bend_m=bend_m,
        bend_sigmas=sigmas,
        bend_place_m=(graph.poses[at].x_m, graph.poses[at].y_m),
        sigma_m=sigma_m,
        sigma_place_m=(graph.poses[worst].x_m, graph.poses[worst].y_m),
        odometry=compared_with_odometry(frames),
    )


def _bend(frames: Sequence[Keyframe], graph: PoseGraph) -> tuple[float, float, int]:
    """Return the largest change of the path within a window, relative to its uncertainty: metres,
    standard deviations, keyframe."""
    chain = PoseGraph(list(graph.poses), [e for e in graph.edges if not e.closure])
    known = RelativeCovariance(chain)
    path = np.array([k.path_m for k in frames])
    found = (0.0, 0.0, 0)
    for k in range(0, len(frames), 3):
        end = int(np.searchsorted(path, path[k] + WINDOW_M))
        if end >= len(frames):
            break
        before, after = frames[k].pose.to(frames[end].pose), graph.poses[k].to(graph.poses[end])
        off = np.array((after.x_m - before.x_m, after.y_m - before.y_m))
        covariance = known.between(k, end)[:2, :2]
        sigmas = sqrt(float(off @ np.linalg.solve(covariance, off)))
        if sigmas > found[1]:
            found = (float(np.hypot(*off)), sigmas, (k + end) // 2)
    return found


def _revisits(
    frames: Sequence[Keyframe], graph: PoseGraph, attempts: Sequence[ClosureAttempt]
) -> list[Revisit]:
    """Return the parts of the drive that came back to earlier ones, in order; each is closed
    throughout or not at all."""
    tried: dict[int, list[ClosureAttempt]] = {}
    for attempt in sorted(attempts, key=lambda each: each.to):
        if attempt.edge is not None or attempt.away_m <= RETURN_M + attempt.reach_m:
            tried.setdefault(attempt.to, []).append(attempt)
    parts: list[list[ClosureAttempt]] = []
    for to, each in tried.items():
        last = parts[-1] if parts else []
        if (
            last
            and frames[to].path_m - frames[last[-1].to].path_m < GAP_M
            and bool(_counted(last)) == bool(_counted(each))
        ):
            last += each
        else:
            parts.append(list(each))
    found = []
    for number, part in enumerate(parts):
        begin_m = frames[part[0].to].path_m
        end_m = frames[part[-1].to].path_m
        closed = _counted(part)
        beside = parts[max(number - 1, 0) : number] + parts[number + 1 : number + 2]
        held = any(_counted(p) and _gap_m(frames, p, part) < GAP_M for p in beside)
        if not closed and end_m - begin_m < (LONG_M if held else SHORTEST_M):
            continue
        middle = graph.poses[part[len(part) // 2].to]
        outcomes = Counter(a.outcome for a in part if a.edge is None)
        refused = sum(a.edge is not None for a in part) - closed
        found.append(
            Revisit(
                middle.x_m,
                middle.y_m,
                begin_m,
                end_m,
                frames[part[0].start].path_m,
                closed,
                outcomes,
                refused,
            )
        )
    return found


def _gap_m(
    frames: Sequence[Keyframe], a: Sequence[ClosureAttempt], b: Sequence[ClosureAttempt]
) -> float:
    """Return the distance driven between two parts, the one before the other."""
    first, last = sorted((a, b), key=lambda part: part[0].to)
    return frames[last[0].to].path_m - frames[first[-1].to].path_m


def _counted(attempts: Sequence[ClosureAttempt]) -> int:
    """Return the number of closures that count."""
    return sum(a.edge is not None and a.edge.weight > 0.5 for a in attempts)
