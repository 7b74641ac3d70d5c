"""Speed along a course: the profile that may be driven, and PID with feed-forward that holds it.

Gains P 6.0, I 0.25, D 0 are those of the pure-pursuit study on the HMMWV (Michigan Tech 2022), in share of full drive per m/s. They
suit a drive without delay; see ``SpeedParams.p``.
"""

from bisect import bisect_right
from math import isfinite, sqrt
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from vehicled.paths.course import Course
from vehicled.vehicle import Drive, Limits, NonNegative, Positive, Vehicle

COAST_SHARE = 0.8
"""Share of the deceleration at hand that a plan may count on, because friction and slope are known roughly."""


class SpeedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the speed control."""

    p: NonNegative = 6.0
    """Share of full drive per m/s. Stable while p times (acceleration per unit throttle) times (drive delay) stays below 0.6."""
    i: NonNegative = 0.25
    """Share of full drive per metre."""
    d: NonNegative = 0.0
    """Share of full drive per m/s2 of measured acceleration."""
    feed_forward: bool = True
    """Add the throttle that the drive model says will hold the target and accelerate with it."""
    integral_limit: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.3
    """Largest share of full drive that the integral may contribute, either way."""
    acceleration_mps2: Positive = 1.0
    deceleration_mps2: Positive = 0.5
    """Planned before slower parts and the end; less where brake and coasting cannot reach it."""
    creep_mps: Positive = 0.15
    """Slowest target before the end of the course is reached, so that friction does not hold the vehicle short of it."""
    brake_dead_band: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.1
    """Demand below zero throttle (share of full drive) that coasting is left to deal with, so that the brake does not chatter."""


def drive_authority_mps2(drive: Drive) -> float:
    """Acceleration per unit of throttle."""
    return drive.stall_torque_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def planned_deceleration_mps2(params: SpeedParams, drive: Drive) -> float:
    """Deceleration to plan with: what is asked for, within what brake and coasting give at low speed."""
    at_hand = drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
    return max(min(params.deceleration_mps2, COAST_SHARE * at_hand), 0.01)


class Target(NamedTuple):
    """Speed wanted at one place, and how it changes there."""

    speed_mps: float
    acceleration_mps2: float


class SpeedProfile:
    """Highest speed along a course, by arc length: its own, the limit of the vehicle, lateral acceleration, braking in time.

    At each sample the limit is sqrt(a_lat / |curvature|), with the curvature cut at what the vehicle can turn (a corner in the line
    is driven as the tightest arc). A backward pass with the planned deceleration then looks ahead over the whole course; the end
    counts as a stop, for a closed course the end of the lap.
    """

    def __init__(self, params: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course) -> None:
        tightest = 1.0 / vehicle.min_turn_radius_m
        curvature = np.clip(np.abs(course.curvature_per_m), 1e-9, tightest)
        by_turn = np.sqrt(limits.max_lateral_acceleration_mps2 / curvature)
        top_mps = min(limits.max_speed_mps, vehicle.drive.top_speed_mps)
        bound = np.minimum(np.minimum(course.speed_mps, by_turn), top_mps)
        s_m = [float(s) for s in course.s_m]
        allowed = [float(v) for v in bound]
        if course.length_m > s_m[-1]:
            s_m.append(float(course.length_m))
            allowed.append(allowed[0])
        self._deceleration_mps2 = planned_deceleration_mps2(params, vehicle.drive)
        allowed[-1] = 0.0
        for k in range(len(allowed) - 2, -1, -1):
            reachable2 = allowed[k + 1] * allowed[k + 1] + 2.0 * self._deceleration_mps2 * (s_m[k + 1] - s_m[k])
            allowed[k] = min(allowed[k], sqrt(reachable2))
        self._s_m = s_m
        # Squares, because under a constant deceleration these are linear in the way between two samples and speeds are not.
        self._square = [v * v for v in allowed]

    def at(self, s_m: float) -> Target:
        """Speed at an arc length, and the deceleration (never an acceleration) that follows the profile there."""
        k = min(max(bisect_right(self._s_m, s_m) - 1, 0), len(self._s_m) - 2)
        start, here = self._s_m[k], self._square[k]
        slope = (self._square[k + 1] - here) / (self._s_m[k + 1] - start)
        square = here + slope * min(max(s_m - start, 0.0), self._s_m[k + 1] - start)
        return Target(sqrt(max(square, 0.0)), min(max(0.5 * slope, -self._deceleration_mps2), 0.0))


class Demand(NamedTuple):
    """Shares of full drive and full brake, 0 to 1; at most one of them is above 0."""

    throttle: float
    brake: float


class PidState(Struct, frozen=True, gc=False):
    """What the speed control remembers between two steps."""

    reference_mps: float = float("nan")
    """Target after the acceleration limit; NaN before the first step."""
    integral: float = 0.0
    """Contribution to the throttle."""
    last_speed_mps: float = float("nan")


def speed_step(
    params: SpeedParams, drive: Drive, state: PidState, speed_mps: float, target: Target, dt_s: float
) -> tuple[PidState, Demand]:
    """One step of PID with feed-forward. All inputs finite, ``dt_s`` > 0; speed is that at which the throttle will act.

    The reference rises by at most ``acceleration_mps2`` and stays within reach of the speed. The integral stands still while the
    output is saturated in the direction of the error, and while the vehicle coasts because it has no brake to obey with.
    """
    last = state.reference_mps if isfinite(state.reference_mps) else speed_mps
    lead = max(0.3, 0.5 * params.acceleration_mps2)
    highest = min(last + params.acceleration_mps2 * dt_s, speed_mps + lead)
    reference = min(target.speed_mps, max(highest, 0.0))
    authority = drive_authority_mps2(drive)
    error = reference - speed_mps
    demand = params.p * error + state.integral
    if params.feed_forward:
        rising = reference < target.speed_mps
        acceleration = params.acceleration_mps2 if rising else target.acceleration_mps2
        demand += drive.steady_throttle(reference) + acceleration / authority
    if isfinite(state.last_speed_mps):
        demand -= params.d * (speed_mps - state.last_speed_mps) / dt_s

    can_brake = drive.brake_deceleration_mps2 > 0.0
    throttle = min(max(demand, 0.0), 1.0)
    brake = 0.0
    lowest = 0.0
    if can_brake:
        # Both actuators act on one acceleration, so that the loop gain is the same on either side of coasting.
        share = authority / drive.brake_deceleration_mps2
        lowest = -1.0 / share
        if demand < -params.brake_dead_band:
            brake = min(-demand * share, 1.0)
    integral = state.integral
    saturated = (demand >= 1.0 and error > 0.0) or (demand <= lowest and error < 0.0)
    if not saturated:
        integral = min(max(integral + params.i * error * dt_s, -params.integral_limit), params.integral_limit)
    return PidState(reference, integral, speed_mps), Demand(throttle, brake)
