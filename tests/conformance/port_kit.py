"""What the tests of ports share: a host that remembers, and the waiting for what it will have heard."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio

from vehicled.messages import PortState
from vehicled.runtime.ports.supervised import SupervisedPort

PATIENCE_S = 10.0
"""A bound for what must happen at all, not a measure of how fast."""


class Recorder:
    """A host that keeps everything it is told."""

    def __init__(self) -> None:
        self.states: list[PortState] = []
        self.details: list[str] = []
        self.chunks: list[tuple[int, bytes]] = []

    def on_port(self, port: str, state: PortState, detail: str, now_ns: int) -> None:
        assert 0 < now_ns <= time.monotonic_ns()
        self.states.append(state)
        self.details.append(detail)

    def on_rx(self, port: str, data: bytes, t_rx_ns: int) -> None:
        self.chunks.append((t_rx_ns, data))

    @property
    def received(self) -> bytes:
        """All bytes, in order."""
        return b"".join(data for _, data in self.chunks)

    async def heard(self, *states: PortState) -> None:
        """Wait until these are the states that were told, from the first on."""
        await until(lambda: len(self.states) >= len(states))
        assert tuple(self.states[: len(states)]) == states, self.details


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that must come true."""
    with anyio.fail_after(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is on the far side of the kernel
            await anyio.sleep(0.001)


async def read(fd: int, size: int) -> bytes:
    """At least ``size`` bytes of a non-blocking descriptor: a pty hands on later, and in pieces, what was written in one."""
    got = bytearray()

    def enough() -> bool:
        with suppress(BlockingIOError):
            got.extend(os.read(fd, 65536))
        return len(got) >= size

    await until(enough)
    return bytes(got)


@asynccontextmanager
async def serving(port: SupervisedPort) -> AsyncIterator[Recorder]:
    """Serve a port to a recorder, and give everything back at the end."""
    host = Recorder()
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(port.serve, host)
            yield host
            group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await port.aclose()


def now_ns() -> int:
    """The clock of the ports."""
    return time.monotonic_ns()
