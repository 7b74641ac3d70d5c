"""Centre line of a track out of an occupancy grid of ROS map_server.

The track is a ring of free cells: what is not free lies outside of it and within it. The centre
line is where both are equally far; its widths are measured along its normals.
"""

from typing import Any

import numpy as np

from vehicled.core.arrays import Array
from vehicled.maps.grid import FREE, OccupancyGrid
from vehicled.offline.race.errors import RaceError
from vehicled.offline.race.line import check_libraries, smoothed
from vehicled.offline.race.track import RaceTrack, normals_of, track_of

LEAST_CELLS = 5
"""Narrowest track, in cells, whose walls a grid still shows."""
LEAST_HOLE = 0.02
"""Area of the island within a track, of its ring; smaller ones are specks of the map."""
SECOND_HOLE = 0.15
"""Area of a second island, of the first one, from which a track has branches."""
SMOOTH_WIDTHS = 0.5
"""Bends of the centre line that are shorter than this, in widths, are steps of the cells."""
MARCH_CELLS = 0.25


def track_from_grid(grid: OccupancyGrid, name: str) -> RaceTrack:
    """Return the track of a grid, counter-clockwise. Raises :class:`RaceError` if no ring, or more
    than one, is free."""
    check_libraries()
    from scipy import ndimage

    ring, island = _ring(grid, name)
    to_island = ndimage.distance_transform_edt(~island)
    outside = ~(ring | island)
    to_outside = ndimage.distance_transform_edt(~outside)
    line = _contour(to_outside - to_island, ring, name)
    width = float(np.median((to_island + to_outside)[ring]))
    if width < LEAST_CELLS:
        raise RaceError(
            f"{name}: the track is about {width:.0f} cells wide; map it with cells of at most "
            f"{grid.resolution_m * width / LEAST_CELLS:.3f} m"
        )
    n = max(60, round(len(line) / max(0.2 * width, 2.0)))
    line = smoothed(line, SMOOTH_WIDTHS * width, min(n, 5000))
    if (line[:, 0] * np.roll(line[:, 1], -1) - np.roll(line[:, 0], -1) * line[:, 1]).sum() < 0.0:
        line = line[::-1]
    normals = normals_of(line)
    left = _march(ring, line, normals, 2.0 * width) * grid.resolution_m
    right = _march(ring, line, -normals, 2.0 * width) * grid.resolution_m
    x, y = _placed(grid, line)
    return track_of(
        name,
        x,
        y,
        right,
        left,
        remarks=(f"centre line of a map of {grid.resolution_m:g} m per cell",),
    )


def _placed(grid: OccupancyGrid, line: Array) -> tuple[Array, Array]:
    """Return the map coordinates of places in cells: (column, row), integers at their centres."""
    u, v = (line + 0.5).T * grid.resolution_m
    x, y, yaw = grid.origin
    return x + np.cos(yaw) * u - np.sin(yaw) * v, y + np.sin(yaw) * u + np.cos(yaw) * v


def _ring(grid: OccupancyGrid, name: str) -> tuple[Any, Any]:
    """Return the cells of the track, and of the island within it."""
    from scipy import ndimage

    free = grid.cells == FREE
    labels, count = ndimage.label(free)
    if not count:
        raise RaceError(f"{name}: the map has no free cells; check negate and free_thresh")
    boxes = ndimage.find_objects(labels)
    sizes = np.bincount(labels.ravel())
    found = []
    for k in np.argsort(-sizes[1:])[:50].tolist():
        rows, columns = boxes[k]
        part = labels[rows, columns] == k + 1
        if sizes[k + 1] < 50:
            break
        edge = (
            rows.start == 0
            or columns.start == 0
            or rows.stop == free.shape[0]
            or columns.stop == free.shape[1]
        )
        holes, number = ndimage.label(~np.pad(part, 1), np.ones((3, 3)))
        areas = np.bincount(holes.ravel(), minlength=number + 1)
        around = int(holes[0, 0])
        areas[0] = areas[around] = 0
        order = np.argsort(-areas)
        if areas[order[0]] < LEAST_HOLE * sizes[k + 1]:
            continue
        found.append((edge, -int(sizes[k + 1]), k, holes, areas, order))
    if not found:
        raise RaceError(
            f"{name}: no free cells surround an island, so the track is open or its walls have "
            "gaps; close the walls in the map, and mark what is outside as occupied or unknown"
        )
    # Free cells that touch the edge of the map surround the track rather than being it.
    found.sort(key=lambda row: row[:2])
    _, _, k, holes, areas, order = found[0]
    rows, columns = boxes[k]
    second = int(order[1])
    if areas[second] > SECOND_HOLE * areas[order[0]]:
        v, u = np.argwhere(holes == second).mean(axis=0)
        x, y = _placed(grid, np.array([[u - 1 + columns.start, v - 1 + rows.start]]))
        raise RaceError(
            f"{name}: the free cells surround two islands, the second one about ({x[0]:.2f}, "
            f"{y[0]:.2f}) m: the track branches there; close the branch that is not raced in the "
            "map"
        )
    ring, island = np.zeros(free.shape, bool), np.zeros(free.shape, bool)
    inner = slice(1, -1)
    keep = np.isin(holes, order[1:][areas[order[1:]] > 0])
    ring[rows, columns] = (labels[rows, columns] == k + 1) | keep[inner, inner]
    island[rows, columns] = (holes == order[0])[inner, inner]
    return ring, island


def _contour(values: Array, inside: Any, name: str) -> Array:
    """Return the closed line (n, 2), as (column, row), along which values change their sign within
    the cells that are ``inside``: marching squares, the longest ring."""
    positive = values >= 0.0
    starts: dict[tuple[int, int, int], list[tuple[int, int, int]]] = {}
    places: dict[tuple[int, int, int], tuple[float, float]] = {}
    whole = inside[:-1, :-1] & inside[1:, :-1] & inside[:-1, 1:] & inside[1:, 1:]
    count = positive.astype(int)
    mixed = count[:-1, :-1] + count[1:, :-1] + count[:-1, 1:] + count[1:, 1:]
    for row, column in np.argwhere(whole & (mixed > 0) & (mixed < 4)).tolist():
        edges = []
        for v, u, upright in (
            (row, column, 0),
            (row, column + 1, 1),
            (row + 1, column, 0),
            (row, column, 1),
        ):
            a = values[v, u]
            b = values[v + 1, u] if upright else values[v, u + 1]
            if (a >= 0.0) != (b >= 0.0):
                part = a / (a - b)
                key = (v, u, upright)
                places[key] = (u, v + part) if upright else (u + part, v)
                edges.append(key)
        for a, b in zip(edges[::2], edges[1::2], strict=True):
            starts.setdefault(a, []).append(b)
            starts.setdefault(b, []).append(a)
    best: list[tuple[int, int, int]] = []
    unused = set(starts)
    while unused:
        first = min(unused)
        chain, before, here = [first], first, starts[first][0]
        unused.discard(first)
        while here in unused:
            chain.append(here)
            unused.discard(here)
            following = [key for key in starts[here] if key != before]
            if not following:
                break
            before, here = here, following[0]
        if here == first and len(chain) > len(best):
            best = chain
    if len(best) < 20:
        raise RaceError(
            f"{name}: the middle of the free ring is no closed line; the track may touch the edge "
            "of the map or be only some cells wide"
        )
    line = np.array([places[key] for key in best])
    step = np.hypot(*(line - np.roll(line, 1, axis=0)).T)
    distinct: Array = line[step > 1e-6]
    return distinct


def _march(inside: Any, line: Array, directions: Array, most: float) -> Array:
    """Return the distance, in cells, from each place along its direction to the end of the cells
    that are ``inside``."""
    found = np.zeros(len(line))
    going = np.ones(len(line), bool)
    rows, columns = inside.shape
    for k in range(1, int(most / MARCH_CELLS) + 1):
        u, v = np.rint(line + k * MARCH_CELLS * directions).astype(int).T
        free = (u >= 0) & (v >= 0) & (u < columns) & (v < rows)
        free[free] = inside[v[free], u[free]]
        going &= free
        if not going.any():
            break
        found[going] = k * MARCH_CELLS
    return found
