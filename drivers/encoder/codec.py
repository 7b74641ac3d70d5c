"""Lines of text of microcontrollers that count wheel encoders, in both directions. Sources:
NOTES.md.

``donkeycar``: ``TICKS,MS`` for each encoder, joined by ``;``. Commands: ``cMS`` sends on and on
every MS milliseconds, ``p`` once, ``r`` resets the counts. ``ros_arduino_bridge``: ``LEFT RIGHT``
as the answer to ``e``.
"""

import re
from collections.abc import Iterator
from typing import Literal, get_args

from msgspec import Struct

from drivers.motor.lines import BoundedLines

Dialect = Literal["donkeycar", "ros_arduino_bridge"]
MOST_ENCODERS = 4
_PAIR = re.compile(rb"([+-]?[0-9]{1,20}),([0-9]{1,20})")
_NUMBER = re.compile(rb"[+-]?[0-9]{1,20}")


class EncoderCounts(Struct, frozen=True):
    """Counts of all encoders at one instant."""

    ticks: tuple[int, ...]
    clock_ms: int | None = None
    """Clock of the microcontroller, ms; None where it states none."""


def parse(line: bytes, dialect: Dialect) -> EncoderCounts | None:
    """Return the content of a line without its end; None if it is none."""
    parts = line.strip().split(b";" if dialect == "donkeycar" else b" ")
    if len(parts) > MOST_ENCODERS:
        return None
    if dialect == "ros_arduino_bridge":
        if not all(_NUMBER.fullmatch(part) for part in parts):
            return None
        return EncoderCounts(tuple(int(part) for part in parts))
    pairs = [_PAIR.fullmatch(part) for part in parts]
    found = [(int(pair[1]), int(pair[2])) for pair in pairs if pair is not None]
    if len(found) != len(parts) or len({clock for _, clock in found}) != 1:
        return None
    return EncoderCounts(tuple(ticks for ticks, _ in found), found[0][1])


def decode(data: bytes) -> Iterator[tuple[str, EncoderCounts]]:
    """Iterate over the lines of counts in a recording, of the dialect that most of them have.

    Where most lines are something else there are none: two numbers also occur in other data.
    """
    lines = [line for line in BoundedLines().feed(data + b"\n") if line.strip()]
    found: list[list[EncoderCounts]] = []
    for dialect in get_args(Dialect):
        read = (parse(line, dialect) for line in lines)
        found.append([counts for counts in read if counts is not None])
    counted = max(found, key=len)
    if 2 * len(counted) >= len(lines):
        for counts in counted:
            yield "COUNTS", counts


def encode(counts: EncoderCounts, dialect: Dialect) -> bytes:
    """Return the line of some counts, with its end."""
    if dialect == "ros_arduino_bridge":
        return (" ".join(map(str, counts.ticks)) + "\r\n").encode()
    clock = counts.clock_ms or 0
    return (";".join(f"{ticks},{clock}" for ticks in counts.ticks) + "\r\n").encode()


def encode_request(dialect: Dialect, period_ms: int) -> bytes:
    """Return the command that asks for counts: from now on, or once where a board can do no
    more."""
    return b"e\r" if dialect == "ros_arduino_bridge" else f"c{period_ms}\n".encode()
