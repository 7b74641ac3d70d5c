"""Coverage of the intervals of ``vehicled sensors fit``, on simulated sensors whose numbers are
known.

    python bench/sensor_fits.py [--draws 40]

Receivers: laps of 150 s and stands of an hour with the shipped numbers of ``recorded``. Gyros:
stands of ten minutes and two hours with white noise and a walk of the rate or bias instability.
Prints for each number the true value, the median of the fits, and the part of the draws whose
interval from 5 to 95 % holds the true value, which should be 0.90.
"""

import argparse

import numpy as np

from sim_backend.sensors.gnss_errors import RecordedGnssError
from sim_backend.sensors.noise import Normals, stream
from vehicled.core.arrays import Array
from vehicled.offline.sensors import positions
from vehicled.offline.sensors.allan import TERMS, Terms, allan, fit_with_doubt, samples
from vehicled.offline.sensors.positions import Form
from vehicled.offline.studies.statistics import proportion
from vehicled.profile.gnss import GnssModel, RecordedError

PERIOD_S = 0.25
PARTS = ("white_m", "wander_m", "wander_s", "smooth_m", "smooth_s")
UNIT_HZ = 50.0
UNITS = {"walk": Terms(0.0, 2e-4, 0.0, 2e-5), "instability": Terms(0.0, 2e-4, 5e-5, 0.0)}
"""Gyros of small units: white noise in rad/s per root Hz, and a walk of the rate in rad/s per root
s, or bias instability."""


def errors(length_s: float, seed: int, count: int) -> list[Array]:
    """Return the errors of runs with the shipped numbers."""
    found = []
    for k in range(count):
        model = GnssModel(model="recorded", rate_hz=1.0 / PERIOD_S)
        process = RecordedGnssError(model, PERIOD_S, 1.0, Normals(stream(seed, f"run/{k}"), 12))
        steps = np.array([process.step(0.0, []) for _ in range(int(length_s / PERIOD_S))])
        found.append(steps[:, :2] + steps[:, 3:5])
    return found


def receivers(draws: int, length_s: float, count: int) -> None:
    """Print the coverage of the numbers of a receiver."""
    table = RecordedError()
    true = Form(
        table.white_sigma_m,
        table.wander_sigma_m,
        table.wander_time_s,
        table.smooth_sigma_m,
        table.smooth_time_s,
    )
    found = [
        positions.growth_of(errors(length_s, seed, count), PERIOD_S, seed)
        for seed in range(1, draws + 1)
    ]
    print(f"receiver, {count} runs of {length_s:.0f} s")
    for name in (*PARTS, "sigma_m"):
        if name == "wander_s" and found[0].wander_fixed:
            continue
        values = [getattr(each.form, name) for each in found]
        inside = sum(
            getattr(each.low, name) <= getattr(true, name) <= getattr(each.high, name)
            for each in found
        )
        _print(name, getattr(true, name), values, None if name == "sigma_m" else inside)


def units(draws: int, length_s: float, unit: str) -> None:
    """Print the coverage of the terms of a gyro."""
    found = []
    for seed in range(1, draws + 1):
        chance = np.random.default_rng(seed)
        count = int(length_s * UNIT_HZ)
        values = samples(UNITS[unit], count, UNIT_HZ, chance)
        found.append(fit_with_doubt(allan(values, UNIT_HZ), count, UNIT_HZ))
    print(f"gyro with {unit}, {length_s:.0f} s")
    for name in TERMS:
        true = getattr(UNITS[unit], name)
        inside = sum(getattr(low, name) <= true <= getattr(high, name) for _, low, high in found)
        _print(name, true, [getattr(best, name) for best, _, _ in found], inside)


def _print(name: str, true: float, values: list[float], inside: int | None) -> None:
    covered = ""
    if inside is not None:
        low, high = proportion(inside, len(values))
        covered = f"  covered {inside / len(values):.2f} ({low:.2f} to {high:.2f})"
    spread = np.quantile(values, [0.05, 0.95])
    print(
        (
            f"  {name:12} true {true:8.3g}  median {np.median(values):8.3g}  fits {spread[0]:.3g} "
            f"to {spread[1]:.3g}{covered}"
        ),
        flush=True,
    )


def main() -> None:
    """Print all tables."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--draws", type=int, default=40)
    draws = parser.parse_args().draws
    receivers(draws, 150.0, 12)
    receivers(draws, 3600.0, 2)
    for unit in UNITS:
        units(draws, 600.0, unit)
        units(draws, 7200.0, unit)


if __name__ == "__main__":
    main()
