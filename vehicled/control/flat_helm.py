"""A helm that predicts with tyres: where the rear axle is when the command begins to turn the wheels, how it slips and turns there.

The single track with linear tyres, as two masses over the axles (yaw inertia m a b, not far from that of most vehicles; then what
one axle does leaves the other alone). With r the yaw rate, w the velocity of the rear axle to the left, l the wheelbase:

    dw/dt         = -v r - w / (v c_r)                         rear axle
    dw/dt + l dr/dt = -v r + (delta - (w + l r) / v) / c_f     front axle

c_r is ``rear_slip_rad_per_mps2``, c_f that and ``understeer_rad_per_mps2``: slip angles by lateral acceleration. Both 0 is the
vehicle whose tyres do not slip.
"""

from math import cos, exp, isfinite, sin, tan
from typing import NamedTuple

from vehicled.control.helm import Helm
from vehicled.control.preview import Preview
from vehicled.estimation.four_dof import slew
from vehicled.messages import StateEstimate
from vehicled.vehicle import Vehicle

STEP_NS = 10_000_000
SLIPPING_MPS = 1.0
"""Slower, the tyres roll: their equations are stiff there and say nothing."""


class Slip(NamedTuple):
    """How the rear axle moves other than straight on."""

    left_mps: float
    """Its velocity to the left."""
    yaw_rate_radps: float


def compliances(vehicle: Vehicle) -> tuple[float, float]:
    """Slip angles of front and rear axle by lateral acceleration (rad per m/s2)."""
    rear = vehicle.rear_slip_rad_per_mps2
    return rear + vehicle.understeer_rad_per_mps2, rear


def slip_step(vehicle: Vehicle, slip: Slip, speed_mps: float, wheel_rad: float, dt_s: float) -> Slip:
    """Slip ``dt_s`` later with the wheels at an angle. Forward only; each axle's own decay is exact: stable at any step."""
    front, rear = compliances(vehicle)
    base_m, v = vehicle.wheelbase_m, speed_mps
    if v < SLIPPING_MPS or rear <= 0.0:
        return Slip(0.0, v * tan(wheel_rad) / vehicle.turning_base_m(v))
    left, rate = slip
    ahead_mps = left + base_m * rate
    turned = v * rate
    ends_rear = -v * rear * turned
    ends_front = v * (tan(wheel_rad) - front * turned)
    left = ends_rear + (left - ends_rear) * exp(-dt_s / (v * rear))
    ahead_mps = ends_front + (ahead_mps - ends_front) * exp(-dt_s / (v * front))
    return Slip(left, (ahead_mps - left) / base_m)


class FlatHelm(Helm):
    """``slip`` is that at the pose predicted; the yaw of that pose is where the rear axle moves."""

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        """See :class:`~vehicled.control.interface.Controller`."""
        super().reset(s_m, wheel_rad)
        self.slip = Slip(0.0, 0.0)
        self._left_mps = 0.0
        self._slip_ns: int | None = None

    def _slip_now(self, estimate: StateEstimate, t_ns: int, speed_mps: float, wheel_rad: float) -> Slip:
        """Of the time of the estimate: the yaw rate is measured, the rear axle follows from it."""
        rate, rear = estimate.yaw_rate_radps, self.vehicle.rear_slip_rad_per_mps2
        if not isfinite(rate):
            rate = speed_mps * tan(wheel_rad) / self.vehicle.turning_base_m(speed_mps)
        before_ns, self._slip_ns = self._slip_ns, t_ns
        if speed_mps < SLIPPING_MPS or rear <= 0.0:
            self._left_mps = 0.0
        elif before_ns is not None and t_ns > before_ns:
            ends = -rear * speed_mps * speed_mps * rate
            self._left_mps = ends + (self._left_mps - ends) * exp((before_ns - t_ns) * 1e-9 / (speed_mps * rear))
        return Slip(self._left_mps, rate)

    def _ahead(self, estimate: StateEstimate, now_ns: int, age_ns: int) -> Preview:
        vehicle, v = self.vehicle, self._speed_mps(estimate)
        steering = vehicle.steering
        start_ns = now_ns - age_ns
        delay_ns = int(steering.delay_s * 1e9)
        wheel = self._wheel_at(start_ns, delay_ns)
        slip = self._slip_now(estimate, start_ns, v, wheel)
        moving = abs(v) > SLIPPING_MPS
        course_rad = estimate.yaw_rad + (slip.left_mps / v if moving else 0.0)
        self._drift.observe(start_ns, estimate.x_m, estimate.y_m, course_rad, v)
        x, y, yaw = estimate.x_m, estimate.y_m, estimate.yaw_rad + self._drift.angle_rad
        left_ns, acting_ns = age_ns + delay_ns, start_ns - delay_ns
        while left_ns > 0:
            dt_ns = min(STEP_NS, left_ns)
            dt = dt_ns * 1e-9
            wheel = slew(wheel, self._wheels.at(acting_ns + dt_ns // 2), steering.rate_radps * dt, steering.max_wheel_rad)
            after = slip_step(vehicle, slip, v, wheel, dt)
            left, turn = 0.5 * (slip.left_mps + after.left_mps), 0.5 * dt * (slip.yaw_rate_radps + after.yaw_rate_radps)
            c, s = cos(yaw + 0.5 * turn), sin(yaw + 0.5 * turn)
            x, y, yaw = x + dt * (v * c - left * s), y + dt * (v * s + left * c), yaw + turn
            slip = after
            left_ns, acting_ns = left_ns - dt_ns, acting_ns + dt_ns
        self.slip = slip
        return Preview(x, y, yaw + (slip.left_mps / v if moving else 0.0), v, wheel)
