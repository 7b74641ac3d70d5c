"""Traffic on the lanes of a scene: bodies that follow each other and give way.

Each car follows its lane by the Intelligent Driver Model (M. Treiber, A. Hennecke, D. Helbing,
"Congested traffic states in empirical observations and microscopic simulations", Phys. Rev. E 62,
2000, eqs. 3 and 4), with whatever is ahead on its lane as its leader. Where lanes cross, who came
first goes first, as at an all-way stop, and nobody enters who could not leave again. Pure: a step
takes the time and the vehicles that are simulated otherwise.
"""

from collections.abc import Sequence
from itertools import combinations
from math import atan2, cos, hypot, pi, remainder, sin, sqrt
from typing import NamedTuple

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.scene.anchor import scene_of
from sim_backend.scene.errors import SceneError
from sim_backend.scene.moving import Moving
from sim_backend.scene.rays import Hits, Rays
from sim_backend.scene.reading import read_scene
from sim_backend.scene.scene import ScenePose
from sim_backend.sensors.noise import stream
from vehicled.core.arrays import Array, hypotenuse
from vehicled.core.vehicle import Outline
from vehicled.paths.datum import Datum
from vehicled.paths.scenes import SceneLane, rounded
from vehicled.profile.schema import TrafficModel

STEP_S = 0.05
"""Interval of the decisions, s. Until the next one each car moves with one acceleration."""
KEPT_S = 12.0
"""Time for which places are kept, s."""
SPACING_M = 0.5
"""Distance of the points of a lane, m, full size."""
AHEAD_M = 80.0
"""Part of the lane ahead that is looked at, m, full size."""
HARDEST_MPS2 = 8.0
"""Hardest braking, m/s2."""
LATERAL_MPS2 = 2.0
"""Lateral acceleration in bends, m/s2."""
CROSSING_RAD = 0.35
"""Smallest angle between lanes that cross."""
MARGIN_M = 1.0
"""Distance from a crossing at which a car waits, m, full size."""
FORESIGHT_S = 3.0
"""Time for which the motion of other vehicles is foreseen at a crossing, s."""
FREE_M = 9.0
"""Room between two cars, and round other vehicles, at the start, m, full size."""
OUTLINE = Outline(3.5, 0.9, 0.9)
"""Body of a car about its rear axle, full size."""
_AWAY_M = 1e6


class OtherVehicle(NamedTuple):
    """Vehicle that is simulated otherwise."""

    pose: ScenePose
    speed_mps: float
    outline: Outline


class _Lane:
    """Centre line with arc lengths, and the speed that its bends allow."""

    def __init__(self, lane: SceneLane, scale: float) -> None:
        line = scale * rounded(
            lane.points, lane.corner_radius_m, closed=lane.closed, where=f"lane {lane.name}"
        )
        if lane.closed:
            line = np.vstack((line, line[:1]))
        s = np.append(0.0, np.cumsum(hypotenuse(*np.diff(line, axis=0).T)))
        self.name, self.closed, self.length_m = lane.name, lane.closed, float(s[-1])
        self.half_m = 0.5 * scale * lane.width_m
        self.begin_m, self.end_m = 0.0, self.length_m
        """Arc lengths between which cars drive."""
        count = max(2, int(self.length_m / (scale * SPACING_M)) + 1)
        self.s_m = np.linspace(0.0, self.length_m, count)
        self.x_m, self.y_m = (np.interp(self.s_m, s, column) for column in line.T)
        dx, dy = np.gradient(self.x_m), np.gradient(self.y_m)
        self.yaw_rad = np.unwrap(np.array([atan2(b, a) for a, b in zip(dx, dy, strict=True)]))
        bend = np.abs(np.gradient(self.yaw_rad, self.s_m))
        self._bend_mps = np.sqrt(LATERAL_MPS2 / np.maximum(bend, 1e-6))

    def place(self, s_m: float) -> ScenePose:
        """Return the pose at an arc length."""
        x, y, yaw = (
            float(np.interp(s_m, self.s_m, values)) for values in (self.x_m, self.y_m, self.yaw_rad)
        )
        return ScenePose(x, y, yaw)

    def projected(self, x_m: Array, y_m: Array) -> tuple[Array, Array]:
        """Return the arc lengths of points (n,), and their distances from the line."""
        away = hypotenuse(x_m[:, None] - self.x_m, y_m[:, None] - self.y_m)
        nearest = away.argmin(axis=1)
        return self.s_m[nearest], away[np.arange(len(x_m)), nearest]

    def ahead_m(self, s_m: float, to_m: Array) -> Array:
        """Return how far ahead arc lengths (n,) are; negative for behind on an open lane."""
        return (to_m - s_m) % self.length_m if self.closed else to_m - s_m

    def free_mps(self, s_m: float, speed_mps: float, braking_mps2: float, reach_m: float) -> float:
        """Return the speed from which all bends ahead can be reached with a braking."""
        ahead = self.ahead_m(s_m, self.s_m)
        near = (ahead >= 0.0) & (ahead < reach_m)
        if not near.any():
            return speed_mps
        allowed = np.sqrt(np.square(self._bend_mps[near]) + 2.0 * braking_mps2 * ahead[near])
        return min(speed_mps, float(allowed.min()))


class _Crossing:
    """Area that lanes share, and the cars that want to pass it in the order of their arrival."""

    def __init__(self, points_m: Array, radius_m: float) -> None:
        middle = points_m.mean(axis=0)
        self.x_m, self.y_m = float(middle[0]), float(middle[1])
        self.radius_m = radius_m + float(hypotenuse(*(points_m - middle).T).max())
        self.spans: dict[int, tuple[float, float]] = {}
        """Arc lengths at which each lane enters and leaves it."""
        self.rivals: set[frozenset[int]] = set()
        """Lanes that cross each other in it."""
        self.waiting: list[int] = []
        self.inside: list[int] = []

    def holds(self, x_m: float, y_m: float, room_m: float) -> bool:
        """True if a point is within it or nearer than ``room_m``."""
        return hypot(x_m - self.x_m, y_m - self.y_m) < self.radius_m + room_m


class _Body(Moving):
    """Body of a car: known up to the next decision."""

    def __init__(self, outline: Outline, pose: ScenePose) -> None:
        front, rear, half = outline
        corners = [(front, half), (-rear, half), (-rear, -half), (front, -half)]
        super().__init__([(pose.x_m, pose.y_m)], [0.0], outline_m=corners)
        self._reach_m = outline.reach_m
        self._kept = round(KEPT_S / STEP_S)
        self._rows = np.empty((4, 4 * self._kept))
        self._count = 0
        self._fastest_mps = 0.0
        self.follow(0.0, pose)

    def follow(self, time_s: float, pose: ScenePose, *, jumps: bool = False) -> None:
        """Be at a pose at a later time; ``jumps``: without a way to it."""
        if self._count + 2 > self._rows.shape[1]:
            self._rows[:, : self._kept] = self._rows[:, self._count - self._kept : self._count]
            self._count = self._kept
        if jumps:
            self._rows[:, self._count] = self._rows[:, self._count - 1]
            self._rows[0, self._count] = time_s - 1e-9
            self._count += 1
        self._rows[:, self._count] = time_s, *pose
        self._count += 1

    def place(self, time_s: Array) -> tuple[Array, Array, Array]:
        """Return x, y and heading (n,) at scene times (n,)."""
        times, *columns = self._rows[:, : self._count]
        x, y, yaw = (np.interp(time_s, times, column) for column in columns)
        return x, y, yaw

    def state(self, time_s: float) -> tuple[float, float, float, float, float]:
        """Return x, y, heading and velocity along x and y at one scene time."""
        x, y, yaw = self.place(np.array([time_s, time_s + 1e-3]))
        vx, vy = 1e3 * float(x[1] - x[0]), 1e3 * float(y[1] - y[0])
        if hypot(vx, vy) > self._fastest_mps:
            vx = vy = 0.0
        return float(x[0]), float(y[0]), float(yaw[0]), vx, vy

    @property
    def top_speed_mps(self) -> float:
        """Largest speed."""
        return self._fastest_mps

    @top_speed_mps.setter
    def top_speed_mps(self, speed_mps: float) -> None:
        self._fastest_mps = speed_mps

    def cast(self, rays: Rays, time_s: Array, reach_m: float, hits: Hits) -> None:
        """Shorten the hits of rays, each of which has its own time."""
        x, y, _ = self.place(time_s)
        # Out of reach of all rays the transformation of each is spared.
        if (hypotenuse(rays.x_m - x, rays.y_m - y) <= reach_m + self._reach_m).any():
            super().cast(rays, time_s, reach_m, hits)


class _Car:
    """Car on a lane."""

    def __init__(self, lane: int, s_m: float, desired_mps: float, body: _Body) -> None:
        self.lane, self.s_m, self.desired_mps, self.body = lane, s_m, desired_mps, body
        self.speed_mps = 0.0
        self.away = False
        """True while it waits for room at the beginning of an open lane."""


class Traffic:
    """Cars on the lanes of a scene."""

    def __init__(
        self,
        model: TrafficModel,
        lanes: Sequence[SceneLane],
        scale: float,
        seed: int,
        starts: Sequence[ScenePose],
    ) -> None:
        """Put the cars on the lanes at random, not near the ``starts`` of other vehicles. Where
        there is no room, fewer drive."""
        self._model, self._scale = model, scale
        # Speeds go with the root of the scale, so that accelerations stay.
        self._speed_mps = model.speed_mps * sqrt(scale)
        self._gap_m = scale * model.gap_m
        self._headway_s = sqrt(scale) * model.headway_s
        self.outline = Outline(*(scale * length for length in OUTLINE))
        self._lanes = [_Lane(lane, scale) for lane in lanes]
        self._crossings = self._found_crossings()
        self._cars: list[_Car] = []
        self._place(stream(seed, "traffic"), starts)
        self.step(0.0, [OtherVehicle(pose, 0.0, self.outline) for pose in starts])

    @property
    def bodies(self) -> list[Moving]:
        """Bodies of the cars, in order."""
        return [car.body for car in self._cars]

    def step(self, time_s: float, others: Sequence[OtherVehicle]) -> None:
        """Decide at a time how all cars move until ``time_s + STEP_S``."""
        poses = [self._pose(car) for car in self._cars]
        x, y, yaw, speed, front, rear, half = self._seen(poses, others)
        places = [lane.projected(x, y) for lane in self._lanes]
        self._take_turns(others)
        accelerations = [
            self._acceleration(k, places[car.lane], (yaw, speed, front, rear, half))
            for k, car in enumerate(self._cars)
        ]
        for k, (car, pose) in enumerate(zip(self._cars, poses, strict=True)):
            self._move(k, car, accelerations[k], time_s, pose, (x, y))

    # ------------------------------------------------------------------ set-up

    def _found_crossings(self) -> list[_Crossing]:
        points: list[Array] = []
        pairs: list[frozenset[int]] = []
        for (a, one), (b, other) in combinations(enumerate(self._lanes), 2):
            near, away = other.projected(one.x_m, one.y_m)
            turn = np.interp(near, other.s_m, other.yaw_rad) - one.yaw_rad
            turn = np.abs(turn - 2.0 * pi * np.rint(turn / (2.0 * pi)))
            crosses = (away < self.outline.half_m) & (turn > CROSSING_RAD)
            crosses &= turn < pi - CROSSING_RAD
            for k in np.flatnonzero(crosses).tolist():
                points.append(np.array([one.x_m[k], one.y_m[k]]))
                pairs.append(frozenset((a, b)))
        found: list[_Crossing] = []
        left = list(range(len(points)))
        while left:
            group = [left.pop(0)]
            for k in group:
                near_k = [n for n in left if hypot(*(points[n] - points[k])) < 8.0 * self._scale]
                group += near_k
                left = [n for n in left if n not in near_k]
            crossing = _Crossing(
                np.array([points[k] for k in group]), self._lanes[0].half_m + self.outline.half_m
            )
            crossing.rivals = {pairs[k] for k in group}
            for number in sorted(set().union(*crossing.rivals)):
                lane = self._lanes[number]
                inside = hypotenuse(lane.x_m - crossing.x_m, lane.y_m - crossing.y_m)
                rows = np.flatnonzero(inside < crossing.radius_m)
                entry, leaves = int(rows[0]), int(rows[-1])
                parts = np.flatnonzero(np.diff(rows) > 1)
                if lane.closed and entry == 0 and len(parts):
                    # The ring begins in it.
                    entry, leaves = int(rows[parts[0] + 1]), int(rows[parts[0]])
                span = float(lane.s_m[entry]), float(lane.s_m[leaves])
                if not self._ends_in(lane, span):
                    crossing.spans[number] = span
            found.append(crossing)
        return found

    def _ends_in(self, lane: _Lane, span: tuple[float, float]) -> bool:
        """Let the cars of a lane that begins or ends in a crossing drive behind or before it."""
        margin_m, (entry_m, leaves_m) = self._scale * MARGIN_M, span
        begins, ends = entry_m <= margin_m, leaves_m >= lane.length_m - margin_m
        if lane.closed or not (begins or ends):
            return False
        if begins:
            lane.begin_m = max(lane.begin_m, leaves_m + margin_m + self.outline.rear_m)
        if ends:
            lane.end_m = min(lane.end_m, entry_m - margin_m - self.outline.front_m)
        return True

    def _place(self, generator: np.random.Generator, starts: Sequence[ScenePose]) -> None:
        room_m = self._scale * FREE_M + self.outline.front_m + self.outline.rear_m
        taken = [(pose.x_m, pose.y_m) for pose in starts]
        lengths = np.array([max(lane.end_m - lane.begin_m, 0.0) for lane in self._lanes])
        if not lengths.any():
            return
        for _ in range(self._model.vehicles):
            desired_mps = self._speed_mps * float(generator.uniform(0.85, 1.15))
            for _ in range(50):
                number = int(generator.choice(len(lengths), p=lengths / lengths.sum()))
                lane = self._lanes[number]
                s_m = lane.begin_m + float(generator.random()) * float(lengths[number])
                pose = lane.place(s_m)
                inside = any(each.holds(pose.x_m, pose.y_m, room_m) for each in self._crossings)
                if inside or any(hypot(pose.x_m - x, pose.y_m - y) < room_m for x, y in taken):
                    continue
                taken.append((pose.x_m, pose.y_m))
                self._add(number, s_m, desired_mps, pose)
                break
            else:
                if not lane.closed:
                    # It comes later, from the beginning of the lane.
                    self._add(number, s_m, desired_mps, ScenePose(_AWAY_M, _AWAY_M, 0.0))
                    self._cars[-1].away = True

    def _add(self, lane: int, s_m: float, desired_mps: float, pose: ScenePose) -> None:
        body = _Body(self.outline, pose)
        body.top_speed_mps = 1.5 * desired_mps
        self._cars.append(_Car(lane, s_m, desired_mps, body))

    # ------------------------------------------------------------------ a step

    def _pose(self, car: _Car) -> ScenePose:
        return (
            ScenePose(_AWAY_M, _AWAY_M, 0.0) if car.away else self._lanes[car.lane].place(car.s_m)
        )

    def _seen(
        self, poses: Sequence[ScenePose], others: Sequence[OtherVehicle]
    ) -> tuple[Array, ...]:
        """Return x, y, heading, speed, front, rear and half width (n,) of the cars, then of the
        others."""
        rows = [
            (*pose, car.speed_mps, *self.outline)
            for pose, car in zip(poses, self._cars, strict=True)
        ]
        rows += [(*each.pose, each.speed_mps, *each.outline) for each in others]
        columns: Array = np.array(rows, dtype=np.float64).reshape(-1, 7).T
        return tuple(columns)

    def _take_turns(self, others: Sequence[OtherVehicle]) -> None:
        """Let cars enter the crossings in the order of their arrival."""
        for crossing in self._crossings:
            for k, car in enumerate(self._cars):
                span = crossing.spans.get(car.lane)
                if span is None or car.away:
                    continue
                lane = self._lanes[car.lane]
                to_m = float(lane.ahead_m(car.s_m, np.array(span[0])))
                left_m = float(lane.ahead_m(car.s_m, np.array(span[1])))
                passed = left_m + self.outline.rear_m < 0.0 or (
                    lane.closed and left_m > 0.5 * lane.length_m
                )
                if k in crossing.inside and passed and self._rear_is_out(car, crossing):
                    crossing.inside.remove(k)
                braking_m = car.speed_mps**2 / (2.0 * self._model.deceleration_mps2)
                reach_m = braking_m + self.outline.front_m + self._scale * 8.0
                if 0.0 <= to_m < reach_m and k not in (*crossing.waiting, *crossing.inside):
                    crossing.waiting.append(k)
            blocked = any(self._comes(crossing, each) for each in others)
            for k in list(crossing.waiting):
                lane_of = {n: self._cars[n].lane for n in (*crossing.inside, *crossing.waiting)}
                before = crossing.waiting[: crossing.waiting.index(k)]
                rivals = [
                    n
                    for n in (*crossing.inside, *before)
                    if frozenset((lane_of[n], lane_of[k])) in crossing.rivals
                ]
                if not rivals and not blocked and self._can_leave(k, crossing):
                    crossing.waiting.remove(k)
                    crossing.inside.append(k)

    def _rear_is_out(self, car: _Car, crossing: _Crossing) -> bool:
        pose = self._pose(car)
        rear_m = self.outline.rear_m
        return not crossing.holds(
            pose.x_m - rear_m * cos(pose.yaw_rad), pose.y_m - rear_m * sin(pose.yaw_rad), 0.0
        )

    def _can_leave(self, k: int, crossing: _Crossing) -> bool:
        """True if behind the crossing is room for the car."""
        car = self._cars[k]
        lane = self._lanes[car.lane]
        _, leaves_m = crossing.spans[car.lane]
        length_m = self.outline.front_m + self.outline.rear_m + self._gap_m
        for n, other in enumerate(self._cars):
            if n == k or other.lane != car.lane or other.away:
                continue
            beyond_m = float(lane.ahead_m(leaves_m, np.array(other.s_m)))
            if 0.0 <= beyond_m < length_m + self.outline.rear_m and other.speed_mps < 0.5:
                return False
        return True

    def _comes(self, crossing: _Crossing, other: OtherVehicle) -> bool:
        """True if another vehicle is in a crossing, or soon will be."""
        x, y, yaw = other.pose
        room_m = other.outline.half_m
        if crossing.holds(x, y, other.outline.front_m):
            return True
        return any(
            crossing.holds(
                x + other.speed_mps * t * cos(yaw), y + other.speed_mps * t * sin(yaw), room_m
            )
            for t in np.arange(0.25, FORESIGHT_S + 0.1, 0.25).tolist()
        )

    def _acceleration(self, k: int, place: tuple[Array, Array], seen: tuple[Array, ...]) -> float:
        """Return the acceleration of a car by the Intelligent Driver Model, with the leader that
        asks for the hardest braking."""
        car, m = self._cars[k], self._model
        if car.away:
            return 0.0
        lane, v = self._lanes[car.lane], car.speed_mps
        yaw, speed, _, rear, half = seen
        s_m, away_m = place
        reach_m = self._scale * AHEAD_M
        desired_mps = max(
            lane.free_mps(car.s_m, car.desired_mps, m.deceleration_mps2, reach_m), 0.1
        )
        acceleration = m.acceleration_mps2 * (1.0 - (v / desired_mps) ** 4)
        ahead_m = lane.ahead_m(car.s_m, s_m)
        leads = (ahead_m > 0.0) & (ahead_m < reach_m) & (away_m < self.outline.half_m + half)
        leads[k] = False
        heading = np.interp(s_m, lane.s_m, lane.yaw_rad)
        # A body across the lane is as long as it is wide.
        along = np.cos(yaw - heading)
        back_m = np.where(along > 0.5, rear, np.maximum(half, rear))
        for n in np.flatnonzero(leads).tolist():
            gap_m = float(ahead_m[n] - back_m[n]) - self.outline.front_m
            leader_mps = max(float(speed[n] * along[n]), 0.0)
            acceleration = min(acceleration, self._following(v, desired_mps, gap_m, leader_mps))
        for crossing in self._crossings:
            if car.lane in crossing.spans and k not in crossing.inside:
                entry_m = float(lane.ahead_m(car.s_m, np.array(crossing.spans[car.lane][0])))
                gap_m = entry_m - self._scale * MARGIN_M - self.outline.front_m + self._gap_m
                if 0.0 <= entry_m < reach_m:
                    acceleration = min(acceleration, self._following(v, desired_mps, gap_m, 0.0))
        return max(acceleration, -HARDEST_MPS2)

    def _following(self, v: float, desired_mps: float, gap_m: float, leader_mps: float) -> float:
        """Return the acceleration behind a leader (eqs. 3 and 4)."""
        m = self._model
        if gap_m <= 0.0:
            return -HARDEST_MPS2
        comfort = 2.0 * sqrt(m.acceleration_mps2 * m.deceleration_mps2)
        wanted_m = self._gap_m + max(v * self._headway_s + v * (v - leader_mps) / comfort, 0.0)
        return m.acceleration_mps2 * (1.0 - (v / desired_mps) ** 4 - (wanted_m / gap_m) ** 2)

    def _move(
        self,
        k: int,
        car: _Car,
        acceleration: float,
        time_s: float,
        pose: ScenePose,
        places: tuple[Array, Array],
    ) -> None:
        lane = self._lanes[car.lane]
        if car.away:
            begin = lane.place(lane.begin_m)
            x, y = places
            room_m = self._scale * FREE_M + self.outline.front_m + self.outline.rear_m
            if hypotenuse(x - begin.x_m, y - begin.y_m).min(initial=_AWAY_M) > room_m:
                car.away, car.s_m, car.speed_mps = False, lane.begin_m, 0.5 * car.desired_mps
                car.body.follow(time_s + STEP_S, begin, jumps=True)
                # Another one that waits there must see it.
                x[k], y[k] = begin.x_m, begin.y_m
            return
        before_mps = car.speed_mps
        car.speed_mps = max(before_mps + acceleration * STEP_S, 0.0)
        car.s_m += 0.5 * (before_mps + car.speed_mps) * STEP_S
        if lane.closed:
            car.s_m %= lane.length_m
        elif car.s_m >= lane.end_m:
            car.away, car.speed_mps = True, 0.0
            car.body.follow(time_s + STEP_S, ScenePose(_AWAY_M, _AWAY_M, pose.yaw_rad), jumps=True)
            for crossing in self._crossings:
                crossing.waiting = [n for n in crossing.waiting if n != k]
                crossing.inside = [n for n in crossing.inside if n != k]
            return
        after = lane.place(car.s_m)
        # Headings go on without a jump, also round a ring.
        turned = remainder(after.yaw_rad - pose.yaw_rad, 2.0 * pi)
        before_yaw = float(car.body.place(np.array([time_s]))[2][0])
        car.body.follow(time_s + STEP_S, after._replace(yaw_rad=before_yaw + turned))


def traffic_of(
    model: TrafficModel, scene: str, datum: Datum, seed: int, starts: Sequence[ScenePose]
) -> Traffic | None:
    """Return the traffic of a scene; None if nobody asks for any. Raises as :func:`lanes_of`."""
    lanes = lanes_of(model, scene, datum)
    return Traffic(model, lanes, scene_of(scene).scale, seed, starts) if lanes else None


def lanes_of(model: TrafficModel, scene: str, datum: Datum) -> list[SceneLane]:
    """Return the lanes that traffic uses; none if nobody asks for any. Raises :class:`SceneError`
    for a scene without such lanes."""
    if not model.vehicles:
        return []
    cure = "use a scene with lanes, such as town, or set sim.traffic.vehicles=0"
    if not scene or scene_of(scene).file.suffix.lower() != ".toml":
        raise SceneError(f"sim.traffic: cars need the lanes of a scene; {cure}")
    drawn = {lane.name: lane for lane in read_scene(scene, datum).lane}
    unknown = sorted(set(model.lanes) - set(drawn))
    if unknown or not drawn:
        raise SceneError(
            f"{scene}: has no lane {', '.join(unknown) or 'at all'} for sim.traffic (lanes: "
            f"{', '.join(drawn) or 'none'}); {cure}"
        )
    return [drawn[name] for name in model.lanes or drawn]


class TrafficClock:
    """Lets traffic decide in the world of one vehicle. Shaped like a sensor, which measures
    nothing."""

    def __init__(self, traffic: Traffic, outline: Outline, start_ns: int) -> None:
        self.rate_hz, self.least_latency_ns = 1.0 / STEP_S, 0
        self._traffic, self._outline, self._start_ns = traffic, outline, start_ns

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, None]:
        """See :class:`sim_backend.sensors.interface.Sensor`."""
        self._traffic.step((t_ns - self._start_ns) * 1e-9, [other_vehicle(motion, self._outline)])
        return t_ns, None


def other_vehicle(motion: Motion, outline: Outline) -> OtherVehicle:
    """Return a simulated vehicle as traffic sees it."""
    pose = ScenePose(motion.x_m, motion.y_m, motion.yaw_rad)
    return OtherVehicle(pose, abs(motion.speed_mps), outline)
