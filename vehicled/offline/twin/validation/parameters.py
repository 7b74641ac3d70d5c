"""Parameters of a vehicle that runs can show to be wrong, each with the way to change it in
proportion."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from sim_backend.plant.double_track.parameters import (
    AccelerationDrive,
    Axle,
    Motor,
    TwinParameters,
    TyreDirection,
)

Change = Callable[[TwinParameters, float], TwinParameters]


class TwinParameter(Struct, frozen=True):
    """A number of the vehicle, or several that change together."""

    name: str
    keys: str
    """Keys in the vehicle file."""
    change: Change
    """Return the vehicle with the parameter times a factor."""
    shown_by: str
    """Manoeuvre that shows it, for references that do not."""


def _scaled(values: list[float], factor: float) -> list[float]:
    return [factor * value for value in values]


def _body(key: str) -> Change:
    return lambda p, factor: replace(
        p, body=replace(p.body, **{key: factor * getattr(p.body, key)})
    )


def _axles(change: Callable[[Axle, float], Axle]) -> Change:
    return lambda p, factor: replace(p, front=change(p.front, factor), rear=change(p.rear, factor))


def _tyre(side: str, change: Callable[[TyreDirection, float], TyreDirection]) -> Change:
    def both(axle: Axle, factor: float) -> Axle:
        return replace(
            axle, tyre=replace(axle.tyre, **{side: change(getattr(axle.tyre, side), factor)})
        )

    return _axles(both)


def _slope(d: TyreDirection, factor: float) -> TyreDirection:
    return replace(d, slope_n=_scaled(d.slope_n, factor))


def _peak(d: TyreDirection, factor: float) -> TyreDirection:
    return replace(
        d,
        peak_force_n=_scaled(d.peak_force_n, factor),
        sliding_force_n=_scaled(d.sliding_force_n, factor),
    )


def _carcass(d: TyreDirection, factor: float) -> TyreDirection:
    return replace(d, carcass_stiffness_npm=factor * d.carcass_stiffness_npm)


def _roll_stiffness(axle: Axle, factor: float) -> Axle:
    return replace(axle, roll_stiffness_nmprad=factor * axle.roll_stiffness_nmprad)


def _steering(p: TwinParameters, factor: float) -> TwinParameters:
    return replace(
        p, steering=replace(p.steering, map_angle_rad=_scaled(p.steering.map_angle_rad, factor))
    )


def _drive(p: TwinParameters, factor: float) -> TwinParameters:
    drive = p.powertrain
    if isinstance(drive, AccelerationDrive):
        return replace(
            p,
            powertrain=replace(drive, full_acceleration_mps2=factor * drive.full_acceleration_mps2),
        )
    if isinstance(drive, Motor):
        curve = _scaled(drive.curve_torque_nm, factor)
        return replace(
            p,
            powertrain=replace(
                drive, curve_torque_nm=curve, peak_torque_nm=factor * drive.peak_torque_nm
            ),
        )
    return replace(p, powertrain=replace(drive, map_torque_nm=_scaled(drive.map_torque_nm, factor)))


def _brake(p: TwinParameters, factor: float) -> TwinParameters:
    front, rear = factor * p.brakes.front_torque_nm, factor * p.brakes.rear_torque_nm
    return replace(p, brakes=replace(p.brakes, front_torque_nm=front, rear_torque_nm=rear))


_PEDALS = (
    "a run that commands throttle or brake; where the reference's command is an acceleration, "
    "the torque follows from it"
)
PARAMETERS = (
    TwinParameter(
        "mass",
        "body.mass_kg",
        _body("mass_kg"),
        "wheel loads at rest, or acceleration by a known torque",
    ),
    TwinParameter(
        "yaw inertia",
        "body.yaw_inertia_kgm2",
        _body("yaw_inertia_kgm2"),
        "sine or step of the steering at 1 Hz or more",
    ),
    TwinParameter(
        "CG position",
        "body.cg_to_front_m",
        _body("cg_to_front_m"),
        "wheel loads at rest, or a steady turn at speed",
    ),
    TwinParameter(
        "CG height", "body.cg_height_m", _body("cg_height_m"), "roll angle or wheel loads in a turn"
    ),
    TwinParameter(
        "lateral slope",
        "tyre.lateral.slope_n",
        _tyre("lateral", _slope),
        "lateral speed in a turn at speed",
    ),
    TwinParameter(
        "longitudinal slope",
        "tyre.longitudinal.slope_n",
        _tyre("longitudinal", _slope),
        "wheel speeds to 0.05 % in acceleration or braking without a jump",
    ),
    TwinParameter(
        "lateral peak",
        "tyre.lateral.peak_force_n, sliding_force_n",
        _tyre("lateral", _peak),
        "steering up to the limit",
    ),
    TwinParameter(
        "longitudinal peak",
        "tyre.longitudinal.peak_force_n, sliding_force_n",
        _tyre("longitudinal", _peak),
        "wheel speeds while braking up to the limit",
    ),
    TwinParameter(
        "relaxation",
        "tyre.lateral.carcass_stiffness_npm",
        _tyre("lateral", _carcass),
        "steering at 3 Hz or more at a low speed, where the relaxation length takes a long time",
    ),
    TwinParameter(
        "steering ratio",
        "steering.map_angle_rad",
        _steering,
        "a run that commands the steering, not the wheel's angle",
    ),
    TwinParameter("drive torque", "powertrain torque", _drive, _PEDALS),
    TwinParameter("brake torque", "brakes.*_torque_nm", _brake, _PEDALS),
    TwinParameter(
        "roll stiffness", "roll_stiffness_nmprad", _axles(_roll_stiffness), "roll angle in a turn"
    ),
)
