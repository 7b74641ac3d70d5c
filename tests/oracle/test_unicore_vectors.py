"""Logs of Unicore receivers: lines of real ones, and what pyunigps reads and writes."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyunigps import UNIReader
from pyunigps.unitypes_core import UNI_MSGIDS
from pyunigps.unitypes_decodes import POSTYPE, SOLSTATUS

from drivers.gnss import unicore
from drivers.gnss.unicore import BestNav, StaDop, Stamp, UniHeading
from tests.examples import examples
from vehicled.core.wire.crc import crc32_plain

SINGLES = st.floats(-400.0, 400.0, width=32)
NAV = BestNav(
    0, 50, 43.07, -89.41, 264.0, -34.0, 61, 0.0625, 0.125, 0.25, b"0", 1.25, 0.0, 24, 22, 0, 0, 0,
    6, 65, 3, 0, 8, 0.0, 0.0, 1.0, 26.5, -0.5, 0.03125, 0.015625,
)  # fmt: skip
# Name in pyunigps by field of ours.
SAME: dict[type, dict[str, str]] = {
    BestNav: {
        "solution": "solstatus", "kind": "postype", "latitude_deg": "lat", "longitude_deg": "lon",
        "altitude_m": "hmsl", "undulation_m": "undulation", "latitude_sigma_m": "latstd",
        "longitude_sigma_m": "lonstd", "altitude_sigma_m": "hmslstd", "correction_age_s": "diffage",
        "tracked": "numsvs", "satellites": "numsolnsvs", "velocity_solution": "vsolstatus",
        "velocity_kind": "veltype", "speed_mps": "horspd", "course_deg": "trkgnd",
        "up_mps": "vertspd", "up_sigma_mps": "verspdstd", "speed_sigma_mps": "horspdstd",
    },
    UniHeading: {
        "solution": "solstatus", "kind": "postype", "length_m": "length", "heading_deg": "heading",
        "pitch_deg": "pitch", "heading_sigma_deg": "hdgstddev", "pitch_sigma_deg": "ptchstddev",
        "tracked": "numsvs", "satellites": "numsolnsvs",
    },
}  # fmt: skip


def lines(real_data: Path) -> list[dict[str, Any]]:
    path = real_data / "captures2" / "gnss" / "unicore_quectel_heading_lines.json"
    if not path.is_file():
        pytest.skip("the lines of real receivers are not among the shared captures")
    found: list[dict[str, Any]] = json.loads(path.read_text())["unicore"]
    return found


def test_lines_of_real_receivers_are_read(real_data: Path) -> None:
    read = [list(unicore.decode(each["line"].encode() + b"\r\n")) for each in lines(real_data)]
    # The one of an older family, which names its port, is not of this protocol.
    assert [len(each) for each in read] == [1, 1, 1, 0, 1]
    vectors = [content for each in read for _, content in each if isinstance(content, UniHeading)]
    assert [(each.solution, each.kind, each.length_m, each.heading_deg) for each in vectors] == [
        (0, 34, 5.5208, 219.9783), (1, 0, 0.0, 0.0),
    ]  # fmt: skip
    assert vectors[0].heading_sigma_deg == 16.439
    assert [name for each in read for name, content in each if isinstance(content, bytes)] == [
        "PVTSLN",
        "PVTSLN",
    ]


def test_a_damaged_line_of_a_real_receiver_is_dropped(real_data: Path) -> None:
    for each in lines(real_data):
        line = each["line"].encode()
        for at in range(1, len(line), 7):
            if line[at] not in b"*,;":
                assert (
                    list(
                        unicore.decode(line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :] + b"\r\n")
                    )
                    == []
                )


@given(
    st.integers(0, 604_799_999),
    st.integers(1800, 4000),
    SINGLES,
    SINGLES,
    st.sampled_from([0, 1, 2, 4]),
    st.sampled_from(list(POSTYPE)),
)
@examples(60)
def test_pyunigps_reads_what_is_written(
    ms: int, week: int, first: float, second: float, solution: int, kind: int
) -> None:
    stamp = Stamp(week, ms)
    logs: list[Any] = [
        NAV._replace(
            solution=solution, kind=kind, altitude_m=first, undulation_m=second, course_deg=first
        ),
        UniHeading(
            solution, kind, 0.5, first, second, 0.0, 0.25, 0.5, b"999", 20, 18, 18, 17, 0, 0, 3, 19
        ),
    ]
    for log in logs:
        parsed: Any = UNIReader.parse(unicore.encode(stamp, log))
        assert (parsed.identity, parsed.wno, parsed.tow) == (
            "BESTNAV" if isinstance(log, BestNav) else "UNIHEADING",
            week,
            ms,
        )
        for field, key in SAME[type(log)].items():
            assert getattr(parsed, key) == getattr(log, field), field
        # And back, from their writer.
        assert list(unicore.decode(parsed.serialize())) == [
            (parsed.identity, log._replace(station=log.station.ljust(4, b"\0")))
        ]


@given(st.integers(0, 604_799_999), st.floats(0.0, 99.0, width=32), st.floats(0.0, 99.0, width=32))
@examples(60)
def test_text_says_what_binary_says(ms: int, hdop: float, vdop: float) -> None:
    stamp = Stamp(2367, ms)
    for log in (
        NAV,
        StaDop(0, 1.0, 1.0, 0.5, round(vdop, 4), round(hdop, 4)),
        UniHeading(0, 50, 0.5, 90.0, *(0.0,) * 4, b"", *(0,) * 8),
    ):
        ((_, binary),) = unicore.decode(unicore.encode(stamp, log))
        ((_, text),) = unicore.decode(unicore.encode_text(stamp, log))
        assert isinstance(binary, tuple)
        assert isinstance(text, tuple)
        for left, right in zip(binary, text):
            assert left == (pytest.approx(right, rel=1e-6) if isinstance(right, float) else right)


def test_tables_are_those_of_pyunigps() -> None:
    assert {
        number: UNI_MSGIDS[number] for number in unicore.NAMES | unicore.OTHER_NAMES
    } == unicore.NAMES | unicore.OTHER_NAMES
    theirs = {text.split()[0]: number for number, text in POSTYPE.items()}
    assert theirs == unicore.TYPES
    assert {text: number for number, text in SOLSTATUS.items()} == unicore.SOLUTIONS


def test_the_crc_is_that_of_its_catalogue() -> None:
    assert crc32_plain(b"123456789") == 0x2DFD2D88


def test_beidou_time_is_gps_time() -> None:
    frame = unicore.encode(Stamp(1011, 604_799_000), NAV)
    found = unicore.read(unicore.BINARY, frame)
    assert found is not None
    assert found[0][:2] == (2368, 13_000)
