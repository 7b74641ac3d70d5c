"""``vehicled run`` on ports of its own: devices that are plugged in late, pulled out in mid-drive,
and put back."""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from drivers.imu.n100 import decode as decode_n100
from drivers.ublox.codec import decode as decode_ublox
from sim_backend.emulators.failures import parse_failure
from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT
from tests.closed_loop.failure_table import PULLED
from vehicled.core.messages import (
    ActuatorCommand,
    Direction,
    EstimatorStatus,
    Event,
    Fault,
    ImuSample,
    Message,
    Mode,
    ModeChange,
    PortEvent,
    PortState,
    Reaction,
    StateEstimate,
    WireChunk,
)
from vehicled.log.reader import LogReader
from vehicled.paths.catalog import load_course
from vehicled.paths.tracking import PathTracker

VEHICLED = [sys.executable, "-m", "vehicled"]
# A plug that is pulled for three seconds must be noticed.
PATIENT = (*WIDE_LIMITS, "--set", "limits.imu_silence_s=1")
COURSE = "circle_r5_ccw"
IMU_HZ = 400
REACTIONS = {
    "capped": Reaction.CAP_SPEED,
    "controlled stop": Reaction.CONTROLLED_STOP,
    "brakes": Reaction.BRAKE,
}
OF_THE_MACHINE = (
    "deadlines_missed", "deadlines_share", "host_strained", "loop_blocked", "frame_expired",
    "vesc_drive_refused", "commands_cut", "gnss_silent", "vesc_unanswered", "gnss_rate",
    "heading_rate", "imu_rate",
)  # fmt: skip
"""Events that a busy machine may add to any log; ``commands_cut`` if a tick falls between a pulled
plug and its rule."""


class Vehicle:
    """A daemon and, in another process, the devices that it finds in a folder as it would in
    ``/dev/serial/by-id``."""

    def __init__(self, folder: Path, profile: str, course: str) -> None:
        self._folder = folder
        self._options = ["--profile", profile, "--course", course]
        self._profile = profile
        self._processes: list[subprocess.Popen[bytes]] = []
        self.devices = folder / "devices"

    def address(self, port: str, baud: str) -> str:
        """Return a port's address as the simulator prints it, but with early retries to keep the
        tests short."""
        path = self.devices / port
        if self._profile == "art_vesc" and port == "drive":
            return f"can:slcan:{path}?bitrate=500000&retry_max_s=0.2"
        return f"serial:{path}?retry_max_s=0.2{baud}"

    def run(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the daemon."""
        bauds = {
            "gnss": "",
            "heading": "",
            "operator": "",
            "imu": "&baud=921600",
            "drive": "&baud=250000",
        }
        ports = [
            w
            for port, baud in bauds.items()
            for w in ("--set", f'devices.{port}.port="{self.address(port, baud)}"')
        ]
        return self._start("run", "--log", str(self._folder), *PATIENT, *ports, *options)

    def plug_in(self, *options: str) -> subprocess.Popen[bytes]:
        """Start the simulator."""
        return self._start("simulator", "--ptys", str(self.devices), *options)

    def _start(self, command: str, *options: str) -> subprocess.Popen[bytes]:
        with (self._folder / command).open("wb") as said:
            self._processes.append(
                subprocess.Popen(
                    [*VEHICLED, command, *self._options, *options],
                    cwd=ROOT,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                )
            )
        return self._processes[-1]

    def said(self, command: str) -> str:
        """Return all output of the daemon or the simulator so far."""
        return (self._folder / command).read_text()

    def wait_for(self, text: str, times: int = 1) -> None:
        """Wait until the daemon has printed a text ``times`` times."""

        def shown() -> str:
            output = "\n".join(
                self.said(path.name)
                for path in self._folder.iterdir()
                if path.name in ("run", "simulator")
            )
            assert self._processes[0].poll() is None, output
            return f"never {text!r} {times} times in:\n{output}"

        wait_until(lambda: self.said("run").count(text) >= times, shown, every_s=0.05)

    def events(self) -> list[dict[str, Any]]:
        """Return the daemon's JSON lines."""
        return [json.loads(line) for line in self.said("run").splitlines() if line.startswith("{")]

    def log(self, *types: type[Message]) -> list[Any]:
        """Return messages of the given types from the daemon's log."""
        (file,) = self._folder.glob("*.mcap")
        with LogReader(file) as reader:
            return [record.message for record in reader.messages(*types)]

    def end(self) -> None:
        """Kill the processes that still run."""
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@pytest.fixture
def vehicle(tmp_path: Path) -> Iterator[Callable[[str, str], Vehicle]]:
    made: list[Vehicle] = []

    def make(profile: str, course: str) -> Vehicle:
        made.append(Vehicle(tmp_path, profile, course))
        return made[-1]

    yield make
    for one in made:
        one.end()


def received(chunks: list[WireChunk], port: str) -> bytes:
    return b"".join(
        chunk.data for chunk in chunks if chunk.port == port and chunk.direction is Direction.RX
    )


def test_it_waits_for_its_devices_stands_until_it_is_armed_and_drives(
    vehicle: Callable[[str, str], Vehicle], tmp_path: Path
) -> None:
    course = tmp_path / "yard.csv"
    course.write_text(
        "# name: yard\n# datum_deg: 43.0705, -89.4090, 230\n# closed: "
        "no\nx_m,y_m\n0,0\n1.5,0\n3,0\n"
    )
    art = vehicle("art", str(course))
    daemon = art.run()
    art.wait_for("port operator error")
    # The operator comes 1.5 s after the devices.
    simulator = art.plug_in("--fail", "operator:usb@0+1.5")
    art.wait_for("the course is finished", 2)
    os.kill(daemon.pid, signal.SIGTERM)
    assert daemon.wait(DEADLINE_S) == 130
    os.kill(simulator.pid, signal.SIGINT)
    assert simulator.wait(DEADLINE_S) == 143
    driven_m = float(art.said("simulator").split("the vehicle drove ")[1].split()[0])
    assert driven_m == pytest.approx(3.0, abs=1.0)
    assert (
        art.said("run")
        .splitlines()[-1]
        .startswith("vehicled: ended by SIGTERM (the course is finished)")
    )
    assert not any(art.devices.iterdir())

    reported = Counter(
        event["event"] for event in art.events() if event["event"].startswith("port ")
    )
    ports = ("gnss", "heading", "imu", "drive", "operator")
    assert reported == {f"port {port} {what}": 1 for port in ports for what in ("error", "opened")}
    missing = next(event["detail"] for event in art.events() if event["event"] == "port imu error")
    assert "does not exist: plug the device in" in missing

    armed_ns = next(change.t_ns for change in art.log(ModeChange) if change.after is Mode.ARMED)
    before = [estimate for estimate in art.log(StateEstimate) if estimate.t_ns < armed_ns]
    assert before[-1].status is EstimatorStatus.RUNNING
    assert abs(before[-1].speed_mps) < 0.05
    commands = art.log(ActuatorCommand)
    assert {command.throttle for command in commands if command.t_ns < armed_ns} == {0.0}
    assert {command.mode for command in commands if command.t_ns < armed_ns} <= {
        Mode.INIT,
        Mode.STANDBY,
        Mode.ARMED,
    }
    assert (commands[-1].mode, commands[-1].throttle) == (Mode.STANDBY, 0.0)
    chunks = art.log(WireChunk)
    seconds = (commands[-1].t_ns - armed_ns) / 1e9
    assert Counter(name for name, _ in decode_n100(received(chunks, "imu")))["IMU"] > 300 * seconds
    assert (
        Counter(name for name, _ in decode_ublox(received(chunks, "gnss")))["NAV-PVT"] > 8 * seconds
    )
    assert received(chunks, "operator")


def said(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*VEHICLED, *words], cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S
    )


def test_a_second_daemon_of_a_profile_is_refused_before_its_log_and_ports(
    vehicle: Callable[[str, str], Vehicle], tmp_path: Path
) -> None:
    art = vehicle("art", COURSE)
    art.run()
    art.wait_for("port imu error")
    second = said("run", "--profile", "art", "--log", str(tmp_path / "second"))
    assert second.returncode == 2
    (line,) = second.stderr.splitlines()
    assert "another daemon already uses" in line
    assert "stop it, or use another profile name" in line
    assert not (tmp_path / "second").exists()
    ports = json.loads(said("status", "--json").stdout)["ports"]
    assert {port["name"] for port in ports} == {"gnss", "heading", "imu", "drive", "operator"}


@contextmanager
def judged_if_in_time(vehicle: Vehicle, daemon: "subprocess.Popen[bytes]") -> Iterator[None]:
    """Skip a test that failed while this computer did not let simulator and daemon run, as the
    IMU's samples show."""
    try:
        yield
    except AssertionError:
        daemon.send_signal(signal.SIGINT)
        daemon.wait(DEADLINE_S)
        lost_ns = [
            each.t_ns
            for each in vehicle.log(PortEvent)
            if each.port == "imu" and each.state is PortState.LOST
        ]
        arrived_ns = [each.t_rx_ns for each in vehicle.log(ImuSample)]
        gaps_ns = [
            (b - a) for a, b in pairwise(arrived_ns) if not any(a <= lost <= b for lost in lost_ns)
        ]
        if gaps_ns and (max(gaps_ns) > 0.2e9 or len(gaps_ns) / sum(gaps_ns) < 0.9 * IMU_HZ / 1e9):
            rate_hz = len(gaps_ns) / sum(gaps_ns) * 1e9
            pytest.skip(
                f"this machine is too busy: the IMU of {IMU_HZ} Hz came at {rate_hz:.0f} Hz, "
                f"after {max(gaps_ns) / 1e6:.0f} ms once"
            )
        raise


def test_plugs_are_pulled_and_put_back_in_mid_drive(vehicle: Callable[[str, str], Vehicle]) -> None:
    art = vehicle("art_vesc", COURSE)
    vesc = [
        word
        for limit in ("silence_s=2", "timeout_ms=4000")
        for word in ("--set", f"devices.drive.driver.vesc_can.{limit}")
    ]
    daemon = art.run("--laps", "3", *vesc)
    art.wait_for("port operator error")
    # The operator arms and lets drive whenever his port is opened: that is how the vehicle goes on
    # after each stop.
    pulls = [row.failure for row in PULLED] + ["operator:usb@16+0.3", "operator:usb@26+0.3"]
    art.plug_in(*(word for pull in pulls for word in ("--fail", pull)))
    with judged_if_in_time(art, daemon):
        art.wait_for("AUTO: driving", 3)
        os.kill(daemon.pid, signal.SIGINT)
        assert daemon.wait(DEADLINE_S) == 130
        assert "stopped by Ctrl-C; the vehicle stands" in art.said("run").splitlines()[-1]

        reported = art.log(Fault, Event, PortEvent)
        modes = art.log(ModeChange)
        # ARMED is too short to be seen each time.
        ways = [change.after.name for change in modes if change.after is not Mode.ARMED]
        drives = ["AUTO", "STOPPING", "STANDBY"]
        assert ways[:8] == ["STANDBY", *drives, *drives, "AUTO"], (
            "stopped without the gyro and the motor, not without the position"
        )
        armed_ns = [change.t_ns for change in modes if change.after is Mode.AUTO]
        commands, estimates = art.log(ActuatorCommand), art.log(StateEstimate)
        tracker = PathTracker(load_course(COURSE).repeated(3))
        off_m = [
            (each.t_ns, abs(tracker.update(each.x_m, each.y_m, each.yaw_rad).cross_track_m))
            for each in estimates
        ]
        ports = [parse_failure(row.failure).port for row in PULLED]
        events = {
            port: [each for each in reported if isinstance(each, PortEvent) and each.port == port]
            for port in ports
        }
        # Until the next plug is pulled, or until the vehicle is armed again.
        for row, port, over_ns in zip(
            PULLED, ports, (events[ports[1]][2].t_ns, armed_ns[1], armed_ns[2])
        ):
            states = events[port]
            # Reported once when it goes and once when it comes back, under the same name.
            assert [each.state for each in states] == [
                PortState.ERROR,
                PortState.OPENED,
                PortState.LOST,
                PortState.OPENED,
            ]
            lost_ns, back_ns = states[2].t_ns, states[3].t_ns
            assert states[3].detail.split()[0] == states[1].detail.split()[0]
            assert back_ns - lost_ns > 0.5e9 * parse_failure(row.failure).duration_s
            within = [each for each in reported if lost_ns <= each.t_ns < over_ns]
            names = {
                each.code if isinstance(each, Fault) else each.name
                for each in within
                if not isinstance(each, PortEvent)
            }
            assert set(row.named) <= names <= {*row.named, "substitutes", *OF_THE_MACHINE}
            wanted = REACTIONS[row.vehicle]
            hit = next(
                each for each in commands if each.t_ns >= lost_ns and each.reaction is wanted
            )
            # A busy computer delays the next command, too.
            times_ns = [
                lost_ns,
                *(each.t_ns for each in commands if lost_ns < each.t_ns <= hit.t_ns),
            ]
            assert hit.t_ns - lost_ns < row.within_s * 1e9 + max(
                later - sooner for sooner, later in pairwise(times_ns)
            )
            assert max(far for t_ns, far in off_m if lost_ns <= t_ns < over_ns) <= row.off_course_m

        # The motor controller comes back disarmed: nothing drives it until somebody does so again.
        between = [each for each in commands if hit.t_ns <= each.t_ns < armed_ns[2]]
        assert back_ns < armed_ns[2]
        assert len(between) > 100
        assert {each.throttle for each in between} == {0.0}


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ('devices.gnss.port=""', "devices.gnss.port: missing"),
        (
            "devices.gnss.port=serial:gnss",
            "devices.gnss.port: 'serial:gnss': a device path begins with a slash",
        ),
    ],
)
def test_a_port_that_cannot_be_one_is_refused(
    setting: str, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from vehicled.cli import main

    assert main(["run", "--profile", "art", "--set", setting]) == 2
    assert text in capsys.readouterr().err
