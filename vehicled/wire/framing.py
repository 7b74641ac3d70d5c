"""Framing: finds the frames of several protocols in one byte stream, cut and damaged anywhere, in linear time.

A protocol states the shape of its frames. Most have a length in their head and a checksum: :class:`CountedFrame`, or another
subclass of :class:`CheckedFrame`. Text is a :class:`TextLine`. The framer remembers how far an undecided candidate was read, and
sums no byte a second time for another candidate (:mod:`vehicled.wire.checksum`). After several false starts in one piece of data it
examines all others together, as arrays. So repeated false starts with the longest length cost little more than data.
"""

import re
from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from string import ascii_letters
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vehicled.wire.checksum import Checksum, RunningChecksum
from vehicled.wire.crc import crc16_xmodem, xor8

Stream = bytes | bytearray
Octets = NDArray[np.uint8]
Integers = NDArray[np.int64]
Probe = Callable[[Stream, int, int], int]
"""Frame detector ``probe(buffer, at, end)``: the length of a frame that is complete and valid at ``at``, ``INCOMPLETE`` if more
bytes are needed, ``NO_FRAME`` as soon as it is certain.

It must not depend on bytes before ``at``, and must not raise. A bare function is asked again for every candidate and every piece of
data: its cost is its own affair. A :class:`Shape` is also a probe.
"""

INCOMPLETE = 0
NO_FRAME = -1

_SIEVE_FAILURES = 32
"""Failed candidates in one piece of data after which all others are examined together."""
_SIEVE_CLAIM_BYTES = 512
"""Claimed length that counts for a further failure."""
_SIEVE_BYTES = 128
"""Bytes per further failure needed if the piece is a small part of what is searched."""
_COMPACT_BYTES = 4096


class Shape(ABC):
    """Shape of a protocol's frames, for which a framer needs linear time."""

    def head(self, sync: bytes) -> list[bytes]:
        """Return the possible values of each of the first bytes of a frame: those of the sync, and what else is certain.

        A place where they do not fit is no false start, and costs nearly nothing.
        """
        return [bytes((byte,)) for byte in sync]

    @abstractmethod
    def length(self, buffer: Stream, at: int, end: int, seen: int = 0) -> int:
        """Return the length of the frame at ``at``, complete or not: ``INCOMPLETE`` if it is not known yet, or ``NO_FRAME``.

        ``seen`` is how many of its bytes were there at the last call.
        """

    @abstractmethod
    def valid(self, buffer: Stream, at: int, stop: int, running: RunningChecksum | None = None) -> bool:
        """True if the frame from ``at`` to ``stop``, of the length that :meth:`length` gave, is sound.

        ``running``: checksum of the buffer, which sums bytes of several candidates once.
        """

    def accepts(self, buffer: Stream, at: int, stop: int) -> bool:
        """True if the content of a frame with a valid checksum has the form of the protocol."""
        return True

    @abstractmethod
    def sift(self, buffer: bytes, octets: Octets, places: Integers, limit: int) -> tuple[Integers, Integers]:
        """Return those of many places of ``buffer`` where a frame of at most ``limit`` bytes with a valid checksum begins, and
        those where one cannot be excluded. ``octets`` are the bytes of ``buffer``."""

    def __call__(self, buffer: Stream, at: int, end: int) -> int:
        """Return the length of a complete and valid frame, ``INCOMPLETE`` or ``NO_FRAME``."""
        size = self.length(buffer, at, end)
        if size <= 0:
            return size
        if at + size > end:
            return INCOMPLETE
        return size if self.valid(buffer, at, at + size) else NO_FRAME


class Check(NamedTuple):
    """Checksum of a frame, and its place."""

    checksum: Checksum
    first: int = 0
    """Bytes at the beginning that are not covered."""
    tail: int = 0
    """Bytes at the end that are not covered."""
    stored: int | None = None
    """Place of the value, from the end if negative. None: the covered bytes include it and give zero."""
    order: Literal["little", "big"] = "big"
    end: bytes = b""
    """Last bytes of every frame."""


class CheckedFrame(Shape):
    """Frame with a checksum. Subclasses tell its length in constant time."""

    def __init__(self, check: Check) -> None:
        self.check = check

    def valid(self, buffer: Stream, at: int, stop: int, running: RunningChecksum | None = None) -> bool:
        checksum, first, tail, stored, order, last = self.check
        if last and not buffer.startswith(last, stop - len(last)):
            return False
        if running is None:
            value = checksum.of(buffer[at + first : stop - tail])
        else:
            value = running.of(buffer, at + first, stop - tail)
        if stored is None:
            return value == 0 and self.accepts(buffer, at, stop)
        place = stored + (at if stored >= 0 else stop)
        return value == int.from_bytes(buffer[place : place + checksum.size], order) and self.accepts(buffer, at, stop)

    def lengths(self, buffer: bytes, octets: Octets, places: Integers) -> Integers:
        """Return :meth:`length` for many places of ``buffer``, whose bytes are ``octets``."""
        end, length = len(buffer), self.length
        return np.fromiter((length(buffer, at, end) for at in places.tolist()), np.int64, len(places))

    def sift(self, buffer: bytes, octets: Octets, places: Integers, limit: int) -> tuple[Integers, Integers]:
        checksum, first, tail, stored, order, last = self.check
        sizes = self.lengths(buffer, octets, places)
        sizes[sizes > limit] = NO_FRAME
        stops = places + sizes
        is_cut = (sizes == INCOMPLETE) | (stops > len(buffer)) & (sizes > 0)
        at, stop = places[~is_cut & (sizes > 0)], stops[~is_cut & (sizes > 0)]
        for back, byte in enumerate(reversed(last), 1):
            ends = octets[stop - back] == byte
            at, stop = at[ends], stop[ends]
        if len(at):
            values = np.zeros_like(at)
            if stored is not None:
                place, size = stored + (at if stored >= 0 else stop), checksum.size
                for k in range(size):
                    values |= octets[place + k].astype(np.int64) << 8 * (k if order == "little" else size - 1 - k)
            at = at[checksum.fit(checksum.running(buffer), at + first, stop - tail, values)]
        return at, places[is_cut]


class CountedFrame(CheckedFrame):
    """Frame with the number of its bytes in its head."""

    def __init__(
        self,
        check: Check,
        *,
        at: int,
        width: Literal[1, 2] = 1,
        order: Literal["little", "big"] = "little",
        extra: int = 0,
        least: int = 0,
        most: int = 0xFFFF,
        head: int = 0,
    ) -> None:
        """The count has ``width`` bytes from ``at`` on, leaves out ``extra`` bytes, and lies from ``least`` to ``most``.

        ``head``: bytes that a subclass needs to know the length, if more than those up to the count."""
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

    def length(self, buffer: Stream, at: int, end: int, seen: int = 0) -> int:
        if end - at < self._head:
            return INCOMPLETE
        count = buffer[at + self._low]
        if self._high is not None:
            count |= buffer[at + self._high] << 8
        return count + self._extra if self._least <= count <= self._most else NO_FRAME

    def lengths(self, buffer: bytes, octets: Octets, places: Integers) -> Integers:
        sizes = np.full(len(places), INCOMPLETE, np.int64)
        known = places + self._head <= len(octets)
        at = places[known]
        counts = octets[at + self._low].astype(np.int64)
        if self._high is not None:
            counts |= octets[at + self._high].astype(np.int64) << 8
        sizes[known] = np.where((counts >= self._least) & (counts <= self._most), counts + self._extra, NO_FRAME)
        return sizes


class FixedFrame(CheckedFrame):
    """Frame of ``size`` bytes."""

    def __init__(self, check: Check, size: int, kinds: Collection[int] = range(256)) -> None:
        """``kinds`` are the possible values of the second byte."""
        super().__init__(check)
        self._size = size
        self._kinds = bytes(kind in kinds for kind in range(256))

    def head(self, sync: bytes) -> list[bytes]:
        kinds = bytes(kind for kind, known in enumerate(self._kinds) if known)
        return [*super().head(sync), kinds] if len(sync) == 1 else super().head(sync)

    def length(self, buffer: Stream, at: int, end: int, seen: int = 0) -> int:
        return self._size if end - at < 2 or self._kinds[buffer[at + 1]] else NO_FRAME

    def lengths(self, buffer: bytes, octets: Octets, places: Integers) -> Integers:
        known = np.frombuffer(self._kinds, np.bool_)[octets.take(places + 1, mode="clip")]
        return np.where(known | (places + 1 == len(octets)), self._size, NO_FRAME)


class TextLine(Shape):
    """Line of text ``$body*hh`` with a checksum of two hexadecimal digits, the exclusive or of the body, and LF or CR LF.

    The body begins with a name and has no further ``$`` or ``*``, so that no byte belongs to two lines.
    """

    # Proprietary names are long, and some makers use lower case.
    _NAME = re.compile(rb"\$(?:\Z|[A-Za-z][0-9A-Za-z_]{0,31}\Z|[A-Za-z][0-9A-Za-z_]{2,31}[,*])")
    _NAME_BYTES = 34
    _BODY_ENDS = re.compile(rb"[^\x20-\x23\x25-\x29\x2b-\x7e]")

    def __init__(self, longest: int, *, with_crc: bool = False) -> None:
        """``longest``: bytes of a line. ``with_crc``: the checksum may also be a CRC-16 of four digits, as VectorNav's may."""
        self._longest = longest
        digits = rb"[0-9A-Fa-f]{2}"
        self._tail = re.compile(rb"\*(" + digits + (rb"|" + digits * 2 if with_crc else b"") + rb")\r?\n")
        self._tail_begins = re.compile(rb"\*(?:[0-9A-Fa-f]{0,%d}\r?)?\Z" % (4 if with_crc else 2))
        self._tail_bytes = 7 if with_crc else 5

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), ascii_letters.encode()]

    def length(self, buffer: Stream, at: int, end: int, seen: int = 0) -> int:
        if seen <= self._NAME_BYTES and not self._NAME.match(buffer, at, min(end, at + self._NAME_BYTES)):
            return NO_FRAME
        stop = min(end, at + self._longest)
        found = self._BODY_ENDS.search(buffer, at + max(1, seen - self._tail_bytes), stop)
        if found is not None:
            tail = self._tail.match(buffer, found.start(), stop)
            if tail is not None:
                return tail.end() - at
            if not self._tail_begins.match(buffer, found.start(), stop):
                return NO_FRAME
        return INCOMPLETE if stop == end and end - at < self._longest else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int, running: RunningChecksum | None = None) -> bool:
        body, _, digits = bytes(buffer[at + 1 : stop]).partition(b"*")
        digits = digits.rstrip()
        return (xor8 if len(digits) == 2 else crc16_xmodem)(body) == int(digits, 16)

    def sift(self, buffer: bytes, octets: Octets, places: Integers, limit: int) -> tuple[Integers, Integers]:
        return places[:0], places


class Protocol(NamedTuple):
    """Protocol of a framer: sync bytes, and the shape of its frames or a frame detector."""

    name: str
    sync: bytes
    probe: Probe


class Framer:
    """Splitter of a stream into frames of one or more protocols. Never raises on wire input; keeps less than ``limit`` bytes.

    After an invalid frame the search continues one byte after its start, so damage costs only that frame. Frames come in stream
    order, independent of cuts, because nothing after a candidate is delivered before it is decided. A protocol should therefore
    have no impossible lengths, which would hold back the stream. If several protocols fit, the first in the list wins.
    """

    def __init__(self, protocols: Sequence[Protocol], limit: int = 1 << 16) -> None:
        """Set the longest frame to ``limit`` bytes. Raises ValueError for an empty list, an empty sync or an unusable limit."""
        if not protocols or not all(protocol.sync for protocol in protocols):
            raise ValueError("a framer needs protocols, each with at least one sync byte")
        if limit < max(len(protocol.sync) for protocol in protocols):
            raise ValueError(f"a limit of {limit} bytes does not even hold the sync of every protocol")
        self._limit = limit
        self._protocols = tuple(protocols)
        shapes = [each.probe for each in protocols]
        self._running = [RunningChecksum(each.check.checksum) if isinstance(each, CheckedFrame) else None for each in shapes]
        candidates = [
            (number, name, sync, probe, probe if isinstance(probe, Shape) else None, running)
            for number, ((name, sync, probe), running) in enumerate(zip(protocols, self._running, strict=True))
        ]
        self._by_first = [tuple(each for each in candidates if each[2][0] == first) for first in range(256)]
        self._heads = [
            each.head(sync) if isinstance(each, Shape) else [bytes((byte,)) for byte in sync] for _, sync, each in protocols
        ]
        pattern = _pattern(self._heads)
        self._find, self._begins = pattern.search, pattern.match
        syncs = {protocol.sync for protocol in protocols}
        self._longest_sync = max(map(len, syncs))
        self._sync_at = re.compile(b"(?=" + b"|".join(map(re.escape, sorted(syncs))) + b")").finditer
        self._held = bytearray()
        self._at = 0
        """Beginning of the undecided bytes in ``_held``."""
        self._need = 0
        """Undecided bytes without which nothing more can be decided."""
        self._seen = 0
        """Bytes of the first candidate that were there at the last look."""
        self.bad_frames = 0
        """Syncs without a valid frame, including false syncs inside damaged frames."""
        self.dropped_bytes = 0
        """Bytes outside frames. Every byte is in a frame, counted here, or buffered."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an undecided candidate; below ``limit``."""
        return len(self._held) - self._at

    def feed(self, data: bytes, stale: bool = False) -> list[tuple[str, bytes]]:
        """Return the frames completed by ``data``, in order, as (protocol name, frame).

        ``stale``: the port was silent before ``data``, so an older candidate that ``data`` does not complete is dropped, and the
        bytes it held back are searched.
        """
        held = self._held
        buffer: Stream = data
        at = seen = stale_end = 0
        if held:
            if stale:
                stale_end = len(held)
            elif len(held) - self._at + len(data) < self._need:
                held += data
                return []
            held += data
            buffer, at, seen = held, self._at, self._seen
        frames: list[tuple[str, bytes]] = []
        by_first, limit = self._by_first, self._limit
        end = len(buffer)
        failures = 0
        # What is examined together is examined again with the next piece, as far as it is undecided.
        fresh = 4 * len(data) >= end - at
        threshold = _SIEVE_FAILURES if fresh else _SIEVE_FAILURES + (end - at) // _SIEVE_BYTES
        sieve: _Sieve | None = None
        while at < end:
            verdict, synced, name, need, claim = NO_FRAME, False, "", limit, 0
            for number, candidate, sync, probe, shape, running in by_first[buffer[at]]:
                if buffer.startswith(sync, at):
                    synced = True
                    if shape is None:
                        verdict = probe(buffer, at, end)
                        need = end - at + 1
                    else:
                        verdict = claim = shape.length(buffer, at, end, seen)
                        if verdict <= 0:
                            need = end - at + 1
                        elif at + verdict > end:
                            need, verdict = verdict, INCOMPLETE if verdict <= limit else NO_FRAME
                        elif verdict > limit or not (
                            shape.accepts(buffer, at, at + verdict)
                            if sieve is not None and at in sieve.sound[number]
                            else shape.valid(buffer, at, at + verdict, running)
                        ):
                            verdict = NO_FRAME
                elif end - at < len(sync) and sync.startswith(buffer[at:end]):
                    verdict, need = INCOMPLETE, len(sync)
                else:
                    continue
                if 0 < verdict <= limit:
                    name = candidate
                    break
                if verdict == 0 and at >= stale_end and end - at < limit and self._begins(buffer, at):
                    break
                verdict = NO_FRAME
            if verdict > 0:
                stop = at + verdict
                frames.append((name, bytes(buffer[at:stop])))
                at, seen = stop, 0
                continue
            if verdict == 0:
                break
            seen = 0
            if synced:
                self.bad_frames += 1
                failures += 1 + (claim // _SIEVE_CLAIM_BYTES if fresh and claim > 0 else 0)
                if sieve is None and failures >= threshold:
                    sieve = _Sieve(self._protocols, self._heads, buffer, at + 1, limit)
            if sieve is not None:
                following, passed = sieve.following(at + 1, end)
                self.bad_frames += passed
            else:
                found = self._find(buffer, at + 1)
                following = found.start() if found else end
                if following > at + 1:
                    self.bad_frames += self._syncs(buffer, at + 1, following)
            self.dropped_bytes += following - at
            at = following
        self._keep(buffer, at)
        if at < end:
            self._seen, self._need = end - at, min(need, limit)
        return frames

    def flush(self) -> list[tuple[str, bytes]]:
        """Drop the incomplete candidate and return the frames behind it. Nothing stays buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Drop all buffered bytes, because the stream was interrupted."""
        self.dropped_bytes += self.buffered_bytes
        self._keep(b"", 0)

    def _syncs(self, buffer: Stream, begin: int, end: int) -> int:
        """Return the number of syncs that begin from ``begin`` to ``end``."""
        syncs = self._sync_at(buffer, begin, end + self._longest_sync - 1)
        return sum(match.start() < end for match in syncs)

    def _keep(self, buffer: Stream, at: int) -> None:
        """Keep what is undecided. What was decided is removed seldom, because that moves the rest."""
        held = self._held
        if buffer is held and at < len(held) and at < max(_COMPACT_BYTES, self._limit):
            self._at = at
            return
        if buffer is held:
            del held[:at]
        else:
            held[:] = buffer[at:]
        self._at = 0
        for running in self._running:
            if running is not None:
                running.reset()


class _Sieve:
    """Places of a buffer where a frame may begin, found for all candidates together."""

    def __init__(
        self, protocols: Sequence[Protocol], heads: Sequence[Sequence[bytes]], buffer: Stream, begin: int, limit: int
    ) -> None:
        data = bytes(buffer[begin:])
        octets = np.frombuffer(data, np.uint8)
        syncs, possible = np.zeros((2, len(data)), np.bool_)
        self.sound: list[set[int]] = []
        """Places of frames with a valid checksum, by protocol."""
        for (_, sync, probe), head in zip(protocols, heads, strict=True):
            places = np.arange(len(data))
            for offset, values in enumerate(head):
                fits = np.zeros(256, np.bool_)
                fits[np.frombuffer(values, np.uint8)] = True
                # A head that is cut off at the end may be one.
                places = places[(places + offset >= len(data)) | fits[octets.take(places + offset, mode="clip")]]
                if offset == len(sync) - 1:
                    syncs[places[places + offset < len(data)]] = True
            whole = places[places + len(head) <= len(data)]
            possible[places[len(whole) :]] = True
            sound, open_ = probe.sift(data, octets, whole, limit) if isinstance(probe, Shape) else (whole[:0], whole)
            possible[sound] = possible[open_] = True
            self.sound.append(set((sound + begin).tolist()))
        self._syncs: list[int] = (np.flatnonzero(syncs) + begin).tolist()
        self._possible: list[int] = (np.flatnonzero(possible) + begin).tolist()

    def following(self, at: int, end: int) -> tuple[int, int]:
        """Return the next possible place from ``at`` on, or ``end``, and the number of syncs before it."""
        number = bisect_left(self._possible, at)
        place = self._possible[number] if number < len(self._possible) else end
        return place, bisect_left(self._syncs, place) - bisect_left(self._syncs, at)


class PayloadReader:
    """Reader of one kind of payload from a stream cut anywhere. Never raises on wire input; keeps at most one frame."""

    def __init__(self, protocols: Sequence[Protocol], limit: int, payload: Callable[[str, bytes], bytes]) -> None:
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
        """Return the payloads completed by ``data``. ``stale``: the line was silent, so an incomplete frame is dropped."""
        return [self._payload(name, frame) for name, frame in self._framer.feed(data, stale)]

    def flush(self) -> list[bytes]:
        """Return the payloads behind a start that never completed. Nothing stays buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Drop the incomplete frame, because the stream was interrupted."""
        self._framer.clear()


def _pattern(heads: Sequence[Sequence[bytes]]) -> re.Pattern[bytes]:
    """Return a pattern of any of the heads, or as much of it as there is at the end of the buffer."""
    patterns = set()
    for head in heads:
        *others, pattern = [b"[" + b"".join(re.escape(bytes((value,))) for value in values) + b"]" for values in head]
        for values in reversed(others):
            pattern = values + rb"(?:\Z|" + pattern + rb")"
        patterns.add(pattern)
    return re.compile(b"|".join(sorted(patterns)))
