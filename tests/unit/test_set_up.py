"""Constants of the estimator planar, found in drives without a truth: the search, the command, and
the benchmark that uses it."""

import json
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from tests import recordings_bench as bench
from vehicled.cli import main
from vehicled.estimation.counters import GateCounters
from vehicled.estimation.planar.params import PlanarParams
from vehicled.estimation.planar.state import SIZE, PlanarState, X, Y
from vehicled.estimation.planar.update import Context, fuse
from vehicled.offline.processes import WorkerPool
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.set_up import applied, cross_validated, find, prior
from vehicled.profile import load_profile

MISALIGNED_RAD, DRIVES = 0.2, 3
PARAMS = PlanarParams()


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("drives")
    for seed in range(DRIVES):
        bench.mocap(folder / f"drive{seed}.csv", misalignment_rad=MISALIGNED_RAD, seed=seed)
    return folder


def test_a_misalignment_is_found_without_a_truth(drives: Path) -> None:
    recordings = bench.load(drives, ["mocap"])
    found = find(recordings, PARAMS, recordings[0].vehicle)
    assert found.shown[0]
    assert not found.unused
    assert found.before.mean[0] == 0.0
    assert abs(found.after.mean[0] + MISALIGNED_RAD) < 0.04
    assert found.after.sigma[0] < 0.3 * found.before.sigma[0]


def test_constants_of_other_drives_make_a_drive_better(drives: Path) -> None:
    recordings = bench.load(drives, ["mocap"])
    held_out = cross_validated(recordings, PARAMS, recordings[0].vehicle, 2)
    assert [one.name for one in held_out] == [f"drive{seed}" for seed in range(DRIVES)]
    assert all(one.gain > 0.0 for one in held_out)
    assert sum(one.after_m for one in held_out) < 0.95 * sum(one.before_m for one in held_out)


def test_the_number_of_processes_changes_nothing(drives: Path) -> None:
    recordings = bench.load(drives, ["mocap"])
    with WorkerPool(2) as processes:
        found = find(recordings, PARAMS, recordings[0].vehicle, processes=processes)
        held_out = cross_validated(
            recordings, PARAMS, recordings[0].vehicle, 2, processes=processes
        )
    alone = find(recordings, PARAMS, recordings[0].vehicle)
    np.testing.assert_array_equal(found.after.mean, alone.after.mean)
    np.testing.assert_array_equal(found.after.sigma, alone.after.sigma)
    assert held_out == cross_validated(recordings, PARAMS, recordings[0].vehicle, 2)


def test_what_drives_do_not_show_stays(tmp_path: Path) -> None:
    """The heading of a gyro starts anew on each drive, and beside a gyro the yaw says nothing of
    the steering."""
    bench.outdoor(tmp_path / "one.csv")
    recordings = bench.load(tmp_path, ["rtk"])
    found = find(recordings, PARAMS, recordings[0].vehicle)
    assert not found.shown[0]
    assert not found.shown[3]
    assert not found.shown[4]
    assert found.shown[1], "at a constant throttle the speed shows the drive"
    for k in (0, 3, 4):
        assert found.after.mean[k] == found.before.mean[k]
        assert found.after.sigma[k] == found.before.sigma[k]


def test_constants_said_as_parameters_are_the_same_constants() -> None:
    vehicle = load_profile("art_published").vehicle
    before = prior(PARAMS, vehicle)
    assert applied(PARAMS, vehicle, before)[0] == PARAMS
    assert applied(PARAMS, vehicle, before)[1] == vehicle
    moved = type(before)(before.mean + np.array((0.1, 0.5, 0.2, 0.1, 0.01)), 0.5 * before.sigma)
    params, driven = applied(PARAMS, vehicle, moved)
    again = prior(params, driven)
    np.testing.assert_allclose(again.mean, moved.mean)
    np.testing.assert_allclose(again.sigma, moved.sigma)
    assert driven.steering.max_wheel_rad >= driven.steering.gain_rad, (
        "the stop must not cut off a larger gain"
    )


def test_drives_without_positions_are_refused(drives: Path) -> None:
    recordings = bench.load(drives, ["mocap"])
    for recording in recordings:
        object.__setattr__(recording, "inputs", [])
    with pytest.raises(RecordingError, match="never found its place"):
        find(recordings, PARAMS, recordings[0].vehicle)


def test_the_filter_sums_the_density_of_its_innovations() -> None:
    P = np.eye(SIZE) * 0.5
    P[X, Y] = P[Y, X] = 0.2
    state = PlanarState(
        x=np.zeros(SIZE), P=P, steering=0.0, throttle=0.0, yaw_rate_radps=0.0, rest_s=0.0,
        error_sigma_m=0.0, carrier=-1, heading_kind=-1, counters=GateCounters(),
    )  # fmt: skip
    context = Context(PARAMS, (0.0, 0.0, 0.0), (9.0, 12.0), 12.0, True)
    H = np.zeros((2, SIZE))
    H[0, X] = H[1, Y] = 1.0
    R = np.array(((0.3, 0.1), (0.1, 0.4)))
    residual = np.array((0.7, -0.4))
    after, _, _ = fuse(context, state, residual, H, R, None)
    density = multivariate_normal((0.0, 0.0), P[:2, :2] + R)
    assert after.log_likelihood == pytest.approx(density.logpdf(residual))
    # A measurement far beyond the gate counts as one at the gate: an outlier does not decide.
    rejected, nis, accepted = fuse(context, after, 100.0 * residual, H, R, None)
    assert not accepted
    at_gate = residual * np.sqrt(12.0 / nis) * 100.0
    assert rejected.log_likelihood - after.log_likelihood < density.logpdf(0.0 * residual)
    _, gate_nis, _ = fuse(context, after, at_gate, H, R, None)
    on_gate, _, _ = fuse(context, after, at_gate * (1.0 - 1e-9), H, R, None)
    assert gate_nis == pytest.approx(12.0)
    assert rejected.log_likelihood == pytest.approx(on_gate.log_likelihood)


def test_the_command_writes_a_profile_that_drives(
    drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = tmp_path / "mine.toml"
    assert main(["estimator", "calibrate", str(drives), "--folds", "2", "-o", str(mine)]) == 0
    out = capsys.readouterr().out
    assert "heading misalignment" in out
    assert "predicted better than before: 3 of 3 drives" in out
    profile = load_profile(str(mine))
    assert profile.estimator.name == "planar"
    assert abs(profile.estimator.selected.heading_misalignment_rad + MISALIGNED_RAD) < 0.04
    assert profile.estimator.selected.misalignment_sigma_rad < 0.1
    assert "found by estimator calibrate" in mine.read_text()


def test_what_is_found_prints_as_json(drives: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "estimator",
                "calibrate",
                str(drives / "drive0.csv"),
                str(drives / "drive1.csv"),
                "--folds",
                "2",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert float(found["values"]["estimator.planar.heading_misalignment_rad"]) < -0.1
    assert [one["name"] for one in found["held_out"]] == ["drive0", "drive1"]


def test_drives_of_no_kind_and_files_that_are_none(
    drives: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["estimator", "calibrate", str(drives), "--kind", "rtk"]) == 2
    assert "no recording of kind rtk" in capsys.readouterr().err
    assert main(["estimator", "calibrate", str(tmp_path / "none")]) == 2
    assert "no such file" in capsys.readouterr().err


@pytest.mark.soak  # make test: the same constants from other drives make a drive better
def test_the_benchmark_judges_with_the_constants_of_other_drives(
    drives: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = []
    for more in ([], ["--calibrated"]):
        arguments = [
            "bench",
            "recorded",
            str(drives),
            "--estimator",
            "planar",
            "--identifier",
            "none",
            "--json",
            *more,
        ]
        assert main(arguments) == 0
        overall = json.loads(capsys.readouterr().out)["overall"]
        assert overall[0]["recordings"] == DRIVES
        errors.append(overall[0]["position_m"])
    assert errors[1] < 0.95 * errors[0]
    assert main(["bench", "recorded", str(drives), "--estimator", "ekf4", "--calibrated"]) == 2
    assert "only planar" in capsys.readouterr().err
