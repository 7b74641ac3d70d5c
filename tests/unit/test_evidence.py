"""Evidence for late releases: each source sees what it is there to see, and nothing else."""

import gc
import os
import resource
import threading
import time
from types import SimpleNamespace

import anyio
import hypothesis.strategies as st
import pytest
from hypothesis import given

from vehicled.core.attribution import FIRST_CALLBACK, UNEXPLAINED_TOLERANCE_NS, EvidenceSource
from vehicled.core.executive import Stopwatch
from vehicled.core.observers import Observers
from vehicled.runtime.clock import RunClock
from vehicled.runtime.evidence import TakenTime, WallEvidenceSource
from vehicled.runtime.evidence import kernel as evidence_kernel
from vehicled.runtime.evidence.kernel import KernelCounters, WallStopwatch
from vehicled.runtime.evidence.watches import Continuations, GcWatch, HolderLog, Ring, watch_sleeps
from vehicled.runtime.loop import NoLoopRecord

MS = 1_000_000


@pytest.fixture
def source():
    made = WallEvidenceSource(("receive", "log"))
    yield made
    made.close()


class TestStopwatch:
    def test_separates_work_from_waiting(self):
        watch: Stopwatch = WallStopwatch()
        a = watch.begin(0)
        while time.thread_time_ns() < a[1] + 3 * MS:
            pass
        b = watch.end(0, a)
        time.sleep(0.003)
        c = watch.end(1, b)
        assert type(a) is tuple
        assert b[1] - a[1] >= 3 * MS
        assert c[0] - b[0] >= 3 * MS
        assert c[1] - b[1] < c[0] - b[0]
        assert c[2] > b[2], "a sleep is a voluntary switch"
        assert all(later >= earlier for earlier, later in zip((*a, *b), (*b, *c), strict=True))

    def test_knows_only_its_own_thread(self):
        watch = WallStopwatch()

        def burn() -> None:
            until_ns = time.thread_time_ns() + 100 * MS
            while time.thread_time_ns() < until_ns:
                pass

        before = watch.read()
        other = threading.Thread(target=burn)
        other.start()
        other.join()
        after = watch.read()
        assert after[0] - before[0] >= 100 * MS
        assert after[1] - before[1] < 50 * MS


class Computer:
    """Computer that runs one thread as it is ordered to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.t_ns, self.cpu_ns, self.switches, self.delay_ns = 10**9, 10**6, 5, 10**5
        self.usages = self.delays = 0
        kernel, counted = KernelCounters(), self
        kernel.run_delay_ns = self._run_delay_ns  # type: ignore[method-assign]
        clock = RunClock(lambda: counted.t_ns)
        clocks = SimpleNamespace(
            monotonic_ns=lambda: counted.t_ns, thread_time_ns=lambda: counted.cpu_ns
        )
        monkeypatch.setattr(evidence_kernel, "time", clocks)
        monkeypatch.setattr(resource, "getrusage", self._usage)
        self.stopwatch = WallStopwatch(kernel, clock)

    def _usage(self, _who: int) -> SimpleNamespace:
        self.usages += 1
        return SimpleNamespace(ru_nvcsw=self.switches, ru_nivcsw=0, ru_majflt=0)

    def _run_delay_ns(self) -> int:
        self.delays += 1
        return self.delay_ns

    def sleep(self, duration_ns: int, late_ns: int, delayed_ns: int) -> None:
        """Let the loop sleep."""
        loop = self.stopwatch.loop
        loop.slept_ns += duration_ns
        loop.overslept_ns += late_ns
        self.run(0, duration_ns, delayed_ns)

    def run(self, work_ns: int, wait_ns: int, delayed_ns: int) -> None:
        """Compute, and wait so long, a part of it ready to run."""
        self.t_ns += work_ns + wait_ns
        self.cpu_ns += work_ns
        self.delay_ns += delayed_ns
        self.switches += wait_ns > 0


TOLERANCE_NS = UNEXPLAINED_TOLERANCE_NS
times = st.one_of(
    st.integers(0, 2 * TOLERANCE_NS),
    st.integers(TOLERANCE_NS - 2, TOLERANCE_NS + 2),
    st.integers(0, 30 * MS),
)


class TestCheapReadings:
    @given(st.lists(st.tuples(times, times, st.floats(0, 1)), max_size=30))
    def test_every_wait_is_seen_where_it_was(self, intervals: list[tuple[int, int, float]]):
        with pytest.MonkeyPatch.context() as monkeypatch:
            computer = Computer(monkeypatch)
            begin = computer.stopwatch.read()
            for work_ns, wait_ns, delayed in intervals:
                computer.run(work_ns, wait_ns, int(delayed * wait_ns))
                end = computer.stopwatch.read()
                assert end[0] - begin[0] == work_ns + wait_ns
                assert end[1] >= begin[1]
                assert abs(end[1] - begin[1] - work_ns) <= TOLERANCE_NS
                assert 0 <= end[1] - computer.cpu_ns <= TOLERANCE_NS
                if wait_ns > 2 * TOLERANCE_NS:
                    assert end[2] > begin[2]
                    assert (
                        0
                        <= end[5] - begin[5] - int(delayed * wait_ns)
                        <= (len(intervals) - 1) * TOLERANCE_NS
                    )
                begin = end

    @given(
        st.lists(
            st.tuples(
                times, st.integers(0, WallStopwatch.LATE_NS), st.integers(0, TOLERANCE_NS), times
            ),
            max_size=30,
        ),
        st.booleans(),
    )
    def test_after_sleeps_a_wait_has_its_switches_and_no_more_delay_than_it_can_have(
        self, turns, delays_count
    ):
        with pytest.MonkeyPatch.context() as monkeypatch:
            computer = Computer(monkeypatch)
            computer.stopwatch.loop = NoLoopRecord()
            for sleep_ns, late_ns, delayed_ns, wait_ns in turns:
                computer.sleep(sleep_ns + late_ns, late_ns, delayed_ns)
                begin = computer.stopwatch.read()
                computer.run(TOLERANCE_NS, wait_ns, wait_ns * delays_count)
                end = computer.stopwatch.read()
                if wait_ns > 2 * TOLERANCE_NS:
                    assert end[2] > begin[2]
                    # Each of the sleeps since the last reading may have added a little.
                    assert (
                        0
                        <= end[5] - begin[5] - wait_ns * delays_count
                        <= len(turns) * 2 * TOLERANCE_NS
                    )

    @pytest.mark.parametrize(
        ("late_ns", "readings"),
        [(0, 1), (WallStopwatch.LATE_NS // 2, 1), (WallStopwatch.LATE_NS + 1, 21)],
    )
    def test_the_run_delay_is_read_after_late_wake_ups_and_otherwise_now_and_then(
        self, late_ns: int, readings: int, monkeypatch: pytest.MonkeyPatch
    ):
        computer = Computer(monkeypatch)
        computer.stopwatch.loop = NoLoopRecord()
        for _ in range(20):
            before = computer.delays
            for _ in range(21):
                computer.sleep(MS // 2, late_ns, 0)
                computer.stopwatch.read()
            assert computer.delays - before == readings

    def test_a_thread_that_keeps_the_processor_is_asked_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        computer = Computer(monkeypatch)
        before = computer.usages
        for _ in range(50):
            computer.run(TOLERANCE_NS * 3, 0, 0)
            computer.stopwatch.read()
        assert computer.usages == before


def overlap(spans: list[tuple[int, int]], start_ns: int, end_ns: int) -> int:
    return sum(max(0, min(end, end_ns) - max(begin, start_ns)) for begin, end in spans)


class TestRing:
    @given(st.lists(st.sampled_from("ar"), max_size=60), st.integers(1, 5))
    def test_may_be_added_to_while_it_is_read(self, steps: list[str], capacity: int):
        ring: Ring[int] = Ring(capacity)
        added = 0
        reader = reversed(ring)
        for step in steps:
            if step == "a":
                ring.add(added)
                added += 1
            else:
                next(reader, None)
        assert list(reversed(ring)) == list(range(added))[: -capacity - 1 : -1]

    def test_a_collection_within_any_reading_is_no_error(self):
        """The collector runs wherever something is allocated, so also between two items of the
        ring."""
        watch = GcWatch(capacity=8)
        source = WallEvidenceSource(("receive",))
        thresholds = gc.get_threshold()
        gc.set_threshold(1, 1, 1)
        try:
            for _ in range(300):
                assert len(watch.since(0)) <= 9
                source.evidence(0, 0, 1)
                watch.take()
        finally:
            gc.set_threshold(*thresholds)
            watch.close()
            source.close()


class TestGcWatch:
    def test_measures_collections_within_the_window(self):
        watch = GcWatch()
        try:
            before_ns = time.monotonic_ns()
            gc.collect()
            after_ns = time.monotonic_ns()
            found = watch.since(before_ns)
            assert 0 < overlap(found, before_ns, after_ns) <= after_ns - before_ns
            assert all(before_ns <= begin < end <= after_ns for begin, end in found)
            assert watch.since(after_ns) == []
        finally:
            watch.close()

    def test_reports_long_collections_once(self):
        watch = GcWatch()
        try:
            heap: list[list[int]] = [[] for _ in range(50_000)]
            gc.collect()
            collections = watch.take()
            assert heap
            assert 2 in [c.generation for c in collections]
            assert all(c.duration_ns >= watch.REPORTED_NS for c in collections)
            assert len(watch.take()) == 0
        finally:
            watch.close()

    def test_a_collection_without_an_end_is_known(self):
        watch = GcWatch()
        try:
            watch._on_gc("start", {})
            begin_ns = time.monotonic_ns()
            assert overlap(watch.since(0), 0, begin_ns + MS) > 0
            watch._on_gc("stop", {"generation": 0, "collected": 0})
            assert watch.since(time.monotonic_ns()) == []
        finally:
            watch.close()

    def test_close_leaves_no_callback(self):
        before = list(gc.callbacks)
        watch = GcWatch()
        assert len(gc.callbacks) == len(before) + 1
        watch.close()
        watch.close()
        assert gc.callbacks == before

    def test_memory_is_bounded(self):
        watch = GcWatch(capacity=4)
        try:
            for _ in range(20):
                gc.collect(0)
            assert len(watch.since(0)) <= 4
        finally:
            watch.close()


def at(t_ns: int) -> tuple[int, int, int, int, int, int]:
    return t_ns, 0, 0, 0, 0, 0


class TestHolderLog:
    def test_gives_callbacks_in_order(self):
        log = HolderLog(("receive", "log"), WallStopwatch())
        log.add(0, at(100), at(200))
        log.add(1, at(250), at(280))
        assert [run.number for run in log.since(0)] == [FIRST_CALLBACK, FIRST_CALLBACK + 1]
        assert [run.number for run in log.since(200)] == [FIRST_CALLBACK + 1]
        assert log.since(280) == []

    def test_of_nested_callbacks_the_outer_one_counts_once(self):
        log = HolderLog(("outer", "inner"), WallStopwatch())
        log.add(1, at(110), at(190))
        log.add(0, at(100), at(200))
        assert [run.number for run in log.since(0)] == [FIRST_CALLBACK]

    def test_a_record_that_fails_is_counted_and_goes_no_further(self):
        observers = Observers()
        log = HolderLog(("receive",), WallStopwatch(), observers=observers)
        log.stopwatch = None  # type: ignore[assignment]
        log.ended(0)
        assert observers.failures["holders"].count == 1

    def test_a_callback_reaches_from_the_reading_before_it_to_its_end(self):
        log = HolderLog(("receive", "log"), WallStopwatch())
        begin_ns = log.stopwatch.read()[0]
        time.sleep(0.001)
        log.ended(0)
        middle_ns = log.stopwatch.newest[0]
        time.sleep(0.001)
        log.ended(1)
        spans = [
            (run.number - FIRST_CALLBACK, run.begin[0], run.end[0]) for run in log.since(begin_ns)
        ]
        assert spans == [(0, begin_ns, middle_ns), (1, middle_ns, log.stopwatch.newest[0])]

    def test_more_names_than_numbers_are_refused(self):
        with pytest.raises(ValueError, match="128 callbacks"):
            HolderLog([str(k) for k in range(128)], WallStopwatch())

    @given(
        edges=st.lists(st.integers(0, 1000), min_size=2, max_size=40, unique=True).map(sorted),
        since=st.integers(0, 1000),
    )
    def test_all_that_ended_later_are_there(self, edges, since):
        log = HolderLog([str(k) for k in range(20)], WallStopwatch())
        spans = list(zip(edges[::2], edges[1::2], strict=False))
        for code, (begin, end) in enumerate(spans):
            log.add(code, at(begin), at(end))
        assert [(run.begin[0], run.end[0]) for run in log.since(since)] == [
            span for span in spans if span[1] > since
        ]


class TestKernelCounters:
    def test_grow_and_never_shrink(self):
        kernel = KernelCounters()
        try:
            first = kernel.run_delay_ns(), kernel.steal_ns()
            time.sleep(0.001)
            assert kernel.run_delay_ns() >= first[0]
            assert kernel.steal_ns() >= first[1]
        finally:
            kernel.close()

    def test_reads_the_second_and_the_eighth_field(self, tmp_path):
        (tmp_path / "schedstat").write_text("5000 1234 17\n")
        (tmp_path / "stat").write_text("cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 0 0 0 0 0 0 0 99 0 0\n")
        kernel = KernelCounters(str(tmp_path / "schedstat"), str(tmp_path / "stat"))
        try:
            assert kernel.run_delay_ns() == 1234
            assert kernel.steal_ns() == 8 * 10**9 // os.sysconf("SC_CLK_TCK")
            assert kernel.reasons == []
            assert kernel.keeps_run_delay
            for text in ("", "rubbish", "1 x 3\n"):
                (tmp_path / "schedstat").write_text(text)
                assert kernel.run_delay_ns() == 1234, "an unreadable account leaves the last value"
        finally:
            kernel.close()
        kernel.close()
        assert kernel.run_delay_ns() == 1234

    def test_missing_sources_read_as_nothing_and_have_a_reason(self, tmp_path):
        kernel = KernelCounters(str(tmp_path / "none"), str(tmp_path / "neither"))
        assert kernel.run_delay_ns() == kernel.steal_ns() == 0
        assert len(kernel.reasons) == 2
        assert "preemption" in kernel.reasons[0]
        assert not kernel.keeps_run_delay

    def test_a_kernel_without_statistics_is_known(self, tmp_path):
        (tmp_path / "schedstat").write_text("0 0 0\n")
        kernel = KernelCounters(str(tmp_path / "schedstat"))
        assert not kernel.keeps_run_delay
        assert "keeps no scheduler statistics" in kernel.reasons[0]
        kernel.close()


class Readings(TakenTime):
    """Readings that are made up."""

    def __init__(self, **grown: int) -> None:
        """``grown``: by how much each reading has grown since the mark, ms or counts."""
        self.grown: dict[str, int] = {}
        super().__init__(KernelCounters(), Continuations(), NoLoopRecord(), Observers())
        self._continuations.close()
        self.grown = grown

    def stopped(self) -> "Readings":
        """The process was stopped meanwhile."""
        self._continuations.last_ns = 1_000 * MS
        return self

    def _read(self) -> tuple[int, ...]:
        get = self.grown.get
        times = (
            100 * MS + get("wall", 0) * MS,
            get("cpu", 0) * MS,
            get("switches", 0),
            get("delay", 0) * MS,
        )
        return *times, get("sleeps", 0), get("slept", 0) * MS, get("overslept", 0) * MS


class TestTakenTime:
    @pytest.mark.parametrize(
        ("readings", "taken_ms"),
        [
            (Readings(wall=26, cpu=26), 0),
            (Readings(wall=30, cpu=5, switches=1, sleeps=1, slept=25), 0),
            (Readings(wall=26, cpu=1, switches=1), 0),
            (Readings(wall=60, cpu=10, delay=50), 50),
            (Readings(wall=60, cpu=10, switches=1, delay=20), 20),
            (Readings(wall=60, cpu=10), 50),
            (Readings(wall=60, cpu=5, switches=1, sleeps=1, slept=55, overslept=50, delay=48), 50),
            (Readings(wall=90, cpu=5, switches=1, sleeps=1, slept=55, overslept=50, delay=60),
             50 + 10 + 20),
            (Readings(wall=400, cpu=2, switches=1).stopped(), 398),
        ],
        ids=[
            "computes", "sleeps as planned", "blocks itself", "is preempted",
            "blocks and is preempted", "a hypervisor", "wakes late", "wakes late and is preempted",
            "a stop signal",
        ],
    )  # fmt: skip
    def test_is_what_the_daemon_did_not_use_itself(self, readings: Readings, taken_ms: int):
        assert readings.taken_ns() == taken_ms * MS

    def test_own_work_and_own_waiting_on_this_computer_are_never_taken(self):
        begin_ns = time.monotonic_ns()
        taken = TakenTime(KernelCounters(), Continuations(), NoLoopRecord(), Observers())
        until_ns = time.thread_time_ns() + 5 * MS
        while time.thread_time_ns() < until_ns:
            pass
        assert taken.taken_ns() <= time.monotonic_ns() - begin_ns - 5 * MS
        begin_ns, delay_ns = time.monotonic_ns(), KernelCounters().run_delay_ns()
        taken.mark()
        time.sleep(0.005)
        assert (
            taken.taken_ns()
            <= KernelCounters().run_delay_ns() - delay_ns
            < time.monotonic_ns() - begin_ns
        )

    def test_without_its_evidence_the_clock_goes_on(self):
        readings = Readings(wall=60)
        readings.grown = None  # type: ignore[assignment]
        readings.mark()
        assert readings.taken_ns() == 0
        assert readings._observers.failures["taken time"].count == 2


class TestWallEvidence:
    def test_is_what_the_executive_asks_for(self, source):
        asked: EvidenceSource = source
        now_ns = time.monotonic_ns()
        around = asked.evidence(now_ns, now_ns, now_ns)
        assert around.asleep_ns is None
        assert (list(around.callbacks), list(around.collections)) == ([], [])

    def test_blames_the_callback_that_ran_over_the_release(self, source):
        source.stopwatch.read()
        release_ns = time.monotonic_ns() + MS
        while time.monotonic_ns() < release_ns + 2 * MS:
            pass
        source.holders.ended(1)
        start_ns = time.monotonic_ns()
        around = source.evidence(release_ns, start_ns, start_ns)
        (run,) = around.callbacks
        assert run.number == FIRST_CALLBACK + 1
        assert run.begin[0] < release_ns < release_ns + 2 * MS <= run.end[0] <= start_ns

    def test_sees_the_collector_inside_a_task(self, source):
        start_ns = time.monotonic_ns()
        gc.collect()
        end_ns = time.monotonic_ns()
        assert (
            0
            < overlap(source.evidence(start_ns, start_ns, end_ns).collections, start_ns, end_ns)
            <= end_ns - start_ns
        )

    def test_what_was_stolen_before_the_mark_is_not_counted(self, tmp_path):
        schedstat, stat = tmp_path / "schedstat", tmp_path / "stat"
        schedstat.write_text("0 100000 0")
        stat.write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
        source = WallEvidenceSource((), KernelCounters(str(schedstat), str(stat)))
        now_ns = time.monotonic_ns()
        source.mark(now_ns)
        time.sleep(0.001)
        schedstat.write_text("0 107000 0")
        around = source.evidence(now_ns, now_ns, now_ns + 50_000)
        assert (around.run_delay_ns, around.since_ns) == (7000, now_ns)
        source.stopwatch.read()
        source.mark(now_ns + 60_000)
        around = source.evidence(now_ns + 60_000, now_ns + 60_000, now_ns + 90_000)
        assert (around.run_delay_ns, around.since_ns) == (0, now_ns + 60_000)
        around = source.evidence(now_ns + 59_000, now_ns + 60_000, now_ns + 90_000)
        assert (around.run_delay_ns, around.since_ns) == (7000, now_ns), (
            "the release passed before the last batch had ended"
        )
        source.close()

    def test_the_hypervisor_is_blamed_in_proportion(self, tmp_path):
        schedstat, stat = tmp_path / "schedstat", tmp_path / "stat"
        schedstat.write_text("0 0 0")
        stat.write_text("cpu 0 0 0 0 0 0 0 0 0 0\n")
        source = WallEvidenceSource((), KernelCounters(str(schedstat), str(stat)))
        base_ns = time.monotonic_ns() + 2 * source.STEAL_REFRESH_NS
        source.mark(base_ns)
        stat.write_text("cpu 0 0 0 0 0 0 0 10 0 0\n")
        lost_ns = 10 * 10**9 // os.sysconf("SC_CLK_TCK")
        window_ns = 20 * MS
        around = source.evidence(base_ns + 980 * MS, base_ns + 980 * MS, base_ns + 1000 * MS)
        assert around.run_delay_ns == lost_ns * window_ns // (1000 * MS)
        source.close()

    @pytest.mark.anyio
    async def test_sees_a_late_wake_up(self, source):
        source.watch_loop()
        asleep_ns = time.monotonic_ns()
        await anyio.sleep(0.005)
        start_ns = time.monotonic_ns()
        # As if the release had been in the middle of that sleep.
        release_ns = (asleep_ns + start_ns) // 2
        around = source.evidence(release_ns, start_ns, start_ns)
        from_ns, to_ns = around.asleep_ns
        assert asleep_ns <= from_ns < release_ns < to_ns <= start_ns

    @pytest.mark.anyio
    async def test_idle_covers_a_sleep_and_not_the_work_after_it(self):
        idle = watch_sleeps()
        before_ns = time.monotonic_ns()
        await anyio.sleep(0.003)
        after_ns = time.monotonic_ns()
        assert before_ns <= idle.idle_from_ns < idle.woke_ns <= after_ns

    def test_a_loop_without_an_account_has_no_late_wake_ups(self, source):
        async def main() -> None:
            source.watch_loop()
            await anyio.sleep(0.001)
            assert isinstance(watch_sleeps(), NoLoopRecord)
            now_ns = time.monotonic_ns()
            assert source.evidence(now_ns - MS, now_ns, now_ns).asleep_ns is None

        anyio.run(main, backend="asyncio")
