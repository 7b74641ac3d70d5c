"""Pure pursuit on a path beside the course that a lattice plans round what a laser scanner sees: a
way round, and back.

A plan is made after each scan. It reads no clock, so a drive repeats exactly. Where no path is free
the vehicle slows down before the obstacle and waits. If a path would be free from a place that it
has just come from, it goes back there along its own trail; otherwise it goes on slowly until the
obstacle stop acts as without a planner. Without anything in sight this is :class:`PurePursuit`.
"""

from collections import deque
from collections.abc import Mapping
from math import atan, ceil, inf, sin, sqrt, tan
from typing import ClassVar

import numpy as np
from msgspec.structs import replace

from vehicled.control.avoid.lattice import (
    LEAST_SCALE,
    CourseTable,
    Lattice,
    LatticeLimits,
    LatticeStart,
    PathPlan,
)
from vehicled.control.avoid.params import AvoidParams
from vehicled.control.avoid.sight import NO_OBSTACLES, SeenPoints, Sight
from vehicled.control.avoid.trail import Trail
from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.pure_pursuit import PurePursuit
from vehicled.core.arrays import Array
from vehicled.core.messages import LaserScan, StateEstimate
from vehicled.core.vehicle import STANDSTILL_MPS, Limits, Vehicle
from vehicled.paths.course import Course
from vehicled.paths.lateral_offset import LateralSpline
from vehicled.paths.tracking import PathPoint
from vehicled.safety.monitors.lane import LaneBody, Stations, arc
from vehicled.safety.monitors.obstacle import DETECTION_S
from vehicled.safety.monitors.stopping import MIN_REACTION_S, STOP_SHARE

MOST_SCANS = 8
"""Scans that wait for the next step at most."""
SLOWER = (1.0, 0.6, 0.35)
"""Speeds of the plans that are tried in turn, over that of the course: a slower vehicle turns more
tightly."""
LEAST_SPREAD_M = 0.02
"""Room beside the course below which there is no other path."""
ON_PLAN_SHARE = 0.06
"""Part of the corridor by which the vehicle may be beside its plan; the next one then begins where
the vehicle is."""
PREVIEW_PERIODS = 1.5
"""Time in which the wheels follow a command, in periods of the control: half of one until the next
command, and one on the wire."""
LINE_POINTS = 48
"""Points of the course at which obstacles are looked for."""
BESIDE_REACHES, MOVING_REACHES = 1.2, 6.0
"""Distances beyond the planned offsets in which obstacles count, standing and moving ones, in
distances of the farthest corner."""
CREEP_RATIO = 0.08
"""Speed over that of the course below which a vehicle that must not go on is held."""
LEAST_RATIO, LEAST_MPS = 0.16, 0.04
"""Least planned speed, over that of the course and in m/s, the larger of the two: only what is in
the way holds the vehicle, and friction stops a slower one."""
RESERVE_LENGTHS = 0.05
"""Distance that is kept from the obstacle stop, in lengths of the vehicle."""
REACTION_S = 0.15
"""Time beyond the drive's delay until a vehicle slows down, s."""
SUDDEN_RATIO = 1.5
"""Deceleration over the planned one from which the brake is used at once."""
POINTED_SHARE = 0.5
"""Speed where the wheels point at something within the distance of an emergency stop, over that
where the clearance is the required one: that distance is then shorter."""
MOVING_SIDE_WIDTHS = 0.25
"""Clearance beyond ``limits.obstacle_side_m`` within which a moving body is in the way, in widths
of the vehicle."""
TRAIL_STEP_LENGTHS = 0.05
"""Distance between two poses of the trail, in lengths of the vehicle."""
BACK_LENGTHS = (0.3, 0.6, 1.0, 1.5, 2.0)
"""Distances back that are tried in turn, in lengths of the vehicle."""
BACK_SPARE_LENGTHS = 0.1
"""Distance beyond the one from which a path is free, in lengths of the vehicle."""
BACK_CORRIDORS = 0.7
"""Distance along the course that the vehicle may lose, over the corridor: safety ends a drive that
loses a whole one."""
BACK_RATIO = 0.4
"""Speed backward over that of the course."""
MOST_BACKS = 2
"""Times that the vehicle goes back from places within one length."""
QUIET_S = 2.0
"""Time without anything that moves in sight before the vehicle goes back."""
LATERAL_SHARE = 0.7
"""Part of the lateral limit that a planned bend may take."""


class Avoid(PurePursuit):
    """Path follower that goes round what a laser scanner sees.

    On a course with cusps, or one that is driven backward, it stays on the course.
    """

    Params: ClassVar[type[AvoidParams]] = AvoidParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **PurePursuit.CHANGEABLE,
        "clearance_share": (0.0, 2.0),
        "comfort_share": (0.0, 5.0),
        "near_ratio": (0.1, 1.0),
        "wait_s": (0.0, 60.0),
        "back_after_s": (0.0, 60.0),
    }

    def __init__(
        self, params: AvoidParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float
    ) -> None:
        super().__init__(params, vehicle, limits, course, period_s)
        self._avoid, self._limits = params, limits
        self._spread_m = min(
            params.spread_m, (1.0 - params.corridor_margin_share) * limits.corridor_m
        )
        self._plans = (
            not course.cusps
            and float(course.speed_mps.min()) >= 0.0
            and self._spread_m >= LEAST_SPREAD_M
        )
        self._table = CourseTable(course, self.profile.sampled_mps(len(course.s_m)))
        self._lap_m = course.length_m if course.closed else inf
        self._lattice = self._made_lattice()
        self._forget()

    def adapt(self, vehicle: Vehicle) -> None:
        super().adapt(vehicle)
        self._lattice = self._made_lattice()

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._forget()

    def _forget(self) -> None:
        self._body = LaneBody(self.vehicle, self._limits.obstacle_side_m)
        self._beside = LaneBody(
            self.vehicle,
            self._limits.obstacle_side_m + MOVING_SIDE_WIDTHS * self.vehicle.width_m,
        )
        """The body with the clearance that it keeps from what moves."""
        self._sight = Sight(self._body, self._avoid.memory_s)
        self._scans: deque[LaserScan] = deque(maxlen=MOST_SCANS)
        self._seen: SeenPoints = NO_OBSTACLES
        self._path: LateralSpline | None = None
        self._caps: tuple[Array, Array] | None = None
        self._level = 0
        """Index of the speed of the last plan."""
        self._waits_ns: int | None = None
        """Time since which the vehicle stands. It waits before everything, because what moves
        slowly looks like a post."""
        self.plan: PathPlan | None = None
        """Last plan, for tests and benchmarks; None while nothing is near."""
        self._trail = Trail(TRAIL_STEP_LENGTHS * self.vehicle.length_m)
        self._back_m: float | None = None
        """Distance that the vehicle still goes back; None while it does not."""
        self._backs, self._backs_from_m = 0, -inf
        """Times that it went back, and the arc length at which it last began to."""
        self._try = 0
        """Index of the next distance back to try."""
        self._moved_ns: int | None = None
        """Time at which something moved last."""

    def _made_lattice(self) -> Lattice:
        vehicle, limits, drive = self.vehicle, self._limits, self.vehicle.drive
        coast_mps2 = -drive.acceleration_mps2(0.0, 0.0)
        stop_mps2, brake_mps2 = (
            max(share * drive.brake_deceleration_mps2 + coast_mps2, 0.05)
            for share in (STOP_SHARE, 1.0)
        )
        self._lattice_limits = LatticeLimits(
            vehicle.outline, self._spread_m, limits.obstacle_side_m, limits.obstacle_gap_m,
            stop_mps2, brake_mps2, drive.delay_s + MIN_REACTION_S + DETECTION_S,
            1.0 / vehicle.min_turn_radius_m, limits.max_lateral_acceleration_mps2,
            vehicle.wheelbase_m, vehicle.steering.rate_radps,
        )  # fmt: skip
        return Lattice(self._avoid, self._table, self._lattice_limits)

    @property
    def lateral_offset(self) -> LateralSpline | None:
        return self._path

    def on_scan(self, scan: LaserScan) -> None:
        if self._plans:
            self._scans.append(scan)

    def steer(self, state: FollowerState) -> SteeringDemand:
        self._sight.add_motion(state.estimate)
        scanned = bool(self._scans)
        while self._scans:
            self._sight.add_scan(self._scans.popleft(), state.estimate)
        back = self._going_back(state, scanned)
        if back is not None:
            return back
        if state.estimate.speed_mps > STANDSTILL_MPS:
            self._trail.add(state.estimate)
        if scanned:
            self._choose(state)
        demand = super().steer(state)
        if self.plan is None:
            return demand
        room_m = self._room_m(state)
        cap_mps = self._cap_mps(state, room_m)
        top_mps = abs(self.profile.at(state.here.s_m, 0).speed_mps)
        if braking := self._braking(abs(state.estimate.speed_mps), room_m):
            return replace(demand, speed_cap_mps=cap_mps, throttle=-braking)
        if cap_mps >= CREEP_RATIO * top_mps:
            self._waits_ns = None
            return replace(demand, speed_cap_mps=cap_mps)
        if self._waits_ns is None:
            self._waits_ns, self._try = state.estimate.t_ns, 0
        waited_s = (state.estimate.t_ns - self._waits_ns) * 1e-9
        if waited_s < self._avoid.wait_s or self._seen.move:
            if scanned and waited_s >= self._avoid.back_after_s:
                self._try_back(state)
            return replace(demand, speed_cap_mps=0.0, hold=True)
        # It does not go away: the obstacle stop ends the drive, and says why.
        return replace(demand, speed_cap_mps=CREEP_RATIO * top_mps)

    def _choose(self, state: FollowerState) -> None:
        """Plan a path from where the next command acts."""
        estimate, ahead = state.estimate, state.ahead
        on_course = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        s_m, top_mps = on_course.s_m, float(self._table.at(np.array([on_course.s_m]))[5, 0])
        horizon_m = max(
            self._avoid.horizon_s * top_mps, self._avoid.horizon_lengths * self.vehicle.length_m
        )
        line_m = np.linspace(s_m - self.vehicle.length_m, s_m + horizon_m, LINE_POINTS)
        beside_m, moving_m = (
            self._spread_m + reaches * self._body.reach_m
            for reaches in (BESIDE_REACHES, MOVING_REACHES)
        )
        self._seen = self._sight.obstacles(
            estimate, self._table.at(line_m), line_m[1] - line_m[0], beside_m, moving_m
        )
        if self._seen.move:
            self._moved_ns = estimate.t_ns
        path = self._path
        if path is not None and path.settled(s_m) and abs(path.controls_m[-1]) < 1e-3:
            path = self._path = None
        if not len(self._seen.x_m) and path is None:
            self.plan = self._caps = None
            return
        start, on_path = self._start(s_m, on_course, abs(ahead.speed_mps))
        best = self._planned(start, top_mps, path if on_path else None)
        if self._seen.move and start.after_s > 0.0:
            met_m = self._lattice.met_m(s_m, start, path, self._seen.only(self._seen.moving))
            best = best._replace(free_m=min(best.free_m, met_m))
        self.plan, self._path = best, best.path
        self._caps = self._speeds(best, top_mps)

    def _try_back(self, state: FollowerState) -> None:
        """Go back if a path is free from one of the distances, of which each scan tries one.

        Only along the trail, within the part of the corridor that safety lets a vehicle lose, and
        while nothing moves in sight: a scanner may see nothing of what is behind.
        """
        estimate, vehicle = state.estimate, self.vehicle
        if self._try >= len(BACK_LENGTHS) or abs(estimate.speed_mps) > STANDSTILL_MPS:
            return
        if vehicle.drive.reverse_share <= 0.0 or (
            self._moved_ns is not None and estimate.t_ns - self._moved_ns < QUIET_S * 1e9
        ):
            return
        here_m = state.here.s_m
        if abs(here_m - self._backs_from_m) > vehicle.length_m:
            self._backs = 0
        if self._backs >= MOST_BACKS:
            return
        back_m = BACK_LENGTHS[self._try] * vehicle.length_m
        self._try += 1
        lost_m = self.tracker.progress_m - here_m
        room_m = min(self._trail.length_m, BACK_CORRIDORS * self._limits.corridor_m - lost_m)
        if back_m > room_m or back_m > self._back_room_m(estimate, back_m):
            return
        on_course = self.tracker.locate(*self._trail.pose(back_m))
        top_mps = float(self._table.at(np.array([on_course.s_m]))[5, 0])
        slow_mps = max(SLOWER[-1] * top_mps, 0.05)
        # A plan begins one step ahead of a vehicle that moves.
        start = LatticeStart(
            on_course.s_m + self._lattice.step_m(slow_mps),
            on_course.cross_track_m,
            -tan(min(max(on_course.heading_error_rad, -0.5), 0.5)),
            0.0,
        )
        if self._lattice.plan(start, slow_mps, self._seen, None).free_m == inf:
            self._back_m = min(back_m + BACK_SPARE_LENGTHS * vehicle.length_m, room_m)
            self._backs, self._backs_from_m = self._backs + 1, here_m

    def _back_room_m(self, estimate: StateEstimate, back_m: float) -> float:
        """Return the distance that is free behind the vehicle, on its trail; 0 if something
        moves."""
        lane = self._trail.lane(back_m)
        line = np.stack((lane.x_m, lane.y_m, np.cos(lane.yaw_rad), np.sin(lane.yaw_rad)))[:, ::-1]
        step_m = TRAIL_STEP_LENGTHS * self.vehicle.length_m
        beside_m = 2.0 * self._body.reach_m
        seen = self._sight.obstacles(estimate, line, step_m, beside_m, MOVING_REACHES * beside_m)
        if seen.move:
            return 0.0
        return self._body.free_m(lane, seen.x_m, seen.y_m) - self._limits.obstacle_gap_m

    def _going_back(self, state: FollowerState, scanned: bool) -> SteeringDemand | None:
        """Return the demand of a vehicle that goes back along its trail; None once it stands there
        and a scan for the next plan has come."""
        if self._back_m is None:
            return None
        estimate, vehicle = state.estimate, self.vehicle
        self._trail.drop_ahead(estimate)
        self._back_m -= abs(estimate.speed_mps) * state.dt_s
        if self._trail.length_m <= 0.0:
            self._back_m = 0.0
        elif scanned and self._back_m > 0.0:
            self._back_m = min(self._back_m, max(self._back_room_m(estimate, self._back_m), 0.0))
        speed_mps, deceleration = abs(estimate.speed_mps), self.profile.deceleration_mps2
        if self._back_m <= speed_mps * vehicle.drive.delay_s:
            self._back_m = 0.0
            if scanned and speed_mps <= STANDSTILL_MPS:
                self._back_m = self._waits_ns = self._path = self.plan = self._caps = None
                return None
            return SteeringDemand(self.command_rad, speed_cap_mps=0.0, hold=True)
        top_mps = abs(self.profile.at(state.here.s_m, 0).speed_mps)
        back_mps = min(BACK_RATIO * top_mps, sqrt(2.0 * deceleration * self._back_m))
        wheel = atan(
            vehicle.effective_wheelbase_m(speed_mps)
            * self._trail.curvature_per_m(estimate, self._avoid.look_ahead_min_m)
        )
        return SteeringDemand(wheel, back_mps=max(back_mps, LEAST_MPS))

    def _planned(self, start: LatticeStart, top_mps: float, path: LateralSpline | None) -> PathPlan:
        """Return a plan at one of the speeds: a faster one than the last is tried first, a slower
        one where the way is closed. Two plans are the most that one scan may cost."""
        first = max(self._level - 1, 0)
        best: PathPlan | None = None
        for level in range(first, min(first + 2, len(SLOWER))):
            plan = self._lattice.plan(start, max(SLOWER[level] * top_mps, 0.05), self._seen, path)
            if best is None or plan.free_m > best.free_m:
                best, self._level = plan, level
            if plan.free_m == inf:
                break
        else:
            self._level = min(first + 2, len(SLOWER) - 1)
        assert best is not None
        return best

    def _start(
        self, s_m: float, on_course: PathPoint, speed_mps: float
    ) -> tuple[LatticeStart, bool]:
        """Return where a plan begins: on the present path, or at the vehicle if that is beside it;
        and whether it is on it."""
        offset, slope, on_path, ahead_m = 0.0, 0.0, True, 0.0
        if self._path is not None:
            offset, slope, _ = map(float, self._path.shape(s_m))
        if abs(on_course.cross_track_m - offset) > ON_PLAN_SHARE * self._limits.corridor_m:
            offset = on_course.cross_track_m
            slope = -tan(min(max(on_course.heading_error_rad, -0.5), 0.5))
            on_path = False
        elif speed_mps > CREEP_RATIO:
            # A step is kept as it is: a change that each plan began anew, one step ahead, would
            # never begin.
            ahead_m = self._lattice.step_m(speed_mps)
            offset, slope, _ = (
                (0.0, 0.0, 0.0)
                if self._path is None
                else map(float, self._path.shape(s_m + ahead_m))
            )
        return LatticeStart(
            s_m + ahead_m, offset, slope, speed_mps, ahead_m / max(speed_mps, CREEP_RATIO)
        ), on_path

    def _speeds(self, plan: PathPlan, top_mps: float) -> tuple[Array, Array]:
        """Return arc lengths and the highest speed at each: less near obstacles and in bends,
        braking before both. A vehicle turns one length before an obstacle, and is slow there: its
        wheels then point at the obstacle."""
        p, near = self._avoid, plan.near.copy()
        for k in range(1, min(ceil(self.vehicle.length_m / plan.step_m), len(near) - 1) + 1):
            near[:-k] = np.maximum(near[:-k], plan.near[k:])
        ratio = np.where(
            near > 1.0, POINTED_SHARE * p.near_ratio, 1.0 - (1.0 - p.near_ratio) * near
        )
        speeds = np.minimum(
            np.maximum(
                SLOWER[self._level] * top_mps * ratio,
                min(max(LEAST_RATIO * top_mps, LEAST_MPS), top_mps),
            ),
            np.sqrt(
                LATERAL_SHARE
                * self._limits.max_lateral_acceleration_mps2
                / np.maximum(np.abs(plan.bend_per_m), 1e-6)
            ),
        )
        rise = 2.0 * self.profile.deceleration_mps2 * (plan.s_m - plan.s_m[0])
        slowed = np.minimum.accumulate((speeds * speeds + rise)[::-1])[::-1] - rise
        return plan.s_m, np.sqrt(np.maximum(slowed, 0.0))

    def _room_m(self, state: FollowerState) -> float:
        """Return the distance in which the vehicle must stand; infinite if nothing is in its
        way."""
        assert self.plan is not None
        lanes, seen = self._lanes(state), self._seen
        free_m = min(self._body.free_m(lane, seen.x_m, seen.y_m) - gap_m for lane, gap_m in lanes)
        if seen.move:
            plan, gap_m = lanes[0]
            moving = seen.only(seen.moving)
            beside_m = self._beside.free_m(plan, moving.x_m, moving.y_m)
            free_m = min(free_m, beside_m - gap_m)
        ahead_m = self.plan.free_m - state.here.s_m - self.plan.step_m
        return min(free_m, ahead_m) - RESERVE_LENGTHS * self.vehicle.length_m

    def _cap_mps(self, state: FollowerState, room_m: float) -> float:
        """Return the highest speed now: that of the plan, and one from which the vehicle stops in
        time."""
        assert self._caps is not None
        planned = float(np.interp(state.here.s_m, *self._caps))
        if room_m == inf:
            return planned
        if room_m <= 0.0:
            return 0.0
        deceleration = self.profile.deceleration_mps2
        delay_s = self.vehicle.drive.delay_s + REACTION_S
        lag = deceleration * delay_s
        return min(planned, sqrt(lag * lag + 2.0 * deceleration * room_m) - lag)

    def _braking(self, speed_mps: float, room_m: float) -> float:
        """Return the brake that a sudden obstacle asks for, 0 to 1; 0 if the planned deceleration
        is enough."""
        most_mps2 = self.vehicle.drive.brake_deceleration_mps2
        if room_m == inf or speed_mps <= STANDSTILL_MPS or most_mps2 <= 0.0:
            return 0.0
        needed_mps2 = (
            speed_mps
            * speed_mps
            / (2.0 * max(room_m - speed_mps * self.vehicle.drive.delay_s, 1e-3))
        )
        return (
            min(needed_mps2 / most_mps2, 1.0)
            if needed_mps2 > SUDDEN_RATIO * self.profile.deceleration_mps2
            else 0.0
        )

    def _lanes(self, state: FollowerState) -> list[tuple[Stations, float]]:
        """Return the lane of the plan as far as a stop takes, and that of the wheels as far as an
        emergency stop takes, and the distance that each must keep: the obstacle stop looks along
        both."""
        speed = abs(state.estimate.speed_mps)
        stop_m = speed * (self.vehicle.drive.delay_s + REACTION_S) + speed * speed / (
            2.0 * self.profile.deceleration_mps2
        )
        gap_m, side_m = self._limits.obstacle_gap_m, self._limits.obstacle_side_m
        near_m = stop_m + gap_m + RESERVE_LENGTHS * self.vehicle.length_m
        pose = state.estimate.x_m, state.estimate.y_m, state.estimate.yaw_rad
        curvature = tan(self.command_rad) / self.vehicle.effective_wheelbase_m(speed)
        s = state.here.s_m + np.linspace(0.0, near_m + self.vehicle.length_m, 24)
        x, y, c, sn, _, _ = self._table.at(s)
        offset = slope = np.zeros(len(s))
        if self._path is not None:
            offset, slope, _ = self._path.shape(s)
        way = np.concatenate(
            ([0.0], np.cumsum(np.hypot(np.diff(x - offset * sn), np.diff(y + offset * c))))
        )
        plan = Stations(
            way, x - offset * sn, y + offset * c, np.arctan2(sn, c) + np.arctan(slope),
            state.here.cross_track_m - float(offset[0]), 1,
        )  # fmt: skip
        if speed <= STANDSTILL_MPS:
            return [(plan, gap_m)]
        wheels = arc(*pose, curvature, 1, self._lattice_limits.pointed_m(speed))
        return [(plan, gap_m), (wheels, side_m)]

    def _pursue(self, ahead: Preview) -> float:
        """Return the curvature to steer: that of the path where the vehicle will be when its wheels
        have turned, and a correction.

        The correction is pure pursuit of the path's tangent (Coulter 1992), with the shortest
        look-ahead. Between the sides of a slalom the chord to a point of the path itself would cut
        its bends.
        """
        path, p = self._path, self._avoid
        if path is None:
            return super()._pursue(ahead)
        here = self.tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        speed_mps = abs(ahead.speed_mps)
        offset, slope, _ = map(float, path.shape(here.s_m))
        turns = speed_mps * PREVIEW_PERIODS * self._period_s
        _, _, bend = map(float, path.shape(here.s_m + turns))
        course = self.tracker.point_at(here.s_m + turns).curvature_per_m
        scale = max(1.0 - here.curvature_per_m * offset, LEAST_SCALE)
        error_m = here.cross_track_m - offset
        error_rad = -here.heading_error_rad - atan(slope / scale)
        reach_m = max(p.look_ahead_min_s * speed_mps, p.look_ahead_min_m)
        return (
            course / scale + bend - 2.0 * (error_m + reach_m * sin(error_rad)) / (reach_m * reach_m)
        )
