"""Read and write CAN recordings of other tools with python-can: candump, Vector ASC and BLF, CSV; PCAN TRC read-only."""

import gzip
import io
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import can
from can.io import ASCReader, BLFReader, CanutilsLogReader, CSVReader, TRCReader
from can.io.generic import MessageWriter

from vehicled.app import SetupError
from vehicled.cli import asc_text
from vehicled.wire.can import MAX_DATA_BYTES, RECORD_BYTES, CanFrame, unpack_all

WRITTEN = (".log", ".asc", ".blf", ".csv")
"""File name extensions of the formats for writing."""
DAMAGE_LIMIT = 100
"""Number of damaged lines after which reading stops."""
_HEAD_BYTES = 4096
_CANDUMP = re.compile(rb"^\s*\(\d+\.\d+\)\s+\S+\s+[0-9A-Fa-f]{3,8}#", re.M)
_CANDUMP_SCREEN = re.compile(rb"^\s*(?:\([-\d.: ]+\)\s+)?\w+\s+(?:(?:TX|RX)\s\S*\s+)*[0-9A-F]{3,8}\s+\[\d+\]", re.M)
_ASC = re.compile(rb"\A\s*(?:date\s|base\s+(?:hex|dec)\b|//)", re.I)
_ASC_MESSAGE = re.compile(rb"^\s*base\s+(?:hex|dec)\b", re.I | re.M)


def kind_of(data: bytes) -> str:
    """Return the format of a CAN recording, detected from its content; empty if none.

    The result is an extension of ``WRITTEN``, ``.trc``, ``records`` for raw frames of a port, or ``screen`` for candump without
    ``-l``.
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
    """Return True for records of :mod:`vehicled.wire.can`, detected by their zero padding and unused bytes."""
    whole = min(len(data) - len(data) % RECORD_BYTES, 64 * RECORD_BYTES)
    for at in range(0, whole, RECORD_BYTES):
        size = data[at + 4]
        if size > MAX_DATA_BYTES or any(data[at + 5 : at + 8]) or any(data[at + 8 + size : at + RECORD_BYTES]):
            return False
    return whole > 0


class CanFile:
    """Iterable over the frames of a recording with their times in seconds. Damaged lines are skipped and counted."""

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

    def __iter__(self) -> Iterator[tuple[float, CanFrame]]:
        if self._kind == "records":
            yield from ((0.0, frame) for frame in unpack_all(self._data))
            return
        for message in self._messages():
            if message.is_fd:
                self.fd_frames += 1
            elif len(data := bytes(message.data or b"")) <= MAX_DATA_BYTES:
                error, extended = message.is_error_frame, message.is_extended_id and not message.is_error_frame
                size = min(max(message.dlc, 0), MAX_DATA_BYTES)
                content = bytes(size) if message.is_remote_frame else data
                self.newest_s = message.timestamp + self._start_s
                yield self.newest_s, CanFrame(message.arbitration_id, content, extended, message.is_remote_frame, error)

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


def _no_header(text: str) -> str:
    return ""


def _first_line(text: str) -> str:
    return text[: text.find("\n") + 1]


def _asc_header(text: str) -> str:
    found = re.match(r"(?:(?:base|internal)[^\n]*\n)+", text)
    return found[0] if found else ""


def _trc_header(text: str) -> str:
    found = re.match(r"(?:[ \t]*;[^\n]*\n)+", text)
    return found[0] if found else ""


_TEXT_READERS: dict[str, tuple[Callable[[Any], Any], Callable[[str], str]]] = {
    ".log": (CanutilsLogReader, _no_header),
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
    """Writes the frames of a CAN port in the format of the file name's extension; candump if it has none."""

    def __init__(self, target: Path, channel: str) -> None:
        if target.suffix and target.suffix not in WRITTEN:
            raise SetupError(
                f"{target}: CAN frames cannot be written in this format; choose a name that ends in {', '.join(WRITTEN)}"
            )
        self._channel = channel
        self._file: MessageWriter = can.Logger(target) if target.suffix else can.CanutilsLogWriter(target)
        self.frames = 0

    def write(self, data: bytes, t_utc_ns: int) -> None:
        """Write records that arrived together."""
        for frame in unpack_all(data):
            self.frames += 1
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
