"""The command ``vehicled setup``: what it writes into a profile, what it refuses, and the
checklist."""

import socket
from argparse import Namespace
from pathlib import Path

import pytest

from sim_backend.hand import HandError, parse_move
from vehicled.cli import main
from vehicled.cli.setup import done_steps, setup, with_done, with_measured
from vehicled.core.errors import SetupError
from vehicled.live.setup.checklist import checklist
from vehicled.live.setup.steps import BY_NAME, STEPS, missing
from vehicled.profile import load, load_profile, parse

pytest.importorskip("tomlkit")
VALUES = {
    "devices.imu.driver.n100.mounting_yaw_rad": "1.57  # measured 2026-11-27, sigma 0.03 rad",
    "devices.imu.driver.n100.mounting_roll_rad": "3.14  # measured 2026-11-27, sigma 0.006 rad",
    "vehicle.drive.delay_s": "0.04  # measured 2026-11-27, sigma 0.008 s",
}


def test_a_driver_that_is_a_name_alone_becomes_a_table_and_comments_stay(tmp_path: Path) -> None:
    head = '# mine\nname = "mine"\nbase = "f1tenth_gnss"\nwithout = ["devices.imu.driver"]\n'
    source = head + '\n[devices.imu]\ndriver = "n100"  # cheap\n'
    text = with_measured(source, VALUES)
    profile = parse(text, beside=tmp_path).profile
    assert profile.devices["imu"].driver.selected.mounting_yaw_rad == 1.57
    assert profile.vehicle.drive.delay_s == 0.04
    assert text.startswith("# mine\n")
    assert "# measured 2026-11-27, sigma 0.03 rad; measured 2026-11-27, sigma 0.006 rad" in text
    again = with_measured(
        text, {key: value.replace("1.57", "1.5") for key, value in VALUES.items()}
    )
    assert (
        parse(again, beside=tmp_path).profile.devices["imu"].driver.selected.mounting_yaw_rad == 1.5
    )


def test_the_steps_that_are_done_are_kept_in_one_line() -> None:
    text = with_done(with_done("a = 1\n", "push", "2026-11-27"), "circle", "2026-11-28")
    assert text == "# Set up: push 2026-11-27, circle 2026-11-28\na = 1\n"
    assert done_steps(with_done(text, "push", "2026-12-01")) == {
        "push": "2026-12-01",
        "circle": "2026-11-28",
    }
    assert done_steps("a = 1\n") == {}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--profile", "f1tenth_gnss"], "comes with vehicled and is not changed"),
        ([], "name your own profile"),
        (["--profile", "f1tenth_gnss", "fly"], 'no step "fly"'),
    ],
)
def test_what_cannot_be_set_up_is_refused(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["setup", *arguments]) == 2
    assert text in capsys.readouterr().err


def test_the_set_up_needs_a_terminal(tmp_path: Path) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nbase = "f1tenth_gnss"\n')
    with pytest.raises(SetupError, match="start it in a terminal"):
        setup(Namespace(profile=str(file), steps=[], list=False, page=None))


def test_a_page_says_when_its_address_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "mine.toml"
    file.write_text('name = "mine"\nbase = "f1tenth_gnss"\n')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        assert main(["setup", "--profile", str(file), "--page", address]) == 2
    assert f"cannot listen on {address}" in capsys.readouterr().err


def test_steps_that_a_vehicle_cannot_do_are_left_out_with_a_reason() -> None:
    assert missing(BY_NAME["push"], load_profile("f1tenth_gnss")) == ""
    assert "no device with a port sends ImuSample" in missing(
        BY_NAME["imu"], load_profile("f1tenth")
    )
    assert "nothing in the profile reports a speed" in missing(
        BY_NAME["circle"], load_profile("f1tenth")
    )


def test_the_checklist_names_what_is_open() -> None:
    loaded = load("f1tenth_gnss")
    texts = {
        item.state: item.text for item in reversed(checklist(loaded.profile, loaded.findings, []))
    }
    assert "steps not done yet: ports, accelerometer" in texts["look"]
    done = [
        item.text
        for item in checklist(loaded.profile, loaded.findings, [step.name for step in STEPS])
        if item.state == "ok"
    ]
    assert "every step of the set-up is done" in done
    assert any(
        "no independent stop" in item.text
        for item in checklist(loaded.profile, loaded.findings, [])
    )


@pytest.mark.parametrize(
    "line", ["push", "push 0", "turn x", "block 3", "jump 1", "", "pitch nan", "push 1e9"]
)
def test_a_line_that_is_no_move_is_refused(line: str) -> None:
    with pytest.raises(HandError, match="is no move"):
        parse_move(line)
