"""Finding out who speaks on a port: real decoders on a pty, at a rate that has to be found."""

import os
import threading
import time
import tty
from pathlib import Path
from random import Random

import pytest

from vehicled.registry import names, resolve
from vehicled.runtime.ports.probe import judge, probe

CAPTURE = Path(__file__).resolve().parents[1] / "golden" / "ublox" / "zed_f9p_rtk.ubx"
DECODERS = {name: resolve("decoder", name) for name in names("decoder")}


def test_a_recording_is_told_by_its_messages() -> None:
    answer = judge(CAPTURE.read_bytes(), [0, 1_000_000, 5_000_000], 115_200, 10.0, DECODERS)
    assert answer.driver == "ublox"
    assert dict(answer.messages)["NAV-PVT"] == pytest.approx(1.0)
    assert answer.gap_p99_ms == pytest.approx(4.0)


NOISE = {"nothing": b"", "zeros": bytes(5000), "noise": Random(1).randbytes(20_000), "text": b"hello world\r\n" * 100}


@pytest.mark.parametrize("data", NOISE.values(), ids=NOISE)
def test_noise_is_nobody(data: bytes) -> None:
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
