"""Right of way at a crossing, by what the vehicles broadcast.

vehicled sim --fleet right_of_way.toml --plot right_of_way.png

Where the own course comes nearer to the planned path of another vehicle than both bodies need, a
conflict zone begins. Who would be in it at the same time as a vehicle with priority, waits before
it. Who would be through before, or comes after, drives on. A zone with a vehicle in it, or with one
that can no longer stop before it, is closed to all others. A vehicle that is expected, and not
received for a second, stops this one unless its path is known to lead away.
"""

from heapq import nsmallest
from math import cos, hypot, inf, sin, sqrt
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from msgspec import Meta, Struct, field
from numpy.typing import NDArray

from vehicled.control.path_follower import FollowerState, SteeringDemand
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.core.messages import NeighbourState, StateEstimate
from vehicled.core.vehicle import STANDSTILL_MPS, Limits, NonNegative, Vehicle
from vehicled.paths.course import Course

Array = NDArray[np.float64]
AHEAD_M, STEP_M = 15.0, 0.2
"""Part of the own course that is looked at, and its resolution."""
PATH_S = 0.1
"""Resolution of the paths of others."""
LATER_S, LATER_M = 10.0, 60.0
"""Straight part of a path behind its plan: in time, and where only the way counts."""
SILENT_NS = 1_000_000_000
"""Time without a message after which a vehicle counts as silent."""
PERIOD_NS = 50_000_000
"""Interval of the decision."""
MOST = 16
"""Vehicles that are looked at: the nearest ones. A decision must end, however many names come."""
STOP_M = 0.4
"""Distance before a conflict zone at which the vehicle stops."""


class RightOfWayParams(Struct, frozen=True):
    """Right of way; a profile sets it in the table [controller.RightOfWay]."""

    name: str = ""
    """Name of this vehicle."""
    priority: list[str] = field(default_factory=list)
    """Names in the order of their right of way; those that are missing come last, by name."""
    expects: list[str] = field(default_factory=list)
    """Vehicles that must be received until they have passed; without one this vehicle stops."""
    margin_s: Annotated[float, Meta(ge=0.0, le=10.0)] = 1.0
    """Time between one vehicle in a conflict zone and the next, s."""
    margin_m: NonNegative = 0.3
    """Distance of the bodies below which a conflict begins, m."""
    pursuit: PurePursuitParams = field(default_factory=PurePursuitParams)
    """Steering and speed control."""


class NeighbourPath(NamedTuple):
    """Places at which the centre of another vehicle will be, from now on."""

    time_s: Array
    """Time from now; the last place is held."""
    x_m: Array
    y_m: Array


class Conflict(NamedTuple):
    """Part of the own course that another vehicle needs too, and when."""

    start_m: float
    """Arc length of the own course."""
    end_m: float
    from_s: float
    """Time from now at which the other vehicle is there; 0 while it is."""
    to_s: float
    to_go_m: float
    """Way of the other vehicle to the zone."""


class RightOfWay(PurePursuit):
    """Pure pursuit along the course that gives way to others."""

    Params: ClassVar[type[RightOfWayParams]] = RightOfWayParams  # type: ignore[assignment]

    def __init__(
        self,
        params: RightOfWayParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        """Know nobody."""
        self._rules = params
        self._neighbours: dict[str, NeighbourState] = {}
        self._now_ns = 0
        self._decided_ns = -PERIOD_NS
        self.stop_s_m = inf
        """Arc length at which the vehicle gives way; infinite while the way is free."""
        body = vehicle.outline
        self._centre_m = 0.5 * (body.front_m - body.rear_m)
        # A circle round each body; the others are taken for as large as this vehicle.
        half_m = 0.5 * (body.front_m + body.rear_m)
        self._apart_m = 2.0 * hypot(half_m, body.half_m) + params.margin_m
        self._end_m = inf if course.closed else course.length_m
        super().__init__(params.pursuit, vehicle, limits, course, period_s)

    def on_neighbour(self, state: NeighbourState) -> None:
        """Keep the newest state of each vehicle."""
        known = self._neighbours.get(state.sender)
        if known is None or state.t_ns > known.t_ns:
            self._neighbours[state.sender] = state

    def step(self, estimate: StateEstimate, now_ns: int):  # type: ignore[no-untyped-def]
        """Note the time, then step as the base class does."""
        self._now_ns = now_ns
        return super().step(estimate, now_ns)

    def steer(self, state: FollowerState) -> SteeringDemand:
        """Steer along the course, and stop before a conflict zone."""
        demand = super().steer(state)
        s_m, speed_mps = state.here.s_m, max(state.estimate.speed_mps, 0.0)
        if self._now_ns - self._decided_ns >= PERIOD_NS:
            self._decided_ns = self._now_ns
            self.stop_s_m = self._decide(s_m, speed_mps)
        to_go_m = self.stop_s_m - s_m
        cap_mps = self._stopping_mps(to_go_m)
        late = speed_mps > 1.2 * cap_mps + STANDSTILL_MPS
        return SteeringDemand(demand.wheel_rad, cap_mps, hold=late or to_go_m < 0.1)

    def planned_speed_mps(self, s_m: float) -> float:
        """Return the speed that others may expect: they see that this vehicle gives way."""
        return min(super().planned_speed_mps(s_m), self._stopping_mps(self.stop_s_m - s_m))

    def _stopping_mps(self, to_go_m: float) -> float:
        return sqrt(2.0 * self.profile.deceleration_mps2 * max(to_go_m, 0.0))

    # ---------------------------------------------------------------- decision

    def _decide(self, s_m: float, speed_mps: float) -> float:
        """Return the arc length at which to stop; infinite for a free way."""
        grid_m = s_m + np.arange(0.0, max(min(AHEAD_M, self._end_m - s_m), STEP_M), STEP_M)
        x_m, y_m = self._centres(grid_m)
        times_s = self._arrivals(grid_m, speed_mps)
        free, starts = True, []
        fresh = {
            name: state
            for name, state in self._neighbours.items()
            if self._now_ns - state.t_ns <= SILENT_NS
        }
        near = nsmallest(
            MOST, fresh, lambda name: hypot(fresh[name].x_m - x_m[0], fresh[name].y_m - y_m[0])
        )
        for name in near:
            state = fresh[name]
            age_s = (self._now_ns - state.t_ns) * 1e-9
            conflict = self._conflict(grid_m, x_m, y_m, self._path(state, age_s))
            if conflict is None:
                continue
            inside = conflict.start_m <= s_m
            if not inside:
                starts.append(conflict.start_m)
            free &= not self._waits(name, state, conflict, grid_m, times_s, inside=inside)
        if not all(self._known_or_gone(name, x_m, y_m) for name in self._rules.expects):
            return s_m
        if free:
            return inf
        # Never in the zone of a third vehicle. Who is in all of them stops where it is.
        return min(starts) - STOP_M if starts else s_m

    def _waits(
        self,
        name: str,
        state: NeighbourState,
        conflict: Conflict,
        grid_m: Array,
        times_s: Array,
        *,
        inside: bool,
    ) -> bool:
        """Return True if this vehicle must let the other one through first."""
        margin_s = self._rules.margin_s
        enters_s, leaves_s = np.interp([conflict.start_m, conflict.end_m], grid_m, times_s)
        if enters_s > conflict.to_s + margin_s or leaves_s + margin_s < conflict.from_s:
            return False
        braking_m = state.speed_mps**2 / (2.0 * self.profile.deceleration_mps2)
        committed = conflict.from_s <= 0.0 or conflict.to_go_m < braking_m
        first = self._rank(name) < self._rank(self._rules.name)
        return (first and (committed or not inside)) or (committed and not inside)

    def _rank(self, name: str) -> tuple[int, str]:
        order = self._rules.priority
        return (order.index(name) if name in order else len(order)), name

    def _known_or_gone(self, name: str, x_m: Array, y_m: Array) -> bool:
        """Return True for a vehicle that was received of late, or whose path leads away from the
        own one."""
        state = self._neighbours.get(name)
        if state is None:
            return False
        if self._now_ns - state.t_ns <= SILENT_NS:
            return True
        path = self._path(state, 0.0)
        yaw = state.plan_yaw_rad[-1] if state.plan_yaw_rad else state.yaw_rad
        way_m = np.arange(0.0, LATER_M, self._apart_m)
        ahead_x = np.append(path.x_m, path.x_m[-1] + way_m * np.cos(yaw))
        ahead_y = np.append(path.y_m, path.y_m[-1] + way_m * np.sin(yaw))
        apart = np.hypot(x_m[:, None] - ahead_x, y_m[:, None] - ahead_y)
        return bool((apart > self._apart_m).all())

    # ---------------------------------------------------------------- geometry

    def _centres(self, grid_m: Array) -> tuple[Array, Array]:
        """Return where the centre of the own body is at arc lengths."""
        points = [self.tracker.point_at(float(s_m)) for s_m in grid_m]
        x, y, yaw = np.array([each[:3] for each in points]).T
        return x + self._centre_m * np.cos(yaw), y + self._centre_m * np.sin(yaw)

    def _arrivals(self, grid_m: Array, speed_mps: float) -> Array:
        """Return the earliest times at arc lengths from now, s, by the speed of the course."""
        gain = 2.0 * self._speed_params.acceleration_mps2 * STEP_M
        times_s, now_s = [0.0], 0.0
        for s_m in grid_m[1:]:
            wanted_mps = max(abs(self.profile.at(float(s_m)).speed_mps), STANDSTILL_MPS)
            later_mps = min(sqrt(speed_mps**2 + gain), max(wanted_mps, speed_mps))
            now_s += 2.0 * STEP_M / (speed_mps + later_mps)
            speed_mps = later_mps
            times_s.append(now_s)
        return np.array(times_s)

    def _conflict(
        self, grid_m: Array, x_m: Array, y_m: Array, path: NeighbourPath
    ) -> Conflict | None:
        near = np.hypot(x_m[:, None] - path.x_m, y_m[:, None] - path.y_m) < self._apart_m
        rows, columns = np.flatnonzero(near.any(axis=1)), np.flatnonzero(near.any(axis=0))
        if not len(rows):
            return None
        first, last = columns[0], columns[-1]
        steps_m = np.hypot(np.diff(path.x_m), np.diff(path.y_m))
        return Conflict(
            float(grid_m[rows[0]]),
            float(grid_m[rows[-1]]),
            float(path.time_s[first]),
            inf if last == len(path.time_s) - 1 else float(path.time_s[last]),
            float(steps_m[:first].sum()),
        )

    def _path(self, state: NeighbourState, age_s: float) -> NeighbourPath:
        """Return the path of another vehicle from now on: its plan, then straight on at the last
        speed. Without a plan it goes straight on at once."""
        rows = [(0.0, state.x_m, state.y_m, state.yaw_rad, state.speed_mps)]
        if state.plan_time_s:
            columns = state.plan_x_m, state.plan_y_m, state.plan_yaw_rad, state.plan_speed_mps
            rows = list(zip(state.plan_time_s, *columns, strict=True))
        time_s, x_m, y_m, yaw_rad, speed_mps = rows[-1]
        way_m = speed_mps * LATER_S if abs(speed_mps) > STANDSTILL_MPS else 0.0
        rows.append(
            (time_s + LATER_S, x_m + way_m * cos(yaw_rad), y_m + way_m * sin(yaw_rad), yaw_rad, 0.0)
        )
        known_s, xs, ys, yaws, _ = np.array(rows).T
        xs, ys = xs + self._centre_m * np.cos(yaws), ys + self._centre_m * np.sin(yaws)
        times_s = np.arange(0.0, known_s[-1] - age_s, PATH_S)
        return NeighbourPath(
            times_s,
            np.interp(times_s + age_s, known_s, xs),
            np.interp(times_s + age_s, known_s, ys),
        )
