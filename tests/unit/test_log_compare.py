"""``vehicled log compare``: finds what was made worse, and only that."""

import json
from math import degrees
from pathlib import Path

import numpy as np
import pytest

from tests import log_bench as bench
from vehicled import cli
from vehicled.core.messages import (
    ControlCommand,
    EstimatorStatus,
    GroundTruth,
    Message,
    StateEstimate,
)
from vehicled.log.errors import LogError
from vehicled.offline.analysis.compare.blocks import Counts, Quantile, Ratio
from vehicled.offline.analysis.compare.comparison import (
    Comparison,
    MetricComparison,
    compare,
    judge,
)
from vehicled.offline.analysis.compare.gather import Measure, RunStatistics, gather
from vehicled.paths.course import course_from_waypoints
from vehicled.paths.stored import to_json

pytestmark = pytest.mark.xdist_group("compare")  # what the tests look at is made once


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("compare")
    drives = {
        "old": bench.drive(1),
        "same": bench.drive(2),
        "slow": bench.drive(3, execution_us=450.0, missed=0.05),
        "wide": bench.drive(4, error_m=0.1, fixed=False),
        "short": bench.drive(5, seconds=4),
    }
    return {
        name: bench.write(folder / f"{name}.mcap", messages) for name, messages in drives.items()
    }


def row(found: Comparison, group: str, metric: str) -> MetricComparison:
    return next(row for row in found.rows if (row.group, row.metric) == (group, metric))


def test_an_unchanged_build_has_nothing_but_noise(logs: dict[str, str]) -> None:
    found = compare([logs["old"]], [logs["same"]])
    assert found.count("regression") == found.count("improvement") == 0
    execution = row(found, "control", "execution p50")
    assert execution.old == pytest.approx(300.0, rel=0.05)
    assert execution.low is not None
    assert execution.high is not None
    assert execution.low < 0.0 < execution.high
    assert found.block_s == [pytest.approx(1.0)] * 2
    assert "blocks of 1 s" in found.to_text()


def test_a_slower_build_is_named_and_an_improvement_is_its_mirror(logs: dict[str, str]) -> None:
    found = compare([logs["old"]], [logs["slow"]])
    for metric in ("execution p50", "execution p99", "response p50", "CPU time", "missed"):
        assert row(found, "control", metric).verdict == "regression", metric
    assert row(found, "control", "lateness p50").verdict == "noise"
    assert row(found, "estimate", "position RMS").verdict == "noise"
    mirrored = compare([logs["slow"]], [logs["old"]])
    assert row(mirrored, "control", "execution p50").verdict == "improvement"
    assert row(mirrored, "control", "missed").verdict == "improvement"


def test_what_changed_stands_first_and_the_rest_on_demand(logs: dict[str, str]) -> None:
    found = compare([logs["old"]], [logs["wide"]])
    brief, every = found.to_text(every=False), found.to_text()
    assert brief.startswith(f"{len(found.rows)} metrics: {found.count('regression')} regression")
    shown, all_shown = (
        [line for line in text.splitlines() if " .. " in line] for text in (brief, every)
    )
    assert len(all_shown) > 2 * len(shown)
    changes = [line.endswith(("regression", "improvement")) for line in shown]
    assert changes == sorted(changes, reverse=True)
    assert sum(changes) == found.count("regression") + found.count("improvement")
    assert "--all shows them" in brief
    assert "--all" not in every


def test_errors_of_the_estimate_and_what_is_better_when_higher(logs: dict[str, str]) -> None:
    found = compare([logs["old"]], [logs["wide"]])
    position = row(found, "estimate", "position RMS")
    assert position.verdict == "regression"
    assert position.new == pytest.approx(0.1 * 2**0.5, rel=0.15)
    assert row(found, "tracking", "cross-track RMS").verdict == "regression"
    assert row(found, "gnss", "RTK fixed").verdict == "regression"
    assert row(found, "control", "execution p50").verdict == "noise"


def test_the_true_tracking_error_is_that_of_the_vehicle_not_of_its_estimate(tmp_path: Path) -> None:
    """The estimate lies 0.2 m to the left on the way east, and the controller sees itself there;
    the vehicle is 0.05 m off."""
    messages: list[tuple[int, Message]] = []
    for n in range(1000):
        t_ns = bench.START_NS + 10_000_000 * n
        x = 0.01 * n
        estimate = StateEstimate(
            t_ns, t_ns, x, 0.25, 0.1, 1.0, 0.0, bench.COVARIANCE, EstimatorStatus.RUNNING
        )
        command = ControlCommand(
            t_ns + 1000, t_ns, 0.0, 0.1, 0.0, cross_track_m=0.25, heading_error_rad=-0.1
        )
        messages += [
            (t_ns, GroundTruth(t_ns, t_ns, x, 0.05, 0.0, 1.0, 0.0, 0.0)),
            (t_ns, estimate),
            (t_ns + 1000, command),
        ]
    east = to_json(course_from_waypoints("east", [0.0, 5.0, 20.0], [0.0, 0.0, 0.0])).decode()
    found = compare(
        [bench.write(tmp_path / "a.mcap", messages, course=east)] * 2,
        [tmp_path / "a.mcap"],
        resamples=20,
    )
    assert row(found, "tracking", "cross-track RMS").old == pytest.approx(0.25)
    assert row(found, "tracking", "true cross-track RMS").old == pytest.approx(0.05)
    assert row(found, "estimate", "position RMS").old == pytest.approx(0.2)
    assert row(found, "estimate", "heading RMS").old == pytest.approx(degrees(0.1))


def test_what_is_not_known_is_not_judged(logs: dict[str, str]) -> None:
    found = compare([logs["old"]], [logs["short"]])
    assert {r.verdict for r in found.rows} == {"unknown"}
    unchanged = compare([logs["old"]], [logs["same"]], resamples=50)
    assert row(unchanged, "control", "execution p99.9").note.startswith("too few samples")
    assert "three runs" in row(unchanged, "log", "writer CPU").note


def test_the_same_files_give_the_same_numbers(logs: dict[str, str]) -> None:
    found = [compare([logs["old"]], [logs["wide"]], resamples=50).to_json() for _ in range(2)]
    assert found[0] == found[1]


def test_the_command_and_its_status(
    logs: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["log", "compare", logs["old"], logs["slow"], "--fail-on", "regression"]) == 1
    assert cli.main(["log", "compare", logs["old"], logs["same"], "--fail-on", "regression"]) == 0
    capsys.readouterr()
    several = [
        "log",
        "compare",
        logs["old"],
        logs["same"],
        "--against",
        logs["wide"],
        logs["wide"],
        "--json",
    ]
    assert cli.main(several) == 0
    shown = json.loads(capsys.readouterr().out)
    assert len(shown["old"]) == len(shown["new"]) == 2
    assert cli.main(["log", "compare", logs["old"]]) == 2


def test_a_file_that_is_none(tmp_path: Path, logs: dict[str, str]) -> None:
    wrong = tmp_path / "wrong.mcap"
    wrong.write_bytes(b"\x89PNG\r\n\x1a\n")
    with pytest.raises(LogError, match="PNG"):
        compare([logs["old"]], [wrong])
    with pytest.raises(LogError, match="two sides"):
        judge([], [])


# ------------------------------------------------------------------ statistics


def synthetic(rng: np.random.Generator, shift: float, blocks: int = 40) -> RunStatistics:
    """A run whose samples remember the ones before over a fifth of a block."""
    noise = np.empty(blocks * 50)
    state = 0.0
    for k, step in enumerate(rng.normal(size=len(noise))):
        state = 0.9 * state + 0.436 * step
        noise[k] = state
    block = np.repeat(np.arange(blocks), 50)
    counts, mean = Counts(blocks), Ratio(blocks)
    values = 1e5 * np.exp(0.3 * noise) * (1.0 + shift)
    counts.add(block, values.astype(np.int64))
    mean.add(block, values)
    statistics = {
        Measure("a", "p50", "us", 0.0): Quantile(counts, 0.5, 1e3),
        Measure("a", "mean", "us", 0.0): mean,
    }
    return RunStatistics(["x"], bench.header(), blocks, 10**9, statistics, {}, [])  # type: ignore[arg-type]


def test_intervals_cover_and_false_alarms_are_rare() -> None:
    rng = np.random.default_rng(7)
    covered = alarms = 0
    for _ in range(40):
        found = judge([synthetic(rng, 0.0)], [synthetic(rng, 0.0)], resamples=300, threshold=0.0)
        mean = found.rows[1]
        assert mean.low is not None
        assert mean.high is not None
        covered += mean.low <= 0.0 <= mean.high
        alarms += found.count("regression") + found.count("improvement") > 0
    # 95 % and 5 % are meant; single samples instead of blocks would cover a third.
    assert covered >= 33
    assert alarms <= 6


def test_runs_that_differ_by_themselves_need_more_than_one_of_each() -> None:
    rng = np.random.default_rng(10)

    def alarms(runs: int) -> int:
        count = 0
        for _ in range(20):
            old, new = (
                [synthetic(rng, 0.1 * rng.normal(), 10) for _ in range(runs)] for _ in range(2)
            )
            found = judge(old, new, resamples=200, threshold=0.0)
            count += found.count("regression") + found.count("improvement") > 0
        return count

    assert alarms(1) > alarms(5)
    assert alarms(5) <= 4


def test_a_change_of_a_fifth_is_found() -> None:
    rng = np.random.default_rng(8)
    found = [judge([synthetic(rng, 0.0)], [synthetic(rng, 0.2)], resamples=300) for _ in range(10)]
    assert sum(c.rows[1].verdict == "regression" for c in found) >= 9


def test_quantiles_are_those_of_the_samples() -> None:
    rng = np.random.default_rng(9)
    values = (1e4 * np.exp(rng.normal(size=20_000))).astype(np.int64)
    counts = Counts(4)
    counts.add(np.arange(20_000) % 4, values)
    for share in (0.5, 0.99, 0.999):
        quantile = Quantile(counts, share, 1.0)
        assert quantile.evaluate([quantile], [np.ones((1, 4))])[0] == pytest.approx(
            np.quantile(values, share), rel=0.023
        )
    zeros = Counts(1)
    zeros.add(np.zeros(3, np.int64), np.array([0, -5, 0]))
    quantile = Quantile(zeros, 0.5, 1.0)
    assert quantile.evaluate([quantile], [np.ones((1, 1))])[0] == 0.0


def test_gathering_counts_every_release(logs: dict[str, str]) -> None:
    run = gather(logs["slow"])
    missed = run.statistics[Measure("control", "missed", "%", 0.01)]
    assert missed.n == 3000
    assert missed.evaluate([missed], [np.ones((1, run.blocks))])[0] == pytest.approx(5.0, abs=1.5)
