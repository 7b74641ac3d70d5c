"""The framer on damaged streams: the same frames and counts as by looking everywhere. On floods:
however it is cut."""

import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.imu import bno08x, mip, n100, vectornav, witmotion, xsens
from drivers.msglink import codec as msglink
from drivers.rtcm import codec as rtcm
from drivers.rtcm import spartn
from drivers.sbg import codec as sbg
from drivers.ublox import codec as ublox
from drivers.vesc import uart
from tests.hostile_bytes import LONGEST, filled, inputs, pieces, subjects
from vehicled.core.wire.framing import NO_FRAME, Framer, Protocol, Shape

LIMIT = 4096
PROTOCOLS: dict[str, Sequence[Protocol]] = {
    "msglink": (msglink.PROTOCOL,),
    "ublox": ublox.PROTOCOLS,
    "rtcm": (rtcm.RTCM3,),
    "rtcm_spartn": (spartn.SPARTN,),
    "n100": (n100.PROTOCOL,),
    "witmotion": (witmotion.PROTOCOL,),
    "bno08x": (bno08x.PROTOCOL,),
    "xsens": (xsens.PROTOCOL,),
    "vectornav": (vectornav.BINARY, vectornav.LINE),
    "mip": (mip.PROTOCOL,),
    "sbg": (sbg.PROTOCOL,),
    "vesc_uart": uart._PROTOCOLS,
}
SUBJECTS = subjects()
SYNCS = {
    name: sorted({protocol.sync for protocol in protocols}) for name, protocols in PROTOCOLS.items()
}


def begins(stream: bytes, at: int, probe: object, sync: bytes) -> bool:
    assert isinstance(probe, Shape)
    return all(byte in values for byte, values in zip(stream[at:], probe.head(sync), strict=False))


def everywhere(
    stream: bytes, protocols: Sequence[Protocol]
) -> tuple[list[tuple[str, bytes]], int, int]:
    """Return frames, bad frames and dropped bytes, by asking every protocol at every place."""
    found, bad, dropped, at = [], 0, 0, 0
    while at < len(stream):
        for name, sync, probe in protocols:
            size = probe(stream, at, len(stream)) if stream.startswith(sync, at) else NO_FRAME
            if 0 < size <= LIMIT:
                found.append((name, stream[at : at + size]))
                at += size
                break
        else:
            bad += any(
                stream.startswith(sync, at) and begins(stream, at, probe, sync)
                for _, sync, probe in protocols
            )
            dropped += 1
            at += 1
    return found, bad, dropped


def fed(
    stream: bytes, protocols: Sequence[Protocol], size: int
) -> tuple[list[tuple[str, bytes]], int, int]:
    framer = Framer(protocols, LIMIT)
    found = [each for piece in pieces(stream, size) for each in framer.feed(piece)] + framer.flush()
    assert framer.buffered_bytes == 0
    return found, framer.bad_frames, framer.dropped_bytes


@pytest.mark.parametrize("name", PROTOCOLS)
def test_a_flood_of_false_starts_hides_what_follows_for_a_moment_only(name: str) -> None:
    """The moment is shorter than one longest frame: a false start at the end of the flood may claim
    the whole of it."""
    for kind, flood in inputs(SUBJECTS[name], 3_000).items():
        stream = flood + filled(SUBJECTS[name].valid, 2 * LIMIT)
        found, bad, dropped = fed(stream, PROTOCOLS[name], len(stream))
        expected, syncs, outside = everywhere(stream, PROTOCOLS[name])
        assert [frame for _, frame in found][-8:] == [frame for _, frame in expected][-8:], kind
        assert (
            sum(len(frame) for _, frame in expected) - sum(len(frame) for _, frame in found)
            < len(flood) + LIMIT
        ), kind
        assert bad <= syncs, kind
        assert dropped - outside < len(flood) + LIMIT, kind
        for size in (300, 1):
            assert fed(stream, PROTOCOLS[name], size) == (found, bad, dropped), kind


@pytest.mark.parametrize("name", PROTOCOLS)
@given(seed=st.integers(0, 2**32), size=st.sampled_from([1, 3, 64, 1_000, 9_000]))
def test_damage_hides_no_frame(name: str, seed: int, size: int) -> None:
    """Half of the frames are damaged or cut, with heads of the longest frames and noise between
    them."""
    rng = random.Random(seed)
    valid, longest = SUBJECTS[name].valid, LONGEST[name]
    stream = bytearray()
    while len(stream) < 2_000:
        kind = rng.randrange(8)
        if kind == 0:
            stream += longest[: rng.randint(1, len(longest))]
        elif kind == 1:
            stream += rng.choice(SYNCS[name]) + rng.randbytes(rng.randint(0, 8))
        elif kind == 2:
            at = rng.randrange(len(valid))
            stream += valid[at : at + rng.randint(1, 200)]
        else:
            stream += valid
    whole = bytes(stream)
    # A candidate that the end cuts off is given up by the flush alone, so what it holds back is
    # judged as if it were complete.
    assert fed(whole, PROTOCOLS[name], size) == everywhere(whole, PROTOCOLS[name])
