"""Runs the command line: as a process of its own, as users do, or in this process, where the
processes are not the point."""

import contextlib
import io
import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import pytest

from tests import forked
from tests.busy_computer import DEADLINE_S, WIDE_LIMITS
from vehicled.cli import main
from vehicled.profile import load_profile

ROOT = Path(__file__).resolve().parents[2]
WALL = {
    "test_ends_of_a_run", "test_run_own_ports", "test_service", "test_teleop", "test_view",
    "test_stalls", "test_live_requests", "test_mavlink",
}  # fmt: skip
"""Modules that drive in wall time. Side by side they would disturb each other, so they share one
xdist worker, but for their drives in lockstep. In other modules such a test has the mark itself."""


@pytest.hookimpl(tryfirst=True)  # pytest-xdist reads the marks in this hook, too
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Group the tests that must not run side by side."""
    for item in items:
        clock = (
            item.callspec.params.get("clock")
            if isinstance(item, pytest.Function) and hasattr(item, "callspec")
            else None
        )
        if item.path.stem in WALL and clock != "lockstep":
            item.add_marker(pytest.mark.xdist_group("wall"))


def wide_limits(profile: str) -> tuple[str, ...]:
    """Return limits that a busy test computer keeps, for the actuators of a profile, too."""
    found = (*WIDE_LIMITS, "--set", "sim.command_timeout_s=2")
    for port, table in load_profile(profile).devices.items():
        for key, limit in (("silence_s", "2"), ("timeout_ms", "4000")):
            if table.capabilities is not None and hasattr(table.driver.selected, key):
                found += ("--set", f"devices.{port}.driver.{table.driver.name}.{key}={limit}")
    return found


class Daemon:
    """A running ``vehicled sim``. ``watched``: in front of a terminal, where its progress line is
    renewed often."""

    def __init__(self, arguments: list[str], folder: Path, *, watched: bool = False) -> None:
        self.folder = folder
        self._terminal, theirs = pty.openpty() if watched else (-1, subprocess.PIPE)
        self._said = ""
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-X",
                "faulthandler",
                "-m",
                "vehicled",
                "sim",
                "--json",
                "--log",
                str(folder),
                *arguments,
            ],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=theirs,
            text=True,
        )
        if watched:
            os.close(theirs)

    def wait_until_driving(self, speed_mps: float = 0.0) -> None:
        """Wait until the progress line shows that the vehicle is armed and drives, at least as fast
        as given."""
        driving = re.compile(r"(-?[\d.]+) m/s .* auto *$", re.MULTILINE)
        self.wait_for(
            lambda said: any(
                float(each[1]) >= speed_mps for each in driving.finditer(said.replace("\r", "\n"))
            )
        )

    def wait_for(self, shown: str | Callable[[str], bool]) -> None:
        """Wait for a text in the output on the terminal, or until the output fulfils a
        condition."""
        end = time.monotonic() + DEADLINE_S
        while not (shown in self._said if isinstance(shown, str) else shown(self._said)):
            assert self._read() or self.process.poll() is None, (
                f"the daemon ended before that: {self.end()}"
            )
            assert time.monotonic() < end, f"never shown in {DEADLINE_S:g} s: {self._said}"

    def _read(self) -> bool:
        """Read the terminal's output; False if there is none for 0.1 s."""
        if not select.select([self._terminal], [], [], 0.1)[0]:
            return False
        try:
            self._said += os.read(self._terminal, 1 << 14).decode(errors="replace")
        except OSError:  # the other side is closed
            time.sleep(0.01)
            return False
        return True

    def simulator_pid(self) -> int:
        """Return the process id of the daemon's simulator."""
        children = (
            Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        )
        for pid in children:
            if b"sim_backend" in Path(f"/proc/{pid}/cmdline").read_bytes():
                return int(pid)
        raise AssertionError("no simulator process")

    def end(self, deadline_s: float = DEADLINE_S) -> tuple[int, dict[str, Any], str]:
        """Wait for the end; return exit status, result and text output."""
        end = time.monotonic() + deadline_s
        while self._terminal >= 0 and self.process.poll() is None and time.monotonic() < end:
            self._read()
        try:
            out, said = self.process.communicate(timeout=max(end - time.monotonic(), 1.0))
        except subprocess.TimeoutExpired:
            # The interpreter prints what each of its threads executes.
            self.process.send_signal(signal.SIGABRT)
            out, said = self.process.communicate()
            while self._terminal >= 0 and self._read():
                pass
            raise AssertionError(f"the daemon does not end: {out}\n{said or self._said}") from None
        self.close()
        return self.process.returncode, json.loads(out) if out.strip() else {}, said or self._said

    def shown(self) -> str:
        """Return all output on the terminal so far."""
        while self._read():
            pass
        return self._said

    def close(self) -> None:
        """Close the terminal."""
        if self._terminal >= 0:
            while self._read():
                pass
            os.close(self._terminal)
            self._terminal = -1

    def log(self) -> Path:
        """Return the path of the newest log."""
        return max(self.folder.glob("*.mcap"), key=lambda path: path.stat().st_mtime_ns)


@pytest.fixture(autouse=True)
def _own_sockets(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Give the daemons of a test a folder for control sockets, with the short path that a socket
    needs."""
    with TemporaryDirectory(prefix="v") as folder:
        monkeypatch.setenv("RUNTIME_DIRECTORY", folder)
        yield


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Start daemons; kill those that still run at the end of the test."""
    daemons: list[Daemon] = []

    def run(*arguments: str, watched: bool = False) -> Daemon:
        daemons.append(Daemon(list(arguments), tmp_path, watched=watched))
        return daemons[-1]

    yield run
    for daemon in daemons:
        if daemon.process.poll() is None:
            os.kill(daemon.process.pid, signal.SIGKILL)
        daemon.process.communicate()
        daemon.close()


@pytest.fixture(scope="module", autouse=True)
def _forked_children() -> Iterator[None]:
    """Fork the children of drives in this process; what :class:`Daemon` starts is started as users
    do."""
    with forked.children():
        yield


@pytest.fixture
def drive(tmp_path: Path) -> Callable[..., tuple[int, dict[str, Any], str]]:
    """Run a drive in lockstep to its end, in this process; return exit status, result and text
    output."""
    return lambda *arguments: sim("--json", "--log", str(tmp_path), *arguments)


def command(*arguments: str, folder: Path = ROOT) -> tuple[int, str, str]:
    """Run ``vehicled`` in this process and in a folder; return exit status and both outputs."""
    out = io.StringIO()
    # Progress and events are written to a descriptor.
    with TemporaryFile("w+") as said:
        with (
            contextlib.chdir(folder),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(said),
        ):
            status = main(arguments)
        said.seek(0)
        return status, out.getvalue(), said.read()


def sim(*arguments: str) -> tuple[int, dict[str, Any], str]:
    """Run ``vehicled sim`` in this process; return exit status, result if it is in JSON, and text
    output."""
    status, out, said = command("sim", *arguments)
    return status, json.loads(out) if out.startswith("{") else {}, said
