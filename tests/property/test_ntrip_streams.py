"""The NTRIP client on hostile and badly cut streams, with the standard library and the plain body
as second opinions."""

import gzip
import io
import zlib
from http.client import HTTPResponse
from pathlib import Path
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.ntrip.body import Chunked, Gzip, Stacked
from drivers.ntrip.codec import HeadReader
from drivers.ntrip.device import NtripDevice
from drivers.ntrip.gga import encode_gga, is_usable
from drivers.ntrip.params import NtripParams
from drivers.ntrip.sourcetable import SourceTableReader
from drivers.rtcm.codec import FrameReader
from tests.ntrip_caster import TABLE, rtcm
from vehicled.core.messages import (
    CarrierSolution,
    Corrections,
    Fault,
    FixType,
    GnssFix,
    Message,
    PortState,
)
from vehicled.core.ports import NEVER_NS, Send

HEADS = {
    "v1": b"ICY 200 OK\r\n\r\n",
    "v1 bare": b"ICY 200 OK\r\n",
    "v2": b"HTTP/1.1 200 OK\r\nContent-Type: gnss/data\r\n\r\n",
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n",
    "chunked gzip": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Encoding: gzip\r\n\r\n"
    ),
}
FRAMES = [
    rtcm(1077, bytes(range(150))),
    rtcm(1230, b"abcd"),
    rtcm(1005, bytes(16)),
    rtcm(1087, b"\r\n3\r\n" * 9),
]


def device() -> NtripDevice:
    return NtripDevice(NtripParams(mountpoint="M"), [Corrections], 1)


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted(place % (len(stream) + 1) for place in cuts)
    return [stream[start:stop] for start, stop in zip([0, *places], [*places, len(stream)])]


def chunk(pieces: list[bytes]) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces if piece)


def wrap(style: str, pieces: list[bytes], whole: bool) -> bytes:
    """A stream in the coding of a head: per piece, or gzip over all of it."""
    if style.endswith("gzip"):
        if whole:
            squeeze = zlib.compressobj(wbits=31)
            pieces = [
                squeeze.compress(piece) + squeeze.flush(zlib.Z_SYNC_FLUSH) for piece in pieces
            ]
        else:
            pieces = [gzip.compress(piece) for piece in pieces if piece]
    return HEADS[style] + (chunk(pieces) if style.startswith("chunked") else b"".join(pieces))


borders = st.lists(st.integers(0, 10_000), max_size=12)


@given(
    st.sampled_from(sorted(HEADS)), st.lists(st.sampled_from(FRAMES), min_size=1, max_size=8),
    st.integers(0, 200), borders, borders, st.booleans(),
)  # fmt: skip
def test_any_chunking_on_either_side_gives_the_same_messages(
    style: str, frames: list[bytes], skip: int, caster: list[int], network: list[int], whole: bool
):
    """The caster may begin anywhere in a frame and cut its chunks anywhere, and the network cuts
    again."""
    stream = b"".join(frames)[min(skip, len(frames[0]) - 1) :] + b"".join(FRAMES) * 3
    wire = wrap(style, cut(stream, caster), whole)
    client = device()
    got = [message for piece in cut(wire, network) for message in client.on_rx(piece, 1)]
    assert got == list(device().on_rx(wire, 1))
    assert [
        message.data for message in got if isinstance(message, Corrections)
    ] == FrameReader().feed(stream)
    assert not any(isinstance(message, Fault) for message in got)


@given(st.lists(st.binary(max_size=200), max_size=12), borders)
def test_chunks_are_what_the_standard_library_takes_them_for(
    pieces: list[bytes], network: list[int]
):
    body = chunk(pieces) + b"0\r\n\r\n"

    class FakeSocket:
        def makefile(self, mode: str) -> io.BytesIO:
            return io.BytesIO(HEADS["chunked"] + body)

    answer = HTTPResponse(FakeSocket())  # type: ignore[arg-type]
    answer.begin()
    decoder = Chunked()
    ours = b"".join(piece for part in cut(body, network) for piece in decoder.feed(part))
    assert ours == answer.read()
    assert (decoder.ended, decoder.error) == (True, "")
    answer.close()


@given(st.lists(st.binary(max_size=300), max_size=30))
def test_hostile_bytes_never_raise(chunks: list[bytes]):
    client = device()
    client.on_port(PortState.OPENED, "", 0)
    for i, data in enumerate(chunks):
        for message in client.on_rx(data, i):
            assert isinstance(message, client.produces)


def worked_off(client: NtripDevice) -> list[Message]:
    """Return the messages of what waits for its turn, within the first second."""
    found: list[Message] = []
    while client.next_due_ns() < 10**9:
        found += client.on_time(client.next_due_ns())
    return found


@given(
    st.sampled_from(sorted(HEADS)), st.lists(st.binary(max_size=300), max_size=20), st.booleans()
)
def test_hostile_bodies_never_raise_and_stay_bounded(style: str, chunks: list[bytes], table: bool):
    client = device()
    client.on_rx(b"SOURCETABLE 200 OK\r\n\r\n" if table else HEADS[style], 0)
    for i, data in enumerate(chunks):
        for message in client.on_rx(data, i):
            assert isinstance(message, client.produces)
    due_ns = client.next_due_ns()
    if due_ns != NEVER_NS:
        client.on_time(due_ns)
    client.on_port(PortState.LOST, "", 100)


@given(st.sampled_from(sorted(HEADS)), st.data(), borders)
def test_mutated_answers_never_raise_and_do_not_depend_on_the_cut(
    style: str, data: st.DataObject, network: list[int]
):
    wire = bytearray(wrap(style, cut(b"".join(FRAMES) * 2, [90, 200, 301, 777]), whole=True))
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(wire) - 1))
        if data.draw(st.booleans()):
            wire[at] ^= data.draw(st.integers(1, 255))
        else:
            wire[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    client, one = device(), device()
    pieces = [message for piece in cut(bytes(wire), network) for message in client.on_rx(piece, 1)]
    if "gzip" not in style:
        assert pieces == list(one.on_rx(bytes(wire), 1))
    # A damaged body may yield fewer corrections or other faults, never half a frame.
    for message in pieces:
        if isinstance(message, Corrections):
            assert FrameReader().feed(message.data) == [message.data]


@given(st.binary(max_size=400), borders)
def test_heads_do_not_depend_on_the_cut(tail: bytes, network: list[int]):
    for start in (
        b"ICY 200 OK\r\n",
        b"HTTP/1.1 200 OK\r\nA: b\r\n",
        b"SOURCETABLE 200 OK\r\n",
        b"ERROR - x\n",
        b"",
    ):
        stream = start + tail
        whole = HeadReader()
        wanted = whole.feed(stream)
        pieces, got, rest = HeadReader(), None, b""
        for part in cut(stream, network):
            if got is None:
                got = pieces.feed(part)
            else:
                rest += part
        assert (got[0], got[1] + rest) == wanted if got else wanted is None
        assert pieces.error == whole.error


@given(
    st.lists(st.text(max_size=60) | st.sampled_from(TABLE.decode().splitlines()), max_size=12),
    borders,
)
def test_tables_do_not_depend_on_the_cut_and_never_raise(lines: list[str], network: list[int]):
    data = "\r\n".join(lines).encode("utf-8", "surrogatepass")
    reader = SourceTableReader()
    for part in cut(data, network):
        reader.feed(part)
    reader.end()
    whole = SourceTableReader()
    whole.feed(data)
    whole.end()
    assert (str(reader.streams), reader.complete) == (str(whole.streams), whole.complete)


@given(
    st.builds(
        GnssFix, st.integers(0, 2**62), st.just(0), st.floats(), st.floats(), st.floats(),
        fix_type=st.sampled_from(FixType), carrier=st.sampled_from(CarrierSolution),
        differential=st.booleans(), correction_age_s=st.floats(), satellites=st.integers(0, 255),
        hdop=st.floats(), utc_ns=st.integers(0, 2**62),
    )
)  # fmt: skip
def test_any_fix_makes_a_sentence_of_the_right_form_or_none(fix: GnssFix):
    if not is_usable(fix):
        return
    line = encode_gga(fix)
    assert line.endswith(b"\r\n")
    assert len(line) <= 86
    cells = line.decode("ascii").split("*")[0].split(",")
    assert len(cells) == 15
    assert (len(cells[2]), len(cells[4])) == (10, 11)
    assert float(cells[2][2:]) < 60.0
    assert float(cells[4][3:]) < 60.0


@given(
    secret=st.text(min_size=4, max_size=40),
    user=st.text(st.characters(codec="ascii", min_codepoint=33), max_size=20),
)
def test_a_secret_never_shows(secret: str, user: str):
    params = NtripParams(
        mountpoint="M", user=user.replace(":", "") or "u", password_file="file-of-the-profile"
    )
    client = NtripDevice(params, [Corrections], 1)
    client.set_secret(secret)
    messages: list[Message] = [*client.on_port(PortState.OPENED, "", 0)]
    (request,) = client.take_tx()
    assert isinstance(request, Send)
    assert request.redacted is not None
    assert request.data.count(b"\r\n\r\n") == 1, "no secret can write a line of its own"
    assert len(request.data.split(b"\r\n")) == len(request.redacted.split(b"\r\n"))
    token = request.data.split(b"Basic ")[1].split(b"\r\n")[0]
    assert token not in request.redacted
    messages += client.on_rx(b"HTTP/1.1 401 " + token + b"\r\n\r\n", 1)
    for text in (repr(request), repr(messages), repr(vars(client))):
        assert token.decode() not in text


def test_the_capture_of_a_chunked_gzip_body_equals_the_plain_one(shared_data: Path):
    folder = shared_data / "captures" / "rtcm"
    coded = (folder / "pygnssutils__ntrip_encode_chunkedgzip.bin").read_bytes()
    decoder = Stacked(Chunked(), Gzip())
    body = b"".join(decoder.feed(coded))
    chunks, inner = cast("Chunked", decoder.outer), cast("Gzip", decoder.inner)
    assert (chunks.chunks, inner.members, len(body), decoder.error) == (292, 292, 62_960, "")
    for size in (1, 5, 333, 1_460, 70_000):
        client = device()
        got = list(client.on_rx(HEADS["chunked gzip"], 1))
        for at in range(0, len(coded), size):
            got += client.on_rx(coded[at : at + size], 1)
        got += worked_off(client)
        assert [
            message.data for message in got if isinstance(message, Corrections)
        ] == FrameReader().feed(body)


@pytest.mark.parametrize("style", sorted(HEADS))
def test_the_plain_capture_in_any_coding_gives_the_same_frames(shared_data: Path, style: str):
    plain = (shared_data / "captures" / "rtcm" / "pygnssutils__ntrip_encode_none.bin").read_bytes()
    borders = [number * 7_919 % len(plain) for number in range(200)]
    for whole in (True, False):
        client = device()
        got = [*client.on_rx(wrap(style, cut(plain, borders), whole), 1), *worked_off(client)]
        assert len([message for message in got if isinstance(message, Corrections)]) == 292


def test_the_captured_source_table(shared_data: Path):
    stream = (shared_data / "captures" / "rtcm" / "gpsd__ntrip_sourcetable.log").read_bytes()
    answer = stream[stream.index(b"SOURCETABLE") :]
    client = NtripDevice(NtripParams(mountpoint="VRS_3_3G"), [Corrections], 1)
    (fault,) = client.on_rx(answer, 1)
    assert isinstance(fault, Fault)
    assert fault.reason.startswith(
        "the caster does not know mountpoint VRS_3_3G (it lists 4); closest by name: VRS_3_2G, "
    )
    one_by_one = NtripDevice(NtripParams(mountpoint="VRS_3_3G"), [Corrections], 1)
    assert [message for byte in answer for message in one_by_one.on_rx(bytes([byte]), 1)] == [fault]
