"""Shared helpers of the port tests: a recording host, and waits for what it will receive."""

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import anyio

from tests.busy_computer import DEADLINE_S
from vehicled.core.messages import PortState
from vehicled.runtime.ports.supervised import SupervisedPort


class Recorder:
    """A host that records every call."""

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
        """Return all received bytes, in order."""
        return b"".join(data for _, data in self.chunks)

    async def reached(self, *states: PortState) -> None:
        """Wait until the reported states are exactly these."""
        await until(lambda: len(self.states) >= len(states))
        assert tuple(self.states[: len(states)]) == states, self.details


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition is true."""
    with anyio.fail_after(DEADLINE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for is on the far side of the kernel
            await anyio.sleep(0.001)


async def read(fd: int, size: int) -> bytes:
    """Read at least ``size`` bytes of a non-blocking descriptor: a pty delivers late, and in
    pieces."""
    got = bytearray()

    def enough() -> bool:
        with suppress(BlockingIOError):
            got.extend(os.read(fd, 65536))
        return len(got) >= size

    await until(enough)
    return bytes(got)


@asynccontextmanager
async def serving(port: SupervisedPort) -> AsyncIterator[Recorder]:
    """Serve a port to a recorder, and release everything at the end."""
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
    """Return the time of the ports' clock."""
    return time.monotonic_ns()
