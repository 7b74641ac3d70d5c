"""Counts the traffic of each port, without creating an object per chunk of bytes."""

from typing import Any

import numpy as np
from msgspec import Struct

from vehicled.core.messages import Direction, WireChunk
from vehicled.log.reader import LogReader

_LENGTH_AT = 12
"""Offset of the length of the port's name (with NUL), after the CDR header and the time."""
_NAME_AT = 16
_NAME_LIMIT = 64
_AT_ONCE_BYTES = 1 << 20
"""Bytes to process at once: a single chunk is too small for numpy to pay off."""


class PortCount(Struct):
    """Traffic of one port in one direction."""

    chunks: int = 0
    bytes: int = 0
    first_ns: int = 2**63 - 1
    last_ns: int = 0
    longest_silence_ns: int = 0


def count(log: LogReader, ports: dict[tuple[str, Direction], PortCount]) -> None:
    """Add the wire chunks of a file to ``ports``."""
    pieces: list[bytes] = []
    places: list[Any] = []
    size = 0
    for records, offsets in log.spans(WireChunk):
        pieces.append(records)
        places.append(offsets + size)
        size += len(records)
        if size >= _AT_ONCE_BYTES:
            _count_pieces(pieces, places, ports)
            pieces, places, size = [], [], 0
    _count_pieces(pieces, places, ports)


def _count_pieces(
    pieces: list[bytes], places: list[Any], ports: dict[tuple[str, Direction], PortCount]
) -> None:
    if places:
        # Pad the end, because the last record may be followed by less than the longest name.
        data = np.frombuffer(b"".join([*pieces, bytes(_NAME_AT + _NAME_LIMIT + 16)]), np.uint8)
        _count(data, np.concatenate(places), ports)


def _count(data: Any, offsets: Any, ports: dict[tuple[str, Direction], PortCount]) -> None:
    if not len(offsets):
        return
    t_ns = _numbers(data, offsets + 4, "<i8")
    length = _numbers(data, offsets + _LENGTH_AT, "<u4").astype(np.int64)
    for size in np.unique(length).tolist():
        if not 1 <= size <= _NAME_LIMIT:
            continue
        mine = np.flatnonzero(length == size)
        names = data[(offsets[mine] + _NAME_AT)[:, None] + np.arange(size)]
        # The direction follows the name; then, aligned to four after the header, the number of
        # bytes.
        direction = data[offsets[mine] + _NAME_AT + size]
        size_at = _NAME_AT + size + 1
        size_at += -(size_at - 4) % 4
        sizes = _numbers(data, offsets[mine] + size_at, "<u4")
        keys = np.concatenate([names, direction[:, None]], axis=1)
        left = np.ones(len(keys), bool)
        # With few ports, comparing with each costs less than sorting.
        while left.any():
            key = keys[np.argmax(left)]
            here = (keys == key).all(axis=1)
            left &= ~here
            way = Direction.TX if key[-1] == Direction.TX else Direction.RX
            port = ports.setdefault(
                (bytes(key[: size - 1]).decode(errors="replace"), way), PortCount()
            )
            times = t_ns[mine][here]
            steps = np.diff(times, prepend=port.last_ns if port.chunks else times[0])
            port.longest_silence_ns = max(port.longest_silence_ns, int(steps.max()))
            port.chunks += len(times)
            port.bytes += int(sizes[here].sum())
            port.first_ns = min(port.first_ns, int(times.min()))
            port.last_ns = max(port.last_ns, int(times.max()))


def _numbers(data: Any, at: Any, dtype: str) -> Any:
    kind = np.dtype(dtype)
    return data[at[:, None] + np.arange(kind.itemsize)].view(kind)[:, 0]
