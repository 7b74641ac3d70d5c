"""Text of Vector ASC recordings, made uniform before it is read: date in any language, time base,
missing header.

Vector's programs write the date in the language of the computer, and other programs leave parts of
the header out. A header that is not understood costs the date, never the frames.
"""

import re
import unicodedata
from datetime import datetime
from typing import NamedTuple

_MONTHS = (
    (
        "jan janv januar january ene enero gen gennaio sty stycznia led ledna oca ocak ian "
        "ianuarie янв января"
    ),
    (
        "feb febr februar february fev févr février febrero febbraio lut lutego úno února şub "
        "şubat фев февраля"
    ),
    "mar mär mrz märz march mars marzo marca mrt maart bře března márc mart martie мар марта",
    "apr april avr avril abr abril aprile kwi kwietnia dub dubna ápr nis nisan aprilie апр апреля",
    "may mai mei maj maio mayo maggio mag kvě května máj мая май",
    "jun juni june juin junio giu giugno cze czerwca čvn června jún haz haziran iun iunie июн июня",
    (
        "jul juli july juil juillet julio lug luglio lip lipca čvc července júl tem temmuz iul "
        "iulie июл июля"
    ),
    "aug august août aou ago agosto sie sierpnia srp srpna ağu ağustos augusti avg авг августа",
    (
        "sep sept september septembre septiembre set setembro settembre wrz września zář září "
        "szept eyl eylül сен сентября"
    ),
    (
        "oct okt october oktober octobre octubre ott ottobre paź października říj října out "
        "outubro eki ekim окт октября"
    ),
    (
        "nov november novembre noviembre novembro lis listopada listopadu kas kasım noi noiembrie "
        "ноя ноября"
    ),
    (
        "dec dez december dezember décembre déc diciembre dic dicembre gru grudnia pro prosince "
        "dezembro ara aralık des дек декабря"
    ),
)
"""Names of the months, short and long: English, German, French, Spanish, Italian, Polish, Czech,
Portuguese, Dutch, Swedish, Norwegian, Danish, Hungarian, Turkish, Romanian, Russian."""
_AFTERNOON = ("pm", "p", "nachm", "下午", "午後")
_MORNING = ("am", "a", "vorm", "上午", "午前")
_TIME = re.compile(r"(\d{1,2}):(\d{2}):(\d{2})(?:[.,:](\d{1,9}))?")
_YEAR_FIRST = re.compile(r"(\d{4})[-./年](\d{1,2})[-./月](\d{1,2})")
_DAY_FIRST = re.compile(r"(\d{1,2})\.\s?(\d{1,2})\.\s?(\d{4})")
_DATE_LINE = re.compile(r"\s*(?:date|datum)\s+(.+)", re.IGNORECASE)
_TRIGGER_LINE = re.compile(r"\s*begin\s+trigger\s?block\b(.*)", re.IGNORECASE)
_BASE_LINE = re.compile(r"\s*base\s+(hex|dec)\b(.*)", re.IGNORECASE)
_OTHER_HEADER = re.compile(r"\s*(?:no\s+)?internal\s+events\s+logged|\s*//", re.IGNORECASE)
_STAMP = re.compile(r"(\s*)(\d+)[.,](\d+)(?=\s)")
FRAME = re.compile(
    rb"^\s*\d+[.,]\d+\s+(?:CANFD\s|\d+\s+[0-9A-F]+x?\s+[RT]x\s+[dr]\b)",
    re.IGNORECASE | re.MULTILINE,
)
"""A line with a frame, by which a recording without a header is known."""


class AscText(NamedTuple):
    """Uniform text: a header, then lines whose times count from the start."""

    text: str
    start_s: float
    """UTC of the start, s; 0 where the date is missing or not understood."""
    note: str
    """Part of the header that was not understood; empty if nothing."""


def uniform(data: bytes) -> AscText:
    """Return the text of a recording with a header that python-can reads, and times from its
    start."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        # Vector's programs write the code page of the computer.
        text = data.decode("cp1252", "replace")
    base, relative, date, trigger, note = "hex", False, "", "", ""
    lines: list[str] = []
    total_s = 0.0
    for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n"):
        if not lines and (found := _DATE_LINE.match(line)):
            date = found[1].strip()
        elif found := _TRIGGER_LINE.match(line):
            trigger = found[1].strip() or trigger
        elif found := _BASE_LINE.match(line):
            base, relative = found[1].lower(), "relative" in found[2].lower()
        elif _OTHER_HEADER.match(line):
            continue
        elif stamp := _STAMP.match(line):
            own_s = float(f"{stamp[2]}.{stamp[3]}")
            total_s += own_s
            # Relative times count from the line before, whatever that line contains.
            lines.append(f"{total_s if relative else own_s:.9f}{line[stamp.end() :]}")
        elif line.strip():
            lines.append(line)
    start_s = 0.0
    for stated in filter(None, (trigger, date)):
        found_s = seconds_of(stated)
        if found_s is not None:
            start_s = found_s
            break
        note = (
            f'the date "{stated[:60]}" is not understood: times count from the start of the '
            "recording"
        )
    header = f"base {base}  timestamps absolute\ninternal events logged\n"
    return AscText(header + "\n".join(lines) + "\n", start_s, "" if start_s else note)


def seconds_of(text: str) -> float | None:
    """Return the UTC seconds of a date of this computer's time zone, in the form of any language;
    None if not understood."""
    clock = _TIME.search(text)
    rest = text if clock is None else text[: clock.start()] + " " + text[clock.end() :]
    hour, minute, second = (int(clock[k]) for k in (1, 2, 3)) if clock else (0, 0, 0)
    fraction = float(f"0.{clock[4]}") if clock and clock[4] else 0.0
    words = [word.strip(".,") for word in re.findall(r"[^\W\d_]+(?:\.[^\W\d_]+\.?)?", rest)]
    plain = [word.replace(".", "").lower() for word in words]
    if any(word in _AFTERNOON for word in plain):
        hour = hour % 12 + 12
    elif any(word in _MORNING for word in plain):
        hour = hour % 12
    day = _numbers(rest) or _named(rest, words)
    if day is None:
        return None
    try:
        return datetime(*day, hour, minute, second).astimezone().timestamp() + fraction
    except (ValueError, OverflowError, OSError):
        return None


def _numbers(text: str) -> tuple[int, int, int] | None:
    """Return year, month and day of a date in numbers, unless day and month could be exchanged."""
    if found := _YEAR_FIRST.search(text):
        return int(found[1]), int(found[2]), int(found[3])
    if found := _DAY_FIRST.search(text):
        return int(found[3]), int(found[2]), int(found[1])
    return None


def _named(text: str, words: list[str]) -> tuple[int, int, int] | None:
    # The last of several: "mar" is March, and Tuesday in front of a month.
    month = next((number for word in reversed(words) if (number := _month(word))), 0)
    numbers = [int(number) for number in re.findall(r"\d+", text)]
    years, days = [n for n in numbers if 1980 <= n <= 2200], [n for n in numbers if 1 <= n <= 31]
    return (years[0], month, days[0]) if month and years and days else None


def _month(word: str) -> int:
    """Return the number of a month by its name; 0 for other words."""
    name, letters = _plain(word), re.sub(r"[^a-z]", "", word.lower())
    for number, names in enumerate(_MONTHS, start=1):
        if name in map(_plain, names.split()):
            return number
    if len(letters) < len(word):
        for number, names in enumerate(_MONTHS, start=1):
            if letters in map(_ascii, names.split()):
                return number
    return 0


def _plain(word: str) -> str:
    """Return a word in lower case without accents."""
    return "".join(
        c for c in unicodedata.normalize("NFKD", word.lower()) if not unicodedata.combining(c)
    )


def _ascii(word: str) -> str:
    """Return the ASCII letters of a word, which any code page leaves as they are; of a word with
    others only."""
    letters = re.sub(r"[^a-z]", "", word)
    return letters if letters != word else "\0"
