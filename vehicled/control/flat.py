"""Flatness-based path follower: inverts the single-track model with tyres, so the wheels lead every
bend by the tyres' lag.

The model has linear tyres and two masses over the axles (yaw inertia m a b, close to that of most
vehicles), so the axles do not couple. With r the yaw rate, w the velocity of the rear axle to the
left, l the wheelbase:

    dw/dt         = -v r - w / (v c_r)                         rear axle
    dw/dt + l dr/dt = -v r + (delta - (w + l r) / v) / c_f     front axle

Slip angles per lateral acceleration are c_r = ``rear_slip_rad_per_mps2`` and c_f = c_r +
``understeer_rad_per_mps2``, both 0 without slip. The rear axle is a flat output (Fliess et al.
1995): with the curvature k of its path, exactly at constant speed,

    delta = C k + B dk/dt + A d2k/dt2
    C = l + (c_f - c_r) v^2,   B = l v (c_f + c_r),   A = l c_f c_r v^2

The wheels lead a bend by B / C. The steered curvature is that of the course plus feedback of the
cross-track error e, ``k = k_path - (w^2 e + 1.4 w de/dt) / v^2``; its derivatives follow from slip
and yaw rate. The closed loop is (s^2 + 1.4 w s + w^2) e = 0 for every vehicle. Without tyre slip A
= B = 0.
"""

from collections.abc import Mapping
from math import atan, cos, exp, isfinite, pi, sin, tan
from typing import Annotated, ClassVar, NamedTuple

from msgspec import Meta, Struct, field

from vehicled.control.corners import Corners, turn_in
from vehicled.control.path_follower import SPEED_RANGES, FollowerState, PathFollower, SteeringDemand
from vehicled.control.preview import Preview
from vehicled.control.speed import SpeedParams
from vehicled.core.messages import StateEstimate
from vehicled.core.vehicle import Limits, Positive, Vehicle
from vehicled.estimation.four_dof import slew
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint

STEEPEST = 0.5
"""Sine of the largest angle at which the vehicle approaches the course."""

SHORTEST_M = 0.1
"""Shortest distance over which a curvature is differentiated, m."""


STEP_NS = 10_000_000
SLIPPING_MPS = 1.0
"""Speed below which the tyres are taken to roll without slip, m/s; the slip equations are stiff
there."""


class Slip(NamedTuple):
    """Lateral motion of the rear axle."""

    left_mps: float
    """Velocity of the rear axle to the left, m/s."""
    yaw_rate_radps: float


def compliances(vehicle: Vehicle) -> tuple[float, float]:
    """Return the slip angles of front and rear axle per lateral acceleration, rad per m/s2."""
    rear = vehicle.rear_slip_rad_per_mps2
    return rear + vehicle.understeer_rad_per_mps2, rear


def slip_step(
    vehicle: Vehicle, slip: Slip, speed_mps: float, wheel_rad: float, dt_s: float
) -> Slip:
    """Return the slip ``dt_s`` later at a wheel angle. Forward only. The decay of each axle is
    exact, so any step is stable."""
    front, rear = compliances(vehicle)
    base_m, v = vehicle.wheelbase_m, speed_mps
    if v < SLIPPING_MPS or rear <= 0.0:
        return Slip(0.0, v * tan(wheel_rad) / vehicle.effective_wheelbase_m(v))
    left, rate = slip
    ahead_mps = left + base_m * rate
    turned = v * rate
    ends_rear = -v * rear * turned
    ends_front = v * (tan(wheel_rad) - front * turned)
    left = ends_rear + (left - ends_rear) * exp(-dt_s / (v * rear))
    ahead_mps = ends_front + (ahead_mps - ends_front) * exp(-dt_s / (v * front))
    return Slip(left, (ahead_mps - left) / base_m)


class FlatParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the flatness-based controller."""

    response_s: Positive = 1.0
    """Time constant of the error loop, s: w = sqrt(2) / response. A pure pursuit with this
    look-ahead responds as strongly."""
    response_min_m: Positive = 0.6
    """Shortest distance covered in the response time, m."""
    smoothing_s: Annotated[float, Meta(ge=0.01, le=1.0)] = 0.15
    """Half of the time over which the course's curvature is differentiated, s."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Fraction of the tightest curvature at which the turn into a tighter corner begins; larger is
    later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)
    """Speed control."""


class Flat(PathFollower):
    """Path follower that inverts the single-track model with tyres."""

    Params: ClassVar[type[FlatParams]] = FlatParams
    CHANGEABLE: ClassVar[Mapping[str, tuple[float, float]]] = {
        **SPEED_RANGES,
        "response_s": (0.2, 5.0),
        "response_min_m": (0.1, 10.0),
        "smoothing_s": (0.01, 1.0),
        "turn_in_share": (0.1, 10.0),
    }

    def __init__(
        self, params: FlatParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float
    ) -> None:
        self._params = params
        super().__init__(params.speed, vehicle, limits, course, period_s)
        # A command is held for a period: on average it acts half of that later.
        self._held_ns = int(0.5e9 * period_s)
        self._corners = Corners(course)
        self._reset_slip()

    def reset(self, s_m: float | None = None, wheel_rad: float = 0.0) -> None:
        super().reset(s_m, wheel_rad)
        self._reset_slip()

    def _reset_slip(self) -> None:
        self._slip = Slip(0.0, 0.0)
        """Slip at the predicted pose."""
        self._left_mps = 0.0
        self._slip_ns: int | None = None

    def _slip_now(
        self, estimate: StateEstimate, t_ns: int, speed_mps: float, wheel_rad: float
    ) -> Slip:
        """Return the slip at the time of the estimate, from the measured yaw rate and the modelled
        rear axle."""
        rate, rear = estimate.yaw_rate_radps, self.vehicle.rear_slip_rad_per_mps2
        if not isfinite(rate):
            rate = speed_mps * tan(wheel_rad) / self.vehicle.effective_wheelbase_m(speed_mps)
        before_ns, self._slip_ns = self._slip_ns, t_ns
        if speed_mps < SLIPPING_MPS or rear <= 0.0:
            self._left_mps = 0.0
        elif before_ns is not None and t_ns > before_ns:
            ends = -rear * speed_mps * speed_mps * rate
            self._left_mps = ends + (self._left_mps - ends) * exp(
                (before_ns - t_ns) * 1e-9 / (speed_mps * rear)
            )
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
        left_ns, acting_ns = age_ns + delay_ns + self._held_ns, start_ns - delay_ns
        while left_ns > 0:
            dt_ns = min(STEP_NS, left_ns)
            dt = dt_ns * 1e-9
            wheel = slew(
                wheel,
                self._wheels.at(acting_ns + dt_ns // 2),
                steering.rate_radps * dt,
                steering.max_wheel_rad,
            )
            after = slip_step(vehicle, slip, v, wheel, dt)
            left = 0.5 * (slip.left_mps + after.left_mps)
            turn = 0.5 * dt * (slip.yaw_rate_radps + after.yaw_rate_radps)
            c, s = cos(yaw + 0.5 * turn), sin(yaw + 0.5 * turn)
            x, y, yaw = x + dt * (v * c - left * s), y + dt * (v * s + left * c), yaw + turn
            slip = after
            left_ns, acting_ns = left_ns - dt_ns, acting_ns + dt_ns
        self._slip = slip
        return Preview(x, y, yaw + (slip.left_mps / v if moving else 0.0), v, wheel)

    def steer(self, state: FollowerState) -> SteeringDemand:
        ahead, vehicle, tracker = state.ahead, self.vehicle, self.tracker
        projection = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        sign = 1.0 if projection.direction > 0 else -1.0
        wheel = atan(self._tangent(projection, sign, abs(ahead.speed_mps)))
        radius_m = vehicle.min_turn_radius_m
        if self._corners.near(projection.s_m, radius_m):
            faced = ahead if sign > 0.0 else ahead.turned(pi)
            curvature = sign * tan(wheel) / vehicle.wheelbase_m
            curvature = turn_in(
                tracker.point_at,
                faced,
                projection.s_m,
                curvature,
                radius_m,
                self._params.turn_in_share,
            )
            wheel = atan(sign * vehicle.wheelbase_m * curvature)
        return SteeringDemand(wheel)

    def _tangent(self, projection: PathPoint, sign: float, v: float) -> float:
        """Return the tangent of the wheel angle; ``sign`` is the direction of the leg, ``v`` the
        magnitude of the speed."""
        p, vehicle, point_at = self._params, self.vehicle, self.tracker.point_at
        response_m = max(p.response_s * v, p.response_min_m)
        stiffness, damping = 2.0 / (response_m * response_m), 2.0 / response_m
        most_m = STEEPEST * damping / stiffness
        left_m = min(max(projection.cross_track_m, -most_m), most_m)
        # In the direction of motion: in reverse, a vehicle that points to the left moves to the
        # right.
        sine = -sign * sin(projection.heading_error_rad)
        curvature = projection.curvature_per_m - stiffness * left_m - damping * sine
        base_m = vehicle.effective_wheelbase_m(v)
        front, rear = compliances(vehicle)
        if sign < 0.0 or v < SLIPPING_MPS or rear <= 0.0:
            return base_m * curvature
        # The course has derivatives by arc length: d/dt = v d/ds.
        reach_m = max(p.smoothing_s * v, SHORTEST_M)
        before = point_at(projection.s_m - reach_m).curvature_per_m
        after = point_at(projection.s_m + reach_m).curvature_per_m
        bend, slope = projection.curvature_per_m, 0.5 * (after - before) / reach_m
        change = (after - 2.0 * bend + before) / (reach_m * reach_m)
        slip, rate = self._slip
        slip_rad = slip / v
        off = -slip_rad / (v * v * rear) - bend
        off_slope = (rate + slip_rad / (v * rear)) / (v * v * v * rear) - slope
        curvature_slope = slope - stiffness * sine - damping * off
        curvature_change = change - stiffness * off - damping * off_slope
        lead = vehicle.wheelbase_m * v * v
        return (
            base_m * curvature
            + lead * (front + rear) * curvature_slope
            + lead * front * rear * v * v * curvature_change
        )
