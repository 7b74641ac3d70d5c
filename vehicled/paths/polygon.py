"""Polygons in the ``map`` plane: a ring of corners in metres, the last joined to the first.
Pure."""

from collections.abc import Sequence

PlanePoint = tuple[float, float]


def encloses(corners: Sequence[PlanePoint], x_m: float, y_m: float) -> bool:
    """True if a point lies inside, by the even-odd rule: a ring may be concave, and may cross
    itself."""
    inside = False
    x1, y1 = corners[-1]
    for x2, y2 in corners:
        if (y1 > y_m) != (y2 > y_m) and x_m < x1 + (y_m - y1) * (x2 - x1) / (y2 - y1):
            inside = not inside
        x1, y1 = x2, y2
    return inside
