"""Speed control: the speed profile of a course, and a PID with feed-forward that follows it.

In reverse, targets, throttle and the integral are negative and the same rules apply to the
magnitudes. The vehicle stops before it changes direction.

Gains P 6.0, I 0.25, D 0 are those of the pure-pursuit study on the HMMWV (Michigan Tech 2022), in
fractions of full drive per m/s. They suit a drive without delay; see ``SpeedParams.p``.
"""

from array import array
from bisect import bisect_right
from itertools import pairwise
from math import inf, isfinite, sqrt
from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from vehicled.core.arrays import Array
from vehicled.core.clamp import clamp
from vehicled.core.messages import StateEstimate
from vehicled.core.vehicle import (
    MOVING_MPS,
    STANDSTILL_MPS,
    Drive,
    Limits,
    NonNegative,
    Positive,
    Vehicle,
    standing_below_mps,
)
from vehicled.paths.course import Course

NOTABLE = 0.02
"""Relative change of vehicle parameters from which the speed profile is computed again."""
COAST_FRACTION = 0.8
"""Fraction of the available deceleration used for planning, because friction and slope are known
only roughly."""


class SpeedParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Tuning of the speed control."""

    p: NonNegative = 6.0
    """Proportional gain, fraction of full drive per m/s; limited by the drive delay, see
    :func:`usable_gain`."""
    i: NonNegative = 0.25
    """Integral gain, fraction of full drive per metre."""
    d: NonNegative = 0.0
    """Derivative gain, fraction of full drive per m/s2 of measured acceleration."""
    feed_forward: bool = True
    """Add the throttle that holds the target speed and acceleration according to the drive
    model."""
    integral_limit: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.3
    """Largest contribution of the integral, as a fraction of full drive, in either direction."""
    acceleration_mps2: Positive = 1.0
    """Acceleration of the speed profile, m/s2."""
    deceleration_mps2: Positive = 0.5
    """Deceleration planned before slower parts and the end, m/s2; less if brake and coasting cannot
    reach it."""
    creep_mps: Positive | None = None
    """Lowest target of the deceleration to a stop, m/s, so that friction does not stop the vehicle
    short of it; None for a twentieth of ``limits.max_speed_mps``. A course that asks for less is
    driven slower."""
    brake_dead_band: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.1
    """Demand below zero throttle that is left to coasting, as a fraction of full drive, so that the
    brake does not chatter."""


CREEP_RATIO = 0.05
"""Creep speed of a vehicle whose profile states none, as a fraction of its highest speed."""
STABLE_LOOP = 0.6
"""Limit of p times acceleration per unit throttle times drive delay.

An integrator with delay is stable below pi / 2 and overshoots above 1 / e; the prediction over the
delay compensates most of it.
"""
LEAST_DELAY_S = 0.05
"""Shortest delay assumed for stability, s: a control period, the wire and the lag of any motor,
even if the profile states none."""


ANSWER_S = 0.4
"""Time after the drive's delay within which every vehicle moves that is driven, s."""
BREAKAWAY_RATIO, BRAKELESS_RATIO = 3.5, 1.5
"""Rate at which the throttle of a vehicle that stands grows, as a fraction of the planned
acceleration per second. One without a brake cannot have come to rest on a slope, so that friction
alone holds it."""
LEAST_RATE = 0.1
"""Smallest such rate, 1/s: the error of the friction model does not shrink with the speed asked
for."""
DISPROVED_S = 0.5
"""Time in which a vehicle that stands, although it is driven, disproves that something pushes it,
s."""
ROLL_STEP = 0.15
"""Throttle that is added after each time that the vehicle rolls back."""
HOLD_S = 0.15
"""Time beyond the drive's delay for which a vehicle that rolled back is held, s, until the estimate
has followed."""
RELEASE_S, RELEASE_MPS = 0.05, 0.03
"""Time constant with which that throttle is taken back once the vehicle is faster than its
reference, and what noise explains."""
RISE_S = 0.1
"""Time constant of the acceleration of a vehicle that comes free, s: fixes change its estimate in
steps."""
LEAP_RATIO = 0.75
"""Fraction of its target from which a vehicle that comes free may have leapt, where noise explains
more."""
APPROACH_S = 1.0
"""Shortest time in which a target is approached from standstill, s: estimate and drive must follow
a slow one, too."""
RUNAWAY_MPS, RUNAWAY_RATIO = 0.1, 0.1
"""Speed above the target from which the vehicle runs away, as down a slope: the larger of the two.
It is then braked harder."""


def creep_mps(params: SpeedParams, limits: Limits) -> float:
    """Return the lowest target of the deceleration to a stop, m/s."""
    return params.creep_mps if params.creep_mps is not None else CREEP_RATIO * limits.max_speed_mps


def usable_gain(params: SpeedParams, drive: Drive) -> float:
    """Return the gain p, limited to what is stable with the drive delay."""
    return min(params.p, _most_gain(drive))


def _most_gain(drive: Drive) -> float:
    return STABLE_LOOP / (drive_authority_mps2(drive) * max(drive.delay_s, LEAST_DELAY_S))


def runaway_mps(target_mps: float) -> float:
    """Return the speed from which the vehicle runs away from a target, both magnitudes."""
    return target_mps + max(RUNAWAY_MPS, RUNAWAY_RATIO * target_mps)


def drive_authority_mps2(drive: Drive) -> float:
    """Return the acceleration per unit of throttle, m/s2."""
    return drive.stall_torque_nm * drive.wheel_radius_m * drive.gear_ratio / drive.inertia_kgm2


def planned_deceleration_mps2(params: SpeedParams, drive: Drive) -> float:
    """Return the planned deceleration, limited to what brake and coasting give at low speed."""
    at_hand = drive.brake_deceleration_mps2 - drive.acceleration_mps2(0.0, 0.0)
    return max(min(params.deceleration_mps2, COAST_FRACTION * at_hand), 0.01)


def _facts(params: SpeedParams, vehicle: Vehicle) -> tuple[float, ...]:
    """Return the vehicle parameters that a profile depends on; all >= 0."""
    drive = vehicle.drive
    return (
        planned_deceleration_mps2(params, drive),
        vehicle.min_turn_radius_m,
        drive.top_speed_mps,
        drive.top_reverse_speed_mps,
    )


SLOWED = 0.98
"""Fraction of its own speed below which a course counts as slowed down."""


def course_speed_limits(vehicle: Vehicle, limits: Limits, course: Course) -> tuple[Array, Array]:
    """Return the highest speeds (n,) at the samples of a course, m/s: by limit and drive, and by
    lateral acceleration.

    Curvature is limited to what the vehicle can turn: a corner in the line is driven as the
    tightest arc.
    """
    curvature = np.clip(np.abs(course.curvature_per_m), 1e-9, 1.0 / vehicle.min_turn_radius_m)
    by_turn = np.sqrt(limits.max_lateral_acceleration_mps2 / curvature)
    drive_top_mps = np.where(
        course.speed_mps < 0.0, vehicle.drive.top_reverse_speed_mps, vehicle.drive.top_speed_mps
    )
    return np.minimum(limits.max_speed_mps, drive_top_mps), by_turn


def speed_warnings(
    vehicle: Vehicle, limits: Limits, course: Course, params: SpeedParams | None = None
) -> list[str]:
    """Return one sentence per reason for which the course is not driven at its own speeds; empty if
    there is none.

    ``params``: tuning of the speed control, None for a controller without it.
    """
    asked = np.abs(course.speed_mps)
    top, by_turn = course_speed_limits(vehicle, limits, course)
    warnings = []
    over = asked * SLOWED > top
    if over.any():
        worst = int(np.argmax(asked - top))
        backward = course.speed_mps[worst] < 0.0
        key = (
            "limits.max_speed_mps"
            if top[worst] >= limits.max_speed_mps
            else "the drive's top speed"
        )
        warnings.append(
            f"the course asks for up to {asked[worst]:.3g} "
            f"m/s{' in reverse' if backward else ''}; {key} is {top[worst]:.3g} m/s: "
            f"{over.mean():.0%} of the course is driven slower"
        )
    slow = np.minimum(asked, top)
    sharp = slow * SLOWED > by_turn
    if sharp.any():
        worst = int(np.argmax(slow / by_turn))
        needed_mps2 = float(
            limits.max_lateral_acceleration_mps2 * (slow[worst] / by_turn[worst]) ** 2
        )
        warnings.append(
            f"{slow[worst]:.3g} m/s at {course.s_m[worst]:.0f} m needs {needed_mps2:.3g} m/s^2 "
            "of lateral acceleration; limits.max_lateral_acceleration_mps2 is "
            f"{limits.max_lateral_acceleration_mps2:.3g}, so {sharp.mean():.0%} of the course is "
            f"driven slower, there at {by_turn[worst]:.2g} m/s"
        )
    if params is not None and (slowest := float(asked.min())) < (
        creep := creep_mps(params, limits)
    ):
        at_m, share = course.s_m[int(np.argmin(asked))], (asked < creep).mean()
        warnings.append(
            f"the course asks for {slowest:.3g} m/s at {at_m:.0f} m, and speed.creep_mps, below "
            f"which this vehicle may stop again and again, is {creep:.3g} m/s: {share:.0%} of "
            "the course is driven as slowly as it asks; raise its speed if the drive cannot"
        )
    return warnings


class SpeedTarget(Struct, frozen=True, gc=False):
    """Speed target at one arc length, negative in reverse, and its rate of change."""

    speed_mps: float
    acceleration_mps2: float


class SpeedProfile:
    """Highest speed by arc length, from the course's own speed, the vehicle's limit, lateral
    acceleration and braking distance.

    The lateral limit is sqrt(a_lat / |curvature|), with curvature limited to what the vehicle can
    turn. A backward pass with the planned deceleration looks ahead over the whole course. The end,
    the end of a lap, every cusp and every wait count as a stop.
    """

    def __init__(
        self, params: SpeedParams, vehicle: Vehicle, limits: Limits, course: Course
    ) -> None:
        self._given = params, limits, course
        self._facts = _facts(params, vehicle)
        top, by_turn = course_speed_limits(vehicle, limits, course)
        backward = course.speed_mps < 0.0
        bound = np.minimum(np.minimum(np.abs(course.speed_mps), by_turn), top)
        s_m = course.s_m
        if course.length_m > s_m[-1]:
            s_m, bound = np.append(s_m, course.length_m), np.append(bound, bound[0])
        self.deceleration_mps2 = planned_deceleration_mps2(params, vehicle.drive)
        """Deceleration planned before slower parts and the end, m/s2, > 0."""
        end = len(s_m) - 1
        self._legs = list(pairwise([0, *course.cusps, end]))
        waits = {min(int(np.searchsorted(s_m, wait.s_m)), end) for wait in course.waits}
        stops = sorted({0, *course.cusps, *waits, end})
        self._creep_mps: list[float] = np.minimum(bound, creep_mps(params, limits)).tolist()
        # Squares are linear in the distance at constant deceleration; speeds are not.
        square, after = bound * bound, np.zeros(len(s_m))
        for first, last in pairwise(stops):
            rise = 2.0 * self.deceleration_mps2 * (s_m[first : last + 1] - s_m[first])
            reachable = square[first : last + 1] + rise
            reachable[-1] = rise[-1]
            slowed = np.maximum(np.minimum.accumulate(reachable[::-1])[::-1] - rise, 0.0)
            square[first:last], after[first:last] = slowed[:-1], slowed[1:]
        # Not lists: a profile of a long course is made anew while the vehicle drives, and lists
        # would take ten times as long.
        self._s_m, self._square, self._square_after = (
            array("d", column.tobytes()) for column in (s_m, square, after)
        )
        self._signs = array("d", np.where(backward, -1.0, 1.0).tobytes())

    def adapted(self, vehicle: Vehicle) -> "SpeedProfile":
        """Return this profile, or a new one if the vehicle parameters changed by more than
        ``NOTABLE``."""
        facts = _facts(self._given[0], vehicle)
        if all(
            abs(now - then) <= NOTABLE * then for now, then in zip(facts, self._facts, strict=True)
        ):
            return self
        params, limits, course = self._given
        return SpeedProfile(params, vehicle, limits, course)

    def speeds_mps(self, leg: int) -> Array:
        """Return the speed magnitudes (n,) at the samples of a leg, its end included, where it is
        0."""
        first, last = self._legs[leg]
        squares: Array = np.append(
            np.frombuffer(self._square)[first:last], self._square_after[last - 1]
        )
        return np.sqrt(squares)

    def sampled_mps(self, count: int) -> Array:
        """Return the speed magnitudes at the first ``count`` samples of the course."""
        speeds: Array = np.sqrt(np.frombuffer(self._square, count=count))
        speeds[-1] = abs(self.at(self._s_m[count - 1]).speed_mps)
        return speeds

    def creep_mps(self, s_m: float) -> float:
        """Return the lowest target at an arc length, m/s > 0: ``SpeedParams.creep_mps``, or what
        the course asks for if less."""
        return self._creep_mps[bisect_right(self._s_m, s_m, 1, len(self._s_m) - 1) - 1]

    def at(self, s_m: float, leg: int | None = None) -> SpeedTarget:
        """Return the speed at an arc length, and the deceleration (never an acceleration) that
        follows the profile there.

        With ``leg``, the tracker's index, positions beyond its ends count as its ends.
        """
        first, last = self._legs[leg] if leg is not None else (0, len(self._s_m) - 1)
        k = bisect_right(self._s_m, s_m, first + 1, last) - 1
        start, here, sign = self._s_m[k], self._square[k], self._signs[k]
        slope = (self._square_after[k] - here) / (self._s_m[k + 1] - start)
        square = here + slope * clamp(s_m - start, 0.0, self._s_m[k + 1] - start)
        return SpeedTarget(
            sign * sqrt(max(square, 0.0)), sign * clamp(0.5 * slope, -self.deceleration_mps2, 0.0)
        )


class Demand(Struct, frozen=True, gc=False):
    """Fractions of full drive (-1 to 1) and of full brake (0 to 1); at most one is not 0."""

    throttle: float
    brake: float


def speed_noise_mps(estimate: StateEstimate) -> float:
    """Return the speed that the noise of an estimate explains at standstill, m/s."""
    variance = estimate.covariance[15]
    return 2.0 * sqrt(variance) if 0.0 <= variance < inf else MOVING_MPS


class PidState(Struct, frozen=True, gc=False):
    """State of the speed controller between two steps; negative in reverse."""

    reference_mps: float = float("nan")
    """Target after the acceleration limit, m/s; NaN before the first step."""
    integral: float = 0.0
    """Integral contribution to the throttle."""
    last_speed_mps: float = float("nan")
    last_now_mps: float = float("nan")
    """Present speed at the last step, m/s."""
    rise_mps2: float = 0.0
    """Mean acceleration over the last moments, m/s2."""
    breakaway: float = 0.0
    """Throttle added to move a vehicle that stands: against static friction or a slope."""
    standing_s: float = 0.0
    """Time for which the vehicle has stood although it is asked to move, s."""
    pushing_s: float = 0.0
    """Time for which the drive has pushed a vehicle that stood, s."""
    hold_s: float = 0.0
    """Time for which the brake still holds a vehicle that rolled back, s."""

    def answers(self, drive: Drive) -> bool:
        """Return False while the vehicle stands for longer than any drive needs to move it: it is
        held, or stuck."""
        return self.standing_s <= drive.delay_s + ANSWER_S


def speed_step(
    params: SpeedParams,
    drive: Drive,
    state: PidState,
    speed_mps: float,
    target: SpeedTarget,
    dt_s: float,
    surplus_mps2: float = 0.0,
    *,
    now_mps: float = float("nan"),
    noise_mps: float = MOVING_MPS,
) -> tuple[PidState, Demand]:
    """Return state and demand after one step of PID with feed-forward. Inputs are finite, ``dt_s``
    > 0.

    The speed is that at which the throttle takes effect; ``now_mps`` is the present one, if that
    differs, with its ``noise_mps``. ``surplus_mps2`` is the model error for the feed-forward
    (:mod:`~vehicled.control.drive_observer`). The reference starts at the speed, so taking over is
    smooth; it rises by at most ``acceleration_mps2`` and stays near the speed. The vehicle brakes
    to standstill before it changes direction.

    Anti-windup: the integral is limited, and frozen while the output saturates in the direction of
    the error and while the vehicle does not answer. A vehicle that stands gets a throttle of its
    own instead, which grows slowly and is taken back as soon as it moves too fast; a surplus that
    would push it counts less and less until it moves. One that rolls back down a slope is braked,
    and the throttle that would have held it is added for the next try.
    """
    sign = _direction(drive, speed_mps, target)
    now_mps = now_mps if isfinite(now_mps) else speed_mps
    rise_mps2 = 0.0
    if isfinite(state.last_now_mps):
        rise_mps2 = state.rise_mps2 + (now_mps - state.last_now_mps - state.rise_mps2 * dt_s) / max(
            RISE_S, dt_s
        )
    can_brake = drive.brake_deceleration_mps2 > 0.0
    authority = drive_authority_mps2(drive)
    now = sign * now_mps
    breakaway = max(sign * state.breakaway, 0.0)
    if min(now, sign * speed_mps) < -STANDSTILL_MPS and (
        drive.reverse_share > 0.0 or (can_brake and now < -STANDSTILL_MPS)
    ):
        hold_s = drive.delay_s + HOLD_S
        if state.hold_s == 0.0 and sign * state.reference_mps > 0.0:
            breakaway = min(breakaway + ROLL_STEP, 1.0)
        rolled = PidState(
            0.0, 0.0, speed_mps, now_mps, 0.0, sign * breakaway, state.standing_s, 0.0, hold_s
        )
        return rolled, Demand(0.0, 1.0 if can_brake else 0.0)
    if can_brake and state.hold_s > 0.0:
        hold_s = max(state.hold_s - dt_s, 0.0)
        held = PidState(
            0.0, 0.0, speed_mps, now_mps, 0.0, sign * breakaway, state.standing_s, 0.0, hold_s
        )
        return held, Demand(0.0, 1.0)
    # Signs are those of the target's direction from here on.
    speed = sign * speed_mps
    wanted = sign * target.speed_mps
    slowing = sign * target.acceleration_mps2
    last = sign * state.reference_mps if isfinite(state.reference_mps) else speed
    integral = sign * state.integral
    if isfinite(state.reference_mps) and last < 0.0:
        # Values learned in the other direction do not apply.
        last = integral = 0.0
    below_mps = standing_below_mps(wanted, noise_mps)
    stands = wanted > 0.0 and now < below_mps
    standing_s = state.standing_s + dt_s if stands else 0.0
    answers = standing_s <= drive.delay_s + ANSWER_S
    lead = max(0.3, 0.5 * params.acceleration_mps2)
    planned_mps2 = min(params.acceleration_mps2, max(wanted, STANDSTILL_MPS) / APPROACH_S)
    highest = min(last + planned_mps2 * dt_s, speed + lead)
    reference = min(wanted, max(highest, 0.0))
    if not answers:
        # Once it comes free it starts from here, at the planned acceleration.
        reference = min(reference, below_mps)
    error = reference - speed
    gain = usable_gain(params, drive)
    if not answers:
        ratio = BREAKAWAY_RATIO if can_brake else BRAKELESS_RATIO
        breakaway = min(breakaway + max(ratio * planned_mps2 / authority, LEAST_RATE) * dt_s, 1.0)
    elif not stands:
        # By the present speed: the predicted one knows nothing of what holds the vehicle back.
        fast_mps = max(min(speed, now) - reference - RELEASE_MPS, 0.0)
        # Slow growth frees a vehicle gently, so one that leaps forward was held by something that
        # has let go.
        leap_mps2 = (
            max(sign * rise_mps2 - planned_mps2, 0.0)
            if now > min(noise_mps, LEAP_RATIO * wanted)
            else 0.0
        )
        breakaway = max(
            breakaway - (gain * fast_mps + leap_mps2 / authority) * dt_s / RELEASE_S, 0.0
        )
    over_mps = max(speed - runaway_mps(max(wanted, 0.0)), 0.0)
    demand = gain * error + integral + breakaway - (_most_gain(drive) - gain) * over_mps
    if over_mps > 0.0:
        # The brake ends the acceleration at once; the observer learns the slope later.
        demand -= max(sign * rise_mps2, 0.0) / authority
    if params.feed_forward:
        rising = reference < wanted
        acceleration, pushed_mps2 = planned_mps2 if rising else slowing, sign * surplus_mps2
        if not answers and pushed_mps2 > 0.0:
            pushed_mps2 *= max(1.0 - (standing_s - drive.delay_s - ANSWER_S) / DISPROVED_S, 0.0)
        demand += drive.steady_throttle(reference) + (acceleration - pushed_mps2) / authority
    if isfinite(state.last_speed_mps):
        demand -= params.d * (speed - sign * state.last_speed_mps) / dt_s

    most = 1.0 if sign > 0.0 else drive.reverse_share
    throttle = clamp(demand, 0.0, most)
    brake = 0.0
    lowest = 0.0
    if can_brake:
        # Throttle and brake act on one acceleration, so the loop gain is equal on both sides of
        # coasting.
        ratio = authority / drive.brake_deceleration_mps2
        lowest = -1.0 / ratio
        if demand < (-params.brake_dead_band if over_mps == 0.0 else 0.0):
            brake = min(-demand * ratio, 1.0)
    saturated = (demand >= most and error > 0.0) or (demand <= lowest and error < 0.0)
    if answers and not saturated:
        integral = clamp(
            integral + params.i * error * dt_s, -params.integral_limit, params.integral_limit
        )
    # Adding 0.0 changes only a negative zero.
    pushing_s = state.pushing_s + dt_s if throttle > 0.0 and now < STANDSTILL_MPS else 0.0
    after = PidState(
        sign * reference,
        sign * integral,
        speed_mps,
        now_mps,
        rise_mps2,
        sign * breakaway,
        standing_s,
        pushing_s,
    )
    return after, Demand(sign * throttle + 0.0, brake)


def _direction(drive: Drive, speed_mps: float, target: SpeedTarget) -> float:
    """Return 1.0 or -1.0: the direction of the target, or of the motion if the target has none."""
    if target.speed_mps != 0.0:
        return 1.0 if target.speed_mps > 0.0 else -1.0
    return -1.0 if speed_mps < 0.0 and drive.reverse_share > 0.0 else 1.0
