"""The wandering position errors that the 4-DOF filter was tested with: a random walk in the second derivative, pulled to zero.

Per axis and step: a ~ N(mean(p), sigma), clipped; v += a, clipped; p += v. Unjhawala et al. 2023. In the authors' code a step was
made whenever somebody read the value, so that the noise depended on the reader; here it advances with time.
"""

from math import floor

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from vehicled.messages import CarrierSolution, FixType, GnssFix
from vehicled.paths.datum import LOT_17

Array = NDArray[np.float64]


class NoiseForm(Struct, frozen=True):
    """One form of the walk. Lengths in m; ``step_s`` scales acceleration and speed where those are per second."""

    rate_hz: float
    sigma: float
    """Sigma of the acceleration drawn at each step."""
    pull: float
    """Largest mean of it, over sigma."""
    pull_range_m: float
    """Error at which the mean is largest; it is linear below."""
    max_acceleration: float
    max_speed: float
    step_s: float = 1.0
    """1 where speed and acceleration are counted per step."""


FORMS = {
    "inner": NoiseForm(50.0, 0.016289174978068626, 0.15, 0.25, 5.46875e-4, 0.005),
    "simulator": NoiseForm(1.0, 0.016289174978068626, 0.15, 0.25, 0.005, 0.03),
    "judge": NoiseForm(100.0, 0.047, 0.2, 1.0, 0.152, 0.016, 0.01),
}
"""``inner``: five steps inside each 0.1 s, what ran indoors on the vehicle. ``simulator``: what their simulator had then, and what
gives the published 0.7 m after a minute or two. ``judge``: of their later simulator, which settles near 0.12 m."""


class GpsNoise:
    """Error of a position over time. Starts at zero."""

    def __init__(self, form: NoiseForm, rng: np.random.Generator) -> None:
        self._form = form
        self._rng = rng
        self._steps = 0
        self._p = np.zeros(2)
        self._v = np.zeros(2)

    def at(self, t_s: float) -> Array:
        """Error (2,) in m at a time, which may not go back; held between the steps of the walk."""
        due = floor(t_s * self._form.rate_hz + 1e-9)
        while self._steps < due:
            self._advance()
        return self._p.copy()

    def _advance(self) -> None:
        f = self._form
        mean = -f.pull * f.sigma * np.clip(self._p / f.pull_range_m, -1.0, 1.0)
        a = np.clip(self._rng.normal(mean, f.sigma), -f.max_acceleration, f.max_acceleration) * f.step_s
        self._v = np.clip(self._v + a, -f.max_speed, f.max_speed)
        self._p = self._p + self._v * f.step_s
        self._steps += 1


def fix_at(t_ns: int, east_m: float, north_m: float, sigma_m: float) -> GnssFix:
    """A fix on the map of ``LOT_17`` whose receiver says ``sigma_m`` of itself per axis, and twice that upward."""
    latitude, longitude, height = LOT_17.to_geodetic(east_m, north_m, 0.0)
    variance = sigma_m**2
    covariance = (variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, 4.0 * variance)
    return GnssFix(
        t_ns, t_ns, latitude, longitude, height, position_covariance_m2=covariance, fix_type=FixType.FIX_3D,
        carrier=CarrierSolution.NONE,
    )  # fmt: skip
