"""Lockstep loop of the simulator: time moves only when the daemon has finished everything up to
it."""

from sim_backend.connection import Goodbye, Peer
from sim_backend.world import World
from vehicled.core.link import LinkError, LinkFrameKind, decode_line, encode

HORIZON_NS = 1_000_000_000
"""Longest grant, ns; it bounds the data of one grant even if the daemon asks to be woken later."""


def run_lockstep(peer: Peer, world: World, start_ns: int) -> str:
    """Grant time until the daemon says goodbye; return its reason. Raises
    :class:`vehicled.core.link.LinkError`.

    One send per grant: all DATA that arrives up to the instant the daemon asked for, then the GRANT
    of that instant.
    """
    granted_ns = start_ns
    data = LinkFrameKind.DATA
    grant = LinkFrameKind.GRANT
    done = LinkFrameKind.DONE
    bye = LinkFrameKind.BYE
    try:
        while True:
            frames = [
                encode(data, port, t_rx_ns, payload)
                for t_rx_ns, port, payload in world.advance(granted_ns)
            ]
            frames.append(encode(grant, 0, granted_ns))
            peer.send(b"".join(frames))
            wake_ns = None
            while wake_ns is None:
                for kind, port, t_ns, payload in peer.receive():
                    if kind is data:
                        if t_ns < granted_ns:
                            raise LinkError(
                                f"the daemon stamped bytes {granted_ns - t_ns} ns before the "
                                "granted instant"
                            )
                        world.on_frame(port, t_ns, payload)
                    elif kind is LinkFrameKind.LINE:
                        world.on_line(port, t_ns, decode_line(payload))
                    elif kind is done:
                        if t_ns < granted_ns:
                            raise LinkError(
                                f"the daemon asked to be woken {granted_ns - t_ns} ns before "
                                "the granted instant"
                            )
                        wake_ns = t_ns
                    elif kind is bye:
                        return payload.decode(errors="replace")
                    else:
                        raise LinkError(
                            f"the daemon sent {kind.name}, which lockstep does not allow"
                        )
            granted_ns = min(wake_ns, granted_ns + HORIZON_NS)
    except Goodbye as goodbye:
        return str(goodbye)
