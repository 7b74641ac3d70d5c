"""Pulses of a PPS pin: which are used, what is said of bad ones, and what receivers and chrony get
of them."""

from collections.abc import Iterator

import pytest

from drivers.gnss.epochs import WEEK_MS, EpochClock
from drivers.gnss.pps import PpsDevice, PpsParams
from vehicled.core.messages import Fault, GnssFix, Message, PortState, TimePulse
from vehicled.core.ports import Send
from vehicled.core.wire import pps

SECOND_NS = 1_000_000_000
UTC_NS = 1_767_225_600 * SECOND_NS
"""UTC at time 0 of the run; the clock of the computer is :data:`AHEAD_NS` ahead."""
AHEAD_NS = 12_345_678


class Bench:
    """A driver, with a receiver whose fixes arrive 0.12 s after their second."""

    def __init__(self, **params: object) -> None:
        self.device = PpsDevice(PpsParams(**params), [TimePulse], 50_000_000)  # type: ignore[arg-type]
        self.device.on_port(PortState.OPENED, "", 0)
        self.asserts = self.clears = (0, 0)
        self.found: list[Message] = []
        self.samples: list[pps.RefclockSample] = []
        self.fix_late_ns = 120_000_000
        self.fix_utc_less_ns = 0
        self.ahead_ns = AHEAD_NS

    def fix(self, second: int) -> None:
        t_rx_ns = second * SECOND_NS + self.fix_late_ns
        utc_ns = UTC_NS + second * SECOND_NS - self.fix_utc_less_ns
        self.device.on_command(GnssFix(t_rx_ns, t_rx_ns, 0.0, 0.0, 0.0, utc_ns=utc_ns), t_rx_ns)

    def edge(self, t_ns: int, *, clear: bool = False) -> None:
        stamp_ns = UTC_NS + t_ns + self.ahead_ns
        if clear:
            self.clears = self.clears[0] + 1, stamp_ns
        else:
            self.asserts = self.asserts[0] + 1, stamp_ns
        frame = pps.encode(pps.PulseStamps(*self.asserts, *self.clears, stamp_ns + 3_000_000))
        self.found += self.device.on_rx(frame, t_ns + 3_000_000)
        for action in self.device.take_tx():
            assert isinstance(action, Send)
            record = pps.parse(action.data)
            assert isinstance(record, pps.RefclockSample)
            self.samples.append(record)

    def run(self, seconds: Iterator[int] | range, *, late_ns: int = 0) -> list[TimePulse]:
        """Return the pulses of these seconds."""
        before = len(self.found)
        for second in seconds:
            self.edge(second * SECOND_NS + late_ns)
            self.fix(second)
        return [each for each in self.found[before:] if isinstance(each, TimePulse)]

    @property
    def reason(self) -> str:
        """Reasons of the faults that last, by code."""
        now: dict[str, str] = {}
        for each in self.found:
            if isinstance(each, Fault):
                now[each.code] = each.reason if each.active else ""
        return "; ".join(f"{code}: {reason}" for code, reason in now.items() if reason)


def test_a_pulse_gets_its_second_from_the_receiver_and_goes_to_chrony() -> None:
    bench = Bench()
    last = bench.run(range(1, 9))[-1]
    assert (last.t_ns, last.utc_ns) == (8 * SECOND_NS, UTC_NS + 8 * SECOND_NS)
    assert last.clock_offset_s == pytest.approx(AHEAD_NS * 1e-9, abs=1e-12)
    assert last.jitter_s == 0.0
    assert bench.samples[-1].clock_ns - bench.samples[-1].utc_ns == AHEAD_NS
    assert bench.samples[-1].precision == -30
    assert not bench.reason


@pytest.mark.parametrize("late_ms", [5, 400, 840])
def test_slow_messages_still_name_the_second_that_they_follow(late_ms: int) -> None:
    bench = Bench()
    bench.fix_late_ns = late_ms * 1_000_000
    assert bench.run(range(1, 9))[-1].utc_ns == UTC_NS + 8 * SECOND_NS


def test_messages_that_come_almost_a_second_late_name_none() -> None:
    bench = Bench()
    bench.fix_late_ns = 930_000_000
    assert not any(pulse.utc_ns for pulse in bench.run(range(1, 9)))
    assert "pps_second: messages of the receiver come 0.93 s after" in bench.reason
    assert not bench.samples


def test_a_receiver_beside_by_a_second_is_said_and_not_used() -> None:
    bench = Bench()
    bench.run(range(1, 6))
    bench.fix_utc_less_ns = SECOND_NS
    pulses = bench.run(range(6, 12)) + bench.run(range(12, 40))
    assert "another second than before" in str(bench.found)
    # Once it goes on so, the clock of the computer contradicts it.
    assert "differ by +1 s, a whole number" in bench.reason
    assert {each.clock_ns - each.utc_ns for each in bench.samples} == {AHEAD_NS}
    assert not any(pulse.utc_ns for pulse in pulses[3:])


def test_leap_seconds_that_the_receiver_learns_late_are_waited_for() -> None:
    bench = Bench()
    bench.ahead_ns = 300_000_000
    bench.fix_utc_less_ns = -18 * SECOND_NS
    bench.run(range(1, 9))
    bench.fix_utc_less_ns = 0
    pulses = bench.run(range(9, 22))
    assert pulses[-1].utc_ns == UTC_NS + 21 * SECOND_NS
    assert not bench.reason


def test_a_doubled_pulse_is_named_and_the_others_are_used() -> None:
    bench = Bench()
    bench.run(range(1, 6))
    for second in range(6, 12):
        pulses = bench.run(range(second, second + 1))
        assert pulses[0].utc_ns == UTC_NS + second * SECOND_NS
        bench.edge(second * SECOND_NS + 300_000_000)
        assert "pps_pulses: doubled" in bench.reason
    assert not [each for each in bench.samples if (each.utc_ns - UTC_NS) % SECOND_NS]


def test_doubled_pulses_from_the_start_are_used_for_nothing() -> None:
    bench = Bench()
    for second in range(1, 12):
        bench.run(range(second, second + 1))
        bench.edge(second * SECOND_NS + 300_000_000)
    assert "pulses are not one second apart" in bench.reason
    assert not bench.samples


def test_a_missing_pulse_is_said_and_the_series_goes_on() -> None:
    bench = Bench()
    bench.run(range(1, 6))
    due_ns = bench.device.next_due_ns()
    assert 6.5 * SECOND_NS < due_ns < 7 * SECOND_NS
    bench.found += bench.device.on_time(due_ns)
    assert "pps_silent: no pulse" in bench.reason
    assert bench.run(range(7, 9))[0].utc_ns == UTC_NS + 7 * SECOND_NS
    assert not bench.reason


def test_a_wire_that_never_pulses_is_said() -> None:
    bench = Bench()
    bench.found += bench.device.on_time(bench.device.next_due_ns())
    assert "no pulse yet: check the wire" in bench.reason


@pytest.mark.parametrize("edge", ["assert", "clear"])
def test_the_wrong_edge_is_named_by_the_length_of_the_pulse(edge: str) -> None:
    bench = Bench(edge=edge)
    for second in range(1, 9):
        # The line is inverted for "assert", and right for "clear".
        bench.edge(second * SECOND_NS, clear=edge == "assert")
        bench.edge(second * SECOND_NS + 100_000_000, clear=edge == "clear")
        bench.fix(second)
    other = "clear" if edge == "assert" else "assert"
    assert f'write edge = "{other}"' in bench.reason
    assert not bench.samples


def test_a_pulse_that_moves_is_not_used_until_it_stays() -> None:
    bench = Bench()
    bench.run(range(1, 6))
    sent = len(bench.samples)
    bench.run(range(6, 7), late_ns=5_000_000)
    assert "+5000 us beside its second" in bench.reason
    assert len(bench.samples) == sent
    bench.run(range(7, 8))
    assert len(bench.samples) == sent + 1


def test_a_clock_that_was_set_between_stamp_and_reading_is_not_used() -> None:
    bench = Bench()
    bench.run(range(1, 6))
    stamps = pps.PulseStamps(6, UTC_NS + 6 * SECOND_NS, 0, 0, UTC_NS + 90 * SECOND_NS)
    assert not bench.device.on_rx(pps.encode(stamps), 6 * SECOND_NS)
    assert not bench.device.take_tx()


def test_what_chrony_refuses_is_said() -> None:
    bench = Bench()
    bench.found += bench.device.on_rx(pps.encode(pps.RefclockErrors(0, 2)), SECOND_NS)
    assert "pps_refclock: socket: No such file" in bench.reason
    assert "refclock SOCK" in bench.reason


@pytest.mark.parametrize("modulus_ms", [WEEK_MS, 86_400_000])
def test_epochs_have_the_time_of_the_pulse(modulus_ms: int) -> None:
    clock = EpochClock(modulus_ms, latency_ns=0)
    counter_ms = modulus_ms - 3_000
    late_ns = 80_000_000
    for k in range(60):
        t_ns = k * 100_000_000
        # With latency 0 the arrival is the best guess of the time: 80 ms late.
        if k % 10 == 0:
            clock.on_pulse(TimePulse(t_ns + 7, t_ns, UTC_NS + t_ns))
        at_ns = clock.time_of((counter_ms + 100 * k) % modulus_ms, t_ns + late_ns)
        clock.on_utc((counter_ms + 100 * k) % modulus_ms, UTC_NS + t_ns)
        assert at_ns <= t_ns + late_ns
        if k >= 11:
            assert at_ns == t_ns + 7
    # Without pulses the arrivals give the time again.
    at_ns = clock.time_of((counter_ms + 20_000) % modulus_ms, 20 * SECOND_NS + late_ns)
    assert at_ns == 20 * SECOND_NS + late_ns


def test_a_pulse_that_contradicts_the_arrivals_is_not_believed() -> None:
    clock = EpochClock(WEEK_MS, latency_ns=0)
    clock.time_of(5_000, 5 * SECOND_NS)
    clock.on_utc(5_000, UTC_NS + 5 * SECOND_NS)
    for beside_ns in (SECOND_NS, -SECOND_NS, 100_000_000):
        # The last of them would be in the future.
        clock.on_pulse(TimePulse(6 * SECOND_NS + beside_ns, 0, UTC_NS + 6 * SECOND_NS))
        assert clock.time_of(6_000, 6 * SECOND_NS) == 6 * SECOND_NS
