"""SPARTN: recorded frames of others, frames of every kind, damage, and their way through the drivers as corrections."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from drivers.ntrip.device import NtripDevice
from drivers.ntrip.params import NtripParams
from drivers.rtcm.device import RtcmDevice, RtcmParams
from drivers.rtcm.spartn import MAX_FRAME_BYTES, SpartnReader, content_of, decode, encode, name_of
from vehicled.core.messages import Corrections, PortState
from vehicled.core.wire.usage import MessageUsage

S = 1_000_000_000
ALL = {"GAD-0", *(f"{kind}-{system}" for kind in ("OCB", "HPAC") for system in ("GPS", "GLO", "GAL", "BDS"))}
# The first frame of pyspartn's test data (BSD-3-Clause): areas, with a CRC-24.
GAD = "7304 5fee 036d 805b 1888 3dd5 6a7f f9bc c3bd 5d3d 1b96 c9db d774 0b78 0bad 2cb4 65ef 901f 6fc1 7179 a87f f8f6 8cb0 6268"


def folder(shared_data: Path) -> Path:
    found = shared_data / "captures2" / "gnss"
    if not found.exists():
        pytest.skip(f"needs the recordings in {found}")
    return found


@pytest.mark.parametrize(
    ("name", "frames", "octets", "kinds"),
    [
        ("pyspartn__spartnGAD.log", 4, 558, {"GAD-0"}),
        ("pyspartn__spartnHPAC.log", 10, 4045, {"HPAC-GPS", "HPAC-GLO"}),
        ("pyspartn__spartnMIXED.log", 422, 82_674, ALL),
        ("fixposition-sdk__test_data_spartn.bin", 4, 527, {"GAD-0", "OCB-GPS", "OCB-GLO", "HPAC-GLO"}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("cut", [1, 97, 100_000])
def test_recorded_frames_of_others_are_found_without_a_byte_left(
    shared_data: Path, name: str, frames: int, octets: int, kinds: set[str], cut: int
) -> None:
    data = (folder(shared_data) / name).read_bytes()
    reader, found = SpartnReader(), []
    for at in range(0, len(data), cut):
        found += reader.feed(data[at : at + cut])
    found += reader.flush()
    assert len(found) == frames
    assert b"".join(found) == data
    assert len(data) == octets
    assert {name_of(each) for each in found} == kinds
    assert reader.bad_frames == 0


def test_damaged_recordings_lose_the_damaged_frames_alone(shared_data: Path) -> None:
    for name, frames in (("pyspartn__spartn_badcrc.log", 34), ("pyspartn__spartn_badpreamble.log", 12)):
        reader = SpartnReader()
        assert len([*reader.feed((folder(shared_data) / name).read_bytes()), *reader.flush()]) == frames
        assert reader.dropped_bytes


def test_the_head_of_a_recorded_frame() -> None:
    """Type, length and time as pyspartn reads them."""
    frame = bytes.fromhex(GAD)
    found = content_of(frame)
    assert (found.kind, found.subtype, found.encrypted) == (2, 0, True)
    assert (frame[1] << 16 | frame[2] << 8 | frame[3]) >> 7 & 0x3FF == 191


@pytest.mark.parametrize("crc", range(4))
@pytest.mark.parametrize("long_time", [False, True])
@pytest.mark.parametrize("encrypted", [None, (3, 17)])
def test_frames_of_every_kind_in_both_directions(crc: int, long_time: bool, encrypted: tuple[int, int] | None) -> None:
    for size in (0, 1, 1023):
        frame = encode(1, 2, bytes(size), 12_345, crc=crc, long_time=long_time, encrypted=encrypted)
        assert len(frame) <= MAX_FRAME_BYTES
        reader = SpartnReader()
        assert [*reader.feed(b"noise" + frame + frame), *reader.flush()] == [frame, frame]
        ((name, content),) = decode(frame)
        assert name == "HPAC-GAL"
        assert (content.kind, content.subtype, content.time_s, content.encrypted) == (1, 2, 12_345, encrypted is not None)
        for at in (1, 3, 5, len(frame) - 1):
            broken = bytearray(frame)
            broken[at] ^= 0x40
            assert frame not in SpartnReader().feed(bytes(broken))


def test_numbers_that_are_not_assigned_have_names_too() -> None:
    assert [name_of(encode(kind, subtype, b"")) for kind, subtype in ((0, 0), (0, 9), (7, 3), (120, 1))] == [
        "OCB-GPS", "OCB-9", "SPARTN-7-3", "PROP-1",
    ]  # fmt: skip


def through(device: Any, data: bytes) -> list[bytes]:
    found = [each for at in range(0, len(data), 50) for each in device.on_rx(data[at : at + 50], 2 * S + at)]
    return [each.data for each in found if isinstance(each, Corrections)]


FRAMES = [encode(0, 0, b"orbits" * 20, encrypted=(1, 2)), encode(1, 1, b"air" * 30), encode(2, 0, b"areas")]


def test_a_plain_source_passes_frames_whole() -> None:
    device = RtcmDevice(RtcmParams(protocol="spartn"), [Corrections], S)
    device.on_port(PortState.OPENED, "", S)
    assert through(device, b"".join(FRAMES)) == FRAMES
    assert counted(device.usage) == {"OCB-GPS": 1, "HPAC-GLO": 1, "GAD-0": 1}


def counted(usage: MessageUsage) -> Counter[str]:
    return Counter({name: use.used for name, use in usage})


def test_a_mountpoint_passes_frames_whole() -> None:
    device = NtripDevice(NtripParams(mountpoint="SSR", protocol="spartn"), [Corrections], S)
    device.on_port(PortState.OPENED, "", S)
    found: list[Any] = list(device.on_rx(b"ICY 200 OK\r\n\r\n" + b"".join(FRAMES), 2 * S))
    assert [each.data for each in found if isinstance(each, Corrections)] == FRAMES
