"""Finding out who speaks on a port: real decoders on a pty, at a rate that has to be found."""

import os
import re
import threading
import time
import tty
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from struct import unpack

import pytest

from drivers.imu import bno08x, mip, n100, vectornav, witmotion, xsens
from drivers.vesc.uart import frame_uart
from vehicled.profile.registry import names, resolve
from vehicled.runtime.ports.probe import judge, probe

CAPTURE = Path(__file__).resolve().parents[1] / "golden" / "ublox" / "zed_f9p_rtk.ubx"
RTCM = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")
DECODERS = {name: resolve("decoder", name) for name in names("decoder")}


def test_a_recording_is_reported_by_its_messages() -> None:
    answer = judge(CAPTURE.read_bytes(), [0, 1_000_000, 5_000_000], 115_200, 10.0, DECODERS)
    assert answer.driver == "ublox"
    assert dict(answer.messages)["NAV-PVT"] == pytest.approx(1.0)
    assert answer.gap_p99_ms == pytest.approx(4.0)


def line(body: bytes) -> bytes:
    check = 0
    for byte in body:
        check ^= byte
    return b"$%s*%02X\r\n" % (body, check)


def payloads(size: int, frame: Callable[[bytes], bytes]) -> bytes:
    chance = Random(size)
    return b"".join(frame(chance.randbytes(size)) for _ in range(20))


GGA = line(b"GPGGA,123519,4807.038,N,01131.000,E,1,08,0.9,545.4,M,46.9,M,,")
STAND_INS = {
    "bno08x": b"".join(
        bno08x.encode(bno08x.RvcPacket(k, 1.0, 0.2, 0.3, (0.0, 0.0, 9.8))) for k in range(20)
    ),
    "mip": payloads(12, lambda data: mip.encode(0x80, (0x04, data))),
    "n100": payloads(56, lambda data: n100.encode(0x40, data, data[0])),
    "nmea": GGA * 20,
    "nmea, Quectel": line(b"PQTMCFGMSGRATE,OK,PQTMVEL,1,2") * 20
    + line(b"PQTMVERNO,LG290P03AANR01A03S,2024/04/30,11:35:48") * 5,
    "rtcm": RTCM * 20,
    "ublox": CAPTURE.read_bytes(),
    "ublox, mostly sentences": CAPTURE.read_bytes() + GGA * 300 + RTCM * 100,
    "vectornav": payloads(
        12, lambda data: vectornav.encode({"imu.acceleration": unpack("<3f", data)})
    )
    + GGA * 30,
    "vectornav, text only": vectornav.encode_line("VNYMR,+010.0,-000.4,+001.1,0,0,0,0,0,-9.8,0,0,0")
    * 20,
    "vesc": payloads(60, lambda data: frame_uart(b"\x04" + data)),
    "witmotion": payloads(8, lambda data: witmotion.frame_of(0x51, data)),
    "xsens": payloads(12, lambda data: xsens.encode(0x36, b"\x40\x20\x0c" + data)),
}


@pytest.mark.parametrize("name", STAND_INS)
def test_every_device_is_distinguished_from_every_other(name: str) -> None:
    assert judge(STAND_INS[name], [], 115_200, 1.0, DECODERS).driver == name.partition(",")[0]


def test_no_capture_is_taken_for_another_device(shared_data: Path) -> None:
    """The confusion matrix over all captures: what a decoder understands at all is what the name of
    the file says."""
    judged: Counter[tuple[str, str]] = Counter()
    for file in sorted([*shared_data.glob("captures/*/*"), *shared_data.glob("captures2/gnss/*")]):
        if file.suffix in (".tag", ".chk", ".csv", ".json"):
            continue
        true = next(
            (
                driver
                for part, driver in MADE_BY.items()
                if re.search(part, f"{file.parent.name}/{file.name}")
            ),
            "",
        )
        judged[true, judge(file.read_bytes()[:60_000], [], 9600, 1.0, DECODERS).driver] += 1
    wrong = {pair: n for pair, n in judged.items() if pair[1] not in ("", *pair[0].split())}
    assert wrong == {}
    assert sum(n for (true, found), n in judged.items() if true and found) > 15


MADE_BY = {
    "spartn": "spartn",
    "pysbf2|data_sbf": "septentrio",
    "imu/mip": "mip",
    "imu/vn100": "vectornav",
    "imu/xsens": "xsens",
    "rtcm/|rtcm3|[.]rtcm$|/pyrtcm": "rtcm ublox",
    "ublox.*nmea[.]log$": "nmea",
    "ublox|[.]ubx|data_ubx|/pyubx2": "ublox",
    "nmea|gpsd__|pyunigps|maritime": "nmea",
}
"""Formats that a capture may be in, by a part of its name."""


NOISE = {
    "nothing": b"",
    "zeros": bytes(5000),
    "noise": Random(1).randbytes(20_000),
    "text": b"hello world\r\n" * 100,
}


@pytest.mark.parametrize("data", NOISE.values(), ids=NOISE)
def test_noise_is_no_device(data: bytes) -> None:
    assert judge(data, [], 9600, 1.0, DECODERS).driver == ""


@pytest.mark.anyio
async def test_a_talking_port_is_named() -> None:
    master, slave = os.openpty()
    tty.setraw(slave)
    done = threading.Event()

    def talk() -> None:
        while not done.is_set():
            os.write(master, CAPTURE.read_bytes()[:2000])
            time.sleep(0.05)

    speaker = threading.Thread(target=talk)
    speaker.start()
    try:
        answer = await probe(f"serial:{os.ttyname(slave)}", DECODERS, 0.5, (115_200,))
    finally:
        done.set()
        speaker.join()
        os.close(master)
        os.close(slave)
    assert answer.driver == "ublox"
    assert answer.baud == 115_200


@pytest.mark.anyio
async def test_a_port_that_is_not_there_says_so() -> None:
    answer = await probe("serial:/dev/nowhere", DECODERS, 0.3)
    assert "/dev/nowhere" in answer.trouble
