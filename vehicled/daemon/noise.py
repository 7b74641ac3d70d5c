"""Noise added to the messages of a real sensor, in time: the device of ``[devices.NAME.noise]``.

The bytes in the log are those of the sensor; the messages after them are noisy, in a replay too.
"""

from collections import deque
from collections.abc import Sequence
from math import cos, exp, floor, pi, remainder, sqrt
from typing import Any
from zlib import crc32

import numpy as np
from msgspec.structs import replace

from vehicled.core.messages import (
    Event,
    GnssFix,
    Heading,
    MapPose,
    Matrix3,
    Message,
    PortState,
)
from vehicled.core.ports import Action, Device
from vehicled.core.wire.geodesy import SEMI_MAJOR_M
from vehicled.profile.gnss import RandomWalk
from vehicled.profile.noise import SensorNoise

WALKS = frozenset({"random_walk", "art_inner", "art_simulator", "art_judge"})
MOST_STEPS = 10_000
"""Most steps of a random walk after a silence: by then it has forgotten."""
EARTH_M = SEMI_MAJOR_M


class _Normals:
    """Unit normals of one process, the same on every processor."""

    def __init__(self, seed: int, name: str) -> None:
        sequence = np.random.SeedSequence(seed, spawn_key=(crc32(name.encode()),))
        self._generator = np.random.Generator(np.random.PCG64(sequence))
        self._left: list[float] = []

    def __call__(self) -> float:
        if not self._left:
            self._left = self._generator.standard_normal(256)[::-1].tolist()
        return self._left.pop()


class IrregularGaussMarkov:
    """First-order Gauss-Markov process, exact for any step of time, stationary from the start."""

    def __init__(self, sigma: float, time_s: float, normals: _Normals) -> None:
        self._sigma, self._time_s, self._normals = sigma, time_s, normals
        self._value = sigma * normals()
        self._t_ns: int | None = None

    def at(self, t_ns: int) -> float:
        """Return the value at a time, which never goes back."""
        if self._t_ns is not None and t_ns > self._t_ns:
            phi = exp(-(t_ns - self._t_ns) * 1e-9 / self._time_s)
            drive = self._sigma * sqrt(1.0 - phi * phi)
            self._value = phi * self._value + drive * self._normals()
        self._t_ns = t_ns if self._t_ns is None else max(t_ns, self._t_ns)
        return self._value


class WalkInAcceleration:
    """Random walk in the second derivative of two axes, see
    :class:`vehicled.profile.gnss.RandomWalk`. It steps at its own rate from the first
    measurement."""

    def __init__(self, form: RandomWalk, normals: _Normals) -> None:
        self._form, self._normals = form, normals
        self._place, self._speed = [0.0, 0.0], [0.0, 0.0]
        self._begun_ns: int | None = None
        self._steps = 0

    def at(self, t_ns: int) -> tuple[float, float]:
        """Return the error east and north at a time."""
        if self._begun_ns is None:
            self._begun_ns = t_ns
        due = floor((t_ns - self._begun_ns) * 1e-9 * self._form.rate_hz + 1e-6)
        for _ in range(min(due - self._steps, MOST_STEPS)):
            self._advance()
        self._steps = max(due, self._steps)
        return self._place[0], self._place[1]

    def _advance(self) -> None:
        form = self._form
        for axis in (0, 1):
            pulled = min(max(self._place[axis] / form.pull_range_m, -1.0), 1.0)
            drawn = form.sigma * (self._normals() - form.pull * pulled)
            step = min(max(drawn, -form.acceleration_cut), form.acceleration_cut) * form.step_s
            speed = min(max(self._speed[axis] + step, -form.speed_cut), form.speed_cut)
            self._speed[axis] = speed
            self._place[axis] += speed * form.step_s


class PositionNoise:
    """Position error of a form, east and north."""

    def __init__(self, noise: SensorNoise, name: str) -> None:
        self._white = 0.0
        self._normals = _Normals(noise.seed, f"{name}/white")
        self._walk: WalkInAcceleration | None = None
        self._coloured: tuple[IrregularGaussMarkov, ...] = ()
        self.variance_m2 = 0.0
        """Variance per axis, as a sensor should state it."""
        form: Any = getattr(noise, noise.position, None)
        own = _Normals(noise.seed, f"{name}/walk")
        if noise.position in WALKS:
            self._walk = WalkInAcceleration(form, own)
            self.variance_m2 = form.settled_sigma_m**2
        elif noise.position == "walk":
            self._white = form.sigma_m
            self._coloured = (
                IrregularGaussMarkov(form.walk_sigma_m, form.walk_time_s, own),
                IrregularGaussMarkov(form.walk_sigma_m, form.walk_time_s, own),
            )
            self.variance_m2 = form.sigma_m**2 + form.walk_sigma_m**2
        elif noise.position == "gauss":
            self._white = form.sigma_m
            self.variance_m2 = form.sigma_m**2
        self.variance_m2 += noise.step_m**2 / 12.0

    def at(self, t_ns: int) -> tuple[float, float]:
        """Return the error at a time."""
        east, north = (0.0, 0.0) if self._walk is None else self._walk.at(t_ns)
        if self._coloured:
            east, north = self._coloured[0].at(t_ns), self._coloured[1].at(t_ns)
        if self._white:
            east += self._white * self._normals()
            north += self._white * self._normals()
        return east, north


class NoisyDevice(Device):
    """Device whose measurements get noise on their way. All else passes as it is."""

    def __init__(self, device: Device, noise: SensorNoise, name: str) -> None:
        """``name``: port of the device, which chooses its random streams."""
        self._device = device
        self._noise = noise
        self._name = name
        self.produces = device.produces  # type: ignore[misc]
        self.command_only = device.command_only  # type: ignore[misc]
        self.transport = device.transport  # type: ignore[misc]
        self.moving_base_rover = device.moving_base_rover
        self.consumes = device.consumes
        self.usage = device.usage
        self._late: deque[tuple[int, Message]] = deque()
        self._delay_ns = round(noise.delay_s * 1e9)
        self._period_ns = 0 if noise.rate_hz is None else round(1e9 / noise.rate_hz)
        self._begin()

    def __getattr__(self, name: str) -> Any:
        """Return what else the device has, such as its counters."""
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._device, name)

    def _begin(self) -> None:
        noise, name = self._noise, self._name
        self._late.clear()
        self._passed_ns: dict[type[Message], int] = {}
        self._position = PositionNoise(noise, name)
        self._white = _Normals(noise.seed, f"{name}/yaw")
        self._drift = IrregularGaussMarkov(
            noise.yaw_drift_rad, noise.yaw_drift_s, _Normals(noise.seed, f"{name}/drift")
        )
        self._yaw_variance = (
            noise.yaw_sigma_rad**2 + noise.yaw_drift_rad**2 + noise.yaw_step_rad**2 / 12.0
        )

    # ---------------------------------------------------------------- Device

    @property
    def refusal(self) -> str:
        return self._device.refusal

    def mount(self, lever_arm_m: Sequence[float]) -> None:
        self._device.mount(lever_arm_m)

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        """Drop what is delayed; say that noise is injected when the port opens."""
        self._late.clear()
        messages = list(self._device.on_port(state, detail, now_ns))
        if state is PortState.OPENED:
            text = self._noise.described()
            messages.append(
                Event.of(now_ns, "warning", "noise_injected", device=self._name, noise=text)
            )
        return messages

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        return self._noisy(self._device.on_rx(data, t_rx_ns), t_rx_ns)

    def on_command(self, command: Message, now_ns: int) -> None:
        self._device.on_command(command, now_ns)

    def next_due_ns(self) -> int:
        due_ns = self._device.next_due_ns()
        return min(due_ns, self._late[0][0]) if self._late else due_ns

    def on_time(self, now_ns: int) -> Sequence[Message]:
        """Run the device's duties, and pass on what was delayed long enough."""
        messages: list[Message] = []
        if self._device.next_due_ns() <= now_ns:
            messages += self._noisy(self._device.on_time(now_ns), now_ns)
        while self._late and self._late[0][0] <= now_ns:
            _, message = self._late.popleft()
            messages.append(replace(message, t_rx_ns=now_ns))
        return messages

    def take_tx(self) -> Sequence[Action]:
        return self._device.take_tx()

    # ---------------------------------------------------------------- noise

    def _noisy(self, messages: Sequence[Message], now_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        for message in messages:
            if not isinstance(message, GnssFix | Heading | MapPose):
                found.append(message)
                continue
            if self._left_out(message):
                continue
            message = self._with_noise(message)
            if self._delay_ns:
                self._late.append((now_ns + self._delay_ns, message))
            else:
                found.append(message)
        return found

    def _left_out(self, message: GnssFix | Heading | MapPose) -> bool:
        """Keep a grid of the rate: one message for each of its periods."""
        if not self._period_ns:
            return False
        period = message.t_ns // self._period_ns
        if self._passed_ns.get(type(message)) == period:
            return True
        self._passed_ns[type(message)] = period
        return False

    def _with_noise(self, message: GnssFix | Heading | MapPose) -> Message:
        noise = self._noise
        if isinstance(message, Heading):
            yaw_rad = self._turned(message.yaw_rad, message.t_ns)
            variance = message.sigma_rad**2 + (self._yaw_variance if noise.declared else 0.0)
            return replace(message, yaw_rad=yaw_rad, sigma_rad=sqrt(variance))
        east, north = self._position.at(message.t_ns)
        if isinstance(message, MapPose):
            return replace(
                message,
                x_m=_rounded(message.x_m + east, noise.step_m),
                y_m=_rounded(message.y_m + north, noise.step_m),
                yaw_rad=self._turned(message.yaw_rad, message.t_ns),
                covariance=self._grown(message.covariance, self._yaw_variance),
            )
        white = noise.velocity_sigma_mps
        velocity = message.velocity_enu_mps
        spread = message.velocity_covariance_m2ps2
        if white:
            velocity = tuple([each + white * self._white() for each in velocity])
            if noise.declared:
                spread = _plus(spread, (white * white,) * 3)
        across = EARTH_M * max(cos(message.latitude_rad), 1e-6)
        step = noise.step_m
        return replace(
            message,
            latitude_rad=_rounded(message.latitude_rad + north / EARTH_M, step / EARTH_M),
            longitude_rad=_rounded(message.longitude_rad + east / across, step / across),
            velocity_enu_mps=velocity,
            velocity_covariance_m2ps2=spread,
            position_covariance_m2=self._grown(message.position_covariance_m2, 0.0),
        )

    def _turned(self, yaw_rad: float, t_ns: int) -> float:
        noise = self._noise
        white = noise.yaw_sigma_rad * self._white() if noise.yaw_sigma_rad else 0.0
        turned = yaw_rad + white + self._drift.at(t_ns)
        return remainder(_rounded(turned, noise.yaw_step_rad), 2.0 * pi)

    def _grown(self, covariance: Matrix3, last: float) -> Matrix3:
        if not self._noise.declared:
            return covariance
        own = self._position.variance_m2
        return _plus(covariance, (own, own, last))


def _plus(covariance: Matrix3, variances: tuple[float, float, float]) -> Matrix3:
    found = list(covariance)
    for i, variance in enumerate(variances):
        found[4 * i] += variance
    return tuple(found)


def _rounded(value: float, step: float) -> float:
    return round(value / step) * step if step else value
