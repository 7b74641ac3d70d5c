"""The bridges' work on the loop: copy records already packed for the log, and read the state of the
run several times a second.

It cannot slow the loop. It runs only in gaps longer than twice its own duration, uses at most
``TIME_FRACTION`` of the time, and writes to a pipe that drops data when full. Without gaps the
bridges get no data, and the page says so.
"""

import time
from collections.abc import Callable, Sequence

import msgspec
from msgspec import Struct

from vehicled.core.messages import Event, Message
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.control_socket.console import Console
from vehicled.log.sink import LogSink

RECORDS_NS = 50_000_000
"""Interval between two copies of the records."""
QUICK_RECORDS_NS = 20_000_000
"""The same for a bridge whose readers act on the records."""
LOCKSTEP_RECORDS_NS = 10_000_000
"""The same in lockstep, and with it the step of ``/clock``."""
STATE_NS = 200_000_000
"""Interval between two readings of the state."""
TIME_FRACTION = 0.005
"""Largest fraction of the loop's time."""
FIRST_GAP_NS = 1_000_000
LEAST_GAP_NS = 200_000
DECAY = 0.98
"""Factor on the required gap, applied each time it was missing, so that one slow turn cannot block
the bridges forever."""


class Cost(Struct):
    """Time that the bridges have taken from the loop."""

    turns: int = 0
    wall_ns: int = 0
    cpu_ns: int = 0
    longest_ns: int = 0
    no_gap: int = 0
    """Turns of the loop without a large enough gap when work was due."""


class _Duty:
    """Periodic work with its measured duration."""

    __slots__ = ("due_ns", "gap_ns", "period_ns", "work")

    def __init__(self, period_ns: int, work: Callable[[int], None]) -> None:
        self.period_ns = period_ns
        self.work = work
        self.due_ns = 0
        self.gap_ns = FIRST_GAP_NS


class Feed:
    """Sends data to the processes of the bridges after turns of the loop."""

    def __init__(
        self,
        processes: Sequence[BridgeProcess],
        sink: LogSink,
        console: Console,
        record: Callable[[Message, int], None],
        clock: Callable[[], int] = time.perf_counter_ns,
        *,
        records_ns: int = RECORDS_NS,
    ) -> None:
        """Take the log's ``sink``, whose packed records are copied; ``record`` accepts the bridges'
        own messages."""
        self._processes = list(processes)
        self._gone: list[BridgeProcess] = []
        """Children that have ended before the run."""
        self._sink = sink
        self._console = console
        self._record = record
        self._clock = clock
        self._duties = (_Duty(records_ns, self._copy), _Duty(STATE_NS, self._snapshot))
        self._began_ns: int | None = None
        self.cost = Cost()

    def turn(self, now_ns: int, next_due_ns: int) -> None:
        """Do at most one piece of work after a turn of the loop, which must return by
        ``next_due_ns``. Never raises, never waits.
        """
        if not self._processes:
            return
        if self._began_ns is None:
            self._began_ns = now_ns
        for duty in self._duties:
            if now_ns < duty.due_ns:
                continue
            if next_due_ns - now_ns < duty.gap_ns:
                duty.gap_ns = max(int(duty.gap_ns * DECAY), LEAST_GAP_NS)
                self.cost.no_gap += 1
                return
            cpu_ns, start_ns = time.thread_time_ns(), self._clock()
            duty.work(now_ns)
            spent_ns = self._clock() - start_ns
            cost = self.cost
            cost.turns += 1
            cost.wall_ns += spent_ns
            cost.cpu_ns += time.thread_time_ns() - cpu_ns
            cost.longest_ns = max(cost.longest_ns, spent_ns)
            duty.gap_ns = max(2 * spent_ns, int(duty.gap_ns * DECAY), LEAST_GAP_NS)
            # Both duties share the limit.
            duty.due_ns = now_ns + max(duty.period_ns, int(2 * spent_ns / TIME_FRACTION))
            return

    def _copy(self, now_ns: int) -> None:
        pieces = self._sink.take_copy()
        if pieces:
            self._offer(FrameKind.RECORDS, *pieces)
        self._gone += _remove_dead(self._processes, self._record, now_ns)

    def _snapshot(self, now_ns: int) -> None:
        cost = self.cost
        snapshot = {
            "status": self._console.status(now_ns),
            "rules": self._console.margins(),
            "view": {
                "share": cost.wall_ns / max(now_ns - (self._began_ns or now_ns), 1),
                "longest_us": cost.longest_ns / 1e3,
                "dropped": sum(process.dropped for process in self._processes),
            },
        }
        self._offer(FrameKind.STATE, msgspec.json.encode(snapshot))

    def finish(self, now_ns: int) -> None:
        """Send the remaining data, log the cost of the bridges, and end the children."""
        cost = self.cost
        self._offer(FrameKind.RECORDS, *self._sink.take_copy())
        if self._began_ns is not None:
            ran_s = max(now_ns - self._began_ns, 1) * 1e-9
            fields = {
                "wall_share": cost.wall_ns * 1e-9 / ran_s,
                "cpu_share": cost.cpu_ns * 1e-9 / ran_s,
                "longest_us": cost.longest_ns / 1e3,
                "turns": cost.turns,
                "no_gap": cost.no_gap,
                "frames": {process.name: process.sent for process in self._processes},
                "dropped": {process.name: process.dropped for process in self._processes},
            }
            self._record(Event.of(now_ns, "info", "bridge_cost", **fields), now_ns)
        close_all([*self._processes, *self._gone])

    def _offer(self, kind: FrameKind, *pieces: bytes | bytearray) -> None:
        for process in self._processes:
            process.offer(kind, *pieces)


class LockstepFeed:
    """Sends the records of a run in virtual time. It waits for the children, because virtual time
    can wait: nothing is dropped."""

    def __init__(
        self,
        processes: Sequence[BridgeProcess],
        sink: LogSink,
        record: Callable[[Message, int], None],
    ) -> None:
        """Take the log's ``sink``, whose packed records are copied; ``record`` accepts the bridges'
        own messages."""
        self._processes = list(processes)
        self._gone: list[BridgeProcess] = []
        """Children that have ended before the run."""
        self._sink = sink
        self._record = record
        self._due_ns = 0

    def turn(self, now_ns: int, _: int) -> None:
        """Send what is new if it is due. The time of the next turn does not matter: virtual time
        waits."""
        if now_ns >= self._due_ns and self._processes:
            self._due_ns = now_ns + LOCKSTEP_RECORDS_NS
            self._send()
            self._gone += _remove_dead(self._processes, self._record, now_ns)

    def finish(self, now_ns: int) -> None:
        """Send the remaining data and end the children."""
        self._send()
        close_all([*self._processes, *self._gone])

    def _send(self) -> None:
        pieces = self._sink.take_copy()
        for process in self._processes if pieces else ():
            process.send(FrameKind.RECORDS, *pieces)


def close_all(processes: Sequence[BridgeProcess]) -> None:
    """End some children, which end side by side."""
    for process in processes:
        process.hang_up()
    for process in processes:
        process.close()


def _remove_dead(
    processes: list[BridgeProcess], record: Callable[[Message, int], None], now_ns: int
) -> list[BridgeProcess]:
    """Remove the children that have ended, with an event, and return them. The loop does not wait
    for their end."""
    gone = [process for process in processes if not process.alive]
    for process in gone:
        processes.remove(process)
        process.abandon()
        why = "its process ended; the drive continues"
        record(Event.of(now_ns, "warning", "bridge_gone", name=process.name, why=why), now_ns)
    return gone
