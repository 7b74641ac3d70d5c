"""Wall-clock loop of the simulator: the world runs on the daemon's monotonic clock, and bytes leave
when they are due."""

import select
import selectors
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence, Set
from selectors import BaseSelector

from sim_backend.connection import Goodbye, Peer
from sim_backend.ptys import Ptys
from sim_backend.sockets import Sockets
from sim_backend.terminals import Terminals
from sim_backend.world import Arrival, World
from vehicled.core.link import (
    PACE_BEAT_NS,
    PACE_LEAD_NS,
    Frame,
    LinkError,
    LinkFrameKind,
    decode_line,
    decode_lost,
    encode,
    encode_lost,
)
from vehicled.runtime.loop import PreciseSelector

HEARTBEAT_NS = 50_000_000
SLICE_NS = 20_000_000
"""Longest advance between two reads of the socket, ns: a late simulator catches up in slices, reads
the daemon's commands in between, and never passes the clock.
"""
SYNC_PERIOD_NS = 1_000_000_000
_NO_LIMIT_NS = 1 << 62
_SYNC_AT_START = 8
_SYNC_WINDOW = 16
_ECHO = struct.Struct("<q")


class DaemonClock:
    """Estimate of the daemon's monotonic clock: own clock plus an offset from SYNC round trips.

    The shortest recent round trip wins, because half its length bounds the error. On the same boot
    the offset is exactly 0.
    """

    def __init__(self, same_boot: bool, own_clock: Callable[[], int] = time.monotonic_ns) -> None:
        self.same_boot = same_boot
        self.offset_ns = 0
        self._own_clock = own_clock
        self._trips: deque[tuple[int, int]] = deque(maxlen=_SYNC_WINDOW)

    def now_ns(self) -> int:
        """Return the daemon's time."""
        return self._own_clock() + self.offset_ns

    def question(self) -> bytes:
        """Return a SYNC frame; send it at once."""
        return encode(LinkFrameKind.SYNC, 0, self._own_clock())

    def answer(self, t_ns: int, payload: bytes) -> None:
        """Use the daemon's answer: its time ``t_ns``, and our send time in ``payload``. Raises
        LinkError if malformed."""
        if len(payload) != _ECHO.size:
            raise LinkError(f"the daemon's SYNC carries {len(payload)} bytes instead of 8")
        now_ns = self._own_clock()
        asked_ns = _ECHO.unpack(payload)[0]
        self._trips.append((now_ns - asked_ns, t_ns - (asked_ns + now_ns) // 2))
        if not self.same_boot:
            self.offset_ns = min(self._trips)[1]


def synchronise(peer: Peer, same_boot: bool) -> DaemonClock:
    """Find the daemon's clock before the world starts. Raises LinkError and
    :class:`sim_backend.connection.Goodbye`."""
    clock = DaemonClock(same_boot)
    if same_boot:
        return clock
    for _ in range(_SYNC_AT_START):
        peer.send(clock.question())
        answered = False
        while not answered:
            for kind, _, t_ns, payload in peer.receive():
                if kind is LinkFrameKind.SYNC:
                    clock.answer(t_ns, payload)
                    answered = True
                elif kind is LinkFrameKind.BYE:
                    raise Goodbye(payload.decode(errors="replace"))
    return clock


class SharedClock:
    """Clock of the world that it shares with the daemon, without the time for which the computer
    did not let one of them run.

    The world waits where it is ``PACE_LEAD_NS`` ahead of the time that the daemon named last. That
    alone loses nothing: a daemon that computes or waits for itself was late, and the world catches
    up with it. The daemon names what the computer took from it. The simulator loses what it is late
    by more than the lead through nobody else. It runs freely until the daemon has named a time.
    """

    def __init__(self) -> None:
        self.lost_ns = 0
        """Time that the simulator has lost itself."""
        self._daemon_lost_ns = 0
        self._daemon_ns = _NO_LIMIT_NS
        self._waited_ns = 0
        """Time up to which the world waited for the daemon."""

    @property
    def all_lost_ns(self) -> int:
        """Lag of the shared clock behind the daemon's monotonic clock."""
        return self.lost_ns + self._daemon_lost_ns

    def on_done(self, t_ns: int, lost_ns: int) -> None:
        """Take the time of the daemon, and the time that it has lost."""
        grown_ns = max(0, lost_ns - self._daemon_lost_ns)
        self._daemon_ns, self._daemon_lost_ns = t_ns, self._daemon_lost_ns + grown_ns
        self._waited_ns -= grown_ns

    def is_late(self, daemon_clock_ns: int, granted_ns: int) -> bool:
        """True if the simulator would lose time now; read the daemon's pending frames first."""
        return (
            self._daemon_ns != _NO_LIMIT_NS
            and daemon_clock_ns - self.all_lost_ns > self._due_ns(granted_ns)
        )

    def now_ns(self, daemon_clock_ns: int, granted_ns: int) -> int:
        """Return the time that the world may reach now; ``granted_ns`` is that of the last
        GRANT."""
        if self.is_late(daemon_clock_ns, granted_ns):
            self.lost_ns += daemon_clock_ns - self.all_lost_ns - self._due_ns(granted_ns)
        return min(daemon_clock_ns - self.all_lost_ns, self._daemon_ns + PACE_LEAD_NS)

    def waits(self, daemon_clock_ns: int, reached_ns: int) -> bool:
        """True if the world, which has reached a time, must wait for the daemon to go on."""
        waits = reached_ns >= self._daemon_ns + PACE_LEAD_NS
        if waits:
            self._waited_ns = daemon_clock_ns - self.all_lost_ns
        return waits

    def _due_ns(self, granted_ns: int) -> int:
        return max(granted_ns, self._waited_ns) + PACE_LEAD_NS


class WallDaemon:
    """Daemon that is served in real time, with its world.

    A turn: :meth:`target_ns`, advance the world, :meth:`pass_on`, wait for :meth:`wait_ns` at most,
    :meth:`on_ready`.
    """

    def __init__(
        self,
        peer: Peer,
        world: World,
        clock: DaemonClock,
        selector: BaseSelector,
        terminals: Terminals | None = None,
        *,
        shared: bool = False,
    ) -> None:
        """Register the daemon with the selector. ``terminals``: devices that it reaches by these
        instead of the link. ``shared``: the clock leaves out the time for which the computer lets
        this process or the daemon not run.
        """
        self.peer, self._world, self._clock = peer, world, clock
        self._selector, self._terminals = selector, terminals
        self.descriptor = peer.socket.fileno()
        selector.register(peer.socket, selectors.EVENT_READ)
        self._pace = SharedClock() if shared else None
        self._beat_period_ns = PACE_BEAT_NS if shared else HEARTBEAT_NS
        self._reached_ns = self._granted_ns = self._beat_ns = self._now_ns = clock.now_ns()
        self._real_ns = self._next_ns = self._reached_ns
        self._sync_ns = self._reached_ns + SYNC_PERIOD_NS

    @property
    def lost_ns(self) -> int:
        """Lag of the world's clock behind the daemon's monotonic clock."""
        return 0 if self._pace is None else self._pace.all_lost_ns

    def target_ns(self) -> int:
        """Return the time up to which the world is to be advanced now."""
        real_ns, pace = self._clock.now_ns(), self._pace
        if (
            pace is not None
            and pace.is_late(real_ns, self._granted_ns)
            and select.select([self.peer.socket], [], [], 0.0)[0]
        ):
            # The daemon may have gone on meanwhile.
            self._on_frames()
        now_ns = real_ns if pace is None else pace.now_ns(real_ns, self._granted_ns)
        self._real_ns, self._now_ns = real_ns, now_ns
        self._reached_ns = max(self._reached_ns, min(now_ns, self._reached_ns + SLICE_NS))
        return self._reached_ns

    def pass_on(self, arrivals: Sequence[Arrival]) -> None:
        """Send what has arrived at the daemon's ports, and the heartbeats that are due."""
        frames, terminals, pace = [], self._terminals, self._pace
        real_ns = self._real_ns
        for t_rx_ns, port, payload in arrivals:
            if terminals is None or not terminals.write(port, payload):
                frames.append(encode(LinkFrameKind.DATA, port, t_rx_ns, payload))
        if terminals is not None:
            terminals.follow(self._reached_ns)
        self._next_ns = self._world.next_wake_ns() + self.lost_ns
        # A heartbeat that would be due before the next data goes with these: the daemon wakes once
        # for both.
        if real_ns >= self._beat_ns or (arrivals and self._next_ns > self._beat_ns):
            if pace is None:
                frames.append(encode(LinkFrameKind.GRANT, 0, self._now_ns))
            else:
                self._granted_ns = self._reached_ns
                frames.append(encode_lost(LinkFrameKind.GRANT, self._granted_ns, pace.lost_ns))
            self._beat_ns = real_ns + self._beat_period_ns
        if real_ns >= self._sync_ns and not self._clock.same_boot:
            frames.append(self._clock.question())
            self._sync_ns = real_ns + SYNC_PERIOD_NS
        if frames:
            self.peer.send(b"".join(frames))

    def wait_ns(self) -> int:
        """Return the time until the next turn is due."""
        pace = self._pace
        waits = pace is not None and pace.waits(self._real_ns, self._reached_ns)
        wake_ns = self._beat_ns if waits else min(self._next_ns, self._beat_ns)
        if self._reached_ns < self._now_ns or self.peer.has_backlog:
            return 0
        return max(0, wake_ns - self._clock.now_ns())

    def on_ready(self, ready: Set[int]) -> bool:
        """Take what has arrived from the daemon; True if anything came by the link. Raises
        :class:`vehicled.core.link.LinkError` and :class:`sim_backend.connection.Goodbye`."""
        received = self.descriptor in ready or self.peer.has_backlog
        if received:
            self._on_frames()
        if self._terminals is not None:
            self._terminals.read(ready, self._clock.now_ns() - self.lost_ns)
        return received

    def _on_frames(self) -> None:
        _on_frames(self.peer.receive(), self._world, self._clock, self._pace)


def run_wall(
    peer: Peer,
    world: World,
    clock: DaemonClock,
    ports: list[str] | None = None,
    ptys: Ptys | None = None,
    sockets: Sockets | None = None,
    *,
    shared: bool = False,
) -> str:
    """Run in real time until the daemon says goodbye; return its reason. Raises
    :class:`vehicled.core.link.LinkError`.

    ``ptys``, ``sockets``: devices that the daemon reaches by these instead of the link; ``ports``
    are the names by port number. ``shared``: as for :class:`WallDaemon`.
    """
    with PreciseSelector() as selector:
        terminals = None
        if ptys is not None and sockets is not None:
            terminals = Terminals(ptys, sockets, world, ports or [], selector)
        daemon = WallDaemon(peer, world, clock, selector, terminals, shared=shared)
        try:
            while True:
                daemon.pass_on(world.advance(daemon.target_ns()))
                daemon.on_ready({key.fd for key, _ in selector.select(daemon.wait_ns() * 1e-9)})
        except Goodbye as goodbye:
            return str(goodbye)


def _on_frames(
    frames: list[Frame], world: World, clock: DaemonClock, pace: SharedClock | None
) -> None:
    for kind, port, t_ns, payload in frames:
        if kind is LinkFrameKind.DATA:
            world.on_frame(port, t_ns, payload)
        elif kind is LinkFrameKind.SYNC:
            clock.answer(t_ns, payload)
        elif kind is LinkFrameKind.LINE:
            world.on_line(port, t_ns, decode_line(payload))
        elif kind is LinkFrameKind.BYE:
            raise Goodbye(payload.decode(errors="replace"))
        elif kind is LinkFrameKind.DONE:
            if pace is not None:
                pace.on_done(t_ns, decode_lost(payload))
        else:
            raise LinkError(f"the daemon sent {kind.name} during the run")
