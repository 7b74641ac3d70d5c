"""The mixing matrix, its inverse in the simulator, and the telemetry of several devices as that of
one."""

from math import isnan, nan, tan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from drivers.vesc.device import VescCan
from drivers.vesc.params import CanParams
from sim_backend.emulators.interface import DriveCommand
from sim_backend.plant.joint import JointActuators
from vehicled.core.messages import ActuatorStatus, Message, MotorStatus, PortState, WheelSpeed
from vehicled.core.mixing import Mix, Mixing, Sides, plain
from vehicled.daemon.actuation import Actuation, ActuatorRole
from vehicled.profile import load_profile
from vehicled.profile.schema import Profile

UNIT = st.floats(-1.0, 1.0)
SIDES = Sides(0.5, 0.7)
LEFT, RIGHT = Mix(left=1.0), Mix(right=1.0)
APART = [
    "devices.drive.mix.motor.throttle=1",
    'devices.servo={driver="pwm_board",messages=["ActuatorCommand"],capabilities={},mix={servo={steering=-1}}}',
]
PAIR = [
    "devices.drive.mix={motor={left=1},servo={steering=1}}",
    'devices.right={driver="vesc_can",messages=["ActuatorCommand","MotorStatus"],capabilities={},mix={motor={right=-1}}}',
    "devices.right.driver={name='vesc_can',vesc_can={controller_id=2,host_id=253}}",
]


@given(UNIT, UNIT)
def test_one_actuator_gets_throttle_and_steering(throttle: float, steering: float) -> None:
    assert plain(VescCan.actuator_outputs).outputs(throttle, steering) == (throttle, steering)


@given(st.floats(0.01, 1.0), UNIT, st.booleans())
@example(1.0, 1.0, False)
@example(0.9, -1.0, True)
def test_the_sides_drive_the_curve_of_the_wheel_angle_whatever_is_cut(
    size: float, steering: float, back: bool
) -> None:
    throttle = -size if back else size
    left, right = Mixing((LEFT, RIGHT), SIDES).outputs(throttle, steering)
    assert max(abs(left), abs(right)) <= 1.0
    assert (right - left) / (right + left) == pytest.approx(0.7 * tan(0.5 * steering), abs=1e-9)
    if max(abs(left), abs(right)) < 1.0 - 1e-9:
        assert left + right == pytest.approx(2.0 * throttle)


def test_a_gain_turns_an_output_round_and_a_number_that_is_none_stays_one() -> None:
    mixing = Mixing((Mix(throttle=-1.0), Mix(steering=-0.5)))
    assert mixing.outputs(0.4, 0.6) == pytest.approx((-0.4, -0.3))
    assert mixing.directions == (-1.0, 0.0)
    assert mixing.drives
    assert not Mixing((Mix(steering=1.0),)).drives
    assert isnan(mixing.outputs(nan, 0.0)[0])


@pytest.mark.parametrize("overrides", [APART, PAIR])
@given(throttle=st.floats(0.05, 0.6), steering=st.floats(-0.9, 0.9), brake=st.floats(0.0, 1.0))
def test_the_simulator_makes_of_all_outputs_the_command_that_was_mixed(
    overrides: list[str], throttle: float, steering: float, brake: float
) -> None:
    profile = profile_of(overrides)
    joint = JointActuators(profile, wires=True)
    for name, device in joint._devices.items():
        motor, servo = device.mixing.outputs(throttle, steering)
        found = joint.command(name, DriveCommand(5, motor, brake, servo))
    assert found[1:3] == pytest.approx((throttle, brake))
    assert found.steering == pytest.approx(steering)


def test_a_silent_device_goes_to_neutral_alone() -> None:
    joint = JointActuators(profile_of(PAIR), wires=True)
    joint.command("right", DriveCommand(0, -0.5, 0.0, 0.0))
    joint.command("drive", DriveCommand(100_000_000, 0.5, 0.0, 0.0))
    assert joint.due_ns == 200_000_000
    (found,) = joint.on_time(200_000_000)
    assert found.throttle == pytest.approx(0.25)
    assert joint.due_ns == 300_000_000


def test_two_sides_without_a_servo_steer_by_their_difference() -> None:
    rows = ["devices.drive.mix={motor={left=1}}", PAIR[1].replace("-1", "1"), PAIR[2]]
    profile = profile_of(rows)
    joint = JointActuators(profile, wires=False)
    joint.command("drive", DriveCommand(1, 0.4, 0.0, 0.8))
    found = joint.command("right", DriveCommand(1, 0.4, 0.0, 0.8))
    # The daemon mixes by the gain that it believes, and the plant turns by the true one.
    turned = profile.sim.steering
    assert turned is not None
    assert found.throttle == pytest.approx(0.4)
    assert found.steering * turned.gain_rad == pytest.approx(
        0.8 * profile.vehicle.steering.gain_rad - turned.offset_rad, abs=1e-3
    )
    for name in ("drive", "right"):
        standing = joint.command(name, DriveCommand(2, 0.0, 1.0, 0.0))
    assert (standing.throttle, standing.brake) == (0.0, 1.0)
    assert standing.steering * turned.gain_rad == pytest.approx(-turned.offset_rad), (
        "sides that nothing drives roll alike"
    )


def profile_of(overrides: list[str]) -> Profile:
    return load_profile("art_vesc", overrides)


# ---------------------------------------------------------------- telemetry


def actuation() -> Actuation:
    devices = {name: VescCan(CanParams(), (MotorStatus,), 1) for name in ("left", "right", "servo")}
    both: frozenset[type[Message]] = frozenset((MotorStatus, WheelSpeed))
    roles = {"left": ActuatorRole(reports=both), "right": ActuatorRole(reports=both)}
    return Actuation(devices, {**roles, "servo": ActuatorRole(drives=False)})


def test_a_status_of_all_is_made_when_each_has_reported_anew() -> None:
    joint = actuation()
    left = MotorStatus(1, 2, 100.0, 3.0, 1.0, 12.0, 0.2, 300.0, nan, 0)
    right = MotorStatus(2, 3, 80.0, 5.0, 2.0, 11.0, 0.1, 310.0, nan, 4)
    record, status = joint.joined("left", left)
    assert isinstance(record, ActuatorStatus)
    assert (record.device, record.motor_speed_radps, status) == ("left", 100.0, None)
    assert joint.awaited == "right"
    _, status = joint.joined("right", right)
    assert isinstance(status, MotorStatus)
    assert (status.t_ns, status.t_rx_ns, status.motor_speed_radps, status.duty) == pytest.approx(
        (1, 3, 90.0, 0.15)
    )
    assert (status.motor_current_a, status.input_current_a, status.input_voltage_v) == (
        8.0,
        3.0,
        11.0,
    )
    assert (status.controller_temperature_k, status.fault_code) == (310.0, 4)
    for t_ns in (3, 4, 5):
        assert joint.joined("left", MotorStatus(t_ns, t_ns, 100.0))[1] is None
    assert joint.awaited == "right", "it is silent, and nothing stands in for it"
    _, status = joint.joined("right", MotorStatus(6, 6, nan))
    assert isinstance(status, MotorStatus)
    assert isnan(status.motor_speed_radps), "half of the sides is no speed of the vehicle"


def test_the_wheel_speed_of_the_axle_is_the_mean_of_its_sides() -> None:
    joint = actuation()
    assert joint.joined("left", WheelSpeed(1, 2, 1.0, 0.03)) == (None, None)
    record, speed = joint.joined("right", WheelSpeed(2, 3, 1.4, 0.04))
    assert record is None
    assert isinstance(speed, WheelSpeed)
    assert (speed.t_ns, speed.t_rx_ns, speed.speed_mps, speed.sigma_mps) == pytest.approx(
        (1, 3, 1.2, 0.025)
    )


def test_each_device_says_why_it_cannot_be_driven() -> None:
    joint = actuation()
    assert joint.unreachable.count("not open yet") == 3
    for port in ("left", "servo"):
        joint.on_port(port, PortState.OPENED, "")
    joint.on_port("right", PortState.LOST, "unplugged")
    assert joint.unreachable == "right: unplugged"
    assert "left: the controller has not answered yet; right: " in joint.refusal
    single = Actuation(
        {"drive": VescCan(CanParams(), (MotorStatus,), 1)}, {"drive": ActuatorRole()}
    )
    assert single.refusal == "the controller has not answered yet"
    status = MotorStatus(1, 2, 3.0)
    assert single.joined("drive", status) == (status, status)
    assert single.awaited == ""
