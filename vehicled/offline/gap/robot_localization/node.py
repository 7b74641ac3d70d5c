"""The node of robot_localization without ROS: turns messages into measurements, and steps the
filter at its frequency."""

from bisect import insort
from collections import deque
from math import pi
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.robot_localization.frames import (
    IDENTITY,
    FramePose,
    Frames,
    of_angles,
    of_quaternion,
)
from vehicled.offline.gap.robot_localization.kalman import Kalman, StateMeasurement
from vehicled.offline.gap.robot_localization.motion import ACCELERATION, RATES, SIZE, VELOCITY, Mask
from vehicled.offline.gap.robot_localization.settings import NodeSettings, SensorInput

FLAT = (2, 3, 4, 8, 9, 10, 14)
"""Parts of the state that ``two_d_mode`` holds at 0."""
FLAT_VARIANCE = 1e-6
LEAST_MASK = 1e-6


class PoseMessage(NamedTuple):
    """A pose of an odometry or pose message, in the frame ``frame``."""

    t_ns: int
    position: Array
    quaternion: tuple[float, float, float, float]
    """x, y, z, w."""
    covariance: Array
    """(6, 6), of position and angles."""
    frame: str


class TwistMessage(NamedTuple):
    """Velocities (6,), linear and angular, in the frame ``frame``, with their covariance (6, 6)."""

    t_ns: int
    velocity: Array
    covariance: Array
    frame: str


class ImuMessage(NamedTuple):
    """A message of an IMU that is mounted as ``frame``. ``orientation`` is None if it measures
    none."""

    t_ns: int
    orientation: tuple[float, float, float, float] | None
    orientation_covariance: Array
    rates: Array
    rates_covariance: Array
    acceleration: Array
    acceleration_covariance: Array
    frame: str


class Node:
    """Filter with its inputs. Messages come in order of arrival; :meth:`step` fuses those that are
    due."""

    def __init__(self, settings: NodeSettings, frames: Frames | None = None) -> None:
        self._settings = settings
        self._frames = frames or Frames()
        self._sensors = {sensor.name: sensor for sensor in settings.sensors}
        self.filter = Kalman(
            settings.process_noise,
            settings.initial_covariance,
            dynamic_noise=settings.dynamic_noise,
            control=settings.control,
        )
        self._transforms: dict[tuple[str, str], FramePose | None] = {}
        self._queue: list[_Item] = []
        self._fused: deque[_Item] = deque()
        self._states: deque[tuple[int, Array, Array]] = deque()
        self._count = 0
        self._newest_ns: dict[str, int] = {}
        self._previous: dict[str, tuple[int, FramePose, Array]] = {}
        self._initial: dict[str, FramePose] = {}
        self.unconnected: set[str] = set()
        """Frames of dropped messages, which no static transform connects."""

    # ---------------------------------------------------------------- messages

    def on_control(self, t_ns: int, velocity: Array) -> None:
        """Take commanded linear and angular velocities (6,)."""
        self.filter.command(t_ns, velocity)

    def on_odometry(self, name: str, pose: PoseMessage | None, twist: TwistMessage | None) -> None:
        """Take pose and twist of the sensor ``name``. Raises :class:`GapError` for an unknown
        one."""
        sensor = self._sensor(name)
        if pose is not None and sensor.used[:6].any() and self._is_new(f"{name}_pose", pose.t_ns):
            self._pose(sensor, f"{name}_pose", pose, self._settings.world_frame, imu=False)
        if (
            twist is not None
            and sensor.used[6:12].any()
            and self._is_new(f"{name}_twist", twist.t_ns)
        ):
            self._twist(sensor, twist, sensor.used.copy(), sensor.twist_threshold)

    def on_imu(self, name: str, message: ImuMessage) -> None:
        """Take a message of the IMU ``name``. Raises :class:`GapError` for an unknown one."""
        sensor, base = self._sensor(name), self._settings.base_frame
        used = sensor.used.copy()
        used[:3] = used[VELOCITY] = False
        if (
            message.orientation is not None
            and used[3:6].any()
            and self._is_new(f"{name}_pose", message.t_ns)
        ):
            covariance = np.zeros((6, 6))
            covariance[3:, 3:] = message.orientation_covariance
            pose = PoseMessage(
                message.t_ns, np.zeros(3), message.orientation, covariance, message.frame
            )
            self._pose(sensor, f"{name}_pose", pose, base, imu=True)
        if used[RATES].any() and self._is_new(f"{name}_twist", message.t_ns):
            covariance = np.zeros((6, 6))
            covariance[3:, 3:] = message.rates_covariance
            twist = TwistMessage(
                message.t_ns,
                np.concatenate([np.zeros(3), message.rates]),
                covariance,
                message.frame,
            )
            self._twist(sensor, twist, used, sensor.twist_threshold)
        if used[ACCELERATION].any() and self._is_new(f"{name}_acceleration", message.t_ns):
            self._acceleration(sensor, message)

    def _sensor(self, name: str) -> SensorInput:
        if name not in self._sensors:
            raise GapError(
                f"the parameters have no input {name}; they have {', '.join(self._sensors)}"
            )
        return self._sensors[name]

    def _is_new(self, key: str, t_ns: int) -> bool:
        """Return False for a message that is older than the one before."""
        if t_ns < self._newest_ns.get(key, t_ns):
            return False
        self._newest_ns[key] = t_ns
        return True

    # ---------------------------------------------------------------- measurements

    def _pose(
        self, sensor: SensorInput, key: str, message: PoseMessage, target: str, *, imu: bool
    ) -> None:
        # A differential pose counts as one of the world frame: only its change matters.
        source = target if sensor.differential and not imu else message.frame or target
        transform = self._transform(target, source)
        if transform is None:
            return
        used = sensor.used.copy()
        pose = FramePose(of_quaternion(*message.quaternion), message.position)
        turn = transform.rotation
        if imu:
            # The frame is how the IMU is mounted, not in what frame it measures: take the mounting
            # off, and swap roll and pitch.
            roll, pitch, yaw = transform.angles
            turn = of_angles(0.0, 0.0, 0.0, 0.0, 0.0, yaw).rotation
            off = [
                (angle - by + pi) % (2.0 * pi) - pi
                for angle, by in zip(pose.angles, (roll, pitch, yaw))
            ]
            pose = of_angles(0.0, 0.0, 0.0, *(turn @ np.array(off)).tolist())
            transform = IDENTITY
        used[:3] = _turned_mask(turn, sensor.used[:3])
        used[3:6] = _turned_mask(turn, sensor.used[3:6])
        if imu:
            used[:3] = False
        both = np.zeros((6, 6))
        both[:3, :3] = both[3:, 3:] = turn
        covariance = both @ message.covariance @ both.T
        if sensor.differential:
            before = self._previous.get(key)
            self._previous[key] = message.t_ns, pose, message.covariance
            if before is None or message.t_ns <= before[0]:
                return
            self._difference(sensor, message.t_ns, before, pose, transform, used, covariance, both)
            return
        if sensor.relative:
            pose = self._initial.setdefault(key, pose).inverse() @ pose
        pose = transform @ pose
        value, whole = np.zeros(SIZE), np.zeros((SIZE, SIZE))
        value[:3], value[3:6] = pose.origin, pose.angles
        whole[:6, :6] = covariance
        used[6:] = False
        self._enqueue(
            message.t_ns,
            value,
            whole,
            used,
            sensor.pose_threshold,
            position=not imu and bool(used[:2].all()),
        )

    def _difference(
        self,
        sensor: SensorInput,
        t_ns: int,
        before: tuple[int, FramePose, Array],
        pose: FramePose,
        transform: FramePose,
        used: Mask,
        covariance: Array,
        both: Array,
    ) -> None:
        """Fuse the change since the message before as a velocity."""
        dt_s = (t_ns - before[0]) * 1e-9
        change = FramePose(transform.rotation, np.zeros(3)) @ (before[1].inverse() @ pose)
        velocity = np.concatenate([change.origin, change.angles]) / dt_s
        summed = (covariance + both @ before[2] @ both.T) * dt_s
        twist_used = np.zeros(SIZE, bool)
        twist_used[6:12] = used[:6]
        self._twist(
            sensor,
            TwistMessage(t_ns, velocity, summed, self._settings.base_frame),
            twist_used,
            sensor.pose_threshold,
        )

    def _twist(
        self, sensor: SensorInput, message: TwistMessage, used: Mask, threshold: float
    ) -> None:
        transform = self._transform(
            self._settings.base_frame, message.frame or self._settings.base_frame
        )
        if transform is None:
            return
        turn = transform.rotation
        value, whole = np.zeros(SIZE), np.zeros((SIZE, SIZE))
        # A sensor off the origin moves while the vehicle turns.
        value[VELOCITY] = transform.turned(message.velocity[:3])
        if transform.origin.any():
            value[VELOCITY] += np.cross(transform.origin, self.filter.x[RATES])
        value[RATES] = transform.turned(message.velocity[3:])
        both = np.zeros((6, 6))
        both[:3, :3] = both[3:, 3:] = turn
        whole[6:12, 6:12] = both @ message.covariance @ both.T
        moved = np.zeros(SIZE, bool)
        moved[VELOCITY] = _turned_mask(turn, used[VELOCITY])
        moved[RATES] = _turned_mask(turn, used[RATES])
        self._enqueue(message.t_ns, value, whole, moved, threshold)

    def _acceleration(self, sensor: SensorInput, message: ImuMessage) -> None:
        settings = self._settings
        transform = self._transform(settings.base_frame, message.frame or settings.base_frame)
        if transform is None:
            return
        acceleration = message.acceleration
        if sensor.removes_gravity:
            if message.orientation is not None:
                attitude = of_quaternion(*message.orientation)
            else:
                attitude = of_angles(
                    0.0, 0.0, 0.0, *(transform.rotation.T @ self.filter.x[3:6]).tolist()
                ).rotation
            acceleration = acceleration - attitude.T @ np.array((0.0, 0.0, settings.gravity_mps2))
        value, whole, used = np.zeros(SIZE), np.zeros((SIZE, SIZE)), np.zeros(SIZE, bool)
        value[ACCELERATION] = transform.turned(acceleration)
        whole[ACCELERATION, ACCELERATION] = (
            transform.rotation @ message.acceleration_covariance @ transform.rotation.T
        )
        used[ACCELERATION] = _turned_mask(transform.rotation, sensor.used[ACCELERATION])
        self._enqueue(message.t_ns, value, whole, used, sensor.acceleration_threshold)

    def _transform(self, target: str, source: str) -> FramePose | None:
        if (target, source) not in self._transforms:
            found = (
                IDENTITY
                if target.lstrip("/") == source.lstrip("/")
                else self._frames.find(target, source)
            )
            if found is None:
                self.unconnected.add(source)
            self._transforms[target, source] = found
        return self._transforms[target, source]

    def _enqueue(
        self,
        t_ns: int,
        value: Array,
        covariance: Array,
        used: Mask,
        threshold: float,
        *,
        position: bool = False,
    ) -> None:
        if self._settings.two_d:
            value[list(FLAT)] = 0.0
            covariance[list(FLAT), list(FLAT)] = FLAT_VARIANCE
            used[list(FLAT)] = True
        self._count += 1
        self._insert(
            _Item(
                t_ns,
                self._count,
                StateMeasurement(t_ns, value, covariance, used, threshold, position),
                self.filter.control,
            )
        )

    def _insert(self, item: "_Item") -> None:
        # Of equal stamps the one that came first counts first.
        insort(self._queue, item, key=lambda each: each[:2])

    # ---------------------------------------------------------------- time

    def step(self, now_ns: int) -> None:
        """Fuse the queued measurements up to now; without any for the sensor timeout, predict to
        now."""
        state, settings = self.filter, self._settings
        predicts = settings.predicts_to_now
        if self._queue:
            self._fuse(now_ns, self._go_back(self._queue[0].t_ns) if settings.smooths else 0)
        elif state.initialised and (now_ns - state.t_ns) * 1e-9 >= settings.sensor_timeout_s:
            predicts = True
        if predicts and state.initialised and now_ns > state.t_ns:
            state.predict(now_ns)
        if settings.smooths:
            self._forget(state.t_ns - round(settings.history_s * 1e9))

    def _fuse(self, now_ns: int, again: int) -> None:
        """Fuse the queue up to now. The first ``again`` ones were fused before, with the control
        input of their time."""
        state, queue = self.filter, self._queue
        while queue and queue[0].t_ns <= now_ns:
            item = queue.pop(0)
            if again > 0 and item.control is not None:
                state.command(*item.control)
            again -= 1
            state.process(item.measurement)
            if self._settings.smooths:
                self._fused.append(item)
                if not queue or queue[0].t_ns != state.t_ns:
                    self._states.append((state.t_ns, state.x, state.P))

    def _go_back(self, t_ns: int) -> int:
        """Go back before a late measurement if there is one; return how many measurements are
        queued again."""
        state, found, count = self.filter, None, 0
        if not state.initialised or t_ns >= state.t_ns:
            return 0
        while self._states and self._states[-1][0] >= t_ns:
            found = self._states.pop()
        if self._states:
            found = self._states[-1]
        if found is not None:
            state.t_ns, state.x, state.P = found
        while self._fused and self._fused[-1].t_ns >= t_ns:
            item = self._fused.pop()
            # What came before the oldest state is in it.
            if found is not None and found[0] <= item.t_ns:
                self._insert(item)
                count += 1
        return count

    def _forget(self, before_ns: int) -> None:
        while self._states and self._states[0][0] < before_ns:
            self._states.popleft()
        while self._fused and self._fused[0].t_ns < before_ns:
            self._fused.popleft()


class _Item(NamedTuple):
    t_ns: int
    number: int
    measurement: StateMeasurement
    control: tuple[int, Array] | None


def _turned_mask(turn: Array, used: Mask) -> Mask:
    """Return which rows of a rotated vector depend on the used parts."""
    mask: Mask = np.abs(turn * used).max(axis=1) >= LEAST_MASK
    return mask
