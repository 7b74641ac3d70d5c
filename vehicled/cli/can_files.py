"""Read and write CAN recordings of other tools: candump, and with python-can Vector ASC and BLF,
CSV; PCAN TRC read-only.

An error frame is never data, and keeps its class. candump writes it as an identifier with bit 29.
ASC has no place for it, so a comment before the line of the error holds it.
"""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import can
from can.io import ASCReader, BLFReader, CSVReader, TRCReader

from vehicled.cli import asc_text
from vehicled.core.errors import SetupError
from vehicled.core.wire.can import (
    ERROR_FLAG,
    EXTENDED_MASK,
    MAX_DATA_BYTES,
    RECORD_BYTES,
    REMOTE_FLAG,
    CanFrame,
    unpack_all,
)

WRITTEN = (".log", ".asc", ".blf", ".csv")
"""File name extensions of the formats for writing."""
DAMAGE_LIMIT = 100
"""Number of damaged lines after which reading stops."""
_HEAD_BYTES = 4096
_CANDUMP = re.compile(rb"^\s*\(\d+\.\d+\)\s+\S+\s+[0-9A-Fa-f]{3,8}#", re.M)
_CANDUMP_LINE = re.compile(
    r"\s*\((?P<time>\d+\.\d+)\)\s+\S+\s+(?P<id>[0-9A-F]{3}|[0-9A-F]{8})#(?:(?P<fd>#)[0-9A-F](?:[0-9A-F]{2}){0,64}"
    r"|(?P<remote>R)(?P<length>[0-8]?)(?:_[9A-F])?|(?P<data>(?:[0-9A-F]{2}\.?){0,8})(?:_[9A-F])?)(?:\s+[RT])?\s*",
    re.I,
)
_CANDUMP_SCREEN = re.compile(
    rb"^\s*(?:\([-\d.: ]+\)\s+)?\w+\s+(?:(?:TX|RX)\s\S*\s+)*[0-9A-F]{3,8}\s+\[\d+\]", re.M
)
_ASC = re.compile(rb"\A\s*(?:date\s|base\s+(?:hex|dec)\b|//)", re.I)
_ASC_ERROR = re.compile(r"^// SocketCAN error ([0-9A-F]{8})#((?:[0-9A-F]{2}){0,8})\s*$", re.M)
_TRC_ERROR = re.compile(
    r"^\s*\d+\)?\s+[\d.]+\s+(?:\d+\s+)?(?:Error|Warng|ER|ST|EC|EV|FFFFFFFF)\s", re.M
)
"""Errors and states of the bus in a PCAN file, of any version."""
_ASC_MESSAGE = re.compile(rb"^\s*base\s+(?:hex|dec)\b", re.I | re.M)


def kind_of(data: bytes) -> str:
    """Return the format of a CAN recording, detected from its content; empty if none.

    The result is an extension of ``WRITTEN``, ``.trc``, ``records`` for raw frames of a port, or
    ``screen`` for candump without ``-l``.
    """
    head = data[:_HEAD_BYTES]
    if data[:4] == b"LOGG":
        return ".blf"
    if head.startswith(b"timestamp,arbitration_id,"):
        return ".csv"
    if (_ASC.match(head) and _ASC_MESSAGE.search(head)) or asc_text.FRAME.search(head):
        return ".asc"
    if head.startswith(b";$FILEVERSION") or re.match(rb";.*\r?\n(?:;.*\r?\n)*\s*\d+\)", head):
        return ".trc"
    if _CANDUMP.search(head):
        return ".log"
    if _CANDUMP_SCREEN.match(head):
        return "screen"
    return "records" if _is_records(data) else ""


def _is_records(data: bytes) -> bool:
    """Return True for records of :mod:`vehicled.core.wire.can`, detected by their zero padding and
    unused bytes."""
    whole = min(len(data) - len(data) % RECORD_BYTES, 64 * RECORD_BYTES)
    for at in range(0, whole, RECORD_BYTES):
        size = data[at + 4]
        if (
            size > MAX_DATA_BYTES
            or any(data[at + 5 : at + 8])
            or any(data[at + 8 + size : at + RECORD_BYTES])
        ):
            return False
    return whole > 0


class CanFile:
    """Iterable over the frames of a recording with their times in seconds. Damaged lines are
    skipped and counted."""

    def __init__(self, data: bytes, kind: str) -> None:
        self._data = data
        self._kind = kind
        self.damaged = 0
        """Number of lines or file tails that could not be read."""
        self.newest_s = 0.0
        """Time of the newest frame, s."""
        self.fd_frames = 0
        """Number of skipped CAN FD frames."""
        self.note = ""
        """Part of the file's header that was not understood; empty if nothing."""
        self._start_s = 0.0
        self.bus_events = 0
        """Number of skipped errors and states of the bus in a format that keeps no classes."""

    def __iter__(self) -> Iterator[tuple[float, CanFrame]]:
        if self._kind == "records":
            yield from ((0.0, frame) for frame in unpack_all(self._data))
            return
        if self._kind == ".log":
            yield from self._candump()
            return
        text = self._data.decode("utf-8", "replace") if self._kind in (".asc", ".trc") else ""
        classes = _ASC_ERROR.finditer(text)
        self.bus_events = len(_TRC_ERROR.findall(text)) if self._kind == ".trc" else 0
        for message in self._messages():
            if message.is_fd:
                self.fd_frames += 1
            elif len(data := bytes(message.data or b"")) <= MAX_DATA_BYTES:
                error = message.is_error_frame
                extended = message.is_extended_id and not message.is_error_frame
                size = min(max(message.dlc, 0), MAX_DATA_BYTES)
                content = bytes(size) if message.is_remote_frame else data
                can_id = message.arbitration_id
                if error and not can_id and (found := next(classes, None)) is not None:
                    can_id, content = int(found[1], 16) & EXTENDED_MASK, bytes.fromhex(found[2])
                self.newest_s = message.timestamp + self._start_s
                yield (
                    self.newest_s,
                    CanFrame(can_id, content, extended, message.is_remote_frame, error),
                )

    def _candump(self) -> Iterator[tuple[float, CanFrame]]:
        """Iterate over the lines of ``candump -l``. Three digits are a standard identifier, eight
        an extended one with flags."""
        for line in self._data.decode("utf-8", "replace").splitlines():
            if not line.strip():
                continue
            found = _CANDUMP_LINE.fullmatch(line)
            word = int(found["id"], 16) if found is not None else 0
            short = found is not None and len(found["id"]) == 3
            if found is None:
                self.damaged += 1
                if self.damaged >= DAMAGE_LIMIT:
                    return
                continue
            if found["fd"]:
                self.fd_frames += 1
                continue
            error = bool(word & ERROR_FLAG)
            remote = found["remote"] is not None or bool(word & REMOTE_FLAG)
            data = (
                bytes(int(found["length"] or 0))
                if found["remote"]
                else bytes.fromhex(found["data"].replace(".", ""))
            )
            self.newest_s = float(found["time"])
            yield (
                self.newest_s,
                CanFrame(
                    word & EXTENDED_MASK, data, not short and not error, remote and not error, error
                ),
            )

    def _messages(self) -> Iterator[can.Message]:
        if self._kind == ".blf":
            try:
                yield from BLFReader(io.BytesIO(self._data))
            except Exception:  # noqa: BLE001 - a cut or damaged file raises struct.error, zlib.error, BLFParseError and others
                self.damaged += 1
            return
        if self._kind == ".asc":
            text, self._start_s, self.note = asc_text.uniform(self._data)
        else:
            text = self._data.decode("utf-8", "replace")
        reader, head = _TEXT_READERS[self._kind]
        header = head(text)
        rest = text[len(header) :]
        while rest and self.damaged < DAMAGE_LIMIT:
            stream = io.StringIO(header + rest, newline=None)
            try:
                yield from reader(stream)
                return
            except Exception:  # noqa: BLE001 - whatever a damaged line raises in python-can costs that line, not the file
                self.damaged += 1
                # The reader is positioned after the line that it could not read.
                rest = stream.read()


def _first_line(text: str) -> str:
    return text[: text.find("\n") + 1]


def _asc_header(text: str) -> str:
    found = re.match(r"(?:(?:base|internal)[^\n]*\n)+", text)
    return found[0] if found else ""


def _trc_header(text: str) -> str:
    found = re.match(r"(?:[ \t]*;[^\n]*\n)+", text)
    return found[0] if found else ""


_TEXT_READERS: dict[str, tuple[Callable[[Any], Any], Callable[[str], str]]] = {
    ".csv": (CSVReader, _first_line),
    ".asc": (ASCReader, _asc_header),
    ".trc": (TRCReader, _trc_header),
}


def unpacked(data: bytes) -> bytes:
    """Return the content of a file, decompressed if it is gzip, as far as it can be read."""
    if data[:2] != b"\x1f\x8b":
        return data
    found = io.BytesIO()
    with suppress(EOFError, OSError, zlib.error), gzip.open(io.BytesIO(data)) as packed:
        while part := packed.read(1 << 16):
            found.write(part)
    return found.getvalue()


class CanRecorder:
    """Writes the frames of a CAN port in the format of the file name's extension; candump if it has
    none."""

    def __init__(self, target: Path, channel: str) -> None:
        if target.suffix and target.suffix not in WRITTEN:
            raise SetupError(
                f"{target}: CAN frames cannot be written in this format; choose a name that "
                f"ends in {', '.join(WRITTEN)}"
            )
        self._channel = channel
        self._file: Any = can.Logger(target) if target.suffix else can.CanutilsLogWriter(target)
        self._candump = target.suffix in ("", ".log")
        self._asc = target.suffix == ".asc"
        self.frames = 0

    def write(self, data: bytes, t_utc_ns: int) -> None:
        """Write records that arrived together."""
        for frame in unpack_all(data):
            self.frames += 1
            if self._candump:
                self._file.file.write(_candump_line(frame, self._channel, t_utc_ns))
                continue
            if frame.error and self._asc:
                self._file.file.write(
                    "// SocketCAN error "
                    f"{ERROR_FLAG | frame.can_id:08X}#{frame.data.hex().upper()}\n"
                )
            self._file.on_message_received(
                can.Message(
                    timestamp=t_utc_ns * 1e-9,
                    arbitration_id=frame.can_id,
                    is_extended_id=frame.extended or frame.error,
                    is_remote_frame=frame.remote,
                    is_error_frame=frame.error,
                    dlc=len(frame.data),
                    data=None if frame.remote else frame.data,
                    channel=self._channel,
                )
            )

    def close(self) -> None:
        """Close the file."""
        self._file.stop()


def _candump_line(frame: CanFrame, channel: str, t_utc_ns: int) -> str:
    seconds, rest_ns = divmod(t_utc_ns, 10**9)
    flags = ERROR_FLAG if frame.error else 0
    name = f"{flags | frame.can_id:0{8 if frame.extended or frame.error else 3}X}"
    content = f"R{len(frame.data) or ''}" if frame.remote else frame.data.hex().upper()
    return f"({seconds}.{rest_ns // 1000:06d}) {channel} {name}#{content}\n"
