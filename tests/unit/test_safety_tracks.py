"""The track of a moving body, compared with the Kalman filter of the textbook in matrices."""

from math import hypot

import numpy as np
import pytest

from vehicled.safety.monitors.tracks import BodyTrack

SIGMA_M, SPEED_SIGMA_MPS, DENSITY = 0.2, 3.0, 1.5


class Textbook:
    """A filter of constant velocity for one axis, with white noise of the acceleration."""

    def __init__(self, place_m: float) -> None:
        self.state = np.array([place_m, 0.0])
        self.covariance = np.diag([SIGMA_M**2, SPEED_SIGMA_MPS**2])

    def predict(self, dt_s: float) -> None:
        carry = np.array([[1.0, dt_s], [0.0, 1.0]])
        noise = DENSITY**2 * np.array([[dt_s**3 / 3.0, dt_s**2 / 2.0], [dt_s**2 / 2.0, dt_s]])
        self.state = carry @ self.state
        self.covariance = carry @ self.covariance @ carry.T + noise

    def correct(self, place_m: float, sigma_m: float) -> None:
        gain = self.covariance[:, 0] / (self.covariance[0, 0] + sigma_m**2)
        self.state = self.state + gain * (place_m - self.state[0])
        self.covariance = self.covariance - np.outer(gain, self.covariance[0])


def test_it_is_the_filter_of_the_textbook() -> None:
    track = BodyTrack(10.0, 4.0, -2.0, 0.5, SIGMA_M, SPEED_SIGMA_MPS)
    axes = Textbook(4.0), Textbook(-2.0)
    t_s = 10.0
    assert (track.vx, track.vy, track.extent_m, track.moved_m) == (0.0, 0.0, 0.5, 0.0)
    for k, dt_s in enumerate((0.05, 0.1, 0.05, 0.2, 0.05, 0.3)):
        seen = 4.0 + 0.8 * (k + 1), -2.0 - 0.5 * (k + 1)
        for axis in axes:
            axis.predict(dt_s)
        away = [place - axis.state[0] for place, axis in zip(seen, axes, strict=True)]
        # Without the noise of the acceleration since the last prediction.
        free = axes[0].covariance[0, 0] - DENSITY**2 * dt_s**3 / 3.0
        assert track.deviation(t_s + dt_s, *seen, 0.3) == pytest.approx(
            hypot(*away) / np.sqrt(free + 0.3**2)
        )
        t_s += dt_s
        track.predict(t_s, DENSITY)
        assert (track.x, track.y) == pytest.approx([axis.state[0] for axis in axes])
        assert track.seen_s == pytest.approx(t_s - dt_s)
        track.correct(*seen, 0.6, 0.3)
        for place, axis in zip(seen, axes, strict=True):
            axis.correct(place, 0.3)
        assert (track.x, track.y) == pytest.approx([axis.state[0] for axis in axes])
        assert (track.vx, track.vy) == pytest.approx([axis.state[1] for axis in axes])
        assert track.speed_sigma_mps == pytest.approx(np.sqrt(axes[0].covariance[1, 1]))
        assert (track.seen_s, track.extent_m) == (t_s, 0.6)
    assert track.moved_m == pytest.approx(hypot(track.x - 4.0, track.y + 2.0))


def test_a_time_before_the_last_one_changes_nothing() -> None:
    track = BodyTrack(10.0, 4.0, -2.0, 0.5, SIGMA_M, SPEED_SIGMA_MPS)
    track.vx, track.vy = 2.0, 1.0
    deviation = track.deviation(10.0, 5.0, -2.0, 0.3)
    assert deviation == pytest.approx(1.0 / hypot(SIGMA_M, 0.3))
    assert track.deviation(9.0, 5.0, -2.0, 0.3) == pytest.approx(deviation)
    track.predict(9.0, DENSITY)
    assert (track.t_s, track.x, track.y) == (10.0, 4.0, -2.0)
    assert track.speed_sigma_mps == SPEED_SIGMA_MPS


@pytest.mark.parametrize(
    ("after_s", "speed_mps", "sigma_mps", "moved_m", "extent_m", "moves"),
    [
        (0.3, 1.0, 0.3, 0.6, 0.5, True), (0.29, 1.0, 0.3, 0.6, 0.5, False),
        (0.3, 0.899, 0.3, 0.6, 0.5, False), (0.3, 0.91, 0.3, 0.6, 0.5, True),
        (0.3, 0.4, 0.01, 0.6, 0.5, False), (0.3, 0.41, 0.01, 0.6, 0.5, True),
        (0.3, 1.0, 0.3, 0.5, 0.5, False), (0.3, 1.0, 0.3, 0.51, 0.5, True),
        (0.3, 1.0, 0.3, 0.6, 0.61, False), (0.3, 1.0, 0.3, 0.6, 0.39, False),
    ],
)  # fmt: skip
def test_a_body_that_surely_moves(
    after_s: float, speed_mps: float, sigma_mps: float, moved_m: float, extent_m: float, moves: bool
) -> None:
    """It is followed for 0.3 s, faster than three standard deviations and 0.4 m/s, and moved by
    0.5 m and the change of its extent."""
    track = BodyTrack(0.0, 1.0, 1.0, 0.5, SIGMA_M, sigma_mps)
    track.t_s, track.extent_m = after_s, extent_m
    track.x, track.y = 1.0 + 0.6 * moved_m, 1.0 - 0.8 * moved_m
    track.vx, track.vy = 0.6 * speed_mps, -0.8 * speed_mps
    assert track.moves(0.4, 0.5) is moves
