"""Short measurements of a board with the daemon's own timers and ports. All functions block; each
states its duration."""

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
"""Rates of fusion and ingestion in the shipped profiles, Hz."""
_MESSAGE = bytes(range(64))
_BLOCK = bytes(64 * 1024)
_TIMEOUT_S = 1.0


class TimeSpread(Struct, frozen=True):
    """Distribution of a measured time."""

    n: int
    p50_ns: int
    p99_ns: int
    max_ns: int

    @classmethod
    def of(cls, values_ns: list[int]) -> "TimeSpread":
        """Return the distribution of at least one value. Percentiles are values that occurred
        (nearest rank)."""
        ordered = sorted(values_ns)
        n = len(ordered)
        return cls(
            n, ordered[(n - 1) // 2], ordered[min(n - 1, -(-99 * n // 100) - 1)], ordered[-1]
        )


class Lateness(Struct, frozen=True):
    """Lateness of the loop's timer at one rate."""

    rate_hz: int
    fifo: bool
    spread: TimeSpread


def lateness(seconds: float, *, fifo: bool) -> list[Lateness]:
    """Measure the wake-up lateness at each of ``RATES_HZ``, ``seconds`` in total, on a thread so
    that the priority ends with it.

    Raises OSError if the priority is not permitted.
    """
    found: list[Lateness] = []
    failures: list[OSError] = []

    def work() -> None:
        try:
            if fifo:
                os.sched_setscheduler(
                    0, os.SCHED_FIFO | os.SCHED_RESET_ON_FORK, os.sched_param(FIFO_PRIORITY)
                )
            late: dict[int, list[int]] = {rate: [] for rate in RATES_HZ}
            with PreciseSelector() as selector:
                # Alternate between the rates, so that a disturbance affects both.
                for _ in range(4):
                    for rate, values in late.items():
                        values += _wake(selector, rate, seconds / 8)
            found.extend(
                Lateness(rate, fifo, TimeSpread.of(values)) for rate, values in late.items()
            )
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
        # Skip missed releases and keep the phase, like the executive.
        release_ns += period_ns * (1 + (now_ns - release_ns) // period_ns)
    return late


def serial_round_trip(messages: int = 200) -> TimeSpread:
    """Measure round trips through a pair of pseudo-terminals, which use the same kernel queues and
    threads as serial ports.

    Takes about ``messages`` milliseconds. Raises OSError if the system has no pseudo-terminals, or
    on a timeout.
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
        return TimeSpread.of(times)
    finally:
        os.close(near)
        os.close(far)


def _pass(sender: int, receiver: int) -> None:
    os.write(sender, _MESSAGE)
    waiting = len(_MESSAGE)
    while waiting > 0:
        if not select.select([receiver], [], [], _TIMEOUT_S)[0]:
            raise OSError("no data through the pseudo-terminal for a second")
        waiting -= len(os.read(receiver, waiting))


def disk_stall(
    folder: Path, seconds: float = 1.0, fsync: Callable[[int], None] = os.fsync
) -> TimeSpread:
    """Measure writes of 64 KiB with fsync into a temporary file.

    Raises OSError if the folder is not writable.
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
    return TimeSpread.of(times)


class BoardMeasurements(Struct, frozen=True, kw_only=True):
    """Results of all measurements; None for a failed one, with its reason in ``troubles``."""

    lateness: list[Lateness]
    round_trip: TimeSpread | None = None
    disk: TimeSpread | None = None
    troubles: list[str] = []

    def worst(self, *, fifo: bool) -> TimeSpread | None:
        """Return the lateness at the worst rate, with or without real-time priority; None if not
        measured."""
        spreads = [row.spread for row in self.lateness if row.fifo == fifo]
        if not spreads:
            return None
        return TimeSpread(
            sum(each.n for each in spreads),
            max(each.p50_ns for each in spreads),
            max(each.p99_ns for each in spreads),
            max(each.max_ns for each in spreads),
        )


def measure(folder: Path, seconds: float, *, fifo: bool) -> BoardMeasurements:
    """Run all measurements: twice ``seconds`` for the lateness with ``fifo``, once without, plus
    about 1.5 s. Never raises."""
    rows: list[Lateness] = []
    troubles: list[str] = []
    trip = disk = None
    for priority in (False, True) if fifo else (False,):
        try:
            rows += lateness(seconds, fifo=priority)
        except OSError as error:
            troubles.append(
                f"lateness at real-time priority: {error.strerror}"
                if priority
                else f"lateness: {error.strerror}"
            )
    try:
        trip = serial_round_trip()
    except OSError as error:
        troubles.append(f"serial round trip: {error.strerror or error}")
    try:
        disk = disk_stall(folder, min(1.0, seconds))
    except OSError as error:
        troubles.append(f"disk: cannot write to {folder} ({error.strerror})")
    return BoardMeasurements(lateness=rows, round_trip=trip, disk=disk, troubles=troubles)
