"""Identification of a drive, and the prediction made from it."""

import dataclasses
from functools import cache
from math import cos, sin, tan
from pathlib import Path

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from vehicled.cli import main
from vehicled.core.messages import ActuatorCommand, Mode
from vehicled.offline.recordings.recording import RecordedMotion, Recording
from vehicled.offline.replications.experiments.drive_response import (
    DriveResponse,
    ResponseError,
    identify,
)
from vehicled.offline.replications.experiments.prediction_spread import (
    CAUSES,
    COVERAGE,
    HEADING_SIGMA_RAD,
    REST_SIGMA,
    Deviation,
    interval,
    sigmas,
)
from vehicled.offline.replications.experiments.twin_prediction import (
    PublishedLaw,
    RecordedDrive,
    Waypoints,
    cross_track_m,
    drive,
    predict,
)
from vehicled.offline.replications.predict import NEAR_LIMIT_CYCLE, FourDofTwin, twin_of
from vehicled.offline.replications.published.mpc import PublishedQp
from vehicled.paths.datum import LOT_17
from vehicled.profile import load_profile

TRUE = DriveResponse(
    gain_rad=0.24,
    offset_rad=0.012,
    delay_s=0.3,
    r2=1.0,
    reach_mps=2.1,
    friction_mps=0.3,
    time_constant_s=1.0,
    speed_rms_mps=0.0,
)


def recorded(response: DriveResponse, seconds: float = 60.0, turns: float = 0.7) -> Recording:
    """A drive of a twin with that response under made-up commands, seen without error at 10 Hz."""
    profile = load_profile("art_published")
    twin = FourDofTwin(twin_of(profile.sim, response), 0.0, 0.0, 0.0)
    commands, rows = [], []
    for k in range(round(seconds * 10)):
        now_ns = k * 100_000_000
        rows.append(twin.advance(now_ns))
        throttle = 0.7 + 0.25 * sin(0.31 * k * 0.1)
        steering = turns * sin(0.9 * k * 0.1) * cos(0.13 * k * 0.1)
        twin.command(now_ns, throttle, steering)
        commands.append(ActuatorCommand(now_ns, now_ns, throttle, 0.0, steering, 0.0, Mode.AUTO))
    x, y, yaw, speed = np.array(rows).T
    t_ns = np.arange(len(rows)) * 100_000_000
    truth = RecordedMotion(t_ns, x, y, yaw, speed)
    return Recording(
        name="made", kind="path", vehicle=profile.vehicle, datum=LOT_17, inputs=commands,
        steps_ns=t_ns.tolist(), truth=truth, raw_x_m=x, raw_y_m=y,
        published=RecordedMotion.partly(t_ns),
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
    ("seconds", "turns", "why"),
    [(5.0, 0.7, "record a longer drive"), (30.0, 0.0, "the steering was hardly moved")],
)
def test_a_drive_that_shows_nothing_is_refused_with_the_reason(
    seconds: float, turns: float, why: str
) -> None:
    with pytest.raises(ResponseError, match=why):
        identify(recorded(TRUE, seconds, turns))


def test_a_single_track_at_constant_steering_drives_the_circle_of_its_response() -> None:
    profile = load_profile("art_published")
    twin = FourDofTwin(twin_of(profile.sim, TRUE), 0.0, 0.0, 0.0)
    for k in range(100):
        twin.command(k * 100_000_000, 0.7, 0.5)
        x, y, yaw, speed = twin.advance((k + 1) * 100_000_000)
    later = twin.advance(10_500_000_000)
    wheelbase = profile.vehicle.wheelbase_m
    assert (later[2] - yaw) / 0.5 == pytest.approx(
        speed * tan(0.012 + 0.24 * 0.5) / wheelbase, rel=1e-3
    )
    assert speed == pytest.approx(2.1 * 0.7 - 0.3, abs=0.01)
    assert np.isfinite([x, y]).all()


def test_the_prediction_is_the_drive_of_the_law_and_the_same_each_time() -> None:
    s = np.linspace(0.0, 20.0, 201)
    course = Waypoints(s, np.sin(0.4 * s), np.arctan(0.4 * np.cos(0.4 * s)), np.ones(201))
    made, profile = recorded(TRUE), load_profile("art_published")

    def twin(response: DriveResponse, x: float, y: float, yaw: float) -> FourDofTwin:
        return FourDofTwin(twin_of(profile.sim, response), x, y, yaw)

    drives = [RecordedDrive("sine", "linear", "made", f"pid_{k}", 0.2, made) for k in (1, 2)]
    found, unused = predict({"sine": course}, drives, twin, lambda _: None)
    assert not unused
    assert [(p.law, p.known, p.real_m) for p in found] == [
        ("linear", "pid_1", [0.2]),
        ("linear", "pid_2", [0.2]),
    ]
    one, other = (each.predicted for each in found)
    assert one == other
    # The law cuts the curves and lags behind them: it is neither exact nor lost.
    assert 0.02 < one.low < one.expected < one.high < 0.6
    assert sum(one.shares.values()) == pytest.approx(1.0)
    assert found[0].covered == int(one.low <= 0.2 <= one.high)


def test_a_late_vehicle_on_a_quick_course_is_near_a_limit_cycle() -> None:
    """The MPC holds the path with little delay and swings with much: the prediction says that the
    delay decides."""
    s = np.linspace(0.0, 25.0, 251)
    course = Waypoints(s, np.sin(0.7 * s), np.arctan(0.7 * np.cos(0.7 * s)), np.ones(251))
    profile, qp = load_profile("art_published"), PublishedQp(4000)

    @cache
    def error_m(delay_s: float) -> float:
        twin = FourDofTwin(
            twin_of(profile.sim, replace(TRUE, delay_s=delay_s)), 0.0, 0.0, float(course.yaw_rad[0])
        )
        places = drive(twin, PublishedLaw("mpc", course, qp), course, 0.0, 0.0, [True])
        return float(cross_track_m(course, places[:, 0], places[:, 1]).mean())

    sigma = dict.fromkeys(CAUSES, 1e-3) | {"delay": 0.04}
    quick, late = (
        interval(
            replace(TRUE, delay_s=delay_s), sigma, lambda changed: error_m(changed.response.delay_s)
        )
        for delay_s in (0.1, 0.55)
    )
    assert 0.1 * late.per_delay_ps > NEAR_LIMIT_CYCLE > 0.1 * quick.per_delay_ps
    assert late.shares["delay"] > 0.6 > quick.shares["delay"]


def test_an_interval_holds_as_many_drives_as_it_states() -> None:
    """Drives drawn from the stated spreads, with an error that grows with heading and delay and
    falls with the gain."""
    sigma = sigmas(TRUE, 0.0)

    def figure(changed: Deviation) -> float:
        slow = TRUE.gain_rad / changed.response.gain_rad
        return (
            0.1 * slow
            + 1.5 * changed.heading_rad**2 / HEADING_SIGMA_RAD * 0.1
            + 0.2 * (changed.response.delay_s - TRUE.delay_s)
        )

    found = interval(TRUE, sigma, figure)
    draw = np.random.default_rng(3)
    drawn = []
    for gain, delay, heading, rest in draw.normal(size=(4000, 4)):
        response = replace(
            TRUE,
            gain_rad=TRUE.gain_rad * float(np.exp(sigma["gain"] * gain)),
            delay_s=TRUE.delay_s + sigma["delay"] * float(delay),
        )
        drawn.append(
            figure(Deviation(response, heading_rad=HEADING_SIGMA_RAD * float(heading)))
            * (1.0 + REST_SIGMA * rest)
        )
    assert found.expected == pytest.approx(np.mean(drawn), rel=0.02)
    held = np.mean([found.low <= each <= found.high for each in drawn])
    assert held == pytest.approx(COVERAGE, abs=0.05)


def test_moments_of_a_square_are_exact() -> None:
    """The mean of x^2 is the variance of x, and its variance twice the square of that: the rule is
    exact to the fifth power."""
    sigma = dict.fromkeys(CAUSES, 0.0) | {"heading zero": 0.5}
    found = interval(TRUE, sigma, lambda changed: 2.0 + changed.heading_rad**2)
    assert (found.exact, found.expected) == (2.0, pytest.approx(2.25))
    assert found.shares["heading zero"] / found.shares["rest"] == pytest.approx(
        2.0 * 0.5**4 / (REST_SIGMA * 2.25) ** 2
    )
    assert found.per_delay_ps == 0.0


def test_the_stated_uncertainty_of_an_identification_is_that_of_repeated_drives() -> None:
    clean, draw, off = recorded(TRUE), np.random.default_rng(4), []
    for _ in range(12):
        truth = dataclasses.replace(
            clean.truth, yaw_rad=clean.truth.yaw_rad + draw.normal(0.0, 0.02, len(clean.truth.t_ns))
        )
        found = identify(dataclasses.replace(clean, truth=truth))
        gain, offset = found.gain_rad - TRUE.gain_rad, found.offset_rad - TRUE.offset_rad
        off.append([gain / found.gain_sigma_rad, offset / found.offset_sigma_rad])
    # On the safe side for the offset: the error of a course is gone again after one turn.
    spread = np.std(off, axis=0)
    assert 0.4 < spread[0] < 1.5
    assert 0.1 < spread[1] < 1.5


def test_distance_from_a_polygon_does_not_depend_on_where_its_points_stand() -> None:
    x = np.array([0.0, 10.0, 10.0])
    y = np.array([0.0, 0.0, 10.0])
    course = Waypoints(x, y, np.zeros(3), np.ones(3))
    assert cross_track_m(
        course, np.array([3.3, 12.0, 9.0]), np.array([1.0, 5.0, -2.0])
    ) == pytest.approx([1.0, 2.0, 2.0])


def test_a_folder_without_drives_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["twin", "predict", str(tmp_path)]) == 2
    assert "path_following_2024" in capsys.readouterr().err


def test_the_drives_of_one_recorded_path_are_predicted(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two drives of the shortest path; `vehicled twin predict` does all of them."""
    place = tmp_path / "path_following_2024" / "real" / "syn_path"
    place.mkdir(parents=True)
    (tmp_path / "reference_paths").symlink_to(shared_data / "reference_paths")
    for name in ("pid_1.csv", "pid_3.csv"):
        (place / name).symlink_to(shared_data / "path_following_2024" / "real" / "syn_path" / name)
    assert main(["twin", "predict", str(tmp_path), "--jobs", "1"]) == 0
    shown = capsys.readouterr().out
    assert "within 25%" in shown
    assert "intervals hold" in shown
    assert main(["twin", "predict", str(tmp_path), "--jobs", "1", "--json"]) == 0
    data = msgspec.json.decode(capsys.readouterr().out)
    assert data["coverage"]["of"] == sum(len(each["real_m"]) for each in data["predictions"]) == 2
    for each in data["predictions"]:
        assert each["predicted"]["low"] < each["predicted"]["expected"] < each["predicted"]["high"]
