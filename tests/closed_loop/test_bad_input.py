"""Bad arguments: a message that names place and cure, status 2, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.busy_computer import DEADLINE_S
from tests.closed_loop.conftest import ROOT
from vehicled.cli import main
from vehicled.run.command_line import PASSING_STATUS

WHOLE = ROOT / "tests" / "golden" / "profiles" / "art_published_whole.toml"
"""A profile without a base."""


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as users do."""
    return subprocess.run(
        [sys.executable, "-m", "vehicled", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["sim", "--profile", "atr"], "art"),
        (["sim", "--course", "lot71"], "lot17"),
        (["sim", "--course", "/nowhere/path.csv"], "/nowhere/path.csv"),
        (["sim", "--controller", "pure_persuit"], "pure_pursuit"),
        (["sim", "--set", "tasks.control.rate=60"], "rate_hz"),
        (["sim", "--set", "nonsense"], "table.key=value"),
        (["sim", "--link", "wires", "--set", "devices.imu.driver=msglink"], "--link messages"),
        (["sim", "--fail", "gnss:sulking@3"], "sulking"),
        (["sim", "--seed", "-1"], "expected a whole number from 0 up, not '-1'"),
        (["sim", "--plot", "lap.jpeg"], ".png"),
        (["sim", "--plot", "/nowhere/lap.png"], "/nowhere"),
        (["sim", "--set", "sim.step_ms=1e-9"], "step_ms"),
        (["sim", "--laps", "2", "--course", "straight_20m"], "open course"),
        (["devices", "decode", "README.md", "--type", "ublocks"], "ublox"),
        (["devices", "decode", "/nowhere.ubx", "--type", "ublox"], "/nowhere.ubx"),
        (["devices", "record", "pigeon:1", "-o", "x"], "write tcp:pigeon:1"),
        (["sim", "--log", "/proc/nowhere"], "/proc/nowhere"),
        (["sim", "--connect", "carrier-pigeon"], "tcp:HOST:PORT"),
        (["sim", "--duration", "-3"], "--duration: expected a number of seconds above 0"),
        (
            ["record-path", "x.mcap", "--spacing", "wide"],
            "--spacing: expected a spacing from 0.02 to 10 m, not 'wide'",
        ),
        (["log", "info", "/nowhere.mcap"], "/nowhere.mcap"),
        (["log", "timing", "pyproject.toml"], "pyproject.toml"),
        (["log", "recover", "README.md"], "README.md"),
        (["simulator", "--listen", "tcp:no"], "tcp"),
    ],
)
def test_bad_arguments(
    arguments: list[str],
    named: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(ROOT)
    try:
        status = main(arguments)
    except SystemExit as end:
        # The parser's own way out.
        status = int(end.code or 0)
    assert status == 2
    said = capsys.readouterr().err
    assert named in said
    assert "Traceback" not in said


def test_a_simulator_that_is_not_there_yet_is_a_passing_fault(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["sim", "--connect", "unix:/nowhere/sock"]) == PASSING_STATUS
    assert "vehicled simulator --listen" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        ["sim", "--profile", "atr"],
        ["sim", "--duration", "-3"],
        ["sim", "--plot", "/nowhere/lap.png"],
    ],
)
def test_the_process_ends_with_the_message_alone(arguments: list[str]) -> None:
    done = process(*arguments)
    assert done.returncode == 2
    assert arguments[-1].removesuffix("lap.png") in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize(
    ("more", "named"),
    [
        (["--log", "/proc/nowhere"], "/proc/nowhere"),
        (
            ["--clock", "wall", "--no-log", "--view", "nowhere.invalid:8765"],
            "cannot listen on nowhere.invalid:8765",
        ),
        (["--set", "sim.plant=foo"], 'sim.plant "foo" is not known'),
        (["--set", "sim.scene=nosuch.toml"], "nosuch.toml"),
    ],
)
def test_of_daemon_and_simulator_one_says_why_they_do_not_begin(
    more: list[str], named: str
) -> None:
    done = process("sim", "--quiet", *more)
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("vehicled: ")
    assert named in line


def test_check_names_every_mistake_of_every_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = WHOLE.read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(
        good.replace("rate_hz = 400", "rate_hz = -400", 1).replace("wheelbase_m", "wheelbse_m", 1)
    )
    assert main(["check", "art", str(bad), "lot17"]) == 1
    said = capsys.readouterr().out
    assert "profile 'art' is valid" in said
    assert "course is valid" in said
    assert "wheelbse_m" in said
    assert "rate_hz" in said


FIX = 'port = "serial:/dev/serial/by-id/usb-u-blox_AG_-_www.u-blox.com_u-blox_GNSS_receiver-if00"'
"""The port of the first receiver."""


@pytest.mark.parametrize(
    ("was", "becomes", "named"),
    [
        (
            FIX,
            'port = "/dev/ttyACM0"',
            "devices.gnss.port (line LINE): '/dev/ttyACM0' is not a port address",
        ),
        (
            FIX,
            'port = "serail:/dev/x"',
            "devices.gnss.port (line LINE): 'serail:/dev/x' is not a port address",
        ),
        (
            FIX,
            'port = "serial:/dev/x?baud=abc"',
            "devices.gnss.port (line LINE): 'serial:/dev/x?baud=abc': baud",
        ),
        (FIX, 'port = "serial:/dev/x?baudrate=9600"', "did you mean 'baud'?"),
        ('course = "lot17"', 'course = "nosuch"', 'course (line LINE): no course "nosuch"'),
        (
            'course = "lot17"',
            'course = "three_point_turn"',
            "course (line LINE): course 'three_point_turn' has reverse legs",
        ),
        ('course = "lot17"', 'course = "lot17"\nfence = "nosuch.geojson"', "cannot read"),
        ('course = "lot17"', 'course = "lot17"\nfence = "art.toml"', "fence (line 24): art.toml"),
        (
            'plant = "four_dof"',
            'plant = "foo"',
            'sim.plant (line LINE): "foo" is not known; use one of double_track, four_dof',
        ),
        ("[log]", '[view]\naddress = "[::"\n[log]', "view.address (line"),
    ],
)
def test_check_refuses_what_a_drive_would_refuse(
    was: str, becomes: str, named: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = WHOLE.read_text()
    assert text.count(was) == 1
    (tmp_path / "art.toml").write_text(text)
    bad = tmp_path / "bad.toml"
    bad.write_text(text.replace(was, becomes))
    assert main(["check", str(tmp_path / "art.toml"), str(bad)]) == 1
    said = capsys.readouterr().out
    assert f"{tmp_path / 'art.toml'}: profile 'art_published' is valid" in said
    assert f"{bad}: 1 problem\n" in said
    assert named.replace("LINE", str(text[: text.index(was)].count("\n") + 1)) in said


def test_check_names_what_a_drive_would_refuse_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "bad.toml"
    text = WHOLE.read_text()
    text = (
        text.replace(FIX, 'port = "gnss"')
        .replace('"lot17"', '"nosuch"')
        .replace('"four_dof"', '"foo"')
    )
    bad.write_text(text.replace("[log]", '[view]\naddress = "no-such-host.invalid"\n[log]'))
    assert main(["check", str(bad), str(tmp_path)]) == 1
    said = capsys.readouterr().out
    assert "3 problems" in said
    assert said.index('"nosuch"') < said.index("devices.gnss.port") < said.index('"foo"')
    assert said.count("nosuch") == 1
    assert "this computer cannot resolve 'no-such-host.invalid'" in said
    assert f"{tmp_path}: is a folder" in said


def test_check_takes_a_profile_without_ports(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = tmp_path / "bare.toml"
    bare.write_text(WHOLE.read_text().replace(FIX, ""))
    assert main(["check", str(bare)]) == 0


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["profiles"], "art"),
        (["courses"], "lot17_two_speed"),
        (["profiles", "--schema"], '"$schema"'),
    ],
)
def test_lists(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert named in capsys.readouterr().out
