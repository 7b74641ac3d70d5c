"""The filter as published against the states that it recorded itself on the vehicle."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import examples
from vehicled.core.messages import ActuatorCommand, FixType, GnssFix, Heading, StateEstimate
from vehicled.offline.replications.published.ekf4 import (
    Ekf4Published,
    Ekf4PublishedParams,
    PublishedFilterState,
    begin,
    correct,
    predict,
)
from vehicled.paths.datum import Datum
from vehicled.profile import load_profile

INDOORS = Ekf4PublishedParams(
    stall_torque_nm=0.09,
    no_load_speed_radps=161.185,
    friction_nm=0.039,
    wheel_angle_per_command_rad=0.37,
)
OUTDOORS = Ekf4PublishedParams()
DATUM = Datum(0.7517, -1.5605, 260.0)
RUNS = ["single_speed/nn_mc_1", "single_speed/nn_mpc_2", "multi_speed/nn_mpc_3"]


def _table(file: Path) -> Any:
    return np.genfromtxt(file, delimiter=",", names=True)


@pytest.mark.parametrize("run", RUNS)
def test_recorded_states_outdoors_are_reproduced_to_their_last_digit(
    real_data: Path, run: str
) -> None:
    """Every row with and without a plain fix. Before each step the node overwrote position and
    heading with RTK and gyro, and it took the gyro's yaw (rad) less 14 for degrees, so that the
    measured heading was nearly constant.
    """
    rows = _table(real_data / "lot17_rtk_gps_2023" / f"{run}.csv")
    columns = ("ekf_x_m", "ekf_y_m", "ekf_heading_rad", "ekf_speed_mps")
    recorded = np.column_stack([rows[c] for c in columns])
    belief = begin(0.0, 0.0, 0.0)
    without, with_fix = [], []
    for k, row in enumerate(rows):
        if k:
            before = rows[k - 1]
            seen = np.array(
                (
                    before["rtk_x_m"],
                    before["rtk_y_m"],
                    before["gyro_yaw_rad"],
                    before["ekf_speed_mps"],
                )
            )
            belief = PublishedFilterState(seen, belief.P)
        belief = predict(OUTDOORS, belief, row["throttle_cmd"], row["steering_cmd"])
        # Values are held between fixes and a fix may repeat them: that one entered shows in the
        # state only.
        if k == 0 or np.abs(belief.q - recorded[k])[[1, 3]].max() > 1e-5:
            yaw = math.radians(rows[max(k - 1, 0)]["gyro_yaw_rad"] - 14.0)
            belief, _ = correct(OUTDOORS, belief, row["gps_x_m"], row["gps_y_m"], yaw)
            with_fix.append(np.abs(belief.q - recorded[k]))
        else:
            without.append(np.abs(belief.q - recorded[k]))
    assert 0.58 < len(without) / len(rows) < 0.62
    assert np.max(without) < 2e-6
    # What the node had seen before the recording began is unknown and takes some fixes to fade.
    assert np.max(np.median(with_fix, axis=0)) < 5e-6
    assert np.quantile(with_fix, 0.9, axis=0).max() < 1e-3


def _fix(t_ns: int, x: float, y: float) -> GnssFix:
    lat, lon, h = DATUM.to_geodetic(x, y, 0.0)
    return GnssFix(t_ns, t_ns, lat, lon, h, fix_type=FixType.FIX_3D)


def _estimator(params: Ekf4PublishedParams) -> Ekf4Published:
    return Ekf4Published(params, load_profile("art_published").vehicle, DATUM, (0.0, 0.0, 0.0))


def test_recorded_positions_indoors_are_reproduced_from_the_inputs_alone(real_data: Path) -> None:
    """Compare first to last row of each run, taking nothing over from the recording between. The
    node stepped once for each row, but twice between the first two, with a measurement that was not
    logged."""
    medians, largest = [], []
    for file in sorted((real_data / "mocap_ekf_mpc_2023").rglob("*.csv")):
        rows = _table(file)
        belief = begin(rows[0]["ekf_x_m"], rows[0]["ekf_y_m"], rows[0]["mocap_heading_rad"])
        errors = []
        for k, row in enumerate(rows[1:]):
            for _ in range(2 if k == 0 else 1):
                belief = predict(INDOORS, belief, row["throttle_cmd"], row["steering_cmd"])
                belief, _ = correct(
                    INDOORS, belief, row["noisy_x_m"], row["noisy_y_m"], row["mocap_heading_rad"]
                )
            errors.append(math.hypot(belief.q[0] - row["ekf_x_m"], belief.q[1] - row["ekf_y_m"]))
        medians.append(np.median(errors))
        largest.append(max(errors))
    assert np.median(medians) < 0.0005
    assert max(medians) < 0.0015
    assert max(largest) < 0.007


def test_a_fix_moves_x_by_a_hundredth_and_y_by_a_tenth_of_its_error() -> None:
    """Because the Jacobian forgets x and keeps y."""
    ekf = _estimator(OUTDOORS)
    ekf.observe(Heading(0, 0, 0.0, 0.1))
    ekf.observe(_fix(0, 0.0, 0.0))
    moved: list[StateEstimate] = []
    for k in range(200):
        t_ns = k * 100_000_000
        x, y = (moved[-1].x_m, moved[-1].y_m) if moved else (0.0, 0.0)
        ekf.observe(_fix(t_ns, 1.0, 1.0) if k == 150 else _fix(t_ns, x, y))
        moved.append(ekf.step(t_ns))
    step_x, step_y = moved[150].x_m - moved[149].x_m, moved[150].y_m - moved[149].y_m
    assert 0.005 < step_x / (1.0 - moved[149].x_m) < 0.02
    assert 0.08 < step_y / (1.0 - moved[149].y_m) < 0.12
    assert moved[149].speed_mps < -0.03, "standing, it drives backward"


def test_it_steps_at_ten_hertz_whatever_the_rate() -> None:
    fast, slow = _estimator(OUTDOORS), _estimator(OUTDOORS)
    for ekf, period in ((fast, 5), (slow, 100)):
        ekf.observe(Heading(0, 0, 0.3, 0.1))
        ekf.observe(_fix(0, 2.0, 1.0))
        ekf.step(0)
        ekf.command(ActuatorCommand(0, 0, 0.8, 0.0, 0.4, 0.2))
        for ms in range(period, 3001, period):
            estimate = ekf.step(ms * 1_000_000)
        assert estimate.status.name == "RUNNING"
    assert fast.step(3_000_000_000) == slow.step(3_000_000_000)


wild = st.one_of(st.floats(-50, 50), st.floats(allow_nan=True, allow_infinity=True))


@examples(50)
@given(
    st.lists(
        st.tuples(wild, wild, wild, wild, wild, st.integers(-(10**9), 10**10)),
        min_size=1,
        max_size=20,
    )
)
def test_nothing_makes_it_raise(
    episode: list[tuple[float, float, float, float, float, int]],
) -> None:
    ekf, now_ns = _estimator(OUTDOORS), 10**10
    for x, y, yaw, throttle, steering, pause_ns in episode:
        now_ns += pause_ns
        ekf.observe(Heading(now_ns, now_ns, yaw, 0.1))
        small = abs(x) < 1e5 and abs(y) < 1e5
        ekf.observe(
            _fix(now_ns, x, y)
            if small
            else GnssFix(now_ns, now_ns, x, y, 0.0, fix_type=FixType.FIX_3D)
        )
        ekf.command(ActuatorCommand(now_ns, now_ns, throttle, 0.0, steering, 0.0))
        estimate = ekf.step(now_ns)
        values = (estimate.x_m, estimate.y_m, estimate.yaw_rad, estimate.speed_mps)
        assert all(map(math.isfinite, values)) or all(map(math.isnan, values))
        if math.isfinite(estimate.x_m):
            P = np.array(estimate.covariance).reshape(4, 4)
            assert np.linalg.eigvalsh(P).min() >= -1e-9
