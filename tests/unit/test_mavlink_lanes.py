"""Ways from the MAVLink bridge to the daemon: what overtakes what, and what happens to requests
that wait."""

import queue
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
import pytest

from tests.busy_computer import DEADLINE_S
from vehicled.live.bridges.mavlink.lanes import MOST_WAITING, DaemonLanes
from vehicled.live.control_socket.protocol import (
    Action,
    ActionRequest,
    GotoRequest,
    HeartbeatRequest,
    ParametersRequest,
    Request,
)


class Daemon:
    """Control socket that answers each request at once, except plans while ``plans`` is not set."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.plans = threading.Event()
        self.seen: list[str] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            self._peers.append(peer)
            threading.Thread(target=self._serve, args=(peer,), daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with suppress(OSError), peer, peer.makefile("rb") as lines:
            for line in lines:
                request = msgspec.json.decode(line)
                self.seen.append(
                    str(request.get("action") or request.get("origin") or request["do"])
                )
                if request["do"] in ("goto", "course"):
                    self.plans.wait(DEADLINE_S)
                if request["do"] not in ("setpoint", "heartbeat"):
                    peer.sendall(b'{"ok": true, "mode": "ARMED"}\n')

    def hang_up(self) -> None:
        """Close all connections, as a daemon that has too many."""
        for peer in self._peers:
            with suppress(OSError):
                peer.shutdown(socket.SHUT_RDWR)
        self._peers.clear()

    def close(self) -> None:
        self.plans.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.hang_up()


class Link:
    """Lanes with the answers that have come."""

    def __init__(self, path: Path) -> None:
        self.inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        before = set(threading.enumerate())
        self.lanes = DaemonLanes(path, self.inbox)
        self._threads = set(threading.enumerate()) - before
        self.answers: list[tuple[str, str]] = []

    def answer(self, name: str) -> Callable[[Any, str], None]:
        return lambda reply, why: self.answers.append((name, why))

    def act(self, action: Action) -> None:
        self.lanes.operate(ActionRequest(action), self.answer(action))

    def go(self, name: str) -> None:
        self.lanes.plan(lambda: GotoRequest(origin=name), self.answer(name))

    def close(self) -> None:
        self.lanes.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)

    def wait(self, holds: Callable[[], bool]) -> None:
        end_s = time.monotonic() + DEADLINE_S
        while not holds():
            assert time.monotonic() < end_s, self.answers
            while not self.inbox.empty():
                self.inbox.get()()
            time.sleep(0.002)


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    with TemporaryDirectory(prefix="v") as folder:
        found = Daemon(Path(folder, "a.sock"))
        yield found
        found.close()


@pytest.fixture
def link(daemon: Daemon) -> Iterator[Link]:
    found = Link(daemon.path)
    yield found
    daemon.plans.set()
    found.close()


def test_a_stop_passes_while_a_place_is_planned_and_sixty_wait(daemon: Daemon, link: Link) -> None:
    link.go("place 0")
    link.wait(lambda: "place 0" in daemon.seen)
    for k in range(1, 60):
        link.go(f"place {k}")
    link.act("emergency_stop")
    link.lanes.cancel("called off", operations=True)
    link.wait(lambda: ("emergency_stop", "") in link.answers)
    assert daemon.seen == ["place 0", "emergency_stop"]
    daemon.plans.set()
    link.wait(lambda: len(link.answers) == 61)
    assert daemon.seen == ["place 0", "emergency_stop"]
    assert ("place 59", "called off") in link.answers
    assert all(
        why == "a newer request took its place"
        for name, why in link.answers
        if name in {f"place {k}" for k in range(1, 59)}
    )


def test_the_newest_plan_wins_and_parameters_keep_their_turn(daemon: Daemon, link: Link) -> None:
    link.go("first")
    link.wait(lambda: "first" in daemon.seen)
    link.lanes.ask(ParametersRequest(), link.answer("parameters"))
    for name in ("second", "third"):
        link.go(name)
    daemon.plans.set()
    link.wait(lambda: len(link.answers) == 4)
    assert daemon.seen == ["first", "parameters", "third"]


def test_what_waits_is_bounded_and_a_stop_is_not_pushed_out(daemon: Daemon, link: Link) -> None:
    with link.lanes._operations._changed:
        # The thread cannot take any of them meanwhile.
        link.act("disarm")
        for _ in range(3 * MOST_WAITING):
            link.act("arm")
        assert len(link.lanes._operations._waiting) == MOST_WAITING
    link.wait(lambda: len(link.answers) == 3 * MOST_WAITING + 1)
    assert ("disarm", "") in link.answers
    assert (
        sum(why == "too many requests wait for the daemon" for _, why in link.answers)
        == 2 * MOST_WAITING + 1
    )


def test_a_stop_takes_a_new_connection_if_the_daemon_closed_the_old_one(
    daemon: Daemon, link: Link
) -> None:
    link.act("arm")
    link.wait(lambda: ("arm", "") in link.answers)
    daemon.hang_up()
    link.act("stop")
    link.wait(lambda: len(link.answers) == 2)
    assert link.answers[-1] == ("stop", "")


def test_a_defect_while_planning_costs_only_that_plan(daemon: Daemon, link: Link) -> None:

    def broken() -> Request:
        raise MemoryError("too much")

    daemon.plans.set()
    link.lanes.plan(broken, link.answer("broken"))
    link.wait(lambda: bool(link.answers))
    link.go("next")
    link.wait(lambda: len(link.answers) == 2)
    assert link.answers == [("broken", "too much"), ("next", "")]


def test_without_a_daemon_everything_is_answered() -> None:
    link = Link(Path("/nowhere/at/all.sock"))
    link.act("stop")
    link.go("place")
    link.lanes.offer(HeartbeatRequest("heartbeat"))
    link.wait(lambda: len(link.answers) == 2)
    assert all("no daemon answers" in why for _, why in link.answers)
    link.close()
