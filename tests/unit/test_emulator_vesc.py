"""The simulated VESC and the real driver talk to each other: set-up, commands, telemetry, faults,
time-out."""

import json
from itertools import pairwise
from math import isnan, pi
from typing import Any

import msgspec
import pytest

from drivers.vesc.appconf import UNREAD
from drivers.vesc.canbus import CanSetpoint, SendMode, encode_can, split_comm
from drivers.vesc.comm import (
    Comm,
    Forward,
    Request,
    SelectiveRequest,
    SetCommand,
    decode_comm,
    encode_comm,
)
from drivers.vesc.device import CAN_COMMANDS
from drivers.vesc.faults import NAMES
from drivers.vesc.uart import UartDecoder, frame_uart
from sim_backend.emulators.interface import DriveCommand
from sim_backend.emulators.vesc import FAULT, VescUartEmulator, configuration
from sim_backend.emulators.vesc_motor import FAULT_STOP_NS, HOLD_NS
from tests.vesc_bench import MS, START_NS, Bench, device, moving, standing
from vehicled.core.messages import ActuatorCommand, Fault, Mode, MotorStatus, Reaction, WheelSpeed
from vehicled.core.wire.can import pack

DRIVERS = ("vesc_can", "vesc_uart")
each_wire = pytest.mark.parametrize("wire", DRIVERS)


@each_wire
@pytest.mark.parametrize("firmware", [(5, 1), (5, 3), (6, 0), (6, 5)])
def test_set_up_is_read_back_as_the_profile_says(wire: str, firmware: tuple[int, int]) -> None:
    bench = Bench(device(wire, timeout_ms=150, timeout_brake_current_a=7.5), firmware=firmware)
    bench.arm()
    (ready,) = [event for event in bench.events if event.name == "vesc_ready"]
    fields = json.loads(ready.fields)
    assert (fields["firmware"], fields["hardware"]) == (f"{firmware[0]}.{firmware[1]:02d}", "60")
    assert (fields["timeout_ms"], fields["timeout_brake_current_a"]) == (150, 7.5)
    assert not bench.faults


@each_wire
@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"timeout_ms": 0}, "time-out is off"),
        ({"timeout_ms": 1000}, "1000 ms"),
        ({"timeout_brake_current_a": 0.0}, "coasts"),
        ({"servo_output": 0}, "servo output is off"),
    ],
)
def test_a_controller_set_up_otherwise_is_refused_with_the_reason(
    wire: str, wrong: dict[str, Any], said: str
) -> None:
    table = device(wire)
    bench = Bench(table, conf=msgspec.structs.replace(configuration(table), **wrong))
    bench.run(600, throttle=0.0, mode=Mode.STANDBY)
    (fault,) = [each for each in bench.messages if isinstance(each, Fault)]
    assert fault.code == "vesc_config"
    assert said in fault.reason
    bench.run(200, throttle=1.0)
    assert max(command.throttle for command in bench.commands) == 0.0


@each_wire
@pytest.mark.parametrize("control", ["duty", "current"])
@pytest.mark.parametrize("erpm_per_mps", [700.0, -700.0])
@pytest.mark.parametrize("servo_gain", [-0.35, 0.3])
def test_commands_arrive_as_they_were_given(
    wire: str, control: str, erpm_per_mps: float, servo_gain: float
) -> None:
    bench = Bench(
        device(
            wire,
            control=control,
            erpm_per_mps=erpm_per_mps,
            servo_gain=servo_gain,
            servo_center=0.48,
            servo_min=0.1,
        )
    )
    bench.arm()
    for throttle, brake, steering in (
        (0.25, 0.0, 1.0),
        (1.0, 0.0, -1.0),
        (0.0, 0.6, 0.3),
        (0.0, 0.0, 0.0),
        (0.7, 1.0, -0.4),
    ):
        bench.run(40, throttle=throttle, brake=brake, steering=steering)
        # A servo position has three decimals, and the brake wins over the throttle.
        assert bench.last.steering == pytest.approx(steering, abs=0.5e-3 / abs(servo_gain) + 1e-9)
        assert (bench.last.throttle, bench.last.brake) == pytest.approx(
            (0.0 if brake else throttle, brake), abs=1e-4
        )


def test_a_command_needs_no_longer_than_its_frames_do() -> None:
    # 500 kbit/s: 99 bits of the motor's frame, 107 of the servo's. 115200 baud: 10 and 8 bytes,
    # seen at the end of both.
    bus = [(99 * 2_000, "throttle"), (206 * 2_000, "steering")]
    both_ns = 18 * 10 * 1_000_000_000 // 115_200
    for wire, expected in (
        ("vesc_can", bus),
        ("vesc_uart", [(both_ns, "throttle"), (both_ns, "steering")]),
    ):
        bench = Bench(device(wire))
        data = b"".join(
            _frames(wire, SetCommand(Comm.SET_DUTY, 0.1), SetCommand(Comm.SET_SERVO_POS, 0.4))
        )
        bench.emulator.on_rx(data, START_NS)
        bench.emulator.on_time(START_NS + 5 * MS)
        before, *commands = bench.emulator.take_commands()
        assert (before.throttle, before.steering) == (0.0, 0.0)
        assert [
            (each.t_ns - START_NS, name) for each, (_, name) in zip(commands, expected, strict=True)
        ] == expected
        assert (commands[0].throttle, commands[1].steering) == pytest.approx((0.5, 0.1 / 0.35))


@each_wire
@pytest.mark.parametrize("erpm_per_mps", [700.0, -700.0])
def test_telemetry_comes_back_within_its_quantisation(wire: str, erpm_per_mps: float) -> None:
    bench = Bench(device(wire, erpm_per_mps=erpm_per_mps, pole_pairs=3, max_duty=0.9))
    bench.run(1000, sample=moving)
    got = [each for each in bench.messages if isinstance(each, MotorStatus)][-1]
    erpm_step = pi / 30.0 / 3
    assert got.motor_speed_radps == pytest.approx(100.0, abs=0.5 * erpm_step + 1e-9)
    assert got.motor_current_a == pytest.approx(5.0, abs=0.05)
    assert got.duty == pytest.approx(0.9 * 0.5, abs=0.5e-3)
    assert (got.input_current_a, got.input_voltage_v) == pytest.approx((2.5, 11.1), abs=0.05 + 1e-9)
    assert (got.controller_temperature_k, got.motor_temperature_k) == pytest.approx(
        (320.0, 330.0), abs=0.05 + 1e-9
    )
    assert got.fault_code == 0
    speed = [each for each in bench.messages if isinstance(each, WheelSpeed)][-1]
    assert speed.speed_mps == pytest.approx(100.0 * 3 * 30.0 / pi / 700.0, abs=1.0 / 700.0)


def test_what_the_motor_does_not_know_stays_unknown() -> None:
    bench = Bench(device("vesc_can"))
    bench.run(600)
    got = [each for each in bench.messages if isinstance(each, MotorStatus)][-1]
    assert isnan(got.motor_temperature_k)
    assert got.controller_temperature_k == pytest.approx(303.15)


@each_wire
def test_it_brakes_by_itself_when_commands_stop_and_holds_the_servo(wire: str) -> None:
    table = device(wire, timeout_ms=150, timeout_brake_current_a=5.0, max_brake_current_a=20.0)
    bench = Bench(table)
    bench.arm()
    bench.run(200, throttle=0.4, steering=0.6)
    stopped_ns = bench.now_ns
    bench.commands.clear()
    bench.run(500)
    assert bench.emulator.unit.timed_out
    timed_out = [each for each in bench.commands if each.brake > 0.0]
    driven = [each for each in bench.commands if each.brake == 0.0]
    assert all(each.throttle == pytest.approx(0.4, abs=1e-3) for each in driven)
    assert {(each.throttle, each.brake) for each in timed_out} == {(0.0, 0.25)}
    assert 140 * MS < timed_out[0].t_ns - stopped_ns < 152 * MS
    # The actuators of the twin go to neutral when nothing comes: a servo output does not.
    assert all(each.steering == pytest.approx(0.6, abs=2e-3) for each in bench.commands)
    times = [each.t_ns for each in bench.commands]
    assert max(b - a for a, b in pairwise(times)) <= HOLD_NS
    # Nothing is reported: the daemon knows that it sent nothing.
    assert not bench.faults
    bench.run(300, throttle=0.0, mode=Mode.STANDBY)
    bench.run(100, throttle=0.4)
    assert not bench.emulator.unit.timed_out
    assert bench.last.throttle == pytest.approx(0.4, abs=1e-3)


def test_without_a_brake_current_it_releases_the_motor() -> None:
    bench = Bench(device("vesc_can", timeout_ms=150, timeout_brake_current_a=0.0))
    bench.arm()
    bench.run(100, throttle=0.4, steering=-0.2)
    bench.run(300)
    assert (bench.last.throttle, bench.last.brake) == (0.0, 0.0)
    assert bench.last.steering == pytest.approx(-0.2, abs=2e-3)


def test_alive_and_servo_positions_and_the_time_out() -> None:
    emulator = VescUartEmulator("drive", device("vesc_uart", timeout_ms=100), 1, START_NS)
    unit = emulator.unit

    def say(at_ms: int, message: Any) -> None:
        emulator.on_rx(frame_uart(encode_comm(message)), START_NS + at_ms * MS)
        emulator.on_time(START_NS + (at_ms + 5) * MS)

    say(0, SetCommand(Comm.SET_DUTY, 0.1))
    say(80, Request(Comm.ALIVE))
    say(160, SetCommand(Comm.SET_SERVO_POS, 0.6))
    assert not unit.timed_out
    say(200, SetCommand(Comm.SET_SERVO_POS, 0.4))
    assert unit.timed_out
    assert emulator.take_commands()[-1].throttle == 0.0
    # ALIVE ends the time-out and does not bring the command back.
    say(300, Request(Comm.ALIVE))
    assert not unit.timed_out
    assert emulator.take_commands()[-1].throttle == 0.0


@each_wire
@pytest.mark.parametrize("code", [1, 4, 10, 18, 27])
def test_faults_come_under_their_names_and_stop_the_motor(wire: str, code: int) -> None:
    bench = Bench(device(wire))
    bench.arm()
    bench.run(200, throttle=0.5)
    bench.emulator.inject(FAULT, code, True, bench.now_ns)
    bench.run(300, throttle=0.5)
    assert bench.faults[0] == (f"vesc_{NAMES[code]}", True)
    assert (
        next(each.reaction for each in bench.messages if isinstance(each, Fault))
        is Reaction.DISABLE
    )
    assert (bench.last.throttle, bench.last.brake) == (0.0, 0.0)
    assert [each for each in bench.messages if isinstance(each, MotorStatus)][-1].fault_code == code
    bench.emulator.inject(FAULT, code, False, bench.now_ns)
    gone_ns = bench.now_ns
    bench.run(800, throttle=0.5)
    (over,) = [
        each
        for each in bench.messages
        if isinstance(each, Fault) and each.code == f"vesc_{NAMES[code]}" and not each.active
    ]
    assert over.t_ns - gone_ns >= FAULT_STOP_NS
    # Until the daemon was disarmed the driver brakes in the place of the throttle.
    assert (bench.last.throttle, bench.last.brake) == (0.0, 1.0)
    bench.run(50, throttle=0.0, mode=Mode.ARMED)
    bench.run(100, throttle=0.5)
    assert bench.last.throttle == pytest.approx(0.5, abs=1e-3)


@pytest.mark.parametrize(("voltage_v", "code"), [(7.9, 2), (60.0, 1)])
def test_the_supply_makes_faults_by_itself(voltage_v: float, code: int) -> None:
    bench = Bench(device("vesc_can"))
    bench.arm()
    bench.run(
        300,
        throttle=0.2,
        sample=lambda t_ns: msgspec.structs.replace(standing(t_ns), input_voltage_v=voltage_v),
    )
    assert bench.emulator.unit.fault_code == code
    assert (f"vesc_{NAMES[code]}", True) in bench.faults
    bench.run(800, throttle=0.2)
    assert bench.emulator.unit.fault_code == 0
    assert (f"vesc_{NAMES[code]}", False) in bench.faults


@each_wire
def test_a_time_out_of_its_own_is_noticed_by_the_daemon(wire: str) -> None:
    bench = Bench(device(wire))
    bench.arm()
    bench.run(1200, throttle=0.3)
    bench.emulator.inject("own_timeout", 1.0, True, bench.now_ns)
    bench.run(500, throttle=0.3)
    assert bench.faults[0] == ("vesc_timed_out", True)
    assert (bench.last.throttle, bench.last.brake) == (0.0, 0.25)
    bench.emulator.inject("own_timeout", 1.0, False, bench.now_ns)
    bench.run(300, throttle=0.0, mode=Mode.STANDBY)
    assert ("vesc_timed_out", False) in bench.faults


def test_off_the_bus_nothing_passes_and_the_controller_times_out() -> None:
    bench = Bench(device("vesc_can"))
    bench.arm()
    bench.run(200, throttle=0.3)
    bench.emulator.inject("bus_off", 1.0, True, bench.now_ns)
    sent = len(bench.wire)
    bench.run(600, throttle=0.3)
    assert len(bench.wire) == sent
    assert bench.emulator.unit.timed_out
    assert bench.faults[0] == ("vesc_silent", True)
    bench.emulator.inject("bus_off", 1.0, False, bench.now_ns)
    bench.run(500, throttle=0.0, mode=Mode.STANDBY)
    assert ("vesc_silent", False) in bench.faults
    assert not bench.driver.refusal


@each_wire
def test_a_restart_forgets_commands_and_counters_but_not_its_set_up(wire: str) -> None:
    bench = Bench(device(wire))
    bench.arm()
    bench.run(500, throttle=0.5, steering=0.5, sample=moving)
    bench.emulator.restart(bench.now_ns)
    bench.run(HOLD_NS // MS + 1)
    assert (bench.last.throttle, bench.last.steering) == (0.0, 0.0)
    assert bench.emulator.unit.timed_out
    bench.run(500, throttle=0.0, mode=Mode.STANDBY)
    assert bench.driver.ready
    # Only CAN has a frame that says so.
    assert ([code for code, _ in bench.faults] == ["vesc_restarted"] * 2) == (wire == "vesc_can")


@each_wire
def test_the_speed_controller_reaches_its_speed_and_brakes_to_a_lower_one(wire: str) -> None:
    bench = Bench(
        device(wire, control="speed", max_speed_mps=3.0, erpm_per_mps=700.0, pole_pairs=2)
    )
    bench.arm()
    radps_per_mps = 700.0 / 2 * pi / 30.0
    speed_mps = 0.0

    def vehicle(t_ns: int) -> MotorStatus:
        # Full drive accelerates with 2.5 m/s2 at first, the brake decelerates with 3.
        nonlocal speed_mps
        drive = bench.last
        speed_mps = max(
            0.0, speed_mps + 0.02 * (2.5 * (drive.throttle - speed_mps / 4.5) - 3.0 * drive.brake)
        )
        return MotorStatus(t_ns, 0, speed_mps * radps_per_mps, 0.0, 0.0, 11.1, drive.throttle)

    bench.run(6000, throttle=0.5, sample=vehicle)
    assert speed_mps == pytest.approx(1.5, abs=0.03)
    begun = len(bench.commands)
    bench.run(4000, throttle=0.2, sample=vehicle)
    assert speed_mps == pytest.approx(0.6, abs=0.03)
    assert max(each.brake for each in bench.commands[begun:]) > 0.1
    assert all(0.0 <= each.throttle <= 1.0 and 0.0 <= each.brake <= 1.0 for each in bench.commands)


def test_answers_of_the_serial_line() -> None:
    emulator = VescUartEmulator("drive", device("vesc_uart"), 1, START_NS)
    emulator.on_message(moving(START_NS), START_NS + MS)
    mask = 1 << 7 | 1 << 15  # erpm and fault code
    for message in (
        SelectiveRequest(mask),
        Forward(1, encode_comm(Request(Comm.FW_VERSION))),
        Forward(9, encode_comm(Request(Comm.FW_VERSION))),
        Request(Comm.PING_CAN),
    ):
        emulator.on_rx(frame_uart(encode_comm(message)), START_NS + 2 * MS)
    emulator.on_time(START_NS + 100 * MS)
    decoder = UartDecoder()
    replies = [
        decode_comm(payload) for _, data in emulator.take_tx() for payload in decoder.feed(data)
    ]
    assert [name for name, _ in replies] == ["GET_VALUES_SELECTIVE", "FW_VERSION", "PING_CAN"]
    selected: Any = replies[0][1]
    assert (selected.mask, selected.values.erpm, selected.values.fault_code) == (mask, 1910.0, 0)
    assert isnan(selected.values.duty)


def test_counters_integrate_what_was_sampled() -> None:
    bench = Bench(device("vesc_uart", pole_pairs=2))
    bench.run(10_000, sample=moving)
    values = bench.emulator.unit._telemetry.values(0, False)
    turns = 100.0 / (2.0 * pi) * 9.96
    assert values.tachometer == pytest.approx(turns * 2 * 6, abs=1)
    assert values.used_ah == pytest.approx(2.5 * 9.96 / 3600.0, rel=1e-6)
    assert values.used_wh == pytest.approx(2.5 * 11.1 * 9.96 / 3600.0, rel=1e-6)
    assert values.charged_ah == 0.0


def test_currents_are_averages_that_reading_resets() -> None:
    unit = VescUartEmulator("drive", device("vesc_uart"), 1, START_NS).unit
    for i, amperes in enumerate((2.0, 4.0, 9.0)):
        unit.on_message(
            msgspec.structs.replace(moving(START_NS + i), motor_current_a=amperes), START_NS + i
        )
    assert [unit._telemetry.values(0, False).motor_current_a for _ in range(2)] == [5.0, 9.0]


@each_wire
def test_the_same_seed_gives_the_same_bytes_and_another_one_another_id(wire: str) -> None:
    def bytes_of(seed: int) -> list[tuple[int, bytes]]:
        bench = Bench(device(wire), seed)
        bench.run(600, throttle=0.0, mode=Mode.STANDBY)
        bench.run(300, throttle=0.4, steering=0.3, sample=moving)
        bench.run(300, sample=moving)
        return bench.wire

    assert bytes_of(5) == bytes_of(5)
    assert bytes_of(5) != bytes_of(6)


@each_wire
def test_what_happens_does_not_depend_on_when_it_is_called(wire: str) -> None:
    def outcome(step_ms: int) -> tuple[list[tuple[int, bytes]], list[DriveCommand]]:
        bench = Bench(device(wire))
        emulator = bench.emulator
        poll = frame_uart(encode_comm(Request(Comm.GET_VALUES)))
        out: list[tuple[int, bytes]] = []
        commands: list[DriveCommand] = []
        for ms in range(0, 400, step_ms):
            now_ns = START_NS + ms * MS
            for t_ms in range(ms, ms + step_ms):
                if t_ms % 20 == 0:
                    emulator.on_message(moving(START_NS + t_ms * MS), START_NS + (t_ms + 4) * MS)
                if t_ms % 50 == 3:
                    bench.driver.on_command(_command(t_ms), START_NS + t_ms * MS)
                    for action in bench.driver.take_tx():
                        emulator.on_rx(action.data, START_NS + t_ms * MS)  # type: ignore[union-attr]
                if wire == "vesc_uart" and t_ms % 50 == 30:
                    emulator.on_rx(poll, START_NS + t_ms * MS)
            emulator.on_time(now_ns + (step_ms - 1) * MS)
            out += emulator.take_tx()
            commands += emulator.take_commands()
        return out, commands

    assert outcome(1) == outcome(40)


def _command(t_ms: int) -> ActuatorCommand:
    return ActuatorCommand(t_ms, t_ms, 0.0, t_ms / 1000.0, 0.1, 0.0, Mode.AUTO)


def _frames(wire: str, motor: SetCommand, servo: SetCommand) -> list[bytes]:
    if wire == "vesc_uart":
        return [frame_uart(encode_comm(motor)), frame_uart(encode_comm(servo))]
    return [
        pack(encode_can(CanSetpoint(CAN_COMMANDS[Comm(motor.command)], 1, motor.value))),
        *map(pack, split_comm(1, 254, encode_comm(servo), SendMode.PROCESS_SILENTLY)),
    ]


def test_status_frames_follow_what_is_switched_on() -> None:
    table = device("vesc_can")
    off = msgspec.structs.replace(configuration(table), status_mask=0, status_mask_2=0)
    bench = Bench(table, conf=off)
    bench.run(3000, throttle=0.0, mode=Mode.STANDBY)
    assert bench.faults == [("vesc_status_off", True)]
    silent = msgspec.structs.replace(configuration(table), can_mode=1)
    bench = Bench(table, conf=silent)
    bench.run(1500, throttle=0.0, mode=Mode.STANDBY)
    assert not bench.wire
    assert bench.faults == [("vesc_silent", True)]
    before_6 = configuration(table, (5, 2))
    assert (before_6.status_mode, before_6.status_mask) == (5, UNREAD)


@pytest.mark.parametrize("driver", ["vesc_can", "vesc_uart"])
@pytest.mark.parametrize("erpm_per_mps", [4614.0, -4614.0])
def test_the_tachometer_measures_the_speed_without_the_controllers_estimate(
    driver: str, erpm_per_mps: float
) -> None:
    bench = Bench(device(driver, odometry="tachometer", erpm_per_mps=erpm_per_mps))
    bench.arm()
    found = [
        m
        for m in bench.run(1000, throttle=0.0, mode=Mode.STANDBY, sample=moving)
        if isinstance(m, WheelSpeed)
    ]
    expected = abs(100.0 * 2 * 30.0 / pi / erpm_per_mps)
    speeds = [m.speed_mps for m in found[2:]]
    assert len(speeds) > 30
    assert sum(speeds) / len(speeds) == pytest.approx(expected, rel=0.02)
    assert all(
        abs(speed - expected) < 4.0 * m.sigma_mps + 0.02
        for speed, m in zip(speeds, found[2:], strict=True)
    )
    assert all(m.t_ns < m.t_rx_ns for m in found)
