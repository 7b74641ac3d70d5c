"""Codec of u-blox receivers: UBX, NMEA and RTCM3 in one stream, in both directions.

:func:`decode` reads a recording; :class:`vehicled.core.wire.framing.Framer` over :data:`PROTOCOLS`
and :func:`decode_frame` read a live stream; :func:`encode` writes any layout. Decoding never raises
on wire input. Sources: NOTES.md.
"""

import struct
from collections.abc import Iterator
from typing import Any

from drivers.ublox import keys, nmea, ubx
from drivers.ublox.keys import CfgValget, CfgValgetPoll, CfgValset
from drivers.ublox.names import IDS, ubx_name
from drivers.ublox.nmea import (
    Avr,
    Gga,
    Gns,
    Gsa,
    Gst,
    Hdt,
    Hpr,
    Pashr,
    Rmc,
    Tar,
    Ths,
    Vel,
    Vtg,
    Zda,
)
from vehicled.core.wire.crc import CRC24Q_WEIGHT, crc24q, fletcher8, fletcher8_number
from vehicled.core.wire.framing import CountedFrame, FrameCheck, Framer, Protocol, TextLine

UBX_SYNC = b"\xb5\x62"
UBX_OVERHEAD_BYTES = 8
MAX_UBX_PAYLOAD_BYTES = 8192
"""Longest UBX payload accepted; the longest seen is 2.3 kB of raw data. Bounds what a damaged
length holds back."""
MAX_LINE_BYTES = 1024
"""Longest text line accepted. The standard says 82; high-precision and proprietary sentences reach
424 bytes."""

_PARSERS = ubx.PARSERS | {
    IDS["CFG-VALSET"]: keys.parse_valset,
    IDS["CFG-VALGET"]: keys.parse_valget,
}

# ---------------------------------------------------------------- frames


UBX, NMEA, RTCM = "ubx", "nmea", "rtcm"
PROTOCOLS = (
    Protocol(
        UBX,
        UBX_SYNC,
        CountedFrame(
            FrameCheck(fletcher8_number, first=2, tail=2, stored=-2, size=2, order="little"),
            at=4,
            width=2,
            extra=UBX_OVERHEAD_BYTES,
            most=MAX_UBX_PAYLOAD_BYTES,
        ),
    ),
    Protocol(NMEA, b"$", TextLine(MAX_LINE_BYTES, with_crc32=True, bare=True)),
    Protocol(
        RTCM,
        b"\xd3",
        CountedFrame(
            FrameCheck(crc24q, CRC24Q_WEIGHT), at=1, width=2, order="big", extra=6, most=1023
        ),
    ),
)


def framer() -> Framer:
    """Return a framer for all protocols of a receiver port."""
    return Framer(PROTOCOLS, limit=UBX_OVERHEAD_BYTES + MAX_UBX_PAYLOAD_BYTES)


# ---------------------------------------------------------------- messages


def parse_ubx(frame: bytes) -> Any:
    """Return the layout of a UBX frame; None if it has no layout, or the payload does not fit."""
    parse = _PARSERS.get(frame[2:4])
    if parse is None:
        return None
    try:
        return parse(frame[6:-2])
    except (ValueError, struct.error):
        # Polls have the id of the message they request, and other versions have other lengths;
        # neither is damage.
        return None


def has_layout(frame: bytes) -> bool:
    """True if the driver knows UBX messages of this class and id."""
    return frame[2:4] in _PARSERS


def has_checksum(line: bytes) -> bool:
    """True if a framed line ends with a checksum, which then is right."""
    return b"*" in line


def rtcm_number(frame: bytes) -> int:
    """Return the message number of an RTCM3 frame; -1 without content."""
    return frame[3] << 4 | frame[4] >> 4 if len(frame) >= 8 else -1


def decode_frame(protocol: str, frame: bytes) -> tuple[str, Any]:
    """Return name and fields of the message in a frame; the frame itself if it has no layout. Never
    raises.

    Names: ``NAV-PVT`` (``UBX-0c4b`` if undocumented), ``GNGGA``, ``PUBX,00``, ``1075`` (``RTCM3``
    for an empty frame).
    """
    if protocol == UBX:
        message = parse_ubx(frame)
        return ubx_name(frame[2:4]), frame if message is None else message
    if protocol == RTCM:
        number = rtcm_number(frame)
        return str(number) if number >= 0 else "RTCM3", frame
    read = nmea.parse(frame)
    return nmea.name_of(frame), frame if read is None else read.sentence


def decode(data: bytes) -> Iterator[tuple[str, Any]]:
    """Iterate over the messages of a recording, as in :func:`decode_frame`. Damage is skipped."""
    frames = framer()
    for at in range(0, len(data), 65_536):
        for protocol, frame in frames.feed(data[at : at + 65_536]):
            yield decode_frame(protocol, frame)
    for protocol, frame in frames.flush():
        yield decode_frame(protocol, frame)


def decode_nmea(data: bytes) -> Iterator[tuple[str, Any]]:
    """Iterate over the NMEA sentences of a recording, of any maker."""
    lines = Framer((PROTOCOLS[1],), limit=MAX_LINE_BYTES)
    for protocol, frame in (*lines.feed(data), *lines.flush()):
        yield decode_frame(protocol, frame)


# ---------------------------------------------------------------- bytes


def ubx_frame(key: bytes, payload: bytes = b"") -> bytes:
    """Return a UBX frame of class and id ``key``."""
    covered = key + len(payload).to_bytes(2, "little") + payload
    return UBX_SYNC + covered + fletcher8(covered)


def poll(name: str) -> bytes:
    """Return the poll request of the message ``name``. Raises KeyError for an undocumented name."""
    return ubx_frame(IDS[name])


def encode(message: Any) -> bytes:
    """Return the frame or line of a layout. Raises TypeError for other objects, struct.error or
    ValueError out of range."""
    match message:
        case CfgValset():
            return ubx_frame(IDS["CFG-VALSET"], keys.pack_valset(message))
        case CfgValget() | CfgValgetPoll():
            return ubx_frame(IDS["CFG-VALGET"], keys.pack_valget(message))
        case (
            Gga()
            | Gns()
            | Rmc()
            | Zda()
            | Gst()
            | Gsa()
            | Vtg()
            | Vel()
            | Tar()
            | Ths()
            | Hdt()
            | Hpr()
            | Pashr()
            | Avr()
        ):
            return nmea.pack(message)
    return ubx_frame(*ubx.pack(message))
