"""Numbers that are each in range and cannot be true of one vehicle: found where they are wrong,
silent where they are right."""

from pathlib import Path

import pytest

from bench import profile_mutations
from vehicled.cli import main
from vehicled.profile import ProfileError, load, names
from vehicled.profile.loading import findings_of, values
from vehicled.profile.registry import names as registered
from vehicled.profile.registry import resolve
from vehicled.profile.schema import DeviceTable
from vehicled.profile.units import CONVERSIONS, did_you_mean
from vehicled.run.findings import findings
from vehicled.runtime.ports.sharing import judge_ports

PROFILES = Path(__file__).parents[2] / "profiles"

VESC = "devices.drive.driver.vesc_can"
IMPOSSIBLE = [
    (
        "art",
        "vehicle.steering.gain_rad=24",
        "vehicle.steering.gain_rad",
        "did you mean 0.4189 (24 degrees)?",
    ),
    (
        "art",
        "tasks.fusion.deadline_ms=50",
        "tasks.fusion.deadline_ms",
        "deadline over limits.estimate_silence_s of 2",
    ),
    ("f1tenth", "vehicle.mass_kg=3800", "vehicle.mass_kg", "did you mean 3.8 (3800 grams)?"),
    (
        "art",
        "vehicle.drive.wheel_radius_m=5",
        "vehicle.drive.wheel_radius_m",
        "wheel radius over wheelbase of 10",
    ),
    (
        "art",
        "devices.gnss.lever_arm_m=[250, 0.0, 300]",
        "devices.gnss.lever_arm_m",
        "did you mean 0.25 (250 millimetres)?",
    ),
    (
        "art",
        "devices.gnss.lever_arm_m=[5.0, 0.0, 30]",
        "devices.gnss.lever_arm_m",
        "did you mean 0.05 (5 centimetres)?",
    ),
    ("art", "limits.corridor_m=0.005", "limits.corridor_m", "position noise alone"),
    (
        "hmmwv",
        "vehicle.drive.brake_deceleration_mps2=120",
        "vehicle.drive.brake_deceleration_mps2",
        "tyres hold about 10",
    ),
    (
        "art_vesc",
        "limits.battery_empty_v=10.8",
        "limits.battery_low_v",
        "battery_low_v must be above battery_empty_v",
    ),
    ("hmmwv", "vehicle.length_m=460", "vehicle.length_m", "did you mean 4.6 (460 centimetres)?"),
    ("art", "limits.control_silence_s=0.009", "limits.control_silence_s", "control periods"),
]
UNUSUAL = [
    ("art", "limits.max_speed_mps=10.8", "limits.max_speed_mps", "did you mean 3 (10.8 km/h)?"),
    ("art", "limits.motor_hot_k=293", "limits.motor_hot_k", "usual is 310 to 450"),
    (
        "art",
        "estimator.ins.imu_lever_arm_m=[0.0, 0.0, 0.1]",
        "estimator.ins.imu_lever_arm_m",
        "it is the same sensor",
    ),
    (
        "art_vesc",
        f"{VESC}.erpm_per_mps=6779",
        f"{VESC}.erpm_per_mps",
        "6779 is 10 times what pole_pairs = 2",
    ),
    (
        "art_vesc",
        f"{VESC}.erpm_per_mps=-67.8",
        f"{VESC}.erpm_per_mps",
        "make of it, -677.9 (9.549 x pole_pairs",
    ),
    (
        "art_vesc",
        f"{VESC}.erpm_per_mps=188",
        f"{VESC}.erpm_per_mps",
        "this is for 1 km/h, so multiply it by 3.6",
    ),
    (
        "art_vesc",
        f"{VESC}.pole_pairs=4",
        f"{VESC}.erpm_per_mps",
        "pole_pairs is the number of pairs, not of poles",
    ),
    (
        "art_vesc",
        f"{VESC}.max_speed_mps=30",
        f"{VESC}.max_speed_mps",
        "30 is 10 times limits.max_speed_mps = 3",
    ),
    (
        "art_vesc",
        f"{VESC}.max_speed_mps=10.8",
        f"{VESC}.max_speed_mps",
        "write about 3 (10.8 km/h)",
    ),
    (
        "art_vesc",
        f"{VESC}.servo_gain=-0.84",
        f"{VESC}.servo_gain",
        "did you mean -0.281 (-0.84 per radian)?",
    ),
    (
        "art_vesc",
        f"{VESC}.servo_gain=-0.0146",
        f"{VESC}.servo_gain",
        "did you mean -0.28 (-0.0146 per degree)?",
    ),
    (
        "art_vesc",
        "limits.battery_empty_v=3.2",
        "limits.battery_empty_v",
        "write both for the whole pack, not for a cell",
    ),
    (
        "art",
        "devices.drive.driver={name='pwm_board', pwm_board={steering_range_us=8.0}}",
        "devices.drive.driver.pwm_board.steering_range_us",
        "did you mean 172 (8 per degree)?",
    ),
    (
        "art",
        "devices.imu.rate_hz=100",
        "devices.imu.rate_hz",
        "the driver sets the device to 400 Hz",
    ),
    (
        "art",
        "controller.pure_pursuit.look_ahead_min_s=0.2",
        "controller.pure_pursuit.look_ahead_min_s",
        "beyond the delay",
    ),
    (
        "art",
        "estimator.ekf4.yaw_density_rad=0.573",
        "estimator.ekf4.yaw_density_rad",
        "did you mean 0.01 (0.573 degrees)?",
    ),
]


@pytest.mark.parametrize(("profile", "override", "path", "part"), IMPOSSIBLE)
def test_an_impossible_number_is_an_error(
    profile: str, override: str, path: str, part: str
) -> None:
    found = {note.path: note for note in load(profile, [override]).findings}
    assert found[path].level == "error"
    assert part in found[path].message


@pytest.mark.parametrize(("profile", "override", "path", "part"), UNUSUAL)
def test_an_unusual_number_is_a_warning(profile: str, override: str, path: str, part: str) -> None:
    found = {note.path: note for note in load(profile, [override]).findings}
    assert found[path].level == "warning"
    assert part in found[path].message


@pytest.mark.parametrize(
    ("profile", "override", "part"),
    [
        ("art", "vehicle.steering.max_wheel_rad=24", "did you mean 0.4189 (24 degrees)?"),
        ("art", "vehicle.steering.delay_s=400", "did you mean 0.4 (400 milliseconds)?"),
        (
            "art",
            "devices.imu.driver.n100.mounting_yaw_rad=180",
            "did you mean 3.142 (180 degrees)?",
        ),
        ("art", "vehicle.wheelbase_m=50", "did you mean 0.5 (50 centimetres)?"),
        ("art", "tasks.fusion.max_miss_share=5", "did you mean 0.05 (5 percent)?"),
        ("art", "view.most_throttle=50", "did you mean 0.5 (50 percent)?"),
        ("art", "sim.battery.full_v=3.9", "write both for the whole pack, not for a cell"),
        ("art_vesc", f"{VESC}.max_duty=20", "did you mean 0.2 (20 percent)?"),
        ("art_vesc", f"{VESC}.servo_center=1500", "did you mean 0.5 (1500 microseconds)?"),
        (
            "art_vesc",
            f"{VESC}.servo_gain=-1.2135",
            "a gain per radian times vehicle.steering.gain_rad",
        ),
    ],
)
def test_a_number_out_of_bounds_names_the_unit_it_was_probably_in(
    profile: str, override: str, part: str
) -> None:
    with pytest.raises(ProfileError) as caught:
        load(profile, [override])
    assert part in str(caught.value)


def test_a_receiver_may_be_plain() -> None:
    """The default is that of RTK, which is better by a factor of hundred."""
    assert "sim.gnss.user_range_error_m" not in {
        note.path for note in load("art", ["sim.gnss.user_range_error_m=2.6"]).findings
    }


def test_one_wrong_number_is_one_error() -> None:
    """One wrong number is reported alone, without the neighbours that look wrong because of it."""
    assert [note.path for note in load("art", ["vehicle.drive.wheel_radius_m=5"]).findings] == [
        "vehicle.drive.wheel_radius_m"
    ]


@pytest.mark.parametrize(("unit", "factor"), [("centimetres", 100.0), ("millimetres", 1000.0)])
@pytest.mark.parametrize("name", ["art", "f1tenth", "hmmwv", "husky_a200"])
def test_a_vehicle_in_other_lengths_is_one_error_that_gives_them_in_metres(
    name: str, unit: str, factor: float
) -> None:
    data = values(name)
    vehicle = data["vehicle"]
    length_m = vehicle["length_m"]
    for table in (vehicle, vehicle["drive"]):
        table |= {key: factor * value for key, value in table.items() if key.endswith("_m")}
    (found,) = [note for note in findings_of(data) if note.level != "note"]
    assert found.level == "error"
    assert f"these are {unit}; did you mean length_m = {length_m:g}, width_m = " in found.message


def test_errors_of_both_kinds_are_reported_together() -> None:
    with pytest.raises(ProfileError) as caught:
        load("art", ["vehicle.steering.gain_rad=24", "vehicle.mass=4"])
    assert {problem.path for problem in caught.value.problems} == {
        "vehicle.steering.gain_rad",
        "vehicle.mass",
    }


DOCUMENTED = [
    [],
    ["tasks.control.rate_hz=60"],
    ["tasks.control.rate_hz=60", "controller.pure_pursuit.look_ahead_min_s=0.8"],
    ["tasks.fusion.declared_us=4500"],
    ["tasks.control.declared_us=6500"],
    ["limits.corridor_m=0.8"],
    ["limits.corridor_m=8"],
    ["estimator.ekf4.gnss_sigma_floor_m=0.1"],
    ["limits.max_lateral_acceleration_mps2=7"],
    ["controller.name=mpc"],
    ["estimator.name=ins"],
    ["identifier.name=single_track"],
    ["sim.gnss.carrier=none", "sim.gnss.sigma_m=0.05", "sim.gnss.walk_sigma_m=0.2"],
]
DOCUMENTED_ART = [
    ["sim.steering.gain_rad=0.225", "sim.steering.dead_zone=0.1"],
    ["sim.steering.delay_s=0.8"],
    [
        "vehicle.steering.gain_rad=0.455",
        "vehicle.steering.max_wheel_rad=0.455",
        "vehicle.steering.offset_rad=0",
    ],
    ["vehicle.steering.delay_s=0.2", "sim.steering.delay_s=0.4"],
    ["sim.steering.max_wheel_rad=0.436", "sim.steering.offset_rad=0"],
    ["sim.gnss.model=recorded", "sim.gnss.carrier=none"],
    ["sim.gnss.model=random_walk_airsim"],
    [
        (
            'devices.scanner={driver="msglink", messages=["LaserScan"], rate_hz=20, '
            "lever_arm_m=[0.45, 0.0, 0.15]}"
        ),
        "sim.scene=post.toml",
    ],
]


@pytest.mark.parametrize("profile", names())
def test_shipped_profiles_give_no_false_alarm(profile: str) -> None:
    for overrides in [*DOCUMENTED, *(DOCUMENTED_ART if profile in ("art", "art_vesc") else [])]:
        loaded = load(profile, overrides)
        assert [
            str(note) for note in findings(loaded, on_road=True) if note.level != "note"
        ] == [], overrides


@pytest.mark.parametrize(
    ("profile", "twins"),
    [("art_twin", ("art_lfdm", "art_chrono", "art_measured")), ("hmmwv", ("hmmwv_lfdm",))],
)
def test_other_twins_give_no_false_alarm(profile: str, twins: tuple[str, ...]) -> None:
    for twin in twins:
        assert load(profile, [f"sim.twin.vehicle={twin}"]).findings == ()


def test_most_slips_of_one_profile_are_found() -> None:
    """``bench/profile_mutations.py`` measures all profiles; here one of them keeps the share from
    falling."""
    outcomes = profile_mutations.measure(["f1tenth"])
    share = {
        kind: sum(bool(each.level) for each in outcomes if each.kind == kind)
        / sum(each.kind == kind for each in outcomes)
        for kind in ("x1000", "/1000", "sign")
    }
    assert share["x1000"] > 0.95
    assert share["/1000"] > 0.9
    assert share["sign"] > 0.98
    angles = [
        each for each in outcomes if each.kind == "x57.3" and each.key.endswith(("_rad", "_radps"))
    ]
    assert angles
    assert all(each.level for each in angles), [each.key for each in angles if not each.level]


def test_the_nearest_unit_is_suggested_and_no_other() -> None:
    assert (
        did_you_mean("a.delay_s", 400.0, lambda value: value < 1.0)
        == "; did you mean 0.4 (400 milliseconds)?"
    )
    assert did_you_mean("a.delay_s", 4e9, lambda value: value < 1.0) == ""
    assert did_you_mean("a.unitless", 4e9, lambda value: True) == ""
    assert all(conversion.factor > 0.0 for group in CONVERSIONS.values() for conversion in group)


# ---------------------------------------------------------------- ports


def _devices(**ports: str) -> dict[str, DeviceTable]:
    devices = load("art_vesc").profile.devices
    template = devices["imu"], devices["drive"]
    return {name: _at(template[name.startswith("vesc")], port) for name, port in ports.items()}


def _at(device: DeviceTable, port: str) -> DeviceTable:
    from msgspec.structs import replace

    return replace(device, port=port)


def _levels(devices: dict[str, DeviceTable]) -> list[tuple[str, str]]:
    return [(note.path, note.level) for note in judge_ports(devices)]


def test_two_devices_on_one_line_are_an_error_by_whatever_name(tmp_path: Path) -> None:
    line, link = tmp_path / "ttyX", tmp_path / "by-id"
    line.touch()
    link.symlink_to(line)
    for other in (
        f"serial:{line}",
        f"serial:{link}",
        f"serial:{tmp_path}/../{tmp_path.name}/ttyX",
        f"can:slcan:{link}",
    ):
        found = _levels(_devices(a=f"serial:{line}?baud=921600", b=other + "?baud=921600"))
        assert ("devices.b.port", "error") in found, other
    assert (
        _levels(
            _devices(
                a="serial:/dev/serial/by-id/x?baud=921600",
                b="serial:/dev/serial/by-id/y?baud=921600",
            )
        )
        == []
    )


def test_two_devices_of_one_network_address_are_an_error() -> None:
    assert ("devices.b.port", "error") in _levels(
        _devices(a="tcp:Receiver.local:2000", b="tcp:receiver.LOCAL:2000")
    )
    assert ("devices.vesc_b.port", "error") in _levels(
        _devices(vesc_a="can:udp:239.1.1.1:4", vesc_b="can:udp:239.1.1.1:4?hop_limit=1")
    )
    assert ("devices.vesc_b.port", "error") in _levels(
        _devices(vesc_a="can:can0", vesc_b="can:can0")
    )
    assert _levels(_devices(vesc_a="can:can0", vesc_b="can:can1")) == []


def test_a_name_that_depends_on_plugging_and_a_slow_line_are_warnings() -> None:
    found = [
        note.message
        for note in judge_ports(
            _devices(a="serial:/dev/ttyACM0?baud=921600", b="serial:/dev/imu?baud=57600")
        )
    ]
    assert "/dev/serial/by-id" in found[0]
    assert "256000 baud, the line has 57600" in found[1]


def test_a_port_that_cannot_carry_what_the_driver_needs_is_an_error() -> None:
    (uart,) = judge_ports(_drive("vesc_uart", "can:can0"))
    assert (uart.path, uart.level) == ("devices.drive.port", "error")
    assert (
        'write serial:/dev/serial/by-id/NAME or tcp:HOST:PORT, or choose driver = "vesc_can"'
        in uart.message
    )
    (can,) = judge_ports(_drive("vesc_can", "serial:/dev/serial/by-id/vesc"))
    assert (
        "write can:can0, or can:slcan:/dev/ttyACM0 for a serial adapter, or choose driver = "
        '"vesc_uart"'
    ) in can.message
    assert list(judge_ports(_drive("vesc_can", "can:slcan:/dev/serial/by-id/vesc"))) == []
    assert list(judge_ports(_drive("vesc_uart", "tcp:192.0.2.7:4001"))) == []


def test_every_driver_of_a_wire_says_what_its_port_carries() -> None:
    silent = {
        name
        for name in registered("driver")
        if resolve("driver", name).transport not in ("stream", "frames", "datagrams")
    }
    assert silent == {"msglink"}, "it has the simulator's link, which carries anything"


def _drive(driver: str, port: str) -> dict[str, DeviceTable]:
    settings = "" if driver == "vesc_uart" else ", vesc_can = { controller_id = 1 }"
    loaded = load(
        "art_vesc",
        [f'devices.drive.driver={{ name = "{driver}"{settings} }}', f'devices.drive.port="{port}"'],
    )
    return {"drive": loaded.profile.devices["drive"]}


# ---------------------------------------------------------------- commands


def _written(tmp_path: Path, old: str, new: str) -> str:
    text = (PROFILES / "art.toml").read_text()
    assert old in text
    file = tmp_path / "mine.toml"
    file.write_text(text.replace(old, new, 1))
    return str(file)


def test_check_sim_and_run_refuse_the_same_errors(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _written(tmp_path, "gain_rad = 0.375 ", "gain_rad = 24 ")
    said = []
    for command in (
        ["check", file],
        ["sim", "--profile", file, "--no-log"],
        ["run", "--profile", file],
    ):
        assert main(command) != 0
        output = capsys.readouterr()
        said.append(
            next(
                line
                for line in (output.out + output.err).splitlines()
                if "vehicle.steering.gain_rad (line " in line
            )
        )
    assert len(set(said)) == 1
    assert "did you mean 0.4189 (24 degrees)?" in said[0]


def test_a_simulation_without_an_operator_is_refused_with_the_cure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = _written(
        tmp_path, '[devices.operator]\ndriver = "msglink"\nmessages = ["OperatorCommand"]\n', ""
    )
    assert main(["check", file]) == 0
    assert "warning: devices: no device gives OperatorCommand" in capsys.readouterr().out
    assert main(["sim", "--profile", file, "--no-log"]) != 0
    assert "add [devices.operator]" in capsys.readouterr().err


def test_a_course_outside_the_fence_is_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ring = [[7.0, 50.0], [7.0001, 50.0], [7.0001, 50.0001], [7.0, 50.0]]
    (tmp_path / "fence.geojson").write_text(
        f'{{"type": "FeatureCollection", "features": [{{"type": "Feature", "properties": {{}}, '
        f'"geometry": {{"type": "Polygon", "coordinates": [{ring}]}}}}]}}'
    )
    file = _written(
        tmp_path, 'course = "lot17" ', 'fence = "fence.geojson"\ncourse = "circle_r5_ccw" '
    )
    assert main(["check", file]) == 1
    assert "outside the fence" in capsys.readouterr().out
