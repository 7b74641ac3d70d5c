"""The batched tracker finds the reference points of the scalar one, on open and closed courses,
near the path and off it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.control.error_state import reference_ahead
from vehicled.control.linear import Linear, LinearParams
from vehicled.paths.batch_tracking import BatchTracker
from vehicled.paths.catalog import load_course
from vehicled.paths.errors import CourseError
from vehicled.paths.tracking import PathTracker
from vehicled.profile.loading import load_profile

ART = load_profile("art")
COURSES = {
    name: load_course(name)
    for name in (
        "lot17",
        "square",
        "circle_r2_cw",
        "sine_tight",
        "figure_eight",
        "straight_20m",
        "random:seed=3",
    )
}


@examples(40)
@given(st.sampled_from(sorted(COURSES)), st.integers(0, 2**32 - 1))
def test_rows_follow_the_course_as_the_scalar_tracker_does(name: str, seed: int):
    course, random, n = COURSES[name], np.random.default_rng(seed), 5
    starts = random.uniform(0.0, course.length_m, n)
    scalars, batch = [PathTracker(course) for _ in range(n)], BatchTracker(course, n)
    batch.reset(np.arange(n), starts)
    for tracker, start in zip(scalars, starts, strict=True):
        tracker.reset(float(start))
    s_m, pace = starts.copy(), random.uniform(0.0, 1.0, n)
    spread = random.choice([0.02, 0.3, 1.5])
    for _ in range(12):
        places = [tracker.point_at(float(s)) for tracker, s in zip(scalars, s_m, strict=True)]
        x = np.array([p.x_m for p in places]) + spread * random.standard_normal(n)
        y = np.array([p.y_m for p in places]) + spread * random.standard_normal(n)
        yaw = np.array([p.yaw_rad for p in places]) + random.standard_normal(n)
        found = batch.update(x, y, yaw, 3.0 * pace)
        wanted = [
            t.update(*row)
            for t, row in zip(
                scalars, np.stack((x, y, yaw, 3.0 * pace), axis=1).tolist(), strict=True
            )
        ]
        for field in found._fields:
            expected = [getattr(point, field) for point in wanted]
            difference = np.array(expected) - getattr(found, field)
            if field.endswith("rad"):
                difference = np.remainder(difference + np.pi, 2.0 * np.pi) - np.pi
            np.testing.assert_allclose(difference, 0.0, atol=1e-8, err_msg=field)
        np.testing.assert_allclose(batch.progress_m, [t.progress_m for t in scalars], atol=1e-9)
        assert batch.finished.tolist() == [t.finished for t in scalars]
        s_m += pace


@pytest.mark.parametrize("name", ["lot17", "sine", "straight_20m"])
def test_the_reference_ahead_is_that_of_the_linear_controller(name: str):
    """Also beyond the end of an open course, which goes on straight."""
    course, random, n = load_course(name), np.random.default_rng(5), 8
    law = Linear(LinearParams(), ART.vehicle, ART.limits, course, 0.02)
    for start in (0.0, 0.5 * course.length_m, course.length_m - 0.4):
        batch = BatchTracker(course, n)
        batch.reset(np.arange(n), np.full(n, start))
        here = law.tracker.point_at(start)
        x = here.x_m + 0.2 * random.standard_normal(n)
        y = here.y_m + 0.2 * random.standard_normal(n)
        yaw = here.yaw_rad + 0.3 * random.standard_normal(n)
        batch.update(x, y, yaw, np.ones(n))
        found = batch.references_ahead(x, y, yaw, 1.0)
        for row in range(n):
            law.tracker.reset(start)
            law.tracker.update(float(x[row]), float(y[row]), float(yaw[row]), 1.0)
            point = reference_ahead(law.tracker, float(x[row]), float(y[row]), float(yaw[row]), 1.0)
            np.testing.assert_allclose(
                [found.x_m[row], found.y_m[row], found.yaw_rad[row], found.curvature_per_m[row]],
                [point.x_m, point.y_m, point.yaw_rad, point.curvature_per_m], atol=1e-8,
            )  # fmt: skip


def test_a_course_with_a_reverse_part_is_refused():
    with pytest.raises(CourseError, match="forward only"):
        BatchTracker(load_course("three_point_turn"), 1)
