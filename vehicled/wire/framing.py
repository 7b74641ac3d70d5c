"""Framing: finds the frames of several protocols in one byte stream, cut and damaged anywhere."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

Probe = Callable[[bytes | bytearray, int, int], int]
"""Frame detector ``probe(buffer, at, end)``: the length of a frame that is complete and valid at ``at``, ``INCOMPLETE`` if more
bytes are needed, ``NO_FRAME`` as soon as it is certain.

It must not depend on bytes before ``at``, and must not raise.
"""

INCOMPLETE = 0
NO_FRAME = -1


class Protocol(NamedTuple):
    """Protocol of a framer: sync bytes and a frame detector."""

    name: str
    sync: bytes
    probe: Probe


class Framer:
    """Splitter of a stream into frames of one or more protocols. Never raises on wire input; keeps less than ``limit`` bytes.

    After an invalid frame the search continues one byte after its start, so damage costs only that frame. Frames come in stream
    order, independent of cuts, because nothing after a candidate is delivered before it is decided. A probe should therefore reject
    impossible lengths, which would hold back the stream. If several protocols fit, the first in the list wins.
    """

    def __init__(self, protocols: Sequence[Protocol], limit: int = 1 << 16) -> None:
        """Set the longest frame to ``limit`` bytes. Raises ValueError for an empty list, an empty sync or an unusable limit."""
        if not protocols or not all(protocol.sync for protocol in protocols):
            raise ValueError("a framer needs protocols, each with at least one sync byte")
        if limit < max(len(protocol.sync) for protocol in protocols):
            raise ValueError(f"a limit of {limit} bytes does not even hold the sync of every protocol")
        self._limit = limit
        self._protocols = tuple(protocols)
        self._by_first: list[tuple[Protocol, ...]] = [
            tuple(protocol for protocol in protocols if protocol.sync[0] == first) for first in range(256)
        ]
        self._find = _pattern(protocols).search
        self._rest = b""
        self.bad_frames = 0
        """Syncs without a valid frame, including false syncs inside damaged frames."""
        self.dropped_bytes = 0
        """Bytes outside frames. Every byte is in a frame, counted here, or buffered."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes of an undecided candidate; below ``limit``."""
        return len(self._rest)

    def feed(self, data: bytes, stale: bool = False) -> list[tuple[str, bytes]]:
        """Return the frames completed by ``data``, in order, as (protocol name, frame).

        ``stale``: the port was silent before ``data``, so an older candidate that ``data`` does not complete is dropped, and the
        bytes it held back are searched.
        """
        rest = self._rest
        stale_end = 0
        if rest:
            if stale:
                stale_end = len(rest)
            data = rest + data
        frames: list[tuple[str, bytes]] = []
        by_first, limit = self._by_first, self._limit
        at, end = 0, len(data)
        while at < end:
            verdict = NO_FRAME
            synced, name = False, ""
            for candidate, sync, probe in by_first[data[at]]:
                if data.startswith(sync, at):
                    synced = True
                    verdict = probe(data, at, end)
                elif end - at < len(sync) and sync.startswith(data[at:end]):
                    verdict = INCOMPLETE
                else:
                    continue
                if 0 < verdict <= limit:
                    name = candidate
                    break
                if verdict == 0 and at >= stale_end and end - at < limit:
                    break
                verdict = NO_FRAME
            if verdict > 0:
                stop = at + verdict
                frames.append((name, data[at:stop]))
                at = stop
                continue
            if verdict == 0:
                break
            if synced:
                self.bad_frames += 1
            found = self._find(data, at + 1)
            following = found.start() if found else end
            self.dropped_bytes += following - at
            at = following
        self._rest = data[at:]
        return frames

    def flush(self) -> list[tuple[str, bytes]]:
        """Drop the incomplete candidate and return the frames behind it. Nothing stays buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Drop all buffered bytes, because the stream was interrupted."""
        self.dropped_bytes += len(self._rest)
        self._rest = b""


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


def _pattern(protocols: Sequence[Protocol]) -> re.Pattern[bytes]:
    """Return a pattern of any sync, or its beginning at the end of the buffer."""
    places = set()
    for sync in {protocol.sync for protocol in protocols}:
        places.add(re.escape(sync))
        places.update(re.escape(sync[:length]) + rb"\Z" for length in range(1, len(sync)))
    return re.compile(b"|".join(sorted(places)))
