"""The recordings that others made: that they load, that raw and published errors are those that are
known, and that least squares give the published steering. What estimators make of them is measured
by the benchmark."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from tests import recordings_bench as bench
from vehicled.offline.recordings import runner, scores
from vehicled.offline.recordings.recording import Recording


def folder(shared_data: Path, name: str) -> Path:
    found = shared_data / name
    if not found.is_dir():
        pytest.skip(f"needs the recordings in {found}")
    return found


def mean_off(recording: Recording, x: np.ndarray, y: np.ndarray) -> float:
    return float(np.nanmean(np.hypot(x - recording.truth.x_m, y - recording.truth.y_m)))


def test_raw_and_published_errors_indoors_are_those_that_are_known(real_data: Path) -> None:
    recordings = bench.load(folder(real_data, "mocap_ekf_mpc_2023"))
    raw = [mean_off(r, r.raw_x_m, r.raw_y_m) for r in recordings]
    published = [
        mean_off(r, r.published.x_m, r.published.y_m) for r in recordings if r.published.known
    ]
    if len(recordings) == 12:
        assert np.mean(raw) == pytest.approx(0.279, abs=0.001)
        assert np.mean(published) == pytest.approx(0.471, abs=0.001)


def test_the_marker_indoors_is_turned_by_its_mounting(shared_data: Path) -> None:
    recordings = bench.load(folder(shared_data, "mocap_ekf_mpc_2023"))
    assert {recording.kind for recording in recordings} == {"mocap"}
    for recording in recordings:
        heading = scores.measured_yaw(recording)
        assert heading is not None
        assert np.nanmedian(recording.truth.yaw_rad - heading) == pytest.approx(0.12, abs=0.02)


def test_laps_outdoors(shared_data: Path) -> None:
    recordings = bench.load(folder(shared_data, "lot17_rtk_gps_2023") / "single_speed")
    kinds = Counter(recording.kind for recording in recordings)
    assert kinds["rtk"] == kinds["plain"] == kinds["plain_start"] > 0
    for recording in recordings:
        truth = recording.truth
        assert np.isfinite(truth.x_m).mean() > 0.85
        assert np.isfinite(truth.speed_mps).mean() > 0.9
        assert 0.5 < np.nanmedian(truth.speed_mps) < 2.5
        if recording.kind == "plain":
            assert 1.0 < mean_off(recording, recording.raw_x_m, recording.raw_y_m) < 8.0
            published = recording.published.speed_mps - truth.speed_mps
            assert 0.3 < np.sqrt(np.nanmean(published**2)) < 1.0


def test_real_and_simulated_drives_are_distinguished(shared_data: Path) -> None:
    root = folder(shared_data, "path_following_2024")
    files = [*sorted(root.glob("real/*/*_2.csv"))[::3], *sorted(root.glob("sim/*_path/*.csv"))[::3]]
    assert files
    for file in files:
        (recording,) = bench.load(file)
        assert recording.kind == ("path_sim" if "sim" in file.parts else "path"), file


@pytest.mark.parametrize(
    "name", ["art_steering_ramp_2023/steer_p06", "art_acceleration_2022/ramp", "art_circle_2023"]
)
def test_an_estimator_runs_over_the_others(shared_data: Path, name: str) -> None:
    recordings = bench.load(folder(shared_data, name))
    assert recordings
    for recording in recordings:
        track = runner.run(
            recording,
            runner.make_estimator("ekf4", (), recording),
            ahead_of=scores.ahead_of(recording),
        )
        found = scores.score(recording, track, "ekf4")
        if recording.kind in ("ramp", "acceleration"):
            assert found.known > 0.9
            assert found.estimate.position_m is not None
            assert found.estimate.position_m.mean < 0.05
