"""Errors of a drive against the truth of a simulator, as :class:`~vehicled.run.judge.Judge` counts
them while it lasts.

Every figure of a log against its truth comes from here, so that the report and the comparison of a
log state what the simulation printed. Instants are those of the truth at which the vehicle drove by
itself; the true position is projected onto the course in the log; the estimate is interpolated to
the instant. The types arrive in batches that overlap in time but do not end together, so each keeps
a tail of a few seconds.
"""

from collections.abc import Callable
from math import pi
from typing import Any, ClassVar

import numpy as np

from vehicled.core.messages import ActuatorCommand, GroundTruth, Message, Mode, StateEstimate
from vehicled.paths.course import Course
from vehicled.run.judge import truth_tracker

_TAIL_NS = 4_000_000_000
"""Length of the tail, longer than the offset of streams within a file."""
_SKEW_NS = 1_000_000_000
"""Largest time by which types of one chunk may end apart."""
_SILENT_NS = 600_000_000_000
"""Longest wait of a type for another that has stopped."""
_NEAR_NS = 50_000_000
"""Largest distance in time for interpolation."""

Put = Callable[[str, Any, Any], None]
"""Callback that takes (name of the error, times in ns, values)."""
ERRORS = ("cross_track_m", "heading_rad", "position_m", "yaw_rad", "speed_mps")
"""Names of the errors: the first two of the vehicle from its course, the others of the estimate."""


class TruthJoin:
    """Computes the errors in :data:`ERRORS` from added rows."""

    _FIELDS: ClassVar[dict[type[Message], tuple[str, ...]]] = {
        GroundTruth: ("t_ns", "x_m", "y_m", "yaw_rad", "speed_mps"),
        StateEstimate: ("t_ns", "x_m", "y_m", "yaw_rad", "speed_mps"),
        ActuatorCommand: ("t_ns", "mode"),
    }
    TYPES = tuple(_FIELDS)

    def __init__(self, put: Put, course: Course | None) -> None:
        """Take the ``course`` of the log; without it only the errors of the estimate are
        computed."""
        self._put = put
        self._tracker = None if course is None else truth_tracker(course)
        self._rows: dict[type[Message], Any] = {}
        self._done_ns = -(2**63)

    def add(self, kind: type[Message], rows: Any) -> None:
        """Add rows of one of :attr:`TYPES`."""
        found = np.empty(len(rows), [(name, rows.dtype[name]) for name in self._FIELDS[kind]])
        for name in self._FIELDS[kind]:
            found[name] = rows[name]
        before = self._rows.get(kind)
        found = found if before is None else np.concatenate([before, found])
        self._rows[kind] = found[np.argsort(found["t_ns"], kind="stable")]

    def advance(self, *, final: bool = False) -> None:
        """Compute errors for all complete rows; with ``final`` for all rows."""
        truth, estimates = (self._rows.get(kind) for kind in (GroundTruth, StateEstimate))
        if truth is None or estimates is None or not len(truth) or not len(estimates):
            return
        until_ns = 2**62 if final else int(min(truth["t_ns"][-1], estimates["t_ns"][-1])) - _SKEW_NS
        fresh = truth[(truth["t_ns"] > self._done_ns) & (truth["t_ns"] <= until_ns)]
        self._done_ns = max(self._done_ns, until_ns)
        fresh = fresh[self._driving(fresh["t_ns"])]
        self._follow(fresh)
        self._judge(fresh[_near(fresh["t_ns"], estimates["t_ns"])], estimates)
        for kind, rows in self._rows.items():
            oldest_ns = max(
                min(until_ns, int(rows["t_ns"][-1])) - _TAIL_NS, int(rows["t_ns"][-1]) - _SILENT_NS
            )
            # Keep the row before, which is valid until the next.
            self._rows[kind] = rows[max(0, int(np.searchsorted(rows["t_ns"], oldest_ns)) - 1) :]

    def _driving(self, t_ns: Any) -> Any:
        """Return a mask of the times in AUTO; a waiting vehicle says nothing about tracking."""
        modes = self._rows.get(ActuatorCommand)
        if modes is None or not len(modes):
            return np.ones(len(t_ns), bool)
        before = np.searchsorted(modes["t_ns"], t_ns, side="right") - 1
        return (before >= 0) & (modes["mode"][np.maximum(before, 0)] == Mode.AUTO)

    def _follow(self, truth: Any) -> None:
        if self._tracker is None or not len(truth):
            return
        columns = (truth[name].tolist() for name in ("x_m", "y_m", "yaw_rad", "speed_mps"))
        points = [self._tracker.update(*state) for state in zip(*columns)]
        self._put(
            "cross_track_m", truth["t_ns"], np.array([point.cross_track_m for point in points])
        )
        self._put(
            "heading_rad", truth["t_ns"], np.array([point.heading_error_rad for point in points])
        )

    def _judge(self, truth: Any, estimates: Any) -> None:
        t_ns = truth["t_ns"]
        if not len(t_ns):
            return
        # Count from the first stamp, so that floats keep nanoseconds.
        origin = estimates["t_ns"][0]
        at, known = t_ns - origin, estimates["t_ns"] - origin
        x, y, speed = (
            np.interp(at, known, estimates[name]) for name in ("x_m", "y_m", "speed_mps")
        )
        after = np.minimum(np.searchsorted(known, at), len(known) - 1)
        before = np.maximum(after - 1, 0)
        yaw = np.where(
            2 * (at - known[before]) > known[after] - known[before],
            estimates["yaw_rad"][after],
            estimates["yaw_rad"][before],
        )
        self._put("position_m", t_ns, np.hypot(x - truth["x_m"], y - truth["y_m"]))
        self._put("yaw_rad", t_ns, np.mod(yaw - truth["yaw_rad"] + pi, 2 * pi) - pi)
        self._put("speed_mps", t_ns, speed - truth["speed_mps"])


def _near(t_ns: Any, others_ns: Any) -> Any:
    """Return a mask of the times with both neighbours near; no interpolation at the ends or across
    gaps."""
    after = np.minimum(np.searchsorted(others_ns, t_ns), len(others_ns) - 1)
    before = np.maximum(after - 1, 0)
    inside = (others_ns[0] <= t_ns) & (t_ns <= others_ns[-1])
    return (
        inside
        & (np.abs(others_ns[after] - t_ns) < _NEAR_NS)
        & (np.abs(t_ns - others_ns[before]) < _NEAR_NS)
    )
