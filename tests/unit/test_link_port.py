"""The simulator link of a wall-clock run: who is silent, the simulator or the daemon that stood still."""

import socket
import time
from collections.abc import Iterator

import pytest

from vehicled.link import Hello, Kind, encode, encode_hello
from vehicled.messages import Message
from vehicled.runtime.connection import Link, LinkClosedError
from vehicled.runtime.link_port import LinkTransport


class _Sink:
    def record(self, message: Message, log_time_ns: int) -> None:
        """Fail: no record is expected."""
        raise AssertionError(message)


@pytest.fixture
def linked() -> Iterator[tuple[LinkTransport, socket.socket]]:
    """A transport that allows half a second of silence, and the simulator's end."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(encode_hello(Hello(role="simulator", clock="wall", ports=["gnss"], start_ns=0, boot_id="")))
        yield LinkTransport(Link(ours, "wall", ["gnss"], 1.0), _Sink(), 0.5), theirs


def test_a_silent_simulator_is_the_end(linked: tuple[LinkTransport, socket.socket]) -> None:
    transport, _ = linked
    now_ns = time.monotonic_ns()
    transport.transmit([], now_ns + 400_000_000)
    with pytest.raises(LinkClosedError, match=r"silent for 0\.6"):
        transport.transmit([], now_ns + 600_000_000)


def test_a_daemon_that_stood_still_does_not_blame_the_simulator(linked: tuple[LinkTransport, socket.socket]) -> None:
    transport, theirs = linked
    theirs.sendall(encode(Kind.DATA, 0, 0, b"waiting to be read"))
    transport.transmit([], time.monotonic_ns() + 10_000_000_000)
