"""The double-track vehicle against theory: geometry, gains, loads, rest, limits, machine code, and
what it refuses."""

from collections.abc import Callable
from itertools import pairwise
from math import atan, cos, hypot, isfinite, pi, sin, tan
from typing import Any

import msgspec
import numpy as np
import pytest
from msgspec.structs import replace

from sim_backend.plant.double_track.checks import ParameterError, check
from sim_backend.plant.double_track.constants import GRAVITY_MPS2, constants
from sim_backend.plant.double_track.ground import Plane
from sim_backend.plant.double_track.model import COLUMNS, DoubleTrack
from sim_backend.plant.double_track.native_model import double_track
from sim_backend.plant.double_track.parameters import Engine, TwinParameters
from sim_backend.plant.double_track.state import Outputs, PlantState
from sim_backend.plant.double_track.tyre import contact
from sim_backend.plant.twin_file import load_twin, names
from tests.grid import sampled

HMMWV, ART, BMW, HUSKY = "hmmwv_lfdm", "art_lfdm", "bmw_320i", "husky_a200"


def twin(name: str, **changes: Any) -> TwinParameters:
    """A shipped vehicle; in the keys of changes two underscores stand for a dot."""
    return load_twin(
        name, {key.replace("__", "."): value for key, value in changes.items()}
    ).parameters


def drive(
    vehicle: DoubleTrack,
    seconds: float,
    steer_rad: float = 0.0,
    throttle: float = 0.0,
    brake: float = 0.0,
) -> None:
    for _ in range(round(seconds / vehicle.constants.step_s)):
        vehicle.step(steer_rad, throttle, brake)


def held_speed(vehicle: DoubleTrack, speed_mps: float, seconds: float, steer_rad: float) -> None:
    """Drive at a speed: a throttle by its error, full torque at a deviation of a twentieth."""
    for _ in range(round(seconds / vehicle.constants.step_s)):
        error = (speed_mps - vehicle.state.forward_mps) / (0.05 * speed_mps)
        vehicle.step(steer_rad, min(max(error, 0.0), 1.0), 0.0)


@pytest.mark.parametrize("name", names())
def test_static_loads_carry_the_weight_where_the_centre_of_mass_is(name: str) -> None:
    vehicle = DoubleTrack(twin(name))
    drive(vehicle, 0.01, brake=1.0)
    out, c = vehicle.outputs, vehicle.constants
    front, rear = out.load_fl_n + out.load_fr_n, out.load_rl_n + out.load_rr_n
    assert front + rear == pytest.approx(c.mass_kg * GRAVITY_MPS2, rel=1e-12)
    assert front * c.front.arm_m + rear * c.rear.arm_m == pytest.approx(
        0.0, abs=0.02 * c.mass_kg * GRAVITY_MPS2 * c.wheelbase_m
    )
    assert out.load_fl_n == out.load_fr_n


@pytest.mark.parametrize("name", sampled(names(), lambda name: name in (HMMWV, ART, BMW, HUSKY)))
def test_a_braked_vehicle_comes_to_rest_and_stays_at_the_same_bits(name: str) -> None:
    own = twin(name)
    if own.brakes.rear_torque_nm == 0.0:
        own = twin(name, brakes__rear_torque_nm=own.body.mass_kg * own.rear.loaded_radius_m)
    vehicle = DoubleTrack(own, 2e-3, ground=Plane(slope_x=0.08, slope_y=-0.05))
    vehicle.reset(speed_mps=0.1)
    drive(vehicle, 3.0, brake=1.0)
    before = vehicle.state
    assert hypot(before.forward_mps, before.lateral_mps, before.yaw_rate_radps) == 0.0
    drive(vehicle, 0.5, brake=1.0)
    assert vehicle.state[:3] == before[:3]


@pytest.mark.parametrize("name", sampled(names(), lambda name: name in (HMMWV, ART, BMW, HUSKY)))
def test_a_vehicle_at_rest_is_not_turned_by_its_wheels(name: str) -> None:
    vehicle = DoubleTrack(twin(name), 2e-3)
    drive(vehicle, 1.0, steer_rad=0.2)
    yaw_rad = vehicle.state.yaw_rad
    drive(vehicle, 0.5, steer_rad=0.2)
    assert vehicle.state.yaw_rad == yaw_rad


@pytest.mark.parametrize("step_s", sampled([5e-5, 2e-4, 1e-3], lambda step_s: step_s > 1e-4))
def test_what_is_held_at_rest_is_moved_by_the_same_throttle_at_any_step(step_s: float) -> None:
    vehicle = DoubleTrack(twin("f1tenth"), step_s)
    drive(vehicle, 0.5)
    drive(vehicle, 0.5, throttle=0.005)
    assert vehicle.state.x_m == pytest.approx(0.01, rel=0.5)


def test_a_vehicle_without_a_brake_rolls_down_the_slope_again() -> None:
    vehicle = DoubleTrack(twin(BMW), ground=Plane(slope_x=0.2))
    drive(vehicle, 1.0, brake=1.0)
    drive(vehicle, 1.0)
    c = vehicle.constants
    turning = 4.0 * c.front.spin_inertia_kgm2 / c.front.rolling_radius_m**2
    down_mps2 = GRAVITY_MPS2 * (
        sin(atan(0.2)) - twin(BMW).front.tyre.rolling_resistance * cos(atan(0.2))
    )
    assert vehicle.state.forward_mps == pytest.approx(
        -down_mps2 * c.mass_kg / (c.mass_kg + turning), rel=0.05
    )


def test_a_slow_turn_is_that_of_the_kinematic_single_track() -> None:
    vehicle = DoubleTrack(
        twin(ART, steering__ackermann=1.0, front__rolled_slip=0.0, rear__rolled_slip=0.0)
    )
    held_speed(vehicle, 0.05, 4.0, 0.2)
    s, c = vehicle.state, vehicle.constants
    assert s.yaw_rate_radps == pytest.approx(s.forward_mps * tan(0.2) / c.wheelbase_m, rel=0.02)


def test_the_yaw_gain_of_small_steering_is_that_of_the_linear_single_track() -> None:
    vehicle = DoubleTrack(twin(HMMWV, front__rolled_slip=0.0, rear__rolled_slip=0.0))
    p, c = vehicle.parameters, vehicle.constants
    speed, steer = 12.0, 0.004
    held_speed(vehicle, speed, 8.0, steer)

    def stiffness(axle: Any) -> float:
        """Return the cornering stiffness of both wheels at their static load."""
        slope = axle.tyre.lateral.slope_n
        q = 0.5 * c.mass_kg * GRAVITY_MPS2 * 0.5 / axle.tyre.nominal_load_n
        return float(2.0 * q * (2.0 * slope[0] - 0.5 * slope[1] - (slope[0] - 0.5 * slope[1]) * q))

    front, rear = stiffness(p.front), stiffness(p.rear)
    a, b = c.front.arm_m, -c.rear.arm_m
    understeer = c.mass_kg / c.wheelbase_m * (b / front - a / rear)
    s = vehicle.state
    expected = s.forward_mps * steer / (c.wheelbase_m + understeer * s.forward_mps**2)
    assert s.yaw_rate_radps == pytest.approx(expected, rel=0.03)


def test_stiff_tyres_and_the_published_motor_approach_the_four_dof_model() -> None:
    """dv/dt = (r gamma / I)(f1 - f0), yaw rate v tan(delta)/L: Unjhawala et al. 2023, with the
    numbers of its controller."""
    stall = 0.09
    no_load = 161.185
    viscous = 1e-4
    friction = 0.02
    gamma = 1.0 / 3.0
    radius = 0.08451952624
    inertia = 1e-3
    reduced = radius * gamma
    mass = inertia / reduced**2
    tyre = {
        f"{end}__tyre__{side}__slope_n": [4e4, 8e4]
        for end in ("front", "rear")
        for side in ("longitudinal", "lateral")
    }
    shape = {
        f"{end}__tyre__{side}__peak_slip": [0.01, 0.01]
        for end in ("front", "rear")
        for side in ("longitudinal", "lateral")
    }
    soft = {
        f"{end}__tyre__{side}__carcass_{key}": value
        for end in ("front", "rear")
        for side in ("longitudinal", "lateral")
        for key, value in (("stiffness_npm", 2000.0), ("damping_nspm", 1.0))
    }
    wheel = {
        f"{end}__{key}": value
        for end in ("front", "rear")
        for key, value in {
            "rolling_radius_m": radius,
            "loaded_radius_m": radius,
            "spin_inertia_kgm2": 1e-6,
            "unsprung_mass_kg": 0.01,
            "rolled_slip": 0.0,
            "tyre__rolling_resistance": 0.0,
            "roll_stiffness_nmprad": 0.0,
            "roll_damping_nmsprad": 0.0,
        }.items()
    }
    speeds = [0.0, no_load, 2.0 * no_load]
    motor = {
        "curve_speed_radps": speeds,
        "curve_torque_nm": [stall, 0.0, -stall],
        "loss_speed_radps": speeds,
        "loss_torque_nm": [friction + viscous * speed for speed in speeds],
        "peak_torque_nm": 10.0,
        "reduction": 1.0 / gamma,
        "rotor_inertia_kgm2": 0.0,
    }
    changes = {
        **tyre,
        **shape,
        **soft,
        **wheel,
        **{f"powertrain__{key}": value for key, value in motor.items()},
    }
    vehicle = DoubleTrack(
        twin(
            ART, body__mass_kg=mass, body__yaw_inertia_kgm2=0.01, steering__ackermann=1.0, **changes
        )
    )
    speed = 0.0
    for step in range(3000):
        throttle = 1.0 if step < 2000 else 0.6
        vehicle.step(0.1, throttle, 0.0)
        omega = speed / reduced
        torque = (
            throttle * stall * max(0.0, 1.0 - omega / (throttle * no_load))
            - friction
            - viscous * omega
        )
        speed += 1e-3 * reduced / inertia * torque
    s = vehicle.state
    assert speed > 1.0
    assert s.forward_mps == pytest.approx(speed, rel=0.02)
    assert s.yaw_rate_radps == pytest.approx(
        s.forward_mps * tan(0.1) / vehicle.constants.wheelbase_m, rel=0.02
    )


def test_a_skid_steered_vehicle_turns_by_its_sides_to_where_the_steering_points() -> None:
    vehicle = DoubleTrack(twin(HUSKY))
    drive(vehicle, 4.0, 0.3, 0.5)
    s = vehicle.state
    left, right = s.spin_fl_radps + s.spin_rl_radps, s.spin_fr_radps + s.spin_rr_radps
    assert right > left > 0.0
    assert s.spin_fl_radps == pytest.approx(s.spin_rl_radps, rel=1e-3)
    track = 0.5 * (right - left) * vehicle.constants.front.rolling_radius_m / s.yaw_rate_radps
    assert 0.55 < track < 1.3, "the effective track is published as 0.555 to 1.07 m"


def test_the_rear_axle_follows_its_command() -> None:
    plain = DoubleTrack(twin(ART, steering__ackermann=0.0))
    both = DoubleTrack(twin(ART, steering__ackermann=0.0, steering__rear_ratio=-1.0))
    for vehicle in (plain, both):
        held_speed(vehicle, 0.5, 5.0, 0.1)
    assert both.state.yaw_rate_radps == pytest.approx(2.0 * plain.state.yaw_rate_radps, rel=0.03)


def test_a_tall_vehicle_lifts_its_inner_wheels_and_rolls_over() -> None:
    tall = twin(
        HMMWV,
        body__cg_height_m=2.2,
        front__roll_stiffness_nmprad=2e5,
        rear__roll_stiffness_nmprad=2e5,
    )
    vehicle = DoubleTrack(tall)
    vehicle.reset(speed_mps=12.0)
    drive(vehicle, 0.8, 0.25)
    out = vehicle.outputs
    loads_n = (out.load_fl_n, out.load_fr_n, out.load_rl_n, out.load_rr_n)
    assert [load_n < 1e-6 for load_n in loads_n] == [True, False, True, False]
    total = out.load_fl_n + out.load_fr_n + out.load_rl_n + out.load_rr_n
    assert total == pytest.approx(tall.body.mass_kg * GRAVITY_MPS2, rel=1e-9)
    drive(vehicle, 3.0, 0.25)
    assert vehicle.rolled_over
    low = DoubleTrack(twin(HMMWV))
    low.reset(speed_mps=12.0)
    drive(low, 3.8, 0.25)
    assert not low.rolled_over


def test_full_braking_is_limited_by_the_tyres_and_locks_the_wheels() -> None:
    vehicle = DoubleTrack(twin(BMW, brakes__front_torque_nm=9000.0, brakes__rear_torque_nm=9000.0))
    vehicle.reset(speed_mps=20.0)
    drive(vehicle, 0.5, brake=1.0)
    tyre = vehicle.parameters.front.tyre
    sliding = tyre.longitudinal.sliding_force_n[0] / tyre.nominal_load_n
    assert vehicle.state[12:16] == (0.0, 0.0, 0.0, 0.0)
    assert -vehicle.outputs.forward_mps2 == pytest.approx(sliding * GRAVITY_MPS2, rel=0.05)


@pytest.mark.parametrize("towards", sampled([1.0, -1.0], lambda towards: towards < 0.0))
def test_an_engine_does_not_drive_against_its_gear(towards: float) -> None:
    braking, coasting = DoubleTrack(twin("sedan")), DoubleTrack(twin("sedan"))
    for vehicle in (braking, coasting):
        while towards * vehicle.state.forward_mps < 1.5:
            vehicle.step(0.0, 0.2 * towards, 0.0)
    drive(braking, 2.0, throttle=-towards)
    drive(coasting, 2.0)
    assert braking.state == coasting.state
    assert 0.5 < towards * braking.state.forward_mps < 1.4, "the engine brakes"
    drive(braking, 5.0, throttle=-towards)
    assert towards * braking.state.forward_mps < -1.0, "the gear of the other direction is in"


@pytest.mark.parametrize("name", sampled(["rzr_pro_r4", HMMWV], lambda name: name == HMMWV))
def test_a_vehicle_that_coasts_after_full_reverse_is_braked_by_its_converter_and_can_drive_off(
    name: str,
) -> None:
    vehicle = DoubleTrack(twin(name))
    c, engine = vehicle.constants, vehicle.parameters.powertrain
    assert isinstance(engine, Engine)
    torques, energies = [], []
    for throttle, seconds in ((-1.0, 3.0), (0.0, 3.0), (1.0, 15.0)):
        for _ in range(round(1e3 * seconds)):
            vehicle.step(0.0, throttle, 0.0)
            s = vehicle.state
            wheels = (
                c.front.spin_inertia_kgm2 * s.spin_fl_radps**2
                + c.rear.spin_inertia_kgm2 * s.spin_rl_radps**2
            )
            energies.append(0.5 * c.mass_kg * s.forward_mps**2 + wheels)
            torques.append(vehicle.outputs.drive_nm)
    assert (
        max(map(abs, torques[:6000]))
        < max(engine.converter_torque_ratio) * max(engine.map_torque_nm) / engine.reverse_ratio
    )
    assert all(after <= before for before, after in pairwise(energies[3000:6000]))
    assert sum(a * b < 0.0 for a, b in pairwise(torques[3000:6000])) == 1, "from driving to braking"
    assert vehicle.state.gear >= 1.0
    assert vehicle.state.forward_mps > 3.0


def test_slips_of_peak_and_sliding_may_cross_beyond_the_loads_they_are_given_for() -> None:
    changes: dict[str, Any] = {}
    for end in ("front", "rear"):
        changes |= {f"{end}__tyre__nominal_load_n": 1000.0, f"{end}__tyre__largest_load_n": 3000.0}
        for side in ("longitudinal", "lateral"):
            changes |= {
                f"{end}__tyre__{side}__peak_slip": [0.25, 0.375],
                f"{end}__tyre__{side}__sliding_slip": [0.5, 0.5],
            }
    vehicle = DoubleTrack(twin(BMW, **changes))
    vehicle.reset(speed_mps=20.0)
    drive(vehicle, 0.2, 0.5)
    drive(vehicle, 1.8, 0.5, brake=1.0)
    assert all(isfinite(value) for value in (*vehicle.state, *vehicle.outputs))
    assert vehicle.state.forward_mps < 10.0


def test_less_friction_lengthens_the_stop() -> None:
    stopped = []
    for friction in (1.0, 0.4):
        vehicle = DoubleTrack(twin(BMW), ground=Plane(friction=friction))
        vehicle.reset(speed_mps=10.0)
        drive(vehicle, 8.0, brake=1.0)
        assert vehicle.state.forward_mps == 0.0
        stopped.append(vehicle.state.x_m)
    assert stopped[1] > 1.8 * stopped[0]


def test_halving_the_step_halves_the_difference() -> None:
    ends = []
    for step_s in (4e-3, 2e-3, 1e-3, 5e-4):
        vehicle = DoubleTrack(twin(HMMWV), step_s)
        vehicle.reset(speed_mps=12.0)
        commands = np.zeros((round(4.0 / step_s), 3))
        commands[:, 0] = 0.06 * np.sin(2.0 * pi * 0.4 * step_s * np.arange(len(commands)))
        vehicle.run(commands)
        ends.append((vehicle.state.x_m, vehicle.state.y_m))
    gaps = [hypot(a[0] - b[0], a[1] - b[1]) for a, b in pairwise(ends)]
    assert gaps[0] > 1.6 * gaps[1] > 1.6 * 1.6 * gaps[2]
    assert gaps[2] < 0.02


def commands_of(seed: int, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Held for random whiles: steering, throttle, brake."""
    random = np.random.default_rng(seed)
    held = np.repeat(
        random.uniform([-0.3, -0.2, -0.4], [0.3, 1.0, 0.6], (count // 50, 3)), 50, axis=0
    )
    held[:, 2] = np.maximum(held[:, 2], 0.0)
    return held


def test_a_run_stops_where_the_vehicle_diverges() -> None:
    vehicle = DoubleTrack(twin(BMW, bounds__speed_limit_mps=5.0))
    rows = vehicle.run(np.tile([0.0, 1.0, 0.0], (4000, 1)))
    assert vehicle.diverged
    last = int(np.flatnonzero(np.isfinite(rows["vx"]))[-1])
    assert 4.9 < rows["vx"][last] < 5.1
    assert np.isnan(rows["vx"][last + 1 :]).all()


@pytest.mark.parametrize("build", [DoubleTrack, double_track])
def test_a_run_that_diverges_leaves_the_vehicle_where_steps_do(
    build: Callable[..., DoubleTrack],
) -> None:
    ran, stepped = (build(twin(ART, bounds__speed_limit_mps=1.0)) for _ in range(2))
    made = 0
    while stepped.step(0.0, 1.0, 0.0):
        made += 1
    commands = np.tile([0.0, 1.0, 0.0], (made + 500, 1))
    rows = ran.run(commands)
    assert np.isfinite(rows["vx"]).sum() == made
    assert ran.state == stepped.state
    assert ran.state.forward_mps < 1.0
    before = ran.state
    assert np.isnan(ran.run(commands)["vx"]).all()
    assert ran.diverged
    assert ran.state == before


def test_a_run_of_machine_code_is_the_plain_one() -> None:
    vehicles = DoubleTrack(twin(ART)), double_track(twin(ART))
    commands = commands_of(2, 1500)
    for vehicle in vehicles:
        vehicle.reset(speed_mps=2.0)
    plain, native = (vehicle.run(commands, 10) for vehicle in vehicles)
    assert plain.keys() == native.keys() == {"t", "delta", *COLUMNS}
    for column, values in plain.items():
        assert np.array_equal(native[column], values), column
    assert vehicles[0].state == vehicles[1].state


def test_the_columns_are_the_fields() -> None:
    assert len(COLUMNS) == len(PlantState._fields) + len(Outputs._fields)


@pytest.mark.parametrize(
    ("key", "value", "why"),
    [
        ("body.cg_to_front_m", 9.0, "behind the rear axle"),
        ("front.tyre.lateral.peak_slip", [0.01, 0.01], "cannot reach the peak"),
        ("front.roll_stiffness_nmprad", 10.0, "falls over at rest"),
        ("rear.tyre.lateral.carcass_damping_nspm", 1e8, "too stiff"),
        ("front.tyre.vertical.stiffness_npm", 5e4, "more than half the radius"),
    ],
)
def test_nonsense_is_refused_with_key_and_reason(key: str, value: Any, why: str) -> None:
    tree = msgspec.to_builtins(twin(HMMWV))
    table = tree
    *parents, last = key.split(".")
    for parent in parents:
        table = table[parent]
    table[last] = value
    if last == "roll_stiffness_nmprad":
        tree["rear"][last] = value
    parameters = msgspec.convert(tree, TwinParameters)
    assert any(why in reason for _, reason in check(parameters)), check(parameters)
    with pytest.raises(ParameterError, match=why):
        DoubleTrack(parameters)


def test_a_number_that_is_none_is_refused() -> None:
    parameters = twin(HMMWV)
    lost = replace(parameters, body=replace(parameters.body, mass_kg=float("nan")))
    assert ("body.mass_kg", "is not a finite number") in check(lost)


def test_commands_that_are_no_numbers_are_refused() -> None:
    vehicle = DoubleTrack(twin(ART))
    for bad in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="not a finite number"):
            vehicle.step(0.0, bad, 0.0)
    assert all(isfinite(value) for value in vehicle.state)
    with pytest.raises(ValueError, match=r"\(n, 3\)"):
        vehicle.run(np.zeros((3, 2)))


def test_the_radii_of_a_tyre_change_with_its_load_as_tmeasy_has_it() -> None:
    """The reference's own numbers: unloaded radius 0.3266 m, 411121 N/m; our loads are its loads
    times the mass factor."""
    p = twin("sedan")
    factor = 1.0 + (p.front.unsprung_mass_kg + p.rear.unsprung_mass_kg) / p.body.mass_kg
    for load_n in (2000.0, 5000.0, 8000.0, 2e4):
        t = contact(constants(p, 1e-3).rear, load_n, 1.0, 10.0, 0.0, 30.0, 0.0, 0.0)
        turn = p.rear.tyre.nominal_load_n * (1.0 - 2.0 * 0.375 + 0.75) / (2.0 * (0.75 - 0.375))
        share = 0.375 + (0.75 - 0.375) * (min(load_n, turn) / p.rear.tyre.nominal_load_n - 1.0)
        loaded_m = 0.3266 - load_n / factor / 411121.0
        assert t.lever_m == pytest.approx(loaded_m, abs=2e-5)
        assert t.rolling_radius_m == pytest.approx(
            share * 0.3266 + (1.0 - share) * loaded_m, abs=2e-5
        )


def test_without_a_vertical_stiffness_the_radii_stay_the_same_to_the_bit() -> None:
    c = constants(twin("hmmwv_evm"), 1e-3).rear
    for load_n in (0.0, 5000.0, 2e4):
        t = contact(c, load_n, 1.0, 10.0, 0.0, 30.0, 0.0, 0.0)
        assert (t.rolling_radius_m, t.lever_m) == (c.rolling_radius_m, c.unloaded_lever_m)


def test_a_model_may_neglect_the_yaw_moment_of_the_leaning_mass() -> None:
    """Braking in a turn, the mass that leans outwards turns a real vehicle in."""
    rates = []
    for share in (1.0, 0.0):
        vehicle = DoubleTrack(twin(HMMWV, body__lean_yaw=share))
        vehicle.reset(speed_mps=15.0)
        drive(vehicle, 2.0, 0.05)
        drive(vehicle, 0.3, 0.05, brake=0.4)
        rates.append(vehicle.state.yaw_rate_radps)
    assert 1.002 < rates[0] / rates[1] < 1.05
