"""The gap between simulated and real runs: the published quantities, the statistics, what is
refused, and the command."""

import json
from collections.abc import Callable
from math import exp, inf, log, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

import vehicled as v
from tests import log_bench
from tests import recordings_bench as bench
from tests.grid import sampled
from vehicled.cli import main
from vehicled.core.messages import GnssFix
from vehicled.daemon.reference import too_coarse
from vehicled.offline.gap.errors import GapError
from vehicled.offline.gap.gap import ALL, compare_sets
from vehicled.offline.gap.quantities import JudgeTrack, MeasuredRun, flatness, measure
from vehicled.offline.gap.runs import JudgedRun, JudgingTask, RunSet, find, rates_hz_of
from vehicled.offline.gap.statistics import DISTANCES, compare, labellings, wasserstein
from vehicled.offline.recordings.recording import RecordedMotion
from vehicled.offline.studies.conduct import RunRow
from vehicled.offline.studies.table import RunTable

SECOND = 1_000_000_000


def truth_of(t_s: np.ndarray, speed: np.ndarray) -> RecordedMotion:
    nothing = np.zeros(len(t_s))
    return RecordedMotion(np.round(t_s * 1e9).astype(np.int64), nothing, nothing, nothing, speed)


def track_of(t_s: np.ndarray, speed: np.ndarray, **columns: np.ndarray) -> JudgeTrack:
    nothing = np.zeros(len(t_s))
    given = {"x_m": nothing, "y_m": nothing, "yaw_rad": nothing, "nis": nothing} | columns
    return JudgeTrack(t_ns=np.round(t_s * 1e9).astype(np.int64), speed_mps=speed, **given)


def run_of(
    values: np.ndarray, manoeuvre: str = "", name: str = "r", duration_s: float = 10.0
) -> JudgedRun:
    quantities = {
        "E": float(values[0]),
        "S": float(values[1]),
        "position": 0.0,
        "heading": 0.0,
        "nis": 1.0,
    }
    measured = MeasuredRun(quantities, duration_s, 1.0)
    return JudgedRun(
        name=name,
        path=name,
        manoeuvre=manoeuvre,
        measured=measured,
        truth_hz=50.0,
        rates_hz={"GnssFix": 10.0},
    )


def test_flatness_is_the_published_formula() -> None:
    signal = np.random.default_rng(1).normal(size=64)
    magnitudes = [
        abs(sum(signal[n] * np.exp(-2j * np.pi * k * n / 64) for n in range(64))) for k in range(64)
    ]
    assert flatness(signal) == pytest.approx(
        exp(sum(map(log, magnitudes)) / 64) / (sum(magnitudes) / 64)
    )


@pytest.mark.parametrize(
    "signal", [np.zeros(64), np.full(64, 3.0), np.sin(2 * np.pi * np.arange(64) / 16)]
)
def test_a_signal_of_few_lines_has_no_flatness(signal: np.ndarray) -> None:
    assert flatness(signal) == 0.0


def test_the_average_over_values_and_times_leaves_a_ramp_as_it_is() -> None:
    t = np.arange(0.0, 10.0, 1 / 35)
    found = measure(
        truth_of(np.arange(0.0, 10.0, 0.02), np.arange(0.0, 10.0, 0.02)), track_of(t, t)
    )
    # Before the middle of the first two estimates the average is not known.
    assert found.values["E"] < 0.005


@given(offset=st.floats(-2.0, 2.0), rate_hz=st.floats(5.0, 200.0))
def test_a_constant_error_is_the_error_at_any_rate(offset: float, rate_hz: float) -> None:
    truth_s, t = np.arange(0.0, 12.0, 0.02), np.arange(0.0, 12.0, 1 / rate_hz)
    speed = 1.0 + 0.0 * truth_s
    found = measure(truth_of(truth_s, speed), track_of(t, 1.0 + offset + 0.0 * t))
    assert found.values["E"] == pytest.approx(abs(offset), abs=1e-9)
    assert found.values["S"] == 0.0


def test_the_longest_stretch_without_a_gap_is_judged() -> None:
    t = np.concatenate([np.arange(0.0, 4.0, 0.02), np.arange(6.0, 20.0, 0.02)])
    estimated_s = np.arange(0.0, 20.0, 1 / 35)
    wrong_early = np.where(estimated_s < 5.0, 9.0, 1.0)
    found = measure(truth_of(t, np.ones(len(t))), track_of(estimated_s, wrong_early))
    assert found.values["E"] < 1e-9
    assert found.share == pytest.approx(0.7, abs=0.01)


@pytest.mark.parametrize(
    ("speed", "estimate", "said"),
    [
        (np.full(500, np.nan), np.ones(500), "no true speed"),
        (np.ones(500), np.full(500, np.nan), "gave no speed"),
        (np.where(np.arange(500) < 60, 1.0, np.nan), np.ones(500), "at least 2 s"),
    ],
)
def test_what_cannot_be_measured_is_said(
    speed: np.ndarray, estimate: np.ndarray, said: str
) -> None:
    t = 0.02 * np.arange(500)
    with pytest.raises(GapError, match=said):
        measure(truth_of(t, speed), track_of(t, estimate))


def test_unknown_columns_are_not_numbers() -> None:
    t = 0.02 * np.arange(500)
    nothing = np.full(500, np.nan)
    found = measure(
        truth_of(t, np.ones(500)), track_of(t, np.ones(500), yaw_rad=nothing, nis=nothing)
    )
    assert np.isnan(found.values["heading"])
    assert np.isnan(found.values["nis"])


def test_each_measured_position_counts_once_in_the_nis() -> None:
    t = 0.02 * np.arange(500)
    nis = np.repeat([1.0, 3.0, 2.0, 6.0], 125)
    assert measure(truth_of(t, np.ones(500)), track_of(t, np.ones(500), nis=nis)).values[
        "nis"
    ] == pytest.approx(1.5)


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=12), st.integers(0, 2**32 - 1))
def test_distances_are_distances(values: list[float], seed: int) -> None:
    a = np.array(values)
    b = np.random.default_rng(seed).normal(size=len(a))
    for distance in DISTANCES.values():
        assert distance(a, a) == pytest.approx(0.0, abs=1e-6)
        assert distance(a, b) == pytest.approx(distance(b, a))
        assert distance(a, b) >= 0.0
    # Of sets of one size it is the mean distance of the sorted values.
    assert wasserstein(a, b) == pytest.approx(
        float(np.mean(np.abs(np.sort(a) - np.sort(b)))), abs=1e-12
    )


def sets(seed: int, shift: float, n: int = 10) -> tuple[np.ndarray, np.ndarray]:
    """Return real and simulated runs of lognormal quantities, as errors are; ``shift`` in standard
    deviations of the logarithm."""
    random = np.random.default_rng(seed)
    return tuple(
        np.exp(random.normal((-1.0 + at, -4.0), (0.3, 0.5), (n, 2))) for at in (0.0, 0.3 * shift)
    )  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("draws", "fewest", "most"), sampled([(30, 0, 6), (200, 1, 19)], lambda case: case[0] == 30)
)
def test_false_alarms_are_as_rare_as_stated_and_a_wrong_model_is_found(
    draws: int, fewest: int, most: int
) -> None:
    """Draws of two sets of one distribution: at 5 % this many alarms are expected in 99.9 % of all
    such trials."""
    alarms = sum(
        compare(*sets(seed, 0.0), ("E", "S"), resamples=59).p <= 0.05 for seed in range(draws)
    )
    assert fewest <= alarms <= most
    assert all(
        compare(*sets(seed, 3.0), ("E", "S"), resamples=59).p <= 0.05 for seed in range(draws // 10)
    )


def test_a_comparison_repeats_and_its_parts_fit_together() -> None:
    real, simulated = sets(5, 2.0)
    found = compare(real, simulated, ("E", "S"), resamples=99)
    assert found == compare(real, simulated, ("E", "S"), resamples=99)
    assert found.total == pytest.approx((found.distances["E"] + found.distances["S"]) / 2)
    assert found.distances["E"] == pytest.approx(wasserstein(real[:, 0], simulated[:, 0]))
    assert found.left_out[0] <= found.total <= found.left_out[1] * 1.2
    assert found.interval.low < found.total < found.interval.high
    assert found.floor.median < found.total


def test_manoeuvres_are_resampled_within_themselves() -> None:
    """Two manoeuvres far apart, alike in both sets: not to keep them apart would hide a difference
    in one of them."""
    random = np.random.default_rng(3)
    groups = ["line"] * 8 + ["circle"] * 8
    base = np.repeat([[0.1, 0.01], [5.0, 0.5]], 8, axis=0)
    real = base + random.normal(0.0, 0.01, (16, 2))
    simulated = (
        base + random.normal(0.0, 0.01, (16, 2)) + np.repeat([[0.05, 0.0], [0.0, 0.0]], 8, axis=0)
    )
    apart = compare(
        real, simulated, ("E", "S"), real_groups=groups, simulated_groups=groups, resamples=199
    )
    assert apart.p <= 0.05
    assert compare(real, simulated, ("E", "S"), resamples=199).p > 0.05
    assert labellings(groups, groups) == 12870**2


@pytest.mark.parametrize(
    ("real", "simulated", "said"),
    [(1, 10, "one real run"), (3, 2, "too few"), (10, 0, "0 simulated"), (0, 3, "0 real")],
)
def test_too_few_runs_say_what_cannot_be_said(real: int, simulated: int, said: str) -> None:
    random = np.random.default_rng(1)
    a, b = (
        RunSet(label, [run_of(random.random(2)) for _ in range(n)])
        for label, n in (("real", real), ("model", simulated))
    )
    found = compare_sets(a, [b])
    assert found.models[0].different is None
    assert "cannot be said" in found.models[0].verdict
    assert said in found.text()


def test_different_lengths_rates_inputs_and_manoeuvres_are_named() -> None:
    random = np.random.default_rng(2)
    real = RunSet(
        "real",
        [run_of(random.random(2), "circle", f"c{k}") for k in range(6)]
        + [run_of(random.random(2), "line", "l")],
    )
    other = [run_of(random.random(2), "circle", f"s{k}", duration_s=100.0) for k in range(6)]
    other = [
        JudgedRun(
            **{name: getattr(run, name) for name in run.__struct_fields__}
            | {"rates_hz": {"GnssFix": 5.0, "ImuSample": 100.0}}
        )
        for run in other
    ]
    text = compare_sets(real, [RunSet("model", other)]).text()
    for said in (
        "real runs of line have no counterpart",
        "last 10 s and simulated ones 100 s",
        "GnssFix comes at 10 Hz",
        "have ImuSample",
    ):
        assert said in text


def test_a_velocity_in_fixes_is_an_input_of_its_own() -> None:
    for velocity, names in (
        ((1.0, 0.0, 0.0), {"GnssFix", "GNSS velocity"}),
        ((nan, nan, nan), {"GnssFix"}),
    ):
        fixes = [
            GnssFix(k * 100_000_000, k * 100_000_000, 0.7, 0.1, 0.0, velocity) for k in range(20)
        ]
        found = rates_hz_of(fixes)
        assert set(found) == names
        assert list(found.values()) == pytest.approx([10.0] * len(names))


def noisy_drive(path: Path, seed: int, white_m: float) -> Path:
    """Write a drive under motion capture whose positions have white noise and a slow walk."""
    d = bench.drive(seconds=9.0, standing_s=1.0)
    random = np.random.default_rng(seed)
    walk = np.cumsum(random.normal(0.0, 0.01, (len(d["t"]), 2)), axis=0)
    noise = walk + random.normal(0.0, white_m, walk.shape)
    columns = {
        "time_s": d["t"], "noisy_x_m": d["x"] + noise[:, 0], "noisy_y_m": d["y"] + noise[:, 1],
        "mocap_x_m": d["x"], "mocap_y_m": d["y"], "ekf_x_m": d["x"], "ekf_y_m": d["y"],
        "mocap_heading_rad": d["yaw"], "throttle_cmd": d["throttle"], "steering_cmd": d["steering"],
    }  # fmt: skip
    return bench.write(path, columns)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("gap")
    for number, (name, white_m) in enumerate((("real", 0.02), ("alike", 0.02), ("noisy", 0.4))):
        for k in range(5):
            noisy_drive(root / name / f"run{k}.csv", 100 * number + k, white_m)
    return {path.name: path for path in root.iterdir()}


def command(*words: str | Path) -> int:
    return main(["gap", *map(str, words), "--jobs", "1"])


def test_the_command_finds_the_wrong_model_and_only_it(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sides: list[str | Path] = [
        "--real",
        folders["real"],
        "--sim",
        folders["alike"],
        "--sim",
        f"wrong={folders['noisy']}",
    ]
    pictures = {f"--{name}": tmp_path / f"{name}.png" for name in ("plot", "histograms", "speeds")}
    options = [word for pair in pictures.items() for word in pair]
    assert command(*sides, *options, "--runs", tmp_path / "runs.csv", "--json") == 1
    found = json.loads(capsys.readouterr().out)
    assert {name: model["different"] for name, model in found["models"].items()} == {
        "alike": False,
        "wrong": True,
    }
    assert found["ranks"][ALL] == {"alike": 1, "wrong": 2}
    assert all(file.read_bytes().startswith(b"\x89PNG") for file in pictures.values())
    rows = (tmp_path / "runs.csv").read_text().splitlines()
    assert len(rows) == 16
    assert rows[0].startswith("set,run,manoeuvre,E,S")


def test_python_gives_what_the_command_gives(folders: dict[str, Path]) -> None:
    found = v.gap(
        [folders["real"]], {"wrong": [folders["noisy"]]}, quantities=["position"], distance="energy"
    )
    comparison = found.models[0].manoeuvres[ALL]
    values = [
        [run.measured.values["position"] for run in each.runs]
        for each in (found.real, found.models[0].simulated)
    ]
    assert comparison.total == pytest.approx(DISTANCES["energy"](*map(np.array, values)))
    assert found.models[0].different


@pytest.fixture(scope="module")
def study(folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a study of two sensors whose logs are the runs of two folders."""
    folder = tmp_path_factory.mktemp("study")
    runs = [(name, k) for name in ("alike", "noisy") for k in range(5)]
    source = (
        'keep_logs = "all"\n[factors]\nsensor.cases.alike = {}\nsensor.cases.noisy = {}\nseed '
        "= [0, 1, 2, 3, 4]\n"
    )
    with RunTable(folder, create=True) as table:
        table.keep_facts({"version": "1", "source": source, "path": str(folder / "sensors.toml")})
        table.plan(
            [(n, f"{n:016x}", {"sensor": name, "seed": k}) for n, (name, k) in enumerate(runs)],
            first=True,
        )
        for n, (name, k) in enumerate(runs):
            log = str(folders[name] / f"run{k}.csv")
            table.add(
                RunRow(key=f"{n:016x}", number=n, levels={}, outcome="finished", why="", log=log)
            )
    return folder


def test_the_logs_of_a_study_are_grouped_by_a_factor(
    study: Path, folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert command("--real", folders["real"], "--sim", study, "--by", "sensor", "--json") == 1
    found = json.loads(capsys.readouterr().out)["models"]
    assert {name: (model["different"], model["comparisons"][ALL]["simulated"]) for name,
        model in found.items()} == {
        "alike": (False, 5), "noisy": (True, 5),
    }  # fmt: skip
    assert command("--real", folders["real"], "--sim", f"{study}:sensor=noisy", "--json") == 1
    chosen = json.loads(capsys.readouterr().out)["models"]
    assert [model["comparisons"] for model in chosen.values()] == [found["noisy"]["comparisons"]]
    python = v.gap([folders["real"]], [f"{study}:seed=0"], by="sensor")
    assert [(each.simulated.label, len(each.simulated.runs)) for each in python.models] == [
        ("alike", 1),
        ("noisy", 1),
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{study}", "--by", "senser"], "did you mean sensor"),
        (["{study}:sensor=white"], "sensor has no level 'white': it has alike, noisy"),
        (["{real}", "--by", "sensor"], "is no folder of a study"),
        (["{study}:sensor=alike,seed=9"], "seed has no level '9'"),
    ],
)
def test_what_a_study_has_not_is_named(
    words: list[str],
    said: str,
    study: Path,
    folders: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    sim = [word.format(study=study, real=folders["alike"]) for word in words]
    assert command("--real", folders["real"], "--sim", *sim) == 2
    assert said in capsys.readouterr().err


def test_csv_files_are_read_by_a_mapping(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    d = bench.drive(seconds=8.0, standing_s=1.0)
    for name, error in (("real", 0.0), ("sim", 1e-6)):
        columns = {
            "t": d["t"], "lat": 47.0 + d["y"] / 111_200.0, "lon": 8.0 + d["x"] / 76_000.0 + error,
            "x": d["x"], "y": d["y"], "yaw": d["yaw"], "v": d["speed"],
        }  # fmt: skip
        for k in range(2):
            path = tmp_path / name / f"{k}.csv"
            path.parent.mkdir(exist_ok=True)
            lines = [",".join(f"{value:.9g}" for value in row) for row in zip(*columns.values())]
            path.write_text("\n".join([",".join(columns), *lines]) + "\n")
    mapping = tmp_path / "map.toml"
    mapping.write_text(MAPPING)
    assert command("--real", tmp_path / "real", "--sim", tmp_path / "sim", "--map", mapping) == 2
    assert "2 real and 2 simulated runs are too few" in capsys.readouterr().out


def test_real_and_simulated_paths_are_distinguished_when_they_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Both have the same columns; only their positions show the grid of a receiver, or none."""
    for k in range(2):
        bench.path_following(tmp_path / "real" / f"{k}.csv")
        bench.path_following(tmp_path / "sim" / f"{k}.csv", grid_m=0.0)
    sides = ("--real", tmp_path / "real", "--sim", tmp_path / "sim")
    for kinds in ((), ("--kind", "path"), ("--kind", "path", "--kind", "path_sim")):
        assert command(*sides, *kinds) == 2
        assert "2 real and 2 simulated runs are too few" in capsys.readouterr().out
    assert (
        command("--real", tmp_path / "sim", "--sim", f"other={tmp_path / 'real'}", "--kind", "path")
        == 2
    )
    assert (
        "0.csv is left out: is of kind path_sim, which --kind leaves out" in capsys.readouterr().out
    )
    assert command(*sides, "--kind", "plain") == 2
    assert "no recording of kind plain; there are: path, path_sim" in capsys.readouterr().err


def test_a_judge_that_never_starts_names_what_the_run_lacks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = log_bench.write(tmp_path / "run.mcap", log_bench.drive(1, seconds=5))
    assert (
        command(
            "--real",
            run,
            "--sim",
            log_bench.write(tmp_path / "sim.mcap", log_bench.drive(2, seconds=5)),
        )
        == 2
    )
    printed = capsys.readouterr().out
    assert (
        "the judge ekf4 never started: it lacks a heading (Heading) or a GNSS velocity" in printed
    )
    assert "the run has GnssFix at 10 Hz" in printed


def test_folders_of_a_study_are_no_manoeuvres(tmp_path: Path) -> None:
    for folder in ("0123456789abcdef", "circle"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "run.csv").touch()
    assert [
        run.folder for run in find([tmp_path], JudgingTask(judge="ekf4", mapping="map.toml"))
    ] == ["", "circle"]


MAPPING = """
[time]
column = "t"
unit = "s"

[[message]]
type = "GnssFix"
[message.fields]
latitude_rad = { column = "lat", unit = "deg" }
longitude_rad = { column = "lon", unit = "deg" }
fix_type = "FIX_3D"
height_m = 400.0
position_covariance_m2 = { sigma = [0.1, 0.1, 0.2] }

[[message]]
type = "Heading"
[message.fields]
yaw_rad = { column = "yaw" }
sigma_rad = 0.02
kind = "MOVING_BASE"

[[message]]
type = "GroundTruth"
[message.fields]
x_m = { column = "x" }
y_m = { column = "y" }
yaw_rad = { column = "yaw" }
speed_mps = { column = "v" }
yaw_rate_radps = 0.0
wheel_angle_rad = 0.0
"""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            lambda f: ["--real", f["real"], "--sim", f"a={f['real']}"],
            "named as real and as simulated",
        ),
        (lambda f: ["--real", f["real"], "--sim", f["real"]], "'real' is taken"),
        (
            lambda f: ["--real", f["real"], "--sim", f["real"].parent / "nothing"],
            "no such file or folder",
        ),
        (lambda f: ["--real", f["real"], "--sim", f["alike"], "--judge", "ekf5"], "ekf5"),
        (
            lambda f: ["--real", f["real"], "--sim", f["alike"], "--set", "speed=1"],
            "no parameter speed",
        ),
        (
            lambda f: ["--real", f["real"], "--sim", f["alike"], "--quantity", "W"],
            "unknown quantity 'W'",
        ),
        (
            lambda f: ["--real", f["real"], "--sim", f"a={f['alike']}", "--sim", f"a={f['noisy']}"],
            "'a' is taken",
        ),
        (
            lambda f: ["--real", f["real"], "--sim", f["alike"], "--kind", "indoor"],
            "unknown kind 'indoor'",
        ),
        (lambda f: ["--real", f["real"], "--sim", f["alike"], "--plot", "gap.txt"], "must end in"),
    ],
)
def test_mistakes_are_refused_with_their_cure(
    words: Callable[[dict[str, Path]], list[Any]],
    said: str,
    folders: dict[str, Path],
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert command(*words(folders)) == 2
    assert said in capsys.readouterr().err


def test_a_manoeuvre_that_no_run_has_is_named(
    folders: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert (
        command("--real", folders["real"], "--sim", folders["alike"], "--manoeuvre", "slalom") == 2
    )
    assert "belongs to none of the manoeuvres slalom" in capsys.readouterr().out


def test_a_log_without_truth_is_left_out_with_the_reason(
    folders: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (folders["alike"] / "run0.csv").read_text().splitlines()
    head = lines[0].split(",")
    hidden = {head.index("mocap_x_m"), head.index("mocap_y_m")}
    rows = [
        ",".join("nan" if k in hidden else cell for k, cell in enumerate(line.split(",")))
        for line in lines[1:]
    ]
    (tmp_path / "blind.csv").write_text("\n".join([lines[0], *rows]) + "\n")
    assert command("--real", folders["real"], "--sim", tmp_path) == 2
    printed = capsys.readouterr().out
    assert "blind.csv is left out" in printed


def test_a_truth_that_is_too_coarse_is_named() -> None:
    real, other = (
        RunSet(label, [run_of(np.array([0.2, 0.1]), name=f"{label}{k}") for k in range(6)])
        for label in ("real", "model")
    )
    assert "cannot judge" not in compare_sets(real, [other]).text()
    coarse = "the truth of 6 runs claims 0.08 m/s, more than a third of their E of 0.2"
    for sigma, said in ((0.05, ""), (0.08, coarse), (inf, "no accuracy")):
        runs = [replace(run, truth_sigmas={"E": sigma}) for run in real.runs]
        text = compare_sets(RunSet("real", runs), [other]).text()
        assert ("cannot judge" in text) == bool(said)
        assert said in text


@pytest.mark.parametrize(
    ("sigma", "error", "coarse"),
    [(0.0, 0.0, False), (0.3, 1.0, False), (0.34, 1.0, True), (nan, 1.0, False)],
)
def test_a_truth_must_be_three_times_better(sigma: float, error: float, coarse: bool) -> None:
    assert too_coarse(sigma, error) is coarse
