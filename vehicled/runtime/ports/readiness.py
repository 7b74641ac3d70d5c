"""Waiting for a readable descriptor on asyncio and trio, and how much may be read in a turn of the loop."""

import asyncio
import time
from collections.abc import Callable

import anyio

TURN_BYTES = 1024
"""Most bytes that a byte stream gives to the loop in one turn, so that tasks run between two pieces of a flood."""
LINE_BYTES_PER_S = 131_072
"""Bytes per second of a line that names no rate of its own, and of USB, which ignores the one it is given."""
BURST_S = 0.5
"""Time whose bytes may have gathered while the loop did other things."""


class ReadBudget:
    """Token bucket of the bytes that a line can have carried since the last read. The rest waits in the kernel."""

    def __init__(self, bytes_per_s: float, turn_bytes: int = TURN_BYTES) -> None:
        self._bytes_per_ns = bytes_per_s * 1e-9
        self._turn_bytes = turn_bytes
        self._most = max(bytes_per_s * BURST_S, turn_bytes)
        self._left = self._most
        self._read_ns = 0

    def allowance(self) -> int:
        """Return how many bytes may be read now, at least one."""
        now_ns = time.monotonic_ns()
        self._left = min(self._most, self._left + (now_ns - self._read_ns) * self._bytes_per_ns)
        self._read_ns = now_ns
        return max(1, min(int(self._left), self._turn_bytes))

    def spend(self, read_bytes: int) -> float:
        """Account for what was read; return the pause before the next read, s."""
        self._left -= read_bytes
        lacking = self._turn_bytes - self._left
        return 0.0 if self._left >= 1.0 else lacking / self._bytes_per_ns * 1e-9


async def while_readable(fd: int, on_readable: Callable[[], float | None]) -> None:
    """Call ``on_readable`` each time ``fd`` is readable. Ends only by cancellation or an exception.

    It returns a pause, s, after which it is called again whatever the descriptor says; None to wait for the descriptor. On asyncio
    one registration lasts for the whole time, because ``anyio.wait_readable`` registers for every wake-up, which doubles the cost
    of a small frame.
    """
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        pause_s: float | None = None
        while True:
            if pause_s is None:
                await anyio.wait_readable(fd)
            else:
                await anyio.sleep(pause_s)
            pause_s = on_readable()
    # anyio's cancel scopes cancel the future that a task waits for, so a bare future is enough.
    end: asyncio.Future[None] = loop.create_future()
    waiting: asyncio.TimerHandle | None = None

    def ready() -> None:
        nonlocal waiting
        try:
            pause_s = on_readable()
        except BaseException as error:  # noqa: BLE001 - a loop's callback would only log it; here it reaches the task that waits
            loop.remove_reader(fd)
            waiting = None
            if not end.done():
                end.set_exception(error)
            return
        if pause_s is not None:
            loop.remove_reader(fd)
            waiting = loop.call_later(pause_s, ready)
        elif waiting is not None:
            waiting = None
            loop.add_reader(fd, ready)

    loop.add_reader(fd, ready)
    try:
        await end
    finally:
        if waiting is not None:
            waiting.cancel()
        loop.remove_reader(fd)
