"""The command ``vehicled twin calibrate`` on recorded drives: what it takes, what it writes, what
it refuses."""

import re
import shutil
import tomllib
from pathlib import Path
from typing import NoReturn

import msgspec
import pytest

from sim_backend.plant.twin_file import load_twin, parse
from vehicled.cli import main
from vehicled.core.errors import SetupError
from vehicled.offline.twin import calibrate as twin_calibrate
from vehicled.offline.twin.calibrate import _runs
from vehicled.offline.twin.calibration.calibrate import CalibrationError
from vehicled.offline.twin.calibration.profile_write import with_values, written_profile
from vehicled.offline.twin.calibration.quantity import CalibratedNumber
from vehicled.profile import ProfileError, load_profile, loading

pytest.importorskip("scipy")


def test_the_command_writes_a_profile_that_loads_and_holds_the_numbers(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = shared_data / "art_steering_ramp_2023" / "steer_p04"
    out = tmp_path / "mine.toml"
    assert (
        main(
            [
                "twin",
                "calibrate",
                "--profile",
                "art_published",
                "--log",
                str(log),
                "--fit",
                "powertrain",
                "-o",
                str(out),
                "--json",
            ]
        )
        == 0
    )
    data = msgspec.json.decode(capsys.readouterr().out)
    sim = load_profile(str(out)).sim
    assert sim.drive is not None
    found = {one["name"]: one["value"] for one in data["found"]}
    assert sim.drive.stall_torque_nm == pytest.approx(found["torque"], rel=1e-5)
    assert data["summary"]["speed_mps"]["after"] < data["summary"]["speed_mps"]["before"]


def test_a_gain_beyond_the_stop_of_the_wheels_is_written_with_room_for_it(
    shared_data: Path, tmp_path: Path
) -> None:
    log = shared_data / "art_steering_ramp_2023" / "steer_p10"
    out = tmp_path / "mine.toml"
    assert (
        main(
            [
                "twin",
                "calibrate",
                "--profile",
                "art_published",
                "--log",
                str(log),
                "--fit",
                "steering",
                "-o",
                str(out),
            ]
        )
        == 0
    )
    before, after = (load_profile(name).sim.steering for name in ("art_published", str(out)))
    assert before is not None
    assert after is not None
    assert before.max_wheel_rad < after.gain_rad < after.max_wheel_rad


KEY = "sim.steering.gain_rad"
SPELLINGS = (
    "", "[sim]\n", "[sim]\nsteering.gain_rad = 0.3 # old\n", "[sim.steering]\nslack_rad = 0.0\n",
    "[sim.steering]\ngain_rad = 0.3",
    "[sim]\nsteering = { gain_rad = 0.3, x = 1 } # kept\n", "sim.steering.gain_rad = 0.3\n",
    "[ sim . steering ]\ngain_rad=0.3#old\n",
    "[sim.'steering']\n\"gain_rad\" = 0.3\n", "sim = { steering = {gain_rad = 0.3} }\n",
    "[sim.steering.deep]\nx = 1 # kept\n",
    "[sim.steering]\r\n# kept\r\ngain_rad = 0.3\r\nb = 2\r\n",
    "[sim.gnss]\na = 1\n[other]\nb = 2 # kept\n[sim.steering]\nc = 3\n",
)  # fmt: skip


@pytest.mark.parametrize("text", SPELLINGS)
def test_a_number_is_written_into_every_spelling_of_its_table(text: str) -> None:
    written = written_profile(
        text, [CalibratedNumber(key=KEY, value=0.4, sigma=0.01, before=0.3)], "x"
    )
    values = tomllib.loads(text)
    values.setdefault("sim", {}).setdefault("steering", {})["gain_rad"] = 0.4
    assert tomllib.loads(written) == values
    assert written.count("# kept") == text.count("# kept")
    assert ("# calibrated, sigma 0.01" in written) == ("{" not in text)


def test_a_table_that_is_something_else_is_refused_by_its_key() -> None:
    with pytest.raises(
        ProfileError, match=r"estimator: is no table here, and estimator\.planar\.x needs one"
    ):
        with_values('estimator = "planar"\n', {"estimator.planar.x": "1.0"})
    with pytest.raises(ProfileError, match="not valid TOML"):
        with_values("[sim\n", {KEY: "1.0"})


DOTTED = """
yaw_inertia_kgm2.value = 1.0
yaw_inertia_kgm2.status = "assumed"
yaw_inertia_kgm2.origin = "us"
yaw_inertia_kgm2.spread = 0.3
"""


def test_a_file_that_has_no_place_for_the_numbers_is_reported_before_the_drives_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin, profile = tmp_path / "twin.toml", tmp_path / "profile.toml"
    twin.write_text(re.sub(r"\nyaw_inertia_kgm2 = .*\n", DOTTED, load_twin("art_lfdm").source))
    source = loading.load("art").source.replace("[sim.steering]", "[ sim.steering ]")
    profile.write_text(re.sub(r"\noffset_rad = .*", "", source))
    out = str(tmp_path / "out.toml")
    assert load_twin(str(twin)).parameters.body.yaw_inertia_kgm2 == 1.0
    assert load_profile(str(profile)).name == "art"
    for words, why in (
        (
            ["--vehicle", str(twin), "--fit", "inertia"],
            "yaw_inertia_kgm2 = { value = ..., ... } on a line; write it so",
        ),
        (["--profile", str(profile), "--fit", "steering"], "there is no such file"),
        (["--vehicle", str(twin), "--fit", "steering"], "there is no such file"),
    ):
        assert (
            main(["twin", "calibrate", *words, "--log", str(tmp_path / "none.csv"), "-o", out]) == 2
        )
        assert why in capsys.readouterr().err


def test_numbers_are_shown_though_their_file_cannot_be_written(
    shared_data: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(file: Path, text: str) -> None:
        raise SetupError(f"{file} cannot be written (No space left on device)")

    monkeypatch.setattr(twin_calibrate, "write_output", full)
    log = shared_data / "art_steering_ramp_2023" / "steer_m10"
    words = [
        "--profile",
        "art_published",
        "--log",
        str(log),
        "--fit",
        "powertrain",
        "-o",
        str(tmp_path / "a.toml"),
    ]
    assert main(["twin", "calibrate", *words]) == 2
    shown = capsys.readouterr()
    assert "torque" in shown.out
    assert "No space left" in shown.err


def test_a_twin_is_called_by_its_file_as_far_as_a_name_may_go(tmp_path: Path) -> None:
    text = twin_calibrate._written(
        load_twin("nigel"), [], tmp_path / f"Grün-{'x' * 80}.toml", "drives"
    )
    assert parse(text, "").parameters.identity.name == f"gr_n_{'x' * 59}"


def test_a_drive_of_another_vehicle_is_named_before_the_fit(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_fit(*_: object, **__: object) -> NoReturn:
        raise CalibrationError("no fit")

    monkeypatch.setattr(twin_calibrate, "calibrate", no_fit)
    log = Path(__file__).parents[1] / "golden" / "replay" / "messages.mcap"
    for fitted, said in (
        ("nigel", f"note: {log} was driven by profile art, not nigel\n"),
        ("art", ""),
    ):
        assert main(["twin", "calibrate", "--profile", fitted, "--log", str(log)]) == 2
        assert capsys.readouterr().err == f"{said}vehicled: no fit\n"


def test_one_file_is_one_drive_and_two_of_one_name_are_refused(
    shared_data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "art_steering_ramp_2023"
    for name in ("steer_p04", "steer_p10"):
        shutil.copytree(shared_data / "art_steering_ramp_2023" / name, folder / name)
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "steer_p10").symlink_to(folder / "steer_p10")
    inside = str(folder / "steer_p10" / "test0_motion.csv")
    runs, held_out = _runs([str(folder), str(tmp_path / "other" / "steer_p10")], [inside])
    assert len(runs) == len({run.name for run in runs})
    assert held_out == {"art_steering_ramp_2023/steer_p10/test0_motion"}
    copy = tmp_path / "copies" / "steer_p04"
    shutil.copytree(folder / "steer_p10", copy)
    assert (
        main(
            [
                "twin",
                "calibrate",
                "--profile",
                "art_published",
                "--log",
                str(folder / "steer_p04"),
                str(copy),
            ]
        )
        == 2
    )
    said = capsys.readouterr().err
    assert str((folder / "steer_p04" / "test0_motion.csv").resolve()) in said
    assert str(copy / "test0_motion.csv") in said


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--fit", "wings"], "choose from powertrain, steering, tyres, inertia"),
        (["--folds", "1"], "use 0 for none, or 2 or more"),
        (["-o", "/nowhere/at/all.toml"], "choose a file in an existing, writable folder"),
        (["--plot", "picture.gif"], "the name must end in .png, .svg, .pdf"),
        (["--hold-out", "nothing*"], "no run matches"),
    ],
)
def test_arguments_that_cannot_be_used_are_refused(
    more: list[str], why: str, shared_data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = str(shared_data / "art_steering_ramp_2023" / "steer_m10")
    assert main(["twin", "calibrate", "--profile", "art_published", "--log", log, *more]) == 2
    assert why in capsys.readouterr().err
