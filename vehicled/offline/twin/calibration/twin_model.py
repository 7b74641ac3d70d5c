"""Calibration model of the double-track plant."""

from collections.abc import Sequence
from math import cos, sin
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from sim_backend.plant.double_track.checks import check
from sim_backend.plant.double_track.constants import GRAVITY_MPS2
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import Differential, Motor, TwinParameters
from vehicled.core.arrays import Array
from vehicled.offline.twin.calibration import shaping, twin_quantities
from vehicled.offline.twin.calibration.quantity import CalibratedNumber, Quantity, Values
from vehicled.offline.twin.calibration.run import RunSegment, SimulatedMotion

FIT_STEPS_S = (0.002, 0.001)
JUDGE_STEP_S = 0.001
WARM_S = 2.0
"""Time before the start over which the actuators process commands, s."""
ROW_S = 0.02
FOLLOWS_S = 0.005
SMOOTH_S = 0.3
SHORT_MPS = 0.2
"""Speed error of the ideal drive at full throttle."""
SPEED_SPARE = 1.5
OPEN = Differential(
    lock_nms=0.0, bias=1.0, coast_bias=1.0, bias_begin_radps=0.0, bias_full_radps=1.0
)


class TwinModel:
    """Double-track plant as a
    :class:`vehicled.offline.twin.calibration.quantity.CalibrationModel`."""

    def __init__(self, parameters: TwinParameters) -> None:
        self.name = parameters.identity.name
        self._parameters = parameters
        self._tree: dict[str, Any] = msgspec.to_builtins(parameters)
        self.levels: tuple[float, ...] = ()
        """Commands that the drives steered with; the gain is that of the first."""
        self._top_mps = 1.0

    def quantities(self, levels: Sequence[float], top_mps: float) -> list[Quantity]:
        self.levels, self._top_mps = tuple(levels), top_mps
        return twin_quantities.quantities(self._parameters, self.levels, top_mps)

    def steps_s(self) -> tuple[float, float]:
        for step_s in FIT_STEPS_S:
            if not check(self._parameters, step_s) and not check(
                _at_speed(self._parameters, 1.0), step_s
            ):
                return step_s, JUDGE_STEP_S
        return JUDGE_STEP_S, JUDGE_STEP_S

    def with_values(self, values: Values) -> TwinParameters:
        """Return the vehicle's parameters with quantities in place of its own numbers."""
        if not values:
            return self._parameters
        changed = twin_quantities.changes(self._parameters, values, self.levels, self._top_mps)
        tree: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(self._tree))
        for key, value in changed.items():
            *path, last = key.split(".")
            table = tree
            for part in path:
                table = table[part]
            table[last] = value
        return msgspec.convert(tree, TwinParameters)

    def drive(
        self,
        piece: RunSegment,
        values: Values,
        step_s: float,
        *,
        at_speed: bool,
        level: float = 1.0,
    ) -> SimulatedMotion:
        parameters = self.with_values(values)
        steps = round(piece.seconds / step_s) + 2
        commands = np.zeros((steps, 3))
        commands[:, 0] = steering_rad(parameters, piece, step_s, steps)
        speed_mps = _measured(piece, step_s, steps) if at_speed else None
        if speed_mps is not None:
            top_mps = SPEED_SPARE * max(float(np.abs(speed_mps).max()), 0.5)
            parameters = _at_speed(parameters, top_mps)
            commands[:, 1] = speed_mps / top_mps
        else:
            commands[:, 1] = level * throttle(parameters, piece, step_s, steps)
            commands[:, 2] = braking(parameters, piece, step_s, steps)
        model = double_track(parameters, step_s)
        table = _driven(model, piece.start, commands, step_s)
        if speed_mps is not None:
            # Drive a second time with the ideal drive's deficit (slip and lag) added.
            got_mps = np.interp(step_s * np.arange(steps), table["t"], np.nan_to_num(table["vx"]))
            commands[:, 1] += np.clip(speed_mps - got_mps, -SHORT_MPS, SHORT_MPS) / top_mps
            table = _driven(model, piece.start, commands, step_s)
        return _rows(table, model.constants.rear.arm_m, piece.after_s())

    def figures(self, values: Values, sigma: Values) -> list[CalibratedNumber]:
        return twin_quantities.figures(self._parameters, values, sigma, self.levels, self._top_mps)


def _driven(
    model: DoubleTrack, start: tuple[float, float, float, float], commands: Array, step_s: float
) -> dict[str, Array]:
    x_m, y_m, yaw_rad, speed_mps = start
    behind_m = model.constants.rear.arm_m
    model.reset(x_m - behind_m * cos(yaw_rad), y_m - behind_m * sin(yaw_rad), yaw_rad, speed_mps)
    return model.run(commands, max(1, round(ROW_S / step_s)))


def steering_rad(parameters: TwinParameters, piece: RunSegment, step_s: float, steps: int) -> Array:
    """Return the angle (steps,) of the virtual front wheel."""
    s, run = parameters.steering, piece.run
    warm = round(WARM_S / step_s)
    command = shaping.held_means(
        run.command_s, run.steering, piece.begin_s - warm * step_s, step_s, warm + steps
    )
    command = shaping.beyond_dead_zone(command, s.dead_zone)
    target = np.clip(
        np.interp(command, s.map_command, s.map_angle_rad) + s.offset_rad,
        -s.max_wheel_rad,
        s.max_wheel_rad,
    )
    angle = shaping.rate_limited(target, s.rate_radps * step_s, float(target[0]))
    angle = shaping.servo(angle, s.bandwidth_radps, s.damping_ratio, step_s, float(target[0]))
    wheels = shaping.with_slack(angle, s.slack_rad, float(target[0]))
    return shaping.delayed(wheels, s.delay_s, step_s)[warm:]


def throttle(parameters: TwinParameters, piece: RunSegment, step_s: float, steps: int) -> Array:
    """Return the throttle (steps,) at the drive."""
    drive, run = parameters.powertrain, piece.run
    warm = round(WARM_S / step_s)
    commands_in = shaping.held_means(
        run.command_s, run.throttle, piece.begin_s - warm * step_s, step_s, warm + steps
    )
    if isinstance(drive, Motor):
        commands_in = shaping.rate_limited(commands_in, drive.throttle_rate_ps * step_s, 0.0)
        commands_in = np.sign(commands_in) * np.interp(
            np.abs(commands_in), drive.map_throttle, drive.map_share
        )
    return shaping.delayed(
        shaping.low_passed(commands_in, drive.lag_s, step_s, 0.0), drive.delay_s, step_s
    )[warm:]


def braking(parameters: TwinParameters, piece: RunSegment, step_s: float, steps: int) -> Array:
    """Return the brake (steps,) at the wheels."""
    brakes, run = parameters.brakes, piece.run
    warm = round(WARM_S / step_s)
    commands_in = shaping.held_means(
        run.command_s, run.brake, piece.begin_s - warm * step_s, step_s, warm + steps
    )
    return shaping.delayed(
        shaping.low_passed(commands_in, brakes.lag_s, step_s, 0.0), brakes.delay_s, step_s
    )[warm:]


def friction_of(parameters: TwinParameters) -> float:
    """Return the lateral grip over weight."""
    tyre = parameters.front.tyre
    return tyre.lateral.peak_force_n[0] / tyre.nominal_load_n


def weight_n(parameters: TwinParameters) -> float:
    """Return the weight of the complete vehicle."""
    return parameters.body.mass_kg * GRAVITY_MPS2


def _measured(piece: RunSegment, step_s: float, steps: int) -> Array:
    t, speed = piece.after_s(), piece.run.speed_mps[piece.rows]
    known = np.isfinite(speed)
    found: Array = np.interp(step_s * np.arange(steps), t[known], speed[known])
    # The noise of a measured speed would become forces of the drive, which bend the path.
    half = min(round(SMOOTH_S / step_s), (steps - 1) // 2)
    window = np.hanning(2 * half + 1)
    padded = np.pad(found, half, mode="reflect", reflect_type="odd")
    smooth: Array = np.convolve(padded, window / window.sum(), "valid")
    return smooth


def _at_speed(p: TwinParameters, top_mps: float) -> TwinParameters:
    """Return the vehicle with an ideal drive whose throttle is the wheel speed relative to
    ``top_mps``.

    The driveline stays, because its differentials push straight under power and into the turn while
    slowing down. Only motors on both sides would steer the vehicle; they are replaced by one at the
    rear axle.
    """
    line = p.powertrain.driveline
    if line.layout == "sides":
        line = replace(line, layout="axles", front_share=0.0, front=OPEN, rear=OPEN, centre=OPEN)
    radius_m = p.rear.rolling_radius_m
    most_nm = 10.0 * weight_n(p) * radius_m
    top_radps = top_mps / radius_m
    drive = Motor(
        mode="speed", curve_speed_radps=[-1e6, 1e6], curve_torque_nm=[most_nm, most_nm],
        peak_torque_nm=most_nm, regeneration=1.0, top_speed_radps=top_radps,
        speed_gain_nms=p.body.mass_kg * radius_m * radius_m / FOLLOWS_S, reduction=1.0,
        rotor_inertia_kgm2=0.0, loss_speed_radps=[0.0, 1e6], loss_torque_nm=[0.0, 0.0],
        hold_torque_nm=0.0, reverse_share=1.0, map_throttle=[0.0, 1.0], map_share=[0.0, 1.0],
        throttle_rate_ps=0.0, delay_s=0.0, lag_s=0.0, driveline=line,
    )  # fmt: skip
    return replace(p, powertrain=drive)


def _rows(table: dict[str, Array], behind_m: float, t_s: Array) -> SimulatedMotion:
    x = table["x"] + behind_m * np.cos(table["yaw"])
    y = table["y"] + behind_m * np.sin(table["yaw"])
    columns = (x, y, table["yaw"], table["vx"])
    return SimulatedMotion(
        *(np.interp(t_s, table["t"], np.nan_to_num(column, nan=1e3)) for column in columns)
    )
