"""A device that is plugged in is noticed at once, by its path or its interface."""

import os
import struct
import subprocess
from pathlib import Path

import pytest

from tests.busy_computer import wait_until
from tests.conformance.port_kit import serving, until
from vehicled.core.messages import PortState
from vehicled.runtime.ports import make_port
from vehicled.runtime.ports.arrival import InterfaceArrival, PathArrival


def test_a_path_is_noticed_with_every_folder_on_the_way(tmp_path: Path) -> None:
    device = tmp_path / "serial" / "by-id" / "usb-gnss"
    arrival = PathArrival(str(device))
    try:
        assert not arrival.came()
        (tmp_path / "other").mkdir()
        assert not arrival.came(), "another name is of no concern"
        (tmp_path / "serial").mkdir()
        assert arrival.came()
        device.parent.mkdir()
        assert arrival.came()
        (device.parent / "usb-imu").touch()
        assert not arrival.came()
        device.touch()
        assert arrival.came()
        device.chmod(0o600)
        assert arrival.came(), "permissions follow the name"
        device.unlink()
        device.parent.joinpath("usb-imu").unlink()
        assert not arrival.came()
        device.parent.rmdir()
        assert arrival.came()
        device.parent.mkdir()
        assert arrival.came()
        device.symlink_to("/dev/null")
        assert arrival.came()
    finally:
        arrival.close()


def test_what_appears_all_at_once_is_noticed(tmp_path: Path) -> None:
    device = tmp_path / "a" / "b" / "c"
    arrival = PathArrival(str(device))
    try:
        device.parent.mkdir(parents=True)
        device.touch()
        assert arrival.came()
    finally:
        arrival.close()


def test_an_interface_is_known_by_its_name() -> None:
    arrival = InterfaceArrival("can0")

    def link(name: bytes, kind: int = 16) -> bytes:
        named = struct.pack("=HH", 4 + len(name) + 1, 3) + name + b"\0"
        body = bytes(16) + struct.pack("=HHI", 8, 4, 1500) + named + bytes(-len(named) % 4)
        return struct.pack("=IHHII", 16 + len(body), kind, 0, 0, 0) + body

    try:
        assert arrival._named(link(b"can0"))
        assert arrival._named(link(b"eth0") + link(b"can0"))
        assert not arrival._named(link(b"can01") + link(b"can0", 17))
        for cut in range(len(link(b"can0"))):
            arrival._named(link(b"can0")[:cut])
    finally:
        arrival.close()


def test_the_kernel_announces_an_interface() -> None:
    name = f"vh{os.getpid() % 10000}"
    arrival = InterfaceArrival(name)
    try:
        made = subprocess.run(
            ["ip", "link", "add", name, "type", "dummy"], capture_output=True, check=False
        )
        if made.returncode:
            pytest.skip("making a network interface needs root and its driver")
        try:
            wait_until(arrival.came)
            subprocess.run(["ip", "link", "set", name, "up"], check=True)
            wait_until(arrival.came)
        finally:
            subprocess.run(["ip", "link", "del", name], check=True)
    except FileNotFoundError:
        pytest.skip("needs the program ip")
    finally:
        arrival.close()


@pytest.mark.anyio
async def test_a_port_is_open_again_as_soon_as_its_device_is_there(tmp_path: Path) -> None:
    """The pause is an hour, so only the notice can open it."""
    device = tmp_path / "by-id" / "gnss"
    port = make_port("gnss", f"serial:{device}?retry_min_s=3600&retry_max_s=3600")
    async with serving(port) as host:
        await until(lambda: "does not exist" in port.trouble)
        for _ in range(2):
            ours, theirs = os.openpty()
            device.parent.mkdir(exist_ok=True)
            device.symlink_to(os.ttyname(theirs))
            await until(lambda: host.states[-1] is PortState.OPENED)
            device.unlink()
            os.close(theirs)
            os.close(ours)
            await until(lambda: host.states[-1] is PortState.LOST)
    assert host.states == [PortState.ERROR, *2 * (PortState.OPENED, PortState.LOST)]
