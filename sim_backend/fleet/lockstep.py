"""Lockstep of a fleet: one simulator grants time to one daemon per vehicle.

The world goes on to the earliest instant that a daemon asked for. Only the daemons that asked for
it get a grant; each takes what has arrived for it since its last one. So a daemon sees the grants
and bytes of a simulator of its own, and all that are due work at the same time. Time goes on when
each of them has answered, in whatever order.
"""

import select
import time

from sim_backend.connection import Goodbye, Peer
from sim_backend.emulators.interface import NEVER_NS
from sim_backend.fleet.fleet import Fleet, FleetVehicle
from sim_backend.fleet.member import FleetDaemon
from sim_backend.fleet.order import MemberEnding
from sim_backend.lockstep import HORIZON_NS
from vehicled.core.link import Frame, LinkError, LinkFrameKind, decode_line, encode


class Member(FleetDaemon):
    """Daemon of one vehicle in lockstep."""

    def __init__(self, vehicle: FleetVehicle, peer: Peer, start_ns: int) -> None:
        super().__init__(peer)
        self.vehicle = vehicle
        self.due_ns = start_ns
        """Next instant at which it is granted time; ``NEVER_NS`` after its end."""
        self.granted_ns = start_ns

    def end(self, why: str, now_ns: int, ending: MemberEnding) -> None:
        """Note the end of the daemon, which is granted no more time."""
        self.due_ns = NEVER_NS
        super().end(why, now_ns, ending)

    def grant(self, now_ns: int) -> None:
        """Send what has arrived, and the grant of ``now_ns``."""
        self.granted_ns = now_ns
        frames = [
            encode(LinkFrameKind.DATA, port, t_rx_ns, payload)
            for t_rx_ns, port, payload in self.vehicle.take()
        ]
        frames.append(encode(LinkFrameKind.GRANT, 0, now_ns))
        self.peer.send(b"".join(frames))

    def on_frames(self, frames: list[Frame]) -> bool:
        """Take frames of the daemon; True if it has done everything up to its grant. Raises
        :class:`LinkError` and Goodbye."""
        done = False
        world, granted_ns = self.vehicle.world, self.granted_ns
        for kind, port, t_ns, payload in frames:
            if kind is LinkFrameKind.BYE:
                raise Goodbye(payload.decode(errors="replace"))
            if kind not in (LinkFrameKind.DATA, LinkFrameKind.LINE, LinkFrameKind.DONE):
                raise LinkError(f"the daemon sent {kind.name}, which lockstep does not allow")
            if t_ns < granted_ns and kind is not LinkFrameKind.LINE:
                raise LinkError(
                    f"the daemon stamped {kind.name} {granted_ns - t_ns} ns before the granted "
                    "instant"
                )
            if kind is LinkFrameKind.DATA:
                world.on_frame(port, t_ns, payload)
            elif kind is LinkFrameKind.LINE:
                world.on_line(port, t_ns, decode_line(payload))
            else:
                self.due_ns = min(t_ns, granted_ns + HORIZON_NS)
                done = True
        return done


class FleetLockstep:
    """Run of a fleet."""

    def __init__(
        self, fleet: Fleet, members: list[Member], start_ns: int, timeout_s: float
    ) -> None:
        """``timeout_s``: time of the computer after which a daemon that does not answer is left
        behind."""
        self._fleet, self.members = fleet, members
        self.now_ns = start_ns
        """Simulated time that all have reached."""
        self._timeout_s = timeout_s
        self._by_descriptor = {member.peer.socket.fileno(): member for member in members}

    @property
    def running(self) -> list[Member]:
        """Members whose daemon runs."""
        return [member for member in self.members if member.ended_ns is None]

    def turn(self) -> bool:
        """Grant the next instant and wait until all have done it. False once no daemon runs."""
        running = self.running
        if not running:
            return False
        self.now_ns = min(member.due_ns for member in running)
        self._fleet.advance(self.now_ns)
        waiting = dict[int, Member]()
        for member in running:
            if member.vehicle.lost:
                member.end_lost(self.now_ns)
            elif member.due_ns == self.now_ns:
                descriptor = member.peer.socket.fileno()
                try:
                    member.grant(self.now_ns)
                    waiting[descriptor] = member
                except (LinkError, Goodbye) as error:
                    member.end_by(error, self.now_ns)
        if waiting:
            self._collect(waiting)
        return True

    def _collect(self, waiting: dict[int, Member]) -> None:
        """Take the answers of all daemons that were granted time, in whatever order."""
        poll = select.poll()
        for descriptor in waiting:
            poll.register(descriptor, select.POLLIN)
        begun_s = last_s = time.monotonic()
        while waiting:
            left_s = self._timeout_s - (time.monotonic() - begun_s)
            ready = poll.poll(max(left_s, 0.0) * 1e3)
            if len(waiting) == 1:
                (alone,) = waiting.values()
                now_s = time.monotonic()
                alone.awaited_s += now_s - last_s
                last_s = now_s
            if not ready and left_s <= 0.0:
                for member in waiting.values():
                    member.leave_behind(self._timeout_s, self.now_ns)
                return
            for descriptor, _ in ready:
                member = waiting[descriptor]
                try:
                    if not member.on_frames(member.peer.receive()):
                        continue
                except (LinkError, Goodbye) as error:
                    member.end_by(error, self.now_ns)
                poll.unregister(descriptor)
                del waiting[descriptor]
                last_s = time.monotonic()
