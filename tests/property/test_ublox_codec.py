"""The u-blox stream under every cut and any damage."""

import json
from collections import Counter
from math import isclose, isnan
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.ublox.codec import (
    MAX_UBX_PAYLOAD_BYTES,
    UBX_OVERHEAD_BYTES,
    decode,
    decode_frame,
    encode,
    framer,
    ubx_frame,
)
from drivers.ublox.device import UbloxDevice
from drivers.ublox.keys import CfgValget, CfgValgetPoll, CfgValset
from drivers.ublox.layouts import MonRf, MonVer, NavEoe, NavPvt, NavRelposned, RfBlock
from drivers.ublox.names import IDS
from drivers.ublox.nmea import Avr, Gga, Gst, Hdt, Hpr, Pashr, Rmc, Tar, Ths, Vel, Vtg
from drivers.ublox.settings import Params
from drivers.ublox.ubx import _FIXED
from vehicled.core.messages import Corrections, GnssFix, Heading, Message, PortState

GOLDEN = Path(__file__).parent.parent / "golden" / "ublox" / "zed_f9p_rtk.ubx"
RTCM = bytes.fromhex("d300133ed7d30202980edeef34b4bd62ac0941986f33360b98")
WIDTHS = {
    "B": (0, 255),
    "b": (-128, 127),
    "H": (0, 2**16 - 1),
    "h": (-(2**15), 2**15 - 1),
    "I": (0, 2**32 - 1),
    "i": (-(2**31), 2**31 - 1),
}


def fields(code: str) -> list[Any]:
    """One strategy per value of a struct format."""
    found: list[Any] = []
    repeat = ""
    for letter in code.lstrip("<"):
        if letter.isdigit():
            repeat += letter
            continue
        times, repeat = int(repeat or 1), ""
        if letter == "x":
            continue
        value = (
            st.floats(width=32, allow_nan=False) if letter == "f" else st.integers(*WIDTHS[letter])
        )
        found += [value] * times
    return found


fixed_messages = st.one_of(
    [st.builds(fixed.kind, *fields(fixed.layout.format)) for fixed in _FIXED.values()]
)
radio = st.builds(RfBlock, *fields("<4BI2HBbBbB"))
text = st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=30)
keys = st.integers(1, 5).flatmap(
    lambda size: st.tuples(
        st.integers(0, 0xFFFFFFF).map(lambda low: size << 28 | low),
        st.integers(0, 256 ** {1: 1, 2: 1, 3: 2, 4: 4, 5: 8}[size] - 1),
    )
)
items = st.lists(keys, max_size=64).map(tuple)
messages = st.one_of(
    fixed_messages,
    st.builds(MonRf, st.integers(0, 255), st.lists(radio, max_size=4).map(tuple)),
    st.builds(
        MonVer,
        text,
        st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=10),
        st.lists(text, max_size=5).map(tuple),
    ),
    st.builds(CfgValset, items, st.integers(0, 7), st.integers(0, 1), st.integers(0, 3)),
    st.builds(CfgValget, items, st.integers(0, 7), st.integers(0, 999), st.just(1)),
    st.builds(
        CfgValgetPoll,
        st.lists(st.integers(0, 2**32 - 1), max_size=64).map(tuple),
        st.integers(0, 7),
        st.integers(0, 999),
        st.just(0),
    ),
)
unknown = st.just(float("nan"))
sizes, heights = st.floats(0, 1_999) | unknown, st.floats(-9_999, 9_999) | unknown
separations, courses = st.floats(-120, 120) | unknown, st.floats(0, 360) | unknown
times = st.none() | st.integers(0, 86_399_999)
places = st.tuples(st.floats(-90, 90), st.floats(-180, 180)) | st.just((float("nan"), float("nan")))
talkers = st.sampled_from(["GN", "GP", "GA"])
sentences = st.one_of(
    st.builds(
        lambda talker, time_ms, place, *rest: Gga(talker, time_ms, *place, *rest),
        talkers, times, places, st.integers(0, 9), st.integers(0, 99), sizes, heights, separations,
        sizes, st.integers(0, 4095),
    ),
    st.builds(
        lambda talker, time_ms, valid, place, *rest: Rmc(talker, time_ms, valid, *place, *rest),
        talkers, times, st.booleans(), places, sizes, courses, st.none() | st.dates(),
        st.sampled_from("ADFREN"),
    ),
    st.builds(Gst, talkers, times, sizes, sizes, sizes, sizes),
    st.builds(Vtg, talkers, courses, sizes, sizes, st.sampled_from("ADEN")),
    st.builds(Ths, talkers, courses, st.sampled_from("AEMSV")),
    st.builds(Hdt, talkers, courses),
    st.builds(Hpr, talkers | st.just("PSAT"), times, courses, st.sampled_from("0145NG")),
    st.builds(Hpr, st.just("PASHR"), times, courses, st.sampled_from("45")),
    st.builds(
        Pashr, times, courses, st.floats(0, 360) | unknown, st.sampled_from("012"),
        st.sampled_from("01"),
    ),
    st.builds(Avr, times, st.floats(-180, 180) | unknown, sizes, st.sampled_from("0123")),
    st.builds(Vel, times, *[st.floats(-400, 400) | unknown] * 3),
    st.builds(
        Tar, st.just("PQTM"), times, courses, st.floats(0, 360) | unknown, sizes,
        st.sampled_from("0456"),
    ),
    st.builds(
        Tar, st.just("PSSN"), times, courses, st.floats(0, 360) | unknown, unknown,
        st.sampled_from("0456"),
    ),
    st.builds(Gst, st.just("PQTM"), st.none(), unknown, sizes, sizes, sizes),
)  # fmt: skip


@given(messages)
def test_every_ubx_message_comes_back_as_it_went(message: Any):
    ((_, got),) = decode(encode(message))
    assert got == message


@given(sentences)
def test_every_sentence_comes_back_as_it_went_to_its_last_digit(sentence: Any):
    ((_, got),) = decode(encode(sentence))
    assert type(got) is type(sentence)
    for field, sent, back in zip(sentence._fields, sentence, got):
        if isinstance(sent, float):
            resolution = {
                "latitude_deg": 1e-9,
                "longitude_deg": 1e-9,
                "correction_age_s": 0.051,
                "range_rms_m": 0.051,
            }.get(field, 0.0051)
            assert (
                isnan(back) if isnan(sent) else isclose(sent, back, rel_tol=0.0, abs_tol=resolution)
            ), field
        elif field == "day" and sent is not None:
            # Two digits of the year.
            assert (
                (back.month, back.day, back.year % 100) == (sent.month, sent.day, sent.year % 100)
                if back
                else sent.month == 2
            )
        elif field not in ("station", "mode"):
            assert back == sent, field


@given(
    st.lists(
        st.one_of(
            messages.map(encode), sentences.map(encode), st.just(RTCM), st.binary(max_size=40)
        ),
        max_size=12,
    ),
    st.data(),
)
def test_any_chunking_frames_the_same(pieces: list[bytes], data):
    stream = b"".join(pieces)
    whole = framer()
    expected = whole.feed(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=15)))
    parts, got = framer(), []
    for start, stop in zip([0, *cuts], [*cuts, len(stream)]):
        got += parts.feed(stream[start:stop])
    assert got == expected
    assert got + parts.flush() == expected + whole.flush()
    assert (parts.dropped_bytes, parts.bad_frames) == (whole.dropped_bytes, whole.bad_frames)
    assert sum(len(frame) for _, frame in got) <= len(stream)


def stream_of(epochs: int) -> list[bytes]:
    golden = next(
        message for _, message in decode(GOLDEN.read_bytes()) if isinstance(message, NavPvt)
    )
    found = []
    for number in range(epochs):
        itow = golden.itow_ms + number * 200
        found += [
            encode(golden._replace(itow_ms=itow)),
            RTCM,
            b"$GNTXT,01,01,02,u-blox*12\r\n",
            encode(NavEoe(itow)),
        ]
    return found


@given(st.lists(st.integers(1, 97), min_size=1, max_size=20))
def test_any_chunking_of_a_recording_gives_the_same_messages(sizes: list[int]):
    data = GOLDEN.read_bytes() + b"".join(stream_of(3))

    def run(cuts: list[int]) -> list[Message]:
        receiver = UbloxDevice(Params(), [GnssFix, Heading, Corrections], 1)
        messages: list[Message] = []
        at = number = 0
        while at < len(data):
            size = cuts[number % len(cuts)]
            messages += receiver.on_rx(data[at : at + size], 100)
            at, number = at + size, number + 1
        return messages

    assert run(sizes) == run([len(data)])


@given(st.randoms(use_true_random=False), st.integers(1, 6))
def test_damage_costs_the_damaged_frames_only(random: Random, flips: int):
    frames = stream_of(8)
    starts = [sum(map(len, frames[:at])) for at in range(len(frames))]
    damaged = bytearray(b"".join(frames))
    hit = set()
    for _ in range(flips):
        at = random.randrange(len(damaged))
        damaged[at] ^= 1 << random.randrange(8)
        hit.add(max(index for index, start in enumerate(starts) if start <= at))
    stream = framer()
    got = [frame for _, frame in stream.feed(bytes(damaged)) + stream.flush()]
    intact = Counter(frame for index, frame in enumerate(frames) if index not in hit)
    assert not intact - Counter(got)


@given(st.randoms(use_true_random=False))
def test_a_corrupt_length_does_not_swallow_its_neighbours(random: Random):
    frames = stream_of(4)
    at = random.choice([index for index, frame in enumerate(frames) if frame[:1] == b"\xb5"])
    broken = bytearray(frames[at])
    broken[4:6] = random.randrange(len(broken), 65_536).to_bytes(2, "little")
    stream = framer()
    got = [
        frame
        for _, frame in stream.feed(b"".join([*frames[:at], bytes(broken), *frames[at + 1 :]]))
        + stream.flush()
    ]
    assert got == [*frames[:at], *frames[at + 1 :]]


@given(st.integers(0, 2**32))
def test_hostile_bytes_raise_nothing_and_fill_nothing(seed: int):
    """Sound frames with absurd contents, mutated frames and noise, through the whole device."""
    random = Random(seed)
    receiver = UbloxDevice(
        Params(protocol=random.choice(["ubx", "nmea"])), [GnssFix, Heading, Corrections], 1
    )
    if random.random() < 0.5:
        receiver.on_port(PortState.OPENED, "", 0)
    now = 0
    for _ in range(30):
        now += random.randrange(300_000_000)
        kind = random.randrange(4)
        if kind == 0:
            fixed = random.choice(list(_FIXED.values()))
            data = ubx_frame(
                random.choice([b"\x01\x07", b"\x01\x3c", b"\x06\x8b", b"\x0a\x04"]),
                random.randbytes(fixed.layout.size),
            )
        elif kind == 1:
            name, fixed = random.choice(list(_FIXED.items()))
            data = ubx_frame(IDS[name], random.randbytes(fixed.layout.size))
        elif kind == 2:
            mutated = bytearray(b"".join(stream_of(1)))
            for _ in range(random.randrange(20)):
                mutated[random.randrange(len(mutated))] = random.randrange(256)
            data = bytes(mutated)
        else:
            data = random.randbytes(random.randrange(400))
        for message in [*receiver.on_rx(data, now), *receiver.on_time(now)]:
            assert isinstance(message, receiver.produces)
        receiver.take_tx()
        assert receiver.buffered_bytes < UBX_OVERHEAD_BYTES + MAX_UBX_PAYLOAD_BYTES
        assert receiver.next_due_ns() >= 0


bodies = st.tuples(
    st.sampled_from(["GNGGA", "GNRMC", "GNGST", "GNVTG", "GNTHS", "PUBX", "GN"]),
    st.lists(
        st.one_of(
            st.sampled_from(
                ["", "A", "N", "nan", "-1e999", "240000.00", "123456.5", "310299", "4503.9"]
            ),
            text,
        ),
        max_size=20,
    ),
)


@given(st.lists(bodies, max_size=10))
def test_sentences_with_absurd_fields_raise_nothing(lines: list[tuple[str, list[str]]]):
    receiver = UbloxDevice(Params(protocol="nmea"), [GnssFix, Heading], 1)
    sent = 0
    for name, words in lines:
        body = ",".join([name, *words]).replace("$", "").replace("*", "").encode()
        check = 0
        for byte in body:
            check ^= byte
        sent += len(body) < 200 and body[:6] not in (b"GN", b"GN,")
        for message in receiver.on_rx(b"$%s*%02X\r\n" % (body, check), 100):
            assert isinstance(message, receiver.produces)
    assert receiver.figures.frames["nmea"] >= sent - sum(name == "GN" for name, _ in lines)


def test_a_million_random_and_mutated_bytes(shared_data: Path):
    random = Random(3)
    pool = b"".join(
        (shared_data / "captures" / name).read_bytes()[:40_000]
        for name in (
            "gnss/gpsd__ublox-zed-f9r.log",
            "gnss/gpsd__ublox-zed-f9p-hp.log",
            "rtcm/gpsd__rtcm3.2.log",
        )
    )
    done = 0
    receivers = [
        UbloxDevice(Params(protocol=protocol), [GnssFix, Heading, Corrections], 1)
        for protocol in ("ubx", "nmea")
    ]
    while done < 1_000_000:
        start = random.randrange(len(pool) - 3_000)
        chunk = bytearray(pool[start : start + random.randrange(1, 3_000)])
        for _ in range(random.randrange(1 + len(chunk) // 40)):
            chunk[random.randrange(len(chunk))] = random.randrange(256)
        if random.random() < 0.2:
            chunk = bytearray(random.randbytes(len(chunk)))
        for receiver in receivers:
            for message in receiver.on_rx(bytes(chunk), done):
                assert isinstance(message, receiver.produces)
            assert receiver.buffered_bytes < UBX_OVERHEAD_BYTES + MAX_UBX_PAYLOAD_BYTES
        done += len(chunk)
    assert all(
        receiver.figures.frames["ubx"] > 100 and receiver.bad_frames > 100 for receiver in receivers
    )


@pytest.mark.parametrize(
    "name",
    [
        "gnss/gpsd__ublox-zed-f9r.log",
        "gnss/pyubx2__pygpsdata-BADCK2.log",
        "gnss/gpsd__ublox8-uniqid-monhw.log",
    ],
)
def test_a_recording_cut_at_random_has_the_same_messages(shared_data: Path, name: str):
    data = (shared_data / "captures" / name).read_bytes()
    expected = json.loads((shared_data / "captures" / "counts.json").read_text())[name]["counts"]
    random = Random(7)
    stream, at = framer(), 0
    got: list[tuple[str, bytes]] = []
    while at < len(data):
        size = random.randrange(1, 400)
        got += stream.feed(data[at : at + size])
        at += size
    got += stream.flush()
    assert Counter(decode_frame(protocol, frame)[0] for protocol, frame in got) == expected


def test_flags_of_layouts_do_not_overlap():
    """Each property of the relative position looks at its own bits."""
    vector = NavRelposned._make([1] + [0] * 17)
    names = ("fix_ok", "position_valid", "carrier", "extrapolated", "heading_valid", "normalised")
    for bit in range(10):
        seen = [name for name in names if getattr(vector._replace(flags=1 << bit), name)]
        assert len(seen) <= 1
