"""Open-loop prediction of a vehicle from recorded commands, from many starts at once.

The model is that of :mod:`vehicled.estimation.four_dof`, over arrays: delay, dead zone, slew and
stop of the steering, the motor, and the kinematic single track of the rear axle.
"""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from vehicled.core.arrays import Array
from vehicled.core.messages import ActuatorCommand
from vehicled.core.vehicle import Vehicle
from vehicled.estimation.four_dof import drive_rate
from vehicled.offline.recordings.recording import Times, held

SETTLE_S = 1.0
"""Time before the start for which the wheel is simulated, so that it has slewed to its true
angle."""


class RecordedCommands(Struct, frozen=True):
    """Recorded commands as columns, in order of time."""

    t_ns: Times
    throttle: Array
    brake: Array
    steering: Array

    @classmethod
    def of(cls, messages: Sequence[object]) -> "RecordedCommands":
        """The commands among messages."""
        found = sorted(
            (m for m in messages if isinstance(m, ActuatorCommand)), key=lambda m: m.t_ns
        )
        return cls(
            np.array([m.t_ns for m in found], dtype=np.int64),
            *(
                np.array([getattr(m, name) for m in found], dtype=np.float64)
                for name in ("throttle", "brake", "steering")
            ),
        )

    def at(self, column: Array, t_ns: Array) -> Array:
        """A column's value in force at times (n,); 0 before the first command."""
        return held(t_ns, self.t_ns, column, 0.0)


class _Beliefs:
    """Parameters of the vehicle at each start, as arrays (n,)."""

    def __init__(self, vehicles: Sequence[Vehicle]) -> None:
        # Most starts share a vehicle: it is unpacked once.
        different = {id(vehicle): vehicle for vehicle in vehicles}
        unpacked = {key: _numbers(vehicle) for key, vehicle in different.items()}
        columns = (
            np.array([unpacked[id(vehicle)] for vehicle in vehicles], dtype=np.float64)
            .reshape(-1, 12)
            .T
        )
        self.wheelbase, self.gain, self.offset, self.lock, self.rate, self.dead_zone = columns[:6]
        self.steering_delay_ns, self.drive_delay_ns = 1e9 * columns[6], 1e9 * columns[7]
        self.authority, self.damping, self.friction, self.braking = columns[8:]

    def target(self, steering: Array) -> Array:
        """Wheel angle that commands lead to."""
        effective = np.maximum(np.abs(steering) - self.dead_zone, 0.0) / (1.0 - self.dead_zone)
        angle: Array = np.clip(
            self.offset + self.gain * np.copysign(effective, steering), -self.lock, self.lock
        )
        return angle


def _numbers(vehicle: Vehicle) -> tuple[float, ...]:
    steering, drive = vehicle.steering, vehicle.drive
    per_torque = drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2
    return (
        vehicle.wheelbase_m,
        steering.gain_rad, steering.offset_rad, steering.max_wheel_rad, steering.rate_radps,
        steering.dead_zone, steering.delay_s, drive.delay_s,
        drive.stall_torque_nm * per_torque, drive_rate(drive), drive.friction_nm * per_torque,
        drive.brake_deceleration_mps2,
    )  # fmt: skip


def predict(
    vehicles: Sequence[Vehicle],
    commands: RecordedCommands,
    t_ns: Times,
    start: Array,
    horizon_s: Array,
    steps: int = 50,
) -> Array:
    """States (n, 4) over (x, y, yaw, speed) that follow ``horizon_s`` (n,) after the states
    ``start`` (n, 4) at ``t_ns`` (n,).

    ``vehicles`` (n) is what is believed at each start; the commands are those that were given
    before and after it. Speed is integrated exactly within a step and does not change its sign by
    friction or brake, the pose by the midpoint rule.
    """
    b = _Beliefs(vehicles)
    begin = t_ns.astype(np.float64)
    step_s = horizon_s / steps

    def wheel_target(after_s: Array) -> Array:
        return b.target(commands.at(commands.steering, begin + after_s * 1e9 - b.steering_delay_ns))

    def slewed(wheel: Array, after_s: Array, step_s: Array) -> Array:
        return wheel + np.clip(wheel_target(after_s) - wheel, -b.rate * step_s, b.rate * step_s)

    settling_s = np.full(len(begin), SETTLE_S / steps)
    wheel = wheel_target(-steps * settling_s)
    for k in range(steps):
        wheel = slewed(wheel, (k + 0.5 - steps) * settling_s, settling_s)
    x, y, yaw, v = (start[:, i].copy() for i in range(4))
    decay = np.exp(-b.damping * step_s)
    reach = np.where(b.damping > 1e-9, (1.0 - decay) / np.maximum(b.damping, 1e-9), step_s)
    for k in range(steps):
        middle_s = (k + 0.5) * step_s
        when = begin + middle_s * 1e9 - b.drive_delay_ns
        throttle = commands.at(commands.throttle, when)
        resistance = b.friction + b.braking * commands.at(commands.brake, when)
        # Friction and brake stand against the motion, at rest against the drive; they end a motion
        # and never begin one.
        forward = (v > 0.0) | ((v == 0.0) & (throttle >= 0.0))
        free = (
            v * decay
            + (b.authority * throttle + np.where(forward, -resistance, resistance)) * reach
        )
        following = np.where(forward, np.maximum(free, 0.0), np.minimum(free, 0.0))
        moved = slewed(wheel, middle_s, step_s)
        speed = 0.5 * (v + following)
        rate = speed * np.tan(0.5 * (wheel + moved)) / b.wheelbase
        x += step_s * speed * np.cos(yaw + 0.5 * step_s * rate)
        y += step_s * speed * np.sin(yaw + 0.5 * step_s * rate)
        yaw += step_s * rate
        v, wheel = following, moved
    return np.stack([x, y, yaw, v], axis=1)
