"""TCP and TLS ports: servers that refuse, hang, lie about who they are, or go away."""

import os
import socket
import ssl
import threading

import anyio
import pytest
import trustme

from tests.conformance.port_kit import now_ns, serving, until
from vehicled.core.messages import PortState
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.ports import make_port

pytestmark = pytest.mark.anyio

OPENED, LOST, ERROR = PortState.OPENED, PortState.LOST, PortState.ERROR
FAST = "retry_min_s=0.001&retry_max_s=0.005"


@pytest.fixture
def listener():
    """A server that listens and, as long as nobody accepts, says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        yield sock


def _tls_server(listener: socket.socket, name: str, folder, work) -> threading.Thread:
    """Serve one connection in a thread, with a certificate for ``name`` whose authority goes to
    ``folder``."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(folder / "ca.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert(name).configure_cert(context)

    def run() -> None:
        raw, _ = listener.accept()
        raw.settimeout(10)
        with raw:
            try:
                with context.wrap_socket(raw, server_side=True) as connection:
                    work(connection)
            except OSError:
                pass  # the client does not trust us: what the test is about

    thread = threading.Thread(target=run)
    thread.start()
    return thread


async def test_a_flood_comes_in_small_pieces_at_the_rate_of_the_line(listener):
    """Bytes beyond what the line carries wait in the kernel, and none is lost."""
    port = make_port("gnss", f"tcp:127.0.0.1:{listener.getsockname()[1]}?bytes_per_s=100000")
    data = os.urandom(80_000)
    async with serving(port) as host:
        await host.reached(OPENED)
        connection, _ = listener.accept()
        with connection:
            threading.Thread(target=connection.sendall, args=(data,)).start()
            await until(lambda: len(host.received) == len(data))
            assert bytes(host.received) == data
            assert port.counts.throttled > 0


async def test_no_listener():
    with socket.create_server(("127.0.0.1", 0)) as sock:
        number = sock.getsockname()[1]
    async with serving(make_port("ntrip", f"tcp:127.0.0.1:{number}?{FAST}")) as host:
        await host.reached(ERROR)
        assert f"tcp:127.0.0.1:{number}" in host.details[0]
        assert "check that the server runs" in host.details[0]


async def test_an_unknown_host(monkeypatch):
    async def fail(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(anyio, "getaddrinfo", fail)
    async with serving(make_port("ntrip", f"tcp:no-such-caster.invalid:2101?{FAST}")) as host:
        await host.reached(ERROR)
        assert "Name or service not known" in host.details[0]
        assert "check the name" in host.details[0]


async def test_the_second_address_of_a_host_is_tried(monkeypatch, listener):
    with socket.create_server(("127.0.0.1", 0)) as sock:
        dead = sock.getsockname()
    found = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", address)
        for address in (dead, listener.getsockname())
    ]

    async def both(*_: object, **__: object) -> list[object]:
        return list(found)

    monkeypatch.setattr(anyio, "getaddrinfo", both)
    async with serving(make_port("ntrip", f"tcp:caster.example:2101?{FAST}")) as host:
        await host.reached(OPENED)


async def test_a_server_that_greets_nobody_times_out(listener):
    number = listener.getsockname()[1]
    async with serving(make_port("ntrip", f"tls:127.0.0.1:{number}?timeout_s=0.05&{FAST}")) as host:
        await host.reached(ERROR)
        assert "no answer within 0.05 s" in host.details[0]


async def test_plain_text_is_not_tls(listener):
    def plain() -> None:
        connection, _ = listener.accept()
        with connection:
            connection.settimeout(10)
            connection.recv(1)
            connection.sendall(b"ICY 200 OK\r\n\r\n" * 10)
            connection.recv(65536)

    thread = threading.Thread(target=plain)
    thread.start()
    number = listener.getsockname()[1]
    async with serving(
        make_port("ntrip", f"tls:127.0.0.1:{number}?retry_min_s=60&retry_max_s=60")
    ) as host:
        await host.reached(ERROR)
        assert "does not use TLS" in host.details[0]
    thread.join()


@pytest.mark.parametrize(
    ("name", "verify", "words"),
    [
        ("127.0.0.1", "yes", "not trusted"),
        ("another.example", "{folder}/ca.pem", "not trusted"),
        ("127.0.0.1", "{folder}/missing.pem", "No such file"),
    ],
)
async def test_a_server_with_another_identity_is_refused(listener, tmp_path, name, verify, words):
    thread = _tls_server(listener, name, tmp_path, lambda connection: connection.recv(1))
    number = listener.getsockname()[1]
    verify = verify.format(folder=tmp_path)
    async with serving(
        make_port("ntrip", f"tls:127.0.0.1:{number}?verify={verify}&retry_min_s=60&retry_max_s=60")
    ) as host:
        await host.reached(ERROR)
        assert words in host.details[0]
        assert host.states == [ERROR]
    thread.join()


async def test_trust_in_anyone_is_reported(listener, tmp_path):
    thread = _tls_server(
        listener, "another.example", tmp_path, lambda connection: connection.recv(1)
    )
    number = listener.getsockname()[1]
    async with serving(make_port("ntrip", f"tls:127.0.0.1:{number}?verify=no")) as host:
        await host.reached(OPENED)
        assert "TLS" in host.details[0]
        assert "certificate not checked" in host.details[0]
    thread.join()


async def test_a_slow_tls_reader_gets_every_byte(listener, tmp_path):
    """More than the sockets hold: records wait half written, and must be finished before anything
    else."""
    got = bytearray()
    go = threading.Event()

    def read(connection: ssl.SSLSocket) -> None:
        go.wait(10)
        while data := connection.recv(65536):
            got.extend(data)

    thread = _tls_server(listener, "127.0.0.1", tmp_path, read)
    number = listener.getsockname()[1]
    port = make_port("ntrip", f"tls:127.0.0.1:{number}?verify={tmp_path / 'ca.pem'}")
    frames = [b"%06d," % k * 500 for k in range(4_000)]
    sent = 0
    async with serving(port) as host:
        await host.reached(OPENED)
        # Until one has to wait; more would cost the oldest.
        while sent < len(frames):
            assert port.send(frames[sent], NEVER_NS, now_ns())
            sent += 1
            if port.counts.tx_bytes < sent * len(frames[0]):
                break
        assert sent < len(frames), "the sockets took it all: nothing was tested"
        go.set()
        await until(lambda: len(got) == sent * len(frames[0]))
        assert port.send(b"end", NEVER_NS, now_ns())
        await until(lambda: got.endswith(b"end"))
        assert bytes(got) == b"".join(frames[:sent]) + b"end"
        assert port.counts.overflowed == 0
    thread.join()


async def test_much_arrives_at_once_through_tls(listener, tmp_path):
    """Bytes that are already decrypted do not make the descriptor readable again."""
    whole = bytes(range(256)) * 4_000

    def write(connection: ssl.SSLSocket) -> None:
        connection.sendall(whole)
        connection.recv(1)

    thread = _tls_server(listener, "127.0.0.1", tmp_path, write)
    number = listener.getsockname()[1]
    async with serving(
        make_port("ntrip", f"tls:127.0.0.1:{number}?verify={tmp_path / 'ca.pem'}")
    ) as host:
        await until(lambda: len(host.received) == len(whole))
        assert host.received == whole
    thread.join()


async def test_a_server_that_dies_is_lost_with_its_reason(listener):
    number = listener.getsockname()[1]
    port = make_port("ntrip", f"tcp:127.0.0.1:{number}?{FAST}")
    async with serving(port) as host:
        await host.reached(OPENED)
        first, _ = listener.accept()
        first.close()
        await host.reached(OPENED, LOST, OPENED)
        assert "closed the connection" in host.details[1]
        second, _ = listener.accept()
        # struct linger: on, 0 s: closing resets.
        second.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        second.close()
        await host.reached(OPENED, LOST, OPENED, LOST)
        assert "reset" in host.details[3]


async def test_small_frames_leave_at_once_and_dead_peers_are_noticed(listener):
    from vehicled.runtime.ports.address import TcpAddress
    from vehicled.runtime.ports.contract import PortCounts
    from vehicled.runtime.ports.tcp_channel import open_tcp

    channel = await open_tcp(
        TcpAddress(host="127.0.0.1", port=listener.getsockname()[1]), PortCounts()
    )
    with socket.socket(fileno=channel.fileno()) as view:
        try:
            assert view.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert view.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert not os.get_blocking(view.fileno())
        finally:
            view.detach()
    await channel.aclose(drain=False)


async def test_the_last_frame_arrives_although_nobody_reads_any_more(listener):
    """Many small frames out, bytes in that nobody read: closing must not reset what is under
    way."""
    port = make_port("drive", f"tcp:127.0.0.1:{listener.getsockname()[1]}")
    async with serving(port) as host:
        await host.reached(OPENED)
        connection, _ = listener.accept()
    with connection:
        assert port.trouble == "closed"
        assert connection.recv(10) == b""

    async with anyio.create_task_group() as group:
        host.states.clear()
        group.start_soon(port.serve, host)
        await host.reached(OPENED)
        connection, _ = listener.accept()
        group.cancel_scope.cancel()
    with connection, anyio.CancelScope(shield=True):
        connection.sendall(b"status" * 100)
        await anyio.sleep(0.01)
        frames = [b"%05d" % k * 100 for k in range(400)]
        for frame in frames:
            assert port.send(frame, NEVER_NS, now_ns())
        assert port.send(b"brake", NEVER_NS, now_ns())
        left = port.counts.tx_bytes
        assert left == 400 * 500 + 5
        await port.aclose()
        connection.settimeout(5)
        got = bytearray()
        while data := connection.recv(65536):
            got.extend(data)
    assert got == b"".join(frames) + b"brake"
