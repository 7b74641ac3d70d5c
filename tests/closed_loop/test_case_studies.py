"""Case studies driven: a whole one, and a car that changes its gears for a leg in reverse."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

from vehicled.cli import main
from vehicled.core.messages import Gear, GearReport
from vehicled.log.reader import LogReader
from vehicled.offline.replications.case_studies.declarations import (
    CaseDrive,
    ParkingStudy,
    study_of,
)
from vehicled.offline.replications.case_studies.driving import drive_case
from vehicled.offline.replications.case_studies.judging import judge
from vehicled.run.plan import Plan
from vehicled.run.simulation import SimulationSpec, simulate
from vehicled.run.spec import START_TIMEOUT_S, RunSpec

THERE_AND_BACK = """
[[course]]
name = "back"
legs = [[[0, 0], [5, 0]], [[5, 0], [1, 0]]]

[[parking_space]]
name = "bay"
at = [2.4, 0]
size_m = [5.5, 2.6]
"""


@pytest.fixture
def scene(tmp_path: Path) -> str:
    file = tmp_path / "yard.toml"
    file.write_text(THERE_AND_BACK)
    return str(file)


def test_a_whole_study_passes_and_is_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["parking_nigel", "--json", "--jobs", "1", "--output", str(tmp_path / "out")]
    assert main(["experiment", "case-study", *arguments]) == 0
    verdict = json.loads(capsys.readouterr().out)["parking_nigel"]
    assert verdict["passed"]
    assert verdict["figures"]["backward_m"] > 1.0
    assert (tmp_path / "out" / "case_parking_nigel.png").stat().st_size > 10_000


def test_opencav_reverses_ends_in_park_and_stays(scene: str) -> None:
    drive = CaseDrive(profile="opencav", scene=scene, course="back")
    study = study_of("parking_opencav")
    assert isinstance(study, ParkingStudy)
    parked = drive_case(None, drive)
    verdict = judge(replace(study, drive=drive), [parked])
    assert verdict.passed, verdict.checks
    assert parked.gear == "P"
    assert parked.backward_m == pytest.approx(4.0, abs=0.3)


def test_the_log_has_the_gears_of_a_drive(scene: str, tmp_path: Path) -> None:
    done = simulate(
        Plan.of(
            RunSpec(
                profile="opencav", scene=scene, course="back", seed=1,
                start_timeout_s=START_TIMEOUT_S, log_folder=str(tmp_path / "log"),
            )
        ),
        SimulationSpec(in_process=True),
    )  # fmt: skip
    assert done.result.finished, done.result.why
    with LogReader(done.result.log) as log:
        gears = [record.message.gear for record in log.messages(GearReport)]
    changes = [gear for gear, before in zip(gears, [None, *gears], strict=False) if gear != before]
    assert [gear for gear in changes if gear is not Gear.PARK] == [
        Gear.DRIVE,
        Gear.NEUTRAL,
        Gear.REVERSE,
    ]
