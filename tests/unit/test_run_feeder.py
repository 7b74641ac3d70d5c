"""Notifications to the service manager: ready once every port was tried, alive only while frames
are sent."""

import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vehicled.cli.run import SystemdNotifier
from vehicled.core.messages import ActuatorCommand, Mode, PortState
from vehicled.core.observers import Observers
from vehicled.runtime.sd_notify import Notifier
from vehicled.safety.reason import Reason, ReasonCode

MS = 1_000_000
FRAME = ActuatorCommand(0, 0, 0.0, 1.0, 0.0, 0.0)


class Manager:
    """Receives what is sent to its socket."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))
        self._socket.setblocking(False)

    def received(self) -> list[str]:
        """Return the notifications since the last call."""
        found = []
        while True:
            try:
                found.append(self._socket.recv(4096).decode())
            except BlockingIOError:
                return found

    def close(self) -> None:
        """Give the socket back."""
        self._socket.close()


class Machine:
    """A stub with the attributes that the feeder reads."""

    mode = Mode.STANDBY
    why = "waiting to be armed"
    supervisor = SimpleNamespace(reason=Reason(ReasonCode.STANDS))

    def __init__(self) -> None:
        self.port_states: dict[str, tuple[PortState | None, str]] = {
            "gnss": (None, ""),
            "imu": (None, ""),
        }
        self.waits: list[str] | None = ["the IMU is silent"]

        self.observers = Observers()

    def waiting_for(self, now_ns: int) -> list[str]:
        if self.waits is None:
            raise MemoryError
        return self.waits


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setenv("WATCHDOG_USEC", "1000000")
    manager = Manager(tmp_path / "notify")
    notifier = Notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    ports: Any = {
        "gnss": SimpleNamespace(trouble="not plugged in"),
        "imu": SimpleNamespace(trouble=""),
    }
    yield SimpleNamespace(
        manager=manager, feeder=SystemdNotifier(notifier, ports), machine=Machine()
    )
    notifier.close()
    manager.close()


def turn(bench: Any, now_ns: int) -> None:
    """Do what follows a turn of the loop; a failure of one part does not reach the other."""
    for part in (bench.feeder.show, bench.feeder.feed):
        part(bench.machine, now_ns)


def ready(bench: Any, now_ns: int) -> None:
    bench.machine.port_states = {
        "gnss": (PortState.ERROR, "not plugged in"),
        "imu": (PortState.OPENED, ""),
    }
    bench.feeder.record(FRAME, now_ns)
    turn(bench, now_ns)


def test_ready_is_when_the_machine_runs_and_every_port_is_open_or_tried_again(bench: Any) -> None:
    feeder, machine = bench.feeder, bench.machine
    turn(bench, 1 * MS)
    machine.port_states["imu"] = (PortState.OPENED, "")
    feeder.record(FRAME, 2 * MS)
    turn(bench, 2 * MS)
    assert bench.manager.received() == [], "one port has not been tried yet"
    machine.port_states["gnss"] = (PortState.ERROR, "not plugged in")
    turn(bench, 210 * MS)
    assert bench.manager.received() == [], "no frame for 200 ms: the machine does not run"
    feeder.record(FRAME, 220 * MS)
    turn(bench, 220 * MS)
    first, *rest = bench.manager.received()
    assert first == (
        "READY=1\nSTATUS=STANDBY: waiting to be armed; arming waits: the IMU is silent; "
        "retrying ports: gnss"
    )
    assert rest == ["WATCHDOG=1"]


def test_a_port_that_takes_its_time_is_not_waited_for(bench: Any) -> None:
    for now_ns in range(0, 5_200 * MS, 100 * MS):
        bench.feeder.record(FRAME, now_ns)
        turn(bench, now_ns)
    received = bench.manager.received()
    assert received[0].startswith("READY=1")
    assert len(received) < 4, "not before five seconds are over"


def test_fed_while_frames_are_sent_and_not_a_moment_longer(bench: Any) -> None:
    feeder, manager = bench.feeder, bench.manager
    ready(bench, 1_000 * MS)
    manager.received()
    for now_ns in range(1_010 * MS, 2_000 * MS, 10 * MS):
        feeder.record(FRAME, now_ns)
        turn(bench, now_ns)
    assert manager.received().count("WATCHDOG=1") == 4, "five times a second"
    # The loop turns on, but actuation sends nothing any more.
    for now_ns in range(2_000 * MS, 4_000 * MS, 10 * MS):
        turn(bench, now_ns)
    assert manager.received().count("WATCHDOG=1") <= 1, (
        "at most within the 200 ms after the last frame"
    )
    feeder.record(FRAME, 4_000 * MS)
    turn(bench, 4_000 * MS)
    assert "WATCHDOG=1" in manager.received()


def test_the_status_follows_what_arming_waits_for(bench: Any) -> None:
    machine, manager = bench.machine, bench.manager
    ready(bench, 0)
    manager.received()
    turn(bench, 1_500 * MS)
    assert manager.received() == [], "nothing new"
    machine.waits = []
    machine.mode, machine.why = Mode.AUTO, "driving the course"
    turn(bench, 1_600 * MS)
    turn(bench, 2_600 * MS)
    assert manager.received() == ["STATUS=AUTO: driving the course; retrying ports: gnss"]


def test_a_status_that_cannot_be_made_holds_up_neither_readiness_nor_watchdog(bench: Any) -> None:
    bench.machine.waits = None
    ready(bench, 1_000 * MS)
    assert bench.manager.received() == ["READY=1", "WATCHDOG=1"]
    for now_ns in range(1_000 * MS, 3_000 * MS, 100 * MS):
        bench.feeder.record(FRAME, now_ns)
        turn(bench, now_ns)
    assert bench.manager.received().count("WATCHDOG=1") == 9
    assert bench.machine.observers.failures["systemd status"].count == 2
