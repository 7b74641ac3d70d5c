"""Codec of the RTCM 3 transport: frames in a byte stream, message names, and the base station's
position.

The observations pass unread to the receiver. Sources: NOTES.md.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from vehicled.core.wire.crc import CRC24Q_WEIGHT, crc24q
from vehicled.core.wire.framing import CountedFrame, FrameCheck, PayloadReader, Protocol

SYNC: Final = b"\xd3"
HEAD_BYTES: Final = 3
OVERHEAD_BYTES: Final = 6
MAX_PAYLOAD_BYTES: Final = 1023
MAX_FRAME_BYTES: Final = MAX_PAYLOAD_BYTES + OVERHEAD_BYTES


RTCM3: Final = Protocol(
    "RTCM3",
    SYNC,
    CountedFrame(
        FrameCheck(crc24q, CRC24Q_WEIGHT),
        at=1,
        width=2,
        order="big",
        extra=OVERHEAD_BYTES,
        most=MAX_PAYLOAD_BYTES,
    ),
)
"""Protocol for a ``Framer`` on a port shared with other protocols.

The six reserved bits before the length are zero in every edition of the standard; requiring that
rejects most false starts.
"""


class FrameReader(PayloadReader):
    """Reader of complete frames."""

    def __init__(self) -> None:
        super().__init__([RTCM3], MAX_FRAME_BYTES, lambda _, frame: frame)


def encode(payload: bytes) -> bytes:
    """Return a message as a frame. Raises ValueError beyond ``MAX_PAYLOAD_BYTES``."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"an RTCM message of {len(payload)} bytes does not fit a frame "
            f"({MAX_PAYLOAD_BYTES} bytes)"
        )
    covered = SYNC + len(payload).to_bytes(2, "big") + payload
    return covered + crc24q(covered).to_bytes(3, "big")


def message_type(frame: bytes) -> int:
    """Return DF002 of a frame; 0 for a filler frame."""
    return frame[3] << 4 | frame[4] >> 4 if len(frame) >= OVERHEAD_BYTES + 2 else 0


_NAMES: Final = {
    0: "filler",
    63: "BeiDou ephemeris (draft)",
    1001: "GPS L1 observations",
    1002: "GPS L1 observations, extended",
    1003: "GPS L1/L2 observations",
    1004: "GPS L1/L2 observations, extended",
    1005: "station position",
    1006: "station position and antenna height",
    1007: "antenna",
    1008: "antenna and serial number",
    1009: "GLONASS L1 observations",
    1010: "GLONASS L1 observations, extended",
    1011: "GLONASS L1/L2 observations",
    1012: "GLONASS L1/L2 observations, extended",
    1013: "system parameters",
    1019: "GPS ephemeris",
    1020: "GLONASS ephemeris",
    1029: "text",
    1030: "GPS network residuals",
    1031: "GLONASS network residuals",
    1032: "physical station position",
    1033: "receiver and antenna",
    1041: "NavIC ephemeris",
    1042: "BeiDou ephemeris",
    1043: "SBAS ephemeris",
    1044: "QZSS ephemeris",
    1045: "Galileo F/NAV ephemeris",
    1046: "Galileo I/NAV ephemeris",
    1230: "GLONASS code-phase biases",
    4072: "u-blox proprietary",
    4094: "Trimble proprietary",
    4095: "Ashtech proprietary",
}
_MSM: Final = ("GPS", "GLONASS", "Galileo", "SBAS", "QZSS", "BeiDou", "NavIC")


def _is_msm(kind: int) -> bool:
    return 1071 <= kind <= 1137 and 1 <= kind % 10 <= 7


def name_of(kind: int) -> str:
    """Return the content of a message type in words; "unknown" for unassigned numbers."""
    if _is_msm(kind):
        return f"{_MSM[(kind - 1071) // 10]} MSM{kind % 10}"
    if 1057 <= kind <= 1068:
        return "state space corrections"
    return _NAMES.get(kind) or ("proprietary" if 4001 <= kind <= 4095 else "unknown")


def station_of(frame: bytes) -> int | None:
    """Return DF003, the station number of an observation or station message; None for other
    types."""
    kind = message_type(frame)
    if (
        not (1001 <= kind <= 1013 or kind in {1030, 1031, 1032, 1033, 1230} or _is_msm(kind))
        or len(frame) < OVERHEAD_BYTES + 3
    ):
        return None
    return (frame[4] & 0x0F) << 8 | frame[5]


class Station(Struct, frozen=True, gc=False):
    """Base station from messages 1005 and 1006: antenna reference point, ECEF in the frame of the
    network, m."""

    number: int
    x_m: float
    y_m: float
    z_m: float
    antenna_height_m: float = float("nan")
    """Height of the antenna above the marker, m; NaN in 1005."""
    virtual: bool = False
    """DF141: true for a virtual station, computed by a network for a place near the rover."""


_1005_BITS: Final = 152
_SHIFT_Z: Final = 0
_SHIFT_Y: Final = 40
_SHIFT_X: Final = 80


def _signed38(value: int) -> float:
    value &= (1 << 38) - 1
    return (value - (1 << 38) if value >> 37 else value) / 1e4


STATION_TYPES: Final = {1005: 19, 1006: 21}
"""Octets of the messages with the position of a station."""


def decode_station(frame: bytes) -> Station | None:
    """Return the station of a 1005 or 1006 frame; None for other types, or if it is too short."""
    kind = message_type(frame)
    needed = STATION_TYPES.get(kind)
    if needed is None or len(frame) < OVERHEAD_BYTES + needed:
        return None
    bits = int.from_bytes(frame[HEAD_BYTES : HEAD_BYTES + 19], "big")
    return Station(
        number=bits >> (_1005_BITS - 24) & 0xFFF,
        x_m=_signed38(bits >> _SHIFT_X),
        y_m=_signed38(bits >> _SHIFT_Y),
        z_m=_signed38(bits >> _SHIFT_Z),
        antenna_height_m=int.from_bytes(frame[22:24], "big") / 1e4
        if kind == 1006
        else float("nan"),
        virtual=bool(bits >> (_1005_BITS - 34) & 1),
    )


class Content(Struct, frozen=True, gc=False):
    """One message of a recording, with unread observations."""

    name: str
    station: int | None
    octets: int
    frame: bytes


def decode(data: bytes) -> Iterator[tuple[str, Content | Station]]:
    """Iterate over a recording as (message number or ``RTCM3`` for a filler, content); station
    positions are decoded."""
    reader = FrameReader()
    for frame in (*reader.feed(data), *reader.flush()):
        kind = message_type(frame)
        content = Content(name_of(kind), station_of(frame), len(frame), frame)
        yield str(kind) if kind else "RTCM3", decode_station(frame) or content
