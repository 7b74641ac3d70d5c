"""Table look-up, the only functions that floats and arrays do not share. These are for floats, compiled or not."""

from bisect import bisect_right

from sim_backend.plant.double_track.constants import Table


def lookup(points: Table, values: Table, at: float) -> tuple[float, float]:
    """Return the value and slope of a piecewise linear curve; constant beyond its ends. ``points`` grow."""
    index = bisect_right(points, at)
    if index == 0:
        return values[0], 0.0
    if index == len(points):
        return values[index - 1], 0.0
    slope = (values[index] - values[index - 1]) / (points[index] - points[index - 1])
    return values[index - 1] + slope * (at - points[index - 1]), slope


def pick(values: Table, index: float) -> float:
    """Return the value at a whole-numbered index."""
    value: float = values[int(index)]
    return value
