"""Calibration model of the 4-DOF plant in a profile's ``[sim]``."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from msgspec.structs import replace

from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import StartPose
from vehicled.core.arrays import Array
from vehicled.offline.twin.calibration import shaping
from vehicled.offline.twin.calibration.quantity import (
    CalibratedNumber,
    Group,
    Needs,
    Quantity,
    Values,
)
from vehicled.offline.twin.calibration.run import RunSegment, SimulatedMotion
from vehicled.profile.schema import Profile, Sim

STEP_S = 0.01
WARM_S = 2.0
DELAY_ERROR_S = 0.005
"""Half a row of usual commands."""
_KEYS = {
    "gain": "steering.gain_rad",
    "offset": "steering.offset_rad",
    "steering_delay": "steering.delay_s",
    "steering_rate": "steering.rate_radps",
    "torque": "drive.stall_torque_nm",
    "no_load": "drive.no_load_speed_radps",
    "friction": "drive.friction_nm",
    "drive_delay": "drive.delay_s",
}


class FourDofModel:
    """4-DOF plant as a :class:`vehicled.offline.twin.calibration.quantity.CalibrationModel`."""

    def __init__(self, profile: Profile) -> None:
        self.name = profile.name
        self._sim = profile.sim

    def quantities(self, levels: Sequence[float], top_mps: float) -> list[Quantity]:

        def of(
            name: str, group: Group, unit: str, upper: float, sigma: float, *needs: Needs
        ) -> Quantity:
            start = float(_get(self._sim, _KEYS[name]))
            if name == "offset":
                lower = -upper
            elif "delay" in name or name == "friction":
                lower = 0.0
            else:
                # The profile's own value is always allowed.
                lower, upper = 0.02 * start, max(upper, 2.0 * start)
            return Quantity(
                name=name, group=group, unit=unit, start=start, lower=lower, upper=upper,
                sigma=sigma, needs=needs, by_speed=group == "powertrain",
                model_error=DELAY_ERROR_S if name == "steering_delay" else 0.0,
            )  # fmt: skip

        drive, steering = self._sim.drive, self._sim.steering
        assert drive is not None, "the profile's own rules see to it"
        assert steering is not None, "the profile's own rules see to it"
        stall, free = drive.stall_torque_nm, drive.no_load_speed_radps
        return [
            of("gain", "steering", "rad", 1.4, 0.2, "turns"),
            of("offset", "steering", "rad", 0.3, 0.02, "straight"),
            of("steering_delay", "steering", "s", 1.5, 0.15, "steering_changes"),
            of(
                "steering_rate",
                "steering",
                "rad/s",
                20.0,
                0.5 * steering.rate_radps,
                "steering_steps",
            ),
            of("torque", "powertrain", "N m", 20.0 * stall, stall, "drive"),
            of("no_load", "powertrain", "rad/s", 20.0 * free, free, "throttle_range"),
            of("friction", "powertrain", "N m", 5.0 * stall, 0.3 * stall, "coasting"),
            of("drive_delay", "powertrain", "s", 1.0, 0.1, "throttle_changes"),
        ]

    def steps_s(self) -> tuple[float, float]:
        return STEP_S, STEP_S

    def drive(
        self,
        piece: RunSegment,
        values: Values,
        step_s: float,
        *,
        at_speed: bool,
        level: float = 1.0,
    ) -> SimulatedMotion:
        sim = self._with(values)
        steps = round(piece.seconds / step_s) + 2
        wheel = _wheel(sim, piece, step_s, steps)
        rows = np.arange(steps, dtype=np.float64) * step_s
        assert sim.drive is not None, "the profile's own rules see to it"
        if at_speed:
            path = _kinematic(piece, float(sim.wheelbase_m or 1.0), wheel, rows, step_s)
        else:
            held_values, brake = (
                _held(piece, column, step_s, steps, sim.drive.delay_s)
                for column in ("throttle", "brake")
            )
            path = _driven(sim, piece, step_s, (level * held_values, brake, wheel))
        after_s = piece.after_s()
        return SimulatedMotion(*(np.interp(after_s, rows, column) for column in path))

    def figures(self, values: Values, sigma: Values) -> list[CalibratedNumber]:
        found = [
            CalibratedNumber(
                key=f"sim.{_KEYS[name]}",
                value=value,
                sigma=sigma[name],
                before=_get(self._sim, _KEYS[name]),
            )
            for name, value in values.items()
        ]
        key = "steering.max_wheel_rad"
        before, most_rad = _get(self._sim, key), _get(self._with(values), key)
        if most_rad != before:
            found.append(
                CalibratedNumber(
                    key=f"sim.{key}", value=most_rad, sigma=sigma["gain"], before=before
                )
            )
        return found

    def _with(self, values: Values) -> Sim:
        sim = self._sim
        steering, drive = sim.steering, sim.drive
        assert steering is not None, "the profile's own rules see to it"
        assert drive is not None, "the profile's own rules see to it"
        keys = {
            _KEYS[name].split(".")[1]: value
            for name, value in values.items()
            if _KEYS[name].startswith("steering")
        }
        if "gain_rad" in keys:
            # The mechanical stop must not cut off a larger gain.
            keys["max_wheel_rad"] = max(steering.max_wheel_rad, min(keys["gain_rad"] + 0.05, 1.4))
        own = {
            _KEYS[name].split(".")[1]: value
            for name, value in values.items()
            if _KEYS[name].startswith("drive")
        }
        return replace(sim, steering=replace(steering, **keys), drive=replace(drive, **own))


def _get(sim: Sim, key: str) -> Any:
    table, name = key.split(".")
    return getattr(getattr(sim, table), name)


def _held(piece: RunSegment, column: str, step_s: float, steps: int, delay_s: float) -> Array:
    run = piece.run
    warm = round(WARM_S / step_s)
    held_values = shaping.held_means(
        run.command_s, getattr(run, column), piece.begin_s - warm * step_s, step_s, warm + steps
    )
    return shaping.delayed(held_values, delay_s, step_s)[warm:]


def _wheel(sim: Sim, piece: RunSegment, step_s: float, steps: int) -> Array:
    s, run = sim.steering, piece.run
    assert s is not None, "the profile's own rules see to it"
    warm = round(WARM_S / step_s)
    held_values = shaping.held_means(
        run.command_s, run.steering, piece.begin_s - warm * step_s, step_s, warm + steps
    )
    target = s.offset_rad + s.gain_rad * shaping.beyond_dead_zone(held_values, s.dead_zone)
    target = np.clip(target, -s.max_wheel_rad, s.max_wheel_rad)
    angle = shaping.rate_limited(target, s.rate_radps * step_s, float(target[0]))
    return shaping.delayed(
        shaping.with_slack(angle, s.slack_rad, float(target[0])), s.delay_s, step_s
    )[warm:]


def _kinematic(
    piece: RunSegment, wheelbase_m: float, wheel: Array, rows_s: Array, step_s: float
) -> tuple[Array, ...]:
    speed = piece.run.speed_mps[piece.rows]
    known = np.isfinite(speed)
    v = np.interp(rows_s, piece.after_s()[known], speed[known])
    x, y, yaw, _ = piece.start
    heading = yaw + step_s * np.concatenate(
        [[0.0], np.cumsum((v * np.tan(wheel) / wheelbase_m)[:-1])]
    )
    along, across = (
        step_s * np.concatenate([[0.0], np.cumsum((v * f(heading))[:-1])]) for f in (np.cos, np.sin)
    )
    return x + along, y + across, heading, v


def _driven(
    sim: Sim, piece: RunSegment, step_s: float, commands: tuple[Array, Array, Array]
) -> tuple[Array, ...]:
    x, y, yaw, speed_mps = piece.start
    plant = FourDof(sim, StartPose(x, y, yaw), step_s, speed_mps)
    out = np.empty((len(commands[0]), 4))
    for k, (throttle, brake, wheel) in enumerate(
        zip(*(column.tolist() for column in commands), strict=True)
    ):
        motion = plant.motion()
        out[k] = motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps
        plant.step(throttle, brake, wheel)
    return tuple(out.T)
