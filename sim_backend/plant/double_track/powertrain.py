"""Powertrains and driveline: from the throttle to the wheel speeds at the end of the step.

Every powertrain gives its torque at a shaft as a straight line of the shaft's speed, ``torque -
fall speed``, both in wheel units. Back-EMF, speed loops and inertias are stiff against the wheel
speed; as slopes they are solved implicitly without iteration. Each of the two shafts drives two
wheels: front and rear axle, or left and right side.
"""

from bisect import bisect_right
from collections.abc import Callable
from math import fabs
from typing import Any, NamedTuple

from sim_backend.plant.double_track.constants import (
    AccelerationConstants,
    AxleConstants,
    Constants,
    EngineConstants,
    MotorConstants,
    Table,
)

LEAST_DIFFERENCE_RADPS = 1e-6
PARK, NEUTRAL = -2.0, -1.0
"""Gears of a selector beside reverse (0) and forward (from 1)."""
SLOW_MPS = 0.5
"""Speed below which a gear against the asked direction is left."""
STANDS_MPS = 0.05
"""Speed below which a selector engages P, D or R."""
COUPLED_SLIP = 0.003
"""Slip ratio of a torque converter below which its torque is proportional to the slip. The capacity
curve itself jumps in sign at zero slip.
"""


class ShaftDrive(NamedTuple):
    """Effect of a powertrain on the shaft to the wheels."""

    torque_nm: float
    fall_nms: float
    friction_nm: float
    """Dry friction torque."""
    engine_radps: float
    """Engine speed for the next step, without the contribution of the shaft's speed at the end of
    this one."""
    engine_per_shaft: float
    """Engine speed contributed per shaft speed."""
    gear: float
    since_shift_s: float
    standing_s: float


class Shaft(NamedTuple):
    """Torque-free mean speed of two wheels, and its change per torque on their shaft."""

    speed_radps: float
    give_per_nms: float


class Wheels(NamedTuple):
    """Two wheels joined by a differential: wheel speed times effective inertia before and after
    coupling, and the coupling."""

    left_nms: float
    left_kgm2: float
    right_nms: float
    right_kgm2: float
    coupling_kgm2: float


def lookup(points: Table, values: Table, at: float) -> tuple[float, float]:
    """Return the value and slope of a piecewise linear curve; constant beyond its ends. ``points``
    grow."""
    index = bisect_right(points, at)
    if index == 0:
        return values[0], 0.0
    if index == len(points):
        return values[index - 1], 0.0
    slope = (values[index] - values[index - 1]) / (points[index] - points[index - 1])
    return values[index - 1] + slope * (at - points[index - 1]), slope


def pick(values: Table, index: float) -> float:
    """Return the value at a whole-numbered index."""
    return values[int(index)]


def drive(
    c: Constants,
    d: Any,
    throttle: float,
    shaft_radps: float,
    engine_radps: float,
    gear: float,
    since_s: float,
    standing_s: float,
    ahead_mps: float,
) -> ShaftDrive:
    """Return the drive of the powertrain that the constants ``d`` belong to."""
    return DRIVES[type(d)](
        c, d, throttle, shaft_radps, engine_radps, gear, since_s, standing_s, ahead_mps
    )


def motor(
    c: Constants,
    m: MotorConstants,
    throttle: float,
    shaft_radps: float,
    engine_radps: float,
    gear: float,
    since_s: float,
    standing_s: float,
    ahead_mps: float,
) -> ShaftDrive:
    """Return the drive of an electric motor at a shaft speed."""
    command = throttle if throttle > -m.reverse_share else -m.reverse_share
    speed = shaft_radps * m.reduction
    sign = 1.0 if command >= 0.0 else -1.0
    size = fabs(command)
    duty = 1.0 if m.by_current or m.by_speed else (size if size > 1e-9 else 1e-9)
    curve_nm, curve_slope = lookup(m.curve_speed, m.curve_torque, speed * sign / duty)
    limit_nm = curve_nm if curve_nm < m.peak_nm else m.peak_nm
    limit_slope = curve_slope if curve_nm < m.peak_nm else 0.0
    asked_nm = (
        m.speed_gain_nms * (command * m.top_speed_radps - speed)
        if m.by_speed
        else (command * m.peak_nm if m.by_current else 0.0)
    )
    most_nm = limit_nm if limit_nm > 0.0 else 0.0
    reach_nm = most_nm if asked_nm * sign > 0.0 else m.peak_nm
    within = fabs(asked_nm) < reach_nm
    free_nm = (
        (asked_nm if within else (reach_nm if asked_nm >= 0.0 else -reach_nm))
        if m.by_current or m.by_speed
        else sign
        * (size if size > 1e-9 else 0.0)
        * (limit_nm if limit_nm > -m.peak_nm else -m.peak_nm)
    )
    free_slope = (
        (-m.speed_gain_nms if m.by_speed and within else 0.0)
        if m.by_current or m.by_speed
        else limit_slope
    )
    let = m.regeneration if free_nm * speed < 0.0 else 1.0
    slope = free_slope * let if free_slope < 0.0 else 0.0
    torque_nm = free_nm * let
    loss_nm, _ = lookup(m.loss_speed, m.loss_torque, fabs(speed))
    inertia_nms = m.inertia_nms
    fall_nms = inertia_nms - slope * m.reduction * m.reduction
    return ShaftDrive(
        torque_nm * m.reduction + fall_nms * shaft_radps,
        fall_nms,
        (loss_nm + (m.hold_nm if command == 0.0 else 0.0)) * m.reduction,
        speed,
        0.0,
        gear,
        since_s,
        standing_s,
    )


def engine(
    c: Constants,
    e: EngineConstants,
    throttle: float,
    shaft_radps: float,
    engine_radps: float,
    gear: float,
    since_s: float,
    standing_s: float,
    ahead_mps: float,
) -> ShaftDrive:
    """Return the drive of a combustion engine with gearbox at a shaft speed."""
    # In P and N nothing joins engine and shaft; the ratio of reverse stands for none.
    engaged = 1.0 if gear >= 0.0 else 0.0
    chosen = gear if gear >= 0.0 else 0.0
    ratio = pick(e.ratios, chosen)
    input_radps = shaft_radps / ratio
    crank_radps = engine_radps if e.converter else input_radps
    map_nm, _ = lookup(e.map_speed, e.map_torque, crank_radps)
    loss_nm, _ = lookup(e.loss_speed, e.loss_torque, crank_radps)
    # It has no gear against the rolling direction yet: the throttle stays closed, and the engine
    # brakes.
    asked = engaged * (throttle if gear > 0.0 else -throttle)
    engine_nm = (asked if asked > 0.0 else 0.0) * map_nm + loss_nm
    # Torque converter: an implicit viscous coupling of engine and gearbox input. Whatever the
    # inertias, its torque vanishes with the slip, cannot reverse it, and only dissipates energy.
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
    fall_nms = (
        multiplied * pump_nms / (ratio * ratio)
        if e.converter
        else e.inertia_kgm2 / (ratio * ratio * c.step_s)
    )
    torque_nm = (
        multiplied * pump_nms * free_radps / ratio
        if e.converter
        else engine_nm / ratio + fall_nms * shaft_radps
    )
    # The shift counts from the next step on.
    ready = since_s >= e.shift_interval_s
    slow = gear < 0.0 or fabs(shaft_radps) * c.rear.rolling_radius_m < SLOW_MPS
    backward = throttle < 0.0 and e.reverse and slow
    forward = throttle > 0.0 and gear < 1.0 and slow
    up = ready and input_radps > pick(e.up_radps, chosen) and gear < e.gears and gear > 0.0
    down = ready and input_radps < pick(e.down_radps, chosen) and gear > 1.0
    wanted = (
        0.0
        if backward
        else (1.0 if forward else (gear + 1.0 if up else (gear - 1.0 if down else gear)))
    )
    # A selector passes N, where it waits for its own time and for standstill.
    stands = fabs(ahead_mps) < STANDS_MPS
    turns = (gear > 0.0 and wanted == 0.0) or (gear == 0.0 and wanted == 1.0)
    leaves = gear == PARK and wanted >= 0.0
    waits = gear == NEUTRAL and wanted >= 0.0 and (since_s < e.change_s or not stands)
    between = e.selector and (turns or leaves or waits)
    parks = e.selector and standing_s >= e.park_after_s
    gear_after = PARK if parks else (NEUTRAL if between else wanted)
    holds = gear == PARK or (gear == NEUTRAL and stands)
    return ShaftDrive(
        engaged * torque_nm,
        engaged * fall_nms,
        e.park_nm if holds else 0.0,
        (1.0 - engaged * taken) * free_radps if e.converter else engaged * crank_radps,
        engaged * taken / ratio if e.converter else 0.0,
        gear_after,
        since_s + c.step_s if gear_after == gear else 0.0,
        standing_s + c.step_s if throttle == 0.0 and stands else 0.0,
    )


def acceleration(
    c: Constants,
    a: AccelerationConstants,
    throttle: float,
    shaft_radps: float,
    engine_radps: float,
    gear: float,
    since_s: float,
    standing_s: float,
    ahead_mps: float,
) -> ShaftDrive:
    """Return the drive of a commanded acceleration."""
    command = throttle if throttle > -a.reverse_share else -a.reverse_share
    speed_mps = shaft_radps * (
        c.front_share * c.front.rolling_radius_m + c.rear_share * c.rear.rolling_radius_m
    )
    towards_mps = speed_mps if command >= 0.0 else -speed_mps
    most = a.switch_speed_mps / towards_mps if towards_mps > a.switch_speed_mps else 1.0
    limited = (command if command > -most else -most) if command < most else most
    torque_nm = limited * a.full_torque_nm if towards_mps < a.top_speed_mps else 0.0
    return ShaftDrive(torque_nm, 0.0, 0.0, shaft_radps, 0.0, gear, since_s, standing_s)


DRIVES: dict[type, Callable[..., ShaftDrive]] = {
    MotorConstants: motor,
    EngineConstants: engine,
    AccelerationConstants: acceleration,
}


def bias_nms(
    torque_nm: float,
    difference_radps: float,
    pulled: float,
    dragged: float,
    begin_radps: float,
    ramp_per_radps: float,
) -> float:
    """Return the torque bias of a differential as a viscous coupling: torque between its sides over
    their speed difference."""
    share = pulled if torque_nm > 0.0 else dragged
    apart = fabs(difference_radps)
    engaged = (apart - begin_radps) * ramp_per_radps
    limited = (engaged if engaged < 1.0 else 1.0) if engaged > 0.0 else 0.0
    return (
        share
        * fabs(torque_nm)
        * limited
        / (apart if apart > LEAST_DIFFERENCE_RADPS else LEAST_DIFFERENCE_RADPS)
    )


def coupling(c: AxleConstants, torque_nm: float, left_radps: float, right_radps: float) -> float:
    """Return the coupling of the two wheels of a shaft, over the step."""
    bias = bias_nms(
        torque_nm,
        left_radps - right_radps,
        c.bias_share,
        c.coast_bias_share,
        c.bias_begin_radps,
        c.bias_ramp_per_radps,
    )
    coupled = c.step_s * (c.lock_nms + bias)
    # A bias towards the faster side drives them apart; keep it small against the stabilising terms.
    least = -0.2 * c.spin_inertia_kgm2
    return coupled if coupled > least else least


def shaft(c: AxleConstants, w: Wheels) -> Shaft:
    """Return the two wheels as seen from their shaft."""
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    left = (w.right_kgm2 + w.coupling_kgm2) * w.left_nms + w.coupling_kgm2 * w.right_nms
    right = (w.left_kgm2 + w.coupling_kgm2) * w.right_nms + w.coupling_kgm2 * w.left_nms
    return Shaft(
        0.5 * (left + right) / det,
        0.25 * c.step_s * (w.left_kgm2 + w.right_kgm2 + 4.0 * w.coupling_kgm2) / det,
    )


def left_speed(c: AxleConstants, w: Wheels, torque_nm: float) -> float:
    """Return the speed of the left wheel with a torque on the shaft."""
    half = 0.5 * c.step_s * torque_nm
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    return (
        (w.right_kgm2 + w.coupling_kgm2) * (w.left_nms + half)
        + w.coupling_kgm2 * (w.right_nms + half)
    ) / det


def right_speed(c: AxleConstants, w: Wheels, torque_nm: float) -> float:
    """Return the speed of the right wheel with a torque on the shaft."""
    half = 0.5 * c.step_s * torque_nm
    det = w.left_kgm2 * w.right_kgm2 + w.coupling_kgm2 * (w.left_kgm2 + w.right_kgm2)
    return (
        (w.left_kgm2 + w.coupling_kgm2) * (w.right_nms + half)
        + w.coupling_kgm2 * (w.left_nms + half)
    ) / det


def rubbed(
    momentum_nms: float, spin_radps: float, pull_nm: float, friction_nm: float, step_s: float
) -> float:
    """Return a wheel's momentum after dry friction: against the spin, or at standstill against the
    pull up to its size."""
    most = step_s * friction_nm
    pulled = momentum_nms + step_s * pull_nm
    held = (pulled if pulled > -most else -most) if pulled < most else most
    return momentum_nms - (most if spin_radps > 0.0 else (-most if spin_radps < 0.0 else held))


def settled(
    spin_radps: float,
    before_radps: float,
    momentum_nms: float,
    pull_nm: float,
    friction_nm: float,
    step_s: float,
) -> float:
    """Return a wheel's speed; friction stops it at 0 instead of reversing it, and holds it while
    friction exceeds the pull."""
    stuck = fabs(momentum_nms + step_s * pull_nm) <= step_s * friction_nm
    stays = stuck if before_radps == 0.0 else spin_radps * before_radps <= 0.0 and friction_nm > 0.0
    return 0.0 if stays else spin_radps
