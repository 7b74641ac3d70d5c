"""The wall pump on clocks that a test sets: the daemon's clock across machines, and what happens
when the simulator is late."""

import socket
import struct
from itertools import pairwise
from typing import cast

import pytest

from sim_backend.connection import Peer
from sim_backend.wall import SLICE_NS, DaemonClock, run_wall
from sim_backend.world import World
from vehicled.core.link import PACE_BEAT_NS, LinkDecoder, LinkError, LinkFrameKind, encode

AHEAD_NS = 123_456_789_000


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.t_ns = 5_000_000_000

    def __call__(self) -> int:
        return self.t_ns


def trip(clock: DaemonClock, own: Clock, there_ns: int, back_ns: int, drift_ns: int = 0) -> None:
    """One SYNC whose legs take ``there_ns`` and ``back_ns``."""
    ((kind, _, t_ns, _),) = LinkDecoder().feed(clock.question())
    assert (kind, t_ns) == (LinkFrameKind.SYNC, own.t_ns)
    own.t_ns += there_ns
    daemon_ns = own.t_ns + AHEAD_NS + drift_ns
    own.t_ns += back_ns
    clock.answer(daemon_ns, struct.pack("<q", t_ns))


def test_the_same_boot_shares_the_clock_exactly():
    own = Clock()
    clock = DaemonClock(True, own)
    trip(clock, own, 80_000, 20_000)
    assert clock.offset_ns == 0
    assert clock.now_ns() == own.t_ns


def test_equal_legs_give_the_offset_exactly():
    own = Clock()
    clock = DaemonClock(False, own)
    trip(clock, own, 40_000, 40_000)
    assert clock.now_ns() == own.t_ns + AHEAD_NS


def test_the_smallest_round_trip_wins_and_bounds_the_error():
    own = Clock()
    clock = DaemonClock(False, own)
    for there_ns, back_ns in [
        (900_000, 100_000),
        (30_000, 50_000),
        (100_000, 5_000_000),
        (2_000_000, 0),
    ]:
        trip(clock, own, there_ns, back_ns)
    assert abs(clock.offset_ns - AHEAD_NS) == 10_000


def test_it_follows_a_clock_that_drifts():
    own = Clock()
    clock = DaemonClock(False, own)
    trip(clock, own, 1_000, 1_000)
    for second in range(30):
        trip(clock, own, 50_000, 50_000, drift_ns=second * 50_000)
    # The lucky old trip has left the window; the newest of equal ones is at most the window behind.
    assert 0 <= AHEAD_NS + 29 * 50_000 - clock.offset_ns <= 16 * 50_000


def test_an_answer_that_cannot_be_one_ends_the_link():
    with pytest.raises(LinkError, match="3 bytes instead of 8"):
        DaemonClock(False).answer(1, b"abc")


class Recorder:
    """Stands in for the world: notes how it is advanced, and what it receives in between."""

    def __init__(self, own: Clock, daemon: socket.socket) -> None:
        self.own = own
        self.daemon = daemon
        self.reached: list[int] = []
        self.received: list[int] = []

    def advance(self, to_ns: int) -> list[tuple[int, int, bytes]]:
        assert to_ns <= self.own.t_ns
        self.reached.append(to_ns)
        if len(self.reached) == 5:
            self.own.t_ns += 500_000_000
            self.daemon.sendall(encode(LinkFrameKind.DATA, 0, to_ns, b"command"))
        if len(self.reached) == 100:
            self.daemon.sendall(encode(LinkFrameKind.BYE, 0, 0, b"enough"))
        self.own.t_ns += 100_000
        return [(to_ns, 0, b"sample")]

    def next_wake_ns(self) -> int:
        return self.reached[-1]

    def on_frame(self, port: int, t_ns: int, data: bytes) -> None:
        self.received.append(len(self.reached))


def test_a_late_simulator_catches_up_in_slices_and_listens_in_between():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        own = Clock()
        recorder = Recorder(own, theirs)
        assert run_wall(Peer(ours), cast(World, recorder), DaemonClock(True, own)) == "enough"
        sent = list(LinkDecoder().feed(theirs.recv(1 << 20)))
    steps = [later - sooner for sooner, later in pairwise(recorder.reached)]
    assert max(steps) == SLICE_NS
    assert min(steps) >= 0
    assert steps.count(SLICE_NS) >= 20
    assert own.t_ns - recorder.reached[-1] <= 200_000
    # The command that came with the stall is read before the first slice after it.
    assert recorder.received == [5]
    assert [frame[0] for frame in sent].count(LinkFrameKind.DATA) == 100
    beats = [t_ns for kind, _, t_ns, _ in sent if kind is LinkFrameKind.GRANT]
    # At most one beat per period, so none in a burst after the stall.
    assert all(later - sooner >= 50_000_000 for sooner, later in pairwise(beats))


class Sampling(Recorder):
    """World of one sensor that samples every 2.5 ms."""

    PERIOD_NS = 2_500_000

    def advance(self, to_ns: int) -> list[tuple[int, int, bytes]]:
        self.reached.append(to_ns)
        self.own.t_ns += 700_000
        if len(self.reached) == 300:
            self.daemon.sendall(encode(LinkFrameKind.BYE, 0, 0, b"enough"))
        if to_ns < self._due_ns:
            return []
        self._due_ns = to_ns + self.PERIOD_NS
        return [(to_ns, 0, b"sample")]

    _due_ns = 0

    def next_wake_ns(self) -> int:
        return self._due_ns


class CountedPeer(Peer):
    """Peer that notes the kinds of the frames in every write."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.writes: list[list[tuple[LinkFrameKind, int]]] = []

    def send(self, data: bytes) -> None:
        self.writes.append([(kind, t_ns) for kind, _, t_ns, _ in LinkDecoder().feed(data)])


def test_heartbeats_go_with_data_and_come_as_often_as_promised():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        own, peer = Clock(), CountedPeer(ours)
        run_wall(peer, cast(World, Sampling(own, theirs)), DaemonClock(True, own), shared=True)
    kinds = [[kind for kind, _ in write] for write in peer.writes]
    assert [LinkFrameKind.GRANT] not in kinds
    beats = [t_ns for write in peer.writes for kind, t_ns in write if kind is LinkFrameKind.GRANT]
    assert len(beats) > 20
    assert all(later - sooner <= PACE_BEAT_NS for sooner, later in pairwise(beats))
