"""Consistency checks of vehicle parameters. All problems are reported together, by key with a
reason."""

from collections.abc import Iterator
from itertools import pairwise
from math import isfinite
from typing import Any

import msgspec

from sim_backend.plant.double_track.constants import GRAVITY_MPS2
from sim_backend.plant.double_track.parameters import (
    Axle,
    Engine,
    Motor,
    SteeringGeometry,
    TwinParameters,
)

Problem = tuple[str, str]
"""Dotted key and reason."""


class ParameterError(ValueError):
    """The parameters are inconsistent. ``problems`` lists every key with its reason."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(f"{key}: {reason}" for key, reason in problems))
        self.problems = problems


def check(parameters: TwinParameters, step_s: float = 1e-3) -> list[Problem]:
    """Return the problems of parameters at a step size, by dotted key; empty if the vehicle is
    valid. Never raises."""
    found = list(_not_finite(msgspec.to_builtins(parameters)))
    found += _out_of_bounds(parameters)
    if not 1e-5 <= step_s <= 0.02:
        found.append(("step_s", f"is {step_s:g} s; it must be from 0.00001 to 0.02"))
    if found:
        # The checks below compute with the numbers.
        return found
    return [
        *_body(parameters),
        *_axle("front", parameters.front),
        *_axle("rear", parameters.rear),
        *_steering(parameters.steering),
        *_powertrain(parameters),
        *_stiffness(parameters, step_s),
    ]


def _not_finite(tree: Any, key: str = "") -> Iterator[Problem]:
    if isinstance(tree, dict):
        for name, value in tree.items():
            yield from _not_finite(value, f"{key}.{name}" if key else name)
    elif isinstance(tree, list):
        for index, value in enumerate(tree):
            yield from _not_finite(value, f"{key}[{index}]")
    elif isinstance(tree, float) and not isfinite(tree):
        yield key, "is not a finite number"


def _out_of_bounds(parameters: TwinParameters) -> list[Problem]:
    """Check the bounds of the types; a tree built in code was not checked by the decoder."""
    try:
        msgspec.convert(msgspec.to_builtins(parameters), TwinParameters)
    except msgspec.ValidationError as error:
        reason, _, place = str(error).partition(" - at ")
        return [(place.strip("`").removeprefix("$."), reason[:1].lower() + reason[1:])]
    return []


def _body(p: TwinParameters) -> Iterator[Problem]:
    body = p.body
    sprung_kg = body.mass_kg - p.front.unsprung_mass_kg - p.rear.unsprung_mass_kg
    if sprung_kg <= 0.0:
        yield (
            "body.mass_kg",
            (
                f"leaves {sprung_kg:.4g} kg above the axles; give the complete mass, unsprung "
                "masses included"
            ),
        )
        return
    if body.cg_to_front_m >= body.wheelbase_m:
        yield (
            "body.cg_to_front_m",
            "puts the centre of mass behind the rear axle; it must be less than wheelbase_m",
        )
        return
    front_kg = body.mass_kg * (1.0 - body.cg_to_front_m / body.wheelbase_m)
    if not p.front.unsprung_mass_kg < front_kg < body.mass_kg - p.rear.unsprung_mass_kg:
        yield "body.cg_to_front_m", "leaves an axle with less than its own unsprung mass"
    if not 0.0 < front_kg / body.mass_kg + body.weight_shift < 1.0:
        yield "body.weight_shift", "leaves an axle without weight; it is usually 0"
    if body.pitch_centre_height_m >= body.cg_height_m:
        yield "body.pitch_centre_height_m", "must be below cg_height_m"
    stiffness = p.front.roll_stiffness_nmprad + p.rear.roll_stiffness_nmprad
    if stiffness > 0.0:
        ratio = (front_kg - p.front.unsprung_mass_kg) / sprung_kg
        axis_m = ratio * p.front.roll_centre_height_m + (1.0 - ratio) * p.rear.roll_centre_height_m
        needed = sprung_kg * GRAVITY_MPS2 * (body.cg_height_m - axis_m)
        if stiffness <= 1.05 * needed:
            yield (
                "front.roll_stiffness_nmprad",
                (
                    f"falls over at rest: both axles have {stiffness:.4g} N m/rad, gravity takes "
                    f"{needed:.4g}; 0 at both is rigid"
                ),
            )


def _axle(name: str, axle: Axle) -> Iterator[Problem]:
    if (
        axle.loaded_radius_m > 1.2 * axle.rolling_radius_m
        or axle.loaded_radius_m < 0.8 * axle.rolling_radius_m
    ):
        yield f"{name}.loaded_radius_m", "is more than a fifth away from rolling_radius_m"
    tyre = axle.tyre
    if tyre.largest_load_n < tyre.nominal_load_n:
        yield f"{name}.tyre.largest_load_n", "is less than nominal_load_n"
    most = tyre.largest_load_n / tyre.nominal_load_n
    if (
        tyre.vertical
        and tyre.largest_load_n / tyre.vertical.stiffness_npm > 0.5 * axle.loaded_radius_m
    ):
        yield (
            f"{name}.tyre.vertical.stiffness_npm",
            "gives way by more than half the radius at largest_load_n",
        )
    for side, curve in (("longitudinal", tyre.longitudinal), ("lateral", tyre.lateral)):
        key = f"{name}.tyre.{side}"
        for field in ("slope_n", "peak_force_n", "sliding_force_n"):
            first, second = getattr(curve, field)
            if (
                min(
                    2.0 * first - 0.5 * second,
                    2.0 * first - 0.5 * second - (first - 0.5 * second) * most,
                )
                <= 0.0
            ):
                yield (
                    f"{key}.{field}",
                    (
                        "turns negative between no load and the largest load; its second value is "
                        "at twice the load"
                    ),
                )
        for field in ("peak_slip", "sliding_slip"):
            first, second = getattr(curve, field)
            if min(2.0 * first - second, 2.0 * first - second + (second - first) * most) <= 0.0:
                yield (
                    f"{key}.{field}",
                    (
                        "turns negative between no load and the largest load; its second value is "
                        "at twice the load"
                    ),
                )
        for index, at in enumerate(("nominal", "twice the nominal")):
            if curve.sliding_slip[index] <= curve.peak_slip[index]:
                yield f"{key}.sliding_slip", f"is not beyond peak_slip at {at} load"
            if curve.slope_n[index] * curve.peak_slip[index] < 0.5 * curve.peak_force_n[index]:
                yield (
                    f"{key}.slope_n",
                    (
                        f"cannot reach the peak at peak_slip at {at} load: slope x slip is below "
                        "half the force"
                    ),
                )


def _curve(key: str, points: list[float], *others: list[float]) -> Iterator[Problem]:
    if any(b <= a for a, b in pairwise(points)):
        yield key, "does not grow from point to point"
    if any(len(other) != len(points) for other in others):
        yield key, "must have as many points as its values"


def _steering(steering: SteeringGeometry) -> Iterator[Problem]:
    yield from _curve("steering.map_command", steering.map_command, steering.map_angle_rad)
    if any(b < a for a, b in pairwise(steering.map_angle_rad)):
        yield "steering.map_angle_rad", "falls; a greater command must not steer less to the left"
    if steering.bandwidth_radps > 0.0 and steering.damping_ratio < 0.1:
        yield "steering.damping_ratio", "below 0.1 the servo rings; 0.7 is usual"


def _powertrain(p: TwinParameters) -> Iterator[Problem]:
    drive = p.powertrain
    line = drive.driveline
    for name, differential in (("front", line.front), ("rear", line.rear), ("centre", line.centre)):
        if differential.bias > 1.0 and differential.bias_full_radps < differential.bias_begin_radps:
            yield f"powertrain.driveline.{name}.bias_full_radps", "is less than bias_begin_radps"
    if isinstance(drive, Motor):
        yield from _curve(
            "powertrain.curve_speed_radps", drive.curve_speed_radps, drive.curve_torque_nm
        )
        yield from _curve(
            "powertrain.loss_speed_radps", drive.loss_speed_radps, drive.loss_torque_nm
        )
        yield from _curve("powertrain.map_throttle", drive.map_throttle, drive.map_share)
        if drive.map_throttle[0] != 0.0:
            yield "powertrain.map_throttle", "does not begin at 0"
        if not all(0.0 <= ratio <= 1.0 for ratio in drive.map_share):
            yield "powertrain.map_share", "must be a ratio from 0 to 1"
        if any(torque < 0.0 for torque in drive.loss_torque_nm):
            yield "powertrain.loss_torque_nm", "is a friction torque and cannot be negative"
        return
    if line.layout == "sides":
        yield (
            "powertrain.driveline.layout",
            '"sides" has a motor on each side and needs the powertrain kind "motor"',
        )
    if isinstance(drive, Engine):
        yield from _curve("powertrain.map_speed_radps", drive.map_speed_radps, drive.map_torque_nm)
        yield from _curve(
            "powertrain.loss_speed_radps", drive.loss_speed_radps, drive.loss_torque_nm
        )
        yield from _curve(
            "powertrain.converter_speed_ratio",
            drive.converter_speed_ratio,
            drive.converter_capacity,
            drive.converter_torque_ratio,
        )
        if max(drive.converter_capacity) > 0.0:
            if min(drive.converter_capacity) <= 0.0:
                yield (
                    "powertrain.converter_capacity",
                    "has a 0 beside other values; use all 0 for a rigid coupling",
                )
            if drive.inertia_kgm2 <= 0.0:
                yield (
                    "powertrain.inertia_kgm2",
                    "is 0; a crank before a converter turns freely and needs an inertia",
                )
        gears = len(drive.gear_ratios)
        for field in ("up_speed_radps", "down_speed_radps"):
            if len(getattr(drive, field)) != gears:
                yield f"powertrain.{field}", f"needs one value for each of the {gears} gears"
        if any(
            down >= up
            for up, down in zip(drive.up_speed_radps, drive.down_speed_radps, strict=False)
        ):
            yield "powertrain.down_speed_radps", "is not below up_speed_radps of its gear"


def _stiffness(p: TwinParameters, step_s: float) -> Iterator[Problem]:
    """Check the carcass springs and dampers, which act on the body explicitly: its inertias must
    keep the step stable."""
    body = p.body
    arms = (body.cg_to_front_m, body.wheelbase_m - body.cg_to_front_m)
    for name, field in (
        ("lateral", "carcass_stiffness_npm"),
        ("longitudinal", "carcass_stiffness_npm"),
    ):
        push = turn = 0.0
        for axle, arm_m in zip((p.front, p.rear), arms, strict=True):
            curve = getattr(axle.tyre, name)
            per_wheel = step_s * (curve.carcass_stiffness_npm * step_s + curve.carcass_damping_nspm)
            push += 2.0 * per_wheel
            turn += (
                2.0
                * per_wheel
                * (arm_m * arm_m if name == "lateral" else 0.25 * axle.track_m * axle.track_m)
            )
        if push > body.mass_kg or turn > body.yaw_inertia_kgm2:
            yield (
                f"front.tyre.{name}.{field}",
                (
                    f"is too stiff for this vehicle at a step of {1e3 * step_s:g} ms; a smaller "
                    "step, a softer carcass or less damping"
                ),
            )
