"""Common parts of GeoJSON files (RFC 7946): features, and conversion of positions to the map.

A position in a file is longitude and latitude in degrees. On the map it is [east, north] in metres,
a list as in the tables of a profile. Errors are :class:`~vehicled.paths.errors.CourseError` with
place and remedy.
"""

from collections.abc import Mapping
from math import radians
from typing import Any, NamedTuple

from vehicled.paths.course_file import json_of, number, shown
from vehicled.paths.datum import Datum
from vehicled.paths.errors import CourseError


class GeoFeature(NamedTuple):
    """One feature of a file."""

    place: str
    """Place for error messages: "feature 2"."""
    geometry: Mapping[str, Any]
    """Empty when it has none."""
    properties: Mapping[str, Any]


def features_of(data: bytes, file_name: str, kind: str) -> list[GeoFeature]:
    """Return the features of a file; a bare geometry is one without properties. ``kind`` names the
    expected file. Raises CourseError."""
    root = json_of(data, file_name, kind)
    crs = root.get("crs")
    if crs is not None and not any(known in repr(crs) for known in ("CRS84", "4326", "4979")):
        raise CourseError(
            f'{file_name}: "crs" is {shown(crs)}; export the file in WGS 84 (longitude, '
            "latitude in degrees)"
        )
    features = root.get("features") if root.get("type") == "FeatureCollection" else [root]
    if not isinstance(features, list):
        raise CourseError(
            f"{file_name}: the FeatureCollection has no list of features; expected {kind}"
        )
    return [
        _feature(file_name, f"feature {index}", feature)
        for index, feature in enumerate(features, 1)
    ]


def _feature(file_name: str, place: str, feature: object) -> GeoFeature:
    if not isinstance(feature, dict):
        raise CourseError(
            f"{file_name}, {place}: {shown(feature)} is no feature; draw it again or delete it"
        )
    geometry = feature.get("geometry") if feature.get("type", "Feature") == "Feature" else feature
    properties = feature.get("properties") or {}
    if not isinstance(properties, dict):
        raise CourseError(
            f"{file_name}, {place}: properties is {shown(properties)}; write an object, or "
            "null for none"
        )
    return GeoFeature(place, geometry if isinstance(geometry, dict) else {}, properties)


def degrees_of(place: str, positions: object) -> list[tuple[float, float]]:
    """Return longitude and latitude of each position. Raises CourseError if the value is no list of
    positions."""
    if not isinstance(positions, list):
        raise CourseError(
            f"{place}: coordinates is {shown(positions)}; expected a list of [longitude, latitude]"
        )
    return [
        _degrees(f"{place} position {index}", position)
        for index, position in enumerate(positions, 1)
    ]


def _degrees(place: str, position: object) -> tuple[float, float]:
    pair = [number(value) for value in position[:2]] if isinstance(position, list) else []
    if len(pair) != 2 or pair[0] is None or pair[1] is None:
        raise CourseError(
            f"{place}: {shown(position)} is not [longitude, latitude]; correct or delete it"
        )
    return pair[0], pair[1]


def map_position(place: str, position: object, datum: Datum) -> list[float]:
    """Return a position on the map without its height. Raises CourseError."""
    return _on_map(place, _degrees(place, position), datum)


def map_positions(place: str, positions: object, datum: Datum) -> list[list[float]]:
    """Return a line of positions on the map. Raises CourseError."""
    return [
        _on_map(f"{place} position {index}", pair, datum)
        for index, pair in enumerate(degrees_of(place, positions), 1)
    ]


def map_ring(place: str, positions: object, datum: Datum) -> list[list[float]]:
    """Return the corners of a ring on the map, without the last, which repeats the first. Raises
    CourseError."""
    corners = map_positions(place, positions, datum)
    return corners[:-1] if len(corners) > 1 and corners[0] == corners[-1] else corners


def _on_map(place: str, pair: tuple[float, float], datum: Datum) -> list[float]:
    longitude, latitude = pair
    if not (abs(longitude) <= 180.0 and abs(latitude) <= 90.0):
        raise CourseError(
            f"{place}: [{longitude:.7g}, {latitude:.7g}] is not on the earth; write "
            "[longitude, latitude] in degrees"
        )
    east, north, _ = datum.to_enu(radians(latitude), radians(longitude), datum.height_m)
    return [east, north]
