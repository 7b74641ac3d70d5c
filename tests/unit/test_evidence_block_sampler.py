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
    """The file is named without the folders of this computer, as far as it is imported from one of them."""
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
    sampler.arm()
    block()
    sampler.disarm()
    sighting = sampler.take()
    assert sighting is not None
    assert _is_line_of(sighting.where, block, text)
    assert sighting.where.endswith(f" in {block.__name__}")
    assert sampler.take() is None


def test_names_our_line_behind_a_library_call(sampler):
    lock = threading.Condition()
    sampler.arm()
    with lock:
        lock.wait(0.2)
    sampler.disarm()
    sighting = sampler.take()
    assert sighting is not None
    inner, _, ours = sighting.where.partition(", called from ")
    assert "threading.py" in inner
    assert _is_line_of(ours, test_names_our_line_behind_a_library_call, "lock.wait")


def test_a_quick_section_leaves_no_sighting():
    sampler = BlockSampler(10_000 * MS)
    try:
        for _ in range(100):
            sampler.arm()
            sampler.disarm()
        assert sampler.take() is None
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    finally:
        sampler.close()


def test_close_restores_the_handler_and_stops_the_timer():
    before = signal.getsignal(signal.SIGALRM)
    sampler = BlockSampler(10_000 * MS)
    sampler.arm()
    sampler.close()
    sampler.close()
    assert signal.getsignal(signal.SIGALRM) == before
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    sampler.arm()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0, "closed means closed"


def test_declines_when_the_signal_is_taken():
    first = BlockSampler(1000 * MS)
    try:
        second = BlockSampler(1000 * MS)
        assert "in use" in second.reason
        second.arm()
        second.disarm()
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
    made[0].arm()
    made[0].disarm()
    assert made[0].take() is None
