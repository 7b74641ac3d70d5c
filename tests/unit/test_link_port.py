"""The simulator link of a wall-clock run: who is silent, the simulator or the daemon that stood
still."""

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.busy_computer import DEADLINE_S
from vehicled.core.link import (
    Hello,
    LinkDecoder,
    LinkError,
    LinkFrameKind,
    encode,
    encode_hello,
    encode_lost,
)
from vehicled.core.messages import Message
from vehicled.runtime.clock import PacedClock
from vehicled.runtime.connection import Link, LinkClosedError, connect
from vehicled.runtime.link_port import HEARTBEAT_NS, LinkTransport


class _Sink:
    def record(self, message: Message, log_time_ns: int) -> None:
        """Fail: no record is expected."""
        raise AssertionError(message)


@pytest.fixture
def linked() -> Iterator[tuple[LinkTransport, socket.socket]]:
    """A transport that allows half a second of silence, and the simulator's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(
            encode_hello(
                Hello(role="simulator", clock="wall", ports=["gnss"], start_ns=0, boot_id="")
            )
        )
        yield LinkTransport(Link(ours, "wall", ["gnss"], 1.0), _Sink(), 0.5), theirs


def test_a_simulator_that_starts_later_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = tmp_path / "link"
    with socket.socket(socket.AF_UNIX) as simulator:

        def start(_pause_s: float) -> None:
            simulator.bind(str(address))
            simulator.listen()

        monkeypatch.setattr(time, "sleep", start)
        connect(f"unix:{address}", DEADLINE_S).close()


def test_without_a_timeout_an_absent_simulator_is_tried_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "sleep", lambda pause_s: pytest.fail("tried again"))
    with pytest.raises(LinkError, match="no simulator answers"):
        connect(f"unix:{tmp_path / 'link'}")


@pytest.mark.parametrize("address", ["carrier-pigeon", "tcp:localhost:65536", "tcp:localhost:1²"])
def test_a_wrong_address_is_not_tried_again(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setattr(time, "sleep", lambda pause_s: pytest.fail("tried again"))
    with pytest.raises(LinkError, match="is not a simulator address"):
        connect(address, DEADLINE_S)


def test_a_silent_simulator_is_the_end(linked: tuple[LinkTransport, socket.socket]) -> None:
    transport, _ = linked
    now_ns = time.monotonic_ns()
    transport.transmit([], now_ns + 400_000_000)
    with pytest.raises(LinkClosedError, match=r"silent for 0\.6"):
        transport.transmit([], now_ns + 600_000_000)


def test_a_daemon_that_stood_still_does_not_blame_the_simulator(
    linked: tuple[LinkTransport, socket.socket],
) -> None:
    transport, theirs = linked
    theirs.sendall(encode(LinkFrameKind.DATA, 0, 0, b"waiting to be read"))
    transport.transmit([], time.monotonic_ns() + 10_000_000_000)


def test_what_a_stopped_simulator_does_not_read_is_kept_in_order(
    linked: tuple[LinkTransport, socket.socket],
) -> None:
    transport, theirs = linked
    transport._link.sock.setblocking(False)
    # The simulator sends once, so that it is not silent, and reads nothing for longer than the
    # kernel's buffer lasts.
    theirs.sendall(encode(LinkFrameKind.DATA, 0, 0, b"waiting to be read"))
    beats_ns = [time.monotonic_ns() + k * HEARTBEAT_NS for k in range(3000)]
    for beat_ns in beats_ns:
        transport.transmit([], beat_ns)
    theirs.setblocking(False)
    decoder, found = LinkDecoder(), list[int]()
    while len(found) < len(beats_ns) + 1:
        with suppress(BlockingIOError):
            found += [
                t_ns
                for kind, _, t_ns, _ in decoder.feed(theirs.recv(1 << 16))
                if kind is not LinkFrameKind.HELLO
            ]
        transport.transmit([], beats_ns[-1] + HEARTBEAT_NS)
    assert found == [*beats_ns, beats_ns[-1] + HEARTBEAT_NS]


def test_a_simulator_that_never_reads_ends_the_run(
    linked: tuple[LinkTransport, socket.socket],
) -> None:
    transport, theirs = linked
    transport._link.sock.setblocking(False)
    theirs.sendall(encode(LinkFrameKind.DATA, 0, 0, b"waiting to be read"))
    begin_ns = time.monotonic_ns()

    def beat_for_ever() -> None:
        for k in count():
            transport.transmit([], begin_ns + k * HEARTBEAT_NS)

    with pytest.raises(LinkClosedError, match="does not read"):
        beat_for_ever()


@pytest.fixture
def paced() -> Iterator[tuple[LinkTransport, PacedClock, socket.socket]]:
    """A transport whose clock the simulator may pause; half a second of silence or standstill is
    the end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(
            encode_hello(Hello(role="simulator", clock="wall", ports=["gnss"], shared_clock=True))
        )
        clock = PacedClock()
        yield (
            LinkTransport(
                Link(ours, "wall", ["gnss"], 1.0, shared_clock=True), _Sink(), 0.5, clock=clock
            ),
            clock,
            theirs,
        )


class _Host:
    def on_port(self, *_: Any) -> None: ...

    def on_rx(self, *_: Any) -> None: ...


SECOND = 10**9
Grants = Callable[[int], list[bytes]]


@pytest.mark.parametrize(
    ("grants", "said"),
    [
        (lambda now: [grant(now), grant(now - 1)], "its time went back"),
        (lambda now: [grant(now + 2 * SECOND)], "ahead of the run"),
        (lambda now: [grant(now, lost_ns=3600 * SECOND)], "more than the run has lasted"),
        (lambda now: [encode(LinkFrameKind.DATA, 7, 0, b"x")], "port number 7"),
        (lambda now: [encode(LinkFrameKind.GRANT, 0, now, b"short")], "carries"),
    ],
)
def test_a_paced_simulator_that_keeps_no_time_ends_the_run(
    paced: tuple[LinkTransport, PacedClock, socket.socket], grants: Grants, said: str
) -> None:
    transport, _, theirs = paced
    theirs.sendall(b"".join(grants(time.monotonic_ns())))

    async def serve() -> None:
        with anyio.fail_after(DEADLINE_S):
            await transport.serve(_Host())

    with pytest.raises(Exception, match=said):
        anyio.run(serve)


def test_a_paced_simulator_whose_time_stands_ends_the_run(
    paced: tuple[LinkTransport, PacedClock, socket.socket],
) -> None:
    transport, clock, theirs = paced
    stands = time.monotonic_ns()

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(transport.serve, _Host())
            for k in range(200):
                # It sends, and crawls by a nanosecond: the clock of the run would pause for ever.
                theirs.sendall(grant(stands + k) + encode(LinkFrameKind.DATA, 0, 0, b"x"))
                await anyio.sleep(0.01)
                transport.transmit([], clock.now_ns())

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(serve)
    assert "granted no time for" in str(caught.value.exceptions[0])


def test_a_link_that_carries_a_byte_now_and_then_is_silent(
    linked: tuple[LinkTransport, socket.socket],
) -> None:
    transport, theirs = linked

    async def serve() -> None:
        async with anyio.create_task_group() as group:
            group.start_soon(transport.serve, _Host())
            for byte in encode(LinkFrameKind.DATA, 0, 0, bytes(1000)):
                theirs.sendall(bytes([byte]))
                await anyio.sleep(0.01)
                transport.transmit([], time.monotonic_ns())

    with pytest.raises(ExceptionGroup) as caught:
        anyio.run(serve)
    assert "silent for" in str(caught.value.exceptions[0])


def grant(t_ns: int, lost_ns: int = 0) -> bytes:
    return encode_lost(LinkFrameKind.GRANT, t_ns, lost_ns)
