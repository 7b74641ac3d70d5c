"""Vector ASC recordings: dates in the languages of the computers that wrote them, time bases,
headers that are not understood."""

from datetime import datetime

import pytest

from vehicled.cli.asc_text import seconds_of
from vehicled.cli.can_files import CanFile, kind_of
from vehicled.core.wire.can import CanFrame

AFTERNOON = datetime(2023, 5, 5, 18, 24, 8).astimezone().timestamp()
FRAME = CanFrame(0x901, bytes.fromhex("00000bb8000a0064"))
LINES = "".join(
    f"   0.00{i} 1  901x             Rx   d 8 00 00 0B B8 00 0A 00 64\n" for i in (1, 2, 4)
)
DATES = {
    "English": "Fri May 05 06:24:08 pm 2023",
    "English, milliseconds": "Fri May 5 06:24:08.000 PM 2023",
    "English, day first": "Fri 5 May 2023 06:24:08 PM",
    "24 hours": "Fri May 05 18:24:08 2023",
    "German": "Fre Mai 05 18:24:08 2023",
    "German, morning and afternoon": "Fr Mai 05 06:24:08 nachm 2023",
    "French": "ven. mai 05 18:24:08 2023",
    "Spanish": "vie may 05 06:24:08 p. m. 2023",
    "Italian": "ven mag 05 18:24:08 2023",
    "Polish": "Pt maj 05 18:24:08 2023",
    "Czech": "pá kvě 05 18:24:08 2023",
    "Portuguese": "sex mai 05 18:24:08 2023",
    "Dutch": "vr mei 05 18:24:08 2023",
    "Swedish": "fre maj 05 18:24:08 2023",
    "Hungarian": "P máj. 05 18:24:08 2023",
    "Turkish": "Cum May 05 18:24:08 2023",
    "Russian": "Пт май 05 18:24:08 2023",
    "Japanese": "2023年5月5日 18:24:08",
    "ISO": "2023-05-05 18:24:08",
    "dots": "05.05.2023 18:24:08",
}


@pytest.mark.parametrize("language", DATES)
def test_a_date_is_read_in_its_language(language: str) -> None:
    assert seconds_of(DATES[language]) == AFTERNOON


@pytest.mark.parametrize(
    ("text", "month"),
    [
        ("mar. mars 14 10:00:00 2023", 3), ("mar mai 16 10:00:00 2023", 5),
        ("Paz May 07 10:00:00 2023", 5), ("Di Mär 14 10:00:00 2023", 3),
        ("Di Mrz 14 10:00:00 2023", 3), ("Śr paź 04 10:00:00 2023", 10),
        ("lun. août 07 10:00:00 2023", 8), ("lun juil. 03 10:00:00 2023", 7),
        ("lun juin 05 10:00:00 2023", 6), ("Wed Dec 31 12:00:00 am 2025", 12),
        ("Do Okt 05 10:00:00 2023", 10), ("gio ott 05 10:00:00 2023", 10),
    ],
)  # fmt: skip
def test_months_are_distinguished_from_days_of_the_week(text: str, month: int) -> None:
    seconds = seconds_of(text)
    assert seconds is not None
    assert datetime.fromtimestamp(seconds).astimezone().month == month


@pytest.mark.parametrize(
    "text",
    [
        "",
        "yesterday",
        "05/06/2023 10:00:00",
        "Foo Bar 05 10:00:00 2023",
        "Fri May 55 10:00:00 2023",
    ],
)
def test_a_date_in_doubt_is_none(text: str) -> None:
    assert seconds_of(text) is None


def read(text: str | bytes) -> tuple[list[float], CanFile]:
    data = text.encode() if isinstance(text, str) else text
    assert kind_of(data) == ".asc"
    file = CanFile(data, ".asc")
    found = list(file)
    assert [frame for _, frame in found] == [FRAME] * len(found)
    return [round(t_s, 6) for t_s, _ in found], file


def test_times_are_utc_where_the_date_is_understood() -> None:
    header = "date Pt maj 05 18:24:08 2023\nbase hex  timestamps absolute\ninternal events logged\n"
    times, file = read(header + LINES)
    assert times == pytest.approx([AFTERNOON + t for t in (0.001, 0.002, 0.004)])
    assert file.note == ""
    # The trigger block has a date of its own, and that counts.
    times, _ = read(
        header.replace("18:", "11:")
        + "Begin Triggerblock Fri May 05 06:24:08 pm 2023\n"
        + LINES
        + "End Triggerblock\n"
    )
    assert times[0] == pytest.approx(AFTERNOON + 0.001)
    # The code page of the computer, where it is neither UTF-8 nor ours.
    times, _ = read("date Śr paź 04 10:00:00 2023\nbase hex\n".encode("cp1250") + LINES.encode())
    assert datetime.fromtimestamp(times[0]).astimezone().month == 10


@pytest.mark.parametrize(
    "header",
    [
        "date Foo Bar 05 18:24:08 2023\nbase hex  timestamps absolute\ninternal events logged\n",
        "date 05/06/2023 10:00:00\nbase hex  timestamps absolute\nno internal events logged\n",
        "base hex  timestamps absolute\nBegin Triggerblock Foo 05 18:24:08 2023\n",
        "date Fri May 05 06:24:08 pm 20\nbase hex  timestamps absolute\n// version 9.0.0\n",
    ],
)
def test_a_header_that_is_not_understood_costs_the_date_alone(header: str) -> None:
    times, file = read(header + LINES)
    assert times == [0.001, 0.002, 0.004]
    assert "is not understood: times count from the start" in file.note
    assert file.damaged == 0


def test_no_header_costs_nothing() -> None:
    assert read(LINES)[0] == [0.001, 0.002, 0.004]
    assert read("// version 7.1.0\r\n" + LINES.replace("\n", "\r\n"))[0] == [0.001, 0.002, 0.004]


def test_relative_times_count_from_the_line_before_whatever_it_is() -> None:
    times, _ = read(
        "base hex  timestamps relative\n"
        + LINES.replace("   0.002", "   0.010 Start of measurement\n   0.002")
    )
    assert times == [0.001, 0.013, 0.017]


def test_decimal_numbers_are_read_as_such() -> None:
    text = "base dec  timestamps absolute\n   0,001 1  2305x  Rx   d 8 0 0 11 184 0 10 0 100\n"
    assert read(text)[0] == [0.001]
