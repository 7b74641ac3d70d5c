"""Wall-clock loop of the simulator: the world runs on the daemon's monotonic clock, and bytes leave when they are due."""

import select
import selectors
import struct
import time
from collections import deque
from collections.abc import Callable

from sim_backend.connection import Goodbye, Peer
from sim_backend.ptys import Ptys
from sim_backend.sockets import Sockets
from sim_backend.terminals import Terminals
from sim_backend.world import World
from vehicled.link import PACE_BEAT_NS, PACE_LEAD_NS, Frame, Kind, LinkError, decode_line, encode, encode_grant
from vehicled.runtime.loop import PreciseSelector

HEARTBEAT_NS = 50_000_000
SLICE_NS = 20_000_000
"""Longest advance between two reads of the socket, ns: a late simulator catches up in slices, reads the daemon's commands in
between, and never passes the clock.
"""
SYNC_PERIOD_NS = 1_000_000_000
_NO_LIMIT_NS = 1 << 62
_SYNC_AT_START = 8
_SYNC_WINDOW = 16
_ECHO = struct.Struct("<q")


class DaemonClock:
    """Estimate of the daemon's monotonic clock: own clock plus an offset from SYNC round trips.

    The shortest recent round trip wins, because half its length bounds the error. On the same boot the offset is exactly 0.
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
        return encode(Kind.SYNC, 0, self._own_clock())

    def answer(self, t_ns: int, payload: bytes) -> None:
        """Use the daemon's answer: its time ``t_ns``, and our send time in ``payload``. Raises LinkError if malformed."""
        if len(payload) != _ECHO.size:
            raise LinkError(f"the daemon's SYNC carries {len(payload)} bytes instead of 8")
        now_ns = self._own_clock()
        asked_ns = _ECHO.unpack(payload)[0]
        self._trips.append((now_ns - asked_ns, t_ns - (asked_ns + now_ns) // 2))
        if not self.same_boot:
            self.offset_ns = min(self._trips)[1]


def synchronise(peer: Peer, same_boot: bool) -> DaemonClock:
    """Find the daemon's clock before the world starts. Raises LinkError and :class:`sim_backend.connection.Goodbye`."""
    clock = DaemonClock(same_boot)
    if same_boot:
        return clock
    for _ in range(_SYNC_AT_START):
        peer.send(clock.question())
        answered = False
        while not answered:
            for kind, _, t_ns, payload in peer.receive():
                if kind is Kind.SYNC:
                    clock.answer(t_ns, payload)
                    answered = True
                elif kind is Kind.BYE:
                    raise Goodbye(payload.decode(errors="replace"))
    return clock


class DaemonPace:
    """Clock that leaves out the time during which the simulator or the daemon did not run.

    The clock is at most ``PACE_LEAD_NS`` ahead of the last grant and of the last time the daemon reported; any excess is removed.
    It runs freely until the daemon has reported its time once.
    """

    def __init__(self) -> None:
        self.lost_ns = 0
        self.daemon_stalled = False
        """True if the daemon, not the simulator, caused the last lost time."""
        self._daemon_ns: int | None = None

    def on_done(self, t_ns: int) -> None:
        """Take the time that the daemon reports."""
        self._daemon_ns = t_ns

    def is_late(self, daemon_clock_ns: int, granted_ns: int) -> bool:
        """True if time would be lost now; read the daemon's pending frames first."""
        return daemon_clock_ns - self.lost_ns > self._limit_ns(granted_ns)

    def now_ns(self, daemon_clock_ns: int, granted_ns: int) -> int:
        """Return the shared time; ``granted_ns`` is the time of the last GRANT."""
        now_ns, limit_ns = daemon_clock_ns - self.lost_ns, self._limit_ns(granted_ns)
        if now_ns <= limit_ns:
            return now_ns
        self.lost_ns += now_ns - limit_ns
        self.daemon_stalled = self._daemon_ns is not None and self._daemon_ns < granted_ns
        return limit_ns

    def _limit_ns(self, granted_ns: int) -> int:
        return _NO_LIMIT_NS if self._daemon_ns is None else min(granted_ns, self._daemon_ns) + PACE_LEAD_NS


def run_wall(
    peer: Peer,
    world: World,
    clock: DaemonClock,
    ports: list[str] | None = None,
    ptys: Ptys | None = None,
    sockets: Sockets | None = None,
    *,
    paced: bool = False,
) -> str:
    """Run in real time until the daemon says goodbye; return its reason. Raises :class:`vehicled.link.LinkError`.

    ``ptys``, ``sockets``: devices that the daemon reaches by these instead of the link; ``ports`` are the names by port number.
    ``paced``: the clock stands still while this process or the daemon does not run.
    """
    pace = DaemonPace() if paced else None
    beat_period_ns = PACE_BEAT_NS if paced else HEARTBEAT_NS
    with PreciseSelector() as selector:
        selector.register(peer.socket, selectors.EVENT_READ)
        terminals = None
        if ptys is not None and sockets is not None:
            terminals = Terminals(ptys, sockets, world, ports or [], selector)
        reached_ns = granted_ns = beat_ns = clock.now_ns()
        sync_ns = reached_ns + SYNC_PERIOD_NS
        try:
            while True:
                real_ns = clock.now_ns()
                if pace is not None and pace.is_late(real_ns, granted_ns) and select.select([peer.socket], [], [], 0.0)[0]:
                    # The daemon's pending frames show which of the two was stalled.
                    _on_frames(peer.receive(), world, clock, pace)
                now_ns = real_ns if pace is None else pace.now_ns(real_ns, granted_ns)
                reached_ns = max(reached_ns, min(now_ns, reached_ns + SLICE_NS))
                frames = []
                for t_rx_ns, port, payload in world.advance(reached_ns):
                    if terminals is None or not terminals.write(port, payload):
                        frames.append(encode(Kind.DATA, port, t_rx_ns, payload))
                if terminals is not None:
                    terminals.follow(reached_ns)
                if real_ns >= beat_ns:
                    if pace is None:
                        frames.append(encode(Kind.GRANT, 0, now_ns))
                    else:
                        granted_ns = reached_ns
                        frames.append(encode_grant(granted_ns, pace.lost_ns, daemon_stalled=pace.daemon_stalled))
                    beat_ns = real_ns + beat_period_ns
                if real_ns >= sync_ns and not clock.same_boot:
                    frames.append(clock.question())
                    sync_ns = real_ns + SYNC_PERIOD_NS
                if frames:
                    peer.send(b"".join(frames))
                lost_ns = 0 if pace is None else pace.lost_ns
                wake_ns = min(world.next_wake_ns() + lost_ns, beat_ns)
                wait_ns = 0 if reached_ns < now_ns or peer.has_backlog else wake_ns - clock.now_ns()
                ready = {key.fd for key, _ in selector.select(max(0, wait_ns) * 1e-9)}
                if peer.socket.fileno() in ready or peer.has_backlog:
                    _on_frames(peer.receive(), world, clock, pace)
                if terminals is not None:
                    terminals.read(ready, clock.now_ns() - lost_ns)
        except Goodbye as goodbye:
            return str(goodbye)


def _on_frames(frames: list[Frame], world: World, clock: DaemonClock, pace: DaemonPace | None) -> None:
    for kind, port, t_ns, payload in frames:
        if kind is Kind.DATA:
            world.on_frame(port, t_ns, payload)
        elif kind is Kind.SYNC:
            clock.answer(t_ns, payload)
        elif kind is Kind.LINE:
            world.on_line(port, t_ns, decode_line(payload))
        elif kind is Kind.BYE:
            raise Goodbye(payload.decode(errors="replace"))
        elif kind is Kind.DONE:
            if pace is not None:
                pace.on_done(t_ns)
        else:
            raise LinkError(f"the daemon sent {kind.name} during the run")
