"""Double-track vehicle whose step is machine code: the bits of :class:`.model.DoubleTrack` at a
tenth of its cost."""

from ctypes import addressof

import numpy as np
from numpy.typing import NDArray

from sim_backend.plant.double_track.c_source import (
    DIVERGED,
    FINE,
    LIMITS_AT,
    REFUSED,
    SURFACE_AT,
    block,
    c_source,
    numbers,
)
from sim_backend.plant.double_track.equations import step
from sim_backend.plant.double_track.ground import FLAT, Ground
from sim_backend.plant.double_track.model import DoubleTrack, refusal, rest
from sim_backend.plant.double_track.native import Native, doubles, native_step
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.double_track.state import Outputs, PlantState, Surface

_STATES = len(PlantState._fields)
_ENGINE = PlantState._fields.index("engine_radps")


def double_track(
    parameters: TwinParameters, step_s: float = 1e-3, ground: Ground = FLAT
) -> DoubleTrack:
    """Return a vehicle with machine code if available, else the plain one. Raises like
    :class:`.model.DoubleTrack`."""
    plain = DoubleTrack(parameters, step_s, ground)
    native = native_step(plain.constants, c_source, step, rest(plain.constants))
    return plain if native is None else NativeDoubleTrack(parameters, step_s, ground, native)


def _again(
    parameters: TwinParameters,
    step_s: float,
    ground: Ground,
    newest: tuple[PlantState, Outputs, Surface, bool],
    rear_ratio: float,
) -> DoubleTrack:
    """Return a copied or unpickled vehicle, with a block and machine code of its own or, on a
    machine without, the plain step."""
    vehicle = double_track(parameters, step_s, ground)
    vehicle.state, vehicle.outputs, vehicle.under, vehicle.diverged = newest
    vehicle.turn_rear(rear_ratio)
    return vehicle


class NativeDoubleTrack(DoubleTrack):
    """:class:`.model.DoubleTrack` in machine code; ``state`` and ``outputs`` are built on
    access."""

    def __init__(
        self, parameters: TwinParameters, step_s: float, ground: Ground, native: Native
    ) -> None:
        # The base class sets the start state, which needs the block.
        self._block = doubles((0.0,) * SURFACE_AT)
        super().__init__(parameters, step_s, ground)
        bounds = parameters.bounds
        whole = block(
            self.constants, self.state, self.under, bounds.speed_limit_mps, bounds.roll_limit_rad
        )
        self._block = doubles(whole)
        self._place = addressof(self._block)
        self._native = native
        self.reset()

    def __reduce__(self) -> tuple[object, ...]:
        newest = self.state, self.outputs, self.under, self.diverged
        return _again, (
            self.parameters,
            self.constants.step_s,
            FLAT if self._flat is not None else self._ground,
            newest,
            self.constants.rear_ratio,
        )

    @property
    def state(self) -> PlantState:
        """State at the newest grid point."""
        return PlantState._make(self._block[:_STATES])

    @state.setter
    def state(self, state: PlantState) -> None:
        self._block[:_STATES] = [*state]

    @property
    def outputs(self) -> Outputs:
        """Outputs of the newest step."""
        return Outputs._make(self._block[_STATES:SURFACE_AT])

    @outputs.setter
    def outputs(self, outputs: Outputs) -> None:
        self._block[_STATES:SURFACE_AT] = [*outputs]

    @property
    def engine_radps(self) -> float:
        return self._block[_ENGINE]

    def turn_rear(self, ratio: float) -> None:
        super().turn_rear(ratio)
        own = [*numbers(self.constants)]
        self._block[-len(own) :] = [*own]

    def step(self, steer_rad: float, throttle: float, brake: float) -> bool:
        if self._flat is None:
            self._block[SURFACE_AT:LIMITS_AT] = [*self.under]
        end = DIVERGED
        if not self.diverged:
            end = self._native.advance(self._place, steer_rad, throttle, brake)
        if end == REFUSED:
            raise ValueError(refusal(steer_rad, throttle, brake))
        self.diverged = end == DIVERGED
        if self._flat is None and not self.diverged:
            self.under = self._surface()
        return end == FINE

    def _run(self, commands: NDArray[np.float64], every: int, out: NDArray[np.float64]) -> None:
        if self._flat is None:
            super()._run(commands, every, out)
        elif not self.diverged:
            steps = self._native.run(
                self._place, commands.ctypes.data, len(commands), every, out.ctypes.data
            )
            self.diverged = steps < len(commands)
