"""Speed along a course: the profile that may be driven, and PID with feed-forward that holds it.

Backward everything is the same the other way round: targets, throttle and what is remembered are negative, the sizes obey the same
rules. A change of direction goes through rest.

Gains P 6.0, I 0.25, D 0 are those of the pure-pursuit study on the HMMWV (Michigan Tech 2022), in share of full drive per m/s. They
suit a drive without delay; see ``SpeedParams.p``.
"""

from bisect import bisect_right
from itertools import pairwise
from math import isfinite, sqrt
from typing import Annotated, NamedTuple

import numpy as np
from msgspec import Meta, Struct

from vehicled.paths.course import Course
from vehicled.paths.smoothing import Array
from vehicled.vehicle import Drive, Limits, NonNegative, Positive, Vehicle

REST_MPS = 0.05
"""Slower than this the drive may be turned round."""

NOTABLE = 0.02
"""Relative change of what is believed of a vehicle from which on the speeds of a course are reckoned anew."""
COAST_SHARE = 0.8
"""Share of the deceleration at hand that a plan may count on, because friction and slope are known roughly."""


class SpeedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the speed control."""

    p: NonNegative = 6.0
    """Share of full drive per m/s. Used as far as the delay of the drive allows, see :func:`usable_gain`."""
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


STABLE_LOOP = 0.6
"""Largest p times acceleration per unit throttle times delay of the drive. An integrator behind a delay is stable below pi / 2 and
overshoots above 1 / e; the prediction over the delay takes off most of it."""


def usable_gain(params: SpeedParams, drive: Drive) -> float:
    """The gain p, cut to what is stable with the delay of the drive."""
    loop = drive_authority_mps2(drive) * drive.delay_s
    return min(params.p, STABLE_LOOP / loop) if loop > 0.0 else params.p


def drive_authority_mps2(drive: Drive) -> float:
    """Acceleration per unit of throttle."""
    return drive.stall_torque_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def planned_deceleration_mps2(params: SpeedParams, drive: Drive) -> float:
    """Deceleration to plan with: what is asked for, within what brake and coasting give at low speed."""
    at_hand = drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
    return max(min(params.deceleration_mps2, COAST_SHARE * at_hand), 0.01)


def _facts(params: SpeedParams, vehicle: Vehicle) -> tuple[float, ...]:
    """What a profile depends on of a vehicle; all >= 0."""
    drive = vehicle.drive
    return planned_deceleration_mps2(params, drive), vehicle.min_turn_radius_m, drive.top_speed_mps, drive.top_reverse_speed_mps


SLOWED = 0.98
"""A course that is driven at less than this share of its speed is not driven as it asks."""


def course_speed_limits(vehicle: Vehicle, limits: Limits, course: Course) -> tuple[Array, Array]:
    """Return the highest speeds (n,) at the samples of a course, m/s: by limit and drive, and by lateral acceleration.

    The curvature is cut at what the vehicle can turn: a corner in the line is driven as the tightest arc.
    """
    curvature = np.clip(np.abs(course.curvature_per_m), 1e-9, 1.0 / vehicle.min_turn_radius_m)
    by_turn = np.sqrt(limits.max_lateral_acceleration_mps2 / curvature)
    drive_top_mps = np.where(course.speed_mps < 0.0, vehicle.drive.top_reverse_speed_mps, vehicle.drive.top_speed_mps)
    return np.minimum(limits.max_speed_mps, drive_top_mps), by_turn


def speed_warnings(vehicle: Vehicle, limits: Limits, course: Course) -> list[str]:
    """Return a sentence for each reason for which a course is driven slower than its speeds ask; empty where it is not."""
    asked = np.abs(course.speed_mps)
    top, by_turn = course_speed_limits(vehicle, limits, course)
    warnings = []
    over = asked * SLOWED > top
    if over.any():
        worst = int(np.argmax(asked - top))
        backward = course.speed_mps[worst] < 0.0
        key = "limits.max_speed_mps" if top[worst] >= limits.max_speed_mps else "the drive's top speed"
        warnings.append(
            f"the course asks for up to {asked[worst]:.3g} m/s{' backward' if backward else ''}; {key} is {top[worst]:.3g} m/s: "
            f"{over.mean():.0%} of the course is driven slower than it asks"
        )
    slow = np.minimum(asked, top)
    sharp = slow * SLOWED > by_turn
    if sharp.any():
        worst = int(np.argmax(slow / by_turn))
        needed_mps2 = float(limits.max_lateral_acceleration_mps2 * (slow[worst] / by_turn[worst]) ** 2)
        warnings.append(
            f"{slow[worst]:.3g} m/s at {course.s_m[worst]:.0f} m needs {needed_mps2:.3g} m/s^2 of lateral acceleration; "
            f"limits.max_lateral_acceleration_mps2 is {limits.max_lateral_acceleration_mps2:.3g}, and {sharp.mean():.0%} of the "
            f"course is driven slower for it, there at {by_turn[worst]:.2g} m/s"
        )
    return warnings


class Target(NamedTuple):
    """Speed wanted at one place, negative backward, and how it changes there."""

    speed_mps: float
    acceleration_mps2: float


class SpeedProfile:
    """Highest speed along a course, by arc length: its own, the limit of the vehicle, lateral acceleration, braking in time.

    At each sample the limit is sqrt(a_lat / |curvature|), with the curvature cut at what the vehicle can turn (a corner in the line
    is driven as the tightest arc). A pass from the end with the planned deceleration then looks ahead over the whole course; the
    end counts as a stop, for a closed course the end of the lap, and so does every cusp.
    """

    def __init__(self, params: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course) -> None:
        self._given = params, limits, course
        self._facts = _facts(params, vehicle)
        top, by_turn = course_speed_limits(vehicle, limits, course)
        backward = course.speed_mps < 0.0
        bound = np.minimum(np.minimum(np.abs(course.speed_mps), by_turn), top)
        s_m = course.s_m
        if course.length_m > s_m[-1]:
            s_m, bound = np.append(s_m, course.length_m), np.append(bound, bound[0])
        self.deceleration_mps2 = planned_deceleration_mps2(params, vehicle.drive)
        """Planned before slower parts and the end, > 0."""
        self._legs = list(pairwise([0, *course.cusps, len(s_m) - 1]))
        # Squares, because under a constant deceleration these are linear in the way between two samples and speeds are not.
        square, after = bound * bound, np.zeros(len(s_m))
        for first, last in self._legs:
            way = 2.0 * self.deceleration_mps2 * (s_m[first : last + 1] - s_m[first])
            reachable = square[first : last + 1] + way
            reachable[-1] = way[-1]
            slowed = np.maximum(np.minimum.accumulate(reachable[::-1])[::-1] - way, 0.0)
            square[first:last], after[first:last] = slowed[:-1], slowed[1:]
        self._s_m: list[float] = s_m.tolist()
        self._square: list[float] = square.tolist()
        self._square_after: list[float] = after.tolist()
        self._signs = [-1.0 if back else 1.0 for back in backward.tolist()]

    def adapted(self, vehicle: Vehicle) -> "SpeedProfile":
        """This one, or another for a vehicle that brakes, turns or drives otherwise by more than ``NOTABLE``."""
        facts = _facts(self._given[0], vehicle)
        if all(abs(now - then) <= NOTABLE * then for now, then in zip(facts, self._facts, strict=True)):
            return self
        params, limits, course = self._given
        return SpeedProfile(params, vehicle, limits, course)

    def speeds_mps(self, leg: int) -> Array:
        """Sizes (n,) at the samples of a leg, the end included, where it is 0."""
        first, last = self._legs[leg]
        return np.sqrt([*self._square[first:last], self._square_after[last - 1]])

    def at(self, s_m: float, leg: int | None = None) -> Target:
        """Speed at an arc length, and the deceleration (never an acceleration) that follows the profile there.

        With ``leg``, the tracker's number of it, places beyond its ends count as its ends.
        """
        first, last = self._legs[leg] if leg is not None else (0, len(self._s_m) - 1)
        k = min(max(bisect_right(self._s_m, s_m) - 1, first), last - 1)
        start, here, sign = self._s_m[k], self._square[k], self._signs[k]
        slope = (self._square_after[k] - here) / (self._s_m[k + 1] - start)
        square = here + slope * min(max(s_m - start, 0.0), self._s_m[k + 1] - start)
        return Target(sign * sqrt(max(square, 0.0)), sign * min(max(0.5 * slope, -self.deceleration_mps2), 0.0))


class Demand(NamedTuple):
    """Shares of full drive, -1 to 1, and of full brake, 0 to 1; at most one of them is not 0."""

    throttle: float
    brake: float


class PidState(Struct, frozen=True, gc=False):
    """What the speed control remembers between two steps. Negative while driving backward."""

    reference_mps: float = float("nan")
    """Target after the acceleration limit; NaN before the first step."""
    integral: float = 0.0
    """Contribution to the throttle."""
    last_speed_mps: float = float("nan")


def speed_step(
    params: SpeedParams,
    drive: Drive,
    state: PidState,
    speed_mps: float,
    target: Target,
    dt_s: float,
    surplus_mps2: float = 0.0,
) -> tuple[PidState, Demand]:
    """One step of PID with feed-forward. All inputs finite, ``dt_s`` > 0; speed is that at which the throttle will act.
    ``surplus_mps2`` is what the drive does beyond its model, for the feed-forward (:mod:`~vehicled.control.drive_observer`).

    The reference starts at the speed, so that taking over gives no jerk; it rises by at most ``acceleration_mps2`` and stays within
    reach of the speed. Anti-windup by clamping: the integral stands still while the output is saturated in the direction of the
    error, and is limited by itself. A vehicle that can reverse is braked to rest before it is driven the other way.
    """
    sign = _direction(drive, speed_mps, target)
    if sign * speed_mps < -REST_MPS and drive.reverse_share > 0.0:
        return PidState(0.0, 0.0, speed_mps), Demand(0.0, 1.0 if drive.brake_deceleration_mps2 > 0.0 else 0.0)
    # From here on in the sense of the wanted direction.
    speed, wanted, slowing = sign * speed_mps, sign * target.speed_mps, sign * target.acceleration_mps2
    last = sign * state.reference_mps if isfinite(state.reference_mps) else speed
    integral = sign * state.integral
    if isfinite(state.reference_mps) and last < 0.0:
        # What was learnt the other way round does not count.
        last = integral = 0.0
    lead = max(0.3, 0.5 * params.acceleration_mps2)
    highest = min(last + params.acceleration_mps2 * dt_s, speed + lead)
    reference = min(wanted, max(highest, 0.0))
    authority = drive_authority_mps2(drive)
    error = reference - speed
    demand = usable_gain(params, drive) * error + integral
    if params.feed_forward:
        rising = reference < wanted
        acceleration = params.acceleration_mps2 if rising else slowing
        demand += drive.steady_throttle(reference) + (acceleration - sign * surplus_mps2) / authority
    if isfinite(state.last_speed_mps):
        demand -= params.d * (speed - sign * state.last_speed_mps) / dt_s

    can_brake = drive.brake_deceleration_mps2 > 0.0
    most = 1.0 if sign > 0.0 else drive.reverse_share
    throttle = min(max(demand, 0.0), most)
    brake = 0.0
    lowest = 0.0
    if can_brake:
        # Both actuators act on one acceleration, so that the loop gain is the same on either side of coasting.
        share = authority / drive.brake_deceleration_mps2
        lowest = -1.0 / share
        if demand < -params.brake_dead_band:
            brake = min(-demand * share, 1.0)
    saturated = (demand >= most and error > 0.0) or (demand <= lowest and error < 0.0)
    if not saturated:
        integral = min(max(integral + params.i * error * dt_s, -params.integral_limit), params.integral_limit)
    # Adding 0.0 makes no difference but to a negative zero.
    return PidState(sign * reference, sign * integral, speed_mps), Demand(sign * throttle + 0.0, brake)


def _direction(drive: Drive, speed_mps: float, target: Target) -> float:
    """1.0 or -1.0: the way the target asks for, else the one in which the vehicle moves."""
    if target.speed_mps != 0.0:
        return 1.0 if target.speed_mps > 0.0 else -1.0
    return -1.0 if speed_mps < 0.0 and drive.reverse_share > 0.0 else 1.0
