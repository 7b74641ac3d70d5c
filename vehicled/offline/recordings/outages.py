"""Gaps in the RTK positions of a recording."""

from dataclasses import replace
from math import hypot

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.core.arrays import Array
from vehicled.core.messages import CarrierSolution, GnssFix
from vehicled.offline.recordings.recording import Recording, seconds

MIN_OUTAGE_S = 0.25
"""Shorter gaps are a row that came late."""
MIN_WAY_M = 0.3
"""A receiver that repeats itself while the vehicle stands is not out."""
MOVING_MPS = 0.3
AROUND_S = 2.5
STEADY_SHARE = 0.2
"""Allowed deviation from the usual speed, as a fraction: a receiver that catches up shows half as
much again."""


class Outage(Struct, frozen=True):
    """A time without RTK while the vehicle moved, and the first fix after it."""

    duration_s: float
    fix_ns: int
    x_m: float
    y_m: float


def outages(recording: Recording) -> list[Outage]:
    """Outages of a recording's RTK, in order. Those before which there was no fix, or after which
    there is none, do not count."""
    datum = recording.datum
    fixes = [
        m for m in recording.inputs if isinstance(m, GnssFix) and m.carrier is CarrierSolution.FIXED
    ]
    places = [datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m)[:2] for fix in fixes]
    found = []
    for k in range(1, len(fixes)):
        gap_s = (fixes[k].t_ns - fixes[k - 1].t_ns) * 1e-9
        way_m = hypot(places[k][0] - places[k - 1][0], places[k][1] - places[k - 1][1])
        if gap_s > MIN_OUTAGE_S and way_m > MIN_WAY_M:
            found.append(Outage(gap_s, fixes[k].t_rx_ns, *places[k]))
    return found


def withheld(recording: Recording, duration_s: float, every_s: float) -> Recording:
    """The same recording with its RTK taken away for ``duration_s`` every ``every_s``, wherever the
    vehicle moves: what real outages do at an hour of their own, done often enough to count. The
    truth stays.

    Each begins while the receiver keeps pace: where it caught up on a hold its own track shows a
    speed that the vehicle never had.
    """
    truth = recording.truth
    t_s = seconds(truth.t_ns - truth.t_ns[0])
    begins = t_s[_steady(t_s, truth.speed_mps)]
    gone: list[tuple[float, float]] = []
    next_s = every_s
    while next_s + duration_s + 1.0 < t_s[-1]:
        later = begins[begins >= next_s - 1e-6]
        if not len(later) or later[0] + duration_s + 1.0 >= t_s[-1]:
            break
        begin_s = float(later[0])
        inside = (t_s >= begin_s) & (t_s <= begin_s + duration_s)
        with np.errstate(invalid="ignore"):
            moves = float((truth.speed_mps[inside] > MOVING_MPS).mean()) > 0.9
        if moves:
            gone.append((begin_s, begin_s + duration_s))
        next_s = begin_s + every_s

    def is_gone(message: object) -> bool:
        if not (isinstance(message, GnssFix) and message.carrier is CarrierSolution.FIXED):
            return False
        at_s = (message.t_ns - int(truth.t_ns[0])) * 1e-9
        return any(begin_s < at_s < end_s for begin_s, end_s in gone)

    return replace(recording, inputs=[m for m in recording.inputs if not is_gone(m)])


def _steady(t_s: Array, speed_mps: Array) -> NDArray[np.bool_]:
    """Rows at which the speed was near its median of the seconds around, for the second before as
    well."""
    usual = np.array([_median(speed_mps[np.abs(t_s - at_s) <= AROUND_S]) for at_s in t_s])
    with np.errstate(invalid="ignore"):
        off = ~(np.abs(speed_mps - usual) <= STEADY_SHARE * usual)
    sums = np.concatenate([[0], np.cumsum(off)])
    first = np.searchsorted(t_s, t_s - 1.0 - 1e-6)
    return np.asarray(sums[1:] - sums[first] == 0)


def _median(values: Array) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else np.nan
