"""Recorded drives as CSV files: what is recognised, what is fed, what counts as truth, and what is
refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests import recordings_bench as bench
from vehicled.core.messages import (
    ActuatorCommand,
    CarrierSolution,
    GnssFix,
    Heading,
    HeadingKind,
    ImuSample,
)
from vehicled.offline.recordings import smoothing
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.loading import sources
from vehicled.offline.recordings.recording import Recording


def of(recording: Recording, kind: type) -> list[Any]:
    return [m for m in recording.inputs if isinstance(m, kind)]


def places(recording: Recording, carrier: CarrierSolution) -> np.ndarray:
    fixes = [m for m in of(recording, GnssFix) if m.carrier is carrier]
    return np.array(
        [recording.datum.to_enu(m.latitude_rad, m.longitude_rad, m.height_m)[:2] for m in fixes]
    )


def by_kind(recordings: list[Recording]) -> dict[str, Recording]:
    return {recording.kind: recording for recording in recordings}


def test_the_header_says_what_a_file_is_wherever_it_lies(tmp_path: Path) -> None:
    bench.mocap(tmp_path / "a" / "one.csv")
    bench.outdoor(tmp_path / "b" / "two.csv")
    bench.outdoor(tmp_path / "b" / "bare.csv", gyro=False)
    bench.path_following(tmp_path / "c" / "three.csv")
    bench.path_following(tmp_path / "c" / "four.csv", grid_m=0.0)
    bench.ramp(tmp_path / "d")
    bench.acceleration(tmp_path / "e")
    bench.write(tmp_path / "waypoints.csv", {"x_m": [0.0, 1.0], "y_m": [0.0, 0.0]})
    (tmp_path / "picture.csv").write_bytes(b"\xff\xfe\x00\x01,")
    found = {(recording.name, recording.kind) for recording in bench.load(tmp_path)}
    assert found == {
        ("a/one", "mocap"), ("b/two", "rtk"), ("b/two", "plain"), ("b/two", "plain_start"),
        ("b/bare", "bare_rtk"), ("b/bare", "bare_plain"), ("c/three", "path"),
        ("c/four", "path_sim"), ("d/test1_motion", "ramp"), ("e/test1_speed", "acceleration"),
    }  # fmt: skip
    assert {recording.kind for recording in bench.load(tmp_path, {"rtk", "mocap"})} == {
        "rtk",
        "mocap",
    }


def test_a_motion_file_without_its_commands_is_no_recording(tmp_path: Path) -> None:
    motion = bench.ramp(tmp_path)
    (tmp_path / "test1_commands.csv").unlink()
    assert bench.load(tmp_path) == []
    with pytest.raises(RecordingError, match="columns of no recording"):
        bench.load(motion)


def test_the_vehicle_believed_is_the_profiles(tmp_path: Path) -> None:
    (recording,) = bench.load(bench.path_following(tmp_path / "run.csv"))
    assert recording.vehicle.wheelbase_m == 0.5
    assert recording.vehicle.steering.gain_rad == pytest.approx(0.335)


# -------------------------------------------------------------------------------------- what is fed


def test_held_positions_are_no_fixes(tmp_path: Path) -> None:
    recordings = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv", outage=(12.0, 14.0))))
    stamps = np.array([m.t_ns for m in of(recordings["rtk"], GnssFix)]) * 1e-9 - 1.0
    assert not ((stamps >= 12.0 - 1e-6) & (stamps < 14.0 - 1e-6)).any()
    # It stood for 3 s: one fix at the start, none until it moved; then one for each row.
    assert len(stamps) == 1 + round((30.0 - 3.0 - 2.0) / 0.1) - 1
    plain = of(recordings["plain"], GnssFix)
    assert {m.carrier for m in plain} == {CarrierSolution.NONE}
    assert 2.4 <= len(plain) / 30.0 * 10.0 / 10.0 <= 4.1


def test_zeros_before_the_first_plain_fix_are_not_fed(tmp_path: Path) -> None:
    plain = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv")))["plain"]
    assert np.isnan(plain.raw_x_m[0])
    assert places(plain, CarrierSolution.NONE)[:, 0].min() > 1.5


def test_the_start_is_given_by_rtk_only_while_the_vehicle_stands(tmp_path: Path) -> None:
    start = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv")))["plain_start"]
    stamps = [m.t_ns * 1e-9 - 1.0 for m in of(start, GnssFix) if m.carrier is CarrierSolution.FIXED]
    assert max(stamps) == pytest.approx(2.9)
    assert len(stamps) == 30
    assert np.abs(places(start, CarrierSolution.FIXED)).max() < 1e-6


def test_gyro_yaw_is_given_as_heading_and_as_rate(tmp_path: Path) -> None:
    recording = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv")))["rtk"]
    headings, samples = of(recording, Heading), of(recording, ImuSample)
    assert all(m.kind is HeadingKind.INERTIAL and np.isnan(m.sigma_rad) for m in headings)
    yaw = np.array([m.yaw_rad for m in headings])
    rates = np.array([m.angular_rate_radps[2] for m in samples])
    assert yaw[0] + 0.1 * rates.sum() == pytest.approx(yaw[-1], abs=1e-6)
    assert all(np.isnan(m.specific_force_mps2).all() for m in samples)


def test_commands_are_cut_to_what_the_vehicle_takes(tmp_path: Path) -> None:
    (recording,) = bench.load(bench.path_following(tmp_path / "run.csv"))
    commands = of(recording, ActuatorCommand)
    assert max(m.throttle for m in commands) == 1.0
    assert max(m.steering for m in commands) == 1.0
    assert min(m.steering for m in commands) == -1.0
    assert commands[60].wheel_angle_rad == pytest.approx(
        recording.vehicle.steering.wheel_angle_rad(commands[60].steering)
    )


def test_inputs_are_in_order_of_arrival(tmp_path: Path) -> None:
    for recording in bench.load(bench.outdoor(tmp_path / "run.csv")):
        stamps = [m.t_ns for m in recording.inputs]  # type: ignore[attr-defined]
        assert stamps == sorted(stamps)
        assert recording.steps_ns[0] <= stamps[0]


# -------------------------------------------------------------------------------------------- truth


def test_truth_of_speed_and_heading_comes_from_the_rtk_track(tmp_path: Path) -> None:
    drive = bench.drive()
    recording = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv")))["rtk"]
    moving = drive["t"] > 4.0
    known = moving & np.isfinite(recording.truth.speed_mps)
    assert known.sum() > 0.95 * moving.sum()
    assert np.abs(recording.truth.speed_mps - drive["speed"])[known].max() < 0.02
    off = np.abs(recording.truth.yaw_rad - drive["yaw"])[
        moving & np.isfinite(recording.truth.yaw_rad)
    ]
    assert off.max() < 0.03, "the gyro's drift of 0.06 rad must be gone"
    assert np.nanmax(recording.truth.speed_mps[drive["t"] < 2.0]) < 0.02


def test_nothing_is_true_during_an_outage(tmp_path: Path) -> None:
    recording = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv", outage=(12.0, 14.0))))[
        "plain"
    ]
    t_s = np.array(recording.steps_ns) * 1e-9 - 1.0
    inside = (t_s > 11.95) & (t_s < 13.95)
    assert np.isnan(recording.truth.x_m[inside]).all()
    assert np.isnan(recording.truth.speed_mps[(t_s > 12.4) & (t_s < 13.5)]).all()
    assert np.isfinite(recording.truth.x_m[~inside]).all()


def test_the_misalignment_of_a_motion_capture_body_is_taken_off_the_truth_alone(
    tmp_path: Path,
) -> None:
    (recording,) = bench.load(bench.mocap(tmp_path / "run.csv", misalignment_rad=0.12))
    drive = bench.drive(seconds=15.0, standing_s=1.0)
    assert np.abs(recording.truth.yaw_rad - drive["yaw"]).max() < 0.01
    assert of(recording, Heading)[0].yaw_rad == pytest.approx(-0.12)
    assert {m.kind for m in of(recording, Heading)} == {HeadingKind.MOVING_BASE}


def test_a_marker_ahead_of_the_axle_is_a_lever_arm(tmp_path: Path) -> None:
    (recording,) = bench.load(bench.ramp(tmp_path))
    assert recording.lever_arm_m == (0.31, 0.0, 0.0)
    radius = np.hypot(recording.truth.x_m, recording.truth.y_m - 2.0)
    assert radius == pytest.approx(2.0, abs=1e-5)
    assert np.nanmean(recording.truth.speed_mps) == pytest.approx(0.8, abs=5e-3)
    assert len(of(recording, GnssFix)) == 80


def test_way_of_an_acceleration_run_is_the_integral_of_its_speed(tmp_path: Path) -> None:
    (recording,) = bench.load(bench.acceleration(tmp_path))
    assert recording.truth.x_m[-1] == pytest.approx(2.0 + 2.0 * (4.9 - 2.0), abs=1e-3)
    t_s = np.array(recording.steps_ns) * 1e-9 - 1.0
    assert recording.truth.speed_mps[30] == pytest.approx(2.0, abs=1e-3)
    assert t_s[30] == pytest.approx(3.0)


def test_what_was_published_stands_beside_it(tmp_path: Path) -> None:
    recordings = by_kind(bench.load(bench.outdoor(tmp_path / "run.csv")))
    rtk, plain = recordings["rtk"], recordings["plain"]
    assert rtk.published.known
    assert not plain.published.known, (
        "the published position held RTK: it is no rival of plain GNSS"
    )
    assert np.nanmean(plain.published.speed_mps - plain.truth.speed_mps) == pytest.approx(
        0.5, abs=0.02
    )
    (path,) = bench.load(bench.path_following(tmp_path / "path.csv"))
    assert path.published.speed_mps[-1] == pytest.approx(0.4)


# ---------------------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("line", "text", "words"),
    [
        (5, "0.3,abc", ["line 5", "2 fields where the header names 10"]),
        (4, ",".join(["0.2", "oops", *["0"] * 8]), ["line 4", "noisy_x_m is 'oops', not a number"]),
        (6, ",".join(["0.1", *["0"] * 9]), ["line 6", "time_s is 0.1 s", "grow from row to row"]),
        (3, ",".join(["nan", *["0"] * 9]), ["line 3", "time_s is nan s"]),
    ],
)
def test_damage_is_named_with_its_line(
    tmp_path: Path, line: int, text: str, words: list[str]
) -> None:
    file = bench.mocap(tmp_path / "run.csv")
    lines = file.read_text().splitlines()
    lines[line - 1] = text
    file.write_text("\n".join(lines))
    with pytest.raises(RecordingError) as caught:
        bench.load(file)
    assert str(file) in str(caught.value)
    for word in words:
        assert word in str(caught.value)


def test_empty_foreign_and_missing_files_are_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(RecordingError, match="no such file or folder"):
        sources(tmp_path / "nowhere")
    header = bench.mocap(tmp_path / "run.csv").read_text().splitlines()[0]
    (tmp_path / "run.csv").write_text(header + "\n")
    with pytest.raises(RecordingError, match="a header and no rows"):
        bench.load(tmp_path / "run.csv")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(
        RecordingError, match=r"other\.csv: line 1 has the columns of no recording.*noisy_x_m"
    ):
        bench.load(tmp_path / "other.csv")


def test_empty_fields_are_gaps_and_not_numbers(tmp_path: Path) -> None:
    file = bench.outdoor(tmp_path / "run.csv")
    lines = file.read_text().splitlines()
    fields = lines[100].split(",")
    fields[3] = fields[4] = ""
    lines[100] = ",".join(fields)
    file.write_text("\n".join(lines))
    rtk = by_kind(bench.load(file))["rtk"]
    assert np.isnan(rtk.truth.x_m[99])
    assert all(np.isfinite(m.latitude_rad) for m in of(rtk, GnssFix))


# ---------------------------------------------------------------------------------------- smoothing


def test_a_standing_vehicle_is_where_its_last_fix_says() -> None:
    x = np.array([0.0, 0.0, 0.0, 0.02, 0.02, 0.5, 0.5, 1.0, 1.0])
    current = smoothing.is_current(x, np.zeros(9))
    assert current.tolist() == [True, True, True, True, False, True, False, True, False]


def test_moving_off_at_once_ends_a_stand_and_not_an_outage() -> None:
    stand = np.array([*[0.0] * 8, 0.1, 0.2, 0.3])
    assert smoothing.is_current(stand, np.zeros(11)).all()
    outage = np.array([-0.1, *[0.0] * 8, 0.8, 0.9, 1.0])
    assert smoothing.is_current(outage, np.zeros(12)).tolist() == [
        True,
        True,
        *[False] * 7,
        True,
        True,
        True,
    ]


def test_a_jump_of_the_receiver_is_no_speed() -> None:
    t = np.arange(0.0, 6.0, 0.1)
    x = t + np.where(t > 3.0, 0.8, 0.0)
    vx, _ = smoothing.velocity(t, x, np.zeros(len(t)), np.ones(len(t), bool))
    assert np.isnan(vx[28:32]).all()
    assert vx[np.isfinite(vx)] == pytest.approx(1.0, abs=0.35)
    assert vx[10:20] == pytest.approx(1.0)
