"""Backward through every layer below the controllers: model, gate, drivers, their emulators,
actuators and plant of the twin."""

import math
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.pwm_board.device import PwmBoard, PwmParams
from sim_backend.emulators.pwm_board import pwm_board
from sim_backend.plant.actuators import Actuators, Supply
from sim_backend.plant.four_dof import FourDof
from sim_backend.plant.interface import StartPose
from tests import vesc_bench
from tests.emulator_bench import MS, SECOND, START, Bench, table
from tests.vehicles import make_drive, make_vehicle
from vehicled.control.preview import predict_speed
from vehicled.control.speed import Demand
from vehicled.core.messages import ActuatorCommand, ControlCommand, Mode, MotorStatus, Reaction
from vehicled.core.vehicle import Limits, Vehicle
from vehicled.estimation.history import CommandHistory
from vehicled.profile import ProfileError, load_profile
from vehicled.profile.schema import Battery, Sim, TwinSteering
from vehicled.safety.gate import CLIPPED_THROTTLE, CRAWL_MPS, Gate

DRIVE = make_drive(brake_deceleration_mps2=3.0, reverse_share=0.5)
VEHICLE = make_vehicle(track_m=0.33, length_m=0.7, width_m=0.4, mass_kg=7.0, drive=DRIVE)
FORWARD_ONLY = msgspec.structs.replace(
    VEHICLE, drive=msgspec.structs.replace(DRIVE, reverse_share=0.0)
)
LIMITS = Limits(
    max_speed_mps=3.0, max_lateral_acceleration_mps2=2.5, corridor_m=2.0, capped_speed_mps=0.5
)
SIM = Sim(
    wheelbase_m=0.5,
    steering=TwinSteering(gain_rad=0.335, max_wheel_rad=0.335, rate_radps=0.67, delay_s=0.0),
    drive=DRIVE
)  # fmt: skip
any_float = st.floats(allow_nan=True, allow_infinity=True)


# ---------------------------------------------------------------- model


@given(st.floats(-1, 1), st.floats(-3, 3), st.floats(0, 1))
def test_the_model_backward_is_the_model_forward_mirrored(
    throttle: float, speed: float, brake: float
) -> None:
    if speed == 0.0 and throttle == 0.0:
        return
    forward = DRIVE.acceleration_mps2(throttle, speed, brake)
    backward = DRIVE.acceleration_mps2(-throttle, -speed, brake)
    assert backward == pytest.approx(-forward, abs=1e-12)


@given(st.floats(0.01, 3))
def test_friction_and_brake_oppose_the_motion(speed: float) -> None:
    for sign in (1.0, -1.0):
        assert sign * DRIVE.acceleration_mps2(0.0, sign * speed) < 0.0
        assert (
            sign * DRIVE.acceleration_mps2(0.0, sign * speed, 1.0)
            < sign * DRIVE.acceleration_mps2(0.0, sign * speed) - 2.9
        )


@pytest.mark.parametrize("throttle", [-0.2, -0.1, 0.0, 0.1, 0.2])
def test_a_drive_weaker_than_friction_does_not_move_off(throttle: float) -> None:
    assert DRIVE.settled_mps(0.0, 0.01 * DRIVE.acceleration_mps2(throttle, 0.0), throttle) == 0.0


def test_steady_throttle_and_top_speed_backward() -> None:
    top = DRIVE.top_reverse_speed_mps
    assert 0.0 < top < DRIVE.top_speed_mps
    assert DRIVE.steady_throttle(-top) == pytest.approx(-DRIVE.reverse_share)
    assert DRIVE.acceleration_mps2(-0.5, -top) == pytest.approx(0.0, abs=1e-12)
    assert FORWARD_ONLY.drive.top_reverse_speed_mps == 0.0


def test_predicted_speed_turns_round_through_rest() -> None:
    demands: CommandHistory[Demand] = CommandHistory(Demand(-0.5, 0.0), 10**9)
    speeds = [predict_speed(DRIVE, demands, 0.3, 0, ms * 1_000_000) for ms in range(0, 600, 50)]
    assert speeds[0] == 0.3
    assert 0.0 in speeds
    assert speeds[-1] < -0.1
    assert all(later <= earlier for earlier, later in pairwise(speeds))


# ---------------------------------------------------------------- gate


def _gate(
    vehicle: Vehicle,
    throttle: float,
    speed: float,
    reaction: Reaction = Reaction.NONE,
    brake: float = 0.0,
) -> ActuatorCommand:
    command = ControlCommand(0, 0, 0.1, throttle, brake)
    return Gate(vehicle, LIMITS).apply(command, speed, Mode.AUTO, reaction, 0, 0)


@given(any_float, any_float, any_float, st.sampled_from(Reaction))
def test_the_gate_lets_nothing_out_that_it_should_not(
    throttle: float, brake: float, speed: float, reaction: Reaction
) -> None:
    out = _gate(VEHICLE, throttle, speed, reaction, brake)
    assert -DRIVE.reverse_share <= out.throttle <= 1.0
    assert 0.0 <= out.brake <= 1.0
    if abs(speed) > CRAWL_MPS or math.isnan(speed):
        assert out.throttle * speed >= 0.0 or out.throttle == 0.0, "never against the motion"
    if not abs(speed) <= LIMITS.max_speed_mps:
        assert out.throttle == 0.0
    assert _gate(FORWARD_ONLY, throttle, speed, reaction, brake).throttle >= 0.0


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_gate_brakes_before_it_turns_round(sign: float) -> None:
    out = _gate(VEHICLE, -0.4 * sign, 0.5 * sign)
    assert out.throttle == 0.0
    assert out.brake >= 0.5
    assert out.clipped & CLIPPED_THROTTLE
    assert _gate(VEHICLE, -0.4 * sign, 0.1 * sign).throttle == -0.4 * sign
    assert _gate(VEHICLE, 0.4 * sign, 0.5 * sign).throttle == 0.4 * sign


def test_the_gate_caps_the_size_of_the_speed() -> None:
    command = ControlCommand(0, 0, 0.1, -0.4, 0.0)
    for speed, throttle in ((-0.8, 0.0), (-0.2, -0.4)):
        out = Gate(VEHICLE, LIMITS).apply(
            command, speed, Mode.AUTO, Reaction.CAP_SPEED, 0, 0, cap_mps=LIMITS.capped_speed_mps
        )
        assert out.throttle == throttle
    stop = _gate(VEHICLE, -0.4, -0.8, Reaction.CONTROLLED_STOP)
    assert (stop.throttle, stop.brake) == (0.0, 0.5)
    fast = Gate(VEHICLE, LIMITS).apply(
        ControlCommand(0, 0, 0.33, 0.0, 0.0), -2.5, Mode.AUTO, Reaction.NONE, 0, 0
    )
    assert fast.wheel_angle_rad == pytest.approx(math.atan(0.5 * 2.5 / 2.5**2))


# ---------------------------------------------------------------- twin


def _twin(
    actuators: Actuators,
    plant: FourDof,
    seconds: float,
    throttle: float,
    brake: float,
    steering: float,
    t_ns: int,
) -> int:
    for _ in range(round(seconds * 1000)):
        actuators.command(t_ns, throttle, brake, steering)
        actuators.step(t_ns, plant.motor_speed_radps)
        plant.step(actuators.throttle, actuators.brake, actuators.wheel_angle_rad)
        t_ns += 1_000_000
    return t_ns


def test_the_twin_drives_backward_and_its_tail_leads() -> None:
    actuators, plant = Actuators(SIM, 0, 1_000_000), FourDof(SIM, StartPose(0.0, 0.0, 0.0), 1e-3)
    _twin(actuators, plant, 8.0, -0.4, 0.0, 0.5, 0)
    motion = plant.motion()
    assert motion.speed_mps == pytest.approx(-DRIVE.top_reverse_speed_mps * 0.7, rel=0.35)
    assert motion.motor_speed_radps < 0.0
    # Wheels to the left, backward: it circles clockwise about a centre on its left.
    radius = 0.5 / math.tan(actuators.wheel_angle_rad)
    assert motion.yaw_rad < -0.5
    assert motion.yaw_rate_radps == pytest.approx(motion.speed_mps / radius)
    assert math.hypot(motion.x_m, motion.y_m - radius) == pytest.approx(radius, abs=0.05)
    assert motion.lateral_acceleration_mps2 > 0.0, (
        "towards the centre on its left, whichever way it goes round"
    )
    assert actuators.supply.motor_current_a > 0.0
    assert actuators.supply.input_current_a > 0.0


def test_the_brake_stops_a_twin_that_rolls_backward_and_holds_it() -> None:
    actuators, plant = Actuators(SIM, 0, 1_000_000), FourDof(SIM, StartPose(0.0, 0.0, 0.0), 1e-3)
    t_ns = _twin(actuators, plant, 3.0, -0.5, 0.0, 0.0, 0)
    speed, x = plant.motion().speed_mps, plant.motion().x_m
    t_ns = _twin(actuators, plant, 2.0, 0.0, 1.0, 0.0, t_ns)
    assert plant.motion().speed_mps == 0.0
    # 0.1 s of dead time, then brake, friction and the dragging motor.
    assert x - plant.motion().x_m < -speed * 0.1 + speed**2 / (2 * 3.0)
    rest = plant.motion()
    _twin(actuators, plant, 1.0, 0.0, 1.0, 0.0, t_ns)
    assert plant.motion() == rest


@given(st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0, 1)), min_size=1, max_size=8))
def test_the_twin_backward_is_the_twin_forward_mirrored(phases: list[tuple[float, float]]) -> None:
    ahead = FourDof(SIM, StartPose(0.0, 0.0, 0.0), 1e-2)
    astern = FourDof(SIM, StartPose(0.0, 0.0, 0.0), 1e-2)
    for throttle, brake in phases:
        for _ in range(20):
            ahead.step(throttle, brake, 0.0)
            astern.step(-throttle, brake, 0.0)
    assert astern.motion().x_m == pytest.approx(-ahead.motion().x_m, abs=1e-12)
    assert astern.motion().speed_mps == pytest.approx(-ahead.motion().speed_mps, abs=1e-12)


def test_a_twin_without_reverse_ignores_a_throttle_below_zero() -> None:
    sim = msgspec.structs.replace(SIM, drive=FORWARD_ONLY.drive)
    actuators, plant = Actuators(sim, 0, 1_000_000), FourDof(sim, StartPose(0.0, 0.0, 0.0), 1e-3)
    _twin(actuators, plant, 1.0, -1.0, 0.0, 0.0, 0)
    assert plant.motion().x_m == 0.0


def test_the_supply_sags_backward_as_forward() -> None:
    battery = Battery(nominal_v=11.1, full_v=11.7, internal_resistance_ohm=0.05)
    ahead, astern = Supply(battery, 161.0, 1e-3), Supply(battery, 161.0, 1e-3)
    assert astern.step(-0.6, -20.0) == -ahead.step(0.6, 20.0)
    assert (astern.voltage_v, astern.motor_current_a) == (ahead.voltage_v, ahead.motor_current_a)


# ---------------------------------------------------------------- VESC


@pytest.mark.parametrize("wire", ["vesc_can", "vesc_uart"])
@pytest.mark.parametrize("control", ["duty", "current"])
@pytest.mark.parametrize("erpm_per_mps", [700.0, -700.0])
def test_a_vesc_drives_backward(wire: str, control: str, erpm_per_mps: float) -> None:
    bench = vesc_bench.Bench(vesc_bench.device(wire, control=control, erpm_per_mps=erpm_per_mps))
    bench.run(400, throttle=-0.4)
    assert bench.last.throttle == 0.0, "not before it was disarmed once"
    bench.arm()
    bench.run(60, throttle=-0.4)
    assert (bench.last.throttle, bench.last.brake) == pytest.approx((-0.4, 0.0), abs=1e-4)
    bench.run(60, throttle=-9.0)
    assert bench.last.throttle == pytest.approx(-1.0, abs=1e-4)
    bench.run(60, throttle=-0.4, brake=0.3)
    assert (bench.last.throttle, bench.last.brake) == pytest.approx((0.0, 0.3), abs=1e-4)


@pytest.mark.parametrize("wire", ["vesc_can", "vesc_uart"])
@pytest.mark.parametrize("control", ["duty", "current", "speed"])
def test_a_vesc_brakes_what_moves_the_other_way(wire: str, control: str) -> None:
    bench = vesc_bench.Bench(vesc_bench.device(wire, control=control, max_speed_mps=3.0))
    bench.arm()
    bench.run(100, throttle=0.5, sample=vesc_bench.moving)
    bench.run(60, throttle=-0.4, sample=vesc_bench.moving)
    assert bench.last.throttle == 0.0
    assert bench.last.brake > 0.2


def test_speed_control_of_a_vesc_integrates_backward_too() -> None:
    bench = vesc_bench.Bench(vesc_bench.device("vesc_can", control="speed", max_speed_mps=3.0))
    bench.arm()
    bench.run(60, throttle=-0.1)
    first = bench.last.throttle
    bench.run(400, throttle=-0.1)
    assert bench.last.throttle < first < 0.0


@pytest.mark.parametrize("erpm_per_mps", [700.0, -700.0])
def test_a_vesc_reports_backward_as_negative(erpm_per_mps: float) -> None:
    def astern(t_ns: int) -> MotorStatus:
        return MotorStatus(t_ns, 0, -100.0, 5.0, 2.5, 11.1, -0.5)

    bench = vesc_bench.Bench(vesc_bench.device("vesc_can", erpm_per_mps=erpm_per_mps))
    bench.arm()
    reported = [
        m for m in bench.run(100, throttle=0.0, sample=astern) if isinstance(m, MotorStatus)
    ]
    assert reported[-1].motor_speed_radps == pytest.approx(-100.0, rel=0.01)
    assert reported[-1].duty == pytest.approx(-0.5 * 0.2, abs=1e-3), "a share of max_duty"
    assert reported[-1].motor_current_a > 0.0


# ---------------------------------------------------------------- PWM board


def _board(**params: float) -> Bench:
    wanted = PwmParams(**params)  # type: ignore[arg-type]
    found = Bench(
        pwm_board("drive", table("pwm_board", wanted, ("ActuatorCommand",)), 3, START),
        PwmBoard(wanted, [], SECOND),
    )
    found.run(found.now_ns + MS)
    _say(found, 100, 0.0, mode=Mode.STANDBY)
    return found


def _say(
    found: Bench, duration_ms: int, throttle: float, brake: float = 0.0, mode: Mode = Mode.AUTO
) -> list[float]:
    """Command for so long; throttles that the actuators got, brakes as they are below -1."""
    before = len(found.commands)
    for _ in range(duration_ms // 10):
        found.command(ActuatorCommand(found.now_ns, 0, throttle, brake, 0.0, 0.0, mode))
        found.run(found.now_ns + 10 * MS)
    return [-2.0 if c.brake else c.throttle for c in found.commands[before:]]


def test_a_board_without_reverse_stays_neutral() -> None:
    assert set(_say(_board(), 400, -0.5)) == {0.0}


def test_a_board_that_reverses_at_once() -> None:
    found = _board(reverse_range_us=200.0)
    assert _say(found, 300, -0.5)[-1] == pytest.approx(-0.5)
    assert _say(found, 300, 0.5)[-1] == pytest.approx(0.5)


def test_a_board_that_brakes_first_is_given_a_pull_and_neutral_before_it_reverses() -> None:
    found = _board(reverse_range_us=200.0, brake_range_us=200.0, reverse_pull_s=0.3)
    assert _say(found, 300, 0.5)[-1] == pytest.approx(0.5)
    reported = _say(found, 900, -0.5)
    assert reported[-1] == pytest.approx(-0.5)
    assert reported.index(-2.0) < reported.index(0.0, 1) < reported.index(reported[-1])
    # Its brake pulse would drive on now, so it rolls out; after a forward drive it brakes again,
    # and must be pulled again.
    assert set(_say(found, 200, 0.0, brake=1.0)) <= {0.0, reported[-1]}
    assert _say(found, 200, -0.5)[-1] == pytest.approx(-0.5)
    assert _say(found, 200, 0.5)[-1] == pytest.approx(0.5)
    assert _say(found, 200, 0.0, brake=1.0)[-1] == -2.0
    _say(found, 100, 0.5)
    assert min(reported for reported in _say(found, 500, -0.5) if reported > -2.0) == 0.0


# ---------------------------------------------------------------- profile


def test_a_profile_whose_board_cannot_reverse_may_not_promise_it() -> None:
    with pytest.raises(ProfileError, match=r'reverse_share.*the board of "drive" has no reverse'):
        load_profile("art", ["vehicle.drive.reverse_share=0.5"])
    with pytest.raises(
        ProfileError, match=r"0.1 of the full drive does not overcome friction_nm \(0.22 does\)"
    ):
        load_profile("art_vesc", ["vehicle.drive.reverse_share=0.1"])
    board = ['devices.drive.driver={name = "pwm_board", pwm_board = {reverse_range_us = 100.0}}']
    assert (
        load_profile("art", [*board, "vehicle.drive.reverse_share=0.5"]).vehicle.drive.reverse_share
        == 0.5
    )
    assert load_profile("art").vehicle.drive.reverse_share == 0.0
