"""The units are what systemd understands, what the daemon relies on, and as closed as a daemon with
devices can be."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from vehicled.cli.installation import SETTINGS
from vehicled.live.control_socket.socket_path import GROUP
from vehicled.run.command_line import PASSING_STATUS, USAGE_STATUS
from vehicled.runtime.realtime import FIFO_PRIORITY, RealtimeRequest

WORST_SCORE = 2.3


def tool(name: str) -> str:
    """Its path, or a skipped test."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"the program {name} is not installed")
    return path


def settings(project_root: Path) -> dict[str, list[str]]:
    """Values by key, in the order of the unit."""
    found: dict[str, list[str]] = {}
    for line in (project_root / "systemd" / "vehicled@.service").read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def test_the_unit_is_accepted_by_systemd(project_root: Path, tmp_path: Path) -> None:
    analyze = tool("systemd-analyze")
    # An instance: a bare template has no profile to start.
    unit = tmp_path / "vehicled@art.service"
    unit.write_bytes((project_root / "systemd" / "vehicled@.service").read_bytes())
    run = subprocess.run(
        [analyze, "verify", str(unit)], capture_output=True, text=True, check=False
    )
    # Only lines about our unit count: the machine's other units may have faults of their own.
    complaints = [line for line in run.stderr.splitlines() if "vehicled@" in line]
    if run.returncode != 0 and not complaints:
        pytest.skip(f"systemd-analyze does not work here: {run.stderr.strip()[:200]}")
    assert complaints == []


def test_the_service_is_as_closed_as_a_daemon_with_devices_can_be(
    project_root: Path, tmp_path: Path
) -> None:
    analyze = tool("systemd-analyze")
    folder = tmp_path / "etc/systemd/system"
    folder.mkdir(parents=True)
    shutil.copy(project_root / "systemd" / "vehicled@.service", folder)
    command = [
        analyze,
        "security",
        "--offline=yes",
        f"--root={tmp_path}",
        "--no-pager",
        "vehicled@art.service",
    ]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", run.stdout)
    if found is None:
        pytest.skip(f"this systemd judges no files: {run.stderr.strip()[:200]}")
    assert float(found.group(1)) <= WORST_SCORE


def test_the_user_is_accepted_by_systemd(project_root: Path, tmp_path: Path) -> None:
    sysusers = tool("systemd-sysusers")
    (tmp_path / "etc").mkdir()
    file = project_root / "systemd" / "vehicled.sysusers.conf"
    # Numbers of its own: which are free is the machine's business.
    text = (
        file.read_text()
        .replace("u vehicled -", "u vehicled 991")
        .replace("m vehicled dialout", "g dialout 20\nm vehicled dialout")
    )
    users = tmp_path / "users.conf"
    users.write_text(text)
    run = subprocess.run(
        [sysusers, f"--root={tmp_path}", str(users)], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "etc/passwd").read_text().split(":")[:3] == ["vehicled", "x", "991"]
    groups = (tmp_path / "etc/group").read_text()
    assert "dialout:x:20:vehicled" in groups
    assert re.search(r"^i2c:x:\d+:vehicled$", groups, re.M)


def test_what_the_daemon_relies_on_is_asked_for(project_root: Path) -> None:
    found = settings(project_root)
    one = {key: values[-1] for key, values in found.items()}
    assert one["Type"] == "notify"
    assert float(one["WatchdogSec"]) <= 1.0
    assert one["Restart"] == "on-failure"
    # The daemon takes the priority itself, for its loop alone; the unit's limit must allow that.
    assert "CPUSchedulingPolicy" not in one
    assert int(one["LimitRTPRIO"]) == FIFO_PRIORITY == RealtimeRequest().fifo_priority
    assert int(one["RestartPreventExitStatus"]) == USAGE_STATUS != PASSING_STATUS
    # A minimal system has no manual pages, and systemd-analyze looks for them.
    assert "Documentation" not in one
    assert one["LimitMEMLOCK"] == "infinity"
    # Mixed and process would kill, or forget, the log writer when the daemon crashes.
    assert one["KillMode"] == "control-group"


def test_the_unit_and_those_who_use_it_name_the_same_places(project_root: Path) -> None:
    one = {key: values[-1] for key, values in settings(project_root).items()}
    assert one["User"] == one["Group"] == GROUP
    assert f"u {GROUP} " in (project_root / "systemd" / "vehicled.sysusers.conf").read_text()
    # The control socket: its folder is entered by the group.
    assert one["RuntimeDirectory"] == "vehicled"
    assert one["RuntimeDirectoryMode"] == "0750"
    assert one["EnvironmentFile"] == f"-{SETTINGS}/%i.env"
    assert f"--profile {SETTINGS}/%i.toml $VEHICLED_OPTIONS" in one["ExecStart"]
    assert f"/{one['ConfigurationDirectory']}" == SETTINGS.removeprefix("/etc")
    assert "PATH=/opt/vehicled/bin:" in " ".join(settings(project_root)["Environment"])
