"""Framing: finds the frames of several protocols in one byte stream, cut and damaged anywhere, in
linear time.

A protocol states the shape of its frames. Most have a length in their head and a checksum:
:class:`CountedFrame`, or another subclass of :class:`CheckedFrame`. Text is a :class:`TextLine`.

A false start claims bytes that later candidates claim again, and summing each claim costs the
square of the length. So each false start is paid for by bytes read, before it or after it: in a
flood of them, bytes are passed over unseen. That takes some dozens of false starts within a few
hundred bytes, or three of the longest, which damage does not make. After a flood, no more bytes are
passed over than pay for one false start: a 24th of the longest frame (half of it for RTCM).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from functools import lru_cache
from string import ascii_letters
from typing import Literal, NamedTuple

from vehicled.core.wire.crc import Buffer, crc16_xmodem, crc32_plain, xor8

Stream = bytes | bytearray
Probe = Callable[[Stream, int, int], int]
"""Frame detector ``probe(buffer, at, end)``: the length of a frame that is complete and valid at
``at``, ``INCOMPLETE`` if more bytes are needed, ``NO_FRAME`` as soon as it is certain.

It must not depend on bytes before ``at``, and must not raise. A bare function is asked again for
every candidate and every piece of data: its cost is its own affair. A :class:`Shape` is also a
probe.
"""

INCOMPLETE = 0
NO_FRAME = -1

_FALSE_START_BYTES = 16
"""Bytes read that pay for one false start."""
_SUMMED_PER_BYTE = 24
"""Bytes of its checksum that one byte read pays for. In C, so many cost less than one instruction
of the interpreter."""
_BURST_BYTES = 2048
"""Most bytes read that count for later false starts."""


class Shape(ABC):
    """Shape of a protocol's frames."""

    weight = 0
    """Cost of a byte of an invalid frame, in bytes of a checksum in C."""

    def head(self, sync: bytes) -> list[bytes]:
        """Return the possible values of each of the first bytes of a frame: those of the sync, and
        what else is certain.

        A place where they do not fit is no false start, and costs nearly nothing.
        """
        return [bytes((byte,)) for byte in sync]

    @abstractmethod
    def length(self, buffer: Stream, at: int, end: int) -> int:
        """Return the length of the frame at ``at``, complete or not: ``INCOMPLETE`` if it is not
        known yet, or ``NO_FRAME``."""

    @abstractmethod
    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        """True if the frame from ``at`` to ``stop``, of the length that :meth:`length` gave, is
        sound."""

    def __call__(self, buffer: Stream, at: int, end: int) -> int:
        """Return the length of a complete and valid frame, ``INCOMPLETE`` or ``NO_FRAME``."""
        size = self.length(buffer, at, end)
        if size <= 0:
            return size
        if at + size > end:
            return INCOMPLETE
        return size if self.valid(buffer, at, at + size) else NO_FRAME


class _Bare(Shape):
    """Shape of a bare frame detector."""

    def __init__(self, probe: Probe) -> None:
        self._probe = probe

    def length(self, buffer: Stream, at: int, end: int) -> int:
        return self._probe(buffer, at, end)

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return True


class FrameCheck(NamedTuple):
    """Checksum of a frame, and its place."""

    checksum: Callable[[Buffer], int]
    weight: int = 1
    """Cost of a byte, in bytes of a checksum in C."""
    first: int = 0
    """Bytes at the beginning that are not covered."""
    tail: int = 0
    """Bytes at the end that are not covered."""
    stored: int | None = None
    """Place of the value, from the end if negative. None: the covered bytes include it and give
    zero."""
    size: int = 1
    """Bytes of the value."""
    order: Literal["little", "big"] = "big"
    end: bytes = b""
    """Last bytes of every frame."""


class CheckedFrame(Shape):
    """Frame with a checksum. Subclasses give its length in constant time."""

    def __init__(self, check: FrameCheck) -> None:
        self.check, self.weight = check, check.weight

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        checksum, _, first, tail, stored, size, order, last = self.check
        if last and not buffer.startswith(last, stop - len(last)):
            return False
        value = checksum(buffer[at + first : stop - tail])
        if stored is not None:
            place = stored + (at if stored >= 0 else stop)
            value ^= int.from_bytes(buffer[place : place + size], order)
        return value == 0


class CountedFrame(CheckedFrame):
    """Frame with the number of its bytes in its head."""

    def __init__(
        self,
        check: FrameCheck,
        *,
        at: int,
        width: Literal[1, 2] = 1,
        order: Literal["little", "big"] = "little",
        extra: int = 0,
        least: int = 0,
        most: int = 0xFFFF,
        head: int = 0,
    ) -> None:
        """The count has ``width`` bytes from ``at`` on, leaves out ``extra`` bytes, and lies from
        ``least`` to ``most``.

        ``head``: bytes that a subclass needs to know the length, if more than those up to the
        count."""
        super().__init__(check)
        self._low = at if order == "little" or width == 1 else at + 1
        self._high = None if width == 1 else 2 * at + 1 - self._low
        self._extra, self._least, self._most = extra, least, most
        self._head = max(head, at + width)

    def head(self, sync: bytes) -> list[bytes]:
        highest = self._low if self._high is None else self._high
        shift = 0 if self._high is None else 8
        head = super().head(sync)
        head += [bytes(range(256))] * (highest + 1 - len(head))
        head[highest] = bytes(range(self._least >> shift, (self._most >> shift) + 1))
        return head

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < self._head:
            return INCOMPLETE
        count = buffer[at + self._low]
        if self._high is not None:
            count |= buffer[at + self._high] << 8
        return count + self._extra if self._least <= count <= self._most else NO_FRAME


class FixedFrame(CheckedFrame):
    """Frame of ``size`` bytes."""

    def __init__(self, check: FrameCheck, size: int, kinds: Collection[int] = range(256)) -> None:
        """``kinds`` are the possible values of the second byte."""
        super().__init__(check)
        self._size = size
        self._kinds = bytes(kind in kinds for kind in range(256))

    def head(self, sync: bytes) -> list[bytes]:
        kinds = bytes(kind for kind, known in enumerate(self._kinds) if known)
        return [*super().head(sync), kinds] if len(sync) == 1 else super().head(sync)

    def length(self, buffer: Stream, at: int, end: int) -> int:
        return self._size if end - at < 2 or self._kinds[buffer[at + 1]] else NO_FRAME


class TextLine(Shape):
    """Line of text ``$body*hh`` with a checksum of two hexadecimal digits, the exclusive or of the
    body, and LF or CR LF.

    The body begins with a name and has no further ``$`` or ``*``, so that no byte belongs to two
    lines.
    """

    def __init__(
        self, longest: int, *, with_crc: bool = False, with_crc32: bool = False, bare: bool = False
    ) -> None:
        """``longest``: bytes of a line. ``with_crc``: the checksum may also be a CRC-16 of four
        digits, as VectorNav's may. ``with_crc32``: it may also be a CRC-32 of eight digits, as
        Unicore's and ComNav's may.

        ``bare``: a line with fields but without a checksum is a frame, too, so that it can be
        named: older devices send them.
        """
        self._longest, self._bare = longest, bare
        digits = rb"[0-9A-Fa-f]{2}"
        sizes = [1, *([2] if with_crc else []), *([4] if with_crc32 else [])]
        sums = b"|".join(digits * size for size in sizes)
        tail = rb"(?:\*(?:" + sums + rb"))" + (b"?" if bare else b"") + rb"\r?\n"
        tail_begins = rb"\*(?:[0-9A-Fa-f]{0,%d}\r?)?\Z" % (2 * max(sizes)) + (
            rb"|\r\Z" if bare else b""
        )
        # Proprietary names are long, and some makers use lower case.
        name, body = rb"[A-Za-z][0-9A-Za-z_]{2,31}+", rb"(?:,[\x20-\x23\x25-\x29\x2b-\x7e]*+)?"
        begun = rb"[A-Za-z]?[0-9A-Za-z_]{0,31}\Z"
        self._line = re.compile(
            rb"\$(?:"
            + name
            + body
            + rb"(?:("
            + tail
            + rb")|\Z|"
            + tail_begins
            + rb")|"
            + begun
            + rb")"
        )

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), ascii_letters.encode()]

    def length(self, buffer: Stream, at: int, end: int) -> int:
        stop = min(end, at + self._longest)
        line = self._line.match(buffer, at, stop)
        if line is None:
            return NO_FRAME
        if line[1]:
            return line.end() - at
        return INCOMPLETE if end - at < self._longest else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        body, star, digits = bytes(buffer[at + 1 : stop]).partition(b"*")
        if not star:
            return self._bare and b"," in body
        digits = digits.rstrip()
        return _SUMS[len(digits)](body) == int(digits, 16)


_SUMS: dict[int, Callable[[Buffer], int]] = {2: xor8, 4: crc16_xmodem, 8: crc32_plain}


class Protocol(NamedTuple):
    """Protocol of a framer: sync bytes, and the shape of its frames or a frame detector."""

    name: str
    sync: bytes
    probe: Probe


class Framer:
    """Splitter of a stream into frames of one or more protocols. Never raises on wire input; keeps
    less than ``limit`` bytes.

    After an invalid frame the search continues one byte after its start, so damage costs only that
    frame. Frames come in stream order, independent of cuts, because nothing after a candidate is
    delivered before it is decided. A protocol should therefore have no impossible lengths, which
    would hold back the stream. If several protocols fit, the first in the list wins.
    """

    def __init__(self, protocols: Sequence[Protocol], limit: int = 1 << 16) -> None:
        """Set the longest frame to ``limit`` bytes. Raises ValueError for an empty list, an empty
        sync or an unusable limit."""
        if not protocols or not all(protocol.sync for protocol in protocols):
            raise ValueError("a framer needs protocols, each with at least one sync byte")
        if limit < max(len(protocol.sync) for protocol in protocols):
            raise ValueError(
                f"a limit of {limit} bytes does not even hold the sync of every protocol"
            )
        self._limit = limit
        shapes = [
            (name, sync, probe if isinstance(probe, Shape) else _Bare(probe))
            for name, sync, probe in protocols
        ]
        self._by_first = [
            tuple(each for each in shapes if each[1][0] == first) for first in range(256)
        ]
        self._find = _pattern(tuple(tuple(shape.head(sync)) for _, sync, shape in shapes)).search
        self._held = bytearray()
        self._need = 0
        """Held bytes without which nothing more can be decided."""
        self._credit = _BURST_BYTES
        self.bad_frames = 0
        """Heads without a valid frame, including false ones inside damaged frames."""
        self.dropped_bytes = 0
        """Bytes outside frames. Every byte is in a frame, counted here, or buffered."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an undecided candidate; below ``limit``."""
        return len(self._held)

    def feed(self, data: bytes, stale: bool = False) -> list[tuple[str, bytes]]:
        """Return the frames completed by ``data``, in order, as (protocol name, frame).

        ``stale``: the port was silent before ``data``, so an older candidate that ``data`` does not
        complete is dropped, and the bytes it held back are searched.
        """
        held = self._held
        buffer: Stream = data
        stale_end = len(held) if stale else 0
        if held:
            held += data
            if len(held) < self._need and not stale:
                return []
            buffer = held
        frames: list[tuple[str, bytes]] = []
        by_first, find, limit, credit = self._by_first, self._find, self._limit, self._credit
        at, end, need = 0, len(buffer), 0
        while at < end:
            found = find(buffer, at - min(credit, 0))
            start = found.start() if found else end
            if start > at:
                self.dropped_bytes += start - at
                credit += start - at
                at = start
                if found is None:
                    break
            synced, cost = False, _FALSE_START_BYTES
            for name, sync, shape in by_first[buffer[at]]:
                if buffer.startswith(sync, at):
                    synced = True
                    size = shape.length(buffer, at, end)
                    if size < 0 or size > limit:
                        continue
                    if 0 < size <= end - at:
                        if shape.valid(buffer, at, at + size):
                            frames.append((name, bytes(buffer[at : at + size])))
                            at += size
                            credit += size
                            break
                        cost += shape.weight * size // _SUMMED_PER_BYTE
                        continue
                elif end - at < len(sync) and sync.startswith(buffer[at:end]):
                    size = len(sync)
                else:
                    continue
                if at >= stale_end and end - at < limit:
                    need = size or end - at + 1
                    break
            else:
                self.bad_frames += synced
                self.dropped_bytes += 1
                credit = min(credit, _BURST_BYTES) + 1 - cost
                at += 1
            if need:
                break
        if buffer is held:
            del held[:at]
        else:
            held += buffer[at:]
        self._need, self._credit = need, credit
        return frames

    def flush(self) -> list[tuple[str, bytes]]:
        """Drop the incomplete candidate and return the frames behind it. Nothing stays buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Drop all buffered bytes, because the stream was interrupted."""
        self.dropped_bytes += len(self._held)
        self._held.clear()


class PayloadReader:
    """Reader of one kind of payload from a stream cut anywhere. Never raises on wire input; keeps
    at most one frame."""

    def __init__(
        self, protocols: Sequence[Protocol], limit: int, payload: Callable[[str, bytes], bytes]
    ) -> None:
        """``payload`` takes the protocol's name and the frame."""
        self._framer = Framer(protocols, limit)
        self._payload = payload

    @property
    def bad_frames(self) -> int:
        """Frame starts without a valid frame, including false starts inside a cut frame."""
        return self._framer.bad_frames

    @property
    def dropped_bytes(self) -> int:
        """Bytes outside valid frames."""
        return self._framer.dropped_bytes

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an incomplete frame or false start; below the limit."""
        return self._framer.buffered_bytes

    def feed(self, data: bytes, stale: bool = False) -> list[bytes]:
        """Return the payloads completed by ``data``. ``stale``: the line was silent, so an
        incomplete frame is dropped."""
        return [self._payload(name, frame) for name, frame in self._framer.feed(data, stale)]

    def flush(self) -> list[bytes]:
        """Return the payloads behind a start that never completed. Nothing stays buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Drop the incomplete frame, because the stream was interrupted."""
        self._framer.clear()


@lru_cache(64)
def _pattern(heads: tuple[tuple[bytes, ...], ...]) -> re.Pattern[bytes]:
    """Return a pattern of any of the heads, or as much of it as there is at the end of the buffer.
    Devices are made anew for each drive, and their protocols are few.
    """
    patterns = set()
    for head in heads:
        *others, pattern = [
            b"[" + b"".join(re.escape(bytes((value,))) for value in values) + b"]"
            for values in head
        ]
        for values in reversed(others):
            pattern = values + rb"(?:\Z|" + pattern + rb")"
        patterns.add(pattern)
    return re.compile(b"|".join(sorted(patterns)))
