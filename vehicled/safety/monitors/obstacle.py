"""Monitor of obstacles in the lane, from ranges and scans, and of the speed from which the vehicle
still stops before them.

The lane counts as blocked if two of the last three readings of a source say so: one stray return
does not stop the vehicle, and a thin post that every third sweep misses is still detected. Between
readings the free distance shrinks by the distance driven. An obstacle counts where the last reading
showed it, and where it will be during a stop if scans show that it moves (:mod:`moving_bodies`).

The lane is laid by the vehicle's own place and wheels. What the controller plans beside the course
only moves the part of it that lies beyond the distance of an emergency stop.
"""

from collections import deque
from math import copysign, cos, inf, isfinite, isnan, sin, tan

import numpy as np
import numpy.typing as npt
from msgspec.structs import replace

from vehicled.core.messages import EstimatorStatus, LaserScan, Mode, ObstacleRange, StateEstimate
from vehicled.core.ports import NEVER_NS
from vehicled.core.vehicle import STANDSTILL_MPS, Limits, Vehicle
from vehicled.paths.arc import on_arc
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import PlannedOffset
from vehicled.paths.tracking import PathPoint
from vehicled.safety.inputs import SafetyInputs
from vehicled.safety.monitors.lane import CourseLane, LaneBody, Stations, arc
from vehicled.safety.monitors.moving_bodies import (
    BodyTracker,
    DeadReckoning,
    MovingBody,
    StopNow,
    predicted_free_m,
)
from vehicled.safety.monitors.place import PlaceMonitor
from vehicled.safety.monitors.scans import MotionHistory, scan_returns
from vehicled.safety.monitors.stopping import StoppingMonitor

Mask = npt.NDArray[np.bool_]

GENTLE_SHARE = 1.0 / 3.0
"""Fraction of the certain deceleration that the speed cap assumes, so that the vehicle slows down
gently."""
BLIND_SHARE = 0.5
"""Fraction of rays without a return, or with one below the minimum range, above which a scan counts
as blind."""
BLIND_SCANS = 3
FORGOTTEN_NS = 2_000_000_000
"""Time after which the readings of a silent source are dropped, ns; rules judge the silence of a
declared one."""
SWEEP_S = 0.1
"""Age that a scan may have beyond the silence limit, s, because its time is that of its first
ray."""
LONGEST_STEP_S = 0.1
DETECTION_S = 0.15
"""Time in which an obstacle is detected, s: two readings at 20 Hz, one sweep, and its latency."""
LINE_SHARE = 0.25
"""Part of its width by which the leading end of a vehicle that follows its course may be beside
it."""
PLAN_SHARE = 0.1
"""Part of the corridor by which a path that the controller plans may be beside the vehicle."""
OFFSET_SAMPLES = 32
MOST_DRIVEN_M = 1e7
"""Driven distance at which the sum starts again, m; beyond it floating point would lose
centimetres."""

Pose = tuple[float, float, float]
Source = tuple[float, float]
"""Mounting position of a scanner in the body frame, m, which identifies it."""
RANGES: Source = (inf, inf)
STRANGE: Source = (inf, -inf)
"""Key shared by scanners without a mounting position and by those beyond ``MOST_SOURCES``."""
MOST_SOURCES = 8
STANDS, ENTERS = "stands", "is about to be in the lane"


class ObstacleMonitor:
    """Monitor of the free distance ahead of the leading end of the vehicle, and of the speed cap
    that follows from it."""

    def __init__(
        self, limits: Limits, vehicle: Vehicle, stopping: StoppingMonitor, place: PlaceMonitor
    ) -> None:
        self._limits = limits
        self._vehicle = vehicle
        self._stopping, self._place = stopping, place
        self._body = LaneBody(vehicle, limits.obstacle_side_m)
        self._lane = CourseLane(place.course) if place.course is not None else None
        self._pending: list[ObstacleRange | LaserScan] = []
        self._received_ns: int | None = None
        self._history = MotionHistory()
        self._reckoning = DeadReckoning()
        self._trackers: dict[Source, BodyTracker] = {}
        self._looked_ns: int | None = None
        self._driven_m = 0.0
        self._direction = 1
        self._by_hand = False
        """True if the present drive, or the one before the stop, follows no course: TELEOP,
        OFFBOARD or ALIGN."""
        self._blocked_m: dict[Source, deque[tuple[float, bool]]] = {}
        """Last three readings of each source: driven distance at which the lane is blocked, m, and
        True if a body is only about to block it."""
        self._read_ns: dict[Source, int] = {}
        self._unseen: dict[Source, tuple[int, str]] = {}
        """Number of consecutive unusable scans of each source, and the reason of the last."""
        self.free_m = inf
        """Free distance ahead of the vehicle, m; infinite if the sensors detect no obstacle."""
        self.cap_mps = inf
        """Speed from which the vehicle stops gently before the obstacle, m/s; at least
        ``capped_speed_mps``."""
        self.blind = ""
        """Reason why a scanner is blind; empty if none is."""
        self.what = "something"
        """Name of the obstacle in reasons."""
        self.does = STANDS
        """Verb of the obstacle in reasons."""

    def follow(self, course: Course) -> None:
        """Look along another course from now on."""
        self._lane = CourseLane(course)

    def on_message(self, message: ObstacleRange | LaserScan, now_ns: int) -> None:
        """Queue a reading for the next update. A NaN distance counts as an obstacle at the
        bumper."""
        self._received_ns = min(message.t_rx_ns, now_ns)
        self._pending.append(message)

    @property
    def sees(self) -> bool:
        """True if a sensor covers the lane ahead now."""
        return bool(self._read_ns) and not self.blind

    def age_ns(self, now_ns: int) -> int:
        """Return the time since the last reading; ``NEVER_NS`` before the first."""
        return NEVER_NS if self._received_ns is None else now_ns - self._received_ns

    def update(self, s: SafetyInputs) -> None:
        """Evaluate the queued readings with the newest estimate."""
        if self._received_ns is None:
            return
        estimate = s.estimate
        if (
            estimate is not None
            and estimate.status is EstimatorStatus.UNINITIALISED
            and isfinite(s.speed_mps)
        ):
            # Without a pose the lane is built in the body frame, in which the obstacles are
            # measured.
            estimate = replace(estimate, x_m=0.0, y_m=0.0, yaw_rad=0.0, speed_mps=s.speed_mps)
        if estimate is None or not isfinite(
            estimate.x_m + estimate.y_m + estimate.yaw_rad + estimate.speed_mps
        ):
            self._pending.clear()
            return
        self._history.add(estimate)
        self._reckoning.add(estimate)
        self._follow(s, estimate)
        for message in self._pending:
            if isinstance(message, LaserScan):
                self._scanned(message, s, estimate)
            else:
                distance_m = 0.0 if isnan(message.distance_m) else message.distance_m
                age_s = (s.now_ns - message.t_ns) * 1e-9
                self._add(RANGES, distance_m - abs(estimate.speed_mps) * min(max(age_s, 0.0), 1.0))
        self._pending.clear()
        for source in [
            source for source, read_ns in self._read_ns.items() if s.now_ns - read_ns > FORGOTTEN_NS
        ]:
            del self._read_ns[source]
            self._blocked_m.pop(source, None)
            self._unseen.pop(source, None)
            self._trackers.pop(source, None)
        self.blind = next((why for count, why in self._unseen.values() if count >= BLIND_SCANS), "")
        blocked_m, enters = min(
            (sorted(last)[-2] for last in self._blocked_m.values()), default=(inf, False)
        )
        self.does = ENTERS if enters else STANDS
        self.free_m = max(blocked_m - self._driven_m, 0.0)
        room_m = max(self.free_m - self._limits.obstacle_gap_m, 0.0)
        gentle_mps = self._stopping.speed_mps(room_m, GENTLE_SHARE) if isfinite(room_m) else inf
        self.cap_mps = max(gentle_mps, self._limits.capped_speed_mps)

    def _follow(self, s: SafetyInputs, estimate: StateEstimate) -> None:
        """Add the distance driven since the last update. A change of direction clears all
        readings."""
        if self._looked_ns is not None:
            self._driven_m += abs(estimate.speed_mps) * min(
                (s.now_ns - self._looked_ns) * 1e-9, LONGEST_STEP_S
            )
        self._looked_ns = s.now_ns
        if self._driven_m > MOST_DRIVEN_M:
            self._driven_m = 0.0
            self._blocked_m.clear()
        speed, throttle = estimate.speed_mps, s.sent.throttle if s.sent is not None else 0.0
        backward = speed < 0.0 if abs(speed) > STANDSTILL_MPS else throttle < 0.0
        direction = -1 if backward else 1
        if direction != self._direction:
            self._direction = direction
            self._blocked_m.clear()

    def drives(self, s: SafetyInputs) -> bool:
        """Return True if the vehicle moves or throttle is commanded; at standstill an obstacle is
        no danger."""
        return abs(s.speed_mps) > STANDSTILL_MPS or (s.sent is not None and s.sent.throttle != 0.0)

    def _source(self, x_m: float, y_m: float) -> Source:
        known = isfinite(x_m + y_m) and (
            (x_m, y_m) in self._unseen or len(self._unseen) < MOST_SOURCES
        )
        return (x_m, y_m) if known else STRANGE

    def _add(self, source: Source, free_m: float, *, enters: bool = False) -> None:
        assert self._looked_ns is not None
        self._read_ns[source] = self._looked_ns
        last = self._blocked_m.setdefault(source, deque(((inf, False),) * 2, maxlen=3))
        last.append((self._driven_m + max(free_m, 0.0), enters))

    def _scanned(self, scan: LaserScan, s: SafetyInputs, estimate: StateEstimate) -> None:
        source = self._source(scan.x_m, scan.y_m)
        ranges = np.array(scan.ranges_m)
        near = ranges < scan.range_min_m
        wrong = self._wrong_with(
            scan, float((np.isnan(ranges) | near).mean()) if len(ranges) else 1.0, s.now_ns
        )
        self._read_ns[source] = s.now_ns
        self._unseen[source] = (self._unseen.get(source, (0, ""))[0] + 1 if wrong else 0), wrong
        if not wrong:
            with np.errstate(over="ignore", invalid="ignore"):
                x, y, ray = scan_returns(scan, estimate, self._body, self._history)
                moving: list[MovingBody] = []
                if source != STRANGE and estimate.status is not EstimatorStatus.UNINITIALISED:
                    moving = self._trackers.setdefault(source, BodyTracker()).add_scan(
                        scan, (x, y, ray), estimate, self._history, self._reckoning
                    )
                lanes = self._lanes_ahead(s, estimate)
                free_m = min(self._body.free_m(lane, x, y) for lane in lanes)
                speed_mps, stopping = abs(estimate.speed_mps), self._stopping
                stop = StopNow(
                    speed_mps,
                    stopping.time_s(speed_mps),
                    stopping.way_m(speed_mps),
                    self._limits.obstacle_gap_m,
                )
                entered_m = min(predicted_free_m(lane, self._body, moving, stop) for lane in lanes)
            self._add(source, min(free_m, entered_m), enters=entered_m < free_m)

    def _wrong_with(self, scan: LaserScan, blind_share: float, now_ns: int) -> str:
        """Return why a scan is unusable; empty if it is usable."""
        if not isfinite(
            scan.x_m
            + scan.y_m
            + scan.angle_min_rad
            + scan.angle_increment_rad
            + scan.time_increment_s
        ):
            return "the scanner does not say where its rays point"
        if not scan.range_min_m >= 0.0 or not scan.range_max_m > scan.range_min_m:
            return (
                f"the scanner says that it measures from {scan.range_min_m:g} to "
                f"{scan.range_max_m:g} m"
            )
        age_s = (now_ns - scan.t_ns) * 1e-9
        if abs(age_s) > self._limits.obstacle_silence_s + SWEEP_S:
            return f"the scan is {age_s:.2f} s old"
        return (
            f"{100 * blind_share:.0f} % of the scanner's rays return no range"
            if blind_share > BLIND_SHARE
            else ""
        )

    def _lanes_ahead(self, s: SafetyInputs, estimate: StateEstimate) -> list[Stations]:
        """Return the lanes that must be free: along the course, and where the wheels take the
        vehicle.

        The wheels count for the distance of a stop once the vehicle leaves its line. A controller
        that follows its course is about to turn where its wheels still point straight at what
        stands behind a bend. A planned path is where the controller is about to turn, so on it the
        wheels count as far as the full brake takes: if they then do not turn, ``obstacle_too_near``
        brakes in time.
        """
        horizon_m = (
            self._stopping.way_m(self._limits.max_speed_mps) / GENTLE_SHARE
            + self._limits.obstacle_gap_m
        )
        if s.mode is not Mode.STOPPING:
            self._by_hand = s.mode in (Mode.TELEOP, Mode.OFFBOARD, Mode.ALIGN)
        wheel = s.sent.wheel_angle_rad if s.sent is not None else 0.0
        curvature = tan(
            copysign(min(abs(wheel), 1.5), wheel)
        ) / self._vehicle.effective_wheelbase_m(estimate.speed_mps)
        pose = estimate.x_m, estimate.y_m, estimate.yaw_rad
        place, limits = self._place, self._limits
        if (
            self._lane is None
            or self._by_hand
            or place.point is None
            or not self._goes_along(s, place.point)
        ):
            return [arc(*pose, curvature, self._direction, horizon_m)]
        s_m, left_m = place.point.s_m, place.point.cross_track_m
        offset = self._believed(s.planned_offset, s_m, left_m, horizon_m)
        lane = self._lane.ahead(s_m, left_m, horizon_m, offset)
        if offset is None and not self._leaves_line(pose, curvature, abs(estimate.speed_mps)):
            return [lane]
        stop_m = (
            self._stopping.distance_m + limits.obstacle_gap_m
            if offset is None
            else self._stopping.emergency_m
            + abs(estimate.speed_mps) * DETECTION_S
            + limits.obstacle_side_m
        )
        return [lane, arc(*pose, curvature, self._direction, stop_m)]

    def _goes_along(self, s: SafetyInputs, point: PathPoint) -> bool:
        """Return True if the vehicle is on its course, and stands or moves in the direction of the
        leg."""
        return abs(self._place.off_m) <= self._limits.corridor_m and (
            point.direction == self._direction or not self.drives(s)
        )

    def _believed(
        self, offset: PlannedOffset | None, s_m: float, left_m: float, horizon_m: float
    ) -> PlannedOffset | None:
        """Return the path beside the course that the controller plans, if the vehicle is on it and
        it stays in the corridor."""
        if offset is None or not offset.usable:
            return None
        furthest_m = float(
            np.abs(offset.at(np.linspace(s_m, s_m + horizon_m, OFFSET_SAMPLES))).max()
        )
        near = abs(left_m - float(offset.at(s_m))) <= PLAN_SHARE * self._limits.corridor_m
        return offset if near and furthest_m <= self._limits.corridor_m else None

    def _leaves_line(self, pose: Pose, curvature: float, speed_mps: float) -> bool:
        """Return True if the leading end of the vehicle will be beside the course when the next
        command can act."""
        way_m = self._direction * speed_mps * self._stopping.reaction_s
        (x_m,), (y_m,), (yaw_rad,) = on_arc(*pose, curvature, np.array([way_m]))
        ahead_m = self._body.front_m if self._direction > 0 else -self._body.rear_m
        here = self._place.locate(
            float(x_m + ahead_m * cos(yaw_rad)), float(y_m + ahead_m * sin(yaw_rad)), float(yaw_rad)
        )
        return here is not None and abs(here.cross_track_m) > LINE_SHARE * self._vehicle.width_m
