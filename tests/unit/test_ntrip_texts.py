"""Text formats of the NTRIP client: positions, source tables, codings of bodies."""

import gzip
import zlib
from math import nan, pi, radians

import pytest

from drivers.ntrip.body import Chunked, Gzip, IdentityBody
from drivers.ntrip.codec import Credentials, HeadReader, encode_request
from drivers.ntrip.gga import encode_gga, is_usable
from drivers.ntrip.sourcetable import (
    MAX_STREAMS,
    MAX_TABLE_BYTES,
    Closest,
    Mountpoint,
    SourceTableReader,
    parse_stream,
)
from tests.ntrip_caster import TABLE
from vehicled.core.messages import CarrierSolution, FixType, GnssFix

UTC_NS = (12 * 3600 + 35 * 60 + 19) * 10**9 + 20_000 * 86_400 * 10**9


def fix(
    latitude_deg: float = 48.1173, longitude_deg: float = 11.516667, **others: object
) -> GnssFix:
    values: dict[str, object] = {
        "fix_type": FixType.FIX_3D,
        "utc_ns": UTC_NS,
        "satellites": 8,
        "hdop": 0.9,
    } | others
    height_m = values.pop("height_m", 545.4)
    return GnssFix(0, 0, radians(latitude_deg), radians(longitude_deg), height_m, **values)  # type: ignore[arg-type]


def cells(fix: GnssFix) -> list[str]:
    return encode_gga(fix).decode().strip().partition("*")[0].split(",")


def test_a_sentence_is_exact():
    assert (
        encode_gga(fix())
        == b"$GPGGA,123519.00,4807.03800,N,01131.00002,E,1,08,0.90,545.40,M,0.0,M,,*50\r\n"
    )


@pytest.mark.parametrize(
    ("latitude_deg", "longitude_deg", "written"),
    [
        (0.0, 0.0, ["0000.00000", "N", "00000.00000", "E"]),
        (-33.5, -70.25, ["3330.00000", "S", "07015.00000", "W"]),
        (90.0, 180.0, ["9000.00000", "N", "18000.00000", "E"]),
        (-90.0, -180.0, ["9000.00000", "S", "18000.00000", "W"]),
        # Minutes that would round to sixty.
        (12.999999999, 8.9999999999, ["1300.00000", "N", "00900.00000", "E"]),
        (1 / 60.0, 0.5 / 60.0, ["0001.00000", "N", "00000.50000", "E"]),
        (10.0, 350.0, ["1000.00000", "N", "01000.00000", "W"]),
        (10.0, -190.0, ["1000.00000", "N", "17000.00000", "E"]),
    ],
)
def test_angles(latitude_deg: float, longitude_deg: float, written: list[str]):
    assert cells(fix(latitude_deg, longitude_deg))[2:6] == written


@pytest.mark.parametrize(
    ("state", "quality"),
    [
        ({}, "1"),
        ({"fix_type": FixType.FIX_2D}, "1"),
        ({"differential": True}, "2"),
        ({"differential": True, "carrier": CarrierSolution.FIXED}, "4"),
        ({"differential": True, "carrier": CarrierSolution.FLOAT}, "5"),
        ({"fix_type": FixType.DEAD_RECKONING, "carrier": CarrierSolution.FIXED}, "6"),
        ({"fix_type": FixType.NONE, "carrier": CarrierSolution.FIXED}, "0"),
    ],
)
def test_quality(state: dict[str, object], quality: str):
    assert cells(fix(**state))[6] == quality  # type: ignore[arg-type]


def test_what_is_unknown_is_blank_and_what_is_too_large_is_cut():
    blank = cells(fix(utc_ns=0, hdop=nan, satellites=0))
    assert (blank[1], blank[7], blank[8], blank[13], blank[14]) == ("", "00", "", "", "")
    large = cells(fix(hdop=500.0, satellites=200, height_m=1e9, correction_age_s=1e6))
    assert (large[7], large[8], large[9], large[13]) == ("99", "99.99", "99999.00", "999.9")
    assert cells(fix(height_m=nan))[9:13] == ["", "M", "", "M"], "no height is not a height of zero"
    assert cells(fix(utc_ns=UTC_NS + 999_999_999))[1] == "123519.99"
    usual = encode_gga(
        fix(
            correction_age_s=1.2, carrier=CarrierSolution.FIXED, satellites=32, longitude_deg=-170.0
        ),
        "GN",
    )
    assert len(usual) <= 82
    assert is_usable(fix())
    assert not is_usable(fix(latitude_deg=91.0))


def test_requests_are_exact():
    plain = encode_request(1, "", "M", "NTRIP test")
    assert plain == (
        b"GET /M HTTP/1.0\r\nUser-Agent: NTRIP test\r\nAccept: */*\r\nConnection: close\r\n\r\n",
        None,
    )
    data, redacted = encode_request(
        2, "h:1", "M", "NTRIP test", Credentials("Aladdin", "open sesame"), b"$GPGGA,x*00\r\n"
    )
    assert data == (
        b"GET /M HTTP/1.1\r\nHost: h:1\r\nNtrip-Version: Ntrip/2.0\r\nUser-Agent: NTRIP "
        b"test\r\nAccept: */*\r\n"
        b"Ntrip-GGA: $GPGGA,x*00\r\nConnection: close\r\nAuthorization: Basic "
        b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==\r\n\r\n"
    )
    assert redacted == data.replace(b"QWxhZGRpbjpvcGVuIHNlc2FtZQ==", b"***")
    assert "sesame" not in repr(Credentials("Aladdin", "open sesame"))


def test_line_feeds_alone_end_lines_too_and_empty_lines_may_come_first():
    answer = HeadReader().feed(b"\r\n\nHTTP/1.0 200 OK\nServer:x\nB : y\nnonsense\n\nbody")
    assert answer is not None
    head, body = answer
    assert (head.status, head.fields, body) == (200, {"server": "x", "b": "y"}, b"body")


@pytest.mark.parametrize(
    "body", [b"\xd3\x00", b"Ab\xd3:", b":x\r\n", b"a b: c\r\n", b"\rX", b"name only\r\n", b"9: x"]
)
def test_the_body_of_version_1_begins_where_no_field_can(body: bytes):
    for before in (
        b"ICY 200 OK\r\n",
        b"ICY 200 OK\r\nServer: x\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"ICY 200 OK\n\n",
    ):
        reader = HeadReader()
        answer = None
        for at, byte in enumerate(before + body):
            answer = reader.feed(bytes([byte]))
            if answer is not None:
                rest = answer[1] + (before + body)[at + 1 :]
                break
        assert answer is not None
        assert rest == body


@pytest.mark.parametrize("size", [b"3", b"03", b" 3 ", b"3;name=value", b'3;x="a;b"', b"0000003"])
def test_sizes_of_chunks_as_casters_write_them(size: bytes):
    decoder = Chunked()
    stream = size + b"\r\nabc\r\n" + size + b"\ndef\n0\r\nTrailer: x\r\n\r\nrest"
    assert b"".join(piece for byte in stream for piece in decoder.feed(bytes([byte]))) == b"abcdef"
    assert decoder.ended
    assert decoder.error == ""
    assert decoder.chunks == 2


@pytest.mark.parametrize(
    "line", [b"", b"+3", b"0x3", b"1_0", b"-1", b"g", b"123456789", b";" + b"x" * 300, b"3 4"]
)
def test_sizes_that_are_none(line: bytes):
    decoder = Chunked()
    assert decoder.feed(line + b"\r\nabc") == []
    assert decoder.error == "a chunk of the body has no size"
    assert decoder.feed(b"3\r\nabc\r\n") == []


def test_a_size_without_an_end_is_not_collected_for_ever():
    decoder = Chunked()
    for _ in range(100):
        decoder.feed(b"5;xxx")
    assert decoder.error == "a chunk of the body has no size"


def test_gzip_that_grows_beyond_reason_is_given_up_early():
    bomb = gzip.compress(bytes(200 << 20), 9)
    decoder = Gzip()
    out = sum(
        len(piece)
        for at in range(0, len(bomb), 1_000)
        for piece in decoder.feed(bomb[at : at + 1_000])
    )
    assert decoder.error == "the compressed body expands beyond the limit"
    assert out < 1 << 18
    honest = Gzip()
    table = b"".join(
        f"STR;MOUNT{k};Town {k};RTCM 3.2;1005(10),1077(1);2;GPS;NET;DEU;50.{k};9.{k}\r\n".encode()
        for k in range(9_000)
    )
    assert b"".join(honest.feed(gzip.compress(table))) == table
    assert (honest.error, honest.members) == ("", 1)


def test_gzip_lets_out_everything_that_is_in():
    # Output beyond one piece, left behind when all input has been taken.
    for size in (4_095, 4_096, 4_097, 16_384, 65_535):
        squeeze = zlib.compressobj(wbits=31)
        data = squeeze.compress(bytes(size)) + squeeze.flush(zlib.Z_SYNC_FLUSH)
        assert sum(map(len, Gzip().feed(data))) == size
        for stop in range(len(data) // 2, len(data)):
            assert sum(map(len, Gzip().feed(data[:stop]))) == len(
                zlib.decompressobj(31).decompress(data[:stop])
            )


def test_what_is_called_gzip_and_is_none_passes():
    for body in (b"\xd3\x00\x13abc", b"\x1fabc", b"x"):
        decoder = Gzip()
        assert b"".join(piece for byte in body for piece in decoder.feed(bytes([byte]))) == body
        assert b"".join(Gzip().feed(body)) == body


def test_a_length_ends_the_body():
    decoder = IdentityBody(5)
    assert decoder.feed(b"abc") == [b"abc"]
    assert not decoder.ended
    assert decoder.feed(b"defg") == [b"de"]
    assert decoder.ended
    assert decoder.feed(b"h") == []


def test_the_table_of_the_test_caster():
    reader = SourceTableReader()
    reader.feed(TABLE)
    assert reader.complete
    assert [stream.mountpoint for stream in reader.streams] == [
        "BASE_NORTH",
        "BASE_SOUTH",
        "NETWORK",
        "ISLAND",
    ]
    assert reader.streams[1].distance_m(radians(48.0), radians(11.5)) == pytest.approx(
        13_400, abs=50
    )


@pytest.mark.parametrize(
    ("line", "record"),
    [
        ("STR;ONLY", Mountpoint("ONLY")),
        ("STR;A;;;;x;;;;north;400", Mountpoint("A")),
        ("STR;A;;;;;;;;91.0;-361", Mountpoint("A")),
        ("STR;A;;;;;;;;nan;inf", Mountpoint("A")),
        ("STR;A;;;;;;;;-45.0;315.0", Mountpoint("A", latitude_rad=-pi / 4, longitude_rad=-pi / 4)),
        ("CAS;h;99999999999", None),
        ("NET;n;o;b;Y", None),
        ('STR;A;"open;quote', Mountpoint("A")),
        ('STR;A;"a;b";c;d;e;f;g;h;45.0;-45.0', Mountpoint("A", pi / 4, -pi / 4)),
        ("STR;", None),
        ("STR", None),
        ("XYZ;a", None),
        ("", None),
    ],
)
def test_records_with_holes(line: str, record: object):
    assert str(parse_stream(line)) == str(record)


def test_a_table_is_bounded():
    reader = SourceTableReader()
    reader.feed(b"x" * 5_000)
    reader.feed(b"x" * 5_000 + b"\nSTR;A\n")
    assert [stream.mountpoint for stream in reader.streams] == ["A"]
    reader.feed(b"STR;B;c\n" * (MAX_STREAMS + 10))
    assert reader.complete
    assert len(reader.streams) == MAX_STREAMS
    endless = SourceTableReader()
    for _ in range(MAX_TABLE_BYTES // 60_000 + 2):
        endless.feed(b"junk\n" * 12_000)
    assert endless.complete


def test_names_that_were_probably_meant():
    names = ["CORS01RTCM3", "CORS02RTCM3", "MUNICH-RTCM3", "VRS_3_2G", "xyz"]

    def closest(wanted: str) -> str:
        search = Closest(wanted)
        for name in names:
            search.add([Mountpoint(name)])
        return search.names()[0]

    assert closest("cors02rtcm3") == "CORS02RTCM3"
    assert closest("MUNCH-RTCM3") == "MUNICH-RTCM3"
    assert closest("VRS_3_3G") == "VRS_3_2G"
    assert Closest("a").nearest() == []
    assert Closest("").names() == []
