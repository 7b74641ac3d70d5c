"""Serial ports on ptys: exclusive, paced by the reader, changed in rate, pulled and plugged."""

import os
import random
import subprocess
import sys
import termios
import tty
from functools import partial
from pathlib import Path

import anyio
import pytest

from tests.conformance.port_kit import Recorder, now_ns, read, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.ports import make_port, serial_channel
from vehicled.runtime.ports.address import SerialAddress
from vehicled.runtime.ports.supervised import TX_LIMIT_BYTES

OPENED, LOST, ERROR = PortState.OPENED, PortState.LOST, PortState.ERROR
FAST = "retry_min_s=0.001&retry_max_s=0.005"
LOCKS_ARE_LISTED = Path("/proc/locks").exists()
LOCKER = """
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR | os.O_NOCTTY)
fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("locked", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def pty():
    """Master, and the path of the slave, which stays open so that the master lives on between
    openings."""
    master, slave = os.openpty()
    tty.setraw(slave)
    os.set_blocking(master, False)
    yield master, os.ttyname(slave)
    os.close(slave)
    os.close(master)


def _read(master: int, size: int = 65536) -> bytes:
    try:
        return os.read(master, size)
    except BlockingIOError:
        return b""


def _more_than(host: Recorder, chunks: int) -> bool:
    return len(host.chunks) > chunks


def _baud(master: int) -> int:
    speed: int = termios.tcgetattr(master)[5]
    return speed


@pytest.mark.anyio
async def test_the_port_of_another_process_is_refused_by_name(pty):
    _, path = pty
    command = [sys.executable, "-c", LOCKER, path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as other:  # noqa: ASYNC220 - not the matter here
        assert other.stdout is not None
        assert other.stdout.readline() == b"locked\n"
        port = make_port("imu", f"pty:{path}?{FAST}")
        async with serving(port) as host:
            await host.reached(ERROR)
            assert path in host.details[0]
            assert "in use by" in host.details[0]
            if LOCKS_ARE_LISTED:
                assert f"(process {other.pid})" in host.details[0]
            assert other.stdin is not None
            other.stdin.close()
            await host.reached(ERROR, OPENED)


@pytest.mark.anyio
async def test_our_own_port_is_ours_alone(pty):
    _, path = pty
    first, second = make_port("imu", f"pty:{path}"), make_port("gnss", f"pty:{path}?{FAST}")
    async with serving(first) as host:
        await host.reached(OPENED)
        async with serving(second) as other:
            await other.reached(ERROR)
            assert "stop that process first" in other.details[0]
    assert serial_channel.lock_holder(path) == ""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/dev/serial/by-id/no-such-device", "does not exist"),
        ("/dev/null", "is not a serial port"),
        (str(Path(__file__).parent), "cannot open"),
    ],
)
async def test_what_cannot_be_opened_says_why(path, words):
    async with serving(make_port("gnss", f"serial:{path}?{FAST}")) as host:
        await host.reached(ERROR)
        assert path in host.details[0]
        assert words in host.details[0]


@pytest.mark.anyio
async def test_a_stable_name_is_resolved_at_every_opening(tmp_path):
    link = tmp_path / "by-id"
    master, slave = os.openpty()
    first = os.ttyname(slave)
    link.symlink_to(first)
    other_master, other_slave = os.openpty()
    second = os.ttyname(other_slave)
    port = make_port("gnss", f"serial:{link}?{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        assert f"{link} ({first}) at 115200 baud" in host.details[0]
        # It comes back under another number: the receiver that enumerates anew.
        link.unlink()
        link.symlink_to(second)
        os.close(slave)
        os.close(master)
        await host.reached(OPENED, LOST, OPENED)
        assert "the device is gone" in host.details[1]
        assert second in host.details[2]
        os.write(other_master, b"again")
        await until(lambda: host.received == b"again")
    os.close(other_slave)
    os.close(other_master)


@pytest.mark.anyio
async def test_the_rate_changes_after_what_was_sent_before(pty):
    master, path = pty
    port = make_port("gnss", f"pty:{path}?baud=38400&{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        assert _baud(master) == termios.B38400
        assert port.send(b"configure", NEVER_NS, now_ns())
        assert await read(master, 9) == b"configure"
        port.set_baud(460_800)
        assert port.send(b"at the new rate", NEVER_NS, now_ns())
        # It waits for the rate, which nobody has had the time to change yet.
        assert port.counts.tx_bytes == 9
        assert _baud(master) == termios.B38400
        await until(lambda: _baud(master) == termios.B460800)
        assert await read(master, 15) == b"at the new rate"
        # A device that was lost begins at its own rate again.
        port.reopen("unplugged")
        await host.reached(OPENED, LOST, OPENED)
        assert _baud(master) == termios.B38400


@pytest.mark.anyio
async def test_a_rate_between_the_usual_ones(pty):
    master, path = pty
    port = make_port("gnss", f"pty:{path}?baud=9600")
    async with serving(port) as host:
        await host.reached(OPENED)
        port.set_baud(250_000)
        assert port.send(b"x", NEVER_NS, now_ns())
        assert await read(master, 1) == b"x"
        assert host.states == [OPENED]
        assert _baud(master) != termios.B9600


@pytest.mark.anyio
async def test_a_slow_reader_gets_whole_frames_and_costs_the_oldest(pty):
    master, path = pty
    port = make_port("drive", f"pty:{path}")
    rng = random.Random(3)
    async with serving(port) as host:
        await host.reached(OPENED)
        frames = [b"%d" % k + b"." * rng.randrange(20, 120) + b";" for k in range(2_000)]
        for frame in frames:
            assert port.send(frame, NEVER_NS, now_ns())
        assert port.counts.overflowed > 100
        assert port.counts.overflowed_bytes + port.counts.tx_bytes <= sum(map(len, frames))
        held = sum(map(len, frames)) - port.counts.overflowed_bytes - port.counts.tx_bytes
        assert 0 < held <= TX_LIMIT_BYTES
        got = bytearray()

        def all_read() -> bool:
            got.extend(_read(master, rng.randrange(1, 3_000)))
            return len(got) == sum(map(len, frames)) - port.counts.overflowed_bytes

        await until(all_read)
        # What came is frames, whole and in order, the newest among them.
        sent = [int(piece.rstrip(b".")) for piece in bytes(got).split(b";")[:-1]]
        assert got == b"".join(frames[k] for k in sent)
        assert sent[-1] == len(frames) - 1
        assert sent == sorted(set(sent))
        assert len(sent) == len(frames) - port.counts.overflowed
        # And it works on.
        assert port.send(b"fresh", NEVER_NS, now_ns())
        assert await read(master, 5) == b"fresh"


@pytest.mark.anyio
async def test_commands_that_waited_too_long_are_not_sent(pty):
    master, path = pty
    port = make_port("drive", f"pty:{path}")
    async with serving(port) as host:
        await host.reached(OPENED)
        filler = 0
        # The kernel may take some more later on, without anyone reading, but never so much.
        while filler < port.counts.tx_bytes + 12_000:
            port.send(b"f" * 500, NEVER_NS, now_ns())
            filler += 500
        for _ in range(10):
            assert port.send(b"c" * 20, now_ns() + 1_000_000, now_ns())
        await anyio.sleep(0.005)
        assert port.send(b"n" * 20, NEVER_NS, now_ns())
        got = bytearray()

        def newest_came() -> bool:
            got.extend(_read(master))
            return got.endswith(b"n" * 20)

        await until(newest_came)
        assert got == b"f" * filler + b"n" * 20
        assert port.counts.expired == 10


@pytest.mark.anyio
async def test_what_waits_for_a_lost_port_is_not_sent_to_the_next(tmp_path):
    link = tmp_path / "drive"
    master, slave = os.openpty()
    link.symlink_to(os.ttyname(slave))
    port = make_port("drive", f"pty:{link}?{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        while not port.counts.overflowed:
            port.send(b"old" * 100, NEVER_NS, now_ns())
        link.unlink()
        os.close(master)
        os.close(slave)
        await host.reached(OPENED, LOST)
        assert port.counts.abandoned > 10
        master, slave = os.openpty()
        os.set_blocking(master, False)
        link.symlink_to(os.ttyname(slave))
        await host.reached(OPENED, LOST, OPENED)
        assert port.send(b"new", NEVER_NS, now_ns())
        assert await read(master, 3) == b"new"
    os.close(master)
    os.close(slave)


@pytest.mark.anyio
async def test_a_write_to_a_dead_device_is_a_loss_at_once(pty, tmp_path):
    link = tmp_path / "drive"
    master, slave = os.openpty()
    link.symlink_to(os.ttyname(slave))
    port = make_port("drive", f"pty:{link}?{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        link.unlink()
        os.close(slave)
        os.close(master)
        # Before the loop turns: nobody has read the hang-up yet.
        assert not port.send(b"command", NEVER_NS, now_ns())
        assert port.counts.abandoned == 1
        await host.reached(OPENED, LOST)


@pytest.mark.anyio
async def test_an_idle_line_is_no_loss(pty):
    master, path = pty
    port = make_port("gnss", f"pty:{path}?{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        for k in range(20):
            reached = len(host.chunks)
            os.write(master, b"%02d" % k)
            await until(partial(_more_than, host, reached))
            await anyio.sleep(0.002)
        assert host.received == b"".join(b"%02d" % k for k in range(20))
        assert host.states == [OPENED]


@pytest.mark.anyio
async def test_a_name_that_moves_gets_a_note(monkeypatch, pty):
    _, path = pty
    real = serial_channel._open

    def elsewhere(address: SerialAddress) -> serial_channel.SerialChannel:
        return real(SerialAddress(path=path, baud=address.baud))

    monkeypatch.setattr(serial_channel, "_open", elsewhere)
    async with serving(make_port("gnss", "serial:/dev/ttyUSB0")) as host:
        await host.reached(OPENED)
        assert "/dev/ttyUSB0 depends on the order of plugging" in host.details[0]


def test_the_holder_of_a_lock_is_found_in_the_table(tmp_path):
    device = tmp_path / "device"
    device.touch()
    state = device.stat()
    file = f"{os.major(state.st_dev):02x}:{os.minor(state.st_dev):02x}:{state.st_ino}"
    (tmp_path / "77").mkdir()
    (tmp_path / "77" / "comm").write_text("minicom\n")
    (tmp_path / "locks").write_text(
        f"1: POSIX  ADVISORY  WRITE 5 {file} 0 EOF\n2: FLOCK  ADVISORY  WRITE 77 {file} 0 EOF\n"
    )
    assert serial_channel.lock_holder(str(device), tmp_path) == "minicom (process 77)"
    (tmp_path / "locks").write_text("nonsense\n")
    assert serial_channel.lock_holder(str(device), tmp_path) == ""
