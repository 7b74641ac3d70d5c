"""The command ``vehicled twin calibrate`` on recorded drives: what it takes, what it writes, what it refuses."""

import shutil
from pathlib import Path

import msgspec
import pytest

from sim_backend.calibration.profile_write import written_profile
from sim_backend.calibration.quantity import Figure
from vehicled.cli import main
from vehicled.cli.twin_calibrate import _runs
from vehicled.profile import ProfileError, load_profile

pytest.importorskip("scipy")


def test_the_command_writes_a_profile_that_loads_and_holds_the_numbers(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = shared_data / "art_steering_ramp_2023" / "steer_p04"
    out = tmp_path / "mine.toml"
    assert main(["twin", "calibrate", "--profile", "art", "--log", str(log), "--fit", "powertrain", "-o", str(out), "--json"]) == 0
    data = msgspec.json.decode(capsys.readouterr().out)
    sim = load_profile(str(out)).sim
    assert sim.drive is not None
    found = {one["name"]: one["value"] for one in data["found"]}
    assert sim.drive.stall_torque_nm == pytest.approx(found["torque"], rel=1e-5)
    assert data["summary"]["speed_mps"]["after"] < data["summary"]["speed_mps"]["before"]


def test_a_gain_beyond_the_stop_of_the_wheels_is_written_with_room_for_it(shared_data: Path, tmp_path: Path) -> None:
    log = shared_data / "art_steering_ramp_2023" / "steer_p10"
    out = tmp_path / "mine.toml"
    assert main(["twin", "calibrate", "--profile", "art", "--log", str(log), "--fit", "steering", "-o", str(out)]) == 0
    before, after = (load_profile(name).sim.steering for name in ("art", str(out)))
    assert before is not None
    assert after is not None
    assert before.max_wheel_rad < after.gain_rad < after.max_wheel_rad


def test_a_number_whose_table_has_no_header_is_refused_by_its_key() -> None:
    figure = Figure(key="sim.steering.gain_rad", value=0.4, sigma=0.01, before=0.3)
    with pytest.raises(ProfileError, match=r"no header \[sim.steering\]"):
        written_profile("[sim]\nsteering.gain_rad = 0.3\n", [figure], "")
    assert "[sim.steering]\ngain_rad = 0.4 " in written_profile("[sim.steering]\nslack_rad = 0.0\n", [figure], "")


def test_one_file_is_one_drive_and_two_of_one_name_are_refused(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shared_data / "art_steering_ramp_2023"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "steer_p10").symlink_to(folder / "steer_p10")
    inside = str(folder / "steer_p10" / "test0_motion.csv")
    runs, held_out = _runs([str(folder), str(tmp_path / "other" / "steer_p10")], [inside])
    assert len(runs) == len({run.name for run in runs})
    assert held_out == {"art_steering_ramp_2023/steer_p10/test0_motion"}
    copy = tmp_path / "copies" / "steer_p04"
    shutil.copytree(folder / "steer_p10", copy)
    assert main(["twin", "calibrate", "--profile", "art", "--log", str(folder / "steer_p04"), str(copy)]) == 2
    said = capsys.readouterr().err
    assert str(folder / "steer_p04" / "test0_motion.csv") in said
    assert str(copy / "test0_motion.csv") in said


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--fit", "wings"], "there are powertrain, steering, tyres, inertia"),
        (["--folds", "1"], "0 for none, else 2 or more"),
        (["-o", "/nowhere/at/all.toml"], "name a file in a folder that is there"),
        (["--plot", "picture.gif"], "the name must end in .png, .svg, .pdf"),
        (["--hold-out", "nothing*"], "no run has such a name"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(
    more: list[str], why: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(shared_data / "art_steering_ramp_2023" / "steer_m10")
    assert main(["twin", "calibrate", "--profile", "art", "--log", log, *more]) == 2
    assert why in capsys.readouterr().err
