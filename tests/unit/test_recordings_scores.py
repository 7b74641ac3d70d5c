"""Judging: errors, predictions, outages and least squares of drives whose answers are known."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tests import recordings_bench as bench
from vehicled.core.messages import ActuatorCommand, Identification
from vehicled.core.vehicle import Vehicle
from vehicled.offline.recordings import least_squares, scores, smoothing
from vehicled.offline.recordings.outages import outages, withheld
from vehicled.offline.recordings.prediction import RecordedCommands, predict
from vehicled.offline.recordings.recording import Recording, Track
from vehicled.offline.recordings.report import overall, sheets, short_names, to_raw
from vehicled.offline.recordings.scores import Bridge, ErrorSpread, PoseErrors, Score


def load(path: Path, kind: str) -> Recording:
    return next(recording for recording in bench.load(path) if recording.kind == kind)


def track_of(recording: Recording, **columns: Any) -> Track:
    """A track that is the truth, but for the columns given."""
    truth = recording.truth
    n = len(truth.t_ns)
    nothing = np.full(n, np.nan)
    values: dict[str, Any] = {
        "t_ns": truth.t_ns, "x_m": truth.x_m, "y_m": truth.y_m, "yaw_rad": truth.yaw_rad,
        "speed_mps": truth.speed_mps, "yaw_rate_radps": nothing, "covariance": np.zeros((n, 4, 4)),
        "nis": nothing, "status": np.full(n, 2), "ahead_x_m": nothing, "ahead_y_m": nothing,
        "vehicles": (recording.vehicle,) * n,
    }  # fmt: skip
    return Track(**(values | columns))


# ------------------------------------------------------------------------------------------- errors


def test_the_truth_itself_has_no_error_and_raw_and_published_have_theirs(tmp_path: Path) -> None:
    recording = load(bench.mocap(tmp_path / "run.csv"), "mocap")
    found = scores.score(recording, track_of(recording), "truth")
    assert found.known == 1.0
    assert found.estimate.position_m == ErrorSpread(mean=0.0, rms=0.0, max=0.0, count=150)
    assert found.raw.position_m is not None
    assert found.raw.position_m.max == pytest.approx(14.9 * np.hypot(0.05, 0.02), abs=1e-5)
    assert found.published.position_m is not None
    assert found.published.position_m.mean == pytest.approx(1.0, abs=1e-5)
    assert found.raw.heading_rad is not None
    assert found.raw.heading_rad.mean == pytest.approx(0.12, abs=0.01)
    assert found.published.heading_rad is None


def test_errors_beyond_three_sigma_are_counted_by_their_own_covariance(tmp_path: Path) -> None:
    recording = load(bench.mocap(tmp_path / "run.csv"), "mocap")
    truth, n = recording.truth, len(recording.truth.t_ns)
    covariance = np.broadcast_to(np.diag((0.04, 0.01, 0.0025, 0.01)), (n, 4, 4))
    off = np.zeros(n)
    off[: n // 5] = 1.0  # a fifth of the rows is wrong
    moves = truth.speed_mps > scores.MOVING_MPS

    def beyond(**columns: Any) -> scores.Beyond:
        found = scores.score(
            recording, track_of(recording, covariance=covariance, **columns), "e"
        ).beyond
        assert found is not None
        return found

    assert beyond() == scores.Beyond(position=0.0, heading=0.0, speed=0.0)
    assert beyond(x_m=truth.x_m + 0.6 * off).position == 0.0, (
        "3 sigma of one axis are less than 3 sigma of two"
    )
    assert beyond(x_m=truth.x_m + 0.7 * off).position == pytest.approx(0.2, abs=0.01)
    assert beyond(y_m=truth.y_m + 0.6 * off).position == pytest.approx(0.2, abs=0.01)
    assert beyond(yaw_rad=truth.yaw_rad + 0.16 * off).heading == pytest.approx(off[moves].mean())
    assert beyond(yaw_rad=truth.yaw_rad + 0.14 * off + 2.0 * np.pi).heading == 0.0
    assert beyond(speed_mps=truth.speed_mps - 0.31 * off).speed == pytest.approx(0.2, abs=0.01)
    nothing = scores.score(recording, track_of(recording, x_m=truth.x_m + 0.01 * off), "e").beyond
    assert nothing is not None
    assert nothing.position == pytest.approx(0.2, abs=0.01), (
        "a variance of zero promises no error at all"
    )


def test_a_jump_of_the_receiver_counts_as_speed_but_not_as_steady_speed(tmp_path: Path) -> None:
    whole = load(bench.outdoor(tmp_path / "run.csv"), "rtk")
    t_s = (whole.truth.t_ns - whole.truth.t_ns[0]) * 1e-9
    x = whole.truth.x_m + np.where(t_s > 14.95, 0.3, 0.0)
    vx, vy = smoothing.velocity(t_s, x, whole.truth.y_m, np.isfinite(x))
    jumped = replace(whole, truth=replace(whole.truth, x_m=x, speed_mps=np.hypot(vx, vy)))
    found = scores.score(jumped, track_of(whole), "truth")
    assert found.estimate.speed_mps is not None
    assert found.steady_speed_mps is not None
    assert found.estimate.speed_mps.max > 0.15, "the quadratic takes the jump for a motion"
    assert found.steady_speed_mps.max < 1e-6
    assert 8 <= found.estimate.speed_mps.count - found.steady_speed_mps.count <= 13


def test_a_hold_that_is_caught_up_and_a_standing_vehicle_are_no_jumps() -> None:
    t_s = np.arange(60, dtype=np.float64) * 0.1
    x = np.where(t_s < 1.0, 0.0, (t_s - 1.0) * 1.4)
    x[30:36] = x[29]
    assert not smoothing.near_jump(t_s, x, np.zeros(60)).any()
    x[40:] += 0.2
    assert np.flatnonzero(smoothing.near_jump(t_s, x, np.zeros(60))).tolist() == list(range(34, 46))


def test_an_estimator_does_not_shine_by_silence(tmp_path: Path) -> None:
    recording = load(bench.mocap(tmp_path / "run.csv"), "mocap")
    x = recording.truth.x_m.copy()
    x[:30] = np.nan
    found = scores.score(recording, track_of(recording, x_m=x), "shy")
    assert found.known == pytest.approx(0.8)
    assert found.raw.position_m is not None
    assert found.raw.position_m.count == 120, "raw is compared on the same rows"
    assert to_raw(found) == float("inf")
    mute = scores.score(recording, track_of(recording, x_m=np.full(150, np.nan)), "mute")
    assert mute.known == 0.0
    assert mute.estimate.position_m is None
    assert mute.raw.position_m is not None


def test_headings_are_compared_on_the_circle(tmp_path: Path) -> None:
    recording = load(bench.mocap(tmp_path / "run.csv"), "mocap")
    found = scores.score(
        recording,
        track_of(recording, yaw_rad=recording.truth.yaw_rad + 4.0 * np.pi - 0.1),
        "turned",
    )
    assert found.estimate.heading_rad is not None
    assert found.estimate.heading_rad.max == pytest.approx(0.1)


# --------------------------------------------------------------------------------------- prediction


def true_vehicle(vehicle: Vehicle) -> Vehicle:
    """The vehicle that the synthetic drive was made with: no slew, and a drive that holds 1 m/s at
    its throttle of 0.6."""
    steering = msgspec.structs.replace(
        vehicle.steering,
        gain_rad=bench.GAIN_RAD,
        offset_rad=bench.OFFSET_RAD,
        delay_s=bench.DELAY_S,
        rate_radps=100.0,
    )
    drive = msgspec.structs.replace(
        vehicle.drive, stall_torque_nm=0.2, no_load_speed_radps=100.0,
        friction_nm=0.12 - 0.2 / 100.0 * 35.494, viscous_nms=0.0, gear_ratio=1.0 / 3.0,
        wheel_radius_m=0.08451952624,
    )  # fmt: skip
    return msgspec.structs.replace(vehicle, steering=steering, drive=drive)


def test_the_true_vehicle_is_predicted_and_a_wrong_gain_is_not(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv"), "rtk")
    right = true_vehicle(recording.vehicle)
    assert right.drive.acceleration_mps2(0.6, 1.0) == pytest.approx(0.0, abs=1e-3)
    n = len(recording.steps_ns)
    position, yaw, turn = scores.ahead_errors(recording, track_of(recording, vehicles=(right,) * n))
    assert np.isfinite(position).sum() > 200
    assert np.nanmax(position[35:]) < 0.05
    assert np.nanmax(np.abs(yaw[35:])) < 0.05
    assert np.nanmax(np.abs(turn - yaw)) < 1e-9, "it starts with the true heading"
    wrong, _, _ = scores.ahead_errors(recording, track_of(recording))
    assert np.nanmean(wrong) > 4.0 * np.nanmean(position)


def test_predictions_start_only_where_the_vehicle_moves_and_truth_follows(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv", outage=(12.0, 14.0)), "rtk")
    position, _, _ = scores.ahead_errors(recording, track_of(recording))
    t_s = (recording.truth.t_ns - recording.truth.t_ns[0]) * 1e-9
    assert np.isnan(position[t_s < 2.5]).all()
    assert np.isnan(position[(t_s > 11.05) & (t_s < 12.95)]).all()
    assert np.isnan(position[t_s > 29.0]).all()


def test_a_constant_command_is_a_circle() -> None:
    from vehicled.profile import load_profile

    vehicle = true_vehicle(load_profile("art_published").vehicle)
    commands = RecordedCommands.of([ActuatorCommand(0, 0, 0.6, 0.0, 0.5, 0.0)])
    start = np.array([[1.0, 2.0, 0.3, 1.0], [0.0, 0.0, -1.0, 1.0]])
    stamps = np.array([5_000_000_000, 6_000_000_000])
    found = predict([vehicle, vehicle], commands, stamps, start, np.array([1.0, 2.0]))
    curvature = np.tan(0.02 + 0.5 * 0.25) / 0.5
    for row, begin, lasts in zip(found, start, (1.0, 2.0)):
        turned = curvature * lasts
        assert row[2] - begin[2] == pytest.approx(turned, rel=1e-3)
        chord = 2.0 / curvature * np.sin(0.5 * turned)
        assert np.hypot(*(row[:2] - begin[:2])) == pytest.approx(chord, rel=1e-3)
        assert row[3] == pytest.approx(1.0, abs=1e-3)


def test_delay_dead_zone_slew_stop_and_standstill_are_in_the_prediction() -> None:
    from vehicled.profile import load_profile

    vehicle = load_profile("art_published").vehicle
    steering = msgspec.structs.replace(
        vehicle.steering, offset_rad=0.0, delay_s=0.5, rate_radps=0.2, dead_zone=0.2
    )
    vehicle = msgspec.structs.replace(vehicle, steering=steering)
    second = 1_000_000_000
    start = np.array([[0.0, 0.0, 0.0, 1.0]])

    def yaw_after(commands: list[ActuatorCommand], horizon_s: float) -> float:
        return float(
            predict(
                [vehicle],
                RecordedCommands.of(commands),
                np.array([10 * second]),
                start,
                np.array([horizon_s]),
            )[0, 2]
        )

    turn = [ActuatorCommand(10 * second, 0, 0.5, 0.0, 1.0, 0.0)]
    assert yaw_after(turn, 0.5) == 0.0, "delay"
    assert 0.0 < yaw_after(turn, 1.0) < 0.06, "slew"
    assert yaw_after([ActuatorCommand(0, 0, 0.5, 0.0, 0.19, 0.0)], 1.0) == 0.0, "dead zone"
    hard = yaw_after([ActuatorCommand(0, 0, 0.5, 0.0, 1.0, 0.0)], 0.2)
    gains = msgspec.structs.replace(
        vehicle, steering=msgspec.structs.replace(steering, gain_rad=0.9)
    )
    stopped = predict(
        [gains],
        RecordedCommands.of([ActuatorCommand(0, 0, 0.5, 0.0, 1.0, 0.0)]),
        np.array([10 * second]),
        start,
        np.array([0.2]),
    )
    assert stopped[0, 2] == pytest.approx(hard), "the stop at max_wheel_rad"
    coasting = predict(
        [vehicle],
        RecordedCommands.of([]),
        np.array([0]),
        np.array([[0.0, 0.0, 0.0, 0.2]]),
        np.array([3.0]),
    )
    assert coasting[0, 3] == 0.0, "friction ends the motion and does not turn it round"


# ------------------------------------------------------------------------------------ least squares


def test_least_squares_find_the_steering_of_the_drive(tmp_path: Path) -> None:
    for kind, file in (
        ("rtk", bench.outdoor(tmp_path / "a.csv")),
        ("path", bench.path_following(tmp_path / "b.csv")),
    ):
        fit = least_squares.steering(load(file, kind))
        assert fit is not None
        if (
            kind == "rtk"
        ):  # the commands of the other file are cut at full lock, so that they do not show the gain
            assert fit.gain_rad == pytest.approx(bench.GAIN_RAD, rel=0.02)
            assert fit.r2 > 0.98
        assert fit.offset_rad == pytest.approx(bench.OFFSET_RAD, abs=0.004)
        assert fit.delay_s == pytest.approx(bench.DELAY_S, abs=0.051)


def test_a_drive_that_does_not_steer_shows_no_steering(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv"), "rtk")
    straight = [
        msgspec.structs.replace(m, steering=0.1) if isinstance(m, ActuatorCommand) else m
        for m in recording.inputs
    ]
    assert least_squares.steering(replace(recording, inputs=straight)) is None
    assert least_squares.steering(replace(recording, inputs=[])) is None


# ------------------------------------------------------------------------------------------ outages


def test_an_outage_is_found_with_the_first_fix_after_it(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv", outage=(12.0, 14.0)), "rtk")
    (outage,) = outages(recording)
    assert outage.duration_s == pytest.approx(2.1)
    assert (outage.fix_ns - recording.steps_ns[0]) * 1e-9 == pytest.approx(14.0)
    stamps = scores.ahead_of(recording)
    ahead_x = np.where(np.isin(recording.truth.t_ns, stamps), recording.truth.x_m + 0.3, np.nan)
    found = scores.score(
        recording, track_of(recording, ahead_x_m=ahead_x, ahead_y_m=recording.truth.y_m), "bridged"
    )
    assert found.bridges[0].error_m == pytest.approx(0.3, abs=1e-6)


def test_rtk_is_withheld_where_the_vehicle_moves_and_the_truth_stays(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv"), "rtk")
    assert outages(recording) == []
    poorer = withheld(recording, 3.7, 8.0)
    found = outages(poorer)
    assert [round(outage.duration_s, 1) for outage in found] == [3.7, 3.7, 3.7]
    assert poorer.truth is recording.truth
    assert len(withheld(recording, 3.7, 40.0).inputs) == len(recording.inputs)


def test_a_withheld_outage_counts_and_not_the_gaps_of_the_drive_itself(tmp_path: Path) -> None:
    """The second fix after an outage often ends a gap of the receiver's own, which is no prediction
    over the outage."""
    recording = load(bench.outdoor(tmp_path / "run.csv", outage=(12.0, 14.0)), "rtk")
    poorer = withheld(recording, 3.7, 16.0)
    assert len(outages(poorer)) == 2
    stated = {name: getattr(recording.truth, name[6:]) for name in ("ahead_x_m", "ahead_y_m")}
    track = track_of(recording, **stated)
    found = scores.score(recording, track, "bridged", (poorer, track))
    assert [round(bridge.duration_s, 1) for bridge in found.bridges] == [3.7]


# ------------------------------------------------------------------------------------------- report


def a_score(
    name: str, kind: str = "mocap", position: float = 0.1, raw: float = 0.2, **more: Any
) -> Score:
    def spread(value: float) -> ErrorSpread:
        return ErrorSpread(mean=value, rms=value, max=value, count=10)

    return Score(
        name=name, kind=kind, estimator="e", duration_s=10.0, known=1.0,
        estimate=PoseErrors(position_m=spread(position), speed_mps=spread(0.05)),
        raw=PoseErrors(position_m=spread(raw)), published=PoseErrors(), **more,
    )  # fmt: skip


def test_the_whole_of_a_kind() -> None:
    good = a_score("a/b/1", position=0.1)
    bad = a_score("a/b/2", position=0.3, bridges=[Bridge(duration_s=2.0, error_m=0.7)])
    (whole,) = overall([good, bad])
    assert whole.position_m == pytest.approx(0.2)
    assert whole.below_raw == 0.5
    assert whole.worst_to_raw == pytest.approx(1.5)
    assert whole.bridged_m == 0.7
    assert whole.ahead_yaw_rad is None
    assert msgspec.json.decode(msgspec.json.encode(whole))["published_position_m"] is None


def test_tables_have_a_row_for_each_recording_and_no_empty_column() -> None:
    (sheet,) = sheets([a_score("a/b/1"), a_score("a/b/2")])
    assert [row[0] for row in sheet.rows] == ["b/1", "b/2", "all 2"]
    assert "publ." not in sheet.columns
    assert all(len(row) == len(sheet.columns) for row in sheet.rows)
    exact = a_score("c/1", kind="rtk", raw=0.0)
    assert "raw" not in sheets([exact])[0].columns, (
        "where the measurement is the truth it is no rival"
    )
    assert to_raw(exact) is None


def test_names_are_cut_only_as_far_as_they_stay_apart() -> None:
    assert short_names(["data/x/a", "data/y/a"]) == ["x/a", "y/a"]
    assert short_names(["p/x/a", "q/x/a"]) == ["p/x/a", "q/x/a"]
    assert short_names(["a", "b/c/d"]) == ["a", "c/d"]
    assert short_names(["a", "a"]) == ["a", "a"], "one file, two kinds"


def test_identified_values_come_from_the_end_of_the_drive(tmp_path: Path) -> None:
    recording = load(bench.outdoor(tmp_path / "run.csv"), "rtk")
    stated = [
        Identification(
            t, gain, 0.01, 0.3, 0.0, 2.5, 0.5, 0.4, 1.0, 0.0, steering_gain_sigma_rad=0.01
        )
        for t, gain in ((1, 0.3), (2, 0.25))
    ]
    found = scores.score(recording, track_of(recording, identified=stated), "e")
    assert found.identified is not None
    assert (found.identified.gain_rad, found.identified.delay_s) == (0.25, 0.3)
    unknown = [msgspec.structs.replace(stated[0], steering_gain_sigma_rad=float("nan"))]
    assert scores.score(recording, track_of(recording, identified=unknown), "e").identified is None
