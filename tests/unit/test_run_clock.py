"""The clock that daemon and simulator share: it leaves out what the computer took from either, and
nothing that the daemon used."""

from typing import Literal

import hypothesis.strategies as st
import pytest
from hypothesis import given

from sim_backend.wall import SLICE_NS, SharedClock
from vehicled.core.link import (
    PACE_BEAT_NS,
    PACE_LEAD_NS,
    LinkError,
    LinkFrameKind,
    decode_lost,
    encode_lost,
)
from vehicled.runtime.clock import PacedClock, RunClock

MS = 1_000_000
Daemon = Literal["runs", "busy", "taken"]


class Monotonic:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.t_ns = 1_000 * MS

    def __call__(self) -> int:
        return self.t_ns


class Pair:
    """Both ends, joined without a socket: whoever runs advances and names its time."""

    def __init__(self) -> None:
        self.monotonic = Monotonic()
        self.clock = PacedClock(self.monotonic)
        self.clock.taken, self.clock.unread = self, lambda: bool(self.unread)
        self.taken_total_ns = self.marked_ns = 0
        self.world = SharedClock()
        self.reached_ns = self.granted_ns = self.monotonic.t_ns
        self.unread: list[tuple[int, int]] = []
        self.apart_ns = 0
        self.latest_ns = 0

    def mark(self) -> None:
        """Be the measure of the time that is taken from the daemon."""
        self.marked_ns = self.taken_total_ns

    def taken_ns(self) -> int:
        return self.taken_total_ns - self.marked_ns

    def run(self, duration_ms: int, daemon: Daemon = "runs", *, simulator: bool = True) -> None:
        """Let real time pass in steps of a millisecond, in which the daemon runs, computes for
        itself, or is kept from running."""
        for _ in range(duration_ms):
            self.monotonic.t_ns += MS
            real_ns = self.monotonic.t_ns
            self.taken_total_ns += MS * (daemon == "taken")
            if simulator:
                now_ns = self.world.now_ns(real_ns, self.granted_ns)
                self.reached_ns = max(self.reached_ns, min(now_ns, self.reached_ns + SLICE_NS))
                if real_ns % PACE_BEAT_NS == 0:
                    self.granted_ns = self.reached_ns
                    self.unread.append((self.granted_ns, self.world.lost_ns))
                self.world.waits(real_ns, self.reached_ns)
            if daemon == "runs":
                while self.unread:
                    self.clock.on_grant(*self.unread.pop(0))
                if real_ns % PACE_BEAT_NS == 0:
                    t_ns = self.clock.now_ns()
                    self.world.on_done(t_ns, self.clock.own_lost_ns)
                    self.clock.on_heartbeat()
                self.apart_ns = max(self.apart_ns, abs(self.clock.now_ns() - self.reached_ns))
            now_ns = self.clock.now_ns()
            assert now_ns >= self.latest_ns
            self.latest_ns = now_ns


def test_without_a_stall_it_is_the_monotonic_clock() -> None:
    pair = Pair()
    pair.run(2_000)
    assert pair.clock.now_ns() == pair.monotonic.t_ns
    assert pair.clock.finish() == []
    assert (pair.clock.stalls.count, pair.clock.lost_ns) == (0, 0)


@pytest.mark.parametrize("who", ["simulator", "daemon"])
def test_time_that_the_computer_took_is_left_out(who: str) -> None:
    pair = Pair()
    pair.run(100)
    pair.run(177, "taken" if who == "daemon" else "runs", simulator=who != "simulator")
    pair.run(500)
    assert pair.apart_ns <= 2 * PACE_LEAD_NS
    # The lead is late, as on a vehicle.
    assert pair.clock.lost_ns == pair.world.all_lost_ns == pytest.approx(162 * MS, abs=6 * MS)
    stalls = pair.clock.stalls
    assert (stalls.count, stalls.longest_process) == (1, who)
    assert stalls.longest_ns == pytest.approx(177 * MS, abs=6 * MS)
    assert pair.clock.now_ns() == pytest.approx(
        pair.monotonic.t_ns - pair.clock.lost_ns, abs=PACE_LEAD_NS
    )


@pytest.mark.parametrize("busy_ms", [6, 14, 16, 26, 110])
def test_time_that_the_daemon_used_itself_is_never_left_out(busy_ms: int) -> None:
    pair = Pair()
    pair.run(100)
    for _ in range(20):
        before_ns = pair.clock.now_ns()
        pair.run(busy_ms, "busy")
        assert pair.clock.now_ns() - before_ns == pytest.approx(busy_ms * MS, abs=MS)
        pair.run(11)
    assert pair.clock.own_lost_ns == 0
    # The world catches up in no time.
    assert pair.clock.lost_ns <= 2 * MS
    pair.run(50)
    assert pair.clock.now_ns() == pair.monotonic.t_ns - pair.clock.lost_ns
    assert pair.reached_ns == pytest.approx(pair.clock.now_ns(), abs=PACE_LEAD_NS)


def test_of_a_stall_only_what_was_taken_is_left_out() -> None:
    pair = Pair()
    pair.run(100)
    pair.run(40, "busy")
    pair.run(60, "taken")
    pair.run(40, "busy")
    pair.run(200)
    assert pair.clock.own_lost_ns == 60 * MS
    assert pair.clock.now_ns() == pytest.approx(pair.monotonic.t_ns - 60 * MS, abs=2 * MS)


def test_what_happened_during_a_stall_is_dated_where_the_clock_went_on() -> None:
    pair = Pair()
    pair.run(100)
    begin_ns = pair.monotonic.t_ns
    pair.run(200, "taken")
    end_ns = pair.monotonic.t_ns
    pair.run(20)
    times = [pair.clock.at_ns(t_ns) for t_ns in range(begin_ns - 50 * MS, end_ns + 20 * MS, 5 * MS)]
    assert times == sorted(times)
    assert times[-1] - times[0] == pytest.approx(270 * MS - 5 * MS - pair.clock.lost_ns, abs=2 * MS)
    assert pair.clock.at_ns(begin_ns) == begin_ns
    assert pair.clock.not_after_ns(begin_ns) <= begin_ns


def test_a_clock_that_waited_for_a_simulator_which_lost_nothing_jumps_and_says_so() -> None:
    pair = Pair()
    pair.run(100)
    pair.run(60, simulator=False)
    pair.run(20)
    assert pair.clock.jumps() == [], "what the simulator lost is no jump"
    received_ns, lost_ns = pair.monotonic.t_ns, pair.clock.lost_ns
    pair.clock.on_grant(received_ns - lost_ns, pair.world.lost_ns)
    pair.monotonic.t_ns += 40 * MS
    assert pair.clock.now_ns() == received_ns - lost_ns + PACE_LEAD_NS
    pair.unread.append((0, 0))
    assert pair.clock.now_ns() == received_ns - lost_ns + PACE_LEAD_NS, (
        "it stands until the grant is read"
    )
    released: list[bool] = []
    pair.clock.on_released = lambda: released.append(True)
    pair.clock.on_grant(received_ns - lost_ns, pair.world.lost_ns)
    assert (pair.clock.now_ns(), released) == (pair.monotonic.t_ns - lost_ns, [True])
    assert pair.clock.jumps() == [
        (received_ns - lost_ns + PACE_LEAD_NS, pair.monotonic.t_ns - lost_ns)
    ]


@given(
    st.lists(
        st.tuples(st.integers(1, 120), st.sampled_from(["runs", "busy", "taken"]), st.booleans()),
        max_size=12,
    )
)
def test_both_ends_agree_after_anything(phases: list[tuple[int, Daemon, bool]]) -> None:
    """The clock never goes back, and never leaves out more than was taken from either."""
    pair = Pair()
    pair.run(60)
    for duration_ms, daemon, simulator in phases:
        pair.run(duration_ms, daemon, simulator=simulator)
        pair.run(10)
    pair.run(300)
    taken_ms = sum(each[0] for each in phases if each[1] == "taken")
    stalled_ms = sum(each[0] for each in phases if not each[2])
    assert pair.clock.own_lost_ns <= taken_ms * MS
    # A simulator that must catch up with a long wait may need more than its lead for that.
    assert pair.world.lost_ns <= stalled_ms * MS + sum(
        each[0] for each in phases
    ) * MS // 10 + 5 * MS * len(phases)
    assert pair.clock.lost_ns == pair.world.all_lost_ns
    assert pair.clock.now_ns() == pair.monotonic.t_ns - pair.clock.lost_ns
    assert abs(pair.reached_ns - pair.clock.now_ns()) <= PACE_LEAD_NS


def test_nothing_is_lost_before_the_daemon_has_begun() -> None:
    pair = Pair()
    pair.run(800, "taken")
    pair.run(100)
    assert pair.clock.lost_ns == 0


def test_an_alarm_is_never_too_late_and_looks_again_while_the_clock_stands() -> None:
    pair = Pair()
    pair.run(100)
    due_ns = pair.clock.now_ns() + 2 * MS
    assert pair.clock.alarm_ns(due_ns) == due_ns
    assert pair.clock.alarm_ns(due_ns + 900 * MS) <= pair.monotonic.t_ns + 5 * MS
    assert RunClock(pair.monotonic).alarm_ns(due_ns) == due_ns


def test_a_heartbeat_carries_the_time_that_was_lost() -> None:
    assert decode_lost(encode_lost(LinkFrameKind.GRANT, 5, 7)[14:]) == 7
    with pytest.raises(LinkError, match="8 bytes, not 0"):
        decode_lost(b"")
