"""Powertrains and driveline: from the throttle to the wheel speeds at the end of the step.

Every powertrain gives its torque at a shaft as a straight line of the shaft's speed, ``torque - fall speed``, both in wheel units.
Back-EMF, speed loops and inertias are stiff against the spin of a wheel; as slopes they are taken at the end of the step, without
iteration. Two shafts lead to two wheels each: front and rear axle, or left and right side.
"""

from math import fabs
from typing import NamedTuple

from sim_backend.plant.double_track.constants import (
    AccelerationConstants,
    AxleConstants,
    Constants,
    EngineConstants,
    MotorConstants,
)
from sim_backend.plant.double_track.tables import lookup, pick

LEAST_DIFFERENCE_RADPS = 1e-6
COUPLED_SLIP = 0.003
"""Of a torque converter: below this share of the engine's speed its torque goes with the slip, through 0 where both sides turn
alike. Its capacity curve ends in a torque there, with one sign before and the other after."""


class Drive(NamedTuple):
    """What a powertrain does to the shaft that leads to the wheels."""

    torque_nm: float
    fall_nms: float
    friction_nm: float
    """Dry friction."""
    engine_radps: float
    """For the next step, without what the speed of the shaft at the end of this one adds to it."""
    engine_per_shaft: float
    """That share of the shaft's speed."""
    gear: float
    since_shift_s: float


class Shaft(NamedTuple):
    """Mean speed of two wheels without torque on their shaft, and what torque adds to it."""

    speed_radps: float
    give_per_nms: float


class Wheels(NamedTuple):
    """Two wheels joined by a differential: wheel speed times effective inertia before and after each other, and their coupling."""

    left_nms: float
    left_kgm2: float
    right_nms: float
    right_kgm2: float
    coupling_kgm2: float


def motor(
    c: Constants, m: MotorConstants, throttle: float, shaft_radps: float, engine_radps: float, gear: float, since_s: float
) -> Drive:
    """Electric motor on a shaft of the given speed."""
    command = throttle if throttle > -m.reverse_share else -m.reverse_share
    speed = shaft_radps * m.reduction
    sign = 1.0 if command >= 0.0 else -1.0
    size = fabs(command)
    duty = 1.0 if m.by_current or m.by_speed else (size if size > 1e-9 else 1e-9)
    curve_nm, curve_slope = lookup(m.curve_speed, m.curve_torque, speed * sign / duty)
    limit_nm = curve_nm if curve_nm < m.peak_nm else m.peak_nm
    limit_slope = curve_slope if curve_nm < m.peak_nm else 0.0
    asked_nm = (
        m.speed_gain_nms * (command * m.top_speed_radps - speed) if m.by_speed else (command * m.peak_nm if m.by_current else 0.0)
    )
    most_nm = limit_nm if limit_nm > 0.0 else 0.0
    reach_nm = most_nm if asked_nm * sign > 0.0 else m.peak_nm
    within = fabs(asked_nm) < reach_nm
    free_nm = (
        (asked_nm if within else (reach_nm if asked_nm >= 0.0 else -reach_nm))
        if m.by_current or m.by_speed
        else sign * (size if size > 1e-9 else 0.0) * (limit_nm if limit_nm > -m.peak_nm else -m.peak_nm)
    )
    free_slope = (-m.speed_gain_nms if m.by_speed and within else 0.0) if m.by_current or m.by_speed else limit_slope
    let = m.regeneration if free_nm * speed < 0.0 else 1.0
    slope = free_slope * let if free_slope < 0.0 else 0.0
    torque_nm = free_nm * let
    loss_nm, _ = lookup(m.loss_speed, m.loss_torque, fabs(speed))
    inertia_nms = m.inertia_nms
    fall_nms = inertia_nms - slope * m.reduction * m.reduction
    return Drive(
        torque_nm * m.reduction + fall_nms * shaft_radps,
        fall_nms,
        (loss_nm + (m.hold_nm if command == 0.0 else 0.0)) * m.reduction,
        speed,
        0.0,
        gear,
        since_s,
    )


def engine(
    c: Constants, e: EngineConstants, throttle: float, shaft_radps: float, engine_radps: float, gear: float, since_s: float
) -> Drive:
    """Combustion engine with its gearbox on a shaft of the given speed."""
    ratio = pick(e.ratios, gear)
    input_radps = shaft_radps / ratio
    crank_radps = engine_radps if e.converter else input_radps
    map_nm, _ = lookup(e.map_speed, e.map_torque, crank_radps)
    loss_nm, _ = lookup(e.loss_speed, e.loss_torque, crank_radps)
    # Told to drive the other way while it rolls, it has no gear for that yet: the throttle stays closed, and the engine brakes.
    asked = throttle if gear > 0.0 else -throttle
    engine_nm = (asked if asked > 0.0 else 0.0) * map_nm + loss_nm
    # Torque converter: over the step a viscous coupling of engine and gearbox input, both at their speeds at its end. However light
    # they are, its torque ends with the slip between them and cannot turn that round, and it only takes energy out.
    turning = input_radps > 1e-9 and crank_radps > 1e-9
    plain = input_radps / crank_radps if turning else 0.0
    overrun = plain > 1.0
    mirrored = 2.0 - plain if plain < 2.0 else 0.0
    speed_ratio = mirrored if overrun else plain
    capacity, _ = lookup(e.converter_speed_ratio, e.converter_capacity, speed_ratio)
    torque_ratio, _ = lookup(e.converter_speed_ratio, e.converter_torque_ratio, speed_ratio)
    multiplied = 1.0 if overrun else torque_ratio
    pump = crank_radps / (capacity if e.converter else 1.0)
    slip_radps = fabs(crank_radps - input_radps)
    least_radps = COUPLED_SLIP * fabs(crank_radps) + LEAST_DIFFERENCE_RADPS
    slip_nms = pump * pump / (slip_radps if slip_radps > least_radps else least_radps)
    crank_give_per_nms = c.step_s / (e.inertia_kgm2 if e.converter else 1.0)
    free_radps = crank_radps + crank_give_per_nms * engine_nm
    pump_nms = slip_nms / (1.0 + crank_give_per_nms * slip_nms)
    taken = crank_give_per_nms * pump_nms
    fall_nms = multiplied * pump_nms / (ratio * ratio) if e.converter else e.inertia_kgm2 / (ratio * ratio * c.step_s)
    torque_nm = multiplied * pump_nms * free_radps / ratio if e.converter else engine_nm / ratio + fall_nms * shaft_radps
    # The shift counts from the next step on.
    ready = since_s >= e.shift_interval_s
    backward = throttle < 0.0 and e.reverse and fabs(shaft_radps) * c.rear.rolling_radius_m < 0.5
    forward = throttle > 0.0 and gear < 1.0 and fabs(shaft_radps) * c.rear.rolling_radius_m < 0.5
    up = ready and input_radps > pick(e.up_radps, gear) and gear < e.gears and gear > 0.0
    down = ready and input_radps < pick(e.down_radps, gear) and gear > 1.0
    gear_after = 0.0 if backward else (1.0 if forward else (gear + 1.0 if up else (gear - 1.0 if down else gear)))
    return Drive(
        torque_nm,
        fall_nms,
        0.0,
        (1.0 - taken) * free_radps if e.converter else crank_radps,
        taken / ratio if e.converter else 0.0,
        gear_after,
        since_s + c.step_s if gear_after == gear else 0.0,
    )


def acceleration(
    c: Constants, a: AccelerationConstants, throttle: float, shaft_radps: float, engine_radps: float, gear: float, since_s: float
) -> Drive:
    """Torque of a commanded acceleration."""
    command = throttle if throttle > -a.reverse_share else -a.reverse_share
    speed_mps = shaft_radps * (c.front_share * c.front.rolling_radius_m + c.rear_share * c.rear.rolling_radius_m)
    towards_mps = speed_mps if command >= 0.0 else -speed_mps
    most = a.switch_speed_mps / towards_mps if towards_mps > a.switch_speed_mps else 1.0
    limited = (command if command > -most else -most) if command < most else most
    torque_nm = limited * a.full_torque_nm if towards_mps < a.top_speed_mps else 0.0
    return Drive(torque_nm, 0.0, 0.0, shaft_radps, 0.0, gear, since_s)


def bias_nms(
    torque_nm: float, difference_radps: float, pulled: float, dragged: float, begin_radps: float, ramp_per_radps: float
) -> float:
    """Torque bias of a differential as a viscous coupling: torque between its sides over their difference of speed."""
    share = pulled if torque_nm > 0.0 else dragged
    apart = fabs(difference_radps)
    engaged = (apart - begin_radps) * ramp_per_radps
    limited = (engaged if engaged < 1.0 else 1.0) if engaged > 0.0 else 0.0
    return share * fabs(torque_nm) * limited / (apart if apart > LEAST_DIFFERENCE_RADPS else LEAST_DIFFERENCE_RADPS)


def coupling(c: AxleConstants, torque_nm: float, left_radps: float, right_radps: float) -> float:
    """Of the two wheels of a shaft, over the step."""
    bias = bias_nms(
        torque_nm, left_radps - right_radps, c.bias_share, c.coast_bias_share, c.bias_begin_radps, c.bias_ramp_per_radps
    )
    coupled = c.step_s * (c.lock_nms + bias)
    # A bias towards the faster side pushes them apart, which must stay small against what keeps them together.
    least = -0.2 * c.spin_inertia_kgm2
    return coupled if coupled > least else least


def shaft(c: AxleConstants, w: Wheels) -> Shaft:
    """The two wheels, seen from their shaft."""
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    left = (w.right_kgm2 + w.coupling_kgm2) * w.left_nms + w.coupling_kgm2 * w.right_nms
    right = (w.left_kgm2 + w.coupling_kgm2) * w.right_nms + w.coupling_kgm2 * w.left_nms
    return Shaft(0.5 * (left + right) / det, 0.25 * c.step_s * (w.left_kgm2 + w.right_kgm2 + 4.0 * w.coupling_kgm2) / det)


def left_speed(c: AxleConstants, w: Wheels, torque_nm: float) -> float:
    """Of the left wheel with a torque on the shaft."""
    half = 0.5 * c.step_s * torque_nm
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    return ((w.right_kgm2 + w.coupling_kgm2) * (w.left_nms + half) + w.coupling_kgm2 * (w.right_nms + half)) / det


def right_speed(c: AxleConstants, w: Wheels, torque_nm: float) -> float:
    """Of the right wheel with a torque on the shaft."""
    half = 0.5 * c.step_s * torque_nm
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    return ((w.left_kgm2 + w.coupling_kgm2) * (w.right_nms + half) + w.coupling_kgm2 * (w.left_nms + half)) / det


def rubbed(momentum_nms: float, spin_radps: float, pull_nm: float, friction_nm: float, step_s: float) -> float:
    """Momentum of a wheel after dry friction: against the spin, or at rest against the pull as far as that needs it."""
    most = step_s * friction_nm
    pulled = momentum_nms + step_s * pull_nm
    held = (pulled if pulled > -most else -most) if pulled < most else most
    return momentum_nms - (most if spin_radps > 0.0 else (-most if spin_radps < 0.0 else held))


def settled(
    spin_radps: float, before_radps: float, momentum_nms: float, pull_nm: float, friction_nm: float, step_s: float
) -> float:
    """Speed of a wheel, ended at 0 by friction where it would turn round, and kept there while friction is the stronger."""
    stuck = fabs(momentum_nms + step_s * pull_nm) <= step_s * friction_nm
    stays = stuck if before_radps == 0.0 else spin_radps * before_radps <= 0.0 and friction_nm > 0.0
    return 0.0 if stays else spin_radps
