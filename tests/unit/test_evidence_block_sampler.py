"""The block sampler names the line that blocks, and leaves SIGALRM as it found it."""

import inspect
import signal
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from vehicled.runtime.evidence.block_sampler import BlockSampler

MS = 1_000_000


@pytest.fixture
def sampler() -> Iterator[BlockSampler]:
    made = BlockSampler(5 * MS, packages=(__name__.partition(".")[0],))
    if made.reason:
        pytest.skip(made.reason)
    yield made
    made.close()


def _is_line_of(where: str, function, text: str) -> bool:
    """The file is named without the folders of this computer, as far as it is imported from one of
    them."""
    lines, first = inspect.getsourcelines(function)
    file, _, line = where.partition(" in ")[0].rpartition(":")
    root = __file__.removesuffix(file)
    assert root != __file__
    assert root in ("", *(f"{folder}/" for folder in sys.path))
    return int(line) == first + next(i for i, text_of in enumerate(lines) if text in text_of)


def _sleeps() -> None:
    time.sleep(0.2)


def _computes() -> None:
    until_ns = time.thread_time_ns() + 30 * MS
    while time.thread_time_ns() < until_ns: pass  # noqa: E701  # fmt: skip


@pytest.mark.parametrize(("block", "text"), [(_sleeps, "time.sleep"), (_computes, "while")])
def test_names_file_and_line(sampler, block, text):
    sampler.enter()
    block()
    sampler.leave()
    sighting = sampler.take()
    assert sighting is not None
    assert _is_line_of(sighting.where, block, text)
    assert sighting.where.endswith(f" in {block.__name__}")
    assert sampler.take() is None


def test_names_our_line_behind_a_library_call(sampler):
    lock = threading.Condition()
    sampler.enter()
    with lock:
        lock.wait(0.2)
    sampler.leave()
    sighting = sampler.take()
    assert sighting is not None
    inner, _, ours = sighting.where.partition(", called from ")
    assert "threading.py" in inner
    assert _is_line_of(ours, test_names_our_line_behind_a_library_call, "lock.wait")


SOON = 0
"""End of an idle time that is over before any signal."""


def test_the_timer_is_not_set_for_every_section(monkeypatch):
    settings: list[float] = []
    set_timer = signal.setitimer

    def noted(which: int, delay_s: float) -> None:
        settings.append(delay_s)
        set_timer(which, delay_s)

    monkeypatch.setattr(signal, "setitimer", noted)
    sampler = BlockSampler(10_000 * MS)
    try:
        for _ in range(100):
            sampler.enter()
            assert not sampler.leave(SOON)
        assert settings == [10.0]
    finally:
        sampler.close()


@pytest.mark.parametrize("held_ms", [170, 300])
def test_a_section_has_its_whole_time_although_the_timer_was_set_before_it(held_ms):
    sampler = BlockSampler(200 * MS)
    try:
        sampler.enter()
        assert not sampler.leave(SOON)
        time.sleep(0.05)
        begin_ns = time.monotonic_ns()
        sampler.enter()
        time.sleep(held_ms / 1e3)
        held_ns = time.monotonic_ns() - begin_ns
        sampler.leave(SOON)
        sighting = sampler.take()
        assert sighting is not None if held_ns > 200 * MS else True
        assert sighting is None or sighting.t_ns - begin_ns >= 200 * MS
    finally:
        sampler.close()


def test_a_signal_between_two_sections_is_no_sighting_and_the_next_section_is_watched():
    sampler = BlockSampler(60 * MS)
    try:
        for block in (False, True):
            sampler.enter()
            if block:
                _sleeps()
            assert sampler.leave(SOON) is block
            assert (sampler.take() is not None) is block
            time.sleep(0.08)
            assert sampler.take() is None
    finally:
        sampler.close()


def test_no_signal_comes_to_an_idle_loop(sampler):
    sampler.enter()
    sampler.leave(time.monotonic_ns() + 1000 * MS)
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0


def test_a_quick_section_leaves_no_sighting():
    sampler = BlockSampler(10_000 * MS)
    try:
        for _ in range(100):
            sampler.enter()
            sampler.leave()
        assert sampler.take() is None
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    finally:
        sampler.close()


def test_close_restores_the_handler_and_stops_the_timer():
    before = signal.getsignal(signal.SIGALRM)
    sampler = BlockSampler(10_000 * MS)
    sampler.enter()
    sampler.close()
    sampler.close()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    sampler.enter()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0, "closed means closed"


def test_declines_when_the_signal_is_taken():
    first = BlockSampler(1000 * MS)
    try:
        second = BlockSampler(1000 * MS)
        assert "in use" in second.reason
        second.enter()
        second.leave()
        second.close()
        assert not first.reason
    finally:
        first.close()


def test_declines_off_the_main_thread():
    made: list[BlockSampler] = []
    thread = threading.Thread(target=lambda: made.append(BlockSampler(MS)))
    thread.start()
    thread.join()
    assert "main thread" in made[0].reason
    made[0].enter()
    made[0].leave()
    assert made[0].take() is None
