"""A sitting against a control socket: what is sent and what is not, and that the terminal gets back
what it was."""

import os
import pty
import select
import signal
import socket
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal

from tests.busy_computer import DEADLINE_S
from vehicled.core.messages import Mode, OperatorAction, TeleopCommand
from vehicled.live.control_socket.client import Client, ControlError, HungUpError
from vehicled.live.control_socket.protocol import StatusRequest, TeleopRequest
from vehicled.live.control_socket.server import ControlServer
from vehicled.live.control_socket.socket_path import answers
from vehicled.live.teleop.joystick import JoystickDevice
from vehicled.live.teleop.js_event import FULL, JsEvent, encode
from vehicled.live.teleop.keyboard import Keyboard
from vehicled.live.teleop.mapping import MAPS, XPAD, resolve
from vehicled.live.teleop.pad import Pad
from vehicled.live.teleop.reading import Reading, TeleopRequestKind
from vehicled.live.teleop.screen import status_line
from vehicled.live.teleop.session import TeleopSession
from vehicled.live.teleop.state import TeleopState
from vehicled.live.teleop.terminal import Terminal


def until(holds: Callable[[], bool]) -> None:
    end_s = time.monotonic() + DEADLINE_S
    while not holds():
        assert time.monotonic() < end_s, "it never came to it"
        time.sleep(0.005)


STATUS: dict[str, Any] = {
    "mode": "STANDBY",
    "why": "waiting to be armed",
    "estimate": None,
    "waiting_for": [],
}


# ---------------------------------------------------------------- the seat


def test_nothing_is_sent_before_somebody_asks_to_drive() -> None:
    seat = TeleopState("pad")
    seat.on_message(STATUS)
    assert seat.request(Reading(deadman=True)) is None
    assert seat.unplugged() is None
    assert seat.actions_for([TeleopRequestKind.TAKE]) == ["arm", "teleop"]
    first, second = seat.request(Reading(deadman=True)), seat.request(Reading(deadman=True))
    assert first is not None
    assert second is not None
    assert (first.sequence, second.sequence) == (1, 2), (
        "the same deflection is a reading of its own"
    )


@pytest.mark.parametrize(
    ("mode", "actions"), [("ARMED", ["teleop"]), ("AUTO", ["teleop"]), ("FAULT", ["arm", "teleop"])]
)
def test_what_is_asked_for_depends_on_the_mode(mode: str, actions: list[str]) -> None:
    seat = TeleopState("pad")
    seat.on_message({**STATUS, "mode": mode})
    assert seat.actions_for([TeleopRequestKind.TAKE]) == actions


def test_a_drive_that_the_daemon_ended_must_be_asked_for_anew() -> None:
    seat = TeleopState("pad")
    seat.actions_for([TeleopRequestKind.TAKE])
    seat.on_message({**STATUS, "mode": "TELEOP", "why": "driven by hand: pad", "driver": "pad"})
    assert seat.active
    seat.on_message({**STATUS, "mode": "STOPPING", "why": "the deadman was released"})
    assert not seat.active
    assert seat.request(Reading(deadman=True)) is None


def test_another_driver_whose_name_ends_alike_is_not_us() -> None:
    seat = TeleopState("pad")
    seat.on_message({**STATUS, "mode": "TELEOP", "driver": "pad"})
    seat.actions_for([TeleopRequestKind.TAKE])
    seat.on_message(
        {**STATUS, "mode": "TELEOP", "why": "driven by hand: gamepad", "driver": "gamepad"}
    )
    assert not seat.active


def test_stopping_and_leaving() -> None:
    seat = TeleopState("pad")
    assert seat.actions_for([TeleopRequestKind.TAKE, TeleopRequestKind.STOP]) == [
        "arm",
        "teleop",
        "stop",
    ]
    assert not seat.active
    assert seat.actions_for([TeleopRequestKind.EMERGENCY, TeleopRequestKind.LEAVE]) == [
        "emergency_stop",
        "disarm",
    ]
    assert seat.leaving


def test_the_status_line_says_what_there_is() -> None:
    assert status_line({}, Reading(), "", active=False) == "waiting for the daemon"
    state = {**STATUS, "estimate": {"speed_mps": 1.234}, "waiting_for": ["the GNSS is silent"]}
    line = status_line(state, Reading(1.0, 0.25, 0.0, True), "held", active=True)
    assert "STANDBY" in line
    assert "1.23 m/s" in line
    assert "[held]" in line
    assert "L#" in line
    assert "+0.25" in line
    assert "the GNSS is silent" in line


# ---------------------------------------------------------------- a sitting


class Console:
    """A run that accepts every request and follows the input device."""

    def __init__(self) -> None:
        self.requests: list[OperatorAction] = []
        self.readings: list[tuple[float, TeleopCommand]] = []
        self.mode = Mode.STANDBY

    def request(self, action: OperatorAction, origin: str, now_ns: int) -> None:
        self.requests.append(action)
        self.mode = Mode.TELEOP if action is OperatorAction.TELEOP else Mode.STANDBY

    def teleop(self, reading: TeleopCommand, now_ns: int) -> None:
        self.readings.append((time.monotonic(), reading))

    def status(self, now_ns: int) -> dict[str, Any]:
        drives = self.mode is Mode.TELEOP
        return {
            **STATUS,
            "mode": self.mode.name,
            "why": "waiting",
            "driver": "pad" if drives else "",
        }


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[Path, Console]]:
    """A control socket in a thread of its own."""
    path, console = tmp_path / "v.sock", Console()
    with start_blocking_portal() as portal:
        serving = portal.start_task_soon(ControlServer(path).serve, console)  # type: ignore[arg-type]
        until(lambda: answers(path))
        yield path, console
        serving.cancel()


class Sitting:
    """A session at a pad that is a pipe, with a script beside it."""

    def __init__(self, path: Path, tmp_path: Path, terminal: Terminal | None = None) -> None:
        device = tmp_path / "js0"
        os.mkfifo(device)
        self.writer = os.open(device, os.O_RDWR)
        self.joystick = JoystickDevice(device)
        self.line: list[str] = []
        pad = Pad(resolve(MAPS["xbox"], XPAD, "pad"), "pad")
        self.session = TeleopSession(
            path,
            Keyboard(1.0),
            (pad, self.joystick),
            terminal,
            period_ns=10_000_000,
            clock=time.monotonic_ns,
            say=self.line.append,
        )
        self.failure: Exception | None = None

    def press(self, *events: tuple[bool, int, int]) -> None:
        os.write(
            self.writer,
            b"".join(
                encode(JsEvent(0, value, is_axis, number)) for is_axis, number, value in events
            ),
        )

    def take(self) -> None:
        """Triggers at rest, deadman held, start pressed."""
        self.press((True, 2, -FULL), (True, 5, -FULL), (False, 4, 0), (False, 4, 1), (False, 7, 1))

    def run(self, script: Callable[[], None]) -> str:
        over = threading.Event()

        def act() -> None:
            try:
                script()
            except Exception as error:  # noqa: BLE001  (whatever it is, the test must see it)
                self.failure = error
                if not over.is_set():
                    os.kill(os.getpid(), signal.SIGTERM)

        thread = threading.Thread(target=act)
        thread.start()
        try:
            return self.session.run()
        finally:
            over.set()
            thread.join()
            self.joystick.close()
            if self.failure is not None:
                raise self.failure


def test_a_status_connection_that_is_closed_does_not_end_the_drive(
    served: tuple[Path, Console], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The daemon disconnects a client that was held up and has not read for a second."""
    path, console = served
    sitting = Sitting(path, tmp_path)

    def script() -> None:
        sitting.take()
        until(lambda: len(console.readings) > 5)
        sitting.session._status_client._socket.shutdown(socket.SHUT_RD)
        seen = len(console.readings)
        until(lambda: len(console.readings) > seen + 50)
        os.kill(os.getpid(), signal.SIGTERM)

    assert sitting.run(script) == "SIGTERM"
    os.close(sitting.writer)
    assert not any(reading.unplugged for _, reading in console.readings[:-2])


def test_the_end_of_the_run_is_said_and_nothing_else_is_taken_for_it(tmp_path: Path) -> None:
    path, console = tmp_path / "v.sock", Console()
    with start_blocking_portal() as portal:
        serving = portal.start_task_soon(ControlServer(path).serve, console)  # type: ignore[arg-type]
        until(lambda: answers(path))
        with Client(path) as client:
            client.status()
            serving.cancel()
            with pytest.raises(HungUpError, match=r"^the run has ended$"):
                client.receive()
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "w.sock"))
        listener.listen()
        with Client(tmp_path / "w.sock") as client:
            listener.accept()[0].close()
            with pytest.raises(HungUpError, match="without giving a reason"):
                client.receive()


def test_input_that_never_ends_does_not_hold_up_the_readings(
    served: tuple[Path, Console], tmp_path: Path
) -> None:
    path, console = served
    ours, theirs = os.openpty()
    os.set_blocking(ours, False)
    over = threading.Event()

    def flood() -> None:
        while not over.is_set():
            with suppress(BlockingIOError):
                os.write(ours, bytes(4096))

    flooding = threading.Thread(target=flood)
    flooding.start()
    try:
        with Terminal(theirs, theirs) as terminal:
            sitting = Sitting(path, tmp_path, terminal)

            def script() -> None:
                sitting.take()
                until(lambda: len(console.readings) > 50)
                os.kill(os.getpid(), signal.SIGTERM)

            assert sitting.run(script) == "SIGTERM"
            os.close(sitting.writer)
    finally:
        over.set()
        flooding.join()
        os.close(ours)
        os.close(theirs)


def test_a_terminal_that_nobody_reads_holds_up_nothing() -> None:
    ours, theirs = os.openpty()
    try:
        with Terminal(theirs, theirs) as terminal:
            for _ in range(2000):
                terminal.say(
                    (
                        "a line that nobody reads, longer than what is left in the buffer of the "
                        "terminal "
                    )
                    * 8
                )
            assert os.read(ours, 1 << 16)
            terminal.show("and then there is room again")
        assert os.get_blocking(theirs), "the flags of the shell's descriptor stay"
    finally:
        os.close(ours)
        os.close(theirs)


def test_readings_are_fresh_numbered_and_end_with_the_unplugging(
    served: tuple[Path, Console], tmp_path: Path
) -> None:
    path, console = served
    sitting = Sitting(path, tmp_path)

    def pushed() -> bool:
        newest = console.readings[-1][1]
        if not newest.deadman:
            # A busy computer has held up the front end, which has let go.
            sitting.press((False, 4, 0), (False, 4, 1))
        return newest.throttle == 1.0

    def script() -> None:
        time.sleep(0.1)
        assert not console.readings, "nobody has asked to drive"
        sitting.take()
        until(lambda: len(console.readings) > 5)
        sitting.press((True, 5, FULL))
        until(pushed)
        os.close(sitting.writer)

    assert "its recorded events have ended" in sitting.run(script)
    until(lambda: console.readings[-1][1].unplugged)
    assert console.requests == [OperatorAction.ARM, OperatorAction.TELEOP]
    readings = [reading for _, reading in console.readings]
    plain = [reading for reading in readings if not reading.unplugged]
    numbers = [reading.sequence for reading in plain]
    assert numbers == list(range(1, len(numbers) + 1)), "each once, none again"
    assert plain[0].throttle == 0.0
    assert readings.index(next(r for r in readings if r.unplugged)) == len(plain), (
        "nothing after it"
    )


def test_a_signal_ends_it_and_the_daemon_is_reported(
    served: tuple[Path, Console], tmp_path: Path
) -> None:
    path, console = served
    sitting = Sitting(path, tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def script() -> None:
        sitting.take()
        until(lambda: len(console.readings) > 2)
        os.kill(os.getpid(), signal.SIGHUP)

    assert sitting.run(script) == "the terminal was closed"
    until(lambda: console.readings[-1][1].unplugged)
    assert signal.getsignal(signal.SIGTERM) is before
    os.close(sitting.writer)


def test_a_front_end_that_was_held_up_lets_go(served: tuple[Path, Console], tmp_path: Path) -> None:
    path, console = served
    sitting = Sitting(path, tmp_path)
    reading = sitting.session._source.read

    def slow(now_ns: int) -> Reading:
        if len(console.readings) == 5:
            time.sleep(0.4)
        return reading(now_ns)

    sitting.session._source.read = slow  # type: ignore[method-assign]

    def script() -> None:
        sitting.take()
        until(lambda: len(console.readings) > 10)
        os.kill(os.getpid(), signal.SIGTERM)

    sitting.run(script)
    os.close(sitting.writer)
    after = [r.deadman for _, r in console.readings if not r.unplugged]
    assert after[0]
    assert not after[-1], "held through the gap, so it must be held anew"


def test_a_lost_daemon_is_reported_and_the_terminal_restored(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(8)
        master, slave = pty.openpty()
        before = termios.tcgetattr(slave)
        with Terminal(slave, slave) as terminal:
            assert termios.tcgetattr(slave) != before
            sitting = Sitting(path, tmp_path, terminal)

            def script() -> None:
                clients = [listener.accept()[0] for _ in range(2)]
                for client in clients:
                    client.close()

            with pytest.raises(ControlError, match="closed the connection"):
                sitting.run(script)
        assert termios.tcgetattr(slave) == before
        for fd in (master, slave, sitting.writer):
            os.close(fd)


def test_a_terminal_that_is_closed_ends_it_at_once(
    served: tuple[Path, Console], tmp_path: Path
) -> None:
    path, console = served
    master, slave = pty.openpty()
    with Terminal(slave, slave) as terminal:
        sitting = Sitting(path, tmp_path, terminal)

        def script() -> None:
            sitting.take()
            until(lambda: len(console.readings) > 2)
            os.close(master)

        assert "terminal" in sitting.run(script)
    until(lambda: console.readings[-1][1].unplugged)
    os.close(slave)
    os.close(sitting.writer)


def test_keys_of_the_terminal_count_beside_a_pad(
    served: tuple[Path, Console], tmp_path: Path
) -> None:
    path, console = served
    master, slave = pty.openpty()
    with Terminal(slave, slave) as terminal:
        sitting = Sitting(path, tmp_path, terminal)

        def script() -> None:
            os.write(master, b"\r")
            until(lambda: OperatorAction.TELEOP in console.requests)
            until(lambda: "TELEOP" in sitting.session._shown)
            os.write(master, b"q")

        assert sitting.run(script) == ""
    until(lambda: console.requests[-1] is OperatorAction.DISARM)
    shown = ""
    while select.select([master], [], [], 0.2)[0]:
        shown += os.read(master, 1 << 16).decode()
    assert "TELEOP" in shown
    assert shown.endswith("\x1b[?1004l\x1b[?25h"), "cursor and focus reports are as they were"
    for fd in (master, slave, sitting.writer):
        os.close(fd)


def test_a_daemon_that_does_not_read_finds_no_heap_of_old_readings(tmp_path: Path) -> None:
    path = tmp_path / "v.sock"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        listener.listen(1)
        with Client(path) as client, listener.accept()[0] as frozen:
            client.hurry()
            seat = TeleopState("keyboard of somebody")
            seat.actions_for([TeleopRequestKind.TAKE])
            taken = 0
            for _ in range(100):
                request = seat.request(Reading(0.123456789, 0.987654321, 0.0, True))
                assert request is not None
                taken += client.offer(request)
            assert 1 <= taken <= 6, "0.2 s at 30 Hz"
            assert frozen.recv(1 << 16).count(b"\n") == taken
            assert client.offer(StatusRequest()), "there is room again"


def test_the_daemon_is_reported_when_the_front_end_dies(served: tuple[Path, Console]) -> None:
    path, console = served
    with Client(path) as client:
        client.send(
            TeleopRequest(steering=0.0, throttle=0.5, deadman=True, sequence=9, origin="pad")
        )
        until(lambda: bool(console.readings))
    until(lambda: len(console.readings) == 2)
    last = console.readings[-1][1]
    assert last.unplugged
    assert last.origin == "pad"
    with Client(path) as client:
        client.ask(StatusRequest())
    with Client(path) as client:
        client.ask(StatusRequest())
    assert len(console.readings) == 2, "who never read a stick takes none away"
