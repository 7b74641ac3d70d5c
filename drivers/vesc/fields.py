"""Scaled big-endian integers, shared by the codecs of this driver."""

from math import isfinite

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
    """Return a command value as scaled 32-bit integer. Raises ValueError if not finite, because no number is safe to send."""
    if not isfinite(value):
        raise ValueError(f"a set-point of {value} cannot be sent")
    return _scaled(value, scale, _I32)
