"""A profile from what the owner, the files and the devices of a vehicle say: what is used, what
contradicts itself."""

import subprocess
import sys
from math import pi
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.busy_computer import DEADLINE_S
from tests.examples import examples
from vehicled.cli import main
from vehicled.cli import new_profile as command
from vehicled.core.errors import SetupError
from vehicled.profile import load, parse
from vehicled.profile.drafting import FoundDevice, draft, nearest_base
from vehicled.profile.vesc_files import VehicleFacts, joined, read_vesc_file

YAML = """
/**:
  ros__parameters:
    # erpm (electrical rpm) = speed_to_erpm_gain * speed (meters / second) + speed_to_erpm_offset
    speed_to_erpm_gain: 4614.0
    speed_to_erpm_offset: 0.0
    steering_angle_to_servo_gain: -1.2135
    steering_angle_to_servo_offset: 0.5304
    port: /dev/sensors/vesc
    current_max: 100.0   # a limit of the driver, not of the vehicle
    servo_min: 0.15
    servo_max: 0.85
vesc_to_odom_node:
  ros__parameters:
    odom_frame: odom
    wheelbase: .25
throttle_interpolator:
  ros__parameters:
    max_servo_speed: 3.2 # radians/second
"""
XML = """<?xml version="1.0" encoding="UTF-8"?>
<MCConfiguration>
  <ConfigVersion>2</ConfigVersion>
  <l_current_max>60</l_current_max>
  <l_current_min>-50</l_current_min>
  <si_motor_poles>4</si_motor_poles>
  <si_gear_ratio>11.0</si_gear_ratio>
  <si_wheel_diameter>0.104</si_wheel_diameter>
  <si_battery_cells>3</si_battery_cells>
</MCConfiguration>
"""


def read(folder: Path, text: str) -> VehicleFacts:
    return read_vesc_file(written(folder, text)).facts


def written(folder: Path, text: str) -> str:
    file = folder / "vesc"
    file.write_text(text)
    return str(file)


def test_the_yaml_of_f1tenth_gives_speed_servo_and_wheelbase(tmp_path: Path) -> None:
    facts = read(tmp_path, YAML)
    assert (facts.erpm_per_mps, facts.servo_per_rad, facts.servo_center) == (
        4614.0,
        -1.2135,
        0.5304,
    )
    assert (facts.servo_min, facts.servo_max, facts.wheelbase_m, facts.steering_rate_radps) == (
        0.15,
        0.85,
        0.25,
        3.2,
    )
    assert facts.motor_current_a is None


def test_the_xml_of_vesc_tool_gives_poles_gear_wheel_cells_and_currents(tmp_path: Path) -> None:
    facts = read(tmp_path, XML)
    assert (facts.pole_pairs, facts.gear, facts.wheel_radius_m, facts.cells) == (2, 11.0, 0.052, 3)
    assert (facts.motor_current_a, facts.brake_current_a) == (60.0, 50.0)
    assert facts.scale() == pytest.approx(2 * 11.0 * 60.0 / (2.0 * pi * 0.052))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (YAML.replace("4614.0", "fast"), 'line 5: speed_to_erpm_gain: "fast" is no number'),
        (YAML.replace("4614.0", "0.0"), "speed_to_erpm_gain is 0, which no vehicle has"),
        (
            YAML.replace("0.5304", "0.95"),
            "steering_angle_to_servo_offset = 0.95 is not between servo_min = 0.15",
        ),
        (YAML.replace(".25", "250"), "wheelbase: 250 cannot be (from 0.05 to 10)"),
        (
            YAML + "other:\n  speed_to_erpm_gain: 3500.0\n",
            "line 21: speed_to_erpm_gain = 3500.0 contradicts speed_to_erpm_gain",
        ),
        ("port: /dev/ttyACM0\n", "is no vesc.yaml"),
        (
            XML.replace("MCConfiguration", "APPConfiguration"),
            "is the application configuration; export the motor configuration",
        ),
        (
            XML.replace("<si_motor_poles>4", "<si_motor_poles>5"),
            "si_motor_poles = 5: poles come in pairs",
        ),
        (XML.replace("11.0", "much"), 'si_gear_ratio: "much" is no number'),
        (XML.replace("<si_gear_ratio>11.0</si_gear_ratio>", "<si_gear_ratio>"), "is no valid XML"),
        (XML.replace("<MC", '<!DOCTYPE x [<!ENTITY a "b">]><MC', 1), "declares a document type"),
    ],
)
def test_what_cannot_be_is_named_with_its_place(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(SetupError) as caught:
        read(tmp_path, text)
    assert says in str(caught.value)


def test_an_xml_of_older_firmware_says_what_it_lacks(tmp_path: Path) -> None:
    old = "<MCConfiguration><l_current_max>60</l_current_max></MCConfiguration>"
    assert (
        "si_motor_poles, si_gear_ratio, si_wheel_diameter"
        in read_vesc_file(written(tmp_path, old)).remarks[0]
    )


@given(st.text(max_size=300))
@examples(60)
def test_any_text_is_read_or_refused(tmp_path_factory: pytest.TempPathFactory, text: str) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(text.encode("utf-8", "surrogatepass"))
    try:
        read_vesc_file(str(file))
    except SetupError as error:
        said = str(error)
    else:
        said = "read"
    assert said


def test_sources_that_contradict_each_other_are_named() -> None:
    first = VehicleFacts(wheelbase_m=0.26, pole_pairs=2, gear=11.0, wheel_radius_m=0.052)
    facts, remarks = joined(
        [("the options", first), ("vesc.yaml", VehicleFacts(wheelbase_m=0.25, erpm_per_mps=4614.0))]
    )
    assert facts.wheelbase_m == 0.26
    assert "wheelbase_m is 0.26 by the options and 0.25 by vesc.yaml" in remarks[0]
    assert "erpm_per_mps is 4614 by vesc.yaml, and poles, gear and wheel give 4040.1" in remarks[1]
    assert joined([("a", VehicleFacts(gear=2.0)), ("b", VehicleFacts(gear=2.01))])[1] == []


def test_the_nearest_vehicle_is_chosen_by_size_and_devices() -> None:
    vesc = FoundDevice("vesc_uart", "serial:/dev/a")
    assert nearest_base(VehicleFacts(), []) == "f1tenth_gnss"
    assert (
        nearest_base(
            VehicleFacts(wheelbase_m=0.33), [vesc, FoundDevice("hokuyo", "tcp:10.0.0.1:1")]
        )
        == "f1tenth_lidar"
    )
    assert (
        nearest_base(VehicleFacts(wheelbase_m=0.33), [vesc, FoundDevice("ublox", "serial:/dev/b")])
        == "f1tenth_gnss"
    )
    assert nearest_base(VehicleFacts(wheelbase_m=3.3, mass_kg=2_500.0), []).startswith("hmmwv")


def test_the_profile_states_what_differs_and_nothing_else(tmp_path: Path) -> None:
    yaml, xml = read(tmp_path, YAML), read(tmp_path, XML)
    facts, _ = joined(
        [("options", VehicleFacts(mass_kg=2.5, motor_kv=3500.0)), ("yaml", yaml), ("xml", xml)]
    )
    made = draft(
        "mine",
        "f1tenth_gnss",
        facts,
        [FoundDevice("ublox", "serial:/dev/gnss"), FoundDevice("n100", "serial:/dev/imu")],
    )
    assert sum(" = " in line for line in made.text.splitlines()) < 50
    mine, base = parse(made.text, beside=tmp_path).profile, load("f1tenth_gnss").profile
    assert mine.limits.corridor_m == base.limits.corridor_m
    assert (mine.devices["gnss"].port, mine.devices["gnss"].driver) == (
        "serial:/dev/gnss",
        base.devices["gnss"].driver,
    )
    assert mine.devices["imu"].driver.name == "n100"
    assert "the port of drive" in made.remarks[0]
    # Straight at the offset, full steering as far as the shorter side of the servo allows, to the
    # left at a smaller position.
    vesc, steering = mine.devices["drive"].driver.selected, mine.vehicle.steering
    assert steering.gain_rad == pytest.approx((0.85 - 0.5304) / 1.2135, rel=1e-3)
    assert vesc.servo_gain == pytest.approx(-(0.85 - 0.5304), rel=1e-3)
    # The motor's top speed is that of KV, cells, gear and wheel; full throttle is what the tyres
    # hold.
    drive = mine.vehicle.drive
    reduced_m = drive.wheel_radius_m * drive.gear_ratio
    assert drive.no_load_speed_radps * reduced_m == pytest.approx(
        3500 * 11.1 * 2 * pi / 60 / 11.0 * 0.052, rel=2e-3
    )
    newton_per_a = 60.0 / (2.0 * pi * 3500.0) / reduced_m
    assert drive.stall_torque_nm * reduced_m / drive.inertia_kgm2 == pytest.approx(
        vesc.max_current_a * newton_per_a / 2.5, rel=5e-3
    )
    assert drive.acceleration_mps2(1.0, 0.0) < 9.0
    # The twin is this vehicle, no longer that of the base.
    assert (mine.sim.plant, mine.sim.drive, mine.sim.wheelbase_m) == ("four_dof", drive, 0.25)


def test_a_vehicle_like_its_base_needs_nothing_else(tmp_path: Path) -> None:
    made = draft("mine", "f1tenth", VehicleFacts(), [])
    assert len(made.text.splitlines()) == 5
    mine = parse(made.text, beside=tmp_path).profile
    assert mine.vehicle == load("f1tenth").profile.vehicle
    assert mine.sim.plant == "double_track"


def new(*words: str) -> int:
    return main(["new", "profile", *words])


def test_the_command_writes_a_file_that_checks(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = (
        "mine",
        "--folder",
        str(tmp_path),
        "--vesc",
        written(tmp_path, XML),
        "--wheelbase",
        "0.3",
        "--no-questions",
    )
    assert new(*words) == 0
    assert "on the base f1tenth" in capsys.readouterr().out
    assert main(["check", str(tmp_path / "mine.toml")]) == 0
    assert new(*words) == 2
    assert "exists already and is not overwritten" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("Mine",), "use lower-case letters"),
        (("mine", "--wheelbase", "26"), "--wheelbase 26: cannot be; it is from 0.05 to 10"),
        (("mine", "--cells", "2.5"), "--cells 2.5: is a whole number"),
        (("mine", "--kv", "0"), "--kv 0: cannot be"),
        (("mine", "--vesc", "nowhere.yaml"), "nowhere.yaml: cannot be read"),
        (("mine", "--device", "ublox"), "write DRIVER@URL"),
        (("mine", "--device", "ublocks@serial:/dev/a"), "no driver ublocks"),
        (("mine", "--device", "ublox@/dev/a"), "--device ublox@/dev/a"),
        (("mine", "--port", "tcp:10.0.0.1:80"), "only serial ports are looked at"),
        (("mine", "--without", "devices.radar"), '"devices.radar" is not in the base'),
        (("mine", "--base", "f1tent"), 'did you mean "f1tenth"?'),
    ],
)
def test_a_mistake_writes_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], says: str
) -> None:
    assert new(*words, "--folder", str(tmp_path), "--no-questions") == 2
    assert says in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_questions_take_enter_and_ask_again_after_a_mistake(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answers = iter(["", "wide", "0,26", "2.5", "", "11", "3500", "3"])
    base, facts = command._asked("f1tenth", VehicleFacts(), True, lambda prompt: next(answers))
    assert base == "f1tenth"
    assert (facts.wheelbase_m, facts.mass_kg, facts.wheel_radius_m, facts.gear) == (
        0.26,
        2.5,
        None,
        11.0,
    )
    assert '"wide" is no number' in capsys.readouterr().out
    # What options and files say is not asked for.
    known = VehicleFacts(
        wheelbase_m=0.3, mass_kg=3.0, wheel_radius_m=0.05, gear=11.0, motor_kv=3500.0, cells=3
    )
    assert command._asked("f1tenth", known, False, lambda prompt: pytest.fail(prompt)) == (
        "f1tenth",
        known,
    )


def test_devices_behind_ports_are_found_and_a_vesc_says_its_gear(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The emulated devices stand behind pseudo-terminals, which have no line speed; the silent VESC
    answers a question."""
    folder = tmp_path / "car"
    argv = [
        sys.executable,
        "-m",
        "vehicled",
        "simulator",
        "--profile",
        "f1tenth_gnss",
        "--ptys",
        str(folder),
    ]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as simulator:
        try:
            assert simulator.stdout is not None
            for line in simulator.stdout:
                if "drive" in line and str(folder) in line:
                    break
            assert (
                new(
                    "mine",
                    "--folder",
                    str(tmp_path),
                    "--no-questions",
                    "--port",
                    f"serial:{folder}/drive",
                )
                == 0
            )
        finally:
            simulator.terminate()
            simulator.wait(DEADLINE_S)
    said = capsys.readouterr().out
    assert f"serial:{folder}/drive: vesc_uart answers" in said
    vehicle = load(str(tmp_path / "mine.toml")).profile
    vesc = load("f1tenth_gnss").profile.devices["drive"].driver.selected
    assert vehicle.vehicle.drive.wheel_radius_m == pytest.approx(0.05)
    assert vehicle.devices["drive"].driver.selected.erpm_per_mps == pytest.approx(
        vesc.erpm_per_mps, rel=1e-3
    )
    assert vehicle.devices["drive"].driver.selected.pole_pairs == vesc.pole_pairs
