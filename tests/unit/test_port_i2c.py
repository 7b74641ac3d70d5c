"""I2C ports on a bus in memory: transactions off the loop, noise, a device that goes, the last
command."""

import errno
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from drivers.motor.pca9685 import ASK, set_up
from tests.conformance.port_kit import now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.i2c import I2cRequest, encode
from vehicled.runtime.ports import i2c_channel, make_port

URL = "i2c:/dev/i2c-1?device=0x40&retry_min_s=0.001&retry_max_s=0.005"


class Registers:
    """Device with 256 registers, which fails as often as ``failing`` says."""

    def __init__(self) -> None:
        self.values = bytearray(range(256))
        self.failing = 0
        self.holds = threading.Event()
        self.holds.set()
        self.threads: set[int] = set()
        self.closed = 0

    def transfer(self, written: bytes, read: int) -> bytes:
        self.threads.add(threading.get_ident())
        self.holds.wait(5.0)
        if self.failing:
            self.failing -= 1
            raise OSError(errno.EREMOTEIO, os.strerror(errno.EREMOTEIO))
        at, values = (written[0], written[1:]) if written else (0, b"")
        self.values[at : at + len(values)] = values
        return bytes(self.values[at : at + read])

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registers]:
    registers = Registers()
    monkeypatch.setattr(i2c_channel, "KernelBus", lambda path, device: registers)
    yield registers
    registers.holds.set()


@pytest.mark.anyio
async def test_requests_are_answered_in_order_by_another_thread(device: Registers) -> None:
    port = make_port("drive", URL)
    async with serving(port) as host:
        await host.reached(PortState.OPENED)
        data = encode(*set_up(30), ASK, I2cRequest(b"\xfe", 1))
        # Cut anywhere, as a socket may.
        for piece in (data[:3], data[3:11], data[11:]):
            assert port.send(piece, NEVER_NS, now_ns())
        await until(lambda: len(host.received) == 3)
    assert host.received == bytes((0x20, 0x04, 30))
    assert threading.get_ident() not in device.threads
    assert device.closed == 1


@pytest.mark.anyio
async def test_noise_is_tried_again_and_a_device_that_goes_is_lost(device: Registers) -> None:
    port = make_port("drive", URL)
    async with serving(port) as host:
        await host.reached(PortState.OPENED)
        device.failing = i2c_channel.TRIES - 1
        port.send(encode(ASK), NEVER_NS, now_ns())
        await until(lambda: len(host.received) == 2)
        assert host.states == [PortState.OPENED]
        device.failing = i2c_channel.TRIES + 2
        port.send(encode(ASK), NEVER_NS, now_ns())
        await until(lambda: host.states.count(PortState.OPENED) == 2)
        assert any("does not acknowledge" in detail for detail in host.details)


@pytest.mark.anyio
async def test_the_last_command_is_sent_although_nothing_waits_for_it(device: Registers) -> None:
    port = make_port("drive", URL)
    async with serving(port) as host:
        await host.reached(PortState.OPENED)
        device.holds.clear()
        assert port.send(encode(ASK, I2cRequest(b"\x06\x00")), NEVER_NS, now_ns())
        assert port.send(encode(ASK, I2cRequest(b"\x07\x00")), NEVER_NS, now_ns())
        threading.Timer(0.2, device.holds.set).start()
    assert device.values[6:8] == b"\0\0"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("number", "words"),
    [
        (errno.ENOENT, "enable I2C"),
        (errno.EACCES, "group i2c"),
        (errno.EBUSY, "a driver of the kernel has device 0x40"),
        (errno.EREMOTEIO, "nothing answers at 0x40: check power"),
        (errno.ENOTTY, "is not an I2C bus"),
        (errno.EMFILE, "cannot open /dev/i2c-1"),
    ],
)
async def test_why_it_cannot_be_opened(
    number: int, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: str, device: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(i2c_channel, "KernelBus", refuse)
    port = make_port("drive", URL)
    async with serving(port) as host:
        await until(lambda: bool(host.details))
    assert words in host.details[0]


@pytest.mark.anyio
async def test_a_file_that_is_no_bus(tmp_path: Any) -> None:
    """The kernel's own refusal, through the real calls."""
    file = tmp_path / "bus"
    file.touch()
    port = make_port("drive", f"i2c:{file}")
    async with serving(port) as host:
        await until(lambda: bool(host.details))
    assert "is not an I2C bus" in host.details[0]
