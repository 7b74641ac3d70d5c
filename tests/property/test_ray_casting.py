"""Rays against exact arithmetic: segments in rationals, circles in fifty digits, grids as boxes;
and no gap between two walls."""

from decimal import Decimal, localcontext
from fractions import Fraction
from math import atan2, inf, isfinite, pi

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from sim_backend.scene.occupancy import Occupancy
from sim_backend.scene.rays import Rays
from sim_backend.scene.scene import Scene
from sim_backend.scene.shapes import Bodies

REACH_M = 40.0
GRAZING_M = 1e-9
# Halves meet corners, lie on lines and coincide; the others are anywhere.
# Rounded: a wall 1e-144 m away is neither met nor missed.
coordinates = st.one_of(
    st.integers(-20, 20).map(lambda n: 0.5 * n), st.floats(-15.0, 15.0).map(lambda x: round(x, 9))
)
points = st.tuples(coordinates, coordinates)
bearings = st.one_of(st.floats(-7.0, 7.0), st.integers(-8, 8).map(lambda n: n * pi / 4))
beams = st.lists(st.tuples(coordinates, coordinates, bearings), min_size=1, max_size=12)
walls = st.lists(
    st.tuples(points, points).filter(lambda ends: ends[0] != ends[1]), min_size=1, max_size=8
)
posts = st.lists(st.tuples(coordinates, coordinates, st.floats(0.01, 3.0)), min_size=1, max_size=6)


def rays_of(drawn):
    return Rays(*(np.array(column, dtype=np.float64) for column in zip(*drawn, strict=True)))


def cast(scene, rays, reach_m=REACH_M):
    return scene.cast(rays, np.zeros(len(rays)), reach_m)


def segment_range(ox, oy, dx, dy, ends):
    """(range, how near the ray passes an end, both in metres) in rationals; None where they do not
    meet."""
    ox, oy, dx, dy = map(Fraction, (ox, oy, dx, dy))
    (x1, y1), (x2, y2) = [(Fraction(x), Fraction(y)) for x, y in ends]
    side_1, side_2 = dx * (y1 - oy) - dy * (x1 - ox), dx * (y2 - oy) - dy * (x2 - ox)
    grazing = min(abs(side_1), abs(side_2))
    if (side_1 > 0) == (side_2 > 0) or side_1 == side_2:
        return None, grazing
    # o + t d = p + u e, for t by Cramer's rule.
    ex, ey = x2 - x1, y2 - y1
    t = ((x1 - ox) * ey - (y1 - oy) * ex) / (dx * ey - dy * ex)
    return (t if t >= 0 else None), min(grazing, abs(t))


@given(beams, walls)
def test_segments_are_met_where_rationals_say(drawn, ends):
    rays = rays_of(drawn)
    hits = cast(Scene(np.array([[*a, *b] for a, b in ends])), rays)
    for k in range(len(rays)):
        exact = [
            segment_range(rays.x_m[k], rays.y_m[k], rays.dx[k], rays.dy[k], each) for each in ends
        ]
        if min(grazing for _, grazing in exact) < GRAZING_M:
            continue
        expected = min((t for t, _ in exact if t is not None and t <= REACH_M), default=None)
        if expected is None:
            assert hits.range_m[k] == inf
        else:
            assert abs(Fraction(hits.range_m[k]) - expected) <= 1e-9


def circle_range(ox, oy, dx, dy, x, y, radius):
    """(range, by how much the ray's line misses the rim)."""
    with localcontext() as context:
        context.prec = 50
        ox, oy, dx, dy, x, y, radius = map(Decimal, map(float, (ox, oy, dx, dy, x, y, radius)))
        size = (dx * dx + dy * dy).sqrt()
        dx, dy = dx / size, dy / size
        along, aside = (x - ox) * dx + (y - oy) * dy, abs((x - ox) * dy - (y - oy) * dx)
        away = ((x - ox) ** 2 + (y - oy) ** 2).sqrt() - radius
        edge = min(abs(radius - aside), abs(away))
        if away <= 0:
            return Decimal(0), edge
        if aside > radius or along < 0:
            return None, edge
        return along - (radius * radius - aside * aside).sqrt(), edge


@given(beams, posts)
def test_circles_are_met_where_fifty_digits_say(drawn, circles):
    rays = rays_of(drawn)
    hits = cast(Scene(circles_m=np.array(circles)), rays)
    for k in range(len(rays)):
        exact = [
            circle_range(rays.x_m[k], rays.y_m[k], rays.dx[k], rays.dy[k], *each)
            for each in circles
        ]
        if min(edge for _, edge in exact) < Decimal("1e-7"):
            continue
        expected = min((t for t, _ in exact if t is not None and t <= REACH_M), default=None)
        if expected is None:
            assert hits.range_m[k] == inf
        else:
            assert abs(hits.range_m[k] - float(expected)) <= 1e-8


def box_range(ox, oy, dx, dy, column, row, cell):
    """(entry, how long the ray stays inside) of a cell as a box, by slabs in rationals; None where
    it is missed."""
    low, high = Fraction(0), Fraction(10**6)
    for o, d, at in ((ox, dx, column), (oy, dy, row)):
        o, d = Fraction(o), Fraction(d)
        near, far = Fraction(cell) * at - o, Fraction(cell) * (at + 1) - o
        if d == 0:
            if not near <= 0 <= far:
                return None, Fraction(1)
            if near == 0 or far == 0:
                return None, Fraction(0)  # along a side: neither in nor out
            continue
        first, last = sorted((near / d, far / d))
        low, high = max(low, first), min(high, last)
    return (low if low <= high else None), abs(high - low)


@given(beams, st.lists(st.lists(st.booleans(), min_size=5, max_size=5), min_size=1, max_size=5))
def test_a_grid_is_met_as_its_cells_are(drawn, cells):
    occupied = np.array(cells)
    rays = rays_of(drawn)
    hits = cast(Scene(grid=Occupancy(occupied, 1.5, (0.0, 0.0, 0.0))), rays)
    for k in range(len(rays)):
        exact = [
            box_range(rays.x_m[k], rays.y_m[k], rays.dx[k], rays.dy[k], int(column), int(row), 1.5)
            for row, column in np.argwhere(occupied)
        ]
        if any(inside < 1e-9 for _, inside in exact):
            continue
        expected = min((t for t, _ in exact if t is not None and t <= REACH_M), default=None)
        assert (
            (hits.range_m[k] == inf)
            if expected is None
            else abs(Fraction(hits.range_m[k]) - expected) <= 1e-9
        )


@given(
    st.lists(st.floats(0.5, 8.0), min_size=3, max_size=9),
    st.floats(-2.0, 2.0),
    st.lists(st.floats(-4.0, 4.0), max_size=20),
)
def test_no_ray_leaves_a_closed_room_not_even_through_its_corners(radii, turn, others):
    """A star about the origin: every ray from there meets the wall."""
    angles = [turn + 2.0 * pi * k / len(radii) for k in range(len(radii))]
    corners = [(r * np.cos(a), r * np.sin(a)) for r, a in zip(radii, angles, strict=True)]
    walls_m = np.array([[*a, *b] for a, b in zip(corners, [*corners[1:], corners[0]], strict=True)])
    towards = [atan2(y, x) for x, y in corners] + others
    rays = Rays(np.zeros(len(towards)), np.zeros(len(towards)), np.array(towards))
    hits = cast(Scene(walls_m), rays)
    assert np.isfinite(hits.range_m).all()
    assert np.allclose(hits.range_m[: len(radii)], radii, rtol=1e-9)
    assert ((hits.cosine >= 0.0) & (hits.cosine <= 1.0)).all()


@given(beams, walls, posts, st.integers(0, 2**32))
def test_rays_do_not_depend_on_what_is_cast_with_them(drawn, ends, circles, seed):
    """The shapes to test are chosen once for a whole sweep; the result is that of each ray alone,
    to the bit."""
    rng = np.random.default_rng(seed)
    many = np.concatenate((np.array([[*a, *b] for a, b in ends]), rng.uniform(-15, 15, (60, 4))))
    scene = Scene(many, np.array(circles))
    rays = rays_of(drawn)
    together = cast(scene, rays)
    for k in range(len(rays)):
        alone = cast(
            scene, Rays(rays.x_m[k : k + 1], rays.y_m[k : k + 1], rays.bearing_rad[k : k + 1])
        )
        assert alone.range_m[0] == together.range_m[k]


@given(beams, st.floats(-20.0, 20.0), st.floats(-20.0, 20.0))
def test_a_ray_that_begins_inside_a_body_ends_there(drawn, x, y):
    rays = rays_of(drawn)
    square = [(x - 1.0, y - 1.0), (x + 1.0, y - 1.0), (x + 1.0, y + 1.0), (x - 1.0, y + 1.0)]
    inside = (np.abs(rays.x_m - x) < 1.0) & (np.abs(rays.y_m - y) < 1.0)
    outside = (np.abs(rays.x_m - x) > 1.0) | (np.abs(rays.y_m - y) > 1.0)
    assume(bool((inside | outside).all()))
    hits = cast(Scene(bodies=Bodies([square])), rays)
    assert (hits.range_m[inside] == 0.0).all()
    assert (hits.range_m[outside] > 0.0).all()


def test_the_slant_of_a_wall_is_that_of_the_drawing():
    scene = Scene(np.array([[3.0, -10.0, 3.0, 10.0]]))
    bearings_rad = np.linspace(-1.2, 1.2, 25)
    hits = cast(scene, Rays(np.zeros(25), np.zeros(25), bearings_rad))
    assert np.allclose(hits.cosine, np.cos(bearings_rad))
    assert np.allclose(hits.range_m, 3.0 / np.cos(bearings_rad))
    assert all(map(isfinite, hits.range_m))
