"""Runs the command line as users do: as a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALL = {
    "test_ends_of_a_run", "test_run_own_ports", "test_service", "test_sim_link", "test_teleop", "test_wires_drive",
    "test_failsafe_wall", "test_control_socket_flood",
}  # fmt: skip
"""Modules whose drives take place in wall time. Side by side they would disturb each other, so they share one worker of xdist."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group what must not run side by side."""
    for item in items:
        if item.path.stem in WALL:
            item.add_marker(pytest.mark.xdist_group("wall"))


class Daemon:
    """A running ``vehicled sim``."""

    def __init__(self, arguments: list[str], folder: Path) -> None:
        self.folder = folder
        self.process = subprocess.Popen(
            [sys.executable, "-m", "vehicled", "sim", "--json", "--log", str(folder), *arguments],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def wait_until_driving(self, within_s: float = 30.0) -> None:
        """Until the progress line says so: the scenario has armed the vehicle and it drives."""
        assert self.process.stderr is not None
        end = time.monotonic() + within_s
        while time.monotonic() < end:
            line = self.process.stderr.readline()
            if line.rstrip().endswith("auto"):
                return
            assert line, f"the daemon ended before it drove: {self.end()}"
        raise AssertionError("the vehicle does not drive")

    def simulator_pid(self) -> int:
        """Process id of its simulator."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        for pid in children:
            if b"sim_backend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        raise AssertionError("no simulator process")

    def end(self, within_s: float = 60.0) -> tuple[int, dict[str, Any], str]:
        """Exit status, result, and what it said."""
        out, said = self.process.communicate(timeout=within_s)
        return self.process.returncode, json.loads(out) if out.strip() else {}, said

    def log(self) -> Path:
        """The newest log."""
        return max(self.folder.glob("*.mcap"), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture(autouse=True)
def _own_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Control sockets of a test's daemons in a folder of their own, with the short path that a socket needs."""
    with TemporaryDirectory(prefix="v") as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", folder)
        yield


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Starts daemons; whatever still runs at the end of the test is killed."""
    daemons: list[Daemon] = []

    def run(*arguments: str) -> Daemon:
        daemons.append(Daemon(list(arguments), tmp_path))
        return daemons[-1]

    yield run
    for daemon in daemons:
        if daemon.process.poll() is None:
            os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.communicate()


@pytest.fixture
def drive(start: Callable[..., Daemon]) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Runs a drive to its end: exit status, result, and what it said."""
    return lambda *arguments: start(*arguments).end(120.0)
