"""The simulator as a process, against a daemon made of a few lines: lockstep, wall time, and every
way in which it ends."""

import hashlib
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from drivers.msglink.codec import MsglinkDecoder as Messages
from drivers.msglink.codec import encode as to_frame
from sim_backend.__main__ import main
from tests.busy_computer import DEADLINE_S
from vehicled.core.link import (
    Frame,
    Hello,
    LinkDecoder,
    LinkFrameKind,
    decode_hello,
    encode,
    encode_hello,
)
from vehicled.core.messages import ActuatorCommand, GroundTruth

MS = 1_000_000
ARGUMENTS = ["--profile", "art", "--course", "circle_r5_ccw"]


@dataclass
class Daemon:
    """The daemon's end of the link."""

    sock: socket.socket
    decoder: LinkDecoder = field(default_factory=LinkDecoder)
    frames: list[Frame] = field(default_factory=list)
    hello: Hello | None = None

    def read(self) -> Frame:
        """Next frame."""
        while not self.frames:
            data = self.sock.recv(1 << 18)
            if not data:
                raise EOFError
            self.frames += self.decoder.feed(data)
        return self.frames.pop(0)

    def greet(self, clock: str, boot_id: str = "", ports: list[str] | None = None) -> Hello:
        kind, _, _, payload = self.read()
        assert kind is LinkFrameKind.HELLO
        hello = self.hello = decode_hello(payload)
        self.sock.sendall(
            encode_hello(
                Hello(role="daemon", clock=clock, ports=ports or hello.ports, boot_id=boot_id)
            )
        )
        return hello

    def send(self, kind: LinkFrameKind, t_ns: int = 0, payload: bytes = b"", port: int = 0) -> None:
        self.sock.sendall(encode(kind, port, t_ns, payload))

    def until_grant(self) -> tuple[int, list[Frame]]:
        """Lockstep: the next grant and the DATA before it."""
        data: list[Frame] = []
        while True:
            frame = self.read()
            if frame[0] is LinkFrameKind.GRANT:
                return frame[2], data
            assert frame[0] is LinkFrameKind.DATA
            data.append(frame)

    def last_words(self) -> str:
        """Reason of the simulator's BYE; whatever comes before it is read away."""
        while True:
            kind, _, _, payload = self.read()
            if kind is LinkFrameKind.BYE:
                return payload.decode()


def simulator(*arguments: str, pass_fds: tuple[int, ...] = ()) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "sim_backend", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=pass_fds,
    )


@contextmanager
def running(*arguments: str) -> Iterator[tuple["subprocess.Popen[str]", Daemon]]:
    """A simulator on a socket pair; killed at the end if it still runs, which the tests count as a
    failure by its status."""
    ours, theirs = socket.socketpair()
    with ours:
        ours.settimeout(DEADLINE_S)
        with theirs:
            process = simulator(
                *ARGUMENTS,
                *arguments,
                "--listen",
                f"fd:{theirs.fileno()}",
                pass_fds=(theirs.fileno(),),
            )
        with process:
            try:
                yield process, Daemon(ours)
            finally:
                process.kill()


def ended(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Exit status and what it said on stderr."""
    _, said = process.communicate(timeout=DEADLINE_S)
    return process.returncode, said


def lap(daemon: Daemon, period_ns: int, seconds: float) -> tuple[str, list[GroundTruth]]:
    """Drive in lockstep with commands at 100 Hz, woken every ``period_ns``; digest of all DATA, and
    the truth."""
    hello = daemon.greet("lockstep")
    digest, truth = hashlib.sha256(), list[GroundTruth]()
    drive = hello.ports.index("drive")
    wake_ns = hello.start_ns
    end_ns = hello.start_ns + round(seconds * 1e9)
    while True:
        granted_ns, data = daemon.until_grant()
        assert granted_ns == wake_ns
        for _, port, t_rx_ns, payload in data:
            assert t_rx_ns <= granted_ns
            digest.update(struct.pack("<qB", t_rx_ns, port) + payload)
            if hello.ports[port] == "truth":
                truth += [
                    message
                    for message in Messages().feed(payload)
                    if isinstance(message, GroundTruth)
                ]
        if granted_ns >= end_ns:
            break
        if (granted_ns - hello.start_ns) % (10 * MS) == 0:
            # Stamped after the grant, as a task that costs 1.25 ms would.
            command = to_frame(ActuatorCommand(granted_ns, granted_ns, 0.6, 0.0, 0.3, 0.1))
            daemon.send(LinkFrameKind.DATA, granted_ns + 1_250_000, command, drive)
        wake_ns = granted_ns + period_ns
        daemon.send(LinkFrameKind.DONE, wake_ns)
    daemon.send(LinkFrameKind.BYE, end_ns, b"done")
    return digest.hexdigest(), truth


def test_lockstep_grants_what_is_asked_and_repeats_bit_for_bit():
    digests = []
    for seed, period_ns in [("7", 10 * MS), ("7", 10 * MS), ("7", 2_500_000), ("8", 10 * MS)]:
        with running("--seed", seed) as (process, daemon):
            digest, truth = lap(daemon, period_ns, 3.0)
            digests.append(digest)
            assert ended(process) == (0, "")
            assert daemon.hello is not None
            assert daemon.hello.world["profile"] == "art"
            assert daemon.hello.world["seed"] == seed
        assert truth[-1].t_ns == 4_000_000_000
        assert truth[-1].speed_mps > 0.5
        assert truth[-1].yaw_rate_radps > 0.05
    assert digests[0] == digests[1] == digests[2] != digests[3]


def test_each_grant_comes_with_its_data_in_one_piece():
    with running() as (process, daemon):
        daemon.greet("lockstep")
        t_ns, _ = daemon.until_grant()
        for _ in range(50):
            t_ns += 20 * MS
            daemon.send(LinkFrameKind.DONE, t_ns)
            # One send on a socket pair is one read here, as long as it is small.
            frames = list(LinkDecoder().feed(daemon.sock.recv(1 << 20)))
            assert [frame[0] for frame in frames[:-1]] == [LinkFrameKind.DATA] * (len(frames) - 1)
            assert len(frames) > 9
            assert frames[-1][::2] == (LinkFrameKind.GRANT, t_ns)
        daemon.send(LinkFrameKind.BYE)
        assert ended(process) == (0, "")


def test_a_daemon_that_waits_for_input_only_is_granted_time_in_pieces():
    with running() as (process, daemon):
        hello = daemon.greet("lockstep")
        daemon.until_grant()
        daemon.send(LinkFrameKind.DONE, 2**63 - 1)
        granted_ns, data = daemon.until_grant()
        assert granted_ns == hello.start_ns + 1_000 * MS
        assert len(data) > 400
        daemon.send(LinkFrameKind.BYE)
        assert ended(process) == (0, "")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda daemon, t_ns: daemon.send(LinkFrameKind.DONE, t_ns - 1),
            "asked to be woken 1 ns before",
        ),
        (
            lambda daemon, t_ns: daemon.send(LinkFrameKind.DATA, t_ns - 5, b"x"),
            "stamped bytes 5 ns before",
        ),
        (
            lambda daemon, t_ns: daemon.send(LinkFrameKind.GRANT, t_ns),
            "sent GRANT, which lockstep does not allow",
        ),
        (
            lambda daemon, t_ns: daemon.sock.sendall(b"\xff" * 40),
            "not a frame of the simulator link",
        ),
    ],
    ids=["woken in the past", "sent in the past", "grant", "garbage"],
)
def test_a_broken_protocol_ends_with_a_reason_on_both_sides(answer, reason: str):
    with running() as (process, daemon):
        daemon.greet("lockstep")
        t_ns, _ = daemon.until_grant()
        answer(daemon, t_ns)
        assert reason in daemon.last_words()
        status, said = ended(process)
        assert status == 1
        assert reason in said
        assert said.count("\n") == 1


@pytest.mark.parametrize("moment", ["before the greeting", "in lockstep", "in wall time"])
def test_a_daemon_that_vanishes_ends_the_process(moment: str):
    with running() as (process, daemon):
        if moment == "in lockstep":
            daemon.greet("lockstep")
            daemon.until_grant()
        elif moment == "in wall time":
            daemon.greet("wall")
        daemon.sock.close()
        status, said = ended(process)
        assert status == 1
        assert said.startswith("simulator: the ")
        assert said.count("\n") == 1


def test_other_ports_and_other_versions_are_refused():
    with running() as (process, daemon):
        daemon.greet("lockstep", ports=["a", "b"])
        assert "answered with ports a, b instead of" in daemon.last_words()
        assert ended(process)[0] == 1
    with running() as (process, daemon):
        daemon.sock.sendall(encode_hello(Hello(version=2, role="daemon", clock="wall", ports=[])))
        assert "version 2" in daemon.last_words()
        assert ended(process)[0] == 1


def boot_id() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


@pytest.mark.xdist_group("wall")
def test_wall_time_on_the_same_boot_runs_on_the_shared_clock():
    if not Path("/proc/sys/kernel/random/boot_id").exists():
        pytest.skip("the system gives no boot id")
    with running() as (process, daemon):
        hello = daemon.greet("wall", boot_id())
        drive, began_ns = hello.ports.index("drive"), time.monotonic_ns()
        heartbeats, stamps, speeds = list[int](), list[int](), [0.0]
        while not heartbeats or heartbeats[-1] < began_ns + 1_200 * MS:
            kind, _, t_ns, payload = daemon.read()
            now_ns = time.monotonic_ns()
            # Nothing from the future: bytes leave at their arrival time, not before.
            assert t_ns <= now_ns
            assert kind in (LinkFrameKind.DATA, LinkFrameKind.GRANT)
            if kind is LinkFrameKind.GRANT:
                heartbeats.append(t_ns)
                daemon.send(
                    LinkFrameKind.DATA,
                    now_ns,
                    to_frame(ActuatorCommand(now_ns, now_ns, 1.0, 0.0, 0.0, 0.0)),
                    drive,
                )
            else:
                stamps.append(t_ns)
                speeds += [
                    m.speed_mps for m in Messages().feed(payload) if isinstance(m, GroundTruth)
                ]
        daemon.send(LinkFrameKind.BYE, 0, b"seen enough")
        assert ended(process) == (0, "")
    # One goes early with the last data before it would be due.
    assert min(later - sooner for sooner, later in pairwise(heartbeats)) >= 40 * MS
    assert stamps == sorted(stamps)
    # Nothing is lost however late it leaves: 400 IMU, 100 truth, 20 heading and 10 GNSS a second.
    assert len(stamps) / (stamps[-1] - stamps[0]) * 1e9 == pytest.approx(530.0, rel=0.05)
    assert max(speeds) > 0.3


@pytest.mark.xdist_group("wall")
def test_wall_time_across_machines_runs_on_the_daemon_s_clock():
    ahead_ns = 10**15
    with running() as (process, daemon):
        daemon.greet("wall", "another boot")
        syncs, data = 0, 0
        while data < 50 or syncs < 9:
            kind, _, t_ns, _ = daemon.read()
            daemon_ns = time.monotonic_ns() + ahead_ns
            if kind is LinkFrameKind.SYNC:
                syncs += 1
                daemon.send(LinkFrameKind.SYNC, daemon_ns, struct.pack("<q", t_ns))
            elif kind is LinkFrameKind.DATA:
                data += 1
                # Its offset is known to half a round trip; ten seconds allow for a machine that is
                # held up.
                assert abs(t_ns - daemon_ns) < 10_000 * MS
        daemon.send(LinkFrameKind.BYE)
        assert ended(process) == (0, "")


def test_ctrl_c_is_the_daemon_s_affair_and_terminate_ends():
    with running() as (process, daemon):
        daemon.greet("lockstep")
        t_ns, _ = daemon.until_grant()
        process.send_signal(signal.SIGINT)
        daemon.send(LinkFrameKind.DONE, t_ns + 10 * MS)
        assert daemon.until_grant()[0] == t_ns + 10 * MS
        process.send_signal(signal.SIGTERM)
        assert daemon.last_words() == "the simulator ends: terminated"
        assert ended(process) == (143, "simulator: terminated\n")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A socket path; relative, because those of sockets are short."""
    return os.path.relpath(tmp_path / "sim.sock")


def test_a_unix_socket_serves_one_daemon_and_is_removed(path: str):
    # What a killed simulator leaves behind is no obstacle.
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(path)
    with simulator(*ARGUMENTS, "--listen", f"unix:{path}") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == f"listening on unix:{path}\n"
        with socket.socket(socket.AF_UNIX) as sock:
            sock.settimeout(DEADLINE_S)
            sock.connect(path)
            daemon = Daemon(sock)
            daemon.greet("lockstep")
            daemon.until_grant()
            assert not Path(path).exists()
            daemon.send(LinkFrameKind.BYE)
            assert ended(process) == (0, "")


def test_terminated_while_it_waits_it_removes_the_path(path: str):
    with simulator(*ARGUMENTS, "--listen", f"unix:{path}") as process:
        assert process.stdout is not None
        process.stdout.readline()
        with simulator(*ARGUMENTS, "--listen", f"unix:{path}") as second:
            status, said = ended(second)
            assert status == 2
            assert "another process listens there" in said
        # Nothing else would react to Ctrl-C on a simulator that was started by hand.
        process.send_signal(signal.SIGINT)
        assert ended(process) == (143, "simulator: terminated\n")
    assert not Path(path).exists()


def test_tcp():
    with simulator(*ARGUMENTS, "--listen", "tcp:127.0.0.1:0") as process:
        assert process.stdout is not None
        address = process.stdout.readline().removeprefix("listening on tcp:").strip()
        host, _, port = address.rpartition(":")
        with socket.create_connection((host, int(port)), timeout=DEADLINE_S) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            daemon = Daemon(sock)
            digest, _ = lap(daemon, 10 * MS, 0.5)
            assert ended(process) == (0, "")
    assert digest


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--course", "lot17"], "--listen"),
        (["--profile", "arrt", "--listen", "fd:0"], "arrt"),
        (["--profile", "art", "--course", "lot71", "--listen", "fd:0"], 'no course "lot71"'),
        (["--profile", "art", "--set", "sim.step_ms=-1", "--listen", "fd:0"], "sim.step_ms"),
        (
            ["--profile", "art", "--set", "sim.plant=raft", "--listen", "fd:0"],
            'sim.plant "raft" is not known; use one of double_track, four_dof',
        ),
        (
            ["--profile", "art", "--seed", "-3", "--listen", "fd:0"],
            "whole number from 0 up, not '-3'",
        ),
        (["--profile", "art", "--listen", "serial:0"], "use unix:PATH, tcp:HOST:PORT or fd:N"),
        (
            ["--profile", "art", "--listen", "tcp:127.0.0.1:99999"],
            "cannot listen on 'tcp:127.0.0.1:99999'",
        ),
        (
            ["--profile", "art", "--listen", "unix:/nonexistent/sim.sock"],
            "No such file or directory",
        ),
    ],
)
def test_bad_arguments_are_named_in_the_first_line(
    capfd: pytest.CaptureFixture[str], arguments: list[str], says: str
):
    try:
        status: object = main(arguments)
    except SystemExit as end:
        status = end.code
    said = capfd.readouterr().err
    assert status == 2
    assert said.startswith("simulator: ")
    assert says in said


def test_bad_arguments_leave_no_traceback():
    with simulator(*ARGUMENTS, "--listen", "fd:77") as process:
        assert ended(process) == (2, "simulator: cannot listen on 'fd:77': Bad file descriptor\n")
