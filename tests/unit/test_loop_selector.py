"""The precise selector is the default selector in everything but the exactness of its time-outs."""

import os
import select
import selectors
import socket
import threading
import time
from collections.abc import Iterator

import hypothesis.strategies as st
import pytest
from hypothesis import given

from tests.examples import examples
from vehicled.core.ports import NEVER_NS
from vehicled.runtime import loop as loop_module
from vehicled.runtime.loop import PreciseSelector, TimerFd, new_event_loop

READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


@pytest.fixture
def selector() -> Iterator[PreciseSelector]:
    with PreciseSelector() as made:
        if not made.precise:
            pytest.skip(made.reason)
        yield made


@pytest.fixture
def without_timerfd(monkeypatch):
    def fail(self):
        self._fd = -1
        raise OSError(38, "no timerfd here")

    monkeypatch.setattr(TimerFd, "__init__", fail)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    a, b = socket.socketpair()
    with a, b:
        yield a, b


def test_reports_what_the_default_selector_reports(selector, pair):
    a, b = pair
    b.send(b"x")
    with selectors.DefaultSelector() as stock:
        for one in (stock, selector):
            one.register(a, READ | WRITE, "a")
            one.register(b, READ, "b")
        for timeout in (0, 0.01, 1.0, None, -1.0):
            assert selector.select(timeout) == stock.select(timeout) != []
        a.recv(1)
        for one in (stock, selector):
            one.modify(a, WRITE, "changed")
        assert selector.select(None) == stock.select(None)
        for one in (stock, selector):
            one.unregister(a)
        assert selector.select(0.001) == stock.select(0.001) == []


def test_the_timer_never_shows(selector, pair):
    selector.register(pair[0], READ)
    for timeout in (0.0, 0.0005, 0.0005, 0.0):
        assert selector.select(timeout) == []
        assert [key.fileobj for key in selector.get_map().values()] == [pair[0]]
    pair[1].send(b"x")
    time.sleep(0.001)
    assert [key.fileobj for key, _ in selector.select(0.0005)] == [pair[0]]


@given(timeout_s=st.one_of(st.floats(1e-9, 3e-3), st.sampled_from([0.001, 0.0005, 1e-12])))
@examples(60)
def test_never_early(timeout_s):
    with PreciseSelector() as selector:
        before_ns = time.monotonic_ns()
        assert selector.select(timeout_s) == []
        assert time.monotonic_ns() - before_ns >= timeout_s * 1e9


def test_wakes_between_whole_milliseconds(selector):
    # epoll alone cannot wake before a whole millisecond is over, ever; the best of many tries shows
    # which of the two is at work.
    best_ns = NEVER_NS
    for _ in range(100):
        before_ns = time.monotonic_ns()
        selector.select(100e-6)
        best_ns = min(best_ns, time.monotonic_ns() - before_ns)
    assert best_ns < 1_000_000


def test_an_old_timer_does_not_end_a_wait_for_input(selector, pair):
    a, b = pair
    selector.register(a, READ)
    b.send(b"x")
    assert selector.select(0.005) != []
    a.recv(1)
    time.sleep(0.01)
    sender = threading.Timer(0.02, b.send, (b"y",))
    sender.start()
    # Expired while nobody looked: must neither end this wait nor be reported.
    assert [key.fileobj for key, _ in selector.select(None)] == [a]
    sender.join()


def test_an_old_timer_does_not_end_a_later_sleep(selector):
    for _ in range(20):
        selector.select(100e-6)
        before_ns = time.monotonic_ns()
        assert selector.select(2e-3) == []
        assert time.monotonic_ns() - before_ns >= 2_000_000


def test_notes_the_last_sleep_and_ignores_polls(selector, pair):
    before_ns = time.monotonic_ns()
    selector.select(1e-3)
    idle = selector.idle_from_ns, selector.idle_until_ns, selector.woke_ns
    assert before_ns <= idle[0] <= idle[1] - 1_000_000 <= idle[2] - 1_000_000
    selector.select(0)
    assert (selector.idle_from_ns, selector.idle_until_ns, selector.woke_ns) == idle
    selector.register(pair[0], READ)
    pair[1].send(b"x")
    selector.select(None)
    assert selector.idle_until_ns == NEVER_NS
    assert selector.woke_ns >= selector.idle_from_ns > idle[2]


def test_a_turn_that_an_alarm_is_already_due_in_is_no_sleep(selector):
    selector.select(1e-3)
    idle = selector.idle_from_ns, selector.idle_until_ns, selector.woke_ns, selector.sleeps
    alarm = TimerFd()
    alarm.arm(1)
    selector.register(alarm.fileno(), READ)
    for _ in range(20):
        selector.planned_ns = time.monotonic_ns()
        assert selector.select(0.1)
        if selector.sleeps == idle[3]:
            break  # a busy computer may hold up a turn, which then is a sleep
        idle = selector.idle_from_ns, selector.idle_until_ns, selector.woke_ns, selector.sleeps
    assert (
        selector.idle_from_ns,
        selector.idle_until_ns,
        selector.woke_ns,
        selector.sleeps,
    ) == idle


def test_an_overdue_alarm_is_waited_for_and_not_polled(selector, pair):
    """A thread of low priority makes the alarm's descriptor readable with PREEMPT_RT; a loop that
    polls would starve it."""
    selector.register(pair[0], READ)
    sender = threading.Timer(0.02, pair[1].send, [b"x"])
    selector.planned_ns = time.monotonic_ns()
    sender.start()
    assert selector.select(None)
    sender.join()
    assert 10_000_000 < selector.slept_ns == selector.overslept_ns
    assert selector.sleeps == 1
    assert selector.idle_from_ns == selector.woke_ns == 0, "its cause is what held the loop before"


def test_of_a_sleep_that_an_alarm_is_to_end_the_rest_is_overslept(selector):
    selector.planned_ns = time.monotonic_ns() + 1_000_000
    selector.select(3e-3)
    assert selector.idle_until_ns == selector.planned_ns
    assert 2_000_000 <= selector.overslept_ns == selector.woke_ns - selector.planned_ns


@pytest.mark.parametrize("later_ns", [-4_000_000, 4_000_000])
def test_the_same_end_counted_anew_is_not_armed_anew_and_never_early(
    selector, pair, monkeypatch, later_ns
):
    armed: list[int] = []
    arm = TimerFd.arm

    def noted(timer: TimerFd, t_ns: int) -> None:
        armed.append(t_ns)
        arm(timer, t_ns)

    monkeypatch.setattr(TimerFd, "arm", noted)
    monkeypatch.setattr(loop_module, "_SAME_TIME_NS", 10_000_000)
    a, b = pair
    selector.register(a, READ)
    due_ns = time.monotonic_ns() + 200_000_000
    b.send(b"x")
    for shift_ns in (0, later_ns):
        assert selector.select((due_ns + shift_ns - time.monotonic_ns()) / 1e9)
    assert len(armed) == 1
    a.recv(1)
    assert selector.select((due_ns + later_ns - time.monotonic_ns()) / 1e9) == []
    assert time.monotonic_ns() >= due_ns + later_ns


def test_a_wait_soon_after_an_expiry_has_a_timer_of_its_own(selector, pair, monkeypatch):
    monkeypatch.setattr(loop_module, "_SAME_TIME_NS", 10**10)
    selector.register(pair[0], READ)
    sender = threading.Timer(2.0, pair[1].send, (b"too late",))
    sender.start()
    assert selector.select(1e-3) == selector.select(2e-3) == []
    sender.cancel()


def test_day_long_time_outs_are_possible(selector, pair):
    selector.register(pair[0], WRITE)
    for timeout in (86_400.0, 1e9, 1e12):
        assert len(selector.select(timeout)) == 1


def test_close_gives_every_descriptor_back():
    before = (
        os.listdir("/proc/self/fd") if os.path.isdir("/proc/self/fd") else pytest.skip("no /proc")
    )
    for _ in range(5):
        selector = PreciseSelector()
        selector.select(1e-4)
        selector.close()
        selector.close()
    new_event_loop().close()
    assert os.listdir("/proc/self/fd") == before


def test_falls_back_and_says_why(without_timerfd, pair):
    with PreciseSelector() as selector:
        assert not selector.precise
        assert "no timerfd here" in selector.reason
        before_ns = time.monotonic_ns()
        assert selector.select(0.0015) == []
        assert time.monotonic_ns() - before_ns >= 1_500_000
        assert selector.woke_ns >= selector.idle_until_ns
        selector.register(pair[0], WRITE)
        assert len(selector.select(None)) == len(selector.select(0)) == 1


def test_the_loop_runs_without_a_timerfd(without_timerfd):
    made = new_event_loop()
    try:
        assert not made.selector.precise
        assert made.run_until_complete(_answer()) == 42
    finally:
        made.close()


async def _answer() -> int:
    return 42


@pytest.mark.skipif(not hasattr(select, "epoll"), reason="no timerfd on this system")
class TestTimerFd:
    def test_arming_again_forgets_an_expiry(self):
        timer = TimerFd()
        try:
            timer.arm(time.monotonic_ns())
            assert os.read(timer.fileno(), 8)
            timer.arm(0)
            assert os.read(timer.fileno(), 8), "an instant long past expires at once"
            timer.arm(1)
            timer.arm(NEVER_NS)
            with pytest.raises(BlockingIOError):
                os.read(timer.fileno(), 8)
            timer.arm(1)
            timer.disarm()
            with pytest.raises(BlockingIOError):
                os.read(timer.fileno(), 8)
        finally:
            timer.close()

    def test_closed_timer_raises(self):
        timer = TimerFd()
        timer.close()
        assert timer.fileno() == -1
        with pytest.raises(OSError, match=r"timerfd|descriptor"):
            timer.arm(1)

    def test_is_not_inherited(self):
        timer = TimerFd()
        assert not os.get_inheritable(timer.fileno())
        timer.close()
