"""Courses of standards and publications: lane changes, slaloms, turns. Metres, m/s.

A vehicle starts at rest, so each has a straight run-up in which the entry speed is reached, and
where it ends under way a straight run-out; the ``markings`` of the course say where the manoeuvre
itself begins and ends, and what it is judged by. Lanes are as wide as the standard has it for a
vehicle of ``width_m``. The line is for the rear axle of a vehicle whose middle is ``centre_m``
ahead of it: it begins to turn aside that much earlier, so that the middle does it between the
lanes.
"""

from collections.abc import Callable
from dataclasses import replace
from math import atan2, isfinite, pi, sqrt, tan
from typing import NamedTuple

import numpy as np

from vehicled.core.arrays import Array, hypotenuse
from vehicled.paths.course import Course, course_from_waypoints
from vehicled.paths.errors import CourseError
from vehicled.paths.formulas import positive, smooth_step, steps
from vehicled.paths.markings import Lane, Markings

SPACING_M = 0.5
CAR_WIDTH_M, CAR_CENTRE_M = 1.8, 1.35
"""Default width and centre of an unknown vehicle."""
Triple = tuple[float, float, float]


def run_up(speed_mps: float, given_m: float | None) -> float:
    """Return the distance to reach a speed from standstill with 1.2 m/s2 and settle for a second;
    stopping needs the same."""
    if given_m is None:
        return speed_mps * speed_mps / 2.4 + speed_mps
    if not (isfinite(given_m) and given_m >= 0.0):
        raise CourseError(f"a run-up of {given_m:g} m; it must be 0 or more")
    return given_m


def _of_offsets(
    name: str,
    total_m: float,
    ramps: list[tuple[float, float, float]],
    speed_mps: float,
    run_m: tuple[float, float],
    lanes: list[tuple[str, float, float, float, float]],
    spacing_m: float = SPACING_M,
    boxes: bool = False,
) -> Course:
    """Return a course due east whose offset to the left changes over ``ramps`` (begin, end,
    change), with ``lanes`` (name, begin, length, middle, width); x counts from the end of the
    run-up."""
    before_m, after_m = run_m
    length_m = before_m + total_m + after_m
    x = np.linspace(0.0, length_m, steps(name, length_m, spacing_m, 8) + 1)
    y = np.zeros_like(x)
    for begin, end, change in ramps:
        y += change * smooth_step((x - before_m - begin) / (end - begin))
    course = course_from_waypoints(name, x, y, default_speed_mps=speed_mps, closed=False)
    inside = (x >= before_m) & (x <= before_m + total_m)
    from_m, to_m = (
        float(np.interp(at, course.x_m, course.s_m)) for at in (before_m, before_m + total_m)
    )
    markings = Markings(
        lanes=tuple(
            Lane(title, before_m + begin, middle, 0.0, length, width)
            for title, begin, length, middle, width in lanes
        ),
        boxes_m=tuple(zip(x[inside].tolist(), y[inside].tolist(), strict=True)) if boxes else (),
        from_m=from_m,
        to_m=to_m,
    )
    return replace(course, markings=markings)


class LaneChange(NamedTuple):
    """A double lane change of a standard at full size: three lanes, A, B and C, in m from the
    beginning of A."""

    speed_mps: float
    starts_m: tuple[float, float, float]
    lengths_m: tuple[float, float, float]
    total_m: float
    across_m: Callable[[float], tuple[Triple, Triple]]
    """Widths of the lanes for a vehicle of a width, and their middles, left of that of A."""


def _across_1(width_m: float) -> tuple[Triple, Triple]:
    """Widths 1.1, 1.2 and 1.3 w + 0.25; the offset of 3.5 m lies between the right edges of A and
    B."""
    a, b, c = (factor * width_m + 0.25 for factor in (1.1, 1.2, 1.3))
    return (a, b, c), (0.0, 3.5 + (b - a) / 2.0, (c - a) / 2.0)


def _across_2(width_m: float) -> tuple[Triple, Triple]:
    """Widths 1.1 w + 0.25, w + 1, and 3 m, or 1.3 w + 0.25 where that is more. B is 1 m left of A,
    edge to edge; C has the right edge of A."""
    a, b, c = 1.1 * width_m + 0.25, width_m + 1.0, max(3.0, 1.3 * width_m + 0.25)
    return (a, b, c), (0.0, a / 2.0 + 1.0 + b / 2.0, (c - a) / 2.0)


ISO_3888_1 = LaneChange(80.0 / 3.6, (0.0, 45.0, 95.0), (15.0, 25.0, 15.0), 125.0, _across_1)
"""Severe double lane change: lane A 15 m, 30 m to lane B of 25 m, 25 m to lane C of 15 m, 15 m on.
Entry at 80 km/h."""
ISO_3888_2 = LaneChange(15.0, (0.0, 25.5, 49.0), (12.0, 11.0, 12.0), 61.0, _across_2)
"""Obstacle avoidance: lane A 12 m, 13.5 m to lane B of 11 m, 12.5 m to lane C of 12 m; 61 m. The
standard has the throttle let go 2 m into lane A; here the speed is held as far as the profile's
limits allow, 15 m/s."""


def iso_3888(
    standard: LaneChange,
    speed_mps: float | None = None,
    width_m: float | None = None,
    centre_m: float | None = None,
    scale: float = 1.0,
    ease_m: float = 0.0,
    run_up_m: float | None = None,
    run_out_m: float | None = None,
    boxes: bool = False,
    *,
    name: str,
) -> Course:
    """Return a double lane change of ISO 3888 whose dimensions, except the vehicle's, are
    multiplied by ``scale``.

    The entry speed is that of the standard by the root of ``scale``: the same lateral acceleration.
    ``ease_m``: how far each change reaches into the lanes on both sides; milder bends for room in
    the lanes. Without a width and a middle, those of a car.
    """
    positive(name, scale=scale)
    speed = standard.speed_mps * sqrt(scale) if speed_mps is None else speed_mps
    width_m = CAR_WIDTH_M * scale if width_m is None else width_m
    centre_m = CAR_CENTRE_M * scale if centre_m is None else centre_m
    positive(name, speed_mps=speed, width_m=width_m)
    if not (isfinite(centre_m) and 0.0 <= centre_m <= 10.0):
        raise CourseError(
            f"{name}: centre_m is {centre_m:g}; the middle is 0 to 10 m ahead of the rear axle"
        )
    full_size = (standard.starts_m, standard.lengths_m, *standard.across_m(width_m / scale))
    starts, lengths, widths, middles = ([scale * value for value in values] for values in full_size)
    if not (isfinite(ease_m) and 0.0 <= ease_m <= min(lengths) / 2.0):
        raise CourseError(
            f"{name}: ease_m is {ease_m:g}; from 0 to half of the shortest lane, "
            f"{min(lengths) / 2.0:g} m"
        )
    ramps = []
    for k in (1, 2):
        begin = starts[k - 1] + lengths[k - 1] - ease_m - centre_m
        end = starts[k] + ease_m - centre_m
        ramps.append((begin, end, middles[k] - middles[k - 1]))
    lanes = list(zip("ABC", starts, lengths, middles, widths, strict=True))
    runs_m = run_up(speed, run_up_m), run_up(speed, run_out_m)
    return _of_offsets(
        name,
        scale * standard.total_m,
        ramps,
        speed,
        runs_m,
        lanes,
        min(SPACING_M, 0.5 * scale),
        boxes,
    )


def lane_change(
    ramp_m: float = 13.5,
    offset_m: float = 4.0,
    length_m: float = 11.0,
    run_m: float = 50.0,
    speed_mps: float = 10.0,
    *,
    name: str = "lane_change",
) -> Course:
    """Double lane change as Chrono generates it: ``run_m`` straight, over ``ramp_m`` to
    ``offset_m`` on the left, ``length_m`` there, back over ``ramp_m``, ``run_m`` straight; the runs
    are longer where the speed needs it."""
    positive(name, ramp_m=ramp_m, length_m=length_m, run_m=run_m, speed_mps=speed_mps)
    if not (isfinite(offset_m) and offset_m != 0.0):
        raise CourseError(
            f"{name}: offset_m is {offset_m:g}; how far aside the change goes, positive left"
        )
    ramps = [(0.0, ramp_m, offset_m), (ramp_m + length_m, 2.0 * ramp_m + length_m, -offset_m)]
    more_m = max(run_m, run_up(speed_mps, None))
    return _of_offsets(name, 2.0 * ramp_m + length_m, ramps, speed_mps, (more_m, more_m), [])


def slalom(
    spacing_m: float = 18.0,
    cones: int = 6,
    width_m: float | None = None,
    speed_mps: float = 8.0,
    run_up_m: float | None = None,
    run_out_m: float | None = None,
    *,
    name: str = "slalom",
) -> Course:
    """Cones in a row, the first passed on the left, then in turn: a sine that fades in and out,
    half a vehicle's width and a clearance of a sixth of that, 0.15 m at least, beside each cone.
    Judged by gates beside the cones."""
    width_m = 0.1 * spacing_m if width_m is None else width_m
    positive(name, spacing_m=spacing_m, cones=cones, width_m=width_m, speed_mps=speed_mps)
    clearance_m = max(width_m / 6.0, 0.15 * min(1.0, width_m))
    amplitude_m = 0.5 * width_m + 2.0 * clearance_m
    before_m, after_m = run_up(speed_mps, run_up_m), run_up(speed_mps, run_out_m)
    total_m = (cones + 1) * spacing_m
    length_m = before_m + total_m + after_m
    x = np.linspace(0.0, length_m, steps(name, length_m, min(SPACING_M, spacing_m / 32)) + 1)
    at = (x - before_m) / spacing_m
    fade = smooth_step(at / 0.9) * smooth_step((cones + 1 - at) / 0.9)
    y = amplitude_m * np.sin(pi * (at - 0.5)) * fade
    course = course_from_waypoints(name, x, y, default_speed_mps=speed_mps, closed=False)
    gate_m = 2.0 * (amplitude_m - 0.5 * clearance_m)
    lanes = tuple(
        Lane(
            f"gate {k}",
            before_m + k * spacing_m,
            (amplitude_m if k % 2 else -amplitude_m),
            0.0,
            0.02 * spacing_m,
            gate_m,
        )
        for k in range(1, cones + 1)
    )
    from_m, to_m = (
        float(np.interp(place, course.x_m, course.s_m)) for place in (before_m, before_m + total_m)
    )
    return replace(course, markings=Markings(lanes=lanes, from_m=from_m, to_m=to_m))


def turn(
    radius_m: float = 12.5,
    angle_deg: float = 90.0,
    clothoid_m: float = 10.0,
    straight_m: float = 30.0,
    speed_mps: float = 4.47,
    run_up_m: float | None = None,
    run_out_m: float | None = None,
    boxes: bool = False,
    *,
    name: str = "turn",
) -> Course:
    """Return a turn: straight, a left arc (right for a negative angle), straight, with a clothoid
    at both ends of the arc.

    ``boxes``: a waypoint box of 1 m every 0.5 m, from the first straight to the last.
    """
    positive(name, radius_m=radius_m, straight_m=straight_m, speed_mps=speed_mps)
    angle = abs(angle_deg) * pi / 180.0
    if not (isfinite(angle) and 0.0 <= clothoid_m < radius_m * angle):
        raise CourseError(
            f"{name}: clothoid_m = {clothoid_m:g} must be 0 or more, and shorter than the arc "
            "of radius_m and angle_deg"
        )
    # Two clothoids together turn as far as the arc would over one of their lengths.
    before_m, after_m = run_up(speed_mps, run_up_m), run_up(speed_mps, run_out_m)
    parts = [
        before_m + straight_m,
        clothoid_m,
        radius_m * angle - clothoid_m,
        clothoid_m,
        straight_m + after_m,
    ]
    sign = 1.0 if angle_deg >= 0.0 else -1.0
    bends = [
        (0.0, 0.0),
        (0.0, sign / radius_m),
        (sign / radius_m, sign / radius_m),
        (sign / radius_m, 0.0),
        (0.0, 0.0),
    ]
    points = clothoids(parts, bends, name=name)
    course = course_from_waypoints(
        name, points[:, 0], points[:, 1], default_speed_mps=speed_mps, closed=False
    )
    to_m = sum(parts) - after_m
    at = np.linspace(0.0, sum(parts), len(points))
    inside = points[(at >= before_m) & (at <= to_m)]
    marked = tuple((float(x), float(y)) for x, y in inside) if boxes else ()
    return replace(course, markings=Markings(boxes_m=marked, from_m=before_m, to_m=to_m))


def clothoids(
    lengths_m: list[float],
    bends: list[tuple[float, float]],
    spacing_m: float = SPACING_M,
    name: str = "clothoids",
) -> Array:
    """Return points (n, 2) evenly along a line from the origin, eastwards, of parts whose curvature
    changes linearly.

    Heading is exact; positions by the midpoint rule in steps of a fiftieth of the spacing.
    """
    ends = np.cumsum(lengths_m)
    total = float(ends[-1])
    n = steps(name, total, spacing_m, 8)
    s = np.linspace(0.0, total, 50 * n + 1)
    middle = 0.5 * (s[1:] + s[:-1])
    heading = np.zeros_like(middle)
    for end, length, (first, last) in zip(ends, lengths_m, bends, strict=True):
        if length > 0.0:
            done = np.clip(middle - (end - length), 0.0, length)
            heading += first * done + 0.5 * (last - first) * done * done / length
    step = s[1] - s[0]
    ways = np.column_stack((np.cos(heading), np.sin(heading))) * step
    return np.asarray(np.vstack((np.zeros((1, 2)), np.cumsum(ways, axis=0)))[::50])


def straight_run(
    length_m: float = 60.0,
    speed_mps: float = 10.0,
    run_up_m: float | None = None,
    run_out_m: float | None = None,
    boxes: bool = False,
    *,
    name: str = "straight_run",
) -> Course:
    """Return a straight driven at one speed, between a run-up and a run-out."""
    positive(name, length_m=length_m, speed_mps=speed_mps)
    runs_m = run_up(speed_mps, run_up_m), run_up(speed_mps, run_out_m)
    return _of_offsets(name, length_m, [], speed_mps, runs_m, [], boxes=boxes)


def polyline(
    points: list[tuple[float, float]], corner_m: float, speed_mps: float, *, closed: bool, name: str
) -> Course:
    """Return straight lines between points, their corners rounded with arcs of a radius."""
    positive(name, corner_radius_m=corner_m, speed_mps=speed_mps)
    corners = np.array(points, dtype=float)
    n = len(corners)
    rounded: list[Array] = []
    for k in range(n):
        if not closed and k in (0, n - 1):
            rounded.append(corners[k : k + 1])
            continue
        here, before, after = corners[k], corners[k - 1], corners[(k + 1) % n]
        into = (here - before) / hypotenuse(*(here - before))
        out = (after - here) / hypotenuse(*(after - here))
        angle = atan2(into[0] * out[1] - into[1] * out[0], into[0] * out[0] + into[1] * out[1])
        cut = corner_m * tan(abs(angle) / 2.0)
        if cut > 0.5 * min(hypotenuse(*(here - before)), hypotenuse(*(after - here))):
            raise CourseError(f"{name}: corner_radius_m is {corner_m:g}; too large for the sides")
        side = np.array([-into[1], into[0]]) * (1.0 if angle > 0 else -1.0)
        t = np.linspace(0.0, abs(angle), steps(name, corner_m * abs(angle), 0.1, 8))[:, None]
        rounded.append(here - cut * into + corner_m * (np.sin(t) * into + (1.0 - np.cos(t)) * side))
    dense = [rounded[0]]
    for part in [*rounded[1:], *([rounded[0][:1]] if closed else [])]:
        start = dense[-1][-1]
        count = steps(name, float(hypotenuse(*(part[0] - start))), 0.2, 2)
        dense.append(
            start + np.linspace(0.0, 1.0, count, endpoint=False)[1:, None] * (part[0] - start)
        )
        dense.append(part)
    line = np.vstack(dense[:-1] if closed else dense)
    return course_from_waypoints(
        name, line[:, 0], line[:, 1], default_speed_mps=speed_mps, closed=closed
    )


def rectangle(
    north_m: float = 45.0, east_m: float = 20.0, corner_radius_m: float = 3.0, *,
    speed_mps: float = 1.0, name: str = "rectangle",
) -> Course:  # fmt: skip
    """Return a rectangle from the middle of its south side, counter-clockwise; ``north_m``
    northwards, as driven at Madison."""
    positive(name, north_m=north_m, east_m=east_m)
    half = east_m / 2.0
    ring = [(half, 0.0), (half, north_m), (-half, north_m), (-half, 0.0)]
    course = polyline(ring, corner_radius_m, speed_mps, closed=True, name=name)
    # The ring begins at its first corner: begin it on the south side instead.
    x, y = course.x_m, course.y_m
    start = int(np.argmin(hypotenuse(x, y)))
    points = np.column_stack((np.roll(x, -start), np.roll(y, -start)))
    return course_from_waypoints(
        name, points[:, 0], points[:, 1], default_speed_mps=speed_mps, closed=True
    )


def u_turn(
    east_m: float = 37.0, north_m: float = 20.0, corner_radius_m: float = 3.0, *,
    speed_mps: float = 1.0, name: str = "u_shape",
) -> Course:  # fmt: skip
    """Return a U-turn: north, across to the east, back south."""
    positive(name, east_m=east_m, north_m=north_m)
    line = [(0.0, 0.0), (0.0, north_m), (east_m, north_m), (east_m, 0.0)]
    return polyline(line, corner_radius_m, speed_mps, closed=False, name=name)


def wave(
    amplitude_m: float = 1.5, wave_number_per_m: float = 0.5, from_m: float = -3.2,
    to_m: float = 3.2, phase_rad: float = 0.0, *, speed_mps: float = 1.0, name: str = "wave",
) -> Course:  # fmt: skip
    """y = amplitude sin(wave number x + phase) between two x: the sines driven in a room of 6 x 3
    m, the half-sine on grass."""
    positive(
        name,
        amplitude_m=amplitude_m,
        wave_number_per_m=wave_number_per_m,
        speed_mps=speed_mps,
        length_m=to_m - from_m,
    )
    x = np.linspace(from_m, to_m, steps(name, to_m - from_m) + 1)
    y = amplitude_m * np.sin(wave_number_per_m * x + phase_rad)
    return course_from_waypoints(name, x, y, default_speed_mps=speed_mps, closed=False)


def sine_square(speed_mps: float = 1.0, *, name: str = "lot17_sine_square") -> Course:
    """Return the lap of car park 17 as published: y = 2 sin(0.18 x) eastwards, 71 m north, an arch
    back, south.

    Its corners are corners; the lap that was driven, ``lot17``, has another far side.
    """
    positive(name, speed_mps=speed_mps)
    east = np.arange(0.0, 34.41, 0.2)
    north = np.arange(0.2, 70.9, 0.2)
    south = 2.0 * np.sin(0.18 * 34.4)
    first = np.column_stack((east, 2.0 * np.sin(0.18 * east)))
    second = np.column_stack((np.full(len(north), 34.4), north + south * (1.0 - north / 71.0)))
    third = np.column_stack((east[::-1], 73.0 - 2.0 * ((east[::-1] - 17.2) / 17.2) ** 2))
    fourth = np.column_stack((np.zeros(len(north)), north[::-1]))
    ring = np.vstack((first, second, third, fourth))
    return course_from_waypoints(
        name, ring[:, 0], ring[:, 1], default_speed_mps=speed_mps, closed=True
    )
