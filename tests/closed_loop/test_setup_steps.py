"""Steps of the set-up with emulated devices in lockstep: what is wrong with a vehicle is found,
named and written."""

from collections.abc import Mapping
from math import pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec import structs

from drivers.imu.base import mounting
from tests.setup_bench import MS, SPACE, Car, Person, believed, truth, written
from vehicled.core.messages import Mode
from vehicled.live.setup.manoeuvres import BRAKE, CircleDrive, Moment
from vehicled.live.setup.session import Stage
from vehicled.live.setup.steps import Measured, pace
from vehicled.profile import Loaded, load_profile
from vehicled.profile.drafting import draft
from vehicled.profile.vesc_files import VehicleFacts

MINE = 'name = "mine"\nbase = "f1tenth_gnss"\n'
IMU, DRIVE = "devices.imu.driver.vectornav", "devices.drive.driver.vesc_uart"


def found(car: Car, step: str, profile: Loaded) -> Measured:
    """Return what a step measured."""
    measured = car.step(step, profile)
    assert measured is not None, car.said[-5:]
    return measured


def values(measured: Measured) -> Mapping[str, object]:
    return {key: value for key, (value, _) in measured.values.items()}


def test_nothing_is_wrong_with_a_vehicle_that_is_as_its_profile_says(tmp_path: Path) -> None:
    car, mine = Car(truth(tmp_path)), believed(MINE, tmp_path)
    for step in (
        "ports",
        "accelerometer",
        "imu",
        "push",
        "motor",
        "servo",
        "run",
        "circle",
        "turn",
    ):
        assert not found(car, step, mine).wrong, step


def geared(text: str = "") -> str:
    """Return the profile of a vehicle whose motor has two pole pairs and a gear of 12."""
    return (
        draft("mine", "f1tenth_gnss", VehicleFacts(gear=12.0, pole_pairs=2, mass_kg=3.7), []).text
        + text
    )


WRONG = """
[devices.imu.driver.vectornav]
mounting_roll_rad = 3.1415926
mounting_yaw_rad = 1.5707963
accelerometer_bias_mps2 = [0.25, -0.15, 0.1]
accelerometer_scale = [1.01, 0.99, 1.02]
"""


def wrong_truth(folder: Path) -> Loaded:
    """Return a vehicle about which its owner knows little: unit, motor, pole pairs, servo, antenna,
    brake, delays."""
    text = (
        geared()
        .replace('name = "mine"', 'name = "truth"')
        .replace("pole_pairs = 2", "pole_pairs = 3")
    )
    scale = -1.5 * 2 * 12 * 60 / (2 * pi * 0.049)
    text = (
        "\n".join(line for line in text.splitlines() if not line.startswith("erpm_per_mps")) + "\n"
    )
    text = text.replace(
        "pole_pairs = 3",
        f"pole_pairs = 3\nerpm_per_mps = {scale}\nservo_center = 0.56\nservo_gain = 0.3",
    )
    text += "[devices.gnss]\nlever_arm_m = [0.21, -0.07, 0.2]\n" + WRONG
    text += "[vehicle.steering]\ngain_rad = 0.36\nmax_wheel_rad = 0.36\ndelay_s = 0.09\n"
    return believed(text, folder)


@pytest.fixture(scope="module")
def set_up(tmp_path_factory: pytest.TempPathFactory) -> tuple[Car, str, dict[str, Measured]]:
    """Return the car, the profile after all steps, and what each measured."""
    folder = tmp_path_factory.mktemp("setup")
    car, text, measured = Car(wrong_truth(folder)), geared(), {}
    for step in (
        "ports",
        "accelerometer",
        "imu",
        "push",
        "motor",
        "servo",
        "run",
        "circle",
        "turn",
    ):
        measured[step] = found(car, step, believed(text, folder))
        text = written(text, measured[step], folder)
    return car, text, measured


def test_every_wrong_sign_axis_and_number_is_named(
    set_up: tuple[Car, str, dict[str, Measured]],
) -> None:
    _, _, measured = set_up
    said = {step: "; ".join(each.verdicts) for step, each in measured.items()}
    assert {step for step, each in measured.items() if each.wrong} == {
        "ports",  # by the configuration of the controller
        "imu",
        "push",
        "servo",
    }
    assert "its x axis points left, y forward, z down" in said["imu"]
    assert "the motor is reversed" in said["push"]
    assert "a motor with 3 pole pairs does where the profile has 2" in said["push"]
    assert "reversed" in said["servo"]


def test_what_was_written_is_the_vehicle(
    set_up: tuple[Car, str, dict[str, Measured]], tmp_path: Path
) -> None:
    car, text, _ = set_up
    mine, true = believed(text, tmp_path).profile, car.true
    ours, theirs = (each.devices["drive"].driver.selected for each in (mine, true))
    assert (ours.pole_pairs, theirs.pole_pairs) == (3, 3)
    assert ours.erpm_per_mps == pytest.approx(theirs.erpm_per_mps, rel=0.015)
    # The same command turns the wheels by the angle that the profile expects, to both sides.
    assert true.sim.steering is not None
    for command in (-0.9, -0.4, 0.0, 0.4, 0.9):
        position = ours.servo_center + ours.servo_gain * command
        angle = true.sim.steering.gain_rad * min(
            max((position - theirs.servo_center) / theirs.servo_gain, -1.0), 1.0
        )
        assert mine.vehicle.steering.wheel_angle_rad(command) == pytest.approx(angle, abs=0.012)
    assert mine.vehicle.steering.delay_s == pytest.approx(0.09, abs=0.03)
    assert mine.devices["gnss"].lever_arm_m == pytest.approx([0.21, -0.07, 0.2], abs=0.025)
    unit, truly = (each.devices["imu"].driver.selected for each in (mine, true))
    turned = np.array(
        mounting(unit.mounting_roll_rad, unit.mounting_pitch_rad, unit.mounting_yaw_rad)
    )
    assert turned == pytest.approx(
        np.array([[0.0, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, -1.0]]), abs=0.02
    )
    assert unit.accelerometer_bias_mps2 == pytest.approx(truly.accelerometer_bias_mps2, abs=0.09)
    assert unit.accelerometer_scale == pytest.approx(truly.accelerometer_scale, abs=0.008)
    drive = mine.vehicle.drive
    assert ours.pole_pairs * 30 / pi / abs(ours.erpm_per_mps) == pytest.approx(
        drive.wheel_radius_m * drive.gear_ratio, rel=1e-3
    )
    assert drive.brake_deceleration_mps2 == pytest.approx(9.5, rel=0.1)


def test_a_second_set_up_finds_nothing_wrong(
    set_up: tuple[Car, str, dict[str, Measured]], tmp_path: Path
) -> None:
    car, text, _ = set_up
    for step in ("imu", "push", "circle"):
        measured = found(car, step, believed(text, tmp_path))
        assert not measured.wrong, (step, measured.verdicts)
    assert not values(found(car, "imu", believed(text, tmp_path)))


def test_exchanged_ports_are_named_and_put_right(tmp_path: Path) -> None:
    car = Car(truth(tmp_path), cables={"imu": "gnss", "gnss": "imu"})
    mine = believed(MINE, tmp_path)
    measured = found(car, "ports", mine)
    assert measured.wrong
    assert measured.verdicts[0] == "the ports of gnss and imu are exchanged"
    before, after = mine.profile, believed(written(MINE, measured, tmp_path), tmp_path).profile
    assert (
        after.devices["imu"].port.partition("?")[0] == before.devices["gnss"].port.partition("?")[0]
    )
    assert after.devices["imu"].port.endswith("?baud=921600"), "the line rate belongs to the device"


def test_a_device_that_is_silent_is_named(tmp_path: Path) -> None:
    measured = found(
        Car(truth(tmp_path), cables={"imu": "operator"}), "ports", believed(MINE, tmp_path)
    )
    assert any(line.startswith("imu: nothing arrives") for line in measured.verdicts)


def test_a_controller_that_is_set_up_for_another_motor_is_named(tmp_path: Path) -> None:
    car, mine = Car(truth(tmp_path)), believed(MINE, tmp_path)
    said = found(car, "ports", mine).verdicts
    assert any("drive: command time-out 200 ms, then" in line for line in said), said
    unit: Any = car.emulator("drive").unit
    unit.mcconf = structs.replace(unit.mcconf, motor_poles=14, motor_current_min_a=-3.0)
    measured = found(car, "ports", mine)
    assert measured.wrong
    wrong = "; ".join(line for line in measured.verdicts if "CONTRADICTION" in line)
    assert "14 motor poles in the controller, 24 pole pairs in the profile" in wrong
    assert "the controller allows 3 A" in wrong
    assert not measured.values


def test_a_compass_between_iron_is_corrected(tmp_path: Path) -> None:
    compass = (
        '[devices.imu]\nmessages = ["ImuSample", "Heading"]\n[sim.heading]\nkind = '
        '"magnetic"\nsigma_rad = 0.005\n'
    )
    iron = "[sim.heading.magnetometer]\nhard_iron_ut = [3.0, -2.0, 0.0]\nsigma_ut = 0.1\n"
    car, text = Car(truth(tmp_path, compass + iron)), MINE + compass
    measured = found(car, "turn", believed(text, tmp_path))
    assert "hard iron turns the compass by up to" in measured.verdicts[1]
    after = written(text, measured, tmp_path)
    again = found(car, "turn", believed(after, tmp_path))
    # The second turn finds the same factors: what is left of the first is small.
    first, second = (
        np.array(values(each)[f"{IMU}.compass_deviation_rad"]) for each in (measured, again)
    )
    assert np.abs(first).max() > 0.1
    assert np.abs(first - second).max() < 0.03


class LetsGo(Person):
    """Lets the key go after some seconds."""

    after_s = 4.0

    def _press(self, data: bytes, now_ns: int) -> None:
        if data != SPACE or self._car.since(now_ns) < self.after_s:
            super()._press(data, now_ns)


def test_nothing_moves_without_the_key_and_it_brakes_when_it_is_released(tmp_path: Path) -> None:
    car = Car(truth(tmp_path))
    session_times: list[tuple[int, float, float]] = []

    class Watches(LetsGo):
        def act(self, now_ns: int) -> None:
            if self._session.stage is Stage.RECORDING and self._car.since(now_ns) > 8.0:
                self._session.on_keys(b"x", now_ns)
                self._session.on_keys(b"q", now_ns)
                return
            super().act(now_ns)
            session_times.append((now_ns, car.world.motion.speed_mps, self._car.since(now_ns)))

    assert car.step("circle", believed(MINE, tmp_path), person=Watches) is None
    assert max(abs(speed) for _, speed, since in session_times if since < 2.4) == 0.0
    assert max(speed for _, speed, since in session_times if since < 4.0) > 0.5
    # A key that repeats is released after 0.3 s, and the brake of this vehicle stops it within 0.2
    # s.
    assert max(abs(speed) for _, speed, since in session_times if since > 4.0 + 0.3 + 0.25) < 0.02
    assert any("aborted by a key" in line for line in car.said)


@pytest.mark.parametrize("key", [b"x", b"q", b"\x1b[A", b"\n"])
def test_any_other_key_ends_a_drive_at_neutral(tmp_path: Path, key: bytes) -> None:
    car = Car(truth(tmp_path))
    commands: list[tuple[Stage, float, Mode]] = []

    class Presses(Person):
        def act(self, now_ns: int) -> None:
            session = self._session
            if session.stage is Stage.RECORDING and self._car.since(now_ns) > 4.0:
                session.on_keys(key, now_ns)
                assert session.stage is Stage.READY
                commands.extend(
                    (
                        session.stage,
                        (sent := session.tick(now_ns + k * 20 * MS)).throttle,
                        sent.mode,
                    )
                    for k in range(200)
                )
                session.on_keys(b"q", now_ns)
                return
            super().act(now_ns)

    assert car.step("circle", believed(MINE, tmp_path), person=Presses) is None
    assert {(throttle, mode) for _, throttle, mode in commands} == {(0.0, Mode.STANDBY)}


def test_a_reversed_motor_is_named_by_the_accelerometer_before_circles_are_driven(
    tmp_path: Path,
) -> None:
    scale = load_profile("f1tenth_gnss").devices["drive"].driver.selected.erpm_per_mps
    car = Car(truth(tmp_path, f"[{DRIVE}]\nerpm_per_mps = {-scale}\n"))
    assert car.step("run", believed(MINE, tmp_path)) is None
    assert "it drove backward, by its accelerometer" in car.said[-1]


def test_a_manoeuvre_ends_where_it_is_too_fast_or_counts_backward() -> None:
    for speed_mps, text in ((-0.3, "counts backward"), (3.0, "faster than")):
        manoeuvre = CircleDrive(pace(load_profile("f1tenth_gnss")))
        assert manoeuvre.demand(Moment(0.02, True, 0.0)).throttle > 0.0
        demands = [manoeuvre.demand(Moment(0.02, True, speed_mps)) for _ in range(30)]
        assert demands[-1] == BRAKE
        assert text in manoeuvre.trouble
