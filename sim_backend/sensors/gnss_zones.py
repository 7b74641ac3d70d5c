"""Reader of GNSS reception zones from GeoJSON: each Polygon is a zone, its properties are the keys
of ``[[sim.gnss.zones]]``."""

from typing import Any

from msgspec import field
from msgspec.structs import replace

from sim_backend.scene.anchor import bytes_of, expanded
from sim_backend.scene.errors import SceneError
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError
from vehicled.paths.geojson import GeoFeature, features_of, map_ring
from vehicled.profile.collect import Collector
from vehicled.profile.gnss import GnssModel, GnssZone
from vehicled.profile.problems import KeyPath, ProfileError
from vehicled.profile.table import Table

KIND = "GeoJSON with polygons"


class ZonesFile(Table, frozen=True, kw_only=True):
    """Content of a zones file, in metres of the map."""

    zones: list[GnssZone] = field(default_factory=list)


def with_zones(model: GnssModel, datum: Datum) -> GnssModel:
    """Return the model with the zones of its file appended to its own. Raises
    :class:`sim_backend.scene.errors.SceneError`."""
    if not model.zones_file:
        return model
    path = expanded(model.zones_file)
    zones = read_zones(bytes_of(path, "sim.gnss.zones_file"), str(path), datum)
    return replace(model, zones=[*model.zones, *zones], zones_file="")


def read_zones(data: bytes, file_name: str, datum: Datum) -> list[GnssZone]:
    """Read the zones of a file's text. Raises :class:`sim_backend.scene.errors.SceneError` with all
    mistakes in the properties."""
    try:
        entries = [
            _entry(file_name, feature, datum) for feature in features_of(data, file_name, KIND)
        ]
    except CourseError as error:
        raise SceneError(str(error)) from None

    def place(key: KeyPath) -> str:
        return f"feature {int(key[1]) + 1}" if len(key) > 1 else ""

    collector = Collector(place, {})
    file = collector.build(ZonesFile, {"zones": entries})
    if collector.problems:
        raise SceneError(str(ProfileError(collector.problems, file_name)))
    found: ZonesFile = file
    return found.zones


def _entry(file_name: str, feature: GeoFeature, datum: Datum) -> dict[str, Any]:
    """Return one zone as a table of the profile."""
    place, rings = f"{file_name}, {feature.place}", feature.geometry.get("coordinates")
    if feature.geometry.get("type") != "Polygon":
        raise CourseError(f"{place}: is not a Feature with a Polygon; draw the zone as one")
    if not isinstance(rings, list) or len(rings) != 1:
        raise CourseError(f"{place}: a zone is one ring without holes; split it into several")
    return {**feature.properties, "corners_m": map_ring(place, rings[0], datum)}
