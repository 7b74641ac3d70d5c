"""Hostile bytes for everything that cuts frames out of a stream, and what they cost beside data."""

import random
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, NamedTuple
from unittest import mock

from drivers.lidar.rplidar import DENSE, NODES, scan_descriptor
from drivers.mocap import vrpn
from drivers.pwm_board import codec as pwm_board
from drivers.rtcm import spartn
from tests.conformance.test_device_contract import DEVICES, SILENT
from vehicled.core import link
from vehicled.core.messages import PortState
from vehicled.core.wire import slcan
from vehicled.core.wire.can import CanFrame
from vehicled.core.wire.datagram import MAX_DATA_BYTES
from vehicled.core.wire.datagram import pack as datagram
from vehicled.core.wire.framing import CheckedFrame
from vehicled.profile.registry import names, resolve

Feed = Callable[[bytes], object]

LONGEST = {
    "msglink": b"VL\x01\xff\x3f",
    "ublox": b"\xb5\x62\x01\x07\xff\x1f",
    "septentrio": b"$@\x00\x00\xa7\x4f\xfc\x1f",
    "unicore": b"\xaa\x44\xb5\x5a\x46\x08\x00\x20",
    "rtcm": b"\xd3\x03\xff",
    "rtcm_spartn": spartn.encode(0, 0, bytes(1023), crc=3, long_time=True, encrypted=(0, 0))[:6],
    "ntrip": b"\xd3\x03\xff",
    "n100": b"\xfc\x40\xff\x00\xb5",
    "witmotion": b"\x55\x51",
    "bno08x": b"\xaa\xaa",
    "xsens": b"\xfa\xff\x36\xff\x08\x00",
    "vectornav": b"\xfa\x01\xff\x7e",
    "mip": b"\x75\x65\x80\xff",
    "sbg": b"\xff\x5a\x1f\x00\xf6\x0f",
    "sbg_reference": b"\xff\x5a\x01\x10\xf6\x0f",
    "rplidar": b"\xa5\x5a\x7f\x00\x00\x00\x20",
    "rplidar_dense": b"\xa5\x5a\x7f\x00\x00\x00\x20",
    "rplidar_nodes": b"\xa5\x5a\x7f\x00\x00\x00\x20",
    "ydlidar": b"\xaa\x55\x00\x50\x01",
    "ydlidar_intensity": b"\xaa\x55\x00\x50\x01",
    "ldrobot": b"\x54\x2c",
    "hokuyo": b"MD0000108001000\n",
    "sick": b"\x02\x02\x02\x02\x00\x00\x9c\x30s",
    "sick_text": b"\x02sSN LMDscandata ",
    "velodyne": datagram(bytes(MAX_DATA_BYTES))[:8],
    "ouster": datagram(bytes(MAX_DATA_BYTES))[:8],
    "natnet": datagram(bytes(MAX_DATA_BYTES))[:8],
    "v2v": datagram(bytes(MAX_DATA_BYTES))[:8],
    "vicon": datagram(bytes(MAX_DATA_BYTES))[:8],
    "vrpn": vrpn.HEAD.pack(vrpn.MOST_BYTES, 0, 0, 0, 0, 0),
    "pps": b"PPSP",
    "encoder": b"1,1;1,1;1,1;",
    "crsf": b"\xc8\x3e\x16",
    "sbus": b"\x0f\x00",
    "ibus": b"\x20\x40",
    "odrive_can": b"\x01\x00\x00\x00\x08\x00\x00\x00",
    "odrive_ascii": b"0.0 0.0 0.0 0.0*",
    "maestro": b"\x00\x00",
    "pca9685": b"\x20\x04",
    "roboclaw": b"\xff\xff\xff\xff",
    "mavlink_autopilot": b"\xfd\xff\x01\x00\x00\x01\x01\x18\x00\x00",
    "vesc_can": b"\x01\x09\x00\x80\x08\x00\x00\x00",
    "vesc_uart": b"\x03\x02\x00",
    "vesc_forward": b"\x03\x02\x00",
}
"""Head of the longest frame of each driver of ``DEVICES``: a false start that holds back the
most."""


BEGINS = {
    "ntrip": b"ICY 200 OK\r\n\r\n",
    "vrpn": vrpn.cookie(),
    "rplidar_dense": scan_descriptor(DENSE),
    "rplidar_nodes": scan_descriptor(NODES),
}
"""Bytes after which the stream of a driver begins."""


class Subject(NamedTuple):
    """Reader of a byte stream."""

    make: Callable[[], Feed]
    valid: bytes
    longest: bytes


def _device(name: str) -> Subject:
    make, stream = DEVICES[name]
    begins = BEGINS.get(name, b"")

    def opened() -> Feed:
        device = make()
        device.on_port(PortState.OPENED, "tcp:192.0.2.1:2101", 1)
        clock = iter(range(10**9, 2**62, 10**6))
        if begins:
            device.on_rx(begins, next(clock))

        def feed(data: bytes) -> object:
            now_ns = next(clock)
            found = list(device.on_rx(data, now_ns))
            while device.next_due_ns() <= now_ns:
                found += device.on_time(now_ns)
            device.take_tx()
            return found

        return feed

    return Subject(opened, stream.removeprefix(begins), LONGEST[name])


def _base_station(name: str) -> Subject:
    kind: Any = resolve("base station", name)

    def opened() -> Feed:
        station = kind(kind.Params())
        station.on_port(PortState.OPENED, "", 1)
        clock = iter(range(10**9, 2**62, 10**6))

        def feed(data: bytes) -> object:
            found = station.on_rx(data, next(clock))
            station.take_tx()
            return found

        return feed

    return Subject(opened, DEVICES[name][1] + DEVICES["rtcm"][1], LONGEST[name])


def _link() -> Feed:
    decoder = link.LinkDecoder()

    def feed(data: bytes) -> object:
        try:
            return decoder.feed(data)
        except link.LinkError as error:
            return error

    return feed


def subjects() -> dict[str, Subject]:
    """Return every reader by name: the drivers, and the decoders that ports and simulator use.
    Fails for an unknown driver."""
    found = {name: _device(name) for name in DEVICES if name not in SILENT}
    found |= {f"{name}, a base station": _base_station(name) for name in names("base station")}
    frames = [CanFrame(0x901, bytes(range(8))), CanFrame(0x7FF, b"\1", extended=False)]
    found["slcan"] = Subject(
        lambda: slcan.SlcanDecoder().feed, b"".join(map(slcan.encode, frames)), b"T1FFFFFFF8"
    )
    pulses = pwm_board.encode(pwm_board.Pulses(1500, 1500), 4)
    found["pwm_board, as the board reads it"] = Subject(
        lambda: pwm_board.PwmDecoder().feed, pulses, b"\x04"
    )
    data = link.encode(link.LinkFrameKind.DATA, 1, 10**9, bytes(40))
    found["simulator link"] = Subject(
        _link, data, (link.MAX_FRAME_BYTES).to_bytes(4, "little") + data[4:14]
    )
    return found


def filled(pattern: bytes, size: int) -> bytes:
    """Return ``size`` bytes of a repeated pattern."""
    return (pattern * (size // len(pattern) + 1))[:size]


def inputs(subject: Subject, size: int, seed: int = 1) -> dict[str, bytes]:
    """Return hostile streams of ``size`` bytes by what they are made of."""
    rng = random.Random(seed)
    valid, longest = filled(subject.valid, size), subject.longest
    flipped = bytearray(valid)
    for at in range(0, size, 50):
        flipped[min(size - 1, at + rng.randrange(50))] ^= 1 << rng.randrange(8)
    prefixes, nested, alternating = bytearray(), bytearray(), bytearray()
    while len(prefixes) < size:
        at = rng.randrange(len(subject.valid))
        prefixes += subject.valid[at : at + rng.randint(1, 40)]
    while len(nested) < size:
        nested += longest[:-1] + bytes((rng.randrange(256),)) + rng.randbytes(rng.randrange(4))
    while len(alternating) < size:
        alternating += longest + subject.valid
    almost = bytearray(valid)
    for end in range(len(subject.valid), size, len(subject.valid)):
        almost[end - 1] ^= 1
    return {
        "repeated first byte": filled(longest[:1], size),
        "repeated sync": filled(longest[:2], size),
        "sync with the longest length": filled(longest, size),
        "sync and zeros": filled(longest[:2] + bytes(max(1, len(longest) - 2)), size),
        "sync and ones": filled(longest[:2] + b"\xff" * 10, size),
        "nested heads": bytes(nested[:size]),
        "almost valid": bytes(almost),
        "heads and valid data": bytes(alternating[:size]),
        "a bit in fifty bytes": bytes(flipped),
        "prefixes": bytes(prefixes[:size]),
        "random": rng.randbytes(size),
        "zeros": bytes(size),
        "line ends": filled(b"\r\n", size),
        "dollars": filled(b"$", size),
        "begun lines": filled(b"$GPGGA,", size),
        "a long line": filled(b"$GPGGA," + b"1" * 2000, size),
        "text": filled(b"The quick brown fox. ", size),
    }


def pieces(data: bytes, size: int) -> Iterator[bytes]:
    """Iterate over ``data`` in pieces of ``size`` bytes."""
    for at in range(0, len(data), size):
        yield data[at : at + size]


class Cost(NamedTuple):
    """Operations per byte."""

    opcodes: float
    """Instructions of the interpreter."""
    summed: float
    """Bytes given to a checksum."""


BURST_BYTES = 40_000
"""Bytes of a stream after which its cost is steady: at first, false starts claim bytes that did not
come yet."""


def cost(subject: Subject, data: bytes, piece: int) -> Cost:
    """Return what a stream in pieces costs a reader that has read ``BURST_BYTES`` of it already."""
    feed = subject.make()
    for part in pieces(filled(data, BURST_BYTES), 4096):
        feed(part)
    with _summed() as summed, _opcodes() as opcodes:
        for part in pieces(data, piece):
            feed(part)
    return Cost(opcodes[0] / len(data), summed[0] / len(data))


def cpu_ns(subject: Subject, data: bytes, piece: int, rounds: int = 2) -> float:
    """Return the CPU time per byte, ns: the least of some rounds, because others only add to it."""
    best = float("inf")
    for _ in range(rounds):
        feed = subject.make()
        begin = time.thread_time_ns()
        for part in pieces(data, piece):
            feed(part)
        best = min(best, time.thread_time_ns() - begin)
    return best / len(data)


@contextmanager
def _opcodes() -> Iterator[list[int]]:
    count = [0]

    def local(frame: FrameType, event: str, arg: Any) -> Any:
        if event == "opcode":
            count[0] += 1
        return local

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        yield count
    finally:
        sys.settrace(before)


@contextmanager
def _summed() -> Iterator[list[int]]:
    count = [0]

    valid = CheckedFrame.valid

    def counted(self: CheckedFrame, buffer: bytes, at: int, stop: int) -> bool:
        count[0] += stop - at
        return valid(self, buffer, at, stop)

    with mock.patch.object(CheckedFrame, "valid", counted):
        yield count
