"""The batched 4-DOF plant gives the motion of the scalar one, whatever its parameters, and the same
bits in a batch of any size."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from sim_backend.plant.actuators import Actuators
from sim_backend.plant.batch import FEW, BatchFourDof, BatchOfPlants, batch_of
from sim_backend.plant.interface import StartPose
from sim_backend.plant.registry import plant_class
from tests.examples import examples
from vehicled.profile.loading import load_profile
from vehicled.profile.schema import Sim

ART = load_profile("art_published").sim
PERIOD_NS = 20_000_000
MS = 1_000_000

CHANGES = st.fixed_dictionaries(
    {
        "wheelbase_m": st.floats(0.2, 3.0),
        "steering.gain_rad": st.floats(0.1, 0.6),
        "steering.offset_rad": st.floats(-0.1, 0.1),
        "steering.rate_radps": st.floats(0.1, 20.0),
        "steering.delay_s": st.sampled_from([0.0, 0.0004, 0.005, 0.02, 0.0333, 0.1]),
        "steering.dead_zone": st.sampled_from([0.0, 0.1, 0.5]),
        "steering.slack_rad": st.sampled_from([0.0, 0.004, 0.05]),
        "drive.stall_torque_nm": st.floats(0.03, 0.5),
        "drive.friction_nm": st.floats(0.0, 0.03),
        "drive.delay_s": st.sampled_from([0.0, 0.003, 0.04, 0.0701]),
        "drive.brake_deceleration_mps2": st.sampled_from([0.0, 4.0]),
        "drive.reverse_share": st.sampled_from([0.0, 0.5, 1.0]),
        "battery.internal_resistance_ohm": st.sampled_from([0.0, 0.02, 0.3]),
        "battery.capacity_ah": st.sampled_from([5.0, 0.001]),
    }
)
FRACTION = st.sampled_from([-1.0, -0.4, 0.0, 0.05, 0.3, 0.7, 1.0, 1.5])
COMMANDS = st.lists(st.tuples(FRACTION, FRACTION, FRACTION), min_size=1, max_size=14)


def changed(sim: Sim, changes: dict[str, float]) -> Sim:
    tables: dict[str, Any] = {}
    for key, value in changes.items():
        table, _, name = key.rpartition(".")
        if table:
            tables.setdefault(table, {})[name] = value
        else:
            tables[name] = value
    parts = {
        name: replace(getattr(sim, name), **v) if isinstance(v, dict) else v
        for name, v in tables.items()
    }
    return replace(sim, **parts)


def scalar_states(sim: Sim, commands: list[tuple[float, float, float]]) -> list[list[float]]:
    plant = plant_class(sim.plant)(sim, StartPose(1.0, -2.0, 0.5), 1e-3)
    actuators = Actuators(sim, 0, MS)
    states, now_ns = [], 0
    for command in commands:
        actuators.command(now_ns, *command)
        for _ in range(PERIOD_NS // MS):
            actuators.step(now_ns, plant.motor_speed_radps)
            plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            now_ns += MS
        m = plant.motion()
        states.append(
            [m.x_m, m.y_m, m.yaw_rad, m.speed_mps, m.yaw_rate_radps, actuators.wheel_angle_rad]
        )
    return states


def batch_states(plant: BatchFourDof | BatchOfPlants, commands: np.ndarray) -> np.ndarray:
    """Drive commands (periods, 3, n); return the states (periods, 6, n)."""
    states = []
    for throttle, brake, steering in commands:
        plant.advance(throttle, brake, steering)
        states.append(
            [
                plant.x_m,
                plant.y_m,
                plant.yaw_rad,
                plant.speed_mps,
                plant.yaw_rate_radps,
                plant.wheel_angle_rad,
            ]
        )
    return np.array(states)


def batch(sim: Sim, rows: list[dict[str, float]]) -> BatchFourDof:
    plant = BatchFourDof(sim, len(rows), PERIOD_NS, longest_delay_s=0.5)
    changes = {key: np.array([row[key] for row in rows]) for key in rows[0]}
    ones = np.ones(len(rows))
    plant.reset(np.arange(len(rows)), ones, -2.0 * ones, 0.5 * ones, changes=changes)
    return plant


@examples(60)
@given(
    st.lists(
        st.tuples(
            CHANGES, st.lists(st.tuples(FRACTION, FRACTION, FRACTION), min_size=12, max_size=12)
        ),
        min_size=1,
        max_size=4,
    )
)
def test_every_row_moves_as_the_scalar_plant(
    cases: list[tuple[dict[str, float], list[tuple[float, float, float]]]],
):
    rows = [changes for changes, _ in cases]
    commands = np.array([commands for _, commands in cases]).transpose(1, 2, 0)
    states = batch_states(batch(ART, rows), commands)
    # More rows than are computed in plain floats.
    many = batch_states(batch(ART, rows * (FEW + 1)), np.tile(commands, FEW + 1))
    assert np.ascontiguousarray(many[:, :, : len(rows)]).tobytes() == states.tobytes()
    for row, (changes, driven) in enumerate(cases):
        np.testing.assert_allclose(
            states[:, :, row], scalar_states(changed(ART, changes), driven), rtol=1e-9, atol=1e-10
        )


def test_a_row_has_the_same_bits_in_a_batch_of_any_size():
    """Vector registers of any width, and the elements left over, compute the same."""
    random = np.random.default_rng(3)
    n = 37
    rows = [
        {
            "steering.gain_rad": random.uniform(0.2, 0.4),
            "steering.delay_s": random.uniform(0.0, 0.4),
            "drive.delay_s": random.uniform(0.0, 0.1),
        }
        for _ in range(n)
    ]
    commands = random.uniform(-0.3, 1.0, (40, 3, n))
    together = batch_states(batch(ART, rows), commands)
    for row in (0, 7, 31, 36):
        alone = batch_states(batch(ART, rows[row : row + 1]), commands[:, :, row : row + 1])
        assert alone[:, :, 0].tobytes() == together[:, :, row].tobytes()


def test_a_reset_row_leaves_the_others_alone():
    commands = np.random.default_rng(1).uniform(0.0, 1.0, (10, 3, 2))
    plant, whole = batch(ART, [{"wheelbase_m": 0.5}] * 2), batch(ART, [{"wheelbase_m": 0.5}] * 2)
    batch_states(plant, commands)
    plant.reset(np.array([1]), np.array([1.0]), np.array([-2.0]), np.array([0.5]))
    batch_states(whole, commands)
    after, further = batch_states(plant, commands), batch_states(whole, commands)
    assert after[:, :, 0].tobytes() == further[:, :, 0].tobytes()
    assert (
        after[:, :, 1].tobytes()
        == batch_states(batch(ART, [{"wheelbase_m": 0.5}]), commands[:, :, 1:])[:, :, 0].tobytes()
    )


@pytest.mark.parametrize("name", ["art_published", "f1tenth"])
def test_vehicles_of_any_plant_move_as_in_a_run(name: str):
    """Also those that are stepped one after another."""
    sim = load_profile(name).sim
    commands = (
        np.random.default_rng(2).uniform(0.0, 0.5, (15, 3, 2)) * np.array([1.0, 0.0, 1.0])[:, None]
    )
    plant = batch_of(sim, 2, PERIOD_NS)
    plant.reset(np.arange(2), np.full(2, 1.0), np.full(2, -2.0), np.full(2, 0.5))
    states = batch_states(plant, commands)
    for row in range(2):
        np.testing.assert_allclose(
            states[:, :, row],
            scalar_states(sim, commands[:, :, row].tolist()),
            rtol=1e-9,
            atol=1e-10,
        )


def test_a_vehicle_that_rolls_over_is_lost_until_its_reset():
    sim = load_profile("f1tenth", ["sim.twin.changes={ 'bounds.roll_limit_rad' = 0.0001 }"]).sim
    plant, start = batch_of(sim, 2, PERIOD_NS), np.zeros(2)
    plant.reset(np.arange(2), start, start, start)
    for _ in range(60):
        plant.advance(np.array([1.0, 0.0]), start, np.array([1.0, 0.0]))
    assert plant.lost.tolist() == [True, False]
    plant.reset(np.array([0]), start[:1], start[:1], start[:1])
    assert not plant.lost.any()
    assert plant.speed_mps[0] == 0.0


def test_a_reset_vehicle_of_another_plant_is_like_a_new_one():
    sim, commands = load_profile("f1tenth").sim, np.full((10, 3, 1), 0.2)
    plant, pose = batch_of(sim, 1, PERIOD_NS), (np.array([1.0]), np.array([-2.0]), np.array([0.5]))
    plant.reset(np.array([0]), *pose)
    first = batch_states(plant, commands)
    plant.reset(np.array([0]), *pose)
    assert batch_states(plant, commands).tobytes() == first.tobytes()
    plant.reset(np.array([0]), *pose, np.array([2.0]))
    assert plant.speed_mps[0] == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("period_ns", "why"), [(500_000, "whole number"), (300_000_000, "time out")]
)
def test_a_period_that_the_actuators_cannot_hold_is_refused(period_ns: int, why: str):
    with pytest.raises(ValueError, match=why):
        batch_of(ART, 1, period_ns)
