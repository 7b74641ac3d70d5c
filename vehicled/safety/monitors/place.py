"""Monitor of the vehicle's place on its course, from the estimate alone.

A controller also says where it is, and may be wrong. Its report is used neither here nor by what
reads this monitor: corridor, speed cap, lane, the end of the course, and where a drive is resumed.
The raw estimate counts, without the smoothing for the controller.
"""

from math import copysign, cos, isfinite, nan, sin

from vehicled.core.messages import Mode, StateEstimate
from vehicled.core.vehicle import STANDSTILL_MPS, AlignmentParams, Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint, PathTracker
from vehicled.safety.entry import CourseEntry, Entry, off_course_m
from vehicled.safety.fence import Fence
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.modes import DRIVING

ENDED_M = 1.0
"""Distance before the end of the course from which on a controller may say that it is finished, m;
at most a quarter of the last leg. Its place is the smoothed one, and it decides how near it
parks."""
CUSP_M = 0.5
"""Distance before a cusp from which on a vehicle that turns back is on the next leg, m; at most a
quarter of the leg."""
OVERRUN_SHARE, OVERRUN_M = 0.5, 10.0
"""Distance by which the vehicle may be driven beyond the end of the course: a part of the corridor,
and at most so many metres."""


class PlaceMonitor:
    """Monitor of the vehicle's place on the course, while it drives along it and between two
    drives."""

    def __init__(
        self,
        limits: Limits,
        vehicle: Vehicle,
        course: Course | None,
        fence: Fence | None,
        alignment: AlignmentParams,
    ) -> None:
        self._limits, self._vehicle, self._fence, self._alignment = (
            limits,
            vehicle,
            fence,
            alignment,
        )
        self._aligned = False
        """The newest drive was an alignment: it ends somewhere on the straight line on which it
        began."""
        self._run_up_m = 0.0
        self.course: Course | None = None
        """The course; None if none is followed."""
        self.entry: CourseEntry | None = None
        """Chooses where the next drive begins; None without a course."""
        self._tracker: PathTracker | None = None
        self.driving = False
        """True while the vehicle drives along the course, or is being stopped there."""
        self.point: PathPoint | None = None
        """Projection of the vehicle on the course, or on the place where the next drive would
        begin; None if it is unknown."""
        self.off_m = nan
        """Distance from the course, m, positive left of it; NaN if it is unknown."""
        self.beyond_m = 0.0
        """Distance driven beyond the end of the course, m."""
        if course is not None:
            self.follow(course)

    def follow(
        self, course: Course, *, anywhere: bool = False, tracker: PathTracker | None = None
    ) -> None:
        """Use another course from now on. ``anywhere``: the first drive may begin at any place of
        it. ``tracker``: one of this course, which saves the time to build its tables."""
        tracker = PathTracker(
            course, end_tolerance_m=ENDED_M, cusp_tolerance_m=CUSP_M, like=tracker
        )
        self.course, self._tracker = course, tracker
        self.entry = CourseEntry(
            course,
            self._limits.corridor_m,
            anywhere=anywhere,
            vehicle=self._vehicle,
            fence=self._fence,
            tracker=tracker,
        )
        self.driving, self.point, self.off_m, self.beyond_m = False, None, nan, 0.0

    def adapt(self, vehicle: Vehicle) -> None:
        """Replace the vehicle parameters, which may have been identified while driving."""
        self._vehicle = vehicle
        if self.entry is not None:
            self.entry.vehicle = vehicle

    def choose(self, estimate: StateEstimate | None) -> Entry:
        """Return where a drive would begin, or why it cannot."""
        if self.entry is None:
            return Entry()
        return self.entry.choose(estimate, self._alignment.distance_m if self._aligned else 0.0)

    def begin(self, entry: Entry, estimate: StateEstimate | None) -> None:
        """Begin a drive at its entry point."""
        if self._tracker is not None:
            self._tracker.reset(entry.s_m)
            self.driving, self._run_up_m = True, entry.run_up_m
            self._track(self._tracker, estimate)

    @property
    def s_m(self) -> float:
        """Arc length of the projection, m; NaN if it is unknown."""
        return nan if self.point is None else self.point.s_m

    def signed_s_m(self, estimate: StateEstimate | None) -> float:
        """Return the arc length of the projection, m, negative before the start of the course; NaN
        if it is unknown."""
        point = self.point
        if point is None or point.s_m > 0.0:
            return self.s_m
        return nan if estimate is None else min(_along_m(point, estimate), 0.0)

    def locate(self, x_m: float, y_m: float, yaw_rad: float) -> PathPoint | None:
        """Return the projection of a pose near the present place; None without a course."""
        if self._tracker is None or self.entry is None:
            return None
        return (
            self._tracker.locate(x_m, y_m, yaw_rad)
            if self.driving
            else self.entry.here(x_m, y_m, yaw_rad)
        )

    @property
    def backward_m(self) -> float:
        """Distance that the vehicle has lost along the course since it was farthest, m; 0 while it
        does not drive along it."""
        if not self.driving or self._tracker is None or self.point is None:
            return 0.0
        return max(self._tracker.progress_m - self.point.s_m, 0.0)

    @property
    def remaining_m(self) -> float:
        """Length of the course ahead, m; NaN without a course."""
        return nan if self._tracker is None else self._tracker.remaining_m

    @property
    def ended(self) -> bool:
        """True if the vehicle has come to the end of the course, or follows none."""
        return self._tracker is None or (self.driving and self._tracker.finished)

    def update(self, s: SafetyInputs) -> None:
        """Follow the vehicle to the newest estimate."""
        tracker, entry = self._tracker, self.entry
        if tracker is None or entry is None:
            return
        # A drive that was stopped before it came to the start may go on from there.
        if s.mode in DRIVING and not (s.mode is Mode.AUTO and self.s_m <= 0.0):
            self._aligned = s.mode is Mode.ALIGN
        self.driving = s.mode is Mode.AUTO or (s.mode is Mode.STOPPING and self.driving)
        if self.driving:
            self._track(tracker, s.estimate)
            entry.driven_to(self.s_m)
            return
        self.beyond_m = 0.0
        if s.estimate is None or not _is_pose(s.estimate):
            self.point, self.off_m = None, nan
            return
        entry.follow(s.estimate)
        self._take(entry.here(s.estimate.x_m, s.estimate.y_m, s.estimate.yaw_rad), s.estimate)

    def _track(self, tracker: PathTracker, estimate: StateEstimate | None) -> None:
        if estimate is None or not _is_pose(estimate):
            self.point, self.off_m = None, nan
            return
        # It may stop before a cusp for other reasons; only one that drives the other way has left
        # the leg.
        turns_back = estimate.speed_mps * tracker.direction < -STANDSTILL_MPS
        point = tracker.update(
            estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps, turns_back=turns_back
        )
        self._take(point, estimate)
        self.beyond_m = self._beyond_m(tracker, point, estimate)

    def _take(self, point: PathPoint, estimate: StateEstimate) -> None:
        self.point = point
        # The offset across the tangent is none before the start, beyond the end and beyond a cusp.
        self.off_m = copysign(
            off_course_m(point, estimate.x_m, estimate.y_m, self._run_up_m), point.cross_track_m
        )

    def _beyond_m(self, tracker: PathTracker, point: PathPoint, estimate: StateEstimate) -> float:
        course = tracker.course
        if course.closed:
            return max(point.s_m - course.length_m, 0.0)
        if not tracker.finished or point.s_m < course.length_m:
            return 0.0
        return max(_along_m(point, estimate), 0.0)


def _along_m(point: PathPoint, estimate: StateEstimate) -> float:
    """Return how far the vehicle is beyond a point in the direction of travel there, m."""
    along_m = cos(point.yaw_rad) * (estimate.x_m - point.x_m) + sin(point.yaw_rad) * (
        estimate.y_m - point.y_m
    )
    return point.direction * along_m


def _is_pose(estimate: StateEstimate) -> bool:
    return isfinite(estimate.x_m + estimate.y_m + estimate.yaw_rad)
