"""The 4-DOF plant and the actuators before it, against closed forms."""

from itertools import pairwise
from math import cos, hypot, pi, sin, tan

import pytest
from msgspec.structs import replace

from sim_backend.plant.actuators import HORIZON_NS, Actuators, Supply
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import Plant, StartPose
from sim_backend.plant.registry import PLANTS, UnknownPlantError, plant_class
from tests.vehicles import make_drive
from vehicled.core.vehicle import Drive
from vehicled.profile.schema import Battery, Sim, TwinSteering, TwinVehicle

MS = 1_000_000
START = 1_000_000_000
DRIVE = make_drive(brake_deceleration_mps2=3.0)
STEERING = TwinSteering(gain_rad=0.335, max_wheel_rad=0.335, rate_radps=0.67, delay_s=0.4)
SIM = Sim(wheelbase_m=0.5, steering=STEERING, drive=DRIVE)
REST = StartPose(0.0, 0.0, 0.0)


def sim(**steering: float) -> Sim:
    """The twin with another steering."""
    return Sim(
        wheelbase_m=0.5,
        steering=TwinSteering(
            **{"gain_rad": 0.3, "max_wheel_rad": 0.5, "rate_radps": 1.0, "delay_s": 0.0} | steering
        ),
        drive=DRIVE,
    )


def run(
    plant: Plant, seconds: float, throttle: float, brake: float = 0.0, wheel_angle_rad: float = 0.0
) -> None:
    for _ in range(round(seconds * 1000)):
        plant.step(throttle, brake, wheel_angle_rad)


@pytest.mark.parametrize("speed_mps", [0.3, 1.0, 2.5])
def test_steady_speed_is_that_of_the_motor_map(speed_mps: float):
    plant = FourDof(SIM, REST, 1e-3)
    run(plant, 30.0, DRIVE.steady_throttle(speed_mps))
    assert plant.motion().speed_mps == pytest.approx(speed_mps, abs=1e-6)
    assert plant.motor_speed_radps == pytest.approx(speed_mps * 3.0 / 0.08451952624, rel=1e-6)


def test_full_throttle_reaches_the_top_speed():
    plant = FourDof(SIM, REST, 1e-3)
    run(plant, 60.0, 1.0)
    assert plant.motion().speed_mps == pytest.approx(DRIVE.top_speed_mps, abs=1e-6)


@pytest.mark.parametrize("step_s", [1e-3, 5e-3, 20e-3])
def test_speed_is_exact_at_any_step(step_s: float):
    """The speed equation is linear: the solution does not depend on the grid."""
    plant, fine = FourDof(SIM, REST, step_s), FourDof(SIM, REST, 1e-4)
    for _ in range(round(1.0 / step_s)):
        plant.step(0.8, 0.0, 0.0)
    for _ in range(10_000):
        fine.step(0.8, 0.0, 0.0)
    assert plant.motion().speed_mps == pytest.approx(fine.motion().speed_mps, rel=1e-12)
    assert plant.motion().x_m == pytest.approx(
        fine.motion().x_m, abs=1e-4 * (step_s / 1e-2) ** 2 + 1e-8
    )


@pytest.mark.parametrize("wheel_rad", [0.335, 0.05, -0.2])
def test_turn_radius_is_wheelbase_over_tangent(wheel_rad: float):
    plant = FourDof(SIM, StartPose(3.0, -2.0, 0.7), 1e-3)
    plant.step(0.0, 0.0, wheel_rad)
    radius = 0.5 / tan(wheel_rad)
    centre = 3.0 - radius * sin(0.7), -2.0 + radius * cos(0.7)
    worst = 0.0
    for _ in range(20):
        run(plant, 1.0, 0.6, wheel_angle_rad=wheel_rad)
        motion = plant.motion()
        worst = max(worst, abs(hypot(motion.x_m - centre[0], motion.y_m - centre[1]) - abs(radius)))
    assert worst < 1e-9
    assert motion.yaw_rate_radps == pytest.approx(motion.speed_mps / radius, rel=1e-12)
    assert motion.lateral_acceleration_mps2 == pytest.approx(
        motion.speed_mps**2 / radius, rel=1e-12
    )


def test_a_straight_line_is_straight():
    plant = FourDof(SIM, StartPose(0.0, 0.0, pi / 6), 1e-3)
    run(plant, 5.0, 1.0)
    motion = plant.motion()
    assert motion.yaw_rad == pi / 6
    assert motion.y_m == pytest.approx(motion.x_m * tan(pi / 6), rel=1e-12)


@pytest.mark.parametrize(("brake", "longest_m"), [(1.0, 0.4), (0.0, 4.0)])
def test_it_stops_exactly_and_stays(brake: float, longest_m: float):
    plant = FourDof(SIM, REST, 1e-3)
    run(plant, 5.0, 0.7)
    from_m = plant.motion().x_m
    run(plant, 8.0, 0.0, brake, wheel_angle_rad=0.1)
    stopped = plant.motion()
    assert (stopped.speed_mps, stopped.yaw_rate_radps, stopped.acceleration_mps2) == (0.0, 0.0, 0.0)
    assert 0.1 < stopped.x_m - from_m < longest_m
    run(plant, 2.0, 0.0, brake, wheel_angle_rad=-0.1)
    rested = plant.motion()
    assert (rested.x_m, rested.y_m, rested.yaw_rad) == (stopped.x_m, stopped.y_m, stopped.yaw_rad)


def test_the_stopping_distance_is_that_of_constant_deceleration():
    """Drag and friction off as far as the schema allows: what is left is the brake, so s = v^2 / (2
    a)."""
    light = Drive(
        stall_torque_nm=0.09, no_load_speed_radps=1e15, friction_nm=0.0, viscous_nms=0.0,
        gear_ratio=1 / 3, wheel_radius_m=0.0845, inertia_kgm2=1e-3, delay_s=0.0,
        brake_deceleration_mps2=2.0,
    )  # fmt: skip
    plant = FourDof(Sim(wheelbase_m=0.5, steering=STEERING, drive=light), REST, 1e-3)
    run(plant, 1.0, 0.5)
    before = plant.motion()
    run(plant, 2.0, 0.0, 1.0)
    assert plant.motion().x_m - before.x_m == pytest.approx(before.speed_mps**2 / 4.0, rel=1e-9)


def test_friction_holds_against_too_little_throttle():
    plant = FourDof(SIM, REST, 1e-3)
    run(plant, 5.0, 0.9 * DRIVE.friction_nm / DRIVE.stall_torque_nm)
    assert (plant.motion().x_m, plant.motion().speed_mps) == (0.0, 0.0)


def test_left_and_right_mirror_bit_for_bit():
    def trace(sign: float) -> list[tuple[float, ...]]:
        twin = sim(offset_rad=sign * 0.018, slack_rad=0.01, dead_zone=0.1, delay_s=0.05)
        plant, actuators = FourDof(twin, REST, 1e-3), Actuators(twin, START, MS)
        out: list[tuple[float, ...]] = []
        for k in range(3_000):
            if k % 10 == 0:
                actuators.command(
                    START + k * MS, 0.6 + 0.4 * sin(k / 300), 0.0, sign * sin(k / 150)
                )
            actuators.step(START + k * MS, plant.motor_speed_radps)
            plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
            m = plant.motion()
            out.append(
                (
                    m.x_m,
                    sign * m.y_m,
                    sign * m.yaw_rad,
                    m.speed_mps,
                    sign * m.yaw_rate_radps,
                    sign * m.yaw_acceleration_radps2,
                )
            )
        return out

    assert trace(1.0) == trace(-1.0)
    assert trace(1.0)[-1][2] != 0.0


@pytest.mark.parametrize("stamp_ns", [0, 1, 400_000, 999_999])
@pytest.mark.parametrize(
    ("steering_delay_s", "drive_delay_s"), [(0.0, 0.0), (0.4, 0.1), (0.0125, 0.0007)]
)
def test_a_command_acts_from_the_first_grid_point_after_its_delay(
    stamp_ns: int, steering_delay_s: float, drive_delay_s: float
):
    drive = Drive(
        **{field: getattr(DRIVE, field) for field in DRIVE.__struct_fields__}
        | {"delay_s": drive_delay_s}
    )
    twin = Sim(
        wheelbase_m=0.5,
        steering=sim(delay_s=steering_delay_s).steering,
        drive=drive,
        command_timeout_s=1.0,
    )
    actuators = Actuators(twin, START, MS)
    t_ns = START + 3 * MS + stamp_ns
    actuators.command(t_ns, 0.5, 0.25, 1.0)
    steered = driven = None
    for k in range(600):
        now_ns = START + k * MS
        actuators.step(now_ns, 0.0)
        if steered is None and actuators.wheel_angle_rad != 0.0:
            steered = now_ns
        if driven is None and actuators.duty != 0.0:
            driven = now_ns
            assert actuators.brake == 0.25
    assert steered is not None
    assert driven is not None
    assert 0 <= steered - (t_ns + round(steering_delay_s * 1e9)) < MS
    assert 0 <= driven - (t_ns + round(drive_delay_s * 1e9)) < MS


def test_a_late_command_acts_at_once():
    actuators = Actuators(sim(), START, MS)
    for k in range(50):
        actuators.step(START + k * MS, 0.0)
    actuators.command(START + 3 * MS, 0.5, 0.0, 1.0)
    actuators.step(START + 50 * MS, 0.0)
    assert actuators.wheel_angle_rad > 0.0


def test_a_silent_line_sends_the_board_to_neutral():
    twin = sim(offset_rad=0.02, delay_s=0.05)
    actuators = Actuators(twin, START, MS)
    angles, duties = [], []
    for k in range(1_000):
        if k <= 100 and k % 10 == 0:
            actuators.command(START + k * MS, 0.5, 0.5, 1.0)
        actuators.step(START + k * MS, 0.0)
        angles.append(actuators.wheel_angle_rad)
        duties.append(actuators.duty)
    # Last command at 100 ms, neutral 200 ms later, seen after the delays: drive 100 ms, steering 50
    # ms.
    assert [k for k in range(999) if duties[k] != duties[k + 1]] == [99, 399]
    assert angles[350] < angles[349] == max(angles)
    assert angles[-1] == 0.02
    assert (actuators.duty, actuators.brake, actuators.timeouts) == (0.0, 0.0, 1)
    actuators.command(START + 1_000 * MS, 0.5, 0.0, 0.0)
    for k in range(1_000, 1_102):
        actuators.step(START + k * MS, 0.0)
    assert actuators.duty == 0.5


def test_a_gap_between_two_commands_is_a_time_out_even_when_both_are_known_beforehand():
    actuators = Actuators(sim(), START, MS)
    actuators.command(START, 0.5, 0.0, 0.0)
    actuators.command(START + 350 * MS, 0.6, 0.0, 0.0)
    duties = []
    for k in range(500):
        actuators.step(START + k * MS, 0.0)
        duties.append(actuators.duty)
    assert (duties[299], duties[300], duties[449], duties[450]) == (0.5, 0.0, 0.0, 0.6)


def test_the_servo_slews_at_its_rate_and_lands_on_its_target():
    actuators = Actuators(sim(rate_radps=0.5), START, MS)
    angles = []
    for k in range(1_000):
        actuators.command(START + k * MS, 0.0, 0.0, 1.0)
        actuators.step(START + k * MS, 0.0)
        angles.append(actuators.wheel_angle_rad)
    steps = [b - a for a, b in pairwise(angles)]
    assert max(steps) == pytest.approx(0.5e-3, rel=1e-9)
    assert angles[298] == pytest.approx(299 * 0.5e-3)
    assert angles[-1] == 0.3
    assert angles.index(0.3) == 599


@pytest.mark.parametrize(
    ("command", "angle_rad"),
    [
        (0.0, 0.01),
        (0.2, 0.01),
        (-0.2, 0.01),
        (0.6, 0.16),
        (-0.6, -0.14),
        (1.0, 0.25),
        (5.0, 0.25),
        (-1.0, -0.25),
    ],
)
def test_gain_offset_dead_zone_and_cut(command: float, angle_rad: float):
    actuators = Actuators(sim(offset_rad=0.01, dead_zone=0.2, max_wheel_rad=0.25), START, MS)
    for k in range(500):
        actuators.command(START + k * MS, 0.0, 0.0, command)
        actuators.step(START + k * MS, 0.0)
    assert actuators.wheel_angle_rad == pytest.approx(angle_rad, abs=1e-12)


def test_a_dead_zone_of_everything_leaves_the_wheel_alone():
    actuators = Actuators(sim(dead_zone=1.0), START, MS)
    actuators.command(START, 0.0, 0.0, 1.0)
    actuators.step(START, 0.0)
    assert actuators.wheel_angle_rad == 0.0


def test_slack_holds_the_wheel_until_it_is_taken_up():
    actuators = Actuators(sim(slack_rad=0.04), START, MS)

    clock = iter(range(10_000))

    def settle(command: float) -> float:
        for _ in range(700):
            now_ns = START + next(clock) * MS
            actuators.command(now_ns, 0.0, 0.0, command)
            actuators.step(now_ns, 0.0)
        return actuators.wheel_angle_rad

    assert settle(0.05) == 0.0
    assert settle(0.5) == pytest.approx(0.15 - 0.02)
    assert settle(0.4) == pytest.approx(0.15 - 0.02)
    assert settle(-0.5) == pytest.approx(-0.15 + 0.02)


def test_commands_are_clipped_ordered_and_bounded():
    actuators = Actuators(sim(), START, MS)
    actuators.command(START + HORIZON_NS + 1, 1.0, 0.0, 0.0)
    assert actuators.ignored_commands == 1
    for k in range(100_000):
        actuators.command(START + k * 100, 7.0, -3.0, 9.0)
    assert len(actuators._drive_queue) <= 11
    # Stamped earlier than one before it: a wire keeps its order.
    actuators.command(START, 0.25, 0.0, 0.0)
    for k in range(150):
        actuators.step(START + k * MS, 0.0)
        assert actuators.duty in (0.0, 0.25, 1.0)
        assert actuators.brake == 0.0
    assert actuators.duty == 0.25


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), float("-inf")])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_command_that_is_not_finite_is_ignored_and_does_not_keep_the_board_awake(
    bad: float, place: int
):
    actuators = Actuators(sim(), START, MS)
    actuators.command(START, 0.5, 0.0, 0.0)
    values = [0.1, 0.1, 0.1]
    values[place] = bad
    for k in range(400):
        actuators.command(START + k * MS, *values)
        actuators.step(START + k * MS, 0.0)
    assert actuators.ignored_commands == 400
    assert actuators.timeouts == 1
    assert actuators.duty == 0.0


def test_the_supply_sags_and_runs_down():
    battery = Battery(
        nominal_v=7.4,
        full_v=8.4,
        internal_resistance_ohm=0.05,
        capacity_ah=0.01,
        full_drive_current_a=20.0,
    )
    supply = Supply(battery, 161.185, 1e-3)
    assert supply.step(0.0, 0.0) == 0.0
    assert supply.voltage_v == 8.4
    throttle = supply.step(1.0, 0.0)
    # At standstill and full duty: V = 8.4 - R I, I = 20 V / 7.4, torque in proportion.
    assert supply.voltage_v == pytest.approx(8.4 / (1.0 + 0.05 * 20.0 / 7.4))
    assert (
        supply.input_current_a
        == supply.motor_current_a
        == pytest.approx(20.0 * supply.voltage_v / 7.4)
    )
    assert throttle == pytest.approx(supply.voltage_v / 7.4)
    charge_c = 0.0
    while charge_c < 0.5 * 36.0:
        supply.step(1.0, 0.0)
        charge_c += supply.input_current_a * 1e-3
    supply.step(0.0, 0.0)
    assert supply.voltage_v == pytest.approx(7.4, abs=0.01)
    for _ in range(100_000):
        supply.step(1.0, 0.0)
    assert 0.0 <= supply.voltage_v < 6.5
    assert supply.input_current_a >= 0.0


def test_the_supply_takes_nothing_back():
    supply = Supply(Battery(internal_resistance_ohm=0.05), 100.0, 1e-3)
    supply.step(0.2, 90.0)
    assert (supply.motor_current_a, supply.input_current_a, supply.voltage_v) == (0.0, 0.0, 8.4)


def test_a_stiff_supply_at_nominal_voltage_changes_nothing():
    battery = Battery(nominal_v=7.4, full_v=7.4, internal_resistance_ohm=0.0)
    twin = Sim(wheelbase_m=0.5, steering=STEERING, drive=DRIVE, battery=battery)
    plant, actuators = FourDof(twin, REST, 1e-3), Actuators(twin, START, MS)
    for k in range(30_000):
        actuators.command(START + k * MS, DRIVE.steady_throttle(1.5), 0.0, 0.0)
        actuators.step(START + k * MS, plant.motor_speed_radps)
        plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
    assert plant.motion().speed_mps == pytest.approx(1.5, abs=1e-6)


def test_plants_are_found_by_name():
    twin = replace(
        SIM,
        plant="double_track",
        twin=TwinVehicle(vehicle="art_lfdm"),
        steering=None,
        drive=None,
        wheelbase_m=None,
    )
    assert sorted(PLANTS) == ["double_track", "four_dof"]
    for name, sim in (("four_dof", SIM), ("double_track", twin)):
        plant = plant_class(name)(sim, StartPose(1.0, 2.0, 0.5), 1e-3)
        motion = plant.motion()
        assert (motion.x_m, motion.y_m, motion.yaw_rad, motion.speed_mps) == pytest.approx(
            (1.0, 2.0, 0.5, 0.0)
        )
    with pytest.raises(
        UnknownPlantError, match=r'sim\.plant "foo" is not known; use one of double_track, four_dof'
    ):
        plant_class("foo")
