"""Point clouds resampled to a grid: the mean of the points around each node, moved to it. Two
passes: extent, then heights."""

from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil, floor
from pathlib import Path

import numpy as np

from sim_backend.terrain.errors import TerrainError
from sim_backend.terrain.raster import MAX_SIZE, Raster, check_size, filled
from vehicled.core.arrays import Array

BLOCK = 250_000
CORRECTIONS = 4
Blocks = Callable[[Path], Iterator[Array]]


def read_cloud(path: Path, resolution_m: float) -> Raster:
    """Read a cloud onto nodes at multiples of ``resolution_m``. Raises TerrainError."""
    blocks = READERS[path.suffix.lower()]
    low, high, count = np.full(3, np.inf), np.full(3, -np.inf), 0
    for block in _checked(path, blocks):
        if len(block):
            low = np.minimum(low, block.min(axis=0))
            high = np.maximum(high, block.max(axis=0))
            count = count + len(block)
    if not count:
        raise TerrainError(f"{path}: the file has no points")
    west, south = floor(low[0] / resolution_m + 0.5), floor(low[1] / resolution_m + 0.5)
    columns, rows = (
        ceil(high[k] / resolution_m - 0.5) - start + 1 for k, start in ((0, west), (1, south))
    )
    size = f"the cloud is {high[0] - low[0]:.0f} x {high[1] - low[1]:.0f} m"
    check_size(
        str(path),
        rows,
        columns,
        f"{size}; choose a larger resolution_m, or cut the cloud (stray points far away?)",
    )
    total, aside_x, aside_y = (np.zeros(rows * columns) for _ in range(3))
    number = np.zeros(rows * columns, dtype=np.int32)
    for block in _checked(path, blocks):
        column = np.clip(
            np.floor(block[:, 0] / resolution_m + 0.5).astype(np.int64) - west, 0, columns - 1
        )
        row = np.clip(
            np.floor(block[:, 1] / resolution_m + 0.5).astype(np.int64) - south, 0, rows - 1
        )
        node = row * columns + column
        total += np.bincount(node, block[:, 2], rows * columns)
        aside_x += np.bincount(node, block[:, 0] / resolution_m - (column + west), rows * columns)
        aside_y += np.bincount(node, block[:, 1] / resolution_m - (row + south), rows * columns)
        number += np.bincount(node, minlength=rows * columns).astype(np.int32)
    shape = rows, columns
    height, right, up = (
        np.divide(each, number, out=np.full(rows * columns, np.nan), where=number > 0).reshape(
            shape
        )
        for each in (total, aside_x, aside_y)
    )
    values = _at_nodes(height, right, up)
    return Raster(
        values=values,
        x_m=west * resolution_m,
        y_m=south * resolution_m,
        step_m=resolution_m,
        points=count,
    )


def _at_nodes(height: Array, right: Array, up: Array) -> Array:
    """Return the heights at the nodes from mean heights of points whose centroids lie ``right`` and
    ``up`` of them, in cells.

    Each height is moved along the slope between the nodes, iteratively: near a plane this
    converges, and a slope does not look rough because of the positions of its points.
    """
    found = height
    for _ in range(CORRECTIONS):
        smooth = filled(found)
        slope_up, slope_right = (
            np.gradient(smooth, axis=k) if smooth.shape[k] > 1 else np.zeros_like(smooth)
            for k in (0, 1)
        )
        found = height - right * slope_right - up * slope_up
    return found


def _checked(path: Path, blocks: Blocks) -> Iterator[Array]:
    at = 0
    for block in blocks(path):
        if not np.isfinite(block).all():
            row = at + int(np.flatnonzero(~np.isfinite(block).all(axis=1))[0]) + 1
            raise TerrainError(
                f"{path}, point {row}: a coordinate is not a number; remove the point"
            )
        if len(block) and float(np.abs(block).max()) > MAX_SIZE:
            raise TerrainError(
                f"{path}: coordinates beyond {MAX_SIZE:g} m; check whether the file is damaged"
            )
        at += len(block)
        yield block


def needs(path: Path, package: str) -> TerrainError:
    """Return the error for a missing extra."""
    return TerrainError(
        f'{path}: this format needs {package} from the extra "terrain": pip install '
        '"vehicled[terrain]"'
    )


def _las(path: Path) -> Iterator[Array]:
    try:
        import laspy
    except ImportError:
        raise needs(path, "laspy") from None
    if path.suffix.lower() == ".laz" and not laspy.LazBackend.detect_available():
        raise TerrainError(
            f"{path}: compressed LAS also needs lazrs or laszip; install one (pip install "
            "lazrs), or save it as .las"
        )
    try:
        with laspy.open(path) as reader:
            for points in reader.chunk_iterator(BLOCK):
                yield np.column_stack((points.x, points.y, points.z)).astype(np.float64)
    except TerrainError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever a foreign parser raises on a damaged file, the file is to blame
        raise TerrainError(
            f"{path}: is not a readable LAS file ({parser_message(error)}); export it again"
        ) from None


def _ply(path: Path) -> Iterator[Array]:
    try:
        from trimesh.exchange.ply import load_ply
    except ImportError:
        raise needs(path, "trimesh") from None
    try:
        with path.open("rb") as file:
            vertices: Array = np.asarray(load_ply(file)["vertices"], dtype=np.float64)
        for at in range(0, len(vertices), BLOCK):
            yield vertices[at : at + BLOCK]
    except Exception as error:  # noqa: BLE001 - as above
        raise TerrainError(
            f"{path}: is not a PLY file with vertices x, y, z ({parser_message(error)}); "
            "export it again"
        ) from None


def _xyz(path: Path) -> Iterator[Array]:
    """Read text: x y z, further columns ignored, separated by blanks, commas or semicolons; a first
    line without numbers is a header.
    """
    try:
        file = path.open(encoding="utf-8-sig")
    except OSError as error:
        raise TerrainError(f"{path}: cannot be read ({error.strerror})") from None
    with file:
        at = 0
        while True:
            try:
                lines = list(islice(file, BLOCK))
            except UnicodeDecodeError:
                raise TerrainError(
                    f"{path}: is not text; a point cloud in text has x y z on each line"
                ) from None
            if not lines:
                return
            yield _numbers(path, lines, at)
            at += len(lines)


def _numbers(path: Path, lines: list[str], at: int) -> Array:
    found: list[tuple[float, float, float]] = []
    for number, line in enumerate(lines, start=at + 1):
        words = line.replace(",", " ").replace(";", " ").split("#", 1)[0].split()
        if not words:
            continue
        try:
            x, y, z = words[:3]
            found.append((float(x), float(y), float(z)))
        except ValueError:
            if number == 1:
                continue
            raise TerrainError(
                f"{path}, line {number}: {line.strip()[:40]!r} is not x y z; correct or delete it"
            ) from None
    return np.array(found, dtype=np.float64).reshape(-1, 3)


def parser_message(error: Exception) -> str:
    """Return the message of a third-party parser on one line."""
    return " ".join(str(error).split())[:200] or type(error).__name__


READERS: dict[str, Blocks] = {
    ".las": _las,
    ".laz": _las,
    ".ply": _ply,
    ".xyz": _xyz,
    ".txt": _xyz,
    ".pts": _xyz,
}
"""Readers by file name extension."""
