"""The wandering position errors that the 4-DOF filter was tested with: a random walk in the second
derivative, pulled to zero.

Unjhawala et al. 2023. In the authors' code a step was made whenever somebody read the value, so
that the noise depended on the reader; here it advances with time.
"""

import numpy as np
from numpy.typing import NDArray

from sim_backend.sensors.gnss_errors import RandomWalkError
from vehicled.core.messages import CarrierSolution, FixType, GnssFix
from vehicled.paths.datum import LOT_17
from vehicled.profile.gnss import InnerWalk, RandomWalk, SimulatorWalk

FORMS: dict[str, RandomWalk] = {
    "inner": InnerWalk(),
    "simulator": SimulatorWalk(),
    "judge": RandomWalk(),
}
"""``inner``: five steps inside each 0.1 s, what ran indoors on the vehicle. ``simulator``: what
their simulator had then, and what gives the published 0.7 m after a minute or two. ``judge``: of
their later simulator, which settles near 0.12 m."""


class GpsNoise:
    """Error of a position over time, east and north. Starts at zero."""

    def __init__(self, form: RandomWalk, rng: np.random.Generator) -> None:
        self._walk = RandomWalkError(form, 0.0, lambda: [*rng.standard_normal(2).tolist(), 0.0])

    def at(self, t_s: float) -> NDArray[np.float64]:
        """Error (2,) in m at a time, which may not go back; held between the steps of the walk."""
        return np.array(self._walk.step(t_s, [])[3:5])


def fix_at(t_ns: int, east_m: float, north_m: float, sigma_m: float) -> GnssFix:
    """A fix on the map of ``LOT_17`` whose receiver says ``sigma_m`` of itself per axis, and twice
    that upward."""
    latitude, longitude, height = LOT_17.to_geodetic(east_m, north_m, 0.0)
    variance = sigma_m**2
    covariance = (variance, 0.0, 0.0, 0.0, variance, 0.0, 0.0, 0.0, 4.0 * variance)
    return GnssFix(
        t_ns, t_ns, latitude, longitude, height, position_covariance_m2=covariance,
        fix_type=FixType.FIX_3D, carrier=CarrierSolution.NONE,
    )  # fmt: skip
