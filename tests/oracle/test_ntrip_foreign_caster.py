"""Against a caster that no one here wrote: the one in pygnssutils, on loopback."""

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from drivers.rtcm.codec import FrameReader
from tests.busy_computer import DEADLINE_S
from tests.unit.test_ntrip_socket import drive
from vehicled.core.messages import Corrections, Event, Fault, Message

foreign = pytest.importorskip(
    "pygnssutils.socket_server", reason="needs pygnssutils, which brings a caster"
)

USER, PASSWORD, MOUNTPOINT = "rover", "a b:c", "pygnssutils"


@contextmanager
def caster(version: str, stream: bytes) -> Iterator[tuple[str, int]]:
    """A running caster that serves a stream in pieces, again and again, to whoever is connected."""
    pieces: queue.Queue[bytes] = queue.Queue()
    server = foreign.SocketServer(
        None, 1, 2, pieces, ("127.0.0.1", 0), foreign.ClientHandler,
        ntripversion=version, ntripuser=USER, ntrippassword=PASSWORD,
    )  # fmt: skip
    over = threading.Event()

    def feed() -> None:
        while not over.wait(0.002):
            if server.connections and pieces.qsize() < 10:
                for at in range(0, len(stream), 997):
                    pieces.put(stream[at : at + 997])
        pieces.put(b"")  # releases the server's own reader

    threads = [
        threading.Thread(target=server.serve_forever, args=(0.05,)),
        threading.Thread(target=feed),
    ]
    for thread in threads:
        thread.start()
    try:
        yield server.server_address
    finally:
        server.shutdown()
        server.server_close()
        over.set()
        for thread in threads:
            thread.join(DEADLINE_S)


def client(password: str, mountpoint: str = MOUNTPOINT, version: str = "auto") -> NtripDevice:
    params = NtripParams(mountpoint=mountpoint, user=USER, password_file="f", version=version)  # type: ignore[arg-type]
    device = NtripDevice(params, [Corrections], 1)
    device.set_secret(password)
    return device


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("ask", ["auto", "1", "2"])
def test_it_serves_us(shared_data: Path, version: str, ask: str):
    stream = (shared_data / "captures" / "rtcm" / "pygnssutils__ntrip_encode_none.bin").read_bytes()
    wanted = FrameReader().feed(stream)
    with caster(version, stream) as address:
        messages = drive(
            client(PASSWORD, version=ask),
            address,
            lambda got: sum(isinstance(m, Corrections) for m in got) >= 350,
        )
    got = [message.data for message in messages if isinstance(message, Corrections)]
    assert set(got) == set(wanted)
    start = wanted.index(got[0])
    assert got[: len(wanted) - start] == wanted[start:]
    assert not any(isinstance(message, Fault) for message in messages)
    assert any(
        isinstance(message, Event) and message.name == "corrections_connected"
        for message in messages
    )


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    ("password", "mountpoint", "code"),
    [("wrong", MOUNTPOINT, "ntrip_credentials"), (PASSWORD, "PYGNS", "")],
)
def test_it_refuses_us_by_name(version: str, password: str, mountpoint: str, code: str):
    def refused(messages: list[Message]) -> bool:
        return any(isinstance(message, Fault) for message in messages)

    with caster(version, b"") as address:
        messages = drive(client(password, mountpoint), address, refused)
    fault = next(message for message in messages if isinstance(message, Fault))
    assert fault.code.startswith(code or "ntrip_")
    assert password not in fault.reason
    assert fault.active
