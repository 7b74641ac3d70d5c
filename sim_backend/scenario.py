"""Scenario before the drive: the operator aligns the vehicle by driving, or pushes it."""

from collections.abc import Sequence
from math import cos, hypot, sin
from typing import Literal

from msgspec.structs import replace

from sim_backend.plant.interface import Motion, Plant, StartPose
from vehicled.core.messages import OperatorAction, OperatorCommand
from vehicled.profile.schema import Profile

Start = Literal["stand", "align", "push"]
STARTS: Sequence[Start] = ("stand", "align", "push")
ASK_NS = 300_000_000
STOOD_NS = 1_500_000_000
"""Standstill after the first motion before the operator arms the vehicle, ns."""
MOVED_M = 0.5
STANDING_MPS = 0.02
PUSH_M, PUSH_MPS, PUSH_MPS2 = 3.0, 1.2, 1.5
PUSH_AFTER_NS = 3_000_000_000
"""Delay of the push, ns; receivers are configured and have fixes by then."""


def default_start(profile: Profile) -> Start:
    """Return how a vehicle of this profile finds its heading: from a device or a map, else by
    driving."""
    measured = any(
        {"Heading", "MapPose"} & {*device.messages} for device in profile.devices.values()
    )
    return (
        "stand"
        if measured or profile.localisation is not None or not profile.alignment.allowed
        else "align"
    )


def pose_behind(pose: StartPose, distance_m: float) -> StartPose:
    """Return the pose from which driving straight ahead leads to ``pose``."""
    return StartPose(
        pose.x_m - distance_m * cos(pose.yaw_rad),
        pose.y_m - distance_m * sin(pose.yaw_rad),
        pose.yaw_rad,
    )


class AlignmentOperator:
    """Operator that arms the vehicle after it has moved and stopped; with ``aligns`` it requests
    that motion first.

    It is a sensor of the world, because an operator sees the vehicle.
    """

    rate_hz = 10.0
    least_latency_ns = 0

    def __init__(self, begin_ns: int, *, aligns: bool) -> None:
        self._ask_ns = begin_ns + ASK_NS
        self._pending = [OperatorAction.ALIGN] if aligns else []
        self._from: tuple[float, float] | None = None
        self._still_ns: int | None = None
        self._done = False

    def sample(self, t_ns: int, motion: Motion) -> tuple[int, OperatorCommand | None]:
        """Return the request due at this instant, or None."""
        if self._from is None:
            self._from = motion.x_m, motion.y_m
        moved = hypot(motion.x_m - self._from[0], motion.y_m - self._from[1]) >= MOVED_M
        if not moved or abs(motion.speed_mps) > STANDING_MPS:
            self._still_ns = t_ns
        elif not self._done and self._still_ns is not None and t_ns - self._still_ns >= STOOD_NS:
            self._done = True
            self._pending += [OperatorAction.ARM, OperatorAction.DRIVE]
        if not self._pending or t_ns < self._ask_ns:
            return t_ns, None
        return t_ns, OperatorCommand(t_ns, 0, self._pending.pop(0), "scenario")


class PushedPlant:
    """Plant that is pushed straight ahead once, up to the pose of the wrapped plant.

    The push is kinematic: wheels roll without slip and brakes are overcome. The wrapped plant
    stands braked meanwhile.
    """

    def __init__(self, inside: Plant, profile: Profile, step_s: float) -> None:
        self._inside, self._step_s = inside, step_s
        drive = profile.sim.drive or profile.vehicle.drive
        self._wheel_radius_m, self._gear_ratio = drive.wheel_radius_m, drive.gear_ratio
        self._ramp_s = PUSH_MPS / PUSH_MPS2
        self._whole_s = self._ramp_s + PUSH_M / PUSH_MPS
        self._time_s: float | None = None
        self._begins_s = 0.0

    def begin(self, after_s: float) -> None:
        """Start the push ``after_s`` from now."""
        self._time_s, self._begins_s = 0.0, after_s

    @property
    def motor_speed_radps(self) -> float:
        return self.motion().motor_speed_radps

    def step(self, throttle: float, brake: float, wheel_angle_rad: float) -> None:
        if self._time_s is not None and self._time_s >= self._begins_s + self._whole_s:
            self._inside.step(throttle, brake, wheel_angle_rad)
            return
        if self._time_s is not None:
            self._time_s += self._step_s
        self._inside.step(0.0, 1.0, wheel_angle_rad)

    def motion(self) -> Motion:
        """Return the wrapped plant's motion, shifted back while the push lasts."""
        at = self._inside.motion()
        t_s = min(max((self._time_s or 0.0) - self._begins_s, 0.0), self._whole_s)
        if t_s >= self._whole_s:
            return at
        rising_s, falling_s = min(t_s, self._ramp_s), max(t_s - (self._whole_s - self._ramp_s), 0.0)
        speed = PUSH_MPS2 * (rising_s - falling_s)
        moved_m = 0.5 * PUSH_MPS2 * (rising_s**2 - falling_s**2) + PUSH_MPS * max(
            t_s - self._ramp_s, 0.0
        )
        acceleration = 0.0
        if 0.0 < t_s < self._ramp_s:
            acceleration = PUSH_MPS2
        elif falling_s > 0.0:
            acceleration = -PUSH_MPS2
        left_m, wheel = PUSH_M - moved_m, speed / self._wheel_radius_m
        return replace(
            at,
            x_m=at.x_m - left_m * cos(at.yaw_rad),
            y_m=at.y_m - left_m * sin(at.yaw_rad),
            speed_mps=speed,
            acceleration_mps2=acceleration,
            motor_speed_radps=wheel / self._gear_ratio,
            wheel_speeds_radps=(wheel,) * 4,
        )
