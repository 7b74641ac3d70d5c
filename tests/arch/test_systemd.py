"""The units are what systemd understands."""

import shutil
import subprocess
from pathlib import Path

import pytest


def test_the_unit_is_accepted_by_systemd(project_root: Path, tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not installed")
    # An instance: a bare template has no profile to start.
    unit = tmp_path / "vehicled@art.service"
    unit.write_bytes((project_root / "systemd" / "vehicled@.service").read_bytes())
    run = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True, check=False)
    # Only lines about our unit count: the machine's other units may have faults of their own.
    complaints = [line for line in run.stderr.splitlines() if "vehicled@" in line]
    if run.returncode != 0 and not complaints:
        pytest.skip(f"systemd-analyze does not work here: {run.stderr.strip()[:200]}")
    assert complaints == []


def test_what_the_daemon_relies_on_is_asked_for(project_root: Path) -> None:
    lines = (project_root / "systemd" / "vehicled@.service").read_text().splitlines()
    settings = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith("#"))
    assert settings["Type"] == "notify"
    assert float(settings["WatchdogSec"]) <= 1.0
    assert settings["Restart"] == "on-failure"
    assert settings["CPUSchedulingPolicy"] == "fifo"
    assert int(settings["CPUSchedulingPriority"]) <= int(settings["LimitRTPRIO"])
    assert settings["LimitMEMLOCK"] == "infinity"
    # Mixed and process would kill, or forget, the log writer when the daemon crashes.
    assert settings["KillMode"] == "control-group"
