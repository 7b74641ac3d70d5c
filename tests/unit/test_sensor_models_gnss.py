"""Receiver of the twin: the published error models, what it reports of them, its antenna on a
vehicle that leans."""

from math import cos, exp, isnan, pi, sin, sqrt

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from sim_backend.plant.interface import Motion
from sim_backend.sensors.gnss import Gnss
from sim_backend.sensors.gnss_errors import RandomWalkError, SecondOrderGaussMarkov
from sim_backend.sensors.noise import Normals, stream
from tests.gnss_bench import DATUM, QUIET, REST, START, enu, fixes, receiver, variances
from vehicled.profile.gnss import (
    GnssModel,
    InnerWalk,
    RandomWalk,
    RecordedError,
    SimulatorWalk,
    WhiteError,
)

# ------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("name", "model"),
    [("art_inner", InnerWalk()), ("art_simulator", SimulatorWalk()), ("random_walk", RandomWalk())],
)
def test_a_pulled_walk_is_the_published_one_step_for_step(name: str, model: RandomWalk):
    """Against the published recurrence, written out here, on the same random numbers."""
    normals = Normals(stream(5, "g/error"), 3)
    p, v, steps, theirs = np.zeros(2), np.zeros(2), 0, []
    for k in range(1, 151):
        while steps < int(k / 10.0 * model.rate_hz + 1e-9):
            mean = -model.pull * model.sigma * np.clip(p / model.pull_range_m, -1.0, 1.0)
            drawn = mean + model.sigma * np.array(normals()[:2])
            v = np.clip(
                v + np.clip(drawn, -model.acceleration_cut, model.acceleration_cut) * model.step_s,
                -model.speed_cut,
                model.speed_cut,
            )
            p = p + v * model.step_s
            steps += 1
        theirs.append(p)
    gnss = Gnss(
        GnssModel(model=name, velocity_sigma_mps=0.0),  # type: ignore[arg-type]
        (0.0, 0.0, 0.0),
        DATUM,
        5,
        "g",
        START,
        0,
    )
    ours = enu(fixes(gnss, 150))[:, :2]
    assert ours == pytest.approx(np.array(theirs), abs=1e-7)
    assert np.abs(theirs).max() > 0.01


@pytest.mark.parametrize(
    ("model", "steps"), [(InnerWalk(), 8_000), (SimulatorWalk(), 1_500), (RandomWalk(), 6_000)]
)
def test_the_sigma_reported_of_a_walk_is_what_it_settles_at(model: RandomWalk, steps: int):
    rng = np.random.default_rng(2)
    p, v, squares = np.zeros(600), np.zeros(600), []
    for step in range(steps):
        mean = -model.pull * model.sigma * np.clip(p / model.pull_range_m, -1.0, 1.0)
        a = (
            np.clip(
                mean + model.sigma * rng.standard_normal(600),
                -model.acceleration_cut,
                model.acceleration_cut,
            )
            * model.step_s
        )
        v = np.clip(v + a, -model.speed_cut, model.speed_cut)
        p = p + v * model.step_s
        if step > steps / 2:
            squares.append(np.mean(p * p))
    assert sqrt(np.mean(squares)) == pytest.approx(model.settled_sigma_m, rel=0.06)
    assert receiver(model="random_walk", hdop=1.0, vdop=2.0, random_walk=model).sample(START, REST)[
        1
    ].position_covariance_m2[8] == pytest.approx(4.0 * model.settled_sigma_m**2)


def test_a_walk_steps_at_its_own_rate_whatever_that_of_the_fixes():
    slow, fast = (
        enu(fixes(receiver(model="random_walk", rate_hz=rate_hz), n))
        for rate_hz, n in ((5.0, 100), (20.0, 400))
    )
    assert slow == pytest.approx(fast[3::4], abs=1e-7)
    walk = RandomWalkError(RandomWalk(), 1.0, Normals(stream(1, "x"), 3))
    assert walk.step(0.0, []) == (0.0,) * 6
    assert walk.step(0.0099999999, []) != (0.0,) * 6, "a rounded time is not a step too early"


def test_gauss_is_white():
    found = enu(
        fixes(receiver(model="gauss", gauss=WhiteError(sigma_m=0.03), hdop=1.0, vdop=2.0), 8_000)
    )
    assert found.std(axis=0) == pytest.approx([0.03, 0.03, 0.06], rel=5 / sqrt(16_000))
    assert abs(np.mean(found[1:, 0] * found[:-1, 0])) < 5 * 0.03**2 / sqrt(8_000)


def test_airsim_has_no_error_and_a_dilution_that_settles():
    """The published recursion, from fix to fix."""
    found = fixes(receiver(model="airsim", velocity_sigma_mps=0.0), 600)
    assert np.abs(enu(found)).max() < 1e-7
    a, h = exp(-0.1 / 12.4), 100.0
    for fix in found:
        h = a * h + (1.0 - a) * 0.85
        assert fix.hdop == pytest.approx(min(h, 99.99))
        assert fix.vdop == pytest.approx(min(2.0 * h, 99.99))
        assert variances(fix) == pytest.approx(
            [(0.02 * fix.hdop) ** 2] * 2 + [(0.02 * fix.vdop) ** 2]
        )


@pytest.mark.parametrize("error", ["gauss", "random_walk"])
def test_combined_models_have_the_error_of_one_and_the_word_of_the_other(error: str):
    found = fixes(receiver(model=f"{error}_airsim"), 50)
    assert (enu(found) == enu(fixes(receiver(model=error), 50))).all()
    assert [variances(fix) for fix in found] == [
        variances(fix) for fix in fixes(receiver(model="airsim"), 50)
    ]


def test_a_second_order_process_has_its_autocorrelation_at_any_interval():
    rng = np.random.default_rng(3)
    for dt_s in (0.25, 3.0):
        lags = [round(t_s / dt_s) for t_s in (3.0, 9.0, 24.0)]
        rows = []
        for _ in range(150):
            process = SecondOrderGaussMarkov(1.5, 6.0, dt_s, rng.standard_normal(2).tolist())
            rows.append(
                [process.value]
                + [process.step(*rng.standard_normal(2).tolist()) for _ in range(max(lags))]
            )
        x = np.array(rows)
        # Start and end are both as wide as the whole: it is as old as the world.
        assert x[:, 0].std() == pytest.approx(1.5, rel=5 / sqrt(300))
        for lag in lags:
            u = lag * dt_s / 6.0
            expected = 1.5**2 * (1.0 + u) * exp(-u)
            assert np.mean(x[:, 0] * x[:, lag]) == pytest.approx(
                expected, abs=5 * 1.5**2 * sqrt(2.0 / 150)
            )


def test_the_recorded_model_has_the_increments_it_was_fitted_to():
    form = RecordedError()
    lags = np.array([4, 16, 64, 256])
    t = lags / 4.0
    expected = 2.0 * (
        form.white_sigma_m**2
        + form.wander_sigma_m**2 * (1.0 - np.exp(-t / form.wander_time_s))
        + form.smooth_sigma_m**2
        * (1.0 - (1.0 + t / form.smooth_time_s) * np.exp(-t / form.smooth_time_s))
    )
    runs = [
        enu(fixes(receiver(seed, model="recorded", rate_hz=4.0, hdop=1.0, vdop=1.0), 257))
        for seed in range(60)
    ]
    found = np.array([[np.mean((run[lag:] - run[:-lag]) ** 2) for lag in lags] for run in runs])
    spread = found.std(axis=0) / sqrt(len(runs))
    assert (np.abs(found.mean(axis=0) - expected) < 5.0 * spread).all()
    # The recorded laps' own: root of D at 1 s 0.146 m, at 16 s 0.876 m, at 64 s 1.764 m.
    assert np.sqrt(expected) == pytest.approx([0.146, 0.369, 0.876, 1.764], rel=0.06)


# --------------------------------------------------------------------------------- what is reported


def test_covariance_of_the_dilution_or_none_at_all():
    diluted = receiver(covariance="hdop", user_range_error_m=2.0, hdop=1.5, vdop=2.0).sample(
        START, REST
    )[1]
    assert variances(diluted) == pytest.approx([9.0, 9.0, 16.0])
    unknown = receiver(covariance="unknown").sample(START, REST)[1]
    assert all(
        isnan(v) for v in (*unknown.position_covariance_m2, *unknown.velocity_covariance_m2ps2)
    )


# ------------------------------------------------------------------------------------------ antenna


def test_the_antenna_leans_with_the_vehicle():
    roll, pitch, yaw, lever = 0.2, -0.15, 2.1, (0.4, -0.2, 1.6)
    motion = Motion(
        3.0, -2.0, yaw, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, z_m=5.0, roll_rad=roll, pitch_rad=pitch
    )
    turned = Rotation.from_euler("ZYX", [yaw, pitch, roll])
    found = enu([receiver(lever=lever, **QUIET).sample(START, motion)[1]])[0]
    assert found == pytest.approx(turned.apply(lever) + np.array([3.0, -2.0, 5.0]), abs=1e-7)


def test_the_velocity_is_that_of_the_antenna_s_path():
    """Against finite differences of the place, on a vehicle that turns about all three axes while
    it climbs."""
    lever, h = (0.4, -0.2, 1.6), 1e-4

    def attitude(t: float) -> Rotation:
        return Rotation.from_euler("ZYX", [0.3 + 0.8 * t, 0.1 * sin(2.0 * t), 0.15 * cos(3.0 * t)])

    def at(t: float) -> Motion:
        yaw, pitch, roll = attitude(t).as_euler("ZYX").tolist()
        p, q, r = ((attitude(t - h).inv() * attitude(t + h)).as_rotvec() / (2.0 * h)).tolist()
        east, north = 2.0, t
        ahead, left = cos(yaw) * east + sin(yaw) * north, cos(yaw) * north - sin(yaw) * east
        return Motion(
            2.0 * t, 0.5 * t * t, yaw, ahead / cos(pitch), left / cos(roll), r, 0.0, 0.0, 0.0, 0.0,
            z_m=0.2 * t, roll_rad=roll, pitch_rad=pitch, roll_rate_radps=p, pitch_rate_radps=q,
        )  # fmt: skip

    gnss = receiver(lever=lever, rate_hz=1.0 / h, **QUIET)
    places, found = [], []
    for t in (0.7 - h, 0.7, 0.7 + h):
        fix = gnss.sample(START, at(t))[1]
        places.append(enu([fix])[0])
        found.append(fix.velocity_enu_mps)
    assert found[1] == pytest.approx((places[2] - places[0]) / (2.0 * h), abs=1e-3)


def test_a_body_that_dips_on_its_springs_does_not_climb():
    dipping = Motion(0.0, 0.0, 0.0, 10.0, 0.0, 0.0, -4.0, 0.0, 0.0, 0.0, pitch_rad=0.03)
    assert [fix.velocity_enu_mps[2] for fix in fixes(receiver(**QUIET), 3, dipping)] == [0.0] * 3


def test_the_short_cut_of_a_level_vehicle_meets_the_long_way():
    level = Motion(1.0, 2.0, pi / 3, 2.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0)
    hair = Motion(1.0, 2.0, pi / 3, 2.0, 0.3, 0.4, 0.0, 0.0, 0.0, 0.0, roll_rad=1e-12)
    a, b = (
        receiver(lever=(0.4, 0.2, 0.7), **QUIET).sample(START, motion)[1]
        for motion in (level, hair)
    )
    assert enu([a]) == pytest.approx(enu([b]), abs=1e-6)
    assert a.velocity_enu_mps == pytest.approx(b.velocity_enu_mps, abs=1e-9)
