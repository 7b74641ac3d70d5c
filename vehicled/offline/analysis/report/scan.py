"""Single pass over a log that collects everything the report shows, in memory independent of the
run's length."""

import json
import os
import tomllib
from contextlib import ExitStack
from typing import Any, ClassVar

import numpy as np

from vehicled.core.attribution import NO_HOLDER, holder_name
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    Cause,
    ControlCommand,
    ControlLevel,
    ControlReason,
    Direction,
    EstimatorStatus,
    Event,
    Fault,
    GarbageCollection,
    GnssFix,
    GroundTruth,
    Heading,
    HostHealth,
    Identification,
    ImuSample,
    Message,
    Mode,
    ModeChange,
    MotorStatus,
    ObstacleContact,
    OperatorCommand,
    Path,
    PortEvent,
    Reaction,
    StateEstimate,
    SteeringFeedback,
    TaskTick,
    VirtualScan,
    WheelSpeed,
    largest_variance,
    virtual_returns,
)
from vehicled.log.errors import LogError
from vehicled.log.older import renewed
from vehicled.log.reader import LogReader, run_parts
from vehicled.log.schema import CHANNELS, RunHeader
from vehicled.offline.analysis.bins import Distribution
from vehicled.offline.analysis.course import course_notes, course_of
from vehicled.offline.analysis.report.join import LatencyJoin
from vehicled.offline.analysis.report.samples import KeptSamples
from vehicled.offline.analysis.report.thin import COLUMNS, Instants, States, Thinned, TimeAxis
from vehicled.offline.analysis.report.trace import Trace
from vehicled.offline.analysis.report.wires import PortCount, count
from vehicled.offline.analysis.timing import Timing, TimingScan, gap_note
from vehicled.offline.analysis.truth import TruthJoin
from vehicled.ros.fields import fields_of

KEPT = 2_000
"""Largest number of faults, events and the like to keep; more are only counted."""
_CHUNKS_AT_ONCE = 64
_ELLIPSES = 48
_PARAMETERS = tuple(name for name in Identification.__struct_fields__ if name != "t_ns")
FIELDS: dict[type[Message], tuple[str, ...]] = {
    ControlCommand: (
        "wheel_angle_rad", "throttle", "brake", "target_speed_mps", "cross_track_m",
        "heading_error_rad", "iterations",
    ),
    ActuatorCommand: ("throttle", "brake", "wheel_angle_rad"),
    StateEstimate: ("speed_mps", "rejected", "rejected_in_a_row"),
    GroundTruth: (
        "speed_mps", "wheel_angle_rad", "battery_v", "position_sigma_m", "yaw_sigma_rad",
        "speed_sigma_mps",
    ),
    GnssFix: ("satellites", "hdop", "correction_age_s"),
    HostHealth: ("disk_free_share", "memory_free_share", "cpu_busy_share", "log_backlog_share",
        "temperature_k"),
    MotorStatus: ("motor_current_a", "input_current_a", "input_voltage_v",
        "controller_temperature_k", "motor_temperature_k"),
    WheelSpeed: ("speed_mps",),
    SteeringFeedback: ("wheel_angle_rad",),
    Identification: _PARAMETERS,
}  # fmt: skip
"""Fields drawn unchanged."""
_LOOSE: tuple[type[Message], ...] = tuple(
    kind for kind in FIELDS if not all(field.is_fixed for field in fields_of(kind))
)
"""Types of variable size among them; rare enough to be read one by one."""
_ARRAYS: tuple[type[Message], ...] = (
    *(kind for kind in FIELDS if kind not in _LOOSE), TaskTick, ImuSample, Heading,
    GarbageCollection,
)  # fmt: skip
_RARE: tuple[type[Message], ...] = (
    Fault,
    ModeChange,
    Event,
    PortEvent,
    OperatorCommand,
    Path,
    ObstacleContact,
)


SQUARE_M = 0.05
MOST_VIRTUAL = 20_000


class Findings:
    """Data of a log for the report."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the run whose first file is ``path``. Raises :class:`LogError` for an invalid
        log."""
        self.path = os.fspath(path)
        self.files = run_parts(path)
        self.notes: list[str] = []
        self.header: RunHeader | None = None
        self.end: dict[str, str] = {}
        self.limits: dict[str, float] = {}
        self.datum: dict[str, float] = {}
        self.series: dict[str, Thinned] = {}
        self.states: dict[str, States] = {
            "mode": States(tuple(Mode)),
            "reaction": States(tuple(Reaction)),
            "carrier": States(tuple(reversed(CarrierSolution))),
            "estimator": States((2, 1, 0, 3)),
            "level": States(tuple(ControlLevel)),
            "reason": States(tuple(ControlReason)),
        }
        self.misses: dict[int, Any] = {}
        """Misses per column, by cause."""
        self.holders: dict[int, dict[str, int]] = {}
        """Misses by cause and holder of the loop."""
        self.skips = np.zeros(COLUMNS, np.int64)
        self.bins: dict[tuple[int, str], Distribution] = {}
        """Histograms by task and quantity."""
        self.rare: dict[type[Message], list[Any]] = {kind: [] for kind in _RARE}
        self.rare_counts: dict[type[Message], int] = dict.fromkeys(_RARE, 0)
        self.ports: dict[tuple[str, Direction], PortCount] = {}
        self.counts: dict[str, int] = {}
        self.types: dict[str, str] = {}
        self.seen: dict[str, int] = {}
        """Number of messages read as arrays, by topic."""
        self.traces = {"estimate": Trace(), "truth": Trace()}
        self.ellipses: dict[int, tuple[float, float, float, float, float]] = {}
        """Estimates by time: x, y, and the covariance xx, xy, yy."""
        self.virtual: set[tuple[int, int]] = set()
        """Squares of ``SQUARE_M`` in which rays met virtual bodies."""
        self.place = np.full((COLUMNS, 2), np.nan)
        """Estimated position in every column, m."""
        self.clipped = {bit: np.zeros(COLUMNS, np.int64) for bit in (1, 2, 4, 8)}
        self.nis_outside = 0
        self._last_nis = float("nan")
        self._timing_scan = TimingScan()
        self._read()

    # ------------------------------------------------------------------ the files

    def _read(self) -> None:
        with ExitStack() as stack:
            readers = [stack.enter_context(LogReader(file)) for file in self.files]
            self._open(readers)
            for log in readers:
                self._file(log)
        self._timing()

    def _open(self, readers: list[LogReader]) -> None:
        first = readers[0]
        self.header = first.header if first.is_vehicled_log else None
        bounds = [found for log in readers if (found := _bounds(log)) is not None]
        start = min((low for low, _ in bounds), default=0)
        stop = max((high for _, high in bounds), default=0)
        self.axis = TimeAxis(
            min(start, self.header.start_monotonic_ns) if self.header and start else start, stop
        )
        self.origin_ns = self.header.start_monotonic_ns if self.header else start
        self.empty = not bounds
        self.samples = KeptSamples(self.axis)
        names = (
            {row.name: number for number, row in enumerate(self.header.tasks)}
            if self.header
            else {}
        )
        self.journey = LatencyJoin(names)
        for log in readers:
            if self.header is not None and (
                not log.is_vehicled_log or log.header.run_id != self.header.run_id
            ):
                raise LogError(f"{log.path}: belongs to another run than {self.path}")
            self.end = log.end or self.end
            if log.layout.problem:
                self.notes.append(
                    f"{os.path.basename(log.path)} is incomplete: {log.layout.problem}. What "
                    "is whole is shown."
                )
        if self.header is not None:
            self._attachments(first)
        self.course_notes = course_notes(first) if self.header is not None else []
        self.truth = TruthJoin(self._put, course_of(first) if self.header is not None else None)

    def _attachments(self, log: LogReader) -> None:
        try:
            profile = tomllib.loads(log.attachment("profile.toml").decode())
            vehicle = profile.get("vehicle", {})
            self.limits = {
                k: float(v)
                for k, v in profile.get("limits", {}).items()
                if isinstance(v, int | float)
            }
            self.limits["max_wheel_rad"] = float(
                vehicle.get("steering", {}).get("max_wheel_rad", "nan")
            )
        except (LogError, ValueError, AttributeError, TypeError) as error:
            self.notes.append(
                "The profile in the log cannot be read, so limits are not drawn: "
                f"{self._named(error)}"
            )
        try:
            self.datum = json.loads(log.attachment("course.json"))["datum"]
        except (LogError, ValueError, KeyError, TypeError):
            self.datum = {}

    def _file(self, log: LogReader) -> None:
        name = os.path.basename(log.path)
        waiting: dict[type[Message], list[Any]] = {}
        try:
            for number, (kind, rows) in enumerate(log.arrays(*_ARRAYS)):
                waiting.setdefault(kind, []).append(rows)
                if number % (_CHUNKS_AT_ONCE * 8) == _CHUNKS_AT_ONCE * 8 - 1:
                    self._batch(waiting)
            self._batch(waiting)
            self.notes += [f"{note}." for note in gap_note(log, name)]
            for record in log.messages(*_RARE, *_LOOSE, VirtualScan):
                if isinstance(record.message, VirtualScan):
                    self._virtual(record.message)
                    continue
                if type(record.message) in _LOOSE:
                    self._loose(record.message)
                    continue
                message = renewed(record.message)
                kept = self.rare[type(message)]
                self.rare_counts[type(message)] += 1
                if len(kept) < (4 if type(message) is Path else KEPT):
                    kept.append(message)
            count(log, self.ports)
        except LogError as error:
            self.notes.append(f"{name} cannot be read to its end: {self._named(error)}")
        self.truth.advance(final=True)
        self.journey.advance(final=True)
        statistics = log.layout.statistics
        for channel in log.layout.channels.values():
            schema = log.layout.schemas.get(channel.schema_id)
            self.types[channel.topic] = schema.name if schema else ""
            if statistics is not None:
                found = statistics.channel_message_counts.get(channel.id, 0)
                self.counts[channel.topic] = self.counts.get(channel.topic, 0) + found
        if log.damaged_chunks:
            self.notes.append(
                f"{log.damaged_chunks} of {len(log.layout.chunks)} chunks of {name} are "
                "damaged and left out."
            )
        if statistics is None:
            self.notes.append(
                f"{name} has no summary: messages are counted only where they are read."
            )

    def _named(self, error: Exception) -> str:
        """Return the error text without the folders of the user who made the report."""
        text = str(error)
        for file in self.files:
            text = text.replace(file, os.path.basename(file))
        return text

    def _timing(self) -> None:
        self.timing: Timing | None = None
        if self.header is None:
            return
        try:
            # Truncation and damage are already noted.
            self.timing = self._timing_scan.result(self.header, self.files, complete=True, notes=[])
        except LogError as error:
            self.notes.append(f"Deadlines cannot be judged: {self._named(error)}")

    # ------------------------------------------------------------------ what is in them

    def _batch(self, waiting: dict[type[Message], list[Any]]) -> None:
        batch = {
            kind: pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
            for kind, pieces in waiting.items()
        }
        self._look_closer(batch)
        for kind, rows in batch.items():
            topic = CHANNELS[kind].topic
            self.seen[topic] = self.seen.get(topic, 0) + len(rows)
            if kind in TimingScan.TYPES:
                self._timing_scan.add(kind, rows)
            if kind is TaskTick:
                self._ticks(rows)
                continue
            at = self.axis.instants(rows["t_ns"])
            name = topic.rsplit("/", 1)[-1]
            for field in FIELDS.get(kind, ()):
                if field in (rows.dtype.names or ()):
                    self._add(f"{name}.{field}", at, rows[field])
            special = self._SPECIAL.get(kind)
            if special is not None:
                special(self, rows, at)
            if kind in TruthJoin.TYPES:
                self.truth.add(kind, rows)
        waiting.clear()
        self.truth.advance()
        self.journey.advance()

    def _virtual(self, scan: VirtualScan) -> None:
        """Remember where rays met virtual bodies, once for each square."""
        for x_m, y_m in virtual_returns(scan) if len(self.virtual) < MOST_VIRTUAL else ():
            self.virtual.add((round(x_m / SQUARE_M), round(y_m / SQUARE_M)))

    def _loose(self, message: Message) -> None:
        kind = type(message)
        topic = CHANNELS[kind].topic
        self.seen[topic] = self.seen.get(topic, 0) + 1
        at = self.axis.instants(np.array([message.t_ns]))  # type: ignore[attr-defined]
        for field in FIELDS[kind]:
            self._add(
                f"{topic.rsplit('/', 1)[-1]}.{field}",
                at,
                np.array([float(getattr(message, field))]),
            )

    def _look_closer(self, batch: dict[type[Message], Any]) -> None:
        """Keep single samples around missed deadlines and changes of mode or reaction."""
        ticks, commands = batch.get(TaskTick), batch.get(ActuatorCommand)
        if ticks is not None:
            self.samples.look_at(ticks["release_ns"][ticks["missed"] != 0])
        if commands is not None:
            changed = (np.diff(commands["mode"].astype(int)) != 0) | (
                np.diff(commands["reaction"].astype(int)) != 0
            )
            self.samples.look_at(commands["t_ns"][1:][changed])

    def _add(self, name: str, at: Instants, values: Any) -> None:
        found = self.series.get(name)
        if found is None:
            found = self.series[name] = Thinned()
        found.add(at.columns, values)
        self.samples.add(name, at.t_ns, values)

    def _put(self, name: str, t_ns: Any, values: Any) -> None:
        self._add(f"error.{name}", self.axis.instants(t_ns), values)

    def _ticks(self, rows: Any) -> None:
        instants = self.axis.instants(rows["release_ns"])
        columns = instants.columns
        self.journey.ticks(rows)
        for task in np.unique(rows["task"]).tolist():
            mine = rows["task"] == task
            ticks, at = rows[mine], instants.where(mine)
            response = ticks["end_ns"] - ticks["release_ns"]
            self._add(
                f"task_tick.{task}.response_share",
                at,
                response / np.maximum(ticks["deadline_ns"], 1),
            )
            lateness = ticks["start_ns"] - ticks["release_ns"]
            self.samples.add(f"task_tick.{task}.start_us", at.t_ns, lateness * 1e-3)
            self.samples.add(f"task_tick.{task}.end_us", at.t_ns, response * 1e-3)
            self.samples.add(f"task_tick.{task}.deadline_us", at.t_ns, ticks["deadline_ns"] * 1e-3)
            self.samples.add(
                f"task_tick.{task}.cause",
                at.t_ns,
                np.where(ticks["missed"] != 0, ticks["cause"].astype(int), -1),
            )
            durations = {
                "lateness": lateness,
                "execution": ticks["end_ns"] - ticks["start_ns"],
                "response": response,
            }
            for quantity, values in durations.items():
                if (task, quantity) not in self.bins:
                    self.bins[task, quantity] = Distribution()
                self.bins[task, quantity].add(values)
        missed = (rows["missed"] != 0) & (columns >= 0)
        for cause in np.unique(rows["cause"][missed]).tolist():
            found = np.bincount(columns[missed & (rows["cause"] == cause)], minlength=COLUMNS)
            self.misses[cause] = self.misses.get(cause, 0) + found
        for row in np.flatnonzero(missed & (rows["holder"] != NO_HOLDER)).tolist():
            self._held(int(rows["cause"][row]), int(rows["holder"][row]))
        skipped = (rows["skipped"] > 0) & (columns >= 0)
        np.add.at(self.skips, columns[skipped], rows["skipped"][skipped].astype(np.int64))

    def _held(self, cause: int, holder: int) -> None:
        callbacks = self.header.holders if self.header else []
        name = holder_name(
            cause, holder, [row.name for row in self.header.tasks] if self.header else [], callbacks
        )
        found = self.holders.setdefault(cause, {})
        found[name] = found.get(name, 0) + 1

    def _estimates(self, rows: Any, at: Instants) -> None:
        covariance = rows["covariance"]
        self.states["estimator"].add(at.columns, rows["status"])
        # An uninitialised filter has no meaningful numbers.
        begun = rows["status"] != EstimatorStatus.UNINITIALISED
        rows, at, covariance = rows[begun], at.where(begun), covariance[begun]
        if not len(rows):
            return
        with np.errstate(invalid="ignore"):
            position_m2 = largest_variance(covariance[:, 0], covariance[:, 1], covariance[:, 5])
            self._add("sigma.position_m", at, np.sqrt(position_m2))
            self._add("sigma.yaw_rad", at, np.sqrt(covariance[:, 10]))
            self._add("sigma.speed_mps", at, np.sqrt(covariance[:, 15]))
        self.traces["estimate"].add(rows["x_m"], rows["y_m"])
        columns = at.columns
        inside = columns >= 0
        self.place[columns[inside], 0] = rows["x_m"][inside]
        self.place[columns[inside], 1] = rows["y_m"][inside]
        slots = columns * _ELLIPSES // COLUMNS
        for row in np.flatnonzero(np.diff(slots, prepend=-1)).tolist():
            c = covariance[row]
            values = (
                float(rows["x_m"][row]),
                float(rows["y_m"][row]),
                float(c[0]),
                float(c[1]),
                float(c[5]),
            )
            if slots[row] >= 0 and all(map(np.isfinite, values)):
                self.ellipses.setdefault(int(rows["t_ns"][row]), values)
        # Between two fixes the estimates repeat the last value.
        nis = rows["normalised_innovation_squared"]
        fresh = np.isfinite(nis) & (nis != np.concatenate([[self._last_nis], nis[:-1]]))
        self._last_nis = float(nis[-1])
        self.nis_outside += int((nis[fresh] > NIS_95).sum())
        self._add("nis", at.where(fresh), nis[fresh])

    def _actuators(self, rows: Any, at: Instants) -> None:
        columns = at.columns
        self.states["mode"].add(columns, rows["mode"])
        self.states["reaction"].add(columns, rows["reaction"])
        for field in ("estimate_age_ns", "gnss_age_ns", "imu_age_ns", "odometry_age_ns"):
            if field in rows.dtype.names:
                known = rows[field] >= 0
                self._add(f"age.{field[:-7]}_ms", at.where(known), rows[field][known] * 1e-6)
        dated = rows["newest_input_ns"] > 0
        self._add(
            "age.wire_ms", at.where(dated), (rows["t_ns"] - rows["newest_input_ns"])[dated] * 1e-6
        )
        for bit, found in self.clipped.items():
            hit = ((rows["clipped"] & bit) != 0) & (columns >= 0)
            np.add.at(found, columns[hit], 1)

    def _controls(self, rows: Any, at: Instants) -> None:
        self.states["level"].add(at.columns, rows["level"])
        if "reason" in rows.dtype.names:
            self.states["reason"].add(at.columns, rows["reason"])

    def _fixes(self, rows: Any, at: Instants) -> None:
        self.states["carrier"].add(at.columns, rows["carrier"])
        covariance = rows["position_covariance_m2"]
        with np.errstate(invalid="ignore"):
            self._add("gnss_fix.sigma_m", at, np.sqrt(covariance[:, 0] + covariance[:, 4]))
        self.journey.measured("GNSS epoch", rows)

    def _imu(self, rows: Any, at: Instants) -> None:
        self.journey.measured("IMU sample", rows)

    def _collections(self, rows: Any, at: Instants) -> None:
        self._add("collector.ms", at, rows["duration_ns"] * 1e-6)

    def _truth(self, rows: Any, at: Instants) -> None:
        self.traces["truth"].add(rows["x_m"], rows["y_m"])

    _SPECIAL: ClassVar[Any] = {
        StateEstimate: _estimates, ActuatorCommand: _actuators, ControlCommand: _controls,
        GnssFix: _fixes, ImuSample: _imu, GroundTruth: _truth, GarbageCollection: _collections,
    }  # fmt: skip

    # ----------------------------------------------------------- read by the panels and the verdict

    def seconds(self, t_ns: int) -> float:
        """Return the time of the run, s."""
        return (t_ns - self.origin_ns) * 1e-9

    def has(self, name: str) -> bool:
        """True if a series has values."""
        return name in self.series and self.series[name].n > 0

    def task_name(self, number: int) -> str:
        """Return the name of a task in the rate table."""
        rows = self.header.tasks if self.header else []
        return rows[number].name if number < len(rows) else f"task {number}"

    def cause_name(self, number: int) -> str:
        return (
            Cause(number).name.lower().replace("_", " ")
            if number in set(Cause)
            else f"cause {number}"
        )


NIS_95 = 5.991
"""95 % quantile of the chi-square distribution with two degrees of freedom."""


def _bounds(log: LogReader) -> tuple[int, int] | None:
    """Return first and last time in a file. A damaged head must not stretch the axis over
    centuries."""
    chunks = log.layout.chunks
    if not len(chunks):
        return None
    start, stop = chunks["start_ns"].astype(np.float64), chunks["end_ns"].astype(np.float64)
    day_ns = 86_400e9
    near = (
        (np.abs(start - np.median(start)) < 7 * day_ns) & (stop >= start) & (stop - start < day_ns)
    )
    if not near.any():
        return None
    return int(chunks["start_ns"][near].min()) - log.offset_ns, int(
        chunks["end_ns"][near].max()
    ) - log.offset_ns
