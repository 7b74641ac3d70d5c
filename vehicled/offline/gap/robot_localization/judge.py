"""Judge that filters a run as robot_localization would, with a parameter file of the user."""

from bisect import bisect_right
from collections.abc import Sequence
from math import copysign, cos, isfinite, sin, tan

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from vehicled.core.messages import ActuatorCommand, GnssFix, Heading, ImuSample, Message, WheelSpeed
from vehicled.core.vehicle import Vehicle
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.judges import steps_of
from vehicled.offline.gap.quantities import JudgeTrack
from vehicled.offline.gap.robot_localization.motion import (
    ACCELERATION,
    POSITION,
    RATES,
    SIZE,
    VELOCITY,
    YAW,
)
from vehicled.offline.gap.robot_localization.node import ImuMessage, Node, PoseMessage, TwistMessage
from vehicled.offline.gap.robot_localization.settings import NodeSettings, SensorInput, load
from vehicled.offline.recordings.recording import Recording, arrival_ns
from vehicled.offline.recordings.runner import parameters

NAME = "robot_localization"

_POSE, _TWIST, _IMU = ("odom", "pose"), ("odom", "twist"), ("imu",)


def _parts(kind: type[Message], sensor: SensorInput) -> tuple[int, ...]:
    """Return the parts of the state that an input can take from a type of message."""
    has_position = sensor.kind in _POSE and bool(sensor.used[POSITION].any())
    if kind is GnssFix and has_position:
        return *range(SIZE)[POSITION], YAW
    if kind is Heading and sensor.kind in (*_POSE, *_IMU) and not has_position:
        return (YAW,)
    if kind is WheelSpeed and sensor.kind in _TWIST:
        return tuple(range(SIZE)[VELOCITY])
    if kind is ImuSample and sensor.kind in _IMU:
        return *range(SIZE)[RATES], *range(SIZE)[ACCELERATION]
    return ()


class RobotLocalizationJudge:
    """The extended Kalman filter of robot_localization, stepped at its own frequency."""

    class Params(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
        """Noise of measurements that state none: covariances that a ROS driver would fill in."""

        position_sigma_m: float = 1.0
        heading_sigma_rad: float = 0.05
        speed_sigma_mps: float = 0.1
        gyro_sigma_radps: float = 0.01
        accelerometer_sigma_mps2: float = 0.3

    def __init__(
        self, file: str, overrides: Sequence[str] = (), vehicle: Vehicle | None = None
    ) -> None:
        """``vehicle`` is assumed of every run; without it each run's own. Raises :class:`GapError`
        and RecordingError."""
        self.name = f"{NAME}={file}"
        self._params: RobotLocalizationJudge.Params = parameters(
            RobotLocalizationJudge, "estimator", NAME, overrides
        )
        settings = load(file)
        if settings.unknown:
            raise GapError(
                f"{file}: robot_localization has no parameter {', '.join(settings.unknown)}"
            )
        self._settings, self._fed = _split(settings)
        self._vehicle = vehicle
        if not self._fed:
            raise GapError(
                f"{file}: no input takes what a run of ours holds: x and y of a pose or odom, "
                "yaw of an imu, pose or odom, vx of a twist or odom, rates or accelerations of "
                "an imu"
            )

    def track(self, recording: Recording) -> JudgeTrack:
        """Estimate a run. Raises :class:`GapError` if none of its measurements is an input of the
        filter."""
        steps = steps_of(recording, self._settings.frequency_hz)
        feed = _Feed(
            self._settings, self._fed, self._params, recording, self._vehicle or recording.vehicle
        )
        rows = np.full((len(steps), 5), np.nan)
        inputs = sorted(recording.inputs, key=arrival_ns)
        ends = [bisect_right(inputs, now_ns, key=arrival_ns) for now_ns in steps.tolist()]
        start = 0
        for row, now_ns, end in zip(rows, steps.tolist(), ends):
            for message in inputs[start:end]:
                feed.give(message)
            start = end
            feed.node.step(now_ns)
            state = feed.node.filter
            if state.initialised:
                row[:] = state.x[0], state.x[1], state.x[YAW], state.x[6], state.nis
        if not feed.node.filter.initialised:
            names = ", ".join(sorted({kind.__name__ for kind in self._fed}))
            raise GapError(f"holds no {names}, which are what the inputs of {self.name} take")
        x, y, yaw, speed, nis = rows.T
        return JudgeTrack(steps, x, y, np.unwrap(yaw), speed, nis)


def _split(settings: NodeSettings) -> tuple[NodeSettings, dict[type[Message], list[SensorInput]]]:
    """Return the settings with an input for each type of message that feeds one, and these
    inputs."""
    fed: dict[type[Message], list[SensorInput]] = {}
    for sensor in settings.sensors:
        for kind in (GnssFix, Heading, WheelSpeed, ImuSample):
            used = np.zeros(SIZE, bool)
            parts = list(_parts(kind, sensor))
            used[parts] = sensor.used[parts]
            if used.any():
                fed.setdefault(kind, []).append(
                    replace(sensor, name=f"{sensor.name} {kind.__name__}", used=used)
                )
    return replace(
        settings, sensors=[sensor for sensors in fed.values() for sensor in sensors]
    ), fed


class _Feed:
    """Turns the messages of one run into those that the node takes."""

    def __init__(
        self,
        settings: NodeSettings,
        fed: dict[type[Message], list[SensorInput]],
        params: RobotLocalizationJudge.Params,
        recording: Recording,
        vehicle: Vehicle,
    ) -> None:
        has_heading = any(isinstance(message, Heading) for message in recording.inputs)
        if not has_heading:
            fed = {
                kind: [_without_yaw(sensor) for sensor in sensors]
                for kind, sensors in fed.items()
                if kind is not Heading
            }
            settings = replace(
                settings, sensors=[sensor for sensors in fed.values() for sensor in sensors]
            )
        self.node = Node(settings)
        self._names = {kind: [sensor.name for sensor in sensors] for kind, sensors in fed.items()}
        self._needs_heading = has_heading and any(
            sensor.used[YAW] for sensor in fed.get(GnssFix, ())
        )
        self._params, self._vehicle = params, vehicle
        self._datum, self._arm = recording.datum, recording.lever_arm_m
        self._heading: Heading | None = None

    def give(self, message: Message) -> None:
        if isinstance(message, GnssFix):
            self._fix(message)
        elif isinstance(message, Heading) and isfinite(message.yaw_rad):
            self._heading = message
            self._turned(message)
        elif isinstance(message, WheelSpeed):
            self._wheel(message)
        elif isinstance(message, ImuSample):
            self._inertial(message)
        elif isinstance(message, ActuatorCommand):
            self.node.on_control(message.t_ns, self._velocity(message))

    def _fix(self, fix: GnssFix) -> None:
        position = np.array(self._datum.to_enu(fix.latitude_rad, fix.longitude_rad, fix.height_m))
        if (self._needs_heading and self._heading is None) or not np.isfinite(position).all():
            return
        # As navsat_transform_node does: the antenna is taken to the vehicle by the estimated
        # heading.
        ahead, left, up = self._arm
        yaw = float(self.node.filter.x[YAW])
        position -= (ahead * cos(yaw) - left * sin(yaw), ahead * sin(yaw) + left * cos(yaw), up)
        covariance = np.zeros((6, 6))
        covariance[:3, :3] = _filled(fix.position_covariance_m2, self._params.position_sigma_m)
        turned = _quaternion(0.0)
        if self._heading:
            turned = _quaternion(self._heading.yaw_rad)
            covariance[5, 5] = _known(self._heading.sigma_rad, self._params.heading_sigma_rad) ** 2
        for name in self._names.get(GnssFix, ()):
            self.node.on_odometry(
                name, PoseMessage(fix.t_ns, position, turned, covariance, ""), None
            )

    def _turned(self, heading: Heading) -> None:
        nothing, covariance = np.zeros(3), np.zeros((6, 6))
        covariance[3:, 3:] = (
            np.eye(3) * _known(heading.sigma_rad, self._params.heading_sigma_rad) ** 2
        )
        turned = _quaternion(heading.yaw_rad)
        for name in self._names.get(Heading, ()):
            if name.startswith("imu"):
                none = np.zeros((3, 3))
                self.node.on_imu(
                    name,
                    ImuMessage(
                        heading.t_ns, turned, covariance[3:, 3:], nothing, none, nothing, none, ""
                    ),
                )
            else:
                self.node.on_odometry(
                    name, PoseMessage(heading.t_ns, nothing, turned, covariance, ""), None
                )

    def _wheel(self, wheel: WheelSpeed) -> None:
        if not isfinite(wheel.speed_mps):
            return
        # A wheel does not slip sideways: its lateral speed is 0 with the same doubt.
        velocity = np.zeros(6)
        covariance = np.eye(6) * _known(wheel.sigma_mps, self._params.speed_sigma_mps) ** 2
        velocity[0] = wheel.speed_mps
        for name in self._names.get(WheelSpeed, ()):
            self.node.on_odometry(name, None, TwistMessage(wheel.t_ns, velocity, covariance, ""))

    def _inertial(self, sample: ImuSample) -> None:
        rates, force = np.array(sample.angular_rate_radps), np.array(sample.specific_force_mps2)
        of_rates = np.eye(3) * self._params.gyro_sigma_radps**2
        of_force = np.eye(3) * self._params.accelerometer_sigma_mps2**2
        for name in self._names.get(ImuSample, ()):
            self.node.on_imu(
                name,
                ImuMessage(
                    sample.t_ns, None, np.zeros((3, 3)), rates, of_rates, force, of_force, ""
                ),
            )

    def _velocity(self, command: ActuatorCommand) -> np.ndarray:
        """Return the velocities (6,) that a command would settle to: what ``cmd_vel`` is to
        robot_localization."""
        throttle = command.throttle if isfinite(command.throttle) and command.brake <= 0.0 else 0.0
        speed = copysign(max(0.0, self._vehicle.drive.steady_speed_mps(abs(throttle))), throttle)
        turn = (
            speed * tan(command.wheel_angle_rad) / self._vehicle.wheelbase_m
            if isfinite(command.wheel_angle_rad)
            else 0.0
        )
        return np.array((speed, 0.0, 0.0, 0.0, 0.0, turn))


def _known(sigma: float, otherwise: float) -> float:
    return sigma if isfinite(sigma) else otherwise


def _filled(covariance: Sequence[float], sigma: float) -> np.ndarray:
    """Return the covariance (3, 3) with unknown variances replaced, and unknown correlations by
    0."""
    found = np.array(covariance).reshape(3, 3)
    found[~np.isfinite(found)] = 0.0
    unknown = np.flatnonzero(~np.isfinite(np.array(covariance)[::4]))
    found[unknown, unknown] = sigma * sigma
    return found


def _without_yaw(sensor: SensorInput) -> SensorInput:
    used = sensor.used.copy()
    used[YAW] = False
    return replace(sensor, used=used)


def _quaternion(yaw_rad: float) -> tuple[float, float, float, float]:
    return 0.0, 0.0, sin(0.5 * yaw_rad), cos(0.5 * yaw_rad)
