"""Emulated devices behind terminals: what the daemon writes arrives, what the device sends can be
read, line rates are seen."""

import os
import termios
import time
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from sim_backend.ptys import Ptys
from tests.busy_computer import DEADLINE_S
from vehicled.core.wire import can, slcan


@pytest.fixture
def ptys() -> Iterator[Ptys]:
    with Ptys({"gnss": 9600, "drive": 0}, ["drive"]) as opened:
        yield opened


def open_terminal(url: str) -> int:
    path = url.removeprefix("can:slcan:").removeprefix("serial:").partition("?")[0]
    descriptor = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
    tty.setraw(descriptor)
    return descriptor


def read(descriptor: int, size: int) -> bytes:
    data = b""
    end = time.monotonic() + DEADLINE_S
    while len(data) < size and time.monotonic() < end:
        try:
            data += os.read(descriptor, 4096)
        except BlockingIOError:
            time.sleep(0.001)
    return data


def read_port(ptys: Ptys, port: str) -> tuple[bytes, int | None]:
    for descriptor in ptys.descriptors:
        name, data, baud = ptys.read(descriptor)
        if name == port:
            return data, baud
    raise AssertionError(port)


def test_bytes_pass_unchanged_both_ways(ptys: Ptys) -> None:
    host = open_terminal(ptys.urls["gnss"])
    try:
        every_byte = bytes(range(256))
        ptys.write("gnss", every_byte)
        assert read(host, 256) == every_byte
        os.write(host, every_byte)
        time.sleep(0.02)
        assert read_port(ptys, "gnss")[0] == every_byte
    finally:
        os.close(host)


def test_a_new_line_rate_is_reported_once(ptys: Ptys) -> None:
    host = open_terminal(ptys.urls["gnss"])
    try:
        settings = termios.tcgetattr(host)
        settings[4] = settings[5] = termios.B115200
        termios.tcsetattr(host, termios.TCSANOW, settings)
        assert read_port(ptys, "gnss")[1] == 115200
        assert read_port(ptys, "gnss")[1] is None
    finally:
        os.close(host)


def test_a_daemon_that_comes_back_finds_the_device_again(ptys: Ptys) -> None:
    for _ in range(2):
        host = open_terminal(ptys.urls["gnss"])
        ptys.write("gnss", b"hello")
        assert read(host, 5) == b"hello"
        os.close(host)
        assert read_port(ptys, "gnss")[0] == b""


def test_a_daemon_that_does_not_read_loses_bytes_and_blocks_nobody(ptys: Ptys) -> None:
    for _ in range(100):
        ptys.write("gnss", bytes(1000))
    assert ptys.lost_bytes > 0


def test_a_can_port_is_an_slcan_adapter(ptys: Ptys) -> None:
    frame = can.CanFrame(0x301, b"\x01\x02", extended=True)
    host = open_terminal(ptys.urls["drive"])
    try:
        ptys.write("drive", can.pack(frame))
        os.write(host, slcan.encode(frame))
        time.sleep(0.02)
        assert read_port(ptys, "drive")[0] == b"", "a closed adapter neither sends nor receives"
        assert slcan.REFUSED in read(host, 1)
        os.write(host, b"S6\rO\r" + slcan.encode(frame))
        time.sleep(0.02)
        assert can.unpack_all(read_port(ptys, "drive")[0]) == [frame]
        ptys.write("drive", can.pack(frame))
        assert slcan.encode(frame) in read(host, 4 + len(slcan.encode(frame)))
    finally:
        os.close(host)


def test_a_plug_that_is_pulled_and_put_back_has_the_same_name(tmp_path: Path) -> None:
    with Ptys({"gnss": 9600, "drive": 0}, ["drive"], tmp_path) as ptys:
        pull_and_put_back(ptys, tmp_path / "gnss")


def pull_and_put_back(ptys: Ptys, path: Path) -> None:
    assert ptys.urls["gnss"] == f"serial:{path}?baud=9600"
    before = open_terminal(ptys.urls["gnss"])
    ptys.unplug("gnss")
    try:
        assert not ptys.plugged("gnss")
        assert not path.is_symlink()
        with pytest.raises(OSError, match=r"Input/output error"):
            os.write(before, b"anybody there?")
        ptys.write("gnss", b"nobody reads this")
        assert len(ptys.descriptors) == 1
    finally:
        os.close(before)
    ptys.plug("gnss")
    after = open_terminal(ptys.urls["gnss"])
    try:
        ptys.write("gnss", b"here again")
        assert read(after, 10) == b"here again"
        assert read_port(ptys, "gnss")[1] is not None, "its line rate is reported anew"
    finally:
        os.close(after)


def test_a_watched_port_knows_whether_it_is_open(tmp_path: Path) -> None:
    with Ptys(
        {"operator": 0, "late": 0},
        [],
        tmp_path / "new" / "folder",
        watched=["operator"],
        absent=["late"],
    ) as ptys:
        assert not ptys.opened("operator")
        assert ptys.descriptors == []
        host = open_terminal(ptys.urls["operator"])
        assert ptys.opened("operator")
        ptys.write("operator", b"arm")
        assert read(host, 3) == b"arm"
        os.close(host)
        assert not ptys.opened("operator")
        assert not ptys.plugged("late")
    assert list((tmp_path / "new" / "folder").iterdir()) == []


def test_names_that_a_killed_run_left_are_replaced_and_files_are_not(tmp_path: Path) -> None:
    (tmp_path / "gnss").symlink_to("/dev/pts/no-such")
    with Ptys({"gnss": 0}, [], tmp_path) as ptys:
        os.close(open_terminal(ptys.urls["gnss"]))
    (tmp_path / "gnss").write_text("precious")
    with pytest.raises(FileExistsError):
        Ptys({"gnss": 0}, [], tmp_path)
    assert (tmp_path / "gnss").read_text() == "precious"


def test_closing_gives_every_descriptor_back() -> None:
    ptys = Ptys({"a": 0, "b": 0}, [])
    ptys.close()
    ptys.close()
    assert ptys.descriptors == []
