"""Controller that follows another one, and now and then holds the wheels at another angle than it
commands.

A policy that has only seen the course of an expert does not know the way back to it. In bursts the
vehicle leaves the course; the rows then hold how the expert returns (disturbances for augmenting
robot trajectories, Laskey et al. 2017).
"""

from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct
from msgspec.structs import replace

from vehicled.control.interface import Controller
from vehicled.control.path_follower import PathFollower
from vehicled.control.speed import SpeedParams
from vehicled.core.messages import ControlCommand, LaserScan, StateEstimate
from vehicled.core.vehicle import Limits, NonNegative, Positive, Vehicle
from vehicled.paths.course import Course
from vehicled.profile.registry import resolve

REFERENCE = "vehicled.offline.learning.exploring:Exploring"


class ExploringParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The controller that drives, and its disturbance."""

    controller: str = "mpc"
    disturbance_rad: NonNegative = 0.15
    """Standard deviation of the angle by which the wheels are turned and then held in a burst."""
    pause_s: Positive = 4.0
    """Mean time between two bursts."""
    longest_s: Positive = 1.5
    """Longest burst."""
    seed: Annotated[int, Meta(ge=0)] = 1
    speed: SpeedParams = SpeedParams()


class Exploring(Controller):
    """See the module."""

    Params: ClassVar[type[ExploringParams]] = ExploringParams

    def __init__(
        self,
        params: ExploringParams,
        vehicle: Vehicle,
        limits: Limits,
        course: Course,
        period_s: float,
    ) -> None:
        self._p = params
        kind = resolve("controller", params.controller)
        self._inner: Controller = kind(kind.Params(), vehicle, limits, course, period_s)
        self._lock_rad = vehicle.steering.max_wheel_rad
        self._draws = np.random.default_rng(params.seed)
        self.reset()

    @property
    def finished(self) -> bool:
        return self._inner.finished

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        self._inner.reset(s_m, wheel_rad)
        self._until_ns = self._next_ns = -1
        self._held_rad = 0.0

    def adapt(self, vehicle: Vehicle) -> None:
        self._inner.adapt(vehicle)

    def limit_speed(self, cap_mps: float) -> None:
        self._inner.limit_speed(cap_mps)

    def on_deadline_miss(self) -> None:
        self._inner.on_deadline_miss()

    def on_scan(self, scan: LaserScan) -> None:
        self._inner.on_scan(scan)

    def on_command_sent(self, throttle: float, brake: float) -> None:
        self._inner.on_command_sent(throttle, brake)

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        command = self._inner.step(estimate, now_ns)
        if self._next_ns < 0:
            self._next_ns = now_ns + self._drawn_ns(self._p.pause_s)
        if now_ns >= self._next_ns:
            held_rad = command.wheel_angle_rad + self._p.disturbance_rad * float(
                self._draws.standard_normal()
            )
            self._held_rad = min(max(held_rad, -self._lock_rad), self._lock_rad)
            self._until_ns = now_ns + round(self._p.longest_s * 1e9 * float(self._draws.random()))
            self._next_ns = self._until_ns + self._drawn_ns(self._p.pause_s)
        if now_ns >= self._until_ns:
            return command
        if isinstance(self._inner, PathFollower):
            self._inner.overrule(self._held_rad, command.throttle, command.brake)
        return replace(command, wheel_angle_rad=self._held_rad)

    def _drawn_ns(self, mean_s: float) -> int:
        return round(1e9 * min(mean_s * float(self._draws.standard_exponential()), 10.0 * mean_s))
