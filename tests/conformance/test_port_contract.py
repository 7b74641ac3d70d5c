"""The contract of every port, whatever carries it. A new kind of channel joins by one line in
``PEERS``."""

import os
import random
import socket
import ssl
import threading
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import anyio
import anyio.lowlevel
import can
import pytest
import trustme
from can.interfaces.udp_multicast import UdpMulticastBus

from tests.conformance.port_kit import Recorder, now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.can import CanFrame, pack
from vehicled.core.wire.slcan import SlcanDecoder, encode
from vehicled.runtime.ports import make_port

pytestmark = pytest.mark.anyio

OPENED, LOST, ERROR = PortState.OPENED, PortState.LOST, PortState.ERROR
FAST = "retry_min_s=0.001&retry_max_s=0.005"


class Peer(Protocol):
    """The other end of a port, which can die and come back."""

    url: str
    mortal: bool
    chunks: list[bytes]
    """Data to exchange, in pieces that may be given to the port one by one."""

    def send(self, data: bytes) -> None: ...
    def receive(self) -> bytes: ...
    def die(self) -> None: ...
    def revive(self) -> None: ...


class PtyPeer:
    """The master of a pty behind a stable name."""

    mortal = True
    master = -1
    slave = -1

    def __init__(self, folder: Path) -> None:
        self.link = folder / "device"
        self.url = f"pty:{self.link}?{FAST}"
        self.chunks = [bytes([k]) * (k % 50 + 1) for k in range(256)]
        self.revive()

    def send(self, data: bytes) -> None:
        os.write(self.master, data)

    def receive(self) -> bytes:
        got = b""
        with suppress(BlockingIOError):
            while True:
                got += os.read(self.master, 65536)
        return got

    def die(self) -> None:
        if self.master >= 0:
            self.link.unlink()
            os.close(self.master)
            os.close(self.slave)
            self.master = -1

    def revive(self) -> None:
        self.master, self.slave = os.openpty()
        os.set_blocking(self.master, False)
        tty.setraw(self.slave)
        self.link.symlink_to(os.ttyname(self.slave))


class SlcanPeer(PtyPeer):
    """A serial CAN adapter, by the codec that the port uses; python-can's own is the judge in
    another test."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.url = f"can:slcan:{self.link}?{FAST}"
        self.chunks = FRAMES

    def send(self, data: bytes) -> None:
        super().send(b"".join(encode(frame) for frame in _frames(data)))

    def receive(self) -> bytes:
        return b"".join(
            pack(item)
            for item in self.decoder.feed(super().receive())
            if isinstance(item, CanFrame)
        )

    def revive(self) -> None:
        super().revive()
        self.decoder = SlcanDecoder()


class TcpPeer:
    """A server that keeps the newest connection."""

    mortal = True

    def __init__(
        self, folder: Path, context: ssl.SSLContext | None = None, option: str = ""
    ) -> None:
        self.context = context
        self.chunks = [bytes([k]) * (k % 50 + 1) for k in range(256)]
        self.number = 0
        self.connection: socket.socket | None = None
        self.revive()
        self.url = f"{'tls' if context else 'tcp'}:127.0.0.1:{self.number}?{FAST}{option}"

    def send(self, data: bytes) -> None:
        assert self.connection is not None
        self.connection.sendall(data)

    def receive(self) -> bytes:
        got = b""
        # Also when the accepting thread closes it at this moment, for a newer one.
        with suppress(OSError):
            while self.connection is not None:
                data = self.connection.recv(65536)
                if not data:
                    break
                got += data
        return got

    def die(self) -> None:
        self.dead = True
        self.thread.join()
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def revive(self) -> None:
        self.dead = False
        listener = socket.create_server(("127.0.0.1", self.number))
        self.number = listener.getsockname()[1]
        self.thread = threading.Thread(target=self._accept, args=(listener,))
        self.thread.start()

    def _accept(self, listener: socket.socket) -> None:
        listener.settimeout(0.01)
        with listener:
            while not self.dead:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    continue
                try:
                    connection.settimeout(5)
                    if self.context is not None:
                        connection = self.context.wrap_socket(connection, server_side=True)
                    connection.setblocking(False)
                except OSError:
                    connection.close()
                    continue
                if self.connection is not None:
                    self.connection.close()
                self.connection = connection


class UdpCanPeer:
    """Another member of the multicast group; nobody can unplug it."""

    mortal = False

    def __init__(self, folder: Path) -> None:
        number = 40_000 + os.getpid() % 20_000
        self.url = f"can:udp:239.74.163.2:{number}?{FAST}"
        self.chunks = FRAMES[:100]  # the receive buffer of the group holds some 250
        try:
            self.bus = UdpMulticastBus("239.74.163.2", number, hop_limit=0, fd=False)
            self.bus.send(can.Message(arbitration_id=0), timeout=0)
        except (OSError, can.CanError) as error:
            pytest.skip(f"no multicast here: {error}")
        self.receive()

    def send(self, data: bytes) -> None:
        for frame in _frames(data):
            self.bus.send(
                can.Message(
                    arbitration_id=frame.can_id, is_extended_id=frame.extended, data=frame.data
                ),
                timeout=0,
            )

    def receive(self) -> bytes:
        got = b""
        while (message := self.bus.recv(0)) is not None:
            got += pack(
                CanFrame(message.arbitration_id, bytes(message.data), message.is_extended_id)
            )
        return got

    def die(self) -> None:
        self.bus.shutdown()

    def revive(self) -> None: ...


def _frames(records: bytes) -> list[CanFrame]:
    return [
        CanFrame(
            int.from_bytes(records[at : at + 4], "little") & 0x1FFF_FFFF,
            records[at + 8 : at + 8 + records[at + 4]],
        )
        for at in range(0, len(records), 16)
    ]


FRAMES = [pack(CanFrame(0x900 + k, bytes([k]) * (k % 9))) for k in range(256)]


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA()


def _tls_peer(folder: Path, authority: trustme.CA) -> TcpPeer:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    return TcpPeer(folder, context, f"&verify={folder / 'ca.pem'}")


PEERS: dict[str, Callable[[Path, trustme.CA], Peer]] = {
    "pty": lambda folder, _: PtyPeer(folder),
    "tcp": lambda folder, _: TcpPeer(folder),
    "tls": _tls_peer,
    "slcan": lambda folder, _: SlcanPeer(folder),
    "udp": lambda folder, _: UdpCanPeer(folder),
}


@pytest.fixture(params=PEERS)
def peer(request: pytest.FixtureRequest, tmp_path: Path, authority: trustme.CA) -> Iterator[Peer]:
    """The other end of each kind of port."""
    peer = PEERS[request.param](tmp_path, authority)
    yield peer
    peer.die()


@pytest.fixture
def mortal(peer: Peer) -> Peer:
    """The other end, where it can be unplugged."""
    if not peer.mortal:
        pytest.skip("nothing to unplug")
    return peer


def _ends_with(host: Recorder, data: bytes) -> bool:
    return host.received.endswith(data)


async def _ready(peer: Peer, host: Recorder) -> None:
    await host.reached(OPENED)
    if isinstance(peer, TcpPeer):
        await until(lambda: peer.connection is not None)


async def _sent(peer: Peer, wanted: bytes) -> None:
    got = bytearray()

    def all_there() -> bool:
        got.extend(peer.receive())
        return len(got) >= len(wanted)

    await until(all_there)
    assert bytes(got) == wanted


async def test_all_bytes_in_order_both_ways(peer):
    port = make_port("device", peer.url)
    whole = b"".join(peer.chunks)
    begin_ns = now_ns()
    async with serving(port) as host:
        await _ready(peer, host)
        for chunk in peer.chunks:
            peer.send(chunk)
        await until(lambda: len(host.received) >= len(whole))
        assert host.received == whole
        stamps = [t_ns for t_ns, _ in host.chunks]
        assert stamps == sorted(stamps)
        assert begin_ns < stamps[0] <= stamps[-1] <= now_ns()
        peer.receive()
        for chunk in peer.chunks:
            assert port.send(chunk, NEVER_NS, now_ns())
        await _sent(peer, whole)
        # Nothing of its own came back.
        assert host.received == whole
    assert port.counts.rx_bytes == port.counts.tx_bytes == len(whole)
    assert (
        port.counts.opened,
        port.counts.expired,
        port.counts.overflowed,
        port.counts.refused,
    ) == (1, 0, 0, 0)
    assert host.states == [OPENED]


async def test_lost_once_and_opened_again(mortal):
    port = make_port("device", mortal.url)
    async with serving(port) as host:
        for episode in range(3):
            await host.reached(*[OPENED, LOST] * episode, OPENED)
            if isinstance(mortal, TcpPeer):
                await until(lambda: mortal.connection is not None)
            mortal.send(mortal.chunks[episode + 1])
            await until(partial(_ends_with, host, mortal.chunks[episode + 1]))
            mortal.die()
            await host.reached(*[OPENED, LOST] * (episode + 1))
            assert not port.send(mortal.chunks[1], NEVER_NS, now_ns())
            # Time for many attempts, none of which is reported.
            await anyio.sleep(0.05)
            assert len(host.states) == 2 * episode + 2
            assert port.trouble
            mortal.revive()
        await host.reached(*[OPENED, LOST] * 3, OPENED)
        assert port.trouble == ""
        assert "attempts" in host.details[-1]
        assert port.counts.opened == 4


async def test_a_missing_peer_is_reported_once(mortal):
    mortal.die()
    port = make_port("device", mortal.url)
    async with serving(port) as host:
        await host.reached(ERROR)
        await anyio.sleep(0.05)
        assert host.states == [ERROR]
        assert host.details[0] == port.trouble
        mortal.revive()
        await host.reached(ERROR, OPENED)


async def test_the_last_frame_leaves_after_serving_has_ended(peer):
    port = make_port("device", peer.url)
    async with anyio.create_task_group() as group:
        host = Recorder()
        group.start_soon(port.serve, host)
        await _ready(peer, host)
        group.cancel_scope.cancel()
    with anyio.CancelScope(shield=True):
        peer.receive()
        assert port.send(peer.chunks[7], NEVER_NS, now_ns())
        # Without any turn of the loop, as after a crash.
        end_ns = now_ns() + 10**10
        got = b""
        while got != peer.chunks[7] and now_ns() < end_ns:
            got += peer.receive()
            time.sleep(0.001)  # noqa: ASYNC251 - that is the point
        assert got == peer.chunks[7]
        await port.aclose()
        await port.aclose()
    assert not port.send(peer.chunks[7], NEVER_NS, now_ns())


async def test_nothing_is_sent_after_its_deadline(peer):
    port = make_port("device", peer.url)
    async with serving(port) as host:
        await _ready(peer, host)
        peer.receive()
        assert not port.send(peer.chunks[3], now_ns() - 1, now_ns())
        assert port.send(peer.chunks[4], now_ns() + 10**9, now_ns())
        await _sent(peer, peer.chunks[4])
    assert port.counts.expired == 1


async def test_reopened_on_request(peer):
    port = make_port("device", peer.url)
    async with serving(port) as host:
        await _ready(peer, host)
        port.reopen("it has been silent for 2 s")
        port.reopen("and another reason")
        await host.reached(OPENED, LOST, OPENED)
        assert "it has been silent for 2 s" in host.details[1]
        peer.receive()

        # The old connection may still be the newest one a server has seen.
        def carried() -> bool:
            with suppress(OSError):
                peer.send(peer.chunks[5])
            return bool(host.received)

        await until(carried)


async def test_cancelled_at_any_moment_it_keeps_nothing(peer):
    rng = random.Random(4)
    for _ in range(12):
        port = make_port("device", peer.url)
        async with serving(port):
            await anyio.sleep(rng.random() * 0.003)


async def test_a_mistake_of_the_host_is_not_swallowed(peer):
    class BadHost(Recorder):
        def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
            raise ZeroDivisionError("in the machine")

    port = make_port("device", peer.url)
    host = BadHost()

    async def drive() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(port.serve, host)
            await _ready(peer, host)
            peer.send(peer.chunks[1])
            await anyio.sleep(10)

    with pytest.raises(BaseExceptionGroup) as caught:
        await drive()
    assert caught.group_contains(ZeroDivisionError)
    await port.aclose()
