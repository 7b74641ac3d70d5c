"""Pure pursuit with adaptive look-ahead, on the pose predicted over the actuation delay.

From the HMMWV study of Michigan Tech 2022 comes the adaptive look-ahead: it starts short and is lengthened while the angle to the
look-ahead point stays below a turn threshold. Mended: the look-ahead is counted in seconds and metres instead of samples, so that
it does not change with the control rate; the wheel angle follows from the arc through the point (Coulter 1992:
curvature = 2 y / L^2 in the frame of the rear axle), not from a mean of bearings; and the pose is the one at which the command will
act. Added: the curvature of the course as feed-forward, and the turn into corners tighter than the vehicle can turn.
"""

from bisect import bisect_right
from math import atan, atan2, cos, isfinite, sin
from typing import Annotated, ClassVar

import numpy as np
from msgspec import Meta, Struct, field

from vehicled.control.preview import Preview, predict_pose, predict_speed
from vehicled.control.speed import (
    Demand,
    PidState,
    SpeedParams,
    SpeedProfile,
    Target,
    speed_step,
)
from vehicled.control.stop import brake_command, is_drivable
from vehicled.estimation.four_dof import slew
from vehicled.estimation.history import CommandHistory
from vehicled.messages import ControlCommand, StateEstimate
from vehicled.paths.course import Course
from vehicled.paths.tracking import PathTracker
from vehicled.vehicle import MAX_DELAY_NS, Limits, Positive, Vehicle

MAX_ESTIMATE_AGE_NS = 200_000_000
"""Older estimates are predicted over this much only; their age is for the failsafe to judge."""

REACHES = (0.8, 1.3, 2.0)
"""Points behind a corner that are tried, in turning radii along the course: the last is just in reach at a right angle, the others
serve blunter corners."""

PAST_CORNER_M = 0.3
"""A corner counts until it lies this far behind: there the line's direction is still its mean over both legs."""


class PurePursuitParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning. The look-ahead is time x speed within the bounds in metres.

    Shorter is closer to the course while gain and delay of the steering are as believed, and swings when they are not: at 0.6 s and
    1 m/s a wheel that turns 1.4 times too far, 0.1 s too late, leaves the course by 0.45 m in the mean, at 1.0 s by 0.04 m.
    """

    look_ahead_min_s: Positive = 1.0
    look_ahead_max_s: Positive = 1.5
    look_ahead_min_m: Positive = 0.6
    look_ahead_max_m: Positive = 20.0
    turn_threshold_rad: Annotated[float, Meta(ge=0.0, le=1.5)] = 0.035
    """The look-ahead is lengthened while the bearing of its point stays below this."""
    candidates: Annotated[int, Meta(ge=1, le=20)] = 3
    """Look-ahead distances tried, evenly spaced from the shortest to the longest."""
    feed_forward: bool = True
    """Steer the curvature of the course at the predicted pose, and let pursuit answer for the error only."""
    turn_in_share: Annotated[float, Meta(ge=0.1, le=10.0)] = 0.9
    """Share of the tightest curvature at which the turn into a corner tighter than that begins; larger is later and wider."""
    speed: SpeedParams = field(default_factory=SpeedParams)


def arc_to(preview: Preview, x_m: float, y_m: float) -> tuple[float, float]:
    """Curvature (1/m, positive left) of the arc from the predicted rear axle, tangent to its yaw, through a point; and the point's
    bearing (rad). A point behind is answered by the tightest sensible arc towards it, 2 over its distance.
    """
    dx, dy = x_m - preview.x_m, y_m - preview.y_m
    c, s = cos(preview.yaw_rad), sin(preview.yaw_rad)
    forward, left = c * dx + s * dy, c * dy - s * dx
    square = max(forward * forward + left * left, 1e-6)
    bearing = atan2(left, forward)
    if forward < 0.0:
        return (2.0 if left >= 0.0 else -2.0) / square**0.5, bearing
    return 2.0 * left / square, bearing


class PurePursuit:
    """Adapter of the pure functions to the :class:`~vehicled.control.interface.Controller` protocol."""

    Params: ClassVar[type[PurePursuitParams]] = PurePursuitParams

    def __init__(self, params: PurePursuitParams, vehicle: Vehicle, limits: Limits, course: Course, period_s: float) -> None:
        self._params = params
        self._period_s = period_s
        self._tracker = PathTracker(course)
        self._profile = SpeedProfile(params.speed, vehicle, limits, course)
        tight = course.s_m[np.abs(course.curvature_per_m) * vehicle.min_turn_radius_m > 1.0].tolist()
        self._corners_m: list[float] = tight + [s + course.length_m for s in tight] if course.closed else tight
        # What is identified later may be any delay that a vehicle can have.
        keep_ns = MAX_DELAY_NS + 2 * MAX_ESTIMATE_AGE_NS
        self._wheels: CommandHistory[float] = CommandHistory(0.0, keep_ns)
        self._demands: CommandHistory[Demand] = CommandHistory(Demand(0.0, 0.0), keep_ns)
        self.adapt(vehicle)
        self.reset()

    def adapt(self, vehicle: Vehicle) -> None:
        """Drive with other parameters from now on; see :class:`~vehicled.control.interface.Controller`."""
        self._vehicle = vehicle
        self._steering_delay_ns = int(vehicle.steering.delay_s * 1e9)
        self._drive_delay_ns = int(vehicle.drive.delay_s * 1e9)

    def reset(self) -> None:
        """Begin the course anew; see :class:`~vehicled.control.interface.Controller`."""
        self._tracker.reset()
        self._wheels.clear(0.0)
        self._demands.clear(Demand(0.0, 0.0))
        self._pid = PidState()
        self._command_rad = 0.0
        self._wheel_rad = 0.0
        self._wheel_ns: int | None = None
        self._last_ns: int | None = None

    @property
    def finished(self) -> bool:
        """Whether the end of the course has been reached."""
        return self._tracker.finished

    def step(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Wheel angle, throttle and brake for the state; see :class:`~vehicled.control.interface.Controller`."""
        if not is_drivable(estimate):
            return self._brake(estimate, now_ns)
        dt_s = self._elapsed_s(now_ns)
        here = self._tracker.update(estimate.x_m, estimate.y_m, estimate.yaw_rad)
        age_ns = min(max(now_ns - estimate.t_ns, 0), MAX_ESTIMATE_AGE_NS)
        wheel = self._steer(estimate, now_ns, age_ns, dt_s)
        target, demand = self._drive(estimate, here.s_m, now_ns, age_ns, dt_s)
        if self._tracker.finished:
            target, demand = Target(0.0, 0.0), Demand(0.0, 1.0)
        if not (isfinite(wheel) and isfinite(demand.throttle) and isfinite(demand.brake)):
            return self._brake(estimate, now_ns)
        self._command_rad = wheel
        self._wheels.append(now_ns, wheel)
        self._demands.append(now_ns, demand)
        return ControlCommand(
            now_ns, estimate.newest_input_ns, wheel, demand.throttle, demand.brake, target.speed_mps,
            here.s_m, here.cross_track_m, here.heading_error_rad, here.curvature_per_m,
        )  # fmt: skip

    def _brake(self, estimate: StateEstimate, now_ns: int) -> ControlCommand:
        """Answer to a state that cannot be driven on. What is commanded meanwhile counts in the next prediction."""
        self._wheels.append(now_ns, self._command_rad)
        self._demands.append(now_ns, Demand(0.0, 1.0))
        return brake_command(now_ns, estimate.newest_input_ns, self._command_rad)

    def _elapsed_s(self, now_ns: int) -> float:
        """Time since the last step, within a factor of five of the period."""
        last_ns, self._last_ns = self._last_ns, now_ns
        if last_ns is None:
            return self._period_s
        return min(max((now_ns - last_ns) * 1e-9, 0.2 * self._period_s), 5.0 * self._period_s)

    def _wheel_at(self, t_ns: int) -> float:
        """Follow the slewing wheel to the time of the estimate."""
        steering = self._vehicle.steering
        if self._wheel_ns is not None and t_ns > self._wheel_ns:
            target = self._wheels.at(t_ns - self._steering_delay_ns)
            step_rad = steering.rate_radps * (t_ns - self._wheel_ns) * 1e-9
            self._wheel_rad = slew(self._wheel_rad, target, step_rad, steering.max_wheel_rad)
        self._wheel_ns = t_ns if self._wheel_ns is None else max(t_ns, self._wheel_ns)
        return self._wheel_rad

    def _steer(self, estimate: StateEstimate, now_ns: int, age_ns: int, dt_s: float) -> float:
        steering = self._vehicle.steering
        start_ns = now_ns - age_ns
        start = Preview(estimate.x_m, estimate.y_m, estimate.yaw_rad, max(0.0, estimate.speed_mps), self._wheel_at(start_ns))
        ahead = predict_pose(self._vehicle, self._wheels, start, start_ns, age_ns + self._steering_delay_ns)
        curvature = self._pursue(ahead)
        # The actuator slews no faster; a command that does not run ahead of it is one the prediction can rely on.
        max_step_rad = steering.rate_radps * dt_s
        return slew(self._command_rad, atan(self._vehicle.wheelbase_m * curvature), max_step_rad, steering.max_wheel_rad)

    def _pursue(self, ahead: Preview) -> float:
        """Curvature to steer at the predicted pose."""
        p, tracker = self._params, self._tracker
        shortest = min(max(p.look_ahead_min_s * ahead.speed_mps, p.look_ahead_min_m), p.look_ahead_max_m)
        longest = min(max(p.look_ahead_max_s * ahead.speed_mps, shortest), p.look_ahead_max_m)
        step_m = (longest - shortest) / max(p.candidates - 1, 1)
        foot = tracker.locate(ahead.x_m, ahead.y_m, ahead.yaw_rad)
        start_m = foot.s_m
        s_m = start_m + shortest
        place = tracker.point_at(s_m)
        curvature, bearing = arc_to(ahead, place.x_m, place.y_m)
        for _ in range(p.candidates - 1):
            if abs(bearing) >= p.turn_threshold_rad:
                break
            further = tracker.point_at(s_m + step_m)
            arc, bearing = arc_to(ahead, further.x_m, further.y_m)
            if abs(bearing) >= p.turn_threshold_rad:
                break
            s_m, place, curvature = s_m + step_m, further, arc

        corner = bisect_right(self._corners_m, start_m - PAST_CORNER_M)
        corner_m = self._corners_m[corner] if corner < len(self._corners_m) else float("inf")
        if corner_m <= start_m + REACHES[-1] * self._vehicle.min_turn_radius_m:
            return self._turn_in(ahead, start_m, curvature)
        if not p.feed_forward or corner_m <= s_m:
            return curvature
        # What pursuit would steer without any error is not the curvature of the line, but that of its chord: it cuts every bend.
        # Taking the difference leaves the feedback as it is.
        chord, _ = arc_to(Preview(foot.x_m, foot.y_m, foot.yaw_rad, 0.0, 0.0), place.x_m, place.y_m)
        return curvature + foot.curvature_per_m - chord

    def _turn_in(self, ahead: Preview, start_m: float, curvature: float) -> float:
        """Curvature to steer where a corner is tighter than the vehicle can turn.

        Such a corner is missed unless the turn begins before it: as soon as an arc to a point behind it asks for all the vehicle
        has, since later that point is out of reach. At a right angle this is one turning radius ahead, the fillet of the corner.
        """
        radius_m = self._vehicle.min_turn_radius_m
        needed = self._params.turn_in_share / radius_m
        for reach in REACHES:
            point = self._tracker.point_at(start_m + reach * radius_m)
            arc, _ = arc_to(ahead, point.x_m, point.y_m)
            if abs(arc) > needed:
                curvature, needed = arc, abs(arc)
        return curvature

    def _drive(self, estimate: StateEstimate, s_m: float, now_ns: int, age_ns: int, dt_s: float) -> tuple[Target, Demand]:
        drive = self._vehicle.drive
        speed = max(0.0, estimate.speed_mps)
        horizon_ns = age_ns + self._drive_delay_ns
        later = predict_speed(drive, self._demands, speed, now_ns - age_ns, horizon_ns)
        target = self._profile.at(s_m + 0.5 * (speed + later) * horizon_ns * 1e-9)
        if target.speed_mps < self._params.speed.creep_mps:
            target = Target(self._params.speed.creep_mps, 0.0)
        self._pid, demand = speed_step(self._params.speed, drive, self._pid, later, target, dt_s)
        return target, demand
