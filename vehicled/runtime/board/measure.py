"""Short measurements of a board, on the means that the daemon itself uses. Blocking; each says in seconds how long it takes."""

import os
import select
import threading
import time
import tty
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryFile

from msgspec import Struct

from vehicled.runtime.loop import PreciseSelector
from vehicled.runtime.realtime import FIFO_PRIORITY

RATES_HZ = (200, 400)
"""Of fusion and ingestion on the shipped profiles."""
_MESSAGE = bytes(range(64))
_BLOCK = bytes(64 * 1024)
_PATIENCE_S = 1.0


class Spread(Struct, frozen=True):
    """Distribution of a measured time."""

    n: int
    p50_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, values_ns: list[int]) -> "Spread":
        """Of at least one value. Percentiles are values that occurred: the smallest that so many do not exceed."""
        ordered = sorted(values_ns)
        n = len(ordered)
        return cls(n, ordered[(n - 1) // 2], ordered[min(n - 1, -(-99 * n // 100) - 1)], ordered[-1])


class Lateness(Struct, frozen=True):
    """How late the loop's own timer wakes."""

    rate_hz: int
    fifo: bool
    spread: Spread


def lateness(seconds: float, *, fifo: bool) -> list[Lateness]:
    """Wake-up lateness at each of ``RATES_HZ`` in turns, ``seconds`` in all; on a thread of its own, which the priority ends with.

    Raises OSError when the priority is not to be had.
    """
    found: list[Lateness] = []
    failures: list[OSError] = []

    def work() -> None:
        try:
            if fifo:
                os.sched_setscheduler(0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(FIFO_PRIORITY))
            late: dict[int, list[int]] = {rate: [] for rate in RATES_HZ}
            with PreciseSelector() as selector:
                # In turns, so that what disturbs the machine for a while disturbs both.
                for _ in range(4):
                    for rate, values in late.items():
                        values += _wake(selector, rate, seconds / 8)
            found.extend(Lateness(rate, fifo, Spread.of(values)) for rate, values in late.items())
        except OSError as error:
            failures.append(error)

    thread = threading.Thread(target=work, name="board-lateness")
    thread.start()
    thread.join()
    if failures:
        raise failures[0]
    return found


def _wake(selector: PreciseSelector, rate_hz: int, seconds: float) -> list[int]:
    period_ns = 1_000_000_000 // rate_hz
    release_ns = time.monotonic_ns() + period_ns
    late = []
    for _ in range(max(1, round(seconds * rate_hz))):
        while (now_ns := time.monotonic_ns()) < release_ns:
            selector.select((release_ns - now_ns) / 1e9)
        late.append(now_ns - release_ns)
        # Skip, keep the phase: as the executive does.
        release_ns += period_ns * (1 + (now_ns - release_ns) // period_ns)
    return late


def serial_round_trip(messages: int = 200) -> Spread:
    """There and back through a pair of pseudo terminals, which pass through the same queues and kernel threads as serial ports.

    About ``messages`` milliseconds. Raises OSError where there are none, or when nothing comes back.
    """
    near, far = os.openpty()
    try:
        tty.setraw(near)
        tty.setraw(far)
        times = []
        for _ in range(messages):
            begin_ns = time.monotonic_ns()
            _pass(near, far)
            _pass(far, near)
            times.append(time.monotonic_ns() - begin_ns)
            time.sleep(0.0005)
        return Spread.of(times)
    finally:
        os.close(near)
        os.close(far)


def _pass(sender: int, receiver: int) -> None:
    os.write(sender, _MESSAGE)
    waiting = len(_MESSAGE)
    while waiting > 0:
        if not select.select([receiver], [], [], _PATIENCE_S)[0]:
            raise OSError("a pseudo terminal passed nothing on for a second")
        waiting -= len(os.read(receiver, waiting))


def disk_stall(folder: Path, seconds: float = 1.0, fsync: Callable[[int], None] = os.fsync) -> Spread:
    """How long a write of 64 KiB with fsync takes, again and again into a file of its own that vanishes.

    Raises OSError for a folder that cannot be written.
    """
    times: list[int] = []
    with TemporaryFile(dir=folder, prefix=".vehicled-doctor-", buffering=0) as file:
        end_ns = time.monotonic_ns() + round(seconds * 1e9)
        while (begin_ns := time.monotonic_ns()) < end_ns or not times:
            file.write(_BLOCK)
            fsync(file.fileno())
            times.append(time.monotonic_ns() - begin_ns)
            if len(times) % 256 == 0:
                file.seek(0)
    return Spread.of(times)


class Measured(Struct, frozen=True, kw_only=True):
    """Everything that was measured; None where it could not be, with the reason among ``troubles``."""

    lateness: list[Lateness]
    round_trip: Spread | None = None
    disk: Spread | None = None
    troubles: list[str] = []

    def worst(self, *, fifo: bool) -> Spread | None:
        """Lateness of the worst rate, with or without real-time priority; None when it was not measured so."""
        spreads = [row.spread for row in self.lateness if row.fifo == fifo]
        if not spreads:
            return None
        return Spread(
            sum(each.n for each in spreads),
            max(each.p50_ns for each in spreads),
            max(each.p99_ns for each in spreads),
            max(each.max_ns for each in spreads),
        )


def measure(folder: Path, seconds: float, *, fifo: bool) -> Measured:
    """All of it: twice ``seconds`` for the lateness with ``fifo``, once without, and about 1.5 s more. Never raises."""
    rows: list[Lateness] = []
    troubles: list[str] = []
    trip = disk = None
    for priority in (False, True) if fifo else (False,):
        try:
            rows += lateness(seconds, fifo=priority)
        except OSError as error:
            troubles.append(f"lateness at real-time priority: {error.strerror}" if priority else f"lateness: {error.strerror}")
    try:
        trip = serial_round_trip()
    except OSError as error:
        troubles.append(f"serial round trip: {error.strerror or error}")
    try:
        disk = disk_stall(folder, min(1.0, seconds))
    except OSError as error:
        troubles.append(f"disk: {folder} cannot be written ({error.strerror})")
    return Measured(lateness=rows, round_trip=trip, disk=disk, troubles=troubles)
