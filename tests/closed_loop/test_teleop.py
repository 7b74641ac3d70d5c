"""Driving by hand on the wall clock: a scripted driver over the control socket, and a keyboard in a
terminal.

One simulation for all of it, in which the vehicle is taken again and again. What is judged is its
log.
"""

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import Struct

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT
from vehicled.core.messages import (
    ActuatorCommand,
    Fault,
    GroundTruth,
    Message,
    Mode,
    StateEstimate,
    TeleopCommand,
)
from vehicled.live.control_socket.client import Client
from vehicled.live.control_socket.protocol import ActionRequest, TeleopRequest
from vehicled.log.reader import LogReader

VEHICLED = [sys.executable, "-m", "vehicled"]
SILENCE_S = 2.0
"""Limit of the daemon. It is that long because a busy computer may keep the stick waiting for
longer than 0.2 s."""
FAST_MPS = 0.4


class Drive(Struct, frozen=True):
    """One time by hand, between two instants of the daemon's clock."""

    start_ns: int
    end_ns: int
    states: list[dict[str, Any]]


class ScriptedDriver:
    """A stick that does what a script says, 30 times a second, over the control socket."""

    def __init__(self, path: Path, origin: str) -> None:
        self.client, self.asks = Client(path, DEADLINE_S), Client(path, DEADLINE_S)
        self.origin = origin
        self.sequence = 0
        self.states: list[dict[str, Any]] = []

    def read(self, **reading: Any) -> None:
        self.sequence += 1
        values: dict[str, Any] = {
            "steering": 0.0,
            "throttle": 0.0,
            "deadman": True,
            "sequence": self.sequence,
            "origin": self.origin,
        }
        self.client.send(TeleopRequest(**(values | reading)))

    def state(self) -> dict[str, Any]:
        self.states.append(self.asks.status())
        return self.states[-1]

    def hold(self, holds: Callable[[dict[str, Any]], bool], **reading: Any) -> None:
        """Read on until the daemon's state fulfils a condition; without a reading only wait."""
        end_s = time.monotonic() + DEADLINE_S
        while not holds(self.state()):
            assert time.monotonic() < end_s, self.states[-1]
            if reading:
                self.read(**reading)
            time.sleep(1 / 30)

    def until(self, mode: str, **reading: Any) -> None:
        """Read on until the daemon is in a mode."""
        self.hold(lambda state: state["mode"] == mode, **reading)

    def take(self) -> None:
        for action in ("arm", "teleop"):
            self.client.ask(ActionRequest(action))
        self.until("TELEOP", deadman=True)

    def close(self) -> None:
        for client in (self.client, self.asks):
            client.__exit__()


def fast(state: dict[str, Any]) -> bool:
    return (state["estimate"]["speed_mps"] or 0.0) > FAST_MPS


def _forward(driver: ScriptedDriver) -> None:
    driver.take()
    driver.hold(fast, throttle=1.0, steering=0.5)


def _released(driver: ScriptedDriver) -> None:
    _forward(driver)
    driver.until("STANDBY", deadman=False)


def _silent(driver: ScriptedDriver) -> None:
    _forward(driver)
    driver.until("STANDBY")


def _unplugged(driver: ScriptedDriver) -> None:
    _forward(driver)
    driver.read(unplugged=True)
    driver.until("STANDBY")


def _died(driver: ScriptedDriver) -> None:
    _forward(driver)
    driver.client.__exit__()
    driver.until("STANDBY")


def _not_neutral(driver: ScriptedDriver) -> None:
    for action in ("arm", "teleop"):
        driver.client.ask(ActionRequest(action))
    driver.until("ARMED", deadman=True, throttle=1.0)
    refused_s = time.monotonic() + 0.5
    driver.hold(lambda _: time.monotonic() > refused_s, throttle=1.0)
    driver.client.ask(ActionRequest("stop"))


SCRIPTS = {
    "released": _released,
    "silent": _silent,
    "unplugged": _unplugged,
    "died": _died,
    "not_neutral": _not_neutral,
}


class Drives(Struct, frozen=True):
    """Results of the drives."""

    drives: dict[str, Drive]
    messages: list[tuple[int, Message]]
    status: int
    result: dict[str, Any]
    screen: str

    def of(self, name: str, *kinds: type[Message]) -> list[tuple[int, Any]]:
        """Messages of one time by hand, by log time."""
        drive = self.drives[name]
        return [
            (t, m)
            for t, m in self.messages
            if drive.start_ns <= t <= drive.end_ns and isinstance(m, kinds)
        ]


@pytest.fixture(scope="module")
def sitting(tmp_path_factory: pytest.TempPathFactory) -> Drives:
    """The whole script, once."""
    folder = tmp_path_factory.mktemp("sitting")
    environment = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    options = [
        *WIDE_LIMITS,
        "--set",
        f"limits.teleop_silence_s={SILENCE_S}",
        "--link-timeout",
        "60",
    ]
    command = [
        "sim",
        "--clock",
        "wall",
        "--strict-clock",
        "--by-hand",
        "--course",
        "sine",
        "--json",
        "--quiet",
        "--log",
        str(folder),
        *options,
    ]
    daemon = subprocess.Popen(
        [*VEHICLED, *command], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True
    )
    try:
        path = folder / "vehicled" / "art.sock"
        wait_until(
            lambda: path.exists() or daemon.poll() is not None,
            lambda: "it does not open its control socket",
        )
        drives = {}
        opening = ScriptedDriver(path, "opening")
        opening.until("STANDBY")
        opening.close()
        for name, script in SCRIPTS.items():
            start_ns = time.monotonic_ns()
            driver = ScriptedDriver(path, f"driver {name}")
            script(driver)
            driver.close()
            drives[name] = Drive(start_ns, time.monotonic_ns(), driver.states)
        start_ns = time.monotonic_ns()
        screen, states = _keyboard(path, environment)
        drives["keyboard"] = Drive(start_ns, time.monotonic_ns(), states)
        with Client(path) as client:
            # It may be gone before it answers: disarming ends the run.
            client.send(ActionRequest("disarm"))
        out, _ = daemon.communicate(timeout=DEADLINE_S)
    finally:
        daemon.kill()
        daemon.communicate()
    with LogReader(max(folder.glob("*.mcap"), key=lambda file: file.stat().st_mtime_ns)) as log:
        kinds = (ActuatorCommand, Fault, GroundTruth, StateEstimate, TeleopCommand)
        messages = [(record.t_ns, record.message) for record in log.messages(*kinds)]
    return Drives(drives, messages, daemon.returncode, json.loads(out), screen)


def _keyboard(path: Path, environment: dict[str, str]) -> tuple[str, list[dict[str, Any]]]:
    """Somebody in a terminal: takes the vehicle, drives, and closes the window with the key still
    held."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(ROOT)
        teleop = [
            *VEHICLED,
            "teleop",
            "--profile",
            str(path),
            "--device",
            "keyboard",
            "--throttle",
            "1",
        ]
        os.execve(sys.executable, teleop, environment)
    screen = ""

    def press(key: bytes) -> None:
        nonlocal screen
        os.write(terminal, key)
        time.sleep(0.03)
        while select.select([terminal], [], [], 0)[0]:
            screen += os.read(terminal, 1 << 14).decode(errors="replace")

    driver = ScriptedDriver(path, "onlooker")
    taken_s = 0.0

    def driven() -> bool:
        """Press the next key. A busy computer may delay the keys until the deadman counts as
        released: then take it again."""
        nonlocal taken_s
        state = driver.state()
        if "ARMED: " not in screen:
            press(b"")
        elif state["mode"] in ("STANDBY", "ARMED") and time.monotonic() > taken_s + 2.0:
            taken_s = time.monotonic()
            press(b"\r")
        else:
            press({"ARMED": b" ", "TELEOP": b"w"}.get(state["mode"], b""))
        return fast(state) and "[held]" in screen

    try:
        wait_until(driven, lambda: (driver.states[-1], screen), every_s=0.0)
    finally:
        os.close(terminal)
    driver.until("STANDBY")
    driver.close()
    ended = [0]

    def gone() -> bool:
        ended[0] = os.waitpid(pid, os.WNOHANG)[0]
        return ended[0] != 0

    try:
        wait_until(gone, lambda: "it outlives its terminal")
    finally:
        if not ended[0]:
            os.kill(pid, signal.SIGKILL)
    return screen, driver.states


DROVE = ("released", "silent", "unplugged", "died", "keyboard")


@pytest.mark.parametrize("name", DROVE)
def test_manual_driving_moves_the_vehicle_and_it_stands_in_the_end(
    sitting: Drives, name: str
) -> None:
    speeds = [truth.speed_mps for _, truth in sitting.of(name, GroundTruth)]
    assert max(speeds) > 0.3
    assert speeds[-1] < 0.15, "as good as at rest, by the estimate"
    assert sitting.drives[name].states[-1]["mode"] == "STANDBY"


def test_the_wheels_follow_the_stick(sitting: Drives) -> None:
    commands = [m for _, m in sitting.of("released", ActuatorCommand) if m.mode is Mode.TELEOP]
    assert max(m.wheel_angle_rad for m in commands) == pytest.approx(0.5 * 0.375, abs=0.01)


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("released", "deadman_released"),
        ("silent", "teleop_lost"),
        ("unplugged", "teleop_unplugged"),
        ("died", "teleop_unplugged"),
        ("keyboard", "teleop_unplugged"),
    ],
)
def test_it_brakes_for_the_right_reason(sitting: Drives, name: str, code: str) -> None:
    trips = [
        m.code
        for _, m in sitting.of(name, Fault)
        if m.active and m.code.startswith(("teleop", "deadman"))
    ]
    # A busy computer may have ended a drive with the keyboard before.
    assert trips[-1] == code
    stopped = [m for _, m in sitting.of(name, ActuatorCommand) if m.mode is Mode.STOPPING]
    assert stopped
    assert all(m.throttle == 0.0 and m.brake == 1.0 for m in stopped)


def test_silence_brakes_after_its_time_and_not_before(sitting: Drives) -> None:
    readings = [t for t, m in sitting.of("silent", TeleopCommand) if not m.unplugged]
    (trip,) = [t for t, m in sitting.of("silent", Fault) if m.code == "teleop_lost" and m.active]
    assert trip - readings[-1] > SILENCE_S * 1e9
    # No command that drives rests on a reading older than that.
    for t, command in sitting.of("silent", ActuatorCommand):
        if command.mode is Mode.TELEOP and command.throttle > 0.0:
            newest = max(r for r in readings if r <= t)
            assert t - newest <= SILENCE_S * 1e9


@pytest.mark.parametrize("name", ["unplugged", "died"])
def test_an_unplugged_stick_is_not_waited_for(sitting: Drives, name: str) -> None:
    gone = next(
        t
        for t, m in sitting.of(name, TeleopCommand)
        if m.unplugged and m.origin == f"driver {name}"
    )
    driving = [t for t, m in sitting.of(name, ActuatorCommand) if t > gone and m.throttle > 0.0]
    # The next tick of actuation brakes; one more may have been on its way.
    assert len(driving) <= 1


def test_no_reading_counts_twice(sitting: Drives) -> None:
    for name in DROVE:
        numbers = [
            (m.origin, m.sequence) for _, m in sitting.of(name, TeleopCommand) if not m.unplugged
        ]
        assert len(set(numbers)) == len(numbers)
    keyboard = [m.sequence for _, m in sitting.of("keyboard", TeleopCommand) if not m.unplugged]
    assert keyboard == list(range(1, len(keyboard) + 1))


def test_a_stick_that_is_not_neutral_at_the_start_is_refused(sitting: Drives) -> None:
    modes = {m.mode for _, m in sitting.of("not_neutral", ActuatorCommand)}
    assert Mode.ARMED in modes
    assert Mode.TELEOP not in modes
    assert all(m.throttle == 0.0 for _, m in sitting.of("not_neutral", ActuatorCommand))


def test_the_terminal_says_what_happens(sitting: Drives) -> None:
    for text in (
        "hold the space bar",
        "ARMED",
        "TELEOP",
        "driven by hand: keyboard",
        "[held]",
        "m/s",
    ):
        assert text in sitting.screen


def test_disarming_ends_the_simulation(sitting: Drives) -> None:
    assert sitting.status == 0
    assert "disarmed by" in sitting.result["why"]
    assert not sitting.result["finished"]


def test_by_hand_needs_the_wall_clock() -> None:
    done = subprocess.run(
        [*VEHICLED, "sim", "--by-hand"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--clock wall" in done.stderr
