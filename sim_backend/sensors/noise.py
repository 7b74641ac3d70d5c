"""Noise: one random stream per entity, drawn in blocks, advancing only with the samples of that
entity."""

from math import exp, sqrt
from zlib import crc32

import numpy as np
import numpy.typing as npt

BLOCK = 256
"""Rows drawn at a time. It affects cost only, never values."""


def stream(seed: int, entity: str) -> np.random.Generator:
    """Return the generator of one entity. It depends on the run's seed and the entity's name
    only."""
    return np.random.Generator(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(crc32(entity.encode()),)))
    )


class Normals:
    """Standard normal rows of ``width`` numbers."""

    def __init__(self, generator: np.random.Generator, width: int) -> None:
        self._generator = generator
        self._width = width
        self._rows: list[list[float]] = []

    def __call__(self) -> list[float]:
        """Return the next row."""
        if not self._rows:
            block: npt.NDArray[np.float64] = self._generator.standard_normal((BLOCK, self._width))
            self._rows = block[::-1].tolist()
        return self._rows.pop()


class GaussMarkov:
    """First-order Gauss-Markov process on a fixed grid, exactly discretised and stationary from the
    first sample.

    ``w' = phi w + sigma sqrt(1 - phi^2) n`` with ``phi = exp(-dt / tau)``: standard deviation
    sigma, autocorrelation exp(-t / tau). Brown and Hwang 2012, section 5.3. The caller passes the
    unit normals.
    """

    def __init__(self, sigma: float, tau_s: float, dt_s: float, start: float) -> None:
        """``start`` is a unit normal, for a stationary start."""
        phi = exp(-dt_s / tau_s)
        self._phi = phi
        self._drive = sigma * sqrt(1.0 - phi * phi)
        self.value = sigma * start

    def step(self, normal: float) -> float:
        """Advance by one interval and return the value."""
        self.value = self._phi * self.value + self._drive * normal
        return self.value
