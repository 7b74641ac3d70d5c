"""The drawing of a drive: places enlarged, any kind of drive, vector formats."""

from math import nan, sin
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vehicled.paths.catalog import load_course
from vehicled.run.judge import TracePoint
from vehicled.run.result import ErrorStats

pytest.importorskip("matplotlib")

from vehicled.offline.analysis.lap_plot import _worst_places, plot_drive

RESULT: Any = SimpleNamespace(
    programme="", profile="art", course="straight_30m", controller="mpc", seed=1, finished=True,
    why="", driving_s=30.0, cross_track_m=ErrorStats(0.1, 0.1, 0.2),
)  # fmt: skip


def drive(cross_track_m: float) -> list[TracePoint]:
    return [
        TracePoint(
            0.1 * k,
            0.1 * k,
            cross_track_m * sin(k / 30),
            1.0,
            1.0,
            cross_track_m * sin(k / 30),
            0.1 * k,
            0.0,
        )
        for k in range(300)
    ]


@pytest.fixture(scope="module", autouse=True)
def _fonts(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Matplotlib keeps its fonts open from the first drawing on."""
    plot_drive(
        load_course("straight_30m"),
        drive(0.2),
        RESULT,
        str(tmp_path_factory.mktemp("fonts") / "a.png"),
    )


@pytest.mark.parametrize(
    ("ending", "trace"), [("pdf", drive(0.2)), ("svg", drive(nan)), ("png", [])]
)
def test_a_drive_is_drawn(tmp_path: Path, ending: str, trace: list[TracePoint]) -> None:
    file = tmp_path / f"drive.{ending}"
    plot_drive(load_course("straight_30m"), trace, RESULT, str(file))
    assert {"png": b"PNG", "pdf": b"%PDF", "svg": b"<svg"}[ending] in file.read_bytes()[:4000]


def test_the_worst_places_are_enlarged() -> None:
    trace = drive(0.2)
    places = _worst_places(trace)
    assert len(places) == 2
    assert all(abs(abs(point[1]) - 0.2) < 0.01 for point, _, _ in places)
    (first, half, _), (second, _, _) = places
    assert abs(first[0] - second[0]) > 3.0 * half
