"""Rasters of heights or friction: GeoTIFF, grey PNG, CSV. First row north, as images are.

Where a file does not say where it lies, ``<file>.toml`` beside it does::

    step_m = 0.5             # from pixel to pixel
    x_m = 0.0                # middle of the south-west pixel
    y_m = 0.0
    scale = 0.001            # value = offset + scale * pixel; 1 and 0 where left out
    offset = 0.0
"""

import csv
import warnings
from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from sim_backend.terrain.clouds import needs, parser_message
from sim_backend.terrain.errors import TerrainError
from sim_backend.terrain.raster import MAX_NODES, Raster, check_size
from vehicled.core.arrays import Array
from vehicled.profile import ProfileError, profile_files, toml_text
from vehicled.profile.collect import Collector
from vehicled.profile.table import Table

SIDECAR = ".toml"
SMALLER = "cut it, or use a coarser one"
GEOGRAPHIC = 2
PIXEL_IS_POINT = 2
NO_DATA_TAG = "GDAL_NODATA"
SQUARE = 1e-6


class Sidecar(Table, frozen=True, kw_only=True):
    """Georeference of a raster, in a file beside it."""

    step_m: Annotated[float, Meta(gt=0.0)]
    x_m: float
    y_m: float
    scale: float = 1.0
    offset: float = 0.0


def _sidecar(path: Path) -> Sidecar:
    sidecar_path = path.with_name(path.name + SIDECAR)
    if not sidecar_path.exists():
        raise TerrainError(
            f"{path}: has no georeference; write {sidecar_path.name} beside it, with step_m, "
            "x_m and y_m"
        )
    try:
        text = profile_files.read(sidecar_path)
        table = toml_text.parse(text, str(sidecar_path))
    except ProfileError as error:
        raise TerrainError(str(error)) from None
    collector = Collector(lambda key: toml_text.Places(text, ()).of(key), {})
    found: Sidecar = collector.build(Sidecar, table)
    if collector.problems:
        raise TerrainError(str(ProfileError(collector.problems, str(sidecar_path))))
    return found


def _placed(path: Path, pixels: Array) -> Raster:
    """Georeference a raster by the file beside it; ``pixels`` north row first."""
    where = _sidecar(path)
    with np.errstate(
        over="ignore", invalid="ignore"
    ):  # Overflow becomes infinite, which is refused later.
        values = where.offset + where.scale * pixels[::-1]
    return Raster(
        values=np.ascontiguousarray(values), x_m=where.x_m, y_m=where.y_m, step_m=where.step_m
    )


def _png(path: Path) -> Raster:
    try:
        from PIL import Image
    except ImportError:
        raise needs(path, "pillow") from None
    try:
        with warnings.catch_warnings():
            # Silence Pillow's warning of large images; the limit below is stricter.
            warnings.simplefilter("ignore")
            with Image.open(path) as image:
                check_size(str(path), image.height, image.width, SMALLER)
                if image.mode not in ("L", "I", "I;16", "I;16B", "F", "1"):
                    raise TerrainError(
                        f"{path}: is a colour image (mode {image.mode}); save it in grey, 8 or "
                        "16 bit"
                    )
                pixels = np.asarray(image, dtype=np.float64)
    except TerrainError:
        raise
    except Image.DecompressionBombError:
        raise TerrainError(f"{path}: more than {MAX_NODES} nodes: {SMALLER}") from None
    except Exception as error:  # noqa: BLE001 - whatever a foreign parser raises on a damaged file, the file is to blame
        raise TerrainError(
            f"{path}: is not a readable image ({parser_message(error)}); save it as grey PNG"
        ) from None
    return _placed(path, pixels)


def _csv(path: Path) -> Raster:
    rows: list[list[float]] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, words in enumerate(csv.reader(file), start=1):
                if not words:
                    continue
                try:
                    rows.append([float(word) if word.strip() else float("nan") for word in words])
                except ValueError:
                    raise TerrainError(
                        f"{path}, line {number}: a cell is not a number; leave holes empty"
                    ) from None
                if len(rows[-1]) != len(rows[0]):
                    raise TerrainError(
                        f"{path}, line {number}: {len(rows[-1])} cells, the first line has "
                        f"{len(rows[0])}"
                    )
                check_size(str(path), len(rows), len(rows[0]), SMALLER)
    except OSError as error:
        raise TerrainError(f"{path}: cannot be read ({error.strerror})") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise TerrainError(f"{path}: is not CSV text ({parser_message(error)})") from None
    if not rows:
        raise TerrainError(f"{path}: the file has no numbers")
    return _placed(path, np.array(rows))


def _tiff(path: Path) -> Raster:
    try:
        import tifffile
    except ImportError:
        raise needs(path, "tifffile") from None
    try:
        with tifffile.TiffFile(path) as file:
            page: Any = file.pages[0]
            if len(page.shape) != 2:
                raise TerrainError(
                    f"{path}: has {page.shape} values; a raster of heights has one band"
                )
            check_size(str(path), page.shape[0], page.shape[1], SMALLER)
            stored = page.asarray()
            tags: dict[str, Any] = dict(page.geotiff_tags or {}) if page.is_geotiff else {}
            no_data = page.tags.get(NO_DATA_TAG)
    except TerrainError:
        raise
    except Exception as error:  # noqa: BLE001 - as above
        raise TerrainError(
            f"{path}: is not a readable TIFF ({parser_message(error)}); export it again"
        ) from None
    pixels = stored.astype(np.float64)
    if no_data is not None:
        try:
            pixels[pixels == _as_stored(float(str(no_data.value).strip("\0 ")), stored.dtype)] = (
                np.nan
            )
        except ValueError:
            raise TerrainError(
                f"{path}: its {NO_DATA_TAG} is {str(no_data.value)[:40]!r}, which is not a number"
            ) from None
    pixels[~np.isfinite(pixels)] = np.nan
    return _located(path, pixels, tags) if tags else _placed(path, pixels)


def _as_stored(value: float, kind: "np.dtype[Any]") -> float:
    """Return a number from text, rounded to the pixel type."""
    if kind.kind != "f":
        return value
    limits = np.finfo(kind)
    return float(kind.type(np.clip(value, float(limits.min), float(limits.max))))


def _located(path: Path, pixels: Array, tags: dict[str, Any]) -> Raster:
    """Georeference a raster by the tags of a GeoTIFF (OGC 19-008r4)."""
    if tags.get("GTModelTypeGeoKey") == GEOGRAPHIC:
        raise TerrainError(
            f"{path}: is in degrees; convert it to metres: gdalwarp -t_srs EPSG:326xx in.tif "
            "out.tif"
        )
    scale, ties = tags.get("ModelPixelScale"), tags.get("ModelTiepoint")
    if scale is None or ties is None or len(scale) < 2 or len(ties) < 6:
        raise TerrainError(
            f"{path}: has no plain scale and tie point (turned, or warped); rectify it: "
            "gdalwarp in.tif out.tif"
        )
    if not (scale[0] > 0.0 and isfinite(scale[0]) and abs(scale[1] / scale[0] - 1.0) < SQUARE):
        raise TerrainError(
            f"{path}: its pixels are {scale[0]:g} x {scale[1]:g} m; make them square: gdalwarp "
            "-tr S S in.tif out.tif"
        )
    half = 0.0 if tags.get("GTRasterTypeGeoKey") == PIXEL_IS_POINT else 0.5
    step_m, (column, row, _, x, y) = float(scale[0]), ties[:5]
    west_m = float(x) + (half - float(column)) * step_m
    north_m = float(y) - (half - float(row)) * step_m
    south_m = north_m - (pixels.shape[0] - 1) * step_m
    return Raster(values=np.ascontiguousarray(pixels[::-1]), x_m=west_m, y_m=south_m, step_m=step_m)


READERS: dict[str, Callable[[Path], Raster]] = {
    ".tif": _tiff,
    ".tiff": _tiff,
    ".png": _png,
    ".csv": _csv,
}
"""Readers by file name extension."""
