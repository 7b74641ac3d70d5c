"""Gear selector of the twins with an engine: P, R, N, D, the parking brake, and the report of the
gear."""

from math import sin
from typing import Any

import pytest

from sim_backend.plant.double_track.constants import GRAVITY_MPS2
from sim_backend.plant.double_track.ground import FLAT, Ground, Plane
from sim_backend.plant.double_track.model import DoubleTrack
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import Engine, Selector
from sim_backend.plant.double_track.plant import DoubleTrackPlant
from sim_backend.plant.double_track.powertrain import NEUTRAL, PARK, STANDS_MPS
from sim_backend.plant.interface import StartPose
from sim_backend.plant.twin_file import load_twin
from vehicled.core.messages import Gear
from vehicled.profile import load_profile

REVERSE, FIRST = 0.0, 1.0
VEHICLES = ("opencav", "rzr_pro_r4")


def vehicle(name: str, ground: Ground = FLAT, **changes: Any) -> DoubleTrack:
    found = double_track(
        load_twin(name, {f"powertrain.{key}": value for key, value in changes.items()}).parameters,
        ground=ground,
    )
    assert isinstance(found.parameters.powertrain, Engine)
    return found


def selector(driven: DoubleTrack) -> Selector:
    engine = driven.parameters.powertrain
    assert isinstance(engine, Engine)
    assert engine.selector is not None
    return engine.selector


def drive(driven: DoubleTrack, seconds: float, throttle: float = 0.0, brake: float = 0.0) -> None:
    for _ in range(round(seconds / driven.constants.step_s)):
        driven.step(0.0, throttle, brake)


def parked(driven: DoubleTrack) -> DoubleTrack:
    drive(driven, 1.0, throttle=0.4)
    drive(driven, 4.0, brake=1.0)
    assert driven.state.gear == PARK
    return driven


@pytest.mark.parametrize("name", VEHICLES)
def test_the_direction_changes_at_standstill_through_neutral_and_takes_its_time(name: str) -> None:
    driven = vehicle(name)
    drive(driven, 1.5, throttle=0.4)
    seen: list[tuple[float, float]] = []
    gears = [driven.state.gear]
    for k in range(15_000):
        before = driven.state
        driven.step(0.0, -0.2, 0.0)
        if driven.state.gear != before.gear:
            seen.append((k * driven.constants.step_s, before.forward_mps))
            gears.append(driven.state.gear)
        if before.gear == NEUTRAL:
            assert driven.outputs.drive_nm == pytest.approx(0.0, abs=1.0), "nothing drives in N"
    assert gears == [FIRST, NEUTRAL, REVERSE]
    (left_s, left_mps), (engaged_s, engaged_mps) = seen
    assert left_mps < 0.6, "until then the engine brakes in its gear"
    assert abs(engaged_mps) < STANDS_MPS
    assert engaged_s - left_s >= selector(driven).change_s
    assert driven.state.forward_mps < -1.0


@pytest.mark.parametrize("name", VEHICLES)
@pytest.mark.parametrize(("throttle", "gear"), [(0.3, FIRST), (-0.3, REVERSE)])
def test_it_leaves_park_for_the_direction_of_the_throttle(
    name: str, throttle: float, gear: float
) -> None:
    driven = parked(vehicle(name))
    drive(driven, 0.5 * selector(driven).change_s, throttle=throttle)
    assert driven.state.gear == NEUTRAL
    drive(driven, 0.5 * selector(driven).change_s + 0.01, throttle=throttle)
    assert driven.state.gear == gear
    drive(driven, 1.0, throttle=throttle)
    assert throttle * driven.state.forward_mps > 0.05


@pytest.mark.parametrize("name", VEHICLES)
@pytest.mark.parametrize("slope", [0.2, -0.2])
def test_park_holds_on_a_slope_without_any_command(name: str, slope: float) -> None:
    held = parked(vehicle(name, Plane(slope)))
    place_m = held.state.x_m
    drive(held, 3.0)
    assert held.state.x_m == pytest.approx(place_m, abs=0.03), "its tyres give way by this"
    drive(held, 0.6 * selector(held).change_s, throttle=0.1)
    assert held.state.gear == NEUTRAL
    assert held.state.x_m == pytest.approx(place_m, abs=0.03), "held while it changes, too"
    loose = parked(vehicle(name, Plane(slope), **{"selector.park_torque_nm": 0.0}))
    place_m = loose.state.x_m
    drive(loose, 3.0)
    assert -slope * (loose.state.x_m - place_m) > 0.05 * GRAVITY_MPS2 * sin(0.2)


def test_wheels_that_are_locked_at_speed_do_not_park() -> None:
    driven = vehicle("opencav")
    driven.reset(speed_mps=20.0)
    while driven.state.forward_mps > 0.5:
        driven.step(0.0, 0.0, 1.0)
        assert driven.state.gear >= FIRST


def test_neither_a_vehicle_that_has_not_driven_nor_one_that_pushes_is_parked() -> None:
    driven = vehicle("opencav")
    drive(driven, 3.0, brake=1.0)
    assert driven.state.gear == FIRST
    drive(driven, 3.0, throttle=0.05, brake=1.0)
    assert driven.state.gear == FIRST
    drive(driven, 1.0, brake=1.0)
    assert driven.state.gear == PARK


def test_without_a_reverse_gear_a_negative_throttle_moves_nothing() -> None:
    driven = parked(vehicle("opencav", reverse_ratio=0.0))
    drive(driven, 2.0, throttle=-0.5)
    assert driven.state.gear == PARK
    assert abs(driven.state.forward_mps) < 1e-3


@pytest.mark.parametrize("name", VEHICLES)
def test_machine_code_changes_its_gears_alike(name: str) -> None:
    native = vehicle(name)
    plain = DoubleTrack(native.parameters)
    for throttle, brake, seconds in (
        (0.3, 0.0, 0.5), (0.0, 1.0, 1.0), (-0.3, 0.0, 1.2), (0.0, 1.0, 1.0), (0.3, 0.0, 1.0),
    ):  # fmt: skip
        for driven in (native, plain):
            drive(driven, seconds, throttle, brake)
        assert native.state == plain.state


def test_the_plant_names_the_gear() -> None:
    def plant(name: str) -> DoubleTrackPlant:
        return DoubleTrackPlant(load_profile(name).sim, StartPose(0.0, 0.0, 0.0), 1e-3)

    assert plant("hmmwv").gear is Gear.UNKNOWN
    assert plant("hunter_se").gear is Gear.UNKNOWN
    driven = plant("opencav")
    found = [driven.gear]
    for throttle, brake in ((0.3, 0.0), (0.0, 1.0), (-0.3, 0.0)):
        for _ in range(1500):
            driven.step(throttle, brake, 0.0)
            if driven.gear is not found[-1]:
                found.append(driven.gear)
    assert found == [Gear.DRIVE, Gear.PARK, Gear.NEUTRAL, Gear.REVERSE]
