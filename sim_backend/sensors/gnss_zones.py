"""Zones of bad reception out of a GeoJSON file: every Polygon is one, its properties are the keys of ``[[sim.gnss.zones]]``."""

from math import radians
from pathlib import Path
from typing import Any

from msgspec import field
from msgspec.structs import replace

from sim_backend.scene.errors import SceneError
from vehicled.paths.datum import Datum
from vehicled.paths.drawing import json_of, number, shown
from vehicled.paths.errors import CourseError
from vehicled.profile.collect import Collector
from vehicled.profile.gnss import GnssModel, GnssZone
from vehicled.profile.problems import KeyPath, ProfileError
from vehicled.profile.table import Table

KIND = "GeoJSON with polygons"
MAX_BYTES = 16 * 1024 * 1024


class ZonesFile(Table, frozen=True, kw_only=True):
    """What such a file holds, in metres of the map."""

    zones: list[GnssZone] = field(default_factory=list)


def with_zones(model: GnssModel, datum: Datum) -> GnssModel:
    """The model with the zones of its file behind its own. Raises :class:`sim_backend.scene.errors.SceneError`."""
    if not model.zones_file:
        return model
    path = Path(model.zones_file).expanduser()
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SceneError(f"{path}: cannot be read ({error.strerror}); sim.gnss.zones_file counts from the profile") from None
    if len(data) > MAX_BYTES:
        raise SceneError(f"{path}: larger than {MAX_BYTES >> 20} MiB; draw fewer corners")
    return replace(model, zones=[*model.zones, *read_zones(data, str(path), datum)], zones_file="")


def read_zones(data: bytes, file_name: str, datum: Datum) -> list[GnssZone]:
    """Zones of a file's text. Raises :class:`sim_backend.scene.errors.SceneError` with every mistake in the properties."""
    try:
        root = json_of(data, file_name, KIND)
    except CourseError as error:
        raise SceneError(str(error)) from None
    features = root.get("features") if root.get("type") == "FeatureCollection" else [root]
    if not isinstance(features, list):
        raise SceneError(f"{file_name}: the FeatureCollection has no list of features; expected {KIND}")
    entries = [_entry(f"{file_name}, feature {index}", feature, datum) for index, feature in enumerate(features, 1)]

    def place(key: KeyPath) -> str:
        return f"feature {int(key[1]) + 1}" if len(key) > 1 else ""

    collector = Collector(place, {})
    file = collector.build(ZonesFile, {"zones": entries})
    if collector.problems:
        raise SceneError(str(ProfileError(collector.problems, file_name)))
    found: ZonesFile = file
    return found.zones


def _entry(place: str, feature: object, datum: Datum) -> dict[str, Any]:
    """One zone as a table of the profile."""
    geometry = feature.get("geometry") if isinstance(feature, dict) and feature.get("type") == "Feature" else None
    properties = feature.get("properties") or {} if isinstance(feature, dict) else {}
    if not isinstance(geometry, dict) or geometry.get("type") != "Polygon" or not isinstance(properties, dict):
        raise SceneError(f"{place}: is no Feature with a Polygon; draw the zone as one")
    rings = geometry.get("coordinates")
    if not isinstance(rings, list) or len(rings) != 1 or not isinstance(rings[0], list):
        raise SceneError(f"{place}: a zone is one ring without holes; draw it in pieces")
    corners = [_corner(place, position, datum) for position in rings[0]]
    if len(corners) > 1 and corners[0] == corners[-1]:
        corners.pop()
    return {**properties, "corners_m": corners}


def _corner(place: str, position: object, datum: Datum) -> list[float]:
    pair = [number(v) for v in position[:2]] if isinstance(position, list) else []
    if len(pair) != 2 or pair[0] is None or pair[1] is None or not (abs(pair[0]) <= 180.0 and abs(pair[1]) <= 90.0):
        raise SceneError(f"{place}: {shown(position)} is not [longitude, latitude] in degrees; correct it")
    east, north, _ = datum.to_enu(radians(pair[1]), radians(pair[0]), datum.height_m)
    return [east, north]
