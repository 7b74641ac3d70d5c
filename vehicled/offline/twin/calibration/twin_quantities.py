"""Fitted quantities of a double-track vehicle, and the numbers of its file that they form.

Throttle map: zero below ``throttle_zero``, then ratios at fixed points of the remaining range.
Torque curve: values at fixed points of the driven speeds. Motion depends on torque over mass only,
so the mass is not fitted.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from sim_backend.plant.double_track.parameters import (
    AccelerationDrive,
    Engine,
    Motor,
    TwinParameters,
)
from vehicled.offline.twin.calibration.quantity import CalibratedNumber, Quantity, Values

MAP_PLACES = (0.03, 0.25, 0.5, 0.75)
"""Points of the map, relative to the range beyond the dead zone."""
CURVE_PLACES = (0.0, 0.2, 0.4, 0.65, 0.9, 1.15, 1.6)
"""Points of the curve, relative to the motor's speed at the top speed driven. Beyond 1 they matter
at small duty."""
ZERO_STARTS = (0.1, 0.2, 0.3, 0.4, 0.5)
RATIO_SIGMA = 0.2
ANGLE_ERROR = 0.005
"""Relative error of a wheel angle."""
BIASED_ANGLE_ERROR = 0.01
"""The same with differentials that pass more torque to the slower side. At the measured speed the
torque of the drive is smooth; in a vehicle whose throttle is controlled it is not, and they bend
its path by up to 1.3 % less (``bench/calibration_coverage.py``).
"""
OFFSET_ERROR_RAD = 5e-4
DELAY_ERROR_S = 0.005
"""Half a row of usual commands."""
LEAST_RISE = 0.51
"""Least slope x slip over force at the peak of a tyre, from the shape of its curve."""

_TYRE = {
    "lateral_slope": ("slope_n", ("lateral",)),
    "lateral_peak": ("peak_force_n", ("lateral",)),
}


def quantities(p: TwinParameters, levels: Sequence[float], top_mps: float) -> list[Quantity]:
    """Return all quantities of a vehicle. ``levels`` are the commands that the drives steered with:
    the wheel angle at the first is the gain's, each other one has its ratio to it.
    """
    return [*_powertrain(p, top_mps), *_steering(p, levels), *_tyres(p), *_inertia()]


def changes(
    p: TwinParameters, values: Values, levels: Sequence[float], top_mps: float
) -> dict[str, Any]:
    """Return the numbers of the file by dotted key for the given quantities; others stay."""
    found: dict[str, Any] = {}
    drive, s = p.powertrain, p.steering
    if isinstance(drive, Motor):
        zero = values.get("throttle_zero")
        if zero is not None:
            shares = _shares([values[f"share_{k}"] for k in range(len(MAP_PLACES))])
            found["powertrain.map_throttle"] = [
                0.0,
                max(zero, 1e-3),
                *(_place(zero, place) for place in MAP_PLACES),
                1.0,
            ]
            found["powertrain.map_share"] = [0.0, 0.0, *shares, 1.0]
        if "torque_0" in values:
            found["powertrain.curve_speed_radps"] = curve_radps(p, top_mps)
            found["powertrain.curve_torque_nm"] = [
                values[f"torque_{k}"] for k in range(len(CURVE_PLACES))
            ]
        if "full_s" in values:
            found["powertrain.throttle_rate_ps"] = 1.0 / max(values["full_s"], 1e-3)
        if "loss_0" in values:
            found["powertrain.loss_speed_radps"] = [0.0, curve_radps(p, top_mps)[-3]]
            found["powertrain.loss_torque_nm"] = [values["loss_0"], values["loss_1"]]
        if "turn_bias" in values:
            for axle in ("front", "rear"):
                found[f"powertrain.driveline.{axle}.bias"] = values["turn_bias"]
                found[f"powertrain.driveline.{axle}.coast_bias"] = values["turn_bias"]
    elif isinstance(drive, Engine) and "torque_scale" in values:
        found["powertrain.map_torque_nm"] = [
            values["torque_scale"] * torque for torque in drive.map_torque_nm
        ]
    elif isinstance(drive, AccelerationDrive) and "torque_scale" in values:
        found["powertrain.full_acceleration_mps2"] = (
            values["torque_scale"] * drive.full_acceleration_mps2
        )
    if isinstance(drive, Engine) and "loss_scale" in values:
        found["powertrain.loss_torque_nm"] = [
            values["loss_scale"] * torque for torque in drive.loss_torque_nm
        ]
    if "resistance" in values:
        for axle in ("front", "rear"):
            found[f"{axle}.tyre.rolling_resistance"] = values["resistance"]
    if "drive_delay" in values:
        found["powertrain.delay_s"] = values["drive_delay"]
    for name, key in (
        ("offset", "offset_rad"),
        ("steering_delay", "delay_s"),
        ("steering_rate", "rate_radps"),
    ):
        if name in values:
            found[f"steering.{key}"] = values[name]
    if any(name.startswith(("gain", "ratio_")) for name in values):
        commands, angles = list(s.map_command), list(s.map_angle_rad)
        if 0.0 not in commands and commands[0] < 0.0 < commands[-1]:
            # Without a point in the middle another ratio on one side would move the straight-ahead
            # angle too.
            at = int(np.searchsorted(commands, 0.0))
            angles.insert(at, float(np.interp(0.0, commands, angles)))
            commands.insert(at, 0.0)
            found["steering.map_command"] = commands
        gain = values.get("gain", 1.0)
        scaled = [
            angle if c == 0.0 else angle * gain * _ratio(c, values, levels)
            for c, angle in zip(commands, angles, strict=True)
        ]
        found["steering.map_angle_rad"] = np.maximum.accumulate(scaled).tolist()
        found["steering.max_wheel_rad"] = min(
            max(s.max_wheel_rad, *(abs(angle) + 0.02 for angle in scaled)), 1.49
        )
    for name, (field, directions) in _TYRE.items():
        if name in values:
            for axle, tyre in (("front", p.front.tyre), ("rear", p.rear.tyre)):
                for direction in directions:
                    pair = getattr(getattr(tyre, direction), field)
                    found[f"{axle}.tyre.{direction}.{field}"] = [
                        values[name] * force for force in pair
                    ]
    if "yaw_inertia" in values:
        found["body.yaw_inertia_kgm2"] = values["yaw_inertia"] * p.body.yaw_inertia_kgm2
    return found


def figures(
    p: TwinParameters, values: Values, sigma: Values, levels: Sequence[float], top_mps: float
) -> list[CalibratedNumber]:
    """Return the numbers of the file with the standard deviations propagated from the quantities;
    for a list, the largest one."""
    base = changes(p, values, levels, top_mps)
    variance = {
        key: np.zeros_like(np.atleast_1d(np.asarray(value, dtype=np.float64)))
        for key, value in base.items()
    }
    for name, spread in sigma.items():
        moved = changes(p, {**values, name: values[name] + 0.1 * spread}, levels, top_mps)
        for key, value in moved.items():
            variance[key] += ((np.atleast_1d(value) - np.atleast_1d(base[key])) / 0.1) ** 2
    found = []
    for key, value in base.items():
        spread = float(np.sqrt(variance[key].max()))
        before = before_of(p, key)
        if value != before:
            found.append(CalibratedNumber(key=key, value=value, sigma=spread, before=before))
    return found


def before_of(p: Any, key: str) -> Any:
    """Return the present number of a key."""
    for part in key.split("."):
        p = getattr(p, part)
    return p


def curve_radps(p: TwinParameters, top_mps: float) -> list[float]:
    """Return the motor speeds of the fitted torque curve."""
    drive = p.powertrain
    assert isinstance(drive, Motor), "only a motor has one"
    top = top_mps / p.rear.rolling_radius_m * drive.reduction
    return [place * top for place in CURVE_PLACES]


def _shares(parts: Sequence[float]) -> list[float]:
    """Build a monotonic map from each point's fraction of the remainder."""
    shares, level = [], 0.0
    for part in parts:
        level += (1.0 - level) * part
        shares.append(level)
    return shares


def _parts(shares: Sequence[float]) -> list[float]:
    before = [0.0, *shares[:-1]]
    return [
        (level - low) / (1.0 - low) if low < 1.0 else 0.0
        for low, level in zip(before, shares, strict=True)
    ]


def _linear_beyond(zero: float) -> dict[str, float]:
    """Return a throttle map that is linear beyond a dead zone."""
    parts = _parts([_place(zero, place) for place in MAP_PLACES])
    return {"throttle_zero": zero, **{f"share_{k}": part for k, part in enumerate(parts)}}


def _place(zero: float, place: float) -> float:
    return max(zero, 1e-3) + (1.0 - max(zero, 1e-3)) * place


def _ratio(command: float, values: Values, levels: Sequence[float]) -> float:
    """Return the angle at a command relative to the gain: interpolated between the levels of its
    side, as at the nearest beyond."""
    side = sorted(
        (abs(level), values.get(_ratio_name(level), 1.0))
        for level in levels
        if level * command > 0.0
    )
    return (
        float(np.interp(abs(command), [level for level, _ in side], [ratio for _, ratio in side]))
        if side
        else 1.0
    )


def _ratio_name(level: float) -> str:
    return f"ratio_{level:+.2f}"


def _powertrain(p: TwinParameters, top_mps: float) -> list[Quantity]:
    drive = p.powertrain
    found = []

    def add(
        name: str,
        unit: str,
        start: float,
        bounds: tuple[float, float],
        sigma: float,
        *needs: Any,
        starts: Any = (),
        bends: bool = False,
        alone: bool = True,
    ) -> None:
        found.append(
            Quantity(
                name=name, group="powertrain", unit=unit,
                start=min(max(start, bounds[0]), bounds[1]), lower=bounds[0], upper=bounds[1],
                sigma=sigma, needs=needs, starts=starts, bends_path=bends, alone=alone,
            )
        )  # fmt: skip

    if isinstance(drive, Motor):
        known = drive.map_share[1] == 0.0 and len(drive.map_share) == len(MAP_PLACES) + 3
        zero = drive.map_throttle[1] if known else 0.0
        starts = () if known else tuple(_linear_beyond(zero) for zero in ZERO_STARTS)
        add(
            "throttle_zero", "", zero, (0.0, 0.8), 0.2, "throttle_range", starts=starts, alone=False
        )
        shares = [
            float(np.interp(_place(zero, place), drive.map_throttle, drive.map_share))
            for place in MAP_PLACES
        ]
        for k, part in enumerate(_parts(shares)):
            add(f"share_{k}", "", part, (0.0, 1.0), 0.25, "throttle_range", alone=False)
        peak = max(drive.curve_torque_nm)
        for k, speed in enumerate(curve_radps(p, top_mps)):
            start = float(np.interp(speed, drive.curve_speed_radps, drive.curve_torque_nm))
            add(f"torque_{k}", "N m", start, (0.0, 6.0 * peak), peak, "drive", alone=False)
        for k, speed in enumerate((0.0, top_mps / p.rear.rolling_radius_m * drive.reduction)):
            start = float(np.interp(speed, drive.loss_speed_radps, drive.loss_torque_nm))
            add(f"loss_{k}", "N m", start, (0.0, 2.0 * peak), 0.3 * peak, "coasting", alone=False)
        full_s = 1.0 / drive.throttle_rate_ps if drive.throttle_rate_ps > 0.0 else 0.05
        add("full_s", "s", full_s, (0.0, 3.0), 0.3, "throttle_steps")
        line = drive.driveline
        if (
            line.layout == "axles"
            and max(line.front.lock_nms, line.rear.lock_nms) == 0.0
            and line.front.bias_full_radps > 0.0
        ):
            add(
                "turn_bias",
                "",
                max(line.front.bias, line.rear.bias),
                (1.0, 10.0),
                0.5,
                "turns",
                "drive",
                bends=True,
            )
    else:
        add("torque_scale", "", 1.0, (0.1, 5.0), 0.3, "drive")
        if isinstance(drive, Engine) and any(drive.loss_torque_nm):
            add("loss_scale", "", 1.0, (0.0, 5.0), 0.5, "coasting")
        else:
            resistance = p.rear.tyre.rolling_resistance
            add("resistance", "", resistance, (0.0, 0.5), max(0.5 * resistance, 0.01), "coasting")
    add("drive_delay", "s", drive.delay_s, (0.0, 1.0), 0.1, "throttle_changes")
    return found


def _steering(p: TwinParameters, levels: Sequence[float]) -> list[Quantity]:
    s, line = p.steering, p.powertrain.driveline
    angle_error = BIASED_ANGLE_ERROR if max(line.front.bias, line.rear.bias) > 1.0 else ANGLE_ERROR
    found = []

    def add(
        name: str,
        unit: str,
        start: float,
        bounds: tuple[float, float],
        sigma: float,
        *needs: Any,
        model_error: float = 0.0,
    ) -> None:
        found.append(
            Quantity(
                name=name, group="steering", unit=unit, start=start, lower=bounds[0],
                upper=bounds[1], sigma=sigma, needs=needs, by_speed=False, model_error=model_error,
            )
        )  # fmt: skip

    add("gain", "", 1.0, (0.2, 4.0), 0.6, "turns", model_error=angle_error)
    add("offset", "rad", s.offset_rad, (-0.3, 0.3), 0.02, "straight", model_error=OFFSET_ERROR_RAD)
    add(
        "steering_delay",
        "s",
        s.delay_s,
        (0.0, 1.5),
        0.15,
        "steering_changes",
        model_error=DELAY_ERROR_S,
    )
    if s.rate_radps > 0.0:
        # The twin's own value is always allowed.
        add(
            "steering_rate",
            "rad/s",
            s.rate_radps,
            (0.05, max(20.0, 2.0 * s.rate_radps)),
            0.5 * s.rate_radps,
            "steering_steps",
        )
    for level in levels[1:]:
        if s.map_command[0] <= level <= s.map_command[-1]:
            side = "left" if level > 0.0 else "right"
            add(_ratio_name(level), "", 1.0, (0.2, 3.0), RATIO_SIGMA, side, model_error=angle_error)
    return found


def _tyres(p: TwinParameters) -> list[Quantity]:
    """Return the tyre quantities. Their bounds keep the slope sufficient for the peak, with half
    the force left for the bend."""
    steepest = min(
        slope * slip / force
        for tyre in (p.front.tyre.lateral, p.rear.tyre.lateral)
        for slope, slip, force in zip(tyre.slope_n, tyre.peak_slip, tyre.peak_force_n, strict=True)
    )
    room = (steepest / LEAST_RISE) ** 0.5
    return [
        Quantity(
            name=name, group="tyres", unit="", start=1.0, sigma=0.5, by_speed=False,
            lower=min(1.0 / room, 0.9) if name == "lateral_slope" else 0.1,
            upper=10.0 if name == "lateral_slope" else max(room, 1.1),
            needs=("lateral",) if name == "lateral_slope" else ("sliding",),
        )
        for name in _TYRE
    ]  # fmt: skip


def _inertia() -> list[Quantity]:
    return [
        Quantity(
            name="yaw_inertia", group="inertia", unit="", start=1.0, lower=0.2, upper=5.0,
            sigma=0.3, needs=("yaw_jerk",), by_speed=False,
        )
    ]  # fmt: skip
