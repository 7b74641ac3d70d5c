"""One step of a double-track vehicle. ``docs/vehicle_model.md`` derives the equations in this
order.

Assignments of expressions only, as in :mod:`.tyre` and :mod:`.powertrain`, because :mod:`.c_source`
translates the text to C. Sums over wheels pair left with right, so that a mirrored manoeuvre gives
mirrored bits.
"""

from math import cos, fabs, sin, sqrt, tan
from typing import NamedTuple

from sim_backend.plant.double_track.constants import AxleConstants, Constants
from sim_backend.plant.double_track.powertrain import (
    Wheels,
    bias_nms,
    coupling,
    drive,
    left_speed,
    right_speed,
    rubbed,
    settled,
    shaft,
)
from sim_backend.plant.double_track.state import Outputs, PlantState, Stepped, Surface
from sim_backend.plant.double_track.tyre import Contact, contact, deflected

STILL_MPS = 2e-3
"""Speed below which a vehicle with all wheels stopped is at standstill."""
STILL_RADPS = 2e-3
STILL_WHEEL_MPS2 = 0.1
"""Largest gain of wheel speed over a step, as acceleration, of a stopped wheel: a held wheel begins
every step at 0, so its pull counts.
"""
HOLD_AFTER_S = 0.2
ROLLED_MPS = 0.01
"""Rolling speed offset of models that count slip angle by rolling speed. Here it fades with the
speed, because those models yaw for ever at standstill with turned wheels.
"""


class Loads(NamedTuple):
    """Wheel loads, and the moment that no load can balance."""

    fl_n: float
    fr_n: float
    rl_n: float
    rr_n: float
    tipping_nm: float
    """Moment of the lateral forces about the road, right side down."""


class Corner(NamedTuple):
    """Direction and velocity of a wheel, in its own axes."""

    cos: float
    sin: float
    forward_mps: float
    lateral_mps: float


def loads(c: Constants, s: PlantState, g: Surface) -> Loads:
    """Return the static loads plus load transfer by the last step's accelerations and by the
    springs."""
    f, r = c.front, c.rear
    square = s.forward_mps * s.forward_mps
    pitching = c.pitch_stiffness_nmprad * s.pitch_rad + c.pitch_damping_nmsprad * s.pitch_rate_radps
    forward_n = (pitching - c.dive_kgm * s.forward_mps2) / c.wheelbase_m
    weight_n = c.mass_kg * g.down_mps2
    total_n = weight_n - (f.lift_nspm + r.lift_nspm) * square
    total_n = total_n if total_n > 0.0 else 0.0
    front_n = weight_n * f.weight_share - f.lift_nspm * square + forward_n
    front_n = (front_n if front_n < total_n else total_n) if front_n > 0.0 else 0.0
    rear_n = total_n - front_n
    roll_f = (
        f.roll_stiffness_nmprad * s.roll_rad
        + f.roll_damping_nmsprad * s.roll_rate_radps
        + f.geometric_kgm * s.lateral_mps2
    )
    roll_r = (
        r.roll_stiffness_nmprad * s.roll_rad
        + r.roll_damping_nmsprad * s.roll_rate_radps
        + r.geometric_kgm * s.lateral_mps2
    )
    # An axle with a lifted wheel cannot transfer more load; the other axle takes the rest up to its
    # own limit.
    most_f = front_n * f.half_track_m
    most_r = rear_n * r.half_track_m
    first_f = clipped(roll_f, most_f)
    moved_r = clipped(roll_r + (roll_f - first_f), most_r)
    moved_f = clipped(first_f + (roll_r + (roll_f - first_f) - moved_r), most_f)
    shift_f = moved_f / f.track_m
    shift_r = moved_r / r.track_m
    return Loads(
        0.5 * front_n - shift_f,
        0.5 * front_n + shift_f,
        0.5 * rear_n - shift_r,
        0.5 * rear_n + shift_r,
        roll_f + roll_r,
    )


def clipped(value: float, most: float) -> float:
    """Clip to -most..most."""
    return (value if value > -most else -most) if value < most else most


def corner(
    c: AxleConstants,
    s: PlantState,
    side: float,
    tangent: float,
    ackermann: float,
    curvature_per_m: float,
) -> Corner:
    """Return a wheel of an axle whose virtual middle wheel has this tangent; ``side`` is 1 left and
    -1 right."""
    y_m = side * c.half_track_m
    own = tangent / (1.0 - ackermann * curvature_per_m * y_m)
    cosine = 1.0 / sqrt(1.0 + own * own)
    sine = own * cosine
    x_mps = s.forward_mps - s.yaw_rate_radps * y_m
    y_mps = s.lateral_mps + s.yaw_rate_radps * c.arm_m - c.roll_scrub_m * s.roll_rate_radps
    ahead_mps = x_mps * cosine + y_mps * sine
    added_mps = ROLLED_MPS * fabs(ahead_mps) / (fabs(ahead_mps) + ROLLED_MPS)
    seen_mps = x_mps + c.rolled_slip * (ahead_mps + added_mps - x_mps)
    return Corner(cosine, sine, ahead_mps, y_mps * cosine - seen_mps * sine)


def effective_inertia(c: AxleConstants, t: Contact) -> float:
    """Return the inertia of a wheel plus what its tyre takes away within the step."""
    return c.spin_inertia_kgm2 + c.step_s * t.lever_m * t.rolling_radius_m * t.drag_nspm


def momentum(c: AxleConstants, t: Contact, w: Corner, spin_radps: float) -> float:
    """Return the wheel's torque-free speed at the end of the step times its effective inertia."""
    return c.spin_inertia_kgm2 * spin_radps - c.step_s * t.lever_m * (
        t.drag_n - t.drag_nspm * w.forward_mps
    )


def step(
    c: Constants, s: PlantState, g: Surface, steer_rad: float, throttle: float, brake: float
) -> Stepped:
    """Advance the state by one grid step. ``steer_rad`` of the virtual front wheel, throttle -1..1,
    brake 0..1, constant over the step.
    """
    f, r, dt = c.front, c.rear, c.step_s
    # Wheels: direction, velocity, load, tyre forces.
    steer = c.steers * steer_rad
    tangent_f = tan(steer) + f.roll_steer * s.roll_rad
    tangent_r = tan(c.rear_ratio * steer) + r.roll_steer * s.roll_rad
    curvature_per_m = (tangent_f - tangent_r) / c.wheelbase_m
    w_fl = corner(f, s, 1.0, tangent_f, c.ackermann, curvature_per_m)
    w_fr = corner(f, s, -1.0, tangent_f, c.ackermann, curvature_per_m)
    w_rl = corner(r, s, 1.0, tangent_r, c.ackermann, curvature_per_m)
    w_rr = corner(r, s, -1.0, tangent_r, c.ackermann, curvature_per_m)
    n = loads(c, s, g)
    t_fl = contact(
        f,
        n.fl_n,
        g.friction_fl,
        w_fl.forward_mps,
        w_fl.lateral_mps,
        s.spin_fl_radps,
        s.deflection_fl_m,
        s.side_fl_m,
    )
    t_fr = contact(
        f,
        n.fr_n,
        g.friction_fr,
        w_fr.forward_mps,
        w_fr.lateral_mps,
        s.spin_fr_radps,
        s.deflection_fr_m,
        s.side_fr_m,
    )
    t_rl = contact(
        r,
        n.rl_n,
        g.friction_rl,
        w_rl.forward_mps,
        w_rl.lateral_mps,
        s.spin_rl_radps,
        s.deflection_rl_m,
        s.side_rl_m,
    )
    t_rr = contact(
        r,
        n.rr_n,
        g.friction_rr,
        w_rr.forward_mps,
        w_rr.lateral_mps,
        s.spin_rr_radps,
        s.deflection_rr_m,
        s.side_rr_m,
    )
    # Shafts: 1 and 2 are the axles, or the sides of a skid-steered vehicle; wheels b and c swap
    # places between the two.
    spin_b = s.spin_rl_radps if c.sides else s.spin_fr_radps
    spin_c = s.spin_fr_radps if c.sides else s.spin_rl_radps
    mean_1 = 0.5 * (s.spin_fl_radps + spin_b)
    mean_2 = 0.5 * (spin_c + s.spin_rr_radps)
    share_1 = 1.0 if c.sides else c.front_share
    share_2 = 1.0 if c.sides else c.rear_share
    turning = c.side_gain_prad * steer_rad
    ahead_1 = clipped(throttle * (1.0 - turning), 1.0) if c.sides else throttle
    ahead_2 = clipped(throttle * (1.0 + turning), 1.0) if c.sides else throttle
    seen_1 = (
        mean_1 if c.sides else c.speed_front_share * mean_1 + (1.0 - c.speed_front_share) * mean_2
    )
    seen_2 = mean_2 if c.sides else seen_1
    drive_1 = drive(
        c,
        c.drive,
        ahead_1,
        seen_1,
        s.engine_radps,
        s.gear,
        s.since_shift_s,
        s.standing_s,
        s.forward_mps,
    )
    drive_2 = (
        drive(
            c,
            c.drive,
            ahead_2,
            seen_2,
            s.engine_radps,
            s.gear,
            s.since_shift_s,
            s.standing_s,
            s.forward_mps,
        )
        if c.sides
        else drive_1
    )
    now_1 = drive_1.torque_nm - drive_1.fall_nms * seen_1
    now_2 = drive_2.torque_nm - drive_2.fall_nms * seen_2
    pull_1 = 0.5 * share_1 * now_1
    pull_2 = 0.5 * share_2 * now_2
    centre = (
        0.0
        if c.sides
        else c.centre_lock_nms
        + bias_nms(
            now_1,
            mean_1 - mean_2,
            c.centre_bias_share,
            c.centre_coast_bias_share,
            c.centre_bias_begin_radps,
            c.centre_bias_ramp_per_radps,
        )
    )
    rub_1 = 0.5 * share_1 * drive_1.friction_nm
    rub_2 = 0.5 * share_2 * drive_2.friction_nm
    rub_b = rub_1
    rub_c = rub_2
    pull_b = pull_1
    pull_c = pull_2
    brake_f = brake * f.brake_nm
    brake_r = brake * r.brake_nm
    rub_fl = brake_f + f.resistance_m * n.fl_n + rub_1
    rub_fr = brake_f + f.resistance_m * n.fr_n + (rub_c if c.sides else rub_b)
    rub_rl = brake_r + r.resistance_m * n.rl_n + (rub_b if c.sides else rub_c)
    rub_rr = brake_r + r.resistance_m * n.rr_n + rub_2
    pull_fr = pull_c if c.sides else pull_b
    pull_rl = pull_b if c.sides else pull_c
    m_fl = momentum(f, t_fl, w_fl, s.spin_fl_radps)
    m_fr = momentum(f, t_fr, w_fr, s.spin_fr_radps)
    m_rl = momentum(r, t_rl, w_rl, s.spin_rl_radps)
    m_rr = momentum(r, t_rr, w_rr, s.spin_rr_radps)
    b_fl = rubbed(m_fl, s.spin_fl_radps, pull_1, rub_fl, dt)
    b_fr = rubbed(m_fr, s.spin_fr_radps, pull_fr, rub_fr, dt)
    b_rl = rubbed(m_rl, s.spin_rl_radps, pull_rl, rub_rl, dt)
    b_rr = rubbed(m_rr, s.spin_rr_radps, pull_2, rub_rr, dt)
    a_fl = effective_inertia(f, t_fl)
    a_fr = effective_inertia(f, t_fr)
    a_rl = effective_inertia(r, t_rl)
    a_rr = effective_inertia(r, t_rr)
    pair_1 = Wheels(
        b_fl,
        a_fl,
        b_rl if c.sides else b_fr,
        a_rl if c.sides else a_fr,
        coupling(f, share_1 * now_1, s.spin_fl_radps, spin_b),
    )
    pair_2 = Wheels(
        b_fr if c.sides else b_rl,
        a_fr if c.sides else a_rl,
        b_rr,
        a_rr,
        coupling(r, share_2 * now_2, spin_c, s.spin_rr_radps),
    )
    shaft_1 = shaft(f, pair_1)
    shaft_2 = shaft(r, pair_2)
    # Two linear equations for the speeds of the shafts at the end of the step.
    across = 0.0 if c.sides else drive_1.fall_nms * share_1 * share_2 - centre
    own_1 = drive_1.fall_nms * share_1 * share_1 + centre
    own_2 = drive_2.fall_nms * share_2 * share_2 + centre
    known_1 = shaft_1.speed_radps + shaft_1.give_per_nms * share_1 * drive_1.torque_nm
    known_2 = shaft_2.speed_radps + shaft_2.give_per_nms * share_2 * drive_2.torque_nm
    row_1 = 1.0 + shaft_1.give_per_nms * own_1
    row_2 = 1.0 + shaft_2.give_per_nms * own_2
    cross_1 = shaft_1.give_per_nms * across
    cross_2 = shaft_2.give_per_nms * across
    det = row_1 * row_2 - cross_1 * cross_2
    speed_1 = (row_2 * known_1 - cross_1 * known_2) / det
    speed_2 = (row_1 * known_2 - cross_2 * known_1) / det
    torque_1 = share_1 * drive_1.torque_nm - own_1 * speed_1 - across * speed_2
    torque_2 = share_2 * drive_2.torque_nm - own_2 * speed_2 - across * speed_1
    new_b = right_speed(f, pair_1, torque_1)
    new_c = left_speed(r, pair_2, torque_2)
    spin_fl = settled(left_speed(f, pair_1, torque_1), s.spin_fl_radps, m_fl, pull_1, rub_fl, dt)
    spin_fr = settled(new_c if c.sides else new_b, s.spin_fr_radps, m_fr, pull_fr, rub_fr, dt)
    spin_rl = settled(new_b if c.sides else new_c, s.spin_rl_radps, m_rl, pull_rl, rub_rl, dt)
    spin_rr = settled(right_speed(r, pair_2, torque_2), s.spin_rr_radps, m_rr, pull_2, rub_rr, dt)
    driven_radps = 0.5 * (share_1 * (spin_fl + spin_fr) + share_2 * (spin_rl + spin_rr))
    # Forces on the body.
    slide_fl = w_fl.forward_mps - t_fl.rolling_radius_m * spin_fl
    slide_fr = w_fr.forward_mps - t_fr.rolling_radius_m * spin_fr
    slide_rl = w_rl.forward_mps - t_rl.rolling_radius_m * spin_rl
    slide_rr = w_rr.forward_mps - t_rr.rolling_radius_m * spin_rr
    along_fl = t_fl.drag_n - t_fl.drag_nspm * slide_fl
    along_fr = t_fr.drag_n - t_fr.drag_nspm * slide_fr
    along_rl = t_rl.drag_n - t_rl.drag_nspm * slide_rl
    along_rr = t_rr.drag_n - t_rr.drag_nspm * slide_rr
    x_fl = along_fl * w_fl.cos - t_fl.side_n * w_fl.sin
    x_fr = along_fr * w_fr.cos - t_fr.side_n * w_fr.sin
    x_rl = along_rl * w_rl.cos - t_rl.side_n * w_rl.sin
    x_rr = along_rr * w_rr.cos - t_rr.side_n * w_rr.sin
    y_f = (along_fl * w_fl.sin + t_fl.side_n * w_fl.cos) + (
        along_fr * w_fr.sin + t_fr.side_n * w_fr.cos
    )
    y_r = (along_rl * w_rl.sin + t_rl.side_n * w_rl.cos) + (
        along_rr * w_rr.sin + t_rr.side_n * w_rr.cos
    )
    force_x = ((x_fl + x_fr) + (x_rl + x_rr)) - c.drag_nspm * s.forward_mps * fabs(s.forward_mps)
    force_y = y_f + y_r
    moment = (y_f * f.arm_m + y_r * r.arm_m) + (
        (x_fr - x_fl) * f.half_track_m + (x_rr - x_rl) * r.half_track_m
    )
    # Roll and lateral motion together, the springs at the end of the step; then yaw and
    # longitudinal motion together.
    rate, roll, yaw_rate = s.roll_rate_radps, s.roll_rad, s.yaw_rate_radps
    stiffness = c.roll_stiffness_nmprad - c.roll_lever_kgm * g.down_mps2
    lateral_n = force_y + c.mass_kg * g.lateral_mps2 - c.roll_lever_kgm * yaw_rate * yaw_rate * roll
    rolling_nm = (
        c.roll_lever_kgm2 * yaw_rate * yaw_rate * roll
        - c.roll_lever_kgm * g.lateral_mps2
        - stiffness * (roll + dt * rate)
        - c.roll_damping_nmsprad * rate
    )
    roll_kgm2 = c.roll_inertia_kgm2 + dt * (c.roll_damping_nmsprad + dt * stiffness)
    roll_det = c.mass_kg * roll_kgm2 - c.roll_lever_kgm * c.roll_lever_kgm
    lateral_mps2 = (lateral_n * roll_kgm2 + c.roll_lever_kgm * rolling_nm) / roll_det
    roll_radps2 = (c.mass_kg * rolling_nm + c.roll_lever_kgm * lateral_n) / roll_det
    lean_kgm = c.lean_lever_kgm * roll
    forward_n = force_x + c.mass_kg * g.forward_mps2 - 2.0 * c.roll_lever_kgm * yaw_rate * rate
    turning_nm = (
        moment - 2.0 * c.roll_lever_kgm2 * roll * rate * yaw_rate + lean_kgm * g.forward_mps2
    )
    yaw_kgm2 = c.yaw_inertia_kgm2 + c.roll_lever_kgm2 * roll * roll
    yaw_det = c.mass_kg * yaw_kgm2 - lean_kgm * lean_kgm
    forward_mps2 = (forward_n * yaw_kgm2 - lean_kgm * turning_nm) / yaw_det
    yaw_radps2 = (c.mass_kg * turning_nm - lean_kgm * forward_n) / yaw_det
    # Pitch follows the longitudinal force; tipping about the wheels of one side follows the
    # unbalanced moment.
    proper_x = forward_mps2 - g.forward_mps2
    proper_y = lateral_mps2 - g.lateral_mps2
    pitch_nm = -c.pitch_lever_kgm * proper_x - c.pitch_stiffness_nmprad * (
        s.pitch_rad + dt * s.pitch_rate_radps
    )
    pitch_radps2 = (pitch_nm - c.pitch_damping_nmsprad * s.pitch_rate_radps) / (
        c.pitch_inertia_kgm2 + dt * (c.pitch_damping_nmsprad + dt * c.pitch_stiffness_nmprad)
    )
    pitch_rate = s.pitch_rate_radps + dt * pitch_radps2
    side = (
        (1.0 if s.tip_rad > 0.0 else -1.0)
        if s.tip_rad != 0.0
        else (1.0 if n.tipping_nm > 0.0 else -1.0)
    )
    upright_m = c.half_track_m - c.height_m * side * s.tip_rad
    over_nm = side * n.tipping_nm - c.mass_kg * g.down_mps2 * upright_m
    tip_rate = side * s.tip_rate_radps + dt * over_nm / c.tip_inertia_kgm2
    tip = side * s.tip_rad + dt * tip_rate
    lifted = tip > 0.0
    # Velocities, first in the axes of the old heading, then turned into the new ones.
    rate_after = rate + dt * roll_radps2
    yaw_rate_after = yaw_rate + dt * yaw_radps2
    ahead_mps = s.forward_mps + dt * forward_mps2
    left_mps = s.lateral_mps + dt * lateral_mps2
    turn = 0.5 * dt * (yaw_rate + yaw_rate_after)
    cos_turn = cos(turn)
    sin_turn = sin(turn)
    # Standstill: after a while the vehicle is held until its wheels start to turn.
    stand_f = fabs(spin_fl) + fabs(spin_fr) < STILL_WHEEL_MPS2 * dt / f.rolling_radius_m
    stand_r = fabs(spin_rl) + fabs(spin_rr) < STILL_WHEEL_MPS2 * dt / r.rolling_radius_m
    slow = (
        fabs(ahead_mps) < STILL_MPS
        and fabs(left_mps) < STILL_MPS
        and fabs(yaw_rate_after) < STILL_RADPS
    )
    calm = fabs(rate_after) < STILL_RADPS and fabs(pitch_rate) < STILL_RADPS
    still_s = (
        (s.still_s + dt if s.still_s < 1.0 else s.still_s)
        if stand_f and stand_r and slow and calm
        else 0.0
    )
    free = 0.0 if still_s >= HOLD_AFTER_S else 1.0
    held = still_s >= HOLD_AFTER_S
    half = 0.5 * dt * free
    along_m = half * g.cos_along * (s.forward_mps + ahead_mps)
    across_m = half * g.cos_across * (s.lateral_mps + left_mps)
    cos_yaw = cos(s.yaw_rad)
    sin_yaw = sin(s.yaw_rad)
    return Stepped(
        PlantState(
            s.x_m + (along_m * cos_yaw - across_m * sin_yaw),
            s.y_m + (along_m * sin_yaw + across_m * cos_yaw),
            s.yaw_rad + free * turn,
            free * (ahead_mps * cos_turn + left_mps * sin_turn),
            free * (left_mps * cos_turn - ahead_mps * sin_turn),
            free * yaw_rate_after,
            roll + free * dt * rate_after,
            free * rate_after,
            s.pitch_rad + free * dt * pitch_rate,
            free * pitch_rate,
            side * tip if lifted else 0.0,
            side * tip_rate if lifted else 0.0,
            free * spin_fl,
            free * spin_fr,
            free * spin_rl,
            free * spin_rr,
            s.deflection_fl_m
            if held
            else deflected(f, s.deflection_fl_m, t_fl.grip_nspm, t_fl.series_nspm, slide_fl),
            s.deflection_fr_m
            if held
            else deflected(f, s.deflection_fr_m, t_fr.grip_nspm, t_fr.series_nspm, slide_fr),
            s.deflection_rl_m
            if held
            else deflected(r, s.deflection_rl_m, t_rl.grip_nspm, t_rl.series_nspm, slide_rl),
            s.deflection_rr_m
            if held
            else deflected(r, s.deflection_rr_m, t_rr.grip_nspm, t_rr.series_nspm, slide_rr),
            s.side_fl_m if held else t_fl.side_deflection_m,
            s.side_fr_m if held else t_fr.side_deflection_m,
            s.side_rl_m if held else t_rl.side_deflection_m,
            s.side_rr_m if held else t_rr.side_deflection_m,
            -g.forward_mps2 if held else proper_x,
            -g.lateral_mps2 if held else proper_y,
            0.5 * (drive_1.engine_radps + drive_2.engine_radps)
            + drive_1.engine_per_shaft * free * driven_radps,
            drive_1.gear,
            drive_1.since_shift_s,
            drive_1.standing_s,
            still_s,
        ),
        Outputs(
            free * forward_mps2,
            free * lateral_mps2,
            free * yaw_radps2,
            free * roll_radps2,
            free * pitch_radps2,
            n.fl_n,
            n.fr_n,
            n.rl_n,
            n.rr_n,
            along_fl,
            along_fr,
            along_rl,
            along_rr,
            t_fl.side_n,
            t_fr.side_n,
            t_rl.side_n,
            t_rr.side_n,
            torque_1 + torque_2,
        ),
    )
