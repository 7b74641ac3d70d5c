"""Framing: finds the frames of several protocols in one byte stream, cut and damaged anywhere, in linear time.

A protocol states the shape of its frames. Most have a length in their head and a checksum: :class:`CountedFrame`, or another
subclass of :class:`CheckedFrame`. Text is a :class:`TextLine`. The framer remembers how far an undecided candidate was read, and
sums no byte a second time for another candidate (:mod:`vehicled.wire.checksum`). After several false starts in one piece of data it
examines those that follow together, as arrays. So repeated false starts with the longest length cost little more than data.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from string import ascii_letters
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vehicled.wire.checksum import ROW, Checksum, RunningChecksum
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
_SIEVE_BYTES = 512
"""New bytes which an examination that goes on takes up at once."""
_COMPACT_BYTES = 4096
_NOWHERE = np.zeros(0, np.int64)


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

    def lengths(self, buffer: Stream, octets: Octets, places: Integers) -> Integers:
        """Return :meth:`length` for many places of ``buffer``, whose bytes are ``octets``."""
        end, length = len(buffer), self.length
        return np.fromiter((length(buffer, at, end) for at in places.tolist()), np.int64, len(places))

    def fit(self, octets: Octets, places: Integers, stops: Integers, running: Any, begin: int) -> NDArray[np.bool_]:
        """Return whether the checksums of many frames are valid. ``running``: running values from the place ``begin`` on."""
        checksum, first, tail, stored, order, last = self.check
        fits = np.ones(len(places), np.bool_)
        for back, byte in enumerate(reversed(last), 1):
            fits &= octets[stops - back] == byte
        at, stop = places[fits], stops[fits]
        values = np.zeros_like(at)
        if stored is not None:
            place, size = stored + (at if stored >= 0 else stop), checksum.size
            for k in range(size):
                values |= octets[place + k].astype(np.int64) << 8 * (k if order == "little" else size - 1 - k)
        fits[fits] = checksum.fit(running, at + first - begin, stop - tail - begin, values)
        return fits


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

    def lengths(self, buffer: Stream, octets: Octets, places: Integers) -> Integers:
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

    def lengths(self, buffer: Stream, octets: Octets, places: Integers) -> Integers:
        known = np.frombuffer(self._kinds, np.bool_)[octets.take(places + 1, mode="clip")]
        return np.where(known | (places + 1 == len(octets)), self._size, NO_FRAME)


class TextLine(Shape):
    """Line of text ``$body*hh`` with a checksum of two hexadecimal digits, the exclusive or of the body, and LF or CR LF.

    The body begins with a name and has no further ``$`` or ``*``, so that no byte belongs to two lines.
    """

    _NAME_BYTES = 34
    _BODY_ENDS = re.compile(rb"[^\x20-\x23\x25-\x29\x2b-\x7e]")

    def __init__(self, longest: int, *, with_crc: bool = False, bare: bool = False) -> None:
        """``longest``: bytes of a line. ``with_crc``: the checksum may also be a CRC-16 of four digits, as VectorNav's may.

        ``bare``: a line with fields but without a checksum is a frame, too, so that it can be named: older devices send them.
        """
        self._longest, self._bare = longest, bare
        digits = rb"[0-9A-Fa-f]{2}"
        tail = rb"(?:\*(?:" + digits + (rb"|" + digits * 2 if with_crc else b"") + rb"))" + (b"?" if bare else b"") + rb"\r?\n"
        tail_begins = rb"\*(?:[0-9A-Fa-f]{0,%d}\r?)?\Z" % (4 if with_crc else 2) + (rb"|\r\Z" if bare else b"")
        self._tail, self._tail_begins = re.compile(tail), re.compile(tail_begins)
        # Proprietary names are long, and some makers use lower case.
        name, body = rb"[A-Za-z][0-9A-Za-z_]{2,31}+", rb"(?:,[\x20-\x23\x25-\x29\x2b-\x7e]*+)?"
        begun = rb"[A-Za-z]?[0-9A-Za-z_]{0,31}\Z"
        self._line = re.compile(rb"\$(?:" + name + body + rb"(?:(" + tail + rb")|\Z|" + tail_begins + rb")|" + begun + rb")")
        self._tail_bytes = 7 if with_crc else 5

    def head(self, sync: bytes) -> list[bytes]:
        return [*super().head(sync), ascii_letters.encode()]

    def length(self, buffer: Stream, at: int, end: int, seen: int = 0) -> int:
        stop = min(end, at + self._longest)
        if seen <= self._NAME_BYTES:
            line = self._line.match(buffer, at, stop)
            if line is None:
                return NO_FRAME
            return line.end() - at if line[1] else INCOMPLETE if stop == end and end - at < self._longest else NO_FRAME
        found = self._BODY_ENDS.search(buffer, at + max(1, seen - self._tail_bytes), stop)
        if found is not None:
            tail = self._tail.match(buffer, found.start(), stop)
            if tail is not None:
                return tail.end() - at
            if not self._tail_begins.match(buffer, found.start(), stop):
                return NO_FRAME
        return INCOMPLETE if stop == end and end - at < self._longest else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int, running: RunningChecksum | None = None) -> bool:
        body, star, digits = bytes(buffer[at + 1 : stop]).partition(b"*")
        if not star:
            return self._bare and b"," in body
        digits = digits.rstrip()
        return (xor8 if len(digits) == 2 else crc16_xmodem)(body) == int(digits, 16)


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
        self._sieve: _Sieve | None = None
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
        failures, bad_before, sieve = 0, self.bad_frames, self._sieve
        if sieve is not None and sieve.gains(end) >= _SIEVE_BYTES:
            sieve.extend(buffer, at)
        while at < end:
            verdict, synced, name, need, claim, checked = NO_FRAME, False, "", limit, 0, False
            for number, candidate, sync, probe, shape, running in by_first[buffer[at]]:
                if buffer.startswith(sync, at):
                    synced, checked = True, checked or running is not None
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
                            sieve.is_sound(number, at) and shape.accepts(buffer, at, at + verdict)
                            if sieve is not None and running is not None and sieve.knows(at, at + verdict)
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
                if checked or claim > 0:
                    failures += 1 + max(0, claim) // _SIEVE_CLAIM_BYTES
                if failures >= _SIEVE_FAILURES and (sieve is None or sieve.gains(end) > 0):
                    failures = 0
                    if sieve is None:
                        sieve = self._sieve = _Sieve(self._protocols, self._heads, limit, at + 1)
                    sieve.extend(buffer, at + 1)
            following, begin = end, at + 1
            if sieve is not None:
                following, begin, passed = sieve.following(begin, end)
                self.bad_frames += passed
            if following == end and begin < end:
                found = self._find(buffer, begin)
                following = found.start() if found else end
                if following > begin:
                    self.bad_frames += self._syncs(buffer, begin, following)
            self.dropped_bytes += following - at
            at = following
        if frames and self.bad_frames == bad_before:
            self._sieve = None
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
        self._sieve = None
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
        if self._sieve is not None and not self._sieve.forget(at):
            self._sieve = None
        for running in self._running:
            if running is not None:
                running.reset()


class _Sieve:
    """Places of a stream where a frame may begin, found for many candidates together, each byte of the stream examined once.

    Places inside are counted from a fixed byte of the stream, which may be far behind the buffer.
    """

    def __init__(self, protocols: Sequence[Protocol], heads: Sequence[Sequence[bytes]], limit: int, at: int) -> None:
        """Begin at the place ``at`` of the buffer."""
        self._candidates = [_Candidates(each, head, limit, at) for each, head in zip(protocols, heads, strict=True)]
        self._head_bytes = max(map(len, heads))
        self._origin = 0
        """Place of the first byte of the buffer."""
        self._searched = self._end = at
        """Places behind the last one that was examined, and behind the last byte that was there."""
        self._syncs = self._possible = _NOWHERE

    def extend(self, buffer: Stream, at: int) -> None:
        """Examine the places not examined yet whose heads are complete. Those before ``at`` of the buffer are decided."""
        octets = np.frombuffer(buffer, np.uint8)
        first = self._searched - self._origin
        last = max(first, len(octets) - self._head_bytes + 1)
        is_sync = np.zeros(last - first, np.bool_)
        for each in self._candidates:
            each.decide(at + self._origin)
            each.add(buffer, octets, first, last, is_sync, self._origin)
            each.complete(octets, self._origin)
        self._searched, self._end = last + self._origin, len(octets) + self._origin
        known = self._syncs.searchsorted(at + self._origin)
        self._syncs = np.append(self._syncs[known:], is_sync.nonzero()[0] + first + self._origin)
        if len(self._candidates) == 1:
            self._possible = self._candidates[0].possible()
        else:
            self._possible = np.unique(np.concatenate([each.possible() for each in self._candidates]))

    def gains(self, end: int) -> int:
        """Return the number of bytes before ``end`` that it has not taken up yet."""
        return end + self._origin - self._end

    def knows(self, at: int, stop: int) -> bool:
        """True if a frame from ``at`` to ``stop`` of the buffer was examined."""
        return at + self._origin < self._searched and stop + self._origin <= self._end

    def is_sound(self, number: int, at: int) -> bool:
        """True if a frame of a protocol at the place ``at`` of the buffer has a valid checksum."""
        return at + self._origin in self._candidates[number].sound

    def following(self, at: int, end: int) -> tuple[int, int, int]:
        """Return the next possible place of the buffer from ``at`` on, or ``end``; the place before which all others are excluded;
        and the number of syncs before that."""
        begin, searched = at + self._origin, self._searched
        if begin >= searched:
            return end, at, 0
        number = int(self._possible.searchsorted(begin))
        place = int(self._possible[number]) if number < len(self._possible) else searched
        passed = int(self._syncs.searchsorted(place) - self._syncs.searchsorted(begin))
        following = place - self._origin
        return (following if place < searched else end), following, passed

    def forget(self, count: int) -> bool:
        """Note that the first ``count`` bytes of the buffer are gone. Returns False if no examined place is left."""
        self._origin += count
        return self._origin < self._searched


class _Candidates:
    """Candidates of one protocol."""

    def __init__(self, protocol: Protocol, head: Sequence[bytes], limit: int, at: int) -> None:
        self._shape = protocol.probe if isinstance(protocol.probe, CheckedFrame) else None
        self._sync_bytes, self._limit = len(protocol.sync), limit
        self._head = np.zeros((len(head), 256), np.bool_)
        for fits, values in zip(self._head, head, strict=True):
            fits[np.frombuffer(values, np.uint8)] = True
        self._open = self._places = self._stops = self._sound = _NOWHERE
        self.sound: set[int] = set()
        """Places of frames with a valid checksum."""
        self._running: Any = None
        self._begin = self._end = at
        """Places that the running values cover."""

    def decide(self, at: int) -> None:
        """Drop what lies before the place ``at``."""
        self._open, self._sound = (places[places.searchsorted(at) :] for places in (self._open, self._sound))
        first = self._places.searchsorted(at)
        self._places, self._stops = self._places[first:], self._stops[first:]
        rows = (min(at, self._end) - self._begin) // ROW * ROW
        if self._shape is not None and rows and self._running is not None:
            self._running = self._shape.check.checksum.without(self._running, rows)
            self._begin += rows

    def add(self, buffer: Stream, octets: Octets, first: int, last: int, is_sync: NDArray[np.bool_], origin: int) -> None:
        """Add the candidates from ``first`` to ``last`` of the buffer, whose first byte has the place ``origin``."""
        places = np.arange(first, last)
        for offset, fits in enumerate(self._head):
            places = places[fits[octets[places + offset]]]
            if offset == self._sync_bytes - 1:
                is_sync[places - first] = True
        if self._shape is None:
            self._open = np.append(self._open, places + origin)
            return
        sizes = self._shape.lengths(buffer, octets, places)
        self._open = np.append(self._open, places[sizes == INCOMPLETE] + origin)
        is_sized = (sizes > 0) & (sizes <= self._limit)
        places, sizes = places[is_sized] + origin, sizes[is_sized]
        self._places, self._stops = np.append(self._places, places), np.append(self._stops, places + sizes)
        checksum = self._shape.check.checksum
        self._running = checksum.running(bytes(buffer[self._end - origin :]), self._running)
        self._end = origin + len(buffer)

    def complete(self, octets: Octets, origin: int) -> None:
        """Decide the candidates that are complete now."""
        is_complete = self._stops <= self._end
        if self._shape is None or not is_complete.any():
            return
        places = self._places[is_complete] - origin
        fits = self._shape.fit(octets, places, self._stops[is_complete] - origin, self._running, self._begin - origin)
        self._sound = np.append(self._sound, places[fits] + origin)
        self._sound.sort()
        self.sound = set(self._sound.tolist())
        self._places, self._stops = self._places[~is_complete], self._stops[~is_complete]

    def possible(self) -> Integers:
        """Return the places where a frame cannot be excluded, in order."""
        if not len(self._open) and not len(self._sound):
            return self._places
        return np.sort(np.concatenate((self._open, self._sound, self._places)))


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
