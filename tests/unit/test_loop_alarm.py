"""Alarm on both backends: never early, movable, cancellable."""

import asyncio
import random
import time
from functools import partial

import anyio
import anyio.lowlevel
import pytest
import trio

from tests.busy_computer import DEADLINE_S
from vehicled.core.ports import NEVER_NS
from vehicled.runtime.evidence.watches import watch_sleeps
from vehicled.runtime.loop import TimerFd, new_event_loop
from vehicled.runtime.timer import Alarm

MS = 1_000_000

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["as is", "without timerfd"])
def any_timer(request, monkeypatch):
    """The loop with timerfd and without, as on systems other than Linux."""
    if request.param != "as is":

        def fail(self):
            self._fd = -1
            raise OSError(38, "no timerfd here")

        monkeypatch.setattr(TimerFd, "__init__", fail)


async def wait_until(alarm: Alarm, t_ns: int) -> None:
    """Wait for one time."""
    await alarm.serve(t_ns, lambda: None)


async def test_never_early(any_timer):
    rng = random.Random(1)
    with Alarm() as alarm:
        for _ in range(40):
            t_ns = time.monotonic_ns() + rng.randrange(1, 2 * MS)
            await wait_until(alarm, t_ns)
            assert time.monotonic_ns() >= t_ns


async def test_each_sleeper_wakes_at_its_own_instant(any_timer):
    start_ns = time.monotonic_ns() + 5 * MS
    woken: list[int] = []

    async def sleeper(k: int) -> None:
        with Alarm() as alarm:
            await wait_until(alarm, start_ns + k * 3 * MS)
        assert time.monotonic_ns() >= start_ns + k * 3 * MS
        woken.append(k)

    async with anyio.create_task_group() as group:
        for k in (2, 0, 3, 1):
            group.start_soon(sleeper, k)
    # Those that are due together, on a computer too busy to wake us in between, come in any order.
    assert sorted(woken) == [0, 1, 2, 3]


async def test_rearm_moves_the_instant_either_way(any_timer):
    rng = random.Random(2)
    due_ns = NEVER_NS

    async def mover() -> None:
        nonlocal due_ns
        for _ in range(5):
            await anyio.sleep(rng.random() * 1e-3)
            due_ns = time.monotonic_ns() + rng.randrange(20 * MS, 60 * MS)
            alarm.rearm(due_ns)
        due_ns = time.monotonic_ns() + 2 * MS
        alarm.rearm(due_ns)

    with Alarm() as alarm, anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(mover)
            await wait_until(alarm, NEVER_NS)
            assert time.monotonic_ns() >= due_ns
            assert due_ns != NEVER_NS


@pytest.mark.parametrize("ago_ns", [0, 1, 10**18])
async def test_rearm_to_the_past_ends_the_wait(any_timer, ago_ns):
    with Alarm() as alarm, anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(wait_until, alarm, NEVER_NS)
            await anyio.wait_all_tasks_blocked()
            alarm.rearm(time.monotonic_ns() - ago_ns)


async def test_rearm_without_a_waiter_does_nothing(any_timer):
    with Alarm() as alarm:
        alarm.rearm(0)
        t_ns = time.monotonic_ns() + 2 * MS
        await wait_until(alarm, t_ns)
        assert time.monotonic_ns() >= t_ns
        alarm.rearm(0)
        t_ns = time.monotonic_ns() + 2 * MS
        await wait_until(alarm, t_ns)
        assert time.monotonic_ns() >= t_ns


async def test_can_be_cancelled_and_used_again(any_timer):
    with Alarm() as alarm:
        for _ in range(3):
            with anyio.move_on_after(0.002) as scope:
                await wait_until(alarm, NEVER_NS)
            assert scope.cancelled_caught
            t_ns = time.monotonic_ns() + MS
            await wait_until(alarm, t_ns)
            assert time.monotonic_ns() >= t_ns


async def test_a_cancelled_task_group_takes_the_waiter_along(any_timer):
    ended = []

    async def waiter() -> None:
        try:
            with Alarm() as alarm:
                await wait_until(alarm, NEVER_NS)
        finally:
            ended.append(True)

    async with anyio.create_task_group() as group:
        group.start_soon(waiter)
        await anyio.wait_all_tasks_blocked()
        group.cancel_scope.cancel()
    assert ended == [True]


async def test_cancelled_before_the_wait_begins(any_timer):
    with Alarm() as alarm, anyio.CancelScope() as scope:
        scope.cancel()
        await wait_until(alarm, NEVER_NS)
    assert scope.cancelled_caught


async def test_an_instant_long_past_is_still_a_checkpoint():
    with Alarm() as alarm:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await wait_until(alarm, 0)
        assert scope.cancelled_caught
        others = 0

        async def other() -> None:
            nonlocal others
            for _ in range(3):
                others += 1
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as group:
            group.start_soon(other)
            # An overloaded task that is always late must not starve the others.
            for _ in range(20):
                await wait_until(alarm, 0)
            assert others == 3


async def test_calls_at_every_time_that_the_function_returns(any_timer):
    rng = random.Random(3)
    called: list[tuple[int, int]] = []
    due_ns = time.monotonic_ns() + MS

    def on_due() -> int | None:
        nonlocal due_ns
        called.append((due_ns, time.monotonic_ns()))
        # Now and then later than the next time, as after an overload.
        due_ns += rng.choice([-MS, 1, MS // 3, 2 * MS])
        return due_ns if len(called) < 30 else None

    with Alarm() as alarm:
        await alarm.serve(due_ns, on_due)
        assert len(called) == 30
        assert all(at_ns >= t_ns for t_ns, at_ns in called)
        assert alarm.due_ns == NEVER_NS


async def test_what_the_function_raises_reaches_the_waiter(any_timer):
    def fail() -> int:
        raise KeyError("here")

    with Alarm() as alarm:
        with pytest.raises(KeyError, match="here"):
            await alarm.serve(0, fail)
        await wait_until(alarm, time.monotonic_ns() + MS)


async def test_a_function_that_is_always_late_starves_nobody(any_timer):
    turns = 0

    def on_due() -> int:
        nonlocal turns
        turns += 1
        return 0

    with Alarm() as alarm, anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(alarm.serve, 0, on_due)
            for _ in range(5):
                await anyio.sleep(1e-4)
            group.cancel_scope.cancel()
    assert turns


async def test_the_record_of_the_loop_knows_the_planned_end_of_each_sleep(any_timer):
    late_ns: list[int] = []

    def on_due() -> int | None:
        late_ns.append(time.monotonic_ns() - alarm.due_ns)
        return time.monotonic_ns() + 2 * MS if len(late_ns) < 5 else None

    with Alarm() as alarm:
        alarm.record = record = watch_sleeps()
        await alarm.serve(time.monotonic_ns() + 2 * MS, on_due)
    assert record.planned_ns == NEVER_NS
    assert 0 < record.overslept_ns <= sum(late_ns)


async def test_one_that_is_moved_after_it_expired_waits_for_the_new_time(any_timer):
    alarms = Alarm(), Alarm()
    called: list[tuple[int, int]] = []

    def due(mine: Alarm, other: Alarm) -> None:
        called.append((mine.due_ns, time.monotonic_ns()))
        other.rearm(time.monotonic_ns() + 20 * MS)

    with alarms[0], alarms[1]:
        t_ns = time.monotonic_ns() + 2 * MS
        async with anyio.create_task_group() as group:
            for mine, other in (alarms, alarms[::-1]):
                group.start_soon(mine.serve, t_ns, partial(due, mine, other))
            await anyio.wait_all_tasks_blocked()
            time.sleep(0.005)  # noqa: ASYNC251 - the loop must not turn
    assert len(called) == 2
    assert all(at_ns >= due_ns for due_ns, at_ns in called)
    assert called[1][1] - called[0][1] >= 20 * MS


async def test_a_second_waiter_is_refused(any_timer):
    with Alarm() as alarm:
        async with anyio.create_task_group() as group:
            group.start_soon(wait_until, alarm, NEVER_NS)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="one alarm per waiter"):
                await wait_until(alarm, 0)
            # The refusal leaves the first waiter alone.
            alarm.rearm(0)


async def test_thousands_of_rearms_leave_the_loop_working():
    with Alarm() as alarm:
        async with anyio.create_task_group() as group:
            group.start_soon(wait_until, alarm, NEVER_NS)
            await anyio.wait_all_tasks_blocked()
            for k in range(3000):
                alarm.rearm(time.monotonic_ns() + 10**12 + k)
                if k % 100 == 0:
                    await anyio.lowlevel.checkpoint()
            alarm.rearm(0)


async def test_works_on_an_imprecise_loop_and_again_after_close(anyio_backend_name):
    # The stock loop is late by design; it must not be early either.
    async def main() -> None:
        with Alarm() as alarm:
            for _ in range(2):
                t_ns = time.monotonic_ns() + MS // 3
                await wait_until(alarm, t_ns)
                assert time.monotonic_ns() >= t_ns
                alarm.close()

    await anyio.to_thread.run_sync(lambda: anyio.run(main, backend=anyio_backend_name))


def test_the_backends_are_what_they_claim():
    async def kind() -> str:
        try:
            return type(asyncio.get_running_loop()).__name__
        except RuntimeError:
            return type(trio.lowlevel.current_trio_token()).__name__

    assert (
        anyio.run(kind, backend="asyncio", backend_options={"loop_factory": new_event_loop})
        == "PreciseEventLoop"
    )
    assert anyio.run(kind, backend="trio") == "TrioToken"
