"""Driver of the radio between vehicles: broadcasts the own state by datagrams, and checks those of
others. See NOTES.md.

What others send cannot be trusted, so it is bounded in every respect: rate, size, number of names,
values, age. Nothing of it reaches more than the controller.
"""

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar

from msgspec import Meta, Struct
from msgspec.structs import replace

from drivers.neighbours import CONSUMED, OwnState, problem_of
from drivers.v2v.codec import (
    MAX_RECEIPTS,
    Broadcast,
    ClockOffset,
    Receipt,
    V2vError,
    decode,
    encode,
)
from vehicled.core.messages import Event, Message, NeighbourState, PortState
from vehicled.core.ports import NEVER_NS, Action, Device, Send, Transport
from vehicled.core.wire.datagram import datagram_reader, pack
from vehicled.core.wire.usage import MessageUsage, Unused

NAME = r"^[a-z0-9][a-z0-9_-]{0,31}$"
Name = Annotated[
    str,
    Meta(
        pattern=NAME,
        description="1 to 32 small letters, digits, - and _, first a letter or a digit",
    ),
]
MAX_PER_S = 500
"""Most datagrams that are decoded in a second: 50 vehicles at 10 Hz."""
MAX_NEIGHBOURS = 64
MAX_NS = 2**62
"""Largest time on a clock: sums of two fit into a message."""
FORGET_NS = 2_000_000_000
"""Silence after which another radio may take the name of a neighbour, and age from which a receipt
says nothing of the present."""
DRIFT_NS = 5_000_000
"""Most by which clocks drift apart within the windows of :class:`ClockOffset`: 250 ppm."""
REPORT_NS = 10_000_000_000
"""Interval of the events about the links."""
BROADCAST = "broadcast"
"""Name in the account of the port."""


class V2vParams(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Parameters of the radio."""

    name: Name
    """Name of this vehicle; no other one on the air may have it."""
    fleet: Annotated[str, Meta(max_length=32)] = ""
    """Name of the fleet: broadcasts of others are ignored. All vehicles of a fleet need one map."""
    max_age_s: Annotated[float, Meta(ge=0.1, le=10.0)] = 1.0
    """Age from which a state is refused, s."""


class _RefusedError(Exception):
    """Broadcast that is not used."""

    def __init__(self, reason: Unused, field: str, of: str, *, said: bool = True) -> None:
        self.reason, self.field, self.of, self.said = reason, field, of, said


class _Neighbour:
    """Radio of another vehicle."""

    def __init__(self, began_ns: int, first_ns: int) -> None:
        self.began_ns = began_ns
        self.first_ns = first_ns
        """Time at which it was first received."""
        self.clock = ClockOffset()
        self.sequence = 0
        self.sent_ns = 0
        """Time of its newest broadcast, on its clock."""
        self.received_ns = 0
        self.receipt_ns = -FORGET_NS
        """Own time of the newest of our broadcasts that it is known to have received."""
        self.accepted = self.refused = self.lost = 0
        """Broadcasts since the last report: those refused have arrived too late, or are not
        answered by receipts."""
        self.delay_sum_ns = self.delay_max_ns = 0


class V2vDevice(Device):
    """Radio on a multicast group of UDP."""

    produces: ClassVar[tuple[type[Message], ...]] = (NeighbourState, Event)
    consumes: tuple[type[Message], ...] = CONSUMED
    transport: ClassVar[Transport] = "datagrams"
    Params: ClassVar[type[V2vParams]] = V2vParams

    def __init__(
        self, params: V2vParams, messages: Sequence[type[Message]], command_lifetime_ns: int
    ) -> None:
        """A broadcast that has not left after ``command_lifetime_ns`` is dropped."""
        self.params = params
        self._lifetime_ns = command_lifetime_ns
        self._own = OwnState()
        self._began_ns = 0
        self._sent_ns = 0
        self._neighbours: dict[str, _Neighbour] = {}
        self._datagrams = datagram_reader()
        self._second = self._in_second = 0
        self._turn = 0
        self._report_ns = NEVER_NS
        self._said: set[tuple[str, str]] = set()
        self._tx: list[Action] = []
        self.usage = MessageUsage()

    # ---------------------------------------------------------------- port

    def on_port(self, state: PortState, detail: str, now_ns: int) -> Sequence[Message]:
        self._tx.clear()
        if state is PortState.OPENED:
            # A port that opens again is the same radio.
            self._began_ns = self._began_ns or now_ns
            self._datagrams = datagram_reader()
            self._report_ns = now_ns + REPORT_NS
        self._own.begin(now_ns)
        return ()

    def on_rx(self, data: bytes, t_rx_ns: int) -> Sequence[Message]:
        found: list[Message] = []
        for datagram in self._datagrams.feed(data):
            if self._over_rate(t_rx_ns):
                self.usage.refuse(BROADCAST, Unused.TOO_MANY)
                continue
            try:
                state = self._state(decode(datagram), t_rx_ns)
            except V2vError as error:
                self.usage.refuse(BROADCAST, Unused.UNREADABLE, str(error))
            except _RefusedError as refused:
                found += self._refuse(refused, t_rx_ns)
            else:
                if state is not None:
                    self.usage.use(BROADCAST)
                    found.append(state)
        if self.usage.news:
            found += self.usage.take_events(t_rx_ns, "v2v")
        return found

    def on_command(self, command: Message, now_ns: int) -> None:
        self._own.on_command(command)

    def next_due_ns(self) -> int:
        return min(self._own.due_ns, self._report_ns)

    def on_time(self, now_ns: int) -> Sequence[Message]:
        state = self._own.take(now_ns)
        if state is not None:
            self._sent_ns = now_ns
            broadcast = Broadcast(
                self.params.fleet, self.params.name, self._began_ns, now_ns, state,
                self._receipts(now_ns),
            )  # fmt: skip
            self._tx.append(Send(pack(encode(broadcast)), now_ns + self._lifetime_ns))
        if now_ns < self._report_ns:
            return ()
        self._report_ns = now_ns + REPORT_NS
        return self._report(now_ns)

    def take_tx(self) -> Sequence[Action]:
        if not self._tx:
            return ()
        tx, self._tx = self._tx, []
        return tx

    # ---------------------------------------------------------------- reception

    def _over_rate(self, t_rx_ns: int) -> bool:
        second = t_rx_ns // 1_000_000_000
        if second != self._second:
            self._second, self._in_second = second, 0
        self._in_second += 1
        return self._in_second > MAX_PER_S

    def _state(self, broadcast: Broadcast, t_rx_ns: int) -> NeighbourState | None:
        """Return the state on the own clock; None for what was sent here. Raises
        :class:`_RefusedError`."""
        name = broadcast.sender
        if broadcast.fleet != self.params.fleet:
            raise _RefusedError(Unused.FOREIGN, "fleet", broadcast.fleet)
        if name == self.params.name:
            if broadcast.began_ns != self._began_ns:
                raise _RefusedError(Unused.NAME_TAKEN, "sender", name)
            return None  # the group returns it
        if problem := _impossible(broadcast):
            raise _RefusedError(Unused.OUT_OF_RANGE, problem, name)
        neighbour = self._neighbour(broadcast, t_rx_ns)
        if broadcast.state.sequence <= neighbour.sequence:
            raise _RefusedError(Unused.REPEATED, "sequence", name)
        self._count(neighbour, broadcast, t_rx_ns)
        clock = neighbour.clock
        if clock.round_trip_ns < -DRIFT_NS:
            # The clock of one of the two has jumped.
            del self._neighbours[name]
            raise _RefusedError(Unused.CONTRADICTION, "clock", name)
        if t_rx_ns - neighbour.receipt_ns > FORGET_NS:
            # The first receipts are still on their way.
            new = t_rx_ns - neighbour.first_ns <= FORGET_NS
            raise _RefusedError(Unused.ONE_WAY, "receipts", name, said=not new)
        # The lower bound makes it older than it is, by the round trip at most.
        offset_ns = round(clock.lower_ns)
        delay_ns = max(t_rx_ns - broadcast.sent_ns - offset_ns, 0)
        t_ns = min(broadcast.state.t_ns + offset_ns, t_rx_ns)
        if t_rx_ns - t_ns > self.params.max_age_s * 1e9:
            raise _RefusedError(Unused.TOO_OLD, "state", name)
        neighbour.refused -= 1
        neighbour.accepted += 1
        neighbour.delay_sum_ns += delay_ns
        neighbour.delay_max_ns = max(neighbour.delay_max_ns, delay_ns)
        return replace(
            broadcast.state,
            t_ns=t_ns,
            t_rx_ns=t_rx_ns,
            sender=name,
            round_trip_s=max(clock.round_trip_ns * 1e-9, 0.0),
        )

    def _neighbour(self, broadcast: Broadcast, t_rx_ns: int) -> _Neighbour:
        """Return the radio of the sender, a new one for a name that is free. Raises
        :class:`_RefusedError`."""
        name, known = broadcast.sender, self._neighbours.get(broadcast.sender)
        if known is not None and known.began_ns == broadcast.began_ns:
            return known
        if known is not None and t_rx_ns - known.received_ns < FORGET_NS:
            raise _RefusedError(Unused.NAME_TAKEN, "sender", name)
        if known is None and len(self._neighbours) >= MAX_NEIGHBOURS:
            silent = [
                other
                for other, each in self._neighbours.items()
                if t_rx_ns - each.received_ns > FORGET_NS
            ]
            if not silent:
                raise _RefusedError(Unused.TOO_MANY, "sender", name)
            del self._neighbours[silent[0]]
        self._neighbours[name] = found = _Neighbour(broadcast.began_ns, t_rx_ns)
        return found

    def _count(self, neighbour: _Neighbour, broadcast: Broadcast, t_rx_ns: int) -> None:
        """Take number, times and receipts of a broadcast."""
        number = broadcast.state.sequence
        if neighbour.sequence:
            neighbour.lost += number - neighbour.sequence - 1
        neighbour.refused += 1
        neighbour.sequence = number
        neighbour.sent_ns, neighbour.received_ns = broadcast.sent_ns, t_rx_ns
        neighbour.clock.observe(t_rx_ns, upper_ns=t_rx_ns - broadcast.sent_ns)
        for receipt in broadcast.receipts[:MAX_RECEIPTS]:
            own = receipt.name == self.params.name and receipt.began_ns == self._began_ns
            # Nobody has received what was not sent yet, nor before it says so.
            recent = t_rx_ns - FORGET_NS < receipt.sent_ns <= self._sent_ns
            if own and recent and receipt.received_ns <= broadcast.sent_ns:
                neighbour.clock.observe(t_rx_ns, lower_ns=receipt.sent_ns - receipt.received_ns)
                neighbour.receipt_ns = max(neighbour.receipt_ns, receipt.sent_ns)

    def _refuse(self, refused: "_RefusedError", t_rx_ns: int) -> list[Message]:
        """Count a broadcast that is not used, and say so once for each vehicle."""
        self.usage.refuse(BROADCAST, refused.reason, refused.field, reported=True)
        key = refused.reason.value, refused.of
        if not refused.said or key in self._said or len(self._said) >= MAX_NEIGHBOURS:
            return []
        self._said.add(key)
        # People will read it on a terminal.
        of = refused.of[:32] if refused.of.isprintable() else ascii(refused.of[:32])
        facts = {"reason": refused.reason, "field": refused.field, "of": of}
        return [Event.of(t_rx_ns, "warning", "neighbour_refused", **facts)]

    # ---------------------------------------------------------------- sending

    def _receipts(self, now_ns: int) -> list[Receipt]:
        known = [
            Receipt(name, each.began_ns, each.sent_ns, each.received_ns)
            for name, each in self._neighbours.items()
            if now_ns - each.received_ns < FORGET_NS
        ]
        if len(known) <= MAX_RECEIPTS:
            return known
        self._turn = (self._turn + MAX_RECEIPTS) % len(known)
        return (known[self._turn :] + known[: self._turn])[:MAX_RECEIPTS]

    def _report(self, now_ns: int) -> list[Message]:
        """Return one event for each link on which something arrived since the last report."""
        found: list[Message] = []
        for name, each in self._neighbours.items():
            if not each.accepted + each.refused:
                continue
            facts: dict[str, Any] = {
                "of": name, "received": each.accepted, "refused": each.refused, "lost": each.lost
            }  # fmt: skip
            if each.accepted:
                facts["delay_ms"] = round(each.delay_sum_ns * 1e-6 / each.accepted, 3)
                facts["delay_max_ms"] = round(each.delay_max_ns * 1e-6, 3)
                facts["round_trip_ms"] = round(max(each.clock.round_trip_ns * 1e-6, 0.0), 3)
            found.append(Event.of(now_ns, "info", "neighbour_link", **facts))
            each.accepted = each.refused = each.lost = each.delay_sum_ns = each.delay_max_ns = 0
        return found


def _impossible(broadcast: Broadcast) -> str:
    """Return the field that cannot be true; empty if all can."""
    if not re.fullmatch(NAME, broadcast.sender):
        return "sender"
    times = [broadcast.began_ns, broadcast.sent_ns, broadcast.state.t_ns]
    times += [t_ns for each in broadcast.receipts for t_ns in (each.sent_ns, each.received_ns)]
    if not all(0 <= t_ns < MAX_NS for t_ns in times):
        return "time"
    if not broadcast.began_ns <= broadcast.sent_ns or broadcast.state.t_ns > broadcast.sent_ns:
        return "order of times"
    return problem_of(broadcast.state)
