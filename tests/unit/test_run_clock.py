"""The clock that daemon and simulator share: neither leaves the other behind, and what that costs is counted."""

import pytest

from sim_backend.wall import DaemonPace
from vehicled.link import PACE_LEAD_NS, LinkError, decode_grant, encode_grant
from vehicled.runtime.clock import PacedClock, RunClock

MS = 1_000_000


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
        self.pace = DaemonPace()
        self.reached_ns = self.granted_ns = self.monotonic.t_ns
        self.apart_ns = 0

    def run(self, duration_ms: int, *, daemon: bool = True, simulator: bool = True) -> None:
        """Let real time pass in steps of a millisecond while one or both of them run."""
        for _ in range(duration_ms):
            self.monotonic.t_ns += MS
            if simulator:
                self.reached_ns = max(self.reached_ns, self.pace.now_ns(self.monotonic.t_ns, self.granted_ns))
                self.granted_ns = self.reached_ns
            if daemon:
                if simulator:
                    process = "daemon" if self.pace.daemon_stalled else "simulator"
                    self.clock.on_grant(self.reached_ns, self.pace.lost_ns, process)
                before_ns = self.clock.now_ns()
                self.pace.on_done(before_ns)
                self.apart_ns = max(self.apart_ns, abs(before_ns - self.reached_ns))


def test_without_a_stall_it_is_the_monotonic_clock() -> None:
    pair = Pair()
    pair.run(2_000)
    assert pair.clock.now_ns() == pair.monotonic.t_ns
    assert pair.clock.finish() is None
    assert (pair.clock.stalls.count, pair.clock.lost_ns) == (0, 0)


@pytest.mark.parametrize("who", ["simulator", "daemon"])
def test_a_stall_costs_time_and_no_silence(who: str) -> None:
    pair = Pair()
    pair.run(100)
    pair.run(177, daemon=who != "daemon", simulator=who != "simulator")
    pair.run(500)
    assert pair.apart_ns <= 2 * PACE_LEAD_NS
    assert pair.clock.lost_ns == pytest.approx(162 * MS, abs=2 * MS)
    stalls = pair.clock.stalls
    assert (stalls.count, stalls.longest_process) == (1, who)
    assert stalls.longest_ns == pytest.approx(177 * MS, abs=2 * MS)
    assert pair.clock.now_ns() == pytest.approx(pair.monotonic.t_ns - pair.clock.lost_ns, abs=PACE_LEAD_NS)


def test_the_clock_never_goes_back() -> None:
    pair = Pair()
    latest_ns = 0
    for duration_ms, daemon, simulator in [
        (30, True, True),
        (40, True, False),
        (5, True, True),
        (90, False, True),
        (60, True, True),
    ]:
        for _ in range(duration_ms):
            pair.run(1, daemon=daemon, simulator=simulator)
            assert pair.clock.now_ns() >= latest_ns
            latest_ns = pair.clock.now_ns()


def test_nothing_is_lost_before_the_daemon_has_begun() -> None:
    pair = Pair()
    pair.run(800, daemon=False)
    pair.run(100)
    assert pair.clock.lost_ns == 0


def test_an_alarm_is_never_too_late_and_looks_again_while_the_clock_stands() -> None:
    pair = Pair()
    pair.run(100)
    due_ns = pair.clock.now_ns() + 2 * MS
    assert pair.clock.alarm_ns(due_ns) == due_ns
    assert pair.clock.alarm_ns(due_ns + 900 * MS) <= pair.monotonic.t_ns + 5 * MS
    assert RunClock(pair.monotonic).alarm_ns(due_ns) == due_ns


def test_a_grant_carries_the_time_that_was_lost() -> None:
    assert decode_grant(encode_grant(5, 7, daemon_stalled=True)[14:]) == (7, True)
    with pytest.raises(LinkError, match="9 bytes, not 0"):
        decode_grant(b"")
