"""Gaps in recorded rows: stretches that were driven but not recorded, and would become straight
lines without a word."""

from dataclasses import dataclass

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths.smoothing import turns

USUAL_LEGS = 5.0
"""A leg is a gap if it is so many times as long as usual, and took so many times as long."""
SHORTEST_M = 2.0
LONG_PAUSE_S = 10.0
JUMP_RATIO = 10.0
"""A row that is reached so many times as fast as usual was not driven to."""
UNTIMED_LEGS = 20.0
"""The same for rows without times, among which drawn straight parts may be long."""
TANGENT_M = 1.0
OFF_TANGENT_RAD = 0.2
"""A long leg that leaves the line by so much is no drawn straight part."""


@dataclass(frozen=True, slots=True)
class RowGap:
    """Two neighbouring rows between which something is missing."""

    row: int
    """First row after it."""
    length_m: float
    pause_s: float
    """NaN for rows without times."""
    jump: bool = False
    """True if nothing is missing but one of the two positions is wrong."""

    def __str__(self) -> str:
        pause = f"{self.pause_s:.1f} s and " if self.pause_s == self.pause_s else ""
        return f"{pause}{self.length_m:.1f} m"


def find(
    points: Array, t_s: Array | None, shortest_m: float = SHORTEST_M
) -> tuple[list[RowGap], list[RowGap]]:
    """Return the gaps between rows at points (n, 2) in m, and long legs or pauses that may be
    meant.

    t_s (n,): times in s, which do not decrease; without them, only a long leg that leaves the line
    is a gap.
    """
    legs = hypotenuse(*np.diff(points, axis=0).T)
    usual_m = _middle(legs[legs > 0.0])
    if t_s is None:
        rows = np.flatnonzero(legs > max(shortest_m, UNTIMED_LEGS * usual_m)).tolist()
        judged = [
            (RowGap(i + 1, float(legs[i]), float("nan")), _leaves_line(points, i)) for i in rows
        ]
        return [gap for gap, leaves in judged if leaves], [
            gap for gap, leaves in judged if not leaves
        ]
    pauses = np.diff(t_s)
    usual_s = _middle(pauses[pauses > 0.0])
    speeds = legs / np.maximum(pauses, 1e-9)
    usual_mps = _middle(speeds[(legs > 0.0) & (pauses > 0.0)])
    long = legs > max(shortest_m, USUAL_LEGS * usual_m)
    late = pauses > USUAL_LEGS * usual_s
    jumped = (legs > max(5.0, USUAL_LEGS * usual_m)) & (speeds > JUMP_RATIO * usual_mps)
    stood = ~long & (pauses > max(LONG_PAUSE_S, 4.0 * USUAL_LEGS * usual_s))
    missing, pausing = (np.flatnonzero(each).tolist() for each in ((long & late) | jumped, stood))
    found = [
        RowGap(i + 1, float(legs[i]), float(pauses[i]), bool(jumped[i] and not late[i]))
        for i in missing
    ]
    return found, [RowGap(i + 1, float(legs[i]), float(pauses[i])) for i in pausing]


def _middle(values: Array) -> float:
    return float(np.sort(values)[len(values) // 2]) if len(values) else 0.0


def _leaves_line(points: Array, leg: int) -> bool:
    """Return True if a leg turns away from the line before or after it, taken over
    ``TANGENT_M``."""
    for from_row, step, turning in ((leg, -1, leg), (leg + 1, 1, leg + 1)):
        far = from_row
        while (
            0 <= far + step < len(points)
            and hypotenuse(*(points[far] - points[from_row])) < TANGENT_M
        ):
            far += step
        if far == from_row:
            continue
        trio = points[[far, turning, leg + 1]] if step < 0 else points[[leg, turning, far]]
        if abs(float(turns(trio)[0])) > OFF_TANGENT_RAD:
            return True
    return False
