"""The framer on recordings of real receivers, against the published census of each file and against
pyubx2's reader."""

import io
import json
from collections import Counter
from pathlib import Path

import pytest
from pyubx2 import UBXReader

from vehicled.core.wire.crc import crc24q, fletcher8, xor8
from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, Framer, Protocol

RECORDINGS = [
    "gnss/gnss_imu__walk_gnss_1730.ubx",
    "gnss/gpsd__ublox-zed-f9p-hp.log",
    "gnss/gpsd__ublox-zed-f9p-nmea.log",
    "gnss/gpsd__ublox-zed-f9p-rtk.log",
    "gnss/gpsd__ublox-zed-f9p-sfrbx.log",
    "gnss/gpsd__ublox-zed-f9r.log",
    "gnss/gpsd__ublox8-uniqid-monhw.log",
    "gnss/pyubx2__pygpsdata-BADCK2.log",
    "gnss/pyubx2__pygpsdata-BADHDR.log",
    "gnss/pyubx2__pygpsdata-MIXED.log",
    "gnss/pyubx2__pygpsdata-MON.log",
    "gnss/pyubx2__pygpsdata-RXMRAWX.log",
    "gnss/pyubx2__ucenter-ZEDF9P-configdebug.log",
    "rtcm/gpsd__rtcm3.2.log",
    "rtcm/pygnssutils__ntrip_encode_none.bin",
]
DAMAGED = {"gnss/pyubx2__pygpsdata-BADCK2.log", "gnss/pyubx2__pygpsdata-BADHDR.log"}


def ubx(buffer: bytes | bytearray, at: int, end: int) -> int:
    if end - at < 6:
        return INCOMPLETE
    stop = at + 8 + (buffer[at + 4] | buffer[at + 5] << 8)
    if stop - at > 8_200:
        return NO_FRAME
    if stop > end:
        return INCOMPLETE
    return (
        stop - at if fletcher8(buffer[at + 2 : stop - 2]) == buffer[stop - 2 : stop] else NO_FRAME
    )


def nmea(buffer: bytes | bytearray, at: int, end: int) -> int:
    stop = buffer.find(b"\r\n", at, min(end, at + 130)) + 2
    if stop == 1:
        return INCOMPLETE if end - at < 130 else NO_FRAME
    return (
        stop - at
        if buffer[stop - 5 : stop - 2] == b"*%02X" % xor8(buffer[at + 1 : stop - 5])
        else NO_FRAME
    )


def rtcm3(buffer: bytes | bytearray, at: int, end: int) -> int:
    if end - at < 3:
        return INCOMPLETE
    size = 6 + (buffer[at + 1] << 8 | buffer[at + 2])
    if buffer[at + 1] & 0xFC:
        return NO_FRAME
    if end - at < size:
        return INCOMPLETE
    return size if crc24q(buffer[at : at + size]) == 0 else NO_FRAME


PROTOCOLS = [
    Protocol("UBX", b"\xb5b", ubx),
    Protocol("NMEA", b"$", nmea),
    Protocol("RTCM3", b"\xd3", rtcm3),
]


@pytest.mark.parametrize("name", RECORDINGS)
@pytest.mark.parametrize("chunk", [61, 4096])
def test_the_census_of_every_recording(shared_data: Path, name: str, chunk: int) -> None:
    folder = shared_data / "captures"
    data = (folder / name).read_bytes()
    census = json.loads((folder / "counts.json").read_text())[name]["extra"]
    framer = Framer(PROTOCOLS)
    frames = [
        each for at in range(0, len(data), chunk) for each in framer.feed(data[at : at + chunk])
    ] + framer.flush()
    assert Counter(protocol for protocol, _ in frames) == census["by_protocol"]
    assert framer.dropped_bytes == census["unframed_bytes"]


@pytest.mark.parametrize("name", sorted(set(RECORDINGS) - DAMAGED))
def test_the_same_frames_in_the_same_order_as_another_reader(shared_data: Path, name: str) -> None:
    data = (shared_data / "captures" / name).read_bytes()
    framer = Framer(PROTOCOLS)
    ours = [frame for _, frame in framer.feed(data) + framer.flush()]
    theirs = [
        raw for raw, _ in UBXReader(io.BytesIO(data), protfilter=7, quitonerror=0, parsing=False)
    ]
    if ours != theirs:
        # Without parsing, the reader does not look at check sums: it may have more, never others.
        remaining = iter(theirs)
        assert all(any(frame == other for other in remaining) for frame in ours)
