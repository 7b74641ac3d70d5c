"""Occupancy grids in the format of ROS map_server: a YAML file that names a grey image, one pixel
per cell, north up.

Reading needs the extra ``maps``. As in map_server a cell is occupied if its darkness (inverted with
``negate``) exceeds ``occupied_thresh``, free if it is below ``free_thresh``, and unknown between
the two.
"""

import os
import re
import warnings
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from io import BytesIO
from math import isfinite, nan
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from vehicled.core.plain_text import printable
from vehicled.maps.errors import MapError
from vehicled.maps.grid import FREE, OCCUPIED, UNKNOWN, Cells, OccupancyGrid

MAX_CELLS = 64_000_000
MAX_TEXT = 64 * 1024
SMALLER = "cut the map or make its cells larger"
KEYS = ("image", "resolution", "origin", "negate", "occupied_thresh", "free_thresh", "mode")
MODES = ("trinary", "scale", "raw")
"""Modes of map_server. Cells that ``scale`` gives a probability between the thresholds are
unknown."""
OCCUPIED_THRESH, FREE_THRESH = 0.65, 0.196
"""Thresholds of the maps that are written. With 0.196 the grey of map_saver's unknown cells is
unknown to every reader."""
GREY = {OCCUPIED: 0, FREE: 254, UNKNOWN: 205}
"""Grey values that map_saver gives to the three kinds of cells."""


def read_map(path: Path) -> OccupancyGrid:
    """Read the grid of a map_server YAML file and its image. Raises :class:`MapError`."""
    try:
        data = path.read_bytes()[: MAX_TEXT + 1]
    except OSError as error:
        raise MapError(f"{path}: cannot be read ({error.strerror})") from None
    return _grid(path, data, _file)


def map_of(files: Mapping[str, bytes], name: str) -> OccupancyGrid:
    """Return the grid of a YAML file and its image whose contents are at hand by name. Raises
    :class:`MapError`."""

    def content(path: Path) -> bytes:
        found = files.get(path.as_posix())
        if found is None:
            raise MapError(f"{path}: this image of {name} is missing")
        return found

    return _grid(Path(name), content(Path(name)), content)


def image_of(data: bytes, name: str) -> str:
    """Return the image that the text of a YAML file names. Raises :class:`MapError`."""
    return str(_parsed(Path(name), _text(Path(name), data))["image"])


def write_map(path: Path, grid: OccupancyGrid, image_name: str = "") -> Path:
    """Write a grid as ``path`` (YAML) and a PGM beside it, whose path is returned; each file
    completely or not at all.

    ``image_name``: name of the image in place of that of the YAML file. A map that readers may be
    reading is replaced with another name, so that no reader has the image of one and the origin of
    the other. Raises OSError.
    """
    image = path.with_name(image_name) if image_name else path.with_suffix(".pgm")
    rows, columns = grid.cells.shape
    grey = np.full(grid.cells.shape, GREY[UNKNOWN], np.uint8)
    for kind in (OCCUPIED, FREE):
        grey[grid.cells == kind] = GREY[kind]
    _put(image, b"P5\n%d %d\n255\n" % (columns, rows) + grey[::-1].tobytes())
    x, y, yaw = grid.origin
    text = (
        f"image: {image.name}\nmode: trinary\nresolution: {grid.resolution_m:g}\norigin: "
        f"[{x:.4f}, {y:.4f}, {yaw:.6f}]\n"
        f"negate: 0\noccupied_thresh: {OCCUPIED_THRESH}\nfree_thresh: {FREE_THRESH}\n"
    )
    _put(path, text.encode())
    return image


def _put(path: Path, data: bytes) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        new.write_bytes(data)
        new.replace(path)
    finally:
        new.unlink(missing_ok=True)


def _text(path: Path, data: bytes) -> str:
    if len(data) > MAX_TEXT:
        raise MapError(
            f"{path}: longer than {MAX_TEXT} characters; expected the YAML file that "
            "map_server reads"
        )
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise MapError(
            f"{path}: is not text; expected the YAML file that map_server reads, not the image"
        ) from None


def _grid(path: Path, data: bytes, read: Callable[[Path], bytes]) -> OccupancyGrid:
    values = _parsed(path, _text(path, data))
    resolution_m = _number(path, values, "resolution")
    if not 1e-4 <= resolution_m <= 100.0:
        raise MapError(f"{path}: resolution is {resolution_m:g} m; a cell has 0.0001 to 100 m")
    origin = values["origin"]
    if not isinstance(origin, list) or len(origin) != 3:
        raise MapError(f"{path}: origin is {str(origin)[:40]!r}; write origin: [x, y, yaw]")
    x, y, yaw = (_number(path, {"origin": part}, "origin") for part in origin)
    mode = str(values.get("mode", "trinary"))
    if mode not in MODES:
        raise MapError(f"{path}: mode is {mode[:40]!r}; it may be {', '.join(MODES)}")
    free = _number(path, values, "free_thresh", FREE_THRESH)
    occupied = _number(path, values, "occupied_thresh", OCCUPIED_THRESH)
    if not 0.0 <= free <= occupied <= 1.0:
        raise MapError(
            f"{path}: free_thresh is {free:g} and occupied_thresh {occupied:g}; both are from 0 to "
            "1, and the first one is not the larger one"
        )
    image = path.parent / str(values["image"])
    grey = _image(image, read(image))
    if mode == "raw":
        # Pixels are percents; what is more is unknown, whatever negate says.
        dark = np.where(np.round(grey) <= 100.0, np.round(grey) / 100.0, nan)
    else:
        dark = grey / 255.0 if _number(path, values, "negate", 0.0) else (255.0 - grey) / 255.0
    cells: Cells = np.full(dark.shape, UNKNOWN, np.int8)
    cells[dark < free] = FREE
    cells[dark > occupied] = OCCUPIED
    unmapped = None
    if mode == "trinary" and np.isin(grey, list(GREY.values())).all():
        # Nav2's map_saver wrote a free_thresh of 0.25 for years, by which its own unknown cells
        # read as free.
        unmapped = (grey == GREY[UNKNOWN])[::-1]
    return OccupancyGrid(cells[::-1], resolution_m, (x, y, yaw), unmapped)


def _file(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else error
        raise MapError(
            f"{printable(str(path), 300)}: cannot be read ({why}); image is relative to the "
            "YAML file"
        ) from None


def _parsed(path: Path, text: str) -> Mapping[str, Any]:
    """Parse the YAML text. Keys of other tools are ignored, as map_server does, but not a misspelt
    one."""
    try:
        from ruamel.yaml import YAML
        from ruamel.yaml.error import YAMLError
    except ImportError:
        raise MapError(
            f'{path}: maps need ruamel.yaml from the extra "maps": pip install "vehicled[maps]"'
        ) from None
    try:
        with warnings.catch_warnings():
            # YAML 1.1 asks for a point in every number.
            warnings.simplefilter("ignore")
            values = YAML(typ="safe", pure=True).load(text)
    except (YAMLError, ValueError, RecursionError) as error:
        raise MapError(f"{path}: is no YAML: {' '.join(str(error).split())[:300]}") from None
    if not isinstance(values, Mapping):
        raise MapError(f"{path}: has no keys; a map has image, resolution and origin")
    for key in map(str, values):
        meant = [] if key in KEYS else get_close_matches(key, KEYS, 1)
        if meant:
            raise MapError(f"{path}: unknown key {key[:40]!r}; did you mean {meant[0]!r}?")
    lacking = [key for key in KEYS[:3] if values.get(key) is None]
    if lacking:
        raise MapError(
            f"{path}: {', '.join(lacking)} missing; a map has image, resolution and origin"
        )
    return values


def _number(path: Path, values: Mapping[str, Any], key: str, default: float = nan) -> float:
    try:
        value = float(values.get(key, default))
    except (TypeError, ValueError, OverflowError):
        value = nan
    if not isfinite(value):
        raise MapError(f"{path}: {key} is {str(values[key])[:40]!r}, which is not a number")
    return value


def _image(path: Path, data: bytes) -> npt.NDArray[np.float64]:
    """Return grey values 0 to 255, north row first."""
    if data[:2] in (b"P5", b"P2"):
        return _pgm(path, data)
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError:
        raise MapError(
            f'{path}: is not PGM; other images need the extra "maps": pip install "vehicled[maps]"'
        ) from None
    try:
        with warnings.catch_warnings():
            # Pillow warns at 90 million pixels and refuses twice as many, both above the limit
            # here.
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(BytesIO(data))
        with image:
            _bounded(path, *image.size)
            # Transparent pixels are unknown and are drawn on white, like free ones.
            with image.convert("RGBA") as coloured:
                flat = Image.new("RGBA", coloured.size, "white")
                flat.alpha_composite(coloured)
            grey: npt.NDArray[np.float64] = np.asarray(flat.convert("RGB"), dtype=np.float64).mean(
                axis=2
            )
            return grey
    except (Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise MapError(f"{path}: more than {MAX_CELLS} cells: {SMALLER}") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise MapError(
            f"{path}: is not a readable image ({error}); save the map as PGM or PNG"
        ) from None


def _pgm(path: Path, data: bytes) -> npt.NDArray[np.float64]:
    head = re.match(
        rb"(P[25])((?:\s|#[^\n]*\n)+)(\d+)((?:\s|#[^\n]*\n)+)(\d+)((?:\s|#[^\n]*\n)+)(\d+)\s",
        data[:4096],
    )
    if head is None:
        raise MapError(f"{path}: the PGM header is damaged; save the map again")
    columns, rows, most = int(head[3]), int(head[5]), int(head[7])
    _bounded(path, columns, rows)
    if not 0 < most < 65_536:
        raise MapError(
            f"{path}: the PGM header gives a maximum value of {most}; it must be 1 to 65535"
        )
    count = columns * rows
    if head[1] == b"P5":
        kind = np.dtype(np.uint8 if most < 256 else ">u2")
        if len(data) - head.end() < count * kind.itemsize:
            raise MapError(
                f"{path}: ends after {len(data)} bytes, {columns} x {rows} pixels need more; "
                "it was cut short"
            )
        values = np.frombuffer(data, kind, count, head.end()).astype(np.float64)
    else:
        words = data[head.end() :].split()
        if len(words) < count or not all(word.isdigit() for word in words[:count]):
            raise MapError(
                f"{path}: has no {count} numbers after its header; it was cut short or is not PGM"
            )
        values = np.array(words[:count], dtype=np.float64)
    return (np.minimum(values, most) * (255.0 / most)).reshape(rows, columns)


def _bounded(path: Path, columns: int, rows: int) -> None:
    if not 0 < columns * rows <= MAX_CELLS:
        raise MapError(
            f"{path}: {columns} x {rows} cells; 1 to {MAX_CELLS} are possible: {SMALLER}"
        )
