"""Random smooth courses: repeatable, within what a vehicle can turn, and without a jump of the
curvature."""

import numpy as np
import pytest

from vehicled.paths import CourseError
from vehicled.paths.catalog import load_course
from vehicled.paths.random_course import RADIUS_MARGIN


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("turn_radius_m", "speed_mps", "lateral_mps2"),
    [(0.25, 0.2, 1.0), (1.44, 1.0, 2.0), (4.7, 12.0, 3.0)],
)
def test_bends_are_smooth_and_within_the_vehicle(
    seed: int, turn_radius_m: float, speed_mps: float, lateral_mps2: float
) -> None:
    limits = f"speed_mps={speed_mps},lateral_mps2={lateral_mps2}"
    name = f"random:seed={seed},length_m={20 * speed_mps},{limits}"
    course = load_course(name, turn_radius_m=turn_radius_m)
    tightest_per_m = min(1.0 / (RADIUS_MARGIN * turn_radius_m), lateral_mps2 / speed_mps**2)
    assert course.length_m == pytest.approx(20 * speed_mps, rel=5e-3)
    assert set(course.speed_mps) == {speed_mps}
    assert np.abs(course.curvature_per_m).max() <= 1.05 * tightest_per_m
    assert (
        np.abs(np.diff(course.curvature_per_m) / np.diff(course.s_m)).max()
        <= 1.4 * tightest_per_m**2
    )
    again = load_course(name, turn_radius_m=turn_radius_m)
    assert np.array_equal(course.x_m, again.x_m)


def test_seeds_differ() -> None:
    first, second = (load_course(f"random:seed={seed}") for seed in (1, 2))
    assert np.abs(first.y_m[-1] - second.y_m[-1]) > 0.1


@pytest.mark.parametrize(
    "given",
    ["seed=-1", "length_m=0", "speed_mps=-2", "bend_m=-1", "lateral_mps2=nan", "length_m=1e9"],
)
def test_nonsense_is_refused(given: str) -> None:
    with pytest.raises(CourseError, match="random"):
        load_course(f"random:{given}")
