"""Statistics of the low-rate study, against those that its thesis published."""

from pathlib import Path

import numpy as np
import pytest

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.errors import StudyError
from vehicled.offline.studies.low_rate import (
    CROSS_TRACK,
    HEADING,
    LAW,
    MANOEUVRE,
    MONOTONE,
    PUBLISHED_400_CM,
    PUBLISHED_LOWEST,
    PUBLISHED_QUARTILES,
    PUBLISHED_THRESHOLD_HZ,
    RATE,
    curve,
    quartiles,
    read_published,
    threshold_hz,
    two_gaussians,
    write_low_rate,
)
from vehicled.offline.studies.report import Finished
from vehicled.offline.studies.specification import parse

STUDY = """
report = "low_rate"
[factors]
course = ["thesis_st5", "thesis_dlc40"]
rate_hz = { from = 100, to = 400, step = 30, keys = ["tasks.control.rate_hz"] }
law = { cases = { mine = {}, theirs = {} } }
"""


@pytest.fixture(scope="module")
def published(real_data: Path) -> Path:
    file = real_data / "published_tables" / "hmmwv_pure_pursuit_rates.csv"
    if not file.exists():
        pytest.skip("needs the published table")
    return file


def test_the_published_statistics_follow_from_the_published_runs(published: Path) -> None:
    rows = read_published(published)
    for metric, scale, wanted in (
        (CROSS_TRACK, 100.0, PUBLISHED_QUARTILES[0]),
        (HEADING, 180 / np.pi, PUBLISHED_QUARTILES[1]),
    ):
        rates, values = curve(rows, metric, scale).complete
        assert len(rates) == 30
        assert [round(value, 2) for value in quartiles(values)] == list(wanted)
    rates, values = curve(rows, CROSS_TRACK, 100.0).complete
    assert threshold_hz(rates, values) == PUBLISHED_THRESHOLD_HZ
    at_400 = {
        row.levels[MANOEUVRE]: row.metrics[CROSS_TRACK] for row in rows if row.levels[RATE] == 400
    }
    assert {
        name: round(100 * (value or 0), 1) for name, value in at_400.items()
    } == PUBLISHED_400_CM
    fit = two_gaussians(rates, values)
    assert fit is not None
    assert fit[1] > 0.9
    for name, (rate, low_cm) in PUBLISHED_LOWEST.items():
        of_one = {row.levels[RATE]: row for row in rows if row.levels[MANOEUVRE] == name}
        assert round(100 * (of_one[rate].metrics[CROSS_TRACK] or 0), 1) == low_cm
        assert all(row.outcome == "finished" for at, row in of_one.items() if at >= rate)
        assert rate == 60 or of_one[rate - 10].outcome != "finished"


def test_the_threshold_of_any_monotone_curve_is_the_same() -> None:
    rates = np.arange(110.0, 401.0, 10.0)
    assert {
        threshold_hz(rates, [function(rate) for rate in rates]) for function in MONOTONE.values()
    } == {180.0}


def _study(folder: Path, *, unfinished: bool = False) -> Finished:
    specification = parse(STUDY, folder / "low.toml")
    rows = []
    for point in specification.points():
        done = not (
            unfinished and point.levels[RATE] < 150 and point.levels[MANOEUVRE] == "thesis_dlc40"
        )
        metrics = {CROSS_TRACK: 0.05 + 1 / point.levels[RATE], HEADING: 0.01} if done else {}
        rows.append(
            RunRow(
                key=str(point.number),
                number=point.number,
                levels=point.levels,
                outcome="finished" if done else "failed",
                why="",
                metrics=metrics,
            )
        )
    return Finished(specification, rows, {}, folder)


def test_a_rate_at_which_one_does_not_finish_has_no_mean(tmp_path: Path) -> None:
    made = curve(
        [row for row in _study(tmp_path, unfinished=True).rows if row.levels[LAW] == "mine"],
        CROSS_TRACK,
        100.0,
    )
    rates, values = made.complete
    assert rates.min() == 160
    assert values[0] == pytest.approx(100 * (0.05 + 1 / 160))


def test_the_page_shows_what_did_not_finish(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    write_low_rate(_study(tmp_path, unfinished=True), page)
    text = page.read_text()
    assert "did not finish" in text
    assert text.count("data:image/svg+xml;base64,") == 3
    assert "The threshold is an artefact" in text
    # The made-up error is 5 cm + 1 m / (f / Hz), and DLC40 does not finish below 150 Hz.
    assert "to 6.0 at 100 Hz</td>" in text
    assert "to 5.6 at 160 Hz</td>" in text
    assert "as published: 6 of 9; mine: 0 of 9" in text


@pytest.mark.parametrize("line", ["St5,60,1,wide,0.1", "St5,60,1", "St5,sixty,1,1.0,0.1"])
def test_a_wrong_published_table_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    file = tmp_path / "p.csv"
    file.write_text(
        f"maneuver,rate_hz,finished,mean_cte_cm,mean_heading_error_deg\nSt5,70,1,1.0,0.1\n{line}\n"
    )
    with pytest.raises(StudyError, match="line 3"):
        read_published(file)
