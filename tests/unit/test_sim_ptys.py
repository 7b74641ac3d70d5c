"""Emulated devices behind terminals: what the daemon writes arrives, what the device sends can be read, line rates are seen."""

import os
import termios
import time
import tty
from collections.abc import Iterator

import pytest

from sim_backend.ptys import Ptys
from vehicled.wire import can, slcan


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
    end = time.monotonic() + 5
    while len(data) < size and time.monotonic() < end:
        try:
            data += os.read(descriptor, 4096)
        except BlockingIOError:
            time.sleep(0.001)
    return data


def hear(ptys: Ptys, port: str) -> tuple[bytes, int | None]:
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
        assert hear(ptys, "gnss")[0] == every_byte
    finally:
        os.close(host)


def test_a_new_line_rate_is_told_once(ptys: Ptys) -> None:
    host = open_terminal(ptys.urls["gnss"])
    try:
        settings = termios.tcgetattr(host)
        settings[4] = settings[5] = termios.B115200
        termios.tcsetattr(host, termios.TCSANOW, settings)
        assert hear(ptys, "gnss")[1] == 115200
        assert hear(ptys, "gnss")[1] is None
    finally:
        os.close(host)


def test_a_daemon_that_comes_back_finds_the_device_again(ptys: Ptys) -> None:
    for _ in range(2):
        host = open_terminal(ptys.urls["gnss"])
        ptys.write("gnss", b"hello")
        assert read(host, 5) == b"hello"
        os.close(host)
        assert hear(ptys, "gnss")[0] == b""


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
        assert hear(ptys, "drive")[0] == b"", "a closed adapter neither sends nor hears"
        assert slcan.REFUSED in read(host, 1)
        os.write(host, b"S6\rO\r" + slcan.encode(frame))
        time.sleep(0.02)
        assert can.unpack_all(hear(ptys, "drive")[0]) == [frame]
        ptys.write("drive", can.pack(frame))
        assert slcan.encode(frame) in read(host, 4 + len(slcan.encode(frame)))
    finally:
        os.close(host)


def test_closing_gives_every_descriptor_back() -> None:
    ptys = Ptys({"a": 0, "b": 0}, [])
    ptys.close()
    ptys.close()
    assert ptys.descriptors == []
