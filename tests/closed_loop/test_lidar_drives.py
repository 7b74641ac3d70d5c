"""Whole drives with real scanners' bytes: the vehicle stops before what stands there, and for a
scanner that fails."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sim_backend.emulators.failures import parse_failure
from tests.busy_computer import WIDE_LIMITS
from tests.closed_loop.test_obstacle_stop import SENSORS, Drive, on_course, post
from tests.grid import sampled
from tests.lidar_bench import FAMILIES, MODELS, scanner
from vehicled.core.messages import Mode

PLACE = on_course(3.5)
FAILURES = ("off", "usb", "garbage", "motor_stops", "lidar_fault", "stuck", "brownout")
KEPT = {
    ("rplidar", "motor_stops"),
    ("hokuyo", "off"),
    ("ydlidar", "garbage"),
    ("sick", "lidar_fault"),
    ("ldrobot", "stuck"),
}


def drive(
    tmp_path: Path, overrides: list[str], scene: str, failures: tuple[str, ...] = ()
) -> Drive:
    """A drive of the course of the obstacle tests with this scanner on wires."""
    SENSORS["wires"] = tuple(overrides)
    found = Drive(
        tmp_path, scene, "wires", "wires", failures=[parse_failure(each) for each in failures]
    )
    del SENSORS["wires"]
    return found


@pytest.mark.parametrize(
    ("family", "model"),
    sampled(
        [(f, m) for f, models in MODELS.items() for m in models],
        lambda case: FAMILIES[case[0]][0] == case[1],
    ),
)
def test_it_stops_before_a_post_that_its_scanner_sees(
    family: str, model: str, tmp_path: Path
) -> None:
    found = drive(tmp_path, scanner(family, model), post(*PLACE))
    found.until(6.0, lambda t: PLACE)
    assert found.pair.machine.mode is Mode.STANDBY
    assert found.pair.machine.why.startswith("obstacle ahead: something stands 0.")
    assert found.codes == ["obstacle_in_sight", "obstacle_ahead"]
    assert 0.1 < found.nearest_m < 0.5
    assert abs(found.pair.world.motion.speed_mps) < 0.01


@pytest.mark.parametrize(
    ("family", "failures"),
    sampled(
        [("velodyne", ()), ("ouster", ()), ("velodyne", ("scanner:motor_stops@0.8+20",))],
        lambda case: case == ("velodyne", ()),
    ),
)
def test_a_3d_scanner_stops_the_vehicle_for_a_post_and_not_for_the_ground(
    family: str, failures: tuple[str, ...], tmp_path: Path
) -> None:
    params: dict[str, Any] = {"channels": 16, "columns": 512} if family == "ouster" else {}
    scan = scanner(family, **params, mounting_pitch_rad=0.1, height_max_m=1.0)
    found = drive(tmp_path, scan, post(*PLACE), failures)
    found.until(6.0, lambda t: PLACE)
    assert found.pair.machine.mode is Mode.STANDBY
    if not failures:
        assert found.codes == ["obstacle_in_sight", "obstacle_ahead"]
        assert found.nearest_m < 0.5
    assert found.nearest_m > 0.1
    assert abs(found.pair.world.motion.speed_mps) < 0.01


@pytest.mark.parametrize(
    ("family", "failure"),
    sampled(
        [(family, failure) for failure in FAILURES for family in FAMILIES],
        lambda case: case in KEPT,
    ),
)  # fmt: skip
def test_a_scanner_that_fails_stops_the_vehicle_before_it_could_meet_anything(
    family: str, failure: str, tmp_path: Path
) -> None:
    if (family, failure) == ("ldrobot", "brownout"):
        pytest.skip("it sends again at once")
    place = on_course(9.0)
    found = drive(tmp_path, scanner(family), post(*place), (f"scanner:{failure}@2.5+20",))
    found.until(9.0, lambda t: place)
    assert {"obstacle_sensor_silent", "obstacle_sensor_blind"} & set(found.codes)
    assert found.pair.machine.mode is Mode.STANDBY
    assert found.nearest_m > 0.1
    assert abs(found.pair.world.motion.speed_mps) < 0.01


@pytest.mark.parametrize("failure", ["no_returns", "rain=0.3", "mirror"])
def test_surroundings_that_deceive_it(failure: str, tmp_path: Path) -> None:
    """Glass alone is blind where the profile says how much returns. Rain stops the vehicle too
    early, never too late. A mirror hides nothing of what the other half of the scan shows."""
    walls = "[corridor]\nleft_m = 2.0\nright_m = 2.0\n"
    overrides = scanner("rplidar", "a2m8", least_returns=0.1)
    found = drive(tmp_path, overrides, walls + post(*PLACE), (f"scanner:{failure}@1.5+20",))
    found.until(6.0, lambda t: PLACE)
    assert abs(found.pair.world.motion.speed_mps) < 0.01
    assert found.nearest_m > 0.1
    if failure == "no_returns":
        assert "obstacle_sensor_blind" in found.codes


def test_a_scanner_upside_down_against_its_profile_still_stops_for_what_is_straight_ahead(
    tmp_path: Path,
) -> None:
    """Left and right are exchanged, so only the middle of the lane is safe: the page of the drivers
    says to check it."""
    found = drive(tmp_path, scanner("rplidar", "a2m8", upside_down="true"), post(*PLACE))
    found.until(6.0, lambda t: PLACE)
    assert found.nearest_m > 0.1


def test_drives_on_wires_repeat_to_the_bit(tmp_path: Path) -> None:
    digests = []
    for _ in range(2):
        found = drive(tmp_path, scanner("rplidar"), post(*PLACE))
        found.until(2.5)
        digests.append(found.digest)
    assert digests[0] == digests[1]


@pytest.mark.xdist_group("wall")
@pytest.mark.parametrize(
    "family", ["rplidar", "hokuyo", pytest.param("sick", marks=pytest.mark.soak)]
)
def test_it_stops_before_a_post_in_wall_time_over_a_terminal_and_over_tcp(
    family: str, tmp_path: Path
) -> None:
    (tmp_path / "scene.toml").write_text(post(*PLACE))
    port = "tcp:192.0.2.1:10940" if family == "hokuyo" else ""
    given = [
        *scanner(family, port=port),
        f"sim.scene={tmp_path / 'scene.toml'}",
        f"log.folder={tmp_path}",
    ]
    command = [
        sys.executable,
        "-m",
        "vehicled",
        "sim",
        "--profile",
        "art",
        "--course",
        "lot17",
        "--link",
        "wires",
    ]
    command += [
        "--clock",
        "wall",
        "--duration",
        "12",
        "--json",
        *WIDE_LIMITS,
        "--set",
        "limits.obstacle_silence_s=1.5",
        *[text for each in given for text in ("--set", each)],
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert "obstacle ahead: something stands" in done.stdout + done.stderr, (
        done.stdout + done.stderr
    )
    json.loads(done.stdout)
