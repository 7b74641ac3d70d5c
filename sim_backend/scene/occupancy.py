"""Occupancy grids in the format of ROS map_server: a YAML file that names a grey image, one pixel per cell, north up.

Needs the extra ``maps``. A cell is occupied if its darkness (inverted with ``negate``)
exceeds ``occupied_thresh``, as in map_server. Cells neither occupied nor free are unknown; beams pass through them.
"""

import re
import warnings
from collections.abc import Mapping
from difflib import get_close_matches
from math import cos, isfinite, nan, sin
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from sim_backend.scene.errors import SceneError
from vehicled.core.arrays import Array
from vehicled.profile.problems import printable

MAX_CELLS = 64_000_000
MAX_TEXT = 64 * 1024
SMALLER = "cut the map or make its cells larger"
KEYS = ("image", "resolution", "origin", "negate", "occupied_thresh", "free_thresh", "mode")


class Occupancy:
    """Occupied cells (rows, columns) of a grid, row 0 in the south, rotated about its south-west corner."""

    def __init__(self, occupied: npt.NDArray[np.bool_], resolution_m: float, origin: tuple[float, float, float]) -> None:
        """``origin``: x, y and yaw of the south-west corner in ``map``."""
        self.occupied = occupied
        self._resolution_m = resolution_m
        self._x_m, self._y_m, yaw = origin
        self._cos, self._sin = cos(yaw), sin(yaw)
        self.edges_m = self._place(_outline(occupied))
        """Faces between occupied and other cells, with collinear ones joined, as segments (m, 4) in ``map``."""

    def _place(self, cells: npt.NDArray[np.int64]) -> Array:
        own = cells * self._resolution_m
        x, y = own[:, 0::2], own[:, 1::2]
        placed = np.empty(own.shape)
        placed[:, 0::2] = self._x_m + self._cos * x - self._sin * y
        placed[:, 1::2] = self._y_m + self._sin * x + self._cos * y
        return placed

    def outlines_m(self) -> Array:
        """Return the corners (n, 4, 2) of rectangles that cover the occupied cells, one for each run in a row."""
        padded = np.pad(self.occupied, ((0, 0), (1, 1))).astype(np.int8)
        steps = np.diff(padded, axis=1)
        row, begin = np.nonzero(steps == 1)
        _, end = np.nonzero(steps == -1)
        corners = np.stack((begin, row, end, row, end, row + 1, begin, row + 1), axis=1)
        return self._place(corners).reshape(-1, 4, 2)

    def contains(self, x_m: Array, y_m: Array) -> npt.NDArray[np.bool_]:
        """True for points (n,) in occupied cells."""
        dx, dy = x_m - self._x_m, y_m - self._y_m
        column = np.floor((self._cos * dx + self._sin * dy) / self._resolution_m)
        row = np.floor((self._cos * dy - self._sin * dx) / self._resolution_m)
        rows, columns = self.occupied.shape
        within = (column >= 0) & (column < columns) & (row >= 0) & (row < rows)
        inside = np.zeros(len(x_m), dtype=np.bool_)
        inside[within] = self.occupied[row[within].astype(np.intp), column[within].astype(np.intp)]
        return inside


def _outline(occupied: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Return the faces as (m, 4): column and row of both ends, in cells."""
    horizontal = np.zeros((occupied.shape[0] + 1, occupied.shape[1]), dtype=np.int8)
    horizontal[:-1] += occupied
    horizontal[1:] -= occupied
    vertical = np.zeros((occupied.shape[1] + 1, occupied.shape[0]), dtype=np.int8)
    vertical[:-1] += occupied.T
    vertical[1:] -= occupied.T
    line, begin, end = _runs(horizontal)
    other, low, high = _runs(vertical)
    return np.concatenate((np.stack((begin, line, end, line), axis=1), np.stack((other, low, other, high), axis=1)))


def _runs(faces: npt.NDArray[np.int8]) -> tuple[npt.NDArray[np.int64], ...]:
    """Return line, begin and end of every run of equal non-zero faces, line by line."""
    padded = np.pad(faces, ((0, 0), (1, 1)))
    changes = padded[:, 1:] != padded[:, :-1]
    line, at = np.nonzero(changes & (padded[:, 1:] != 0))
    _, stop = np.nonzero(changes & (padded[:, :-1] != 0))
    return line.astype(np.int64), at.astype(np.int64), stop.astype(np.int64)


def read_map(path: Path, scale: float = 1.0) -> Occupancy:
    """Read the grid of a map_server YAML file, with all lengths times ``scale``. Raises :class:`SceneError`."""
    try:
        text = path.read_bytes()[: MAX_TEXT + 1].decode()
    except OSError as error:
        raise SceneError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError:
        raise SceneError(f"{path}: is not text; expected the YAML file that map_server reads, not the image") from None
    if len(text) > MAX_TEXT:
        raise SceneError(f"{path}: longer than {MAX_TEXT} characters; expected the YAML file that map_server reads")
    values = _parsed(path, text)
    resolution_m = _number(path, values, "resolution")
    if not 1e-4 <= resolution_m <= 100.0:
        raise SceneError(f"{path}: resolution is {resolution_m:g} m; a cell has 0.0001 to 100 m")
    origin = values["origin"]
    if not isinstance(origin, list) or len(origin) != 3:
        raise SceneError(f"{path}: origin is {str(origin)[:40]!r}; write origin: [x, y, yaw]")
    x, y, yaw = (_number(path, {"origin": part}, "origin") for part in origin)
    if values.get("mode", "trinary") == "raw":
        raise SceneError(f"{path}: mode raw has no thresholds of darkness; save the map with mode: trinary")
    grey = _image(path.parent / str(values["image"]))
    dark = grey / 255.0 if _number(path, values, "negate", 0.0) else (255.0 - grey) / 255.0
    occupied = dark > _number(path, values, "occupied_thresh", 0.65)
    return Occupancy(occupied[::-1], scale * resolution_m, (scale * x, scale * y, yaw))


def _parsed(path: Path, text: str) -> Mapping[str, Any]:
    """Parse the YAML text. Keys of other tools are ignored, as map_server does, but not a misspelt one."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise SceneError(f'{path}: maps need ruamel.yaml from the extra "maps": pip install "vehicled[maps]"') from None
    try:
        with warnings.catch_warnings():
            # YAML 1.1 asks for a point in every number.
            warnings.simplefilter("ignore")
            values = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise SceneError(f"{path}: is no YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(values, Mapping):
        raise SceneError(f"{path}: has no keys; a map has image, resolution and origin")
    for key in map(str, values):
        meant = [] if key in KEYS else get_close_matches(key, KEYS, 1)
        if meant:
            raise SceneError(f"{path}: unknown key {key[:40]!r}; did you mean {meant[0]!r}?")
    lacking = [key for key in KEYS[:3] if values.get(key) is None]
    if lacking:
        raise SceneError(f"{path}: {', '.join(lacking)} missing; a map has image, resolution and origin")
    return values


def _number(path: Path, values: Mapping[str, Any], key: str, default: float = nan) -> float:
    try:
        value = float(values.get(key, default))
    except (TypeError, ValueError, OverflowError):
        value = nan
    if not isfinite(value):
        raise SceneError(f"{path}: {key} is {str(values[key])[:40]!r}, which is not a number")
    return value


def _image(path: Path) -> npt.NDArray[np.float64]:
    """Return grey values 0 to 255, north row first."""
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise SceneError(f"{printable(str(path), 300)}: cannot be read ({why}); image is relative to the YAML file") from None
    if data[:2] in (b"P5", b"P2"):
        return _pgm(path, data)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise SceneError(f'{path}: is not PGM; other images need the extra "maps": pip install "vehicled[maps]"') from None
    try:
        with warnings.catch_warnings():
            # Pillow warns at 90 million pixels and refuses twice as many, both above the limit here.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(path)
        with image:
            _bounded(path, *image.size)
            # Transparent pixels are unknown and are drawn on white, like free ones.
            with image.convert("RGBA") as coloured:
                flat = Image.new("RGBA", coloured.size, "white")
                flat.alpha_composite(coloured)
            grey: npt.NDArray[np.float64] = np.asarray(flat.convert("RGB"), dtype=np.float64).mean(axis=2)
            return grey
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise SceneError(f"{path}: more than {MAX_CELLS} cells: {SMALLER}") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise SceneError(f"{path}: is not a readable image ({error}); save the map as PGM or PNG") from None


def _pgm(path: Path, data: bytes) -> npt.NDArray[np.float64]:
    head = re.match(rb"(P[25])((?:\s+|#[^\n]*\n)+)(\d+)((?:\s+|#[^\n]*\n)+)(\d+)((?:\s+|#[^\n]*\n)+)(\d+)\s", data[:4096])
    if head is None:
        raise SceneError(f"{path}: the PGM header is damaged; save the map again")
    columns, rows, most = int(head[3]), int(head[5]), int(head[7])
    _bounded(path, columns, rows)
    if not 0 < most < 65_536:
        raise SceneError(f"{path}: the PGM header gives a maximum value of {most}; it must be 1 to 65535")
    count = columns * rows
    if head[1] == b"P5":
        kind = np.dtype(np.uint8 if most < 256 else ">u2")
        if len(data) - head.end() < count * kind.itemsize:
            raise SceneError(f"{path}: ends after {len(data)} bytes, {columns} x {rows} pixels need more; it was cut short")
        values = np.frombuffer(data, kind, count, head.end()).astype(np.float64)
    else:
        words = data[head.end() :].split()
        if len(words) < count or not all(word.isdigit() for word in words[:count]):
            raise SceneError(f"{path}: has no {count} numbers after its header; it was cut short or is not PGM")
        values = np.array(words[:count], dtype=np.float64)
    return (np.minimum(values, most) * (255.0 / most)).reshape(rows, columns)


def _bounded(path: Path, columns: int, rows: int) -> None:
    if not 0 < columns * rows <= MAX_CELLS:
        raise SceneError(f"{path}: {columns} x {rows} cells; 1 to {MAX_CELLS} are possible: {SMALLER}")
