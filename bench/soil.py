"""Does the model of Bekker, Wong and Reece predict published tests of single wheels on soft soil?

    python bench/soil.py --plot docs/img/soil.png

The parameters of the soil are those that plates and shear boxes gave, and nothing is fitted to the
wheels. Prints, for each wheel, the drawbar pull over the load and the sinkage, measured and
predicted, with the coefficients that Wong and Reece give for dense and for loose sand. The points
were read from the figures of the papers by the authors of roverdevkit (MIT licence,
data/validation/single_wheel_experiments.csv), the parameters are in its data/soil_simulants.csv.
"""

import argparse
import json
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq

POINTS = 401
"""Points of the contact at which stresses are integrated."""
DENSE, LOOSE = (0.43, 0.32), (0.18, 0.32)
"""Coefficients of the angle of the largest stress over the entry angle: constant, and per slip."""


class Soil(NamedTuple):
    """Parameters of a soil in SI units."""

    n: float
    """Exponent of the sinkage."""
    k_c: float
    """Cohesive modulus, N/m^(n+1)."""
    k_phi: float
    """Frictional modulus, N/m^(n+2)."""
    cohesion_pa: float
    friction_rad: float
    shear_m: float
    """Shear deformation modulus of Janosi and Hanamoto."""


class Wheel(NamedTuple):
    """Rigid wheel under a load."""

    radius_m: float
    width_m: float
    lug_m: float
    load_n: float


class Test(NamedTuple):
    """Published test of one wheel: slip, drawbar pull (N) and sinkage (mm) of each point."""

    name: str
    wheel: Wheel
    soil: Soil
    points: tuple[tuple[float, float, float], ...]


HIT = Soil(1.10, 15.6e3, 2407.4e3, 250.0, math.radians(31.9), 0.011)
"""Ding et al. 2011, J. Terramechanics 48:27, table 2; the middle of its shear moduli."""
KLS1 = Soil(1.2594, -44.0554e3, 3581.8106e3, 1716.0, math.radians(40.6), 0.018)
"""Shear: Wang and Han 2016, J. Korean Geotechnical Society 32(11):97; the shear modulus is an
assumption of roverdevkit. Plates: Lim et al. 2021, J. Astronomy and Space Sciences 38(4):237."""
TESTS = (
    Test("Ding 2011, smooth", Wheel(0.15735, 0.165, 0.0, 80.0), HIT, (
        (0.0, -6.5, 5.0), (0.1, 11.0, 5.5), (0.2, 14.5, 7.5), (0.3, 15.0, 10.0),
        (0.4, 15.0, 12.5), (0.6, 15.0, 17.5),
    )),
    Test("Ding 2011, lugs of 10 mm", Wheel(0.15735, 0.165, 0.010, 80.0), HIT, (
        (0.0, -6.5, 4.5), (0.1, 14.0, 5.0), (0.2, 20.0, 7.5), (0.3, 22.0, 10.5),
        (0.4, 23.0, 14.0), (0.6, 24.5, 27.0),
    )),
    Test("Wang and Han 2016, smooth", Wheel(0.085, 0.080, 0.0, 58.86), KLS1, (
        (0.1, -0.5, 1.0), (0.2, 1.0, 4.3), (0.3, 2.0, 4.5), (0.4, 2.5, 5.7), (0.5, 0.5, 8.0),
    )),
    Test("Wang and Han 2016, lugs of 10 mm", Wheel(0.085, 0.080, 0.010, 58.86), KLS1, (
        (0.1, 7.7, 2.2), (0.2, 9.0, 4.3), (0.3, 10.0, 7.8), (0.4, 12.7, 9.6), (0.5, 6.4, 13.5),
    )),
)  # fmt: skip


def forces(
    sinkage_m: float, slip: float, wheel: Wheel, soil: Soil, coefficients: tuple[float, float]
) -> tuple[float, float]:
    """Return vertical force and drawbar pull of a driven wheel at a sinkage, N. Lugs shear the soil
    at their tips."""
    radius_m, shear_radius_m = wheel.radius_m, wheel.radius_m + wheel.lug_m
    entry = math.acos(1.0 - sinkage_m / radius_m)
    largest = (coefficients[0] + coefficients[1] * slip) * entry
    angle = np.linspace(0.0, entry, POINTS)
    # Behind the largest stress it falls to 0 at the exit as it does ahead of it to the entry.
    behind = entry - angle / (largest or 1.0) * (entry - largest)
    depth_m = radius_m * (np.cos(np.where(angle < largest, behind, angle)) - math.cos(entry))
    stiffness = soil.k_c / wheel.width_m + soil.k_phi
    normal_pa = stiffness * np.maximum(depth_m, 0.0) ** soil.n
    sheared_m = shear_radius_m * (entry - angle - (1.0 - slip) * (math.sin(entry) - np.sin(angle)))
    shear_pa = (soil.cohesion_pa + normal_pa * math.tan(soil.friction_rad)) * (
        1.0 - np.exp(-sheared_m / soil.shear_m)
    )
    normal, shear = radius_m * normal_pa, shear_radius_m * shear_pa
    up = np.trapezoid(normal * np.cos(angle) + shear * np.sin(angle), angle)
    along = np.trapezoid(shear * np.cos(angle) - normal * np.sin(angle), angle)
    return wheel.width_m * float(up), wheel.width_m * float(along)


def predicted(
    slip: float, wheel: Wheel, soil: Soil, coefficients: tuple[float, float]
) -> tuple[float, float]:
    """Return drawbar pull over load and sinkage (mm) at which the soil carries the load."""

    def missing(sinkage_m: float) -> float:
        return forces(sinkage_m, slip, wheel, soil, coefficients)[0] - wheel.load_n

    sinkage_m = float(brentq(missing, 1e-6, 0.95 * wheel.radius_m))
    return forces(sinkage_m, slip, wheel, soil, coefficients)[1] / wheel.load_n, sinkage_m * 1e3


class Comparison(NamedTuple):
    """Drawbar pull over load and sinkage (mm) of a test: what is measured and what is predicted."""

    name: str
    slips: list[float]
    pull: dict[str, list[float]]
    sinkage_mm: dict[str, list[float]]
    rms_error: dict[str, float]
    """RMS error of the predicted pull over load."""
    least: float
    """Smallest measured pull over load."""
    most: float


def compared(test: Test) -> Comparison:
    """Return what a test measured and what the model predicts for it."""
    slips = [slip for slip, _, _ in test.points]
    pull = {"measured": [pull_n / test.wheel.load_n for _, pull_n, _ in test.points]}
    sinkage_mm = {"measured": [sinkage for _, _, sinkage in test.points]}
    for key, coefficients in (("dense", DENSE), ("loose", LOOSE)):
        found = [predicted(slip, test.wheel, test.soil, coefficients) for slip in slips]
        pull[key], sinkage_mm[key] = ([each[i] for each in found] for i in (0, 1))
    measured = pull["measured"]
    rms_error = {
        key: float(np.sqrt(np.mean(np.square(np.subtract(pull[key], measured)))))
        for key in ("dense", "loose")
    }
    return Comparison(test.name, slips, pull, sinkage_mm, rms_error, min(measured), max(measured))


def show(results: list[Comparison]) -> None:
    """Print every point."""
    for result in results:
        print(f"{result.name}: rms error of pull over load {result.rms_error}")
        for i, slip in enumerate(result.slips):
            cells = [
                f"{kind} {values[i]:7.3f}"
                for quantity in (result.pull, result.sinkage_mm)
                for kind, values in quantity.items()
            ]
            print(f"  slip {slip:.1f}  pull/load {'  '.join(cells[:3])}", end="")
            print(f"  sinkage (mm) {'  '.join(cells[3:])}")


def draw(results: list[Comparison], file: str) -> None:
    """Plot pull and sinkage of all wheels over the slip."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(2, len(results), figsize=(3.0 * len(results), 5.2), sharex=True)
    for column, result in zip(axes.T, results, strict=True):
        column[0].set_title(result.name, fontsize=9)
        for axis, found in zip(column, (result.pull, result.sinkage_mm), strict=True):
            axis.plot(result.slips, found["measured"], "ko", label="measured")
            axis.plot(result.slips, found["dense"], label="predicted, dense sand")
            axis.plot(result.slips, found["loose"], "--", label="predicted, loose sand")
            axis.grid(alpha=0.3)
        column[1].set_xlabel("slip")
        column[1].set_ylim(bottom=0.0)
    axes[0, 0].set_ylabel("drawbar pull over load")
    axes[1, 0].set_ylabel("sinkage (mm)")
    axes[0, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(file, dpi=80)


def main() -> None:
    """Compare all tests."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    parser.add_argument("--plot", metavar="FILE", help="draw them")
    arguments = parser.parse_args()
    results = [compared(test) for test in TESTS]
    if arguments.plot:
        draw(results, arguments.plot)
    if arguments.json:
        print(json.dumps([result._asdict() for result in results]))
    else:
        show(results)


if __name__ == "__main__":
    main()
