"""Drivers of motor controllers against their emulators: the rules that all share, and those of each
family."""

from math import isfinite
from typing import Any

import pytest

from drivers.motor.odrive import CLOSED_LOOP, IDLE, decode_line, encode_line
from drivers.motor.roboclaw import ERRORS, GET_TIMEOUT, encode, encode_answer
from tests.motor_bench import Bench
from vehicled.core.messages import Mode, MotorStatus, PortState, WheelSpeed
from vehicled.core.mixing import Mix

BOTH: dict[str, dict[str, Any]] = {
    "odrive_can": {"turns_per_m": 10.0, "accept_unreadable_timeout": True, "control": "torque"},
    "odrive_ascii": {"turns_per_m": 10.0, "control": "torque"},
    "roboclaw": {"counts_per_m": 20_000.0, "counts_per_turn": 2_000.0},
}
each_family = pytest.mark.parametrize("driver", BOTH)


def ready(driver: str, **more: Any) -> Bench:
    """Return a bench whose controller may be driven."""
    bench = Bench(driver, **{**BOTH[driver], **more})
    bench.run(1500)
    assert bench.driver.refusal == ""
    return bench


@each_family
def test_it_drives_brakes_and_measures(driver: str) -> None:
    bench = ready(driver)
    assert f"{bench.driver.name}_ready" in bench.events
    bench.turns_per_s = 15.0
    bench.run(300, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=1e-3)
    assert bench.newest(MotorStatus).motor_speed_radps == pytest.approx(94.2, abs=0.5)
    assert bench.newest(WheelSpeed).speed_mps == pytest.approx(1.5, abs=0.01)
    assert bench.newest(MotorStatus).input_voltage_v == pytest.approx(24.0)
    assert isfinite(bench.newest(MotorStatus).motor_current_a) or driver == "odrive_ascii"
    bench.run(50, 0.5, brake=1.0, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0
    assert bench.faults == []


@each_family
def test_no_command_is_its_own_time_out(driver: str) -> None:
    """A daemon that hangs sends nothing, polls included, so that nothing feeds the controller."""
    bench = ready(driver)
    bench.turns_per_s = 5.0
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle > 0.4
    sent = len(bench.sent)
    bench.run(150, None)
    assert len(bench.sent) == sent
    bench.run(150, None)
    assert bench.commands[-1].throttle == 0.0


@each_family
def test_a_silent_controller_is_braked_and_driven_again_only_after_it_was_disarmed(
    driver: str,
) -> None:
    bench = ready(driver)
    bench.run(100, 0.5, mode=Mode.AUTO)
    bench.connected = False
    bench.run(400, 0.5, mode=Mode.AUTO)
    assert f"{bench.driver.name}_silent" in bench.faults
    bench.connected = True
    bench.run(1500, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0, "it drove by itself"
    assert f"{bench.driver.name}_drive_refused" in bench.faults
    bench.run(1500)
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=1e-3)
    assert bench.faults == []


@each_family
def test_a_fault_disables_the_drive_until_it_was_disarmed(driver: str) -> None:
    bench = ready(driver)
    bench.run(100, 0.5, mode=Mode.AUTO)
    bench.emulator.inject("fault", 0.0 if driver != "roboclaw" else 0x40, True, bench.now_ns)
    bench.run(700, 0.5, mode=Mode.AUTO)
    named = [code for code in bench.faults if not code.endswith("refused")]
    assert named == [
        "roboclaw_driver_fault_m1" if driver == "roboclaw" else "odrive_estop_requested"
    ]
    assert bench.newest(MotorStatus).fault_code > 0
    assert bench.commands[-1].throttle == 0.0


@each_family
def test_a_reopened_port_does_not_drive_on(driver: str) -> None:
    bench = ready(driver)
    bench.run(100, 0.5, mode=Mode.AUTO)
    bench.driver.on_port(PortState.LOST, "unplugged", bench.now_ns)
    bench.driver.on_port(PortState.OPENED, "", bench.now_ns)
    bench.run(1500, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0


@each_family
def test_a_mirrored_motor_turns_the_other_way_and_reports_forwards(driver: str) -> None:
    outputs = {
        "odrive_can": ("motor",),
        "odrive_ascii": ("axis0", "axis1"),
        "roboclaw": ("m1", "m2"),
    }[driver]
    gains = (-1.0,) if len(outputs) == 1 else (1.0, -1.0)
    bench = ready(
        driver, mix={name: Mix(throttle=gain) for name, gain in zip(outputs, gains, strict=True)}
    )
    bench.turns_per_s = 10.0
    bench.run(300, 0.5, mode=Mode.AUTO)
    command = bench.commands[-1]
    assert command.outputs or (command.throttle,) == pytest.approx((-0.5,), abs=1e-3)
    if command.outputs:
        assert command.outputs == pytest.approx((0.5, -0.5), abs=1e-3)
    assert bench.newest(WheelSpeed).speed_mps == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize("driver", ["odrive_ascii", "roboclaw"])
@pytest.mark.parametrize(
    ("timeout_ms", "text"), [(0, "time-out is off"), (500, "500 ms, the profile allows 200 ms")]
)
def test_a_time_out_that_is_off_or_too_long_is_refused_and_may_be_corrected(
    driver: str, timeout_ms: int, text: str
) -> None:
    bench = Bench(driver, **BOTH[driver])
    unit = bench.emulator.device
    if driver == "roboclaw":
        unit.timeout_steps = timeout_ms // 100
    else:
        unit.axes.timeout_ms = timeout_ms
    bench.run(1500)
    assert text in bench.driver.refusal
    assert f"{bench.driver.name}_config" in bench.faults
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0
    if driver == "roboclaw":
        unit.timeout_steps = 2
    else:
        unit.axes.timeout_ms = 200
    bench.run(2000)
    assert bench.driver.refusal == ""


def test_cansimple_does_not_report_its_watchdog_so_someone_must() -> None:
    bench = Bench("odrive_can", turns_per_m=10.0)
    bench.run(1000)
    assert "cannot be read back" in bench.driver.refusal
    assert bench.emulator.device.axes.state == IDLE, "nothing is armed before"


def test_an_odrive_whose_watchdog_expired_without_the_daemon_is_cleared_by_a_disarmed_one() -> None:
    bench = ready("odrive_can")
    bench.run(300, None)
    assert bench.emulator.device.axes.errors
    bench.run(500)
    assert bench.emulator.device.axes.state == CLOSED_LOOP
    assert bench.driver.refusal == ""
    bench.emulator.inject("fault", 0x40, True, bench.now_ns)
    bench.run(500)
    assert "odrive_motor_failed" in bench.faults, "another error is for a person"


def test_a_late_answer_is_not_taken_for_that_of_the_next_question() -> None:
    bench = Bench("odrive_ascii", turns_per_m=10.0)
    bench.connected = False
    bench.run(20)
    late = encode_line("7")
    bench.run(120)
    assert not bench.driver.on_rx(late, bench.now_ns)
    assert "odrive_ready" not in bench.events
    assert decode_line(late.strip()) == "7"


def test_an_answer_of_the_roboclaw_may_follow_acknowledgements_and_must_fit_its_question() -> None:
    bench = Bench("roboclaw", **BOTH["roboclaw"])
    bench.connected = False
    bench.run(10)
    assert encode(0x80, GET_TIMEOUT) in bench.sent[-1]
    wrong = encode_answer(0x81, GET_TIMEOUT, (2,))
    bench.driver.on_rx(b"\xff" + wrong, bench.now_ns)
    assert bench.driver.refusal == "the controller has not answered yet"
    bench.run(10)
    bench.run(90)
    (question,) = {
        each
        for each in (GET_TIMEOUT, ERRORS, 24, 49, 79, 82)
        if encode(0x80, each) in bench.sent[-1]
    }
    values = {GET_TIMEOUT: (2,), ERRORS: (0,), 79: (5, 5), 49: (1, 1)}.get(question, (240,))
    bench.driver.on_rx(b"\xff\xff" + encode_answer(0x80, question, values), bench.now_ns)
    assert "not answered" not in bench.driver.refusal


def test_the_short_status_word_of_old_firmware_has_other_bits() -> None:
    bench = ready("roboclaw")
    for layout, bits, name in ((0, 0x4, "estop"), (1, 0x8, "main_voltage_high"), (0, 0xC01, "")):
        bench.connected = False
        bench.run(10)
        while encode(0x80, ERRORS) not in bench.sent[-1]:
            bench.run(10)
        bench.messages += bench.driver.on_rx(
            encode_answer(0x80, ERRORS, (bits,), layout), bench.now_ns
        )
        assert bench.driver._faults == (bits if name else 0), "warnings are no faults"
        if name:
            assert f"roboclaw_{name}" in bench.faults


def test_a_sabertooth_is_given_its_time_out_and_stops_by_it() -> None:
    """It answers nothing, so nothing is proven: the user must say that it was tried."""
    bench = Bench("sabertooth", timeout_ms=250)
    bench.run(100)
    assert "cannot be read back" in bench.driver.refusal
    bench = Bench(
        "sabertooth",
        timeout_ms=250,
        accept_unreadable_timeout=True,
        mix={"m1": Mix(left=1.0), "m2": Mix(right=-1.0)},
    )
    bench.run(100)
    assert bench.driver.refusal == ""
    assert bench.emulator.device.timeout_ns == 200 * 10**6
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].outputs == pytest.approx((0.5, -0.5), abs=0.01)
    bench.run(50, -0.25, mode=Mode.AUTO)
    assert bench.commands[-1].outputs == pytest.approx((-0.25, 0.25), abs=0.01)
    bench.run(50, 0.5, brake=1.0, mode=Mode.AUTO)
    assert bench.commands[-1].outputs == (0.0, 0.0)
    bench.run(50, 0.5, mode=Mode.AUTO)
    bench.run(300, None)
    assert bench.commands[-1].outputs == (0.0, 0.0)
    bench.emulator.restart(bench.now_ns)
    bench.run(250, 0.0)
    assert bench.emulator.device.timeout_ns == 200 * 10**6, "it lost its power, and is set up again"


@pytest.mark.parametrize("number", [None, 12])
def test_a_maestro_proves_its_time_out_before_anything_is_driven(number: int | None) -> None:
    bench = Bench("maestro", device_number=number)
    bench.run(250)
    assert bench.driver.refusal == "its serial timeout is being tried"
    assert len(bench.sent) == 1, "any command would end the quiet time"
    bench.run(400)
    assert "maestro_ready" in bench.events
    assert bench.driver.refusal == ""
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    bench.connected = False
    bench.run(250, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0, "its own time-out"
    bench.run(300, 0.5, mode=Mode.AUTO)
    assert "maestro_silent" in bench.faults
    bench.connected = True
    bench.run(500, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0, "it drove by itself"
    bench.run(6000)
    assert bench.faults == []
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01)


def test_a_maestro_without_a_time_out_is_refused_until_it_has_one() -> None:
    bench = Bench("maestro")
    bench.emulator.device.timeout_ms = 0
    bench.run(1000)
    assert "did not act within 200 ms" in bench.driver.refusal
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0
    bench.emulator.device.timeout_ms = 150
    bench.run(6500)
    assert bench.driver.refusal == ""
    bench.emulator.inject("fault", 8.0, True, bench.now_ns)
    bench.run(300, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == 0.0


def test_a_pca9685_drives_once_the_profile_accepts_that_nothing_times_out() -> None:
    bench = Bench("pca9685")
    bench.run(500)
    assert "accept_no_timeout" in bench.driver.refusal
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.01)
    bench = Bench("pca9685", accept_no_timeout=True)
    bench.run(300)
    assert bench.events == ["pca9685_ready"]
    assert bench.driver.refusal == ""
    bench.run(200, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    bench.run(50, 0.5, brake=1.0, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.01)
    assert bench.faults == []


@pytest.mark.parametrize("driven", [True, False])
def test_a_pca9685_that_loses_its_supply_or_bus_drives_on_only_after_it_was_disarmed(
    driven: bool,
) -> None:
    bench = Bench("pca9685", accept_no_timeout=True)
    bench.run(300)
    bench.run(200, 0.5, mode=Mode.AUTO)
    bench.emulator.inject("fault", 0.0, True, bench.now_ns)
    bench.run(20, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.01), "it sleeps"
    found = bench.run(400, 0.5 if driven else 0.0, mode=Mode.AUTO)
    assert "pca9685_reset" in {getattr(each, "code", "") for each in found}
    bench.run(400, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.01), "it drove by itself"
    bench.run(200)
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01)
    bench.connected = False
    bench.run(500, 0.5, mode=Mode.AUTO)
    assert "pca9685_silent" in bench.faults
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01), "it has no time-out"
    bench.connected = True
    bench.run(500, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.01)
    bench.run(200)
    bench.run(100, 0.5, mode=Mode.AUTO)
    assert bench.faults == []
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("gain", [1.0, -1.0])
def test_a_mirrored_motor_of_a_vesc_turns_the_other_way_and_reports_forwards(gain: float) -> None:
    bench = Bench(
        "vesc_uart",
        mix={"motor": Mix(throttle=gain)},
        pole_pairs=2,
        erpm_per_mps=600.0,
        steering=False,
    )
    bench.turns_per_s = 10.0
    bench.run(500)
    assert bench.driver.refusal == ""
    bench.run(300, 0.5, mode=Mode.AUTO)
    assert bench.commands[-1].throttle == pytest.approx(0.5 * gain, abs=0.01)
    assert bench.newest(MotorStatus).motor_speed_radps == pytest.approx(62.8, abs=0.5)
    assert bench.newest(WheelSpeed).speed_mps == pytest.approx(2.0, abs=0.02)


@each_family
def test_a_reopened_port_is_not_driven_while_another_program_steers(driver: str) -> None:
    """A moment without throttle is no disarming."""
    bench = ready(driver)
    bench.run(100, 0.5, mode=Mode.OFFBOARD)
    bench.driver.on_port(PortState.LOST, "unplugged", bench.now_ns)
    bench.driver.on_port(PortState.OPENED, "", bench.now_ns)
    bench.run(1500, 0.0, mode=Mode.OFFBOARD)
    bench.run(100, 0.5, mode=Mode.OFFBOARD)
    assert bench.commands[-1].throttle == 0.0


@pytest.mark.parametrize(
    ("driver", "params"),
    [
        ("vesc_uart", {"pole_pairs": 2, "erpm_per_mps": 600.0, "steering": False}),
        ("pwm_board", {"port": "serial:/dev/null?baud=250000"}),
        ("pca9685", {"accept_no_timeout": True}),
    ],
)
def test_a_reopened_vesc_or_board_is_not_driven_while_another_program_steers(
    driver: str, params: dict[str, Any]
) -> None:
    bench = Bench(driver, **params)
    bench.run(500)
    bench.run(300, 0.5, mode=Mode.OFFBOARD)
    assert bench.commands[-1].throttle == pytest.approx(0.5, abs=0.02)
    bench.driver.on_port(PortState.LOST, "unplugged", bench.now_ns)
    bench.driver.on_port(PortState.OPENED, "", bench.now_ns)
    bench.run(1500, 0.0, mode=Mode.OFFBOARD)
    bench.run(300, 0.5, mode=Mode.OFFBOARD)
    assert bench.commands[-1].throttle == pytest.approx(0.0, abs=0.02)
