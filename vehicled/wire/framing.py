"""Finding frames in a byte stream that several protocols share, that is cut anywhere and damaged anywhere."""

import re
from collections.abc import Callable, Sequence
from typing import NamedTuple

Probe = Callable[[bytes | bytearray, int, int], int]
"""``probe(buffer, at, end)``: the length of the frame that starts at ``at`` when it lies whole before ``end`` and its check sum
holds; ``INCOMPLETE`` when that cannot be said before more bytes come; ``NO_FRAME`` when it is none, as soon as that is certain.
Must not depend on what lies before ``at``, and must not raise."""

INCOMPLETE = 0
NO_FRAME = -1


class Protocol(NamedTuple):
    """How to recognise the frames of one protocol: the bytes each begins with, and a judge of what follows."""

    name: str
    sync: bytes
    probe: Probe


class Framer:
    """Cuts frames of one or more protocols out of a stream. Never raises on wire input, keeps less than ``limit`` bytes of it.

    After a frame that is none the search goes on one byte behind its start: a damaged length costs the damaged frame, never its
    neighbours. Nothing that follows a candidate is delivered before that candidate is decided, so the frames come in the order of
    the stream and do not depend on how it was cut. A probe should therefore refuse lengths that its protocol does not have: a
    damaged length holds back the stream for as many bytes as it claims. Where several protocols fit at one place, the one that
    comes first in the list is asked first.
    """

    def __init__(self, protocols: Sequence[Protocol], limit: int = 1 << 16) -> None:
        """A frame longer than ``limit`` bytes is none. Raises ValueError for an empty list, an empty sync or a useless limit."""
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
        """Places where a sync stood and no frame followed; false syncs inside of damaged frames count too."""
        self.dropped_bytes = 0
        """Bytes that belonged to no frame. Every byte is in a frame, in here, or still buffered."""

    @property
    def buffered_bytes(self) -> int:
        """Bytes kept for a candidate that is not decided yet; below ``limit``."""
        return len(self._rest)

    def feed(self, data: bytes, stale: bool = False) -> list[tuple[str, bytes]]:
        """Frames completed by ``data``, in order, as (name of the protocol, whole frame).

        ``stale`` says that the port has been silent before ``data``: a candidate from before the silence which ``data`` does not
        complete is given up, and what it held back is searched.
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
        """Give up what waits for more bytes; returns the frames it held back. Afterwards nothing is buffered."""
        return self.feed(b"", stale=True)

    def clear(self) -> None:
        """Forget what is buffered: the stream was interrupted, and what comes next does not continue it."""
        self.dropped_bytes += len(self._rest)
        self._rest = b""


def _pattern(protocols: Sequence[Protocol]) -> re.Pattern[bytes]:
    """Any sync, or at the very end the beginning of one."""
    places = set()
    for sync in {protocol.sync for protocol in protocols}:
        places.add(re.escape(sync))
        places.update(re.escape(sync[:length]) + rb"\Z" for length in range(1, len(sync)))
    return re.compile(b"|".join(sorted(places)))
