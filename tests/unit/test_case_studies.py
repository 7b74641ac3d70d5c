"""Case studies: each criterion fails alone, and the command refuses what it cannot use."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from sim_backend.scene.describe import view_of
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.core.vehicle import Outline
from vehicled.offline.replications.case_studies.declarations import (
    GAINS,
    STUDIES,
    CaseStudy,
    OffRoadStudy,
    ParkingStudy,
    RacingStudy,
    TrackingStudy,
    drives_of,
    study_of,
)
from vehicled.offline.replications.case_studies.driving import CaseDriven, command_of
from vehicled.offline.replications.case_studies.judging import (
    CaseVerdict,
    body_m,
    ground_along,
    judge,
    least_gap_m,
    space_of,
)
from vehicled.offline.replications.case_studies.picture import draw
from vehicled.offline.replications.experiments import case_study
from vehicled.profile import load_profile
from vehicled.run.plan import Plan
from vehicled.run.spec import RunSpec

PARKING, OFF_ROAD = study_of("parking_opencav"), study_of("off_road_rzr")
TRACKING = study_of("tracking")


def driven(study: CaseStudy, number: int = 0) -> CaseDriven:
    """Return a drive without any fault: along the course, to its end."""
    drive = drives_of(study)[number]
    course = Plan.of(
        RunSpec(
            profile=drive.profile, scene=drive.scene, course=drive.course,
            overrides=drive.overrides, log_folder=None,
        )
    ).course  # fmt: skip
    vehicle = load_profile(drive.profile).vehicle
    rows = np.column_stack((course.s_m, course.x_m, course.y_m, course.yaw_rad))
    backward_m = float(np.diff(course.s_m)[course.speed_mps[:-1] < 0.0].sum())
    return CaseDriven(
        drive=drive,
        finished=True,
        why="the course is finished",
        digest="0",
        driving_s=course.length_m,
        course_m=course.length_m,
        backward_m=backward_m,
        backward_course_m=backward_m,
        cross_track_mean_m=0.01 * vehicle.length_m,
        cross_track_max_m=0.02 * vehicle.length_m,
        contacts=[],
        length_m=vehicle.length_m,
        outline=vehicle.outline,
        poses=rows,
        speeds_mps=np.asarray(course.speed_mps, dtype=float),
        end=(float(rows[-1, 1]), float(rows[-1, 2]), float(rows[-1, 3])),
        moved_m=0.0,
        gear="P" if study is PARKING else "",
    )


def failed(verdict: CaseVerdict) -> list[str]:
    return [check.name for check in verdict.checks if not check.passed]


def test_there_are_eight_and_their_drives_can_be_planned() -> None:
    assert len(STUDIES) == 8
    kinds = [type(study) for study in STUDIES]
    assert [kinds.count(kind) for kind in (ParkingStudy, RacingStudy, OffRoadStudy)] == [3, 1, 3]
    for study in STUDIES:
        for drive in drives_of(study):
            Plan.of(
                RunSpec(
                    profile=drive.profile, scene=drive.scene, course=drive.course,
                    overrides=drive.overrides, log_folder=None,
                )
            )  # fmt: skip


def test_the_vehicles_of_the_tracking_study_share_their_gains_and_the_shape_in_their_lengths() -> (
    None
):
    assert isinstance(TRACKING, TrackingStudy)
    assert {drive.overrides for drive in TRACKING.drives} == {GAINS}
    lengths = []
    for number in range(len(TRACKING.drives)):
        done = driven(TRACKING, number)
        lengths.append(done.course_m / done.length_m)
    assert max(lengths) < 1.03 * min(lengths)


PARKING_FAULTS: dict[str, dict[str, Any]] = {
    "course": {"finished": False},
    "contacts": {"contacts": ["a parked car"]},
    "driven backward": {"backward_m": 1.0},
    "cross-track error": {"cross_track_max_m": 0.5},
    "body inside the space by": {"end": (24.4, 2.2, 1.5708)},
    "angle to the space": {"end": (24.8, 2.2, 1.63)},
    "moved after the last command": {"moved_m": 0.02},
    "gear": {"gear": "D"},
}


@pytest.mark.parametrize("name", PARKING_FAULTS)
def test_each_criterion_of_parking_fails_alone(name: str) -> None:
    good = driven(PARKING)
    assert judge(PARKING, [good]).passed
    verdict = judge(PARKING, [replace(good, **PARKING_FAULTS[name])])
    assert failed(verdict) == [name]
    assert not verdict.passed


def test_a_vehicle_that_parks_the_wrong_way_round_is_not_parked() -> None:
    good = driven(PARKING)
    x, y, yaw = good.end
    turned = replace(good, end=(x, y + load_profile("opencav").vehicle.wheelbase_m, yaw + np.pi))
    assert failed(judge(PARKING, [turned])) == ["angle to the space"]


@pytest.mark.parametrize(
    ("name", "fault"),
    [
        ("course", {"finished": False}),
        ("contacts", {"contacts": ["a tree"]}),
        ("cross-track error", {"cross_track_max_m": 0.47}),
        ("steepest ground under the way", {"poses": np.zeros((2, 4))}),
    ],
)
def test_each_criterion_of_the_forest_path_fails_alone(name: str, fault: dict[str, Any]) -> None:
    good = driven(OFF_ROAD)
    assert judge(OFF_ROAD, [good]).passed
    assert failed(judge(OFF_ROAD, [replace(good, **fault)])) == [name]


def test_the_forest_has_slopes_and_bodies_along_the_path() -> None:
    good = driven(OFF_ROAD)
    view = view_of("forest_path")
    heights, steepest, climb = ground_along(view, good)
    assert np.ptp(heights) > 1.0
    assert steepest >= climb > 3.0
    assert 0.0 < least_gap_m(view, good) < 1.0


def test_one_vehicle_beyond_its_bound_fails_the_tracking_study() -> None:
    good = [driven(TRACKING, number) for number in range(len(drives_of(TRACKING)))]
    assert judge(TRACKING, good).passed
    worse = replace(good[2], cross_track_max_m=0.11 * good[2].length_m)
    assert failed(judge(TRACKING, [*good[:2], worse, *good[3:]])) == ["f1tenth: largest"]


def test_a_body_and_a_space_turn_with_their_heading() -> None:
    corners = body_m(Outline(3.0, 1.0, 0.5), (10.0, 20.0, np.pi / 2.0))
    assert corners.min(axis=0) == pytest.approx([9.5, 19.0])
    assert corners.max(axis=0) == pytest.approx([10.5, 23.0])
    view = view_of("parking_lot@0.1")
    pose, size = space_of(view, "bay")
    assert (pose.x_m, pose.y_m, *size) == pytest.approx((2.48, 0.34, 0.56, 0.26))
    ((_, drawn), _) = view.parking_spaces
    assert np.ptp(drawn, axis=0) == pytest.approx([0.26, 0.56])
    with pytest.raises(SetupError, match="no parking space 'garage'"):
        space_of(view, "garage")


@pytest.mark.parametrize("study", [PARKING, OFF_ROAD, TRACKING])
def test_each_kind_is_drawn(study: CaseStudy, tmp_path: Path) -> None:
    file = tmp_path / "study.png"
    draw(study, [driven(study, number) for number in range(len(drives_of(study)))], str(file))
    assert file.stat().st_size > 10_000


def test_the_command_shows_verdicts_and_its_status_says_whether_all_passed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    good = driven(PARKING)
    for done, status in ((good, 0), (replace(good, gear="D"), 1)):
        monkeypatch.setattr(
            case_study, "conduct", lambda studies, jobs, progress, done=done: [[done]]
        )
        assert main(["experiment", "case-study", "parking_opencav", "--json"]) == status
        found = json.loads(capsys.readouterr().out)["parking_opencav"]
        assert found["passed"] is (status == 0)
        assert found["figures"]["gap_m"] > 0.0
        assert main(["experiment", "case-study", "parking_opencav"]) == status
        shown = capsys.readouterr().out
        assert ("FAILED" in shown) is (status == 1)
        assert command_of(good.drive) in shown


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "name one study"),
        (["parking_nigel", "--all"], "name one study"),
        (["parking_nigle"], "parking_nigel"),
    ],
)
def test_the_command_refuses_what_it_cannot_use(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["experiment", "case-study", *arguments]) == 2
    assert said in capsys.readouterr().err
