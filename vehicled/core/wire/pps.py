"""Pulses per second between a port and its driver, as frames in both directions.

The port sends the stamps of the kernel (``PulseStamps``) after each edge. The driver sends a
``RefclockSample`` for chrony or ntpd, and the port answers with the errors of handing it over
(``RefclockErrors``). Layout of a frame: ``PPS``, its kind, little-endian fields, CRC-16.
"""

from struct import Struct as Layout
from typing import NamedTuple

from vehicled.core.wire.crc import crc16_xmodem
from vehicled.core.wire.framing import FixedFrame, FrameCheck, Protocol


class PulseStamps(NamedTuple):
    """Newest edges of a source of pulses, on the clock of the computer."""

    assert_sequence: int
    """Number of assert edges since the source was opened; 0 before the first."""
    assert_ns: int
    """Time of the newest assert edge, ns since 1970."""
    clear_sequence: int
    clear_ns: int
    read_ns: int
    """Time at which the port read them, by the same clock."""


class RefclockSample(NamedTuple):
    """One measurement of the computer's clock for chrony or ntpd."""

    clock_ns: int
    """Time of the pulse by the clock of the computer, ns since 1970."""
    utc_ns: int
    """UTC of the pulse."""
    precision: int
    """Binary logarithm of its error in seconds."""


class RefclockErrors(NamedTuple):
    """Error numbers of the kernel by output; 0 without an error or without this output."""

    shm: int
    sock: int


PulseRecord = PulseStamps | RefclockSample | RefclockErrors

_LAYOUTS: dict[type[PulseRecord], tuple[bytes, Layout]] = {
    PulseStamps: (b"PPSP", Layout("<IqIqq")),
    RefclockSample: (b"PPSS", Layout("<qqb")),
    RefclockErrors: (b"PPSE", Layout("<HH")),
}
_KINDS = {sync: kind for kind, (sync, _) in _LAYOUTS.items()}
_CRC_BYTES = 2
_CHECK = FrameCheck(crc16_xmodem, tail=_CRC_BYTES, stored=-_CRC_BYTES, size=_CRC_BYTES)
PROTOCOLS = tuple(
    Protocol(kind.__name__, sync, FixedFrame(_CHECK, len(sync) + layout.size + _CRC_BYTES))
    for kind, (sync, layout) in _LAYOUTS.items()
)
LONGEST_BYTES = max(len(sync) + layout.size + _CRC_BYTES for sync, layout in _LAYOUTS.values())


def encode(record: PulseRecord) -> bytes:
    """Return the frame of a record."""
    sync, layout = _LAYOUTS[type(record)]
    body = sync + layout.pack(*record)
    return body + crc16_xmodem(body).to_bytes(_CRC_BYTES, "big")


def parse(frame: bytes) -> PulseRecord:
    """Return the content of a valid frame."""
    kind = _KINDS[frame[:4]]
    fields = _LAYOUTS[kind][1].unpack_from(frame, 4)
    return kind(*fields)
