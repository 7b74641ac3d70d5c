"""Limit a number to a range, by comparisons: calls of ``min`` and ``max`` are dear in the hot
path."""


def clamp(value: float, low: float, high: float) -> float:
    """Return ``min(max(value, low), high)``, bit for bit: NaN stays NaN, and ``high`` wins if the
    limits cross."""
    if value < low:
        value = low
    return high if value > high else value
