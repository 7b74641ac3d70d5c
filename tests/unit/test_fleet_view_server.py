"""The page of a fleet: what it shows, whom it lets in, and that a stop waits for nobody."""

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from tests.busy_computer import DEADLINE_S
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.view.fleet_wire import FleetCars, FleetVehicleFacts, FleetViewConfig
from vehicled.live.view.wire import CourseFacts

pytestmark = pytest.mark.xdist_group("view")

TOKEN = "t0ken-of-the-fleet"
STATUS = {
    "mode": "AUTO", "why": "driving", "estimate": {"x_m": 1.0, "y_m": 2.0, "yaw_rad": 0.5},
    "chain": [
        {"reaction": "BRAKE", "reason": "obstacle ahead"}, {"reaction": "WARN", "reason": "busy"},
    ],
}  # fmt: skip


class Daemon:
    """Stand-in for the control socket of a daemon: it answers every request, or none."""

    def __init__(self, path: Path, *, answers: bool = True, refusals: int = 0) -> None:
        self.requests: list[dict[str, Any]] = []
        self._answers, self._refusals = answers, refusals
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(str(path))
        self._socket.listen(16)
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    def _start(self, target: Callable[..., None], *arguments: Any) -> None:
        thread = threading.Thread(target=target, args=arguments, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._start(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        with suppress(OSError), connection, connection.makefile("rwb") as file:
            for line in file:
                request = json.loads(line)
                self.requests.append(request)
                if not self._answers:
                    continue
                answer: dict[str, Any] = {"ok": True}
                if request["do"] == "watch":
                    answer["status"] = STATUS | {"speed_mps": 0.5}
                elif self._refusals:
                    self._refusals -= 1
                    answer = {"ok": False, "why": "busy"}
                file.write(json.dumps(answer).encode() + b"\n")
                file.flush()

    def stops(self) -> list[dict[str, Any]]:
        """Requests for an emergency stop."""
        return [each for each in self.requests if each.get("action") == "emergency_stop"]

    def close(self) -> None:
        """Accept no more connections."""
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for thread in self._threads:
            thread.join(DEADLINE_S)


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Callable[..., Daemon]]:
    """Start daemons by name."""
    with ExitStack() as stack:

        def started(name: str, **options: Any) -> Daemon:
            return stack.enter_context(closing(Daemon(tmp_path / name, **options)))

        yield started


@contextmanager
def page(folder: Path, *names: str, cars: FleetCars | None = None) -> Iterator[ClientConnection]:
    """Serve the page of a fleet and open its socket."""
    course = CourseFacts("line", 1.0, closed=False, x_m=[0.0, 1.0], y_m=[0.0, 0.0])
    vehicles = [
        FleetVehicleFacts(name, str(folder / name), 1, course, (0.4, 0.1, 0.15)) for name in names
    ]
    config = FleetViewConfig(host="127.0.0.1", port=0, token=TOKEN, names=[], vehicles=vehicles)
    process = BridgeProcess.start("page", "vehicled.live.view.fleet_server", config)
    try:
        if cars is not None:
            process.offer(FrameKind.STATE, msgspec.msgpack.encode(cars))
        url = f"ws://127.0.0.1:{process.port}/socket"
        for token in ("", "?token=wrong"):
            with pytest.raises(InvalidStatus):
                connect(url + token)
        with connect(f"{url}?token={TOKEN}", close_timeout=0.05) as opened:
            yield opened
    finally:
        process.close()


def until(opened: ClientConnection, found: Any) -> dict[str, Any]:
    """Return the first message for which ``found`` is true."""
    end_s = time.monotonic() + DEADLINE_S
    while time.monotonic() < end_s:
        message: dict[str, Any] = json.loads(opened.recv(timeout=DEADLINE_S))
        if found(message):
            return message
    raise AssertionError("it never came")


def stopped(opened: ClientConnection, *names: str) -> dict[str, dict[str, Any]]:
    """Return what became of a stop, by vehicle, in whatever order."""
    found: dict[str, dict[str, Any]] = {}
    while set(found) < set(names):
        message = until(opened, lambda message: message["k"] == "stopped")
        found[message["who"]] = message
    return found


def test_it_shows_each_vehicle_with_the_newest_reason_to_stop(tmp_path, daemon):
    daemon("a")
    with page(tmp_path, "a", "b") as opened:
        hello = until(opened, lambda message: message["k"] == "hello")
        assert [each["name"] for each in hello["vehicles"]] == ["a", "b"]
        tick = until(
            opened, lambda message: message["k"] == "tick" and message["vehicles"]["a"].get("mode")
        )
        a, b = tick["vehicles"]["a"], tick["vehicles"]["b"]
        assert (a["mode"], a["stop"], a["x"]) == ("AUTO", "obstacle ahead", 1.0)
        assert b == {"age_s": None}


def test_it_shows_the_other_traffic(tmp_path, daemon):
    daemon("a")
    with page(tmp_path, "a", cars=FleetCars([(1.0, 2.0, 0.5)], (3.5, 0.9, 0.9))) as opened:
        tick = until(opened, lambda message: message["k"] == "tick" and "cars" in message)
    assert tick["cars"] == [[1.0, 2.0, 0.5]]
    assert tick["car_outline_m"] == [3.5, 0.9, 0.9]


def test_a_stop_for_all_reaches_every_daemon_although_one_hangs(tmp_path, daemon):
    well, hangs = daemon("a"), daemon("b", answers=False)
    with page(tmp_path, "a", "b", "gone") as opened:
        opened.send(json.dumps({"do": "emergency_stop", "who": "*"}))
        found = stopped(opened, "a", "b", "gone")
    assert found["a"]["ok"]
    assert (found["gone"]["text"], found["gone"]["ok"]) == ("gone: its daemon does not run", False)
    assert "does not answer" in found["b"]["text"]
    assert list(found) == ["a", "gone", "b"] or list(found) == ["gone", "a", "b"], "nobody waited"
    assert len(well.stops()) == 1
    assert len(hangs.stops()) > 3, "it was sent again"
    assert well.stops()[0]["origin"].startswith("fleet page ")


def test_a_stop_that_is_refused_is_sent_again_until_it_is_taken(tmp_path, daemon):
    busy, other = daemon("a", refusals=2), daemon("b")
    with page(tmp_path, "a", "b") as opened:
        opened.send(json.dumps({"do": "emergency_stop", "who": "a"}))
        assert stopped(opened, "a")["a"]["ok"]
    assert len(busy.stops()) == 3
    assert other.stops() == []


@pytest.mark.parametrize(
    "text", ["", "{", '{"do":"arm","who":"a"}', '{"do":"emergency_stop","who":"x"}', "1" * 5000]
)
def test_what_is_no_stop_is_not_understood(tmp_path, daemon, text):
    well = daemon("a")
    with page(tmp_path, "a") as opened:
        opened.send(text)
        assert until(opened, lambda message: message["k"] == "note")["text"] == "not understood"
    assert well.stops() == []
