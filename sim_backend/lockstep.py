"""The lockstep pump: a synchronous loop on the socket. Time moves only when the daemon has done everything up to it."""

from sim_backend.connection import Goodbye, Peer
from sim_backend.world import World
from vehicled.link import Kind, LinkError, decode_line, encode

HORIZON_NS = 1_000_000_000
"""A daemon that asks to be woken later than this after the last grant is granted this much: it bounds what one grant can hold."""


def run_lockstep(peer: Peer, world: World, start_ns: int) -> str:
    """Grant until the daemon says goodbye; returns its reason. Raises :class:`vehicled.link.LinkError`.

    One send per grant: all DATA that arrives up to the instant for which the daemon asked, then the GRANT of that instant.
    """
    granted_ns = start_ns
    data, grant, done, bye = Kind.DATA, Kind.GRANT, Kind.DONE, Kind.BYE
    try:
        while True:
            frames = [encode(data, port, t_rx_ns, payload) for t_rx_ns, port, payload in world.advance(granted_ns)]
            frames.append(encode(grant, 0, granted_ns))
            peer.send(b"".join(frames))
            wake_ns = None
            while wake_ns is None:
                for kind, port, t_ns, payload in peer.receive():
                    if kind is data:
                        if t_ns < granted_ns:
                            raise LinkError(f"the daemon stamped bytes {granted_ns - t_ns} ns before the instant it was granted")
                        world.on_frame(port, t_ns, payload)
                    elif kind is Kind.LINE:
                        world.on_line(port, t_ns, decode_line(payload))
                    elif kind is done:
                        if t_ns < granted_ns:
                            raise LinkError(f"the daemon asked to be woken {granted_ns - t_ns} ns before the instant granted")
                        wake_ns = t_ns
                    elif kind is bye:
                        return payload.decode(errors="replace")
                    else:
                        raise LinkError(f"the daemon sent {kind.name}, which has no place in lockstep")
            granted_ns = min(wake_ns, granted_ns + HORIZON_NS)
    except Goodbye as goodbye:
        return str(goodbye)
