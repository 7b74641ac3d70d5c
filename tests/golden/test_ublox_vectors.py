"""Bytes on which another program agrees: pyubx2 1.4.0 for UBX, a plain loop for the sums of
sentences. They never change."""

import pytest

from drivers.ublox.codec import decode, encode, poll
from drivers.ublox.keys import KEYS, CfgValget, CfgValgetPoll, CfgValset
from drivers.ublox.layouts import Ack, Nak
from drivers.ublox.names import IDS
from drivers.ublox.nmea import Gga, Rmc, Ths

VALSET = CfgValset(
    (
        (KEYS["CFG-RATE-MEAS"], 100),
        (KEYS["CFG-MSGOUT-UBX_NAV_PVT_USB"], 1),
        (KEYS["CFG-NAVSPG-DYNMODEL"], 4),
    )
)
VALSET_BYTES = "b5 62 06 8a 14 00 00 01 00 00 01 00 21 30 64 00 09 00 91 20 01 21 00 11 20 04 6c a3"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("MON-VER", "b5 62 0a 04 00 00 0e 34"), ("NAV-PVT", "b5 62 01 07 00 00 08 19")],
)
def test_polls(name: str, expected: str):
    assert poll(name) == bytes.fromhex(expected)
    assert list(decode(poll(name))) == [(name, poll(name))]


@pytest.mark.parametrize(
    ("message", "name", "expected"),
    [
        (VALSET, "CFG-VALSET", VALSET_BYTES),
        (Ack(*IDS["CFG-VALSET"]), "ACK-ACK", "b5 62 05 01 02 00 06 8a 98 c1"),
        (Nak(*IDS["CFG-VALSET"]), "ACK-NAK", "b5 62 05 00 02 00 06 8a 97 bc"),
        (
            CfgValgetPoll((0x30210001,)),
            "CFG-VALGET",
            "b5 62 06 8b 08 00 00 00 00 00 01 00 21 30 eb 07",
        ),
        (
            CfgValget(((0x30210001, 100),)),
            "CFG-VALGET",
            "b5 62 06 8b 0a 00 01 00 00 00 01 00 21 30 64 00 52 c7",
        ),
    ],
)
def test_messages(message: object, name: str, expected: str):
    assert encode(message) == bytes.fromhex(expected)
    assert list(decode(bytes.fromhex(expected))) == [(name, message)]


def test_sentences():
    gga = Gga("GP", 45_319_000, 48.1173, 11.516666666666667, 1, 8, 0.9, 545.4, 46.9)
    assert (
        encode(gga)
        == b"$GPGGA,123519.000,4807.0380000,N,01131.0000000,E,1,08,0.90,545.400,M,46.900,M,,*69\r\n"
    )
    assert encode(Ths("GN", 77.52, "E")) == b"$GNTHS,77.52,E*2A\r\n"
    ((name, rmc),) = decode(
        b"$GNRMC,231410.00,A,4503.94631,N,00739.54373,E,0.028,,110425,,,F,V*1F\r\n"
    )
    assert name == "GNRMC"
    assert isinstance(rmc, Rmc)
    assert (
        encode(rmc)
        == b"$GNRMC,231410.000,A,4503.9463100,N,00739.5437300,E,0.028,,110425,,,F,V*2F\r\n"
    )
