"""Shortest paths between two poses for a vehicle that drives both ways with a smallest turning
radius (Reeds and Shepp 1990)."""

from collections.abc import Callable, Iterator
from math import acos, asin, atan2, cos, hypot, pi, remainder, sin, sqrt, tau

Word = tuple[tuple[float, float], ...]
"""Curvature (in 1/radius: -1, 0 or 1) and length (in radii, negative in reverse) of each
segment."""
_Lengths = tuple[float, ...] | None
_LEFT, _STRAIGHT, _RIGHT = 1.0, 0.0, -1.0
_ROUNDING = 1e-9


def reeds_shepp_words(x: float, y: float, yaw_rad: float) -> list[Word]:
    """Return the paths that exist from the origin to a pose given in radii, the shortest first."""
    found = [
        tuple((turn, length) for turn, length in zip(turns, lengths, strict=True) if length != 0.0)
        for turns, lengths in _all(x, y, yaw_rad)
    ]
    return sorted(found, key=lambda word: sum(abs(length) for _, length in word))


def _all(x: float, y: float, yaw: float) -> Iterator[tuple[tuple[float, ...], tuple[float, ...]]]:
    """Yield turns and lengths of the words; section 8 of the paper, with its symmetries."""
    c, s = cos(yaw), sin(yaw)
    # The path of the reversed order of segments leads to this pose.
    back = x * c + y * s, x * s - y * c
    for turns, formula, reversed_order in _FORMULAS:
        px, py = back if reversed_order else (x, y)
        for flip, mirror in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
            lengths = formula(flip * px, mirror * py, flip * mirror * yaw)
            if lengths is None:
                continue
            order = slice(None, None, -1 if reversed_order else 1)
            yield (
                tuple(mirror * turn for turn in turns[order]),
                tuple(flip * length for length in lengths[order]),
            )


def _wrapped(angle: float) -> float:
    return remainder(angle, tau)


def _lsl(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x - sin(yaw), y - 1.0 + cos(yaw)
    first = atan2(py, px)
    last = _wrapped(yaw - first)
    return (first, hypot(px, py), last) if _forward(first, last) else None


def _lsr(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x + sin(yaw), y - 1.0 - cos(yaw)
    square = px * px + py * py - 4.0
    if square < 0.0:
        return None
    straight = sqrt(square)
    first = _wrapped(atan2(py, px) + atan2(2.0, straight))
    last = _wrapped(first - yaw)
    return (first, straight, last) if _forward(first, last) else None


def _lrl(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x - sin(yaw), y - 1.0 + cos(yaw)
    distance = hypot(px, py)
    if distance > 4.0:
        return None
    middle = -2.0 * asin(0.25 * distance)
    first = _wrapped(atan2(py, px) + 0.5 * middle + pi)
    last = _wrapped(yaw - first + middle)
    return (first, middle, last) if _forward(first) else None


def _lrlr_outward(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x + sin(yaw), y - 1.0 - cos(yaw)
    cosine = 0.25 * (2.0 + hypot(px, py))
    if cosine > 1.0:
        return None
    middle = acos(cosine)
    first, last = _outer(middle, -middle, px, py, yaw)
    return (first, middle, -middle, last) if _forward(first, -last) else None


def _lrlr_inward(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x + sin(yaw), y - 1.0 - cos(yaw)
    cosine = (20.0 - px * px - py * py) / 16.0
    if not 0.0 <= cosine <= 1.0:
        return None
    middle = -acos(cosine)
    first, last = _outer(middle, middle, px, py, yaw)
    return (first, middle, middle, last) if _forward(first, last) else None


def _lrsl(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x - sin(yaw), y - 1.0 + cos(yaw)
    distance = hypot(px, py)
    if distance < 2.0:
        return None
    root = sqrt(distance * distance - 4.0)
    straight = 2.0 - root
    first = _wrapped(atan2(py, px) + atan2(root, -2.0))
    last = _wrapped(yaw - 0.5 * pi - first)
    return (first, -0.5 * pi, straight, last) if _forward(first, -straight, -last) else None


def _lrsr(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x + sin(yaw), y - 1.0 - cos(yaw)
    distance = hypot(px, py)
    if distance < 2.0:
        return None
    first = atan2(px, -py)
    straight = 2.0 - distance
    last = _wrapped(first + 0.5 * pi - yaw)
    return (first, -0.5 * pi, straight, last) if _forward(first, -straight, -last) else None


def _lrslr(x: float, y: float, yaw: float) -> _Lengths:
    px, py = x + sin(yaw), y - 1.0 - cos(yaw)
    distance = hypot(px, py)
    if distance < 2.0:
        return None
    straight = 4.0 - sqrt(distance * distance - 4.0)
    first = _wrapped(atan2((4.0 - straight) * px - 2.0 * py, -2.0 * px + (straight - 4.0) * py))
    last = _wrapped(first - yaw)
    if not _forward(first, last, -straight):
        return None
    return first, -0.5 * pi, straight, -0.5 * pi, last


def _outer(u: float, v: float, px: float, py: float, yaw: float) -> tuple[float, float]:
    """Return the first and the last turn around two middle ones."""
    delta = _wrapped(u - v)
    a, b = sin(u) - sin(delta), cos(u) - cos(delta) - 1.0
    angle = atan2(py * a - px * b, px * a + py * b)
    if 2.0 * (cos(delta) - cos(v) - cos(u)) + 3.0 < 0.0:
        angle += pi
    first = _wrapped(angle)
    return first, _wrapped(first - u + v - yaw)


def _forward(*lengths: float) -> bool:
    return all(length >= -_ROUNDING for length in lengths)


_FORMULAS: tuple[tuple[tuple[float, ...], Callable[[float, float, float], _Lengths], bool], ...] = (
    ((_LEFT, _STRAIGHT, _LEFT), _lsl, False),
    ((_LEFT, _STRAIGHT, _RIGHT), _lsr, False),
    ((_LEFT, _RIGHT, _LEFT), _lrl, False),
    ((_LEFT, _RIGHT, _LEFT), _lrl, True),
    ((_LEFT, _RIGHT, _LEFT, _RIGHT), _lrlr_outward, False),
    ((_LEFT, _RIGHT, _LEFT, _RIGHT), _lrlr_inward, False),
    ((_LEFT, _RIGHT, _STRAIGHT, _LEFT), _lrsl, False),
    ((_LEFT, _RIGHT, _STRAIGHT, _RIGHT), _lrsr, False),
    ((_LEFT, _RIGHT, _STRAIGHT, _LEFT), _lrsl, True),
    ((_LEFT, _RIGHT, _STRAIGHT, _RIGHT), _lrsr, True),
    ((_LEFT, _RIGHT, _STRAIGHT, _LEFT, _RIGHT), _lrslr, False),
)
