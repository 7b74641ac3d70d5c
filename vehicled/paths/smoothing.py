"""Geometry of sampled lines: turns, corners, cubic resampling, headings, curvature. Arrays of
points are (n, 2) in m."""

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from vehicled.core.arrays import Array, arctan2, hypotenuse, wrapped

# A waypoint at which the line turns by more than this is a corner, whatever the spacing.
CORNER_TURN_RAD = 0.6
# Largest distance of a cubic from the drawn legs; beyond it sparse waypoints are taken as straight
# legs.
MAX_DEPARTURE_M = 0.15
# A leg so much longer than its neighbour, that a cubic would leave by more than this, is a
# straight: the neighbour bends.
STRAIGHT_RATIO = 4.0
STRAIGHT_DEPARTURE_M = 0.01


def turns(points: Array) -> Array:
    """Return the change of direction (n-2,) in rad at each inner point, left positive."""
    legs = np.diff(points, axis=0)
    return wrapped(np.diff(arctan2(legs[:, 1], legs[:, 0])))


def corners(points: Array, closed: bool) -> npt.NDArray[np.bool_]:
    """Return a mask (n,) of the points that keep a corner. The ends of an open line keep none."""
    ring = np.vstack((points[-1:], points, points[:1])) if closed else points
    turn = np.abs(turns(ring))
    legs = hypotenuse(*np.diff(ring, axis=0).T)
    # A cubic whose end tangents are off the chord by a and b leaves it by at most 4/27 (a + b) of
    # its length; a = turn / 2.
    departure = np.maximum(legs[1:], legs[:-1]) * turn * (4.0 / 27.0)
    sharp = (turn > CORNER_TURN_RAD) | (departure > MAX_DEPARTURE_M)
    if closed:
        return np.asarray(sharp)
    return np.concatenate(([False], sharp, [False]))


def resample(points: Array, closed: bool, spacing_m: float) -> tuple[Array, Array]:
    """Return even samples (m, 2) along the line, and for each its fractional waypoint index (m,).

    Corners are samples; between two corners the step is the same throughout and as near to
    ``spacing_m`` as fits. A closed line starts at point 0 and does not repeat it.
    """
    ring = np.vstack((points, points[:1])) if closed else points
    sharp = corners(points, closed)
    # A lap without a corner at its start runs smoothly through it, so its first tangent sees the
    # last leg.
    through_start = closed and not sharp[0]
    cuts = [0, *(np.flatnonzero(sharp[1:]) + 1).tolist(), len(ring) - 1]
    tangents_in, tangents_out = _tangents(ring, sharp, through_start)
    samples, knots = [], []
    for first, last in pairwise(cuts):
        if first == last:
            continue
        piece, piece_knots = _resample_piece(
            ring, tangents_out, tangents_in, first, last, spacing_m
        )
        samples.append(piece)
        knots.append(piece_knots)
    if not closed:
        samples.append(ring[-1:])
        knots.append(np.array([len(ring) - 1.0]))
    return np.vstack(samples), np.concatenate(knots)


def _tangents(
    ring: Array, sharp: npt.NDArray[np.bool_], through_start: bool
) -> tuple[Array, Array]:
    """Return the unit tangents (n, 2) arriving at and leaving each point of ``ring``; they differ
    at corners only."""
    legs = np.diff(ring, axis=0)
    lengths = hypotenuse(legs[:, 0], legs[:, 1])
    units = legs / lengths[:, None]
    if through_start:
        before, after = np.vstack((units[-1:], units)), np.vstack((units, units[:1]))
        length_before = np.append(lengths[-1], lengths)
        length_after = np.append(lengths, lengths[0])
    else:
        before, after = np.vstack((units[:1], units)), np.vstack((units, units[-1:]))
        length_before = np.append(lengths[0], lengths)
        length_after = np.append(lengths, lengths[-1])
    # Tangent of the parabola through three points in chord length: the circle's, to second order,
    # at any spacing.
    total = (length_before + length_after)[:, None]
    smooth = (length_after[:, None] * before + length_before[:, None] * after) / total
    bulge = hypotenuse(*(after - before).T) * np.maximum(length_before, length_after) * (4.0 / 27.0)
    straight_before = (length_before > STRAIGHT_RATIO * length_after) & (
        bulge > STRAIGHT_DEPARTURE_M
    )
    straight_after = (length_after > STRAIGHT_RATIO * length_before) & (
        bulge > STRAIGHT_DEPARTURE_M
    )
    smooth[straight_before] = before[straight_before]
    smooth[straight_after] = after[straight_after]
    norm = hypotenuse(smooth[:, 0], smooth[:, 1])
    keeps = np.zeros(len(ring), dtype=bool)
    keeps[: len(sharp)] = sharp
    if len(ring) > len(sharp):
        keeps[-1] = sharp[0]
    keeps |= norm < 1e-9
    smooth = smooth / np.where(norm < 1e-9, 1.0, norm)[:, None]
    arriving, leaving = smooth.copy(), smooth
    arriving[keeps], leaving[keeps] = before[keeps], after[keeps]
    if not through_start:
        # The line beyond an end is unknown: let the curvature go to zero there only if the line is
        # straight.
        leaving[0] = _end_tangent(units[0], lengths[0], leaving_next=smooth[1], straight=keeps[1])
        arriving[-1] = _end_tangent(
            units[-1], lengths[-1], leaving_next=arriving[-2], straight=keeps[-2]
        )
    return arriving, leaving


def _end_tangent(unit: Array, length: float, *, leaving_next: Array, straight: bool) -> Array:
    """Return the tangent at an open end: mirrored at the chord, so that the end leg is an arc like
    its neighbour."""
    if straight or length <= 0.0:
        return unit
    mirrored = 2.0 * float(np.sum(unit * leaving_next)) * unit - leaving_next
    return np.asarray(mirrored)


def _resample_piece(
    ring: Array, leaving: Array, arriving: Array, first: int, last: int, spacing_m: float
) -> tuple[Array, Array]:
    """Return the samples from point ``first`` up to, not including, point ``last``, evenly spaced
    along the cubic."""
    count = last - first
    lengths = hypotenuse(*np.diff(ring[first : last + 1], axis=0).T)
    # Fine enough that arc length, and with it the even step, is good to a few parts in ten
    # thousand.
    fine = np.maximum(4, np.minimum(400, np.ceil(8.0 * lengths / spacing_m))).astype(int)
    knots = np.concatenate(
        [k + np.arange(n) / n for k, n in enumerate(fine.tolist())] + [np.array([float(count)])]
    )
    dense = _cubic(ring, leaving, arriving, first, last, knots)
    arc = np.concatenate(([0.0], np.cumsum(hypotenuse(*np.diff(dense, axis=0).T))))
    steps = max(1, round(float(arc[-1]) / spacing_m))
    wanted = np.arange(steps) * (arc[-1] / steps)
    even = np.interp(wanted, arc, knots)
    return _cubic(ring, leaving, arriving, first, last, even), even + first


def _cubic(
    ring: Array, leaving: Array, arriving: Array, first: int, last: int, knots: Array
) -> Array:
    """Return the Hermite cubic at fractional indices ``knots`` counted from ``first``."""
    index = np.minimum(knots.astype(int), last - first - 1) + first
    u = (knots - (index - first))[:, None]
    p0, p1 = ring[index], ring[index + 1]
    chord = hypotenuse(*(p1 - p0).T)[:, None]
    u2, u3 = u * u, u * u * u
    return np.asarray(
        (2 * u3 - 3 * u2 + 1) * p0
        + (u3 - 2 * u2 + u) * chord * leaving[index]
        + (3 * u2 - 2 * u3) * p1
        + (u3 - u2) * chord * arriving[index + 1]
    )


def headings(ring: Array, closed: bool) -> Array:
    """Return the unwrapped tangent (n,) of samples; a closed ``ring`` repeats its first point at
    the end.

    Ends, and the join of a lap that ends in a corner, take the direction of their own leg: a run
    departs along its first leg.
    """
    legs = np.diff(ring, axis=0)
    lengths = hypotenuse(legs[:, 0], legs[:, 1])
    direction = np.unwrap(arctan2(legs[:, 1], legs[:, 0]))
    inner = (direction[:-1] * lengths[1:] + direction[1:] * lengths[:-1]) / (
        lengths[1:] + lengths[:-1]
    )
    if len(direction) == 1:
        return np.array([direction[0], direction[0]])
    bend_out = 0.5 * (direction[1] - direction[0]) * lengths[0] / (0.5 * (lengths[0] + lengths[1]))
    bend_in = (
        0.5 * (direction[-1] - direction[-2]) * lengths[-1] / (0.5 * (lengths[-1] + lengths[-2]))
    )
    start = direction[0] - (bend_out if abs(bend_out) < CORNER_TURN_RAD / 2 else 0.0)
    end = direction[-1] + (bend_in if abs(bend_in) < CORNER_TURN_RAD / 2 else 0.0)
    if closed:
        turn = float(wrapped(np.array([direction[0] - direction[-1]]))[0])
        if abs(turn) < CORNER_TURN_RAD / 2:
            weight = lengths[0] / (lengths[0] + lengths[-1])
            start, end = direction[0] - turn * weight, direction[-1] + turn * (1.0 - weight)
        else:
            end = start + 2.0 * np.pi * np.round((direction[-1] + turn - start) / (2.0 * np.pi))
    return np.concatenate(([start], inner, [end]))


def curvatures(yaw: Array, s: Array, closed: bool) -> Array:
    """Return the change of heading per metre (n,) over the two neighbouring steps; one-sided at the
    ends of an open line."""
    curvature = np.gradient(yaw, s) if len(yaw) > 2 else np.diff(yaw, append=yaw[-1]) / s[-1]
    if closed and abs(yaw[-1] - yaw[-2]) < CORNER_TURN_RAD / 2:
        # The join belongs to both ends: the last step of the lap precedes the first. A corner there
        # belongs to the end alone, or a vehicle waiting at the start would get a command to turn.
        turn = (yaw[1] - yaw[0]) + (yaw[-1] - yaw[-2])
        curvature[0] = curvature[-1] = turn / (s[-1] - s[-2] + s[1])
    return np.asarray(curvature)
