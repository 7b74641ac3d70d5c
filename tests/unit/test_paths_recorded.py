"""Driven paths as courses: noise, standing, changes of direction, and logs in which nothing was
driven."""

from math import pi, remainder, tau

import numpy as np
import pytest

from vehicled.core.arrays import Array
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.formats import course_from_bytes
from vehicled.paths.recorded import Recorded, recorded

DT_S = 0.005
DATUM = Datum.from_degrees(48.1, 11.5, 520.0)


class Track:
    """A vehicle with wheels that turn at once, logged at 200 Hz."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float, float, float]] = [(0.0, 0.0, 0.0, 0.0)]

    def drive(self, seconds: float, speed_mps: float, curvature_per_m: float = 0.0) -> "Track":
        x, y, yaw, _ = self.rows[-1]
        for _ in range(round(seconds / DT_S)):
            turned = yaw + speed_mps * curvature_per_m * DT_S
            x += speed_mps * np.cos(0.5 * (yaw + turned)) * DT_S
            y += speed_mps * np.sin(0.5 * (yaw + turned)) * DT_S
            yaw = turned
            self.rows.append((x, y, yaw, speed_mps))
        return self

    def columns(self, noise_m: float = 0.0, seed: int = 1) -> list[Array]:
        """Times, places, headings, speeds. The error is held for 0.1 s and jumps, as after each
        fix."""
        table = np.array(self.rows)
        noise = (
            np.random.default_rng(seed)
            .normal(0.0, noise_m, (len(table) // 20 + 1, 2))
            .repeat(20, axis=0)[: len(table)]
        )
        return [
            np.arange(len(table)) * DT_S,
            table[:, 0] + noise[:, 0],
            table[:, 1] + noise[:, 1],
            table[:, 2],
            table[:, 3],
        ]


def save(
    track: Track, noise_m: float = 0.0, spacing_m: float = 0.1, constant_mps: float | None = None
) -> Recorded:
    return recorded(*track.columns(noise_m), spacing_m=spacing_m, constant_mps=constant_mps)


@pytest.mark.parametrize("curvature", [0.0, 0.3, -0.7])
def test_an_arc_comes_back_through_the_noise(curvature: float) -> None:
    track = Track().drive(3.0, 0.0).drive(8.0, 1.0, curvature).drive(3.0, 0.0)
    path = save(track, noise_m=0.02)
    true = np.array(track.rows)
    off = [
        np.hypot(true[:, 0] - x, true[:, 1] - y).min()
        for x, y in zip(path.x_m, path.y_m, strict=True)
    ]
    assert np.mean(off) < 0.01
    assert max(off) < 0.04, "least is known about the ends"
    course = course_from_bytes(path.to_csv("arc", DATUM).encode(), "arc.csv")
    assert course.length_m == pytest.approx(8.0, abs=0.1)
    assert np.median(course.curvature_per_m) == pytest.approx(curvature, abs=0.03)
    assert np.abs(course.curvature_per_m[10:-10] - curvature).max() < 0.25
    assert np.hypot(np.diff(path.x_m), np.diff(path.y_m)) == pytest.approx(0.1, abs=0.01)


def test_a_turn_in_three_moves_keeps_its_cusps_headings_and_speeds() -> None:
    track = (
        Track()
        .drive(4.0, 0.8, 0.6)
        .drive(2.0, 0.0)
        .drive(3.0, -0.5, -0.6)
        .drive(1.0, 0.0)
        .drive(4.0, 0.8, 0.6)
    )
    path = save(track, noise_m=0.01)
    assert path.legs == 3
    course = course_from_bytes(path.to_csv("turn", DATUM).encode(), "turn.csv")
    assert len(course.cusps) == 2
    assert course.reverses
    last = track.rows[-1]
    assert np.hypot(course.x_m[-1] - last[0], course.y_m[-1] - last[1]) < 0.05
    assert abs(remainder(float(course.yaw_rad[-1]) - last[2], tau)) < 0.1
    assert course.speed_mps.min() == pytest.approx(-0.5, abs=0.05)
    assert course.speed_mps.max() == pytest.approx(0.8, abs=0.05)
    assert abs(remainder(float(path.yaw_rad[0]), 2 * pi)) < 0.1


def test_the_datum_is_kept_to_a_tenth_of_a_millimetre() -> None:
    course = course_from_bytes(
        save(Track().drive(4.0, 1.0)).to_csv("line", DATUM).encode(), "line.csv"
    )
    assert course.datum.latitude_rad == pytest.approx(DATUM.latitude_rad, abs=1e-4 / 6.4e6)
    assert course.datum.longitude_rad == pytest.approx(DATUM.longitude_rad, abs=1e-4 / 6.4e6)
    assert course.datum.height_m == DATUM.height_m
    assert course.name == "line"
    assert not course.closed


def test_rolling_back_and_wandering_at_rest_are_no_driving() -> None:
    still = Track().drive(5.0, 1.0).drive(30.0, 0.0)
    path = save(still, noise_m=0.02)
    assert np.hypot(path.x_m[-1] - 5.0, path.y_m[-1]) < 0.05
    rolled = save(Track().drive(4.0, 1.0).drive(1.0, -0.15).drive(4.0, 1.0))
    assert rolled.legs == 1
    assert rolled.speed_mps.min() > 0.0


def test_one_speed_for_all_of_it_keeps_its_direction() -> None:
    path = save(Track().drive(3.0, 0.8).drive(1.0, 0.0).drive(3.0, -0.4), constant_mps=1.2)
    assert set(np.round(path.speed_mps, 6)) == {1.2, -1.2}


def test_moving_off_is_left_to_the_speed_control() -> None:
    track = Track()
    for k in range(40):
        track.drive(0.05, 0.025 * k)
    track.drive(4.0, 1.0)
    path = save(track)
    assert path.speed_mps[0] == pytest.approx(0.3, abs=0.05)
    assert path.speed_mps[-1] == pytest.approx(1.0, abs=0.05)


def test_the_spacing_is_what_was_asked_for() -> None:
    track = Track().drive(10.0, 1.0, 0.2)
    assert len(save(track, spacing_m=0.5).x_m) == 21
    assert len(save(track, spacing_m=0.05).x_m) == pytest.approx(201, abs=1)


@pytest.mark.parametrize(
    "track",
    [
        Track(),
        Track().drive(60.0, 0.0),
        Track().drive(0.5, 1.0),
        Track().drive(60.0, 0.05),
        Track().drive(1.0, float("nan")),
    ],
    ids=["nothing", "standing", "half a metre", "creeping", "not a number"],
)
def test_where_nothing_was_driven_nothing_is_saved(track: Track) -> None:
    with pytest.raises(CourseError, match="nothing was driven"):
        save(track)


def test_a_position_that_jumps_is_refused_with_its_time() -> None:
    track = Track().drive(5.0, 1.0)
    x, y, yaw, speed = track.rows[-1]
    track.rows.append((x + 4.0, y, yaw, speed))
    track.drive(5.0, 1.0)
    with pytest.raises(CourseError, match=r"jumps by 4\.0 m at 5\.0 s"):
        save(track)


def test_what_is_not_finite_is_left_out() -> None:
    t_s, x_m, y_m, yaw_rad, speed_mps = Track().drive(6.0, 1.0).columns()
    for column in (x_m, speed_mps):
        column[300:310] = np.nan
    path = recorded(t_s, x_m, y_m, yaw_rad, speed_mps, spacing_m=0.1)
    assert path.x_m[-1] == pytest.approx(6.0, abs=0.05)
