"""The planar filter on recorded drives, against motion capture and RTK: the figures it was built
for."""

from pathlib import Path

import numpy as np
import pytest

from tests import recordings_bench as bench
from tests.grid import sampled
from vehicled.estimation.planar.params import PlanarParams
from vehicled.offline.recordings.recording import Recording, Track
from vehicled.offline.recordings.runner import make_estimator, run
from vehicled.offline.recordings.set_up import cross_validated


def _run(recording: Recording, estimator: str = "planar") -> Track:
    return run(recording, make_estimator(estimator, {}, recording))


def _position_errors_m(recording: Recording, estimator: str = "planar") -> tuple[float, float]:
    """Mean error of the measurement and of the estimate, over the rows in which both and the truth
    are known."""
    track, truth = _run(recording, estimator), recording.truth
    estimate = np.hypot(track.x_m - truth.x_m, track.y_m - truth.y_m)
    raw = np.hypot(recording.raw_x_m - truth.x_m, recording.raw_y_m - truth.y_m)
    both = np.isfinite(raw) & np.isfinite(estimate)
    assert both.mean() > 0.85  # the rest is where RTK was held
    return float(raw[both].mean()), float(estimate[both].mean())


def _speed_rms_mps(recording: Recording) -> float:
    return float(np.sqrt(np.nanmean((_run(recording).speed_mps - recording.truth.speed_mps) ** 2)))


def test_indoors_every_drive_is_better_than_its_measurement(real_data: Path) -> None:
    errors = np.array(
        [_position_errors_m(r) for r in bench.load(real_data / "mocap_ekf_mpc_2023", ["mocap"])]
    )
    assert len(errors) >= 10
    assert (errors[:, 1] < errors[:, 0]).all()
    assert errors[:, 1].mean() < 0.22


def test_indoors_the_constants_of_other_drives_are_worth_a_sixth_of_the_error(
    real_data: Path,
) -> None:
    drives = bench.load(real_data / "mocap_ekf_mpc_2023", ["mocap"])
    held_out = cross_validated(drives, PlanarParams(), drives[0].vehicle, 2)
    errors = np.array([(one.raw_m, one.before_m, one.after_m, one.gain) for one in held_out])
    assert len(errors) == len(drives)
    assert (errors[:, 2] < errors[:, 0]).all()
    assert errors[:, 2].mean() < 0.83 * errors[:, 1].mean()
    assert (errors[:, 3] > 0.0).mean() > 0.8


@pytest.mark.parametrize("estimator", ["ekf4", "ins"])
@pytest.mark.parametrize(
    ("folder", "kind"),
    sampled(
        [("mocap_ekf_mpc_2023", "mocap"), ("lot17_rtk_gps_2023", "plain")],
        lambda case: case[1] == "mocap",
    ),
)
def test_without_a_measured_speed_no_default_makes_the_positions_worse(
    real_data: Path, estimator: str, folder: str, kind: str
) -> None:
    """The heading is off by 7 degrees, or drifts, and the drive gives half of what the profile
    says."""
    errors = np.array(
        [_position_errors_m(r, estimator) for r in bench.load(real_data / folder, [kind])]
    )
    assert (errors[:, 1] / errors[:, 0]).max() < 1.06


@pytest.mark.soak
def test_plain_gnss_from_a_known_start(real_data: Path) -> None:
    errors = np.array(
        [
            _position_errors_m(r)
            for r in bench.load(real_data / "lot17_rtk_gps_2023", ["plain_start"])
        ]
    )
    ratio = errors[:, 1] / errors[:, 0]
    assert errors[:, 1].mean() < 0.7 * errors[:, 0].mean()
    assert (ratio < 1.0).mean() >= 0.9
    assert ratio.max() < 1.1


@pytest.mark.soak
def test_plain_gnss_alone_is_never_made_worse(real_data: Path) -> None:
    errors = np.array(
        [
            _position_errors_m(r)
            for r in bench.load(real_data / "lot17_rtk_gps_2023" / "multi_speed", ["plain"])
        ]
    )
    assert (errors[:, 1] / errors[:, 0]).max() < 1.05


@pytest.mark.parametrize(
    ("folder", "kind"),
    sampled(
        [
            ("lot17_rtk_gps_2023/multi_speed", "rtk"),
            ("path_following_2024/real/syn_path", "path"),
            ("path_following_2024/real/syn_path/pid_1.csv", "path"),
        ],
        lambda case: case[0].endswith(".csv"),
    ),
)
def test_speed_without_a_wheel_sensor(shared_data: Path, folder: str, kind: str) -> None:
    assert max(_speed_rms_mps(r) for r in bench.load(shared_data / folder, [kind])) < 0.10
