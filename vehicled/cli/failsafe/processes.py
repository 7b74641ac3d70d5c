"""The processes of one trial in wall time: started as users start them, ended whatever happens."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from vehicled.control_socket.client import Client, ControlError
from vehicled.control_socket.place import SUFFIX, PlaceError
from vehicled.log.reader import LogReader
from vehicled.messages import Message

COURSE = "circle_r5_ccw"
START_S = 30.0
"""Patience until something runs or drives."""
END_S = 20.0
READING_S = 0.02
TELEMETRY, SILENCE, LOOP = "limits.telemetry_silence_s", "devices.drive.driver.vesc_can.silence_s", "limits.loop_silence_s"
PATIENT = {
    "limits.imu_silence_s": 0.4,
    "limits.estimate_silence_s": 0.5,
    "limits.control_silence_s": 0.5,
    TELEMETRY: 0.5,
    SILENCE: 0.5,
    LOOP: 1.0,
}
"""A machine that stalls for a while must not add a stop of its own. What is on trial keeps its limit."""


class TrialError(Exception):
    """The trial could not be made; the text says why."""


class EndedError(TrialError):
    """The daemon ended, or hung up, before anything was done to it."""


class Processes:
    """Daemon and simulator with a folder for log, sockets and ports. A context: nothing outlives it."""

    def __init__(self, folder: Path, profile: str, link: str, seed: int, on_trial: Collection[str] = ()) -> None:
        """``on_trial``: keys of ``PATIENT`` that stay as the profile has them."""
        self.folder, self.link = folder, link
        self._patient = {key: value for key, value in PATIENT.items() if key not in on_trial}
        self._profile, self._seed = profile, seed
        self._running: list[subprocess.Popen[bytes]] = []
        self._files = 0
        self._environment = {**os.environ, "RUNTIME_DIRECTORY": str(folder)}
        self.daemon: subprocess.Popen[bytes]

    def __enter__(self) -> "Processes":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---------------------------------------------------------------- starting

    def sim(self, *options: str, lying: bool = False) -> None:
        """``vehicled sim`` on the wall clock; ``lying`` clocks jump when it is sent a signal."""
        module = "vehicled.cli.failsafe.lying_clock" if lying else "vehicled"
        words = [
            "sim",
            "--clock",
            "wall",
            "--strict-clock",
            "--link",
            self.link,
            "--seed",
            str(self._seed),
            "--laps",
            "3",
            *options,
        ]
        self.daemon = self._start(module, [*words, *self._common(self._profile)])

    def daemon_and_simulator(self, profile: str) -> None:
        """``vehicled run`` against a simulator of its own, with another file as the profile."""
        address = f"unix:{self.folder / 'link'}"
        world = ["simulator", "--listen", address, "--profile", profile, "--course", COURSE, "--link", self.link]
        self._start("vehicled", world)
        self._wait(lambda: (self.folder / "link").exists(), "the simulator does not listen")
        self.daemon = self._start("vehicled", ["run", "--connect", address, *self._common(profile)])

    def plug_in(self) -> None:
        """The vehicle's devices as serial ports."""
        devices = self.folder / "devices"
        self._start("vehicled", ["simulator", "--ptys", str(devices), "--profile", self._profile, "--course", COURSE])
        self._wait(lambda: (devices / "drive").exists(), "the simulator makes no ports")

    def run_on_ptys(self, *, operator: bool) -> None:
        """``vehicled run`` on those; without the operator's port nobody arms it."""
        devices = self.folder / "devices"
        words = ["run", "--laps", "3"]
        for port, tail in {"gnss": "", "heading": "", "imu": "&baud=921600", "operator": ""}.items():
            url = "" if port == "operator" and not operator else f"serial:{devices / port}?retry_max_s=0.2{tail}"
            words += ["--set", f'devices.{port}.port="{url}"']
        words += ["--set", f'devices.drive.port="can:slcan:{devices / "drive"}?bitrate=500000&retry_max_s=0.2"']
        self.daemon = self._start("vehicled", [*words, *self._common(self._profile)])

    def _common(self, profile: str) -> list[str]:
        patient = [word for key, value in self._patient.items() for word in ("--set", f"{key}={value}")]
        return ["--profile", profile, "--course", COURSE, "--log", str(self.folder), *patient]

    def _start(self, module: str, words: list[str]) -> "subprocess.Popen[bytes]":
        self._files += 1
        with (self.folder / f"said{self._files}.txt").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, env=self._environment,
            )  # fmt: skip
        self._running.append(process)
        return process

    # ---------------------------------------------------------------- watching

    def client(self) -> Client:
        """A connection to the daemon's control socket."""
        found: list[Client] = []

        def connected() -> bool:
            for path in self.folder.glob(f"*{SUFFIX}"):
                try:
                    found.append(Client(path))
                except (ControlError, PlaceError):
                    continue
                return True
            return False

        self._wait(connected, "the daemon opens no control socket")
        return found[0]

    def wait_for_mode(self, mode: str) -> None:
        """Until the daemon is in it."""
        with self.client() as client:
            self._wait(lambda: client.ask(do="status")["status"]["mode"] == mode, f"the daemon does not come to {mode}")

    def wait_while_mode(self, mode: str, at_most_s: float) -> None:
        """While the daemon is in it, and still there."""
        end_s = time.monotonic() + at_most_s
        with self.client() as client:
            while time.monotonic() < end_s and self.daemon.poll() is None:
                try:
                    if client.ask(do="status")["status"]["mode"] != mode:
                        return
                except ControlError:
                    return
                time.sleep(0.05)

    def hold_stick(self, client: Client, until_s: float) -> None:
        """Readings of a stick: neutral until the vehicle is taken, then pushed."""
        sequence, asked = 0, 0
        while time.monotonic() < until_s or asked < 2:
            if time.monotonic() > until_s + START_S:
                raise TrialError("the vehicle cannot be taken by hand")
            sequence += 1
            throttle = 0.5 if asked == 2 else 0.0
            client.send(do="hand", steering=0.0, throttle=throttle, deadman=True, sequence=sequence, origin="gamepad")
            if sequence % 10 == 0 and asked < 2:
                mode = client.ask(do="status")["status"]["mode"]
                if mode == "TELEOP":
                    asked = 2
                    until_s = max(until_s, time.monotonic() + 1.5)
                else:
                    client.ask(do="request", action="teleop" if mode == "ARMED" else "arm")
            time.sleep(READING_S)

    def simulator_pid(self) -> int:
        """Process of the daemon's simulator."""
        return self._child(simulator=True)

    def writer_pid(self) -> int:
        """Process that writes the daemon's log."""
        return self._child(simulator=False)

    def _child(self, *, simulator: bool) -> int:
        pid = self.daemon.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in children:
                if (b"sim_backend" in Path(f"/proc/{child}/cmdline").read_bytes()) is simulator:
                    return int(child)
        except OSError as error:
            raise TrialError(f"the daemon's processes cannot be found: {error.strerror}") from None
        raise TrialError("the daemon has no such process")

    def said(self) -> str:
        """By everyone, so far."""
        return "\n".join(path.read_text(errors="replace") for path in sorted(self.folder.glob("said*.txt")))

    def _reason(self) -> str:
        """Why the daemon ended, as it says itself."""
        with suppress(subprocess.TimeoutExpired):
            self.daemon.wait(END_S)
        found = [line.strip() for line in self.said().splitlines() if "finished:" in line or '"why"' in line]
        return found[-1] if found else f"it said: {self.said()[-300:]}"

    # ---------------------------------------------------------------- ending

    def end(self, after_s: float = 0.0) -> None:
        """Stop the daemon as a user does, so that its log is whole."""
        try:
            self.daemon.wait(max(after_s, 0.001))
            return
        except subprocess.TimeoutExpired:
            self.daemon.send_signal(signal.SIGINT)
        try:
            self.daemon.wait(END_S)
        except subprocess.TimeoutExpired:
            raise TrialError("the daemon does not end") from None

    def log(self, *types: type[Message]) -> list[Any]:
        """Of the newest log, the messages of some types, in order."""
        files = sorted(self.folder.glob("*.mcap"), key=lambda path: path.stat().st_mtime_ns)
        if not files:
            raise TrialError(f"there is no log; it said: {self.said()[-300:]}")
        with LogReader(files[-1]) as reader:
            return [record.message for record in reader.messages(*types)]

    def _wait(self, holds: Any, complaint: str) -> None:
        end_s = time.monotonic() + START_S
        while True:
            try:
                if holds():
                    return
            except ControlError as error:
                raise EndedError(f"{complaint}: {error}; {self._reason()}") from None
            if time.monotonic() > end_s or self._running[-1].poll() is not None:
                raise TrialError(f"{complaint}; it said: {self.said()[-300:]}")
            time.sleep(0.05)
