"""The loop's work for the view: in gaps only, within its share of the time, dropping what nobody
takes."""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.busy_computer import DEADLINE_S
from tests.unit.view_facts import OFFSET_NS, estimate
from vehicled.core.messages import Event, Message
from vehicled.live.bridges.feed import RECORDS_NS, STATE_NS, TIME_FRACTION, Feed
from vehicled.live.bridges.frames import FrameKind
from vehicled.live.bridges.process import BridgeProcess
from vehicled.live.view.outbox import ClientQueue
from vehicled.log.mcapfile import message_heads
from vehicled.log.sink import CHUNK_BYTES, COPY_LIMIT_BYTES, LogSink

MS = 1_000_000
ROOT = Path(__file__).parents[2]


class Child:
    """A process that takes everything."""

    def __init__(self) -> None:
        self.frames: list[tuple[FrameKind, bytes]] = []
        self.name = "the live view"
        self.alive = True
        self.sent = 0
        self.dropped = 0
        self.closed = False

    def offer(self, kind: FrameKind, *pieces: bytes) -> bool:
        self.frames.append((kind, b"".join(pieces)))
        return True

    def hang_up(self) -> None:
        self.alive = False

    def abandon(self) -> None:
        self.hang_up()

    def close(self) -> None:
        self.closed = True


class Console:
    def status(self, now_ns: int) -> dict[str, Any]:
        return {"mode": "STANDBY"}

    def margins(self) -> list[Any]:
        return []


class Bench:
    """A feed on a clock of its own, whose work takes as long as a test sets."""

    def __init__(self, costs_ns: list[int] | None = None) -> None:
        self.costs_ns = costs_ns or [100_000]
        self.sink, self.child = LogSink(OFFSET_NS), Child()
        self.sink.copy_records()
        self.said: list[Message] = []
        self.reads = 0
        self.feed = Feed(
            [self.child],  # type: ignore[list-item]
            self.sink,
            Console(),  # type: ignore[arg-type]
            lambda message, now_ns: self.said.append(message),
            self.clock,
        )

    def clock(self) -> int:
        """Two readings round each work, apart by the cost that a test sets."""
        self.reads += 1
        return 0 if self.reads % 2 else self.costs_ns[(self.reads // 2) % len(self.costs_ns)]

    @property
    def work(self) -> int:
        return self.feed.cost.turns


def test_records_and_looks_go_out_at_their_rates() -> None:
    bench = Bench([20_000])
    for k in range(400):
        bench.sink.record(estimate(k), k * 5 * MS)
        bench.feed.turn(k * 5 * MS, k * 5 * MS + 5 * MS)
    kinds = [kind for kind, _ in bench.child.frames]
    assert kinds.count(FrameKind.RECORDS) in range(36, 42)
    assert kinds.count(FrameKind.STATE) in range(9, 12)
    heads = [
        head
        for kind, data in bench.child.frames
        if kind is FrameKind.RECORDS
        for head in message_heads(data)
    ]
    assert len({head[3] for head in heads}) == len(heads) > 380


@given(st.lists(st.integers(1_000, 3_000_000), min_size=1, max_size=30))
def test_its_share_of_the_time_is_bounded_whatever_it_costs(costs_ns: list[int]) -> None:
    bench = Bench(costs_ns)
    end_ns = 60 * 10**9
    for now_ns in range(0, end_ns, 2_500_000):
        bench.feed.turn(now_ns, now_ns + 100 * MS)
    # The first turns of both duties are not paid for yet.
    assert bench.feed.cost.wall_ns <= TIME_FRACTION * end_ns + 4 * max(costs_ns)
    assert bench.feed.cost.turns >= 60


@given(
    st.lists(
        st.tuples(st.integers(0, 4 * MS), st.integers(1_000, 2 * MS)), min_size=10, max_size=200
    )
)
def test_it_works_in_gaps_twice_as_long_as_it_takes(turns: list[tuple[int, int]]) -> None:
    bench = Bench()
    now_ns = 0
    before = 0
    for gap_ns, cost_ns in turns:
        now_ns += 400 * MS
        bench.costs_ns = [cost_ns]
        allowed = [duty.gap_ns for duty in bench.feed._duties]
        bench.feed.turn(now_ns, now_ns + gap_ns)
        if bench.work > before:
            assert gap_ns >= min(allowed)
            before = bench.work


def test_a_loop_without_gaps_starves_the_view_and_one_slow_turn_does_not_for_ever() -> None:
    bench = Bench()
    for k in range(1000):
        bench.feed.turn(k * 10 * MS, k * 10 * MS)
    assert bench.work == 0
    slow = Bench([50 * MS])
    slow.feed.turn(0, 10**9)
    slow.costs_ns = [100_000]
    for k in range(1, 8000):
        slow.feed.turn(k * 10 * MS, k * 10 * MS + 2 * MS)
    assert slow.work > 10


def test_a_dead_child_is_reported_once_and_costs_nothing_afterwards() -> None:
    bench = Bench()
    bench.child.alive = False
    for k in range(20):
        bench.feed.turn(k * STATE_NS, k * STATE_NS + RECORDS_NS)
    assert [message.name for message in bench.said if isinstance(message, Event)] == ["bridge_gone"]
    assert len(bench.child.frames) <= 2


def test_the_log_holds_the_cost_of_the_bridges() -> None:
    bench = Bench()
    bench.feed.turn(0, 10**9)
    bench.feed.finish(10**9)
    (event,) = bench.said
    assert isinstance(event, Event)
    assert event.name == "bridge_cost"
    assert bench.child.closed


# ------------------------------------------------------------------ the copy of the records


@given(st.lists(st.integers(0, 3), max_size=60))
def test_the_copy_is_what_the_log_gets_whatever_order_it_is_taken_in(steps: list[int]) -> None:
    sink = LogSink(OFFSET_NS)
    sink.copy_records()
    copied, logged = b"", b""
    now_ns = 0
    for step in steps:
        now_ns += MS
        if step == 0:
            copied += b"".join(sink.take_copy())
        elif step == 1:
            sink.close_chunks(now_ns)
        else:
            sink.record(estimate(now_ns), now_ns)
    copied += b"".join(sink.take_copy())
    sink.close_chunks(now_ns)
    while (head := sink.outbox.head()) is not None:
        logged += bytes(head)[5:]
        sink.outbox.advance(len(head))
    assert copied == logged


def test_a_copy_that_nobody_takes_is_bounded_and_counted() -> None:
    sink = LogSink(OFFSET_NS)
    sink.copy_records()
    for k in range(15_000):
        sink.record(estimate(k), k)
    kept = sum(map(len, sink.take_copy()))
    assert COPY_LIMIT_BYTES - CHUNK_BYTES - 1000 < kept <= COPY_LIMIT_BYTES
    assert sink.copy_dropped_bytes > 0
    sink.record(estimate(1.0), 1)
    assert len(sink.take_copy()) == 1


def test_the_view_goes_on_when_the_log_does_not() -> None:
    sink = LogSink(OFFSET_NS)
    sink.copy_records()
    sink.record(estimate(1.0), 1)
    sink.stop()
    sink.record(estimate(2.0), 2)
    assert len(list(message_heads(b"".join(sink.take_copy())))) == 2
    sink.close_chunks(3)
    assert sink.outbox.waiting_bytes == 0


# ------------------------------------------------------------------ queues and the pipe


@given(st.lists(st.integers(1, 40), max_size=60), st.integers(1, 10), st.integers(1, 100))
def test_a_queue_keeps_the_newest_within_its_bounds(
    sizes: list[int], most: int, most_bytes: int
) -> None:
    box = ClientQueue(most, most_bytes)
    put = [bytes([k % 256]) * size for k, size in enumerate(sizes)]
    for message in put:
        box.put(message)
        assert len(box) <= most
        assert box.waiting_bytes <= most_bytes
    kept = []
    while (waiting := box.take()) is not None:
        kept.append(waiting)
    fitting = [message for message in put if len(message) <= most_bytes]
    assert kept == fitting[len(fitting) - len(kept) :]
    assert len(kept) + box.dropped == len(put)


def test_what_is_urgent_goes_first_and_is_not_dropped_for_pictures() -> None:
    box = ClientQueue(3, 100)
    box.put_first("hello")
    for k in range(10):
        box.put(f"picture {k}")
    box.put_first("beat")
    taken = [box.take() for _ in range(6)]
    assert taken == ["hello", "beat", "picture 7", "picture 8", "picture 9", None]
    for k in range(10):
        box.put_first(f"beat {k}")
    assert len(box) == 3


def test_a_pipe_that_nobody_reads_costs_frames_and_no_time() -> None:
    child = subprocess.Popen(
        [sys.executable, "-c", "import time; time.sleep(60)"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
    )
    assert child.stdin is not None
    os.set_blocking(child.stdin.fileno(), False)
    process = BridgeProcess(child)
    try:
        for _ in range(50):
            process.offer(FrameKind.RECORDS, b"x" * 30_000)
        assert process.alive
        assert process.dropped >= 40
        child.kill()
        child.wait()
        process.offer(FrameKind.RECORDS, b"x")
        assert not process.alive
    finally:
        process.close()


def test_in_lockstep_a_full_pipe_waits_and_nothing_is_dropped() -> None:
    slow = (
        "import sys, time; n = 0\nwhile data := sys.stdin.buffer.read1(7000): n += len(data); "
        "time.sleep(5e-4)\nprint(n)"
    )
    child = subprocess.Popen(
        [sys.executable, "-c", slow], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdin is not None
    assert child.stdout is not None
    os.set_blocking(child.stdin.fileno(), False)
    process = BridgeProcess(child)
    # Frames below and above the size that a pipe takes at once.
    sizes = [100, 3_000, 70_000] * 30
    for size in sizes:
        process.send(FrameKind.RECORDS, b"x" * size)
    assert (process.dropped, process.sent) == (0, len(sizes))
    child.stdin.close()
    assert int(child.stdout.read()) == sum(sizes) + 5 * len(sizes)
    process.close()


def _ended(pid: int) -> bool:
    """Return True for a process that runs no more, collected or not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel's help is Linux's")
def test_a_bridge_that_is_busy_ends_with_its_daemon() -> None:
    """It neither reads its pipe nor lets another thread run, as one that plans without an end."""
    busy = (
        "from vehicled.live.bridges.child import be_modest; be_modest(); print(1, "
        "flush=True)\nwhile True: pass"
    )
    daemon_code = (
        "import subprocess, sys, time\n"
        f"child = subprocess.Popen([sys.executable, '-c', {busy!r}], stdin=subprocess.PIPE, "
        "stdout=subprocess.PIPE)\n"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)"
    )
    daemon = subprocess.Popen(
        [sys.executable, "-c", daemon_code], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert daemon.stdout is not None
    with daemon, daemon.stdout:
        pid = int(daemon.stdout.readline())
        assert not _ended(pid)
        daemon.kill()
        daemon.wait()
    end_s = time.monotonic() + DEADLINE_S
    while not _ended(pid):
        assert time.monotonic() < end_s
        time.sleep(0.01)


def test_a_child_that_failed_costs_the_loop_no_waiting() -> None:
    """It closed its end of the pipe and lives on; it is killed, and collected at the end."""
    code = "import os, time; os.close(0); print(1, flush=True); time.sleep(60)"
    child = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    )
    assert child.stdin is not None
    assert child.stdout is not None
    os.set_blocking(child.stdin.fileno(), False)
    child.stdout.readline()
    process = BridgeProcess(child)
    process.offer(FrameKind.RECORDS, b"x")
    assert not process.alive
    process.abandon()
    process.close()
    assert child.returncode == -9
