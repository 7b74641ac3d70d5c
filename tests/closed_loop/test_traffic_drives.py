"""Drives among other traffic: scanners see the cars, contacts with them are judged, and runs
repeat."""

import re
from typing import Any

import pytest

from tests.closed_loop.conftest import command, sim
from vehicled.offline.twin import fleet_plot

SCENE = """[[lane]]
name = "road"
points = [[20, 0], [100, 0]]
width_m = 3.5
"""
SCANNER = """set = [
    "devices.scanner.driver=msglink", 'devices.scanner.messages=["LaserScan"]',
    "devices.scanner.rate_hz=20", "devices.scanner.lever_arm_m=[0.45, 0.0, 0.15]",
]
"""


@pytest.fixture
def road(tmp_path):
    """A road of a fifth of the size, with cars that hardly move."""
    (tmp_path / "road.toml").write_text(SCENE)
    return [
        "--scene", f"{tmp_path}/road.toml@0.2", "--no-log", "--duration", "9",
        "--set", "sim.traffic.vehicles=4", "--set", "sim.traffic.speed_mps=0.05",
    ]  # fmt: skip


def test_a_blind_vehicle_runs_into_a_car(road):
    _, result, _ = sim("--json", "--quiet", "--course", "straight_20m", *road)
    assert re.fullmatch(r"car \d", result["contacts"][0]["what"])
    assert result["contacts"][0]["speed_mps"] > 0.3


def test_a_scanner_sees_a_car_and_a_fleet_of_them_repeats(road, tmp_path, monkeypatch):
    monkeypatch.setattr(fleet_plot, "save_figure", lambda figure, file: figures.append(figure))
    figures: list[Any] = []
    (tmp_path / "fleet.toml").write_text(
        '[[vehicle]]\nname = "a"\nprofile = "art"\ncourse = "straight_20m"\n' + SCANNER
    )
    options = ["--fleet", str(tmp_path / "fleet.toml"), *road]
    _, first, said = sim("--json", "--quiet", *options)
    assert first, said
    (a,) = first["vehicles"]
    assert "obstacle ahead" in a["why"]
    assert a["contacts"] == []
    _, again, _ = sim("--json", "--quiet", "--plot", str(tmp_path / "a.png"), *options)
    assert again["digest"] == first["digest"] != ""
    assert len(figures[0].axes[0].patches) > 4, "the cars are drawn"


def test_vehicles_of_a_fleet_need_the_same_traffic():
    status, _, said = command(
        "sim", "--no-log", "--scene", "intersection", "--vehicle", "a=art,sim.traffic.vehicles=2",
        "--vehicle", "b=art,course=intersection/left,from_m=20",
    )  # fmt: skip
    assert status == 2
    assert "have different sim.traffic" in said


def test_traffic_without_a_scene_is_refused_with_the_cure():
    status, _, said = command("sim", "--no-log", "--set", "sim.traffic.vehicles=2")
    assert status != 0
    assert "use a scene with lanes" in said
