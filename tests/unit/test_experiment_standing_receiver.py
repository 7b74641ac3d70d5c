"""The standing receiver: what is compared with what, its picture, and what is refused."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.unit.test_experiment_ekf_circle import Paper
from vehicled.core.errors import SetupError
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.replications.experiments import standing_receiver
from vehicled.run.command_line import CommandParser

STANDING = "captures/gnss/pyubx2__pygpsdata-MIXED.log"


def _run(*options: str) -> Any:
    parser = CommandParser()
    standing_receiver.declare_experiment_standing_receiver(parser)
    paper = Paper()
    assert standing_receiver.run(parser.parse_args([*options, "--json"]), paper) == 0
    return json.loads(paper.shown[0])


def test_simulated_receivers_begin_at_zero_and_wander_as_far_as_published() -> None:
    stands = standing_receiver.simulated_stands(60.0, 40, 1)
    assert all(not stand.error_m[0].any() for form in stands.values() for stand in form)
    assert np.mean([stand.distance_m[-1] for stand in stands["simulator"]]) == pytest.approx(
        0.7, abs=0.15
    )


def test_a_recording_counts_from_its_first_position(shared_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    drawing = tmp_path / "stand.png"
    found = _run(
        str(shared_data / STANDING), "--duration", "20", "--draws", "2", "--plot", str(drawing)
    )
    (row,) = found["recorded"]
    assert 10.0 < row["seconds"] <= 20.0
    assert 0.1 < row["mean_m"] < 3.0
    assert set(found["simulated"]) == {"inner", "simulator", "judge"}
    assert drawing.stat().st_size > 10_000


def test_drives_are_left_out(shared_data: Path) -> None:
    with pytest.raises(RecordingError, match="no recording of a standing receiver"):
        _run(str(shared_data / "mocap_ekf_mpc_2023/sin_2/r1.csv"))


@pytest.mark.parametrize(
    "options", [("--duration", "1"), ("--draws", "0"), ("--seed", "-1"), ("--plot", "x.txt")]
)
def test_arguments_that_cannot_be_used_say_so(options: tuple[str, str]) -> None:
    with pytest.raises(SetupError, match=options[0]):
        _run(*options)
