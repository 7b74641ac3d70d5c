"""Observers: a failure is counted, reported once, and never reaches the caller; what the log cannot
take leaves a marked gap."""

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import given

from vehicled.core.error_text import Interrupted
from vehicled.core.journal import LOG, Router
from vehicled.core.messages import Event, Message, SpeedCommand, StateEstimate
from vehicled.core.observers import OFF_AFTER, Observers
from vehicled.log.frames import HEAD
from vehicled.log.mcapfile import message_heads
from vehicled.log.sink import LogSink


def fail(error: BaseException) -> None:
    raise error


def test_a_failing_call_gives_its_default_and_is_switched_off_after_a_while() -> None:
    observers = Observers()
    calls: list[int] = []

    def judge(x: int) -> int:
        calls.append(x)
        return 100 // (x - 3)

    guarded = observers.guard("judge", judge, -1)
    assert [guarded(x) for x in (1, 3, 4)] == [-50, -1, 100]
    for _ in range(OFF_AFTER):
        guarded(3)
    count = len(calls)
    assert guarded(4) == -1
    assert len(calls) == count
    assert observers.summary == (
        f"judge failed {OFF_AFTER} times and was switched off (ZeroDivisionError: integer "
        "division or modulo by zero)"
    )


def test_what_lasts_is_never_switched_off() -> None:
    observers = Observers()
    guarded = observers.guard("log", fail, None, lasting=True)
    for _ in range(5 * OFF_AFTER):
        guarded(MemoryError())
    assert observers.failures["log"].count == 5 * OFF_AFTER
    assert not observers.failures["log"].off


def test_a_failure_is_reported_once_with_its_place() -> None:
    observers = Observers()
    guarded = observers.guard("page", fail, None)
    assert observers.take_events(1) == []
    guarded(ValueError("x" * 10**7))
    guarded(KeyError("y"))
    (event,) = observers.take_events(7)
    fields = msgspec.json.decode(event.fields)
    assert (event.t_ns, event.name, fields["observer"]) == (7, "observer_failed", "page")
    assert fields["error"].startswith("ValueError: xxx")
    assert len(event.fields) < 10_000
    assert "test_observers.py" in fields["trace"]
    guarded(KeyError("y"))
    assert observers.take_events(8) == []


def test_the_users_interrupt_is_no_failure() -> None:
    guarded = Observers().guard("page", fail, None)
    for error in (KeyboardInterrupt(), Interrupted(), SystemExit(0)):
        with pytest.raises(type(error)):
            guarded(error)


LIMIT, MODE = SpeedCommand(1, 1, "test", 2.0), Event(1, "info", "x", "{}")


def test_a_listener_that_fails_harms_no_other_and_is_left_out_in_the_end() -> None:
    router, received = Router(), []
    router.listen([Event, SpeedCommand], lambda *_: fail(ValueError("page")))
    router.listen([Event], lambda message, _: received.append(message))
    for _ in range(OFF_AFTER + 5):
        router.record(MODE, 1)
    assert len(received) == OFF_AFTER + 5
    (failure,) = router.observers.failures.values()
    assert (failure.count, failure.off) == (OFF_AFTER, True)


class BrokenLog:
    """A log that takes nothing, and may not even count."""

    def __init__(self, *, counts: bool) -> None:
        self.counts, self.lost = counts, 0

    def record(self, message: Message, log_time_ns: int) -> None:
        raise MemoryError

    def lose(self, message: Message, log_time_ns: int) -> None:
        if not self.counts:
            raise MemoryError
        self.lost += 1


@pytest.mark.parametrize("counts", [True, False])
def test_every_record_that_the_log_does_not_take_is_counted(counts: bool) -> None:
    router, log, received = Router(), BrokenLog(counts=counts), []
    router.log_to(log)
    router.listen([Event], lambda message, _: received.append(message))
    for _ in range(3 * OFF_AFTER):
        router.record(MODE, 1)
    assert len(received) == log.lost + router.lost == 3 * OFF_AFTER
    assert router.observers.failures[LOG].count == 3 * OFF_AFTER


ESTIMATE = StateEstimate(1, 1, 0.0, 0.0, 0.0, 0.0, 0.0, (0.0,) * 16)


@given(st.lists(st.tuples(st.sampled_from([LIMIT, MODE, ESTIMATE]), st.booleans()), max_size=30))
def test_a_record_that_fails_half_way_leaves_no_half_record_and_a_gap_in_the_numbers(
    records: list[tuple[Message, bool]],
) -> None:
    sink, router = LogSink(0), Router()
    router.log_to(sink)
    for message, fails in records:
        buffer = sink._routes[type(message)][2]
        if fails:
            # Memory runs out after the head of the record was written.
            buffer.data = Short(buffer.data)
        router.record(message, 1)
        buffer.data = bytearray(buffer.data)
    sink.close_chunks(2)
    numbers = []
    while (frame := sink.outbox.head()) is not None:
        numbers += [sequence for _, _, _, sequence, _ in message_heads(bytes(frame[HEAD.size :]))]
        sink.outbox.advance(len(frame))
    lost = sum(fails for _, fails in records)
    assert sink.journal_losses.records + sink.derived_losses.records == lost
    journal_lost = any(fails and message is not ESTIMATE for message, fails in records)
    assert (sink.not_replayable_after_ns is not None) is journal_lost
    # The first gap of the journal has a marker of its own.
    assert len(numbers) == len(records) - lost + journal_lost
    assert len(set(numbers)) == len(numbers)
    assert max(numbers, default=0) <= len(records) + journal_lost


class Short(bytearray):
    """Memory that has no room for more than the head of a record."""

    def __iadd__(self, other: object) -> "Short":
        if len(other) != 31:  # type: ignore[arg-type]
            raise MemoryError
        return super().__iadd__(other)  # type: ignore[arg-type]


def test_a_mode_change_is_made_although_its_text_cannot_be() -> None:
    from vehicled.safety.reason import Reason

    assert Reason("imu_silent", details=(3,)).text() == "imu_silent"  # type: ignore[arg-type]
