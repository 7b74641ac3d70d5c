"""Every position of the receiver becomes exactly one fix, whatever else is lost, repeated,
reordered or cut."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.ublox.codec import encode
from drivers.ublox.device import UbloxDevice
from drivers.ublox.layouts import NavCov, NavDop, NavEoe, NavHpposllh, NavPvt
from drivers.ublox.nmea import Gga, Gst, Rmc, Vtg, Zda
from drivers.ublox.settings import Params
from tests.examples import examples
from vehicled.core.messages import GnssFix, Message

S = 1_000_000_000
MS = 1_000_000
EPOCHS = 12


def nmea_epoch(number: int, period_ms: int) -> dict[str, Any]:
    time_ms = (86_400_000 - 5 * period_ms + number * period_ms) % 86_400_000
    return {
        "RMC": Rmc("GN", time_ms, True, 45.0, 7.0, 3.6, 30.0, date(2025, 4, 11), "R"),
        "VTG": Vtg("GN", 30.0, 3.6, 6.7, "D"),
        "GGA": Gga("GN", time_ms, 45.0, 7.0, 4, 17, 0.82, 257.4, 47.2, 0.8, 41),
        "GST": Gst("GN", time_ms, 12.0, 0.02, 0.03, 0.05),
        "ZDA": Zda("GN", time_ms, date(2025, 4, 11)),
    }


def ubx_epoch(number: int, period_ms: int) -> dict[str, Any]:
    itow_ms = (604_800_000 - 5 * period_ms + number * period_ms) % 604_800_000
    sound = (2025, 4, 11, 23, 14, 37, 0x37, 21, -172_938, 3, 0x43, 0xEA, 25, 76_590_724,
        450_657_724, 303_638, 256_403, 80, 84,
             -13, 12, 52, 17, 19_004_270, 191, 18_000_000, 144, 4)  # fmt: skip
    return {
        "DOP": NavDop(itow_ms, 200, 180, 90, 117, 82, 60, 50),
        "HPPOSLLH": NavHpposllh(
            0, 0, itow_ms, 76_590_724, 450_657_724, 303_638, 256_403, -37, 45, -9, 8, 142, 101
        ),
        "PVT": NavPvt(itow_ms, *sound),
        "COV": NavCov(
            itow_ms,
            0,
            1,
            1,
            4.0,
            -0.5,
            0.25,
            1.0,
            -0.75,
            9.0,
            0.04,
            0.001,
            0.002,
            0.01,
            0.003,
            0.09,
        ),
        "EOE": NavEoe(itow_ms),
    }


@examples(30)
@given(
    data=st.data(),
    protocol=st.sampled_from(["nmea", "ubx"]),
    period_ms=st.sampled_from([50, 100, 200, 1000]),
)
def test_as_many_fixes_as_positions(data: st.DataObject, protocol: Any, period_ms: int) -> None:
    make, anchor = (nmea_epoch, "GGA") if protocol == "nmea" else (ubx_epoch, "PVT")
    order = data.draw(st.permutations(list(make(0, period_ms))), "order in an epoch")
    kinds = order[: data.draw(st.integers(1, len(order)), "kinds that the receiver sends")]
    wire: list[tuple[int, bytes]] = []
    positions = set()
    for number in range(EPOCHS):
        messages = make(number, period_ms)
        for place, kind in enumerate(kinds):
            copies = data.draw(st.sampled_from([1, 1, 1, 0, 2]), "copies")
            for _ in range(copies):
                late_ms = data.draw(
                    st.sampled_from([0, 0, 0, 3, period_ms, 2 * period_ms]), "lateness"
                )
                at_ms = number * period_ms + place * min(8, period_ms // 6) + min(late_ms, 400)
                wire.append((at_ms, encode(messages[kind])))
                if kind == anchor:
                    positions.add(number)
    receiver = UbloxDevice(Params(configure=False, protocol=protocol), [GnssFix], 1)
    reported: list[Message] = []
    for at_ms, frame in sorted(wire, key=lambda each: each[0]):
        now_ns = S + at_ms * MS
        while receiver.next_due_ns() <= now_ns:
            reported += receiver.on_time(receiver.next_due_ns())
        cut = data.draw(st.integers(0, len(frame)), "cut")
        reported += [*receiver.on_rx(frame[:cut], now_ns), *receiver.on_rx(frame[cut:], now_ns)]
    reported += receiver.on_time(S + (EPOCHS * period_ms + 1000) * MS)
    fixes = [message for message in reported if isinstance(message, GnssFix)]
    assert len(fixes) == len(positions)


@pytest.mark.parametrize("protocol", ["nmea", "ubx"])
@pytest.mark.parametrize("lost", ["GGA", "GST", "PVT", "EOE"])
def test_a_loss_delays_no_other_epoch(protocol: Any, lost: str) -> None:
    """Each fix leaves with the last message of its own epoch, but for the epoch with the loss,
    which the timeout ends."""
    make = nmea_epoch if protocol == "nmea" else ubx_epoch
    receiver = UbloxDevice(
        Params(configure=False, protocol=protocol, epoch_timeout_ms=40.0), [GnssFix], 1
    )
    lateness_ms = []
    for number in range(EPOCHS):
        for place, (kind, message) in enumerate(make(number, 200).items()):
            now_ns = S + (number * 200 + place * 8) * MS
            while receiver.next_due_ns() <= now_ns:
                due_ns = receiver.next_due_ns()
                lateness_ms += [
                    due_ns // MS % 200
                    for each in receiver.on_time(due_ns)
                    if isinstance(each, GnssFix)
                ]
            if number % 3 or kind != lost:
                found = receiver.on_rx(encode(message), now_ns)
                lateness_ms += [now_ns // MS % 200 for each in found if isinstance(each, GnssFix)]
    assert all(lateness <= 16 + 40 for lateness in lateness_ms)
    assert sum(lateness <= 32 for lateness in lateness_ms) >= EPOCHS * 2 // 3 - 1
