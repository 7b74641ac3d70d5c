"""Daemon of one vehicle of a fleet, on any clock."""

from sim_backend.connection import Goodbye, Peer
from sim_backend.fleet.fleet import FleetVehicle
from sim_backend.fleet.order import MemberEnding


class FleetDaemon:
    """Daemon of one vehicle, and how it ended."""

    vehicle: FleetVehicle

    def __init__(self, peer: Peer) -> None:
        self.peer = peer
        self.ended_ns: int | None = None
        self.why = ""
        """Reason why it ended; empty while it runs."""
        self.ending: MemberEnding = "goodbye"
        self.awaited_s = 0.0
        """Time of the computer for which all others had answered and it had not (lockstep)."""

    def end(self, why: str, now_ns: int, ending: MemberEnding) -> None:
        """Note the end of the daemon. The vehicle stays in the world and gets no more commands."""
        self.why, self.ended_ns, self.ending = why, now_ns, ending
        self.peer.socket.close()

    def end_by(self, error: Exception, now_ns: int) -> None:
        """Note the end that its link reports."""
        self.end(str(error), now_ns, "goodbye" if isinstance(error, Goodbye) else "broken")

    def end_lost(self, now_ns: int) -> None:
        """End the daemon of a vehicle that is simulated no longer."""
        self.peer.goodbye(self.vehicle.lost)
        self.end(self.vehicle.lost, now_ns, "lost")

    def leave_behind(self, silent_s: float, now_ns: int) -> None:
        """End a daemon that has been silent for too long."""
        text = f"its daemon has not answered for {silent_s:g} s of this computer's time"
        self.peer.goodbye(text)
        self.end(text, now_ns, "silent")
