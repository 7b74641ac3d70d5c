"""Batch of double-track vehicles: the equations on arrays, one element per vehicle."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sim_backend.plant.double_track import backends
from sim_backend.plant.double_track.checks import ParameterError, check
from sim_backend.plant.double_track.constants import constants
from sim_backend.plant.double_track.ground import flat_surface
from sim_backend.plant.double_track.model import rest
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.double_track.state import State, Surface

Floats = NDArray[np.float64]


class DoubleTrackBatch:
    """Vehicles on level ground with one kind of powertrain. ``state`` and ``outputs`` hold arrays (n,)."""

    def __init__(self, parameters: Sequence[TwinParameters], step_s: float = 1e-3, friction: float = 1.0) -> None:
        """Start at standstill at the origin. ``friction`` scales the tyre forces. Raises ParameterError with keys prefixed by the
        vehicle's number, and ValueError if the powertrains differ in kind or the list is empty.
        """
        problems = [(f"[{index}].{key}", why) for index, one in enumerate(parameters) for key, why in check(one, step_s)]
        if problems:
            raise ParameterError(problems)
        self._each = [constants(one, step_s) for one in parameters]
        kinds = {backends.drive_name(c) for c in self._each}
        if len(kinds) != 1:
            raise ValueError(f"all vehicles of a batch need the same kind of powertrain, not {sorted(kinds) or 'none'}")
        self.constants = backends.batch_constants(self._each)
        self._step = backends.batch_step(kinds.pop())
        self._limit_mps = np.array([one.bounds.speed_limit_mps for one in parameters])
        self._roll_limit_rad = np.array([one.bounds.roll_limit_rad for one in parameters])
        self._surface = _arrays(Surface, ([value] * len(self._each) for value in flat_surface(friction)))
        self.reset()

    def reset(
        self,
        x_m: float | Floats = 0.0,
        y_m: float | Floats = 0.0,
        yaw_rad: float | Floats = 0.0,
        speed_mps: float | Floats = 0.0,
        gear: int = 0,
    ) -> None:
        """Reset like :meth:`sim_backend.plant.double_track.model.DoubleTrack.reset`; a number applies to all, an array (n,) to
        each.
        """
        size = len(self._each)
        columns = [np.broadcast_to(np.asarray(value, dtype=np.float64), size) for value in (x_m, y_m, yaw_rad, speed_mps)]
        rows = [rest(c, x, y, yaw, speed, gear) for c, x, y, yaw, speed in zip(self._each, *columns, strict=True)]
        self.state = _arrays(State, zip(*rows, strict=True))
        self.outputs: Any = None
        """Outputs of the newest step; None before the first one."""
        self.diverged = np.zeros(size, dtype=np.bool_)

    def step(self, steer_rad: Floats, throttle: Floats, brake: Floats) -> None:
        """Advance one grid step with arrays (n,). Diverged vehicles keep their last state. Raises ValueError for commands that are
        not finite.
        """
        if not (np.isfinite(steer_rad).all() and np.isfinite(throttle).all() and np.isfinite(brake).all()):
            raise ValueError("a command is not a finite number")
        with np.errstate(all="ignore"):  # Branches not taken may overflow; their values are discarded.
            state, self.outputs = self._step(self.constants, self.state, self._surface, steer_rad, throttle, brake)
            speed = abs(state.forward_mps) + abs(state.lateral_mps) + abs(state.yaw_rate_radps) + abs(state.roll_rate_radps)
            self.diverged |= ~(speed < self._limit_mps)
        if self.diverged.any():
            state = _arrays(State, (np.where(self.diverged, old, new) for old, new in zip(self.state, state, strict=True)))
        self.state = state

    @property
    def rolled_over(self) -> NDArray[np.bool_]:
        """True for vehicles beyond the roll limit of their bounds."""
        over: NDArray[np.bool_] = abs(self.state.roll_rad + self.state.tip_rad) >= self._roll_limit_rad
        return over


def _arrays(kind: Any, columns: Any) -> Any:
    return kind(*(np.asarray(column, dtype=np.float64) for column in columns))
