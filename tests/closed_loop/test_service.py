"""The daemon as a service: what the service manager receives while it drives against a simulator
elsewhere."""

import hashlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, fill_up, wait_until
from tests.closed_loop.conftest import ROOT
from vehicled.core.messages import Event
from vehicled.log.reader import LogReader
from vehicled.profile import load
from vehicled.run.command_line import PASSING_STATUS

VEHICLED = [sys.executable, "-m", "vehicled"]


def test_ready_status_watchdog_and_stopping(tmp_path: Path) -> None:
    link, notify = tmp_path / "link", tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(notify))
        manager.settimeout(DEADLINE_S)
        simulator = subprocess.Popen(
            [*VEHICLED, "simulator", "--listen", f"unix:{link}", "--course", "circle_r5_ccw"],
            cwd=ROOT,
            stdout=subprocess.DEVNULL,
        )
        wait_until(link.exists)
        daemon = subprocess.Popen(
            [
                *VEHICLED,
                "run",
                "--connect",
                f"unix:{link}",
                "--course",
                "circle_r5_ccw",
                "--log",
                str(tmp_path),
                *WIDE_LIMITS,
            ],
            cwd=ROOT,
            env={**os.environ, "NOTIFY_SOCKET": str(notify), "WATCHDOG_USEC": "1000000"},
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            notified: list[str] = []
            while not any("AUTO: driving the course" in line for line in notified):
                notified.append(manager.recv(4096).decode())
            fed = sum("WATCHDOG=1" in line for line in notified)
            os.kill(daemon.pid, signal.SIGTERM)
            _, said = daemon.communicate(timeout=DEADLINE_S)
            manager.settimeout(0.1)
            try:
                while True:
                    notified.append(manager.recv(4096).decode())
            except TimeoutError:
                pass
            assert simulator.wait(DEADLINE_S) == 0
        finally:
            for process in (daemon, simulator):
                process.kill()
                process.communicate()
    assert notified[0].startswith("EXTEND_TIMEOUT_USEC="), (
        "set-up may last longer than the unit allows"
    )
    assert notified[1].startswith("READY=1")
    assert fed >= 1
    assert any("arming waits" in line or "waiting to be armed" in line for line in notified)
    (stopping,) = (line for line in notified if line.startswith("STOPPING=1"))
    assert {"EXTEND_TIMEOUT_USEC", "WATCHDOG_USEC"} <= {
        line.partition("=")[0] for line in stopping.splitlines()
    }
    assert daemon.returncode == 130
    assert "SIGTERM" in said
    assert '"event": "port gnss opened"' in said, (
        "events are JSON lines where no terminal reads them"
    )
    assert list(tmp_path.glob("*.mcap"))


@contextmanager
def service(
    folder: Path, profile: str, *options: str
) -> Iterator[tuple["subprocess.Popen[str]", socket.socket]]:
    """The daemon on its own ports, none of which is there, and the socket of its service
    manager."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(folder / "notify"))
        manager.settimeout(DEADLINE_S)
        daemon = subprocess.Popen(
            [*VEHICLED, "run", "--profile", profile, "--log", str(folder), *options],
            cwd=ROOT,
            env={
                **os.environ,
                "NOTIFY_SOCKET": str(folder / "notify"),
                "WATCHDOG_USEC": "1000000",
                "RUNTIME_DIRECTORY": str(folder),
            },
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            yield daemon, manager
        finally:
            daemon.kill()
            daemon.communicate()


def test_a_frozen_loop_is_not_fed_for(tmp_path: Path) -> None:
    with service(tmp_path, "art", "--set", 'devices.operator.port=""') as (daemon, manager):
        while not (first := manager.recv(4096).decode()).startswith("READY=1"):
            pass
        assert first.startswith("READY=1\nSTATUS=INIT"), "ready, although not one port is there"
        assert "arming waits: " in first
        assert "retrying ports: gnss, imu" in first
        while "WATCHDOG=1" not in manager.recv(4096).decode():
            pass
        os.kill(daemon.pid, signal.SIGSTOP)
        manager.settimeout(0.1)
        try:
            while True:
                manager.recv(4096)
        except TimeoutError:
            pass
        # Five feeds' worth of time, in which the service manager would lose its patience.
        manager.settimeout(1.0)
        try:
            late = manager.recv(4096).decode()
        except TimeoutError:
            late = ""
        assert late == ""
        os.kill(daemon.pid, signal.SIGCONT)
        manager.settimeout(DEADLINE_S)
        while "WATCHDOG=1" not in manager.recv(4096).decode():
            pass
        os.kill(daemon.pid, signal.SIGTERM)
        while not (notified := manager.recv(4096).decode()).startswith("STOPPING=1"):
            pass
        assert "SIGTERM" in notified
        assert daemon.wait(DEADLINE_S) == 130
        assert list(tmp_path.glob("*.mcap"))


def test_a_full_disk_at_the_start_is_reported_and_tried_again(small_disk: Path) -> None:
    ballast = fill_up(small_disk)
    command = [
        *VEHICLED,
        "run",
        "--profile",
        "art",
        "--log",
        str(small_disk / "logs"),
        "--set",
        'devices.operator.port=""',
    ]
    alone = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False
    )
    assert alone.returncode == PASSING_STATUS, "systemd starts it again"
    assert alone.stderr.startswith("vehicled: the log cannot be written: ")
    assert "the disk is full" in alone.stderr
    ballast.unlink()
    ballast = fill_up(small_disk)
    with service(
        small_disk.parent, "art", "--set", 'devices.operator.port=""', "--log", str(small_disk)
    ) as (daemon, manager):
        while not (status := manager.recv(4096).decode()).startswith("STATUS="):
            pass
        assert "the disk is full" in status
        # It waits, so that systemd never sees ten starts in a minute.
        assert daemon.poll() is None
        daemon.terminate()
        _, said = daemon.communicate(timeout=DEADLINE_S)
    assert "the disk is full; starts again in 10 s" in said
    assert not list(small_disk.rglob("*.mcap"))


def test_a_full_disk_in_a_run_is_reported_until_it_has_space_again(small_disk: Path) -> None:
    with service(
        small_disk.parent, "art", "--set", 'devices.operator.port=""', "--log", str(small_disk)
    ) as (daemon, manager):
        while not manager.recv(4096).startswith(b"READY=1"):
            pass
        assert daemon.stderr is not None
        ballast = fill_up(small_disk)
        while "the disk is full; it goes on when there is space" not in (
            line := daemon.stderr.readline()
        ):
            assert line
        ballast.unlink()
        while not (
            '"active": false' in (line := daemon.stderr.readline()) and "log_failing" in line
        ):
            assert line
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 130
    (log,) = small_disk.glob("*.mcap")
    with LogReader(str(log)) as read:
        assert read.layout.complete
        assert "log_waited" in {record.message.name for record in read.messages(Event)}


def test_only_the_loop_has_the_real_time_priority(tmp_path: Path) -> None:
    with service(tmp_path, "art", "--set", 'devices.operator.port=""') as (daemon, manager):
        while not manager.recv(4096).startswith(b"READY=1"):
            pass
        in_loop = os.sched_getscheduler(daemon.pid) & 3
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 130
    (log,) = tmp_path.glob("*.mcap")
    with LogReader(str(log)) as read:
        allowed = (
            read.header.realtime["scheduling"].startswith("fifo 40")
            and "wanted" not in read.header.realtime["scheduling"]
        )
    assert (in_loop == os.SCHED_FIFO) == allowed


def test_a_profile_that_was_changed_since_its_installation_does_not_arm(tmp_path: Path) -> None:
    profile = tmp_path / "art.toml"
    text = Path(load("art").path).read_text()
    profile.with_suffix(".sha256").write_text(
        f"{hashlib.sha256(text.encode()).hexdigest()}  art.toml\n"
    )
    profile.write_text(text.replace("corridor_m = 2.0", "corridor_m = 9.0"))
    with service(tmp_path, str(profile)) as (daemon, manager):
        while not (first := manager.recv(4096).decode()).startswith("READY=1"):
            pass
        assert f"{profile} has changed since it was checked" in first
        os.kill(daemon.pid, signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 130


@pytest.mark.soak  # make test: the same refusal in test_run_own_ports.py
def test_a_second_daemon_of_a_profile_is_refused_in_words(tmp_path: Path) -> None:
    with service(tmp_path, "art", "--set", 'devices.operator.port=""') as (_, manager):
        while not manager.recv(4096).startswith(b"READY=1"):
            pass
        second = subprocess.run(
            [
                *VEHICLED,
                "run",
                "--profile",
                "art",
                "--log",
                str(tmp_path / "second"),
                "--set",
                'devices.operator.port=""',
            ],
            cwd=ROOT,
            env={**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
    assert second.returncode == 2, "systemd does not start it again"
    assert second.stderr.startswith("vehicled: another daemon already uses")
    assert not (tmp_path / "second").exists()
