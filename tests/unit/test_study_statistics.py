"""Effects and intervals of a study."""

import re
from itertools import pairwise
from math import isnan, nan
from typing import Any

import numpy as np
import pytest
from scipy import stats

from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.report import chart
from vehicled.offline.studies.statistics import Effect, effects, interval, proportion, quantiles


def row(number: int, value: float | None, outcome: Any = "finished", **levels: Any) -> RunRow:
    return RunRow(
        key=str(number), number=number, levels=levels, outcome=outcome, why="", metrics={"m": value}
    )


def test_the_interval_of_a_mean_is_that_of_scipy() -> None:
    sample = np.random.default_rng(5).normal(3.0, 1.0, 40)
    low, high = interval(list(enumerate(sample)))
    wanted = stats.bootstrap(
        (sample,), np.mean, method="percentile", n_resamples=20_000, rng=2
    ).confidence_interval
    assert low == pytest.approx(wanted.low, abs=0.03)
    assert high == pytest.approx(wanted.high, abs=0.03)


def test_the_interval_covers_the_mean_as_often_as_it_says() -> None:
    random = np.random.default_rng(7)
    covered = 0
    for _ in range(300):
        # Runs of one seed share their noise: without clusters the interval would cover far less
        # often.
        noise = random.normal(0.0, 1.0, 20)
        values = [
            (seed, noise[seed] + random.normal(0.0, 0.1)) for seed in range(20) for _ in range(5)
        ]
        low, high = interval(values)
        covered += low <= 0.0 <= high
    assert 0.88 <= covered / 300 <= 0.98


def test_changes_are_paired() -> None:
    noise = np.random.default_rng(1).normal(0.0, 10.0, 8)
    rows = [
        row(i, noise[i % 8] + (0.5 if i >= 8 else 0.0), seed=i % 8, law="b" if i >= 8 else "a")
        for i in range(16)
    ]
    first, second = effects(rows, "law", "m")
    assert isnan(first.change)
    assert second.change == pytest.approx(0.5)
    assert (second.change_low, second.change_high) == (pytest.approx(0.5), pytest.approx(0.5))
    assert second.high - second.low > 3.0


def test_only_finished_runs_count_and_their_number_is_shown() -> None:
    rows = [
        row(1, 1.0, seed=1, law="a"),
        row(2, 99.0, "failed", seed=2, law="a"),
        row(3, None, seed=3, law="a"),
    ]
    (effect,) = effects(rows, "law", "m")
    assert (effect.runs, effect.finished, effect.mean) == (3, 2, 1.0)
    assert isnan(effect.low)


def test_numbers_come_by_size_and_names_in_their_order() -> None:
    rows = [
        row(i, 1.0, hz=hz, law=law)
        for i, (hz, law) in enumerate([(100, "z"), (20, "a"), (60, "m")])
    ]
    assert [effect.level for effect in effects(rows, "hz", "m")] == [20, 60, 100]
    assert [effect.level for effect in effects(rows, "law", "m")] == ["z", "a", "m"]


def test_nothing_finished_is_no_crash() -> None:
    assert all(map(isnan, quantiles([row(1, None, "refused")], "m")))
    assert isnan(effects([row(1, None, "crashed", law="a")], "law", "m")[0].mean)
    assert effects([], "law", "m") == []


def test_a_proportion_has_its_interval() -> None:
    assert isnan(proportion(0, 0)[0])
    wanted = stats.binomtest(3, 50).proportion_ci(method="wilson")
    assert proportion(3, 50) == (
        pytest.approx(wanted.low, abs=1e-6),
        pytest.approx(wanted.high, abs=1e-6),
    )


def test_labels_of_sampled_levels_neither_touch_nor_leave_the_chart() -> None:
    levels = (0.4001, 0.5016, 0.5614, 0.6049, 0.7326, 0.8587, 1.192356)
    picture = chart([Effect(level, 2, 2, 1.0, 0.9, 1.1, nan, nan, nan, 2) for level in levels])
    found = [
        (float(x), text)
        for x, text in re.findall(
            r'<text x="([\d.]+)" y="188" text-anchor="middle">([^<]+)<', picture
        )
    ]
    assert [text for _, text in found] == ["0.4001", "0.5614", "0.7326", "0.8587", "1.192"]
    ends = [(x - 3 * len(text), x + 3 * len(text)) for x, text in found]
    assert all(right < left for (_, right), (left, _) in pairwise(ends))
    assert ends[-1][1] <= 420
