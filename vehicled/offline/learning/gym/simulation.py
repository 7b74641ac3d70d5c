"""The simulation behind the environments: many vehicles on one course, stepped together.

A row depends on its own random stream and actions alone: it has the same bits in a batch of any
size.
"""

from collections.abc import Sequence
from math import exp, sqrt

import numpy as np
import numpy.typing as npt

from sim_backend.plant.batch import batch_of, parameters
from sim_backend.scene.batch import BatchScanner, MovingShapes, shapes_at
from sim_backend.scene.moving import Moving
from sim_backend.scene.reading import load_scene
from sim_backend.sensors.lidar import measured
from vehicled.control.policy.features import PUBLISHED
from vehicled.control.speed import SpeedParams, SpeedProfile
from vehicled.core.arrays import Array, clipped
from vehicled.offline.learning.gym.errors import GymError
from vehicled.offline.learning.gym.features import BatchInputs, FeatureVectors
from vehicled.offline.learning.gym.settings import (
    RACING,
    RACING_WEIGHTS,
    EnvironmentSettings,
    Weights,
)
from vehicled.offline.learning.gym.walls import corridor_walls
from vehicled.paths import scenes
from vehicled.paths.batch_tracking import BatchTracker, PathPoints
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile.loading import load_profile
from vehicled.profile.schema import Profile

Observations = npt.NDArray[np.float32]
CIRCLE_CORNERS = 16
"""Corners of a circle of a scene: many vehicles at once see segments only."""
Flags = npt.NDArray[np.bool_]
Rows = npt.NDArray[np.intp]


class BatchSimulation:
    """``count`` vehicles. Arrays (n,): ``reward``, ``terminated``, ``truncated``, ``time_s``, and
    those of :meth:`info`."""

    def __init__(self, settings: EnvironmentSettings, count: int) -> None:
        """Raises :class:`GymError`, ProfileError, CourseError, and SceneError."""
        self.settings, self.count = settings, count
        profile = load_profile(settings.profile, settings.overrides)
        self.profile = profile
        vehicle, limits = profile.vehicle, profile.limits
        named = (
            scenes.course_in(settings.scene, settings.course) if settings.scene else settings.course
        )
        self.course = course = load_course(
            named or profile.course,
            width_m=vehicle.width_m, centre_m=vehicle.centre_m,
            turn_radius_m=vehicle.min_turn_radius_m,
        )  # fmt: skip
        self._ranges = _checked_ranges(settings, profile)
        longest_s = max(
            [high for key, (_, high) in self._ranges.items() if key.endswith("delay_s")],
            default=0.0,
        )
        period_ns = round(settings.period_s * 1e9)
        try:
            self.plant = batch_of(profile.sim, count, period_ns, longest_s)
        except ValueError as error:
            raise GymError(f"{profile.name}: {error}") from None
        if settings.start_speed > 0.0 and not self.plant.rolls:
            raise GymError(
                f'start_speed: vehicles of the plant "{profile.sim.plant}" start at '
                "standstill; leave it at 0"
            )
        self.tracker = BatchTracker(course, count)
        self._profile_s_m, self._profile_square = _speed_profile(profile, course)
        self._half_width_m = settings.half_width_m or limits.corridor_m
        racing = settings.task == "racing"
        self.features = FeatureVectors(
            settings.features or (RACING if racing else PUBLISHED), profile.sim.lidar.range_max_m
        )
        self.weights = settings.weights or (RACING_WEIGHTS if racing else Weights())
        self._moving: list[Moving] = []
        """Moving objects of the scene; each vehicle meets them at the time of its own episode."""
        self.scanner = (
            self._scanner_among_walls() if racing or settings.scene or self.features.scans else None
        )
        self._collides = racing or bool(settings.scene)
        front_m, rear_m, half_m = vehicle.outline
        self._box_m = (-rear_m, front_m, half_m)
        self.max_time_s = settings.max_time_s or 2.0 * self._nominal_time_s() + 10.0
        self._period_s = period_ns * 1e-9
        self._generators: list[np.random.Generator] = [
            np.random.default_rng() for _ in range(count)
        ]
        self._previous: Array = np.zeros((count, 2))
        self._noise: Array = np.zeros((5, count))
        """Errors of x, y, yaw, speed and yaw rate in the observation."""
        self._scan_m: Array = np.full((count, self.scanner.rays if self.scanner else 0), np.inf)
        self._all: Rows = np.arange(count)
        self._steps = np.zeros(count, dtype=np.int64)
        self._start_m, self.reward, self.lap_time_s = np.zeros((3, count))
        self.terminated, self.truncated, self.collided = np.zeros((3, count), dtype=np.bool_)
        self._points: PathPoints = self.tracker.locate(
            self.plant.x_m, self.plant.y_m, self.plant.yaw_rad
        )

    def _scanner_among_walls(self) -> BatchScanner:
        profile, name = self.profile, self.settings.scene
        if name:
            scene = load_scene(name, self.course)
            self._moving = [thing for _, thing in scene.moving]
            segments_m = np.concatenate(
                [scene.segments_m, *(_polygon(*circle) for _, circle in scene.circles)]
            )
        else:
            segments_m = corridor_walls(self.course, self._half_width_m)
        ahead_m, left_m, _ = profile.lever_arm_m("LaserScan") or (
            profile.vehicle.wheelbase_m,
            0.0,
            0.0,
        )
        return BatchScanner(profile.sim.lidar, (ahead_m, left_m), segments_m)

    def _shapes(self, rows: Rows) -> MovingShapes | None:
        """Return what moves, as it stands at the time of some episodes."""
        return shapes_at(self._moving, self.time_s[rows]) if self._moving else None

    def _nominal_time_s(self) -> float:
        """Return the time of the course at the speeds of the speed profile."""
        speed = np.sqrt(self._profile_square)
        return float(
            (np.diff(self._profile_s_m) / np.maximum(0.5 * (speed[1:] + speed[:-1]), 0.05)).sum()
        )

    def target_mps(self, s_m: Array) -> Array:
        """Return the speed of the speed profile at arc lengths."""
        return np.sqrt(np.interp(s_m, self._profile_s_m, self._profile_square))

    @property
    def time_s(self) -> Array:
        """Time (n,) since the start of each episode."""
        return self._steps.astype(np.float64) * self._period_s

    def info(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return facts of the episodes (n,) beside the observations."""
        return {
            "time_s": self.time_s,
            "progress_m": self.tracker.progress_m - self._start_m,
            "cross_track_m": self._points.cross_track_m.copy(),
            "speed_mps": self.plant.speed_mps.copy(),
            "finished": self.tracker.finished,
            "collided": self.collided.copy(),
            "lap_time_s": self.lap_time_s.copy(),
        }

    def reset(self, rows: Rows, generators: Sequence[np.random.Generator] | None = None) -> None:
        """Start new episodes, with the random streams of these rows if given. Each draws equally
        many numbers."""
        if generators is not None:
            for row, generator in zip(rows.tolist(), generators, strict=True):
                self._generators[row] = generator
        settings = self.settings
        drawn = np.stack(
            [self._generators[row].random(4 + len(self._ranges)) for row in rows.tolist()], axis=1
        )
        anywhere = settings.start == "anywhere"
        # Not so near the end that the episode would be over at once.
        start_m = drawn[0] * 0.9 * self.course.length_m if anywhere else np.zeros(len(rows))
        place = self.tracker.points_at(start_m)
        offset_m = (2.0 * drawn[1] - 1.0) * settings.start_offset_m
        heading_rad = (2.0 * drawn[2] - 1.0) * settings.start_heading_rad
        speed_mps = (
            np.maximum(2.0 * drawn[3] - 1.0, 0.0) * settings.start_speed * self.target_mps(start_m)
        )
        changes = {
            key: low + drawn[4 + k] * (high - low)
            for k, (key, (low, high)) in enumerate(self._ranges.items())
        }
        self.plant.reset(
            rows, place.x_m - offset_m * np.sin(place.yaw_rad),
            place.y_m + offset_m * np.cos(place.yaw_rad), place.yaw_rad + heading_rad, speed_mps,
            changes,
        )  # fmt: skip
        self.tracker.reset(rows, start_m)
        self._start_m[rows] = start_m
        # Before a drive the daemon holds the vehicle by the brake.
        self._previous[rows] = np.stack(
            (np.where(speed_mps > 0.0, 0.0, -1.0), np.zeros(len(rows))), axis=1
        )
        self._steps[rows] = 0
        self.reward[rows] = 0.0
        self.terminated[rows] = self.truncated[rows] = self.collided[rows] = False
        self.lap_time_s[rows] = 0.0
        self._locate()
        self._sense(rows, self._shapes(rows), first=True)

    def step(self, actions: npt.NDArray[np.floating], new: Rows | None = None) -> None:
        """Advance all vehicles one period by actions (n, 2). The rows ``new`` start new episodes
        instead.

        Actions beyond -1 and 1 are clipped. Raises :class:`GymError` for what is no finite number.
        """
        moving = self.advance(actions)
        rows = self._all if new is None or not len(new) else np.setdiff1d(self._all, new)
        self._sense(rows, moving if rows is self._all else self._shapes(rows))
        if new is not None and len(new):
            self.reset(new)

    def advance(self, actions: npt.NDArray[np.floating]) -> MovingShapes | None:
        """Advance all vehicles one period and judge it, without its sensors. Return
        what moves in the scene, as it stands then."""
        if (
            actions.shape != (self.count, 2)
            or actions.dtype.kind not in "fiub"
            or not np.isfinite(actions).all()
        ):
            raise GymError(
                f"actions must be finite numbers of the shape ({self.count}, 2): throttle and "
                "steering of each vehicle"
            )
        action = clipped(actions.astype(np.float64), -1.0, 1.0)
        before_m = self.tracker.progress_m
        self.plant.advance(
            np.maximum(action[:, 0], 0.0), np.maximum(-action[:, 0], 0.0), action[:, 1]
        )
        self._steps += 1
        self._locate()
        moving = self._shapes(self._all)
        self._judge(action, before_m, moving)
        self._previous[:] = action
        return moving

    def sense(self) -> None:
        """Sample the sensors of all vehicles, after :meth:`advance`."""
        self._sense(self._all, self._shapes(self._all))

    def add_moving(self, body: Moving) -> None:
        """Let the scanners see a further moving body."""
        self._moving.append(body)

    def _locate(self) -> None:
        plant = self.plant
        self._points = self.tracker.update(plant.x_m, plant.y_m, plant.yaw_rad, plant.speed_mps)

    def _judge(self, action: Array, before_m: Array, moving: MovingShapes | None) -> None:
        """Compute rewards and ends of the episodes."""
        points = self._points
        plant = self.plant
        w = self.weights
        dt_s = self._period_s
        time_s = self.time_s
        if self._collides:
            assert self.scanner is not None
            self.collided = self.scanner.collides(
                plant.x_m, plant.y_m, plant.yaw_rad, self._box_m, moving
            )
        self.terminated = (
            self.collided | plant.lost | (np.abs(points.cross_track_m) > self._half_width_m)
        )
        finished = self.tracker.finished
        self.truncated = ~self.terminated & (finished | (time_s >= self.max_time_s - 0.5 * dt_s))
        passed_s = (points.s_m - self.course.length_m) / np.maximum(plant.speed_mps, 0.05)
        self.lap_time_s = np.where(finished & (self._start_m == 0.0), time_s - passed_s, 0.0)
        rate = (action - self._previous) / dt_s
        costs = np.full(self.count, w.time)
        if w.cross_track:
            costs += w.cross_track * np.abs(points.cross_track_m)
        if w.heading:
            costs += w.heading * np.square(points.heading_error_rad)
        if w.speed:
            costs += w.speed * np.abs(self.target_mps(points.s_m) - plant.speed_mps)
        costs += w.throttle_rate * np.square(rate[:, 0])
        costs += w.steering_rate * np.square(rate[:, 1])
        self.reward = (
            w.progress * (self.tracker.progress_m - before_m)
            - dt_s * costs
            - w.failure * self.terminated
        )

    def _sense(self, rows: Rows, moving: MovingShapes | None, first: bool = False) -> None:
        """Advance the errors of the observation of some rows, and take their scans."""
        noise = self.settings.noise
        if noise is not None:
            sigma = np.array(
                [
                    noise.position_m,
                    noise.position_m,
                    noise.yaw_rad,
                    noise.speed_mps,
                    noise.yaw_rate_radps,
                ]
            )
            kept = 0.0 if first else exp(-self._period_s / noise.time_s)
            for row in rows.tolist():
                normal = self._generators[row].standard_normal(5)
                self._noise[:, row] = (
                    kept * self._noise[:, row] + sqrt(1.0 - kept * kept) * sigma * normal
                )
        if not self.features.scans or not len(rows):
            return
        assert self.scanner is not None
        plant, model = self.plant, self.profile.sim.lidar
        poses = plant.x_m, plant.y_m, plant.yaw_rad
        if len(rows) < self.count:
            poses = poses[0][rows], poses[1][rows], poses[2][rows]
        ranges, cosines = self.scanner.scan(*poses, moving)
        if self.settings.scan_noise:
            for k, row in enumerate(rows.tolist()):
                ranges[k] = measured(model, self._generators[row], ranges[k], cosines[k])
            ranges = np.where(np.isnan(ranges), model.range_max_m, ranges)
        self._scan_m[rows] = clipped(ranges, model.range_min_m, model.range_max_m)

    def observe(self) -> Observations:
        """Return the observations (n, width) of the present state."""
        plant, points = self.plant, self._points
        x = plant.x_m
        y = plant.y_m
        yaw = plant.yaw_rad
        speed = plant.speed_mps
        yaw_rate = plant.yaw_rate_radps
        if self.settings.noise is not None:
            dx, dy, dyaw, dv, drate = self._noise
            x, y, yaw, speed, yaw_rate = x + dx, y + dy, yaw + dyaw, speed + dv, yaw_rate + drate
            points = self.tracker.locate(x, y, yaw)
        return self.features.observe(
            BatchInputs(
                self.tracker, points, self.settings.look_ahead_m, self.target_mps, x, y, yaw, speed,
                yaw_rate, self._previous, self._scan_m, self.profile.sim.lidar.range_max_m,
            )
        )  # fmt: skip


def _checked_ranges(
    settings: EnvironmentSettings, profile: Profile
) -> dict[str, tuple[float, float]]:
    """Return the ranges of the randomised numbers. Raises :class:`GymError`, and ProfileError for a
    bound that the key forbids."""
    known = parameters(profile.sim)
    for key, (low, high) in settings.randomise.items():
        if not known:
            raise GymError(
                f'randomise: vehicles of the plant "{profile.sim.plant}" do not differ; those '
                'of "four_dof" may'
            )
        if key not in known:
            raise GymError(
                f'randomise: "{key}" is not a number of [sim] that vehicles may differ in; '
                f"known: {', '.join(known)}"
            )
        if not low <= high:
            raise GymError(
                f"randomise: {key} ranges from {low:g} to {high:g}; write the lower bound first"
            )
    for end in (0, 1):
        bounds = [f"sim.{key}={ends[end]!r}" for key, ends in settings.randomise.items()]
        load_profile(settings.profile, (*settings.overrides, *bounds))
    return dict(settings.randomise)


def _polygon(x_m: float, y_m: float, radius_m: float) -> Array:
    """Return a circle as segments (m, 4) around it."""
    angles = np.linspace(0.0, 2.0 * np.pi, CIRCLE_CORNERS + 1)
    outer_m = radius_m / np.cos(np.pi / CIRCLE_CORNERS)
    corners = np.column_stack((x_m + outer_m * np.cos(angles), y_m + outer_m * np.sin(angles)))
    return np.hstack((corners[:-1], corners[1:]))


def _speed_profile(profile: Profile, course: Course) -> tuple[Array, Array]:
    """Return arc lengths and squared speeds (n,) of the speed profile; squares are linear in
    between."""
    speeds = SpeedProfile(SpeedParams(), profile.vehicle, profile.limits, course).speeds_mps(0)
    s_m = np.append(course.s_m, course.length_m) if course.closed else course.s_m
    return s_m, np.square(speeds)
