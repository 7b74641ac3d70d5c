"""Drives in lockstep with a double-track twin: the whole stack on a vehicle that slips, rolls, and
can be lost."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Drive = Callable[..., tuple[int, dict[str, Any], str]]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def profile(tmp_path: Path) -> Callable[[str], str]:
    """The ART as published, with a twin file in the place of the 4-DOF model."""

    def write(twin: str) -> str:
        path = tmp_path / "art_double_track.toml"
        own = (
            'name = "mine"\nbase = "art_published"\nwithout = ["sim.steering"]\n[sim]\nplant = '
            '"double_track"\n'
        )
        path.write_text(own + twin)
        return str(path)

    return write


def test_a_shipped_twin_is_driven_and_gives_the_same_bytes_again(
    drive: Drive, profile: Callable[[str], str]
) -> None:
    name = profile('[sim.twin]\nvehicle = "art_chrono"\n')
    options = ("--profile", name, "--course", "circle_r5_ccw", "--duration", "3", "--quiet")
    _, first, _ = drive(*options, "--seed", "5")
    _, again, _ = drive(*options, "--seed", "5")
    assert first["driven_m"] > 0.5
    assert first["cross_track_m"]["mean"] < 0.25
    assert first["estimate_position_m"]["mean"] < 0.1
    assert first["digest"] == again["digest"]


def test_a_vehicle_that_rolls_over_ends_the_run_with_its_reason(
    drive: Drive, profile: Callable[[str], str]
) -> None:
    name = profile(
        '[sim.twin]\nvehicle = "art_lfdm"\nchanges = { "bounds.roll_limit_rad" = 0.0001 }\n'
    )
    status, result, said = drive(
        "--profile", name, "--course", "circle_r5_ccw", "--duration", "30", "--quiet"
    )
    assert status != 0
    assert not result["finished"]
    assert "the vehicle rolled over: roll" in said + str(result)


def test_changes_that_make_no_vehicle_are_refused_by_key(
    drive: Drive, profile: Callable[[str], str]
) -> None:
    name = profile('[sim.twin]\nvehicle = "art_lfdm"\nchanges = { "body.mass_kg" = 0.5 }\n')
    status, _, said = drive("--profile", name, "--duration", "1", "--quiet")
    assert status != 0
    assert "body.mass_kg" in said
