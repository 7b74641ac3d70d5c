"""Ports of pulses per second: the folder of sysfs and the ioctl of the kernel, and what chrony and
ntpd read of the samples."""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.port_kit import now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire import pps
from vehicled.core.wire.framing import Framer
from vehicled.runtime.ports import make_port, pps_channel, refclock
from vehicled.runtime.ports.refclock import ShmOutput, ShmTime, encode_sock, write_shm

RETRY = "retry_min_s=0.001&retry_max_s=0.005"
SAMPLE = pps.RefclockSample(1_767_225_600_012_345_678, 1_767_225_600_000_000_000, -19)
IPC_EXCL = 0o2000


def test_layouts_are_those_of_chrony() -> None:
    """Bytes of both structs of chrony 4, compiled for a 64-bit computer."""
    segment = ShmTime()
    write_shm(segment, SAMPLE)
    assert bytes(segment).hex() == (
        "010000000200000000b9556900000000000000000000000000b95569000000003930000000000000"
        "edffffff0000000001000000000000004e61bc00" + "00" * 36
    )
    assert encode_sock(SAMPLE).hex() == (
        "00b95569000000003930000000000000632827da554889bf0000000000000000000000004b434f53"
    )


def pulse(folder: Path, number: int, stamp_ns: int) -> None:
    new = folder / "new"
    new.write_text(f"{stamp_ns // 10**9}.{stamp_ns % 10**9:09d}#{number}\n")
    new.rename(folder / "assert")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "clear").write_text("0.000000000#0\n")
    pulse(tmp_path, 0, 0)
    return tmp_path


def stamps(received: bytes) -> list[pps.PulseRecord]:
    return [pps.parse(frame) for _, frame in Framer(pps.PROTOCOLS).feed(received)]


@pytest.fixture
def unit() -> Iterator[int]:
    """Unit of shared memory that no other program and no other test has."""
    shm = ctypes.CDLL(None)
    size, flags = ctypes.sizeof(ShmTime), refclock.IPC_CREAT | IPC_EXCL | 0o666
    claims = ((unit, shm.shmget(refclock.SHM_KEY + unit, size, flags)) for unit in range(16, 256))
    number, segment = next(claim for claim in claims if claim[1] >= 0)
    yield number
    shm.shmctl(segment, 0, None)


@pytest.mark.anyio
async def test_stamps_of_a_folder_come_with_their_age_and_samples_reach_chrony(
    folder: Path, unit: int
) -> None:
    path = folder / "chrony.sock"
    # chronyd is not there yet when the first sample comes.
    port = make_port("pps", f"pps:{folder}?shm={unit}&sock={path}&{RETRY}")
    segment = ShmOutput(unit)
    try:
        async with serving(port) as host:
            await host.reached(PortState.OPENED)
            assert f"shared memory unit {unit}" in host.details[0]
            port.send(pps.encode(SAMPLE), NEVER_NS, now_ns())
            stamp_ns = time.time_ns()
            pulse(folder, 1, stamp_ns)
            await until(lambda: len(stamps(host.received)) == 2)
            first, errors = stamps(host.received)
            assert isinstance(first, pps.PulseStamps)
            assert first[:4] == (1, stamp_ns, 0, 0)
            assert first.read_ns > stamp_ns
            assert errors == pps.RefclockErrors(0, errno.ENOENT)
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as chronyd:
                chronyd.bind(str(path))
                port.send(pps.encode(SAMPLE), NEVER_NS, now_ns())
                assert chronyd.recv(100) == encode_sock(SAMPLE)
            pulse(folder, 2, stamp_ns + 1)
            await until(lambda: len(stamps(host.received)) == 4)
            assert stamps(host.received)[-1] == pps.RefclockErrors(0, 0)
        shown = segment._segment
        assert (shown.valid, shown.count % 2, shown.precision) == (1, 0, -19)
        assert (shown.clock_s, shown.receive_ns) == (1_767_225_600, 12_345_678)
        assert refclock.attached_units().get(unit) == 1
    finally:
        segment.close()


@pytest.mark.anyio
async def test_the_kernel_is_asked_with_its_own_layout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``PPS_FETCH`` of a kernel that stamps one edge, times out, and has gone."""
    calls: list[int] = []

    def ioctl(file: int, request: int, data: bytearray, mutate: bool) -> int:
        assert (request, len(data), mutate) == (0xC008_70A4, 64, True)
        assert struct.unpack_from("<qiI", data, 48) == (0, 500_000_000 if calls else 0, 0)
        calls.append(file)
        if len(calls) > 2:
            number = errno.ETIMEDOUT if len(calls) == 3 else errno.ENODEV
            raise OSError(number, os.strerror(number))
        struct.pack_into("<IIqiIqi", data, 0, 1, 7, 1_767_225_600, 5, 0, 1_767_225_599, 6)
        return 0

    monkeypatch.setattr(fcntl, "ioctl", ioctl)
    device = tmp_path / "pps0"
    device.touch()
    port = make_port("pps", f"pps:{device}?{RETRY}")
    async with serving(port) as host:
        await until(lambda: any("is gone" in detail for detail in host.details))
    (first, *_) = stamps(host.received)
    assert isinstance(first, pps.PulseStamps)
    assert first[:4] == (1, 1_767_225_600_000_000_005, 7, 1_767_225_599_000_000_006)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("path", "words"),
    [("none", "does not exist: 'dtoverlay=pps-gpio"), ("file", "is not a source of pulses")],
)
async def test_why_it_cannot_be_opened(tmp_path: Path, path: str, words: str) -> None:
    (tmp_path / "file").touch()
    port = make_port("pps", f"pps:{tmp_path / path}?{RETRY}")
    async with serving(port) as host:
        await until(lambda: bool(host.details))
    assert words in host.details[0]


def test_a_device_without_permission_names_the_folder() -> None:
    error = PermissionError(errno.EACCES, "")
    assert "use pps:/sys/class/pps/pps0" in pps_channel._why_not("/dev/pps0", error)
