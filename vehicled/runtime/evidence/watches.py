"""Notes taken while the loop runs: collections, callbacks that hold it, its sleeps, and stops of
the process."""

import asyncio
import gc
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any, Generic, TypeVar, cast

from vehicled.core.attribution import (
    FIRST_CALLBACK,
    NO_HOLDER,
    UNEXPLAINED_TOLERANCE_NS,
    Execution,
    Reading,
)
from vehicled.core.messages import GarbageCollection
from vehicled.core.observers import Observers, boundary
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.evidence.kernel import WallStopwatch
from vehicled.runtime.loop import SLEEP_NS, LoopRecord, NoLoopRecord, PreciseEventLoop

T = TypeVar("T")


class Ring(Generic[T]):
    """Newest items, in constant memory.

    The garbage collector, a signal handler or another thread may add an item at any moment, also
    while the items are read: slots are only ever replaced, so no reader can meet a changed size. It
    may then miss an old item, or see a new one twice.
    """

    def __init__(self, capacity: int) -> None:
        self._slots: list[T | None] = [None] * capacity
        self._added = 0

    def add(self, item: T) -> None:
        """Add an item in the place of the oldest."""
        added = self._added
        self._slots[added % len(self._slots)] = item
        self._added = added + 1

    def __len__(self) -> int:
        """Return the number of items."""
        return min(self._added, len(self._slots))

    def __reversed__(self) -> Iterator[T]:
        """Iterate over the items, newest first."""
        slots, added = self._slots, self._added
        for k in range(added - 1, max(added - len(slots), 0) - 1, -1):
            item = slots[k % len(slots)]
            assert item is not None
            yield item


class GcWatch:
    """Records the runs of the garbage collector until ``close``."""

    REPORTED_NS = 100_000
    """Shortest collection that is reported; dozens of shorter ones happen every second."""

    def __init__(self, capacity: int = 64, observers: Observers | None = None) -> None:
        self._observers = observers or Observers()
        self._ring: Ring[tuple[int, int]] = Ring(capacity)
        self._unreported: deque[GarbageCollection] = deque(maxlen=capacity)
        self._start_ns = 0
        gc.callbacks.append(self._on_gc)

    def close(self) -> None:
        """Stop recording. Safe to repeat."""
        if self._on_gc in gc.callbacks:
            gc.callbacks.remove(self._on_gc)

    def since(self, start_ns: int) -> list[tuple[int, int]]:
        """Return start and end (ns) of the collections that ended after an instant, oldest
        first."""
        # A collection in another thread may be late to record its end, while the waiting thread
        # already continues.
        begun_ns = self._start_ns
        found = [(begun_ns, time.monotonic_ns())] if begun_ns else []
        for span in reversed(self._ring):
            if span[1] <= start_ns:
                break
            found.append(span)
        return found[::-1]

    def take(self) -> Sequence[GarbageCollection]:
        """Return the collections since the last call, without the shortest."""
        found = []
        # Pop one by one until none is left, because another thread may collect meanwhile.
        while self._unreported:
            found.append(self._unreported.popleft())
        return found

    @boundary
    def _on_gc(self, phase: str, info: dict[str, int]) -> None:
        try:
            self._note(phase, info)
        except Exception as error:  # noqa: BLE001 - it comes anywhere, and Python would print it each time
            self._observers.failed("collections", error, lasting=True)

    def _note(self, phase: str, info: dict[str, int]) -> None:
        now_ns = time.monotonic_ns()
        if phase == "start":
            self._start_ns = now_ns
        elif start_ns := self._start_ns:
            self._start_ns = 0
            self._ring.add((start_ns, now_ns))
            if now_ns - start_ns >= self.REPORTED_NS:
                self._unreported.append(
                    GarbageCollection(
                        start_ns, now_ns - start_ns, info["generation"], info["collected"]
                    )
                )


class HolderLog:
    """Records which runtime callbacks held the loop. Only for the thread of the loop."""

    def __init__(
        self,
        names: Sequence[str],
        stopwatch: WallStopwatch,
        capacity: int = 1024,
        observers: Observers | None = None,
    ) -> None:
        """Take the ``names`` by number. Raises ``ValueError`` for more than 127."""
        if len(names) > NO_HOLDER - FIRST_CALLBACK:
            raise ValueError(
                f"{len(names)} callbacks, but only {NO_HOLDER - FIRST_CALLBACK} numbers"
            )
        self.names = tuple(names)
        self.stopwatch = stopwatch
        self._observers = observers or Observers()
        self._ring: Ring[Execution] = Ring(capacity)

    def add(self, code: int, begin: Reading, end: Reading) -> None:
        """Record a callback."""
        self._ring.add(Execution(FIRST_CALLBACK + code, begin, end))

    @boundary
    def ended(self, code: int) -> None:
        """Record that a callback ends, which began at the newest reading of the stopwatch; a short
        one goes with what follows."""
        try:
            stopwatch = self.stopwatch
            if time.monotonic_ns() - stopwatch.read_ns > UNEXPLAINED_TOLERANCE_NS:
                self.add(code, stopwatch.newest, stopwatch.read())
        except Exception as error:  # noqa: BLE001 - what drives goes on
            self._observers.failed("holders", error, lasting=True)

    def since(self, start_ns: int) -> list[Execution]:
        """Return the callbacks that ended after an instant, oldest first; only the outer one of
        nested callbacks."""
        found: list[Execution] = []
        # Entries are in order of their ends, so going backwards the outer one comes first.
        for run in reversed(self._ring):
            if run.end[0] <= start_ns:
                break
            if not found or run.begin[0] < found[-1].begin[0]:
                found.append(run)
        return found[::-1]


class TrioRecord:
    """Trio instrument that records the loop's sleeps."""

    def __init__(self) -> None:
        self.planned_ns = NEVER_NS
        self.idle_from_ns = self.woke_ns = 0
        self.sleeps = self.slept_ns = self.overslept_ns = 0
        self._until_ns = 0

    def before_io_wait(self, timeout: float) -> None:
        """Note the start of a wait; polls that do not sleep are not counted."""
        self._until_ns = 0
        now_ns = time.monotonic_ns()
        if timeout > 0 and now_ns < self.planned_ns:
            self.idle_from_ns = now_ns
            self._until_ns = min(now_ns + int(min(timeout, 1e9) * 1e9), self.planned_ns)

    def after_io_wait(self, timeout: float) -> None:
        """Note the end of a wait."""
        if self._until_ns:
            self.woke_ns = now_ns = time.monotonic_ns()
            self.sleeps += now_ns - self.idle_from_ns > SLEEP_NS
            self.slept_ns += now_ns - self.idle_from_ns
            self.overslept_ns += max(0, now_ns - self._until_ns)


def watch_sleeps() -> LoopRecord:
    """Return the record of the running loop's sleeps; a :class:`NoLoopRecord` if there is none
    (stock asyncio, uvloop)."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        import trio

        watch = TrioRecord()
        trio.lowlevel.add_instrument(cast(trio.abc.Instrument, watch))
        return watch
    return loop.selector if isinstance(loop, PreciseEventLoop) else NoLoopRecord()


class Continuations:
    """Notes when the process went on after a stop: job control, a debugger, or a freezer that uses
    signals."""

    def __init__(self, observers: Observers | None = None) -> None:
        self._observers = observers or Observers()
        self.times: Ring[int] = Ring(8)
        self.last_ns = 0
        self._previous: Any = None
        if hasattr(signal, "SIGCONT") and threading.current_thread() is threading.main_thread():
            self._previous = signal.signal(signal.SIGCONT, self._on_continue)
            # Restart system calls after the signal, because a C library may treat EINTR as a
            # failure.
            signal.siginterrupt(signal.SIGCONT, False)

    def close(self) -> None:
        """Restore SIGCONT. Safe to repeat."""
        if self._previous is not None:
            signal.signal(signal.SIGCONT, self._previous)
            self._previous = None

    @boundary
    def _on_continue(self, _number: int, _frame: FrameType | None) -> None:
        self.last_ns = now_ns = time.monotonic_ns()
        try:
            self.times.add(now_ns)
        except Exception as error:  # noqa: BLE001 - it interrupts the code that drives
            self._observers.failed("stop signals", error, lasting=True)
