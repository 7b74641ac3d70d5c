"""A receiver of the twin on its own, and its fixes as numbers."""

from typing import Any

import numpy as np

from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from vehicled.core.arrays import Array
from vehicled.core.messages import GnssFix
from vehicled.paths.datum import Datum
from vehicled.profile.gnss import GnssModel

START = 1_000_000_000
DATUM = Datum.from_degrees(43.07, -89.41, 230.0)
REST = Motion(0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
QUIET: dict[str, Any] = {
    "sigma_m": 0.0,
    "walk_sigma_m": 0.0,
    "velocity_sigma_mps": 0.0,
    "latency_jitter_ms": 0.0,
}


def receiver(
    seed: int = 1, lever: tuple[float, float, float] = (0.0, 0.0, 0.0), **keys: Any
) -> Gnss:
    return Gnss(GnssModel(**keys), lever, DATUM, seed, "gnss/GnssFix", START, 10**18)


def fixes(gnss: Gnss, n: int, motion: Motion = REST) -> list[GnssFix]:
    interval_ns = round(1e9 / gnss.rate_hz)
    return [gnss.sample(START + k * interval_ns, motion)[1] for k in range(1, n + 1)]


def enu(found: list[GnssFix]) -> Array:
    return np.array([DATUM.to_enu(f.latitude_rad, f.longitude_rad, f.height_m) for f in found])


def variances(fix: GnssFix) -> list[float]:
    return [fix.position_covariance_m2[k] for k in (0, 4, 8)]
