"""The soil model of ``bench/soil.py`` has the limits that its textbook states."""

import math

import pytest

from bench.soil import DENSE, TESTS, Soil, Wheel, compared, forces, predicted

WHEEL = Wheel(radius_m=0.3, width_m=0.2, lug_m=0.0, load_n=500.0)
SAND = Soil(n=1.1, k_c=1e3, k_phi=1.5e6, cohesion_pa=1e3, friction_rad=0.5, shear_m=0.025)


def test_without_shear_the_resistance_is_that_of_bekker() -> None:
    """The work that presses the rut: width times modulus times sinkage^(n+1) over n+1."""
    frictionless = SAND._replace(cohesion_pa=0.0, friction_rad=0.0)
    sinkage_m = 0.03
    _, pull_n = forces(sinkage_m, 0.0, WHEEL, frictionless, (0.0, 0.0))
    stiffness = SAND.k_c / WHEEL.width_m + SAND.k_phi
    resistance_n = WHEEL.width_m * stiffness * sinkage_m ** (SAND.n + 1.0) / (SAND.n + 1.0)
    assert -pull_n == pytest.approx(resistance_n, rel=1e-4)


def test_a_stiff_cohesionless_soil_gives_the_friction_of_the_load() -> None:
    """The pull on a hard surface at full slip is load times friction."""
    hard = SAND._replace(k_phi=1e13, cohesion_pa=0.0, shear_m=1e-8)
    pull, sinkage_mm = predicted(1.0, WHEEL, hard, DENSE)
    assert pull == pytest.approx(math.tan(hard.friction_rad), rel=0.02)
    assert sinkage_mm < 0.1


def test_the_soil_carries_the_load_and_pulls_more_with_slip() -> None:
    pulls = []
    for slip in (0.05, 0.2, 0.5):
        pull, sinkage_mm = predicted(slip, WHEEL, SAND, DENSE)
        assert forces(sinkage_mm * 1e-3, slip, WHEEL, SAND, DENSE)[0] == pytest.approx(500.0)
        pulls.append(pull)
    assert pulls == sorted(pulls)


def test_the_published_wheels_are_not_predicted() -> None:
    """The page concludes it: measured sinkage grows with slip, predicted sinkage hardly does."""
    for found in map(compared, TESTS):
        growth = {kind: values[-1] / values[0] for kind, values in found.sinkage_mm.items()}
        assert growth["measured"] > 3.0
        assert max(growth["dense"], growth["loose"]) < 1.3
        assert min(found.rms_error.values()) > 0.05
