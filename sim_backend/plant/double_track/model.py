"""Double-track vehicle on floats: the equations with a state, flags and a loop."""

from math import isfinite

import numpy as np
from numpy.typing import NDArray

from sim_backend.plant.double_track import equations
from sim_backend.plant.double_track.checks import ParameterError, check
from sim_backend.plant.double_track.constants import Constants, EngineConstants, constants
from sim_backend.plant.double_track.ground import FLAT, Ground, flat_surface, surface
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.double_track.state import Outputs, PlantState, Surface

COLUMNS = (
    *(
        "x",
        "y",
        "yaw",
        "vx",
        "vy",
        "yaw_rate",
        "roll",
        "roll_rate",
        "pitch",
        "pitch_rate",
        "tip",
        "tip_rate",
    ),
    *("w_fl", "w_fr", "w_rl", "w_rr"),
    *("carcass_x_fl", "carcass_x_fr", "carcass_x_rl", "carcass_x_rr"),
    *("carcass_y_fl", "carcass_y_fr", "carcass_y_rl", "carcass_y_rr"),
    *("proper_x", "proper_y", "engine_speed", "gear", "since_shift", "standing", "still"),
    *("ax", "ay", "yaw_acceleration", "roll_acceleration", "pitch_acceleration"),
    *("fz_fl", "fz_fr", "fz_rl", "fz_rr"),
    *("fx_fl", "fx_fr", "fx_rl", "fx_rr"),
    *("fy_fl", "fy_fr", "fy_rl", "fy_rr"),
    "drive_torque",
)
"""Columns of :meth:`DoubleTrack.run`: fields of the state, then of the outputs."""


NEVER_S = -1e9
"""Standing time of a vehicle that has not driven yet: it begins in D."""


def rest(
    c: Constants,
    x_m: float = 0.0,
    y_m: float = 0.0,
    yaw_rad: float = 0.0,
    speed_mps: float = 0.0,
    gear: int = 0,
) -> PlantState:
    """Return the state of a vehicle that rolls straight ahead or stands. Gear 0: chosen by the
    speed."""
    x_m, y_m, yaw_rad, speed_mps = float(x_m), float(y_m), float(yaw_rad), float(speed_mps)
    front, rear = speed_mps / c.front.rolling_radius_m, speed_mps / c.rear.rolling_radius_m
    engine = 0.0
    chosen = 1.0
    if isinstance(c.drive, EngineConstants):
        shaft = c.front_share * front + c.rear_share * rear
        chosen = float(gear) if gear else 1.0
        while (
            not gear
            and chosen < c.drive.gears
            and shaft / c.drive.ratios[int(chosen)] > c.drive.up_radps[int(chosen)]
        ):
            chosen += 1.0
        engine = abs(shaft / c.drive.ratios[int(chosen)])
    return PlantState(
        *(x_m, y_m, yaw_rad, speed_mps, 0.0, 0.0),
        *(0.0, 0.0, 0.0, 0.0, 0.0, 0.0),
        *(front, front, rear, rear),
        *(0.0, 0.0, 0.0, 0.0),
        *(0.0, 0.0, 0.0, 0.0),
        *(0.0, 0.0),
        *(engine, chosen, 1e3, NEVER_S, 0.0),
    )


def refusal(steer_rad: float, throttle: float, brake: float) -> str:
    """Return the reason why a step is refused."""
    return (
        f"steer_rad {steer_rad}, throttle {throttle}, brake {brake}: a command is not a finite "
        "number"
    )


class DoubleTrack:
    """One vehicle. ``state``, ``outputs`` and ``under``, the ground below it, belong to the newest
    grid point."""

    def __init__(
        self, parameters: TwinParameters, step_s: float = 1e-3, ground: Ground = FLAT
    ) -> None:
        """Start at standstill at the origin. Raises
        :class:`sim_backend.plant.double_track.checks.ParameterError` with all problems.
        """
        problems = check(parameters, step_s)
        if problems:
            raise ParameterError(problems)
        self.parameters = parameters
        self.constants = constants(parameters, step_s)
        self._limit_mps = parameters.bounds.speed_limit_mps
        self._roll_limit_rad = parameters.bounds.roll_limit_rad
        self._ground = ground
        self._flat = flat_surface() if ground is FLAT else None
        self.reset()

    def reset(
        self,
        x_m: float = 0.0,
        y_m: float = 0.0,
        yaw_rad: float = 0.0,
        speed_mps: float = 0.0,
        gear: int = 0,
    ) -> None:
        """Place the centre of mass, rolling straight ahead without slip. ``gear`` 0 is chosen by
        the speed."""
        self.state = rest(self.constants, x_m, y_m, yaw_rad, speed_mps, gear)
        self.under = under = self._surface()
        if under.forward_mps2 or under.lateral_mps2:
            self.state = self.state._replace(
                forward_mps2=-under.forward_mps2, lateral_mps2=-under.lateral_mps2
            )
        half = 0.5 * self.constants.mass_kg * under.down_mps2
        front = half * self.constants.front.weight_share
        rear = half * self.constants.rear.weight_share
        self.outputs = Outputs(*(0.0,) * 5, front, front, rear, rear, *(0.0,) * 9)
        self.diverged = False
        """True if the state left all bounds or is NaN; the vehicle then keeps its last state."""

    def turn_rear(self, ratio: float) -> None:
        """Change the angle of the rear wheels over that of the front wheels."""
        self.constants = self.constants._replace(rear_ratio=ratio)

    def step(self, steer_rad: float, throttle: float, brake: float) -> bool:
        """Advance one grid step: angle of the virtual front wheel, throttle -1..1, brake 0..1.
        Return False if the vehicle diverged or rolled over. Raises ValueError for commands that are
        not finite.
        """
        if not isfinite(steer_rad + throttle + brake):
            raise ValueError(refusal(steer_rad, throttle, brake))
        if self.diverged:
            return False
        state, outputs = equations.step(
            self.constants, self.state, self.under, steer_rad, throttle, brake
        )
        speed = (
            abs(state.forward_mps)
            + abs(state.lateral_mps)
            + abs(state.yaw_rate_radps)
            + abs(state.roll_rate_radps)
        )
        if speed < self._limit_mps:
            self.state, self.outputs = state, outputs
            self.under = self._surface()
            return not abs(state.roll_rad + state.tip_rad) >= self._roll_limit_rad
        self.diverged = True
        return False

    @property
    def engine_radps(self) -> float:
        """Speed of the engine or motor."""
        return self.state.engine_radps

    @property
    def rolled_over(self) -> bool:
        """True beyond the roll limit of its bounds."""
        return abs(self.state.roll_rad + self.state.tip_rad) >= self._roll_limit_rad

    def run(self, commands: NDArray[np.float64], every: int = 1) -> dict[str, NDArray[np.float64]]:
        """Run steps along ``commands`` (n, 3): steer_rad, throttle, brake. Return arrays (ceil(n /
        every),) by name: "t", :data:`COLUMNS`, "delta".

        Row k is the state before step k x every, with the outputs of that step. Rows are NaN from
        the step that diverges on. Raises ValueError for commands that are not finite.
        """
        commands = np.ascontiguousarray(commands, dtype=np.float64)
        if commands.ndim != 2 or commands.shape[1] != 3 or not np.isfinite(commands).all():
            raise ValueError(
                "commands must be finite and of shape (n, 3): steer_rad, throttle, brake"
            )
        rows = -(-len(commands) // every)
        out = np.full((rows, len(COLUMNS)), np.nan)
        self._run(commands, every, out)
        columns = {name: out[:, index] for index, name in enumerate(COLUMNS)}
        return {
            "t": self.constants.step_s * every * np.arange(rows),
            **columns,
            "delta": commands[::every, 0],
        }

    def _run(self, commands: NDArray[np.float64], every: int, out: NDArray[np.float64]) -> None:
        for index, (steer_rad, throttle, brake) in enumerate(commands.tolist()):
            before = self.state
            self.step(steer_rad, throttle, brake)
            if self.diverged:
                break
            if index % every == 0:
                out[index // every] = (*before, *self.outputs)

    def _surface(self) -> Surface:
        return self._flat or surface(self._ground, self.constants, self.state)
