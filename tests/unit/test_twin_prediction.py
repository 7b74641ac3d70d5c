"""Identification of a drive, and the prediction made from it."""

from math import cos, sin, tan
from pathlib import Path

import numpy as np
import pytest

from vehicled.cli import main
from vehicled.lab.experiments.drive_response import DriveResponse, ResponseError, identify
from vehicled.lab.experiments.twin_prediction import Drive, Waypoints, cross_track_m, predict
from vehicled.lab.twin.predict import FourDofTwin, twin_of
from vehicled.messages import ActuatorCommand, Mode
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile
from vehicled.recordings.recording import Recording, Truth

TRUE = DriveResponse(
    gain_rad=0.24, offset_rad=0.012, delay_s=0.3, r2=1.0, reach_mps=2.1, friction_mps=0.3, time_constant_s=1.0, speed_rms_mps=0.0
)


def recorded(response: DriveResponse, seconds: float = 60.0, turns: float = 0.7) -> Recording:
    """A drive of a twin with that response under made-up commands, seen without error at 10 Hz."""
    profile = load_profile("art")
    twin = FourDofTwin(twin_of(profile.sim, response), 0.0, 0.0, 0.0)
    commands, rows = [], []
    for k in range(round(seconds * 10)):
        now_ns = k * 100_000_000
        rows.append(twin.advance(now_ns))
        throttle, steering = 0.7 + 0.25 * sin(0.31 * k * 0.1), turns * sin(0.9 * k * 0.1) * cos(0.13 * k * 0.1)
        twin.command(now_ns, throttle, steering)
        commands.append(ActuatorCommand(now_ns, now_ns, throttle, 0.0, steering, 0.0, Mode.AUTO))
    x, y, yaw, speed = np.array(rows).T
    t_ns = np.arange(len(rows)) * 100_000_000
    truth = Truth(t_ns, x, y, yaw, speed)
    return Recording(
        name="made", kind="path", vehicle=profile.vehicle, datum=LOT_17, inputs=commands, steps_ns=t_ns.tolist(), truth=truth,
        raw_x_m=x, raw_y_m=y,
    )  # fmt: skip


def test_what_a_twin_was_given_is_found_again() -> None:
    found = identify(recorded(TRUE))
    assert found.gain_rad == pytest.approx(TRUE.gain_rad, rel=0.02)
    assert found.offset_rad == pytest.approx(TRUE.offset_rad, abs=0.002)
    assert found.delay_s == pytest.approx(TRUE.delay_s, abs=0.021)
    assert found.time_constant_s == pytest.approx(TRUE.time_constant_s, rel=0.15)
    assert found.reach_mps * 0.7 - found.friction_mps == pytest.approx(2.1 * 0.7 - 0.3, abs=0.03)
    assert found.speed_rms_mps < 0.03
    assert found.r2 > 0.99


@pytest.mark.parametrize(
    ("seconds", "turns", "why"), [(5.0, 0.7, "record a longer drive"), (30.0, 0.0, "the steering was hardly moved")]
)
def test_a_drive_that_shows_nothing_is_refused_with_the_reason(seconds: float, turns: float, why: str) -> None:
    with pytest.raises(ResponseError, match=why):
        identify(recorded(TRUE, seconds, turns))


def test_a_single_track_at_constant_steering_drives_the_circle_of_its_response() -> None:
    profile = load_profile("art")
    twin = FourDofTwin(twin_of(profile.sim, TRUE), 0.0, 0.0, 0.0)
    for k in range(100):
        twin.command(k * 100_000_000, 0.7, 0.5)
        x, y, yaw, speed = twin.advance((k + 1) * 100_000_000)
    later = twin.advance(10_500_000_000)
    wheelbase = profile.vehicle.wheelbase_m
    assert (later[2] - yaw) / 0.5 == pytest.approx(speed * tan(0.012 + 0.24 * 0.5) / wheelbase, rel=1e-3)
    assert speed == pytest.approx(2.1 * 0.7 - 0.3, abs=0.01)
    assert np.isfinite([x, y]).all()


def test_the_prediction_is_the_drive_of_the_law_and_the_same_each_time() -> None:
    s = np.linspace(0.0, 20.0, 201)
    course = Waypoints(s, np.sin(0.4 * s), np.arctan(0.4 * np.cos(0.4 * s)), np.ones(201))
    made, profile = recorded(TRUE), load_profile("art")

    def twin(response: DriveResponse, x: float, y: float, yaw: float) -> FourDofTwin:
        return FourDofTwin(twin_of(profile.sim, response), x, y, yaw)

    drives = [Drive("sine", "linear", "made", f"pid_{k}", 0.2, made) for k in (1, 2)]
    found, unused = predict({"sine": course}, drives, twin, lambda _: None)
    assert not unused
    assert [(p.law, p.known, p.others) for p in found] == [("linear", "pid_1", 1), ("linear", "pid_2", 1)]
    assert found[0].predicted_m == found[1].predicted_m
    # The law cuts the curves and lags behind them: it is neither exact nor lost.
    assert 0.02 < found[0].predicted_m < 0.6


def test_distance_from_a_polygon_does_not_depend_on_where_its_points_stand() -> None:
    x = np.array([0.0, 10.0, 10.0])
    y = np.array([0.0, 0.0, 10.0])
    course = Waypoints(x, y, np.zeros(3), np.ones(3))
    assert cross_track_m(course, np.array([3.3, 12.0, 9.0]), np.array([1.0, 5.0, -2.0])) == pytest.approx([1.0, 2.0, 2.0])


def test_a_folder_without_drives_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["twin", "predict", str(tmp_path)]) == 2
    assert "path_following_2024" in capsys.readouterr().err


def test_the_drives_of_one_recorded_path_are_foretold(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two drives of the shortest path; `vehicled twin predict` does all of them."""
    place = tmp_path / "path_following_2024" / "real" / "syn_path"
    place.mkdir(parents=True)
    (tmp_path / "reference_paths").symlink_to(shared_data / "reference_paths")
    for name in ("pid_1.csv", "pid_3.csv"):
        (place / name).symlink_to(shared_data / "path_following_2024" / "real" / "syn_path" / name)
    assert main(["twin", "predict", str(tmp_path)]) == 0
    assert "within 25%" in capsys.readouterr().out
