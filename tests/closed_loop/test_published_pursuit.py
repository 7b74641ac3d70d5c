"""The published pure pursuit on the HMMWV of its study, at the study's rate of 400 Hz, with the
sensors of the profile."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.grid import sampled

Drive = Callable[..., tuple[int, dict[str, Any], str]]
RATE = [
    f"tasks.{task}.{key}"
    for task in ("control", "actuation")
    for key in ("rate_hz=400", "deadline_ms=2.5")
]
PROMPT = "sim.twin.changes={'steering.rate_radps'=20.0,'steering.delay_s'=0.0}"
"""The study has no lag of the wheels."""


def _arguments(course: str, *changes: str) -> list[str]:
    changes = (*RATE, PROMPT, *changes)
    settings = [argument for change in changes for argument in ("--set", change)]
    return [
        "--profile",
        "hmmwv",
        "--controller",
        "pure_pursuit_published",
        "--course",
        course,
        *settings,
        "--no-log",
        "--quiet",
    ]


@pytest.mark.parametrize(
    ("course", "mean_m"),
    sampled(
        [
            ("thesis_st5:length_m=6,run_up_m=2,run_out_m=2", 0.02),
            ("thesis_st5:length_m=15,run_up_m=3,run_out_m=4", 0.02),
            ("thesis_left15:straight_m=8,run_up_m=20,run_out_m=22", 0.09),
            ("thesis_ss20:angle_deg=40,straight_m=8,run_up_m=36,run_out_m=42", 0.06),
        ],
        lambda case: "length_m=6" in case[0],
    ),
)
def test_it_finishes_courses_of_its_study_inside_their_boxes(
    drive: Drive, course: str, mean_m: float
) -> None:
    status, result, said = drive(*_arguments(course))
    assert status == 0, said
    assert result["markings"].startswith("passed")
    assert result["cross_track_m"]["mean"] < mean_m


@pytest.mark.soak
def test_from_the_rear_axle_it_swings_off_the_bend(drive: Drive) -> None:
    """A point ahead of the axle damps: the bearing then grows with the heading error, by its
    distance over the look-ahead."""
    course = "thesis_left15:straight_m=8,run_up_m=20,run_out_m=22"
    status, result, _ = drive(
        *_arguments(course, "controller.pure_pursuit_published.reference_wheelbases=0")
    )
    assert status == 1
    assert not result["finished"]
