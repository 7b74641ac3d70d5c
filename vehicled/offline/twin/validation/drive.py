"""Open-loop drive of the vehicle model along the commands of a reference run."""

from collections.abc import Callable
from math import hypot
from typing import Any

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.double_track.constants import constants
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.parameters import (
    AccelerationDrive,
    Axle,
    Differential,
    TwinParameters,
    TyreDirection,
)
from vehicled.offline.twin.validation.metrics import ModelDrive
from vehicled.offline.twin.validation.reference import ReferenceRun

STEP_S = 1e-3
_SPEED_GAIN_PS = 200.0
"""Gain that holds the model's speed to a reference whose speed is prescribed."""
_LOW_M = 1e-3
"""Height of the centre of mass of a model without load transfer."""
_LINEAR_TO = 10.0
"""Slip up to which a linearised tyre stays linear; no run reaches it."""


def drive(
    reference: ReferenceRun,
    parameters: TwinParameters,
    maker: Callable[[TwinParameters, float], DoubleTrack],
) -> ModelDrive:
    """Drive a run. Never raises; the reason of an early end is in the result."""
    family = reference.family
    if float(np.abs(reference.lateral_acceleration_mps2).max()) < family.linear_tyres.get(
        reference.source.model, 0.0
    ):
        parameters = linear_tyres(parameters)
    if reference.source.model in family.single_track:
        parameters = single_track(parameters, family.single_track[reference.source.model])
    body = parameters.body
    if reference.source.model in family.forced:
        parameters = forced(parameters, *family.forced[reference.source.model])
    if family.prescribed_speed or reference.source.model in family.forced:
        parameters = balanced(parameters)
    if family.loads_by_command and not np.any(reference.throttle):
        parameters = replace(
            parameters, body=replace(parameters.body, cg_height_m=_LOW_M, pitch_centre_height_m=0.0)
        )
    position, velocity = _points(reference, parameters)
    model = maker(parameters, STEP_S)
    yaw = float(reference.yaw_rad[0])
    x0 = float(reference.x_m[0]) - position * np.cos(yaw)
    y0 = float(reference.y_m[0]) - position * np.sin(yaw)
    model.reset(x0, y0, yaw, 0.0 if family.at_rest else float(reference.vx_mps[0]))
    orders = commands_of(reference, parameters)
    speed = _speed_wanted(reference, len(orders)) if family.prescribed_speed else None
    table = _whole_rows(
        model.run(orders)
        if speed is None
        else _held_to_speed(model, orders, speed, parameters, velocity)
    )
    t = reference.t_s - reference.t_s[0]
    n = int(np.searchsorted(t, table["t"][-1] + 1e-9, side="right"))
    if reference.source.model in family.sprung_point:
        table = _of_sprung_mass(table, parameters)
    columns = {
        name: np.interp(t[:n], table["t"], table[name])
        for name in ("x", "y", "yaw", "vx", "vy", "yaw_rate", "roll")
    }
    return ModelDrive(
        x_m=columns["x"] + position * np.cos(columns["yaw"]),
        y_m=columns["y"] + position * np.sin(columns["yaw"]),
        yaw_rad=columns["yaw"],
        vx_mps=columns["vx"],
        vy_mps=columns["vy"] + velocity * columns["yaw_rate"],
        yaw_rate_radps=columns["yaw_rate"],
        roll_rad=columns["roll"],
        wheel_angle_rad=np.interp(t[:n], STEP_S * np.arange(len(orders)), orders[:, 0]),
        body=body,
        wheel_radps=np.stack(
            [np.interp(t[:n], table["t"], table[f"w_{wheel}"]) for wheel in _WHEELS]
        ),
        load_n=np.stack([np.interp(t[:n], table["t"], table[f"fz_{wheel}"]) for wheel in _WHEELS]),
        rolling_radius_m=np.repeat(
            (parameters.front.rolling_radius_m, parameters.rear.rolling_radius_m), 2
        )[:, np.newaxis],
        load_factor=_load_factor(parameters) if family.light_loads else 1.0,
        ended=_ended(model, table, tips=reference.source.model not in family.single_track),
    )


def _load_factor(parameters: TwinParameters) -> float:
    """Return our loads over those of a model that counts the unsprung masses twice in its inertia
    and once in its loads."""
    return (
        1.0
        + (parameters.front.unsprung_mass_kg + parameters.rear.unsprung_mass_kg)
        / parameters.body.mass_kg
    )


def _whole_rows(table: dict[str, Any]) -> dict[str, Any]:
    """Cut off the NaN rows after a divergence."""
    bad = np.flatnonzero(~np.isfinite(table["x"] + table["yaw_rate"] + table["vx"] + table["vy"]))
    return {name: column[: bad[0]] for name, column in table.items()} if len(bad) else table


def _points(reference: ReferenceRun, parameters: TwinParameters) -> tuple[float, float]:
    """Return where the reference measures positions and velocities, in m ahead of the centre of
    mass."""
    family, body = reference.family, parameters.body
    fastest = float(
        np.hypot(reference.vx_mps, 0.0 if reference.vy_mps is None else reference.vy_mps).max()
    )
    if fastest < family.rear_axle_below_mps:
        behind = body.cg_to_front_m - body.wheelbase_m
        return behind, behind
    middle = body.cg_to_front_m - 0.5 * body.wheelbase_m
    points = (family.position_point_m, family.velocity_point_m)
    position, velocity = (0.0 if point is None else point + middle for point in points)
    return position, velocity


def _of_sprung_mass(table: dict[str, Any], parameters: TwinParameters) -> dict[str, Any]:
    """Convert positions and velocities to the sprung mass, by its lever on the roll axis."""
    unsprung_kg = parameters.front.unsprung_mass_kg + parameters.rear.unsprung_mass_kg
    lever_m = constants(parameters, STEP_S).roll_lever_kgm / (parameters.body.mass_kg - unsprung_kg)
    left_m = -lever_m * table["roll"]
    return table | {
        "x": table["x"] - left_m * np.sin(table["yaw"]),
        "y": table["y"] + left_m * np.cos(table["yaw"]),
        "vy": table["vy"] - lever_m * table["roll_rate"],
    }


def commands_of(reference: ReferenceRun, parameters: TwinParameters) -> Any:
    """Return the commands (n, 3), one row a step: angle of the virtual front wheel in rad,
    throttle, brake. They cover the run and one more step; a command acts from the next grid point
    on.
    """
    names = reference.family.commands
    t0 = float(reference.t_s[0])
    steps = int(np.ceil((float(reference.t_s[-1]) - t0) / STEP_S - 1e-6)) + 1
    grid = t0 + STEP_S * np.arange(steps)
    held = np.clip(
        np.searchsorted(reference.command_t_s, grid + 1e-6 * STEP_S, side="right") - 1, 0, None
    )

    def values(column: Any, linear: bool) -> Any:
        return (
            np.interp(grid + 0.5 * STEP_S, reference.command_t_s, column)
            if linear
            else column[held]
        )

    steer = values(reference.steer, names.linear or bool(names.wheel_angle))
    if names.steer:
        steer = np.interp(steer, parameters.steering.map_command, parameters.steering.map_angle_rad)
    steer = np.clip(steer, -parameters.steering.max_wheel_rad, parameters.steering.max_wheel_rad)
    throttle = values(reference.throttle, names.linear)
    brake = values(reference.brake, names.linear)
    if names.acceleration:
        throttle, brake = accelerated(parameters, throttle)
    return np.stack((steer, throttle, brake), axis=1)


def accelerated(parameters: TwinParameters, acceleration_mps2: Any) -> tuple[Any, Any]:
    """Return throttle and brake, normalised, for accelerations of the centre of mass produced by
    wheel torques."""
    drive_mps2 = (
        parameters.powertrain.full_acceleration_mps2
        if isinstance(parameters.powertrain, AccelerationDrive)
        else float("inf")
    )
    brakes, front, rear = parameters.brakes, parameters.front, parameters.rear
    force = 2.0 * (
        brakes.front_torque_nm / front.loaded_radius_m
        + brakes.rear_torque_nm / rear.loaded_radius_m
    )
    brake_mps2 = max(force / parameters.body.mass_kg, 1e-9)
    return np.clip(acceleration_mps2 / drive_mps2, 0.0, 1.0), np.clip(
        -acceleration_mps2 / brake_mps2, 0.0, 1.0
    )


def linear_tyres(parameters: TwinParameters) -> TwinParameters:
    """Return the vehicle on tyres with a constant slope."""

    def line(direction: TyreDirection) -> TyreDirection:
        # At peak_force = slope * peak_slip / 2 the curve departs from its tangent only by the
        # square of slip over peak slip.
        force = [0.5 * _LINEAR_TO * slope for slope in direction.slope_n]
        slip, sliding = [_LINEAR_TO, _LINEAR_TO], [2.0 * _LINEAR_TO, 2.0 * _LINEAR_TO]
        return replace(
            direction,
            peak_force_n=force,
            peak_slip=slip,
            sliding_force_n=force,
            sliding_slip=sliding,
        )

    def axle(it: Axle) -> Axle:
        tyre = replace(
            it.tyre, longitudinal=line(it.tyre.longitudinal), lateral=line(it.tyre.lateral)
        )
        return replace(it, tyre=tyre)

    return replace(parameters, front=axle(parameters.front), rear=axle(parameters.rear))


def single_track(parameters: TwinParameters, spin_inertia_share: float) -> TwinParameters:
    """Return the vehicle as seen by a model with one wheel per axle and no masses apart from the
    body."""

    def axle(it: Axle) -> Axle:
        inertia = spin_inertia_share * it.spin_inertia_kgm2
        return replace(
            it,
            roll_stiffness_nmprad=0.0,
            roll_damping_nmsprad=0.0,
            roll_steer=0.0,
            spin_inertia_kgm2=inertia,
        )

    line = parameters.powertrain.driveline
    line = replace(
        line, front=opened(line.front), rear=opened(line.rear), centre=opened(line.centre)
    )
    return replace(
        parameters,
        body=replace(parameters.body, weight_shift=0.0),
        front=axle(parameters.front),
        rear=axle(parameters.rear),
        steering=replace(parameters.steering, ackermann=1.0),
        powertrain=replace(parameters.powertrain, driveline=line),
    )


def forced(parameters: TwinParameters, forward_mps2: float, backward_mps2: float) -> TwinParameters:
    """Return the vehicle with brakes and a drive of all wheels that reach these accelerations."""
    powertrain, brakes = parameters.powertrain, parameters.brakes
    if isinstance(powertrain, AccelerationDrive):
        line = replace(powertrain.driveline, front_share=0.5, speed_front_share=0.5)
        powertrain = replace(powertrain, full_acceleration_mps2=forward_mps2, driveline=line)
    each_nm = 0.25 * backward_mps2 * parameters.body.mass_kg * parameters.rear.loaded_radius_m
    brakes = replace(brakes, front_torque_nm=each_nm, rear_torque_nm=each_nm)
    return replace(parameters, powertrain=powertrain, brakes=brakes)


def balanced(parameters: TwinParameters) -> TwinParameters:
    """Return the vehicle with brakes distributed like its loads at 0.5 g: the reference brakes
    without wheel slip."""
    body, brakes = parameters.body, parameters.brakes
    front = (body.wheelbase_m - body.cg_to_front_m + 0.5 * body.cg_height_m) / body.wheelbase_m
    both = brakes.front_torque_nm + brakes.rear_torque_nm
    return replace(
        parameters,
        brakes=replace(brakes, front_torque_nm=front * both, rear_torque_nm=(1.0 - front) * both),
    )


def opened(differential: Differential) -> Differential:
    """Return the differential without lock and bias."""
    return replace(differential, lock_nms=0.0, bias=1.0, coast_bias=1.0)


def _speed_wanted(reference: ReferenceRun, steps: int) -> Any:
    grid = float(reference.t_s[0]) + STEP_S * np.arange(1, steps + 1)
    return np.interp(grid, reference.t_s, np.hypot(reference.vx_mps, reference.vy_mps))


def _held_to_speed(
    model: DoubleTrack, orders: Any, speed_mps: Any, parameters: TwinParameters, point_m: float
) -> dict[str, Any]:
    """Drive with the speed held to a programme, because the reference has no losses that slow it
    down in a turn."""
    rows = []
    rates = np.gradient(speed_mps, STEP_S)
    for order, wanted, rate in zip(orders, speed_mps.tolist(), rates.tolist()):
        state = model.state
        moved = [getattr(state, name) for name in _STATE.values()]
        rows.append(moved + [getattr(model.outputs, name) for name in _LOADS.values()])
        speed = hypot(state.forward_mps, state.lateral_mps + point_m * state.yaw_rate_radps)
        throttle, brake = accelerated(parameters, rate + _SPEED_GAIN_PS * (wanted - speed))
        model.step(float(order[0]), float(throttle), float(brake))
    values = np.array(rows)
    return {"t": STEP_S * np.arange(len(rows))} | {
        name: values[:, k] for k, name in enumerate((*_STATE, *_LOADS))
    }


_WHEELS = ("fl", "fr", "rl", "rr")
_LOADS = {f"fz_{wheel}": f"load_{wheel}_n" for wheel in _WHEELS}
_STATE = {
    "x": "x_m",
    "y": "y_m",
    "yaw": "yaw_rad",
    "vx": "forward_mps",
    "vy": "lateral_mps",
    "yaw_rate": "yaw_rate_radps",
    "roll": "roll_rad",
    **{f"w_{wheel}": f"spin_{wheel}_radps" for wheel in _WHEELS},
}


def _ended(model: DoubleTrack, table: dict[str, Any], *, tips: bool) -> str:
    last = float(table["t"][-1])
    if model.diverged:
        return f"ours diverged at {last:.2f} s"
    # A model with one wheel per axle cannot tip.
    return "ours rolled over" if tips and model.rolled_over else ""
