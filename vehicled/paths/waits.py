"""Waits: places of a course at which the vehicle stands for some seconds before it drives on."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from vehicled.paths.errors import CourseError

MAX_WAIT_S = 65_535.0
"""Longest wait, s: what a mission item of ArduPilot holds."""


class Wait(Struct, frozen=True):
    """Stop on the way, at one sample of the course."""

    s_m: float
    """Arc length of the place; that of the course for a wait at its end."""
    duration_s: float
    """Time at standstill, > 0."""


def waits_at(s_m: Sequence[float], durations_s: Sequence[float]) -> tuple[Wait, ...]:
    """Return the waits at some places in driving order; those of 0 s are none, and several at one
    place are one after the other."""
    found: list[Wait] = []
    for place_m, duration_s in zip(s_m, durations_s, strict=True):
        if duration_s <= 0.0:
            continue
        if found and found[-1].s_m == place_m:
            duration_s += found.pop().duration_s
        found.append(Wait(place_m, min(duration_s, MAX_WAIT_S)))
    return tuple(found)


def check_waits(name: str, waits: Sequence[Wait], length_m: float) -> None:
    """Raise :class:`CourseError` unless places and durations are in range and the places in order.
    NaN is not in range."""
    before_m = -1.0
    for wait in waits:
        if not (before_m < wait.s_m <= length_m and wait.s_m >= 0.0):
            raise CourseError(
                f"{name}: the waits of the course are not in order along its {length_m:.1f} m"
            )
        if not 0.0 < wait.duration_s <= MAX_WAIT_S:
            raise CourseError(
                f"{name}: a wait of {wait.duration_s:g} s; one lasts above 0 and at most "
                f"{MAX_WAIT_S:g} s"
            )
        before_m = wait.s_m


def folded(
    durations_s: npt.ArrayLike, rows: npt.NDArray[np.int64], name: str, n: int
) -> npt.NDArray[np.float64]:
    """Return the durations (n,) of all waypoints as durations of the remaining ones ``rows``: a
    wait stays at the place before."""
    durations = np.asarray(durations_s, dtype=float)
    if durations.shape != (n,):
        raise CourseError(
            f"{name}: {durations.size} waits for {n} waypoints; give one each, 0 for none"
        )
    bad = np.flatnonzero(~((durations >= 0.0) & (durations <= MAX_WAIT_S)))
    if len(bad):
        raise CourseError(
            f"{name}, waypoint {bad[0] + 1}: a wait of {durations[bad[0]]:g} s; one lasts from "
            f"0 to {MAX_WAIT_S:g} s"
        )
    kept = np.maximum(np.searchsorted(rows, np.arange(n), side="right") - 1, 0)
    return np.bincount(kept, weights=durations, minlength=len(rows)).astype(float)
