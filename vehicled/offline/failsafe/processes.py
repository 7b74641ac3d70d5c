"""Processes of one trial in wall time, started as a user would start them, and always ended."""

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

from vehicled.core.messages import Message
from vehicled.live.control_socket.client import Client, ControlError
from vehicled.live.control_socket.protocol import ActionRequest, TeleopRequest
from vehicled.live.control_socket.socket_path import SUFFIX, SocketPathError
from vehicled.log.reader import LogReader

COURSE = "circle_r5_ccw"
START_S = 30.0
"""Longest wait until a process runs or the vehicle drives, s."""
END_S = 20.0
READING_S = 0.02
TELEMETRY = "limits.telemetry_silence_s"
SILENCE = "devices.drive.driver.vesc_can.silence_s"
LOOP = "limits.loop_silence_s"
LONG_TIMEOUTS = {
    "limits.imu_silence_s": 0.4,
    "limits.estimate_silence_s": 0.5,
    "limits.control_silence_s": 0.5,
    TELEMETRY: 0.5,
    SILENCE: 0.5,
    LOOP: 1.0,
}
"""Wider limits, so that a stalled machine does not cause a stop of its own. The limit under test is
not widened."""


class TrialError(Exception):
    """The trial could not be made; the text gives the reason."""


class EndedError(TrialError):
    """The daemon ended or closed the connection before the injection."""


class Processes:
    """Context of daemon and simulator with a folder for log, sockets and ports. All processes end
    with it."""

    def __init__(
        self, folder: Path, profile: str, link: str, seed: int, on_trial: Collection[str] = ()
    ) -> None:
        """Take the trial's settings. ``on_trial`` lists keys of ``LONG_TIMEOUTS`` that keep the
        profile's value."""
        self.folder, self.link = folder, link
        self._long_timeouts = {
            key: value for key, value in LONG_TIMEOUTS.items() if key not in on_trial
        }
        self._profile, self._seed = profile, seed
        self._running: list[subprocess.Popen[bytes]] = []
        self._files = 0
        self._environment = {**os.environ, "RUNTIME_DIRECTORY": str(folder)}
        self.daemon: subprocess.Popen[bytes]

    def __enter__(self) -> "Processes":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()

    # ---------------------------------------------------------------- starting

    def sim(self, *options: str, lying: bool = False) -> None:
        """Start ``vehicled sim`` on the wall clock; its clocks jump on a signal if ``lying``."""
        module = "vehicled.offline.failsafe.lying_clock" if lying else "vehicled"
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
        """Start ``vehicled run`` with a given profile file against a separate simulator."""
        address = f"unix:{self.folder / 'link'}"
        world = [
            "simulator",
            "--listen",
            address,
            "--profile",
            profile,
            "--course",
            COURSE,
            "--link",
            self.link,
        ]
        self._start("vehicled", world)
        self._wait(lambda: (self.folder / "link").exists(), "the simulator did not open its socket")
        self.daemon = self._start("vehicled", ["run", "--connect", address, *self._common(profile)])

    def plug_in(self) -> None:
        """Start the simulator with the vehicle's devices as pseudo-terminals."""
        devices = self.folder / "devices"
        self._start(
            "vehicled",
            ["simulator", "--ptys", str(devices), "--profile", self._profile, "--course", COURSE],
        )
        self._wait(lambda: (devices / "drive").exists(), "the simulator did not create its ports")

    def run_on_ptys(self, *, operator: bool) -> None:
        """Start ``vehicled run`` on these ports; nothing arms it without the operator's port."""
        devices = self.folder / "devices"
        words = ["run", "--laps", "3"]
        for port, tail in {
            "gnss": "",
            "heading": "",
            "imu": "&baud=921600",
            "operator": "",
        }.items():
            url = (
                ""
                if port == "operator" and not operator
                else f"serial:{devices / port}?retry_max_s=0.2{tail}"
            )
            words += ["--set", f'devices.{port}.port="{url}"']
        words += [
            "--set",
            f'devices.drive.port="can:slcan:{devices / "drive"}?bitrate=500000&retry_max_s=0.2"',
        ]
        self.daemon = self._start("vehicled", [*words, *self._common(self._profile)])

    def _common(self, profile: str) -> list[str]:
        timeouts = [
            word
            for key, value in self._long_timeouts.items()
            for word in ("--set", f"{key}={value}")
        ]
        return ["--profile", profile, "--course", COURSE, "--log", str(self.folder), *timeouts]

    def _start(self, module: str, words: list[str]) -> "subprocess.Popen[bytes]":
        self._files += 1
        with (self.folder / f"said{self._files}.txt").open("wb") as said:
            process = subprocess.Popen(
                [sys.executable, "-m", module, *words],
                stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT,
                env=self._environment,
            )  # fmt: skip
        self._running.append(process)
        return process

    # ---------------------------------------------------------------- watching

    def client(self) -> Client:
        """Return a connection to the daemon's control socket."""
        found: list[Client] = []

        def connected() -> bool:
            for path in self.folder.glob(f"*{SUFFIX}"):
                try:
                    found.append(Client(path))
                except (ControlError, SocketPathError):
                    continue
                return True
            return False

        self._wait(connected, "the daemon did not open its control socket")
        return found[0]

    def wait_for_mode(self, mode: str) -> None:
        """Wait until the daemon is in a mode."""
        with self.client() as client:
            self._wait(
                lambda: client.status()["mode"] == mode, f"the daemon did not reach mode {mode}"
            )

    def wait_while_mode(self, mode: str, at_most_s: float) -> None:
        """Wait while the daemon runs and stays in a mode."""
        end_s = time.monotonic() + at_most_s
        with self.client() as client:
            while time.monotonic() < end_s and self.daemon.poll() is None:
                try:
                    if client.status()["mode"] != mode:
                        return
                except ControlError:
                    return
                time.sleep(0.05)

    def hold_stick(self, client: Client, until_s: float) -> None:
        """Send teleop readings: neutral until teleop starts, then deflected."""
        sequence, asked = 0, 0
        while time.monotonic() < until_s or asked < 2:
            if time.monotonic() > until_s + START_S:
                raise TrialError("teleop could not take over the vehicle")
            sequence += 1
            throttle = 0.5 if asked == 2 else 0.0
            reading = TeleopRequest(
                steering=0.0, throttle=throttle, deadman=True, sequence=sequence, origin="gamepad"
            )
            client.send(reading)
            if sequence % 10 == 0 and asked < 2:
                mode = client.status()["mode"]
                if mode == "TELEOP":
                    asked = 2
                    until_s = max(until_s, time.monotonic() + 1.5)
                else:
                    client.ask(ActionRequest("teleop" if mode == "ARMED" else "arm"))
            time.sleep(READING_S)

    def simulator_pid(self) -> int:
        """Return the process id of the daemon's simulator."""
        return self._child(simulator=True)

    def writer_pid(self) -> int:
        """Return the process id of the daemon's log writer."""
        return self._child(simulator=False)

    def _child(self, *, simulator: bool) -> int:
        pid = self.daemon.pid
        try:
            children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
            for child in children:
                if (b"sim_backend" in Path(f"/proc/{child}/cmdline").read_bytes()) is simulator:
                    return int(child)
        except OSError as error:
            raise TrialError(f"cannot find the daemon's processes: {error.strerror}") from None
        raise TrialError("the daemon has no process of this kind")

    def said(self) -> str:
        """Return the output of all processes so far."""
        return "\n".join(
            path.read_text(errors="replace") for path in sorted(self.folder.glob("said*.txt"))
        )

    def _reason(self) -> str:
        """Return the daemon's own reason for its end."""
        with suppress(subprocess.TimeoutExpired):
            self.daemon.wait(END_S)
        found = [
            line.strip()
            for line in self.said().splitlines()
            if "finished:" in line or '"why"' in line
        ]
        return found[-1] if found else f"its output: {self.said()[-300:]}"

    # ---------------------------------------------------------------- ending

    def end(self, after_s: float = 0.0) -> None:
        """Stop the daemon with a signal, so that its log is complete."""
        try:
            self.daemon.wait(max(after_s, 0.001))
            return
        except subprocess.TimeoutExpired:
            self.daemon.send_signal(signal.SIGINT)
        try:
            self.daemon.wait(END_S)
        except subprocess.TimeoutExpired:
            raise TrialError("the daemon did not end") from None

    def log(self, *types: type[Message]) -> list[Any]:
        """Iterate over the newest log's messages of the given types, in log order."""
        files = sorted(self.folder.glob("*.mcap"), key=lambda path: path.stat().st_mtime_ns)
        if not files:
            raise TrialError(f"no log was written; output: {self.said()[-300:]}")
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
                raise TrialError(f"{complaint}; output: {self.said()[-300:]}")
            time.sleep(0.05)
