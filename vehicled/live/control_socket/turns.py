"""Turns of the clients on the loop: one request at a time, in the gaps between the tasks, for a
small fraction of the time."""

import time
from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel

T = TypeVar("T")

TIME_FRACTION = 0.05
"""Largest fraction of the loop's time that the requests of all clients take together."""
MAX_PAUSE_S = 0.25
LEAST_GAP_NS = 200_000
MAX_GAP_NS = 20_000_000
DECAY = 0.98
"""Factor on the measured cost of a kind of request, applied at every use, so that one slow turn is
forgotten."""
MAX_WAITS = 20
"""Waits for a gap before a request is served without one."""
_AFTER_S = 100e-6


def _none() -> int:
    return 2**63 - 1


class Turns:
    """Serves requests one after the other. A stop needs no turn."""

    def __init__(self, now_ns: Callable[[], int], due_ns: Callable[[], int] = _none) -> None:
        """``due_ns`` returns the time at which the next task is due, on the clock of ``now_ns``."""
        self._now_ns = now_ns
        self._due_ns = due_ns
        self._lock = anyio.Lock()
        self._free_s = 0.0
        self._costs_ns: dict[object, int] = {}

    async def take(self, kind: object, work: Callable[[], T]) -> T:
        """Do some work in a gap that is twice as long as work of this kind has lasted; return its
        result."""
        async with self._lock:
            await self._gap(2 * self._costs_ns.get(kind, 0))
            began_ns = time.perf_counter_ns()
            try:
                return work()
            finally:
                spent_ns = time.perf_counter_ns() - began_ns
                before_ns = int(self._costs_ns.get(kind, 0) * DECAY)
                self._costs_ns[kind] = min(max(spent_ns, before_ns, LEAST_GAP_NS // 2), MAX_GAP_NS)
                self._free_s = time.monotonic() + min(spent_ns * 1e-9 / TIME_FRACTION, MAX_PAUSE_S)

    async def _gap(self, needed_ns: int) -> None:
        pause_s = self._free_s - time.monotonic()
        if pause_s > 0.0:
            await anyio.sleep(pause_s)
        for _ in range(MAX_WAITS):
            left_ns = self._due_ns() - self._now_ns()
            if left_ns >= needed_ns:
                return
            if left_ns > 0:
                await anyio.sleep(left_ns * 1e-9 + _AFTER_S)
            else:
                # The task that is due comes first.
                await anyio.lowlevel.checkpoint()
