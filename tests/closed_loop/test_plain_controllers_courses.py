"""Stanley, linear, regulated and published pure pursuit on whole courses, with an exact state."""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from tests.closed_loop.exact_state import DRIVE, STEERING, VEHICLE, drive
from tests.grid import sampled
from vehicled.control.interface import Controller
from vehicled.control.linear import Linear, LinearParams
from vehicled.control.pure_pursuit import PurePursuit, PurePursuitParams
from vehicled.control.regulated_pure_pursuit import RegulatedPurePursuitParams, regulated_mps
from vehicled.control.stanley import Stanley, StanleyParams
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.offline.replications.published.pure_pursuit import (
    PurePursuitPublished,
    PurePursuitPublishedParams,
)
from vehicled.paths import formulas
from vehicled.paths.catalog import load_course
from vehicled.paths.course import Course
from vehicled.profile.registry import resolve

Build = Callable[..., Controller]
PROMPT = msgspec.structs.replace(
    VEHICLE,
    steering=msgspec.structs.replace(STEERING, delay_s=0.0, rate_radps=20.0, offset_rad=0.0),
)
"""A vehicle whose wheels turn at once and stand straight, as those of the studies in simulation."""


def _build(name: str) -> Build:
    kind = resolve("controller", name)
    return lambda vehicle, limits, course, period_s: kind(
        kind.Params(), vehicle, limits, course, period_s
    )


def _stanley(**params: object) -> Build:
    return lambda vehicle, limits, course, period_s: Stanley(
        StanleyParams(**params),  # type: ignore[arg-type]
        vehicle,
        limits,
        course,
        period_s,
    )


@pytest.mark.parametrize(
    ("name", "course", "mean_m", "max_m"),
    sampled(
        [
            ("stanley", "circle_r2_ccw", 0.006, 0.03),
            ("stanley", "sine_tight", 0.002, 0.006),
            ("stanley", "figure_eight", 0.002, 0.006),
            ("stanley", "parallel_parking", 0.002, 0.006),
            ("stanley", "three_point_turn", 0.002, 0.006),
            ("regulated_pure_pursuit", "circle_r2_ccw", 0.006, 0.03),
            ("regulated_pure_pursuit", "sine_tight", 0.07, 0.1),
            ("regulated_pure_pursuit", "parallel_parking", 0.012, 0.06),
            ("linear", "sine_tight", 0.2, 0.4),
            ("linear", "circle_r2_ccw", 0.2, 0.25),
            ("linear", "three_point_turn", 0.13, 0.3),
        ],
        lambda case: case[1] in ("circle_r2_ccw", "three_point_turn"),
    ),
)
def test_follows_a_course_to_its_end(name: str, course: str, mean_m: float, max_m: float) -> None:
    result = drive(load_course(course), _build(name))
    assert result.finished
    error = np.abs(result.cross_track_m)
    assert error.mean() < mean_m
    assert error.max() < max_m
    assert abs(result.speed_mps[-1]) < 0.01


@pytest.mark.parametrize(
    ("course", "build"),
    [("parallel_parking", "stanley"), ("three_point_turn", "regulated_pure_pursuit")],
)
def test_parks_to_the_centimetre(course: str, build: str) -> None:
    drawn = load_course(course)
    distance, angle = drive(drawn, _build(build)).end_error(drawn)
    assert distance < 0.03
    assert angle < 0.02


def test_stanleys_front_axle_on_the_course_lets_the_rear_axle_cut_the_bend() -> None:
    """The error is wheelbase^2 / (2 radius) in the steady part of a circle; our variant removes
    it."""
    course = formulas.circle(3.0, laps=2)
    original = np.abs(drive(course, _stanley(line="course")).cross_track_m[700:1400])
    mended = np.abs(drive(course, _stanley()).cross_track_m[700:1400])
    assert original.mean() == pytest.approx(0.5**2 / (2 * 3.0), rel=0.15)
    assert mended.max() < 0.005


def test_stanley_joins_from_beside_the_course_without_swinging_over() -> None:
    result = drive(formulas.straight(25.0), _stanley(), offset_m=0.8)
    assert np.abs(result.cross_track_m[-300:]).max() < 0.02
    assert result.cross_track_m.min() > -0.1


def test_stanley_turns_into_a_corner_before_it() -> None:
    course = load_course("lot17")
    early = np.abs(drive(course, _stanley(), limit_s=70.0).cross_track_m).max()
    late = np.abs(drive(course, _stanley(turn_in_share=10.0), limit_s=70.0).cross_track_m).max()
    assert early < 0.45
    assert late > 2 * early


def test_regulation_of_the_speed() -> None:
    p = RegulatedPurePursuitParams()
    assert regulated_mps(p, 1.0, 0.0, 10.0) == 1.0
    assert regulated_mps(p, 1.0, 1.0 / 1.0, 10.0) == 1.0, "a bend wider than min_radius_m"
    assert regulated_mps(p, 1.0, -1.0 / 0.6, 10.0) == pytest.approx(0.6 / 0.9)
    assert regulated_mps(p, 1.0, 100.0, 10.0) == 0.25
    assert regulated_mps(p, 1.0, 0.0, 0.3) == pytest.approx(0.5)
    assert regulated_mps(p, 1.0, 0.0, -1.0) == 0.05
    assert regulated_mps(p, 0.1, 100.0, 10.0) == 0.1, "never faster than the target"


def test_the_linear_law_stands_beside_the_course_by_the_offset_of_the_wheels() -> None:
    """offset / (gain x .727 per metre) in the steady state of a straight, unless it is taken off;
    e1 leaves the rest."""

    def trimmed(vehicle: Vehicle, limits: Limits, course: object, period_s: float) -> Controller:
        return Linear(LinearParams(trim=True), vehicle, limits, course, period_s)  # type: ignore[arg-type]

    course = formulas.straight(30.0)
    plain = drive(course, _build("linear")).cross_track_m[800:1400]
    without = drive(course, trimmed).cross_track_m[800:1400]
    assert without.mean() == pytest.approx(0.02176878 / 0.72672704, abs=0.003)
    assert plain.mean() - without.mean() == pytest.approx(0.018 / (0.335 * 0.72672704), rel=0.05)


def test_the_published_pursuit_needs_the_prompt_vehicle_of_its_study() -> None:
    """The law keeps the course if steering acts at once; with the delay of the ART it oscillates,
    where ours does not."""
    course = load_course("sine")

    def published(vehicle: Vehicle, limits: Limits, drawn: object, period_s: float) -> Controller:
        return PurePursuitPublished(
            PurePursuitPublishedParams(full_lock_rad=0.335),
            vehicle,
            limits,
            drawn,  # type: ignore[arg-type]
            period_s,
        )

    prompt = np.abs(drive(course, published, truth=PROMPT, believed=PROMPT).cross_track_m)
    late = np.abs(drive(course, published, limit_s=60.0).cross_track_m)
    ours = np.abs(drive(course, _build("pure_pursuit")).cross_track_m)
    assert prompt.mean() < 0.002
    assert late.mean() > 5 * prompt.mean()
    assert ours.mean() < prompt.mean()


def test_counted_at_the_control_rate_the_look_ahead_depends_on_it() -> None:
    def by_control(vehicle: Vehicle, limits: Limits, drawn: object, period_s: float) -> Controller:
        params = PurePursuitPublishedParams(sample_hz=0.0, full_lock_rad=0.335)
        return PurePursuitPublished(params, vehicle, limits, drawn, period_s)  # type: ignore[arg-type]

    course = load_course("sine")
    slow, fast = (
        np.abs(
            drive(course, by_control, truth=PROMPT, believed=PROMPT, rate_hz=rate).cross_track_m
        ).mean()
        for rate in (20.0, 100.0)
    )
    assert slow > 2 * fast


def test_a_gain_of_the_speed_control_that_the_delay_does_not_allow_is_cut() -> None:
    """P 6 of the study on a drive with 0.1 s of delay: without the cut throttle and brake
    alternate."""
    sluggish = msgspec.structs.replace(VEHICLE, drive=msgspec.structs.replace(DRIVE, delay_s=0.2))
    result = drive(formulas.straight(20.0), _stanley(), truth=sluggish, believed=sluggish)
    steady = result.speed_mps[400:800]
    assert steady.std() < 0.02
    assert steady.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("law", "params"), [(PurePursuit, PurePursuitParams), (Stanley, StanleyParams)]
)
def test_the_turn_into_a_corner_follows_what_is_learnt_of_the_steering(
    law: Any, params: Any
) -> None:
    short = replace(
        VEHICLE,
        steering=replace(VEHICLE.steering, gain_rad=0.225, max_wheel_rad=0.225, offset_rad=0.0),
    )
    long = replace(
        VEHICLE,
        steering=replace(VEHICLE.steering, gain_rad=0.455, max_wheel_rad=0.455, offset_rad=0.0),
    )

    def learnt(believed: Vehicle, limits: Limits, course: Course, period_s: float) -> Any:
        controller = law(params(), long, limits, course, period_s)
        controller.adapt(believed)
        return controller

    result = drive(
        load_course("rectangle_20x45:corner_radius_m=1.5"), learnt, truth=short, believed=short
    )
    assert np.abs(result.cross_track_m).max() < 0.45
