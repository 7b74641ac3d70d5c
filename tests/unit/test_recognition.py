"""Bytes that no driver reads: what they look like is said where the vehicle waits for the device,
at bounded cost."""

import random
from pathlib import Path

import pytest

from drivers.imu import n100
from vehicled.core.messages import Event, Heartbeat
from vehicled.daemon.recognition import SAMPLE_BYTES, UnreadBytes, describe

UBX = (Path(__file__).parents[1] / "golden" / "ublox" / "zed_f9p_rtk.ubx").read_bytes()[
    :SAMPLE_BYTES
]
IMU = b"".join(n100.encode(0x40, bytes(56), number) for number in range(30))
GGA = b"$GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,*47\r\n"


@pytest.mark.parametrize(
    ("data", "driver", "words"),
    [
        (
            UBX,
            "n100",
            'look like UBX (driver ublox), as "gnss" expects: are the two ports exchanged?',
        ),
        (IMU, "ublox", 'look like FDILink (driver n100), as "imu" expects'),
        (GGA * 20, "vesc_uart", 'look like NMEA 0183 (driver ublox), as "gnss" expects'),
        (UBX, "ublox", "which the driver reads"),
        (GGA * 20, "vectornav", 'look like NMEA 0183 (driver ublox), as "gnss" expects'),
        (b"login: \r\nPassword: \r\n" * 40, "ublox", "text without a known sentence"),
        (random.Random(1).randbytes(2000), "ublox", "the baud rate may be wrong"),
    ],
)
def test_the_format_is_named_and_whose_it_is(data: bytes, driver: str, words: str) -> None:
    assert words in describe(data, driver, {"ublox": "gnss", "n100": "imu"})


def test_bytes_are_counted_since_the_last_measurement() -> None:
    unread = UnreadBytes("n100", {"ublox": "gnss"})
    assert unread.described() == ""
    for at in range(0, len(UBX), 100):
        unread.on_rx(UBX[at : at + 100], [Event(1, "info", "devices_speak", "{}")])
    assert unread.described().startswith(f"{len(UBX):,} bytes arrived that look like UBX")
    unread.on_rx(b"frame", [Heartbeat(1, 1, "ground")])
    assert unread.described() == ""


def test_a_flood_is_examined_a_few_times(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def describe(data: bytes, *_: object) -> str:
        asked.append(len(data))
        return "that are noise"

    monkeypatch.setattr("vehicled.daemon.recognition.describe", describe)
    unread = UnreadBytes("n100", {})
    for _ in range(2000):
        unread.on_rx(bytes(64), [])
        unread.described()
    assert len(asked) <= 4
    assert max(asked) <= SAMPLE_BYTES
