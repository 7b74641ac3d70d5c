"""The simulator plays a profile's devices on real ports, for a daemon at the other end of the
cables."""

import os
import select
import signal
import socket
import subprocess
import sys
import threading
import tty
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from can.interfaces.udp_multicast import UdpMulticastBus

from tests.busy_computer import DEADLINE_S, WIDE_LIMITS, wait_until
from tests.closed_loop.conftest import ROOT

VEHICLED = [sys.executable, "-m", "vehicled"]
pytestmark = pytest.mark.xdist_group("wall")


class Cable:
    """Null-modem cable: two pseudo-terminals whose far ends are joined."""

    def __init__(self, folder: Path, name: str) -> None:
        self.ends = [folder / f"{name}-vehicle", folder / f"{name}-bench"]
        self._masters: list[int] = []
        self._slaves: list[int] = []
        for end in self.ends:
            master, slave = os.openpty()
            tty.setraw(slave)
            end.symlink_to(os.ttyname(slave))
            self._masters.append(master)
            self._slaves.append(slave)
        self._over = threading.Event()
        self.cut = False
        self._thread = threading.Thread(target=self._carry)
        self._thread.start()

    def _carry(self) -> None:
        one, other = self._masters
        while not self._over.is_set():
            for descriptor in select.select(self._masters, [], [], 0.05)[0]:
                with suppress(OSError):
                    data = os.read(descriptor, 4096)
                    if not self.cut:
                        os.write(other if descriptor == one else one, data)

    def close(self) -> None:
        """Join the carrier and close both ends."""
        self._over.set()
        self._thread.join()
        for descriptor in (*self._masters, *self._slaves):
            os.close(descriptor)


OF_A_BUSY_BUS = ("--set", "devices.drive.driver.vesc_can.silence_s=5")
"""The driver has a limit of its own for the silence of the controller."""


@pytest.fixture
def cables(tmp_path: Path) -> Iterator[dict[str, Cable]]:
    made = {name: Cable(tmp_path, name) for name in ("gnss", "imu", "heading")}
    yield made
    for cable in made.values():
        cable.close()


def can_group() -> str:
    """Return the address of a bus that stands in for a cable; skip the test without multicast."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as free:
        free.bind(("", 0))
        number = free.getsockname()[1]
    try:
        UdpMulticastBus(channel="239.74.163.2", port=number, hop_limit=0, fd=False).shutdown()
    except OSError as error:
        pytest.skip(f"no multicast here: {error}")
    return f"can:udp:239.74.163.2:{number}"


@pytest.mark.parametrize("backend", ["asyncio", pytest.param("trio", marks=pytest.mark.soak)])
def test_a_daemon_with_its_own_ports_drives_the_vehicle_of_another_computer(
    cables: dict[str, Cable], tmp_path: Path, backend: str
) -> None:
    bus = can_group()
    rates = {"gnss": "", "heading": "", "imu": "?baud=921600"}
    environment = {**os.environ, "RUNTIME_DIRECTORY": str(tmp_path)}
    vehicle = {name: f"serial:{cable.ends[0]}{rates[name]}" for name, cable in cables.items()} | {
        "drive": bus
    }
    bench = {name: f"serial:{cable.ends[1]}" for name, cable in cables.items()} | {"drive": bus}
    course = ["--profile", "art_vesc", "--course", "circle_r5_ccw"]
    processes = []
    try:
        with (tmp_path / "simulator").open("wb") as said:
            ports = [
                word for name, address in bench.items() for word in ("--port", f"{name}={address}")
            ]
            simulator = subprocess.Popen(
                [*VEHICLED, "simulator", *course, *ports], cwd=ROOT, stdout=said, stderr=said
            )
            processes.append(simulator)
        with (tmp_path / "run").open("wb") as said:
            ports = [
                word
                for name, address in vehicle.items()
                for word in ("--set", f'devices.{name}.port="{address}"')
            ]
            command = [
                *VEHICLED,
                "run",
                *course,
                "--log",
                str(tmp_path / "logs"),
                "--async-backend",
                backend,
            ]
            daemon = subprocess.Popen(
                [*command, *WIDE_LIMITS, *ports, *OF_A_BUSY_BUS, "--set",
                 'devices.operator.port=""'],
                cwd=ROOT, stdout=said, stderr=said, env=environment,
            )  # fmt: skip
            processes.append(daemon)

        def shown() -> str:
            texts = "\n".join((tmp_path / name).read_text() for name in ("simulator", "run"))
            assert all(process.poll() is None for process in processes), texts
            return texts

        wait_until(lambda: list(tmp_path.glob("*.sock")), shown)
        armed = subprocess.run(
            [*VEHICLED, "arm"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert armed.returncode == 0, armed.stderr + shown()
        subprocess.run([*VEHICLED, "mode", "auto"], cwd=ROOT, env=environment, check=True)
        wait_until(
            lambda: "the course is finished" in (tmp_path / "run").read_text(), shown, every_s=0.2
        )
        for process in reversed(processes):
            process.send_signal(signal.SIGTERM)
        assert daemon.wait(DEADLINE_S) == 130
        assert simulator.wait(DEADLINE_S) == 0
    finally:
        for process in processes:
            process.kill()
            process.wait()
    said_lines = (tmp_path / "simulator").read_text().splitlines()
    assert "ready; arm the vehicle on its own computer" in said_lines
    for name in ("gnss", "imu", "heading", "drive"):
        (line,) = (
            line for line in said_lines if line.startswith(f"{name}: ") and "bytes sent" in line
        )
        sent, received = int(line.split()[1]), int(line.split()[4])
        assert sent > 0
        # The IMU is never asked for anything.
        assert (received > 0) == (name != "imu"), line
    assert any(line.startswith("handed over late by") for line in said_lines)


@pytest.mark.parametrize(
    ("port", "words"),
    [
        ("gns=serial:/dev/ttyUSB0", 'did you mean "gnss"?'),
        ("gnss", "expected NAME=ADDRESS"),
        ("gnss=ttyUSB0", "write serial:/dev/ttyUSB0"),
        ("drive=serial:/dev/ttyUSB0", "driver vesc_can needs an address such as can:can1"),
        ("gnss=can:can1", "driver ublox needs an address such as serial:/dev/ttyUSB0"),
    ],
)
def test_a_mistaken_port_is_named(port: str, words: str) -> None:
    done = subprocess.run(
        [*VEHICLED, "simulator", "--profile", "art_vesc", "--port", port],
        cwd=ROOT, capture_output=True, text=True, timeout=DEADLINE_S, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
