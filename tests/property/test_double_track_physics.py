"""Laws for every vehicle and command: finite or diverged, bit-exact mirror symmetry, no energy
created."""

import re
from typing import Any

import msgspec
import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sim_backend.plant.double_track.checks import check
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.double_track.state import PlantState
from sim_backend.plant.twin_file import load_twin
from tests.examples import examples

SHIPPED = {
    name: load_twin(name).parameters
    for name in ("hmmwv_lfdm", "art_lfdm", "bmw_320i", "husky_a200")
}
_STRAIGHT = {
    f"{end}.{key}": 0.0
    for end in ("front", "rear")
    for key in ("roll_steer", "roll_scrub_m", "rolled_slip")
}
PASSIVE = {
    name: load_twin(name, _STRAIGHT).parameters for name in ("art_lfdm", "bmw_320i", "husky_a200")
}
"""Vehicles without the empirical terms that stand for neglected effects: they would add energy."""
PAIRS = {
    name: (DoubleTrack(parameters), DoubleTrack(parameters)) for name, parameters in SHIPPED.items()
}
COMMANDS = st.lists(
    st.tuples(st.floats(-1.2, 1.2), st.floats(-1.0, 1.0), st.floats(0.0, 1.0)),
    min_size=1,
    max_size=6,
)
_OTHER = {"fl": "fr", "fr": "fl", "rl": "rr", "rr": "rl"}
MIRRORED = {
    name: re.sub(r"_(fl|fr|rl|rr)_", lambda found: f"_{_OTHER[found[1]]}_", name)
    for name in PlantState._fields
}
ODD = {
    "y_m",
    "yaw_rad",
    "lateral_mps",
    "yaw_rate_radps",
    "roll_rad",
    "roll_rate_radps",
    "tip_rad",
    "tip_rate_radps",
    "lateral_mps2",
}


def scaled(tree: Any, factor: Any) -> Any:
    """Every number of a tree times what ``factor`` draws for it."""
    if isinstance(tree, dict):
        return {key: scaled(value, factor) for key, value in tree.items()}
    if isinstance(tree, list) and tree and isinstance(tree[0], float):
        one = factor()
        return [value * one for value in tree]
    return tree * factor() if isinstance(tree, float) else tree


@examples(40)
@given(
    st.sampled_from(sorted(SHIPPED)),
    st.randoms(use_true_random=False),
    COMMANDS,
    st.floats(-5.0, 40.0),
)
def test_any_vehicle_stays_finite_or_says_that_it_diverged(
    name: str, random: Any, commands: list[tuple[float, float, float]], speed_mps: float
) -> None:
    tree = scaled(msgspec.to_builtins(SHIPPED[name]), lambda: 10.0 ** random.uniform(-0.7, 0.7))
    try:
        parameters = msgspec.convert(tree, TwinParameters)
    except msgspec.ValidationError:
        return
    if check(parameters):
        return
    vehicle = DoubleTrack(parameters)
    vehicle.reset(speed_mps=speed_mps)
    for command in commands:
        for _ in range(40):
            vehicle.step(*command)
    assert np.isfinite(vehicle.state).all()
    assert np.isfinite(vehicle.outputs).all()


@examples(12)
@given(st.sampled_from(sorted(SHIPPED)), COMMANDS, st.floats(0.0, 25.0))
def test_the_mirrored_manoeuvre_gives_the_mirrored_bits(
    name: str, commands: list[tuple[float, float, float]], speed_mps: float
) -> None:
    left, right = PAIRS[name]
    for vehicle in (left, right):
        vehicle.reset(speed_mps=speed_mps)
    for steer, throttle, brake in commands:
        for _ in range(30):
            left.step(steer, throttle, brake)
            right.step(-steer, throttle, brake)
    for field in PlantState._fields:
        there = getattr(right.state, MIRRORED[field])
        sign = -1.0 if field in ODD or field.startswith("side_") else 1.0
        assert getattr(left.state, field) == sign * there, field


def energy_j(vehicle: DoubleTrack) -> float:
    """Motion, spin, springs of the carcass and of the roll, of the lateral position of the sprung
    mass."""
    s, c, p = vehicle.state, vehicle.constants, vehicle.parameters
    body = (
        0.5 * c.mass_kg * (s.forward_mps**2 + s.lateral_mps**2)
        + 0.5 * c.yaw_inertia_kgm2 * s.yaw_rate_radps**2
    )
    roll = (
        0.5 * c.roll_inertia_kgm2 * s.roll_rate_radps**2
        - c.roll_lever_kgm * s.lateral_mps * s.roll_rate_radps
    )
    roll += 0.5 * (c.roll_stiffness_nmprad - 9.81 * c.roll_lever_kgm) * s.roll_rad**2
    roll += c.roll_lever_kgm * s.forward_mps * s.yaw_rate_radps * s.roll_rad
    roll += 0.5 * c.roll_lever_kgm2 * (s.yaw_rate_radps * s.roll_rad) ** 2
    wheels = 0.0
    for axle, tyre, spins, along, across in (
        (c.front, p.front.tyre, s[12:14], s[16:18], s[20:22]),
        (c.rear, p.rear.tyre, s[14:16], s[18:20], s[22:24]),
    ):
        wheels += sum(0.5 * axle.spin_inertia_kgm2 * spin * spin for spin in spins)
        wheels += sum(0.5 * tyre.longitudinal.carcass_stiffness_npm * u * u for u in along)
        wheels += sum(0.5 * tyre.lateral.carcass_stiffness_npm * u * u for u in across)
    return body + roll + wheels


@examples(12)
@given(
    st.sampled_from(sorted(PASSIVE)),
    st.floats(-0.3, 0.3),
    st.floats(1.0, 15.0),
    st.floats(-2.0, 2.0),
)
def test_a_vehicle_left_alone_never_gains_energy(
    name: str, steer_rad: float, speed_mps: float, spin_radps: float
) -> None:
    vehicle = DoubleTrack(PASSIVE[name])
    vehicle.reset(speed_mps=speed_mps)
    vehicle.state = vehicle.state._replace(lateral_mps=0.3 * spin_radps, yaw_rate_radps=spin_radps)
    start = before = energy_j(vehicle)
    for _ in range(10):
        for _ in range(40):
            vehicle.step(steer_rad, 0.0, 0.0)
        now = energy_j(vehicle)
        assert now <= before + 2e-4 * start
        before = now
