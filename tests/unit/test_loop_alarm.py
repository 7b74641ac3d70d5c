"""Alarm on both backends: never early, movable, cancellable."""

import asyncio
import random
import time

import anyio
import anyio.lowlevel
import pytest
import trio

from tests.busy_computer import DEADLINE_S
from vehicled.core.ports import NEVER_NS
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


async def test_never_early(any_timer):
    rng = random.Random(1)
    with Alarm() as alarm:
        for _ in range(40):
            t_ns = time.monotonic_ns() + rng.randrange(1, 2 * MS)
            await alarm.wait_until(t_ns)
            assert time.monotonic_ns() >= t_ns


async def test_each_sleeper_wakes_at_its_own_instant(any_timer, anyio_backend_name):
    start_ns = time.monotonic_ns() + 5 * MS
    woken: list[int] = []

    async def sleeper(k: int) -> None:
        with Alarm() as alarm:
            await alarm.wait_until(start_ns + k * 3 * MS)
        assert time.monotonic_ns() >= start_ns + k * 3 * MS
        woken.append(k)

    async with anyio.create_task_group() as group:
        for k in (2, 0, 3, 1):
            group.start_soon(sleeper, k)
    # Trio shuffles tasks that turn ready together, as they do on a machine too busy to wake us in between.
    assert (sorted(woken) if anyio_backend_name == "trio" else woken) == [0, 1, 2, 3]


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
            await alarm.wait_until(NEVER_NS)
            assert time.monotonic_ns() >= due_ns
            assert due_ns != NEVER_NS


@pytest.mark.parametrize("ago_ns", [0, 1, 10**18])
async def test_rearm_to_the_past_ends_the_wait(any_timer, ago_ns):
    with Alarm() as alarm, anyio.fail_after(DEADLINE_S):
        async with anyio.create_task_group() as group:
            group.start_soon(alarm.wait_until, NEVER_NS)
            await anyio.wait_all_tasks_blocked()
            alarm.rearm(time.monotonic_ns() - ago_ns)


async def test_rearm_without_a_waiter_does_nothing(any_timer):
    with Alarm() as alarm:
        alarm.rearm(0)
        t_ns = time.monotonic_ns() + 2 * MS
        await alarm.wait_until(t_ns)
        assert time.monotonic_ns() >= t_ns
        alarm.rearm(0)
        t_ns = time.monotonic_ns() + 2 * MS
        await alarm.wait_until(t_ns)
        assert time.monotonic_ns() >= t_ns


async def test_can_be_cancelled_and_used_again(any_timer):
    with Alarm() as alarm:
        for _ in range(3):
            with anyio.move_on_after(0.002) as scope:
                await alarm.wait_until(NEVER_NS)
            assert scope.cancelled_caught
            t_ns = time.monotonic_ns() + MS
            await alarm.wait_until(t_ns)
            assert time.monotonic_ns() >= t_ns


async def test_a_cancelled_task_group_takes_the_waiter_along(any_timer):
    ended = []

    async def waiter() -> None:
        try:
            with Alarm() as alarm:
                await alarm.wait_until(NEVER_NS)
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
        await alarm.wait_until(NEVER_NS)
    assert scope.cancelled_caught


async def test_an_instant_long_past_is_still_a_checkpoint():
    with Alarm() as alarm:
        with anyio.CancelScope() as scope:
            scope.cancel()
            await alarm.wait_until(0)
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
                await alarm.wait_until(0)
            assert others == 3


async def test_a_second_waiter_is_refused(any_timer):
    with Alarm() as alarm:
        async with anyio.create_task_group() as group:
            group.start_soon(alarm.wait_until, NEVER_NS)
            await anyio.wait_all_tasks_blocked()
            with pytest.raises(RuntimeError, match="one alarm per waiter"):
                await alarm.wait_until(0)
            # The refusal leaves the first waiter alone.
            alarm.rearm(0)


async def test_thousands_of_rearms_leave_the_loop_working():
    with Alarm() as alarm:
        async with anyio.create_task_group() as group:
            group.start_soon(alarm.wait_until, NEVER_NS)
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
                await alarm.wait_until(t_ns)
                assert time.monotonic_ns() >= t_ns
                alarm.close()

    await anyio.to_thread.run_sync(lambda: anyio.run(main, backend=anyio_backend_name))


def test_the_backends_are_what_they_claim():
    async def kind() -> str:
        try:
            return type(asyncio.get_running_loop()).__name__
        except RuntimeError:
            return type(trio.lowlevel.current_trio_token()).__name__

    assert anyio.run(kind, backend="asyncio", backend_options={"loop_factory": new_event_loop}) == "PreciseEventLoop"
    assert anyio.run(kind, backend="trio") == "TrioToken"
