"""Path tracking by inversion of the single track with tyres: the wheels are turned before the path bends, by as much as it takes.

The rear axle of the model of :mod:`vehicled.control.flat_helm` is a flat output (Fliess et al. 1995): with the curvature k of its
path,

    delta = C k + B dk/dt + A d2k/dt2,   C = l + (c_f - c_r) v^2,   B = l v (c_f + c_r),   A = l c_f c_r v^2

exactly, at constant speed. So the wheels lead a bend by B / C, and no lag is left to be mistaken for a delay. The curvature steered
is that of the course and a feedback of the error e to the left, ``k = k_path - (w^2 e + 1.4 w de/dt) / v^2``; the derivatives of it
are known, too, because slip and yaw rate are. The loop that remains is (s^2 + 1.4 w s + w^2) e = 0, whatever the vehicle. A vehicle
whose tyres do not slip has A = B = 0.
"""

from math import atan, pi, sin, tan
from typing import Annotated, ClassVar

from msgspec import Meta, Struct, field

from vehicled.control.corners import Corners, turn_in
from vehicled.control.flat_helm import SLIPPING_MPS, FlatHelm, compliances
from vehicled.control.helm import Scene, Wish
from vehicled.control.path_law import PathLaw
from vehicled.control.speed import SpeedParams
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathPoint
from vehicled.vehicle import Limits, Positive, Vehicle

STEEPEST = 0.5
"""Sine of the largest angle under which an error is driven off."""

SHORTEST_M = 0.1
"""Of the stretch over which a curvature is differentiated."""


class FlatParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning."""

    response_s: Positive = 1.0
    """Time of the loop: w = sqrt(2) / response. A pure pursuit with this look-ahead answers an error as strongly."""
    response_min_m: Positive = 0.6
    """The response takes at least this way."""
    smoothing_s: Annotated[float, Meta(ge=0.01, le=1.0)] = 0.15
    """Half of the stretch of course over which its curvature is differentiated."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Share of the tightest curvature at which the turn into a corner tighter than that begins; larger is later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)


class Flat(PathLaw):
    """Adapter to the :class:`~vehicled.control.interface.Controller` protocol."""

    Params: ClassVar[type[FlatParams]] = FlatParams
    _helm: FlatHelm

    def __init__(self, params: FlatParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        self._params = params
        super().__init__(FlatHelm(params.speed, vehicle, limits, course, period_s))
        self._corners = Corners(course)

    def _steer(self, scene: Scene) -> Wish:
        helm, ahead = self._helm, scene.ahead
        vehicle, tracker = helm.vehicle, helm.tracker
        foot = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        sign = 1.0 if foot.direction > 0 else -1.0
        wheel = atan(self._tangent(foot, sign, abs(ahead.speed_mps)))
        radius_m = vehicle.min_turn_radius_m
        if self._corners.near(foot.s_m, radius_m):
            faced = ahead if sign > 0.0 else ahead._replace(yaw_rad=ahead.yaw_rad + pi)
            curvature = sign * tan(wheel) / vehicle.wheelbase_m
            curvature = turn_in(tracker.point_at, faced, foot.s_m, curvature, radius_m, self._params.turn_in_share)
            wheel = atan(sign * vehicle.wheelbase_m * curvature)
        return Wish(wheel)

    def _tangent(self, foot: PathPoint, sign: float, v: float) -> float:
        """Tangent of the wheel angle of the law; ``sign`` is the direction of the leg, ``v`` the size of the speed."""
        p, vehicle, point_at = self._params, self._helm.vehicle, self._helm.tracker.point_at
        response_m = max(p.response_s * v, p.response_min_m)
        stiffness, damping = 2.0 / (response_m * response_m), 2.0 / response_m
        most_m = STEEPEST * damping / stiffness
        left_m = min(max(foot.cross_track_m, -most_m), most_m)
        # Of the way driven: backward, a vehicle that points to the left moves to the right.
        sine = -sign * sin(foot.heading_error_rad)
        curvature = foot.curvature_per_m - stiffness * left_m - damping * sine
        base_m = vehicle.turning_base_m(v)
        front, rear = compliances(vehicle)
        if sign < 0.0 or v < SLIPPING_MPS or rear <= 0.0:
            return base_m * curvature
        # Derivatives are by way, as the course has them: d/dt = v d/ds.
        reach_m = max(p.smoothing_s * v, SHORTEST_M)
        before = point_at(foot.s_m - reach_m).curvature_per_m
        after = point_at(foot.s_m + reach_m).curvature_per_m
        bend, slope = foot.curvature_per_m, 0.5 * (after - before) / reach_m
        change = (after - 2.0 * bend + before) / (reach_m * reach_m)
        slip, rate = self._helm.slip
        slip_rad = slip / v
        off = -slip_rad / (v * v * rear) - bend
        off_slope = (rate + slip_rad / (v * rear)) / (v * v * v * rear) - slope
        curvature_slope = slope - stiffness * sine - damping * off
        curvature_change = change - stiffness * off - damping * off_slope
        lead = vehicle.wheelbase_m * v * v
        return base_m * curvature + lead * (front + rear) * curvature_slope + lead * front * rear * v * v * curvature_change
