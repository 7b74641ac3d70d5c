"""The daemon as a service: what the service manager hears while it drives against a simulator elsewhere."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.closed_loop.conftest import ROOT

VEHICLED = [sys.executable, "-m", "vehicled"]
PATIENT = ["--set", "limits.imu_silence_s=1", "--set", "limits.estimate_silence_s=1"]


def test_ready_status_watchdog_and_stopping(tmp_path: Path) -> None:
    link, notify = tmp_path / "link", tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(notify))
        manager.settimeout(20)
        simulator = subprocess.Popen(
            [*VEHICLED, "simulator", "--listen", f"unix:{link}", "--course", "circle_r5_ccw"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        end = time.monotonic() + 20
        while not link.exists() and time.monotonic() < end:
            time.sleep(0.02)
        daemon = subprocess.Popen(
            [*VEHICLED, "run", "--connect", f"unix:{link}", "--course", "circle_r5_ccw", "--log", str(tmp_path), *PATIENT],
            cwd=ROOT,
            env={**os.environ, "NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "1000000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            heard: list[str] = []
            while not any("AUTO: driving the course" in line for line in heard):
                heard.append(manager.recv(4096).decode())
            fed = sum("WATCHDOG=1" in line for line in heard)
            os.kill(daemon.pid, signal.SIGTERM)
            _, said = daemon.communicate(timeout=20)
            manager.settimeout(0.1)
            try:
                while True:
                    heard.append(manager.recv(4096).decode())
            except TimeoutError:
                pass
            assert simulator.wait(5) == 0
        finally:
            for process in (daemon, simulator):
                process.kill()
                process.communicate()
    assert heard[0].startswith("READY=1")
    assert fed >= 1
    assert any("arming waits" in line or "waiting to be armed" in line for line in heard)
    assert any(line.startswith("STOPPING=1") for line in heard)
    assert daemon.returncode == 130
    assert "SIGTERM" in said
    assert '"event": "port gnss opened"' in said, "events are JSON lines where no terminal reads them"
    assert list(tmp_path.glob("*.mcap"))
