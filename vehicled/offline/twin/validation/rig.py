"""Test rig for vehicles: an ideal drive, the manoeuvres of the checks against theory, and the
linear single track."""

from typing import Any

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.double_track.constants import GRAVITY_MPS2, Constants
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import (
    AccelerationDrive,
    Aerodynamics,
    Axle,
    TwinParameters,
    TyreDirection,
)
from vehicled.offline.twin.validation.drive import opened

_SIDE_MPS2 = 2.0
"""Lateral acceleration of the brisk manoeuvres, possible for every vehicle."""


def drive(
    p: TwinParameters, commands: Any, speed_mps: float, step_s: float = 1e-3
) -> tuple[dict[str, Any], DoubleTrack]:
    """Run commands (n, 3), steer_rad, throttle, brake, from straight rolling. Return the columns
    and the vehicle at its end."""
    model = double_track(p, step_s)
    model.reset(0.0, 0.0, 0.0, speed_mps)
    return model.run(commands), model


def steered(angle_rad: Any, steps: int) -> Any:
    """Return commands that only steer, by an angle or angles (steps,)."""
    commands = np.zeros((steps, 3))
    commands[:, 0] = angle_rad
    return commands


def ideal(p: TwinParameters) -> TwinParameters:
    """Return the vehicle without drive, brakes and losses other than tyre slip."""
    line = p.powertrain.driveline
    powertrain = AccelerationDrive(
        full_acceleration_mps2=1.0,
        switch_speed_mps=1e6,
        top_speed_mps=1e6,
        reverse_share=1.0,
        delay_s=0.0,
        lag_s=0.0,
        driveline=replace(
            line,
            layout="axles",
            front=opened(line.front),
            rear=opened(line.rear),
            centre=opened(line.centre),
        ),
    )
    still = Aerodynamics(
        air_density_kgpm3=0.0, drag_area_m2=0.0, front_lift_area_m2=0.0, rear_lift_area_m2=0.0
    )
    front, rear = (
        replace(axle, rolled_slip=0.0, tyre=replace(axle.tyre, rolling_resistance=0.0))
        for axle in (p.front, p.rear)
    )
    return replace(p, powertrain=powertrain, aerodynamics=still, front=front, rear=rear)


def stiff(p: TwinParameters, times: float) -> TwinParameters:
    """Return the vehicle with tyres ``times`` as stiff and strong, and a suspension without roll
    steer."""

    def harder(d: TyreDirection) -> TyreDirection:
        pairs = {
            name: [times * value for value in getattr(d, name)]
            for name in ("slope_n", "peak_force_n", "sliding_force_n")
        }
        return replace(d, **pairs, carcass_stiffness_npm=times * d.carcass_stiffness_npm)

    def axle(a: Axle) -> Axle:
        tyre = replace(
            a.tyre, longitudinal=harder(a.tyre.longitudinal), lateral=harder(a.tyre.lateral)
        )
        return replace(a, tyre=tyre, roll_steer=0.0, roll_scrub_m=0.0)

    return replace(p, front=axle(p.front), rear=axle(p.rear))


def angle_rad(p: TwinParameters) -> float:
    """Return a moderate steering angle; 0 for a vehicle without steered wheels."""
    return (
        0.0
        if p.powertrain.driveline.layout == "sides"
        else min(0.1, 0.5 * p.steering.max_wheel_rad)
    )


def brisk_mps(p: TwinParameters) -> float:
    """Return the speed at which that angle gives the brisk lateral acceleration."""
    return float(np.sqrt(_SIDE_MPS2 * p.body.wheelbase_m / max(angle_rad(p), 0.05)))


def relaxation_m(axle: Axle) -> float:
    """Return the relaxation length of the lateral tyre force."""
    return axle.tyre.lateral.slope_n[0] / axle.tyre.lateral.carcass_stiffness_npm


def cornering_npr(axle: Axle, load_n: float) -> float:
    """Return the cornering stiffness of an axle, both tyres, at its load."""
    tyre = axle.tyre
    q = min(0.5 * load_n, tyre.largest_load_n) / tyre.nominal_load_n
    one, two = tyre.lateral.slope_n
    return 2.0 * q * (2.0 * one - 0.5 * two - (one - 0.5 * two) * q)


def linear_gradient(p: TwinParameters, c: Constants) -> tuple[float, float]:
    """Return L and K of the linear single track, in m and rad s2, with yaw rate per steering angle
    v / (L + K v^2). Rear steering shortens both; K includes roll steer.
    """
    body = p.body
    length, a = body.wheelbase_m, body.cg_to_front_m
    weight = body.mass_kg * GRAVITY_MPS2
    front = (
        body.mass_kg
        * (length - a)
        / (length * cornering_npr(p.front, weight * c.front.weight_share))
    )
    rear = body.mass_kg * a / (length * cornering_npr(p.rear, weight * c.rear.weight_share))
    roll = (
        c.roll_lever_kgm / (c.roll_stiffness_nmprad - c.roll_lever_kgm * GRAVITY_MPS2)
        if c.roll_lever_kgm
        else 0.0
    )
    gradient = front - rear - roll * (p.front.roll_steer - p.rear.roll_steer)
    scale = 1.0 - p.steering.rear_ratio
    return length / scale, gradient / scale


def energy_j(c: Constants, t: dict[str, Any]) -> Any:
    """Return the energy of a run (n,): motion of the body with its roll, of the wheels, and energy
    in springs and carcasses."""
    mass, lever = c.mass_kg, c.roll_lever_kgm
    motion = (
        0.5 * mass * (t["vx"] ** 2 + t["vy"] ** 2) + 0.5 * c.yaw_inertia_kgm2 * t["yaw_rate"] ** 2
    )
    roll = (
        0.5 * c.roll_inertia_kgm2 * t["roll_rate"] ** 2
        + 0.5 * c.roll_lever_kgm2 * (t["roll"] * t["yaw_rate"]) ** 2
    )
    roll = roll + lever * (t["vx"] * t["yaw_rate"] * t["roll"] - t["vy"] * t["roll_rate"])
    springs = 0.5 * (c.roll_stiffness_nmprad - lever * GRAVITY_MPS2) * t["roll"] ** 2
    total = motion + roll + springs
    for axle, wheels in ((c.front, ("fl", "fr")), (c.rear, ("rl", "rr"))):
        for wheel in wheels:
            total = total + 0.5 * axle.spin_inertia_kgm2 * t[f"w_{wheel}"] ** 2
            total = total + 0.5 * axle.stiffness_x_npm * t[f"carcass_x_{wheel}"] ** 2
            total = total + 0.5 * axle.stiffness_y_npm * t[f"carcass_y_{wheel}"] ** 2
    return total
