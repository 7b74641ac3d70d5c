"""The scans of :mod:`sim_backend.scene.batch` in machine code: ``scan.c`` beside this file, and the
arrays that it reads."""

import ctypes
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from sim_backend.machine_code import library
from vehicled.core.arrays import Array, hypotenuse

TILE_M = 1.0
"""Side of the squares whose segments are looked at together."""
FLAGS = ("-O3", "-fno-trapping-math")


def scan_library(agrees: Callable[[ctypes.CDLL], bool]) -> ctypes.CDLL | None:
    """Return the library of ``scan.c``, which has been shown to agree with numpy; None without a
    compiler."""
    return library("scanners", (_source(), np.__version__), FLAGS, _source, agrees)


@cache
def _source() -> str:
    return (Path(__file__).parent / "scan.c").read_text(encoding="ascii")


class _Walls(ctypes.Structure):
    _fields_ = (
        ("tiles", ctypes.c_long),
        *(
            (name, ctypes.c_void_p)
            for name in ("x_m", "y_m", "radius_m", "first", "segments_m", "number", "length_m")
        ),
        *((name, ctypes.c_void_p) for name in ("nearest_m", "order", "place")),
    )


class _Scanner(ctypes.Structure):
    _fields_ = (
        ("rays", ctypes.c_long),
        *((name, ctypes.c_double) for name in ("low_rad", "step_rad", "per_rad", "reach_m")),
        *((name, ctypes.c_void_p) for name in ("cosine", "sine")),
    )


class _Moving(ctypes.Structure):
    _fields_ = (
        *((name, ctypes.c_long) for name in ("edges", "circles", "first_number")),
        *((name, ctypes.c_void_p) for name in ("edges_m", "length_m", "circles_m")),
    )


class MachineScanner:
    """Planar scanners among segments. It belongs to one thread, and cannot be copied."""

    def __init__(
        self, code: ctypes.CDLL, segments_m: Array, length_m: Array,
        directions: tuple[Array, Array], low_rad: float, step_rad: float, reach_m: float,
    ) -> None:  # fmt: skip
        """``directions`` are cosines and sines of the bearings (rays,), from ``low_rad`` on in
        steps of ``step_rad``."""
        tiles = np.floor(0.5 * (segments_m[:, :2] + segments_m[:, 2:]) / TILE_M).astype(np.int64)
        order = np.lexsort((tiles[:, 0], tiles[:, 1]))
        tiles, segments, count = tiles[order], np.ascontiguousarray(segments_m[order]), len(order)
        starts = (
            np.flatnonzero(np.concatenate(([True], (tiles[1:] != tiles[:-1]).any(axis=1))))
            if count
            else np.empty(0, np.int64)
        )
        first = np.append(starts, count).astype(np.int64)
        boxes = np.zeros((4, len(starts)))
        if count:
            x, y = segments[:, 0::2], segments[:, 1::2]
            for row, (function, values) in enumerate(
                (
                    (np.minimum, x.min(1)),
                    (np.minimum, y.min(1)),
                    (np.maximum, x.max(1)),
                    (np.maximum, y.max(1)),
                )
            ):
                boxes[row] = function.reduceat(values, starts)
        place = np.empty(count, np.int64)
        place[order] = np.arange(count)
        self._count, self._rays = count, len(directions[0])
        # The structures hold their addresses.
        self._kept = (
            0.5 * (boxes[0] + boxes[2]), 0.5 * (boxes[1] + boxes[3]),
            0.5 * hypotenuse(boxes[2] - boxes[0], boxes[3] - boxes[1]), first, segments,
            order.astype(np.float64), np.ascontiguousarray(length_m[order]), np.empty(len(starts)),
            np.empty(len(starts), np.int64), place,
            *(np.ascontiguousarray(each) for each in directions),
        )  # fmt: skip
        addresses = [each.ctypes.data for each in self._kept]
        self._walls = _Walls(len(starts), *addresses[:10])
        self._scanner = _Scanner(
            self._rays, low_rad, step_rad, 1.0 / step_rad, reach_m, *addresses[10:]
        )
        pointer, many = ctypes.c_void_p, ctypes.c_long
        self._scan, self._collides = code.scene_scan, code.scene_collides
        self._scan.argtypes = [pointer, pointer, pointer, many, *[pointer] * 6]
        self._collides.argtypes = [pointer, pointer, many, *[pointer] * 5, ctypes.c_double, pointer]
        self._scan.restype = self._collides.restype = None
        self._addresses = ctypes.addressof(self._walls), ctypes.addressof(self._scanner)
        self._nothing = _Moving(0, 0, count)
        self._room = _Room(1, self._rays)

    def scan(
        self, x_m: Array, y_m: Array, cosine: Array, sine: Array, moving: "MovingArrays | None"
    ) -> tuple[Array, Array]:
        """Return ranges and cosines of the incidence (n, rays)."""
        room, shapes = self._filled(x_m, y_m, cosine, sine), self._moving(moving)
        self._scan(
            *self._addresses, ctypes.addressof(shapes), len(x_m), *room.poses_at, *room.scans_at
        )
        return room.scans[0].copy(), room.scans[1].copy()

    def collides(
        self, x_m: Array, y_m: Array, cosine: Array, sine: Array, box_m: tuple[float, float, float],
        most_m: float, moving: "MovingArrays | None",
    ) -> npt.NDArray[np.bool_]:  # fmt: skip
        """Return True (n,) where a segment enters the outline ``box_m`` of a vehicle; ``most_m`` is
        how far its corners are."""
        room, shapes = self._filled(x_m, y_m, cosine, sine), self._moving(moving)
        box = (ctypes.c_double * 3)(*box_m)
        self._collides(
            self._addresses[0],
            ctypes.addressof(shapes),
            len(x_m),
            *room.poses_at,
            ctypes.addressof(box),
            most_m,
            room.struck_at,
        )
        return room.struck.copy()

    def _filled(self, *poses: Array) -> "_Room":
        if len(self._room.struck) != len(poses[0]):
            self._room = _Room(len(poses[0]), self._rays)
        for row, values in zip(self._room.poses, poses, strict=True):
            row[:] = values
        return self._room

    def _moving(self, moving: "MovingArrays | None") -> "_Moving":
        if moving is None:
            return self._nothing
        kept = [np.ascontiguousarray(each) for each in moving]
        shapes = _Moving(
            kept[0].shape[1], kept[2].shape[1], self._count, *(each.ctypes.data for each in kept)
        )
        # They live as long as their addresses.
        shapes.kept = kept
        return shapes


class MovingArrays(NamedTuple):
    """Moving shapes as the machine code reads them."""

    edges_m: Array
    """Ends (n, edges, 4)."""
    length_m: Array
    """Lengths of the edges (n, edges)."""
    circles_m: Array
    """Centres and radii (n, circles, 3)."""


class _Room:
    """Arrays for n vehicles, with their addresses: asking numpy for one takes as long as a tenth of
    a scan."""

    def __init__(self, count: int, rays: int) -> None:
        self.poses: Array = np.empty((4, count))
        self.scans: Array = np.empty((2, count, rays))
        self.struck = np.empty(count, dtype=np.bool_)
        self.poses_at = [row.ctypes.data for row in self.poses]
        self.scans_at = [each.ctypes.data for each in self.scans]
        self.struck_at = self.struck.ctypes.data
