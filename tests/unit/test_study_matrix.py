"""The report ``matrix``: means, intervals and places of a study over controllers and vehicles."""

import re
from pathlib import Path

import pytest

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.kinds import write_page
from vehicled.offline.studies.report import Finished
from vehicled.offline.studies.specification import parse

STUDY = """
report = "matrix"
[factors]
controller = ["mpc", "linear"]
{second} = {{ values = [1, 2], keys = [] }}
seed = [1, 2, 3]
"""


def finished(tmp_path: Path, second: str = "vehicle") -> Finished:
    rows = []
    for number, (controller, vehicle, seed) in enumerate(
        [(c, w, s) for c in ("mpc", "linear") for w in ("known", "other") for s in (1, 2, 3)]
    ):
        lost = (controller, vehicle, seed) == ("linear", "other", 3)
        error_m = (0.01 if controller == "mpc" else 0.1) * (
            2.0 if vehicle == "other" else 1.0
        ) + 0.001 * seed
        metrics: dict[str, float | None] = (
            {}
            if lost
            else {"cross_track_mean_m": error_m, "place.00_m": error_m, "place.01_m": 2 * error_m}
        )
        rows.append(
            RunRow(
                key=str(number), number=number,
                levels={"controller": controller, second: vehicle, "seed": seed},
                outcome="failed" if lost else "finished", why="left the corridor" if lost else "",
                metrics=metrics,
            )
        )  # fmt: skip
    return Finished(parse(STUDY.format(second=second), tmp_path / "study.toml"), rows, {}, tmp_path)


def test_every_cell_has_its_mean_its_interval_and_its_failures(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(finished(tmp_path), page)
    text = page.read_text()
    table = text[text.index("Mean cross-track error") : text.index("Where on the course")]
    cells = [re.sub(r"<[^>]+>", "", cell) for cell in re.findall(r"<td[^>]*>(.*?)</td>", table)]
    assert [cell.split(" ")[0] for cell in cells] == ["1.2", "2.2", "10.2", "20.15"]
    assert "1 of 3 not finished" in cells[3]
    low, high = re.findall(r"([\d.]+) to ([\d.]+)", cells[0])[0]
    assert 1.1 <= float(low) < 1.2 < float(high) <= 1.3


def test_the_places_are_shaded_by_their_error(tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    write_page(finished(tmp_path), page)
    text = page.read_text()
    strips = text[text.index("Where on the course") :]
    shades = [float(each) for each in re.findall(r"rgba\(194,87,26,([\d.]+)\)", strips)]
    assert len(shades) == 8
    assert (
        shades.index(max(shades)) == 7
    )  # the linear law, on the other vehicle, in the second half
    assert "40 cm" in strips


def test_a_study_without_the_two_factors_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match="factors controller and vehicle"):
        write_page(finished(tmp_path, second="plant"), tmp_path / "report.html")
