"""The model of a person at a keyboard: late, by strokes, and on the course all the same."""

import pytest

from vehicled.core.messages import ControlCommand, EstimatorStatus, StateEstimate
from vehicled.offline.learning.driver_model import DriverModel, DriverModelParams
from vehicled.offline.studies.exact_drive import drive
from vehicled.paths.catalog import load_course
from vehicled.profile import load_profile

ART = load_profile("art_published")
PERIOD_S = 0.02


def person(course: str = "straight_30m", **params: float) -> DriverModel:
    return DriverModel(
        DriverModelParams(**params),  # type: ignore[arg-type]
        ART.vehicle,
        ART.limits,
        load_course(course),
        PERIOD_S,
    )


def seen(driver: DriverModel, step: int, left_m: float) -> ControlCommand:
    now_ns = round(step * PERIOD_S * 1e9)
    return driver.step(
        StateEstimate(
            now_ns, now_ns, 5.0, left_m, 0.0, 1.0, 0.0, (0.0,) * 16, EstimatorStatus.RUNNING
        ),
        now_ns,
    )


def test_the_wheels_answer_after_the_reaction_time_and_by_strokes() -> None:
    driver = person(noise_rad=0.0, reaction_s=0.2, stroke_s=0.06)
    straight = ART.vehicle.steering.wheel_angle_rad(0.0)
    # The steering offset is one correction of some strokes, which is held before the person looks
    # at anything else.
    before = [seen(driver, k, 0.0).wheel_angle_rad for k in range(50)]
    after = [seen(driver, 50 + k, 0.5).wheel_angle_rad for k in range(60)]
    assert after[:9] == pytest.approx([before[-1]] * 9)
    assert after[-1] < before[-1]
    shares = [
        ART.vehicle.steering.command(angle) - ART.vehicle.steering.command(straight)
        for angle in after
    ]
    assert shares[-1] == pytest.approx(round(shares[-1] / 0.05) * 0.05, abs=1e-6)


@pytest.mark.parametrize("course", ["circle_r2_cw_two_speed", "half_sine"])
def test_a_person_finishes(course: str) -> None:
    found = drive(
        ART, load_course(course), 1.0 / PERIOD_S, controller=person(course), delay_steps=1
    )
    assert found.finished, found
    assert 0.005 < found.cross_track_m < 0.2


def test_noise_repeats_with_its_seed() -> None:
    def commands(seed: int) -> list[float]:
        driver = person(seed=seed, noise_rad=0.05)
        return [seen(driver, k, 0.0).wheel_angle_rad for k in range(200)]

    assert commands(1) == commands(1) != commands(2)
