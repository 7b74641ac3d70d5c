"""Bad arguments: a message that names place and cure, status 2, no traceback."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.closed_loop.conftest import ROOT


def vehicled(*arguments: str) -> subprocess.CompletedProcess[str]:
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
def test_bad_arguments(arguments: list[str], named: str) -> None:
    done = vehicled(*arguments)
    assert done.returncode == 2
    assert named in done.stderr
    assert "Traceback" not in done.stderr


def test_check_names_every_mistake_of_every_file(tmp_path: Path) -> None:
    good = (ROOT / "profiles" / "art.toml").read_text()
    bad = tmp_path / "bad.toml"
    bad.write_text(good.replace("rate_hz = 400", "rate_hz = -400", 1).replace("wheelbase_m", "wheelbse_m", 1))
    done = vehicled("check", "art", str(bad), "lot17")
    assert done.returncode == 1
    assert "profile 'art' is valid" in done.stdout
    assert "course is valid" in done.stdout
    assert "wheelbse_m" in done.stdout
    assert "rate_hz" in done.stdout


def test_lists() -> None:
    assert "art" in vehicled("profiles").stdout
    assert "lot17_two_speed" in vehicled("courses").stdout
    assert '"$schema"' in vehicled("profiles", "--schema").stdout
