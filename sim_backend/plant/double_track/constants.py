"""Precomputed constants of the equations: products of parameters, and neutral values for disabled
features."""

from math import sqrt
from typing import Any, NamedTuple

from sim_backend.plant.double_track.parameters import (
    AccelerationDrive,
    Axle,
    Differential,
    Engine,
    Motor,
    TwinParameters,
    TyreDirection,
)

GRAVITY_MPS2 = 9.81
"""Gravity of the plant. The published vehicle models use this value, not the standard one."""
CALM_RATIO = 0.33
Table = tuple[float, ...]
"""Points of a curve."""


class AxleConstants(NamedTuple):
    """One axle and its tyres. Forces are divided by the relative load; each has a value and its
    decrease with relative load."""

    nominal_load_n: float
    largest_share: float
    slope_x: float
    slope_x_fall: float
    peak_x: float
    peak_x_fall: float
    peak_slip_x: float
    peak_slip_x_rise: float
    slide_x: float
    slide_x_fall: float
    slide_slip_x: float
    slide_slip_x_rise: float
    slope_y: float
    slope_y_fall: float
    peak_y: float
    peak_y_fall: float
    peak_slip_y: float
    peak_slip_y_rise: float
    slide_y: float
    slide_y_fall: float
    slide_slip_y: float
    slide_slip_y_rise: float
    stiffness_x_npm: float
    damping_x_nspm: float
    yield_x_nspm: float
    """Stiffness times step."""
    stiffness_y_npm: float
    damping_y_nspm: float
    yield_y_nspm: float
    rolling_radius_m: float
    """Rolling radius at the static load."""
    unloaded_radius_m: float
    """Rolling radius without load. It decreases with the relative load, and by ``radius_rise_m``
    less per relative load."""
    radius_fall_m: float
    radius_rise_m: float
    radius_bend: float
    """Relative load up to which it does; from there on the parabola would turn back."""
    unloaded_lever_m: float
    """Loaded radius without load, and its decrease with the relative load."""
    lever_fall_m: float
    spin_inertia_kgm2: float
    resistance_m: float
    """Rolling resistance times radius: dry friction torque per load."""
    brake_nm: float
    lift_nspm: float
    """Lift per square of speed."""
    arm_m: float
    """Distance of the axle ahead of the centre of mass; negative behind it."""
    half_track_m: float
    track_m: float
    weight_share: float
    geometric_kgm: float
    """Mass times height whose lateral transfer bypasses the springs."""
    roll_stiffness_nmprad: float
    roll_damping_nmsprad: float
    roll_steer: float
    roll_scrub_m: float
    rolled_slip: float
    calm_x_nspm: float
    """Damping of the carcass at standstill, longitudinal; the next is lateral."""
    calm_y_nspm: float
    lock_nms: float
    bias_share: float
    """Half the torque difference that the bias allows, over the torque; negative: towards the
    faster side."""
    coast_bias_share: float
    bias_begin_radps: float
    bias_ramp_per_radps: float
    step_s: float


class Constants(NamedTuple):
    """One vehicle at one step size."""

    step_s: float
    mass_kg: float
    yaw_inertia_kgm2: float
    roll_lever_kgm: float
    """Sprung mass times its height above the roll axis."""
    lean_lever_kgm: float
    """The same for the yaw moment of the leaning mass."""
    roll_lever_kgm2: float
    roll_inertia_kgm2: float
    """Inertia about the roll axis."""
    roll_stiffness_nmprad: float
    roll_damping_nmsprad: float
    pitch_lever_kgm: float
    pitch_inertia_kgm2: float
    pitch_stiffness_nmprad: float
    pitch_damping_nmsprad: float
    dive_kgm: float
    """Mass times height whose longitudinal transfer bypasses the pitch springs."""
    wheelbase_m: float
    height_m: float
    """Height of the whole vehicle's centre of mass."""
    tip_inertia_kgm2: float
    half_track_m: float
    drag_nspm: float
    steers: float
    """1; 0 for a skid-steered vehicle."""
    ackermann: float
    rear_ratio: float
    sides: bool
    front_share: float
    rear_share: float
    speed_front_share: float
    side_gain_prad: float
    centre_lock_nms: float
    centre_bias_share: float
    centre_coast_bias_share: float
    centre_bias_begin_radps: float
    centre_bias_ramp_per_radps: float
    front: AxleConstants
    rear: AxleConstants
    drive: Any
    """:class:`MotorConstants`, :class:`EngineConstants` or :class:`AccelerationConstants`."""


class MotorConstants(NamedTuple):
    """Constants of :class:`sim_backend.plant.double_track.parameters.Motor`."""

    by_current: bool
    by_speed: bool
    curve_speed: Table
    curve_torque: Table
    peak_nm: float
    regeneration: float
    top_speed_radps: float
    speed_gain_nms: float
    reduction: float
    inertia_nms: float
    """Inertia of the rotor at the wheels, over the step."""
    loss_speed: Table
    loss_torque: Table
    hold_nm: float
    reverse_share: float


class EngineConstants(NamedTuple):
    """Constants of :class:`sim_backend.plant.double_track.parameters.Engine`."""

    map_speed: Table
    map_torque: Table
    loss_speed: Table
    loss_torque: Table
    inertia_kgm2: float
    converter: bool
    converter_speed_ratio: Table
    converter_capacity: Table
    converter_torque_ratio: Table
    ratios: Table
    """Ratio by gear number; index 0 is the reverse ratio, negative."""
    up_radps: Table
    down_radps: Table
    gears: float
    reverse: bool
    shift_interval_s: float
    selector: bool
    change_s: float
    park_after_s: float
    park_nm: float


class AccelerationConstants(NamedTuple):
    """Constants of :class:`sim_backend.plant.double_track.parameters.AccelerationDrive`."""

    full_torque_nm: float
    switch_speed_mps: float
    top_speed_mps: float
    reverse_share: float


def constants(parameters: TwinParameters, step_s: float) -> Constants:
    """Return the constants of checked parameters."""
    body = parameters.body
    front = parameters.front
    rear = parameters.rear
    drive = parameters.powertrain
    line = drive.driveline
    sprung_kg = body.mass_kg - front.unsprung_mass_kg - rear.unsprung_mass_kg
    length_m, arm_m = body.wheelbase_m, body.cg_to_front_m
    unsprung_kgm = (
        front.unsprung_mass_kg * front.loaded_radius_m
        + rear.unsprung_mass_kg * rear.loaded_radius_m
    )
    height_m = (sprung_kg * body.cg_height_m + unsprung_kgm) / body.mass_kg
    # Place the sprung mass so that the whole vehicle has the given centre of mass.
    sprung_front = (body.mass_kg * (1.0 - arm_m / length_m) - front.unsprung_mass_kg) / sprung_kg
    rolls = front.roll_stiffness_nmprad + rear.roll_stiffness_nmprad > 0.0
    axis_m = (
        sprung_front * front.roll_centre_height_m + (1.0 - sprung_front) * rear.roll_centre_height_m
    )
    lever_m = body.cg_height_m - axis_m if rolls else 0.0
    pitches = body.pitch_stiffness_nmprad > 0.0
    pitch_lever_m = body.cg_height_m - body.pitch_centre_height_m if pitches else 0.0
    half_track_m = 0.25 * (front.track_m + rear.track_m)
    brakes, air = parameters.brakes, parameters.aerodynamics
    lift = 0.5 * air.air_density_kgpm3
    rear_share = arm_m / length_m - body.weight_shift
    axles = [
        _axle(
            axle,
            step_s,
            mass_kg=body.mass_kg,
            arm_m=lever,
            weight_share=weight,
            geometric_kgm=sprung_kg
            * sprung
            * (axle.roll_centre_height_m if rolls else body.cg_height_m)
            + axle.unsprung_mass_kg * axle.loaded_radius_m,
            brake_nm=brake_nm,
            lift_nspm=lift * area,
            differential=differential,
        )
        for axle, lever, weight, sprung, brake_nm, area, differential in (
            (
                front,
                arm_m,
                1.0 - rear_share,
                sprung_front,
                brakes.front_torque_nm,
                air.front_lift_area_m2,
                line.front,
            ),
            (
                rear,
                arm_m - length_m,
                rear_share,
                1.0 - sprung_front,
                brakes.rear_torque_nm,
                air.rear_lift_area_m2,
                line.rear,
            ),
        )
    ]
    bias_share, coast_bias_share, bias_begin, bias_ramp = _bias(line.centre)
    return Constants(
        step_s=step_s,
        mass_kg=body.mass_kg,
        yaw_inertia_kgm2=body.yaw_inertia_kgm2,
        roll_lever_kgm=sprung_kg * lever_m,
        lean_lever_kgm=body.lean_yaw * sprung_kg * lever_m,
        roll_lever_kgm2=sprung_kg * lever_m * lever_m,
        roll_inertia_kgm2=body.roll_inertia_kgm2 + sprung_kg * lever_m * lever_m,
        roll_stiffness_nmprad=front.roll_stiffness_nmprad + rear.roll_stiffness_nmprad,
        roll_damping_nmsprad=(front.roll_damping_nmsprad + rear.roll_damping_nmsprad)
        if rolls
        else 0.0,
        pitch_lever_kgm=sprung_kg * pitch_lever_m,
        pitch_inertia_kgm2=body.pitch_inertia_kgm2 + sprung_kg * pitch_lever_m * pitch_lever_m,
        pitch_stiffness_nmprad=body.pitch_stiffness_nmprad,
        pitch_damping_nmsprad=body.pitch_damping_nmsprad if pitches else 0.0,
        dive_kgm=body.mass_kg * height_m - sprung_kg * pitch_lever_m,
        wheelbase_m=length_m,
        height_m=height_m,
        tip_inertia_kgm2=body.roll_inertia_kgm2
        + body.mass_kg * (height_m * height_m + half_track_m * half_track_m),
        half_track_m=half_track_m,
        drag_nspm=lift * air.drag_area_m2,
        steers=0.0 if line.layout == "sides" else 1.0,
        ackermann=parameters.steering.ackermann,
        rear_ratio=parameters.steering.rear_ratio,
        sides=line.layout == "sides",
        front_share=line.front_share,
        rear_share=1.0 - line.front_share,
        speed_front_share=line.speed_front_share,
        side_gain_prad=line.side_gain_prad,
        centre_lock_nms=line.centre.lock_nms,
        centre_bias_share=bias_share,
        centre_coast_bias_share=coast_bias_share,
        centre_bias_begin_radps=bias_begin,
        centre_bias_ramp_per_radps=bias_ramp,
        front=axles[0],
        rear=axles[1],
        drive=_drive(parameters, step_s),
    )


def _axle(
    axle: Axle,
    step_s: float,
    *,
    mass_kg: float,
    arm_m: float,
    weight_share: float,
    geometric_kgm: float,
    brake_nm: float,
    lift_nspm: float,
    differential: Differential,
) -> AxleConstants:
    tyre = axle.tyre
    along, across = tyre.longitudinal, tyre.lateral
    bias_share, coast_bias_share, bias_begin, bias_ramp = _bias(differential)
    static = 0.5 * mass_kg * GRAVITY_MPS2 * weight_share / tyre.nominal_load_n
    lever_fall_m = tyre.nominal_load_n / tyre.vertical.stiffness_npm if tyre.vertical else 0.0
    first, second = tyre.vertical.rolling_share if tyre.vertical else (0.0, 0.0)
    radius_fall_m = lever_fall_m * (1.0 - 2.0 * first + second)
    radius_rise_m = lever_fall_m * (second - first)
    bend = (
        0.5 * radius_fall_m / radius_rise_m
        if radius_rise_m > 0.0
        else tyre.largest_load_n / tyre.nominal_load_n
    )
    return AxleConstants(
        tyre.nominal_load_n,
        tyre.largest_load_n / tyre.nominal_load_n,
        *_curve(along),
        *_curve(across),
        along.carcass_stiffness_npm,
        along.carcass_damping_nspm,
        along.carcass_stiffness_npm * step_s,
        across.carcass_stiffness_npm,
        across.carcass_damping_nspm,
        across.carcass_stiffness_npm * step_s,
        rolling_radius_m=axle.rolling_radius_m,
        unloaded_radius_m=axle.rolling_radius_m
        + (radius_fall_m - radius_rise_m * min(static, bend)) * static,
        radius_fall_m=radius_fall_m,
        radius_rise_m=radius_rise_m,
        radius_bend=bend,
        unloaded_lever_m=axle.loaded_radius_m + lever_fall_m * static,
        lever_fall_m=lever_fall_m,
        spin_inertia_kgm2=axle.spin_inertia_kgm2,
        resistance_m=tyre.rolling_resistance * axle.loaded_radius_m,
        brake_nm=brake_nm,
        lift_nspm=lift_nspm,
        arm_m=arm_m,
        half_track_m=0.5 * axle.track_m,
        track_m=axle.track_m,
        weight_share=weight_share,
        geometric_kgm=geometric_kgm,
        roll_stiffness_nmprad=axle.roll_stiffness_nmprad,
        roll_damping_nmsprad=axle.roll_damping_nmsprad,
        roll_steer=axle.roll_steer,
        roll_scrub_m=axle.roll_scrub_m,
        rolled_slip=axle.rolled_slip,
        calm_x_nspm=_calm(along.carcass_stiffness_npm, mass_kg),
        calm_y_nspm=_calm(across.carcass_stiffness_npm, mass_kg),
        lock_nms=differential.lock_nms,
        bias_share=bias_share,
        coast_bias_share=coast_bias_share,
        bias_begin_radps=bias_begin,
        bias_ramp_per_radps=bias_ramp,
        step_s=step_s,
    )


def _curve(
    direction: TyreDirection,
) -> tuple[float, float, float, float, float, float, float, float, float, float]:
    """Return force and slip coefficients. Forces: F / q = value - fall q, the parabola through 0,
    pn and 2 pn. Slips: s = value + rise q.
    """
    return (
        *_parabola(direction.slope_n),
        *_parabola(direction.peak_force_n),
        *_line(direction.peak_slip),
        *_parabola(direction.sliding_force_n),
        *_line(direction.sliding_slip),
    )


def _parabola(force: list[float]) -> tuple[float, float]:
    return 2.0 * force[0] - 0.5 * force[1], force[0] - 0.5 * force[1]


def _line(slip: list[float]) -> tuple[float, float]:
    return 2.0 * slip[0] - slip[1], slip[1] - slip[0]


def _calm(stiffness_npm: float, mass_kg: float) -> float:
    """Return a third of the critical damping of a quarter of the vehicle."""
    return CALM_RATIO * 2.0 * sqrt(stiffness_npm * 0.25 * mass_kg)


def _bias(differential: Differential) -> tuple[float, float, float, float]:
    pulled = (differential.bias - 1.0) / (differential.bias + 1.0)
    dragged = (1.0 - differential.coast_bias) / (1.0 + differential.coast_bias)
    width = differential.bias_full_radps - differential.bias_begin_radps
    return (
        0.5 * pulled,
        0.5 * dragged,
        differential.bias_begin_radps,
        1.0 / width if width > 0.0 else 1e9,
    )


def _drive(
    parameters: TwinParameters, step_s: float
) -> MotorConstants | EngineConstants | AccelerationConstants:
    drive, front, rear = parameters.powertrain, parameters.front, parameters.rear
    if isinstance(drive, Motor):
        return MotorConstants(
            by_current=drive.mode == "current",
            by_speed=drive.mode == "speed",
            curve_speed=tuple(drive.curve_speed_radps),
            curve_torque=tuple(drive.curve_torque_nm),
            peak_nm=drive.peak_torque_nm,
            regeneration=drive.regeneration,
            top_speed_radps=drive.top_speed_radps,
            speed_gain_nms=drive.speed_gain_nms,
            reduction=drive.reduction,
            inertia_nms=drive.rotor_inertia_kgm2 * drive.reduction * drive.reduction / step_s,
            loss_speed=tuple(drive.loss_speed_radps),
            loss_torque=tuple(drive.loss_torque_nm),
            hold_nm=drive.hold_torque_nm,
            reverse_share=drive.reverse_share,
        )
    if isinstance(drive, Engine):
        return EngineConstants(
            map_speed=tuple(drive.map_speed_radps),
            map_torque=tuple(drive.map_torque_nm),
            loss_speed=tuple(drive.loss_speed_radps),
            loss_torque=tuple(drive.loss_torque_nm),
            inertia_kgm2=drive.inertia_kgm2,
            converter=max(drive.converter_capacity) > 0.0,
            converter_speed_ratio=tuple(drive.converter_speed_ratio),
            converter_capacity=tuple(drive.converter_capacity),
            converter_torque_ratio=tuple(drive.converter_torque_ratio),
            ratios=(
                -drive.reverse_ratio if drive.reverse_ratio else -drive.gear_ratios[0],
                *drive.gear_ratios,
            ),
            up_radps=(1e9, *drive.up_speed_radps),
            down_radps=(-1e9, *drive.down_speed_radps),
            gears=float(len(drive.gear_ratios)),
            reverse=drive.reverse_ratio > 0.0,
            shift_interval_s=drive.shift_interval_s,
            selector=drive.selector is not None,
            change_s=drive.selector.change_s if drive.selector else 0.0,
            park_after_s=drive.selector.park_after_s if drive.selector else 0.0,
            park_nm=drive.selector.park_torque_nm if drive.selector else 0.0,
        )
    radius_m = (
        drive.driveline.front_share * front.rolling_radius_m
        + (1.0 - drive.driveline.front_share) * rear.rolling_radius_m
    )
    assert isinstance(drive, AccelerationDrive)
    return AccelerationConstants(
        full_torque_nm=parameters.body.mass_kg * drive.full_acceleration_mps2 * radius_m,
        switch_speed_mps=drive.switch_speed_mps,
        top_speed_mps=drive.top_speed_mps,
        reverse_share=drive.reverse_share,
    )
