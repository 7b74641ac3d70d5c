"""Byte layouts of the UBX messages of :mod:`drivers.ublox.layouts`, in both directions.

Reserved bytes are skipped, and written as zero. Offsets and sources: NOTES.md.
"""

import struct
from collections.abc import Callable
from math import atan2, degrees, hypot
from typing import Any, NamedTuple

from drivers.ublox.layouts import (
    Ack,
    EsfAlg,
    EsfIns,
    EsfMeas,
    EsfSensor,
    EsfStatus,
    HnrAtt,
    HnrIns,
    HnrPvt,
    MonRf,
    MonVer,
    Nak,
    NavAtt,
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
    RxmCor,
    RxmRtcm,
    SecSig,
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
    "NAV-ATT": _Fixed(NavAtt, struct.Struct("<IB3x3i3I")),
    "HNR-ATT": _Fixed(HnrAtt, struct.Struct("<IB3x3i3I")),
    "HNR-PVT": _Fixed(HnrPvt, struct.Struct("<IH6Bi2B2x8i4I4x")),
    "HNR-INS": _Fixed(HnrIns, struct.Struct("<I4xI6i")),
    "ESF-INS": _Fixed(EsfIns, struct.Struct("<I4xI6i")),
    "ESF-ALG": _Fixed(EsfAlg, struct.Struct("<I3BxI2h")),
    "RXM-COR": _Fixed(RxmCor, struct.Struct("<2B2xI2H")),
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
_STATUS_HEAD = struct.Struct("<I3B5xB2xB")
_STATUS_SENSOR = struct.Struct("<4B")
_MEASURES_HEAD = struct.Struct("<I2H")
_TAG_FOLLOWS = 1 << 3
_SECURITY_1, _SECURITY_2 = struct.Struct("<B3xB3xB3x"), struct.Struct("<2BxB")
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
        version, station, itow_ms, north_cm, east_cm, down_cm, length_cm,
        round(degrees(atan2(east, north)) * 1e5) % 36_000_000, north_e1, east_e1, down_e1,
        length_e1, north_accuracy, east_accuracy, down_accuracy, max(north_accuracy, east_accuracy),
        min(round(degrees(across) * 1e5), 18_000_000),
        flags | (0x100 if flags & 0x04 and flat else 0),
    )  # fmt: skip


def _status(payload: bytes) -> EsfStatus:
    itow_ms, version, status1, status2, mode, count = _STATUS_HEAD.unpack_from(payload)
    if len(payload) != _STATUS_HEAD.size + count * _STATUS_SENSOR.size:
        raise ValueError("ESF-STATUS: sensors and length disagree")
    sensors = tuple(map(EsfSensor._make, _STATUS_SENSOR.iter_unpack(payload[_STATUS_HEAD.size :])))
    return EsfStatus(itow_ms, version, status1, status2, mode, sensors)


def _measures(payload: bytes) -> EsfMeas:
    tag_ms, flags, provider = _MEASURES_HEAD.unpack_from(payload)
    words = [word for (word,) in struct.iter_unpack("<I", payload[_MEASURES_HEAD.size :])]
    calibrated_ms = words.pop() if flags & _TAG_FOLLOWS and words else None
    # Receivers of generation 8 leave the number of measurements 0.
    if len(words) != flags >> 11 and flags >> 11:
        raise ValueError("ESF-MEAS: measurements and length disagree")
    data = tuple((word >> 24 & 0x3F, word & 0xFF_FFFF) for word in words)
    return EsfMeas(tag_ms, flags & 0x7FF, provider, data, calibrated_ms)


def _security(payload: bytes) -> SecSig:
    if len(payload) == _SECURITY_1.size and payload[0] == 1:
        version, jamming, spoofing = _SECURITY_1.unpack(payload)
        return SecSig(version, jamming >> 1 & 3, spoofing >> 1 & 7)
    version, flags, count = _SECURITY_2.unpack_from(payload)
    if version != 2 or len(payload) != _SECURITY_2.size + 4 * count:
        raise ValueError(f"SEC-SIG of version {version}, {len(payload)} bytes")
    frequencies = tuple(word for (word,) in struct.iter_unpack("<I", payload[_SECURITY_2.size :]))
    return SecSig(version, flags >> 1 & 3, flags >> 4 & 7, frequencies)


def _rf(payload: bytes) -> MonRf:
    version, count = _RF_HEAD.unpack_from(payload)
    if len(payload) != _RF_HEAD.size + count * _RF_BLOCK.size:
        raise ValueError("MON-RF: blocks and length disagree")
    return MonRf(
        version, tuple(map(RfBlock._make, _RF_BLOCK.iter_unpack(payload[_RF_HEAD.size :])))
    )


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
PARSERS[IDS["ESF-STATUS"]] = _status
PARSERS[IDS["ESF-MEAS"]] = _measures
PARSERS[IDS["SEC-SIG"]] = _security
PARSERS[IDS["MON-RF"]] = _rf
PARSERS[IDS["MON-VER"]] = _version

_KINDS: dict[type, tuple[bytes, struct.Struct]] = {
    fixed.kind: (IDS[name], fixed.layout) for name, fixed in _FIXED.items()
}


def pack(message: Any) -> tuple[bytes, bytes]:
    """Return class and id, and the payload, of a layout of this module. Raises TypeError for
    others, struct.error out of range."""
    if isinstance(message, NavRelposned) and message.version == 0:
        return IDS["NAV-RELPOSNED"], _RELPOSNED_0.pack(
            *message[:6], *message[8:11], *message[12:15], message.flags & 0xFF
        )
    found = _KINDS.get(type(message))
    if found is not None:
        return found[0], found[1].pack(*message)
    if isinstance(message, MonRf):
        blocks = b"".join(_RF_BLOCK.pack(*block) for block in message.blocks)
        return IDS["MON-RF"], _RF_HEAD.pack(message.version, len(message.blocks)) + blocks
    if isinstance(message, EsfStatus):
        head = _STATUS_HEAD.pack(*message[:5], len(message.sensors))
        return IDS["ESF-STATUS"], head + b"".join(
            _STATUS_SENSOR.pack(*sensor) for sensor in message.sensors
        )
    if isinstance(message, EsfMeas):
        flags = (
            message.flags & 0x7F7
            | len(message.data) << 11
            | _TAG_FOLLOWS * (message.calibrated_ms is not None)
        )
        words = [kind << 24 | value & 0xFF_FFFF for kind, value in message.data]
        words += [] if message.calibrated_ms is None else [message.calibrated_ms]
        head = _MEASURES_HEAD.pack(message.time_tag_ms, flags, message.provider)
        return IDS["ESF-MEAS"], head + b"".join(word.to_bytes(4, "little") for word in words)
    if isinstance(message, SecSig):
        if message.version == 1:
            return IDS["SEC-SIG"], _SECURITY_1.pack(
                1, message.jamming << 1 | 1, message.spoofing << 1 | 1
            )
        flags = 1 | message.jamming << 1 | 1 << 3 | message.spoofing << 4
        words = list(message.frequencies)
        return IDS["SEC-SIG"], _SECURITY_2.pack(2, flags, len(words)) + b"".join(
            word.to_bytes(4, "little") for word in words
        )
    if isinstance(message, MonVer):
        texts = [
            (message.software, 30),
            (message.hardware, 10),
            *((extension, 30) for extension in message.extensions),
        ]
        return IDS["MON-VER"], b"".join(
            text.encode("latin-1", "replace")[:width].ljust(width, b"\0") for text, width in texts
        )
    raise TypeError(f"{type(message).__name__} has no UBX layout")
