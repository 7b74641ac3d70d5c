"""Contradictions between keys, and the remarks of ``vehicled check``."""

import pytest

from vehicled.profile import Note, ProfileError, check, load, load_profile

SCANNER = "devices.scanner={driver='hokuyo', messages=['LaserScan']}"
CONTRADICTIONS = [
    (
        ["tasks.control.deadline_ms=101"],
        "tasks.control.deadline_ms",
        "more than 10 periods of 10 ms",
    ),
    (["tasks.fusion.phase_ms=5"], "tasks.fusion.phase_ms", "not less than the period of 5 ms"),
    (
        [
            "tasks.control.declared_us=9000",
            "tasks.actuation.declared_us=500",
            "tasks.ingestion.declared_us=100",
        ],
        "tasks",
        "101% of a core (ingestion 4%, fusion 2%, control 90%, actuation 5%)",
    ),
    (
        ["devices.gnss.messages=['GnssFix', 'GnssFix']"],
        "devices.gnss.messages",
        "named twice: GnssFix",
    ),
    (
        ["devices.gnss.capabilities.brake=true"],
        "devices.drive.mix",
        "missing table: beside gnss, say what its outputs get",
    ),
    (["devices.gnss.capabilities.brake=true"], "devices.gnss.messages", "must carry"),
    (
        ["devices.second={driver='msglink', messages=['ActuatorCommand']}"],
        "devices.second.mix",
        "missing table: beside drive",
    ),
    (
        ["devices.second={driver='msglink', messages=['ActuatorCommand']}"],
        "devices.second.capabilities",
        "missing table",
    ),
    (["devices.gnss.mix.motor.throttle=1"], "devices.gnss.mix", "the device is no actuator"),
    (["devices.drive.mix.motor.left=1"], "devices", "only the left side is driven"),
    (["devices.drive.mix.motor.steering=1"], "devices", "nothing drives"),
    (["devices.drive.mix.motor.throttle=1"], "devices", "nothing steers"),
    (
        [
            "devices.drive={driver='pwm_board',messages=['ActuatorCommand'],capabilities={},mix={m1={throttle=1}}}"
        ],
        "devices.drive.mix.m1",
        "no such output; it has motor, servo",
    ),
    (
        [
            "devices.drive={driver='pwm_board',messages=['ActuatorCommand'],capabilities={},mix={servo={throttle=1}}}"
        ],
        "devices.drive.mix.servo",
        "the output is a servo, which gets steering, not throttle",
    ),
    (
        ["devices.drive={driver='msglink', messages=['ActuatorCommand']}"],
        "devices.drive.capabilities",
        "missing table",
    ),
    (
        ["devices.drive={driver='msglink', messages=['MotorStatus']}"],
        "devices",
        "no device is the actuator",
    ),
    (["devices.truth={driver='msglink'}"], "devices.truth", "is a port of the simulator link"),
    (
        ["devices.ins={driver='sbg', messages=['ReferenceState', 'GnssFix']}"],
        "devices.ins.messages",
        "judges; remove GnssFix",
    ),
    (
        ["devices.ins={driver='n100', messages=['ReferenceState']}"],
        "devices.ins.messages",
        "n100 gives no ReferenceState",
    ),
    (
        [
            "devices.a={driver='sbg', messages=['ReferenceState']}",
            "devices.b={driver='sbg', messages=['ReferenceState']}",
        ],
        "devices.b.messages",
        'a second reference beside "a"',
    ),
    (
        ["limits.estimate_silence_s=0.005"],
        "limits.estimate_silence_s",
        "one period of tasks.fusion (0.005 s at 200 Hz)",
    ),
    (
        ["limits.gnss_silence_s=0.1"],
        "limits.gnss_silence_s",
        "one period of devices.gnss (0.1 s at 10 Hz)",
    ),
    (
        ["limits.gnss_refusals=6"],
        "limits.gnss_refusals",
        "more than estimator.planar.max_rejections = 5",
    ),
    (
        ["estimator.name=ins", "estimator.ins.max_rejections=4"],
        "limits.gnss_refusals",
        "than estimator.ins.max_rejections = 4",
    ),
    (["devices.imu.rate_hz=20"], "limits.imu_silence_s", "one period of devices.imu"),
    (["tasks.actuation.rate_hz=5"], "sim.command_timeout_s", "one period of tasks.actuation"),
    (["vehicle.length_m=0.4"], "vehicle.wheelbase_m", "more than length_m = 0.4"),
    (
        ["vehicle.front_overhang_m=0.3"],
        "vehicle.front_overhang_m",
        "and the wheelbase are more than length_m = 0.6",
    ),
    (["vehicle.track_m=0.5"], "vehicle.track_m", "more than width_m = 0.4"),
    (["vehicle.drive.friction_nm=0.09"], "vehicle.drive.friction_nm", "could never move"),
    (["sim.drive.stall_torque_nm=0.01"], "sim.drive.friction_nm", "could never move"),
    (
        ["sim.steering.offset_rad=-0.4"],
        "sim.steering.offset_rad",
        "gain_rad = 0.335; the vehicle could turn one way only",
    ),
    (["sim.battery.full_v=7"], "sim.battery.full_v", "less than nominal_v = 7.4"),
    (["localisation.map='hall.yaml'"], "localisation.map", 'no device gives "LaserScan"'),
    (
        ["localisation.map='hall.yaml'", SCANNER, "localisation.scanner='imu'"],
        "localisation.scanner",
        "no LaserScan; scanner does",
    ),
    (
        ["localisation.map='hall.yaml'", SCANNER, "estimator.name=ekf4"],
        "estimator.name",
        "choose planar or ins",
    ),
    (["log.quota_mb=100"], "log.rotate_mb", "more than quota_mb = 100"),
]


@pytest.mark.parametrize(("overrides", "path", "part"), CONTRADICTIONS)
def test_contradiction(overrides: list[str], path: str, part: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load("art_published", overrides)
    found = {problem.path: problem.message for problem in caught.value.problems}
    assert path in found, found
    assert part in found[path]


@pytest.mark.parametrize(
    "overrides",
    [
        ["tasks.control.deadline_ms=100"],
        ["tasks.control.rate_hz=60"],
        ["tasks.control.rate_hz=400"],
        ["tasks.fusion.rate_hz=50"],
        ["tasks.control.declared_us=9000"],
        ["limits.gnss_silence_s=0.11"],
        ["limits.gnss_refusals=3"],
        ["limits.gnss_refusals=7", "estimator.planar.max_rejections=7"],
        ["devices.drive.capabilities={}"],
        ["devices.drive.messages=[]"],
    ],
)
def test_what_is_unusual_and_possible_is_accepted(overrides: list[str]) -> None:
    assert load_profile("art", overrides).name == "art"


def test_a_wrong_key_beside_them_does_not_hide_a_contradiction() -> None:
    with pytest.raises(ProfileError) as caught:
        load(
            "art",
            [
                "limits.corridor_m=-1",
                "limits.gnss_silence_s=0.1",
                "tasks.control.policy=wait",
                "tasks.control.phase_ms=99",
            ],
        )
    assert {problem.path for problem in caught.value.problems} == {
        "limits.corridor_m", "limits.gnss_silence_s", "tasks.control.policy",
        "tasks.control.phase_ms",
    }  # fmt: skip


def test_a_wrong_value_is_not_replaced_by_its_default_when_judging() -> None:
    with pytest.raises(ProfileError) as caught:
        load("art", ["sim.battery.nominal_v=12", "sim.battery.full_v=high"])
    assert [problem.path for problem in caught.value.problems] == ["sim.battery.full_v"]


def notes(*overrides: str, profile: str = "art") -> dict[str, Note]:
    return {
        note.path: note
        for note in check(load_profile(profile, ["course=circle_r5_ccw", *overrides]))
    }


@pytest.mark.parametrize("profile", ["art", "art_published"])
def test_nothing_to_remark_on_art_but_that_it_has_no_independent_stop(profile: str) -> None:
    assert [(path, note.level) for path, note in notes(profile=profile).items()] == [
        ("safety.independent_stop", "note")
    ]


@pytest.mark.parametrize(
    ("overrides", "path", "part"),
    [
        (["limits.max_speed_mps=3.5"], "limits.max_speed_mps", "tops out at 3.00 m/s"),
        (['estimator.name="ekf4_published"'], "estimator.name", "drive with ekf4"),
        (["limits.max_speed_mps=0.4"], "limits.capped_speed_mps", "never acts"),
        (
            ["vehicle.steering.max_wheel_rad=0.4"],
            "vehicle.steering.max_wheel_rad",
            "turns the wheel by 0.353 rad at most",
        ),
        (
            ["devices.drive.capabilities.brake=true"],
            "devices.drive.capabilities.brake",
            "has a brake",
        ),
        (
            ["vehicle.drive.brake_deceleration_mps2=3"],
            "devices.drive.capabilities.brake",
            "has no brake",
        ),
        (["tasks.control.declared_us=7000"], "tasks.control.declared_us", "every release misses"),
        (
            ["sim.steering.gain_rad=0.2"],
            "sim.steering.gain_rad",
            "the twin has 0.2 where [vehicle] believes 0.335",
        ),
        (["sim.wheelbase_m=0.46"], "sim.wheelbase_m", "the twin has 0.46"),
        (
            ["sim.gnss.rate_hz=5"],
            "devices.gnss.rate_hz",
            "10 Hz, but the twin sends at sim.gnss.rate_hz = 5",
        ),
    ],
)
def test_note(overrides: list[str], path: str, part: str) -> None:
    found = notes(*overrides, profile="art_published")
    assert path in found, found
    assert part in found[path].message
    assert found[path].level != "error"


def test_a_course_that_is_not_there_is_serious() -> None:
    note = notes("course=no_such_course")["course"]
    assert note.level == "error"
    assert "no_such_course" in note.message


@pytest.mark.parametrize(("device", "message"), [("gnss", "GnssFix"), ("imu", "ImuSample")])
def test_a_profile_without_what_the_estimator_needs_is_serious(device: str, message: str) -> None:
    note = notes(f"devices.{device}.messages=[]")["devices"]
    assert note.level == "error"
    assert f"no device gives {message}" in note.message
    assert "estimator" in note.message


@pytest.mark.parametrize(
    ("rate_hz", "silence_s", "noted"), [(50, 0.05, True), (100, 0.05, False), (50, 0.1, False)]
)
def test_an_imu_may_lose_a_few_samples(rate_hz: int, silence_s: float, noted: bool) -> None:
    profile = load_profile(
        "art", [f"devices.imu.rate_hz={rate_hz}", f"limits.imu_silence_s={silence_s}"]
    )
    found = [note for note in check(profile) if note.path == "limits.imu_silence_s"]
    assert bool(found) is noted
    assert all("write 0.1 or more" in note.message and note.level != "error" for note in found)
