"""Radio between real vehicles: age without a common clock, and what others may send."""

import json
import struct
from math import inf, isnan, nan
from typing import Any

import anyio
import msgspec
import pytest
from msgspec.structs import replace

from drivers.neighbours import PERIOD_NS
from drivers.v2v import device as v2v
from drivers.v2v.codec import HEAD, MAGIC, Broadcast, Receipt, decode, encode
from drivers.v2v.device import FORGET_NS, MAX_NEIGHBOURS, MAX_PER_S, V2vDevice, V2vParams
from tests.conformance.port_kit import now_ns as clock_ns
from tests.conformance.port_kit import serving, until
from tests.unit.test_port_udp import free_port
from vehicled.core.messages import (
    Event,
    Message,
    NeighbourState,
    PlannedMotion,
    PortState,
    StateEstimate,
)
from vehicled.core.ports import NEVER_NS, Send
from vehicled.core.wire.datagram import pack, unpack
from vehicled.runtime.ports import make_port
from vehicled.runtime.ports.address import UdpAddress, parse

S_NS = 10**9
AWAY_NS = 7 * 10**15
"""Difference of the clocks of the two vehicles."""


class Vehicle:
    """Radio with a clock of its own."""

    def __init__(self, name: str, clock_ns: int = 0, **params: Any) -> None:
        self.clock_ns = clock_ns
        self.device = V2vDevice(V2vParams(name=name, **params), [NeighbourState], 10**8)
        self.device.on_port(PortState.OPENED, "", clock_ns + S_NS)
        self.said: list[dict[str, Any]] = []

    def sends(self, now_ns: int, x_m: float = 1.0) -> bytes:
        """Return the datagram of a vehicle that drives and plans, as a record."""
        t_ns = now_ns + self.clock_ns
        fields = (0.0, 0.5), (x_m, x_m + 0.4), (2.0, 2.0), (0.5, 0.5), (0.9, 0.8)
        self.device.on_command(
            StateEstimate(t_ns, t_ns, x_m, 2.0, 0.5, 0.9, 0.1, (4e-4, 0.0, 0.0, 0.0) * 4), t_ns
        )
        self.device.on_command(PlannedMotion(t_ns, *fields), t_ns)
        self._take(self.device.on_time(t_ns))
        return b"".join(each.data for each in self.device.take_tx() if isinstance(each, Send))

    def receives(self, data: bytes, now_ns: int) -> list[NeighbourState]:
        return self._take(self.device.on_rx(data, now_ns + self.clock_ns))

    def _take(self, messages: Any) -> list[NeighbourState]:
        self.said += [
            {"name": each.name, **json.loads(each.fields)}
            for each in messages
            if isinstance(each, Event)
        ]
        return [each for each in messages if isinstance(each, NeighbourState)]

    def refused(self) -> dict[str, int]:
        use = self.device.usage.of(v2v.BROADCAST)
        return {loss.reason.value: count for loss, count in use.refused.items()}


def exchange(
    a: Vehicle, b: Vehicle, rounds: int, first: int = 20, *, there_ns: int = 3_000_000,
    back_ns: int = 40_000_000,
) -> list[NeighbourState]:  # fmt: skip
    """Let two vehicles broadcast to each other; return what ``a`` has accepted."""
    found = []
    for k in range(first, first + rounds):
        now_ns = k * PERIOD_NS
        to_b, to_a = a.sends(now_ns), b.sends(now_ns)
        b.receives(to_b, now_ns + there_ns)
        found += a.receives(to_a, now_ns + back_ns)
    return found


def test_a_state_is_dated_on_the_own_clock_without_a_common_one() -> None:
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    found = exchange(a, b, 10)
    assert len(found) == 9, "the first one holds no receipt"
    for k, state in enumerate(found, start=21):
        sent_ns = k * PERIOD_NS
        assert (state.sender, state.x_m, state.plan_x_m) == ("b", 1.0, (1.0, 1.4))
        assert state.t_rx_ns == sent_ns + 40_000_000
        # Older than it is by the way there, and never younger.
        assert state.t_ns == sent_ns - 3_000_000
        assert state.round_trip_s == pytest.approx(0.043)
    assert a.device.next_due_ns() < NEVER_NS
    exchange(a, b, 100, 30)
    links = [each for each in a.said if each["name"] == "neighbour_link"]
    assert links[0]["of"] == "b"
    assert links[0]["delay_ms"] == pytest.approx(43.0)
    assert links[0]["lost"] == 0


def test_clocks_that_drift_are_no_contradiction() -> None:
    """Over a fast network the bounds of one instant contradict those of 20 s later."""
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    for k in range(20, 620):
        now_ns = k * PERIOD_NS
        b.clock_ns = AWAY_NS + now_ns // 5000
        to_b, to_a = a.sends(now_ns), b.sends(now_ns)
        b.receives(to_b, now_ns + 100_000)
        found = a.receives(to_a, now_ns + 100_000)
        assert bool(found) == (k > 20)
        for state in found:
            assert abs(state.t_ns - now_ns) < 5_000_000
            assert state.t_ns <= state.t_rx_ns
            assert state.round_trip_s >= 0.0


def test_a_clock_that_jumps_begins_anew() -> None:
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    exchange(a, b, 3)
    b.clock_ns += S_NS
    later = exchange(a, b, 8, 23)
    assert a.refused()["contradiction"] >= 1
    assert later
    assert later[-1].t_ns == 30 * PERIOD_NS - 3_000_000


def test_lost_broadcasts_are_counted() -> None:
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    exchange(a, b, 3)
    b.sends(30 * PERIOD_NS)
    exchange(a, b, 100, 31)
    links = [each for each in a.said if each["name"] == "neighbour_link"]
    assert sum(each["lost"] for each in links) == 1


def test_a_state_without_a_bound_of_its_age_is_refused() -> None:
    """Also what was recorded and is sent again: its receipts are those of the past."""
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    found = [a.receives(b.sends(k * PERIOD_NS), k * PERIOD_NS) for k in range(20, 41)]
    assert not any(found)
    assert a.said == [], "the first receipts may still be on their way"
    assert not a.receives(b.sends(41 * PERIOD_NS), 41 * PERIOD_NS)
    assert a.refused() == {"one_way": 22}
    assert [each.get("reason") for each in a.said] == ["one_way"]
    assert exchange(a, b, 3, 42)
    record = b.sends(50 * PERIOD_NS)
    assert len(a.receives(record, 50 * PERIOD_NS + 1)) == 1
    assert a.receives(record, 50 * PERIOD_NS + 2) == [], "the same number again"
    a.sends(100 * PERIOD_NS)
    later = replace(decoded(record), began_ns=AWAY_NS + 2 * S_NS)
    assert a.receives(packed(later), 100 * PERIOD_NS) == [], "after a silence, as another radio"
    assert a.refused()["repeated"] == 1


def test_a_state_that_was_held_up_is_refused() -> None:
    a, b = Vehicle("a", max_age_s=0.5), Vehicle("b", AWAY_NS)
    exchange(a, b, 3)
    late = b.sends(30 * PERIOD_NS)
    a.sends(35 * PERIOD_NS)
    assert a.receives(late, 30 * PERIOD_NS + 490_000_000)
    later = b.sends(36 * PERIOD_NS)
    assert not a.receives(later, 36 * PERIOD_NS + 510_000_000)
    assert a.refused()["too_old"] == 1


def decoded(record: bytes) -> Broadcast:
    return decode(unpack(record)[0][0])


def packed(broadcast: Broadcast) -> bytes:
    return pack(encode(broadcast))


def test_two_vehicles_of_one_name_are_said() -> None:
    a, b, twin, namesake = (
        Vehicle("a"), Vehicle("b", AWAY_NS), Vehicle("b", 3 * AWAY_NS), Vehicle("a", AWAY_NS)
    )  # fmt: skip
    exchange(a, b, 3)
    exchange(a, twin, 3, 23)
    assert a.receives(b.sends(26 * PERIOD_NS), 26 * PERIOD_NS), "the first one stays"
    assert a.receives(namesake.sends(27 * PERIOD_NS), 27 * PERIOD_NS) == []
    assert a.refused()["name_taken"] == 4
    assert {each["of"] for each in a.said if each.get("reason") == "name_taken"} == {"a", "b"}
    # After a silence, as when the daemon has started again, the name is free.
    later = 27 + FORGET_NS // PERIOD_NS + 1
    assert exchange(a, twin, 3, later)


def test_the_own_broadcasts_that_a_group_returns_are_nobody() -> None:
    a = Vehicle("a")
    assert a.receives(a.sends(20 * PERIOD_NS), 20 * PERIOD_NS + 1) == []
    assert a.refused() == {}
    assert a.said == []


def hostile() -> dict[str, tuple[bytes, str]]:
    """Datagrams by what is wrong, with the reason of their refusal."""
    b = Vehicle("b", AWAY_NS)
    good = decoded(b.sends(20 * PERIOD_NS))
    now_ns = good.sent_ns

    def state(**changes: Any) -> bytes:
        return encode(replace(good, state=replace(good.state, **changes)))

    long_ints = HEAD + msgspec.msgpack.encode(["", "b", 2**63, 2**63, list("x"), []])
    return {
        "garbage": (bytes(range(256)), "unreadable"),
        "empty": (b"", "unreadable"),
        "another version": (MAGIC + b"\x02" + encode(good)[3:], "unreadable"),
        "truncated": (encode(good)[:-9], "unreadable"),
        "oversized": (encode(good) + bytes(5000), "unreadable"),
        "deep nesting": (HEAD + b"\x91" * 3000, "unreadable"),
        "a promised array": (HEAD + b"\xdd" + struct.pack(">I", 2**32 - 1), "unreadable"),
        "long integers": (long_ints, "unreadable"),
        "another fleet": (encode(replace(good, fleet="them")), "foreign"),
        "a name for a terminal": (encode(replace(good, sender="b\x1b[2J")), "out_of_range"),
        "no name": (encode(replace(good, sender="")), "out_of_range"),
        "NaN place": (state(x_m=nan), "out_of_range"),
        "infinite yaw rate": (state(yaw_rate_radps=inf), "out_of_range"),
        "NaN in the plan": (state(plan_x_m=(1.0, nan)), "out_of_range"),
        "a plan that goes back": (state(plan_time_s=(1.0, 0.5)), "out_of_range"),
        "a plan of other lengths": (state(plan_time_s=(1.0,)), "out_of_range"),
        "a measurement of the future": (state(t_ns=now_ns + S_NS), "out_of_range"),
        "sent before its start": (encode(replace(good, began_ns=now_ns + 1)), "out_of_range"),
        "negative time": (encode(replace(good, began_ns=-1)), "out_of_range"),
        "huge times": (
            encode(replace(good, began_ns=0, sent_ns=2**62)), "out_of_range"
        ),
    }  # fmt: skip


HOSTILE = hostile()


@pytest.mark.parametrize("what", HOSTILE)
def test_what_cannot_be_used_is_counted_and_said_once(what: str) -> None:
    data, reason = HOSTILE[what]
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    exchange(a, b, 3)
    for k in range(3):
        assert a.receives(pack(data), 23 * PERIOD_NS + k) == []
    assert a.refused() == {"one_way": 1, reason: 3}
    assert [each.get("reason") for each in a.said].count(reason) == 1
    assert all(str(value).isprintable() for each in a.said for value in each.values())
    assert len(exchange(a, b, 3, 24)) == 3, "what follows is read as before"


def test_receipts_that_nobody_can_have_bound_nothing() -> None:
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    a.sends(20 * PERIOD_NS)
    good = decoded(b.sends(20 * PERIOD_NS))
    began_ns = S_NS
    for receipt in (
        Receipt("a", began_ns, 90 * PERIOD_NS, 0),
        Receipt("a", began_ns + 1, 20 * PERIOD_NS, 0),
        Receipt("c", began_ns, 20 * PERIOD_NS, 0),
        Receipt("a", began_ns, 20 * PERIOD_NS, good.sent_ns + 1),
    ):
        assert a.receives(packed(replace(good, receipts=[receipt])), 20 * PERIOD_NS + 1) == []
        good = replace(good, state=replace(good.state, sequence=good.state.sequence + 1))
    assert a.refused() == {"one_way": 4}
    # One that would make the state younger than the way of the message allows.
    lie = Receipt("a", began_ns, 20 * PERIOD_NS, 5)
    assert a.receives(packed(replace(good, receipts=[lie])), 20 * PERIOD_NS + 1) == []
    assert a.refused()["contradiction"] == 1


def test_a_flood_is_cut_and_names_are_bounded() -> None:
    a, b = Vehicle("a"), Vehicle("b", AWAY_NS)
    exchange(a, b, 3)
    good = decoded(b.sends(23 * PERIOD_NS))
    flood = b"".join(packed(replace(good, sender=f"v{k}", receipts=[])) for k in range(1000))
    for _ in range(100):
        assert a.receives(flood, 23 * PERIOD_NS) == []
    assert a.refused()["too_many"] > 100_000 - MAX_PER_S
    assert len(a.device._neighbours) == MAX_NEIGHBOURS
    assert len(a.said) <= MAX_NEIGHBOURS + 5
    assert len(exchange(a, b, 3, 34)) == 3, "in the next second it reads again"


def test_a_group_of_equals_is_one_address() -> None:
    found = parse("udp:239.255.76.86:7686?interface=192.168.1.5&ttl=2")
    assert isinstance(found, UdpAddress)
    assert (found.listen, found.group, found.source, found.ttl) == (7686, found.host, "any", 2)


@pytest.mark.anyio
async def test_two_radios_talk_through_a_group_and_survive_others() -> None:
    """They run on both event loops, over the loopback interface."""
    place = f"udp:239.255.76.86:{free_port()}?interface=127.0.0.1&ttl=0"
    a, b = Vehicle("a"), Vehicle("b")
    ports = [make_port(name, place) for name in ("a", "b", "other")]
    async with serving(ports[0]) as at_a, serving(ports[1]) as at_b, serving(ports[2]) as other:
        for host in (at_a, at_b, other):
            while not host.states:  # noqa: ASYNC110 - as in ``until``
                await anyio.sleep(0.001)
            if host.states != [PortState.OPENED]:
                pytest.skip("no multicast here")
        accepted, read = list[NeighbourState](), [0, 0]
        junk = b"".join(pack(data) for data, _ in HOSTILE.values())

        def exchanged() -> bool:
            now_ns = clock_ns()
            for k, (own, host) in enumerate(((a, at_a), (b, at_b))):
                if record := own.sends(now_ns):
                    ports[2].send(junk, NEVER_NS, now_ns)
                    ports[k].send(record, NEVER_NS, now_ns)
                new = host.received[read[k] :]
                read[k] += len(new)
                found = own.receives(new, now_ns)
                accepted.extend(found if own is a else [])
            return len(accepted) > 3

        await until(exchanged)
    assert {each.sender for each in accepted} == {"b"}
    assert not any(isnan(each.round_trip_s) for each in accepted)
    assert a.refused()["unreadable"] > 0
    assert isinstance(accepted[0], Message)
