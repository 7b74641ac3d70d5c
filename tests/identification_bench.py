"""A vehicle on paper for the tests of identification: it is driven, measured and estimated without
any of the code under test."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import cos, remainder, sin, tan, tau

import numpy as np

from tests.vehicles import make_drive, make_steering, make_vehicle
from vehicled.core.messages import (
    ActuatorCommand,
    EstimatorStatus,
    Heading,
    HeadingKind,
    Identification,
    ImuSample,
    StateEstimate,
    WheelSpeed,
)
from vehicled.estimation.identification.identifier import SingleTrackIdentifier

STEP_S = 0.02
STEP_NS = 20_000_000

BELIEVED = make_vehicle(
    track_m=0.33,
    length_m=0.6,
    width_m=0.4,
    mass_kg=7.0,
    steering=make_steering(offset_rad=0.01, max_wheel_rad=0.6, rate_radps=1.0, delay_s=0.3),
    drive=make_drive(wheel_radius_m=0.0845),
)
"""Vehicle of the profile."""


@dataclass
class Truth:
    """True parameters of the vehicle, which may change while it drives."""

    gain_rad: float = 0.335
    offset_rad: float = 0.01
    delay_s: float = 0.3
    dead_zone: float = 0.0
    authority_mps2: float = 2.5
    damping_per_s: float = 0.66
    friction_mps2: float = 0.56
    wheel_scale: float = 1.0
    misalignment_rad: float = 0.0


@dataclass
class Driven:
    """Columns of a drive, one row per step."""

    t_s: list[float]
    steering: list[float]
    yaw_rate_radps: list[float]
    speed_mps: list[float]


class Drill:
    """Drives a vehicle by given commands and feeds the identifier."""

    def __init__(self, truth: Truth, identifier: SingleTrackIdentifier, seed: int = 1) -> None:
        self.truth = truth
        self.identifier = identifier
        self.results: list[Identification] = []
        self.driven = Driven([], [], [], [])
        self._random = np.random.default_rng(seed)
        self._now_ns = 1_000_000_000
        self._steering: deque[float] = deque([0.0] * 100, maxlen=100)
        self._throttle: deque[float] = deque([0.0] * 100, maxlen=100)
        self._wheel = 0.0
        self._x = self._y = self._yaw = 0.0
        self.speed_mps = 0.0

    def drive(
        self,
        duration_s: float,
        steering: Callable[[float], float],
        throttle: Callable[[float, float], float] = lambda t, v: min(
            1.0, max(0.0, 0.5 + 1.5 * (1.2 - v))
        ),
        noise: float = 1.0,
    ) -> None:
        """Drive on. ``throttle`` is a function of time and speed; the default holds 1.2 m/s."""
        for k in range(int(duration_s / STEP_S)):
            t = k * STEP_S
            self._step(steering(t), throttle(t, self.speed_mps), noise)

    @property
    def known(self) -> Identification:
        """Newest answer of the identifier."""
        return self.results[-1]

    def _step(self, steering: float, throttle: float, noise: float) -> None:
        q, normal = self.truth, self._random.normal
        self.identifier.command(
            ActuatorCommand(
                self._now_ns,
                self._now_ns,
                throttle,
                0.0,
                steering,
                BELIEVED.steering.wheel_angle_rad(steering),
            )
        )
        self._steering.append(steering)
        self._throttle.append(throttle)
        late = self._steering[-1 - round(q.delay_s / STEP_S)]
        effective = max(abs(late) - q.dead_zone, 0.0) / (1.0 - q.dead_zone)
        target = q.offset_rad + q.gain_rad * (effective if late > 0.0 else -effective)
        before, limit = self._wheel, BELIEVED.steering.rate_radps * STEP_S
        self._wheel += min(max(target - self._wheel, -limit), limit)
        force = (
            q.authority_mps2 * self._throttle[-1 - round(0.1 / STEP_S)]
            - q.damping_per_s * self.speed_mps
            - q.friction_mps2
        )
        v0 = self.speed_mps
        self.speed_mps = max(0.0, v0 + force * STEP_S)
        speed = 0.5 * (v0 + self.speed_mps)
        rate = speed * tan(0.5 * (before + self._wheel)) / BELIEVED.wheelbase_m
        self._x += STEP_S * speed * cos(self._yaw + 0.5 * STEP_S * rate)
        self._y += STEP_S * speed * sin(self._yaw + 0.5 * STEP_S * rate)
        self._yaw += STEP_S * rate
        self._now_ns += STEP_NS
        now = self._now_ns
        see = self.identifier.observe
        see(ImuSample(now, now, (0.0, 0.0, 9.8), (0.0, 0.0, rate + noise * normal(0.0, 0.005))))
        see(
            WheelSpeed(now, now, (self.speed_mps + noise * normal(0.0, 0.01)) / q.wheel_scale, 0.02)
        )
        if (now // STEP_NS) % 5 == 0:
            yaw = self._yaw + q.misalignment_rad + noise * normal(0.0, 0.01)
            see(Heading(now, now, remainder(yaw, tau), 0.01, HeadingKind.MOVING_BASE))
        estimate = StateEstimate(
            now,
            now,
            self._x + noise * normal(0.0, 0.005),
            self._y + noise * normal(0.0, 0.005),
            remainder(self._yaw, tau),
            self.speed_mps + noise * normal(0.0, 0.02),
            rate,
            (4e-4, 0.0, 0.0, 0.0, 0.0, 4e-4, 0.0, 0.0, 0.0, 0.0, 1e-4, 0.0, 0.0, 0.0, 0.0, 4e-4),
            EstimatorStatus.RUNNING,
        )
        found = self.identifier.step(estimate, now)
        if found is not None:
            self.results.append(found)
        d = self.driven
        d.t_s.append(now * 1e-9)
        d.steering.append(steering)
        d.yaw_rate_radps.append(rate)
        d.speed_mps.append(self.speed_mps)


def weave(t: float) -> float:
    """A winding course: two tones, so that no delay looks like another."""
    return 0.45 * sin(tau * t / 7.0) + 0.35 * sin(tau * t / 2.9 + 1.0)


def identifier(**params: object) -> SingleTrackIdentifier:
    """Return an identifier that starts from :data:`BELIEVED`."""
    return SingleTrackIdentifier(SingleTrackIdentifier.Params(**params), BELIEVED)  # type: ignore[arg-type]
