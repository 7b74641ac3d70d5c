"""The linear law and the error state against what the study of 2024 logged on the vehicle and in
its simulator."""

from pathlib import Path

import numpy as np
import pytest

from vehicled.control.error_state import ErrorState, error_state
from vehicled.control.linear import LinearParams, law
from vehicled.core.arrays import Array

PARAMS = LinearParams()
RATE_PER_STEP = 0.25
"""Steering rate limit per step, in their simulator only."""


def _table(file: Path) -> Array:
    return np.loadtxt(file, delimiter=",", skiprows=1)


def _commands(rows: Array) -> Array:
    return np.array([law(PARAMS, ErrorState(*row)) for row in rows[:, 4:8].tolist()])


@pytest.mark.parametrize("path", ["lot17", "rd_path", "syn_path"])
def test_commands_on_the_vehicle_are_reproduced(shared_data: Path, path: str) -> None:
    files = sorted((shared_data / "path_following_2024" / "real" / path).glob("pid_*.csv"))
    assert len(files) >= 1
    for file in files:
        rows = _table(file)
        assert len(rows) > 300
        np.testing.assert_allclose(_commands(rows), rows[:, 8:10], atol=1e-4, err_msg=file.name)


@pytest.mark.parametrize("path", ["lot17", "rd_path", "syn_path"])
def test_commands_in_their_simulator_are_reproduced_with_its_limits(
    shared_data: Path, path: str
) -> None:
    rows = _table(shared_data / "path_following_2024" / "sim" / path / "pid.csv")
    wanted = _commands(rows)
    np.testing.assert_allclose(np.clip(wanted[:, 0], 0.0, 1.0), rows[:, 8], atol=1e-4)
    before = np.concatenate(([0.0], rows[:-1, 9]))
    steering = np.clip(
        np.clip(wanted[:, 1], before - RATE_PER_STEP, before + RATE_PER_STEP), -1.0, 1.0
    )
    np.testing.assert_allclose(steering, rows[:, 9], atol=1e-4)


@pytest.mark.parametrize("run", ["sim/lot17/mpc.csv", "real/lot17/mpc_1.csv"])
def test_the_error_state_is_that_of_the_waypoint_nearest_to_a_metre_ahead(
    shared_data: Path, run: str
) -> None:
    """The law reproduces the runs whose pose and error are of the same instant."""
    path = _table(shared_data / "reference_paths" / "lot17_sinsquare_sv.csv")
    rows = _table(shared_data / "path_following_2024" / run)
    agree = 0
    for x, y, yaw, *logged in rows[:, 1:8].tolist():
        off = (path[:, 0] - (x + np.cos(yaw))) ** 2 + (path[:, 1] - (y + np.sin(yaw))) ** 2
        xr, yr, yaw_r, v_r = path[int(np.argmin(off))].tolist()
        speed = v_r - logged[3]
        found = error_state(x, y, yaw, speed, xr, yr, yaw_r, v_r)
        agree += bool(
            np.allclose(found[:2], logged[:2], atol=2e-5)
            and abs(np.sin(found[2] - logged[2])) < 2e-5
        )
    assert agree / len(rows) > 0.99
