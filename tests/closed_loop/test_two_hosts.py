"""Simulator and daemon on two computers: in two network namespaces over TCP, and over a relay that
delays and stalls.

The network between the namespaces is delayed by netem where the kernel has it; elsewhere those
tests are skipped, and the relay stands in its place.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from tests.busy_computer import DEADLINE_S
from tests.closed_loop.conftest import ROOT
from tests.relay import Relay
from vehicled.core.messages import ImuSample, StateEstimate
from vehicled.log.reader import LogReader

VEHICLED = (sys.executable, "-m", "vehicled")
COURSE = ("--profile", "art", "--course", "circle_r5_ccw")
SEED = ("--seed", "3")
DELAY_MS = 30
HERE: Sequence[str] = ()
"""Command prefix of a process that stays in the namespace of the tests."""


@contextmanager
def simulator(listen: str, *options: str, where: Sequence[str] = HERE) -> Iterator[int]:
    """Run ``vehicled simulator`` and yield its port."""
    command = [*where, *VEHICLED, "simulator", "--listen", listen, *COURSE, *SEED, *options]
    with subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            said = process.stdout.readline()
            assert said.startswith("listening on tcp:"), said
            yield int(said.rpartition(":")[2])
            process.wait(DEADLINE_S)
        finally:
            process.kill()


def drive(*options: str, log: Path | None = None, where: Sequence[str] = HERE) -> dict[str, Any]:
    """Run ``vehicled sim`` and return its result."""
    folder = ("--log", str(log)) if log is not None else ("--no-log",)
    command = [*where, *VEHICLED, "sim", "--json", "--quiet", *COURSE, *folder, *options]
    with TemporaryDirectory(prefix="v") as sockets:
        environment = {**os.environ, "RUNTIME_DIRECTORY": sockets}
        done = subprocess.run(
            command,
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
            env=environment,
        )
    assert done.stdout, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def least_ages_ms(log: str) -> tuple[float, float]:
    """Return the smallest age of an IMU sample at its arrival and of the newest measurement in an
    estimate."""
    with LogReader(log) as reader:
        arrivals = [
            record.message.t_rx_ns - record.message.t_ns for record in reader.messages(ImuSample)
        ]
        estimates = [
            record.message.t_ns - record.message.newest_input_ns
            for record in reader.messages(StateEstimate)
        ]
    return min(arrivals) / 1e6, min(estimates) / 1e6


@pytest.fixture(scope="module")
def local() -> dict[str, Any]:
    """Result of the drive with both processes on this computer."""
    return drive("--duration", "1.5", *SEED)


# ------------------------------------------------------------------ two namespaces


class Hosts:
    """Two network namespaces with a cable between them. ``first`` and ``second`` are the prefixes
    of commands in them."""

    ADDRESS = "10.77.0.1"

    def __init__(self) -> None:
        self._holders: list[subprocess.Popen[str]] = []
        self.first: Sequence[str] = ()
        self.second: Sequence[str] = ()

    def open(self) -> None:
        """Make the namespaces and the cable. Raises OSError where they are not allowed."""
        self.first = self._namespace("unshare", "-Urn")
        self.second = self._namespace(*self.first, "unshare", "-n")
        peer = str(self._holders[1].pid)
        self.run(
            self.first,
            "ip",
            "link",
            "add",
            "host_a",
            "type",
            "veth",
            "peer",
            "name",
            "host_b",
            "netns",
            peer,
        )
        for where, device, address in (
            (self.first, "host_a", self.ADDRESS),
            (self.second, "host_b", "10.77.0.2"),
        ):
            self.run(where, "ip", "address", "add", f"{address}/24", "dev", device)
            self.run(where, "ip", "link", "set", device, "up")

    def _namespace(self, *command: str) -> Sequence[str]:
        # The holder reports once it is in its namespace, and ends with the tests.
        holder = subprocess.Popen(
            [*command, "sh", "-c", "echo in; read -r line"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._holders.append(holder)
        assert holder.stdout is not None
        assert holder.stderr is not None
        if holder.stdout.readline() != "in\n":
            raise OSError(holder.stderr.read().strip())
        return ("nsenter", "--target", str(holder.pid), "--user", "--net", "--preserve-credentials")

    def run(self, where: Sequence[str], *command: str) -> None:
        """Run a command in a namespace. Raises OSError with its complaint."""
        done = subprocess.run([*where, *command], capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")

    def delay(self, *netem: str) -> None:
        """Let netem delay both directions. Raises OSError where the kernel lacks it."""
        for where, device in ((self.first, "host_a"), (self.second, "host_b")):
            self.run(where, "tc", "qdisc", "add", "dev", device, "root", "netem", *netem)

    def close(self) -> None:
        """End the namespaces."""
        for holder in self._holders:
            holder.kill()
            holder.communicate()


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Two namespaces; the test is skipped where they are not allowed."""
    missing = [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)} (util-linux, iproute2)")
    made = Hosts()
    try:
        try:
            made.open()
        except OSError as error:
            pytest.skip(f"network namespaces are not allowed here: {error}")
        yield made
    finally:
        made.close()


def netem(hosts: Hosts, *options: str) -> None:
    try:
        hosts.delay(*options)
    except OSError as error:
        pytest.skip(f"netem is not possible here: {error}")


def across(hosts: Hosts, *options: str, log: Path | None = None) -> dict[str, Any]:
    """Drive with the simulator in the first namespace and the daemon in the second."""
    with simulator(f"tcp:{hosts.ADDRESS}:0", where=hosts.first) as port:
        return drive(
            "--connect", f"tcp:{hosts.ADDRESS}:{port}", *options, log=log, where=hosts.second
        )


def test_lockstep_between_two_namespaces_has_the_local_digest(
    hosts: Hosts, local: dict[str, Any]
) -> None:
    result = across(hosts, "--duration", "1.5")
    assert (result["digest"], result["frames"]) == (local["digest"], local["frames"])


@pytest.mark.soak
def test_lockstep_over_a_bad_network_has_the_local_digest(
    hosts: Hosts, local: dict[str, Any]
) -> None:
    netem(hosts, "delay", "2ms", "1ms", "loss", "1%")
    result = across(hosts, "--duration", "1.5")
    assert (result["digest"], result["frames"]) == (local["digest"], local["frames"])


@pytest.mark.xdist_group("wall")
def test_ages_on_the_wall_clock_contain_the_delay_of_the_network(
    hosts: Hosts, tmp_path: Path
) -> None:
    netem(hosts, "delay", f"{DELAY_MS}ms")
    options = ("--clock", "wall", "--strict-clock", "--link-timeout", "60", "--duration", "1.5")
    arrival_ms, estimate_ms = least_ages_ms(across(hosts, *options, log=tmp_path)["log"])
    assert arrival_ms >= DELAY_MS
    assert estimate_ms >= DELAY_MS


# ------------------------------------------------------------------ a relay in place of the network


def relayed(
    delay_s: float, *options: str, stalls: float = 0.0, log: Path | None = None
) -> tuple[dict[str, Any], Relay]:
    """Drive with a relay between daemon and simulator."""
    with simulator("tcp:127.0.0.1:0") as port, Relay(port, delay_s, stalls=stalls) as relay:
        return drive("--connect", f"tcp:127.0.0.1:{relay.port}", *options, log=log), relay


def test_lockstep_over_a_relay_that_delays_and_stalls_has_the_local_digest(
    local: dict[str, Any],
) -> None:
    result, relay = relayed(0.002, "--duration", "1.5", stalls=0.02)
    assert relay.stalled > 2
    assert relay.pieces > 100
    assert (result["digest"], result["frames"]) == (local["digest"], local["frames"])


@pytest.mark.xdist_group("wall")
def test_ages_on_the_wall_clock_contain_the_delay_of_the_relay(tmp_path: Path) -> None:
    options = ("--clock", "wall", "--strict-clock", "--link-timeout", "60", "--duration", "1.5")
    # Side by side: the smallest ages, to which load only adds, so they need no tolerance.
    with ThreadPoolExecutor(2) as both:
        drives = [
            both.submit(relayed, delay_s, *options, log=tmp_path / str(delay_s))
            for delay_s in (0.0, DELAY_MS / 1000)
        ]
    near, far = (least_ages_ms(each.result()[0]["log"]) for each in drives)
    assert min(far) >= DELAY_MS
    assert max(near) < DELAY_MS
