"""Pure codec of the simulator link: one ordered stream that carries bytes and time, so that time
cannot overtake bytes.

Frame: ``length u32 | kind u8 | port u8 | t_ns i64 | payload``, little-endian; ``length`` counts
what follows it.

=======  =================  =====================================================================
kind     from               meaning
=======  =================  =====================================================================
HELLO    both, first        payload is :class:`Hello` as JSON; a version that differs ends the
                            link
DATA     both               bytes of port number ``port``: received at ``t_ns``, or passed to the
                            port at ``t_ns``
GRANT    simulator          lockstep: every DATA up to ``t_ns`` has been sent, run up to
                            ``t_ns``; wall: heartbeat; wall, shared clock: the world has reached
                            ``t_ns``; payload is :func:`encode_lost`'s
DONE     daemon             lockstep: all is done up to the grant, wake me at ``t_ns``; wall:
                            heartbeat; shared clock: the daemon's time; payload is
                            :func:`encode_lost`'s
SYNC     simulator, echoed  wall: ``t_ns`` is the sender's clock; the answer's payload is the
                            ``t_ns`` it answers
LINE     daemon             line rate of a serial port from ``t_ns`` on (payload u32 baud; 0: the
                            port was reopened)
BYE      both, last         orderly end; payload is the reason as UTF-8
=======  =================  =====================================================================

Lockstep. The simulator grants the instant at which the daemon asked to be woken, after all DATA
that arrives until then, each with its own stamp. The daemon answers with its DATA, stamped not
before the grant, and one DONE. Wall time. Both run on their own clocks; the simulator stamps in the
daemon's clock, found by SYNC (smallest round trip wins; zero offset on the same boot). Wall time,
shared clock: where both greet with ``shared_clock``, neither runs more than ``PACE_LEAD_NS`` ahead
of what the other last named. Each takes out of the clock what it has lost itself, because the
computer did not let it run, and names the sum in its heartbeats: the simulator all that it was
late, the daemon only what other processes, the hypervisor or a stop signal took from it. A daemon
that computes or waits too long is late, as on a vehicle.
"""

import struct
from enum import IntEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from vehicled.core.errors import UserError
from vehicled.core.plain_text import printable

VERSION = 1
MAX_FRAME_BYTES = 1 << 20
MAX_PORTS = 256
"""Largest number of ports: a frame names its port in one byte."""
MAX_START_NS = 1 << 62
SHOWN_REASON = 200
"""Longest part of the peer's reason for the end that is shown, characters."""
PACE_LEAD_NS = 15_000_000
"""Shared clock: two leads and the period of an inertial unit are less than the silence (50 ms) that
stops a drive."""
PACE_BEAT_NS = 5_000_000
"""Shared clock: each side names its time at least this often while it runs."""

_HEAD = struct.Struct("<IBBq")
_BAUD = struct.Struct("<I")
_LOST = struct.Struct("<q")
_HEAD_AFTER_LENGTH = _HEAD.size - 4


class LinkError(UserError):
    """Protocol violation or version mismatch of the peer."""


class LinkFrameKind(IntEnum):
    """Kind of a frame."""

    HELLO = 1
    DATA = 2
    GRANT = 3
    DONE = 4
    SYNC = 5
    BYE = 6
    LINE = 7


class Hello(msgspec.Struct, frozen=True, kw_only=True):
    """First frame of each side. The simulator sends first; the daemon answers with the same
    ``ports``."""

    version: int = VERSION
    role: str
    """``simulator`` or ``daemon``."""
    clock: str
    """``lockstep`` or ``wall``; the daemon decides."""
    ports: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=64)]], Meta(max_length=MAX_PORTS)
    ]
    """Port names by number, no two alike."""
    urls: dict[str, str] = {}
    """Wall time: addresses of the ports that the simulator offers as ptys or CAN instead of over
    the link."""
    shared_clock: bool = False
    """Wall time: both take the time out of the clock for which the computer did not let them
    run."""
    start_ns: Annotated[int, Meta(ge=0, le=MAX_START_NS)] = 0
    """Lockstep: start time of the run."""
    boot_id: str = ""
    """Machine and boot; equal values share a monotonic clock."""
    identity: str = ""
    """Name and version of the simulator."""
    world: dict[str, str] = {}
    """Simulated ``profile``, ``course``, ``seed`` and ``link``. The daemon refuses values other
    than its own."""


class _Versioned(msgspec.Struct):
    version: int


Frame = tuple[LinkFrameKind, int, int, bytes]
"""kind, port, t_ns, payload."""

_KINDS = {int(kind): kind for kind in LinkFrameKind}


def encode(kind: LinkFrameKind, port: int, t_ns: int, payload: bytes = b"") -> bytes:
    """Encode one frame."""
    return _HEAD.pack(_HEAD_AFTER_LENGTH + len(payload), kind, port, t_ns) + payload


def encode_line(port: int, t_ns: int, baud: int) -> bytes:
    """Encode a port's new line rate; 0 for a reopened port."""
    return encode(LinkFrameKind.LINE, port, t_ns, _BAUD.pack(baud))


def decode_line(payload: bytes) -> int:
    """Decode the line rate of a LINE frame. Raises :class:`LinkError` for a wrong length."""
    if len(payload) != _BAUD.size:
        raise LinkError(f"a LINE frame carries 4 bytes, not {len(payload)}")
    baud: int = _BAUD.unpack(payload)[0]
    return baud


def encode_lost(kind: LinkFrameKind, t_ns: int, lost_ns: int) -> bytes:
    """Encode a GRANT or DONE of a shared clock: the sender's time, and the time that it has lost so
    far."""
    return encode(kind, 0, t_ns, _LOST.pack(lost_ns))


def decode_lost(payload: bytes) -> int:
    """Decode the time lost. Raises :class:`LinkError` for another length."""
    if len(payload) != _LOST.size:
        raise LinkError(
            f"a heartbeat of a shared clock carries {_LOST.size} bytes, not {len(payload)}"
        )
    lost_ns: int = _LOST.unpack(payload)[0]
    return lost_ns


def encode_hello(hello: Hello) -> bytes:
    """Encode the first frame."""
    return encode(LinkFrameKind.HELLO, 0, hello.start_ns, msgspec.json.encode(hello))


def decode_hello(payload: bytes) -> Hello:
    """Decode the peer's first frame. Raises :class:`LinkError` for another version or a malformed
    body."""
    try:
        # First, because the rest of another version's greeting may look different.
        version = msgspec.json.decode(payload, type=_Versioned).version
        hello = msgspec.json.decode(payload, type=Hello) if version == VERSION else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise LinkError(
            f"the peer's greeting cannot be read: {printable(str(error), SHOWN_REASON)}"
        ) from error
    if hello is None:
        raise LinkError(
            f"the peer speaks version {version} of the simulator link, this side version "
            f"{VERSION}: update the older one"
        )
    if len(set(hello.ports)) < len(hello.ports):
        raise LinkError("the peer's greeting names a port twice: each port needs a name of its own")
    return hello


def decode_reason(payload: bytes) -> str:
    """Decode the reason of a BYE frame for display: on one line, without control characters, and
    cut."""
    return printable(payload.decode(errors="replace"), SHOWN_REASON)


class LinkDecoder:
    """Incremental decoder of a byte stream that is cut anywhere."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._wanted = 0
        """Number of bytes up to the end of the incomplete frame; 0 if it is not known yet."""
        self._broken = ""

    def feed(self, data: bytes) -> list[Frame]:
        """Return the frames that ``data`` completes.

        An impossible length or kind means that the stream is corrupt: raises :class:`LinkError`
        after the frames before it have been returned.
        """
        if self._broken:
            raise LinkError(self._broken)
        if self._rest:
            self._rest += data
            if len(self._rest) < self._wanted:
                # Not looked at again for every byte: a large frame may arrive in a million pieces.
                return []
            data = bytes(self._rest)
            self._rest.clear()
        frames: list[Frame] = []
        at, end = 0, len(data)
        self._wanted = 0
        while end - at >= _HEAD.size:
            length, kind, port, t_ns = _HEAD.unpack_from(data, at)
            if kind not in _KINDS or not _HEAD_AFTER_LENGTH <= length <= MAX_FRAME_BYTES:
                self._broken = f"not a frame of the simulator link: length {length}, kind {kind}"
                if not frames:
                    raise LinkError(self._broken)
                break
            stop = at + 4 + length
            if stop > end:
                self._wanted = stop - at
                break
            frames.append((_KINDS[kind], port, t_ns, data[at + _HEAD.size : stop]))
            at = stop
        if at < end:
            self._rest += data[at:]
        return frames
