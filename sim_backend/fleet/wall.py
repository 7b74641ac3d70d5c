"""Fleet in real time: one simulator serves one daemon per vehicle, each on a clock of its own.

Each daemon shares the clock of its world as in the simulation of one vehicle
(:class:`sim_backend.wall.SharedClock`). What the computer takes from one daemon stops the time of
its vehicle alone: the others go on and see it stand.
"""

import select
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from selectors import EVENT_READ, BaseSelector, DefaultSelector

from sim_backend.connection import Goodbye, Peer
from sim_backend.fleet.fleet import Fleet, FleetVehicle
from sim_backend.fleet.member import FleetDaemon
from sim_backend.fleet.order import MemberEnding
from sim_backend.ptys import Ptys
from sim_backend.sockets import Sockets
from sim_backend.terminals import Terminals
from sim_backend.wall import SLICE_NS, DaemonClock, WallDaemon
from vehicled.core.link import LinkError


class PatientPeer(Peer):
    """Daemon that need not read at once: what it does not take yet is sent later."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self._unsent = b""

    def send(self, data: bytes) -> None:
        """Send what the socket takes now, and keep the rest."""
        self._unsent += data
        try:
            while self._unsent:
                self._unsent = self._unsent[self.socket.send(self._unsent) :]
        except BlockingIOError:
            return
        except OSError:
            # It fails again there, which reads the last words of the daemon.
            super().send(self._unsent)


class WallMember(FleetDaemon):
    """Daemon of one vehicle in real time."""

    served: WallDaemon

    def __init__(
        self, peer: PatientPeer, ports: list[str], files: tuple[Ptys, Sockets] | None = None
    ) -> None:
        """Take a daemon that is to be greeted. ``files``: what it reaches its devices by, if not by
        the link."""
        super().__init__(peer)
        self.shared = False
        """True if the daemon shares the clock of its world."""
        self.absent = ""
        """Reason why the daemon did not start; empty if it did."""
        self._ports, self._files = ports, files
        self._ready = DefaultSelector()
        self._received_s = 0.0

    def await_start(self, timeout_s: float) -> None:
        """Wait until the daemon names its time: what it misses before would pile up."""
        if self.absent or self.peer.has_backlog:
            return
        if not select.select([self.peer.socket], [], [], timeout_s)[0]:
            self.absent = f"its daemon did not begin in {timeout_s:g} s"

    def begin(self, vehicle: FleetVehicle, selector: BaseSelector) -> None:
        """Begin the run with the vehicle of the daemon."""
        self.vehicle, self._selector = vehicle, selector
        selector.register(self._ready, EVENT_READ)
        if self.absent:
            self.end(self.absent, vehicle.world.grid_ns, "absent")
            return
        terminals = None
        if self._files is not None:
            terminals = Terminals(*self._files, vehicle.world, self._ports, self._ready)
        self.peer.socket.setblocking(False)
        clock, shared = DaemonClock(True), self.shared
        self.served = WallDaemon(
            self.peer, vehicle.world, clock, self._ready, terminals, shared=shared
        )
        self._received_s = time.monotonic()

    def target_ns(self) -> int:
        """Return the time of its own clock up to which the vehicle is to be advanced now."""
        target_ns = self.served.target_ns()
        self.vehicle.lag_ns = self.served.lost_ns
        return target_ns

    def silent_s(self) -> float:
        """Take what has arrived from the daemon, and return for how long it has been silent."""
        now_s = time.monotonic()
        if self.served.on_ready({key.fd for key, _ in self._ready.select(0.0)}):
            self._received_s = now_s
        return now_s - self._received_s

    def end(self, why: str, now_ns: int, ending: MemberEnding) -> None:
        """Note the end of the daemon, and close what was opened for it."""
        self._selector.unregister(self._ready)
        self._ready.close()
        super().end(why, now_ns, ending)


class FleetWall:
    """Run of a fleet in real time."""

    def __init__(
        self,
        fleet: Fleet,
        members: list[WallMember],
        selector: BaseSelector,
        start_ns: int,
        timeout_s: float,
    ) -> None:
        """``members`` in the order of their names; ``timeout_s``: silence after which a daemon is
        left behind."""
        self._fleet, self.members, self._selector = fleet, members, selector
        self.now_ns = start_ns
        """Time of the fleet, which goes on without pauses."""
        self._timeout_s = timeout_s

    @property
    def running(self) -> list[WallMember]:
        """Members whose daemon runs."""
        return [member for member in self.members if member.ended_ns is None]

    def turn(self) -> bool:
        """Advance the world to the present and serve the daemons. False once none runs."""
        if not self.running:
            return False
        self.now_ns = time.monotonic_ns()
        self._fleet.advance_each([self._target_ns(member) for member in self.members])
        for member in self.members:
            arrivals = member.vehicle.take()
            if member.ended_ns is not None:
                continue
            if member.vehicle.lost:
                member.end_lost(self.now_ns)
                continue
            with self._ending(member):
                member.served.pass_on(arrivals)
        waits_ns = [member.served.wait_ns() for member in self.running]
        self._selector.select(min(waits_ns, default=0) * 1e-9)
        for member in self.running:
            with self._ending(member):
                if member.silent_s() > self._timeout_s:
                    member.leave_behind(self._timeout_s, self.now_ns)
        return True

    def _target_ns(self, member: WallMember) -> int:
        if member.ended_ns is None:
            with self._ending(member):
                return member.target_ns()
        # It rolls out, and is seen and pushed.
        vehicle = member.vehicle
        return min(self.now_ns - vehicle.lag_ns, vehicle.world.grid_ns + SLICE_NS)

    @contextmanager
    def _ending(self, member: WallMember) -> Iterator[None]:
        """Note the end that the link of a daemon reports."""
        try:
            yield
        except (LinkError, Goodbye) as error:
            member.end_by(error, self.now_ns)
