"""Smoothing and prediction against scipy."""

from math import cos, exp, sin, tan

import msgspec
import numpy as np
import pytest

from vehicled.core.messages import ActuatorCommand
from vehicled.offline.recordings import smoothing
from vehicled.offline.recordings.prediction import RecordedCommands, predict
from vehicled.profile import load_profile

signal = pytest.importorskip("scipy.signal")
integrate = pytest.importorskip("scipy.integrate")


def test_slopes_are_those_of_savitzky_and_golay() -> None:
    rng = np.random.default_rng(4)
    t = np.arange(0.0, 20.0, 0.1)
    values = np.stack([np.cumsum(rng.normal(size=len(t))), np.sin(t)], axis=1)
    found = smoothing.slopes(t, values, np.ones(len(t), bool))
    expected = signal.savgol_filter(values, 11, 2, deriv=1, delta=0.1, axis=0)
    assert found[5:-5] == pytest.approx(expected[5:-5], abs=1e-9)


def test_prediction_is_the_solution_of_the_model() -> None:
    """The single track and the motor as ordinary differential equations, on commands that change
    while it drives."""
    vehicle = load_profile("art_published").vehicle
    steering = msgspec.structs.replace(vehicle.steering, dead_zone=0.1)
    vehicle = msgspec.structs.replace(vehicle, steering=steering)
    drive = vehicle.drive
    rng = np.random.default_rng(11)
    stamps = np.arange(0, 6_000_000_000, 100_000_000)
    throttle = rng.uniform(0.4, 1.0, len(stamps))
    share = 0.8 * np.sin(2.0 * stamps * 1e-9)
    commands = [
        ActuatorCommand(int(t), int(t), float(a), 0.0, float(s), 0.0)
        for t, a, s in zip(stamps, throttle, share)
    ]
    start_s = np.array([2.0, 3.05])
    state = np.array([[0.0, 0.0, 0.5, 1.2], [3.0, -1.0, -2.0, 2.0]])
    found = predict(
        [vehicle] * 2,
        RecordedCommands.of(commands),
        (start_s * 1e9).astype(np.int64),
        state,
        np.array([1.0, 1.0]),
        steps=400,
    )

    def held(column: np.ndarray, at_s: float) -> float:
        return float(column[int(np.floor(at_s / 0.1 + 1e-9))]) if at_s >= 0.0 else 0.0

    # The wheel on its own fine grid, from rest long before.
    grid = np.arange(0.0, 5.0, 1e-4)
    wheel = np.zeros(len(grid))
    for k in range(1, len(grid)):
        target = steering.wheel_angle_rad(held(share, grid[k] - steering.delay_s))
        move = min(
            max(target - wheel[k - 1], -steering.rate_radps * 1e-4), steering.rate_radps * 1e-4
        )
        wheel[k] = min(max(wheel[k - 1] + move, -steering.max_wheel_rad), steering.max_wheel_rad)

    def motion(t_s: float, q: np.ndarray) -> list[float]:
        angle = float(np.interp(t_s, grid, wheel))
        a = drive.acceleration_mps2(held(throttle, t_s - drive.delay_s), float(q[3]))
        return [q[3] * cos(q[2]), q[3] * sin(q[2]), q[3] * tan(angle) / vehicle.wheelbase_m, a]

    for row, begin_s, begin in zip(found, start_s, state):
        solved = integrate.solve_ivp(
            motion, (begin_s, begin_s + 1.0), begin, rtol=1e-8, atol=1e-10, max_step=0.005
        )
        assert row == pytest.approx(solved.y[:, -1], abs=2e-3)


def test_coasting_is_exponential() -> None:
    vehicle = load_profile("art_published").vehicle
    drive = msgspec.structs.replace(vehicle.drive, friction_nm=0.0)
    vehicle = msgspec.structs.replace(
        vehicle, drive=drive, steering=msgspec.structs.replace(vehicle.steering, offset_rad=0.0)
    )
    rate = (
        drive.stall_torque_nm / drive.no_load_speed_radps + drive.viscous_nms
    ) / drive.inertia_kgm2
    found = predict(
        [vehicle],
        RecordedCommands.of([]),
        np.array([0]),
        np.array([[0.0, 0.0, 0.0, 2.0]]),
        np.array([1.0]),
    )
    assert found[0, 3] == pytest.approx(2.0 * exp(-rate))
    assert found[0, 0] == pytest.approx(2.0 * (1.0 - exp(-rate)) / rate, rel=1e-4)
