"""What needs messages of two types at once: errors against the truth, and the way of a measurement to the actuators.

The types arrive in batches that overlap in time but do not end together, so each keeps a tail of a few seconds. That bounds the
memory, whatever falls silent.
"""

from collections.abc import Callable
from operator import itemgetter
from typing import Any, ClassVar

import numpy as np

from vehicled.log.bins import Distribution
from vehicled.messages import ActuatorCommand, ControlCommand, GroundTruth, Message, Mode, StateEstimate

_TAIL_NS = 4_000_000_000
"""More than the streams of a log lie apart in the file."""
_SKEW_NS = 1_000_000_000
"""A batch may end between two types of one chunk."""
_NEAR_NS = 50_000_000
"""Nothing is interpolated over more than this."""
_AGO_NS = 2_000_000_000
"""A measurement that has not reached the actuators by then has no way to them."""

Put = Callable[[str, Any, Any], None]
"""Takes (name of the series, times in ns, values)."""


class _Tail:
    """The last few seconds of a type, and which of it is new."""

    def __init__(self) -> None:
        self.rows: Any = None
        self.done_ns = -(2**63)

    def add(self, rows: Any) -> None:
        self.rows = rows if self.rows is None else np.concatenate([self.rows, rows])

    def trim(self, key: str) -> None:
        """Let go of what is older than the tail."""
        if not self.empty:
            self.rows = self.rows[self.rows[key] > int(self.rows[key].max()) - _TAIL_NS]

    def take(self, key: str, until_ns: int) -> Any:
        """Rows that were not taken before, up to a time."""
        if self.rows is None:
            return None
        t_ns = self.rows[key]
        fresh = self.rows[(t_ns > self.done_ns) & (t_ns <= until_ns)]
        self.done_ns = max(self.done_ns, until_ns)
        return fresh

    @property
    def empty(self) -> bool:
        return self.rows is None or not len(self.rows)


class TruthJoin:
    """Errors of estimate and tracking against the truth that a simulator tells."""

    _FIELDS: ClassVar[dict[type[Message], tuple[str, ...]]] = {
        GroundTruth: ("t_ns", "x_m", "y_m", "yaw_rad", "speed_mps"),
        StateEstimate: ("t_ns", "x_m", "y_m", "yaw_rad", "speed_mps"),
        ControlCommand: ("t_ns", "cross_track_m", "heading_error_rad"),
        ActuatorCommand: ("t_ns", "mode"),
    }
    TYPES = tuple(_FIELDS)

    def __init__(self, put: Put) -> None:
        self._put = put
        self._tails = {kind: _Tail() for kind in self.TYPES}

    def add(self, kind: type[Message], rows: Any) -> None:
        """Rows of one of :attr:`TYPES`, in order."""
        self._tails[kind].add(_pick(rows, self._FIELDS[kind]))

    def advance(self, *, final: bool = False) -> None:
        """Compare what is complete; at the end what is there."""
        self._compare(final)
        for tail in self._tails.values():
            tail.trim("t_ns")

    def _compare(self, final: bool) -> None:
        truth = self._tails[GroundTruth].rows
        estimates = self._tails[StateEstimate]
        if truth is None or estimates.empty:
            return
        truth = truth[np.argsort(truth["t_ns"], kind="stable")]
        until = 2**62 if final else int(min(truth["t_ns"][-1], estimates.rows["t_ns"].max())) - _SKEW_NS
        fresh = estimates.take("t_ns", until)
        if len(fresh):
            self._estimates(fresh, truth)
        commands = self._tails[ControlCommand].take("t_ns", until)
        if commands is not None and len(commands):
            self._tracking(commands, estimates.rows, truth)

    def _estimates(self, estimates: Any, truth: Any) -> None:
        t_ns = estimates["t_ns"]
        near = _near(t_ns, truth["t_ns"]) & self._driving(t_ns)
        estimates, t_ns = estimates[near], t_ns[near]
        if not len(t_ns):
            return
        off_m = np.hypot(estimates["x_m"] - _at(t_ns, truth, "x_m"), estimates["y_m"] - _at(t_ns, truth, "y_m"))
        self._put("error.position_m", t_ns, off_m)
        self._put("error.yaw_rad", t_ns, _wrap(estimates["yaw_rad"] - _yaw(t_ns, truth)))
        self._put("error.speed_mps", t_ns, estimates["speed_mps"] - _at(t_ns, truth, "speed_mps"))

    def _tracking(self, commands: Any, estimates: Any, truth: Any) -> None:
        """The true cross-track error, to first order: the believed one, and how far the truth lies beside the estimate."""
        t_ns = commands["t_ns"]
        near = _near(t_ns, truth["t_ns"]) & _near(t_ns, estimates["t_ns"]) & self._driving(t_ns)
        commands, t_ns = commands[near], t_ns[near]
        if not len(t_ns):
            return
        path_yaw = _yaw(t_ns, estimates) + commands["heading_error_rad"]
        dx = _at(t_ns, truth, "x_m") - _at(t_ns, estimates, "x_m")
        dy = _at(t_ns, truth, "y_m") - _at(t_ns, estimates, "y_m")
        self._put("error.cross_track_m", t_ns, commands["cross_track_m"] - np.sin(path_yaw) * dx + np.cos(path_yaw) * dy)

    def _driving(self, t_ns: Any) -> Any:
        """Where the vehicle drives by itself: the truth of a vehicle that waits says nothing about how it drives."""
        modes = self._tails[ActuatorCommand].rows
        if modes is None or not len(modes):
            return np.ones(len(t_ns), bool)
        before = np.searchsorted(modes["t_ns"], t_ns) - 1
        return (before >= 0) & (modes["mode"][np.maximum(before, 0)] == Mode.AUTO)


class Journey:
    """How long a measurement takes from its time of validity to the frame that can first answer it, stage by stage.

    A stage ends with the first run of its task that begins after the stage before; the frame leaves when the actuation ends.
    """

    def __init__(self, tasks: dict[str, int]) -> None:
        """``tasks``: numbers of the tasks by name, in the order in which they run."""
        self._numbers = {number: name for name, number in sorted(tasks.items(), key=itemgetter(1))}
        self._stages = ("arrival", *self._numbers.values())
        self._ends: dict[str, _Tail] = {name: _Tail() for name in self._numbers.values()}
        self._waiting: dict[str, _Tail] = {}
        self.stages: dict[str, dict[str, Distribution]] = {}
        """By measurement and stage: the time it takes."""
        self.totals: dict[str, dict[str, Distribution]] = {}
        """The time from validity to the end of a stage."""

    def measured(self, name: str, rows: Any) -> None:
        """Measurements with ``t_ns`` and ``t_rx_ns``."""
        self._waiting.setdefault(name, _Tail()).add(_pick(rows, ("t_ns", "t_rx_ns")))

    def ticks(self, rows: Any) -> None:
        """Task ticks."""
        for number, name in self._numbers.items():
            mine = rows[rows["task"] == number]
            if len(mine):
                self._ends[name].add(_pick(mine, ("start_ns", "end_ns")))

    def advance(self, *, final: bool = False) -> None:
        """Follow what has had the time to arrive."""
        self._follow_all(final)
        for tail in self._ends.values():
            tail.trim("start_ns")
        for tail in self._waiting.values():
            tail.trim("t_rx_ns")

    def _follow_all(self, final: bool) -> None:
        if not self._ends or any(tail.empty for tail in self._ends.values()):
            return
        newest = min(int(tail.rows["start_ns"].max()) for tail in self._ends.values())
        for name, tail in self._waiting.items():
            fresh = tail.take("t_rx_ns", newest if final else newest - _AGO_NS)
            if fresh is not None and len(fresh):
                self._follow(name, fresh)

    def _follow(self, name: str, rows: Any) -> None:
        at = rows["t_rx_ns"]
        steps = [rows["t_ns"], at]
        whole = np.ones(len(rows), bool)
        for tail in self._ends.values():
            order = np.argsort(tail.rows["start_ns"], kind="stable")
            start, end = tail.rows["start_ns"][order], tail.rows["end_ns"][order]
            following = np.searchsorted(start, at)
            whole &= following < len(start)
            at = end[np.minimum(following, len(end) - 1)]
            steps.append(at)
        # Only what reached the actuators at once: a stall is in the deadlines, not in the usual way of a measurement.
        whole &= (steps[-1] - rows["t_rx_ns"] < _AGO_NS) & (rows["t_ns"] > 0)
        stages = self.stages.setdefault(name, {stage: Distribution() for stage in self._stages})
        totals = self.totals.setdefault(name, {stage: Distribution() for stage in self._stages})
        for stage, before, after in zip(self._stages, steps, steps[1:]):
            stages[stage].add((after - before)[whole])
            totals[stage].add((after - steps[0])[whole])


def _pick(rows: Any, fields: tuple[str, ...]) -> Any:
    """Some fields of an array, packed: an estimate is mostly covariance."""
    found = np.empty(len(rows), [(name, rows.dtype[name]) for name in fields])
    for name in fields:
        found[name] = rows[name]
    return found


def _near(t_ns: Any, others_ns: Any) -> Any:
    after = np.minimum(np.searchsorted(others_ns, t_ns), len(others_ns) - 1)
    before = np.maximum(after - 1, 0)
    return (np.abs(others_ns[after] - t_ns) < _NEAR_NS) & (np.abs(t_ns - others_ns[before]) < _NEAR_NS)


def _at(t_ns: Any, rows: Any, field: str) -> Any:
    origin = rows["t_ns"][0]
    return np.interp(t_ns - origin, rows["t_ns"] - origin, rows[field])


def _yaw(t_ns: Any, rows: Any) -> Any:
    rows = rows[np.isfinite(rows["yaw_rad"])]
    if not len(rows):
        return np.full(len(t_ns), np.nan)
    origin = rows["t_ns"][0]
    return np.interp(t_ns - origin, rows["t_ns"] - origin, np.unwrap(rows["yaw_rad"]))


def _wrap(angle: Any) -> Any:
    return np.mod(angle + np.pi, 2 * np.pi) - np.pi
