"""Bad arguments: a message that names place and cure, status 2, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.closed_loop.conftest import ROOT
from vehicled.cli import main


def process(*arguments: str) -> subprocess.CompletedProcess[str]:
    """As users run it."""
    return subprocess.run([sys.executable, "-m", "vehicled", *arguments], cwd=ROOT, capture_output=True, text=True, timeout=60)


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
        (["sim", "--seed", "-1"], "whole number"),
        (["sim", "--plot", "lap.jpeg"], ".png"),
        (["sim", "--plot", "/nowhere/lap.png"], "/nowhere"),
        (["sim", "--set", "sim.step_ms=1e-9"], "step_ms"),
        (["sim", "--laps", "2", "--course", "straight_20m"], "open course"),
        (["devices", "decode", "README.md", "--type", "ublocks"], "ublox"),
        (["devices", "decode", "/nowhere.ubx", "--type", "ublox"], "/nowhere.ubx"),
        (["devices", "record", "pigeon:1", "-o", "x"], "serial:"),
        (["sim", "--log", "/proc/nowhere"], "/proc/nowhere"),
        (["sim", "--connect", "carrier-pigeon"], "tcp:HOST:PORT"),
        (["sim", "--connect", "unix:/nowhere/sock"], "vehicled simulator --listen"),
        (["sim", "--duration", "-3"], "--duration"),
        (["log", "info", "/nowhere.mcap"], "/nowhere.mcap"),
        (["log", "timing", "pyproject.toml"], "pyproject.toml"),
        (["log", "recover", "README.md"], "README.md"),
        (["simulator", "--listen", "tcp:no"], "tcp"),
    ],
)
def test_bad_arguments(
    arguments: list[str], named: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
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


@pytest.mark.parametrize(
    "arguments", [["sim", "--profile", "atr"], ["sim", "--duration", "-3"], ["sim", "--plot", "/nowhere/lap.png"]]
)
def test_the_process_ends_with_the_message_alone(arguments: list[str]) -> None:
    done = process(*arguments)
    assert done.returncode == 2
    assert arguments[-1].removesuffix("lap.png") in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_check_names_every_mistake_of_every_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = (ROOT / "profiles" / "art.toml").read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(good.replace("rate_hz = 400", "rate_hz = -400", 1).replace("wheelbase_m", "wheelbse_m", 1))
    assert main(["check", "art", str(bad), "lot17"]) == 1
    said = capsys.readouterr().out
    assert "profile 'art' is valid" in said
    assert "course is valid" in said
    assert "wheelbse_m" in said
    assert "rate_hz" in said


@pytest.mark.parametrize(
    ("arguments", "named"),
    [(["profiles"], "art"), (["courses"], "lot17_two_speed"), (["profiles", "--schema"], '"$schema"')],
)
def test_lists(arguments: list[str], named: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 0
    assert named in capsys.readouterr().out
