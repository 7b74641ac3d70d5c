"""Conversions between the daemon's frames and units and MAVLink's. Pure.

The daemon has east, north, up and yaw counter-clockwise from east; MAVLink has north, east, down
and headings clockwise from north.
"""

from math import degrees, isfinite, nan, pi, remainder, tau

MOST_INT32, MOST_UINT16 = 2**31 - 1, 2**16 - 1
UNKNOWN_HEADING = MOST_UINT16


def heading_rad(yaw_rad: float) -> float:
    """Return the heading clockwise from north, -pi to pi, for a yaw counter-clockwise from east;
    and the reverse."""
    return remainder(pi / 2.0 - yaw_rad, tau) if isfinite(yaw_rad) else nan


def heading_cdeg(yaw_rad: float) -> int:
    """Return the heading in centidegrees, 0 to 35999; ``UNKNOWN_HEADING`` for a yaw that is not
    finite."""
    if not isfinite(yaw_rad):
        return UNKNOWN_HEADING
    return round(degrees(heading_rad(yaw_rad)) * 100.0) % 36000


def integer(
    value: float, factor: float, low: int = -MOST_INT32, high: int = MOST_INT32, unknown: int = 0
) -> int:
    """Return a scaled value as an integer within a range; ``unknown`` for one that is not
    finite."""
    return min(max(round(value * factor), low), high) if isfinite(value * factor) else unknown


def degrees_e7(angle_rad: float) -> int:
    """Return an angle in 1e-7 degrees; 0 for one that is not finite."""
    return integer(degrees(angle_rad), 1e7)


def chunks(text: str, size: int = 50) -> list[bytes]:
    """Return a text in parts of a STATUSTEXT, at most 10."""
    data = text.encode("ascii", "replace")[: 10 * size]
    return [data[at : at + size] for at in range(0, len(data), size)] or [b""]
