"""Scaled big-endian integers, shared by the codecs of this driver."""

import struct
from collections.abc import Sequence
from math import isfinite
from typing import Any

Field = tuple[str, str, float]
"""Name, format and scale (0: integer); ``hhh`` is a tuple of three."""

_I16 = (-(2**15), 2**15 - 1)
_I32 = (-(2**31), 2**31 - 1)


def _scaled(value: float, scale: float, limits: tuple[int, int]) -> int:
    if not isfinite(value):
        return 0
    return min(limits[1], max(limits[0], round(value * scale)))


def i16(value: float, scale: float) -> int:
    """Return a scaled 16-bit integer, limited to its range; 0 if ``value`` is not finite."""
    return _scaled(value, scale, _I16)


def i32(value: float, scale: float) -> int:
    """Return a scaled 32-bit integer, limited to its range; 0 if ``value`` is not finite."""
    return _scaled(value, scale, _I32)


def setpoint(value: float, scale: float) -> int:
    """Return a command value as scaled 32-bit integer. Raises ValueError if not finite, because no
    number is safe to send."""
    if not isfinite(value):
        raise ValueError(f"a set-point of {value} cannot be sent")
    return _scaled(value, scale, _I32)


def layout_of(fields: Sequence[Field]) -> struct.Struct:
    """Return the layout of fields that follow one another."""
    return struct.Struct(">" + "".join(code for _, code, _ in fields))


def decode_fields(data: bytes, fields: Sequence[Field]) -> dict[str, Any] | None:
    """Return the values of fields that follow one another; None if ``data`` is too short for
    them."""
    layout = layout_of(fields)
    if len(data) < layout.size:
        return None
    numbers = iter(layout.unpack_from(data))
    found: dict[str, Any] = {}
    for name, code, scale in fields:
        if code == "hhh":
            found[name] = tuple(next(numbers) / scale for _ in code)
        else:
            found[name] = next(numbers) / scale if scale else next(numbers)
    return found


def encode_fields(message: object, fields: Sequence[Field]) -> bytes:
    """Return fields of a message as bytes."""
    return b"".join(_encode(getattr(message, name), code, scale) for name, code, scale in fields)


def _encode(value: Any, code: str, scale: float) -> bytes:
    if code == "hhh":
        return struct.pack(">hhh", *(i16(each, scale) for each in value))
    if code == "h":
        return struct.pack(">h", i16(value, scale))
    if code == "B":
        return struct.pack(">B", max(0, value) & 0xFF)
    return struct.pack(">i", i32(value, scale or 1.0))
