"""Answers of RPLIDAR and YDLIDAR, which have the same heads, identity and health: ``A5 5A``,
length, type, content."""

from collections.abc import Callable, Mapping
from struct import Struct as Layout
from typing import Any, NamedTuple

from vehicled.core.wire.framing import INCOMPLETE, NO_FRAME, Protocol, Shape, Stream

INFO, HEALTH = 0x04, 0x06
HEAD_BYTES = 7
_HEAD = Layout("<2sIB")
_INFO = Layout("<BHB16s")
_HEALTH = Layout("<BH")
_MULTIPLE = 1 << 30


class Info(NamedTuple):
    """Identity of a unit."""

    model: int
    firmware: int
    hardware: int
    serial: str


class HealthStatus(NamedTuple):
    """Health: 0 good, 1 warning, 2 error, which only a reset may clear."""

    status: int
    code: int

    @property
    def complaint(self) -> str:
        """Reason in words why the unit is not well; empty if it is."""
        state = {0: "", 1: "warning"}.get(self.status, "error")
        return f"it reports a {state}, code {self.code}" if state else ""


class ScanBegins(NamedTuple):
    """Begin of measurements of one type."""

    kind: int


def head(kind: int, size: int, *, multiple: bool = False) -> bytes:
    """Return the head of an answer. One of ``multiple`` frames, measurements, has no content of its
    own."""
    return _HEAD.pack(b"\xa5\x5a", size | (_MULTIPLE if multiple else 0), kind)


def encode_answer(reply: Info | HealthStatus) -> bytes:
    """Return an answer with its head."""
    if isinstance(reply, Info):
        model, firmware, hardware, serial = reply
        return head(INFO, _INFO.size) + _INFO.pack(model, firmware, hardware, bytes.fromhex(serial))
    return head(HEALTH, _HEALTH.size) + _HEALTH.pack(*reply)


def parse_answer(frame: bytes) -> Info | HealthStatus | None:
    """Return the identity or the health of an answer with a valid head; None for another answer."""
    kind, body = frame[6], frame[HEAD_BYTES:]
    if kind == INFO:
        model, firmware, hardware, serial = _INFO.unpack(body)
        return Info(model, firmware, hardware, serial.hex().upper())
    return HealthStatus(*_HEALTH.unpack(body)) if kind == HEALTH else None


class AnswerShape(Shape):
    """Shape of the answers: only the lengths that a type may have, because they have no
    checksum."""

    def __init__(self, sizes: Mapping[int, range], streams: Mapping[int, int]) -> None:
        """``sizes`` of the content by type; ``streams``: size of each of the multiple frames by
        type."""
        self._sizes = {INFO: range(20, 21), HEALTH: range(3, 4), **sizes}
        self._streams = streams

    def length(self, buffer: Stream, at: int, end: int) -> int:
        if end - at < HEAD_BYTES:
            return INCOMPLETE
        _, size, kind = _HEAD.unpack_from(buffer, at)
        if size & _MULTIPLE:
            return HEAD_BYTES if self._streams.get(kind) == size ^ _MULTIPLE else NO_FRAME
        return HEAD_BYTES + size if size in self._sizes.get(kind, ()) else NO_FRAME

    def valid(self, buffer: Stream, at: int, stop: int) -> bool:
        return True


def answers(sizes: Mapping[int, range], streams: Mapping[int, int]) -> Protocol:
    """Return the protocol of the answers."""
    return Protocol("answer", b"\xa5\x5a", AnswerShape(sizes, streams))


def none(reply: object) -> None:
    """Judge no reply an answer."""


def of(kind: type[Any]) -> Callable[[Any], Any]:
    """Return a judge for answers of one type."""
    return lambda reply: reply if isinstance(reply, kind) else None
