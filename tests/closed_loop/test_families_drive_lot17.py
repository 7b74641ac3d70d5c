"""One vehicle for each family of devices drives lot17 on wires: motors and boards, autopilots, RC
receivers, GNSS receivers, motion capture, encoders and pulses. docs/devices.md has the results."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.closed_loop.conftest import Daemon, wide_limits
from tests.grid import sampled

Drive = Callable[..., tuple[int, dict[str, Any], str]]
Start = Callable[..., Daemon]
FOLDER = Path(__file__).parent
ACTUATORS = sorted(map(str, FOLDER.glob("actuators/*.toml")))
SENSORS = sorted(map(str, FOLDER.glob("sensors/*.toml")))
COURSE = ("--course", "lot17", "--link", "wires")


def name_of(file: str) -> str:
    return Path(file).stem


@pytest.mark.parametrize("file", sampled(SENSORS, lambda file: "f9r" in file), ids=name_of)
def test_a_few_metres_are_driven(drive: Drive, file: str) -> None:
    _, result, said = drive(
        "--profile", file, *COURSE, "--quiet", "--no-log", "--duration", "6",
    )  # fmt: skip
    assert "time limit" in result["why"], said
    assert result["driven_m"] > 2.0
    assert result["estimate_position_m"]["mean"] < 0.04


@pytest.mark.soak
@pytest.mark.parametrize("file", [*ACTUATORS, *SENSORS], ids=name_of)
def test_lot17_is_driven_on_wires_and_repeats(drive: Drive, file: str) -> None:
    options = ("--profile", file, *COURSE, "--quiet", "--no-log", "--seed", "7")
    status, result, said = drive(*options)
    assert status == 0, said
    assert result["cross_track_m"]["mean"] < 0.06
    assert drive(*options)[1]["digest"] == result["digest"]


@pytest.mark.soak
@pytest.mark.xdist_group("wall")
@pytest.mark.parametrize("file", [*ACTUATORS, *SENSORS], ids=name_of)
def test_lot17_is_driven_in_wall_time(start: Start, file: str) -> None:
    daemon = start("--profile", file, *COURSE, "--clock", "wall", *wide_limits(file))
    status, result, said = daemon.end(deadline_s=900.0)
    assert status == 0, said
    assert result["cross_track_m"]["mean"] < 0.1
