"""The set-up of vehicles with several motors, in lockstep with emulated controllers: which wheels
each turns, its direction, its scale, and exchanged sides."""

from pathlib import Path

import pytest

from tests.setup_bench import Car, believed
from vehicled.cli.setup import with_measured
from vehicled.live.setup.recording import SampleRecorder
from vehicled.live.setup.steps import (
    BY_NAME,
    Measured,
    MotorRun,
    Observed,
    missing,
    motor_outputs,
    toml_values,
)
from vehicled.profile import Loaded, load_profile, parse

ACTUATORS = Path(__file__).parent / "actuators"
TWO_SIDES = """
name = "{name}"
base = "husky_a200"
without = ["devices.drive"]

[devices.left]
port = "serial:/dev/serial/by-id/usb-left-if00"
messages = ["ActuatorCommand", "MotorStatus"]
rate_hz = 50
capabilities = {{ telemetry = true, brake = true, readable_timeout = true }}
mix = {{ motor = {{ {left} }} }}

[devices.left.driver]
name = "vesc_uart"
vesc_uart = {{ steering = false, pole_pairs = {left_poles}, erpm_per_mps = {left_erpm} }}

[devices.right]
port = "serial:/dev/serial/by-id/usb-right-if00"
messages = ["ActuatorCommand", "MotorStatus"]
rate_hz = 50
capabilities = {{ telemetry = true, brake = true, readable_timeout = true }}
mix = {{ motor = {{ {right} }} }}

[devices.right.driver]
name = "vesc_uart"
vesc_uart = {{ steering = false, pole_pairs = 7, erpm_per_mps = {right_erpm} }}

[devices.imu]
port = "serial:/dev/imu?baud=921600"
driver = "n100"
[devices.gnss]
driver = {{ name = "ublox", ublox = {{ rate_hz = 10 }} }}
[devices.heading]
driver = {{ name = "ublox", ublox = {{ rate_hz = 10 }} }}
[sim.battery]
nominal_v = 24.0
full_v = 25.0
[sim.motor_status]
rate_hz = 50
"""
ERPM = 31984.0


def text(
    name: str = "mine", *, left: str = "left = 1.0", right: str = "right = 1.0",
    left_erpm: float = ERPM, right_erpm: float = ERPM, left_poles: int = 7,
) -> str:  # fmt: skip
    return TWO_SIDES.format(
        name=name,
        left=left,
        right=right,
        left_erpm=left_erpm,
        right_erpm=right_erpm,
        left_poles=left_poles,
    )


def found(car: Car, step: str, profile: Loaded) -> Measured:
    measured = car.step(step, profile)
    assert measured is not None, car.said[-8:]
    return measured


def after(source: str, measured: Measured, folder: Path) -> Loaded:
    return parse(with_measured(source, toml_values(measured, "2026-11-28")), beside=folder)


def test_each_motor_is_driven_alone_and_named(tmp_path: Path) -> None:
    car = Car(believed(text("truth"), tmp_path))
    measured = found(car, "motor", believed(text(), tmp_path))
    assert not measured.wrong
    assert measured.verdicts == [
        "left.motor: turns all on the left, forward",
        "right.motor: turns all on the right, forward",
    ]
    assert not measured.values


def test_exchanged_sides_are_seen_at_the_wheels_and_put_right(tmp_path: Path) -> None:
    car = Car(believed(text("truth"), tmp_path), cables={"left": "right", "right": "left"})
    measured = found(car, "motor", believed(text(), tmp_path))
    assert measured.wrong
    assert measured.verdicts[-1] == "left and right are exchanged: left.motor and right.motor"
    mix = {
        name: after(text(), measured, tmp_path).profile.devices[name].mix["motor"]
        for name in ("left", "right")
    }
    assert (mix["left"].left, mix["left"].right) == (0.0, 1.0)
    assert (mix["right"].left, mix["right"].right) == (1.0, 0.0)


def test_exchanged_sides_are_found_by_the_gyro_and_put_right(tmp_path: Path) -> None:
    car = Car(believed(text("truth"), tmp_path), cables={"left": "right", "right": "left"})
    measured = found(car, "circle", believed(text(), tmp_path))
    assert measured.wrong
    assert "left and right are exchanged, by the gyro" in measured.verdicts[0]
    source = with_measured(text(), toml_values(measured, "2026-11-28"))
    again = found(car, "circle", believed(source, tmp_path))
    assert not again.wrong
    # Where its track is written, the next circles show the same.
    third = found(car, "circle", after(source, again, tmp_path))
    first_m, second_m = (each.values["vehicle.wheelbase_m"][0] for each in (again, third))
    assert first_m == pytest.approx(load_profile("husky_a200").vehicle.wheelbase_m, rel=0.2)
    assert second_m == pytest.approx(first_m, rel=0.05)


def test_a_motor_that_turns_backward_is_turned_round(tmp_path: Path) -> None:
    car = Car(believed(text("truth", right_erpm=-ERPM), tmp_path))
    measured = found(car, "motor", believed(text(), tmp_path))
    assert measured.wrong
    assert measured.verdicts[1] == "right.motor: turns all on the right, BACKWARD"
    drivers = after(text(), measured, tmp_path).profile.devices
    assert drivers["right"].driver.selected.erpm_per_mps == -ERPM
    assert drivers["left"].driver.selected.erpm_per_mps == ERPM


def test_a_controller_with_two_outputs_is_set_up_output_by_output(tmp_path: Path) -> None:
    source = (ACTUATORS / "roboclaw.toml").read_text()
    true = believed(source.replace("right = -1.0", "right = 1.0"), tmp_path)
    measured = found(Car(true), "motor", believed(source, tmp_path))
    assert measured.verdicts[0] == "drive.m1: turns all on the left, forward"
    assert measured.verdicts[1] == "drive.m2: turns all on the right, BACKWARD"
    assert after(source, measured, tmp_path).profile.devices["drive"].mix["m2"].right == 1.0


def test_motors_behind_a_forwarding_controller_are_set_up_one_by_one(tmp_path: Path) -> None:
    source = (ACTUATORS / "vesc_forward.toml").read_text()
    true = believed(source.replace("right = -1.0", "right = 1.0"), tmp_path)
    measured = found(Car(true), "motor", believed(source, tmp_path))
    assert measured.verdicts[0] == "drive.motor: turns all on the left, forward"
    assert measured.verdicts[1] == "drive.motor_2: turns all on the right, BACKWARD"
    assert after(source, measured, tmp_path).profile.devices["drive"].mix["motor_2"].right == 1.0


def test_a_push_finds_the_scale_and_the_sign_of_each_motor(tmp_path: Path) -> None:
    true = believed(text("truth", left_erpm=8 / 7 * ERPM, left_poles=8, right_erpm=-ERPM), tmp_path)
    measured = found(Car(true), "push", believed(text(), tmp_path))
    assert measured.wrong
    assert any(line.startswith("right: ") and "reversed" in line for line in measured.verdicts)
    drivers = after(text(), measured, tmp_path).profile.devices
    assert drivers["left"].driver.selected.erpm_per_mps == pytest.approx(8 / 7 * ERPM, rel=0.01)
    assert drivers["left"].driver.selected.pole_pairs == 8
    assert drivers["right"].driver.selected.erpm_per_mps == pytest.approx(-ERPM, rel=0.01)


def test_a_wheel_that_does_not_turn_is_named(tmp_path: Path) -> None:
    car = Car(believed(text("truth"), tmp_path))
    car.loose = "right"
    measured = found(car, "motor", believed(text(), tmp_path))
    assert measured.wrong
    assert measured.verdicts[0] == "left.motor: turns all on the left, forward"
    assert "right.motor: no wheel turned, although it counts" in measured.verdicts[1]


def test_a_motor_that_counts_nothing_is_named(tmp_path: Path) -> None:
    profile = believed(text(), tmp_path).profile
    runs = [
        MotorRun(motor, SampleRecorder(None).recording(), {"wheel": "n"})
        for motor in motor_outputs(profile)
    ]
    seen = Observed(profile=profile, recording=runs[0].recording, runs=runs)
    assert "and it counts nothing: look at its power" in BY_NAME["motor"].judge(seen).verdicts[0]


@pytest.mark.parametrize(
    ("name", "outputs"),
    [
        ("two_motors", ["drive.motor", "right.motor"]),
        ("odrive_ascii", ["drive.axis0", "drive.axis1"]),
        ("vesc_forward", ["drive.motor", "drive.motor_2"]),
        ("servo_apart", ["drive.motor"]),
    ],
)
def test_the_motors_of_a_profile(name: str, outputs: list[str]) -> None:
    profile = load_profile(str(ACTUATORS / f"{name}.toml"))
    assert [motor.label for motor in motor_outputs(profile)] == outputs
    assert missing(BY_NAME["motor"], profile) == ""


def test_a_vehicle_without_a_servo_leaves_its_step_out() -> None:
    profile = load_profile(str(ACTUATORS / "skid.toml"))
    assert missing(BY_NAME["servo"], profile) == "no servo steers"
