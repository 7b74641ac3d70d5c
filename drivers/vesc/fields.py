"""Scaled big-endian integers, as this wire has them everywhere: the smallest shared part of the codecs."""

from math import isfinite

_I16 = (-(2**15), 2**15 - 1)
_I32 = (-(2**31), 2**31 - 1)


def _scaled(value: float, scale: float, limits: tuple[int, int]) -> int:
    if not isfinite(value):
        return 0
    return min(limits[1], max(limits[0], round(value * scale)))


def i16(value: float, scale: float) -> int:
    """``value`` as a scaled 16-bit integer, cut to its range; 0 for what a device of this kind does not know."""
    return _scaled(value, scale, _I16)


def i32(value: float, scale: float) -> int:
    """``value`` as a scaled 32-bit integer, cut to its range; 0 for what a device of this kind does not know."""
    return _scaled(value, scale, _I32)


def setpoint(value: float, scale: float) -> int:
    """``value`` of a command as a scaled 32-bit integer. Raises ValueError when not finite: there is no safe number to send."""
    if not isfinite(value):
        raise ValueError(f"a set-point of {value} cannot be sent")
    return _scaled(value, scale, _I32)
