"""Transport of a wall-clock run over the simulator link: all ports on one stream."""

import select
import time
from collections.abc import Sequence
from functools import partial

from vehicled.core.events import SimulationStall
from vehicled.core.journal import Sink
from vehicled.core.link import (
    PACE_BEAT_NS,
    LinkFrameKind,
    decode_lost,
    decode_reason,
    encode,
    encode_lost,
)
from vehicled.core.link_time import PacedTime
from vehicled.core.messages import Fault, PortState, Reaction
from vehicled.core.observers import Observers
from vehicled.core.ports import Send
from vehicled.daemon.machine import Outgoing
from vehicled.runtime.clock import PacedClock, RunClock, Stall
from vehicled.runtime.connection import Link, LinkClosedError
from vehicled.runtime.host import Host
from vehicled.runtime.readable import while_readable
from vehicled.runtime.reopening import Reopening

HEARTBEAT_NS = 50_000_000


class LinkTransport:
    """Transport over the simulator link. Losing the link ends the run."""

    def __init__(
        self,
        link: Link,
        sink: Sink,
        silence_s: float,
        ports: Sequence[str] | None = None,
        clock: RunClock | None = None,
        observers: Observers | None = None,
    ) -> None:
        """Take the link. It is lost after ``silence_s`` without data; ``ports`` limits the ports
        that it carries.

        A :class:`PacedClock` follows the GRANTs of the simulator.
        """
        self._report = (observers or Observers()).guard("stall reports", self._record_stalls, None)
        self._clock = clock or RunClock()
        self._paced = self._clock if isinstance(self._clock, PacedClock) else None
        self._beat_ns = PACE_BEAT_NS if self._paced is not None else HEARTBEAT_NS
        self._link = link
        self._ports = link.ports if ports is None else ports
        self._sink = sink
        self._silence_ns = round(silence_s * 1e9)
        self._last_rx_ns = time.monotonic_ns()
        self._time = PacedTime(link.opened_ns)
        self._heartbeat_ns = 0
        self._named_ns = 0
        """Time of the run in the last heartbeat."""
        self._poll = select.poll()
        self._poll.register(link.sock, select.POLLIN)
        if self._paced is not None:
            self._paced.unread = self._is_unread
        self._reopening: Reopening | None = None
        self.expired = 0
        """Number of frames dropped because their deadline had passed."""

    async def serve(self, host: Host) -> None:
        """Read until cancelled. Raises :class:`LinkClosedError` if the simulator is gone or
        violates the protocol."""
        link = self._link
        self._reopening = Reopening(host)
        link.sock.setblocking(False)
        self._last_rx_ns = time.monotonic_ns()
        self._time.begin(self._last_rx_ns)
        for port in self._ports:
            host.on_port(port, PortState.OPENED, "simulator link", self._clock.now_ns())
        await while_readable(link.sock.fileno(), partial(self._read, host))

    def _read(self, host: Host) -> None:
        link = self._link
        now_ns = self._clock.now_ns()
        frames = link.receive()
        if frames:
            # Only whole frames count: a link that carries a byte now and then is silent.
            self._last_rx_ns = time.monotonic_ns()
        for kind, number, t_ns, payload in frames:
            if kind is LinkFrameKind.DATA:
                if number >= len(link.ports):
                    raise LinkClosedError(
                        f"the simulator sent bytes for port number {number}, which it does not have"
                    )
                host.on_rx(link.ports[number], payload, now_ns)
            elif kind is LinkFrameKind.GRANT and self._paced is not None:
                lost_ns = decode_lost(payload)
                self._time.check(t_ns, lost_ns, self._named_ns, now_ns, self._last_rx_ns)
                self._report(self._paced.on_grant(t_ns, lost_ns))
                now_ns = self._clock.now_ns()
            elif kind is LinkFrameKind.SYNC:
                link.offer(
                    encode(
                        LinkFrameKind.SYNC,
                        0,
                        time.monotonic_ns(),
                        t_ns.to_bytes(8, "little", signed=True),
                    )
                )
            elif kind is LinkFrameKind.BYE:
                raise LinkClosedError(f"the simulator ended the run: {decode_reason(payload)}")

    def transmit(self, outgoing: Sequence[Outgoing], now_ns: int) -> None:
        """Send frames within their deadlines and a heartbeat; detect a silent simulator."""
        # Use monotonic time, because a paced clock pauses while the simulator is silent.
        monotonic_ns = now_ns if self._paced is None else time.monotonic_ns()
        # Unread bytes mean that this process stalled, not the simulator.
        if monotonic_ns - self._last_rx_ns > self._silence_ns and not self._is_unread():
            raise LinkClosedError(
                f"the simulator has been silent for {(monotonic_ns - self._last_rx_ns) / 1e9:.2f} s"
            )
        if self._reopening is not None:
            self._reopening.on_outgoing(outgoing, now_ns)
            self._reopening.on_time(now_ns)
        if self._paced is not None:
            self._time.progress(self._last_rx_ns, self._silence_ns)
        out = []
        for item in outgoing:
            action = item.action
            if isinstance(action, Send) and now_ns > action.deadline_ns:
                self.expired += 1
                why = (
                    f"a frame for {item.port} was {(now_ns - action.deadline_ns) / 1e6:.1f} ms "
                    "past its deadline"
                )
                self._sink.record(
                    Fault(now_ns, "frame_expired", item.port, Reaction.WARN, True, why), now_ns
                )
                continue
            out.append(self._link.encode(item))
        if monotonic_ns >= self._heartbeat_ns:
            self._heartbeat_ns = monotonic_ns + self._beat_ns
            if self._paced is None:
                out.append(encode(LinkFrameKind.DONE, 0, now_ns))
            else:
                out.append(encode_lost(LinkFrameKind.DONE, now_ns, self._paced.own_lost_ns))
                self._paced.on_heartbeat()
                self._named_ns = now_ns
        self._link.offer(b"".join(out))

    async def aclose(self) -> None:
        """Do nothing: the owner of the link closes it."""
        if self._paced is not None:
            self._report(self._paced.finish())

    def _is_unread(self) -> bool:
        return bool(self._poll.poll(0))

    def _record_stalls(self, stalls: Sequence[Stall]) -> None:
        for stall in stalls:
            facts = SimulationStall(stall.process, round(stall.duration_ns / 1e6, 1))
            self._sink.record(facts.event(stall.t_ns), self._clock.now_ns())
