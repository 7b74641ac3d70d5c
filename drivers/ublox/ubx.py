"""Byte layouts of the UBX messages of :mod:`drivers.ublox.layouts`, in both directions.

Reserved bytes are skipped, and written as zero. Offsets and sources: NOTES.md.
"""

import struct
from collections.abc import Callable
from math import atan2, degrees, hypot
from typing import Any, NamedTuple

from drivers.ublox.layouts import (
    Ack,
    MonRf,
    MonVer,
    Nak,
    NavCov,
    NavDop,
    NavEoe,
    NavHpposllh,
    NavPvat,
    NavPvt,
    NavRelposned,
    NavStatus,
    NavSvin,
    NavTimels,
    RfBlock,
    RxmRtcm,
    TimTp,
)
from drivers.ublox.names import IDS

Parse = Callable[[bytes], Any]
"""Parser of a payload. Raises ValueError or struct.error if it does not fit."""


class _Fixed(NamedTuple):
    kind: Any
    layout: struct.Struct


_FIXED: dict[str, _Fixed] = {
    "NAV-PVT": _Fixed(NavPvt, struct.Struct("<IH6BIi4B4i2I5i2I2H4xihH")),
    "NAV-PVAT": _Fixed(NavPvat, struct.Struct("<I2BH5B3xIi4B4i2I4iI4i3Hh2H2I8x")),
    "NAV-HPPOSLLH": _Fixed(NavHpposllh, struct.Struct("<B2xBI4i4b2I")),
    "NAV-COV": _Fixed(NavCov, struct.Struct("<I3B9x12f")),
    "NAV-RELPOSNED": _Fixed(NavRelposned, struct.Struct("<BxHI5i4x4b5I4xI")),
    "NAV-DOP": _Fixed(NavDop, struct.Struct("<I7H")),
    "NAV-STATUS": _Fixed(NavStatus, struct.Struct("<I4B2I")),
    "NAV-TIMELS": _Fixed(NavTimels, struct.Struct("<IB3xBbBbi2H3xB")),
    "NAV-SVIN": _Fixed(NavSvin, struct.Struct("<B3x2I3i3bx2I2B2x")),
    "NAV-EOE": _Fixed(NavEoe, struct.Struct("<I")),
    "RXM-RTCM": _Fixed(RxmRtcm, struct.Struct("<2B3H")),
    "TIM-TP": _Fixed(TimTp, struct.Struct("<2IiH2B")),
    "ACK-ACK": _Fixed(Ack, struct.Struct("<2B")),
    "ACK-NAK": _Fixed(Nak, struct.Struct("<2B")),
}
_PVT = _FIXED["NAV-PVT"].layout
_PVT_SHORT = struct.Struct("<IH6BIi4B4i2I5i2I2H4x")
_RELPOSNED = _FIXED["NAV-RELPOSNED"].layout
_RELPOSNED_0 = struct.Struct("<BxHI3i3bx3II")
_RF_HEAD = struct.Struct("<2B2x")
_RF_BLOCK = struct.Struct("<4BI4x2HBbBbB3x")


def _fixed(fixed: _Fixed) -> Parse:
    unpack, make = fixed.layout.unpack, fixed.kind._make

    def parse(payload: bytes) -> Any:
        return make(unpack(payload))

    return parse


def _pvt(payload: bytes) -> NavPvt:
    # Generation 7 sent 84 bytes, without the last three fields.
    if len(payload) == _PVT_SHORT.size:
        return NavPvt(*_PVT_SHORT.unpack(payload))
    return NavPvt._make(_PVT.unpack(payload))


def _relposned(payload: bytes) -> NavRelposned:
    # Version 0, of the NEO-M8P, has another layout under the same number.
    if len(payload) == _RELPOSNED.size and payload[0] == 1:
        return NavRelposned._make(_RELPOSNED.unpack(payload))
    version, station, itow_ms, north_cm, east_cm, down_cm, *rest = _RELPOSNED_0.unpack(payload)
    if version != 0:
        raise ValueError(f"NAV-RELPOSNED of version {version}")
    north_e1, east_e1, down_e1, north_accuracy, east_accuracy, down_accuracy, flags = rest
    # In 0.1 mm. The error of the direction is that of the position across the vector.
    north, east, down = north_cm * 100 + north_e1, east_cm * 100 + east_e1, down_cm * 100 + down_e1
    flat = hypot(north, east)
    length_cm, length_e1 = divmod(round(hypot(flat, down)), 100)
    across = hypot(north_accuracy * east, east_accuracy * north) / flat**2 if flat else 1e3
    return NavRelposned(
        version, station, itow_ms, north_cm, east_cm, down_cm, length_cm, round(degrees(atan2(east, north)) * 1e5) % 36_000_000,
        north_e1, east_e1, down_e1, length_e1, north_accuracy, east_accuracy, down_accuracy, max(north_accuracy, east_accuracy),
        min(round(degrees(across) * 1e5), 18_000_000), flags | (0x100 if flags & 0x04 and flat else 0),
    )  # fmt: skip


def _rf(payload: bytes) -> MonRf:
    version, count = _RF_HEAD.unpack_from(payload)
    if len(payload) != _RF_HEAD.size + count * _RF_BLOCK.size:
        raise ValueError("MON-RF: blocks and length disagree")
    return MonRf(version, tuple(map(RfBlock._make, _RF_BLOCK.iter_unpack(payload[_RF_HEAD.size :]))))


def _text(field: bytes) -> str:
    return field.split(b"\0", 1)[0].decode("latin-1")


def _version(payload: bytes) -> MonVer:
    if len(payload) < 40 or (len(payload) - 40) % 30:
        raise ValueError("MON-VER: not made of 30 + 10 + n 30 bytes")
    extensions = tuple(_text(payload[at : at + 30]) for at in range(40, len(payload), 30))
    return MonVer(_text(payload[:30]), _text(payload[30:40]), extensions)


PARSERS: dict[bytes, Parse] = {IDS[name]: _fixed(fixed) for name, fixed in _FIXED.items()}
"""Payload parsers by class and id. :mod:`drivers.ublox.codec` adds CFG-VALSET and CFG-VALGET."""
PARSERS[IDS["NAV-PVT"]] = _pvt
PARSERS[IDS["NAV-RELPOSNED"]] = _relposned
PARSERS[IDS["MON-RF"]] = _rf
PARSERS[IDS["MON-VER"]] = _version

_KINDS: dict[type, tuple[bytes, struct.Struct]] = {fixed.kind: (IDS[name], fixed.layout) for name, fixed in _FIXED.items()}


def pack(message: Any) -> tuple[bytes, bytes]:
    """Return class and id, and the payload, of a layout of this module. Raises TypeError for others, struct.error out of range."""
    found = _KINDS.get(type(message))
    if found is not None:
        return found[0], found[1].pack(*message)
    if isinstance(message, MonRf):
        blocks = b"".join(_RF_BLOCK.pack(*block) for block in message.blocks)
        return IDS["MON-RF"], _RF_HEAD.pack(message.version, len(message.blocks)) + blocks
    if isinstance(message, MonVer):
        texts = [(message.software, 30), (message.hardware, 10), *((extension, 30) for extension in message.extensions)]
        return IDS["MON-VER"], b"".join(text.encode("latin-1", "replace")[:width].ljust(width, b"\0") for text, width in texts)
    raise TypeError(f"{type(message).__name__} has no UBX layout")
