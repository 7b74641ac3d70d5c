"""Scores of a simulated run against ground truth, which no task receives."""

from collections import deque
from math import hypot, isfinite, nan, pi, remainder, sqrt

from msgspec import Struct

from vehicled.core.events import CourseSet, LapJoined
from vehicled.core.messages import (
    ActuatorCommand,
    ControlCommand,
    CourseCommand,
    Event,
    GroundTruth,
    Message,
    Mode,
    ObstacleContact,
    StateEstimate,
)
from vehicled.paths.course import Course
from vehicled.paths.stored import from_bytes
from vehicled.paths.tracking import END_TOLERANCE_M, PathPoint, PathTracker

TYPES: tuple[type[Message], ...] = (
    GroundTruth,
    StateEstimate,
    ControlCommand,
    ActuatorCommand,
    CourseCommand,
    Event,
    ObstacleContact,
)
"""Message types that the judge needs."""

_RING = 256
MAX_CONTACTS = 1000
_CUSP_TOLERANCE_M = 0.3
"""A vehicle that stands this close to a cusp has reached it."""


def read_course(command: CourseCommand, lap_from_m: float | None) -> Course:
    """Return the course of a request that was accepted, a lap with its start at ``lap_from_m``."""
    course = from_bytes(command.course)
    return course if lap_from_m is None else course.beginning_at(lap_from_m)


def truth_tracker(course: Course) -> PathTracker:
    """Return the tracker that projects the true position onto the course."""
    return PathTracker(course, end_tolerance_m=END_TOLERANCE_M, cusp_tolerance_m=_CUSP_TOLERANCE_M)


class ErrorStatistics:
    """Mean, RMS and maximum of an error's magnitude, in constant memory. NaN if empty."""

    __slots__ = ("_sum", "_sum_squares", "max", "n")

    def __init__(self) -> None:
        self.n = 0
        self.max = 0.0
        self._sum = 0.0
        self._sum_squares = 0.0

    def add(self, error: float) -> None:
        """Add the magnitude of one error."""
        magnitude = abs(error)
        self.n += 1
        self._sum += magnitude
        self._sum_squares += magnitude * magnitude
        # A NaN sticks, because a run that has one has no meaningful maximum.
        if not magnitude <= self.max:
            self.max = magnitude

    @property
    def mean(self) -> float:
        """Mean magnitude."""
        return self._sum / self.n if self.n else float("nan")

    @property
    def rms(self) -> float:
        """Root mean square."""
        return sqrt(self._sum_squares / self.n) if self.n else float("nan")


class TracePoint(Struct, frozen=True, gc=False):
    """One instant of a run, for plots. SI units; NaN where it does not apply, such as the course in
    manual driving."""

    t_s: float
    x_m: float
    y_m: float
    speed_mps: float
    target_speed_mps: float
    cross_track_m: float
    estimate_x_m: float
    estimate_y_m: float
    wheel_angle_rad: float = nan
    """Commanded."""


class _Instant(Struct, frozen=True, gc=False):
    """Ground truth that waits for an estimate of its time."""

    truth: GroundTruth
    by_itself: bool
    target_speed_mps: float
    cross_track_m: float


class Judge:
    """Scores the drive along the course in mode AUTO.

    Ground truth arrives before fusion has run for its instant, so it waits for the estimate of that
    time. Truth without an estimate at the end of the run is left out.
    """

    def __init__(self, course: Course, *, keep_trace: bool = False) -> None:
        """``keep_trace`` keeps every instant of driving for plots, manual driving included; memory
        then grows with the run."""
        self._tracker = truth_tracker(course)
        self._course = course
        self.here: PathPoint | None = None
        """Last projection of the true pose on the course."""
        self._estimates: deque[StateEstimate] = deque(maxlen=_RING)
        self._waiting: deque[_Instant] = deque(maxlen=_RING)
        self._target_speed_mps = self._wheel_rad = nan
        self._modes = [(0, Mode.INIT)] * 2
        """The last two modes, each with the time of its first command: a truth may arrive after the
        command that it precedes."""
        self._asked: CourseCommand | None = None
        """Newest request for another course."""
        self.course_of = read_course
        """Set by a run that has read the course already."""
        self._first_ns = 0
        self._last_ns = 0
        self.trace: list[TracePoint] | None = [] if keep_trace else None
        self.cross_track_m = ErrorStatistics()
        self.heading_rad = ErrorStatistics()
        self.speed_mps = ErrorStatistics()
        self.estimate_position_m = ErrorStatistics()
        self.estimate_yaw_rad = ErrorStatistics()
        self.estimate_speed_mps = ErrorStatistics()
        self.contacts: list[ObstacleContact] = []
        """Contacts of the vehicle with its scene, the first ``MAX_CONTACTS`` of them."""

    @property
    def finished(self) -> bool:
        """True once the true vehicle has reached the end of the course."""
        on_last_leg = self._tracker.leg == len(self._course.cusps)
        return self._tracker.finished or (
            on_last_leg and self.driven_m >= self._course.length_m - 1.0
        )

    @property
    def course_m(self) -> float:
        """Length of the course, of the newest one if it was changed."""
        return self._course.length_m

    @property
    def driven_m(self) -> float:
        """Arc length of the course that the true vehicle has driven."""
        return self._tracker.progress_m

    @property
    def driving_s(self) -> float:
        """Time driven in mode AUTO."""
        return (self._last_ns - self._first_ns) * 1e-9

    def record(self, message: Message, log_time_ns: int) -> None:
        """Score one message."""
        # Ordered by frequency.
        if isinstance(message, StateEstimate):
            self._estimates.append(message)
            self._judge_estimates()
        elif isinstance(message, GroundTruth):
            since_ns, mode = self._modes[1]
            if message.t_ns < since_ns:
                mode = self._modes[0][1]
            if mode is Mode.AUTO:
                self._compare(message)
                self._judge_estimates()
            elif mode is Mode.TELEOP and self.trace is not None:
                self._waiting.append(
                    _Instant(message, by_itself=False, target_speed_mps=nan, cross_track_m=nan)
                )
                self._judge_estimates()
        elif isinstance(message, ControlCommand):
            self._target_speed_mps = message.target_speed_mps
        elif isinstance(message, ActuatorCommand):
            self._wheel_rad = message.wheel_angle_rad
            if message.mode is not self._modes[1][1]:
                self._modes = [self._modes[1], (message.t_ns, message.mode)]
        elif isinstance(message, ObstacleContact):
            if len(self.contacts) < MAX_CONTACTS:
                self.contacts.append(message)
        elif isinstance(message, CourseCommand):
            self._asked = message
        elif (
            isinstance(message, Event)
            and (taken := CourseSet.read(message)) is not None
            and self._asked is not None
        ):
            self._course = self.course_of(self._asked, taken.lap_from_m)
            self._tracker = truth_tracker(self._course)
            self._tracker.reset(taken.joined_m)
        elif isinstance(message, Event) and (lap := LapJoined.read(message)) is not None:
            self._course = self._course.beginning_at(lap.lap_from_m)
            self._tracker = truth_tracker(self._course)

    def _compare(self, truth: GroundTruth) -> None:
        self._first_ns = self._first_ns or truth.t_ns
        self._last_ns = truth.t_ns
        self.here = point = self._tracker.update(
            truth.x_m, truth.y_m, truth.yaw_rad, truth.speed_mps
        )
        self.cross_track_m.add(point.cross_track_m)
        self.heading_rad.add(point.heading_error_rad)
        if isfinite(self._target_speed_mps):
            self.speed_mps.add(truth.speed_mps - self._target_speed_mps)
        self._waiting.append(_Instant(truth, True, self._target_speed_mps, point.cross_track_m))

    def _judge_estimates(self) -> None:
        """Compare estimates with all waiting truth up to the newest estimate."""
        while (
            self._waiting
            and self._estimates
            and self._waiting[0].truth.t_ns <= self._estimates[-1].t_ns
        ):
            instant = self._waiting.popleft()
            truth = instant.truth
            x, y, yaw, speed = self._estimate_at(truth.t_ns)
            if instant.by_itself:
                self.estimate_position_m.add(hypot(x - truth.x_m, y - truth.y_m))
                self.estimate_yaw_rad.add(remainder(yaw - truth.yaw_rad, 2 * pi))
                self.estimate_speed_mps.add(speed - truth.speed_mps)
            if self.trace is not None:
                self.trace.append(
                    TracePoint(
                        truth.t_ns * 1e-9,
                        truth.x_m,
                        truth.y_m,
                        truth.speed_mps,
                        instant.target_speed_mps,
                        instant.cross_track_m,
                        x,
                        y,
                        self._wheel_rad,
                    )
                )

    def _estimate_at(self, t_ns: int) -> tuple[float, float, float, float]:
        """Interpolate the estimate at a time; yaw from the nearer neighbour."""
        after = self._estimates[-1]
        for before in reversed(self._estimates):
            if before.t_ns <= t_ns:
                break
            after = before
        span_ns = after.t_ns - before.t_ns
        share = (t_ns - before.t_ns) / span_ns if span_ns > 0 else 0.0
        return (
            before.x_m + share * (after.x_m - before.x_m),
            before.y_m + share * (after.y_m - before.y_m),
            after.yaw_rad if share > 0.5 else before.yaw_rad,
            before.speed_mps + share * (after.speed_mps - before.speed_mps),
        )
