"""u-blox captures: the bytes of a recording through the driver itself, at the times they must have
come.

With the ``.times`` file that ``vehicled devices record`` writes beside its recording, these are the
times of arrival. Without it they are made up from the receiver's own: everything of an epoch
arrives the driver's latency after it. The clock is then that of GNSS, and says nothing of the line.
"""

import re
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vehicled.core.messages import GnssFix, Heading, Message, PortState
from vehicled.core.ports import NEVER_NS
from vehicled.core.wire.crc import fletcher8
from vehicled.offline.recordings.errors import RecordingError
from vehicled.offline.recordings.foreign.source import ForeignFile, Stamped
from vehicled.profile.registry import resolve

_START_NS = 1_000_000_000
_WEEK_MS = 604_800_000
_DAY_MS = 86_400_000
_GAP_MS = 60_000
"""A step of the receiver's time that is longer, or goes back, is taken as a second: the capture was
cut there."""
_REPEATED_MS = 10_000
_PIECE_BYTES = 4096
_NAV = 0x01
_TIME_AT = dict.fromkeys(
    (
        0x01,
        0x02,
        0x03,
        0x04,
        0x06,
        0x07,
        0x11,
        0x12,
        0x20,
        0x21,
        0x22,
        0x30,
        0x35,
        0x36,
        0x43,
        0x61,
    ),
    0,
) | dict.fromkeys((0x13, 0x14, 0x3C), 4)
"""Offset of the time of week in the payload of NAV messages, by message number."""
_SENTENCE = re.compile(rb"\$[A-Z]{2}(?:GGA|RMC|GNS|GST|ZDA|GBS),(\d{6}(?:\.\d+)?),")
_TIMES_HEAD = re.compile(r"UTC (-?\d+) ns")

Piece = tuple[int, bytes]
"""Arrival in ns, bytes."""


def read(path: Path) -> ForeignFile:
    """A capture, UBX or NMEA. Raises :class:`RecordingError`."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise RecordingError(f"{path}: cannot be read: {error.strerror}") from error
    times = path.with_name(path.name + ".times")
    epochs = list(_ubx_epochs(data))
    protocol, notes = "ubx", list[str]()
    if not epochs:
        epochs, protocol = list(_nmea_epochs(data)), "nmea"
    offset_ns = None
    if times.is_file():
        pieces, offset_ns = _recorded(path, times, data)
    elif epochs:
        latency_ms: float = resolve("driver", "ublox").Params().latency_ms
        pieces = _reconstructed(data, epochs, round(latency_ms * 1e6))
        notes.append("no .times beside it: arrivals are made up from the receiver's own time")
    else:
        raise RecordingError(
            f"{path}: holds no UBX message with a time and no NMEA sentence with one"
        )
    messages = _through_driver(pieces, protocol)
    return ForeignFile(
        format=f"u-blox capture ({protocol.upper()})", messages=messages, utc_offset_ns=offset_ns,
        notes=notes,
        about={"stamps": "arrivals as recorded" if times.is_file()
            else "made up from the receiver's epochs"},
    )  # fmt: skip


def _through_driver(pieces: Iterator[Piece], protocol: str) -> Iterator[Stamped]:
    """Messages of the driver, which gets the time as from the daemon."""
    driver: Any = resolve("driver", "ublox")
    wanted: tuple[type[Message], ...] = (GnssFix, Heading)
    device = driver(driver.Params(configure=False, protocol=protocol), wanted, 0)
    now_ns = 0
    opened = False
    for t_ns, data in pieces:
        if not opened:
            device.on_port(PortState.OPENED, "capture", t_ns)
            opened = True
        while now_ns < (due_ns := device.next_due_ns()) <= t_ns:
            now_ns = due_ns
            yield from _kept(device.on_time(due_ns), due_ns)
            device.take_tx()
        now_ns = t_ns
        yield from _kept(device.on_rx(data, t_ns), t_ns)
        device.take_tx()
    last_ns = now_ns + _START_NS
    while now_ns < (due_ns := device.next_due_ns()) <= min(last_ns, NEVER_NS - 1):
        now_ns = due_ns
        yield from _kept(device.on_time(due_ns), due_ns)


def _kept(messages: Any, t_ns: int) -> Iterator[Stamped]:
    for message in messages:
        if isinstance(message, GnssFix | Heading):
            yield t_ns, message


# ------------------------------------------------------------------ when


def _recorded(path: Path, times: Path, data: bytes) -> tuple[Iterator[Piece], int | None]:
    """Pieces as they arrived, and UTC minus their clock."""
    offset_ns = None
    rows = []
    try:
        for line in times.read_text().splitlines():
            if line.startswith("#"):
                found = _TIMES_HEAD.search(line)
                offset_ns = int(found.group(1)) if found else offset_ns
            elif line.strip():
                at, size, t_ns = map(int, line.split())
                rows.append((t_ns, at, size))
    except (OSError, ValueError) as error:
        raise RecordingError(
            f"{times}: is not what `vehicled devices record` writes beside {path.name}: {error}"
        ) from error
    if any(at < 0 or size < 0 or at + size > len(data) for _, at, size in rows):
        raise RecordingError(
            f"{times}: does not belong to {path.name}: it lists more bytes than there are"
        )
    return ((t_ns, data[at : at + size]) for t_ns, at, size in rows), offset_ns


def _reconstructed(
    data: bytes, epochs: list[tuple[int, int, int]], latency_ns: int
) -> Iterator[Piece]:
    """Pieces by epoch: all bytes from the first message of an epoch to that of the next arrive
    together."""
    t_ns, before_ms = _START_NS + latency_ns, epochs[0][1]
    for number, (at, time_ms, period_ms) in enumerate(epochs):
        step_ms = time_ms - before_ms
        if step_ms < -period_ms // 2:
            step_ms += period_ms
        t_ns += (step_ms if 0 <= step_ms <= _GAP_MS else 1000) * 1_000_000
        before_ms = time_ms
        start = at if number else 0
        stop = epochs[number + 1][0] if number + 1 < len(epochs) else len(data)
        for first in range(start, stop, _PIECE_BYTES):
            yield t_ns, data[first : min(first + _PIECE_BYTES, stop)]


def _ubx_epochs(data: bytes) -> Iterator[tuple[int, int, int]]:
    """(offset, time of week in ms, period of that time) of the first message of each navigation
    epoch."""
    at, last = 0, -_WEEK_MS
    while (at := data.find(b"\xb5\x62", at)) >= 0 and at + 8 <= len(data):
        kind, identifier, length = struct.unpack_from("<BBH", data, at + 2)
        stop = at + 8 + length
        if (
            stop > len(data)
            or length > 8192
            or data[stop - 2 : stop] != fletcher8(data[at + 2 : stop - 2])
        ):
            at += 1
            continue
        place = _TIME_AT.get(identifier)
        if kind == _NAV and place is not None and length >= place + 4:
            (time_ms,) = struct.unpack_from("<I", data, at + 6 + place)
            # Some messages (leap seconds, orbits) repeat the time of an epoch before.
            if time_ms < _WEEK_MS and not last - _REPEATED_MS < time_ms <= last:
                last = time_ms
                yield at, time_ms, _WEEK_MS
        at = stop


def _nmea_epochs(data: bytes) -> Iterator[tuple[int, int, int]]:
    """The same of NMEA, by time of day."""
    last = b""
    for found in _SENTENCE.finditer(data):
        text = found.group(1)
        if text != last:
            last = text
            time_ms = (int(text[0:2]) * 3600 + int(text[2:4]) * 60) * 1000 + round(
                float(text[4:]) * 1000
            )
            yield found.start(), time_ms, _DAY_MS
