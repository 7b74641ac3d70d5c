"""Pure pursuit on the best of many predicted paths beside the course: it passes what stands in the way.

At each laser scan the planner predicts N paths, at two speeds each, and takes the cheapest one that keeps clear of every return of
the last half second. The number of predictions is the control budget: it is a parameter and no clock is read, so a drive repeats
exactly. After a missed deadline the next choices have one round only. Without anything in the way this is :class:`PurePursuit`.
"""

from collections import deque
from collections.abc import Mapping
from math import atan, cos, inf, isfinite, remainder, sin, tau
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.control.pure_pursuit import PurePursuit
from vehicled.control.rollout.params import RolloutParams
from vehicled.control.rollout.planner import ChosenPath, Planner, PlannerLimits
from vehicled.control.rollout.simulation import LEAST_SCALE, CourseTable, TrackModel
from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import LateralOffset
from vehicled.paths.tracking import CoursePoint, PathPoint
from vehicled.safety.monitors.lane import LaneBody
from vehicled.safety.monitors.scans import MotionHistory, scan_points

MOST_SCANS = 64
"""Scans that are kept at most, whatever their rate."""
HASTY_CHOICES = 20
"""Choices with one round after a missed deadline."""
LEAST_SPREAD_M = 0.05
"""Room beside the course below which there is no other path."""


class Rollout(PurePursuit):
    """Path follower that passes obstacles which a laser scanner sees.

    On a course with cusps it stays on the course: the prediction drives forward only.
    """

    Params: ClassVar[type[RolloutParams]] = RolloutParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **PurePursuit.CHANGEABLE,
        "clearance_m": (0.0, 5.0),
        "comfort_m": (0.05, 10.0),
    }

    def __init__(self, params: RolloutParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        super().__init__(params, vehicle, limits, course, period_s)
        self._rollout_params = params
        self._limits = limits
        self._body = LaneBody(vehicle, limits.obstacle_side_m)
        spread_m = min(params.spread_m, limits.corridor_m - params.corridor_margin_m)
        self._plans = not course.cusps and float(course.speed_mps.min()) >= 0.0 and spread_m >= LEAST_SPREAD_M
        self._table = CourseTable(course, self.profile.sampled_mps(len(course.s_m)))
        self._spread_m = spread_m
        self._planner = self._made_planner()
        self._forget()

    def adapt(self, vehicle: Vehicle) -> None:
        super().adapt(vehicle)
        self._body = LaneBody(vehicle, self._limits.obstacle_side_m)
        self._planner = self._made_planner()

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._forget()

    def _forget(self) -> None:
        self._scans: deque[LaserScan] = deque(maxlen=MOST_SCANS)
        self._history = MotionHistory()
        self._points: deque[tuple[int, Array, Array]] = deque(maxlen=MOST_SCANS)
        self._path: LateralOffset | None = None
        self._hasty = 0
        self.choice = ChosenPath(None, 1.0, inf, True, 0)
        """Last choice, for tests and benchmarks."""

    def _made_planner(self) -> Planner:
        vehicle = self.vehicle
        limits = PlannerLimits(self._spread_m, 1.0 / vehicle.min_turn_radius_m, self._limits.max_lateral_acceleration_mps2)
        return Planner(self._rollout_params, self._table, self._body, limits)

    @property
    def lateral_offset(self) -> LateralOffset | None:
        return self._path

    def on_scan(self, scan: LaserScan) -> None:
        if self._plans:
            self._scans.append(scan)

    def on_deadline_miss(self) -> None:
        self._hasty = HASTY_CHOICES

    def steer(self, state: FollowerState) -> SteeringDemand:
        self._history.add(state.estimate)
        if self._scans:
            self._see(state.estimate)
            self._choose(state)
        demand = super().steer(state)
        if self.choice.ratio < 1.0:
            return replace(demand, speed_cap_mps=self.choice.ratio * abs(self.profile.at(state.here.s_m, 0).speed_mps))
        return demand

    def _see(self, estimate: StateEstimate) -> None:
        """Add the points of the new scans, and forget old ones."""
        while self._scans:
            scan = self._scans.popleft()
            age_ns = estimate.t_ns - scan.t_ns
            usable = isfinite(scan.x_m + scan.y_m + scan.angle_min_rad + scan.angle_increment_rad + scan.time_increment_s)
            if usable and scan.range_max_m > scan.range_min_m >= 0.0 and abs(age_ns) <= 1_000_000_000:
                with np.errstate(over="ignore", invalid="ignore"):
                    x, y = scan_points(scan, estimate, self._body, self._history)
                known = np.isfinite(x) & np.isfinite(y)
                self._points.append((scan.t_ns, x[known], y[known]))
        oldest_ns = estimate.t_ns - int(self._rollout_params.memory_s * 1e9)
        while self._points and self._points[0][0] < oldest_ns:
            self._points.popleft()

    def _choose(self, state: FollowerState) -> None:
        s_m = self.tracker.locate(state.ahead.x_m, state.ahead.y_m, state.ahead.yaw_rad).s_m
        if self._path is not None and self._path.settled(s_m):
            offset_m = float(self._path.after_m)
            # A change that is over long ago would come again half a lap later.
            self._path = LateralOffset(s_m - 1.0, 1.0, offset_m, 0.0, offset_m, self._path.lap_m) if offset_m else None
        x = np.concatenate([x for _, x, _ in self._points]) if self._points else np.zeros(0)
        y = np.concatenate([y for _, _, y in self._points]) if self._points else np.zeros(0)
        rounds = self._rollout_params.rounds
        if self._hasty:
            self._hasty, rounds = self._hasty - 1, 1
        if not len(x) and self._path is None:
            self.choice = ChosenPath(None, 1.0, inf, True, 0)
            return
        self.choice = self._planner.choose(self._model(), state.ahead, s_m, self._path, (x, y), rounds)
        self._path = self.choice.path

    def _model(self) -> TrackModel:
        vehicle, p = self.vehicle, self._rollout_params
        return TrackModel(
            vehicle.effective_wheelbase_m(self._table.top_mps),
            vehicle.steering.max_wheel_rad,
            vehicle.steering.rate_radps,
            p.speed.acceleration_mps2,
            self.profile.deceleration_mps2,
            p.look_ahead_min_s,
            p.look_ahead_min_m,
            p.look_ahead_max_m,
        )

    def point_at(self, s_m: float) -> CoursePoint:
        """Return the point of the chosen path."""
        place, path = self.tracker.point_at(s_m), self._path
        if path is None:
            return place
        aside, slope, _ = map(float, path.shape(s_m))
        yaw = place.yaw_rad
        return place._replace(
            x_m=place.x_m - aside * sin(yaw), y_m=place.y_m + aside * cos(yaw), yaw_rad=remainder(yaw + atan(slope), tau)
        )

    def projected(self, on_course: PathPoint) -> PathPoint:
        """Return the projection on the chosen path, with its curvature."""
        path = self._path
        if path is None:
            return on_course
        place = self.point_at(on_course.s_m)
        aside, _, bend = map(float, path.shape(on_course.s_m))
        curvature = on_course.curvature_per_m / max(1.0 - on_course.curvature_per_m * aside, LEAST_SCALE) + bend
        return replace(on_course, x_m=place.x_m, y_m=place.y_m, yaw_rad=place.yaw_rad, curvature_per_m=curvature)
