"""Numbers of a vehicle that stand for what certain published models do and a vehicle does not: what
each does, and its bounds."""

from math import cos, isclose, sin
from typing import Any

import pytest

from sim_backend.plant.double_track.constants import GRAVITY_MPS2, AxleConstants
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.parameters import TwinParameters
from sim_backend.plant.twin_file import load_twin
from vehicled.offline.twin.validation.drive import single_track
from vehicled.profile import ProfileError

BMW, HMMWV = "bmw_320i", "hmmwv_lfdm"
SLIPS = {
    f"{end}.{key}": 0.0
    for end in ("front", "rear")
    for key in ("roll_steer", "roll_scrub_m", "rolled_slip")
}


def twin(name: str, **changes: Any) -> TwinParameters:
    """A shipped vehicle; in the keys of changes two underscores stand for a dot."""
    return load_twin(
        name, SLIPS | {key.replace("__", "."): value for key, value in changes.items()}
    ).parameters


def rolled(name: str, share: float, **changes: Any) -> DoubleTrack:
    return DoubleTrack(twin(name, front__rolled_slip=share, rear__rolled_slip=share, **changes))


def locked(share: float) -> DoubleTrack:
    """Straight on at 8 m/s on locked wheels, the carcass bent as far as it goes."""
    vehicle = rolled(HMMWV, share)
    vehicle.reset(speed_mps=10.0)
    while vehicle.state.forward_mps > 8.0:
        vehicle.step(0.0, 0.0, 1.0)
    assert vehicle.state.spin_fl_radps == vehicle.state.spin_rl_radps == 0.0
    return vehicle


def norm(c: AxleConstants, load_n: float) -> float:
    """Return the normalisation of the longitudinal slip: Rill, Castro, Road Vehicle Dynamics, eq.
    (3.79)."""
    q = load_n / c.nominal_load_n
    slip_x, slip_y = c.peak_slip_x + c.peak_slip_x_rise * q, c.peak_slip_y + c.peak_slip_y_rise * q
    reach_x = (c.peak_x - c.peak_x_fall * q) / (c.slope_x - c.slope_x_fall * q)
    reach_y = (c.peak_y - c.peak_y_fall * q) / (c.slope_y - c.slope_y_fall * q)
    return slip_x / (slip_x + slip_y) + reach_x / (reach_x + reach_y)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_locked_wheel_keeps_its_sliding_force_unless_the_small_velocity_is_normalised(
    share: float,
) -> None:
    vehicle = locked(share)
    out = vehicle.outputs
    for c, load, along in (
        (vehicle.constants.front, out.load_fl_n, out.along_fl_n),
        (vehicle.constants.rear, out.load_rl_n, out.along_rl_n),
    ):
        q = load / c.nominal_load_n
        sliding = q * (c.slide_x - c.slide_x_fall * q)
        assert -along == pytest.approx(sliding * (norm(c, load) if share else 1.0), rel=2e-3)
        assert norm(c, load) < 0.6


def test_the_slip_angle_is_counted_by_the_rolling_speed() -> None:
    speed, steer = 1.0, 0.4
    gains = {}
    for share in (0.0, 1.0):
        vehicle = rolled(HMMWV, share, front__track_m=0.3, rear__track_m=0.3)
        vehicle.reset(speed_mps=speed)
        for _ in range(1500):
            vehicle.step(steer, 0.0, 0.0)
        gains[share] = (
            vehicle.state.yaw_rate_radps * vehicle.constants.wheelbase_m / vehicle.state.forward_mps
        )
    # On a narrow track both wheels are as one: no lateral velocity seen where (v + a r) cos d =
    # (ahead + 1 cm/s) sin d.
    seen = (
        sin(steer)
        * (cos(steer) + 0.01 / vehicle.state.forward_mps)
        / (cos(steer) - sin(steer) ** 2)
    )
    assert gains[1.0] == pytest.approx(seen, rel=0.01)
    assert gains[0.0] == pytest.approx(sin(steer) / cos(steer), rel=0.01)
    assert gains[1.0] > 1.05 * gains[0.0]


def test_scrub_is_a_lateral_velocity_of_the_wheels_by_the_roll_rate() -> None:
    sides = []
    for scrub_m, lateral_mps in ((0.5, 0.0), (0.0, -0.1)):
        vehicle = DoubleTrack(twin(BMW, front__roll_scrub_m=scrub_m, rear__roll_scrub_m=scrub_m))
        vehicle.reset(speed_mps=15.0)
        vehicle.state = vehicle.state._replace(roll_rate_radps=0.2, lateral_mps=lateral_mps)
        vehicle.step(0.0, 0.0, 0.0)
        out = vehicle.outputs
        sides.append((out.across_fl_n, out.across_fr_n, out.across_rl_n, out.across_rr_n))
    assert sides[0] == pytest.approx(sides[1], rel=1e-12)
    assert min(sides[0]) > 10.0


@pytest.mark.parametrize(("share", "pulls"), [(0.0, False), (1.0, True)])
def test_the_drive_sees_the_axle_that_the_share_says(share: float, pulls: bool) -> None:
    vehicle = DoubleTrack(
        twin(BMW, powertrain__driveline__speed_front_share=share, powertrain__top_speed_mps=20.0)
    )
    vehicle.reset(speed_mps=10.0)
    spinning = 25.0 / vehicle.constants.rear.rolling_radius_m
    vehicle.state = vehicle.state._replace(spin_rl_radps=spinning, spin_rr_radps=spinning)
    vehicle.step(0.0, 1.0, 0.0)
    assert (vehicle.outputs.drive_nm > 0.0) is pulls


def test_shifted_weight_changes_the_loads_and_nothing_else() -> None:
    plain, shifted = (DoubleTrack(twin(BMW, body__weight_shift=shift)) for shift in (0.0, 0.02))
    for vehicle in (plain, shifted):
        for _ in range(50):
            vehicle.step(0.0, 0.0, 1.0)
    moved = shifted.outputs.load_fl_n - plain.outputs.load_fl_n
    assert isclose(2.0 * moved, 0.02 * plain.constants.mass_kg * GRAVITY_MPS2, rel_tol=1e-9)
    assert isclose(plain.outputs.load_rl_n - shifted.outputs.load_rl_n, moved, rel_tol=1e-9)
    assert shifted.constants.front.arm_m == plain.constants.front.arm_m
    assert shifted.constants.height_m == plain.constants.height_m


def test_a_single_track_model_has_no_weight_beside_its_mass() -> None:
    parameters = load_twin("ford_escort").parameters
    assert parameters.body.weight_shift < -0.01
    assert single_track(parameters, 0.5).body.weight_shift == 0.0


@pytest.mark.parametrize("share", [0.3, 1.0])
def test_a_braked_turn_ends_at_rest_whatever_the_share(share: float) -> None:
    vehicle = rolled(HMMWV, share)
    vehicle.reset(speed_mps=3.0)
    for _ in range(3500):
        assert vehicle.step(0.2, 0.0, 1.0)
    assert vehicle.state.forward_mps == vehicle.state.yaw_rate_radps == 0.0


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("front.rolled_slip", 1.5, ">= 0 and <= 1"),
        ("rear.rolled_slip", -0.1, ">= 0 and <= 1"),
        ("front.roll_scrub_m", 6.0, "<= 5,"),
        ("powertrain.driveline.speed_front_share", 2.0, ">= 0 and <= 1"),
        ("body.weight_shift", 0.3, "<= 0.2"),
        ("body.weight_shift", float("nan"), "nan and inf are not allowed"),
        ("front.rolled_slip", "all", "number"),
    ],
)
def test_what_is_out_of_bounds_is_refused_by_its_key(key: str, value: Any, why: str) -> None:
    with pytest.raises(ProfileError) as refused:
        load_twin(BMW, {key: value})
    assert key in str(refused.value)
    assert why in str(refused.value), str(refused.value)


def test_a_shift_that_leaves_an_axle_without_weight_is_refused() -> None:
    with pytest.raises(ProfileError, match=r"weight_shift.*leaves an axle without weight"):
        load_twin(BMW, {"body.cg_to_front_m": 2.3, "body.weight_shift": -0.2})
